"""Sums over rows: margins, weighted moments, gradients, the largest eigenvalue."""

from __future__ import annotations

import numpy as np

from ..jit.dispatch import U, allocating_kernel, kernel
from ..jit.lanes import EIGHT, load, store
from ..jit.simd import load_entries, sum_of
from .randomness import draw, number_of


@allocating_kernel
def margins(indptr, indices, data, w, b):
    """Return <w, x> + b for every row, by two sums that do not wait for each other."""
    p, q = np.empty(indptr.size - 1), U(indptr[0])
    for i in range(p.size):
        s, t, stop = b, 0.0, U(indptr[i + 1])
        while q + U(1) < stop:
            s += data[q] * w[U(indices[q])]
            t += data[q + U(1)] * w[U(indices[q + U(1)])]
            q += U(2)
        if q < stop:
            s += data[q] * w[U(indices[q])]
            q += U(1)
        p[i] = s + t
    return p


_NOTHING = np.zeros(8)


def full_margins(x: np.ndarray, w: np.ndarray, b: float) -> np.ndarray:
    """Return <w, x> + b for every row of x (n, d), read one row after the other."""
    out = np.empty(len(x))
    _write_full_margins(x.reshape(-1), np.ascontiguousarray(w), b, _NOTHING, out)
    return out


@kernel
def _write_full_margins(x, w, b, nothing, out):
    """Write the margins of rows that stand one after the other into ``out``; ``nothing`` are eight zeros."""
    d, eight = U(w.size), U(8)
    whole = d - d % eight
    for i in range(U(out.size)):
        at, sums = i * d, load(EIGHT, nothing, U(0))
        for j in range(U(0), whole, eight):
            sums = sums + load_entries(EIGHT, x, x, at + j, False) * load(EIGHT, w, j)
        s = b + sum_of(EIGHT, sums)
        for j in range(whole, d):
            s += w[j] * x[at + j]
        out[i] = s


@allocating_kernel
def moments(indptr, indices, data, c, h, d):
    """Return sum_i c_i x_i and sum_i h_i x_i^2."""
    sums = np.zeros((d, 2))  # both of a column in one cache line
    for i in range(c.size):
        ci, hi = c[i], h[i]
        for q in range(U(indptr[i]), U(indptr[i + 1])):
            j, x = U(indices[q]), data[q]
            sums[j, 0] += ci * x
            sums[j, 1] += hi * x * x
    return sums[:, 0].copy(), sums[:, 1].copy()


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
def add_first_sums(indptr, indices, data, c, h, g, squares):
    """Add what ``add_gradient_by_sign`` and ``add_squares`` do, in one read of the rows."""
    for i in range(c.size):
        ci, hi, k = c[i], h[i], U(c[i] > 0.0)
        for q in range(U(indptr[i]), U(indptr[i + 1])):
            j, x = U(indices[q]), data[q]
            g[k, j] += ci * x
            squares[j] += hi * x * x


@kernel
def add_full_gradient(x, c, g):
    """Add sum_i c_i x_i to g in place, for rows x (n, d) without zeros."""
    for i in range(U(c.size)):
        ci = c[i]
        for j in range(U(x.shape[1])):
            g[j] += ci * x[i, j]


@kernel
def add_full_gradient_by_sign(x, c, g):
    """Add what ``add_gradient_by_sign`` does, for rows x (n, d) without zeros."""
    for i in range(U(c.size)):
        ci, k = c[i], U(c[i] > 0.0)
        for j in range(U(x.shape[1])):
            g[k, j] += ci * x[i, j]


@kernel
def add_eight_gradients(indptr, indices, data, c, g):
    """Add sum_i c_iq x_i to column q of g (d, 8) in place, for eight models; c (n, 8) and g are flat."""
    for i in range(indptr.size - 1):
        own = load(EIGHT, c, U(8 * i))
        for p in range(U(indptr[i]), U(indptr[i + 1])):
            at = U(8) * U(indices[p])
            store(EIGHT, g, at, load(EIGHT, g, at) + own * np.float64(data[p]))


@kernel
def add_squares(indptr, indices, data, h, out):
    """Add sum_i h_i x_i^2 to out in place."""
    for i in range(h.size):
        hi = h[i]
        for q in range(U(indptr[i]), U(indptr[i + 1])):
            out[U(indices[q])] += hi * data[q] * data[q]


@allocating_kernel
def drawn_rows(importance, count, seed):
    """Return the numbers of rows, drawn out of ``count`` parts of equal importance, and the factors of each."""
    total, running, taken, size = 0.0, 0.0, 0, 0
    for i in range(importance.size):
        total += importance[i]
    numbers, factors = np.empty(count, np.int64), np.empty(count)
    part = total / count
    at = part * number_of(draw(seed, U(0)))
    for i in range(importance.size):
        running, times = running + importance[i], 0
        while taken < count and (at < running or i == importance.size - 1):
            times, taken = times + 1, taken + 1
            at = part * (taken + number_of(draw(seed, U(taken))))
        if times > 0:
            numbers[size], factors[size] = i, times * part / importance[i]
            size += 1
    return numbers[:size], factors[:size]


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
