"""The exact optimum of an elastic net on given rows, the reference for the stochastic methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.rows import as_matrix
from ..engine.polish import polish
from ..engine.polish_rows import RowsInMemory
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
