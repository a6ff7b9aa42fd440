"""FOBOS, forward-backward splitting: w <- S(w - eta c x, eta lam) / (1 + eta rho), O(nonzeros) per example.

The lazy form.  P_t is the product of all L2 decays and B_t the sum of tau = eta / P.  An idle coordinate obeys
|w_t| = P_t max(|w_s| / P_s - lam pen (B_t - B_s), 0).  A cell stores B at its last touch and v = w / P.  A coordinate
*dies* when its weight reaches zero.  Sums of iterates use Abel summation: a touch that moves v to u adds (v - u) SP and
sign terms, with SP and SPB the sums of omega P and omega P B so far.  Only a coordinate that died while idle needs the
step of its death.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..data.rows import ask_for_row
from ..jit.dispatch import U, kernel, plain_python
from ..jit.lanes import (
    EIGHT,
    FOUR,
    TWO,
    any_lane,
    count_lanes,
    lane,
    lane_indices,
    load,
    load_row,
    maximum,
    minimum,
    n_float64,
    prefetch_wide,
    signed,
    store,
    store_float64,
    where,
    width,
)
from ..jit.packing import compress_store
from ..jit.simd import tail_scratch, widest_block
from ..losses import curvature, derivative
from ..mirrors import Euclidean
from ..parts.contracts import Optimizer, part
from ..penalties import ElasticNet, feature_weight, prox, prox_step, shrink_rate
from ..problem.bounds import Bounded
from ..problem.fading import growth
from ..problem.state import TOGETHER, Block, Layout, Problem, State, n_sums, spare_fields
from .fobos_groups import group_form
from .fobos_simd import learn_simd, settle_simd
from .running_sums import add_gradient, add_intercept
from .zero_crossings import COL_B, COL_P, COL_SP, COL_SPB, COLUMNS, until_death, update_grid

LAST_B, V = U(0), U(1)
"""The numbers of a cell: B at the last touch, then v of every lane; the sums follow."""
_NONE = 1e-100
"""A shrinkage that is too small to bring any weight to zero."""
_TINY, _TINY_SINGLE, _TINY_SUMS = 1e-60, 1e-12, 1e-4
"""Values of P below which the cells are settled and P restarts from 1.

Without sums P only must not underflow; float32 lanes need an earlier restart.  Sums lose as many digits as P does.
"""


class Schedule(NamedTuple):
    """The arguments of the kernel for the next steps.

    Per row: steps (of the intercept, and of the cells over P), shrinkage over P, weight in the average, pace.  Per step
    since the last settling, and one more: ``table`` with columns B, SP, SPB, P.  ``first`` is the table's row of the
    first step; ``dead`` and ``level`` are scratch.
    """

    eta: np.ndarray
    tau: np.ndarray
    fall: np.ndarray
    omega: np.ndarray
    pace: Any
    table: np.ndarray
    grid: np.ndarray
    first: int
    dead: np.ndarray
    level: np.ndarray


class CellLayout(Layout):
    """A layout whose shared field is B at the last touch."""

    __slots__ = ()

    def bounds(self, problem: Problem, state: State, block: Block, t: int) -> Iterator[Bounded]:
        yield Bounded("B at the last touches", self.cells_of(problem, state)[0], block.table[t - block.start, COL_B])


class LineLayout(CellLayout):
    """The memory layout of FOBOS: lines of 2, 4 or 8 numbers per feature for one model with the elastic net.

    No such line is in two lines of the cache.  Numbers that no sum needs stay zero.
    """

    __slots__ = ()

    def stride(self, problem: Problem) -> int:
        numbers = super().stride(problem)
        in_lines = problem.width == 1 and type(problem.penalty) is ElasticNet
        return 1 << (numbers - 1).bit_length() if in_lines else numbers


def has_lines(method: Any) -> bool:
    """Return whether cells are lines, and kernels those of ``fobos_simd``."""
    return width(method.lanes) == 1 and type(method.penalty) is ElasticNet and not spare_fields(method.watch)


def shape_of_lines(method: Any) -> tuple[Any, Any]:
    """Return the numbers in a line, and the features in a block, of these kernels."""
    sums = n_sums(method.watch)
    return (TWO, FOUR, FOUR, EIGHT)[sums], widest_block() if sums == 3 else FOUR


class Learn:
    """The dispatcher of the kernels: ``learn_simd`` for one model with the elastic net, otherwise ``learn``."""

    def __call__(self, rows: Any, order: Any, schedule: Any, method: Any, state: Any) -> None:
        if has_lines(method):
            line, wide = shape_of_lines(method)
            learn_simd(rows, order, schedule, method, state, line, wide, *tail_scratch(wide, rows))
        else:
            learn(rows, order, schedule, method, state)

    def py_func(self, rows: Any, order: Any, schedule: Any, method: Any, state: Any) -> None:
        """Run the same code in plain Python, uncompiled."""
        with plain_python():
            self(rows, order, schedule, method, state)

    @property
    def cached(self) -> Any:
        """Return the compiled versions of ``learn_simd``."""
        return learn_simd.cached

    @property
    def uncached(self) -> Any:
        """Return the compiled versions of ``learn_simd`` with records of the user."""
        return learn_simd.uncached


def start(optimizer: Any, problem: Problem) -> tuple[State, Block]:
    """Return the initial state, with P = 1."""
    state, block = optimizer.layout.start(problem, optimizer.columns)
    block.table[0, COL_P] = 1.0
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

    layout = LineLayout(shared=1, lane=1, bias=1, clock=0)
    columns = COLUMNS
    uses_steps = True
    keeps_recent_features = True
    supported_penalties = ("absolute", "separable", "grouped", "groups")
    supports_float32 = True
    can_track_iterates = True
    starts_anywhere = True
    can_be_averaged = True
    can_forget_features = True
    forgets = True

    @property
    def learn(self):
        return Learn()

    def check(self, problem: Problem) -> None:
        """Raise for parameters or a problem that the optimizer does not support."""
        if self.l2_in not in ("prox", "gradient"):
            raise ValueError(f"FOBOS(l2_in={self.l2_in!r}): l2_in must be 'prox' or 'gradient'.")

    def resolve(self, problem: Problem, pilot: Any, rule: Any) -> Any:
        """Return the record in the form for the penalty."""
        return group_form(self, problem) if problem.penalty.form == "groups" else self

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

    def tracking_form(self, problem: Problem) -> Any:
        """Return the form of the optimizer that computes the Bregman difference of each step."""
        from .fobos_tracked import TrackedFOBOS
        from .mirror_descent import SweptDescent

        in_prox = self.l2_in == "prox" or problem.penalty.rho == 0.0
        is_swept = in_prox and not problem.penalty.is_absolute
        return SweptDescent(Euclidean()) if is_swept else TrackedFOBOS(self.l2_in)

    def weights(self, problem: Problem, state: State, block: Block, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the iterate after t examples."""
        return iterate(self.layout, problem, state, block, t)

    def weights_at(
        self, problem: Problem, state: State, block: Block, t: int, features: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the iterate at some features, by a compiled kernel; for many lanes."""
        out = np.empty(len(features) * problem.width)
        B, P = block.table[t - block.start, [COL_B, COL_P]]
        read(features, B, P, self.layout.stride(problem), problem.settling, state, out)
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
    method, steps = problem.settling, t - block.start
    if has_lines(method):
        line, wide = shape_of_lines(method)
        settle_simd(block.table, block.grid, steps, method, state, line, wide, np.empty(width(wide), np.uint32))
    else:
        settle(block.table, block.grid, steps, method, state)
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
    block.full = bool(table[first + n, COL_P] < limit)
    if problem.sums:
        update_grid(block, first + n)
    b_eta = eta if problem.intercept else 0.0 * eta
    by_row = b_eta[:n], tau[:n], fall[:n], omega[:n], block.pace
    return Schedule(*by_row, block.table, block.grid, first, block.noted, block.level)


@kernel
def fill(table, first, decay, eta, shrinkage, omega, in_prox, limit, tau, fall):
    """Fill the table's rows after ``first``, tau and fall; return how many, the last being where P passes the limit."""
    at, one = U(first), U(1)
    B, SP, SPB, P = table[at, COL_B], table[at, COL_SP], table[at, COL_SPB], table[at, COL_P]
    for k in range(eta.size):
        after = P * decay[k]
        SP += omega[k] * P
        SPB += omega[k] * P * B
        scale = P if in_prox else after
        tau[k], fall[k] = eta[k] / scale, shrinkage[k] / scale
        B += fall[k]
        P = after
        at += one
        table[at, COL_B], table[at, COL_SP], table[at, COL_SPB], table[at, COL_P] = B, SP, SPB, P
        if P < limit:
            return k + 1
    return eta.size


@kernel
def learn(rows, order, schedule, method, state):
    """Make FOBOS steps over the rows in ``order``, with exact running sums where the method watches them."""
    indptr, indices, data, targets, weights = rows
    loss, reg, lanes, watch, lams = method
    eta, tau, fall, omega, pace, table, grid, first, dead, level = schedule
    cell, bias, _ = state
    m, sums, one, eight = U(n_float64(lanes)), U(n_sums(watch)), U(1), U(8)
    stride = V + (one + sums + U(spare_fields(watch))) * m
    size = m + U(TOGETHER)  # at the end of ``level``: the dead, the shrinkage of each step, B at death with v's sign
    who, sink, deaths = U(level.size) - size, U(level.size) - size - size, U(level.size) - U(3) * size
    lam, b = load(lanes, lams, U(0)), load(lanes, bias, U(0))
    for k in range(order.size):
        ask_for_row(indptr, indices, data, order, k)
        i, r = U(order[k]), U(first + k)
        start, stop = U(indptr[i]), U(indptr[i + one])
        B, P = table[r, COL_B], table[r, COL_P]
        s, n = 0.0 * b, U(0)
        for p in range(start, stop):  # catch up, inner product; list the coordinates that died while idle
            j = U(indices[p])
            at = j * stride
            idle = lam * (feature_weight(reg, j) * (B - cell[at + LAST_B]))
            v = load(lanes, cell, at + V)
            if sums > 0:
                dead[n] = j
                n += U(any_lane((abs(v) <= idle * shrink_rate(reg, v)) & (v != 0.0)))
            v = prox(reg, v, idle)
            if sums > 0:
                store(lanes, level, (p - start) * m, v)
            s = s + v * data[p]
        if sums > 0:  # the iterates of the dead, summed up to the step at which each reached zero, eight at a time
            waiting, most = U(0), U(TOGETHER) - eight
            for h in range(n):
                at = U(dead[h]) * stride
                v, last = load(lanes, cell, at + V), cell[at + LAST_B]
                shrink = lam * feature_weight(reg, U(dead[h])) * shrink_rate(reg, v)
                died = (v != 0.0) & (abs(v) <= shrink * (B - last))
                death = abs(v) * (1.0 / maximum(shrink, _NONE)) + last
                compress_store(level, deaths + waiting, signed(death, v), died)
                compress_store(level, sink + waiting, shrink, died)
                compress_store(level, who + waiting, lane_indices(lanes) + float(at + V + m), died)
                waiting += count_lanes(died)
                if (waiting < most) & (h + one < n):
                    continue
                store(EIGHT, level, deaths + waiting, 0.5 * table[one, COL_B])  # pad with entries that add nothing
                store(EIGHT, level, sink + waiting, 0.0)
                store(EIGHT, level, who + waiting, 0.0)
                for q in range(U(0), waiting, eight):
                    x_signed, sinks = load(EIGHT, level, deaths + q), load(EIGHT, level, sink + q)
                    gone = signed(sinks * until_death(table, grid, float(r), abs(x_signed)), x_signed)
                    for f in range(eight):
                        cell[U(level[who + q + f])] += lane(gone, f)
                waiting = U(0)
        y, weight = load_row(lanes, targets, k), load_row(lanes, weights, k)
        margin = P * s + b
        g = weight * derivative(loss, margin, y)
        c, og, step = tau[k] * g, omega[k] * g, fall[k]
        B1, SP, SPB = table[r + one, COL_B], table[r + one, COL_SP], table[r + one, COL_SPB]
        before, after = B * SP - SPB, B1 * SP - SPB
        curve = 0.0 * b
        if sums > 2:
            curve = growth(pace, k) * (weight * curvature(loss, margin, y))
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
                cell[at + LAST_B] = B1
            else:
                v = load(lanes, cell, at + V)
                u = prox_step(reg, v, pen * (B - cell[at + LAST_B]), c * data[p])
                cell[at + LAST_B] = B  # the step's own prox is part of the next idle stretch
            store(lanes, cell, at + V, u)
            f = at + V + m  # the sums
            if sums > 0:
                sinking = signed(pen * before * shrink_rate(reg, v), v) - signed(pen * after * shrink_rate(reg, u), u)
                moved = (v - u) * SP + sinking
                store(lanes, cell, f, load(lanes, cell, f) + moved)
            add_gradient(watch, lanes, cell, f, og * data[p], curve * data[p] * data[p])
        add_intercept(watch, lanes, bias, m, omega[k] * b, og, curve)
        b = b - eta[k] * g
    store(lanes, bias, U(0), b)


@kernel
def read(features, B, P, stride, method, state, out):
    """Write the iterate at these features into ``out``: P S(v, lam pen (B - B at the last touch))."""
    _, reg, lanes, _, lams = method
    step, lam = U(stride), load(lanes, lams, U(0))
    for k in range(features.size):
        j = U(features[k])
        at = j * step
        idle = lam * (feature_weight(reg, j) * (B - state.cell[at + LAST_B]))
        store_float64(lanes, out, U(k) * U(width(lanes)), P * prox(reg, load(lanes, state.cell, at + V), idle))


@kernel
def settle(table, grid, steps, method, state):
    """Close the sums after so many steps for every coordinate and write v = w, B = 0 into its cell."""
    _, reg, lanes, watch, lams = method
    cell = state.cell
    m, sums, one = U(n_float64(lanes)), U(n_sums(watch)), U(1)
    stride, r = V + (one + sums + U(spare_fields(watch))) * m, U(steps)
    B, P, lam = table[r, COL_B], table[r, COL_P], load(lanes, lams, U(0))
    for j in range(U(cell.size) // stride):
        at, pen = j * stride, feature_weight(reg, j)
        now, last = load(lanes, cell, at + V), cell[at + LAST_B]
        if (sums > 0) & (r > 0) & any_lane(now != 0.0):  # as in ``learn``, and those that are alive
            shrink, f = lam * pen * shrink_rate(reg, now), at + V + m
            died = (now != 0.0) & (abs(now) <= shrink * (B - last))
            x = where(died, abs(now) * (1.0 / maximum(shrink, _NONE)) + last, 0.5 * table[one, COL_B])
            alive = (abs(now) + shrink * last) * table[r, COL_SP] - shrink * table[r, COL_SPB]
            total = where(died, shrink * until_death(table, grid, float(r), x), alive)
            store(lanes, cell, f, load(lanes, cell, f) + signed(maximum(total, 0.0), now))
        store(lanes, cell, at + V, P * prox(reg, now, lam * (pen * (B - last))))
        cell[at + LAST_B] = 0.0
