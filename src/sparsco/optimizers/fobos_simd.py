"""FOBOS for one model and one penalty, four features at a time; see ``fobos`` for the mathematics.

The coordinates that died while idle (see ``fobos``), about a sixth of all entries, are collected and processed four at
a time as well: a branch for each would cost more than the rest of its work.
"""

from __future__ import annotations

from ..data.rows import rows_to_prefetch
from ..jit.dispatch import U, kernel
from ..jit.lanes import (
    FOUR,
    compress_store,
    count_lanes,
    lane,
    lane_indices,
    load,
    load_row,
    maximum,
    minimum,
    prefetch,
    signed,
    store,
    where,
)
from ..jit.simd import load_entries, load_fields, pad_tail, prefetch_lines, store_fields, sum_of
from ..losses import curvature, derivative
from ..penalties import prox
from ..problem.fading import growth
from ..problem.state import n_sums
from .running_sums import add_intercept
from .zero_crossings import COL_B, COL_P, COL_SP, COL_SPB, until_death


@kernel
def learn_simd(rows, order, schedule, method, state, line, tail, tail_x):
    """Make FOBOS steps over the rows in ``order``; ``line`` is how many numbers a feature has (B, v, the sums).

    ``space`` has four quarters: every entry's v; B at which the dead died; their entries; every entry's sum if dead.
    A row's last block is padded by repeating its last entry.  The first loop only reads cells and the last only writes
    cells it has read before, so the copies compute and write the same numbers.  Only inner products leave them out.
    """
    indptr, indices, data, targets, weights = rows
    loss, reg, lanes, watch, lams = method
    eta, tau, fall, omega, pace, table, grid, first, _, space = schedule
    cell, bias, _ = state
    sums, one, two, four = U(n_sums(watch)), U(1), U(2), U(4)
    lam, b = lams[0], bias[0]
    per_lam = 1.0 / maximum(1e-300, lam)
    size, number = U(space.size) >> two, lane_indices(FOUR)
    level, whose, fallen, zero = size, two * size, two * size + size, 0.0 * number
    for k in range(order.size):
        i, r = U(order[k]), U(first + k)
        begin, stop = U(indptr[i]), U(indptr[i + one])
        full, blocks = (stop - begin) >> two, (stop - begin + U(3)) >> two
        (coming, later), last = rows_to_prefetch(indptr, order, k), U(maximum(indices.size, 4)) - four
        if blocks > full:
            pad_tail(indices, data, begin + full * four, stop, tail, tail_x)
        B, P = table[r, COL_B], table[r, COL_P]
        s, left, n = zero, float(stop - begin), U(0)
        for block in range(blocks):  # catch up, inner product; list the coordinates that died while idle
            o, in_tail = block * four, block == full
            now = load_fields(FOUR, cell, indices, tail, begin + o, in_tail, line)
            touched, old = now[0], now[1]
            v = prox(reg, old, lam * (B - touched))
            s = s + v * where(number < left, load_entries(FOUR, data, tail_x, begin + o, in_tail), 0.0)
            left -= 4.0
            store(FOUR, space, o, v)
            if sums > 0:
                store(FOUR, space, fallen + o, zero)
                died = (v == 0.0) & (old != 0.0)
                compress_store(space, level + n, signed(abs(old) * per_lam + touched, old), died)
                compress_store(space, whose + n, number + float(o), died)
                n += count_lanes(died)
        if sums > 0:
            if n > U(0):  # pad the last four of the dead with an entry whose sum is never read
                store(FOUR, space, level + n, zero + 0.5 * table[one, COL_B])
                store(FOUR, space, whose + n, zero + float(size - one))
            for h in range(U(0), n, four):  # sum the iterates of the dead
                at = load(FOUR, space, level + h)
                total = signed(lam * until_death(table, grid, float(r), abs(at)), at)
                for f in range(four):
                    space[fallen + U(space[whose + h + f])] = lane(total, f)
        y, weight = load_row(lanes, targets, k), weights[U(k)]
        margin = P * sum_of(FOUR, s) + b
        g = weight * derivative(loss, margin, y)
        c, og, shrink, curve = tau[k] * g, omega[k] * g, lam * fall[k], 0.0
        if sums > 2:
            curve = growth(pace, k) * (weight * curvature(loss, margin, y))
        B1, SP1, SPB1 = table[r + one, COL_B], table[r + one, COL_SP], table[r + one, COL_SPB]
        before, after = zero + lam * (B * SP1 - SPB1), zero + lam * (B1 * SP1 - SPB1)
        for block in range(blocks):  # step, prox, running sums
            o, in_tail = block * four, block == full
            if indices.size >= 4:  # prefetch the lines of a row to come, and the entries of one after it
                prefetch_lines(FOUR, cell, indices, minimum(coming + o, last), line)
                prefetch(data, later + o)
                prefetch(indices, later + o)
            x, v, A, G, H = load_entries(FOUR, data, tail_x, begin + o, in_tail), load(FOUR, space, o), zero, zero, zero
            u = prox(reg, v - x * c, shrink)
            if sums > 0:
                now = load_fields(FOUR, cell, indices, tail, begin + o, in_tail, line)
                A = now[2] + load(FOUR, space, fallen + o)
                A = A + ((v - u) * SP1 + (signed(before, v) - signed(after, u)))
                G, H = now[3] + x * og, now[4] + x * curve * x
            store_fields(FOUR, cell, indices, tail, begin + o, in_tail, (zero + B1, u, A, G, H), line)
        add_intercept(watch, lanes, bias, one, omega[k] * b, og, curve)
        b = b - eta[k] * g
    bias[0] = b
