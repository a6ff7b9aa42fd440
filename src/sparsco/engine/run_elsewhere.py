"""What fits over partitions, and streams that have outgrown their sample, ask of a run that learns elsewhere."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ..data.rows import Matrix
from ..parts.part import NEVER
from .windows import Windows


class Elsewhere:
    """The part of a run that serves rows which the run itself does not learn, or not alone."""

    state: Any
    block: Any
    history: list[dict[str, float]]
    warnings: list[str]

    def template(self: Any, conversion: Any) -> Any:
        """Return a run of the same method and constants with another conversion, without a state: small."""
        twin = copy.copy(self)
        twin.conversion, twin.rounding = conversion, None
        fresh = twin.new_class_run(self.targets)
        if fresh.windows.needs_every_iterate:
            name = type(self.optimizer).__name__
            raise ValueError(f"{name} with these settings sums iterates densely: choose 'nftrl'.")
        fresh.keeps_given_targets = self.keeps_given_targets
        for name in ("state", "block", "pilot_rows"):
            setattr(fresh, name, None)
        return fresh

    def go_on_at(self: Any, t: int) -> None:
        """Let a copy of a template, which was given a state, be at example t with nothing due and nothing summed."""
        self.t = self.seen = self.block.start = t
        self.history, self.warnings, self.reservoir, self.windows = [], [], None, Windows()
        self._next_event, self._next_history_point = NEVER, NEVER

    def learn(self: Any, matrix: Matrix, y: np.ndarray, weights: np.ndarray, order: np.ndarray) -> None:
        """Learn rows of positive weight; no pilot is kept back."""
        self.grow(matrix.d)
        self._advance(matrix, y, weights, order)

    def stop_learning(self: Any) -> None:
        """Drop the state of the optimizer: from here on rows are only sampled."""
        self.state = self.block = None

    def only_sample(
        self: Any, matrix: Matrix, y: np.ndarray, weights: np.ndarray, order: np.ndarray, examples: int
    ) -> None:
        """Count so many examples, and offer those in ``order`` to the sample, without learning them."""
        self.seen += examples
        if self.reservoir is not None:
            self.offer(self.reservoir, matrix, y, weights, order)

    def end_like(self: Any, full: Any, seen: int) -> None:
        """Get ready to ``finish`` as ``full`` would, after so many examples."""
        self.pilot_rows, self.rounding, self.seen = full.pilot_rows, full.rounding, seen
