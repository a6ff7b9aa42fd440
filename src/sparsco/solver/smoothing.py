"""Smooth twins of losses with kinks, for solvers that need a curvature.

A kink max(0, z) becomes a parabola of a given width.  Where the parabola is centred at z = 0, the twin differs from the
loss by at most an eighth of the width.  Where it begins there, the twin is the loss's Moreau envelope.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..losses import EpsilonInsensitive, Hinge, Quantile
from ..offsets import WithOffset

WIDTH = 0.1
"""The width of a parabola, in units of the margins of a classifier, or of the spread of a regression's targets."""


def _ramp(z: np.ndarray, width: float) -> np.ndarray:
    """Return max(0, z) with a parabola from 0 to ``width``."""
    inside = np.clip(z, 0.0, width)
    return np.square(inside) / (2.0 * width) + np.maximum(z - width, 0.0)


def _step(z: np.ndarray, width: float) -> np.ndarray:
    """Return the derivative of the ramp."""
    return np.clip(z / width, 0.0, 1.0)


def _bump(z: np.ndarray, width: float) -> np.ndarray:
    """Return the second derivative of the ramp."""
    return np.where((z > 0.0) & (z < width), 1.0 / width, 0.0)


class SmoothHinge(NamedTuple):
    """The hinge loss max(0, 1 - y p) with a parabola at its kink."""

    width: float
    centre: float = 0.5
    """The share of the parabola that lies before the kink."""

    @property
    def bends_everywhere(self) -> bool:
        return False

    @property
    def smoothness(self) -> float:
        return 1.0 / self.width

    def value(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _ramp(1.0 + self.centre * self.width - y * p, self.width)

    def derivative(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -y * _step(1.0 + self.centre * self.width - y * p, self.width)

    def curvature(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _bump(1.0 + self.centre * self.width - y * p, self.width)


class SmoothQuantile(NamedTuple):
    """The quantile loss q (y - p) + max(0, p - y) with a parabola at its kink.

    The parabola joins the slopes -q and 1 - q; ``centre`` of it lies before the kink.
    """

    q: float
    width: float
    centre: float = 0.5

    @property
    def bends_everywhere(self) -> bool:
        return False

    @property
    def smoothness(self) -> float:
        return 1.0 / self.width

    def value(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.q * (y - p) + _ramp(p - y + self.centre * self.width, self.width)

    def derivative(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _step(p - y + self.centre * self.width, self.width) - self.q

    def curvature(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _bump(p - y + self.centre * self.width, self.width)


class SmoothEpsilonInsensitive(NamedTuple):
    """The epsilon-insensitive loss max(0, |p - y| - epsilon) with a parabola at each of its kinks."""

    epsilon: float
    width: float
    centre: float = 0.5

    @property
    def bends_everywhere(self) -> bool:
        return False

    @property
    def smoothness(self) -> float:
        return 1.0 / self.width

    def value(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        over, under = self._beyond(p, y)
        return _ramp(over, self.width) + _ramp(under, self.width)

    def derivative(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        over, under = self._beyond(p, y)
        return _step(over, self.width) - _step(under, self.width)

    def curvature(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        over, under = self._beyond(p, y)
        return _bump(over, self.width) + _bump(under, self.width)

    def _beyond(self, p: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how far p is above y + epsilon, and below y - epsilon, both from where the parabola begins."""
        margin = self.epsilon - self.centre * self.width
        return p - y - margin, y - p - margin


def smooth(loss: Any, width: float = WIDTH) -> Any:
    """Return the loss itself if it has a curvature, its smooth twin if there is one, or None.

    A regression loss must be resolved: its scale is the inverse of the spread of the targets.
    """
    if loss.curved:
        return loss
    if isinstance(loss, WithOffset):
        return WithOffset(twin) if (twin := smooth(loss.base, width)) is not None else None
    if isinstance(loss, Hinge):
        return SmoothHinge(width)
    if isinstance(loss, Quantile):
        return SmoothQuantile(loss.q, width / loss.smoothness)
    if isinstance(loss, EpsilonInsensitive):
        return SmoothEpsilonInsensitive(loss.epsilon, width / loss.smoothness)
    return None


def envelope(loss: Any, width: float) -> Any:
    """Return the Moreau envelope min_z loss(z) + (p - z)^2 / (2 width) of a loss with kinks, None for another loss.

    The width is in units of the margins.  A constant is left out.
    """
    if isinstance(loss, WithOffset):
        return WithOffset(twin) if (twin := envelope(loss.base, width)) is not None else None
    if isinstance(loss, Hinge):
        return SmoothHinge(width, 0.0)
    if isinstance(loss, Quantile):
        return SmoothQuantile(loss.q, width, loss.q)
    if isinstance(loss, EpsilonInsensitive):
        return SmoothEpsilonInsensitive(loss.epsilon, width, 0.0)
    return None
