"""Block coordinate descent on a quadratic model that is given by its matrix, for groups of weights and one output.

The minimum over one group is exact.  With the group's block B = Q diag(e) Q^T of the matrix and r = B w - q it is

    v = 0 if ||r|| <= strength,    otherwise (B + strength / ||v|| I) v = r,

so that t = ||v|| solves sum_i z_i^2 / (e_i t + strength)^2 = 1 with z = Q^T r.
"""

from __future__ import annotations

import numpy as np

from ..jit.dispatch import U, allocating_kernel, inlined, kernel

_NEWTON_STEPS = 50


@inlined
def _length_of(z, e, begin, p, strength, t):
    """Return the norm t of a group's minimum, for p numbers z and the eigenvalues e from ``begin`` on.

    One over the root of the sum is concave in t: Newton steps rise from the left, and reach the left after one step.
    """
    for _ in range(_NEWTON_STEPS):
        total, slope = 0.0, 0.0
        for i in range(p):
            one = 1.0 / (e[begin + i] * t + strength)
            part = z[i] * one * z[i] * one
            total += part
            slope += e[begin + i] * part * one
        inverse = 1.0 / np.sqrt(total)
        new = max(t + (1.0 - inverse) / (inverse * inverse * inverse * slope), 0.0)
        if abs(new - t) <= 1e-12 * t:
            return new
        t = new
    return t


@allocating_kernel
def descend_group_matrix(S, q, w, start, strengths, Q, first, e, share, least, max_sweeps):
    """Minimise <q, dw> + dw^T S dw / 2 + sum_a strength_a ||w_a||, with w changed in place; return the sweeps.

    Group a has the weights ``start[a]`` to ``start[a + 1]``.  Its block of S has the eigenvalues e at these places, in
    ascending order and above zero, and its eigenvectors are at Q[first[a]], one row after the other.  q is kept equal
    to the gradient at w.  A sweep is the last one if no group changes the model by more than ``share`` of the most in
    the first sweep, or ``least``.  Sweeps cover the groups that are not zero until these converge, then all.
    """
    most = 0
    for a in range(strengths.size):
        most = max(most, start[a + 1] - start[a])
    r, z = np.zeros(most), np.zeros(most)
    full, sweeps, at_first = True, 0, 0.0
    while sweeps < max_sweeps:
        worst = 0.0
        for a in range(strengths.size):
            begin, p, at, strength = start[a], start[a + 1] - start[a], first[a], strengths[a]
            square_w, square = 0.0, 0.0
            for j in range(begin, begin + p):
                square_w += w[j] * w[j]
            if square_w == 0.0 and not full:
                continue
            for i in range(p):
                r[i] = -q[begin + i]
                for j in range(p):
                    r[i] += S[begin + i, begin + j] * w[begin + j]
                square += r[i] * r[i]
            length = np.sqrt(square)
            if length > strength:
                for i in range(p):
                    z[i] = 0.0
                    for j in range(p):
                        z[i] += Q[at + j * p + i] * r[j]
                t = np.sqrt(square_w) if square_w > 0.0 else (length - strength) / e[begin + p - 1]
                t = _length_of(z, e, begin, p, strength, t)
                for i in range(p):
                    z[i] *= t / (e[begin + i] * t + strength)
                for i in range(p):
                    r[i] = 0.0
                    for j in range(p):
                        r[i] += Q[at + i * p + j] * z[j]
            elif square_w == 0.0:
                continue
            else:
                for i in range(p):
                    r[i] = 0.0
            change = 0.0
            for i in range(p):
                j = U(begin + i)
                move = r[i] - w[j]
                w[j] = r[i]
                change += move * move * S[j, j]
                for c in range(U(w.size)):
                    q[c] += move * S[j, c]
            worst = max(worst, change)
        at_first = worst if sweeps == 0 else at_first
        sweeps += 1
        if worst <= max(share * at_first, least):
            if full:
                break
            full = True
        else:
            full = False
    return sweeps


@kernel
def put_centred(A, S, at):
    """Write into S, from row and column ``at`` on, what is left of A after its last row and column are eliminated."""
    k = U(A.shape[0] - 1)
    for i in range(k):
        share = A[k, i] / A[k, k]
        for j in range(k):
            S[U(at) + i, U(at) + j] = A[i, j] - share * A[k, j]


@kernel
def put_last(A, last):
    """Make ``last`` the last row and column of A, so that the rest of A is left when they are eliminated."""
    k = U(last.size - 1)
    for i in range(k):
        share = last[i] / last[k]
        for j in range(k):
            A[i, j] += share * last[j]
        A[i, k] = A[k, i] = last[i]
    A[k, k] = last[k]


@kernel
def centred_squares(A, weights):
    """Return sum_ij weights_i S_ij^2 weights_j, where S is left of A after its last row and column are eliminated."""
    k, total = U(weights.size), 0.0
    for i in range(k):
        share, row = A[k, i] / A[k, k], 0.0
        for j in range(k):
            left = A[i, j] - share * A[k, j]
            row += left * left * weights[j]
        total += row * weights[i]
    return total


@kernel
def scale_pairs(A, scale):
    """Multiply A_ij by scale_i scale_j."""
    for i in range(U(scale.size)):
        for j in range(U(scale.size)):
            A[i, j] *= scale[i] * scale[j]


@kernel
def shrink_pairs(A, number, share):
    """Multiply S_ij by ``share`` if i and j have different numbers; S is left of A without its last row and column."""
    k = U(number.size)
    for i in range(k):
        mean = A[k, i] / A[k, k]
        for j in range(k):
            common = mean * A[k, j]
            A[i, j] = A[i, j] if number[i] == number[j] else common + share * (A[i, j] - common)


@kernel
def correct_by_secant(A, y, uy, v, uv):
    """Add y y^T / uy - v v^T / uv to A, with v = A u: then A u = y (the formula of BFGS).

    The result is positive definite if A is, and uy = <u, y> and uv = <u, v> are above zero.
    """
    for i in range(y.size):
        a, b = y[i] / uy, v[i] / uv
        for j in range(y.size):
            A[i, j] += a * y[j] - b * v[j]
