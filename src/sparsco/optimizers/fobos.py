"""FOBOS, forward-backward splitting: w <- S(w - eta c x, eta lam) / (1 + eta rho), O(nonzeros) per example.

The lazy form.  P_t is the product of all L2 decays and B_t the sum of tau = eta / P.  An idle coordinate obeys
|w_t| = P_t max(|w_s| / P_s - lam pen (B_t - B_s), 0).  A cell stores B at its last touch and v = w / P.  A coordinate
*dies* when its weight reaches zero.  Sums of iterates use Abel summation: a touch that moves v to u adds (v - u) SP and
sign terms, with SP and SPB the sums of omega P and omega P B so far.  Only a coordinate that died while idle needs the
step of its death.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..jit.dispatch import U, kernel, plain_python
from ..jit.lanes import (
    EIGHT,
    FOUR,
    TWO,
    anyof,
    count,
    lane,
    load,
    maximum,
    minimum,
    numbered,
    of_row,
    pack,
    prefetch_wide,
    room,
    signed,
    spell,
    store,
    where,
    width,
)
from ..jit.simd4 import FIVE, THREE, tails
from ..losses import curvature, derivative
from ..mirrors import Euclidean
from ..parts.contracts import Optimizer, part
from ..penalties import ElasticNet, falls, feature_weight, prox, stepped
from ..problem.state import TOGETHER, Block, Layout, Problem, State, spare, tracks
from .fobos_simd import learn_lines
from .zero_crossings import until_death, update_grid

_NONE = 1e-100
"""A shrinkage that is too small to bring any weight to zero."""
_TINY, _TINY_SINGLE, _TINY_SUMS = 1e-60, 1e-12, 1e-4
"""Values of P below which the cells are settled and P restarts from 1.

Without sums P only must not underflow; float32 lanes need an earlier restart.  Sums lose as many digits as P does.
"""


class Schedule(NamedTuple):
    """The arguments of the kernel for the next steps.

    Per row: steps (of the intercept, and of the cells over P), shrinkage over P and weight in the average.  Per step
    since the last settling, and one more: ``table`` with columns B, SP, SPB, P.  ``first`` is the table's row of the
    first step; ``dead`` and ``level`` are scratch.
    """

    eta: np.ndarray
    tau: np.ndarray
    fall: np.ndarray
    omega: np.ndarray
    table: np.ndarray
    grid: np.ndarray
    first: int
    dead: np.ndarray
    level: np.ndarray


class Learn:
    """The dispatcher of the kernels: ``learn_lines`` for one model with the elastic net, otherwise ``learn``."""

    def __call__(self, rows: Any, order: Any, schedule: Any, method: Any, state: Any) -> None:
        is_line = width(method.lanes) == 1 and not spare(method.watch)
        if is_line and type(method.penalty) is ElasticNet:
            size = (TWO, THREE, FOUR, FIVE)[tracks(method.watch)]
            learn_lines(rows, order, schedule, method, state, size, *tails(rows))
        else:
            learn(rows, order, schedule, method, state)

    def py_func(self, rows: Any, order: Any, schedule: Any, method: Any, state: Any) -> None:
        """Run the same code in plain Python, uncompiled."""
        with plain_python():
            self(rows, order, schedule, method, state)

    @property
    def cached(self) -> Any:
        """Return the compiled versions of ``learn_lines``."""
        return learn_lines.cached

    @property
    def uncached(self) -> Any:
        """Return the compiled versions of ``learn_lines`` with records of the user."""
        return learn_lines.uncached


def start(optimizer: Any, problem: Problem) -> tuple[State, Block]:
    """Return the initial state, with P = 1."""
    state, block = optimizer.layout.start(problem, optimizer.columns)
    block.table[0, 3] = 1.0
    return state, block


@part(Optimizer, l2_in="where the L2 term is, 'prox' or 'gradient'")
class FOBOS(NamedTuple):
    """FOBOS, forward-backward splitting (proximal stochastic gradient descent).

    Parameters
    ----------
    l2_in : {"prox", "gradient"}
        Whether the L2 term is in the prox, or in the gradient as the papers write it.
    """

    l2_in: str = "prox"

    layout = Layout(shared=1, lane=1, bias=1, clock=0)
    columns = 4
    uses_steps = True
    supported_penalties = ("absolute", "separable", "grouped")
    supports_float32 = True
    follows_iterates = True
    starts_anywhere = True
    can_be_averaged = True

    @property
    def learn(self):
        return Learn()

    def check(self, problem: Problem) -> None:
        """Raise for parameters or a problem that the optimizer does not support."""
        if self.l2_in not in ("prox", "gradient"):
            raise ValueError(f"FOBOS(l2_in={self.l2_in!r}): l2_in must be 'prox' or 'gradient'.")

    start = start

    def schedule(
        self, problem: Problem, state: State, block: Block, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> Schedule:
        """Return the arrays for the next ``len(eta)`` steps, or for fewer where P would become too small."""
        rho = float(problem.penalty.rho)
        if self.l2_in == "prox":
            return make_schedule(problem, block, t, eta, omega, eta)
        return make_schedule(problem, block, t, eta, omega, eta, gradient_decay(state, t, eta, rho))

    def settle(self, problem: Problem, state: State, block: Block, t: int) -> None:
        """Bring every coordinate and its sums up to date, and start a new block: P = 1, B = 0."""
        settle_block(problem, state, block, t)

    def following(self, problem: Problem) -> Any:
        """Return the form of the optimizer that computes the Bregman difference of each step."""
        from .fobos_tracked import FollowedFOBOS
        from .mirror_descent import SweptDescent

        in_prox = self.l2_in == "prox" or problem.penalty.rho == 0.0
        is_swept = in_prox and not problem.penalty.is_absolute
        return SweptDescent(Euclidean()) if is_swept else FollowedFOBOS(self.l2_in)

    def weights(self, problem: Problem, state: State, block: Block, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the iterate after t examples."""
        return iterate(self.layout, problem, state, block, t)

    def weights_at(
        self, problem: Problem, state: State, block: Block, t: int, features: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the iterate at some features, by a compiled kernel; for many lanes."""
        out = np.empty(len(features) * problem.width)
        read(features, *block.table[t - block.start, [0, 3]], problem.settling, state, out)
        return self.layout.answer(problem, state, out)


def gradient_decay(state: State, t: int, eta: np.ndarray, rho: float) -> np.ndarray:
    """Return the factors 1 - eta rho of an L2 term in the gradient; raise where one is not positive."""
    decay = 1.0 - eta * rho
    if t == 0 and decay.size and decay[0] <= 0.0 and not state.cell.any():
        decay[0] = 1.0  # w_1 = 0, so the factor has no effect
    if decay.size and decay.min() <= 0.0:
        raise ValueError(
            f"the step {eta[decay.argmin()]:.3g} at example {t + decay.argmin() + 1} times rho = {rho:.3g} is at least "
            "1: choose smaller steps, or FOBOS(l2_in='prox')."
        )
    return decay


def settle_block(problem: Problem, state: State, block: Block, t: int) -> None:
    """Bring every coordinate and its sums up to date, and start a new block: P = 1, B = 0."""
    settle(block.table, block.grid, t - block.start, problem.settling, state)
    block.table[0] = 0.0, 0.0, 0.0, 1.0
    block.start, block.gridded, block.full = t, 0, False


def iterate(layout: Layout, problem: Problem, state: State, block: Block, t: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the iterate after t examples."""
    touched, lanes, bias = layout.views(problem, state)
    B, _, _, P = block.table[t - block.start]
    method = problem.method
    pen = problem.penalty.feature_weights(problem.d)
    idle = (pen * (B - touched[:, 0]))[:, None] * method.lams
    return (P * prox(method.penalty, lanes[:, 0], idle))[:, : problem.m], bias[0, : problem.m].copy()


def make_schedule(
    problem: Problem,
    block: Block,
    t: int,
    eta: np.ndarray,
    omega: np.ndarray,
    shrinkage: np.ndarray,
    decay: np.ndarray | None = None,
) -> Schedule:
    """Return the arrays for the next ``len(eta)`` steps, or for fewer where P would become too small to divide by.

    ``shrinkage`` is the threshold of each step over lam pen, which is eta for FOBOS.  ``decay`` is the factor of an L2
    term in the gradient; without it that term is in the prox.
    """
    if not problem.sums and t > block.start:  # without sums only the current P and B matter
        block.table[0] = block.table[t - block.start]
        block.start = t
    first, in_prox = t - block.start, decay is None
    if decay is None:
        decay = 1.0 / (1.0 + eta * float(problem.penalty.rho))
    tau, fall, table = np.empty(len(eta)), np.empty(len(eta)), block.reserve(first + len(eta) + 1)
    limit = _TINY_SUMS if problem.sums else _TINY_SINGLE if problem.single else _TINY
    n = fill(table, first, decay, eta, shrinkage, omega, in_prox, limit, tau, fall)
    block.full = bool(table[first + n, 3] < limit)
    if problem.sums:
        update_grid(block, first + n)
    b_eta = eta if problem.intercept else 0.0 * eta
    return Schedule(b_eta[:n], tau[:n], fall[:n], omega[:n], block.table, block.grid, first, block.noted, block.level)


@kernel
def fill(table, first, decay, eta, shrinkage, omega, in_prox, limit, tau, fall):
    """Fill the table's rows after ``first``, tau and fall; return how many, the last being where P passes the limit."""
    at, one = U(first), U(1)
    B, SP, SPB, P = table[at, 0], table[at, 1], table[at, 2], table[at, 3]
    for k in range(eta.size):
        after = P * decay[k]
        SP += omega[k] * P
        SPB += omega[k] * P * B
        scale = P if in_prox else after
        tau[k], fall[k] = eta[k] / scale, shrinkage[k] / scale
        B += fall[k]
        P = after
        at += one
        table[at, 0], table[at, 1], table[at, 2], table[at, 3] = B, SP, SPB, P
        if P < limit:
            return k + 1
    return eta.size


@kernel
def learn(rows, order, schedule, method, state):
    """Make FOBOS steps over the rows in ``order``, with exact running sums where the method watches them."""
    indptr, indices, data, targets, weights = rows
    loss, reg, lanes, watch, lams = method
    eta, tau, fall, omega, table, grid, first, dead, level = schedule
    cell, bias, _ = state
    m, sums, one, eight = U(room(lanes)), U(tracks(watch)), U(1), U(8)
    stride = one + (one + sums + U(spare(watch))) * m
    size = m + U(TOGETHER)  # at the end of ``level``: the dead, the shrinkage of each step, B at death with v's sign
    who, sink, deaths = U(level.size) - size, U(level.size) - size - size, U(level.size) - U(3) * size
    lam, b = load(lanes, lams, U(0)), load(lanes, bias, U(0))
    for k in range(order.size):
        i, r = U(order[k]), U(first + k)
        start, stop = U(indptr[i]), U(indptr[i + one])
        B, P = table[r, 0], table[r, 3]
        s, n = 0.0 * b, U(0)
        for p in range(start, stop):  # catch up, inner product; list the coordinates that died while idle
            j = U(indices[p])
            at = j * stride
            idle = lam * (feature_weight(reg, j) * (B - cell[at]))
            v = load(lanes, cell, at + one)
            if sums > 0:
                dead[n] = j
                n += U(anyof((abs(v) <= idle * falls(reg, v)) & (v != 0.0)))
            v = prox(reg, v, idle)
            if sums > 0:
                store(lanes, level, (p - start) * m, v)
            s = s + v * data[p]
        if sums > 0:  # the iterates of the dead, summed up to the step at which each reached zero, eight at a time
            packed, most = U(0), U(TOGETHER) - eight
            for h in range(n):
                at = U(dead[h]) * stride
                v = load(lanes, cell, at + one)
                shrink = lam * feature_weight(reg, U(dead[h])) * falls(reg, v)
                died = (v != 0.0) & (abs(v) <= shrink * (B - cell[at]))
                pack(level, deaths + packed, signed(abs(v) * (1.0 / maximum(shrink, _NONE)) + cell[at], v), died)
                pack(level, sink + packed, shrink, died)
                pack(level, who + packed, numbered(lanes) + float(at + one + m), died)
                packed += count(died)
                if (packed < most) & (h + one < n):
                    continue
                store(EIGHT, level, deaths + packed, 0.5 * table[one, 0])  # pad with entries that add nothing
                store(EIGHT, level, sink + packed, 0.0)
                store(EIGHT, level, who + packed, 0.0)
                for q in range(U(0), packed, eight):
                    x_signed, sinks = load(EIGHT, level, deaths + q), load(EIGHT, level, sink + q)
                    gone = signed(sinks * until_death(table, grid, float(r), abs(x_signed)), x_signed)
                    for f in range(eight):
                        cell[U(level[who + q + f])] += lane(gone, f)
                packed = U(0)
        y, weight = of_row(lanes, targets, k), of_row(lanes, weights, k)
        margin = P * s + b
        g = weight * derivative(loss, margin, y)
        c, og, step = tau[k] * g, omega[k] * g, fall[k]
        B1, SP, SPB = table[r + one, 0], table[r + one, 1], table[r + one, 2]
        before, after = B * SP - SPB, B1 * SP - SPB
        curve = 0.0 * b
        if sums > 2:
            curve = weight * curvature(loss, margin, y)
        ahead, end = U(indptr[order[minimum(k + 2, order.size - 1)]]) - start, U(indices.size) - one
        for p in range(start, stop):  # step, prox, running sums; prefetch the cells of the row after the next
            coming = U(indices[minimum(p + ahead, end)]) * stride
            for line in range(U(0), stride, U(8)):
                prefetch_wide(cell, coming + line)
            j = U(indices[p])
            at = j * stride
            pen = lam * feature_weight(reg, j)
            if sums > 0:
                v = load(lanes, level, (p - start) * m)
                u = prox(reg, v - c * data[p], pen * step)
                cell[at] = B1
            else:
                v = load(lanes, cell, at + one)
                u = stepped(reg, v, pen * (B - cell[at]), c * data[p])
                cell[at] = B  # the step's own prox is part of the next idle stretch
            store(lanes, cell, at + one, u)
            if sums > 0:
                f = at + one + m
                sinking = signed(pen * before * falls(reg, v), v) - signed(pen * after * falls(reg, u), u)
                moved = (v - u) * SP + sinking
                store(lanes, cell, f, load(lanes, cell, f) + moved)
            if sums > 1:
                f = at + one + m + m
                store(lanes, cell, f, load(lanes, cell, f) + og * data[p])
            if sums > 2:
                f = at + one + m + m + m
                store(lanes, cell, f, load(lanes, cell, f) + curve * data[p] * data[p])
        if sums > 0:
            store(lanes, bias, m, load(lanes, bias, m) + omega[k] * b)
        if sums > 1:
            store(lanes, bias, m + m, load(lanes, bias, m + m) + og)
        if sums > 2:
            store(lanes, bias, m + m + m, load(lanes, bias, m + m + m) + curve)
        b = b - eta[k] * g
    store(lanes, bias, U(0), b)


@kernel
def read(features, B, P, method, state, out):
    """Write the iterate at these features into ``out``: P S(v, lam pen (B - B at the last touch))."""
    _, reg, lanes, watch, lams = method
    m, one = U(room(lanes)), U(1)
    stride, lam = one + (one + U(tracks(watch)) + U(spare(watch))) * m, load(lanes, lams, U(0))
    for k in range(features.size):
        j = U(features[k])
        at = j * stride
        idle = lam * (feature_weight(reg, j) * (B - state.cell[at]))
        spell(lanes, out, U(k) * U(width(lanes)), P * prox(reg, load(lanes, state.cell, at + one), idle))


@kernel
def settle(table, grid, steps, method, state):
    """Close the sums after so many steps for every coordinate and write v = w, B = 0 into its cell."""
    _, reg, lanes, watch, lams = method
    cell = state.cell
    m, sums, one = U(room(lanes)), U(tracks(watch)), U(1)
    stride, r = one + (one + sums + U(spare(watch))) * m, U(steps)
    B, P, lam = table[r, 0], table[r, 3], load(lanes, lams, U(0))
    for j in range(U(cell.size) // stride):
        at, pen = j * stride, feature_weight(reg, j)
        now = load(lanes, cell, at + one)
        if (sums > 0) & (r > 0) & anyof(now != 0.0):  # as in ``learn``, and those that are alive
            shrink, f = lam * pen * falls(reg, now), at + one + m
            died = (now != 0.0) & (abs(now) <= shrink * (B - cell[at]))
            x = where(died, abs(now) * (1.0 / maximum(shrink, _NONE)) + cell[at], 0.5 * table[one, 0])
            alive = (abs(now) + shrink * cell[at]) * table[r, 1] - shrink * table[r, 2]
            total = where(died, shrink * until_death(table, grid, float(r), x), alive)
            store(lanes, cell, f, load(lanes, cell, f) + signed(maximum(total, 0.0), now))
        store(lanes, cell, at + one, P * prox(reg, now, lam * (pen * (B - cell[at]))))
        cell[at] = 0.0
