"""The kernels of Epoch-SGD in the L1 ball, and the radix queue of its nonzero weights.

Written in units of B / 2^30, |v| and Theta agree down to some binary digit; that digit gives the list of a weight.
When Theta moves to tau, only lists up to the first digit that changed can hold a weight below tau.  The remaining
weights of these lists go to lower lists.  A weight may stay in a list below its own: touches that let it grow do not
move it.  A weight that needs a lower list is added there.  Its old entry is then stale and is dropped when it is
reached.

A list is a chain of pages of 31 entries, so that many weights are read at once.  See ``epoch_sgd_l1_ball`` for the
mathematics.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..jit.dispatch import U, inlined, kernel
from ..jit.lanes import load_row, maximum, minimum, where
from ..losses import curvature, derivative
from ..problem.state import n_sums
from .running_sums import add_gradient, add_intercept

BITS, LISTS, PAGE = 28, 16 * 14, 32
ENTRIES = PAGE - 1
"""The entries of a page; its first number is the end of the page before it."""
THETA, ITERATES, C_SUM, NORM, NONZEROS, SQUARES, PRODUCTS, SIGNS, START_NORM = range(1, 10)
"""The entries of the clock after the epoch's start: Theta, n, C, W and N, then four sums W2, X, X0, CC.

The four give the distance from the epoch's start c.  They are the sums over the nonzero weights of w^2, of w c and of
sign(w) c, and the squared norm of c.
"""
V, START = U(0), U(1)
"""The numbers of a cell: v and, where distances are bounded, the epoch's start; the sums follow."""
_MOST = 2.0**52


class Queue(NamedTuple):
    """The arguments of the kernel: the steps, and the radix queue of nonzero weights.

    ``eta`` and ``bias_eta`` are the steps per row.  ``end`` is the position of the next entry of each list; it is at a
    page's first number if that page has no room.  The first number of each page in ``pages`` is the end of the page
    before it.  ``free`` is the number of free pages followed by these pages.  ``place`` is the list of each feature,
    counted from 1; 0 means none.  ``unit`` scales |v| to digits.  ``near`` is the squared distance from the epoch's
    start below which only the L1 ball matters.  ``far`` is the Theta + W above which digits are lost.  The rest is
    scratch.
    """

    eta: np.ndarray
    bias_eta: np.ndarray
    end: np.ndarray
    pages: np.ndarray
    free: np.ndarray
    place: np.ndarray
    unit: float
    near: float
    far: float
    loose: np.ndarray
    size: np.ndarray
    gone: np.ndarray


def unit_of(radius: float) -> float:
    """Return the scale of the digits, the inverse of radius / 2^30 rounded to a power of two."""
    return math.ldexp(1.0, BITS - math.frexp(radius)[1])


# ---- the queue -------------------------------------------------------------------------------------------------------


@inlined
def _digits(u, unit):
    """Return u in units, as a whole number."""
    return np.int64(minimum(u * unit, _MOST))


@inlined
def _list(q, here):
    """Return the list of q > here: by the first digit in which they differ and q's value there; 0 if none differs."""
    bits = np.float64(q ^ here).view(np.int64) >> 52  # the exponent, 1023 + the place of the first binary digit
    differ = np.int64(bits > 0)
    level = (bits - 1023) * differ >> 2
    return U(((level << 4) + ((q >> (level << 2)) & 15)) * differ)


@inlined
def _add_to_list(end, pages, free, place, to, j):
    """Add a feature to a list, on a free page where the last one is full."""
    one, page = U(1), U(PAGE)
    slot = U(end[to])
    if slot % page == U(0):
        left = U(free[0])
        pages[U(free[left]) * page] = slot
        slot, free[0] = U(free[left]) * page + one, left - one
    pages[slot], end[to], place[j] = j, slot + one, to + one


@inlined
def _empty_list(end, pages, free, place, level, cell, stride, loose, size, m):
    """Move the features of a list, without stale entries, to the m that are loose; return how many are loose then."""
    one, page, last = U(1), U(PAGE), U(end[level])
    end[level] = 0
    while last > U(0):
        begin = (last - one) // page * page
        for e in range(begin + one, last):
            j = U(pages[e])
            is_there = U(place[j]) == level + one
            loose[m], size[m] = j, abs(cell[j * stride + V])
            m += U(is_there)
            place[j] = where(is_there, U(0), U(place[j]))
        left = U(free[0]) + one
        free[0], free[left], last = left, begin // page, U(pages[begin])
    return m


@inlined
def _leave(loose, size, gone, m, dead, tau, theta, radius, W, N):
    """Let the loose weights of at most tau leave, which raises tau; return loose, dead, tau, W and N without them."""
    e, alive = U(0), U(0)
    while e < m:
        tau, some = maximum(tau, theta + (W - radius) / N), minimum(e + U(128), m)
        for a in range(e, some):
            j, u = loose[a], size[a]
            loose[alive], size[alive], gone[dead] = j, u, j
            alive, dead = alive + U(u > tau), dead + U(u <= tau)
            W, N = W - where(u > tau, 0.0, u - theta), N - 1.0 * (u <= tau)
        e = some
    return alive, dead, tau, W, N


# ---- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def close(cell, clock, numbers, lane):
    """Bring every weight and its sum of iterates up to date: v = w, Theta = 0."""
    stride, first = U(numbers), U(lane)
    theta, n, C = clock[THETA], clock[ITERATES], clock[C_SUM]
    for j in range(U(cell.size) // stride):
        at = j * stride
        v, u = cell[at + V], abs(cell[at + V])
        cell[at + first] += where(u > theta, math.copysign(u * n - C, v), 0.0)
        cell[at + V] = where(u > theta, math.copysign(u - theta, v), 0.0)
    clock[THETA], clock[ITERATES], clock[C_SUM] = 0.0, 0.0, 0.0


@kernel
def link(cell, clock, end, pages, free, place, numbers, lane, unit):
    """Build the queue of all nonzero weights, and the sums over them, where Theta = 0 and all pages are free."""
    stride, is_near, here = U(numbers), lane > 1, np.int64(0)
    W, N, W2, X, X0, CC = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for level in range(end.size):
        end[level] = 0
    for j in range(U(cell.size) // stride):
        at = j * stride
        v, start = cell[at + V], 0.0
        if is_near:
            start = cell[at + START]
        W, N, W2, X = W + abs(v), N + 1.0 * (v != 0.0), W2 + v * v, X + v * start
        X0, CC = X0 + where(v != 0.0, math.copysign(1.0, v), 0.0) * start, CC + start * start
        place[j] = 0
        if v != 0.0:
            _add_to_list(end, pages, free, place, _list(_digits(abs(v), unit), here), j)
    clock[NORM], clock[NONZEROS] = W, N
    clock[SQUARES], clock[PRODUCTS], clock[SIGNS], clock[START_NORM] = W2, X, X0, CC


@kernel
def learn_ball(rows, order, queue, method, state):
    """Make projected SGD steps over the rows in ``order``; return how many were made.

    There are fewer where the pages might run out.  The number is negative where ``project`` must finish the last step.
    """
    indptr, indices, data, targets, weights = rows
    loss, reg, lanes, watch, _ = method
    eta, bias_eta, end, pages, free, place, unit, near, far, loose, size, gone = queue
    cell, bias, clock = state
    sums, is_near, leaves, one = U(n_sums(watch)), near < np.inf, False, U(1)
    first = one + U(is_near)  # where the sums begin in a cell
    stride, radius, b, learned = first + sums + one, reg.radius, bias[0], 0
    theta, n, C, W, N = clock[THETA], clock[ITERATES], clock[C_SUM], clock[NORM], clock[NONZEROS]
    W2, X, X0 = clock[SQUARES], clock[PRODUCTS], clock[SIGNS]
    here = _digits(theta, unit)
    while learned < order.size:
        k = U(learned)
        i = U(order[k])
        start, stop = U(indptr[i]), U(indptr[i + one])
        if U(free[0]) <= U(end.size) + (stop - start) // U(ENTRIES):
            break
        margin, length = b, 0.0
        for p in range(start, stop):
            v = cell[U(indices[p]) * stride + V]
            margin += math.copysign(maximum(abs(v) - theta, 0.0), v) * data[p]
            length += abs(data[p])
        y = load_row(lanes, targets, k)
        g = weights[k] * derivative(loss, margin, y)
        c, m, curve = eta[k] * g, U(0), 0.0
        if sums > 2:
            curve = weights[k] * curvature(loss, margin, y)
        n += 1.0
        C += theta
        leaves = not theta + W + abs(c) * length <= far
        if leaves:  # sums would lose their digits to a step this long: complete them before it, with Theta = 0
            for j in range(U(cell.size) // stride):
                at = j * stride
                v, u = cell[at + V], abs(cell[at + V])
                cell[at + first] += where(u > theta, math.copysign(u * n - C, v), 0.0)
                cell[at + V] = where(u > theta, math.copysign(u - theta, v), 0.0)
            theta, n, C = 0.0, 0.0, 0.0
        for p in range(start, stop):  # gradient step; weights that were zero or need a lower list leave the queue
            j = U(indices[p])
            at = j * stride
            v, u = cell[at + V], abs(cell[at + V])
            w = math.copysign(maximum(u - theta, 0.0), v) - c * data[p]
            now = abs(w) + theta
            was, lives = u > theta, now > theta
            W += (now - theta) - maximum(u - theta, 0.0)
            N += 1.0 * lives - 1.0 * was
            cell[at + V] = where(lives, math.copysign(now, w), 0.0)
            closed, opened = math.copysign(u * n - C, v), math.copysign(now * n - C, w)
            cell[at + first] += where(was, closed, 0.0) - where(lives, opened, 0.0)
            if is_near:
                old, start_j = math.copysign(maximum(u - theta, 0.0), v), cell[at + START]
                W2, X = W2 + (w * w - old * old), X + (w - old) * start_j
                X0 += (math.copysign(1.0 * lives, w) - math.copysign(1.0 * was, v)) * start_j
            to, queued = _list(_digits(now, unit), here), U(place[j])
            stays = lives & (queued > U(0)) & (queued <= to + one)
            place[j] = queued * U(stays)
            loose[m], size[m] = j, now
            m += U(lives & (not stays))
            add_gradient(watch, lanes, cell, at + first, g * data[p], curve * data[p] * data[p])
        add_intercept(watch, lanes, bias, one, b, g, curve)
        b -= bias_eta[k] * g
        leaves = leaves | (is_near & (W2 - 2.0 * X + clock[START_NORM] > near))
        if (W > radius) & (not leaves):  # project
            tau, falling, dead = theta, True, U(0)
            while falling & (N > 0.0):  # until no weight leaves; rounding must not lower tau
                tau = maximum(tau, theta + (W - radius) / N)
                for level in range(_list(_digits(tau, unit), here) + one):
                    m = _empty_list(end, pages, free, place, level, cell, stride, loose, size, m)
                alive, dead, tau, W, N = _leave(loose, size, gone, m, dead, tau, theta, radius, W, N)
                m, falling = alive, alive < m
            for e in range(dead):  # close the sums of those that left
                at = U(gone[e]) * stride
                v, u = cell[at + V], abs(cell[at + V])
                cell[at + first] += math.copysign(u * n - C, v)
                if is_near:
                    w = math.copysign(u - theta, v)
                    W2, X = W2 - w * w, X - w * cell[at + START]
                    X0 -= math.copysign(1.0, w) * cell[at + START]
            fall = tau - theta
            W2, X = W2 - fall * (2.0 * W - fall * N), X - fall * X0
            W, theta, here = W - fall * N, tau, _digits(tau, unit)
        for e in range(m):  # into the queue
            _add_to_list(end, pages, free, place, _list(_digits(size[e], unit), here), U(loose[e]))
        learned += 1
        if leaves:
            break
    bias[0], clock[THETA], clock[ITERATES], clock[C_SUM], clock[NORM], clock[NONZEROS] = b, theta, n, C, W, N
    clock[SQUARES], clock[PRODUCTS], clock[SIGNS] = W2, X, X0
    return -learned if leaves else learned
