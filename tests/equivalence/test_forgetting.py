"""Old examples that fade: lazy = dense for every discounted kernel, any cut gives the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparsco.jit.dispatch import plain_python
from support import number_of_streams
from support.cases import LOSSES, PENALTIES, RULES, Fading, check_unless_chaotic, sensible, suited
from support.strategies import streams

OPTIMIZERS = "nftrl", "nftrl-own-clock", "ftrl", "ftrl-own-clock", "fobos", "fobos-gradient", "rda", "rda-enhanced"
CONVERSIONS = "last", "average", "weighted", "suffix", "suffix-T", "average-sl", "average-sl-diagonal", "last-sl"


@st.composite
def fadings(draw, n):
    """Half-lives from one row to longer than the stream; rows one by one, at equal times, and after gaps."""
    steps = draw(st.lists(st.sampled_from([1.0, 0.0, 0.5, 3.0, 40.0]), min_size=1, max_size=6))
    times = 7.0 + np.cumsum(np.resize(steps, n)) if draw(st.booleans()) else np.arange(float(n))
    return Fading(draw(st.sampled_from([20.0, 1.0, 3.0, 100.0, 1000.0])), times)


def draw_case(data, optimizer, conversion, lattice):
    kinds = [kind for kind in ("l1", "elastic-net", "l2", "none", "huge") if sensible(optimizer, "auto", kind)]
    penalty = data.draw(st.sampled_from(kinds))
    if "-sl" in conversion and "ftrl" in optimizer:
        penalty = data.draw(st.sampled_from(["l1", "none"]))  # sums of gradients need a closed form: see test_refusals
    loss = data.draw(st.sampled_from(sorted(LOSSES)))
    rule = data.draw(st.sampled_from([rule for rule in RULES if sensible(optimizer, rule, penalty)]))
    if conversion.endswith("diagonal") and not LOSSES[loss].curved:
        loss = "logistic"
    if loss == "poisson" and ("nftrl" not in optimizer or penalty == "huge"):
        loss = "huber"
    if loss in ("huber", "squared-hinge") and rule != "auto":
        loss = "logistic"
    stream = suited(loss, data.draw(streams(dyadic=lattice or None, min_rows=4, max_rows=200, max_features=5)))
    if stream.weights is not None and not np.any(stream.weights):
        stream = stream._replace(weights=None)
    n, d, pen = len(stream.X), stream.X.shape[1], None
    if data.draw(st.booleans()):
        pen = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=d, max_size=d)))
    cuts, intercept = data.draw(st.lists(st.integers(0, n), max_size=3)), data.draw(st.booleans())
    fading = data.draw(fadings(n))
    return stream, loss, optimizer, conversion, PENALTIES[penalty], rule, intercept, pen, cuts, fading


@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@given(data=st.data())
@settings(max_examples=number_of_streams(5), deadline=None, suppress_health_check=list(HealthCheck))
def test_plain_python_equals_dense(optimizer, conversion, data):
    case = draw_case(data, optimizer, conversion, data.draw(st.booleans()))
    with plain_python():
        check_unless_chaotic(*case)
