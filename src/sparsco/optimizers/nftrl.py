"""NFTRL, the normalised FTRL-proximal that needs no tuning: invariant to the scale of columns and of targets.

With s_j^2 the mean square of feature j's nonzeros and k the mean over rows of 1 + sum_j x_j^2 / s_j^2,
r_j = sqrt(k s_j^2 (G_j + delta s_j^2 sigma^2)) / (alpha sigma).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..lanes import sqrt
from ..records import Block, Problem, State
from . import idle

_LEARN = idle.Learn()


class Normalised(NamedTuple):
    """r as above; ``floor`` is delta sigma^2, ``gain`` is k / (alpha sigma)^2."""

    def normalises(rule) -> int:  # noqa: N805
        return 1

    def rate(rule, G, s2, gain, floor):  # noqa: N803, N805
        return sqrt(gain * s2 * (G + floor * s2))


class NFTRL(NamedTuple):
    """Normalised FTRL-proximal.

    ``alpha`` scales all steps (None: 2 for classifiers, 1 for squared loss); ``delta`` damps the first ones; ``sigma``
    and ``b0`` are the targets' scale and the intercept's start, a number or one per model (None: 1 and 0 for
    classifiers, for squared loss the standard deviation and the mean of the pilot targets).  With ``births`` lam and
    rho count for a feature from its first appearance on: one that comes late learns like one in a new model.
    """

    alpha: float | None = None
    delta: float = 1.0
    sigma: Any = None
    b0: Any = None
    births: bool = False

    layout = property(idle.layout)
    columns = idle.COLUMNS
    uses_steps = False
    learn = _LEARN

    def check(self, problem: Problem) -> None:
        """Refuse what cannot be done."""
        if self.alpha is not None and not (0.0 < self.alpha < np.inf):
            raise ValueError(f"NFTRL(alpha={self.alpha!r}): alpha must be a positive number.")
        if not (0.0 <= self.delta < np.inf):
            raise ValueError(f"NFTRL(delta={self.delta!r}): delta must be a number, zero or more.")
        if self.sigma is not None and not np.all((np.asarray(self.sigma) > 0.0) & np.isfinite(self.sigma)):
            raise ValueError(f"NFTRL(sigma={self.sigma!r}): sigma must be positive.")
        if self.b0 is not None and not np.all(np.isfinite(self.b0)):
            raise ValueError(f"NFTRL(b0={self.b0!r}): b0 must be finite.")

    def resolve(self, problem: Problem, pilot: Any, rule: Any = None) -> NFTRL:
        """With every None filled in."""
        classifies = problem.loss.classifies
        alpha = (2.0 if classifies else 1.0) if self.alpha is None else self.alpha
        sigma, b0 = np.ones(problem.m), np.zeros(problem.m)
        if not classifies:
            std, mean = np.asarray(pilot.target_std), np.asarray(pilot.target_mean)
            # targets that are constant so far: any scale will do
            sigma, b0 = np.where(std > 1e-10 * np.abs(mean), std, np.maximum(np.abs(mean), 1.0)), mean
        sigma = tuple(map(float, sigma)) if self.sigma is None else self.sigma
        b0 = tuple(map(float, b0)) if self.b0 is None else self.b0
        return NFTRL(alpha, self.delta, sigma, b0, self.births)

    def start(self, problem: Problem) -> tuple[State, Block]:
        """Nothing learned; the intercept at b0."""
        return idle.start(self, problem, self.b0)

    def schedule(
        self, problem: Problem, state: State, block: Block, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> idle.Schedule:
        """The arrays for the next ``len(omega)`` steps; ``eta`` is not used."""
        sigma = np.asarray(self.sigma, dtype=np.float64)
        gains, floors = 1.0 / np.square(self.alpha * sigma), self.delta * np.square(sigma)
        return idle.make_schedule(self, problem, block, t, omega, Normalised(), gains, floors, self.b0)

    is_lazy, is_dense = idle.is_lazy, idle.is_dense
    settle, weights = idle.settle, idle.weights
