"""Elastic nets on rows in memory: optimality conditions, and slow twins of the kernels."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparsco import losses
from sparsco.solver.columns import add_columns, by_column, gradient, some_by_column
from sparsco.solver.descent import descend, descend_gram, no_bounds
from sparsco.solver.elastic_net import FINE, ROUGH, Accuracy, DenseSolver, ElasticNetSolver, Examples, Tilt, solver_of
from sparsco.solver.small import SmallSolver, is_small
from sparsco.solver.smoothing import SmoothEpsilonInsensitive, SmoothHinge, SmoothQuantile, smooth
from sparsco.solver.units import column_sums, units_of
from support import number_of_streams

EXACT = Accuracy(1e-13, 400, 20)
SOLVERS = ElasticNetSolver, DenseSolver, SmallSolver
LOSSES = {
    "logistic": losses.Logistic(),
    "squared hinge": losses.SquaredHinge(),
    "smooth hinge": SmoothHinge(0.5),
    "squared": losses.Squared(),
    "huber": losses.Huber(),
    "poisson": losses.Poisson(1.0),
    "gamma": losses.Gamma(1.0),
    "tweedie": losses.Tweedie(1.5, 1.0),
    "smooth quantile": SmoothQuantile(0.3, 0.5),
    "smooth epsilon-insensitive": SmoothEpsilonInsensitive(0.1, 0.5),
}


def columns_of(X):
    """Return a matrix by column."""
    rows = sp.csr_array(X)
    n, d = X.shape
    return by_column(rows.indptr, rows.indices, rows.data, np.arange(n), d)


def sums_of(rows):
    """Return the sums of the columns of a sparse matrix."""
    return column_sums(rows.indptr[:-1], rows.indptr[1:], rows.indices, rows.data, rows.shape[1])


def problem(name, n=120, d=15, seed=0):
    """Return rows, some of them empty and some columns constant, and examples of a loss."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    X[:, 3], X[:, 4], X[7] = 2.0, 0.0, 0.0
    p = X[:, 0] - X[:, 1] + 0.5 * rng.standard_normal(n)
    y = np.where(p > 0, 1.0, -1.0) if "hinge" in name or name == "logistic" else p
    y = rng.poisson(np.exp(0.5 * p)).astype(float) if name in ("poisson", "tweedie") else y
    y = np.exp(0.5 * p) if name == "gamma" else y
    return X, Examples(y, rng.integers(1, 4, n) / 2.0, LOSSES[name], 0.25 * rng.standard_normal(n))


def violation(X, examples, w, b, pen, ridge, intercept):
    """Return the largest violation of an optimality condition, computed with dense NumPy."""
    y, weights, loss, offset = examples
    c = weights * losses.derivative(loss, X @ w + b + offset, y) / len(y)
    g = X.T @ c + ridge * w
    zero = np.maximum(np.abs(g) - pen, 0.0)
    worst = np.where(w != 0.0, np.abs(g + pen * np.sign(w)), zero).max()
    return max(worst, abs(c.sum()) if intercept else 0.0)


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        (name, each)
        for name in LOSSES
        for each in SOLVERS
        if each is not SmallSolver or isinstance(LOSSES[name], losses.SMOOTH_LOSSES)
    ],
)
@pytest.mark.parametrize("intercept", [True, False])
def test_optimality_conditions_hold(name, solver, intercept):
    X, examples = problem(name)
    units = units_of(*sums_of(sp.csr_array(X)), len(X))
    found = solver(columns_of(X), examples, units, intercept)
    lam_max = found.strength_of_nothing()
    for l1_ratio in (1.0, 0.3):
        for share in (0.5, 0.05, 0.005):
            lam = share * lam_max
            w, b = found.solve(lam, l1_ratio, EXACT)
            pen, ridge = lam * l1_ratio * units, lam * (1.0 - l1_ratio) * units**2
            assert violation(X, examples, w, b, pen, ridge, intercept) < 2e-5 * lam_max
        found.restart()
    assert not found.w.any()


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_largest_strength_is_the_one_that_selects_nothing(solver):
    X, examples = problem("logistic")
    found = solver(columns_of(X), examples, np.ones(X.shape[1]))
    lam_max = found.strength_of_nothing()
    assert not found.solve(1.0001 * lam_max, 1.0, EXACT)[0].any()
    assert found.solve(0.99 * lam_max, 1.0, EXACT)[0].any()


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_refit_is_the_ridge_of_its_columns_and_moves_nothing(solver):
    X, examples = problem("logistic")
    found = solver(columns_of(X), examples, np.ones(X.shape[1]))
    found.solve(0.1 * found.strength_of_nothing(), 1.0)
    before = found.w.copy(), found.b, found.p.copy()
    chosen = np.array([0, 1, 5])
    w, b = found.refit(chosen, 0.01, EXACT)
    assert set(np.flatnonzero(w)) == {0, 1, 5}
    kept = X[:, chosen]
    assert violation(kept, examples, w[chosen], b, np.zeros(3), np.full(3, 0.01), True) < 1e-4
    assert np.array_equal(found.w, before[0]) and found.b == before[1] and np.array_equal(found.p, before[2])


def test_steps_are_few_where_most_examples_are_far_from_their_target(monkeypatch):
    """A least curvature that stays would make steps too short: each would leave half of the fall to the next."""
    rng = np.random.default_rng(0)
    X = (rng.random((3000, 25)) < 0.2) * 1.0
    y = np.where(X @ np.linspace(-3.0, 6.0, 25) - 18.0 + rng.logistic(size=3000) > 0.0, 1.0, -1.0)
    examples, steps, step = Examples(y, np.ones(3000), losses.Logistic()), [0], ElasticNetSolver._model_minimum
    assert 0.01 < np.mean(y > 0.0) < 0.1

    def counted(self, *args):
        steps[0] += 1
        return step(self, *args)

    solver, pen = ElasticNetSolver(columns_of(X), examples, np.ones(25)), np.full(25, 2e-5)
    monkeypatch.setattr(ElasticNetSolver, "_model_minimum", counted)
    w, b = solver.solve_for(pen, 0.0 * pen, Accuracy(1e-12, 60, 6, 1e-6))
    assert violation(X, examples, w, b, pen, 0.0 * pen, True) < 1e-3 * pen[0] and steps[0] <= 25


@pytest.mark.parametrize("name", LOSSES)
def test_margins_stay_those_of_the_weights_from_strength_to_strength(name):
    """Margins are changed by quotients by curvatures, which must not become too small: outliers of Huber have none."""
    X, examples = problem(name, n=300, d=40)
    if name in ("squared", "huber", "smooth quantile", "smooth epsilon-insensitive"):
        y = examples.y + 50.0 * (np.arange(300) % 7 == 0)
        examples = examples._replace(y=y)
    solver, none = ElasticNetSolver(columns_of(X), examples, np.ones(40)), np.zeros(40)
    for lam in 0.1 * 0.4 ** np.arange(7):
        w, b = solver.solve_for(np.full(40, lam), none, Accuracy(1e-11, 40, 6))
        np.testing.assert_allclose(solver.p, X @ w + b + examples.offset, rtol=1e-9, atol=1e-8)


def test_a_start_elsewhere_ends_at_the_same_place():
    X, examples = problem("logistic")
    found = ElasticNetSolver(columns_of(X), examples, np.ones(X.shape[1]))
    lam = 0.05 * found.strength_of_nothing()
    w, b = (np.copy(part) for part in found.solve(lam, 1.0, EXACT))
    found.start_at(examples, np.where(X.any(0), np.linspace(-1.0, 1.0, X.shape[1]), 0.0), 3.0)
    again = found.solve(lam, 1.0, EXACT)
    np.testing.assert_allclose(again[0], w, atol=1e-4)
    assert abs(again[1] - b) < 1e-4


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_linear_term_and_a_start_are_respected(solver):
    X, examples = problem("logistic")
    d = X.shape[1]
    tilt = Tilt(0.05 * np.cos(np.arange(d)), 0.02)
    start = np.where(X.any(0), 0.1, 0.0), 0.5
    pen, ridge = np.full(d, 0.06), np.full(d, 0.01)
    found = solver(columns_of(X), examples, np.ones(d), True, tilt, start)
    assert np.array_equal(found.w, start[0]) and found.b == start[1]
    w, b = found.solve_for(pen, ridge, EXACT)
    c = examples.weights * losses.derivative(examples.loss, X @ w + b + examples.offset, examples.y) / len(X)
    g = X.T @ c + ridge * w + tilt.w
    slack = np.where(w != 0.0, np.abs(g + pen * np.sign(w)), np.maximum(np.abs(g) - pen, 0.0))
    assert 0 < np.count_nonzero(w) < d and slack.max() < 1e-5 and abs(c.sum() + tilt.b) < 1e-5


def test_few_columns_with_many_entries_take_the_gram_matrix():
    X = np.random.default_rng(0).standard_normal((100, 5))
    examples = Examples(X[:, 0], np.ones(100), losses.Squared())
    assert isinstance(solver_of(columns_of(X), examples, np.ones(5)), DenseSolver)
    wide = sp.random_array((100, 2000), density=0.01, rng=np.random.default_rng(0))
    assert type(solver_of(columns_of(wide), examples, np.ones(2000))) is ElasticNetSolver
    assert is_small(columns_of(X), losses.Squared()) and not is_small(columns_of(X), SmoothHinge(0.5))
    assert not is_small(columns_of(wide), losses.Squared())


def test_one_kernel_solves_few_rows_of_every_loss_that_bends():
    X = columns_of(np.ones((10, 2)))
    registered = {type(loss) for loss in (losses.CLASSIFIER_LOSSES | losses.REGRESSOR_LOSSES).values()}
    bent = {kind for kind in registered if kind.curved and not kind.couples}
    assert {kind for kind in registered if is_small(X, kind())} == bent <= {type(loss) for loss in LOSSES.values()}


@pytest.mark.parametrize(
    ("n", "d", "density", "name", "expected"),
    [
        (10_000, 50, 1.0, "logistic", DenseSolver),  # sweeps by columns read every cell, and are many
        (10_000, 50, 0.25, "logistic", ElasticNetSolver),
        (2000, 100, 0.3, "logistic", ElasticNetSolver),
        (1000, 500, 1.0, "logistic", ElasticNetSolver),  # forming the matrix costs more than sweeps
        (1000, 500, 1.0, "squared", DenseSolver),  # one matrix serves all strengths
        (1000, 500, 0.2, "squared", ElasticNetSolver),
    ],
)
def test_the_solver_is_chosen_by_what_a_solution_costs(n, d, density, name, expected):
    """Not by a density alone, above which the Gram matrix of 2000 x 1000 took ten times as long."""
    X = sp.random_array((n, d), density=density, rng=np.random.default_rng(0))
    examples = Examples(np.where(np.arange(n) % 2 == 0, 1.0, -1.0), np.ones(n), LOSSES[name])
    assert type(solver_of(columns_of(X), examples, np.ones(d))) is expected


def slow_minimum(X, examples, pen, ridge, w, b):
    """Return the least objective, and weights and intercept, by proximal gradient steps with momentum."""
    y, n = examples.y, len(X)
    A = np.column_stack([X, np.ones(n)])
    pen, ridge, v = np.append(pen, 0.0), np.append(ridge, 0.0), np.append(w, b)
    step = 1.0 / (0.25 * np.linalg.norm(A, 2) ** 2 / n + ridge.max())

    def objective(v):
        return np.mean(np.logaddexp(0.0, -y * (A @ v))) + pen @ np.abs(v) + 0.5 * ridge @ v**2

    at, momentum, f = v, 1.0, objective(v)
    for _ in range(20_000):
        u = at - step * (A.T @ (-y / (1.0 + np.exp(y * (A @ at)))) / n + ridge * at)
        new = np.sign(u) * np.maximum(np.abs(u) - step * pen, 0.0)
        reached = objective(new)
        if reached > f:  # the momentum led astray
            if momentum == 1.0:
                break
            at, momentum = v, 1.0
            continue
        follows = 0.5 + np.sqrt(0.25 + momentum**2)
        at, v, momentum, f = new + (momentum - 1.0) / follows * (new - v), new, follows, reached
    return f, v[:-1], v[-1]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("accuracy", [ROUGH, FINE])
def test_all_solvers_end_a_path_within_the_same_accuracy(solver, accuracy):
    """From strength to strength curvatures move among the rows, while their sum hardly changes.

    A matrix of second derivatives that is compared by the sum alone is too old, and ends steps early.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 40)) * (rng.random((600, 40)) < 0.2)
    p = X[:, ::4] @ rng.standard_normal(10)
    y = np.where(p / p.std() + 0.5 * rng.standard_normal(600) > 0.0, 1.0, -1.0)
    examples = Examples(y, np.ones(600), losses.Logistic())
    units = units_of(*sums_of(sp.csr_array(X)), 600)
    found = solver(columns_of(X), examples, units)
    lams, w, b, worst = found.strength_of_nothing() * np.geomspace(0.7, 1e-2, 10), np.zeros(40), 0.0, 0.0
    for lam in lams:
        pen, ridge = 0.9 * lam * units, 0.1 * lam * units**2
        least, w, b = slow_minimum(X, examples, pen, ridge, w, b)
        v, at = found.solve(lam, 0.9, accuracy)
        reached = np.mean(examples.losses(X @ v + at)) + pen @ np.abs(v) + 0.5 * ridge @ v**2
        worst = max(worst, (reached - least) / least)
    assert worst <= accuracy.tolerance, worst


# ---- kernels and their slow twins ------------------------------------------------------------------------------------

lattice = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.0, 0.0, 0.5, 1.0, 2.0])


@st.composite
def models(draw):
    """Draw a quadratic model with many ties: X, c, h, w, pen, ridge."""
    n, d = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    X = np.array(draw(st.lists(lattice, min_size=n * d, max_size=n * d))).reshape(n, d)
    c, w = (np.array(draw(st.lists(lattice, min_size=k, max_size=k))) for k in (n, d))
    h = np.array(draw(st.lists(st.sampled_from([0.25, 0.5, 1.0]), min_size=n, max_size=n)))
    pen, ridge = (np.array(draw(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=d, max_size=d))) for _ in "ab")
    return X, c, h, w, pen, ridge


@given(models(), st.booleans(), st.sampled_from(["logistic", "squared"]))
@settings(max_examples=number_of_streams(40))
def test_steps_in_one_kernel_end_at_the_optimum_on_ties_too(model, intercept, name):
    X, c, h, _, pen, ridge = model
    examples, ridge = Examples(np.where(c > 0.0, 1.0, -1.0), h, LOSSES[name]), ridge + 0.1
    found = SmallSolver(columns_of(X), examples, np.ones(X.shape[1]), intercept)
    w, b = found.solve_for(pen, ridge, EXACT)
    one_class = intercept and len(set(examples.y)) == 1 and name == "logistic"  # its best intercept is infinite
    assert one_class or violation(X, examples._replace(offset=0.0), w, b, pen, ridge, intercept) < 1e-5


def slow_descent(X, c, h, w, pen, ridge, intercept, sweeps, slope=0.0, slope_b=0.0, low=-np.inf, high=np.inf):
    """Return w and db after coordinate descent, with the intercept at its best value after every step."""
    w, dw = w.copy(), np.zeros_like(w)

    def best():
        return -(np.sum(c + h * (X @ dw)) + slope_b) / h.sum() if intercept else 0.0

    centre = (h @ X) / h.sum() if intercept else np.zeros(X.shape[1])
    slopes = np.broadcast_to(slope, len(w))
    for _ in range(sweeps):
        for j in range(len(w)):
            square = h @ X[:, j] ** 2
            M = max(h @ (X[:, j] - centre[j]) ** 2, 1e-9 * square) + ridge[j]
            if M <= 0.0:
                continue
            s = X[:, j] @ (c + h * (X @ dw + best())) + ridge[j] * w[j] + slopes[j]
            v = M * w[j] - s
            new = np.clip(np.sign(v) * max(abs(v) - pen[j], 0.0) / M, low, high)
            dw[j] += new - w[j]
            w[j] = new
    return w, best()


@settings(deadline=None)
@given(models(), st.booleans(), st.sampled_from([(-np.inf, np.inf), (0.0, np.inf), (-0.5, 0.25)]))
@example((np.array([[2.0]]), np.array([-2.0]), np.array([0.25]), *np.zeros((3, 1))), True, (-np.inf, np.inf))
def test_descent_equals_its_slow_twin(model, intercept, bounds):
    X, c, h, w, pen, ridge = model
    first, rows, x, _ = columns_of(X)
    d, fast, u = X.shape[1], w.copy(), c.copy()
    scratch = np.empty(d), np.empty(d), np.empty(d, np.int64)
    slope, slope_b = 0.1 * np.cos(np.arange(d)), 0.05
    terms = pen, ridge, slope, *(np.full(d, bound) for bound in bounds), slope_b, np.arange(d)
    db, sweeps = descend(first, rows, x, u, h, fast, *terms, *scratch, 0.0, -1.0, 1, intercept)
    slow, _ = slow_descent(X, c, h, w, pen, ridge, intercept, 1, slope, slope_b, *bounds)
    assert sweeps == 1
    # A slope is rounded by this much, and a weight by its quotient by the curvature: 1e-9 of a column without variance.
    # Such a weight may be anything that rounding makes it.  The margins are not: the intercept takes them back.
    moved = np.maximum(np.abs(fast - w), np.abs(slow - w))
    sizes = np.abs(c) + h * (np.abs(X) @ moved)
    size_b = intercept * (sizes.sum() + slope_b) / h.sum()
    curve = np.maximum(h @ (X - intercept * (h @ X) / h.sum()) ** 2, 1e-9 * (h @ X**2)) + ridge
    rounding = 16.0 * np.finfo(float).eps
    slopes = np.abs(X).T @ (sizes + h * size_b) + ridge * (np.abs(w) + moved) + np.abs(slope)
    off = np.divide(rounding * slopes, curve, out=np.zeros(d), where=curve > 0.0)
    assert np.all(np.abs(fast - slow) <= 1e-9 * (1.0 + np.abs(slow)) + off)
    dp = X @ (fast - w)
    assert np.all(np.abs(u - c - h * dp) <= rounding * (sizes + 1.0))
    assert abs(db + intercept * (np.sum(c + h * dp) + slope_b) / h.sum()) <= rounding * (size_b + 1.0)


@settings(deadline=None)
@given(models())
def test_descent_by_the_gram_matrix_equals_descent_by_columns(model):
    X, c, h, w, pen, ridge = model
    G = X.T @ (h[:, None] * X) + np.diag(ridge)
    q, fast = X.T @ c + ridge * w, w.copy()
    descend_gram(G, q, fast, pen, *no_bounds(len(fast)), 0.0, -1.0, 1)
    slow, _ = slow_descent(X, c, h, w, pen, ridge, False, 1)
    np.testing.assert_allclose(fast, slow, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(q, X.T @ (c + h * (X @ (fast - w))) + ridge * fast, atol=1e-8)


@settings(deadline=None)
@given(models(), st.data())
def test_columns_gradient_and_margins_equal_dense_products(model, data):
    X, c, _, w, _, _ = model
    n, d = X.shape
    order = np.array(data.draw(st.lists(st.integers(0, n - 1), unique=True)), np.int64)
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=d, max_size=d)))
    columns = data.draw(st.permutations(np.flatnonzero(kept)).map(lambda chosen: np.array(chosen, np.int64)))
    rows = sp.csr_array(X)
    found = some_by_column(rows.indptr, rows.indices, rows.data, order, columns, d)
    dense = X[order][:, columns]
    assert np.array_equal(found.dense(), dense)
    g, p = np.empty(found.d), np.zeros(len(order))
    gradient(found.first, found.rows, found.x, c[: len(order)].copy(), g)
    np.testing.assert_allclose(g, dense.T @ c[: len(order)], atol=1e-12)
    add_columns(found.first, found.rows, found.x, w[columns], p)
    np.testing.assert_allclose(p, dense @ w[columns], atol=1e-12)


@pytest.mark.parametrize("kernel", [gradient, add_columns])
def test_compiled_equals_plain_python(kernel):
    X, _ = problem("logistic")
    found = columns_of(X)
    given, out = (np.linspace(-1, 1, n) for n in ((found.n, found.d) if kernel is gradient else (found.d, found.n)))
    plain = out.copy()
    kernel(found.first, found.rows, found.x, given, out)
    kernel.py_func(found.first, found.rows, found.x, given, plain)
    assert np.array_equal(out, plain)


# ---- units and smooth twins ------------------------------------------------------------------------------------------


def test_units_are_spreads_of_dense_columns_and_scale_with_them():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4)) * np.array([1.0, 10.0, 0.1, 1.0]) + 3.0
    X[:, 3] *= rng.random(200) < 0.1
    rows = sp.csr_array(X)
    units = units_of(*sums_of(rows), 200)
    np.testing.assert_allclose(units[:3], X[:, :3].std(0), rtol=1e-9)
    share = np.mean(X[:, 3] != 0.0)
    np.testing.assert_allclose(units[3], X[:, 3].std() * share**-0.25, rtol=1e-9)
    doubled = sp.csr_array(8.0 * X)
    assert np.array_equal(units_of(*sums_of(doubled), 200), 8.0 * units)


def test_the_unit_of_a_column_without_spread_is_positive():
    assert units_of(np.array([5.0, 0.0]), np.array([10.0, 0.0]), np.array([20.0, 0.0]), 5).min() > 0.0
    assert np.array_equal(units_of(np.zeros(2), np.zeros(2), np.zeros(2), 0), np.ones(2))


@pytest.mark.parametrize(
    ("loss", "y"), [(losses.Hinge(), 1.0), (losses.Quantile(0.3, 1.0), 0.5), (losses.EpsilonInsensitive(0.2, 1.0), 0.5)]
)
def test_smooth_twins_are_near_and_their_derivatives_right(loss, y):
    twin = smooth(loss)
    p = np.linspace(-3, 3, 4001)
    targets = np.full_like(p, y)
    near = losses.value(twin, p, targets) - losses.value(loss, p, targets)
    assert np.all(near >= -1e-12) and near.max() <= 2.0 * twin.width / 8.0 + 1e-12
    step = 1e-6
    slope = (losses.value(twin, p + step, targets) - losses.value(twin, p - step, targets)) / (2.0 * step)
    np.testing.assert_allclose(losses.derivative(twin, p, targets), slope, atol=1e-5)
    slope = (losses.derivative(twin, p + step, targets) - losses.derivative(twin, p - step, targets)) / (2.0 * step)
    inside = np.abs(slope - losses.curvature(twin, p, targets)) < 1e-3
    assert inside.mean() > 0.99  # all but the ends of the parabolas


def test_losses_with_a_curvature_are_their_own_twins():
    assert smooth(losses.Logistic()) == losses.Logistic()
