"""The exact optimum on given rows, of an elastic net or in an L1 ball: the reference for the stochastic methods."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..data.rows import as_matrix
from ..engine.polish import polish
from ..engine.polish_rows import RowsInMemory
from ..losses import Squared
from ..penalties import WeightedElasticNet


def optimum(X: Any, y: np.ndarray, loss: Any, lam: float, rho: float, pen: np.ndarray, tol: float = 1e-8) -> np.ndarray:
    """Return argmin_w mean loss(X w, y) + rho/2 ||w||^2 + lam sum_j pen_j |w_j|; a loss with kinks to 1e-6."""
    tol = tol if loss.curved else max(tol, 1e-6)
    rows, targets, weights = as_matrix(X), np.reshape(y, (-1, 1)).astype(np.float64), np.ones((len(y), 1))
    found = polish(
        RowsInMemory(rows, targets, weights),
        np.zeros((rows.d, 1)),
        np.zeros(1),
        loss=loss,
        penalty=WeightedElasticNet(lam, rho, pen),
        intercept=False,
        tol=tol,
    )
    if found.gaps[0] > tol:
        raise ArithmeticError(f"the exact optimum was not found: the gap is {found.gaps[0]:.2g}.")
    return found.w[:, 0]


def optimum_in_ball(X: Any, y: np.ndarray, radius: float, tol: float = 1e-6) -> np.ndarray:
    """Return argmin_w mean (X w - y)^2 / 2 over ||w||_1 <= radius, to a share tol of that minimum.

    It is the lasso whose solution lies on the sphere.  Its strength is found by the norm, which falls as lam grows.
    """
    from scipy.optimize import brentq

    largest = float(np.abs(X.T @ y).max()) / len(y)

    def solution(log_lam: float) -> np.ndarray:
        return optimum(X, y, Squared(), math.exp(log_lam) * largest, 0.0, np.ones(X.shape[1]))

    def beyond(log_lam: float) -> float:
        return float(np.abs(solution(log_lam)).sum()) - radius

    low = -1.0
    while beyond(low) < 0.0:
        low -= 1.0
        if low < _WEAKEST:
            raise ArithmeticError(f"the ball of radius {radius:g} does not bind: choose a smaller one.")
    w = solution(brentq(beyond, low, 0.0, xtol=1e-10))
    residuals = X @ w - y
    slopes = X.T @ residuals / len(y)
    gap = float(slopes @ w) + radius * float(np.abs(slopes).max())  # by Frank and Wolfe
    if gap > tol * 0.5 * float(np.mean(np.square(residuals))):
        raise ArithmeticError(f"the exact optimum was not found: the gap is {gap:.2g}.")
    return w


_WEAKEST = -14.0
"""The logarithm of the least strength that is tried, over the one above which all weights are 0."""
