"""Models of few rows, solved at once: no row is learned by an optimizer.

A conversion such as AverageSL returns the optimum on the rows of its sample, and the optimizer's iterates are where it
begins to solve.  On rows so few that they are all still collected, and that one kernel solves, the start does not
matter.  A polish of few rows begins at zero, and needs no iterates either; nor does one of groups.
"""

from __future__ import annotations

import numpy as np

from ..conversions.averaging import Answer, Last
from ..data.rows import Matrix
from ..losses import SMOOTH_LOSSES
from ..offsets import base_of
from ..penalties import ElasticNet, WeightedElasticNet, strength
from ..problem.state import Problem
from ..solver.columns import by_column
from ..solver.elastic_net import Accuracy, Examples
from ..solver.small import SmallSolver, is_few
from .polish_groups import are_group_lassos
from .polish_rows import Rows, RowsInMemory
from .polish_small import has_own_start
from .run import Run

_ACCURACY = Accuracy(1e-10, 100)


def begun_to_polish(runs: list[Run], rows: Rows) -> list[Run]:
    """Return copies of runs that are ready for a polish; where it starts at zero, they have learned nothing."""
    return [run.measured_copy() if _is_polished_from_zero(run, rows) else run.begun() for run in runs]


def solved_at_once(runs: list[Run]) -> tuple[list[Run], list[Answer] | None]:
    """Return copies of runs that are ready to finish, with their answers where these are solved without learning."""
    if not all(_is_solved_at_once(run) for run in runs):
        return [run.begun() for run in runs], None
    measured = [run.measured_copy() for run in runs]
    return measured, [_solved(run) for run in measured]


def starts_at_zero(matrix: Matrix, problem: Problem) -> bool:
    """Return whether a polish of these rows starts without features: one of groups, and one of few rows."""
    return are_group_lassos(problem) or has_own_start(matrix, problem)


def _is_polished_from_zero(run: Run, rows: Rows) -> bool:
    """Return whether a polish of these rows needs no iterate of a run, which has learned none yet."""
    if run.pilot is not None or run.rounding is not None or not isinstance(run.conversion, Last):
        return False
    return isinstance(rows, RowsInMemory) and starts_at_zero(rows.matrix, run.problem)


def _is_solved_at_once(run: Run) -> bool:
    """Return whether the answer of a run is the optimum on the rows that it has collected, few enough for a kernel.

    Rows that are learned by steps, which may be too long, are learned: a divergence must be reported.
    """
    if run.pilot is not None or run.rounding is not None or run.half_life is not None or run.optimizer.uses_steps:
        return False
    if run.lams is not None or run.units is not None or run.initial is not None:
        return False
    problem, parts = run.problem, [part[0] for part in run.collected]
    is_served = isinstance(base_of(problem.loss), SMOOTH_LOSSES) and isinstance(
        problem.penalty, ElasticNet | WeightedElasticNet
    )
    few = is_few(sum(map(len, parts)), run.d, sum(len(part.data) for part in parts))
    return is_served and few and run.conversion.solves(problem)


def _solved(run: Run) -> Answer:
    """Return the optimum of each model of a run on its pilot rows, which are all of its rows."""
    problem, rows = run.problem, run.pilot_rows
    n, d, penalty = len(rows.y), run.d, problem.penalty
    X = by_column(*rows.matrix[:3], np.arange(n), d)
    pen, ridge = penalty.lam * penalty.feature_weights(d), np.full(d, float(penalty.rho))
    w, b, chosen = np.zeros((d, problem.m)), np.zeros(problem.m), []
    for q in range(problem.m):
        examples = Examples.of(rows.targets[:, q].copy(), rows.weights[:, q].copy(), problem.loss)
        solver = SmallSolver(X, examples, np.ones(d), problem.intercept)
        w[:, q], b[q] = solver.solve_for(pen, ridge, _ACCURACY)
        objective = float(examples.losses(solver.p).mean() + strength(penalty, w[:, q]))
        chosen.append({"metric": "newton", "objectives": {"newton": objective}})
    return Answer(w, b, {"averaged": 0, "chosen": chosen})
