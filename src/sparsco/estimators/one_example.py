"""Learning and predicting one example at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from ..data.rows import Matrix
from ..data.slots import Columns, Names
from .base import LinearBase
from .fit_state import FitState, Phase, unchanged_on_error
from .parameters import check_parameters, refuse_polish
from .trimmed import learn_bounded
from .views import refuse_in_view

_NOTED = 1024
"""The number of examples of ``learn_one`` that are learned at once."""


class OneExample(LinearBase):
    """A linear model that takes examples one at a time; they are queued, and learned a few hundred at once."""

    def _new_features(self, d: int = 0) -> Columns:
        """Return slots for columns."""
        raise NotImplementedError

    def _begin_stream(self, d: int, one_by_one: bool = False) -> None:
        """Make the runs of a stream."""
        raise NotImplementedError

    def learn_rows(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None) -> None:
        """Learn the next rows of a stream."""
        raise NotImplementedError

    def learn_one(self, x: Any, y: Any) -> Self:
        """Learn one example: x is a dict {name: value}, a list of tokens (1 for each), or a tuple (columns, values).

        A text v under a name is the feature ``name=v``, and None is left out.  In a stream that began with a table, a
        dict has cells of the table's columns (docs/tables.md).

        The example is queued here.  It is learned with a few hundred others, or when the model is read: a call costs
        microseconds.  New features may come at any time.  New classes may come too, unless a first ``partial_fit``
        declared all classes.

        In a stream that begins here ``conversion="auto"`` means the iterate itself, and ``optimizer="auto"`` means
        ``NFTRL(per_feature_clock=True)``: the objective of a feature starts at its first appearance.
        """
        state = self._fit
        if state.noted is None:
            with unchanged_on_error(self):
                self._begin_noting(x)
                self._note(x, y)
        else:
            self._note(x, y)
            if len(state.noted) >= _NOTED:
                self._flush()
        return self

    def _note(self, x: Any, y: Any) -> None:
        self._fit.note(x, self._target, y)

    def _begin_noting(self, x: Any) -> None:
        """Start to queue examples of ``learn_one``, for the stream under way or for a new one."""
        anew = not self._goes_on()
        if anew:
            self._fit = FitState(self._new_features() if type(x) is tuple else Names())
        self._begin_labels(anew)
        if anew:
            check_parameters(self)
            refuse_polish(self, "learn_one")
            self.n_features_in_ = 0
            self._begin_stream(0, one_by_one=True)
        self._fit.go_on(Phase.STREAM)
        self._fit.noted = []

    def _flush(self) -> None:
        """Learn the examples that ``learn_one`` has queued."""
        if not self.fit_state.noted:
            return
        refuse_in_view(self)
        self._goes_on()
        if self._fit.trimming is None:
            matrix, y = self._fit.drain()
            self.n_features_in_ = self._fit.features.width
            self.learn_rows(matrix, y, self._class_weights(y))
        else:
            keys, rows = self._fit.features.drain_by_key()
            y = self._fit.drain_targets()
            learn_bounded(self, keys, rows, y, self._class_weights(y))
            features = self._fit.features
            self.n_features_in_ = features.width
            if self._fit.described is not None:
                self._fit.described.forget_names(features.to_columns(np.arange(len(features))))

    def _margins_one(self, x: Any) -> np.ndarray:
        """Return the margins of one example, one per model; those of the iterate while a stream is under way."""
        self.check_fitted()
        self._flush()
        if self._fit.described is not None and isinstance(x, Mapping):
            if self._fit.model is not None or self._fit.phase is not Phase.STREAM:
                return self.margins_of_record(x)
            row = self._fit.features.find(self._fit.described.row(x, self._fit.features, None))
        else:
            row = self._fit.features.row(x)
        if self._fit.phase is not Phase.STREAM:
            model = self.convert()
            return (row.to_scipy() @ model.coef.T).toarray()[0] + model.intercept
        iterates = [run.weights_at(row.indices.astype(np.int64)) for run in self._fit.begun()]
        return self.arranged(np.concatenate([row.data @ w + b for w, b in iterates]))
