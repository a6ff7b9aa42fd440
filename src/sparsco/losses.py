"""Losses: one record each, with value, derivative and curvature in the margin p = <w, x> + b.

Every loss is convex in p and is averaged over examples.  ``parts.contracts.Loss`` lists the required and the optional
members of a loss.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .jit.dispatch import inlined
from .jit.lanes import exp, max_lane, maximum, minimum, signed, sum_lanes, where
from .log_link import Gamma, Poisson, Tweedie, check_scale, or_one
from .parts.contracts import Loss, curvature, derivative, part, value


@part(Loss)
class Squared(NamedTuple):
    """The squared loss (p - y)^2 / 2."""

    classifies = False
    shifts = True
    degree = 2.0
    smoothness = 1.0
    curved = True

    def value(loss, p, y):  # noqa: N805
        return 0.5 * (p - y) * (p - y)

    def derivative(loss, p, y):  # noqa: N805
        return p - y

    def curvature(loss, p, y):  # noqa: N805
        return 0.0 * p + 1.0

    def conjugate(self, c: np.ndarray, y: np.ndarray) -> np.ndarray:
        return c * (0.5 * c + y)

    def units(loss, mean, std):  # noqa: N805
        return mean, std, std


@part(
    Loss,
    epsilon="the residual up to which the loss is a parabola",
    unit="the unit of epsilon; None: the spread of the first targets",
)
class Huber(NamedTuple):
    """The Huber loss: (p - y)^2 / 2 up to a residual of ``epsilon``, then epsilon |p - y| - epsilon^2 / 2.

    Parameters
    ----------
    epsilon : float
        The residual up to which the loss is quadratic.
    unit : float or None
        The unit of ``epsilon``: 1 is the unit of y.  None, as in ``loss="huber"``: the spread of the first targets,
        1.48 times their median distance from the median, so that the model does not depend on the unit of y.
    """

    epsilon: float = 1.35
    unit: float | None = 1.0

    classifies = False
    shifts = True
    degree = 2.0
    smoothness = 1.0
    curved = True

    def check(self) -> None:
        if not 0.0 < self.epsilon < np.inf:
            raise ValueError(f"Huber(epsilon={self.epsilon!r}): epsilon must be a positive number.")
        _check_unit(self)

    def resolve(self, targets: np.ndarray, weights: np.ndarray) -> Huber:
        """Return the record with epsilon in the unit of the targets."""
        return Huber(self.epsilon * _unit(self.unit, targets, weights))

    def in_units_of(self, unit: float) -> Huber:
        """Return the record for margins and targets that were divided by a unit."""
        return Huber(self.epsilon / unit)

    def value(loss, p, y):  # noqa: N805
        r = abs(p - y)
        inner = minimum(r, loss.epsilon)
        return inner * (r - 0.5 * inner)

    def derivative(loss, p, y):  # noqa: N805
        return minimum(maximum(p - y, -loss.epsilon), loss.epsilon)

    def curvature(loss, p, y):  # noqa: N805
        return where(abs(p - y) <= loss.epsilon, 1.0, 0.0 * p)

    def conjugate(self, c: np.ndarray, y: np.ndarray) -> np.ndarray:
        return c * (0.5 * c + y)


@part(
    Loss,
    epsilon="the residual up to which there is no loss",
    scale="the scale of steps; None: the inverse of the targets' spread",
    unit="the unit of epsilon; None: the spread of the first targets",
)
class EpsilonInsensitive(NamedTuple):
    """The epsilon-insensitive loss max(0, |p - y| - epsilon).

    Parameters
    ----------
    epsilon : float
        The residual up to which the loss is zero.
    scale : float or None
        The scale for the choice of step sizes.  None: the inverse of the targets' standard deviation.
    unit : float or None
        The unit of ``epsilon``: 1 is the unit of y.  None, as in ``loss="epsilon-insensitive"``: the spread of the
        first targets, 1.48 times their median distance from the median.
    """

    epsilon: float = 0.1
    scale: float | None = None
    unit: float | None = 1.0

    smoothness_is_bound = False
    classifies = False
    shifts = True
    degree = 1.0
    curved = False

    @property
    def smoothness(self) -> float:
        return or_one(self.scale)

    def in_units_of(self, unit: float) -> EpsilonInsensitive:
        """Return the record for margins and targets that were divided by a unit."""
        return EpsilonInsensitive(self.epsilon / unit, or_one(self.scale) * unit)

    def check(self) -> None:
        if not 0.0 <= self.epsilon < np.inf:
            raise ValueError(f"EpsilonInsensitive(epsilon={self.epsilon!r}): epsilon must be a number, zero or more.")
        check_scale(self)
        _check_unit(self)

    def resolve(self, targets: np.ndarray, weights: np.ndarray) -> EpsilonInsensitive:
        """Return the record with the scale filled in, and epsilon in the unit of the targets."""
        scale = _inverse_spread(targets, weights) if self.scale is None else self.scale
        return EpsilonInsensitive(self.epsilon * _unit(self.unit, targets, weights), scale)

    def value(loss, p, y):  # noqa: N805
        return np.maximum(0.0, np.abs(p - y) - loss.epsilon)

    def derivative(loss, p, y):  # noqa: N805
        return where(abs(p - y) > loss.epsilon, signed(1.0, p - y), 0.0 * p)

    def conjugate(self, c: np.ndarray, y: np.ndarray) -> np.ndarray:
        return c * y + self.epsilon * np.abs(c)

    def curvature(loss, p, y):  # noqa: N805
        return 0.0 * p

    def kinks(self, y: np.ndarray) -> np.ndarray:
        return np.stack([y - self.epsilon, y + self.epsilon])


@part(Loss, q="the quantile, between 0 and 1", scale="the scale of steps; None: the inverse of the targets' spread")
class Quantile(NamedTuple):
    """The quantile (pinball) loss: q (y - p) below the target and (1 - q) (p - y) above; its optimum is the q-quantile.

    Parameters
    ----------
    q : float
        The quantile, between 0 and 1.
    scale : float or None
        The scale for the choice of step sizes.  None: the inverse of the targets' standard deviation.
    """

    q: float = 0.5
    scale: float | None = None

    smoothness_is_bound = False
    classifies = False
    shifts = True
    degree = 1.0
    curved = False

    @property
    def smoothness(self) -> float:
        return or_one(self.scale)

    def in_units_of(self, unit: float) -> Quantile:
        """Return the record for margins and targets that were divided by a unit."""
        return Quantile(self.q, or_one(self.scale) * unit)

    def check(self) -> None:
        if not 0.0 < self.q < 1.0:
            raise ValueError(f"Quantile(q={self.q!r}): q must lie between 0 and 1, both excluded.")
        check_scale(self)

    def resolve(self, targets: np.ndarray, weights: np.ndarray) -> Quantile:
        """Return the record with the scale filled in."""
        return self if self.scale is not None else self._replace(scale=_inverse_spread(targets, weights))

    def value(loss, p, y):  # noqa: N805
        return np.maximum(loss.q * (y - p), (1.0 - loss.q) * (p - y))

    def derivative(loss, p, y):  # noqa: N805
        return where(p > y, 1.0 - loss.q, where(p < y, 0.0 * p - loss.q, 0.0 * p))

    def conjugate(self, c: np.ndarray, y: np.ndarray) -> np.ndarray:
        return c * y

    def curvature(loss, p, y):  # noqa: N805
        return 0.0 * p

    def kinks(self, y: np.ndarray) -> np.ndarray:
        return y[None]


@part(Loss)
class Logistic(NamedTuple):
    """The logistic loss log(1 + exp(-y p)) with y in {-1, +1}."""

    classifies = True
    smoothness = 0.25
    curved = True
    bends_everywhere = True

    def value(loss, p, y):  # noqa: N805
        z = y * p  # logaddexp computes the same in four times the time
        return np.maximum(-z, 0.0) + np.log1p(np.exp(-np.abs(z)))

    def derivative(loss, p, y):  # noqa: N805
        return -y / (1.0 + exp(y * p))

    def curvature(loss, p, y):  # noqa: N805
        e = exp(-abs(p))
        return e / ((1.0 + e) * (1.0 + e))

    def conjugate(self, c: np.ndarray, y: np.ndarray) -> np.ndarray:
        s = np.clip(-y * c, 0.0, 1.0)  # the probability of the other class
        return s * np.log(np.maximum(s, 1e-300)) + (1.0 - s) * np.log(np.maximum(1.0 - s, 1e-300))

    def probabilities(self, p: np.ndarray) -> np.ndarray:
        """Return the probability of each class; of more than two, one-vs-rest probabilities scaled to sum to one."""
        s = 1.0 / (1.0 + exp(-p))
        if s.shape[1] == 1:
            return np.hstack([1.0 / (1.0 + exp(p)), s])  # 1 - s would lose the digits of a small probability
        sums = s.sum(1, keepdims=True)
        return np.where(sums > 0.0, s / np.where(sums > 0.0, sums, 1.0), 1.0 / s.shape[1])


@part(Loss)
class Hinge(NamedTuple):
    """max(0, 1 - y p) with y in {-1, +1}; it has a kink and no curvature."""

    classifies = True
    smoothness = 1.0
    curved = False

    def value(loss, p, y):  # noqa: N805
        return np.maximum(0.0, 1.0 - y * p)

    def derivative(loss, p, y):  # noqa: N805
        return where(y * p < 1.0, -y, 0.0 * y)

    def conjugate(self, c: np.ndarray, y: np.ndarray) -> np.ndarray:
        return c * y

    def curvature(loss, p, y):  # noqa: N805
        return 0.0 * p

    def kinks(self, y: np.ndarray) -> np.ndarray:
        return y[None]  # y p = 1


@part(Loss)
class SquaredHinge(NamedTuple):
    """The squared hinge loss max(0, 1 - y p)^2 with y in {-1, +1}, not halved, as in scikit-learn."""

    classifies = True
    smoothness = 2.0
    curved = True

    def value(loss, p, y):  # noqa: N805
        return np.square(np.maximum(0.0, 1.0 - y * p))

    def derivative(loss, p, y):  # noqa: N805
        return -2.0 * y * maximum(1.0 - y * p, 0.0)

    def curvature(loss, p, y):  # noqa: N805
        return where(y * p < 1.0, 2.0, 0.0 * p)

    def conjugate(self, c: np.ndarray, y: np.ndarray) -> np.ndarray:
        return c * (0.25 * c + y)

    def units(loss, mean, std):  # noqa: N805
        # slopes grow after too long a step and AdaGrad never forgets them: as for Poisson
        return 0.0 * mean, 0.0 * std + 0.5, 0.0 * std + 10.0


@part(Loss)
class Multinomial(NamedTuple):
    """The multinomial logistic loss log(sum_k exp(p_k)) - p_y: one softmax over the lanes of an example."""

    classifies = True
    smoothness = 0.5
    curved = True
    couples = True

    def value(loss, p, y):  # noqa: N805
        q = where(y < 0.0, -np.inf, p)
        top = max_lane(q)
        return maximum(y, 0.0) * (top + np.log(sum_lanes(exp(q - top))) - p)

    def derivative(loss, p, y):  # noqa: N805
        return _softmax(p, y) - maximum(y, 0.0)

    def curvature(loss, p, y):  # noqa: N805
        s = _softmax(p, y)
        return s * (1.0 - s)

    def conjugate(self, c: np.ndarray, y: np.ndarray) -> np.ndarray:
        s = np.clip(c + np.maximum(y, 0.0), 0.0, 1.0)  # probabilities; the sum over lanes is that of the example
        return s * np.log(np.maximum(s, 1e-300))

    def shares(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the probability of each class."""
        return _softmax(p, y)

    def probabilities(self, p: np.ndarray) -> np.ndarray:
        """Return the probability of each class."""
        return _softmax(p, 0.0 * p)


@inlined
def _softmax(p, y):
    """Return exp(p_k) / sum_k exp(p_k), and 0 in lanes without a model."""
    q = where(y < 0.0, -np.inf, p)
    e = exp(q - max_lane(q))
    return e / sum_lanes(e)


def _inverse_spread(targets: np.ndarray, weights: np.ndarray) -> float:
    """Return the inverse of the standard deviation of the targets of a model; 1 where they are constant.

    Of several models, it is that of their mean variance: models may have targets around different means.
    """
    share = weights / np.maximum(weights.sum(0), 1e-300)
    mean = (share * targets).sum(0)
    std = np.sqrt((share * np.square(targets - mean)).sum(0))
    std = float(np.sqrt(np.square(np.where(std > 1e-10 * np.abs(mean), std, 0.0)).mean()))
    return 1.0 / std if std > 0.0 else 1.0


def _check_unit(loss: Any) -> None:
    """Raise a ValueError if the unit is given and is not a positive number."""
    if loss.unit is not None and not 0.0 < loss.unit < np.inf:
        raise ValueError(f"{type(loss).__name__}(unit={loss.unit!r}): the unit must be a positive number, or None.")


def _unit(given: float | None, targets: np.ndarray, weights: np.ndarray) -> float:
    """Return the unit that is given, or the spread of the targets.

    That is their median distance from their median, scaled to the standard deviation of normal targets, which far
    outliers do not change; where half of the targets are equal, it is the standard deviation.
    """
    if given is not None:
        return given
    columns = zip(np.atleast_2d(targets.T), np.atleast_2d(weights.T), strict=True)
    spreads = [1.4826 * _median(np.abs(y - _median(y, a)), a) for y, a in columns]
    return float(np.mean(spreads)) or 1.0 / _inverse_spread(targets, weights)


def _median(y: np.ndarray, weights: np.ndarray) -> float:
    """Return the least number with half of the weight at or below it; 0 where there are none."""
    order = np.argsort(y, kind="stable")
    below = np.cumsum(weights[order])
    return float(y[order[np.searchsorted(below, 0.5 * below[-1])]]) if len(y) else 0.0


__all__ = [
    "CLASSIFIER_LOSSES",
    "REGRESSOR_LOSSES",
    "SMOOTH_LOSSES",
    "EpsilonInsensitive",
    "Gamma",
    "Hinge",
    "Huber",
    "Logistic",
    "Multinomial",
    "Poisson",
    "Quantile",
    "Squared",
    "SquaredHinge",
    "Tweedie",
    "curvature",
    "derivative",
    "value",
]
CLASSIFIER_LOSSES = {
    "logistic": Logistic(),
    "log_loss": Logistic(),
    "hinge": Hinge(),
    "squared-hinge": SquaredHinge(),
    "squared_hinge": SquaredHinge(),
    "multinomial": Multinomial(),
    "squared": Squared(),
    "squared_error": Squared(),
}
REGRESSOR_LOSSES = {
    "squared": Squared(),
    "squared_error": Squared(),
    "huber": Huber(unit=None),
    "absolute": EpsilonInsensitive(0.0),
    "absolute_error": EpsilonInsensitive(0.0),
    "epsilon-insensitive": EpsilonInsensitive(unit=None),
    "epsilon_insensitive": EpsilonInsensitive(unit=None),
    "quantile": Quantile(),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "tweedie": Tweedie(),
}
SMOOTH_LOSSES = tuple(
    dict.fromkeys(
        type(loss) for loss in (CLASSIFIER_LOSSES | REGRESSOR_LOSSES).values() if loss.curved and not loss.couples
    )
)
"""Our losses with a curvature in one margin: compiled solvers of few rows take them all."""
