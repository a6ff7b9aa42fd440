"""Cross-validation that solves: folds against brute force, the grid that goes on, edges, mixtures, determinism."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import ElasticNet as SklearnElasticNet
from sklearn.linear_model import ElasticNetCV
from sklearn.model_selection import GroupKFold, TimeSeriesSplit
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsco import SparseClassifier, SparseClassifierCV, SparsePath, SparseRegressor, SparseRegressorCV
from sparsco.losses import Logistic
from sparsco.penalties import ElasticNet
from sparsco.selection.search import LEAST
from sparsco.solver.columns import by_column
from sparsco.solver.elastic_net import Accuracy, Examples, solver_of
from sparsco.solver.lanes import Lanes, LaneSolver

ALPHAS = [0.1, 0.03, 0.01]
EXACT = Accuracy(1e-10, 100, 10)


def dense(n=600, d=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(0.5, 2.0, d) + 3.0
    p = X[:, 0] - X[:, 1] + 0.5 * X[:, 2]
    return X, p + rng.normal(size=n), np.where(p - 1.5 + rng.logistic(size=n) > 0.0, "yes", "no")


def sparse(n=500, d=300, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.csr_array(rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.05))
    p = 2.0 * np.asarray(X[:, :6].sum(axis=1)).ravel()
    return X, p + rng.normal(size=n), np.where(p + rng.logistic(size=n) > 0.0, 1, 0)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("rows", [dense, sparse])
def test_folds_are_the_optima_without_their_rows(rows):
    X, y, labels = rows()
    fold = np.arange(len(y)) % 3
    model = SparseRegressorCV(SparseRegressor(random_state=0), alphas=ALPHAS, cv=fold).fit(X, y)
    for k in range(3):
        for at, alpha in enumerate(ALPHAS):
            twin = SklearnElasticNet(alpha=alpha, l1_ratio=1.0, tol=1e-10, max_iter=100_000)
            twin.fit(X[fold != k], y[fold != k])
            loss = 0.5 * np.square(twin.predict(X[fold == k]) - y[fold == k]).mean()
            np.testing.assert_allclose(model.fold_losses_[k, at], loss, rtol=1e-2)
    twin = SklearnElasticNet(alpha=model.alpha_, l1_ratio=1.0, tol=1e-10, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(model.coef_, twin.coef_, atol=3e-3 * np.abs(twin.coef_).max())
    classes = SparseClassifierCV(SparseClassifier(random_state=0), alphas=ALPHAS, cv=fold).fit(X, labels)
    for k in range(3):
        alone = SparseClassifier(alpha=0.03, polish=1e-8, standardize=False).fit(X[fold != k], labels[fold != k])
        p = alone.predict_proba(X[fold == k])
        loss = -np.log(np.where(labels[fold == k] == alone.classes_[1], p[:, 1], p[:, 0])).mean()
        np.testing.assert_allclose(classes.fold_losses_[k, 1], loss, rtol=1e-2)
    alone = SparseClassifier(alpha=classes.alpha_, polish=1e-8, standardize=False).fit(X, labels)
    np.testing.assert_allclose(classes.coef_, alone.coef_, atol=0.01 * np.abs(alone.coef_).max())
    assert classes.path_.stability.shape == (3,) and classes.l1_ratio_ == 1.0


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_several_classes_weights_and_a_shared_l2_weight():
    X, _, _ = dense()
    y = X[:, :3].argmax(1)
    weights = np.where(np.arange(len(y)) % 7 == 0, 0.0, 1.0 + (y == 1))
    template = SparseClassifier(alpha=0.02, l1_ratio=0.5, random_state=0)
    model = SparseClassifierCV(template, alphas=[0.02, 0.005], cv=3).fit(X, y, sample_weight=weights)
    total = model.alpha_ + 0.01
    alone = SparseClassifier(alpha=total, l1_ratio=model.alpha_ / total, polish=1e-8, standardize=False)
    alone.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=0.01 * np.abs(alone.coef_).max())
    assert model.best_estimator_.alpha == total and model.path_.rhos.tolist() == [0.01, 0.01]
    assert model.predict_proba(X).shape == (600, 3)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("rows", [dense, sparse])
def test_threads_change_no_bit(rows):
    X, _, _ = rows()
    y = np.arange(X.shape[0]) % 4 + (np.asarray(X[:, [0]].sum(axis=1)).ravel() > 3.0)
    one, two = (SparseClassifierCV(SparseClassifier(random_state=0), n_alphas=6, n_jobs=n).fit(X, y) for n in (1, 2))
    assert np.array_equal(one.fold_losses_, two.fold_losses_) and np.array_equal(one.coef_, two.coef_)
    assert one.alpha_ == two.alpha_ and (one.path_.coefs != two.path_.coefs).nnz == 0


def test_a_grid_goes_on_until_the_loss_turns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 40))
    y = X @ rng.normal(size=40) + 2.0 * rng.normal(size=300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SparseRegressorCV(SparseRegressor(random_state=0), n_alphas=6, eps=0.3).fit(X, y)
    alphas, losses = model.path_.alphas, model.path_.losses
    np.testing.assert_allclose(alphas[1:] / alphas[:-1], 0.3**0.2, rtol=1e-6)
    best = losses.argmin()
    assert len(alphas) > 6 and 5 < best < len(alphas) - 1 and model.fold_losses_.shape == (5, len(alphas))
    assert len(alphas) - 1 - best <= 5
    with pytest.warns(UserWarning, match=r"at the smallest strength, alpha = .*: pass smaller alphas= or eps="):
        endless = SparseRegressorCV(SparseRegressor(random_state=0), n_alphas=6).fit(X, X @ np.arange(40.0))
    assert LEAST <= endless.path_.alphas[-1] / endless.path_.alphas[0] * (1.0 + 1e-6) < 10.0 * LEAST


def test_a_choice_at_an_edge_is_a_warning():
    X, y, labels = dense()
    for given in ({"alphas": [0.5, 0.4]}, {"alphas": [0.5, 0.4], "choose": "1-se"}):
        with pytest.warns(UserWarning, match="at the smallest strength, alpha = 0.4: pass smaller alphas="):
            SparseRegressorCV(SparseRegressor(random_state=0), **given).fit(X, y)
    with pytest.warns(UserWarning, match="at the smallest strength, alpha = 0.09"):
        SparsePath(SparseClassifier(random_state=0), alphas=[0.1, 0.09]).fit(X, labels).model_.predict(X)
    noise = np.random.default_rng(1).normal(size=len(y))
    with pytest.warns(UserWarning, match="at the largest strength, .*, which selects no feature"):
        SparseRegressorCV(SparseRegressor(random_state=0), alphas=[0.5, 0.4, 0.01]).fit(X, noise)
    with pytest.warns(UserWarning, match="at the largest strength, .*: pass larger alphas="):
        SparseRegressorCV(SparseRegressor(random_state=0), alphas=[1e-3, 1e-4]).fit(X[:60], y[:60])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SparseRegressorCV(SparseRegressor(random_state=0), alphas=[0.5, 0.4], choose=3).fit(X, y)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_mixtures():
    X, y, _ = sparse()
    fold = np.arange(len(y)) % 4
    alphas = np.geomspace(0.3, 0.003, 8)
    model = SparseRegressorCV(SparseRegressor(random_state=0), l1_ratio=[0.2, 1.0], alphas=alphas, cv=fold).fit(X, y)
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(4)]
    twin = ElasticNetCV(l1_ratio=[0.2, 1.0], alphas=alphas, cv=splits, max_iter=100_000).fit(X, y)
    assert model.l1_ratio_ == twin.l1_ratio_ and np.isclose(model.alpha_, twin.alpha_)
    np.testing.assert_allclose(model.coef_, twin.coef_, atol=0.01 * np.abs(twin.coef_).max())
    assert model.best_estimator_.l1_ratio == model.l1_ratio_ and model.best_estimator_.alpha == model.alpha_
    own = SparseRegressorCV(SparseRegressor(l1_ratio=0.2, random_state=0), alphas=alphas, cv=fold).fit(X, y)
    assert own.l1_ratio_ == pytest.approx(0.2) and np.isclose(own.path_.alphas[0], 0.3)
    for bad in (0.0, 1.5, "l1", []):
        with pytest.raises(ValueError, match="l1_ratio="):
            SparseRegressorCV(l1_ratio=bad).fit(X, y)
    with pytest.raises(ValueError, match="needs models that are solved"):
        SparseRegressorCV(SparseRegressor(optimizer="fobos"), l1_ratio=[0.5]).fit(X, y)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_records_units_other_losses_and_the_polished_path():
    X, y, labels = dense()
    plain, record = (
        SparseRegressorCV(each, alphas=ALPHAS, cv=3).fit(X, y)
        for each in (SparseRegressor(random_state=0), SparseRegressor(penalty=ElasticNet(0.5), random_state=0))
    )
    assert np.array_equal(plain.coef_, record.coef_)
    scaled = SparseClassifier(standardize=True, random_state=0)
    one, other = (SparseClassifierCV(scaled, n_alphas=5).fit(rows, labels) for rows in (X, X * 100.0))
    np.testing.assert_allclose(one.path_.losses, other.path_.losses, rtol=1e-6)
    polished = SparseClassifierCV(SparseClassifier(polish=1e-6, standardize=True, random_state=0), n_alphas=5)
    assert polished.fit(X, labels).gap_ <= 1e-6 and (polished.path_.gaps <= 1e-6).all()
    for loss in ("hinge", "squared-hinge"):
        assert (
            SparseClassifierCV(SparseClassifier(loss, random_state=0), n_alphas=5).fit(X, labels).score(X, labels) > 0.6
        )
    weighted = SparseRegressor(feature_weights=np.r_[0.0, np.ones(11)], random_state=0)
    assert SparseRegressorCV(weighted, alphas=[10.0, 5.0]).fit(X, y).coef_.nonzero()[0].tolist() == [0]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("loss", ["logistic", "squared-hinge"])
@pytest.mark.parametrize("rows", [dense, sparse])
def test_polished_strengths_of_a_mixture_are_the_optima_of_each(rows, loss):
    """More strengths than are certified side by side, each with an L2 weight of its own, for three classes."""
    X = rows()[0]
    A, alphas = X.toarray() if sp.issparse(X) else X, np.geomspace(0.3, 0.003, 11)
    y = (A[:, :3] + np.random.default_rng(1).normal(size=(len(A), 3))).argmax(1)
    template = SparseClassifier(loss, polish=1e-7, standardize=False, random_state=0)
    path = SparseClassifierCV(template, alphas=alphas, l1_ratio=0.6, cv=2).fit(X, y).path_
    assert np.count_nonzero(path.coefs.toarray()) > 0 and (path.gaps <= 1e-7).all()
    for alpha in alphas:
        for q in range(3):
            model, target = path.model(alpha), np.where(y == q, 1.0, -1.0)
            w, b = model.coef_[q], model.intercept_[q]
            z = target * (A @ w + b)
            c = target * (-1.0 / (1.0 + np.exp(z)) if loss == "logistic" else -2.0 * np.maximum(1.0 - z, 0.0))
            g, lam = A.T @ c / len(y) + 0.4 * alpha * w, 0.6 * alpha
            inside = np.where(w != 0.0, np.abs(g + lam * np.sign(w)), np.maximum(np.abs(g) - lam, 0.0))
            assert max(inside.max(), abs(c.mean())) <= 1.01e-7 * lam


@parametrize_with_checks(
    [
        SparseClassifierCV(SparseClassifier(random_state=0), n_alphas=3, cv=2),
        SparseRegressorCV(SparseRegressor(random_state=0), n_alphas=3, cv=2),
    ],
    expected_failed_checks=lambda estimator: {
        f"check_sample_weight_equivalence_on_{kind}_data": "margins of 11 agree to six digits, and seven are asked"
        for kind in ("dense", "sparse")
        if isinstance(estimator, SparseClassifierCV)
    },
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.4])
def test_lanes_are_solutions_of_their_own(l1_ratio):
    X, _, labels = dense(2500, 8)
    y = np.where(labels == "yes", 1.0, -1.0)
    masks = np.stack([np.ones(2500, bool), np.arange(2500) % 3 > 0], 1)
    targets = np.asfortranarray(np.repeat(y[:, None], 2, 1))
    lanes = Lanes(targets, np.asfortranarray(masks / masks.sum(0)), Logistic(), np.zeros(2, np.int64))
    solver = LaneSolver(X, lanes, np.ones(8), True)
    for lam in (0.1, 0.05, 0.02):
        solver.solve(lam, l1_ratio, EXACT)
    csr = sp.csr_array(X)
    for k, mask in enumerate(masks.T):
        rows = np.flatnonzero(mask)
        columns = by_column(csr.indptr, csr.indices.astype(np.uint32), csr.data, rows, 8)
        alone = solver_of(columns, Examples(y[rows], np.ones(len(rows)), Logistic()), np.ones(8))
        w, b = alone.solve(0.02, l1_ratio, EXACT)
        np.testing.assert_allclose(solver.w[:, k], w, atol=1e-4)
        np.testing.assert_allclose(solver.b[k], b, atol=1e-3)
        assert np.array_equal(solver.w[:, k] != 0.0, w != 0.0)


# ---- splits and groups -----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("method", [{}, {"optimizer": "fobos", "conversion": "last"}])
def test_rows_of_a_group_are_in_one_fold_however_it_is_asked_for(method):
    """Every row is there four times: folds that split its copies prefer a model that has learned the noise."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((80, 40))
    y = X[:, 0] + 2.0 * rng.standard_normal(80)
    groups = np.repeat(np.arange(80), 4)
    X, y = X[groups], y[groups]

    def fitted(cv, given):
        template = SparseRegressor(random_state=0, **method)
        return SparseRegressorCV(template, alphas=[0.5, 0.1, 0.01, 1e-3], cv=cv).fit(X, y, groups=given)

    mixed = fitted(5, None)
    kept = [fitted(5, groups), fitted(GroupKFold(5), groups), fitted(list(GroupKFold(5).split(X, y, groups)), None)]
    assert mixed.alpha_ < min(each.alpha_ for each in kept)
    assert np.array_equal(kept[1].fold_losses_, kept[2].fold_losses_)
    folds = kept[0]._folds(X, groups, np.zeros(320), 0)
    for learned, judged in zip(folds.learned, folds.judged, strict=True):
        assert not set(groups[learned]) & set(groups[judged])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("rows", [dense, sparse])
def test_folds_of_a_time_series_learn_the_past_only(rows):
    X, y, _ = rows(2000)
    model = SparseRegressorCV(SparseRegressor(random_state=0), alphas=ALPHAS, cv=TimeSeriesSplit(3)).fit(X, y)
    for k, (past, future) in enumerate(TimeSeriesSplit(3).split(X)):
        for at, alpha in enumerate(ALPHAS):
            twin = SklearnElasticNet(alpha=alpha, l1_ratio=1.0, tol=1e-10, max_iter=100_000).fit(X[past], y[past])
            loss = 0.5 * np.square(twin.predict(X[future]) - y[future]).mean()
            np.testing.assert_allclose(model.fold_losses_[k, at], loss, rtol=1e-2)


def test_splits_that_cannot_be_are_refused():
    X, y = np.eye(6), np.arange(6.0)
    for cv, sentence in (
        ([], "cv has no splits"),
        ([(np.arange(3), np.arange(2, 6))], "a row twice"),
        ([(np.arange(3), np.arange(3, 7))], "rows from 0 to 5"),
        (7, "n_samples = 6"),
    ):
        with pytest.raises(ValueError, match=sentence):
            SparseRegressorCV(cv=cv).fit(X, y)
    with pytest.raises(ValueError, match="n_groups = 2"):
        SparseRegressorCV().fit(X, y, groups=[0, 0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match="give it to SparseRegressorCV"):
        SparseRegressorCV(SparseRegressor(cv=3)).fit(X, y)
