"""Penalties whose strength is computed from the first rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..parts.contracts import Penalty, part
from .separable import ElasticNet, WeightedElasticNet, elastic_net


@part(Penalty)
class Auto(NamedTuple):
    """A penalty with open strength: ``record(lam, rho)``, with lam a fraction of the least that selects no feature.

    Parameters
    ----------
    fraction : float
        The share of lam_max, the least lam that selects no feature on the pilot rows.
    l1_ratio : float
        The share of the nonsmooth term, as in scikit-learn.
    record : class
        The class of the penalty.
    """

    fraction: float
    l1_ratio: float
    record: Any

    strength_is_open = True

    @property
    def kind(self) -> str:
        return self.record.kind

    @property
    def form(self) -> str:
        return self.record.form

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
        """Return the penalty for this lam_max."""
        return scaled(self.record, self.fraction * lam_max / (self.l1_ratio or 1.0), self.l1_ratio)


@part(Penalty)
class AutoGroups(NamedTuple):
    """A penalty of groups with open strength: lam is a fraction of the least that selects no group.

    Parameters
    ----------
    fraction : float
        The share of lam_max, the least lam that selects no group on the pilot rows.
    l1_ratio : float
        The share of the nonsmooth term, as in scikit-learn.
    groups : penalty
        The penalty with its groups, of any strength.
    """

    fraction: float
    l1_ratio: float
    groups: Any

    strength_is_open = True

    @property
    def record(self) -> Any:
        return type(self.groups)

    kind, form, has_prox, is_absolute = Auto.kind, Auto.form, Auto.has_prox, Auto.is_absolute
    has_strength = Auto.has_strength

    def dual_norm_at(self, G: np.ndarray) -> float:
        return self.groups.dual_norm_at(G)

    def at(self, lam_max: float) -> Any:
        """Return the penalty for this lam_max."""
        return rescaled(self.groups, self.fraction * lam_max / (self.l1_ratio or 1.0), self.l1_ratio)


def rescaled(penalty: Any, alpha: float, l1_ratio: float) -> Any:
    """Return the penalty with lam and rho from alpha and l1_ratio, in scikit-learn's convention."""
    return penalty._replace(lam=float(alpha) * l1_ratio, rho=float(alpha) * (1.0 - l1_ratio))


def scaled(record: Any, alpha: float, l1_ratio: float) -> Any:
    """Return ``record`` with lam and rho from alpha and l1_ratio, in scikit-learn's convention."""
    return record(float(alpha) * l1_ratio, float(alpha) * (1.0 - l1_ratio))


@part(Penalty)
class AutoElasticNet(NamedTuple):
    """An elastic net with open strength: its L1 weight is a fraction of lam_max.

    lam_max is the smallest L1 weight that selects no feature on the pilot rows.

    Parameters
    ----------
    fraction : float
        The L1 weight as a share of lam_max.
    l1_ratio : float
        The share of the L1 term, as in scikit-learn.
    pen : ndarray or None
        The weight of each feature in the L1 norm.  None: all 1.
    """

    fraction: float
    l1_ratio: float = 1.0
    pen: np.ndarray | None = None

    strength_is_open = True
    record = ElasticNet
    has_prox = is_absolute = True
    has_strength = Auto.has_strength

    def at(self, lam_max: float) -> ElasticNet | WeightedElasticNet:
        """Return the elastic net with L1 weight ``fraction * lam_max`` and the L2 weight that l1_ratio implies."""
        alpha = self.fraction * lam_max / (self.l1_ratio if self.l1_ratio > 0.0 else 1.0)
        return elastic_net(alpha, self.l1_ratio, self.pen)
