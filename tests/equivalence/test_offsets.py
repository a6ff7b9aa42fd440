"""Offsets in kernels: lazy = dense, compiled = plain Python, none = zeros, and the equivalent problems without them."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparsco.conversions import AverageSL, Last, OptimalSL
from sparsco.data.rows import as_matrix
from sparsco.engine import Run
from sparsco.jit.dispatch import plain_python
from sparsco.losses import Hinge, Logistic, Poisson, Tweedie
from sparsco.offsets import WithOffset, with_offset
from sparsco.optimizers import FOBOS, FTRL, NFTRL, RDA, BatchFOBOS, EpochSGD, MirrorDescent
from sparsco.penalties import ElasticNet, L1Ball
from sparsco.problem.targets import Classes, Repeated, Values
from sparsco.steps import Constant
from support import number_of_streams
from support.cases import LOSSES, OPTIMIZERS, PENALTIES, check_unless_chaotic, sensible, suited
from support.strategies import streams

SHIFTED = {f"{name}-offset": WithOffset(LOSSES[name]) for name in ("logistic", "hinge", "poisson")}


@pytest.mark.parametrize("conversion", ["last", "average", "average-sl-diagonal", "optimal-sl"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@given(data=st.data())
@settings(max_examples=number_of_streams(2), deadline=None, suppress_health_check=list(HealthCheck))
def test_lazy_equals_dense(optimizer, conversion, data):
    loss = "logistic" if conversion.endswith("diagonal") else data.draw(st.sampled_from(["logistic", "hinge"]))
    if OPTIMIZERS[optimizer][0] == "nftrl" and data.draw(st.booleans()):
        loss = "poisson"
    penalty = data.draw(st.sampled_from([p for p in ("l1", "elastic-net") if sensible(optimizer, "auto", p)]))
    stream = suited(loss, data.draw(streams(min_rows=4, max_rows=80, max_features=5)))
    if stream.weights is not None and not stream.weights.any():
        stream = stream._replace(weights=None)
    n = len(stream.X)
    offset = data.draw(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0, 0.3]), min_size=n, max_size=n))
    stream = stream._replace(y=with_offset(stream.y, np.array(offset)))
    cuts = data.draw(st.lists(st.integers(0, n), max_size=2))
    case = stream, f"{loss}-offset", optimizer, conversion, PENALTIES[penalty], "auto", data.draw(st.booleans())
    with mock.patch.dict(LOSSES, SHIFTED), plain_python():
        check_unless_chaotic(*case, None, cuts)


def rows(n=1300, d=7, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    offset = 0.5 * rng.normal(size=n)
    p = X @ np.linspace(0.6, -0.6, d) + offset
    return as_matrix(X), np.where(p + rng.logistic(size=n) > 0.0, 1.0, -1.0), rng.poisson(np.exp(p)) * 1.0, offset


def learned(run, matrix, y, weights=None):
    """The weights and intercepts of a run, learned in two pieces."""
    for part in (np.arange(700), np.arange(700, len(y))):
        run.feed(matrix, y, weights, part)
    return np.append(*run.weights())


KERNELS = {
    "one model, FOBOS": (FOBOS(), ElasticNet(0.01), {}),
    "one model, NFTRL": (NFTRL(), ElasticNet(0.01), {}),
    "lanes": (NFTRL(), ElasticNet(0.01), {"lams": np.array([0.1, 0.03, 0.01])}),
    "float32 lanes": (NFTRL(), ElasticNet(0.01), {"lams": np.array([0.1, 0.03, 0.01]), "single": True}),
    "ball": (EpochSGD(T1=16), L1Ball(2.0), {}),
    "mirror descent": (MirrorDescent(), ElasticNet(0.01), {}),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_compiled_equals_plain_python_and_zeros_are_none(kernel):
    optimizer, penalty, more = KERNELS[kernel]
    matrix, y, _, offset = rows()

    def run(loss):
        return Run(loss, penalty, optimizer, Last(), d=7, **more)

    found = learned(run(WithOffset(Logistic())), matrix, with_offset(y, offset))
    with plain_python():
        plain = learned(run(WithOffset(Logistic())), matrix, with_offset(y, offset))
    np.testing.assert_allclose(found, plain, rtol=0.0, atol=1e-5 if "single" in more else 1e-12)
    none = learned(run(Logistic()), matrix, y)
    assert np.array_equal(learned(run(WithOffset(Logistic())), matrix, with_offset(y, 0.0 * offset)), none)
    assert not np.array_equal(found, none)


@pytest.mark.parametrize(
    ("optimizer", "conversion", "step"),
    [
        (FTRL(0.3, 1.0), Last(), None),
        (FOBOS(), AverageSL(L=3.0), Constant(0.01)),
        (FOBOS(), OptimalSL(L=3.0), Constant(0.01)),
        (RDA(gamma=5.0, bias_gamma=5.0), Last(), None),
    ],
)
def test_the_poisson_loss_at_log_exposure_is_that_of_rates_with_weights(optimizer, conversion, step):
    matrix, _, counts, offset = rows(1100)
    exposure = np.exp(offset)

    def answer(loss, y, weights):
        run = Run(loss, ElasticNet(0.01), optimizer, conversion, step, d=7)
        learned(run, matrix, y, weights)
        return np.append(*run.finish()[:2])

    with plain_python():
        expected = answer(Poisson(), counts / exposure, exposure)
        found = answer(WithOffset(Poisson()), with_offset(counts, offset), None)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_mini_batches_take_offsets():
    matrix, _, counts, offset = rows()
    weights = Run(WithOffset(Poisson(3.0)), ElasticNet(0.01), BatchFOBOS(), d=7)
    twin = Run(Poisson(3.0), ElasticNet(0.01), BatchFOBOS(), d=7)
    found, none = learned(weights, matrix, with_offset(counts, 0.0 * offset)), learned(twin, matrix, counts)
    assert np.array_equal(found, none)
    shifted = Run(WithOffset(Poisson(3.0)), ElasticNet(0.01), BatchFOBOS(), d=7)
    assert not np.array_equal(learned(shifted, matrix, with_offset(counts, offset)), none)


@pytest.mark.parametrize("loss", [Logistic(), Hinge(), Poisson(), Tweedie(1.3)])
def test_a_loss_with_an_offset_is_the_loss_at_the_margin_plus_it(loss):
    rng = np.random.default_rng(0)
    p, offset = rng.normal(size=50), rng.normal(size=50)
    y = np.where(rng.normal(size=50) > 0.0, 1.0, -1.0) if loss.classifies else rng.integers(0, 5, 50) * 1.0
    shifted, records = WithOffset(loss), with_offset(y, offset)
    for name in ("value", "derivative", "curvature"):
        assert np.array_equal(getattr(shifted, name)(p, records), getattr(loss, name)(p + offset, y))
    c = loss.derivative(p + offset, y)
    np.testing.assert_allclose(shifted.conjugate(c, records), c * p - shifted.value(p, records), atol=1e-12)
    if loss.kinks is not None:
        assert np.array_equal(shifted.kinks(records), loss.kinks(y) - offset)


def test_targets_with_offsets_are_those_of_every_lane():
    y, offset, weights = np.array([1.0, 0.0, 1.0]), np.array([0.5, -2.0, 0.25]), np.ones(3)
    signs = np.array([[-1.0], [1.0]])
    for targets in (Values(), Classes(signs, np.ones_like(signs)), Repeated(Values(), 3)):
        plain, scaled = targets.encode(y, weights, 4)
        records, same = targets.encode(with_offset(y, offset), weights, 4)
        assert np.array_equal(scaled, same) and np.array_equal(records["y"], plain)
        assert np.array_equal(records["offset"].reshape(3, 4), np.tile(offset[:, None], 4))
