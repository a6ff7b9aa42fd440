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
from ..solver.elastic_net import ROUGH, ElasticNetSolver
from ..util.progress import step
from ..util.threads import Pool
from .scores import StabilityPaths, measure_of

FIRST_PAIRS = 2
"""The pairs that fix the strengths."""
RATIO = 1.25
"""The ratio of neighbouring strengths while they are fixed."""
MOST_STEPS = 60
"""The largest number of these strengths: down to a millionth of the first."""
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
    seed: int
    pairs: int
    delta: float

    def rows(self, pair: int) -> list[np.ndarray]:
        """Return the rows of both halves of a pair."""
        is_first = first_halves(self.seed, self.task.numbers, range(pair, pair + 1))[:, 0]
        return [np.flatnonzero(is_first), np.flatnonzero(~is_first)]

    def solvers(self, rows: np.ndarray) -> tuple[list[ElasticNetSolver], np.ndarray]:
        """Return a solver for each model on some rows, and the columns that occur in them."""
        X, columns = self.task.by_column(rows)
        units, every = self.task.units[columns], range(self.task.m)
        return [ElasticNetSolver(X, self.task.examples(rows, q), units, self.task.intercept) for q in every], columns


def stability_paths(halves: Halves, count: int, pool: Pool) -> StabilityPaths:
    """Return how many halves select each column at each of so many strengths."""
    d = halves.task.d
    strengths = strengths_of(halves, count)
    held = pool.hold(halves)
    found = pool.map("sparsco-halves", _selected_by, [(pair, strengths) for pair in range(halves.pairs)], held)
    selected = np.concatenate(found) if found else np.zeros(0, np.int64)
    keys, counts = np.unique(selected, return_counts=True)
    k, columns = np.divmod(keys, d)
    shape = len(strengths), d
    parts = counts.astype(np.int32), (k, columns)
    sizes = np.bincount(selected // d, minlength=len(strengths)) / (2.0 * halves.pairs)
    paths = StabilityPaths(strengths, sp.csr_array(parts, shape=shape), sizes, halves.pairs, d, halves.delta)
    return paths.with_ladder()


def strengths_of(halves: Halves, count: int) -> np.ndarray:
    """Return the strengths: from the largest at which the first pairs select a feature to the end of the integral."""
    solvers, top = list[list[ElasticNetSolver]](), 0.0
    for pair in range(min(FIRST_PAIRS, halves.pairs)):
        for rows in halves.rows(pair):
            own, _ = halves.solvers(rows)
            solvers.append(own)
            top = max([top, *(solver.strength_of_nothing() for solver in own)])
    if top == 0.0:
        return np.ones(1)
    going, sizes = [top], list[float]()
    while True:
        step(f"choosing the strengths of the halves: {len(going)} of at most {MOST_STEPS}")
        sizes.append(float(np.mean([_union(own, going[-1]).sum() for own in solvers])))
        mu = measure_of(np.array(going), np.array(sizes), halves.task.d, halves.pairs, halves.delta)
        if len(mu) < len(going) or len(going) == MOST_STEPS:
            break
        going.append(going[-1] / RATIO)
    return np.geomspace(top, going[-1], count) if len(going) > 1 else np.array(going)


def _union(solvers: list[ElasticNetSolver], lam: float) -> np.ndarray:
    """Return which columns one of the models selects at a strength."""
    return np.logical_or.reduce([solver.solve(lam, 1.0, ROUGH)[0] != 0.0 for solver in solvers])


def _selected_by(pair: int, strengths: np.ndarray, halves: Halves) -> np.ndarray:
    """Return the selections of both halves of a pair, each as number of the strength times columns plus column."""
    step(f"solving the paths of the halves: pair {pair + 1} of {halves.pairs}")
    found, d = [], halves.task.d
    for rows in halves.rows(pair):
        solvers, columns = halves.solvers(rows)
        found += [k * d + columns[_union(solvers, lam)] for k, lam in enumerate(strengths.tolist())]
    return np.concatenate(found)
