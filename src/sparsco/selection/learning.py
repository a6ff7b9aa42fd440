"""Learning of several strengths side by side; paths and cross-validation share it."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..choice.splits import Split
from ..conversions.averaging import Answer
from ..data.randomness import seed_of
from ..data.rows import Matrix, count_columns, put_columns
from ..engine.grid import Grid
from ..engine.polish import BY_MODEL, finish_polished
from ..engine.polish_rows import Rows, RowsInMemory
from ..engine.run import Run
from ..estimators.converted import Converted, described
from ..estimators.linear import LinearModel
from ..estimators.parameters import in_units, suits_units, tolerance
from ..util.threads import Threads
from ..util.validation import is_auto, is_true

_INT32 = np.iinfo(np.int32).max
_FEW = 0.02
"""The share of rows that may be left out without a copy of the others: each still costs its part of a pass."""
USELESS_PASSES = "polish ends at the same models after one pass: leave passes at 1."


class Folds(NamedTuple):
    """The rows that each fold learns and the rows that it is judged by, (folds, rows) of True and False."""

    learned: np.ndarray
    judged: np.ndarray

    @classmethod
    def of(cls, splits: Sequence[Split], n: int) -> Folds:
        """Return the folds of some splits of n rows."""
        folds = cls(np.zeros((len(splits), n), bool), np.zeros((len(splits), n), bool))
        for k, split in enumerate(splits):
            folds.learned[k, split.learned] = folds.judged[k, split.judged] = True
        return folds

    @classmethod
    def by_number(cls, fold: np.ndarray) -> Folds:
        """Return the folds of rows that each have the number of a fold, from 0 on."""
        judged = fold == np.arange(fold.max() + 1)[:, None]
        return cls(~judged, judged)


def strengths_of(alphas: Any, n_alphas: int, eps: float) -> Any:
    """Return the strengths to learn: an array, largest first, or a grid that is computed later."""
    if alphas is None:
        check_count("n_alphas", n_alphas)
        if not (isinstance(eps, numbers.Real) and 0.0 < eps < 1.0):
            raise ValueError(f"eps={eps!r}: it must be between 0 and 1, both excluded.")
        return Grid(int(n_alphas), float(eps))
    try:
        given = np.array([]) if isinstance(alphas, str) else np.asarray(alphas, np.float64)
    except (TypeError, ValueError):
        given = np.array([])
    if given.ndim != 1 or not given.size or not np.all((given >= 0.0) & (given < np.inf)):
        raise ValueError(f"alphas={alphas!r}: give one or more numbers of at least 0, or None.")
    return np.sort(given)[::-1].copy()


def is_single(dtype: Any) -> bool:
    """Return whether a dtype is float32; raise a ValueError if it is neither float32 nor float64."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if dtype is None or kind not in (np.float32, np.float64):
        raise ValueError(f"dtype={dtype!r}: it must be 'float64' or 'float32'.")
    return bool(kind == np.float32)


def check_count(name: str, x: Any) -> None:
    """Raise a ValueError if x is not a whole number of at least 1."""
    if not isinstance(x, numbers.Integral) or isinstance(x, bool) or x < 1:
        raise ValueError(f"{name}={x!r}: it must be a whole number of at least 1.")


def learner_of(estimator: LinearModel, strengths: Any, dtype: Any, random_state: Any = None) -> LinearModel:
    """Return a new estimator with the same parameters, to learn these strengths in float64 or float32."""
    learner, in_float32 = type(estimator)(**estimator.settings()), is_single(dtype)
    refuse_sizes(learner)
    if random_state is not None:
        learner.random_state = random_state
    if not isinstance(learner.random_state, numbers.Integral):
        learner.random_state = seed_of(learner.random_state)  # one seed for all models that are learned side by side
    learner.early_stopping = learner.warm_start = False
    choose_units(learner, strengths)
    learner.learn_strengths(strengths, in_float32)
    if tolerance(learner) and isinstance(strengths, np.ndarray) and not strengths.all():
        raise ValueError("polish needs an L1 weight above 0, and one of alphas is 0: leave it out.")
    return learner


def choose_units(learner: LinearModel, strengths: Any) -> None:
    """Decide ``standardize="auto"``: elastic nets and groups have units where no strength or preset is given."""
    is_open = isinstance(strengths, Grid) and is_auto(learner.alpha) and learner.preset is None
    if is_auto(learner.standardize) and is_open and (suits_units(learner) or in_units(learner)):
        learner.standardize = True


def refuse_sizes(estimator: LinearModel) -> None:
    """Raise a ValueError if an estimator has a parameter that is for one model, or that the path has itself."""
    if estimator.calibrate:
        raise ValueError("calibrate=True is for one model, and a path has many: fit the chosen strength once more.")
    if is_true(estimator.relaxed):
        raise ValueError("relaxed=True is for one model, and a path has many: fit the chosen strength once more.")
    if estimator.choose != "balanced":
        raise ValueError(f"choose={estimator.choose!r} of the estimator has no effect: give choose= to the path.")
    if estimator.budget is not None or estimator.target_excess_risk is not None:
        raise ValueError("a path sets the number of features itself: leave budget and target_excess_risk at None.")


def finished(learner: LinearModel, rows: Rows | None = None) -> list[tuple[Run, Answer]]:
    """Return every run with its final models; with ``rows``, they are polished on these rows."""
    runs = learner.fit_state.begun()
    if rows is not None:
        return list(zip(runs, finish_polished(runs, rows, tolerance(learner)), strict=True))
    answers = Threads(learner.n_jobs).map("finish", Run.finish, [(run,) for run in runs])
    return list(zip(runs, answers, strict=True))


def polished(
    learner: LinearModel, matrix: Matrix, codes: np.ndarray, weights: np.ndarray, kept: np.ndarray
) -> list[tuple[Run, Answer]]:
    """Return every run with the optima over some of the rows as its models; the rows are all there.

    If few rows are left out, they get a weight of zero, and no row is copied.
    """
    if len(kept) < (1.0 - _FEW) * len(matrix):
        return finished(learner, RowsInMemory(matrix.take(kept), codes[kept], weights[kept]))
    own = np.zeros_like(weights)
    own[kept] = weights[kept]
    return finished(learner, RowsInMemory(matrix, codes, own))


def solved(learner: LinearModel, ends: list[tuple[Run, Answer]], polished_rows: int = 0) -> list[Converted]:
    """Return the models of each strength; they are optima over ``polished_rows``, if that is not 0."""
    parts: list[list[tuple[Any, np.ndarray, Any]]] = [[] for _ in range(len(learner.strengths))]
    k, lams, runs = 0, np.zeros(len(parts)), [run for run, _ in ends]
    weights = [(answer.w, run.targets.m // run.targets.copies) for run, answer in ends]
    coefs = Threads(learner.n_jobs).map("by lane", _by_lane, weights)
    for (run, answer), (_, models), coef_by_lane in zip(ends, weights, coefs, strict=True):
        for copy_, coef in enumerate(coef_by_lane):
            own = slice(copy_ * models, (copy_ + 1) * models)
            report = {name: part[own] if name == "chosen" else part for name, part in answer.report.items()}
            if "polish" in report:
                report["polish"] = report["polish"] | {name: report["polish"][name][own] for name in BY_MODEL}
            parts[k].append((coef, answer.b[own], report))
            lams[k] = run.problem.lams[own.start]
            k = (k + 1) % len(parts)
    penalty, out = runs[0].problem.penalty, []
    for lam, part in zip(lams, parts, strict=True):
        coef, b, reports = zip(*part, strict=True)
        n = polished_rows or runs[0].examples
        report = described(runs, penalty._replace(lam=float(lam))) | {"converted": list(reports), "examples": n}
        coef = sp.csr_array(sp.vstack(coef)) if len(coef) > 1 else coef[0]
        out.append(Converted(coef, np.concatenate(b), n, [], report))
    return out


def _by_lane(w: np.ndarray, models: int) -> list[sp.csr_array]:
    """Return weights (d, lanes) as sparse rows, one for each lane, in groups of ``models`` rows."""
    d, m = w.shape
    ends, out = np.append(0, np.cumsum(count_columns(w))), []
    features, data = np.empty(ends[-1], np.int64 if d > _INT32 else np.int32), np.empty(ends[-1])
    put_columns(w, ends[:-1].copy(), features, data)
    for first in range(0, m, models):
        own = ends[first : first + models + 1]
        part = slice(own[0], own[-1])
        out.append(sp.csr_array((data[part], features[part], own - own[0]), shape=(models, d)))
    return out


def converted(ends: list[tuple[Run, Answer]]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the weights and intercepts of each run."""
    return [(answer.w, answer.b) for _, answer in ends]
