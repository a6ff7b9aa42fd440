"""Elastic nets for few rows and few columns: the steps of ``DenseSolver`` in one compiled kernel.

On such rows calls of NumPy take far longer than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..jit.dispatch import inlined, kernel
from ..losses import SMOOTH_LOSSES, curvature, derivative, value
from .columns import ByColumn, dot
from .descent import FAR, MOST_CHANGE, MOST_DAMPING, SLOW, SWEEPS, no_bounds, sweep_gram
from .elastic_net import (
    LEAST_CURVATURE,
    REFIT,
    Accuracy,
    ElasticNetSolver,
    Examples,
    factor_of_floor,
    has_constant_curvature,
    has_many_entries,
    solver_of,
)

MOST_PRODUCTS = 2_000_000
"""The products of a Gram matrix, rows times columns squared, from which BLAS is faster."""


@inlined
def _objective(loss, y, weights, p, w, b, pen, ridge, tilt):
    """Return the mean loss at margins p plus the penalty and the linear term at w and b."""
    f = tilt.b * b
    for i in range(p.size):
        f += weights[i] * value(loss, p[i], y[i])
    for j in range(w.size):
        if w[j] != 0.0:  # the penalty of a column that is left out is infinite
            f += pen[j] * abs(w[j]) + (0.5 * ridge[j] * w[j] + tilt.w[j]) * w[j]
    return f


@inlined
def _write_gram(D, h, total, moves_b, z, G, mean):
    """Write the second derivatives at curvatures h into G and ``mean``: of centred columns, if the intercept moves."""
    for j in range(D.shape[0]):
        for i in range(z.size):
            z[i] = h[i] * D[j, i]
        mean[j] = 0.0
        for i in range(z.size):
            mean[j] += z[i]
        for k in range(j + 1):
            G[j, k] = dot(z, D[k])
    for j in range(D.shape[0]):
        for k in range(j + 1):
            if moves_b:
                G[j, k] -= mean[j] * mean[k] / total
            G[k, j] = G[j, k]
        G[j, j] = max(G[j, j], 0.0)


@kernel
def newton_steps(
    D,
    y,
    weights,
    loss,
    p,
    w,
    b,
    pen,
    ridge,
    tilt,
    G,
    mean,
    total,
    by_row,
    by_column,
    A,
    low,
    high,
    tolerance,
    steps,
    floor,
    lower,
    moves_b,
    stays,
):
    """Take prox-Newton steps on the columns D (d, n) until the objective no longer falls; return b and ``total``.

    w and p change in place.  G and ``mean`` are the second derivatives of a point whose curvatures have the sum
    ``total``, or 0 if there are none yet; they ``stay`` if they are the same at all points.  ``floor`` is the least
    curvature of an example in the first step, and ``lower`` its factor from step to step.  ``by_row`` (5, n) and
    ``by_column`` (2, d) are scratch, and so is A; but the last row of ``by_row`` has the curvatures of G's point.
    """
    c, h, z, trial, kept = by_row[0], by_row[1], by_row[2], by_row[3], by_row[4]
    q, new = by_column[0], by_column[1]
    f = _objective(loss, y, weights, p, w, b, pen, ridge, tilt)
    damping, last, is_fresh, least = 1.0, np.inf, False, floor
    for _ in range(steps):
        now, slope = 0.0, tilt.b
        for i in range(p.size):
            c[i] = weights[i] * derivative(loss, p[i], y[i])
            h[i] = weights[i] * max(curvature(loss, p[i], y[i]), least)
        for i in range(p.size):
            now += h[i]
            slope += c[i]
        change = 0.0
        if total > 0.0:
            for i in range(p.size):
                change += abs(h[i] / now - kept[i] / total)
        if total == 0.0 or change > MOST_CHANGE:
            total, is_fresh = now, True
            for i in range(p.size):
                kept[i] = h[i]
            _write_gram(D, h, total, moves_b, z, G, mean)
        scale = damping * now / total
        db = -slope / (scale * total) if moves_b else 0.0
        for j in range(w.size):
            q[j] = dot(c, D[j]) + tilt.w[j] + ridge[j] * w[j] + scale * db * mean[j]
            new[j] = w[j]
            for k in range(w.size):
                A[j, k] = scale * G[j, k]
            A[j, j] += ridge[j]
        sweep_gram(A, q, new, pen, low, high, 1e-4, 1e-3 * tolerance * abs(f), 2 * SWEEPS)
        for i in range(p.size):
            trial[i] = p[i]
        for j in range(w.size):
            move = new[j] - w[j]
            if move != 0.0:
                db -= move * mean[j] / total if moves_b else 0.0
                for i in range(p.size):
                    trial[i] += move * D[j, i]
        for i in range(p.size):
            trial[i] += db
        reached = _objective(loss, y, weights, trial, new, b + db, pen, ridge, tilt)
        if not reached <= f + 1e-9 * abs(f):
            if is_fresh or stays:
                damping *= 4.0  # a steeper model, from the old point
            total, least = total if stays else 0.0, floor
            if damping > MOST_DAMPING:
                break
            continue
        fall, f, damping, b = f - reached, reached, max(1.0, damping / 4.0), b + db
        least *= lower
        for i in range(p.size):
            p[i] = trial[i]
        for j in range(w.size):
            w[j] = new[j]
        is_fresh = False
        if not stays and fall > max(SLOW * last, FAR * tolerance * abs(f)):
            total = 0.0
        last = fall
        if fall <= tolerance * abs(f):
            break
    return b, total


def is_small(X: ByColumn, loss: Any) -> bool:
    """Return whether one kernel is best: for few rows and columns, and a loss of ours that bends."""
    return isinstance(loss, SMOOTH_LOSSES) and is_few(X.n, X.d, len(X.x))


def is_few(n: int, d: int, entries: int) -> bool:
    """Return whether one kernel is best for n rows with d columns."""
    return 0 < n * d * d <= MOST_PRODUCTS and has_many_entries(n, d, entries)


def quickest(X: ByColumn, loss: Any) -> Callable[..., ElasticNetSolver]:
    """Return what makes the solver for these rows: one kernel where there are few, else the choice of ``solver_of``."""
    return SmallSolver if is_small(X, loss) else solver_of


class SmallSolver(ElasticNetSolver):
    """Solutions of elastic nets for few rows and columns."""

    def _prepare(self) -> None:
        d, n = self.X.d, self.X.n
        self.D = np.ascontiguousarray(self.X.dense().T)
        self.G, self.mean, self.total = np.empty((d, d)), np.empty(d), 0.0
        self._scratch = np.empty((5, n)), np.empty((2, d)), np.empty((d, d)), *no_bounds(d)
        self._all = np.arange(d)

    def take(self, examples: Examples) -> None:
        """Replace the examples, and go back to the model without features."""
        self.total = 0.0
        super().take(examples)

    def solve_for(self, pen: np.ndarray, ridge: np.ndarray, accuracy: Accuracy) -> tuple[np.ndarray, float]:
        """Return the weights and the intercept of a penalty sum_j (pen_j |w_j| + ridge_j w_j^2 / 2)."""
        self._newton(pen, ridge, self._all, accuracy)
        return self.w, self.b

    def refit(self, chosen: np.ndarray, ridge: float, accuracy: Accuracy = REFIT) -> tuple[np.ndarray, float]:
        """Return the weights of some columns, learned again with an L2 term only."""
        before = self.p  # steps change margins in place
        self.p = before.copy()
        found = super().refit(chosen, ridge, accuracy)
        self.p = before
        return found

    def _newton(self, pen: np.ndarray, ridge: np.ndarray, chosen: np.ndarray, accuracy: Accuracy) -> np.ndarray:
        if len(chosen) < self.X.d:  # other columns stay at zero
            (some_pen, some_ridge), pen, ridge = (pen, ridge), np.full(self.X.d, np.inf), np.zeros(self.X.d)
            pen[chosen], ridge[chosen] = some_pen, some_ridge
        y, weights, loss, _ = self.examples
        stays = has_constant_curvature(loss)
        ends = accuracy.tolerance, accuracy.steps, LEAST_CURVATURE * loss.smoothness, factor_of_floor(accuracy, loss)
        self.b, self.total = newton_steps(
            self.D,
            y,
            weights / self.n,
            loss,
            self.p,
            self.w,
            float(self.b),
            pen,
            ridge,
            self.tilt,
            self.G,
            self.mean,
            self.total,
            *self._scratch,
            *ends,
            self.intercept,
            stays,
        )
        return chosen

    def _differentiate(self) -> None:
        """Compute the gradient of the mean loss."""
        y, weights, loss, _ = self.examples
        c = weights * derivative(loss, self.p, y) / self.n
        self.g = np.einsum("i,ji->j", c, self.D) + self.tilt.w  # without BLAS
