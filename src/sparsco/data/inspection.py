"""One look through rows before they are learned: are the pointers, the indices and the values what kernels rely on."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..jit.dispatch import U, inlined, kernel
from ..jit.lanes import prefetch
from .slot_tables import KEY

LARGEST = np.float64(1e75)
"""The largest number accepted; the optimizers sum fourth powers, and those of larger numbers would overflow."""
_AHEAD = U(512)
"""The number of entries by which memory is prefetched where rows are only looked through."""


def sound(X: Any) -> Any:
    """Return X; raise a ValueError for a scipy sparse matrix that conversions and products cannot read safely.

    Scipy itself compares only the ends of the pointers when it makes a matrix, and reads no indices before it converts.
    """
    form = X.format if sp.issparse(X) else "dense"
    rows, columns = (1, *X.shape)[-2:] if form != "dense" else (0, 0)
    if form in ("csr", "csc", "bsr"):
        high, wide = X.blocksize if form == "bsr" else (1, 1)
        across, along = (columns, rows) if form == "csc" else (rows // high, columns // wide)
        check_pointers(X.indptr, min(len(X.indices), len(X.data)), "X")
        if len(X.indptr) != across + 1:
            raise ValueError(f"X has {len(X.indptr)} pointers (indptr), not {across + 1}: build it again.")
        _check_range(X.indices, along)
    elif form in ("coo", "dok"):
        for indices, size in zip(X.tocoo().coords, X.shape, strict=True):
            _check_range(indices, size)
    elif form == "lil":
        if len(X.rows) != rows or [*map(len, X.rows)] != [*map(len, X.data)]:
            raise ValueError("X has rows with other numbers of indices than of values: build it again.")
        _check_range(np.array([index for row in X.rows for index in row], np.int64), columns)
    elif form == "dia" and X.offsets.shape != X.data.shape[:1]:
        raise ValueError(f"X has {len(X.offsets)} offsets for {len(X.data)} diagonals: build it again.")
    return X


def _check_range(indices: np.ndarray, size: int) -> None:
    """Raise a ValueError for an index outside of so many places."""
    if indices.size and not 0 <= indices.min() <= indices.max() < size:
        raise ValueError(f"X has an index outside of its {size} rows or columns: build it again with valid indices.")


def as_csr(X: Any) -> sp.csr_array:
    """Return a scipy sparse matrix as CSR; raise a ValueError for one that cannot be read safely.

    The indices of a matrix that is CSR already are left to ``inspected``, which reads them anyway.
    """
    csr = sp.csr_array(X if X.format == "csr" else sound(X))
    check_pointers(csr.indptr, len(csr.data), "X")
    return csr


def check_pointers(indptr: np.ndarray, entries: int, name: str) -> None:
    """Raise a ValueError if the starts of rows do not ascend from 0 to at most the number of entries."""
    if not len(indptr) or indptr[0] != 0 or indptr[-1] > entries or (indptr[1:] < indptr[:-1]).any():
        raise ValueError(
            f"{name} has pointers (indptr) that do not ascend from 0 to its {entries} entries: build it again."
        )


def inspected(
    indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, d: int, wide: bool
) -> tuple[int, int, int, int, np.ndarray]:
    """Return what one read of the rows shows, and their indices, of four bytes unless they are to stay ``wide``.

    The numbers are the zeros, the values that are too large, the entries or rows with an index outside of the columns,
    and the entries whose column their row had before.
    """
    by_column = d <= len(data) and len(indptr) < 2**32
    is_narrow = indices.dtype == np.int32
    last = np.zeros(d if by_column else 0, np.uint32)  # memory that is never written costs nothing
    copy = np.empty(0 if wide or is_narrow else len(indices), np.uint32)
    unordered, *counts = _inspect(indptr, indices, data, LARGEST, d, last, copy)
    if unordered and not by_column:
        counts[2:] = _look_for_repetitions(indptr, indices, d, *_hash_table(indptr, d))
    return *counts, indices if wide else indices.view(np.uint32) if is_narrow else copy


def check_rows(indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, d: int) -> None:
    """Raise a ValueError for rows of a file that are not as learning needs them: see ``Matrix``."""
    check_pointers(indptr, len(data), "a block")
    if len(indices) != len(data) or indptr[-1] != len(data):
        raise ValueError("a block has entries of no row")
    numbers = indices.view(np.int32) if indices.dtype == np.uint32 and d <= 1 << 31 else indices.astype(np.int64)
    _, wild, outside, repeated, _ = inspected(indptr, numbers, data, d, True)
    if outside:
        raise ValueError(f"a block has an index outside of its {d} columns")
    if wild or repeated:
        raise ValueError("a block has a number that is not finite, or a row with two values of one column")


def _hash_table(indptr: np.ndarray, d: int) -> tuple[np.ndarray, np.uint64, np.uint64]:
    """Return an empty hash table for the columns of a row, and the factor and shift of its hash function.

    The table has at least twice as many places as the longest row has entries, so that few entries of short rows
    collide. It has no more places than columns; with as many, a column is its own place.
    """
    bits = max(12, min(2 * int(np.diff(indptr).max(initial=1)), 2**31).bit_length())
    if d <= 1 << bits:
        return np.full(d, -1), U(1), U(0)
    return np.full(1 << bits, -1), KEY, U(64 - bits)


_TOGETHER = 8
"""The number of rows that are inspected together: loops over their entries need no branch for the end of a row."""


@kernel
def _inspect(indptr, indices, data, largest, d, last, copy):
    """Return five counts from one read of the rows: unordered rows, zeros, values too large, outside, repeated.

    An unordered row neither ascends nor descends.  Its entries outside of d columns and those with a column that the
    row had before are counted, if ``last`` has a zero for each column.  It gets the number of a column's last such row,
    from 1.  Rows that begin or end outside are counted, too.  Indices are copied if ``copy`` has room.
    """
    unordered, zeros, wild, outside, repeated, one, n = 0, 0, 0, 0, 0, U(1), U(indptr.size) - U(1)
    for row in range(U(0), n, U(_TOGETHER)):
        behind = min(row + U(_TOGETHER), n)
        begin, end, falls = U(indptr[row]), U(indptr[behind]), 0
        for p in range(begin, end, U(8)):  # a CPU alone asks for too little at a time
            prefetch(data, p + _AHEAD)
            prefetch(indices, p + _AHEAD)
        for p in range(begin, end):
            zeros += data[p] == 0.0
            wild += not abs(data[p]) <= largest
        for p in range(begin + one, end):
            falls += indices[p] <= indices[p - one]
        for p in range(begin, end if copy.size > 0 else begin):
            copy[p] = indices[p]
        for i in range(row, behind):
            start, stop = U(indptr[i]), U(indptr[i + one])
            if stop > start:
                first, final = indices[start], indices[stop - one]
                outside += (first < 0) | (final < 0) | (first >= d) | (final >= d)
                falls -= (start > begin) and (first <= indices[start - one])
        for i in range(row, behind if falls > 0 else row):
            start, stop = U(indptr[i]), U(indptr[i + one])
            if _is_unordered(indices, start, stop):
                unordered += 1
                for p in range(start, stop if last.size > 0 else start):
                    j = U(indices[p])  # a negative one is huge
                    if j < U(last.size):
                        repeated += U(last[j]) == i + one
                        last[j] = i + one
                    else:
                        outside += 1
    return unordered, zeros, wild, outside, repeated


@inlined
def _is_unordered(indices, start, stop):
    """Return whether the indices of a row neither ascend nor descend."""
    one = U(1)
    up, down = one, one
    for p in range(start + one, stop):
        up += U(indices[p] > indices[p - one])
        down += U(indices[p] < indices[p - one])
    return (up < stop - start) & (down < stop - start)


@kernel
def _look_for_repetitions(indptr, indices, d, table, factor, shift):
    """Return the number of entries outside of d columns, and of entries whose column their row had before.

    The table uses open addressing and has the position of the entry that came with a column.  Entries of former rows
    count as free places, so that the table is never cleared.
    """
    outside, repeated = 0, 0
    mask, one = U(table.size - 1), U(1)
    for i in range(indptr.size - 1):
        start = indptr[U(i)]
        for p in range(start, indptr[U(i + 1)]):
            j = indices[U(p)]
            if j < 0 or j >= d:
                outside += 1
                continue
            column = U(j)
            at = column * factor >> shift
            while table[at] >= start and indices[U(table[at])] != j:
                at = (at + one) & mask
            repeated += table[at] >= start
            if table[at] < start:
                table[at] = p
    return outside, repeated
