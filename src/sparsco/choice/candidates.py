"""Candidates: strengths, mixtures and refits, each judged on rows that it has not learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..util.progress import step
from .learner import Figures, Learner, by_group, judged_models
from .problem import Task
from .scale import AS_IT_IS, Scale
from .splits import Split, first_splits

STEP = 10.0**0.5
"""The ratio of neighbouring strengths."""
DEEPEST = 12
"""The number of strengths at most: down to a millionth of the smallest that selects nothing."""
SHARE_OF_RIDGE = 1e-4
"""The L2 term of a refit, as a share of the strength that selected the features."""
FALL, CLEAR = 0.9999, 1.5
"""A loss above so many times the least one has not fallen.  A rise is clear at so many standard errors."""
FIRST_JUDGED = 200
"""The number of rows on which all candidates are judged, at least; all rows, if they are fewer."""
SMALL_ERROR = 0.1
"""A loss is known well if its standard error is at most this share of it."""
AHEAD = 2
"""The number of strengths by which a path starts before the first one that is judged."""


class Candidate(NamedTuple):
    """A strength, given by its depth on the grid, a mixture, and whether the selected features are learned again."""

    l1_ratio: float
    depth: int
    relaxed: bool


EMPTY = Candidate(1.0, 0, False)
"""The model without features."""


class Judged(NamedTuple):
    """The losses of candidates on held-out rows (candidates, rows), the features that they use, and the grid.

    If rows are in groups, there is one loss for each group in place of its rows.  Losses are those of targets as they
    are.
    """

    candidates: list[Candidate]
    losses: np.ndarray
    features: np.ndarray
    lam_max: float
    """The smallest strength of pure L1 that selects nothing, in units of the scale."""
    learned_rows: int
    """The number of rows that a candidate has learned."""
    at_edge: bool
    """Whether the loss still fell at the smallest strength."""
    judged_rows: int
    """The number of held-out rows."""
    scale: Scale = AS_IT_IS
    """The scale of the targets, in which mixtures are meant."""

    def strength(self, candidate: Candidate) -> tuple[float, float]:
        """Return the strength and the mixture of a candidate, for targets as they are."""
        lam = self.lam_max / candidate.l1_ratio * STEP**-candidate.depth
        return self.scale.strength_outside(lam, candidate.l1_ratio)


def judge(
    task: Task,
    splits: Sequence[Split],
    seed: int,
    mixtures: Sequence[float],
    relaxes: bool = True,
    groups: np.ndarray | None = None,
    enough: int | None = None,
) -> Judged:
    """Return the losses of the candidates that are not clearly worse than the best one.

    The first splits go down all strengths together.  The others judge those that the first ones leave: all splits, or
    those until ``enough`` rows are judged and the least loss is known well.  ``groups`` has the group of each row, if
    rows are not independent of each other.
    """
    models, first_round = judged_models(task, seed), first_splits(list(splits), min(FIRST_JUDGED, task.n))
    learners = [Learner(task, split, models) for split in first_round]
    lam_max = learners[0].strength_of_nothing()
    board = _Board([split.judged for split in splits], groups)
    for learner in learners:
        board.add(EMPTY, learner.nothing())
    at_edge, first = False, 1
    for k, l1_ratio in enumerate(mixtures):
        if k:
            for learner in learners:
                learner.start()
        descent = _go_down(learners, lam_max, l1_ratio, relaxes, board, first, DEEPEST * (len(mixtures) - k))
        at_edge |= descent.waits == 0
        first = max(first, descent.best.depth - AHEAD)  # with more of the L2 term the best strength is no larger
    left, again = board.left(), 1.5 * len(first_round)
    for k in range(len(first_round), len(splits)):
        if enough is not None and board.is_settled(enough):
            break
        if k >= again:
            left, again = board.left(), 1.5 * k
        step(f"choosing alpha: {len(left)} candidates judged on {k} of at most {len(splits)} splits")
        _judge_on(Learner(task, splits[k], models), lam_max, left, board)
    found = {key: board.figures[key] for key in board.complete()}
    return Judged(
        list(found),
        board.as_given(task, models),
        np.array([np.mean([size for _, size in each]) for each in found.values()]),
        lam_max,
        len(splits[0].learned),
        at_edge,
        sum(len(split.judged) for split in splits[: len(found[EMPTY])]),
        task.scale,
    )


class _Board:
    """The figures of candidates on the splits, as far as they were judged, by which bad ones are left out."""

    def __init__(self, judged: list[np.ndarray], groups: np.ndarray | None) -> None:
        self.figures: dict[Candidate, list[Figures]] = {}
        self._judged, self._groups = judged, groups

    def add(self, candidate: Candidate, figures: Figures) -> None:
        """Add the figures of a candidate on the next split."""
        self.figures.setdefault(candidate, []).append(figures)

    def losses(self, candidate: Candidate) -> np.ndarray:
        """Return the losses of a candidate on all rows, or groups, that it was judged on."""
        each = self.figures[candidate]
        rows = np.concatenate(self._judged[: len(each)])
        return by_group(
            np.concatenate([losses for losses, _ in each]), None if self._groups is None else self._groups[rows]
        )

    def as_given(self, task: Task, models: np.ndarray) -> np.ndarray:
        """Return the losses of the complete candidates for targets as they are, (candidates, rows or groups)."""
        complete = self.complete()
        rows = np.concatenate(self._judged[: len(self.figures[EMPTY])])
        each = (np.concatenate([losses for losses, _ in self.figures[key]]) for key in complete)
        groups = None if self._groups is None else self._groups[rows]
        return np.array([by_group(task.as_given(losses, rows, models), groups) for losses in each])

    def is_worse(self, candidate: Candidate, other: Candidate) -> bool:
        """Return whether a candidate is clearly worse than another one that was judged on the same rows."""
        return is_clear(self.losses(candidate) - self.losses(other))

    def is_settled(self, enough: int) -> bool:
        """Return whether candidates were judged on enough rows, and the least loss has a small standard error."""
        least = min(map(self.losses, self.complete()), key=np.mean)
        is_known = float(least.std()) <= SMALL_ERROR * float(least.mean()) * np.sqrt(len(least))
        return is_known and sum(map(len, self._judged[: len(self.figures[EMPTY])])) >= enough

    def complete(self) -> list[Candidate]:
        """Return the candidates that were judged on all splits so far."""
        return [key for key, each in self.figures.items() if len(each) == len(self.figures[EMPTY])]

    def left(self) -> list[Candidate]:
        """Return the candidates to be judged further: no clearly worse one, nor one far below the best of its kind."""
        means = {key: float(self.losses(key).mean()) for key in self.complete()}
        best, found = min(means, key=means.__getitem__), list[Candidate]()
        for kind in dict.fromkeys((key.l1_ratio, key.relaxed) for key in means if key != EMPTY):
            alike = [key for key in means if (key.l1_ratio, key.relaxed) == kind and key != EMPTY]
            deepest = min(alike, key=means.__getitem__).depth + 1
            found += [key for key in alike if key.depth <= deepest and (key == best or not self.is_worse(key, best))]
        return found


def is_clear(rise: np.ndarray) -> bool:
    """Return whether the mean of these differences is clearly above 0."""
    return float(rise.mean()) > CLEAR * float(rise.std()) / np.sqrt(max(len(rise), 1))


class _Descent:
    """The least loss so far on the way down the strengths, and for how many strengths it has not fallen."""

    def __init__(self, board: _Board) -> None:
        self.board, self.least, self.waits = board, np.inf, 0
        self.best = EMPTY

    def ends_at(self, candidate: Candidate) -> bool:
        """Return whether the loss has clearly risen at this candidate, or not fallen twice in a row."""
        mean, best = float(self.board.losses(candidate).mean()), self.best
        self.waits = self.waits + 1 if mean > FALL * self.least else 0
        if mean < self.least:
            self.best, self.least = candidate, mean
        return self.waits >= 2 or (self.waits == 1 and self.board.is_worse(candidate, best))


def _go_down(
    learners: list[Learner], lam_max: float, l1_ratio: float, relaxes: bool, board: _Board, first: int, left: int
) -> _Descent:
    """Judge the candidates of a mixture from the strength ``first`` on, down to where the loss ends to fall.

    Refits are judged until their own loss ends to fall.  ``left`` is the number of strengths to be judged, at most.
    """
    refits, plain = _Descent(board), _Descent(board)
    relaxes = relaxes and l1_ratio == 1.0
    done = sum(not key.relaxed for key in board.figures) - 1
    for depth in range(first, DEEPEST + 1):
        lam, candidate = lam_max / l1_ratio * STEP**-depth, Candidate(l1_ratio, depth, False)
        for learner in learners:
            step(f"choosing alpha: {done + depth - 1} of at most {done + left} strengths judged")
            learner.solve(lam, l1_ratio)
            board.add(candidate, learner.figures())
        if relaxes and all(learner.can_relax() for learner in learners):
            again = candidate._replace(relaxed=True)
            for learner in learners:
                board.add(again, learner.relaxed(SHARE_OF_RIDGE * lam))
            relaxes = not refits.ends_at(again)
        if plain.ends_at(candidate):
            break
    return plain


def _judge_on(learner: Learner, lam_max: float, candidates: list[Candidate], board: _Board) -> None:
    """Judge some candidates on a further split."""
    board.add(EMPTY, learner.nothing())
    for l1_ratio in dict.fromkeys(each.l1_ratio for each in candidates):
        learner.start()
        wanted = [each.depth for each in candidates if each.l1_ratio == l1_ratio]
        for depth in range(max(min(wanted) - AHEAD, 1), max(wanted) + 1):
            lam = lam_max / l1_ratio * STEP**-depth
            learner.solve(lam, l1_ratio)
            for relaxed in (False, True):
                candidate = Candidate(l1_ratio, depth, relaxed)
                if candidate in candidates:
                    board.add(candidate, learner.relaxed(SHARE_OF_RIDGE * lam) if relaxed else learner.figures())
