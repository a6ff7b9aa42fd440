"""The kernels of FTRL, NFTRL and AdaGrad; see ``adaptive`` for the mathematics and for "dead" coordinates."""

from __future__ import annotations

import math

import numpy as np

from ..data.rows import ask_for_row, rows_to_prefetch
from ..jit.dispatch import U, inlined, kernel
from ..jit.lanes import (
    any_lane,
    lane,
    lane_indices,
    load,
    load_row,
    maximum,
    minimum,
    n_float64,
    prefetch,
    prefetch_wide,
    signed,
    sqrt,
    store,
    store_float64,
    tiny,
    where,
    width,
)
from ..jit.simd import LINE, load_entries, load_high, load_low, pad_tail, prefetch_lines, store_fields, sum_of
from ..losses import curvature, derivative
from ..penalties import feature_weight, prox, shrink_rate
from ..problem.fading import elapsed, fades, growth
from ..problem.state import n_sums
from .adaptive_rules import (
    COUNT,
    ETA,
    FIRST_SEEN,
    GG,
    OMEGA,
    SQUARES,
    SUMS,
    THETA,
    Z,
    age,
    clock_of,
    damping,
    drifted,
    drifts,
    kept,
    landed,
    moved,
    normalises,
    per_feature_clock,
    rate,
    ridged,
    shrunk,
    stretch,
    sum_to_death,
)
from .float32_sums import draw_at, plus
from .running_sums import add_gradient, add_intercept

_B, _Z_B, _G_B, _R_B, _SUMS_B = U(0), U(1), U(2), U(3), U(4)
"""The fields of the intercept: b, z, G, r; the sums follow."""
_NONZEROS = 0
"""The entry of the clock: K, the number of normalised nonzeros in all rows."""


# ---- one feature -----------------------------------------------------------------------------------------------------


@inlined
def _count_nonzero(pace, cell, at, x, a):
    """Count a nonzero x of a feature, which counts a: q and n.

    Return x^2 n / q, 1 / (q n), and the factor, at most 1, by which a jump of the scale lowers eta.
    """
    before, q, n = cell[at + SQUARES], maximum(tiny(x), cell[at + SQUARES] + a * (x * x)), cell[at + COUNT] + a
    narrowed, inverse, old_n = 1.0, 1.0 / (q * n), n - a
    if fades(pace) == 1:  # a may exceed n by far
        old_n = cell[at + COUNT]
    if (a * (x * x) > before) & (before > 0.0):
        narrowed = math.sqrt(before / old_n * (n / q))
    cell[at + SQUARES], cell[at + COUNT] = q, n
    return x * x * (n * (n * inverse)), inverse, narrowed


@inlined
def mean_square(q, n, inverse):
    """Return q / n and n / q by the division that they share, 1 / (q n)."""
    return q * (q * inverse), n * (n * inverse)


@inlined
def _catch_up(idle, watch, reg, lams, cell, f, m, pen, since, now, steps, omega):
    """Bring a feature up to date where rho > 0: the sums over its idle stretch, and z if it drifts."""
    for q in range(m):
        z, eta = cell[f + q], cell[f + ETA * m + q]
        shrink = lams[q] * pen * shrink_rate(reg, -z)
        if z != 0.0:
            if n_sums(watch) > 0:
                total = stretch(idle, z, eta, shrink, since, now + 1.0)
                cell[f + SUMS * m + q] -= math.copysign(omega * total, z)
            if drifts(idle) == 1:
                cell[f + q] = drifted(idle, z, eta, shrink, steps)


@inlined
def _close_dead(pace, ages, reg, table, lams, cell, j, stride, own, m, origin, t, r):
    """Add the iterates of a feature's lanes that died while idle, up to the step of their death, to their sums."""
    at, pen = j * stride, feature_weight(reg, j)
    f, now, then = at + own, age(ages, t, cell, at), age(ages, origin, cell, at)
    for q in range(m):
        z, eta = cell[f + q], cell[f + ETA * m + q]
        shrink = lams[q] * pen * shrink_rate(reg, -z)
        if (eta > 0.0) & (z != 0.0) & (abs(z) <= shrink * now):
            total = sum_to_death(pace, table, z, eta, shrink, then, r)
            cell[f + SUMS * m + q] -= math.copysign(total, z)


@inlined
def _sunk(reg, v, shrink, level, eta):
    """Return what the threshold takes off the sum of a coordinate's iterates; ``level`` is that of the table."""
    return signed(shrink * shrink_rate(reg, -v) * level * eta, v)


@inlined
def _narrow_sum(reg, lanes, cell, at, v, eta, shrink, narrowed, Omega, level):
    """Make up for a lower eta in the sum of iterates so far, which had the old one."""
    total = Omega * v + signed(shrink * shrink_rate(reg, -v) * level, v)
    store(lanes, cell, at, load(lanes, cell, at) - (1.0 - narrowed) * eta * total)


@inlined
def _moved(lanes, rule, z, pull, g, anchor, level, draw):
    """Return z after a gradient g.  In float32 z is rounded once: the rules that allow float32 only add to it."""
    if n_float64(lanes) < width(lanes):
        return plus(lanes, z, moved(rule, kept(rule, 0.0, pull), g, anchor, level), draw)
    return moved(rule, kept(rule, z, pull), g, anchor, level)


# ---- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def learn(rows, order, schedule, method, state):
    """Make one step per row in ``order``, with exact running sums where the method watches them."""
    indptr, indices, data, targets, weights = rows
    loss, reg, lanes, watch, lams = method
    rule, idle, ages, pace, omega, table, origin, first, gains, floors, centres, intercept, dead, scale = schedule
    cell, bias, clock = state
    m, sums, one = U(n_float64(lanes)), U(n_sums(watch)), U(1)
    touch = FIRST_SEEN + U(per_feature_clock(ages))
    own = touch + U(ridged(idle))
    stride, lam, gain = own + (SUMS + sums) * m, load(lanes, lams, U(0)), load(lanes, gains, U(0))
    floor, b0 = load(lanes, floors, U(0)), load(lanes, centres, U(0))
    b, z_b = load(lanes, bias, _B * m), load(lanes, bias, _Z_B * m)
    G_b, r_b, K = load(lanes, bias, _G_B * m), load(lanes, bias, _R_B * m), clock[_NONZEROS]
    for k in range(order.size):
        ask_for_row(indptr, indices, data, order, k)
        i, r, a = U(order[k]), U(first + k), growth(pace, k)
        steps, following = elapsed(pace, k, float(r)), elapsed(pace, k + 1, float(r) + 1.0)
        t, next_t, begin, stop = origin + steps, origin + following, U(indptr[i]), U(indptr[i + one])
        per, Omega, Theta = 1.0 / a, 0.0, 0.0
        if sums > 0:
            Omega, Theta = table[r + one, OMEGA], table[r + one, THETA]
        before, after = steps * Omega - Theta, following * Omega - Theta
        s, seen, n, draw = 0.0 * b, intercept, U(0), draw_at(lanes, t)
        for p in range(begin, stop):  # counts, inner product; sums over the idle stretch, or a list of the dead
            j, x = U(indices[p]), np.float64(data[p])
            at, pen = j * stride, feature_weight(reg, j)
            f, shrink, narrowed = at + own, lam * pen, 1.0
            if normalises(rule) == 1:
                more, scale[p - begin], narrowed = _count_nonzero(pace, cell, at, x, a)
                seen += more
            if per_feature_clock(ages) == 1:
                if cell[at + FIRST_SEEN] == 0.0:
                    cell[at + FIRST_SEEN] = t + 1.0
            now = age(ages, t, cell, at)
            if (ridged(idle) == 1) & ((sums > 0) | (drifts(idle) == 1)):
                since, idled = age(ages, maximum(origin, cell[at + touch]), cell, at), t - cell[at + touch]
                _catch_up(idle, watch, reg, lams, cell, f, m, pen, since, now, idled, omega[k])
            z, eta = load(lanes, cell, f + Z), load(lanes, cell, f + ETA * m)
            v = shrunk(reg, z, shrink * clock_of(idle, now))
            if normalises(rule) == 1:
                if narrowed < 1.0:  # the scale jumped: a lower eta from now on, the old eta in the sum so far
                    if (sums > 0) & (ridged(idle) == 0):
                        _narrow_sum(reg, lanes, cell, f + SUMS * m, v, eta, shrink, narrowed, Omega, before)
                    eta = where(v != 0.0, narrowed * eta, eta)
                    store(lanes, cell, f + ETA * m, eta)
            s = s - v * damping(idle, now, eta) * eta * x
            if (sums > 0) & (ridged(idle) == 0):
                dead[n] = j
                n += U(any_lane((eta > 0.0) & (v == 0.0)))
        if (sums > 0) & (ridged(idle) == 0):
            for h in range(n):
                _close_dead(pace, ages, reg, table, lams, cell, U(dead[h]), stride, own, m, origin, t, r)
        y, weight, margin = load_row(lanes, targets, k), load_row(lanes, weights, k), s + b
        c = weight * derivative(loss, margin, y)
        og, curve, nonzeros = omega[k] * c, 0.0 * b, 1.0
        if sums > 2:
            curve = a * (weight * curvature(loss, margin, y))
        if normalises(rule) == 1:
            K += a * seen
            nonzeros = K / next_t
        ahead, end = U(indptr[order[minimum(k + 2, order.size - 1)]]) - begin, U(indices.size) - one
        for p in range(begin, stop):  # the step; prefetch the cells of the row after the next
            coming = U(indices[minimum(p + ahead, end)]) * stride
            for line in range(U(0), stride, U(8)):
                prefetch_wide(cell, coming + line)
            j, x = U(indices[p]), np.float64(data[p])
            at = j * stride
            f, shrink = at + own, lam * feature_weight(reg, j)
            now = age(ages, t, cell, at)
            z, eta, level = load(lanes, cell, f + Z), load(lanes, cell, f + ETA * m), shrink * clock_of(idle, now)
            v = shrunk(reg, z, level)
            pull = v * damping(idle, now, eta)  # -r w
            w, g, square, inverse = 0.0 - pull * eta, c * x, 1.0, 1.0
            G = plus(lanes, load(lanes, cell, f + GG * m), a * (g * g), draw)
            if normalises(rule) == 1:
                square, inverse = mean_square(cell[at + SQUARES], cell[at + COUNT], scale[p - begin])
            new_r = a * maximum(rate(rule, per * G, square, inverse, nonzeros, gain, floor), tiny(G))
            new_eta = 1.0 / new_r
            new_z = landed(idle, reg, _moved(lanes, rule, z, pull, a * g, new_r * w, level, draw), new_eta, shrink)
            if (ridged(idle) == 1) & ((sums > 0) | (drifts(idle) == 1)):
                cell[at + touch] = t + 1.0
            if (sums > 0) & (ridged(idle) == 0):  # F of the old (z, eta) minus F of the new one
                new_v = shrunk(reg, new_z, shrink * age(ages, next_t, cell, at))
                sunk = _sunk(reg, v, shrink, before, eta) - _sunk(reg, new_v, shrink, after, new_eta)
                total = load(lanes, cell, f + SUMS * m) + (Omega * (w + new_v * new_eta) - sunk)
                store(lanes, cell, f + SUMS * m, total)
                new_eta = where(new_v != 0.0, new_eta, 0.0 * new_eta - nonzeros)
            store(lanes, cell, f + Z, new_z)
            store(lanes, cell, f + ETA * m, new_eta)
            store(lanes, cell, f + GG * m, G)
            add_gradient(watch, lanes, cell, f + SUMS * m, og * x, curve * (x * x))
        add_intercept(watch, lanes, bias, _SUMS_B * m, omega[k] * b, og, curve)
        G_b = plus(lanes, G_b, a * (c * c), draw)
        new_r = a * maximum(rate(rule, per * G_b, 1.0, 1.0, nonzeros, gain, floor), tiny(G_b))
        z_b = _moved(lanes, rule, z_b, r_b * (b0 - b), a * c, new_r * (b - b0), 0.0, draw)
        r_b, b = new_r, intercept * (b0 - z_b / new_r)
    store(lanes, bias, _B * m, b)
    store(lanes, bias, _Z_B * m, z_b)
    store(lanes, bias, _G_B * m, G_b)
    store(lanes, bias, _R_B * m, r_b)
    clock[_NONZEROS] = K


_REST, _W, _Q, _N, _INVERSE, _OLD_ETA, _BLOCK = (U(k) for k in range(7))
"""The places of the vectors of a block in scratch, and their number.

They are the part of z that a touch keeps, w, q, n, 1 / (q n) and eta before the step.
"""


@inlined
def _remember(wide, watch, space, o, rest, w, q, n, eta):
    """Write what the second loop needs of a block to scratch."""
    size = U(width(wide))
    store(wide, space, o + size * _REST, rest)
    store(wide, space, o + size * _W, w)
    store(wide, space, o + size * _Q, q)
    store(wide, space, o + size * _N, n)
    if n_sums(watch) > 0:
        store(wide, space, o + size * _OLD_ETA, eta)


@inlined
def _add_to_sums(wide, cell, indices, p, left, more):
    """Add numbers to the sums of iterates of a block's features, of which those after the first ``left`` are copies."""
    for f in range(minimum(U(width(wide)), U(left))):
        cell[U(indices[p + f]) * U(LINE) + FIRST_SEEN + SUMS] += lane(more, f)


@inlined
def _close_block(pace, wide, table, cell, indices, p, left, died, z, eta, lam, origin, r):
    """Add the iterates of those features of a block that died while idle to their sums."""
    for f in range(minimum(U(width(wide)), U(left))):
        if lane(died, f):
            total = sum_to_death(pace, table, lane(z, f), lane(eta, f), lam, origin, r)
            cell[U(indices[p + f]) * U(LINE) + FIRST_SEEN + SUMS] -= math.copysign(total, lane(z, f))


@kernel
def learn_simd(rows, order, schedule, method, state, wide, tail, tail_x):
    """Make the steps of :func:`learn` for one model with rho = 0, a block of features at a time.

    A cell is q, n, z, eta, G and the sums.  A row's last block is padded by repeating its last entry.  A block is read
    before it is written, so the copies compute and write the same numbers.  Only sums over a row, and the rare writes
    of the first loop, must leave the copies out.

    Few features have a nonzero weight.  A block without one, before and after its step, needs no rates.
    """
    indptr, indices, data, targets, weights = rows
    loss, reg, lanes, watch, lams = method
    rule, _, _, pace, omega, table, origin, first, gains, floors, centres, intercept, _, space = schedule
    cell, bias, clock = state
    sums, one, size = U(n_sums(watch)), U(1), U(width(wide))
    lam, gain, floor, b0 = lams[0], gains[0], floors[0], centres[0]
    b, z_b, G_b, r_b, K = bias[_B], bias[_Z_B], bias[_G_B], bias[_R_B], clock[_NONZEROS]
    number, least = lane_indices(wide), 1.0
    zero = 0.0 * number
    if fades(pace) == 1:
        least = 1e-300
    for k in range(order.size):
        i, r, a = U(order[k]), U(first + k), growth(pace, k)
        steps, following = elapsed(pace, k, float(r)), elapsed(pace, k + 1, float(r) + 1.0)
        t, next_t, per = origin + steps, origin + following, 1.0 / a
        begin, stop = U(indptr[i]), U(indptr[i + one])
        full, blocks = (stop - begin) // size, (stop - begin + size - one) // size
        if blocks > full:
            pad_tail(indices, data, begin + full * size, stop, tail, tail_x)
        (coming, later), last = rows_to_prefetch(indptr, order, k), U(maximum(indices.size, 8)) - size
        Omega = Theta = 0.0
        if sums > 0:
            Omega, Theta = table[r + one, OMEGA], table[r + one, THETA]
        before, after = lam * (steps * Omega - Theta), lam * (following * Omega - Theta)
        s, seen, left, level = zero, zero, float(stop - begin), lam * t
        for block in range(blocks):  # counts, inner product; sums of those that died while idle
            p, in_tail, o = begin + block * size, block == full, block * size * _BLOCK
            x = load_entries(wide, data, tail_x, p, in_tail)
            q, n, z, eta = load_low(wide, cell, indices, tail, p, in_tail)
            v = prox(reg, z, level)
            w = zero - v * eta
            x_once = where(number < left, x, 0.0)
            if normalises(rule) == 1:
                before_x, before_n = q, n
                q, n = maximum(q + a * (x * x), tiny(x)), n + a
                inverse = 1.0 / (q * n)  # one division for n / q and q / n
                seen = seen + x_once * x_once * (n * (n * inverse))
                store(wide, space, o + size * _INVERSE, inverse)
                jumped = (a * (x * x) > before_x) & (before_x > 0.0) & (w != 0.0)
                if any_lane(jumped):  # a lower eta from now on, the old eta in the sum so far
                    narrowed = where(jumped, sqrt(before_x * (n * (n * inverse)) / maximum(before_n, least)), 1.0)
                    if fades(pace) == 1:  # many squares may have faded, of larger values
                        narrowed = minimum(narrowed, 1.0)
                    if sums > 0:
                        more = (1.0 - narrowed) * (Omega * w + signed(eta * before, w))
                        _add_to_sums(wide, cell, indices, p, left, more)
                    w, eta = narrowed * w, narrowed * eta
            s = s + w * x_once
            _remember(wide, watch, space, o, kept(rule, z, v), w, q, n, eta)
            if sums > 0:
                died = (eta > 0.0) & (v == 0.0) & (z != 0.0)
                if any_lane(died):
                    _close_block(pace, wide, table, cell, indices, p, left, died, z, eta, lam, origin, r)
            left -= float(size)
        y, weight = load_row(lanes, targets, k), weights[U(k)]
        margin = sum_of(wide, s) + b
        c = weight * derivative(loss, margin, y)
        og, curve, nonzeros = omega[k] * c, 0.0, 1.0
        if sums > 2:
            curve = a * (weight * curvature(loss, margin, y))
        if normalises(rule) == 1:
            K += a * (sum_of(wide, seen) + intercept)
            nonzeros = K / next_t
        next_level = lam * next_t
        for block in range(blocks):  # the step
            p, in_tail, o = begin + block * size, block == full, block * size * _BLOCK
            if indices.size >= 8:  # prefetch the lines of a row to come, and the entries of one after it
                prefetch_lines(wide, cell, indices, minimum(coming + block * size, last))
                prefetch(data, later + block * size)
                prefetch(indices, later + block * size)
            x, w = load_entries(wide, data, tail_x, p, in_tail), load(wide, space, o + size * _W)
            q, n = load(wide, space, o + size * _Q), load(wide, space, o + size * _N)
            G, A, g, h = load_high(wide, cell, indices, tail, p, in_tail)
            cx, rest = x * c, load(wide, space, o + size * _REST)
            G, z, eta = G + a * (cx * cx), moved(rule, rest, a * cx, zero, level), zero - nonzeros
            if any_lane((w != 0.0) | (prox(reg, z, next_level) != 0.0)):
                square, inverse = zero, zero
                if normalises(rule) == 1:
                    square, inverse = mean_square(q, n, load(wide, space, o + size * _INVERSE))
                new_r = a * maximum(rate(rule, per * G, square, inverse, nonzeros, gain, floor), tiny(G))
                z, new_eta = moved(rule, rest, a * cx, new_r * w, level), 1.0 / new_r
                v = prox(reg, z, next_level)
                if sums > 0:
                    gone = signed(load(wide, space, o + size * _OLD_ETA) * before, w)
                    A = A + (Omega * (w + v * new_eta) + (gone - signed(new_eta * after, zero - v)))
                eta = where(v != 0.0, new_eta, eta)
            if sums > 1:
                g = g + x * og
            if sums > 2:
                h = h + x * x * curve
            store_fields(wide, cell, indices, tail, p, in_tail, (q, n, z, eta, G, A, g, h))
        add_intercept(watch, lanes, bias, _SUMS_B, omega[k] * b, og, curve)
        G_b += a * (c * c)
        new_r = a * maximum(tiny(G_b), rate(rule, per * G_b, 1.0, 1.0, nonzeros, gain, floor))
        z_b = moved(rule, kept(rule, z_b, r_b * (b0 - b)), a * c, new_r * (b - b0), 0.0)
        r_b, b = new_r, intercept * (b0 - z_b / new_r)
    bias[_B], bias[_Z_B], bias[_G_B], bias[_R_B] = b, z_b, G_b, r_b
    clock[_NONZEROS] = K


@kernel
def read(features, t, stride, idle, ages, method, state, out):
    """Write the iterate at these features at clock t into ``out``, where z does not drift."""
    _, reg, lanes, _, lams = method
    cell = state.cell
    m, step, lam = U(n_float64(lanes)), U(stride), load(lanes, lams, U(0))
    own = FIRST_SEEN + U(per_feature_clock(ages)) + U(ridged(idle))
    for k in range(features.size):
        j = U(features[k])
        at = j * step
        now, eta = age(ages, t, cell, at), abs(load(lanes, cell, at + own + ETA * m))
        v = shrunk(reg, load(lanes, cell, at + own + Z), lam * feature_weight(reg, j) * clock_of(idle, now))
        store_float64(lanes, out, U(k) * U(width(lanes)), 0.0 - v * damping(idle, now, eta) * eta)


@kernel
def settle_all(table, origin, end, steps, stride, pace, idle, ages, method, state):
    """Close the sums after so many steps, at clock ``end``."""
    _, reg, lanes, watch, lams = method
    cell = state.cell
    m, sums, step = U(n_float64(lanes)), U(n_sums(watch)), U(stride)
    touch, r = FIRST_SEEN + U(per_feature_clock(ages)), U(steps)
    own = touch + U(ridged(idle))
    for j in range(U(cell.size) // step):
        at, pen = j * step, feature_weight(reg, j)
        now, then = age(ages, end, cell, at), age(ages, origin, cell, at)
        for lane_ in range(m):
            f = at + own + lane_
            z, eta = cell[f], cell[f + ETA * m]
            shrink = lams[lane_] * pen * shrink_rate(reg, -z)
            if z != 0.0:
                total = 0.0
                if sums > 0:
                    if ridged(idle) == 1:
                        a = age(ages, maximum(origin, cell[at + touch]), cell, at)
                        if now > a:
                            total = stretch(idle, z, eta, shrink, a, now) * (table[r, OMEGA] / (end - origin))
                    elif eta > 0.0:
                        if abs(z) > shrink * now:
                            total = eta * ((abs(z) - shrink * then) * table[r, OMEGA] - shrink * table[r, THETA])
                        else:
                            total = sum_to_death(pace, table, z, eta, shrink, then, r)
                    if total != 0.0:  # most are zero, and memory that is not written need not be stored
                        cell[f + SUMS * m] -= math.copysign(total, z)
                if drifts(idle) == 1:
                    cell[f] = drifted(idle, z, eta, shrink, end - cell[at + touch])
        if ridged(idle) == 1:
            cell[at + touch] = end


@kernel
def fade_all(shared, lanes, factor, most):
    """Multiply the sums of every feature by a factor; where eta would exceed ``most``, z, eta and G become 0."""
    for j in range(lanes.shape[0]):
        for f in range(shared.shape[1]):
            if f < 2:
                shared[j, f] *= factor
            elif shared[j, f] != 0.0:  # a clock, from 1
                shared[j, f] = (shared[j, f] - 1.0) * factor + 1.0
        for q in range(lanes.shape[2]):
            eta = lanes[j, ETA, q] / factor
            for f in range(lanes.shape[1]):
                lanes[j, f, q] *= factor
            lanes[j, ETA, q] = eta
            if abs(eta) > most:
                lanes[j, Z, q] = lanes[j, ETA, q] = lanes[j, GG, q] = 0.0
