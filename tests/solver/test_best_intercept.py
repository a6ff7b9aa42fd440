"""The best intercept for given weights: the kernel against bisections with NumPy."""

import numpy as np
import pytest

from sparsco.jit.dispatch import plain_python
from sparsco.losses import SMOOTH_LOSSES, Huber, Logistic, Poisson, curvature, derivative
from sparsco.offsets import WithOffset, with_offset
from sparsco.solver.best_intercept import with_best_intercept
from sparsco.solver.loss_term import LossTerm

LOSSES = [kind() for kind in SMOOTH_LOSSES]


def rows(loss, n, far=1.0):
    rng = np.random.default_rng(n)
    P, share = far + rng.normal(size=(n, 1)), rng.choice([0.0, 1.0, 3.0], (n, 1)) / n
    y = np.where(rng.random((n, 1)) < 0.3, 1.0, -1.0) if loss.classifies else rng.uniform(0.5, 1.5, (n, 1))
    return P, y, share, rng


def bisected(loss, P, y, share):
    """Return the shift at which slopes, which rise with it, sum to zero."""
    low, high = -50.0, 50.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        rises = float((share * derivative(loss, P + middle, y)).sum()) > 0.0
        low, high = (low, middle) if rises else (middle, high)
    return middle


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("n", [3, 8, 21, 5001])
@pytest.mark.parametrize("has_offset", [False, True])
def test_slopes_sum_to_zero(loss, n, has_offset):
    P, y, share, rng = rows(loss, n)
    share[:2] = 1.0 / n
    if has_offset:
        loss, y = WithOffset(loss), with_offset(y[:, 0], rng.normal(size=n))[:, None]
    if loss.classifies:  # no intercept is best if all labels are equal
        targets = y["y"] if has_offset else y
        targets[:2] = [[1.0], [-1.0]]
    term = LossTerm(loss, y, share, P)
    b, moved, slopes, bends = with_best_intercept(term, np.array([0.5]), P)
    least = term.value(P + bisected(loss, P, y, share))  # a loss that is flat somewhere may have many best shifts
    assert term.value(moved) == pytest.approx(least, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(moved, P + (b - 0.5), rtol=1e-12)
    np.testing.assert_allclose(slopes, derivative(loss, moved, y), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(bends, curvature(loss, moved, y), rtol=1e-9, atol=1e-12)
    assert abs((share * slopes).sum()) <= 1e-12 * np.abs(share * slopes).sum()


def test_compiled_is_plain():
    P, y, share, _ = rows(Logistic(), 37)
    term = LossTerm(Logistic(), y, share, P)
    compiled = with_best_intercept(term, np.zeros(1), P)
    with plain_python():
        plain = with_best_intercept(term, np.zeros(1), P)
    for each, other in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(each, other, rtol=1e-13)


def test_the_best_margins_are_left():
    P, y, share, _ = rows(Logistic(), 100)
    term = LossTerm(Logistic(), y, share, P)
    b, moved, _, _ = with_best_intercept(term, np.zeros(1), P)
    assert with_best_intercept(term, b, moved)[1] is moved


FAR = [(Logistic(), 300.0), (Logistic(), -300.0), (Huber(), 1e4), (Poisson(), 30.0)]


def test_an_intercept_may_stay_or_come_near():
    P, y, share, _ = rows(Logistic(), 100)
    term = LossTerm(Logistic(), y, share, P)
    best = with_best_intercept(term, np.zeros(1), P).b[0]
    off = [abs(with_best_intercept(term, np.zeros(1), P, steps).b[0] - best) for steps in range(4)]
    assert off[0] == abs(best) and off[1] < 0.3 * off[0] and off[2] < 0.1 * off[1] and off[3] < 0.1 * off[2]
    at = with_best_intercept(term, np.zeros(1), P, 0)
    assert at.P is P
    np.testing.assert_allclose(at.slopes, derivative(Logistic(), P, y), rtol=1e-12)


@pytest.mark.parametrize(("loss", "far"), FAR)
def test_margins_far_from_the_targets_come_back(loss, far):
    """Losses that do not bend there, or that grow exponentially."""
    P, y, share, _ = rows(loss, 200, far)
    _, moved, slopes, _ = with_best_intercept(LossTerm(loss, y, share, P), np.zeros(1), P)
    assert abs((share * slopes).sum()) <= 1e-12 * np.abs(share * slopes).sum()
    assert abs(np.median(moved)) < 10.0


@pytest.mark.parametrize("y", [np.full(9, 1000.0), np.array([1000.0] * 8 + [1001.0]), np.array([1.0, 5000.0] * 6)])
def test_an_intercept_whose_first_step_leads_beyond_all_numbers(y):
    """The loss of counts grows exponentially, and steps from far above come back by one at a time."""
    zeros, share = np.zeros((len(y), 1)), np.full((len(y), 1), 1.0 / len(y))
    term = LossTerm(Poisson(), y[:, None], share, zeros)
    found = with_best_intercept(term, np.zeros(1), zeros)
    np.testing.assert_allclose(found.b, np.log(y.mean()), rtol=1e-9)
    assert np.isfinite(found.slopes).all() and abs(float((share * found.slopes).sum())) < 1e-9 * y.mean()
