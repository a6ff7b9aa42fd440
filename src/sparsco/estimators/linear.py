"""The training of a linear model: passes over rows that are all there, and streams of rows.

Nothing here needs scikit-learn, whose import takes longer than most commands; `estimators.sklearn` adds its contract.

The training state is in the ``FitState`` of the model.  A fit goes through it in one direction: ``start``, ``feed``,
``convert``, ``drop_training``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from ..choice.splits import ByRow
from ..data.crosses import Cross, Crossed, Naming
from ..data.randomness import Purpose, uniform
from ..data.rows import Matrix
from ..data.slots import Columns, Names, SeenColumns
from ..engine.at_once import begun_to_polish
from ..engine.polish_rows import Part, Rows, RowsInMemory, RowsInPasses, sample_rows
from ..engine.reweighting import finish_certified
from ..penalties import strength
from ..solver.units import Units
from ..streams.description import Description
from ..util.attributes import add_attributes, attributes
from ..util.progress import Progress, steps_shown
from ..util.validation import check_count
from .converted import Converted, convert_runs
from .crossing import CrossLearning
from .described import Described
from .fit_state import FitState
from .life_cycle import Phase, unchanged_on_error
from .one_example import OneExample
from .parameters import by_column, check_parameters, half_life_of, in_units, new_runs, tolerance
from .passes import are_solved, at_rows, check_some_weight, counted_rows, rows_for_start, run_passes, starting_point
from .reading import Readable
from .row_times import ROWS_COME_ONCE
from .trimmed import learn_next_bounded
from .trimming_checks import refuse_trimming, trims

_CHECKED_ROWS = 20_000
_SLICE = 1 << 20
_MANY_COLUMNS = 1 << 20
"""The number of columns from which ``storage="auto"`` has room only for columns that occur, if that number is known."""


class LinearModel(CrossLearning, OneExample, Readable):
    """A linear model that learns in passes and in streams; the base of the classifier and the regressor."""

    # ---- all rows at once ------------------------------------------------------------------------------------------

    def fit_rows(
        self,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None,
        goes_on: bool = False,
        init: tuple[Any, Any] = (None, None),
        by_row: ByRow | None = None,
        times: np.ndarray | None = None,
    ) -> None:
        """Learn rows that are all there, in passes; ``init`` are weights and intercepts to start from.

        ``by_row`` has the splits and groups of the rows, by which alpha is chosen.  Rows with ``half_life`` are read
        once, in their order; ``times`` are theirs.
        """
        refuse_trimming(self, "fit")
        placed, codes, weights = self.begin_rows(matrix, y, weights, goes_on, init, by_row=by_row)
        self._passes(placed, codes, weights, times)
        if tolerance(self):
            part = Part(placed, codes, np.ones(len(placed)))
            if weights is not None:
                rows = np.flatnonzero(weights)
                part = Part(placed.take(rows), codes[rows], weights[rows])
            self.polish_on(RowsInMemory(*part))
            for run in self._fit.runs:
                sample_rows(run, part, is_first=True)

    def begin_rows(
        self,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None,
        goes_on: bool = False,
        init: tuple[Any, Any] = (None, None),
        phase: Phase = Phase.BATCH,
        by_row: ByRow | None = None,
    ) -> tuple[Matrix, np.ndarray, np.ndarray | None]:
        """Make the runs for rows that are all there; return the rows with slots, the codes and the weights."""
        codes, weights = self.encode_all(y, weights, goes_on)
        check_some_weight(weights)
        placed = self.place(matrix)
        if goes_on:
            if any(part is not None for part in init):
                raise ValueError(
                    "coef_init and intercept_init have no effect where warm_start continues: leave them out."
                )
            if by_row is not None:
                raise ValueError(
                    "groups and splits of cv are those of one fit, which warm_start cannot continue: fit all rows at "
                    "once, or give a number of folds."
                )
            self._fit = self._fit.deep_copy()
            self._fit.grow(placed.d)
            self._fit.go_on(phase)
        else:
            start, features = None, self._fit.features
            if any(part is not None for part in init):
                m = sum(targets.m for targets in self.targets_of_runs())
                w, b = starting_point(*init, self.n_features_in_, m)
                start = features.start(w), b
            if by_row is not None:
                by_row = by_row.among(counted_rows(len(codes), weights), len(codes))
            units, fades = None, half_life_of(self) is not None  # rows that fade are a stream, also in a fit
            if in_units(self, start is not None) and not fades:
                units = Units.of(placed, features.room, weights)
            self._fit.start(new_runs(self, features.room, start, by_row=by_row, units=units), phase, self)
            self.n_iter_ = 0
        return placed, codes, weights

    def _passes(
        self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, times: np.ndarray | None = None
    ) -> None:
        """Learn the rows in passes until the objective no longer falls."""
        state, rows = self._fit, counted_rows(len(matrix), weights)
        is_open = self.conversion == "auto" and self.tol is not None and not self.early_stopping
        is_solved = tolerance(self) or self.is_automatic or (is_open and are_solved(matrix, state.runs))
        in_order = half_life_of(self) is not None
        passes = 1 if is_solved or in_order else self.max_iter
        times = state.row_times(rows, weights, len(matrix), times)
        rows = rows[state.hold_out(matrix, y, weights, rows, self.validation_fraction, times)]
        learned, checked = (rows, None) if self.is_automatic else self._rows_to_check(rows)
        if tolerance(self) and not self.is_automatic:
            learned = rows_for_start(matrix, rows, y, state.runs[0].problem)
        weights = np.ones(len(matrix)) if weights is None else weights
        for run in state.runs:
            if run.set_stream_length(len(learned) * passes):
                checked = None  # a conversion that was given the length of the stream must get all of its rows
        if checked is not None and passes > 1:
            looked_at = matrix if len(checked) == len(matrix) else matrix.take(checked)
            targets = [run.lanes_of(y[checked], weights[checked]) for run in state.runs]
        best, stale, done = np.inf, 0, 0
        progress = Progress(type(self).__name__, len(learned), passes, self.verbose)

        def learn(order: np.ndarray, epoch: int) -> None:
            nonlocal done
            state.feed(matrix, y, weights, order, epoch > 0, self.n_jobs, times)
            done += len(order)
            progress.show(epoch + 1, done - epoch * len(learned))

        def is_done(epoch: int) -> bool:
            nonlocal best, stale
            self.n_iter_ += 1
            if checked is None or epoch + 1 == passes:
                return False
            objective = self._objective(looked_at, targets, penalised=not self.early_stopping)
            stale = stale + 1 if objective > best - (self.tol or 0.0) * abs(objective) else 0
            best = min(best, objective)
            return stale >= self.n_iter_no_change

        run_passes(
            learned,
            passes,
            learn,
            seed=state.runs[0].seed,
            shuffle=self.shuffle and not self.is_automatic and not in_order,
            first=self.n_iter_,
            size=_SLICE,
            is_done=is_done,
        )
        progress.close()

    def _rows_to_check(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the rows to learn, and the rows on which the objective is computed after each pass."""
        if self.early_stopping:
            held = uniform(self._fit.runs[0].seed, Purpose.VALIDATION, np.arange(len(rows))) < self.validation_fraction
            if held.all() or not held.any():
                raise ValueError(
                    f"validation_fraction={self.validation_fraction} of {len(rows)} rows leaves nothing to learn or "
                    "to check: give more rows or set early_stopping=False."
                )
            return rows[~held], rows[held]
        return rows, None if self.tol is None else rows[:: max(1, len(rows) // _CHECKED_ROWS)]

    def _objective(self, matrix: Matrix, targets: list[tuple[np.ndarray, np.ndarray]], penalised: bool) -> float:
        """Return the mean loss of the iterates, summed over the models; infinity if there are no iterates yet.

        ``targets`` has the targets and weights of the rows for each run.  ``penalised`` adds the penalty.
        """
        total = 0.0
        for run, lanes in zip(self._fit.runs, targets, strict=True):
            if run.pilot is None:
                return np.inf
            w, b = run.weights()
            total += run.mean_loss(matrix, *lanes, run.for_given_rows(w), b)
            if penalised:
                total += float(np.sum(strength(run.problem.penalty, w)))
        return total

    def polish_on(self, rows: Rows) -> None:
        """Solve for the optimum over all rows, which becomes the model.

        The rows have slots, codes and weights.
        """
        runs = begun_to_polish(self._fit.runs, rows)
        with steps_shown(type(self).__name__, self.verbose):
            model = convert_runs(runs, finish_certified(runs, rows, tolerance(self)))
        n = rows.count or runs[0].examples
        self._fit.take(model._replace(t=n, report=model.report | {"examples": n}), self.arranged)

    def polish_on_chunks(self, chunks: Callable[[], Iterable[tuple[Matrix, np.ndarray, np.ndarray | None]]]) -> None:
        """Solve for the optimum over the rows of a reader, which becomes the model.

        The rows are those that were learned.
        """

        passes = 0

        def rows() -> Iterator[tuple[Matrix, np.ndarray, np.ndarray]]:
            nonlocal passes
            passes += 1
            is_first_pass = passes == 1
            for number, (matrix, y, weights) in enumerate(chunks()):
                codes, scale = self.encode_next(y, weights, False, None, is_repeat=True)
                part = Part(self.find(matrix), codes, np.ones(len(codes)) if scale is None else scale)
                for run in self._fit.runs if is_first_pass else ():
                    sample_rows(run, part, is_first=number == 0)
                yield part

        self.polish_on(RowsInPasses(rows))

    # ---- a stream --------------------------------------------------------------------------------------------------

    def take_rows(
        self,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        classes: Any = None,
        order: np.ndarray | None = None,
        is_repeat_pass: bool = False,
        columns: int = 0,
        names: Sequence[str] | None = None,
        times: np.ndarray | None = None,
        cross: Cross | None = None,
        naming: Naming | None = None,
    ) -> Self:
        """Learn the next rows of a stream from a reader, which has checked them: ``partial_fit`` without the checks.

        ``order`` selects and orders the rows; ``is_repeat_pass`` is True in a further pass.  ``columns`` is the number
        of columns that the stream will have, if known.  ``names`` are the names of all features, which groups need.
        ``times`` are those of the rows, for ``half_life``.
        ``cross`` are the crosses of a new stream, and ``naming`` has the names of columns, which crosses need.
        """
        self._flush()
        with unchanged_on_error(self):
            first = self._begins("a stream")
            if first:
                self.forget(columns)
                self.begin_crosses(cross)
            self.name_crossed(naming)
            self.n_features_in_ = matrix.d if first else max(matrix.d, self.n_features_in_)
            self._learn_next(matrix, y, weights, first, classes, is_repeat_pass, order, names, times)
        return self

    def _begins(self, what: str) -> bool:
        """Return whether the next rows are the first of a stream; no examples may be queued."""
        first = not self._goes_on()
        if first:
            check_parameters(self)
        if self.early_stopping:
            raise ValueError(f"early_stopping=True needs all rows at once, which {what} does not get.")
        return first

    def _learn_next(
        self,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None,
        first: bool,
        classes: Any,
        is_repeat_pass: bool = False,
        order: np.ndarray | None = None,
        names: Sequence[str] | None = None,
        times: np.ndarray | None = None,
    ) -> None:
        if order is None:
            y, weights = self.encode_next(y, weights, first, classes, is_repeat_pass)
        else:  # the other rows come in another call, or not at all
            own = None if weights is None else weights[order]
            codes, own = self.encode_next(y[order], own, first, classes, is_repeat_pass)
            y = at_rows(codes, order, len(y))
            weights = None if own is None else at_rows(own, order, len(y))
        if isinstance(self._fit.features, Crossed):
            return self._learn_crossed(matrix, y, weights, first, is_repeat_pass, order)
        if trims(self):
            if first:
                self._begin_stream(self._fit.features.room)
            return learn_next_bounded(self, matrix, y, weights, is_repeat_pass, order, times)
        matrix = self.place(matrix)
        if first:
            self._begin_stream(matrix.d, names=names)
        self.learn_rows(matrix, y, weights, is_repeat_pass, order, times)

    def _begin_stream(self, d: int, one_by_one: bool = False, names: Sequence[str] | None = None) -> None:
        runs = new_runs(self, d, one_by_one=one_by_one, names=names)
        for run in runs:
            run.validate_on_dummy_rows()
        self._fit.start(runs, Phase.STREAM, self)
        self.n_iter_ = 1

    def learn_rows(
        self,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None,
        is_repeat_pass: bool = False,
        order: np.ndarray | None = None,
        times: np.ndarray | None = None,
    ) -> None:
        """Learn the next rows of the stream, which may bring new features and classes."""
        state = self._fit
        state.go_on(Phase.STREAM)
        state.grow(matrix.d)
        rows, at = np.arange(len(matrix)) if order is None else order, 0
        if state.held is not None and is_repeat_pass:
            raise ValueError("calibrate=True holds rows out in one pass only: set passes to 1.")
        if state.times is not None and is_repeat_pass:
            raise ValueError(ROWS_COME_ONCE)
        times = state.row_times(rows, weights, len(matrix), times)
        is_learned = state.hold_out(matrix, y, weights, rows, self.validation_fraction, times)
        for code, first in [*self._new_classes(y[rows]), (None, len(rows))]:
            part = slice(at, first)
            state.feed(matrix, y, weights, rows[part][is_learned[part]], is_repeat_pass, self.n_jobs, times)
            if code is not None:
                self._add_class(code)
                state.class_since = state.runs[0].examples + 1
            at = first

    def judge(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, float] | None:
        """Return the sums of the loss and of ``mistakes`` of the iterate over rows that it has not learned.

        The result is None before there is an iterate.
        """
        found, scale = self.judge_rows(matrix, y), np.ones(len(matrix)) if weights is None else weights
        return None if found is None else (float((scale * found[0]).sum()), float((scale * found[1]).sum()))

    def judge_rows(self, matrix: Matrix, y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the loss and the mistake of the iterate on each of some rows; None before there is an iterate."""
        if not self._fit.has_iterates:
            return None
        p = self.iterate_margins(self.find(matrix))
        return self.judged_losses(p, y), self.mistakes(p, y)

    # ---- features --------------------------------------------------------------------------------------------------

    def forget(self, columns: int = 0) -> None:
        """Reset the state of the fit; ``columns`` is the number of columns of the next rows, if known."""
        self._fit = FitState(self._new_features(columns))

    def _new_features(self, d: int = 0) -> Columns:
        """Return new slots for a stream of rows with d columns; d is 0 if the number is not known."""
        many = self.storage == "auto" and d >= _MANY_COLUMNS and not by_column(self)
        return SeenColumns() if many or self.storage == "seen" or trims(self) else Columns()

    def widen(self, columns: int) -> None:
        """Extend the model to at least this number of columns."""
        self.n_features_in_ = self._fit.features.width = max(self.n_features_in_, columns)

    def describe(
        self,
        description: Description,
        names: Sequence[str] | Mapping[int, str] | None,
        counts: Mapping[str, Any] | None = None,
    ) -> None:
        """Set the columns of the tables that the model takes, the names of its columns, and frequencies of texts."""
        self._fit.described = Described(description, names, counts)

    def label_columns(self, names: Mapping[int, str], by_name: bool = False, hash_seed: int | None = None) -> None:
        """Set the names of columns for readers of the model; ``by_name`` means that these names are the features.

        ``hash_seed`` is the seed of names that were hashed with signs.
        """
        self._fit.labels, self._fit.by_name, self._fit.hash_seed = names, by_name, hash_seed

    def name_features(self, names: dict[int, Any]) -> None:
        """Replace the columns of a finished model by features with these names."""
        self._fit.features = Names().of(np.arange(len(names)), len(names), names)

    def place(self, matrix: Matrix) -> Matrix:
        """Return the rows with slots in place of columns; new features get new slots."""
        features = self._fit.features
        if isinstance(features, Columns):
            features.reach(self.n_features_in_, matrix)
        return features.place(matrix)

    def find(self, matrix: Matrix) -> Matrix:
        """Return the rows with slots in place of columns; features without a slot are left out."""
        return self._fit.features.find(matrix)

    # ---- the life cycle --------------------------------------------------------------------------------------------

    def finalize(self) -> Self:
        """Drop the training state and keep the model: it is small and predicts, but cannot learn further.

        If storage follows the features seen, those of weight zero are dropped.
        """
        self.drop_training("finalize() dropped the training state")
        return self

    def drop_training(self, why: str) -> None:
        """Keep the converted model only; ``why`` is the reason why it cannot go on."""
        self.convert_with_sizes()
        self._fit.drop_training(why)
        if self._fit.has_names:
            self.n_features_in_ = len(self._fit.features)

    def finish_with(self, model: Converted, why: str, features: Any = None, outputs: int | None = None) -> None:
        """Set the model, without a training state; ``why`` is the reason why it cannot go on.

        ``features`` and ``outputs`` are its slots and the columns of y, if nothing was learned here.
        """
        if features is not None:
            self._fit = FitState(features)
            self._fit.outputs = outputs
        self._fit.finish_with(model, why)

    def with_weights(self, coef: Any, intercept: Any) -> Self:
        """Return a copy with these weights, in the shapes of ``coef_`` and ``intercept_``; it learns no further."""
        if self.fit_state.lists_features:
            raise ValueError("with_weights needs one number per column, but the features of this model have names.")
        twin, features = copy.deepcopy(self), Columns()
        twin.drop_training("with_weights() left the training state behind")
        features.width = self.n_features_in_
        twin.fit_state.take_weights(coef, intercept, features)
        return twin

    def at_size(self, k: int) -> Self:
        """Return the model with at most k features, after an automatic fit; no rows are needed.

        It is the stored model of least loss on held-out rows among those of at most k features, or this model itself
        if it has no more.  It learns no further.
        """
        check_count("k", k)
        solved = self.convert_with_columns(sizes=self.n_selected_ > k)
        if self.n_selected_ > k:
            solved = solved.at_size(k)
        why = "at_size() keeps no training state"
        twin = self.twin(self._fit.shell(why))
        twin.finish_with(solved._replace(sizes=()), why)
        twin.drop_training(why)
        return twin

    def twin(self, state: FitState | None = None, kind: Any = None) -> Any:
        """Return an object that shares all attributes with this model.

        ``kind`` and ``state`` replace its class and its state, if given.
        """
        other = object.__new__(kind or type(self))
        add_attributes(other, attributes(self))
        if state is not None:
            other._fit = state
        return other

    def shell(self) -> Self:
        """Return a copy without the runs, for a model of a path: labels, features and parameters."""
        return copy.deepcopy(self.twin(self._fit.shell("a model of a path holds no training state")))

    def __getstate__(self) -> Any:
        """Return the model alone after ``fit`` without ``warm_start``; for a stream return all it needs to go on."""
        self._flush()
        if self.fit_state.phase is not Phase.BATCH or self.warm_start:
            return super().__getstate__()
        self.convert_with_sizes()
        model = self.twin(self._fit.clone())
        model.drop_training(
            "a pickle made after fit holds no training state (warm_start=True before fit would have kept it)"
        )
        return super(LinearModel, model).__getstate__()

    def __deepcopy__(self, memo: dict) -> Self:
        twin = object.__new__(type(self))
        memo[id(self)] = twin
        add_attributes(twin, copy.deepcopy(attributes(self), memo))
        return twin
