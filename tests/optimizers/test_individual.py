"""Mirror maps, mirror descent and individual iterates, against dense recursions that store every iterate."""

from __future__ import annotations

import copy
import pickle
import warnings
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from sparsco import DivergenceError, SparseClassifier, SparseRegressor, mirrors
from sparsco.conversions import OCMDI, SCMDI, Average, Last, Suffix
from sparsco.data.rows import as_matrix
from sparsco.engine import Run
from sparsco.jit.dispatch import plain_python
from sparsco.losses import Hinge, Squared
from sparsco.mirrors import Euclidean, PNorm, SparseKaczmarz
from sparsco.optimizers import FOBOS, RDA, SGD, MirrorDescent
from sparsco.parts.contracts import Loss, part
from sparsco.penalties import L1, Box, ElasticNet, GroupL1, NonNegative, RowGroup, WeightedElasticNet
from sparsco.steps import Constant, InverseSqrt, StronglyConvex
from support import number_of_streams

# ---- the dense twin: every iterate is stored, divergences are taken by their definition ------------------------------


def soft(v, s):
    return np.sign(v) * np.maximum(np.abs(v) - s, 0.0)


class Dense(NamedTuple):
    """A map by its definition: Psi, and w of v by minimising Psi(w) - <v, w>, in closed form."""

    name: str
    a: float = 0.0
    b: float = 0.0

    def value(self, w):
        if self.name == "euclidean":
            return 0.5 * np.sum(w**2)
        if self.name == "p-norm":
            return 0.5 * np.sum(np.abs(w) ** self.a) ** (2.0 / self.a)
        lam, eps = self.a, self.b
        corner = np.abs(w) if eps == 0.0 else np.where(np.abs(w) <= eps, w**2 / (2 * eps), np.abs(w) - eps / 2)
        return np.sum(0.5 * w**2 + lam * corner)

    def primal(self, v):
        if self.name == "euclidean":
            return v.copy()
        if self.name == "p-norm":
            q = self.a / (self.a - 1.0)
            norm = np.sum(np.abs(v) ** q) ** (1.0 / q)
            return np.sign(v) * np.abs(v) ** (q - 1.0) * norm ** (2.0 - q) if norm > 0.0 else 0.0 * v
        lam, eps = self.a, self.b
        return np.where(np.abs(v) <= lam + eps, v * eps / max(lam + eps, 1e-300), soft(v, lam))

    def composite(self, theta, s, shrink, least=-np.inf):
        """v of argmin_w Psi(w) - theta w + s |w| + shrink w^2 / 2 over w >= least, one coordinate at a time."""
        t = np.maximum(theta - s, 0.0) if least == 0.0 else soft(theta, s)
        if self.name != "kaczmarz" or shrink == 0.0:
            return t / (1.0 + shrink)
        lam, eps = self.a, self.b  # below, v(w) + shrink w = t: by pieces of v(w) = w + lam min(w / eps, 1)
        size = np.abs(t)
        beyond = lam + (size - lam) / (1.0 + shrink)
        inside = size if eps == 0.0 else size / (eps + lam + shrink * eps) * (eps + lam)
        return np.sign(t) * np.where(size <= lam + eps + shrink * eps, inside, beyond)

    def divergence(self, w, v):
        u = self.primal(v)
        return self.value(w) - self.value(u) - v @ (w - u)


MAPS = {
    "euclidean": (Euclidean(), Dense("euclidean")),
    "p-norm 1.2": (PNorm(1.2), Dense("p-norm", 1.2)),
    "p-norm 1.5": (PNorm(1.5), Dense("p-norm", 1.5)),
    "kaczmarz": (SparseKaczmarz(0.3), Dense("kaczmarz", 0.3, 0.0)),
    "kaczmarz, rounded": (SparseKaczmarz(0.3, 0.01), Dense("kaczmarz", 0.3, 0.01)),
}


class Stored(NamedTuple):
    w: np.ndarray
    b: np.ndarray
    v: np.ndarray


def iterates(
    dense, X, y, slope, eta, lam=0.0, rho=0.0, pen=1.0, l2_in="prox", intercept=True, start=None, least=-np.inf
):
    """w_1, ..., w_{n+1}."""
    d = X.shape[1]
    v, b = np.zeros(d) if start is None else start, 0.0
    stored = [(dense.primal(v), b, v)]
    for x, target, step in zip(X, y, eta, strict=True):
        c = slope(x @ stored[-1][0] + b, target)
        if l2_in == "prox":
            v = dense.composite(v - step * c * x, step * lam * pen, step * rho, least)
        else:
            v = soft((1.0 - step * rho) * v - step * c * x, step * lam * pen)
        b = b - step * c if intercept else b
        stored.append((dense.primal(v), b, v))
    return Stored(*(np.array(part) for part in zip(*stored, strict=True)))


class Chosen(NamedTuple):
    iterate: int
    differences: np.ndarray
    is_tied: bool


def choose(dense, stored, omega, T=None, least=False):
    """OCMDI as printed but for its line 17 (T None), or SCMDI: which iterate, and every difference."""
    n, differences, chosen, closest = len(stored.w) - 1, [], 0, np.inf

    def distance(w, b, t):  # of w_t, t from 1
        return dense.divergence(w, stored.v[t - 1]) + 0.5 * (b - stored.b[t - 1]) ** 2

    def average(count):
        share = omega[:count] / omega[:count].sum()
        return share @ stored.w[:count], share @ stored.b[:count]

    w_bar, b_bar, threshold, k = stored.w[0], stored.b[0], 0.0, 1
    if T is not None:
        w_bar, b_bar = average(T)
        threshold = np.inf if least else distance(w_bar, b_bar, T) / T
    for t in range(1 if T is None else T, n + 1):
        difference = distance(w_bar, b_bar, t) - distance(w_bar, b_bar, t + 1)
        differences.append(difference)
        rests = not stored.w[t - 1 : t + 1].any() and stored.b[t - 1] == stored.b[t]
        if difference != threshold or not rests:  # at rest both are exactly zero, and that is no tie
            closest = min(closest, abs(difference - threshold))
        if difference <= threshold:
            chosen = t
            threshold = difference if least else threshold
        if T is None and t == 2**k - 1:
            w_bar, b_bar = average(t + 1)
            k += 1
            threshold = 2.0 ** (1 - k) * distance(w_bar, b_bar, t + 1)
    return Chosen(chosen, np.array(differences), closest <= 1e-12)


def slope_squared(p, y):
    return p - y


def slope_hinge(p, y):
    return -y if y * p < 1.0 else 0.0


def draw(seed, n, d, density=0.6, on_lattice=False):
    """Rows and targets; on a lattice of half-integers ties occur."""
    rng = np.random.default_rng(seed)
    numbers = (lambda size: rng.integers(-2, 3, size) / 2.0) if on_lattice else rng.standard_normal
    X = numbers((n, d)) * (rng.random((n, d)) < density)
    return X, X @ np.where(np.arange(d) % 2, 0.0, 1.0) + (0.5 if on_lattice else 0.3) * numbers(n)


def learned(run, X, y, plain=False, cuts=()):
    with plain_python() if plain else nullcontext(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows in np.split(np.arange(len(X)), cuts):
            run.feed(as_matrix(X), y, order=rows)
        run.begin()
        return run.finish()


# ---- maps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAPS)
def test_maps_lead_there_and_back(name):
    mirror, dense = MAPS[name]
    rng = np.random.default_rng(0)
    for _ in range(20):
        v = rng.standard_normal(6) * (rng.random(6) < 0.7)
        w = mirrors.to_primal(mirror, v)
        np.testing.assert_allclose(w, dense.primal(v), rtol=1e-13, atol=1e-16)
        other = rng.standard_normal(6)
        assert mirrors.divergence(mirror, other, v) == pytest.approx(dense.divergence(other, v), abs=1e-12)
        assert mirrors.divergence(mirror, other, v) >= -1e-12
        np.testing.assert_allclose(mirrors.to_primal(mirror, mirrors.to_dual(mirror, w)), w, rtol=1e-12, atol=1e-15)


def test_a_divergence_is_zero_at_the_point_itself():
    for mirror, _ in MAPS.values():
        v = np.array([0.9, -0.5, 0.0, 2.0])
        assert mirrors.divergence(mirror, mirrors.to_primal(mirror, v), v) == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("p", [1.05, 1.2, 1.5, 2.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_p_norm_step_is_the_minimum_that_it_stands_for(p, seed):
    """argmin Psi(w) - <theta, w> + eta lam ||w||_1, by coordinate-wise minimisation until nothing moves."""
    rng = np.random.default_rng(seed)
    theta, strength = rng.standard_normal(4), 0.3
    step = mirrors.to_primal(PNorm(p), soft(theta, strength))

    def objective(w):
        return 0.5 * np.sum(np.abs(w) ** p) ** (2.0 / p) - theta @ w + strength * np.abs(w).sum()

    # the subgradient condition at the step, to 1e-9
    gradient = mirrors.to_dual(PNorm(p), step) - theta
    alive = step != 0.0
    assert np.abs(gradient + strength * np.sign(step))[alive].max(initial=0.0) < 1e-9
    assert (np.abs(gradient) <= strength + 1e-9)[~alive].all()
    # and a numerical minimiser along every coordinate and many directions finds nothing better
    for direction in [*np.eye(4), *rng.standard_normal((10, 4))]:
        along = minimize_scalar(
            lambda s, u=direction: objective(step + s * u), bounds=(-1, 1), method="bounded", options={"xatol": 1e-12}
        )
        assert objective(step) <= along.fun + 1e-12


# ---- individual iterates: the same choice as by storing everything ---------------------------------------------------

STREAMS = number_of_streams(150)
CASES = {  # map, lam, rho, where the L2 term is
    "euclidean": ("euclidean", 0.0, 0.0, "prox"),
    "euclidean, l1": ("euclidean", 0.1, 0.0, "prox"),
    "euclidean, elastic net": ("euclidean", 0.1, 0.2, "prox"),
    "euclidean, l2 in the gradient": ("euclidean", 0.05, 0.2, "gradient"),
    "p-norm 1.2, l1": ("p-norm 1.2", 0.05, 0.0, "prox"),
    "p-norm 1.5": ("p-norm 1.5", 0.0, 0.0, "prox"),
    "kaczmarz": ("kaczmarz", 0.0, 0.0, "prox"),
    "kaczmarz, rounded": ("kaczmarz, rounded", 0.0, 0.0, "prox"),
    "kaczmarz, l1": ("kaczmarz", 0.05, 0.0, "prox"),
    "kaczmarz, elastic net": ("kaczmarz", 0.05, 0.2, "prox"),
    "kaczmarz, rounded, elastic net": ("kaczmarz, rounded", 0.05, 0.2, "prox"),
}


def optimizer_of(mirror, l2_in):
    return FOBOS(l2_in) if isinstance(mirror, Euclidean) else MirrorDescent(mirror)


def check(name, seed, n, d, conversion, eta, plain, intercept=True, loss="squared", on_lattice=False):
    which, lam, rho, l2_in = CASES[name]
    mirror, dense = MAPS[which]
    X, y = draw(seed, n, d, on_lattice=on_lattice)
    slope, record = (slope_squared, Squared()) if loss == "squared" else (slope_hinge, Hinge())
    y = y if loss == "squared" else np.where(y > 0.0, 1.0, -1.0)
    run = Run(record, ElasticNet(lam, rho), optimizer_of(mirror, l2_in), conversion, eta, d=d, intercept=intercept)
    answer = learned(run, X, y, plain)
    sizes = eta.sizes(0, n + 1)
    stored = iterates(dense, X, y, slope, sizes[:n], lam, rho, 1.0, l2_in, intercept)
    number = np.arange(1.0, n + 2.0)
    omega = np.ones(n + 1)
    if rho > 0.0:
        omega = (number + 1.0) * (number + 2.0) * sizes if l2_in == "prox" else number + 1.0
    expected = choose(dense, stored, omega, getattr(conversion, "T", None), getattr(conversion, "least", False))
    scale = max(1.0, np.abs(expected.differences).max(initial=0.0))
    found = answer.report["differences"][len(answer.report["differences"]) - len(expected.differences) :]
    np.testing.assert_allclose(found, expected.differences, rtol=0.0, atol=1e-12 * scale)
    if not expected.is_tied:
        iterate = answer.report.get("iterate", 0)
        assert iterate == max(expected.iterate, int(isinstance(conversion, OCMDI)))
        if iterate:
            np.testing.assert_allclose(answer.w[:, 0], stored.w[iterate - 1], rtol=0.0, atol=1e-11)
            assert answer.b[0] == pytest.approx(stored.b[iterate - 1], abs=1e-11)
            near = np.abs(stored.w[iterate - 1]) < 1e-13  # a weight may die a step sooner or later by rounding
            assert np.array_equal((answer.w[:, 0] != 0.0)[~near], (stored.w[iterate - 1] != 0.0)[~near])


@pytest.mark.parametrize("name", CASES)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 40),
    d=st.integers(1, 6),
    eta=st.sampled_from([0.02, 0.1, 0.25]),
    intercept=st.booleans(),
    half=st.booleans(),
    on_lattice=st.booleans(),
)
@settings(max_examples=STREAMS, deadline=None)
def test_the_choice_is_that_of_storing_every_iterate(name, seed, n, d, eta, intercept, half, on_lattice):
    """At least two cases for each kind of map; SPARSCO_STREAMS=500 makes 1000 streams of them."""
    conversion = SCMDI(T=max(1, n // 2)) if half else OCMDI()
    check(name, seed, n, d, conversion, Constant(eta), False, intercept, on_lattice=on_lattice)


@pytest.mark.parametrize("name", CASES)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 25),
    d=st.integers(1, 5),
    kind=st.sampled_from(["o", "s", "least"]),
    on_lattice=st.booleans(),
)
@settings(max_examples=number_of_streams(15), deadline=None)
def test_plain_python_makes_the_same_choice(name, seed, n, d, kind, on_lattice):
    conversion = {"o": OCMDI(), "s": SCMDI(T=max(1, n // 2)), "least": SCMDI(T=max(1, n // 3), least=True)}[kind]
    check(name, seed, n, d, conversion, InverseSqrt(0.2), True, on_lattice=on_lattice)


@pytest.mark.parametrize("name", CASES)
def test_longer_streams_hinge_loss_and_many_features(name):
    check(name, 1, 900, 60, OCMDI(), Constant(0.01), False)
    check(name, 2, 900, 60, SCMDI(T=450), Constant(0.01), False, loss="hinge")
    if CASES[name][2] > 0.0:
        check(name, 3, 900, 30, OCMDI(), StronglyConvex(mu=CASES[name][2], t0=50.0, cap=False), False)


def test_a_kept_iterate_survives_a_full_log(monkeypatch):
    """Few features and a long wait: the log fills, the iterate is written out, and is still the right one."""
    from sparsco.optimizers import iterate_tracking

    arrays = iterate_tracking.TrackingBlock.arrays

    def short(block, problem, steps):
        found = arrays(block, problem, steps)
        return found._replace(item=found.item[: 4 * problem.d], old=found.old[: 8 * problem.d])

    monkeypatch.setattr(iterate_tracking.TrackingBlock, "arrays", short)
    for name in CASES:
        check(name, 5, 60, 4, SCMDI(T=3, least=True), Constant(0.1), False)
        check(name, 6, 60, 4, SCMDI(T=3, least=True), Constant(0.1), True)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("conversion", [OCMDI(), SCMDI(T=600)], ids=str)
def test_any_cut_gives_the_same_bits(name, conversion):
    which, lam, rho, l2_in = CASES[name]
    X, y = draw(7, 1300, 10)

    def new():
        optimizer = optimizer_of(MAPS[which][0], l2_in)
        return Run(Squared(), ElasticNet(lam, rho), optimizer, conversion, Constant(0.02), d=10)

    whole = learned(new(), X, y)
    cut = new()
    for rows in np.split(np.arange(1300), [1, 400, 1001, 1002, 1100, 1299]):
        cut.feed(as_matrix(X), y, order=rows)
        cut = pickle.loads(pickle.dumps(cut))
    pieces = cut.finish()
    assert pieces.report["iterate"] == whole.report["iterate"]
    assert np.array_equal(pieces.w, whole.w) and np.array_equal(pieces.b, whole.b)
    again = copy.deepcopy(cut)
    assert np.array_equal(again.finish().w, pieces.w)


def test_features_may_come_later():
    X, y = draw(8, 1500, 12)
    X[:1200, 6:] = 0.0
    for name in CASES:
        which, lam, rho, l2_in = CASES[name]
        optimizer = optimizer_of(MAPS[which][0], l2_in)
        declared = Run(Squared(), ElasticNet(lam, rho), optimizer, OCMDI(), Constant(0.02), d=12)
        grown = Run(Squared(), ElasticNet(lam, rho), optimizer, OCMDI(), Constant(0.02), d=6)
        whole = learned(declared, X, y)
        grown.feed(as_matrix(X[:1200, :6]), y[:1200])
        grown.grow(12)
        grown.feed(as_matrix(X[1200:]), y[1200:])
        assert np.array_equal(grown.finish().w, whole.w), name


def test_feature_weights_are_followed():
    X, y = draw(9, 200, 5)
    pen = np.array([0.0, 1.0, 2.0, 0.5, 3.0])
    run = Run(Squared(), WeightedElasticNet(0.1, 0.1, pen), FOBOS(), OCMDI(), Constant(0.05), d=5)
    answer = learned(run, X, y)
    stored = iterates(MAPS["euclidean"][1], X, y, slope_squared, np.full(200, 0.05), 0.1, 0.1, pen)
    number = np.arange(1.0, 202.0)
    expected = choose(MAPS["euclidean"][1], stored, (number + 1.0) * (number + 2.0) * 0.05)
    np.testing.assert_allclose(answer.report["differences"], expected.differences, atol=1e-12)
    assert answer.report["iterate"] == expected.iterate


def test_a_starting_point_other_than_zero():
    X, y = draw(10, 60, 4)
    start = np.array([1.0, -0.5, 0.0, 2.0])
    for name in CASES:
        which, lam, rho, l2_in = CASES[name]
        mirror, dense = MAPS[which]
        run = Run(
            Squared(),
            ElasticNet(lam, rho),
            optimizer_of(mirror, l2_in),
            OCMDI(),
            Constant(0.05),
            d=4,
            intercept=False,
            initial=(start[:, None], np.zeros(1)),
        )
        answer = learned(run, X, y)
        v = mirrors.to_dual(mirror, start)
        stored = iterates(dense, X, y, slope_squared, np.full(60, 0.05), lam, rho, 1.0, l2_in, False, v)
        number = np.arange(1.0, 62.0)
        omega = np.ones(61)
        if rho > 0.0:
            omega = (number + 1.0) * (number + 2.0) * 0.05 if l2_in == "prox" else number + 1.0
        expected = choose(dense, stored, omega)
        np.testing.assert_allclose(answer.report["differences"], expected.differences, atol=1e-11)
        assert answer.report["iterate"] == max(expected.iterate, 1)
        np.testing.assert_allclose(answer.w[:, 0], stored.w[answer.report["iterate"] - 1], atol=1e-11)


# ---- Theorem 1 of the paper ------------------------------------------------------------------------------------------


@part(Loss)
class Slopes(NamedTuple):
    """A loss whose slope is 1: a row is then the gradient of its step."""

    classifies, smoothness, curved = False, 1.0, False

    def value(loss, p, y):
        return p + 0.0 * y

    def derivative(loss, p, y):
        return 1.0 + 0.0 * p

    def curvature(loss, p, y):
        return 0.0 * p


def harveys_pieces(n):
    """The slopes h_1, ..., h_{n+1} of max_i <h_i, w>, whose least value is 0 (Harvey, Liaw, Plan, Randhawa 2019)."""
    i = np.arange(1.0, n + 1.0)
    a, b = 1.0 / (8.0 * (n + 1.0 - i)), 0.5 * np.sqrt(i / n)
    return np.vstack([np.tril(np.tile(a, (n, 1)), -1) - np.diag(b), a])


def scaled_excess(T, noise, seed):
    """sqrt(T) times the excess of the last iterate, SCMDI and OCMDI on Harvey's function and one noisy weight u."""
    n, u, pieces = 2 * T - 1, 0.0, harveys_pieces(2 * T - 1)
    slopes, rng = np.zeros(n), np.random.default_rng(seed)
    for t in range(n):  # the loss of u is u^2 / 2
        slopes[t] = u + noise * rng.standard_normal()
        u -= slopes[t] / np.sqrt(t + 1.0)
    rows, out = as_matrix(np.column_stack([pieces[:-1], slopes])), []
    for conversion in (Last(), SCMDI(T), OCMDI()):
        run = Run(Slopes(), L1(0.0), FOBOS(), conversion, InverseSqrt(1.0), d=n + 1, intercept=False)
        run.feed(rows, np.zeros(n))
        w = run.finish().w[:, 0]
        out.append(np.sqrt(T) * ((pieces @ w[:-1]).max() + 0.5 * w[-1] ** 2))
    return out


def test_the_pieces_are_subgradients_and_the_least_value_is_zero():
    pieces, w = harveys_pieces(63), np.zeros(63)
    for t in range(63):  # each step takes a piece that is active
        assert pieces[t] @ w == pytest.approx((pieces @ w).max(), abs=1e-15)
        w -= pieces[t] / np.sqrt(t + 1.0)
    shares = np.ones(64)
    for j in range(62, -1, -1):  # 0 is a mixture of the pieces with these positive shares
        shares[j] = pieces[-1, j] / -pieces[j, j] * shares[j + 1 :].sum()
    assert (shares > 0.0).all() and np.abs(shares @ pieces).max() < 1e-12 * shares.sum()


@pytest.mark.filterwarnings("ignore:.*features rest on the last eighth")
def test_theorem_1_of_the_paper_fails_with_noise():
    """The excess of SCMDI and OCMDI is not O(1 / sqrt(T)): sqrt(T) times it grows with log T, as the last iterate's."""
    calm = np.array([scaled_excess(T, 0.0, 0) for T in (32, 128, 512)])
    assert np.diff(calm[:, 0]).min() > 0.04 and np.ptp(calm[:, 1:]) < 0.01  # without noise the theorem holds
    few, many = (np.array([scaled_excess(T, 0.25, seed) for seed in range(20)]) for T in (32, 512))
    growth = many.mean(0) - few.mean(0)
    error = np.sqrt((many.var(0, ddof=1) + few.var(0, ddof=1)) / 20)
    assert (growth - 3.0 * error > 0.02).all()
    assert np.array_equal(many[:, 1], many[:, 2])  # OCMDI chooses as SCMDI does


# ---- mirror descent with the other conversions -----------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in CASES if "euclidean" not in name])
@pytest.mark.parametrize("conversion", [Last(), Average(), Average(power=2.0), Suffix(0.5, 300)], ids=str)
@pytest.mark.parametrize("plain", [True, False])
def test_other_conversions_of_mirror_descent(name, conversion, plain):
    which, lam, rho, _ = CASES[name]
    mirror, dense = MAPS[which]
    X, y = draw(11, 300, 6)
    run = Run(Squared(), ElasticNet(lam, rho), MirrorDescent(mirror), conversion, Constant(0.03), d=6)
    answer = learned(run, X, y, plain)
    stored = iterates(dense, X, y, slope_squared, np.full(300, 0.03), lam, rho)
    number = np.arange(2.0, 302.0)
    if isinstance(conversion, Last):
        expected = stored.w[-1]
    elif isinstance(conversion, Suffix):
        expected = stored.w[150:300].mean(0)
    else:
        expected = number**conversion.power @ stored.w[:300] / np.sum(number**conversion.power)
    np.testing.assert_allclose(answer.w[:, 0], expected, rtol=0.0, atol=1e-12)
    assert np.array_equal(answer.w[:, 0] != 0.0, expected != 0.0)


def test_euclidean_mirror_descent_is_fobos():
    X, y = draw(12, 400, 5)
    runs = [
        Run(Squared(), ElasticNet(0.05, 0.1), optimizer, Last(), Constant(0.05), d=5)
        for optimizer in (MirrorDescent(), FOBOS())
    ]
    assert np.array_equal(*(learned(run, X, y).w for run in runs))


@pytest.mark.parametrize("which", MAPS)
@pytest.mark.parametrize("plain", [True, False])
def test_a_non_negative_penalty_beside_every_map(which, plain):
    mirror, dense = MAPS[which]
    X, y = draw(13, 200, 5)
    rho = 0.0 if isinstance(mirror, PNorm) else 0.1
    run = Run(Squared(), NonNegative(0.05, rho), MirrorDescent(mirror), OCMDI(), Constant(0.03), d=5, intercept=False)
    answer = learned(run, X, y, plain)
    stored = iterates(dense, X, y, slope_squared, np.full(200, 0.03), 0.05, rho, intercept=False, least=0.0)
    number = np.arange(1.0, 202.0)
    expected = choose(dense, stored, (number + 1.0) * (number + 2.0) * 0.03 if rho else np.ones(201))
    np.testing.assert_allclose(answer.report["differences"], expected.differences, rtol=0.0, atol=1e-12)
    assert not expected.is_tied and answer.report["iterate"] == expected.iterate
    np.testing.assert_allclose(answer.w[:, 0], stored.w[expected.iterate - 1], rtol=0.0, atol=1e-12)
    assert (answer.w >= 0.0).all() and (answer.w > 0.0).any()


@pytest.mark.parametrize("eps", [0.0, 0.05])
@pytest.mark.parametrize("least", [-np.inf, 0.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_kaczmarz_step_is_the_minimum_that_it_stands_for(eps, least, seed):
    """Of Psi(w) - theta w + s |w| + shrink w^2 / 2, by a search along each coordinate."""
    rng = np.random.default_rng(seed)
    dense, s, shrink = Dense("kaczmarz", 0.4, eps), 0.2, 0.7
    for theta in rng.standard_normal(8):
        step = dense.primal(dense.composite(np.array([theta]), s, shrink, least))[0]

        def objective(w, theta=theta):
            return dense.value(np.array([w])) - theta * w + s * abs(w) + 0.5 * shrink * w * w

        found = minimize_scalar(objective, bounds=(max(least, -3.0), 3.0), method="bounded", options={"xatol": 1e-12})
        assert objective(step) <= found.fun + 1e-12
        reg = NonNegative(s) if least == 0.0 else L1(s)
        v = mirrors.relaxed(SparseKaczmarz(0.4, eps).compiled(), type(reg).prox(reg, theta, s), shrink)
        assert mirrors.primal(SparseKaczmarz(0.4, eps), v) == pytest.approx(step, abs=1e-14)


# ---- refused, and in the estimators ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("optimizer", "penalty", "conversion", "sentence"),
    [
        (MirrorDescent(PNorm(1.5)), ElasticNet(0.1, 0.1), Last(), "no closed form with ElasticNet and an L2 term"),
        (MirrorDescent(PNorm(1.5)), Box(-1.0, 1.0), Last(), "Box"),
        (MirrorDescent(SparseKaczmarz(1.0)), Box(-1.0, 1.0), Last(), "Box"),
        (MirrorDescent(SparseKaczmarz("a")), L1(0.0), Last(), "finite number"),
        (MirrorDescent(PNorm("a")), L1(0.0), Last(), "p must be"),
        (MirrorDescent(SparseKaczmarz(-1.0)), L1(0.0), Last(), "at least 0"),
        (MirrorDescent(PNorm(1.0)), L1(0.1), Last(), "p must be above 1"),
        (MirrorDescent("euclidean"), L1(0.1), Last(), "choose Euclidean()"),
        (RDA(), L1(0.1), OCMDI(), "RDA does not provide"),
        (SGD(), ElasticNet(0.1, 0.1), OCMDI(), "does not provide"),
        (FOBOS("gradient"), NonNegative(0.1, 0.1), OCMDI(), "cannot be tracked"),
        (FOBOS(), RowGroup(0.1), OCMDI(), "no closed form with RowGroup"),
        (FOBOS(), L1(0.1), SCMDI(), "needs the length of the stream"),
        (FOBOS(), L1(0.1), SCMDI(T=0), "at least 1"),
        (MirrorDescent(PNorm(1.5)), GroupL1(0.1, np.zeros(3, int)), Last(), "GroupL1"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(optimizer, penalty, conversion, sentence):
    X, y = draw(14, 20, 3)
    with pytest.raises(ValueError, match="(?s).*".join(sentence.split("..."))) as refused:
        learned(Run(Squared(), penalty, optimizer, conversion, Constant(0.1), d=3), X, y)
    assert "\n" not in str(refused.value)


def test_in_the_estimators():
    X, y = draw(15, 3000, 8)
    for conversion in ("scmdi", "ocmdi"):
        model = SparseRegressor(alpha=0.05, optimizer="fobos", conversion=conversion, max_iter=2, tol=None)
        assert model.fit(X, y).score(X, y) > 0.9
        (report,) = model.report_["converted"]
        assert 1 <= report["iterate"] <= 6000 and len(report["differences"]) >= 1000
    stream = SparseRegressor(alpha=0.05, optimizer="fobos", conversion="ocmdi")
    for rows in np.split(np.arange(3000), [10, 1500]):
        stream.partial_fit(X[rows], y[rows])
    assert stream.score(X, y) > 0.9
    norm = SparseRegressor(alpha=0.05, optimizer=MirrorDescent(PNorm(1.3)), conversion="ocmdi", max_iter=3)
    assert norm.fit(X, y).score(X, y) > 0.8
    with pytest.raises(ValueError, match="needs the length"):
        SparseRegressor(optimizer="fobos", conversion="scmdi").partial_fit(X, y)


def test_what_is_left_open_is_chosen_to_fit():
    X, y = draw(16, 1500, 6)
    norm = SparseRegressor(alpha=0.05, optimizer=MirrorDescent(PNorm(1.3))).fit(X, y)
    assert isinstance(norm.report_["conversion"], OCMDI)
    followed = SparseClassifier(alpha=0.01, conversion="ocmdi", random_state=0).fit(X, y > 0.0)
    assert type(followed.report_["optimizer"]).__name__ == "TrackedFOBOS" and followed.score(X, y > 0.0) > 0.8


def test_a_fit_tells_scmdi_how_many_examples_there_will_be():
    X, y = draw(17, 2000, 6)
    weights = np.where(np.arange(2000) < 900, 1.0, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing chosen would be a warning
        model = SparseRegressor(alpha=0.05, conversion="scmdi", max_iter=4).fit(X, y, sample_weight=weights)
    assert model.n_iter_ == 4 and model.report_["conversion"].T == 1800
    assert model.report_["converted"][0]["iterate"] >= 1800


def test_steps_that_are_far_too_large_are_divergence():
    X, y = draw(18, 400, 6)
    with pytest.raises(DivergenceError), np.errstate(all="ignore"):
        run = Run(Squared(), L1(0.01), MirrorDescent(PNorm(1.3)), OCMDI(), Constant(50.0), d=6)
        learned(run, X, y)


def test_many_features_cost_nothing_at_the_first_examples():
    """Events come at 1, 3, 7, ...: each may look at all features, but only a few times."""
    X, y = draw(19, 300, 5)
    wide = np.hstack([X, np.zeros((300, 45))])
    answers = []
    for rows in (X, wide):
        run = Run(Squared(), L1(0.05), FOBOS(), OCMDI(), Constant(0.05), d=rows.shape[1])
        answers.append(learned(run, rows, y))
    assert np.array_equal(answers[0].w[:, 0], answers[1].w[:5, 0]) and not answers[1].w[5:].any()


def test_each_class_has_an_iterate_of_its_own():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 6))
    y = X[:, :3].argmax(1)
    model = SparseClassifier(alpha=0.01, optimizer="fobos", conversion="ocmdi", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.75 and model.coef_.shape == (3, 6)
