"""The mean loss of an exact problem: values, slopes and second derivatives in the margins, and its part of the dual.

A loss with kinks is replaced by its Moreau envelope, shifted in row i by ``width`` times a multiplier u_i.  This is the
augmented Lagrangian of the constraints z_i = x_i W + b: after each solution u_i becomes the envelope's slope there.
The multipliers converge to slopes of the loss itself, for any width, so widths need not go to zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..losses import curvature, derivative, value
from ..offsets import spread_of
from .smoothing import envelope

_FIRST_WIDTH = 0.1
_NARROWER = 0.25
_NUMBERS = 1 << 14
"""The numbers that are processed together: temporary arrays of that size stay in a cache, and cost no new memory."""
_SOME_ROWS = 1000
"""The rows that show the scale of the loss."""
_LEAST = 1e-6
"""The share of the loss at zero margins below which an objective counts as zero."""


class Bends(NamedTuple):
    """The second derivatives of the mean loss in the margins of row i, diag(h_i) - r_i s_i^T, and a bound on them."""

    h: np.ndarray
    r: np.ndarray | None
    """None: outputs are apart, and r and s are zero."""
    s: np.ndarray | None
    bound: np.ndarray
    """diag(bound_i) is at least the second derivatives of row i."""


class LossTerm:
    """The mean loss over rows as a function of the margins P (n, m).

    A loss with kinks is smoothed here: by its envelope of the present width, shifted by the multipliers.
    """

    def __init__(self, loss: Any, y: np.ndarray, share: np.ndarray, P: np.ndarray) -> None:
        """Take targets and shares of the rows in the mean (n, m); multipliers begin as the slopes at margins P."""
        self.loss, self.y, self.share = loss, y, share
        self.has_kinks = not loss.curved
        self.twin, self.width, self.shift = loss, 0.0, np.zeros(1)
        self.bend = 1.0 if loss.smoothness_is_bound else float(loss.smoothness)
        """The scale of curvatures."""
        if self.has_kinks:
            self._set(_FIRST_WIDTH / loss.smoothness, derivative(loss, P, y))

    def _set(self, width: float, multipliers: np.ndarray) -> None:
        self.width, self.twin, self.shift = width, envelope(self.loss, width), width * multipliers
        self.bend = 1.0 / width

    def renew(self, P: np.ndarray, narrower: bool) -> None:
        """Replace the multipliers by the slopes at P, and make the width smaller if asked to."""
        self._set(self.width * (_NARROWER if narrower else 1.0), self.raw_slopes(P))

    def at(self, some: slice) -> LossTerm:
        """Return the part of some rows, of a loss without kinks."""
        return LossTerm(self.loss, self.y[some], self.share[some], np.zeros_like(self.y[some]))

    @cached_property
    def least(self) -> float:
        """Return the least objective that gaps are compared with."""
        return _LEAST * abs(self._value_at_zero()) + 1e-300

    def _value_at_zero(self) -> float:
        """Return about the mean loss at zero margins: that of some rows, evenly spaced."""
        every = max(len(self.share) // _SOME_ROWS, 1)
        share, y = self.share[::every], self.y[::every]
        return every * float((share * value(self.loss, np.zeros(share.shape), y)).sum())

    def value(self, P: np.ndarray) -> float:
        """Return the mean loss; of a loss with kinks, its envelope."""
        return self._sum(lambda here: value(self.twin, self._shifted(P, here), self.y[here]))

    def true_value(self, P: np.ndarray) -> float:
        """Return the mean of the loss itself."""
        return self._sum(lambda here: value(self.loss, P[here], self.y[here]))

    def raw_slopes(self, P: np.ndarray) -> np.ndarray:
        """Return the derivatives of each example's loss in its margins."""
        return self._each(lambda here: derivative(self.twin, self._shifted(P, here), self.y[here]))

    def slopes(self, P: np.ndarray) -> np.ndarray:
        """Return the derivatives of the mean loss in the margins."""
        return self._each(lambda here: self.share[here] * derivative(self.twin, self._shifted(P, here), self.y[here]))

    def bends(self, P: np.ndarray, floor: float = 0.0) -> Bends:
        """Return the second derivatives in the margins, raised to a floor."""
        least = floor * self.bend
        if self.loss.couples:
            s = self.loss.shares(P, self.y)
            bound = np.where(s.max(1, keepdims=True) > 0.5, 2.0 * s * (1.0 - s), s)
            return Bends(self.share * (s + least), self.share * s, s, self.share * (bound + least))
        h = self._each(
            lambda here: (
                self.share[here] * np.maximum(curvature(self.twin, self._shifted(P, here), self.y[here]), least)
            )
        )
        return Bends(h, None, None, h)

    def far(self, P: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return how far each intercept b may be from its optimum, about; a shift of all targets changes nothing."""
        return self._spread + np.maximum(P.max(0) - b, b - P.min(0))

    @cached_property
    def _spread(self) -> np.ndarray:
        return spread_of(self.y)

    def _shifted(self, P: np.ndarray, here: slice) -> np.ndarray:
        """Return some of the margins, shifted by the multipliers."""
        return P[here] + self.shift[here] if self.has_kinks else P[here]

    def _sum(self, losses: Callable[[slice], np.ndarray]) -> float:
        """Return the sum of the losses of some rows at a time, times their shares."""
        with np.errstate(over="ignore"):
            return float(sum((self.share[here] * losses(here)).sum() for here in self._parts()))

    def _each(self, numbers: Callable[[slice], np.ndarray]) -> np.ndarray:
        """Return the numbers of all rows, computed for some rows at a time."""
        out = np.empty(self.share.shape)
        with np.errstate(over="ignore"):
            for here in self._parts():
                out[here] = numbers(here)
        return out

    def _parts(self) -> Iterator[slice]:
        """Yield some rows at a time."""
        n, m = self.share.shape
        length = max(1, _NUMBERS // m)
        return (slice(begin, begin + length) for begin in range(0, n, length))

    def dual(self, scale: float, slopes: np.ndarray) -> float:
        """Return the part of the dual objective that belongs to the loss, for slopes times a scale."""
        return -self._sum(lambda here: self.loss.conjugate(scale * slopes[here], self.y[here]))
