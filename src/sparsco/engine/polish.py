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

import copy
from typing import Any, NamedTuple

import numpy as np

from ..conversions.averaging import Answer
from ..util.progress import step
from .finishing import finish_runs
from .polish_chain import solve_chain
from .polish_groups import solve_groups
from .polish_model import Model
from .polish_passes import certify, look, take_steps
from .polish_rows import Rows, RowsInMemory
from .polish_small import come_near, has_own_start
from .run import Run

TOLERANCE = 1e-4
"""The tolerance of ``polish=True``."""
PASSES = 100
_MARGINS = 1 << 24
"""The most margins in memory, for models that are solved side by side and share the reads of the rows."""

BY_MODEL = ("objectives", "gaps", "duality_gaps", "working_sets", "steps")
"""The fields of the report that have a value for each model."""


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
    """The slopes of the loss in the margins (n, outputs) by which each bound is computed, before they are scaled.  In a
    chain only those of the last model are kept."""
    working_sets: list[list[int]]
    """The sizes of the working sets, for each model."""
    steps: list[int]
    passes: int
    reached: np.ndarray
    """Whether the gap of each model is at most the tolerance, and so is its duality gap over its objective."""

    def shortfall(self, tol: float) -> str | None:
        """Return a sentence for models that did not reach the tolerance, None if all did."""
        if self.reached.all():
            return None
        worst, bound = self.gaps.max(), self.duality_gaps[~self.reached].max()
        above = f", and the objective may be {bound:.2g} above its minimum" if np.isfinite(bound) else ""
        start = f"polish={tol:g} was not reached in {self.passes} passes: gap_ is {worst:.2g}"
        return f"{start}{above}; the model is the best one found."


def polish(
    rows: Rows,
    w: np.ndarray,
    b: np.ndarray,
    *,
    loss: Any,
    penalty: Any,
    lams: Any = None,
    rhos: Any = None,
    intercept: bool = True,
    tol: float = TOLERANCE,
    passes: int | None = None,
    chains: int = 0,
    is_from_zero: bool = False,
) -> Polished:
    """Return the minimum of phi for each model, from a start w (d, m), b (m,), until violations are at most tol * lam.

    ``lams`` and ``rhos`` give each model its own L1 and L2 weight.  ``passes`` bounds how often the gradient is
    computed; if it was too small, ``gaps`` exceed the tolerance.  With ``chains`` above 0, models q, q + chains,
    q + 2 chains and so on have the targets q, and each is started at the optimum of the next larger strength, or at its
    own start if that has features and is better; rows must be in memory.  Otherwise all models share the reads.
    ``is_from_zero``: models of rows in memory find their own starts on samples of the rows (``polish_small``).
    """
    passes = passes or PASSES
    models, done = _models(w, b, loss, penalty, lams, rhos, chains, intercept), 0
    ordered = [sorted(models[q::chains], key=lambda model: -model.unit) for q in range(chains)]
    if isinstance(rows, RowsInMemory):
        done = sum(solve_groups(rows, chain, tol) for chain in ordered or [[model] for model in models])
        if is_from_zero and not chains:
            done = max(come_near(rows, model, tol, passes) for model in models)
    open_models = [model for model in models if not model.is_reached(tol)]
    if chains and open_models:
        assert isinstance(rows, RowsInMemory)
        done += sum(solve_chain(rows, chain, tol, passes) for chain in ordered)
    elif not chains:
        while open_models and done < passes:
            done = _solve_together(rows, open_models, tol, done, passes)
            certify(rows, open_models)
            open_models = [model for model in open_models if not model.is_reached(tol) and model.may_improve(tol)]
    return Polished(
        np.hstack([model.best.W for model in models]),
        np.concatenate([model.best.b for model in models]),
        np.array([model.best.f for model in models]),
        np.array([model.gap for model in models]),
        np.array([model.duality_gap for model in models]),
        [model.slopes if model.dual is None else model.dual.slopes for model in models],
        [model.working_sets for model in models],
        [model.steps for model in models],
        done,
        np.array([model.is_reached(tol) for model in models]),
    )


def _solve_together(rows: Rows, models: list[Model], tol: float, done: int, passes: int) -> int:
    """Solve models that share the reads of the rows, as far as the passes last; return how many are done then."""
    open_models = models
    while open_models and done < passes:
        step(f"polishing: pass {done + 1} over the rows, {len(open_models)} of {len(models)} models to solve")
        nonzeros = look(rows, open_models)
        done += 1
        open_models = [model for model in open_models if not (model.is_solved(tol) or model.is_stuck)]
        if done == passes:
            break
        take_steps(rows, [model for model in open_models if model.is_confirmed], nonzeros, tol)
    return done


def _models(
    w: np.ndarray, b: np.ndarray, loss: Any, penalty: Any, lams: Any, rhos: Any, chains: int, intercept: bool
) -> list[Model]:
    """Return the models to solve: one for all outputs if they are tied together, otherwise one for each."""
    d, m = len(w), len(b)
    if is_tied(loss, penalty, lams):
        psi = penalty.blocks(d).of_outputs(m)
        return [Model(w.copy(), b.copy(), slice(0, m), loss, psi, float(penalty.lam), intercept)]
    models, columns = [], np.ascontiguousarray(w.T)
    for q in range(m):
        given = {name: float(each[q]) for name, each in (("lam", lams), ("rho", rhos)) if each is not None}
        own, lane = penalty._replace(**given), q % chains if chains else q
        args = columns[q].copy()[:, None], b[[q]], slice(lane, lane + 1), loss, own.blocks(d).of_outputs(1)
        models.append(Model(*args, float(own.lam), intercept))
    return models


def is_tied(loss: Any, penalty: Any, lams: Any) -> bool:
    """Return whether all outputs are one problem; outputs with their own strengths are apart."""
    return bool(loss.couples or (penalty.kind != "separable" and lams is None))


def finish_polished(runs: list[Run], rows: Rows, tol: float) -> list[Answer]:
    """Return the polished answers of all runs of a model, which have begun.

    Strengths are solved one after the other if rows are in memory; otherwise they share the reads.  ``rows`` have y and
    weights as they were learned.  A penalty that was chosen in units of the columns is polished on columns that are
    divided by their units.
    """
    answers, first = _starts(runs), runs[0]
    penalty, units = None, None if first.units is None else first.units.at()
    if first.conversion.joins_runs:
        penalty, units = first.conversion.penalty(answers[0]), first.conversion.units(first)
    rows, found = rows if units is None else rows.in_units(units), []
    for run, answer in zip(runs, answers, strict=True):
        start = answer if units is None else answer._replace(w=answer.w * units[:, None])
        polished = _polished(run, start, penalty or run.problem.penalty, rows, tol)
        found.append(polished if units is None else polished._replace(w=polished.w / units[:, None]))
    return found


def _starts(runs: list[Run]) -> list[Answer]:
    """Return where the polish of each run starts: at its answer, or at zero where it has learned nothing."""
    if runs[0].state is None and not runs[0].conversion.joins_runs:
        return [Answer(np.zeros((run.d, run.problem.m)), np.zeros(run.problem.m), {}) for run in runs]
    return finish_runs([_as_start(run) for run in runs])


def _as_start(run: Run) -> Run:
    """Return a copy of a run whose answer is the start of a polish; arrays are shared."""
    twin = copy.copy(run)
    twin.is_start = True
    return twin


def _polished(run: Run, answer: Answer, penalty: Any, rows: Rows, tol: float) -> Answer:
    """Return the polished answer of a run."""
    problem, found = run.problem, list[Polished]()
    is_one = is_tied(problem.loss, penalty, problem.lams)
    chains = 0 if problem.lams is None or not rows.in_memory else problem.m // run.targets.copies
    w, b = answer.w, answer.b
    if chains:  # smaller strengths start at the optima of larger ones, which are nearer than iterates
        is_first = problem.lams == problem.lams.max()
        w, b = np.where(is_first, w, 0.0), np.where(is_first, b, 0.0)
    together = problem.m if is_one or chains else max(1, _MARGINS // max(run.examples, 1))
    for first in range(0, problem.m, together):
        some = slice(first, min(first + together, problem.m))

        def encode(y: np.ndarray, weights: np.ndarray, lanes: slice = some) -> tuple[np.ndarray, np.ndarray]:
            if chains:
                return run.models_of(y, weights)
            targets, own = run.lanes_of(y, weights)
            return targets[:, lanes].copy(), own[:, lanes].copy()

        found.append(
            polish(
                rows.encoded(encode),
                w[:, some],
                b[some],
                loss=problem.loss,
                penalty=penalty,
                lams=None if problem.lams is None else problem.lams[some],
                intercept=problem.intercept,
                tol=tol,
                chains=chains,
                is_from_zero=isinstance(rows, RowsInMemory) and has_own_start(rows.matrix, problem),
            )
        )
    for each in found:
        if (shortfall := each.shortfall(tol)) is not None:
            run.warn(shortfall)
    report: dict[str, Any] = {"tolerance": tol, "passes": sum(each.passes for each in found)}
    for name in BY_MODEL:
        parts_of = [getattr(each, name) for each in found]
        report[name] = [one for part in parts_of for one in (part.tolist() if isinstance(part, np.ndarray) else part)]
    w, b = np.concatenate([each.w for each in found], axis=1), np.concatenate([each.b for each in found])
    return answer._replace(w=w, b=b, report=answer.report | {"polish": report})
