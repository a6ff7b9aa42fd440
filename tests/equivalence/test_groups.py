"""Groups of features in lazy kernels: lazy = dense, compiled = plain Python, any cut, long gaps, lanes = single models.

The dense recursions are ``GroupFOBOS`` and ``GroupRDA`` of ``support.reference``.
"""

from __future__ import annotations

import itertools
import pickle
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from sparsco import conversions, optimizers, steps
from sparsco.data.rows import as_matrix
from sparsco.engine.run import DivergenceError, Run
from sparsco.jit.dispatch import plain_python
from sparsco.losses import Hinge, Logistic, Squared
from sparsco.penalties import ElasticNet, GroupL1
from sparsco.problem.targets import Values
from support import LONG, number_of_streams, reference
from support.cases import MATRIX_CONVERSIONS as CONVERSIONS
from support.cases import once_per_rows
from support.strategies import streams, vanishing

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

LOSSES = {"squared": Squared(), "logistic": Logistic(), "hinge": Hinge()}
OPTIMIZERS = {
    "fobos": optimizers.FOBOS(),
    "fobos-gradient": optimizers.FOBOS(l2_in="gradient"),
    "rda": optimizers.RDA(),
    "rda-enhanced": optimizers.RDA(r=0.01),
}


def learned(data, loss, record, optimizer, conversion, rule=None, intercept=True, cuts=()):
    """The library's answer, None where it diverged, and the run it came from."""
    X, Y, weights = data
    run = Run(
        LOSSES[loss],
        record,
        OPTIMIZERS[optimizer],
        CONVERSIONS[conversion],
        rule,
        d=X.shape[1],
        targets=Values(Y.shape[1]),
        intercept=intercept,
    )
    y = Y if Y.shape[1] > 1 else Y[:, 0]
    try:
        for a, b in itertools.pairwise([0, *sorted(cuts), len(X)]):
            run.feed(as_matrix(X[a:b]), y[a:b], None if weights is None else weights[a:b])
        run.begin()
        return run.finish(), run
    except DivergenceError:
        return None, run


def dense(data, loss, record, conversion, run, intercept):
    """The reference's answer, weights (d, m) and intercepts, and the size of its iterates."""
    rows = reference.kept_rows(*data)
    return converted(conversion, tracing(rows, loss, record, run, intercept), rows, LOSSES[loss], record, intercept)


def tracing(rows, loss, record, run, intercept):
    """A function from row numbers to the trace of the dense recursion over those rows."""
    X, Y, weights = rows
    lam, groups, rho, _ = record
    form, name, loss = run.optimizer, loss, LOSSES[loss]

    @once_per_rows
    def trace(rows):
        shape = X.shape[1], Y.shape[1]
        if form.uses_steps:
            eta = run.step.sizes(0, len(rows))
            if run.step.cap:
                smooth = loss.smoothness * weights[rows] * (np.square(X[rows]).sum(1) + intercept)
                with np.errstate(divide="ignore"):
                    eta = np.minimum(eta, 1.0 / (smooth + rho))
            A = reference.GroupFOBOS(shape, groups, lam, rho, eta, form.l2_in)
        else:
            A = reference.GroupRDA(shape, groups, lam, rho, form.rda.beta, form.rda.gamma, form.rda.r)
        return reference.matrix_iterates(
            A,
            X[rows],
            Y[rows],
            weights[rows, None],
            lambda p, y: reference.derivative(name, p, y),
            lambda p, y: reference.curvature(name, p, y),
            batch=1,
            intercept=intercept,
            limit=lambda rows: np.inf,
        )

    return trace


def converted(conversion, trace, rows, loss, record, intercept):
    """The answer of a conversion, and the size of the iterates, from the trace of the dense recursion."""
    lam, groups, rho, _ = record

    def prox(W, s):
        return reference.group_shrink(W, s * lam, groups)

    def coarsened(M):
        by_feature = M.max(1)
        return np.array([by_feature[groups == g].max() for g in groups])[:, None]

    answer, full = reference.matrix_answer(conversion, trace, rows, loss.derivative, prox, coarsened, rho, intercept)
    return answer, max(np.abs(full.W).max(initial=0.0), np.abs(full.b).max(), 1e-3)


def differs(answer, expected, scale, tolerance=1e-10):
    """Whether an answer is not the expected one, or has a zero elsewhere than where the expected one is tiny."""
    w, b = expected
    near = np.abs(answer.w - w).max(initial=0.0) <= tolerance * scale and np.all(
        np.abs(answer.b - b) <= tolerance * scale
    )
    visible = np.abs(w) > tolerance * scale
    return not near or not np.array_equal(answer.w[visible] != 0.0, w[visible] != 0.0)


def is_chaotic(data, case, expected, scale):
    """Whether rounding errors in the rows move the dense recursion itself by as much as is tolerated."""
    loss, record, conversion, run, intercept = case
    X, Y, weights = data
    rng = np.random.default_rng(0)
    for _ in range(8):
        moved = X * (1.0 + 2.0**-48 * rng.integers(-2, 3, size=X.shape))
        other, _ = dense((moved, Y, weights), loss, record, conversion, run, intercept)
        if any(np.abs(a - b).max(initial=0.0) > 1e-10 * scale for a, b in zip(other, expected, strict=True)):
            return True
    return False


@st.composite
def cases(draw, max_rows, dyadic=None, losses=tuple(LOSSES)):
    """A stream, a loss, groups of its features, and whatever else a run needs."""
    X, y, weights = draw(streams(dyadic=dyadic, min_rows=4, max_rows=max_rows, max_features=6))
    if weights is not None and not weights.any():
        weights = None
    d, m, loss = X.shape[1], draw(st.sampled_from([1, 1, 3])), draw(st.sampled_from(losses))
    Y = y[:, None] * np.array([1.0, -0.5, 0.25])[:m]
    if LOSSES[loss].classifies:
        Y = np.where(Y > 0.0, 1.0, -1.0)
    groups = np.array(draw(st.lists(st.integers(0, d - 1), min_size=d, max_size=d)))
    lam = draw(st.sampled_from([0.0625, 0.25, 1.0] if dyadic else [0.02, 0.0, 0.1, 0.5, 50.0]))
    rho = draw(st.sampled_from([0.0, 0.25] if dyadic else [0.0, 0.3]))
    cuts = draw(st.lists(st.integers(0, len(X)), max_size=3))
    return (X, Y, weights), loss, groups, lam, rho, draw(st.booleans()), cuts


def check(optimizer, conversion, case, rule=None):
    data, loss, groups, lam, rho, intercept, cuts = case
    if optimizer == "rda-enhanced":
        rho = 0.0
    if optimizer == "fobos-gradient" and rho > 0.0:
        rule = rule or steps.StronglyConvex(mu=rho)
    if conversion.endswith("diagonal") and loss == "hinge":
        conversion = "average-sl"
    record = GroupL1(lam, groups, rho)
    answer, run = learned(data, loss, record, optimizer, conversion, rule, intercept, cuts)
    expected, scale = dense(data, loss, record, conversion, run, intercept)
    if answer is None:  # the library refused to return this model: the dense recursion blew up, too
        (X, Y, weights), (W, b) = reference.kept_rows(*data), expected
        bad, zero = (np.sum(weights @ reference.value(loss, p, Y)) / len(X) for p in (X @ W + b, 0.0 * Y))
        norms = [np.linalg.norm(W[groups == g]) * np.sqrt(np.sum(groups == g)) for g in np.unique(groups)]
        assert not bad + lam * sum(norms) + rho / 2 * np.sum(W**2) < 999.0 * zero
    elif differs(answer, expected, scale):
        if is_chaotic(data, (loss, record, conversion, run, intercept), expected, scale):
            reject()
        np.testing.assert_allclose(answer.w, expected[0], rtol=0.0, atol=1e-10 * scale)
        raise AssertionError((answer, expected))


@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@given(case=cases(max_rows=200))
@settings(max_examples=number_of_streams(5), deadline=None, suppress_health_check=list(HealthCheck))
def test_plain_python_equals_dense(optimizer, conversion, case):
    with plain_python():
        check(optimizer, conversion, case)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@given(case=cases(max_rows=40, dyadic=True, losses=("squared",)), conversion=st.sampled_from(["last", "average"]))
@settings(max_examples=number_of_streams(15), deadline=None, suppress_health_check=list(HealthCheck))
def test_lattice_rows(optimizer, conversion, case):
    """Compiled, on rows of integers, signs and halves: steps and strengths that are powers of two make exact ties."""
    check(optimizer, conversion, case, steps.Constant(0.125) if optimizer == "fobos" else None)


def fixed(n=120, m=1, loss="squared", seed=0, d=7):
    """A stream of which three features vanish for a while, and the groups of its features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.4)
    X[n // 6 : n // 2, :3] = 0.0
    Y = X @ rng.normal(size=(d, m)) + 0.3 * rng.normal(size=(n, m))
    if LOSSES[loss].classifies:
        Y = np.where(Y > 0.0, 1.0, -1.0)
    return (X, Y, None), np.array([0, 1, 1, 3, 0, 3, 3])


COMPILED = [
    (optimizer, conversion, m, loss)
    for (optimizer, conversion), (m, loss) in zip(
        itertools.product(OPTIMIZERS, ["last", "average", "average-sl", "average-sl-diagonal"]),
        itertools.cycle([(1, "squared"), (3, "logistic"), (1, "logistic"), (3, "squared")]),
        strict=False,
    )
]


@pytest.mark.parametrize(("optimizer", "conversion", "m", "loss"), COMPILED)
def test_compiled_equals_plain_python(optimizer, conversion, m, loss):
    data, groups = fixed(m=m, loss=loss)
    record = GroupL1(0.05, groups, 0.0 if optimizer == "rda-enhanced" else 0.1)
    rule = steps.StronglyConvex(mu=0.1) if optimizer.startswith("fobos") else None
    args = data, loss, record, optimizer, conversion, rule
    compiled, _ = learned(*args)
    with plain_python():
        plain, _ = learned(*args)
    assert not differs(compiled, (plain.w, plain.b), max(np.abs(plain.w).max(), 1e-3), 1e-11)


@pytest.mark.parametrize("conversion", ["last", "weighted", "average-sl-diagonal", "last-sl", "optimal-sl"])
@pytest.mark.parametrize("optimizer", ["fobos", "rda"])
def test_any_cut_gives_the_same_bits(optimizer, conversion):
    """Chunks, pickles and readings of the model leave no trace."""
    (X, Y, _), groups = fixed(1100, loss="logistic")
    whole = None
    with nullcontext() if LONG else plain_python():
        for cuts in ((), (64, 999, 1000, 1001), tuple(range(0, 1100, 193))):
            run = Run(Logistic(), GroupL1(0.01, groups, 0.05), OPTIMIZERS[optimizer], CONVERSIONS[conversion], d=7)
            for a, b in itertools.pairwise([0, *cuts, 1100]):
                run.feed(as_matrix(X[a:b]), Y[a:b, 0])
                run.finish()
                run = pickle.loads(pickle.dumps(run))
            answer = run.finish()
            whole = whole or answer
            assert np.array_equal(whole.w, answer.w) and np.array_equal(whole.b, answer.b)


@pytest.mark.parametrize("rho", [0.0, 0.003])
@pytest.mark.parametrize("optimizer", ["fobos", "rda"])
def test_groups_that_vanish(optimizer, rho, monkeypatch):
    """Thousands of idle steps, across windows and settlings; groups that die in the meantime, and one that does not."""
    monkeypatch.setattr("sparsco.engine.run.block_end", lambda start: start + max(start, 1 << 10))
    X, y, _ = vanishing(2_200, d=6, classify=True)
    data, record = (X, y[:, None], None), GroupL1(2e-5, np.array([0, 1, 1, 2, 2, 0]), rho)
    trace, rows = None, reference.kept_rows(*data)
    for conversion in ("last", "average", "suffix", "average-sl"):
        answer, run = learned(data, "logistic", record, optimizer, conversion)
        trace = trace or tracing(rows, "logistic", record, run, True)
        expected, scale = converted(conversion, trace, rows, LOSSES["logistic"], record, True)
        assert not differs(answer, expected, scale)


def test_constant_steps_decay_through_many_settlings():
    """The product of decays starts again from 1 every 150 steps, in the middle of idle stretches."""
    data, groups = fixed(1500, loss="logistic")
    record, trace, rows = GroupL1(0.002, groups, 0.25), None, reference.kept_rows(*data)
    for conversion in ("last", "weighted", "average-sl"):
        answer, run = learned(data, "logistic", record, "fobos", conversion, steps.Constant(0.25))
        trace = trace or tracing(rows, "logistic", record, run, True)
        expected, scale = converted(conversion, trace, rows, LOSSES["logistic"], record, True)
        assert not differs(answer, expected, scale)


@pytest.mark.parametrize("optimizer", ["fobos", "rda"])
def test_groups_of_one_feature_are_the_l1_norm(optimizer):
    data, _ = fixed(300, loss="logistic")
    for conversion in ("last", "average-sl"):
        alone, _ = learned(data, "logistic", GroupL1(0.06, np.arange(7), 0.1), optimizer, conversion)
        plain, _ = learned(data, "logistic", ElasticNet(0.06, 0.1), optimizer, conversion)
        assert not differs(alone, (plain.w, plain.b), 1.0, 1e-12) and 0 < np.count_nonzero(plain.w) < 7


@pytest.mark.parametrize("optimizer", ["fobos", "rda"])
def test_late_features_are_refused(optimizer):
    run = Run(Squared(), GroupL1(0.1, np.zeros(2, int)), OPTIMIZERS[optimizer], d=2)
    run.feed(as_matrix(np.eye(2)), np.ones(2))
    with pytest.raises(ValueError, match="the penalty is made for 2 features"):
        run.grow(3)


@pytest.mark.parametrize("name", ["sgd", "nftrl", "ftrl", "adagrad-rda", "orda", "truncated-gradient"])
def test_others_refuse_groups(name):
    run = Run(Logistic(), GroupL1(0.1, np.zeros(2, int), 0.1), optimizers.OPTIMIZERS[name](), d=2)
    run.feed(as_matrix(np.eye(2)), np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match="has no form for GroupL1: choose optimizer='fobos' or 'rda'"):
        run.begin()


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_one_pass_ends_near_the_optimum(loss):
    """AverageSL of lazy iterates: the groups of the optimum, and its objective."""
    rng = np.random.default_rng(2)
    X, groups = rng.normal(size=(3000, 40)), np.arange(40) // 4
    truth = rng.normal(size=40) * (groups < 3)
    y = X @ truth + 0.5 * rng.normal(size=3000)
    y = np.where(y > 0.0, 1.0, -1.0) if loss == "logistic" else y
    record, part = GroupL1(0.05, groups), LOSSES[loss]
    L = 1.01 * part.smoothness * np.linalg.norm(np.c_[X, np.ones(3000)], 2) ** 2 / 3000
    w, b = np.zeros((40, 1)), 0.0
    for _ in range(2000):
        c = reference.derivative(loss, X @ w[:, 0] + b, y) / 3000
        w, b = reference.group_shrink(w - (X.T @ c)[:, None] / L, 0.05 / L, groups), b - c.sum() / L

    def objective(w, b):
        norms = np.sqrt(np.bincount(groups, w * w))
        return reference.value(loss, X @ w + b, y).mean() + 0.05 * 2.0 * norms.sum()

    for optimizer in ("fobos", "rda"):
        run = Run(part, record, OPTIMIZERS[optimizer], conversions.AverageSL(), d=40)
        run.feed(as_matrix(X), y)
        answer = run.finish()
        assert objective(answer.w[:, 0], answer.b[0]) <= 1.001 * objective(w[:, 0], b)
        assert set(groups[answer.w[:, 0] != 0.0]) == set(groups[w[:, 0] != 0.0]) == {0, 1, 2}


# ---- several strengths side by side ----------------------------------------------------------------------------------


@pytest.mark.parametrize("conversion", ["last", "average", "average-sl-diagonal", "average-sl-auto"])
@pytest.mark.parametrize("optimizer", ["fobos", "rda"])
def test_strengths_side_by_side_are_single_runs(optimizer, conversion):
    data, groups = fixed(300, loss="logistic")
    X, y, lams = as_matrix(data[0]), data[1][:, 0], np.array([0.2, 0.05, 0.01, 0.0, 5.0])
    how = conversions.AverageSL() if conversion == "average-sl-auto" else CONVERSIONS[conversion]
    rule = steps.InverseSqrt(0.5) if optimizer == "fobos" else None

    def answer(penalty, lams=None):
        run = Run(Logistic(), penalty, OPTIMIZERS[optimizer], how, rule, d=7, lams=lams)
        run.feed(X, y)
        return run.finish()

    with plain_python():
        together = answer(GroupL1(0.3, groups, 0.02), lams)
        for q, lam in enumerate(lams):
            alone = answer(GroupL1(lam, groups, 0.02))
            np.testing.assert_allclose(together.w[:, q], alone.w[:, 0], rtol=0.0, atol=1e-12)
            assert np.array_equal(together.w[:, q] != 0.0, alone.w[:, 0] != 0.0)
            assert together.b[q] == pytest.approx(alone.b[0], abs=1e-12)
    assert not together.w[:, -1].any() and together.w[:, 3].all()


def test_several_outputs_of_several_strengths_are_refused():
    with pytest.raises(ValueError, match="GroupL1 ties the 2 models of a strength together"):
        Run(Squared(), GroupL1(0.1, np.zeros(2, int)), optimizers.FOBOS(), d=2, targets=Values(2), lams=[0.1, 0.2])
