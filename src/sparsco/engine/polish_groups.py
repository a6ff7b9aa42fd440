"""Group lassos on rows in memory: solved on all rows and columns, without a working set."""

from __future__ import annotations

import numpy as np

from ..penalties import GroupL1
from ..problem.state import Problem
from ..solver.group_newton import GroupNewton
from ..solver.loss_term import LossTerm
from ..solver.sampled_matrix import columns_of
from .polish_model import Model
from .polish_rows import RowsInMemory


def are_group_lassos(problem: Problem) -> bool:
    """Return whether ``solve_groups`` solves the models of a problem in memory: they need no start then."""
    if not isinstance(problem.penalty, GroupL1):
        return False
    return GroupNewton.serves(problem.penalty.blocks(problem.d), problem.loss, problem.m)


def solve_groups(rows: RowsInMemory, chain: list[Model], tol: float) -> int:
    """Solve models with the same targets, from the strongest penalty down, if they are group lassos.

    Return the number of steps.  Each model starts at the one before, and the first one without features.
    """
    first = chain[0]
    if not GroupNewton.serves(first.psi, first.loss, len(first.b)):
        return 0
    y, weights = rows.targets[:, first.lanes], rows.weights[:, first.lanes]
    term = LossTerm(first.loss, y, weights / max(np.count_nonzero(weights[:, 0]), 1), np.zeros(y.shape))
    newton = GroupNewton(columns_of(rows.matrix), first.psi, term, first.intercept)
    start = np.zeros_like(first.W), np.zeros_like(first.b), np.zeros(y.shape)
    for model in chain:
        newton.psi, before = model.psi, newton.steps
        newton.start(*start)
        model.take_solution(newton, newton.certified(tol, model.unit), newton.steps - before)
        start = newton.W, newton.b, newton.P
    return newton.steps
