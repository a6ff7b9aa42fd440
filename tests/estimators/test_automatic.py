"""Estimators without arguments: the automatic choice, its attributes, and its promises."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from sparsco import SparseClassifier, SparseRegressor, load, save
from sparsco.conversions.choose import ROWS_IN_MEMORY, Choose
from sparsco.engine import pilot_rows

pytestmark = pytest.mark.filterwarnings("ignore:alpha='auto'")


def classes(n=1500, d=40, seed=0):
    """Return rows and labels that five of the columns explain."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    w = np.zeros(d)
    w[:5] = 2.0, -2.0, 1.0, 1.0, -1.0
    return X, np.where(X @ w + rng.logistic(size=n) > 0.0, "spam", "ham")


def words(n=900, d=3000, seed=0):
    """Return sparse counts and labels."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.02, format="csr", rng=rng, data_sampler=lambda size: rng.integers(1, 4, size))
    X = X.astype(np.float64)
    return X, np.where(X[:, :40].sum(1) + 0.5 * rng.standard_normal(n) > 1.2, 1, 0)


def test_the_true_features_are_found_without_arguments():
    X, y = classes(4000)
    model = SparseClassifier(random_state=0).fit(X, y)
    assert set(np.flatnonzero(model.coef_)) >= {0, 1, 2, 3, 4}
    assert model.n_selected_ <= 12
    assert model.score(*classes(4000, seed=1)) > 0.82


@pytest.mark.parametrize("cut", [1, 7, 500, 1499])
def test_any_cut_of_a_stream_gives_the_bits_of_fit(cut):
    X, y = classes()
    whole, stream = SparseClassifier(random_state=0).fit(X, y), SparseClassifier(random_state=0)
    cuts = range(0, len(y), cut) if cut > 1 else [*range(0, 40), *range(40, len(y), 200)]
    for start, stop in zip(cuts, [*cuts[1:], len(y)], strict=True):
        stream.partial_fit(X[start:stop], y[start:stop])
    assert np.array_equal(stream.coef_, whole.coef_) and stream.intercept_ == whole.intercept_
    named = SparseClassifier(random_state=0).partial_fit(X, y, classes=["ham", "spam"])
    assert np.array_equal(named.coef_, whole.coef_)


def test_three_classes_in_any_cut():
    X, _ = classes()
    y = np.array(["b", "c", "a"])[np.argmax(X[:, :3] + 0.5 * np.random.default_rng(1).standard_normal((1500, 3)), 1)]
    whole, stream = SparseClassifier(random_state=0).fit(X, y), SparseClassifier(random_state=0)
    for start in range(0, 1500, 400):
        stream.partial_fit(X[start : start + 400], y[start : start + 400])
    assert np.array_equal(stream.coef_, whole.coef_)
    assert whole.score(X, y) > 0.7


def test_a_class_that_comes_late_learns_from_all_rows_that_are_kept():
    X, y = classes(3000)
    y = y.astype("<U5")
    y[2500:] = np.where(X[2500:, 9] > 0.5, "other", y[2500:])
    stream = SparseClassifier(random_state=0)
    for start in range(0, 3000, 500):
        stream.partial_fit(X[start : start + 500], y[start : start + 500])
    whole = SparseClassifier(random_state=0).fit(X, y)
    assert np.array_equal(stream.coef_, whole.coef_)


@pytest.mark.parametrize("kind", ["words", "numbers", "classes"])
def test_what_was_chosen_reproduces_the_model(kind):
    X, y = words() if kind == "words" else classes()
    made = SparseClassifier
    if kind == "numbers":
        made, y = SparseRegressor, X[:, 0] - 2.0 * X[:, 1] + np.random.default_rng(0).standard_normal(len(X))
    model = made(random_state=0).fit(X, y)
    again = made(
        random_state=0, alpha=model.alpha_, l1_ratio=model.l1_ratio_, relaxed=model.relaxed_, standardize=True
    ).fit(X, y)
    assert np.array_equal(again.coef_, model.coef_) and np.array_equal(again.intercept_, model.intercept_)
    assert (again.alpha_, again.l1_ratio_, again.relaxed_) == (model.alpha_, model.l1_ratio_, model.relaxed_)


def test_scales_do_not_matter():
    X, y = words()
    model = SparseClassifier(random_state=0).fit(X, y)
    for factor in (1024.0, 1.0 / 1024.0):
        scaled = SparseClassifier(random_state=0).fit(factor * X, y)
        np.testing.assert_allclose(factor * scaled.coef_, model.coef_, rtol=1e-6, atol=1e-9)
    noisy = sp.hstack([X, 1e4 * np.random.default_rng(3).standard_normal((X.shape[0], 1))], "csr")
    loud = SparseClassifier(random_state=0).fit(noisy, y)
    assert abs(loud.score(noisy, y) - model.score(X, y)) < 0.02


def test_a_given_strength_keeps_the_objective_of_scikit_learn():
    X, y = classes()
    model = SparseClassifier(alpha=0.05, random_state=0).fit(X, y)
    assert model.report_["lam"] == 0.05 and model.alpha_ == 0.05 and model.l1_ratio_ == 1.0 and not model.relaxed_
    assert not model.is_automatic


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "squared", "multinomial"])
def test_every_loss_of_labels(loss):
    X, y = classes()
    assert SparseClassifier(loss, random_state=0).fit(X, y).score(*classes(seed=1)) > 0.8


@pytest.mark.parametrize("loss", ["squared", "huber", "quantile", "epsilon-insensitive"])
def test_every_loss_of_numbers(loss):
    X, _ = classes()
    y = 3.0 * X[:, 0] - X[:, 1] + 0.3 * np.random.default_rng(0).standard_normal(len(X)) + 10.0
    model = SparseRegressor(loss, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.97 and {0, 1} <= set(np.flatnonzero(model.coef_)) and model.n_selected_ < 20


def test_counts_and_several_outputs():
    X, _ = classes()
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.exp(0.5 * X[:, 0]))
    assert np.flatnonzero(SparseRegressor("poisson", random_state=0).fit(X, counts).coef_)[0] == 0
    Y = np.stack([X[:, 0], X[:, 1] - X[:, 2]], 1) + 0.1 * rng.standard_normal((len(X), 2))
    model = SparseRegressor(random_state=0).fit(X, Y)
    assert model.coef_.shape == (2, 40) and model.score(X, Y) > 0.95


def test_weights_of_rows_and_classes_count():
    X, y = classes()
    kept = np.arange(len(y)) % 3 > 0
    weighted = SparseClassifier(random_state=0).fit(X, y, sample_weight=kept.astype(float))
    alone = SparseClassifier(random_state=0).fit(X[kept], y[kept])
    assert np.array_equal(weighted.coef_, alone.coef_)
    rare = np.where(X[:, 0] - X[:, 1] + np.random.default_rng(1).standard_normal(len(y)) > 2.5, "spam", "ham")
    balanced = SparseClassifier(class_weight="balanced", random_state=0).fit(X, rare)
    plain = SparseClassifier(random_state=0).fit(X, rare)
    assert (balanced.predict(X) == "spam").mean() > 1.5 * (plain.predict(X) == "spam").mean() > 0.0


def test_noise_selects_nothing_and_says_so():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((1000, 20)), rng.integers(0, 2, 1000)
    with pytest.warns(UserWarning, match="no model was better than a constant"):
        model = SparseClassifier(random_state=0).fit(X, y)
    assert model.n_selected_ == 0


@pytest.mark.filterwarnings("default:alpha='auto'")
def test_few_rows_are_called_a_guess():
    X, y = classes(60)
    with pytest.warns(UserWarning, match="60 rows, which is a guess"):
        model = SparseClassifier(random_state=0).fit(X, y)
    assert model.n_selected_ > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SparseClassifier(alpha=0.1, random_state=0).fit(X, y)


def test_models_of_any_size_from_one_fit():
    X, y = words()
    model = SparseClassifier(random_state=0).fit(X, y)
    path = model.size_path_
    assert path["size"][0] == 1 and np.all(np.diff(path["size"]) > 0) and np.all(path["error"] > 0.0)
    for k in (1, 10, 25):
        small = model.at_size(k)
        assert 1 <= small.n_selected_ <= k
        assert small.predict(X).shape == y.shape
        with pytest.raises(ValueError, match="at_size"):
            small.partial_fit(X, y)
    assert model.at_size(10**6).n_selected_ == model.n_selected_
    assert model.partial_fit(X, y).n_selected_ > 0  # it goes on itself
    with pytest.raises(ValueError, match="k=0"):
        model.at_size(0)
    with pytest.raises(ValueError, match="automatic choice"):
        SparseClassifier(alpha=1e-4, random_state=0).fit(X, y).at_size(1)


@pytest.mark.parametrize("k", [1, 6, 30])
def test_a_budget_is_the_best_model_of_at_most_so_many_features(k):
    X, y = words()
    model = SparseClassifier(budget=k, random_state=0).fit(X, y)
    assert 1 <= model.n_selected_ <= k
    assert np.array_equal(SparseClassifier(budget=k, random_state=0).partial_fit(X, y).coef_, model.coef_)


def test_models_of_any_size_are_learned_when_they_are_first_asked_for(monkeypatch, tmp_path):
    X, y = words()
    calls, sized = [], Choose.sized
    monkeypatch.setattr(Choose, "sized", lambda self, runs: calls.append(1) or sized(self, runs))
    model = SparseClassifier(random_state=0).fit(X, y)
    model.predict(X[:5]), model.summary()
    assert not calls
    expected, spreads = model.size_path_, {line.name: line.effect for line in model.summary().lines}
    assert len(calls) == 1 and len(expected) > 5 and spreads
    again = SparseClassifier(random_state=0).fit(X, y)
    save(again, tmp_path / "a.model")  # these are learned before rows are left behind
    stored, pickled = load(tmp_path / "a.model"), pickle.loads(pickle.dumps(again))
    final = copy.deepcopy(again).finalize()
    assert len(calls) == 2
    assert all(np.array_equal(each.size_path_, expected) for each in (stored, pickled, final))
    assert {line.name: line.effect for line in pickled.summary().lines} == spreads
    again.partial_fit(X[:100], y[:100])
    assert again.size_path_["loss"].tolist() != expected["loss"].tolist() and len(calls) == 3


def test_rules_choose_fewer_or_more_features():
    X, y = words()
    sizes = [
        SparseClassifier(choose=rule, random_state=0).fit(X, y).n_selected_ for rule in ("1-se", "balanced", "min")
    ]
    assert sizes == sorted(sizes)


def test_the_summary_names_the_strongest_features():
    X, y = classes()
    X[:, 2] *= 1000.0
    model = SparseClassifier(random_state=0).fit(X, y)
    table = model.summary(3)
    assert {line.name for line in table.lines[:2]} == {"x0", "x1"}
    line = next(line for line in table.lines if line.name == "x2")
    assert line.effect == pytest.approx(line.weight * X[:, 2].std(), rel=1e-6) and line.share == 1.0
    assert "alpha=" in str(table) and "x0" in str(table) and "more" in str(table)
    assert "<table" in table._repr_html_()


def test_names_in_a_summary_are_escaped():
    pandas = pytest.importorskip("pandas")
    X, y = classes()
    frame = pandas.DataFrame(X).rename(columns=lambda k: f"<b>{k}</b>")
    table = SparseClassifier(random_state=0).fit(frame, y).summary()
    assert "<b>0</b>" in str(table) and "<b>0</b>" not in table._repr_html_() and "&lt;b&gt;0" in table._repr_html_()


def test_streams_of_single_examples():
    X, y = classes(300)
    model = SparseClassifier(random_state=0)
    for x, label in zip(X, y, strict=True):
        model.learn_one({f"f{j}": value for j, value in enumerate(x[:8])}, label)
    assert {line.name for line in model.summary().lines} >= {"f0", "f1"}
    assert model.at_size(2).n_selected_ <= 2
    assert model.predict_one({"f0": 5.0, "f1": -5.0}) == "spam"


def test_copies_pickles_and_files_predict_alike(tmp_path):
    X, y = words()
    model = SparseClassifier(random_state=0, storage="seen").fit(X, y)
    expected = model.predict_proba(X)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), load(save(model, tmp_path / "a.model"))):
        assert np.array_equal(twin.predict_proba(X), expected)
        assert (
            twin.alpha_ == model.alpha_
            and str(twin.summary(2)).splitlines()[0] == str(model.summary(2)).splitlines()[0]
        )
    stream = SparseClassifier(random_state=0).partial_fit(X[:500], y[:500])
    half = pickle.loads(pickle.dumps(stream))
    assert np.array_equal(half.partial_fit(X[500:], y[500:]).coef_, stream.partial_fit(X[500:], y[500:]).coef_)


def test_polishing_ends_at_the_optimum_of_what_was_chosen():
    X, y = classes()
    model = SparseClassifier(random_state=0, polish=True).fit(X, y)
    assert model.gap_ <= 1e-4 and not model.relaxed_
    plain = SparseClassifier(
        random_state=0, alpha=model.alpha_, l1_ratio=model.l1_ratio_, relaxed=False, standardize=True
    ).fit(X, y)
    np.testing.assert_allclose(plain.coef_, model.coef_, atol=0.06 * np.abs(model.coef_).max())


def test_bad_parameters_are_refused_in_one_sentence():
    X, y = classes(50)
    for given, part in (
        ({"standardize": "yes"}, "standardize='yes'"),
        ({"relaxed": 1}, "relaxed=1"),
        ({"choose": "best"}, "choose='best'"),
        ({"l1_ratio": "half"}, "l1_ratio='half'"),
        ({"standardize": True, "penalty": "nonnegative"}, "standardize=True is for penalty='elasticnet'"),
        ({"polish": True, "budget": 3}, "choose one of the two"),
    ):
        with pytest.raises(ValueError, match=part):
            SparseClassifier(**given).fit(X, y)


def test_a_stream_longer_than_the_sample_is_sampled_the_same_in_any_cut(monkeypatch):
    monkeypatch.setattr(Choose, "sample_nonzeros", 10_000)
    monkeypatch.setattr(pilot_rows, "WIDE_ROWS", 0)
    assert ROWS_IN_MEMORY > 10_000
    X, y = classes()
    one, two = SparseClassifier(random_state=0).partial_fit(X, y), SparseClassifier(random_state=0)
    for start in range(0, len(y), 333):
        two.partial_fit(X[start : start + 333], y[start : start + 333])
    assert np.array_equal(one.coef_, two.coef_)
    assert one.report_["converted"][0]["choice"]["rows"] < 260
    assert one.score(X, y) > 0.7


def test_few_rows_are_kept_whole_however_wide_they_are(monkeypatch):
    X, y = classes(300)
    whole = SparseClassifier(random_state=0).fit(X, y)
    monkeypatch.setattr(Choose, "sample_nonzeros", X.size // 4)
    model = SparseClassifier(random_state=0)
    for first in range(0, 300, 70):
        model.partial_fit(X[first : first + 70], y[first : first + 70], classes=np.unique(y))
    assert np.array_equal(model.coef_, whole.coef_)
    assert model.report_["converted"][0]["choice"]["rows"] == 300
