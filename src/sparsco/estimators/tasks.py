"""The two tasks: labels or numbers become the targets of a run's lanes, and margins become predictions."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import losses
from ..data.rows import LARGEST
from ..losses import CLASSIFIER_LOSSES, REGRESSOR_LOSSES
from ..parts.compatibility import models_reason, refuse
from ..problem.targets import Classes, OneVsRest, Targets, Values
from ..streams.number_texts import ENOUGH_ROWS, is_plain, of_classes
from ..util.attributes import stored
from .calibration import Calibrated
from .linear import LinearModel
from .parameters import most_models

_SHARED = frozenset(signature(LinearModel).parameters)
"""The parameters that all linear models have."""


class LinearClassifier(Calibrated, LinearModel):
    """A linear model for labels; more than two classes are learned one against the rest, or by one softmax."""

    known_losses = CLASSIFIER_LOSSES
    classifies = True

    def __init__(
        self,
        loss: Any = "logistic",
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
        class_weight: Any = None,
        calibrate: bool = False,
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
        given = {name: value for name, value in locals().items() if name in _SHARED}
        super().__init__(**given)
        self.class_weight, self.calibrate = class_weight, calibrate

    @property
    def has_classes(self) -> bool:
        """Return whether there are ``classes_``."""
        return stored(self, "classes_") is not None

    def loss_record(self) -> Any:
        """Return the loss that is learned, as a record; a softmax of two classes is the logistic loss."""
        loss = super().loss_record()
        if (
            isinstance(loss, losses.Multinomial)
            and self.has_classes
            and len(self.classes_) == 2
            and not self._fit.is_open
        ):
            return losses.Logistic()  # the softmax of two classes, with one margin
        return loss

    def _lanes(self, first: int, m: int) -> OneVsRest:
        """Return the targets of a run in a stream that finds its classes itself."""
        return OneVsRest(first, m, 0.0 if self.loss_record().couples else -1.0)

    def targets_of_runs(self) -> list[Targets]:
        """Return the targets of each run."""
        if self._fit.is_open:
            return [self._lanes(0, 1)]
        k = len(self.classes_)
        if self.loss_record().couples:
            return [Classes(np.eye(k), np.ones((k, k)))]
        signs = np.array([[-1.0], [1.0]]) if k == 2 else 2.0 * np.eye(k) - 1.0
        return [Classes(signs, np.ones_like(signs), part) for part in self._blocks(signs.shape[1])]

    def _encode_all(
        self, y: np.ndarray, weights: np.ndarray | None, goes_on: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the codes of the labels and the weights of the rows, for ``fit``, which has all rows."""
        if goes_on:
            codes = self._codes(y)
        else:
            (self.classes_, codes), self._fit.is_open = two_or_more(y, "y"), False
        given, weights = weights, self._weights_of_all(codes, weights)
        if weights is not None and weights.any() and len(np.unique(codes[weights > 0.0])) < 2:
            raise ValueError("only one class has rows of positive weight: a classifier needs at least two classes.")
        if self._fit.is_open:
            codes = np.array(self.code_of_each())[codes]
        self._count_all(codes, given, weights, goes_on)
        return codes.astype(np.float64), weights

    def _begin_labels(self, anew: bool) -> None:
        self.check_class_weight()
        if anew:
            self._fit.is_open, self._fit.codes, self.classes_ = True, {}, np.array([])
        elif not self._fit.is_open:
            self._fit.codes = {label: code for code, label in enumerate(self.classes_.tolist())}

    def _target(self, y: Any) -> float:
        try:
            code = self._fit.codes.get(y)
        except TypeError:
            raise ValueError(f"y is a {type(y).__name__}, which cannot be a label.") from None
        if code is None:
            if not self._fit.is_open:
                raise ValueError(_unknown(y, self.classes_))
            _check_labels(np.array([y]))
            self._add_labels([y])
            code = self._fit.codes[y]
        return code

    def _add_labels(self, labels: list[Any]) -> None:
        """Add new classes, which get the next codes; existing arrays are not changed in place."""
        codes = {**self._fit.codes, **{label: len(self._fit.codes) + k for k, label in enumerate(labels)}}
        if self._fit.runs and most_models(self) is None:
            refuse(models_reason(self._fit.runs[0].optimizer, len(codes)))
        try:
            classes = np.array(sorted(codes))
        except TypeError as error:
            raise ValueError("y has labels of several types, which cannot be sorted: use one type.") from error
        self.classes_, self._fit.codes = classes, codes

    def check_first_labels(self, y: np.ndarray) -> None:
        """Raise a ValueError for texts of numbers, or too many words, as labels of the first rows of a stream."""
        rows = self.fit_state.examples if self.fit_state.is_training else 0
        if y.dtype.kind in "OU" and rows < ENOUGH_ROWS and (not rows or self._fit.is_open):
            known = self.classes_.tolist() if rows else []
            refuse_numbers({label for label in [*known, *y.ravel().tolist()] if isinstance(label, str)}, rows + len(y))

    def _found(self, y: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Return the codes of the rows; new labels become classes, in the order of their appearance."""
        counted = slice(None) if weights is None else np.flatnonzero(weights)
        codes = np.zeros(len(y), np.int64)
        try:
            labels, first, places = np.unique(y[counted], return_index=True, return_inverse=True)
        except TypeError as error:
            raise ValueError("y has labels of several types, which cannot be sorted: use one type.") from error
        _check_labels(labels)
        order = labels[np.argsort(first)].tolist()
        new = [label for label in order if label not in self._fit.codes]
        if new:
            self._add_labels(new)
        codes[counted] = np.array([self._fit.codes[label] for label in labels.tolist()], np.int64)[places]
        return codes

    def _new_classes(self, y: np.ndarray) -> list[tuple[int, int]]:
        known = sum(run.targets.m for run in self._fit.runs)
        codes = range(known, len(self._fit.codes)) if self._fit.is_open else range(0)
        return [(code, int((y == code).argmax())) for code in codes if (y == code).any()]

    def _add_class(self, code: int) -> None:
        """Add a model for a new class.

        While the pilot rows are collected, the model will learn all of them.  Later it has a run of its own, or a
        further lane if all classes are coupled.
        """
        last = self._fit.runs[-1]
        late, most = last.pilot is not None, most_models(self)
        if most is None or (not late and last.targets.m < most):
            assert isinstance(last.targets, OneVsRest)  # as in every stream that finds its classes
            last.retarget(self._lanes(last.targets.first, last.targets.m + 1))
        elif late:
            self._fit.add_run(self._fit.runs[0].new_class_run(self._lanes(code, 1)))
        else:
            run = last.twin()
            run.retarget(self._lanes(code, 1))
            self._fit.add_run(run)

    def arranged(self, models: Any) -> Any:
        """Return an array with one entry for each model in the order of the classes.

        In an open stream two classes have a model each, since more classes may come.  The result is half their
        difference, or for a softmax the whole difference.
        """
        if not self._fit.is_open:
            return models
        codes = self.code_of_each()
        if len(codes) == 2:
            return (models[codes[1:]] - models[codes[:1]]) * (1.0 if self.loss_record().couples else 0.5)
        return models[codes]

    def _codes(self, y: np.ndarray) -> np.ndarray:
        codes = places_among(self.classes_, y)
        if codes is None:
            _check_labels(y)
            known = self.classes_.tolist()
            unknown = [label for label in np.unique(y).tolist() if label not in known]
            raise ValueError(_unknown(unknown[0], self.classes_))
        return codes

    def _encode_next(
        self, y: np.ndarray, weights: np.ndarray | None, first: bool, classes: Any, is_repeat: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the codes of the labels and the weights of the rows, for the next rows of a stream."""
        self.check_class_weight()
        if first:
            self._fit.is_open, self._fit.codes, self._fit.tally = classes is None, {}, None
        if self._fit.is_open:
            if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                raise ValueError("classes= belongs to the first call: this stream finds its classes itself.")
            codes = self._found(y, weights)
            return codes.astype(np.float64), self._weights_of_next(codes, weights, is_repeat)
        if classes is not None:
            if np.ndim(classes) != 1:
                raise ValueError(f"classes={classes!r}: give a list of labels, or leave it out to accept new ones.")
            given, _ = two_or_more(np.asarray(classes), "classes")
            if not first and not np.array_equal(given, self.classes_):
                raise ValueError(f"classes differ from those of the first call, {self.classes_.tolist()}.")
            self.classes_ = given
        codes = self._codes(y)
        return codes.astype(np.float64), self._weights_of_next(codes, weights, is_repeat)

    def _codes_of(self, y: np.ndarray) -> np.ndarray:
        """Return the codes of the labels; in an open stream -1 for a label that is not among the classes."""
        if not self._fit.is_open:
            return self._codes(y).astype(np.float64)
        return np.array([self._fit.codes.get(label, -1) for label in y.tolist()], np.float64)

    def _row_losses(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the loss of each row: of one margin for two classes, else summed over the models of the classes.

        A label that is not among the classes counts as one that was not predicted.
        """
        codes, loss = self.places(y), self.loss_record()
        if p.shape[1] == 1:
            signs = np.where(codes >= 0, np.where(codes == 1, 1.0, -1.0), np.where(p[:, 0] > 0.0, -1.0, 1.0))[:, None]
            loss = losses.Logistic() if loss.couples else loss  # the softmax of two classes, with one margin
        else:
            signs = np.where(np.arange(p.shape[1]) == codes[:, None], 1.0, 0.0 if loss.couples else -1.0)
        return losses.value(loss, p, signs).sum(1)

    def judged_losses(self, p: np.ndarray, y: np.ndarray, shares: Any = None) -> np.ndarray:
        """Return the loss of each row; of several classes the log loss of their probabilities, if they have some.

        A label that is not among the classes counts as one that was not predicted.
        """
        loss = self.loss_record()
        if p.shape[1] == 1 or loss.couples or loss.probabilities is None:
            return self.row_losses(p, y)
        found, places = (shares or self.corrected)(p), self.places(y)
        own = np.where(places < 0, 1.0 - found.max(1), found[np.arange(len(places)), places])
        return -np.log(np.maximum(own, np.finfo(np.float64).tiny))

    def places(self, y: np.ndarray) -> np.ndarray:
        """Return the index of each label among the classes, -1 for a label that is not among them."""
        codes = np.minimum(np.searchsorted(self.classes_, y.astype(self.classes_.dtype)), len(self.classes_) - 1)
        return np.where(self.classes_[codes] == y, codes, -1)

    def _mistakes(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return 1 for each row whose label is not predicted, else 0."""
        return (self.labels_of(p) != y).astype(np.float64)

    def output_names(self) -> list[str]:
        """Return the label that a positive weight speaks for, for each row of ``coef_``."""
        labels = [str(label) for label in self.classes_.tolist()]
        return labels[-1:] if len(self.convert().intercept) == 1 else labels

    def predict_one(self, x: Any, offset: float | None = None) -> Any:
        """Return the most likely label of one example, given as to ``learn_one``.

        While a stream is under way the iterate predicts, at the cost of the example's nonzeros; ``predict`` uses the
        converted model.  After ``fit`` and ``finalize`` the two are the same.
        """
        return self.labels_of(self._margins_one(x, offset)[None]).tolist()[0]


class LinearRegressor(LinearModel):
    """A linear model for numbers, in one column or several."""

    known_losses = REGRESSOR_LOSSES

    _takes_columns = True
    _outputs: int | None

    def output_names(self) -> list[str]:
        """Return a name for each row of ``coef_``."""
        n = len(self.convert().intercept)
        return ["prediction"] if n == 1 else [f"output {k}" for k in range(n)]

    def targets_of_runs(self) -> list[Targets]:
        """Return the targets of each run."""
        outputs = self._fit.outputs or 1
        return [Values(outputs, part) for part in self._blocks(outputs)]

    def _encode_all(
        self, y: np.ndarray, weights: np.ndarray | None, goes_on: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the targets as numbers and the weights of the rows, for ``fit``, which has all rows."""
        return self._targets(y, goes_on), weights

    def _targets(self, y: np.ndarray, goes_on: bool) -> np.ndarray:
        """Return the targets as numbers, and store the number of outputs.

        Outputs are the columns of y, or None if y is one-dimensional.
        """
        outputs = y.shape[1] if y.ndim == 2 else None
        if goes_on and outputs != self._fit.outputs:
            raise ValueError(f"y has {outputs or 'no'} columns; the stream began with {self._fit.outputs or 'none'}.")
        self._fit.outputs = outputs
        y, loss = as_numbers(y), self.loss_record()
        loss.refuse(y)
        return y

    def _encode_next(
        self, y: np.ndarray, weights: np.ndarray | None, first: bool, classes: Any, is_repeat: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the targets as numbers and the weights of the rows, for the next rows of a stream."""
        return self._targets(y, not first), weights

    def _row_losses(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the loss of each row, summed over the outputs."""
        return losses.value(self.resolved_loss(), p, y.reshape(p.shape)).sum(1)

    def _mistakes(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the squared distance of each prediction from its target."""
        return np.square(self.predictions_of(p) - y)

    def predictions_of(self, p: np.ndarray) -> np.ndarray:
        """Return the predicted target for each row of margins."""
        p, loss = p[:, 0] if self._fit.outputs is None else p, self.loss_record()
        return loss.predicted(p)

    @property
    def coef_(self) -> Any:
        """Return the weights: (features,), or (outputs, features) if y has columns.

        After ``sparsify`` they are sparse and (outputs, features).
        """
        coef = self._coef()
        return coef if sp.issparse(coef) or self._fit.outputs is not None else coef.ravel()

    def _target(self, y: Any) -> float:
        try:
            number = float(y)
        except (TypeError, ValueError):
            raise ValueError(f"y is {y!r}: it must be a number for a regression.") from None
        if not -LARGEST <= number <= LARGEST:
            raise ValueError(f"y is {y!r}: it must be finite and at most {LARGEST:g} in magnitude.")
        self.loss_record().refuse(np.array([number]))
        return number

    def _begin_labels(self, anew: bool) -> None:
        outputs = self._fit.outputs
        if not anew and outputs is not None:
            raise ValueError(f"learn_one takes one number for y, and this stream has {outputs} columns of them.")

    def predict_one(self, x: Any, offset: float | None = None) -> Any:
        """Return the predicted target of one example, given as to ``learn_one``.

        See :meth:`SparseClassifier.predict_one`.
        """
        p, loss = self._margins_one(x, offset), self.loss_record()
        p = loss.predicted(p)
        return float(p[0]) if self._fit.outputs is None else p


def _unknown(label: Any, classes: np.ndarray) -> str:
    return (
        f"y has the label {label!r}, which is not among the classes {classes.tolist()}: leave classes= out "
        "of the first partial_fit to accept new classes."
    )


def two_or_more(y: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes of y and the index of every label; raise a ValueError for fewer than two classes."""
    try:
        classes = np.unique(y[:1000])
        codes = places_among(classes, y)
        if codes is None:  # the first rows did not show every class
            classes = np.unique(y)
            codes = np.searchsorted(classes, y)
    except TypeError as error:
        raise ValueError(f"{name} has labels of several types, which cannot be sorted: use one type.") from error
    if name == "y":
        refuse_numbers(classes.tolist(), len(y))
    _check_labels(classes)
    if len(classes) < 2:
        raise ValueError(f"{name} has one class only, {classes.tolist()}: a classifier needs at least two classes.")
    return classes, codes


def refuse_numbers(labels: Iterable[Any], rows: int) -> None:
    """Raise a ValueError if the different labels of so many rows are texts of numbers, or too many to be classes."""
    texts = sorted(label for label in labels if isinstance(label, str))
    if found := of_classes(texts, rows, is_said=True):
        raise ValueError(
            f"y has {len(texts):,} labels in {rows:,} rows, such as {found[:40]!r}: if they are quantities, write "
            "plain numbers such as 1234.5 for a SparseRegressor; if they are classes, give their codes, as "
            "numpy.unique(y, return_inverse=True)[1]."
        )


def places_among(classes: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """Return the index of every label among the sorted classes; None if a label is not among them."""
    if len(classes) == 2:
        is_second = y == classes[1]
        return is_second.astype(np.int64) if (is_second | (y == classes[0])).all() else None
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return codes if np.array_equal(classes[codes], y) else None


def as_numbers(y: np.ndarray) -> np.ndarray:
    """Return the targets of a regression as float64; raise a ValueError if they are not numbers."""
    if np.asarray(y).dtype.kind in "mM":
        raise ValueError(f"y must be numbers for a regression, not {np.asarray(y).dtype}: convert dates yourself.")
    try:
        return np.asarray(y).astype(np.float64)
    except (TypeError, ValueError) as error:
        texts = [each for each in np.ravel(y).tolist() if isinstance(each, str) and not is_plain(each)]
        remedy = f": write plain numbers such as 1234.5 in place of {texts[0][:40]!r}" if texts else ""
        raise ValueError(f"y must be numbers for a regression, not {np.asarray(y).dtype}{remedy}.") from error


def _check_labels(labels: np.ndarray) -> None:
    """Raise a ValueError for labels that cannot be classes."""
    labels = np.asarray(labels)
    if labels.dtype.kind in "biuU" or (labels.dtype.kind == "f" and np.array_equal(labels, np.floor(labels))):
        return
    if labels.dtype.kind in "OT" and all(isinstance(label, str) for label in labels.tolist()):
        return
    # what is left are the rare cases, for which scikit-learn raises its own errors
    from sklearn.utils.multiclass import check_classification_targets

    check_classification_targets(labels)
