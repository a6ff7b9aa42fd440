"""Optimizers with a rate per coordinate: FTRL-proximal, NFTRL and both forms of AdaGrad.

All keep z, G = sum of (c x)^2 and eta = 1/r per coordinate.  They differ in the rule for r and in the update of z (a
record, see ``rate``, ``kept`` and ``moved``).  A coordinate that is not touched has, before the example at clock t,

    w_t = -S(z, lam pen t) / (r + rho t),

so the weight itself needs no catching up; only sums of iterates do.  A coordinate *dies* when its weight reaches zero.

With rho = 0 the sums use Abel summation.  Over the block's first k steps an idle coordinate's iterates add up to
F_k = eta (|z| Omega_k - lam pen Theta_k).  Omega and Theta are the prefix sums of omega and omega t.  A touch therefore
adds F of the old (z, eta) minus F of the new one.  A coordinate that died while idle adds F at the step of its death,
e = ceil(|z| / (lam pen)).  A coordinate that a touch left dead adds nothing, and stays dead until it is touched again.
Nothing needs its rate.  In place of eta it has -k, the number from which the rate follows (see ``rate``) with q, n and
G: none of them changes until the next touch.

With rho > 0 the idle stretch since the last touch, stored in its own field, has a closed form.  AdaGrad FOBOS with
rho > 0 has another idle curve: there z itself drifts, see ``Drift``.

With ``per_feature_clock`` a coordinate's clock starts at its first appearance.  Its age then replaces t everywhere.
The clock after that example is one more field (0: not seen yet).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..jit.dispatch import cast, plain_python
from ..jit.lanes import tiny, width
from ..jit.simd import LINE, tail_scratch, widest_block
from ..penalties import ElasticNet
from ..problem.bounds import Bounded
from ..problem.fading import Fading, aimed
from ..problem.state import Block, Layout, Problem, State, slices
from .adaptive_kernels import fade_all, learn, learn_simd, mean_square, read, settle_all
from .adaptive_rules import (
    CLOCK,
    OMEGA,
    THETA,
    Flat,
    FromFirstSeen,
    FromStart,
    clock_of,
    damping,
    drifted,
    drifts,
    normalises,
    per_feature_clock,
    rate,
    ridged,
    shrunk,
)

_FLAT, _FROM_START, _FROM_FIRST_SEEN = Flat(), FromStart(), FromFirstSeen()


def idle_of(optimizer: Any, problem: Problem) -> Any:
    """Return the idle-curve record for the problem's rho and for the optimizer's treatment of it."""
    rho = float(problem.penalty.rho)
    return optimizer.ridge(rho) if rho > 0.0 else _FLAT


class Schedule(NamedTuple):
    """The arguments of the kernel for the next steps.

    Per row: its pace, and its weight in the average.  Per step since the last settling, and one more: ``table`` with
    columns Omega and Theta, time counted from ``start``, the clock at the table's first row.  Where old examples fade,
    ``start`` is 0, and the table has a column with the clock.  ``first`` is the table's row of the first step.  Per
    lane: the rule's constants and the initial intercept.  ``intercept`` is 1, or 0 without one; ``dead`` and ``space``
    are scratch arrays.
    """

    rule: Any
    idle: Any
    ages: Any
    pace: Any
    omega: np.ndarray
    table: np.ndarray
    start: float
    first: int
    gains: np.ndarray
    floors: np.ndarray
    centres: np.ndarray
    intercept: float
    dead: np.ndarray
    space: np.ndarray


class IdleLayout(Layout):
    """The memory layout of the optimizers with a rate per coordinate.

    Shared: q, n; the clock after the first appearance, where features have their own; the clock at the last touch,
    where rho > 0.  Lane: z, eta, G.  Intercept: b, z, G, r.

    One model with rho = 0 and one clock for all has one cache line per feature: three sums fill it, fewer leave it
    partly unused.
    """

    __slots__ = ()

    @property
    def ages(self) -> Any:
        return _FROM_FIRST_SEEN if self.shared == 3 else _FROM_START

    def bounds(self, problem: Problem, state: State, block: Block, t: int) -> Iterator[Bounded]:
        shared, lanes = self.cells_of(problem, state)
        yield Bounded("the sums of squares", shared[:, :2])
        fades = block.memory is not None
        yield Bounded("the first and the last touches", shared[:, 2:], block.clock_at(t) + fades, is_whole=not fades)
        if problem.penalty.rho > 0.0:
            yield Bounded("the rates", lanes[:, 1])

    def _shared(self, problem: Problem) -> int:
        return self.shared + (problem.penalty.rho > 0.0)

    def _in_lines(self, problem: Problem) -> bool:
        flat = not problem.penalty.rho and not per_feature_clock(self.ages)
        return flat and problem.width == 1 and type(problem.penalty) is ElasticNet

    def stride(self, problem: Problem) -> int:
        if self._in_lines(problem):
            return LINE
        return self._shared(problem) + (self.lane + problem.sums) * problem.n_float64

    def cells_of(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray]:
        cell = state.cell.reshape(problem.d, self.stride(problem))
        first, n = self._shared(problem), self.lane + problem.sums
        lanes = problem.unpacked(cell[:, first : first + n * problem.n_float64]).reshape(problem.d, n, problem.width)
        return cell[:, :first], lanes


LAYOUT = IdleLayout(shared=2, lane=3, bias=4, clock=1)
OWN_CLOCK_LAYOUT = IdleLayout(shared=3, lane=3, bias=4, clock=1)
COLUMNS = 2


def layout(optimizer: Any) -> IdleLayout:
    """Return the layout, with a field for the first appearance where the optimizer has ``per_feature_clock``."""
    return OWN_CLOCK_LAYOUT if optimizer.per_feature_clock else LAYOUT


def is_lazy(optimizer: Any, problem: Problem, uniform: bool) -> bool:
    """Return whether the watched sums are exact at O(nonzeros): with rho > 0 only for uniform weights."""
    return uniform or not problem.penalty.rho


def start(optimizer: Any, problem: Problem, centres: Any = 0.0) -> tuple[State, Block]:
    """Return the initial state, with the intercept at ``centres``."""
    state = layout(optimizer).new_state(problem)
    if problem.intercept:
        layout(optimizer).bias_of(problem, state)[0, : problem.m] = centres
    return state, Block(COLUMNS)


def per_lane(problem: Problem, *values: Any) -> np.ndarray:
    """Return numbers, or one per model each, broadcast to all lanes of a kernel; 1 where a lane has no model."""
    out = np.ones((len(values), problem.width))
    for row, value in zip(out, values, strict=True):
        row[: problem.m] = value
    return problem.packed(out)


def make_schedule(
    optimizer: Any,
    problem: Problem,
    block: Block,
    t: int,
    omega: np.ndarray,
    centres: Any,
) -> Schedule:
    """Return the arrays for the next ``len(omega)`` steps."""
    n, first, pace, (rule, *constants) = len(omega), t - block.start, block.pace, optimizer.rates()
    is_fading = isinstance(pace, Fading)
    if problem.sums:
        rows = block.reserve(first + n + 1)[first : first + n + 1]
        if isinstance(pace, Fading):
            rows[1:, OMEGA], rows[1:, THETA], rows[:, CLOCK] = omega, omega * pace.clock[:n], pace.clock[: n + 1]
            np.add.accumulate(rows[:, :CLOCK], out=rows[:, :CLOCK])
            block.pace = pace = aimed(pace, block.table)
        elif np.all(omega == 1.0):  # whole numbers, whose sums are exact
            steps = np.arange(first, first + n + 1.0)
            rows[:, 0] = rows[0, 0] + (steps - first)
            rows[:, 1] = rows[0, 1] + (steps * (steps - 1.0) - first * (first - 1.0)) / 2.0
        else:
            rows[1:, 0], rows[1:, 1] = omega, omega * np.arange(first, first + n)
            np.add.accumulate(rows, out=rows)
    else:  # no sums are kept up to the end of these rows
        block.start, first = t + n, 0
    lanes = per_lane(problem, *constants, centres if problem.intercept else 0.0)
    origin = 0.0 if is_fading else float(block.start if problem.sums else t)
    parts = rule, idle_of(optimizer, problem), layout(optimizer).ages, pace
    fixed = float(problem.intercept), block.noted, block.level
    return Schedule(*parts, omega, block.table, origin, first, *lanes, *fixed)


def settle(optimizer: Any, problem: Problem, state: State, block: Block, t: int) -> None:
    """Bring every coordinate's sum up to date, and start a new block."""
    own, idle, pace = layout(optimizer), idle_of(optimizer, problem), block.pace
    start = block.start if problem.sums else t
    times = (0.0 if isinstance(pace, Fading) else float(start)), block.clock_at(t), t - start
    settle_all(block.table, *times, own.stride(problem), pace, idle, own.ages, problem.settling, state)
    block.table[0] = 0.0
    block.start = t


def renew(optimizer: Any, problem: Problem, state: State, factor: float) -> None:
    """Multiply all sums by a factor; a feature that counts next to nothing is forgotten, as if never seen."""
    shared, lanes, bias = layout(optimizer).views(problem, state)
    fade_all(shared, lanes, factor, float(np.finfo(lanes.dtype).max) * 2.0**-64)
    bias[1:] *= factor
    state.clock[:] *= factor


def averaged(optimizer: Any, problem: Problem, state: State, t: int = 0) -> None:
    """Replace eta = 1 / r, or -k, by the rate r, so that a mean over settled states is a state.

    A second call replaces r by eta, for a state at clock t, until the next settling.
    """
    shared, lanes, _ = layout(optimizer).views(problem, state)
    eta = lanes[:, 1]
    dead = np.flatnonzero((eta < 0.0).any(1))
    rates = np.divide(1.0, eta, out=np.zeros_like(eta), where=eta > 0.0)
    rates[dead] = np.where(eta[dead] < 0.0, _rates_of_dead(optimizer, problem, shared[dead], lanes[dead]), rates[dead])
    lanes[:, 1] = rates
    shared[:, 2:] = t  # the clock at the last touch


def _rates_of_dead(optimizer: Any, problem: Problem, shared: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    """Return r of features that the last touch left dead, (features, lanes), as that touch would have computed it."""
    rule, *constants = optimizer.rates()
    gains, floors = problem.unpacked(per_lane(problem, *constants))
    k, G, square, inverse = -lanes[:, 1], lanes[:, 2], 1.0, 1.0
    if normalises(rule):
        q, n = shared[:, 0:1], shared[:, 1:2]
        square, inverse = mean_square(q, n, 1.0 / (q * n))
    return np.maximum(rate(rule, G, square, inverse, k, gains, floors), tiny(G))


def weights(optimizer: Any, problem: Problem, state: State, block: Block, t: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the iterate after t examples, computed in slices: the computation needs a dozen temporary arrays."""
    own, parts = layout(optimizer), slices(problem.d)
    b = own.bias_of(problem, state)[0, : problem.m].astype(np.float64)
    if len(parts) == 1:
        return np.ascontiguousarray(_weights(optimizer, problem, state, block.clock_at(t))), b
    w, cells = np.empty((problem.d, problem.m)), state.cell.reshape(problem.d, own.stride(problem))
    for some in parts:
        w[some] = _weights(optimizer, problem.at(some), state._replace(cell=cells[some].ravel()), block.clock_at(t))
    return w, b


def _weights(optimizer: Any, problem: Problem, state: State, time: float) -> np.ndarray:
    own = layout(optimizer)
    shared, lanes = own.cells_of(problem, state)
    idle, z, eta = idle_of(optimizer, problem), lanes[:, 0], np.abs(lanes[:, 1])
    now = time + 1.0 - shared[:, 2:3] if per_feature_clock(own.ages) else time
    shrink = problem.penalty.feature_weights(problem.d)[:, None] * problem.packed(problem.lams_of_lanes)
    if drifts(idle):
        z = np.where(z != 0.0, drifted(idle, z, np.where(z != 0.0, eta, 1.0), shrink, time - shared[:, -1:]), 0.0)
    w = 0.0 - shrunk(cast(problem.penalty), z, shrink * clock_of(idle, now)) * damping(idle, now, eta) * eta
    return w[:, : problem.m]


def weights_at(
    optimizer: Any, problem: Problem, state: State, block: Block, t: int, features: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the iterate at some features, by a compiled kernel; for many lanes."""
    own, out = layout(optimizer), np.empty(len(features) * problem.width)
    idle, time = idle_of(optimizer, problem), block.clock_at(t)
    read(features, time, own.stride(problem), idle, own.ages, problem.settling, state, out)
    return own.answer(problem, state, out)


class Learn:
    """The dispatcher of the kernels: ``learn_simd`` for one model on whole cache lines, otherwise ``learn``."""

    def __call__(self, rows: Any, order: Any, schedule: Any, method: Any, state: Any) -> None:
        flat = not ridged(schedule.idle) and not per_feature_clock(schedule.ages)
        if flat and width(method.lanes) == 1 and type(method.penalty) is ElasticNet:
            wide = widest_block()
            learn_simd(rows, order, schedule, method, state, wide, *tail_scratch(wide, rows))
        else:
            learn(rows, order, schedule, method, state)

    def py_func(self, rows: Any, order: Any, schedule: Any, method: Any, state: Any) -> None:
        """Run the same code in plain Python, uncompiled."""
        with plain_python():
            self(rows, order, schedule, method, state)
