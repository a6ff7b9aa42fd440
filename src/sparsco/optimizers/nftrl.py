"""NFTRL, the normalised FTRL-proximal that needs no tuning: invariant to the scale of columns and of targets.

The rate is r_j = s_j^2 sqrt(k (G_j / s_j^2 + delta slope^2)) / (alpha sigma).  s_j^2 is the mean square of feature j's
nonzeros, and k the mean over rows of 1 + sum_j x_j^2 / s_j^2.  sigma is the scale of margins, slope that of
derivatives.

A value whose square exceeds all earlier squares of its feature together makes s jump.  The weight was learned on the
old scale, so its rate is multiplied by s_new / s_old before the margin is computed.  Then w_j x_j stays below sqrt(n_j)
times its usual size, however large x_j is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..jit.lanes import sqrt
from ..parts.contracts import Optimizer, part
from ..problem.state import Block, Problem, State
from . import adaptive
from .adaptive_rules import Ridge
from .ftrl import AdaGrad

_LEARN = adaptive.Learn()


class Normalised(NamedTuple):
    """The rate rule of NFTRL, see above; ``floor`` is delta slope^2, ``gain`` is 1 / (alpha sigma)."""

    def normalises(rule) -> int:  # noqa: N805
        return 1

    def rate(rule, G, square, inverse, k, gain, floor):  # noqa: N803, N805
        return gain * square * sqrt(k * (G * inverse + floor))  # s is outside of the root, where it cannot overflow

    kept, moved = AdaGrad.kept, AdaGrad.moved


@part(
    Optimizer,
    alpha="scales all steps; None: 2 for classifiers, 1 for regressions",
    delta="damps the first steps",
    sigma="the scale of margins; None: from the first rows",
    b0="the intercept's start; None: from the first rows",
    slope="the scale of derivatives; None: from the first rows",
)
class NFTRL(NamedTuple):
    """NFTRL, the normalised FTRL-proximal: invariant to the scale of columns and of targets, without tuning.

    ``sigma``, ``b0`` and ``slope`` are a number or one number per model.  None: the loss computes them from the mean
    and the standard deviation of the pilot targets.  For classifiers they are 1, 0 and 1; for squared loss std, mean
    and std.

    Parameters
    ----------
    alpha : float or None
        The scale of all steps.  None: 2 for classifiers, 1 for regressions.
    delta : float
        The damping of the first steps.
    sigma : float, sequence of float or None
        The scale of the margins.  A given sigma is also the slope, unless ``slope`` is given.
    b0 : float, sequence of float or None
        The initial intercept.
    slope : float, sequence of float or None
        The scale of the derivatives.
    per_feature_clock : bool
        Whether lam and rho count for a feature only from its first appearance on.  A late feature then learns like one
        in a new model.
    """

    alpha: float | None = None
    delta: float = 1.0
    sigma: Any = None
    b0: Any = None
    slope: Any = None
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
        if self.alpha is not None and not (0.0 < self.alpha < np.inf):
            raise ValueError(f"NFTRL(alpha={self.alpha!r}): alpha must be a positive number.")
        if not (0.0 <= self.delta < np.inf):
            raise ValueError(f"NFTRL(delta={self.delta!r}): delta must be a number, zero or more.")
        for name, given in (("sigma", self.sigma), ("slope", self.slope)):
            if given is not None and not np.all((np.asarray(given) > 0.0) & np.isfinite(given)):
                raise ValueError(f"NFTRL({name}={given!r}): {name} must be positive.")
        if self.b0 is not None and not np.all(np.isfinite(self.b0)):
            raise ValueError(f"NFTRL(b0={self.b0!r}): b0 must be finite.")

    def resolve(self, problem: Problem, pilot: Any, rule: Any = None) -> NFTRL:
        """Return the record with every None filled in."""
        alpha = (2.0 if problem.loss.classifies else 1.0) if self.alpha is None else self.alpha
        std, mean = np.asarray(pilot.target_std), np.asarray(pilot.target_mean)
        # targets that are constant so far: any scale is valid
        std = np.where(std > 1e-10 * np.abs(mean), std, np.where(mean != 0.0, np.abs(mean), 1.0))
        b0, sigma, slope = (tuple(map(float, part)) for part in problem.loss.units(mean, std))
        if self.sigma is not None:
            sigma = slope = self.sigma
        b0, slope = b0 if self.b0 is None else self.b0, slope if self.slope is None else self.slope
        return NFTRL(alpha, self.delta, sigma, b0, slope, self.per_feature_clock)

    def start(self, problem: Problem) -> tuple[State, Block]:
        """Return the initial state, with the intercept at b0."""
        return adaptive.start(self, problem, self.b0)

    def schedule(
        self, problem: Problem, state: State, block: Block, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> adaptive.Schedule:
        """Return the arrays for the next ``len(omega)`` steps; ``eta`` is not used."""
        return adaptive.make_schedule(self, problem, block, t, omega, self.b0)

    def rates(self) -> tuple[Any, Any, Any]:
        """Return the rule of the rates, and its constants: gain and floor, a number or one number per model each."""
        sigma, slope = (np.asarray(part, dtype=np.float64) for part in (self.sigma, self.slope))
        return Normalised(), 1.0 / (self.alpha * sigma), self.delta * np.square(slope)

    is_lazy = adaptive.is_lazy
    settle, averaged, renew = adaptive.settle, adaptive.averaged, adaptive.renew
    weights, weights_at = adaptive.weights, adaptive.weights_at
