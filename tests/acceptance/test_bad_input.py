"""Bad input: one clear sentence, and an estimator that is as it was before."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import sparsco
from sparsco import SparseClassifier, SparseRegressor
from sparsco.cli import main
from sparsco.conversions import Average, AverageSL, Last, Suffix, Threshold, TopK
from sparsco.losses import Logistic, Quantile
from sparsco.optimizers import FOBOS, NFTRL, ORDA, RDA, SSG, BatchFOBOS
from sparsco.steps import Constant, InverseSqrt, StronglyConvex

N, D = 40, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D))
Y = (X[:, 0] > 0).astype(int)
T = X @ np.arange(1.0, D + 1)
SIMPLE = {"optimizer": "fobos", "conversion": "last", "alpha": 0.01, "random_state": 0}


def with_value(value, at=(3, 2)):
    bad = X.copy()
    bad[at] = value
    return bad


def target_with(value):
    bad = T.copy()
    bad[5] = value
    return bad


def broken_csr(data):
    return sp.csr_array((np.array([1.0, data]), np.array([0, 1]), np.array([0, 1, 2])), shape=(2, D))


def assert_refused(model, learn, error, words):
    """``learn(model)`` raises ``error`` with every one of ``words`` and leaves the model as it was."""
    before = pickle.dumps(model)
    state = copy.deepcopy(vars(model))
    with pytest.raises(error) as caught:
        learn(model)
    text = str(caught.value)
    for word in words:
        assert word in text, f"{word!r} not in {text!r}"
    assert vars(model).keys() == state.keys()
    assert pickle.dumps(model) == before


BAD_ROWS = {
    "nan": (with_value(np.nan), Y, T, ["NaN"]),
    "inf": (with_value(np.inf), Y, T, ["infinity"]),
    "sparse nan": (broken_csr(np.nan), Y[:2], T[:2], ["NaN"]),
    "sparse inf": (broken_csr(-np.inf), Y[:2], T[:2], ["infinity"]),
    "float32 inf": (with_value(np.inf).astype(np.float32), Y, T, ["infinity"]),
    "huge": (with_value(1e200), Y, T, ["X", "huge values", "1e+75"]),
    "huge sum": (
        sp.csr_array((np.array([9e74, 9e74, 1.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, D)),
        Y[:2],
        T[:2],
        ["X", "huge values", "1e+75"],
    ),
    "one dimension": (X[:, 0], Y, T, ["2D array"]),
    "three dimensions": (X[None], Y, T, ["dim 3"]),
    "text": (np.full((N, D), "a"), Y, T, ["could not convert string to float"]),
    "complex": (X + 1j, Y, T, ["Complex data not supported"]),
    "too few targets": (X, Y[:-1], T[:-1], ["inconsistent numbers of samples", "40", "39"]),
    "a cube of targets": (X, np.tile(Y[:, None, None], (1, 2, 2)), np.tile(T[:, None, None], (1, 2, 2)), ["dim"]),
    "no rows": (X[:0], Y[:0], T[:0], ["0 sample(s)"]),
    "no sparse rows": (sp.csr_array(X[:0]), Y[:0], T[:0], ["0 sample(s)"]),
    "no columns": (X[:, :0], Y, T, ["0 feature(s)"]),
    "no targets": (X, None, None, ["y", "None"]),
}


@pytest.mark.parametrize("case", BAD_ROWS)
@pytest.mark.parametrize("kind", [SparseClassifier, SparseRegressor])
def test_bad_rows(case, kind):
    rows, labels, targets, words = BAD_ROWS[case]
    y = labels if kind is SparseClassifier else targets
    good = Y if kind is SparseClassifier else T
    first = {"classes": [0, 1]} if kind is SparseClassifier else {}
    fresh = kind(**SIMPLE)
    assert_refused(fresh, lambda m: m.fit(rows, y), ValueError, words)
    assert_refused(fresh, lambda m: m.partial_fit(rows, y, **first), ValueError, words)
    streaming = kind(**SIMPLE).partial_fit(X, good, **first)
    assert_refused(streaming, lambda m: m.partial_fit(rows, y), ValueError, words)
    fitted = kind(**SIMPLE).fit(X, good)
    assert_refused(fitted, lambda m: m.fit(rows, y), ValueError, words)


def test_the_stream_goes_on_after_a_refusal():
    X2, y2 = np.tile(X, (40, 1)), np.tile(Y, 40)
    clean, refused = (SparseClassifier(**SIMPLE | {"conversion": "suffix"}) for _ in range(2))
    clean.partial_fit(X2, y2, classes=[0, 1]).partial_fit(X2, y2)
    for rows in (X2[:500], X2[500:], X2):
        refused.partial_fit(rows, y2[: len(rows)] if len(rows) == 500 else y2[-len(rows) :], classes=[0, 1])
        for bad, y in ((with_value(np.nan), Y), (X, Y + 5), (X[:, :3], Y), (X, Y[:3])):
            assert_refused(refused, lambda m, bad=bad, y=y: m.partial_fit(bad, y), ValueError, [])
    assert np.array_equal(clean.coef_, refused.coef_)


BAD_TARGETS = {
    "nan": (target_with(np.nan), ["y", "NaN"]),
    "inf": (target_with(np.inf), ["y", "infinity"]),
    "huge": (target_with(-1e200), ["y", "huge values", "1e+75"]),
    "text": (np.full(N, "a"), ["y must be numbers"]),
}


@pytest.mark.parametrize("case", BAD_TARGETS)
def test_bad_targets(case):
    y, words = BAD_TARGETS[case]
    for learn in (lambda m: m.fit(X, y), lambda m: m.partial_fit(X, y)):
        assert_refused(SparseRegressor(**SIMPLE), learn, ValueError, words)


BAD_LABELS = {
    "one class": (np.ones(N, int), ["one class only", "[1]", "two"]),
    "one class of text": (np.full(N, "a"), ["one class only", "'a'"]),
    "one row": (np.array([1] * N), ["one class only"]),
    "continuous": (T, ["Unknown label type", "continuous"]),
    "mixed": (np.array([1, "a"] * (N // 2), object), ["labels of several types"]),
    "nan": (np.where(Y, 1.0, np.nan), ["NaN"]),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_bad_labels(case):
    y, words = BAD_LABELS[case]
    assert_refused(SparseClassifier(**SIMPLE), lambda m: m.fit(X, y), ValueError, words)


def test_labels_in_a_stream():
    fresh = SparseClassifier(**SIMPLE)
    assert_refused(fresh, lambda m: m.partial_fit(X, Y, classes=[1]), ValueError, ["classes has one class only"])
    assert_refused(fresh, lambda m: m.partial_fit(X, Y, classes="any"), ValueError, ["classes='any'", "leave it out"])
    assert_refused(fresh, lambda m: m.partial_fit(X, Y, classes=[0, 2]), ValueError, ["label 1", "[0, 2]"])
    assert_refused(fresh, lambda m: m.partial_fit(X, Y, classes=["0", "1"]), ValueError, ["label 0", "'0'"])
    assert_refused(fresh, lambda m: m.partial_fit(X, T, classes=[0, 1]), ValueError, ["Unknown label type"])
    model = SparseClassifier(**SIMPLE).partial_fit(X, Y, classes=[0, 1])
    assert_refused(model, lambda m: m.partial_fit(X, Y + 1), ValueError, ["label 2", "not among the classes [0, 1]"])
    assert_refused(model, lambda m: m.partial_fit(X, Y, classes=[0, 1, 2]), ValueError, ["classes differ"])
    assert_refused(
        SparseClassifier(class_weight="even", **SIMPLE),
        lambda m: m.partial_fit(X, Y, classes=[0, 1]),
        ValueError,
        ["class_weight='even'", "'balanced' or a dict"],
    )
    warm = SparseClassifier(warm_start=True, **SIMPLE).fit(X, Y)
    assert_refused(warm, lambda m: m.fit(X, Y + 3), ValueError, ["label 3", "not among the classes"])
    model.partial_fit(X[:3], np.ones(3, int), classes=[0, 1])  # a batch with one of the classes is fine


BAD_WEIGHTS = {
    "zero": (np.zeros(N), ["weights", "zero"]),
    "negative": (-np.ones(N), ["Negative", "weight"]),
    "nan": (np.full(N, np.nan), ["NaN"]),
    "huge": (np.full(N, 1e200), ["sample_weight", "1e+75"]),
    "shape": (np.ones(N - 1), ["sample_weight.shape"]),
    "two-dimensional": (np.ones((N, 2)), ["1D"]),
}


@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_bad_weights(case):
    weight, words = BAD_WEIGHTS[case]
    for model, y, first in ((SparseClassifier(**SIMPLE), Y, {"classes": [0, 1]}), (SparseRegressor(**SIMPLE), T, {})):
        assert_refused(model, lambda m, y=y: m.fit(X, y, sample_weight=weight), ValueError, words)
        if case == "zero":
            continue  # in a stream a no-op
        streaming = model.partial_fit(X, y, **first)
        assert_refused(streaming, lambda m, y=y: m.partial_fit(X, y, sample_weight=weight), ValueError, words)


def test_weights_that_leave_one_class():
    for model, weight in (
        (SparseClassifier(**SIMPLE), Y.astype(float)),
        (SparseClassifier(class_weight={0: 0.0}, **SIMPLE), None),
    ):
        assert_refused(model, lambda m, w=weight: m.fit(X, Y, sample_weight=w), ValueError, ["only one class", "two"])
    none = SparseClassifier(class_weight={0: 0.0, 1: 0.0}, **SIMPLE)
    assert_refused(none, lambda m: m.fit(X, Y), ValueError, ["weights of all rows are zero"])
    bad = SparseClassifier(class_weight={0: -1.0}, **SIMPLE)
    assert_refused(bad, lambda m: m.fit(X, Y), ValueError, ["class_weight", "at least 0"])


BAD_PARAMETERS = [
    ({"alpha": -1.0}, ["alpha=-1.0", "at least 0"]),
    ({"alpha": np.nan}, ["alpha=nan"]),
    ({"alpha": np.inf}, ["alpha=inf"]),
    ({"alpha": "big"}, ["alpha='big'", "'auto'"]),
    ({"alpha": None}, ["alpha=None"]),
    ({"alpha": True}, ["alpha=True"]),
    ({"l1_ratio": 1.5}, ["l1_ratio=1.5", "between 0", "and 1"]),
    ({"l1_ratio": -0.1}, ["l1_ratio=-0.1"]),
    ({"l1_ratio": "half"}, ["l1_ratio='half'"]),
    ({"max_iter": 0}, ["max_iter=0", "at least 1"]),
    ({"max_iter": 2.5}, ["max_iter=2.5", "whole number"]),
    ({"tol": -1.0}, ["tol=-1.0"]),
    ({"n_iter_no_change": 0}, ["n_iter_no_change=0"]),
    ({"validation_fraction": 1.0}, ["validation_fraction=1.0", "between 0 and 1"]),
    ({"loss": "logistik"}, ["loss='logistik'", "did you mean 'logistic'?"]),
    ({"loss": Logistic}, ["loss=Logistic is a class"]),
    ({"loss": 3}, ["loss=3", "record"]),
    ({"optimizer": "fobs"}, ["optimizer='fobs'", "did you mean 'fobos'?"]),
    ({"optimizer": "zzzz"}, ["optimizer='zzzz' is not known", "'nftrl'"]),
    ({"optimizer": FOBOS}, ["optimizer=FOBOS is a class"]),
    ({"optimizer": Last()}, ["optimizer=Last()", "optimizer record"]),
    ({"optimizer": FOBOS(l2_in="nowhere")}, ["l2_in='nowhere'"]),
    ({"conversion": "avarage"}, ["conversion='avarage'", "did you mean 'average'?"]),
    ({"conversion": Constant(1.0)}, ["conversion=Constant", "conversion record"]),
    ({"conversion": AverageSL(metric="newt")}, ["metric='newt'", "newton"]),
    ({"conversion": AverageSL(metric="diagonal"), "loss": "hinge"}, ["metric='diagonal'", "curvature", "Hinge"]),
    ({"conversion": AverageSL(L=-1.0)}, ["L = -1.0", "positive"]),
    ({"conversion": Suffix(alpha=2.0)}, ["alpha = 2.0", "(0, 1]"]),
    ({"conversion": TopK(0)}, ["TopK(k=0)"]),
    ({"conversion": Threshold(-1.0)}, ["Threshold(level=-1.0)"]),
    ({"conversion": Threshold(0.1, Suffix(alpha=2.0))}, ["alpha = 2.0"]),
    ({"step_size": "convexx"}, ["step_size='convexx'", "did you mean 'convex'?"]),
    ({"step_size": "constant"}, ["step_size='constant'", "needs its constant", "sparsco.steps.Constant"]),
    ({"step_size": -0.1}, ["step_size=-0.1", "positive"]),
    ({"step_size": np.nan}, ["step_size=nan", "positive"]),
    ({"step_size": Constant(-1.0)}, ["step size at example 1 is -1.0"]),
    ({"step_size": Last()}, ["step_size=Last()"]),
    ({"step_size": StronglyConvex()}, ["rho > 0", "l1_ratio < 1"]),
    ({"step_size": 0.1, "optimizer": "nftrl"}, ["step_size=0.1", "NFTRL"]),
    ({"step_size": 0.1, "optimizer": RDA()}, ["step_size=0.1", "RDA"]),
    ({"optimizer": RDA(r=0.1), "l1_ratio": 0.5}, ["RDA(r=0.1)", "l1_ratio=1"]),
    ({"optimizer": ORDA(gamma=0.0)}, ["ORDA(gamma=0.0)", "above 0"]),
    ({"optimizer": SSG(c0=np.inf)}, ["SSG(c0=inf)", "finite"]),
    ({"conversion": Average(np.nan)}, ["Average(power=nan)", "finite number"]),
    ({"conversion": Average("x")}, ["Average(power='x')", "finite number"]),
    ({"conversion": Average(None)}, ["Average(power=None)", "finite number"]),
    ({"conversion": Suffix(np.nan)}, ["Suffix(alpha=nan)", "finite number"]),
    ({"conversion": Threshold(0.1, Suffix(np.nan))}, ["Suffix(alpha=nan)", "finite number"]),
    ({"conversion": AverageSL(L=np.inf)}, ["AverageSL(L=inf)", "finite number"]),
    ({"step_size": Constant(None)}, ["Constant(eta=None)", "finite number"]),
    ({"step_size": InverseSqrt(1j)}, ["InverseSqrt(c=1j)", "finite number"]),
    ({"optimizer": NFTRL(delta=None)}, ["NFTRL(delta=None)", "finite number"]),
    ({"optimizer": NFTRL(per_feature_clock="yes")}, ["NFTRL(per_feature_clock='yes')", "True or False"]),
    ({"optimizer": BatchFOBOS(np.inf)}, ["BatchFOBOS(batch=inf)", "whole number"]),
    ({"optimizer": BatchFOBOS(2.5)}, ["BatchFOBOS(batch=2.5)", "whole number"]),
    ({"penalty": "l1", "l1_ratio": 0.5}, ["penalty='l1' with l1_ratio=0.5", "penalty='elasticnet'"]),
    ({"penalty": "L2"}, ["penalty='L2' is not known", "did you mean 'l2'"]),
    ({"feature_weights": [1.0, 2.0]}, ["feature_weights", "5 finite numbers"]),
    ({"feature_weights": [1.0, 1.0, 1.0, 1.0, -1.0]}, ["feature_weights"]),
    ({"feature_weights": [1.0, 1.0, 1.0, 1.0, np.nan]}, ["feature_weights"]),
    ({"feature_weights": "all"}, ["feature_weights"]),
]


@pytest.mark.parametrize(("parameters", "words"), BAD_PARAMETERS, ids=[str(case[0]) for case in BAD_PARAMETERS])
def test_bad_parameters(parameters, words):
    own = SIMPLE | parameters
    for learn in (lambda m: m.fit(X, Y), lambda m: m.partial_fit(X, Y, classes=[0, 1])):
        assert_refused(SparseClassifier(**own), learn, ValueError, words)
    if "loss" not in parameters:
        for learn in (lambda m: m.fit(X, T), lambda m: m.partial_fit(X, T)):
            assert_refused(SparseRegressor(**own), learn, ValueError, words)


def test_numbers_of_any_kind():
    """Fractions and NumPy's numbers are numbers, in parameters and in records."""
    for number in (Fraction(1, 10), np.float32(0.125), np.float64(0.1), np.int64(1)):
        own = {"alpha": number, "optimizer": NFTRL(alpha=number, sigma=number), "conversion": Average(number)}
        given = SparseRegressor(**own).partial_fit(X, T)
        plain = float(number)
        own = {"alpha": plain, "optimizer": NFTRL(alpha=plain, sigma=plain), "conversion": Average(plain)}
        assert np.array_equal(given.coef_, SparseRegressor(**own).partial_fit(X, T).coef_)
        assert np.isfinite(SparseRegressor(step_size=InverseSqrt(number)).fit(X, T).coef_).all()


def test_an_inverse_strength_is_answered_with_the_strength():
    for make, error in ((SparseClassifier, TypeError), (SparseRegressor().set_params, ValueError)):
        with pytest.raises(error, match=r"has no parameter C: pass alpha = 1 / \(C \* number of rows\)"):
            make(C=1.0)
        with pytest.raises(error, match="has no parameter solver: pass optimizer="):
            make(solver="saga")


def test_losses_of_labels_in_a_regression():
    unknown = ["loss='hinge' is not known", "'squared'"]
    for loss, words in (
        ("hinge", unknown),
        (Logistic(), ["for labels", "regression"]),
        (Quantile(0.5, -1.0), ["Quantile(scale=-1.0)", "positive"]),
    ):
        assert_refused(SparseRegressor(loss=loss), lambda m: m.fit(X, T), ValueError, words)


def test_bad_starting_points():
    model = SparseClassifier(**SIMPLE)
    for init, words in (
        ({"coef_init": np.zeros((1, D + 1))}, ["coef_init", "(1, 6)", "(1, 5)"]),
        ({"coef_init": np.zeros((2, D))}, ["coef_init", "(2, 5)"]),
        ({"intercept_init": np.zeros(2)}, ["intercept_init", "(2,)"]),
        ({"coef_init": np.full((1, D), np.nan)}, ["coef_init", "NaN"]),
        ({"coef_init": np.full((1, D), 1e200)}, ["coef_init", "1e+75"]),
    ):
        assert_refused(model, lambda m, init=init: m.fit(X, Y, **init), ValueError, words)
    for optimizer in ("nftrl", "rda", "ftrl", "orda", "ssg"):
        sums = SparseClassifier(**SIMPLE | {"optimizer": optimizer})
        words = ["coef_init", "starting point", optimizer.upper()]
        assert_refused(sums, lambda m: m.fit(X, Y, coef_init=np.zeros((1, D))), ValueError, words)
    X2, y2 = np.tile(X, (30, 1)), np.tile(Y, 30)  # the same beyond the pilot rows
    sums = SparseClassifier(**SIMPLE | {"optimizer": "nftrl"})
    assert_refused(sums, lambda m: m.fit(X2, y2, coef_init=np.zeros((1, D))), ValueError, ["coef_init"])


def test_other_columns_than_before():
    model = SparseClassifier(**SIMPLE).fit(X, Y)
    for ask in (lambda m: m.partial_fit(X[:, :3], Y), lambda m: m.predict(X[:, :3]), lambda m: m.transform(X[:, :3])):
        assert_refused(model, ask, ValueError, ["3 features", "expecting 5"])
    assert_refused(model, lambda m: m.predict(with_value(np.nan)), ValueError, ["NaN"])
    assert_refused(model, lambda m: m.decision_function(X[0]), ValueError, ["2D array"])


def test_an_error_at_the_thousandth_row_loses_nothing():
    """Settings that fail only once learning begins: the rows collected before are still there."""
    X2, y2 = np.tile(X, (30, 1)), np.tile(Y, 30)
    settings = {"alpha": 4.0, "l1_ratio": 0.5, "step_size": 0.6}
    model = SparseClassifier(optimizer=FOBOS(l2_in="gradient"), conversion="last", **settings)
    model.partial_fit(X2[:900], y2[:900], classes=[0, 1])
    before = model.t_
    assert_refused(model, lambda m: m.partial_fit(X2, y2), ValueError, ["smaller steps"])
    assert model.t_ == before == 900


# ---- odd but good ----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:no feature was selected:UserWarning")
@pytest.mark.parametrize("conversion", ["last", "auto"])
def test_odd_but_good(conversion):
    own = {"conversion": conversion, "random_state": 0}
    single = SparseRegressor(**own).fit(X[:1], T[:1])
    assert np.all(np.isfinite(single.predict(X)))
    constant = SparseRegressor(**own).fit(X, np.full(N, 3.0))
    assert constant.n_nonzero_ == 0 and np.allclose(constant.predict(X), 3.0, atol=0.2)
    holes = X.copy()
    holes[:, 2] = 0.0
    holes[4] = 0.0
    model = SparseClassifier(**own).fit(holes, Y)
    assert model.coef_[0, 2] == 0.0 and model.n_nonzero_ > 0
    nothing = SparseClassifier(**own).fit(np.zeros((N, D)), Y)
    assert nothing.n_nonzero_ == 0 and np.all(np.isfinite(nothing.predict_proba(X)))
    two = SparseClassifier(**own).fit(X[:2], [0, 1])
    assert np.all(np.isfinite(two.decision_function(X)))
    large = SparseClassifier(**own).fit(X * 1e30, Y)
    tiny = SparseClassifier(**own).fit(X * 1e-30, Y)
    assert large.score(X * 1e30, Y) > 0.8 and tiny.score(X * 1e-30, Y) > 0.8
    far = SparseRegressor(**own).fit(X, 1e30 * T)
    assert far.score(X, 1e30 * T) > 0.3


def test_many_features_that_never_come():
    columns = np.tile([0, 7, 10**6, 2 * 10**6, 3 * 10**6 - 1], N)
    wide = sp.csr_array((X.ravel(), columns, np.arange(0, N * D + 1, D)), shape=(N, 3 * 10**6))
    model = SparseClassifier(**SIMPLE).fit(wide, Y).sparsify()
    assert np.array_equal(model.coef_.toarray()[0, [0, 7]], SparseClassifier(**SIMPLE).fit(X, Y).coef_[0, :2])


def test_no_warnings_on_good_input():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SparseClassifier(alpha=0.01, random_state=0).fit(X, Y).predict_proba(X)
        SparseRegressor(alpha=0.01, random_state=0).fit(X, T).predict(X)
        many = np.random.default_rng(0).normal(size=(400, X.shape[1]))
        target = many[:, 0] + 0.5 * np.random.default_rng(1).normal(size=400)
        SparseClassifier(random_state=0).fit(many, target > 0.0).predict_proba(X)
        SparseRegressor(random_state=0).fit(many, target).predict(X)


def test_parameters_that_change_under_a_stream():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = X[:, 0]
    model = SparseRegressor(alpha=0.1, optimizer="fobos", conversion="last", warm_start=True, random_state=0).fit(X, y)
    before = model.coef_
    model.set_params(alpha=2.0)
    for call in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="alpha changed since this stream began"):
            call(X, y)
    model.set_params(alpha=0.1)
    with pytest.raises(ValueError, match="coef_init"):
        model.fit(X, y, coef_init=np.zeros(4))
    assert np.array_equal(model.coef_, before)


def test_labels_of_several_types():
    X = np.zeros((4, 2))
    for labels in (["a", 1, "a", 1], [1, "a", 1, "a"], ["a", None, "a", None]):
        with pytest.raises(ValueError, match="label"):
            SparseClassifier().fit(X, np.array(labels, dtype=object))


@pytest.mark.filterwarnings("error")
def test_many_classes_as_objects_are_no_warning():
    rng = np.random.default_rng(0)
    labels = np.array([f"class {k}" for k in rng.integers(0, 25, 400)], object)
    rows = rng.normal(size=(400, 3))
    model = SparseClassifier(alpha=0.01, optimizer="fobos", conversion="last")
    assert len(model.fit(rows, labels).classes_) == len(model.partial_fit(rows, labels).classes_) == 25
    assert len(SparseClassifier(alpha=0.01).partial_fit(rows, labels, classes=np.unique(labels)).classes_) == 25


def test_automatic_alpha_where_the_first_rows_say_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 10))
    y = (X[:, 0] + 0.1 * rng.normal(size=3000) > 0.5).astype(int)
    order = np.argsort(y)
    model = SparseClassifier(random_state=0, optimizer="nftrl")
    with pytest.warns(UserWarning, match="alpha='auto' is a guess"):
        model.partial_fit(X[order], y[order], classes=[0, 1])
    assert model.convert().report["lam"] > 0.0


def test_flags_and_dates():
    X, y = np.eye(4), np.arange(4.0)
    for name in ("fit_intercept", "shuffle", "early_stopping", "warm_start"):
        with pytest.raises(ValueError, match=f"{name}='no': it must be True or False"):
            SparseRegressor(**{name: "no"}).fit(X, y)
    with pytest.raises(ValueError, match="dates"):
        SparseRegressor().fit(X, np.arange(4).astype("datetime64[D]"))
    with pytest.raises(ValueError, match="call it"):
        SparseRegressor(optimizer=FOBOS).fit(X, y)
    with pytest.raises(ValueError, match="did you mean 'fobos'"):
        SparseRegressor(optimizer="FOBOS").fit(X, y)


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (sparsco.penalties.ElasticNet(-1.0), "lam=-1.0"),
        (sparsco.penalties.ElasticNet(float("nan")), "lam=nan"),
        (sparsco.penalties.ElasticNet(None), "lam=None"),
        (sparsco.penalties.NonNegative("x"), "lam='x'"),
        (sparsco.penalties.RowGroup(0.1, -1.0), "rho=-1.0"),
        (sparsco.penalties.WeightedElasticNet(0.1, 0.0, np.ones(3)), "must be 4 finite numbers"),
        (sparsco.penalties.WeightedElasticNet(0.1, 0.0, -np.ones(4)), "must be 4 finite numbers"),
        (sparsco.penalties.GroupL1(0.1, [0, 0, 10**9, 1]), "number the groups"),
        (sparsco.penalties.L1Ball(1.0, float("nan")), "rho=nan"),
    ],
    ids=repr,
)
def test_penalty_records(record, says):
    X, y = np.random.default_rng(0).normal(size=(50, 4)), np.arange(50.0)
    with pytest.raises(ValueError, match=says):
        sparsco.SparseRegressor(penalty=record).fit(X, y)


def test_lists_in_records():
    X, y = np.random.default_rng(0).normal(size=(200, 4)), np.arange(200.0)
    arrays, lists = (
        sparsco.SparseRegressor(penalty=sparsco.penalties.GroupL1(0.1, groups), random_state=0).fit(X, y).coef_
        for groups in (np.array([0, 0, 1, 1]), [0, 0, 1, 1])
    )
    assert np.array_equal(arrays, lists)


def test_what_has_something_for_every_feature_refuses_others():
    X, y = np.random.default_rng(0).normal(size=(1500, 6)), np.arange(1500.0)
    penalty = sparsco.penalties.GroupL1(0.1, np.arange(4) // 2)
    with pytest.raises(ValueError, match="storage='seen' does not list"):
        sparsco.SparseRegressor(penalty=penalty, storage="seen").fit(X[:, :4], y)
    with pytest.raises(ValueError, match="learn_one has no fixed features"):
        sparsco.SparseRegressor(penalty=penalty).learn_one({"a": 1.0}, 1.0)
    model = sparsco.SparseRegressor(penalty=penalty, random_state=0).partial_fit(X[:1200, :4], y[:1200])
    with pytest.raises(ValueError, match="made for 4 features"):
        model.partial_fit(X[1200:], y[1200:])
    assert model.partial_fit(X[1200:, :4], y[1200:]).t_ == 1500


def test_a_bad_example_leaves_the_noted_ones():
    model = sparsco.SparseRegressor(alpha=0.01)
    for i in range(50):
        model.learn_one({"x": 1.0} if i % 2 else {"z": 1.0}, 10.0 * (i % 2))
    for bad in ({"x": 1e80, "z": -1e80}, {"x": b"a"}, {"x": float("nan")}, {"x": float("nan"), "z": "a"}):
        with pytest.raises(ValueError, match="x has a value"):
            model.learn_one(bad, 1.0)
    model.set_params(alpha=0.5)
    with pytest.raises(ValueError, match="set it back"):
        model.coef_  # noqa: B018
    model.set_params(alpha=0.01)
    assert model.coef_.shape == (2,) and model.t_ == 50


def test_a_change_in_the_middle_of_a_long_array_is_seen():
    X, y = np.zeros((10, 2000)), np.arange(10.0)
    weights = np.ones(2000)
    model = sparsco.SparseRegressor(feature_weights=weights, alpha=0.1).partial_fit(X, y)
    model.set_params(feature_weights=np.where(np.arange(2000) == 1000, 2.0, 1.0))
    with pytest.raises(ValueError, match="feature_weights changed"):
        model.partial_fit(X, y)


def test_losses_of_the_other_kind():
    with pytest.raises(ValueError, match="is for numbers"):
        sparsco.SparseClassifier(loss=sparsco.losses.Poisson()).fit(np.eye(4), [0, 1, 0, 1])
    X = np.random.default_rng(0).normal(size=(500, 3))
    assert sparsco.SparseClassifier(loss="squared", alpha=0.01).fit(X, X[:, 0] > 0.0).score(X, X[:, 0] > 0.0) > 0.9


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"loss": sparsco.losses.Huber("a")}, r"Huber\(epsilon='a'\)"),
        ({"optimizer": sparsco.optimizers.RDA(beta="x")}, r"RDA\(beta='x'\)"),
        ({"conversion": sparsco.conversions.Suffix("a")}, r"Suffix\(alpha='a'\)"),
        ({"step_size": sparsco.steps.InverseSqrt("a")}, r"InverseSqrt\(c='a'\)"),
        ({"conversion": sparsco.optimizers.FOBOS()}, "expected your own conversion record"),
    ],
    ids=repr,
)
def test_words_for_numbers_and_parts_in_the_wrong_place(settings, says):
    with pytest.raises(ValueError, match=says):
        sparsco.SparseRegressor(**settings).fit(np.eye(4), np.arange(4.0))


def test_more_columns_than_memory():
    wide = 2**32 - 1  # a number of columns that is supported, at 256 GB
    X = sp.csr_array((np.ones(2), [7, wide - 1], [0, 1, 2]), shape=(2, wide))
    if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 2**38:
        with pytest.raises(MemoryError, match="storage='seen'"):
            sparsco.SparseRegressor(storage="all").fit(X, [0.0, 1.0])
    for storage in ("auto", "seen"):
        assert sparsco.SparseRegressor(storage=storage, alpha=0.1).fit(X, [0.0, 1.0]).n_features_in_ == wide


def test_a_first_row_with_stray_quotation_marks_is_named(tmp_path, capsys):
    path = tmp_path / "quotes.csv"
    path.write_text('a,b "x\n1,2\n3,4\n')
    assert main(["train", str(path), "--target", "a", "-m", str(tmp_path / "no.model")]) == 2
    assert "line 1: the first row cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "no.model").exists()


def test_a_package_that_is_missing_is_named(tmp_path, capsys, monkeypatch):
    path = tmp_path / "table.csv"
    path.write_text("a,target\n1,2\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    assert main(["train", str(path), "-m", str(tmp_path / "no.model")]) == 2
    assert "CSV files are read by pyarrow, which is not installed: pip install pyarrow" in capsys.readouterr().err
