"""Sums over rows: margins, weighted moments, gradients, the largest eigenvalue."""

from __future__ import annotations

import numpy as np

from ..jit.dispatch import U, allocating_kernel, kernel


@allocating_kernel
def margins(indptr, indices, data, w, b):
    """Return <w, x> + b for every row."""
    p = np.empty(indptr.size - 1)
    for i in range(p.size):
        s = b
        for q in range(U(indptr[i]), U(indptr[i + 1])):
            s += data[q] * w[U(indices[q])]
        p[i] = s
    return p


@allocating_kernel
def moments(indptr, indices, data, c, h, d):
    """Return sum_i c_i x_i and sum_i h_i x_i^2."""
    g, H = np.zeros(d), np.zeros(d)
    for i in range(c.size):
        ci, hi = c[i], h[i]
        for q in range(U(indptr[i]), U(indptr[i + 1])):
            j = U(indices[q])
            g[j] += ci * data[q]
            H[j] += hi * data[q] * data[q]
    return g, H


@kernel
def add_gradient(indptr, indices, data, c, g):
    """Add sum_i c_i x_i to g in place."""
    for i in range(c.size):
        ci = c[i]
        if ci != 0.0:
            for q in range(U(indptr[i]), U(indptr[i + 1])):
                g[U(indices[q])] += ci * data[q]


@kernel
def add_gradient_by_sign(indptr, indices, data, c, g):
    """Add sum_i c_i x_i to g (2, d) in place: the rows with c_i > 0 to g_1, the others to g_0."""
    for i in range(c.size):
        ci, k = c[i], U(c[i] > 0.0)
        if ci != 0.0:
            for q in range(U(indptr[i]), U(indptr[i + 1])):
                g[k, U(indices[q])] += ci * data[q]


@kernel
def add_full_gradient_by_sign(x, c, g):
    """Add what ``add_gradient_by_sign`` does, for rows x (n, d) without zeros."""
    for i in range(U(c.size)):
        ci, k = c[i], U(c[i] > 0.0)
        for j in range(U(x.shape[1])):
            g[k, j] += ci * x[i, j]


@kernel
def add_squares(indptr, indices, data, h, out):
    """Add sum_i h_i x_i^2 to out in place."""
    for i in range(h.size):
        hi = h[i]
        for q in range(U(indptr[i]), U(indptr[i + 1])):
            out[U(indices[q])] += hi * data[q] * data[q]


def largest_eigenvalue(indptr, indices, data, d, h, intercept=False):
    """Return the largest eigenvalue of sum_i h_i x_i x_i^T, by power iteration.

    ``intercept`` adds a last feature that is always 1.
    """
    v, last, norm = moments(indptr, indices, data, h, h, d)[1], h.sum() if intercept else 0.0, 0.0
    for _ in range(20):
        norm = np.hypot(_length(v), last)
        if norm == 0.0:
            break
        hp = h * margins(indptr, indices, data, v / norm, last / norm)
        v, last = moments(indptr, indices, data, hp, h, d)[0], hp.sum() if intercept else 0.0
        norm = np.hypot(_length(v), last)
    return float(norm)


def _length(v):
    """Return ||v||; linalg.norm would start the threads of the BLAS."""
    return np.sqrt(np.square(v).sum())
