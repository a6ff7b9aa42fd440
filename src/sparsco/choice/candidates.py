"""Candidates: strengths, mixtures, refits and sizes, each judged on rows that it has not learned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..data.randomness import Purpose, bits
from ..solver.columns import add_columns
from ..solver.elastic_net import ROUGH, ElasticNetSolver, solver_of
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

    The first split fixes how far down the strengths go.  A candidate counts that was judged on all splits.  ``groups``
    has the group of each row, if rows are not independent of each other.
    """
    models = _judged_models(task, seed)
    found: dict[Candidate | int, list[tuple[np.ndarray, int]]] = {}
    depths: dict[float, int] = {}
    lam_max, at_edge, done = 0.0, False, 0
    for split in splits:
        X, columns = task.by_column(split.learned)
        solvers = [solver_of(X, task.examples(split.learned, q), task.units[columns], task.intercept) for q in models]
        lam_max = lam_max or max(solver.strength_of_nothing() for solver in solvers) or 1.0
        held = _Held(task, split.judged, columns, models)
        found.setdefault(EMPTY, []).append((held.losses([(s.w, s.b) for s in solvers]), 0))
        for l1_ratio, wanted in zip(mixtures, sizes_by_mixture(sizes, mixtures, X.n), strict=True):
            path = _Path(solvers, held, lam_max, l1_ratio, relaxes, wanted, depths.get(l1_ratio, 0))
            for key, losses, size in path.judged():
                found.setdefault(key, []).append((losses, size))
                done += isinstance(key, Candidate) and not key.relaxed
                most = len(splits) * sum(depths.get(each, DEEPEST) for each in mixtures)
                step(f"choosing alpha: {done} of at most {most} strengths judged")
            if l1_ratio not in depths:
                depths[l1_ratio] = path.depth
                at_edge |= path.fell_to_the_end
            for solver in solvers:
                solver.restart()
    rows = np.concatenate([split.judged for split in splits])
    complete = {
        key: _by_group(np.concatenate([losses for losses, _ in each]), None if groups is None else groups[rows])
        for key, each in found.items()
        if len(each) == len(splits)
    }
    candidates = [key for key in complete if isinstance(key, Candidate)]
    return Judged(
        candidates,
        np.array([complete[key] for key in candidates]),
        np.array([np.mean([size for _, size in found[key]]) for key in candidates]),
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


def _judged_models(task: Task, seed: int) -> np.ndarray:
    """Return the models that candidates are judged by: some of many."""
    some = max(3, -(-task.m // 4))
    return task.order()[np.sort(np.argsort(bits(seed, Purpose.PATH, np.arange(task.m)))[:some])]


class _Held:
    """Held-out rows, of which only the columns that were learned count."""

    def __init__(self, task: Task, rows: np.ndarray, columns: np.ndarray, models: np.ndarray) -> None:
        self.task, self.rows, self.models = task, rows, models
        self.X, own = task.by_column(rows)
        place = np.full(task.d, -1, np.int64)
        place[columns] = np.arange(len(columns))
        self.place = place[own]
        self.is_learned = self.place >= 0

    def losses(self, fits: list[tuple[np.ndarray, float]]) -> np.ndarray:
        """Return the loss of each row, summed over the models."""
        total = np.zeros(len(self.rows))
        for q, (w, b) in zip(self.models, fits, strict=True):
            own = np.zeros(len(self.place))
            own[self.is_learned] = w[self.place[self.is_learned]]
            p = np.full(len(self.rows), b)
            add_columns(self.X.first, self.X.rows, self.X.x, own, p)
            total += self.task.losses(self.rows, q, p)
        return total


class _Path:
    """The candidates of a mixture along the strengths, until the loss on held-out rows has risen twice."""

    def __init__(
        self,
        solvers: list[ElasticNetSolver],
        held: _Held,
        lam_max: float,
        l1_ratio: float,
        relaxes: bool,
        sizes: list[int],
        depth: int,
    ) -> None:
        """Prepare a path down to ``depth``, or to where the loss rises if depth is 0."""
        self.solvers, self.held, self.lam_max, self.l1_ratio, self.sizes = solvers, held, lam_max, l1_ratio, sizes
        self.relaxes = relaxes and l1_ratio == 1.0
        self.depth, self.is_open, self.fell_to_the_end = depth or DEEPEST, not depth, False

    def judged(self) -> Iterator[tuple[Candidate | int, np.ndarray, int]]:
        """Yield candidates and sizes, with their losses and features."""
        best, rises, l1_ratio = np.inf, 0, self.l1_ratio
        for half in range(1, 2 * self.depth + 1):  # sizes are taken between the strengths of candidates, too
            lam = self.lam_max / l1_ratio * STEP ** (-0.5 * half)
            if half % 2 and not self.sizes:
                continue
            fits = [solver.solve(lam, l1_ratio, ROUGH) for solver in self.solvers]
            for size, refits in sized(self.solvers, lam, l1_ratio, self.sizes):
                yield size, self.held.losses(refits), size
            if half % 2:
                continue
            features = int(np.count_nonzero(np.logical_or.reduce([w != 0.0 for w, _ in fits])))
            losses = self.held.losses(fits)
            if self.relaxes and all(4 * np.count_nonzero(w) < self.solvers[0].X.n for w, _ in fits):
                refits = [solver.relaxed(SHARE_OF_RIDGE * lam) for solver in self.solvers]
                yield Candidate(l1_ratio, half // 2, True), self.held.losses(refits), features
            yield Candidate(l1_ratio, half // 2, False), losses, features
            mean = float(losses.mean())
            rises = rises + 1 if mean > _RISE * best else 0
            best = min(best, mean)
            if self.is_open and rises >= 2:
                self.depth = half // 2
                return
        self.fell_to_the_end = self.is_open and rises == 0
