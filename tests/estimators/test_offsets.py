"""Offsets of rows: exact optima, every door of the estimators, refusals; gamma and Tweedie against scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sklearn
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import GammaRegressor, TweedieRegressor
from sklearn.model_selection import cross_validate

import sparsco
from sparsco import SparseClassifier, SparseClassifierCV, SparsePath, SparseRegressor, SparseRegressorCV
from sparsco.conversions import PathStability
from sparsco.losses import REGRESSOR_LOSSES, Tweedie, derivative, value
from sparsco.offsets import base_of

N, D, LAM = 1500, 8, 0.02
CLASSES = ("logistic", "hinge", "squared-hinge")
"""The losses of labels; others are learned from numbers here."""


def data(seed=0):
    """Rows, offsets, and margins with both."""
    rng = np.random.default_rng(seed)
    X, offset = rng.normal(size=(N, D)), 0.6 * rng.normal(size=N)
    return rng, X, offset, X @ np.r_[0.6, -0.5, 0.4, np.zeros(D - 3)] + 0.3 + offset


def targets(loss, rng, p):
    """Targets for a loss whose true margins are p."""
    if loss in CLASSES:
        return np.where(p + rng.logistic(size=len(p)) > 0.0, "yes", "no")
    if loss == "poisson":
        return rng.poisson(np.exp(p)) * 1.0
    if loss in ("gamma", "tweedie"):
        return rng.gamma(2.0, np.exp(p) / 2.0) * (rng.random(len(p)) < (0.5 if loss == "tweedie" else 1.1))
    return p + rng.normal(size=len(p))


def optimum(loss, X, y, offset, lam):
    """The weights and the intercept of the elastic-net optimum, by a general minimiser of split weights."""
    d = X.shape[1]

    def objective(theta):
        p = X @ (theta[:d] - theta[d:-1]) + theta[-1] + offset
        c = derivative(loss, p, y) / len(y)
        g = X.T @ c
        return value(loss, p, y).mean() + lam * theta[:-1].sum(), np.concatenate([g + lam, lam - g, [c.sum()]])

    bounds = [(0.0, None)] * (2 * d) + [(None, None)]
    options = {"maxiter": 10_000, "maxfun": 10_000, "ftol": 1e-17, "gtol": 1e-11}
    found = minimize(objective, np.zeros(2 * d + 1), jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return np.append(found[:d] - found[d:-1], found[-1])


def weights_of(model):
    return np.append(np.ravel(model.coef_), model.intercept_)


def new(loss, **settings):
    return (SparseClassifier if loss in CLASSES else SparseRegressor)(loss, random_state=0, **settings)


SMOOTH = ["logistic", "squared-hinge", "squared", "huber", "poisson", "gamma", "tweedie"]


@pytest.mark.parametrize("loss", SMOOTH)
def test_the_polished_model_is_the_optimum(loss):
    rng, X, offset, p = data()
    y = targets(loss, rng, p)
    model = new(loss, alpha=LAM, polish=1e-9).fit(X, y, offset=offset)
    record = base_of(model.report_["loss"])  # with an epsilon that the first rows have set
    numbers = np.where(y == "yes", 1.0, -1.0) if loss in CLASSES else y
    np.testing.assert_allclose(weights_of(model), optimum(record, X, numbers, offset, LAM), atol=1e-6)
    assert model.gap_ <= 1e-9 * LAM * 1.01 or model.gap_ <= 1e-9


@pytest.mark.parametrize("loss", ["hinge", "absolute", "quantile", "epsilon-insensitive"])
def test_losses_with_kinks_are_certified(loss):
    rng, X, offset, p = data()
    y = targets(loss, rng, p)
    model = new(loss, alpha=LAM, polish=1e-6).fit(X, y, offset=offset)
    record = base_of(model.report_["loss"])  # with an epsilon that the first rows have set
    numbers = np.where(y == "yes", 1.0, -1.0) if loss in CLASSES else y

    def objective(theta):
        return value(record, X @ theta[:-1] + theta[-1] + offset, numbers).mean() + LAM * np.abs(theta[:-1]).sum()

    found = weights_of(model)
    for step in 1e-3 * np.random.default_rng(1).normal(size=(50, D + 1)):
        assert objective(found + step) >= objective(found) - 1e-9


def test_the_equivalent_weighted_problems():
    rng, X, offset, p = data()
    exposure = np.exp(offset)
    for loss, power in (("poisson", 1.0), ("gamma", 2.0), ("tweedie", 1.5)):
        y = targets(loss, rng, p)
        model = new(loss, alpha=LAM, polish=1e-9).fit(X, y, offset=offset)
        weighted = new(loss, alpha=LAM, polish=1e-9).fit(X, y / exposure, exposure ** (2.0 - power))
        np.testing.assert_allclose(weights_of(model), weights_of(weighted), atol=1e-6)
        np.testing.assert_allclose(model.predict(X, offset), exposure * model.predict(X), rtol=1e-12)


@pytest.mark.parametrize("l2", [0.001, 0.1])
def test_gamma_and_tweedie_are_those_of_scikit_learn(l2):
    rng, X, _, p = data()
    weights = rng.integers(1, 4, N) / 2.0
    weights /= weights.mean()
    settings = {"alpha": l2, "l1_ratio": 0.0, "polish": 1e-13, "random_state": 0}
    for loss, known in (
        ("gamma", GammaRegressor(alpha=l2, solver="newton-cholesky", tol=1e-12)),
        (Tweedie(1.3), TweedieRegressor(power=1.3, link="log", alpha=l2, solver="newton-cholesky", tol=1e-12)),
    ):
        y = targets("gamma" if loss == "gamma" else "tweedie", rng, p)
        model, known = SparseRegressor(loss, **settings).fit(X, y, weights), known.fit(X, y, weights)
        np.testing.assert_allclose(model.coef_, known.coef_, atol=1e-6)
        np.testing.assert_allclose(model.intercept_, known.intercept_, atol=1e-6)


@pytest.mark.parametrize("loss", ["gamma", "tweedie"])
def test_gamma_and_tweedie_need_no_tuning(loss):
    for scale in (1e-3, 1.0, 1e4):
        rng, X, _, p = data()
        y = scale * targets(loss, rng, p)
        model = SparseRegressor(loss, random_state=0).fit(X, y)
        assert np.flatnonzero(np.abs(model.coef_) > 0.1).tolist() == [0, 1, 2]
        record = REGRESSOR_LOSSES[loss]
        at = value(record, np.log(model.predict(X)), y).mean()
        assert 0.0 <= at < 0.9 * value(record, np.full(N, np.log(y.mean())), y).mean()


def test_gamma_and_tweedie_refuse_targets_and_powers():
    X = np.eye(4)
    with pytest.raises(ValueError, match="y has the value 0: the gamma loss is for amounts above zero"):
        SparseRegressor("gamma").fit(X, [1.0, 2.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="y has the value -1: the Tweedie loss is for amounts, zero or more"):
        SparseRegressor("tweedie").fit(X, [1.0, 2.0, -1.0, 1.0])
    for power in (1.0, 2.0, 2.5):
        with pytest.raises(ValueError, match="the power must lie between 1 and 2"):
            SparseRegressor(Tweedie(power)).fit(X, [1.0, 2.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="the scale must be a positive number"):
        SparseRegressor(Tweedie(1.5, -1.0)).fit(X, [1.0, 2.0, 0.0, 1.0])


@pytest.mark.parametrize("loss", ["logistic", "poisson", "squared"])
@pytest.mark.parametrize("settings", [{}, {"alpha": LAM}, {"alpha": LAM, "optimizer": "fobos"}])
def test_any_cut_is_the_whole(loss, settings):
    rng, X, offset, p = data()
    y = targets(loss, rng, p)
    whole = new(loss, max_iter=1, shuffle=False, tol=None, **settings).fit(X, y, offset=offset)
    stream = new(loss, **settings)
    for part in np.split(np.arange(N), [3, 900, 1003]):
        more = {"classes": ["no", "yes"]} if loss == "logistic" else {}
        stream.partial_fit(X[part], y[part], offset=offset[part], **more)
    assert np.array_equal(weights_of(stream), weights_of(whole))
    again = pickle.loads(pickle.dumps(stream)).partial_fit(X[:50], y[:50], offset=offset[:50])
    stream.partial_fit(X[:50], y[:50], offset=offset[:50])
    assert np.array_equal(weights_of(again), weights_of(stream))
    if settings:  # a choice on few rows without offsets has a solver of its own
        zeros, none = (new(loss, **settings).fit(X, y, **more) for more in ({"offset": np.zeros(N)}, {}))
        assert np.array_equal(weights_of(zeros), weights_of(none))


def test_one_example_at_a_time():
    rng, X, offset, p = data()
    y = targets("poisson", rng, p)
    one, many = (SparseRegressor("poisson", alpha=LAM, optimizer="nftrl", conversion="last") for _ in range(2))
    for x, target, own in zip(X, y, offset, strict=True):
        one.learn_one((np.arange(D), x), target, own)
    many.partial_fit(X, y, offset=offset)
    assert np.array_equal(weights_of(one), weights_of(many))
    at = one.predict_one((np.arange(D), X[0]), offset[0])
    assert at == pytest.approx(one.predict(X[:1], offset[:1])[0]) != one.predict_one((np.arange(D), X[0]))
    with pytest.raises(ValueError, match="the examples so far had an offset"):
        one.learn_one((np.arange(D), X[0]), 1.0)
    classifier = SparseClassifier(alpha=LAM, random_state=0)
    with pytest.raises(ValueError, match="name both in a first partial_fit"):
        classifier.learn_one({"a": 1.0}, 1, 0.5)
    labels = targets("logistic", rng, p)
    classifier.partial_fit(X[:1100], labels[:1100], classes=["no", "yes"], offset=offset[:1100])
    for x, label, own in zip(X[1100:], labels[1100:], offset[1100:], strict=True):
        classifier.learn_one((np.arange(D), x), label, own)
    twin = SparseClassifier(alpha=LAM, random_state=0).partial_fit(X, labels, classes=["no", "yes"], offset=offset)
    assert np.array_equal(weights_of(classifier), weights_of(twin))
    shares = classifier.predict_proba_one((np.arange(D), X[0]), 30.0)
    assert shares["yes"] > 0.99


def test_predictions_are_at_the_offsets():
    rng, X, offset, p = data()
    y = targets("logistic", rng, p)
    model = SparseClassifier(alpha=LAM, random_state=0).fit(X, y, offset=offset)
    margins = model.decision_function(X)
    assert np.array_equal(model.decision_function(X, offset), margins + offset)
    assert np.array_equal(model.predict(X, offset) == "yes", margins + offset > 0.0)
    np.testing.assert_allclose(model.predict_proba(X, offset)[:, 1], 1.0 / (1.0 + np.exp(-margins - offset)))
    assert model.score(X, y, offset=offset) == np.mean(model.predict(X, offset) == y) > model.score(X, y)
    assert model.predict_log_proba(X, offset).shape == (N, 2)
    assert np.array_equal(model.decision_function(X, 0.5), margins + 0.5)  # one number for all rows


@pytest.mark.filterwarnings("ignore:the least loss is at")
@pytest.mark.parametrize("loss", ["poisson", "logistic", "squared", "hinge"])
def test_paths_and_folds_take_offsets(loss):
    rng, X, offset, p = data()
    y, is_class = targets(loss, rng, p), loss in CLASSES
    alphas = [0.1, 0.02]
    path = SparsePath(new(loss, polish=1e-8), alphas=alphas, validation=0.1).fit(X, y, offset=offset)
    held = SparsePath(new(loss), alphas=alphas).fit(X, y, offset=offset)
    kind = SparseClassifierCV if is_class else SparseRegressorCV
    folds = kind(new(loss), alphas=alphas, cv=3).fit(X, y, offset=offset)
    if loss != "hinge":
        exact = kind(new(loss, polish=1e-8), alphas=alphas, cv=3).fit(X, y, offset=offset)
        whole = new(loss, alpha=exact.alpha_, polish=1e-8).fit(X, y, offset=offset)
        np.testing.assert_allclose(weights_of(exact), weights_of(whole), atol=1e-6)
    named = kind(new(loss, optimizer="nftrl", conversion="last"), alphas=alphas, cv=3).fit(X, y, offset=offset)
    blind = kind(new(loss), alphas=alphas, cv=3).fit(X, y)
    for each in (path, held, folds, named):
        assert each.predict(X, offset).shape == (N,)
        assert each.score(X, y, offset=offset) > each.score(X, y)
    assert folds.fold_losses_.mean() < blind.fold_losses_.mean()  # it is judged at the offsets
    assert np.nanmin(held.path_.losses) < np.nanmin(SparsePath(new(loss), alphas=alphas).fit(X, y).path_.losses)
    stream = SparsePath(new(loss), alphas=alphas, validation="progressive")
    more = {"classes": ["no", "yes"]} if is_class else {}
    for part in np.split(np.arange(N), [700]):
        stream.partial_fit(X[part], y[part], offset=offset[part], **more)
        more = {}
    assert np.isfinite(stream.path_.losses).all()


def test_several_outputs_share_the_offset():
    rng, X, offset, p = data()
    Y = np.column_stack([targets("poisson", rng, p), targets("poisson", rng, p - 1.0)])
    both = SparseRegressor("poisson", alpha=LAM, polish=1e-8).fit(X, Y, offset=offset)
    for k in range(2):
        one = SparseRegressor("poisson", alpha=LAM, polish=1e-8).fit(X, Y[:, k], offset=offset)
        np.testing.assert_allclose(both.coef_[k], one.coef_, atol=1e-6)
    assert both.predict(X, offset).shape == (N, 2)


def test_metadata_routing_reaches_the_offset():
    rng, X, offset, p = data()
    y = targets("poisson", rng, p)
    model = SparseRegressor("poisson", alpha=LAM, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = model.set_fit_request(offset=True).set_score_request(offset=True)
        found = cross_validate(asked, X, y, params={"offset": offset}, cv=3)["test_score"]
        assert clone(asked).get_metadata_routing() is not None
    blind = cross_validate(SparseRegressor("poisson", alpha=LAM, random_state=0), X, y, cv=3)["test_score"]
    assert np.all(found > blind)


def test_files_and_copies_keep_the_offset(tmp_path):
    rng, X, offset, p = data()
    y = targets("gamma", rng, p)
    model = SparseRegressor("gamma", alpha=LAM, random_state=0).fit(X, y, offset=offset)
    sparsco.save(model, tmp_path / "m.model")
    for twin in (sparsco.load(tmp_path / "m.model"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(twin.predict(X, offset), model.predict(X, offset))
    assert clone(model).get_params() == model.get_params()
    table = SparseRegressor("gamma", random_state=0).fit(X, y, offset=offset).intervals(0.9)
    assert table is not None


def test_what_takes_no_offset_says_so():
    rng, X, offset, p = data()
    y = targets("logistic", rng, p)
    three = np.where(X[:, 0] > 1.0, "maybe", y)

    def refused(model, y, sentence, offset=offset):
        before = vars(model).copy()
        with pytest.raises(ValueError, match=sentence):
            model.fit(X, y, offset=offset)
        assert set(vars(model)) == set(before)

    refused(SparseClassifier(), three, "an offset is for two classes, and there are 3")
    refused(SparseClassifier("multinomial"), three, "takes no offset, which is for one margin")
    refused(SparseClassifier(calibrate=True), y, "calibrate=True takes no offset")
    calibrated = SparseClassifier(alpha=LAM, calibrate=True, random_state=0).fit(X, y)
    for predict in (calibrated.predict_proba, calibrated.decision_function):
        with pytest.raises(ValueError, match="calibrate=True takes no offset"):
            predict(X, offset=offset)
    refused(SparseClassifier(conversion=PathStability(fdr=0.1)), y, "takes no offset: leave one of the two out")
    refused(SparseRegressor(conversion=PathStability(fdr=0.1)), p, "takes no offset: leave one of the two out")
    for bad, sentence in (
        (offset[:-1], r"offset has the shape \(1499,\)"),
        (offset[:, None], r"offset has the shape \(1500, 1\)"),
        (np.full(N, np.nan), "offset"),
        (np.full(N, np.inf), "offset"),
        (["a"] * N, "offset must be numbers"),
    ):
        refused(SparseClassifier(alpha=LAM), y, sentence, bad)
    for loss in ("poisson", "gamma", "tweedie"):
        refused(SparseRegressor(loss, alpha=LAM), np.exp(p), "give log.exposure., not the exposure", 365.0 + offset)
    stream = SparseRegressor("poisson", alpha=LAM).partial_fit(X, np.exp(p), offset=offset)
    with pytest.raises(ValueError, match="the rows so far had an offset: give zeros"):
        stream.partial_fit(X, np.exp(p))
    stream = SparseRegressor("poisson", alpha=LAM).partial_fit(X, np.exp(p))
    with pytest.raises(ValueError, match="the rows so far had no offset"):
        stream.partial_fit(X, np.exp(p), offset=offset)
    with pytest.raises(ValueError, match="two classes in a first|name both in a first partial_fit"):
        SparseClassifier(alpha=LAM).partial_fit(X, y, offset=offset)
    many = SparseClassifier(alpha=LAM).fit(X, three)
    with pytest.raises(ValueError, match="an offset is for two classes with one margin"):
        many.predict(X, offset)
    stable = sparsco.StableSparseClassifier(n_features=2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="a stable selection takes no offset"):
        stable.predict(X, offset)
