"""Corners: where a loss with kinks has many optima, one that uses few features.

The objective is linear along a direction in which no weight changes its sign and no row crosses a kink.  A direction in
which the rows at a kink stay there is followed downhill, or to any side if it is level, until a weight is zero or one
more row is at its kink.  Either happens only so often.  At the end no such direction is left: this is a corner, as the
simplex method would return.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..losses import derivative, value
from ..solver.columns import some_by_column
from ..util.blas import one_blas_thread
from .reservoir import SampleRows

_NEAR = 1e-3
"""A row is near a kink if its margin is that near to it, as a share of the mean size of margins and kinks, which
are taken from their mean if the loss is one of p - y.  A weight that is smaller than this share of the largest counts
as zero."""
_EXACT = 1e-6
"""A row is at its kink to rounding if it is nearer than this share of what is near."""
_LEVEL = 1e-9
"""A direction moves no row at a kink if their squares sum up to at most this share of the largest such sum."""


class Faces(NamedTuple):
    """The mean loss of margins p = X v plus sum_j pen_j |v_j|; the intercept is a column of ones without a penalty."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    loss: Any
    pen: np.ndarray

    @property
    def kinks(self) -> np.ndarray:
        """Return the margins (1 or 2, n) at which the slope of a row changes."""
        return self.loss.kinks(self.y)

    def objective(self, v: np.ndarray) -> float:
        """Return the objective."""
        losses = self.weights * value(self.loss, self.X @ v, self.y)
        return float(losses.mean() + (self.pen * np.abs(v)).sum())

    def gradient(self, v: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the gradient of the objective where only these rows move."""
        c = self.weights * derivative(self.loss, self.X @ v, self.y) / len(self.y)
        return np.where(rows, c, 0.0) @ self.X + self.pen * np.sign(v)


def corner(faces: Faces, v: np.ndarray) -> np.ndarray:
    """Return weights of no larger objective, of which more are zero or more rows are at their kinks.

    >>> from sparsco.losses import Hinge
    >>> X = np.array([[1.0, 1.0], [1.0, 1.0]])  # twice the same column
    >>> corner(Faces(X, np.ones(2), np.ones(2), Hinge(), np.full(2, 0.1)), np.array([0.25, 0.75]))
    array([0., 1.])
    """
    X, kinks = faces.X, faces.kinks
    centre = float(kinks.mean()) if faces.loss.shifts else 0.0
    near = _NEAR * float(np.abs(X @ v - centre).mean() + np.abs(kinks - centre).mean())
    v = _snapped(faces, v, near)
    stay = np.zeros(len(X), bool)
    for _ in range(2 * len(v) + 1):
        p = X @ v
        stay |= (np.abs(kinks - p) <= _EXACT * near).any(0)
        moving = np.flatnonzero((v != 0.0) | (faces.pen == 0.0))
        A, u = X[np.ix_(stay, moving)], np.zeros_like(v)
        u[moving] = _level(A.T @ A, -faces.gradient(v, ~stay)[moving])
        steps = [(*_first_stop(faces, v, p, side, stay), side) for side in (u, -u)]
        step, j, side = steps[0] if np.isfinite(steps[0][0]) else steps[1]
        if not np.isfinite(step):
            break
        v = v + step * side
        if j >= 0:
            v[j] = 0.0
    return v


def _first_stop(faces: Faces, v: np.ndarray, p: np.ndarray, u: np.ndarray, stay: np.ndarray) -> tuple[float, int]:
    """Return how far the direction can be followed, and the weight that is zero there, or -1 if a row is at a kink."""
    q = faces.X @ u
    with np.errstate(divide="ignore", invalid="ignore"):
        to_zero = np.where((u * v < 0.0) & (faces.pen > 0.0), -v / u, np.inf)
        to_kink = np.where((q * (faces.kinks - p) > 0.0) & ~stay, (faces.kinks - p) / q, np.inf)
    j, step = int(to_zero.argmin()), float(to_kink.min(initial=np.inf))
    return (float(to_zero[j]), j) if to_zero[j] <= step else (step, -1)


def _level(G: np.ndarray, downhill: np.ndarray) -> np.ndarray:
    """Return a direction u with u^T G u = 0, nearest to ``downhill`` if that is not level; 0 if there is none."""
    if not len(G):
        return downhill
    sums, directions = np.linalg.eigh(G)
    level = directions[:, sums <= _LEVEL * max(sums[-1], 1e-300)]
    u = level @ (level.T @ downhill)
    is_level = np.abs(u).max(initial=0.0) <= _LEVEL * np.abs(downhill).max(initial=0.0)
    return level[:, 0] if is_level and level.size else u * (not is_level)


def _snapped(faces: Faces, v: np.ndarray, near: float) -> np.ndarray:
    """Return the weights at which small ones are zero and all rows near a kink are at it, if that is no worse."""
    X, kinks = faces.X, faces.kinks
    gaps = kinks - X @ v
    stay = np.abs(gaps).min(0) <= near
    penalised = faces.pen > 0.0  # the intercept has the size of y, and says nothing of that of weights
    kept = ~penalised | (np.abs(v) > _NEAR * np.abs(v[penalised]).max(initial=0.0))
    new = np.where(kept, v, 0.0)
    A = X[np.ix_(stay, kept)]
    missing = (kinks[np.abs(gaps).argmin(0), np.arange(len(stay))] - X @ new)[stay]
    new[kept] += np.linalg.lstsq(A.T @ A, A.T @ missing, rcond=1e-12)[0]
    return new if faces.objective(new) <= faces.objective(v) else v


def at_corner(R: SampleRows, loss: Any, pen: np.ndarray, w: np.ndarray, b: float, fit_intercept: bool) -> Any:
    """Return a model of no larger objective on R that may have fewer features."""
    n, at = len(R.weights), np.flatnonzero(w)
    X = some_by_column(R.indptr, R.indices, R.data, np.arange(n), at, w.size).dense()
    columns = np.column_stack([X, np.ones((n, int(fit_intercept)))])
    faces = Faces(columns, R.targets, R.weights, loss, np.append(pen[at], [0.0] * fit_intercept))
    with one_blas_thread():
        found = corner(faces, np.append(w[at], [b] * fit_intercept))
    w = np.zeros_like(w)
    w[at] = found[: at.size]
    return w, float(found[-1]) if fit_intercept else b
