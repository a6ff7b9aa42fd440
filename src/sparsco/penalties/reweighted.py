"""Penalties that phase two approximates by weighted L1 norms: MCP and the adaptive lasso.

Phase one learns with the L1 norm of the same strength (``convex``).  Phase two then solves elastic nets with feature
weights, each with the weights that ``reweighted`` computes from the solution before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..parts.contracts import Penalty, part
from .base import beside, checked, l2_terms
from .separable import ElasticNet, WeightedElasticNet

EXCLUDED = 1e100
"""The weight of a feature that stays out; finite, because it is multiplied by zeros."""
_STRENGTH = "the weight of the L1 norm near zero; None: that of the estimator's alpha and l1_ratio"


def _convex(penalty: Any) -> ElasticNet | WeightedElasticNet:
    """Return the elastic net of the same strength."""
    lam, rho, pen = penalty.lam, penalty.rho, penalty.pen
    return ElasticNet(lam, rho) if pen is None else WeightedElasticNet(lam, rho, pen)


@part(Penalty, lam=_STRENGTH, gamma="the threshold in units of lam, above 1")
class MCP(NamedTuple):
    """The minimax concave penalty: lam |w| - w^2 / (2 gamma) up to |w| = gamma lam, constant beyond, plus an L2 term.

    It selects like L1, but does not shrink large weights.  It is not convex: the model is reached from the solution
    with L1 by at most five weighted L1 problems, and another local optimum may be better.  ``gamma`` assumes columns of
    comparable scale, about a mean square of one.

    Parameters
    ----------
    lam : float or None
        The weight of the L1 norm near zero.  None: alpha times l1_ratio of the estimator.
    rho : float
        The weight of the L2 term.
    gamma : float
        The weight beyond which nothing is added, in units of lam.  Above 1; large values approach L1.
    pen : ndarray or None
        The weight of each feature, by which its lam is multiplied.  None: all 1.
    """

    lam: float | None = None
    rho: float = 0.0
    gamma: float = 3.0
    pen: np.ndarray | None = None

    rounds = 5
    open_fields = ("pen",)

    def check(penalty, d):
        if not 1.0 < penalty.gamma < np.inf:
            raise ValueError(f"MCP(gamma={penalty.gamma!r}): it must be a number above 1.")

    convex = property(_convex)

    def reweighted(penalty, w):
        """Return the elastic net with the slopes of the penalty at w as feature weights."""
        pen = _weights(penalty, w)
        reach = penalty.gamma * penalty.lam * pen
        slope = np.maximum(1.0 - np.divide(np.abs(w), reach, out=np.zeros_like(reach), where=reach > 0.0), 0.0)
        return WeightedElasticNet(penalty.lam, penalty.rho, pen * slope)

    def strength(penalty, w):
        lam = penalty.lam * beside(_weights(penalty, w), w)
        size = np.minimum(np.abs(w), penalty.gamma * lam)
        return (lam * size - np.square(size) / (2.0 * penalty.gamma)).sum(0) + l2_terms(penalty, w)


@part(Penalty, lam=_STRENGTH, power="of the weight of a feature, above 0")
class Adaptive(NamedTuple):
    """The adaptive lasso: an L1 norm with feature weights (mean |w| / |w_j|)^power from a first solution w, by L1.

    Features that the first solution leaves out stay out.  The mean is the geometric one over the selected features: a
    feature of typical weight is penalised as before, whatever the units.

    Parameters
    ----------
    lam : float or None
        The weight of the L1 norm, in both problems.  None: alpha times l1_ratio of the estimator.
    rho : float
        The weight of the L2 term.
    power : float
        The power, above 0.  Large values favour features with large first weights more.
    pen : ndarray or None
        The weight of each feature, by which its lam is multiplied.  None: all 1.
    """

    lam: float | None = None
    rho: float = 0.0
    power: float = 1.0
    pen: np.ndarray | None = None

    rounds = 1
    open_fields = ("pen",)

    def check(penalty, d):
        if not 0.0 < penalty.power < np.inf:
            raise ValueError(f"Adaptive(power={penalty.power!r}): it must be a number above 0.")

    convex = property(_convex)

    def reweighted(penalty, w):
        """Return the elastic net whose feature weights fall with the size of w."""
        size, chosen = np.abs(w), w != 0.0
        pen = np.full(w.size, EXCLUDED)
        logarithms = np.log(size[chosen])
        with np.errstate(over="ignore"):
            pen[chosen] = np.minimum(np.exp(penalty.power * (logarithms.mean() - logarithms)), EXCLUDED)
        return WeightedElasticNet(penalty.lam, penalty.rho, np.minimum(_weights(penalty, w) * pen, EXCLUDED))

    def strength(penalty, w):
        """Return psi of phase one; the weights of phase two are not a function of w alone."""
        return _convex(penalty).strength(w)


def _weights(penalty: Any, w: np.ndarray) -> np.ndarray:
    """Return the relative weight of each feature, as given."""
    return np.ones(len(w)) if penalty.pen is None else np.asarray(penalty.pen, dtype=np.float64)


def phase_one(penalty: Any, d: int) -> Any:
    """Return the penalty of phase one: of a record with a strength a record, of a class or an open record a class.

    >>> phase_one(MCP(0.1), 3), phase_one(MCP, 3).__name__, phase_one(MCP(gamma=2.0), 3).__name__
    (ElasticNet(lam=0.1, rho=0.0), 'ElasticNet', 'ElasticNet')
    """
    if not penalty.rounds:
        return penalty
    return ElasticNet if isinstance(penalty, type) or penalty.lam is None else checked(penalty, d).convex


def with_strength(penalty: Any, net: Any) -> Any:
    """Return a penalty that phase two approximates, with the strength and the feature weights of phase one.

    >>> with_strength(MCP(gamma=2.0), ElasticNet(0.1))
    MCP(lam=0.1, rho=0.0, gamma=2.0, pen=None)
    """
    return penalty._replace(lam=net.lam, rho=net.rho, pen=net.pen)
