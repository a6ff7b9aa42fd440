"""The rows that a choice is made from, and the models that are fitted to them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..losses import Logistic
from ..offsets import numbers_of
from ..problem.pilot import best_intercept
from ..solver.columns import ByColumn, some_by_column
from ..solver.elastic_net import Examples
from ..solver.smoothing import smooth
from ..solver.units import column_sums, units_of
from .scale import AS_IT_IS, Scale


class Task(NamedTuple):
    """Rows in memory with the targets and weights of every model, (n, m); columns without entries are left out.

    Targets, and the constants of losses, are in units of the scale.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    numbers: np.ndarray
    """The number of each row in its stream, by which random draws are made."""
    units: np.ndarray
    loss: Any
    """The loss by which models are judged."""
    smooth_loss: Any
    """The loss that is minimised: the same one, or its smooth twin."""
    intercept: bool
    couples: bool = False
    """Whether the models are classes of one softmax; each is judged as a logistic loss against the rest."""
    scale: Scale = AS_IT_IS

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return len(self.indptr) - 1

    @property
    def d(self) -> int:
        """Return the number of columns."""
        return len(self.units)

    @property
    def m(self) -> int:
        """Return the number of models."""
        return self.targets.shape[1]

    @property
    def row_nonzeros(self) -> float:
        """Return the mean number of nonzeros in a row, at least 1."""
        return max(len(self.data) / max(self.n, 1), 1.0)

    def by_column(self, rows: np.ndarray) -> tuple[ByColumn, np.ndarray]:
        """Return some rows by column, and the numbers of the columns that have entries in them."""
        seen = np.zeros(self.d, bool)
        if len(rows) == self.n:
            seen[self.indices] = True
        else:
            seen[self.indices[entries_of(self.indptr, rows)]] = True
        columns = np.flatnonzero(seen)
        return some_by_column(self.indptr, self.indices, self.data, rows, columns, self.d), columns

    def take(self, rows: np.ndarray) -> Task:
        """Return the task of some rows, with the same columns."""
        entries = entries_of(self.indptr, rows)
        ends = np.cumsum(self.indptr[rows + 1] - self.indptr[rows])
        indptr = np.concatenate([[0], ends]).astype(self.indptr.dtype)
        return self._replace(
            indptr=indptr,
            indices=self.indices[entries],
            data=self.data[entries],
            targets=self.targets[rows],
            weights=self.weights[rows],
            numbers=self.numbers[rows],
        )

    def examples(self, rows: np.ndarray, model: int) -> Examples:
        """Return the targets and weights of a model for some rows."""
        targets, weights = (np.ascontiguousarray(each[rows, model]) for each in (self.targets, self.weights))
        return Examples(targets, weights, self.smooth_loss)

    def constant(self, rows: np.ndarray, model: int, b: float) -> float:
        """Return the best intercept of a model without features for some rows; b is that of the smooth loss.

        Labels have b: where one class is rare, the best constant has hardly more hinge loss than good margins.
        """
        if self.loss.curved or self.loss.classifies or not self.intercept:
            return b
        return best_intercept(self.loss, self.targets[rows, model], self.weights[rows, model])

    def strata(self) -> list[np.ndarray]:
        """Return the labels by which rows are dealt into folds; none for numbers."""
        if not self.loss.classifies:
            return []
        if self.m == 1:
            labels = numbers_of(self.targets)
            return [labels[:, 0] == labels[0, 0]]
        return [self.targets.argmax(1) == q for q in self.order()]

    def order(self) -> np.ndarray:
        """Return the models in the order of their first examples, which does not depend on how classes are numbered."""
        return np.argsort(numbers_of(self.targets).argmax(0), kind="stable")

    def as_given(self, losses: np.ndarray, rows: np.ndarray, models: np.ndarray) -> np.ndarray:
        """Return losses of some rows, summed over some models, for targets as they are."""
        targets, weights = self.targets[rows][:, models], self.weights[rows][:, models]
        return losses * self.scale.of_losses + (weights * self.scale.terms(self.loss, targets, models)).sum(1)


def entries_of(indptr: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the positions of the entries of some rows."""
    starts, lengths = indptr[rows], indptr[rows + 1] - indptr[rows]
    ends = np.cumsum(lengths)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)


def task_of(
    rows: Any, targets: np.ndarray, weights: np.ndarray, problem: Any, standardize: bool
) -> tuple[Task, np.ndarray]:
    """Return the task of sampled rows of a stream, and the columns that occur in them.

    ``targets`` and ``weights`` are those of every model, (n, m).  ``problem`` has the loss, the penalty's weights of
    the features, the number of features, and whether there is an intercept.
    """
    counts, sums, squares = column_sums(rows.indptr[:-1], rows.indptr[1:], rows.indices, rows.data, problem.d)
    columns = np.flatnonzero(counts)
    place = np.zeros(problem.d, np.uint32)
    place[columns] = np.arange(len(columns), dtype=np.uint32)
    units = np.ones(len(columns))
    if standardize:
        units = units_of(counts[columns], sums[columns], squares[columns], len(rows.numbers))
    if problem.penalty.pen is not None:
        units = units * problem.penalty.pen[columns]
    loss, couples = problem.loss, problem.loss.couples
    if couples:
        loss, targets = Logistic(), np.where(targets > 0.0, 1.0, -1.0)
    scale = Scale.of(loss, targets, weights, problem.intercept)
    loss, targets = loss.in_units_of(scale.unit), scale.inside(targets)
    csr, losses = (rows.indptr, place[rows.indices], rows.data), (loss, smooth(loss))
    return Task(*csr, targets, weights, rows.numbers, units, *losses, problem.intercept, couples, scale), columns
