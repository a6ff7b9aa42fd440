"""Intervals of fitted models: which features and rows they are of, how long they last, and what is refused."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from sparsco import SparseClassifier, SparseRegressor
from sparsco.conversions import AverageSL
from sparsco.conversions.choose import Choose
from sparsco.inference.halves import is_first_half

N, D = 900, 12


def numbers(n=N, d=D, seed=0):
    """Return rows and targets that depend on two of the columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, 1] - 2.0 * X[:, 4] + rng.normal(size=n)


def labels(n=N, d=D, seed=0):
    """Return rows and labels that depend on two of the columns."""
    X, y = numbers(n, d, seed)
    return X, np.where(y + np.random.default_rng(seed + 1).logistic(size=n) > 0.0, "spam", "ham")


def least_squares(X, y):
    Z = np.column_stack([X, np.ones(len(X))])
    return np.linalg.lstsq(Z, y, rcond=None)[0][:-1]


def assert_same(one, other):
    for field in one.dtype.names:
        np.testing.assert_array_equal(one[field], other[field])


# ---- what they are of ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"alpha": 0.1}, {"alpha": 0.1, "polish": True}], ids=str)
def test_estimates_are_the_weights_without_a_penalty(settings):
    X, y = numbers()
    found = SparseRegressor(random_state=0, **settings).fit(X, y).intervals()
    columns = [int(name[1:]) for name in found["feature"]]
    assert {1, 4} <= set(columns)
    np.testing.assert_allclose(found["estimate"], least_squares(X[:, columns], y), rtol=1e-6)
    assert (found["low"] < found["estimate"]).all() and (found["estimate"] < found["high"]).all()
    np.testing.assert_allclose(found["high"] - found["estimate"], 1.97 * found["error"], rtol=0.02)


def test_a_classifier_has_them_for_its_positive_label():
    X, y = labels()
    model = SparseClassifier(alpha=0.1, random_state=0).fit(sp.csr_matrix(X), y)
    found = model.intervals()
    theirs = LogisticRegression(C=np.inf, tol=1e-8).fit(X[:, model.get_support()], y)
    np.testing.assert_allclose(found["estimate"], theirs.coef_[0], atol=1e-4)
    assert set(found["output"]) == {"spam"}


def test_classes_and_outputs_each_have_their_own():
    X, y = numbers()
    classes = np.digitize(y, [-1.5, 1.5])
    found = SparseClassifier(alpha=0.05, random_state=0).fit(X, classes).intervals(also=range(D))
    for k in range(3):
        theirs = LogisticRegression(C=np.inf, tol=1e-8).fit(X, classes == k)
        np.testing.assert_allclose(found["estimate"][found["output"] == str(k)], theirs.coef_[0], atol=1e-3)
    Y = np.column_stack([y, X[:, 3] + y])
    found = SparseRegressor(alpha=0.2, random_state=0).fit(X, Y).intervals()
    assert found["feature"][found["output"] == "output 1"].tolist() == ["x1", "x3", "x4"]
    second = found[found["output"] == "output 1"]["estimate"]
    np.testing.assert_allclose(second, least_squares(X[:, [1, 3, 4]], Y[:, 1]), rtol=1e-6)


def test_a_stream_that_finds_two_classes_has_one_output():
    X, y = labels()
    found = SparseClassifier(alpha=0.1, random_state=0).partial_fit(X, y).intervals(also=[1, 4])
    theirs = LogisticRegression(C=np.inf, tol=1e-8).fit(X[:, [1, 4]], y)
    assert found["feature"].tolist() == ["x1", "x4"] and set(found["output"]) == {"spam"}
    np.testing.assert_allclose(found["estimate"], theirs.coef_[0], atol=1e-4)
    softmax = SparseClassifier(alpha=0.1, loss="multinomial", random_state=0).partial_fit(X, y).intervals(also=[1, 4])
    np.testing.assert_allclose(softmax["estimate"], theirs.coef_[0], atol=1e-4)


def test_features_are_named_by_name_or_column():
    X, y = numbers()
    names = [f"column {k}" for k in range(D)]
    model = SparseRegressor(alpha=0.3, random_state=0).fit(pd.DataFrame(X, columns=names), y)
    found = model.intervals(also=["column 7", 9])
    assert found["feature"].tolist() == ["column 1", "column 4", "column 7", "column 9"]
    np.testing.assert_allclose(found["estimate"], least_squares(X[:, [1, 4, 7, 9]], y), rtol=1e-6)
    stream = SparseRegressor(random_state=0)
    for row, target in zip(X, y, strict=True):
        stream.learn_one(dict(zip(names, row.tolist(), strict=True)), target)
    assert {"column 7", "column 9"} <= set(stream.intervals(also=["column 7", "column 9"])["feature"])
    seen = SparseRegressor(alpha=0.3, storage="seen", random_state=0).fit(sp.csr_matrix(X), y)
    assert_same(seen.intervals(also=["x7"]), SparseRegressor(alpha=0.3, random_state=0).fit(X, y).intervals(also=[7]))
    for each, unknown in ((model, "x7"), (model, 99), (model, 2.5), (stream, "x7"), (seen, -1)):
        with pytest.raises(ValueError, match="also: this model has no"):
            each.intervals(also=[unknown])


def test_features_of_a_table_are_named_as_its_summary_names_them():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.normal(size=400), "kind": rng.choice(list("ab"), 400)})
    model = SparseClassifier(random_state=0, alpha=0.5, conversion="average-sl")
    model.fit(table, table["size"] + rng.logistic(size=400) > 0.0)
    assert model.intervals(also=["kind=b", "size"])["feature"].tolist() == ["size", "kind=b"]
    with pytest.raises(ValueError, match="no column 'kind'"):
        model.intervals(also=["kind"])


def test_rows_of_weight_zero_do_not_count():
    X, y = numbers()
    weights = (np.arange(N) % 3 != 0) * np.linspace(1.0, 2.0, N)
    some = weights > 0.0
    found = SparseRegressor(alpha=0.2, random_state=0).fit(X, y, weights).intervals(also=[1, 4])
    fewer = SparseRegressor(alpha=0.2, random_state=0).fit(X[some], y[some], weights[some]).intervals(also=[1, 4])
    np.testing.assert_allclose(found["estimate"], fewer["estimate"], rtol=1e-9)
    np.testing.assert_allclose(found["error"], fewer["error"], rtol=1e-9)


# ---- halves ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"alpha": 0.1}], ids=str)
def test_with_split_selection_and_intervals_come_from_different_rows(settings):
    X, y = numbers()
    model = SparseRegressor(random_state=0, shuffle=False, max_iter=1, **settings).fit(X, y)
    first = is_first_half(model.fit_state.runs[0].seed, np.arange(N))
    assert abs(first.mean() - 0.5) < 0.05
    found = model.intervals(split=True)
    columns = [int(name[1:]) for name in found["feature"]]
    np.testing.assert_allclose(found["estimate"], least_squares(X[~first][:, columns], y[~first]), rtol=1e-6)
    other = np.where(first, y, 5.0 * X[:, 8])  # what the other half says does not select
    again = SparseRegressor(random_state=0, shuffle=False, max_iter=1, **settings).fit(X, other)
    assert "x8" in again.intervals()["feature"]
    assert again.intervals(split=True)["feature"].tolist() == found["feature"].tolist()


def test_the_summary_says_which_rows_were_used():
    X, y = labels()
    model = SparseClassifier(random_state=0).fit(X, y)
    text = str(model.summary(intervals=0.9))
    assert "unpenalised  std error" in text and "90% interval" in text and "from 900 rows; conditional on" in text
    assert "the features were selected on other rows" in str(model.summary(intervals=0.95, split=True))
    assert "interval" not in str(model.summary())
    line = model.summary(intervals=0.95, also=["x7"]).lines[-1]
    assert (line.name, line.weight) == ("x7", 0.0) and line.low < line.estimate < line.high and line.share == 1.0
    assert "<p>95% intervals" in model.summary(intervals=0.95)._repr_html_()


def test_coverage_with_split():
    """Features are selected and estimated anew each time; what is selected by mistake has the weight 0."""
    weights, held = np.zeros(D), []
    weights[[1, 4]] = 1.0, -2.0
    for seed in range(100):
        X, y = numbers(200, D, seed)
        found = SparseRegressor(alpha=0.15, random_state=seed).fit(X, y).intervals(split=True)
        truth = weights[[int(name[1:]) for name in found["feature"]]]
        held.append(((found["low"] <= truth) & (truth <= found["high"])).mean())
    assert abs(np.mean(held) - 0.95) < 3.0 * np.std(held) / np.sqrt(len(held))


# ---- streams ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("settings", [{}, {"alpha": 0.1}], ids=str)
def test_chunks_make_no_difference(settings, split):
    X, y = numbers(2500)
    whole = SparseRegressor(random_state=0, **settings).partial_fit(X, y)
    pieces = SparseRegressor(random_state=0, **settings)
    for rows in np.split(np.arange(2500), [300, 700, 1001, 2000]):
        pieces.partial_fit(X[rows], y[rows])
        pieces.intervals(also=[1], split=split)
    assert_same(whole.intervals(split=split), pieces.intervals(split=split))


@pytest.fixture
def small_samples(monkeypatch):
    monkeypatch.setattr(AverageSL, "sample_nonzeros", 5000)


def test_a_long_stream_adds_the_rows_that_its_sample_does_not_hold(small_samples):
    X, y = numbers(8000, 10)
    model = SparseRegressor(alpha=0.1, random_state=0).partial_fit(X, y)
    assert "from 7,744 of 8,000 rows (second derivatives from 500 of them)" in str(model.summary(intervals=0.95))
    found, run = model.intervals(also=[1, 4]), model.fit_state.runs[0]
    rows, means = run.sample().R, run.means()
    Z = np.column_stack([rows.data.reshape(500, 10)[:, [1, 4]], np.ones(500)])
    moved = rows.data.reshape(500, 10) @ means.w[:, 0] + means.b[0]
    g = np.append(means.g[[1, 4], 0], means.gb[0])
    H = Z.T @ Z / 500.0
    theta = np.linalg.solve(
        H, Z.T @ moved / 500.0 - g
    )  # the gradient of the stream, moved from its model by the sample
    np.testing.assert_allclose(found["estimate"], theta[:2], rtol=1e-6)
    alone = SparseRegressor(alpha=0.3, random_state=0).fit(X[:500], y[:500]).intervals(also=[1, 4])
    assert (found["error"] < 0.4 * alone["error"]).all()


def test_a_second_pass_adds_nothing_to_the_sample(small_samples):
    X, y = numbers(8000, 10)
    model = SparseRegressor(alpha=0.1, max_iter=2, tol=None, random_state=0).fit(X, y)
    assert "from 500 of 8,000 rows; conditional" in str(model.summary(intervals=0.95))


def test_an_automatic_choice_beyond_its_sample_has_those_of_the_sample(monkeypatch):
    monkeypatch.setattr(Choose, "sample_nonzeros", 10_000)
    X, y = numbers(4000, 10)
    model = SparseRegressor(random_state=0).partial_fit(X, y)
    assert model.fit_state.long is not None
    assert "from 1,000 of 3,907 rows; conditional" in str(model.summary(intervals=0.95))
    columns = [int(name[1:]) for name in model.intervals()["feature"]]
    rows = model.fit_state.runs[0].sample().R.numbers
    assert len(rows) == 1000 and {1, 4} <= set(columns)


def test_steps_of_a_rule_leave_the_sample_alone(small_samples):
    """Iterates of FOBOS are far apart: their gradients are those at their mean for squared loss only."""
    X, y = numbers(8000, 10)
    squared = SparseRegressor(alpha=0.1, optimizer="fobos", random_state=0).partial_fit(X, y)
    logistic = SparseClassifier(alpha=0.05, optimizer="fobos", random_state=0).partial_fit(X, y > 0.0)
    assert "from 7,744 of 8,000 rows (second" in str(squared.summary(intervals=0.95))
    assert "from 500 of 8,000 rows; conditional" in str(logistic.summary(intervals=0.95))


@pytest.mark.parametrize("kind", [SparseRegressor, SparseClassifier])
def test_coverage_of_a_long_stream(small_samples, kind):
    weights, held = np.array([1.0, -2.0, 0.0]), []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(6000, 8))
        p = X[:, 1] - 2.0 * X[:, 4]
        if kind is SparseRegressor:
            model = kind(alpha=0.1, random_state=seed).partial_fit(X, p + rng.normal(size=6000))
        else:
            y = (p + rng.logistic(size=6000) > 0.0).astype(int)
            model = kind(alpha=0.02, random_state=seed).partial_fit(X, y, classes=[0, 1])
        found = model.intervals(also=[1, 4, 6])
        found = found[np.isin(found["feature"], ["x1", "x4", "x6"])]
        held.append(((found["low"] <= weights) & (weights <= found["high"])).mean())
    assert abs(np.mean(held) - 0.94) < 0.04


# ---- how long they last ----------------------------------------------------------------------------------------------


def test_they_are_kept_without_the_rows():
    X, y = numbers()
    model = SparseRegressor(alpha=0.2, random_state=0).fit(X, y)
    found = model.intervals(0.9, also=[7])
    copy = pickle.loads(pickle.dumps(model))
    assert_same(copy.intervals(0.9, also=[7]), found)
    assert_same(model.finalize().intervals(0.9), found)
    wide = model.intervals(0.99)
    assert (wide["low"] < found["low"]).all() and (wide["high"] > found["high"]).all()
    for settings in ({"split": True}, {"also": [8]}):
        with pytest.raises(ValueError, match="its intervals are of another kind"):
            copy.intervals(**settings)


def test_names_and_seen_columns_keep_theirs():
    X, y = numbers()
    stream = SparseRegressor(random_state=0)
    for row, target in zip(X, y, strict=True):
        stream.learn_one({f"f{k}": value for k, value in enumerate(row.tolist())}, target)
    seen = SparseRegressor(alpha=0.3, storage="seen", random_state=0).fit(sp.csr_matrix(X), y)
    for model, also in ((stream, "f9"), (seen, 9)):
        found = model.intervals(also=[also])
        assert found["feature"][-1].endswith("9") and len(found) >= 3
        assert_same(model.finalize().intervals(), found)


def test_a_model_that_learns_on_gets_new_ones():
    X, y = numbers()
    model = SparseRegressor(alpha=0.2, random_state=0).partial_fit(X[:500], y[:500])
    before = model.intervals()
    after = model.partial_fit(X[500:], y[500:]).intervals()
    assert (after["error"] < before["error"]).all() and "from 900 rows" in str(model.summary(intervals=0.95))


def test_without_rows_and_intervals_there_are_none():
    X, y = numbers()
    model = SparseRegressor(random_state=0).fit(X, y)
    small = model.at_size(1)
    model.intervals()
    for other in (small, model.at_size(1), model.with_weights(model.coef_, model.intercept_)):
        with pytest.raises(ValueError, match="no intervals, and no rows to compute them from"):
            other.intervals()


# ---- what is refused -------------------------------------------------------------------------------------------------


def refused(kind, message, settings=None, fit=None, y=None, **asked):
    X = numbers()[0]
    y = (numbers()[1] if kind is SparseRegressor else labels()[1]) if y is None else y
    settings = {"alpha": 0.1} if settings is None else settings
    model = kind(random_state=0, **settings).fit(X, y, **(fit or {}))
    with pytest.raises(ValueError, match=message):
        model.summary(**({"intervals": 0.95} | asked))


def test_what_has_no_intervals_is_refused():
    refused(SparseClassifier, "second derivatives, and Hinge has none", {"loss": "hinge", "alpha": 0.1})
    refused(SparseRegressor, "second derivatives, and Quantile has none", {"loss": "quantile"})
    classes = np.arange(N) % 3
    refused(SparseClassifier, "softmax of more than two", {"loss": "multinomial", "alpha": 0.1}, y=classes)
    refused(SparseRegressor, "assume independent rows", {}, fit={"groups": np.arange(N) // 3})
    refused(SparseRegressor, "Last keeps no sample", {"alpha": 0.1, "conversion": "last"})
    for level in (0.0, 1.0, 95, "0.95", True):
        refused(SparseRegressor, "a number between 0 and 1", intervals=level)
    for also in ("x1", 1):
        refused(SparseRegressor, "a list of names or of column numbers", also=also)
    refused(SparseRegressor, "this model has NonNegative", {"penalty": "nonnegative", "alpha": 0.1}, split=True)
    refused(SparseRegressor, "this model has Sparsify", {"alpha": 0.1, "optimizer": "nftrl", "budget": 2}, split=True)


def test_too_few_rows_are_refused():
    X, y = numbers(50, 40)
    model = SparseRegressor(alpha=1e-4, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"intervals for \d+ features need at least \d+ rows, and there are 50"):
        model.intervals()


def test_a_model_without_features_has_none():
    X, y = numbers()
    with pytest.warns(UserWarning, match="no feature was selected"):
        model = SparseRegressor(alpha=100.0, random_state=0).fit(X, y)
    assert str(model.summary(intervals=0.95)).endswith(
        "There are no intervals, since no feature was selected or named."
    )
    assert len(model.intervals()) == 0 and len(model.intervals(also=[1])) == 1


def test_weights_that_are_not_decided_are_named():
    X, y = numbers()
    X[:, 9] = 3.0 * X[:, 4]
    model = SparseRegressor(alpha=0.2, random_state=0).fit(X, y)
    found = model.summary(intervals=0.95, also=[4, 9])
    assert "No interval for x4, x9: among these rows" in str(found)
    assert {line.name for line in found.lines if np.isnan(line.error)} == {"x4", "x9"}
    assert np.isfinite(next(line.error for line in found.lines if line.name == "x1"))
