"""Duality gaps: how far an objective can be from its minimum.

For slopes u_i of the loss in the margins of row i, and shares a_i of the rows, the dual objective is

    - sum_i a_i loss*(u_i, y_i) - psi*(- sum_i a_i x_i u_i^T),    sum_i a_i u_i = 0 for each intercept.

It is at most the minimum of loss + psi, for all slopes for which it is finite.
"""

from __future__ import annotations

import numpy as np

from ..penalties.blocks import Blocks
from .loss_term import LossTerm

_NEWTON_STEPS = 50


def gap_of(
    term: LossTerm,
    psi: Blocks,
    point: tuple[np.ndarray, np.ndarray, np.ndarray],
    primal: float,
    slopes: np.ndarray,
    G: np.ndarray,
    slopes_b: np.ndarray,
) -> float:
    """Return the duality gap at slopes that are scaled to be feasible; NaN if no scale is feasible.

    ``point`` has the weights, the intercepts and their margins, and ``primal`` is the objective.  G is the gradient
    that belongs to the slopes, and ``slopes_b`` their sums for each intercept.  If these are not zero, or if features
    have no penalty, the result is an estimate: how much the objective could fall there is added.
    """
    scale, conjugate = psi.dual(-G)
    if scale == 0.0:
        return np.nan
    W, b, P = point
    loose = psi.slack(G, W) + (float(np.abs(slopes_b) @ term.far(P, b)) if slopes_b.any() else 0.0)
    return max(primal - term.dual(scale, slopes) + conjugate, 0.0) + scale * loose


def balanced(term: LossTerm, P: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return slopes near the given ones, at margins P, whose sum for each intercept is zero up to rounding.

    Slopes of a softmax are those after the best change of the intercepts.  Others are multiplied by
    ``balancing_factors``.
    """
    if term.loss.couples:
        return _balanced_classes(term, P)
    of_negative, of_positive = balancing_factors(term, slopes)
    return slopes * np.where(slopes > 0.0, of_positive, of_negative)


def balancing_factors(term: LossTerm, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the factors of negative and of positive slopes, for each output, after which they sum to zero.

    The side with the larger sum is made smaller.
    """
    up = (term.share * np.maximum(slopes, 0.0)).sum(0)
    down = (term.share * np.maximum(-slopes, 0.0)).sum(0)
    least = np.minimum(up, down)
    return (
        np.divide(least, down, out=np.ones_like(down), where=down > 0.0),
        np.divide(least, up, out=np.ones_like(up), where=up > 0.0),
    )


def _balanced_classes(term: LossTerm, P: np.ndarray) -> np.ndarray:
    """Return the slopes of a softmax after Newton steps in the intercepts alone."""
    for _ in range(_NEWTON_STEPS):
        sums = term.slopes(P).sum(0)
        if np.abs(sums).max() <= 1e-16:
            break
        h, _, s, _ = term.bends(P)
        assert s is not None  # a loss that couples
        P = P - np.linalg.lstsq(np.diag(h.sum(0)) - h.T @ s, sums, rcond=1e-12)[0]
    return term.raw_slopes(P)
