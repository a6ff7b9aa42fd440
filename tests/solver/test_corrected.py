"""The minimum over a sample of the rows, corrected by the gradient over all of them."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparsco.data import row_sums
from sparsco.data.randomness import Purpose, key, uniform
from sparsco.data.rows import as_matrix
from sparsco.losses import Gamma, Huber, Logistic, Poisson, Squared, SquaredHinge, derivative
from sparsco.solver.columns import by_column
from sparsco.solver.corrected import corrected_minimum


def problem(loss, n=300, d=12):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.4)
    X[:, 1] = X[:, 0]  # a tie
    p = X @ (rng.standard_normal(d) * (np.arange(d) % 3 == 0)) + 0.3
    y = np.where(p + rng.standard_normal(n) > 0.0, 1.0, -1.0) if loss.classifies else p
    return X, np.exp(0.3 * p) if isinstance(loss, Poisson | Gamma) else y


def violation(X, y, a, loss, lam, rho, tilt, tilt_b, w, b):
    c = a * derivative(loss, X @ w + b, y)
    g = X.T @ c + tilt + rho * w
    off = np.where(w != 0.0, g + lam * np.sign(w), np.sign(g) * np.maximum(np.abs(g) - lam, 0.0))
    return max(np.abs(off).max(), abs(c.sum() + tilt_b))


@pytest.mark.parametrize("loss", [Logistic(), Squared(), SquaredHinge(), Huber(), Poisson(), Gamma()])
@pytest.mark.parametrize("rho", [0.0, 0.05])
def test_conditions_of_the_minimum(loss, rho):
    """Repeated calls end where the conditions hold, with a tilt and for columns that are equal."""
    X, y = problem(loss)
    n, d = X.shape
    rng, lam, w, b = np.random.default_rng(5), 0.03, np.zeros(d), 0.0
    a, tilt = rng.uniform(0.5, 1.5, n) / n, 0.01 * rng.standard_normal(d)
    columns = by_column(*as_matrix(sp.csr_array(X))[:3], np.arange(n), np.arange(d), d)[:3]
    fixed = y, a, loss, np.full(d, lam), np.full(d, rho), tilt, 0.002
    for _ in range(200):  # equal columns with an L2 term share their weight slowly
        b, expected = corrected_minimum(*columns, *fixed, w, b, True, 4e-3 * loss.smoothness)
    assert 0 < np.count_nonzero(w) < d and expected < 1e-10
    assert violation(X, y, a, loss, lam, rho, tilt, 0.002, w, b) < 1e-5 * lam


def test_drawn_rows_are_those_of_a_search():
    """The kernel draws the rows that a search in the cumulative sums finds."""
    importance, count = np.random.default_rng(0).exponential(size=500) + 0.1, 60
    numbers, factors = row_sums.drawn_rows(importance, count, key(0, Purpose.SAMPLE)[0])
    sums = np.cumsum(importance)
    at = (np.arange(count) + uniform(0, Purpose.SAMPLE, np.arange(count))) * (sums[-1] / count)
    expected, times = np.unique(np.searchsorted(sums, at, side="right"), return_counts=True)
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_allclose(factors, times * (sums[-1] / count) / importance[expected], rtol=1e-12)
