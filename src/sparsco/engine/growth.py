"""Growth of a run: features and classes that come while a stream is learned, and features that leave.

What is new has the state of something that was there from the start and has not been seen yet.  So has a feature that
comes back after it has left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.rows import Matrix
from ..parts.compatibility import models_reason, refuse
from ..penalties import is_of_fixed_width
from ..problem.state import Problem, compacted, padded, widened

if TYPE_CHECKING:
    from .run import Run

_MANY = 1 << 20
"""Room grows twofold up to so many features, then by them and an eighth: where there are millions memory counts."""


def add_features(run: Run, d: int) -> None:
    """Let a run have d features; make room for as many more, so that a stream that grows is copied rarely."""
    if d <= run.d:
        return
    if is_of_fixed_width(run.problem.penalty):
        raise ValueError(
            f"the penalty is made for {run.d} features, and there are more: give rows with a fixed number "
            "of columns, such as converted ones."
        )
    run.d = d
    if run.units is not None:
        run.units.grow(d)
    room = run.problem.d
    if d <= room:
        return
    if run.initial is not None:
        run.initial = padded(run.initial[0], d), run.initial[1]
    if run.pilot is None or run.state is None:
        run.problem = run.problem._replace(d=d)
        return
    room = max(d, room + min(room, _MANY + room // 8))
    run.state = run.optimizer.layout.grow(run.problem, run.state, room)
    run.windows.grow(room)
    run.problem = run.problem._replace(d=room)


def keep_features(run: Run, kept: np.ndarray) -> None:
    """Let the other features leave a run; those that stay, by ascending slots, get the slots 0, 1, ..."""
    run.begin()  # a run of a long stream, whose rows are long, may still collect some
    used, run.d = run.d, len(kept)
    first = run.pilot_rows.matrix
    run.pilot_rows = run.pilot_rows._replace(matrix=first.narrowed(kept[kept < first.d]))
    if run.state is not None:
        run.optimizer.layout.keep(run.problem, run.state, kept, used)
    run.windows.keep(kept)
    if run.units is not None:
        run.units.keep(kept)
    if run.reservoir is not None:
        run.reservoir.keep(kept, used)
    if run.snapshots:
        run.snapshots = [(n, compacted(w, kept), b) for n, w, b in run.snapshots]
    run.overwritten = None


def rewrite_rows(run: Run, rewritten: Callable[[Matrix], Matrix]) -> None:
    """Replace the rows that a run keeps: those that are collected, or the pilot and the samples.

    ``rewritten`` gets rows as they came, and so returns them.  New features have the units of the first rows.
    """
    if run.pilot is None:
        run.collected = [(rewritten(matrix), *rest) for matrix, *rest in run.collected]
        return
    if run.polished_rows is not None:  # as they came
        run.polished_rows.rewrite(rewritten)

    def learned(matrix: Matrix, weights: np.ndarray | None = None) -> Matrix:
        if run.units is None:
            return rewritten(matrix)
        data = matrix.data * run.units.at(matrix.indices)
        given = rewritten(Matrix(matrix.indptr, matrix.indices, data, matrix.d))
        run.units.grow(given.d)
        if weights is not None:
            run.units.meet(given, weights)
        return run.units.divided(given, np.arange(len(given)))

    first = run.pilot_rows
    run.pilot_rows = first._replace(matrix=learned(first.matrix, first.given_weights))
    if run.reservoir is not None:
        run.reservoir.rewrite(learned)


def add_models(run: Run, targets: Any) -> None:
    """Let a run learn more models, whose targets these are; the new ones have learned nothing."""
    if run.lams is not None:
        raise ValueError("a path of several strengths cannot take new classes: name all of them at its beginning.")
    refuse(models_reason(run.optimizer, targets.m))
    wide = run.problem._replace(m=targets.m)
    if run.pilot is not None:
        _widen(run, wide)
    run.targets, run.problem = targets, wide


def _widen(run: Run, wide: Problem) -> None:
    """Give all that is kept by model room for the models of ``wide``; the new ones' part is what a run begins with."""
    old, (optimizer, pilot), m = run.problem, run.prepared, wide.m
    mean, std = widened(pilot.target_mean, m), widened(pilot.target_std, m)  # its constants may be by model
    optimizer = optimizer.resolve(wide, pilot._replace(target_mean=mean, target_std=std), run.step)
    run.state = optimizer.layout.relaid(old, run.state, wide, optimizer.start(wide)[0])
    run.optimizer = optimizer
    run.windows.widen(old, wide)
    if run.reservoir is not None and not run.keeps_given_targets:
        run.reservoir.widen(m)
    if run.snapshots:
        run.snapshots = [(n, widened(w, m), widened(b, m)) for n, w, b in run.snapshots]
    run.pilot_rows = run.pilot_rows.widen(m)
    run.overwritten = None
