"""The rows that a stream keeps: all rows while there is room, then fewer features of each, then fewer rows.

A stage of STS only needs rows on its own set.  So when the rows kept have more nonzeros than there is room for, stages
are run on them.  The features that these stages purge are dropped, until the rest fits.  At the least number of
features a uniform sample of the rows is kept.  The result depends on the rows and the seed, not on the cuts of the
stream.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ...data.randomness import Purpose, bits
from ...data.rows import Matrix, squared_norms, stack
from ...util.threads import Pool
from .paths import Examples
from .scaling import Preparation
from .sts import Plan, run_stage


class Kept:
    """The rows of a stream that are kept, on the columns that are not purged.

    They are stored as given, with their y (codes or numbers, (rows, columns of y)) and weights.  The norms of purged
    entries and the sums for the preparation are stored too.
    """

    def __init__(self, kind: str | None, room: float, seed: int) -> None:
        self.preparation, self.room, self.seed = Preparation(kind, 0), room, seed
        self.purged = np.zeros(0, bool)
        self.rows = Matrix(np.zeros(1, np.int64), np.zeros(0, np.uint32), np.zeros(0), 0)
        self.y, self.weights, self.elsewhere = np.zeros((0, 1)), np.zeros(0), np.zeros(0)
        self.numbers, self.seen = np.zeros(0, np.int64), 0
        self.scales = np.zeros(0)
        """The scales of the columns when some were last purged."""
        self.level = np.uint64(2**64 - 1)
        """The largest draw of the sample; rows with larger draws are not in it."""

    def snapshot(self) -> Kept:
        """Return a copy that further rows do not change."""
        twin = copy.copy(self)
        twin.preparation, twin.purged = copy.deepcopy(self.preparation), self.purged.copy()
        return twin

    def settled(self) -> Kept:
        """Return a copy with a decision on the preparation of the rows."""
        twin = copy.copy(self)
        twin.preparation = self.preparation.settled()
        return twin

    def add(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray, least: int, purge: Any) -> None:
        """Keep further rows; ``purge(kept)`` returns the columns to drop, if there are more than ``least``."""
        self.preparation.grow(matrix.d)
        self.purged = np.r_[self.purged, np.zeros(matrix.d - len(self.purged), bool)]
        at = 0
        while at < len(matrix):
            rest = np.arange(at, len(matrix))
            ends = len(self.rows.data) + np.cumsum(np.diff(matrix.indptr)[rest])
            taken = rest[: int(np.searchsorted(ends, self.room)) + 1]
            self._append(matrix.take(taken), y[taken], weights[taken])  # a copy: the caller may reuse the arrays
            at += len(taken)
            while len(self.rows.data) > self.room:
                self._forget(least, purge)

    def _append(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray) -> None:
        self.preparation.add(matrix)
        numbers = np.arange(self.seen, self.seen + len(matrix))
        self.seen += len(matrix)
        here = np.flatnonzero(self._draws(numbers) <= self.level)
        matrix = matrix if len(here) == len(matrix) else matrix.take(here)
        matrix, elsewhere = self._without(matrix, np.zeros(len(here)))
        parts = [self.rows, matrix] if len(self.rows) else [matrix]
        self.rows = Matrix(*stack(parts)[:3], len(self.purged))
        if not len(self.y):
            self.y = np.zeros((0, y.shape[1]))
        self.y, self.weights = np.r_[self.y, y[here]], np.r_[self.weights, weights[here]]
        self.elsewhere, self.numbers = np.r_[self.elsewhere, elsewhere], np.r_[self.numbers, numbers[here]]

    def _draws(self, numbers: np.ndarray) -> np.ndarray:
        return bits(self.seed, Purpose.RESERVOIR, numbers)

    def _without(self, matrix: Matrix, elsewhere: np.ndarray) -> tuple[Matrix, np.ndarray]:
        """Return the rows without purged columns, and the squared norms of the purged entries."""
        if not self.purged.any():
            return matrix, elsewhere
        gone = self.purged[matrix.indices]
        if self.preparation.kind == "rows":
            known = np.r_[self.scales, np.ones(len(self.purged) - len(self.scales))]
            lost = np.where(gone, np.sqrt(np.abs(matrix.data) / np.sqrt(known[matrix.indices])), 0.0)
            elsewhere = elsewhere + squared_norms(matrix.indptr, lost, np.arange(len(matrix)))
        counts = np.zeros(len(matrix), np.int64)
        if len(matrix):
            kept = np.add.reduceat(np.r_[~gone, False].astype(np.int64), matrix.indptr[:-1])
            counts = np.where(np.diff(matrix.indptr) > 0, kept, 0)
        indptr = np.r_[0, np.cumsum(counts)].astype(np.int64)
        return Matrix(indptr, matrix.indices[~gone], matrix.data[~gone], len(self.purged)), elsewhere

    def _forget(self, least: int, purge: Any) -> None:
        columns = self.columns
        if len(columns) > least:
            self.preparation = self.preparation.settled()
            self.purged[purge(self)] = True
            self.scales = self.preparation.scales
            self.rows, self.elsewhere = self._without(self.rows, self.elsewhere)
        else:
            draws = self._draws(self.numbers)
            self.level = np.sort(draws)[len(draws) // 2]
            here = np.flatnonzero(draws <= self.level)
            if len(here) == len(draws):  # one row that alone needs more than the room
                self.room = float(len(self.rows.data))
                return
            self.rows, self.y, self.weights = self.rows.take(here), self.y[here], self.weights[here]
            self.elsewhere, self.numbers = self.elsewhere[here], self.numbers[here]

    @property
    def columns(self) -> np.ndarray:
        """Return the columns that occurred and are not purged."""
        return np.flatnonzero((self.preparation.counts > 0.0) & ~self.purged)

    def prepared(self) -> Matrix:
        """Return a copy of the rows, prepared for learning."""
        rows = self.preparation.applied(self.rows, self.elsewhere)
        return Matrix(rows.indptr.copy(), rows.indices.copy(), rows.data, rows.d)


def purge_by_stage(examples: Examples, columns: np.ndarray, least: int, plan: Plan, threads: Pool) -> np.ndarray:
    """Return the columns that one stage drops."""
    following = max(least, int(np.ceil(plan.method.keep * len(columns))))
    _, kept = run_stage(examples.only(columns), columns, following, 0, plan, threads)
    return np.delete(columns, kept)
