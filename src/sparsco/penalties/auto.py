"""Penalties to be: their strength is chosen by the first rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..parts.contracts import Penalty, part
from .separable import ElasticNet, WeightedElasticNet, elastic_net


@part(Penalty)
class Auto(NamedTuple):
    """A penalty to be: ``record(lam, rho)`` with lam the ``fraction`` of the least one that selects nothing."""

    fraction: float
    l1_ratio: float
    record: Any

    strength_is_open = True

    @property
    def kind(self) -> str:
        return self.record.kind

    @property
    def has_prox(self) -> bool:
        return self.record.has_prox

    @property
    def is_absolute(self) -> bool:
        return self.record.is_absolute

    @property
    def has_strength(self) -> bool:
        return self.l1_ratio > 0.0

    def at(self, lam_max: float) -> Any:
        """The penalty for this lam_max."""
        return scaled(self.record, self.fraction * lam_max / (self.l1_ratio or 1.0), self.l1_ratio)


def scaled(record: Any, alpha: float, l1_ratio: float) -> Any:
    """``record`` with lam and rho as scikit-learn counts them."""
    return record(float(alpha) * l1_ratio, float(alpha) * (1.0 - l1_ratio))


@part(Penalty)
class AutoElasticNet(NamedTuple):
    """An elastic net to be: ``fraction`` of lam_max, the smallest L1 weight that selects nothing on the pilot rows."""

    fraction: float
    l1_ratio: float = 1.0
    pen: np.ndarray | None = None

    strength_is_open = True
    record = ElasticNet
    has_prox = is_absolute = True
    has_strength = Auto.has_strength

    def at(self, lam_max: float) -> ElasticNet | WeightedElasticNet:
        """The elastic net for this lam_max: L1 weight ``fraction * lam_max``, the L2 weight that l1_ratio implies."""
        alpha = self.fraction * lam_max / (self.l1_ratio if self.l1_ratio > 0.0 else 1.0)
        return elastic_net(alpha, self.l1_ratio, self.pen)
