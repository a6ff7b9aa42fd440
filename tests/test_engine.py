"""The driver: compiled = plain, chunked = whole, long gaps, exact ties, conversions that differ, refusals."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
import warnings
from typing import NamedTuple

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from strategies import Stream, vanishing
from test_lazy import (
    CONVERSIONS,
    LOSSES,
    OPTIMIZERS,
    PENALTIES,
    PRODUCT,
    RULES,
    assert_same,
    converted,
    dense,
    learn,
    sensible,
    suited,
)

from sparsco import SparseClassifier, StableSparseClassifier, conversions, optimizers, steps
from sparsco.data.rows import as_matrix
from sparsco.engine.run import Run
from sparsco.jit.dispatch import plain_python
from sparsco.losses import Logistic, Squared
from sparsco.parts.contracts import Loss, part
from sparsco.penalties import ElasticNet
from sparsco.problem.state import Iterates, tracks
from sparsco.problem.targets import Classes


def stream(n=300, d=6, classify=True, seed=0, density=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    y = X @ np.linspace(1.0, -1.0, d) + 0.5 * rng.normal(size=n)
    return Stream(X, np.where(y > 0.0, 1.0, -1.0) if classify else y, None)


ROUNDED = ("threshold", "top-k")


def covering():
    """Every optimizer with every conversion, the three basic losses and the penalties going round, out of step with
    both and each other; every other loss with every kind of kernel.

    A kernel is compiled for a loss and for what is watched: conversions that watch the same thing share a loss, so that
    an optimizer is compiled four times and not twelve.
    """
    losses_ = ("logistic", "squared", "hinge")
    for i, optimizer in enumerate(OPTIMIZERS):
        for j, conversion in enumerate(CONVERSIONS):
            watched = CONVERSIONS[conversion](10).watch(LOSSES["squared"]) if conversion not in ROUNDED else Iterates()
            loss, penalty = losses_[(i + tracks(watched)) % 3], ("l1", "elastic-net")[(i + j // 2) % 2]
            if conversion.endswith("diagonal") and loss == "hinge":
                loss = "squared"
            if not sensible(optimizer, "auto", penalty):
                penalty = "elastic-net" if penalty == "l1" else "l1"
            yield optimizer, conversion, loss, penalty, False, (i + j) % 2 == 0
    for optimizer, conversion in itertools.product(OPTIMIZERS, ("last", "average")):
        penalty = "l1" if sensible(optimizer, "auto", "l1") else "elastic-net"
        yield optimizer, conversion, "logistic", penalty, True, True
    for i, loss in enumerate(name for name in LOSSES if name not in losses_):
        for j, optimizer in enumerate(("fobos", "sgd", "rda", "ftrl", "nftrl")):
            curved = "average-sl-diagonal" if LOSSES[loss].curved else "average-sl"
            conversion, penalty = (curved, "last", "optimal-sl")[(i + j) % 3], ("l1", "elastic-net")[j % 2]
            yield optimizer, conversion, loss, penalty, False, True


def test_the_covering_set_covers():
    """Every pair of optimizer, conversion, basic loss and penalty that makes sense is compiled somewhere."""
    rows = [case[:4] for case in covering() if case[2] in ("logistic", "squared", "hinge")]
    for a, b in itertools.combinations(range(4), 2):
        met = {(row[a], row[b]) for row in rows}
        possible = set(itertools.product({row[a] for row in rows}, {row[b] for row in rows}))
        senseless = {
            (optimizer, penalty)
            for optimizer, penalty in itertools.product(OPTIMIZERS, ("l1", "elastic-net"))
            if not sensible(optimizer, "auto", penalty)
        }
        assert possible - met <= senseless | {("average-sl-diagonal", "hinge")}


@pytest.mark.parametrize(("optimizer", "conversion", "loss", "penalty", "weighted", "intercept"), list(covering()))
def test_compiled_equals_plain_python(optimizer, conversion, loss, penalty, weighted, intercept):
    data = suited(loss, stream(n=200, classify=False))
    pen = np.array([0.0, 0.5, 1.0, 2.0, 1.0, 1.0]) if weighted else None
    method = OPTIMIZERS[optimizer][1], CONVERSIONS[conversion](200)
    args = (data, loss, *method, PENALTIES[penalty], None, intercept, pen)
    compiled, _ = learn(*args)
    with plain_python():
        plain, _ = learn(*args)
    scale = max(np.abs(plain.w).max(), 1e-3)
    np.testing.assert_allclose(compiled.w, plain.w, rtol=0.0, atol=1e-11 * scale)
    np.testing.assert_allclose(compiled.b, plain.b, rtol=0.0, atol=1e-11 * max(scale, abs(plain.b[0])))
    visible = np.abs(plain.w) > 1e-11 * scale
    assert np.array_equal(compiled.w[visible] != 0.0, plain.w[visible] != 0.0)


def check_all(data, optimizer, conversions_, penalty, rule):
    """As ``check``, for several conversions of one long trace."""
    name, record, constants = OPTIMIZERS[optimizer]
    runs = [
        learn(data, "logistic", record, CONVERSIONS[each](len(data.X)), penalty, RULES[rule], True)
        for each in conversions_
    ]
    trace, rows = dense(data, "logistic", name, constants, penalty, rule, True, runs[0][1])
    full = trace(np.arange(len(data.X)))
    scale = max(np.abs(full.w).max(), np.abs(full.b).max())
    for each, (answer, _) in zip(conversions_, runs, strict=True):
        assert_same(answer, converted(each, lambda _: full, rows, "logistic", penalty, None, True), scale)


@pytest.mark.parametrize(("optimizer", "kind"), [case for case in PRODUCT if case[1] != "extreme"])
def test_features_that_vanish(optimizer, kind):
    """100,000 idle steps: across windows, settlings and decays."""
    rho = 0.0 if kind == "l1" else 0.003
    data = vanishing(100_000, d=3, classify=True)
    check_all(data, optimizer, ["last", "average", "suffix", "average-sl"], (2e-5, rho), "auto")


def test_constant_steps_decay_through_many_settlings():
    data = vanishing(20_000, d=3, classify=True)
    check_all(data, "fobos", ["last", "average", "weighted", "suffix", "average-sl"], (1e-4, 0.05), "constant")


@pytest.mark.parametrize("optimizer", ["fobos", "rda", "ftrl", "nftrl"])
def test_exact_ties_in_dyadic_numbers(optimizer):
    """|v| equal to the shrinkage, to the bit: dead, and with sum zero from that step on."""
    X = np.zeros((12, 2))
    X[0, 0], X[1:, 1] = 1.0, 0.5
    y = np.ones(12)
    data = Stream(X, y, None)
    # hinge, step 1/4, lam 1/16: w_0 goes to 1/4 - 1/64, then falls by 1/64 in each idle step and dies at a tie
    record = {"fobos": optimizers.FOBOS()}.get(optimizer, OPTIMIZERS[optimizer][1])
    for conversion in ("last", "average"):
        rule = steps.Constant(0.25)
        answer, run = learn(data, "hinge", record, CONVERSIONS[conversion](12), (0.0625, 0.0), rule, False)
        name, _, constants = OPTIMIZERS[optimizer]
        if name == "rda":
            L = run.pilot.L_mean
            constants = {"beta": L, "gamma": L / 10.0, "gamma_b": L / 10.0}
        trace = reference.iterates(
            X, y, optimizer=name, loss="hinge", lam=0.0625, rho=0.0, eta=np.full(12, 0.25), intercept=False, **constants
        )
        expected = reference.last(trace) if conversion == "last" else reference.average(trace)
        np.testing.assert_allclose(answer.w[:, 0], expected.w, rtol=0.0, atol=1e-15 if name == "fobos" else 1e-12)
        assert np.array_equal(answer.w[:, 0] != 0.0, expected.w != 0.0)


@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.parametrize(
    "optimizer", ["fobos", "rda", "nftrl", "adagrad-fobos", "truncated", "epoch-gd", "orda", "ssg"]
)
def test_any_cut_gives_the_same_bits(optimizer, conversion):
    data = stream(n=1700, d=12, seed=1)
    record = OPTIMIZERS[optimizer][1]
    whole = None
    for cuts in ((), (1,), (999, 1000, 1001), tuple(range(0, 1700, 97)), (64, 128, 1024)):
        X, y, _ = data
        run = Run(LOSSES["logistic"], ElasticNet(0.01, 0.05), record, CONVERSIONS[conversion](1700), d=12)
        for a, b in itertools.pairwise([0, *cuts, 1700]):
            run.feed(as_matrix(X[a:b]), y[a:b])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                run.finish()  # reading changes nothing
            run = pickle.loads(pickle.dumps(run))
        answer = run.finish()
        if whole is None:
            whole = answer
        assert np.array_equal(whole.w, answer.w) and np.array_equal(whole.b, answer.b)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("conversion", ["last", "suffix", "average-sl-diagonal"])
def test_lanes_equal_single_models(optimizer, conversion):
    rng = np.random.default_rng(5)
    n, d, k = 400, 10, 3
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    codes = rng.integers(0, k, size=n).astype(float)
    X[np.arange(n), codes.astype(int)] += 1.0
    signs = 2.0 * np.eye(k) - 1.0
    weights = np.array([[1.0, 2.0, 1.0], [1.0, 0.5, 1.0], [2.0, 1.0, 1.0]])
    rule = steps.Constant(0.1)
    record = OPTIMIZERS[optimizer][1]
    rho = 0.0 if sensible(optimizer, "auto", "l1") else 0.1
    if optimizer.startswith("rda"):
        record = record._replace(gamma=0.5, beta=1.0, bias_gamma=0.5)
    if optimizer.startswith("adagrad"):
        record = record._replace(eta=0.5, delta=1.0)
    if optimizer == "epoch-gd":
        rule = steps.Halving(T1=20, eta1=0.1)
    if optimizer.startswith(("orda", "ssg")):
        record = record._replace(gamma=3.0, c0=0.05)

    def answer(targets):
        run = Run(Logistic(), ElasticNet(0.02, rho), record, CONVERSIONS[conversion](n), rule, d=d, targets=targets)
        run.feed(as_matrix(X), codes)
        run.begin()
        return run.finish()

    together = answer(Classes(signs, weights))
    assert together.w.shape == (d, k)
    for q in range(k):
        alone = answer(Classes(signs[:, [q]], weights[:, [q]]))
        np.testing.assert_allclose(together.w[:, q], alone.w[:, 0], rtol=0.0, atol=1e-12)
        assert np.array_equal(together.w[:, q] != 0.0, alone.w[:, 0] != 0.0)
        assert together.b[q] == pytest.approx(alone.b[0], abs=1e-12)


def test_conversions_differ_from_the_last_iterate():
    data = stream(n=300)
    last = learn(data, "logistic", optimizers.FOBOS(), conversions.Last(), (0.02, 0.1), None, True)[0]
    answers = {"last": last.w}
    for name, make in CONVERSIONS.items():
        if name == "last":
            continue
        answers[name] = learn(data, "logistic", optimizers.FOBOS(), make(300), (0.02, 0.1), None, True)[0].w
        assert not np.allclose(answers[name], last.w, atol=1e-6), name
    assert not np.allclose(answers["average"], answers["weighted"], atol=1e-6)
    assert not np.allclose(answers["average"], answers["suffix"], atol=1e-6)


@pytest.mark.parametrize("optimizer", ["fobos", "ftrl", "nftrl"])
def test_the_iterate_at_some_features_is_that_of_all(optimizer, monkeypatch):
    """In NumPy, and by the kernel that reads many of them."""
    X, y, _ = stream()
    run = Run(Logistic(), ElasticNet(0.02), OPTIMIZERS[optimizer][1], conversions.Last(), d=6)
    run.feed(as_matrix(X), y)
    run.begin()
    some, (w, b) = np.array([5, 0, 5, 3]), run.weights()
    assert 0 < np.count_nonzero(w) and w[some].any()
    for few in (1 << 12, 1):
        monkeypatch.setattr("sparsco.engine.run._WORTH_COMPILING", few)
        at, bias = run.weights_at(some)
        np.testing.assert_allclose(at, w[some], rtol=1e-14, atol=0.0)
        assert np.array_equal(bias, b)


@pytest.mark.parametrize("T", [None, 300])
def test_random_iterate_is_one_of_the_window(T):
    data = stream(n=300)
    drawn = set()
    for seed in range(12):
        drawing = conversions.RandomIterate(0.5, T)
        run = Run(Logistic(), ElasticNet(0.02, 0.1), optimizers.FOBOS(), drawing, d=6, seed=seed)
        run.feed(as_matrix(data.X), data.y)
        run.begin()
        answer = run.finish()
        t = answer.report["iterate"]
        assert (129 if T is None else 151) <= t <= 300
        before = Run(Logistic(), ElasticNet(0.02, 0.1), optimizers.FOBOS(), conversions.Last(), d=6)
        before.feed(as_matrix(data.X), data.y)
        before._resolve(as_matrix(data.X), data.y, np.ones(300))
        before._advance(as_matrix(data.X), data.y, np.ones(300), np.arange(t - 1))
        assert np.array_equal(before.weights()[0], answer.w)
        drawn.add(t)
    assert len(drawn) > 6


@part(Loss)
class Cubic(NamedTuple):
    """A user's loss, |p - y|^3 / 3: not the library's, so never in the disk cache."""

    scale: float = 1.0
    classifies = False
    smoothness = 1.0
    curved = True

    def value(loss, p, y):
        return loss.scale * np.abs(p - y) ** 3 / 3.0

    def derivative(loss, p, y):
        def scaled(a):  # closures are compiled too, though the library itself does without
            return loss.scale * a

        return scaled(p - y) * abs(p - y)

    def curvature(loss, p, y):
        return loss.scale * 2.0 * abs(p - y)


def test_a_users_loss_compiles_into_the_kernels():
    data = stream(n=200, classify=False)
    LOSSES["cubic"] = Cubic(1)
    try:
        args = (data, "cubic", optimizers.FOBOS(), conversions.Average(), (0.01, 0.1), steps.Constant(0.01), True)
        compiled, _ = learn(*args)
        assert optimizers.FOBOS().learn.uncached.signatures
        with plain_python():
            plain, _ = learn(*args)
    finally:
        del LOSSES["cubic"]
    np.testing.assert_allclose(compiled.w, plain.w, atol=1e-13)


def test_a_second_call_compiles_nothing():
    kernel = optimizers.FOBOS().learn.cached
    data = stream(n=50)
    for lam in (0.01, 1, np.float32(0.5)):
        learn(data, "logistic", optimizers.FOBOS(), conversions.Last(), (lam, 0), None, True)
        first = len(kernel.signatures) if lam == 0.01 else first  # noqa: F821
        assert len(kernel.signatures) == first


def test_the_next_process_takes_kernels_from_the_cache(tmp_path):
    code = """
import numpy as np
from sparsco import Run, Logistic, L1, FOBOS
from sparsco.data.rows import as_matrix
run = Run(Logistic(), L1(0.1), FOBOS(), d=3)
run.feed(as_matrix(np.eye(3)), np.ones(3))
run.begin()
stats = run.optimizer.learn.cached.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    counts = [
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert counts == [["0", "1"], ["1", "0"]]


def test_refusals():
    with pytest.raises(ValueError, match="l2_in"):
        learn(stream(20), "logistic", optimizers.FOBOS(l2_in="middle"), conversions.Last(), (0.1, 0.1), None, True)
    with pytest.raises(ValueError, match=r"times rho .* at least 1"):
        gradient = optimizers.FOBOS(l2_in="gradient")
        learn(stream(20), "logistic", gradient, conversions.Last(), (0.1, 2.0), steps.Constant(1.0), True)
    with pytest.raises(ValueError, match="rho > 0"):
        learn(stream(20), "logistic", optimizers.FOBOS(), conversions.Last(), (0.1, 0.0), steps.StronglyConvex(), True)
    for conversion, words in (
        (conversions.Suffix(alpha=0.0), "alpha"),
        (conversions.Suffix(T=0), "length of the stream"),
        (conversions.AverageSL(metric="best"), "metric"),
        (conversions.AverageSL(L=-1.0), "positive"),
        (conversions.TopK(0), "at least one"),
        (conversions.TopK(2.5), "whole number"),
        (conversions.TopK(2, conversions.Threshold(0.1)), "another conversion"),
        (conversions.LastSL(last_factor=2.0), "needs a number L"),
        (conversions.LastSL(L=1.0, last_factor=-1.0), "positive"),
        (conversions.Threshold(-1.0), "at least 0"),
        (conversions.Average(power=-1.0), "power"),
    ):
        with pytest.raises(ValueError, match=words):
            Run(Squared(), ElasticNet(0.1), optimizers.FOBOS(), conversion, d=3)


def test_step_rules_are_positive():
    with pytest.raises(ValueError, match="example 1"):
        learn(stream(20), "logistic", optimizers.FOBOS(), conversions.Last(), (0.1, 0.0), steps.Constant(0.0), True)
    assert RULES["constant"].sizes(5, 3).tolist() == [0.25] * 3


def test_a_selection_that_has_not_settled_is_said_to():
    """Many noise features, a guard that returns the last iterate: the user hears that the support still shrinks."""
    run = Run(Logistic(), ElasticNet(0.02, 0.0), optimizers.NFTRL(), conversions.AverageSL(), d=6)
    run.seen, run.history = 5000, [{"t": 1000, "objective": 1.0, "nonzeros": 100}]
    with pytest.warns(UserWarning, match="still lost features, 100 after 1000 examples and 4 after 5000"):
        conversions._warn_if_shrinking(run, np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        conversions._warn_if_shrinking(run, np.ones(90))


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, bool])
@pytest.mark.parametrize("zeros", [0.0, 0.4, 1.0])
def test_dense_rows_become_csr(kind, zeros):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((7, 5)) < zeros, 0, 1 + rng.integers(0, 9, (7, 5))).astype(kind)
    frozen = X.copy()
    frozen.flags.writeable = False
    for form in (X, np.asfortranarray(X), X[::-1][::-1], frozen, X[:0], X[:, :0]):
        rows = as_matrix(form)
        assert rows.data.dtype == (np.float32 if kind is np.float32 else np.float64) and rows.data.all()
        assert [part.dtype for part in rows[:2]] == [np.int64, np.uint32] and rows.data.flags.writeable
        assert np.array_equal(rows.to_scipy().toarray(), form)


@settings(deadline=None)
@given(st.integers(0, 6), st.lists(st.integers(0, 6), max_size=9), st.booleans())
def test_rows_are_taken_in_any_order(first, order, in_a_row):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((7, 5)) < 0.5, 0.0, rng.normal(size=(7, 5)))
    order = np.arange(first, min(first + len(order), 7)) if in_a_row else np.array(order, np.int64)
    rows = as_matrix(sp.csr_array(X))
    taken = rows.take(order)
    assert np.array_equal(taken.to_scipy().toarray(), X[order]) and taken.indptr[0] == 0 and taken.d == 5
    assert not any(np.shares_memory(own, part) for own, part in zip(taken[:3], rows[:3], strict=True))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "model", [SparseClassifier(alpha=0.01, random_state=0), StableSparseClassifier(2, random_state=0)],
    ids=["stream", "stable"],
)  # fmt: skip
def test_rows_may_be_overwritten_after_they_were_learned(model, sparse):
    """As a loop does that fills one array again and again; the first 1000 rows are only collected."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 6))
    y = (X[:, 0] > X[:, 1]).astype(int)
    kept, reused = clone(model), clone(model)
    for i in range(0, 1500, 100):
        rows, labels = X[i : i + 100].copy(), y[i : i + 100].copy()
        rows = sp.csr_array(rows) if sparse else rows
        kept.partial_fit(rows.copy(), labels.copy(), classes=[0, 1])
        reused.partial_fit(rows, labels, classes=[0, 1])
        (rows.data if sparse else rows)[:] = 7.0
        labels[:] = 0
    assert np.array_equal(kept.coef_, reused.coef_) and kept.coef_.any()
