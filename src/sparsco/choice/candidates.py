"""Candidates: strengths, mixtures, refits and sizes, each judged on rows that it has not learned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..data.randomness import Purpose, bits
from ..solver.columns import add_columns, by_column
from ..solver.elastic_net import ROUGH, solver_of
from ..util.progress import step
from .problem import Task
from .sizes import sized, sizes_by_mixture
from .splits import Split

STEP = 10.0**0.5
"""The ratio of neighbouring strengths."""
DEEPEST = 12
"""The number of strengths at most: down to a millionth of the smallest that selects nothing."""
SHARE_OF_RIDGE = 1e-4
"""The L2 term of a refit, as a share of the strength that selected the features."""
_RISE = 1.001


class Candidate(NamedTuple):
    """A strength, given by its depth on the grid, a mixture, and whether the selected features are learned again."""

    l1_ratio: float
    depth: int
    relaxed: bool


EMPTY = Candidate(1.0, 0, False)
"""The model without features."""


_Figures = tuple[np.ndarray, int]
"""The losses of a model on held-out rows, and the number of its features."""
_Found = dict[Candidate | int, dict[int, _Figures]]
"""The figures of candidates and sizes, by the number of the split."""


class Judged(NamedTuple):
    """The losses of candidates on held-out rows (candidates, rows), the features that they use, and the grid.

    If rows are in groups, there is one loss for each group in place of its rows.
    """

    candidates: list[Candidate]
    losses: np.ndarray
    features: np.ndarray
    lam_max: float
    """The smallest strength of pure L1 that selects nothing."""
    learned_rows: int
    """The number of rows that a candidate has learned."""
    at_edge: bool
    """Whether the loss still fell at the smallest strength."""
    sizes: dict[int, np.ndarray]
    """The losses of models of given sizes on the held-out rows."""
    judged_rows: int
    """The number of held-out rows."""

    def strength(self, candidate: Candidate) -> float:
        """Return lam of a candidate."""
        return self.lam_max / candidate.l1_ratio * STEP**-candidate.depth


def judge(
    task: Task,
    splits: Sequence[Split],
    seed: int,
    mixtures: Sequence[float],
    relaxes: bool = True,
    sizes: Sequence[int] = (),
    groups: np.ndarray | None = None,
) -> Judged:
    """Return the losses of all candidates, and of models of these sizes.

    All splits go down the strengths together, until the mean of their losses has risen twice in a row.  A candidate
    counts that was judged on all splits.  ``groups`` has the group of each row, if rows are not independent of each
    other.
    """
    models = _judged_models(task, seed)
    learners = [_Learner(task, split, models) for split in splits]
    lam_max = max(solver.strength_of_nothing() for solver in learners[0].solvers) or 1.0
    found: _Found = {EMPTY: {k: each.of_nothing() for k, each in enumerate(learners)}}
    at_edge = False
    for k, l1_ratio in enumerate(mixtures):
        for learner in learners:
            learner.start(sizes_by_mixture(sizes, mixtures, learner.n)[k])
        at_edge |= _go_down(learners, lam_max, l1_ratio, relaxes, found, DEEPEST * (len(mixtures) - k))
    rows = np.concatenate([split.judged for split in splits])
    found = {key: each for key, each in found.items() if len(each) == len(splits)}
    complete = {
        key: _by_group(
            np.concatenate([each[k][0] for k in range(len(splits))]), None if groups is None else groups[rows]
        )
        for key, each in found.items()
    }
    candidates = [key for key in complete if isinstance(key, Candidate)]
    return Judged(
        candidates,
        np.array([complete[key] for key in candidates]),
        np.array([np.mean([size for _, size in found[key].values()]) for key in candidates]),
        lam_max,
        len(splits[0].learned),
        at_edge,
        {key: losses for key, losses in complete.items() if not isinstance(key, Candidate)},
        len(rows),
    )


def _by_group(losses: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Return the sum of the losses of each group, scaled to the same mean.

    So a standard error over groups takes into account that their rows are alike.
    """
    if groups is None:
        return losses
    sums = np.bincount(np.unique(groups, return_inverse=True)[1], losses)
    return sums * (len(sums) / len(losses))


def _go_down(
    learners: list[_Learner], lam_max: float, l1_ratio: float, relaxes: bool, found: _Found, left: int
) -> bool:
    """Add the candidates and sizes of a mixture to ``found``; return whether the loss fell to the end.

    ``left`` is the number of strengths that are still to be judged, at most.
    """
    best, rises = np.inf, 0
    done = sum(isinstance(key, Candidate) and not key.relaxed for key in found) - 1
    for half in range(1, 2 * DEEPEST + 1):  # sizes are taken between the strengths of candidates, too
        is_between = half % 2 == 1
        if is_between and not any(learner.sizes for learner in learners):
            continue
        lam, plain = lam_max / l1_ratio * STEP ** (-0.5 * half), Candidate(l1_ratio, half // 2, False)
        for k, learner in enumerate(learners):
            step(f"choosing alpha: {done + half // 2} of at most {done + left} strengths judged")
            learner.solve(lam, l1_ratio)
            for size, figures in learner.sized(lam):
                found.setdefault(size, {})[k] = figures
            for candidate, figures in () if is_between else learner.judged(lam, plain, relaxes):
                found.setdefault(candidate, {})[k] = figures
        if is_between:
            continue
        mean = float(np.concatenate([losses for losses, _ in found[plain].values()]).mean())
        rises = rises + 1 if mean > _RISE * best else 0
        best = min(best, mean)
        if rises >= 2:
            break
    done += half // 2
    step(f"choosing alpha: {done} of at most {done + left - DEEPEST} strengths judged")
    return rises == 0


def _judged_models(task: Task, seed: int) -> np.ndarray:
    """Return the models that candidates are judged by: some of many."""
    some = max(3, -(-task.m // 4))
    return task.order()[np.sort(np.argsort(bits(seed, Purpose.PATH, np.arange(task.m)))[:some])]


class _Learner:
    """The models of a split: learned from some rows along the strengths, and judged on others."""

    def __init__(self, task: Task, split: Split, models: np.ndarray) -> None:
        self.task, self.rows, self.models, self.n = task, split.judged, models, len(split.learned)
        X, columns = task.by_column(split.learned)
        units = task.units[columns]
        self.solvers = [solver_of(X, task.examples(split.learned, q), units, task.intercept) for q in models]
        place = np.full(task.d, -1, np.int64)
        place[columns] = np.arange(len(columns))
        self.held = by_column(task.indptr, task.indices, task.data, split.judged, place, len(columns))
        self.l1_ratio, self.sizes = 1.0, list[int]()

    def of_nothing(self) -> _Figures:
        """Return the losses of the models without features, and no features."""
        return self._losses([(solver.w, solver.b) for solver in self.solvers]), 0

    def start(self, sizes: list[int]) -> None:
        """Go back to the models without features, with these sizes to be found."""
        self.sizes = sizes
        for solver in self.solvers:
            solver.restart()

    def solve(self, lam: float, l1_ratio: float) -> None:
        """Go on to a strength and a mixture."""
        self.l1_ratio = l1_ratio
        for solver in self.solvers:
            solver.solve(lam, l1_ratio, ROUGH)

    def sized(self, lam: float) -> Iterator[tuple[int, _Figures]]:
        """Yield the sizes that are found at this strength, with their losses and features."""
        for size, refits in sized(self.solvers, lam, self.l1_ratio, self.sizes):
            yield size, (self._losses(refits), size)

    def judged(self, lam: float, plain: Candidate, relaxes: bool) -> Iterator[tuple[Candidate, _Figures]]:
        """Yield the candidates of this strength, with their losses and features."""
        fits = [(solver.w, solver.b) for solver in self.solvers]
        features = int(np.count_nonzero(np.logical_or.reduce([w != 0.0 for w, _ in fits])))
        if relaxes and self.l1_ratio == 1.0 and all(4 * np.count_nonzero(w) < self.n for w, _ in fits):
            refits = [solver.relaxed(SHARE_OF_RIDGE * lam) for solver in self.solvers]
            yield plain._replace(relaxed=True), (self._losses(refits), features)
        yield plain, (self._losses(fits), features)

    def _losses(self, fits: list[tuple[np.ndarray, float]]) -> np.ndarray:
        """Return the loss of each held-out row, summed over the models."""
        total = np.zeros(len(self.rows))
        for q, (w, b) in zip(self.models, fits, strict=True):
            p = np.full(len(self.rows), b)
            add_columns(self.held.first, self.held.rows, self.held.x, w, p)
            total += self.task.losses(self.rows, q, p)
        return total
