"""The pieces of exact solvers against slow twins: penalties as numbers, block descent, Newton matrices, envelopes."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sparsco.data.rows import as_matrix
from sparsco.losses import EpsilonInsensitive, Hinge, Logistic, Multinomial, Quantile, Squared, derivative, value
from sparsco.penalties import (
    Box,
    ElasticNet,
    GroupL1,
    NonNegative,
    RowGroup,
    SparseGroup,
    WeightedElasticNet,
    prox_all,
    prox_with_l2,
    strength,
)
from sparsco.solver.block_descent import curvatures, descend_groups, descend_outputs
from sparsco.solver.certificate import balanced
from sparsco.solver.columns import by_column
from sparsco.solver.descent import descend
from sparsco.solver.loss_term import LossTerm
from sparsco.solver.manifold import Curved
from sparsco.solver.smoothing import envelope
from support import number_of_streams

D = 6
GROUPS = np.array([0, 0, 1, 1, 1, 2])
PENALTIES = [
    ElasticNet(0.5),
    ElasticNet(0.5, 0.25),
    ElasticNet(0.0, 0.5),
    WeightedElasticNet(0.5, 0.0, np.array([1.0, 2.0, 0.5, 1.0, 1.0, 3.0])),
    NonNegative(0.5),
    NonNegative(0.5, 0.25),
    Box(-0.5, 0.5),
    Box(np.array([-1.0, 0.0, -0.5, 0.25, -2.0, 0.0]), np.array([1.0, 0.5, 0.0, 0.75, -0.5, 0.0]), 0.25),
    RowGroup(0.5),
    RowGroup(0.5, 0.25),
    GroupL1(0.5, GROUPS),
    GroupL1(0.5, GROUPS, 0.25, False),
    SparseGroup(0.5, GROUPS, 0.5),
    SparseGroup(0.5, GROUPS, 0.25, 0.25),
]
NAMES = [f"{type(p).__name__}{k}" for k, p in enumerate(PENALTIES)]
lattice = st.integers(-8, 8).map(lambda k: k / 4.0)
anywhere = st.floats(-4.0, 4.0).map(lambda x: x if abs(x) > 1e-6 else 0.0)
matrices = st.one_of(arrays(np.float64, (D, 2), elements=lattice), arrays(np.float64, (D, 2), elements=anywhere))


def total(penalty, W):
    return float(np.sum(strength(penalty, W)))


@pytest.mark.parametrize("penalty", PENALTIES, ids=NAMES)
@given(V=matrices)
@settings(deadline=None, max_examples=number_of_streams(25))
def test_conditions_hold_at_a_prox_and_only_there(penalty, V):
    """W = prox(V) minimises ||W - V||^2 / 2 + psi(W), whose smooth part has the gradient W - V."""
    blocks = penalty.blocks(D)
    W = prox_with_l2(penalty, V, 1.0)
    assert blocks.value(W) == pytest.approx(total(penalty, W), abs=1e-12)
    assert blocks.violations(W - V, W).max() <= 1e-9
    low, high = blocks.bounds()
    for size in (0.5, 1e-3):
        other = np.clip(W + size, low[:, None], high[:, None])
        if (other != W).any():
            assert blocks.violations(other - V, other).max() > 1e-2 * np.abs(other - W).max()


@pytest.mark.parametrize("penalty", PENALTIES, ids=NAMES)
@given(G=matrices, W=matrices)
@settings(deadline=None, max_examples=number_of_streams(25))
def test_violations_of_one_output_are_those_beside_an_empty_one(penalty, G, W):
    blocks = penalty.blocks(D)
    low, high = blocks.bounds()
    G, W = G[:, :1], np.clip(W[:, :1], low[:, None], high[:, None])
    inside = (low <= 0.0) & (high >= 0.0)  # a second output may be zero there
    beside = [np.hstack([each, 0.0 * each]) for each in (G, W)]
    np.testing.assert_allclose(blocks.violations(G, W)[inside], blocks.violations(*beside)[inside], atol=1e-12)


@pytest.mark.parametrize("penalty", PENALTIES, ids=NAMES)
@given(V=matrices, W=matrices)
@settings(deadline=None, max_examples=number_of_streams(25))
def test_the_conjugate_is_a_bound_and_is_reached(penalty, V, W):
    blocks = penalty.blocks(D)
    scale, dual = blocks.dual(V)
    W = prox_all(penalty, W, 0.0)  # inside the bounds
    assert 0.0 < scale <= 1.0 and scale * np.sum(V * W) - total(penalty, W) <= dual + 1e-9
    if penalty.rho > 0.0:
        assert scale == 1.0
        best = prox_all(penalty, V / penalty.rho, 1.0 / penalty.rho)
        assert np.sum(V * best) - total(penalty, best) == pytest.approx(dual, abs=1e-9)
    elif scale < 1.0:  # slopes a little larger have no finite conjugate: some direction pays off for ever
        best = prox_all(penalty, 1e6 * (1.0 + 1e-4) * scale * V, 1e6)
        assert np.sum((1.0 + 1e-4) * scale * V * best) > total(penalty, best)
    elif not isinstance(penalty, Box):
        assert dual == 0.0


@pytest.mark.parametrize("penalty", [PENALTIES[k] for k in (0, 1, 4, 7, 9, 10, 12)])
def test_derivatives_of_free_weights(penalty):
    """Slope and bend against finite differences."""
    blocks, rng = penalty.blocks(D), np.random.default_rng(3)
    W = prox_all(penalty, rng.standard_normal((D, 2)), 0.5)
    free, step = blocks.free(W), 1e-6
    V = np.where(free, rng.standard_normal((D, 2)), 0.0)
    rise = (blocks.value(W + step * V) - blocks.value(W - step * V)) / (2.0 * step)
    assert (blocks.slope(W) * V).sum() == pytest.approx(rise, rel=1e-6, abs=1e-8)
    bend = (blocks.slope(W + step * V) - blocks.slope(W - step * V)) / (2.0 * step)
    np.testing.assert_allclose(np.where(free, blocks.bend(W, V), 0.0), np.where(free, bend, 0.0), atol=1e-6)
    assert free.any()


def problem(m, seed=0, n=60, k=D, density=0.6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, k)) * (rng.random((n, k)) < density)
    matrix = as_matrix(sp.csr_array(X))
    columns = by_column(*matrix[:3], np.arange(n), k)
    s = rng.dirichlet(np.ones(m), n) if m > 1 else np.zeros((n, 1))
    h = (s if m > 1 else rng.random((n, 1))) / n
    r = h.copy() if m > 1 else 0.0 * h
    c = rng.standard_normal((n, m)) / n
    c -= c.mean(1, keepdims=True) * (m > 1)  # as those of a softmax, which does not notice a shift of all classes
    return X, columns[:3], c, h, r, s, rng.standard_normal((k, m))


def model_violations(X, c, h, r, s, psi, start, W, db):
    """The optimality conditions of the quadratic model, row by row."""
    E = X @ (W - start) + db
    U = np.stack([c[i] + (np.diag(h[i]) - np.outer(r[i], s[i])) @ E[i] for i in range(len(X))])
    return max(psi.violations(X.T @ U, W).max(), np.abs(U.sum(0)).max())


@pytest.mark.parametrize("penalty", PENALTIES, ids=NAMES)
@pytest.mark.parametrize("m", [1, 3])
def test_descents_minimise_the_model(penalty, m):
    X, columns, c, h, r, s, start = problem(m)
    scaled = penalty._replace(lam=0.02) if penalty.lam else penalty
    psi = scaled.blocks(D)
    start = prox_all(scaled, start, 0.0)
    W, db, (low, high) = start.copy(), np.zeros(m), psi.bounds()
    if psi.groups is not None:
        ends = np.append(np.flatnonzero(np.diff(psi.groups, prepend=-1)), D)
        L = np.maximum.reduceat(curvatures(*columns, h).max(1), ends[:-1]) + psi.rho
        args = W, db, L, psi.l1, psi.rho, ends, psi.norms, 1e-14, 20_000, True
        descend_groups(*columns, c.copy(), h, r, s, h.sum(0), *args)
    elif m > 1:
        args = W, db, curvatures(*columns, h), psi.l1, psi.rho, low, high, 1e-14, 20_000, True
        descend_outputs(*columns, c.copy(), h, r, s, h.sum(0), *args)
    else:
        terms = psi.l1, np.full(D, psi.rho), np.zeros(D), low, high, 0.0, np.arange(D)
        for _ in range(100):  # sweeps after the first are over the weights that are not zero
            u = c[:, 0] + h[:, 0] * (X @ (W - start)[:, 0] + db[0])
            scratch = np.empty(D), np.empty(D), np.empty(D, np.int64)
            db[0] += descend(*columns, u, h[:, 0].copy(), W[:, 0], *terms, *scratch, 0.0, 0.0, 200, True)[0]
    assert model_violations(X, c, h, r, s, psi, start, W, db) <= 1e-10
    assert (W != start).any()


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize(
    "penalty", [ElasticNet(0.1, 0.05), NonNegative(0.1), GroupL1(0.1, GROUPS), SparseGroup(0.1, GROUPS)]
)
def test_newton_matrices(penalty, m, monkeypatch):
    """By rows, by columns and by products: the same step, that of the matrix written down entry by entry."""
    X, _, c, h, r, s, W = problem(m)
    psi = penalty.blocks(D)
    W = prox_all(penalty, W, 2.0)
    free = psi.free(W)
    where = [*zip(*np.nonzero(free), strict=True), *((D, q) for q in range(m))]
    Z = np.column_stack([X, np.ones(len(X))])
    A = np.array(
        [
            [(Z[:, j] * Z[:, i] * (h[:, q] * (q == p) - r[:, q] * s[:, p])).sum() for i, p in where]
            for j, q in where
        ]
    )  # fmt: skip
    inside = len(where) - m
    for a in range(inside):
        unit = np.zeros_like(W)
        unit[where[a]] = 1.0
        A[:inside, a] += psi.bend(W, unit)[free]
    gradient, gradient_b = (X.T @ c + psi.slope(W)), c.sum(0)
    ridge = 1e-3 * np.arange(1.0, D + 2.0)
    A[np.diag_indices_from(A)] += [ridge[j] for j, _ in where]
    expected = -np.linalg.solve(A, np.append(gradient[free], gradient_b))
    for matrix in (X, sp.csr_array(X)):
        for pair, direct in ((1e-9, 1500), (1e9, 1500), (1.0, 0)):
            monkeypatch.setattr("sparsco.solver.manifold._PAIR", pair)
            monkeypatch.setattr("sparsco.solver.manifold._DIRECT", direct)
            dW, db = Curved(matrix, W, psi, h, s if m > 1 else None, True, free).step(gradient, gradient_b, ridge)
            assert not dW[~free].any()
            found = np.append(dW[free], db)
            if direct:
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
            else:  # conjugate gradients end when the residual is small
                left = A @ (found - expected)
                assert np.linalg.norm(left) <= 2e-4 * np.linalg.norm(np.append(gradient[free], gradient_b))


@pytest.mark.parametrize("loss", [Hinge(), Quantile(0.3), EpsilonInsensitive(0.2)])
@pytest.mark.parametrize("width", [0.05, 1.0])
def test_envelopes(loss, width):
    """min_z loss(z) + (p - z)^2 / (2 width), up to a constant, and its derivatives."""
    twin, y = envelope(loss, width), np.array([-1.0, 1.0])[:, None]
    p, z = np.linspace(-4.0, 4.0, 161), np.linspace(-6.0, 6.0, 24_001)
    slow = np.stack([(value(loss, z, each)[:, None] + (p - z[:, None]) ** 2 / (2.0 * width)).min(0) for each in y])
    fast = value(twin, p, y)
    assert np.ptp(fast - slow) <= 1e-6
    step = 1e-5
    np.testing.assert_allclose(
        derivative(twin, p, y), (value(twin, p + step, y) - value(twin, p - step, y)) / (2 * step), atol=1e-3
    )
    z = p - width * derivative(twin, p, y)  # the minimum; the envelope's slope is a slope of the loss there
    low, high = (
        (value(loss, z, y) - value(loss, z - 1e-7, y)) / 1e-7,
        (value(loss, z + 1e-7, y) - value(loss, z, y)) / 1e-7,
    )
    assert np.all(derivative(twin, p, y) >= low - 1e-6) and np.all(derivative(twin, p, y) <= high + 1e-6)


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Hinge(), Multinomial()])
def test_balanced_slopes(loss):
    rng = np.random.default_rng(0)
    P = rng.standard_normal((50, 4 if loss.couples else 1))
    Y = np.eye(4)[rng.integers(0, 4, 50)] if loss.couples else np.where(rng.random((50, 1)) < 0.3, 1.0, -1.0)
    share = np.repeat(rng.random((50, 1)), P.shape[1], 1) / 50
    term = LossTerm(loss, Y, share, P)
    slopes = term.raw_slopes(P)
    found = balanced(term, P, slopes)
    assert np.abs((share * slopes).sum(0)).max() > 1e-3 and np.abs((share * found).sum(0)).max() <= 1e-15
    assert np.isfinite(loss.conjugate(found, Y)).all()
    if not loss.couples:
        assert np.all(np.abs(found) <= np.abs(slopes)) and np.all(found * slopes >= 0.0)
