"""The scikit-learn estimators: scikit-learn's own checks, streams cut anywhere, what users do with a model."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectorMixin
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsco import (
    DivergenceError,
    SparseClassifier,
    SparseClassifierCV,
    SparsePath,
    SparseRegressor,
    StableSparseClassifier,
)
from sparsco.conversions import AverageSL, LastSL, OptimalSL, Threshold, TopK
from sparsco.data.rows import as_matrix
from sparsco.jit.dispatch import plain_python
from sparsco.steps import Constant
from support import number_of_streams, reference

pytestmark = pytest.mark.filterwarnings("ignore:no feature was selected:UserWarning")

# ---- scikit-learn's checks ------------------------------------------------------------------------------------------

STOCHASTIC = "a row of weight two is one step of twice the size, a row given twice is two steps: not the same iterates"


def expected_failures(estimator):
    return {
        "check_sample_weight_equivalence_on_dense_data": STOCHASTIC,
        "check_sample_weight_equivalence_on_sparse_data": STOCHASTIC,
    }


@parametrize_with_checks([SparseClassifier(), SparseRegressor()], expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# ---- any cut of a stream is the same stream --------------------------------------------------------------------------

ONE_PASS = {"max_iter": 1, "shuffle": False, "tol": None, "early_stopping": False, "random_state": 3, "alpha": 0.01}
COMPILED = [
    ("nftrl", "average-sl", 1.0),
    ("nftrl", "random", 1.0),
    ("fobos", "suffix", 0.5),
    ("fobos", OptimalSL(L=3.0), 1.0),
    ("fobos", LastSL(L=3.0), 1.0),
    ("sgd", "last", 0.5),
    ("rda", "average", 1.0),
    ("ftrl", "last", 1.0),
    ("orda", "average-sl", 0.5),
]
PLAIN = [
    (conversion, l1_ratio)
    for l1_ratio in (1.0, 0.5)
    for conversion in (
        "last",
        "average",
        "weighted",
        "suffix",
        "random",
        OptimalSL(L=3.0),
        LastSL(metric="diagonal"),
        AverageSL(metric="diagonal"),
    )
] + [(Threshold(0.01), 1.0), (TopK(2), 1.0)]


def rows(n, d=8, classes=2, seed=0):
    """Half-empty rows whose labels depend on the first features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    y = rng.integers(0, classes, size=n)
    X[np.arange(n), y] += 1.0
    return X, y


def in_pieces(model, X, y, cuts, look=False, **more):
    """partial_fit on the pieces between cuts; ``look`` reads the model after each, which must change nothing."""
    edges = sorted({0, *(cut for cut in cuts if cut < len(y)), len(y)})
    if isinstance(model, SparseClassifier):
        more["classes"] = np.unique(y)
    for a, b in zip(edges, edges[1:], strict=False):
        own = {k: v[a:b] if k == "sample_weight" else v for k, v in more.items()}
        model.partial_fit(X[a:b], y[a:b], **own)
        if look:
            model.coef_  # noqa: B018
    return model


def assert_same_model(one, other):
    """Bit for bit."""
    assert np.array_equal(one.coef_, other.coef_)
    assert np.array_equal(one.intercept_, other.intercept_)
    assert one.t_ == other.t_
    assert one.history_ == other.history_


@st.composite
def cut_streams(draw):
    n = draw(st.sampled_from([2, 63, 64, 65, 500, 999, 1000, 1001, 1023, 1024, 1025, 1500]) | st.integers(2, 2200))
    cuts = draw(st.lists(st.integers(0, n), max_size=6))
    one_by_one = draw(st.integers(0, n))  # from here on 20 rows alone
    return n, cuts + list(range(one_by_one, min(n, one_by_one + 20)))


@pytest.mark.parametrize("case", COMPILED, ids=lambda c: f"{c[0]}-{type(c[1]).__name__ if c[1:] else c}-{c[2]}")
@given(stream=cut_streams(), seed=st.integers(0, 99), weighted=st.booleans(), look=st.booleans())
@example(stream=(1100, list(range(1100))), seed=0, weighted=False, look=False)
@settings(max_examples=number_of_streams(6), deadline=None, suppress_health_check=list(HealthCheck))
def test_partial_fit_in_any_cut_is_fit(case, stream, seed, weighted, look):
    optimizer, conversion, l1_ratio = case
    n, cuts = stream
    X, y = rows(n, seed=seed)
    y[:2] = 0, 1
    weight = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 3.0], size=n) if weighted else None
    if weighted:
        weight[:2] = 1.0
    make = SparseClassifier(optimizer=optimizer, conversion=conversion, l1_ratio=l1_ratio, **ONE_PASS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = clone(make).fit(sp.csr_array(X), y, sample_weight=weight)
        more = {"sample_weight": weight} if weighted else {}
        pieces = in_pieces(clone(make), sp.csr_array(X), y, joined(cuts, weight), look=look, **more)
        assert_same_model(whole, pieces)


def joined(cuts, weight):
    """The cuts that leave weight on both sides: a piece without any is refused."""
    if weight is None:
        return cuts
    kept = [0]
    for cut in sorted(cuts):
        if weight[kept[-1] : cut].any() and weight[cut:].any():
            kept.append(cut)
    return kept


@pytest.mark.parametrize(
    "optimizer", ["sgd", "fobos", "rda", "ftrl", "nftrl", "orda", "ssg", "batch-fobos", "batch-rda"]
)
def test_partial_fit_in_pieces_is_fit_for_every_pair(optimizer, monkeypatch):
    """With a pilot of 100 rows in place of 1000: plain Python takes its time."""
    monkeypatch.setattr("sparsco.engine.run.PILOT_ROWS", 100)
    X, y = rows(170, d=3)
    for conversion, l1_ratio in PLAIN:
        make = SparseClassifier(optimizer=optimizer, conversion=conversion, l1_ratio=l1_ratio, **ONE_PASS)
        with plain_python(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_same_model(clone(make).fit(X, y), in_pieces(clone(make), X, y, [3, 64, 99, 164, 165]))


@pytest.mark.parametrize("case", [COMPILED[0], COMPILED[2]], ids=["nftrl-average-sl", "fobos-suffix"])
def test_a_long_stream_in_pieces(case):
    """Beyond every buffer: the kernels' chunks, the slices of fit, the settling of sums."""
    optimizer, conversion, l1_ratio = case
    X, y = rows(70_000)
    make = SparseClassifier(optimizer=optimizer, conversion=conversion, l1_ratio=l1_ratio, **ONE_PASS)
    cuts = [1500, 16_384, 17_000, 32_769, 33_000, 65_535, 65_540]
    assert_same_model(clone(make).fit(X, y), in_pieces(clone(make), X, y, cuts))


@pytest.mark.parametrize("n", [300, 1300])
def test_partial_fit_with_several_classes_and_weights(n):
    X, y = rows(n, classes=3)
    labels = np.array(["ant", "bee", "cat"])[y]
    weight = np.random.default_rng(1).random(n)
    make = SparseClassifier(class_weight={"bee": 2.0, "ant": 0.5}, **ONE_PASS)
    whole = clone(make).fit(X, labels, sample_weight=weight)
    assert_same_model(whole, in_pieces(clone(make), X, labels, [1, 10, 998, 1200], sample_weight=weight))


@pytest.mark.parametrize("n", [300, 1300])
def test_partial_fit_of_a_regression(n):
    X, _ = rows(n)
    y = 5.0 + X @ np.arange(8)
    make = SparseRegressor(**ONE_PASS)
    assert_same_model(clone(make).fit(X, y), in_pieces(clone(make), X, y, [1, 10, 998, 1200]))


def forms(X):
    """The same rows in every accepted form."""
    csr = sp.csr_array(X)
    wide = csr.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    stored_zero = sp.csr_array(np.where(X == 0.0, 7.0, X))
    stored_zero.data[stored_zero.data == 7.0] = 0.0
    backwards = csr.copy()
    for i in range(len(X)):
        part = slice(*backwards.indptr[i : i + 2])
        backwards.indices[part], backwards.data[part] = backwards.indices[part][::-1], backwards.data[part][::-1]
    backwards.has_sorted_indices = False
    half = csr.copy()
    half.data = half.data / 2.0
    doubled = sp.csr_array((np.repeat(half.data, 2), np.repeat(half.indices, 2), 2 * half.indptr), shape=X.shape)
    frozen = X.copy()
    frozen.flags.writeable = False
    return {
        "csr_array": csr,
        "csr_matrix": sp.csr_matrix(X),
        "int64": wide,
        "csc": sp.csc_array(X),
        "coo": sp.coo_array(X),
        "stored zeros": stored_zero,
        "unsorted": backwards,
        "duplicates": doubled,
        "fortran": np.asfortranarray(X),
        "read-only": frozen,
        "list": X.tolist(),
    }


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_form_of_the_rows_does_not_matter(dtype):
    X, y = rows(1200)
    X = X.astype(dtype)
    expected = SparseClassifier(**ONE_PASS).fit(X, y)
    assert expected.n_nonzero_ > 0
    for name, same in forms(X).items():
        before = copy.deepcopy(same)
        if name == "duplicates" and dtype is np.float32:
            before.data, same.data = before.data.astype(dtype), same.data.astype(dtype)
        found = SparseClassifier(**ONE_PASS).fit(same, y)
        rounding = 1e-12 if name == "unsorted" else 0.0  # sums in another order
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=0.0, atol=rounding, err_msg=name)
        np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=0.0, atol=rounding, err_msg=name)
        assert np.array_equal(found.coef_ != 0.0, expected.coef_ != 0.0), name
        if name != "list":  # the caller's own arrays stay as they were
            kept = ("data", "indices", "indptr") if hasattr(same, "indptr") else ("data",)
            assert all(np.array_equal(getattr(before, part), getattr(same, part)) for part in kept), name
    if dtype is np.float32:  # numbers that are float32 anyway: the wider type changes nothing
        assert np.array_equal(SparseClassifier(**ONE_PASS).fit(X.astype(np.float64), y).coef_, expected.coef_)


@st.composite
def any_csr(draw):
    """Rows as nobody should put them together: out of order, with columns twice, with zeros, in very many columns."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, 12)), draw(st.sampled_from([1, 5, 60, 2**20, 2**31 - 1, 2**40]))
    lengths = rng.integers(0, 1 + draw(st.sampled_from([0, 3, 40])), n)
    columns = rng.integers(0, d, lengths.sum()) // draw(st.sampled_from([1, 2**12])) * draw(st.sampled_from([1, 2**12]))
    columns = (columns % d).astype(np.int32 if d < 2**31 else np.int64)
    values = rng.integers(-2, 3, len(columns)).astype(draw(st.sampled_from([np.float64, np.float32])))
    return sp.csr_array((values, columns, np.append(0, np.cumsum(lengths))), shape=(n, d))


def entries(rows):
    return [
        list(zip(rows.indices[a:b].tolist(), rows.data[a:b].tolist(), strict=True))
        for a, b in itertools.pairwise(rows.indptr.tolist())
    ]


@given(X=any_csr(), cut=st.integers(0, 12), plain=st.booleans())
@settings(max_examples=number_of_streams(200), deadline=None)
def test_entries_keep_their_order_and_repeated_ones_are_summed(X, cut, plain):
    before = X.copy()
    with plain_python() if plain else nullcontext():
        found = as_matrix(X, wide=True)
        parts = [as_matrix(part, wide=True) for part in (X[:cut], X[cut:]) if part.shape[0]]
    assert entries(found) == reference.summed(entries(before))
    assert [row for part in parts for row in entries(part)] == entries(found)
    assert found.data.dtype == X.dtype and entries(X) == entries(before)


def out_of_order(X, seed=0):
    """The same rows with their entries in random order."""
    csr, rng = sp.csr_array(X), np.random.default_rng(seed)
    for a, b in itertools.pairwise(csr.indptr):
        order = a + rng.permutation(b - a)
        csr.indices[a:b], csr.data[a:b] = csr.indices[order], csr.data[order]
    return sp.csr_array((csr.data, csr.indices, csr.indptr), shape=csr.shape)


def test_rows_out_of_order_are_not_copied():
    X, _ = rows(300)
    product = sp.diags_array(np.ones(300)) @ sp.csr_array(X)
    assert not product.has_sorted_indices
    for same in (product, out_of_order(X)):
        matrix = as_matrix(same)
        assert np.shares_memory(matrix.data, same.data) and np.shares_memory(matrix.indices, same.indices)


@pytest.mark.parametrize(
    "model",
    [
        SparseClassifier(),
        SparseClassifier(storage="seen"),
        SparseClassifier(alpha=0.01, polish=True),
        SparseClassifier(preset="two-stage", budget=3),
        StableSparseClassifier(3),
    ],
    ids=str,
)
def test_rows_out_of_order_give_the_same_model(model):
    X, y = rows(1200)
    unordered = out_of_order(X)
    before = unordered.copy()
    model.set_params(random_state=0)
    expected, found = clone(model).fit(sp.csr_array(X), y), clone(model).fit(unordered, y)
    coef, other = (sp.csr_array(each.coef_).toarray() for each in (expected, found))
    np.testing.assert_allclose(other, coef, rtol=0.0, atol=1e-9 * np.abs(coef).max())
    assert np.array_equal(other != 0.0, coef != 0.0) and coef.any()
    assert np.array_equal(found.predict(unordered), expected.predict(X))
    assert entries(unordered) == entries(before)


# ---- one-vs-rest in one read -----------------------------------------------------------------------------------------


def test_a_class_has_the_same_model_alone_and_beside_others():
    X, y = rows(1300, classes=3)
    together = SparseClassifier(**ONE_PASS).fit(X, y)
    assert together.coef_.shape == (3, 8) and together.intercept_.shape == (3,)
    assert together.decision_function(X).shape == (1300, 3)
    for q in range(3):
        alone = SparseClassifier(**ONE_PASS).fit(X, y == q)
        assert alone.decision_function(X).shape == (1300,)
        np.testing.assert_allclose(alone.coef_[0], together.coef_[q], rtol=0.0, atol=1e-12)
        assert np.array_equal(alone.coef_[0] != 0.0, together.coef_[q] != 0.0)
        assert alone.intercept_[0] == pytest.approx(together.intercept_[q], abs=1e-12)
    p = together.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1.0, rtol=1e-12)
    assert np.array_equal(together.predict(X), together.decision_function(X).argmax(1))
    assert together.score(X, y) > 0.6


def test_more_classes_than_lanes():
    X, y = rows(1500, d=40, classes=40)
    simple = ONE_PASS | {"optimizer": "nftrl", "conversion": "last", "alpha": "auto"}
    model = SparseClassifier(n_jobs=2, **simple).fit(X, y)
    assert len(model.fit_state.runs) == 2 and model.coef_.shape == (40, 40)
    first, second = (run.problem.penalty for run in model.fit_state.runs)
    assert first == second  # one alpha for the whole estimator
    assert np.array_equal(model.coef_, SparseClassifier(**simple).fit(X, y).coef_)
    alone = SparseClassifier(**simple | {"alpha": first.lam}).fit(X, y == 35)
    np.testing.assert_allclose(alone.coef_[0], model.coef_[35], rtol=0.0, atol=1e-12)
    assert model.history_[0]["nonzeros"] == sum(run.history[0]["nonzeros"] for run in model.fit_state.runs)


def test_two_labels_of_any_type():
    X, y = rows(300)
    reference = SparseClassifier(**ONE_PASS).fit(X, y)
    for labels in (["no", "yes"], [False, True], [-1, 1], [2.0, 3.0], np.array(["b", "c"], object)):
        labels = np.asarray(labels)
        model = SparseClassifier(**ONE_PASS).fit(X, labels[y])
        assert model.classes_.tolist() == labels.tolist()
        assert np.array_equal(model.coef_, reference.coef_)
        assert np.array_equal(model.predict(X), labels[reference.predict(X)])


# ---- weights ---------------------------------------------------------------------------------------------------------


def test_rows_of_weight_zero_are_not_there():
    X, y = rows(1400)
    weight = np.random.default_rng(0).integers(0, 2, size=1400).astype(float)
    settings_ = {"random_state": 0, "max_iter": 3}
    model = SparseClassifier(**settings_).fit(X, y, sample_weight=weight)
    there = weight > 0
    assert_same_model(model, SparseClassifier(**settings_).fit(X[there], y[there]))


def test_class_weights_are_row_weights():
    X, y = rows(1100)
    y[y == 1] = np.random.default_rng(0).random((y == 1).sum()) < 0.3
    by_class = SparseClassifier(class_weight={0: 1.0, 1: 4.0}, **ONE_PASS).fit(X, y)
    assert_same_model(by_class, SparseClassifier(**ONE_PASS).fit(X, y, sample_weight=np.where(y == 1, 4.0, 1.0)))
    plain = SparseClassifier(**ONE_PASS).fit(X, y)
    balanced = SparseClassifier(class_weight="balanced", **ONE_PASS).fit(X, y)
    assert (plain.predict(X) == 1).sum() < (balanced.predict(X) == 1).sum()


def test_feature_weights():
    X, y = rows(1500)
    free, dear = np.ones(8), np.ones(8)
    free[5], dear[0] = 0.0, 1e6
    chosen = ONE_PASS | {"alpha": 0.05}
    assert SparseClassifier(**chosen).fit(X, y).coef_[0, 5] == 0.0
    assert SparseClassifier(feature_weights=free, **chosen).fit(X, y).coef_[0, 5] != 0.0
    assert SparseClassifier(feature_weights=dear, **chosen).fit(X, y).coef_[0, 0] == 0.0


# ---- what users do with a model --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    X, y = rows(1500)
    return SparseClassifier(alpha=0.03, random_state=0).fit(X, y), X, y


def test_attributes(fitted):
    model, X, y = fitted
    assert model.coef_.shape == (1, 8) and model.intercept_.shape == (1,)
    assert 0 < model.n_nonzero_ == np.count_nonzero(model.coef_) < 8
    assert 1 <= model.n_iter_ <= 5 and model.t_ == 1500 * model.n_iter_
    assert model.n_features_in_ == 8
    ts = [point["t"] for point in model.history_]
    assert ts == sorted(ts) and ts[-1] == model.t_ and model.history_[-1]["nonzeros"] == model.n_nonzero_
    assert model.history_[-1]["objective"] < np.log(2.0)
    report = model.report_
    assert type(report["optimizer"]).__name__ == "NFTRL" and type(report["conversion"]).__name__ == "AverageSL"
    assert report["converted"][0]["chosen"][0]["metric"] and report["warnings"] == []
    assert model.score(X, y) > 0.8


def test_probabilities(fitted):
    model, X, y = fitted
    p = model.predict_proba(X)
    margin = model.decision_function(X)
    np.testing.assert_allclose(p[:, 1], 1.0 / (1.0 + np.exp(-margin)), rtol=1e-12)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(p), rtol=1e-9)
    assert np.array_equal(model.predict(X), (margin > 0).astype(int))
    hinge = SparseClassifier(loss="hinge", alpha=0.03, random_state=0).fit(X, y)
    assert not hasattr(hinge, "predict_proba") and hinge.score(X, y) > 0.8
    with pytest.raises(AttributeError, match="predict_proba"):
        hinge.predict_proba(X)


def test_log_loss_is_logistic(fitted):
    model, X, y = fitted
    assert_same_model(model, SparseClassifier("log_loss", alpha=0.03, random_state=0).fit(X, y))


def test_selects_features(fitted):
    model, X, _ = fitted
    assert isinstance(model, SelectorMixin)
    support = model.get_support()
    assert np.array_equal(support, model.coef_[0] != 0.0)
    assert np.array_equal(model.transform(X), X[:, support])
    assert np.array_equal(model.transform(sp.csr_array(X)).toarray(), X[:, support])
    assert model.get_feature_names_out().tolist() == [f"x{j}" for j in np.flatnonzero(support)]
    assert model.inverse_transform(model.transform(X)).shape == X.shape


def test_names_of_a_table():
    pandas = pytest.importorskip("pandas")
    X, y = rows(400)
    table = pandas.DataFrame(X, columns=[f"word{j}" for j in range(8)])
    model = SparseClassifier(alpha=0.03, random_state=0).set_output(transform="pandas").fit(table, y)
    assert model.feature_names_in_.tolist() == list(table.columns)
    out = model.transform(table)
    assert out.columns.tolist() == model.get_feature_names_out().tolist() and 0 < out.shape[1] < 8
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(table.rename(columns={"word1": "other"}), y)


def test_sparsify_then_learn_on(fitted):
    _, X, y = fitted
    a = SparseClassifier(**ONE_PASS).fit(X, y)
    b = SparseClassifier(**ONE_PASS).fit(X, y).sparsify()
    assert sp.issparse(b.coef_) and np.array_equal(a.coef_, b.coef_.toarray())
    assert np.array_equal(a.predict(X), b.predict(X))
    a.partial_fit(X[:50], y[:50])
    b.partial_fit(X[:50], y[:50])
    assert sp.issparse(b.coef_)
    assert_same_model(a, b.densify())


def test_finalize_keeps_the_model_only(fitted):
    _, X, y = fitted
    model = SparseClassifier(**ONE_PASS).partial_fit(X, y, classes=[0, 1])
    before, size = copy.deepcopy(model), len(pickle.dumps(model))
    assert model.finalize() is model
    assert_same_model(before, model)
    assert np.array_equal(before.predict(X), model.predict(X)) and before.report_.keys() == model.report_.keys()
    assert len(pickle.dumps(model)) < size / 10
    for learn in (model.partial_fit, copy.deepcopy(model).set_params(warm_start=True).fit):
        with pytest.raises(ValueError, match="finalize"):
            learn(X, y)
    assert_same_model(model, before)
    assert_same_model(model.fit(X, y), before)


def test_warm_start_goes_on_with_the_stream(fitted):
    _, X, y = fitted
    warm = SparseClassifier(warm_start=True, **ONE_PASS).fit(X[:700], y[:700]).fit(X[700:], y[700:])
    assert warm.n_iter_ == 2
    assert_same_model(warm, in_pieces(SparseClassifier(**ONE_PASS), X, y, [700]))
    cold = SparseClassifier(**ONE_PASS).fit(X[:700], y[:700]).fit(X[700:], y[700:])
    assert cold.t_ == 800 and cold.n_iter_ == 1


@pytest.mark.parametrize("sparse", [False, True])
def test_coef_init(fitted, sparse):
    _, X, y = fitted
    w, b = np.zeros((1, 8)), np.array([0.25])
    w[0, 2] = 1.5
    still = SparseClassifier(optimizer="fobos", conversion="last", step_size=1e-12, **ONE_PASS)
    still.fit(X, y, coef_init=sp.csr_array(w) if sparse else w, intercept_init=b)
    np.testing.assert_allclose(still.coef_, w, atol=1e-6)
    np.testing.assert_allclose(still.intercept_, b, atol=1e-6)
    assert type(SparseClassifier(**ONE_PASS).fit(X, y, coef_init=w).report_["optimizer"]).__name__ == "FOBOS"
    target = X @ np.arange(8.0)
    near = SparseRegressor(optimizer="fobos", conversion="last", step_size=1e-12, **ONE_PASS)
    np.testing.assert_allclose(near.fit(X, target, coef_init=np.arange(8.0)).coef_, np.arange(8.0), atol=1e-6)


def test_rounding_records(fitted):
    _, X, y = fitted
    two = SparseClassifier(conversion=TopK(2), optimizer="fobos", **ONE_PASS).fit(X, y)
    assert two.n_nonzero_ == 2 and two.report_["conversion"] == TopK(2)


def test_not_fitted():
    for model in (SparseClassifier(), SparseRegressor()):
        for ask in (
            lambda m: m.coef_,
            lambda m: m.report_,
            lambda m: m.t_,
            lambda m: m.sparsify(),
            lambda m: m.densify(),
            lambda m: m.finalize(),
            lambda m: m.predict(np.ones((1, 2))),
            lambda m: m.get_support(),
        ):
            with pytest.raises(NotFittedError, match="not fitted"):
                ask(model)


@pytest.mark.parametrize("n", [150, 1200])
@pytest.mark.parametrize(
    "settings_",
    [
        {},
        {"optimizer": "fobos", "conversion": LastSL(L=3.0)},
        {"optimizer": "fobos", "conversion": OptimalSL(L=3.0)},
        {"optimizer": "nftrl", "conversion": "random"},
    ],
    ids=["default", "last-sl", "optimal-sl", "random"],
)
def test_pickled_in_mid_stream(n, settings_):
    X, y = rows(1500)
    make = SparseClassifier(**ONE_PASS, **settings_)
    model = clone(make).partial_fit(X[:n], y[:n], classes=[0, 1])
    twins = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    model.partial_fit(X[n:], y[n:])
    for twin in twins:
        twin.coef_  # noqa: B018
        assert_same_model(twin.partial_fit(X[n:], y[n:]), model)
        assert_same_model(pickle.loads(pickle.dumps(twin)), model)
    assert_same_model(clone(make).fit(X, y), model)


def test_model_selection():
    X, y = rows(400)
    search = GridSearchCV(SparseClassifier(random_state=0), {"alpha": [0.01, 0.5]}, cv=3).fit(X, y)
    assert search.best_params_ == {"alpha": 0.01}
    scores = cross_validate(SparseClassifier(random_state=0), X, y, cv=3, n_jobs=2)["test_score"]
    np.testing.assert_array_equal(scores, cross_validate(SparseClassifier(random_state=0), X, y, cv=3)["test_score"])
    pipe = make_pipeline(StandardScaler(), SparseClassifier(alpha=0.05, random_state=0), MaxAbsScaler()).fit(X, y)
    assert pipe.transform(X).shape[1] == pipe[1].n_nonzero_


def test_metadata_routing():
    X, y = rows(300)
    weight = np.where(np.arange(300) < 200, 1.0, 0.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = SparseClassifier(**ONE_PASS).set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        pipe = make_pipeline(MaxAbsScaler(), model).fit(X, y, sample_weight=weight)
        assert pipe[-1].t_ == 200
        model.set_partial_fit_request(sample_weight=True, classes=True)


def test_parameters_are_kept_as_given():
    weights = [1.0, 2.0]
    model = SparseClassifier(feature_weights=weights, alpha=np.float32(0.5), conversion=AverageSL(L=2.0))
    assert model.get_params()["feature_weights"] is weights
    assert clone(model).get_params()["conversion"] == AverageSL(L=2.0)
    assert "class_weight" in model.get_params() and "class_weight" not in SparseRegressor().get_params()


# ---- passes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [300, 2500])
def test_one_pass_is_enough_where_the_sample_has_all_rows(n):
    """The answer is the optimum there, whatever the iterates; named methods learn as many passes as before."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 40))
    y = np.where(X[:, :5].sum(1) + rng.logistic(size=n) > 0.0, 1, -1)
    model = SparseClassifier(alpha=0.01, random_state=0).fit(X, y)
    assert model.n_iter_ == 1
    w, c = model.coef_[0], -y / (1.0 + np.exp(y * (X @ model.coef_[0] + model.intercept_[0]))) / n
    g = X.T @ c
    inside = np.where(w != 0.0, np.abs(g + 0.01 * np.sign(w)), np.maximum(np.abs(g) - 0.01, 0.0))
    assert 0 < np.count_nonzero(w) < 40 and max(inside.max(), abs(c.sum())) <= 2e-4 * 0.01
    assert SparseClassifier(alpha=0.01, conversion="average-sl", random_state=0).fit(X, y).n_iter_ > 1
    assert SparseClassifier(alpha=0.01, tol=None, random_state=0).fit(X, y).n_iter_ == 5
    assert SparseClassifier("hinge", alpha=0.01, random_state=0).fit(X, y).n_iter_ > 1
    kept = SparseClassifier(alpha=0.01, warm_start=True, random_state=0).fit(X, y)
    assert kept.n_iter_ == 1 and kept.fit(X, y).n_iter_ > 2  # the sample does not know that rows came again


def test_rows_that_the_sample_lacks_are_learned_in_several_passes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1100, 1000))  # more than a million numbers
    y = np.where(X[:, 0] + rng.logistic(size=1100) > 0.0, 1, -1)
    assert SparseClassifier(alpha=0.05, random_state=0).fit(X, y).n_iter_ > 1
    assert SparseClassifier(alpha=0.05, random_state=0).fit(X[:, :900], y).n_iter_ == 1


def test_passes_end_when_nothing_improves():
    X, y = rows(1500)
    named = {"alpha": 0.01, "conversion": "average-sl", "random_state": 0}  # by default one pass would be enough
    one, many = (named | {"max_iter": k} for k in (1, 40))
    assert SparseClassifier(tol=None, **one).fit(X, y).n_iter_ == 1
    assert SparseClassifier(tol=0.5, **many).fit(X, y).n_iter_ <= 3
    patient = SparseClassifier(tol=0.5, n_iter_no_change=5, **many).fit(X, y)
    assert 6 <= patient.n_iter_ <= 8
    assert SparseClassifier(tol=None, **many | {"max_iter": 7}).fit(X, y).n_iter_ == 7


def test_early_stopping_holds_rows_back():
    X, y = rows(1500)
    model = SparseClassifier(alpha=0.01, early_stopping=True, validation_fraction=0.2, max_iter=30, random_state=0).fit(
        X, y
    )
    learned = model.t_ / model.n_iter_
    assert 0.75 * 1500 < learned < 0.85 * 1500 and learned == int(learned)
    assert model.n_iter_ < 30 and model.score(X, y) > 0.8
    with pytest.raises(ValueError, match="partial_fit does not get"):
        model.partial_fit(X, y)


def test_shuffling_is_seeded():
    X, y = rows(1500)
    a, b, c = (SparseClassifier(random_state=seed, max_iter=2).fit(X, y) for seed in (0, 0, 1))
    assert_same_model(a, b)
    assert not np.array_equal(a.coef_, c.coef_)
    by_generator = SparseClassifier(random_state=np.random.RandomState(0), max_iter=2).fit(X, y)
    assert_same_model(a, by_generator)


def test_progress(capsys, monkeypatch):
    X, y = rows(1200)
    SparseClassifier(random_state=0).fit(X, y)
    assert capsys.readouterr().err == ""
    SparseClassifier(alpha=0.01, random_state=0, verbose=1, max_iter=2, tol=None).fit(X, y)
    out, err = capsys.readouterr()
    assert out == "" and err.count("rows/s") == 2 and "pass 2/2, row 1200/1200" in err

    from sparsco.util import progress

    clock = iter(np.arange(0.0, 1e4, 1.5))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    SparseClassifier(alpha=0.01, random_state=0, max_iter=3, tol=None).fit(X, y)
    assert capsys.readouterr().err == ""  # slow, but nobody is watching
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    SparseClassifier(alpha=0.01, random_state=0, max_iter=3, tol=None).fit(X, y)
    err = capsys.readouterr().err
    assert err.count("\r") == 2 and err.endswith("\n")  # passes end 1.5, 3 and 4.5 seconds in: only the later two


def test_the_steps_of_a_choice_are_shown_if_it_takes_long(capsys, monkeypatch):
    from sparsco.util import progress

    X, y = rows(1200)
    three = np.argmax(X[:, :3], 1)
    clock = iter(np.arange(0.0, 1e6, 1.5))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    SparseClassifier(random_state=0).fit(X, y)
    assert capsys.readouterr().err == ""  # slow, but nobody is watching
    SparseClassifier("multinomial", random_state=0, verbose=1).fit(X, three)
    out, err = capsys.readouterr()
    done = [tuple(map(int, each)) for each in re.findall(r"(\d+) of at most (\d+) strengths judged", err)]
    assert out == "" and len(done) > 10 and done == sorted(done, key=lambda each: each[0])
    # twelve strengths of three mixtures at most; some that cannot win are never judged
    assert 10 < done[-1][0] <= done[-1][1] < 36 and done[0] == (0, 36)
    for what in ("solving the chosen model on 1,200 rows: 3 of 3", "class 3 of 3"):
        assert what in err and err.count("[SparseClassifier] ") == len(err.splitlines())
    SparseClassifier(random_state=0, alpha=0.01, polish=1e-6, verbose=1).fit(X, y)
    assert "polishing: pass 2 over the rows" in capsys.readouterr().err
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    SparseClassifier(random_state=0).fit(X, y)
    err = capsys.readouterr().err
    assert "strengths judged" in err and err.endswith("\n")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_steps_of_folds_are_shown_if_they_take_long(n_jobs, capsys, monkeypatch):
    from sparsco.util import progress

    X, y = rows(600)
    clock = itertools.count(0.0, 1.5)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    wide = sp.random_array((600, 200), density=0.02, format="csr", rng=np.random.default_rng(0))
    for some, words in ((X, "3 folds and all rows: models 1 to 1 of 1"), (wide, "fold 3 of 3: model 1 of 1")):
        SparseClassifierCV(SparseClassifier(verbose=1), n_alphas=4, cv=3, n_jobs=n_jobs).fit(some, y)
        assert f"[SparseClassifierCV] {words}, strength 4 of 4, " in capsys.readouterr().err
    SparseClassifierCV(SparseClassifier(verbose=1, optimizer="fobos"), n_alphas=2, cv=3, n_jobs=n_jobs).fit(X, y)
    assert "fold 3 of 3: pass 1 of 1" in capsys.readouterr().err
    SparsePath(SparseClassifier(verbose=1, n_jobs=n_jobs), n_alphas=2, passes=2).fit(X, y)
    assert "[SparsePath] pass 2 of 2, " in capsys.readouterr().err
    SparseClassifierCV(SparseClassifier(), n_alphas=2, cv=3, n_jobs=n_jobs).fit(X, y)
    assert capsys.readouterr().err == ""


# ---- trouble ---------------------------------------------------------------------------------------------------------


def test_divergence_is_an_error_and_no_model():
    X, y = rows(1500)
    target = X @ np.arange(8.0)
    for steps in (1e3, Constant(1e3)):
        wild = SparseRegressor(optimizer="fobos", conversion="last", step_size=steps, random_state=0)
        with pytest.raises(DivergenceError, match="smaller steps"):
            wild.fit(X, target)
        with pytest.raises(NotFittedError):
            wild.predict(X)
    stream = SparseRegressor(optimizer="fobos", conversion="last", step_size=1e3)
    stream.partial_fit(X[:10], target[:10])
    with pytest.raises(DivergenceError):
        stream.predict(X)
    with pytest.raises(DivergenceError):
        stream.partial_fit(X[10:], target[10:])
    with pytest.raises(DivergenceError):
        stream.predict(X)
    good = SparseRegressor(random_state=0).fit(X, target)
    kept = copy.deepcopy(good)
    with pytest.raises(DivergenceError):
        good.set_params(optimizer="fobos", conversion="last", step_size=1e3).fit(X, target)
    assert np.array_equal(good.coef_, kept.coef_)


@pytest.mark.filterwarnings("default:no feature was selected:UserWarning")
def test_an_empty_model_warns():
    X, y = rows(300)
    with pytest.warns(UserWarning, match="no feature was selected: lower alpha"):
        model = SparseClassifier(alpha=100.0, random_state=0).fit(X, y)
    assert model.n_nonzero_ == 0 and any("no feature" in text for text in model.report_["warnings"])
    with pytest.warns(UserWarning, match="No features were selected"):
        assert model.transform(X).shape == (300, 0)


@pytest.mark.parametrize("shift", [20.0, 100.0])
def test_features_with_a_large_mean(shift):
    """The intercept is eliminated, so that shifted columns cost neither accuracy nor sparsity."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 50))
    y = X[:, :5] @ [3.0, -2.0, 1.0, 0.5, -0.3] + 0.5 * rng.standard_normal(3000) + 4.0
    plain = SparseRegressor(alpha=0.01, random_state=0).fit(X, y)
    shifted = SparseRegressor(alpha=0.01, random_state=0).fit(X + shift, y)
    assert shifted.score(X + shift, y) == pytest.approx(plain.score(X, y), abs=1e-3)
    assert abs(shifted.n_nonzero_ - plain.n_nonzero_) <= 2


@pytest.mark.parametrize("name, ratio", [("l1", 1.0), ("l2", 0.0)])
def test_the_ends_of_the_elastic_net_have_scikit_learns_names(name, ratio):
    X, y = rows(1500)
    for alpha in ("auto", 0.01):
        ours = SparseClassifier(penalty=name, alpha=alpha, random_state=0).fit(X, y)
        assert_same_model(ours, SparseClassifier(l1_ratio=ratio, alpha=alpha, random_state=0).fit(X, y))
    path = SparsePath(SparseClassifier(penalty=name, alpha=0.01, random_state=0), n_alphas=3).fit(X, y)
    other = SparsePath(SparseClassifier(l1_ratio=ratio, alpha=0.01, random_state=0), n_alphas=3).fit(X, y)
    assert_same_model(path.model_, other.model_)
