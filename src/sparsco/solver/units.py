"""The units of the penalty: how strongly the weight of each column is penalised.

Column j is penalised in units of u_j = sd_j f_j^(-1/4), with f_j the share of its nonzeros and sd_j its standard
deviation:

    lam (l1 u_j |w_j| + (1 - l1) / 2 u_j^2 w_j^2)

On dense columns these are the units of a standardised column.  The weight of a rare column is penalised more than
there, and less than without units.  A column multiplied by a factor has its unit multiplied by the same factor, so
predictions do not depend on scales.
"""

from __future__ import annotations

import numpy as np

from ..data.rows import Matrix, ask_for_row
from ..jit.dispatch import U, kernel
from ..problem.state import padded

_LEAST_VARIANCE = 1e-10
"""The least variance of a column, as a share of its mean square: below that the variance is rounding."""


@kernel
def _add_column_sums(starts, stops, indices, data, weights, counts, sums, squares):
    """Add the number of nonzeros, the sum and the sum of squares of each column, by the weights of the rows."""
    for i in range(starts.size):
        a = weights[i]
        for p in range(U(starts[i]), U(stops[i])):
            j, x = U(indices[p]), data[p]
            counts[j] += a
            sums[j] += a * x
            squares[j] += a * (x * x)


def column_sums(
    starts: np.ndarray,
    stops: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    d: int,
    weights: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the number of nonzeros, the sum and the sum of squares of each of d columns.

    Row i is at ``indices[starts[i]:stops[i]]``.  A row of weight 2 counts as two rows.
    """
    counts, sums, squares = np.zeros(d), np.zeros(d), np.zeros(d)
    weights = np.ones(len(starts)) if weights is None else weights
    _add_column_sums(starts, stops, indices, data, weights, counts, sums, squares)
    return counts, sums, squares


@kernel
def copy_in_units(indptr, indices, data, order, units, rare, to_indptr, to_indices, to_data):
    """Copy the rows in ``order`` one after the other, each value divided by the unit of its column.

    A column without a unit gets that of a column with one nonzero: its value times ``rare``, or 1 if that is 0.
    """
    for k in range(order.size):
        ask_for_row(indptr, indices, data, order, k)
        shift = U(indptr[U(order[U(k)])]) - U(to_indptr[U(k)])
        for p in range(U(to_indptr[U(k)]), U(to_indptr[U(k + 1)])):
            j, x = U(indices[p + shift]), np.float64(data[p + shift])
            unit = units[j]
            if unit == 0.0:
                unit = abs(x) * rare if rare > 0.0 and x != 0.0 else 1.0
                if x != 0.0:
                    units[j] = unit
            to_indices[p], to_data[p] = j, x / unit


def units_of(counts: np.ndarray, sums: np.ndarray, squares: np.ndarray, n: float) -> np.ndarray:
    """Return the unit of each column from its sums over rows of weight n; 1 for a column without nonzeros."""
    if n == 0.0:
        return np.ones_like(counts)
    seen = counts > 0.0
    square = squares / n
    variance = np.maximum(square - np.square(sums / n), _LEAST_VARIANCE * square)
    unit = np.sqrt(variance / np.sqrt(np.where(seen, counts / n, 1.0)))  # a power would take much longer
    return np.where(seen & (unit > 0.0), unit, 1.0)


class Units:
    """The unit of each feature of a stream; a feature that was not known gets one by its first value."""

    def __init__(self, values: np.ndarray | None = None, rows: int = 0) -> None:
        """Take the units, 0 for a feature that is not known, and the number of rows that they were computed from.

        Without units they are those of the first rows that are learned.
        """
        self.values, self.rows = values, rows

    @classmethod
    def of(cls, matrix: Matrix, d: int, weights: np.ndarray | None = None) -> Units:
        """Return the units of d features in some rows; a row of weight 2 counts as two rows."""
        sums = column_sums(matrix.indptr[:-1], matrix.indptr[1:], matrix.indices, matrix.data, d, weights)
        if weights is None:
            return cls.by_sums(sums, len(matrix))
        return cls.by_sums(sums, float(weights.sum()), np.count_nonzero(weights))

    @classmethod
    def by_sums(cls, sums: tuple[np.ndarray, np.ndarray, np.ndarray], weight: float, rows: int | None = None) -> Units:
        """Return the units of features with these column sums over rows of a weight, by default one for each."""
        known = np.where(sums[0] > 0.0, units_of(*sums, weight), 0.0)
        return cls(known, int(weight) if rows is None else rows)

    def begun(self, first: Matrix, weights: np.ndarray, d: int) -> Units:
        """Return units of d features for a run whose first rows these are; they are its own, and may change."""
        found = Units.of(first, d, weights) if self.values is None else self.copy()
        found.grow(d)
        return found

    def copy(self) -> Units:
        """Return an independent copy."""
        return Units(None if self.values is None else self.values.copy(), self.rows)

    def divided(self, matrix: Matrix, order: np.ndarray) -> Matrix:
        """Return the rows in ``order`` with each value divided by the unit of its feature; new features get units."""
        indptr = np.zeros(len(order) + 1, np.int64)
        np.cumsum(matrix.indptr[order + 1] - matrix.indptr[order], out=indptr[1:])
        rows = Matrix(indptr, np.empty(indptr[-1], np.uint32), np.empty(indptr[-1]), matrix.d)
        rare = self.rows**-0.25 if self.rows else 0.0
        copy_in_units(*matrix[:3], order, self.values, rare, *rows[:3])
        return rows

    def at(self, features: np.ndarray | slice = np.s_[:]) -> np.ndarray:
        """Return the units of some features, or of all; 1 for one that is not known."""
        assert self.values is not None
        found = self.values[features]
        return np.where(found > 0.0, found, 1.0)

    def weights(self, w: np.ndarray, features: np.ndarray | slice = np.s_[:]) -> np.ndarray:
        """Return weights (features, models) for rows as they came, from weights for rows that are divided."""
        return w / self.at(features)[:, None]

    def meet(self, rows: Matrix, weights: np.ndarray) -> None:
        """Let features that are not known, and occur in these rows, have the units of these rows."""
        assert self.values is not None
        self.values = np.where(self.values > 0.0, self.values, Units.of(rows, len(self.values), weights).values)

    def grow(self, d: int) -> None:
        """Let there be d features."""
        if self.values is not None and d > len(self.values):
            self.values = padded(self.values, d)

    def keep(self, kept: np.ndarray) -> None:
        """Let the other features leave; those that stay, by ascending slots, get the slots 0, 1, ..."""
        assert self.values is not None
        self.values = self.values[kept]
