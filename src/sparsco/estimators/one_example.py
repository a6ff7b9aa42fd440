"""Learning and predicting one example at a time."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..data.crosses import Crossed
from ..data.rows import Matrix, margins
from ..data.slots import Columns, Names
from .base import LinearBase
from .fit_state import FitState
from .life_cycle import Phase, alone, begin_alone, end_alone, unchanged_on_error
from .parameters import check_parameters, refuse_polish
from .row_offsets import checked_offset, codes_at, refuse_offset, shifted
from .row_times import checked_times
from .trimmed import learn_queued_bounded
from .views import refuse_in_view


class OneExample(LinearBase):
    """A linear model that takes examples one at a time; they are queued, and learned a few hundred at once."""

    def _new_features(self, d: int = 0) -> Columns:
        """Return slots for columns."""
        raise NotImplementedError

    def _begin_stream(self, d: int, one_by_one: bool = False) -> None:
        """Make the runs of a stream."""
        raise NotImplementedError

    def learn_rows(
        self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, *, times: np.ndarray | None = None
    ) -> None:
        """Learn the next rows of a stream."""
        raise NotImplementedError

    def learn_one(self, x: Any, y: Any, offset: float | None = None, time: float | None = None) -> Self:
        """Learn one example: x is a dict {name: value}, a list of tokens (1 for each), or a tuple (columns, values).

        A text v under a name is the feature ``name=v``, and None is left out.  In a stream that began with a table, a
        dict has cells of the table's columns (docs/tables.md); in one that began with texts, x is a text.

        The example is queued here.  It is learned with a few hundred others, or when the model is read: a call costs
        microseconds.  New features may come at any time.  New classes may come too, unless a first ``partial_fit``
        declared all classes.

        In a stream that begins here ``conversion="auto"`` means the iterate itself, and ``optimizer="auto"`` means
        ``NFTRL(per_feature_clock=True)``: the objective of a feature starts at its first appearance.

        ``offset`` is added to the margin of the example; all examples of a stream have one, or none has.  In a stream
        that began with a table it is found in the dict.
        ``time`` is that of the example, in the unit of ``half_life``.
        """
        if time is not None and self.half_life is None:
            checked_times([time], 1, None)
        is_first = begin_alone(self)  # as in the context manager, which would take longer than the rest
        try:
            state = self._fit
            if state.noted is None:
                with unchanged_on_error(self):
                    self._begin_noting(x, offset is not None)
                    self._note(x, y, offset, time)
            else:
                self._note(x, y, offset, time)
                if len(state.noted) >= state.noted_at_once:
                    self._flush()
        finally:
            if is_first:
                end_alone(self)
        return self

    def _note(self, x: Any, y: Any, offset: float | None = None, time: float | None = None) -> None:
        self._fit.note(x, self._target, y, offset, time)

    def _begin_noting(self, x: Any, has_offset: bool) -> None:
        """Start to queue examples of ``learn_one``, for the stream under way or for a new one."""
        anew = not self._goes_on()
        if anew:
            self._fit = FitState(self._new_features() if type(x) is tuple else Names())
            self._fit.has_offset = has_offset
        self._begin_labels(anew)
        if self._fit.has_offset:
            refuse_offset(self, self.loss_record())
        if anew:
            check_parameters(self)
            refuse_polish(self, "learn_one")
            self.n_features_in_ = 0
            self._begin_stream(0, one_by_one=True)
        self._fit.go_on(Phase.STREAM)
        self._fit.noted, self._fit.noted_offsets = [], ()
        self._end_queue(0)

    def _end_queue(self, rows: int) -> None:
        """Count queued examples that were learned; crosses are born at boundaries, where a queue ends, too."""
        state = self._fit
        if isinstance(state.features, Crossed):
            if state.features.count(rows):
                self.bear_crosses()
            state.noted_at_once = min(FitState.noted_at_once, state.features.rows_to_boundary())

    def _flush(self) -> None:
        """Learn the examples that ``learn_one`` has queued."""
        if not self.fit_state.noted:
            return
        with alone(self):
            refuse_in_view(self)
            self._goes_on()
            if self._fit.trimming is None:
                matrix, y, offset, times = self._fit.drain()
                self.n_features_in_ = self._fit.features.width
                weights = self._class_weights(y)
                self.learn_rows(matrix, y if offset is None else codes_at(self, y, offset), weights, times=times)
            else:
                keys, rows = self._fit.features.drain_by_key()
                y, offset, times = self._fit.drain_targets()
                weights = self._class_weights(y)
                learn_queued_bounded(
                    self, keys, rows, y if offset is None else codes_at(self, y, offset), weights, times
                )
                self.n_features_in_ = self._fit.features.width
            self._end_queue(len(y))

    def _margins_one(self, x: Any, offset: float | None = None) -> np.ndarray:
        """Return the margins of one example, one per model; those of the iterate while a stream is under way."""
        self.check_fitted()
        self._flush()
        described = self._fit.described
        if described is not None and offset is None:
            offset = described.offset_of(x)
        p = self._margins_without(x)
        return p if offset is None else shifted(p[None], checked_offset(offset, 1), self)[0]

    def _margins_without(self, x: Any) -> np.ndarray:
        """Return the margins of one example without an offset."""
        if self._fit.described is not None and type(x) is not tuple:
            if self._fit.model is not None or self._fit.phase is not Phase.STREAM:
                return self.margins_of_record(x)
            row = self._fit.features.find(self._fit.described.row(x, self._fit.features, None))
        else:
            row = self._fit.features.row(x)
        if self._fit.phase is not Phase.STREAM:
            if isinstance(self._fit.features, Crossed):  # the same sums as those of many rows
                return self.margins_of_slots(row)[0]
            model = self.convert()
            return (row.to_scipy() @ model.coef.T).toarray()[0] + model.intercept
        iterates = self._fit.early_iterates_at(row.indices.astype(np.int64))
        return self.arranged(np.concatenate([row.data @ w + b for w, b in iterates]))

    def iterate_margins(self, rows: Matrix) -> np.ndarray:
        """Return the margins of rows, which have slots, at the iterate of the stream under way, (rows, models)."""
        features, places = rows.indices.astype(np.int64), np.arange(len(rows.indices))  # one weight for each entry
        parts = [margins(rows.indptr, places, rows.data, w, b) for w, b in self._fit.early_iterates_at(features)]
        return np.ascontiguousarray(self.arranged(np.concatenate(parts, 1).T).T)
