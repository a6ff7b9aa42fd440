"""Coordinate descent on the quadratic model of a prox-Newton step, one output, weights that are penalised alone.

Nothing here depends on the loss: derivatives c and curvatures h in the margins are arrays.
"""

from __future__ import annotations

import numpy as np

from ..jit.dispatch import U, allocating_kernel


@allocating_kernel
def descend(first, rows, x, c, h, w, pen, rho, low, high, tol, max_epochs, moves_b):
    """Minimise the model plus pen_j |w_j| + rho / 2 w_j^2 in place; return the sweeps and the intercept's move.

    ``c`` holds the derivatives in the margins and becomes c + h times the change of the margins.  After a sweep over
    all weights the following ones cover the nonzero weights, until these converge.
    """
    k = w.size
    M, hx = np.zeros(k), np.empty(x.size)
    total, db = h.sum(), 0.0
    for j in range(k):
        for p in range(U(first[j]), U(first[j + 1])):
            hx[p] = h[rows[p]] * x[p]
            M[j] += hx[p] * x[p]
    full, sweeps = True, 0
    while sweeps < max_epochs:
        sweeps += 1
        largest = 0.0
        for j in range(k):
            L = M[j] + rho
            if L <= 0.0 or (w[j] == 0.0 and not full):
                continue
            g = rho * w[j]
            for p in range(U(first[j]), U(first[j + 1])):
                g += x[p] * c[rows[p]]
            v = w[j] * L - g
            new = min(max((v - min(max(v, -pen[j]), pen[j])) / L, low[j]), high[j])
            move = new - w[j]
            if move != 0.0:
                w[j] = new
                largest = max(largest, abs(move) * L)
                for p in range(U(first[j]), U(first[j + 1])):
                    c[rows[p]] += move * hx[p]
        if moves_b and total > 0.0:
            slope = c.sum()
            largest = max(largest, abs(slope))
            move = -slope / total
            db += move
            for i in range(h.size):
                c[i] += move * h[i]
        if largest <= tol and full:
            break
        full = largest <= tol
    return sweeps, db
