"""The chosen model, solved on all rows of a task."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..solver.elastic_net import FINE, ROUGH, solver_of
from .candidates import _SHARE_OF_RIDGE
from .problem import Task


class Penalty(NamedTuple):
    """A strength, a mixture, and whether the selected features are learned again."""

    lam: float
    l1_ratio: float
    relaxed: bool


def fit(task: Task, penalty: Penalty) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights (d, m) and intercepts (m,) of all models; a function of the task and the penalty alone."""
    lam, l1_ratio, relaxed = penalty
    w, b = np.zeros((task.d, task.m)), np.zeros(task.m)
    rows = np.arange(task.n)
    X, columns = task.by_column(rows)
    solver = None
    for q in range(task.m):
        examples = task.examples(rows, q)
        if solver is None:
            solver = solver_of(X, examples, task.units[columns], task.intercept)
        else:
            solver.continue_with(examples)
            solver.restart()
        top = solver.strength_of_nothing() / max(l1_ratio, 1e-3)
        for ahead in lam * 10.0 ** np.arange(5.0, 0.0, -1.0):
            if ahead < top / 3.0:
                solver.solve(ahead, l1_ratio, ROUGH)
        own, b[q] = solver.solve(lam, l1_ratio, FINE)
        if relaxed:
            own, b[q] = solver.relaxed(_SHARE_OF_RIDGE * lam)
        w[columns, q] = own
    return w, b
