"""Certified optima of all losses and penalties: against dual bounds written down once more, and other solvers."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn.linear_model import LogisticRegression

from sparsco import SparseClassifier, SparseRegressor
from sparsco.data.rows import as_matrix
from sparsco.engine.polish import polish
from sparsco.engine.polish_rows import RowsInMemory
from sparsco.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
    curvature,
    derivative,
    value,
)
from sparsco.penalties import Box, ElasticNet, GroupL1, NonNegative, RowGroup, SparseGroup, WeightedElasticNet, strength
from sparsco.solver import loss_term

LOSSES = [
    Squared(),
    Huber(),
    EpsilonInsensitive(0.1),
    Quantile(0.3),
    Poisson(),
    Logistic(),
    Hinge(),
    SquaredHinge(),
    Multinomial(),
]
SHAPES = {"dense": (200, 20), "sparse": (300, 120), "wide": (40, 200)}


def rows(shape, seed=0):
    rng = np.random.default_rng(seed)
    n, d = SHAPES[shape]
    X = rng.standard_normal((n, d)) + 0.3
    if shape == "sparse":
        X *= rng.random((n, d)) < 0.08
    truth = np.zeros((d, 4))
    truth[:6] = 1.5 * rng.standard_normal((6, 4))
    return X, X @ truth


def targets(loss, P, seed=5):
    rng = np.random.default_rng(seed)
    p = P[:, :1]
    if loss.couples:
        return np.eye(P.shape[1])[np.argmax(P + rng.gumbel(size=P.shape), 1)]
    if loss.classifies:
        return np.where(rng.random(p.shape) < 1.0 / (1.0 + np.exp(-p)), 1.0, -1.0)
    if isinstance(loss, Poisson):
        return rng.poisson(np.exp(np.clip(0.5 * p, -5.0, 3.0))).astype(float)
    return p + rng.standard_normal(p.shape)


def solve(loss, penalty, X, Y, tol=1e-6, intercept=True, weights=None, **more):
    """The optimum from zero; a regression loss with kinks gets its scale from the targets, as in a fit."""
    matrix, every = as_matrix(sp.csr_array(X)), np.ones(Y.shape) if weights is None else weights
    loss = loss.resolve(Y[:, 0], every[:, 0])
    start = np.zeros((matrix.d, Y.shape[1])), np.zeros(Y.shape[1])
    return polish(
        RowsInMemory(matrix, Y, every), *start, loss=loss, penalty=penalty, intercept=intercept, tol=tol, **more
    )


def conjugate(loss, u, y):
    """sup_p u p - loss(p, y), infinite outside of its domain, up to rounding."""
    inside, e = np.ones(len(u), bool), 1e-12
    if isinstance(loss, Squared | Huber):
        total = 0.5 * u**2 + u * y
        inside = np.abs(u) <= (loss.epsilon + e if isinstance(loss, Huber) else np.inf)
    elif isinstance(loss, EpsilonInsensitive):
        total, inside = u * y + loss.epsilon * np.abs(u), np.abs(u) <= 1.0 + e
    elif isinstance(loss, Quantile):
        total, inside = u * y, (u >= -loss.q - e) & (u <= 1.0 - loss.q + e)
    elif isinstance(loss, Poisson):
        mean = np.maximum(u + y, 1e-300)
        total, inside = mean * np.log(mean) - mean, u + y >= -e
    elif isinstance(loss, Hinge):
        total, inside = u * y, (-u * y >= -e) & (-u * y <= 1.0 + e)
    elif isinstance(loss, SquaredHinge):
        total, inside = 0.25 * u**2 + u * y, -u * y >= -e
    elif isinstance(loss, Logistic):
        s = np.clip(-u * y, 1e-300, 1.0)
        total = s * np.log(s) + (1.0 - s) * np.log(np.maximum(1.0 - s, 1e-300))
        inside = (-u * y >= -e) & (-u * y <= 1.0 + e)
    else:
        s = u + y
        total = (np.maximum(s, 0.0) * np.log(np.maximum(s, 1e-300))).sum(1)
        inside = (s >= -e).all(1) & (np.abs(s.sum(1) - 1.0) <= 1e-9)
    assert np.all(inside)
    return float(np.sum(total)) / len(u)


def lower_bound(loss, penalty, X, Y, u):
    """The dual objective at slopes u, after they are scaled to be feasible: no model has a lower objective."""
    assert np.abs(u.mean(0)).max() <= 1e-10  # there is an intercept
    V = -X.T @ u / len(u)
    lam, rho = penalty.lam, penalty.rho
    if isinstance(penalty, ElasticNet):
        sizes = np.abs(V)
    elif isinstance(penalty, NonNegative):
        sizes = np.maximum(V, 0.0)
    elif isinstance(penalty, RowGroup):
        sizes = np.sqrt((V**2).sum(1))
    else:
        groups = [np.flatnonzero(penalty.groups == g) for g in range(penalty.groups.max() + 1)]
        sizes = np.array([np.sqrt((V[g] ** 2).sum() / g.size) for g in groups])
    if rho > 0.0:
        assert isinstance(penalty, ElasticNet)
        return -conjugate(loss, u, Y) - float((np.maximum(sizes - lam, 0.0) ** 2).sum()) / (2.0 * rho)
    return -conjugate(loss, min(1.0, lam / sizes.max()) * u, Y)


def penalties(d, lam):
    yield ElasticNet(lam)
    yield ElasticNet(lam, 0.3 * lam)
    yield NonNegative(lam)
    yield GroupL1(lam, np.arange(d) // 5)


def lam_max(loss, X, Y):
    c = derivative(loss, np.zeros_like(Y) + (0.0 if loss.classifies else np.median(Y)), Y)
    return np.abs(X.T @ (c - c.mean(0))).max() / len(Y)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_every_gap_is_certified(loss, shape):
    X, P = rows(shape)
    Y = targets(loss, P)
    selected = []
    for share in (0.3, 0.05, 0.005):
        for penalty in penalties(X.shape[1], share * lam_max(loss, X, Y)):
            found = solve(loss, penalty, X, Y)
            W, b, u = found.w, found.b, found.slopes[0]
            objective = value(loss, X @ W + b, Y).sum() / len(Y) + float(np.sum(strength(penalty, W)))
            assert objective == pytest.approx(found.objectives[0], rel=1e-9)
            bound = lower_bound(loss, penalty, X, Y, u if loss.couples else u[:, :1])
            assert objective - bound <= 1e-6 * abs(objective), (penalty, share)
            assert objective - bound <= found.duality_gaps[0] + 1e-9 * abs(objective)
            assert found.gaps[0] <= 1e-6
            selected.append(np.count_nonzero(W.any(1)))
    assert 0 < max(selected[:4]) < max(selected) and selected[0] < X.shape[1]


@pytest.mark.parametrize("loss", LOSSES[:-1], ids=lambda loss: type(loss).__name__)
def test_columns_in_units_of_their_own(loss):
    """Columns of a raw table: sizes that differ by factors of a million, and means that are not zero."""
    X, P = rows("dense")
    X = (X + 2.0) * 10.0 ** np.linspace(-2.0, 4.0, X.shape[1])
    Y = targets(loss, P)
    for penalty in penalties(X.shape[1], 0.1):
        found = solve(loss, penalty, X, Y)
        bound = lower_bound(loss, penalty, X, Y, found.slopes[0])
        assert found.objectives[0] - bound <= 1e-6 * abs(found.objectives[0]), penalty


@pytest.mark.parametrize("loss", [Squared(), Hinge(), Logistic(), Multinomial()], ids=lambda loss: type(loss).__name__)
def test_other_penalties_reach_their_gap(loss):
    """Pure L2, boxes, sparse groups, rows, and feature weights that are zero for some."""
    X, P = rows("dense")
    Y, d = targets(loss, P), X.shape[1]
    lam = 0.05 * lam_max(loss, X, Y)
    pen = np.where(np.arange(d) < 2, 0.0, 1.0 + np.arange(d) / d)
    others = [
        ElasticNet(0.0, lam),
        Box(-0.2, 0.3),
        Box(np.full(d, -0.1), np.linspace(0.0, 1.0, d), 0.01),
        SparseGroup(lam, np.arange(d) // 4, 0.5),
        RowGroup(lam),
        WeightedElasticNet(lam, 0.0, pen),
    ]
    rng = np.random.default_rng(1)
    for penalty in others:
        found = solve(loss, penalty, X, Y)
        assert found.gaps[0] <= 1e-6 and found.duality_gaps[0] <= 1e-6 * found.objectives[0]
        low, high = (
            (np.reshape(each, (-1, 1)) for each in penalty[:2]) if isinstance(penalty, Box) else (-np.inf, np.inf)
        )
        for size in (1e-1, 1e-3, 1e-5):  # no point nearby is better
            W = np.clip(found.w + size * rng.standard_normal(found.w.shape), low, high)
            f = value(loss, X @ W + found.b, Y).sum() / len(Y) + float(np.sum(strength(penalty, W)))
            assert f >= found.objectives[0] - found.duality_gaps[0]


def hinge_by_highs(X, y, lam):
    """min 1/n sum t_i + lam sum (w+ + w-), t_i >= 1 - y_i (x_i (w+ - w-) + b), all but b at least 0."""
    n, d = X.shape
    Z = y[:, None] * X
    A = np.hstack([-Z, Z, -y[:, None], -np.eye(n)])
    c = np.concatenate([np.full(2 * d, lam), [0.0], np.full(n, 1.0 / n)])
    bounds = [(0, None)] * (2 * d) + [(None, None)] + [(0, None)] * n
    return linprog(c, A_ub=A, b_ub=-np.ones(n), bounds=bounds, method="highs").fun


def quantile_by_highs(X, y, lam, q):
    """min 1/n sum (q r+ + (1 - q) r-) + lam sum (w+ + w-), x_i (w+ - w-) + b + r+_i - r-_i = y_i."""
    n, d = X.shape
    A = np.hstack([X, -X, np.ones((n, 1)), np.eye(n), -np.eye(n)])
    c = np.concatenate([np.full(2 * d, lam), [0.0], np.full(n, q / n), np.full(n, (1.0 - q) / n)])
    bounds = [(0, None)] * (2 * d) + [(None, None)] + [(0, None)] * (2 * n)
    return linprog(c, A_eq=A, b_eq=y, bounds=bounds, method="highs").fun


@pytest.mark.parametrize("shape", SHAPES)
def test_linear_programs(shape):
    X, P = rows(shape)
    labels, numbers = targets(Hinge(), P), targets(Quantile(0.3), P)
    for share in (0.2, 0.02):
        lam = share * lam_max(Hinge(), X, labels)
        found, best = solve(Hinge(), ElasticNet(lam), X, labels), hinge_by_highs(X, labels[:, 0], lam)
        assert best * (1.0 - 1e-9) <= found.objectives[0] <= best * (1.0 + 1e-6)
        lam = share * lam_max(Quantile(0.3), X, numbers)
        found, best = solve(Quantile(0.3), ElasticNet(lam), X, numbers), quantile_by_highs(X, numbers[:, 0], lam, 0.3)
        assert best * (1.0 - 1e-9) <= found.objectives[0] <= best * (1.0 + 1e-6)


def test_a_softmax_equals_saga_and_lbfgs():
    X, P = rows("dense")
    y = np.argmax(targets(Multinomial(), P), 1)
    for ratio, solver in ((1.0, "saga"), (0.0, "lbfgs")):
        ours = SparseClassifier("multinomial", alpha=0.01, l1_ratio=ratio, polish=1e-8, random_state=0).fit(X, y)
        C = 1.0 / (0.01 * len(y))
        theirs = LogisticRegression(C=C, l1_ratio=ratio, solver=solver, tol=1e-9, max_iter=20_000).fit(X, y)
        assert np.abs(ours.predict_proba(X) - theirs.predict_proba(X)).max() <= 1e-4
        penalty = ElasticNet(0.01 * ratio, 0.01 * (1.0 - ratio))  # with L1 and four classes, weights are not unique
        f, best = (
            value(Multinomial(), X @ m.coef_.T + m.intercept_, np.eye(4)[y]).sum() / len(y)
            + float(np.sum(strength(penalty, m.coef_.T)))
            for m in (ours, theirs)
        )
        assert f <= best * (1.0 + 1e-9) and best <= f * (1.0 + 1e-6)


@pytest.mark.parametrize(("classes", "n", "d"), [(3, 30, 5), (3, 30, 60), (10, 200, 20), (50, 300, 30)])
@pytest.mark.parametrize("strength_", [1e-2, 1e-4, 1e-6])
def test_a_softmax_converges(classes, n, d, strength_):
    """Separable classes, tiny strengths, more features than rows, many classes, some with a single row."""
    rng = np.random.default_rng(classes)
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    X = rng.standard_normal((n, d)) + 3.0 * rng.standard_normal((classes, d))[y] * (d > 10)
    found = solve(
        Multinomial(), ElasticNet(strength_ * lam_max(Multinomial(), X, np.eye(classes)[y])), X, np.eye(classes)[y]
    )
    assert found.gaps[0] <= 1e-6 and found.duality_gaps[0] <= 1e-6 * found.objectives[0]


def test_weights_and_no_intercept():
    """Whole weights equal repeated rows, and rows of weight zero do not count."""
    X, P = rows("dense")
    times = np.random.default_rng(2).integers(0, 4, len(X))
    for loss in (Hinge(), Multinomial(), Poisson()):
        Y = targets(loss, P)
        weights = np.repeat(times[:, None].astype(float), Y.shape[1], 1)
        share = np.count_nonzero(times) / times.sum()  # the mean is over the rows that count
        weighted = solve(loss, ElasticNet(0.02), X, Y, 1e-8, False, weights * share)
        repeated = solve(loss, ElasticNet(0.02), np.repeat(X, times, 0), np.repeat(Y, times, 0), 1e-8, False)
        assert weighted.objectives[0] == pytest.approx(repeated.objectives[0], rel=1e-7)
        assert not weighted.b.any() and weighted.gaps[0] <= 1e-8


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (SparseClassifier, {"loss": "hinge"}),
        (SparseClassifier, {"loss": "multinomial", "penalty": "row-group"}),
        (SparseClassifier, {"penalty": "nonnegative"}),
        (SparseClassifier, {"l1_ratio": 0.0}),
        (SparseRegressor, {"loss": "quantile"}),
        (SparseRegressor, {"loss": "absolute"}),
        (SparseRegressor, {"loss": "epsilon-insensitive", "l1_ratio": 0.5}),
        (SparseRegressor, {"loss": "poisson"}),
    ],
)
def test_estimators(kind, settings):
    X, P = rows("dense")
    y = np.digitize(P[:, 0], [-1.0, 1.0]) if kind is SparseClassifier else np.maximum(P[:, 0], 0.0).round()
    model = kind(alpha=0.02, polish=1e-6, random_state=0, **settings).fit(X, y)
    assert model.gap_ <= 1e-6
    for each in model.report_["converted"]:
        gaps, objectives = each["polish"]["duality_gaps"], each["polish"]["objectives"]
        assert all(gap <= 1e-6 * abs(f) for gap, f in itertools.zip_longest(gaps, objectives))


@pytest.mark.parametrize("loss", [Squared(), Huber(), SquaredHinge()], ids=lambda loss: type(loss).__name__)
def test_tiny_strengths_with_more_columns_than_rows(loss):
    X, P = rows("wide")
    Y = targets(loss, P)
    penalty = ElasticNet(1e-5, 0.0)
    found = solve(loss, penalty, X, Y)
    bound = lower_bound(loss, penalty, X, Y, found.slopes[0])
    assert found.gaps[0] <= 1e-6 and found.reached.all() and np.count_nonzero(found.w) <= len(X)
    assert found.objectives[0] - bound <= 1e-6 * found.objectives[0] + 1e-15


@pytest.mark.parametrize(
    "loss", [EpsilonInsensitive(0.1), Quantile(0.5), Hinge()], ids=lambda loss: type(loss).__name__
)
def test_columns_far_from_zero(loss):
    """The balance of the slopes moves gradients of such columns; the certificate counts, not its estimate."""
    penalty = ElasticNet(0.02, 0.0)
    for shape, seed in itertools.product(["dense", "wide"], range(4)):
        X, P = rows(shape, seed)
        X, Y = X + 100.0, targets(loss, P, seed + 5)
        found = solve(loss, penalty, X, Y)
        bound = lower_bound(loss, penalty, X, Y, found.slopes[0])
        assert found.gaps[0] <= 1e-6 and found.objectives[0] - bound <= 1e-6 * found.objectives[0]


def test_a_tolerance_below_rounding_ends_with_a_sentence():
    X, P = rows("dense")
    for loss in (Quantile(0.5), Squared()):
        found = solve(loss, ElasticNet(0.02, 0.0), X, targets(loss, P), tol=1e-17)
        assert found.passes < 100 and not found.reached.any()
        assert "polish=1e-17 was not reached" in found.shortfall(1e-17)


def test_an_optimum_that_lies_infinitely_far_is_not_called_certified():
    """Classes that features without a penalty separate: violations vanish, the share of the objective does not."""
    X, P = rows("dense")
    model = SparseClassifier(alpha=0.02, feature_weights=np.append(np.zeros(6), np.ones(14)), polish=1e-6)
    with pytest.warns(UserWarning, match="polish=1e-06 was not reached"):
        model.fit(X, P[:, 0] > 0.0)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_rows_of_weight_zero_are_as_if_they_were_not_there(is_sparse):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 12)) * (rng.random((300, 12)) < (0.4 if is_sparse else 1.0))
    y = np.sign(X[:, :1] - X[:, 1:2] + rng.logistic(size=(300, 1)))
    weights, lams = np.ones((300, 1)), np.geomspace(0.1, 0.002, 10)
    out = rng.choice(300, 5, replace=False)
    weights[out], y[out] = 0.0, -y[out]
    start = np.zeros((12, 10)), np.zeros(10)
    given = {"loss": Logistic(), "penalty": ElasticNet(0.1), "lams": lams, "chains": 1, "tol": 1e-10}
    found = polish(RowsInMemory(as_matrix(X), y, weights), *start, **given)
    kept = np.delete(np.arange(300), out)
    wanted = polish(RowsInMemory(as_matrix(X[kept]), y[kept], weights[kept]), *start, **given)
    assert found.reached.all()
    np.testing.assert_allclose(found.w, wanted.w, rtol=0.0, atol=1e-7)
    np.testing.assert_allclose(found.objectives, wanted.objectives, rtol=1e-12)


@pytest.mark.parametrize("loss", [Logistic(), Squared(), Hinge()])
def test_a_mean_loss_in_parts_is_that_of_all_rows(loss, monkeypatch):
    monkeypatch.setattr(loss_term, "_NUMBERS", 7)
    rng = np.random.default_rng(4)
    P, y, share = rng.normal(size=(30, 2)), np.sign(rng.normal(size=(30, 2))), rng.random((30, 2))
    term = loss_term.LossTerm(loss, y, share, P)
    shifted = P + term.shift
    slopes = derivative(term.twin, shifted, y)
    assert term.true_value(P) == pytest.approx((share * value(loss, P, y)).sum(), rel=1e-14)
    assert term.value(P) == pytest.approx((share * value(term.twin, shifted, y)).sum(), rel=1e-14)
    assert term.dual(0.9, slopes) == pytest.approx(-(share * loss.conjugate(0.9 * slopes, y)).sum(), rel=1e-14)
    np.testing.assert_array_equal(term.slopes(P), share * slopes)
    np.testing.assert_array_equal(term.bends(P).h, share * curvature(term.twin, shifted, y))
    np.testing.assert_allclose(term.far(P, np.zeros(2)), np.ptp(y, axis=0) + np.abs(P).max(0), rtol=1e-15)
