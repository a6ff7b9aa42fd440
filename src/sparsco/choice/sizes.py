"""Models of given sizes: few features of a solution, learned again.

The model of size k has the k features of largest |weight| times unit in the first solution along the strengths that
has so many, learned again with an L2 term.  The solutions are those of pure L1 for sizes up to a tenth of the rows.
For larger sizes they are those of an elastic net, which ranks correlated features better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..solver.elastic_net import ElasticNetSolver

SIZES = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50, 70, 100, 150, 200, 300, 400, 500, 700, 1000)
ROWS_PER_FEATURE = 10
LEAST_RIDGE, MOST_RIDGE, RIDGE_PER_FEATURE = 0.1, 1.0, 20.0
"""The L2 term of a refit, as a share of the strength that selected the features: it grows with features over rows."""


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
