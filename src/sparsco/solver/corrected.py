"""The minimum over some of the rows, corrected by the gradient over all of them, in one compiled call.

    sum_i a_i loss(<w, x_i> + b, y_i) + sum_j (tilt_j w_j + pen_j |w_j| + rho / 2 w_j^2) + tilt_b b

The sum is over a sample of the rows, with weights a_i that make it an estimate of the mean loss.  The tilt is the
gradient of the mean loss at a point, less that of the sample there.  So the minimum is the optimum over all rows if it
is the point itself.  Otherwise it is nearer to it than the point was: what is left is how much the sample errs about
the change of the gradient.

On few rows calls of NumPy would take longer than the arithmetic.  Steps are those of ``ElasticNetSolver``.  Its line
search compares values of the loss; this one compares slopes, which take a tenth of the time.
"""

from __future__ import annotations

import numpy as np

from ..jit.dispatch import U, allocating_kernel, inlined
from ..losses import curvature, derivative
from .columns import dot, dot_column
from .descent import sweep_columns

LEAST_CURVATURE = 4e-3
"""The least curvature of a row, as a share of the loss's scale."""
_NEAR, _BEYOND = 0.9, 1.05
"""A column whose slope is the first share of its penalty takes part.  Beyond the second one it was left out wrongly."""
_ROUNDS, _STEPS, _SWEEPS, _TRIALS = 3, 12, 30, 8
"""How often columns may be added, and the most steps, sweeps of a step and lengths of a step."""
_LAST = 1e-2
"""A step that is expected to lower the objective by at most this share of the first one is the last."""
_INNER = 0.3
"""A sweep that changes the model of a step by at most this share of the first one is the last."""
_BALANCED = 1e-3
"""The sum of the slopes, as a share of the sum of their sizes, at which the intercept alone is left."""
_OVERSHOT, _SHORTEST = 0.5, 0.2
"""A step is too long if the objective rises at its end by more than this share of how it falls at its start.  It is
then made shorter, by the second factor at most."""
_STEEP, _LONGER = 0.9, 4.0
"""A step is too short if the objective still falls by this share at its end: the least curvature of a row bounds steps
far from the targets.  It is then made longer, by the second factor."""


@inlined
def _write_slopes(loss, y, a, p, c):
    """Write the slopes of the loss at margins p into c."""
    for i in range(p.size):
        c[i] = a[i] * derivative(loss, p[i], y[i])


@inlined
def _write_curvatures(loss, y, a, p, floor, h):
    """Write the curvatures of the loss at margins p into h."""
    for i in range(p.size):
        h[i] = a[i] * max(curvature(loss, p[i], y[i]), floor)


@inlined
def _slope_at(before, moves, pen, ridge, slopes, k, length):
    """Return the slope of the penalty and the tilt on the way of a step, seen from its start, at a length above 0."""
    total = 0.0
    for e in range(k):
        v = before[e] + length * moves[e]
        pull = pen[e] * moves[e] if v > 0.0 else -pen[e] * moves[e]
        total += (pull if v != 0.0 else -pen[e] * abs(moves[e])) + (ridge[e] * v + slopes[e]) * moves[e]
    return total


@inlined
def _searched(loss, y, a, p, dp, before, moves, pen, ridge, slopes, k, slope_b, fall, trial, c):
    """Return the length of a step after which the objective neither rises nor falls much.

    ``trial`` and c become the margins and the slopes there.
    """
    length, factor = 1.0, 1.0
    for _ in range(_TRIALS):
        length *= factor
        for i in range(p.size):
            trial[i] = p[i] + length * dp[i]
        _write_slopes(loss, y, a, trial, c)
        rise = slope_b + _slope_at(before, moves, pen, ridge, slopes, k, length) + dot(c, dp)
        if not rise <= _OVERSHOT * fall:  # it may be no number
            factor = fall / (fall + rise)
            factor = factor if factor > _SHORTEST else _SHORTEST
        elif rise < -_STEEP * fall and factor >= 1.0:
            factor = _LONGER
        else:
            break
    return length


@inlined
def _are_joined(y, a, two_y, two_a):
    """Write two rows that stand for all rows while margins are equal; return False if there are more than two targets.

    ``two_y`` and ``two_a`` become their targets and weights.
    """
    other = y[0]
    two_a[0], two_a[1] = 0.0, 0.0
    for i in range(y.size):
        other = y[i] if other == y[0] else other
        if y[i] != y[0] and y[i] != other:
            return False
        two_a[U(y[i] != y[0])] += a[i]
    two_y[0], two_y[1] = y[0], other
    return True


@inlined
def _best_intercept(loss, y, a, tilt_b, floor, b, p, c, h, u):
    """Return about the best intercept of a model without weights, by Newton steps; p, c, h and u are scratch.

    Where the loss grows exponentially, a full step may end far beyond the best intercept.
    """
    for i in range(p.size):
        p[i] = b
    _write_slopes(loss, y, a, p, c)
    for _ in range(_STEPS):
        _write_curvatures(loss, y, a, p, floor, h)
        slope, bend, size = tilt_b, 0.0, 0.0
        for i in range(p.size):
            slope += c[i]
            bend += h[i]
            size += abs(c[i])
        if abs(slope) <= _BALANCED * size or bend <= 0.0:
            break
        db = -slope / bend
        for i in range(p.size):
            u[i] = db
        b += db * _searched(loss, y, a, p, u, u, u, u, u, u, 0, tilt_b * db, -slope * db, h, c)  # no weight moves
        for i in range(p.size):
            p[i] = b
    return b


@allocating_kernel
def corrected_minimum(first, rows, x, y, a, loss, l1, ridges, tilt, tilt_b, w, b, moves_b, floor):
    """Change w to about the minimum, from w and b; return the intercept and the fall that the first step expects.

    The rows are given by columns.  ``floor`` is the least curvature of a row.
    """
    n, d = y.size, w.size
    p, c, h, u = np.full(n, b), np.empty(n), np.empty(n), np.empty(n)
    place, active, takes_part = np.empty(d, np.int64), np.empty(d, np.int64), np.zeros(d, np.bool_)
    pen, slopes, before, moves = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    curve, mean = np.empty(d), np.empty(d)
    ridge, low, high = np.empty(d), np.full(d, -np.inf), np.full(d, np.inf)
    is_empty = True
    for j in range(d):
        if w[j] != 0.0:
            is_empty = False
            for e in range(U(first[j]), U(first[j + 1])):
                p[rows[e]] += w[j] * x[e]
    if moves_b and is_empty:
        two_y, two_a = np.empty(2), np.empty(2)
        are_joined = _are_joined(y, a, two_y, two_a)
        some_y, some_a = (two_y if are_joined else y), (two_a if are_joined else a)
        k = some_y.size
        b = _best_intercept(loss, some_y, some_a, tilt_b, floor, b, p[:k], c[:k], h[:k], u[:k])
        for i in range(n):
            p[i] = b
    _write_slopes(loss, y, a, p, c)
    enough, steps, expected = 0.0, 0, 0.0
    for _ in range(_ROUNDS):
        k, wrong = 0, 0
        for j in range(d):
            slope = abs(dot_column(first, rows, x, c, j) + tilt[j] + ridges[j] * w[j])
            wrong += slope > _BEYOND * l1[j] and not takes_part[j]
            takes_part[j] = w[j] != 0.0 or slope > _NEAR * l1[j]
            if takes_part[j]:
                place[k], pen[k], ridge[k], slopes[k] = j, l1[j], ridges[j], tilt[j]
                k += 1
        if wrong == 0 and steps > 0:
            break
        for _ in range(_STEPS):
            steps += 1
            _write_curvatures(loss, y, a, p, floor, h)
            for i in range(n):
                u[i] = c[i]
            for e in range(k):
                before[e] = w[place[e]]
            terms = pen, ridge, slopes, low, high, tilt_b, place[:k], curve, mean, active
            db, _ = sweep_columns(first, rows, x, u, h, w, *terms, _INNER, 0.1 * enough, _SWEEPS, moves_b)
            for i in range(n):
                u[i] = (u[i] - c[i]) / h[i] + db
            fall = -tilt_b * db - dot(c, u)
            for e in range(k):
                now = w[place[e]]
                moves[e] = now - before[e]
                fall -= pen[e] * (abs(now) - abs(before[e])) + (ridge[e] * before[e] + slopes[e]) * moves[e]
            ends = before, moves, pen, ridge, slopes, k, tilt_b * db, fall
            length = _searched(loss, y, a, p, u, *ends, h, c)
            b, left = b + length * db, 0
            for i in range(n):
                p[i] = h[i]
            for e in range(k):
                j = place[e]
                w[j] = w[j] if length == 1.0 else before[e] + length * moves[e]
                takes_part[j] = w[j] != 0.0
                if takes_part[j]:
                    place[left], pen[left], ridge[left], slopes[left] = j, l1[j], ridges[j], tilt[j]
                    left += 1
            expected = fall if steps == 1 else expected
            k, enough = left, max(enough, _LAST * fall)
            if not fall > enough:
                break
    return b, expected
