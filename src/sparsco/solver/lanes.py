"""Elastic nets for few columns with many entries, many models side by side: one product of matrices serves all.

The models of one class over several folds differ in a few rows, so they share the Gram matrix of a prox-Newton step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..losses import curvature, derivative, value
from .descent import descend_gram
from .elastic_net import LEAST_CURVATURE, SWEEPS, Accuracy, Gram, gram_of

_SCALES = 0.5, 2.0
"""A Gram matrix serves as long as the sum of the curvatures is between these multiples of its own."""
_SPENT = 4
"""A Gram matrix is computed again for a lane that still has steps to take after so many."""
_MOST_DAMPING = 1e4
_INNER = 1e-3
"""A sweep that changes a quadratic model by at most this share of the first one is the last one."""


class Lanes(NamedTuple):
    """Targets and weights of each lane, (n, lanes): weights sum to the mean of a loss, and are 0 for rows left out."""

    y: np.ndarray
    weights: np.ndarray
    loss: Any
    group: np.ndarray
    """The lanes of a group share a Gram matrix, for which the rows left out count, too."""


class _Step(NamedTuple):
    """Derivatives in the margins, sums of the curvatures, and the gradient of the mean loss, of some lanes."""

    c: np.ndarray
    h: np.ndarray
    g: np.ndarray

    def at(self, some: np.ndarray) -> _Step:
        return _Step(self.c[some], self.h[some], self.g[:, some])


class LaneSolver:
    """Solutions of the lanes along strengths; ``solve`` starts at the solutions before."""

    def __init__(self, D: np.ndarray, lanes: Lanes, units: np.ndarray, intercept: bool) -> None:
        """Take the columns of D (n, d), and start at the models without features."""
        self.D, self.lanes, self.units, self.intercept = D, lanes, units, intercept
        count = lanes.y.shape[1]
        self.w, self.b = np.zeros((D.shape[1], count), order="F"), np.zeros(count)
        self.p = np.zeros(lanes.y.shape, order="F")
        self.grams: dict[int, Gram] = {}
        if intercept:
            self._centre()
        self._now: _Step | None = None

    def start_at(self, w: np.ndarray, b: np.ndarray) -> None:
        """Go to these weights (d, lanes) and intercepts."""
        self.w, self.b = np.asfortranarray(w), b.copy()
        self.p, self._now = np.asfortranarray(self.D @ self.w + b), None

    def solve(self, lam: float, l1_ratio: float, accuracy: Accuracy) -> None:
        """Change weights and intercepts to those of a strength and a mixture."""
        pen, ridge = lam * l1_ratio * self.units, lam * (1.0 - l1_ratio) * np.square(self.units)
        open_lanes, damping = np.arange(len(self.b)), np.ones(len(self.b))
        f = self._objectives(open_lanes, self.p, self.w, pen, ridge)
        now = self._step(open_lanes) if self._now is None else self._now
        every = _Step(now.c.copy(), now.h.copy(), np.asfortranarray(now.g.copy()))
        for step in range(accuracy.steps):
            if step == _SPENT:
                self._renew(open_lanes)
            w, db, fall = self._models(
                open_lanes, every.at(open_lanes), pen, ridge, damping, 1e-3 * accuracy.tolerance * f
            )
            goes_on = fall > accuracy.tolerance * np.abs(f[open_lanes])
            open_lanes, w, db = open_lanes[goes_on], w[:, goes_on], db[goes_on]
            if not open_lanes.size:
                break
            p = self.p[:, open_lanes] + self.D @ (w - self.w[:, open_lanes]) + db
            reached = self._objectives(open_lanes, p, w, pen, ridge)
            better = reached <= f[open_lanes] + 1e-9 * np.abs(f[open_lanes])
            self._reject(open_lanes[~better], damping)
            done = open_lanes[better]
            if done.size:
                self.w[:, done], self.p[:, done], f[done] = w[:, better], p[:, better], reached[better]
                self.b[done] += db[better]
                damping[done] = np.maximum(1.0, damping[done] / 4.0)
                found = self._step(done)
                every.c[done], every.h[done], every.g[:, done] = found
            open_lanes = open_lanes[damping[open_lanes] <= _MOST_DAMPING]
        self._now = every

    def largest(self) -> float:
        """Return the smallest L1 weight at which no lane selects a feature; only valid at the beginning."""
        slopes = np.abs(self._step(np.arange(len(self.b))).g).max(1)
        penalised = (self.units > 0.0) & (slopes > 0.0)
        return float((slopes[penalised] / self.units[penalised]).max(initial=0.0))

    def _centre(self) -> None:
        """Go to the best intercepts of the models without features."""
        y, weights, loss, _ = self.lanes
        for _ in range(50):
            h = (weights * np.maximum(curvature(loss, self.p, y), LEAST_CURVATURE * loss.smoothness)).sum(0)
            db = -(weights * derivative(loss, self.p, y)).sum(0) / h
            self.b += db
            self.p += db
            if np.abs(db).max() <= 1e-9 * (1.0 + np.abs(self.b).max()):
                break

    def _objectives(
        self, some: np.ndarray, p: np.ndarray, w: np.ndarray, pen: np.ndarray, ridge: np.ndarray
    ) -> np.ndarray:
        y, weights = self.lanes.y[:, some], self.lanes.weights[:, some]
        penalty = (pen[:, None] * np.abs(w)).sum(0) + 0.5 * (ridge[:, None] * np.square(w)).sum(0)
        return (weights * value(self.lanes.loss, p, y)).sum(0) + penalty

    def _step(self, some: np.ndarray) -> _Step:
        """Return the derivatives of some lanes at their margins."""
        y, weights, loss = self.lanes.y[:, some], self.lanes.weights[:, some], self.lanes.loss
        p = self.p[:, some]
        c = weights * derivative(loss, p, y)
        h = weights * np.maximum(curvature(loss, p, y), LEAST_CURVATURE * loss.smoothness)
        return _Step(c.sum(0), h.sum(0), self.D.T @ c)

    def _reject(self, lanes: np.ndarray, damping: np.ndarray) -> None:
        """Prepare steeper models for lanes whose last step was too long."""
        for lane in lanes:
            damping[lane] *= 4.0

    def _renew(self, lanes: np.ndarray) -> None:
        """Forget the Gram matrices of these lanes."""
        for group in np.unique(self.lanes.group[lanes]):
            self.grams.pop(int(group), None)

    def _gram(self, lane: int, h: float) -> Gram:
        """Return the Gram matrix of a lane's group, which has about the sum of the lane's curvatures, h."""
        group = int(self.lanes.group[lane])
        known = self.grams.get(group)
        if known is None or not _SCALES[0] < h / known.total < _SCALES[1]:
            y, weights, loss, _ = self.lanes
            own = np.maximum(curvature(loss, self.p[:, lane], y[:, lane]), LEAST_CURVATURE * loss.smoothness)
            whole = weights[:, self.lanes.group == group].max(1)
            known = self.grams[group] = gram_of(self.D, whole * own, self.intercept, loss, single=True)
        return known

    def _models(
        self, some: np.ndarray, at: _Step, pen: np.ndarray, ridge: np.ndarray, damping: np.ndarray, least: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the minima of the quadratic models, the changes of the intercepts, and how much the models fall."""
        w, db, falls = self.w[:, some].copy(order="F"), np.zeros(len(some)), np.zeros(len(some))
        for k, lane in enumerate(some.tolist()):
            G, mean, total = self._gram(lane, float(at.h[k]))
            scale = damping[lane] * float(at.h[k]) / total  # the model is divided by it
            q, new = (at.g[:, k] + ridge * w[:, k]) / scale, w[:, k]
            if self.intercept:
                db[k] = -at.c[k] / (scale * total)
                q += db[k] * mean
            if ridge.any():
                G = G.copy()
                G[np.diag_indices_from(G)] += ridge / scale
            first, before = q.copy(), new.copy()
            descend_gram(G, q, new, pen / scale, _INNER, abs(least[lane]) / (scale * len(new)), 2 * SWEEPS)
            move = new - before
            if self.intercept:
                db[k] -= (mean * move).sum() / total
            quadratic = 0.5 * ((first + q) * move).sum()  # q has become the gradient at the end
            gain = -quadratic - (pen / scale * (np.abs(new) - np.abs(before))).sum()
            falls[k] = scale * gain + (0.5 * at.c[k] ** 2 / (scale * total) if self.intercept else 0.0)
        return w, db, falls
