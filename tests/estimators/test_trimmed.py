"""Parameters, refusals and reports of streams whose features may leave."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sparsco import SparseClassifier, SparseRegressor, optimizers, penalties
from sparsco.engine import run as run_module
from sparsco.estimators import fit_state, trimmed


@pytest.fixture
def few_first_rows(monkeypatch):
    for module in (run_module, fit_state, trimmed):
        monkeypatch.setattr(module, "PILOT_ROWS", 20)


def words(n, late=None):
    """Yield examples with a word that decides the label and a word that never comes again; a third label comes late."""
    rng = np.random.default_rng(0)
    for t in range(n):
        label = int(rng.integers(0, 2 if late is None or t < late else 3))
        yield [f"label{label}", f"common{rng.integers(0, 5)}", f"new{t}"], "abc"[label]


@pytest.mark.parametrize("name", ["max_features", "trim"])
@pytest.mark.parametrize("value", [0, -1, 2.5, "many", True])
def test_bad_numbers_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}={value!r}: it must be None or a whole number"):
        SparseClassifier(**{name: value}).partial_fit([[1.0], [2.0]], [0, 1])


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"storage": "all"}, "storage='all' has room for every column"),
        ({"feature_weights": np.ones(2)}, "feature_weights has one value per column"),
        ({"penalty": penalties.GroupL1(0.1, groups=np.array([0, 0]))}, "one value per column"),
        ({"penalty": "trace"}, "TraceNorm ties features together|BatchFOBOS|BatchRDA"),
        ({"penalty": penalties.L1Ball(2.0)}, "ties features together"),
        ({"optimizer": "epoch-gd", "l1_ratio": 0.5, "alpha": 0.1}, "EpochGD has a state that ties features together"),
        ({"optimizer": "ssg", "alpha": 0.1}, "SSG has a state that ties features together"),
        ({"conversion": "ocmdi", "optimizer": "fobos"}, "OCMDI keeps what it knows by feature"),
    ],
    ids=lambda each: str(next(iter(each))) if isinstance(each, dict) else "",
)
def test_what_needs_all_features_is_refused(parameters, sentence):
    model = SparseClassifier(max_features=10, **parameters)
    with pytest.raises(ValueError, match=f"let features leave, but .*({sentence})"):
        model.partial_fit(np.array([[1.0, 0.0], [0.0, 2.0]]), [0, 1])
    assert not model.fit_state.is_fitted


def test_fit_and_matrices_of_names_are_refused():
    X, y = np.array([[1.0, 0.0], [0.0, 2.0]]), [0, 1]
    with pytest.raises(ValueError, match="max_features and trim are for streams.*fit has all rows at once"):
        SparseClassifier(trim=5).fit(X, y)
    with pytest.raises(ValueError, match="polish"):
        SparseClassifier(trim=5, polish=True).partial_fit(X, y)
    named = SparseClassifier(max_features=5, alpha=0.1).learn_one({"a": 1.0}, 0).learn_one({"b": 1.0}, 1)
    with pytest.raises(ValueError, match="use learn_one"):
        named.partial_fit(X, y)
    with pytest.raises(ValueError, match="max_features changed since this stream began"):
        named.set_params(max_features=9).learn_one({"a": 1.0}, 0).partial_fit(X, y)


def test_parameters_of_a_stream_are_those_of_a_clone():
    model = SparseRegressor(max_features=7, trim=3)
    assert clone(model).get_params() == model.get_params() and model.get_params()["trim"] == 3
    model.partial_fit(sp.csr_array(np.eye(3)), [1.0, 2.0, 3.0])
    assert sp.issparse(model.coef_) and model.predict(np.eye(3)).shape == (3,)


def test_a_bound_that_is_too_small_warns_once(few_first_rows):
    rng = np.random.default_rng(0)
    model = SparseClassifier(max_features=8, alpha=1e-4, random_state=0)
    for _ in range(400):
        k = int(rng.integers(0, 30))
        model.learn_one([f"w{k}"], int(k < 15))
    with pytest.warns(UserWarning, match="max_features=8 has no room for all features that have a weight"):
        model.convert()
    figures = model.report_["trimmed"]
    assert figures["selected_left"] > 0 and figures["in_use"] <= 8 and figures["left"] > 20
    for _ in range(50):
        model.learn_one([f"w{rng.integers(0, 30)}"], 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.convert()
    assert len([each for each in model.report_["warnings"] if "max_features" in each]) == 1


def test_long_examples_and_empty_ones(few_first_rows):
    """An example may have more features than there is room for; one without features is an example."""
    model = SparseClassifier(max_features=4, trim=30, alpha=1e-3, random_state=0)
    for t in range(60):
        model.learn_one({}, t % 2)
        model.learn_one({f"w{t}-{k}": 1.0 for k in range(10 if t == 40 else 2)}, t % 2)
        assert len(model.fit_state.features) <= (1000 if t < 20 else 10)
    assert len(model.feature_names_) <= 4 and model.t_ == 120
    assert model.predict_one({"unknown": 1.0}) in (0, 1)
    model.convert()
    assert model.report_["trimmed"]["left"] == 128 - len(model.feature_names_)


def test_classes_that_come_late_in_any_cut(few_first_rows):
    """A class may come after features have left, and rows of several classes be cut at a boundary."""
    models = []
    for look in (1000, 7):
        model = SparseClassifier(max_features=30, alpha=1e-3, class_weight="balanced", random_state=0)
        for k, (x, y) in enumerate(words(300, late=150)):
            model.learn_one(x, y)
            if k % look == look - 1:
                _ = model.predict_one(x)
        models.append(model)
    one, other = models
    assert one.classes_.tolist() == ["a", "b", "c"] and one.coef_.shape[0] == 3
    assert np.array_equal(one.coef_, other.coef_) and one.feature_names_.tolist() == other.feature_names_.tolist()
    assert [one.predict_one([f"label{k}"]) for k in range(3)] == ["a", "b", "c"]
    small = pickle.loads(pickle.dumps(one)).finalize()
    assert len(small.feature_names_) == one.n_selected_ and small.predict_one(["label2"]) == "c"


def test_many_outputs_and_runs(few_first_rows):
    """Columns of y, and more classes than one run has lanes for."""
    rng = np.random.default_rng(0)
    X = sp.random_array((200, 10**6), density=3e-6, format="csr", rng=rng) + sp.csr_array(
        (np.ones(200), (np.arange(200), np.arange(200) % 4)), shape=(200, 10**6)
    )
    Y = np.c_[np.arange(200) % 4 == 0, np.arange(200) % 4 == 1].astype(float)
    parts = [SparseRegressor(max_features=40, alpha=1e-3, random_state=0) for _ in range(2)]
    parts[0].partial_fit(X, Y)
    for a in range(0, 200, 33):
        parts[1].partial_fit(X[a : a + 33], Y[a : a + 33])
    a, b = (each.coef_ for each in parts)
    assert a.shape == (2, 10**6) and (a != b).nnz == 0
    classes = SparseClassifier(max_features=60, alpha=1e-3, optimizer="nftrl", random_state=0, n_jobs=2)
    y = np.arange(200) % 40
    classes.partial_fit(X, y, classes=np.arange(40))
    assert len(classes.fit_state.runs) > 1 and len(classes.fit_state.features) <= 60
    classes.convert()
    assert classes.report_["trimmed"]["left"] > 300


def test_an_error_in_a_row_leaves_the_stream_as_it_was(few_first_rows):
    X = sp.csr_array(np.eye(100))
    y = np.arange(100) % 2
    whole, tried = (SparseClassifier(max_features=10, alpha=1e-3, random_state=0) for _ in range(2))
    whole.partial_fit(X[:10], y[:10], classes=[0, 1]).partial_fit(X[10:], y[10:])
    tried.partial_fit(X[:10], y[:10], classes=[0, 1])
    for wrong in (np.full(90, 7), y[10:80]):
        with pytest.raises(ValueError):
            tried.partial_fit(X[10:], wrong)
    bad = X[10:].copy()
    bad.data[-1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        tried.partial_fit(bad, y[10:])
    tried.partial_fit(X[10:], y[10:])
    assert (whole.coef_ != tried.coef_).nnz == 0
    whole.convert(), tried.convert()
    assert whole.report_["trimmed"] == tried.report_["trimmed"]


def test_every_optimizer_says_whether_features_may_leave():
    found = {name: kind.can_forget_features for name, kind in optimizers.OPTIMIZERS.items()}
    assert sorted(name for name, can in found.items() if can) == [
        "adagrad-fobos", "adagrad-rda", "fobos", "ftrl", "nftrl", "rda", "truncated-gradient",
    ]  # fmt: skip


def test_an_error_behind_queued_examples_learns_them_once():
    """A failed ``partial_fit`` learns what ``learn_one`` had queued, and nothing else."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1100, 3))
    y = (X[:, 0] > 0.0).astype(int)
    for bound in (None, 10):
        model = SparseClassifier(alpha=0.01, random_state=0, max_features=bound).partial_fit(X, y)
        for k in range(5):
            model.learn_one((np.arange(3), X[k]), int(y[k]))
        with pytest.raises(ValueError, match="expecting 3 features"):
            model.partial_fit(X[:, :2], y)
        whole = SparseClassifier(alpha=0.01, random_state=0).partial_fit(np.r_[X, X[:5]], np.r_[y, y[:5]])
        assert model.t_ == 1105 and np.array_equal(model.convert().coef.toarray(), whole.convert().coef.toarray())


def test_the_bound_holds_from_the_end_of_the_first_examples_on():
    """Also if all features come within the first 1000 examples, and none later."""
    rng = np.random.default_rng(0)
    model = SparseClassifier(max_features=30, alpha=1e-3, random_state=0)
    for k in range(1000):
        assert k % 250 or k == 0 or len(model.feature_names_) == 41
        x = [f"v{k}"] if k < 40 else [f"v{rng.integers(10, 40)}"]
        model.learn_one([*x, "often"], k % 2)
    assert len(model.feature_names_) == 30 and "often" in model.feature_names_ and "v5" not in model.feature_names_
    model.convert()
    assert model.report_["trimmed"] | {"selected_left": 0} == {
        "in_use": 30, "left": 11, "selected_left": 0, "times": 1, "first_at": 1000, "last_at": 1000,
    }  # fmt: skip


def test_times_that_go_back_leave_the_stream_as_it_was(few_first_rows):
    """Also where features would have left, and rows been learned, before the row in question."""
    X, y, times = sp.csr_array(np.eye(100)), np.arange(100) % 2, np.arange(100.0)
    parameters = {"max_features": 10, "alpha": 1e-3, "half_life": 30.0, "random_state": 0}
    whole, tried = (SparseClassifier(**parameters) for _ in range(2))
    whole.partial_fit(X, y, time=times)
    tried.partial_fit(X[:30], y[:30], time=times[:30])
    back = times[30:].copy()
    back[60] = 5.0
    for wrong in (back, None, times[31:], times[30:] - 20.0):
        with pytest.raises(ValueError, match="time"):
            tried.partial_fit(X[30:], y[30:], time=wrong)
    tried.partial_fit(X[30:], y[30:], time=times[30:])
    assert (whole.coef_ != tried.coef_).nnz == 0 and whole.coef_.nnz > 0
    whole.convert(), tried.convert()
    assert whole.report_["trimmed"] == tried.report_["trimmed"] and whole.report_["half_life"] == 30.0
