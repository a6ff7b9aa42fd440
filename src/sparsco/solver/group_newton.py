"""The exact optimum of a group lasso in some columns, for one output: prox-Newton steps by a matrix that learns.

    1/n sum_i a_i loss(<w, x_i> + b, y_i) + rho / 2 ||w||^2 + sum_g strength_g ||w_g||

Each step minimises a quadratic model of the loss plus psi by block coordinate descent (``group_descent``), then
searches along the line.  The matrix of the model is estimated from some of the rows (``sampled_matrix``), and scaled to
how the loss bends on the first step, as these rows show it.  From then on every step shows how the gradient changes
along it, and corrects the matrix (BFGS).  So a step costs one product with the columns and one with their transpose.
Groups that are zero, and whose gradients are inside of their strengths, are not in the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..penalties.blocks import Blocks
from ..util.blas import one_blas_thread
from .best_intercept import CENTRED, NEWTON_STEPS, Settled, with_best_intercept
from .certificate import balanced, gap_of
from .group_descent import descend_group_matrix, put_centred, put_last
from .loss_term import LossTerm
from .moving_point import MovingPoint
from .sampled_matrix import DenseColumns, SparseColumns, centred, effective, learn_bend, shrink

_STEPS = 40
_SWEEPS = 200
_ACCURACY = 1e-3
"""A sweep that changes the model by at most this share of the first one is the last."""
_SLACK = 0.03
"""The share of the tolerance to which a model is solved."""
_LEAST_ROWS, _ROWS_PER_COLUMN = 1000, 2
"""The rows of a sample: at least so many, and so many for each column of the model."""
_CELLS = 100_000_000
"""The most entries of a sample."""
_MORE_ROWS = 4
"""The factor by which samples grow after a step that was much too long, and when steps stall."""
_STALLED, _STALLS = 0.7, 3
"""A step stalls if it leaves more than this share of the least violation; after so many the matrix is made anew."""
_FLOOR = 1e-3
"""The least curvature of a row, as a share of the loss's scale: a flat row does not show how far it is flat."""
_LOOKS, _SETTLED, _FARTHEST = 3, 0.05, 3.0
"""How often a new model is scaled to how the loss bends on the way to its minimum, at most.  A change by less than this
share is the last, and the largest factor."""
_LEAST_BEND = 1e-8
"""The least bend of the loss on a step, as a share of that of the model, by which the model is corrected."""
_FLAT = 1e-9
"""The least eigenvalue of a group, as a share of the mean."""
_MANY = 0.5
"""A model is made anew if more than this share of its groups come in at once."""
_SHORT, _SHORTEST = 0.2, 1e-3
"""The share of a step below which it was much too long, and the least share that is tried."""
_INTERCEPTS = 8
"""The most Newton steps to the best intercept of a trial."""
_SHORTER = 0.1
"""The least factor by which a step that was too long is made shorter at once."""
_LONG, _LONGEST = 1.1, 3.0
"""A step that ends where the objective still falls is made longer, if by at least and at most these factors."""
_LEAST = 1e-15
"""The least violation, in units of the strength, that is tried for a duality gap."""
_MOST_COLUMNS, _MOST_IN_GROUP = 3000, 200
"""The most columns of a model, whose square is its size, and of a group, whose third power is its cost."""


Bend = Callable[[np.ndarray, float], float]
"""A function that returns how much the loss bends on a step, over what the curvatures at its start expect."""


class Quadratic:
    """A quadratic model of loss + L2 term in k columns and the intercept, with the matrix A (k + 1, k + 1).

    The columns are whole groups, one after the other.  Group a is at ``start[a]:start[a + 1]``.
    """

    def __init__(
        self, A: np.ndarray, columns: np.ndarray, start: np.ndarray, total: float, bend: Bend | None = None
    ) -> None:
        self.A, self.columns, self.start, self.total, self.bend = A, columns, start, total, bend
        """``total`` is the sum of the curvatures of all rows to which the matrix is scaled; ``bend`` is for the first
        step."""

    def learn(self, move: np.ndarray, change: np.ndarray, total: float) -> None:
        """Correct the matrix by a move of weights and intercept, and the change of the gradient that it caused.

        The sum of the curvatures of all rows is ``total`` after it.
        """
        self.scale(total)
        self.bend = None
        learn_bend(self.A, move, change, _LEAST_BEND)

    def scale(self, total: float) -> None:
        """Scale the matrix to another sum of curvatures."""
        self.A *= total / self.total
        self.total = total

    def joined(self, other: Quadratic) -> Quadratic:
        """Return a model in the columns of both, which are taken as uncorrelated."""
        k, more = len(self.columns), len(other.columns)
        A = np.zeros((k + more + 1, k + more + 1))
        put_centred(self.A, A, 0)
        put_centred(other.A, A, k)
        put_last(A, np.concatenate([self.A[-1, :-1], other.A[-1, :-1], self.A[-1, -1:]]))
        start = np.append(self.start[:-1], k + other.start)
        return Quadratic(A, np.append(self.columns, other.columns), start, self.total, self.bend)

    def minimum(self, w: np.ndarray, g: np.ndarray, strengths: np.ndarray, tol: float) -> tuple[np.ndarray, float]:
        """Return the weights at the minimum of the model plus psi, and the change of the intercept.

        The gradient of the model at w is g, in all columns and the intercept.  Before its first step the model is
        scaled to how the loss bends on the way to its minimum.
        """
        S, mean, total = centred(self.A), self.A[-1, :-1], float(self.A[-1, -1])
        Q, first, e = eigenvectors(S, self.start)
        before, new, factor = w[self.columns], w.copy(), 1.0
        own, change, pull = before.copy(), np.zeros(len(before)), g[self.columns] - g[-1] / total * mean
        least = tol * tol / float(e.max(initial=1e-300))
        for look in range(_LOOKS + 1):  # factor S with the strengths has the same minimum as S with these over factor
            q = change + pull / factor
            descend_group_matrix(S, q, own, self.start, strengths / factor, Q, first, e, _ACCURACY, least, _SWEEPS)
            change = q - pull / factor
            new[self.columns] = own
            move = -(float(g[-1]) / factor + float(mean @ (own - before))) / total
            if self.bend is None or look == _LOOKS:
                break
            seen = min(max(self.bend(new - w, move), 1.0 / _FARTHEST), _FARTHEST)
            if abs(seen - factor) <= _SETTLED * factor:
                break
            factor = seen
        self.scale(factor * self.total)
        return new, move


def eigenvectors(S: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the eigenvectors of the diagonal block of each group, where each begins, and all eigenvalues.

    Eigenvalues are raised to a small share of their mean.
    """
    sizes = np.diff(start)
    first = np.append(0, np.cumsum(sizes * sizes))
    Q, e = np.empty(first[-1]), np.empty(start[-1])
    for p in np.flatnonzero(np.bincount(sizes)):
        own = np.flatnonzero(sizes == p)
        at = start[own, None] + np.arange(p)
        e[at], vectors = np.linalg.eigh(S[at[:, :, None], at[:, None, :]])
        Q[first[own, None] + np.arange(p * p)] = vectors.reshape(len(own), p * p)
    return Q, first, np.maximum(e, max(_FLAT * float(e.sum()) / max(e.size, 1), 1e-300))


class Certificate(NamedTuple):
    """How far a point can be from the optimum."""

    violation: float
    """The largest violation of an optimality condition, in units of the strength."""
    duality_gap: float
    """A bound on objective - optimum; NaN for a loss without a conjugate."""
    relative_gap: float
    slopes: np.ndarray
    """The slopes of the loss in the margins (n, 1) by which the bound is computed."""


class GroupNewton(MovingPoint):
    """The group lasso in some columns, and a point that moves to its optimum."""

    at: Settled
    """The present point's margins with the derivatives of each row's loss, and the slopes times the rows' shares."""
    c: np.ndarray
    _tried: Settled
    """The intercept and the margins that were tried last."""

    def __init__(self, columns: DenseColumns | SparseColumns, psi: Blocks, term: LossTerm, intercept: bool) -> None:
        """Take the columns of whole groups."""
        super().__init__(psi, term, intercept)
        assert psi.groups is not None
        self.columns, self.groups, self.times = columns, psi.groups, 1
        """The columns, the group of each, and the factor by which samples are larger than usual."""
        self.sample: tuple[int, DenseColumns | SparseColumns] | None = None
        """The rows of the last sample, one in so many."""
        self.model: Quadratic | None = None
        self.violation, self.is_fresh = np.inf, False
        """The largest violation, and whether the matrix of the model was made at the present point."""
        self.spread: np.ndarray | None = None
        self.is_known = False
        """The mean square of each column, if a first look at the columns has shown it, and whether there was one."""

    @staticmethod
    def serves(psi: Blocks, loss: Any, outputs: int) -> bool:
        """Return whether a problem can be solved here: groups alone, one output, a loss without kinks."""
        if psi.groups is None or outputs > 1 or not loss.curved or psi.l1.any() or not psi.groups.size:
            return False
        return int(np.bincount(psi.groups).max()) <= _MOST_IN_GROUP

    def certified(self, tol: float, unit: float) -> Certificate:
        """Move to the optimum until violations are at most ``tol`` units, and the duality gap that share of f."""
        end, least = tol * unit, _LEAST * unit
        while True:
            reached = self.solve(end)
            found = self._certificate(unit)
            if not reached or not found.relative_gap > tol or end <= least:
                return found
            end *= 0.1

    def _certificate(self, unit: float) -> Certificate:
        """Return the violation and the duality gap at the present point.

        Slopes must sum to zero.  If the intercept is not at its best value, they change, and so does their gradient.
        """
        slopes, G = self.at.slopes, self.g[:-1, None]
        if self.term.loss.conjugate is None:
            return Certificate(self.violation / unit, np.nan, np.nan, slopes)
        if self.intercept and abs(self.g[-1]) > CENTRED * float(np.abs(self.c).sum()):
            slopes = balanced(self.term, self.P, slopes)
            with one_blas_thread():
                G = self.columns.gradient((self.term.share * slopes)[:, 0])[:, None]
        gap = gap_of(self.term, self.psi, (self.W, self.b, self.P), self.f, slopes, G, 0.0 * self.b)
        return Certificate(self.violation / unit, gap, gap / max(abs(self.f), self.term.least), slopes)

    def solve(self, tol: float) -> bool:
        """Move to the optimum until no violation exceeds ``tol``; return whether that was reached."""
        with one_blas_thread():
            g, least, stalls = self._first_gradient(), np.inf, 0
            self.g = g
            for _ in range(_STEPS):
                worst = self.violation = self._violation(g[:-1, None], g[-1:])
                if worst <= tol:
                    return True
                stalls = 0 if worst < _STALLED * least else stalls + 1
                least, self.steps = min(least, worst), self.steps + 1
                if stalls == _STALLS:
                    stalls = 0
                    self._begin_anew(True)
                before = self.W, self.b
                if not self._step(g, tol):
                    return False
                last, g = g, self._gradient()
                self.g = g
                self._learn(self.W - before[0], self.b - before[1], g - last)
        return False

    def start(self, W: np.ndarray, b: np.ndarray, P: np.ndarray) -> None:
        """Let the next solution start at these weights and this intercept, which have margins P.

        Unlike ``place`` it computes no objective: the solution begins with another intercept.
        """
        self.W, self.b, self.P = W, b, P

    def _first_gradient(self) -> np.ndarray:
        """Return the gradient of the loss at the best intercept (k + 1,), and note the columns' spread."""
        self._tried = with_best_intercept(self.term, self.b, self.P, NEWTON_STEPS if self.intercept else 0)
        self.place(self.W, *self._tried[:2])
        self._arrive()
        if self.is_known:
            return self._gradient()
        g, self.spread = self.columns.first_look(self.c[:, 0], self._curvatures())
        self.is_known = True
        return self._with_intercept(g)

    def _gradient(self) -> np.ndarray:
        """Return the gradient of the loss in the weights and the intercept (k + 1,)."""
        return self._with_intercept(self.columns.gradient(self.c[:, 0]))

    def _with_intercept(self, g: np.ndarray) -> np.ndarray:
        return np.append(g, self.c.sum() if self.intercept else 0.0)

    def _curvatures(self) -> np.ndarray:
        """Return the second derivatives of the mean loss in the margins, raised to a floor."""
        return (self.term.share * np.maximum(self.at.curvatures, _FLOOR * self.term.bend))[:, 0]

    def _learn(self, dW: np.ndarray, db: np.ndarray, change: np.ndarray) -> None:
        """Correct the model by a step and the change of the gradient of the loss."""
        self.is_fresh = False
        if self.model is not None:
            own = self.model.columns
            bend = change[own] + self.psi.rho * dW[own, 0]
            total = float(self._curvatures().sum())
            self.model.learn(np.append(dW[own, 0], db), np.append(bend, change[-1]), total)

    def _step(self, g: np.ndarray, tol: float) -> bool:
        """Take a step to about the minimum of the model; return whether the objective fell.

        A step that is much too long shows that the sample was too small.  There is no step if the model has too many
        columns.
        """
        w = self.W[:, 0]
        while (model := self._model_at(g)) is not None:
            slopes = np.append(g[:-1] + self.psi.rho * w, g[-1])
            strengths = self.psi.norms[self.groups[model.columns[model.start[:-1]]]]
            new, move = model.minimum(w, slopes, strengths, _SLACK * tol)
            db, dP = np.array([move]), (self.columns.margins(new - w) + move)[:, None]
            length = self._move(new[:, None], db, dP, g)
            if length >= _SHORT:
                return True
            k = len(model.columns)
            if self.is_fresh and self._rows(k) == self._most_rows(k):
                return length > 0.0
            self._begin_anew(self.is_fresh)
            if length > 0.0:
                return True
        return False

    def _begin_anew(self, larger: bool) -> None:
        """Drop the model, and make the samples of the next one larger if asked to."""
        self.model = None
        if larger and self.times < len(self.P):
            self.times *= _MORE_ROWS

    def _move(self, W: np.ndarray, db: np.ndarray, dP: np.ndarray, g: np.ndarray) -> float:
        """Move towards W as far as the objective falls, and beyond; return the share of the way, at most 1."""
        dW, before = W - self.W, self.c
        length = self._search(W, db, dP, self._descent(g[:-1, None], g[-1:], W, db), _SHORTEST)
        if length > 0.0:
            self._arrive()
        if length == 1.0:
            slope = float((self.c * dP).sum() + (self.psi.slope(W) * dW).sum())
            bend = float(((self.c - before) * dP).sum())
            more = min(-slope / bend, _LONGEST - 1.0) if bend > 0.0 else 0.0
            if more > _LONG - 1.0 and self._search(W + more * dW, more * db, more * dP, 0.0, 0.9):
                self._arrive()
        return length

    def _shortened(self, descent: float, f: float) -> float:
        """Return the factor at which a parabola is least that has the slope of the start and ends at f."""
        rise = f - self.f - descent
        return min(max(-0.5 * descent / rise, _SHORTER), 0.5) if rise > 0.0 else 0.5

    def _settled(self, b: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the best intercept for the weights of a step, and its margins, of which more is kept.

        Where a step is much too long, the intercept may be far away, and is not worth a long search.
        """
        self._tried = with_best_intercept(self.term, b, P, _INTERCEPTS if self.intercept else 0)
        return self._tried[:2]

    def _arrive(self) -> None:
        """Take the slopes of the margins that were tried last."""
        self.at, self.c = self._tried, self.term.share * self._tried.slopes

    def _model_at(self, g: np.ndarray) -> Quadratic | None:
        """Return the model, in every group that has a weight, or a gradient beyond its strength; None if too large."""
        norms, count = self.psi.norms, len(self.psi.norms)
        beyond = np.bincount(self.groups, np.square(g[:-1]), count) > np.square(norms)
        needed = beyond | (np.bincount(self.groups, self.W[:, 0] != 0.0, count) > 0.0)
        if np.count_nonzero(needed[self.groups]) > _MOST_COLUMNS:
            return None
        if self.model is not None:
            there = np.zeros(count, bool)
            there[self.groups[self.model.columns]] = True
            lacking = needed & ~there
            if not lacking.any():
                return self.model
            if np.count_nonzero(lacking) <= _MANY * np.count_nonzero(there):
                self.model = self.model.joined(self._made(lacking))
                return self.model
            needed |= there
        self.model, self.is_fresh = self._made(needed), True
        return self.model

    def _made(self, chosen: np.ndarray) -> Quadratic:
        """Return the model of some groups, estimated from a sample of the rows."""
        columns = np.flatnonzero(chosen[self.groups])
        columns = columns[np.argsort(self.groups[columns], kind="stable")]
        h, own = self._curvatures(), self.groups[columns]
        some = slice(None, None, len(self.P) // self._rows(len(columns)))
        if self.sample is None or self.sample[0] != some.step:
            self.sample = some.step, self.columns.at(some)
        sample, here = self.sample[1], h[some]
        A = sample.second_derivatives(here * (h.sum() / here.sum()), columns)
        if not self.intercept:
            A[-1, :-1] = A[:-1, -1] = 0.0
        squares = None if self.spread is None else self.spread[columns] * h.sum()
        shrink(A, own, effective(here), effective(h), squares)
        np.einsum("ii->i", A)[:-1] += self.psi.rho
        start = np.append(np.flatnonzero(np.diff(own, prepend=-1)), len(own))
        P, c, term = self.P[some], self.c[some], self.term.at(some)

        def bend(dw: np.ndarray, db: float) -> float:
            dp = sample.margins(dw) + db
            change = (term.slopes(P + dp[:, None]) - c)[:, 0]
            return float(change @ dp) / max(float(here @ np.square(dp)), 1e-300)

        return Quadratic(A, columns, start, float(h.sum()), bend)

    def _rows(self, k: int) -> int:
        """Return the number of rows in the sample of a model of k columns, about."""
        return min(self.times * max(_LEAST_ROWS, _ROWS_PER_COLUMN * k), self._most_rows(k))

    def _most_rows(self, k: int) -> int:
        return min(len(self.P), max(_CELLS // max(k, 1), _LEAST_ROWS))
