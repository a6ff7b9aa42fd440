"""RDA, regularized dual averaging: w = q S(z, pen tau), z minus the sum of all gradients, O(nonzeros) per example.

After t examples tau = lam t + e sqrt(t) and q = 1 / (rho t + beta), or 1 / (gamma sqrt(t)) where rho = 0.  Both depend
on time alone, so the weight needs no catching up; only sums of iterates do.  An idle coordinate is alive while
|z| > pen tau and then dead until the next touch.  Its iterates over the block's first k steps add up to

    F_k(z) = z Q_k - sgn(z) pen (lam R_k + e E_k),

with Q, R, E the prefix sums of omega q, omega q t, omega q sqrt(t).  By Abel summation a touch that moves z to u adds
F(z) - F(u), each only if alive.  A coordinate that died while idle adds F at the step of its death, in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..data.rows import ask_for_row
from ..jit.dispatch import U, inlined, kernel
from ..jit.lanes import any_lane, lane, load, load_row, maximum, minimum, prefetch, store, where, width
from ..losses import curvature, derivative
from ..parts.contracts import Optimizer, part
from ..penalties import feature_weight, prox, shrink_rate
from ..problem.bounds import Bounded
from ..problem.fading import Fading, aimed, elapsed, fades, first_at, growth, root
from ..problem.state import Block, Layout, Problem, State, n_sums
from .running_sums import add_gradient, add_intercept

COL_Q, COL_R, COL_E, COL_T, COL_ROOT = range(5)
"""The columns of the table; the last two where old examples fade: the clock and its root."""


class Schedule(NamedTuple):
    """The arguments of the kernel for the next steps.

    Per row: the factors q of the weights and of the intercept, its weight in the average, its pace.  Per step since
    the last settling, and one more: ``table`` with columns Q, R, E.  ``start`` is the clock at the table's first row,
    ``first`` the table's row of the first step, ``e`` the growth of the threshold with sqrt(t); ``dead`` is scratch.
    """

    q: np.ndarray
    bias_q: np.ndarray
    omega: np.ndarray
    pace: Any
    table: np.ndarray
    start: int
    first: int
    e: float
    dead: np.ndarray


class _Layout(Layout):
    """The layout of RDA: where iterates are summed, a cell ends with the threshold at its last touch, one per lane.

    Without sums RDA reads and writes only z.  No view includes the threshold; zero is a valid value after a settling,
    and with z = 0.
    """

    def stride(self, problem: Problem) -> int:
        return super().stride(problem) + problem.width * (problem.sums > 0)

    def cells_of(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray]:
        fields = self.lane + problem.sums
        cell = state.cell.reshape(problem.d, self.stride(problem))[:, : fields * problem.width]
        return cell[:, :0], cell.reshape(problem.d, fields, problem.width)

    def bounds(self, problem: Problem, state: State, block: Block, t: int) -> Iterator[Bounded]:
        if problem.sums:
            yield Bounded("the last thresholds", state.cell.reshape(problem.d, -1)[:, -problem.width :])

    def relaid(self, old: Problem, state: State, new: Problem, fresh: State) -> State:
        fresh = super().relaid(old, state, new, fresh)
        if old.sums:
            last, to_last = (s.cell.reshape(p.d, -1)[:, -p.width :] for p, s in ((old, state), (new, fresh)))
            to_last[:, : old.m] = last[:, : old.m]
        return fresh


@part(
    Optimizer,
    beta="the first divisor where rho > 0; None: from the first rows",
    gamma="the growth of the divisor where rho = 0; None: from the first rows",
    r="adds gamma r sqrt(t) to the threshold where rho = 0",
    bias_gamma="the intercept's own gamma; None: the same",
)
class RDA(NamedTuple):
    """RDA, regularized dual averaging (Xiao 2010).

    Parameters
    ----------
    beta : float or None
        The first divisor where rho > 0.  None: ``L_mean``.
    gamma : float or None
        The factor of sqrt(t) where rho = 0.  None: ``L_mean / 10`` (squared loss: ``L_mean / 3``).
    r : float
        Xiao's sparsity-enhancing parameter, which adds ``gamma r sqrt(t)`` to the threshold when rho = 0.
    bias_gamma : float or None
        The intercept's own gamma.  None: the default of ``gamma``.
    """

    beta: float | None = None
    gamma: float | None = None
    r: float = 0.0
    bias_gamma: float | None = None

    layout = _Layout(shared=0, lane=1, bias=1, clock=0)
    columns = 3
    uses_steps = False
    supported_penalties = ("absolute", "separable", "grouped", "groups")
    can_be_averaged = True
    can_forget_features = True
    can_be_rounded = True
    forgets, fading_columns = True, 2

    @property
    def learn(self):
        return learn

    def check(self, problem: Problem) -> None:
        """Raise for parameters or a problem that the optimizer does not support."""
        if self.beta is not None and not 0.0 <= self.beta < math.inf:
            raise ValueError(f"RDA(beta={self.beta!r}): beta must be a finite number, 0 or larger.")
        for name, number in (("gamma", self.gamma), ("bias_gamma", self.bias_gamma)):
            if number is not None and not 0.0 < number < math.inf:
                raise ValueError(f"RDA({name}={number!r}): {name} must be a finite number above 0.")
        if not 0.0 <= self.r < math.inf:
            raise ValueError(f"RDA(r={self.r!r}): r must be a finite number, 0 or larger.")
        if self.r > 0.0 and problem.penalty.rho > 0.0:
            raise ValueError(f"RDA(r={self.r!r}): r needs a problem without L2 term; choose r=0 or l1_ratio=1.")

    def resolve(self, problem: Problem, pilot: Any, rule: Any = None) -> Any:
        """Return the record with its constants filled in from the pilot rows, in the form for the penalty."""
        from .rda_groups import group_form

        gamma = pilot.L_mean / (10.0 if problem.loss.classifies else 3.0)  # squared loss diverges early with a tenth
        filled = RDA(
            pilot.L_mean if self.beta is None else self.beta,
            gamma if self.gamma is None else self.gamma,
            self.r,
            gamma if self.bias_gamma is None else self.bias_gamma,
        )
        return group_form(filled, problem) if problem.penalty.form == "groups" else filled

    def schedule(
        self, problem: Problem, state: State, block: Block, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> Schedule:
        """Return the arrays for the next ``len(omega)`` steps; ``eta`` is not used."""
        if not problem.sums:
            block.start = t
        clock, unit, pace = np.arange(t, t + len(omega), dtype=np.float64), np.ones(len(omega)), block.pace
        if isinstance(pace, Fading):
            clock, unit = pace.clock[: len(omega)], pace.units[: len(omega)]
        root = np.sqrt(clock * unit)
        q, bias_q = inverse(self.divisor(problem, clock, unit)), inverse(self.bias_gamma * root * problem.intercept)
        first = t - block.start
        if problem.sums:
            rows = block.reserve(first + len(omega) + 1)[first : first + len(omega) + 1]
            for column, weight in enumerate((1.0, clock, root)):
                rows[:, column] = np.add.accumulate(np.append(rows[0, column], omega * q * weight))
            if isinstance(pace, Fading):
                rows[:, COL_T], rows[:, COL_ROOT] = pace.clock, np.sqrt(pace.clock * pace.units)
                block.pace = pace = aimed(pace, block.table)
        return Schedule(q, bias_q, omega, pace, block.table, block.start, first, self.growth(problem), block.noted)

    def settle(self, problem: Problem, state: State, block: Block, t: int) -> None:
        """Close the sums of every coordinate, and start a new block."""
        if problem.sums:
            clock, unit = block.clock_at(t), block.unit_at(t)
            root = math.sqrt(clock * unit)
            at, e = (t - block.start, clock, root), self.growth(problem)
            settle(block.table, block.start, *at, e, block.pace, problem.settling, state)
        block.table[0] = 0.0
        block.start = t

    def weights(self, problem: Problem, state: State, block: Block, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the iterate after t examples."""
        _, lanes, bias = self.layout.views(problem, state)
        method, clock, unit = problem.method, np.array([block.clock_at(t)]), np.array([block.unit_at(t)])
        pen, root = problem.penalty.feature_weights(problem.d)[:, None], np.sqrt(clock * unit)
        w = prox(method.penalty, lanes[:, 0], threshold(method.lams, self.growth(problem), clock[0], root[0]) * pen)
        b = bias[0] * inverse(self.bias_gamma * root * problem.intercept)
        return (w * inverse(self.divisor(problem, clock, unit)))[:, : problem.m], b[: problem.m]

    def renew(self, problem: Problem, state: State, factor: float) -> None:
        """Multiply all sums by a factor: z, the thresholds at the last touch, and what is watched."""
        state.cell[:] *= factor
        state.bias[:] *= factor

    def divisor(self, problem: Problem, clock: np.ndarray, unit: np.ndarray) -> np.ndarray:
        """Return 1 / q at these clocks and units; the units are 1 where nothing fades."""
        rho = float(problem.penalty.rho)
        return (rho * clock + self.beta * unit) * (clock > 0.0) if rho > 0.0 else self.gamma * np.sqrt(clock * unit)

    def growth(self, problem: Problem) -> float:
        """Return e, the growth of the threshold with sqrt(t)."""
        return 0.0 if problem.penalty.rho > 0.0 else float(self.gamma * self.r)


def inverse(divisor: np.ndarray) -> np.ndarray:
    """Return 1 / divisor, and 0 where the divisor is 0: before the first example, w = 0."""
    return np.divide(1.0, divisor, out=np.zeros_like(divisor), where=divisor > 0.0)


@inlined
def threshold(lam, e, t, root):
    """Return tau at clock t, with the root of the number of examples."""
    return lam * t + e * root


@inlined
def _death(size, lam, e, pen, t):
    """Return the first of the steps up to t at which pen tau >= size.

    It solves tau = lam s + e sqrt(s) for s, and corrects the rounding by the same comparison that the kernel makes.
    """
    level = size / pen
    root = 2.0 * level / (e + math.sqrt(e * e + 4.0 * lam * level))
    s = minimum(math.ceil(root * root), t)
    earlier = maximum(s - 1.0, 0.0)
    if (s > 0.0) & (size <= threshold(lam, e, earlier, math.sqrt(earlier)) * pen):
        s = s - 1.0
    if size > threshold(lam, e, s, math.sqrt(s)) * pen:
        s = s + 1.0
    return s


@inlined
def _row_of_death(pace, table, size, lam, e, pen, origin, t, r):
    """Return the first row of the table, at most r, at which pen tau >= size."""
    if fades(pace) == 0:
        return U(maximum(_death(size, lam, e, pen, t) - origin, 0.0))
    if e == 0.0:
        return U(first_at(pace, table, size / (lam * pen), 0.0, float(r)))
    low, high = U(0), U(r)
    while low < high:
        middle = (low + high) >> U(1)
        if threshold(lam, e, table[middle, COL_T], table[middle, COL_ROOT]) * pen >= size:
            high = middle
        else:
            low = middle + U(1)
    return low


@inlined
def _prefix(z, tau, Q, R):
    """Return F(z) if |z| > tau, else 0."""
    return where(z > tau, z * Q - R, where(z < -tau, z * Q + R, 0.0))


@kernel
def learn(rows, order, schedule, method, state):
    """Make RDA steps over the rows in ``order``, with exact running sums where the method watches them."""
    indptr, indices, data, targets, weights = rows
    loss, reg, lanes, watch, lams = method
    qs, bias_qs, omega, pace, table, origin, first, e, dead = schedule
    cell, bias, _ = state
    m, sums, one = U(width(lanes)), U(n_sums(watch)), U(1)
    last = (one + sums) * m  # a cell is z, the sums, and the threshold at the last touch
    stride = last + m if sums > 0 else m
    lam, z_b = load(lanes, lams, U(0)), load(lanes, bias, U(0))
    for k in range(order.size):
        ask_for_row(indptr, indices, data, order, k)
        i, r, t = U(order[k]), U(first + k), elapsed(pace, k, 1.0 * (origin + first + k))
        start, stop = U(indptr[i]), U(indptr[i + one])
        coming = U(indptr[order[minimum(k + 1, order.size - 1)]]) - start
        a, t_root = growth(pace, k), root(pace, k, t)
        tau = threshold(lam, e, t, t_root)
        s, n = 0.0 * z_b, U(0)
        for p in range(start, stop):  # inner product; list the coordinates that died while idle
            j = U(indices[p])
            at, pen = j * stride, feature_weight(reg, j)
            z = load(lanes, cell, at)
            if sums > 0:
                dead[n] = j
                speed = shrink_rate(reg, z)
                n += U(any_lane((abs(z) <= tau * pen * speed) & (abs(z) > load(lanes, cell, at + last) * speed)))
            s = s + prox(reg, z, tau * pen) * data[p]
        for h in range(n):  # the iterates of the dead, summed up to the step at which each reached zero
            at = U(dead[h]) * stride
            speed, weight_of = shrink_rate(reg, load(lanes, cell, at)), feature_weight(reg, U(dead[h]))
            for q in range(m):
                size, pen = abs(cell[at + q]), weight_of * lane(speed, q)
                if (size <= threshold(lams[q], e, t, t_root) * pen) & (size > cell[at + last + q] * lane(speed, q)):
                    f = _row_of_death(pace, table, size, lams[q], e, pen, origin, t, r)
                    total = size * table[f, COL_Q] - (lams[q] * table[f, COL_R] + e * table[f, COL_E]) * pen
                    cell[at + m + q] += math.copysign(total, cell[at + q])
        y, weight, b = load_row(lanes, targets, k), load_row(lanes, weights, k), bias_qs[k] * z_b
        margin = qs[k] * s + b
        c = weight * derivative(loss, margin, y)
        oc, curve = omega[k] * c, 0.0 * c
        if sums > 2:
            curve = a * (weight * curvature(loss, margin, y))
        Q, R, next_tau = 0.0, 0.0 * lam, tau
        if sums > 0:
            Q, R = table[r + one, COL_Q], lam * table[r + one, COL_R] + e * table[r + one, COL_E]
            next_t = elapsed(pace, k + 1, t + 1.0)
            next_tau = threshold(lam, e, next_t, root(pace, k + 1, next_t))
        step = a * c
        for p in range(start, stop):  # step, running sums
            j = U(indices[p])
            at, pen = j * stride, feature_weight(reg, j)
            z = load(lanes, cell, at)
            u = z - step * data[p]
            store(lanes, cell, at, u)
            if sums > 0:  # the cells are larger then: prefetch the next row's
                prefetch(cell, U(indices[minimum(p + coming, U(indices.size) - one)]) * stride)
                f = at + m
                before, after = pen * shrink_rate(reg, z), pen * shrink_rate(reg, u)
                moved = _prefix(z, tau * before, Q, R * before) - _prefix(u, next_tau * after, Q, R * after)
                store(lanes, cell, f, load(lanes, cell, f) + moved)
                store(lanes, cell, at + last, next_tau * pen)
            add_gradient(watch, lanes, cell, at + m, oc * data[p], curve * data[p] * data[p])
        add_intercept(watch, lanes, bias, m, omega[k] * b, oc, curve)
        z_b = z_b - step
    store(lanes, bias, U(0), z_b)


@kernel
def settle(table, origin, steps, t, t_root, e, pace, method, state):
    """Close the sums after so many steps, at clock t, for every coordinate; z itself needs no settling."""
    _, reg, lanes, watch, lams = method
    cell = state.cell
    m, sums, one = U(width(lanes)), U(n_sums(watch)), U(1)
    last = (one + sums) * m
    stride = last + m
    for j in range(U(cell.size) // stride):
        at = j * stride
        speed, weight_of = shrink_rate(reg, load(lanes, cell, at)), feature_weight(reg, j)
        for q in range(m):
            size, pen = abs(cell[at + q]), weight_of * lane(speed, q)
            if size > cell[at + last + q] * lane(speed, q):
                f = U(steps)
                if size <= threshold(lams[q], e, t, t_root) * pen:
                    f = _row_of_death(pace, table, size, lams[q], e, pen, origin, t, f)
                total = size * table[f, COL_Q] - (lams[q] * table[f, COL_R] + e * table[f, COL_E]) * pen
                cell[at + m + q] += math.copysign(total, cell[at + q])
            cell[at + last + q] = threshold(lams[q], e, t, t_root) * weight_of
