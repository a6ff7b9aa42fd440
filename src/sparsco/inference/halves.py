"""Two halves of a sample: features are selected on one, and their intervals come from the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..choice.fitting import Strength, fit
from ..choice.problem import task_of
from ..conversions.choose import Choose
from ..conversions.path_stability import PathStability
from ..data.randomness import Purpose, uniform
from ..engine.run import Run
from ..penalties import ElasticNet, WeightedElasticNet


def is_first_half(seed: int, numbers: np.ndarray) -> np.ndarray:
    """Return which rows of a sample belong to its first half, by their numbers in the stream."""
    return uniform(seed, Purpose.SPLIT, numbers) < 0.5


def selected_on_first_half(runs: list[Run]) -> np.ndarray:
    """Return which features (d, models) the method of the runs selects on the first half of their samples.

    An automatic choice and a selection with a promise are made again on that half.  With a given strength its elastic
    net is solved there.
    """
    first = runs[0]
    if isinstance(first.conversion, PathStability):
        return _promised(first.conversion, runs)
    if isinstance(first.conversion, Choose):
        return np.concatenate([answer.w != 0.0 for answer in _chosen(first.conversion, runs)], axis=1)
    penalty = first.problem.penalty
    if first.rounding is not None or not isinstance(penalty, ElasticNet | WeightedElasticNet):
        name = type(penalty if first.rounding is None else first.rounding).__name__
        raise ValueError(f"split=True selects again on one half by an elastic net, and this model has {name}.")
    return np.concatenate([_solved(run) for run in runs], axis=1)


def _half(run: Run) -> Any:
    rows = run.sample().R
    return rows.among(np.flatnonzero(is_first_half(run.seed, rows.numbers)))


def _chosen(conversion: Choose, runs: list[Run]) -> list[Any]:
    """Return the answers of an automatic choice on one half, without its warnings."""
    sampled = conversion.sampled(runs, _half(runs[0]))
    outcome = conversion.solved(sampled.task, conversion.judged(sampled.task, runs[0].seed), runs[0].seed)
    return sampled.answers(runs, outcome._replace(warnings=[]))


def _promised(conversion: PathStability, runs: list[Run]) -> np.ndarray:
    """Return which features (d, models) a selection with a promise has on one half; all models have the same."""
    first = runs[0]
    found = conversion.selection(conversion.sampled(runs, _half(first)), first.seed)
    is_selected = np.zeros((first.d, sum(run.problem.m for run in runs)), bool)
    is_selected[found.features] = True
    return is_selected


def _solved(run: Run) -> np.ndarray:
    """Return which features (d, models) an elastic net of the run's strength selects on one half."""
    rows, lam, rho = _half(run), float(run.problem.penalty.lam), float(run.problem.penalty.rho)
    task, columns = task_of(rows, rows.targets, rows.weights, run.problem._replace(d=run.d), standardize=False)
    found = fit(task, Strength(lam + rho, lam / (lam + rho) if lam + rho else 1.0, False))
    is_selected = np.zeros((run.d, run.problem.m), bool)
    is_selected[columns[found.columns]] = found.w != 0.0
    return is_selected
