"""Windows of a run: which iterates are summed, and the gradient phases between them.

Kernels sum in the optimizer's state, and lazily.  Where they cannot, the sums are here, in O(features) per example.
A window may rotate: it becomes the previous one, and means are over both.  A gradient phase interrupts learning: it
sums gradients at the mean of the window.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..conversions.gradient_phase import FixedPoint
from ..penalties import prox
from ..problem.fading import Fading
from ..problem.state import Means, Problem, Rows, State, compacted, padded, widened
from .iterates import Iterate
from .resolving import MANY_FEATURES, Warn


def _sum_after(total: float, more: np.ndarray) -> float:
    """Return the total plus these numbers, added one after the other, whatever the cut; whole numbers count at once."""
    if total % 1.0 == 0.0 and np.all(more == 1.0):
        return total + len(more)
    parts = np.empty(len(more) + 1)
    parts[0], parts[1:] = total, more
    return float(np.add.accumulate(parts, out=parts)[-1])


class Windows:
    """The current window of a run, the one before it, and the gradient phase."""

    def __init__(self) -> None:
        self.weight = 0.0
        """The total weight of the iterates in the current window."""
        self.watched = 0.0
        """The examples since windows were first opened; curvatures are means over all of them."""
        self.previous: tuple[np.ndarray, np.ndarray, float] | None = None
        """Sums of features and intercepts of the window before, and its total weight."""
        self.dense: list[np.ndarray] | None = None
        """Sums of weights and of intercepts where kernels have no lazy form."""
        self.phase_under_way: FixedPoint | None = None
        """The gradient phase under way."""
        self.last_phase: Means | None = None
        """The means of the last gradient phase that is over."""

    # ---- what happens at events ----------------------------------------------------------------------------------

    def open(self, now: Iterate, conversion: Any, warn: Warn) -> tuple[Problem, State]:
        """Start a window here, with sums of zero; end a gradient phase.  Return the problem and state that sum."""
        if self.phase_under_way is not None:
            self.last_phase, self.phase_under_way = self.phase_under_way.means(), None
        problem, state, optimizer = now.problem, now.state, now.optimizer
        watching = problem._replace(watch=conversion.watch(problem.loss))
        if not optimizer.is_lazy(watching, conversion.uniform and now.block.memory is None):
            self._open_dense(watching, optimizer, conversion, warn, now.block.memory is not None)
        elif problem.sums:
            self.rotate(now)
        else:
            if now.t > 0:  # before that there is nothing to settle, and a kernel less to compile
                optimizer.settle(problem, state, now.block, now.t)
            state = optimizer.layout.relaid(problem, state, watching, optimizer.layout.new_state(watching))
            problem = watching
        self.previous, self.weight = None, 0.0
        return problem, state

    def _open_dense(self, watching: Problem, optimizer: Any, conversion: Any, warn: Warn, fades: bool) -> None:
        """Start sums outside kernels."""
        if watching.sums > 1:
            why = " where an L2 term meets half_life: choose optimizer='fobos' or conversion='last'" if fades else ""
            name = type(optimizer).__name__
            raise ValueError(f"{name} has no exact gradient sums with {type(conversion).__name__}{why}.")
        self.dense = [np.zeros((watching.d, watching.m)), np.zeros(watching.m)]
        if watching.d > MANY_FEATURES:
            warn(
                f"{type(conversion).__name__} of {type(optimizer).__name__} with this penalty has no lazy form: every "
                f"example costs O({watching.d}) work."
            )

    def rotate(self, now: Iterate) -> None:
        """Let the current window be the previous one, and start a new one."""
        if self.dense is not None:
            w, b = self.dense
            self.previous, self.weight, self.dense = (w, b, self.weight), 0.0, [np.zeros_like(w), np.zeros_like(b)]
            return
        now.optimizer.settle(now.problem, now.state, now.block, now.t)
        sums, bias = now.optimizer.layout.restart_sums(now.problem, now.state)
        self.previous = sums[: now.d], bias, self.weight
        self.weight = 0.0

    def renew(self, factor: float) -> None:
        """Multiply all that is summed here by a factor, where old examples fade."""
        self.weight, self.watched = self.weight * factor, self.watched * factor
        if self.previous is not None:
            sums, bias, weight = self.previous
            self.previous = sums * factor, bias * factor, weight * factor
        if self.dense is not None:
            self.dense = [part * factor for part in self.dense]

    def start_gradient_phase(self, now: Iterate, warn: Warn) -> None:
        """Sum the gradients at the mean of the window from here on."""
        means = self.means(now, warn)
        self.phase_under_way = FixedPoint(means.w, means.b, now.problem)

    # ---- what happens at examples --------------------------------------------------------------------------------

    @property
    def in_gradient_phase(self) -> bool:
        """Whether examples give gradients at a fixed point, and are not learned."""
        return self.phase_under_way is not None

    def sum_gradients(self, rows: Rows, order: np.ndarray, problem: Problem) -> None:
        """Add the gradients of rows to the gradient phase under way."""
        assert self.phase_under_way is not None
        self.phase_under_way.learn(rows, order, problem)

    @property
    def needs_every_iterate(self) -> bool:
        """Whether each iterate is added here, one example at a time."""
        return self.dense is not None

    def add_iterate(self, now: Iterate, weight: float) -> None:
        """Add the iterate, where each is added here."""
        if self.dense is not None:
            w, b = now.weights()
            self.dense[0][: now.d] += weight * w  # there may be room for more features
            self.dense[1] += weight * b

    def count(self, omega: np.ndarray, problem: Problem, pace: Any) -> None:
        """Count examples whose iterates have these weights, where anything is summed."""
        if problem.sums or self.dense is not None:
            self.weight = _sum_after(self.weight, omega)
            if isinstance(pace, Fading):
                self.watched = _sum_after(self.watched, pace.a[: len(omega)])
            else:
                self.watched += len(omega)

    @property
    def total(self) -> float:
        """Return the total weight of the iterates in the current window and in the one before."""
        return self.weight + (self.previous[2] if self.previous else 0.0)

    # ---- what conversions read -----------------------------------------------------------------------------------

    def means(self, now: Iterate, warn: Warn) -> Means:
        """Return the means over the previous and the current window; before there is one, the last iterate."""
        if self.dense is not None:
            (w, b), n = self.dense, max(self.total, 1e-300)
            if self.previous is not None:
                w, b = w + padded(self.previous[0], len(w)), b + self.previous[1]
            return Means(w[: now.d] / n, b / n, None, None, None, None, self._examples(now))
        if not now.problem.sums or self.total == 0.0:
            warn(f"the averaging window has not begun after {now.t} examples; the last iterate is used instead.")
            w, b = now.weights()
            return Means(w, b, np.zeros_like(w), 0.0 * b, None, None, 0.0)
        return self._means_of_sums(now)

    def _examples(self, now: Iterate) -> float:
        """Return the total weight of the iterates, in units of the last one where old ones fade."""
        return self.total if now.block.memory is None else self.total / now.block.memory.unit

    def _means_of_sums(self, now: Iterate) -> Means:
        problem, m = now.problem, now.problem.m
        sums, bias = now.settled_sums()
        n = self.weight
        if self.previous is not None:
            before, bias_before, n_before = self.previous
            for k in range(min(2, problem.sums)):
                sums[k][: len(before)] += before[: now.d, k]  # later features had no part in it
            bias[:2] += bias_before
            n += n_before
        scales = (n, n, self.watched or 1)[: problem.sums]
        parts: list[Any] = [None] * 6
        for k, scale in enumerate(scales):
            sums[k] /= scale
            parts[2 * k], parts[2 * k + 1] = np.ascontiguousarray(sums[k][:, :m]), bias[k, :m] / scale
        if problem.penalty.has_prox and not problem.penalty.is_absolute:
            parts[0] = prox(problem.penalty, parts[0], 0.0)  # allowed but for rounding: the sums are differences
        return Means(*parts, self._examples(now))

    def fixed_point(self, d: int) -> Means | None:
        """Return the gradient phase to answer from: the one under way once it is as long as the one before."""
        done, under_way = self.last_phase, self.phase_under_way
        if under_way is not None and under_way.n > 0 and (done is None or under_way.n >= done.n):
            done = under_way.means()
        if done is None:
            return None
        return done._replace(w=padded(done.w, d), g=padded(done.g, d), H=padded(done.H, d))

    # ---- late features and models, and those that leave --------------------------------------------------------------

    def grow(self, room: int) -> None:
        """Make room for more features."""
        if self.dense is not None:
            self.dense[0] = padded(self.dense[0], room)
        if self.phase_under_way is not None:
            self.phase_under_way.grow(room)

    def keep(self, kept: np.ndarray) -> None:
        """Keep some features, ascending, which get the slots 0, 1, ..."""
        if self.previous is not None:
            self.previous = compacted(self.previous[0], kept), *self.previous[1:]
        if self.dense is not None:
            self.dense[0] = compacted(self.dense[0], kept)
        if self.phase_under_way is not None:
            self.phase_under_way.keep(kept)
        if (last := self.last_phase) is not None:
            parts = {"w": last.w, "g": last.g, "H": last.H}
            self.last_phase = last._replace(**{name: compacted(part, kept) for name, part in parts.items()})

    def widen(self, old: Problem, wide: Problem) -> None:
        """Make room for more models."""
        if self.previous is not None:
            width = wide.width if self.dense is None else wide.m
            sums, bias = (widened(part[..., : old.m], width) for part in self.previous[:2])
            self.previous = sums, bias, self.previous[2]
        if self.dense is not None:
            self.dense = [widened(part, wide.m) for part in self.dense]
        if self.last_phase is not None:
            self.last_phase = Means(*(widened(part, wide.m) for part in self.last_phase[:-1]), self.last_phase.n)
        if self.phase_under_way is not None:
            self.phase_under_way.widen(wide)
