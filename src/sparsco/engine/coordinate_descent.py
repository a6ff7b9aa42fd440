"""Coordinate descent on the quadratic model of a polish, with the intercept as the last feature.

Nothing here depends on the loss: derivatives c and curvatures h in the margins are arrays.
"""

from __future__ import annotations

import numpy as np

from ..jit.dispatch import U, allocating_kernel, kernel
from ..util.blas import one_blas_thread


@kernel
def violations(g, w, pen, rho, out):
    """Write the violation of each weight's optimality condition into ``out``; return the largest."""
    worst = 0.0
    for j in range(w.size):
        s = g[j] + rho * w[j]
        if w[j] > 0.0:
            u = abs(s + pen[j])
        elif w[j] < 0.0:
            u = abs(s - pen[j])
        else:
            u = max(abs(s) - pen[j], 0.0)
        out[j] = u
        worst = max(worst, u)
    return worst


@allocating_kernel
def column_sums(first, rows, x, c):
    """Return sum_i c_i x_i, computed by columns."""
    g = np.empty(first.size - 1)
    for j in range(g.size):
        s = 0.0
        for p in range(U(first[j]), U(first[j + 1])):
            s += c[rows[p]] * x[p]
        g[j] = s
    return g


@allocating_kernel
def transposed(start, columns, values, k):
    """Return the CSC arrays, with k columns, of the rows given as CSR."""
    first = np.zeros(k + 1, np.int64)
    for q in range(columns.size):
        first[columns[q] + U(1)] += 1
    for j in range(k):
        first[j + 1] += first[j]
    end, rows, x = first[:-1].copy(), np.empty(columns.size, np.uint32), np.empty(columns.size)
    for i in range(start.size - 1):
        for q in range(U(start[i]), U(start[i + 1])):
            j = U(columns[q])
            to = U(end[j])
            rows[to], x[to] = i, values[q]
            end[j] += 1
    return first, rows, x


@allocating_kernel
def gram(start, columns, x, h, k):
    """Return sum_i h_i x_i x_i^T, both triangles; a last feature, always 1, stands for the intercept."""
    G = np.zeros((k + 1, k + 1))
    for i in range(h.size):
        G[k, k] += h[i]
        for a in range(U(start[i]), U(start[i + 1])):
            hx, row = h[i] * x[a], U(columns[a])
            G[k, row] += hx
            for b in range(U(start[i]), a + U(1)):
                G[row, U(columns[b])] += hx * x[b]
    for i in range(k + 1):  # a pair stored as (i, j) in one row can be stored as (j, i) in another
        for j in range(i):
            G[i, j] += G[j, i]
            G[j, i] = G[i, j]
    return G


@kernel
def descend_gram(G, q, w, pen, tol, max_epochs):
    """Minimise <q, w' - w> + 1/2 (w' - w)^T G (w' - w) + sum_j pen_j |w'_j| by coordinate descent; w becomes w'.

    The sweeps cover the nonzeros until they converge; a full sweep then checks all weights.  q is kept equal to the
    gradient at w.
    """
    full = True
    for _ in range(max_epochs):
        largest = 0.0
        for j in range(w.size):
            M = G[j, j]
            if M <= 0.0 or (w[j] == 0.0 and not full):
                continue
            v = w[j] * M - q[j]
            new = (v - min(max(v, -pen[j]), pen[j])) / M
            move = new - w[j]
            if move != 0.0:
                w[j] = new
                largest = max(largest, abs(move) * M)
                for i in range(w.size):
                    q[i] += move * G[j, i]
        if largest <= tol and full:
            break
        full = largest <= tol


@allocating_kernel
def descend(first, rows, x, c, h, D, q, w, pen, tol, max_epochs, moves_last):
    """Minimise the objective of :func:`descend_gram` in place for many columns; return the number of sweeps.

    G = X^T diag(h) X + diag(D) is not formed.  The last feature is always 1.  ``q`` is the gradient at the start.
    ``c`` holds the derivatives in the margins and becomes c + h times the change of the margins.
    """
    k = w.size - 1
    M, hx, offset = D.copy(), np.empty(x.size), q.copy()
    M[k] = h.sum() if moves_last else 0.0
    offset[k] -= c.sum()
    for j in range(k):
        for p in range(U(first[j]), U(first[j + 1])):
            hx[p] = h[rows[p]] * x[p]
            M[j] += hx[p] * x[p]
            offset[j] -= c[rows[p]] * x[p]
    full, sweeps = True, 0
    while sweeps < max_epochs:
        sweeps += 1
        largest = 0.0
        for j in range(k + 1):
            if M[j] <= 0.0 or (w[j] == 0.0 and not full):
                continue
            g = offset[j]
            if j < k:
                for p in range(U(first[j]), U(first[j + 1])):
                    g += x[p] * c[rows[p]]
            else:
                g += c.sum()
            v = w[j] * M[j] - g
            new = (v - min(max(v, -pen[j]), pen[j])) / M[j]
            move = new - w[j]
            if move != 0.0:
                w[j] = new
                offset[j] += move * D[j]
                largest = max(largest, abs(move) * M[j])
                if j < k:
                    for p in range(U(first[j]), U(first[j + 1])):
                        c[rows[p]] += move * hx[p]
                else:
                    for i in range(h.size):
                        c[i] += move * h[i]
        if largest <= tol and full:
            break
        full = largest <= tol
    return sweeps


def descend_beside_intercept(G: np.ndarray, q: np.ndarray, w: np.ndarray, pen: np.ndarray, tol: float) -> None:
    """Update the weights by coordinate descent with the intercept optimal for each value, as if columns had mean zero.

    An intercept treated as one more coordinate would converge slowly where features have a large mean.
    """
    k, before = w.size - 1, w.copy()
    share = G[k, :k] / G[k, k]
    centred = G[:k, :k] - np.outer(share, G[k, :k])
    descend_gram(centred, q[:k] - share * q[k], w[:k], pen[:k], tol, 200)
    w[k] -= q[k] / G[k, k] + share @ (w[:k] - before[:k])


def dense_gram(start: np.ndarray, columns: np.ndarray, x: np.ndarray, h: np.ndarray, k: int) -> np.ndarray:
    """Return :func:`gram` computed by one dense product."""
    X = np.zeros((h.size, k + 1))
    X[np.repeat(np.arange(h.size), np.diff(start)), columns] = x
    X[:, k] = 1.0
    with one_blas_thread():
        return (X * h[:, None]).T @ X
