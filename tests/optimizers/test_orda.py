"""ORDA's lazy form beside the dense recursion, on streams that make every branch of it happen."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sparsco import conversions, optimizers
from sparsco.data.rows import as_matrix
from sparsco.engine import Run
from sparsco.losses import Logistic
from sparsco.penalties import ElasticNet, WeightedElasticNet
from support import reference

# lam, rho, gamma: z that dies, x that outlives it, x on the other side of zero, almost everything at zero
CASES = [
    (1e-3, 1e-2, 5.0),
    (1e-2, 1e-3, 5.0),
    (3e-3, 1e-1, 50.0),
    (1e-3, 0.3, 1.0),
    (3e-5, 1e-4, 300.0),
    (2e-2, 1e-2, 3.0),
    (5e-3, 1e-2, 3.0),
    (1e-3, 0.0, 3.0),
    (0.0, 0.1, 3.0),
    (1e-2, 0.0, 0.3),
]


def sparse_stream(n, d, density, seed=0):
    rng = np.random.default_rng(seed)
    X = 2.0 * rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    truth = rng.normal(size=d) * (rng.random(d) < 0.3)
    return X, np.where(X @ truth * 3.0 + rng.normal(size=n) > 0.0, 1.0, -1.0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("lam", "rho", "gamma"), CASES)
def test_lazy_is_dense_to_1e_12_with_the_same_support(lam, rho, gamma, weighted):
    n, d = 6000, 80
    X, y = sparse_stream(n, d, 0.01)
    pen = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], size=d) if weighted else np.ones(d)
    penalty = WeightedElasticNet(lam, rho, pen) if weighted else ElasticNet(lam, rho)
    trace = reference.iterates(X, y, optimizer="orda", loss="logistic", lam=lam, rho=rho, pen=pen, gamma=gamma, c0=0.05)
    optimizer = optimizers.ORDA(gamma, 0.05)
    run = Run(Logistic(), penalty, optimizer, conversions.Last(), d=d)
    run.feed(as_matrix(X), y)
    answer, expected = run.finish(), reference.last(trace)
    np.testing.assert_allclose(answer.w[:, 0], expected.w, rtol=0.0, atol=1e-12 * np.abs(expected.w).max())
    assert answer.b[0] == pytest.approx(expected.b, rel=1e-12)
    assert np.array_equal(answer.w[:, 0] != 0.0, expected.w != 0.0)

    summed = Run(Logistic(), penalty, optimizer, conversions.AverageSL(0.5, n, L=1.0), d=d)
    summed.feed(as_matrix(X), y)
    means, sums = summed.means(), reference.window_sums(trace, reference.suffix_weights(n, 0.5, n))
    for got, mean in ((means.w, sums.w / sums.omega), (means.g, sums.cx / sums.omega)):
        np.testing.assert_allclose(got[:, 0], mean, rtol=0.0, atol=1e-12 * np.abs(mean).max())
    assert means.b[0] == pytest.approx(sums.b / sums.omega, rel=1e-12)


def test_every_way_through_an_idle_stretch():
    """One touch, then long idleness: each mode, each end of it, at every length, by the dense recursion itself."""
    for (first, second), lam, rho in itertools.product(
        [(1.0, 1.0), (1.0, -1.0), (4.0, -1.0), (1.0, -0.01), (0.1, 1.0), (1.0, 0.0)], (0.0, 0.01, 0.1), (0.0, 0.05, 1.0)
    ):
        X = np.zeros((150, 2))
        X[0, 0], X[3, 0], X[:, 1] = first, second, 0.1
        y = np.ones(150)
        trace = reference.iterates(X, y, optimizer="orda", loss="logistic", lam=lam, rho=rho, gamma=0.5, c0=0.1)
        run = Run(Logistic(), ElasticNet(lam, rho), optimizers.ORDA(0.5, 0.1), conversions.Average(), d=2)
        run.feed(as_matrix(X), y)
        run.begin()
        np.testing.assert_allclose(run.means().w[:, 0], trace.w[:-1].mean(0), rtol=0.0, atol=1e-13)
        np.testing.assert_allclose(run.weights()[0][:, 0], trace.w[-1], rtol=0.0, atol=1e-13)
        assert np.array_equal(run.weights()[0][:, 0] != 0.0, trace.w[-1] != 0.0)


def test_gamma_from_the_pilot_rows():
    """L_mean^2 / lam_max, with an eigenvalue that more features than rows cannot inflate."""
    from sparsco.problem.pilot import largest_curvature

    rng = np.random.default_rng(0)
    for d in (100, 1000, 5000):
        X = rng.uniform(-1.0, 1.0, (1000, d))
        assert largest_curvature(X, np.ones(1000)) == pytest.approx(1 / 3, rel=0.15)
    X = rng.normal(size=(1000, 50)) * np.r_[3.0, np.ones(49)]
    assert largest_curvature(X, np.ones(1000)) == pytest.approx(9.0, rel=0.2)
    assert largest_curvature(np.zeros((5, 3)), np.ones(5)) == largest_curvature(np.ones((1, 3)), np.ones(1)) == 0.0
