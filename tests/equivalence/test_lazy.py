"""Lazy = dense: every optimizer x conversion x penalty, in plain Python, on the streams that hypothesis draws.

``test_compiled`` runs a pairwise covering set of them compiled.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparsco.conversions import Average
from sparsco.data.rows import as_matrix
from sparsco.engine import Run
from sparsco.jit.dispatch import plain_python
from sparsco.losses import Squared
from sparsco.optimizers import SGD
from sparsco.penalties import ElasticNet
from support import number_of_streams
from support.cases import (
    CONVERSIONS,
    LOG_LINKS,
    LOSSES,
    OPTIMIZERS,
    PENALTIES,
    PRODUCT,
    RULES,
    check,
    check_unless_chaotic,
    sensible,
    stream,
    suited,
)
from support.strategies import Stream, streams


@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.parametrize(("optimizer", "kind"), PRODUCT)
@given(data=st.data())
@settings(max_examples=number_of_streams(3), deadline=None, suppress_health_check=list(HealthCheck))
def test_plain_python_equals_dense(optimizer, conversion, kind, data):
    """Every optimizer x conversion x penalty; loss, step rule, feature weights and stream are hypothesis' choice."""
    loss = data.draw(st.sampled_from(sorted(LOSSES)))
    penalty = kind
    if kind == "extreme":
        penalty = data.draw(st.sampled_from([p for p in ("l2", "none", "huge") if sensible(optimizer, "auto", p)]))
    rules = [rule for rule in RULES if sensible(optimizer, rule, penalty)]
    rule = data.draw(st.sampled_from(rules))
    if conversion.endswith("diagonal") and not LOSSES[loss].curved:
        loss = "logistic"
    if loss in LOG_LINKS and (OPTIMIZERS[optimizer][0] != "nftrl" or penalty == "huge"):
        loss = "huber"  # steps that do not adapt make exp(p) explode, and rounding errors with it
    if loss in ("quantile", "epsilon-insensitive") and OPTIMIZERS[optimizer][0] == "sgd":
        loss = "squared"  # slopes that cancel leave w = 0 up to rounding, and sgn(w) with a step of its own either way
    if loss in ("huber", "squared-hinge") and rule != "auto":
        loss = "logistic"  # steps that overshoot go astray without bound, or here in bounds, and rounding errors grow
    rows = suited(loss, data.draw(streams(min_rows=4, max_rows=200, max_features=5)))
    if rows.weights is not None and not np.any(rows.weights):
        rows = rows._replace(weights=None)
    n = len(rows.X)
    pen, d = None, rows.X.shape[1]
    if data.draw(st.booleans()):
        pen = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=d, max_size=d)))
    cuts = data.draw(st.lists(st.integers(0, n), max_size=3))
    intercept = data.draw(st.booleans())
    case = rows, loss, optimizer, conversion, PENALTIES[penalty], rule, intercept, pen, cuts
    with plain_python():
        check_unless_chaotic(*case)


@pytest.mark.parametrize("conversion", ["average", "weighted", "suffix", "average-sl"])
@pytest.mark.parametrize("lam", [1.0, 50.0, 1e3])
def test_sums_of_pulls_that_outweigh_the_weights(lam, conversion):
    """The sums' rounding errors grow with lam B SP, of all pulls so far: 5e-11 at lam = 50, whatever the weights."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(123, 1)) * (rng.random((123, 1)) < 0.5)
        rows = Stream(X, X[:, 0] + rng.normal(size=123), None)
        with plain_python():
            check(rows, "huber", "truncated", conversion, (lam, 0.3), "constant", False)


@pytest.mark.parametrize("conversion", ["average", "suffix", "average-sl"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("scale", [1e-6, 1e-8, 1e-12])
def test_units_of_the_features_lose_no_digits(scale, optimizer, conversion):
    """Small units make t0, Gamma or beta tiny, and a divisor of clock 0, at which no weight is born, huge.

    Targets are scaled so that weights have the same size in all units.
    """
    X, y, _ = stream(classify=False, n=120)
    rule = "uncapped" if optimizer in ("fobos", "sgd") else "auto"
    penalty = (0.02, 0.0) if optimizer in ("rda-enhanced", "truncated-theta") else (0.02, 0.3)
    with plain_python():
        check(Stream(scale * X, y / scale, None), "squared", optimizer, conversion, penalty, rule, False)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e-8])
def test_sgd_from_a_start_in_small_units(scale):
    """The average has the start as its first iterate; the next ones have nearly forgotten it if t0 is tiny.

    (With a t0 below the rounding of 1 + t0 the dense steps forget it all, and sgn(w) of what is left decides.)
    """
    X, y, _ = stream(classify=False, n=120)
    start, found = 10.0 * np.linspace(-1.0, 1.0, X.shape[1]), []
    for sweep in (False, True):
        parts = Squared(), ElasticNet(0.02, 0.3), SGD(sweep=sweep), Average(), RULES["uncapped"]
        run = Run(*parts, d=6, intercept=False, initial=(start[:, None], np.zeros(1)))
        run.feed(as_matrix(scale * X), y / scale)
        found.append(run.finish().w)
    np.testing.assert_allclose(*found, rtol=1e-10, atol=1e-12)
