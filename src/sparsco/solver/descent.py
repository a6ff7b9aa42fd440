"""Coordinate descent on the quadratic model of a prox-Newton step.

At margins p the loss has derivatives c_i and curvatures h_i.  The model of a change dw of the weights and db of the
intercept, with dp = X dw + db, is

    sum_i (c_i dp_i + h_i dp_i^2 / 2) + sum_j (pen_j |w_j| + ridge_j w_j^2 / 2 + slope_j w_j) + slope_b db,

with bounds low_j <= w_j <= high_j.  Nothing depends on the loss but c and h.

The intercept is eliminated: after every step of a weight it takes its best value.  This amounts to columns that are
centred with the weights h, without a dense column in memory.
"""

from __future__ import annotations

import numpy as np

from ..jit.dispatch import U, inlined, kernel
from .columns import dot_column, total

SWEEPS = 100
"""The most sweeps over the weights of a model."""
MOST_DAMPING = 1e4
"""The largest factor of the curvatures after which no further step is tried."""
MOST_CHANGE = 0.2
"""A Gram matrix of another point serves while the shares of the examples in the curvature change by less, in total.

With .1, .2 and .4, 14 strengths of 7000 x 50 took 10.7, 7.9 and 7.4 ms at ROUGH, and objectives were up to .0002, .001
and .001 above their minima; those of ionosphere, .006, .003 and .012 (by columns .009).  Where only the sum of the
curvatures decided, ionosphere was .088 above, and mushrooms .044.
"""
SLOW, FAR = 0.3, 30.0
"""Steps are slow if one lowers the objective by more than this share of what the step before did.  The end is far if a
step lowers it by this many times what the last step may."""


@inlined
def sweep_columns(
    first,
    rows,
    x,
    u,
    h,
    w,
    pen,
    ridge,
    slope,
    low,
    high,
    slope_b,
    chosen,
    curve,
    mean,
    active,
    share,
    least,
    max_sweeps,
    moves_b,
):
    """Minimise the model over the columns ``chosen``, with w changed in place; return db and the number of sweeps.

    u begins as c, and u_i becomes c_i + h_i <dw, x_i>.  ``pen``, ``ridge``, ``slope`` and the bounds have a number for
    each chosen column, and so have the scratch arrays ``curve``, ``mean`` and ``active``.  A sweep changes the model by
    about the sum of move^2 curve.  It is the last one if that is at most ``share`` of that of the first sweep, or
    ``least``.  Sweeps after the first cover the nonzero weights only.
    """
    total_h, db = 0.0, 0.0
    if moves_b:
        total_h = total(h)
        db = -(slope_b + total(u)) / total_h
    k = chosen.size
    for a in range(k):
        j = U(chosen[a])
        s, m = 0.0, 0.0
        for p in range(U(first[j]), U(first[j + U(1)])):
            hx = x[p] * h[rows[p]]
            m += hx
            s += x[p] * hx
        curve[a], mean[a], active[a] = s, 0.0, a
        if moves_b:
            mean[a] = m
            curve[a] = max(s - m * m / total_h, 1e-9 * s)
        curve[a] += ridge[a]
    count, at_first, sweeps = k, 0.0, 0
    while sweeps < max_sweeps:
        change, left = 0.0, 0
        for e in range(count):
            a = active[e]
            j, M = U(chosen[a]), curve[a]
            if M <= 0.0:
                continue
            v = M * w[j] - (ridge[a] * w[j] + slope[a] + db * mean[a] + dot_column(first, rows, x, u, j))
            new = min(max((v - min(max(v, -pen[a]), pen[a])) / M, low[a]), high[a])
            move = new - w[j]
            if move != 0.0:
                w[j] = new
                change += move * move * M
                if moves_b:
                    db -= move * mean[a] / total_h
                for p in range(U(first[j]), U(first[j + U(1)])):
                    i = rows[p]
                    u[i] += h[i] * x[p] * move
            if new != 0.0:
                active[left] = a
                left += 1
        if sweeps == 0:
            at_first = change
        count, sweeps = left, sweeps + 1
        if change <= max(share * at_first, least):
            break
    return db, sweeps


descend = kernel(sweep_columns)
"""``sweep_columns`` for callers outside of kernels."""


@inlined
def sweep_gram(G, q, w, pen, low, high, share, least, max_sweeps):
    """Minimise <q, dw> + dw^T G dw / 2 + sum_j pen_j |w_j| for a small G and low <= w <= high.

    q is kept equal to the gradient at w.  Sweeps cover the weights that are not zero until these converge, then all.
    """
    full, at_first = True, 0.0
    for sweep in range(max_sweeps):
        worst = 0.0
        for j in range(w.size):
            M = G[j, j]
            if M <= 0.0 or (w[j] == 0.0 and not full):
                continue
            v = M * w[j] - q[j]
            new = min(max((v - min(max(v, -pen[j]), pen[j])) / M, low[j]), high[j])
            move = new - w[j]
            if move != 0.0:
                w[j] = new
                worst = max(worst, move * move * M)
                for i in range(w.size):
                    q[i] += move * G[j, i]
        if sweep == 0:
            at_first = worst
        if worst <= max(share * at_first, least):
            if full:
                break
            full = True
        else:
            full = False


@kernel
def descend_gram(G, q, w, pen, low, high, share, least, max_sweeps):
    """Minimise the model of ``sweep_gram``."""
    sweep_gram(G, q, w, pen, low, high, share, least, max_sweeps)


def no_bounds(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of k weights that have none."""
    return np.full(k, -np.inf), np.full(k, np.inf)
