"""Groups alone, for one output: kernels against slow twins, matrices of samples, and optima against block descent."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsco.data.rows import as_matrix
from sparsco.losses import Hinge, Logistic, Poisson, Squared, SquaredHinge
from sparsco.penalties import GroupL1, SparseGroup
from sparsco.solver.group_descent import (
    centred_squares,
    correct_by_secant,
    descend_group_matrix,
    put_last,
    scale_pairs,
    shrink_pairs,
)
from sparsco.solver.group_newton import GroupNewton, Quadratic, eigenvectors
from sparsco.solver.loss_term import LossTerm
from sparsco.solver.restricted import Restricted
from sparsco.solver.sampled_matrix import DenseColumns, SparseColumns, centred, columns_of, effective, shrink
from support import number_of_streams

SIZES = (1, 3, 2, 5, 1)
K = sum(SIZES)
GROUPS = np.repeat(np.arange(len(SIZES)), SIZES)
START = np.append(0, np.cumsum(SIZES))


def positive_definite(rng, k, rank=None):
    Z = rng.standard_normal((rank or 2 * k, k))
    return Z.T @ Z / len(Z)


def slow_minimum(S, q, w, strengths):
    """Prox-gradient steps with the largest eigenvalue, for ever."""
    L, new = np.linalg.eigvalsh(S)[-1], w.copy()
    for _ in range(100_000):
        v = new - (q + S @ (new - w)) / L
        for a in range(len(SIZES)):
            own = slice(START[a], START[a + 1])
            length = np.linalg.norm(v[own])
            v[own] *= max(1.0 - strengths[a] / L / length, 0.0) if length > 0.0 else 0.0
        moved, new = np.abs(v - new).max(), v
        if moved <= 1e-14:
            break
    return new


@given(seed=st.integers(0, 10_000), strength=st.sampled_from([0.0, 0.1, 1.0, 3.0]), from_zero=st.booleans())
@settings(deadline=None, max_examples=number_of_streams(30))
def test_descent_by_the_matrix(seed, strength, from_zero):
    """The minimum, the gradient there, and the same in plain Python."""
    rng = np.random.default_rng(seed)
    S, q, w = positive_definite(rng, K), rng.standard_normal(K), rng.standard_normal(K) * (not from_zero)
    strengths = strength * rng.random(len(SIZES))
    Q, first, e = eigenvectors(S, START)
    args = START, strengths, Q, first, e, 0.0, 1e-26, 10_000
    found, slopes = w.copy(), q.copy()
    descend_group_matrix(S, slopes, found, *args)
    np.testing.assert_allclose(found, slow_minimum(S, q, w, strengths), atol=1e-9)
    np.testing.assert_allclose(slopes, q + S @ (found - w), atol=1e-12)
    plain, slopes_plain = w.copy(), q.copy()
    descend_group_matrix.py_func(S, slopes_plain, plain, *args)
    np.testing.assert_allclose(plain, found, rtol=1e-12, atol=1e-15)


def test_a_descent_ends_when_little_changes():
    rng = np.random.default_rng(0)
    S, q, strengths = positive_definite(rng, K), rng.standard_normal(K), np.full(len(SIZES), 0.1)
    Q, first, e = eigenvectors(S, START)
    few, all_of_them = (
        descend_group_matrix(S, q.copy(), np.zeros(K), START, strengths, Q, first, e, share, 1e-26, 10_000)
        for share in (1e-2, 0.0)
    )
    assert 1 < few < all_of_them / 2


def test_eigenvectors():
    """Those of each block; blocks without curvature have eigenvalues just above zero."""
    S = positive_definite(np.random.default_rng(0), K)
    S[1:4] = S[:, 1:4] = 0.0
    Q, first, e = eigenvectors(S, START)
    for a, p in enumerate(SIZES):
        own = slice(START[a], START[a + 1])
        V = Q[first[a] : first[a] + p * p].reshape(p, p)
        np.testing.assert_allclose(V * e[own] @ V.T, S[own, own], atol=1e-8)
        assert (np.diff(e[own]) >= 0.0).all()
    assert (e > 0.0).all()


def test_shrunk_pairs_and_secants():
    rng = np.random.default_rng(1)
    A, weights = positive_definite(rng, K + 1), rng.random(K)
    common = np.outer(A[:-1, -1], A[-1, :-1]) / A[-1, -1]
    S = A[:-1, :-1] - common
    np.testing.assert_allclose(centred(A), S, rtol=1e-12, atol=1e-14)
    whole = np.zeros((K + 1, K + 1))
    whole[:-1, :-1] = S
    put_last(whole, A[-1])
    np.testing.assert_allclose(whole, A, rtol=1e-12, atol=1e-14)
    assert centred_squares(A, weights) == pytest.approx(weights @ S**2 @ weights, rel=1e-12)
    scaled, scale = A.copy(), rng.random(K + 1)
    scale_pairs(scaled, scale)
    np.testing.assert_allclose(scaled, A * np.outer(scale, scale), rtol=1e-14)
    last = A[-1].copy()
    shrink_pairs(A, GROUPS, 0.3)
    np.testing.assert_allclose(A[:-1, :-1], common + np.where(GROUPS[:, None] == GROUPS, S, 0.3 * S), atol=1e-14)
    np.testing.assert_array_equal(A[-1], last)
    A, u = positive_definite(rng, K), rng.standard_normal(K)
    y = positive_definite(rng, K) @ u
    new = A + np.outer(y, y) / (u @ y) - np.outer(A @ u, A @ u) / (u @ A @ u)
    correct_by_secant(A, y, u @ y, A @ u, u @ A @ u)
    np.testing.assert_allclose(A, new, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(A @ u, y, rtol=1e-12)
    assert np.linalg.eigvalsh(A)[0] > 0.0


# --- matrices of samples ----------------------------------------------------------------------------------------------


def rows_of(rng, n, k, density=0.5):
    X = rng.standard_normal((n, k)) * (rng.random((n, k)) < density) + 0.25 * (rng.random((n, k)) < density)
    return X, SparseColumns(as_matrix(sp.csr_array(X)))


@pytest.mark.parametrize("every", [1, 3])
def test_samples_of_columns(every, monkeypatch):
    """Dense and sparse columns: margins, gradients, and the matrix written down."""
    monkeypatch.setattr("sparsco.solver.sampled_matrix._BLOCK", 7)
    rng = np.random.default_rng(0)
    X, sparse = rows_of(rng, 50, 6)
    dense, h, c, w, columns = DenseColumns(X), rng.random(50), rng.random(50), rng.random(6), np.array([0, 2, 5])
    some = h[::every] * (h.sum() / h[::every].sum())
    Z = np.column_stack([X[::every, columns], np.ones(len(some))])
    assert columns_of(as_matrix(X + 9.0)).X.base is not None  # full rows: no copy
    assert isinstance(columns_of(as_matrix(sp.csr_array(X * (X > 1.0)))), SparseColumns)
    single = DenseColumns(X.astype(np.float32))
    np.testing.assert_allclose(single.margins(w), single.X.astype(np.float64) @ w, rtol=1e-13)
    np.testing.assert_allclose(single.gradient(c), c @ single.X.astype(np.float64), rtol=1e-13)
    for kind in (dense, sparse, columns_of(as_matrix(X))):
        np.testing.assert_allclose(kind.margins(w), X @ w)
        np.testing.assert_allclose(kind.gradient(c), X.T @ c)
        A = kind.at(slice(None, None, every)).second_derivatives(some, columns)
        np.testing.assert_allclose(A, Z.T @ (some[:, None] * Z), rtol=1e-5, atol=1e-5)
        g, spread = kind.first_look(c, h)
        np.testing.assert_allclose(g, X.T @ c)
        assert isinstance(kind, DenseColumns) or spread == pytest.approx(h @ X**2 / h.sum())


def test_a_sample_of_all_rows_is_kept():
    rng = np.random.default_rng(0)
    X, sparse = rows_of(rng, 40, K)
    h = rng.random(40)
    A = sparse.second_derivatives(h, np.arange(K))
    for squares in (None, h @ X**2):
        found = A.copy()
        shrink(found, GROUPS, effective(h), effective(h), squares)
        np.testing.assert_allclose(found, A, atol=1e-12)


@pytest.mark.parametrize("common", [0.0, 1.0])
def test_samples_are_nearer_to_all_rows_after_shrinking(common):
    """Noise between groups goes, correlations stay, and squares are those of all rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 40)) + common * rng.standard_normal((4000, 1)) + 1.0
    sparse, h, groups = SparseColumns(as_matrix(sp.csr_array(X))), rng.random(4000), np.arange(40) // 4
    some = slice(None, None, 40)
    everything = sparse.second_derivatives(h, np.arange(40))
    sample = sparse.at(some).second_derivatives(h[some] * (h.sum() / h[some].sum()), np.arange(40))
    raw = centred(sample)
    A = sample.copy()
    shrink(A, groups, effective(h[some]), effective(h), h @ X**2)
    np.testing.assert_allclose(np.diag(A), np.diag(everything))
    far = np.linalg.norm(raw - centred(everything), 2)
    left = np.linalg.norm(centred(A) - centred(everything), 2)
    assert left < (0.9 if common else 0.5) * far
    assert np.linalg.eigvalsh(A)[0] > 0.0


def test_a_column_that_the_sample_lacks():
    A = np.array([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 4.0]])
    shrink(A, np.array([0, 1]), 10.0, 20.0, np.array([8.0, 1.0]))
    np.testing.assert_allclose(A, [[8.0, 0.0, 2.0], [0.0, 1.0, 0.0], [2.0, 0.0, 4.0]], atol=1e-15)


def test_joined_models():
    """Both matrices as they were; between them only what the intercept brings."""
    rng = np.random.default_rng(0)
    one, other = positive_definite(rng, 4), positive_definite(rng, 3)
    other[-1, -1] = one[-1, -1]
    first = Quadratic(one, np.array([0, 1, 4]), np.array([0, 2, 3]), 2.0)
    both = first.joined(Quadratic(other, np.array([2, 3]), np.array([0, 2]), 3.0))
    assert both.columns.tolist() == [0, 1, 4, 2, 3] and both.start.tolist() == [0, 2, 3, 5] and both.total == 2.0
    np.testing.assert_allclose(both.A[np.ix_([0, 1, 2, 5], [0, 1, 2, 5])], one)
    np.testing.assert_allclose(both.A[np.ix_([3, 4, 5], [3, 4, 5])], other)
    np.testing.assert_allclose(centred(both.A)[:3, 3:], 0.0, atol=1e-15)


@given(seed=st.integers(0, 10_000), factors=st.lists(st.floats(0.2, 4.0), min_size=1, max_size=4))
@settings(deadline=None, max_examples=number_of_streams(30))
def test_a_model_is_scaled_to_how_the_loss_bends(seed, factors):
    """The minimum is that of the matrix times the last factor, within bounds, which the model keeps."""
    rng = np.random.default_rng(seed)
    A, w, g = positive_definite(rng, K + 1), rng.standard_normal(K) * (rng.random(K) < 0.5), rng.standard_normal(K + 1)
    strengths, told, steps = 0.3 * rng.random(len(SIZES)), iter(factors + 4 * factors[-1:]), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparsco.solver.group_newton._ACCURACY", 0.0)
        patch.setattr("sparsco.solver.group_newton._SWEEPS", 100_000)
        model = Quadratic(A.copy(), np.arange(K), START, 2.0, lambda *step: steps.append(step) or next(told))
        new, move = model.minimum(w, g, strengths, 1e-12)
        factor = model.total / 2.0
        assert factor in [min(max(each, 1.0 / 3.0), 3.0) for each in (1.0, *factors)]
        np.testing.assert_allclose(model.A, factor * A, rtol=1e-12)
        expected, at = Quadratic(factor * A, np.arange(K), START, 1.0).minimum(w, g, strengths, 1e-12)
        first, at_first = Quadratic(A, np.arange(K), START, 1.0).minimum(w, g, strengths, 1e-12)
    np.testing.assert_allclose(new, expected, atol=1e-6)
    assert move == pytest.approx(at, abs=1e-6) and steps[0][1] == at_first
    np.testing.assert_array_equal(steps[0][0], first - w)


def test_the_bend_of_the_first_step(monkeypatch):
    """The mean curvature on the way, over that at the start, in the rows of the sample."""
    monkeypatch.setattr("sparsco.solver.group_newton._LEAST_ROWS", 80)
    X, term, psi = problem(Logistic())
    solver = placed(GroupNewton(DenseColumns(X), psi, term, True), X)
    solver._first_gradient()
    model = solver._made(np.ones(len(psi.norms), bool))
    some = slice(None, None, 300 // solver._rows(X.shape[1]))
    dw, p, y = np.random.default_rng(1).standard_normal(X.shape[1]), solver.P[some, 0], term.y[some, 0]
    dp, ts = X[some] @ dw + 0.5, np.linspace(0.0, 1.0, 2001)
    along = [float((term.share[some, 0] * term.loss.curvature(p + t * dp, y) * dp**2).sum()) for t in ts]
    assert model.bend(dw, 0.5) == pytest.approx(np.trapezoid(along, ts) / along[0], rel=1e-5)
    model.learn(np.ones(X.shape[1] + 1), np.ones(X.shape[1] + 1), 1.0)
    assert model.bend is None


# --- optima -----------------------------------------------------------------------------------------------------------

LOSSES = [Logistic(), Squared(), SquaredHinge(), Poisson()]


def problem(loss, n=300, d=36, seed=0, density=0.5, correlated=0.0, share=0.1, rho=0.0):
    rng = np.random.default_rng(seed)
    X, _ = rows_of(rng, n, d, density)
    X += correlated * X[:, :1]
    m = X @ (rng.standard_normal(d) * (rng.random(d) < 0.3))
    if isinstance(loss, Poisson):
        y = rng.poisson(np.exp(0.3 * m)).astype(float)
    else:
        y = m + rng.standard_normal(n) if isinstance(loss, Squared) else np.where(rng.logistic(size=n) < m, 1.0, -1.0)
    groups = np.sort(rng.integers(0, d // 4, d))
    groups = np.unique(groups, return_inverse=True)[1]
    a = rng.random((n, 1)) / n
    term = LossTerm(loss, y[:, None], a, np.zeros((n, 1)))
    largest = np.sqrt(np.bincount(groups, (X.T @ term.slopes(np.zeros((n, 1)))[:, 0]) ** 2)).max()
    return X, term, GroupL1(share * largest, groups, rho).blocks(d)


def test_groups_in_any_order():
    """Columns of a group need not stand together."""
    X, term, psi = problem(Logistic())
    order = np.random.default_rng(5).permutation(X.shape[1])
    one = placed(GroupNewton(DenseColumns(X), psi, term, True), X)
    mixed = psi._replace(groups=psi.groups[order])
    other = placed(GroupNewton(DenseColumns(np.ascontiguousarray(X[:, order])), mixed, term, True), X)
    assert one.solve(1e-9) and other.solve(1e-9)
    np.testing.assert_allclose(other.W, one.W[order], atol=1e-6)


def placed(solver, X):
    solver.place(np.zeros((X.shape[1], 1)), np.zeros(1), np.zeros((len(X), 1)))
    return solver


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("correlated", [0.0, 2.0])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_optima(loss, correlated, intercept, monkeypatch):
    """Conditions hold, computed from the rows; block descent by columns reaches the same optimum."""
    monkeypatch.setattr("sparsco.solver.group_newton._LEAST_ROWS", 50)  # a sample, as of many rows
    X, term, psi = problem(loss, correlated=correlated, share=0.25, rho=0.01 if correlated else 0.0)
    matrix, tol = as_matrix(sp.csr_array(X)), 1e-9
    slow = placed(Restricted(matrix, psi, term, intercept), X)
    assert any(slow._solve(tol) for _ in range(5))
    for columns in (DenseColumns(X), SparseColumns(matrix)):
        fast = placed(GroupNewton(columns, psi, term, intercept), X)
        assert fast.solve(tol)
        c = term.slopes(X @ fast.W + fast.b)
        assert psi.violations(X.T @ c, fast.W).max() <= 2.0 * tol
        assert not intercept or abs(c.sum()) <= 2.0 * tol
        assert intercept or fast.b[0] == 0.0
        assert 0 < np.count_nonzero(fast.W) < fast.W.size
        assert fast.f == pytest.approx(slow.f, rel=1e-9) and fast.f == term.value(fast.P) + psi.value(fast.W)
        np.testing.assert_allclose(fast.W, slow.W, atol=1e-5)


@pytest.mark.parametrize("rho", [0.0, 0.01])
@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=lambda loss: type(loss).__name__)
def test_certificates(loss, rho):
    """The gap bounds the distance from the optimum, is within the tolerance, and its slopes are feasible."""
    X, term, psi = problem(loss, rho=rho)
    unit = float(psi.norms.max())
    best = placed(GroupNewton(DenseColumns(X), psi, term, True), X)
    best.solve(1e-12)
    for tol in (1.0, 1e-2, 1e-5):
        solver = placed(GroupNewton(DenseColumns(X), psi, term, True), X)
        found = solver.certified(tol, unit)
        assert found.violation <= tol and found.relative_gap <= tol
        assert -1e-14 <= solver.f - best.f <= found.duality_gap + 1e-14
        assert found.relative_gap == found.duality_gap / solver.f
        assert abs((term.share * found.slopes).sum()) <= 1e-13
        solver.P = solver.P + 0.1  # the intercept is not at its best value: slopes are balanced
        solver.b, solver.c = solver.b + 0.1, term.slopes(solver.P)
        solver.f, solver.g = solver._objective(solver.P, solver.W), solver._gradient()
        found = solver._certificate(unit)
        assert 1e-6 < solver.f - best.f <= found.duality_gap and abs((term.share * found.slopes).sum()) <= 1e-15


def test_a_loss_without_a_conjugate_has_no_gap():
    X, term, psi = problem(Poisson())
    found = placed(GroupNewton(DenseColumns(X), psi, term, True), X).certified(1e-3, 1.0)
    assert (term.loss.conjugate is None) == np.isnan(found.duality_gap) and found.violation <= 1e-3


def test_a_sample_that_misleads(monkeypatch):
    """Rows of the sample show no curvature of half of the columns: samples grow until steps succeed."""
    monkeypatch.setattr("sparsco.solver.group_newton._LEAST_ROWS", 40)
    monkeypatch.setattr("sparsco.solver.group_newton._ROWS_PER_COLUMN", 0)
    X, term, psi = problem(Logistic(), n=1000, d=40, density=1.0)
    X[::25, :20] *= 1e-3
    solver = placed(GroupNewton(DenseColumns(X), psi, term, True), X)
    assert solver.solve(1e-9) and solver.times > 1


def test_a_sample_that_may_not_grow(monkeypatch):
    """Steps that are much too long end, and the restricted problem goes on by itself."""
    monkeypatch.setattr("sparsco.solver.group_newton._LEAST_ROWS", 10)
    monkeypatch.setattr("sparsco.solver.group_newton._CELLS", 100)
    X, term, psi = problem(Logistic(), n=1000, d=40, density=1.0)
    X[::100, :20] *= 1e-9
    assert not placed(GroupNewton(DenseColumns(X), psi, term, True), X).solve(1e-9)
    assert placed(Restricted(as_matrix(X), psi, term, True), X).solve(1e-9)


def test_groups_come_in_when_strengths_fall(monkeypatch):
    """A model is kept from strength to strength; groups that come in later are joined to it."""
    joined = []
    monkeypatch.setattr(
        Quadratic, "joined", lambda self, other, real=Quadratic.joined: joined.append(1) or real(self, other)
    )
    X, term, psi = problem(Logistic(), n=500, share=0.5)
    solver, sizes = placed(GroupNewton(DenseColumns(X), psi, term, True), X), []
    for share in (1.0, 0.6, 0.4, 0.2, 0.1):
        solver.psi = psi._replace(strengths=share * psi.norms)
        solver.place(solver.W, solver.b, solver.P)
        assert solver.solve(1e-10)
        sizes.append(np.count_nonzero(solver.W))
        alone = placed(GroupNewton(DenseColumns(X), solver.psi, term, True), X)
        assert alone.solve(1e-10)
        assert solver.f == pytest.approx(alone.f, rel=1e-10)
    assert joined and sizes[0] < sizes[-1]


def test_which_problems_are_solved_here():
    _, term, psi = problem(Logistic())
    assert GroupNewton.serves(psi, term.loss, 1)
    assert not GroupNewton.serves(psi._replace(groups=None), term.loss, 1)
    assert not GroupNewton.serves(SparseGroup(0.5, psi.groups).blocks(len(psi.l1)), term.loss, 1)
    assert not GroupNewton.serves(psi, Hinge(), 1)
    assert not GroupNewton.serves(psi, term.loss, 2)
    many = np.zeros(400, np.int64)
    assert not GroupNewton.serves(GroupL1(0.5, many).blocks(400), term.loss, 1)


def test_the_restricted_problem_hands_groups_over(monkeypatch):
    """And goes on by itself where steps of groups end too soon."""
    X, term, psi = problem(Logistic())
    matrix = as_matrix(sp.csr_array(X))
    first = placed(Restricted(matrix, psi, term, True), X)
    assert first.solve(1e-9) and first.group_newton.steps == first.steps > 0
    for name, number in (("_STEPS", 1), ("_MOST_COLUMNS", 3)):
        monkeypatch.setattr(f"sparsco.solver.group_newton.{name}", number)
        other = placed(Restricted(matrix, psi, term, True), X)
        assert other.solve(1e-9) and other.group_newton.steps == 1 < other.steps
        assert other.f == pytest.approx(first.f, rel=1e-10)


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(), Squared(), Poisson()])
def test_intercept_alone(loss):
    """A model without columns: no group is selected, and only the intercept is not at its best value."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, K))
    y = np.where(rng.random(300) < 0.2, 1.0, 0.0 if isinstance(loss, Poisson) else -1.0)[:, None]
    psi = GroupL1(10.0, groups=GROUPS).blocks(K)
    newton = GroupNewton(DenseColumns(X), psi, LossTerm(loss, y, np.full((300, 1), 1 / 300), 0.0 * y), True)
    newton.place(np.zeros((K, 1)), np.zeros(1), 0.0 * y)
    found = newton.certified(1e-8, 10.0)
    assert found.violation <= 1e-8 and not newton.W.any() and newton.b[0] != 0.0


def test_steps_that_are_too_long_become_shorter_by_a_parabola():
    """From slope -1 it is least at a quarter if the objective rose by 1; a tenth to a half are tried."""
    n = 4
    term = LossTerm(Squared(), np.zeros((n, 1)), np.full((n, 1), 1.0 / n), np.zeros((n, 1)))
    solver = GroupNewton(DenseColumns(np.zeros((n, K))), GroupL1(1.0, GROUPS).blocks(K), term, True)
    solver.f = 3.0
    ends = 4.0, 2.9, 1e9, np.inf, np.nan
    assert [solver._shortened(-1.0, f) for f in ends] == pytest.approx([0.25, 0.5, 0.1, 0.1, 0.5])
