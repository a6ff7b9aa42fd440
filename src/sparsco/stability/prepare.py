"""Rows and columns on one scale, without centring: zeros stay zeros.

"columns" divides every column by the root mean square of its nonzeros.  "rows" also takes square roots, brings rows to
norm one and then the typical entry to 1: what suits counts and tf-idf.  All constants are running sums.
"""

from __future__ import annotations

import numpy as np

from ..dispatch import U, kernel
from ..rows import Matrix

KINDS = ("rows", "columns", None)


class Preparation:
    """The sums that scale rows: per column the number of nonzeros and the sum of their squares; of all the number of
    rows, of nonzeros, and the sum of squares."""

    def __init__(self, kind: str | None, d: int) -> None:
        self.kind = kind
        self.counts, self.squares, self.totals = np.zeros(d), np.zeros(d), np.zeros(3)

    def grow(self, d: int) -> None:
        """Room for more columns."""
        if d > len(self.counts):
            more = np.zeros(d - len(self.counts))
            self.counts, self.squares = np.r_[self.counts, more], np.r_[self.squares, more]

    def add(self, matrix: Matrix) -> None:
        """Add these rows to the sums."""
        data = matrix.data.astype(np.float64, copy=False)
        scale_rows(matrix.indptr, matrix.indices, data, data, self.counts, self.squares, self.totals, True, -1)

    def streamed(self, matrix: Matrix) -> Matrix:
        """Add these rows; returns them prepared, each with the sums up to itself: the same in any cut."""
        return self._run(matrix, True, np.zeros(len(matrix)))

    def applied(self, matrix: Matrix, elsewhere: np.ndarray | None = None) -> Matrix:
        """Rows prepared with the sums as they are; a column that was never seen has the scale of all.

        ``elsewhere`` are the squared norms of what the rows have in other columns.
        """
        return self._run(matrix, False, np.zeros(len(matrix)) if elsewhere is None else elsewhere)

    def _run(self, matrix: Matrix, learns: bool, elsewhere: np.ndarray) -> Matrix:
        data = matrix.data.astype(np.float64)
        sums = map(_own, (self.counts, self.squares, self.totals))
        roots = -1 if self.kind is None else int(self.kind == "rows")
        scale_rows(matrix.indptr, matrix.indices, data, elsewhere, *sums, learns, roots)
        return Matrix(matrix.indptr, matrix.indices, data, matrix.d)

    @property
    def scales(self) -> np.ndarray:
        """What a weight of the prepared column is divided by to become one of the given column (not for "rows")."""
        if self.kind is None:
            return np.ones(len(self.counts))
        return np.where(self.counts > 0.0, np.sqrt(self.squares / np.maximum(self.counts, 1.0)), 1.0)


def _own(array: np.ndarray) -> np.ndarray:
    """A copy of what may not be written to: a memory map of a pickle."""
    return array if array.flags.writeable else array.copy()


@kernel
def scale_rows(indptr, indices, data, elsewhere, counts, squares, totals, learns, roots):
    """Scale rows in place: roots 1 for "rows", 0 for "columns", -1 for none; where ``learns``, add each row first.

    A row's norm before it is brought to one has ``elsewhere`` added to it.
    """
    for i in range(indptr.size - 1):
        start, stop = U(indptr[U(i)]), U(indptr[U(i + 1)])
        if learns and stop > start:
            totals[0] += 1.0
            totals[1] += np.float64(stop - start)
            for r in range(start, stop):
                counts[U(indices[r])] += 1.0
                squares[U(indices[r])] += data[r] * data[r]
                totals[2] += data[r] * data[r]
        if roots < 0:
            continue
        norm = elsewhere[U(i)]
        for r in range(start, stop):
            j, x = U(indices[r]), data[r]
            s = np.sqrt(squares[j] / counts[j] if squares[j] > 0.0 else totals[2] / totals[1])
            v = x / s if roots == 0 else np.copysign(np.sqrt(abs(x) / np.sqrt(s)), x)
            data[r] = v
            norm += v * v
        if roots == 1 and norm > 0.0:
            scale = np.sqrt(totals[1] / totals[0] / norm)
            for r in range(start, stop):
                data[r] *= scale
