"""Epoch-SGD in the L1 ball (Li, Yang, Zhang, Jin 2017): w <- the projection of w - eta c x onto {||w||_1 <= B}, perhaps
within a distance of the epoch's start; O(nonzeros) per example, amortised, equal to projecting the whole vector.

The lazy form.  A projection takes the same threshold off every weight, so Theta, the sum of all thresholds, is all that
idle weights need: a cell stores v with |v| = |w| + Theta, and a weight is zero where |v| <= Theta.  The threshold comes
from the norm W and the number N of nonzero weights: tau = Theta + (W - B) / N, again without those whose |v| <= tau,
until none is (Michelot).  These are found in a radix queue.  Written in units of B / 2^30, |v| and Theta agree down to
some binary digit; that digit is the list which a weight is in.  When Theta has moved to tau only lists up to the first
digit that changed can hold a weight below tau, and what is left of them goes to lower lists.  A weight may stay in a
list below its own: touches that let it grow move nothing.

Sums of iterates are Abel sums: with n iterates and C the sum of their Thetas so far, a weight's end of life, or touch,
adds |v| n - C, and its beginning takes that off.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..dispatch import U, inlined, kernel, plain_python
from ..lanes import maximum, minimum
from ..losses import curvature, derivative
from ..projections import l1_ball, l1_ball_near
from ..records import Block, Layout, Problem, State, tracks
from ..regularizers import L1Ball
from ..steps import Halving
from .epoch import EpochLayout, InEpochs, begin_epoch, check_epochs, ends_epoch, with_steps

_LONGEST = 1 << 14
"""Steps after which the cells are settled and Theta starts again from 0: sums lose digits as it grows."""
_DIGITS = 30
_EPOCH, _THETA, _COUNT, _C, _W, _N, _W2, _X, _X0, _CC = range(10)
"""The clock: the epoch's start; Theta, n, C; W, N; for the distance from the epoch's start c the sums over the nonzero
weights of w^2, of w c and of sign(w) c, and c's squared norm."""


class Queue(NamedTuple):
    """Per row the steps of the weights and of the intercept.  The first feature of each list; of each feature the next,
    the one before and the list's number; all counted from 1, 0 is none.  ``unit``: digits of |v|; ``near``: the squared
    distance from the epoch's start below which the L1 ball alone counts; scratch."""

    eta: np.ndarray
    bias_eta: np.ndarray
    head: np.ndarray
    after: np.ndarray
    before: np.ndarray
    place: np.ndarray
    unit: float
    near: float
    fresh: np.ndarray


class Schedule(NamedTuple):
    """What the kernel takes, and what finishes a step for which it stops."""

    omega: np.ndarray
    queue: Queue
    keep_near: Callable[[], None]


class BallBlock(Block):
    """With the queue of nonzero weights."""

    def __init__(self) -> None:
        super().__init__(1)
        self.head = np.zeros(64, np.uint32)
        self.after, self.before, self.place = np.zeros(0, np.uint32), np.zeros(0, np.uint32), np.zeros(0, np.uint8)

    def grow(self, d: int) -> None:
        """Room for d features."""
        more = d - len(self.place)
        if more > 0:
            self.after, self.before, self.place = (
                np.append(part, np.zeros(more, part.dtype)) for part in (self.after, self.before, self.place)
            )


class EpochSGD(NamedTuple):
    """Projected SGD in epochs: ``T1`` examples with steps ``eta1``, then twice as many with steps half as large from the
    mean of the iterates, and so on; both from the pilot where None.

    It learns with ``L1Ball(radius)``, whose radius may be open too; each model has a ball of its own.  ``rho1`` < inf
    also keeps the first epoch's iterates within that distance of its start, later ones within rho1 / sqrt(2)^(k - 1):
    the paper's theory asks for it, and it can exclude the optimum.  Steps that would leave that ball cost O(features).
    """

    T1: int | None = None
    eta1: float | None = None
    rho1: float = math.inf

    columns = 1
    uses_steps = True
    kinds = ("global",)
    models = 1

    @property
    def layout(self) -> Layout:
        """v and, where distances count, the epoch's start."""
        return EpochLayout(shared=0, lane=1 + (self.rho1 < math.inf), bias=1, clock=10)

    @property
    def learn(self):
        return _LEARN

    def check(self, problem: Problem) -> None:
        """Refuse what cannot be done."""
        if not isinstance(problem.regularizer, L1Ball) or problem.regularizer.rho > 0.0:
            raise ValueError(
                "EpochSGD projects onto an L1 ball and takes no other penalty: give penalty=sparsco.L1Ball(radius), "
                "without an L2 term; L1Ball(None) finds a radius."
            )
        check_epochs(self)
        if not self.rho1 > 0.0:
            raise ValueError(f"EpochSGD(rho1={self.rho1!r}): the distance must be positive, or infinite for none.")

    def default_rule(self, problem: Problem) -> Halving:
        """The steps where the user gives no rule."""
        return Halving(self.T1, self.eta1)

    def resolve(self, problem: Problem, pilot: Any, rule: Any = None) -> EpochSGD:
        """The record with T1 and eta1 filled in."""
        return with_steps(self, rule)

    def next_epoch(self, t: int) -> int:
        """The number of examples at which the epoch that is under way after t examples ends."""
        return Halving(self.T1, self.eta1).end(t)

    def is_lazy(self, problem: Problem, uniform: bool) -> bool:
        """Whether the watched sums are exact at O(nonzeros): where they are the epoch's, unweighted."""
        return uniform

    def is_dense(self, problem: Problem) -> bool:
        """Whether every example costs O(d): never."""
        return False

    def start(self, problem: Problem) -> tuple[State, BallBlock]:
        return self.layout.new_state(problem), BallBlock()

    def place(self, problem: Problem, state: State, w: np.ndarray, b: np.ndarray) -> None:
        """Start from the point of the ball nearest w (d, 1), and from b."""
        _, lanes, bias = self.layout.views(problem, state)
        lanes[:, : self.layout.lane, 0] = l1_ball(w, problem.regularizer.radius)
        if problem.intercept:
            bias[0, 0] = b[0]

    def schedule(
        self, problem: Problem, state: State, block: BallBlock, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> Schedule:
        """The arrays for the next ``len(eta)`` steps, or for fewer: an epoch's end is a settling."""
        block.grow(problem.d)
        if t == 0:  # a starting point
            self._link(problem, state, block)
        end = min(self.next_epoch(t), block.start + _LONGEST)
        eta = eta[: end - t]
        block.full = block.full or t + len(eta) == end
        bias_eta = eta if problem.intercept else 0.0 * eta
        queue = Queue(
            eta, bias_eta, block.head, block.after, block.before, block.place, _unit(problem.regularizer.radius),
            self._near(state, 1e-9), block.noted,
        )  # fmt: skip
        return Schedule(np.ones(len(eta)), queue, functools.partial(self.keep_near, problem, state, block))

    def _near(self, state: State, slack: float) -> float:
        """The squared radius round the epoch's start, less some slack."""
        epoch = round(math.log2(state.clock[_EPOCH] / self.T1 + 1.0))  # T1 (2^k - 1) examples came before epoch k
        return self.rho1**2 / 2.0**epoch * (1.0 - slack)

    def settle(self, problem: Problem, state: State, block: BallBlock, t: int) -> None:
        """Bring every weight and its sum up to date, Theta = 0, and where an epoch ended begin the next."""
        self._close(problem, state)
        if ends_epoch(self, state, t):
            begin_epoch(self.layout, problem, state, t)
            if self.rho1 < math.inf:
                lanes = self.layout.views(problem, state)[1]
                lanes[:, 1] = lanes[:, 0]
        self._link(problem, state, block)
        block.start, block.full = t, False

    def _close(self, problem: Problem, state: State) -> None:
        """v = w, the sums complete."""
        _, lanes, _ = self.layout.views(problem, state)
        v, clock = lanes[:, 0, 0], state.clock
        alive = np.abs(v) > clock[_THETA]
        (A, _), _ = self.layout.epoch(problem, state)
        A[alive, 0] += np.copysign(np.abs(v[alive]) * clock[_COUNT] - clock[_C], v[alive])
        v[:] = _iterate(v, clock[_THETA])
        clock[_THETA] = clock[_COUNT] = clock[_C] = 0.0

    def _link(self, problem: Problem, state: State, block: BallBlock) -> None:
        """The queue and the sums over nonzero weights anew, for cells that are settled."""
        block.grow(problem.d)
        _, lanes, _ = self.layout.views(problem, state)
        alive = np.flatnonzero(lanes[:, 0, 0])
        w = lanes[alive, 0, 0]
        c = lanes[alive, 1, 0] if self.rho1 < math.inf else 0.0 * w
        state.clock[_W : _CC + 1] = (
            np.abs(w).sum(), len(w), w @ w, w @ c, np.sign(w) @ c, c @ c + self._start_outside(lanes, alive),
        )  # fmt: skip
        block.head[:], block.place[:] = 0, 0
        level = np.frexp(np.floor(np.minimum(np.abs(w) * _unit(problem.regularizer.radius), _MOST)))[1]
        block.place[alive] = level + 1
        order = np.argsort(level, kind="stable")
        feature, ends = alive[order] + 1, np.flatnonzero(np.diff(level[order], append=-1))
        block.after[feature - 1], block.before[feature - 1] = np.append(feature[1:], 0), np.append(0, feature[:-1])
        starts = np.append(0, ends[:-1] + 1) if len(ends) else ends
        block.after[feature[ends] - 1], block.before[feature[starts] - 1] = 0, 0
        block.head[level[order][starts]] = feature[starts]

    def _start_outside(self, lanes: np.ndarray, alive: np.ndarray) -> float:
        """The squared norm of the epoch's start where the weight is zero."""
        if self.rho1 == math.inf:
            return 0.0
        start = lanes[:, 1, 0].copy()
        start[alive] = 0.0
        return float(start @ start)

    def keep_near(self, problem: Problem, state: State, block: BallBlock) -> None:
        """Finish a step by the projection onto both balls at once, over all features."""
        self._close(problem, state)
        _, lanes, _ = self.layout.views(problem, state)
        radius = math.sqrt(self._near(state, 0.0))
        lanes[:, 0, 0] = l1_ball_near(lanes[:, 0, 0], problem.regularizer.radius, lanes[:, 1, 0], radius, tol=0.0)
        self._link(problem, state, block)

    def weights(self, problem: Problem, state: State, block: BallBlock, t: int) -> tuple[np.ndarray, np.ndarray]:
        """The iterate after t examples, at an epoch's end the mean of its iterates."""
        if ends_epoch(self, state, t):
            state, block = state.copy(), copy.deepcopy(block)
            self.settle(problem, state, block, t)
        _, lanes, bias = self.layout.views(problem, state)
        return _iterate(lanes[:, 0, :1], state.clock[_THETA]), bias[0, :1].copy()


def _iterate(v: np.ndarray, theta: float) -> np.ndarray:
    return np.where(np.abs(v) > theta, np.copysign(np.abs(v) - theta, v), 0.0)


_MOST = 2.0**52


def _unit(radius: float) -> float:
    """Digits count from radius / 2^30, rounded to a power of two."""
    return math.ldexp(1.0, _DIGITS - math.frexp(radius)[1])


class Learn:
    """The kernel, and the projection of the whole vector wherever it stops for one."""

    def __call__(self, rows: Any, order: Any, schedule: Any, method: Any, state: Any) -> None:
        method, (_, queue, keep_near) = method._replace(watch=InEpochs(method.watch)), schedule
        while len(order):
            done = learn_ball(rows, order, queue, method, state)
            if done < 0:
                keep_near()
                done = -done
            rows = rows._replace(targets=rows.targets[done:], weights=rows.weights[done:])
            queue = queue._replace(eta=queue.eta[done:], bias_eta=queue.bias_eta[done:])
            order = order[done:]

    def py_func(self, rows: Any, order: Any, schedule: Any, method: Any, state: Any) -> None:
        """In plain Python."""
        with plain_python():
            self(rows, order, schedule, method, state)


_LEARN = Learn()


@inlined
def _digits(u, unit):
    """u in units, a whole number."""
    return np.int64(minimum(u * unit, _MOST))


@inlined
def _list(a, b):
    """The list of what differs from b in this binary digit first; 0 where it does not."""
    return U(math.frexp(float(a ^ b))[1])


@kernel
def learn_ball(rows, order, queue, method, state):
    """Projected SGD over the rows in ``order``.  How many were learned; negative where the projection that ends the
    last one is left to ``keep_near``."""
    indptr, indices, data, targets, weights = rows
    loss, reg, _, watch, _ = method
    eta, bias_eta, head, after, before, place, unit, near, fresh = queue
    cell, bias, clock = state
    sums, one, is_near, leaves = U(tracks(watch)), U(1), near < np.inf, False
    first = one + U(is_near)  # where the sums begin in a cell
    stride, radius, b, learned = first + sums + one, reg.radius, bias[0], 0
    theta, n, C, W, N = clock[1], clock[2], clock[3], clock[4], clock[5]
    W2, X, X0 = clock[6], clock[7], clock[8]
    here = _digits(theta, unit)
    while (learned < order.size) & (not leaves):
        k = U(learned)
        i = U(order[k])
        start, stop = U(indptr[i]), U(indptr[i + one])
        margin = b
        for p in range(start, stop):
            v = cell[U(indices[p]) * stride]
            size = maximum(abs(v) - theta, 0.0)
            margin += (size if v > 0.0 else -size) * data[p]
        g = weights[k] * derivative(loss, margin, targets[k])
        c, newborn, curve = eta[k] * g, U(0), 0.0
        if sums > 2:
            curve = weights[k] * curvature(loss, margin, targets[k])
        n += 1.0
        C += theta
        for p in range(start, stop):  # the gradient step; who was zero is not in the queue yet
            j = U(indices[p])
            at = j * stride
            v, w = cell[at], 0.0
            u = abs(v)
            if u > theta:
                w = u - theta if v > 0.0 else theta - u
                W, N = W - (u - theta), N - 1.0
                through = u * n - C
                cell[at + first] += through if v > 0.0 else -through
                if is_near:
                    W2, X = W2 - w * w, X - w * cell[at + one]
                    X0 -= cell[at + one] if w > 0.0 else -cell[at + one]
            w -= c * data[p]
            u = abs(w) + theta
            cell[at] = 0.0
            if u > theta:
                cell[at] = u if w > 0.0 else -u
                W, N = W + (u - theta), N + 1.0
                if is_near:
                    W2, X = W2 + w * w, X + w * cell[at + one]
                    X0 += cell[at + one] if w > 0.0 else -cell[at + one]
                if place[j] == 0:
                    fresh[newborn] = j
                    newborn += one
                else:
                    through = u * n - C
                    cell[at + first] -= through if w > 0.0 else -through
                    to = _list(_digits(u, unit), here)
                    if to + one < U(place[j]):  # it would be found too late: out of its list, into a lower one
                        a, z = U(after[j]), U(before[j])
                        if z > U(0):
                            after[z - one] = a
                        else:
                            head[U(place[j]) - one] = a
                        if a > U(0):
                            before[a - one] = z
                        a = U(head[to])
                        if a > U(0):
                            before[a - one] = j + one
                        head[to], after[j], before[j], place[j] = j + one, a, U(0), to + one
            if sums > 1:
                cell[at + first + one] += g * data[p]
            if sums > 2:
                cell[at + first + U(2)] += curve * data[p] * data[p]
        bias[1] += b
        if sums > 1:
            bias[2] += g
        if sums > 2:
            bias[3] += curve
        b -= bias_eta[k] * g
        leaves = is_near & (W2 - 2.0 * X + clock[9] > near)
        if (W > radius) & (not leaves):
            tau, falling = theta, True
            while falling & (N > 0.0):  # who is at most tau leaves, which raises tau, until nobody does
                tau, falling, alive = theta + (W - radius) / N, False, U(0)
                for e in range(newborn):
                    at = U(fresh[e]) * stride
                    u = abs(cell[at])
                    fresh[alive] = fresh[e]
                    alive += U(u > tau)
                    if u <= tau:
                        W, N, falling = W - (u - theta), N - 1.0, True
                        if is_near:
                            w = u - theta if cell[at] > 0.0 else theta - u
                            W2, X = W2 - w * w, X - w * cell[at + one]
                            X0 -= cell[at + one] if w > 0.0 else -cell[at + one]
                newborn, there = alive, _digits(tau, unit)
                for level in range(_list(here, there) + one):
                    nxt = U(head[level])
                    head[level] = 0
                    while nxt > U(0):
                        j = nxt - one
                        at, nxt = j * stride, U(after[j])
                        v = cell[at]
                        u = abs(v)
                        if u > tau:
                            to = _list(_digits(u, unit), there)
                            a = U(head[to])
                            if a > U(0):
                                before[a - one] = j + one
                            head[to], after[j], before[j], place[j] = j + one, a, U(0), to + one
                        else:
                            place[j] = 0
                            if v != 0.0:
                                W, N, falling = W - (u - theta), N - 1.0, True
                                through = u * n - C
                                cell[at + first] += through if v > 0.0 else -through
                                if is_near:
                                    w = u - theta if v > 0.0 else theta - u
                                    W2, X = W2 - w * w, X - w * cell[at + one]
                                    X0 -= cell[at + one] if w > 0.0 else -cell[at + one]
                here = there
            fall = tau - theta
            W2, X = W2 - fall * (2.0 * W - fall * N), X - fall * X0
            W, theta = W - fall * N, tau
        for e in range(newborn):  # into the queue
            j = U(fresh[e])
            at = j * stride
            v = cell[at]
            u = abs(v)
            through = u * n - C
            cell[at + first] -= through if v > 0.0 else -through
            to = _list(_digits(u, unit), here)
            a = U(head[to])
            if a > U(0):
                before[a - one] = j + one
            head[to], after[j], before[j], place[j] = j + one, a, U(0), to + one
        learned += 1
    bias[0], clock[1], clock[2], clock[3], clock[4], clock[5] = b, theta, n, C, W, N
    clock[6], clock[7], clock[8] = W2, X, X0
    return -learned if leaves else learned
