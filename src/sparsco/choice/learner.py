"""The models of a split: learned from some rows along the strengths, and judged on others."""

from __future__ import annotations

import numpy as np

from ..data.randomness import Purpose, bits
from ..losses import value
from ..solver.columns import add_columns, some_by_column
from ..solver.elastic_net import ROUGH
from ..solver.small import quickest
from .problem import Task
from .splits import Split

ROWS_PER_FEATURE, FEW_FEATURES, LEAST_ROWS = 10, 100, 4
"""The least number of rows for each feature that is learned again; for few features, a smaller number is enough."""

Figures = tuple[np.ndarray, int]
"""The losses of a model on held-out rows, and the number of its features."""


def judged_models(task: Task, seed: int) -> np.ndarray:
    """Return the models that candidates are judged by: some of many."""
    some = max(3, -(-task.m // 4))
    return task.order()[np.sort(np.argsort(bits(seed, Purpose.PATH, np.arange(task.m)))[:some])]


def by_group(losses: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Return the sum of the losses of each group, scaled to the same mean.

    So a standard error over groups takes into account that their rows are alike.
    """
    if groups is None:
        return losses
    sums = np.bincount(np.unique(groups, return_inverse=True)[1], losses)
    return sums * (len(sums) / len(losses))


class Learner:
    """The models of a split: learned from some rows along the strengths, and judged on others."""

    def __init__(self, task: Task, split: Split, models: np.ndarray) -> None:
        self.loss, self.n = task.loss, len(split.learned)
        X, columns = task.by_column(split.learned)
        units = task.units[columns]
        make = quickest(X, task.smooth_loss)
        self.solvers = [make(X, task.examples(split.learned, q), units, task.intercept) for q in models]
        self.held = some_by_column(task.indptr, task.indices, task.data, split.judged, columns, task.d)
        self.constants = [
            task.constant(split.learned, q, solver.b) for q, solver in zip(models, self.solvers, strict=True)
        ]
        """The intercepts of the models without features."""
        self.judged = [(task.targets[split.judged, q], task.weights[split.judged, q]) for q in models]

    def strength_of_nothing(self) -> float:
        """Return the smallest strength of pure L1 that selects nothing; only valid before the first strength."""
        return max(solver.strength_of_nothing() for solver in self.solvers) or 1.0

    def start(self) -> None:
        """Go back to the models without features."""
        for solver in self.solvers:
            solver.restart()

    def solve(self, lam: float, l1_ratio: float) -> None:
        """Go on to a strength and a mixture."""
        for solver in self.solvers:
            solver.solve(lam, l1_ratio, ROUGH)

    def figures(self) -> Figures:
        """Return the losses and the number of features of the present solutions."""
        fits = [(solver.w, solver.b) for solver in self.solvers]
        return self.losses(fits), int(np.count_nonzero(np.logical_or.reduce([w != 0.0 for w, _ in fits])))

    def nothing(self) -> Figures:
        """Return the losses of the models without features."""
        return self.losses(
            [(np.zeros_like(each.w), b) for each, b in zip(self.solvers, self.constants, strict=True)]
        ), 0

    def can_relax(self) -> bool:
        """Return whether the selected features are few enough for the rows to be learned again without a penalty."""
        most = max(self.n / ROWS_PER_FEATURE, min(self.n / LEAST_ROWS, FEW_FEATURES))
        return all(np.count_nonzero(solver.w) < most for solver in self.solvers)

    def relaxed(self, ridge: float) -> Figures:
        """Return the same of the selected features, learned again with a small L2 term only."""
        return self.losses([solver.relaxed(ridge) for solver in self.solvers]), self.figures()[1]

    def losses(self, fits: list[tuple[np.ndarray, float]]) -> np.ndarray:
        """Return the loss of each held-out row, summed over the models with these weights and intercepts."""
        total = np.zeros(self.held.n)
        for (y, weights), (w, b) in zip(self.judged, fits, strict=True):
            p = np.full(len(total), b)
            add_columns(self.held.first, self.held.rows, self.held.x, w, p)
            total += weights * value(self.loss, p, y)
        return total
