"""The scale of targets: solvers see targets near zero that spread by about one, whatever the unit of y is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..losses import value
from ..offsets import has_offset, numbers_of, records_of

_LEAST_SPREAD = 1e-12
"""The least spread of targets, as a share of the largest of them: below that it is rounding."""


class Scale(NamedTuple):
    """What targets (n, m) are divided by, and how models of divided targets become models of the targets as they are.

    A loss of p - y sees (y - centre) / unit, and weights have the unit of y.  A loss with a logarithmic link sees
    y / unit: the logarithm of the unit is added to intercepts, and weights have no unit.  A loss has the unit u^k.  So
    an L1 term has the unit of the loss over that of weights, an L2 term that over the square of it, and the mixture of
    both depends on the unit of y unless targets are divided.
    """

    centre: np.ndarray
    """What is added to the intercept of each model."""
    unit: float = 1.0
    of_weights: float = 1.0
    of_losses: float = 1.0

    @classmethod
    def of(cls, loss: Any, targets: np.ndarray, weights: np.ndarray, intercept: bool) -> Scale:
        """Return the scale of targets (n, m); the same targets, if there is none for the loss."""
        y, none = numbers_of(targets), np.zeros(targets.shape[1])
        if not len(y):
            return cls(none)
        if loss.shifts:
            mean, std = loss.moments(targets, weights)
            mean, std = (mean, std) if intercept else (none, np.hypot(mean, std))
            unit = float(np.sqrt(np.square(std).mean()))
            is_known = loss.degree is not None and unit > _LEAST_SPREAD * float(np.abs(targets).max())
            return cls(mean, unit, unit, unit**loss.degree) if is_known else cls(mean)
        unit = float((weights * y).sum() / weights.sum()) if intercept and loss.degree is not None else 0.0
        return cls(none + np.log(unit), unit, 1.0, unit**loss.degree) if unit > 0.0 else cls(none)

    @property
    def is_needed(self) -> bool:
        """Return whether anything changes."""
        return self.unit != 1.0 or bool(self.centre.any())

    @property
    def has_log_link(self) -> bool:
        """Return whether weights have no unit, though targets have one."""
        return self.unit != self.of_weights

    def inside(self, targets: np.ndarray) -> np.ndarray:
        """Return targets (n, m) as solvers see them."""
        if not self.is_needed:
            return targets
        if has_offset(targets):
            return records_of(targets["y"] / self.unit, targets["offset"])
        return (targets if self.has_log_link else targets - self.centre) / self.unit

    def of_models(self, models: Any) -> Scale:
        """Return the scale of some of the models."""
        return self._replace(centre=self.centre[models])

    def outside(self, w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return weights, and intercepts or margins (..., m), for the targets as they are."""
        return (w * self.of_weights, b * self.of_weights + self.centre) if self.is_needed else (w, b)

    def of_outside(self, w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what ``outside`` was given: weights, and intercepts or margins, for targets as solvers see them."""
        return (w / self.of_weights, (b - self.centre) / self.of_weights) if self.is_needed else (w, b)

    def terms(self, loss: Any, targets: np.ndarray, models: np.ndarray) -> np.ndarray | float:
        """Return what losses (n, models), multiplied by their unit, differ by from those of the targets as they are.

        ``loss`` and ``targets`` are as solvers see them.  The terms do not depend on margins.
        """
        if not self.has_log_link:
            return 0.0
        zero, given = np.zeros(targets.shape), self._replace(unit=1.0 / self.unit).inside(targets)
        return value(loss, zero + self.centre[models], given) - self.of_losses * value(loss, zero, targets)

    @property
    def of_l1(self) -> float:
        """Return the unit of strengths of pure L1."""
        return self.of_losses / self.of_weights

    def strength_inside(self, lam: float, l1_ratio: float) -> tuple[float, float]:
        """Return the strength and the mixture for solvers of a strength and a mixture for targets as they are."""
        return self._mixed(lam, l1_ratio, 1.0 / self.of_l1, self.of_weights / self.of_l1)

    def strength_outside(self, lam: float, l1_ratio: float) -> tuple[float, float]:
        """Return the strength and the mixture for targets as they are of a strength and a mixture for solvers."""
        return self._mixed(lam, l1_ratio, self.of_l1, self.of_l1 / self.of_weights)

    def _mixed(self, lam: float, l1_ratio: float, of_l1: float, of_l2: float) -> tuple[float, float]:
        """Return the strength and the mixture with the terms multiplied by these factors."""
        if not self.is_needed:
            return lam, l1_ratio
        l1, l2 = lam * l1_ratio * of_l1, lam * (1.0 - l1_ratio) * of_l2
        return l1 + l2, l1 / (l1 + l2) if l1 + l2 > 0.0 else 1.0


AS_IT_IS = Scale(np.zeros(1))
"""The scale that changes no target."""
