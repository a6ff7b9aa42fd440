"""Losses: a record each, with value, derivative and curvature in the margin p = <w, x> + b.

Every loss is convex in p and is averaged over examples.  ``derivative`` and ``curvature`` run inside kernels, on one
model or on several lanes; ``value`` serves reports and guards, on arrays.  At a kink the derivative is 0 where that is
a subgradient.  On its class a record says

- ``classifies``: targets are labels, -1 and +1;
- ``curved``: it has a curvature that a metric can be built from;
- ``smoothness``: a bound on the curvature, or for a loss that has none the scale by which steps are chosen;
- ``steady`` (True if it does not say): steps chosen by ``smoothness`` can be trusted; where not, the estimators'
  "auto" takes NFTRL even with an L2 term;
- ``couples``: the lanes of an example are tied (arrays: along the last axis).  Then targets are 1 for the example's
  class, 0 for every other one and -1 in lanes without a model, the lanes' values add up to the example's loss, and the
  curvature is the Hessian's diagonal.

It may also say ``check()`` (of its own constants), ``refuse(y)`` (targets it is not made for), ``resolve(targets,
weights)`` (the record with its open scale filled in), ``units(mean, std)``, ``predicted(p)`` (regressions),
``probabilities(p)`` (classifiers) and ``conjugate(c, y)`` (sup_p c p - loss(p, y) at slopes c that it has somewhere,
for duality gaps).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .jit.dispatch import dispatched, inlined
from .jit.lanes import exp, largest, maximum, minimum, signed, total, where


@dispatched
def value(loss: Any, p: Any, y: Any) -> Any:
    """The loss at margin p for target y; summed over lanes it is the example's, whether they are coupled or not."""
    raise NotImplementedError


@dispatched
def derivative(loss: Any, p: Any, y: Any) -> Any:
    """d loss / d p, the value 0 at a kink where that is a subgradient."""
    raise NotImplementedError


@dispatched
def curvature(loss: Any, p: Any, y: Any) -> Any:
    """The second derivative in p, 0 where the loss has none."""
    raise NotImplementedError


def couples(loss: Any) -> bool:
    """Whether the lanes of an example are tied."""
    return bool(getattr(loss, "couples", False))


def units(loss: Any, mean: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the intercept starts, the scale of margins and that of derivatives, for targets of this mean and spread.

    A loss that does not say is asked for its slopes at the mean where targets lie one ``std`` to either side.
    """
    if hasattr(loss, "units"):
        return loss.units(mean, std)
    if loss.classifies:
        return np.zeros_like(mean), np.ones_like(std), np.ones_like(std)
    slopes = [derivative(loss, mean, mean + side) for side in (-std, std)]
    scale = np.sqrt(0.5 * (np.square(slopes[0]) + np.square(slopes[1])))
    return mean, std, np.where(scale > 0.0, scale, 1.0)


class Squared(NamedTuple):
    """Half the squared error, (p - y)^2 / 2."""

    classifies = False
    smoothness = 1.0
    curved = True
    couples = False

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


class Huber(NamedTuple):
    """(p - y)^2 / 2 up to a residual of ``epsilon``, from there on epsilon |p - y| - epsilon^2 / 2."""

    epsilon: float = 1.35

    classifies = False
    smoothness = 1.0
    curved = True
    couples = False

    def check(self) -> None:
        if not 0.0 < self.epsilon < np.inf:
            raise ValueError(f"Huber(epsilon={self.epsilon!r}): epsilon must be a positive number.")

    def value(loss, p, y):  # noqa: N805
        r = np.abs(p - y)
        return np.where(r <= loss.epsilon, 0.5 * r * r, loss.epsilon * r - 0.5 * loss.epsilon * loss.epsilon)

    def derivative(loss, p, y):  # noqa: N805
        return minimum(maximum(p - y, -loss.epsilon), loss.epsilon)

    def curvature(loss, p, y):  # noqa: N805
        return where(abs(p - y) <= loss.epsilon, 1.0, 0.0 * p)

    def conjugate(self, c: np.ndarray, y: np.ndarray) -> np.ndarray:
        return c * (0.5 * c + y)


class EpsilonInsensitive(NamedTuple):
    """max(0, |p - y| - epsilon); ``scale`` is the steps', left open the inverse of the targets' spread."""

    epsilon: float = 0.1
    scale: float | None = None

    steady = False
    classifies = False
    curved = False
    couples = False

    @property
    def smoothness(self) -> float:
        return _or_one(self.scale)

    def check(self) -> None:
        if not 0.0 <= self.epsilon < np.inf:
            raise ValueError(f"EpsilonInsensitive(epsilon={self.epsilon!r}): epsilon must be a number, zero or more.")
        _check_scale(self)

    def resolve(self, targets: np.ndarray, weights: np.ndarray) -> EpsilonInsensitive:
        """With the scale filled in."""
        return self if self.scale is not None else self._replace(scale=_inverse_spread(targets, weights))

    def value(loss, p, y):  # noqa: N805
        return np.maximum(0.0, np.abs(p - y) - loss.epsilon)

    def derivative(loss, p, y):  # noqa: N805
        return where(abs(p - y) > loss.epsilon, signed(1.0, p - y), 0.0 * p)

    def curvature(loss, p, y):  # noqa: N805
        return 0.0 * p


class Quantile(NamedTuple):
    """The pinball loss, q (y - p) below the target and (1 - q) (p - y) above: its optimum is the q-quantile.

    ``scale`` is the steps', left open the inverse of the targets' spread.
    """

    q: float = 0.5
    scale: float | None = None

    steady = False
    classifies = False
    curved = False
    couples = False

    @property
    def smoothness(self) -> float:
        return _or_one(self.scale)

    def check(self) -> None:
        if not 0.0 < self.q < 1.0:
            raise ValueError(f"Quantile(q={self.q!r}): q must lie between 0 and 1, both excluded.")
        _check_scale(self)

    def resolve(self, targets: np.ndarray, weights: np.ndarray) -> Quantile:
        """With the scale filled in."""
        return self if self.scale is not None else self._replace(scale=_inverse_spread(targets, weights))

    def value(loss, p, y):  # noqa: N805
        return np.maximum(loss.q * (y - p), (1.0 - loss.q) * (p - y))

    def derivative(loss, p, y):  # noqa: N805
        return where(p > y, 1.0 - loss.q, where(p < y, 0.0 * p - loss.q, 0.0 * p))

    def curvature(loss, p, y):  # noqa: N805
        return 0.0 * p


class Poisson(NamedTuple):
    """exp(p) - y p for counts y >= 0, whose mean is modelled as exp(p).

    Its curvature exp(p) has no bound, so no step size is safe; ``scale`` stands in where one is chosen, left open the
    mean of the counts that an event belongs to, sum y^2 / sum y.
    """

    scale: float | None = None

    steady = False
    classifies = False
    curved = True
    couples = False

    @property
    def smoothness(self) -> float:
        return _or_one(self.scale)

    def check(self) -> None:
        _check_scale(self)

    def refuse(self, y: np.ndarray) -> None:
        if np.any(y < 0.0):
            raise ValueError(f"y has the value {y[y < 0.0][0]:g}: the Poisson loss is for counts, zero or more.")

    def resolve(self, targets: np.ndarray, weights: np.ndarray) -> Poisson:
        """With the scale filled in."""
        events = float((weights * targets).sum())
        if self.scale is not None or events <= 0.0:
            return Poisson(_or_one(self.scale))
        return Poisson(float((weights * np.square(targets)).sum()) / events)

    def value(loss, p, y):  # noqa: N805
        return exp(p) - y * p

    def derivative(loss, p, y):  # noqa: N805
        return exp(p) - y

    def curvature(loss, p, y):  # noqa: N805
        return exp(p)

    def units(loss, mean, std):  # noqa: N805
        # a step too far is paid exponentially and AdaGrad never forgets it: small steps, the first hundred with care
        return np.log(np.where(mean > 0.0, mean, 1.0)), 0.0 * std + 0.5, 10.0 * std

    def predicted(self, p: np.ndarray) -> np.ndarray:
        """The expected count."""
        return exp(p)


class Logistic(NamedTuple):
    """log(1 + exp(-y p)) with y in {-1, +1}."""

    classifies = True
    smoothness = 0.25
    curved = True
    couples = False

    def value(loss, p, y):  # noqa: N805
        z = y * p  # logaddexp says the same in four times the time
        return np.maximum(-z, 0.0) + np.log1p(np.exp(-np.abs(z)))

    def derivative(loss, p, y):  # noqa: N805
        return -y / (1.0 + exp(y * p))

    def curvature(loss, p, y):  # noqa: N805
        e = exp(-abs(p))
        return e / ((1.0 + e) * (1.0 + e))

    def conjugate(self, c: np.ndarray, y: np.ndarray) -> np.ndarray:
        s = np.clip(-y * c, 0.0, 1.0)  # the other class's probability
        return s * np.log(np.maximum(s, 1e-300)) + (1.0 - s) * np.log(np.maximum(1.0 - s, 1e-300))

    def probabilities(self, p: np.ndarray) -> np.ndarray:
        """Of each class; with more than two each class's own, scaled to sum to one."""
        s = 1.0 / (1.0 + exp(-p))
        if s.shape[1] == 1:
            return np.hstack([1.0 - s, s])
        sums = s.sum(1, keepdims=True)
        return np.where(sums > 0.0, s / np.where(sums > 0.0, sums, 1.0), 1.0 / s.shape[1])


class Hinge(NamedTuple):
    """max(0, 1 - y p) with y in {-1, +1}; no curvature, so conversions that need one do without."""

    classifies = True
    smoothness = 1.0
    curved = False
    couples = False

    def value(loss, p, y):  # noqa: N805
        return np.maximum(0.0, 1.0 - y * p)

    def derivative(loss, p, y):  # noqa: N805
        return where(y * p < 1.0, -y, 0.0 * y)

    def curvature(loss, p, y):  # noqa: N805
        return 0.0 * p


class SquaredHinge(NamedTuple):
    """max(0, 1 - y p)^2 with y in {-1, +1}, not halved, as scikit-learn has it."""

    classifies = True
    smoothness = 2.0
    curved = True
    couples = False

    def value(loss, p, y):  # noqa: N805
        return np.square(np.maximum(0.0, 1.0 - y * p))

    def derivative(loss, p, y):  # noqa: N805
        return -2.0 * y * maximum(1.0 - y * p, 0.0)

    def curvature(loss, p, y):  # noqa: N805
        return where(y * p < 1.0, 2.0, 0.0 * p)

    def conjugate(self, c: np.ndarray, y: np.ndarray) -> np.ndarray:
        return c * (0.25 * c + y)

    def units(loss, mean, std):  # noqa: N805
        # slopes grow with a step too far and AdaGrad never forgets them: as for Poisson
        return 0.0 * mean, 0.0 * std + 0.5, 0.0 * std + 10.0


class Multinomial(NamedTuple):
    """log(sum_k exp(p_k)) - p_y over the lanes of an example: one softmax for all classes."""

    classifies = True
    smoothness = 0.5
    curved = True
    couples = True

    def value(loss, p, y):  # noqa: N805
        q = where(y < 0.0, -np.inf, p)
        top = largest(q)
        return maximum(y, 0.0) * (top + np.log(total(exp(q - top))) - p)

    def derivative(loss, p, y):  # noqa: N805
        return _softmax(p, y) - maximum(y, 0.0)

    def curvature(loss, p, y):  # noqa: N805
        s = _softmax(p, y)
        return s * (1.0 - s)

    def probabilities(self, p: np.ndarray) -> np.ndarray:
        """Of each class."""
        return _softmax(p, 0.0 * p)


@inlined
def _softmax(p, y):
    """exp(p_k) / sum_k exp(p_k), 0 in lanes without a model."""
    q = where(y < 0.0, -np.inf, p)
    e = exp(q - largest(q))
    return e / total(e)


def _check_scale(loss: Any) -> None:
    """Raise an error where the scale of steps is given and is no positive number."""
    if loss.scale is not None and not 0.0 < loss.scale < np.inf:
        raise ValueError(f"{type(loss).__name__}(scale={loss.scale!r}): the scale must be a positive number.")


def _or_one(scale: float | None) -> float:
    return 1.0 if scale is None else scale


def _inverse_spread(targets: np.ndarray, weights: np.ndarray) -> float:
    """One over the standard deviation of the targets; 1 where they have none."""
    share = weights / max(float(weights.sum()), 1e-300)
    mean = float((share * targets).sum())
    std = float(np.sqrt((share * np.square(targets - mean)).sum()))
    return 1.0 / std if std > 1e-10 * abs(mean) else 1.0


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
    "huber": Huber(),
    "epsilon-insensitive": EpsilonInsensitive(),
    "epsilon_insensitive": EpsilonInsensitive(),
    "quantile": Quantile(),
    "poisson": Poisson(),
}
