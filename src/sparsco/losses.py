"""Losses: a record each, with value, derivative and curvature in the margin p = <w, x> + b.

Every loss is convex in p and is averaged over examples.  ``derivative`` and ``curvature`` run inside kernels, on one
model or on several lanes; ``value`` serves reports and guards.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .dispatch import dispatched
from .lanes import exp, where


@dispatched
def value(loss: Any, p: Any, y: Any) -> Any:
    """The loss at margin p for target y."""
    raise NotImplementedError


@dispatched
def derivative(loss: Any, p: Any, y: Any) -> Any:
    """d loss / d p, the one-sided value 0 at a kink where that is a subgradient."""
    raise NotImplementedError


@dispatched
def curvature(loss: Any, p: Any, y: Any) -> Any:
    """The second derivative in p, 0 where the loss has none."""
    raise NotImplementedError


class Squared(NamedTuple):
    """Half the squared error, (p - y)^2 / 2."""

    classifies = False
    smoothness = 1.0
    curved = True

    def value(loss, p, y):  # noqa: N805
        return 0.5 * (p - y) * (p - y)

    def derivative(loss, p, y):  # noqa: N805
        return p - y

    def curvature(loss, p, y):  # noqa: N805
        return 0.0 * p + 1.0


class Logistic(NamedTuple):
    """log(1 + exp(-y p)) with y in {-1, +1}."""

    classifies = True
    smoothness = 0.25
    curved = True

    def value(loss, p, y):  # noqa: N805
        return np.logaddexp(0.0, -y * p)

    def derivative(loss, p, y):  # noqa: N805
        return -y / (1.0 + exp(y * p))

    def curvature(loss, p, y):  # noqa: N805
        e = exp(-abs(p))
        return e / ((1.0 + e) * (1.0 + e))


class Hinge(NamedTuple):
    """max(0, 1 - y p) with y in {-1, +1}; no curvature, so conversions that need one do without."""

    classifies = True
    smoothness = 1.0
    curved = False

    def value(loss, p, y):  # noqa: N805
        return np.maximum(0.0, 1.0 - y * p)

    def derivative(loss, p, y):  # noqa: N805
        return where(y * p < 1.0, -y, 0.0 * y)

    def curvature(loss, p, y):  # noqa: N805
        return 0.0 * p
