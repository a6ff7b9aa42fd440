"""Second derivatives of a loss as sums over the pairs of entries in each sparse row."""

from __future__ import annotations

import numpy as np

from ..jit.dispatch import U, allocating_kernel, inlined, kernel


@allocating_kernel
def pairs_of_rows(start, columns, x, place, h, size):
    """Return sum_i h_i z_i z_i^T for sparse rows.

    Column j is number ``place[j]`` of z, or left out if that is negative.  The last number of ``place`` is that of the
    intercept, which is 1 in every row.
    """
    A = np.zeros((size, size))
    at, z = np.empty(size, np.uint64), np.empty(size)
    for i in range(h.size):
        if h[i] == 0.0:
            continue
        count = U(0)
        for p in range(U(start[i]), U(start[i + 1])):
            here = place[U(columns[p])]
            if here >= 0:
                at[count], z[count] = here, x[p]
                count += U(1)
        if place[-1] >= 0:
            at[count], z[count] = place[-1], 1.0
            count += U(1)
        for a in range(count):
            hz, row = h[i] * z[a], at[a]
            for b in range(a + U(1)):
                A[row, at[b]] += hz * z[b]
    _symmetrise(A)
    return A


@kernel
def put_dense(start, columns, x, order, place, out):
    """Write the sparse rows in ``order`` into the rows of ``out``; column j is number ``place[j]``, or left out."""
    for k in range(order.size):
        i = U(order[U(k)])
        for p in range(U(start[i]), U(start[i + U(1)])):
            at = place[U(columns[p])]
            if at >= 0:
                out[U(k), at] = x[p]


@allocating_kernel
def blocks_of_rows(start, columns, x, place, h, shares, size):
    """Return sum_i Z_i^T (diag(h_i) - h_i s_i^T) Z_i for sparse rows and several outputs.

    Column j in output q is number ``place[j, q]`` of the result; see :func:`pairs_of_rows`.
    """
    A, m, last = np.zeros((size, size)), h.shape[1], place.shape[0] - 1
    at, output, z = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size)
    for i in range(h.shape[0]):
        count = 0
        for p in range(start[i], start[i + 1] + 1):
            j = columns[p] if p < start[i + 1] else last
            for q in range(m):
                if place[j, q] >= 0:
                    at[count], output[count] = place[j, q], q
                    z[count] = x[p] if p < start[i + 1] else 1.0
                    count += 1
        for a in range(count):
            hz = h[i, output[a]] * z[a]
            for b in range(a + 1):
                own = 1.0 if output[a] == output[b] else 0.0
                A[at[a], at[b]] += hz * z[b] * (own - shares[i, output[b]])
    _symmetrise(A)
    return A


@inlined
def _symmetrise(A):
    """Add up A and its transpose, which hold a part each of a symmetric matrix, with the diagonal once."""
    for i in range(A.shape[0]):
        for j in range(i):
            A[i, j] += A[j, i]
            A[j, i] = A[i, j]
