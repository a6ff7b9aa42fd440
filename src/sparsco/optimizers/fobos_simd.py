"""FOBOS for one model and one penalty, a block of features at a time; see ``fobos`` for the mathematics.

The coordinates that died while idle (see ``fobos``), a fifth to a half of all entries, are packed into blocks of their
own: a branch for each would cost more than the rest of its work.
"""

from __future__ import annotations

from ..data.rows import rows_to_prefetch
from ..jit.dispatch import U, kernel
from ..jit.lanes import (
    any_lane,
    count_lanes,
    lane_indices,
    load,
    load_row,
    maximum,
    minimum,
    prefetch,
    signed,
    store,
    where,
    width,
)
from ..jit.packing import compress_store, expand_load
from ..jit.simd import load_entries, load_fields, pad_tail, prefetch_lines, sum_of, update_fields
from ..losses import curvature, derivative
from ..penalties import prox
from ..problem.fading import growth
from ..problem.state import n_sums
from .running_sums import add_intercept
from .zero_crossings import COL_B, COL_P, COL_SP, COL_SPB, until_death


@kernel
def learn_simd(rows, order, schedule, method, state, line, wide, tail, tail_x):
    """Make FOBOS steps over the rows in ``order``; ``line`` is how many numbers a feature has (B, v, the sums).

    ``space`` has three parts: every entry's v; every entry's v before it was caught up; B at which the dead died, with
    the sign of v, which becomes the sum of their iterates.  A row's last block is padded by repeating its last entry.
    The first loop only reads cells, and the last reads a block before it writes it, so the copies compute and write the
    same numbers.  Only inner products leave them out.
    """
    indptr, indices, data, targets, weights = rows
    loss, reg, lanes, watch, lams = method
    eta, tau, fall, omega, pace, table, grid, first, _, space = schedule
    cell, bias, _ = state
    sums, one, size = U(n_sums(watch)), U(1), U(width(wide))
    lam, b = lams[0], bias[0]
    per_lam = 1.0 / maximum(1e-300, lam)
    number, former = lane_indices(wide), U(space.size) >> U(2)
    deaths, zero = former + former, 0.0 * number
    for k in range(order.size):
        i, r = U(order[k]), U(first + k)
        begin, stop = U(indptr[i]), U(indptr[i + one])
        full, blocks = (stop - begin) // size, (stop - begin + size - one) // size
        (coming, later), last = rows_to_prefetch(indptr, order, k), U(maximum(indices.size, 8)) - size
        if blocks > full:
            pad_tail(indices, data, begin + full * size, stop, tail, tail_x)
        B, P = table[r, COL_B], table[r, COL_P]
        s, left, n = zero, float(stop - begin), U(0)
        for block in range(blocks):  # catch up, inner product; pack those that died while idle
            o, in_tail = block * size, block == full
            touched, old = load_fields(wide, cell, indices, tail, begin + o, in_tail, line)[:2]
            v = prox(reg, old, lam * (B - touched))
            s = s + v * where(number < left, load_entries(wide, data, tail_x, begin + o, in_tail), 0.0)
            left -= float(size)
            store(wide, space, o, v)
            if sums > 0:
                store(wide, space, former + o, old)
                died = (v == 0.0) & (old != 0.0)
                compress_store(space, deaths + n, signed(abs(old) * per_lam + touched, old), died)
                n += count_lanes(died)
        if sums > 0:
            store(wide, space, deaths + n, zero + 0.5 * table[one, COL_B])  # pad with numbers that are never read
            for h in range(U(0), n, size):  # sum the iterates of the dead
                at = load(wide, space, deaths + h)
                store(wide, space, deaths + h, signed(lam * until_death(table, grid, float(r), abs(at)), at))
            n = U(0)
        y, weight = load_row(lanes, targets, k), weights[U(k)]
        margin = P * sum_of(wide, s) + b
        g = weight * derivative(loss, margin, y)
        c, og, shrink, curve = tau[k] * g, omega[k] * g, lam * fall[k], 0.0
        if sums > 2:
            curve = growth(pace, k) * (weight * curvature(loss, margin, y))
        B1, SP1, SPB1 = table[r + one, COL_B], table[r + one, COL_SP], table[r + one, COL_SPB]
        before, after = zero + lam * (B * SP1 - SPB1), zero + lam * (B1 * SP1 - SPB1)
        for block in range(blocks):  # step, prox, running sums
            o, in_tail = block * size, block == full
            if indices.size >= 8:  # prefetch the lines of a row to come, and the entries of one after it
                prefetch_lines(wide, cell, indices, minimum(coming + o, last), line)
                prefetch(data, later + o)
                prefetch(indices, later + o)
            x, v, A = load_entries(wide, data, tail_x, begin + o, in_tail), load(wide, space, o), zero
            u = prox(reg, v - x * c, shrink)
            if sums > 0:
                died = (v == 0.0) & (load(wide, space, former + o) != 0.0)
                A = (v - u) * SP1 + (signed(before, v) - signed(after, u)) + expand_load(space, deaths + n, died)
                n += count_lanes(died)
            more = A, x * og, x * curve * x
            update_fields(wide, cell, indices, tail, begin + o, in_tail, (zero + B1, u), more, line)
        add_intercept(watch, lanes, bias, one, omega[k] * b, og, curve)
        b = b - eta[k] * g
    bias[0] = b


@kernel
def settle_simd(table, grid, steps, method, state, line, wide, block):
    """Close the sums after so many steps for every coordinate and write v = w, B = 0 into its cell.

    ``block`` is scratch for the features of a block; those of the last one are repeated.  Cells with v = B = 0, most of
    those of rare features, are not written.
    """
    _, reg, lanes, watch, lams = method
    cell = state.cell
    sums, size, lam, r, none = U(n_sums(watch)), U(width(wide)), lams[0], U(steps), U(0)
    d, per_lam, zero = U(cell.size) // U(width(line)), 1.0 / maximum(1e-300, lam), 0.0 * lane_indices(wide)
    B, SP, SPB, P = table[r, COL_B], table[r, COL_SP], table[r, COL_SPB], table[r, COL_P]
    for first in range(none, d, size):
        for f in range(size):
            block[f] = minimum(first + f, d - U(1))
        last, now = load_fields(wide, cell, block, block, none, True, line)[:2]
        if any_lane((now != 0.0) | (last != 0.0)):
            v, total = prox(reg, now, lam * (B - last)), zero
            if (sums > 0) & (r > 0):
                total = (abs(now) + lam * last) * SP - lam * SPB
                died = (v == 0.0) & (now != 0.0)
                if any_lane(died):
                    death = where(died, abs(now) * per_lam + last, 0.5 * table[U(1), COL_B])
                    total = where(died, lam * until_death(table, grid, float(r), death), total)
                total = signed(maximum(total, 0.0), now)
            update_fields(wide, cell, block, block, none, True, (zero, P * v), (total,), line)
