"""Models of few rows that are solved without an optimizer: the optimum, and what learning the rows ends at."""

import numpy as np
import pytest

from sparsco import SparseClassifier, SparseRegressor, conversions, losses, optimizers
from sparsco.data.rows import as_matrix
from sparsco.engine.at_once import solved_at_once
from sparsco.engine.run import Run
from sparsco.offsets import WithOffset, with_offset
from sparsco.penalties import ElasticNet, NonNegative, WeightedElasticNet
from sparsco.problem.targets import Classes

N, D = 150, 6
LOSSES = {
    "logistic": losses.Logistic(),
    "squared hinge": losses.SquaredHinge(),
    "squared": losses.Squared(),
    "huber": losses.Huber(0.5),
    "poisson": losses.Poisson(),
    "gamma": losses.Gamma(),
    "tweedie": losses.Tweedie(),
}
PENALTIES = (
    ElasticNet(0.02, 0.0),
    ElasticNet(0.02, 0.05),
    ElasticNet(0.0, 0.1),
    WeightedElasticNet(0.02, 0.0, np.array([0.0, 1.0, 2.0, 0.5, 1.0, 3.0])),
)


def rows(loss, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) * np.array([1.0, 0.3, 2.0, 1.0, 1.0, 0.1])
    X[rng.random((N, D)) < 0.3] = 0.0
    p = X[:, 0] - X[:, 2] + 0.3 * rng.standard_normal(N)
    counts = rng.poisson(np.exp(0.5 * p)).astype(float)
    numbers = {"squared": p, "huber": p, "poisson": counts, "gamma": np.exp(0.5 * p), "tweedie": counts}
    y = numbers.get(loss, np.where(p > 0.2, 1.0, -1.0))
    return X, y, np.where(rng.random(N) < 0.2, 2.0, 1.0)


def collected(loss, penalty, intercept, X, y, weights):
    conversion = conversions.AverageSL()
    run = Run(loss, penalty, optimizers.NFTRL(), conversion, d=D, intercept=intercept)
    for part in np.split(np.arange(len(y)), [3, 80]):
        run.feed(as_matrix(X[part]), y[part], weights[part])
    return run


def test_all_losses_that_are_solved_at_once_are_here():
    assert {type(loss) for loss in LOSSES.values()} == set(losses.SMOOTH_LOSSES)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("intercept", [True, False])
def test_the_answer_is_the_optimum_on_all_rows_and_no_worse_than_what_learning_ends_at(name, penalty, intercept):
    loss, (X, y, weights) = LOSSES[name], rows(name)
    run = collected(loss, penalty, intercept, X, y, weights)
    runs, answers = solved_at_once([run])
    assert answers is not None and runs[0].state is None and runs[0].examples == N
    w, b = answers[0].w[:, 0], answers[0].b[0]
    c = weights * losses.derivative(loss, X @ w + b, y) / N
    g, pen = X.T @ c + penalty.rho * w, penalty.lam * penalty.feature_weights(D)
    slack = np.where(w != 0.0, np.abs(g + pen * np.sign(w)), np.maximum(np.abs(g) - pen, 0.0))
    assert slack.max() < 2e-5 and (abs(c.sum()) < 2e-5 if intercept else b == 0.0)
    learned = run.begun().finish()
    assert learned.report["chosen"][0]["metric"] == answers[0].report["chosen"][0]["metric"] == "newton"
    np.testing.assert_allclose(w, learned.w[:, 0], atol=1e-4)
    np.testing.assert_allclose(b, learned.b[0], atol=1e-4)
    objectives = [each.report["chosen"][0]["objectives"]["newton"] for each in (answers[0], learned)]
    np.testing.assert_allclose(*objectives, rtol=1e-8)


def test_the_run_goes_on_as_if_nothing_had_been_solved():
    X, y, weights = rows("logistic")
    first, second = (collected(LOSSES["logistic"], ElasticNet(0.02), True, X, y, weights) for _ in "ab")
    solved_at_once([first])
    for run in (first, second):
        run.feed(as_matrix(X), y)
        run.begin()
    assert np.array_equal(first.weights()[0], second.weights()[0]) and first.examples == second.examples


def test_each_class_has_its_own_optimum():
    X, _, weights = rows("logistic")
    codes = np.arange(N) % 3.0
    signs = 2.0 * np.eye(3) - 1.0
    targets = Classes(signs, np.ones((3, 3)))
    parts = LOSSES["logistic"], ElasticNet(0.01), optimizers.NFTRL(), conversions.AverageSL()
    run = Run(*parts, d=D, targets=targets)
    run.feed(as_matrix(X), codes, weights)
    _, (answer,) = solved_at_once([run])
    for q in range(3):
        alone = collected(LOSSES["logistic"], ElasticNet(0.01), True, X, signs[codes.astype(int), q], weights)
        _, (own,) = solved_at_once([alone])
        assert np.array_equal(own.w[:, 0], answer.w[:, q]) and own.b[0] == answer.b[q]


def test_offsets_are_added_to_the_margins():
    X, y, weights = rows("squared")
    offset = np.linspace(-1.0, 1.0, N)
    plain = collected(LOSSES["squared"], ElasticNet(0.02), True, X, y - offset, weights)
    shifted = collected(WithOffset(LOSSES["squared"]), ElasticNet(0.02), True, X, with_offset(y, offset), weights)
    (one,), (other,) = solved_at_once([plain])[1], solved_at_once([shifted])[1]
    np.testing.assert_allclose(one.w, other.w, atol=1e-7)
    np.testing.assert_allclose(one.b, other.b, atol=1e-7)


@pytest.mark.parametrize(
    "changed",
    [
        {"penalty": NonNegative(0.02)},
        {"loss": losses.Hinge()},
        {"conversion": conversions.Last()},
        {"conversion": conversions.AverageSL(metric="diagonal")},
    ],
)
def test_what_is_no_elastic_net_is_learned(changed):
    X, y, weights = rows("logistic")
    given = {"loss": LOSSES["logistic"], "penalty": ElasticNet(0.02), "conversion": conversions.AverageSL()} | changed
    run = Run(given["loss"], given["penalty"], optimizers.FOBOS(), given["conversion"], d=D)
    run.feed(as_matrix(X), y, weights)
    (begun,), answers = solved_at_once([run])
    assert answers is None and begun.t == N


@pytest.mark.parametrize("estimator", [SparseClassifier, SparseRegressor])
def test_a_fit_of_few_rows_is_the_certified_optimum(estimator):
    X, y, weights = rows("logistic" if estimator is SparseClassifier else "squared")
    model = estimator(alpha=0.02).fit(X, y, sample_weight=weights)
    exact = estimator(alpha=0.02, polish=1e-9).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, exact.intercept_, atol=1e-5)
    assert model.history_[-1]["t"] == N
