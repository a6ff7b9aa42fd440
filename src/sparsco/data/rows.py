"""Rows as CSR matrices: the only code that distinguishes dense from sparse input."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..jit.dispatch import U, allocating_kernel, inlined, kernel
from ..jit.lanes import EIGHT, load, prefetch, store
from .inspection import LARGEST, as_csr, check_rows, inspected

MAX_FEATURES = 2**32 - 1


class Matrix(NamedTuple):
    """CSR rows: int64 ``indptr``, uint32 ``indices`` without repetition in a row, float ``data`` without zeros."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    d: int
    is_full: bool = False
    """Whether every row is known to have all d columns, in their order."""

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def check(self) -> None:
        """Raise a ValueError for rows of a file that kernels would leave."""
        kinds = (self.indptr, "i8"), (self.indices, "u4 u8 i8"), (self.data, "f8 f4")
        if not all(array.ndim == 1 and array.dtype.str[1:] in names.split() for array, names in kinds):
            raise ValueError("rows are of another type")
        check_rows(self.indptr, self.indices, self.data, self.d)
        if self.is_full and len(self.data) != len(self) * self.d:
            raise ValueError("rows are not full")

    @property
    def array(self) -> np.ndarray:
        """Return full rows as an array (n, d), without a copy."""
        return self.data.reshape(len(self), self.d)

    def of_width(self, d: int) -> Matrix:
        """Return the rows with d columns, which are at least as many as they use; nothing is copied."""
        indices, is_full = self.indices.astype(np.uint32, copy=False), self.is_full and self.d == d
        return Matrix(self.indptr, indices, self.data, d, is_full)

    def part(self, start: int, stop: int) -> Matrix:
        """Return consecutive rows; indices and data are not copied."""
        indptr = self.indptr[start : stop + 1]
        own = slice(indptr[0], indptr[-1])
        return Matrix(indptr - indptr[0], self.indices[own], self.data[own], self.d, self.is_full)

    def take(self, order: np.ndarray) -> Matrix:
        """Return a copy of the rows in ``order``; consecutive rows are copied in one piece."""
        if len(order) and order[-1] - order[0] == len(order) - 1 and np.all(order[1:] > order[:-1]):
            indptr = self.indptr[order[0] : order[-1] + 2]
            part = slice(indptr[0], indptr[-1])
            return Matrix(indptr - indptr[0], self.indices[part].copy(), self.data[part].copy(), self.d, self.is_full)
        counts = self.indptr[order + 1] - self.indptr[order]
        indptr = np.zeros(len(order) + 1, np.int64)
        np.cumsum(counts, out=indptr[1:])
        if self.is_full and len(order) <= len(self):
            return Matrix(indptr, self.indices[: indptr[-1]], self.array[order].reshape(-1), self.d, True)
        indices, data = np.empty(indptr[-1], self.indices.dtype), np.empty(indptr[-1], self.data.dtype)
        _copy_rows(self.indptr, self.indices, self.data, np.asarray(order, np.int64), indptr, indices, data)
        return Matrix(indptr, indices, data, self.d)

    def narrowed(self, columns: np.ndarray) -> Matrix:
        """Return a copy of the rows with these columns only, which get the numbers 0, 1, ..."""
        if not self.is_full:
            own = screened(self.indptr, self.indices, self.data, places(columns, self.d))
            return Matrix(*own, len(columns))
        n, k = len(self), len(columns)
        data = np.empty((n, k), self.data.dtype)
        take_columns(self.array, columns, data)
        indptr, indices = np.arange(n + 1, dtype=np.int64) * k, np.tile(np.arange(k, dtype=np.uint32), n)
        return Matrix(indptr, indices, data.reshape(-1), k, True)

    def to_scipy(self) -> sp.csr_array:
        """Return the rows as a scipy array.

        If indices do not ascend it is a copy.  Scipy may sort the indices in place and together with the data, and may
        have copied only one of the two.
        """
        indices = self.indices.view(np.int32) if self.d < 2**31 else self.indices.astype(np.int64)
        rows = sp.csr_array((self.data, indices, self.indptr), shape=(len(self), self.d))
        return rows if rows.has_sorted_indices else rows.copy()


def places(columns: np.ndarray, d: int) -> np.ndarray:
    """Return the position of each of d columns among ``columns``, and -1 for a column that is not among them."""
    place = np.full(d, -1, np.int32)
    place[columns] = np.arange(len(columns))
    return place


def stack(parts: list[Matrix]) -> Matrix:
    """Return the rows of several matrices, one below the other."""
    if len(parts) == 1:
        return parts[0]
    counts = np.concatenate([[0], *(np.diff(part.indptr) for part in parts)])
    return Matrix(
        np.cumsum(counts, dtype=np.int64),
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.data for part in parts]),
        max(part.d for part in parts),
    )


def as_matrix(X: Any, wide: bool = False) -> Matrix:
    """Return rows from a dense array or any scipy sparse matrix or array, int32 or int64 indices, float32 or float64.

    Entries keep their order.  Duplicate entries are summed and stored zeros are dropped, on a copy.  NaN, infinity and
    huge values are refused.  ``wide`` leaves the indices as they are; :mod:`sparsco.data.slots` turns them into smaller
    ones.
    """
    if isinstance(X, Matrix):
        return X
    if not sp.issparse(X):
        X = np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"X has {X.ndim} dimensions; it must have 2: one row per example.")
    if not wide:
        check_width(X.shape[1])
    if not sp.issparse(X):
        return _from_dense(np.ascontiguousarray(X, X.dtype if X.dtype in (np.float32, np.float64) else np.float64))
    csr = as_csr(X)
    if csr.dtype not in (np.float32, np.float64):
        csr = csr.astype(np.float64)
    zeros, wild, outside, repeated, indices = inspected(csr.indptr, csr.indices, csr.data, csr.shape[1], wide)
    if outside:
        raise ValueError(
            f"X has an index outside of its {csr.shape[1]} columns: build the matrix again with valid indices."
        )
    if repeated or zeros:
        csr = _summed(csr) if repeated else csr.copy()
        csr.eliminate_zeros()
        indices = csr.indices if wide else csr.indices.astype(np.uint32)
    if wild or repeated:  # a sum of duplicates may be too large
        check_numbers(csr.data, "X")
    arrays = csr.indptr.astype(np.int64, copy=False), indices, csr.data
    return Matrix(*(a if a.flags.writeable and a.flags.c_contiguous else np.array(a) for a in arrays), csr.shape[1])


def _summed(csr: sp.csr_array) -> sp.csr_array:
    """Return a copy in which the entries of one row and column are summed, at the place of the first.

    The result for a row depends on that row alone, so rows in chunks give the same sums as all rows at once.
    """
    row = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    order = np.lexsort((csr.indices, row))  # stable: the first entry leads
    is_first = np.append(True, (np.diff(row[order]) != 0) | (np.diff(csr.indices[order]) != 0))
    starts = np.flatnonzero(is_first)
    sums, leads = np.add.reduceat(csr.data[order], starts), order[starts]
    back = np.argsort(leads)
    leads = leads[back]
    indptr = np.append(0, np.cumsum(np.bincount(row[leads], minlength=csr.shape[0])))
    return sp.csr_array((sums[back], csr.indices[leads], indptr), shape=csr.shape)


def _from_dense(X: np.ndarray) -> Matrix:
    """Return a dense array as a Matrix; an array without zeros is not copied."""
    n, d = X.shape
    numbers = X.reshape(-1) if X.flags.writeable else X.ravel().copy()
    zeros, wild = _survey(numbers, LARGEST)
    if wild:
        check_numbers(numbers, "X")
    if zeros == 0:
        return Matrix(np.arange(n + 1, dtype=np.int64) * d, np.tile(np.arange(d, dtype=np.uint32), n), numbers, d, True)
    size = numbers.size - zeros
    return Matrix(*_compress(X, np.empty(size, np.uint32), np.empty(size, X.dtype)), d)


def check_width(d: int) -> None:
    """Raise a ValueError for more columns than an index of four bytes can distinguish."""
    if d > MAX_FEATURES:
        raise ValueError(
            f"X has {d} columns; at most {MAX_FEATURES} are supported: hash the features, or set storage='seen'."
        )


def check_numbers(data: np.ndarray, name: str) -> None:
    """Raise a ValueError for floats that are not finite or beyond LARGEST."""
    if not np.all(np.abs(data) <= LARGEST):
        what = "NaN" if np.isnan(data).any() else "infinity" if np.isinf(data).any() else "huge values"
        raise ValueError(f"{name} has {what}: its numbers must be finite and at most {LARGEST:g} in magnitude.")


@kernel
def _survey(numbers, largest):
    """Return the number of zeros and the number of values that are too large."""
    zeros, wild = 0, 0
    for p in range(numbers.size):
        zeros += numbers[U(p)] == 0.0
        wild += not abs(numbers[U(p)]) <= largest
    return zeros, wild


@allocating_kernel
def _compress(X, indices, data):
    """Return the numbers that are not zero, as CSR."""
    indptr, p = np.zeros(X.shape[0] + 1, np.int64), U(0)
    for i in range(U(X.shape[0])):
        for j in range(U(X.shape[1])):
            if X[i, j] != 0.0:
                indices[p], data[p] = j, X[i, j]
                p += U(1)
        indptr[i + U(1)] = p
    return indptr, indices, data


@kernel
def _copy_rows(indptr, indices, data, order, to_indptr, to_indices, to_data):
    """Copy the rows in ``order`` one after the other."""
    for k in range(order.size):
        shift = U(indptr[U(order[U(k)])]) - U(to_indptr[U(k)])
        for p in range(U(to_indptr[U(k)]), U(to_indptr[U(k + 1)])):
            to_indices[p], to_data[p] = indices[p + shift], data[p + shift]


@kernel
def take_columns(x, columns, out):
    """Write the columns with these numbers of x (n, d) into ``out``."""
    for i in range(U(x.shape[0])):
        for j in range(U(columns.size)):
            out[i, j] = x[i, U(columns[j])]


@inlined
def ask_for_row(indptr, indices, data, order, k):
    """Prefetch the beginning of a row that is needed soon; in a shuffled pass the CPU would wait for every row."""
    start = U(indptr[U(order[min(k + 4, order.size - 1)])])
    for line in range(4):
        prefetch(indices, start + U(16 * line))
        prefetch(data, start + U(16 * line))
        prefetch(data, start + U(16 * line + 8))


@inlined
def rows_to_prefetch(indptr, order, k):
    """Return the starts of two rows to prefetch during row k: the cells of the first, the entries of the second.

    Cells are asked for two rows ahead, or three if row k is short.  One row ahead is too late for a memory that is far
    away, and of many short rows two are.  Entries must be there by then, since they say which cells.
    """
    i = U(order[k])
    ahead = 3 if indptr[i + U(1)] - indptr[i] < 48 else 2
    return U(indptr[U(order[min(k + ahead, order.size - 1)])]), U(indptr[U(order[min(k + 4, order.size - 1)])])


@kernel
def longest_row(indptr, order):
    """Return the number of entries of the longest of the rows in ``order``."""
    longest = 0
    for k in range(order.size):
        i = U(order[k])
        longest = max(longest, indptr[i + U(1)] - indptr[i])
    return longest


@allocating_kernel
def squared_norms(indptr, data, order):
    """Return ||x_i||^2 for the rows in ``order``."""
    norms = np.empty(order.size)
    for k in range(order.size):
        s = 0.0
        for p in range(U(indptr[order[k]]), U(indptr[order[k] + 1])):
            s += np.float64(data[p]) * np.float64(data[p])
        norms[k] = s
    return norms


def margins(
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    w: np.ndarray,
    b: np.ndarray,
    order: np.ndarray | None = None,
) -> np.ndarray:
    """Return <w, x_i> + b for the rows in ``order``, or all rows, and the models of b (m,).

    The models are the first columns of w.
    """
    order = np.arange(len(indptr) - 1) if order is None else order
    b, out = np.ascontiguousarray(b, np.float64), np.empty((len(order), len(b)))
    _margins(indptr, indices, data, order, np.ascontiguousarray(w).reshape(-1), w.shape[1], b, out.reshape(-1))
    return out


@kernel
def _margins(indptr, indices, data, order, w, stride, b, out):
    m, step, eight = U(b.size), U(stride), U(8)
    whole = m - m % eight
    for k in range(order.size):
        i, at = U(order[k]), U(k) * m
        start, stop = U(indptr[i]), U(indptr[i + U(1)])
        for q in range(U(0), whole, eight):
            s = load(EIGHT, b, q)
            for p in range(start, stop):
                s = s + load(EIGHT, w, U(indices[p]) * step + q) * data[p]
            store(EIGHT, out, at + q, s)
        for q in range(whole, m):
            t = b[q]
            for p in range(start, stop):
                t += w[U(indices[p]) * step + q] * data[p]
            out[at + q] = t


@allocating_kernel
def count_columns(w):
    """Return the number of nonzeros of each column of w."""
    counts = np.zeros(w.shape[1], np.int64)
    for j in range(U(w.shape[0])):
        for q in range(U(w.shape[1])):
            counts[q] += w[j, q] != 0.0
    return counts


@kernel
def put_columns(w, ends, features, data):
    """Store the nonzeros of the columns of w, one column after the other.

    The nonzeros of column q are stored from ``ends[q]`` on; ``ends[q]`` is then the place after the last.
    """
    for j in range(U(w.shape[0])):
        for q in range(U(w.shape[1])):
            if w[j, q] != 0.0:
                at = U(ends[q])
                features[at], data[at] = j, w[j, q]
                ends[q] = at + U(1)


@kernel
def add_rows(indptr, indices, data, order, c, cells, first, total):
    """Add c_k x to columns of ``cells`` for the rows in ``order``, row after row, and c_k to the intercept's total."""
    at, m = U(first), U(c.shape[1])
    for k in range(order.size):
        i = U(order[k])
        for q in range(m):
            total[q] += c[k, q]
        for p in range(U(indptr[i]), U(indptr[i + U(1)])):
            j, x = U(indices[p]), data[p]
            for q in range(m):
                cells[j, at + q] += c[k, q] * x


@kernel
def add_squared_rows(indptr, indices, data, order, h, cells, first, total):
    """Add h_k x^2 to columns of ``cells`` for the rows in ``order``, row after row, and h_k to the intercept's sum."""
    at, m = U(first), U(h.shape[1])
    for k in range(order.size):
        i = U(order[k])
        for q in range(m):
            total[q] += h[k, q]
        for p in range(U(indptr[i]), U(indptr[i + U(1)])):
            j, x = U(indices[p]), data[p]
            for q in range(m):
                cells[j, at + q] += h[k, q] * (x * x)


def screened(
    indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, place: np.ndarray, order: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows in ``order``, or all, restricted to the columns j with place[j] >= 0, which becomes place[j].

    Arrays are made as long as they can become, and cut in place: memory that is not written to costs nothing.
    """
    order = np.arange(len(indptr) - 1) if order is None else order
    most = int((indptr[order + 1] - indptr[order]).sum())
    start, columns, values = np.zeros(len(order) + 1, np.int64), np.empty(most, np.uint32), np.empty(most)
    _screen(indptr, indices, data, place, order, start, columns, values)
    for each in (columns, values):
        each.resize(start[-1], refcheck=False)
    return start, columns, values


@kernel
def _screen(indptr, indices, data, place, order, start, columns, values):
    """Write the entries of ``screened``, and where each row starts."""
    to = U(0)
    for k in range(order.size):
        i = U(order[k])
        for q in range(U(indptr[i]), U(indptr[i + U(1)])):
            at = place[U(indices[q])]
            columns[to], values[to] = at, data[q]
            to += U(at >= 0)
        start[k + 1] = to
