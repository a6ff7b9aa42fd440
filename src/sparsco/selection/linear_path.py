"""A path: models for many strengths of the L1 term from one read of the data, and the choice of one of them.

The models are lanes of one run, each equal to a run of its own.  They share the L2 weight, which the estimator's
``alpha`` and ``l1_ratio`` imply; their own strength replaces its L1 weight.  Nothing here needs scikit-learn; ``paths``
adds its contract.
"""

from __future__ import annotations

import copy
import inspect
import numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from ..data.rows import Matrix
from ..engine.polish_rows import RowsInPasses
from ..estimators.life_cycle import Phase, unchanged_on_error
from ..estimators.linear import LinearModel
from ..estimators.parameters import half_life_of
from ..estimators.row_times import ROWS_COME_ONCE
from ..estimators.tasks import LinearClassifier
from ..estimators.views import refuse_in_view
from ..util.attributes import add_attributes, attributes, stored
from .judging import Rows
from .learning import USELESS_PASSES, check_count, finished, learner_of, strengths_of
from .path import Path, check_rule
from .path_state import PathState

_FEW_ROWS = 10_000
_SHARE = 0.2
"""The share of rows that ``validation="auto"`` holds out, if there are fewer than ``_FEW_ROWS`` rows."""


class LinearPath:
    """Models for several strengths of the L1 term, learned in one read of the rows of a reader."""

    needs_classes = True
    _fit: PathState
    _part = slice(None)
    """The slice of the strengths that are learned here."""

    def __init__(
        self,
        estimator: Any = None,
        *,
        alphas: Any = None,
        n_alphas: int = 32,
        eps: float = 1e-3,
        choose: Any = "min",
        validation: Any = "auto",
        passes: int = 1,
        dtype: Any = "float64",
    ) -> None:
        self.estimator = estimator
        self.alphas = alphas
        self.n_alphas = n_alphas
        self.eps = eps
        self.choose = choose
        self.validation = validation
        self.passes = passes
        self.dtype = dtype

    # ---- learning --------------------------------------------------------------------------------------------------

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
    ) -> Self:
        """Learn the rows of a reader, which calls :meth:`judge` itself."""
        rows = np.arange(len(matrix)) if order is None else order
        with unchanged_on_error(self):
            if self.fit_state.learner is None:
                self._begin(self.new_learner(), self._share(None))
            times = self._fit.row_times(weights, len(matrix), times)
            kept = self._fit.keep(matrix, y, weights, rows, is_repeat_pass, times)
            self._take(matrix, y, weights, kept, is_repeat_pass, classes, columns, names, times)
        return self

    def _take(
        self,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None,
        order: np.ndarray,
        is_repeat_pass: bool,
        classes: Any,
        columns: int = 0,
        names: Sequence[str] | None = None,
        times: np.ndarray | None = None,
    ) -> None:
        learner = self._fit.learner
        if learner.classifies and not learner.fit_state.is_fitted and classes is None:
            raise ValueError("a path needs all classes at its beginning: name them, classes=.")
        learner.take_rows(
            matrix,
            y,
            weights,
            classes=classes,
            order=order,
            is_repeat_pass=is_repeat_pass,
            columns=columns,
            names=names,
            times=times,
        )
        self._fit.go_on(Phase.STREAM)

    def new_learner(self) -> LinearModel:
        """Return a new estimator that learns all strengths."""
        check_rule(self.choose)
        check_count("passes", self.passes)
        if self.passes > 1 and self.validation not in ("auto", "progressive"):
            raise ValueError("passes > 1 would learn the rows held out: use validation='progressive'.")
        estimator = LinearClassifier() if self.estimator is None else self.estimator
        if not isinstance(estimator, LinearModel):
            raise ValueError(f"estimator={estimator!r}: it must be a SparseClassifier or SparseRegressor.")
        if self.passes > 1 and half_life_of(estimator) is not None:
            raise ValueError(ROWS_COME_ONCE)
        strengths = strengths_of(self.alphas, self.n_alphas, self.eps)[self._part]
        return learner_of(estimator, strengths, self.dtype)

    def _begin(self, learner: LinearModel, share: float) -> None:
        self._fit = PathState(learner, share)

    def _share(self, n: int | None) -> float:
        """Return the share of rows to hold out; 0 to evaluate rows before they are learned."""
        given = self.validation
        if self.polish:
            if given == "progressive":
                raise ValueError(
                    "validation='progressive' scores iterates, which polish replaces: hold a share of the rows out."
                )
            if self.passes > 1:
                raise ValueError(USELESS_PASSES)
            given = _SHARE if given == "auto" else given
        if given == "progressive" or (given == "auto" and (n is None or n >= _FEW_ROWS or self.passes > 1)):
            return 0.0
        if given == "auto":
            return _SHARE
        if not (isinstance(given, numbers.Real) and 0.0 < float(given) < 1.0):
            raise ValueError(f"validation={given!r}: it must be 'auto', 'progressive' or a share between 0 and 1.")
        return float(given)

    def judge(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, float] | None:
        """Evaluate the iterates on rows before these are learned; return the means over strengths of loss and mistakes.

        Both are sums over the rows, as an estimator returns them; the result is None if no rows were evaluated.
        """
        if self.fit_state.learner is None:
            return None
        found = self._fit.judge((matrix, y, weights))
        return (float(found.loss.mean()), float(found.mistakes.mean())) if found.rows else None

    def polish_on_chunks(self, chunks: Callable[[], Iterable[Rows]]) -> None:
        """Solve for the optima over the rows that were learned, which come in passes over all rows."""
        state, learner = self._fit, self._fit.learner

        def rows() -> Iterator[tuple[Matrix, np.ndarray, np.ndarray]]:
            first = held = 0
            for matrix, y, weights in chunks():
                drawn = state.drawn(first, len(y), held)
                codes, scale = learner.encode_next(y, weights, False, None, is_repeat=True)
                scale, kept = np.ones(len(y)) if scale is None else scale, np.flatnonzero(~drawn)
                first, held = first + len(y), held + len(y) - len(kept)
                yield learner.find(matrix).take(kept), codes[kept], scale[kept]

        self._take_ends(finished(learner, RowsInPasses(rows)))

    # ---- attributes that training needs ----------------------------------------------------------------------------

    def loss_record(self) -> Any:
        """Return the loss that is learned, as a record."""
        return self.new_learner().loss_record()

    def settings(self) -> dict[str, Any]:
        """Return the parameters of the estimator and of the path."""
        own = {name: getattr(self, name) for name in inspect.signature(LinearPath).parameters if name != "estimator"}
        return (LinearClassifier() if self.estimator is None else self.estimator).settings() | own

    @property
    def classifies(self) -> bool:
        """Return whether the path learns labels."""
        return self.estimator is None or self.estimator.classifies

    @property
    def has_classes(self) -> bool:
        """Return whether the classes are fixed."""
        return self.classifies and self.fit_state.is_fitted

    calibrate = False
    """A path has many models, none of which is calibrated."""

    @property
    def polish(self) -> bool | float:
        """Return the estimator's ``polish``: whether every model is to be the optimum over the rows."""
        return False if self.estimator is None else self.estimator.polish

    @property
    def half_life(self) -> float | None:
        """Return the estimator's ``half_life``."""
        return None if self.estimator is None else self.estimator.half_life

    @property
    def t_(self) -> int:
        """Return the number of examples learned; those of weight zero do not count."""
        return self.fit_state.examples

    # ---- the life cycle --------------------------------------------------------------------------------------------

    @property
    def fit_state(self) -> PathState:
        """Return the state of the fit; an empty state before the first fit."""
        return stored(self, "_fit") or PathState()

    def __sklearn_is_fitted__(self) -> bool:
        return self.fit_state.is_fitted

    def convert(self) -> Path:
        """Convert the training state into the models of all strengths, if that is not done yet, and return them."""
        if not self.__sklearn_is_fitted__():
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit or partial_fit first.")
        if self._fit.model is None:
            refuse_in_view(self)
            self._take_ends(finished(self._fit.learner))
        assert self._fit.model is not None
        return self._fit.model

    def _take_ends(self, ends: list[Any]) -> None:
        """Set the models from the runs and their answers."""
        self._fit.take(ends)
        if self._fit.model is not None and self._part == slice(None):
            self._fit.model.warn_of(self.choose)

    def finish_with(self, models: Path) -> None:
        """Set the models of all strengths, without a training state."""
        self._fit = PathState()
        self._fit.finish_with(models)
        models.warn_of(self.choose)

    def part(self, first: int, stop: int) -> Self:
        """Return a new path that learns some of the strengths."""
        own = copy.copy(self)
        own._fit, own._part = PathState(), slice(first, stop)
        return own

    def __getstate__(self) -> Any:
        """Return the models alone after ``fit``; for a stream return all that it needs to go on."""
        if self.fit_state.phase is not Phase.BATCH:
            return super().__getstate__()
        self.convert()
        twin = object.__new__(type(self))
        add_attributes(twin, attributes(self) | {"_fit": self._fit.finished()})
        return super(LinearPath, twin).__getstate__()

    # ---- the outcome -----------------------------------------------------------------------------------------------

    @property
    def path_(self) -> Path:
        """Return the models of all strengths."""
        return self.convert()

    @property
    def alpha_(self) -> float:
        """Return the strength that ``choose`` takes."""
        return self.path_.choose(self.choose)

    @property
    def model_(self) -> Any:
        """Return the estimator of the strength that ``choose`` takes."""
        return self.path_.model(self.alpha_)
