"""Checks of a run that comes from a file: its arrays are those that its problem and its optimizer would make."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..conversions.gradient_phase import FixedPoint
from ..conversions.reservoir import Reservoir
from ..data.rows import Matrix
from ..penalties import checked
from ..problem.bounds import Bounded
from ..problem.state import Block, Problem
from ..problem.targets import Targets
from ..util.attributes import attributes
from ..util.typed import check_like
from .iterates import Overwritten
from .part_checks import check_parts
from .pilot_rows import PilotRows
from .windows import Windows


def check_run(run: Any) -> None:
    """Raise a ValueError, or another built-in error, for a run whose arrays kernels would leave."""
    problem = run.problem
    _must(isinstance(problem, Problem) and isinstance(run.targets, Targets))
    check_parts(problem.loss, problem.penalty, run.optimizer, run.conversion, run.step)
    checked(problem.penalty, problem.d)
    run.optimizer.check(problem)
    _must(0 < problem.m == run.targets.m and 0 <= problem.d and type(run.d) is type(run.t) is type(run.seen) is int)
    _must(problem.lams is None or _is(problem.lams, (problem.m,)))
    for rows in run.collected:
        _check_rows(rows[0], rows[1:], run.d)
    if run.pilot is not None:
        pilot = run.pilot_rows
        _must(isinstance(pilot, PilotRows) and run.collected == [])
        _check_rows(pilot.matrix, pilot[1:], max(run.d, problem.d))
    if run.state is not None:
        run.optimizer.layout.check(problem, run.state)
        _check_block(run)
        _check_windows(run.windows, problem)
    if run.reservoir is not None:
        _must(isinstance(run.reservoir, Reservoir))
        run.reservoir.check_against(max(run.d, problem.d))


def _check_rows(matrix: Any, by_row: tuple[Any, ...], d: int) -> None:
    """Raise an error for rows with other columns, or without targets."""
    _must(isinstance(matrix, Matrix) and matrix.d <= d or not len(matrix))
    _must(all(isinstance(column, np.ndarray) and len(column) == len(matrix) for column in by_row))


def _check_block(run: Any) -> None:
    """Raise an error for a block that is not of the form of a new one, or that does not reach to the run's time."""
    block, (state, fresh) = run.block, run.optimizer.start(run.problem)
    _must(all(map(_is_like, run.state, state)) and all(map(_same_size, run.state, state)))
    _must(isinstance(block, Block) and type(block) is type(fresh))
    if block.memory is not None:
        fresh.fade(block.memory, run.optimizer.fading_columns)
    for name, value in attributes(fresh).items():
        if name != "memory":
            _must(_is_like(attributes(block)[name], value))
    if block.memory is not None:
        _must(block.pace.column == fresh.pace.column)
    _keeps(block.bounds(run.problem, run.state, run.t))
    _keeps(run.optimizer.layout.bounds(run.problem, run.state, block, run.t))
    if run.overwritten is not None:
        _must(isinstance(run.overwritten, Overwritten))
        before = run.iterate.before(run.overwritten)
        _keeps(run.optimizer.layout.bounds(run.problem, before.state, block, before.t))


def _keeps(bounds: Iterable[Bounded]) -> None:
    """Raise an error for numbers beyond their bounds."""
    for each in bounds:
        if not each.holds():
            raise ValueError(f"{each.what} in its training state cannot be right")


def _same_size(value: np.ndarray, fresh: np.ndarray) -> bool:
    return value.size == fresh.size


def _is_like(value: Any, fresh: Any) -> bool:
    """Return whether a value is of the type of another, and an array of the type and width of another."""
    if isinstance(fresh, np.ndarray):
        return _is(value, (None, *fresh.shape[1:]), fresh.dtype)
    if isinstance(fresh, tuple):
        return type(value) is type(fresh) and len(value) == len(fresh) and all(map(_is_like, value, fresh))
    return fresh is None or type(value) is type(fresh)


def _check_windows(windows: Any, problem: Problem) -> None:
    """Raise an error for means and gradients of other features or models."""
    _must(isinstance(windows, Windows))
    check_like(windows, Windows())
    phase, ended, width = windows.phase_under_way, windows.last_phase, problem.width
    if phase is not None:
        _must(isinstance(phase, FixedPoint) and phase.m == problem.m and type(phase.n) is int)
        _must(all(_is(side, (problem.d, width)) for side in (phase.w, phase.G, phase.H)))
        _must(_is(phase.b, (width,)) and _is(phase.bias, (2, width)))
    if ended is not None:
        sides = [side for side in (ended.w, ended.g, ended.H) if side is not None]
        _must(all(_is(side, (None, problem.m)) and len(side) <= problem.d for side in sides))
    is_dense = windows.dense is not None
    if is_dense:
        w, b = windows.dense
        _must(_is(w, (problem.d, problem.m)) and _is(b, (problem.m,)))
    if windows.previous is not None:
        cells, bias, _ = windows.previous
        shape, kind = ((None, problem.m), np.float64) if is_dense else ((None, None, width), problem.kind)
        _must(_is(cells, shape, kind) and len(cells) <= problem.d and bias.ndim == len(shape) - 1)


def _is(array: Any, shape: tuple[int | None, ...], kind: Any = np.float64) -> bool:
    if not isinstance(array, np.ndarray) or array.dtype != kind or array.ndim != len(shape):
        return False
    return all(want is None or want == have for want, have in zip(shape, array.shape, strict=True))


def _must(holds: Any) -> None:
    if not holds:
        raise ValueError("the parts of its training state do not fit together")
