"""The models of a fit one by one: the sampled rows of each, and what its stream knows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..conversions.reservoir import SampleRows
from ..data.row_sums import margins
from ..engine.run import Run
from ..losses import Logistic, Squared
from .sandwich import Estimates, Stream, estimates
from .unpenalised import Design

ROWS_FOR_EACH = 5
"""The least number of rows for each column of a model that is to have intervals."""


class Lane(NamedTuple):
    """One model of a fit: the sampled rows with its targets and weights, and the run that learned it."""

    rows: SampleRows
    y: np.ndarray
    weights: np.ndarray
    loss: Any
    run: Run
    number: int
    """The number of the model in the run."""
    seen: int
    """The number of rows of which these are a sample."""

    def among(self, positions: np.ndarray) -> Lane:
        """Return the model with some of its rows."""
        y, weights = self.y[positions], self.weights[positions]
        return self._replace(rows=self.rows.among(positions), y=y, weights=weights)

    def design(self, columns: np.ndarray) -> Design:
        """Return the design of some columns."""
        intercept = self.run.problem.intercept
        return Design.of(self.rows, columns, self.run.d, intercept, self.y, self.weights, self.loss)

    def estimates(self, columns: np.ndarray, coef: np.ndarray, intercept: float, is_part: bool) -> Estimates:
        """Return the weights of some columns without a penalty; steps start at ``coef`` and ``intercept``.

        ``is_part``: the rows are not all that the sample has, so that they are taken for themselves.
        """
        units = np.ones(len(columns)) if self.run.units is None else self.run.units.at(columns)  # of the sampled rows
        start = np.append(coef * units, intercept) if self.run.problem.intercept else coef * units
        found = estimates(self.design(columns), start, None if is_part else self._stream(columns))
        weights, errors, freedom = (each[: len(columns)] for each in found)
        return Estimates(weights / units, errors / units, freedom)

    @property
    def rows_of_stream(self) -> int:
        """Return the number of rows that the means of the stream are over; 0 where the sample is all there is.

        A stream that was read once has means of iterates and of gradients, which add what its sample does not hold.
        Gradients were taken at each iterate, not at the mean.  For squared loss that makes no difference.  For others
        the iterates must be close together, as those of optimizers that find their own steps are.
        """
        run = self.run
        is_close = isinstance(run.problem.loss, Squared) or not run.optimizer.uses_steps
        if not (is_close and run.conversion.needs_gradient_sums) or run.problem.loss.couples:
            return 0
        if run.seen != self.seen or len(self.y) == self.seen:
            return 0
        return int(run.windows.total)

    def _stream(self, columns: np.ndarray) -> Stream | None:
        rows = self.rows_of_stream
        if rows <= len(self.y):
            return None
        q, means, rho = self.number, self.run.means(), self.run.problem.penalty.rho
        w, b = np.ascontiguousarray(means.w[:, q]), float(means.b[q])
        g = means.g[columns, q] - rho * w[columns]
        p = margins(self.rows.indptr, self.rows.indices, self.rows.data, w, b)
        return Stream(rows, np.append(g, means.gb[q]) if self.run.problem.intercept else g, p)


def lanes_of(runs: list[Run], of_output: np.ndarray) -> list[Lane]:
    """Return the model of each output of a fit, with the rows that the runs keep.

    ``of_output`` (outputs, models) has the share of each model of the runs in an output, by which they are arranged.
    """
    _refuse(runs)
    models, first = list[Lane](), runs[0]
    shared = first.sample() if first.conversion.joins_runs else None
    for run in runs:
        sample = run.sample() if shared is None else shared
        rows, seen = sample.R, round(len(sample.R.numbers) / max(sample.kappa, 1e-300))
        targets, weights = rows.targets, rows.weights
        if shared is not None:
            targets, weights = run.lanes_of(rows.y, rows.weights[:, 0])
        for q in range(run.problem.m):
            models.append(Lane(rows, targets[:, q], weights[:, q], run.problem.loss, run, q, seen))
    found = [models[int(np.argmax(shares))] for shares in of_output]
    if first.problem.loss.couples:  # the difference of two margins
        found = [lane._replace(y=np.where(lane.y > 0.0, 1.0, -1.0), loss=Logistic()) for lane in found]
    return [lane.among(np.flatnonzero(lane.weights > 0.0)) if not lane.weights.all() else lane for lane in found]


def _refuse(runs: list[Run]) -> None:
    """Raise a ValueError for a fit that has no intervals, with the reason."""
    first = runs[0]
    loss = first.problem.loss
    if not loss.curved:
        raise ValueError(
            f"intervals need a loss with second derivatives, and {type(loss).__name__} has none: choose logistic, "
            "squared, huber, squared-hinge or poisson."
        )
    if loss.couples and sum(run.problem.m for run in runs) > 2:
        raise ValueError(
            "intervals are not there for a softmax of more than two classes: loss='logistic' has them for each class "
            "against the rest."
        )
    if first.conversion.by_row is not None and first.conversion.by_row.groups is not None:
        raise ValueError("intervals assume independent rows, and rows of one group (groups=) are not.")
    if first.sample() is None:
        raise ValueError(
            f"intervals need the rows, and {type(first.conversion).__name__} keeps no sample of them: leave "
            "conversion and optimizer at their defaults."
        )


def check_rows(columns: int, rows: int) -> None:
    """Raise a ValueError if there are too few rows for intervals of so many columns."""
    if ROWS_FOR_EACH * columns > rows:
        raise ValueError(
            f"intervals for {columns:,} features need at least {ROWS_FOR_EACH * columns:,} rows, and there are "
            f"{rows:,}: give more rows, raise alpha or set a budget."
        )
