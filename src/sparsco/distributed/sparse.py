"""Sparse matrices for messages: a feature's index costs four bytes or a bit, each of its numbers two, four or eight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..util.attributes import Restored, add_attributes, attributes

_LEAST, _MOST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
"""The range of sizes in which float32 keeps its precision."""
_ROUNDING = 1e-13
"""A bound on the relative error of a sum of some float64 numbers."""


@dataclass(frozen=True)
class Sparse(Restored):
    """The nonzero rows of a matrix (d, k), ascending; columns that are zero in all rows are left out."""

    d: int
    k: int
    at: np.ndarray
    columns: np.ndarray
    values: tuple[np.ndarray, ...]
    """The numbers of each column."""
    exact: bool
    """True if all numbers are float64; otherwise every result of arithmetic is rounded by ``rounded``."""

    @classmethod
    def of(cls, dense: np.ndarray, exact: bool = True) -> Sparse:
        """Return a dense matrix without its zero rows and columns."""
        return cls.of_columns(len(dense), list(dense.T), exact)

    @classmethod
    def of_columns(cls, d: int, every: list[np.ndarray], exact: bool = True) -> Sparse:
        """Return the columns of a matrix without zero columns, and without rows that are zero in all of them."""
        present, columns = np.zeros(d, bool), []
        for number, column in enumerate(every):
            found = column != 0.0
            if found.any():
                columns.append(number)
                present |= found
        at = np.flatnonzero(present)
        values = tuple(every[number][at] for number in columns)
        return cls(d, len(every), at.astype(np.uint32), np.array(columns, np.uint32), _kept(values, exact), exact)

    def add_to(self, every: list[np.ndarray]) -> None:
        """Add the numbers to the columns of a matrix that has room for them, in place."""
        for number, values in zip(self.columns, self.values, strict=True):
            _add(every[number], self.at, values)

    def dense(self) -> np.ndarray:
        """Return the whole matrix."""
        out = np.zeros((self.d, self.k))
        self.add_to(list(out.T))
        return out

    def __add__(self, other: Sparse) -> Sparse:
        d, exact = max(self.d, other.d), self.exact and other.exact
        at, places = self.at, list[Any]([slice(None), slice(None)])
        if not np.array_equal(self.at, other.at):
            at, places = _union(d, self.at, other.at)
        sums: dict[int, np.ndarray] = {}
        for part, where in zip((self, other), places, strict=True):
            for number, values in zip(part.columns.tolist(), part.values, strict=True):
                _add(sums.setdefault(number, np.zeros(len(at))), where, values)
        columns = sorted(sums)
        kept = _kept(tuple(sums[number] for number in columns), exact)
        return Sparse(d, self.k, at, np.array(columns, np.uint32), kept, exact)

    def __truediv__(self, by: float) -> Sparse:
        values = _kept(tuple(values / np.float64(by) for values in self.values), self.exact)
        return Sparse(self.d, self.k, self.at, self.columns, values, self.exact)

    @property
    def nonzeros(self) -> int:
        """Return the number of nonzero numbers."""
        return sum(int(np.count_nonzero(values)) for values in self.values)

    @property
    def bytes(self) -> int:
        """Return the size of a message in bytes, without some hundred bytes of names and types."""
        index = (self.d + 7) // 8 if self._has_bits else self.at.nbytes
        return index + self.columns.nbytes + sum(values.nbytes for values in self.values)

    @property
    def _has_bits(self) -> bool:
        """Return whether a bit for every feature is less than four bytes for each that is present."""
        return self.d < 32 * len(self.at)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, with the indices as bits where these are smaller."""
        if not self._has_bits:
            return attributes(self)
        present = np.zeros(self.d, bool)
        present[self.at] = True
        return attributes(self) | {"at": np.packbits(present)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        at = state["at"]
        if at.dtype == np.uint8:
            at = np.flatnonzero(np.unpackbits(at, count=state["d"])).astype(np.uint32)
        add_attributes(self, state | {"at": at})


def _add(total: np.ndarray, at: Any, values: np.ndarray) -> None:
    """Add numbers to the places ``at`` of an array; a sum that is zero up to rounding is zero.

    So a weight that every partition brought to zero is zero.
    """
    sums = total[at] + values
    sums[np.abs(sums) <= _ROUNDING * np.abs(values)] = 0.0
    total[at] = sums


def _kept(values: tuple[np.ndarray, ...], exact: bool) -> tuple[np.ndarray, ...]:
    return values if exact else tuple(map(rounded, values))


def rounded(values: np.ndarray) -> np.ndarray:
    """Return numbers in the fewest bytes.

    Small whole numbers take two bytes.  Others are rounded to float32, unless one is outside the range in which float32
    keeps its precision.
    """
    if not values.size:
        return values.astype(np.float32)
    least, most = values.min(), values.max()
    if 0.0 <= least and most < 65536.0 and values[0] == int(values[0]):
        whole = values.astype(np.uint16)
        if np.array_equal(whole, values):
            return whole
    sizes = np.abs(values)
    is_safe = max(-least, most) <= _MOST and not np.any((sizes < _LEAST) & (sizes > 0.0))
    return values.astype(np.float32) if is_safe else values.astype(np.float64, copy=False)


def _union(n: int, *parts: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    """Return the numbers below n that are in any part, ascending, and the positions of each part's numbers in them."""
    present = np.zeros(n, bool)
    for part in parts:
        present[part] = True
    place = np.cumsum(present) - 1
    return np.flatnonzero(present).astype(np.uint32), [place[part] for part in parts]
