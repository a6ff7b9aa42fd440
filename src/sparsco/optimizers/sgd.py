"""SGD on subgradients of the whole objective: w <- w - eta (c x + rho w + lam pen sgn(w)).

Three forms, chosen by ``SGD.resolve``.  Without L1 term SGD is FOBOS with the L2 term in the gradient.  With steps
eta = 1 / (rho (t + t0)) exactly it is lazy: ``HarmonicSGD``.  Otherwise no closed form for idle coordinates is known
and every example costs O(d): ``DenseSGD``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..data.rows import ask_for_row
from ..jit.dispatch import U, inlined, kernel
from ..jit.lanes import load, load_row, maximum, minimum, signed, store, where, width
from ..losses import curvature, derivative
from ..parts.contracts import Optimizer, part
from ..penalties import feature_weight
from ..problem.state import Block, Layout, Problem, State, n_sums
from ..steps import InverseTime, StronglyConvex
from .fobos import FOBOS
from .running_sums import add_gradient, add_intercept

_LEAST = float(np.finfo(float).tiny)
"""The least t0 whose inverse is a number."""
EVEN, ODD, ROWS = range(3)
"""The columns of the table of HarmonicSGD."""
LAST_CLOCK, LANES = U(0), U(1)
"""The numbers of its cells: the clock after the last touch, then u of every lane; the sums follow."""


@part(
    Optimizer,
    sign_at_zero="the subgradient of |w| at w = 0, from -1 to 1",
    sweep="whether every example visits all features, also where that is not needed",
)
class SGD(NamedTuple):
    """SGD, stochastic subgradient descent on the whole objective.

    Parameters
    ----------
    sign_at_zero : float
        The subgradient of |w| that is used at w = 0, in [-1, 1].
    sweep : bool
        Whether every coordinate is visited at each example, which is faster where most features of a row are nonzero.
    """

    sign_at_zero: float = 0.0
    sweep: bool = False

    uses_steps = True
    chooses_form = True
    can_track_iterates = True  # without an L1 term, as FOBOS
    starts_anywhere = True

    def check(self, problem: Problem) -> None:
        """Raise for parameters or a problem that the optimizer does not support."""
        if not -1.0 <= self.sign_at_zero <= 1.0:
            raise ValueError(f"SGD(sign_at_zero={self.sign_at_zero!r}): sign_at_zero must lie between -1 and 1.")

    def resolve(self, problem: Problem, pilot: Any, rule: Any = None) -> FOBOS | HarmonicSGD | DenseSGD:
        """Return the form of the optimizer for this problem and this step-size rule."""
        self.check(problem)
        if not np.any(problem.method.lams):
            return FOBOS(l2_in="gradient")
        t0 = _harmonic_offset(rule, float(problem.penalty.rho))
        if self.sign_at_zero == 0.0 and t0 is not None and not self.sweep:
            return HarmonicSGD(t0)
        return DenseSGD(float(self.sign_at_zero))


def _harmonic_offset(rule: Any, rho: float) -> float | None:
    """Return t0 if the rule's steps are 1 / (rho (t + t0)) with no cap, else None."""
    if isinstance(rule, StronglyConvex) and not rule.cap and rule.mu == rho and rule.t0 >= 0.0:
        return float(rule.t0)
    if isinstance(rule, InverseTime) and not rule.cap and rho > 0.0 and rule.c == 1.0 / rho and rule.t0 >= 0.0:
        return float(rule.t0)
    return None


# ---- any steps, O(d) per example -------------------------------------------------------------------------------------


class DenseSchedule(NamedTuple):
    """The arguments of the kernel: per row steps and weight in the average; then rho and sgn(0)."""

    eta: np.ndarray
    bias_eta: np.ndarray
    omega: np.ndarray
    rho: float
    sign_at_zero: float


@part(Optimizer)
class DenseSGD(NamedTuple):
    """Subgradient descent that visits every coordinate at every example."""

    sign_at_zero: float = 0.0

    layout = Layout(shared=0, lane=1, bias=1, clock=0)
    uses_steps = True
    is_dense = True
    starts_anywhere = True

    @property
    def learn(self):
        return learn_dense

    def schedule(
        self, problem: Problem, state: State, block: Block, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> DenseSchedule:
        """Return the arrays for the next ``len(eta)`` steps."""
        bias_eta = eta if problem.intercept else 0.0 * eta
        return DenseSchedule(eta, bias_eta, omega, float(problem.penalty.rho), float(self.sign_at_zero))


@kernel
def learn_dense(rows, order, schedule, method, state):
    """Make subgradient steps over the rows in ``order``, each a sweep over all coordinates."""
    indptr, indices, data, targets, weights = rows
    loss, reg, lanes, watch, lams = method
    etas, bias_etas, omega, rho, sign_at_zero = schedule
    cell, bias, _ = state
    m, sums, one = U(width(lanes)), U(n_sums(watch)), U(1)
    stride = (one + sums) * m
    lam, b = load(lanes, lams, U(0)), load(lanes, bias, U(0))
    for k in range(order.size):
        ask_for_row(indptr, indices, data, order, k)
        i, eta = U(order[k]), etas[k]
        start, stop = U(indptr[i]), U(indptr[i + one])
        margin = b
        for p in range(start, stop):
            margin = margin + load(lanes, cell, U(indices[p]) * stride) * data[p]
        y, weight = load_row(lanes, targets, k), load_row(lanes, weights, k)
        c = weight * derivative(loss, margin, y)
        oc, curve = omega[k] * c, 0.0 * c
        if sums > 2:
            curve = weight * curvature(loss, margin, y)
        for j in range(U(cell.size) // stride):  # the penalty's part, and the sum of iterates
            at = j * stride
            w, pull = load(lanes, cell, at), lam * (eta * feature_weight(reg, j))
            if sums > 0:
                store(lanes, cell, at + m, load(lanes, cell, at + m) + omega[k] * w)
            store(lanes, cell, at, w - w * (eta * rho) - where(w == 0.0, pull * sign_at_zero, signed(pull, w)))
        for p in range(start, stop):  # the loss's part
            at = U(indices[p]) * stride
            store(lanes, cell, at, load(lanes, cell, at) - eta * c * data[p])
            add_gradient(watch, lanes, cell, at + m, oc * data[p], curve * data[p] * data[p])
        add_intercept(watch, lanes, bias, m, omega[k] * b, oc, curve)
        b = b - bias_etas[k] * c
    store(lanes, bias, U(0), b)


# ---- steps 1 / (rho (t + t0)), O(nonzeros) per example ---------------------------------------------------------------


class HarmonicSchedule(NamedTuple):
    """The arguments of the kernel for the next steps.

    Per row: the intercept's step and the weight in the average.  Per step since the last settling, and one more:
    ``table`` with the prefix sums of omega f over even clocks, over odd clocks, and of omega f times the row's number,
    where f = 1 / (clock + t0).  ``start`` is the clock at the table's first row, ``first`` the row of the first step.
    """

    bias_eta: np.ndarray
    omega: np.ndarray
    table: np.ndarray
    start: int
    first: int
    rho: float
    t0: float


@part(Optimizer)
class HarmonicSGD(NamedTuple):
    """SGD with eta_t = 1 / (rho (t + t0)) and sgn(0) = 0, in an exact lazy form.

    With t examples learned u = (t + t0) w obeys u <- u - c x / rho - a sgn(u), a = lam pen / rho.  While idle, |u|
    falls by a per step to a rest in [0, a), after floor(|u| / a) steps.  From there u alternates between rest and
    rest - a (times the old sign), two steps a period; a rest of exactly 0 stays 0.  This holds in exact arithmetic, and
    also here: the quotient's floor is exact for the numbers |u| and a.  Where |u| is a multiple of a only up to
    rounding, the w of a step-by-step run may rest on the other side of 0, by at most eta lam.
    """

    t0: float

    layout = Layout(shared=1, lane=1, bias=1, clock=0)
    columns = 3
    uses_steps = True
    starts_anywhere = True

    @property
    def learn(self):
        return learn_harmonic

    def check(self, problem: Problem) -> None:
        """Raise for parameters or a problem that the optimizer does not support."""
        if not problem.penalty.rho > 0.0:
            raise ValueError("HarmonicSGD needs rho > 0: its steps are 1 / (rho (t + t0)).")

    def place(self, problem: Problem, state: State, w: np.ndarray, b: np.ndarray) -> None:
        """Start from w (d, m) and b (m,) instead of zero."""
        if self.t0 < _LEAST:
            raise ValueError("with steps 1 / (rho t) the first step forgets its starting point: choose t0 > 0.")
        _, lanes, bias = self.layout.views(problem, state)
        lanes[:, 0, : problem.m] = self.t0 * w
        if problem.intercept:
            bias[0, : problem.m] = b

    def schedule(
        self, problem: Problem, state: State, block: Block, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> HarmonicSchedule:
        """Return the arrays for the next ``len(eta)`` steps."""
        rho, n = float(problem.penalty.rho), len(eta)
        clock = np.arange(t, t + n)
        if not np.allclose(eta * rho * (clock + 1 + self.t0), 1.0, rtol=1e-12, atol=0.0):
            raise ValueError(f"HarmonicSGD needs the steps 1 / (rho (t + {self.t0:.6g})); use SGD for any others.")
        if not problem.sums:
            block.start = t
        first = t - block.start
        if problem.sums:
            rows = block.reserve(first + n + 1)[first : first + n + 1]
            weight = omega * _factor(clock, self.t0)
            for column, part in enumerate((clock % 2 == 0, clock % 2 == 1, clock - block.start)):
                added = weight * part
                if first == 0:  # sums begin at row 1: f is huge at clock 0 if t0 is tiny, and they would lose digits
                    rows[0, column] = -added[0]
                rows[:, column] = np.add.accumulate(np.append(rows[0, column], added))
        bias_eta = eta if problem.intercept else 0.0 * eta
        return HarmonicSchedule(bias_eta, omega, block.table, block.start, first, rho, float(self.t0))

    def settle(self, problem: Problem, state: State, block: Block, t: int) -> None:
        """Close the sums of every coordinate, and start a new block."""
        if problem.sums:
            settle_harmonic(block.table, block.start, t, float(problem.penalty.rho), problem.settling, state)
        block.table[0] = 0.0
        block.start = t

    def weights(self, problem: Problem, state: State, block: Block, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the iterate after t examples."""
        touched, lanes, bias = self.layout.views(problem, state)
        method, pen = problem.method, problem.penalty.feature_weights(problem.d)[:, None]
        u = lanes[:, 0]
        _, _, now = _idle(np.abs(u), _fall(method.lams, pen, float(problem.penalty.rho)), t - touched)
        w = np.where(now != 0.0, np.sign(u) * now, 0.0) * _factor(np.array([t]), self.t0)
        return w[:, : problem.m], bias[0, : problem.m].copy()


def _factor(clock: np.ndarray, t0: float) -> np.ndarray:
    """Return w / u: 1 / (clock + t0), and 0 where the quotient has no finite value, since w_1 = 0 there."""
    divisor = clock + t0
    return np.divide(1.0, divisor, out=np.zeros(len(clock)), where=divisor >= _LEAST)


@inlined
def _fall(lam, pen, rho):
    """Return a, the fall of |u| per idle step."""
    return lam * pen / rho


@inlined
def _idle(size, a, k):
    """Return, for k idle steps from |u| = size: the falling steps, the rest, and the final u over its old sign."""
    falling = np.floor(size / where(a > 0.0, a, 1.0))
    falling = falling + where(size >= (falling + 1.0) * a, 1.0, 0.0) - where(size < falling * a, 1.0, 0.0)
    falling = where(size >= a * k, k, falling)  # the line above corrects the rounded quotient
    rest, periods = size - falling * a, 0.5 * (k - falling)
    return falling, rest, where((rest != 0.0) & (periods != np.floor(periods)), rest - a, rest)


@inlined
def _total(table, origin, s, hi, size, a, falling, rest):
    """Return the sum of omega f |u| from clock s to the table's row hi: first falling, then alternating."""
    lo = U(maximum(s - origin, 0.0))
    mid = U(minimum(maximum(s + falling - origin, 1.0 * lo), 1.0 * hi))
    even, odd = table[mid, EVEN] - table[lo, EVEN], table[mid, ODD] - table[lo, ODD]
    total = (size + (s - origin) * a) * (even + odd) - a * (table[mid, ROWS] - table[lo, ROWS])
    even, odd = table[hi, EVEN] - table[mid, EVEN], table[hi, ODD] - table[mid, ODD]
    away = odd if 2.0 * math.floor(0.5 * (s + falling)) == s + falling else even  # the clocks at which u = rest - a
    return total + (rest * (even + odd) - a * away if rest != 0.0 else 0.0)


@kernel
def learn_harmonic(rows, order, schedule, method, state):
    """Make subgradient steps in u over the rows in ``order``, with exact running sums where the method watches them."""
    indptr, indices, data, targets, weights = rows
    loss, reg, lanes, watch, lams = method
    bias_eta, omega, table, origin, first, rho, t0 = schedule
    cell, bias, _ = state
    m, sums, one = U(width(lanes)), U(n_sums(watch)), U(1)
    stride = LANES + (one + sums) * m
    lam, b = load(lanes, lams, U(0)), load(lanes, bias, U(0))
    for k in range(order.size):
        ask_for_row(indptr, indices, data, order, k)
        i, r, t = U(order[k]), U(first + k), 1.0 * (origin + first + k)
        start, stop = U(indptr[i]), U(indptr[i + one])
        s = 0.0 * b
        for p in range(start, stop):  # catch up, inner product
            j = U(indices[p])
            at, pen = j * stride, feature_weight(reg, j)
            for q in range(m):
                u = cell[at + LANES + q]
                if u != 0.0:
                    size, a = abs(u), _fall(lams[q], pen, rho)
                    falling, rest, now = _idle(size, a, t - cell[at + LAST_CLOCK])
                    if sums > 0:
                        total = _total(table, origin, cell[at + LAST_CLOCK], r + one, size, a, falling, rest)
                        cell[at + LANES + m + q] += total if u > 0.0 else -total
                    cell[at + LANES + q] = now if u > 0.0 else -now
            s = s + load(lanes, cell, at + LANES) * data[p]
        y, weight = load_row(lanes, targets, k), load_row(lanes, weights, k)
        margin = s / (t + t0) + b if t + t0 > 0.0 else b
        g = weight * derivative(loss, margin, y)
        c, og, curve = g / rho, omega[k] * g, 0.0 * g
        if sums > 2:
            curve = weight * curvature(loss, margin, y)
        for p in range(start, stop):  # step, running sums
            j = U(indices[p])
            at = j * stride
            u = load(lanes, cell, at + LANES)
            store(lanes, cell, at + LANES, u - c * data[p] - signed(_fall(lam, feature_weight(reg, j), rho), u))
            cell[at + LAST_CLOCK] = t + 1.0
            add_gradient(watch, lanes, cell, at + LANES + m, og * data[p], curve * data[p] * data[p])
        add_intercept(watch, lanes, bias, m, omega[k] * b, og, curve)
        b = b - bias_eta[k] * g
    store(lanes, bias, U(0), b)


@kernel
def settle_harmonic(table, origin, clock, rho, method, state):
    """Close the sums after ``clock`` examples for every coordinate; u itself stays as of its last touch."""
    _, reg, lanes, watch, lams = method
    cell = state.cell
    m, sums, one = U(width(lanes)), U(n_sums(watch)), U(1)
    stride, rows = LANES + (one + sums) * m, U(clock - origin)
    for j in range(U(cell.size) // stride):
        at, pen = j * stride, feature_weight(reg, j)
        for q in range(m):
            u = cell[at + LANES + q]
            if u != 0.0:
                size, a = abs(u), _fall(lams[q], pen, rho)
                falling, rest, _ = _idle(size, a, clock - cell[at + LAST_CLOCK])
                total = _total(table, origin, cell[at + LAST_CLOCK], rows, size, a, falling, rest)
                cell[at + LANES + m + q] += total if u > 0.0 else -total
