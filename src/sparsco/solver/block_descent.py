"""Block coordinate descent on the quadratic model of a prox-Newton step, for several outputs and for groups.

The margins of a row change by e = x W' - x W, one number for each output.  The model of the loss of row i is

    <c_i, e> + e^T H_i e / 2,    H_i = diag(h_i) - r_i s_i^T,

with r_i = 0 where outputs are apart.  For a softmax s_i are the probabilities of the classes, and r_i a multiple of
them.  U holds the gradients c_i + H_i e in the margins, and is kept up to date.  Columns come as CSC arrays ``first``,
``rows``, ``x``.
"""

from __future__ import annotations

import numpy as np

from ..jit.dispatch import allocating_kernel, inlined


@inlined
def _limited(v, s, low, high):
    """Return the soft threshold S(v, s), moved into the bounds."""
    return min(max(v - min(max(v, -s), s), low), high)


@inlined
def _is_any(W, begin, end):
    """Return whether any weight of these columns is not zero."""
    for j in range(begin, end):
        for q in range(W.shape[1]):
            if W[j, q] != 0.0:
                return True
    return False


@allocating_kernel
def curvatures(first, rows, x, h):
    """Return sum_i h_i x_ij^2 for every column j and output; it bounds the second derivatives in one column."""
    k, m = first.size - 1, h.shape[1]
    M = np.zeros((k, m))
    for j in range(k):
        for p in range(first[j], first[j + 1]):
            i = rows[p]
            for q in range(m):
                M[j, q] += h[i, q] * x[p] * x[p]
    return M


@inlined
def _descend_intercepts(U, h, r, s, total, db, move):
    """Move the intercepts by steps of length 1 / total_q and update U; return the largest slope.

    ``move`` is scratch.
    """
    n, m = U.shape
    for q in range(m):
        move[q] = 0.0
    for i in range(n):
        for q in range(m):
            move[q] += U[i, q]
    largest = 0.0
    for q in range(m):
        largest = max(largest, abs(move[q]))
        move[q] = -move[q] / total[q] if total[q] > 0.0 else 0.0
        db[q] += move[q]
    for i in range(n):
        common = 0.0
        for q in range(m):
            common += s[i, q] * move[q]
        for q in range(m):
            U[i, q] += h[i, q] * move[q] - r[i, q] * common
    return largest


@allocating_kernel
def descend_outputs(first, rows, x, U, h, r, s, total, W, db, M, l1, rho, low, high, tol, max_sweeps, intercept):
    """Minimise the model plus the penalties of single weights, with W and db changed in place; return the sweeps.

    All outputs of a column move together, each by its own curvature: diag(M_j) is at least the second derivatives in
    column j, and diag(total) those in the intercepts.  After a sweep over all weights the following ones cover the
    nonzero weights, until these converge.
    """
    k, m = W.shape
    g, move = np.zeros(m), np.zeros(m)
    step = np.zeros(m)
    full, sweeps = True, 0
    while sweeps < max_sweeps:
        sweeps += 1
        largest = _descend_intercepts(U, h, r, s, total, db, step) if intercept else 0.0
        for j in range(k):
            live = full
            for q in range(m):
                g[q] = rho * W[j, q]
                live = live or W[j, q] != 0.0
            if not live:
                continue
            for p in range(first[j], first[j + 1]):
                i = rows[p]
                for q in range(m):
                    g[q] += x[p] * U[i, q]
            live = False
            for q in range(m):
                L = M[j, q] + rho
                move[q] = 0.0
                if L > 0.0 and (full or W[j, q] != 0.0):
                    new = _limited(W[j, q] - g[q] / L, l1[j] / L, low[j], high[j])
                    move[q] = new - W[j, q]
                    largest = max(largest, abs(move[q]) * L)
                    W[j, q] = new
                    live = live or move[q] != 0.0
            if live:
                for p in range(first[j], first[j + 1]):
                    i = rows[p]
                    common = 0.0
                    for q in range(m):
                        common += s[i, q] * move[q]
                    for q in range(m):
                        U[i, q] += x[p] * (h[i, q] * move[q] - r[i, q] * common)
        if largest <= tol and full:
            break
        full = largest <= tol
    return sweeps


@allocating_kernel
def descend_groups(first, rows, x, U, h, r, s, total, W, db, L, l1, rho, start, strengths, tol, max_sweeps, intercept):
    """Minimise the model plus the penalties of groups, with W and db changed in place; return the sweeps.

    Group a has the columns ``start[a]`` to ``start[a + 1]`` and moves by a prox step of length 1 / L_a.  L_a is raised
    where the model proves to be steeper.
    """
    n, m = U.shape
    most = 0
    for a in range(strengths.size):
        most = max(most, start[a + 1] - start[a])
    g, new = np.zeros((most, m)), np.zeros((most, m))
    E, is_touched, touched = np.zeros((n, m)), np.zeros(n, np.bool_), np.zeros(n, np.int64)
    step = np.zeros(m)
    full, sweeps = True, 0
    while sweeps < max_sweeps:
        sweeps += 1
        largest = _descend_intercepts(U, h, r, s, total, db, step) if intercept else 0.0
        for a in range(strengths.size):
            begin, end = start[a], start[a + 1]
            if not full and not _is_any(W, begin, end):
                continue
            for j in range(begin, end):
                for q in range(m):
                    g[j - begin, q] = rho * W[j, q]
                for p in range(first[j], first[j + 1]):
                    for q in range(m):
                        g[j - begin, q] += x[p] * U[rows[p], q]
            for _ in range(60):
                square, moved, count = 0.0, 0.0, 0
                for j in range(begin, end):
                    for q in range(m):
                        v = W[j, q] - g[j - begin, q] / L[a]
                        t = l1[j] / L[a]
                        new[j - begin, q] = v - min(max(v, -t), t)
                        square += new[j - begin, q] ** 2
                keep = max(1.0 - strengths[a] / L[a] / np.sqrt(square), 0.0) if square > 0.0 else 0.0
                for j in range(begin, end):
                    for q in range(m):
                        new[j - begin, q] = keep * new[j - begin, q] - W[j, q]
                        moved += new[j - begin, q] ** 2
                if moved == 0.0:
                    break
                for j in range(begin, end):
                    for p in range(first[j], first[j + 1]):
                        i = rows[p]
                        if not is_touched[i]:
                            is_touched[i], touched[count] = True, i
                            count += 1
                        for q in range(m):
                            E[i, q] += x[p] * new[j - begin, q]
                bend = rho * moved
                for t in range(count):
                    i, common = touched[t], 0.0
                    for q in range(m):
                        common += s[i, q] * E[i, q]
                    for q in range(m):
                        bend += E[i, q] * (h[i, q] * E[i, q] - r[i, q] * common)
                fits = bend <= L[a] * moved * (1.0 + 1e-9)
                for t in range(count):
                    i, common = touched[t], 0.0
                    if fits:
                        for q in range(m):
                            common += s[i, q] * E[i, q]
                        for q in range(m):
                            U[i, q] += h[i, q] * E[i, q] - r[i, q] * common
                    is_touched[i] = False
                    for q in range(m):
                        E[i, q] = 0.0
                if fits:
                    for j in range(begin, end):
                        for q in range(m):
                            W[j, q] += new[j - begin, q]
                    largest = max(largest, np.sqrt(moved) * L[a])
                    break
                L[a] = max(2.0 * L[a], bend / moved)
        if largest <= tol and full:
            break
        full = largest <= tol
    return sweeps
