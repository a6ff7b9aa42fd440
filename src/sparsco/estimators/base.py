"""The base of all linear models: the parameters, the hooks that each task implements, and the state of the fit."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from ..data.rows import Matrix
from ..offsets import base_of, first_offset, has_offset, numbers_of
from ..problem.targets import Targets
from ..util.attributes import stored
from ..util.progress import steps_shown
from ..util.threads import pool_of, using
from .converted import Converted
from .fit_state import FitState
from .life_cycle import Phase
from .parameters import most_models
from .part_names import named
from .row_offsets import at_offset, codes_at, targets_at
from .trimmed import warn_if_crowded
from .views import refuse_in_view

_EMPTY = FitState()
"""The state of a model before its first fit; it is never changed."""


class LinearBase:
    """A linear model: its parameters, the hooks of its task, and the state of its fit."""

    known_losses: dict[str, Any]
    _takes_columns = False
    """True if y may have several columns."""
    classifies = False
    needs_classes = False
    """True if all classes must be named at the beginning of a stream."""
    standardize: Any = "auto"
    relaxed: Any = "auto"
    choose: Any = "balanced"
    cv: Any = "auto"
    feature_groups: Any = None
    schema: Any = None
    max_features: int | None = None
    trim: int | None = None
    calibrate: Any = False
    half_life: Any = None
    """What files of before have no value for."""
    _strengths: Any = None
    _in_float32 = False
    _fit: FitState = _EMPTY
    n_features_in_: int
    n_iter_: int
    feature_names_in_: np.ndarray

    def __init__(
        self,
        loss: Any = "squared",
        *,
        alpha: Any = "auto",
        l1_ratio: Any = "auto",
        penalty: Any = "elasticnet",
        optimizer: Any = "auto",
        conversion: Any = "auto",
        step_size: Any = "auto",
        max_iter: int = 5,
        tol: float | None = 1e-3,
        n_iter_no_change: int = 1,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        shuffle: bool = True,
        random_state: Any = None,
        fit_intercept: bool = True,
        standardize: Any = "auto",
        relaxed: Any = "auto",
        choose: Any = "balanced",
        cv: Any = "auto",
        feature_weights: Any = None,
        feature_groups: Any = None,
        schema: Any = None,
        storage: str = "auto",
        max_features: int | None = None,
        trim: int | None = None,
        preset: Any = None,
        budget: int | None = None,
        target_excess_risk: tuple[float, float] | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        polish: bool | float = False,
        half_life: float | None = None,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.penalty = penalty
        self.optimizer, self.conversion = optimizer, conversion
        self.step_size = step_size
        self.max_iter, self.tol = max_iter, tol
        self.n_iter_no_change = n_iter_no_change
        self.early_stopping, self.validation_fraction = early_stopping, validation_fraction
        self.shuffle = shuffle
        self.random_state = random_state
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.relaxed = relaxed
        self.choose, self.cv = choose, cv
        self.feature_weights, self.feature_groups = feature_weights, feature_groups
        self.schema, self.storage, self.max_features, self.trim = schema, storage, max_features, trim
        self.preset = preset
        self.budget = budget
        self.target_excess_risk = target_excess_risk
        self.warm_start = warm_start
        self.n_jobs, self.verbose = n_jobs, verbose
        self.polish, self.half_life = polish, half_life

    def settings(self) -> dict[str, Any]:
        """Return the parameters of ``__init__`` by name."""
        names = inspect.signature(type(self).__init__).parameters
        return {name: getattr(self, name) for name in names if name != "self"}

    def learn_strengths(self, strengths: Any, in_float32: bool = False) -> None:
        """Set the strengths of the L1 term that are learned side by side.

        ``strengths`` are numbers or a ``Grid``, or None for one strength.
        """
        self._strengths, self._in_float32 = strengths, in_float32

    @property
    def strengths(self) -> Any:
        """Return the strengths that are learned side by side for a path; None if no path is learned."""
        return self._strengths

    @property
    def in_float32(self) -> bool:
        """Return whether the strengths of a path are learned in float32."""
        return self._in_float32

    @property
    def is_automatic(self) -> bool:
        """Return whether phase two of the fit under way chooses the strength, or solves in units of the columns."""
        runs = self.fit_state.runs
        return bool(runs) and runs[0].conversion.joins_runs

    # ---- hooks that the classifier and the regressor implement -----------------------------------------------------

    def encode_all(
        self, y: np.ndarray, weights: np.ndarray | None, goes_on: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the targets of the runs and the weights of the rows, for ``fit``, which has all rows.

        Where y has offsets, so have the targets.
        """
        codes, weights = self._encode_all(numbers_of(y), weights, goes_on)
        return targets_at(self, codes, y, not goes_on), weights

    def encode_next(
        self, y: np.ndarray, weights: np.ndarray | None, first: bool, classes: Any, is_repeat: bool = False
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the targets of the runs and the weights of the rows, for the next rows of a stream.

        ``is_repeat`` is True for rows that were counted before.
        """
        codes, weights = self._encode_next(numbers_of(y), weights, first, classes, is_repeat)
        return targets_at(self, codes, y, first), weights

    def _encode_all(
        self, y: np.ndarray, weights: np.ndarray | None, goes_on: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the targets as numbers and the weights of the rows, for ``fit``, which has all rows."""
        raise NotImplementedError

    def _encode_next(
        self, y: np.ndarray, weights: np.ndarray | None, first: bool, classes: Any, is_repeat: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the targets as numbers and the weights of the rows, for the next rows of a stream."""
        raise NotImplementedError

    def targets_of_runs(self) -> list[Targets]:
        """Return the targets of each run."""
        raise NotImplementedError

    def loss_record(self) -> Any:
        """Return the loss that is learned, as a record."""
        loss = named("loss", self.loss, self.known_losses)
        loss.check()
        return loss

    def resolved_loss(self) -> Any:
        """Return the loss that is learned, with what the first rows have decided, once they have."""
        runs, model = self._fit.runs, self._fit.model
        if runs and runs[0].pilot is not None:
            return base_of(runs[0].problem.loss)
        return self.loss_record() if model is None else base_of(model.report.get("loss", self.loss_record()))

    def _blocks(self, models: int) -> list[slice]:
        """Return the models of each run as slices.

        A run takes as many models as it can learn, or all models if the penalty or the loss couples them.
        """
        size = most_models(self) or models
        return [slice(first, min(first + size, models)) for first in range(0, models, size)]

    def _target(self, y: Any) -> float:
        """Return the target of one example as a number."""
        raise NotImplementedError

    def _new_classes(self, y: np.ndarray) -> list[tuple[int, int]]:
        """Return the code and the first row of each class that is new in these rows, in the order of first rows."""
        return []

    def _add_class(self, code: int) -> None:
        """Make a model for a class whose first row comes next."""

    def calibrated(self, model: Converted) -> Converted:
        """Return a converted model with what its probabilities need."""
        return model

    def arranged(self, models: Any) -> Any:
        """Return an array with one entry for each model, (models, ...), in the order of ``coef_``."""
        return models

    def row_losses(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the loss of each row from its margins, which are in the order of ``coef_``, summed over the models."""
        return self._row_losses(*at_offset(p, y))

    def judged_losses(self, p: np.ndarray, y: np.ndarray, shares: Any = None) -> np.ndarray:
        """Return the loss of each row by which a model is judged; ``shares`` returns probabilities of margins."""
        return self.row_losses(p, y)

    def _row_losses(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def codes_of(self, y: np.ndarray) -> np.ndarray:
        """Return the targets of the runs, without adding new classes."""
        codes = self._codes_of(numbers_of(y))
        return codes_at(self, codes, first_offset(y)) if has_offset(y) else codes

    def _codes_of(self, y: np.ndarray) -> np.ndarray:
        return y

    def mistakes(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the error of each row of margins: 0 or 1 for a label, the squared distance for a number."""
        return self._mistakes(*at_offset(p, y))

    def _mistakes(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def output_names(self) -> list[str]:
        """Return a name for each row of ``coef_``: the label that a positive weight speaks for, or an output."""
        raise NotImplementedError

    def _begin_labels(self, anew: bool) -> None:
        """Prepare the encoding of single targets by ``_target``."""

    def _class_weights(self, y: np.ndarray) -> np.ndarray | None:
        """Return the weight of each row by its target; None if all weights are 1."""
        return None

    def with_class_weights(self, y: np.ndarray, weights: np.ndarray | None) -> np.ndarray | None:
        """Return the weights of rows times the weights of their classes as of now; the rows are not counted."""
        return weights

    def margins_of_record(self, x: Any) -> np.ndarray:
        """Return the margins of a dict of the columns that were learned, or of a text, one per model."""
        raise NotImplementedError

    def iterate_margins(self, rows: Matrix) -> np.ndarray:
        """Return the margins of rows, which have slots, at the iterate of the stream under way, (rows, models)."""
        raise NotImplementedError

    def margins_of_slots(self, rows: Matrix, offsets: np.ndarray | None = None) -> np.ndarray:
        """Return the margins of rows whose columns are slots, (rows, models), at their offsets."""
        raise NotImplementedError

    def bear_crosses(self) -> None:
        """Let the crosses of the features that are selected here exist."""
        raise NotImplementedError

    # ---- the state of the fit --------------------------------------------------------------------------------------

    @property
    def fit_state(self) -> FitState:
        """Return the state of the fit; an empty state before the first fit."""
        return FitState() if self._fit is _EMPTY else self._fit

    @property
    def column_names(self) -> np.ndarray | None:
        """Return ``feature_names_in_``, the names of the columns of a table; None if they have no names."""
        return stored(self, "feature_names_in_")

    @property
    def has_classes(self) -> bool:
        """Return whether there are ``classes_``."""
        return False

    def __sklearn_is_fitted__(self) -> bool:
        return self.fit_state.is_fitted

    def check_fitted(self) -> None:
        """Raise a NotFittedError if the model is not fitted."""
        if not self.__sklearn_is_fitted__():
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit or partial_fit first.")

    def convert(self) -> Converted:
        """Convert the training state into the model (phase two), if that is not done yet, and return the model.

        Every reader of the model calls this method: ``coef_``, ``predict`` and others.  Learning can go on afterwards.
        """
        self.check_fitted()
        self._flush()
        if self._fit.model is None:
            refuse_in_view(self)
            warn_if_crowded(self._fit)
            with steps_shown(type(self).__name__, self.verbose), using(pool_of(self)):
                self._fit.convert(self.arranged)
            assert self._fit.model is not None
            self._fit.model = self.calibrated(self._fit.model)
        return self._fit.model

    def convert_with_sizes(self) -> Converted:
        """Return the converted model with those of fewer features, which few readers need."""
        self.convert()
        with steps_shown(type(self).__name__, self.verbose):
            return self._fit.with_sizes(self.arranged)

    def convert_with_columns(self, sizes: bool = False) -> Converted:
        """Return the converted model with the spreads of its columns, and with ``sizes`` also as above."""
        self.convert_with_sizes() if sizes else self.convert()
        return self._fit.with_columns()

    def _goes_on(self) -> bool:
        """Return whether there is a training state that can go on.

        Raise an error if the fit is finished, or if a parameter changed that must not change.
        """
        state = self.fit_state
        if state.phase is Phase.FINISHED:
            raise ValueError(f"{state.ended}: this model cannot continue; fit a clone of it.")
        if not state.is_training:
            return False
        if state.is_by_row:
            raise ValueError(
                "this model was fitted with groups or with splits of cv, which are those of its rows: it cannot go on; "
                "fit all rows at once."
            )
        changed = state.changed(self)
        if changed:
            raise ValueError(
                f"{', '.join(changed)} changed since this stream began: set it back, or fit a clone of the model."
            )
        return True

    def _flush(self) -> None:
        """Learn the examples that ``learn_one`` has queued."""
