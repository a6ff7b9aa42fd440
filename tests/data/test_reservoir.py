"""Random numbers depend on seed, purpose and number only; the reservoir is a function of the rows seen."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsco.conversions.reservoir import Reservoir
from sparsco.data.randomness import Purpose, bits, uniform
from support import number_of_streams
from support.reservoirs import csr, lanes, offer


def same(one, other):
    return one.kappa == other.kappa and all(
        np.array_equal(a, b)
        for left, right in zip(one[:2], other[:2], strict=True)
        for a, b in zip(left, right, strict=True)
    )


def random_rows(seed, n, d=6, density=0.4, lanes=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    return X, rng.standard_normal((n, lanes))


# randomness


def test_uniform_depends_on_seed_purpose_and_number_only():
    numbers = np.arange(10_000)
    u = uniform(7, Purpose.RESERVOIR, numbers)
    assert np.array_equal(u[5000:], uniform(7, Purpose.RESERVOIR, numbers[5000:]))
    assert u.min() >= 0.0 and u.max() < 1.0
    others = [uniform(8, Purpose.RESERVOIR, numbers), uniform(7, Purpose.GUARD, numbers), np.roll(u, 1)]
    for other in others:  # 5 standard deviations of a correlation of independent draws
        assert abs(np.corrcoef(u, other)[0, 1]) < 0.05
    counts = np.histogram(u, 100, (0.0, 1.0))[0]
    assert ((counts - 100.0) ** 2 / 100.0).sum() < 99 + 5 * np.sqrt(2 * 99)


def test_bits_have_no_ties_and_accept_any_seed():
    for seed in (0, 1, 2**63, 2**64 + 5, -3):
        assert len(np.unique(bits(seed, 3, np.arange(20_000)))) == 20_000


# reservoir


@settings(max_examples=number_of_streams(60), deadline=None)
@given(
    seed=st.integers(0, 1000),
    n=st.integers(0, 120),
    budget=st.integers(1, 200),
    guard=st.integers(0, 30),
    cuts=st.lists(st.integers(0, 120), max_size=8),
)
def test_sample_follows_its_definition_however_the_stream_is_cut(seed, n, budget, guard, cuts):
    X, y = random_rows(seed, n)
    cuts = sorted(min(cut, n) for cut in cuts)
    new = {"seed": seed, "lanes": 2, "max_nonzeros": budget, "max_guard": guard}
    whole, cut, single = (offer(Reservoir(**new), X, y, c) for c in ((), cuts, range(1, n)))
    sample = whole.sample()
    assert same(sample, cut.sample()) and same(sample, single.sample())

    cost = np.maximum((X != 0).sum(1), 1)
    order = np.argsort(bits(seed, Purpose.RESERVOIR, np.arange(n)))
    in_r = order[: np.searchsorted(cost[order].cumsum(), budget, side="right")]
    rest = np.setdiff1d(np.arange(n), in_r)
    order = rest[np.argsort(bits(seed, Purpose.GUARD, rest))]
    in_v = order[: min(guard, np.searchsorted(cost[order].cumsum(), budget, side="right"))]
    for rows, expected in ((sample.R, np.sort(in_r)), (sample.V, np.sort(in_v))):
        assert np.array_equal(rows.numbers, expected)
        _, stops, indices, data = csr(X[expected])
        for got, wanted in zip(rows[:3], (np.append(0, stops), indices, data), strict=True):
            assert np.array_equal(got, wanted)
        assert np.array_equal(rows.targets, y[expected])
    assert sample.kappa == (in_r.size / n if n else 1.0)


@pytest.mark.parametrize("longest", [1, 6, 600])
@pytest.mark.parametrize("guard", [0, 30])
def test_many_rows_at_once_are_sampled_as_in_pieces(longest, guard):
    rng = np.random.default_rng(longest)
    lengths = np.where(rng.random(6000) < 0.01, longest, rng.integers(0, 3, 6000))  # the mean may mislead
    X = rng.standard_normal((6000, 600)) * (np.arange(600) < lengths[:, None])
    y = rng.standard_normal((6000, 2))
    whole, cut = (offer(Reservoir(1, 2, 900, guard), X, y, cuts) for cuts in ((), range(100, 6000, 100)))
    assert same(whole.sample(), cut.sample())
    for enough in (10, 10_000):
        few = whole.sample(enough)
        assert same(few, cut.sample(enough)) and len(few.R.numbers) == min(enough, len(whole.sample().R.numbers))
        assert not set(few.R.numbers) & set(few.V.numbers) and few.kappa == len(few.R.numbers) / 6000
    assert set(whole.sample(10).R.numbers) <= set(whole.sample().R.numbers)


def test_sample_changes_nothing_and_copies_are_independent():
    X, y = random_rows(0, 400)
    plain = offer(Reservoir(3, 2, 100, 20), X[:200], y[:200])
    twin, before = plain.copy(), plain.sample()
    restored = pickle.loads(pickle.dumps(plain))
    for r in (plain, restored):  # the twin stays behind
        r.offer(*csr(X[200:]), lanes(y[200:], np.ones_like(y[200:])))
    assert same(twin.sample(), before) and not same(plain.sample(), before)
    assert same(plain.sample(), restored.sample())
    twin.offer(*csr(X[200:]), lanes(y[200:], np.ones_like(y[200:])))
    assert same(plain.sample(), twin.sample())


def test_what_is_kept_is_copied():
    X, y = random_rows(0, 50)
    starts, stops, indices, data = csr(X)
    weights = np.ones_like(y)
    r = Reservoir(0, 2)
    r.offer(starts, stops, indices, data, lanes(y, weights))
    before = r.sample()
    for array in (indices, data, y, weights):
        array[:] = 0
    assert same(r.sample(), before) and before.R.data.all()
