"""The certified optimum: against independent solvers, by its own conditions, in memory and over files."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import ElasticNet as SklearnElasticNet
from sklearn.linear_model import LogisticRegression

from sparsco import SparseClassifier, SparsePath, SparseRegressor, SparseRegressorCV
from sparsco.cli import main
from sparsco.data.randomness import Purpose, uniform
from sparsco.data.rows import Matrix, as_matrix
from sparsco.engine import polish_small
from sparsco.engine.polish import polish
from sparsco.engine.polish_rows import RowsInMemory, RowsInPasses
from sparsco.estimators.passes import rows_for_start
from sparsco.losses import Huber, Logistic, Poisson, Squared, SquaredHinge, derivative, value
from sparsco.penalties import Box, ElasticNet, L1Ball
from sparsco.training.checkpoints import Checkpoints
from sparsco.training.model_files import load
from sparsco.training.results import StoppedError
from sparsco.training.train import train


def rows(n=600, d=200, seed=0, mean=0.0):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) + mean) * (rng.random((n, d)) < 0.2)
    truth = np.zeros(d)
    truth[:8] = np.array([3.0, -3.0, 2.0, -2.0, 1.5, -1.5, 1.0, -1.0])
    p = X @ truth
    return sp.csr_array(X), np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-p)), 1.0, -1.0), p + rng.standard_normal(n)


def violations(X, y, loss, w, b, lam, rho=0.0, pen=1.0, weights=1.0):
    """The optimality conditions, written down once more; the last is the intercept's."""
    c = weights * derivative(loss, X @ w + b, y)
    n = np.count_nonzero(weights * np.ones(len(y)))
    g, pen = X.T @ c / n + rho * w, lam * pen * np.ones(w.size)
    inside = np.where(w != 0.0, np.abs(g + pen * np.sign(w)), np.maximum(np.abs(g) - pen, 0.0))
    return np.append(inside, abs(c.sum() / n))


def objective(X, y, loss, w, b, lam, rho=0.0):
    return value(loss, X @ w + b, y).mean() + lam * np.abs(w).sum() + 0.5 * rho * w @ w


CASES = [
    (SparseClassifier, "logistic", Logistic(), 0.01, 0.0),
    (SparseClassifier, "logistic", Logistic(), 0.01, 0.02),
    (SparseClassifier, "squared-hinge", SquaredHinge(), 0.03, 0.0),
    (SparseRegressor, "squared", Squared(), 0.05, 0.0),
    (SparseRegressor, Huber(), Huber(), 0.05, 0.01),
]


@pytest.mark.parametrize(("kind", "name", "loss", "lam", "rho"), CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_conditions_hold(kind, name, loss, lam, rho, weighted):
    X, labels, numbers = rows(mean=0.5)
    y = labels if kind is SparseClassifier else numbers
    rng = np.random.default_rng(1)
    weights = rng.random(len(y)) * (rng.random(len(y)) < 0.9) if weighted else None
    pen = rng.uniform(0.0, 2.0, X.shape[1]) if weighted else None
    model = kind(
        name, alpha=lam + rho, l1_ratio=lam / (lam + rho), polish=1e-8, feature_weights=pen, random_state=0
    ).fit(X, y, sample_weight=weights)
    found = violations(
        X,
        y,
        loss,
        np.ravel(model.coef_),
        float(np.ravel(model.intercept_)[0]),
        lam,
        rho,
        1.0 if pen is None else pen,
        1.0 if weights is None else weights,
    )
    assert found.max() <= 1.01e-8 * lam
    assert model.gap_ == pytest.approx(found.max() / lam, rel=1e-3, abs=1e-12) and model.gap_ <= 1e-8
    assert 0 < model.n_nonzero_ < X.shape[1]
    report = model.report_["converted"][0]["polish"]
    assert report["passes"] == len(report["working_sets"][0]) + 1 and report["steps"][0] > 0


@pytest.mark.parametrize("rho", [0.0, 0.02])
def test_squared_loss_equals_scikit_learn(rho):
    X, _, y = rows()
    lam = 0.05
    model = SparseRegressor(alpha=lam + rho, l1_ratio=lam / (lam + rho), polish=1e-9).fit(X, y)
    theirs = SklearnElasticNet(alpha=lam + rho, l1_ratio=lam / (lam + rho), tol=1e-14, max_iter=100_000).fit(X, y)
    ours, best = (
        objective(X, y, Squared(), np.ravel(m.coef_), float(m.intercept_[0] if m is model else m.intercept_), lam, rho)
        for m in (model, theirs)
    )
    assert abs(ours - best) <= 1e-8 * best
    np.testing.assert_array_equal(np.flatnonzero(model.coef_), np.flatnonzero(theirs.coef_))
    gap = model.report_["converted"][0]["polish"]["duality_gaps"][0]
    assert -1e-12 <= ours - best + gap and gap <= 1e-6 * best


def test_logistic_loss_equals_saga():
    X, y, _ = rows(n=400, d=60)
    lam = 0.02
    model = SparseClassifier(alpha=lam, polish=1e-9).fit(X, y)
    theirs = LogisticRegression(C=1.0 / (lam * len(y)), l1_ratio=1.0, solver="saga", tol=1e-10, max_iter=20_000).fit(
        X, y
    )
    ours, best = (objective(X, y, Logistic(), m.coef_[0], m.intercept_[0], lam) for m in (model, theirs))
    assert abs(ours - best) <= 1e-8 * best
    np.testing.assert_array_equal(np.flatnonzero(model.coef_), np.flatnonzero(np.abs(theirs.coef_[0]) > 1e-7))


def test_every_class_against_the_rest():
    X, _, p = rows()
    y = np.digitize(p, np.quantile(p, [0.3, 0.6]))
    model = SparseClassifier(alpha=0.01, polish=1e-8).fit(X, y)
    for k in range(3):
        sign = np.where(y == k, 1.0, -1.0)
        assert violations(X, sign, Logistic(), model.coef_[k], model.intercept_[k], 0.01).max() <= 1e-10
        alone = SparseClassifier(alpha=0.01, polish=1e-8).fit(X, sign)
        np.testing.assert_allclose(model.coef_[k], alone.coef_[0], atol=1e-6)


def test_the_duality_gap_bounds_the_objective():
    X, y, _ = rows(mean=0.5)
    matrix = as_matrix(X)
    whole = RowsInMemory(matrix, y[:, None], np.ones((len(y), 1)))
    for rho in (0.0, 0.01):
        start = np.zeros((matrix.d, 1)), np.zeros(1)
        settings = {"loss": Logistic(), "penalty": ElasticNet(0.01, rho)}
        best = polish(whole, *start, tol=1e-10, **settings).objectives[0]
        for passes in range(2, 5):
            found = polish(whole, *start, tol=1e-10, passes=passes, **settings)
            assert found.passes == passes
            assert found.objectives[0] - best <= found.duality_gaps[0] + 1e-12
    assert found.duality_gaps[0] < 1e-3


def test_a_step_that_the_rows_do_not_confirm_is_halved():
    """Columns that were copied wrongly, the first time, must not lead astray."""
    X, y, _ = rows()
    matrix, targets, weights = as_matrix(X), y[:, None], np.ones((len(y), 1))
    wrong = Matrix(matrix.indptr, matrix.indices, 0.2 * matrix.data, matrix.d)
    asked = []

    def whole():
        asked.append(None)
        return iter([(wrong if len(asked) == 2 else matrix, targets, weights)])

    start = np.zeros((matrix.d, 1)), np.zeros(1)
    found = polish(RowsInPasses(whole), *start, loss=Logistic(), penalty=ElasticNet(0.001), tol=1e-8)
    assert violations(X, y, Logistic(), found.w[:, 0], found.b[0], 0.001).max() <= 1.01e-11
    unhurt = polish(
        RowsInMemory(matrix, targets, weights), *start, loss=Logistic(), penalty=ElasticNet(0.001), tol=1e-8
    )
    assert found.passes > unhurt.passes


@pytest.mark.parametrize("words", [False, True])
def test_over_a_file_as_in_memory(tmp_path, words):
    X, y, _ = rows(n=1500)
    file = tmp_path / "rows.svm"
    dump_svmlight_file(X, y, str(file))
    labels = {"classes": "any"} if words else {}
    trained = train(file, settings={"alpha": 0.01, "polish": 1e-8, "random_state": 0}, **labels).model
    model = SparseClassifier(alpha=0.01, polish=1e-8, shuffle=False).fit(X, y)
    np.testing.assert_allclose(np.ravel(trained.coef_), model.coef_[0, : trained.n_features_in_], atol=1e-6)
    np.testing.assert_array_equal(np.flatnonzero(trained.coef_), np.flatnonzero(model.coef_))
    assert trained.gap_ <= 1e-8


def test_stopped_while_polishing_and_resumed(tmp_path):
    X, y, _ = rows(n=1500)
    file = tmp_path / "rows.svm"
    dump_svmlight_file(X, y, str(file))
    settings, kept = {"alpha": 0.01, "polish": 1e-8, "random_state": 0}, Checkpoints(tmp_path / "checkpoint")
    with pytest.raises(StoppedError, match="polishing"):
        train(file, settings=settings, checkpoints=kept, stop=kept.exist)  # written before the polish
    resumed = train(file, settings=settings, checkpoints=kept, resume=True).model
    np.testing.assert_array_equal(resumed.coef_, train(file, settings=settings).model.coef_)


def test_from_the_command_line(tmp_path, capsys):
    X, y, _ = rows()
    file, out = tmp_path / "rows.svm", tmp_path / "m.model"
    dump_svmlight_file(X, y, str(file))
    assert main(["train", str(file), "-m", str(out), "--alpha", "0.01", "--polish", "1e-6", "--quiet"]) == 0
    assert load(out).gap_ <= 1e-6
    assert f"polished: gap {load(out).gap_:.2g}, tolerance 1e-06, passes " in capsys.readouterr().out
    assert main(["train", str(file), "-m", str(out), "--alpha", "0.01", "--loss", "hinge", "--polish", "--quiet"]) == 0
    assert load(out).gap_ <= 1e-4
    assert main(["train", str(file), "-m", str(out), "--alpha", "0", "--polish", "--quiet"]) == 2
    assert "polish" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"penalty": "trace"}, "TraceNorm"),
        ({"penalty": L1Ball(1.0), "alpha": "auto"}, "L1Ball"),
        ({"penalty": Box(0.0, np.inf), "alpha": "auto"}, "finite bounds"),
        ({"early_stopping": True}, "all rows"),
        ({"polish": -1.0}, "polish=-1.0"),
        ({"polish": "yes"}, "polish='yes'"),
        ({"polish": 1}, "polish=1"),
        ({"alpha": 0.0}, "above 0"),
    ],
)
def test_what_is_refused(settings, word):
    X, _, p = rows(n=60, d=20)
    with pytest.raises(ValueError, match=word):
        SparseClassifier(**({"alpha": 0.1, "polish": True} | settings)).fit(X, np.digitize(p, [-1.0, 1.0]))


def test_a_true_of_numpys_is_true():
    X, y, _ = rows(n=200, d=20)
    assert SparseClassifier(alpha=0.01, polish=np.True_).fit(X, y).gap_ <= 1e-4
    assert np.isnan(SparseClassifier(alpha=0.01, polish=np.False_).fit(X, y).gap_)


def test_streams_are_refused():
    X, y, _ = rows(n=60, d=20)
    with pytest.raises(ValueError, match="partial_fit"):
        SparseClassifier(polish=True).partial_fit(X, y)
    with pytest.raises(ValueError, match="learn_one"):
        SparseClassifier(polish=True).learn_one({"a": 1.0}, 1)
    with pytest.raises(ValueError, match="once only"):
        train(iter([({"a": 1.0}, 1), ({"b": 1.0}, 0)]), settings={"polish": True})


def test_what_was_not_reached_is_said(monkeypatch):
    X, y, _ = rows()
    monkeypatch.setattr("sparsco.engine.polish.PASSES", 2)
    with pytest.warns(UserWarning, match="not reached in 2 passes"):
        model = SparseClassifier(alpha=0.005, polish=1e-12).fit(X, y)
    assert model.gap_ > 1e-12 and np.isnan(SparseClassifier(alpha=0.01).fit(X, y).gap_)


def test_where_nothing_is_selected_the_intercept_is_the_optimum():
    X, y, _ = rows()
    model = SparseClassifier(alpha=10.0, polish=1e-10).fit(X, np.where(np.arange(len(y)) % 5, -1, 1))
    assert model.n_nonzero_ == 0 and model.gap_ <= 1e-10
    np.testing.assert_allclose(model.intercept_, np.log(0.2 / 0.8), rtol=1e-8)


LAMS = [0.05, 0.01, 0.003]


@pytest.mark.parametrize("together", [1 << 24, 1])
def test_a_path_of_optima(monkeypatch, together):
    """Every model satisfies the conditions on the rows that were learned, whether or not models share their reads."""
    monkeypatch.setattr("sparsco.engine.polish._MARGINS", together)
    X, y, _ = rows(n=1500)
    path = SparsePath(SparseClassifier(polish=1e-8, random_state=0, shuffle=False), alphas=LAMS).fit(X, y)
    held = np.flatnonzero(uniform(0, Purpose.VALIDATION, np.arange(len(y))) < 0.2)
    kept = np.setdiff1d(np.arange(len(y)), held)
    assert len(held) > 200 and path.path_.gaps.max() <= 1e-8
    for k, lam in enumerate(LAMS):
        model = path.path_.model(lam)
        w, b = model.coef_[0], model.intercept_[0]
        assert violations(X[kept], y[kept], Logistic(), w, b, lam).max() <= 1.01e-8 * lam
        assert model.gap_ == path.path_.gaps[k] == path.path_.table()[k]["gap"]
        assert path.path_.losses[k] == pytest.approx(value(Logistic(), X[held] @ w + b, y[held]).mean())


def test_folds_of_optima():
    X, _, p = rows(n=900)
    model = SparseRegressorCV(SparseRegressor(polish=1e-8, random_state=0), alphas=LAMS, cv=3).fit(X, p)
    for lam in LAMS:
        w, b = model.path_.model(lam).coef_, model.path_.model(lam).intercept_
        assert violations(X, p, Squared(), w, float(np.ravel(b)[0]), lam).max() <= 1.01e-8 * lam


def test_a_path_of_optima_over_a_file(tmp_path, capsys):
    X, y, _ = rows(n=1500)
    file, out = tmp_path / "rows.svm", tmp_path / "m.model"
    dump_svmlight_file(X, y, str(file))
    estimator = SparseClassifier(polish=1e-8, random_state=0, shuffle=False)
    path = SparsePath(estimator, alphas=LAMS).fit(X, y).path_
    given = ["--alphas", "0.05,0.01,0.003", "--polish", "1e-8", "--no-shuffle"]
    assert main(["path", str(file), *given, "-m", str(out), "--json"]) == 0
    table = json.loads(capsys.readouterr().out)["path"]
    assert [line["nonzeros"] for line in table] == path.nonzeros.tolist()
    np.testing.assert_allclose([line["loss"] for line in table], path.losses, rtol=1e-6)
    assert max(line["gap"] for line in table) <= 1e-8 and load(out).gap_ <= 1e-8
    assert main(["path", str(file), "--alphas", "0.05,0.01", "--polish"]) == 0
    assert "gap" in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"validation": "progressive"}, "progressive"),
        ({"passes": 2}, "passes"),
        ({"alphas": [0.1, 0.0]}, "L1 weight"),
    ],
)
def test_what_a_path_of_optima_refuses(settings, word):
    X, y, _ = rows(n=100, d=20)
    with pytest.raises(ValueError, match=word):
        SparsePath(SparseClassifier(polish=True), **settings).fit(X, y)
    with pytest.raises(ValueError, match="partial_fit"):
        SparsePath(SparseClassifier(polish=True)).partial_fit(X, y, classes=[-1, 1])


def test_a_path_of_no_rows_has_no_optima(tmp_path, capsys, monkeypatch):
    X, y, _ = rows(n=20, d=20)
    with pytest.raises(ValueError, match="held out"):
        SparsePath(SparseClassifier(polish=True, random_state=0), alphas=[0.1], validation=0.999).fit(X, y)
    with pytest.raises(ValueError, match="passes"):
        SparseRegressorCV(SparseRegressor(polish=True), passes=2).fit(X, y)
    monkeypatch.setattr("sys.stdin", open(__file__))
    assert main(["path", "-", "--polish", "--format", "libsvm"]) == 2 and "once only" in capsys.readouterr().err
    assert main(["path", __file__, "--polish", "0", "--format", "libsvm"]) == 2


def chain(X, y, loss, lams, intercept=True, **given):
    """Return the optima of several strengths with the same targets, solved one after the other from zero."""
    k, (n, d) = len(lams), X.shape
    own = RowsInMemory(as_matrix(X), np.repeat(y[:, None], k, 1), np.ones((n, k)))
    settings = {"loss": loss, "penalty": ElasticNet(lams[0]), "lams": lams, "intercept": intercept, "chains": 1}
    return polish(own, np.zeros((d, k)), np.zeros(k), **settings, **given)


def counts(n=300, d=30):
    """Counts with a mean so large that objectives are below zero."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, rng.poisson(np.exp(1.5 + X[:, 0])).astype(float)


def test_a_chain_without_intercepts_has_none():
    X, y = counts()
    lams = np.geomspace(3.0, 0.01, 10)
    found = chain(X, y, Poisson(), lams, intercept=False)
    assert found.objectives.min() < 0.0 and not found.b.any() and found.reached.all()
    for q, lam in enumerate(lams):
        assert violations(X, y, Poisson(), found.w[:, q], 0.0, lam)[:-1].max() <= 1.01e-4 * lam


def test_a_chain_far_from_its_targets(recwarn):
    """Where a Huber loss is flat, the intercept has no Newton step, and the conditions alone hardly bind it."""
    rng = np.random.default_rng(3)
    X = sp.csr_array(rng.standard_normal((51, 40)) * (rng.random((51, 40)) < 0.1) * 1e3)
    y = 1e4 * rng.standard_t(2, size=51)
    lams = np.abs(X.T @ np.sign(y - np.median(y))).max() / 51 * np.geomspace(1.2, 0.05, 9)
    found = chain(X, y, Huber(), lams, tol=1e-2)
    assert found.reached.all() and np.abs(found.b).max() < 1e6 and not recwarn.list


@pytest.mark.parametrize("passes", range(1, 4))
def test_a_chain_cut_off_reports_the_model_it_returns(passes):
    X, y = counts()
    lams = np.geomspace(3.0, 0.01, 4)
    found = chain(X, y, Poisson(), lams, tol=1e-10, passes=passes)
    for q, lam in enumerate(lams):
        np.testing.assert_allclose(
            found.objectives[q], objective(X, y, Poisson(), found.w[:, q], found.b[q], lam), rtol=1e-12
        )
        worst = violations(X, y, Poisson(), found.w[:, q], found.b[q], lam).max()
        np.testing.assert_allclose(found.gaps[q], worst / lam, rtol=1e-6, atol=1e-12)


def test_few_rows_that_are_very_wide_are_all_learned():
    problem = SimpleNamespace(penalty=ElasticNet(1.0), loss=Squared(), m=1)
    X = as_matrix(np.ones((1, 1_600_000), np.float32))
    assert rows_for_start(X, np.arange(1), np.zeros(1), problem).tolist() == [0]


@pytest.mark.parametrize("full", [False, True])
def test_a_chain_above_the_strength_that_selects_nothing(full):
    X, y, _ = rows()
    X = X.toarray() + 1.0 if full else X
    found = chain(X, y, Logistic(), np.array([50.0, 20.0, 10.0]))
    rate = (y > 0.0).mean()
    assert found.reached.all() and not found.w.any()
    np.testing.assert_allclose(found.b, np.log(rate / (1.0 - rate)), rtol=1e-3)


@pytest.mark.parametrize("shape", ["sparse", "dense"])
def test_a_start_that_overflows(shape, recwarn):
    """Rows that the start has not seen have margins beyond the range of exp: the objective there is no number."""
    n, d, seed, df, mean = (8000, 100, 6, 1.7, -3.0) if shape == "sparse" else (20000, 20, 4, 2.0, -3.0)
    rng = np.random.default_rng(seed)
    X = rng.standard_t(df, size=(n, d))
    X *= rng.random((n, d)) < (0.1 if shape == "sparse" else 1.0)
    margins = X[:, :2].sum(1)
    y = rng.poisson(np.exp(np.clip(1.5 * margins / margins.std() + mean, -20.0, 9.0))).astype(float)
    lam = 0.01 * np.abs(X.T @ (y - y.mean())).max() / n
    rows = sp.csr_array(X) if shape == "sparse" else X
    model = SparseRegressor("poisson", alpha=lam, polish=True, random_state=0).fit(rows, y)
    worst = violations(X, y, Poisson(), model.coef_, float(np.ravel(model.intercept_)[0]), lam).max()
    assert model.gap_ <= 1e-4 and worst <= 1.01e-4 * lam and not recwarn.list


def test_steps_that_rows_refute_are_left_for_a_line_search():
    """From zero, a Newton step of counts is far too long; half of it is, too, and half of that."""
    X, _ = counts()
    y = np.exp(9.0 + 0.1 * X[:, 0])
    own = RowsInMemory(as_matrix(X), y[:, None], np.ones((len(y), 1)))
    found = polish(own, np.zeros((30, 1)), np.zeros(1), loss=Poisson(), penalty=ElasticNet(1.0))
    assert found.reached.all() and found.passes < 20


def test_a_path_of_optima_has_the_same_bits_on_any_number_of_threads():
    X, y, _ = rows(n=1500)
    one, two = (
        SparsePath(SparseClassifier(polish=True, random_state=0, n_jobs=n_jobs), n_alphas=10).fit(X, y).path_
        for n_jobs in (None, 2)
    )
    assert np.array_equal(one.coefs.toarray(), two.coefs.toarray()) and np.array_equal(one.intercepts, two.intercepts)


# ---- starts on samples -----------------------------------------------------------------------------------------------


def test_large_counts_take_few_passes():
    """A start does not end far beyond their intercept."""
    X, _, y = rows(n=1500, d=20)
    counts, lam = np.round(1000.0 * np.exp(0.1 * y)), 20.0
    model = SparseRegressor("poisson", alpha=lam, l1_ratio=1.0, polish=True, random_state=0).fit(X, counts)
    assert 0 < model.n_nonzero_ < 20
    assert violations(X, counts, Poisson(), model.coef_.ravel(), model.intercept_[0], lam).max() <= 1.01e-4 * lam
    assert model.report_["converted"][0]["polish"]["passes"] <= 5


def test_steps_on_all_rows_are_few(monkeypatch):
    """Most of the rows are no sample, and second derivatives take over after two steps on all of them."""
    sizes, step = [], polish_small._Sample.step
    monkeypatch.setattr(
        polish_small._Sample, "step", lambda self, model: (sizes.append(len(self.y)), step(self, model))[1]
    )
    X, y, _ = rows(n=3900, d=150)
    weights = 10.0 ** np.random.default_rng(0).uniform(-4, 2, 3900)
    model = SparseClassifier("squared-hinge", alpha=1e-3, l1_ratio=1.0, polish=True, random_state=0)
    model.fit(X, y, sample_weight=weights)
    assert X.nnz > 1 << 16 and set(sizes) == {3900} and len(sizes) <= 3
    w, b = model.coef_.ravel(), model.intercept_[0]
    assert violations(X, y, SquaredHinge(), w, b, 1e-3, weights=weights).max() <= 1.01e-7
