"""Paths: lanes of different strength are runs of their own, whatever learns beside them; what is judged and chosen."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsco import (
    SparseClassifier,
    SparseClassifierCV,
    SparsePath,
    SparseRegressor,
    SparseRegressorCV,
    conversions,
    load,
    optimizers,
    plots,
    save,
)
from sparsco.cli import main
from sparsco.data.rows import as_matrix
from sparsco.datasets.generators import text_like
from sparsco.engine.grid import Grid
from sparsco.engine.run import Run
from sparsco.jit.dispatch import plain_python
from sparsco.jit.lanes import Singles, SingleTwo
from sparsco.losses import Logistic, Multinomial, Squared
from sparsco.optimizers.float32_sums import draw_at, plus
from sparsco.penalties import ElasticNet, NonNegative, RowGroup, WeightedElasticNet
from sparsco.steps import Constant
from sparsco.training.paths import train_path
from sparsco.util.threads import Threads, aside

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

LAMS = np.array([0.05, 0.01, 0.001])
OPTIMIZERS = [
    optimizers.FOBOS(),
    optimizers.RDA(),
    optimizers.NFTRL(),
    optimizers.FTRL(),
    optimizers.SGD(),
    optimizers.ORDA(),
    optimizers.AdaGradRDA(),
    optimizers.AdaGradFOBOS(),
    optimizers.TruncatedGradient(K=3),
    optimizers.SSG(),
]
CONVERSIONS = [
    conversions.Last(),
    conversions.Average(),
    conversions.Average(power=3.0),
    conversions.Suffix(),
    conversions.RandomIterate(),
    conversions.AverageSL(metric="diagonal"),
    conversions.LastSL(metric="diagonal"),
    conversions.OptimalSL(L=3.0),
    conversions.TopK(2),
]


def rows(n=70, d=7, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.csr_array(rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5))
    y = np.where(X.toarray()[:, 0] - X.toarray()[:, 1] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return as_matrix(X), y


def answer(penalty, optimizer, conversion, loss, data, lams=None):
    run = Run(loss, penalty, optimizer, conversion, d=7, lams=lams)
    run.feed(*data)
    return run.finish()


def assert_separate(record, optimizer, conversion, loss, data, lams=LAMS):
    together = answer(record(0.0), optimizer, conversion, loss, data, lams)
    for k, lam in enumerate(lams):
        alone = answer(record(lam), optimizer, conversion, loss, data)
        np.testing.assert_allclose(together.w[:, k], alone.w[:, 0], rtol=0.0, atol=1e-10)
        np.testing.assert_allclose(together.b[k], alone.b[0], rtol=0.0, atol=1e-10)
        assert np.array_equal(together.w[:, k] != 0.0, alone.w[:, 0] != 0.0)
    assert (np.diff(np.count_nonzero(together.w, 0)) >= 0).all()
    assert np.ptp(together.w, axis=1).max() > 1e-3  # strengths matter: lanes are no copies of one model


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda part: type(part).__name__)
def test_a_strength_is_a_run_of_its_own(optimizer):
    data = rows(45)
    for conversion in CONVERSIONS:
        for rho in (0.0, 0.02):
            with plain_python():
                assert_separate(lambda lam, rho=rho: ElasticNet(lam, rho), optimizer, conversion, Logistic(), data)


@pytest.mark.parametrize("optimizer", [optimizers.FOBOS(), optimizers.NFTRL()], ids=lambda part: type(part).__name__)
def test_compiled_with_the_guard_of_each(optimizer):
    data = rows(1500)
    assert_separate(lambda lam: ElasticNet(lam, 0.0), optimizer, conversions.AverageSL(), Logistic(), data, LAMS[:2])


def test_penalties_by_feature_and_one_sided():
    data, pen = rows(), np.linspace(0.0, 2.0, 7)
    with plain_python():
        assert_separate(
            lambda lam: WeightedElasticNet(lam, 0.01, pen), optimizers.FOBOS(), CONVERSIONS[5], Squared(), data
        )
        assert_separate(lambda lam: NonNegative(lam), optimizers.RDA(), conversions.Average(), Squared(), data)


def test_what_runs_beside_a_lane_changes_no_bit():
    data = rows()
    with plain_python():
        one, two = (
            answer(ElasticNet(0.0), optimizers.FOBOS(), conversions.Average(), Logistic(), data, lams)
            for lams in (LAMS, np.array([0.2, 0.01, 0.3]))
        )
    assert np.array_equal(one.w[:, 1], two.w[:, 1])
    assert one.b[1] == two.b[1]


@pytest.mark.parametrize(
    ("loss", "penalty", "optimizer", "conversion", "why"),
    [
        (Multinomial(), ElasticNet(0.1), optimizers.FOBOS(), conversions.Last(), "Multinomial ties models"),
        (Logistic(), RowGroup(0.1), optimizers.FOBOS(), conversions.Last(), "RowGroup has no prox of one weight"),
        (Logistic(), ElasticNet(0.1), optimizers.BatchFOBOS(), conversions.Last(), "BatchFOBOS has one strength"),
        (Logistic(), ElasticNet(0.1), optimizers.EpochSGD(), conversions.Last(), "EpochSGD has one strength"),
        (Logistic(), NonNegative(0.1), optimizers.FOBOS(), conversions.AverageSL(), "AverageSL converts all models"),
    ],
)
def test_refused_by_one_sentence(loss, penalty, optimizer, conversion, why):
    with pytest.raises(ValueError, match=f"several strengths cannot be learned in one read here: {why}"):
        Run(loss, penalty, optimizer, conversion, d=7, lams=LAMS)


def test_followed_iterates_are_refused():
    X, y = text_like(50, 20, 3, 3, 5.0, np.random.default_rng(0))
    with pytest.raises(ValueError, match="OCMDI follows the iterates of one model"):
        SparsePath(SparseClassifier(conversion="ocmdi")).fit(X, y)


# ---- float32 ---------------------------------------------------------------------------------------------------------


def paths_in_both(penalty, optimizer, X, y, lams=LAMS, step=None):
    """The lanes in float64, and in float32."""
    runs = [
        Run(Logistic(), penalty, optimizer, conversions.Last(), step, d=X.d, lams=lams, single=single)
        for single in (False, True)
    ]
    for run in runs:
        run.feed(X, y)
    return [run.finish() for run in runs]


def assert_single(double, single):
    scale = np.abs(double.w).max()
    np.testing.assert_allclose(single.w, double.w, rtol=0.0, atol=1e-5 * scale)
    np.testing.assert_allclose(single.b, double.b, rtol=0.0, atol=1e-5 * scale)
    assert not np.array_equal(single.w, double.w)
    assert np.array_equal(single.w, single.w.astype(np.float32))


SINGLE = [optimizers.FOBOS(), optimizers.NFTRL(), optimizers.FTRL()]


@pytest.mark.parametrize("optimizer", SINGLE, ids=lambda part: type(part).__name__)
@pytest.mark.parametrize("rho", [0.0, 0.02])
def test_float32_in_plain_python(optimizer, rho):
    data = rows(300)
    with plain_python():
        double, single = paths_in_both(ElasticNet(0.0, rho), optimizer, *data)
    assert_single(double, single)
    assert np.array_equal(single.w != 0.0, double.w != 0.0)


@pytest.mark.parametrize("optimizer", SINGLE[:2], ids=lambda part: type(part).__name__)
def test_float32_compiled(optimizer):
    X, y = text_like(20_000, 300, 12, 20, 8.0, np.random.default_rng(3))
    found = paths_in_both(ElasticNet(0.0), optimizer, as_matrix(X), y.astype(float))
    assert_single(*found)
    few = as_matrix(X[:80]), y[:80].astype(float)
    compiled = paths_in_both(ElasticNet(0.0), optimizer, *few)[1]
    with plain_python():
        plain = paths_in_both(ElasticNet(0.0), optimizer, *few)[1]
    np.testing.assert_allclose(compiled.w, plain.w, rtol=1e-5, atol=1e-6)
    assert np.array_equal(compiled.w != 0.0, plain.w != 0.0)


def test_float32_with_an_l2_term_that_shrinks_everything():
    """P falls below what float32 can divide by, again and again."""
    with plain_python():
        assert_single(*paths_in_both(ElasticNet(0.0, 0.4), optimizers.FOBOS(), *rows(400), step=Constant(0.5)))


def test_float32_loses_no_small_shrinkage():
    """A feature of every row: what a step takes off its weight is less than the weight's last digit in float32."""
    X = as_matrix(sp.csr_array(np.ones((3000, 1))))
    y = np.where(np.arange(3000) % 400 == 0, -1.0, 1.0)
    with plain_python():
        double, single = paths_in_both(
            ElasticNet(0.0), optimizers.FOBOS(), X, y, lams=np.array([2e-6, 0.0]), step=Constant(0.1)
        )
    gap = np.subtract(*double.w[0])
    assert abs(gap) > 2e-5
    assert abs(np.subtract(*single.w[0]) / gap - 1.0) < 0.05


@pytest.mark.parametrize(("field", "weight", "lams"), [("G", 2.0**13, LAMS), ("z", 2.0**26, 1e8 * LAMS)])
def test_float32_sums_do_not_stall(field, weight, lams):
    """After a heavy first row, all further rows add less than half of the sum's last digit in float32."""
    n, more = 1000, 100_000
    X = as_matrix(sp.csr_array(np.ones((n + more, 1))))
    y = np.where(np.random.default_rng(0).random(n + more) < 0.1, -1.0, 1.0)
    weights = np.r_[weight, np.ones(n + more - 1)]
    grown = []
    for single in (False, True):
        penalty, last = ElasticNet(0.0), conversions.Last()
        run = Run(Logistic(), penalty, optimizers.NFTRL(), last, d=1, lams=lams, single=single, intercept=field == "G")
        found = []
        for part in (np.arange(n), np.arange(n, n + more)):
            run.feed(X, y, weights, part)
            _, lanes, bias = run.optimizer.layout.views(run.problem, run.state)
            of_both = [lanes[0, 2], bias[2]] if field == "G" else [lanes[0, 0]]
            found.append(np.array(of_both)[:, : len(lams)].astype(float))
        grown.append(found[1] - found[0])
    double, single = grown
    assert (np.abs(double) / more < np.spacing(np.abs(found[0]).astype(np.float32)) / 2.0).all()
    np.testing.assert_allclose(single, double, rtol=0.03)


def test_float32_sums_do_not_depend_on_cuts():
    """Draws are counted by rows, not by chunks."""
    n = 3000
    X, y = as_matrix(sp.csr_array(np.ones((n, 1)))), np.where(np.arange(n) % 3 == 0, -1.0, 1.0)
    states = []
    for cuts in ([], [1, 500, 1700, n - 1]):
        run = Run(
            Logistic(),
            ElasticNet(0.0),
            optimizers.NFTRL(),
            conversions.Last(),
            d=1,
            lams=LAMS,
            single=True,
            intercept=False,
        )
        for part in np.split(np.arange(n), cuts):
            run.feed(X, y, np.ones(n), part)
        states.append(run.state)
    assert states[0].cell.any()
    assert states[0].cell.tobytes() == states[1].cell.tobytes()


DRAWS = np.array([draw_at(SingleTwo(), t) for t in range(1 << 20, (1 << 20) + 4000)])


@given(
    size=st.floats(2.0**-30, 2.0**30, width=32) | st.integers(-30, 30).map(lambda k: 2.0**k),
    sign=st.sampled_from([-1.0, 1.0]),
    share=st.floats(-3.0, 3.0, width=32) | st.sampled_from([0.0, 0.5, 1.0, 1.5]),
)
def test_sums_in_float32_are_right_in_the_mean(size, sign, share):
    """The mean over the draws of many rows is the exact sum."""
    total, digit = sign * size, float(np.spacing(np.float32(size)))
    totals, more = np.full(len(DRAWS), total, np.float32).view(Singles), np.float32(share * digit)
    errors = np.asarray(plus(SingleTwo(), totals, more, DRAWS), float) - (total + float(more))
    is_near = np.frexp(size - 8.0 * digit)[1] != np.frexp(size + 8.0 * digit)[1]  # a power of two: digits change there
    assert abs(errors.mean()) <= (0.15 if is_near else 0.04) * digit
    assert (abs(errors) <= 4.0 * digit).all()


@pytest.mark.parametrize(
    ("optimizer", "conversion"),
    [(optimizers.FOBOS(), conversions.Average()), (optimizers.RDA(), conversions.Last())],
)
def test_float32_is_refused_where_it_would_not_do(optimizer, conversion):
    with pytest.raises(ValueError, match="dtype='float32' is for the last iterates"):
        Run(Logistic(), ElasticNet(0.0), optimizer, conversion, d=7, lams=LAMS, single=True)


def test_grid():
    lams = Grid(5, 1e-2).at(2.0)
    np.testing.assert_allclose(lams, [2.0, 2.0 * 10**-0.5, 0.2, 0.2 * 10**-0.5, 0.02])
    parts = [Grid(5, 1e-2)[first : first + 2] for first in (0, 2, 4)]
    assert [len(part) for part in parts] == [2, 2, 1]
    assert np.array_equal(np.concatenate([part.at(2.0) for part in parts]), lams)


# ---- SparsePath ------------------------------------------------------------------------------------------------------

MODEL = {"random_state": 0, "optimizer": "fobos", "conversion": "last"}


@pytest.fixture(scope="module")
def data():
    return text_like(3000, 60, 8, 10, 8.0, np.random.default_rng(1))


def assert_same(one, other):
    assert np.array_equal(one.coef_ != 0.0, other.coef_ != 0.0)
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(one.intercept_, other.intercept_, rtol=0.0, atol=1e-10)


def test_models_are_the_estimators(data):
    X, y = data
    settings = {"n_alphas": 2, "eps": 0.05, "validation": "progressive", "passes": 2}
    path = SparsePath(SparseClassifier(**MODEL, standardize=False), **settings).fit(X, y).path_
    for lam in path.alphas:
        alone = SparseClassifier(**MODEL, alpha=lam, max_iter=2, tol=None).fit(X, y)
        assert_same(path.model(lam), alone)
        assert path.model(lam).alpha == lam
        np.testing.assert_allclose(path.model(lam).predict_proba(X), alone.predict_proba(X), atol=1e-9)
    assert path.coefs.shape == (60, 2)
    assert path.nonzeros.tolist() == np.diff(path.coefs.indptr).tolist()
    with pytest.raises(ValueError, match="not one of the path's strengths; the nearest is"):
        path.model(1.0)


def test_several_classes_and_a_shared_l2_weight(data):
    X, y = data
    y = y + (np.arange(len(y)) % 3 == 0)
    template = SparseClassifier(**MODEL, alpha=0.01, l1_ratio=0.5)
    path = SparsePath(template, alphas=[0.002, 0.02], validation="progressive").fit(X, y).path_
    assert path.alphas.tolist() == [0.02, 0.002]
    for lam in path.alphas:
        total = lam + 0.005
        alone = SparseClassifier(**MODEL, alpha=total, l1_ratio=lam / total, max_iter=1, tol=None).fit(X, y)
        assert_same(path.model(lam), alone)


def test_streams_in_any_cut_and_pickles(data):
    X, y = data
    whole = SparsePath(SparseClassifier(**MODEL), n_alphas=2).partial_fit(X, y, classes=[-1, 1])
    pieces = SparsePath(SparseClassifier(**MODEL), n_alphas=2)
    for first in range(0, 3000, 700):
        pieces.partial_fit(X[first : first + 700], y[first : first + 700], classes=[-1, 1] if first == 0 else None)
        pieces = pickle.loads(pickle.dumps(pieces))
    assert (whole.path_.coefs != pieces.path_.coefs).nnz == 0
    assert whole.path_.losses[0] > 0.0
    assert len(pickle.dumps(SparsePath(SparseClassifier(**MODEL), n_alphas=2).fit(X, y))) < 20_000


def test_rows_held_out_are_not_learned(data):
    X, y = data
    template = SparseClassifier(**MODEL, shuffle=False)
    path = SparsePath(template, n_alphas=2, validation=0.3).fit(X, y)
    held = path.fit_state.n_held
    assert 800 < held < 1000
    assert path.fit_state.learner.t_ == 3000 - held
    rows = path.fit_state.held[0]
    p = path.path_.model(path.path_.alphas[1]).predict_proba(rows[0].to_scipy())[:, 1]
    loss = -np.log(np.where(rows[1] > 0, p, 1.0 - p)).mean()
    np.testing.assert_allclose(path.path_.losses[1], loss, rtol=1e-10)


@pytest.mark.parametrize("validation", ["progressive", 0.2])
def test_an_error_leaves_a_stream_as_it_was(data, validation):
    X, y = data
    rest = np.where(y[1500:] > 0, 1, 2)  # 2 is no class of the stream
    path, clean = (SparsePath(SparseClassifier(**MODEL), n_alphas=2, validation=validation) for _ in range(2))
    with pytest.raises(ValueError, match="needs all classes at its beginning"):
        path.partial_fit(X[:1500], y[:1500])
    path.partial_fit(X[:1500], y[:1500], classes=[-1, 1])
    with pytest.raises(ValueError, match="2"):
        path.partial_fit(X[1500:], rest)
    path.partial_fit(X[1500:], y[1500:])
    clean.partial_fit(X[:1500], y[:1500], classes=[-1, 1]).partial_fit(X[1500:], y[1500:])
    assert path.fit_state.rows == clean.fit_state.rows == 3000 and path.fit_state.n_held == clean.fit_state.n_held
    assert path.t_ == clean.t_ == 3000 - clean.fit_state.n_held
    assert np.array_equal(path.path_.losses, clean.path_.losses) and (path.path_.coefs != clean.path_.coefs).nnz == 0


def test_a_copy_of_a_fitted_path_does_not_begin_anew(data):
    X, y = data
    path = SparsePath(SparseClassifier(**MODEL), n_alphas=2).fit(X, y)
    for twin in (copy.deepcopy(path), pickle.loads(pickle.dumps(path))):
        with pytest.raises(ValueError, match="has only its models and cannot continue"):
            twin.partial_fit(X, y, classes=[-1, 1])
        assert np.array_equal(twin.path_.losses, path.path_.losses)
        assert twin.fit(X, y).alpha_ == path.alpha_


def test_only_models_of_a_path_are_saved(data, tmp_path):
    X, y = data
    path = SparsePath(SparseClassifier(**MODEL), n_alphas=2).fit(X, y)
    with pytest.raises(ValueError, match="SparsePath cannot be saved. Save its model_"):
        save(path, tmp_path / "m")
    with pytest.raises(ValueError, match="alpha='min': it must be one of the path's strengths"):
        path.path_.model("min")


def test_choices():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 10))
    template = SparseRegressor(random_state=0, conversion="last")
    found = SparsePath(template, alphas=[3.0, 0.5, 0.3, 0.1]).fit(X, X[:, 0] + 0.1 * X[:, 1]).path_
    found.losses, found.spreads = np.array([4.0, 1.2, 1.0, 1.1]), np.full(4, 0.3)
    assert [found.choose("min"), found.choose("1-se")] == [0.3, 0.5]
    assert found.choose(0) == 3.0
    assert found.choose(1) == 0.3
    found.losses[2] = 1.15
    assert found.choose(1) == 0.1
    found.losses = np.full(4, np.nan)
    assert found.choose(10) == 0.1
    with pytest.raises(ValueError, match="needs validation rows"):
        found.choose("min")


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"alphas": [-1.0]}, "alphas="),
        ({"n_alphas": 0}, "n_alphas=0"),
        ({"eps": 2.0}, "eps=2.0"),
        ({"choose": "best"}, "choose='best'"),
        ({"validation": 1.5}, "validation=1.5"),
        ({"passes": 0}, "passes=0"),
        ({"dtype": "float16"}, "dtype='float16'"),
        ({"dtype": None}, "dtype=None"),
        ({"passes": 2, "validation": 0.2}, "passes > 1"),
        ({"estimator": SparseClassifier(budget=3)}, "budget"),
        ({"estimator": SparseClassifier}, "it must be a SparseClassifier or SparseRegressor"),
        ({"estimator": "logistic"}, "estimator='logistic': it must be a SparseClassifier"),
        ({"estimator": SparseClassifier(penalty="row-group")}, "RowGroup has no prox of one weight"),
        ({"estimator": SparseClassifier(n_jobs="two")}, "n_jobs='two'"),
        ({"alphas": ["a"]}, "alphas=['a']".replace("[", r"\[")),
    ],
)
def test_bad_parameters(parameters, sentence):
    X, y = rows()
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")):
        SparsePath(**parameters).fit(X.to_scipy(), y)


@pytest.mark.parametrize("cv", ["x", "5", [[0], [1]], np.nan])
def test_folds_that_are_none(cv):
    X, y = np.eye(6), np.array([0, 1] * 3)
    with pytest.raises(ValueError, match="cv must be a number of folds"):
        SparseClassifierCV(cv=cv).fit(X, y)


def test_float32_paths_and_folds(data):
    X, y = data
    settings, own = {"n_alphas": 2, "eps": 0.05}, MODEL | {"standardize": False}
    double = SparsePath(SparseClassifier(**own), **settings).partial_fit(X, y, classes=[-1, 1]).path_
    half = SparsePath(SparseClassifier(**own), dtype=np.float32, **settings)
    for part in (slice(0, 1700), slice(1700, 3000)):
        half = pickle.loads(pickle.dumps(half.partial_fit(X[part], y[part], classes=[-1, 1])))
    for found in (
        half.path_,
        SparseClassifierCV(SparseClassifier(**own, shuffle=False), cv=2, dtype="float32", **settings).fit(X, y).path_,
    ):
        assert found.coefs.dtype == np.float64
        assert np.array_equal(found.nonzeros, double.nonzeros)
        np.testing.assert_allclose(found.coefs.toarray(), double.coefs.toarray(), atol=1e-4)
    np.testing.assert_allclose(half.path_.losses, double.losses, atol=1e-6)


def test_threads_share_the_strengths(data):
    X, y = data
    alone, shared = (
        SparsePath(SparseClassifier(**MODEL, n_jobs=n_jobs), n_alphas=4, validation=0.2).fit(X, y)
        for n_jobs in (None, 2)
    )
    assert [len(path.fit_state.learner.fit_state.runs) for path in (alone, shared)] == [1, 2]
    assert (alone.path_.coefs != shared.path_.coefs).nnz == 0
    assert np.array_equal(alone.path_.losses, shared.path_.losses)


@pytest.mark.parametrize(("strengths", "threads"), [(2, 2), (3, 2), (5, 3), (5, 5)])
def test_few_strengths_of_many_threads_have_the_same_bits(data, strengths, threads):
    """No strength is learned alone, by the kernels of one model."""
    X, y = data
    alone, shared = (
        SparsePath(SparseClassifier(**MODEL, n_jobs=n_jobs), n_alphas=strengths, eps=0.05, validation=0.2).fit(X, y)
        for n_jobs in (None, threads)
    )
    assert alone.path_.coefs.nnz > 0
    assert (alone.path_.coefs != shared.path_.coefs).nnz == 0
    assert np.array_equal(alone.path_.intercepts, shared.path_.intercepts)


def test_a_stream_names_its_classes():
    X, y = rows()
    with pytest.raises(ValueError, match="all classes at its beginning"):
        SparsePath().partial_fit(X.to_scipy(), y)


# ---- folds -----------------------------------------------------------------------------------------------------------


def expected_failures(estimator):
    why = "a row of weight two is one step of twice the size: not the iterates of two rows"
    return {f"check_sample_weight_equivalence_on_{kind}_data": why for kind in ("dense", "sparse")}


@parametrize_with_checks(
    [
        SparseClassifierCV(SparseClassifier(**MODEL), n_alphas=2, cv=2),
        SparseRegressorCV(SparseRegressor(**MODEL), n_alphas=2, cv=2),
        SparsePath(SparseClassifier(**MODEL), n_alphas=2, choose=1000),
        SparsePath(SparseRegressor(**MODEL), n_alphas=2, choose=1000),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_folds_are_fits_without_their_rows(data):
    X, y = data
    fold = np.arange(3000) % 3
    template = SparseClassifier(**MODEL, shuffle=False, standardize=False)
    model = SparseClassifierCV(template, n_alphas=2, eps=0.05, cv=fold, n_jobs=2).fit(X, y)
    for k in range(3):
        for at, lam in enumerate(model.path_.alphas):
            alone = SparseClassifier(**MODEL, alpha=lam, max_iter=1, shuffle=False, tol=None)
            p = alone.fit(X[fold != k], y[fold != k]).predict_proba(X[fold == k])[:, 1]
            loss = -np.log(np.where(y[fold == k] > 0, p, 1.0 - p)).mean()
            np.testing.assert_allclose(model.fold_losses_[k, at], loss, rtol=1e-9)
    np.testing.assert_allclose(model.path_.losses, model.fold_losses_.mean(0))
    alone = SparseClassifier(**MODEL, alpha=model.alpha_, max_iter=1, shuffle=False).fit(X, y)
    assert_same(model.best_estimator_, alone)
    assert model.path_.stability.shape == (2,)
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    for draw in (plots.coefficient_path, plots.error_vs_nonzeros, plots.selection_stability):
        assert draw(model.path_, chosen=model.alpha_).lines
        axes = draw(model)
        assert axes.lines and axes.figure is pyplot.gcf()  # which a notebook shows
        with pytest.raises(ValueError, match="path is a SparseClassifier: give the path_"):
            draw(template)
    words = [f"word{k}" for k in range(X.shape[1])]
    legends = [
        {line.get_label() for line in plots.coefficient_path(model, names=names, axes=pyplot.figure().subplots()).lines}
        for names in (words, dict(enumerate(words)), {})
    ]
    assert legends[0] == legends[1] == {f"word{number}" for number in legends[2]}
    pyplot.close("all")
    by_splitter = SparseClassifierCV(template, n_alphas=2, eps=0.05, cv=KFold(3)).fit(X, y)
    by_number = SparseClassifierCV(template, n_alphas=2, eps=0.05, cv=np.arange(3000) // 1000).fit(X, y)
    assert np.array_equal(by_splitter.fold_losses_, by_number.fold_losses_)
    assert SparseClassifierCV(template, n_alphas=2, cv=None).fit(X, y).fold_losses_.shape == (5, 2)
    splitter = ShuffleSplit(3, test_size=0.2, random_state=0)
    by_splitter = SparseClassifierCV(template, n_alphas=2, eps=0.05, cv=splitter).fit(X, y)
    by_list = SparseClassifierCV(template, n_alphas=2, eps=0.05, cv=list(splitter.split(X))).fit(X, y)
    assert np.array_equal(by_splitter.fold_losses_, by_list.fold_losses_)
    (learned, held), *_ = splitter.split(X)
    alone = SparseClassifier(**MODEL, alpha=by_list.path_.alphas[1], max_iter=1, shuffle=False, tol=None)
    learned = np.sort(learned)
    p = alone.fit(X[learned], y[learned]).predict_proba(X[held])[:, 1]
    loss = -np.log(np.where(y[held] > 0, p, 1.0 - p)).mean()
    np.testing.assert_allclose(by_list.fold_losses_[0, 1], loss, rtol=1e-9)
    no_weight = np.where(fold == 0, 0.0, 1.0)
    unweighted = SparseClassifierCV(template, n_alphas=2, eps=0.05, cv=fold)
    unweighted.fit(X, y, sample_weight=no_weight)
    np.testing.assert_allclose(unweighted.path_.losses, unweighted.fold_losses_[1:].mean(0))
    with pytest.raises(ValueError, match="cv must be"):
        SparseClassifierCV(template, cv=np.zeros(3000, int)).fit(X, y)
    with pytest.raises(ValueError, match="it must be a SparseClassifier"):
        SparseClassifierCV(SparseRegressor()).fit(X, y)


# ---- files -----------------------------------------------------------------------------------------------------------


def test_a_picture_of_a_path_takes_room_for_what_is_drawn():
    X = sp.random_array((2000, 30), density=0.3, rng=np.random.default_rng(0), format="csr")
    y = (X[:, [3]].toarray()[:, 0] > 0.1).astype(int)
    wide = sp.csr_array((X.data, X.indices.astype(np.int64) * 2**56, X.indptr), shape=(2000, 2**62))
    path = SparsePath(SparseClassifier(**MODEL, storage="seen"), n_alphas=3).fit(wide, y)
    assert str(3 * 2**56) in {line.get_label() for line in plots.coefficient_path(path).lines}


def test_files_and_the_command(data, tmp_path, capsys, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.close("all")
    X, y = data
    file = tmp_path / "rows.svm"
    with open(file, "w") as out:
        for k in range(3000):
            row = X[[k]]
            pairs = " ".join(f"{j}:{x!r}" for j, x in zip(row.indices.tolist(), row.data.tolist(), strict=True))
            out.write(f"{y[k]} {pairs}\n")
    trained = train_path(str(file), settings=MODEL, path={"n_alphas": 2}, shuffle=False)
    whole = SparsePath(SparseClassifier(**MODEL), n_alphas=2).partial_fit(X, y, classes=[-1, 1])
    assert (abs(trained.model.path_.coefs - whole.path_.coefs) > 1e-12).nnz == 0
    np.testing.assert_allclose(trained.model.path_.losses, whole.path_.losses, rtol=1e-10)
    model, report = tmp_path / "chosen.model", tmp_path / "path.html"
    method = ["--optimizer", "fobos", "--conversion", "last", "--no-shuffle"]
    assert main(["path", str(file), "--n-alphas", "2", *method, "-m", str(model), "--report", str(report)]) == 0
    table = capsys.readouterr().out
    assert table.count("\n") == 3
    assert "chosen" in table
    assert "<svg" in report.read_text()
    assert np.array_equal(load(model).coef_, trained.model.model_.coef_)
    assert main(["path", str(file), "--n-alphas", "2", *method, "--float32"]) == 0
    assert capsys.readouterr().out.split()[:6] == table.split()[:6]
    assert main(["path", str(file), "--choose", "best"]) == 2
    assert main(["path", str(file), "--hold-out", "0.2", "--passes", "2", "--quiet"]) == 2
    assert "passes > 1 would learn the rows held out" in capsys.readouterr().err
    short = tmp_path / "short.svm"
    short.write_text("".join(file.read_text().splitlines(keepends=True)[:800]))
    assert main(["path", str(short), "--n-alphas", "2", *method, "--quiet"]) == 2
    said = capsys.readouterr()
    assert said.out.count("\n") == 3
    assert "there are none: give more rows in a random order, --hold-out 0.2" in said.err
    assert main(["path", str(short), "--n-alphas", "2", *method, "--hold-out", "0.2"]) == 0
    assert not pyplot.get_fignums()  # a report leaves no figure open
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["path", str(file), "--n-alphas", "2", *method, "--report", str(report), "--quiet"]) == 0
    assert "No plots: matplotlib is not installed" in report.read_text()
    capsys.readouterr()
    assert main(["path", str(file), "-m", str(file)]) == 2 and "is an input" in capsys.readouterr().err


def test_cross_validated_classifiers_have_probabilities_where_their_loss_has(data):
    X, y = data
    model = SparseClassifierCV(SparseClassifier(**MODEL), n_alphas=2, cv=2).fit(X, y)
    assert np.array_equal(model.predict_proba(X), model.best_estimator_.predict_proba(X))
    assert not hasattr(SparseClassifierCV(SparseClassifier("hinge")), "predict_proba")


def test_threads_are_kept_and_work_that_asks_for_threads_gets_none():
    def names(_):
        return {threading.current_thread().name} | set(Threads(2).map("inner", lambda _: _name(), [(1,), (2,)]))

    def _name():
        return threading.current_thread().name

    first = Threads(2).map("outer", names, [(1,), (2,), (3,)])
    again = Threads(2).map("outer", names, [(1,), (2,), (3,)])
    assert all(len(each) == 1 for each in first + again)  # the inner work stays in its thread
    assert _name() not in set.union(*first) and set.union(*first, *again) <= {f"sparsco_{k}" for k in range(2)}
    with pytest.raises(ZeroDivisionError):
        Threads(2).map("outer", lambda k: 1 // k, [(1,), (0,)])


def test_threads_take_turns_and_step_aside():
    """One at a time has Python; all are aside together (a barrier that would wait for ever otherwise); errors pass."""
    inside, most, together = [], [], threading.Barrier(3, timeout=30)

    def work(k, fails):
        for _ in range(20):
            inside.append(k)
            most.append(len(inside))
            time.sleep(1e-4)
            inside.remove(k)
            with aside(), aside():
                together.wait()
        if k == fails:
            raise KeyError(k)
        return k

    assert Threads(3).map_in_turns("test", work, [(k,) for k in range(3)], None) == [0, 1, 2]
    with pytest.raises(KeyError, match="1"):
        Threads(3).map_in_turns("test", work, [(k,) for k in range(3)], 1)
    assert max(most) == 1 and len(most) == 120
    with aside():  # nobody waits here
        assert Threads(1).map_in_turns("test", lambda k: k, [(5,)]) == [5]


def test_given_strengths_ask_nothing_of_the_first_rows():
    """Rows that tell nothing, all of one class at first, would make an automatic alpha a guess, with a warning."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2000, 5))
    y = np.where(np.arange(2000) < 1200, 1, rng.integers(0, 2, 2000))
    model = SparseClassifier(shuffle=False, random_state=0)
    with pytest.warns(UserWarning, match="alpha='auto'"):
        SparsePath(model, n_alphas=2, validation="progressive").fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = SparsePath(model, alphas=[0.1, 0.01], validation="progressive", choose=5).fit(X, y).path_
    assert path.alphas.tolist() == [0.1, 0.01]


@pytest.mark.parametrize("validation", ["progressive", 0.2])
@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 20.0}], ids=str)
def test_strengths_are_judged_by_the_weights_of_classes(validation, class_weight):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(4000, 8))
    y = (X[:, 0] + rng.logistic(size=4000) > 3.5).astype(int)
    learner = SparseClassifier(class_weight=class_weight, optimizer="nftrl", conversion="last", random_state=0)
    streamed, whole = (
        SparsePath(learner, alphas=[0.3, 0.1, 0.01, 0.001], validation=validation, passes=1) for _ in "ab"
    )
    streamed.partial_fit(X, y, classes=[0, 1])
    whole.fit(X, y)
    losses = streamed.path_.losses
    assert np.all(np.abs(losses - whole.path_.losses) < 0.25 * whole.path_.losses)
    plain = SparsePath(learner.set_params(class_weight=None), alphas=[0.3, 0.1, 0.01, 0.001], validation=validation)
    assert losses[-1] > 1.5 * plain.partial_fit(X, y, classes=[0, 1]).path_.losses[-1]


def test_an_unknown_label_has_the_weight_one():
    model = SparseClassifier(class_weight={"a": 2.0, "b": 3.0}, alpha=0.01)
    model.partial_fit(np.eye(3), ["a", "b", "a"])
    found = model.with_class_weights(np.array(["b", "c", "a"]), np.array([1.0, 5.0, 2.0]))
    assert found.tolist() == [3.0, 5.0, 4.0]
