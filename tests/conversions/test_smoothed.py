"""Conversions of losses with kinks: smooth twins on the sample, judged by the loss itself."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from sparsco import SparseClassifier, SparseRegressor
from sparsco.conversions.corner import Faces, corner
from sparsco.conversions.metric import Evidence, choose, smoothed
from sparsco.conversions.reservoir import Reservoir
from sparsco.losses import EpsilonInsensitive, Hinge, Quantile, value
from sparsco.penalties import ElasticNet
from support.reservoirs import offer


def optimum(X, y, loss, lam):
    """Return the least mean loss plus lam times the L1 norm, with an intercept, by a linear program."""
    n, d = X.shape
    if isinstance(loss, Hinge):  # xi >= 1 - y p, xi >= 0
        kinks = [(-y, 1.0, 1.0)]
        extra = 0.0
    elif isinstance(loss, Quantile):  # q (y - p) + xi, xi >= p - y
        kinks = [(np.ones(n), -y, 1.0)]
        extra = loss.q
    else:  # xi >= |p - y| - epsilon
        kinks = [(np.ones(n), -y - loss.epsilon, 1.0), (-np.ones(n), y - loss.epsilon, 1.0)]
        extra = 0.0
    A, bound, cost = [], [], np.r_[np.full(2 * d, lam), 0.0, np.full(n, 1.0 / n)]
    for sign, offset, _ in kinks:  # sign p + offset <= xi
        slope = sign[:, None] * np.column_stack([X, -X, np.ones(n)])
        A.append(np.column_stack([slope, -np.eye(n)]))
        bound.append(-offset * np.ones(n))
    cost[: 2 * d + 1] -= extra * np.r_[X.mean(0), -X.mean(0), 1.0]
    limits = [(0, None)] * (2 * d) + [(None, None)] + [(0, None)] * n
    found = linprog(cost, A_ub=np.concatenate(A), b_ub=np.concatenate(bound), bounds=limits, method="highs")
    return found.fun + extra * y.mean()


def objective(model, X, y, loss, lam):
    w, b = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
    return float(value(loss, X @ w + b, y).mean() + lam * np.abs(w).sum())


def problem(loss, n=400, d=30, seed=0):
    """Return rows, targets, and a tenth of the spread of the gradients as a strength."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)
    p = X[:, :5] @ np.array([2.0, -2.0, 1.0, 1.0, -1.0]) + rng.standard_normal(n)
    return X, np.where(p > 0.0, 1.0, -1.0) if isinstance(loss, Hinge) else p + 3.0


LOSSES = [Hinge(), Quantile(0.5), Quantile(0.8), EpsilonInsensitive(0.2)]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("lam", [0.05, 0.005])
def test_one_pass_ends_near_the_optimum(loss, lam):
    X, y = problem(loss)
    least = optimum(X, y, loss, lam)
    estimator = SparseClassifier if isinstance(loss, Hinge) else SparseRegressor
    model = estimator(loss, alpha=lam, max_iter=1, tol=None, random_state=0).fit(sp.csr_array(X), y)
    assert model.report_["converted"][0]["chosen"][0]["metric"] == "smoothed"
    reached = objective(model, X, y, loss, lam)
    assert least * (1.0 - 1e-9) <= reached <= 1.01 * least
    last = estimator(loss, alpha=lam, max_iter=1, tol=None, conversion="last", random_state=0).fit(sp.csr_array(X), y)
    assert reached < objective(last, X, y, loss, lam)


@pytest.mark.parametrize("conversion", ["average-sl", "last-sl", "optimal-sl"])
def test_all_conversions_by_a_sparse_map_take_the_twins(conversion):
    X, y = problem(Hinge(), 1500)
    least = optimum(X, y, Hinge(), 0.02)
    model = SparseClassifier("hinge", alpha=0.02, conversion=conversion, max_iter=1, tol=None, random_state=0).fit(X, y)
    assert objective(model, X, y, Hinge(), 0.02) <= 1.01 * least
    assert 0 < model.n_selected_ < 20  # zeros are exact


def test_weights_of_rows_and_an_l2_term_count():
    X, y = problem(Hinge(), 600)
    weights = np.random.default_rng(1).integers(1, 4, 600).astype(float)
    model = SparseClassifier("hinge", alpha=0.02, l1_ratio=0.5, max_iter=1, tol=None, random_state=0)
    w, b = (np.ravel(part) for part in (model.fit(X, y, sample_weight=weights).coef_, model.intercept_))

    def total(w, b):
        penalty = 0.01 * np.abs(w).sum() + 0.005 * np.square(w).sum()
        return (weights * np.maximum(1.0 - y * (X @ w + b), 0.0)).mean() + penalty

    here, rng = total(w, b), np.random.default_rng(0)
    steps = [scale * rng.standard_normal((2000, 31)) * (rng.random((2000, 31)) < 0.1) for scale in (0.3, 0.03)]
    best = min(total(w + step[:30], b + step[30]) for step in np.concatenate(steps))
    assert here < 1.002 * best


def test_a_stream_beyond_the_reservoir_is_guarded():
    rng = np.random.default_rng(0)
    X = sp.random_array((40_000, 300), density=0.1, format="csr", rng=rng)  # more than a million nonzeros
    w = np.where(rng.random(300) < 0.1, 3.0 * rng.standard_normal(300), 0.0)
    y = np.where(X @ w + 0.3 * rng.standard_normal(40_000) > 0.0, 1.0, -1.0)
    given = {"alpha": 2e-3, "max_iter": 1, "tol": None, "random_state": 0}
    model, last = (SparseClassifier("hinge", conversion=each, **given).fit(X, y) for each in ("auto", "last"))
    totals = [objective(each, X, y, Hinge(), 2e-3) for each in (model, last)]
    assert totals[0] < totals[1] and model.n_selected_ <= last.n_selected_


def test_a_phase_one_that_diverged_has_no_twin():
    X, y = problem(Hinge())
    R = Reservoir()
    offer(R, X, y)
    sample, nan = R.sample().lane(0), np.full(30, np.nan)
    e = Evidence(nan, 0.0, nan, 0.0, nan, 0.0, None, 0.0, 400, 400, 1.0)
    with np.errstate(all="ignore"):
        choice = choose(e, Hinge(), ElasticNet(0.01), sample, True)
    assert choice.name == "constant" and not choice.w.any()


def test_columns_that_the_sample_lacks_keep_the_last_iterate():
    X, y = problem(Hinge())
    X[:, 7] = X[:, 8] = 0.0
    sample = offer(Reservoir(), X, y).sample().lane(0)
    w_bar, w_last = np.zeros(30), np.zeros(30)
    w_bar[:10], w_last[7] = 0.3, 0.2
    e = Evidence(w_last, 0.0, w_bar, 0.0, np.zeros(30), 0.0, None, 0.0, 400, 400, 1.0)
    w, _ = smoothed(e, Hinge(), ElasticNet(0.02), sample, True)
    assert w[7] == 0.2 and w[8] == 0.0


@pytest.mark.parametrize("loss", [Hinge(), Quantile(0.3)], ids=repr)
def test_of_many_optima_one_with_few_features_is_found(loss):
    """Columns of a category and its complement, or a column twice, leave the optimum open."""
    rng = np.random.default_rng(3)
    kinds = rng.integers(0, 3, (300, 4))
    X = np.column_stack([kinds == k for k in range(3)]).astype(float)
    X = np.column_stack([X, X[:, :3]])
    p = 2.0 * X[:, 0] - X[:, 5] + 0.3 * rng.standard_normal(300)
    y = np.where(p > 0.5, 1.0, -1.0) if isinstance(loss, Hinge) else np.round(p, 1)
    least = optimum(X, y, loss, 0.02)
    for seed in range(3):
        estimator = SparseClassifier if isinstance(loss, Hinge) else SparseRegressor
        model = estimator(loss, alpha=0.02, max_iter=1, tol=None, random_state=seed).fit(X, y)
        assert objective(model, X, y, loss, 0.02) <= least * (1.0 + 1e-5)
    kinks = np.abs(X @ np.ravel(model.coef_) + model.intercept_ - y) < 1e-9
    used = np.column_stack([X[:, np.ravel(model.coef_) != 0.0], np.ones(300)])
    assert np.linalg.matrix_rank(used[kinks]) == used.shape[1]  # a vertex: rows at their kinks determine the weights


NUMBERS = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.0, 0.5, 1.0, 3.0])


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from([Hinge(), Quantile(0.5), Quantile(0.8), EpsilonInsensitive(0.5)]))
def test_a_corner_is_no_worse_and_is_a_corner(data, loss):
    n, d = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 5))
    X = np.array(data.draw(st.lists(st.lists(NUMBERS, min_size=d, max_size=d), min_size=n, max_size=n)))
    y = np.array(data.draw(st.lists(NUMBERS, min_size=n, max_size=n)))
    if isinstance(loss, Hinge):
        y = np.where(y > 0.0, 1.0, -1.0)
    X, pen = np.column_stack([X, np.ones(n)]), np.append(np.full(d, 0.1), 0.0)
    start = np.array(data.draw(st.lists(NUMBERS, min_size=d + 1, max_size=d + 1)))
    weights = np.array(data.draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=n, max_size=n)))
    faces = Faces(X, y, weights, loss, pen)
    v = corner(faces, start)
    assert faces.objective(v) <= faces.objective(start) + 1e-9
    assert not v[(start == 0.0) & (pen > 0.0)].any()
    at_kink = (np.abs(faces.kinks - X @ v) < 1e-7).any(0)
    used = X[:, (v != 0.0) | (pen == 0.0)]
    assert np.linalg.matrix_rank(used[at_kink]) == used.shape[1]
