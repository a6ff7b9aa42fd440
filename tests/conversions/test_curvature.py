"""Candidates solve the problem they claim to; the guard guards."""

from __future__ import annotations

import numpy as np
import pytest

from sparsco.conversions import metric
from sparsco.conversions.left_out import completed, left_out
from sparsco.conversions.metric import Evidence, choose, diagonal, newton, objective, scalar
from sparsco.conversions.reservoir import Reservoir
from sparsco.data import row_sums
from sparsco.losses import Hinge, Logistic, Squared
from sparsco.penalties import ElasticNet, WeightedElasticNet
from support.reservoirs import offer


def problem(loss, n=4000, d=40, seed=0, rho=0.0, lam=0.02, budget=10**6, density=0.5, noise=0.1):
    """A stream, the evidence of a fixed rough iterate, and its reservoir."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    truth = np.where(np.arange(d) < 5, 1.0, 0.0)
    p = X @ truth + 0.3
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-p)), 1.0, -1.0)
    if isinstance(loss, Squared):
        y = p + rng.standard_normal(n)
    w_bar, b_bar = truth + noise * rng.standard_normal(d), 0.1
    m = X @ w_bar + b_bar
    c, h = loss.derivative(m, y), loss.curvature(m, y)
    e = Evidence(
        w_bar + 0.2 * rng.standard_normal(d),
        0.0,
        w_bar,
        b_bar,
        X.T @ c / n,
        c.mean(),
        np.square(X).T @ h / n,
        h.mean(),
        n,
        n,
        loss.smoothness * (np.square(X).sum(1).mean() + 1),
    )
    sample = offer(Reservoir(seed, 1, budget), X, y[:, None]).sample().lane(0)
    return X, y, e, sample, ElasticNet(lam, rho)


def violation(X, y, loss, reg, w, b):
    """Largest violation of the optimality conditions of the objective over all rows."""
    c = loss.derivative(X @ w + b, y) / len(y)
    g, pen = X.T @ c + reg.rho * w, reg.lam * reg.feature_weights(w.size)
    return max(np.where(w != 0, np.abs(g + pen * np.sign(w)), np.maximum(np.abs(g) - pen, 0.0)).max(), abs(c.sum()))


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
@pytest.mark.parametrize("rho", [0.0, 0.05])
def test_newton_with_every_row_in_hand_finds_the_optimum(loss, rho):
    X, y, e, sample, reg = problem(loss, rho=rho)
    e = e._replace(n_window=10**12)  # no allowance for noise in the gradient
    assert sample.kappa == 1.0
    w, b = newton(e, loss, reg, sample, True)
    assert violation(X, y, loss, reg, w, b) < 1e-2 * reg.lam < violation(X, y, loss, reg, e.w_bar, e.b_bar)
    assert 0 < np.count_nonzero(w) < w.size


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
@pytest.mark.parametrize("rho", [0.0, 0.05])
def test_columns_that_were_left_out_wrongly_come_back_where_the_sample_has_all_rows(loss, rho, monkeypatch):
    X, y, e, sample, reg = problem(loss, rho=rho)
    e = e._replace(n_window=10**12)
    full = choose(e, loss, reg, sample, True)
    few = np.array([0, 7, 20])
    monkeypatch.setattr(metric, "_possible", lambda *_: (few, np.ones(40, bool)))
    lacking = choose(e, loss, reg, sample, True)
    assert set(np.flatnonzero(lacking.w)) <= {*few.tolist()} and lacking.name == full.name == "newton"
    c = loss.derivative(X @ lacking.w + lacking.b, y) / len(y)
    beyond = (np.abs(X.T @ c) > 1.001 * reg.lam) & (lacking.w == 0.0)
    assert beyond[1:5].all() and np.array_equal(left_out(lacking, loss, reg, sample.R), beyond)
    found = completed(lacking, e, loss, reg, sample, True)
    assert violation(X, y, loss, reg, found.w, found.b) < 2e-3 * reg.lam
    np.testing.assert_allclose(found.w, full.w, atol=1e-3)
    np.testing.assert_allclose(found.objectives["newton"], objective(sample, loss, reg, found.w, found.b), rtol=1e-12)
    assert found.objectives["newton"] < lacking.objectives["newton"] - 1e-3


def test_a_choice_stays_where_nothing_was_left_out_or_the_sample_lacks_rows(monkeypatch):
    loss = Logistic()
    X, y, e, sample, reg = problem(loss)
    full = choose(e, loss, reg, sample, True)
    assert completed(full, e, loss, reg, sample, True) is full
    some = problem(loss, budget=10_000)[3]
    assert some.kappa < 1.0
    monkeypatch.setattr(metric, "_possible", lambda *_: (np.arange(2), np.ones(40, bool)))
    lacking = choose(e, loss, reg, some, True)
    assert completed(lacking, e, loss, reg, some, True) is lacking
    last = choose(e, loss, reg, sample, True)._replace(name="last")
    assert completed(last, e, loss, reg, sample, True) is last


def test_newton_respects_the_weights_of_features_and_a_missing_intercept():
    loss = Logistic()
    X, y, e, sample, reg = problem(loss)
    pen = np.ones(40)
    pen[0], pen[1] = 0.0, 100.0
    reg = WeightedElasticNet(reg.lam, 0.0, pen)
    w, b = newton(e, loss, reg, sample, False)
    assert b == e.b_bar
    c = loss.derivative(X @ w + b, y) / len(y)
    assert abs(X[:, 0] @ c) < 1e-2 * reg.lam and w[1] == 0.0


def test_the_linear_term_brings_in_what_the_sample_misses():
    """On a small sample the step with the stream's gradient is better than the sample's own optimum."""
    loss = Squared()
    X, y, e, sample, reg = problem(loss, n=20_000, budget=5_000)
    assert sample.kappa < 0.05

    def f(w, b):
        return 0.5 * np.square(X @ w + b - y).mean() + reg.lam * np.abs(w).sum()

    alone = newton(e, loss, reg, sample._replace(kappa=1.0), True)
    assert f(*newton(e, loss, reg, sample, True)) < f(*alone) < f(e.w_bar, e.b_bar)


def test_the_step_is_the_same_with_and_without_a_gram_matrix():
    """Where the last iterate has few weights, the columns are solved without one."""
    loss = Logistic()
    X, y, e, sample, reg = problem(loss, density=0.7)
    few = e._replace(w_last=np.where(np.arange(40) < 9, e.w_last, 0.0))
    (w, b), expected = newton(e, loss, reg, sample, True), newton(few, loss, reg, sample, True)
    assert np.allclose(w, expected[0], atol=1e-5) and abs(b - expected[1]) < 1e-5
    assert not np.array_equal(w, expected[0])


def test_diagonal_is_the_closed_form_and_drops_columns_never_seen():
    X, y, e, sample, reg = problem(Logistic())
    e.H[3], e.g_bar[3] = 0.0, 0.0
    w, b = diagonal(e, reg, True)
    j = 0
    v = e.w_bar[j] - e.g_bar[j] / (2 * e.H[j])
    assert w[j] == pytest.approx(np.sign(v) * max(abs(v) - reg.lam / (2 * e.H[j]), 0.0))
    assert w[3] == 0.0 and b == pytest.approx(e.b_bar - e.gb_bar / (2 * e.Hb))
    assert diagonal(e, reg, False)[1] == e.b_bar


def test_scalar_uses_twice_the_largest_eigenvalue():
    loss, n, d = Squared(), 3000, 20
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) + 2.0 * rng.standard_normal((n, 1))  # one direction stands out
    y, w_bar = rng.standard_normal(n), rng.standard_normal(d)
    c = X @ w_bar - y
    e = Evidence(w_bar, 0.0, w_bar, 0.0, X.T @ c / n, c.mean(), np.square(X).mean(0), 1.0, n, n, 1.0)
    sample, reg = offer(Reservoir(0), X, y[:, None]).sample().lane(0), ElasticNet(2.0, 0.1)
    M = 2 * np.linalg.eigvalsh(X.T @ X / n)[-1] + reg.rho
    v = e.w_bar - (e.g_bar + reg.rho * e.w_bar) / M
    expected = np.sign(v) * np.maximum(np.abs(v) - reg.lam / M, 0.0)
    w, _ = scalar(e, loss, reg, sample, True)
    assert np.allclose(w, expected, atol=1e-10) and np.array_equal(w == 0, expected == 0)


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_eigenvalue_is_never_above_and_near_without_a_spectral_gap(seed):
    X, _, _, sample, _ = problem(Squared(), seed=seed)
    largest = np.linalg.eigvalsh(X.T @ X / len(X))[-1]
    estimate = row_sums.largest_eigenvalue(*sample.R[:3], X.shape[1], np.full(len(X), 1 / len(X)))
    assert 0.9 * largest < estimate <= largest * (1 + 1e-12)  # the factor 2 in M covers the rest


# guard


def test_objective_is_exact_while_the_sample_holds_everything():
    loss = Logistic()
    X, y, e, sample, reg = problem(loss, rho=0.1)
    exact = loss.value(X @ e.w_bar + 0.1, y).mean() + 0.05 * e.w_bar @ e.w_bar + 0.02 * np.abs(e.w_bar).sum()
    assert objective(sample, loss, reg, e.w_bar, 0.1) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
@pytest.mark.parametrize("rho", [0.0, 0.05])
def test_the_guard_takes_the_best_and_never_a_catastrophe(loss, rho):
    X, y, e, sample, reg = problem(loss, rho=rho)
    good = choose(e, loss, reg, sample, True)
    assert good.name == "newton" and good.objectives["newton"] == min(good.objectives.values())
    assert ("average" in good.objectives) == (rho > 0.0)
    wild = e._replace(w_bar=e.w_bar * 1e200, w_last=good.w, b_last=good.b)
    kept = choose(wild, loss, reg, sample, True)
    assert kept.name == "last" and np.array_equal(kept.w, good.w)


def test_a_failed_metric_falls_back_on_the_average_when_there_is_an_l2_term():
    """Equicorrelated features: the diagonal metric overshoots; without newton the average or scalar must be taken."""
    rng = np.random.default_rng(0)
    n, d = 2000, 50
    X = rng.standard_normal((n, 1)) + 0.1 * rng.standard_normal((n, d))
    y = X[:, 0] + rng.standard_normal(n)
    w_bar, c = np.full(d, 1.2 / d), X @ np.full(d, 1.2 / d) - y
    e = Evidence(np.full(d, 0.1), 0.0, w_bar, 0.0, X.T @ c / n, c.mean(), np.square(X).mean(0), 1.0, n, n, float(d))
    sample = offer(Reservoir(0), X, y[:, None]).sample().lane(0)
    choice = choose(e, Squared(), ElasticNet(0.01, 0.01), sample, False)
    assert choice.objectives["diagonal"] > choice.objectives["average"] >= choice.objectives[choice.name]


def test_a_loss_without_curvature_keeps_what_it_has(monkeypatch):
    loss = Hinge()
    X, y, e, sample, reg = problem(loss)
    e = e._replace(H=None, Hb=0.0)
    choice = choose(e, loss, reg, sample, True)
    assert choice.name == "smoothed" and choice.objectives["smoothed"] < choice.objectives["last"]
    monkeypatch.setattr(metric, "smooth", lambda loss: None)  # as of a user's loss, which has no smooth twin
    choice = choose(e, loss, reg, sample, True)
    assert choice.name == "last" and choice.w is e.w_last
    choice = choose(e, loss, ElasticNet(reg.lam, 0.1), sample, True)
    assert choice.objectives[choice.name] == min(choice.objectives.values())
    assert set(choice.objectives) >= {"last", "average"}


def test_an_empty_stream_gives_the_last_iterate():
    zero = np.zeros(3)
    e = Evidence(zero, 0.0, zero, 0.0, zero, 0.0, zero, 0.0, 0, 0, 1.0)
    assert choose(e, Logistic(), ElasticNet(0.1), Reservoir().sample().lane(0), True).name == "last"


def averaged_noise(seed, loss=None, n=20_000, d=400):
    """An average with a small weight in every column, as that of FOBOS, on a sample of a small share of the rows."""
    _, _, e, sample, reg = problem(loss or Logistic(), n, d, seed, budget=150_000, density=0.1, noise=0.01)
    keeps = np.random.default_rng(seed).random(d) < 0.05
    return e._replace(w_last=np.where(keeps | (np.arange(d) < 5), e.w_bar, 0.0)), sample, reg


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", [Squared(), Logistic()])
def test_columns_that_the_guard_leaves_out_change_no_objective(loss, seed, monkeypatch):
    """Small weights of an average that end at zero need no columns: all columns give the same candidates."""
    e, sample, reg = averaged_noise(seed, loss)
    assert sample.kappa < 0.5 and np.count_nonzero(e.w_bar) == e.w_bar.size
    taken, possible = [], metric._possible
    monkeypatch.setattr(metric, "_possible", lambda *args: taken.append(possible(*args)) or taken[-1])
    some = choose(e, loss, reg, sample, True)
    monkeypatch.setattr(metric, "_possible", lambda e, *args: (np.arange(e.w_bar.size), np.ones(e.w_bar.size, bool)))
    everything = choose(e, loss, reg, sample, True)
    ((columns, steep),) = taken
    assert np.count_nonzero(steep) < len(columns) < 0.25 * e.w_bar.size
    assert some.name == everything.name == "newton"
    for name in ("last", "diagonal", "constant"):
        assert some.objectives[name] == pytest.approx(everything.objectives[name], rel=1e-9)
    assert some.objectives["newton"] == pytest.approx(everything.objectives["newton"], rel=1e-3)
    assert np.array_equal(some.w != 0.0, everything.w != 0.0)
