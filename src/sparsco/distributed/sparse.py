"""Sparse matrices for messages: four bytes for the index of a feature and eight for each number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Sparse:
    """The nonzero rows of a matrix (d, k), ascending; columns that are zero in all rows are left out."""

    d: int
    k: int
    at: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, dense: np.ndarray) -> Sparse:
        """Return a dense matrix without its zero rows and columns."""
        at, columns = (np.flatnonzero(dense.any(axis)) for axis in (1, 0))
        d, k = dense.shape
        return cls(d, k, at.astype(np.uint32), columns.astype(np.uint32), dense[np.ix_(at, columns)])

    def add_to(self, dense: np.ndarray) -> None:
        """Add the numbers to a matrix that has room for them, in place."""
        dense[np.ix_(self.at, self.columns)] += self.values

    def dense(self) -> np.ndarray:
        """Return the whole matrix."""
        out = np.zeros((self.d, self.k))
        self.add_to(out)
        return out

    def __add__(self, other: Sparse) -> Sparse:
        if np.array_equal(self.at, other.at) and np.array_equal(self.columns, other.columns):
            return Sparse(max(self.d, other.d), self.k, self.at, self.columns, self.values + other.values)
        d = max(self.d, other.d)
        at, (mine, theirs) = _union(d, self.at, other.at)
        columns, (my_columns, their_columns) = _union(self.k, self.columns, other.columns)
        values = np.zeros((len(at), len(columns)))
        values[np.ix_(mine, my_columns)] += self.values
        values[np.ix_(theirs, their_columns)] += other.values
        return Sparse(d, self.k, at, columns, values)

    def __truediv__(self, by: float) -> Sparse:
        return Sparse(self.d, self.k, self.at, self.columns, self.values / by)

    @property
    def nonzeros(self) -> int:
        """Return the number of nonzero numbers."""
        return int(np.count_nonzero(self.values))

    @property
    def bytes(self) -> int:
        """Return the size of a message in bytes, without some hundred bytes of names and types."""
        return sum(part.nbytes for part in (self.at, self.columns, self.values))


def _union(n: int, *parts: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the numbers below n that are in any part, ascending, and the positions of each part's numbers in them."""
    present = np.zeros(n, bool)
    for part in parts:
        present[part] = True
    place = np.cumsum(present) - 1
    return np.flatnonzero(present).astype(np.uint32), [place[part] for part in parts]
