"""Rows whose columns have very different scales, and the units of columns written again."""

from __future__ import annotations

import numpy as np

N, D = 3000, 30


def units(X, weights=None):
    """Return sd * f^(-1/4) of each column of a dense array; 1 for one without nonzeros."""
    a = np.ones(len(X)) if weights is None else weights
    mean = a @ X / a.sum()
    sd, share = np.sqrt(a @ (X - mean) ** 2 / a.sum()), a @ (X != 0.0) / a.sum()
    return np.where(share > 0.0, sd * np.where(share > 0.0, share, 1.0) ** -0.25, 1.0)


def uneven_rows():
    """Return rows whose columns have very different scales and shares of nonzeros, and a score for each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < np.linspace(0.02, 1.0, D))
    w = np.where(np.arange(D) % 3 == 0, 1.0, 0.0)
    score = X @ w + 0.5 * rng.logistic(size=N)
    return X * 10.0 ** rng.integers(-3, 4, D), score
