"""The search over strengths and mixtures: a grid that goes on until the loss on held-out rows turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..engine.grid import Grid
from .lane_folds import Found
from .solved_folds import Model, SolvedFolds, Strengths

LEAST = 1e-6
"""The smallest strength of an automatic grid, as a share of the largest."""
_MORE = 4
"""The number of strengths by which a grid is extended at a time."""
_RISE = 1.001


class _Searched(NamedTuple):
    """The models of all rows and of the folds along the strengths of a mixture; figures are (folds, 4, strengths)."""

    l1_ratio: float | None
    strengths: Strengths
    models: list[list[Model]]
    figures: np.ndarray

    def least(self, most: int | None) -> float:
        """Return the least mean loss, among models of at most so many features."""
        losses = mean_losses(self.figures)
        if most is not None:
            sizes = np.mean([[len(np.unique(m.coef.indices)) for m in each] for each in self.models[1:]], axis=0)
            losses = np.where(sizes <= most, losses, np.inf)
        return float(losses.min())


def mean_losses(figures: np.ndarray) -> np.ndarray:
    """Return the mean loss over the folds that were judged, by strength; infinity where it is not a number."""
    losses = figures[:, 0]
    losses = losses[~np.isnan(losses).all(1)]
    mean = losses.mean(0) if len(losses) else np.full(figures.shape[2], np.inf)
    return np.where(np.isfinite(mean), mean, np.inf)


def search(
    folds: SolvedFolds, given: np.ndarray | Grid, mixtures: Sequence[float] | None, rho: float, rule: Any
) -> Found:
    """Return the models of the mixture with the least loss.

    ``given`` are strengths, or a grid.  Without mixtures they are L1 weights, and all share the L2 weight ``rho``.
    """
    ratios: list[float | None] = [None] if mixtures is None else [*mixtures]
    if isinstance(given, Grid):
        lams = given.at(folds.largest())
        every = [_searched(folds, lams / (ratio or 1.0), given, ratio, rho) for ratio in ratios]
    else:
        every = [_searched(folds, given, None, ratio, rho) for ratio in ratios]
    most = None if isinstance(rule, str) else int(rule)
    best = every[int(np.argmin([each.least(most) for each in every]))]
    return folds.found(best.strengths, best.models, best.figures, best.l1_ratio)


def _searched(folds: SolvedFolds, alphas: np.ndarray, grid: Grid | None, ratio: float | None, rho: float) -> _Searched:
    """Return the models of a mixture along the strengths, which go on to smaller ones if the loss falls to the end."""
    strengths = _strengths(alphas, ratio, rho)
    models, figures = folds.judged(strengths, [None] * (folds.n_folds + 1))
    while grid is not None and grid.m > 1 and not _has_turned(mean_losses(figures), grid.m):
        step = grid.ratio ** (1.0 / (grid.m - 1))
        least = LEAST * alphas[0] * (1.0 - 1e-9)
        more = alphas[-1] * step ** np.arange(1, _MORE + 1)
        more = more[more >= least]
        if not more.size:
            break
        found, own = folds.judged(_strengths(more, ratio, rho), [each[-1] for each in models])
        alphas, figures = np.append(alphas, more), np.concatenate([figures, own], axis=2)
        models = [before + after for before, after in zip(models, found, strict=True)]
    return _Searched(ratio, _strengths(alphas, ratio, rho), models, figures)


def _strengths(alphas: np.ndarray, ratio: float | None, rho: float) -> Strengths:
    if ratio is None:
        return Strengths(alphas, np.full(len(alphas), rho))
    return Strengths(alphas * ratio, alphas * (1.0 - ratio))


def _has_turned(losses: np.ndarray, m: int) -> bool:
    """Return whether the least loss is followed by two larger ones, or by one that is larger by a thousandth.

    On the first ``m`` strengths it is enough that the least loss is not the last.
    """
    best, last = int(losses.argmin()), len(losses) - 1
    if last < m:
        return best < last
    return last - best >= 2 or bool(losses[last] > _RISE * losses[best])
