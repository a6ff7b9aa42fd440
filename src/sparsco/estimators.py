"""scikit-learn estimators: thin compositions of a loss, a regularizer, an optimizer and a conversion."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from . import losses
from ._composition import most_models
from ._linear import SparseLinearModel
from .rows import LARGEST
from .solve import check_lanes
from .targets import Classes, OneVsRest, Values

CLASSIFIER_LOSSES = {
    "logistic": losses.Logistic(),
    "log_loss": losses.Logistic(),
    "hinge": losses.Hinge(),
    "squared-hinge": losses.SquaredHinge(),
    "squared_hinge": losses.SquaredHinge(),
    "multinomial": losses.Multinomial(),
    "squared": losses.Squared(),
    "squared_error": losses.Squared(),
}
REGRESSOR_LOSSES = {
    "squared": losses.Squared(),
    "squared_error": losses.Squared(),
    "huber": losses.Huber(),
    "epsilon-insensitive": losses.EpsilonInsensitive(),
    "epsilon_insensitive": losses.EpsilonInsensitive(),
    "quantile": losses.Quantile(),
    "poisson": losses.Poisson(),
}


class SparseClassifier(ClassifierMixin, SparseLinearModel):
    """A sparse linear classifier, learned one example at a time.

    Parameters
    ----------
    loss : {"logistic", "log_loss", "hinge", "squared-hinge", "multinomial", "squared"} or a loss record
        More than two classes are learned one against the rest, except by "multinomial", one softmax for all of them
        (at most 128); with two classes it is "logistic", unless a stream may bring more.
    alpha : "auto" or float
        Strength of the penalty ``alpha * (l1_ratio * ||w||_1 + (1 - l1_ratio) / 2 * ||w||^2)``.  "auto" takes 5% of
        the smallest L1 weight that selects nothing on the first 1000 rows learned, since no fixed number suits every
        scale; ``report_["lam"]`` and ``report_["rho"]`` say what came of it.
    l1_ratio : float
        1 is pure L1, 0 pure L2.
    penalty : {"elasticnet", "row-group", "trace", "nonnegative"} or a regularizer record
        What takes the place of the L1 norm: "row-group" the norms of each feature's weights over all models, so that a
        feature is in or out for all of them; "trace" the sum of singular values of ``coef_``, which gets low rank;
        "nonnegative" the L1 norm over weights of at least 0.  A record, such as :class:`sparsco.GroupL1`, carries its
        own strength.  "trace" and the records without a lazy form are learned by mini-batches.
    optimizer : str or an optimizer record
        "auto", or one of "sgd", "fobos", "rda", "ftrl", "nftrl", "adagrad-fobos", "adagrad-rda", "truncated-gradient",
        "epoch-gd", "orda", "ssg", "batch-fobos", "batch-rda".  "auto": the normalised FTRL, which needs no step size;
        for squared loss with an L2 term FOBOS; for penalties without a lazy form
        dual averaging or FOBOS on mini-batches.
    conversion : {"auto", "last", "average", "weighted", "suffix", "random", "optimal-sl", "last-sl", "average-sl"} \
or a conversion record
        How iterates become the model.  "auto": AverageSL behind its guard (hinge loss without L2: the last iterate).
    step_size : "auto", a rule's name or record, or a float
        A float is a constant step.
    max_iter : int
        Passes over the data in ``fit``.
    tol : float or None
        ``fit`` stops when a pass improves the objective by less than this share, ``n_iter_no_change`` times in a row.
    early_stopping : bool
        Judge that on ``validation_fraction`` of the rows, held out.
    shuffle, random_state, fit_intercept, class_weight
        As in scikit-learn.
    warm_start : bool
        ``fit`` goes on with the stream where it stopped; the parameters of the stream cannot change then.
    n_jobs : int, optional
        Threads for more than 32 classes, which are learned 32 at a time.
    verbose : int
        Above 0, the progress of ``fit`` goes to stderr; at a terminal it does so after two seconds anyway.
    feature_weights : array of shape (n_features,), optional
        Relative L1 weight of each feature; 0 leaves a feature unpenalised.
    storage : {"all", "seen"}
        "all": the training state has room for every column of X.  "seen": only for columns that occurred, whose numbers
        may go up to 2^62; ``coef_`` is then sparse.
    polish : bool or float
        ``fit`` makes one pass and then goes on to the exact optimum over all rows, until no optimality condition is
        violated by more than this share of lam (True: 1e-4); ``gap_`` is what was reached.  See docs/optimum.md.

    Notes
    -----
    ``fit`` goes over the rows several times, ``partial_fit`` once, ``learn_one`` takes one example; see docs/streams.md
    for streams that bring new features and classes.  ``partial_fit`` cut into any pieces it gives the same bits as
    ``fit`` with ``max_iter=1, shuffle=False, tol=None``.  ``coef_``, ``intercept_``, ``n_nonzero_``, ``history_`` and
    ``report_`` are computed when asked for.  Bad input raises ``ValueError`` and leaves the estimator as it was.  Steps
    that are too large raise :class:`sparsco.DivergenceError`: after ``fit`` the estimator is as before, a stream in
    ``partial_fit`` is lost and raises it again.

    Weights multiply the loss and are not rescaled: the objective is the mean of weight times loss over the rows of
    positive weight, so weights that are all 2 count like half of alpha.  ``finalize()`` drops the training state, which
    is most of a pickle; a finalized model predicts and cannot learn further.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsco import SparseClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 50))
    >>> y = np.where(X[:, 3] - X[:, 7] + 0.3 * rng.normal(size=2000) > 0, "spam", "ham")
    >>> model = SparseClassifier(alpha=0.05, random_state=0).fit(X, y)
    >>> np.flatnonzero(model.coef_)
    array([3, 7])
    """

    _losses = CLASSIFIER_LOSSES

    def __init__(
        self, loss: Any = "logistic", *, alpha: Any = "auto", l1_ratio: float = 1.0, penalty: Any = "elasticnet",
        optimizer: Any = "auto", conversion: Any = "auto", step_size: Any = "auto", max_iter: int = 5,
        tol: float | None = 1e-3, n_iter_no_change: int = 1, early_stopping: bool = False,
        validation_fraction: float = 0.1, shuffle: bool = True, random_state: Any = None, fit_intercept: bool = True,
        class_weight: Any = None, feature_weights: Any = None, storage: str = "all", warm_start: bool = False,
        n_jobs: int | None = None, verbose: int = 0, polish: bool | float = False,
    ) -> None:  # fmt: skip
        super().__init__(
            loss, alpha=alpha, l1_ratio=l1_ratio, penalty=penalty, optimizer=optimizer, conversion=conversion,
            step_size=step_size, max_iter=max_iter, tol=tol, n_iter_no_change=n_iter_no_change,
            early_stopping=early_stopping, validation_fraction=validation_fraction, shuffle=shuffle,
            random_state=random_state, fit_intercept=fit_intercept, feature_weights=feature_weights, storage=storage,
            warm_start=warm_start, n_jobs=n_jobs, verbose=verbose, polish=polish,
        )  # fmt: skip
        self.class_weight = class_weight

    def _loss(self) -> Any:
        loss = super()._loss()
        if isinstance(loss, losses.Multinomial) and len(getattr(self, "classes_", ())) == 2 and not self._open:
            return losses.Logistic()  # the same model, in one margin
        return loss

    def _lanes(self, first: int, m: int) -> OneVsRest:
        """The targets of a run of a stream that finds its classes itself."""
        return OneVsRest(first, m, 0.0 if losses.couples(self._loss()) else -1.0)

    def _models(self) -> list[Any]:
        if self._open:
            return [self._lanes(0, 1)]
        k = len(self.classes_)
        if losses.couples(self._loss()):
            return [Classes(np.eye(k), np.ones((k, k)))]
        signs = np.array([[-1.0], [1.0]]) if k == 2 else 2.0 * np.eye(k) - 1.0
        return [Classes(signs, np.ones_like(signs), part) for part in self._blocks(signs.shape[1])]

    def _all_targets(
        self, y: np.ndarray, weights: np.ndarray | None, goes_on: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        if goes_on:
            codes = self._codes(y)
        else:
            (self.classes_, codes), self._open = _two_or_more(y, "y"), False
        weights = self._weighted(codes, weights, self.class_weight)
        if weights is not None and weights.any() and len(np.unique(codes[weights > 0.0])) < 2:
            raise ValueError("only one class has rows of positive weight: a classifier needs at least two classes.")
        if self._open:
            codes = np.array(self._code_of_each())[codes]
        return codes.astype(np.float64), weights

    def _weighted(self, codes: np.ndarray, weights: np.ndarray | None, class_weight: Any) -> np.ndarray | None:
        """The rows' weights times those of their classes."""
        if class_weight is None:
            return weights
        labels = self.classes_[codes]
        scale = compute_class_weight(class_weight, classes=self.classes_, y=labels, sample_weight=weights)
        if not (np.all(np.isfinite(scale)) and np.all(scale >= 0.0)):
            raise ValueError(f"class_weight={class_weight!r}: class weights must be finite and at least 0.")
        return scale[codes] if weights is None else weights * scale[codes]

    def _class_weights(self, y: np.ndarray) -> np.ndarray | None:
        if self.class_weight is None:
            return None
        scale = np.array([self.class_weight.get(label, 1.0) for label in self._codes_of], np.float64)
        if not (np.all(np.isfinite(scale)) and np.all(scale >= 0.0)):
            raise ValueError(f"class_weight={self.class_weight!r}: class weights must be finite and at least 0.")
        return scale[y.astype(np.int64)]

    def _begin_labels(self, anew: bool) -> None:
        self._refuse_balanced("learn_one")
        if anew:
            self._open, self._codes_of, self.classes_ = True, {}, np.array([])
        elif not self._open:
            self._codes_of = {label: code for code, label in enumerate(self.classes_.tolist())}

    def _refuse_balanced(self, method: str) -> None:
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs all labels at once, which {method} never sees: pass a dict."
            )

    def _target(self, y: Any) -> float:
        try:
            code = self._codes_of.get(y)
        except TypeError:
            raise ValueError(f"y is a {type(y).__name__}, which cannot be a label.") from None
        if code is None:
            if not self._open:
                raise ValueError(_unknown(y, self.classes_))
            check_classification_targets(np.array([y]))
            self._add_labels([y])
            code = self._codes_of[y]
        return code

    def _add_labels(self, labels: list[Any]) -> None:
        """New classes, whose codes are the next ones; nothing that is there is changed in place."""
        codes = {**self._codes_of, **{label: len(self._codes_of) + k for k, label in enumerate(labels)}}
        if getattr(self, "_runs", None) and most_models(self) is None:
            check_lanes(self._runs[0].optimizer, len(codes))
        try:
            classes = np.array(sorted(codes))
        except TypeError as error:
            raise ValueError("y has labels of several types, which cannot be sorted: use one type.") from error
        self.classes_, self._codes_of = classes, codes

    def _found(self, y: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """The rows' codes; labels that are new become classes, in the order in which they appear."""
        counted = slice(None) if weights is None else np.flatnonzero(weights)
        codes = np.zeros(len(y), np.int64)
        try:
            labels, first, places = np.unique(y[counted], return_index=True, return_inverse=True)
        except TypeError as error:
            raise ValueError("y has labels of several types, which cannot be sorted: use one type.") from error
        check_classification_targets(labels)
        order = labels[np.argsort(first)].tolist()
        new = [label for label in order if label not in self._codes_of]
        if new:
            self._add_labels(new)
        codes[counted] = np.array([self._codes_of[label] for label in labels.tolist()], np.int64)[places]
        return codes

    def _new_classes(self, y: np.ndarray) -> list[tuple[int, int]]:
        known = sum(run.targets.m for run in self._runs)
        codes = range(known, len(self._codes_of)) if self._open else range(0)
        return [(code, int((y == code).argmax())) for code in codes]

    def _add_class(self, code: int) -> None:
        """While the pilot's rows are collected it will learn them all; later it has a run of its own, or a further lane
        where all classes are tied together."""
        last = self._runs[-1]
        late, most = last.pilot is not None, most_models(self)
        if most is None or (not late and last.targets.m < most):
            last.retarget(self._lanes(last.targets.first, last.targets.m + 1))
        elif late:
            self._runs = [*self._runs, self._runs[0].beginner(self._lanes(code, 1))]
        else:
            run = copy.copy(last)
            vars(run).update(last.before_pilot())
            run.retarget(self._lanes(code, 1))
            self._runs = [*self._runs, run]

    def _arranged(self, models: Any) -> Any:
        """By class; of two, which have a model each while more may come, half the difference (of a softmax all)."""
        if not self._open:
            return models
        codes = self._code_of_each()
        if len(codes) == 2:
            return (models[codes[1:]] - models[codes[:1]]) * (1.0 if losses.couples(self._loss()) else 0.5)
        return models[codes]

    def _code_of_each(self) -> list[int]:
        """The classes' codes in a stream that finds them itself, in the order of ``classes_``."""
        return [self._codes_of[label] for label in self.classes_.tolist()]

    def _codes(self, y: np.ndarray) -> np.ndarray:
        codes = _places(self.classes_, y)
        if codes is None:
            check_classification_targets(y)
            known = self.classes_.tolist()
            unknown = [label for label in np.unique(y).tolist() if label not in known]
            raise ValueError(_unknown(unknown[0], self.classes_))
        return codes

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn the rows in their order.

        Rows may have more columns than before, in ``feature_weights``' absence, and never fewer.  Where the first call
        names ``classes`` these are all; where it does not, new ones may come in any call.  One that comes after the
        first 1000 rows learns from its first row on, by a model of its own; where a softmax or the penalty ties classes
        together it joins the others from there on, and the loss of a row is over the classes that had appeared by then.
        """
        return self._partial_fit(X, y, sample_weight, classes)

    def _encoded(
        self, y: np.ndarray, weights: np.ndarray | None, first: bool, classes: Any
    ) -> tuple[np.ndarray, np.ndarray | None]:
        self._refuse_balanced("partial_fit")
        if first:
            self._open, self._codes_of = classes is None, {}
        if self._open:
            if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                raise ValueError("classes= belongs to the first call: this stream finds its classes itself.")
            codes = self._found(y, weights)
            scale = self._class_weights(codes)
            weights = weights if scale is None else scale if weights is None else weights * scale
            return codes.astype(np.float64), weights
        if classes is not None:
            given, _ = _two_or_more(np.asarray(classes), "classes")
            if not first and not np.array_equal(given, self.classes_):
                raise ValueError(f"classes differ from those of the first call, {self.classes_.tolist()}.")
            self.classes_ = given
        codes = self._codes(y)
        return codes.astype(np.float64), self._weighted(codes, weights, self.class_weight)

    def _codes_now(self, y: np.ndarray) -> np.ndarray:
        if not self._open:
            return self._codes(y).astype(np.float64)
        return np.array([self._codes_of.get(label, -1) for label in y.tolist()], np.float64)

    def _mistakes(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (self._best(p) != y).astype(np.float64)

    def decision_function(self, X: Any) -> np.ndarray:
        """Margins: one column per class, or one value per row for two classes."""
        p = self._margins(X)
        if len(self.classes_) > 2:
            return p
        return p[:, 0] if p.shape[1] == 1 else p[:, 1] - p[:, 0]

    def predict(self, X: Any) -> np.ndarray:
        """The most likely label of each row."""
        return self._best(self._margins(X))

    def predict_one(self, x: Any) -> Any:
        """The most likely label of one example, given as to ``learn_one``.

        While a stream is under way the iterate answers, at the cost of the example's nonzeros; ``predict`` answers from
        the converted model.  After ``fit`` and ``finalize`` they are one.
        """
        return self._best(self._margins_one(x)[None]).tolist()[0]

    def _best(self, p: np.ndarray) -> np.ndarray:
        """The most likely class for each row of margins."""
        alone = p.shape[1] == 1 and len(self.classes_) == 2
        return self.classes_[(p[:, 0] > 0.0).astype(int) if alone else p.argmax(1)]

    def _has_probabilities(self) -> bool:
        if not hasattr(self._loss(), "probabilities"):
            raise AttributeError(f"predict_proba needs loss='logistic' or 'multinomial', not {self.loss!r}.")
        return True

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (rows, classes); with more than two classes the softmax of "multinomial", otherwise each
        class's own, scaled to sum to one."""
        return self._probabilities(self._margins(X))

    @available_if(_has_probabilities)
    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """The probability of each label for one example, given as to ``learn_one``; see ``predict_one``."""
        p = self._probabilities(self._margins_one(x)[None])[0]
        return dict(zip(self.classes_.tolist(), p.tolist(), strict=True))

    def _probabilities(self, p: np.ndarray) -> np.ndarray:
        if len(self.classes_) == 1:
            return np.ones_like(p)
        loss = self._loss()
        return (losses.Logistic() if p.shape[1] == 1 and losses.couples(loss) else loss).probabilities(p)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class SparseRegressor(RegressorMixin, SparseLinearModel):
    """A sparse linear regression, learned one example at a time.

    Parameters and notes as in :class:`SparseClassifier`, without ``class_weight``; ``loss`` is "squared" (or
    "squared_error"), "huber", "epsilon-insensitive", "quantile" (the median; ``sparsco.Quantile(q)`` for others),
    "poisson" (counts; ``predict`` gives their mean, exp of the margin) or a loss record.  ``y`` may have several
    columns, each an output with a model of its own; the penalties "row-group" and "trace" tie these models together.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsco import SparseRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 50))
    >>> y = 2.0 * X[:, 3] - X[:, 7] + 0.3 * rng.normal(size=2000)
    >>> model = SparseRegressor(alpha=0.1, random_state=0).fit(X, y)
    >>> np.flatnonzero(model.coef_)
    array([3, 7])
    """

    _losses = REGRESSOR_LOSSES

    _takes_columns = True
    _outputs: int | None

    def _models(self) -> list[Values]:
        outputs = self._outputs or 1
        return [Values(outputs, part) for part in self._blocks(outputs)]

    def _all_targets(
        self, y: np.ndarray, weights: np.ndarray | None, goes_on: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        return self._targets(y, goes_on), weights

    def _targets(self, y: np.ndarray, goes_on: bool) -> np.ndarray:
        """Targets as numbers; their columns are the outputs, None where y is one-dimensional."""
        outputs = y.shape[1] if y.ndim == 2 else None
        if goes_on and outputs != self._outputs:
            raise ValueError(f"y has {outputs or 'no'} columns; the stream began with {self._outputs or 'none'}.")
        self._outputs = outputs
        y, loss = _as_numbers(y), self._loss()
        if hasattr(loss, "refuse"):
            loss.refuse(y)
        return y

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the rows in their order; they may have more columns than before, and never fewer."""
        return self._partial_fit(X, y, sample_weight)

    def _encoded(
        self, y: np.ndarray, weights: np.ndarray | None, first: bool, classes: Any
    ) -> tuple[np.ndarray, np.ndarray | None]:
        return self._targets(y, not first), weights

    def _mistakes(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.square(self._predicted(p) - y)

    def _predicted(self, p: np.ndarray) -> np.ndarray:
        p, loss = p[:, 0] if self._outputs is None else p, self._loss()
        return loss.predicted(p) if hasattr(loss, "predicted") else p

    @property
    def coef_(self) -> Any:
        """Weights, (features,), or (outputs, features) where y has columns; sparse and (outputs, features) after
        ``sparsify``."""
        coef = self._coef()
        return coef if sp.issparse(coef) or self._outputs is not None else coef.ravel()

    def _target(self, y: Any) -> float:
        try:
            number = float(y)
        except (TypeError, ValueError):
            raise ValueError(f"y is {y!r}: it must be a number for a regression.") from None
        if not -LARGEST <= number <= LARGEST:
            raise ValueError(f"y is {y!r}: it must be finite and at most {LARGEST:g} in magnitude.")
        if hasattr(self._checking, "refuse"):
            self._checking.refuse(np.array([number]))
        return number

    def _begin_labels(self, anew: bool) -> None:
        if anew:
            self._outputs = None
        elif self._outputs is not None:
            raise ValueError(f"learn_one takes one number for y, and this stream has {self._outputs} columns of them.")
        self._checking = self._loss()

    def predict(self, X: Any) -> np.ndarray:
        """The predicted target of each row, (rows,) or (rows, outputs)."""
        return self._predicted(self._margins(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict_one(self, x: Any) -> Any:
        """The predicted target of one example, given as to ``learn_one``; see :meth:`SparseClassifier.predict_one`."""
        p, loss = self._margins_one(x), self._loss()
        p = loss.predicted(p) if hasattr(loss, "predicted") else p
        return float(p[0]) if self._outputs is None else p


def _unknown(label: Any, classes: np.ndarray) -> str:
    return (
        f"y has the label {label!r}, which is not among the classes {classes.tolist()}: a stream whose first "
        "partial_fit has no classes= may find new ones at any time."
    )


def _two_or_more(y: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The classes in y, sorted, and every label's place among them."""
    try:
        classes = np.unique(y[:1000])
        codes = _places(classes, y)
        if codes is None:  # the first rows did not show every class
            classes = np.unique(y)
            codes = np.searchsorted(classes, y)
    except TypeError as error:
        raise ValueError(f"{name} has labels of several types, which cannot be sorted: use one type.") from error
    check_classification_targets(classes)
    if len(classes) < 2:
        raise ValueError(f"{name} has one class only, {classes.tolist()}: a classifier needs at least two classes.")
    return classes, codes


def _places(classes: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """Every label's place among the sorted classes, None where one is not among them."""
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return codes if np.array_equal(classes[codes], y) else None


def _as_numbers(y: np.ndarray) -> np.ndarray:
    if np.asarray(y).dtype.kind in "mM":
        raise ValueError(f"y must be numbers for a regression, not {np.asarray(y).dtype}: convert dates yourself.")
    try:
        return np.asarray(y).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must be numbers for a regression, not {np.asarray(y).dtype}.") from error
