"""Steps by a sample of the rows, against models written out in NumPy, and the optima that they lead to."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sparsco.data.rows import as_matrix
from sparsco.engine.polish import polish
from sparsco.engine.polish_model import Model
from sparsco.engine.polish_passes import drawn
from sparsco.engine.polish_rows import RowsInMemory, RowsInPasses
from sparsco.losses import Huber, Logistic, Multinomial, Poisson, Squared, SquaredHinge, curvature, derivative
from sparsco.penalties import ElasticNet, NonNegative
from sparsco.penalties.blocks import Blocks
from sparsco.solver.best_intercept import with_best_intercept
from sparsco.solver.certificate import balancing_factors
from sparsco.solver.loss_term import LossTerm
from sparsco.solver.sampled import FLOOR, Movable, Point, Sample


def problem(n=300, d=8, seed=0, kind=sp.csr_array):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    y = np.where(X[:, 0] - X[:, 1] + rng.logistic(size=n) > 0.3, 1.0, -1.0)[:, None]
    return as_matrix(kind(X)), X, y, rng


@given(st.integers(1, 40), st.integers(1, 60), st.integers(0, 5))
def test_drawn_rows_stand_for_all(n, count, seed):
    importance = np.random.default_rng(seed).choice([0.5, 1.0, 4.0], n)
    numbers, factors = drawn(importance, count)
    assert np.all(np.diff(numbers) > 0) and 0 <= numbers[0] and numbers[-1] < n and len(numbers) <= max(count, n)
    if count >= n:
        assert len(numbers) == n and np.all(factors == 1.0)
    else:  # each drawn row stands for as many parts of equal importance as it was drawn from
        np.testing.assert_allclose((factors * importance[numbers]).sum(), importance.sum(), rtol=1e-12)


@pytest.mark.parametrize("rho", [0.0, 0.05])
def test_a_step_is_the_minimum_of_the_model_of_the_sample(rho):
    matrix, X, y, rng = problem()
    n, d = X.shape
    P = 0.3 * rng.normal(size=(n, 1))
    term = LossTerm(Logistic(), y, np.full((n, 1), 1.0 / n), P)
    numbers, factors = np.arange(0, n, 3), np.full(100, 3.0)
    sample = Sample(matrix.take(numbers), numbers, factors, term, True)
    W, G, slopes_b = 0.1 * rng.normal(size=(d, 1)), 0.2 * rng.normal(size=(d, 1)), np.array([0.05])
    psi, free = Blocks(np.full(d, 0.03), rho), np.ones((d, 1), bool)
    free[-1] = False
    new, db = sample.minimum(Point(W, np.zeros(1), G, slopes_b), P, psi, Movable(free, np.ones_like(free)), None, 1e-12)
    h = np.maximum(curvature(Logistic(), P, y), FLOOR)[numbers, 0] * 3.0 / n
    Z = np.column_stack([X[numbers], np.ones(len(numbers))])
    A, move = Z.T @ (h[:, None] * Z), np.append(new[:, 0] - W[:, 0], db)
    slope = np.append(G, slopes_b) + A @ move
    slope[:-1] += rho * new[:, 0]
    beyond = np.where(
        new[:, 0] != 0.0, slope[:-1] + 0.03 * np.sign(new[:, 0]), np.maximum(np.abs(slope[:-1]) - 0.03, 0)
    )
    assert new[-1] == W[-1] and abs(slope[-1]) < 1e-8 and np.abs(beyond[:-1]).max() < 1e-8


def test_a_correction_makes_the_matrix_right_along_the_step():
    matrix, X, y, rng = problem()
    n, d = X.shape
    term = LossTerm(Logistic(), y, np.full((n, 1), 1.0 / n), np.zeros((n, 1)))
    sample = Sample(matrix, np.arange(n), np.ones(n), term, True)
    every, rho = np.ones((d, 1), bool), 0.1
    before = Point(np.zeros((d, 1)), np.zeros(1), 0.1 * rng.normal(size=(d, 1)), np.zeros(1))
    sample.minimum(before, np.zeros((n, 1)), Blocks(np.full(d, 0.01), rho), Movable(every, every), None, 1e-9)
    W, b = rng.normal(size=(d, 1)), np.array([0.3])
    bend = 0.5 * W + 0.01 * rng.normal(size=(d, 1))
    sample.correct(before, Point(W, b, before.G + bend, np.array([0.2])), rho)
    np.testing.assert_allclose(sample._A @ np.append(W, b), np.append(bend + rho * W, 0.2), rtol=1e-10)
    assert np.linalg.eigvalsh(sample._A).min() > 0.0


def test_balanced_and_centred_slopes_sum_to_zero():
    _, X, y, rng = problem()
    n, P = len(X), 2.0 + rng.normal(size=(len(X), 1))
    term = LossTerm(Logistic(), y, np.full((n, 1), 1.0 / n), P)
    slopes = term.raw_slopes(P)
    down, up = balancing_factors(term, slopes)
    assert abs((np.where(slopes > 0.0, up, down) * slopes).mean()) < 1e-15 and max(down[0], up[0]) == 1.0
    b, moved, slopes, _ = with_best_intercept(term, np.zeros(1), P)
    np.testing.assert_allclose(moved, P + b)
    np.testing.assert_allclose(slopes, derivative(Logistic(), moved, y))
    assert abs(slopes.mean()) < 1e-12


def violation(loss, X, Y, found, lam, rho, weights):
    """The largest violation of a condition, written out once more."""
    W, b = found.w, found.b
    c = weights[:, None] * derivative(loss, X @ W + b, Y) / np.count_nonzero(weights)
    G = X.T @ c + rho * W
    inside = np.where(W != 0.0, np.abs(G + lam * np.sign(W)), np.maximum(np.abs(G) - lam, 0.0))
    return max(inside.max(), np.abs(c.sum(0)).max())


def long_problem(case, n=12_000, d=60, seed=3):
    """More rows than a sample has: sparse or full, with rare columns, rare labels or uneven weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if case != "full":
        X *= rng.random((n, d)) < (0.002 if case == "rare columns" else 0.3)
    p = X[:, :6] @ np.array([2.0, -2.0, 1.5, -1.0, 1.0, 0.5]) - (4.0 if case == "rare labels" else 0.0)
    weights = rng.choice([0.0, 1.0, 20.0], n, p=[0.2, 0.7, 0.1]) if case == "weights" else np.ones(n)
    return X, p, weights, rng


@pytest.mark.parametrize("case", ["full", "sparse", "rare columns", "rare labels", "weights"])
@pytest.mark.parametrize(("share", "rho"), [(0.1, 0.0), (0.01, 0.003)])
def test_optima_by_samples(case, share, rho, monkeypatch):
    X, p, weights, rng = long_problem(case)
    Y = np.where(p + rng.logistic(size=len(p)) > 0.0, 1.0, -1.0)[:, None]
    matrix, start = as_matrix(X if case == "full" else sp.csr_array(X)), (np.zeros((X.shape[1], 1)), np.zeros(1))
    used = []
    take_rows = Model.take_rows
    monkeypatch.setattr(Model, "take_rows", lambda self, *args: (used.append(args[-1]), take_rows(self, *args))[1])
    lam = share * np.abs(X.T @ (weights * (Y[:, 0] - np.average(Y[:, 0], weights=weights)))).max()
    lam /= 2.0 * np.count_nonzero(weights)
    settings = {"loss": Logistic(), "penalty": ElasticNet(lam, rho), "tol": 1e-8}
    found = polish(RowsInMemory(matrix, Y, weights[:, None]), *start, **settings)
    assert found.reached.all() and violation(Logistic(), X, Y, found, lam, rho, weights) <= 1.001e-8 * lam
    assert used and used[0] < len(X)
    read = RowsInPasses(
        lambda: iter([(matrix.part(0, 5000), Y[:5000], weights[:5000, None]), _rest(matrix, Y, weights)])
    )
    again = polish(read, *start, **settings)
    np.testing.assert_allclose(again.w, found.w, atol=1e-7 * np.abs(found.w).max())


def _rest(matrix, Y, weights):
    return matrix.part(5000, len(matrix)), Y[5000:], weights[5000:, None]


@pytest.mark.parametrize("loss", [Squared(), Huber(1.0), SquaredHinge(), Poisson()])
def test_optima_of_other_losses(loss):
    X, p, weights, rng = long_problem("sparse")
    Y = p + rng.normal(size=len(p))
    if isinstance(loss, SquaredHinge):
        Y = np.where(Y > 0.0, 1.0, -1.0)
    if isinstance(loss, Poisson):
        Y = rng.poisson(np.exp(np.clip(0.3 * p, -3.0, 3.0))).astype(float)
    Y, start = Y[:, None], (np.zeros((X.shape[1], 1)), np.zeros(1))
    rows = RowsInMemory(as_matrix(sp.csr_array(X)), Y, np.ones_like(Y))
    found = polish(rows, *start, loss=loss, penalty=ElasticNet(0.02), tol=1e-7)
    assert found.reached.all() and violation(loss, X, Y, found, 0.02, 0.0, weights) <= 1.001e-7 * 0.02
    bounded = polish(rows, *start, loss=loss, penalty=NonNegative(0.02), tol=1e-7)
    assert bounded.reached.all() and bounded.w.min() >= 0.0


@pytest.mark.parametrize("case", ["full", "sparse"])
def test_optima_of_a_softmax(case):
    X, p, weights, rng = long_problem(case, n=9000, d=12)
    label = np.digitize(p + rng.logistic(size=len(p)), [-1.0, 1.0])
    Y = np.eye(3)[label]
    matrix = as_matrix(X if case == "full" else sp.csr_array(X))
    start = np.zeros((X.shape[1], 3)), np.zeros(3)
    found = polish(
        RowsInMemory(matrix, Y, np.ones_like(Y)), *start, loss=Multinomial(), penalty=ElasticNet(0.01), tol=1e-7
    )
    assert found.reached.all()
    S = np.exp(X @ found.w + found.b)
    c = (S / S.sum(1, keepdims=True) - Y) / len(Y)
    G = X.T @ c
    inside = np.where(found.w != 0.0, np.abs(G + 0.01 * np.sign(found.w)), np.maximum(np.abs(G) - 0.01, 0.0))
    assert max(inside.max(), np.abs(c.sum(0)).max()) <= 1.001e-7 * 0.01


@pytest.mark.parametrize("case", ["full", "sparse", "rare labels", "weights"])
@pytest.mark.parametrize("tol", [1e-2, 1e-7])
def test_chains_of_strengths_are_the_optima_of_each(case, tol):
    X, p, weights, rng = long_problem(case, n=6000)
    y = np.where(p + rng.logistic(size=len(p)) > 0.0, 1.0, -1.0)
    matrix = as_matrix(X if case == "full" else sp.csr_array(X))
    largest = np.abs(X.T @ (weights * (y - np.average(y, weights=weights)))).max() / (2 * np.count_nonzero(weights))
    lams = largest * np.geomspace(1.1, 0.005, 11)  # more than are certified side by side
    rng.shuffle(lams)
    Y, a = np.repeat(y[:, None], 11, 1), np.repeat(weights[:, None], 11, 1)
    start = np.zeros((X.shape[1], 11)), np.zeros(11)
    settings = {"loss": Logistic(), "penalty": ElasticNet(1.0), "lams": lams, "tol": tol}
    found = polish(RowsInMemory(matrix, Y, a), *start, chains=1, **settings)
    assert found.reached.all()
    for q, lam in enumerate(lams):
        own = found._replace(w=found.w[:, [q]], b=found.b[[q]])
        assert violation(Logistic(), X, y[:, None], own, lam, 0.0, weights) <= 1.001 * tol * lam
    alone = polish(RowsInMemory(matrix, Y, a), *start, **(settings | {"tol": 1e-9}))
    assert np.all(found.objectives <= alone.objectives * (1.0 + 1e-12) + found.duality_gaps + 1e-12)
    assert np.all(found.objectives >= alone.objectives - alone.duality_gaps - 1e-12)
