"""One model of a polish: its weights, what the last pass over all rows showed, and its next step.

A step is made by the second derivatives of a sample of the rows, or in a working set of columns of all rows.  A sample
serves as long as few weights move, beside the rows in it.  Columns serve for losses with kinks, for groups, for many
weights, and where steps by a sample do not come nearer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..data import row_sums
from ..data.rows import Matrix
from ..losses import derivative
from ..penalties.blocks import Blocks
from ..solver.best_intercept import with_best_intercept
from ..solver.certificate import balanced, balancing_factors, gap_of
from ..solver.group_newton import Certificate, GroupNewton
from ..solver.loss_term import LossTerm
from ..solver.restricted import Restricted
from ..solver.sampled import Point, Sample, own_curvatures
from .polish_rows import Part, add_gradients, margins_of
from .polish_sampling import Sampling, importance

_LEAST_COLUMNS = 100
_LEFT = 0.3
"""A working set is left when its own violations are at most this share of those of all columns."""
_KNOWN = 0.01
"""The share that replaces ``_LEFT`` if all violators had been in the working set before."""
_KEPT = 2
"""A working set also keeps the columns of the last one, if these are not more than so many times its own."""
_IDLE = 25
"""The passes without any progress after which a model is left."""
_ESTIMATED = 0.7
"""The share of the tolerance that a gap must reach, since it is an estimate until slopes are balanced."""
_MATTERS = 0.1
"""The share of the tolerance that an intercept may take of the gap."""
_FEW_OUTPUTS = 600
"""The number of weights of several outputs up to which steps are made by samples: their matrices are costly."""
_REFUTED = 3
"""The points worse than an earlier one after which a model leaves samples: steps in columns have a line search."""


class Dual(NamedTuple):
    """Slopes of the loss in the margins, their gradient in the weights, and their sums for each intercept."""

    slopes: np.ndarray
    G: np.ndarray
    slopes_b: np.ndarray


class _Best(NamedTuple):
    """Weights (d, m) and intercepts, with their objective on all rows."""

    f: float
    W: np.ndarray
    b: np.ndarray


class Model:
    """One model of a polish: its weights, and the results of the last pass."""

    def __init__(
        self, W: np.ndarray, b: np.ndarray, lanes: slice, loss: Any, psi: Blocks, lam: float, intercept: bool
    ) -> None:
        self.W, self.b, self.lanes, self.loss, self.psi, self.intercept = W, b, lanes, loss, psi, intercept
        self.unit, self.by_gap = lam, not loss.curved or lam <= 0.0
        """The unit of violations, and whether the duality gap is the measure of optimality in their place."""
        self.has_certificate = True
        """Whether the duality gap must be within the tolerance, too."""
        self.G, self.violations = np.zeros_like(W), np.zeros(len(W))
        self._by_sign = np.zeros((2, len(W))) if len(b) == 1 else None
        """The gradients of the rows with a slope of at most zero, and of the others."""
        self.P, self.slopes = np.empty((0, len(b))), np.empty((0, len(b)))
        self.slopes_b = np.zeros(len(b))
        self.room: tuple[np.ndarray | None, np.ndarray | None] = None, None
        """Arrays for the margins and slopes of each pass; None: every pass makes new ones."""
        self.dual: Dual | None = None
        """The slopes by which the duality gap is certified; None: they are not known yet."""
        self.term: LossTerm | None = None
        self._rows, self._loss_now = 0, np.inf
        self.sampling = Sampling(loss.curved and psi.groups is None and (len(b) == 1 or W.size <= _FEW_OUTPUTS))
        self.chosen, self.knows = np.empty(0, np.int64), False
        self.restricted: Restricted | None = None
        self.working_sets: list[int] = []
        low, high = psi.bounds()
        self.best = _Best(np.inf, np.clip(np.zeros_like(W), low[:, None], high[:, None]), np.zeros_like(b))
        """The point where the objective was lowest in a pass over all rows; zero, if it was never a number."""
        self.gap = self.violation = np.inf
        self.duality_gap = self.relative_gap = self._certified = np.nan
        self.is_confirmed, self._steps, self._refuted = False, 0, 0
        self.share, self.lowest, self.idle = 1.0, np.inf, 0
        """The share of the tolerance to reach, the lowest gap, and the passes since the gap or the objective fell."""

    @property
    def steps(self) -> int:
        """Return the number of steps in working sets so far."""
        return self._steps + (0 if self.restricted is None else self.restricted.steps)

    # ---- a pass ----------------------------------------------------------------------------------------------------

    def begin_pass(self) -> None:
        """Forget the sums of the last pass."""
        if self._by_sign is None:
            self.G = np.zeros_like(self.W)
        else:
            self._by_sign[:] = 0.0

    def look(self, part: Part, seen: int) -> tuple[np.ndarray, ...]:
        """Return margins, slopes, targets and weights of the rows from number ``seen`` on; add up their gradients."""
        X, y, a = part.matrix, part.targets[:, self.lanes], part.weights[:, self.lanes]
        P = margins_of(X, self.W, self.b)
        slopes = self._slopes(P, y, seen)
        if self.term is None and self.sampling.serves and not X.is_full:
            h = a * own_curvatures(self.loss, P, y)
            if self._by_sign is not None:
                self.sampling.add_first_sums(X, a * slopes, h, self._by_sign)
                return P, slopes, y, a
            self.sampling.add_curves(X, h)
        self._add_gradients(X, a * slopes)
        return P, slopes, y, a

    def _add_gradients(self, X: Matrix, c: np.ndarray) -> None:
        """Add sum_i x_i c_i^T to G, or by the sign of c_i."""
        if self._by_sign is None:
            add_gradients(X, c, self.G)
        elif X.is_full:
            row_sums.add_full_gradient_by_sign(X.array, np.ascontiguousarray(c[:, 0]), self._by_sign)
        else:
            row_sums.add_gradient_by_sign(X.indptr, X.indices, X.data, np.ascontiguousarray(c[:, 0]), self._by_sign)

    def _slopes(self, P: np.ndarray, y: np.ndarray, seen: int) -> np.ndarray:
        """Return the derivatives of each example's loss, or of its envelope as it is shifted now."""
        if self.term is None or not self.term.has_kinks:
            return derivative(self.loss, P, y)
        return derivative(self.term.twin, P + self.term.shift[seen : seen + len(P)], y)

    def looked(self, parts: list[tuple[np.ndarray, ...]]) -> None:
        """Complete a pass over all rows: compute the objective, the gradient, the violations and the gap."""
        if not parts:
            raise ValueError("polish has no rows to solve for: all of them are held out, or have a weight of zero.")
        P, slopes, *given = zip(*parts, strict=True)
        self.P, self.slopes = np.concatenate(P, out=self.room[0]), np.concatenate(slopes, out=self.room[1])
        if self.term is None:
            y, a = (np.concatenate(each) for each in given)
            self._rows = int(np.count_nonzero(a[:, 0]))
            self.term = LossTerm(self.loss, y, a / self._rows, self.P)
            self.sampling.end_first_pass()
        if self._by_sign is None:
            self.G /= self._rows
        else:
            self._by_sign /= self._rows
            self.G = self._by_sign.sum(0)[:, None]
        self._loss_now = self.term.true_value(self.P)
        self._sum_slopes(self.term)
        self._assess(self.term)

    def _sum_slopes(self, term: LossTerm) -> None:
        """Compute the slope of the mean loss in each intercept; 0 where there are none."""
        self.slopes_b = (term.share * self.slopes).sum(0) if self.intercept else 0.0 * self.b

    @property
    def takes_samples(self) -> bool:
        """Return whether steps are made by samples of the rows, and there is one output."""
        return self.sampling.serves and len(self.b) == 1 and not self.by_gap

    def candidates(self, share: float) -> np.ndarray:
        """Return the columns with a weight, or with a slope of at least a share of their L1 weight; one at least."""
        slopes = np.abs(self.G + self.psi.rho * self.W)
        found = ((slopes > share * self.psi.l1[:, None]) | (self.W != 0.0)).any(1)
        found[np.argmax(slopes.max(1))] = True
        return np.flatnonzero(found)

    def narrowed(self, columns: np.ndarray, curves: np.ndarray | None, room: np.ndarray) -> Model:
        """Return the model restricted to some columns, at its present weights; what a pass showed holds for it, too.

        ``curves`` are the second derivatives of all weights that a first pass showed.  ``room`` (2, n, 1) is for the
        margins and slopes of its passes.
        """
        psi, lanes = self.psi.at(columns), self.lanes
        twin = Model(self.W[columns], self.b.copy(), lanes, self.loss, psi, self.unit, self.intercept)
        twin.has_certificate, twin._by_sign, twin.room = False, None, (room[0], room[1])
        twin.sampling.curves = None if curves is None else curves[np.append(columns, -1)]
        if self.term is not None:
            twin.term, twin.P, twin.slopes, twin.G = self.term, self.P, self.slopes, self.G[columns]
            twin._rows, twin._loss_now, twin.slopes_b = self._rows, self._loss_now, self.slopes_b
            twin._assess(self.term)
        return twin

    def take_optimum(self, twin: Model, columns: np.ndarray, tol: float) -> None:
        """Take the weights of a twin restricted to some columns, with the best intercept.

        The slopes then sum to zero.  An intercept that matters little, beside a tolerance of the gap, is left.
        """
        assert twin.term is not None
        self.term, self.working_sets, self._steps = twin.term, [*self.working_sets, columns.size], twin.steps
        self.W, self._by_sign = np.zeros_like(self.W), None
        self.W[columns], self.b, self.P, self.slopes = twin.best.W, twin.b, twin.P, twin.slopes
        self._rows, self._loss_now, self.slopes_b = twin._rows, twin._loss_now, twin.slopes_b
        matters = _MATTERS * tol * twin._scale(twin.term)
        if self.intercept and np.abs(twin.slopes_b) @ twin.term.far(self.P, self.b) > matters:
            self.b, self.P, self.slopes, _ = with_best_intercept(twin.term, self.b, self.P)
            self._loss_now = twin.term.true_value(self.P)
            self._sum_slopes(twin.term)

    def go_back(self) -> None:
        """Go back to the best point; a pass must follow."""
        self.W, self.b = self.best.W.copy(), self.best.b.copy()

    def take_gradient(self, G: np.ndarray) -> None:
        """Take the gradient at the present slopes, and certify the model by it."""
        assert self.term is not None
        self.G, self.best = G, _Best(np.inf, self.W, self.b)
        self._assess(self.term)
        self.dual = Dual(self.slopes, self.G, self.slopes_b)
        self.certify()

    def start_at(self, other: Model) -> None:
        """Start at the optimum of another strength; its margins, slopes, gradient and columns are taken over."""
        self.W, self.b, self.P, self.slopes, self.term = other.W, other.b, other.P, other.slopes, other.term
        self._rows, self._loss_now, self.slopes_b = other._rows, other._loss_now, other.slopes_b
        self.G, self.chosen, self.restricted = other.G, other.chosen, other.restricted
        self._by_sign = other._by_sign
        self.share_sample(other)
        other.P = other.slopes = self.P[:0]
        other.dual = None
        assert self.term is not None  # the other model has been solved
        if self.restricted is not None:
            self._steps = -self.restricted.steps
            self.restricted.psi = self.psi.at(self.chosen)
        self._assess(self.term)

    def share_sample(self, other: Model) -> None:
        """Take over the sample of another strength."""
        self.sampling = other.sampling
        self.sampling.begin(self.psi.rho != other.psi.rho)

    def objective_at(self, P: np.ndarray, W: np.ndarray) -> float:
        """Return the objective of weights with these margins."""
        assert self.term is not None
        return self.term.true_value(P) + self.psi.value(W)

    def _assess(self, term: LossTerm) -> None:
        """Compute the objective, the violations and the gap from margins, slopes and gradient."""
        f, best = self._loss_now + self.psi.value(self.W), self.best
        scale = max(abs(f), term.least)
        is_lower = bool(np.isfinite(f) and f <= best.f + 1e-9 * scale)
        self.idle = 0 if f < best.f - 1e-9 * scale else self.idle + 1
        self.is_confirmed = is_lower or term.has_kinks
        if not self.is_confirmed:  # the rows contradict their sample or columns: go half of the way back
            self.W, self.b = 0.5 * (self.W + best.W), 0.5 * (self.b + best.b)
            self.gap, self._refuted = np.inf, self._refuted + 1
            if not np.isfinite(best.f):  # nor is any number of the first pass
                self.sampling.serves = False
            elif self._refuted > _REFUTED:
                self.go_back()
            return
        if is_lower:
            self.best = _Best(f, self.W.copy(), self.b.copy())
        self.violations = self.psi.violations(self.G, self.W)
        self.violation = max(float(self.violations.max(initial=0.0)), float(np.abs(self.slopes_b).max()))
        self.dual = None
        self.gap = self._gap_now() if self.by_gap else self.violation / self.unit
        if self.gap < 0.9 * self.lowest:
            self.lowest, self.idle = self.gap, 0

    def is_solved(self, tol: float) -> bool:
        """Return whether the measure is within the tolerance, and so is the relative duality gap, if there is one."""
        tol *= self.share
        to_reach = tol if self.sums_by_sign else _ESTIMATED * tol
        if self.by_gap:
            return self.gap <= to_reach
        return self.gap <= tol and not (self.has_certificate and self._gap_now() > to_reach)

    def is_reached(self, tol: float) -> bool:
        """Return what ``is_solved`` does after the duality gap was certified, when it is no estimate any more."""
        return self.gap <= tol and not self.relative_gap > tol

    @property
    def is_stuck(self) -> bool:
        """Return whether nothing has fallen in the last passes: the limit of rounding."""
        return self.idle >= _IDLE

    def may_improve(self, tol: float) -> bool:
        """Return whether to go on after a certificate that was worse than its estimate, with a tenth of the tolerance.

        Estimates leave out how the balance of the slopes changes the gradients of columns that are far from centred.
        """
        self.share *= 0.1
        return not self.is_stuck and self.share * tol >= 1e-15

    @property
    def sums_by_sign(self) -> bool:
        """Return whether gradients are summed by the sign of the slopes, which are then balanced without a pass."""
        return self._by_sign is not None

    def balance(self) -> Dual:
        """Make slopes that sum to zero for each intercept; their gradient is to be summed if it is not known."""
        assert self.term is not None
        if self.dual is not None:
            return self.dual
        if not self.intercept:
            self.dual = Dual(self.slopes, self.G, self.slopes_b)
        elif self._by_sign is None:
            self.dual = Dual(balanced(self.term, self.P, self.slopes), np.zeros_like(self.G), 0.0 * self.b)
        else:
            down, up = balancing_factors(self.term, self.slopes)
            G = down * self._by_sign[0][:, None] + up * self._by_sign[1][:, None]
            self.dual = Dual(np.where(self.slopes > 0.0, up, down) * self.slopes, G, 0.0 * self.b)
            self._certified = self._relative_gap(self.dual)
        return self.dual

    def shares(self) -> np.ndarray:
        """Return the share of each row in the mean loss."""
        assert self.term is not None
        return self.term.share

    def certify(self) -> None:
        """Compute the duality gap at the balanced slopes."""
        assert self.term is not None
        dual = self.balance()
        self.relative_gap = self._certified if self.sums_by_sign and self.intercept else self._relative_gap(dual)
        self.duality_gap = self.relative_gap * self._scale(self.term)
        if self.by_gap:
            self.gap = self.relative_gap

    def _relative_gap(self, dual: Dual) -> float:
        """Return the duality gap as a share of the objective, NaN if there is none."""
        assert self.term is not None
        if self.loss.conjugate is None or not np.isfinite(self.violation):
            return np.nan
        gap = gap_of(self.term, self.psi, (self.W, self.b, self.P), self.best.f, *dual)
        return gap / self._scale(self.term)

    def _gap_now(self) -> float:
        """Return the duality gap as a share of the objective: certified, or an estimate if that needs a pass."""
        if self.sums_by_sign and self.intercept:
            self.balance()
            return self._certified
        return self._relative_gap(Dual(self.slopes, self.G, self.slopes_b))

    def _scale(self, term: LossTerm) -> float:
        """Return the objective that gaps are compared with."""
        return max(abs(self.best.f), term.least)

    # ---- a step by a sample of the rows ----------------------------------------------------------------------------

    def plans_sample(self, nonzeros: float) -> bool:
        """Return whether the next step is made by a sample of the rows, whose mean number of nonzeros is given."""
        if self._refuted > _REFUTED:
            self.sampling.serves = False
        return self.sampling.plan(self._point(), self.psi, self.violations, len(self.P), nonzeros)

    def _point(self) -> Point:
        return Point(self.W, self.b, self.G, self.slopes_b)

    def importance(self) -> np.ndarray:
        """Return about how much each row adds to the second derivatives, as a multiple of the mean."""
        assert self.term is not None
        return importance(self.term, self.P)

    def take_rows(self, rows: Matrix, numbers: np.ndarray, factors: np.ndarray, drawn: int) -> None:
        """Take a sample of ``drawn`` rows, each with its number and the factor by which it stands for others."""
        assert self.term is not None
        self.sampling.take(Sample(rows, numbers, factors, self.term, self.intercept), drawn)

    def step(self, tol: float) -> None:
        """Go to the minimum of the model by the second derivatives of the sample."""
        self.working_sets.append(self.sampling.n_columns)
        accuracy = max(0.01 * self.violation, 0.1 * self.share * tol * self._unit())
        self.W, db = self.sampling.step(self._point(), self.P, self.psi, accuracy)
        self.b, self._steps = self.b + db, self._steps + 1

    def move_to(self, w: np.ndarray, b: float, columns: np.ndarray) -> None:
        """Go to the minimum over a sample: the weights of some columns, which have all features, and the intercept.

        A pass must follow.
        """
        if self.term is not None:
            self.working_sets.append(int(np.count_nonzero((self.W[columns, 0] != 0.0) | (w != 0.0))))
        self.W = np.zeros_like(self.W)
        self.W[columns, 0], self.b, self._steps = w, np.array([b]), self._steps + 1

    # ---- a solution on all rows in memory --------------------------------------------------------------------------

    def take_solution(self, at: GroupNewton, found: Certificate, steps: int) -> None:
        """Take a point with its certificate."""
        self.W, self.b, self._steps = at.W, at.b, self._steps + steps
        self.best = _Best(at.f, at.W.copy(), at.b.copy())
        self.gap, self.duality_gap, self.relative_gap = found.violation, found.duality_gap, found.relative_gap
        self.dual = Dual(found.slopes, self.G, 0.0 * self.b)

    # ---- a step in a working set of columns ------------------------------------------------------------------------

    def choose(self) -> bool:
        """Choose the working set: the support and the largest violators, twice as many columns as the support has.

        Return whether some columns are new; if none is, the current columns stay.  Groups are chosen whole, and their
        columns stand together.
        """
        groups, inside = self.psi.groups, self.W.any(1)
        if groups is not None:
            inside = (np.bincount(groups, inside) > 0)[groups]
        support = np.flatnonzero(inside)
        room = max(_LEAST_COLUMNS - support.size, support.size)
        others = np.flatnonzero((self.violations > 0.0) & ~inside)
        if others.size > room and not self.psi.is_smooth:
            others = others[np.argpartition(-self.violations[others], room - 1)[:room]]
        chosen = np.union1d(support, others)
        if self.chosen.size <= _KEPT * chosen.size:  # columns that left would come back, again and again
            chosen = np.union1d(chosen, self.chosen)
        if groups is not None:
            chosen = np.flatnonzero((np.bincount(groups[chosen], minlength=len(self.psi.norms)) > 0)[groups])
            chosen = chosen[np.argsort(groups[chosen], kind="stable")]
        self.working_sets.append(chosen.size)
        self.knows = self.restricted is not None and bool(np.isin(chosen, self.chosen, assume_unique=True).all())
        if not self.knows:
            self.chosen = chosen
        return not self.knows

    def take_columns(self, rows: Matrix) -> None:
        """Make the restricted problem of the chosen columns."""
        assert self.term is not None
        last, new = self.restricted, Restricted(rows, self.psi.at(self.chosen), self.term, self.intercept)
        if last is not None:
            self._steps += last.steps
            new.creeps, new.floor, new.ridge = last.creeps, last.floor, last.ridge
        self.restricted = new

    def solve(self, tol: float) -> None:
        """Solve the problem in the chosen columns, until violations are well below those of the last pass."""
        problem, share, tol = self.restricted, _KNOWN if self.knows else _LEFT, self.share * tol
        assert problem is not None  # columns were copied first
        problem.place(self.W[self.chosen], self.b, self.P)
        if problem.term.has_kinks:
            problem.solve_kinks(max(share * min(self.gap, 1.0), 0.3 * tol), self._unit())
        else:
            least = 0.3 * tol * self.unit
            problem.solve(max(share * self.violation, least if self.violation > 3.0 * least else 0.0))
        self.W[self.chosen], self.b = problem.W, problem.b

    def _unit(self) -> float:
        """Return the scale of violations."""
        return self.unit if self.unit > 0.0 else float(np.abs(self.G).max(initial=1e-300))
