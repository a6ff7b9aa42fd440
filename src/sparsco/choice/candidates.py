"""Candidates: strengths, mixtures and refits, each judged on rows that it has not learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..util.progress import step
from .learner import Figures, Learner, by_group, judged_models
from .problem import Task
from .splits import Split

STEP = 10.0**0.5
"""The ratio of neighbouring strengths."""
DEEPEST = 12
"""The number of strengths at most: down to a millionth of the smallest that selects nothing."""
SHARE_OF_RIDGE = 1e-4
"""The L2 term of a refit, as a share of the strength that selected the features."""
RISE = 1.001
"""A loss that is so many times the least one has risen."""


class Candidate(NamedTuple):
    """A strength, given by its depth on the grid, a mixture, and whether the selected features are learned again."""

    l1_ratio: float
    depth: int
    relaxed: bool


EMPTY = Candidate(1.0, 0, False)
"""The model without features."""


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
    judged_rows: int
    """The number of held-out rows."""

    def strength(self, candidate: Candidate) -> float:
        """Return lam of a candidate."""
        return self.lam_max / candidate.l1_ratio * STEP**-candidate.depth


_Found = dict[Candidate, list[Figures]]
"""The figures of candidates on the splits, as far as they were judged."""


def judge(
    task: Task,
    splits: Sequence[Split],
    seed: int,
    mixtures: Sequence[float],
    relaxes: bool = True,
    groups: np.ndarray | None = None,
) -> Judged:
    """Return the losses of all candidates.

    All splits go down the strengths together, until the mean of their losses has risen twice in a row.  A candidate
    counts that was judged on all splits.  ``groups`` has the group of each row, if rows are not independent of each
    other.
    """
    models = judged_models(task, seed)
    learners = [Learner(task, split, models) for split in splits]
    lam_max = learners[0].strength_of_nothing()
    found: _Found = {EMPTY: [each.figures() for each in learners]}
    at_edge = False
    for k, l1_ratio in enumerate(mixtures):
        if k:
            for learner in learners:
                learner.start()
        at_edge |= _go_down(learners, lam_max, l1_ratio, relaxes, found, DEEPEST * (len(mixtures) - k))
    rows = np.concatenate([split.judged for split in splits])
    found = {key: each for key, each in found.items() if len(each) == len(splits)}
    own = None if groups is None else groups[rows]
    return Judged(
        list(found),
        np.array([by_group(np.concatenate([losses for losses, _ in each]), own) for each in found.values()]),
        np.array([np.mean([size for _, size in each]) for each in found.values()]),
        lam_max,
        len(splits[0].learned),
        at_edge,
        len(rows),
    )


def _go_down(learners: list[Learner], lam_max: float, l1_ratio: float, relaxes: bool, found: _Found, left: int) -> bool:
    """Add the candidates of a mixture to ``found``; return whether the loss fell to the end.

    ``left`` is the number of strengths that are still to be judged, at most.
    """
    best, rises = np.inf, 0
    done = sum(not key.relaxed for key in found) - 1
    for depth in range(1, DEEPEST + 1):
        lam, plain = lam_max / l1_ratio * STEP**-depth, Candidate(l1_ratio, depth, False)
        for learner in learners:
            step(f"choosing alpha: {done + depth - 1} of at most {done + left} strengths judged")
            learner.solve(lam, l1_ratio)
            if relaxes and l1_ratio == 1.0:
                refit = learner.relaxed(SHARE_OF_RIDGE * lam)
                if refit is not None:
                    found.setdefault(plain._replace(relaxed=True), []).append(refit)
            found.setdefault(plain, []).append(learner.figures())
        mean = float(np.concatenate([losses for losses, _ in found[plain]]).mean())
        rises = rises + 1 if mean > RISE * best else 0
        best = min(best, mean)
        if rises >= 2:
            break
    done += depth
    step(f"choosing alpha: {done} of at most {done + left - DEEPEST} strengths judged")
    return rises == 0
