"""Rows in memory, stored by column: what coordinate descent reads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data.rows import places, screened
from ..jit.dispatch import U, allocating_kernel, inlined, kernel


class ByColumn(NamedTuple):
    """n rows stored by column: the entries of column j are at ``first[j]:first[j + 1]``."""

    first: np.ndarray
    rows: np.ndarray
    x: np.ndarray
    n: int

    @property
    def d(self) -> int:
        """Return the number of columns."""
        return len(self.first) - 1

    def dense(self) -> np.ndarray:
        """Return the rows as a dense array (n, d), stored by column."""
        out = np.zeros((self.d, self.n))
        _copy_columns(self.first, self.rows, self.x, out)
        return out.T


@kernel
def _copy_columns(first, rows, x, out):
    """Write column j into row j of ``out``."""
    for j in range(first.size - 1):
        for p in range(U(first[j]), U(first[j + 1])):
            out[j, rows[p]] = x[p]


@allocating_kernel
def _transposed(indptr, indices, data, order, d):
    """Return the entries of the rows in ``order`` by column."""
    first = np.zeros(d + 1, np.int64)
    for i in order:
        for p in range(U(indptr[i]), U(indptr[i + 1])):
            first[U(indices[p]) + U(1)] += 1
    for j in range(d):
        first[j + 1] += first[j]
    end, rows, x = first[:-1].copy(), np.empty(first[d], np.uint32), np.empty(first[d])
    for k in range(order.size):
        i = order[k]
        for p in range(U(indptr[i]), U(indptr[i + 1])):
            j = U(indices[p])
            to = U(end[j])
            rows[to], x[to] = k, data[p]
            end[j] += 1
    return first, rows, x


def by_column(indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, order: np.ndarray, d: int) -> ByColumn:
    """Return the rows in ``order`` by column, for all d columns."""
    return ByColumn(*_transposed(indptr, indices, data, np.asarray(order, np.int64), d), len(order))


def some_by_column(
    indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, order: np.ndarray, columns: np.ndarray, d: int
) -> ByColumn:
    """Return some of the d columns of the rows in ``order``, in the order of ``columns``."""
    if len(columns) == d and np.array_equal(columns, np.arange(d)):
        return by_column(indptr, indices, data, order, d)
    found = screened(indptr, indices, data, places(columns, d), order)
    return by_column(*found, np.arange(len(order)), len(columns))


@inlined
def total(a):
    """Return the sum of a, by four sums that do not wait for each other."""
    s, t, u, v = 0.0, 0.0, 0.0, 0.0
    whole = U(a.size) - U(a.size) % U(4)
    for i in range(U(0), whole, U(4)):
        s += a[i]
        t += a[i + U(1)]
        u += a[i + U(2)]
        v += a[i + U(3)]
    for i in range(whole, U(a.size)):
        s += a[i]
    return (s + t) + (u + v)


@inlined
def dot(a, b):
    """Return <a, b>, by four sums that do not wait for each other."""
    s, t, u, v = 0.0, 0.0, 0.0, 0.0
    whole = U(a.size) - U(a.size) % U(4)
    for i in range(U(0), whole, U(4)):
        s += a[i] * b[i]
        t += a[i + U(1)] * b[i + U(1)]
        u += a[i + U(2)] * b[i + U(2)]
        v += a[i + U(3)] * b[i + U(3)]
    for i in range(whole, U(a.size)):
        s += a[i] * b[i]
    return (s + t) + (u + v)


@inlined
def dot_column(first, rows, x, c, j):
    """Return the sum over the rows of c_i x_ij, by two sums that do not wait for each other."""
    s, other, p, stop = 0.0, 0.0, U(first[U(j)]), U(first[U(j) + U(1)])
    while p + U(1) < stop:
        s += x[p] * c[rows[p]]
        other += x[p + U(1)] * c[rows[p + U(1)]]
        p += U(2)
    if p < stop:
        s += x[p] * c[rows[p]]
    return s + other


@kernel
def gradient(first, rows, x, c, g):
    """Write the sum over the rows of c_i x_ij into g_j, for every column."""
    for j in range(g.size):
        g[j] = dot_column(first, rows, x, c, j)


@kernel
def add_columns(first, rows, x, w, p):
    """Add <w, x_i> to the margin p_i of every row."""
    for j in range(w.size):
        if w[j] != 0.0:
            for k in range(U(first[j]), U(first[j + 1])):
                p[rows[k]] += w[j] * x[k]


@kernel
def sum_by_column(first, rows, x, c, g):
    """Write the sum over the rows of c_ik x_ij into g_jk, for every column j and lane k."""
    for j in range(g.shape[0]):
        for k in range(g.shape[1]):
            g[j, k] = 0.0
        for p in range(U(first[j]), U(first[j + 1])):
            i, v = U(rows[p]), x[p]
            for k in range(g.shape[1]):
                g[j, k] += v * c[i, k]


@allocating_kernel
def copied_columns(first, rows, x, columns, place):
    """Return some columns for some rows: row i becomes place[i], if that is not negative."""
    ends = np.zeros(columns.size + 1, np.int64)
    for a in range(columns.size):
        count = 0
        for p in range(U(first[columns[a]]), U(first[columns[a] + 1])):
            count += place[U(rows[p])] >= 0
        ends[a + 1] = ends[a] + count
    to_rows, to_x, at = np.empty(ends[-1], np.uint32), np.empty(ends[-1]), 0
    for a in range(columns.size):
        for p in range(U(first[columns[a]]), U(first[columns[a] + 1])):
            i = place[U(rows[p])]
            if i >= 0:
                to_rows[at], to_x[at] = i, x[p]
                at += 1
    return ends, to_rows, to_x
