"""Candidates: strengths, mixtures and refits, each judged on rows that it has not learned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..data.randomness import Purpose, bits
from ..solver.columns import add_columns
from ..solver.elastic_net import ROUGH, ElasticNetSolver, solver_of
from .problem import Task

STEP = 10.0**0.5
"""The ratio of neighbouring strengths."""
DEEPEST = 1e-6
"""The smallest strength, as a share of the smallest that selects nothing."""
LEARNED_NONZEROS, LEARNED_ROWS, ROWS_PER_CLASS, MOST_NONZEROS = 300_000, 2000, 250, 4_000_000
"""The size of the sample that candidates learn."""
JUDGED, MOST_JUDGED, FOLDS = 1000, 4000, 5
SMALL, REPEATS = 200, 4
"""Below so many rows, folds are dealt so many times."""
_RISE = 1.001
_SHARE_OF_RIDGE = 1e-4
"""The L2 term of a refit, as a share of the strength that selected the features."""


class Candidate(NamedTuple):
    """A strength, given by its depth on the grid, a mixture, and whether the selected features are learned again."""

    l1_ratio: float
    depth: int
    relaxed: bool


EMPTY = Candidate(1.0, 0, False)
"""The model without features."""


class Split(NamedTuple):
    """Rows to learn and rows to judge by."""

    learned: np.ndarray
    judged: np.ndarray


class Judged(NamedTuple):
    """The losses of candidates on held-out rows (candidates, rows), the features that they use, and the grid."""

    candidates: list[Candidate]
    losses: np.ndarray
    sizes: np.ndarray
    lam_max: float
    """The smallest strength of pure L1 that selects nothing."""
    learned_rows: int
    """The number of rows that a candidate has learned."""
    at_edge: bool
    """Whether the loss still fell at the smallest strength."""

    def strength(self, candidate: Candidate) -> float:
        """Return lam of a candidate."""
        return self.lam_max / candidate.l1_ratio * STEP**-candidate.depth


def splits_of(task: Task, seed: int) -> list[Split]:
    """Return the splits by which candidates are judged.

    Where there are rows enough, one sample is learned and other rows are judged.  Otherwise the rows are dealt into
    five folds, of which as many are judged as have a thousand rows; few rows are dealt several times.
    """
    n, nonzeros = task.n, task.row_nonzeros
    per_class = ROWS_PER_CLASS * (task.m + 1) if task.m > 1 else 0
    rows = max(LEARNED_NONZEROS / nonzeros, min(max(LEARNED_ROWS, per_class), MOST_NONZEROS / nonzeros), 100.0)
    order = np.argsort(bits(seed, Purpose.FOLD, task.numbers))
    if n - int(rows) >= JUDGED:
        learned = int(rows)
        return [Split(np.sort(order[:learned]), np.sort(order[learned : learned + MOST_JUDGED]))]
    splits = []
    for repeat in range(REPEATS if n < SMALL else 1):
        if repeat:
            order = np.argsort(bits(seed + repeat, Purpose.FOLD, task.numbers))
        fold = np.empty(n, np.int64)
        fold[order] = np.arange(n) % FOLDS
        used = int(np.clip(np.ceil(JUDGED * FOLDS / n), 1, FOLDS))
        splits += [Split(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(used)]
    return splits


def judge(task: Task, seed: int, l1_ratios: tuple[float, ...], relaxes: bool = True) -> Judged:
    """Return the losses of all candidates; the first split fixes how far down the strengths go."""
    models = _judged_models(task, seed)
    depths: dict[float, int] = {}
    found: dict[Candidate, list[tuple[np.ndarray, int]]] = {}
    lam_max, at_edge, splits = 0.0, False, splits_of(task, seed)
    for number, split in enumerate(splits):
        X, columns = task.by_column(split.learned)
        solvers = [solver_of(X, task.examples(split.learned, q), task.units[columns], task.intercept) for q in models]
        if number == 0:
            lam_max = max(solver.strength_of_nothing() for solver in solvers) or 1.0
        held = _Held(task, split.judged, columns, models)
        found.setdefault(EMPTY, []).append((held.losses([(s.w, s.b) for s in solvers]), 0))
        for l1_ratio in l1_ratios:
            path = _path(solvers, held, lam_max, l1_ratio, relaxes, depths.get(l1_ratio))
            best = []
            for candidate, losses, size in path:
                found.setdefault(candidate, []).append((losses, size))
                best.append(losses.mean())
            if number == 0:
                depths[l1_ratio] = candidate.depth
                at_edge |= candidate.depth == _deepest() and best[-1] == min(best)
            for solver in solvers:
                solver.restart()
    complete = {
        key: each for key, each in found.items() if len(each) == len(splits) and all(np.isfinite(x).all() for x, _ in each)
    }
    return Judged(
        list(complete),
        np.array([np.concatenate([losses for losses, _ in each]) for each in complete.values()]),
        np.array([np.mean([size for _, size in each]) for each in complete.values()]),
        lam_max,
        len(splits[0].learned),
        at_edge,
    )


def _deepest() -> int:
    return int(round(-np.log(DEEPEST) / np.log(STEP)))


def _judged_models(task: Task, seed: int) -> np.ndarray:
    """Return the models that candidates are judged by: some of many."""
    some = max(3, -(-task.m // 4))
    return np.sort(np.argsort(bits(seed, Purpose.PATH, np.arange(task.m)))[:some])


class _Held:
    """Held-out rows, restricted to the columns that were learned."""

    def __init__(self, task: Task, rows: np.ndarray, columns: np.ndarray, models: np.ndarray) -> None:
        self.task, self.rows, self.models = task, rows, models
        self.X, self.columns = task.by_column(rows)
        place = np.full(task.d, -1, np.int64)
        place[columns] = np.arange(len(columns))
        self.place = place[self.columns]

    def losses(self, fits: list[tuple[np.ndarray, float]]) -> np.ndarray:
        """Return the loss of each row, summed over the models."""
        total = np.zeros(len(self.rows))
        for q, (w, b) in zip(self.models, fits, strict=True):
            p = np.full(len(self.rows), b)
            own = np.where(self.place >= 0, w[self.place], 0.0) if len(w) else np.zeros(len(self.place))
            add_columns(self.X.first, self.X.rows, self.X.x, own, p)
            total += self.task.losses(self.rows, q, p)
        return total


def _path(
    solvers: list[ElasticNetSolver], held: _Held, lam_max: float, l1_ratio: float, relaxes: bool, depth: int | None
) -> Iterator[tuple[Candidate, np.ndarray, int]]:
    """Yield the candidates of a mixture with their losses and sizes, until the loss has risen twice."""
    best, rises = np.inf, 0
    for step in range(1, (depth or _deepest()) + 1):
        lam = lam_max / l1_ratio * STEP**-step
        fits = [solver.solve(lam, l1_ratio, ROUGH) for solver in solvers]
        size = int(np.count_nonzero(np.logical_or.reduce([w != 0.0 for w, _ in fits])))
        losses = held.losses(fits)
        yield Candidate(l1_ratio, step, False), losses, size
        if relaxes and l1_ratio == 1.0 and all(4 * np.count_nonzero(w) < s.X.n for s, (w, _) in zip(solvers, fits)):
            refits = [solver.relaxed(_SHARE_OF_RIDGE * lam) for solver in solvers]
            yield Candidate(l1_ratio, step, True), held.losses(refits), size
        mean = float(losses.mean())
        rises = rises + 1 if mean > _RISE * best else 0
        best = min(best, mean)
        if depth is None and rises >= 2:
            break
