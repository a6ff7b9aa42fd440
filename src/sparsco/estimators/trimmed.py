"""Streams with a bound on their features: rows are learned up to the next boundary, where features leave."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..data.rows import Matrix
from ..data.trimming import Placed, Trimming
from ..engine.growth import keep_features
from ..engine.long_stream import LongStream
from ..engine.run import PILOT_ROWS
from .fit_state import FitState


class _Next(NamedTuple):
    """The next rows of a stream; their columns are places among the keys, which are names or columns."""

    keys: Any
    rows: Matrix
    y: np.ndarray
    weights: np.ndarray | None
    times: np.ndarray | None
    is_repeat_pass: bool

    def among(self, order: np.ndarray) -> _Next:
        """Return some of the rows, in an order."""
        weights, times = (None if part is None else part[order] for part in (self.weights, self.times))
        return self._replace(rows=self.rows.take(order), y=self.y[order], weights=weights, times=times)


def learn_next_bounded(
    model: Any,
    matrix: Matrix,
    y: np.ndarray,
    weights: np.ndarray | None,
    is_repeat_pass: bool,
    order: np.ndarray | None,
    times: np.ndarray | None,
) -> None:
    """Learn the next rows of a stream of columns, or those of them in ``order``."""
    if model.fit_state.has_names:
        raise ValueError(
            "the columns of X are the names of this stream, which change when features leave: use learn_one."
        )
    features = model.fit_state.features
    features.width = model.n_features_in_
    following = _Next(None, matrix, y, weights, times, is_repeat_pass)
    if order is not None:
        following = following.among(order)
    keys, rows = features.by_key(following.rows)
    _learn(model, following._replace(keys=keys, rows=rows))


def learn_queued_bounded(
    model: Any, keys: Any, rows: Matrix, y: np.ndarray, weights: np.ndarray | None, times: np.ndarray | None
) -> None:
    """Learn the queued examples of a stream; the columns of ``rows`` are places among names or columns, the keys."""
    _learn(model, _Next(keys, rows, y, weights, times, is_repeat_pass=False))


def _learn(model: Any, following: _Next) -> None:
    """Learn the next rows of a stream; features leave where they are due."""
    if following.weights is not None and not following.weights.all():
        following = following.among(np.flatnonzero(following.weights))
    state, rows = model.fit_state, following.rows
    trimming: Trimming = state.trimming
    if state.times is not None:  # before any row is learned
        state.times.copy().take(np.arange(len(rows)), len(rows), following.times)
    slot_of, at = state.features.slots_of(following.keys), 0
    while at < len(rows):
        first, most = state.runs[0], trimming.most
        is_collecting = first.pilot is None
        if is_collecting:
            stop, is_bounded = at + PILOT_ROWS - first.examples, False
        else:
            if trimming.until_due == 0:
                slot_of = _left(state, slot_of, None)
            stop, is_bounded = at + trimming.until_due, True
        placed = trimming.place(rows, at, min(stop, len(rows)), slot_of, len(state.features), is_bounded)
        at = _learn_placed(model, following, at, placed)
        if is_collecting and first.pilot is not None and most is not None and len(state.features) > most:
            slot_of = _left(state, slot_of, 0)
        if placed.needed:
            slot_of = _left(state, slot_of, placed.needed)
            placed = trimming.place(rows, at, at + 1, slot_of, len(state.features), is_bounded=False)
            at = _learn_placed(model, following, at, placed)
    if state.described is not None:
        state.described.forget_names(state.features.to_columns(np.arange(len(state.features))))


def _learn_placed(model: Any, following: _Next, first: int, placed: Placed) -> int:
    """Learn the rows that have slots, from ``first`` on, and return the row behind them."""
    if placed.stop == first:
        return first
    features, part, own = model.fit_state.features, following.rows.part(first, placed.stop), slice(first, placed.stop)
    keys, new = following.keys, placed.new
    features.make_slots(keys[new] if isinstance(keys, np.ndarray) else [keys[place] for place in new.tolist()])
    matrix = features.in_order(Matrix(part.indptr, placed.slots, part.data, features.room))
    weights, times = (None if each is None else each[own] for each in (following.weights, following.times))
    model.learn_rows(matrix, following.y[own], weights, following.is_repeat_pass, times=times)
    return placed.stop


def _left(state: FitState, slot_of: np.ndarray, needed: int | None) -> np.ndarray:
    """Let features leave, and return the slots of the keys.

    They leave for an example that needs room for new ones, for the bound alone (0), or as unseen for long (None).
    """
    trimming: Any = state.trimming
    used = len(state.features)
    is_selected = _has_weight(state, used)
    kept = trimming.without_idle(is_selected) if needed is None else trimming.with_room(is_selected, needed)
    if len(kept) == used:
        return slot_of
    trimming.leave(kept, is_selected)
    _keep(state, kept)
    now = np.full(used + 1, -1, np.int64)
    now[kept] = np.arange(len(kept))
    return now[slot_of]


def warn_if_crowded(state: FitState) -> None:
    """Warn if there was no room for all features that had a weight, when features last left."""
    if state.trimming is not None and state.trimming.is_crowded:
        state.runs[0].warn(
            f"max_features={state.trimming.most} has no room for all features that have a weight, and some of them "
            "were forgotten: give a larger max_features, or a larger alpha."
        )


def _has_weight(state: FitState, d: int) -> np.ndarray:
    """Return which of d slots have a nonzero weight in an iterate; none while there is no L1 term."""
    found = np.zeros(d, bool)
    if state.long is not None or state.runs[0].problem.penalty.has_strength:
        found[state.selected()] = True
    return found


def _keep(state: FitState, kept: np.ndarray) -> None:
    """Let the other features leave the training state; those that stay, by ascending slots, get the slots 0, 1, ..."""
    d = len(state.features)
    for run in state.runs:
        keep_features(run, kept)
    if isinstance(state.long, LongStream):  # the others have a promise, and are refused
        state.long.keep(kept)
    if state.held is not None:
        state.held.keep(kept, d)
    state.features = state.features.only(kept)
