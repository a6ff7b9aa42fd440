"""Mini-batches: the mean gradient of ``batch`` examples at one point, then one prox step on the whole array.

A penalty that couples weights has no lazy form: a prox costs at least O(features), so it is made once per mini-batch.
Steps happen where the number of examples learned is a multiple of ``batch``.  The gradient is summed row by row, so any
division of a stream into chunks gives the same bits.  Losses are evaluated on NumPy arrays (rows, models), so any loss
and any number of models is supported.

A mini-batch is one example of FOBOS or RDA.  Its smoothness is the expected smoothness of a mini-batch's mean gradient,
L_B = L_mean / B + (1 - 1 / B) L_top.  L_top is the largest eigenvalue of the loss's Hessian on the pilot rows.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..data.row_sums import largest_eigenvalue
from ..data.rows import Matrix, add_rows, add_squared_rows, margins, squared_norms
from ..losses import curvature, derivative
from ..offsets import of_kernels
from ..parts.contracts import Optimizer, part
from ..penalties import prox_all, prox_with_l2
from ..problem.state import Block, Layout, Problem, Rows, State
from ..steps import Pilot

BATCH = 16
_OMEGA, _SMOOTH, _LARGEST = range(3)
"""The entries of the clock: the pending weight in the average, and the smoothness of examples since the last step.

The weight is that of the examples since the last update of the iterate's sum; the smoothness is a sum and a maximum.
"""


class Schedule(NamedTuple):
    """The arguments of ``learn`` besides rows: the optimizer, its problem, examples learned, weights in the average."""

    optimizer: Any
    problem: Problem
    t: int
    omega: np.ndarray


@part(
    Optimizer,
    batch="examples in a mini-batch; None: 16, of the trace norm 64",
    rule="the step rule by number of mini-batches, filled in",
    L_mean="the mean smoothness of an example, filled in",
    L_top="the largest curvature of the mean loss, filled in",
)
class BatchFOBOS(NamedTuple):
    """Mini-batch FOBOS: W <- prox(W - eta G, eta), G the mean gradient of a mini-batch; the L2 term is in the prox.

    Parameters
    ----------
    batch : int or None
        The number of examples in a mini-batch.  None: 16 (trace norm: 64).
    rule : step rule or None
        The step rule by number of mini-batches, filled in from the pilot rows.
    L_mean, L_top : float or None
        The two numbers of the step's cap, filled in from the pilot rows.
    """

    batch: int | None = None
    rule: Any = None
    L_mean: float | None = None
    L_top: float | None = None

    layout = Layout(shared=0, lane=2, bias=2, clock=3)
    uses_steps = True
    works_on_whole_arrays = True
    is_minibatch = True
    is_dense = True
    starts_anywhere = True

    @property
    def learn(self):
        return learn

    def check(self, problem: Problem) -> None:
        """Raise for parameters or a problem that the optimizer does not support."""
        _check(self, problem)

    def prepared(self, problem: Problem, pilot: Pilot, matrix: Matrix, weights: np.ndarray) -> tuple[Any, Pilot]:
        """Return the record for this problem, and the pilot with the smoothness of a mini-batch."""
        batch, L_top, L = _smoothness(self, problem, pilot, matrix, weights)
        return self._replace(batch=batch, L_mean=pilot.L_mean, L_top=L_top), pilot._replace(L_mean=L)

    def resolve(self, problem: Problem, pilot: Pilot, rule: Any) -> BatchFOBOS:
        """Return the record with its step rule."""
        return self._replace(rule=rule)

    def start(self, problem: Problem) -> tuple[State, Block]:
        """Return the initial state: the point nearest 0 that the penalty allows."""
        state = self.layout.new_state(problem)
        W = self.layout.views(problem, state)[1][:, 0, : problem.m]
        W[:] = prox_all(problem.penalty, W, 0.0)
        return state, Block(1)

    def schedule(
        self, problem: Problem, state: State, block: Block, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> Schedule:
        """Return the schedule for the next ``len(omega)`` examples; step sizes come from the rule, by mini-batch."""
        return Schedule(self, problem, t, omega)

    def settle(self, problem: Problem, state: State, block: Block, t: int) -> None:
        """Add the pending weight of the iterate to the sums of iterates."""
        _flush(self.layout, problem, state)
        block.start = t

    def step(self, problem: Problem, state: State, k: int) -> None:
        """Make step k, counted from 1, with the gradient of a full mini-batch."""
        _, lanes, bias = self.layout.views(problem, state)
        W, G, m = lanes[:, 0, : problem.m], lanes[:, 1, : problem.m], problem.m
        eta = float(self.rule.sizes(k - 1, 1)[0])
        if self.rule.cap:
            eta = min(eta, 1.0 / (self._limit(state.clock) + problem.penalty.rho + 1e-300))
        W[:] = prox_with_l2(problem.penalty, W - eta / self.batch * G, eta)
        if problem.intercept:
            bias[0, :m] -= eta / self.batch * bias[1, :m]

    def _limit(self, clock: np.ndarray) -> float:
        """Return L_B with this mini-batch's own rows in place of the pilot's."""
        share = clock[_SMOOTH] / self.batch / self.L_mean
        return clock[_LARGEST] / self.batch + (1.0 - 1.0 / self.batch) * self.L_top * share


@part(
    Optimizer,
    batch="examples in a mini-batch; None: 16, of the trace norm 64",
    beta="the first divisor where rho > 0; None: from the first rows",
    gamma="the growth of the divisor where rho = 0; None: from the first rows",
    bias_gamma="the intercept's own gamma; None: the same",
)
class BatchRDA(NamedTuple):
    """Mini-batch RDA: after k mini-batches, W = argmin <Z, W> + k psi(W) + q ||W||^2 / 2.

    Z is the sum of the mean gradients; q is ``beta`` where rho > 0, and ``gamma`` sqrt(k) elsewhere.

    Parameters
    ----------
    batch : int or None
        As in :class:`BatchFOBOS`.
    beta, gamma, bias_gamma : float or None
        As in :class:`RDA`, computed from L_B instead of L_mean.
    """

    batch: int | None = None
    beta: float | None = None
    gamma: float | None = None
    bias_gamma: float | None = None

    layout = Layout(shared=0, lane=3, bias=3, clock=3)
    uses_steps = False
    works_on_whole_arrays = True
    is_minibatch = True
    is_dense = True

    learn, start, schedule, settle = BatchFOBOS.learn, BatchFOBOS.start, BatchFOBOS.schedule, BatchFOBOS.settle

    def check(self, problem: Problem) -> None:
        """Raise for parameters or a problem that the optimizer does not support."""
        _check(self, problem)
        for name, number in (("beta", self.beta), ("gamma", self.gamma), ("bias_gamma", self.bias_gamma)):
            if number is not None and not 0.0 < number < math.inf:
                raise ValueError(f"BatchRDA({name}={number!r}): {name} must be a finite number above 0.")

    def prepared(self, problem: Problem, pilot: Pilot, matrix: Matrix, weights: np.ndarray) -> tuple[Any, Pilot]:
        """Return the record for this problem, and the pilot with the smoothness of a mini-batch."""
        batch, _, L = _smoothness(self, problem, pilot, matrix, weights)
        return self._replace(batch=batch), pilot._replace(L_mean=L)

    def resolve(self, problem: Problem, pilot: Pilot, rule: Any = None) -> BatchRDA:
        """Return the record with its constants filled in from the pilot rows."""
        gamma = pilot.L_mean / (10.0 if problem.loss.classifies else 3.0)
        return self._replace(
            beta=pilot.L_mean if self.beta is None else self.beta,
            gamma=gamma if self.gamma is None else self.gamma,
            bias_gamma=gamma if self.bias_gamma is None else self.bias_gamma,
        )

    def step(self, problem: Problem, state: State, k: int) -> None:
        """Make step k, counted from 1, with the gradient of a full mini-batch."""
        _, lanes, bias = self.layout.views(problem, state)
        m, reg = problem.m, problem.penalty
        W, G, Z = lanes[:, 0, :m], lanes[:, 1, :m], lanes[:, 2, :m]
        Z += G / self.batch
        q = reg.rho * k + self.beta if reg.rho > 0.0 else self.gamma * math.sqrt(k)
        W[:] = prox_all(reg, Z / -q, k / q)
        if problem.intercept:
            bias[2, :m] += bias[1, :m] / self.batch
            bias[0, :m] = bias[2, :m] / (-self.bias_gamma * math.sqrt(k))


def _check(optimizer: Any, problem: Problem) -> None:
    if optimizer.batch is not None and not optimizer.batch >= 1:
        raise ValueError(f"{type(optimizer).__name__}(batch={optimizer.batch!r}): it must be at least one example.")
    if problem.lams is not None:
        raise ValueError(f"{type(optimizer).__name__} takes one lam for all models.")


def _smoothness(
    optimizer: Any, problem: Problem, pilot: Pilot, matrix: Matrix, weights: np.ndarray
) -> tuple[int, float, float]:
    """Return the batch size B, L_top and L_B."""
    batch = int(optimizer.batch or problem.penalty.suggested_batch or BATCH)
    L_top = pilot.L_mean
    if len(matrix):
        h = problem.loss.smoothness / len(matrix) * weights.mean(1)
        L_top = largest_eigenvalue(*matrix[:4], h, problem.intercept)
    return batch, L_top, pilot.L_mean / batch + (1.0 - 1.0 / batch) * L_top


def _flush(layout: Layout, problem: Problem, state: State) -> None:
    """Add the iterate to its sum, weighted by the examples for which it was the iterate."""
    omega = state.clock[_OMEGA]
    if problem.sums and omega:
        _, lanes, bias = layout.views(problem, state)
        lanes[:, layout.lane] += omega * lanes[:, 0]
        bias[layout.bias] += omega * bias[0]
    state.clock[_OMEGA] = 0.0


def learn(rows: Rows, order: np.ndarray, schedule: Schedule, method: Any, state: State) -> None:
    """Add gradients at one point, and make a step whenever a mini-batch is full."""
    optimizer, problem, t, omega = schedule
    layout, B, m, width = optimizer.layout, optimizer.batch, problem.m, problem.width
    targets, weights = of_kernels(rows.targets).reshape(-1, width), rows.weights.reshape(-1, width)
    cells, (_, lanes, bias) = state.cell.reshape(problem.d, -1), layout.views(problem, state)
    smooth = squared_norms(rows.indptr, rows.data, order) + problem.intercept
    smooth *= problem.loss.smoothness * weights[: len(order), :m].max(1)
    k = 0
    while k < len(order):
        now = slice(k, min(k + B - t % B, len(order)))
        y, weight = np.ascontiguousarray(targets[now, :m]), weights[now, :m]
        where = *rows[:3], order[now]
        p = margins(*rows[:3], cells, bias[0, :m].copy(), order[now])
        with np.errstate(over="ignore", invalid="ignore"):
            c = weight * derivative(problem.loss, p, y)
            watched = {1: (omega[now, None] * c, add_rows)} if problem.sums > 1 else {}
            if problem.sums > 2:
                watched[2] = weight * curvature(problem.loss, p, y), add_squared_rows
        add_rows(*where, c, cells, width, bias[1])
        for field, (values, add) in watched.items():
            add(*where, values, cells, (layout.lane + field) * width, bias[layout.bias + field])
        for weight_now, smooth_now in zip(omega[now], smooth[now], strict=True):  # one by one, independent of chunks
            state.clock[_OMEGA] += weight_now
            state.clock[_SMOOTH] += smooth_now
            state.clock[_LARGEST] = max(state.clock[_LARGEST], smooth_now)
        t, k = t + now.stop - k, now.stop
        if t % B == 0:
            _flush(layout, problem, state)
            optimizer.step(problem, state, t // B)
            lanes[:, 1], bias[1] = 0.0, 0.0
            state.clock[:] = 0.0
