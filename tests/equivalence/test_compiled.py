"""Compiled = plain Python, chunked = whole, lanes = single models; long gaps and exact ties in compiled kernels."""

from __future__ import annotations

import itertools
import pickle
import warnings
from contextlib import nullcontext

import numpy as np
import pytest

from sparsco import optimizers, steps
from sparsco.data.rows import as_matrix
from sparsco.engine.run import Run
from sparsco.jit.dispatch import plain_python
from sparsco.losses import Logistic
from sparsco.penalties import ElasticNet
from sparsco.problem.targets import Classes
from support import LONG, reference
from support.cases import (
    CONVERSIONS,
    LOSSES,
    OPTIMIZERS,
    PENALTIES,
    PRODUCT,
    RULES,
    assert_same,
    converted,
    covering,
    dense,
    learn,
    sensible,
    stream,
    suited,
)
from support.strategies import Stream, vanishing


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
    data = suited(loss, stream(n=120, classify=False))
    pen = np.array([0.0, 0.5, 1.0, 2.0, 1.0, 1.0]) if weighted else None
    method = OPTIMIZERS[optimizer][1], CONVERSIONS[conversion](120)
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


LAZY = "fobos", "sgd", "rda", "nftrl", "adagrad-fobos", "orda"
"""One optimizer for each closed form of idle weights."""


@pytest.mark.parametrize(("optimizer", "kind"), [case for case in PRODUCT if case[1] != "extreme"])
def test_features_that_vanish(optimizer, kind, monkeypatch):
    """Tens of thousands of idle steps: across windows, decays, and two settlings (the first is after 16,384 steps).

    Optimizers that share the closed form of another are settled after 2,048 steps, on a shorter stream.
    """
    rho = 0.0 if kind == "l1" else 0.003
    gap, conversions_ = 100_000, ["last", "average", "suffix", "average-sl"]
    if not LONG:
        gap = 33_000 if optimizer in LAZY else 4_200
        if {"l1", "elastic-net"} <= {other for name, other in PRODUCT if name == optimizer}:
            turn = (list(OPTIMIZERS).index(optimizer) + (kind == "l1")) % 2  # every conversion with one of the two
            conversions_ = [["last", "average-sl"], ["average", "suffix"]][turn]
    if gap < 1 << 14:
        monkeypatch.setattr("sparsco.engine.run.block_end", lambda start: start + max(start, 1 << 11))
    data = vanishing(gap, d=3, classify=True)
    check_all(data, optimizer, conversions_, (2e-5, rho), "auto")


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
    for cuts in ((), (1,), (999, 1000, 1001), tuple(range(0, 1700, 193)), (64, 128, 1024)):
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
    n, d, k = 200, 10, 3
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

    # compiled, what is watched makes another kernel: the one that watches curvatures has in it all that the others have
    with nullcontext() if LONG or conversion == "average-sl-diagonal" else plain_python():
        together = answer(Classes(signs, weights))
        single = [answer(Classes(signs[:, [q]], weights[:, [q]])) for q in range(k)]
    assert together.w.shape == (d, k)
    for q, alone in enumerate(single):
        np.testing.assert_allclose(together.w[:, q], alone.w[:, 0], rtol=0.0, atol=1e-12)
        assert np.array_equal(together.w[:, q] != 0.0, alone.w[:, 0] != 0.0)
        assert together.b[q] == pytest.approx(alone.b[0], abs=1e-12)
