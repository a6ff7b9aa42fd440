"""Intervals for the weights of a fitted model: computed from the rows that its runs keep, stored in the model."""

from __future__ import annotations

import numbers
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..data.slots import SeenColumns
from ..engine.run import Run
from ..inference.halves import is_first_half, selected_on_first_half
from ..inference.lanes import check_rows, lanes_of
from ..inference.record import Intervals
from ..util.validation import is_number

_KIND = [
    ("feature", object),
    ("output", object),
    ("estimate", np.float64),
    ("error", np.float64),
    ("low", np.float64),
    ("high", np.float64),
]


def intervals_of(model: Any, level: float, also: Iterable[Any], split: bool) -> Intervals:
    """Return the intervals of a fitted model, which are also stored in it.

    Those that are stored are returned if they are the same, or if there are no rows to compute others from.
    """
    if not is_number(level, 0.0, 1.0) or level in (0.0, 1.0):
        raise ValueError(f"intervals={level!r}: it must be a number between 0 and 1, such as 0.95.")
    if isinstance(also, str | numbers.Integral):
        raise ValueError(f"also={also!r}: it must be a list of names or of column numbers.")
    solved, level = model.convert(), float(level)
    named = np.unique(np.array([_slot_of(model, each) for each in also], np.int64))
    stored, state = solved.intervals, model.fit_state
    if not state.runs:
        return _stored(stored, level, named, split)
    if state.times is not None:
        raise ValueError("intervals take all rows alike, and half_life lets old ones fade: fit without half_life.")
    if not (stored and stored.is_split == split and _asks_the_same(stored, named)):
        stored = _computed(model, level, named, split)
    state.keep_intervals(stored._replace(level=level))
    return state.model.intervals


def _stored(stored: Intervals | None, level: float, named: np.ndarray, split: bool) -> Intervals:
    """Return the intervals of a model without rows; raise a ValueError if it has none of this kind."""
    if stored is None:
        raise ValueError(
            "this model has no intervals, and no rows to compute them from: call summary(intervals=0.95) before "
            "finalize, save or pickle, or train with --intervals 0.95."
        )
    if stored.is_split != split or not np.isin(named, stored.features).all():
        raise ValueError(
            f"this model has no rows, and its intervals are of another kind (split={stored.is_split}, "
            "other features): ask for those, or compute others before finalize, save or pickle."
        )
    return stored._replace(level=level)


def _asks_the_same(stored: Intervals, named: np.ndarray) -> bool:
    """Return whether intervals are those of the selected features and these ones."""
    further = np.unique(stored.features[~stored.is_selected])
    return bool(np.isin(further, named).all() and np.isin(named, stored.features).all())


def _computed(model: Any, level: float, named: np.ndarray, split: bool) -> Intervals:
    """Return the intervals of all outputs."""
    solved, runs = model.convert(), model.fit_state.begun()
    shares = np.atleast_2d(model.arranged(np.eye(sum(run.problem.m for run in runs))))
    lanes = lanes_of(runs, shares)
    is_selected = _selected(solved.coef, runs, shares, split)
    entries, rows, sampled = [], [], []
    for k, (lane, own) in enumerate(zip(lanes, is_selected, strict=True)):
        if split:
            lane = lane.among(np.flatnonzero(~is_first_half(lane.run.seed, lane.rows.numbers)))
        columns = np.union1d(own, named).astype(np.int64)
        if not len(columns):
            continue
        check_rows(len(columns), len(lane.y))
        start = solved.coef[[k]][:, columns].toarray()[0]
        found = lane.estimates(columns, start, float(solved.intercept[k]), split)
        entries.append((np.full(len(columns), k), columns, np.isin(columns, own), *found))
        rows.append(len(lane.y) if split else max(lane.rows_of_stream, len(lane.y)))
        sampled.append(len(lane.y))
    parts = [np.concatenate(each) for each in zip(*entries, strict=True)] if entries else _nothing()
    counts = min(rows, default=0), min(sampled, default=0), max(lane.seen for lane in lanes)
    return Intervals(level, bool(split), *counts, *parts)


def _nothing() -> list[np.ndarray]:
    """Return the arrays of intervals without entries."""
    whole, real = np.empty(0, np.int64), np.empty(0)
    return [whole, whole, whole.astype(bool), real, real, real]


def _selected(coef: Any, runs: list[Run], shares: np.ndarray, split: bool) -> list[np.ndarray]:
    """Return the selected features of each output: those of the model, or those of one half of the rows."""
    if not split:
        return [coef.indices[coef.indptr[k] : coef.indptr[k + 1]] for k in range(len(shares))]
    is_selected = selected_on_first_half(runs)
    return [np.flatnonzero(is_selected[:, int(np.argmax(each))]) for each in shares]


def _slot_of(model: Any, feature: Any) -> int:
    """Return the slot of a feature that is named, or given by its column; raise a ValueError if there is none."""
    features, names = model.fit_state.features, model.known_names()
    if model.fit_state.lists_features:
        known = {name: slot for slot, name in enumerate(features.names)}
        if feature in known:
            return known[feature]
        raise ValueError(f"also: this model has no feature {feature!r}.")
    column = feature
    if isinstance(feature, str):
        by_column = names.items() if isinstance(names, Mapping) else enumerate(() if names is None else names)
        where = [number for number, name in by_column if name == feature]
        if names is None and re.fullmatch(r"x\d+", feature):
            where = [int(feature[1:])]
        if not where:
            raise ValueError(f"also: this model has no column {feature!r}.")
        column = where[0]
    if not isinstance(column, numbers.Integral) or not 0 <= int(column) < model.n_features_in_:
        raise ValueError(f"also: this model has no column {feature!r}.")
    slot = int(features.slots_of(np.array([column]))[0]) if isinstance(features, SeenColumns) else int(column)
    if slot < 0:
        raise ValueError(f"also: column {feature!r} has not occurred in any row.")
    return slot


def table_of(model: Any, found: Intervals) -> np.ndarray:
    """Return intervals as a structured array: feature, output, estimate, error, low, high."""
    names, outputs = model.names_of_slots(found.features), model.output_names()
    called = [outputs[k] for k in found.outputs.tolist()]
    low, high = found.bounds(found.level)
    table = np.empty(len(names), _KIND)
    for field, column in zip(
        table.dtype.names or (), (names, called, found.weights, found.errors, low, high), strict=True
    ):
        table[field] = column
    return table


def notes_of(model: Any, found: Intervals) -> list[str]:
    """Return what a reader of the intervals should know, in a line or two."""
    if not len(found.features):
        return ["There are no intervals, since no feature was selected or named."]
    lines = [f"{100.0 * found.level:g}% intervals of the weights without a penalty, {found.source}."]
    coef = model.convert().coef
    outputs = np.repeat(np.arange(coef.shape[0]), np.diff(coef.indptr))
    have = set(zip(found.outputs.tolist(), found.features.tolist(), strict=True))
    if not have.issuperset(zip(outputs.tolist(), coef.indices.tolist(), strict=True)):
        lines.append("Features that were not selected there have no interval.")
    unknown = model.names_of_slots(np.unique(found.features[np.isnan(found.errors)]))
    if unknown:
        some = ", ".join(unknown[:5]) + (f" and {len(unknown) - 5:,} more" if len(unknown) > 5 else "")
        lines.append(
            f"No interval for {some}: among these rows their weights are not decided (a combination of other features, "
            "or a feature that separates the targets)."
        )
    return lines
