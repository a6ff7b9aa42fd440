"""The pilot: the first rows of a stream, kept to judge models by."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..conversions.fading_sample import new_reservoir
from ..conversions.reservoir import Reservoir
from ..data.rows import Matrix, margins
from ..losses import value
from ..offsets import target_type
from ..problem.state import Problem, widened
from ..solver.units import column_sums

WIDE_ROWS = 40_000_000
"""The nonzeros up to which all pilot rows belong to the sample of a choice."""

SAMPLED = 1_000_000
"""The nonzeros of a sample, if nothing else is asked for; an empty row counts as one."""


class PilotRows(NamedTuple):
    """The first rows of a stream: as they came, and as the models of a run see them."""

    matrix: Matrix
    y: np.ndarray
    """The targets as they came."""
    given_weights: np.ndarray
    """The weights as they came, (n,)."""
    targets: np.ndarray
    """The target of each model, (n, m)."""
    weights: np.ndarray
    """The weight of each model, (n, m)."""

    def room(self, nonzeros: int, conversion: Any) -> int:
        """Return how many nonzeros a sample may have: it keeps few rows whole, also very wide ones."""
        if not conversion.joins_runs:
            return nonzeros
        pilot = int(np.maximum(np.diff(self.matrix.indptr), 1).sum())
        return max(nonzeros, pilot if conversion.bounds_false_features else min(pilot, WIDE_ROWS))

    def widen(self, m: int) -> PilotRows:
        """Return the same rows for m models; new models have target -1 and weight 0."""
        return self._replace(targets=widened(self.targets, m, -1.0), weights=widened(self.weights, m))

    def mean_loss(self, loss: Any, w: np.ndarray, b: np.ndarray) -> float:
        """Return the mean loss of a model on these rows."""
        return mean_loss(loss, self.matrix, self.targets, self.weights, w, b)

    def column_sums(self, d: int) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], int]:
        """Return the sums of each of d columns over these rows, and their number."""
        rows = self.matrix
        return column_sums(rows.indptr[:-1], rows.indptr[1:], rows.indices, rows.data, d), len(rows)

    def refute(self, problem: Problem, w: np.ndarray, b: np.ndarray, has_grid: bool) -> bool:
        """Return whether a model is so much worse than w = 0 on these rows that learning it has diverged.

        With a grid of strengths the loss alone is compared: a sum over many penalties says little.
        """
        targets, weights, some, step = self.targets, self.weights, None, 1 + problem.m // 8
        if step > 1:
            some = np.arange(0, len(self.matrix), step)
            targets, weights = targets[some], weights[some]
        zero = mean_loss_at(problem.loss, np.zeros(targets.shape), targets, weights)
        if not problem.penalty.is_absolute:
            zero += float(np.sum(problem.strengths(np.zeros_like(w))))
        reached = mean_loss(problem.loss, self.matrix, targets, weights, w, b, some)
        if not has_grid:
            reached += float(np.sum(problem.strengths(w)))
        return reached > 1e3 * zero > 0.0


def reservoir_of(run: Any, max_nonzeros: int = SAMPLED, max_guard: int = 2_000) -> Reservoir:
    """Return a reservoir for the rows of a run, without rows."""
    kind = target_type(run.problem.loss)
    return new_reservoir(run.half_life, run.seed, run.columns_to_keep, max_nonzeros, max_guard, kind=kind)


def mean_loss(
    loss: Any,
    matrix: Matrix,
    targets: np.ndarray,
    weights: np.ndarray,
    w: np.ndarray,
    b: np.ndarray,
    order: np.ndarray | None = None,
) -> float:
    """Return the mean of weight times loss over rows, or over those in ``order``, summed over models.

    Targets and weights are those of the rows that count, (n, m).
    """
    p = margins(matrix.indptr, matrix.indices, matrix.data, w, b, order)
    return mean_loss_at(loss, p, targets, weights)


def mean_loss_at(loss: Any, p: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> float:
    """Return the mean of weight times loss at margins p (n, m), summed over models."""
    if not len(p):
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        return float(((weights * value(loss, p, targets)).sum(0) / len(p)).sum())
