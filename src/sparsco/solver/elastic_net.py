"""Elastic nets on rows in memory: prox-Newton steps, each solution started at the one before.

    phi(w, b) = 1/n sum_i a_i loss(<w, x_i> + b + o_i, y_i) + lam sum_j (l1 u_j |w_j| + (1 - l1) / 2 u_j^2 w_j^2)

with weights a_i, offsets o_i and units u_j, plus a linear term if one is given.  Most columns stay at zero.  So the
first step takes only columns that have a weight, or a gradient near their penalty.  Further steps take those that have
a weight then.  The gradient at the solution shows which columns were left out wrongly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..losses import Squared, curvature, derivative, value
from ..offsets import base_of, has_offset
from ..problem.pilot import best_intercept
from ..util.blas import one_blas_thread
from .columns import ByColumn, add_columns, gradient
from .descent import FAR, MOST_CHANGE, MOST_DAMPING, SLOW, SWEEPS, descend, descend_gram, no_bounds

LEAST_CURVATURE = 4e-3
"""The least curvature of an example, as a share of the loss's bound.

An example far from its target does not show how far the loss is flat.
"""
ROUGH_TOLERANCE, _CLOSER = 1e-4, 1e-3
"""The least tolerance of the first round, which finds most columns, and its factor from round to round."""
_LOWER, _LEAST_FLOOR = 0.25, 1e-7
"""The factor of the least curvature from step to step of closer rounds, and the least one.

Near the end a higher one would make steps too short.  But margins come from quotients by curvatures, and examples of a
loss that is flat somewhere do not show how far it is.
"""
_NEAR = 0.9
"""A column with a gradient of so many times its penalty takes part in a first step."""
_LAST_SWEEP = 0.05
"""The change of the last sweep of a step, as a share of the fall of the objective that ends the steps."""


class Examples(NamedTuple):
    """Targets, weights and offsets of the rows of one model, and its loss."""

    y: np.ndarray
    weights: np.ndarray
    loss: Any
    offset: np.ndarray | float = 0.0

    @classmethod
    def of(cls, y: np.ndarray, weights: np.ndarray, loss: Any) -> Examples:
        """Return examples whose offsets, if their targets have any, are added to the margins."""
        if not has_offset(y):
            return cls(y, weights, loss)
        return cls(np.ascontiguousarray(y["y"]), weights, base_of(loss), np.ascontiguousarray(y["offset"]))

    def losses(self, p: np.ndarray) -> np.ndarray:
        """Return weight times loss of each row at margins p."""
        return self.weights * value(self.loss, p, self.y)


class Tilt(NamedTuple):
    """A linear term <w, slope_w> + b slope_b of the objective."""

    w: np.ndarray
    b: float


class Accuracy(NamedTuple):
    """How accurately a problem is solved."""

    tolerance: float = 1e-3
    """A prox-Newton step that improves the objective by at most this share is the last one."""
    steps: int = 12
    rounds: int = 4
    """How often columns may be added that were left out."""
    inner: float = 0.1
    """A sweep that changes the model by at most this share of the first one ends a prox-Newton step."""

    @property
    def violation(self) -> float:
        """Return how far, as a share of its penalty, the gradient of a column that was left out may be beyond it.

        The objective would fall by about the square of it.
        """
        return float(np.sqrt(self.tolerance))


_CONSTANT, _LOST = Accuracy(1e-9, 50), 1e-2
"""The accuracy of the model without features, and the share of its slopes that may be left in the intercept."""
ROUGH, REFIT, FINE = Accuracy(1e-2, 4, 2), Accuracy(1e-3, 8), Accuracy(1e-4, 20, 4, 0.3)


def factor_of_floor(accuracy: Accuracy, loss: Any) -> float:
    """Return the factor of the least curvature from step to step: below 1 near a solution, if the loss is not flat."""
    return _LOWER if accuracy.tolerance < ROUGH_TOLERANCE and loss.bends_everywhere else 1.0


class ElasticNetSolver:
    """Solutions of elastic nets on the same rows; ``solve`` starts at the solution before."""

    def __init__(
        self,
        X: ByColumn,
        examples: Examples,
        units: np.ndarray,
        intercept: bool = True,
        tilt: Tilt | None = None,
        start: tuple[np.ndarray, float] | None = None,
    ) -> None:
        """Start at these weights and this intercept, or at the model without features."""
        self.X, self.examples, self.units, self.intercept = X, examples, units, intercept
        self.tilt = Tilt(np.zeros(X.d), 0.0) if tilt is None else tilt
        self.n = max(X.n, 1)
        self.g, self.floor, self.lower = np.empty(X.d), LEAST_CURVATURE, 1.0
        """The gradient, the least curvature of an example in the next step, and its factor from step to step."""
        self._nothing: tuple[float, np.ndarray, np.ndarray] | None = None
        """Intercept, margins and gradient of the model without features, once they are known."""
        self._prepare()
        if start is None:
            self.restart()
        else:
            self.start_at(examples, *start)

    def _prepare(self) -> None:
        """Prepare what a kind of solver keeps of the columns, before the first step."""

    def restart(self) -> None:
        """Go back to the model without features, with the best intercept."""
        self.w, self.b = np.zeros(self.X.d), 0.0
        if self._nothing is not None:
            self.b, self.p, self.g = self._nothing[0], self._nothing[1].copy(), self._nothing[2].copy()
            return
        self.p = np.zeros(self.X.n) + self.examples.offset
        none = np.empty(0, np.int64)
        if self.intercept:
            self._newton(none.astype(float), none.astype(float), none, _CONSTANT)
            if self._is_lost():
                y, weights, loss, offset = self.examples
                self.start_at(self.examples, self.w, best_intercept(loss, y, weights, offset))
                self._newton(none.astype(float), none.astype(float), none, _CONSTANT)
        self._differentiate()
        self._nothing = self.b, self.p.copy(), self.g.copy()

    def _is_lost(self) -> bool:
        """Return whether the intercept is far from the best one: steps lead nowhere where a loss has no curvature."""
        y, weights, loss, _ = self.examples
        slopes = weights * derivative(loss, self.p, y) / self.n
        return bool(abs(slopes.sum() + self.tilt.b) > _LOST * np.abs(slopes).sum())

    def take(self, examples: Examples) -> None:
        """Replace the examples, and go back to the model without features."""
        self.examples, self._nothing = examples, None
        self.restart()

    def start_at(self, examples: Examples, w: np.ndarray, b: float) -> None:
        """Replace the examples, and go to these weights and this intercept."""
        self.examples, self.w, self.b, self._nothing = examples, w.copy(), b, None
        self.p = np.full(self.X.n, b)
        add_columns(self.X.first, self.X.rows, self.X.x, self.w, self.p)
        self.p += examples.offset
        self._differentiate()

    def strength_of_nothing(self) -> float:
        """Return the smallest lam l1 at which no feature is selected; only valid after ``restart``."""
        penalised = self.units > 0.0
        slopes = np.abs(self.g[penalised]) / self.units[penalised]
        return float(slopes.max(initial=0.0))

    def solve(self, lam: float, l1_ratio: float, accuracy: Accuracy = FINE) -> tuple[np.ndarray, float]:
        """Return the weights and the intercept of a strength and a mixture, which are also kept as the next start."""
        pen, ridge = lam * l1_ratio * self.units, lam * (1.0 - l1_ratio) * np.square(self.units)
        return self.solve_for(pen, ridge, accuracy)

    def solve_for(self, pen: np.ndarray, ridge: np.ndarray, accuracy: Accuracy) -> tuple[np.ndarray, float]:
        """Return the weights and the intercept of a penalty sum_j (pen_j |w_j| + ridge_j w_j^2 / 2)."""
        chosen, now, self.floor, self.lower = self._first_columns(pen), accuracy, LEAST_CURVATURE, 1.0
        if accuracy.rounds > 1:
            now = accuracy._replace(tolerance=max(accuracy.tolerance, ROUGH_TOLERANCE))
        for _ in range(accuracy.rounds):
            left = self._newton(pen[chosen], ridge[chosen], chosen, now)
            self._differentiate()
            wrong = np.abs(self.g) > (1.0 + now.violation) * pen
            wrong[left] = False
            if not wrong.any() and now.tolerance == accuracy.tolerance:
                break
            now = now._replace(tolerance=max(accuracy.tolerance, _CLOSER * now.tolerance))
            self.lower = factor_of_floor(now, self.examples.loss)
            wrong[left] = True
            chosen = np.flatnonzero(wrong)
        return self.w, self.b

    def refit(self, chosen: np.ndarray, ridge: float, accuracy: Accuracy = REFIT) -> tuple[np.ndarray, float]:
        """Return the weights of some columns, learned again with an L2 term only.

        The start of the next ``solve`` does not change.
        """
        before = self.w, self.b, self.p
        kept = np.zeros_like(self.w)
        kept[chosen] = self.w[chosen]
        if np.count_nonzero(kept) < np.count_nonzero(self.w):
            left_out = self.w - kept
            self.p = self.p.copy()
            add_columns(self.X.first, self.X.rows, self.X.x, -left_out, self.p)
        self.w, self.floor, self.lower = kept, LEAST_CURVATURE, 1.0
        self._newton(np.zeros(len(chosen)), ridge * np.square(self.units[chosen]), chosen, accuracy)
        found = self.w, self.b
        self.w, self.b, self.p = before
        return found

    def relaxed(self, ridge: float) -> tuple[np.ndarray, float]:
        """Return the weights of the selected features, learned again with a small L2 term only."""
        return self.refit(np.flatnonzero(self.w), ridge)

    def _first_columns(self, pen: np.ndarray) -> np.ndarray:
        """Return the columns that take part in the first step."""
        return np.flatnonzero((np.abs(self.g) > _NEAR * pen) | (self.w != 0.0))

    def _further_columns(self, chosen: np.ndarray) -> np.ndarray:
        """Return which of the chosen columns take part in further steps."""
        return self.w[chosen] != 0.0

    def _slopes(self, p: np.ndarray, damping: float) -> tuple[np.ndarray, np.ndarray]:
        """Return derivatives and curvatures of the mean loss in the margins."""
        y, weights, loss, _ = self.examples
        scale = weights / self.n
        least = self.floor * loss.smoothness
        return scale * derivative(loss, p, y), scale * np.maximum(curvature(loss, p, y), least) * damping

    def _differentiate(self) -> None:
        """Compute the gradient of the mean loss."""
        y, weights, loss, _ = self.examples
        gradient(self.X.first, self.X.rows, self.X.x, weights * derivative(loss, self.p, y) / self.n, self.g)
        self.g += self.tilt.w

    def _newton(self, pen: np.ndarray, ridge: np.ndarray, chosen: np.ndarray, accuracy: Accuracy) -> np.ndarray:
        """Take prox-Newton steps until the objective no longer falls; return the columns of the last step.

        ``chosen`` are the columns of the first step, ``pen`` and ``ridge`` those of the chosen columns.
        """

        def objective(p: np.ndarray, w: np.ndarray, b: float) -> float:
            penalty = (pen * np.abs(w)).sum() + 0.5 * (ridge * np.square(w)).sum()  # without BLAS and its threads
            tilt = (self.tilt.w[chosen] * w).sum() + self.tilt.b * b
            return float(self.examples.losses(p).sum() / self.n + penalty + tilt)

        f, damping = objective(self.p, self.w[chosen], self.b), 1.0
        for _ in range(accuracy.steps):
            before = self.w[chosen]
            p, db = self._model_minimum(pen, ridge, chosen, damping, accuracy, abs(f))
            reached = objective(p, self.w[chosen], self.b + db)
            if not reached <= f + 1e-9 * abs(f):  # a steeper model, from the old point
                self.w[chosen] = before
                if self._renewed():
                    continue
                damping, self.floor = 4.0 * damping, LEAST_CURVATURE
                if damping > MOST_DAMPING:
                    break
                continue
            fall, f, damping = f - reached, reached, max(1.0, damping / 4.0)
            self.floor = max(self.floor * self.lower, _LEAST_FLOOR)
            self.p, self.b = p, self.b + db
            self._accepted(fall, accuracy.tolerance * abs(f))
            stay = self._further_columns(chosen)
            chosen, pen, ridge = chosen[stay], pen[stay], ridge[stay]
            if fall <= accuracy.tolerance * abs(f):
                break
        return chosen

    def _renewed(self) -> bool:
        """Return whether the model had an old curvature, which is computed again for the next step."""
        return False

    def _accepted(self, fall: float, least: float) -> None:
        """Note that a step lowered the objective by ``fall``; one that lowers it by ``least`` is the last."""

    def _model_minimum(
        self, pen: np.ndarray, ridge: np.ndarray, chosen: np.ndarray, damping: float, accuracy: Accuracy, f: float
    ) -> tuple[np.ndarray, float]:
        """Change w to the minimum of the quadratic model; return the new margins and the change of the intercept.

        ``pen`` and ``ridge`` are those of the chosen columns.
        """
        c, h = self._slopes(self.p, damping)
        first, rows, x, _ = self.X
        k, u = len(chosen), c.copy()
        scratch = np.empty(k), np.empty(k), np.empty(k, np.int64)
        ends = accuracy.inner, _LAST_SWEEP * accuracy.tolerance * f, SWEEPS
        terms = pen, ridge, self.tilt.w[chosen], *no_bounds(k), self.tilt.b
        db, _ = descend(first, rows, x, u, h, self.w, *terms, chosen, *scratch, *ends, self.intercept)
        return self.p + (u - c) / h + db, db


class Gram(NamedTuple):
    """The second derivatives of the mean loss at some point: of centred columns, with the intercept, and of it."""

    G: np.ndarray
    mean: np.ndarray
    total: float

    def at(self, columns: np.ndarray) -> Gram:
        """Return the second derivatives of some columns."""
        return Gram(self.G[np.ix_(columns, columns)], self.mean[columns], self.total)


class DenseSolver(ElasticNetSolver):
    """Solutions of elastic nets for dense columns: steps by the Gram matrix of the columns.

    A matrix of another point serves, scaled by the sum of the curvatures, while the shares of the examples in that sum
    have hardly changed, and steps lower the objective fast or the end is near.  (If the sum alone were compared, steps
    could be short in some directions, and the last one lower the objective by little far from its minimum.)
    """

    def _prepare(self) -> None:
        self.dense = self.X.dense()
        self._columns, self._is_fresh = self.dense, False
        """The columns of the present model: all of them, or those of a refit."""
        self._gram: Gram | None = None
        self._h = np.zeros(self.X.n)
        """The curvatures of the examples in the Gram matrix."""

    def take(self, examples: Examples) -> None:
        """Replace the examples, and go back to the model without features."""
        if not (has_constant_curvature(examples.loss) and np.array_equal(examples.weights, self.examples.weights)):
            self._gram = None
        super().take(examples)

    def refit(self, chosen: np.ndarray, ridge: float, accuracy: Accuracy = REFIT) -> tuple[np.ndarray, float]:
        every = self._columns, self._gram, self._h, self._is_fresh
        self._columns = self.dense.T[chosen].T
        self._gram = None if self._gram is None else self._gram.at(chosen)
        found = super().refit(chosen, ridge, accuracy)
        self._columns, self._gram, self._h, self._is_fresh = every
        return found

    def _first_columns(self, pen: np.ndarray) -> np.ndarray:
        return np.arange(self.X.d)

    def _further_columns(self, chosen: np.ndarray) -> np.ndarray:
        return np.ones(len(chosen), bool)

    def _differentiate(self) -> None:
        y, weights, loss, _ = self.examples
        with one_blas_thread():
            self.g = (weights * derivative(loss, self.p, y) / self.n) @ self.dense + self.tilt.w

    def _newton(self, pen: np.ndarray, ridge: np.ndarray, chosen: np.ndarray, accuracy: Accuracy) -> np.ndarray:
        self._last_fall = np.inf
        with one_blas_thread():
            return super()._newton(pen, ridge, chosen, accuracy)

    def _model_minimum(
        self, pen: np.ndarray, ridge: np.ndarray, chosen: np.ndarray, damping: float, accuracy: Accuracy, f: float
    ) -> tuple[np.ndarray, float]:
        c, h = self._slopes(self.p, 1.0)
        if not len(chosen):
            db = -(float(c.sum()) + self.tilt.b) / (damping * float(h.sum()))
            return self.p + db, db
        now, D = float(h.sum()), self._columns
        if self._gram is None or np.abs(h / now - self._h / self._gram.total).sum() > MOST_CHANGE:
            self._gram, self._h, self._is_fresh = self._gram_at(h), h, True
        scale = damping * now / self._gram.total
        G, mean, total = scale * self._gram.G, scale * self._gram.mean, scale * self._gram.total
        w, db = self.w[chosen], 0.0
        q = c @ D + self.tilt.w[chosen] + ridge * w
        if self.intercept:
            db = -(float(c.sum()) + self.tilt.b) / total
            q += db * mean
        new = w.copy()
        diagonal_of(G)[:] += ridge
        descend_gram(G, q, new, pen, *no_bounds(len(new)), 1e-4, 1e-3 * accuracy.tolerance * f, 2 * SWEEPS)
        if self.intercept:
            db -= float(mean @ (new - w)) / total
        self.w[chosen] = new
        return self.p + D @ (new - w) + db, db

    def _renewed(self) -> bool:
        if self._gram is None or self._is_fresh:
            return False
        self._gram = None
        return True

    def _accepted(self, fall: float, least: float) -> None:
        self._is_fresh = has_constant_curvature(self.examples.loss)
        if fall > max(SLOW * self._last_fall, FAR * least) and not self._is_fresh:
            self._gram = None
        self._last_fall = fall

    def _gram_at(self, h: np.ndarray) -> Gram:
        D, total = self._columns, float(h.sum())
        every = every_row(len(h), D.shape[1], self.examples.loss)
        some = h[::every]
        gram = gram_of(D[::every], some * (total / float(some.sum())), self.intercept)
        if every > 1:  # a column that is rare may have no entries in some of the rows
            own = h @ np.square(D)
            if self.intercept:
                own -= np.square(h @ D) / total
            diagonal = diagonal_of(gram.G)
            np.maximum(diagonal, own, out=diagonal)
        return gram


def diagonal_of(G: np.ndarray) -> np.ndarray:
    """Return a view of the diagonal of a square matrix that can be written to."""
    return np.einsum("ii->i", G)


def has_constant_curvature(loss: Any) -> bool:
    """Return whether a loss has the same second derivatives everywhere, so that one Gram matrix serves for ever."""
    return isinstance(loss, Squared)


def every_row(n: int, d: int, loss: Any) -> int:
    """Return 1 if all of n rows belong into a Gram matrix of d columns, or k if every k-th row stands for all.

    All do where the matrix serves for ever.
    """
    return 1 if has_constant_curvature(loss) else max(n // max(4 * d, 2000), 1)


def gram_of(D: np.ndarray, h: np.ndarray, intercept: bool) -> Gram:
    """Return the second derivatives for columns D and these curvatures of the rows."""
    mean, total = h @ D, float(h.sum())
    Z = D * np.sqrt(h).astype(D.dtype)[:, None]
    G = (Z.T @ Z).astype(np.float64, copy=False)
    if intercept:
        G -= np.outer(mean, mean) / total
    diagonal = diagonal_of(G)
    np.maximum(diagonal, 0.0, out=diagonal)
    return Gram(G, mean, total)


_GRAM_COLUMNS, _GRAM_CELLS = 1000, 60_000_000
"""The most columns of a Gram matrix, and the most cells of dense rows that are kept for it."""
_SHARED_DENSITY = 0.08
"""The density above which a matrix that serves many models is best.

CPU time of SparseClassifierCV, in ms, with matrices that the folds share and by columns: a9a 372 and 1249, mushrooms
380 and 1016, spambase 71 and 130, madelon 676 and 1638, 2000 x 300 at 10% 112 and 1086.
"""
_CELL, _PRODUCT, _SHARED_PRODUCT = 0.45, 0.002, 0.0007
"""The cost of a solution by a Gram matrix: per cell of the dense rows, and per product that the matrix takes.

The unit is the cost by columns per entry.  One matrix of a loss whose curvature is constant serves all solutions.
Fitted to CPU times of the same 14 strengths, and near 1 to those of default fits.  These are the quotients of the
times, by the matrix / by columns, at ROUGH and at FINE, and in brackets the predicted ones: 10,000 x 50 dense and
correlated .49 .39 (.5), without correlation .68 .49 (.5), cod-rna .52 .42 (.5), splice .88 .88 (.6), 2000 x 300 dense
.98 .51 (1.1; default fits 1.4), phishing 1.4 1.1 (1.1), madelon 1.8 .19 (1.5; default fits 1.5), covtype 1.1 1.1 (2.1),
spambase 1.6 1.7 (2.6), mushrooms 2.7 2.0 (3), a9a 3.8 3.5 (4.3), 4000 x 300 at 10% 5.6 4.7 (11), 3000 x 800 at 70%
1.9 1.1 (2.9).  Squared loss: 3000 x 100 at 30% 1.7 1.4 (1.7), at 70% .98 .78 (.7), 3000 x 800 at 30% 3.3 1.7 (3.4), at
70% 1.5 .88 (1.4), 1000 x 800 dense (1.0; default fits 1.2).
"""


def is_dense(X: ByColumn) -> bool:
    """Return whether there are few columns with many entries, for which matrices that serve many models are best."""
    return has_many_entries(X.n, X.d, len(X.x))


def has_many_entries(n: int, d: int, entries: int) -> bool:
    """Return whether n rows have few columns with many entries."""
    return entries > _SHARED_DENSITY * n * d and has_room(n, d)


def has_room(n: int, d: int) -> bool:
    """Return whether n rows have few enough columns for a Gram matrix, and few enough cells for a dense copy."""
    return d <= _GRAM_COLUMNS and 2 * n > d and n * d < _GRAM_CELLS


def is_cheaper_by_gram(n: int, d: int, entries: int, loss: Any) -> bool:
    """Return whether solutions by a Gram matrix of d columns of n rows cost less than those by columns.

    By columns each sweep reads the entries of columns with a weight.  By the matrix sweeps cost next to nothing, but
    every step reads all cells of the dense rows, and the matrix takes d^2 products for each row that belongs into it.
    """
    product = _SHARED_PRODUCT if has_constant_curvature(loss) else _PRODUCT
    products = -(-n // every_row(n, d, loss)) * d * d
    return has_room(n, d) and _CELL * n * d + product * products < entries


def solver_of(
    X: ByColumn,
    examples: Examples,
    units: np.ndarray,
    intercept: bool = True,
    tilt: Tilt | None = None,
    start: tuple[np.ndarray, float] | None = None,
) -> ElasticNetSolver:
    """Return the solver for these rows: by the Gram matrix where that costs less, which takes dense rows."""
    by_gram = is_cheaper_by_gram(X.n, X.d, len(X.x), examples.loss)
    return (DenseSolver if by_gram else ElasticNetSolver)(X, examples, units, intercept, tilt, start)
