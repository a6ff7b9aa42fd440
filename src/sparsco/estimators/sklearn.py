"""scikit-learn estimators: the two linear models behind scikit-learn's contract."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_sample_weight,
    _get_feature_names,
    check_is_fitted,
    validate_data,
)

from ..data.rows import Matrix, as_matrix, check_numbers
from ..data.slots import Columns, SeenColumns
from .fit_state import unchanged_on_error
from .linear import LinearModel
from .margins import Margins
from .parameters import check_parameters, refuse_polish
from .tasks import LinearClassifier, LinearRegressor
from .views import Viewed

_NAMES_IN_SKLEARN = {
    "C": "alpha = 1 / (C * number of rows)", "solver": "optimizer=, or polish=True for the exact optimum",
    "learning_rate": "step_size=", "eta0": "step_size=", "average": 'conversion="average"',
}  # fmt: skip
"""Parameters of scikit-learn's linear models that have other names here, and what to pass instead."""


def _hint(kind: type, name: str) -> str:
    return f"{kind.__name__} has no parameter {name}: pass {_NAMES_IN_SKLEARN[name]}."


class Hinted(BaseEstimator):
    """An estimator that answers scikit-learn's names of parameters with its own.

    ``help`` and scikit-learn show the signature of ``__init__``; early releases of Python 3.11 need to be told.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        signature = inspect.signature(cls.__init__)
        cls.__signature__ = signature.replace(parameters=[*signature.parameters.values()][1:])

    def __new__(cls, *args: Any, **params: Any) -> Self:
        """Return an estimator; raise TypeError with a hint for a parameter that has another name in scikit-learn."""
        for name in params.keys() & _NAMES_IN_SKLEARN.keys():
            raise TypeError(_hint(cls, name))
        return super().__new__(cls)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as in scikit-learn."""
        for name in params.keys() & _NAMES_IN_SKLEARN.keys():
            raise ValueError(_hint(type(self), name))
        return super().set_params(**params)


class Estimator(Viewed, LinearModel, SelectorMixin, Hinted):
    """Rows and targets as scikit-learn checks them, features as it names them."""

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, coef_init: Any = None, intercept_init: Any = None
    ) -> Self:
        """Learn from rows X and targets y, in up to ``max_iter`` passes.

        ``coef_init`` and ``intercept_init`` are where to start, in the shapes of ``coef_`` and ``intercept_``.
        """
        with unchanged_on_error(self):
            check_parameters(self)
            goes_on = bool(self.warm_start) and self._goes_on()
            if goes_on:
                self._flush()
            matrix, y, weights = self.check_rows(X, y, sample_weight, reset=not goes_on)
            self.fit_rows(matrix, y, weights, goes_on, (coef_init, intercept_init))
            self.convert()
        return self

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        """Learn the rows in their order."""
        with unchanged_on_error(self):
            refuse_polish(self, "partial_fit")
            first = self._begins("partial_fit")
            matrix, y, weights = self.check_rows(X, y, sample_weight, reset=first, grows=True)
            self._learn_next(matrix, y, weights, first, classes)
        return self

    def _widen(self, X: Any) -> None:
        """Let X have more columns than the stream had so far."""
        if self.feature_weights is not None:
            raise ValueError(
                f"X has {X.shape[1]} columns and feature_weights {self.n_features_in_} numbers: a stream that grows "
                "has no weights."
            )
        names, before = _get_feature_names(X), getattr(self, "feature_names_in_", None)
        if before is not None:
            if names is None:
                raise ValueError(_nameless(X.shape[1], len(before)))
            if not np.array_equal(names[: len(before)], before):
                return  # for scikit-learn to complain
            self.feature_names_in_ = names
        self.n_features_in_ = X.shape[1]

    def _note(self, x: Any, y: Any) -> None:
        super()._note(x, y)
        names = self.__dict__.get("feature_names_in_")
        if names is not None:
            width = 1 + max(map(int, x[0]), default=-1)
            if width > len(names):
                self._fit.unnote()
                raise ValueError(_nameless(width, len(names)))

    def check_rows(
        self, X: Any, y: Any, sample_weight: Any, reset: bool, grows: bool = False
    ) -> tuple[Matrix, np.ndarray, np.ndarray | None]:
        """Return rows, targets and weights as scikit-learn checks them; ``reset`` forgets what was learned before."""
        if grows and not reset and isinstance(self._fit.features, Columns):
            shape: Any = getattr(X, "shape", ())
            if len(shape) == 2 and shape[1] > self.n_features_in_:
                self._widen(X)
        # whether numbers are finite is for as_matrix and check_numbers to say, who look at their size as well
        X, y = validate_data(
            self, X, y, accept_sparse="csr", accept_large_sparse=True, dtype=[np.float64, np.float32],
            ensure_all_finite=False, reset=reset, multi_output=self._takes_columns,
        )  # fmt: skip
        weights = None
        if sample_weight is not None:
            weights = checked_weights(sample_weight, X, may_be_zero=grows)
        if reset:
            self.forget(X.shape[1])
        matrix = as_matrix(X, wide=isinstance(self._fit.features, SeenColumns))
        for name, data in (("y", y), ("sample_weight", weights)):
            if data is not None and data.dtype.kind == "f":
                check_numbers(data, name)
        return matrix, y, weights

    @property
    def feature_names_(self) -> np.ndarray:
        """The names of a stream's features, by column of ``coef_``; where features are columns, those of X."""
        check_is_fitted(self)
        self._flush()
        if self._fit.has_names:
            names = np.empty(len(self._fit.features), object)
            names[:] = self._fit.features.names
            return names
        return _check_feature_names_in(self)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the features whose weight is not zero."""
        if self.__sklearn_is_fitted__() and self._fit.has_names:
            return self.feature_names_[self.get_support()]
        if input_features is None and not hasattr(self, "feature_names_in_"):
            return np.array([f"x{column}" for column in self.get_support(indices=True)], object)  # not of all columns
        return super().get_feature_names_out(input_features)

    def _get_support_mask(self) -> np.ndarray:
        coef = self.convert().coef
        used = self._fit.features.to_columns(coef.indices)
        mask = np.zeros(self.n_features_in_, bool)
        mask[used] = True
        return mask

    def _margins(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        model = self.convert()
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if isinstance(self._fit.features, SeenColumns):
            X = self._fit.features.find(as_matrix(X, wide=True)).to_scipy()
        p = X @ model.coef.T
        return (p.toarray() if sp.issparse(p) else p) + model.intercept

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def checked_weights(sample_weight: Any, X: Any, may_be_zero: bool) -> np.ndarray:
    """Return the rows' weights as numbers; a chunk of a stream may have none above zero, and is a no-op then."""
    if may_be_zero and not np.any(sample_weight):
        return 0.0 * _check_sample_weight(np.add(sample_weight, 1.0), X, dtype=np.float64)
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)


def _nameless(columns: int, named: int) -> str:
    """The sentence for columns that come without names after others that have names."""
    return (
        f"there are {columns} columns without names, and this stream began with {named} columns that have names: new "
        "columns need names, so pass a data frame to partial_fit."
    )


def has_probabilities(model: Any) -> bool:
    """Whether the model's loss gives any; an AttributeError says why not."""
    if model.loss_record().probabilities is None:
        raise AttributeError(f"predict_proba needs loss='logistic' or 'multinomial', not {model.loss!r}.")
    return True


class MarginClassifier(ClassifierMixin, Margins):
    """A scikit-learn classifier that has ``_margins(X)``."""

    _margins: Callable[[Any], np.ndarray]

    def decision_function(self, X: Any) -> np.ndarray:
        """Margins: one column per class, or one value per row for two classes."""
        p = self._margins(X)
        if len(self.classes_) > 2:
            return p
        return p[:, 0] if p.shape[1] == 1 else p[:, 1] - p[:, 0]

    def predict(self, X: Any) -> np.ndarray:
        """The most likely label of each row."""
        return self.labels_of(self._margins(X))

    @available_if(has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (rows, classes); with more than two classes the softmax of "multinomial", otherwise each
        class's own, scaled to sum to one."""
        return self.probabilities_of(self._margins(X))

    @available_if(has_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class SparseClassifier(MarginClassifier, LinearClassifier, Estimator):
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
    penalty : {"elasticnet", "l1", "l2", "row-group", "trace", "nonnegative"} or a penalty record
        "elasticnet" is the L1 norm and the L2 term that ``l1_ratio`` mixes; "l1" and "l2" are its two ends.
        Others take the place of the L1 norm: "row-group" the norms of each feature's weights over all models, so that a
        feature is in or out for all of them; "trace" the sum of singular values of ``coef_``, which gets low rank;
        "nonnegative" the L1 norm over weights of at least 0.  A record, such as
        :class:`sparsco.penalties.GroupL1`, carries its own strength.  "trace" and the records without a
        lazy form are learned by mini-batches.
    optimizer : str or an optimizer record
        "auto", or one of "sgd", "fobos", "rda", "ftrl", "nftrl", "adagrad-fobos", "adagrad-rda", "truncated-gradient",
        "epoch-gd", "epoch-sgd", "orda", "ssg", "batch-fobos", "batch-rda".  "auto": the normalised FTRL, which needs no
        step size; for squared loss with an L2 term FOBOS; for penalties without a lazy form
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
        Threads for more than 32 classes, which are learned 32 at a time, and for the strengths of a path.
    verbose : int
        Above 0, the progress of ``fit`` goes to stderr; at a terminal it does so after two seconds anyway.
    feature_weights : array of shape (n_features,), optional
        Relative L1 weight of each feature; 0 leaves a feature unpenalised.
    storage : {"auto", "all", "seen"}
        "all": the training state has room for every column of X.  "seen": only for columns that occurred, whose numbers
        may go up to 2^62; ``coef_`` is then sparse.  "auto": as "seen" in ``fit``, and in ``partial_fit`` of an
        estimator, where X has a million columns (2^20) or more and no penalty has something for each; "all" elsewhere;
        ``coef_`` is dense until ``sparsify``.
    preset : str or a preset, optional
        An algorithm of :mod:`sparsco.presets` by name, such as "two-stage": its optimizer, conversion, step size and
        penalty, wherever these parameters are left open.
    budget : int, optional
        At most so many features in each model (penalty="row-group": in all together): those of largest |weight| times
        root mean square, learned anew with an L2 term chosen on held-out rows.  See docs/two-stage.md.
    target_excess_risk : (eps, delta), optional
        As few features as random draws need to lose at most eps (of the mean squared error; for other losses of the
        mean loss) with probability 1 - delta, then learned anew.
    polish : bool or float
        ``fit`` makes one pass and then goes on to the exact optimum over all rows, until no optimality condition is
        violated by more than this share of lam (True: 1e-4); ``gap_`` is what was reached.  See docs/optimum.md.

    Notes
    -----
    ``fit`` goes over the rows several times, ``partial_fit`` once, ``learn_one`` takes one example; see docs/streams.md
    for streams that bring new features and classes.  ``partial_fit`` cut into any pieces it gives the same bits as
    ``fit`` with ``max_iter=1, shuffle=False, tol=None``.  ``convert`` makes the model of what a stream has learned;
    ``coef_``, ``predict`` and all that needs a model call it, ``report_`` and views do not.  Bad input raises
    ``ValueError`` and leaves the estimator as it was.  Steps that are too large raise
    :class:`sparsco.DivergenceError`: after ``fit`` the estimator is as before, a stream in ``partial_fit`` is lost and
    raises it again.

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

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn the rows in their order.

        Rows may have more columns than before, in ``feature_weights``' absence, and never fewer.  Where the first call
        names ``classes`` these are all; where it does not, new ones may come in any call.  One that comes after the
        first 1000 rows learns from its first row on, by a model of its own; where a softmax or the penalty ties classes
        together it joins the others from there on, and the loss of a row is over the classes that had appeared by then.
        Rows of weight zero are left out: they bring no classes, only columns, and a chunk of them changes no weight.
        """
        return self._partial_fit(X, y, sample_weight, classes)

    @available_if(has_probabilities)
    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """The probability of each label for one example, given as to ``learn_one``; see ``predict_one``."""
        p = self.probabilities_of(self._margins_one(x)[None])[0]
        return dict(zip(self.classes_.tolist(), p.tolist(), strict=True))


class SparseRegressor(RegressorMixin, LinearRegressor, Estimator):
    """A sparse linear regression, learned one example at a time.

    Parameters and notes as in :class:`SparseClassifier`, without ``class_weight``; ``loss`` is "squared" (or
    "squared_error"), "huber", "epsilon-insensitive", "quantile" (the median; ``sparsco.losses.Quantile(q)`` for
    others), "poisson" (counts; ``predict`` gives their mean, exp of the margin) or a loss record.  ``y`` may have
    several columns, each an output with a model of its own; the penalties "row-group" and "trace" tie these models
    together.

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

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the rows in their order; they may have more columns than before, and never fewer."""
        return self._partial_fit(X, y, sample_weight)

    def predict(self, X: Any) -> np.ndarray:
        """The predicted target of each row, (rows,) or (rows, outputs)."""
        return self.predictions_of(self._margins(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def as_estimator(model: LinearModel) -> SparseClassifier | SparseRegressor:
    """Return the same model behind scikit-learn's contract; runs and features are shared."""
    if isinstance(model, SparseClassifier | SparseRegressor):
        return model
    return model.twin(model.fit_state.clone(), SparseClassifier if model.classifies else SparseRegressor)
