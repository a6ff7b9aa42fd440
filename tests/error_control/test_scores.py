"""Scores of stability paths: against the formulas written again, feature by feature and strength by strength."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from sparsco.error_control.scores import LIMITS, StabilityPaths, Target, bound, measure_of, q_values

PAIRS, LIMIT = 5, 0.05


def paths_of(counts, strengths=None, delta=1.0, judged=None):
    """Return the paths of some counts of halves, (strengths, features)."""
    counts = np.asarray(counts)
    strengths = 0.5 ** np.arange(len(counts)) if strengths is None else strengths
    sizes = counts.sum(1) / (2.0 * PAIRS)
    p = counts.shape[1] if judged is None else judged
    return StabilityPaths(strengths, sp.csr_array(counts.astype(np.int32)), sizes, PAIRS, p, delta, LIMIT).with_ladder()


def efp_by_hand(counts, strengths, delta, p):
    """Return the expected false positives of each feature, by loops over strengths and features."""
    B, used, total, integral = PAIRS, 0, 0.0, 0.0
    for k, lam in enumerate(strengths):
        q, mass = sum(counts[k]) / (2.0 * B), lam ** (1.0 - delta)
        b = q**2 / (p * B) + (B - 1) * q**4 / (B * p**3)
        if (integral + mass * b) / (total + mass) > LIMIT:
            break
        integral, total, used = integral + mass * b, total + mass, k + 1
    mu = [strengths[k] ** (1.0 - delta) / total for k in range(used)]
    scores = []
    for j in range(len(counts[0])):
        shares = [counts[k][j] / (2.0 * B) for k in range(used)]
        scores.append(sum(m * max(2.0 * share - 1.0, 0.0) ** 2 for m, share in zip(mu, shares, strict=True)))
    sure = [j for j, score in enumerate(scores) if score > 0.5]
    levels = []
    for k in range(used):
        others = sum(counts[k][j] for j in range(len(scores)) if j not in sure) / (2.0 * B) / max(p - len(sure), 1)
        levels.append(math.sqrt(2.0) * norm.isf(0.5 * min(max(others, 1e-300), 1.0)))

    def score_at(z):
        shares = (norm.sf(c - z) + norm.sf(c + z) for c in levels)
        return sum(m * max(2.0 * share - 1.0, 0.0) ** 2 for m, share in zip(mu, shares, strict=True))

    found = []
    for score in scores:
        if score <= 0.0:
            found.append(float(p))
            continue
        z = brentq(lambda z, score=score: score_at(z) - score, 0.0, 60.0) if score < score_at(60.0) else 60.0
        found.append(min(max(integral / total / score, 2.0 * p * norm.sf(z)), float(p)))
    return np.array(found)


def q_by_hand(efp, p):
    """Return the q-values by their definition, among features that have a score."""
    ladder = [t for t in efp if t < p]
    found = []
    for each in efp:
        shares = [min(t / sum(s <= t for s in ladder), 1.0) for t in ladder if t >= each]
        found.append(min(shares, default=1.0))
    return np.array(found)


@given(
    st.integers(1, 6).flatmap(
        lambda k: st.lists(st.lists(st.integers(0, 2 * PAIRS), min_size=k, max_size=k), min_size=1, max_size=5)
    ),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.integers(0, 200),
)
def test_scores_equal_their_formulas(counts, delta, more):
    counts, p = np.array(counts), len(counts[0]) + more
    paths = paths_of(counts, delta=delta, judged=p)
    efp = paths.expected_false_positives()
    expected = efp_by_hand(counts.tolist(), paths.strengths.tolist(), delta, p)
    assert np.allclose(efp, expected, rtol=1e-2, atol=1e-12)  # Z is on a grid
    assert np.allclose(paths.q_values(), q_by_hand(efp.tolist(), p), rtol=1e-12)
    assert np.isclose(paths.measure.sum(), 1.0) or not len(paths.measure)


def test_a_feature_that_all_halves_select_is_more_stable_than_one_that_few_select():
    paths = paths_of([[10, 0, 0] + 97 * [0], [10, 8, 0] + 97 * [0], [10, 9, 5] + 97 * [0]])
    efp = paths.expected_false_positives()
    assert efp[0] < efp[1] < efp[2] == 100.0  # five of ten halves are no evidence
    assert (np.diff(paths.q_values()[[0, 1, 2]]) >= 0.0).all()


def test_the_range_of_strengths_ends_before_the_integral_exceeds_its_limit():
    sizes = np.array([0.0, 1.0, 10.0, 60.0])
    mu = measure_of(0.5 ** np.arange(4.0), sizes, 100, 50, 1.0, LIMIT)
    b = bound(sizes, 100, 50)
    assert len(mu) == 3 and (mu * b[:3]).sum() <= LIMIT < b.mean()
    assert len(measure_of(np.ones(1), np.array([100.0]), 100, 50, 1.0, LIMIT)) == 0  # the first strength selects all


def test_q_values_grow_with_expected_false_positives():
    rng = np.random.default_rng(0)
    efp = np.round(rng.exponential(size=200), 1) + 0.1  # with ties
    q = q_values(efp, np.sort(efp))
    order = np.argsort(efp, kind="stable")
    assert (np.diff(q[order]) >= 0.0).all()
    for t in np.unique(efp):
        assert np.ptp(q[efp == t]) == 0.0


@pytest.mark.parametrize("target", [Target(0.1, None), Target(None, 1.0), Target(0.5, None)])
def test_a_selection_has_all_features_that_are_at_least_as_stable(target):
    rng = np.random.default_rng(1)
    counts = np.sort(rng.poisson(0.02, (6, 1000)), axis=0)
    counts[2:, :4], counts[4:, 4:8] = 10, 8
    paths = paths_of(counts, 0.8 ** np.arange(6.0))
    found, efp = target.selected(paths), paths.expected_false_positives()
    assert 4 <= len(found) < 1000
    assert efp[found].max() < np.delete(efp, found).min()
    if target.efp is not None:
        assert efp[found].max() <= target.efp
    else:
        assert efp[found].max() / len(found) <= target.fdr


def test_paths_of_some_features_keep_their_scores():
    counts = np.zeros((3, 50), int)
    counts[:, 3], counts[1:, 7], counts[2, 20] = 10, 9, 8
    paths = paths_of(counts)
    some = np.array([7, 3])
    assert np.array_equal(paths.at(some).expected_false_positives(), paths.expected_false_positives()[some])
    assert np.array_equal(paths.at(some).q_values(), paths.q_values()[some])
    assert paths.probabilities()[[3, 7, 20, 0]].tolist() == [1.0, 0.9, 0.8, 0.0]


def test_the_limit_of_the_integral_serves_the_target():
    share = Target(0.1, None)
    assert share.limit(1) == share.limit(4) == LIMITS[0]  # one feature must be able to pass
    assert LIMITS[0] < share.limit(16) < Target(0.2, None).limit(16) <= share.limit(900) == LIMITS[1]
    assert Target(None, 1.0).limit(3) == Target(None, 1.0).limit(300) == 0.1


def test_chance_is_that_of_a_normal_model():
    """Columns that do not matter, drawn by the model: as many have a score as is expected."""
    rng = np.random.default_rng(0)
    p, pairs, levels = 100_000, 300, np.array([2.6, 2.2, 1.9])
    Z = rng.standard_normal(p)
    counts = np.zeros((3, p), np.int32)
    for _ in range(pairs):
        W = rng.standard_normal(p)
        for half in ((Z + W) / np.sqrt(2.0), (Z - W) / np.sqrt(2.0)):
            counts += np.abs(half) > levels[:, None]
    sizes = counts.sum(1) / (2.0 * pairs)
    paths = StabilityPaths(0.9 ** np.arange(3.0), sp.csr_array(counts), sizes, pairs, p, 1.0, 1e9).with_ladder()
    assert len(paths.measure) == 3
    efp = paths._by_chance(paths.scores())
    for promised in (50.0, 200.0, 600.0):
        assert abs((efp <= promised).sum() / promised - 1.0) < 5.0 / np.sqrt(promised) + 0.1
