"""Weights without a penalty and their standard errors, against formulas written again and against scikit-learn."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from sparsco.inference import unpenalised
from sparsco.inference.sandwich import Stream, estimates
from sparsco.inference.unpenalised import Design, optimum
from sparsco.losses import Huber, Logistic, Poisson, Squared, SquaredHinge

N, K = 300, 6


def design(loss, seed=0, n=N):
    """Return a design with an intercept, and weights of rows that differ."""
    rng = np.random.default_rng(seed)
    Z = np.column_stack([rng.normal(size=(n, K - 1)) @ np.tri(K - 1), np.ones(n)])
    p = Z @ np.linspace(-0.5, 0.5, K)
    if isinstance(loss, Poisson):
        y = rng.poisson(np.exp(p)).astype(float)
    elif loss.classifies:
        y = np.where(rng.random(n) < expit(p), 1.0, -1.0)
    else:
        y = p + rng.standard_t(4, size=n)
    return Design(Z, y, rng.uniform(0.5, 2.0, n), loss)


def twin(Z, a, c, h):
    """Return errors and degrees of freedom by sums over rows, one after the other."""
    n, k = Z.shape
    H = sum(a[i] * h[i] * np.outer(Z[i], Z[i]) for i in range(n)) / n
    inverse, middle, counts = np.linalg.inv(H), np.zeros((k, k)), []
    for i in range(n):
        room = 1.0 - a[i] * h[i] * Z[i] @ inverse @ Z[i] / n
        middle += (a[i] * c[i]) ** 2 / room * np.outer(Z[i], Z[i]) / n
        counts.append(a[i] * h[i] * (inverse @ Z[i]) ** 2 / room)
    total, squares = np.sum(counts, 0), np.sum(np.square(counts), 0)
    return np.sqrt(np.diag(inverse @ middle @ inverse) / n), np.minimum(total**2 / squares, n - k)


def test_least_squares():
    Z, y, a, _ = own = design(Squared())
    found = estimates(own, np.zeros(K))
    root = np.sqrt(a)
    weights = np.linalg.lstsq(Z * root[:, None], y * root, rcond=None)[0]
    np.testing.assert_allclose(found.weights, weights, rtol=1e-9)
    errors, freedom = twin(Z, a, Z @ weights - y, np.ones(N))
    np.testing.assert_allclose(found.errors, errors, rtol=1e-9)
    np.testing.assert_allclose(found.freedom, freedom, rtol=1e-9)


def test_logistic_regression():
    Z, y, a, _ = own = design(Logistic())
    found = estimates(own, np.zeros(K))
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(Z[:, :-1], y, a)
    np.testing.assert_allclose(found.weights, np.append(theirs.coef_, theirs.intercept_), atol=1e-5)
    s = expit(Z @ found.weights)
    errors, freedom = twin(Z, a, s - (y > 0.0), s * (1.0 - s))
    np.testing.assert_allclose(found.errors, errors, rtol=1e-7)
    np.testing.assert_allclose(found.freedom, freedom, rtol=1e-7)


def test_poisson_regression():
    Z, y, a, _ = own = design(Poisson(1.0))
    found = estimates(own, np.zeros(K))
    theirs = PoissonRegressor(alpha=0.0, tol=1e-10, max_iter=1000).fit(Z[:, :-1], y, a)
    np.testing.assert_allclose(found.weights, np.append(theirs.coef_, theirs.intercept_), atol=1e-5)


@pytest.mark.parametrize("loss", [Squared(), Huber(), Huber(0.1), Logistic(), SquaredHinge(), Poisson(1.0)], ids=str)
@pytest.mark.parametrize("far", [0.0, 1.0])
def test_the_gradient_is_zero_at_the_optimum(loss, far):
    own = design(loss)
    theta = optimum(own, np.full(K, far))
    start = np.abs(own.mean(own.slopes(0.0 * own.y))).max()
    assert np.abs(own.mean(own.slopes(own.Z @ theta))).max() < 1e-6 * start


def test_sparse_columns_give_the_same():
    own = design(Logistic())
    Z = own.Z * np.append(np.arange(K - 1) % 2 == 0, True)[None] * (np.arange(N) % 3 != 0)[:, None]
    Z[:, 1::2] = np.eye(N)[:, : K // 2] + np.eye(N)[:, 40 : 40 + K // 2] - np.eye(N)[:, 80 : 80 + K // 2]
    dense = estimates(own._replace(Z=Z), np.zeros(K))
    for one, other in zip(dense, estimates(own._replace(Z=sp.csr_array(Z)), np.zeros(K)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=str)
def test_repeated_columns_are_not_decided_and_others_do_not_change(loss):
    own = design(loss)
    more = np.column_stack([own.Z, 2.0 * own.Z[:, 1], np.zeros(N), own.Z[:, 2] + own.Z[:, 3]])
    found, without = estimates(own._replace(Z=more), np.zeros(K + 3)), estimates(own, np.zeros(K))
    assert np.flatnonzero(np.isnan(found.weights)).tolist() == [1, 2, 3, K, K + 1, K + 2]
    for one, other in zip(found, without, strict=True):
        np.testing.assert_allclose(one[[0, 4, 5]], other[[0, 4, 5]], rtol=1e-6)


def test_a_column_that_separates_the_labels_is_not_decided():
    own = design(Logistic())
    word = ((np.arange(N) % 10 == 0) & (own.y > 0.0)).astype(float)
    found = estimates(own._replace(Z=np.column_stack([own.Z, word])), np.zeros(K + 1))
    left = np.flatnonzero(word == 0.0)
    rest = estimates(Design(own.Z[left], own.y[left], own.weights[left], Logistic()), np.zeros(K))
    assert np.isnan([each[-1] for each in found]).all()
    np.testing.assert_allclose(found.weights[:-1], rest.weights, rtol=1e-4)
    np.testing.assert_allclose(found.errors[:-1], rest.errors, rtol=1e-3)


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=str)
def test_a_stream_of_the_same_rows_changes_nothing(loss):
    own = design(loss)
    p = own.Z @ np.linspace(-0.3, 0.4, K)
    stream = Stream(N, own.mean(own.slopes(p)), p)
    for one, other in zip(estimates(own, np.zeros(K), stream), estimates(own, np.zeros(K)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=str)
def test_a_long_stream_is_as_exact_as_its_errors_say(loss):
    """The sample has one row in twenty.  With it alone, errors would be more than four times as large."""
    weights, z, shrink = np.linspace(-0.5, 0.5, K), [], []
    for seed in range(60):
        every = design(loss, seed, 20 * N)._replace(weights=np.ones(20 * N))
        some = Design(every.Z[:N], every.y[:N], every.weights[:N], loss)
        there = 0.8 * weights
        stream = Stream(20 * N, every.mean(every.slopes(every.Z @ there)), some.Z @ there)
        found, alone = estimates(some, there, stream), estimates(some, there)
        z.append((found.weights - weights) / found.errors)
        shrink.append(found.errors / alone.errors)
    assert np.mean(shrink) < 0.4
    assert abs(np.mean(np.square(z)) - 1.0) < 3.0 * np.sqrt(2.0 / len(z))


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=str)
def test_coverage_with_few_rows(loss):
    weights, held = np.linspace(-0.5, 0.5, K), []
    for seed in range(300):
        own = design(loss, seed, 60)._replace(weights=np.ones(60))
        found = estimates(own, np.zeros(K))
        half = student.ppf(0.975, found.freedom) * found.errors
        held.append(np.mean(np.abs(found.weights - weights) <= half))
    assert abs(np.mean(held) - 0.95) < 3.0 * np.std(held) / np.sqrt(len(held))


def test_coverage_of_rare_features():
    """A word that occurs in five rows has few degrees of freedom; n - k of them would cover 85%."""
    rng, held, freedom = np.random.default_rng(0), [], []
    for _ in range(300):
        word = np.zeros(500)
        word[rng.choice(500, 5, replace=False)] = 1.0
        Z = np.column_stack([rng.normal(size=500), word, np.ones(500)])
        y = Z @ [1.0, 1.0, 0.5] + rng.normal(size=500)
        found = estimates(Design(Z, y, np.ones(500), Squared()), np.zeros(3))
        held.append(abs(found.weights[1] - 1.0) <= student.ppf(0.975, found.freedom[1]) * found.errors[1])
        freedom.append(found.freedom[1])
    assert 3.0 < np.mean(freedom) < 6.0
    assert abs(np.mean(held) - 0.95) < 3.0 * np.sqrt(0.95 * 0.05 / 300)


def test_labels_that_are_separated_decide_nothing():
    own = design(Logistic())
    found = estimates(own._replace(y=np.sign(own.Z[:, 0] + 0.1)), np.zeros(K))
    assert np.isnan(found.weights[0])


@pytest.mark.parametrize("far", [1.0, 1e2, 1e4])
def test_separated_labels_decide_nothing_from_a_start_that_separates_them(far):
    """A model of separated labels has a loss of almost zero, of which no step leaves a small share."""
    own = design(Logistic())
    found = estimates(own._replace(y=np.sign(own.Z[:, 0] + 0.1)), far * np.array([10.0, *np.zeros(K - 2), 1.0]))
    assert np.isnan(found.weights[0])


def test_steps_that_do_not_end_are_reported(monkeypatch):
    monkeypatch.setattr(unpenalised, "_STEPS", 2)
    with pytest.raises(ValueError, match="not found in 2 steps"):
        optimum(design(Logistic()), np.zeros(K))
