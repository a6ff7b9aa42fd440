"""What the pilot rows decide: open constants of the loss, the penalty, the optimizer and the step rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..data.rows import squared_norms
from ..parts.compatibility import (
    conversion_reason,
    l2_reason,
    models_reason,
    penalty_reason,
    refuse,
    tied_models_reason,
)
from ..problem.pilot import gradient_at_zero, lam_max, largest_curvature, largest_slope, ridge_norm
from ..problem.state import Problem
from ..steps import Pilot, default_rule
from .grid import Grid, strength_of_lanes
from .pilot_rows import PilotRows

MANY_FEATURES = 100_000
"""Above this, work of O(d) per example is worth a warning."""

Warn = Callable[[str], None]


class Asked(NamedTuple):
    """The parts of a run as they were asked for."""

    problem: Problem
    optimizer: Any
    conversion: Any
    step: Any
    targets: Any
    lams: Any


class Resolved(NamedTuple):
    """The parts of a run with everything that the pilot rows decide."""

    problem: Problem
    optimizer: Any
    step: Any
    pilot: Pilot
    prepared: tuple[Any, Pilot]
    """The optimizer, not yet resolved, and the pilot that resolves it; more models are resolved from them."""


def resolve(asked: Asked, rows: PilotRows, warn: Warn) -> Resolved:
    """Return the resolved parts; raise a ValueError for parts that do not work together."""
    problem = asked.problem._replace(loss=asked.problem.loss.resolve(rows.targets, rows.weights))
    pilot = _measure(problem, rows, asked.optimizer.needs_curvature)
    problem = _with_penalty(problem, asked, rows, warn)
    refuse(penalty_reason(asked.optimizer, problem.penalty))
    refuse(l2_reason(asked.optimizer, problem.penalty))
    refuse(models_reason(asked.optimizer, problem.m))
    asked.optimizer.check(problem)
    prepared, own_pilot = asked.optimizer.prepared(problem, pilot, rows.matrix, rows.weights)
    step = _step(problem, prepared, own_pilot, asked.step)
    optimizer = _optimizer(problem, prepared, own_pilot, step, asked.conversion)
    _warn_of_sweeps(problem, optimizer, warn)
    return Resolved(problem, optimizer, step, pilot, (prepared, own_pilot))


def _measure(problem: Problem, rows: PilotRows, needs_curvature: bool) -> Pilot:
    """Return the scales of the rows and targets."""
    matrix, targets, weights = rows.matrix, rows.targets, rows.weights
    n = len(matrix)
    mean, std = problem.loss.moments(targets, weights)
    norms = squared_norms(matrix.indptr, matrix.data, np.arange(n)) + problem.intercept
    L_mean = float(problem.loss.smoothness * (weights.mean(1) * norms).mean()) if n else 1.0
    pilot = Pilot(n, L_mean if L_mean > 0.0 else 1.0, mean, std)
    if not needs_curvature:
        return pilot
    X = matrix.to_scipy()[:, np.unique(matrix.indices)]  # the same bits, whatever columns are still to come
    largest = problem.loss.smoothness * largest_curvature(X, weights.mean(1))
    return pilot._replace(lam_max=max(largest, pilot.L_mean / max(X.shape[1] + problem.intercept, 1)))


def _with_penalty(problem: Problem, asked: Asked, rows: PilotRows, warn: Warn) -> Problem:
    """Return the problem with the penalty's open strength and fields, and with the strength of each lane."""

    def every_model() -> tuple[np.ndarray, np.ndarray]:
        return asked.targets.all_models(rows.y, rows.given_weights)

    has_grid = isinstance(asked.lams, Grid)
    if problem.penalty.strength_is_open or has_grid:
        largest = _largest_strength(problem, rows, every_model(), warn)
        if problem.penalty.strength_is_open:
            problem = problem._replace(penalty=problem.penalty.at(largest))
        if has_grid:
            problem = problem._replace(lams=strength_of_lanes(asked.lams.at(largest), asked.targets))

    def norm() -> float:
        return ridge_norm(problem.loss, rows.matrix, *every_model(), problem.intercept)

    return problem._replace(penalty=problem.penalty.resolve(norm))


def _largest_strength(problem: Problem, rows: PilotRows, every: tuple[np.ndarray, np.ndarray], warn: Warn) -> float:
    """Return the smallest strength that selects nothing on the pilot rows, or a guess where they do not show it."""
    loss, penalty, matrix = problem.loss, problem.penalty, rows.matrix
    pen = penalty.pen
    if penalty.is_absolute:
        largest = lam_max(loss, matrix, *every, problem.intercept, pen)
    else:
        largest = penalty.dual_norm_at(gradient_at_zero(loss, matrix, *every, problem.intercept))
        if largest is None:
            raise ValueError(f"{penalty.record.__name__} has no dual_norm to choose a strength by: give numbers.")
    guess = largest_slope(loss, matrix, *every)
    if largest <= 1e-9 * guess and (pen is None or pen.any()):
        warn(
            f"alpha='auto' is a guess: the first {len(matrix)} rows have equal targets, are empty or have no related "
            "feature; shuffle them, or pass a number."
        )
        largest = guess
    return largest


def _step(problem: Problem, optimizer: Any, pilot: Pilot, step: Any) -> Any:
    """Return the resolved step rule: the user's, the optimizer's own or the default."""
    if not optimizer.uses_steps:
        return step
    step = optimizer.default_rule(problem) if step is None else step
    return (default_rule(problem) if step is None else step).resolve(problem, pilot)


def _optimizer(problem: Problem, optimizer: Any, pilot: Pilot, step: Any, conversion: Any) -> Any:
    """Return the resolved optimizer, in the form that the conversion needs."""
    optimizer = optimizer.resolve(problem, pilot, step)
    refuse(conversion_reason(optimizer, conversion))
    if conversion.chooses_single_iterate:
        optimizer = optimizer.tracking_form(problem)
        optimizer.check(problem)
    refuse(tied_models_reason(optimizer, problem.m))
    return optimizer


def _warn_of_sweeps(problem: Problem, optimizer: Any, warn: Warn) -> None:
    """Warn where examples cost work of O(d) and there are many features."""
    if problem.d <= MANY_FEATURES:
        return
    if optimizer.is_minibatch:
        warn(
            f"{type(problem.penalty).__name__} with {type(optimizer).__name__} visits all {problem.d} "
            f"features for every {optimizer.batch} examples: {problem.penalty.cost}."
        )
    elif optimizer.is_dense:
        warn(
            f"{type(optimizer).__name__} with these settings has no lazy form: every example costs "
            f"O({problem.d}) work; FOBOS does the same job in O(nonzeros)."
        )
