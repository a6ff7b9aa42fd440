"""Losses at work: coupled lanes against the dense recursion, converged answers against other solvers, estimators."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, PoissonRegressor, QuantileRegressor
from sklearn.metrics import log_loss, mean_poisson_deviance

from sparsco import DivergenceError, SparseClassifier, SparseRegressor, metrics
from sparsco.conversions import OptimalSL
from sparsco.conversions.averaging import Answer
from sparsco.conversions.sparse_learning import AverageSL
from sparsco.data.rows import as_matrix
from sparsco.engine.run import Run
from sparsco.jit.dispatch import plain_python
from sparsco.losses import EpsilonInsensitive, Huber, Logistic, Multinomial, Poisson, Quantile, value
from sparsco.penalties import ElasticNet, WeightedElasticNet
from sparsco.problem.targets import Classes
from sparsco.steps import Constant
from support import reference
from support.cases import CONVERSIONS, LOSSES, OPTIMIZERS, PENALTIES, assert_same, converted


def classes_stream(n=200, d=6, k=3, seed=0):
    """Rows, codes and the probabilities they were drawn with."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    margins = X[:, : d // 2] @ rng.normal(size=(d // 2, k)) * 1.5 + np.linspace(0.0, 1.0, k)
    P = np.exp(margins - margins.max(1, keepdims=True))
    P /= P.sum(1, keepdims=True)
    return X, (P.cumsum(1) < rng.random((n, 1))).sum(1).clip(0, k - 1).astype(float), P


def together(X, y, optimizer, conversion, penalty, k, *, weights=None, pen=None, intercept=True, cuts=()):
    """A run of the multinomial loss over k classes."""
    penalty = ElasticNet(*penalty) if pen is None else WeightedElasticNet(*penalty, pen)
    targets = Classes(np.eye(k), np.ones((k, k)))
    run = Run(Multinomial(), penalty, optimizer, conversion, d=X.shape[1], targets=targets, intercept=intercept, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for a, b in itertools.pairwise([0, *cuts, len(X)]):
            run.feed(as_matrix(X[a:b]), y[a:b], None if weights is None else weights[a:b])
        run.begin()
        return run.finish(), run


# ---- Coupled lanes ---------------------------------------------------------------------------------------------------

JOINT = [name for name in CONVERSIONS if not name.startswith("optimal")]
CLASSIC = [name for name, (family, *_) in OPTIMIZERS.items() if family in ("fobos", "sgd", "rda", "ftrl", "nftrl")]
"""One optimizer for each kernel."""


@pytest.mark.parametrize("conversion", JOINT)
@pytest.mark.parametrize("optimizer", CLASSIC)
def test_multinomial_lanes_equal_the_dense_recursion(optimizer, conversion):
    """Three classes in four lanes: the fourth takes no part."""
    name, record, constants = OPTIMIZERS[optimizer]
    kind = "l1" if optimizer == "rda-enhanced" or (len(conversion) + len(optimizer)) % 2 else "elastic-net"
    lam, rho = PENALTIES[kind]
    X, y, _ = classes_stream(n=140)
    rng = np.random.default_rng(1)
    weights, pen = rng.choice([0.5, 1.0, 2.0], len(X)), np.array([0.0, 0.5, 1.0, 2.0, 1.0, 1.0])
    intercept = len(conversion) % 3 > 0
    with plain_python():
        answer, run = together(
            X, y, record, CONVERSIONS[conversion](len(X)), (lam, rho), 3, weights=weights, pen=pen, intercept=intercept
        )
    constants, L, eta = dict(constants), run.pilot.L_mean, None
    if name == "rda":
        constants |= {"beta": L, "gamma": L / 10.0, "gamma_b": L / 10.0}
    if name in ("fobos", "sgd"):
        eta = run.step.sizes(0, len(X))
        if run.step.cap:
            eta = np.minimum(eta, 1.0 / (0.5 * weights * (np.sum(X**2, axis=1) + float(intercept)) + rho))
    traces = reference.iterates_together(
        X,
        np.eye(3)[y.astype(int)],
        optimizer=name,
        lam=lam,
        rho=rho,
        eta=eta,
        pen=pen,
        weights=weights,
        intercept=intercept,
        **constants,
    )
    for k, full in enumerate(traces):
        rows = X, full.y, weights
        model = converted(conversion, lambda _, full=full: full, rows, "logistic", (lam, rho), pen, intercept)
        scale = max(np.abs(full.w).max(), np.abs(full.b).max())
        assert_same(Answer(answer.w[:, k : k + 1], answer.b[k : k + 1], {}), model, scale)


@pytest.mark.parametrize(
    ("optimizer", "conversion", "penalty"),
    [
        ("fobos", "average-sl-diagonal", "elastic-net"),
        ("sgd", "suffix", "elastic-net"),
        ("rda", "average", "l1"),
        ("ftrl", "last", "l1"),
        ("nftrl", "average-sl-diagonal", "l1"),
        ("nftrl", "optimal-sl", "l1"),
    ],
)
def test_multinomial_compiled_equals_plain_python(optimizer, conversion, penalty):
    X, y, _ = classes_stream(k=5)
    args = X, y, OPTIMIZERS[optimizer][1], CONVERSIONS[conversion](len(X)), PENALTIES[penalty], 5
    compiled, run = together(*args)
    with plain_python():
        plain, _ = together(*args)
    np.testing.assert_allclose(compiled.w, plain.w, rtol=0.0, atol=1e-11)
    np.testing.assert_allclose(compiled.b, plain.b, rtol=0.0, atol=1e-11)
    assert np.array_equal(compiled.w != 0.0, plain.w != 0.0)
    assert run.problem.width == 8
    _, lanes, bias = run.optimizer.layout.views(run.problem, run.state)
    assert not np.any(lanes[:, 0, 5:]) and not np.any(bias[0, 5:])  # lanes without a model learn nothing


@pytest.mark.parametrize("conversion", [AverageSL(), OptimalSL(metric="diagonal")])
def test_any_cut_of_a_multinomial_gives_the_same_bits(conversion):
    X, y, _ = classes_stream(n=1700)
    whole, _ = together(X, y, OPTIMIZERS["nftrl"][1], conversion, (0.01, 0.0), 3)
    pieces, _ = together(X, y, OPTIMIZERS["nftrl"][1], conversion, (0.01, 0.0), 3, cuts=(1, 999, 1001, 1024))
    assert np.array_equal(whole.w, pieces.w) and np.array_equal(whole.b, pieces.b)


def test_gradient_phases_of_coupled_lanes():
    X, y, _ = classes_stream(n=400, k=5)
    _, run = together(X, y, OPTIMIZERS["fobos"][1], OptimalSL(0.5, 400, L=3.0), (0.01, 0.1), 5)
    fixed, Y = run.fixed_point(), np.eye(5)[y[200:].astype(int)]
    P = X[200:] @ fixed.w + fixed.b
    c, h = reference.derivative("multinomial", P, Y), reference.curvature("multinomial", P, Y)
    for mine, known in (
        (fixed.g, X[200:].T @ c / 200.0),
        (fixed.gb, c.mean(0)),
        (fixed.H, np.square(X[200:]).T @ h / 200.0),
        (fixed.Hb, h.mean(0)),
    ):
        np.testing.assert_allclose(mine, known, atol=1e-14)


@pytest.mark.parametrize("rho", [0.0, 0.05])
def test_the_guard_judges_coupled_lanes_together(rho):
    X, y, _ = classes_stream(n=3000, d=20, k=4)
    answer, run = together(X, y, OPTIMIZERS["nftrl"][1], AverageSL(), (0.02, rho), 4)
    (chosen,) = answer.report["chosen"]
    expected = {"last", "diagonal", "scalar", "newton", "constant"} | ({"average"} if rho else set())
    assert set(chosen["objectives"]) == expected
    assert chosen["metric"] == min(chosen["objectives"], key=chosen["objectives"].get)
    Y = np.eye(4)[y.astype(int)]  # all rows are in the sample: the objective is exact
    phi = np.mean(reference.value("multinomial", X @ answer.w + answer.b, Y))
    phi += 0.02 * np.abs(answer.w).sum() + rho / 2 * np.square(answer.w).sum()
    assert chosen["objectives"][chosen["metric"]] == pytest.approx(phi, rel=1e-12)


def test_the_mean_loss_of_coupled_lanes_is_the_log_loss():
    X, y, _ = classes_stream(n=500, k=3)
    rng = np.random.default_rng(0)
    w, b, weights = rng.normal(size=(6, 3)), rng.normal(size=3), rng.uniform(0.5, 2.0, 500)
    _, run = together(X, y, OPTIMIZERS["fobos"][1], CONVERSIONS["last"](500), (0.1, 0.1), 3)
    P = Multinomial().probabilities(X @ w + b)
    mine = run.mean_loss(as_matrix(X), *run.lanes_of(y, weights), w, b)
    assert mine == pytest.approx(np.mean(weights) * log_loss(y, P, sample_weight=weights), rel=1e-12)
    model = SparseClassifier("multinomial", alpha=0.01, random_state=0).fit(X, y)
    phi = log_loss(y, model.predict_proba(X)) + 0.01 * np.abs(model.coef_).sum()
    assert model.history_[-1]["objective"] == pytest.approx(phi, rel=1e-12)


# ---- Converged answers -----------------------------------------------------------------------------------------------


def optimum(X, y, loss, lam, rho, k=1):
    """min phi over (d, k) weights and k intercepts, by L-BFGS-B over the weights' positive and negative parts."""
    (n, d), shape = X.shape, (-1, k) if k > 1 else (-1,)

    def phi(v):
        parts, b = v[:-k].reshape(2, d, k), v[-k:]
        w = parts[0] - parts[1]
        p = (X @ w + b).reshape(shape)
        c = reference.derivative(loss, p, y).reshape(n, k) / n
        g = X.T @ c + rho * w
        f = np.mean(reference.value(loss, p, y)) + rho / 2 * np.square(w).sum() + lam * v[:-k].sum()
        return f, np.concatenate([(g + lam).ravel(), (lam - g).ravel(), c.sum(0)])

    bounds = [(0, None)] * (2 * d * k) + [(None, None)] * k
    options = {"maxiter": 20_000, "maxfun": 10**6, "ftol": 1e-15, "gtol": 1e-9}
    return minimize(phi, np.zeros(2 * d * k + k), jac=True, method="L-BFGS-B", bounds=bounds, options=options).fun


def numbers_stream(loss, n=400, d=8, seed=0, scale=1.0):
    """Rows and targets that suit the loss; three of the features matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    margins = X[:, :3] @ np.array([0.6, -0.5, 0.4])
    if loss == "poisson":
        return X, rng.poisson(scale * np.exp(margins)).astype(float)
    if LOSSES[loss].classifies:
        return X, np.where(margins + 0.5 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    return X, scale * (2.0 * margins + 3.0 + 0.5 * rng.standard_t(3, size=n))


SMOOTH = ["squared", "huber", "poisson", "logistic", "squared-hinge"]


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
@pytest.mark.parametrize("loss", SMOOTH)
def test_smooth_losses_reach_the_optimum(loss, l1_ratio):
    X, y = numbers_stream(loss)
    kind = SparseClassifier if LOSSES[loss].classifies else SparseRegressor
    record = LOSSES[loss]
    model = kind(record, alpha=0.05, l1_ratio=l1_ratio, max_iter=50, tol=None, random_state=0).fit(X, y)
    lam, rho = 0.05 * l1_ratio, 0.05 * (1.0 - l1_ratio)
    best = optimum(X, y, loss, lam, rho)
    mine = metrics.objective(X, y, model.coef_.ravel(), model.intercept_[0], loss=record, lam=lam, rho=rho)
    assert -1e-9 <= mine - best <= 1e-4 * max(abs(best), 0.1)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_the_multinomial_reaches_the_optimum(l1_ratio):
    X, y, _ = classes_stream(n=400, d=8, k=3)
    model = SparseClassifier("multinomial", alpha=0.02, l1_ratio=l1_ratio, max_iter=100, tol=None, random_state=0)
    model.fit(X, y)
    lam, rho = 0.02 * l1_ratio, 0.02 * (1.0 - l1_ratio)
    best = optimum(X, np.eye(3)[y.astype(int)], "multinomial", lam, rho, 3)
    mine = log_loss(y, model.predict_proba(X))
    mine += lam * np.abs(model.coef_).sum() + rho / 2 * np.square(model.coef_).sum()
    assert -1e-9 <= mine - best <= 1e-3 * best


def test_against_scikit_learns_solvers():
    X, y, _ = classes_stream(n=500, d=6, k=3)
    settings = {"alpha": 0.05, "l1_ratio": 0.0, "max_iter": 200, "tol": None, "random_state": 0}
    mine = SparseClassifier("multinomial", **settings).fit(X, y)
    known = LogisticRegression(C=1.0 / (500 * 0.05), tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(mine.coef_, known.coef_, atol=5e-3)
    np.testing.assert_allclose(mine.predict_proba(X), known.predict_proba(X), atol=5e-3)
    X, y = numbers_stream("poisson")
    mine = SparseRegressor("poisson", **settings).fit(X, y)
    known = PoissonRegressor(alpha=0.05, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(mine.coef_, known.coef_, atol=5e-3)
    np.testing.assert_allclose(mine.predict(X), known.predict(X), rtol=2e-2)


@pytest.mark.parametrize("q", [0.2, 0.5])
def test_quantiles_against_a_linear_program(q):
    X, y = numbers_stream("quantile", scale=10.0)
    known = QuantileRegressor(quantile=q, alpha=0.05, solver="highs").fit(X, y)

    def phi(model):
        return metrics.objective(X, y, model.coef_, float(np.ravel(model.intercept_)[0]), loss=Quantile(q), lam=0.05)

    mine = SparseRegressor(Quantile(q), alpha=0.05, max_iter=100, tol=None, random_state=0).fit(X, y)
    assert phi(known) - 1e-9 <= phi(mine) <= 1.01 * phi(known)
    assert np.mean(y <= mine.predict(X)) == pytest.approx(q, abs=0.03)
    if q == 0.5:  # without a tube, twice the median's loss
        mine = SparseRegressor(EpsilonInsensitive(0.0), alpha=0.1, max_iter=100, tol=None, random_state=0).fit(X, y)
        assert phi(mine) <= 1.01 * phi(known)


# ---- Untuned ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
@pytest.mark.parametrize("scale", [0.01, 1.0, 1000.0])
@pytest.mark.parametrize("loss", ["squared", "huber", "epsilon-insensitive", "quantile"])
def test_regressions_need_no_tuning(loss, scale, l1_ratio):
    """The defaults explain most of what can be explained, whatever the unit of the targets."""
    X, y = numbers_stream(loss, n=4000, d=30, scale=scale)
    record = Huber(1.35 * scale) if loss == "huber" else EpsilonInsensitive(0.1 * scale) if "eps" in loss else loss
    model = SparseRegressor(record, l1_ratio=l1_ratio, random_state=0).fit(X[:2000], y[:2000])
    truth = scale * (2.0 * X[:, :3] @ np.array([0.6, -0.5, 0.4]) + 3.0)

    def loss_of(p):
        return np.mean(value(model.report_["loss"], p[2000:], y[2000:]))

    # alpha="auto" is 5% of the L1 weight that selects nothing; an L2 term of the same weight shrinks a good deal, and
    # the more the larger the unit
    share = 0.8 if l1_ratio == 1.0 else 0.2 if scale <= 1.0 else 0.0
    none, mine, best = (loss_of(p) for p in (np.full(4000, np.median(y)), model.predict(X), truth))
    assert mine < none - share * (none - best)
    assert np.all(model.coef_[:3] != 0.0)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
@pytest.mark.parametrize(("mean", "d"), [(0.05, 5), (0.05, 10), (0.05, 100), (1.0, 10), (1.0, 500), (50.0, 100)])
def test_poisson_needs_no_tuning(mean, d, l1_ratio):
    """Not with fewer events than features: there the exact optimum at 5% of lam_max loses against the mean, too."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(6000, d))
    rate = np.exp(X[:, :5] @ np.array([0.5, -0.5, 0.3, 0.3, -0.3]))
    rate *= mean / rate.mean()
    y = rng.poisson(rate).astype(float)
    model = SparseRegressor("poisson", l1_ratio=l1_ratio, random_state=0).fit(X[:4000], y[:4000])
    none, mine, best = (
        mean_poisson_deviance(y[4000:], p[4000:]) for p in (np.full(6000, mean), model.predict(X), rate)
    )
    enough = 4000 * mean >= 10 * d  # events per feature; with fewer it only has to beat the mean
    assert mine < none - (0.5 if enough else 0.0) * (none - best)


def test_classifiers_need_no_tuning():
    X, y, P = classes_stream(n=6000, d=30, k=4)
    best = np.mean(P[4000:].argmax(1) == y[4000:])
    for loss, l1_ratio in itertools.product(("logistic", "hinge", "squared-hinge", "multinomial"), (1.0, 0.5)):
        model = SparseClassifier(loss, l1_ratio=l1_ratio, random_state=0).fit(X[:4000], y[:4000])
        assert model.score(X[4000:], y[4000:]) > best - 0.04, loss
    model = SparseClassifier("multinomial", random_state=0).fit(X[:4000], y[:4000])
    assert log_loss(y[4000:], model.predict_proba(X[4000:])) < 1.25 * log_loss(y[4000:], P[4000:])


# ---- Estimators ------------------------------------------------------------------------------------------------------


def test_names_of_scikit_learn():
    X, y = numbers_stream("squared")
    for ours, theirs in (("epsilon-insensitive", "epsilon_insensitive"), ("squared", "squared_error")):
        one, two = (SparseRegressor(name, alpha=0.05, random_state=0).fit(X, y) for name in (ours, theirs))
        assert np.array_equal(one.coef_, two.coef_)
    labels = y > 3.0
    one, two = (
        SparseClassifier(name, alpha=0.05, random_state=0).fit(X, labels) for name in ("squared-hinge", "squared_hinge")
    )
    assert np.array_equal(one.coef_, two.coef_)
    assert not hasattr(one, "predict_proba")


def test_two_classes_of_a_multinomial_are_one_margin():
    X, y = numbers_stream("logistic")
    one, two = (SparseClassifier(loss, alpha=0.02, random_state=0).fit(X, y) for loss in ("multinomial", "logistic"))
    assert one.coef_.shape == (1, 8) and np.array_equal(one.coef_, two.coef_)
    assert np.array_equal(one.predict_proba(X), two.predict_proba(X)) and one.report_["loss"] == Logistic()
    assert one.decision_function(X).shape == (400,)


def test_many_classes():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 3)), np.arange(600) % 129
    with pytest.raises(ValueError, match="at most 128 models that are tied together, not 129: choose optimizer='batch"):
        SparseClassifier("multinomial", alpha=0.01).fit(X, y)
    X = np.eye(40)[np.arange(4000) % 40]
    model = SparseClassifier("multinomial", alpha=1e-4, random_state=0).fit(X, np.arange(4000) % 40)
    assert model.coef_.shape == (40, 40) and model.score(X, np.arange(4000) % 40) == 1.0
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1.0)
    assert np.array_equal(model.predict_proba(X).argmax(1), model.predict(X))


def test_partial_fit_of_a_multinomial_is_fit():
    X, y, _ = classes_stream(n=1500, k=3)
    whole = SparseClassifier("multinomial", alpha=0.01, max_iter=1, shuffle=False, tol=None, random_state=0).fit(X, y)
    pieces = SparseClassifier("multinomial", alpha=0.01, random_state=0)
    for a, b in itertools.pairwise((0, 7, 1000, 1500)):
        pieces.partial_fit(X[a:b], y[a:b], classes=[0.0, 1.0, 2.0])
    assert np.array_equal(whole.coef_, pieces.coef_) and np.array_equal(whole.intercept_, pieces.intercept_)


def test_counts_only():
    X, y = numbers_stream("poisson")
    model = SparseRegressor("poisson", alpha=0.01, random_state=0).fit(X, y)
    assert np.all(model.predict(X) > 0.0) and model.score(X, y) > 0.3
    np.testing.assert_allclose(np.log(model.predict(X)), X @ model.coef_ + model.intercept_[0])
    y[17] = -2.0
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="y has the value -2: the Poisson loss is for counts"):
            learn(X, y)
    with pytest.raises(DivergenceError):
        SparseRegressor("poisson", alpha=0.01, optimizer="fobos", step_size=Constant(1e3)).fit(X, np.abs(y))


def test_no_events_at_all():
    X, _ = numbers_stream("poisson")
    with pytest.warns(UserWarning, match="no feature was selected"):
        model = SparseRegressor("poisson", alpha=0.5, random_state=0).fit(X, np.zeros(400))
    assert np.all(model.predict(X) < 0.2)


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (Quantile(1.0), "q must lie between 0 and 1"),
        (Huber(0.0), "epsilon must be a positive number"),
        (EpsilonInsensitive(-0.1), "epsilon must be a number, zero or more"),
        (Poisson(0.0), "the scale must be a positive number"),
    ],
)
def test_constants_out_of_range(loss, words):
    with pytest.raises(ValueError, match=words):
        SparseRegressor(loss).fit(*numbers_stream("poisson"))
