"""Regularizers: psi(w) = lam * sum_j pen_j |w_j| + (rho / 2) ||w||^2, and the pieces a lazy kernel needs of it.

``prox`` is the scalar map v -> argmin_u (u - v)^2 / 2 + s |u|.  Applied once with s = eta * lam it is one step's
prox; applied with the total shrinkage of an idle stretch it is that whole stretch: the fact that makes kernels lazy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .dispatch import dispatched, optional
from .lanes import maximum, minimum


@dispatched
def prox(regularizer: Any, v: Any, s: Any) -> Any:
    """argmin_u (u - v)^2 / 2 + s r(u), with r the regularizer's non-smooth part at weight one."""
    raise NotImplementedError


@dispatched
def penalty(regularizer: Any, j: Any) -> Any:
    """pen_j: the relative weight of feature j in the non-smooth part."""
    raise NotImplementedError


@optional
def falls(regularizer: Any, v: Any) -> Any:
    """1 where the prox moves v towards zero, 0 where it leaves v alone, however large s."""
    return 1.0


@dispatched
def strength(regularizer: Any, w: np.ndarray) -> Any:
    """psi(w), summed over features; one number for a vector, one per column for a matrix."""
    raise NotImplementedError


def soft(v: Any, s: Any) -> Any:
    """S(v, s) = sign(v) max(|v| - s, 0) for arrays."""
    return np.sign(v) * np.maximum(np.abs(v) - s, 0.0)


class ElasticNet(NamedTuple):
    """lam ||w||_1 + (rho / 2) ||w||^2: L1 with ``rho = 0``, L2 with ``lam = 0``."""

    lam: float
    rho: float = 0.0

    def prox(regularizer, v, s):  # noqa: N805
        return v - minimum(maximum(v, -s), s)

    def penalty(regularizer, j):  # noqa: N805
        return 1.0

    def strength(regularizer, w):  # noqa: N805
        return regularizer.lam * np.abs(w).sum(0) + 0.5 * regularizer.rho * np.square(w).sum(0)

    def penalties(regularizer, d: int) -> np.ndarray:  # noqa: N805
        """pen as a vector."""
        return np.ones(d)


class WeightedElasticNet(NamedTuple):
    """lam * sum_j pen_j |w_j| + (rho / 2) ||w||^2, a weight ``pen_j >= 0`` for each feature."""

    lam: float
    rho: float
    pen: np.ndarray

    def prox(regularizer, v, s):  # noqa: N805
        return v - minimum(maximum(v, -s), s)

    def penalty(regularizer, j):  # noqa: N805
        return regularizer.pen[j]

    def strength(regularizer, w):  # noqa: N805
        pen = regularizer.pen if w.ndim == 1 else regularizer.pen[:, None]
        return regularizer.lam * (pen * np.abs(w)).sum(0) + 0.5 * regularizer.rho * np.square(w).sum(0)

    def penalties(regularizer, d: int) -> np.ndarray:  # noqa: N805
        """pen as a vector."""
        return np.asarray(regularizer.pen, dtype=np.float64)


class AutoElasticNet(NamedTuple):
    """An elastic net to be: ``fraction`` of lam_max, the smallest L1 weight that selects nothing on the pilot rows."""

    fraction: float
    l1_ratio: float = 1.0
    pen: np.ndarray | None = None

    def at(self, lam_max: float) -> ElasticNet | WeightedElasticNet:
        """The elastic net for this lam_max: L1 weight ``fraction * lam_max``, the L2 weight that l1_ratio implies."""
        alpha = self.fraction * lam_max / (self.l1_ratio if self.l1_ratio > 0.0 else 1.0)
        return elastic_net(alpha, self.l1_ratio, self.pen)


def elastic_net(alpha: float, l1_ratio: float, pen: np.ndarray | None = None) -> ElasticNet | WeightedElasticNet:
    """alpha (l1_ratio ||w||_1 + (1 - l1_ratio) / 2 ||w||^2), as scikit-learn counts."""
    lam, rho = float(alpha) * l1_ratio, float(alpha) * (1.0 - l1_ratio)
    return ElasticNet(lam, rho) if pen is None else WeightedElasticNet(lam, rho, pen)


def L1(lam: float) -> ElasticNet:  # noqa: N802
    """The L1 norm: an elastic net without the L2 term."""
    return ElasticNet(lam, 0.0)


def L2(rho: float) -> ElasticNet:  # noqa: N802
    """Half the squared Euclidean norm: an elastic net without the L1 term; nothing becomes zero."""
    return ElasticNet(0.0, rho)
