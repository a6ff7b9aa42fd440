"""Elastic nets for few columns with many entries, many models side by side: one product of matrices serves all.

The models of one class over several folds differ in a few rows, so they share the Gram matrix of a prox-Newton step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..losses import curvature, derivative, value
from .descent import SWEEPS, descend_gram, no_bounds
from .elastic_net import LEAST_CURVATURE, Accuracy, Gram, every_row, gram_of

_SCALES = 0.7, 1.4
"""A Gram matrix serves as long as the sum of the curvatures is between these multiples of its own."""
_MOST_DAMPING = 1e4
_LEAST_SHARE = 0.3
"""The least second derivative of a column, as a share of the one that it has if all rows have the same curvature."""


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


class _Point(NamedTuple):
    """Weights, intercepts and margins of all lanes, and their strength."""

    w: np.ndarray
    b: np.ndarray
    p: np.ndarray
    lam: float


class LaneSolver:
    """Solutions of the lanes along strengths; ``solve`` starts at the solutions before."""

    def __init__(self, D: np.ndarray, lanes: Lanes, units: np.ndarray, intercept: bool) -> None:
        """Take the columns of D (n, d), and start at the models without features."""
        self.D, self.lanes, self.units, self.intercept = D, lanes, units, intercept
        count = lanes.y.shape[1]
        self.w, self.b = np.zeros((D.shape[1], count), order="F"), np.zeros(count)
        self.p = np.zeros(lanes.y.shape, order="F")
        self.grams: dict[int, Gram] = {}
        self.every = every_row(len(D), D.shape[1], lanes.loss)
        self.some_rows = D if self.every == 1 else np.ascontiguousarray(D[:: self.every])
        self.squares = D.var(0, dtype=np.float64) if intercept else np.square(D, dtype=np.float64).mean(0)
        self._last: _Point | None = None
        self._lam = 0.0
        if intercept:
            self._centre()
        self._now: _Step | None = None

    def start_at(self, w: np.ndarray, b: np.ndarray) -> None:
        """Go to these weights (d, lanes) and intercepts."""
        self.w, self.b = np.asfortranarray(w), b.copy()
        self.p, self._now = np.asfortranarray(self._product(self.D, self.w) + b), None

    def solve(self, lam: float, l1_ratio: float, accuracy: Accuracy) -> None:
        """Change weights and intercepts to those of a strength and a mixture."""
        pen, ridge = lam * l1_ratio * self.units, lam * (1.0 - l1_ratio) * np.square(self.units)
        open_lanes, damping = np.arange(len(self.b)), np.ones(len(self.b))
        every, f = self._start(lam, pen, ridge)
        for step in range(accuracy.steps):
            w, db, fall = self._models(
                open_lanes, every.at(open_lanes), pen, ridge, damping, accuracy.tolerance, 1e-3 * accuracy.tolerance * f
            )
            goes_on = (fall > accuracy.tolerance * np.abs(f[open_lanes])) | (step == 0)
            open_lanes, w, db = open_lanes[goes_on], w[:, goes_on], db[goes_on]
            if not open_lanes.size:
                break
            p = self.p[:, open_lanes] + self._product(self.D, w - self.w[:, open_lanes]) + db
            reached = self._objectives(open_lanes, p, w, pen, ridge)
            better = reached <= f[open_lanes] + 1e-9 * np.abs(f[open_lanes])
            damping[open_lanes[~better]] *= 4.0  # a steeper model, from the old point
            done = open_lanes[better]
            if done.size:
                self.w[:, done], self.p[:, done], f[done] = w[:, better], p[:, better], reached[better]
                self.b[done] += db[better]
                damping[done] = np.maximum(1.0, damping[done] / 4.0)
                found = self._step(done)
                every.c[done], every.h[done], every.g[:, done] = found
            open_lanes = open_lanes[damping[open_lanes] <= _MOST_DAMPING]
        self._now = every

    def _start(self, lam: float, pen: np.ndarray, ridge: np.ndarray) -> tuple[_Step, np.ndarray]:
        """Return the derivatives and objectives of all lanes where they start to a strength.

        They start at the last solution, or further on along the line from the one before it, if that is better.
        """
        here, last = _Point(self.w.copy(order="F"), self.b.copy(), self.p.copy(order="F"), self._lam), self._last
        every = np.arange(len(self.b))
        now = self._step(every) if self._now is None else self._now
        f = self._objectives(every, self.p, self.w, pen, ridge)
        self._last, self._lam = here if here.lam > 0.0 else None, lam
        if last is None or not 0.0 < lam < here.lam < last.lam:
            return now, f
        far = min(np.log(here.lam / lam) / np.log(last.lam / here.lam), 1.0)
        w, p = here.w + far * (here.w - last.w), here.p + far * (here.p - last.p)
        reached = self._objectives(every, p, w, pen, ridge)
        better = np.flatnonzero(reached < f)
        if better.size:
            self.w[:, better], self.p[:, better], f[better] = w[:, better], p[:, better], reached[better]
            self.b[better] += far * (here.b - last.b)[better]
            found = self._step(better)
            now.c[better], now.h[better], now.g[:, better] = found
        return now, f

    def _product(self, D: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the product of the columns, or of their transpose, with some vectors, in the digits of the columns."""
        return np.asfortranarray(D @ x.astype(D.dtype, copy=False), dtype=np.float64)

    def _centre(self) -> None:
        """Go to the best intercepts of the models without features."""
        y, weights, loss, _ = self.lanes
        for _ in range(50):
            h = (weights * np.maximum(curvature(loss, self.p, y), LEAST_CURVATURE * loss.smoothness)).sum(0)
            db = -(weights * derivative(loss, self.p, y)).sum(0) / h
            self.b += db
            self.p += db
            if np.abs(db).max() <= 1e-9 * np.abs(self.b).max():
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
        return _Step(c.sum(0), h.sum(0), self._product(self.D.T, c))

    def _gram(self, lane: int, h: float) -> Gram:
        """Return the Gram matrix of a lane's group, which has about the sum of the lane's curvatures, h."""
        group = int(self.lanes.group[lane])
        known = self.grams.get(group)
        if known is None or not _SCALES[0] < h / known.total < _SCALES[1]:
            y, weights, loss, _ = self.lanes
            some = slice(None, None, self.every)
            curved = curvature(loss, self.p[some, lane], y[some, lane])
            whole = weights[some, self.lanes.group == group].max(1)
            own = whole * np.maximum(curved, LEAST_CURVATURE * loss.smoothness)
            known = self.grams[group] = gram_of(self.some_rows, own * (h / float(own.sum())), self.intercept)
            at = np.diag_indices_from(known.G)  # some rows may have few entries of a column
            known.G[at] = np.maximum(known.G[at], _LEAST_SHARE * h * self.squares)
        return known

    def _models(
        self,
        some: np.ndarray,
        at: _Step,
        pen: np.ndarray,
        ridge: np.ndarray,
        damping: np.ndarray,
        share: float,
        least: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the minima of the quadratic models, the changes of the intercepts, and how much the models fall.

        A sweep that changes a model by at most ``share`` of the first one, or by ``least``, is the last one.
        """
        w, db, falls = self.w[:, some].copy(order="F"), np.zeros(len(some)), np.zeros(len(some))
        ends = no_bounds(len(self.units))
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
            descend_gram(G, q, new, pen / scale, *ends, share, abs(least[lane]) / (scale * len(new)), 2 * SWEEPS)
            move = new - before
            if self.intercept:
                db[k] -= (mean * move).sum() / total
            quadratic = 0.5 * ((first + q) * move).sum()  # q has become the gradient at the end
            gain = -quadratic - (pen / scale * (np.abs(new) - np.abs(before))).sum()
            falls[k] = scale * gain + (0.5 * at.c[k] ** 2 / (scale * total) if self.intercept else 0.0)
        return w, db, falls
