"""Learning with crosses: rows get their crosses part by part, and crosses are born at boundaries of the stream."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..data.crosses import CHILD, Cross, Crossed, Naming
from ..data.rows import Matrix
from ..engine.growth import rewrite_rows
from ..engine.long_stream import LongStream
from ..engine.run import DivergenceError
from .base import LinearBase
from .fit_state import FitState
from .parameters import by_column
from .trimming_checks import trims


class CrossLearning(LinearBase):
    """A linear model whose features may be columns and crosses of them."""

    def place(self, matrix: Matrix) -> Matrix:
        """Return the rows with slots in place of columns; new features get new slots."""
        raise NotImplementedError

    def _begin_stream(self, d: int, one_by_one: bool = False, names: Sequence[str] | None = None) -> None:
        """Make the runs of a stream."""
        raise NotImplementedError

    def learn_rows(
        self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, is_repeat_pass: bool = False
    ) -> None:
        """Learn the next rows of a stream."""
        raise NotImplementedError

    def begin_crosses(self, cross: Cross | None) -> None:
        """Let the columns of a stream that begins be crossed, if crosses were asked for."""
        if cross is not None:
            refuse_crosses(self)
            self._fit = FitState(Crossed(cross))

    def name_crossed(self, naming: Naming | None) -> None:
        """Set the names of columns that are crossed, as a reader knows them."""
        if isinstance(self._fit.features, Crossed):
            self._fit.features.naming = naming

    def _learn_crossed(
        self,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None,
        first: bool,
        is_repeat_pass: bool,
        order: np.ndarray | None,
    ) -> None:
        """Learn the next rows of a stream with their crosses, up to one boundary after the other."""
        features, described = self._fit.features, self._fit.described
        if features.naming is None and described is not None and (known := described.known_names()) is not None:
            features.naming = Naming(lambda columns: [known[column] for column in columns.tolist()], True)
        features.check_columns(matrix)
        rows = np.arange(len(matrix)) if order is None else order
        for part in features.parts(matrix, rows):
            placed = self.place(matrix.take(part))
            if first:
                self._begin_stream(placed.d)
                first = False
                if has_births(features) and self._fit.runs[0].conversion.bounds_false_features:
                    raise ValueError(
                        "a promise on false features holds for features that are chosen before the labels are seen, "
                        "and born crosses are not: leave out birth, or fdr and efp."
                    )
            self.learn_rows(placed, y[part], None if weights is None else weights[part], is_repeat_pass)
            if features.count(len(part)):
                self.bear_crosses()

    def bear_crosses(self) -> None:
        """Let the crosses of the features that are selected here exist, from the first row of the sample on."""
        state = self._fit
        features = state.features
        features.bear(self._strongest(features))
        rewrite_all(state, features.placed_again)
        state.grow(features.room)

    def _strongest(self, features: Crossed) -> np.ndarray:
        """Return the columns that a model has which is made of the stream up to here, the strongest ones.

        They are ordered by |weight| times spread.  There are at most as many as the root of the number of rows, so that
        all crosses that were born are never more than the rows.
        """
        state = self._fit
        told, own = list(state.told), [list(run.warnings) for run in state.runs]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                state.convert(self.arranged)
                model = state.with_columns()
        except DivergenceError:  # the model at the end has its own chance
            return np.empty(0, np.int64)
        finally:
            state.told[:] = told
            for run, before in zip(state.runs, own, strict=True):
                run.warnings = before
        state.model = None
        assert model.columns is not None
        used = np.unique(model.coef.indices)
        used = used[features.to_columns(used) < CHILD]
        effects = abs(model.coef[:, used]).max(0).toarray().ravel() * model.columns[[0]][:, used].toarray().ravel()
        most = min(features.asked.birth, math.isqrt(features.rows))
        order = np.argsort(-effects, kind="stable")[:most]
        return np.sort(features.to_columns(used[order]))


def rewrite_all(state: FitState, rewritten: Callable[[Matrix], Matrix]) -> None:
    """Replace all rows that a fit keeps, whose columns are slots, by what ``rewritten`` returns for them."""
    for run in state.runs:
        rewrite_rows(run, rewritten)
    if state.held is not None:
        state.held.rewrite(rewritten)
    if isinstance(state.long, LongStream):
        state.long.held.rewrite(rewritten)


def has_births(features: Any) -> bool:
    """Return whether crosses of these features have to be born."""
    return isinstance(features, Crossed) and bool(features.asked.birth)


def refuse_crosses(model: Any) -> None:
    """Raise a ValueError if a parameter has a value for every column, which crosses have not."""
    if by_column(model):
        raise ValueError(f"{by_column(model)} has one value per column, and crosses have none: leave out one of them.")
    if trims(model):
        raise ValueError("max_features and trim let features leave, and crosses need their parents: leave out one.")
