"""Old examples that fade: lazy = dense for every discounted kernel, any cut gives the same bits."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparsco import conversions, losses, optimizers
from sparsco.conversions.fading_sample import FadingReservoir
from sparsco.data.randomness import Purpose, bits
from sparsco.data.rows import as_matrix
from sparsco.engine.run import Run
from sparsco.jit.dispatch import plain_python
from sparsco.penalties import ElasticNet
from sparsco.problem.fading import LONGEST_GAP
from support import cases, number_of_streams
from support.cases import (
    LOG_LINKS,
    LOSSES,
    PENALTIES,
    RULES,
    Fading,
    check,
    check_unless_chaotic,
    learn,
    sensible,
    suited,
)
from support.strategies import Stream, streams

OPTIMIZERS = "nftrl", "nftrl-own-clock", "ftrl", "ftrl-own-clock", "fobos", "fobos-gradient", "rda", "rda-enhanced"
CONVERSIONS = "last", "average", "weighted", "suffix", "suffix-T", "average-sl", "average-sl-diagonal", "last-sl"


@st.composite
def fadings(draw, n):
    """Half-lives from one row to longer than the stream; rows one by one, at equal times, and after gaps.

    All rows together take less than 900 half-lives.  A weight without a penalty is a quotient of two sums, which both
    fall below the smallest float 1,022 half-lives after its feature was seen: no two ways to compute it agree.
    """
    steps = draw(st.lists(st.sampled_from([1.0, 0.0, 0.5, 3.0, 40.0]), min_size=1, max_size=6))
    gaps = np.resize(steps, n) if draw(st.booleans()) else np.ones(n)
    half_life = draw(st.sampled_from([20.0, 1.0, 3.0, 100.0, 1000.0]))
    if np.minimum(gaps / half_life, LONGEST_GAP).sum() > 900.0:
        gaps = np.minimum(gaps, 4.0 * half_life)
    return Fading(half_life, 7.0 + np.cumsum(gaps))


def draw_case(data, optimizer, conversion, lattice):
    kinds = [kind for kind in ("l1", "elastic-net", "l2", "none", "huge") if sensible(optimizer, "auto", kind)]
    penalty = data.draw(st.sampled_from(kinds))
    if "-sl" in conversion and "ftrl" in optimizer:
        penalty = data.draw(st.sampled_from(["l1", "none"]))  # sums of gradients need a closed form: see test_refusals
    loss = data.draw(st.sampled_from(sorted(LOSSES)))
    rule = data.draw(st.sampled_from([rule for rule in RULES if sensible(optimizer, rule, penalty)]))
    if conversion.endswith("diagonal") and not LOSSES[loss].curved:
        loss = "logistic"
    if loss in LOG_LINKS and ("nftrl" not in optimizer or penalty == "huge"):
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
@settings(max_examples=number_of_streams(2), deadline=None, suppress_health_check=list(HealthCheck))
def test_plain_python_equals_dense(optimizer, conversion, data):
    case = draw_case(data, optimizer, conversion, data.draw(st.booleans()))
    with plain_python():
        check_unless_chaotic(*case)


@pytest.mark.parametrize("optimizer", ["nftrl", "ftrl"])
def test_a_weight_is_forgotten_where_floats_end(optimizer):
    """One without a penalty is kept for 800 half-lives after its last row.  After 1,600 it may be smaller, no more."""
    X, none = np.zeros((105, 2)), PENALTIES["none"]
    X[:5, 0], X[5:, 1] = [1.0, -2.0, 0.5, 1.0, 2.0], 1.0
    name, record, constants = cases.OPTIMIZERS[optimizer]
    stream, fading = Stream(X, X @ [1.0, 2.0], None), Fading(1.0, LONGEST_GAP * np.arange(105.0))
    first, early = Stream(X[:55], stream.y[:55], None), Fading(1.0, fading.times[:55])
    check(first, "squared", optimizer, "last", none, "auto", False, fading=early)
    answer, run = learn(stream, "squared", record, conversions.Last(), none, None, False, fading=fading)
    trace, _ = cases.dense(stream, "squared", name, constants, none, "auto", False, run, fading=fading)
    assert 0.0 <= answer.w[0, 0] <= (1.0 + 1e-12) * trace(np.arange(105)).w[50, 0]


COMPILED = [
    ("nftrl", "average-sl-diagonal", "l1", False),
    ("nftrl", "average-sl-diagonal", "l1", True),
    ("nftrl-own-clock", "last", "elastic-net", False),
    ("fobos", "average-sl-diagonal", "elastic-net", False),
    ("rda", "average-sl-diagonal", "l1", False),
]


@pytest.mark.parametrize(("optimizer", "conversion", "penalty", "weighted"), COMPILED)
@given(data=st.data())
@settings(max_examples=number_of_streams(10), deadline=None, suppress_health_check=list(HealthCheck))
def test_compiled_lattice_rows(optimizer, conversion, penalty, weighted, data):
    """Ties, half of the time; with feature weights it is the kernel of several lanes, without one that of SIMD."""
    stream = suited("logistic", data.draw(streams(dyadic=True, min_rows=4, max_rows=200, max_features=6)))
    if stream.weights is not None and not stream.weights.any():
        stream = stream._replace(weights=None)
    n, d = stream.X.shape
    pen = np.resize([1.0, 0.5, 2.0], d) if weighted else None
    lam = data.draw(st.sampled_from([0.0625, 0.25, 0.02]))
    cuts, fading = data.draw(st.lists(st.integers(0, n), max_size=2)), data.draw(fadings(n))
    rho = PENALTIES[penalty][1]
    check_unless_chaotic(stream, "logistic", optimizer, conversion, (lam, rho), "auto", True, pen, cuts, fading)


def run_of(n, half_life, times=None, cuts=(), d=6, loss=None, penalty=None, single=False, lams=None, seed=0):
    """A run of NFTRL with sums over rows of which each block has a feature of its own, and its answer."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.4)
    y = np.where(X @ np.linspace(1.0, -1.0, d) + rng.normal(size=n) > 0.0, 1.0, -1.0)
    times = np.arange(float(n)) if times is None else times
    conversion = conversions.Last() if lams is not None else conversions.AverageSL()
    run = Run(
        losses.Logistic(),
        penalty or ElasticNet(0.01, 0.0),
        optimizers.NFTRL(),
        conversion,
        d=d,
        half_life=half_life,
        lams=lams,
        single=single,
    )
    for a, b in itertools.pairwise([0, *cuts, n]):
        run.feed(as_matrix(X[a:b]), y[a:b], times=times[a:b])
        run = pickle.loads(pickle.dumps(run))
    return run, run.finish()


@pytest.mark.parametrize("half_life", [7.0, 300.0])
def test_any_cut_gives_the_same_bits(half_life):
    """Sums are divided by their unit, after 128 half-lives, and rows leave the sample; at every cut is a pickle."""
    times = np.cumsum(np.resize([1.0, 0.0, 2.5, 1.0], 4000))
    times[2500:] += 200.0 * half_life
    _, whole = run_of(4000, half_life, times)
    for cuts in ([1], [999, 1000, 1001, 2500], list(range(50, 4000, 331))):
        _, cut = run_of(4000, half_life, times, cuts)
        assert np.array_equal(cut.w, whole.w) and np.array_equal(cut.b, whole.b)
        assert cut.report == whole.report


def test_no_sum_overflows_however_long_a_feature_is_idle():
    """One feature is seen at the beginning only: it counts 2^-4000 at the end."""
    X, times = np.ones((4000, 2)), np.arange(4000.0)
    X[10:, 1] = 0.0
    y = np.where(np.arange(4000) % 3 == 0, 1.0, -1.0)
    for penalty in (ElasticNet(0.0, 0.0), ElasticNet(0.01, 0.0), ElasticNet(0.0, 0.1)):
        for optimizer in (optimizers.NFTRL(), optimizers.NFTRL(per_feature_clock=True), optimizers.RDA()):
            run = Run(losses.Logistic(), penalty, optimizer, d=2, half_life=1.0)
            with np.errstate(all="raise", under="ignore"):
                run.feed(as_matrix(X), y, times=times)
            answer = run.finish()
            assert np.isfinite(answer.w).all() and np.isfinite(answer.b).all()
            assert penalty.lam == 0.0 or answer.w[1, 0] == 0.0


def test_lanes_in_float32_are_close():
    lams = np.array([0.1, 0.01, 0.001])
    _, double = run_of(3000, 20.0, lams=lams)
    _, single = run_of(3000, 20.0, lams=lams, single=True)
    assert np.abs(double.w).max() > 0.5
    np.testing.assert_allclose(single.w, double.w, atol=1e-4)


def test_the_sample_is_that_of_all_rows_at_once():
    """The slow twin: priorities of all rows, sorted."""
    n, half_life = 3000, 100.0
    run, _ = run_of(n, half_life, cuts=[500, 1700])
    rows, kappa = run.sample().R, run.sample().kappa
    ages = (n - 1.0 - np.arange(n)) / half_life
    u = (bits(0, Purpose.RESERVOIR, np.arange(n)) >> np.uint64(11)).astype(float) * 2.0**-53 + 2.0**-54
    kept = np.flatnonzero(u < 2.0 * 2.0**-ages)
    assert np.array_equal(rows.numbers, kept) and kappa == 1.0
    counts = np.maximum(2.0 ** -ages[kept], 0.5)
    np.testing.assert_allclose(rows.weights[:, 0], counts / counts.mean(), rtol=1e-9)
    assert 200 < len(kept) < 300


def test_a_sample_without_room_keeps_recent_rows_and_its_sums_are_right_in_the_mean():
    n, half_life, found = 4000, 1000.0, []
    w = 2.0 ** -((n - 1.0 - np.arange(n)) / half_life)
    for seed in range(200):
        sample = FadingReservoir(half_life, seed, 1, 300)
        for a, b in ((0, 1500), (1500, 1510), (1510, n)):
            each = np.arange(b - a)
            sample.offer(each, each + 1, np.zeros(b - a, np.uint32), np.ones(b - a), _ones, np.arange(float(a), b))
        R, _, kappa = sample.sample()
        assert len(R.numbers) == 300 and R.weights.mean() == pytest.approx(1.0)
        found.append((R.numbers * R.weights[:, 0]).mean())
        assert 0.1 < kappa < 0.2  # 300 of the 2443 rows of a sample with room
    assert np.mean(found) == pytest.approx((w * np.arange(n)).sum() / w.sum(), abs=4.0 * np.std(found) / 200**0.5)


def _ones(kept):
    return np.ones((len(kept), 1)), np.ones((len(kept), 1))
