"""Rows of integers, signs and halves make ties: every lazy kernel, compiled, against the dense recursion on them.

``SPARSCO_STREAMS=10000`` runs as many streams for each kernel.  The L1 ball (``test_two_stage``), other penalties than
the absolute value (``test_shrink_rates``) and individual iterates (``test_individual``) have theirs beside their
recursions.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support import number_of_streams
from support.cases import LOG_LINKS, OPTIMIZERS, check_unless_chaotic, covering, sensible, suited
from support.strategies import streams

STREAMS = number_of_streams(10)
CONVERSIONS = "last", "average", "average-sl"  # each watches something else; the kernels are those of test_compiled
CASES = [case for case in covering() if case[1] in CONVERSIONS]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@given(data=st.data())
@settings(max_examples=STREAMS, deadline=None, suppress_health_check=list(HealthCheck))
def test_lattice_rows(optimizer, data):
    """Steps and penalties are powers of two, where ties are exact, or not, where they are left to rounding."""
    cases = [case for case in CASES if case[0] == optimizer]
    _, conversion, loss, penalty, weighted, intercept = data.draw(st.sampled_from(cases))
    rules = [rule for rule in ("constant", "auto", "inv-t") if sensible(optimizer, rule, penalty)]
    if loss in ("huber", "squared-hinge", *LOG_LINKS):  # steps that overshoot make rounding errors grow
        rules = ["auto"]
    rule = data.draw(st.sampled_from(rules))
    lam = data.draw(st.sampled_from([0.0625, 0.25, 0.02, 1.0]))
    rho = 0.0 if penalty == "l1" else data.draw(st.sampled_from([0.25, 0.3]))
    stream = suited(loss, data.draw(streams(dyadic=True, min_rows=4, max_rows=40, max_features=6)))
    if stream.weights is not None and not stream.weights.any():
        stream = stream._replace(weights=None)
    d, n, pen = stream.X.shape[1], len(stream.X), None
    if weighted:
        pen = np.array(data.draw(st.lists(st.sampled_from([1.0, 0.0, 0.5, 2.0]), min_size=d, max_size=d)))
    cuts = data.draw(st.lists(st.integers(0, n), max_size=1))
    check_unless_chaotic(stream, loss, optimizer, conversion, (lam, rho), rule, intercept, pen, cuts)
