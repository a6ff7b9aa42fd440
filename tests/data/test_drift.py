"""The drift test against the same test on all losses, and what it finds and leaves alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsco.data import drift
from sparsco.data.drift import LEAST_RISE, LEVEL, DriftTest
from sparsco.training import archive
from support import number_of_streams


def groups(seed, n, level=1.0, size=256):
    rng = np.random.default_rng(seed)
    return [rng.exponential(level, size) for _ in range(n)]


def slow(every, largest, looks, cuts):
    """Return the most significant rise at these cuts (in groups), from the losses themselves; None if there is none."""
    losses = [np.minimum(each, largest) for each in every]
    whole = np.concatenate(losses)
    found = []
    for cut in cuts:
        before, behind = np.concatenate(losses[:cut]), np.concatenate(losses[cut:])
        n, m = len(before), len(behind)
        log = np.log(len(cuts) * looks * (looks + 1) / LEVEL)
        chance = np.sqrt(2 * whole.var() * (1 / m + 1 / n) * log) + 2 * largest * log / (3 * min(m, n))
        rise = behind.mean() - before.mean()
        if rise > max(chance, LEAST_RISE * before.mean()):
            found.append((rise / chance, m))
    return max(found)[1] if found else None


@settings(max_examples=number_of_streams(30), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(5, 60), st.sampled_from([1.0, 1.3, 2.0, 4.0]), st.booleans())
def test_sums_that_are_merged_give_the_test_on_all_losses(seed, n, level, is_lattice):
    every = groups(seed, n, size=64) + groups(seed + 1, n, level, size=64)
    every = [np.round(each) for each in every] if is_lattice else every
    test, since = DriftTest(), []
    for each in every:
        was_known, looks = test.largest, test.looks
        found = test.add(each)
        since.append(each)
        if test.looks == looks:
            continue
        largest = was_known or drift._largest(np.concatenate(since))
        if test.sizes:  # the cuts are where sums end
            assert sum(test.sizes) == len(since) and sorted(test.sizes, reverse=True) == test.sizes
            cuts = [cut for cut in np.cumsum(test.sizes)[:-1].tolist() if cut >= 4]
            assert found is None and (not cuts or slow(since, largest, test.looks, cuts) is None)
        else:
            if found is not None:
                cut = len(since) - found.rows // 64
                before, behind = np.concatenate(since[:cut]), np.concatenate(since[cut:])
                assert found.rows_before == len(before) and slow(since, largest, test.looks, [cut]) == found.rows
                assert found.loss == pytest.approx(behind.mean()) and found.loss_before == pytest.approx(before.mean())
            since = []


def test_memory_grows_with_the_logarithm_and_streams_without_a_change_cause_no_alarm():
    for seed in range(3):
        test = DriftTest()
        assert not any(test.add(each) for each in groups(seed, 4000))
        assert len(test.sizes) < 80


@pytest.mark.parametrize(("level", "most"), [(1.2, 20), (1.5, 4), (2.0, 2)])
def test_a_rise_is_found_soon_and_told_once(level, most):
    test = DriftTest()
    found = [(k, each) for k, losses in enumerate(groups(0, 500) + groups(1, 500, level)) if (each := test.add(losses))]
    assert len(found) == 1 and 500 <= found[0][0] < 500 + most
    assert found[0][1].loss == pytest.approx(level, rel=0.2) and found[0][1].loss_before == pytest.approx(1.0, rel=0.05)


def test_falls_small_rises_and_outliers_are_no_drift():
    for more in (groups(1, 500, 0.5), groups(1, 500, 1.03), [np.append(each[1:], 1e9) for each in groups(1, 500)]):
        test = DriftTest()
        assert not any(test.add(each) for each in groups(0, 500) + more)


def test_losses_of_zero_and_empty_groups():
    test = DriftTest()
    assert not any(test.add(np.zeros(256)) for _ in range(20)) and test.add(np.zeros(0)) is None
    assert any(test.add(np.ones(256)) for _ in range(3))


def test_a_test_goes_on_from_a_file(tmp_path):
    one, parts = DriftTest(), groups(0, 30) + groups(1, 30, 1.5)
    for each in parts[:33]:
        one.add(each)
    archive.write(tmp_path / "t", "checkpoint", {"test": one})
    other = archive.read(tmp_path / "t", "checkpoint")["test"]
    assert [one.add(each) for each in parts[33:]] == [other.add(each) for each in parts[33:]]
    assert one.anew().looks == one.looks > 0 and not one.anew().sizes
