"""Step-size rules: records whose ``sizes`` returns eta for a stretch of examples, in plain NumPy.

``t`` counts examples from 0 here; the first one is example 1 of the formulas.  ``resolve`` fills fields that are None
from the pilot rows.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .parts.contracts import StepRule, part


def _by_number(rule: Any, t: int, n: int) -> np.ndarray:
    """Return the steps of examples t + 1, ..., t + n."""
    return rule.sizes_at(np.arange(t + 1, t + n + 1))


class Pilot(NamedTuple):
    """Statistics of the pilot rows; ``lam_max``, the largest curvature of the mean loss, only for some optimizers."""

    n: int
    L_mean: float
    target_mean: np.ndarray
    target_std: np.ndarray
    lam_max: float = np.nan


@part(StepRule, mu="the modulus of strong convexity; None: rho", t0="delays the decay; None: 2 L_mean / mu")
class StronglyConvex(NamedTuple):
    """The strongly convex rule eta_t = 1 / (mu (t + t0)).

    Parameters
    ----------
    mu : float or None
        The modulus of strong convexity.  None: rho.
    t0 : float or None
        The delay of the decay.  None: 2 L_mean / mu.
    cap : bool
        Whether a step is shortened where it would overshoot its example.
    """

    mu: float | None = None
    t0: float | None = None
    cap: bool = True

    def resolve(self, problem: Any, pilot: Pilot) -> StronglyConvex:
        mu = problem.penalty.rho if self.mu is None else self.mu
        if mu <= 0.0:
            raise ValueError("the strongly convex step size needs rho > 0 (l1_ratio < 1) or its own mu > 0.")
        t0 = 2.0 * pilot.L_mean / mu if self.t0 is None else self.t0
        return StronglyConvex(float(mu), float(t0), self.cap)

    def sizes_at(self, counts: np.ndarray) -> np.ndarray:
        return 1.0 / (self.mu * (counts + self.t0))

    sizes = _by_number


@part(
    StepRule,
    L="the smoothness; None: its mean over the first rows",
    cap="whether a step is shortened where it would overshoot its example; None: for regressions",
)
class Convex(NamedTuple):
    """The convex rule eta_t = 1 / (L sqrt(1 + t/100)).

    Parameters
    ----------
    L : float or None
        The smoothness.  None: L_mean, its mean over the pilot rows.
    cap : bool or None
        Whether a step is shortened where it would overshoot its example.  None: for regressions only.
    """

    L: float | None = None
    cap: bool | None = None

    def resolve(self, problem: Any, pilot: Pilot) -> Convex:
        L = pilot.L_mean if self.L is None else self.L
        return Convex(float(L), _cap(self.cap, problem))

    def sizes_at(self, counts: np.ndarray) -> np.ndarray:
        return 1.0 / (self.L * np.sqrt(1.0 + counts / 100.0))

    sizes = _by_number


@part(
    StepRule,
    T1="examples in the first epoch; None: 4 / (rho eta1)",
    eta1="the first epoch's step; None: 1 / (2 L_mean + rho)",
)
class Halving(NamedTuple):
    """The halving rule: eta1 for T1 examples, eta1 / 2 for the next 2 T1, eta1 / 4 for the next 4 T1, and so on.

    Parameters
    ----------
    T1 : int or None
        The number of examples in the first epoch.  None: ceil(4 / (rho eta1)), the least that lets an epoch halve the
        error.
    eta1 : float or None
        The step of the first epoch.  None: 1 / (2 L_mean + rho).
    cap : bool
        Whether a step is shortened where it would overshoot its example.
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
        """Return the number of examples up to the end of the current epoch after t examples."""
        return self.T1 * ((1 << (t // self.T1 + 1).bit_length()) - 1)

    def sizes(self, t: int, n: int) -> np.ndarray:
        _, epoch = np.frexp(np.arange(t, t + n) // self.T1 + 1.0)
        return np.ldexp(float(self.eta1), 1 - epoch)


@part(StepRule, eta="the step")
class Constant(NamedTuple):
    """The constant rule eta_t = eta.

    Parameters
    ----------
    eta : float
        The step.
    cap : bool
        Whether a step is shortened where it would overshoot its example.
    """

    eta: float
    cap: bool = False

    def sizes_at(self, counts: np.ndarray) -> np.ndarray:
        return np.full(len(counts), float(self.eta))

    sizes = _by_number


@part(StepRule, c="the first step")
class InverseSqrt(NamedTuple):
    """The inverse square root rule eta_t = c / sqrt(t).

    Parameters
    ----------
    c : float
        The first step.
    cap : bool
        Whether a step is shortened where it would overshoot its example.
    """

    c: float
    cap: bool = False

    def sizes_at(self, counts: np.ndarray) -> np.ndarray:
        return self.c / np.sqrt(counts)

    sizes = _by_number


@part(StepRule, c="the numerator", t0="delays the decay")
class InverseTime(NamedTuple):
    """The inverse time rule eta_t = c / (t + t0), for instance the papers' 1 / (rho t).

    Parameters
    ----------
    c : float
        The numerator.
    t0 : float
        The delay of the decay.
    cap : bool
        Whether a step is shortened where it would overshoot its example.
    """

    c: float
    t0: float = 0.0
    cap: bool = False

    def sizes_at(self, counts: np.ndarray) -> np.ndarray:
        return self.c / (counts + self.t0)

    sizes = _by_number


def _cap(cap: bool | None, problem: Any) -> bool:
    return not problem.loss.classifies if cap is None else cap


def capped(eta: np.ndarray, norms: np.ndarray, weights: np.ndarray, problem: Any) -> np.ndarray:
    """Return min(eta_t, 1 / (h_max weight (||x||^2 + 1) + rho)), so that no step can overshoot its own example."""
    smoothness = problem.loss.smoothness * weights * (norms + problem.intercept)
    return np.minimum(eta, 1.0 / (smoothness + problem.penalty.rho + 1e-300))


def default_rule(problem: Any) -> StronglyConvex | Convex:
    """Return the strongly convex rule where rho > 0, the convex one elsewhere."""
    return StronglyConvex() if problem.penalty.rho > 0.0 else Convex()


RULES = {
    "strongly-convex": StronglyConvex,
    "convex": Convex,
    "constant": Constant,
    "inv-sqrt": InverseSqrt,
    "inv-t": InverseTime,
}


def check_positive(eta: np.ndarray, t: int) -> None:
    """Raise unless every step is a positive finite number."""
    if not np.all(np.isfinite(eta)) or np.any(eta <= 0.0):
        k = int(np.flatnonzero(~(np.isfinite(eta) & (eta > 0.0)))[0])
        raise ValueError(f"the step size at example {t + k + 1} is {eta[k]}; it must be positive and finite.")
