"""AdaGrad with a rate per coordinate, H = delta + sqrt(sum of g^2) (Duchi, Hazan, Singer 2011), in both of its forms.

FOBOS: w <- S(w - eta g / H, eta lam / H) / (1 + eta rho / H).  RDA: w = -S(sum of g, lam t) / (H / eta + rho t).  H
does not change while a coordinate is idle, so both use the kernels of ``adaptive`` with r = H / eta.  For FOBOS without
L2 term, z is the line along which w shrinks, extended back to clock zero: -r w + sgn(-w) lam t.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..jit.lanes import signed
from ..parts.contracts import Optimizer, part
from ..problem.state import Block, Problem, State
from . import adaptive
from .adaptive_rules import Drift, Ridge
from .ftrl import AdaGrad
from .nftrl import NFTRL

_LEARN = adaptive.Learn()


class ForwardBackward(NamedTuple):
    """The rule of AdaGrad FOBOS: a step from w restarts z on the line where the threshold lam t shrinks w correctly."""

    normalises, rate = AdaGrad.normalises, AdaGrad.rate

    def kept(rule, z, pull):  # noqa: N805
        return 0.0 * z

    def moved(rule, rest, g, anchor, level):  # noqa: N805
        u = g - anchor
        return u + signed(level, u)


class DualAveraging(NamedTuple):
    """The rule of AdaGrad RDA: z is the sum of all gradients."""

    normalises, rate = AdaGrad.normalises, AdaGrad.rate

    def kept(rule, z, pull):  # noqa: N805
        return z

    def moved(rule, rest, g, anchor, level):  # noqa: N805
        return rest + g


def _check(optimizer: Any, problem: Problem) -> None:
    """Raise for parameters or a problem that the optimizer does not support."""
    name = type(optimizer).__name__
    if optimizer.eta is not None and not np.all((np.asarray(optimizer.eta) > 0.0) & np.isfinite(optimizer.eta)):
        raise ValueError(f"{name}(eta={optimizer.eta!r}): eta must be a positive number.")
    if optimizer.delta is not None and not np.all((np.asarray(optimizer.delta) >= 0.0) & np.isfinite(optimizer.delta)):
        raise ValueError(f"{name}(delta={optimizer.delta!r}): delta must be a number, zero or more.")
    if optimizer.b0 is not None and not np.all(np.isfinite(optimizer.b0)):
        raise ValueError(f"{name}(b0={optimizer.b0!r}): b0 must be finite.")


def _resolve(optimizer: Any, problem: Problem, pilot: Any, rule: Any = None) -> Any:
    """Return the record with every None filled in: NFTRL's scales, by the size of a row, not of features.

    This delta keeps the first step of FOBOS, otherwise eta in every coordinate, from overshooting its example.  RDA
    forgets its first steps and only needs a positive divisor.
    """
    scales = NFTRL().resolve(problem, pilot)
    size = math.sqrt(pilot.L_mean / problem.loss.smoothness)
    eta = tuple(scales.alpha / size * sigma for sigma in scales.sigma)
    delta = tuple(size * optimizer.damped * slope for slope in scales.slope)
    return type(optimizer)(
        eta if optimizer.eta is None else optimizer.eta,
        delta if optimizer.delta is None else optimizer.delta,
        scales.b0 if optimizer.b0 is None else optimizer.b0,
    )


def _schedule(
    optimizer: Any, problem: Problem, state: State, block: Block, t: int, eta: np.ndarray, omega: np.ndarray
) -> adaptive.Schedule:
    """Return the arrays for the next ``len(omega)`` steps; the argument ``eta`` is not used."""
    return adaptive.make_schedule(optimizer, problem, block, t, omega, optimizer.b0)


def _rates(optimizer: Any) -> tuple[Any, Any, Any]:
    """Return the rule of the rates, and its constants: gain and floor, a number or one number per model each."""
    return optimizer.rule, 1.0 / np.asarray(optimizer.eta), optimizer.delta


def _start(optimizer: Any, problem: Problem) -> tuple[State, Block]:
    """Return the initial state, with the intercept at b0."""
    return adaptive.start(optimizer, problem, optimizer.b0)


@part(
    Optimizer,
    eta="scales all steps; None: from the first rows",
    delta="damps the first steps; None: from the first rows",
    b0="the intercept's start; None: from the first rows",
)
class AdaGradFOBOS(NamedTuple):
    """AdaGrad with forward-backward splitting (composite mirror descent).

    Each parameter is a number or one number per model; None: computed from the pilot rows.

    Parameters
    ----------
    eta : float, sequence of float or None
        The scale of all steps.
    delta : float, sequence of float or None
        The damping of the first steps.
    b0 : float, sequence of float or None
        The initial intercept.
    """

    eta: Any = None
    delta: Any = None
    b0: Any = None

    layout = adaptive.LAYOUT
    columns = adaptive.COLUMNS
    uses_steps = False
    can_be_averaged = True
    can_forget_features = True
    learn = _LEARN
    rule = ForwardBackward()
    damped = 1.0
    ridge = Drift

    check, resolve, schedule, rates, start = _check, _resolve, _schedule, _rates, _start
    is_lazy, settle, weights, averaged = adaptive.is_lazy, adaptive.settle, adaptive.weights, adaptive.averaged


@part(
    Optimizer,
    eta="scales all steps; None: from the first rows",
    delta="damps the first steps; None: from the first rows",
    b0="the intercept's start; None: from the first rows",
)
class AdaGradRDA(NamedTuple):
    """AdaGrad with regularized dual averaging.

    Parameters
    ----------
    eta, delta, b0
        As in :class:`AdaGradFOBOS`.
    """

    eta: Any = None
    delta: Any = None
    b0: Any = None

    layout = adaptive.LAYOUT
    columns = adaptive.COLUMNS
    uses_steps = False
    can_be_averaged = True
    can_forget_features = True
    can_be_rounded = True
    learn = _LEARN
    rule = DualAveraging()
    damped = 0.01
    ridge = Ridge

    check, resolve, schedule, rates, start = _check, _resolve, _schedule, _rates, _start
    is_lazy, settle, weights, averaged = adaptive.is_lazy, adaptive.settle, adaptive.weights, adaptive.averaged
