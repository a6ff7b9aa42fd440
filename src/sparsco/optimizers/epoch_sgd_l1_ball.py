"""Epoch-SGD in the L1 ball (Li, Yang, Zhang, Jin 2017): w <- the projection of w - eta c x onto {||w||_1 <= B}.

Optionally the iterates also stay within a distance of the epoch's start.  The cost is O(nonzeros) per example,
amortised, and the result equals a projection of the whole vector.

The lazy form.  A projection subtracts one threshold from every weight, so idle weights only need Theta, the sum of all
thresholds.  A cell stores v with |v| = |w| + Theta; a weight is zero where |v| <= Theta.  The threshold follows from
the norm W and the number N of nonzero weights: tau = Theta + (W - B) / N.  It is computed again without the weights
with |v| <= tau, until there are none (Michelot).

A radix queue finds these weights: see ``l1_ball_kernels``.

Sums of iterates are Abel sums.  There are n iterates so far, and C is the sum of their Thetas.  |v| n - C is added when
a weight is touched or becomes zero, and subtracted when it becomes nonzero.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..jit.dispatch import plain_python
from ..offsets import rows_from
from ..parts.contracts import Optimizer, part
from ..parts.projections import l1_ball, l1_ball_near
from ..penalties import L1Ball
from ..problem.bounds import Bounded, equal
from ..problem.state import Block, Layout, Problem, State
from ..steps import Halving
from .epoch_gd import EPOCH_START, EpochLayout, InEpochs, begin_epoch, check_epochs, ends_epoch, with_steps
from .l1_ball_kernels import ENTRIES, LISTS, PAGE, THETA, Queue, close, learn_ball, link, unit_of

_LONGEST = 1 << 14
"""The number of steps after which the cells are settled and Theta restarts from 0: sums lose digits as it grows."""
_FARTHEST = 2.0**12
"""The limit of Theta plus the norm before a projection, in radii: both cost |v|, W and the sums digits of precision."""


class Schedule(NamedTuple):
    """The arguments of the kernel, and the callbacks that finish a step at which it stops."""

    omega: np.ndarray
    queue: Queue
    project: Callable[[], None]
    more_pages: Callable[[], tuple[np.ndarray, np.ndarray]]


class BallBlock(Block):
    """The block of EpochSGD, which owns the queue of nonzero weights."""

    def __init__(self) -> None:
        super().__init__(1)
        self.end, self.pages, self.free = np.zeros(LISTS, np.uint32), np.zeros(0, np.uint32), np.zeros(1, np.uint32)
        self.place = np.zeros(0, np.uint8)
        self.loose, self.gone, self.size = np.zeros(0, np.uint32), np.zeros(0, np.uint32), np.zeros(0)

    def grow(self, d: int) -> None:
        """Make room for d features."""
        if d > len(self.place):
            self.place = np.append(self.place, np.zeros(d - len(self.place), np.uint8))
        if d >= len(self.loose):
            (self.loose, self.gone), self.size = np.zeros((2, d + 1), np.uint32), np.zeros(d + 1)
        if len(self.free) < self._needed():
            self.more_pages()

    def _needed(self) -> int:
        """Return the number of pages for every feature and the longest row, if every list ends in a partial page."""
        return 2 * (LISTS + len(self.place) // ENTRIES + 1)

    def more_pages(self) -> tuple[np.ndarray, np.ndarray]:
        """Add pages; return all pages and the list of the free ones."""
        old = len(self.pages) // PAGE
        new = old + self._needed()
        self.pages = np.append(self.pages, np.zeros((new - old) * PAGE, np.uint32))
        free = np.zeros(1 + new, np.uint32)
        free[: 1 + self.free[0]] = self.free[: 1 + self.free[0]]
        free[1 + free[0] : 1 + free[0] + new - old] = np.arange(old, new)
        free[0] += new - old
        self.free = free
        return self.pages, free

    def bounds(self, problem: Problem, state: State, t: int) -> Iterator[Bounded]:
        yield from super().bounds(problem, state, t)
        pages, d = len(self.pages) // PAGE, problem.d
        yield Bounded("the size of the lists", self.end, len(self.pages), size=LISTS)
        yield equal("the sizes of the pages", [pages * PAGE, pages + 1], [len(self.pages), len(self.free)])
        yield Bounded("the number of free pages", self.free[0], pages)
        last, used = self.end[self.end > 0].astype(np.int64), [self.free[1 : 1 + self.free[0]].astype(np.int64)]
        while len(last):  # the last pages of all lists, then those before them; no list has more pages than there are
            page = (last - 1) // PAGE
            used.append(page)
            yield Bounded("the pages of the lists", page, pages - 1)
            yield Bounded("the number of pages", sum(map(len, used)), pages)
            entries = [self.pages[at * PAGE + 1 : end] for at, end in zip(page.tolist(), last.tolist(), strict=True)]
            yield Bounded("the features of the lists", np.concatenate(entries), d - 1)
            last = self.pages[page * PAGE].astype(np.int64)
            last = last[last > 0]
        yield equal("the pages", np.sort(np.concatenate(used)), np.arange(pages))
        yield Bounded("the lists of features", self.place, LISTS)
        yield equal("the sizes of scratch", [len(self.gone), len(self.size)], 2 * [len(self.loose)])

    def __getstate__(self) -> dict[str, Any]:
        empty = {"loose": self.loose[:0], "gone": self.gone[:0], "size": self.size[:0]}
        return super().__getstate__() | empty


class BallSteps(NamedTuple):
    """Steps that halve, with a cap; the default is eta1 = 1 / L_mean in an epoch of twice the pilot's rows.

    The problem is not strongly convex, so there is no epoch length that would halve the error.
    """

    T1: int | None = None
    eta1: float | None = None

    def resolve(self, problem: Problem, pilot: Any) -> Halving:
        """Return the step rule with T1 and eta1 filled in."""
        T1 = 2 * max(pilot.n, 1) if self.T1 is None else int(self.T1)
        return Halving(T1, 1.0 / pilot.L_mean if self.eta1 is None else float(self.eta1))


@part(
    Optimizer,
    T1="examples in the first epoch; None: from the first rows",
    eta1="the first epoch's step; None: from the first rows",
    rho1="how far the first epoch's iterates may go from its start",
)
class EpochSGD(NamedTuple):
    """Epoch-SGD, projected SGD in the L1 ball: each epoch doubles the examples, halves the step and starts at the mean.

    It requires the penalty ``L1Ball(radius)``, whose radius may be None; each model has its own ball.

    Parameters
    ----------
    T1 : int or None
        The number of examples in the first epoch.  None: from the pilot rows.
    eta1 : float or None
        The step size of the first epoch.  None: from the pilot rows.
    rho1 : float
        The distance within which the iterates of the first epoch stay from its start; in epoch k it is
        rho1 / sqrt(2)^(k - 1).  The paper's theory requires a finite distance, but it can exclude the optimum.  Steps
        that would leave this ball cost O(features), as do steps of four thousand radii.
    """

    T1: int | None = None
    eta1: float | None = None
    rho1: float = math.inf

    uses_steps = True
    supported_penalties = ("l1-ball",)
    penalises_each_model = True
    l2_term = "excluded"
    max_models = 1
    works_in_epochs = True
    starts_anywhere = True

    @property
    def layout(self) -> Layout:
        """Return the layout of a cell: v and, where distances are bounded, the epoch's start."""
        return EpochLayout(shared=0, lane=1 + (self.rho1 < math.inf), bias=1, clock=10)

    @property
    def learn(self):
        return _LEARN

    def check(self, problem: Problem) -> None:
        """Raise for parameters or a problem that the optimizer does not support."""
        if not isinstance(problem.penalty, L1Ball):
            raise ValueError(self.refusal(problem.penalty))
        check_epochs(self)
        if not self.rho1 > 0.0:
            raise ValueError(f"EpochSGD(rho1={self.rho1!r}): the distance must be positive, or infinite for none.")

    def refusal(self, penalty: Any) -> str:
        """Return the error message for another penalty."""
        return (
            "EpochSGD projects onto an L1 ball and takes no other penalty: give "
            "penalty=sparsco.penalties.L1Ball(radius), without an L2 term; L1Ball(None) finds a radius."
        )

    def default_rule(self, problem: Problem) -> BallSteps:
        """Return the step rule for users who give none."""
        return BallSteps(self.T1, self.eta1)

    def resolve(self, problem: Problem, pilot: Any, rule: Any = None) -> EpochSGD:
        """Return the record with T1 and eta1 filled in; where T1 is given, any rule is accepted."""
        return self if self.T1 is not None and not isinstance(rule, Halving) else with_steps(self, rule)

    def next_epoch(self, t: int) -> int:
        """Return the number of examples at which the current epoch, after t examples, ends."""
        return Halving(self.T1, self.eta1).end(t)

    def is_lazy(self, problem: Problem, uniform: bool) -> bool:
        """Return whether the watched sums are exact at O(nonzeros): only for the unweighted sums of the epoch."""
        return uniform

    def start(self, problem: Problem) -> tuple[State, BallBlock]:
        return self.layout.new_state(problem), BallBlock()

    def place(self, problem: Problem, state: State, w: np.ndarray, b: np.ndarray) -> None:
        """Start from the point of the ball nearest w (d, 1), and from b."""
        _, lanes, bias = self.layout.views(problem, state)
        lanes[:, : self.layout.lane, 0] = l1_ball(w, problem.penalty.radius)
        if problem.intercept:
            bias[0, 0] = b[0]

    def schedule(
        self, problem: Problem, state: State, block: BallBlock, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> Schedule:
        """Return the arrays for the next ``len(eta)`` steps, or for fewer: the cells are settled at an epoch's end."""
        block.grow(problem.d)
        if t == 0:  # a starting point
            self._link(problem, state, block)
        end = min(self.next_epoch(t), block.start + _LONGEST)
        eta = eta[: end - t]
        block.full = block.full or t + len(eta) == end
        bias_eta = eta if problem.intercept else 0.0 * eta
        queue = Queue(
            eta,
            bias_eta,
            block.end,
            block.pages,
            block.free,
            block.place,
            unit_of(problem.penalty.radius),
            self._near(state, 1e-9),
            _FARTHEST * problem.penalty.radius,
            block.loose,
            block.size,
            block.gone,
        )
        project = functools.partial(self.project, problem, state, block)
        return Schedule(np.ones(len(eta)), queue, project, block.more_pages)

    def _near(self, state: State, slack: float) -> float:
        """Return the squared radius around the epoch's start, less a relative slack."""
        epoch = round(math.log2(state.clock[EPOCH_START] / self.T1 + 1.0))  # T1 (2^k - 1) examples came before epoch k
        return self.rho1**2 / 2.0**epoch * (1.0 - slack)

    def settle(self, problem: Problem, state: State, block: BallBlock, t: int) -> None:
        """Bring every weight and its sum up to date, set Theta = 0, and start a new epoch if one ended."""
        self._close(problem, state)
        if ends_epoch(self, state, t):
            begin_epoch(self.layout, problem, state, t)
            if self.rho1 < math.inf:
                lanes = self.layout.views(problem, state)[1]
                lanes[:, 1] = lanes[:, 0]
        self._link(problem, state, block)
        block.start, block.full = t, False

    def _close(self, problem: Problem, state: State) -> None:
        """Set v = w and Theta = 0, and complete the sums."""
        close(state.cell, state.clock, self.layout.stride(problem), self.layout.lane)

    def _link(self, problem: Problem, state: State, block: BallBlock) -> None:
        """Rebuild the queue and the sums over nonzero weights, for cells that are settled."""
        block.grow(problem.d)
        shape = self.layout.stride(problem), self.layout.lane, unit_of(problem.penalty.radius)
        free = len(block.free) - 1
        block.free[0], block.free[1:] = free, np.arange(free)
        link(state.cell, state.clock, block.end, block.pages, block.free, block.place, *shape)

    def project(self, problem: Problem, state: State, block: BallBlock) -> None:
        """Finish a step by the projection onto the ball, or onto both balls, over all features; set Theta = 0."""
        self._close(problem, state)
        _, lanes, _ = self.layout.views(problem, state)
        v, radius = lanes[:, 0, 0], problem.penalty.radius
        if not np.isfinite(v).all():
            lanes[:, 0, 0] = math.nan  # the run has diverged, and says so
        elif self.rho1 < math.inf:
            near = math.sqrt(self._near(state, 0.0))
            lanes[:, 0, 0] = l1_ball_near(v, radius, lanes[:, 1, 0], near, tol=0.0)
        else:
            lanes[:, 0, 0] = l1_ball(v, radius)
        self._link(problem, state, block)

    def weights(self, problem: Problem, state: State, block: BallBlock, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the iterate after t examples; at an epoch's end this is the mean of its iterates."""
        if ends_epoch(self, state, t):
            state, block = state.copy(), block.copy()
            self.settle(problem, state, block, t)
        _, lanes, bias = self.layout.views(problem, state)
        return _iterate(lanes[:, 0, :1], state.clock[THETA]), bias[0, :1].copy()


def _iterate(v: np.ndarray, theta: float) -> np.ndarray:
    return np.where(np.abs(v) > theta, np.copysign(np.abs(v) - theta, v), 0.0)


class Learn:
    """The dispatcher of the kernel: it finishes each step at which the kernel stops."""

    def __call__(self, rows: Any, order: Any, schedule: Any, method: Any, state: Any) -> None:
        method, (_, queue, project, more_pages) = method._replace(watch=InEpochs(method.watch)), schedule
        while len(order):
            done = learn_ball(rows, order, queue, method, state)
            if done < 0:
                project()
                done = -done
            elif done < len(order):
                pages, free = more_pages()
                queue = queue._replace(pages=pages, free=free)
            rows = rows._replace(targets=rows_from(rows.targets, done), weights=rows.weights[done:])
            queue = queue._replace(eta=queue.eta[done:], bias_eta=queue.bias_eta[done:])
            order = order[done:]

    def py_func(self, rows: Any, order: Any, schedule: Any, method: Any, state: Any) -> None:
        """Run the same code in plain Python, uncompiled."""
        with plain_python():
            self(rows, order, schedule, method, state)


_LEARN = Learn()
