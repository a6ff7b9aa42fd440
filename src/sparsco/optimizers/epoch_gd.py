"""Epoch-GD (Hazan, Kale 2011): constant steps within an epoch, halved from one epoch to the next.

Each epoch is twice as long as the one before and starts from the mean of that epoch's iterates.  The steps are those
of FOBOS (L1 and L2 in the prox), and so is the kernel.

The kernel always sums iterates.  The conversion uses that sum A too, and sets it to zero when a window ends.  A spare
number E at the end of each cell holds the rest: the epoch's sum is E + A at any time.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..parts.contracts import Optimizer, part
from ..problem.bounds import Bounded
from ..problem.state import Block, Problem, State, aligned_zeros, n_sums
from ..steps import Halving
from . import fobos
from .fobos import FOBOS

EPOCH_START = 0
"""The entry of the clock: the number of examples before the current epoch."""
_LONGEST = 1 << 16
"""The number of steps after which the cells are settled: it keeps the table of prefix sums small in long epochs."""


class InEpochs(NamedTuple):
    """The watch of the kernel: sums of iterates in any case, the conversion's own watch, and room for E."""

    watch: Any

    def n_sums(watch) -> int:  # noqa: N805
        return n_sums(watch.watch) if n_sums(watch.watch) > 0 else 1

    def spare_fields(watch) -> int:  # noqa: N805
        return 1


class EpochLayout(fobos.CellLayout):
    """A layout with A even where no sums are watched, and with E at the end of the cells and of the intercept."""

    __slots__ = ()

    def _fields(self, problem: Problem) -> int:
        return max(problem.sums, 1) + 1

    def stride(self, problem: Problem) -> int:
        return self.shared + (self.lane + self._fields(problem)) * problem.width

    def new_state(self, problem: Problem) -> State:
        bias = aligned_zeros((self.bias + self._fields(problem)) * problem.width)
        return super().new_state(problem)._replace(bias=bias)

    def cells_of(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray]:
        touched = state.cell.reshape(problem.d, -1)[:, : self.shared]
        return touched, self._whole(problem, state)[0][:, : self.lane + problem.sums]

    def bias_of(self, problem: Problem, state: State) -> np.ndarray:
        return self._whole(problem, state)[1][: self.bias + problem.sums]

    def bounds(self, problem: Problem, state: State, block: Block, t: int) -> Iterator[Bounded]:
        yield Bounded("the beginning of the epoch", state.clock[EPOCH_START], float(t), is_whole=True)
        if self.shared:
            yield from super().bounds(problem, state, block, t)

    def epoch(self, problem: Problem, state: State) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Return views of A and E: of the cells (d, width) and of the intercept (width)."""
        cell, bias = self._whole(problem, state)
        return (cell[:, self.lane], cell[:, -1]), (bias[self.bias], bias[-1])

    def _whole(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray]:
        cell = state.cell.reshape(problem.d, self.stride(problem))[:, self.shared :]
        return cell.reshape(problem.d, -1, problem.width), state.bias.reshape(-1, problem.width)

    def restart_sums(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray]:
        for A, E in self.epoch(problem, state):
            E += A
        return super().restart_sums(problem, state)

    def relaid(self, old: Problem, state: State, new: Problem, fresh: State) -> State:
        fresh = super().relaid(old, state, new, fresh)
        for (A, E), (to_A, to_E) in zip(self.epoch(old, state), self.epoch(new, fresh), strict=True):
            if old.sums == new.sums:
                to_A[..., : old.m], to_E[..., : old.m] = A[..., : old.m], E[..., : old.m]
            else:  # from now on A belongs to the conversion
                to_E[..., : old.m] = (E + A)[..., : old.m]
        return fresh


@part(
    Optimizer,
    T1="examples in the first epoch; None: from the first rows",
    eta1="the first epoch's step; None: from the first rows",
)
class EpochGD(NamedTuple):
    """Epoch gradient descent: epochs that double in length, with steps that halve.

    Parameters
    ----------
    T1 : int or None
        The number of examples in the first epoch.  None: from the pilot rows.
    eta1 : float or None
        The step size of the first epoch.  None: from the pilot rows.
    """

    T1: int | None = None
    eta1: float | None = None

    layout = EpochLayout(shared=1, lane=1, bias=1, clock=1)
    columns = FOBOS.columns
    uses_steps = True
    supported_penalties = ("absolute", "separable", "grouped")
    l2_term = "required"
    works_in_epochs = True
    starts_anywhere = True

    @property
    def learn(self):
        return _LEARN

    def check(self, problem: Problem) -> None:
        """Raise for parameters or a problem that the optimizer does not support."""
        check_epochs(self)

    def default_rule(self, problem: Problem) -> Halving:
        """Return the step rule for users who give none."""
        return Halving(self.T1, self.eta1)

    def resolve(self, problem: Problem, pilot: Any, rule: Any = None) -> EpochGD:
        """Return the record with T1 and eta1 filled in."""
        return with_steps(self, rule)

    def next_epoch(self, t: int) -> int:
        """Return the number of examples at which the current epoch, after t examples, ends."""
        return Halving(self.T1, self.eta1).end(t)

    def is_lazy(self, problem: Problem, uniform: bool) -> bool:
        """Return whether the watched sums are exact at O(nonzeros): only for the unweighted sums of the epoch."""
        return uniform

    start = fobos.start

    def schedule(
        self, problem: Problem, state: State, block: Block, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> fobos.Schedule:
        """Return the arrays for the next ``len(eta)`` steps, or for fewer: the cells are settled at an epoch's end."""
        end = min(self.next_epoch(t), block.start + _LONGEST)
        n = min(len(eta), end - t)
        schedule = fobos.make_schedule(_own(problem), block, t, eta[:n], np.ones(n), eta[:n])
        block.full = block.full or t + len(schedule.omega) == end
        return schedule

    def settle(self, problem: Problem, state: State, block: Block, t: int) -> None:
        """Bring every coordinate and its sums up to date, start a new block and, at an epoch's end, an epoch."""
        fobos.settle_block(_own(problem), state, block, t)
        if ends_epoch(self, state, t):
            begin_epoch(self.layout, problem, state, t)

    def weights(self, problem: Problem, state: State, block: Block, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the iterate after t examples; at an epoch's end this is the mean of its iterates."""
        if ends_epoch(self, state, t):
            state, block = state.copy(), block.copy()
            self.settle(problem, state, block, t)
        return fobos.iterate(self.layout, problem, state, block, t)


def check_epochs(optimizer: Any) -> None:
    """Raise for an invalid first epoch."""
    name, T1, eta1 = type(optimizer).__name__, optimizer.T1, optimizer.eta1
    if T1 is not None and not (isinstance(T1, numbers.Integral) and T1 >= 1):
        raise ValueError(f"{name}(T1={T1!r}): T1 is a whole number of examples, at least 1.")
    if eta1 is not None and not 0.0 < eta1 < np.inf:
        raise ValueError(f"{name}(eta1={eta1!r}): eta1 must be a positive number.")


def with_steps(optimizer: Any, rule: Any) -> Any:
    """Return the optimizer with the first epoch of its own rule filled in; raise for any other rule."""
    if not isinstance(rule, Halving):
        name = type(optimizer).__name__
        raise ValueError(
            f"{name} has its own steps, halved with every epoch, not {type(rule).__name__}: leave step_size at 'auto' "
            f"and give {name}(T1=..., eta1=...)."
        )
    return optimizer._replace(T1=rule.T1, eta1=rule.eta1)


def ends_epoch(optimizer: Any, state: State, t: int) -> bool:
    """Return whether an epoch ends here whose successor has not begun."""
    return t == optimizer.next_epoch(int(state.clock[EPOCH_START]))


def begin_epoch(layout: EpochLayout, problem: Problem, state: State, t: int) -> None:
    """Start an epoch: set every iterate to the mean of the epoch that ends, in cells that are settled."""
    _, lanes, bias = layout.views(problem, state)
    for start, (A, E) in zip((lanes[:, 0], bias[0]), layout.epoch(problem, state), strict=True):
        start[:] = (E + A) / (t - state.clock[EPOCH_START])
        E[:] = -A
    state.clock[EPOCH_START] = t


def epoch_mean(optimizer: Any, problem: Problem, state: State, block: Block, t: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean iterate of the current epoch after t examples; at an epoch's end, of the epoch that ends."""
    state, block = state.copy(), block.copy()
    optimizer.settle(problem, state, block, t)
    if t > state.clock[EPOCH_START]:
        begin_epoch(optimizer.layout, problem, state, t)
    _, lanes, bias = optimizer.layout.views(problem, state)
    return lanes[:, 0, : problem.m], bias[0, : problem.m]


def _own(problem: Problem) -> Problem:
    return problem._replace(watch=InEpochs(problem.watch))


class Learn:
    """The kernel of FOBOS with the sums of iterates that an epoch needs."""

    def __call__(self, rows: Any, order: Any, schedule: Any, method: Any, state: Any) -> None:
        fobos.learn(rows, order, schedule, method._replace(watch=InEpochs(method.watch)), state)

    def py_func(self, rows: Any, order: Any, schedule: Any, method: Any, state: Any) -> None:
        """Run the same code in plain Python, uncompiled."""
        fobos.learn.py_func(rows, order, schedule, method._replace(watch=InEpochs(method.watch)), state)


_LEARN = Learn()
