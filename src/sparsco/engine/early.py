"""Runs that have learned the rows which other runs still collect, for predictions in the meantime."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data.rows import stack
from .run import Run


class Early:
    """Copies of runs that collect their first rows.

    A copy takes the first rows for its pilot, as many as the largest power of two that have come, and learns the others
    one after the other.  So it has learned all rows, depends on them alone, and is made anew few times.
    """

    def __init__(self, runs: Sequence[Run], class_since: int) -> None:
        """Make the copies; all rows up to ``class_since``, where the newest class appeared, belong to the pilot."""
        self.pilot, self.parts = _pilot_rows(runs, class_since), 0
        self.runs = [run.twin() for run in runs]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few examples: the runs themselves warn
            for copy in self.runs:
                before = copy.before_pilot()
                matrix, *others = _joined(copy.collected)
                first = np.arange(self.pilot)
                own = [(matrix.take(first), *(each[first] for each in others))]
                copy.go_back(before | {"collected": own, "_buffered": self.pilot, "told": []})
                copy.begin()
                _feed(copy, (matrix, *others), self.pilot)
        self.parts = len(runs[0].collected)

    def goes_on(self, runs: Sequence[Run], class_since: int) -> bool:
        """Return whether the copies are still those to predict by."""
        return len(runs) == len(self.runs) and self.pilot == _pilot_rows(runs, class_since)

    def caught_up(self, runs: Sequence[Run]) -> list[Run]:
        """Return the copies, which have learned all that the runs have collected."""
        for run, copy in zip(runs, self.runs, strict=True):
            if run.d > copy.d:
                copy.grow(run.d)
            for part in run.collected[self.parts :]:
                _feed(copy, part)
        self.parts = len(runs[0].collected)
        return self.runs


def _pilot_rows(runs: Sequence[Run], class_since: int) -> int:
    n = runs[0].examples
    return max(1 << max(n.bit_length() - 1, 0), min(class_since, n)) if n else 0


def _joined(parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return rows, targets and weights of all parts, and times where old rows fade."""
    return stack([part[0] for part in parts]), *(
        np.concatenate(each) for each in zip(*(p[1:] for p in parts), strict=True)
    )


def _feed(run: Run, part: tuple[Any, ...], first: int = 0) -> None:
    """Let a run learn rows that another one has collected, from the row ``first`` on."""
    matrix, y, weights, *times = part
    run.feed(matrix, y, weights, np.arange(first, len(y)), times=times[0] if times else None)
