"""The columns that can be judged, how they are correlated, and probes.

A column that never varies, or occurs in few rows only, is not judged.  Of columns that are the same but for scale and
shift, the first is judged, and stands for all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..choice.problem import Task, entries_of
from ..data.randomness import Purpose, bits, uniform
from ..data.rows import Matrix
from ..solver.columns import ByColumn, gradient
from ..solver.units import column_sums

LEAST_ROWS = 5
"""The least number of rows in which a column must occur: a few rows cannot be halved."""
_LEAST_VARIANCE = 1e-10
"""The least variance of a column, as a share of its mean square: below that it is rounding."""
_SAME = 1e-6
"""Two columns are the same if random sums of their standardised values differ by at most this."""
COMPARED_COLUMNS, COMPARED_ROWS = 300, 2000
"""The columns and rows from which the mean correlation is estimated."""
STRONG = 0.7
"""The correlation from which two columns may stand for each other."""
_LOOKED_AT = 1_000_000
"""The nonzeros of the rows on which correlations of selected columns are computed."""


class Judged(NamedTuple):
    """The columns of a task by whether they can be judged."""

    columns: np.ndarray
    """The columns that are judged."""
    spreads: np.ndarray
    """Their standard deviations."""
    constant: np.ndarray
    """The columns that never vary."""
    rare: np.ndarray
    """The columns that occur in too few rows."""
    same: dict[int, np.ndarray]
    """For columns that stand for others, those others."""

    def placed(self, columns: np.ndarray, d: int) -> Judged:
        """Return these columns by their numbers among d others: column j is ``columns[j]``.

        Those of the d that are neither judged nor rare never vary.
        """
        same = {int(columns[one]): columns[others] for one, others in self.same.items()}
        judged, rare = columns[self.columns], columns[self.rare]
        constant = np.setdiff1d(np.arange(d), np.concatenate([judged, rare, *same.values()]))
        return Judged(judged, self.spreads, constant, rare, same)


def judged_columns(task: Task, seed: int) -> Judged:
    """Return the columns of a task that can be judged, and those that cannot."""
    n = max(task.n, 1)
    counts, sums, squares = column_sums(task.indptr[:-1], task.indptr[1:], task.indices, task.data, task.d)
    variance = squares / n - np.square(sums / n)
    varies = variance > _LEAST_VARIANCE * squares / n
    is_rare = varies & (counts < LEAST_ROWS)
    columns = np.flatnonzero(varies & ~is_rare)
    spreads = np.sqrt(np.where(varies, variance, 1.0))
    first, same = _alike(task, columns, sums / n, spreads, seed)
    return Judged(first, spreads[first], np.flatnonzero(~varies), np.flatnonzero(is_rare), same)


def _alike(
    task: Task, columns: np.ndarray, means: np.ndarray, spreads: np.ndarray, seed: int
) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Return the first column of each set of columns that are the same but for scale and shift, and the others."""
    keys = np.empty((len(columns), 2))
    for k in range(2):
        draws = uniform(seed, Purpose.PROJECTION, 2 * task.numbers + k)
        totals = np.bincount(task.indices, np.repeat(draws, np.diff(task.indptr)) * task.data, task.d)
        keys[:, k] = (totals[columns] - draws.sum() * means[columns]) / (spreads[columns] * np.sqrt(max(task.n, 1)))
    keys *= np.where(keys[:, :1] < 0.0, -1.0, 1.0)  # opposite columns are the same, too
    order = np.lexsort((columns, keys[:, 1], keys[:, 0]))
    steps = np.abs(np.diff(keys[order], axis=0)).max(1, initial=0.0)
    close = steps <= _SAME * np.maximum(np.abs(keys[order[1:]]).max(1, initial=0.0), 1.0)
    if not close.any():
        return columns, {}
    sets = np.split(columns[order], np.flatnonzero(~close) + 1)
    same = {int(each.min()): np.sort(each)[1:] for each in sets if len(each) > 1}
    return np.setdiff1d(columns, np.concatenate([*same.values()])), same


def narrowed(task: Task, judged: Judged) -> Task:
    """Return the task with the columns that are judged, in units of their spreads."""
    return only(task, judged.columns)._replace(units=judged.spreads * task.units[judged.columns])


def in_spreads(task: Task) -> Task:
    """Return the task with its columns in units of their spreads; a column that does not vary keeps its unit."""
    _, sums, squares = column_sums(task.indptr[:-1], task.indptr[1:], task.indices, task.data, task.d)
    variance = (squares - np.square(sums) / max(task.n, 1)) / max(task.n, 1)
    spreads = np.sqrt(np.where(variance > 0.0, variance, 1.0))
    return task._replace(units=spreads * task.units)


def only(task: Task, columns: np.ndarray) -> Task:
    """Return the task with some of its columns."""
    rows = Matrix(task.indptr, task.indices, task.data, task.d).narrowed(columns)
    units = np.ascontiguousarray(task.units[columns])
    return task._replace(indptr=rows.indptr, indices=rows.indices, data=rows.data, units=units)


def with_probes(task: Task, seed: int) -> Task:
    """Return the task with a probe for each column: the same columns, of the rows in another order.

    Column d + j is the probe of column j.  Probes are correlated with each other like the columns, and cannot matter.
    """
    order = np.argsort(bits(seed, Purpose.PROBE, task.numbers), kind="stable")
    lengths = np.diff(task.indptr)
    indptr = np.zeros(task.n + 1, np.int64)
    np.cumsum(lengths + lengths[order], out=indptr[1:])
    indices, data = np.empty(indptr[-1], task.indices.dtype), np.empty(indptr[-1])
    own = np.repeat(indptr[:-1] - task.indptr[:-1], lengths) + np.arange(len(task.data))
    indices[own], data[own] = task.indices, task.data
    entries = entries_of(task.indptr, order)
    starts = indptr[:-1] + lengths
    ends = np.cumsum(lengths[order])
    to = np.repeat(starts - (ends - lengths[order]), lengths[order]) + np.arange(len(entries))
    indices[to], data[to] = task.indices[entries] + task.indices.dtype.type(task.d), task.data[entries]
    return task._replace(indptr=indptr, indices=indices, data=data, units=np.tile(task.units, 2))


def delta_of(task: Task, seed: int) -> float:
    """Return the exponent of the measure on the strengths: 1 where columns are hardly correlated, towards 0 elsewhere.

    The mean correlation c of random columns, and the mean of each column's largest correlation, decide.
    """
    some = np.sort(np.argsort(bits(seed, Purpose.PATH, np.arange(task.d)), kind="stable")[:COMPARED_COLUMNS])
    rows = _spread_rows(task.n, COMPARED_ROWS)
    X, _ = only(task, some).by_column(rows)
    dense = X.dense().copy()
    dense -= dense.mean(0)
    norms = np.sqrt(np.square(dense).sum(0))
    dense = dense[:, norms > 0.0] / norms[norms > 0.0]
    if dense.shape[1] < 2:
        return 1.0
    correlations = np.abs(dense.T @ dense)
    np.fill_diagonal(correlations, 0.0)
    mean, largest = correlations.mean(), correlations.max(1).mean()
    if mean <= 0.05:
        return 1.0
    return 0.0 if mean >= 0.25 else float(np.clip(2.25 - 5.0 * mean - 2.0 * largest, 0.0, 1.0))


def _spread_rows(n: int, most: int) -> np.ndarray:
    """Return at most so many of n rows, evenly spread."""
    return np.arange(n) if n <= most else np.arange(most) * n // most


class Correlated(NamedTuple):
    """A selected column and the column that is most correlated with it."""

    column: int
    other: int
    correlation: float


def strongly_correlated(task: Task, selected: np.ndarray) -> list[Correlated]:
    """Return the selected columns that have a correlation of at least ``STRONG`` with another column."""
    rows = _spread_rows(task.n, max(int(_LOOKED_AT / task.row_nonzeros), COMPARED_ROWS))
    X, columns = task.by_column(rows)
    n, found, g = max(len(rows), 1), list[Correlated](), np.empty(X.d)
    sums, squares = (np.bincount(np.repeat(np.arange(X.d), np.diff(X.first)), each, X.d) for each in (X.x, X.x**2))
    spreads = np.sqrt(np.maximum(squares / n - np.square(sums / n), 0.0))
    varies = spreads > 0.0
    for column in selected[np.isin(selected, columns)].tolist():
        j = int(np.searchsorted(columns, column))
        if not varies[j]:
            continue
        gradient(X.first, X.rows, X.x, _standardised(X, j, n, spreads[j]), g)
        g[j] = 0.0
        strength = np.abs(g) / np.where(varies, n * spreads, np.inf)
        other = int(np.argmax(strength))
        if strength[other] >= STRONG:
            found.append(Correlated(column, int(columns[other]), float(strength[other])))
    return found


def _standardised(X: ByColumn, j: int, n: int, spread: float) -> np.ndarray:
    """Return the values of column j in all rows, with mean 0 and standard deviation 1."""
    part, dense = slice(X.first[j], X.first[j + 1]), np.zeros(n)
    dense[X.rows[part]] = X.x[part]
    return (dense - dense.mean()) / spread
