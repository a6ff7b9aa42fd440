"""The strategies reach what they promise: every structure the bars name does occur."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from support import LONG
from support.strategies import chunks, penalties, streams, vanishing

QUIET = settings(
    database=None,
    derandomize=True,
    max_examples=2000,
    suppress_health_check=list(HealthCheck),
    deadline=None,
    phases=[Phase.generate],  # finding is enough
)


def duplicates(s):
    return any((s.X[i] == s.X[i - 1]).all() and s.X[i].any() and s.y[i] == s.y[i - 1] for i in range(1, len(s.X)))


def vanishes(s):
    seen = s.X != 0.0
    return len(s.X) > 20 and bool((seen[:10].any(axis=0) & ~seen[10:].any(axis=0) & seen[10:].any()).any())


STRUCTURES = {
    "no rows": lambda s: len(s.X) == 0,
    "rows beyond the first window": lambda s: len(s.X) > 64,
    "one feature": lambda s: s.X.shape[1] == 1,
    "8 features": lambda s: s.X.shape[1] == 8,
    "an empty row among others": lambda s: s.X.any() and not s.X.any(axis=1).all(),
    "a row twice in a run": duplicates,
    "a feature that vanishes": vanishes,
    "dense": lambda s: len(s.X) > 5 and (s.X != 0.0).all(),
    "no weights": lambda s: s.weights is None,
    "a row of weight zero": lambda s: s.weights is not None and (s.weights == 0.0).any() and s.weights.any(),
}


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("dyadic", [False, True])
def test_every_structure_occurs(structure, dyadic):
    find(streams(dyadic=dyadic), STRUCTURES[structure], settings=QUIET)


@given(st.booleans().flatmap(lambda c: st.tuples(st.just(c), streams(classify=c, dyadic=True))))
@settings(QUIET, max_examples=50)
def test_dyadic_streams_add_exactly(drawn):
    classify, stream = drawn
    scaled = stream.X * 64.0
    assert (scaled == np.rint(scaled)).all() and np.abs(scaled).max(initial=0.0) < 2**12
    assert (stream.y * 512.0 == np.rint(stream.y * 512.0)).all()
    assert not classify or np.isin(stream.y, (-1.0, 1.0)).all()
    assert len(stream.X) == len(stream.y) and (stream.weights is None or len(stream.weights) == len(stream.y))


@pytest.mark.parametrize("dyadic", [False, True])
def test_penalties_occur(dyadic):
    for wanted in (
        lambda p: p.lam == 0.0 and p.rho == 0.0,
        lambda p: p.lam >= 64.0,
        lambda p: p.rho > 0.0 and p.pen is not None and 0.0 in p.pen and 2.0 in p.pen,
    ):
        find(penalties(3, dyadic=dyadic), wanted, settings=QUIET)
    assert find(penalties(1, elastic=True), lambda p: True, settings=QUIET).rho > 0.0
    assert find(penalties(1, elastic=False), lambda p: True, settings=QUIET).rho == 0.0


@given(st.integers(0, 80).flatmap(lambda n: st.tuples(st.just(n), chunks(n))))
@settings(QUIET, max_examples=50)
def test_chunks_cover_the_rows_once(drawn):
    n, cut = drawn
    assert [i for piece in cut for i in range(n)[piece]] == list(range(n))


def test_an_empty_chunk_occurs():
    find(chunks(10), lambda cut: any(piece.start == piece.stop for piece in cut) and len(cut) > 2, settings=QUIET)


def test_long_streams_meet_the_boundaries():
    for n in 129, 193, 257:
        find(streams(max_rows=300), lambda s, n=n: len(s.X) == n, settings=QUIET)
    assert len(find(streams(min_rows=3, max_rows=5), lambda s: True, settings=QUIET).X) in (3, 4, 5)


def test_vanishing():
    stream = vanishing(gap=1000)
    assert not stream.X[50:-50, 1:].any() and stream.X[:50, 1:].any() and stream.X[-50:, 1:].any()
    assert stream.X[50:-50, 0].any() and len(stream.X) == 1100


def test_examples_are_the_same_in_every_run_unless_new_ones_are_asked_for(pytestconfig):
    asked = pytestconfig.getoption("--hypothesis-profile") or ("new" if LONG else "fixed")
    assert settings().derandomize == (asked == "fixed") and settings().database is None
