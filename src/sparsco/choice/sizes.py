"""Models of given sizes: few features of a path of pure L1, learned again.

Going down along the strengths, the first solution with at least k features gives the model of size k: its k features of
largest |weight| times unit, learned again with an L2 term.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..solver.elastic_net import ROUGH, ElasticNetSolver

SIZES = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50, 70, 100, 150, 200, 300, 400, 500, 700, 1000, 1500, 2000, 3000)
STEP = 10.0**0.2
"""The ratio of neighbouring strengths."""
RIDGES = (1e-3, 1e-1)
"""The L2 terms of a refit, as shares of the strength that selected the features."""
_DEEPEST = 1e-4


class Sized(NamedTuple):
    """A model with ``size`` features: its L2 term, and weights and intercept of each model."""

    size: int
    ridge: float
    fits: list[tuple[np.ndarray, float]]


def sized(solvers: list[ElasticNetSolver], lam_max: float, most: int, ridges: tuple[float, ...]) -> Iterator[Sized]:
    """Yield models of growing size, up to ``most`` features; the solvers start at the models without features."""
    wanted = [size for size in SIZES if size <= most]
    lam = lam_max
    while wanted and lam > _DEEPEST * lam_max:
        lam /= STEP
        scores = np.max([np.abs(solver.solve(lam, 1.0, ROUGH)[0]) * solver.units for solver in solvers], axis=0)
        used = np.flatnonzero(scores)
        ranked = used[np.argsort(-scores[used], kind="stable")]
        while wanted and wanted[0] <= len(ranked):
            size = wanted.pop(0)
            kept = np.sort(ranked[:size])
            for ridge in ridges:
                yield Sized(size, ridge, [solver.refit(kept, ridge * lam) for solver in solvers])
