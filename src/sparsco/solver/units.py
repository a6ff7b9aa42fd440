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

from ..jit.dispatch import U, kernel

_LEAST_VARIANCE = 1e-10
"""The least variance of a column, as a share of its mean square: below that the variance is rounding."""


@kernel
def _add_column_sums(starts, stops, indices, data, counts, sums, squares):
    """Add the number of nonzeros, the sum and the sum of squares of each column."""
    for i in range(starts.size):
        for p in range(U(starts[i]), U(stops[i])):
            j, x = U(indices[p]), data[p]
            counts[j] += 1.0
            sums[j] += x
            squares[j] += x * x


def column_sums(
    starts: np.ndarray, stops: np.ndarray, indices: np.ndarray, data: np.ndarray, d: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the number of nonzeros, the sum and the sum of squares of each of d columns.

    Row i is at ``indices[starts[i]:stops[i]]``.
    """
    counts, sums, squares = np.zeros(d), np.zeros(d), np.zeros(d)
    _add_column_sums(starts, stops, indices, data, counts, sums, squares)
    return counts, sums, squares


@kernel
def copy_in_units(starts, indices, data, units, rare, indptr, to_indices, to_data):
    """Copy rows, each value divided by the unit of its column.

    A column without a unit gets that of a column with one nonzero: its value times ``rare``, or 1 if that is 0.
    """
    for k in range(starts.size):
        shift = starts[k] - indptr[k]
        for p in range(indptr[k], indptr[k + 1]):
            j, x = indices[p + shift], np.float64(data[p + shift])
            if units[j] == 0.0:
                if x != 0.0:
                    units[j] = abs(x) * rare if rare > 0.0 else 1.0
            to_indices[p] = j
            to_data[p] = x / units[j] if x != 0.0 else 0.0


def units_of(counts: np.ndarray, sums: np.ndarray, squares: np.ndarray, n: int) -> np.ndarray:
    """Return the unit of each column from its sums over n rows; 1 for a column without nonzeros."""
    if n == 0:
        return np.ones_like(counts)
    seen = counts > 0.0
    square = squares / n
    variance = np.maximum(square - np.square(sums / n), _LEAST_VARIANCE * square)
    unit = np.sqrt(variance / np.sqrt(np.where(seen, counts / n, 1.0)))  # a power would take much longer
    return np.where(seen & (unit > 0.0), unit, 1.0)
