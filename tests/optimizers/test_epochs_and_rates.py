"""Truncated gradient, Epoch-GD with ``last-epoch``, AdaGrad: what the product tests do not see."""

from __future__ import annotations

import itertools
import math
import pickle
import warnings

import numpy as np
import pytest

from sparsco import conversions, optimizers, steps
from sparsco.data.rows import as_matrix
from sparsco.engine.run import Run
from sparsco.jit.dispatch import plain_python
from sparsco.losses import Logistic
from sparsco.optimizers.adaptive_rules import Drift, drifted, geometric, stretch
from sparsco.penalties import ElasticNet
from support import reference
from support.cases import LOSSES, assert_same, dense, learn, stream


@pytest.mark.parametrize("conversion", [conversions.Last(), conversions.Suffix()])
def test_truncation_at_every_step_is_fobos(conversion):
    data = stream(n=150)
    with plain_python():
        ours, theirs = (
            learn(data, "logistic", optimizer, conversion, (0.02, 0.1), None, True)[0]
            for optimizer in (optimizers.TruncatedGradient(), optimizers.FOBOS())
        )
    assert np.array_equal(ours.w, theirs.w) and np.array_equal(ours.b, theirs.b)


def test_gravity_follows_the_steps_whatever_the_cuts():
    """The pull adds up the steps since the last one across chunks; in a stream's rest nothing is pulled."""
    data = stream(n=103, d=3)
    record, rule = optimizers.TruncatedGradient(K=20), steps.InverseSqrt(0.3)
    with plain_python():
        answers = [
            learn(data, "squared", record, conversions.Last(), (0.05, 0.0), rule, True, cuts=cuts)[0]
            for cuts in ((), (7, 19, 20, 21, 55))
        ]
    assert np.array_equal(answers[0].w, answers[1].w)
    trace = reference.iterates(
        data.X, data.y, optimizer="truncated-gradient", loss="squared", lam=0.05, rho=0.0, eta=rule.sizes(0, 103), K=20
    )
    assert_same(answers[0], reference.last(trace), 1.0)
    assert steps.InverseSqrt(0.3).sizes(0, 20).sum() > 20 * rule.sizes(19, 1)[0]  # the paper's K eta is another number


def test_large_weights_are_spared():
    data = stream(n=300, d=6)
    spared = learn(data, "logistic", optimizers.TruncatedGradient(5, 0.05), conversions.Last(), (0.1, 0.0), None, True)
    pulled = learn(data, "logistic", optimizers.TruncatedGradient(5), conversions.Last(), (0.1, 0.0), None, True)
    assert np.abs(spared[0].w).max() > 1.5 * np.abs(pulled[0].w).max()


@pytest.mark.parametrize("n", [4, 10, 11, 29, 30, 31, 69, 70, 200])
def test_last_epoch_is_the_mean_of_the_last_complete_one(n):
    data = stream(n=n, d=4)
    with plain_python():
        answer, run = learn(
            data, "logistic", optimizers.EpochGD(T1=10), conversions.LastEpoch(), (0.02, 0.3), None, True, cuts=(5, 30)
        )
    trace, _ = dense(data, "logistic", "epoch-gd", {"T1": 10}, (0.02, 0.3), "auto", True, run)
    full = trace(np.arange(n))
    assert_same(answer, reference.last_epoch(full, 10), np.abs(full.w).max())
    assert any("first epoch, 10 examples" in warning for warning in run.warnings) == (n < 10)
    with plain_python():
        under_way, _ = learn(
            data,
            "logistic",
            optimizers.EpochGD(T1=10),
            conversions.LastEpoch(complete=False),
            (0.02, 0.3),
            None,
            True,
            cuts=(5, 30),
        )
    assert_same(under_way, reference.epoch_under_way(full, 10), np.abs(full.w).max())


@pytest.mark.parametrize(
    "conversion",
    [
        conversions.LastEpoch(),
        conversions.LastEpoch(complete=False),
        conversions.Suffix(),
        conversions.AverageSL(L=3.0),
    ],
)
def test_epochs_longer_than_a_block(conversion, monkeypatch):
    """Settlings inside an epoch, windows that turn in its middle, and pickling between: the same bits for any cut."""
    monkeypatch.setattr("sparsco.optimizers.epoch_gd._LONGEST", 50)
    data, n = stream(n=1300, d=4), 1300
    answers = []
    with plain_python():
        for cuts in ((), (1, 100, 101, 700, 1000, 1050)):
            run = Run(LOSSES["logistic"], ElasticNet(0.02, 0.1), optimizers.EpochGD(T1=100), conversion, d=4)
            for a, b in itertools.pairwise([0, *cuts, n]):
                run.feed(as_matrix(data.X[a:b]), data.y[a:b])
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    run.finish()
                run = pickle.loads(pickle.dumps(run))
            answers.append(run.finish())
        trace, _ = dense(data, "logistic", "epoch-gd", {"T1": 100}, (0.02, 0.1), "auto", True, run)
    assert np.array_equal(answers[0].w, answers[1].w) and np.array_equal(answers[0].b, answers[1].b)
    full, omega, long = trace(np.arange(n)), reference.anytime_weights(n), reference.anytime_weights(n, long=True)
    model = {
        conversions.LastEpoch: lambda: (
            reference.last_epoch(full, 100) if conversion.complete else reference.epoch_under_way(full, 100)
        ),
        conversions.Suffix: lambda: reference.mean_iterate(full, omega),
        conversions.AverageSL: lambda: reference.average_sl(full, long, lam=0.02, rho=0.1, L=3.0),
    }[type(conversion)]()
    assert_same(answers[0], model, np.abs(full.w).max())


@pytest.mark.parametrize("K", [1, 10, 20])
@pytest.mark.parametrize("lams", [None, np.array([0.4, 0.2, 0.1])], ids=["one", "path"])
def test_rows_one_by_one_around_the_first_pull(K, lams):
    """A window turns at 1024, and the first rows after it come before any pull: what died is found all the same."""
    rng, n, d = np.random.default_rng(1), 1060, 30
    X = as_matrix(rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.15))
    y = np.where(X.to_scipy() @ np.linspace(1.0, -1.0, d) + 0.1 * rng.normal(size=n) > 0.0, 1.0, -1.0)

    def answer(cuts):
        record, rule = optimizers.TruncatedGradient(K), steps.Constant(0.5)
        run = Run(Logistic(), ElasticNet(0.3), record, conversions.Suffix(), d=d, lams=lams, step=rule)
        for rows in cuts:
            run.feed(X, y, order=rows)
        return run.finish()

    whole = answer([np.arange(n)])
    pieces = answer([np.arange(1024), *np.arange(1024, n)[:, None]])
    assert np.array_equal(whole.w, pieces.w) and np.array_equal(whole.b, pieces.b) and whole.w.any()


def test_halving_steps():
    rule = steps.Halving(T1=3, eta1=0.5)
    assert rule.sizes(0, 10).tolist() == [0.5] * 3 + [0.25] * 6 + [0.125]
    assert [rule.end(t) for t in (0, 2, 3, 8, 9, 20, 21)] == [3, 3, 9, 9, 21, 21, 45]
    problem = Run(Logistic(), ElasticNet(0.1, 0.2), optimizers.FOBOS(), d=3).problem
    assert rule.resolve(problem, None) == rule
    filled = steps.Halving().resolve(problem, steps.Pilot(1000, 1.9, np.zeros(1), np.ones(1)))
    assert filled.eta1 == 0.25 and filled.T1 == 80


def test_epoch_gd_converges_where_fobos_does():
    """Squared loss, defaults: the mean over the last epoch is near the optimum."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (40_000, 20))
    truth = np.r_[np.ones(10), np.zeros(10)]
    y = X @ truth + rng.normal(size=len(X))
    run = Run(LOSSES["squared"], ElasticNet(0.1, 0.1), optimizers.EpochGD(), conversions.LastEpoch(), d=20)
    run.feed(as_matrix(X), y)
    w = run.finish().w[:, 0]
    best = (1 / 3 - 0.1) / (1 / 3 + 0.1) * truth
    assert np.abs(w - best).max() < 0.03


@pytest.mark.parametrize("x", [1e-12, 1e-6, 1e-3, 0.2, 5.0, 1e6])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 17, 1000])
def test_geometric_sums_keep_their_digits(x, n):
    terms = (-math.expm1(-i * math.log1p(x)) for i in range(n))
    assert geometric(x, float(n)) == pytest.approx(math.fsum(terms), rel=1e-13, abs=0.0)


@pytest.mark.parametrize(
    ("rho", "eta", "shrink"), [(0.1, 0.5, 0.2), (1e-9, 0.5, 0.2), (2.0, 30.0, 1e-3), (0.1, 0.5, 0.0)]
)
def test_drifting_is_idling_step_by_step(rho, eta, shrink):
    idle, size, total = Drift(rho), 10.0, 0.0
    for k in range(200):
        assert abs(drifted(idle, -10.0, eta, shrink, float(k))) == pytest.approx(size, rel=1e-9, abs=1e-12)
        assert stretch(idle, -10.0, eta, shrink, 5.0, 5.0 + k) == pytest.approx(total, rel=1e-12)
        total += eta * size
        size = max(size - shrink, 0.0) / (1.0 + rho * eta)


def test_adagrad_does_not_depend_on_the_units_of_targets():
    data = stream(n=400, classify=False)
    scaled = data._replace(y=1000.0 * data.y)
    for record in (optimizers.AdaGradFOBOS(), optimizers.AdaGradRDA()):
        one, many = (
            learn(each, "squared", record, conversions.Last(), (lam, 0.0), None, True)[0]
            for each, lam in ((data, 0.02), (scaled, 20.0))
        )
        np.testing.assert_allclose(1000.0 * one.w, many.w, rtol=1e-9)


@pytest.mark.parametrize("lams", [None, (0.05, 0.002, 0.02)])
@pytest.mark.parametrize("conversion", [conversions.Last(), conversions.AverageSL()])
def test_states_to_be_averaged_have_the_rates_of_all_features(lams, conversion):
    """Also of those whose weights are zero, for which kernels compute none; a second call gives the weights back."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 30)) * (rng.random((300, 30)) < 0.4)
    y = np.where(X[:, 0] - X[:, 1] + 0.5 * rng.standard_normal(300) > 0.0, 1.0, -1.0)
    run = Run(Logistic(), ElasticNet(0.05, 0.0), optimizers.NFTRL(), conversion, d=30, lams=lams)
    run.feed(as_matrix(X), y)
    run.begin()
    w, _ = run.weights()
    assert 0 < np.count_nonzero(w[:, 0]) < 15
    run.optimizer.settle(run.problem, run.state, run.block, run.t)
    run.optimizer.averaged(run.problem, run.state)
    _, lanes, _ = run.optimizer.layout.views(run.problem, run.state)
    for model, lam in enumerate(lams or (0.05,)):
        twin = reference.NFTRL(reference.Problem(30, lam, 0.0, np.ones(30), True))
        for x, label in zip(X, y, strict=True):
            margin = reference.weights_for(twin, x) @ x + twin.b
            twin.step(x, float(reference.derivative("logistic", margin, label)), math.nan)
        np.testing.assert_allclose(lanes[:, 1, model], twin.r, rtol=1e-10)
    run.optimizer.averaged(run.problem, run.state, run.t)
    np.testing.assert_allclose(run.weights()[0], w, rtol=1e-13)


def test_refusals():
    def run(optimizer, conversion=conversions.Last(), penalty=(0.1, 0.1), rule=None):
        return learn(stream(20), "logistic", optimizer, conversion, penalty, rule, True)

    for optimizer, words in (
        (optimizers.TruncatedGradient(K=0), "at least 1"),
        (optimizers.TruncatedGradient(K=2.5), "whole number"),
        (optimizers.TruncatedGradient(theta=0.0), "above 0"),
        (optimizers.TruncatedGradient(theta=0.5), "without L2 term"),
        (optimizers.EpochGD(T1=0), "at least 1"),
        (optimizers.EpochGD(eta1=-1.0), "positive"),
        (optimizers.AdaGradFOBOS(eta=0.0), "positive"),
        (optimizers.AdaGradRDA(delta=-1.0), "zero or more"),
        (optimizers.AdaGradRDA(b0=math.nan), "finite"),
    ):
        with pytest.raises(ValueError, match=words):
            run(optimizer)
    with pytest.raises(ValueError, match="EpochGD needs rho > 0"):
        run(optimizers.EpochGD(), penalty=(0.1, 0.0))
    with pytest.raises(ValueError, match="its own steps"):
        run(optimizers.EpochGD(), rule=steps.Constant(0.1))
    with pytest.raises(ValueError, match="works in epochs"):
        run(optimizers.FOBOS(), conversions.LastEpoch())
    with pytest.raises(ValueError, match="needs rho > 0"):
        run(optimizers.FOBOS(), penalty=(0.1, 0.0), rule=steps.Halving())
