"""One model of a polish: its weights, what the last pass over all rows showed, and its working set of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..data import row_sums
from ..data.rows import Matrix, margins, screened, stack
from ..losses import derivative
from ..penalties.blocks import Blocks
from ..solver.certificate import balanced, gap_of
from ..solver.loss_term import LossTerm
from ..solver.restricted import Restricted

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


class Part(NamedTuple):
    """Some rows, with a target and a weight for each model: (n, m)."""

    matrix: Matrix
    targets: np.ndarray
    weights: np.ndarray


Rows = Callable[[], Iterable[Part]]
"""A pass over all rows: the same rows at every call, in the same order."""


class _Point(NamedTuple):
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
        self.G, self.violations = np.zeros_like(W), np.zeros(len(W))
        self.P, self.slopes = np.empty((0, len(b))), np.empty((0, len(b)))
        self.term: LossTerm | None = None
        self.chosen, self.knows = np.empty(0, np.int64), False
        self.restricted: Restricted | None = None
        self.working_sets: list[int] = []
        self.best = _Point(np.inf, W, b)
        """The point where the objective was lowest in a pass over all rows."""
        self.gap = self.violation = np.inf
        self.duality_gap = self.relative_gap = np.nan
        self.is_confirmed, self._steps = False, 0
        self.share, self.lowest, self.idle = 1.0, np.inf, 0
        """The share of the tolerance to reach, the lowest gap, and the passes since the gap or the objective fell."""

    @property
    def steps(self) -> int:
        """Return the number of steps in working sets so far."""
        return self._steps + (0 if self.restricted is None else self.restricted.steps)

    # ---- a pass ----------------------------------------------------------------------------------------------------

    def look(self, part: Part, seen: int) -> tuple[np.ndarray, ...]:
        """Return margins, slopes, targets and weights of the rows from number ``seen`` on; add their gradient to G."""
        X, y, a = part.matrix, part.targets[:, self.lanes], part.weights[:, self.lanes]
        if self.W.shape[1] == 1:
            P = row_sums.margins(X.indptr, X.indices, X.data, self.W[:, 0], float(self.b[0]))[:, None]
        else:
            P = margins(X.indptr, X.indices, X.data, self.W, self.b)
        slopes = self._slopes(P, y, seen)
        add_gradients(X, a * slopes, self.G)
        return P, slopes, y, a

    def _slopes(self, P: np.ndarray, y: np.ndarray, seen: int) -> np.ndarray:
        """Return the derivatives of each example's loss, or of its envelope as it is shifted now."""
        if self.term is None or not self.term.has_kinks:
            return derivative(self.loss, P, y)
        return derivative(self.term.twin, P + self.term.shift[seen : seen + len(P)], y)

    def looked(self, parts: list[tuple[np.ndarray, ...]]) -> None:
        """Complete a pass over all rows: compute the objective, the gradient, the violations and the gap."""
        if not parts:
            raise ValueError("polish has no rows to solve for: all of them are held out, or have a weight of zero.")
        self.P, self.slopes, y, a = (np.concatenate(each) for each in zip(*parts, strict=True))
        n = np.count_nonzero(a[:, 0])
        self.G /= n
        if self.term is None:
            self.term = LossTerm(self.loss, y, a / n, self.P)
        self._assess(self.term)

    def start_at(self, other: Model) -> None:
        """Start at the optimum of another strength; its margins, slopes, gradient and columns are taken over."""
        self.W, self.b, self.P, self.slopes, self.term = other.W, other.b, other.P, other.slopes, other.term
        self.G, self.chosen, self.restricted = other.G, other.chosen, other.restricted
        other.P = other.slopes = self.P[:0]
        assert self.term is not None  # the other model has been solved
        if self.restricted is not None:
            self._steps = -self.restricted.steps
            self.restricted.psi = self.psi.at(self.chosen)
        self._assess(self.term)

    def _assess(self, term: LossTerm) -> None:
        """Compute the objective, the violations and the gap from margins, slopes and gradient."""
        f, best = term.true_value(self.P) + self.psi.value(self.W), self.best
        scale = max(abs(f), term.least)
        is_lower = bool(f <= best.f + 1e-9 * scale)
        self.idle = 0 if f < best.f - 1e-9 * scale else self.idle + 1
        self.is_confirmed = is_lower or term.has_kinks
        if not self.is_confirmed:  # the rows contradict their columns: go half of the way back
            self.W, self.b = 0.5 * (self.W + best.W), 0.5 * (self.b + best.b)
            self.gap = np.inf
            return
        if is_lower:
            self.best = _Point(f, self.W.copy(), self.b.copy())
        self.slopes_b = (term.share * self.slopes).sum(0) if self.intercept else 0.0 * self.b
        self.violations = self.psi.violations(self.G, self.W)
        self.violation = max(float(self.violations.max(initial=0.0)), float(np.abs(self.slopes_b).max()))
        self.gap = self._relative_gap() if self.by_gap else self.violation / self.unit
        if self.gap < 0.9 * self.lowest:
            self.lowest, self.idle = self.gap, 0

    def is_solved(self, tol: float) -> bool:
        """Return whether the measure is within the tolerance, and so is the relative duality gap, if there is one."""
        tol *= self.share
        if self.by_gap:
            return self.gap <= _ESTIMATED * tol
        return self.gap <= tol and not self._relative_gap() > _ESTIMATED * tol

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

    def balance(self) -> None:
        """Change the slopes so that they sum to zero for each intercept; their gradient is then to be summed again."""
        if self.intercept:
            assert self.term is not None
            self.slopes = balanced(self.term, self.P, self.slopes)
            self.slopes_b, self.G[:] = 0.0 * self.b, 0.0

    def shares(self) -> np.ndarray:
        """Return the share of each row in the mean loss."""
        assert self.term is not None
        return self.term.share

    def certify(self) -> None:
        """Compute the duality gap at the present slopes: a bound if they are balanced, otherwise an estimate."""
        assert self.term is not None
        self.relative_gap = self._relative_gap()
        self.duality_gap = self.relative_gap * self._scale(self.term)
        if self.by_gap:
            self.gap = self.relative_gap

    def _relative_gap(self) -> float:
        """Return the duality gap as a share of the objective, NaN if there is none."""
        assert self.term is not None
        if self.loss.conjugate is None or not np.isfinite(self.violation):
            return np.nan
        point = self.W, self.b, self.P
        gap = gap_of(self.term, self.psi, point, self.best.f, self.slopes, self.G, self.slopes_b)
        return gap / self._scale(self.term)

    def _scale(self, term: LossTerm) -> float:
        """Return the objective that gaps are compared with."""
        return max(abs(self.best.f), term.least)

    # ---- between passes --------------------------------------------------------------------------------------------

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

    def places(self) -> np.ndarray:
        """Return for each column its position among the chosen ones, -1 if it is not chosen."""
        place = np.full(len(self.W), -1, np.int32)
        place[self.chosen] = np.arange(self.chosen.size)
        return place

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
        assert problem is not None  # ``copy_columns`` came first
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


def add_gradients(X: Matrix, c: np.ndarray, G: np.ndarray) -> None:
    """Add sum_i x_i c_i^T to G (d, m) in place."""
    if c.shape[1] == 1:
        row_sums.add_gradient(X.indptr, X.indices, X.data, np.ascontiguousarray(c[:, 0]), G[:, 0])
    else:
        G += X.to_scipy().T @ c


def look(rows: Rows, models: list[Model]) -> None:
    """Make one pass over the rows for these models."""
    found: list[list[tuple[np.ndarray, ...]]] = [[] for _ in models]
    for model in models:
        model.G[:] = 0.0
    seen = 0
    for part in rows():
        for parts, model in zip(found, models, strict=True):
            parts.append(model.look(part, seen))
        seen += len(part.matrix)
    for parts, model in zip(found, models, strict=True):
        model.looked(parts)


def copy_columns(rows: Rows, models: list[Model]) -> None:
    """Copy the chosen columns of these models in another pass over the rows."""
    if not models:
        return
    found: list[list[Matrix]] = [[] for _ in models]
    places = [model.places() for model in models]
    for part in rows():
        X = part.matrix
        for parts, place, model in zip(found, places, models, strict=True):
            parts.append(Matrix(*screened(X.indptr, X.indices, X.data, place), model.chosen.size))
    for parts, model in zip(found, models, strict=True):
        model.take_columns(stack(parts))


def certify(rows: Rows, models: list[Model]) -> None:
    """Compute the duality gap of each model, in one more pass where there are intercepts."""
    models = [model for model in models if model.is_confirmed and model.loss.conjugate is not None]
    for model in models:
        model.balance()
    moved, seen = [model for model in models if model.intercept], 0
    for part in rows() if moved else ():
        for model in moved:
            here = slice(seen, seen + len(part.matrix))
            add_gradients(part.matrix, model.shares()[here] * model.slopes[here], model.G)
        seen += len(part.matrix)
    for model in models:
        model.certify()
