"""Phase two for all runs of a model."""

from __future__ import annotations

from ..conversions.averaging import Answer
from .long_halves import LongHalves
from .long_stream import LongStream, can_outgrow
from .run import Run


def finish_runs(runs: list[Run]) -> list[Answer]:
    """Return the converted models of all runs of a model, which have begun: phase two."""
    conversion = runs[0].conversion
    if not conversion.joins_runs:
        return [run.finish() for run in runs]
    return [run.checked(answer) for run, answer in zip(runs, conversion.finish_runs(runs), strict=True)]


def is_bounded(run: Run) -> bool:
    """Return whether rows beyond the sample of this run are learned in another way than the first ones."""
    bounds = run.conversion.bounds_false_features and not run.problem.loss.couples
    return bounds or can_outgrow(run)


def outgrown(runs: list[Run]) -> LongStream | LongHalves:
    """Return what learns the rows of a stream from here on, whose sample has no more room."""
    return LongHalves(runs) if runs[0].conversion.bounds_false_features else LongStream(runs)


def finish_long_stream(long: LongStream | LongHalves, runs: list[Run]) -> list[Answer]:
    """Return the converted models of all runs of a model whose stream has outgrown its sample."""
    return [run.checked(answer) for run, answer in zip(runs, long.answers(runs), strict=True)]
