"""Columns in memory, and the second derivatives of a mean loss in them as some of the rows show them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data import row_sums
from ..data.rows import Matrix
from .group_descent import scale_pairs
from .row_pairs import pairs_of_rows

_BLOCK = 4096
"""The rows of a dense matrix that are multiplied together."""
_NONE = 1e-6
"""A column whose centred square is below this share of its square is constant in the sample."""


class Sample(NamedTuple):
    """Second derivatives of the mean loss in k columns and the intercept, as some of the rows show them."""

    A: np.ndarray
    """The matrix (k + 1, k + 1)."""
    means: np.ndarray
    """Its last column, and its diagonal, as all rows show them; those of A where a pass for them costs too much."""
    squares: np.ndarray


class DenseColumns(NamedTuple):
    """The columns as an array (n, k)."""

    X: np.ndarray

    def margins(self, w: np.ndarray) -> np.ndarray:
        """Return <w, x> for every row."""
        return self.X @ w

    def gradient(self, c: np.ndarray) -> np.ndarray:
        """Return sum_i c_i x_i."""
        return c @ self.X

    def sample(self, h: np.ndarray, columns: np.ndarray, every: int) -> Sample:
        """Return the second derivatives in some columns for curvatures h, from every row whose number it divides."""
        k, some = len(columns), h[::every]
        root = np.sqrt(some * (h.sum() / some.sum())).astype(np.float32)
        A, Z = np.zeros((k + 1, k + 1)), np.empty((min(_BLOCK, len(root)), k + 1), np.float32)
        for begin in range(0, len(root), _BLOCK):
            roots = root[begin : begin + _BLOCK, None]
            part = self.X[begin * every : (begin + len(roots)) * every : every]
            here = Z[: len(roots)]
            here[:, :k] = part if k == part.shape[1] else part[:, columns]
            here[:, k] = 1.0
            here *= roots
            A += here.T @ here
        return Sample(A, A[k, :k].copy(), np.einsum("ii->i", A)[:k].copy())


class SparseColumns(NamedTuple):
    """The columns as sparse rows."""

    rows: Matrix

    def margins(self, w: np.ndarray) -> np.ndarray:
        """Return <w, x> for every row."""
        return row_sums.margins(*self.rows[:3], w, 0.0)

    def gradient(self, c: np.ndarray) -> np.ndarray:
        """Return sum_i c_i x_i."""
        g = np.zeros(self.rows.d)
        row_sums.add_gradient(*self.rows[:3], c, g)
        return g

    def sample(self, h: np.ndarray, columns: np.ndarray, every: int) -> Sample:
        """Return the second derivatives in some columns for curvatures h, from every row whose number it divides.

        Rare columns have few entries in a sample: means and squares are those of all rows.
        """
        k, some, place = len(columns), np.zeros_like(h), np.full(self.rows.d + 1, -1, np.int64)
        some[::every] = h[::every] * (h.sum() / h[::every].sum())
        place[columns], place[-1] = np.arange(k), k
        A = pairs_of_rows(*self.rows[:3], place, some, k + 1)
        means, squares = row_sums.moments(*self.rows[:3], h, h, self.rows.d)
        return Sample(A, means[columns], squares[columns])


def effective(h: np.ndarray) -> float:
    """Return how many rows with equal weights are as good as rows with weights h.

    >>> effective(np.array([1.0, 1.0, 0.0])), effective(np.array([3.0, 1.0]))
    (2.0, 1.6)
    """
    return float(h.sum() ** 2 / np.square(h).sum())


def shrunk(sample: Sample, groups: np.ndarray, rows: float, of: float, intercept: bool) -> np.ndarray:
    """Return the second derivatives in all rows, as estimated from a sample, in the columns and the intercept.

    Where columns have no correlation, that in so many ``rows`` has a mean square of 1 / rows.  What exceeds this is
    common to the sample and to all rows, ``of`` of them.  So the best multiple of a correlation in the sample is

        (signal + 1 / of) / (signal + 1 / rows).

    Correlations inside of a group are kept.  Without an intercept its column is zero.
    """
    A, means, squares = sample
    total, k = float(A[-1, -1]), len(means)
    if not intercept:
        A[-1, :-1] = means = np.zeros(k)
    S = centred(A)
    seen, own = np.einsum("ii->i", S).copy(), np.maximum(squares - means * means / total, 0.0)
    inverse = np.divide(1.0, seen, out=np.zeros(k), where=seen > _NONE * np.einsum("ii->i", A)[:-1])
    count = np.count_nonzero(inverse)
    squared = float(inverse @ np.square(S) @ inverse) - count
    signal = max(squared / max(count * (count - 1.0), 1.0) - 1.0 / rows, 0.0)
    scale_pairs(S, groups, (signal + 1.0 / of) / (signal + 1.0 / rows), np.sqrt(own * inverse))
    np.einsum("ii->i", S)[:] = own
    return with_intercept(S, means, total)


def centred(A: np.ndarray) -> np.ndarray:
    """Return the matrix of the columns, after the intercept, the last row and column, is eliminated."""
    mean = A[-1, :-1]
    return A[:-1, :-1] - np.outer(mean / A[-1, -1], mean)


def with_intercept(S: np.ndarray, mean: np.ndarray, total: float) -> np.ndarray:
    """Return the matrix of which S is left after the intercept is eliminated; its last column is mean and total."""
    k = len(S)
    A = np.empty((k + 1, k + 1))
    np.add(S, np.outer(mean / total, mean), out=A[:k, :k])
    A[k, :k] = A[:k, k] = mean
    A[k, k] = total
    return A
