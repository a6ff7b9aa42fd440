"""Step-size rules: records whose ``sizes`` gives eta for a stretch of examples, in plain NumPy.

``t`` counts examples from 0 here; the first one is example 1 of the formulas.  Fields left at None are filled from the
pilot rows by ``resolve``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .parts.contracts import StepRule, part


class Pilot(NamedTuple):
    """What the first rows tell; ``lam_max``, the largest curvature of the mean loss, only an optimizer that asks."""

    n: int
    L_mean: float
    target_mean: np.ndarray
    target_std: np.ndarray
    lam_max: float = np.nan


@part(StepRule, mu="the modulus of strong convexity; None: rho", t0="delays the decay; None: 2 L_mean / mu")
class StronglyConvex(NamedTuple):
    """eta_t = 1 / (mu (t + t0)), capped; by default mu = rho and t0 = 2 L_mean / mu."""

    mu: float | None = None
    t0: float | None = None
    cap: bool = True

    def resolve(self, problem: Any, pilot: Pilot) -> StronglyConvex:
        mu = problem.penalty.rho if self.mu is None else self.mu
        if mu <= 0.0:
            raise ValueError("the strongly convex step size needs rho > 0 (l1_ratio < 1) or its own mu > 0.")
        t0 = 2.0 * pilot.L_mean / mu if self.t0 is None else self.t0
        return StronglyConvex(float(mu), float(t0), self.cap)

    def sizes(self, t: int, n: int) -> np.ndarray:
        return 1.0 / (self.mu * (np.arange(t + 1, t + n + 1) + self.t0))


@part(
    StepRule,
    L="the smoothness; None: its mean over the first rows",
    cap="whether a step is shortened where it would overshoot its example; None: for regressions",
)
class Convex(NamedTuple):
    """eta_t = 1 / (L sqrt(1 + t/100)); by default L = L_mean, capped for squared loss."""

    L: float | None = None
    cap: bool | None = None

    def resolve(self, problem: Any, pilot: Pilot) -> Convex:
        L = pilot.L_mean if self.L is None else self.L
        return Convex(float(L), _cap(self.cap, problem))

    def sizes(self, t: int, n: int) -> np.ndarray:
        return 1.0 / (self.L * np.sqrt(1.0 + np.arange(t + 1, t + n + 1) / 100.0))


@part(
    StepRule,
    T1="examples in the first epoch; None: 4 / (rho eta1)",
    eta1="the first epoch's step; None: 1 / (2 L_mean + rho)",
)
class Halving(NamedTuple):
    """eta1 for T1 examples, eta1 / 2 for the next 2 T1, eta1 / 4 for the next 4 T1 and so on, capped.

    By default eta1 = 1 / (2 L_mean + rho) and T1 = ceil(4 / (rho eta1)), the least that lets an epoch halve the error.
    """

    T1: int | None = None
    eta1: float | None = None
    cap: bool = True

    def resolve(self, problem: Any, pilot: Pilot) -> Halving:
        rho = float(problem.penalty.rho)
        if self.T1 is None and rho <= 0.0:
            raise ValueError("the step size Halving needs rho > 0 (l1_ratio < 1) or its own T1.")
        eta1 = 1.0 / (2.0 * pilot.L_mean + rho) if self.eta1 is None else float(self.eta1)
        return Halving(math.ceil(4.0 / (rho * eta1)) if self.T1 is None else int(self.T1), eta1, self.cap)

    def end(self, t: int) -> int:
        """How many examples there are up to the end of the epoch that is under way after t."""
        return self.T1 * ((1 << (t // self.T1 + 1).bit_length()) - 1)

    def sizes(self, t: int, n: int) -> np.ndarray:
        _, epoch = np.frexp(np.arange(t, t + n) // self.T1 + 1.0)
        return np.ldexp(float(self.eta1), 1 - epoch)


@part(StepRule, eta="the step")
class Constant(NamedTuple):
    """eta_t = eta."""

    eta: float
    cap: bool = False

    def sizes(self, t: int, n: int) -> np.ndarray:
        return np.full(n, float(self.eta))


@part(StepRule, c="the first step")
class InverseSqrt(NamedTuple):
    """eta_t = c / sqrt(t)."""

    c: float
    cap: bool = False

    def sizes(self, t: int, n: int) -> np.ndarray:
        return self.c / np.sqrt(np.arange(t + 1, t + n + 1))


@part(StepRule, c="the numerator", t0="delays the decay")
class InverseTime(NamedTuple):
    """eta_t = c / (t + t0), for instance the papers' 1 / (rho t)."""

    c: float
    t0: float = 0.0
    cap: bool = False

    def sizes(self, t: int, n: int) -> np.ndarray:
        return self.c / (np.arange(t + 1, t + n + 1) + self.t0)


def _cap(cap: bool | None, problem: Any) -> bool:
    return not problem.loss.classifies if cap is None else cap


def capped(eta: np.ndarray, norms: np.ndarray, weights: np.ndarray, problem: Any) -> np.ndarray:
    """min(eta_t, 1 / (h_max weight (||x||^2 + 1) + rho)): no step can overshoot its own example."""
    smoothness = problem.loss.smoothness * weights * (norms + problem.intercept)
    return np.minimum(eta, 1.0 / (smoothness + problem.penalty.rho + 1e-300))


def default_rule(problem: Any) -> StronglyConvex | Convex:
    """The strongly convex rule where rho > 0, the convex one elsewhere."""
    return StronglyConvex() if problem.penalty.rho > 0.0 else Convex()


RULES = {
    "strongly-convex": StronglyConvex,
    "convex": Convex,
    "constant": Constant,
    "inv-sqrt": InverseSqrt,
    "inv-t": InverseTime,
}


def check_positive(eta: np.ndarray, t: int) -> None:
    """A step must be a positive finite number."""
    if not np.all(np.isfinite(eta)) or np.any(eta <= 0.0):
        k = int(np.flatnonzero(~(np.isfinite(eta) & (eta > 0.0)))[0])
        raise ValueError(f"the step size at example {t + k + 1} is {eta[k]}; it must be positive and finite.")


