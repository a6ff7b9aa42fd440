"""scikit-learn estimators: thin compositions of a loss, a regularizer, an optimizer and a conversion."""

from __future__ import annotations

import difflib
import sys
import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from . import conversions, losses, steps
from .losses import value
from .optimizers import OPTIMIZERS
from .randomness import Purpose, uniform
from .regularizers import AutoElasticNet, elastic_net, strength
from .rows import Matrix, as_matrix, margins
from .solve import Classes, Run, Values

CONVERSIONS = {
    "last": conversions.Last(),
    "average": conversions.Average(),
    "weighted": conversions.Average(power=3.0),
    "suffix": conversions.Suffix(),
    "random": conversions.RandomIterate(),
    "optimal-sl": conversions.OptimalSL(),
    "last-sl": conversions.LastSL(),
    "average-sl": conversions.AverageSL(),
}
CLASSIFIER_LOSSES = {
    "logistic": losses.Logistic(),
    "log_loss": losses.Logistic(),
    "hinge": losses.Hinge(),
    "squared": losses.Squared(),
    "squared_error": losses.Squared(),
}
REGRESSOR_LOSSES = {"squared": losses.Squared(), "squared_error": losses.Squared()}
AUTO_FRACTION = 0.05
"""alpha="auto": this share of the smallest L1 weight that selects nothing on the first 1000 rows."""
_MAX_LANES = 32
_CHECKED_ROWS = 20_000


def _named(kind: str, name: Any, table: dict[str, Any]) -> Any:
    """The table's entry, or the user's own record; an unknown name is answered with the nearest one."""
    if not isinstance(name, str):
        return name
    if name in table:
        return table[name]
    close = difflib.get_close_matches(name, table, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"{kind}={name!r} is not known{hint} Choose from {', '.join(map(repr, table))}.")


class _SparseLinearModel(SelectorMixin, BaseEstimator):
    """What the classifier and the regressor share."""

    # ---- composition ---------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        if not (self.alpha == "auto" if isinstance(self.alpha, str) else self.alpha >= 0.0):
            raise ValueError(f"alpha={self.alpha!r}: it must be 'auto' or a number of at least 0.")
        if not 0.0 <= self.l1_ratio <= 1.0:
            raise ValueError(f"l1_ratio={self.l1_ratio!r}: it must be between 0 (only L2) and 1 (only L1).")
        if self.max_iter < 1:
            raise ValueError(f"max_iter={self.max_iter!r}: at least one pass over the data is needed.")
        if not 0.0 < self.validation_fraction < 1.0:
            raise ValueError(f"validation_fraction={self.validation_fraction!r}: it must be between 0 and 1.")

    def _regularizer(self, d: int) -> Any:
        pen = None if self.feature_weights is None else np.asarray(self.feature_weights, dtype=np.float64)
        if pen is not None and (pen.shape != (d,) or not np.all(np.isfinite(pen)) or np.any(pen < 0.0)):
            raise ValueError(f"feature_weights must be {d} finite numbers of at least 0, one per feature.")
        if isinstance(self.alpha, str):
            return AutoElasticNet(AUTO_FRACTION, self.l1_ratio, pen)
        return elastic_net(self.alpha, self.l1_ratio, pen)

    def _run(self, d: int, targets: Any, init: tuple[np.ndarray, np.ndarray] | None) -> Run:
        loss = _named("loss", self.loss, self._losses)
        strongly = self.l1_ratio < 1.0 and self.alpha != 0.0
        optimizer = self.optimizer
        if optimizer == "auto":
            optimizer = "fobos" if strongly or init is not None else "nftrl"
        conversion = self.conversion
        if conversion == "auto":
            conversion = "last" if not loss.curved and not strongly else "average-sl"
        optimizer = _named("optimizer", optimizer, {name: kind() for name, kind in OPTIMIZERS.items()})
        return Run(
            loss, self._regularizer(d), optimizer, _named("conversion", conversion, CONVERSIONS), self._step(),
            d=d, targets=targets, intercept=self.fit_intercept, seed=self._seed, initial=init,
        )  # fmt: skip

    def _step(self) -> Any:
        if isinstance(self.step_size, str):
            if self.step_size == "auto":
                return None
            rule = _named("step_size", self.step_size, {"auto": None, **steps.RULES})
            if rule in (steps.StronglyConvex, steps.Convex):
                return rule()
            raise ValueError(f"step_size={self.step_size!r} needs its constant: pass sparsco.{rule.__name__}(...).")
        if isinstance(self.step_size, int | float):
            if not self.step_size > 0.0:
                raise ValueError(f"step_size={self.step_size!r}: a constant step must be positive.")
            return steps.Constant(float(self.step_size))
        return self.step_size

    # ---- learning ------------------------------------------------------------------------------------------------

    def _begin(self, d: int, init: tuple[np.ndarray, np.ndarray] | None = None) -> None:
        """New runs, one for every 32 models."""
        self._check_parameters()
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        runs = []
        for first in range(0, self._n_models(), _MAX_LANES):
            part = slice(first, first + _MAX_LANES)
            own = None if init is None else (init[0][:, part], init[1][part])
            runs.append(self._run(d, self._targets(part), own))
        self._runs, self._model, self._layout, self.n_iter_ = runs, None, "dense", 0

    def _feed(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, order: np.ndarray | None = None) -> None:
        for run in self._runs:
            run.feed(matrix, y, weights, order)
        self._model = None

    def _fit(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None) -> None:
        n = len(matrix)
        rows = np.arange(n)
        held = np.zeros(n, bool)
        if self.early_stopping:
            held = uniform(self._seed, Purpose.VALIDATION, rows) < self.validation_fraction
            if held.all() or not held.any():
                raise ValueError(
                    f"validation_fraction={self.validation_fraction} of {n} rows leaves nothing to learn or to check: "
                    "give more rows or set early_stopping=False."
                )
        learned = rows[~held]
        checked = rows[held] if self.early_stopping else learned[:: max(1, len(learned) // _CHECKED_ROWS)]
        stopping = self.early_stopping or self.tol is not None
        best, stale, began = np.inf, 0, time.monotonic()
        if stopping and self.max_iter > 1:
            check = matrix.take(checked), y[checked], np.ones(len(checked)) if weights is None else weights[checked]
        for epoch in range(self.max_iter):
            order = learned
            if self.shuffle:
                order = np.random.default_rng([self._seed, Purpose.SHUFFLE, self.n_iter_]).permutation(learned)
            elif not held.any():
                order = None
            self._feed(matrix, y, weights, order)
            self.n_iter_ += 1
            if self.verbose:
                passed = f"pass {epoch + 1}/{self.max_iter}, {time.monotonic() - began:.1f} s"
                print(f"[{type(self).__name__}] {passed}", file=sys.stderr)
            if stopping and epoch + 1 < self.max_iter:
                objective = self._objective(*check, penalised=not self.early_stopping)
                stale = stale + 1 if objective > best - (self.tol or 0.0) * abs(objective) else 0
                best = min(best, objective)
                if stale >= self.n_iter_no_change:
                    break

    def _objective(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray, penalised: bool) -> float:
        """Mean loss (and penalty) of the current iterates, summed over models."""
        total = 0.0
        for run in self._runs:
            if run.pilot is None:
                return np.inf
            w, b = run.weights()
            m = run.problem.m
            targets, scaled = (part.reshape(len(y), -1)[:, :m] for part in run.targets.encode(y, weights, run.problem.width))
            p = margins(matrix.indptr, matrix.indices, matrix.data, w, b)
            total += float((scaled * value(run.problem.loss, p, targets)).mean(0).sum())
            if penalised:
                total += float(np.sum(strength(run.problem.regularizer, w)))
        return total

    def finalize(self) -> _SparseLinearModel:
        """Drop the training state: the model stays, small; ``partial_fit`` would start anew."""
        self._solved()
        self._runs = None
        return self

    # ---- reading the model ---------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "_runs", None) is not None or getattr(self, "_model", None) is not None

    def _solved(self) -> dict[str, Any]:
        """The converted model, computed when first asked for after learning."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit or partial_fit first.")
        if self._model is None:
            answers = [run.finish() for run in self._runs]
            runs = [answer.report.pop("run", run) for answer, run in zip(answers, self._runs, strict=True)]
            w = np.concatenate([answer.w for answer in answers], axis=1)
            self._model = {
                "coef": sp.csr_array(w.T),
                "intercept": np.concatenate([answer.b for answer in answers]),
                "history": runs[0].history,
                "t": runs[0].t,
                "report": _report(runs, answers),
            }
            if not np.any(w) and runs[0].t >= 1:
                runs[0].warn("no feature was selected: lower alpha, or give more examples.")
        return self._model

    @property
    def coef_(self) -> Any:
        """Weights, (models, features); sparse after ``sparsify``."""
        coef = self._solved()["coef"]
        return coef if self._layout == "sparse" else coef.toarray()

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts, one per model."""
        return self._solved()["intercept"]

    @property
    def n_nonzero_(self) -> int:
        """Nonzero weights over all models."""
        return int(self._solved()["coef"].count_nonzero())

    @property
    def t_(self) -> int:
        """Examples learned."""
        return self._solved()["t"]

    @property
    def history_(self) -> list[dict[str, float]]:
        """Objective on the first 1000 rows and nonzeros of the iterate, along the run."""
        return self._solved()["history"]

    @property
    def report_(self) -> dict[str, Any]:
        """What was chosen: optimizer, step, metric, guard, warnings."""
        return self._solved()["report"]

    def sparsify(self) -> _SparseLinearModel:
        """``coef_`` as a scipy sparse array from now on."""
        check_is_fitted(self)
        self._layout = "sparse"
        return self

    def densify(self) -> _SparseLinearModel:
        """``coef_`` as a dense array again."""
        check_is_fitted(self)
        self._layout = "dense"
        return self

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        mask = np.zeros(self.n_features_in_, bool)
        mask[self._solved()["coef"].indices] = True
        return mask

    def _margins(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        model = self._solved()
        out = X @ model["coef"].T
        return (out.toarray() if sp.issparse(out) else np.asarray(out)) + model["intercept"]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _report(runs: list[Run], answers: list[Any]) -> dict[str, Any]:
    run = runs[0]
    return {
        "optimizer": run.optimizer,
        "regularizer": run.problem.regularizer,
        "loss": run.problem.loss,
        "step_size": run.step if run.optimizer.uses_steps else None,
        "conversion": run.rounding or run.conversion,
        "L_mean": run.pilot.L_mean,
        "pilot_rows": run.pilot.n,
        "examples": run.seen,
        "converted": [answer.report for answer in answers],
        "warnings": [message for each in runs for message in each.warnings],
    }


class SparseClassifier(ClassifierMixin, _SparseLinearModel):
    """A sparse linear classifier, learned one example at a time.

    Parameters
    ----------
    loss : {"logistic", "log_loss", "hinge", "squared"} or a loss record
    alpha : "auto" or float
        Strength of the penalty ``alpha * (l1_ratio * ||w||_1 + (1 - l1_ratio) / 2 * ||w||^2)``.  "auto" takes 5% of
        the smallest L1 weight that selects nothing on the first 1000 rows, since no fixed number suits every scale.
    l1_ratio : float
        1 is pure L1, 0 pure L2.
    optimizer : {"auto", "sgd", "fobos", "rda", "ftrl", "nftrl"} or an optimizer record
        "auto": the normalised FTRL, which needs no step size, without an L2 term, and FOBOS with one.
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
    shuffle, random_state, fit_intercept, class_weight, warm_start, verbose, n_jobs
        As in scikit-learn.  ``warm_start`` goes on with the stream where it stopped.
    feature_weights : array of shape (n_features,), optional
        Relative L1 weight of each feature; 0 leaves a feature unpenalised.

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
        self, loss: Any = "logistic", *, alpha: Any = "auto", l1_ratio: float = 1.0, optimizer: Any = "auto",
        conversion: Any = "auto", step_size: Any = "auto", max_iter: int = 5, tol: float | None = 1e-3,
        n_iter_no_change: int = 1, early_stopping: bool = False, validation_fraction: float = 0.1,
        shuffle: bool = True, random_state: Any = None, fit_intercept: bool = True, class_weight: Any = None,
        feature_weights: Any = None, warm_start: bool = False, n_jobs: int | None = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.loss = loss
        self.alpha = alpha
        self.l1_ratio = l1_ratio
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
        self.class_weight = class_weight
        self.feature_weights = feature_weights
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _n_models(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _targets(self, part: slice) -> Classes:
        k = len(self.classes_)
        signs = np.array([[-1.0], [1.0]]) if k == 2 else 2.0 * np.eye(k) - 1.0
        weights = np.repeat(self._class_weights[:, None], signs.shape[1], axis=1)
        return Classes(signs[:, part], weights[:, part])

    def _encode(self, y: np.ndarray) -> np.ndarray:
        codes = np.searchsorted(self.classes_, y)
        codes = np.minimum(codes, len(self.classes_) - 1)
        if np.any(self.classes_[codes] != y):
            unknown = y[self.classes_[codes] != y][0]
            raise ValueError(f"y has the label {unknown!r}, which is not among the classes {list(self.classes_)}.")
        return codes.astype(np.float64)

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, coef_init: Any = None, intercept_init: Any = None
    ) -> SparseClassifier:
        """Learn from rows X and labels y, in up to ``max_iter`` passes."""
        X, y = _validated(self, X, y, reset=not (self.warm_start and self.__sklearn_is_fitted__()))
        check_classification_targets(y)
        weights = _weights(sample_weight, X)
        classes = unique_labels(y)
        if len(classes) < 2:
            raise ValueError(f"y has one class only, {classes[0]!r}: a classifier needs at least two classes.")
        matrix = as_matrix(X)
        if not (self.warm_start and getattr(self, "_runs", None) and np.array_equal(classes, self.classes_)):
            self.classes_ = classes
            self._class_weights = _class_weights(self.class_weight, classes, y)
            self._begin(matrix.d, _initial(coef_init, intercept_init, matrix.d, self._n_models()))
        self._fit(matrix, self._encode(y), weights)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> SparseClassifier:
        """Learn the rows in their order; the first call names all ``classes``."""
        first = getattr(self, "_runs", None) is None
        X, y = _validated(self, X, y, reset=first)
        check_classification_targets(y)
        weights = _weights(sample_weight, X)
        if first:
            if classes is None:
                raise ValueError("the first call of partial_fit needs classes=, all labels that will ever come.")
            if isinstance(self.class_weight, str):
                raise ValueError(
                    "class_weight='balanced' needs all labels at once, which partial_fit never sees: pass a dict."
                )
            classes = unique_labels(classes)
            if len(classes) < 2:
                raise ValueError(f"classes has one class only, {classes[0]!r}: a classifier needs at least two.")
            self.classes_ = classes
            self._class_weights = _class_weights(self.class_weight, classes, classes)
        elif classes is not None and not np.array_equal(unique_labels(classes), self.classes_):
            raise ValueError(f"classes differ from those of the first call, {list(self.classes_)}.")
        codes = self._encode(y)
        matrix = as_matrix(X)
        if first:
            self._begin(matrix.d)
            self.n_iter_ = 1
        self._feed(matrix, codes, weights)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Margins: one column per class, or one value per row for two classes."""
        p = self._margins(X)
        return p[:, 0] if p.shape[1] == 1 else p

    def predict(self, X: Any) -> np.ndarray:
        """The most likely label of each row."""
        p = self._margins(X)
        return self.classes_[(p[:, 0] > 0.0).astype(int) if p.shape[1] == 1 else p.argmax(1)]

    def _has_probabilities(self) -> bool:
        if not isinstance(_named("loss", self.loss, self._losses), losses.Logistic):
            raise AttributeError(f"predict_proba needs loss='logistic', not {self.loss!r}.")
        return True

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (rows, classes); with more than two classes each class's own, scaled to sum to one."""
        with np.errstate(over="ignore"):
            p = 1.0 / (1.0 + np.exp(-self._margins(X)))
        if p.shape[1] == 1:
            return np.hstack([1.0 - p, p])
        total = p.sum(1, keepdims=True)
        return np.where(total > 0.0, p / np.where(total > 0.0, total, 1.0), 1.0 / p.shape[1])

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class SparseRegressor(RegressorMixin, _SparseLinearModel):
    """A sparse linear regression, learned one example at a time; parameters as in :class:`SparseClassifier`.

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

    def __init__(
        self, loss: Any = "squared", *, alpha: Any = "auto", l1_ratio: float = 1.0, optimizer: Any = "auto",
        conversion: Any = "auto", step_size: Any = "auto", max_iter: int = 5, tol: float | None = 1e-3,
        n_iter_no_change: int = 1, early_stopping: bool = False, validation_fraction: float = 0.1,
        shuffle: bool = True, random_state: Any = None, fit_intercept: bool = True,
        feature_weights: Any = None, warm_start: bool = False, n_jobs: int | None = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.loss = loss
        self.alpha = alpha
        self.l1_ratio = l1_ratio
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
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _n_models(self) -> int:
        return 1

    def _targets(self, part: slice) -> Values:
        return Values()

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, coef_init: Any = None, intercept_init: Any = None
    ) -> SparseRegressor:
        """Learn from rows X and targets y, in up to ``max_iter`` passes."""
        warm = self.warm_start and getattr(self, "_runs", None) is not None
        X, y = _validated(self, X, y, reset=not warm, y_numeric=True)
        weights = _weights(sample_weight, X)
        matrix = as_matrix(X)
        if not warm:
            self._begin(matrix.d, _initial(coef_init, intercept_init, matrix.d, 1))
        self._fit(matrix, y.astype(np.float64), weights)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> SparseRegressor:
        """Learn the rows in their order."""
        first = getattr(self, "_runs", None) is None
        X, y = _validated(self, X, y, reset=first, y_numeric=True)
        weights = _weights(sample_weight, X)
        matrix = as_matrix(X)
        if first:
            self._begin(matrix.d)
            self.n_iter_ = 1
        self._feed(matrix, y.astype(np.float64), weights)
        return self

    @property
    def coef_(self) -> Any:
        """Weights, (features,); sparse and (1, features) after ``sparsify``."""
        coef = self._solved()["coef"]
        return coef if self._layout == "sparse" else coef.toarray().ravel()

    def predict(self, X: Any) -> np.ndarray:
        """The predicted target of each row."""
        return self._margins(X)[:, 0]


def _validated(estimator: Any, X: Any, y: Any, reset: bool, **options: Any) -> tuple[Any, np.ndarray]:
    return validate_data(
        estimator, X, y, accept_sparse="csr", accept_large_sparse=True, dtype=[np.float64, np.float32], reset=reset,
        **options,
    )  # fmt: skip


def _weights(sample_weight: Any, X: Any) -> np.ndarray | None:
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weights.sum() > 0.0:
        raise ValueError("sample_weight is zero for every row: there is nothing to learn from.")
    return weights


def _class_weights(class_weight: Any, classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    return compute_class_weight(class_weight, classes=classes, y=y).astype(np.float64)


def _initial(coef: Any, intercept: Any, d: int, m: int) -> tuple[np.ndarray, np.ndarray] | None:
    if coef is None and intercept is None:
        return None
    w = np.zeros((m, d)) if coef is None else np.reshape(np.asarray(coef, dtype=np.float64), (-1, d))
    b = np.zeros(m) if intercept is None else np.reshape(np.asarray(intercept, dtype=np.float64), -1)
    if w.shape != (m, d) or b.shape != (m,):
        raise ValueError(f"coef_init must have the shape {(m, d)} and intercept_init the shape {(m,)}.")
    return np.ascontiguousarray(w.T), b
