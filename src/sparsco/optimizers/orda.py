"""ORDA, optimal regularized dual averaging: Nesterov's extrapolation around RDA, O(nonzeros) per example.

With k examples learned, x is the answer and u is minus the sum of the gradients with weights (i + 1)/2.  Then

    z = S(u, lam pen W) / D,   y = (1 - theta) x + theta z,   c = derivative of the loss at y,
    u <- u - (k + 1)/2 c x_k,  x <- S(y - c x_k / C, lam pen / C) / (1 + rho / C),

with theta = 2/(k + 2), W = k (k + 1)/4, C = rho k (k + 2)/4 + Gamma, D = rho W + Gamma.  Without an L2 term Gamma grows
by c0 (k + 1)^(3/2); so it does for the intercept, a coordinate without penalty.

The lazy form.  Pi is the product of all factors (1 - theta) C / (C + rho).  z *dies* when lam pen W reaches |u| and z
becomes zero; until then it *lives*.  While a coordinate is idle, keeps its sign and z does not die, with s the sign
of x,

    x = Pi (A - s lam pen L + u E - sgn(u) lam pen F),

with E, F, L prefix sums that depend on time alone.  theta z C falls while z lives.  Hence an x with the sign of z
(s = sgn u) rises over Pi, then falls, and once at zero stays there: no search is needed.  An x = 0 leaves at once or
never.  An x with the other sign crosses zero at most once, at a step found by bisection.

A cell holds the clock of the last touch, and u, A and the ``mode``: 0 where x is zero and stays so, else the sign of x,
doubled where z lives.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..data.rows import ask_for_row
from ..jit.dispatch import U, kernel
from ..jit.lanes import any_lane, copysign, load, load_row, minimum, prefetch, store, where, width
from ..losses import curvature, derivative
from ..parts.contracts import Optimizer, part
from ..penalties import feature_weight, prox
from ..problem.state import Block, Layout, Problem, State, n_sums
from .orda_idle import DAMP, PE, PF, PI, PL, RATE, SCALE, THETA, ZW, E, F, L, P, W, Z, level_of, lifted, mode_of, walk
from .running_sums import add_gradient, add_intercept

LAST_CLOCK, LANES = U(0), U(1)
"""The numbers of a cell: the clock after the last touch, then the fields by lane."""
LEVEL, MODE, SUMS = U(1), U(2), U(3)
"""The fields by lane after u, in units of a value: A, the mode, and the sums."""
_SHORTEST, _LONGEST = 64, 1 << 18
"""The number of rows in the first block, and the limit for later ones, which are as long as all before them.

All cells are settled at the end of a block: over longer blocks E and F would grow beyond x / Pi, and digits would be
lost.
"""


class Schedule(NamedTuple):
    """The arguments of the kernel for the next steps.

    Per row: its weight in the average, the intercept's 1/C and the weight of its gradient.  Per step since the last
    settling, and one more: ``table``.  ``first`` is its row of the first step, ``origin`` the clock of its first row;
    ``slow`` and ``point`` are scratch.
    """

    omega: np.ndarray
    bias_rate: np.ndarray
    gain: np.ndarray
    table: np.ndarray
    first: int
    origin: int
    slow: np.ndarray
    point: np.ndarray


@part(
    Optimizer,
    gamma="the divisor, above what single examples do to the gradient; None: from the first rows",
    c0="the divisor's growth without strong convexity; None: from the first rows",
    split="whether half of the L2 term is in the gradient, at O(features) per example",
)
class ORDA(NamedTuple):
    """ORDA, optimal regularized dual averaging.

    Parameters
    ----------
    gamma : float or None
        Gamma.  It must exceed the effect of single examples, not of their mean, on the gradient.  None:
        ``L_mean^2 / lam_max``, both from the pilot rows.
    c0 : float or None
        The growth of Gamma without strong convexity.  None: ``L_mean / 40``; with an L2 term, where only the intercept
        needs it, ``L_mean / 10``.
    split : bool
        Whether half of the L2 term is in the gradient, as in the papers' tables; such a step costs O(d).
    """

    gamma: float | None = None
    c0: float | None = None
    split: bool = False

    layout = Layout(shared=1, lane=3, bias=2, clock=0)
    uses_steps = False
    needs_curvature = True

    @property
    def learn(self):
        return learn

    def check(self, problem: Problem) -> None:
        """Raise for parameters or a problem that the optimizer does not support."""
        check_constants(self)

    def resolve(self, problem: Problem, pilot: Any, rule: Any = None) -> ORDA | SplitORDA:
        """Return the record with its constants filled in from the pilot rows."""
        kind = SplitORDA if self.split and problem.penalty.rho > 0.0 else ORDA
        return kind(*constants(self, problem, pilot, 40.0))

    def start(self, problem: Problem) -> tuple[State, Block]:
        block = Block(ZW + 1)
        self._restart(problem, block, 0)
        return self.layout.new_state(problem), block

    def schedule(
        self, problem: Problem, state: State, block: Block, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> Schedule:
        """Return the arrays for the next ``len(omega)`` steps, or for fewer before a settling; ``eta`` is unused."""
        first = t - block.start
        length = min(max(_SHORTEST, block.start), _LONGEST)
        n = min(len(omega), length - first)
        rows = block.reserve(first + n + 1)[first : first + n + 1]
        _tell_time(rows, t, float(problem.penalty.rho), self.gamma, self.c0)
        _accumulate(rows, omega[:n], problem.sums > 0)
        block.full = first + n == length
        bias_rate, gain = bias_schedule(self, problem, t, n)
        return Schedule(omega[:n], bias_rate, gain, block.table, first, block.start, block.noted, block.level)

    def settle(self, problem: Problem, state: State, block: Block, t: int) -> None:
        """Bring every coordinate and its sums up to date, and start a new block."""
        settle(block.table, t - block.start, block.start, problem.settling, state)
        self._restart(problem, block, t)

    def weights(self, problem: Problem, state: State, block: Block, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return x after t examples."""
        x = np.zeros((problem.d, problem.width))
        read(block.table, t - block.start, block.start, problem.settling, state, x)
        return x[:, : problem.m], state.bias[: problem.m].copy()

    def _restart(self, problem: Problem, block: Block, t: int) -> None:
        """Start a new block from clock t: Pi = 1, every sum 0."""
        block.table[0] = 0.0
        block.table[0, PI] = 1.0
        _tell_time(block.table[:1], t, float(problem.penalty.rho), self.gamma, self.c0)
        block.start, block.full = t, False


# ---- constants and time ----------------------------------------------------------------------------------------------


def check_constants(optimizer: Any) -> None:
    """Raise unless gamma and c0, where given, are numbers above 0."""
    for name, number in (("gamma", optimizer.gamma), ("c0", optimizer.c0)):
        if number is not None and not 0.0 < number < math.inf:
            raise ValueError(f"{type(optimizer).__name__}({name}={number!r}): {name} must be a finite number above 0.")


def constants(optimizer: Any, problem: Problem, pilot: Any, share: float) -> tuple[float, float]:
    """Return gamma and c0, from the pilot where None: c0 = L_mean / share, or four times that for the intercept."""
    gamma = pilot.L_mean**2 / pilot.lam_max
    c0 = pilot.L_mean / share * (4.0 if problem.penalty.rho > 0.0 else 1.0)
    return float(optimizer.gamma or gamma), float(optimizer.c0 or c0)


def growing(clock: Any, gamma: float, c0: float) -> Any:
    """Return Gamma where there is no strong convexity."""
    return c0 * (clock + 1.0) ** 1.5 + gamma


def bias_schedule(optimizer: Any, problem: Problem, t: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the intercept's 1/Gamma (0 without an intercept) and the weights of the next gradients in u."""
    clock = np.arange(t, t + n, dtype=np.float64)
    return problem.intercept / growing(clock, optimizer.gamma, optimizer.c0), 0.5 * (clock + 1.0)


def _tell_time(rows: np.ndarray, t: int, rho: float, gamma: float, c0: float) -> None:
    """Write the columns that depend on the clock alone."""
    k = np.arange(t, t + len(rows), dtype=np.float64)
    gamma_k = gamma if rho > 0.0 else growing(k, gamma, c0)
    rows[:, W], rows[:, THETA] = 0.25 * k * (k + 1.0), 2.0 / (k + 2.0)
    C = 0.25 * rho * k * (k + 2.0) + gamma_k
    rows[:, RATE], rows[:, SCALE], rows[:, DAMP] = 1.0 / C, 1.0 / (rho * rows[:, W] + gamma_k), C / (C + rho)


def _accumulate(rows: np.ndarray, omega: np.ndarray, sums: bool) -> None:
    """Continue the products and prefix sums from the first row to the others."""
    now, theta = rows[:-1], rows[:-1, THETA]
    some = theta < 1.0  # at the very first step x = z = 0: Pi does not change
    left = np.where(some, 1.0 - theta, 1.0)
    rows[:, PI] = np.multiply.accumulate(np.append(rows[0, PI], np.where(some, left * now[:, DAMP], 1.0)))
    share = some / (left * now[:, PI])
    pull = share * theta * now[:, SCALE]
    _add_up(rows, {E: pull, F: pull * now[:, W], L: share * now[:, RATE]})
    if sums:
        weight, reach = omega * (1.0 - theta) * now[:, PI], omega * some * theta * now[:, SCALE]
        _add_up(rows, {P: weight, PE: weight * now[:, E], PF: weight * now[:, F], PL: weight * now[:, L]})
        _add_up(rows, {Z: reach, ZW: reach * now[:, W]})


def _add_up(rows: np.ndarray, parts: dict[int, np.ndarray]) -> None:
    for column, added in parts.items():
        rows[:, column] = np.add.accumulate(np.append(rows[0, column], added))


# ---- a coordinate while idle -----------------------------------------------------------------------------------------


@kernel
def learn(rows, order, schedule, method, state):
    """Make ORDA steps over the rows in ``order``, with exact running sums of y where the method watches them."""
    indptr, indices, data, targets, weights = rows
    loss, reg, lanes, watch, lams = method
    omega, bias_rate, gain, table, first, origin, slow, point = schedule
    cell, bias, _ = state
    m, sums, one = U(width(lanes)), U(n_sums(watch)), U(1)
    stride, clock = LANES + (SUMS + sums) * m, float(origin)
    lam, x_b, u_b = load(lanes, lams, U(0)), load(lanes, bias, U(0)), load(lanes, bias, m)
    for k in range(order.size):
        ask_for_row(indptr, indices, data, order, k)
        i, r = U(order[k]), U(first + k)
        begin, stop = U(indptr[i]), U(indptr[i + one])
        theta, scale = table[r, THETA], table[r, SCALE]
        weight_sum, sunk, rise, rate, damp = table[r, W], table[r, L], table[r, PI], table[r, RATE], table[r, DAMP]
        up, down = table[r, E], table[r, F]
        coming, n = U(indptr[order[minimum(k + 1, order.size - 1)]]) - begin, U(0)
        for p in range(begin, stop):  # catch up; list the coordinates that left their mode, or all where there are sums
            j = U(indices[p])
            at, shrink = j * stride, lam * feature_weight(reg, j)
            f = at + LANES
            u, A, mode = load(lanes, cell, f), load(lanes, cell, f + LEVEL * m), load(lanes, cell, f + MODE * m)
            z = prox(reg, u, shrink * weight_sum)
            h = A - copysign(shrink * sunk, mode)
            h = h + where(abs(mode) > 1.0, lifted(up, down, u, shrink), 0.0)
            left = (abs(mode) > 1.0) & ((z == 0.0) | ((mode * u < 0.0) & (h * mode <= 0.0)))
            slow[n] = p - begin
            n += U(any_lane(left)) if sums == 0 else one
            x = where(h * mode > 0.0, h * rise, 0.0)
            store(lanes, point, (p - begin) * m, (1.0 - theta) * x + z * (theta * scale))
        for o in range(n):
            at = U(slow[o])
            j, f = U(indices[begin + at]), at * m
            at = j * stride
            for q in range(m):
                c = at + LANES + q
                u, shrink = cell[c], lams[q] * feature_weight(reg, j)
                s = U(max(cell[at + LAST_CLOCK] - clock, 0.0))
                x, total = walk(table, s, r, clock, u, cell[c + LEVEL * m], cell[c + MODE * m], shrink, sums)
                y = (1.0 - theta) * x + prox(reg, u, shrink * table[r, W]) * (theta * scale)
                point[f + q] = y
                if sums > 0:
                    cell[c + SUMS * m] += total + omega[k] * y
        b = (1.0 - theta) * x_b + u_b * (theta * bias_rate[k])
        margin = b
        for p in range(begin, stop):
            margin = margin + load(lanes, point, (p - begin) * m) * data[p]
        y, weight = load_row(lanes, targets, k), load_row(lanes, weights, k)
        c = weight * derivative(loss, margin, y)
        oc, step, pull, curve = omega[k] * c, c * rate, c * gain[k], 0.0 * c
        if sums > 2:
            curve = weight * curvature(loss, margin, y)
        f = r + one
        next_sum, lead, next_rate = table[f, W], table[f, SCALE] * table[f, THETA], table[f, RATE]
        over_pi, next_sunk, next_up, next_down = 1.0 / table[f, PI], table[f, L], table[f, E], table[f, F]
        for p in range(begin, stop):  # step, running sums
            j = U(indices[p])
            prefetch(cell, U(indices[minimum(p + coming, U(indices.size) - one)]) * stride)
            at, shrink = j * stride, lam * feature_weight(reg, j)
            g = at + LANES
            u = load(lanes, cell, g) - pull * data[p]
            x = load(lanes, point, (p - begin) * m) - step * data[p]
            x = prox(reg, x, shrink * rate) * damp
            mode = mode_of(next_sum, lead, next_rate, u, x, shrink)
            cell[at + LAST_CLOCK] = clock + float(f)
            store(lanes, cell, g, u)
            store(lanes, cell, g + LEVEL * m, level_of(over_pi, next_sunk, next_up, next_down, u, x, mode, shrink))
            store(lanes, cell, g + MODE * m, mode)
            add_gradient(watch, lanes, cell, g + SUMS * m, oc * data[p], curve * data[p] * data[p])
        add_intercept(watch, lanes, bias, m + m, omega[k] * b, oc, curve)
        x_b, u_b = b - c * bias_rate[k], u_b - pull
    store(lanes, bias, U(0), x_b)
    store(lanes, bias, m, u_b)


@kernel
def read(table, steps, origin, method, state, out):
    """Write x of every coordinate after so many steps of the block into ``out``."""
    _, reg, lanes, watch, lams = method
    cell = state.cell
    m, sums = U(width(lanes)), U(n_sums(watch))
    stride, r, clock = LANES + (SUMS + sums) * m, U(steps), float(origin)
    for j in range(U(cell.size) // stride):
        at, pen = j * stride, feature_weight(reg, j)
        s = U(max(cell[at + LAST_CLOCK] - clock, 0.0))
        for q in range(m):
            c = at + LANES + q
            out[j, q], _ = walk(
                table, s, r, clock, cell[c], cell[c + LEVEL * m], cell[c + MODE * m], lams[q] * pen, U(0)
            )


@kernel
def settle(table, steps, origin, method, state):
    """Close the sums after so many steps and rewrite every cell for a block that starts here."""
    _, reg, lanes, watch, lams = method
    cell = state.cell
    m, sums = U(width(lanes)), U(n_sums(watch))
    stride, r, clock = LANES + (SUMS + sums) * m, U(steps), float(origin)
    weight_sum, lead, rate = table[r, W], table[r, SCALE] * table[r, THETA], table[r, RATE]
    for j in range(U(cell.size) // stride):
        at, pen = j * stride, feature_weight(reg, j)
        s = U(max(cell[at + LAST_CLOCK] - clock, 0.0))
        for q in range(m):
            c, shrink = at + LANES + q, lams[q] * pen
            if (cell[c] != 0.0) | (cell[c + MODE * m] != 0.0):  # else it has never moved
                x, total = walk(table, s, r, clock, cell[c], cell[c + LEVEL * m], cell[c + MODE * m], shrink, sums)
                if sums > 0:
                    cell[c + SUMS * m] += total
                cell[c + LEVEL * m], cell[c + MODE * m] = x, mode_of(weight_sum, lead, rate, cell[c], x, shrink)
        cell[at + LAST_CLOCK] = clock + float(r)


# ---- half of the L2 term in the gradient, O(d) per example -----------------------------------------------------------


class DenseSchedule(NamedTuple):
    """The arguments of the kernel for the next steps.

    Per row: its weight in the average, the intercept's 1/C, the weight of its gradient and, with one more row, the
    ``table`` of the numbers that depend on time alone.  ``rho`` is the part of the L2 term that is in the gradient.
    """

    omega: np.ndarray
    bias_rate: np.ndarray
    gain: np.ndarray
    table: np.ndarray
    rho: float


@part(Optimizer)
class SplitORDA(NamedTuple):
    """ORDA with half of the L2 term in the gradient, c x + rho/2 y, and modulus rho/2: every coordinate moves."""

    gamma: float
    c0: float

    layout = Layout(shared=0, lane=2, bias=2, clock=0)
    uses_steps = False
    is_dense = True

    @property
    def learn(self):
        return learn_split

    def schedule(
        self, problem: Problem, state: State, block: Block, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> DenseSchedule:
        """Return the arrays for the next ``len(omega)`` steps; ``eta`` is not used."""
        rho, table = 0.5 * float(problem.penalty.rho), np.zeros((len(omega) + 1, DAMP + 1))
        _tell_time(table, t, rho, self.gamma, self.c0)
        return DenseSchedule(omega, *bias_schedule(self, problem, t, len(omega)), table, rho)


SPLIT_U, SPLIT_SUMS = U(1), U(2)
"""The fields of a cell after x: u, and the sums."""


@kernel
def learn_split(rows, order, schedule, method, state):
    """Make ORDA steps over the rows in ``order``, each a sweep over all coordinates; a cell is x (y temporarily), u."""
    indptr, indices, data, targets, weights = rows
    loss, reg, lanes, watch, lams = method
    omega, bias_rate, gain, table, rho = schedule
    cell, bias, _ = state
    m, sums, one = U(width(lanes)), U(n_sums(watch)), U(1)
    stride = (SPLIT_SUMS + sums) * m
    d = U(cell.size) // stride
    lam, x_b, u_b = load(lanes, lams, U(0)), load(lanes, bias, U(0)), load(lanes, bias, m)
    for k in range(order.size):
        ask_for_row(indptr, indices, data, order, k)
        i, r = U(order[k]), U(k)
        begin, stop = U(indptr[i]), U(indptr[i + one])
        theta, rate = table[r, THETA], table[r, RATE]
        for j in range(d):
            at = j * stride
            z = (
                prox(reg, load(lanes, cell, at + SPLIT_U * m), lam * (feature_weight(reg, j) * table[r, W]))
                * table[r, SCALE]
            )
            y = (1.0 - theta) * load(lanes, cell, at) + theta * z
            store(lanes, cell, at, y)
            if sums > 0:
                store(lanes, cell, at + SPLIT_SUMS * m, load(lanes, cell, at + SPLIT_SUMS * m) + omega[k] * y)
        b = (1.0 - theta) * x_b + u_b * (theta * bias_rate[k])
        margin = b
        for p in range(begin, stop):
            margin = margin + load(lanes, cell, U(indices[p]) * stride) * data[p]
        y, weight = load_row(lanes, targets, k), load_row(lanes, weights, k)
        c = weight * derivative(loss, margin, y)
        oc, curve = omega[k] * c, 0.0 * c
        if sums > 2:
            curve = weight * curvature(loss, margin, y)
        for p in range(begin, stop):  # the loss's part of the gradient: into u, and into x by way of y
            at = U(indices[p]) * stride
            store(lanes, cell, at + SPLIT_U * m, load(lanes, cell, at + SPLIT_U * m) - c * gain[k] * data[p])
            add_gradient(watch, lanes, cell, at + SPLIT_SUMS * m, oc * data[p], curve * data[p] * data[p])
        for j in range(d):
            at = j * stride
            y = load(lanes, cell, at)
            store(lanes, cell, at + SPLIT_U * m, load(lanes, cell, at + SPLIT_U * m) - y * (rho * gain[k]))
            store(lanes, cell, at, y - y * (rho * rate))
        for p in range(begin, stop):
            at = U(indices[p]) * stride
            store(lanes, cell, at, load(lanes, cell, at) - c * rate * data[p])
        for j in range(d):
            at = j * stride
            x = prox(reg, load(lanes, cell, at), lam * (feature_weight(reg, j) * rate)) * table[r, DAMP]
            store(lanes, cell, at, x)
        add_intercept(watch, lanes, bias, m + m, omega[k] * b, oc, curve)
        x_b, u_b = b - c * bias_rate[k], u_b - c * gain[k]
    store(lanes, bias, U(0), x_b)
    store(lanes, bias, m, u_b)
