"""Folds whose strengths are lanes of one run: the online methods, all in one read of the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..data.rows import Matrix
from ..engine.run import PILOT_ROWS
from ..estimators.converted import Converted
from ..estimators.life_cycle import Phase
from ..estimators.parameters import check_parameters, new_runs, tolerance
from ..estimators.passes import counted_rows, order_of_pass, run_passes
from ..offsets import numbers_of
from ..penalties import RATIOS
from ..util.progress import step
from ..util.threads import Pool, aside
from .judging import judged, margins_by
from .learning import Folds, converted, finished, polished, solved


class Found(NamedTuple):
    """The models of all rows, and of each fold the figures and the features by strength.

    The figures are the loss, its spread, the error and the loss of constants.
    """

    shell: Any
    solved: list[Converted]
    figures: np.ndarray
    """(folds, 4, strengths)"""
    selected: list[list[sp.csr_array]]
    """The weights (models, features) of each strength, for every fold."""
    l1_ratio: float | None = None
    """The share of the L1 term, where the strengths are those of both terms together."""
    refined: Callable[[Converted], Converted] = lambda model: model
    """Return a model solved to the end; only the chosen one needs to be."""


@dataclass(frozen=True)
class _Job:
    """The rows in the form that learners take, the folds, the targets as given, and the number of passes."""

    placed: Matrix
    codes: np.ndarray
    own: np.ndarray
    weights: np.ndarray | None
    folds: Folds
    y: np.ndarray
    passes: int
    ahead: int
    """The number of first rows that the learner of all rows has learned before."""


def learn_folds(
    whole: Any, rows: tuple[Any, ...], folds: Callable[[np.ndarray, int], Folds], passes: int, pool: Pool
) -> Found:
    """Learn the paths of all folds and of all rows; ``whole`` is the learner of all rows, with its strengths."""
    check_parameters(whole)
    matrix, y, weights = whole.check_rows(*rows, reset=True)
    placed, codes, weights = whole.begin_rows(matrix, y, weights, phase=Phase.STREAM)
    seed = whole.fit_state.runs[0].seed
    found = folds(numbers_of(codes) if whole.classifies else np.zeros(len(y)), seed)
    own = np.ones(len(y)) if weights is None else weights
    # the strengths, which the folds share, are computed from the first rows of all
    first = order_of_pass(counted_rows(len(y), weights), seed, whole.shuffle, 0)[:PILOT_ROWS]
    whole.fit_state.feed(placed, codes, own, first, False, whole.n_jobs)
    learners = [whole, *(_like(whole, placed.d) for _ in range(len(found.judged)))]
    job = _Job(placed, codes, own, weights, found, y if whole.classifies else codes, passes, len(first))
    items = [(learner, k) for k, learner in enumerate(learners, -1)]
    (of_all, _), *each = pool.map_in_turns("sparsco-fold", _learned, items, pool.hold(job))
    whole.n_iter_ = passes
    selected = [[model.coef for model in models] for models, _ in each]
    return Found(whole.shell(), of_all, np.array([figures for _, figures in each]), selected)


def _like(whole: Any, d: int) -> Any:
    """Return a learner of a fold: the same problem, with the strengths that were computed from the first rows."""
    state = whole.fit_state
    runs = state.begun()
    lams, penalty, at = np.zeros(len(whole.strengths)), runs[0].problem.penalty, 0
    for run in runs:  # the runs of further classes repeat the strengths
        own = run.problem.lams[:: run.targets.base.m]
        lams[at : at + len(own)] = own
        at = (at + len(own)) % len(lams)
    learner = whole.twin(state.clone([]))
    learner.learn_strengths(lams, whole.in_float32)
    if not isinstance(learner.penalty, tuple):
        total = float(penalty.lam + penalty.rho)
        learner.penalty = "elasticnet" if learner.penalty in RATIOS else learner.penalty
        learner.alpha, learner.l1_ratio = total, float(penalty.lam) / total if total > 0.0 else 1.0
    learner.fit_state.start(new_runs(learner, d, units=runs[0].units), Phase.STREAM, learner)
    return learner


def _learned(learner: Any, k: int, job: _Job) -> tuple[list[Converted], np.ndarray | None]:
    """Learn the rows of all folds but fold k; return the models and their figures on fold k.

    For k = -1 all rows are learned, and there are no figures.
    """
    state, ahead = learner.fit_state, job.ahead if k < 0 else 0

    def learn(order: np.ndarray, epoch: int) -> None:
        nonlocal ahead
        order, ahead = order[ahead:], 0
        order = order if k < 0 else order[job.folds.learned[k, order]]
        which = "all rows" if k < 0 else f"fold {k + 1} of {len(job.folds.judged)}"
        step(f"{which}: pass {epoch + 1} of {job.passes}, {state.examples:,} rows learned")
        state.feed(job.placed, job.codes, job.own, order, epoch > 0, learner.n_jobs)

    rows = counted_rows(len(job.own), job.weights)
    run_passes(rows, job.passes, learn, seed=state.runs[0].seed, shuffle=learner.shuffle)
    with aside():
        return _judged(learner, k, job)


def _judged(learner: Any, k: int, job: _Job) -> tuple[list[Converted], np.ndarray | None]:
    """Convert and evaluate a learner that has learned all its rows; return the result of ``_learned``."""
    kept = np.flatnonzero(job.own > 0.0 if k < 0 else (job.own > 0.0) & job.folds.learned[k])
    is_polished = tolerance(learner) > 0.0
    ends = polished(learner, job.placed, job.codes, job.own, kept) if is_polished else finished(learner)
    if k < 0:
        return solved(learner, ends), None
    held = np.flatnonzero(job.folds.judged[k])
    margins = margins_by(job.placed, converted(ends), held)
    figures = judged(learner, margins, job.y[held], job.own[held]).summary()
    return solved(learner, ends), np.array(figures)
