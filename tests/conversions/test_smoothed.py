"""Conversions of losses with kinks: smooth twins on the sample, judged by the loss itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from sparsco import SparseClassifier, SparseRegressor
from sparsco.conversions import AverageSL, LastSL, OptimalSL
from sparsco.conversions.corner import Faces, corner
from sparsco.conversions.metric import Evidence, choose, smoothed
from sparsco.conversions.reservoir import Reservoir
from sparsco.jit.lanes import where
from sparsco.losses import CLASSIFIER_LOSSES, REGRESSOR_LOSSES, EpsilonInsensitive, Hinge, Quantile, derivative, value
from sparsco.parts.contracts import Loss, part
from sparsco.penalties import ElasticNet, GroupL1, NonNegative, RowGroup, strength
from sparsco.solver.smoothing import smooth
from support import number_of_streams
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


@settings(max_examples=number_of_streams(150), deadline=None)
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


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("conversion", [AverageSL, LastSL, OptimalSL])
def test_smoothed_is_a_metric_by_name(loss, conversion):
    X, y = problem(loss)
    estimator = SparseClassifier if isinstance(loss, Hinge) else SparseRegressor
    given = {"alpha": 0.02, "max_iter": 1, "tol": None, "random_state": 0}
    model = estimator(loss, conversion=conversion(metric="smoothed"), **given).fit(X, y)
    assert objective(model, X, y, loss, 0.02) <= 1.005 * optimum(X, y, loss, 0.02)


def test_names_of_metrics_that_do_not_fit_a_loss_are_refused():
    X, y = problem(Hinge())
    with pytest.raises(ValueError, match="metric='newton' needs a loss with curvature, .* choose metric='smoothed'"):
        SparseClassifier("hinge", alpha=0.02, conversion=AverageSL(metric="newton")).fit(X, y)
    with pytest.raises(ValueError, match="metric='smoothed' needs a loss with kinks, which Logistic does not have"):
        SparseClassifier(alpha=0.02, conversion=AverageSL(metric="smoothed")).fit(X, y)


@part(Loss)
class Ramp(NamedTuple):
    """A loss of one's own that declares a kink: max(0, 1 - y p)."""

    classifies = True
    smoothness = 1.0
    curved = False

    def value(loss, p, y):
        return np.maximum(0.0, 1.0 - y * p)

    def derivative(loss, p, y):
        return where(y * p < 1.0, -y, 0.0 * y)

    def curvature(loss, p, y):
        return 0.0 * p

    def kinks(self, y):
        return y[None]


def test_a_loss_without_a_twin_is_refused_by_name_and_keeps_its_last_iterate():
    X, y = problem(Hinge())
    given = {"alpha": 0.02, "max_iter": 1, "tol": None}
    with pytest.raises(ValueError, match="there is no smooth twin of Ramp: leave the metric at 'auto'"):
        SparseClassifier(Ramp(), conversion=AverageSL(metric="smoothed"), **given).fit(X, y)
    model = SparseClassifier(Ramp(), conversion=AverageSL(), **given).fit(X, y)
    assert model.report_["converted"][0]["chosen"][0]["metric"] == "last"


def perturbed(rng, shape):
    """Yield small changes of a model, most of its weights unchanged."""
    for size in (0.3, 0.03, 0.003):
        for _ in range(300):
            yield size * rng.standard_normal(shape) * (rng.random(shape) < 0.3)


@pytest.mark.parametrize("loss", [Hinge(), Quantile(0.7), EpsilonInsensitive(0.2)], ids=repr)
@pytest.mark.parametrize("penalty", [RowGroup(0.05), GroupL1(0.1, np.arange(12) // 3), NonNegative(0.02)], ids=repr)
def test_where_weights_are_tied_the_twins_end_near_the_optimum(loss, penalty):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 12))
    truth = np.zeros((12, 3 if isinstance(penalty, RowGroup) else 1))
    truth[:3] = 1.0 + rng.random((3, truth.shape[1]))
    Y = X @ truth + 0.5 * rng.standard_normal((500, truth.shape[1]))
    y, targets, estimator = np.squeeze(Y), Y, SparseRegressor
    if isinstance(loss, Hinge):  # of three classes each has a model against the others
        y = Y.argmax(1) if Y.shape[1] > 1 else Y[:, 0] > 0.0
        targets = np.where(y[:, None] == (range(3) if Y.shape[1] > 1 else True), 1.0, -1.0)
        estimator = SparseClassifier
    model = estimator(loss, penalty=penalty, max_iter=1, tol=None, random_state=0).fit(X, y)
    assert model.report_["converted"][0]["chosen"][0]["metric"] == "smoothed"
    W, b = np.atleast_2d(model.coef_).T, np.ravel(model.intercept_)

    def total(W, b):
        if isinstance(penalty, NonNegative) and (W < 0.0).any():
            return np.inf
        return float(value(loss, X @ W + b, targets).mean(0).sum() + np.sum(strength(penalty, W)))

    here = total(W, b)
    steps = perturbed(rng, (13, W.shape[1]))
    assert here <= 1.003 * min(total(W + step[:12], b + step[12]) for step in steps)
    assert 0 < np.count_nonzero(W.any(1)) < 12  # zeros are exact


KINKED = {each for each in (*CLASSIFIER_LOSSES.values(), *REGRESSOR_LOSSES.values()) if each.kinks is not None}


@pytest.mark.parametrize("loss", sorted(KINKED, key=repr), ids=repr)
def test_slopes_jump_at_kinks_and_nowhere_else(loss):
    y = np.array([-1.0, 1.0])
    kinks = loss.kinks(y)
    assert smooth(loss) is not None and not loss.curved
    for each in kinks:
        assert (np.abs(derivative(loss, each + 1e-6, y) - derivative(loss, each - 1e-6, y)) >= 0.5).all()
    for i in range(2):
        p = np.linspace(-3.0, 3.0, 1001)
        crossed = np.flatnonzero(np.diff([derivative(loss, at, y[i]) for at in p]))
        assert len(crossed) <= 2 * len(kinks)  # two steps of the grid for a point that is on it
        assert all(np.abs(kinks[:, i] - p[j]).min() < 0.01 for j in crossed)
