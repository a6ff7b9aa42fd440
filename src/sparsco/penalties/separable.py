"""Penalties that treat each weight alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit.lanes import maximum, minimum, where
from ..parts.contracts import Penalty, part
from .base import l2_terms
from .blocks import Blocks


@part(Penalty)
class ElasticNet(NamedTuple):
    """The elastic net lam ||w||_1 + (rho / 2) ||w||^2: L1 with ``rho = 0``, L2 with ``lam = 0``.

    Parameters
    ----------
    lam : float
        The weight of the L1 norm.
    rho : float
        The weight of the L2 term.
    """

    lam: float
    rho: float = 0.0

    def prox(penalty, v, s):  # noqa: N805
        return v - minimum(maximum(v, -s), s)

    def prox_step(penalty, v, s, g):  # noqa: N805
        return v - (minimum(maximum(v, -s), s) + g)

    def strength(penalty, w):  # noqa: N805
        return penalty.lam * np.abs(w).sum(0) + l2_terms(penalty, w)

    def blocks(penalty, d: int) -> Blocks:  # noqa: N805
        return Blocks(penalty.lam * penalty.feature_weights(d), float(penalty.rho))


@part(Penalty, pen="the weight of each feature in the L1 norm, at least 0")
class WeightedElasticNet(NamedTuple):
    """The elastic net with feature weights, lam * sum_j pen_j |w_j| + (rho / 2) ||w||^2.

    Parameters
    ----------
    lam : float
        The weight of the L1 norm.
    rho : float
        The weight of the L2 term.
    pen : ndarray
        The weight ``pen_j >= 0`` of each feature in the L1 norm.
    """

    lam: float
    rho: float
    pen: np.ndarray

    prox, prox_step, blocks = ElasticNet.prox, ElasticNet.prox_step, ElasticNet.blocks

    def feature_weight(penalty, j):  # noqa: N805
        return penalty.pen[j]

    def strength(penalty, w):  # noqa: N805
        pen = penalty.pen if w.ndim == 1 else penalty.pen[:, None]
        return penalty.lam * (pen * np.abs(w)).sum(0) + l2_terms(penalty, w)

    def feature_weights(penalty, d: int) -> np.ndarray:  # noqa: N805
        """Return pen as a vector."""
        return np.asarray(penalty.pen, dtype=np.float64)


_AT_ONCE = 1e300
"""The rate of an immediate fall to zero; finite, because it is multiplied by zeros."""


@part(Penalty)
class NonNegative(NamedTuple):
    """The nonnegative elastic net, lam sum_j w_j + (rho / 2) ||w||^2 over w >= 0.

    Parameters
    ----------
    lam : float
        The weight of the L1 norm.
    rho : float
        The weight of the L2 term.
    """

    lam: float
    rho: float = 0.0

    def prox(penalty, v, s):
        return maximum(v - s, 0.0 * v)

    def shrink_rate(penalty, v):
        return where(v > 0.0, 0.0 * v + 1.0, 0.0 * v + _AT_ONCE)

    def prox_all(penalty, W, s):
        return np.maximum(W - s * penalty.lam, 0.0)

    def strength(penalty, w):
        value = penalty.lam * w.sum(0) + 0.5 * penalty.rho * np.square(w).sum(0)
        return np.where((w >= 0.0).all(0), value, np.inf)

    def blocks(penalty, d: int) -> Blocks:
        return Blocks(np.full(d, float(penalty.lam)), float(penalty.rho), np.zeros(d), np.full(d, np.inf))

    def dual_norm(G):
        """Return the least lam at which w = 0 is optimal for the gradient G there."""
        return float((-G).max(initial=0.0))


def elastic_net(alpha: float, l1_ratio: float, pen: np.ndarray | None = None) -> ElasticNet | WeightedElasticNet:
    """Return alpha (l1_ratio ||w||_1 + (1 - l1_ratio) / 2 ||w||^2), in scikit-learn's convention."""
    lam, rho = float(alpha) * l1_ratio, float(alpha) * (1.0 - l1_ratio)
    return ElasticNet(lam, rho) if pen is None else WeightedElasticNet(lam, rho, pen)


def L1(lam: float) -> ElasticNet:  # noqa: N802
    """Return the L1 norm: an elastic net without the L2 term."""
    return ElasticNet(lam, 0.0)


def L2(rho: float) -> ElasticNet:  # noqa: N802
    """Return half the squared Euclidean norm: an elastic net without the L1 term; no weight becomes zero."""
    return ElasticNet(0.0, rho)
