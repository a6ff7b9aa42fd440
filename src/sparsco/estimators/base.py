"""What all linear models have: parameters, the hooks of their task, and the state of their fit."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from .converted import Solved
from .fit_state import FitState, Phase
from .parameters import most_models, named
from .views import refuse_in_view


class LinearBase:
    """The parameters of a linear model, what its task says, and the state of its fit."""

    known_losses: dict[str, Any]
    _takes_columns = False
    """Whether y may have several columns."""
    classifies = False
    needs_classes = False
    """Whether all classes have to be named at the beginning of a stream."""
    _strengths: Any = None
    _in_float32 = False
    _fit: FitState

    def __init__(
        self, loss: Any = "squared", *, alpha: Any = "auto", l1_ratio: float = 1.0, penalty: Any = "elasticnet",
        optimizer: Any = "auto",
        conversion: Any = "auto", step_size: Any = "auto", max_iter: int = 5, tol: float | None = 1e-3,
        n_iter_no_change: int = 1, early_stopping: bool = False, validation_fraction: float = 0.1,
        shuffle: bool = True, random_state: Any = None, fit_intercept: bool = True,
        feature_weights: Any = None, storage: str = "auto", preset: Any = None, budget: int | None = None,
        target_excess_risk: tuple[float, float] | None = None, warm_start: bool = False, n_jobs: int | None = None,
        verbose: int = 0, polish: bool | float = False,
    ) -> None:  # fmt: skip
        self.loss = loss
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.penalty = penalty
        self.optimizer = optimizer
        self.conversion = conversion
        self.step_size = step_size
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.shuffle = shuffle
        self.random_state = random_state
        self.fit_intercept = fit_intercept
        self.feature_weights = feature_weights
        self.storage = storage
        self.preset = preset
        self.budget = budget
        self.target_excess_risk = target_excess_risk
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.polish = polish

    def settings(self) -> dict[str, Any]:
        """Return the parameters of ``__init__`` by name."""
        names = inspect.signature(type(self).__init__).parameters
        return {name: getattr(self, name) for name in names if name != "self"}

    def learn_strengths(self, strengths: Any, in_float32: bool = False) -> None:
        """Let several strengths of the L1 term be learned side by side: numbers or a ``Grid``; None for one."""
        self._strengths, self._in_float32 = strengths, in_float32

    @property
    def strengths(self) -> Any:
        """The strengths that are learned side by side, where a path is learned; else None."""
        return self._strengths

    @property
    def in_float32(self) -> bool:
        """Whether they are learned in float32."""
        return self._in_float32

    # ---- what the classifier and the regressor say themselves ------------------------------------------------------

    def encode_all(
        self, y: np.ndarray, weights: np.ndarray | None, goes_on: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return targets as numbers and the rows' weights, where ``fit`` sees all of them."""
        raise NotImplementedError

    def encode_next(
        self, y: np.ndarray, weights: np.ndarray | None, first: bool, classes: Any
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return targets as numbers and the rows' weights, for the next rows of a stream."""
        raise NotImplementedError

    def targets_of_runs(self) -> list[Any]:
        """Return the targets of each run."""
        raise NotImplementedError

    def loss_record(self) -> Any:
        """Return the loss that is learned, as a record."""
        loss = named("loss", self.loss, self.known_losses)
        loss.check()
        return loss

    def _blocks(self, models: int) -> list[slice]:
        """Return the models of each run: as many as it takes, or all where the penalty ties them together."""
        size = most_models(self) or models
        return [slice(first, min(first + size, models)) for first in range(0, models, size)]

    def _target(self, y: Any) -> float:
        """Return the target of one example as a number."""
        raise NotImplementedError

    def _new_classes(self, y: np.ndarray) -> list[tuple[int, int]]:
        """Return the codes of classes that first appear in these rows, and the first row of each, in their order."""
        return []

    def _add_class(self, code: int) -> None:
        """Make a model for a class whose first row comes next."""

    def arranged(self, models: Any) -> Any:
        """Return what there is for each model, (models, ...), in the order of ``coef_``."""
        return models

    def row_losses(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the loss of each row by its margins, which are in the order of ``coef_``; summed over the models."""
        raise NotImplementedError

    def codes_of(self, y: np.ndarray) -> np.ndarray:
        """Return targets as numbers; nothing new is made of what is new."""
        return y

    def mistakes(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return for each row of margins how wrong it is: 0 or 1 for a label, the squared distance for a number."""
        raise NotImplementedError

    def _begin_labels(self, anew: bool) -> None:
        """Prepare ``_target``."""

    def _class_weights(self, y: np.ndarray) -> np.ndarray | None:
        """Return the weight of each row by its target."""
        return None

    # ---- the state of the fit --------------------------------------------------------------------------------------

    @property
    def fit_state(self) -> FitState:
        """What was learned so far."""
        return vars(self).get("_fit") or FitState()

    def __sklearn_is_fitted__(self) -> bool:
        return self.fit_state.is_fitted

    def check_fitted(self) -> None:
        """Refuse to answer before anything was learned."""
        if not self.__sklearn_is_fitted__():
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit or partial_fit first.")

    def convert(self) -> Solved:
        """Convert what was learned into the model (phase two), where that is not done yet; return the model.

        Whatever needs the model calls this: ``coef_``, ``predict`` and others.  Learning can go on afterwards.
        """
        self.check_fitted()
        self._flush()
        if self._fit.model is None:
            refuse_in_view(self)
            self._fit.convert(self.arranged)
        assert self._fit.model is not None
        return self._fit.model

    def _goes_on(self) -> bool:
        """Return whether there is a training state that can go on; raise an error where it cannot."""
        state = self.fit_state
        if state.phase is Phase.FINISHED:
            raise ValueError(f"{state.ended}: this model cannot go on; fit a clone of it anew.")
        if not state.is_training:
            return False
        changed = state.changed(self)
        if changed:
            raise ValueError(
                f"{', '.join(changed)} changed since this stream began: set it back, or fit a clone of the model anew."
            )
        return True

    def _flush(self) -> None:
        """Learn the examples that ``learn_one`` noted."""
