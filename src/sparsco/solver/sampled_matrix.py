"""Columns in memory, and the second derivatives of a mean loss in them as some of the rows show them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..data import row_sums
from ..data.rows import Matrix
from .group_descent import (
    centred_squares,
    correct_by_secant,
    put_centred,
    scale_pairs,
    shrink_pairs,
)
from .row_pairs import pairs_of_rows

_BLOCK = 4096
"""The rows of a dense matrix that are multiplied together."""
_DENSE = 0.3
"""The share of nonzeros from which columns are dense."""


class DenseColumns(NamedTuple):
    """The columns as an array (n, k)."""

    X: np.ndarray

    def margins(self, w: np.ndarray) -> np.ndarray:
        """Return <w, x> for every row."""
        return np.concatenate([part @ w for _, part in self._parts()])

    def gradient(self, c: np.ndarray) -> np.ndarray:
        """Return sum_i c_i x_i."""
        g = np.zeros(self.X.shape[1])
        for here, part in self._parts():
            g += c[here] @ part
        return g

    def _parts(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield blocks of rows in double precision, and where they are."""
        for begin in range(0, len(self.X), _BLOCK):
            here = slice(begin, begin + _BLOCK)
            yield here, self.X[here].astype(np.float64, copy=False)

    def first_look(self, c: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the gradient; the mean square of each column takes another pass here, and is left out."""
        return self.gradient(c), None

    def at(self, some: slice) -> DenseColumns:
        """Return the columns of some rows."""
        return DenseColumns(self.X[some])

    def second_derivatives(self, h: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the second derivatives in k columns and the intercept, (k + 1, k + 1), for curvatures h."""
        k, root = len(columns), np.sqrt(h).astype(np.float32)
        A, Z = np.zeros((k + 1, k + 1)), np.empty((min(_BLOCK, len(root)), k + 1), np.float32)
        for begin in range(0, len(root), _BLOCK):
            roots, part = root[begin : begin + _BLOCK, None], self.X[begin : begin + _BLOCK]
            here = Z[: len(roots)]
            here[:, :k] = part if k == part.shape[1] else part[:, columns]
            here[:, k] = 1.0
            here *= roots
            A += here.T @ here
        return A


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

    def first_look(self, c: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the gradient, and the mean square of each column with weights h: rare ones are not in every sample."""
        g, squares = row_sums.moments(*self.rows[:3], c, h, self.rows.d)
        return g, squares / h.sum()

    def at(self, some: slice) -> SparseColumns:
        """Return the columns of some rows."""
        return self if some.step == 1 else SparseColumns(self.rows.take(np.arange(len(self.rows))[some]))

    def second_derivatives(self, h: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the second derivatives in k columns and the intercept, (k + 1, k + 1), for curvatures h."""
        k, place = len(columns), np.full(self.rows.d + 1, -1, np.int64)
        place[columns], place[-1] = np.arange(k), k
        return pairs_of_rows(*self.rows[:3], place, h, k + 1)


def is_dense(rows: Matrix) -> bool:
    """Return whether many entries of the rows are not zero."""
    return rows.is_full or bool(rows.data.size > _DENSE * len(rows) * rows.d)


def columns_of(rows: Matrix) -> DenseColumns | SparseColumns:
    """Return the columns of rows in memory; if many entries are not zero, as an array, which full rows have already."""
    if rows.is_full:
        return DenseColumns(rows.array)
    return DenseColumns(rows.to_scipy().toarray()) if is_dense(rows) else SparseColumns(rows)


def effective(h: np.ndarray) -> float:
    """Return how many rows with equal weights are as good as rows with weights h.

    >>> effective(np.array([1.0, 1.0, 0.0])), effective(np.array([3.0, 1.0]))
    (2.0, 1.6)
    """
    return float(h.sum() ** 2 / np.square(h).sum())


def shrink(A: np.ndarray, groups: np.ndarray, rows: float, of: float, squares: np.ndarray | None) -> None:
    """Turn the second derivatives in a sample into an estimate of those in all rows, in place.

    Where columns have no correlation, that in so many ``rows`` has a mean square of 1 / rows.  What exceeds this is
    common to the sample and to all rows, ``of`` of them.  So the best multiple of a correlation in the sample is

        (signal + 1 / of) / (signal + 1 / rows).

    Correlations inside of a group are kept.  ``squares`` is the diagonal in all rows, if that is known.
    """
    if squares is not None:
        own = np.einsum("ii->i", A)[:-1]
        scale = np.sqrt(np.divide(squares, own, out=np.zeros_like(own), where=own > 0.0))
        scale_pairs(A, np.append(scale, 1.0))
        own[:] = squares
    own = np.einsum("ii->i", A)[:-1] - np.square(A[-1, :-1]) / A[-1, -1]
    inverse = np.divide(1.0, own, out=np.zeros_like(own), where=own > 0.0)
    count = np.count_nonzero(inverse)
    squared = centred_squares(A, inverse) - count
    signal = max(squared / max(count * (count - 1.0), 1.0) - 1.0 / rows, 0.0)
    shrink_pairs(A, groups, (signal + 1.0 / of) / (signal + 1.0 / rows))


def learn_bend(A: np.ndarray, move: np.ndarray, change: np.ndarray, least: float) -> None:
    """Correct the matrix in place by the change of the gradient that a move caused (BFGS).

    Nothing is learned from a change that bends less than the share ``least`` of what the matrix expects.
    """
    expected = A @ move
    along, own = float(move @ change), float(move @ expected)
    if along > least * own > 0.0:
        correct_by_secant(A, change, along, expected, own)


def centred(A: np.ndarray) -> np.ndarray:
    """Return the matrix of the columns, after the intercept, the last row and column, is eliminated."""
    S = np.empty((len(A) - 1, len(A) - 1))
    put_centred(A, S, 0)
    return S
