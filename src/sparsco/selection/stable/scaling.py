"""Rows and columns on one scale, without centring: zeros stay zeros.

"columns" divides every column by the root mean square of its nonzeros.  "rows" also takes square roots, brings rows to
norm one and then the typical entry to 1: what suits counts and tf-idf.  It adds up entries of different columns, so
"auto" takes it only where most entries are zero and columns are in one unit.  All constants are running sums.
"""

from __future__ import annotations

import copy

import numpy as np

from ...data.rows import Matrix
from ...jit.dispatch import U, kernel

KINDS = ("auto", "rows", "columns", None)
ONE_UNIT = 1.0
"""Columns are in one unit where the logarithms of their scales have a smaller standard deviation over all nonzeros."""


class Preparation:
    """The sums that scale rows: per column the number of nonzeros and the sum of their squares; of all the number of
    rows, of nonzeros, and the sum of squares."""

    def __init__(self, kind: str | None, d: int) -> None:
        self.kind = kind
        self.counts, self.squares, self.totals = np.zeros(d), np.zeros(d), np.zeros(3)

    def settled(self) -> Preparation:
        """The same sums, with what "auto" makes of them."""
        twin = copy.copy(self)
        if self.kind == "auto":
            twin.kind = "rows" if self._is_sparse and self._spread < ONE_UNIT else "columns"
        return twin

    def grow(self, d: int) -> None:
        """Room for more columns."""
        if d > len(self.counts):
            more = np.zeros(d - len(self.counts))
            self.counts, self.squares = np.r_[self.counts, more], np.r_[self.squares, more]

    def add(self, matrix: Matrix) -> None:
        """Add these rows to the sums: the same in any cut."""
        data = matrix.data.astype(np.float64, copy=False)
        add_to_sums(matrix.indptr, matrix.indices, data, self.counts, self.squares, self.totals)

    def applied(self, matrix: Matrix, elsewhere: np.ndarray | None = None) -> Matrix:
        """Rows prepared with the sums as they are; a column that was never seen has the scale of all.

        ``elsewhere`` are the squared norms, before rows are brought to one, of what they have in other columns.
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
        """The standard deviation of the logarithms of columns' scales, each column as often as it has nonzeros."""
        seen = self.squares > 0.0
        share, logs = self.counts[seen] / self.counts[seen].sum(), np.log(self.scales[seen])
        return float(np.sqrt(share @ np.square(logs - share @ logs)))

    @property
    def scales(self) -> np.ndarray:
        """The root mean square of each column's nonzeros."""
        common = np.sqrt(self.totals[2] / self.totals[1]) if self.totals[2] > 0.0 else 1.0
        known = self.squares > 0.0
        return np.where(known, np.sqrt(self.squares / np.where(known, self.counts, 1.0)), common)


@kernel
def add_to_sums(indptr, indices, data, counts, squares, totals):
    """Of each column the number of nonzeros and the sum of squares; of all the rows, the nonzeros, the squares."""
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
    """In place: signed roots of |x_j| factor_j, then rows to the given norm, ``rest`` being part of their square."""
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
