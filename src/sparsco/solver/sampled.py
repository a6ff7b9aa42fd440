"""Steps by the second derivatives of a sample of the rows.

    <G, dW> + <slopes_b, db> + (dW, db)^T A (dW, db) / 2 + psi(W + dW)

G and slopes_b are the slopes of the loss over all rows, A its second derivatives over some of them.  So the optimum is
that of all rows, whatever the sample: A only decides how fast it is reached.  With r rows for each weight that moves, a
step leaves a share of about 1/r of the distance to the minimum of the objective.  It costs one pass over all rows.

The slopes at the end of a step show how the loss bends on the way, over all rows.  A is corrected by it (BFGS), so
later steps leave less and less.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..data.rows import Matrix
from ..losses import curvature
from ..penalties.blocks import Blocks
from ..util.blas import one_blas_thread
from .loss_term import LossTerm
from .manifold import Curved
from .sampled_matrix import learn_bend

FLOOR = 1e-3
"""The least curvature of a row, as a share of the bound on it: a saturated row does not show how far a model holds."""
_STALE = 1.2
"""A matrix is computed again when the sum of the curvatures has changed by this factor."""
_SHIFT = 1e-6
"""The second derivative of a common shift of all classes, as a share of that of a single class."""
_LEAST_BEND = 1e-10
"""The least bend of the loss on a step, as a share of that of the model, by which the model is corrected."""


class Point(NamedTuple):
    """Weights (d, m) and intercepts, with the slopes of the mean loss over all rows there."""

    W: np.ndarray
    b: np.ndarray
    G: np.ndarray
    slopes_b: np.ndarray


class Movable(NamedTuple):
    """The weights (d, m) that may move in the next step, and more of them that may move in steps soon after it."""

    now: np.ndarray
    soon: np.ndarray


class Sample:
    """Some rows, with their part of the mean loss, and the matrix A of the last step."""

    def __init__(self, rows: Matrix, numbers: np.ndarray, factors: np.ndarray, term: LossTerm, intercept: bool) -> None:
        """Take the rows with these numbers, among all rows of the mean loss ``term``, which has no kinks.

        ``factors`` are the factors by which they stand for other rows.
        """
        self.numbers, self.intercept = numbers, intercept
        self.X = rows.array if rows.is_full else rows.to_scipy()
        share = term.share[numbers] * factors[:, None]
        self.term = LossTerm(term.loss, term.y[numbers], share, np.zeros_like(share))
        self._places: np.ndarray | None = None
        """The weights of the matrix A, by their places in W; None: there is no matrix yet."""
        self._A, self._total = np.empty((0, 0)), 1.0
        """The matrix, and the sum of the curvatures by which it was computed."""

    def minimum(
        self, at: Point, P: np.ndarray, psi: Blocks, movable: Movable, least: np.ndarray | None, tol: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights at the minimum of the model, and the changes of the intercepts.

        P are the margins of all rows.  Rare columns may have no entry in the sample: ``least`` (d, m) bounds second
        derivatives from below, as shares of the sum of curvatures.
        """
        couples = self.term.loss.couples
        bends = self.term.bends(P[self.numbers], 0.0 if couples else FLOOR)
        total = float(bends.h.sum())
        if not 1.0 / _STALE < total / self._total < _STALE:
            self._places = None
        curved = Curved(self.X, at.W, psi, bends.h, bends.s, self.intercept, movable.now)
        places = np.flatnonzero(movable.now)
        if self._places is None or not np.isin(places, self._places, assume_unique=True).all():
            wide = Curved(self.X, at.W, psi, bends.h, bends.s, self.intercept, movable.soon)
            self._places, self._A = np.flatnonzero(movable.soon), wide.matrix(np.zeros(len(at.W) + 1))
            self._total = total
            if couples:  # a common shift of all classes has no second derivative
                np.einsum("ii->i", self._A)[:] *= 1.0 + _SHIFT
            if least is not None:
                own = np.einsum("ii->i", self._A)[: len(self._places)]
                np.maximum(own, (least * bends.h.sum(0))[movable.soon], out=own)
        some = np.searchsorted(self._places, places)
        some = np.append(some, np.arange(len(self._places), len(self._A)))
        return curved.minimum(self._A[np.ix_(some, some)], at.G, at.slopes_b, tol)

    def forget(self) -> None:
        """Compute the matrix again in the next step."""
        self._places = None

    def correct(self, before: Point, after: Point, rho: float) -> None:
        """Correct the matrix by the bend of the objective on the way of a step; ``rho`` is the L2 weight of psi."""
        if self._places is None:
            return
        move = self._flat(self._places, after.W - before.W, after.b - before.b)
        bent = self._flat(self._places, after.G - before.G, after.slopes_b - before.slopes_b)
        bent[: len(self._places)] += rho * move[: len(self._places)]
        with one_blas_thread():
            learn_bend(self._A, move, bent, _LEAST_BEND)

    def _flat(self, places: np.ndarray, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the numbers at some places of W, then those of the intercepts."""
        weights = W.reshape(-1)[places]
        return np.append(weights, b) if self.intercept else weights


def own_curvatures(loss: Any, P: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the second derivative of each example's loss in each of its margins."""
    if not loss.couples:
        return curvature(loss, P, y)
    shares = loss.shares(P, y)
    return shares * (1.0 - shares)
