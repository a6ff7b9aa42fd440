"""The certified optimum: prox-Newton steps on a working set of columns until the optimality conditions hold.

    phi(W, b) = 1/n sum_i a_i loss(x_i W + b, y_i) + psi(W)

A pass over all rows gives margins, the objective and the gradient of the loss.  From these follow the violation of each
weight's optimality condition (the KKT conditions; ``penalties.blocks``) and the duality gap.  The support and the
largest violators are the working set.  Their columns are copied, and the problem in them alone is solved
(``solver.restricted``).  It ends when no violation exceeds tol * lam.  Where the loss has kinks, or the penalty no lam,
it ends when the duality gap is at most tol times the objective.  Rows are only read in passes, so they may be in files.
Only a few numbers for each row and each feature, and the columns of the working set, stay in memory.

Weights that are tied together, by a softmax or by groups, are one model with several outputs.  Others are solved apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..conversions.averaging import Answer
from ..data import row_sums
from ..data.rows import Matrix, margins, screened, stack
from ..losses import derivative
from ..penalties import Box
from ..penalties.blocks import Blocks
from ..solver import weight_descent
from ..solver.certificate import balanced, gap_of
from ..solver.restricted import LossTerm, Restricted
from ..solver.smoothing import envelope
from ..util.progress import step
from .finishing import finish_runs
from .run import Run

TOLERANCE = 1e-4
"""The tolerance of ``polish=True``."""
PASSES = 100
_LEAST_COLUMNS = 100
_LEFT = 0.3
"""A working set is left when its own violations are at most this share of those of all columns."""
_KNOWN = 0.01
"""The share that replaces ``_LEFT`` if all violators had been in the working set before."""
_KEPT = 2
"""A working set also keeps the columns of the last one, if these are not more than so many times its own."""
_ESTIMATED = 0.7
"""The share of the tolerance that a gap must reach, since it is an estimate until slopes are balanced."""
_MARGINS = 1 << 24
"""The most margins in memory, for models that are solved side by side and share the reads of the rows."""
_NONZEROS = 1 << 17
"""The nonzeros of the rows in memory that are processed together: about what a cache holds."""


BY_MODEL = ("objectives", "gaps", "duality_gaps", "working_sets", "steps")
"""The fields of the report that have a value for each model."""


class Part(NamedTuple):
    """Some rows, with a target and a weight for each model: (n, m)."""

    matrix: Matrix
    targets: np.ndarray
    weights: np.ndarray


Rows = Callable[[], Iterable[Part]]
"""A pass over all rows: the same rows at every call, in the same order."""


class Polished(NamedTuple):
    """Models (d, m) and (m,), with bounds on the distance of each from its optimum."""

    w: np.ndarray
    b: np.ndarray
    objectives: np.ndarray
    gaps: np.ndarray
    """The largest violations divided by lam; duality gaps over objectives where the loss has kinks or lam is 0."""
    duality_gaps: np.ndarray
    """Bounds on objective - optimum; NaN if there is none, as for a loss without a conjugate."""
    slopes: list[np.ndarray]
    """The slopes of the loss in the margins (n, outputs) by which each bound is computed, before they are scaled."""
    working_sets: list[list[int]]
    """The sizes of the working sets, for each model."""
    steps: list[int]
    passes: int


def polish(
    rows: Rows,
    w: np.ndarray,
    b: np.ndarray,
    *,
    loss: Any,
    penalty: Any,
    lams: Any = None,
    intercept: bool = True,
    tol: float = TOLERANCE,
    passes: int | None = None,
) -> Polished:
    """Return the minimum of phi for each model, from a start w (d, m), b (m,), until violations are at most tol * lam.

    ``lams`` gives each model its own L1 weight.  ``passes`` bounds how often the gradient is computed; if it was too
    small, ``gaps`` exceed the tolerance.
    """
    passes = passes or PASSES
    models = _models(w, b, loss, penalty, lams, intercept)
    done, open_models = 0, models
    while open_models and done < passes:
        step(f"polishing: pass {done + 1} over the rows, {len(open_models)} of {len(models)} models to solve")
        _look(rows, open_models)
        done += 1
        open_models = [model for model in open_models if not model.is_solved(tol)]
        if done == passes:
            break
        confirmed = [model for model in open_models if model.is_confirmed]
        _copy_columns(rows, [model for model in confirmed if model.choose()])
        for model in confirmed:
            model.solve(tol)
    _certify(rows, models)
    return Polished(
        np.hstack([model.best.W for model in models]),
        np.concatenate([model.best.b for model in models]),
        np.array([model.best.f for model in models]),
        np.array([model.gap for model in models]),
        np.array([model.duality_gap for model in models]),
        [model.slopes for model in models],
        [model.working_sets for model in models],
        [model.steps for model in models],
        done,
    )


def _models(w: np.ndarray, b: np.ndarray, loss: Any, penalty: Any, lams: Any, intercept: bool) -> list[_Model]:
    """Return the models to solve: one for all outputs if they are tied together, otherwise one for each."""
    d, m = len(w), len(b)
    own = np.full(m, penalty.lam) if lams is None else np.asarray(lams, np.float64)
    cuts = [slice(0, m)] if is_tied(loss, penalty, lams) else [slice(q, q + 1) for q in range(m)]
    models = []
    for cut in cuts:
        lam = float(own[cut.start])
        psi = (penalty if lam == penalty.lam else penalty._replace(lam=lam)).blocks(d).of_outputs(cut.stop - cut.start)
        models.append(_Model(w[:, cut].copy(), b[cut].copy(), cut, loss, psi, lam, intercept))
    return models


def is_tied(loss: Any, penalty: Any, lams: Any) -> bool:
    """Return whether all outputs are one problem; outputs with their own strengths are apart."""
    return bool(loss.couples or (penalty.kind != "separable" and lams is None))


def finish_polished(
    runs: list[Run], rows: Callable[[], Iterable[tuple[Matrix, np.ndarray, np.ndarray]]], tol: float
) -> list[Answer]:
    """Return the polished answers of all runs of a model, which have begun.

    ``rows`` yields rows, y and weights as they were learned.  A penalty that was chosen in units of the columns is
    polished on columns that are divided by their units.
    """
    answers, first = finish_runs(runs), runs[0]
    if not first.conversion.joins_runs:
        pairs = zip(runs, answers, strict=True)
        return [_polished(run, answer, run.problem.penalty, rows, tol) for run, answer in pairs]
    penalty, units = first.conversion.penalty(answers[0]), first.conversion.units(first)

    def scaled() -> Iterator[tuple[Matrix, np.ndarray, np.ndarray]]:
        for matrix, y, weights in rows():
            data = matrix.data / units[matrix.indices]
            yield Matrix(matrix.indptr, matrix.indices, data, matrix.d), y, weights

    found = []
    for run, answer in zip(runs, answers, strict=True):
        start = answer._replace(w=answer.w * units[:, None])
        polished = _polished(run, start, penalty, scaled, tol)
        found.append(polished._replace(w=polished.w / units[:, None]))
    return found


def _polished(
    run: Run,
    answer: Answer,
    penalty: Any,
    rows: Callable[[], Iterable[tuple[Matrix, np.ndarray, np.ndarray]]],
    tol: float,
) -> Answer:
    """Return the polished answer of a run."""
    problem, found = run.problem, list[Polished]()
    is_one = is_tied(problem.loss, penalty, problem.lams)
    together = problem.m if is_one else max(1, _MARGINS // max(run.examples, 1))
    for first in range(0, problem.m, together):
        some = slice(first, min(first + together, problem.m))

        def parts(some: slice = some) -> Iterator[Part]:
            for matrix, y, weights in rows():
                yield Part(matrix, *(lanes[:, some] for lanes in run.lanes_of(y, weights)))

        found.append(
            polish(
                parts,
                answer.w[:, some],
                answer.b[some],
                loss=problem.loss,
                penalty=penalty,
                lams=None if problem.lams is None else problem.lams[some],
                intercept=problem.intercept,
                tol=tol,
            )
        )
    worst, passes = max(each.gaps.max() for each in found), sum(each.passes for each in found)
    if worst > tol:
        run.warn(
            f"polish={tol:g} was not reached in {passes} passes: the largest violation is {worst:.2g} "
            "times lam; the model is the best one found."
        )
    report: dict[str, Any] = {"tolerance": tol, "passes": passes}
    for name in BY_MODEL:
        parts_of = [getattr(each, name) for each in found]
        report[name] = [one for part in parts_of for one in (part.tolist() if isinstance(part, np.ndarray) else part)]
    w, b = np.concatenate([each.w for each in found], axis=1), np.concatenate([each.b for each in found])
    return answer._replace(w=w, b=b, report=answer.report | {"polish": report})


def check_polishable(loss: Any, penalty: Any, conversion: Any) -> None:
    """Raise for a loss, penalty or conversion that has no certificate here."""
    record = penalty.record
    has_form = loss.shares is not None if loss.couples else loss.curved or envelope(loss, 1.0) is not None
    if not has_form:
        raise ValueError(
            f"polish needs a loss with a curvature or a known envelope, which {type(loss).__name__} does not have: "
            "leave polish at False."
        )
    if record.blocks is None:
        raise ValueError(
            f"polish has no certificate for {record.__name__}: choose an elastic net, signs, a box or groups, or leave "
            "polish at False."
        )
    if not (penalty.has_strength or penalty.strength_is_open or penalty.rho > 0.0 or _is_bounded(penalty)):
        raise ValueError("polish needs a penalty above 0, or finite bounds: raise alpha.")
    if loss.conjugate is None and not (penalty.has_strength or penalty.strength_is_open):
        raise ValueError(
            f"polish without an L1 weight needs the conjugate of the loss, which {type(loss).__name__} does not have: "
            "raise l1_ratio, or define conjugate."
        )
    if conversion.is_rounding:
        raise ValueError(f"polish would undo {type(conversion).__name__}: choose one of the two.")


def _is_bounded(penalty: Any) -> bool:
    """Return whether the penalty is a box with finite bounds."""
    return isinstance(penalty, Box) and bool(np.isfinite(penalty.low).all() and np.isfinite(penalty.high).all())


def slices(matrix: Matrix, *columns: np.ndarray) -> Iterator[tuple[Any, ...]]:
    """Yield rows in memory, and the columns that belong to them, a few at a time, without copies."""
    rows = max(1, len(matrix) * _NONZEROS // max(int(matrix.indptr[-1] - matrix.indptr[0]), 1))
    for start in range(0, len(matrix), rows):
        here = slice(start, start + rows)
        indptr = matrix.indptr[start : start + rows + 1]
        first, last = indptr[0], indptr[-1]
        part = Matrix(indptr - first, matrix.indices[first:last], matrix.data[first:last], matrix.d)
        yield (part, *(column[here] for column in columns))


class _Point(NamedTuple):
    """Weights (d, m) and intercepts, with their objective on all rows."""

    f: float
    W: np.ndarray
    b: np.ndarray


class _Model:
    """One model of a polish: its weights, and the results of the last pass."""

    def __init__(
        self, W: np.ndarray, b: np.ndarray, lanes: slice, loss: Any, psi: Blocks, lam: float, intercept: bool
    ) -> None:
        self.W, self.b, self.lanes, self.loss, self.psi, self.intercept = W, b, lanes, loss, psi, intercept
        self.unit, self.by_gap = lam, not loss.curved or lam <= 0.0
        """The unit of violations, and whether the duality gap is the measure of optimality in their place."""
        self.G, self.violations = np.zeros_like(W), np.empty(len(W))
        self.P, self.slopes = np.empty((0, len(b))), np.empty((0, len(b)))
        self.term: LossTerm | None = None
        self.chosen, self.knows = np.empty(0, np.int64), False
        self.restricted: Restricted | None = None
        self.working_sets: list[int] = []
        self.best = _Point(np.inf, W, b)
        """The point where the objective was lowest in a pass over all rows."""
        self.gap = self.violation = np.inf
        self.duality_gap = np.nan
        self.is_confirmed = False

    @property
    def steps(self) -> int:
        """Return the number of steps in working sets so far."""
        return self._steps + (0 if self.restricted is None else self.restricted.steps)

    _steps = 0

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
        f = self.term.true_value(self.P) + self.psi.value(self.W)
        best = self.best
        is_lower = bool(f <= best.f + 1e-9 * max(abs(best.f), self.term.least))
        self.is_confirmed = is_lower or self.term.has_kinks
        if not self.is_confirmed:  # the rows contradict their columns: go half of the way back
            self.W, self.b = 0.5 * (self.W + best.W), 0.5 * (self.b + best.b)
            self.gap = np.inf
            return
        if is_lower:
            self.best = _Point(f, self.W.copy(), self.b.copy())
        self.slopes_b = (self.term.share * self.slopes).sum(0) if self.intercept else 0.0 * self.b
        if self.psi.groups is None and self.psi.low is None and self.W.shape[1] == 1:
            out, args = self.violations, (self.G[:, 0], self.W[:, 0], self.psi.l1, self.psi.rho)
            worst = weight_descent.violations(*args, out)
        else:
            self.violations = self.psi.violations(self.G, self.W)
            worst = self.violations.max(initial=0.0)
        self.violation = max(float(worst), float(np.abs(self.slopes_b).max()))
        self.gap = self._relative_gap() if self.by_gap else self.violation / self.unit

    def is_solved(self, tol: float) -> bool:
        """Return whether the measure is at most ``tol``, and so is the relative duality gap, if there is one."""
        if self.by_gap:
            return self.gap <= _ESTIMATED * tol
        return self.gap <= tol and not self._relative_gap() > _ESTIMATED * tol

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
        """Compute the duality gap at the balanced slopes."""
        self.duality_gap = self._gap(self.slopes, self.G, self.slopes_b)
        if self.by_gap:
            self.gap = self._relative_gap()

    def _relative_gap(self) -> float:
        assert self.term is not None
        gap = self._gap(self.slopes, self.G, self.slopes_b)
        return gap / max(abs(self.best.f), self.term.least)

    def _gap(self, slopes: np.ndarray, G: np.ndarray, slopes_b: np.ndarray) -> float:
        """Return a bound on the distance of the objective from its minimum, NaN if there is none."""
        assert self.term is not None
        if self.loss.conjugate is None or not np.isfinite(self.violation):
            return np.nan
        loose = float(np.abs(slopes_b) @ (np.abs(self.b) + self.term.far)) + self.psi.slack(G, self.W)
        return gap_of(self.term, self.psi, G, self.best.f, slopes, loose)

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
        problem, share = self.restricted, _KNOWN if self.knows else _LEFT
        assert problem is not None  # ``_copy_columns`` came first
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


def _look(rows: Rows, models: list[_Model]) -> None:
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


def _copy_columns(rows: Rows, models: list[_Model]) -> None:
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


def _certify(rows: Rows, models: list[_Model]) -> None:
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
