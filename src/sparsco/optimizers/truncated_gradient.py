"""Truncated gradient (Langford, Li, Zhang 2009): plain steps, and at every K-th step small weights shrink towards zero.

That pull is the sum of the steps since the last one, times lam pen.  Weights above ``theta`` in size do not change.
With K = 1 and theta = inf it is FOBOS, whose kernel it shares: B grows at multiples of K only, and the prox leaves
weights above theta unchanged.  An idle weight stays on its side of theta, so idle stretches compose as in FOBOS.
"""

from __future__ import annotations

import math
import numbers
from typing import Any, NamedTuple

import numpy as np

from ..jit.dispatch import kernel
from ..jit.lanes import where
from ..parts.contracts import Optimizer, Penalty, part
from ..penalties import feature_weight, prox, shrink_rate, strength
from ..problem.state import Block, Layout, Problem, State
from . import fobos
from .fobos import FOBOS

WAITING = 0
"""The entry of the clock: the sum of the steps since the last pull."""


@part(Penalty)
class Truncating(NamedTuple):
    """A wrapper of another penalty, whose prox leaves weights above theta in size unchanged."""

    base: Any
    theta: float

    def prox(penalty, v, s):  # noqa: N805
        return where(abs(v) <= penalty.theta, prox(penalty.base, v, s), v)

    def shrink_rate(penalty, v):  # noqa: N805
        return where(abs(v) <= penalty.theta, 0.0 * v + shrink_rate(penalty.base, v), 0.0 * v)

    def strength(penalty, w):  # noqa: N805
        return strength(penalty.base, w)

    def feature_weight(penalty, j):  # noqa: N805
        return feature_weight(penalty.base, j)

    def feature_weights(penalty, d: int) -> np.ndarray:  # noqa: N805
        """Return pen as a vector."""
        return penalty.base.feature_weights(d)

    @property
    def lam(self) -> float:
        return self.base.lam

    @property
    def rho(self) -> float:
        return self.base.rho


@part(Optimizer, K="examples between two pulls towards zero", theta="the size above which a weight is left alone")
class TruncatedGradient(NamedTuple):
    """Truncated gradient: every ``K`` examples, weights of size at most ``theta`` shrink by the gravity lam pen.

    Parameters
    ----------
    K : int
        The number of examples between two pulls towards zero.
    theta : float
        The size above which a weight is not pulled.
    """

    K: int = 1
    theta: float = math.inf

    columns = FOBOS.columns
    uses_steps = True
    supported_penalties = ("absolute", "separable", "grouped")
    starts_anywhere = True
    can_forget_features = True

    @property
    def layout(self) -> Layout:
        """Return the layout of FOBOS; where large weights are left alone, one without lines."""
        return (fobos.LineLayout if self.theta == math.inf else fobos.CellLayout)(shared=1, lane=1, bias=1, clock=1)

    @property
    def learn(self):
        return Learn(self.theta)

    def check(self, problem: Problem) -> None:
        """Raise for parameters or a problem that the optimizer does not support."""
        if not isinstance(self.K, numbers.Integral) or self.K < 1:
            raise ValueError(f"TruncatedGradient(K={self.K!r}): K is a whole number of examples, at least 1.")
        if not self.theta > 0.0:
            raise ValueError(
                f"TruncatedGradient(theta={self.theta!r}): theta must be above 0, or inf to shrink all weights."
            )
        if self.theta < math.inf and problem.penalty.rho > 0.0:
            raise ValueError(
                f"TruncatedGradient(theta={self.theta!r}) needs a problem without L2 term: choose theta=inf or "
                "l1_ratio=1."
            )

    start = fobos.start

    def schedule(
        self, problem: Problem, state: State, block: Block, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> fobos.Schedule:
        """Return the arrays for the next ``len(eta)`` steps, or for fewer; the clock sums the steps since a pull."""
        pulls, waiting = np.empty(len(eta)), np.empty(len(eta))
        collect(eta, t, int(self.K), state.clock[WAITING], pulls, waiting)
        schedule = fobos.make_schedule(problem, block, t, eta, omega, pulls)
        if len(schedule.omega):
            state.clock[WAITING] = waiting[len(schedule.omega) - 1]
        return schedule

    def settle(self, problem: Problem, state: State, block: Block, t: int) -> None:
        """Bring every coordinate and its sums up to date, and start a new block."""
        fobos.settle_block(self._own(problem), state, block, t)

    def weights(self, problem: Problem, state: State, block: Block, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the iterate after t examples."""
        return fobos.iterate(self.layout, self._own(problem), state, block, t)

    def _own(self, problem: Problem) -> Problem:
        return problem._replace(penalty=sparing(problem.penalty, self.theta))


def sparing(penalty: Any, theta: float) -> Any:
    """Return the penalty that leaves weights above theta unchanged."""
    return penalty if theta == math.inf else Truncating(penalty, float(theta))


class Learn(NamedTuple):
    """The kernel of FOBOS with the penalty that leaves weights above theta unchanged."""

    theta: float

    def __call__(self, rows: Any, order: Any, schedule: Any, method: Any, state: Any) -> None:
        fobos.Learn()(rows, order, schedule, self._own(method), state)

    def py_func(self, rows: Any, order: Any, schedule: Any, method: Any, state: Any) -> None:
        """Run the same code in plain Python, uncompiled."""
        fobos.Learn().py_func(rows, order, schedule, self._own(method), state)

    def _own(self, method: Any) -> Any:
        return method._replace(penalty=sparing(method.penalty, self.theta))


@kernel
def collect(eta, t, K, waiting, pulls, after):
    """Write the pull at each step (the sum of steps since the last pull at multiples of K, else 0) and the rest."""
    for k in range(eta.size):
        waiting += eta[k]
        pulls[k] = 0.0
        if (t + k + 1) % K == 0:
            pulls[k], waiting = waiting, 0.0
        after[k] = waiting
