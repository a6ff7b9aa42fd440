"""The exact optimum of an elastic net on given rows: what the stochastic methods are measured against.

Prox-Newton steps on a working set, each solved by coordinate descent on its Gram matrix, until the optimality
conditions hold to ``tol`` times lam everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..losses import curvature, derivative, value
from ..metrics import support
from ..quadratic import descend_gram


def optimum(X: Any, y: np.ndarray, loss: Any, lam: float, rho: float, pen: np.ndarray, tol: float = 1e-8) -> np.ndarray:
    """argmin_w mean loss(X w, y) + rho/2 ||w||^2 + lam sum_j pen_j |w_j|; X is a scipy array, CSC for choice."""
    X, n = X.tocsc(), len(y)
    w, strengths = np.zeros(X.shape[1]), lam * pen
    for _ in range(100):
        g = X.T @ derivative(loss, X @ w, y) / n + rho * w
        violation = np.where(w != 0.0, np.abs(g + strengths * np.sign(w)), np.maximum(np.abs(g) - strengths, 0.0))
        if violation.max() <= tol * lam:
            return w
        inside = support(w)
        size = max(100, 2 * int(inside.sum()))
        chosen = np.flatnonzero(inside | (violation >= max(np.sort(violation)[-min(size, w.size)], tol * lam / 10)))
        w[chosen] = _on_columns(X[:, chosen], y, loss, rho, strengths[chosen], w[chosen], 0.1 * tol * lam)
    raise ArithmeticError(f"the exact optimum was not found: the largest violation is {violation.max():.2g}.")


def _on_columns(
    X: Any, y: np.ndarray, loss: Any, rho: float, strengths: np.ndarray, w: np.ndarray, tol: float
) -> np.ndarray:
    n = len(y)
    X = X.toarray() if X.nnz > 0.05 * np.prod(X.shape) else X

    def objective(w: np.ndarray) -> float:
        return float(value(loss, X @ w, y).mean() + 0.5 * rho * w @ w + strengths @ np.abs(w))

    before = objective(w)
    for _ in range(50):
        p = X @ w
        g = X.T @ derivative(loss, p, y) / n + rho * w
        h = curvature(loss, p, y) * np.ones(n)
        product = X.T @ (h[:, None] * X) if isinstance(X, np.ndarray) else (X.T @ X.multiply(h[:, None])).toarray()
        G, new = product / n + rho * np.eye(w.size), w.copy()
        descend_gram(np.ascontiguousarray(G), g.copy(), new, strengths, 0.1 * tol, 10_000)
        share = 1.0
        while share > 1e-6 and objective(w + share * (new - w)) > before:
            share /= 2.0
        move = new - w
        w = new if share == 1.0 else w + share * move
        after = objective(w)
        if after >= before or np.abs(G @ move).max() <= tol:
            break
        before = after
    return w
