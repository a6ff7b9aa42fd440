"""The driver: what conversions return, user's losses, the compile cache across processes, refusals."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sparsco import SparseClassifier, StableSparseClassifier, conversions, optimizers, steps
from sparsco.conversions import sparse_learning
from sparsco.data.rows import as_matrix
from sparsco.engine.run import Run
from sparsco.jit.dispatch import plain_python
from sparsco.losses import Logistic, Squared
from sparsco.parts.contracts import Loss, part
from sparsco.penalties import ElasticNet
from support.cases import (
    CONVERSIONS,
    LOSSES,
    OPTIMIZERS,
    RULES,
    learn,
    stream,
)


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
        monkeypatch.setattr("sparsco.engine.iterates.WORTH_COMPILING", few)
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
        before._get_ready()
        before.learn(as_matrix(data.X), data.y, np.ones(300), np.arange(t - 1))
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
from sparsco.engine import Run
from sparsco.losses import Logistic
from sparsco.optimizers import FOBOS
from sparsco.penalties import L1
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
        sparse_learning._warn_if_shrinking(run, np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sparse_learning._warn_if_shrinking(run, np.ones(90))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "model",
    [SparseClassifier(alpha=0.01, random_state=0), StableSparseClassifier(2, random_state=0)],
    ids=["stream", "stable"],
)
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
