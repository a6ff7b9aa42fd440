"""A stream that has outgrown the sample of a selection with a promise: every half learns its rows, many strengths each.

``conversions.path_stability`` needs no more than its sample while that holds all rows.  At the first row that has no
room, the columns to follow and the strengths are fixed on the sample.  From there on every half of every pair is a run
of its own, which learns all strengths side by side by NFTRL: the rows of the sample first, then all others.  A row goes
to one half of each pair.  The last iterates are sparse as they stand, and phase two counts which halves select what.

Memory grows with columns times halves times strengths.  Where it would exceed a budget, only the columns are followed
that come nearest to being selected on the sample.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..conversions.averaging import Answer
from ..conversions.path_stability import PathStability
from ..data.rows import Matrix
from ..error_control.half_paths import Halves, first_halves, nearest_columns, way_down
from ..error_control.judged import delta_of, only
from ..error_control.scores import StabilityPaths, Target
from ..error_control.selecting import Selection, correlated_of, judged_task, widened
from ..problem.state import slices
from ..util.threads import Threads
from .long_stream import begun, strength_runs
from .run import Run

BUDGET = 1 << 30
"""The bytes that the states of all halves may take."""
STRENGTHS = 32
DEEPER = 8.0
"""The smallest strength, as a share of the one at which the integral ends on the sample: for streams up to 64 times as
long."""
_BYTES = 16
"""The bytes of one weight of one model: three numbers in float32, and a part of what is shared."""
_PIECE = 1 << 16


class LongHalves:
    """The halves of a stream that has outgrown its sample, beside the runs that began to learn it."""

    def __init__(self, runs: list[Run]) -> None:
        """Fix columns and strengths on the sample of the first run, and learn its rows."""
        first = runs[0]
        conversion, rows = first.conversion, first.sample().R
        sampled = conversion.sampled(runs)
        narrow, judged = judged_task(sampled.task, first.seed)
        self.delta, self.p = delta_of(narrow, first.seed), narrow.d
        models = sum(run.targets.m for run in runs)
        room = max(BUDGET // (_BYTES * 2 * conversion.pairs * STRENGTHS * models), 1)
        halves = Halves.of(narrow, first.seed, conversion.pairs, self.delta, conversion.target)
        way = way_down(halves)
        self.limit, self.strengths = way.limit, way.strengths(STRENGTHS, DEEPER) * narrow.scale.of_l1
        followed = nearest_columns(way, halves, room)
        self.judged = judged.placed(sampled.columns, first.d)
        """The columns that are judged, by their slots."""
        self.columns, self.units = self.judged.columns[followed], narrow.units[followed]
        """The slots of the columns that are followed, and their units."""
        self.seed, self.pairs, self.n, self.sampled_rows = first.seed, conversion.pairs, first.examples, narrow.n
        self.d = first.d
        self.halves: list[list[list[Run]]] = [[] for _ in range(2 * self.pairs)]
        """For each half and each run, those that learn the strengths for its models."""
        for run in runs:
            self.add(run)
        if conversion.probes:
            first.warn("probes are judged on rows in memory only: this stream is longer, and has none.")
        if len(followed) < self.p:
            first.warn(
                f"memory for {len(followed):,} of {self.p:,} columns: the others, which are far from being selected on "
                f"the first {narrow.n:,} rows, are not followed any more."
            )
        matrix = Matrix(rows.indptr, rows.indices, rows.data, first.d)
        self._learn(matrix, rows.y, rows.weights[:, 0], np.arange(narrow.n), rows.numbers)

    # ---- rows in ---------------------------------------------------------------------------------------------------

    def add(self, run: Run) -> None:
        """Learn the models of a run from here on, in its place."""
        run.stop_learning()
        for half in self.halves:
            half.append(strength_runs(run, self.strengths, len(self.columns)))

    def grow(self, d: int) -> None:
        """Let there be d features; those that are new are not followed."""
        self.d = max(d, self.d)

    def feed(
        self,
        runs: list[Run],
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray,
        order: np.ndarray,
        n_jobs: int | None = None,
    ) -> None:
        """Learn rows, and let the runs sample them."""
        order = order[weights[order] != 0.0]
        for at in range(0, len(order), _PIECE):
            part = order[at : at + _PIECE]
            for run in runs:
                run.only_sample(matrix, y, weights, part, len(part))
            numbers = self.n + np.arange(len(part))
            self.n += len(part)
            self._learn(matrix, y, weights, part, numbers, n_jobs)

    def _learn(
        self,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray,
        order: np.ndarray,
        numbers: np.ndarray,
        n_jobs: int | None = None,
    ) -> None:
        """Let every half learn its rows among those in ``order``, which have these numbers."""
        place = np.full(max(matrix.d, self.d), -1, np.int64)
        place[self.columns] = np.arange(len(self.columns))
        rows = followed_rows(matrix.take(order), place, self.units)
        own = y[order], weights[order]
        is_first = first_halves(self.seed, numbers, range(self.pairs))

        def learn(half: int) -> None:
            mine = np.flatnonzero(is_first[:, half // 2] == (half % 2 == 0))
            for lanes in self.halves[half]:
                for lane in lanes:
                    lane.feed(rows, *own, order=mine)

        Threads(n_jobs).map("learn", learn, [(half,) for half in range(len(self.halves))])

    @property
    def runs(self) -> list[Run]:
        """Return all runs that learn strengths."""
        return [lane for half in self.halves for lanes in half for lane in lanes]

    # ---- iterates --------------------------------------------------------------------------------------------------

    @property
    def likely(self) -> int:
        """Return the number of the strength that predicts while the stream goes on: the smallest."""
        return len(self.strengths) - 1

    def weights_at(self, features: np.ndarray, strength: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return weights at some features and intercepts of one strength of the first half, for each run."""
        at = np.minimum(np.searchsorted(self.columns, features), max(len(self.columns) - 1, 0))
        known, found = self.columns[at] == features, []
        for lanes in begun(self.halves[0]):
            m = lanes[0].targets.m // lanes[0].targets.copies
            number, copy = divmod(strength, lanes[0].targets.copies)
            w, b = lanes[number].weights_at(at)
            part = slice(copy * m, (copy + 1) * m)
            found.append((np.where(known[:, None], w[:, part] / self.units[at][:, None], 0.0), b[part]))
        return found

    # ---- phase two -------------------------------------------------------------------------------------------------

    def paths(self, target: Target) -> StabilityPaths:
        """Return how many halves select each followed column at each strength, with the limit that serves a target."""
        count, K = len(self.columns), len(self.strengths)
        counts = np.zeros((K, count), np.int32)
        for half in self.halves:
            runs = begun(half)
            for some in slices(count):
                counts[:, some] += _selected(runs, np.arange(some.start, some.stop), K).T
        sizes = counts.sum(1) / (2.0 * self.pairs)
        given = self.pairs, self.p, self.delta, self.limit
        return StabilityPaths(self.strengths, sp.csr_array(counts), sizes, *given).serving(target)

    def answers(self, runs: list[Run]) -> list[Answer]:
        """Return the answer of each run: the selection of all rows, learned again from the sample."""
        conversion: PathStability = runs[0].conversion
        sampled, paths = conversion.sampled(runs), self.paths(conversion.target)
        judged = self.judged._replace(columns=self.columns)
        features = self.columns[conversion.target.selected(paths)]
        held = np.flatnonzero(np.isin(sampled.columns, self.columns))
        names = sampled.columns[held]
        correlated = correlated_of(only(sampled.task, held), names, features[np.isin(features, names)])
        counts = self.n, len(self.columns)
        found = Selection(features, widened(paths, judged, self.d), self.judged, correlated, None, *counts)
        return conversion.answers(runs, sampled, found)


def followed_rows(matrix: Matrix, place: np.ndarray, units: np.ndarray) -> Matrix:
    """Return rows with the columns that have a place, in their units."""
    to = place[matrix.indices]
    kept = to >= 0
    ends = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(kept, out=ends[1:])
    to = to[kept]
    return Matrix(ends[matrix.indptr], to.astype(np.uint32), matrix.data[kept] / units[to], len(units))


def _selected(half: list[list[Run]], features: np.ndarray, strengths: int) -> np.ndarray:
    """Return which of some features a half selects at each strength, in one of its models: (features, strengths)."""
    found = np.zeros((len(features), strengths), bool)
    for lanes in half:
        first = 0
        for lane in lanes:
            copies = lane.targets.copies
            w = lane.weights_at(features)[0].reshape(len(features), copies, -1)
            found[:, first : first + copies] |= w.any(2)
            first += copies
    return found
