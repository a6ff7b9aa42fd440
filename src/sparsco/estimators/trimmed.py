"""Streams with a bound on their features: rows are learned up to the next boundary, where features leave."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.rows import Matrix
from ..data.trimming import Trimming
from ..engine.growth import keep_features
from ..engine.long_stream import LongStream
from ..engine.run import PILOT_ROWS
from .fit_state import FitState


def learn_next_bounded(
    model: Any,
    matrix: Matrix,
    y: np.ndarray,
    weights: np.ndarray | None,
    is_repeat_pass: bool,
    order: np.ndarray | None,
) -> None:
    """Learn the next rows of a stream of columns, or those of them in ``order``."""
    if model.fit_state.has_names:
        raise ValueError(
            "the columns of X are the names of this stream, which change when features leave: use learn_one."
        )
    features = model.fit_state.features
    features.width = model.n_features_in_
    if order is not None:
        matrix, y, weights = matrix.take(order), y[order], None if weights is None else weights[order]
    keys, rows = features.by_key(matrix)
    learn_bounded(model, keys, rows, y, weights, is_repeat_pass)


def learn_bounded(
    model: Any, keys: Any, rows: Matrix, y: np.ndarray, weights: np.ndarray | None, is_repeat_pass: bool = False
) -> None:
    """Learn the next rows of a stream; features leave where they are due.

    ``keys`` are names or columns, and the columns of ``rows`` are places among them.
    """
    if weights is not None and not weights.all():
        counted = np.flatnonzero(weights)
        rows, y, weights = rows.take(counted), y[counted], weights[counted]
    state = model.fit_state
    trimming: Trimming = state.trimming
    slot_of, at = state.features.slots_of(keys), 0
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
        at = _learn_placed(model, keys, rows, y, weights, at, placed, is_repeat_pass)
        if is_collecting and first.pilot is not None and most is not None and len(state.features) > most:
            slot_of = _left(state, slot_of, 0)
        if placed.needed:
            slot_of = _left(state, slot_of, placed.needed)
            placed = trimming.place(rows, at, at + 1, slot_of, len(state.features), is_bounded=False)
            at = _learn_placed(model, keys, rows, y, weights, at, placed, is_repeat_pass)
    if state.described is not None:
        state.described.forget_names(state.features.to_columns(np.arange(len(state.features))))


def _learn_placed(
    model: Any,
    keys: Any,
    rows: Matrix,
    y: np.ndarray,
    weights: np.ndarray | None,
    first: int,
    placed: Any,
    is_repeat_pass: bool,
) -> int:
    """Learn the rows that have slots, and return the row behind them."""
    if placed.stop == first:
        return first
    features, part = model.fit_state.features, rows.part(first, placed.stop)
    new = placed.new
    features.make_slots(keys[new] if isinstance(keys, np.ndarray) else [keys[place] for place in new.tolist()])
    matrix = features.in_order(Matrix(part.indptr, placed.slots, part.data, features.room))
    own = None if weights is None else weights[first : placed.stop]
    model.learn_rows(matrix, y[first : placed.stop], own, is_repeat_pass)
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
