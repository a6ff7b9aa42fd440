"""Statistics of the first rows, before learning: the least L1 weight that selects nothing, intercepts, curvature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..data.rows import Matrix
from ..losses import derivative, value

_BESIDE = 1e-6
"""How far to either side of a margin slopes are computed, in units of the targets' spread."""


def gradient_at_zero(
    loss: Any, matrix: Matrix, targets: np.ndarray, weights: np.ndarray, intercept: bool
) -> np.ndarray:
    """Return the mean gradient (d, models) at w = 0 and the best intercepts."""
    n, m = targets.shape
    if not n:
        return np.zeros((matrix.d, m))
    b = best_constants(loss, targets, weights, intercept)
    p = np.tile(b, (n, 1))
    slopes = derivative(loss, p, targets)
    if loss.shifts and not loss.curved:  # the best intercept may be at a kink, where rounding would choose a side
        beside = _BESIDE / loss.smoothness
        slopes = 0.5 * (derivative(loss, p - beside, targets) + derivative(loss, p + beside, targets))
    return matrix.to_scipy().T @ (weights * slopes) / n


def lam_max(
    loss: Any, matrix: Matrix, targets: np.ndarray, weights: np.ndarray, intercept: bool, pen: np.ndarray | None = None
) -> float:
    """Return the smallest L1 weight at which w = 0 with the best intercept is optimal, over features and models."""
    scale = np.ones(matrix.d) if pen is None else np.where(pen > 0.0, pen, np.inf)
    gradient = gradient_at_zero(loss, matrix, targets, weights, intercept)
    return float((np.abs(gradient) / scale[:, None]).max(initial=0.0))


def ridge_norm(loss: Any, matrix: Matrix, targets: np.ndarray, weights: np.ndarray, intercept: bool) -> float:
    """Return the L1 norm of a ridge regression, summed over models.

    It is one Newton step from w = 0, with a strength chosen by generalised cross-validation.  It uses at most 500 rows,
    since it needs the eigenvectors of their Gram matrix.
    """
    matrix, targets, weights = matrix.take(np.arange(min(len(matrix), 500))), targets[:500], weights[:500]
    n, m = targets.shape
    if not n:
        return 0.0
    b = best_intercepts(loss, targets, weights) if intercept else np.zeros(m)
    Z = -weights * derivative(loss, np.tile(b, (n, 1)), targets) / loss.smoothness
    X = matrix.to_scipy()
    K = (X @ X.T).toarray()
    if intercept:
        K = K - K.mean(0) - K.mean(1)[:, None] + K.mean()
    values, vectors = np.linalg.eigh(K)
    values = np.maximum(values, 0.0)
    rotated, total = vectors.T @ Z, 0.0
    strengths = max(float(values.mean()), 1e-300) * 2.0 ** np.arange(-12.0, 13.0)
    for k in range(m):
        shares = strengths[:, None] / (values + strengths[:, None])  # share of each direction that is left
        scores = np.square(shares * rotated[:, k]).sum(1) / np.square(shares.sum(1))
        dual = vectors @ (rotated[:, k] / (values + strengths[scores.argmin()]))
        total += float(np.abs(X.T @ (dual - dual.mean() * intercept)).sum())
    return total


def largest_slope(loss: Any, matrix: Matrix, targets: np.ndarray, weights: np.ndarray) -> float:
    """Return a bound on lam_max for any order of the targets: the largest mean of |c x_j| at margin 0, never 0."""
    if not len(matrix.data):
        return loss.smoothness
    steepest = np.abs(weights * derivative(loss, np.zeros(targets.shape), targets)).max(1)
    sums = np.abs(matrix.to_scipy()).T @ steepest
    return float(sums.max() / len(targets)) or loss.smoothness


def largest_curvature(X: Any, weights: np.ndarray) -> float:
    """Return an estimate of the largest curvature of the mean of weight x x^T, too large by chance only.

    The direction comes from the even rows, by power iteration; the value is the mean over the odd ones.  With the same
    rows for both, the value would be too large wherever there are more features than rows.
    """
    even, odd = X[::2], X[1::2]
    v = np.asarray(abs(even).sum(0), dtype=np.float64).ravel()
    for _ in range(20):
        norm = float(np.sqrt(np.square(v).sum()))  # without BLAS, whose threads change the last digits
        if norm == 0.0 or not odd.shape[0]:
            return 0.0
        v = even.T @ (weights[::2] * (even @ (v / norm)))
    return float(np.mean(weights[1::2] * np.square(odd @ v))) / max(float(np.square(v).sum()), 1e-300)


def best_constants(loss: Any, targets: np.ndarray, weights: np.ndarray, intercept: bool) -> np.ndarray:
    """Return the margins of models without features: their best intercepts, or 0 where they have none."""
    return best_intercepts(loss, targets, weights) if intercept else np.zeros(targets.shape[1])


def best_intercepts(loss: Any, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the constant margin of least loss for each model; coupled models are solved together."""
    if not loss.couples:
        lanes = zip(targets.T, weights.T, strict=True)
        return np.array([best_intercept(loss, y, weight) for y, weight in lanes])
    from scipy.optimize import minimize  # takes a third of a second to import, and most runs do not need it

    def mean(b: np.ndarray) -> tuple[float, np.ndarray]:
        p = np.broadcast_to(b, targets.shape)
        slopes = (weights * derivative(loss, p, targets)).mean(0)
        return float((weights * value(loss, p, targets)).mean(0).sum()), slopes

    return minimize(mean, np.zeros(targets.shape[1]), jac=True, method="L-BFGS-B").x


def best_intercept(loss: Any, y: np.ndarray, weights: np.ndarray, offset: np.ndarray | float = 0.0) -> float:
    """Return the constant of least loss, a margin less its offset, by bisection on the (monotone) mean derivative.

    A loss of p - y with kinks may have the least one on an interval: then it is the middle of that.
    """
    lo, hi, has_interval = -1.0, 1.0, loss.shifts and not loss.curved
    slope = lambda b: float(np.sum(weights * derivative(loss, np.full(len(y), b) + offset, y)))  # noqa: E731
    while (slope(lo) > 0.0 or (has_interval and slope(lo) == 0.0)) and lo > -1e18:
        lo *= 2.0
    while (slope(hi) < 0.0 or (has_interval and slope(hi) == 0.0)) and hi < 1e18:
        hi *= 2.0
    first = _turn(lambda b: slope(b) < 0.0, lo, hi)
    return first if not has_interval else 0.5 * (first + _turn(lambda b: slope(b) <= 0.0, lo, hi))


def _turn(is_below: Callable[[float], bool], lo: float, hi: float) -> float:
    """Return the number between lo and hi up to which something is true."""
    for _ in range(200):
        mid = 0.5 * (lo + hi)
        if mid in (lo, hi):
            break
        lo, hi = (mid, hi) if is_below(mid) else (lo, mid)
    return 0.5 * (lo + hi)
