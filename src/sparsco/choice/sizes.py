"""Models of given sizes: few features of a solution, learned again.

The model of size k has the k features of largest |weight| times unit in the first solution along the strengths that
has so many, learned again with an L2 term.  The solutions are those of pure L1 for sizes up to a tenth of the rows.
For larger sizes they are those of an elastic net, which ranks correlated features better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..solver.elastic_net import ROUGH, ElasticNetSolver, solver_of
from ..util.progress import step
from .candidates import FALL, STEP
from .fitting import Fit
from .learner import Learner, by_group, judged_models
from .problem import Task
from .splits import Split

SIZES = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50, 70, 100, 150, 200, 300, 400, 500, 700, 1000)
ROWS_PER_FEATURE = 10
LEAST_RIDGE, MOST_RIDGE, RIDGE_PER_FEATURE = 0.1, 1.0, 20.0
"""The L2 term of a refit, as a share of the strength that selected the features: it grows with features over rows."""

SIZED_NONZEROS, SIZED_ROWS = 1_000_000, 2000
"""The nonzeros of the rows, for one model, from which models of given sizes are learned, and the least rows."""
DEEPEST = 1e-4
"""The least strength, as a share of the smallest that selects nothing."""
_WAITS = 4
"""The loss has not fallen twice on the grid of candidates, which has half of these strengths."""


class Sized(NamedTuple):
    """A model with ``size`` features: weights and intercept of each of its models."""

    size: int
    fits: list[tuple[np.ndarray, float]]


def sizes_up_to(most: int) -> list[int]:
    """Return the sizes of the models that are kept: a few of each magnitude, and the largest one."""
    return sorted({size for size in SIZES if size < most} | {min(most, SIZES[-1])})


def sizes_by_mixture(sizes: Sequence[int], mixtures: Sequence[float], rows: int) -> list[list[int]]:
    """Return the sizes that each mixture gives: small ones the first, others the second."""
    if len(mixtures) == 1:
        return [list(sizes)]
    small = [size for size in sizes if size * ROWS_PER_FEATURE <= rows]
    return [small, [size for size in sizes if size not in small], *([] for _ in mixtures[2:])]


def sized(solvers: list[ElasticNetSolver], lam: float, l1_ratio: float, wanted: list[int]) -> Iterator[Sized]:
    """Yield models of the wanted sizes that the present solutions reach, and take these sizes off the list."""
    scores = np.max([np.abs(solver.w) * solver.units for solver in solvers], axis=0)
    used = np.flatnonzero(scores)
    if not wanted or wanted[0] > len(used):
        return
    ranked = used[np.argsort(-scores[used], kind="stable")]
    while wanted and wanted[0] <= len(ranked):
        size = wanted.pop(0)
        kept = np.sort(ranked[:size])
        share = min(max(RIDGE_PER_FEATURE * size / solvers[0].X.n, LEAST_RIDGE), MOST_RIDGE)
        ridge = share * lam * (1.0 if l1_ratio == 1.0 else 1.0 - l1_ratio)
        yield Sized(size, [solver.refit(kept, ridge) for solver in solvers])


def judge_sizes(
    task: Task,
    splits: Sequence[Split],
    seed: int,
    mixtures: Sequence[float],
    sizes: Sequence[int],
    groups: np.ndarray | None = None,
) -> dict[int, np.ndarray]:
    """Return the losses of models of these sizes on held-out rows, for each size that is found on all splits.

    All splits go down the strengths together, until the mean loss of their solutions no longer falls.
    """
    models = judged_models(task, seed)
    learners = [Learner(task, split, models) for split in splits]
    lam_max = learners[0].strength_of_nothing()
    found: dict[int, list[np.ndarray]] = {}
    for k, l1_ratio in enumerate(mixtures):
        wanted = [sizes_by_mixture(sizes, mixtures, learner.n)[k] for learner in learners]
        best, waits, lam = np.inf, 0, lam_max / l1_ratio
        while any(wanted) and waits < _WAITS and lam * l1_ratio > DEEPEST * lam_max:
            lam, means = lam / STEP**0.5, []
            for learner, own in zip(learners, wanted, strict=True):
                step(f"judging models of given sizes: {max(found, default=0)} features")
                learner.solve(lam, l1_ratio)
                means.append(float(learner.figures()[0].mean()))
                for size, fits in sized(learner.solvers, lam, l1_ratio, own):
                    found.setdefault(size, []).append(learner.losses(fits))
            waits = waits + 1 if np.mean(means) > FALL * best else 0
            best = min(best, float(np.mean(means)))
        for learner in learners:
            learner.start()
    rows = np.concatenate([split.judged for split in splits])
    own_groups = None if groups is None else groups[rows]
    return {
        size: by_group(task.as_given(np.concatenate(each), rows, models), own_groups)
        for size, each in found.items()
        if len(each) == len(splits)
    }


def fit_sizes(task: Task, sizes: Sequence[int], mixtures: Sequence[float]) -> Iterator[tuple[int, Fit]]:
    """Yield models of these sizes, which grow, learned from a part of the rows."""
    rows = np.arange(min(task.n, max(int(SIZED_NONZEROS / (task.row_nonzeros * task.m)), SIZED_ROWS)))
    X, columns = task.by_column(rows)
    solvers = [solver_of(X, task.examples(rows, q), task.units[columns], task.intercept) for q in range(task.m)]
    lam_max = max(solver.strength_of_nothing() for solver in solvers) or 1.0
    for l1_ratio, wanted in zip(mixtures, sizes_by_mixture(sizes, mixtures, X.n), strict=True):
        lam = lam_max / l1_ratio
        while wanted and lam * l1_ratio > DEEPEST * lam_max:
            lam /= STEP**0.5
            for solver in solvers:
                solver.solve(lam, l1_ratio, ROUGH)
            for size, fits in sized(solvers, lam, l1_ratio, wanted):
                step(f"solving models of given sizes: {size} features")
                yield size, Fit.of(fits, columns, task.scale)
        for solver in solvers:
            solver.restart()
