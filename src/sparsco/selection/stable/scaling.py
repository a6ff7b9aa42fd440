"""Scaling of rows and columns without centring: zeros stay zeros.

"columns" divides every column by the root mean square of its nonzeros.  "rows" also takes square roots, brings rows to
norm one and then the typical entry to 1, which suits counts and tf-idf.  It adds up entries of different columns, so
"auto" takes it only if most entries are zero and columns are in one unit.  All constants are running sums.
"""

from __future__ import annotations

import copy

import numpy as np

from ...data.rows import Matrix
from ...jit.dispatch import U, kernel

KINDS = ("auto", "rows", "columns", None)
ONE_UNIT = 1.0
"""The limit of the spread of the columns' scales below which columns are in one unit.

The spread is the standard deviation of the logarithms of the scales over all nonzeros.
"""


class Preparation:
    """The sums that scale rows.

    For each column they are the number of nonzeros and the sum of their squares.  For all columns they are the number
    of rows, of nonzeros, and the sum of squares.
    """

    def __init__(self, kind: str | None, d: int) -> None:
        self.kind = kind
        self.counts, self.squares, self.totals = np.zeros(d), np.zeros(d), np.zeros(3)

    def settled(self) -> Preparation:
        """Return a copy with "auto" decided from the sums."""
        twin = copy.copy(self)
        if self.kind == "auto":
            twin.kind = "rows" if self._is_sparse and self._spread < ONE_UNIT else "columns"
        return twin

    def grow(self, d: int) -> None:
        """Extend the sums to d columns."""
        if d > len(self.counts):
            more = np.zeros(d - len(self.counts))
            self.counts, self.squares = np.r_[self.counts, more], np.r_[self.squares, more]

    def add(self, matrix: Matrix) -> None:
        """Add these rows to the sums; the result is the same for any cut of the stream."""
        data = matrix.data.astype(np.float64, copy=False)
        add_to_sums(matrix.indptr, matrix.indices, data, self.counts, self.squares, self.totals)

    def applied(self, matrix: Matrix, elsewhere: np.ndarray | None = None) -> Matrix:
        """Return the rows prepared with the current sums; a column that was never seen has the scale of all.

        ``elsewhere`` are the squared norms of the rows' entries in other columns, before rows are brought to one norm.
        """
        data = matrix.data.astype(np.float64)
        rest, kind = np.zeros(len(matrix)) if elsewhere is None else elsewhere, self.settled().kind
        if kind == "columns":
            data /= self.scales[matrix.indices]
        elif kind == "rows":
            norm = np.sqrt(self.totals[1] / max(self.totals[0], 1.0))
            scale_rows(matrix.indptr, matrix.indices, data, 1.0 / np.sqrt(self.scales), rest, norm)
        return Matrix(matrix.indptr, matrix.indices, data, matrix.d)

    @property
    def _is_sparse(self) -> bool:
        return bool(self.totals[1] < 0.5 * self.totals[0] * len(self.counts))

    @property
    def _spread(self) -> float:
        """Return the standard deviation of the logarithms of the columns' scales, weighted by the columns' nonzeros."""
        seen = self.squares > 0.0
        share, logs = self.counts[seen] / self.counts[seen].sum(), np.log(self.scales[seen])
        return float(np.sqrt(share @ np.square(logs - share @ logs)))

    @property
    def scales(self) -> np.ndarray:
        """Return the root mean square of the nonzeros of each column."""
        common = np.sqrt(self.totals[2] / self.totals[1]) if self.totals[2] > 0.0 else 1.0
        known = self.squares > 0.0
        return np.where(known, np.sqrt(self.squares / np.where(known, self.counts, 1.0)), common)


@kernel
def add_to_sums(indptr, indices, data, counts, squares, totals):
    """Add rows to the sums in place.

    The sums are the nonzeros and squares of each column, and the rows, nonzeros and squares in total.
    """
    for i in range(indptr.size - 1):
        start, stop = U(indptr[U(i)]), U(indptr[U(i + 1)])
        totals[0] += stop > start
        for r in range(start, stop):
            j, square = U(indices[r]), data[r] * data[r]
            counts[j] += 1.0
            squares[j] += square
            totals[1] += 1.0
            totals[2] += square


@kernel
def scale_rows(indptr, indices, data, factors, rest, norm):
    """Replace entries in place by signed roots of |x_j| factor_j, then scale rows to the given norm.

    ``rest`` is the part of the squared norms that is in other columns.
    """
    for i in range(indptr.size - 1):
        start, stop = U(indptr[U(i)]), U(indptr[U(i + 1)])
        square = rest[U(i)]
        for r in range(start, stop):
            v = abs(data[r]) * factors[U(indices[r])]
            square += v
            data[r] = np.copysign(np.sqrt(v), data[r])
        if square > 0.0:
            scale = norm / np.sqrt(square)
            for r in range(start, stop):
                data[r] *= scale
