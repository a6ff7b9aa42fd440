"""Composite mirror descent: steps on the dual variable v = grad Psi(w); the model is w = grad Psi*(v).

theta = v - eta c x;  v <- grad Psi of argmin Psi(w) - <theta, w> + eta r(w).  With the Euclidean map that is FOBOS.
The sparse-Kaczmarz map has its L1 term in Psi: with r = 0 an idle coordinate does not move, O(nonzeros) per example.
With a further penalty, and with the p-norm, whose every weight depends on the norm of v, each example visits all
nonzero v: O(nonzeros + their number).  An L1 term acts on v as it does on w in FOBOS, v <- S(theta, eta lam).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..data.rows import ask_for_row
from ..jit.dispatch import U, cast, inlined, kernel
from ..jit.lanes import load_row
from ..losses import derivative
from ..mirrors import (
    Euclidean,
    PNorm,
    SparseKaczmarz,
    conjugate,
    factor,
    height,
    portion,
    power,
    primal,
    relaxed,
    to_dual,
    to_primal,
)
from ..parts.contracts import Optimizer, part
from ..penalties import NonNegative, feature_weight, prox
from ..problem.bounds import Bounded, equal
from ..problem.state import Block, Layout, Problem, State, n_sums, tracks_iterates
from .fobos import FOBOS
from .iterate_tracking import (
    B_BAR,
    IS_WRITTEN,
    KEPT_B,
    KEPT_DIFFERENCE,
    KEPT_ITERATE,
    LOG_END,
    TAKES_LEAST,
    THRESHOLD,
    Tracking,
    TrackingBlock,
    has_room,
    keep_or_log,
    move_log_to_front,
)


@part(Optimizer, mirror="the map: Euclidean(), PNorm(p) or SparseKaczmarz(lam, eps)")
class MirrorDescent(NamedTuple):
    """Composite mirror descent.

    Parameters
    ----------
    mirror : Euclidean, PNorm or SparseKaczmarz
        The mirror map.
    """

    mirror: Any = Euclidean()

    uses_steps = True
    chooses_form = True
    supported_penalties = ("absolute", "separable")
    can_track_iterates = True
    starts_anywhere = True

    @property
    def max_models(self) -> int | None:
        """Return the largest number of models that one run learns; None for as many as there are lanes."""
        return None if isinstance(self.mirror, Euclidean) else 1

    @property
    def sums_gradients(self) -> bool:
        """Return whether gradients are summed, as FOBOS does."""
        return isinstance(self.mirror, Euclidean)

    def check(self, problem: Problem) -> None:
        """Raise for parameters or a problem that the optimizer does not support."""
        if not isinstance(self.mirror, Euclidean | PNorm | SparseKaczmarz):
            raise ValueError(
                f"MirrorDescent(mirror={self.mirror!r}): choose Euclidean(), PNorm(p) or SparseKaczmarz(lam, eps)."
            )
        self.mirror.check()
        self.resolve(problem).check(problem)

    def resolve(self, problem: Problem, pilot: Any = None, rule: Any = None) -> Any:
        """Return the form of the optimizer for this map and this penalty."""
        if isinstance(self.mirror, Euclidean):
            return FOBOS()
        penalised = problem.penalty.rho > 0.0 or not problem.penalty.is_absolute or np.any(problem.method.lams)
        stands = self.mirror.is_separable and not penalised
        return StaticDescent(self.mirror) if stands else SweptDescent(self.mirror)


# ---- maps that act on each coordinate alone, without penalty ---------------------------------------------------------

_TOTAL, _LEARNED = range(2)
"""The entries of the clock: the sum of omega since the last settling, examples learned."""
_V, _SUM, _W_BAR = U(0), U(1), U(2)
"""The numbers of a cell: v, the sum of iterates, the point that iterates are compared with."""


class StaticSchedule(NamedTuple):
    """The arguments of the kernel: per row steps and weight in the average; the map; tracking arrays."""

    eta: np.ndarray
    bias_eta: np.ndarray
    omega: np.ndarray
    mirror: Any
    tracking: Tracking


@part(Optimizer)
class StaticDescent(NamedTuple):
    """Mirror descent without penalty: only the features of a row move."""

    mirror: Any

    layout = Layout(shared=0, lane=1, bias=1, clock=2)
    uses_steps = True
    max_models = 1
    sums_gradients = False
    can_track_iterates = True
    starts_anywhere = True

    @property
    def learn(self):
        return learn_static

    def start(self, problem: Problem) -> tuple[State, Block]:
        return self.layout.new_state(problem), TrackingBlock()

    def place(self, problem: Problem, state: State, w: np.ndarray, b: np.ndarray) -> None:
        """Start from w (d, m) and b (m,) instead of zero."""
        _, lanes, bias = self.layout.views(problem, state)
        lanes[:, 0, 0] = to_dual(self.mirror, w[:, 0])
        if problem.intercept:
            bias[0, 0] = b[0]

    def schedule(
        self, problem: Problem, state: State, block: TrackingBlock, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> StaticSchedule:
        """Return the arrays for the next ``len(eta)`` steps."""
        bias_eta = eta if problem.intercept else 0.0 * eta
        block.start = t
        return StaticSchedule(eta, bias_eta, omega, cast(self.mirror.compiled()), block.arrays(problem, len(eta)))

    def settle(self, problem: Problem, state: State, block: TrackingBlock, t: int) -> None:
        """Add each coordinate's value since its last touch to its sum, and restart the count."""
        if problem.sums:
            _, lanes, _ = self.layout.views(problem, state)
            lanes[:, 1, 0] += primal(self.mirror, lanes[:, 0, 0]) * state.clock[_TOTAL]
        state.clock[_TOTAL] = 0.0
        block.start = t

    def weights(self, problem: Problem, state: State, block: TrackingBlock, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the iterate after t examples."""
        _, lanes, bias = self.layout.views(problem, state)
        return primal(self.mirror, lanes[:, 0, :1]), bias[0, :1].copy()

    def dual(self, problem: Problem, state: State, block: TrackingBlock, t: int) -> np.ndarray:
        """Return the dual variable v after t examples."""
        return self.layout.views(problem, state)[1][:, 0, 0]

    def kept(self, problem: Problem, state: State, block: TrackingBlock) -> np.ndarray:
        """Return the weights of the iterate that was kept."""
        v = self.dual(problem, state, block, 0)
        if block.count[IS_WRITTEN]:
            return primal(self.mirror, block.kept[: len(v)])
        return primal(self.mirror, block.undone(np.stack([v, v], 1))[:, 0])

    def compare(self, problem: Problem, state: State, block: TrackingBlock, w_bar: np.ndarray) -> None:
        """Set the point that iterates are compared with."""
        sums, _ = self.layout.sums(problem, state)
        sums[: len(w_bar), 1, 0], sums[len(w_bar) :, 1, 0] = w_bar, 0.0


@kernel
def learn_static(rows, order, schedule, method, state):
    """Make steps v <- v - eta c x over the rows in ``order``, with sums and Bregman differences where watched."""
    indptr, indices, data, targets, weights = rows
    loss, _, lanes, watch, _ = method
    eta, bias_eta, omega, mirror, tracking = schedule
    number, count, item, old, kept, differences = tracking
    cell, bias, clock = state
    sums, one = U(n_sums(watch)), U(1)
    stride, b, total = _SUM + sums, bias[0], clock[_TOTAL]
    for k in range(order.size):
        ask_for_row(indptr, indices, data, order, k)
        i = U(order[k])
        start, stop = U(indptr[i]), U(indptr[i + one])
        margin = b
        for p in range(start, stop):
            margin += primal(mirror, cell[U(indices[p]) * stride + _V]) * data[p]
        c = weights[k] * derivative(loss, margin, load_row(lanes, targets, k))
        total += omega[k]
        first, difference = U(0), 0.0
        if tracks_iterates(watch) > 0:
            if not has_room(count, item, stop - start):
                move_log_to_front(count, item, old)
            if not has_room(count, item, stop - start):
                _write_out(count, item, old, kept, cell, stride)
            first = U(count[LOG_END])
        for p in range(start, stop):
            j = U(indices[p])
            at = j * stride
            v = cell[at + _V]
            u = v - eta[k] * c * data[p]
            cell[at + _V] = u
            if sums > 0:
                cell[at + _SUM] += (primal(mirror, v) - primal(mirror, u)) * total
            if tracks_iterates(watch) > 0:
                entry = first + p - start
                item[entry], old[entry + entry] = j, v
                difference += conjugate(mirror, v) - conjugate(mirror, u) + cell[at + _W_BAR] * (u - v)
        if sums > 0:
            bias[1] += omega[k] * b
        after = b - bias_eta[k] * c
        if tracks_iterates(watch) > 0:
            difference += 0.5 * (b * b - after * after) + number[B_BAR] * (after - b)
            differences[k] = difference
            iterate = U(clock[_LEARNED]) + U(k) + one
            keep_or_log(number, count, difference, iterate, b, first, first + stop - start)
        b = after
    bias[0], clock[_TOTAL] = b, total
    clock[_LEARNED] += order.size


@inlined
def _write_out(count, item, old, kept, cell, stride):
    """Write v of the kept iterate to ``kept``, the values in the log over the current ones, and clear the log."""
    for j in range(U(cell.size) // stride):
        kept[j] = cell[j * stride + _V]
    for e in range(count[LOG_END]):
        back = U(count[LOG_END] - 1 - e)
        kept[item[back]] = old[back + back]
    count[LOG_END], count[IS_WRITTEN] = 0, 1


# ---- maps and penalties that move idle coordinates -------------------------------------------------------------------

_FACTOR, _HEIGHT, _SWEPT = range(3)
"""The entries of the clock: the factor that turns powers into weights, Psi*(v), examples learned."""
_POWER, _OLD_V, _SWEPT_SUM, _SWEPT_W_BAR = U(1), U(2), U(3), U(4)
"""The numbers of a cell after v: the power that the factor turns into the weight, v before the last step, the sum of
iterates, the point that iterates are compared with.
"""


class SweptSchedule(NamedTuple):
    """The arguments of the kernel for the next steps.

    Per row: steps of the weights and of the intercept, weight in the average.  Then the map, the features with v != 0
    and their number, and the tracking arrays.
    """

    eta: np.ndarray
    bias_eta: np.ndarray
    omega: np.ndarray
    mirror: Any
    active: np.ndarray
    number_active: np.ndarray
    tracking: Tracking


class SweptBlock(TrackingBlock):
    """The block of SweptDescent, which owns the list of features whose v is nonzero."""

    def __init__(self) -> None:
        super().__init__()
        self.active, self.number_active = np.zeros(0, np.uint32), np.zeros(1, np.int64)

    def bounds(self, problem: Problem, state: State, t: int) -> Iterator[Bounded]:
        yield from super().bounds(problem, state, t)
        yield Bounded("the number of active features", self.number_active, len(self.active), size=1)
        active = np.sort(self.active[: self.number_active[0]])
        nonzeros = np.flatnonzero(state.cell.reshape(problem.d, -1)[:, int(_V)])
        yield equal("the active features", active, nonzeros)  # a feature that is zero joins them


@part(Optimizer)
class SweptDescent(NamedTuple):
    """Mirror descent that visits all nonzero v at each example, for any map and for penalties in addition."""

    mirror: Any

    layout = Layout(shared=0, lane=3, bias=1, clock=3)
    uses_steps = True
    supported_penalties = ("absolute", "separable")
    max_models = 1
    sums_gradients = False
    can_track_iterates = True
    starts_anywhere = True

    @property
    def learn(self):
        return learn_swept

    def check(self, problem: Problem) -> None:
        """Raise for parameters or a problem that the optimizer does not support."""
        penalty, name = problem.penalty, type(self.mirror).__name__
        has_form = penalty.has_prox and (penalty.is_absolute or isinstance(penalty, NonNegative))
        if not has_form or (penalty.rho > 0.0 and not self.mirror.is_separable):
            raise ValueError(
                f"the step of the map {name} has no closed form with {type(penalty).__name__}"
                f"{' and an L2 term: set l1_ratio=1 and' if has_form else f', whose prox is {penalty.kind}: set'} "
                "penalty='elasticnet' or 'nonnegative'."
            )

    def start(self, problem: Problem) -> tuple[State, Block]:
        return self.layout.new_state(problem), SweptBlock()

    def place(self, problem: Problem, state: State, w: np.ndarray, b: np.ndarray) -> None:
        """Start from w (d, m) and b (m,) instead of zero."""
        _, lanes, bias = self.layout.views(problem, state)
        lanes[:, 0, 0] = to_dual(self.mirror, w[:, 0])
        self._raise(problem, state)
        if problem.intercept:
            bias[0, 0] = b[0]

    def _raise(self, problem: Problem, state: State) -> None:
        """Update the powers, their factor and the height for the v in the cells."""
        _, lanes, _ = self.layout.views(problem, state)
        v, mirror = lanes[:, 0, 0], self.mirror.compiled()
        largest = np.abs(v).max(initial=0.0)
        if largest > 0.0:
            lanes[:, 1, 0] = power(mirror, v, largest)
            total = float(portion(mirror, v, lanes[:, 1, 0], largest).sum())
            state.clock[_FACTOR], state.clock[_HEIGHT] = factor(mirror, largest, total), height(mirror, largest, total)

    def schedule(
        self, problem: Problem, state: State, block: SweptBlock, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> SweptSchedule:
        """Return the arrays for the next ``len(eta)`` steps."""
        if t == 0:  # a starting point
            placed = np.flatnonzero(self.dual(problem, state, block, t))
            block.active, block.number_active[0] = placed.astype(np.uint32), len(placed)
        if len(block.active) < problem.d:
            block.active = np.append(block.active, np.zeros(problem.d - len(block.active), np.uint32))
        bias_eta = eta if problem.intercept else 0.0 * eta
        block.start = t
        mirror, tracking = cast(self.mirror.compiled()), block.arrays(problem, len(eta))
        return SweptSchedule(eta, bias_eta, omega, mirror, block.active, block.number_active, tracking)

    def weights(self, problem: Problem, state: State, block: SweptBlock, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the iterate after t examples."""
        _, lanes, bias = self.layout.views(problem, state)
        return lanes[:, 1, :1] * state.clock[_FACTOR], bias[0, :1].copy()

    def dual(self, problem: Problem, state: State, block: SweptBlock, t: int) -> np.ndarray:
        """Return the dual variable v after t examples."""
        return self.layout.views(problem, state)[1][:, 0, 0]

    def kept(self, problem: Problem, state: State, block: SweptBlock) -> np.ndarray:
        """Return the weights of the iterate that was kept."""
        return to_primal(self.mirror, block.kept[: problem.d])

    compare = StaticDescent.compare


@kernel
def learn_swept(rows, order, schedule, method, state):
    """Make composite steps over the rows in ``order``: theta = v - eta c x, then grad Psi of the step."""
    indptr, indices, data, targets, weights = rows
    loss, reg, lanes, watch, lams = method
    eta, bias_eta, omega, mirror, active, number_active, tracking = schedule
    number, count, item, _, kept, differences = tracking
    cell, bias, clock = state
    sums, one = U(n_sums(watch)), U(1)
    stride, b, n = _SWEPT_SUM + sums, bias[0], U(number_active[0])
    scale, level = clock[_FACTOR], clock[_HEIGHT]
    for k in range(order.size):
        ask_for_row(indptr, indices, data, order, k)
        i = U(order[k])
        start, stop = U(indptr[i]), U(indptr[i + one])
        margin = b
        for p in range(start, stop):
            margin += cell[U(indices[p]) * stride + _POWER] * scale * data[p]
        c = weights[k] * derivative(loss, margin, load_row(lanes, targets, k))
        for e in range(n):  # add w_t to the sums
            at = U(active[e]) * stride
            cell[at + _OLD_V] = cell[at + _V]
            if sums > 0:
                cell[at + _SWEPT_SUM] += omega[k] * (cell[at + _POWER] * scale)
        if sums > 0:
            bias[1] += omega[k] * b
        for p in range(start, stop):  # theta; features that were zero join the list
            j = U(indices[p])
            at = j * stride
            if cell[at + _V] == 0.0:
                cell[at + _OLD_V] = 0.0
                active[n] = j
                n += one
            cell[at + _V] -= eta[k] * c * data[p]
        difference, largest, moved, alive = level, 0.0, n, U(0)
        while alive < n:  # the composite step; zeros go to the end of the list
            j = U(active[alive])
            at = j * stride
            v = prox(reg, cell[at + _V], eta[k] * (lams[0] * feature_weight(reg, j)))
            u = relaxed(mirror, v, eta[k] * reg.rho)
            if tracks_iterates(watch) > 0:
                difference += cell[at + _SWEPT_W_BAR] * (u - cell[at + _OLD_V])
            cell[at + _V] = u
            largest = max(largest, abs(u))
            if u == 0.0:
                cell[at + _POWER] = 0.0
                n -= one
                active[alive], active[n] = active[n], active[alive]
            else:
                alive += one
        total = 0.0
        for e in range(n):  # w_{t+1}
            at = U(active[e]) * stride
            cell[at + _POWER] = power(mirror, cell[at + _V], largest)
            total += portion(mirror, cell[at + _V], cell[at + _POWER], largest)
        scale, level = 0.0, 0.0
        if n > U(0):
            scale, level = factor(mirror, largest, total), height(mirror, largest, total)
        after = b - bias_eta[k] * c
        if tracks_iterates(watch) > 0:
            difference += 0.5 * (b * b - after * after) + number[B_BAR] * (after - b) - level
            differences[k] = difference
            if difference <= number[THRESHOLD]:  # w_t is kept, as v before this step
                for e in range(count[LOG_END]):
                    kept[item[e]] = 0.0
                for e in range(moved):
                    item[e] = active[e]
                    kept[item[e]] = cell[U(active[e]) * stride + _OLD_V]
                count[LOG_END], count[IS_WRITTEN] = moved, 1
                count[KEPT_ITERATE], number[KEPT_B] = U(clock[_SWEPT]) + U(k) + one, b
                number[KEPT_DIFFERENCE] = difference
                if count[TAKES_LEAST] > 0:
                    number[THRESHOLD] = difference
        b = after
    bias[0], number_active[0] = b, n
    clock[_FACTOR], clock[_HEIGHT] = scale, level
    clock[_SWEPT] += order.size
