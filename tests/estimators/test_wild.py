"""The defaults on wild rows: no scale, no heavy tail and no loss makes them diverge or answer with NaN."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from sparsco import SparseClassifier, SparseRegressor
from sparsco.conversions import metric
from sparsco.conversions.reservoir import Sample, SampleRows
from sparsco.losses import Logistic
from sparsco.penalties import ElasticNet
from support import LONG

CLASSIFIERS = ("logistic", "hinge", "squared-hinge", "multinomial")
LOSSES = (*CLASSIFIERS, "squared", "huber", "poisson", "epsilon-insensitive", "quantile")
LARGEST = 9e74
"""Numbers from 1e75 on are refused."""


def entries(kind, rng, k):
    """k numbers."""
    if kind == "counts":
        return np.floor(np.minimum(rng.pareto(0.7, k), 1e6)) + 1.0
    if kind == "lognormal":
        return rng.lognormal(0.0, 4.0, k) * rng.choice([-1.0, 1.0], k)
    return {
        "normal": rng.standard_normal,
        "cauchy": rng.standard_cauchy,
        "ones": np.ones,
        "pareto": lambda n: rng.pareto(0.5, n),
    }[kind](k)


def column_scales(kind, rng, d):
    """A factor for each column."""
    if kind == "wide":
        return rng.lognormal(0.0, 5.0, d)
    if kind == "mixed":
        return 10.0 ** rng.uniform(-100.0, 55.0, d)
    return np.full(d, {"none": 1.0, "large": 1e6, "huge": 1e60, "tiny": 1e-100}[kind])


def row_scales(kind, rng, n):
    """A factor for each row."""
    if kind == "heavy":
        return rng.lognormal(0.0, 4.0, n)
    return np.where(rng.random(n) < 0.01, 1e5, 1.0) if kind == "jump" else np.ones(n)


def wild(seed):
    """Rows, targets and an estimator with its defaults."""
    rng = np.random.default_rng(seed)
    loss = LOSSES[seed % len(LOSSES)]
    density, d = rng.choice([1.0, 0.3, 0.02]), int(rng.choice([3, 20, 200, 2000]))
    n = int(min(rng.integers(50, 3000), max(200_000 / (d * density), 50)))
    kind = rng.choice(["normal", "counts", "cauchy", "lognormal", "pareto", "ones"])
    plain = sp.random(n, d, density, format="csr", random_state=rng, data_rvs=lambda k: entries(kind, rng, k))
    columns = column_scales(rng.choice(["none", "wide", "mixed", "large", "huge", "tiny"]), rng, d)
    rows = row_scales(rng.choice(["none", "heavy", "jump"]), rng, n)
    X = sp.csr_matrix(sp.diags(rows) @ plain @ sp.diags(columns))
    X.data = np.clip(X.data, -LARGEST, LARGEST)
    plain.data = np.sign(plain.data) * np.log1p(np.abs(plain.data))
    margin = plain @ np.where(rng.random(d) < max(3 / d, 0.05), rng.standard_normal(d), 0.0)
    margin = margin / margin.std() if margin.std() > 1e-9 else 0.0 * margin
    alpha, l1_ratio = [1e-12, 1e-8, 1e-6, 1e-4, 1e-2, "auto"][rng.integers(6)], float(rng.choice([1.0, 1.0, 0.5]))
    if loss in CLASSIFIERS:
        kinds = int(rng.choice([2, 2, 5, 20, 40] if LONG else [2, 2, 20]))
        cuts = np.quantile(margin, np.linspace(0.0, 1.0, kinds + 1)[1:-1])
        y = np.digitize(margin + rng.logistic(size=n), cuts)
        y[:2] = 0, 1
    elif loss == "poisson":
        y = rng.poisson(np.exp(np.clip(margin + 1.0, -10.0, 8.0))).astype(float)
    else:
        noise = rng.standard_normal(n) if rng.random() < 0.5 else np.clip(rng.standard_cauchy(n), -1e6, 1e6)
        y = (margin + noise) * 10.0 ** rng.choice([0, 0, 3, -3, 60, -30])
    make = SparseClassifier if loss in CLASSIFIERS else SparseRegressor
    return X, y, make(loss=loss, alpha=alpha, l1_ratio=l1_ratio, random_state=seed % 7), rng.random() < 0.3


@pytest.mark.parametrize("seed", range(200 if LONG else 27))
def test_defaults_on_wild_rows(seed):
    X, y, model, in_pieces = wild(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of what is not enough rows to tell
        if in_pieces:
            options = {"classes": np.unique(y)} if isinstance(model, SparseClassifier) else {}
            for start in range(0, len(y), 400):
                model.partial_fit(X[start : start + 400], y[start : start + 400], **options)
        else:
            model.fit(X, y)
        assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()
        assert np.isfinite(model.predict(X)).all()
        if isinstance(model, SparseClassifier):
            assert np.isfinite(model.decision_function(X)).all()
        if model.loss in ("logistic", "multinomial"):
            assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared"])
def test_a_jump_of_the_scale_lowers_the_weight(loss):
    """A weight learned on small values meets one that is a million times larger: w x stays small."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = np.sign(X @ [1.0, -1.0, 0.5])
    far = X.copy()
    far[200, 0] = 1e6
    make = SparseRegressor if loss == "squared" else SparseClassifier
    model = make(loss=loss, alpha=1e-6, conversion="last", random_state=0).partial_fit(far, y)
    assert np.abs(far @ model.coef_.ravel()).max() < 100.0


def rows_of(X, y):
    """Rows of a sample."""
    X, n = sp.csr_matrix(X), len(y)
    indices = X.indices.astype(np.uint32)
    return SampleRows(X.indptr.astype(np.int64), indices, X.data.astype(float), y, np.ones(n), np.arange(n))


def test_the_guard_believes_no_fall_below_zero():
    """A column that no sampled row has: its slope alone would promise any objective one likes."""
    rng = np.random.default_rng(0)
    X = np.hstack([rng.standard_normal((60, 2)), np.zeros((60, 1))])
    y = np.where(X[:, 0] + rng.logistic(size=60) > 0, 1.0, -1.0)
    sample = Sample(rows_of(X[:30], y[:30]), rows_of(X[30:], y[30:]), 0.3)
    w_bar = np.array([0.5, 0.0, 0.1])
    H = np.array([0.2, 0.2, 1e-14])  # curvature of rows that are far on the wrong side
    g_bar = np.array([0.01, 0.0, 0.2])
    evidence = metric.Evidence(w_bar, 0.0, w_bar, 0.0, g_bar, 0.0, H, 0.2, 100, 100, 1.0)
    choice = metric.choose(evidence, Logistic(), ElasticNet(1e-4, 0.0), sample, True)
    assert min(choice.objectives.values()) >= 0.0
    assert np.abs(choice.w).max() < 100.0


def test_the_guard_falls_back_to_a_constant():
    """Phase one is astray, and no candidate made from it is any better than no feature at all."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    X[::7] *= 1e6
    y = np.where(rng.random(60) < 0.8, 1.0, -1.0)
    sample = Sample(rows_of(X[:30], y[:30]), rows_of(X[30:], y[30:]), 0.3)
    w = np.array([300.0, -300.0])
    evidence = metric.Evidence(w, 0.0, w, 0.0, np.zeros(2), 0.0, np.ones(2), 0.0, 100, 100, 1.0)
    choice = metric.choose(evidence, Logistic(), ElasticNet(1e-4, 0.0), sample, True)
    assert choice.name == "constant" and not choice.w.any() and 0.5 < choice.b < 2.5
