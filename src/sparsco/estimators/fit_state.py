"""The life cycle of a fit: one state object that starts, learns, converts and ends.

An estimator has its parameters, the attributes that scikit-learn names, and one state beside them.  ``fit`` makes a
state of phase BATCH, a stream makes one of phase STREAM.  A model without training state is FINISHED.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from ..conversions.fading_sample import new_reservoir
from ..conversions.reservoir import Reservoir
from ..data.crosses import Crossed
from ..data.randomness import Purpose, uniform
from ..data.rows import Matrix
from ..data.slots import Columns, Names, SeenColumns
from ..data.trimming import Trimming
from ..engine.at_once import solved_at_once
from ..engine.early import Early
from ..engine.finishing import finish_long_stream, is_bounded, outgrown
from ..engine.long_halves import LongHalves
from ..engine.long_stream import LongStream
from ..engine.restored import check_run
from ..engine.run import PILOT_ROWS, Run
from ..inference.record import Intervals
from ..util.attributes import Restored, add_attributes, attributes
from ..util.threads import Threads
from ..util.typed import check_like
from .converted import Converted, convert_runs, sizes_of, with_promise
from .described import Described
from .fixed import FIXED, changed_since, fingerprint
from .life_cycle import LifeCycle, Phase
from .row_offsets import checked_offset
from .row_times import RowTimes

LEARNED_FIRST = 10
"""So many rows are learned before any is held out."""


class FitState(LifeCycle, Restored):
    """The state of the fit of a linear model, which owns it: runs, features, labels and the converted model."""

    long: LongStream | LongHalves | None = None
    """The models of a stream that has outgrown the sample of its runs."""
    described: Described | None = None
    """The columns of the tables that were learned; None if the rows were no tables."""
    labels: Mapping[int, str] = {}
    """The names of some columns, for a reader of the model: with hashing the first name of a column."""
    by_name: bool = False
    """Whether these names are the features, and the numbers of columns mean nothing elsewhere."""
    hash_seed: int | None = None
    """The seed of the hash, if names were hashed with signs."""
    early: Early | None = None
    """Copies of runs that still collect rows, for predictions meanwhile."""
    class_since: int = 0
    """The number of examples up to the first one of the newest class, while rows are collected."""
    _unchanged: tuple[Any, ...] | None = None
    """The fixed parameters as they were when they were last compared."""
    tally: Any = None
    """The ``ClassTally`` of the rows so far, where classes have weights."""
    held: Reservoir | None = None
    """A sample of the rows that are held out to calibrate probabilities by, where there are such rows."""
    trimming: Trimming | None = None
    """The features in use, where some may leave."""
    noted_at_once: int = 1024
    """The number of examples of ``learn_one`` that are learned at once."""
    has_offset: bool = False
    """Whether rows have an offset."""
    noted_offsets: Sequence[float] = ()
    """The offsets of the examples that ``learn_one`` has queued, if they have some."""
    offered: int = 0
    """The number of rows that were learned or held out, where some are held out."""
    times: RowTimes | None = None
    """The clock of the rows, where old ones fade."""
    noting: RowTimes | None = None
    """A copy of the clock that counts the examples which ``learn_one`` has queued, with their times if given."""
    before_last: float = -np.inf
    """The time of the last example but one."""
    scaled: tuple[int, np.ndarray] | None = None
    """The Platt scaling of the iterate, and the number of rows that were held out when it was fitted."""

    def __init__(self, features: Any = None, told: list[str] | None = None) -> None:
        super().__init__()
        self.model: Converted | None
        self.runs: list[Run] = []
        self.features: Any = features
        """The slot of each feature: ``Columns``, ``SeenColumns`` or ``Names``."""
        self.told: list[str] = [] if told is None else told
        """The causes of the warnings that were given; all runs share the list."""
        self.settings: dict[str, Any] = {}
        """The fingerprints of the parameters that the runs were made from."""
        self.noted: list[float] | None = None
        """The targets of the examples that ``learn_one`` has queued; None before its first call."""
        self.is_sparse = False
        """True if ``coef_`` is a sparse array."""
        self.is_open = False
        """True if a stream finds its classes itself."""
        self.codes: dict[Any, int] = {}
        """The code of each label in the order of appearance, if examples are encoded one at a time."""
        self.outputs: int | None = None
        """The number of columns of y; None if y is one-dimensional."""

    def __getstate__(self) -> dict[str, Any]:
        return attributes(self) | {"early": None, "_unchanged": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        add_attributes(self, state)
        self._share_warnings()
        for run in self._every_run:  # the arrays of another layout would be left by kernels
            if run.state is not None:
                run.optimizer.layout.check(run.problem, run.state)

    @property
    def _every_run(self) -> list[Run]:
        return self.runs if self.long is None else [*self.runs, *self.long.runs]

    def check(self) -> None:
        """Raise a ValueError, or another built-in error, for a state of a file whose parts do not fit together."""
        check_like(self, FitState())
        codes = sorted(self.codes.values())
        if codes != list(range(len(codes))) or not isinstance(self.model, Converted | None):
            raise ValueError("the codes of its labels are not 0, 1, ..., or its model is none")
        for run in self._every_run:
            check_run(run)

    def _share_warnings(self) -> None:
        for run in self.runs:
            run.told = self.told

    # ---- learning --------------------------------------------------------------------------------------------------

    def start(self, runs: list[Run], phase: Phase, estimator: Any) -> None:
        """Start to learn with new runs, which were made from the parameters of the estimator."""
        self.runs, self.long, self.model = runs, None, None
        self.early, self.class_since, self.scaled = None, 0, None
        self.enter(phase)
        self.settings = {name: fingerprint(getattr(estimator, name)) for name in FIXED}
        holds_out = estimator.calibrate and not runs[0].conversion.joins_runs  # the others have a sample to fold
        half_life = runs[0].half_life
        self.held, self.offered = new_reservoir(half_life, runs[0].seed, max_guard=0) if holds_out else None, 0
        self.times = None if half_life is None else RowTimes()
        bounds = estimator.max_features, estimator.trim
        self.trimming = None if bounds == (None, None) else Trimming(*bounds)
        self._share_warnings()

    def go_on(self, phase: Phase) -> None:
        """Prepare to learn further rows, in this phase; the converted model is dropped."""
        self.model = None
        if phase is Phase.BATCH:
            self.noted = None
        self.enter(phase)

    def changed(self, estimator: Any) -> list[str]:
        """Return the names of the fixed parameters that have changed since the start."""
        found, self._unchanged = changed_since(self.settings, estimator, self._unchanged)
        return found

    def feed(
        self,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None,
        order: np.ndarray,
        is_repeat_pass: bool,
        n_jobs: int | None = None,
        times: np.ndarray | None = None,
    ) -> None:
        """Learn rows, whose columns are slots, in an order; ``is_repeat_pass`` is True for a further pass.

        ``times`` are those that ``row_times`` returned, where old rows fade.
        """
        weights = np.ones(len(matrix)) if weights is None else weights
        self.model = None
        if self.long is None and is_bounded(self.runs[0]) and not is_repeat_pass:
            order = self._fill_sample(matrix, y, weights, order, n_jobs)
        if self.long is None:
            self._feed(matrix, y, weights, order, is_repeat_pass, n_jobs, times)
        elif not is_repeat_pass:  # a choice makes one pass
            self.long.feed(self.runs, matrix, y, weights, order, n_jobs)

    def row_times(
        self, order: np.ndarray, weights: np.ndarray | None, n: int, times: np.ndarray | None
    ) -> np.ndarray | None:
        """Return the time of each of n rows, of which those in ``order`` come next; None where old rows do not fade.

        Rows of weight zero are not counted.  ``times`` are those that were given.
        """
        if self.times is None:
            return None
        self.times = self.times.copy()
        return self.times.take(order if weights is None else order[weights[order] != 0.0], n, times)

    def hold_out(
        self,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None,
        order: np.ndarray,
        share: float,
        times: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return which of these rows are learned; a random share of the others is held out, by their numbers."""
        if self.held is None:
            return np.ones(len(order), bool)
        weights = np.ones(len(matrix)) if weights is None else weights
        counted = np.flatnonzero(weights[order])
        numbers = self.offered + np.arange(len(counted))
        is_held = uniform(self.runs[0].seed, Purpose.CALIBRATION, numbers) < share
        held = counted[is_held & (numbers >= LEARNED_FIRST)]
        rows, is_learned = order[held], np.ones(len(order), bool)
        is_learned[held] = False
        self.offered += len(counted)
        self.held.offer(
            matrix.indptr[rows],
            matrix.indptr[rows + 1],
            matrix.indices,
            matrix.data,
            lambda kept: (y[rows[kept], None], weights[rows[kept], None]),
            *(() if times is None else (times[rows],)),
        )
        return is_learned

    def _fill_sample(
        self, matrix: Matrix, y: np.ndarray, weights: np.ndarray, order: np.ndarray, n_jobs: int | None
    ) -> np.ndarray:
        """Learn the rows that still fit into the sample; return the others, which begin a long stream."""
        first, order = self.runs[0], order[weights[order] != 0.0]
        if first.pilot is None:
            pilot, order = np.split(order, [PILOT_ROWS - first.examples])
            self._feed(matrix, y, weights, pilot, False, n_jobs)
        if not order.size or first.reservoir is None:
            return order
        costs = np.maximum(matrix.indptr[order + 1] - matrix.indptr[order], 1)
        head, rest = np.split(order, [np.searchsorted(np.cumsum(costs), first.reservoir.room, side="right")])
        self._feed(matrix, y, weights, head, False, n_jobs)
        if rest.size:
            self.long = outgrown(self.runs)
        return rest

    def _feed(
        self,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray,
        order: np.ndarray,
        is_repeat_pass: bool,
        n_jobs: int | None,
        times: np.ndarray | None = None,
    ) -> None:
        if len(self.runs) == 1:
            self.runs[0].feed(matrix, y, weights, order, is_repeat_pass, times)
        else:
            runs = [(run,) for run in self.runs]
            Threads(n_jobs).map("learn", lambda run: run.feed(matrix, y, weights, order, is_repeat_pass, times), runs)

    def grow(self, d: int) -> None:
        """Extend all runs to d features."""
        for run in self.runs:
            run.grow(d)
        if self.long is not None:
            self.long.grow(d)

    def add_run(self, run: Run) -> None:
        """Add a run, which learns from here on."""
        self.runs = [*self.runs, run]
        self._share_warnings()
        if self.long is not None:
            self.long.add(run)

    @property
    def is_by_row(self) -> bool:
        """Return whether the rows that are held out were given for each row of the fit."""
        return bool(self.runs) and self.runs[0].conversion.by_row is not None

    @property
    def examples(self) -> int:
        """Return the number of examples taken in so far, including the queued ones."""
        if self.model is not None:
            return self.model.t
        return self.runs[0].examples + len(self.noted or ()) if self.runs else 0

    @property
    def has_iterates(self) -> bool:
        """Return whether every run has begun to learn; before that it collects rows."""
        return bool(self.runs) and all(run.pilot is not None for run in self.runs)

    def begun(self) -> list[Run]:
        """Return the runs; a run that still collects rows is replaced by a copy that has learned them."""
        return [run.begun() for run in self.runs]

    def iterates_at(self, features: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the weights of the iterates at some slots, (features, models), and the intercepts, by run."""
        if self.long is not None:
            return self.long.weights_at(features, self.long.likely)
        return [run.weights_at(features) for run in self.runs]

    def early_iterates_at(self, features: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return weights and intercepts by run; while first rows are collected, those of copies that learned them."""
        if self.long is not None:
            return self.iterates_at(features)
        runs = self.runs
        if self.has_iterates:
            self.early = None
        else:
            if self.early is None or not self.early.goes_on(runs, self.class_since):
                self.early = Early(runs, self.class_since)
            runs = self.early.caught_up(runs)
        return [run.weights_at(features, often=True) for run in runs]

    def selected(self) -> np.ndarray:
        """Return the slots that have a nonzero weight in an iterate."""
        if self.long is None:
            return np.unique(np.concatenate([np.flatnonzero(run.weights()[0].any(1)) for run in self.runs]))
        found = self.iterates_at(np.arange(self.runs[0].d))
        return np.flatnonzero(np.logical_or.reduce([w.any(1) for w, _ in found]))

    def fingerprint(self) -> list[int]:
        """Return a checksum of the state of each run that has begun to learn."""
        runs = self.runs if self.long is None else [*self.runs, *self.long.runs]
        return [zlib.crc32(run.state.cell) for run in runs if run.pilot is not None and run.state is not None]

    # ---- one example at a time -------------------------------------------------------------------------------------

    def note(
        self, x: Any, target: Callable[[Any], float], y: Any, offset: float | None, time: float | None = None
    ) -> None:
        """Queue one example without learning it; ``target`` converts y into a number."""
        if self.described is not None and type(x) is not tuple:
            offset = self.described.offset_of(x) if offset is None else offset
            time = self.described.time_of(x) if time is None else time
            x = self.described.to_learn(x)
        if (offset is not None) != self.has_offset:
            had = "an" if self.has_offset else "no"
            raise ValueError(f"the examples so far had {had} offset: give one to all, or to none.")
        if self.times is not None:
            self.noting = self.noting or self.times.copy()
            self.before_last = self.noting.last
            self.noting.note(time)
        try:
            self.features.note(x)
        except BaseException:
            self._unnote_time()
            raise
        try:
            own = () if offset is None else checked_offset(offset, 1).tolist()
            self.noted.append(target(y))  # type: ignore[union-attr]
            self.noted_offsets = [*self.noted_offsets, *own] if own else self.noted_offsets
        except BaseException:
            self.features.unnote()
            self._unnote_time()
            raise

    def _unnote_time(self) -> None:
        if self.noting is not None:
            self.noting.unnote(self.before_last)

    def unnote(self) -> None:
        """Remove the last example from the queue."""
        assert self.noted is not None
        self.features.unnote()
        self.noted.pop()
        self.noted_offsets = self.noted_offsets[: len(self.noted)]
        self._unnote_time()

    def drain(self) -> tuple[Matrix, np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Return the queued examples as rows, targets, offsets and times, and empty the queue."""
        return self.features.drain(), *self.drain_targets()

    def drain_targets(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Return the targets, offsets and times of the queued examples, and empty their queues."""
        y, offset = np.array(self.noted), np.array(self.noted_offsets) if self.has_offset else None
        times = None if self.noting is None or not self.noting.queued else np.array(self.noting.queued)
        self.noted, self.noted_offsets, self.noting = [], (), None
        return y, offset, times

    # ---- the model -------------------------------------------------------------------------------------------------

    def convert(self, arranged: Callable[[Any], Any]) -> None:
        """Convert the state of the runs into the model; ``arranged`` brings the models into the order of ``coef_``."""
        if self.model is None:
            runs, answers = solved_at_once(self.runs)
            answers = answers if self.long is None else finish_long_stream(self.long, runs)
            model = convert_runs(runs, answers)
            if self.trimming is not None:
                model = model._replace(report=model.report | {"trimmed": self.trimming.report(len(self.features))})
            self.take(model, arranged)

    def with_sizes(self, arranged: Callable[[Any], Any]) -> Converted:
        """Return the model with those of fewer features, which are learned on first use."""
        assert self.model is not None
        if self.model.sizes is None:
            sizes = tuple(each.arranged(arranged) for each in sizes_of(self.begun()))
            self.model = self.model._replace(sizes=sizes, columns=None)  # they have further features
        return self.model

    def with_columns(self) -> Converted:
        """Return the model with the spreads of its columns, which are computed on first use."""
        assert self.model is not None
        if self.model.columns is None and self.runs:
            self.model = self.model.with_columns_of(self.begun()[0])
        return self.model

    def keep_intervals(self, intervals: Intervals) -> None:
        """Store the intervals of the model in it; spreads are computed again, for features that were only named."""
        assert self.model is not None
        self.model = self.model._replace(intervals=intervals, columns=None)

    def take(self, model: Converted, arranged: Callable[[Any], Any]) -> None:
        """Set the model; its weights come in the order of the runs."""
        if model.stability is not None:
            model = with_promise(model, self.labels_of)
        self.model = model.arranged(arranged)

    def labels_of(self, slots: list[int]) -> list[Any]:
        """Return the names of the features in some slots, or the numbers of their columns."""
        if self.lists_features:
            return [str(self.features.names[slot]) for slot in slots]
        return self.features.to_columns(np.array(slots, np.int64)).tolist()

    def take_weights(self, coef: Any, intercept: Any, features: Any) -> None:
        """Replace the weights of a finished model, and its features."""
        assert self.model is not None
        coef = sp.csr_array(coef if sp.issparse(coef) else np.atleast_2d(coef))
        intercept = np.atleast_1d(np.asarray(intercept, dtype=np.float64))
        model = self.model._replace(coef=coef, intercept=intercept, intervals=None, platt=None)
        self.features, self.model = features, model

    def finish_with(self, model: Converted | None, why: str) -> None:
        """Set the model and drop the training state; ``why`` is the reason why the fit cannot go on."""
        self.runs, self.long, self.held, self.model, self.noted = [], None, None, model, None
        self.ended = why
        self.enter(Phase.FINISHED)

    def drop_training(self, why: str) -> None:
        """Keep the converted model only; of the features seen, keep those that have a nonzero weight."""
        model, features = self.with_columns(), self.features
        if features.seen:
            used = model.used
            if not used.size and isinstance(features, SeenColumns):
                used = np.zeros(1, np.int64)  # a model needs at least one feature
            self.features, model = features.only(used), model.at(used)
        self.finish_with(model, why)

    # ---- copies ----------------------------------------------------------------------------------------------------

    def deep_copy(self) -> Self:
        """Return a state that shares the features and labels, with runs of its own."""
        twin = self.clone(copy.deepcopy(self.runs))
        twin.long, twin.held = copy.deepcopy(self.long), copy.deepcopy(self.held)
        return twin

    def clone(self, runs: list[Run] | None = None) -> Self:
        """Return a state that shares everything but the list of runs; ``runs`` replaces the runs, if given."""
        twin = copy.copy(self)
        twin.runs = list(self.runs) if runs is None else runs
        twin._share_warnings()
        return twin

    def shell(self, why: str) -> Self:
        """Return a finished state that has the features and labels but no model yet."""
        twin = self.clone([])
        twin.finish_with(None, why)
        twin.told = []
        return twin

    def snapshot(self) -> Callable[[], None]:
        """Return a function that restores this state, including the runs that still collect pilot rows."""
        restore_fields, features = super().snapshot(), self.features
        known = features.mark() if isinstance(features, Columns) else None
        collecting = [(run, run.before_pilot()) for run in self.runs if run.pilot is None]
        trimming = copy.deepcopy(self.trimming) if collecting else None
        restore_names = None if self.described is None else self.described.snapshot()

        def restore() -> None:
            now = self.features, self.trimming
            restore_fields()
            if restore_names is not None:
                restore_names()
            if self.trimming is not None and not collecting:  # features that have left the runs do not come back
                self.features, self.trimming = now
                return
            self.trimming = trimming
            if isinstance(features, Columns):
                features.back_to(known)
            for run, before in collecting:
                run.go_back(before)

        return restore

    @property
    def has_names(self) -> bool:
        """Return whether the features have names in place of columns."""
        return isinstance(self.features, Names)

    @property
    def lists_features(self) -> bool:
        """Return whether ``coef_`` has a column for each slot: features have names, or some of them are crosses."""
        return isinstance(self.features, Names | Crossed)
