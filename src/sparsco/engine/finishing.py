"""Phase two for all runs of a model."""

from __future__ import annotations

from ..conversions.averaging import Answer
from .long_stream import LongStream
from .run import Run


def finish_runs(runs: list[Run]) -> list[Answer]:
    """Return the converted models of all runs of a model, which have begun: phase two."""
    conversion = runs[0].conversion
    if not conversion.joins_runs:
        return [run.finish() for run in runs]
    return [run.checked(answer) for run, answer in zip(runs, conversion.finish_runs(runs), strict=True)]


def finish_long_stream(long: LongStream, runs: list[Run]) -> list[Answer]:
    """Return the converted models of all runs of a model whose stream has outgrown its sample."""
    return [run.checked(answer) for run, answer in zip(runs, long.answers(runs), strict=True)]
