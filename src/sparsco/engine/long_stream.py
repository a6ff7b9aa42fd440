"""A stream that has outgrown its sample: several strengths, learned side by side from all rows.

The automatic choice (``conversions.choose``) needs no more than its sample while that holds all rows.  At the first row
that has no room, the choice is made on the sample, for the units of the columns and a strength to start from.  From
there on eight strengths are learned side by side, by the last iterates of NFTRL on rows in these units: the rows of the
sample first, then all others.  One row in 32 is held out.  Phase two judges on these rows the eight models and the
solution on the sample, and the rule of the choice takes one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..choice.candidates import EMPTY, Candidate, Judged
from ..choice.rule import choose
from ..conversions.averaging import Answer, Last
from ..conversions.choose import Choose, mean_and_error
from ..conversions.reservoir import SampleRows
from ..data.randomness import Purpose, uniform
from ..data.rows import Matrix, margins
from ..losses import value
from ..optimizers.nftrl import NFTRL
from ..penalties import elastic_net
from ..problem.pilot import best_intercepts
from ..problem.state import slices
from ..solver.units import Units
from ..util.threads import Threads
from .grid import MAX_LANES
from .growth import keep_features
from .pilot_rows import reservoir_of
from .run import Run

STRENGTHS, RATIO, ABOVE = 8, 2.2, 1
"""The number of strengths, the ratio of neighbours, and how many are above the strength that the sample suggests."""
HELD_OUT = 1.0 / 32.0
"""The share of the rows that is held out."""
LEAST_HELD_ROWS = 200
"""The least number of held-out rows to judge by; before that the solution on the sample is the model."""
_PIECE = 1 << 16
_ON_SAMPLE = Candidate(1.0, -1, False)
"""The solution on the sample, among the candidates."""


def can_outgrow(run: Run) -> bool:
    """Return whether rows beyond the sample of this run can be learned: for one strength of the L1 term at a time."""
    conversion, loss = run.conversion, run.problem.loss
    if run.half_life is not None:  # old rows leave the sample
        return False
    if not isinstance(conversion, Choose) or loss.couples or conversion.budget is not None:
        return False
    if conversion.by_row is not None:  # rows that belong together must not be held out one by one
        return False
    if conversion.given is not None:
        return conversion.given.l1_ratio == 1.0 and not conversion.given.relaxed
    return 1.0 in conversion.mixtures


def strength_runs(run: Run, strengths: np.ndarray, d: int, units: Units | None = None) -> list[Run]:
    """Return runs that learn the models of a run with d features, for each of these strengths of the L1 term.

    A run takes as many strengths as its lanes have room for.  ``units`` are those of the features, if they have some.
    """
    size, problem = max(1, MAX_LANES // run.targets.m), run.problem
    penalty = elastic_net(float(strengths[0]), 1.0, problem.penalty.pen)
    found = [
        Run(
            problem.loss,
            penalty,
            NFTRL(),
            Last(),
            d=d,
            targets=run.targets,
            intercept=problem.intercept,
            seed=run.seed,
            lams=strengths[first : first + size],
            single=True,
            units=units,
        )
        for first in range(0, len(strengths), size)
    ]
    for each in found:
        each.told = run.told
    return found


def begun(lanes: list[list[Run]]) -> list[list[Run]]:
    """Return the runs; one that still collects rows is replaced by a copy that has learned them."""
    return [[lane.begun() for lane in each] for each in lanes]


class _Lane(NamedTuple):
    """The iterates of one strength: weights (features, models) and intercepts."""

    w: np.ndarray
    b: np.ndarray


class LongStream:
    """The models of a stream that has outgrown its sample, beside the runs that began to learn it."""

    def __init__(self, runs: list[Run]) -> None:
        """Choose units and strengths on the sample of the first run, and learn its rows."""
        first = runs[0]
        conversion, rows = first.conversion, first.sample().R
        task = conversion.sampled(runs).task
        self.judged: Judged | None = conversion.judged(task, first.seed)
        """The candidates of the choice on the sample; None where the strength is given."""
        self.strengths = self._grid(conversion, task.n)
        self.sampled_rows = task.n
        self.held = reservoir_of(first, conversion.sample_nonzeros // 2, 0)
        self.n = first.examples
        self.lanes: list[list[Run]] = []
        """For each run, those that learn the strengths for its models."""
        units = Units.by_sums(*first.column_sums()) if conversion.standardize else None
        for run in runs:
            self._add(run, units)
        matrix = Matrix(rows.indptr, rows.indices, rows.data, first.d)
        self._learn(matrix, rows.y, rows.weights[:, 0], np.arange(task.n))

    def _grid(self, conversion: Choose, n: int) -> np.ndarray:
        """Return the strengths of the L1 term, from the largest on."""
        if self.judged is None:
            assert conversion.given is not None
            return np.array([conversion.given.lam])
        chosen = choose(self.judged, conversion.rule_of_losses)
        lam, l1_ratio = self.judged.strength(chosen)
        start = lam * l1_ratio * np.sqrt(self.judged.learned_rows / max(n, 1))
        return start * RATIO ** (ABOVE - np.arange(float(STRENGTHS)))

    # ---- rows in ---------------------------------------------------------------------------------------------------

    def add(self, run: Run) -> None:
        """Learn the models of a run from here on, in its place, in the units of the others."""
        units = self.runs[0].units
        self._add(run, None if units is None else units.copy())

    def _add(self, run: Run, units: Units | None) -> None:
        run.stop_learning()
        self.lanes.append(strength_runs(run, self.strengths, run.d, units))

    def grow(self, d: int) -> None:
        """Let there be d features."""
        for lane in self.runs:
            lane.grow(d)

    def keep(self, kept: np.ndarray) -> None:
        """Let the other features leave; those that stay, by ascending slots, get the slots 0, 1, ..."""
        self.held.keep(kept, self.runs[0].d)
        for lane in self.runs:
            keep_features(lane, kept)

    def feed(
        self,
        runs: list[Run],
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray,
        order: np.ndarray,
        n_jobs: int | None = None,
    ) -> None:
        """Learn rows, hold some of them out, and let the runs sample them."""
        first = runs[0]
        order = order[weights[order] != 0.0]
        for at in range(0, len(order), _PIECE):
            part = order[at : at + _PIECE]
            numbers = self.n + np.arange(len(part))
            is_held = uniform(first.seed, Purpose.VALIDATION, numbers) < HELD_OUT
            first.offer(self.held, matrix, y, weights, part[is_held])
            learned = part[~is_held]
            for run in runs:
                run.only_sample(matrix, y, weights, learned, len(part))
            self.n += len(part)
            self._learn(matrix, y, weights, learned, n_jobs)

    def _learn(
        self, matrix: Matrix, y: np.ndarray, weights: np.ndarray, order: np.ndarray, n_jobs: int | None = None
    ) -> None:
        """Learn rows in the units of their columns."""
        runs = [(lane,) for lane in self.runs]
        Threads(n_jobs).map("learn", lambda lane: lane.feed(matrix, y, weights, order), runs)

    @property
    def runs(self) -> list[Run]:
        """Return all runs that learn strengths."""
        return [lane for lanes in self.lanes for lane in lanes]

    # ---- iterates --------------------------------------------------------------------------------------------------

    @property
    def likely(self) -> int:
        """Return the number of the strength that the length of the stream suggests."""
        grown = 0.5 * np.log(self.n / self.sampled_rows) / np.log(RATIO)
        return int(min(ABOVE + round(grown), len(self.strengths) - 1))

    def weights_at(self, features: np.ndarray, strength: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return weights at some features and intercepts of one strength, for each run, in the units of the rows."""
        return [(each.w, each.b) for each in self._lane(begun(self.lanes), features, strength)]

    def _lane(self, every: list[list[Run]], features: np.ndarray, strength: int) -> Iterator[_Lane]:
        for lanes in every:
            m = lanes[0].targets.m // lanes[0].targets.copies
            number, at = divmod(strength, lanes[0].targets.copies)
            w, b = lanes[number].weights_at(features)
            part = slice(at * m, (at + 1) * m)
            yield _Lane(w[:, part], b[part])

    # ---- phase two -------------------------------------------------------------------------------------------------

    def answers(self, runs: list[Run]) -> list[Answer]:
        """Return the answer of each run: the best of the strengths and of the solution on the sample."""
        conversion = runs[0].conversion
        sampled = conversion.sampled(runs)
        outcome = conversion.solved(sampled.task, self.judged, runs[0].seed)
        answers = sampled.answers(runs, outcome)
        held = self.held.sample().R
        if len(held.numbers) < LEAST_HELD_ROWS:
            answers[0] = answers[0]._replace(unlearned=conversion.unlearned(runs[0], sampled, outcome))
            return answers
        answers = self._best(runs, answers, held)
        if conversion.calibrates:
            unlearned = _Held(held, runs).margins(answers), held.y, held.weights[:, 0]
            answers[0] = answers[0]._replace(unlearned=unlearned)
        return answers

    def _best(self, runs: list[Run], answers: list[Answer], held: SampleRows) -> list[Answer]:
        """Return the best answers by held-out rows, where ``answers`` are those of the sample."""
        conversion = runs[0].conversion
        lanes, rows = begun(self.lanes), _Held(held, runs)
        judged = self._judge(lanes, rows, answers)
        chosen = choose(judged, conversion.rule_of_losses)
        report = self._report(judged, chosen, answers[0].report["choice"])
        answers[0] = answers[0]._replace(report={"choice": report})
        if chosen == _ON_SAMPLE:
            return answers
        if chosen.depth == len(self.strengths) and self.judged is not None:
            runs[0].warn(
                "alpha='auto': the loss on held-out rows still fell at the smallest strength that was learned; pass a "
                "smaller alpha= with standardize=True to go on from there."
            )
        if chosen == EMPTY:
            return [each._replace(w=0.0 * each.w, b=b) for each, b in zip(answers, rows.intercepts, strict=True)]
        for some in slices(runs[0].d):
            features = np.arange(some.start, some.stop)
            for answer, lane in zip(answers, self._lane(lanes, features, chosen.depth - 1), strict=True):
                answer.w[some], answer.b[:] = lane
        return answers

    def _judge(self, every: list[list[Run]], rows: _Held, answers: list[Answer]) -> Judged:
        """Return the losses on held-out rows: no features, the sample's solution, and each strength."""
        d, count = len(answers[0].w), len(self.strengths)
        candidates = [EMPTY, _ON_SAMPLE, *(Candidate(1.0, k + 1, False) for k in range(count))]
        on_sample = np.logical_or.reduce([answer.w.any(1) for answer in answers])
        nothing = [(np.zeros((len(rows.features), len(b))), b) for b in rows.intercepts]
        losses = [rows.losses(nothing)]
        losses.append(rows.losses([(answer.w[rows.features], answer.b) for answer in answers]))
        losses += [rows.losses(self._lane(every, rows.features, k)) for k in range(count)]
        used = np.zeros(count)
        for some in slices(d):
            is_used, features = np.zeros((some.stop - some.start, count), bool), np.arange(some.start, some.stop)
            for lanes in every:
                first = 0
                for lane in lanes:  # each is read once, for all of its strengths
                    copies = lane.targets.copies
                    w = lane.weights_at(features)[0].reshape(len(features), copies, -1)
                    is_used[:, first : first + copies] |= w.any(2)
                    first += copies
            used += is_used.sum(0)
        features = np.array([0.0, np.count_nonzero(on_sample), *used])
        return Judged(candidates, np.array(losses), features, 1.0, self.n, False, len(losses[0]))

    def _report(self, judged: Judged, chosen: Candidate, on_sample: dict[str, Any]) -> dict[str, Any]:
        """Return the report of the choice, beside that of the choice on the sample."""
        report = on_sample | {"rows": self.n, "held_out_rows": int(judged.losses.shape[1])}
        if chosen != _ON_SAMPLE:
            report |= {"alpha": self._alpha(chosen), "l1_ratio": 1.0, "relaxed": False}
        report["strengths"] = []
        for k, each in enumerate(judged.candidates):
            loss, error = mean_and_error(judged.losses[k])
            row = {"alpha": on_sample["alpha"], "on": "sample"}
            if each != _ON_SAMPLE:
                row = {"alpha": self._alpha(each), "on": "all rows"}
            row |= {"features": float(judged.features[k]), "loss": loss, "error": error, "chosen": each == chosen}
            report["strengths"].append(row)
        return report

    def _alpha(self, candidate: Candidate) -> float:
        """Return the strength of a candidate; for the model without features, the largest one."""
        return float(self.strengths[max(candidate.depth - 1, 0)])


class _Held:
    """Held-out rows with the targets of all runs, on the features that occur in them."""

    def __init__(self, rows: SampleRows, runs: list[Run]) -> None:
        features, places = np.unique(rows.indices, return_inverse=True)
        self.features, self.places = features.astype(np.int64), places.astype(np.int64)
        self.indptr, self.data = rows.indptr, rows.data
        self.lanes, self.loss = [run.lanes_of(rows.y, rows.weights[:, 0]) for run in runs], runs[0].problem.loss
        self.intercepts = [
            best_intercepts(self.loss, *lanes) if runs[0].problem.intercept else np.zeros(lanes[0].shape[1])
            for lanes in self.lanes
        ]
        """The intercepts of models without features, for each run."""

    def margins(self, answers: list[Answer]) -> np.ndarray:
        """Return the margins of all models, (rows, models)."""
        parts = [(np.ascontiguousarray(answer.w[self.features]), answer.b) for answer in answers]
        return np.concatenate([margins(self.indptr, self.places, self.data, w, b) for w, b in parts], axis=1)

    def losses(self, models: Any) -> np.ndarray:
        """Return the loss of each row, summed over the models; weights (features, models) and intercepts by run."""
        total = np.zeros(len(self.indptr) - 1)
        for (targets, weights), (w, b) in zip(self.lanes, models, strict=True):
            p = margins(self.indptr, self.places, self.data, np.ascontiguousarray(w), np.ascontiguousarray(b))
            total += (weights * value(self.loss, p, targets)).sum(1)
        return total
