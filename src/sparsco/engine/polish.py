"""The certified optimum: prox-Newton steps on a working set of columns until the optimality conditions hold.

    phi(w, b) = 1/n sum_i a_i loss(<w, x_i> + b, y_i) + rho/2 ||w||^2 + lam sum_j pen_j |w_j|

A pass over all rows gives margins, the objective and the gradient g of the loss.  From these follows the violation of
each weight's optimality condition (the KKT conditions):

    |g_j + rho w_j + lam pen_j sign(w_j)|  where w_j is not 0,     max(|g_j| - lam pen_j, 0)  where it is.

The support and the largest violators are the working set.  Their columns are copied, and the problem in them alone is
solved by Newton steps: each is the minimum of the loss's quadratic model, then a line search.  It ends when no
violation exceeds tol * lam.  Rows are only read in passes, so they may be in files.  Only a few numbers for each row
and each feature, and the columns of the working set, stay in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..conversions.averaging import Answer
from ..data import row_sums
from ..data.rows import Matrix, screened, stack
from ..losses import curvature, derivative, value
from ..penalties import ElasticNet, WeightedElasticNet
from ..util.progress import step
from . import coordinate_descent
from .finishing import finish_runs
from .run import Run

TOLERANCE = 1e-4
"""The tolerance of ``polish=True``."""
PASSES = 100
_LEAST_COLUMNS = 100
_STEPS = 20
_SWEEPS = 10
"""The sweeps of coordinate descent for a quadratic model that the next step replaces."""
_LEFT = 0.3
"""A working set is left when its own violations are at most this share of those of all columns."""
_KNOWN = 0.01
"""The share that replaces ``_LEFT`` if all violators had been in the working set before."""
_SLACK = 0.2
"""A quadratic model is left when its violations are at most this share of those at its start."""
_STALE = 0.1
"""A step with an old Gram matrix must reduce violations to this share; otherwise the matrix is computed again."""
_GRAM_COLUMNS = 1500
_GRAM_PAIRS = 120
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
    """The largest violations divided by lam."""
    duality_gaps: np.ndarray
    """Bounds on objective - optimum; NaN if there is none, as for a loss without a conjugate."""
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
    own, passes = np.full(len(b), penalty.lam) if lams is None else np.asarray(lams, np.float64), passes or PASSES
    models = [
        _Model(w[:, q].copy(), float(b[q]), loss, penalty._replace(lam=float(own[q])), intercept) for q in range(len(b))
    ]
    done, open_models = 0, models
    while open_models and done < passes:
        step(f"polishing: pass {done + 1} over the rows, {len(open_models)} of {len(models)} models to solve")
        _look(rows, models, open_models)
        done += 1
        open_models = [model for model in open_models if model.violation > tol * model.penalty.lam]
        if done == passes:
            break
        confirmed = [model for model in open_models if np.isfinite(model.violation)]
        _copy_columns(rows, [model for model in confirmed if model.choose()])
        for model in confirmed:
            model.solve(0.3 * tol * model.penalty.lam)
    return Polished(
        np.stack([model.confirmed[1] for model in models], 1),
        np.array([model.confirmed[2] for model in models]),
        np.array([model.confirmed[0] for model in models]),
        np.array([model.violation for model in models]) / own,
        np.array([model.duality_gap() for model in models]),
        [model.working_sets for model in models],
        [model.steps for model in models],
        done,
    )


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
    together = max(1, _MARGINS // max(run.examples, 1))
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
    if not loss.curved or loss.couples:
        raise ValueError(
            f"polish needs a loss of one margin with a curvature, not {type(loss).__name__}: choose logistic, "
            "squared-hinge, squared or huber."
        )
    if record not in (ElasticNet, WeightedElasticNet):
        raise ValueError(f"polish supports only the elastic net, not {record.__name__}: leave polish at False.")
    if not penalty.has_strength:
        raise ValueError("polish needs an L1 weight above 0: raise alpha or l1_ratio.")
    if conversion.is_rounding:
        raise ValueError(f"polish would undo {type(conversion).__name__}: choose one of the two.")


def slices(matrix: Matrix, *columns: np.ndarray) -> Iterator[tuple[Any, ...]]:
    """Yield rows in memory, and the columns that belong to them, a few at a time, without copies."""
    rows = max(1, len(matrix) * _NONZEROS // max(int(matrix.indptr[-1] - matrix.indptr[0]), 1))
    for start in range(0, len(matrix), rows):
        here = slice(start, start + rows)
        indptr = matrix.indptr[start : start + rows + 1]
        first, last = indptr[0], indptr[-1]
        part = Matrix(indptr - first, matrix.indices[first:last], matrix.data[first:last], matrix.d)
        yield (part, *(column[here] for column in columns))


class _Model:
    """One model of a polish: its weights, and the results of the last pass."""

    def __init__(self, w: np.ndarray, b: float, loss: Any, penalty: Any, intercept: bool) -> None:
        self.w, self.b, self.loss, self.penalty, self.intercept = w, b, loss, penalty, intercept
        self.pen, self.rho = penalty.lam * penalty.feature_weights(w.size), float(penalty.rho)
        self.g, self.violations = np.empty_like(w), np.empty_like(w)
        self.p = self.y = self.share = np.empty(0)
        self.chosen, self.knows = np.empty(0, np.int64), False
        self.columns: _Columns | None = None
        self.working_sets: list[int] = []
        self.steps, self.floor, self.creeps = 0, 1e-2, False
        self.f, self.confirmed = np.inf, (np.inf, w, b)
        """The objective, and the point where it was lowest in a pass over all rows."""

    # ---- a pass ----------------------------------------------------------------------------------------------------

    def look(self, part: Part, q: int) -> tuple[np.ndarray, ...]:
        """Return margins, targets and weights of some rows, and add their gradient, not yet divided by n, to g."""
        X, y, a = part.matrix, part.targets[:, q], part.weights[:, q]
        p = row_sums.margins(X.indptr, X.indices, X.data, self.w, self.b)
        row_sums.add_gradient(X.indptr, X.indices, X.data, a * derivative(self.loss, p, y), self.g)
        return p, y, a

    def looked(self, parts: list[tuple[np.ndarray, ...]]) -> None:
        """Complete a pass over all rows: compute the objective, the gradient and the violations."""
        if not parts:
            raise ValueError("polish has no rows to solve for: all of them are held out, or have a weight of zero.")
        self.p, self.y, a = (np.concatenate(each) for each in zip(*parts, strict=True))
        n = np.count_nonzero(a)
        self.share = a / n
        self.g /= n
        self.f = self.objective(self.p, self.w)
        best, w, b = self.confirmed
        if not self.f <= best + 1e-9 * abs(best):  # the rows contradict their columns: go half of the way back
            self.w, self.b, self.violation = 0.5 * (self.w + w), 0.5 * (self.b + b), np.inf
            return
        self.confirmed = self.f, self.w.copy(), self.b
        self.slope_b = self.slopes(self.p).sum() if self.intercept else 0.0
        worst = coordinate_descent.violations(self.g, self.w, self.pen, self.rho, self.violations)
        self.violation = max(worst, abs(self.slope_b))

    def objective(self, p: np.ndarray, w: np.ndarray, pen: np.ndarray | None = None) -> float:
        """Return phi with these margins and weights."""
        pen = self.pen if pen is None else pen
        with np.errstate(over="ignore"):
            loss = (self.share * value(self.loss, p, self.y)).sum()  # a dot product would start the BLAS threads
        return float(loss + (pen * np.abs(w)).sum() + 0.5 * self.rho * np.square(w).sum())

    def slopes(self, p: np.ndarray) -> np.ndarray:
        """Return the derivatives of the mean loss in each row's margin."""
        return self.share * derivative(self.loss, p, self.y)

    def duality_gap(self) -> float:
        """Return phi less the dual objective at the slopes, scaled to be feasible: at least phi minus its minimum.

        The dual requires that slopes sum to zero if there is an intercept; the rest of their sum counts times b.
        """
        if self.loss.conjugate is None or not np.isfinite(self.violation):
            return np.nan
        scale, penalty, used = 1.0, 0.0, self.pen > 0.0
        if self.rho > 0.0:
            penalty = np.square(np.maximum(np.abs(self.g) - self.pen, 0.0)).sum() / (2.0 * self.rho)
        elif used.all():
            scale = 1.0 / max((np.abs(self.g) / self.pen).max(), 1.0)
        else:
            return np.nan
        slopes = scale * derivative(self.loss, self.p, self.y)
        dual = -(self.share * self.loss.conjugate(slopes, self.y)).sum() - penalty
        return float(max(self.f - dual, 0.0) + abs(scale * self.slope_b * self.b))

    # ---- between passes --------------------------------------------------------------------------------------------

    def choose(self) -> bool:
        """Choose the working set: the support and the largest violators, twice as many columns as the support has.

        Return whether some columns are new; if none is, the current columns stay.
        """
        inside = np.flatnonzero(self.w)
        room = max(_LEAST_COLUMNS - inside.size, inside.size)
        others = np.flatnonzero((self.violations > 0.0) & (self.w == 0.0))
        if others.size > room:
            others = others[np.argpartition(-self.violations[others], room - 1)[:room]]
        chosen = np.sort(np.concatenate([inside, others]))
        self.working_sets.append(chosen.size)
        self.knows = self.columns is not None and bool(np.isin(chosen, self.chosen, assume_unique=True).all())
        if not self.knows:
            self.chosen = chosen
        return not self.knows

    def places(self) -> np.ndarray:
        """Return for each column its position among the chosen ones, -1 if it is not chosen."""
        place = np.full(self.w.size, -1, np.int32)
        place[self.chosen] = np.arange(self.chosen.size)
        return place

    def solve(self, least: float) -> None:
        """Make Newton steps in the chosen columns, until violations are well below those of the last pass.

        Where the loss is flat, its curvature is raised to a floor.  The floor rises after a step that was too long and
        falls otherwise: a saturated row does not indicate how far the model is valid.
        """
        columns = self.columns
        assert columns is not None  # ``_copy_columns`` came first
        columns.forget()
        tol = max((_KNOWN if self.knows else _LEFT) * self.violation, least)
        w, b, p, f = self.w[self.chosen], self.b, self.p, self.f
        pen, before = np.append(self.pen[self.chosen], 0.0), np.inf
        for _ in range(_STEPS):
            c = self.slopes(p)
            slope = coordinate_descent.column_sums(*columns.csc, c) + self.rho * w
            q = np.append(slope, c.sum() if self.intercept else 0.0)
            worst = coordinate_descent.violations(q[:-1], w, pen, 0.0, np.empty_like(w))
            worst = max(worst, abs(q[-1]))
            if worst <= tol:
                break
            if worst > _STALE * before:
                columns.forget()
            h = self.share * np.maximum(curvature(self.loss, p, self.y), self.floor)
            now, before = np.append(w, b), worst
            new, dp = columns.minimum(c, h, q, now, pen, self.rho, max(_SLACK * worst, 0.3 * tol), self.intercept)
            descent = float((q * (new - now)).sum() + (pen * (np.abs(new) - np.abs(now))).sum())
            length = 1.0
            while length > 1e-9:
                at = new if length == 1.0 else now + length * (new - now)
                f_at = self.objective(p + length * dp, at[:-1], pen[:-1])
                if f_at <= f + 1e-2 * length * descent + 1e-15 * abs(f):
                    break
                length *= 0.5
            else:
                break
            self.floor = max(self.floor / 4.0, 1e-12) if length == 1.0 else min(self.floor * 4.0, 1.0)
            if length < 1.0:  # far from the optimum: it is not worth solving one quadratic model exactly
                columns.creeps, before = False, 0.0
            w, b, p, f = at[:-1], float(at[-1]), p + length * dp, f_at
            self.steps += 1
        self.w[self.chosen], self.b, self.f, self.creeps = w, b, f, columns.creeps


class _Columns:
    """The columns of a working set, and the minimum of a quadratic model in them.

    The minimum is found by sweeps of coordinate descent over the columns.  If these converge slowly, because columns
    are similar, the Gram matrix is used instead, if it is not too large.
    """

    def __init__(self, rows: Matrix, creeps: bool) -> None:
        self.csr, self.k, self.creeps = rows[:3], rows.d, creeps
        self.csc = coordinate_descent.transposed(*self.csr, self.k)
        nonzeros, cells = self.csr[2].size, len(rows) * self.k
        self.dense = nonzeros > 0.5 * cells
        pairs = np.square(np.diff(rows.indptr)).sum()
        self.fits = self.k <= _GRAM_COLUMNS and (self.dense or pairs < _GRAM_PAIRS * nonzeros)
        self.G: np.ndarray | None = None

    def forget(self) -> None:
        """Drop the Gram matrix, which belongs to another point."""
        self.G = None

    def minimum(
        self,
        c: np.ndarray,
        h: np.ndarray,
        q: np.ndarray,
        now: np.ndarray,
        pen: np.ndarray,
        rho: float,
        tol: float,
        intercept: bool,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the minimum of the quadratic model, with the intercept as last feature, and the change of the margins.

        The model is <q, new - now> + 1/2 (new - now)^T (X^T diag(h) X + rho) (new - now) + sum_j pen_j |new_j|.
        """
        new, k = now.copy(), self.k
        if not (self.creeps and self.fits):
            slopes, D = c.copy(), np.append(np.full(k, rho), 0.0)
            sweeps = coordinate_descent.descend(*self.csc, slopes, h, D, q, new, pen, tol, _SWEEPS, intercept)
            self.creeps = self.creeps or sweeps == _SWEEPS
            moved = h > 0.0
            return new, np.divide(slopes - c, h, out=np.zeros_like(h), where=moved)
        if self.G is None:
            start, columns, x = self.csr
            self.G = (coordinate_descent.dense_gram if self.dense else coordinate_descent.gram)(start, columns, x, h, k)
            self.G[np.arange(k), np.arange(k)] += rho
        if intercept:
            coordinate_descent.descend_beside_intercept(self.G, q, new, pen, 0.1 * tol)
        else:
            coordinate_descent.descend_gram(self.G[:k, :k].copy(), q[:k].copy(), new[:k], pen[:k], 0.1 * tol, 200)
        return new, row_sums.margins(*self.csr, new[:k] - now[:k], new[k] - now[k])


def _look(rows: Rows, models: list[_Model], which: list[_Model]) -> None:
    """Make one pass over the rows for all models of ``which``."""
    numbers = [q for q, model in enumerate(models) if model in which]
    found: dict[int, list[tuple[np.ndarray, ...]]] = {q: [] for q in numbers}
    for q in numbers:
        models[q].g[:] = 0.0
    for part in rows():
        for q in numbers:
            found[q].append(models[q].look(part, q))
    for q in numbers:
        models[q].looked(found[q])


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
        model.columns = _Columns(stack(parts), model.creeps)
