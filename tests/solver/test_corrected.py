"""The minimum over a sample of the rows, corrected by the gradient over all of them."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparsco.data import row_sums
from sparsco.data.randomness import Purpose, key, uniform
from sparsco.data.rows import as_matrix
from sparsco.losses import SMOOTH_LOSSES, Gamma, Huber, Poisson, Tweedie, derivative
from sparsco.solver.columns import by_column
from sparsco.solver.corrected import corrected_minimum


def problem(loss, n=300, d=12):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.4)
    X[:, 1] = X[:, 0]  # a tie
    p = X @ (rng.standard_normal(d) * (np.arange(d) % 3 == 0)) + 0.3
    y = np.where(p + rng.standard_normal(n) > 0.0, 1.0, -1.0) if loss.classifies else p
    return X, np.exp(0.3 * p) if isinstance(loss, Poisson | Gamma | Tweedie) else y


def violation(X, y, a, loss, lam, rho, tilt, tilt_b, w, b):
    c = a * derivative(loss, X @ w + b, y)
    g = X.T @ c + tilt + rho * w
    off = np.where(w != 0.0, g + lam * np.sign(w), np.sign(g) * np.maximum(np.abs(g) - lam, 0.0))
    return max(np.abs(off).max(), abs(c.sum() + tilt_b))


@pytest.mark.parametrize("loss", [kind() for kind in SMOOTH_LOSSES])
@pytest.mark.parametrize("rho", [0.0, 0.05])
def test_conditions_of_the_minimum(loss, rho):
    """Repeated calls end where the conditions hold, with a tilt and for columns that are equal."""
    X, y = problem(loss)
    n, d = X.shape
    rng, lam, w, b = np.random.default_rng(5), 0.03, np.zeros(d), 0.0
    a, tilt = rng.uniform(0.5, 1.5, n) / n, 0.01 * rng.standard_normal(d)
    columns = by_column(*as_matrix(sp.csr_array(X))[:3], np.arange(n), d)[:3]
    fixed = y, a, loss, np.full(d, lam), np.full(d, rho), tilt, 0.002
    for _ in range(200):  # equal columns with an L2 term share their weight slowly
        b, expected = corrected_minimum(*columns, *fixed, w, b, True, 4e-3 * loss.smoothness)
    assert 0 < np.count_nonzero(w) < d and expected < 1e-10
    assert violation(X, y, a, loss, lam, rho, tilt, 0.002, w, b) < 1e-5 * lam


@pytest.mark.parametrize(("loss", "mean"), [(Poisson(), 1000.0), (Gamma(), 1e-3), (Huber(), 1e5), (Huber(), -1e5)])
def test_intercepts_far_from_zero_are_found(loss, mean):
    """Neither full Newton steps of exponentials nor the least curvature of a row lead astray."""
    y, empty = mean * np.random.default_rng(0).uniform(0.5, 1.5, 200), np.zeros(2)
    first, rows, x = np.zeros(3, np.int64), np.zeros(0, np.uint32), np.zeros(0)
    fixed = y, np.full(200, 1.0 / 200), loss, np.ones(2), empty, empty, 0.0
    b, _ = corrected_minimum(first, rows, x, *fixed, np.zeros(2), 0.0, True, 4e-3 * loss.smoothness)
    slopes = derivative(loss, np.full(200, b), y)
    assert abs(slopes.sum()) <= 0.05 * np.abs(slopes).sum()


def test_weights_of_targets_far_beyond_a_huber_loss():
    """The conditions hold after few calls, although no row bends at the start."""
    X, y = problem(Huber())
    n, d = X.shape
    columns = by_column(*as_matrix(sp.csr_array(X))[:3], np.arange(n), d)[:3]
    w, b, a, lam = np.zeros(d), 0.0, np.full(n, 1.0 / n), 0.2
    y = 1e4 * y
    for _ in range(3):
        fixed = y, a, Huber(), np.full(d, lam), np.zeros(d), np.zeros(d), 0.0
        b, _ = corrected_minimum(*columns, *fixed, w, b, True, 4e-3)
    at_zero = violation(X, y, a, Huber(), lam, 0.0, np.zeros(d), 0.0, np.zeros(d), 0.0)
    assert violation(X, y, a, Huber(), lam, 0.0, np.zeros(d), 0.0, w, b) < 0.2 * at_zero


def test_drawn_rows_are_those_of_a_search():
    """The kernel draws the rows that a search in the cumulative sums finds."""
    importance, count = np.random.default_rng(0).exponential(size=500) + 0.1, 60
    numbers, factors = row_sums.drawn_rows(importance, count, key(0, Purpose.SAMPLE)[0])
    sums = np.cumsum(importance)
    at = (np.arange(count) + uniform(0, Purpose.SAMPLE, np.arange(count))) * (sums[-1] / count)
    expected, times = np.unique(np.searchsorted(sums, at, side="right"), return_counts=True)
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_allclose(factors, times * (sums[-1] / count) / importance[expected], rtol=1e-12)
