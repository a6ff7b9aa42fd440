"""Named methods in units of the columns: they equal the same methods on columns that are divided by hand."""

from __future__ import annotations

import pickle
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sparsco import SparseClassifier, SparseRegressor, distributed, train
from sparsco.jit.lanes import signed
from sparsco.losses import Huber
from sparsco.parts.contracts import Loss, part
from sparsco.training import comparison
from support.uneven import D, uneven_rows, units

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@part(Loss)
class Distance(NamedTuple):
    """A loss of one's own without a curvature: |p - y|."""

    classifies, smoothness, curved = False, 1.0, False

    def value(loss, p, y):
        return np.abs(p - y)

    def derivative(loss, p, y):
        return signed(1.0, p - y)

    def curvature(loss, p, y):
        return 0.0 * p


OPEN = {"standardize": True, "random_state": 0}
CASES = {
    "nftrl": (SparseClassifier, {"optimizer": "nftrl"}),
    "last": (SparseClassifier, {"optimizer": "fobos", "conversion": "last"}),
    "average": (SparseClassifier, {"optimizer": "rda", "conversion": "average"}),
    "optimal-sl": (SparseClassifier, {"conversion": "optimal-sl", "alpha": 0.02, "l1_ratio": 0.5}),
    "passes": (SparseClassifier, {"conversion": "average", "max_iter": 9, "tol": 1e-4}),
    "early stopping": (SparseClassifier, {"conversion": "last", "max_iter": 9, "early_stopping": True}),
    "three classes": (SparseClassifier, {"optimizer": "fobos", "conversion": "average-sl"}),
    "softmax": (SparseClassifier, {"loss": "multinomial", "conversion": "average-sl"}),
    "two outputs": (SparseRegressor, {"optimizer": "nftrl"}),
    "another loss": (SparseRegressor, {"loss": Huber(1.0), "optimizer": "rda"}),
    "a loss of one's own": (SparseRegressor, {"loss": Distance(), "optimizer": "rda"}),
    "a budget": (SparseClassifier, {"optimizer": "fobos", "budget": 4}),
    "an optimum": (SparseClassifier, {"conversion": "last", "alpha": 0.01, "polish": 1e-9}),
    "weights of features": (SparseClassifier, {"optimizer": "ftrl", "feature_weights": np.linspace(0.5, 2.0, D)}),
    "groups": (SparseClassifier, {"penalty": "group", "feature_groups": np.arange(D) // 3}),
    "an optimum with groups": (
        SparseRegressor,
        {"penalty": "group", "feature_groups": np.arange(D) // 3, "alpha": 0.05, "polish": 1e-9},
    ),
    "sparse groups": (SparseClassifier, {"penalty": "sparse-group", "feature_groups": np.arange(D) // 3}),
    "rows of weights": (SparseRegressor, {"penalty": "row-group", "alpha": 0.05}),
    "columns that occur": (SparseClassifier, {"optimizer": "nftrl", "storage": "seen"}),
}


@pytest.fixture(scope="module")
def rows():
    return uneven_rows()


def targets(case, score):
    """Return the targets of a case."""
    if case in ("three classes", "softmax"):
        return np.digitize(score, [-0.5, 0.5])
    if case in ("two outputs", "rows of weights"):
        return np.stack([score, -score + 0.3 * score**2], 1)
    numbers = ("another loss", "a loss of one's own", "an optimum with groups")
    return score if case in numbers else np.where(score > 0.0, "yes", "no")


def assert_same(found, by_hand, u):
    """Check that a model has the weights of one of divided columns."""
    w, expected = (each.toarray() if sp.issparse(each) else each for each in (found.coef_, by_hand.coef_))
    np.testing.assert_allclose(w * u, expected, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(found.intercept_, by_hand.intercept_, rtol=1e-7, atol=1e-8)
    assert found.n_selected_ == by_hand.n_selected_ > 2 and found.n_iter_ == by_hand.n_iter_


@pytest.mark.parametrize("case", CASES)
def test_fits_equal_those_of_columns_divided_by_hand(rows, case):
    X, score = rows
    kind, parameters = CASES[case]
    y, model = targets(case, score), kind(**OPEN, **parameters)
    given = sp.csr_array(X) if case == "columns that occur" else X
    assert_same(model.fit(given, y), clone(model).set_params(standardize=False).fit(X / units(X), y), units(X))


def test_a_start_is_given_for_the_columns_as_they_are(rows):
    X, score = rows
    model = SparseRegressor(**OPEN, alpha=0.05, max_iter=1, conversion="last")
    u, start = units(X), np.linspace(-1.0, 1.0, D)
    found = model.fit(X, score, coef_init=start / u, intercept_init=0.5)
    by_hand = clone(model).set_params(standardize=False).fit(X / u, score, coef_init=start, intercept_init=0.5)
    assert_same(found, by_hand, u)
    assert not np.allclose(found.coef_, clone(model).fit(X, score).coef_)


@pytest.mark.parametrize("storage", ["all", "seen"])
def test_streams_take_the_units_of_their_first_rows_for_any_cut(rows, storage):
    X, score = rows[0].copy(), rows[1]
    X[:1000, 20:] = 0.0  # columns that come later
    y = np.digitize(score, [-0.5, 0.5])
    y[:1500][y[:1500] == 2] = 1  # and a class
    late = X[1000:, 20:]
    born = np.abs(late[(late != 0.0).argmax(0), np.arange(10)]) * 1000**-0.25
    u = np.append(units(X[:1000, :20]), born)
    model = SparseClassifier(**OPEN, optimizer="nftrl", conversion="last", storage=storage)

    def learned(model, X, cuts=()):
        for first, stop in zip([0, *cuts], [*cuts, len(y)], strict=True):
            model.partial_fit(X[first:stop], y[first:stop])
            model = pickle.loads(pickle.dumps(model))
        return model

    whole = learned(clone(model), sp.csr_array(X))
    by_hand = learned(clone(model).set_params(standardize=False), sp.csr_array(X / u))
    assert_same(whole, by_hand, u)
    w = sp.csr_array(whole.coef_)
    assert w.shape == (3, D) and w[:, 20:].nnz and w[[2]].nnz
    for cuts in ([1, 999, 1000, 1001], [400, 1700, 2999]):
        assert (sp.csr_array(learned(clone(model), sp.csr_array(X), cuts).coef_) != w).nnz == 0


@pytest.mark.parametrize("split", [False, True])
def test_intervals_are_those_of_the_columns_as_they_are(rows, split):
    X, score = rows
    y, u = np.where(score > 0.0, 1, -1), units(X)
    model = SparseClassifier(**OPEN, optimizer="nftrl", alpha=0.02)
    found = clone(model).fit(X, y).intervals(also=range(D), split=split)
    by_hand = clone(model).set_params(standardize=False).fit(X / u, y).intervals(also=range(D), split=split)
    assert found["feature"].tolist() == by_hand["feature"].tolist() == [f"x{j}" for j in range(D)]
    for name in ("estimate", "error", "low", "high"):
        np.testing.assert_allclose(found[name] * u, by_hand[name], rtol=1e-6)


def test_partitions_have_no_units(rows):
    X, score = rows
    with pytest.raises(ValueError, match="standardize=True is not for data in partitions: partitions have"):
        distributed.fit(SparseClassifier(**OPEN, optimizer="nftrl"), (X, score > 0.0))


def test_methods_are_compared_in_units(rows):
    X, score = rows
    given = {
        "methods": ["automatic", "default", "rda"],
        "strengths": [1.0],
        "reader": {"y": np.where(score > 0, 1, -1)},
    }
    own, factors = {"random_state": 0}, 2.0 ** np.random.default_rng(1).integers(-9, 10, D)
    for settings, is_same in ((own, True), (own | {"standardize": False}, False)):
        found = [comparison.compare(X * f, settings=settings, **given) for f in (1.0, factors)]
        one, other = ([each._replace(seconds=None) for each in outcomes[1:]] for outcomes in found)
        assert (one == other) is is_same


def test_what_a_model_reports_is_of_the_columns_as_they_are(rows):
    X, score = rows
    u, y = units(X), score > 0.0
    for settings in ({"optimizer": "nftrl"}, {"conversion": "average"}, {"alpha": 0.01, "polish": 1e-9}):
        model = SparseClassifier(**OPEN | {"conversion": "last"} | settings)
        found, by_hand = model.fit(X, y), clone(model).set_params(standardize=False).fit(X / u, y)
        for point, expected in zip(found.history_, by_hand.history_, strict=True):
            assert point == pytest.approx(expected)
        lines, expected = ({line.name: line for line in each.summary().lines} for each in (found, by_hand))
        assert len(lines) > 2 and lines.keys() == expected.keys()
        for name, line in lines.items():
            assert (line.effect, line.share) == pytest.approx((expected[name].effect, expected[name].share))


@pytest.mark.parametrize("n", [600, 3000])
def test_intervals_of_an_optimum_are_those_of_the_columns_as_they_are(rows, n, tmp_path):
    X, y = rows[0][:n], np.where(rows[1][:n] > 0.0, 1, -1)
    model = SparseClassifier(**OPEN, conversion="last", alpha=0.02, polish=1e-9)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    for u, found in (
        (units(X), clone(model).fit(X, y)),
        (units(X[:1000]), train(tmp_path / "rows.npz", clone(model), shuffle=False).model),
    ):
        by_hand = clone(model).set_params(standardize=False).fit(X / u, y)
        for split in (False, True):
            of_given, expected = (each.intervals(also=range(D), split=split) for each in (found, by_hand))
            for name in ("estimate", "error"):
                np.testing.assert_allclose(of_given[name] * u, expected[name], rtol=1e-5)


def test_crosses_that_are_born_have_their_products_in_kept_rows():
    rng, values = np.random.default_rng(0), np.array([2.0, 3.0, 5.0, 7.0])  # any two have a product of their own
    X = values * (rng.random((3000, 4)) < [0.6, 0.5, 0.4, 0.7])
    y = np.where((X[:, 0] * X[:, 1] > 0.0) ^ (rng.random(3000) < 0.05), 1, -1)
    settings = {"optimizer": "nftrl", "alpha": 0.005} | OPEN
    model = train(X, y=y, cross="all", birth=True, settings=settings, shuffle=False).model
    (run,), features = model.fit_state.runs, model.fit_state.features
    u, born = run.units.at(), features.names.index("x0*x1")
    expected = np.array([np.prod([values[int(name[1:])] for name in each.split("*")]) for each in features.names])
    for kept in (run.sample().R, run.pilot_rows.matrix):
        np.testing.assert_allclose(kept.data * u[kept.indices], expected[kept.indices], rtol=1e-12)
        assert (kept.indices == born).sum() > 100
    first = np.prod(X[:1000, :2], axis=1)
    assert u[born] == pytest.approx(units(first[:, None])[0]) and "x0*x1" in model.summary().lines[0].name


def test_groups_have_units_where_no_strength_is_given(rows):
    X, score = rows
    y, factors = score > 0.0, 2.0 ** np.random.default_rng(1).integers(-9, 10, D)
    model = SparseClassifier(penalty="group", feature_groups=np.arange(D) // 3, random_state=0)
    open_, given = clone(model), clone(model).set_params(alpha=0.01)
    for each, is_same in ((open_, True), (given, False)):
        one, other = clone(each).fit(X, y), clone(each).fit(X * factors, y)
        assert np.array_equal(one.coef_, other.coef_ * factors) is is_same
    assert_same(clone(open_).set_params(standardize=True).fit(X, y), clone(open_).fit(X, y), np.ones(D))
    assert clone(open_).fit(X, y).score(X, y) > clone(open_).set_params(standardize=False).fit(X, y).score(X, y)
    with pytest.raises(ValueError, match="standardize='auto' is not for data in partitions: .* set it to False"):
        distributed.fit(clone(open_), (X, y))
