"""The exact optimum of an elastic net on given rows, the reference for the stochastic methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..conversions.metric import WIDTHS, moved
from ..data.rows import Matrix, as_matrix
from ..engine.polish import Part, polish, slices
from ..losses import derivative, value
from ..penalties import WeightedElasticNet
from ..solver.columns import by_column
from ..solver.elastic_net import Accuracy, ElasticNetSolver, Examples


def optimum(X: Any, y: np.ndarray, loss: Any, lam: float, rho: float, pen: np.ndarray, tol: float = 1e-8) -> np.ndarray:
    """Return argmin_w mean loss(X w, y) + rho/2 ||w||^2 + lam sum_j pen_j |w_j|."""
    if loss.kinks is not None:
        return _with_kinks(as_matrix(X), np.asarray(y, np.float64), loss, lam * pen, rho)
    rows, targets, weights = as_matrix(X), np.reshape(y, (-1, 1)).astype(np.float64), np.ones((len(y), 1))
    found = polish(
        lambda: (Part(*part) for part in slices(rows, targets, weights)),
        np.zeros((rows.d, 1)),
        np.zeros(1),
        loss=loss,
        penalty=WeightedElasticNet(lam, rho, pen),
        intercept=False,
        tol=tol,
    )
    if found.gaps[0] > tol:
        raise ArithmeticError(f"the exact optimum was not found: the largest violation is {found.gaps[0]:.2g} lam.")
    return found.w[:, 0]


_GAP, _TWINS = 1e-5, 200


def _with_kinks(rows: Matrix, y: np.ndarray, loss: Any, pen: np.ndarray, rho: float) -> np.ndarray:
    """Return the optimum for hinge loss with an L2 term, by smooth twins moved by their slopes.

    It ends when the objective is within 1e-5 of the dual objective of the slopes c, which is a bound on all objectives:

        -mean(c y) - sum_j max(|mean(c x_j)| - pen_j, 0)^2 / (2 rho)
    """
    n, d = len(y), rows.d
    X, ones, slopes = by_column(rows.indptr, rows.indices, rows.data, np.arange(n), np.arange(d), d), np.ones(n), None
    solver = ElasticNetSolver(X, Examples(y, ones, moved(loss, WIDTHS[0], y, None)[0]), np.ones(d), intercept=False)
    gap = np.inf
    for k in range(_TWINS):
        twin, offset = moved(loss, WIDTHS[min(k, len(WIDTHS) - 1)], y, slopes)
        solver.start_at(Examples(y, ones, twin, offset), solver.w, 0.0)
        w, _ = solver.solve_for(pen, np.full(d, rho), Accuracy(1e-9, 50, 6))
        slopes = derivative(twin, solver.p, y)
        reached = float(value(loss, solver.p - offset, y).mean() + (pen * np.abs(w)).sum() + 0.5 * rho * w @ w)
        beyond = np.maximum(np.abs(rows.to_scipy().T @ slopes) / n - pen, 0.0)
        gap = reached + float(np.mean(slopes * y)) + float(np.square(beyond).sum()) / (2.0 * rho)
        if gap <= _GAP * reached:
            return w.copy()
    raise ArithmeticError(f"the exact optimum was not found: the duality gap is {gap / reached:.2g} of the objective.")
