"""Stable selections: STS, the paper's bursts, their estimators, the report."""

import os
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import Lasso, LogisticRegression, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsco import StableSparseClassifier, StableSparseRegressor, stability_report
from sparsco.data.randomness import Purpose, bits, key
from sparsco.data.rows import as_matrix
from sparsco.jit.dispatch import plain_python
from sparsco.losses import Hinge, Logistic
from sparsco.metrics.selection import cohen_kappa, pairwise
from sparsco.selection.stable import STS, Stabilized
from sparsco.selection.stable.bursts import Bursts, annealed
from sparsco.selection.stable.paths import Examples, rows_of_paths, shuffle
from sparsco.selection.stable.scaling import Preparation
from sparsco.selection.stable.sts import Plan, best, fit_stages, own_choices, sizes_of_stages
from sparsco.util.threads import Threads

pytestmark = [
    pytest.mark.filterwarnings("ignore:no feature was selected:UserWarning"),
    pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning"),  # plain Python draws
    pytest.mark.filterwarnings("ignore:No features were selected:UserWarning"),
    pytest.mark.filterwarnings("ignore:n_features='auto':UserWarning"),
]

FEW = STS(paths=2)
SHORT = Stabilized(paths=2, passes=5)
STOCHASTIC = "a row of weight two is one step of twice the size, a row given twice is two steps: not the same iterates"


def expected_failures(estimator):
    return {
        "check_sample_weight_equivalence_on_dense_data": STOCHASTIC,
        "check_sample_weight_equivalence_on_sparse_data": STOCHASTIC,
    }


@parametrize_with_checks(
    [StableSparseClassifier(method=FEW), StableSparseRegressor(method=FEW), StableSparseClassifier(method=SHORT)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def text(n=300, d=200, relevant=8, seed=0):
    """Sparse counts, and labels that the first columns decide."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(np.where(np.arange(d) < 20, 0.5, 0.05), (n, d)).astype(float)
    y = np.where(X[:, :relevant] @ np.tile([1.0, -1.0], relevant // 2) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return sp.csr_array(X), y


def examples_of(X, y):
    return Examples(as_matrix(X.copy()), np.atleast_2d(y).copy(), np.ones(len(np.atleast_2d(y)[0])))


# ---- STS ------------------------------------------------------------------------------------------------------------


def naive_stages(X, y, sizes, method, seed):
    """The stages of docs/notation.md for hinge loss, row by row and column by column."""
    X, n = X.copy(), len(y)
    columns, found = np.arange(X.shape[1]), []
    passes = min(5, max(2, -(-5000 // n)))
    for s, following in enumerate([*sizes[1:], sizes[-1]]):
        last = s == len(sizes) - 1
        M = (method.paths + 1) // 2 if last else method.paths
        squares = np.array([sum(x * x for x in column if x) for column in X.T])
        factors = np.ones(len(columns))
        if last:
            factors = squares**-0.25 * np.sqrt(squares.sum() / np.sqrt(squares).sum())
            X = X * factors
            squares = np.array([sum(x * x for x in column if x) for column in X.T])
        eta = (1.0 if last else 0.5) / (1.0 + squares.sum() / n)
        means, intercepts = [], []
        for m in range(M):
            heads = bits(seed, Purpose.HALF, np.arange(n) + (m // 2 << 40)) >> np.uint64(63) == 0
            rows = np.arange(n) if last else np.flatnonzero(heads if m % 2 == 0 else ~heads)
            order, w, A, b, B, t = rows.astype(np.uint32), np.zeros(X.shape[1]), np.zeros(X.shape[1]), 0.0, 0.0, 0
            for k in range(passes):
                shuffle(order, key(seed, Purpose.PATH)[0], ((s * M + m) * passes + k) << 32)
                for i in order:
                    p = b
                    for j in np.flatnonzero(X[i]):
                        p += w[j] * X[i, j]
                    t += 1
                    if y[i] * p < 1.0:
                        c = eta * -y[i]
                        w, A, b, B = w - c * X[i], A + c * t * X[i], b - c, B + c * t
            means.append(w + A / t)
            intercepts.append(b + B / t)
        W = np.array(means)
        found.append((columns, W.mean(axis=0) * factors, np.mean(intercepts)))
        score = np.sqrt(np.square(W.mean(axis=0) * np.abs(np.sign(W).mean(axis=0)))) * np.sqrt(squares / n)
        kept = np.sort(np.argsort(-score, kind="stable")[:following])
        columns, X = columns[kept], X[:, kept]
    return found


def test_stages_are_those_of_a_naive_reference_bit_for_bit():
    X, y = text(40, 12, 4)
    X = X[:, :12]
    method, sizes = STS(paths=4), [12, 6, 3]
    wanted = naive_stages(X.toarray(), y, sizes, method, seed=5)
    with Threads(1) as threads:
        found = fit_stages(examples_of(X, y), np.arange(12), sizes, Plan(Hinge(), method, 5, True), threads)
    for stage, (columns, w, b) in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(stage.features, columns)
        np.testing.assert_array_equal(stage.coef[0], w)
        assert stage.intercept[0] == b


def test_compiled_stages_are_those_of_plain_python():
    X, y = text(30, 10, 4)
    plan = Plan(Logistic(), STS(paths=2), 1, True)
    with Threads(1) as threads:
        compiled = fit_stages(examples_of(X, y), np.arange(10), [10, 4], plan, threads)
        with plain_python():
            plain = fit_stages(examples_of(X, y), np.arange(10), [10, 4], plan, threads)
    for a, b in zip(compiled, plain, strict=True):
        np.testing.assert_array_equal(a.features, b.features)
        np.testing.assert_allclose(a.coef, b.coef, rtol=1e-12)


@pytest.mark.parametrize("method", ["sts", "paper"])
def test_threads_do_not_change_a_bit(method):
    X, y = text()
    size = {"n_features": 20} if method == "sts" else {}
    one, two = (StableSparseClassifier(**size, method=method, random_state=0, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.intercept_, two.intercept_)
    assert one.stages_ == two.stages_


def test_halves_are_complementary_and_belong_to_the_rows():
    halves = rows_of_paths(100, 6, 0.5, seed=3)
    for a, b in zip(halves[::2], halves[1::2], strict=True):
        assert sorted([*a, *b]) == list(range(100)) and 30 < len(a) < 70
    np.testing.assert_array_equal(halves[2], rows_of_paths(200, 6, 0.5, seed=3)[2][: len(halves[2])])
    assert all(len(rows) == 100 for rows in rows_of_paths(100, 3, 1.0, seed=3))


def test_a_shuffle_is_a_permutation_and_fair():
    places = np.zeros((4, 4))
    for number in range(4000):
        order = np.arange(4, dtype=np.uint32)
        shuffle(order, key(1, Purpose.PATH)[0], number << 32)
        assert sorted(order) == [0, 1, 2, 3]
        places[np.arange(4), order] += 1
    assert np.abs(places / 4000 - 0.25).max() < 0.03


def test_own_choices_agree_by_cohens_kappa():
    scores = np.random.default_rng(0).random((5, 30))
    share, kappa = own_choices(scores[:, None], np.ones(30), 7)
    masks = np.array([np.isin(np.arange(30), best(score, 7)) for score in scores])
    np.testing.assert_allclose(share, masks.mean(axis=0), rtol=1e-6)
    assert kappa == pytest.approx(pairwise(masks, cohen_kappa))


def test_sets_are_nested_and_have_the_sizes_asked_for():
    X, y = text()
    model = StableSparseClassifier(10, random_state=0).fit(X, y)
    path = model.size_path_
    assert [step["size"] for step in path] == sizes_of_stages(200, 0.25, 10)
    for large, small in zip(path, path[1:], strict=False):
        assert set(small["features"]) <= set(large["features"])
    assert model.n_nonzero_ == 10 and model.transform(X).shape == (300, 10)
    assert set(range(8)) <= set(np.flatnonzero(model.get_support()))
    larger = model.at_size(60)
    assert larger.n_nonzero_ == path[1]["size"] == 45 and larger.score(X, y) > 0.8
    assert StableSparseClassifier(0.1, random_state=0).fit(X, y).n_nonzero_ == 20
    probabilities = model.selection_probabilities_
    assert probabilities.min() >= 0.0 and probabilities[:8].min() > 0.5 > probabilities.mean()
    assert [stage["size"] for stage in model.stages_] == [step["size"] for step in path]


def test_auto_finds_about_as_many_as_matter():
    X, y = text(600)
    model = StableSparseClassifier(random_state=0).fit(X, y)
    assert 4 <= model.n_nonzero_ <= 40
    validated = model.validation_path_
    assert validated["chosen"] == model.n_nonzero_ and validated["errors"].min() < 0.2
    with pytest.warns(UserWarning, match="60 rows are few"):
        StableSparseClassifier(random_state=0, method=FEW).fit(X[:60], y[:60])


def test_several_classes_share_one_set():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 40))
    y = np.array(["a", "b", "c"])[np.argmax(X[:, :3] + 0.2 * rng.normal(size=(600, 3)), axis=1)]
    model = StableSparseClassifier(3, random_state=0).fit(X, y)
    assert model.coef_.shape == (3, 40) and np.flatnonzero(model.get_support()).tolist() == [0, 1, 2]
    assert model.score(X, y) > 0.85
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_regressions(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 40)) * 10.0 ** rng.uniform(-2, 2, 40)
    y = 1e3 + 5.0 * (X[:, 2] / X[:, 2].std() - X[:, 5] / X[:, 5].std()) + rng.normal(size=500)
    model = StableSparseRegressor(2, loss=loss, random_state=0).fit(X, y)
    assert np.flatnonzero(model.coef_).tolist() == [2, 5] and model.score(X, y) > 0.9
    both = StableSparseRegressor(3, loss=loss, random_state=0).fit(X, np.c_[y, X[:, 7] / X[:, 7].std()])
    assert np.flatnonzero(both.get_support()).tolist() == [2, 5, 7] and both.predict(X).shape == (500, 2)


def test_heavy_rows_do_not_blow_up_a_regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20)) * rng.pareto(1.2, 300)[:, None]
    model = StableSparseRegressor(2, random_state=0).fit(X, X[:, 3] + rng.normal(size=300))
    assert model.get_support()[3] and np.isfinite(model.coef_).all()


# ---- preparation ----------------------------------------------------------------------------------------------------


def test_rows_are_prepared_as_the_formula_says():
    X, _ = text(50, 30)
    matrix = as_matrix(X)
    preparation = Preparation("rows", 30)
    preparation.add(matrix)
    A = X.toarray()
    s = np.sqrt((A**2).sum(0) / np.maximum((A != 0).sum(0), 1))
    s[s == 0] = 1.0
    B = np.sign(A) * np.sqrt(np.abs(A) / np.sqrt(s))
    norms = np.linalg.norm(B, axis=1, keepdims=True)
    B = B / np.where(norms > 0, norms, 1.0)
    B /= np.sqrt((B[B != 0] ** 2).mean())
    np.testing.assert_allclose(preparation.applied(matrix).to_scipy().toarray(), B, rtol=1e-12)
    columns = Preparation("columns", 30)
    columns.add(matrix)
    np.testing.assert_allclose(columns.applied(matrix).to_scipy().toarray(), A / s, rtol=1e-12)


def test_the_scale_of_columns_does_not_matter():
    X, y = text()
    scaled = X @ sp.diags_array(2.0 ** np.random.default_rng(0).integers(-9, 9, 200))
    first, second = (StableSparseClassifier(20, prepare="columns", random_state=0).fit(rows, y) for rows in (X, scaled))
    np.testing.assert_array_equal(first.get_support(), second.get_support())
    np.testing.assert_allclose(first.decision_function(X), second.decision_function(scaled), rtol=1e-9)
    np.testing.assert_allclose(first.decision_function(X), X @ first.coef_[0] + first.intercept_, rtol=1e-9)


def test_rows_are_added_up_only_where_columns_are_in_one_unit():
    X, y = text()
    units = X @ sp.diags_array(10.0 ** np.random.default_rng(0).integers(-2, 3, 200))
    given = (X, units, X.toarray() + 1.0)
    kinds = [StableSparseClassifier(20, random_state=0).fit(rows, y).preparation_ for rows in given]
    assert kinds == ["rows", "columns", "columns"]
    assert StableSparseRegressor(20, random_state=0).fit(X, y).preparation_ == "columns"
    assert StableSparseClassifier(20, prepare=None, random_state=0).fit(X, y).preparation_ is None


def test_more_rows_do_not_change_a_model_taken_from_the_stream():
    X, y = text()
    model = StableSparseClassifier(20, random_state=0).partial_fit(X[:200], y[:200])
    taken = model.at_size(200)
    before = taken.decision_function(X)
    model.partial_fit(X[200:] * 9.0, y[200:])
    np.testing.assert_array_equal(taken.decision_function(X), before)


def test_what_is_given_is_not_written_to():
    X, y = text()
    X.data.flags.writeable = X.indices.flags.writeable = X.indptr.flags.writeable = False
    before = X.copy()
    StableSparseClassifier(20, random_state=0).fit(X, y)
    assert (before != X).nnz == 0


# ---- the paper's method ---------------------------------------------------------------------------------------------


def naive_bursts(X, y, method, seed, p):
    """Algorithms 2 to 4 with the corrections of docs/notation.md, hinge loss, no intercept."""
    n, M = len(y), method.paths
    W, kept, g0, beta = np.zeros((M, p)), np.ones(p, bool), 0.0, method.beta0
    appeared, survived = np.zeros(p), np.zeros(p)
    orders, at, begun = [np.arange(n, dtype=np.uint32) for _ in range(M)], [n] * M, [0] * M
    left, K, history = method.passes * n, method.K, []
    while left > 0:
        ratios = []
        for m in range(M):
            for _ in range(method.bursts):
                start, k = W[m].copy(), np.zeros(p)
                for _ in range(K):
                    if at[m] == n:
                        shuffle(orders[m], key(seed, Purpose.PATH)[0], (begun[m] * M + m) << 32)
                        at[m], begun[m] = 0, begun[m] + 1
                    i = orders[m][at[m]]
                    at[m] += 1
                    margin = 0.0
                    for j in np.flatnonzero(X[i]):
                        margin += W[m, j] * X[i, j]
                    c = method.eta * (-y[i] if y[i] * margin < 1.0 else 0.0)
                    for j in np.flatnonzero(X[i]):
                        if kept[j]:
                            k[j] += 1
                            W[m, j] -= c * X[i, j]
                for j in np.flatnonzero(k):
                    ratios.append(abs(W[m, j] - start[j]) / k[j])
                    pull = g0 * k[j]
                    W[m, j] = np.sign(W[m, j]) * max(abs(W[m, j]) - pull, 0.0)
                    appeared[j] += 1
                    survived[j] += W[m, j] != 0.0
        left -= K * method.bursts
        judged = appeared > method.delta
        purged = judged & (survived < method.pi0 * appeared)
        kept &= ~purged
        W[:, purged] = 0.0
        appeared[judged] = survived[judged] = 0.0
        d = np.count_nonzero(W.any(axis=0)) / p
        history.append((kept.sum(), d * p, g0))
        u = 1.0 - d
        beta = method.beta0 * (
            np.exp(-method.gamma * u) - u * np.exp(-method.gamma)
            if method.gamma >= 0
            else np.log(1 - method.gamma * d) / np.log(1 - method.gamma)
        )
        place = min(int(beta * len(ratios)), len(ratios) - 1)
        g0 = np.sort(ratios)[place] if place > 0 else 0.0
        if method.alpha is not None:
            K = max(1, int(np.ceil(method.K * np.log(1.0 / (method.alpha * max(d, 1.0 / p))))))
    return W.mean(axis=0), kept, history


@pytest.mark.parametrize(
    "method",
    [
        Stabilized(paths=3, K=4, passes=3),
        Stabilized(paths=2, K=3, bursts=2, passes=4, gamma=3.0, pi0=0.8, delta=3.0),
        Stabilized(paths=2, K=2, passes=3, gamma=-5.0, alpha=0.3, pi0=0.6),
    ],
)
def test_bursts_are_those_of_a_naive_reference_bit_for_bit(method):
    X, y = text(40, 30, 4)
    wanted, kept, history = naive_bursts(X.toarray(), y, method, 7, 30)
    run = Bursts(method, Hinge(), np.arange(30), 30, 7, False)
    with Threads(2) as threads:
        run.learn(examples_of(X, y), 0, method.passes, threads)
    w, left = np.zeros(30), np.zeros(30, bool)
    w[run.columns], left[run.columns[run.kept]] = run.weights, True
    np.testing.assert_array_equal(w, wanted)
    np.testing.assert_array_equal(left, kept)
    assert [(s["size"], s["nonzeros"], s["gravity"]) for s in run.stages] == [tuple(h) for h in history]
    assert run.W.shape == (method.paths, kept.sum()) and kept.sum() < 15  # memory follows the stable set


def test_annealing_goes_from_the_full_rate_to_none():
    for gamma in (-5.0, 0.0, 5.0):
        rates = annealed(np.linspace(0.0, 1.0, 50), 0.7, gamma)
        assert rates[0] == pytest.approx(0.0, abs=1e-12) and rates[-1] == pytest.approx(0.7)
        assert np.all(np.diff(rates) > 0.0)
    assert annealed(0.5, 0.7, 5.0) < annealed(0.5, 0.7, 0.0) < annealed(0.5, 0.7, -5.0)


def test_an_empty_model_is_a_warning():
    X, _ = text(100)
    y = np.where(np.random.default_rng(0).random(100) < 0.5, 1, -1)
    with pytest.warns(UserWarning, match="no feature was selected"):
        harsh = Stabilized(pi0=1.0, beta0=1.0, gamma=-7.0)
        StableSparseClassifier(method=harsh, random_state=0).fit(X, y)


# ---- streams --------------------------------------------------------------------------------------------------------


def streamed(model, X, y, chunk):
    for first in range(0, len(y), chunk):
        model.partial_fit(X[first : first + chunk], y[first : first + chunk], classes=np.unique(y))
    return model


def test_a_stream_that_can_be_kept_gives_what_fit_gives():
    X, y = text()
    whole = StableSparseClassifier(10, random_state=0).fit(X, y)
    parts = streamed(StableSparseClassifier(10, random_state=0), X, y, 70)
    np.testing.assert_allclose(whole.coef_, parts.coef_, rtol=1e-12)


def test_any_cut_of_a_stream_gives_the_same_bits_and_memory_is_bounded():
    X, y = text(800)
    model = StableSparseClassifier(8, method=STS(paths=4, memory=3000), random_state=0)
    models = [streamed(clone(model), X, y, chunk) for chunk in (50, 333, 800)]
    for model in models:
        assert len(model.fit_state.kept.rows.data) <= 3000 and model.fit_state.kept.purged.any()
        assert model.get_support()[:8].sum() >= 6
    for model in models[1:]:
        np.testing.assert_array_equal(models[0].coef_, model.coef_)


def test_rows_are_sampled_where_features_cannot_be_fewer():
    X, y = text(3000, 20)
    model = streamed(StableSparseClassifier(15, method=STS(paths=2, memory=2000), random_state=0), X, y, 500)
    assert 100 < len(model.fit_state.kept.rows) < 1500 and model.score(X, y) > 0.8


def test_a_stream_of_the_papers_method_and_of_new_classes():
    X, y = text(600)
    model = streamed(StableSparseClassifier(method=Stabilized(paths=4), loss="hinge", random_state=0), X, y, 200)
    assert model.score(X, y) > 0.65 and model.n_nonzero_ < 150
    found = StableSparseClassifier(10, random_state=0, method=FEW).partial_fit(X, y)
    found.partial_fit(X[:50], np.full(50, 3.0))
    assert found.classes_.tolist() == [-1.0, 1.0, 3.0] and found.coef_.shape == (3, 200)
    again = pickle.loads(pickle.dumps(found)).partial_fit(X[:10], y[:10])
    np.testing.assert_array_equal(again.coef_, found.partial_fit(X[:10], y[:10]).coef_)


# ---- the report -----------------------------------------------------------------------------------------------------


def test_a_report_of_any_estimator():
    X, y = text(200)
    for model in (
        StableSparseClassifier(10, method=FEW),
        LogisticRegression(l1_ratio=1.0, solver="liblinear"),
        make_pipeline(MaxAbsScaler(), SGDClassifier(penalty="l1", alpha=0.01)),
    ):
        report = stability_report(model, X, y, 3)
        for part in report:
            assert len(part.kappa) == len(part.jaccard) == len(part.error) == 3 and part.frequency.shape == (200,)
            assert np.all(part.error < 0.4)
        assert "other rows" in str(report)
    assert report.permutations.kappa.mean() < 1.0
    again = stability_report(model, X, y, 3, n_jobs=2)
    np.testing.assert_array_equal(report.subsamples.frequency, again.subsamples.frequency)
    A = X.toarray()
    lasso = stability_report(Lasso(0.1), A, A[:, 0], 2, test=(A, A[:, 0]))
    assert lasso.permutations.frequency[0] == 1.0 and lasso.permutations.error.max() < 0.5


def test_a_report_is_drawn():
    pytest.importorskip("matplotlib").use("Agg")
    X, y = text(100)
    axes = stability_report(StableSparseClassifier(10, method=FEW), X, y, 2).plot()
    assert len(axes.get_lines()) == 2


# ---- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"n_features": 0}, "n_features=0: it must be a whole number"),
        ({"n_features": 1.5}, "n_features=1.5"),
        ({"n_features": "all"}, "n_features='all'"),
        ({"n_features": 5, "method": "paper"}, "n_features=5 is for method='sts'"),
        ({"method": "stss"}, "did you mean 'sts'"),
        ({"method": STS(keep=1.0)}, r"STS\(keep=1.0\)"),
        ({"method": STS(paths=0)}, r"STS\(paths=0\)"),
        ({"method": STS(subsample=0.3)}, r"STS\(subsample=0.3\)"),
        ({"method": Stabilized(eta=0.0)}, r"Stabilized\(eta=0.0\)"),
        ({"method": Stabilized(pi0=2.0)}, r"Stabilized\(pi0=2.0\)"),
        ({"method": Stabilized(K=0)}, r"Stabilized\(K=0\)"),
        ({"method": Stabilized(alpha=1.0)}, r"Stabilized\(alpha=1.0\)"),
        ({"prepare": "centre"}, "prepare='centre'"),
        ({"loss": "multinomial"}, "loss='multinomial'"),
        ({"fit_intercept": 2}, "fit_intercept=2"),
    ],
)
def test_bad_parameters_are_answered_with_a_sentence(parameters, sentence):
    X, y = text(50)
    with pytest.raises(ValueError, match=sentence):
        StableSparseClassifier(**parameters).fit(X, y)


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, y = text()
    model = StableSparseClassifier(10, random_state=0, method=FEW).fit(X, y)
    before = model.coef_
    with pytest.raises(ValueError, match="one class only"):
        model.fit(X, np.ones(300))
    np.testing.assert_array_equal(model.coef_, before)
    with pytest.raises(ValueError, match="k=3: the path has the sizes"):
        model.at_size(3)
    with pytest.raises(ValueError, match="n_permutations=1"):
        stability_report(model, X, y, 1)


# ---- real data ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not os.environ.get("SPARSCO_DATA"), reason="Dexter is looked for below SPARSCO_DATA, not set")
def test_dexter():
    from sparsco import datasets

    (X, y), (X_test, y_test) = (datasets.load("dexter", part) for part in ("train", "test"))

    def runs(**parameters):
        errors, chosen = [], []
        for r in range(10):
            order = np.random.default_rng(r).permutation(300)
            model = StableSparseClassifier(random_state=r, **parameters).fit(X[order], y[order])
            errors.append(100.0 * np.mean(model.predict(X_test) != y_test))
            chosen.append(model.get_support())
        return np.mean(errors), 100.0 * np.mean(chosen), pairwise(chosen)

    for loss, most, least in (("hinge", 7.5, 0.83), ("logistic", 7.8, 0.85)):
        error, share, kappa = runs(n_features=396, loss=loss)
        assert error <= most and kappa >= least and share == pytest.approx(1.98)
    error, share, _ = runs(loss="hinge", method="paper", fit_intercept=False)
    assert abs(error - 7.33) <= 1.0 and abs(share - 6.0) <= 1.5
