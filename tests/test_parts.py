"""Losses and regularizers, each found by introspection: a new record is tested without an edit here."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsco import losses, regularizers
from sparsco.losses import curvature, derivative, value
from sparsco.regularizers import ElasticNet, WeightedElasticNet, penalty, prox, strength

LOSSES = [part for _, part in inspect.getmembers(losses, inspect.isclass) if hasattr(part, "derivative")]
REGULARIZERS = [
    WeightedElasticNet(0.3, 0.2, np.array([0.0, 1.0, 2.0])) if part is WeightedElasticNet else part(0.3, 0.2)
    for _, part in inspect.getmembers(regularizers, inspect.isclass)
    if hasattr(part, "prox")
]
margin = st.floats(-20.0, 20.0)


def test_discovery():
    assert {part.__name__ for part in LOSSES} >= {"Squared", "Logistic", "Hinge"}
    assert {type(part).__name__ for part in REGULARIZERS} >= {"ElasticNet", "WeightedElasticNet"}


def targets(loss):
    return st.sampled_from([-1.0, 1.0]) if loss.classifies else st.floats(-5.0, 5.0)


@pytest.mark.parametrize("loss", LOSSES)
@given(data=st.data())
def test_derivative_is_a_finite_difference(loss, data):
    p, y = data.draw(margin), data.draw(targets(loss))
    record, step = loss(), 1e-6
    if loss is losses.Hinge and abs(1.0 - y * p) < 1e-3:
        return
    slope = (value(record, p + step, y) - value(record, p - step, y)) / (2.0 * step)
    assert derivative(record, p, y) == pytest.approx(slope, abs=1e-6 * max(1.0, abs(p)))
    bend = (derivative(record, p + 1e-4, y) - derivative(record, p - 1e-4, y)) / 2e-4
    if loss is not losses.Hinge:
        assert curvature(record, p, y) == pytest.approx(bend, abs=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@given(data=st.data())
def test_convex_with_bounded_curvature(loss, data):
    p, q, y = data.draw(margin), data.draw(margin), data.draw(targets(loss))
    record = loss()
    assert value(record, q, y) >= value(record, p, y) + derivative(record, p, y) * (q - p) - 1e-9
    assert 0.0 <= curvature(record, p, y) <= record.smoothness * (1.0 + 1e-15)  # one rounding
    assert record.curved == (loss is not losses.Hinge)


def test_kinks_and_limits():
    assert derivative(losses.Hinge(), 1.0, 1.0) == 0.0
    assert derivative(losses.Hinge(), np.nextafter(1.0, 0.0), 1.0) == -1.0
    with np.errstate(over="ignore"):
        assert derivative(losses.Logistic(), 1e4, 1.0) == 0.0
    assert derivative(losses.Logistic(), -1e4, 1.0) == -1.0
    assert value(losses.Logistic(), -1e4, 1.0) == 1e4
    assert value(losses.Logistic(), 1e4, 1.0) == 0.0


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=lambda r: type(r).__name__)
@given(v=st.floats(-5.0, 5.0), s=st.floats(0.0, 5.0), u=st.floats(-6.0, 6.0))
def test_prox_is_the_minimiser(regularizer, v, s, u):
    best = float(prox(regularizer, v, s))
    assert 0.5 * (best - v) ** 2 + s * abs(best) <= 0.5 * (u - v) ** 2 + s * abs(u) + 1e-12
    if abs(v) <= s:
        assert best == 0.0
    # Moreau: v - prox(v) is the projection onto [-s, s]
    assert v - best == pytest.approx(min(max(v, -s), s), abs=1e-12)


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=lambda r: type(r).__name__)
@given(v=st.floats(-5.0, 5.0), s=st.floats(0.0, 0.5), k=st.integers(1, 30))
def test_idle_steps_add_up(regularizer, v, s, k):
    one_by_one = v
    for _ in range(k):
        one_by_one = prox(regularizer, one_by_one, s)
    assert prox(regularizer, v, k * s) == pytest.approx(one_by_one, abs=1e-12)


def test_strength_and_penalties():
    w = np.array([1.0, -2.0, 0.0])
    assert strength(ElasticNet(0.5, 0.2), w) == pytest.approx(0.5 * 3.0 + 0.1 * 5.0)
    weighted = WeightedElasticNet(0.5, 0.2, np.array([2.0, 0.0, 1.0]))
    assert strength(weighted, w) == pytest.approx(0.5 * 2.0 + 0.1 * 5.0)
    assert [penalty(weighted, j) for j in range(3)] == [2.0, 0.0, 1.0]
    columns = np.column_stack([w, 2.0 * w])
    np.testing.assert_allclose(strength(weighted, columns), [strength(weighted, w), strength(weighted, 2.0 * w)])
