"""The life cycle of a path: the learner of all strengths, the rows held out, and the figures of rows evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..data.progressive import JUDGED, next_mark
from ..data.randomness import Purpose, uniform
from ..data.rows import Matrix, stack
from ..estimators.life_cycle import LifeCycle, Phase, snapshot_of
from ..estimators.parameters import half_life_of
from ..estimators.passes import counted_rows
from ..estimators.row_times import RowTimes
from .judging import Judged, Rows, Unseen, judged, judged_before, margins_by
from .learning import converted, solved
from .path import Path

HELD_ROWS = 20_000
"""The largest number of rows held out; later rows are all learned, or where old rows fade, old ones are dropped."""


class PathState(LifeCycle):
    """The state of the fit of a path, which owns it."""

    has_class_weights = False
    """Whether the weights of rows already have those of their classes in them."""

    def __init__(self, learner: Any = None, share: float = 0.0) -> None:
        """Start with a learner.

        ``share`` of the rows are held out, or with 0 rows are evaluated before they are learned.
        """
        super().__init__()
        self.model: Path | None
        self.learner, self.share = learner, share
        self.rows = self.polished = 0
        """The number of rows read so far, including those held out, and of those whose optima the models are."""
        self.judged = Judged.nothing(0 if learner is None else len(learner.strengths))
        self.held: list[tuple[np.ndarray, ...]] = []
        self.n_held = 0

    times: RowTimes | None = None
    """The clock of the rows, where old ones fade."""
    judged_at = 0.0
    """The time of the rows that were judged last, in half-lives."""

    @property
    def half_life(self) -> float | None:
        """Return the half-life of the learner; None where nothing fades."""
        return None if self.learner is None else half_life_of(self.learner)

    def row_times(self, weights: np.ndarray | None, n: int, times: np.ndarray | None) -> np.ndarray | None:
        """Return the time of each of the next n rows, or None where nothing fades; ``times`` were given."""
        if self.half_life is None:
            return None
        self.times = RowTimes() if self.times is None else self.times.copy()
        return self.times.take(counted_rows(n, weights), n, times)

    def add_judged(self, found: Judged, time: float | None) -> None:
        """Add figures on rows that were not learned, which have this time; where rows fade, those before count less."""
        if self.half_life is not None and time is not None and found.rows:
            now = time / self.half_life
            self.judged, self.judged_at = self.judged.faded(2.0 ** min(self.judged_at - now, 0.0)), now
        self.judged += found

    @property
    def examples(self) -> int:
        """Return the number of examples taken in so far."""
        if self.learner is None:
            return 0 if self.model is None else self.model.solved[0].t
        return self.polished or self.learner.fit_state.examples

    def fingerprint(self) -> list[int]:
        """Return a checksum of the state of each run that has begun to learn."""
        return [] if self.learner is None else self.learner.fit_state.fingerprint()

    def selected(self) -> np.ndarray:
        """Return the slots that have a nonzero weight in an iterate of any strength."""
        return self.learner.fit_state.selected()

    def go_on(self, phase: Phase) -> None:
        """Change to a phase in which further rows are learned; the converted models are dropped."""
        self.model = None
        self.enter(phase)

    def snapshot(self) -> Callable[[], None]:
        """Return a function that restores this state and its learner as they are now."""
        restore_fields, held = super().snapshot(), list(self.held)
        restore_learner = (lambda: None) if self.learner is None else snapshot_of(self.learner)

        def restore() -> None:
            restore_fields()
            self.held[:] = held
            restore_learner()

        return restore

    # ---- rows that are not learned ---------------------------------------------------------------------------------

    def pieces(
        self,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None,
        order: np.ndarray,
        is_repeat_pass: bool,
        times: np.ndarray | None = None,
    ) -> Iterator[tuple[Rows | None, np.ndarray]]:
        """Yield pairs: rows to evaluate, and the numbers of the rows to learn after that.

        A pair ends at every mark, where the next few rows are evaluated; or some rows are held out.
        """
        at = 0
        while at < len(order):
            n, unseen = len(order) - at, 0
            if not is_repeat_pass and not self.share:
                mark = next_mark(max(self.rows - JUDGED + 1, 0))
                if mark <= self.rows:
                    unseen = mark + JUDGED - self.rows
                    mark = next_mark(mark + JUDGED)
                n = min(n, mark - self.rows)
            rows = order[at : at + n]
            few = rows[:unseen]
            own = None if weights is None else weights[few]
            kept = self.keep(matrix, y, weights, rows, is_repeat_pass, times)
            yield (matrix.take(few), y[few], own) if unseen else None, kept
            at += n

    def keep(
        self,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None,
        rows: np.ndarray,
        is_repeat_pass: bool,
        times: np.ndarray | None = None,
    ) -> np.ndarray:
        """Count the rows and return those to learn; the others, a share of the first read, are held out."""
        first = self.rows
        self.rows += 0 if is_repeat_pass else len(rows)
        if not self.share:
            return rows
        if is_repeat_pass:
            raise ValueError("rows held out would be learned in a second pass: use validation='progressive'.")
        drawn = self.drawn(first, len(rows), self.n_held)
        held = rows[drawn]
        if held.size:
            own = np.ones(held.size) if weights is None else weights[held]
            timed = () if times is None else (times[held],)
            self.held.append((matrix.take(held), y[held], own, *timed))
            self.n_held += held.size
            while times is not None and self.n_held - len(self.held[0][1]) >= HELD_ROWS:
                self.n_held -= len(self.held.pop(0)[1])
        return rows[~drawn]

    def drawn(self, first: int, n: int, before: int) -> np.ndarray:
        """Return which of n rows of a stream are held out, if ``before`` rows were held out before them."""
        drawn = uniform(self.learner.random_state, Purpose.VALIDATION, np.arange(first, first + n)) < self.share
        is_open = self.half_life is not None  # old rows make room for new ones
        return drawn if is_open else drawn & (np.cumsum(drawn) + before <= HELD_ROWS)

    def judge(self, rows: Rows, time: float | None = None) -> Judged:
        """Evaluate the iterates on rows before these are learned, by their weights and those of their classes.

        ``time`` is the time of the first of them, where rows fade; the default is the time of the last row learned.
        """
        matrix, y, weights = rows
        rows = matrix, y, self.learner.with_class_weights(y, weights)
        found = judged_before(self.learner, Unseen.of(self.learner, rows))
        if not self.share:
            last = None if self.times is None else self.times.now
            self.add_judged(found, last if time is None else time)
        return found

    # ---- the models ------------------------------------------------------------------------------------------------

    def take(self, ends: list[Any]) -> None:
        """Set the models of the path from the runs and their answers, and evaluate them on the rows held out."""
        learner, found = self.learner, self.judged
        models = solved(learner, ends, self.polished)
        if self.held:
            matrices, *others = zip(*self.held, strict=True)
            last = np.arange(max(self.n_held - HELD_ROWS, 0), self.n_held)
            matrix, (y, weights, *times) = stack(list(matrices)), map(np.concatenate, others)
            if len(last) < len(y):
                matrix, y, weights = matrix.take(last), y[last], weights[last]
            weights = weights if self.has_class_weights else learner.with_class_weights(y, weights)
            shares = None if not times else np.exp2((times[0][last] - times[0][-1]) / self.half_life)
            found = judged(learner, margins_by(learner.find(matrix), converted(ends)), y, weights, shares)
        self.model = Path(learner.shell(), models, found.summary())

    def finished(self) -> PathState:
        """Return a state that has the models alone."""
        twin = PathState()
        twin.finish_with(self.model)
        return twin

    def finish_with(self, model: Path | None) -> None:
        """Set the models and drop the training state."""
        self.learner, self.model, self.held = None, model, []
        self.ended = "a copy of a fitted path has only its models and cannot continue: fit a new path."
        self.enter(Phase.FINISHED)
