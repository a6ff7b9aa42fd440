"""What is chosen without a word does not depend on the units of y and X, and is no worse than a constant."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from sparsco import (
    SparseClassifier,
    SparseClassifierCV,
    SparsePath,
    SparseRegressor,
    SparseRegressorCV,
    StableSparseRegressor,
)
from sparsco.losses import REGRESSOR_LOSSES, EpsilonInsensitive, Huber, value
from sparsco.problem.pilot import best_intercept
from support import LONG

QUIET = "alpha='auto'", "the least loss", "no feature", "on held-out"
pytestmark = [pytest.mark.filterwarnings(f"ignore:{start}") for start in QUIET]

SHIFTED = ["squared", "absolute", "quantile", "huber", "epsilon-insensitive"]
LOG_LINKS = ["poisson", "gamma", "tweedie"]


def streamed(loss, X, y):
    model = SparseRegressor(loss, random_state=0)
    for first in range(0, len(y), 97):
        model.partial_fit(X[first : first + 97], y[first : first + 97])
    return model


DOORS = {
    "fit": lambda loss, X, y: SparseRegressor(loss, random_state=0).fit(X, y),
    "stream": streamed,
    "mixture": lambda loss, X, y: SparseRegressor(loss, l1_ratio=0.5, random_state=0).fit(X, y),
    "l2": lambda loss, X, y: SparseRegressor(loss, penalty="l2", random_state=0).fit(X, y),
    "budget": lambda loss, X, y: SparseRegressor(loss, budget=3, random_state=0).fit(X, y),
    "at_size": lambda loss, X, y: SparseRegressor(loss, random_state=0).fit(X, y).at_size(2),
    "no intercept": lambda loss, X, y: SparseRegressor(loss, fit_intercept=False, random_state=0).fit(X, y),
    "path": lambda loss, X, y: SparsePath(SparseRegressor(loss, random_state=0), n_alphas=8).fit(X, y).model_,
    "cv": lambda loss, X, y: (
        SparseRegressorCV(SparseRegressor(loss), n_alphas=8, random_state=0).fit(X, y).best_estimator_
    ),
    "stable": lambda loss, X, y: StableSparseRegressor(2, loss=loss, random_state=0).fit(X, y),
    "promise": lambda loss, X, y: StableSparseRegressor(efp=1.0, loss=loss, random_state=0).fit(X, y),
}
IN_UNITS_OF_X = set(DOORS) - {"path", "cv"}
"""The doors that penalise columns in units of their spread without being asked."""
WITHOUT_LOG_LINKS = {"no intercept", "stable", "promise"}
"""A log link needs an intercept to follow the unit of y."""


def rows(seed, log_link):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(60, 300)), int(rng.integers(3, 20))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-2.0, 2.0, d)
    margins = X @ (rng.standard_normal(d) * (rng.random(d) < 0.4) / X.std(0))
    if log_link:
        return X, rng.gamma(2.0, np.exp(0.5 * margins / max(margins.std(), 1e-9))) + 1e-3
    return X, margins + rng.standard_normal(n) * 10.0 ** rng.uniform(-2.0, 0.0)


def line(model):
    return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])


@pytest.mark.parametrize("seed", range(20) if LONG else (0, 1, 14))
@pytest.mark.parametrize("door", DOORS)
def test_the_units_of_y_and_x_scale_the_model_and_nothing_else(door, seed):
    rng = np.random.default_rng(1000 + seed)
    log_link = door not in WITHOUT_LOG_LINKS and rng.random() < 0.3
    loss = str(rng.choice([each for each in LOG_LINKS if (door, each) != ("path", "poisson")] if log_link else SHIFTED))
    X, y = rows(seed, log_link)
    c = 2.0 ** rng.integers(-20, 21) if rng.random() < 0.5 else 10.0 ** rng.uniform(-6.0, 6.0)
    b = 0.0 if log_link or door == "no intercept" else c * y.std() * rng.normal() * 10.0 ** rng.uniform(-1.0, 2.0)
    units = 10.0 ** rng.uniform(-3.0, 3.0, X.shape[1]) if door in IN_UNITS_OF_X else np.ones(X.shape[1])
    (w, b0), (scaled, b1) = line(DOORS[door](loss, X, y)), line(DOORS[door](loss, X * units, c * y + b))
    of_weights, expected = (1.0, b0 + np.log(c)) if log_link else (c, c * b0 + b)
    spread = 1.0 if log_link else c * y.std()
    assert np.abs((scaled * units - of_weights * w) * X.std(0)).max() <= 1e-9 * spread
    assert abs(b1 - expected) <= 1e-9 * max(spread, abs(expected))


@pytest.mark.parametrize("seed", range(1, 13 if LONG else 4))
@pytest.mark.parametrize("loss", ["absolute", "quantile", "epsilon-insensitive"])
def test_all_models_of_a_path_follow_targets_that_are_far_from_zero(loss, seed):
    X, y = rows(seed, False)
    X, far = X / X.std(0), 100.0 * y.std()
    paths = [SparsePath(SparseRegressor(loss, random_state=0), n_alphas=8).fit(X, y + b).path_ for b in (0.0, far)]
    one, other = (path.coefs.toarray() for path in paths)
    assert np.abs(other - one).max() <= 1e-9 * y.std()
    assert np.abs(paths[1].intercepts - far - paths[0].intercepts).max() <= 1e-9 * far


@pytest.mark.parametrize("seed", range(12 if LONG else 3))
def test_a_path_of_counts_has_the_same_objective_in_any_unit(seed):
    """Other losses are 0 at best and scale with y; exp(p) - y p has any size, and models are as near as its share.

    A metric ends when a step lowers the objective by less than 1e-10 of it; ten times that is left for later steps.
    """
    X, y = rows(seed, True)
    c, zero = 10.0 ** np.random.default_rng(seed).uniform(-6.0, 6.0), np.zeros(len(y))
    found = []
    for unit in (1.0, c):
        path = SparsePath(SparseRegressor("poisson", random_state=0), n_alphas=8, validation="progressive")
        path, loss = path.fit(X / X.std(0), unit * y).path_, REGRESSOR_LOSSES["poisson"]
        w, b = path.coefs.toarray(), path.intercepts[:, 0]
        losses = value(loss, (X / X.std(0)) @ w + b, unit * y[:, None]).mean(0)
        found.append((losses + path.alphas * np.abs(w).sum(0)) / unit)
    one, other = found
    terms = value(loss, zero + np.log(c), c * y).mean() / c - value(loss, zero, y).mean()
    assert np.all(np.abs(other - terms - one) <= 1e-9 * np.maximum(np.abs(one), np.abs(other)))


def test_powers_of_two_change_no_bit():
    X, y = rows(0, False)
    one, other = (SparseRegressor(random_state=0).fit(X, unit * y) for unit in (1.0, 2.0**20))
    assert np.array_equal(other.coef_, 2.0**20 * one.coef_)


def test_the_losses_of_sizes_are_those_of_y_as_it_is():
    X, y = rows(0, False)
    one, other = (SparseRegressor(random_state=0).fit(X, unit * y + 3.0).size_path_ for unit in (1.0, 100.0))
    np.testing.assert_allclose(other["loss"], 1e4 * one["loss"], rtol=1e-9)
    X, y = rows(1, True)
    one, other = (SparseRegressor("poisson", random_state=0).fit(X, unit * y).size_path_ for unit in (1.0, 100.0))
    np.testing.assert_allclose(other["loss"], 100.0 * (one["loss"] - np.log(100.0) * y.mean()), rtol=1e-9)


def test_what_was_chosen_is_the_objective_of_scikit_learn():
    """alpha_ and l1_ratio_ are those of the elastic net for y as it is."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = rows(4, False)
    X, y = X / X.std(0), 1000.0 * y  # columns whose units are one
    ours = SparseRegressor(relaxed=False, l1_ratio=0.2, polish=1e-9, random_state=0).fit(X, y)
    theirs = linear_model.ElasticNet(alpha=ours.alpha_, l1_ratio=ours.l1_ratio_, tol=1e-12, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-4 * np.abs(theirs.coef_).max())


@pytest.mark.parametrize("loss", SHIFTED)
def test_targets_far_from_zero(loss):
    X, y = rows(0, False)
    for door in ("fit", "stream", "at_size", "budget", "cv"):
        near, far = (DOORS[door](loss, X, y + mean).predict(X) for mean in (0.0, 1e6))
        assert np.abs(far - 1e6 - near).mean() <= 0.05 * y.std()


@pytest.mark.parametrize("door", ["fit", "stream"])
@pytest.mark.parametrize("loss", [*SHIFTED, Huber(0.5)], ids=str)
def test_models_of_a_given_strength_follow_targets_that_are_far_from_zero(loss, door):
    X, y = rows(0, False)
    X, models = X / X.std(0), []
    for mean in (0.0, 1e6):
        model = SparseRegressor(loss, alpha=0.01 * y.std(), random_state=0)
        feed = model.fit if door == "fit" else model.partial_fit
        models.append(feed(X, y + mean).predict(X) - mean)
    assert np.abs(models[1] - models[0]).mean() <= 0.05 * y.std()


@pytest.mark.parametrize("n", [500, 3000])
@pytest.mark.parametrize("mean", [1e5, 1e6, 1e8])
def test_a_phase_one_that_did_not_reach_the_targets_does_not_decide_the_model(n, mean):
    rng = np.random.default_rng(0)
    X, settings = rng.standard_normal((n, 20)), {"alpha": 0.01, "l1_ratio": 0.5, "random_state": 0}
    y = X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.standard_normal(n)
    near, far = (SparseRegressor("huber", **settings).fit(X, y + b) for b in (0.0, mean))
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-4)
    np.testing.assert_allclose(far.intercept_ - mean, near.intercept_, atol=1e-4)


def test_coupled_outputs_that_phase_one_did_not_reach_are_learned():
    rng = np.random.default_rng(0)
    X, settings = rng.standard_normal((3000, 20)), {"alpha": 0.01, "penalty": "row-group", "random_state": 0}
    y = X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.standard_normal(3000)
    Y, far = np.c_[y, 2.0 * y], np.array([1e7, -3e7])
    near, other = (SparseRegressor("huber", **settings).fit(X, Y + b) for b in (0.0, far))
    np.testing.assert_allclose(other.coef_, near.coef_, atol=1e-3)
    np.testing.assert_allclose(other.intercept_ - far, near.intercept_, atol=1e-3)


@pytest.mark.parametrize("loss", SHIFTED)
def test_several_outputs_follow_targets_that_are_each_far_from_zero(loss):
    X, y = rows(0, False)
    Y, far = np.c_[y, 2.0 * y], y.std() * np.array([100.0, -1000.0])
    near, other = (SparseRegressor(loss, random_state=0).fit(X, Y + b) for b in (0.0, far))
    assert np.abs((other.coef_ - near.coef_) * X.std(0)).max() <= 1e-9 * y.std()
    assert np.abs(other.intercept_ - far - near.intercept_).max() <= 1e-9 * np.abs(far).max()


def test_a_model_without_features_has_the_best_intercept_where_the_loss_has_no_curvature():
    """Steps from zero, and from the mean, would see only straight parts of the loss."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 4)), rng.standard_normal(200) + 1e6
    y[:20] = 1e12
    model = SparseRegressor(Huber(1.35), alpha=2.0).fit(X, y)
    assert not model.coef_.any()
    assert model.intercept_ == pytest.approx(best_intercept(Huber(1.35), y, np.ones(200)), abs=1e-3)


def test_a_default_constant_follows_y_and_a_given_one_does_not():
    X, y = rows(0, False)
    for name, kind in (("huber", Huber), ("epsilon-insensitive", EpsilonInsensitive)):
        one, other = (SparseRegressor(name, random_state=0).fit(X, unit * y).report_["loss"] for unit in (1.0, 1e3))
        assert other.epsilon == pytest.approx(1e3 * one.epsilon, rel=1e-12)
        given = kind(0.7)
        assert SparseRegressor(given, random_state=0).fit(X, 1e3 * y).report_["loss"].epsilon == 0.7
    with pytest.raises(ValueError, match="unit=0"):
        SparseRegressor(Huber(1.0, unit=0.0)).fit(X, y)


def test_the_spread_of_targets_withstands_outliers():
    y = np.random.default_rng(0).standard_normal((1000, 1))
    weights = np.ones_like(y)
    clean = Huber(1.0, None).resolve(y, weights).epsilon
    y[:50] = 1e9
    assert Huber(1.0, None).resolve(y, weights).epsilon == pytest.approx(clean, rel=0.15)
    assert clean == pytest.approx(1.0, rel=0.1)
    y[100:] = 3.0  # most are equal: the standard deviation
    assert Huber(1.0, None).resolve(y, weights).epsilon == pytest.approx(y.std())


# ---- no worse than a constant ----------------------------------------------------------------------------------------


def wild(seed):
    """Return rows to learn and to judge by, with means and scales over twelve orders of magnitude, and a loss."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(80, 600)), int(rng.integers(3, 25))
    X = rng.standard_normal((2 * n, d)) * 10.0 ** rng.uniform(-6.0, 6.0, d)
    X += 10.0 ** rng.uniform(-3.0, 3.0, d) * (rng.random(d) < 0.2)
    margins = X @ (rng.standard_normal(d) * (rng.random(d) < 0.4) / X.std(0))
    margins, scale = margins - margins.mean(), 10.0 ** rng.uniform(-6.0, 6.0)
    if seed % 4 == 3:
        loss, mean = str(rng.choice(LOG_LINKS)), scale * np.exp(np.clip(0.5 * margins, -3.0, 3.0))
        y = rng.poisson(np.minimum(mean, 1e9)).astype(float) if loss == "poisson" else rng.gamma(2.0, 0.5 * mean)
        y[:2] = np.maximum(y[:2], 1.0 if loss == "poisson" else 0.0)  # some are not zero
    else:
        loss = str(rng.choice(SHIFTED))
        noise = rng.standard_normal(2 * n) if rng.random() < 0.6 else rng.standard_t(2, 2 * n)
        y = scale * (margins * (rng.random() < 0.8) + noise) + rng.choice([-1, 1]) * 10.0 ** rng.uniform(-6.0, 6.0)
    return X[:n], y[:n], X[n:], y[n:], loss


@pytest.mark.parametrize("seed", range(60 if LONG else 12))
def test_no_choice_is_worse_than_the_constant(seed):
    X, y, X_test, y_test, loss = wild(seed)
    model = SparseRegressor(loss, random_state=0).fit(X, y)
    record, (w, b) = REGRESSOR_LOSSES[loss].resolve(y[:, None], np.ones((len(y), 1))), line(model)
    constant = np.full(len(y_test), best_intercept(record, y, np.ones(len(y))))
    nothing = value(record, constant, y_test)
    worse = value(record, X_test @ w + b, y_test) - nothing
    error = worse.std() / np.sqrt(len(worse))
    assert worse.mean() <= error + 1e-9 * np.abs(nothing).mean()  # digits of the intercept


def noise(n=150, d=30):
    rng = np.random.default_rng(1)
    return rng.standard_normal((n, d)), rng.standard_normal(n)


def test_a_size_that_is_worse_than_the_constant_is_announced():
    X, y = rows(4, False)
    model = SparseRegressor(random_state=0).fit(X, y).convert_with_columns(sizes=True)
    nothing = model.report["converted"][0]["choice"]["candidates"][0]
    assert nothing["features"] == 0.0
    model.at_size(1)  # without a word
    worse = tuple(each._replace(loss=1.01 * nothing["loss"]) for each in model.sizes)
    with pytest.warns(
        UserWarning, match=r"at_size\(1\): on rows that were not learned its model was no better than a constant"
    ):
        model._replace(sizes=worse).at_size(1)


NO_BETTER = "on rows that were not learned its model was no better than a constant"


def path_of(**settings):
    return lambda X, y: SparsePath(SparseRegressor(random_state=0), alphas=[1e-3, 3e-4, 1e-4], **settings).fit(X, y)


def cv_of(estimator=None, **settings):
    estimator = SparseRegressor(random_state=0) if estimator is None else estimator
    return lambda X, y: SparseRegressorCV(estimator, alphas=[1e-3, 3e-4, 1e-4], **settings).fit(X, y)


def streamed_path(X, y):
    path = SparsePath(SparseRegressor(random_state=0), alphas=[1e-3, 3e-4, 1e-4])
    for first in range(0, len(y), 500):
        path.partial_fit(X[first : first + 500], y[first : first + 500])
    return path


WORSE_THAN_CONSTANTS = {
    "held out": ("choose='min'", 150, path_of()),
    "one standard error": ("choose='1-se'", 150, path_of(choose="1-se")),
    "a number": ("choose=30", 150, path_of(choose=30)),
    "progressive": ("choose='min'", 10_000, path_of()),
    "two passes": ("choose='min'", 2500, path_of(passes=2)),
    "stream": ("choose='min'", 2500, streamed_path),
    "fading": ("choose='min'", 2500, lambda X, y: SparsePath(fading(), alphas=[1e-3, 1e-4]).fit(X, y)),
    "folds": ("choose='min'", 150, cv_of()),
    "folds of a number": ("choose=30", 150, cv_of(choose=30)),
    "folds in lanes": ("choose='min'", 150, cv_of(SparseRegressor(optimizer="nftrl", random_state=0))),
    "sizes": ("n_features='auto'", 250, lambda X, y: StableSparseRegressor("auto", random_state=0).fit(X, y)),
}


def fading():
    return SparseRegressor(half_life=1000, optimizer="fobos", random_state=0)


@pytest.mark.parametrize("door", WORSE_THAN_CONSTANTS)
def test_what_is_worse_than_a_constant_is_announced(door):
    named, n, fitted = WORSE_THAN_CONSTANTS[door]
    X, y = noise(n)
    with pytest.warns(UserWarning) as caught:
        model = fitted(X, y)
        model.convert() if isinstance(model, SparsePath) else None
    assert [str(each.message).startswith(f"{named}: {NO_BETTER}") for each in caught].count(True) == 1


@pytest.mark.parametrize("door", WORSE_THAN_CONSTANTS)
def test_what_is_better_than_a_constant_is_not(door):
    _, n, fitted = WORSE_THAN_CONSTANTS[door]
    X, y = noise(n)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fitted(X, y + 5.0 * X[:, 2])
        model.convert() if isinstance(model, SparsePath) else None
    assert not [each for each in caught if NO_BETTER in str(each.message)]


@pytest.mark.parametrize("optimizer", ["auto", "nftrl"])
def test_the_loss_of_constants_is_that_of_the_shares_of_classes(optimizer):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((900, 5)), rng.choice(3, 900, p=[0.6, 0.3, 0.1])
    fold, expected = np.arange(900) % 3, []
    estimator = SparseClassifier(optimizer=optimizer, random_state=0)
    path = SparseClassifierCV(estimator, alphas=[0.1, 0.05], cv=fold).fit(X, y).path_
    for k in range(3):  # one against the rest
        shares = np.bincount(y[fold != k]) / (fold != k).sum()
        losses = [-np.log(shares[c]) - np.log1p(-np.delete(shares, c)).sum() for c in y[fold == k]]
        expected.append(np.mean(losses))
    np.testing.assert_allclose(path.constants, np.mean(expected), rtol=1e-12)
