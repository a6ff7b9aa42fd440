"""The kernels of FTRL, NFTRL and AdaGrad; see ``adaptive`` for the mathematics and for "dead" coordinates."""

from __future__ import annotations

import math

import numpy as np

from ..data.rows import ask_for_row
from ..jit.dispatch import U, kernel
from ..jit.lanes import (
    FOUR,
    any_lane,
    lane,
    lane_indices,
    load,
    load_row,
    maximum,
    minimum,
    n_float64,
    prefetch_wide,
    signed,
    sqrt,
    store,
    store_float64,
    tiny,
    where,
    width,
)
from ..jit.simd4 import load_entries, load_fields, prefetch_lines, store_fields
from ..losses import curvature, derivative
from ..penalties import feature_weight, prox, shrink_rate
from ..problem.state import n_sums
from .adaptive_rules import (
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


@kernel
def learn(rows, order, schedule, method, state):
    """Make one step per row in ``order``, with exact running sums where the method watches them."""
    indptr, indices, data, targets, weights = rows
    loss, reg, lanes, watch, lams = method
    rule, idle, ages, omega, table, origin, first, gains, floors, centres, intercept, dead, scale = schedule
    cell, bias, clock = state
    m, sums, one, two = U(n_float64(lanes)), U(n_sums(watch)), U(1), U(2)
    touch = two + U(per_feature_clock(ages))
    own = touch + U(ridged(idle))
    stride = own + (U(3) + sums) * m
    lam, gain, floor, b0 = (
        load(lanes, lams, U(0)),
        load(lanes, gains, U(0)),
        load(lanes, floors, U(0)),
        load(lanes, centres, U(0)),
    )
    b, z_b = load(lanes, bias, U(0)), load(lanes, bias, m)
    G_b, r_b, K = load(lanes, bias, m + m), load(lanes, bias, m + m + m), clock[0]
    for k in range(order.size):
        i, r = U(order[k]), U(first + k)
        t = origin + float(r)
        begin, stop = U(indptr[i]), U(indptr[i + one])
        Omega = Theta = 0.0
        if sums > 0:
            Omega, Theta = table[r + one, 0], table[r + one, 1]
        before, after = float(r) * Omega - Theta, (float(r) + 1.0) * Omega - Theta
        s, seen, n = 0.0 * b, intercept, U(0)
        for p in range(begin, stop):  # counts, inner product; sums over the idle stretch, or a list of the dead
            j, x = U(indices[p]), np.float64(data[p])
            at = j * stride
            f, shrink = at + own, lam * feature_weight(reg, j)
            narrowed = 1.0
            if normalises(rule) == 1:
                before_x, q, count = cell[at], maximum(tiny(x), cell[at] + x * x), cell[at + one] + 1.0
                cell[at], cell[at + one] = q, count
                seen += x * x * (count / q)
                scale[p - begin] = math.sqrt(q / count)
                if (x * x > before_x) & (before_x > 0.0):
                    narrowed = math.sqrt(before_x / (count - 1.0) * (count / q))
            if per_feature_clock(ages) == 1:
                if cell[at + two] == 0.0:
                    cell[at + two] = t + 1.0
            now = age(ages, t, cell, at)
            if (ridged(idle) == 1) & ((sums > 0) | (drifts(idle) == 1)):
                a = age(ages, maximum(origin, cell[at + touch]), cell, at)
                for lane_ in range(m):
                    zq, own_eta = cell[f + lane_], cell[f + m + lane_]
                    own_shrink = lams[lane_] * feature_weight(reg, j) * shrink_rate(reg, -zq)
                    if zq != 0.0:
                        if sums > 0:
                            total = stretch(idle, zq, own_eta, own_shrink, a, now + 1.0)
                            cell[f + m + m + m + lane_] -= math.copysign(omega[k] * total, zq)
                        if drifts(idle) == 1:
                            cell[f + lane_] = drifted(idle, zq, own_eta, own_shrink, t - cell[at + touch])
            z, eta = load(lanes, cell, f), load(lanes, cell, f + m)
            v = shrunk(reg, z, shrink * clock_of(idle, now))
            if normalises(rule) == 1:
                if narrowed < 1.0:  # the scale jumped: a lower eta from now on, the old eta in the sum so far
                    if (sums > 0) & (ridged(idle) == 0):
                        h, fall = f + m + m + m, shrink * shrink_rate(reg, -v)
                        total = Omega * v + signed(fall * before, v)
                        store(lanes, cell, h, load(lanes, cell, h) - (1.0 - narrowed) * eta * total)
                    eta = where(v != 0.0, narrowed * eta, eta)
                    store(lanes, cell, f + m, eta)
            s = s - v * damping(idle, now, eta) * eta * x
            if (sums > 0) & (ridged(idle) == 0):
                dead[n] = j
                n += U(any_lane((eta > 0.0) & (v == 0.0)))
        if (sums > 0) & (ridged(idle) == 0):
            for h in range(n):
                j = U(dead[h])
                at = j * stride
                f, now, then = at + own, age(ages, t, cell, at), age(ages, origin, cell, at)
                for lane_ in range(m):
                    z, eta = cell[f + lane_], cell[f + m + lane_]
                    own_shrink = lams[lane_] * feature_weight(reg, j) * shrink_rate(reg, -z)
                    if (eta > 0.0) & (abs(z) <= own_shrink * now):
                        total = sum_to_death(table, z, eta, own_shrink, then, r)
                        cell[f + m + m + m + lane_] -= math.copysign(total, z)
        y, weight = load_row(lanes, targets, k), load_row(lanes, weights, k)
        margin = s + b
        c = weight * derivative(loss, margin, y)
        og, curve, nonzeros = omega[k] * c, 0.0 * b, 1.0
        if sums > 2:
            curve = weight * curvature(loss, margin, y)
        if normalises(rule) == 1:
            K += seen
            nonzeros = K / (t + 1.0)
        ahead, end = U(indptr[order[minimum(k + 2, order.size - 1)]]) - begin, U(indices.size) - one
        for p in range(begin, stop):  # the step; prefetch the cells of the row after the next
            coming = U(indices[minimum(p + ahead, end)]) * stride
            for line in range(U(0), stride, U(8)):
                prefetch_wide(cell, coming + line)
            j, x = U(indices[p]), np.float64(data[p])
            at = j * stride
            f, shrink = at + own, lam * feature_weight(reg, j)
            now = age(ages, t, cell, at)
            z, eta, level = load(lanes, cell, f), load(lanes, cell, f + m), shrink * clock_of(idle, now)
            v = shrunk(reg, z, level)
            pull = v * damping(idle, now, eta)  # -r w
            w, g = 0.0 - pull * eta, c * x
            G = load(lanes, cell, f + m + m) + g * g
            new_r = maximum(rate(rule, G, scale[p - begin], nonzeros, gain, floor), tiny(G))
            new_eta = 1.0 / new_r
            new_z = landed(idle, reg, moved(rule, kept(rule, z, pull), g, new_r * w, level), new_eta, shrink)
            if (ridged(idle) == 1) & ((sums > 0) | (drifts(idle) == 1)):
                cell[at + touch] = t + 1.0
            if sums > 0:
                if ridged(idle) == 0:
                    h = f + m + m + m
                    new_v = shrunk(reg, new_z, shrink * (now + 1.0))
                    old_fall, new_fall = shrink * shrink_rate(reg, -v), shrink * shrink_rate(reg, -new_v)
                    change = Omega * (w + new_v * new_eta) - (
                        signed(old_fall * before * eta, v) - signed(new_fall * after * new_eta, new_v)
                    )
                    store(lanes, cell, h, load(lanes, cell, h) + change)
                    new_eta = where(new_v != 0.0, new_eta, -new_eta)
            store(lanes, cell, f, new_z)
            store(lanes, cell, f + m, new_eta)
            store(lanes, cell, f + m + m, G)
            if sums > 1:
                h = f + U(4) * m
                store(lanes, cell, h, load(lanes, cell, h) + og * x)
            if sums > 2:
                h = f + U(5) * m
                store(lanes, cell, h, load(lanes, cell, h) + curve * (x * x))
        if sums > 0:
            store(lanes, bias, U(4) * m, load(lanes, bias, U(4) * m) + omega[k] * b)
        if sums > 1:
            store(lanes, bias, U(5) * m, load(lanes, bias, U(5) * m) + og)
        if sums > 2:
            store(lanes, bias, U(6) * m, load(lanes, bias, U(6) * m) + curve)
        G_b = G_b + c * c
        new_r = maximum(rate(rule, G_b, 1.0, nonzeros, gain, floor), tiny(G_b))
        z_b = moved(rule, kept(rule, z_b, r_b * (b0 - b)), c, new_r * (b - b0), 0.0)
        r_b, b = new_r, intercept * (b0 - z_b / new_r)
    store(lanes, bias, U(0), b)
    store(lanes, bias, m, z_b)
    store(lanes, bias, m + m, G_b)
    store(lanes, bias, m + m + m, r_b)
    clock[0] = K


@kernel
def learn_simd(rows, order, schedule, method, state, tail, tail_x):
    """Make the steps of :func:`learn` for one model with rho = 0, four features at a time.

    A cell is q, n, z, eta, G and the sums.  A row's last block is padded by repeating its last entry.  The first loop
    only reads cells and the second only writes them, so the copies compute and write the same numbers.  Only inner
    products must leave the copies out.
    """
    indptr, indices, data, targets, weights = rows
    loss, reg, _, watch, lams = method
    rule, _, _, omega, table, origin, first, gains, floors, centres, intercept, _, space = schedule
    cell, bias, clock = state
    sums, one, four, size = U(n_sums(watch)), U(1), U(4), U(40)
    lam, gain, floor, b0 = lams[0], gains[0], floors[0], centres[0]
    b, z_b, G_b, r_b, K = bias[0], bias[1], bias[2], bias[3], clock[0]
    number = lane_indices(FOUR)
    zero = 0.0 * number
    for k in range(order.size):
        ask_for_row(indptr, indices, data, order, k)
        i, r = U(order[k]), U(first + k)
        t = origin + float(r)
        begin, stop = U(indptr[i]), U(indptr[i + one])
        full = (stop - begin) >> U(2)
        blocks = (stop - begin + U(3)) >> U(2)
        if blocks > full:
            for f in range(four):
                p = minimum(begin + full * four + f, stop - one)
                tail[f], tail_x[f] = indices[p], data[p]
        coming, last = U(indptr[order[minimum(k + 1, order.size - 1)]]), U(maximum(indices.size, 4)) - four
        Omega = Theta = 0.0
        if sums > 0:
            Omega, Theta = table[r + one, 0], table[r + one, 1]
        before, after = lam * (float(r) * Omega - Theta), lam * ((float(r) + 1.0) * Omega - Theta)
        s, seen, left, level = zero, zero, float(stop - begin), lam * t
        for block in range(blocks):
            p, in_tail, o = begin + block * four, block == full, block * size
            x = load_entries(data, tail_x, p, in_tail)
            q, n, z, eta, G, A, g, h = load_fields(cell, indices, tail, p, in_tail)
            v = prox(reg, z, level)
            w = zero - v * eta
            x_once = where(number < left, x, 0.0)
            if normalises(rule) == 1:
                before_x, before_n = q, n
                q, n = maximum(q + x * x, tiny(x)), n + 1.0
                inverse = 1.0 / (q * n)  # one division for n / q and q / n
                seen = seen + x_once * x_once * (n * (n * inverse))
                store(FOUR, space, o + U(20), sqrt(q * (q * inverse)))
                jumped = (x * x > before_x) & (before_x > 0.0)
                if any_lane(jumped):  # a lower eta from now on, the old eta in the sum so far
                    narrowed = where(jumped, sqrt(before_x * (n * (n * inverse)) / maximum(before_n, 1.0)), 1.0)
                    if sums > 0:
                        A = A + (1.0 - narrowed) * (Omega * w + signed(eta * before, w))
                    w, eta = narrowed * w, where(w != 0.0, narrowed * eta, eta)
            s = s + w * x_once
            store(FOUR, space, o, kept(rule, z, v))
            store(FOUR, space, o + U(4), w)
            store(FOUR, space, o + U(8), G)
            store(FOUR, space, o + U(12), q)
            store(FOUR, space, o + U(16), n)
            left -= 4.0
            if sums > 0:
                store(FOUR, space, o + U(24), eta)
                store(FOUR, space, o + U(28), A)
                died = (eta > 0.0) & (v == 0.0)
                if any_lane(died):
                    for f in range(four):
                        if lane(died, f):
                            level_z = lane(z, f)
                            total = sum_to_death(table, level_z, lane(eta, f), lam, origin, r)
                            space[o + U(28) + f] -= math.copysign(total, level_z)
            if sums > 1:
                store(FOUR, space, o + U(32), g)
            if sums > 2:
                store(FOUR, space, o + U(36), h)
        y, weight = targets[U(k)], weights[U(k)]
        margin = (lane(s, 0) + lane(s, 1)) + (lane(s, 2) + lane(s, 3)) + b
        c = weight * derivative(loss, margin, y)
        og, curve, nonzeros = omega[k] * c, 0.0, 1.0
        if sums > 2:
            curve = weight * curvature(loss, margin, y)
        if normalises(rule) == 1:
            K += (lane(seen, 0) + lane(seen, 1)) + (lane(seen, 2) + lane(seen, 3)) + intercept
            nonzeros = K / (t + 1.0)
        next_level = lam * (t + 1.0)
        for block in range(blocks):
            p, in_tail, o = begin + block * four, block == full, block * size
            if indices.size >= 4:  # prefetch the next row's lines
                prefetch_lines(cell, indices, minimum(coming + block * four, last))
            x, w = load_entries(data, tail_x, p, in_tail), load(FOUR, space, o + U(4))
            cx, rms = x * c, zero
            G = load(FOUR, space, o + U(8)) + cx * cx
            if normalises(rule) == 1:
                rms = load(FOUR, space, o + U(20))
            new_r = maximum(rate(rule, G, rms, nonzeros, gain, floor), tiny(G))
            z, eta = moved(rule, load(FOUR, space, o), cx, new_r * w, level), 1.0 / new_r
            q, n = load(FOUR, space, o + U(12)), load(FOUR, space, o + U(16))
            if sums > 0:
                v = prox(reg, z, next_level)
                gone = signed(load(FOUR, space, o + U(24)) * before, w) - signed(eta * after, zero - v)
                A = load(FOUR, space, o + U(28)) + (Omega * (w + v * eta) + gone)
                eta = where(v != 0.0, eta, zero - eta)
                g, h = zero, zero
                if sums > 1:
                    g = load(FOUR, space, o + U(32)) + x * og
                if sums > 2:
                    h = load(FOUR, space, o + U(36)) + x * x * curve
                store_fields(cell, indices, tail, p, in_tail, (q, n, z, eta, G, A, g, h))
            else:
                store_fields(cell, indices, tail, p, in_tail, (q, n, z, eta, G, zero))
        if sums > 0:
            bias[4] += omega[k] * b
        if sums > 1:
            bias[5] += og
        if sums > 2:
            bias[6] += curve
        G_b += c * c
        new_r = maximum(tiny(G_b), rate(rule, G_b, 1.0, nonzeros, gain, floor))
        z_b = moved(rule, kept(rule, z_b, r_b * (b0 - b)), c, new_r * (b - b0), 0.0)
        r_b, b = new_r, intercept * (b0 - z_b / new_r)
    bias[0], bias[1], bias[2], bias[3] = b, z_b, G_b, r_b
    clock[0] = K


@kernel
def read(features, t, stride, idle, ages, method, state, out):
    """Write the iterate at these features at clock t into ``out``, where z does not drift."""
    _, reg, lanes, _, lams = method
    cell = state.cell
    m, step, lam = U(n_float64(lanes)), U(stride), load(lanes, lams, U(0))
    own = U(2) + U(per_feature_clock(ages)) + U(ridged(idle))
    for k in range(features.size):
        j = U(features[k])
        at = j * step
        now, eta = age(ages, t, cell, at), abs(load(lanes, cell, at + own + m))
        v = shrunk(reg, load(lanes, cell, at + own), lam * feature_weight(reg, j) * clock_of(idle, now))
        store_float64(lanes, out, U(k) * U(width(lanes)), 0.0 - v * damping(idle, now, eta) * eta)


@kernel
def settle_all(table, origin, t, stride, idle, ages, method, state):
    """Close the sums at clock t for every coordinate; the sign of eta marks whether it is alive."""
    _, reg, lanes, watch, lams = method
    cell = state.cell
    m, sums, two, step = U(n_float64(lanes)), U(n_sums(watch)), U(2), U(stride)
    touch, end = two + U(per_feature_clock(ages)), float(t)
    own, r = touch + U(ridged(idle)), U(int(end - origin))
    for j in range(U(cell.size) // step):
        at, pen = j * step, feature_weight(reg, j)
        now, then = age(ages, end, cell, at), age(ages, origin, cell, at)
        for lane_ in range(m):
            f = at + own + lane_
            z, eta = cell[f], cell[f + m]
            shrink = lams[lane_] * pen * shrink_rate(reg, -z)
            alive = abs(z) > shrink * now
            if z != 0.0:
                total = 0.0
                if sums > 0:
                    if ridged(idle) == 1:
                        a = age(ages, maximum(origin, cell[at + touch]), cell, at)
                        if now > a:
                            total = stretch(idle, z, eta, shrink, a, now) * (table[r, 0] / (end - origin))
                    elif eta > 0.0:
                        if alive:
                            total = eta * ((abs(z) - shrink * then) * table[r, 0] - shrink * table[r, 1])
                        else:
                            total = sum_to_death(table, z, eta, shrink, then, r)
                    cell[f + m + m + m] -= math.copysign(total, z)
                if drifts(idle) == 1:
                    cell[f] = drifted(idle, z, eta, shrink, end - cell[at + touch])
            if ridged(idle) == 0:
                cell[f + m] = abs(eta) if alive else -abs(eta)
        if ridged(idle) == 1:
            cell[at + touch] = end
