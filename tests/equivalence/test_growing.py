"""Streams that grow: new features, new classes, one example at a time, storage that follows what is seen, pickles."""

from __future__ import annotations

import copy
import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor

import hypothesis
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sparsco import SparseClassifier, SparseClassifierCV, SparsePath, SparseRegressor, conversions, optimizers, steps
from sparsco.data.rows import as_matrix
from sparsco.data.slots import Columns, Names, SeenColumns
from sparsco.engine.run import Run
from sparsco.estimators import sparsify
from sparsco.estimators.fit_state import FitState
from sparsco.jit.dispatch import plain_python
from sparsco.losses import Logistic, Multinomial
from sparsco.optimizers import NFTRL
from sparsco.penalties import ElasticNet, GroupL1, L1Ball, RowGroup, TraceNorm
from sparsco.problem.targets import OneVsRest
from support import LONG
from support.cases import CONVERSIONS, OPTIMIZERS, sensible

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def staircase(n=1700, d=12, seed=0):
    """Rows whose features come one after the other, labels of two classes, and how many columns each row needs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    first = np.linspace(0, 0.8 * n, d).astype(int)
    X[np.arange(n)[:, None] < first] = 0.0
    y = (X @ np.linspace(1.0, -1.0, d) + 0.3 * rng.normal(size=n) > 0.0).astype(int)
    return X, y, [max(int(np.flatnonzero(X[: i + 1].any(0)).max(initial=0)) + 1, 1) for i in range(n)]


def as_dict(row):
    return {f"f{j}": float(row[j]) for j in np.flatnonzero(row)}


def as_pair(row, spread=1):
    return np.flatnonzero(row) * spread, row[np.flatnonzero(row)]


# ---- new features ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    "conversion", ["last", "average", "weighted", "random", "average-sl-diagonal", "last-sl", "optimal-sl"]
)
def test_growing_is_declaring(optimizer, conversion):
    """Any cut of a stream whose columns come late has the bits of one whose columns were all declared."""
    n = 200
    X, y, widths = staircase(n, 8)
    record, rho = OPTIMIZERS[optimizer][1], 0.0 if sensible(optimizer, "auto", "l1") else 0.1
    make = conversions.RandomIterate() if conversion == "random" else CONVERSIONS[conversion](n)

    def answer(cuts, declared):
        step = None if optimizer == "epoch-gd" else steps.Constant(0.1)
        run = Run(Logistic(), ElasticNet(0.01, rho), record, make, step, d=8 if declared else widths[0])
        for a, b in itertools.pairwise([0, *cuts, n]):
            d = 8 if declared else widths[b - 1]
            run.grow(d)
            run.feed(as_matrix(X[a:b, :d]), 2.0 * y[a:b] - 1.0)
            assert run.finish().w.shape == (d, 1)
            if b == 40:
                run.begin()  # as after 1000 rows
        return run.finish()

    with plain_python():
        expected = answer([40], declared=True)
        for cuts in ([40, 64, 65, 150], range(10, n, 10)):
            grown = answer(cuts, declared=False)
            assert np.array_equal(grown.w, expected.w) and np.array_equal(grown.b, expected.b)


@pytest.mark.parametrize("storage", ["all", "seen"])
def test_wider_rows_in_partial_fit(storage):
    X, y, widths = staircase()
    whole = SparseClassifier(alpha=0.01, random_state=0).partial_fit(X, y, classes=[0, 1])
    model = SparseClassifier(alpha=0.01, random_state=0, storage=storage)
    for a, b in itertools.pairwise([0, 300, 900, 1300, 1700]):
        model.partial_fit(sp.csr_array(X[a:b, : widths[b - 1]]), y[a:b], classes=[0, 1])
        assert model.n_features_in_ == widths[b - 1] == model.coef_.shape[1]
    if storage == "all":
        assert np.array_equal(model.coef_, whole.coef_)
    np.testing.assert_allclose(model.coef_ if storage == "all" else model.coef_.toarray(), whole.coef_, atol=1e-6)
    assert np.array_equal(model.predict(X), whole.predict(X))
    assert np.array_equal(model.get_support(), whole.get_support())
    with pytest.raises(ValueError, match="is expecting 12 features"):
        model.partial_fit(X[:, :11], y)
    with pytest.raises(ValueError, match="is expecting 12 features"):
        model.predict(np.ones((1, 13)))


def test_data_frames_may_grow_by_columns_at_the_end():
    pd = pytest.importorskip("pandas")
    X, y, _ = staircase(300, 4)
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = SparseRegressor(alpha=0.01).partial_fit(frame[["a", "b"]], y).partial_fit(frame[["a", "b", "c"]], y)
    assert model.feature_names_in_.tolist() == model.feature_names_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame[["b", "a", "c", "d"]], y)
    assert model.n_features_in_ == 3


def test_feature_weights_do_not_grow():
    X, y, _ = staircase(100, 4)
    model = SparseRegressor(feature_weights=np.ones(3)).partial_fit(X[:, :3], y)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match="a growing stream cannot have feature_weights"):
        model.partial_fit(X, y)
    assert pickle.dumps(model) == before
    with pytest.raises(ValueError, match="storage='seen'"):
        SparseRegressor(feature_weights=np.ones(3), storage="seen").fit(X[:, :3], y)
    with pytest.raises(ValueError, match="storage='some'"):
        SparseRegressor(storage="some").fit(X, y)


# ---- new classes -----------------------------------------------------------------------------------------------------


def three_classes(n=6000, third=3000):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 8)) * (rng.random((n, 8)) < 0.6)
    y = np.where(X[:, 0] - X[:, 1] > 0.0, "ham", "spam").astype(object)
    y[third:][X[third:, 2] > 0.3] = "eggs"
    return X, y


def test_two_classes_found_are_two_classes_declared():
    X, y = three_classes(third=6000)
    declared = SparseClassifier(random_state=0).partial_fit(X, y, classes=["ham", "spam"])
    found = SparseClassifier(random_state=0).partial_fit(X[:1], y[:1])
    assert found.predict(X[:5]).tolist() == [y[0]] * 5 and found.predict_proba(X[:5]).tolist() == [[1.0]] * 5
    found.partial_fit(X[1:], y[1:])
    # a lane for each class, or one for both four features at a time: sums are in another order
    for name in ("coef_", "intercept_"):
        assert getattr(found, name) == pytest.approx(getattr(declared, name), rel=1e-12, abs=0.0)
    assert found.predict_proba(X) == pytest.approx(declared.predict_proba(X), rel=1e-12, abs=0.0)


TIES = [
    {"loss": "multinomial"},
    {"penalty": "row-group"},
    {"penalty": "trace"},
    {"loss": "multinomial", "penalty": "trace"},
]
IN_GROUPS = {"penalty": GroupL1(0.01, np.arange(8) // 2)}
"""Groups of features, which no feature may join later."""


@pytest.mark.parametrize("third", [500, 3000])
@pytest.mark.parametrize("ties", [{}, *TIES, IN_GROUPS], ids=str)
def test_a_third_class_is_learned_whenever_it_comes(third, ties):
    X, y = three_classes(third=third)
    whole = SparseClassifier(random_state=0, **ties).partial_fit(X, y)
    assert whole.classes_.tolist() == ["eggs", "ham", "spam"] and whole.coef_.shape == (3, 8)
    late = slice(max(third, 3000), None)
    declared = SparseClassifier(random_state=0, **ties).partial_fit(X, y, classes=["eggs", "ham", "spam"])
    for chosen in (y[late] != "", y[late] == "eggs"):
        right, expected = (np.mean((model.predict(X[late]) == y[late])[chosen]) for model in (whole, declared))
        assert right > expected - 0.02
    if third == 500 and ties:
        np.testing.assert_allclose(whole.coef_, declared.coef_, rtol=0.0, atol=1e-12)
    cut = SparseClassifier(random_state=0, **ties)
    for a, b in itertools.pairwise([0, 10, 700, 3100, 6000]):
        cut.partial_fit(X[a:b], y[a:b])
        if b <= third:
            assert cut.coef_.shape == (1, 8)
    assert np.array_equal(cut.coef_, whole.coef_) and np.array_equal(cut.intercept_, whole.intercept_)
    again = pickle.loads(pickle.dumps(cut)).partial_fit(X, y)
    assert np.array_equal(again.coef_, cut.partial_fit(X, y).coef_)


def test_more_classes_than_lanes():
    rng = np.random.default_rng(2)
    y = np.concatenate([np.arange(40), rng.integers(0, 45, 2500)])
    X = sp.csr_array((np.ones(len(y)), (np.arange(len(y)), y)), shape=(len(y), 45))
    model = SparseClassifier(alpha=1e-4, random_state=0).partial_fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])
    assert model.coef_.shape == (45, 45) and np.mean(model.predict(X) == y) > 0.95


def test_labels_that_cannot_come():
    X, y = three_classes(200)
    closed = SparseClassifier().partial_fit(X, y, classes=["ham", "spam", "eggs"])
    with pytest.raises(ValueError, match="not among the classes .* leave classes= out"):
        closed.partial_fit(X[:1], ["beans"])
    with pytest.raises(ValueError, match="not among the classes"):
        closed.learn_one(as_pair(X[0]), "beans")
    found = SparseClassifier().partial_fit(X, y)
    before = pickle.dumps(found)
    for labels, words in (([1, 2], "cannot be sorted"), ([0.5, 0.25], "Unknown label type")):
        with pytest.raises(ValueError, match=words):
            found.partial_fit(X[:2], labels)
    with pytest.raises(ValueError, match="finds its classes itself"):
        found.partial_fit(X, y, classes=["ham", "spam", "beans"])
    for label, words in ((1, "cannot be sorted"), ([1], "cannot be a label"), (0.5, "Unknown label type")):
        with pytest.raises(ValueError, match=words):
            copy.deepcopy(found).learn_one(as_pair(X[0]), label)
    assert pickle.dumps(found) == before


def test_weights_of_classes_to_come():
    X, y = three_classes(3000, 1500)
    heavy = SparseClassifier(random_state=0, class_weight={"eggs": 3.0}).partial_fit(X, y)
    weights = np.where(y == "eggs", 3.0, 1.0)
    plain = SparseClassifier(random_state=0).partial_fit(X, y, sample_weight=weights)
    assert np.array_equal(heavy.coef_, plain.coef_)
    weights[y == "eggs"] = 0.0
    without = SparseClassifier(random_state=0).partial_fit(X, y, sample_weight=weights)
    assert without.classes_.tolist() == ["ham", "spam"]


# ---- classes that are tied together ----------------------------------------------------------------------------------


class Declared(OneVsRest):
    """Lanes for all classes, of which those that have not come yet are without a model."""

    def __init__(self, known, m, rest):
        super().__init__(0, known, rest)
        self.known, self.m = known, m

    def encode(self, y, weights, width, kind=np.float64):
        return OneVsRest(0, self.known, self.rest).encode(y, weights, width, kind)


TIED = {
    "fobos": optimizers.FOBOS(),
    "sgd": optimizers.SGD(),
    "rda": optimizers.RDA(0.5, 0.3, 0.0, 0.3),
    "ftrl": optimizers.FTRL(alpha=0.3),
    "nftrl": NFTRL(),
    "nftrl-own-clock": NFTRL(per_feature_clock=True),
    "adagrad-fobos": optimizers.AdaGradFOBOS(0.5, 0.5, 0.0),
    "adagrad-rda": optimizers.AdaGradRDA(0.5, 0.5, 0.0),
    "truncated": optimizers.TruncatedGradient(K=5),
    "epoch-gd": optimizers.EpochGD(T1=10, eta1=0.2),
    "orda": optimizers.ORDA(5.0, 0.1),
    "ssg": optimizers.SSG(5.0, 0.1),
    "batch-fobos": optimizers.BatchFOBOS(4),
    "batch-rda": optimizers.BatchRDA(4, 0.5, 0.3, 0.3),
}


ANSWERS = {
    "last": conversions.Last(),
    "average": conversions.Average(),
    "weighted": conversions.Average(power=3.0),
    "random": conversions.RandomIterate(),
    "average-sl": conversions.AverageSL(),
    "diagonal": conversions.AverageSL(metric="diagonal"),
    "last-sl": conversions.LastSL(L=3.0, last_factor=2.0),
    "optimal-sl": conversions.OptimalSL(L=3.0),
    "last-epoch": conversions.LastEpoch(),
}
CASES = [
    *itertools.product(TIED, ["last", "diagonal", "optimal-sl"]),
    *itertools.product(["rda", "nftrl", "batch-rda"], ["average", "weighted", "random", "average-sl", "last-sl"]),
    *itertools.product(["epoch-gd"], ["average", "last-epoch"]),
]


@pytest.mark.parametrize(("optimizer", "conversion"), CASES)
def test_a_class_before_its_first_row_is_a_lane_without_a_model(optimizer, conversion):
    """Wherever classes and features come, the bits are those of lanes that were there and had weight 0."""
    n, first = 160, np.array([0, 0, 50, 97, 97, 120, 130, 150, 150])  # the example at which each class appears
    X, _, widths = staircase(n, 8)
    rng = np.random.default_rng(3)
    y = np.array([rng.choice(np.flatnonzero(first <= i)) for i in range(n)], dtype=np.float64)
    rho = 0.1 if optimizer == "epoch-gd" else 0.0
    step = None if optimizer == "epoch-gd" else steps.Constant(0.1)
    batched = optimizer.startswith("batch")
    penalties = [RowGroup if batched or optimizer in ("fobos", "rda", "epoch-gd") else ElasticNet]
    penalties += [TraceNorm] * batched

    def answer(loss, penalty, cuts, declared):
        rest = 0.0 if loss == Multinomial() else -1.0
        lanes = (lambda known: Declared(known, 9, rest)) if declared else (lambda known: OneVsRest(0, known, rest))
        d = 8 if declared else widths[0]
        run = Run(loss, penalty, TIED[optimizer], ANSWERS[conversion], step, d=d, targets=lanes(2))
        for a, b in itertools.pairwise(cuts):
            d = 8 if declared else widths[b - 1]
            run.grow(d)
            run.retarget(lanes(int(np.sum(first <= a))))
            run.feed(as_matrix(X[a:b, :d]), y[a:b])
            if b == 40:
                run.begin()  # as after 1000 rows
            if b > 40:
                assert run.weights()[0].shape == (d, 9 if declared else np.sum(first <= a))
        return run.finish()

    cuts = [0, 40, *np.unique(first)[1:].tolist(), n]
    for loss, kind in itertools.product([Multinomial(), Logistic()], penalties):
        with plain_python():
            expected = answer(loss, kind(0.01, rho), cuts, declared=True)
            for more in ([], range(40, n, 7)) if LONG else [range(40, n, 7)]:
                grown = answer(loss, kind(0.01, rho), sorted({*cuts, *more}), declared=False)
                if batched or conversion == "optimal-sl":  # whole arrays: sums over lanes are in another order
                    np.testing.assert_allclose(grown.w, expected.w, rtol=0.0, atol=1e-12)
                    np.testing.assert_allclose(grown.b, expected.b, rtol=0.0, atol=1e-12)
                else:
                    assert np.array_equal(grown.w, expected.w) and np.array_equal(grown.b, expected.b)


def words(n=5000, seed=4):
    """Rows that name their class by a feature of its own; "d" and "b" first appear in one row after the other, both
    with features that nobody has seen, "a" later."""
    rng = np.random.default_rng(seed)
    code = rng.integers(0, 2, n)
    code[1500:] = rng.integers(0, 4, n - 1500)
    code[2500:] = rng.integers(0, 5, n - 2500)
    code[1500], code[1501], code[2500] = 2, 3, 4
    X = np.zeros((n, 10))
    X[np.arange(n), code] = 1.0
    X[np.arange(n), 5 + rng.integers(0, 5, n)] = rng.random(n) < 0.5
    X = X[:, [0, 1, 5, 6, 7, 8, 9, 2, 3, 4]]
    return X, np.array(["e", "c", "d", "b", "a"])[code], [7 if i < 1500 else 9 if i < 2500 else 10 for i in range(n)]


@pytest.mark.parametrize("ties", TIES, ids=str)
def test_features_and_classes_in_the_same_rows(ties):
    X, y, widths = words()
    whole = SparseClassifier(random_state=0, **ties).partial_fit(X, y)
    assert whole.classes_.tolist() == ["a", "b", "c", "d", "e"] and whole.coef_.shape == (5, 10)
    assert whole.coef_.argmax(1).tolist() == [9, 8, 1, 7, 0]  # each class by its word
    assert np.mean(whole.predict(X[2500:]) == y[2500:]) > 0.95
    np.testing.assert_allclose(whole.predict_proba(X).sum(1), 1.0)
    cut = SparseClassifier(random_state=0, **ties)
    for a, b in itertools.pairwise([0, 600, 1400, 1501, 1502, 2400, 2600, 5000]):
        cut.partial_fit(X[a:b, : widths[b - 1]], y[a:b])
        assert cut.coef_.shape == ({7: 1, 9: 4, 10: 5}[widths[b - 1]] - (b == 1501), widths[b - 1])
        cut = pickle.loads(pickle.dumps(cut))
    assert np.array_equal(cut.coef_, whole.coef_) and np.array_equal(cut.intercept_, whole.intercept_)
    assert [look["t"] for look in whole.history_] == [1000, 4000, 5000]


@pytest.mark.parametrize("ties", TIES, ids=str)
def test_late_classes_one_example_at_a_time(ties):
    X, y, _ = words()
    settings = {"random_state": 0, "conversion": "last", "alpha": 0.01, **ties}
    if "penalty" not in ties:
        settings["optimizer"] = NFTRL(per_feature_clock=True)
    rows = SparseClassifier(**settings).partial_fit(X, y)
    ones, named = SparseClassifier(**settings), SparseClassifier(**settings)
    for row, label in zip(X, y, strict=True):
        ones.learn_one(as_pair(row), label)
        named.learn_one(as_dict(row), label)
    assert np.array_equal(ones.coef_, rows.coef_) and np.array_equal(ones.intercept_, rows.intercept_)
    assert ones.classes_.tolist() == named.classes_.tolist() == ["a", "b", "c", "d", "e"]
    for column, label in enumerate("ec.....dba"):
        if label != ".":
            assert ones.predict_one(([column], [1.0])) == named.predict_one({f"f{column}": 1.0}) == label
    best = named.predict_proba_one({"f7": 1.0})
    assert sum(best.values()) == pytest.approx(1.0) and max(best, key=best.get) == "d"


def test_two_classes_of_a_softmax_that_may_become_more():
    X, y = three_classes(3000, third=3000)
    declared = SparseClassifier("multinomial", random_state=0).partial_fit(X, y, classes=["ham", "spam"])
    found = SparseClassifier("multinomial", random_state=0).partial_fit(X[:1], y[:1])
    assert found.predict_proba(X[:5]).tolist() == [[1.0]] * 5
    found.partial_fit(X[1:], y[1:])
    assert found.coef_.shape == (1, 8) and found.decision_function(X).shape == (3000,)
    p = found.predict_proba(X)
    np.testing.assert_allclose(p, declared.predict_proba(X), atol=0.02)
    np.testing.assert_allclose(np.log(p[:, 1] / p[:, 0]), found.decision_function(X), atol=1e-9)
    assert np.array_equal(found.classes_[p.argmax(1)], found.predict(X))
    assert sorted(found.predict_proba_one(as_pair(X[0]))) == ["ham", "spam"]


@pytest.mark.parametrize("penalty", ["row-group", "trace"])
def test_two_classes_that_are_tied_are_mirror_images(penalty):
    X, y = three_classes(900, third=900)
    for alpha, declared in (("auto", "auto"), (0.05, 0.05 / np.sqrt(2.0))):
        found = SparseClassifier(penalty=penalty, alpha=alpha, random_state=0).partial_fit(X, y)
        one = SparseClassifier(penalty=penalty, alpha=declared, random_state=0)
        one.partial_fit(X, y, classes=["ham", "spam"])
        np.testing.assert_allclose(found.coef_, one.coef_, rtol=0.0, atol=1e-4)


def test_more_classes_than_one_softmax_has():
    y = np.concatenate([np.arange(128), np.arange(1300) % 128])
    X = sp.csr_array((np.ones(len(y)), (np.arange(len(y)), y)), shape=(len(y), 140))
    model = SparseClassifier("multinomial", alpha=1e-4, conversion="last", random_state=0)
    with pytest.raises(ValueError, match="NFTRL learns at most 128 models that are tied together, not 129"):
        model.partial_fit(X[:129], np.arange(129))
    assert not hasattr(model, "classes_")
    for rows in (slice(0, 1), slice(1, 200), slice(200, None)):
        model.partial_fit(X[rows], y[rows])
        before, coef = model.classes_, model.coef_
        if len(before) == 128:
            with pytest.raises(ValueError, match="at most 128"):
                model.partial_fit(X[:2], [5, 200])
            with pytest.raises(ValueError, match="at most 128"):
                model.learn_one(([3], [1.0]), 200)
            assert model.classes_ is before and np.array_equal(model.coef_, coef)
    assert model.coef_.shape == (128, 140)
    batches = SparseClassifier("multinomial", optimizer="batch-fobos", alpha=1e-4, random_state=0)
    batches.partial_fit(X[:1200], y[:1200]).partial_fit(X[:14], np.arange(126, 140))
    assert batches.coef_.shape == (140, 140)


def test_a_class_of_weight_zero_is_a_lane_of_its_own():
    X, y = three_classes(2500, 1500)
    whole = SparseClassifier("multinomial", random_state=0, class_weight={"eggs": 0.0}).partial_fit(X, y)
    cut = clone(whole)
    for a, b in itertools.pairwise([0, 1400, 1900, 2500]):
        cut.partial_fit(X[a:b], y[a:b])
    assert np.array_equal(cut.coef_, whole.coef_) and "eggs" not in cut.predict(X)


@pytest.mark.parametrize("ties", [{}, {"loss": "multinomial"}], ids=str)
def test_fit_goes_on_with_classes_that_were_found(ties):
    X, y = three_classes(2000, 200)
    X, y = X[::-1].copy(), y[::-1].copy()  # "spam" comes first, and last among the sorted
    model = SparseClassifier(random_state=0, warm_start=True, **ties).partial_fit(X, y)
    assert list(model.fit_state.codes) != model.classes_.tolist()
    right = model.score(X, y)
    assert model.fit(X, y).score(X, y) > right - 0.01


def test_hinges_in_row_groups_take_late_classes():
    X, y, _ = words()
    model = SparseClassifier("hinge", penalty="row-group", optimizer="fobos", alpha=1e-3, random_state=0)
    model.partial_fit(X[:2000], y[:2000]).partial_fit(X[2000:], y[2000:])
    assert np.mean(model.predict(X[2500:]) == y[2500:]) > 0.95


# ---- one example at a time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [300, 1700])
def test_one_at_a_time_is_partial_fit(n):
    """The same optimizer on the same rows: the same iterate, however the features are named and stored."""
    X, y, _ = staircase(n)
    settings = {"alpha": 0.003, "optimizer": NFTRL(per_feature_clock=True), "random_state": 0}
    rows = SparseClassifier(**settings).partial_fit(X, y, classes=[0, 1])
    pairs, seen, named = (SparseClassifier(random_state=0, alpha=0.003, storage=s) for s in ("all", "seen", "all"))
    for row, label in zip(X, y, strict=True):
        pairs.learn_one(as_pair(row), label)
        seen.learn_one(as_pair(row, 10**15), label)
        named.learn_one(as_dict(row), label)
    assert pairs.t_ == named.t_ == n and pairs.n_features_in_ == 12
    assert np.array_equal(pairs.coef_, rows.coef_)
    assert np.array_equal(seen.coef_.indices, np.flatnonzero(rows.coef_) * 10**15)
    assert np.array_equal(seen.coef_.data, rows.coef_[rows.coef_ != 0.0])
    places = [int(name[1:]) for name in named.feature_names_]
    np.testing.assert_allclose(named.coef_, rows.coef_[:, places], rtol=1e-9, atol=1e-12)
    assert type(named.report_["conversion"]).__name__ == "Last" and named.report_["optimizer"].per_feature_clock
    for row in X[:20]:
        label = rows.predict(row[None])[0]
        assert pairs.predict_one(as_pair(row)) == label == named.predict_one(as_dict(row) | {"unknown": 5.0})
        p = rows.predict_proba(row[None])[0, 1]
        assert seen.predict_proba_one(as_pair(row, 10**15)) == pytest.approx({0: 1.0 - p, 1: p}, rel=1e-12)
        assert rows.predict_one(as_pair(row)) == label


def test_a_regression_one_at_a_time():
    X, _, _ = staircase()
    model = SparseRegressor(alpha=1e-4)
    for row in X:
        model.learn_one(as_dict(row), 3.0 * row[0] - row[1])
    assert model.predict_one({"f0": 1.0}) == pytest.approx(3.0, abs=0.1)
    assert model.predict_one({"f0": 1.0}) == pytest.approx(model.predict([[1.0] + [0.0] * 11])[0], rel=1e-12)
    assert set(model.get_feature_names_out()) <= set(model.feature_names_)
    assert not hasattr(model, "predict_proba_one")


def test_tokens_are_counted():
    tokens, counts, sure = SparseClassifier(alpha=0.01), SparseClassifier(alpha=0.01), SparseClassifier(alpha=0.01)
    rng = np.random.default_rng(0)
    for _ in range(700):
        words = rng.choice(["buy", "now", "hello", "you"], size=rng.integers(0, 6)).tolist()
        spam = "buy" in words
        tokens.learn_one(words, spam)
        counts.learn_one({word: words.count(word) for word in words}, spam)
        sure.learn_one({word: 1.0 * words.count(word) for word in [*words, "none"]}, spam)  # a zero teaches nothing
    assert np.array_equal(tokens.coef_, counts.coef_)
    assert tokens.predict_one(["buy", "buy"]) is True and tokens.predict_one(["hello", "never seen"]) is False
    named = [dict(zip(model.feature_names_, model.coef_[0], strict=True)) for model in (sure, tokens)]
    assert named[0] == named[1] | {"none": 0.0} and np.count_nonzero(tokens.coef_)


def test_bad_examples_leave_no_trace():
    model = SparseClassifier()
    for x in ({"a": np.nan}, {"a": ["b"]}, 3.0, "text", [["a"]], ([0.5], [1.0]), ([0], [1.0, 2.0]), ([-1], [1.0])):
        with pytest.raises((ValueError, TypeError)):
            model.learn_one(x, 1)
        assert vars(model).keys() == vars(SparseClassifier()).keys()
    with pytest.raises(ValueError, match=r"x is a ndarray: give a dict.*a tuple .*partial_fit takes"):
        model.learn_one(np.ones(3), 1)
    with pytest.raises(NotFittedError):
        model.predict_one({"a": 1.0})
    model.learn_one({"a": 1.0}, 1).learn_one({}, 0)
    twin = clone(model).learn_one({"a": 1.0}, 1).learn_one({}, 0)
    for x, y in (({"b": np.inf}, 1), ({"b": 1e80}, 1), (([0], [1.0]), 1), ({"b": 1.0}, "x"), ({"b": 1.0}, None)):
        with pytest.raises(ValueError):
            model.learn_one(x, y)
    assert model.classes_.tolist() == [0, 1] and model.feature_names_.tolist() == ["a"]
    assert np.array_equal(model.coef_, twin.coef_)
    with pytest.raises(ValueError, match="must be a number"):
        SparseRegressor().learn_one({"a": 1.0}, "x")
    numbered = SparseRegressor(storage="seen").learn_one(([1], [1.0]), 1.0)
    for x in ({"a": 1.0}, ["a"], ([1 << 62], [1.0])):
        with pytest.raises(ValueError):
            numbered.learn_one(x, 1.0)
    with pytest.raises(ValueError, match="alpha changed"):
        numbered.set_params(alpha=1.0).learn_one(([1], [1.0]), 1.0).t_  # noqa: B018


def test_parts_that_learn_one_is_told():
    """An optimizer or a conversion by name is what it is elsewhere."""
    X, y, _ = staircase(600)
    settings = {"optimizer": "fobos", "conversion": "average", "alpha": 0.01, "random_state": 0}
    rows = SparseClassifier(**settings).partial_fit(X, y, classes=[0, 1])
    ones = SparseClassifier(**settings)
    for row, label in zip(X, y, strict=True):
        ones.learn_one(as_pair(row), label)
    np.testing.assert_allclose(ones.coef_, rows.coef_, rtol=0.0, atol=1e-13)  # another kernel: two models at once


def test_learn_one_goes_on_with_any_stream():
    X, y, _ = staircase(1500)
    fitted = SparseClassifier(max_iter=1, shuffle=False, tol=None, alpha=0.01, random_state=0).fit(X[:1200], y[:1200])
    rows = copy.deepcopy(fitted).partial_fit(X[1200:], y[1200:])
    for row, label in zip(X[1200:], y[1200:], strict=True):
        fitted.learn_one(as_pair(row), label)
    assert np.array_equal(fitted.coef_, rows.coef_)
    fitted.fit(X, y)
    assert fitted.t_ == 1500


# ---- a clock per feature ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.0, 0.01])
def test_a_late_feature_learns_like_a_new_one(rho):
    """After 10^6 unrelated examples, the weight after n appearances is that of a fresh model."""
    rng = np.random.default_rng(0)
    n, late = 1_000_000, 300
    other = sp.csr_array((rng.normal(size=n), (np.arange(n), np.zeros(n, int))), shape=(n, 2))
    noise = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    values = rng.normal(size=late)
    new = sp.csr_array((values, (np.arange(late), np.ones(late, int))), shape=(late, 2))
    target = np.where(values + 0.5 * rng.normal(size=late) > 0.0, 1.0, -1.0)

    def weights(optimizer, before):
        run = Run(Logistic(), ElasticNet(0.01, rho), optimizer, d=2, intercept=False)
        if before:
            run.feed(as_matrix(other), noise)
        else:
            run.feed(as_matrix(new[:0]), target[:0])
            run.begin()
        out = []
        for k in range(0, late, 20):
            run.feed(as_matrix(new[k : k + 20]), target[k : k + 20])
            out.append(run.weights()[0][1, 0])
        return np.array(out)

    fresh = weights(NFTRL(per_feature_clock=True), before=False)
    np.testing.assert_allclose(weights(NFTRL(per_feature_clock=True), before=True), fresh, rtol=0.03)
    assert fresh[-1] > 0.5
    assert not weights(NFTRL(), before=True).any()  # what its own clock is for
    np.testing.assert_allclose(weights(NFTRL(), before=False), fresh, rtol=1e-12)  # here from the start: no difference


# ---- storage that follows the features seen --------------------------------------------------------------------------


def test_slots_are_found_again():
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 2**62, size=5000)
    columns[2500:] = rng.permutation(columns[:2500])
    seen, everywhere = SeenColumns(), {}
    for part in np.split(columns, 10):
        rows = np.arange(len(part) + 1)
        placed = seen.place(as_matrix(sp.csr_array((np.ones(500), part, rows), shape=(500, 2**62)), wide=True))
        assert placed.indices.tolist() == [everywhere.setdefault(c, len(everywhere)) for c in part.tolist()]
        assert placed.d == len(seen) == len(everywhere)
    unknown = sp.csr_array((np.ones(3), np.array([columns[7], 5, columns[3]]), np.array([0, 2, 3])), shape=(2, 2**62))
    found = seen.find(as_matrix(unknown, wide=True))
    assert found.indptr.tolist() == [0, 1, 2]
    assert seen.to_columns(found.indices.astype(int)).tolist() == [columns[7], columns[3]]
    assert seen._table.nbytes + seen._of_slot.nbytes < 100 * len(seen)


@hypothesis.settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 40), max_size=40), min_size=1, max_size=4),
    st.sampled_from([41, 60, 10_000, 2**40]),
    st.integers(0, 3),
)
@example([[], [*range(40)], [*range(41)]], 41, 0)
def test_slots_are_in_the_order_in_which_columns_come(parts, d, undone):
    """Whether or not the first rows are many for their columns, and numbered without a table; what is undone goes."""
    seen, everywhere = SeenColumns(), {}
    assert (seen.slots_of(np.arange(42)) == -1).all()

    def place(columns):
        matrix = as_matrix(sp.csr_array((np.ones(len(columns)), columns, [0, len(columns)]), shape=(1, d)), wide=True)
        return seen.place(matrix)

    for k, part in enumerate(parts):
        columns, mark = np.unique(np.array(part, np.int64)), seen.mark()
        if k == undone:
            place(columns)
            seen.back_to(mark)
        placed = place(columns)
        assert placed.indices.tolist() == [everywhere.setdefault(c, len(everywhere)) for c in columns.tolist()]
        assert placed.d == seen.room == max(len(everywhere), 1) and len(seen) == len(everywhere)
        assert seen.slots_of(np.arange(42)).tolist() == [everywhere.get(c, -1) for c in range(42)]


def test_rows_without_entries_leave_slots_as_they_are():
    seen, empty = SeenColumns(), (np.empty(0, np.int64), np.empty(0))
    seen.note(empty)
    assert seen.drain().d == 1 and len(seen) == 0
    seen.note((np.array([10**6]), np.ones(1)))
    assert seen.drain().indices.tolist() == [0] and seen.width == 10**6 + 1
    X = sp.random_array((3000, 20), density=0.5, rng=np.random.default_rng(0), format="csr")
    y = (X[:, [0]].toarray()[:, 0] > X[:, [1]].toarray()[:, 0]).astype(int)
    with_empty, without = (SparseClassifier(storage="seen", optimizer="fobos", alpha=0.01) for _ in range(2))
    with_empty.partial_fit(sp.csr_array((2, 20)), [0, 1], classes=[0, 1])
    without.partial_fit(sp.csr_array((2, 30)), [0, 1], classes=[0, 1])  # more columns than entries can be many for
    for model, width in ((with_empty, 20), (without, 10**6)):
        for rows in np.split(np.arange(3000), 3):
            part = sp.csr_array((X[rows].data, X[rows].indices, X[rows].indptr), shape=(1000, width))
            model.partial_fit(part, y[rows])
        assert len(model.fit_state.features) == 20
    assert np.array_equal(with_empty.coef_.data, without.coef_.data)


def test_looking_features_up_changes_nothing_and_is_for_several_threads():
    d = 300_000
    columns = np.random.default_rng(0).permutation(d)
    row = as_matrix(sp.csr_array((np.ones(d), columns, [0, d]), shape=(1, d)), wide=True)
    seen = SeenColumns()
    placed = seen.place(row)
    size = len(pickle.dumps(seen))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: seen.find(row).indices, range(8)))
    assert all(np.array_equal(each, placed.indices) for each in found)
    assert len(pickle.dumps(seen)) == size
    assert np.array_equal(pickle.loads(pickle.dumps(seen)).find(row).indices, placed.indices)


@pytest.mark.parametrize("storage", ["all", "seen"])
@pytest.mark.parametrize("index", [-1, 10, 2**30])
def test_indices_outside_of_the_columns_are_refused(storage, index):
    X = sp.random_array((50, 10), density=0.5, rng=np.random.default_rng(0), format="csr")
    for at in (0, 20, X.nnz - 1):
        bad = X.copy()
        bad.indices[at] = index
        with pytest.raises(ValueError, match="X has an index outside of its 10 columns"):
            SparseClassifier(storage=storage).fit(bad, np.arange(50) % 2)


def test_storage_follows_the_features_seen():
    """A hundred thousand rows of a billion columns: the state has room for twice the features that came, no more."""
    rng = np.random.default_rng(0)
    columns = np.unique(rng.integers(0, 10**9, size=2000))
    model = SparseClassifier(alpha=1e-4, storage="seen")
    for _ in range(4):
        picked = np.sort(columns[rng.integers(0, len(columns), (3000, 5))], axis=1)
        X = sp.csr_array((np.ones(15_000), picked.ravel(), np.arange(0, 15_001, 5)), shape=(3000, 10**9))
        model.partial_fit(X, (picked[:, 0] % 2).astype(int), classes=[0, 1])
    run = model.fit_state.runs[0]
    assert len(columns) / 2 < len(model.fit_state.features) <= len(columns) and run.problem.d <= 2 * len(columns)
    assert run.state.cell.size <= 8 * 2 * len(columns)
    assert model.coef_.shape == (1, 10**9) and model.n_nonzero_ == model.coef_.nnz
    assert model.predict(X).shape == (3000,)
    settings = {"alpha": 1e-4, "conversion": "last", "random_state": 0}
    passes = SparseClassifier(storage="seen", **settings).fit(X, (picked[:, 0] % 2).astype(int))
    dense = SparseClassifier(**settings)
    places = np.searchsorted(columns, picked)
    dense.fit(sp.csr_array((np.ones(15_000), places.ravel(), X.indptr)), (picked[:, 0] % 2).astype(int))
    assert np.array_equal(passes.coef_.data, dense.coef_[0, np.searchsorted(columns, passes.coef_.indices)])
    assert passes.n_nonzero_ == dense.n_nonzero_


@pytest.mark.parametrize("conversion", ["last", "average-sl"])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_many_columns_have_room_by_what_was_seen(conversion, l1_ratio):
    """With a million columns the state follows what occurs; the model is that of the same rows with room for all."""
    rng = np.random.default_rng(0)
    d, k = 2**20, 300
    columns = np.sort(rng.choice(d, k, replace=False))
    X = sp.random_array((2500, k), density=0.05, rng=rng, format="csr")
    y = (X @ rng.normal(size=k) > 0.0).astype(int)
    wide = sp.csr_array((X.data, columns[X.indices], X.indptr), shape=(len(y), d))
    settings = {
        "alpha": 0.001,
        "conversion": conversion,
        "l1_ratio": l1_ratio,
        "random_state": 0,
        "max_iter": 1,
        "tol": None,
        "shuffle": False,
    }
    auto, every = (SparseClassifier(storage=s, **settings).fit(wide, y) for s in ("auto", "all"))
    assert auto.fit_state.runs[0].problem.d <= k and every.fit_state.runs[0].problem.d >= d
    assert auto.coef_.shape == every.coef_.shape == (1, d) and auto.n_nonzero_ > 20
    # AverageSL descends along coordinates in the order of the slots, until little changes
    digits = {"rtol": 0.0, "atol": 0.0 if conversion == "last" else 1e-5 * abs(every.coef_).max()}
    np.testing.assert_allclose(auto.coef_, every.coef_, **digits)
    assert np.array_equal(auto.get_support(), every.get_support())
    np.testing.assert_allclose(auto.decision_function(wide), every.decision_function(wide), **digits)
    parts = SparseClassifier(**settings)
    for rows in np.split(np.arange(2500), [7, 900, 2400]):
        parts.partial_fit(wide[rows], y[rows], classes=[0, 1])
    assert parts.fit_state.runs[0].problem.d < 2 * k and np.array_equal(parts.coef_, auto.coef_)
    loaded = pickle.loads(pickle.dumps(auto))
    assert np.array_equal(loaded.coef_, auto.coef_) and np.array_equal(loaded.predict(wide), auto.predict(wide))
    smaller = sparsify.keep_largest(auto, 5)
    assert smaller.n_nonzero_ == 5 and smaller.coef_.shape == (1, d)
    begun = [SparseClassifier(storage=s, **settings).fit(wide, y, coef_init=auto.coef_) for s in ("auto", "all")]
    np.testing.assert_allclose(begun[0].coef_, begun[1].coef_, **digits)
    fixed = SparseClassifier(**settings, feature_weights=np.ones(d)).fit(wide, y)
    assert fixed.fit_state.runs[0].problem.d == d


def test_an_error_forgets_the_columns_that_came_with_it(monkeypatch):
    d, y = 2**20, np.arange(40) % 2
    narrow, wide = (sp.csr_array((np.ones(40), (np.arange(40), c + np.arange(40))), shape=(40, d)) for c in (0, 1000))
    model = SparseClassifier(alpha=1e-3, random_state=0).partial_fit(narrow, y, classes=[0, 1])
    before = model.decision_function(wide)
    with monkeypatch.context() as broken:
        broken.setattr(FitState, "feed", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.partial_fit(wide, y)
    assert np.array_equal(model.decision_function(wide), before)
    twin = copy.deepcopy(model).partial_fit(wide, y)
    assert np.array_equal(model.partial_fit(wide, y).coef_, twin.coef_)


def test_rows_without_a_number_among_many_columns():
    empty = sp.csr_array((4, 2**20))
    for settings in ({"alpha": 0.1, "polish": True}, {"penalty": L1Ball(3.0)}, {"optimizer": "batch-rda"}, {}):
        model = SparseClassifier(**settings).fit(empty, [0, 1, 0, 1])
        assert model.n_nonzero_ == 0 and model.coef_.shape == (1, 2**20) and len(model.predict(empty)) == 4


def test_folds_agree_alike_whatever_has_room():
    rng = np.random.default_rng(0)
    X = sp.random_array((400, 30), density=0.2, rng=rng, format="csr")
    wide = sp.csr_array((X.data, X.indices * 1000, X.indptr), shape=(400, 2**20))
    y = (X @ rng.normal(size=30) + 0.3 * rng.normal(size=400) > 0).astype(int)
    found = [
        SparseClassifierCV(SparseClassifier(random_state=0, conversion="last", storage=s), n_alphas=3, cv=3)
        for s in ("auto", "all")
    ]
    for model in found:
        model.fit(wide, y)
    assert np.array_equal(found[0].path_.stability, found[1].path_.stability)


def test_weights_from_elsewhere_may_be_sparse():
    X, y, _ = staircase(300)
    for storage in ("all", "seen"):
        model = SparseClassifier(alpha=0.01, storage=storage).fit(X, y).sparsify()
        twin = model.with_weights(2.0 * model.coef_, model.intercept_)
        assert sp.issparse(twin.coef_) and np.array_equal(twin.coef_.toarray(), 2.0 * model.coef_.toarray())


def test_int64_indices_work_everywhere():
    X, y, _ = staircase(1200)
    narrow, wide = sp.csr_array(X), sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    for storage in ("all", "seen"):
        a, b = (SparseClassifier(storage=storage, random_state=0).fit(Z, y) for Z in (narrow, wide))
        assert np.array_equal(a.decision_function(narrow), b.decision_function(wide))
        a, b = (SparseRegressor(storage=storage).partial_fit(Z, y) for Z in (narrow, wide))
        assert np.array_equal(a.predict(narrow), b.predict(wide))
        assert np.array_equal(a.transform(narrow).toarray(), b.transform(wide).toarray())


def test_too_many_columns_for_memory():
    X = sp.csr_array((np.ones(2), (np.array([0, 1]), np.array([5, 2**32 - 2]))), shape=(2, 2**32 - 1))
    with pytest.raises(MemoryError, match="storage='seen'"):
        SparseRegressor(conversion="last", optimizer="nftrl", alpha=0.1, storage="all").fit(X, [0.0, 1.0])
    huge = sp.csr_array((np.ones(2), (np.array([0, 1]), np.array([5, 2**62 - 1]))), shape=(2, 2**62))
    with pytest.raises(ValueError, match="storage='seen'"):
        SparseRegressor(storage="all").fit(huge, [0.0, 1.0])
    with pytest.raises(ValueError, match="storage='seen'"):  # a path is a stream, where the width decides nothing
        SparsePath(SparseRegressor(), alphas=[0.1]).partial_fit(huge, [0.0, 1.0])
    model = SparseRegressor().fit(huge, [0.0, 1.0])
    with pytest.raises(MemoryError, match="call sparsify"):
        model.coef_  # noqa: B018
    assert model.sparsify().coef_.shape == (1, 2**62)
    assert SparseRegressor(storage="seen").fit(huge, [0.0, 1.0]).coef_.shape == (1, 2**62)


# ---- pickles ---------------------------------------------------------------------------------------------------------


def test_a_fitted_model_pickles_small():
    rng = np.random.default_rng(0)
    n, d, k = 4000, 10_000_000, 1000
    columns = rng.integers(0, k, size=(n, 20)) * (d // k)
    X = sp.csr_array((rng.normal(size=20 * n), columns.ravel(), np.arange(0, 20 * n + 1, 20)), shape=(n, d))
    y = X @ np.where(np.arange(d) % (d // k) == 0, 1.0, 0.0)
    model = SparseRegressor(alpha=1e-4, max_iter=1, optimizer="nftrl", conversion="last", random_state=0).fit(X, y)
    assert 900 <= model.n_nonzero_ <= 1000
    small = pickle.dumps(model)
    assert len(small) < 100_000
    loaded = pickle.loads(small)
    assert np.array_equal(loaded.predict(X), model.predict(X)) and loaded.report_.keys() == model.report_.keys()
    for go_on in (lambda m: m.partial_fit(X, y), lambda m: m.learn_one(([1], [1.0]), 1.0)):
        with pytest.raises(ValueError, match=r"pickle made after fit holds no training state \(warm_start=True"):
            go_on(loaded)
    assert len(pickle.dumps(model.finalize())) < 100_000
    with pytest.raises(ValueError, match="finalize"):
        model.partial_fit(X, y)


@pytest.mark.parametrize("form", [as_dict, as_pair])
def test_a_stream_pickles_whole(form):
    X, y, _ = staircase()
    model = SparseClassifier(alpha=0.001, storage="seen")
    for row, label in zip(X[:1300], y[:1300], strict=True):
        model.learn_one(form(row), label)
    twins = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    for each in (model, *twins):
        for row, label in zip(X[1300:], y[1300:], strict=True):
            each.learn_one(form(row), label)
        assert sp.issparse(each.coef_) == (form is as_pair)
        assert np.array_equal(each.sparsify().coef_.toarray(), model.sparsify().coef_.toarray())
    expected = [model.predict_one(form(row)) for row in X]
    names = model.feature_names_[model.get_support()].tolist() if form is as_dict else None
    model.finalize()
    assert [model.predict_one(form(row)) for row in X] == expected
    assert names is None or model.feature_names_.tolist() == names == model.get_feature_names_out().tolist()
    with pytest.raises(ValueError, match="finalize"):
        model.learn_one(form(X[0]), 1)


def test_warm_starts_are_pickled_whole():
    X, y, _ = staircase(1500)
    warm = SparseClassifier(warm_start=True, max_iter=1, random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(warm))
    assert np.array_equal(again.fit(X, y).coef_, warm.fit(X, y).coef_)


def test_features_forget_what_was_noted():
    for features, x in ((Names(), {"a": 1.0}), (Columns(), ([3], [1.0])), (SeenColumns(), ([3], [1.0]))):
        features.note(x)
        features.note(x)
        features.unnote()
        assert len(features.drain()) == 1 and len(features) in (1, 4)


def test_columns_without_names_cannot_join_columns_with_names():
    """Eight columns with four names: no names could be told afterwards."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.eye(4), columns=list("abcd"))
    model = SparseRegressor(alpha=0.01).partial_fit(frame, np.arange(4.0))
    before = model.coef_
    with pytest.raises(ValueError, match="8 columns without names.*4 columns that have names.*pass a data frame"):
        model.partial_fit(np.ones((2, 8)), np.ones(2))
    with pytest.raises(ValueError, match="6 columns without names.*4 columns that have names"):
        model.learn_one(([1, 5], [1.0, 1.0]), 1.0)
    assert model.n_features_in_ == 4 and np.array_equal(model.coef_, before)
    model.learn_one(([1, 3], [1.0, 1.0]), 1.0)
    assert len(model.feature_names_) == 4
    wider = pd.DataFrame(np.ones((2, 6)), columns=list("abcdef"))
    model.partial_fit(wider, np.ones(2))
    assert len(model.feature_names_) == 6 and model.t_ == 7
    path = SparsePath(alphas=[0.1, 0.01], estimator=SparseRegressor()).partial_fit(frame, np.arange(4.0))
    with pytest.raises(ValueError, match="8 columns without names"):
        path.partial_fit(np.ones((2, 8)), np.ones(2))
