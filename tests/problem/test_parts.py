"""Losses and penalties, each found by introspection: a new record is tested without an edit here."""

from __future__ import annotations

import inspect
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsco import losses, penalties
from sparsco.losses import curvature, derivative, value
from sparsco.parts.contracts import Loss, part
from sparsco.penalties import ElasticNet, NonNegative, RowGroup, WeightedElasticNet, feature_weight, prox, strength

LOSSES = [each for _, each in inspect.getmembers(losses, inspect.isclass) if issubclass(each, tuple)]


REGULARIZERS = [
    WeightedElasticNet(0.3, 0.2, np.array([0.0, 1.0, 2.0])) if each is WeightedElasticNet else each(0.3, 0.2)
    for _, each in inspect.getmembers(penalties, inspect.isclass)
    if not each.strength_is_open and not each.rounds and each.has_prox
]
margin = st.floats(-20.0, 20.0)


def test_discovery():
    assert {part.__name__ for part in LOSSES} >= {
        "Squared",
        "Huber",
        "EpsilonInsensitive",
        "Quantile",
        "Poisson",
        "Logistic",
        "Hinge",
        "SquaredHinge",
        "Multinomial",
    }
    assert {type(loss) for loss in (losses.CLASSIFIER_LOSSES | losses.REGRESSOR_LOSSES).values()} == set(LOSSES)
    assert {type(part).__name__ for part in REGULARIZERS} >= {"ElasticNet", "WeightedElasticNet"}


@st.composite
def points(draw, loss, margins_each=1):
    """Margins and the target of one example, on three classes and a lane without a model where lanes are coupled."""
    if loss.couples:
        y = np.append(np.eye(3)[draw(st.integers(0, 2))], -1.0)
        return *(np.append(draw(st.tuples(margin, margin, margin)), 0.0) for _ in range(margins_each)), y
    target = st.sampled_from([-1.0, 1.0]) if loss.classifies else st.floats(-5.0, 5.0)
    target = st.integers(0, 5).map(float) if loss in (losses.Poisson, losses.Tweedie) else target
    y = draw(st.floats(0.1, 5.0) if loss is losses.Gamma else target)
    return *(draw(margin) for _ in range(margins_each)), y


def nudged(p, lane, step):
    """The margin with ``step`` added, in one lane where there are several."""
    return p + step * (np.arange(np.size(p)) == lane) if np.ndim(p) else p + step


@pytest.mark.parametrize("loss", LOSSES)
@given(data=st.data(), lane=st.integers(0, 2))
def test_derivative_and_curvature_are_finite_differences(loss, data, lane):
    p, y = data.draw(points(loss))
    record, pick = loss(), (lambda v: v[lane]) if loss.couples else (lambda v: v)
    steep, step = pick(derivative(record, p, y)), 1e-5
    around = [pick(derivative(record, nudged(p, lane, side), y)) for side in (-step, step)]
    has_log_link = loss in (losses.Poisson, losses.Gamma, losses.Tweedie)
    tolerance = 1e-8 * max(1.0, np.max(np.exp(np.abs(p)) * (1.0 + y)) if has_log_link else np.max(np.abs(p)))
    sums = [np.sum(value(record, nudged(p, lane, side), y)) for side in (-step, step)]
    assert around[0] <= steep <= around[1]
    if around[1] - around[0] > 4.0 * step * max(record.smoothness, 1.0) and not has_log_link:
        return  # across a kink there is no slope but what lies between the two sides
    assert steep == pytest.approx((sums[1] - sums[0]) / (2.0 * step), abs=1e-4 + 1e2 * tolerance)
    bends = [pick(curvature(record, nudged(p, lane, side), y)) for side in (-step, 0.0, step)]
    bend, change = (around[1] - around[0]) / (2.0 * step), abs(bends[2] - bends[0])
    assert bends[1] == pytest.approx(bend, abs=change + 1e2 * tolerance)


@pytest.mark.parametrize("loss", LOSSES)
@given(data=st.data())
def test_convex_with_bounded_curvature(loss, data):
    p, q, y = data.draw(points(loss, 2))
    record = loss()
    below = np.sum(value(record, p, y)) + np.sum(derivative(record, p, y) * (q - p))
    assert np.sum(value(record, q, y)) >= below - 1e-9 * max(1.0, abs(below))
    h = curvature(record, p, y)
    assert np.all(h >= 0.0)
    assert record.curved or not np.any(h)
    if record.smoothness_is_bound:  # one rounding
        assert np.all(h <= record.smoothness * (1.0 + 1e-15))


@pytest.mark.parametrize(
    ("loss", "p", "y", "slope"),
    [
        (losses.Hinge(), 1.0, 1.0, 0.0),
        (losses.Hinge(), np.nextafter(1.0, 0.0), 1.0, -1.0),
        (losses.SquaredHinge(), 1.0, 1.0, 0.0),
        (losses.SquaredHinge(), -1.0, -1.0, 0.0),
        (losses.Huber(0.5), 1.5, 1.0, 0.5),
        (losses.Huber(0.5), 9.0, 1.0, 0.5),
        (losses.Huber(0.5), 0.5, 1.0, -0.5),
        (losses.EpsilonInsensitive(0.5), 1.5, 1.0, 0.0),
        (losses.EpsilonInsensitive(0.5), 0.5, 1.0, 0.0),
        (losses.EpsilonInsensitive(0.5), np.nextafter(1.5, 2.0), 1.0, 1.0),
        (losses.EpsilonInsensitive(0.0), 1.0, 1.0, 0.0),
        (losses.Quantile(0.25), 1.0, 1.0, 0.0),
        (losses.Quantile(0.25), np.nextafter(1.0, 2.0), 1.0, 0.75),
        (losses.Quantile(0.25), np.nextafter(1.0, 0.0), 1.0, -0.25),
    ],
)
def test_kinks(loss, p, y, slope):
    assert derivative(loss, p, y) == slope
    assert curvature(losses.Huber(0.5), 1.5, 1.0) == 1.0  # the edge belongs to the parabola
    assert curvature(losses.SquaredHinge(), 1.0, 1.0) == 0.0  # and here to the flat part


def test_limits():
    with np.errstate(over="ignore"):
        assert derivative(losses.Logistic(), 1e4, 1.0) == 0.0
    assert derivative(losses.Logistic(), -1e4, 1.0) == -1.0
    assert value(losses.Logistic(), -1e4, 1.0) == 1e4
    assert value(losses.Logistic(), 1e4, 1.0) == 0.0
    assert derivative(losses.Poisson(), -1e4, 3.0) == -3.0
    assert derivative(losses.Poisson(), 1e4, 3.0) == np.inf
    far = np.array([1e4, -1e4, 0.0, 0.0]), np.array([0.0, 1.0, 0.0, -1.0])
    assert derivative(losses.Multinomial(), *far).tolist() == [1.0, -1.0, 0.0, 0.0]
    assert value(losses.Multinomial(), *far).tolist() == [0.0, 2e4, 0.0, 0.0]


@given(p=st.lists(margin, min_size=2, max_size=8), y=st.integers(0, 1))
def test_the_softmax_is_bounded_by_twice_its_diagonal(p, y):
    p, targets = np.array(p), np.eye(len(p))[y]
    s = derivative(losses.Multinomial(), p, targets) + targets
    np.testing.assert_allclose(losses.Multinomial().probabilities(p[None])[0], s, atol=1e-15)
    hessian, diagonal = np.diag(s) - np.outer(s, s), curvature(losses.Multinomial(), p, targets)
    np.testing.assert_allclose(np.diag(hessian), diagonal, atol=1e-15)
    assert np.linalg.eigvalsh(2.0 * np.diag(diagonal) - hessian).min() >= -1e-15
    assert np.linalg.eigvalsh(hessian).max() <= losses.Multinomial.smoothness + 1e-15


def test_two_classes_of_a_multinomial_are_logistic():
    p = np.linspace(-5.0, 5.0, 11)
    lanes, one_hot = np.column_stack([0.3 * p, 1.3 * p]), np.tile([0.0, 1.0], (11, 1))
    np.testing.assert_allclose(value(losses.Multinomial(), lanes, one_hot).sum(1), value(losses.Logistic(), p, 1.0))
    slopes = derivative(losses.Multinomial(), lanes, one_hot)
    np.testing.assert_allclose(slopes[:, 1], derivative(losses.Logistic(), p, 1.0))
    np.testing.assert_allclose(slopes.sum(1), 0.0, atol=1e-15)


def test_a_poissons_values_are_half_the_deviance():
    from sklearn.metrics import mean_poisson_deviance

    y, p = np.array([0.0, 1.0, 2.0, 7.0]), np.array([0.1, -1.0, 0.5, 2.5])
    best = np.array([0.0, 1.0, 2.0 - 2.0 * np.log(2.0), 7.0 - 7.0 * np.log(7.0)])
    assert 2.0 * np.mean(value(losses.Poisson(), p, y) - best) == pytest.approx(mean_poisson_deviance(y, np.exp(p)))


@pytest.mark.parametrize("power", [1.1, 1.5, 1.9, 2.0])
def test_gammas_and_tweedies_values_are_half_the_deviance(power):
    from sklearn.metrics import mean_tweedie_deviance

    y, p = np.array([0.0, 1.0, 2.0, 7.0])[power == 2.0 :], np.array([0.1, -1.0, 0.5, 2.5])[power == 2.0 :]
    loss = losses.Gamma() if power == 2.0 else losses.Tweedie(power)
    assert 2.0 * value(loss, p, y).mean() == pytest.approx(mean_tweedie_deviance(y, np.exp(p), power=power))
    assert np.all(value(loss, p, y) >= 0.0)


def test_tweedies_far_from_the_mean_are_numbers():
    """Zero claims have a loss at any margin, and amounts a slope that points back."""
    far, loss = np.array([-1e4, -1500.0, 1500.0]), losses.Tweedie(1.5)
    for function in (value, derivative, curvature):
        with np.errstate(over="ignore"):
            assert not np.isnan(function(loss, far, 0.0 * far)).any()
            assert not np.isnan(function(loss, far, 0.0 * far + 3.0)).any()
    assert derivative(loss, -1e4, 0.0) == 0.0 and derivative(loss, -1e4, 3.0) < -1e100
    assert derivative(losses.Gamma(), 1e4, 3.0) == 1.0 and derivative(losses.Gamma(), -1e4, 3.0) == -np.inf


@given(
    power=st.floats(1.01, 1.99),
    y=st.sampled_from([0.0, 1e-6, 0.5, 1.0, 3.0, 1e6]),
    p=st.floats(-20.0, 20.0),
)
def test_the_conjugate_of_tweedie(power, y, p):
    """c p - loss(p) at the slope of any margin, and no smaller at a slope that is scaled down."""
    loss = losses.Tweedie(power)
    c, at, y = derivative(loss, np.array([p]), np.array([y])), np.array([p]), np.array([y])
    scale = 1.0 + np.abs(c * at) + value(loss, at, y)
    np.testing.assert_allclose((loss.conjugate(c, y) - (c * at - value(loss, at, y))) / scale, 0.0, atol=1e-9)
    for share in (0.5, 0.99):
        around = share * c * at - value(loss, at, y)
        assert np.all(loss.conjugate(share * c, y) >= around - 1e-9 * scale)


def test_units():
    mean, std = np.array([3.0, -20.0]), np.array([0.3, 10.0])

    @part(Loss)
    class Cauchy(NamedTuple):  # a user's, which does not say
        classifies = False
        smoothness = 1.0
        curved = False
        value = curvature = None

        def derivative(loss, p, y):
            return (p - y) / (1.0 + (p - y) ** 2)

    for loss, known in (
        (losses.Squared(), (mean, std, std)),
        (losses.Logistic(), (0.0, 1.0, 1.0)),
        (losses.Multinomial(), (0.0, 1.0, 1.0)),
        (losses.Huber(), (mean, std, np.minimum(std, 1.35))),
        (losses.EpsilonInsensitive(), (mean, std, 1.0)),
        (losses.EpsilonInsensitive(50.0), (mean, std, 1.0)),
        (losses.Quantile(0.9), (mean, std, np.sqrt((0.81 + 0.01) / 2.0))),
        (losses.Poisson(), ([np.log(3.0), 0.0], 0.5, 10.0 * std)),
        (losses.Gamma(), ([np.log(3.0), 0.0], 0.5, 10.0 * std / [3.0, 1.0])),
        (losses.Tweedie(1.5), ([np.log(3.0), 0.0], 0.5, 10.0 * std / np.sqrt([3.0, 1.0]))),
        (Cauchy(), (mean, std, std / (1.0 + std**2))),
    ):
        for found, expected in zip(loss.units(mean, std), known, strict=True):
            np.testing.assert_allclose(found, np.broadcast_to(expected, 2), rtol=1e-14)
    assert losses.Squared().units(mean, std)[2] is std  # not a bit is lost


def test_scales_from_the_first_rows():
    y, weights = np.array([[0.0], [1.0], [4.0], [9.0]]), np.array([[1.0], [2.0], [1.0], [0.0]])
    assert losses.Poisson().resolve(y, weights).smoothness == 18.0 / 6.0
    assert losses.Poisson().resolve(0.0 * y, weights).smoothness == 1.0
    assert losses.Poisson(2.0).resolve(y, weights).smoothness == 2.0
    assert losses.Gamma().resolve(y, weights).smoothness == pytest.approx(18.0 / 6.0 / 1.5)
    assert losses.Tweedie(1.5).resolve(y, weights).smoothness == pytest.approx(18.0 / 6.0 / np.sqrt(1.5))
    assert losses.Tweedie(1.5, 2.0).resolve(y, weights) == losses.Tweedie(1.5, 2.0)
    std = np.sqrt(18.0 / 4.0 - 1.5**2)
    for loss in (losses.Quantile(0.3), losses.EpsilonInsensitive(0.3)):
        assert loss.resolve(y, weights).smoothness == pytest.approx(1.0 / std)
        assert loss.resolve(0.0 * y + 7.0, weights).smoothness == 1.0
        assert loss._replace(scale=3.0).resolve(y, weights).smoothness == 3.0
        assert loss.resolve(y, weights)[0] == 0.3


@pytest.mark.parametrize("penalty", REGULARIZERS, ids=lambda r: type(r).__name__)
@given(v=st.floats(-5.0, 5.0), s=st.floats(0.0, 5.0), u=st.floats(-6.0, 6.0))
def test_prox_is_the_minimiser(penalty, v, s, u):
    best = float(prox(penalty, v, s))
    signed = isinstance(penalty, NonNegative)
    u, low = (abs(u), -np.inf) if signed else (u, -s)
    assert best >= 0.0 or not signed
    assert 0.5 * (best - v) ** 2 + s * abs(best) <= 0.5 * (u - v) ** 2 + s * abs(u) + 1e-12
    if low <= v <= s:
        assert abs(best) <= (1e-150 if isinstance(penalty, RowGroup) else 0.0)  # where squares underflow
    # Moreau: v - prox(v) is the projection onto r's slopes at 0
    assert v - best == pytest.approx(min(max(v, low), s), abs=1e-12)


@pytest.mark.parametrize("penalty", REGULARIZERS, ids=lambda r: type(r).__name__)
@given(v=st.floats(-5.0, 5.0), s=st.floats(0.0, 0.5), k=st.integers(1, 30))
def test_idle_steps_add_up(penalty, v, s, k):
    one_by_one = v
    for _ in range(k):
        one_by_one = prox(penalty, one_by_one, s)
    assert prox(penalty, v, k * s) == pytest.approx(one_by_one, abs=1e-12)


def test_strength_and_penalties():
    w = np.array([1.0, -2.0, 0.0])
    assert strength(ElasticNet(0.5, 0.2), w) == pytest.approx(0.5 * 3.0 + 0.1 * 5.0)
    weighted = WeightedElasticNet(0.5, 0.2, np.array([2.0, 0.0, 1.0]))
    assert strength(weighted, w) == pytest.approx(0.5 * 2.0 + 0.1 * 5.0)
    assert [feature_weight(weighted, j) for j in range(3)] == [2.0, 0.0, 1.0]
    columns = np.column_stack([w, 2.0 * w])
    np.testing.assert_allclose(strength(weighted, columns), [strength(weighted, w), strength(weighted, 2.0 * w)])
