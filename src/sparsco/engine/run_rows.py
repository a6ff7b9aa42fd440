"""What a run keeps of its rows: their targets by model, and samples of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..conversions.reservoir import Reservoir
from ..data.rows import Matrix
from .pilot_rows import SAMPLED, reservoir_of

_COPIED = 2 * SAMPLED
"""The nonzeros up to which the rows of a polish are copied as they are; an empty row counts as one."""


class KeepsRows:
    """The part of a run that keeps rows."""

    _polished: Reservoir | None = None
    _waiting: tuple[Matrix, np.ndarray, np.ndarray] | None = None
    """A copy of the rows of a polish, with targets and weights, until a sample of them is asked for."""

    def lanes_of(self: Any, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return targets and weights of each of the run's models, (n, m)."""
        encoded = self.targets.encode(y, weights, self.problem.width)
        targets, scaled = (part.reshape(len(y), self.problem.width)[:, : self.problem.m] for part in encoded)
        return targets, scaled

    def models_of(self: Any, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return targets and weights of the run's models, (n, models), each once where it has many strengths."""
        targets = self.targets.of_one_strength
        encoded, scaled = targets.encode(y, weights, targets.m)
        return encoded.reshape(len(y), targets.m), scaled.reshape(len(y), targets.m)

    @property
    def columns_to_keep(self: Any) -> int:
        """Return how many targets a sample keeps of a row."""
        return self.targets.columns_of_y if self.keeps_given_targets else self.problem.m

    def targets_to_keep(self: Any, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what a sample keeps of these rows: targets and weights by model, or y as given, (n, columns of y)."""
        if not self.keeps_given_targets:
            return self.lanes_of(y, weights)
        return (columns := y.reshape(len(y), -1)), np.repeat(weights[:, None], columns.shape[1], 1)

    def sample_nonzeros(self: Any, conversion: Any) -> int:
        """Return how large a sample of rows this conversion and the rounding need; 0 for none."""
        if conversion.joins_runs and self.targets.first > 0:
            return 0  # the first run has the sample of all runs
        asking = conversion if self.rounding is None else self.rounding
        return asking.sample_nonzeros if conversion.needs_sample or asking.needs_sample else 0

    def sample(self: Any, enough: int | None = None) -> Any:
        """Return a sample of the rows; None where neither the conversion nor a polish asked for one.

        Of a small share of the rows, no more than ``enough`` rows are returned.
        """
        if self.reservoir is not None:
            return self.reservoir.sample(enough)
        if self.polished_rows is None:
            return None
        sample = self.polished_rows.sample(enough)  # of the rows as they came
        return sample if self.units is None else sample.in_units(self.units.at())

    def column_sums(self: Any) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], int]:
        """Return the sums of columns over the rows that are kept, the sample or the pilot, and the number of rows.

        They are those of the rows as they came.
        """
        kept = self.pilot_rows if self.reservoir is None else self.reservoir
        (counts, sums, squares), n = kept.column_sums(self.d)
        if self.units is not None:
            units = self.units.at()
            sums, squares = sums * units, squares * np.square(units)
        return (counts, sums, squares), n

    def offer(
        self: Any,
        reservoir: Reservoir,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray,
        order: np.ndarray,
        times: np.ndarray | None = None,
    ) -> None:
        """Offer rows to a reservoir."""
        reservoir.offer(
            matrix.indptr[order],
            matrix.indptr[order + 1],
            matrix.indices,
            matrix.data,
            lambda kept: self.targets_to_keep(y[order[kept]], weights[order[kept]]),
            *(() if times is None else (times[order],)),
        )

    @property
    def polished_rows(self: Any) -> Reservoir | None:
        """Return a sample of the rows of a polish, where the conversion needs none; None if there was no polish."""
        if self._waiting is not None:
            (matrix, y, weights), self._waiting = self._waiting, None
            self._polished = reservoir_of(self, max_guard=0)
            self.offer(self._polished, matrix, y, weights, np.flatnonzero(weights))
        return self._polished

    def keep_polished(self: Any, matrix: Matrix, y: np.ndarray, weights: np.ndarray, is_first: bool) -> None:
        """Keep a sample of the rows of a polish; ``is_first``: they are its first rows.

        Few rows are copied as they are.  A sample, which many fits never need, would take longer, also where it leaves
        out half of them.
        """
        if is_first and len(matrix.data) + len(matrix) <= _COPIED:
            indices = matrix.indices if matrix.is_full else matrix.indices.copy()  # of full rows they are ours
            copied = Matrix(matrix.indptr.copy(), indices, matrix.data.copy(), *matrix[3:])
            self._waiting, self._polished = (copied, y, weights), None
            return
        if is_first:
            self._waiting, self._polished = None, reservoir_of(self, max_guard=0)
        self.offer(self.polished_rows, matrix, y, weights, np.flatnonzero(weights))
