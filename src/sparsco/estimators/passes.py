"""Passes over rows that are all there: each pass has its own order and is learned in slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data.randomness import Purpose
from ..data.rows import Matrix, check_numbers
from ..engine.at_once import starts_at_zero
from ..engine.run import Run
from ..offsets import numbers_of
from ..problem.state import Problem

_LEAST_START = 2000
"""The rows from which a polish is started, at least."""
_FEW = 64
"""The rows that are learned where a polish has a start of its own."""
_START_NONZEROS, _START_SHARE, _START_ROWS = 1_500_000, 8, 32
"""A polish is started from so many nonzeros, or one in so many rows; and at most so many rows for each column."""


def counted_rows(n: int, weights: np.ndarray | None) -> np.ndarray:
    """Return the numbers of the rows whose weight is not zero."""
    return np.arange(n) if weights is None else np.flatnonzero(weights)


def rows_for_start(matrix: Matrix, rows: np.ndarray, codes: np.ndarray, problem: Problem) -> np.ndarray:
    """Return the rows that are learned before a polish, evenly spaced.

    A polish needs a start that is not far from the optimum, and looks at all rows itself.  One of few rows, and one of
    groups, start without features.
    """
    if starts_at_zero(matrix, problem):
        return rows[:: max(len(rows) // _FEW, 1)]
    nonzeros, n = max(len(matrix.data), 1), len(matrix)
    most = max(n * _START_NONZEROS // nonzeros, n // _START_SHARE, 1)
    few = max(_START_ROWS * matrix.d, _LEAST_START) / _mixture(codes, problem)
    return rows[:: max(1, n // int(min(most, few)))]


def _mixture(codes: np.ndarray, problem: Problem) -> float:
    """Return twice the share of the rows that are not of the most frequent class, at most 1; for numbers 1."""
    if not problem.loss.classifies:
        return 1.0
    counts = np.bincount(numbers_of(codes).astype(np.int64))
    return float(np.clip(2.0 * (1.0 - counts.max() / len(codes)), 1e-6, 1.0))


def are_solved(matrix: Matrix, runs: Sequence[Run]) -> bool:
    """Return whether one pass is enough: new runs sample all of these rows, and their answers are the optima there."""
    cost = len(matrix.data) + len(matrix)
    return all(
        run.examples == 0 and run.conversion.solves(run.problem) and cost <= run.sample_nonzeros(run.conversion)
        for run in runs
    )


def order_of_pass(rows: np.ndarray, seed: int, shuffle: bool, number: int) -> np.ndarray:
    """Return the order in which a pass reads these rows."""
    if not shuffle:
        return rows
    words = np.array((seed, int(Purpose.SHUFFLE), number), np.uint32)  # a list would be made into words one by one
    return np.random.default_rng(words).permutation(rows)


def run_passes(
    rows: np.ndarray,
    count: int,
    learn: Callable[[np.ndarray, int], None],
    *,
    seed: int,
    shuffle: bool,
    first: int = 0,
    size: int = 1 << 18,
    is_done: Callable[[int], bool] = lambda epoch: False,
) -> None:
    """Learn rows in passes, until there were ``count`` passes or ``is_done`` returns True after a pass.

    ``learn`` gets the next few rows and the number of the pass, from 0.  ``first`` is the number of the first pass
    among all passes so far.
    """
    for epoch in range(count):
        order = order_of_pass(rows, seed, shuffle, first + epoch)
        for at in range(0, len(order), size):
            learn(order[at : at + size], epoch)
        if is_done(epoch):
            break


def starting_point(coef: Any, intercept: Any, d: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``coef_init`` and ``intercept_init``, of which one may be None, as w (d, m) and b (m,)."""
    coef = coef.toarray() if sp.issparse(coef) else coef
    w = np.zeros((m, d)) if coef is None else np.atleast_2d(np.asarray(coef, dtype=np.float64))
    b = np.zeros(m) if intercept is None else np.atleast_1d(np.asarray(intercept, dtype=np.float64))
    if w.shape != (m, d) or b.shape != (m,):
        raise ValueError(
            f"coef_init has the shape {w.shape} and intercept_init {b.shape}; they must have {(m, d)} and {(m,)}."
        )
    for name, data in (("coef_init", w), ("intercept_init", b)):
        check_numbers(data, name)
    return np.ascontiguousarray(w.T), b


def at_rows(values: np.ndarray, rows: np.ndarray, n: int) -> np.ndarray:
    """Return an array of n rows with these values at some of them, and 0 elsewhere."""
    every = np.zeros((n, *values.shape[1:]), values.dtype)
    every[rows] = values
    return every


def check_some_weight(weights: np.ndarray | None) -> None:
    """Raise a ValueError if all rows have the weight zero."""
    if weights is not None and not weights.any():
        raise ValueError("the weights of all rows are zero: there is nothing to learn from.")
