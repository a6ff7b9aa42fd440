"""Checks of a run that comes from a file: its arrays are those that its problem and its optimizer would make."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..conversions.gradient_phase import FixedPoint
from ..conversions.reservoir import Reservoir
from ..data.rows import Matrix
from ..parts.part import must_be
from ..problem.state import Block, Problem
from ..problem.targets import Targets
from ..util.attributes import attributes
from .pilot_rows import PilotRows
from .windows import Windows


def check_run(run: Any) -> None:
    """Raise a ValueError, or another built-in error, for a run whose arrays kernels would leave."""
    problem = run.problem
    _must(isinstance(problem, Problem) and isinstance(run.targets, Targets))
    for part, kind in ((problem.loss, "loss"), (problem.penalty, "penalty"), (run.optimizer, "optimizer")):
        must_be(part, kind)
    must_be(run.conversion, "conversion")
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
        if name not in ("memory", "pace"):
            _must(_is_like(attributes(block)[name], value))
    _must(0 <= block.start <= run.t)
    _must(0 <= block.gridded < len(block.table) and (block.grid >= 0.0).all() and np.isfinite(block.table).all())
    _must((block.grid[1:] <= block.gridded).all() and np.isfinite(block.grid[0]))
    shared = run.optimizer.layout.cells_of(run.problem, run.state)[0]
    _must((shared >= 0.0).all())  # sums of squares, and times of the last touch
    latest = run.optimizer.layout.latest(block, run.t)
    _must((shared <= latest).all())


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
    phase, ended, width = windows.phase_under_way, windows.last_phase, problem.width
    if phase is not None:
        _must(isinstance(phase, FixedPoint) and phase.m == problem.m and type(phase.n) is int)
        _must(all(_is(side, (problem.d, width)) for side in (phase.w, phase.G, phase.H)))
        _must(_is(phase.b, (width,)) and _is(phase.bias, (2, width)))
    if ended is not None:
        sides = [side for side in (ended.w, ended.g, ended.H) if side is not None]
        _must(all(_is(side, (None, problem.m)) and len(side) <= problem.d for side in sides))
    if windows.previous is not None:
        cells, bias, _ = windows.previous
        _must(_is(cells, (None, None, width), problem.kind) and len(cells) <= problem.d and bias.ndim == 2)


def _is(array: Any, shape: tuple[int | None, ...], kind: Any = np.float64) -> bool:
    if not isinstance(array, np.ndarray) or array.dtype != kind or array.ndim != len(shape):
        return False
    return all(want is None or want == have for want, have in zip(shape, array.shape, strict=True))


def _must(holds: Any) -> None:
    if not holds:
        raise ValueError("the parts of its training state do not fit together")
