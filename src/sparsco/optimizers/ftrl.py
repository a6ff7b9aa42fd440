"""FTRL-proximal: follow the regularized leader with AdaGrad rates, r = (beta + sqrt(sum of g^2)) / alpha."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..jit.lanes import sqrt
from ..parts.contracts import Optimizer, part
from ..problem.state import Block, Problem, State
from . import adaptive
from .adaptive_rules import Ridge

_LEARN = adaptive.Learn()


class AdaGrad(NamedTuple):
    """The rate rule of AdaGrad, r = (beta + sqrt(G)) / alpha; ``floor`` is beta, ``gain`` 1 / alpha."""

    def normalises(rule) -> int:  # noqa: N805
        return 0

    def rate(rule, G, square, inverse, k, gain, floor):  # noqa: N803, N805
        return (floor + sqrt(G)) * gain

    def kept(rule, z, pull):  # noqa: N805
        return z - pull

    def moved(rule, rest, g, anchor, level):  # noqa: N805
        return rest + g - anchor


@part(Optimizer, alpha="scales all steps", beta="damps the first steps")
class FTRL(NamedTuple):
    """FTRL-proximal: follow the regularized leader with AdaGrad rates per coordinate.

    Parameters
    ----------
    alpha : float
        The scale of all steps.
    beta : float
        The damping of the first steps.
    per_feature_clock : bool
        Whether lam and rho count for a feature only from its first appearance on.
    """

    alpha: float = 0.1
    beta: float = 1.0
    per_feature_clock: bool = False

    layout = property(adaptive.layout)
    columns = adaptive.COLUMNS
    uses_steps = False
    supported_penalties = ("absolute", "separable")
    supports_float32 = True
    can_be_averaged = True
    can_forget_features = True
    can_be_rounded = True
    forgets, fading_columns = True, 1
    ridge = Ridge
    learn = _LEARN

    def check(self, problem: Problem) -> None:
        """Raise for parameters or a problem that the optimizer does not support."""
        if not (0.0 < self.alpha < float("inf")):
            raise ValueError(f"FTRL(alpha={self.alpha!r}): alpha must be a positive number.")
        if not (0.0 <= self.beta < float("inf")):
            raise ValueError(f"FTRL(beta={self.beta!r}): beta must be a number, zero or more.")

    def schedule(
        self, problem: Problem, state: State, block: Block, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> adaptive.Schedule:
        """Return the arrays for the next ``len(omega)`` steps; ``eta`` is not used."""
        return adaptive.make_schedule(self, problem, block, t, omega, 0.0)

    def rates(self) -> tuple[Any, Any, Any]:
        """Return the rule of the rates, and its constants: gain and floor."""
        return AdaGrad(), 1.0 / self.alpha, self.beta

    is_lazy, start = adaptive.is_lazy, adaptive.start
    settle, averaged, renew = adaptive.settle, adaptive.averaged, adaptive.renew
    weights, weights_at = adaptive.weights, adaptive.weights_at
