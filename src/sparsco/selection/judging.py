"""Evaluation of the models of a path on rows that they have not learned."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..data.rows import Matrix
from ..data.rows import margins as margins_of
from ..data.slot_tables import numbered
from ..losses import value
from ..problem.pilot import best_constants

Rows = tuple[Matrix, np.ndarray, np.ndarray | None]
"""The rows of a reader, with their targets and weights."""


class Judged(NamedTuple):
    """Sums over rows that a model had not learned when it was evaluated, with an entry for each strength.

    Losses are sums over the models of a row.
    """

    weight: float
    rows: float
    loss: np.ndarray
    squares: np.ndarray
    mistakes: np.ndarray
    constants: np.ndarray
    """The losses of models without features, which are the best constants of the first rows that were learned."""

    @classmethod
    def nothing(cls, m: int) -> Judged:
        """Return the figures of zero rows, for m strengths."""
        return cls(0.0, 0, *np.zeros((4, m)))

    def __add__(self, other: Any) -> Judged:
        return Judged(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def faded(self, factor: float) -> Judged:
        """Return the figures with rows that count less by a factor."""
        weight, rows, *arrays = self
        return Judged(weight * factor, rows * factor, *(part * factor for part in arrays))

    @classmethod
    def beside(cls, parts: list[Judged]) -> Judged:
        """Return the figures of several groups of strengths, for the same rows, as one."""
        _, _, *arrays = zip(*parts, strict=True)
        return cls(parts[0].weight, parts[0].rows, *map(np.concatenate, arrays))

    def summary(self) -> tuple[np.ndarray, ...]:
        """Return the mean losses, their standard errors, the mean mistakes and the mean losses of constants.

        They are NaN if no rows were evaluated.
        """
        n = max(self.rows, 1) if self.rows else np.nan
        scale = self.weight if self.rows else np.nan
        mean = self.loss / n
        spread = np.sqrt(np.maximum(self.squares / n - np.square(mean), 0.0) / n)
        return self.loss / scale, spread * n / scale, self.mistakes / scale, self.constants / scale


class Unseen(NamedTuple):
    """Rows to evaluate iterates on, restricted to the features that occur in them: ``slots``."""

    rows: Matrix
    slots: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None

    @classmethod
    def of(cls, learner: Any, rows: Rows | None) -> Unseen | None:
        """Return the rows of a reader as an instance; None if nothing has been learned yet."""
        if rows is None or not learner.fit_state.is_fitted:
            return None
        matrix, y, weights = rows
        found = learner.find(matrix)
        indices, slots = numbered(found.indices, found.d)
        return cls(Matrix(found.indptr, indices, found.data, len(slots)), slots, y, weights)

    def margins(self, learner: Any) -> list[np.ndarray]:
        """Return the margins of the rows by the iterates of each run; an empty list if there are no iterates."""
        if not learner.fit_state.has_iterates:
            return []
        return margins_by(self.rows, [run.weights_at(self.slots) for run in learner.fit_state.runs])


def judged_before(learner: Any, unseen: Unseen | None) -> Judged:
    """Return the figures of the iterates on rows, before the rows are learned."""
    margins = [] if unseen is None else unseen.margins(learner)
    if not margins or unseen is None:
        return Judged.nothing(len(learner.strengths))
    return judged(learner, margins, unseen.y, unseen.weights)


def margins_by(
    rows: Matrix, models: list[tuple[np.ndarray, np.ndarray]], order: np.ndarray | None = None
) -> list[np.ndarray]:
    """Return the margins of rows, or of those in ``order``, by weights, (features, lanes), and intercepts."""
    return [margins_of(rows.indptr, rows.indices, rows.data, w, b, order) for w, b in models]


def judged(
    learner: Any,
    margins: list[np.ndarray],
    y: np.ndarray,
    weights: np.ndarray | None,
    shares: np.ndarray | None = None,
) -> Judged:
    """Return the figures of every strength on rows that were not learned.

    ``margins`` are (rows, lanes) for each of the runs.  ``shares`` is what each row counts, where old rows fade.
    """
    n, m, runs = len(y), len(learner.strengths), learner.fit_state.runs
    scale, codes = np.ones(n) if weights is None else weights, learner.codes_of(y)
    losses, nothing, k, first = np.zeros((n, m)), np.zeros(n), 0, 0
    every = np.empty((sum(run.targets.m for run in runs) // m, m, n))
    for run, p in zip(runs, margins, strict=True):
        targets, scaled = run.lanes_of(codes, scale)
        measured = run if run.pilot is not None else run.measured_copy()  # few rows leave the loss open
        with np.errstate(over="ignore", invalid="ignore"):
            found = scaled * value(measured.problem.loss, p, targets)
        own, outputs = slice(k, k + run.targets.copies), slice(first, first + run.targets.base.m)
        losses[:, own] += found.reshape(n, run.targets.copies, -1).sum(2)
        if k == 0:  # the models of other strengths have the same constants
            nothing += _losses_of_constants(measured, targets, scaled)
        every[outputs, own] = p.reshape(n, run.targets.copies, -1).T
        k = own.stop % m
        first = outputs.stop if k == 0 else first
    wrong = learner.mistakes(learner.arranged(every.reshape(-1, m * n)).T, np.concatenate([y] * m))
    each = (wrong if wrong.ndim == 1 else wrong.mean(1)).reshape(m, n) * scale
    if shares is not None:
        column, counted = shares[:, None], float(shares[scale != 0.0].sum())
        sums = (losses * column).sum(0), (np.square(losses) * column).sum(0), (each * shares).sum(1)
        return Judged(float((scale * shares).sum()), counted, *sums, np.full(m, (nothing * shares).sum()))
    mistakes = each.sum(1)  # no threads of BLAS
    counted = int(np.count_nonzero(scale))
    squares, constants = np.square(losses).sum(0), np.full(m, nothing.sum())
    return Judged(float(scale.sum()), counted, losses.sum(0), squares, mistakes, constants)


def _losses_of_constants(run: Any, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the losses of rows by the best constants of the run's first rows, summed over the models."""
    m, problem, first = run.targets.base.m, run.problem, run.pilot_rows
    own = first.targets[:, :m], first.weights[:, :m]
    b = best_constants(problem.loss, *own, problem.intercept)
    return (weights[:, :m] * value(problem.loss, np.tile(b, (len(weights), 1)), targets[:, :m])).sum(1)
