"""The exact optimum in some columns, held in memory: prox-Newton steps, for every loss and penalty with a certificate.

    1/n sum_i a_i loss(x_i W + b, y_i) + psi(W)

Each step minimises the quadratic model of the loss plus psi by block coordinate descent, then searches along the line.
If descent needs many sweeps, steps by the matrix of second derivatives follow, or Newton steps in the free weights
(``manifold``).  Groups alone, for one output, have a solver of their own (``group_newton``), which comes first.

A loss with kinks is replaced by its envelope, and multipliers correct that until nothing of it is left (``loss_term``).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ..data import row_sums
from ..data.rows import Matrix
from ..penalties.blocks import Blocks
from .block_descent import curvatures, descend_groups, descend_outputs
from .certificate import balanced, gap_of
from .columns import ByColumn, by_column, gradient
from .descent import descend
from .group_newton import GroupNewton
from .loss_term import Bends, LossTerm
from .manifold import Curved, has_room
from .moving_point import MovingPoint
from .sampled_matrix import columns_of, is_dense

_STEPS = 20
_SWEEPS, _MORE_SWEEPS = 10, 100
"""The most sweeps of coordinate descent for the quadratic model of a step, and those if a matrix has no room for it."""
_SLACK = 0.2
"""The quadratic model of blocks is left when its violations are at most this share of those at its start."""
_ACCURACY, _LESS_ACCURACY = 0.01, 0.04
"""A sweep over single weights that changes the model by at most this share of the first one is the last; the second one
is for many sweeps."""
_FREE_STEPS = 3
"""The most Newton steps in the free weights, one after the other, for a loss with kinks."""
_FEW_SWEEPS = 3
"""The sweeps before Newton steps in the free weights."""
_STALLED, _STALLS = 0.7, 3
"""A step stalls if it leaves more than this share of the least violation; after so many no matrix is used."""
_RIDGES = 5
"""The ridges that are tried for a Newton step in the free weights."""
_ROUNDS = 60
"""The most rounds of multipliers."""
_IDLE_ROUNDS = 3
"""The rounds in which nothing falls, one after the other, that indicate the limit of rounding."""
_DOWN = 10.0
"""The factor from one penalty to the next, where a problem is solved by penalties from a strong one down."""
_SLOW = 0.3
"""A round that leaves more than this share of the gap is followed by a smaller width."""


class Restricted(MovingPoint):
    """The problem in some columns, and a point W (k, m), b (m,) that moves to its optimum."""

    def __init__(self, rows: Matrix, psi: Blocks, term: LossTerm, intercept: bool) -> None:
        super().__init__(psi, term, intercept)
        self.csr, self._rows = rows[:3], rows
        self.low, self.high = psi.bounds()
        self._is_single = psi.groups is None and term.y.shape[1] == 1
        """Whether there is one output, and weights are penalised alone."""
        self.start = np.empty(0, np.int64)
        if psi.groups is not None:
            self.start = np.append(np.flatnonzero(np.diff(psi.groups, prepend=-1)), rows.d)
        self.creeps, self.floor, self.ridge = False, 1e-2, 1e-10
        self.has_matrix = psi.groups is None and not term.has_kinks
        """Whether steps are taken by the matrix of second derivatives, if coordinate descent creeps."""

    @property
    def _most_sweeps(self) -> int:
        """Return the number of sweeps after which descent creeps.

        A step by a matrix costs less than many sweeps.  One by conjugate gradients costs more; it is taken where there
        is no room for a matrix.  Blocks of weights need it early all the same.
        """
        is_large = self._is_single and not has_room(int(np.count_nonzero(self.W)) + 1, len(self.P))
        return _MORE_SWEEPS if is_large else _SWEEPS

    @cached_property
    def columns(self) -> ByColumn:
        """Return the rows stored by column."""
        return by_column(*self.csr, np.arange(len(self._rows)), self._rows.d)

    @cached_property
    def squares(self) -> np.ndarray:
        """Return the mean square of each column, the scale of its second derivatives, and the scale of the intercepts'.

        A common shift of a softmax's intercepts has no curvature: their scale is that of a usual column.
        """
        k, term = self._rows.d, self.term
        squares = curvatures(*self.columns[:3], term.share[:, :1])[:, 0]
        squares = np.maximum(squares, min(float(squares.mean()), 1.0) if k else 1.0)  # rare columns: the mean
        return np.append(squares, float(np.median(squares)) if term.loss.couples and k else 1.0)

    @cached_property
    def X(self) -> Any:  # noqa: N802
        """Return the columns as a matrix (n, k), dense if many entries are not zero."""
        return self.columns.dense() if is_dense(self._rows) else self._rows.to_scipy()

    @cached_property
    def group_newton(self) -> GroupNewton | None:
        """Return the solver for groups alone, None for other problems."""
        if not GroupNewton.serves(self.psi, self.term.loss, self.term.y.shape[1]):
            return None
        return GroupNewton(columns_of(self._rows), self.psi, self.term, self.intercept)

    def _margins_of(self, dW: np.ndarray, db: np.ndarray) -> np.ndarray:
        """Return the change of the margins for a change of weights and intercepts."""
        if len(db) == 1:
            return row_sums.margins(*self.csr, dW[:, 0], float(db[0]))[:, None]
        return self.X @ dW + db

    def _gradient(self, c: np.ndarray) -> np.ndarray:
        """Return the gradient of the loss (k, m) for slopes c in the margins."""
        if c.shape[1] > 1:
            return np.asarray(self.X.T @ c)
        G = np.empty((self.columns.d, 1))
        gradient(*self.columns[:3], c[:, 0], G[:, 0])
        return G

    def solve(self, tol: float) -> bool:
        """Move to the optimum until no violation exceeds ``tol``; return whether that was reached.

        A loss with kinks is replaced by its envelope.
        """
        if self._solve_groups(tol):
            return True
        if not self._is_loose() and self._solve(tol):
            return True
        if not self._is_loose():
            return False
        self._come_down()
        return self._solve(tol)

    def _solve_groups(self, tol: float) -> bool:
        """Solve a problem of groups alone; return whether the optimum was reached."""
        newton = self.group_newton
        if newton is None:
            return False
        newton.psi, before = self.psi, newton.steps
        newton.start(self.W, self.b, self.P)
        reached = newton.solve(tol)
        self.W, self.b, self.P, self.f = newton.W, newton.b, newton.P, newton.f
        self.steps += newton.steps - before
        return reached

    def _is_loose(self) -> bool:
        """Return whether more weights with an L1 norm are nonzero than there are margins in which the loss bends.

        Then the loss is flat in some directions, in which steps have no natural length.  The optimum has fewer.
        Envelopes bend in few rows anyway, and their multipliers change at every round.
        """
        if self.psi.groups is not None or self.psi.rho > 0.0 or self.term.has_kinks:
            return False
        return bool(np.count_nonzero(self.W[self.psi.l1 > 0.0]) > np.count_nonzero(self.term.bends(self.P).h))

    def _come_down(self) -> None:
        """Go to about the optimum from zero, by penalties from a strong one down to the present one.

        Nonzero weights remain few on this way.  Nothing changes if the objective does not fall.
        """
        psi, before = self.psi, (self.W, self.b, self.P, self.f)
        held = psi.l1 > 0.0
        W = np.where(held[:, None], 0.0, self.W)
        self.place(W, self.b, self.P - self._margins_of(self.W - W, 0.0 * self.b))
        slopes = np.abs(self._gradient(self.term.slopes(self.P)))[held]
        times = float((slopes / psi.l1[held, None]).max()) / _DOWN
        while times > 1.0:
            self.psi = psi._replace(l1=times * psi.l1)
            self.f = self._objective(self.P, self.W)
            self._solve(0.1 * times * float(psi.l1[held].mean()))
            times /= _DOWN
        self.psi = psi
        self.f = self._objective(self.P, self.W)
        if self.f > before[3]:
            self.W, self.b, self.P, self.f = before

    def _solve(self, tol: float) -> bool:
        """Take steps until no violation exceeds ``tol``; return whether that was reached.

        If descent creeps, steps by the matrix follow.  If these do not lower violations either, as where columns are
        more than rows, every step is one of descent and one in the free weights.
        """
        least, stalls = np.inf, 0
        for _ in range(_STEPS):
            if self.term.loss.couples:
                self._centre()
            c = self.term.slopes(self.P)
            G, slopes_b = self._gradient(c), c.sum(0)
            worst = self._violation(G, slopes_b)
            if worst <= tol:
                return True
            stalls = 0 if worst < _STALLED * least else stalls + 1
            least, self.steps = min(least, worst), self.steps + 1
            if self.creeps and stalls < _STALLS and self._step_by_matrix(G, slopes_b, tol):
                continue
            floor, fell = self.floor, self._descend(c, G, slopes_b, max(_SLACK * worst, 0.3 * tol))
            has_moved = self.creeps and not (self.has_matrix and stalls < _STALLS) and self._move_free(tol)
            if not has_moved and not fell and floor == 1.0:
                break
        return False

    def solve_kinks(self, tol: float, unit: float) -> float:
        """Move to the optimum of a loss with kinks, until its relative gap is at most ``tol``; return the gap.

        The gap has two sources: multipliers that are not yet slopes of the loss, and violations.  If the first one
        prevails, the multipliers are renewed, otherwise violations are made smaller.  ``unit`` is the strength of the
        penalty, the scale of violations.
        """
        self.creeps = True  # envelopes are flat but for few rows: coordinate descent alone would never end
        accuracy, before, idle = unit * 0.03, np.inf, 0
        for _ in range(_ROUNDS):
            f, reached = self.f, self.solve(accuracy)
            gap, of_multipliers = self._gaps()
            idle = 0 if reached or self.f < f - 1e-14 * abs(f) else idle + 1
            if gap <= tol or idle == _IDLE_ROUNDS:
                break
            if of_multipliers > 0.3 * gap and reached:
                self.term.renew(self.P, of_multipliers > _SLOW * before)
                self.f, before = self._objective(self.P, self.W), of_multipliers
            elif reached:
                accuracy *= 0.1
        return gap

    def _gaps(self) -> tuple[float, float]:
        """Return the duality gap, and the part of it that comes from the multipliers, as shares of the objective.

        With an intercept the gap is the larger of the estimate of a pass and of that at balanced slopes, as in the
        certificate.  A column with a large mean makes the latter much larger if slopes sum to a little more than zero.
        """
        slopes = self.term.raw_slopes(self.P)
        c, loss = self.term.share * slopes, self.term.true_value(self.P)
        gap = self._gap(slopes, loss)
        if self.intercept:
            gap = max(gap, self._gap(balanced(self.term, self.P, slopes), loss))
        of_multipliers = loss - self.term.dual(1.0, slopes) - float((c * self.P).sum())
        scale = max(abs(loss + self.psi.value(self.W)), self.term.least)
        return gap / scale, of_multipliers / scale

    def _gap(self, slopes: np.ndarray, loss: float) -> float:
        """Return the duality gap at some slopes; an estimate, if they do not sum to zero."""
        c = self.term.share * slopes
        point = self.W, self.b, self.P
        primal, slopes_b = loss + self.psi.value(self.W), c.sum(0) * self.intercept
        return gap_of(self.term, self.psi, point, primal, slopes, self._gradient(c), slopes_b)

    def _centre(self) -> None:
        """Shift the weights of each feature by the best number for all classes, which a softmax does not notice.

        Along these directions only psi bends, if at all: steps by second derivatives would be endless.  The best shift
        makes the median of the weights zero, or the least of weights that may not be negative.
        """
        if self.psi.groups is not None or self.psi.rho > 0.0 or (self.psi.low is not None and self.low.any()):
            return
        middle = 0 if self.psi.low is not None else (self.W.shape[1] - 1) // 2
        shift = np.partition(self.W, middle, axis=1)[:, middle]
        if shift.any():
            self.W = self.W - shift[:, None]
            self.P = self.P - (self.X @ shift)[:, None]
            self.f = self._objective(self.P, self.W)

    def _descend(self, c: np.ndarray, G: np.ndarray, slopes_b: np.ndarray, tol: float) -> bool:
        """Take a step to about the minimum of the quadratic model; return whether the objective fell.

        Where the loss is flat, its curvature is raised to a floor.  The floor rises after a step that was too long and
        falls otherwise: a saturated row does not indicate how far the model is valid.
        """
        most = _FEW_SWEEPS if self.creeps else self._most_sweeps
        W, db, dP, sweeps = self._model_minimum(c, self.term.bends(self.P, self.floor), tol, most)
        self.creeps = self.creeps or sweeps == most
        length = self._search(W, db, dP, self._descent(G, slopes_b, W, db), 1e-9)
        if length == 0.0:
            self.floor = min(self.floor * 256.0, 1.0)
        else:
            self.floor = max(self.floor / 4.0, 1e-12) if length == 1.0 else min(self.floor * 4.0, 1.0)
        return length > 0.0

    def _model_minimum(
        self, c: np.ndarray, bends: Bends, tol: float, most: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Return about the minimum of the quadratic model: weights, changes of intercepts and margins, sweeps.

        There are at most so many sweeps.
        """
        first, rows, x, _ = self.columns
        psi, W, m = self.psi, self.W.copy(), len(self.b)
        if self._is_single:
            k, none = len(W), np.zeros(len(W))
            terms = psi.l1, none + psi.rho, none, self.low, self.high, 0.0, np.arange(k)
            share = _LESS_ACCURACY if most == _MORE_SWEEPS else _ACCURACY
            scratch, ends = (np.empty(k), np.empty(k), np.empty(k, np.int64)), (share, 0.0, most)
            u, h = c[:, 0].copy(), np.ascontiguousarray(bends.h[:, 0])
            move, sweeps = descend(first, rows, x, u, h, W[:, 0], *terms, *scratch, *ends, self.intercept)
            db = np.array([move])
            return W, db, self._margins_of(W - self.W, db), sweeps
        U, db, none = c.copy(), np.zeros(m), np.zeros_like(c)
        r, s = none if bends.r is None else bends.r, none if bends.s is None else bends.s
        model = first, rows, x, U, bends.h, r, s, bends.bound.sum(0), W, db
        M = curvatures(first, rows, x, bends.bound)
        if psi.groups is None:
            args = psi.l1, psi.rho, self.low, self.high, tol, most, self.intercept
            sweeps = descend_outputs(*model, M, *args)
        else:
            L = np.maximum(np.maximum.reduceat(M.max(1), self.start[:-1]) + psi.rho, 1e-300)
            args = psi.l1, psi.rho, self.start, psi.norms, tol, most, self.intercept
            sweeps = descend_groups(*model, L, *args)
        return W, db, self._margins_of(W - self.W, db), sweeps

    def _step_by_matrix(self, G: np.ndarray, slopes_b: np.ndarray, tol: float) -> bool:
        """Take a step to the minimum of the quadratic model, by its matrix; return whether the objective fell.

        Weights that are zero, and have no reason to change, do not move.
        """
        psi = self.psi
        if psi.groups is not None or self.term.has_kinks:
            return False
        bends, near = self.term.bends(self.P), np.abs(G + psi.rho * self.W) > psi.l1[:, None]
        curved = Curved(self.X, self.W, psi, bends.h, bends.s, self.intercept, near | (self.W != 0.0))
        self.has_matrix = curved.is_small
        if not self.has_matrix:
            return False
        for _ in range(_RIDGES):
            A = curved.matrix(self.ridge * self.term.bend * self.squares)
            W, db = curved.minimum(A, G, slopes_b, 0.1 * tol)
            descent = self._descent(G, slopes_b, W, db)
            length = self._search(W, db, self._margins_of(W - self.W, db), descent, 1e-3)
            if length > 0.0:
                self.ridge = max(self.ridge / 10.0, 1e-13) if length == 1.0 else self.ridge
                return descent < 0.0
            self.ridge = min(self.ridge * 1e3, 1.0)
        return False

    def _move_free(self, tol: float) -> bool:
        """Take Newton steps in the free weights while they help; return whether any did.

        A weight that would cross zero or a bound stops there.
        """
        moved = False
        for _ in range(_FREE_STEPS if self.term.has_kinks else 1):
            c = self.term.slopes(self.P)
            bends = self.term.bends(self.P)
            curved = Curved(self.X, self.W, self.psi, bends.h, bends.s, self.intercept, self.psi.free(self.W))
            gradient, slopes_b = self._gradient(c) + self.psi.slope(self.W), c.sum(0) * self.intercept
            worst = max(np.abs(gradient[curved.free]).max(initial=0.0), float(np.abs(slopes_b).max()))
            if worst <= 0.3 * tol or not self._step_free(curved, gradient, slopes_b):
                break
            moved = True
        return moved

    def _step_free(self, curved: Curved, gradient: np.ndarray, slopes_b: np.ndarray) -> bool:
        """Take a Newton step, with a larger ridge after each one that fails; return whether one did not."""
        for _ in range(_RIDGES):
            if self._try(*curved.step(gradient, slopes_b, self.ridge * self.term.bend * self.squares)):
                return True
            self.ridge = min(self.ridge * 1e3, 1.0)
        return False

    def _try(self, dW: np.ndarray, db: np.ndarray) -> bool:
        """Move along a direction, as far as the objective falls; return whether it did."""
        length = 1.0
        for _ in range(6):
            W = self.W + length * dW
            crosses = (np.sign(W) * np.sign(self.W) < 0.0) & (self.psi.l1 > 0.0)[:, None]
            W[crosses] = 0.0
            W = np.clip(W, self.low[:, None], self.high[:, None])
            P = self.P + self._margins_of(W - self.W, length * db)
            f = self._objective(P, W)
            if f <= self.f + 1e-15 * abs(self.f) and (f < self.f or length == 1.0):
                self.W, self.b, self.P, self.f = W, self.b + length * db, P, f
                self.ridge = max(self.ridge / 10.0, 1e-13) if length == 1.0 else self.ridge
                return True
            length *= 0.4
        return False
