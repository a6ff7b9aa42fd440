"""Smooth twins of losses with kinks, for solvers that need a curvature.

A kink max(0, z) becomes a parabola of a given width around z = 0.  The twin differs from the loss by at most an eighth
of the width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..losses import EpsilonInsensitive, Hinge, Quantile

WIDTH = 0.1
"""The width of a parabola, in units of the margins of a classifier, or of the spread of a regression's targets."""


def _ramp(z: np.ndarray, width: float) -> np.ndarray:
    """Return max(0, z) with a parabola around 0."""
    inside = np.clip(z + 0.5 * width, 0.0, width)
    return np.square(inside) / (2.0 * width) + np.maximum(z - 0.5 * width, 0.0)


def _step(z: np.ndarray, width: float) -> np.ndarray:
    """Return the derivative of the ramp."""
    return np.clip(z / width + 0.5, 0.0, 1.0)


def _bump(z: np.ndarray, width: float) -> np.ndarray:
    """Return the second derivative of the ramp."""
    return np.where(np.abs(z) < 0.5 * width, 1.0 / width, 0.0)


class SmoothHinge(NamedTuple):
    """The hinge loss max(0, 1 - y p) with a parabola at its kink."""

    width: float

    @property
    def smoothness(self) -> float:
        return 1.0 / self.width

    def value(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _ramp(1.0 - y * p, self.width)

    def derivative(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -y * _step(1.0 - y * p, self.width)

    def curvature(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _bump(1.0 - y * p, self.width)


class SmoothQuantile(NamedTuple):
    """The quantile loss q (y - p) + max(0, p - y) with a parabola at its kink."""

    q: float
    width: float

    @property
    def smoothness(self) -> float:
        return 1.0 / self.width

    def value(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.q * (y - p) + _ramp(p - y, self.width)

    def derivative(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _step(p - y, self.width) - self.q

    def curvature(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _bump(p - y, self.width)


class SmoothEpsilonInsensitive(NamedTuple):
    """The epsilon-insensitive loss max(0, |p - y| - epsilon) with a parabola at each of its kinks."""

    epsilon: float
    width: float

    @property
    def smoothness(self) -> float:
        return 1.0 / self.width

    def value(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _ramp(p - y - self.epsilon, self.width) + _ramp(y - p - self.epsilon, self.width)

    def derivative(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _step(p - y - self.epsilon, self.width) - _step(y - p - self.epsilon, self.width)

    def curvature(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _bump(p - y - self.epsilon, self.width) + _bump(y - p - self.epsilon, self.width)


def smooth(loss: Any, width: float = WIDTH) -> Any:
    """Return the loss itself if it has a curvature, its smooth twin if there is one, or None.

    A regression loss must be resolved: its scale is the inverse of the spread of the targets.
    """
    if loss.curved:
        return loss
    if isinstance(loss, Hinge):
        return SmoothHinge(width)
    if isinstance(loss, Quantile):
        return SmoothQuantile(loss.q, width / loss.smoothness)
    if isinstance(loss, EpsilonInsensitive):
        return SmoothEpsilonInsensitive(loss.epsilon, width / loss.smoothness)
    return None
