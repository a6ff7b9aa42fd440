"""Penalties that tie weights together: prox and projections, mini-batches, conversions of whole matrices."""

from __future__ import annotations

import inspect
import itertools
import pickle
import warnings
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsco import SparseClassifier, SparseRegressor, conversions, optimizers, penalties, steps
from sparsco.data.rows import as_matrix
from sparsco.engine.run import Run
from sparsco.jit.dispatch import plain_python
from sparsco.losses import Hinge, Logistic, Squared
from sparsco.parts import projections
from sparsco.parts.contracts import Loss, part
from sparsco.penalties import (
    MCP,
    Adaptive,
    Box,
    ElasticNet,
    GroupL1,
    L1Ball,
    L2Ball,
    NonNegative,
    RowGroup,
    SparseGroup,
    TraceNorm,
    WeightedElasticNet,
    prox_all,
    prox_with_l2,
    strength,
)
from sparsco.problem.state import is_coupled
from sparsco.problem.targets import Values
from support import number_of_streams, reference
from support.cases import MATRIX_CONVERSIONS as CONVERSIONS

# ---- records, found by introspection ---------------------------------------------------------------------------------

D = 6
GROUPS = np.array([0, 2, 2, 0, 3, 3])
FIELDS = {
    "lam": 0.3,
    "rho": 0.2,
    "pen": np.array([0.0, 1.0, 2.0, 1.0, 1.0, 0.5]),
    "groups": GROUPS,
    "share": 0.4,
    "sized": True,
    "radius": 0.8,
    "low": -0.3,
    "high": 0.5,
}
RECORDS = [
    kind(*(FIELDS[field] for field in kind._fields))
    for _, kind in inspect.getmembers(penalties, inspect.isclass)
    if not kind.strength_is_open and not kind.rounds
]
RECORDS += [SparseGroup(0.3, GROUPS, 0.0, 0.2, False), Box(np.linspace(-1.0, 0.0, D), np.linspace(0.0, 1.0, D))]
NORMS = [r for r in RECORDS if r.lam > 0.0]
SETS = [r for r in RECORDS if r.lam == 0.0]


def name_of(record):
    return type(record).__name__


def test_discovery():
    found = {name_of(record) for record in RECORDS}
    assert found >= {
        "ElasticNet",
        "WeightedElasticNet",
        "NonNegative",
        "Box",
        "RowGroup",
        "GroupL1",
        "SparseGroup",
        "L1Ball",
        "L2Ball",
        "TraceNorm",
    }
    in_rounds = {MCP, Adaptive}  # conversions/test_reweighting.py
    assert set(penalties.PENALTIES.values()) <= {type(record) for record in RECORDS} | in_rounds
    for record in RECORDS:
        assert record.kind in ("separable", "grouped", "global") and record.cost and record.lam >= 0.0 <= record.rho


def r(record, W):
    """The part that is not smooth."""
    return float(np.sum(strength(record, W))) - 0.5 * record.rho * float(np.square(W).sum())


seeds = st.integers(0, 2**32 - 1)


def arrays(seed, matrix):
    rng = np.random.default_rng(seed)
    shape = (D, 3) if matrix else (D,)
    return rng, rng.normal(size=shape) * rng.choice([0.1, 1.0, 3.0]) * (rng.random(shape) < 0.8)


@pytest.mark.parametrize("record", RECORDS, ids=name_of)
@given(seed=seeds, s=st.floats(1e-3, 3.0), matrix=st.booleans())
@settings(max_examples=number_of_streams(60), deadline=None)
def test_prox_is_the_minimiser(record, seed, s, matrix):
    rng, W = arrays(seed, matrix)
    best = prox_all(record, W, s)
    least = 0.5 * np.square(best - W).sum() + s * r(record, best)
    assert np.isfinite(least)
    for size in (1e-3, 0.1, 1.0):
        near = best + size * rng.normal(size=W.shape)
        for other in (near, near * (best != 0.0), np.abs(near), prox_all(record, near, 0.0), (1.0 - size) * best):
            value = 0.5 * np.square(other - W).sum() + s * r(record, other)
            assert least <= value + 1e-9 * max(1.0, abs(least))
    # the optimality inequality: for every u, <W - best, u - best> <= s (r(u) - r(best))
    u = prox_all(record, rng.normal(size=W.shape), 0.0)
    assert np.sum((W - best) * (u - best)) <= s * (r(record, u) - r(record, best)) + 1e-9
    # nonexpansive
    other = W + rng.normal(size=W.shape)
    moved = np.linalg.norm(prox_all(record, other, s) - best)
    assert moved <= np.linalg.norm(other - W) * (1.0 + 1e-9)


@pytest.mark.parametrize("record", [x for x in NORMS if not isinstance(x, NonNegative)], ids=name_of)
@given(seed=seeds, s=st.floats(0.01, 3.0), matrix=st.booleans())
@settings(max_examples=number_of_streams(30), deadline=None)
def test_moreau(record, seed, s, matrix):
    """W - prox(W) lies in s times the dual ball: its product with any U is at most s r(U), with the prox equal."""
    rng, W = arrays(seed, matrix)
    best = prox_all(record, W, s)
    rest = W - best
    assert np.sum(rest * best) == pytest.approx(s * r(record, best), abs=1e-9)
    for _ in range(10):
        U = rng.normal(size=W.shape) * (rng.random(W.shape) < 0.5)
        assert np.sum(rest * U) <= s * r(record, U) + 1e-9
    assert np.array_equal(prox_all(record, 0.0 * W, s), 0.0 * W)
    both = prox_with_l2(record, W, s)
    np.testing.assert_allclose(both, best / (1.0 + s * record.rho), atol=1e-12)


@pytest.mark.parametrize("record", SETS, ids=name_of)
@given(seed=seeds, matrix=st.booleans())
@settings(max_examples=number_of_streams(30), deadline=None)
def test_projections_are_feasible_and_idempotent(record, seed, matrix):
    _, W = arrays(seed, matrix)
    best = prox_all(record, W, 1.0)
    assert np.isfinite(np.sum(strength(record, best)))
    rounding = 4.0 * np.spacing(1.0 + np.abs(W).sum())  # of the sums that decide how far the set is
    np.testing.assert_allclose(prox_all(record, best, 1.0), best, rtol=0.0, atol=rounding)
    if not isinstance(record, Box):
        assert np.sum(strength(record, 3.0 * np.ones_like(W))) == np.inf


@given(
    values=st.lists(st.floats(-5.0, 5.0) | st.sampled_from([0.0, 1.0, -1.0]), min_size=1, max_size=12),
    radius=st.floats(0.01, 8.0),
)
@settings(deadline=None)
def test_public_projections(values, radius):
    v = np.array(values)
    onto = projections.simplex(v, radius)
    assert onto.sum() == pytest.approx(radius) and (onto >= 0.0).all()
    tau = (v - onto)[onto > 0.0]
    assert np.ptp(tau) <= 1e-9 and (v[onto == 0.0] <= tau.mean() + 1e-9).all()  # KKT
    ball = projections.l1_ball(v, radius)
    assert np.abs(ball).sum() <= radius * (1.0 + 1e-12)
    if np.abs(v).sum() > radius:
        np.testing.assert_allclose(np.abs(ball), projections.simplex(np.abs(v), radius), atol=1e-12)
        assert np.all(ball * v >= 0.0)
    else:
        assert np.array_equal(ball, v)
    inside = projections.l2_ball(v, radius)
    assert np.linalg.norm(inside) <= radius * (1.0 + 1e-12)
    assert np.array_equal(projections.box(v, -1.0, 0.5), np.minimum(np.maximum(v, -1.0), 0.5))


def test_projection_of_many_numbers_and_of_ties():
    v = np.random.default_rng(0).normal(size=300_000)
    assert np.abs(projections.l1_ball(v, 10.0)).sum() == pytest.approx(10.0)
    np.testing.assert_allclose(projections.l1_ball(np.ones(1000), 10.0), np.full(1000, 0.01))


@pytest.mark.parametrize("record", [x for x in RECORDS if x.kind != "global"], ids=name_of)
def test_prox_in_a_coarsened_metric(record):
    """argmin ||U - W||_M^2 / 2 + r(U) is prox_all with s = 1 / M where M is coarsened."""
    rng = np.random.default_rng(1)
    W = rng.normal(size=(D, 3))
    M = np.broadcast_to(record.coarsened(rng.uniform(0.5, 4.0, size=(D, 3))), (D, 3))
    s = 1.0 / record.coarsened(M.copy())
    best = prox_all(record, W, s)
    least = 0.5 * np.sum(M * np.square(best - W)) + r(record, best)
    for _ in range(200):
        other = best + rng.choice([1e-3, 0.1]) * rng.normal(size=W.shape) * (rng.random(W.shape) < 0.5)
        for u in (other, prox_all(record, other, 0.0)):
            assert least <= 0.5 * np.sum(M * np.square(u - W)) + r(record, u) + 1e-12


def test_groups_and_rows():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(D, 3))
    alone = GroupL1(0.5, np.arange(D), 0.1)
    np.testing.assert_allclose(prox_all(alone, W, 1.5), prox_all(RowGroup(0.5, 0.1), W, 1.5), atol=1e-15)
    assert strength(alone, W) == pytest.approx(strength(RowGroup(0.5, 0.1), W))
    np.testing.assert_allclose(prox_all(RowGroup(0.5), W[:, 0], 1.5), prox_all(ElasticNet(0.5), W[:, 0], 1.5))
    one = SparseGroup(0.5, GROUPS, 1.0)
    np.testing.assert_allclose(prox_all(one, W, 1.5), prox_all(ElasticNet(0.5), W, 1.5), atol=1e-15)
    kept, outcomes = prox_all(GroupL1(1.0, GROUPS), W, 1.7), set()
    for g in np.unique(GROUPS):
        gone = np.linalg.norm(W[GROUPS == g]) <= 1.7 * np.sqrt(np.count_nonzero(GROUPS == g))
        assert np.all((kept[GROUPS == g] == 0.0) == gone)
        outcomes.add(bool(gone))
    assert outcomes == {False, True}


@pytest.mark.parametrize("shape", [(40, 15), (15, 40), (30, 30)])
def test_the_trace_norms_prox_has_the_rank_it_says(shape):
    rng = np.random.default_rng(0)
    W = rng.normal(size=shape)
    W[3] = 0.0
    sizes = np.linalg.svd(W, compute_uv=False)
    for rank in (0, 1, 4, 14):
        threshold = 0.5 * (sizes[rank - 1] + sizes[rank]) if rank else 2.0 * sizes[0]
        low = prox_all(TraceNorm(1.0), W, threshold)
        assert np.linalg.matrix_rank(low) == rank and (low[3] == 0.0).all()
        np.testing.assert_allclose(np.linalg.svd(low, compute_uv=False)[:rank], sizes[:rank] - threshold, atol=1e-10)
    assert np.linalg.matrix_rank(prox_all(TraceNorm(1.0), W, sizes[4] * (1.0 - 1e-15))) == 4  # not told from 0


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (GroupL1(1.0, np.zeros(3, int)), "6 whole numbers"),
        (GroupL1(1.0, np.zeros(6)), "whole numbers"),
        (GroupL1(1.0, np.full(6, -1)), "from 0 on"),
        (SparseGroup(1.0, GROUPS, 1.5), "share"),
        (L1Ball(0.0), "positive"),
        (L2Ball(np.inf), "positive"),
        (Box(1.0, 0.0), "exceed"),
        (Box(np.zeros(3), 1.0), "6 features"),
    ],
)
def test_refused_records(record, words):
    with pytest.raises(ValueError, match=words):
        Run(Squared(), record, optimizers.BatchFOBOS(), d=6)


# ---- mini-batches ----------------------------------------------------------------------------------------------------


@part(Loss)
class Softmax(NamedTuple):
    """A loss of all models together: log sum exp(p) - p_y with y one-hot."""

    classifies = True
    smoothness = 0.5
    curved = True
    couples = True

    def value(loss, p, y):
        return y * (np.logaddexp.reduce(p, axis=-1)[..., None] - p)

    def derivative(loss, p, y):
        return np.exp(p - np.logaddexp.reduce(p, axis=-1)[..., None]) - y

    def curvature(loss, p, y):
        q = np.exp(p - np.logaddexp.reduce(p, axis=-1)[..., None])
        return q * (1.0 - q)


LOSSES = {"squared": Squared(), "logistic": Logistic(), "hinge": Hinge(), "softmax": Softmax()}
BATCHED = {"batch-fobos": optimizers.BatchFOBOS, "batch-rda": optimizers.BatchRDA}


def stream(n, loss, m=3, seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.6)
    P = X @ rng.normal(size=(D, m)) + 0.5 * rng.normal(size=(n, m))
    if loss in ("logistic", "hinge"):
        P = np.where(P > 0.0, 1.0, -1.0)
    if loss == "softmax":
        P = np.eye(m)[P.argmax(1)]
    return X, P, rng.choice([0.5, 1.0, 2.0], size=n) if weighted else None


def learned(data, loss, record, optimizer, conversion, rule=None, intercept=True, cuts=(), **more):
    X, Y, weights = data
    run = Run(
        LOSSES[loss], record, optimizer, conversion, rule, d=D, targets=Values(Y.shape[1]), intercept=intercept, **more
    )
    for a, b in itertools.pairwise([0, *cuts, len(X)]):
        run.feed(as_matrix(X[a:b]), Y[a:b], None if weights is None else weights[a:b])
    run.begin()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return run.finish(), run


@pytest.mark.parametrize("optimizer", BATCHED)
@pytest.mark.parametrize("record", RECORDS, ids=name_of)
@given(
    seed=st.integers(0, 99),
    n=st.integers(1, 140),
    batch=st.sampled_from([1, 3, 16]),
    loss=st.sampled_from([*LOSSES]),
    conversion=st.sampled_from([*CONVERSIONS]),
    weighted=st.booleans(),
    intercept=st.booleans(),
    cap=st.booleans(),
)
@settings(max_examples=number_of_streams(8), deadline=None, suppress_health_check=list(HealthCheck))
def test_mini_batches_equal_the_dense_recursion(
    optimizer, record, seed, n, batch, loss, conversion, weighted, intercept, cap
):
    if loss == "hinge" and conversion.endswith("diagonal"):
        loss = "logistic"
    data = stream(n, loss, seed=seed, weighted=weighted)
    rule = steps.StronglyConvex(mu=0.3, t0=5.0, cap=cap)
    how = BATCHED[optimizer](batch), CONVERSIONS[conversion]
    with plain_python():
        answer, run = learned(data, loss, record, *how, rule if optimizer == "batch-fobos" else None, intercept)
    expected, scale = dense(data, loss, record, optimizer, conversion, run, intercept)
    np.testing.assert_allclose(answer.w, expected[0], rtol=0.0, atol=1e-9 * scale)
    np.testing.assert_allclose(answer.b, expected[1], rtol=0.0, atol=1e-9 * scale)


def test_means_of_points_on_a_bound_count_as_inside():
    data = stream(129, "squared", seed=0)
    box = next(record for record in RECORDS if name_of(record).startswith("Box"))
    answer, _ = learned(data, "squared", box, BATCHED["batch-rda"](1), CONVERSIONS["suffix"], None, False)
    assert np.isclose(answer.w.max(), 0.5, rtol=1e-12)


def dense(data, loss, record, optimizer, conversion, run, intercept):
    """The reference's answer, and the size of its iterates."""
    X, Y, weights = data
    weights = np.ones(len(X)) if weights is None else weights
    loss, rho, fitted = LOSSES[loss], record.rho, run.optimizer
    B, cap = fitted.batch, optimizer == "batch-fobos" and run.step.cap

    def prox(W, s):
        return prox_all(record, W, s)

    def trace(rows):
        smooth = loss.smoothness * weights[rows] * (np.square(X[rows]).sum(1) + intercept)

        def limit(part):
            if not cap:
                return np.inf
            L = smooth[part].max() / B + (1.0 - 1.0 / B) * fitted.L_top * smooth[part].mean() / fitted.L_mean
            return 1.0 / (L + rho + 1e-300)

        W = prox(np.zeros((D, Y.shape[1])), 0.0)
        if optimizer == "batch-fobos":
            A = reference.BatchFOBOS(W, prox, rho, lambda k: 1.0 / (0.3 * (k + 5.0)))
        else:
            A = reference.BatchRDA(W, prox, rho, fitted.beta, fitted.gamma, fitted.bias_gamma)
        return reference.matrix_iterates(
            A,
            X[rows],
            Y[rows],
            weights[rows],
            loss.derivative,
            loss.curvature,
            batch=B,
            intercept=intercept,
            limit=limit,
        )

    answer, full = reference.matrix_answer(
        conversion, trace, (X, Y, weights), loss.derivative, prox, record.coarsened, rho, intercept
    )
    return answer, max(np.abs(full.W).max(), np.abs(full.b).max(), 1.0)


@pytest.mark.parametrize("optimizer", BATCHED)
@pytest.mark.parametrize("loss", LOSSES)
def test_compiled_equals_plain_python(optimizer, loss):
    data = stream(150, loss, weighted=True)
    args = data, loss, RowGroup(0.05, 0.1), BATCHED[optimizer](7), conversions.AverageSL(L=2.0)
    compiled, _ = learned(*args)
    with plain_python():
        plain, _ = learned(*args)
    np.testing.assert_allclose(compiled.w, plain.w, rtol=0.0, atol=1e-12)
    assert np.array_equal(compiled.w != 0.0, plain.w != 0.0)


@pytest.mark.parametrize(
    "conversion",
    [
        *CONVERSIONS.values(),
        conversions.AverageSL(),
        conversions.LastSL(),
        conversions.OptimalSL(),
        conversions.RandomIterate(),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("optimizer", "record", "loss"),
    [
        ("batch-fobos", RowGroup(0.02, 0.05), "logistic"),
        ("batch-rda", TraceNorm(0.02), "squared"),
        ("batch-fobos", GroupL1(0.02, GROUPS), "softmax"),
        ("batch-rda", NonNegative(0.02), "logistic"),
    ],
    ids=["row-group", "trace", "group-softmax", "nonnegative"],
)
def test_any_cut_gives_the_same_bits(optimizer, record, loss, conversion):
    X, Y, _ = stream(1300, loss, seed=1)
    whole = None
    for cuts in ((), (1,), (999, 1000, 1001), tuple(range(0, 1300, 193)), (64, 128, 1024)):
        run = Run(LOSSES[loss], record, BATCHED[optimizer](), conversion, d=D, targets=Values(3))
        for a, b in itertools.pairwise([0, *cuts, 1300]):
            run.feed(as_matrix(X[a:b]), Y[a:b])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                run.finish()  # reading changes nothing
            run = pickle.loads(pickle.dumps(run))
        answer = run.finish()
        whole = whole or answer
        assert np.array_equal(whole.w, answer.w) and np.array_equal(whole.b, answer.b)


def test_a_batch_of_one_is_fobos():
    for intercept, pen in ((True, None), (False, np.array([0.0, 1.0, 2.0, 1.0, 1.0, 0.5]))):
        data = stream(300, "logistic", weighted=True)
        record = ElasticNet(0.02, 0.1) if pen is None else WeightedElasticNet(0.02, 0.1, pen)
        args = data, "logistic", record
        alone, _ = learned(*args, optimizers.BatchFOBOS(1), conversions.Suffix(), steps.Constant(0.2), intercept)
        lazy, _ = learned(*args, optimizers.FOBOS(), conversions.Suffix(), steps.Constant(0.2), intercept)
        np.testing.assert_allclose(alone.w, lazy.w, rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(alone.b, lazy.b, rtol=0.0, atol=1e-12)


def test_more_models_than_lanes():
    data = stream(200, "squared", m=130)
    together, run = learned(data, "squared", RowGroup(0.01), optimizers.BatchFOBOS(), conversions.AverageSL())
    assert together.w.shape == (D, 130) and run.problem.width == 130 and run.problem.lanes is None
    with pytest.raises(ValueError, match="at most 128 models that are tied together, not 130"):
        learned(data, "squared", ElasticNet(0.01), optimizers.FOBOS(), conversions.Last())


@pytest.mark.parametrize("optimizer", ["fobos", "rda", "ftrl", "nftrl", "sgd"])
@pytest.mark.parametrize("record", [x for x in RECORDS if x.form in ("whole", "l1-ball")], ids=name_of)
def test_lazy_optimizers_refuse_by_name(optimizer, record):
    kind = optimizers.OPTIMIZERS[optimizer]()
    with pytest.raises(ValueError, match=rf"{type(kind).__name__} cannot handle {name_of(record)}.*'batch-fobos'"):
        learned(stream(20, "squared"), "squared", record, kind, conversions.Last())


def test_refused_mini_batches():
    with pytest.raises(ValueError, match="at least one example"):
        learned(stream(20, "squared"), "squared", RowGroup(0.1), optimizers.BatchFOBOS(0), conversions.Last())
    with pytest.raises(ValueError, match="gamma must be"):
        learned(stream(20, "squared"), "squared", RowGroup(0.1), optimizers.BatchRDA(gamma=0.0), conversions.Last())


def test_outlying_rows_do_not_blow_up():
    """The cap: rows a hundred times the pilot's size, squared loss."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, D))
    X[1500::40] *= 100.0
    Y = X @ rng.normal(size=(D, 3))
    run = Run(Squared(), RowGroup(0.01), optimizers.BatchFOBOS(), d=D, targets=Values(3))
    run.feed(as_matrix(X), Y)
    W, _ = run.weights()
    assert np.mean(np.square(X @ W - Y)) < 1e-2 * np.mean(np.square(Y))


# ---- conversions: against optima found by other means ----------------------------------------------------------------


def optimum(X, Y, value, gradient, prox, strength_, L, m, iterations=4000):
    """Accelerated proximal gradient on centred rows until nothing moves: (W, objective); the intercept of centred data
    is exact for squared loss and follows by its own gradient otherwise."""
    W, b = np.zeros((X.shape[1], m)), np.zeros(m)
    V, v, momentum = W, b, 1.0
    for _ in range(iterations):
        c = gradient(X @ V + v, Y) / len(X)
        new, new_b = prox(V - X.T @ c / L, 1.0 / L), v - c.sum(0) / L
        if np.sum((V - new) * (new - W)) + np.sum((v - new_b) * (new_b - b)) > 0.0:
            momentum = 1.0
        moved = max(np.abs(new - V).max(), np.abs(new_b - v).max())
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        push = (momentum - 1.0) / following
        V, v, W, b, momentum = new + push * (new - W), new_b + push * (new_b - b), new, new_b, following
        if moved < 1e-13:
            break
    return W, b, value(X @ W + b, Y) / len(X) + strength_(W)


def singular_soft(W, s):
    U, sizes, Vt = np.linalg.svd(W, full_matrices=False)
    return (U * np.maximum(sizes - s, 0.0)) @ Vt


@pytest.fixture(scope="module")
def low_rank():
    """60 x 40 of rank 5, noise, and the optimum of the trace norm problem."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(60, 5)) @ rng.normal(size=(5, 40)) / np.sqrt(60)
    X = rng.normal(size=(5000, 60))
    Y = X @ truth + rng.normal(size=(5000, 40)) + 2.0
    lam = 1.0
    squared = {"value": lambda P, Y: 0.5 * np.square(P - Y).sum(), "gradient": lambda P, Y: P - Y}
    L = 1.01 * np.linalg.norm(np.c_[X, np.ones(len(X))], 2) ** 2 / len(X)
    W, _, best = optimum(
        X,
        Y,
        prox=lambda W, s: singular_soft(W, lam * s),
        m=40,
        L=L,
        iterations=100,
        strength_=lambda W: lam * np.linalg.svd(W, compute_uv=False).sum(),
        **squared,
    )

    def objective(W, b):
        return squared["value"](X @ W + b, Y) / len(X) + lam * np.linalg.svd(W, compute_uv=False).sum()

    return X, Y, lam, int(np.sum(np.linalg.svd(W, compute_uv=False) > 1e-6)), best, objective


@pytest.mark.parametrize("optimizer", BATCHED)
def test_trace_norm(low_rank, optimizer):
    X, Y, lam, rank, best, objective = low_rank
    assert rank == 5

    def learned(conversion):
        run = Run(Squared(), TraceNorm(lam), BATCHED[optimizer](), conversion, d=60, targets=Values(40))
        for k in range(3):
            run.feed(as_matrix(X), Y, is_repeat_pass=k > 0)
        return run.finish()

    average = learned(conversions.Suffix())
    assert np.linalg.matrix_rank(average.w) == 40
    for conversion in (conversions.AverageSL(), conversions.LastSL(), conversions.OptimalSL()):
        sparse = learned(conversion)
        assert np.linalg.matrix_rank(sparse.w) == rank, conversion
        assert best - 1e-9 <= objective(sparse.w, sparse.b) <= best * (1.0 + 1e-3), conversion
        assert objective(sparse.w, sparse.b) < objective(average.w, average.b), conversion


GROUPED = np.arange(60) // 5


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
@pytest.mark.parametrize(
    "record",
    [GroupL1(0.06, GROUPED), GroupL1(0.06, GROUPED, 0.02), SparseGroup(0.08, GROUPED, 0.3), RowGroup(0.05)],
    ids=["group", "group-l2", "sparse-group", "row-group"],
)
def test_groups_of_the_optimum(record, loss):
    """The support equals that of the converged optimum, the objective is near."""
    rng = np.random.default_rng(2)
    m = 3
    truth = np.zeros((60, m))
    truth[:15] = rng.normal(size=(15, m))
    X = rng.normal(size=(4000, 60))
    P = X @ truth + 0.5 * rng.normal(size=(4000, m))
    part = LOSSES[loss]
    Y = {"squared": P, "logistic": np.where(P > 0.0, 1.0, -1.0), "softmax": np.eye(m)[P.argmax(1)]}[loss]
    L = part.smoothness * 1.01 * np.linalg.norm(np.c_[X, np.ones(len(X))], 2) ** 2 / len(X)
    W, _, best = optimum(
        X,
        Y,
        lambda P, Y: part.value(P, Y).sum(),
        part.derivative,
        lambda W, s: prox_with_l2(record, W, s),
        lambda W: strength(record, W),
        L,
        m,
        600,
    )
    for optimizer in BATCHED:
        run = Run(part, record, BATCHED[optimizer](), conversions.AverageSL(), d=60, targets=Values(m))
        for k in range(3):
            run.feed(as_matrix(X), Y, is_repeat_pass=k > 0)
        answer = run.finish()
        groups = GROUPED if hasattr(record, "groups") else np.arange(60)
        rows, optimal = answer.w.any(1), (np.abs(W) > 1e-9).any(1)
        assert np.array_equal(np.unique(groups[rows]), np.unique(groups[optimal])) and 0 < rows.sum() < 60
        found = part.value(X @ answer.w + answer.b, Y).sum() / len(X) + strength(record, answer.w)
        assert best - 1e-9 <= found <= best * (1.0 + 1e-3)


@pytest.mark.parametrize("record", [NonNegative(0.02), Box(-0.2, 0.3), L1Ball(2.0), L2Ball(1.0)], ids=name_of)
def test_constraints(record):
    """The model is feasible and near the optimum, shifted columns and all."""
    X, Y, _ = stream(3000, "logistic", seed=4)
    X = X + 3.0
    mean = X.mean(0)
    part = Logistic()
    L = 0.25 * 1.01 * np.linalg.norm(np.c_[X - mean, np.ones(len(X))], 2) ** 2 / len(X)
    _, _, best = optimum(
        X - mean,
        Y,
        lambda P, Y: part.value(P, Y).sum(),
        part.derivative,
        lambda W, s: prox_all(record, W, s),
        lambda W: np.sum(strength(record, W)),
        L,
        3,
        3000,
    )
    run = Run(part, record, optimizers.BatchRDA(), conversions.AverageSL(), d=D, targets=Values(3))
    for k in range(3):
        run.feed(as_matrix(X), Y, is_repeat_pass=k > 0)
    answer = run.finish()
    found = part.value(X @ answer.w + answer.b, Y).sum() / len(X) + np.sum(strength(record, answer.w))
    assert best - 1e-9 <= found <= best * (1.0 + 1e-3)


def test_the_guard_on_a_long_stream():
    """A reservoir that holds a small part: newton is corrected to the stream's slope, the answer stays row-sparse."""
    X, Y, _ = stream(4000, "squared", seed=5)
    X = np.hstack([X, np.random.default_rng(0).normal(size=(4000, 30))])
    run = Run(Squared(), RowGroup(0.2, 0.01), optimizers.BatchFOBOS(), conversions.AverageSL(), d=36, targets=Values(3))
    run.feed(as_matrix(X[:1000]), Y[:1000])
    run.reservoir.max_nonzeros = 5000
    run.feed(as_matrix(X[1000:]), Y[1000:])
    assert run.sample().kappa < 0.2
    answer = run.finish()
    chosen = answer.report["chosen"][0]
    assert set(chosen["objectives"]) == {"last", "average", "scalar", "diagonal", "newton", "constant"}
    assert chosen["metric"] not in ("last", "average") and 1 <= answer.w.any(1).sum() <= 8
    assert is_coupled(run.problem)
    hinge, _ = learned(
        stream(300, "hinge"), "hinge", RowGroup(0.05, 0.1), optimizers.BatchFOBOS(), conversions.AverageSL()
    )
    assert set(hinge.report["chosen"][0]["objectives"]) == {"last", "average", "scalar", "smoothed", "constant"}


# ---- estimators ------------------------------------------------------------------------------------------------------


def outputs(n=1500, d=20, m=4, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.zeros((d, m))
    truth[:5] = rng.normal(size=(5, 2)) @ rng.normal(size=(2, m))
    X = rng.normal(size=(n, d))
    return X, X @ truth + 0.3 * rng.normal(size=(n, m)) + 1.0


@parametrize_with_checks(
    [SparseRegressor(penalty="row-group"), SparseClassifier(penalty="trace")],
    expected_failed_checks=lambda e: dict.fromkeys(
        ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"],
        "weights are sizes of steps, not copies of rows",
    ),
)
@pytest.mark.filterwarnings("ignore:no feature was selected:UserWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("penalty", ["elasticnet", "row-group", "trace", "nonnegative"])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.7])
def test_multi_output_regression(penalty, l1_ratio):
    X, Y = outputs()
    model = SparseRegressor(penalty=penalty, l1_ratio=l1_ratio, random_state=0).fit(X, Y)
    assert model.coef_.shape == (4, 20) and model.intercept_.shape == (4,) and model.predict(X).shape == Y.shape
    assert model.score(X, Y) > (0.3 if penalty == "nonnegative" else 0.8)
    assert np.array_equal(model.get_support(), model.coef_.any(0))
    if penalty == "row-group":
        columns = model.coef_ != 0.0
        assert np.array_equal(columns.any(0), columns.all(0)) and columns.any(0)[:5].all() and columns.any(0).sum() < 12
    if penalty == "trace":
        assert np.linalg.matrix_rank(model.coef_) == 2
    if penalty == "nonnegative":
        assert (model.coef_ >= 0.0).all()
    assert model.transform(X).shape == (1500, model.get_support().sum())
    sparse = clone(model).fit(sp.csr_array(X), Y)
    assert np.array_equal(sparse.coef_, model.coef_) and sparse.sparsify().coef_.shape == (4, 20)


def test_outputs_alone_and_together():
    X, Y = outputs(m=40)
    simple = {"alpha": 0.05, "random_state": 0, "max_iter": 1, "shuffle": False, "tol": None, "conversion": "last"}
    together = SparseRegressor(n_jobs=2, **simple).fit(X, Y)
    assert len(together.fit_state.runs) == 2 and together.coef_.shape == (40, 20)
    for q in (0, 35):
        alone = SparseRegressor(**simple).fit(X, Y[:, q])
        np.testing.assert_allclose(alone.coef_, together.coef_[q], rtol=0.0, atol=1e-11)
        assert alone.coef_.shape == (20,) and alone.predict(X).shape == (1500,)
    tied = SparseRegressor(penalty="row-group", **simple).fit(X, Y)
    assert len(tied.fit_state.runs) == 1
    column = SparseRegressor(**simple).fit(X, Y[:, :1])
    assert column.coef_.shape == (1, 20) and column.predict(X).shape == (1500, 1)


@pytest.mark.parametrize("penalty", ["row-group", "trace", "nonnegative", GroupL1(0.05, np.arange(20) // 2)], ids=str)
@pytest.mark.filterwarnings("error")
def test_partial_fit_in_pieces_is_fit(penalty):
    X, Y = outputs()
    make = SparseRegressor(penalty=penalty, max_iter=1, shuffle=False, tol=None, random_state=3)
    whole, pieces = clone(make).fit(X, Y), clone(make)
    for a, b in itertools.pairwise([0, 3, 64, 999, 1000, 1203, 1500]):
        pieces.partial_fit(X[a:b], Y[a:b])
        pieces.coef_  # noqa: B018
    assert np.array_equal(whole.coef_, pieces.coef_) and np.array_equal(whole.intercept_, pieces.intercept_)
    with pytest.raises(ValueError, match="y has no columns; the stream began with 4"):
        pieces.partial_fit(X, Y[:, 0])


@pytest.mark.parametrize("penalty", ["row-group", "trace", "nonnegative"])
def test_classes(penalty):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 30))
    y = (X[:, :2] @ rng.normal(size=(2, 5)) + 0.2 * rng.normal(size=(3000, 5))).argmax(1)
    model = SparseClassifier(penalty=penalty, random_state=0).fit(X, y)
    assert model.coef_.shape == (len(model.classes_), 30) and model.score(X, y) > 0.6
    if penalty == "row-group":
        assert np.flatnonzero(model.get_support()).tolist() == [0, 1]
    if penalty == "trace":
        assert np.linalg.matrix_rank(model.coef_) < len(model.classes_)
    assert type(model.report_["penalty"]).__name__ in ("RowGroup", "TraceNorm", "NonNegative")
    name = {"row-group": "RDA", "trace": "BatchRDA", "nonnegative": "NFTRL"}[penalty]
    for l1_ratio in (1.0, 0.5):
        chosen = SparseClassifier(penalty=penalty, l1_ratio=l1_ratio, alpha=0.02, max_iter=1).fit(X, y)
        assert type(chosen.report_["optimizer"]).__name__ == name
        assert chosen.report_["lam"] == pytest.approx(0.02 * l1_ratio)


@pytest.mark.parametrize("penalty", ["row-group", "trace", "nonnegative"])
def test_automatic_alpha_is_a_share_of_what_selects_nothing(penalty):
    X, Y = outputs(900)
    lam = SparseRegressor(penalty=penalty, max_iter=1).fit(X, Y).report_["lam"] / 0.05
    G = X.T @ (Y - Y.mean(0)) / 900
    norm = {"row-group": np.linalg.norm(G, axis=1).max(), "trace": np.linalg.norm(G, 2), "nonnegative": G.max()}
    assert lam == pytest.approx(norm[penalty])
    with pytest.warns(UserWarning, match="no feature was selected"):
        assert SparseRegressor(penalty=penalty, alpha=1.01 * lam, random_state=0).fit(X, Y).n_nonzero_ == 0
    assert SparseRegressor(penalty=penalty, alpha=0.9 * lam, random_state=0).fit(X, Y).n_nonzero_ > 0


def test_refused_penalties():
    X, Y = outputs(100)
    for own, words in (
        ({"penalty": "rowgroup"}, "did you mean 'row-group'"),
        ({"penalty": RowGroup}, "call it"),
        ({"penalty": RowGroup(0.1), "alpha": 0.1}, "carries its own strength"),
        ({"penalty": "trace", "feature_weights": np.ones(20)}, "feature_weights"),
        ({"penalty": "trace", "optimizer": "nftrl"}, "NFTRL cannot handle TraceNorm"),
        ({"penalty": GroupL1(0.1, np.zeros(3, int))}, "20 whole numbers"),
    ):
        with pytest.raises(ValueError, match=words):
            SparseRegressor(**own).fit(X, Y)
        with pytest.raises(ValueError, match=words):
            SparseRegressor(**own).partial_fit(X, Y)
