"""Losses of a mean that is modelled as exp(p): counts, amounts, and sums of amounts.

They are members of one family: the variance is the mean to the power 1 (Poisson), 2 (gamma), or between (Tweedie).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .jit.lanes import exp, minimum
from .parts.contracts import Loss, part, weighted_moments

TINY = 1e-300
_STEEPEST = 700.0
"""The largest exponent of a factor of y: zero times infinity is no number."""
_LARGEST_OFFSET = 100.0


def _smoothness(loss: Any) -> float:
    """Return the scale, or 1 while it is open."""
    return or_one(loss.scale)


def _resolve(loss: Any, targets: np.ndarray, weights: np.ndarray) -> Any:
    """Return the record with its scale filled in: sum y^2 / sum y times mean^(1 - power); 1 where all are zero."""
    events = float((weights * targets).sum())
    if loss.scale is not None or events <= 0.0:
        return loss._replace(scale=or_one(loss.scale))
    own = float((weights * np.square(targets)).sum()) / events
    return loss._replace(
        scale=own if loss.power == 1.0 else own * (events / float(weights.sum())) ** (1.0 - loss.power)
    )


def _in_units_of(loss: Any, unit: float) -> Any:
    """Return the record for targets that were divided by a unit."""
    return loss if loss.scale is None else loss._replace(scale=loss.scale / unit**loss.degree)


def _moments(
    loss: Any, targets: np.ndarray, weights: np.ndarray, offset: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean at offset 0, and the spread that ``units`` turns into that of the slopes there."""
    if offset is None:
        return weighted_moments(targets, weights)
    times, divided = np.exp((2.0 - loss.power) * offset), np.exp((1.0 - loss.power) * offset)
    mean = (weights * divided * targets).sum(0) / np.maximum((weights * times).sum(0), TINY)
    squares = weights * np.square(times * mean - divided * targets)
    return mean, np.sqrt(squares.sum(0) / np.maximum(weights.sum(0), TINY))


def _units(loss: Any, mean: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the initial intercept and the scales of margins and derivatives.

    Too long a step costs exponentially and AdaGrad never forgets it: small steps, the first hundred damped.
    """
    mean = np.where(mean > 0.0, mean, 1.0)
    slope = 10.0 * std if loss.power == 1.0 else 10.0 * std * mean ** (1.0 - loss.power)
    return np.log(mean), 0.0 * std + 0.5, slope


def _predicted(loss: Any, p: np.ndarray) -> np.ndarray:
    """Return the expected target."""
    return exp(p)


def _refuse_offset(loss: Any, offset: np.ndarray) -> None:
    """Raise a ValueError for an offset that cannot be the logarithm of an exposure."""
    if np.any(large := np.abs(offset) > _LARGEST_OFFSET):
        raise ValueError(
            f"offset has the value {offset[large][0]:g}, which is added to the logarithm of the mean: give "
            "log(exposure), not the exposure."
        )


def check_scale(loss: Any) -> None:
    """Raise a ValueError if the scale is given and is not a positive number."""
    if loss.scale is not None and not 0.0 < loss.scale < np.inf:
        raise ValueError(f"{type(loss).__name__}(scale={loss.scale!r}): the scale must be a positive number.")


def or_one(scale: float | None) -> float:
    """Return the scale, or 1 while it is open."""
    return 1.0 if scale is None else scale


@part(Loss, scale="stands in for a bound on the curvature; None: from the first counts")
class Poisson(NamedTuple):
    """The Poisson loss exp(p) - y p for counts y >= 0, whose mean is modelled as exp(p).

    Its curvature exp(p) has no bound, so no step size is safe.

    Parameters
    ----------
    scale : float or None
        The stand-in for a bound on the curvature where step sizes are chosen.  None: sum y^2 / sum y, the mean count
        over events.
    """

    scale: float | None = None

    smoothness_is_bound = False
    classifies = False
    curved = True
    power, degree = 1.0, 1.0
    check = check_scale
    resolve, moments, units, in_units_of = _resolve, _moments, _units, _in_units_of
    predicted, refuse_offset = _predicted, _refuse_offset
    smoothness = property(_smoothness)

    def refuse(self, y: np.ndarray) -> None:
        if np.any(y < 0.0):
            raise ValueError(f"y has the value {y[y < 0.0][0]:g}: the Poisson loss is for counts, zero or more.")

    def value(loss, p, y):  # noqa: N805
        return exp(p) - y * p

    def derivative(loss, p, y):  # noqa: N805
        return exp(p) - y

    def curvature(loss, p, y):  # noqa: N805
        return exp(p)

    def conjugate(self, c: np.ndarray, y: np.ndarray) -> np.ndarray:
        mean = np.maximum(c + y, 0.0)
        return mean * (np.log(np.maximum(mean, TINY)) - 1.0)


@part(Loss, scale="stands in for a bound on the curvature; None: from the first amounts")
class Gamma(NamedTuple):
    """The gamma loss y exp(-p) + p - log(y) - 1 for amounts y > 0, whose mean is modelled as exp(p).

    It is half the deviance of a gamma distribution.  Its curvature y exp(-p) has no bound, so no step size is safe.

    Parameters
    ----------
    scale : float or None
        The stand-in for a bound on the curvature where step sizes are chosen.  None: sum y^2 / sum y, over the mean.
    """

    scale: float | None = None

    smoothness_is_bound = False
    classifies = False
    curved = True
    power, degree = 2.0, 0.0
    check = check_scale
    resolve, moments, units, in_units_of = _resolve, _moments, _units, _in_units_of
    predicted, refuse_offset = _predicted, _refuse_offset
    smoothness = property(_smoothness)

    def refuse(self, y: np.ndarray) -> None:
        if np.any(y <= 0.0):
            raise ValueError(
                f"y has the value {y[y <= 0.0][0]:g}: the gamma loss is for amounts above zero; leave such rows out, "
                "or choose the Tweedie loss."
            )

    def value(loss, p, y):  # noqa: N805
        return y * exp(-p) + (p - np.log(np.maximum(y, TINY)) - 1.0)

    def derivative(loss, p, y):  # noqa: N805
        return 1.0 - y * exp(-p)

    def curvature(loss, p, y):  # noqa: N805
        return y * exp(-p)

    def conjugate(self, c: np.ndarray, y: np.ndarray) -> np.ndarray:
        share = np.maximum(1.0 - c, 0.0)  # of y over its mean
        return c * (np.log(np.maximum(y, TINY)) + 1.0) + share * np.log(np.maximum(share, TINY))


@part(
    Loss,
    power="the variance is the mean to this power, between 1 and 2",
    scale="stands in for a bound on the curvature; None: from the first sums",
)
class Tweedie(NamedTuple):
    """The Tweedie loss of sums of amounts y >= 0, of which many are zero, whose mean is modelled as exp(p).

    It is half the deviance, exp(a p) / a + y exp(-b p) / b - y^a / (a b) with a = 2 - power and b = power - 1.

    Parameters
    ----------
    power : float
        The power of the mean that the variance is proportional to, between 1 (Poisson) and 2 (gamma).
    scale : float or None
        The stand-in for a bound on the curvature where step sizes are chosen.  None: sum y^2 / sum y, times the mean to
        the power 1 - power.
    """

    power: float = 1.5
    scale: float | None = None

    smoothness_is_bound = False
    classifies = False
    curved = True
    resolve, moments, units, in_units_of = _resolve, _moments, _units, _in_units_of
    predicted, refuse_offset = _predicted, _refuse_offset
    smoothness = property(_smoothness)

    @property
    def degree(self) -> float:
        return 2.0 - self.power

    def check(self) -> None:
        if not 1.0 < self.power < 2.0:
            raise ValueError(
                f"Tweedie(power={self.power!r}): the power must lie between 1 and 2, both excluded; 1 is 'poisson', 2 "
                "is 'gamma'."
            )
        check_scale(self)

    def refuse(self, y: np.ndarray) -> None:
        if np.any(y < 0.0):
            raise ValueError(f"y has the value {y[y < 0.0][0]:g}: the Tweedie loss is for amounts, zero or more.")

    def value(loss, p, y):  # noqa: N805
        a, b = 2.0 - loss.power, loss.power - 1.0
        return exp(a * p) / a + (y * exp(minimum(-b * p, _STEEPEST)) / b - np.power(y, a) / (a * b))

    def derivative(loss, p, y):  # noqa: N805
        return exp((2.0 - loss.power) * p) - y * exp(minimum((1.0 - loss.power) * p, _STEEPEST))

    def curvature(loss, p, y):  # noqa: N805
        a, b = 2.0 - loss.power, loss.power - 1.0
        return a * exp(a * p) + b * y * exp(minimum(-b * p, _STEEPEST))

    def conjugate(self, c: np.ndarray, y: np.ndarray) -> np.ndarray:
        p = _margin_of_slope(c, y, self.power)
        return np.where((y > 0.0) | (c > 0.0), c * p, 0.0) - self.value(p, y)


def _margin_of_slope(c: np.ndarray, y: np.ndarray, power: float) -> np.ndarray:
    """Return the margin at which the derivative of the Tweedie loss is c, by Newton steps between two bounds.

    With u = exp(p) it solves u = y + c u^b.  Bounds on u follow from the larger of the two terms.
    """
    a, b = 2.0 - power, power - 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        y_log, up, down = np.log(y), np.log(np.maximum(c, 0.0)) / a, (np.log(y) - np.log(np.maximum(-c, 0.0))) / b
    low = np.where(c >= 0.0, np.maximum(y_log, up), np.minimum(y_log, down) - np.log(2.0) / min(b, 1.0))
    high = np.where(c >= 0.0, np.maximum(y_log, up + np.log(2.0) / a) + np.log(2.0), np.minimum(y_log, down))
    low, high = (np.clip(np.nan_to_num(bound, nan=0.0), -_STEEPEST / a, _STEEPEST) for bound in (low, high))
    p = 0.5 * (low + high)
    for _ in range(100):
        grown, left = np.exp(a * p), y * np.exp(np.minimum(-b * p, _STEEPEST))
        miss = grown - left - c
        low, high = np.where(miss < 0.0, p, low), np.where(miss > 0.0, p, high)
        step = p - miss / np.maximum(a * grown + b * left, TINY)
        after = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
        is_done, p = np.all(np.abs(after - p) <= 1e-14 * (1.0 + np.abs(p))), after
        if is_done:
            break
    return p
