"""Paths of L1 solutions on halves of the rows, and how many of them select each feature.

A row belongs to the first or to the second half of a pair by a fair coin, a function of the seed, the pair and the
number of the row.  All halves share the strengths.  The first pairs are solved twice: first they go down until the
integral of the bound ends, which fixes the strengths.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..choice.problem import Task
from ..data.randomness import Purpose, bits
from ..solver.columns import by_column
from ..solver.elastic_net import ROUGH
from ..util.progress import step
from ..util.threads import Pool
from .half_solver import Design, HalfSolver, differentiate, solve, strength_of_nothing
from .scores import LIMITS, StabilityPaths, Target, measure_of

FIRST_PAIRS = 2
"""The pairs that fix the strengths."""
RATIO = 1.25
"""The ratio of neighbouring strengths while they are fixed."""
MOST_STEPS = 60
"""The largest number of these strengths: down to a millionth of the first."""
LANES = 20
"""The number of models that are solved at once, at least two halves of all models."""
_COINS = 64
"""The number of coins in one random draw."""


def first_halves(seed: int, numbers: np.ndarray, pairs: range) -> np.ndarray:
    """Return whether each row is in the first half of each pair, (rows, pairs)."""
    found = np.empty((len(numbers), len(pairs)), bool)
    for k, pair in enumerate(pairs):
        block, coin = divmod(pair, _COINS)
        draws = bits(seed, Purpose.HALF, np.asarray(numbers, np.int64) + (block << 48))
        found[:, k] = (draws >> np.uint64(coin)) & np.uint64(1) == 1
    return found


class Halves(NamedTuple):
    """The rows and the columns that are judged, and the number of pairs."""

    task: Task
    design: Design
    seed: int
    pairs: int
    delta: float
    """The exponent of the measure on the strengths."""
    target: Target
    """The promise, which decides where the strengths end."""

    @classmethod
    def of(cls, task: Task, seed: int, pairs: int, delta: float, target: Target) -> Halves:
        """Return the halves of a task whose columns are all judged."""
        X = by_column(task.indptr, task.indices, task.data, np.arange(task.n), task.d)
        return cls(task, Design(X, task.units), seed, pairs, delta, target)

    def solvers(self, pairs: range) -> list[list[HalfSolver]]:
        """Return the solvers of all models, for each half of some pairs, at the models without features."""
        found, task = list[list[HalfSolver]](), self.task
        for is_first in first_halves(self.seed, task.numbers, pairs).T:
            for rows in (np.flatnonzero(is_first), np.flatnonzero(~is_first)):
                every = (task.examples(rows, model) for model in range(task.m))
                found.append([HalfSolver(self.design, rows, examples, task.intercept) for examples in every])
        differentiate(self.design, [each for half in found for each in half])
        return found


def stability_paths(halves: Halves, count: int, pool: Pool) -> StabilityPaths:
    """Return how many halves select each column at each of so many strengths."""
    d, size = halves.task.d, max(1, LANES // (2 * halves.task.m))
    way = way_down(halves)
    strengths, held = way.strengths(count), pool.hold(halves)
    items = [(first, min(first + size, halves.pairs), strengths) for first in range(0, halves.pairs, size)]
    selected = np.concatenate(pool.map("sparsco-halves", _selected_by, items, held))
    keys, counts = np.unique(selected, return_counts=True)
    parts = counts.astype(np.int32), np.divmod(keys, d)
    sizes = np.bincount(selected // d, minlength=len(strengths)) / (2.0 * halves.pairs)
    every = sp.csr_array(parts, shape=(len(strengths), d))
    paths = StabilityPaths(strengths, every, sizes, halves.pairs, d, halves.delta, way.limit)
    return paths.serving(halves.target)


class Way(NamedTuple):
    """The way of the first pairs from the strength that selects nothing to the end of the integral."""

    top: float
    end: float
    limit: float
    """The largest limit of the integral."""
    solvers: list[HalfSolver]
    """The solvers of all models on the halves of these pairs, at the last strength."""

    def strengths(self, count: int, deeper: float = 1.0) -> np.ndarray:
        """Return so many strengths, down to a share 1 / deeper of the last one."""
        return np.geomspace(self.top, self.end / deeper, count) if self.end < self.top else np.array([self.top])


def way_down(halves: Halves) -> Way:
    """Return the way of the first pairs down the strengths.

    Where the integral exceeds its least limit, the columns that all of these halves select decide how far it may go.
    """
    solvers = halves.solvers(range(min(FIRST_PAIRS, halves.pairs)))
    every = [each for half in solvers for each in half]
    top, limit = strength_of_nothing(every), LIMITS[0]
    if top == 0.0:
        return Way(1.0, 1.0, limit, every)
    going, sizes, in_all = [top], list[float](), 0
    while True:
        step(f"choosing the strengths of the halves: {len(going)} of at most {MOST_STEPS}")
        solve(halves.design, every, going[-1], ROUGH)
        found = [_union(half) for half in solvers]
        sizes.append(float(np.mean([len(each) for each in found])))
        given = np.array(going), np.array(sizes), halves.task.d, halves.pairs, halves.delta
        if len(measure_of(*given, limit)) < len(going):
            limit = max(halves.target.limit(in_all), limit)
        if len(measure_of(*given, limit)) < len(going) or len(going) == MOST_STEPS:
            return Way(top, going[-1], limit, every)
        in_all = int((np.bincount(np.concatenate(found), minlength=1) == len(found)).sum())
        going.append(going[-1] / RATIO)


def nearest_columns(way: Way, halves: Halves, room: int) -> np.ndarray:
    """Return the columns to follow: all, or as many as there is room for.

    Those come first that are nearest to being selected by the first pairs at their last strength.
    """
    if halves.task.d <= room:
        return np.arange(halves.task.d)
    nearness = np.mean([np.abs(each.slopes) for each in way.solvers], axis=0) / halves.task.units
    return np.sort(np.argsort(-nearness, kind="stable")[:room])


def _union(half: list[HalfSolver]) -> np.ndarray:
    """Return the columns that one of the models selects."""
    return half[0].selected if len(half) == 1 else np.unique(np.concatenate([each.selected for each in half]))


def _selected_by(first: int, stop: int, strengths: np.ndarray, halves: Halves) -> np.ndarray:
    """Return the selections of the halves of some pairs, each as number of the strength times columns plus column."""
    solvers, found = halves.solvers(range(first, stop)), list[np.ndarray]()
    every = [each for half in solvers for each in half]
    for k, lam in enumerate(strengths.tolist()):
        step(f"solving paths on halves: pair {first + 1} of {halves.pairs}, strength {k + 1} of {len(strengths)}")
        solve(halves.design, every, lam, ROUGH)
        found += [k * halves.task.d + _union(half) for half in solvers]
    return np.concatenate(found)
