"""The scikit-learn estimators: a sparse classifier and a sparse regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    _get_feature_names,
    check_is_fitted,
    validate_data,
)

from ..data.crosses import Crossed
from ..data.inspection import sound
from ..data.rows import Matrix, as_matrix
from ..data.slots import Columns, SeenColumns
from ..offsets import numbers_of, with_offset
from ..util.attributes import shape_of, stored
from .frames import Framed, checked_targets
from .held_out import by_row_of
from .hints import Hinted
from .life_cycle import Phase, unchanged_on_error
from .linear import LinearModel
from .margins import Margins, has_probabilities
from .parameters import check_parameters, refuse_polish
from .row_checks import is_plain, nameless, validated
from .row_offsets import checked_offset, shifted
from .row_times import checked_times
from .selecting import Selecting
from .tasks import LinearClassifier, LinearRegressor
from .views import ViewedModel


class Estimator(ViewedModel, Framed, Selecting, Hinted):
    """A linear model as a scikit-learn estimator.

    It validates rows and targets, and names features, as scikit-learn does.
    """

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        coef_init: Any = None,
        intercept_init: Any = None,
        groups: Any = None,
        offset: Any = None,
        time: Any = None,
    ) -> Self:
        """Learn from rows X and targets y, in up to ``max_iter`` passes, and return the estimator.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (rows, features)
            The rows.  A data frame of numbers is an array with names.  One that has categories, dates, texts or missing
            cells is read by a description of its columns (docs/tables.md).
        y : array
            The target of each row.
        sample_weight : array of shape (rows,), optional
            The weight of each row, at least 0.
        coef_init, intercept_init : array, optional
            The weights and intercepts to start from, in the shapes of ``coef_`` and ``intercept_``.
        groups : array of shape (rows,), optional
            The group of each row: a patient, a session, a document.  When alpha is chosen, rows of one group are never
            learned and judged by in the same split.
        offset : array of shape (rows,), optional
            A number for each row that is added to its margin: for rates the logarithm of the exposure, for a second
            model the margin of the first.  See docs/offsets.md.
        time : array of shape (rows,), optional
            The time of each row, which never falls, in the unit of ``half_life``.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the input or a parameter is not valid; the estimator is as it was before.
        DivergenceError
            If the steps are too large; the estimator is as it was before.
        """
        if self.warm_start:
            self._flush()
        with unchanged_on_error(self):
            check_parameters(self)
            goes_on = bool(self.warm_start) and self._goes_on()
            matrix, targets, weights = self.check_rows(X, y, sample_weight, offset, reset=not goes_on)
            by_row = by_row_of(self.cv, X, numbers_of(targets), groups)
            times = checked_times(time, len(matrix), self.half_life)
            self.fit_rows(matrix, targets, weights, goes_on, (coef_init, intercept_init), by_row, times)
            self.convert()
        return self

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, offset: Any, time: Any, classes: Any = None) -> Self:
        """Learn the rows in their order."""
        self._flush()
        with unchanged_on_error(self):
            refuse_polish(self, "partial_fit")
            first = self._begins("partial_fit")
            matrix, y, weights = self.check_rows(X, y, sample_weight, offset, reset=first, grows=True)
            times = checked_times(time, len(matrix), self.half_life)
            self._learn_next(matrix, y, weights, first, classes, times=times)
        return self

    def _widen(self, X: Any) -> None:
        """Extend the stream to the columns of X, of which there are more than before."""
        if self.feature_weights is not None:
            raise ValueError(
                f"X has {X.shape[1]} columns and feature_weights {self.n_features_in_} numbers: a growing "
                "stream cannot have feature_weights."
            )
        if self.feature_groups is not None:
            raise ValueError(
                f"X has {X.shape[1]} columns, and the groups were made of {self.n_features_in_}: give all columns in "
                "the first call, or fit all rows at once."
            )
        names, before = _get_feature_names(X), self.column_names
        if before is not None:
            if names is None:
                raise ValueError(nameless(X.shape[1], len(before)))
            if not np.array_equal(names[: len(before)], before):
                return  # scikit-learn raises its own error
            self.feature_names_in_ = names
        self.n_features_in_ = X.shape[1]

    def _note(self, x: Any, y: Any, offset: float | None = None, time: float | None = None) -> None:
        self._fit.note(x, self._target, y, offset, time)
        names = stored(self, "feature_names_in_") if type(x) is tuple else None  # faster than the property
        if names is not None:
            width = 1 + max(map(int, x[0]), default=-1)
            if width > len(names):
                self._fit.unnote()
                raise ValueError(nameless(width, len(names)))

    def check_rows(
        self, X: Any, y: Any, sample_weight: Any, offset: Any = None, *, reset: bool, grows: bool = False
    ) -> tuple[Matrix, np.ndarray, np.ndarray | None]:
        """Return rows, targets with their offsets, and weights, validated by scikit-learn; ``reset`` starts anew."""
        if self.reads_by_description(X, reset):
            rows, y, own = self.rows_by_description(X, y, reset)
            offset = own if offset is None else offset
            y, weights = checked_targets(y, sample_weight, rows.indptr[1:], grows)
            return rows, y if offset is None else with_offset(y, checked_offset(offset, len(y))), weights
        if grows and not reset and isinstance(self._fit.features, Columns):
            shape = shape_of(X)
            if len(shape) == 2 and shape[1] > self.n_features_in_:
                self._widen(X)
        # as_matrix and check_numbers check that numbers are finite, together with their size
        if reset and is_plain(X, y):
            self.n_features_in_ = X.shape[1]
            if self.column_names is not None:
                del self.feature_names_in_
        else:
            X, y = validated(self, X, y, reset, self._takes_columns)
        if reset:
            self.forget(X.shape[1])
        matrix = as_matrix(X, wide=isinstance(self._fit.features, SeenColumns))
        y, weights = checked_targets(y, sample_weight, X, grows)
        return matrix, y if offset is None else with_offset(y, checked_offset(offset, len(y))), weights

    def _margins(self, X: Any, offset: Any = None) -> np.ndarray:
        check_is_fitted(self)
        model = self.convert()
        if self._fit.described is not None and self._fit.described.takes(X):
            return self._at(self.margins_of_table(X, own_offset=offset is None), offset)
        X = validate_data(self, sound(X), accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if isinstance(self._fit.features, Crossed):
            return self._at(self.margins_of(as_matrix(X, wide=True)), offset)
        if isinstance(self._fit.features, SeenColumns):
            X = self._fit.features.find(as_matrix(X, wide=True)).to_scipy()
        p = X @ model.coef.T
        return self._at((p.toarray() if sp.issparse(p) else p) + model.intercept, offset)

    def _at(self, p: np.ndarray, offset: Any) -> np.ndarray:
        """Return margins at the offsets of the rows."""
        return shifted(p, None if offset is None else checked_offset(offset, len(p)), self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class MarginClassifier(ClassifierMixin, Margins):
    """A scikit-learn classifier that predicts from ``_margins(X)``."""

    _margins: Callable[..., np.ndarray]

    def decision_function(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return the margins: one column per class, or one value per row for two classes."""
        p = self._margins(X, offset)
        if len(self.classes_) > 2:
            return p
        return p[:, 0] if p.shape[1] == 1 else p[:, 1] - p[:, 0]

    def predict(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return the most likely label of each row; ``offset`` is added to the margins."""
        return self.labels_of(self._margins(X, offset))

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Return the share of rows whose label is predicted."""
        return float(accuracy_score(y, self.predict(X, offset), sample_weight=sample_weight))

    @available_if(has_probabilities)
    def predict_proba(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return the probabilities of the classes, (rows, classes); ``offset`` is added to the margins.

        With more than two classes they are the softmax of "multinomial", or else the probability of each class on its
        own, scaled to a sum of one.  Those of balanced classes are corrected to the frequencies of the classes.
        """
        return self.probabilities_of(self._margins(X, offset))

    @available_if(has_probabilities)
    def predict_log_proba(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return the logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, offset))


class SparseClassifier(MarginClassifier, LinearClassifier, Estimator):
    """A sparse linear classifier, learned one example at a time.

    Parameters
    ----------
    loss : str or a loss record
        One of "logistic" (or "log_loss"), "hinge", "squared-hinge" (or "squared_hinge"), "multinomial", "squared" (or
        "squared_error").  More than two classes are learned one against the rest.  Only "multinomial" learns one
        softmax for all classes (at most 128).  With two classes "multinomial" is "logistic", unless a stream may bring
        more classes.
    alpha : "auto" or float
        The strength of the penalty ``alpha * (l1_ratio * ||w||_1 + (1 - l1_ratio) / 2 * ||w||^2)``.  "auto" chooses it
        on held-out rows, see docs/automatic.md; ``alpha_`` is the choice.  Where an optimizer, a conversion, a step
        size, a preset or another penalty is named, "auto" takes 5% of the smallest L1 weight that selects nothing on
        the first 1000 rows learned.
    l1_ratio : "auto" or float
        1 is pure L1, 0 is pure L2.  "auto" is chosen with alpha: 1 or 0.2, or 0.05 below 2000 rows.  Where alpha
        is given it is 1.
    penalty : str or a penalty record
        One of "elasticnet", "l1", "l2", "row-group", "group", "sparse-group", "trace", "nonnegative", "mcp",
        "adaptive".  "l1" and "l2" are the two ends of the elastic net.  The others replace the L1 norm.  "group" takes
        the norm of the weights of each of the ``feature_groups``, so that a group is in or out as a whole;
        "sparse-group" is half of it, and half L1.  "row-group" takes the norm of each feature's weights over all
        models, so that a feature is in or out for all of them.  "trace" takes the sum of the singular values of
        ``coef_``, which gets low rank.  "nonnegative" takes the L1 norm over weights of at least 0.  "mcp" and
        "adaptive" start from the solution with L1 and solve L1 problems with feature weights from there: large weights
        are shrunk less, or not at all.  MCP is not convex: the model is near a local optimum, and another one may be
        better (docs/nonconvex.md).  A record, such as :class:`sparsco.penalties.GroupL1`, has its own strength.
        "trace" and the records without a lazy form are learned in mini-batches.
    optimizer : str or an optimizer record
        "auto", or one of "sgd", "fobos", "rda", "ftrl", "nftrl", "adagrad-fobos", "adagrad-rda", "truncated-gradient",
        "epoch-gd", "epoch-sgd", "mirror-descent", "orda", "ssg", "batch-fobos", "batch-rda".  "auto" is the normalised
        FTRL, which needs no step size.  For squared loss with an L2 term it is FOBOS.  For groups it is FOBOS or dual
        averaging.  For penalties without a lazy form it is one of these on mini-batches.
    conversion : str or a conversion record
        The conversion of the iterates into the model: "auto", or one of "last", "average", "weighted", "suffix",
        "random", "last-epoch", "optimal-sl", "last-sl", "average-sl", "scmdi", "ocmdi".  "auto" chooses alpha on a
        sample of the rows; where alpha is given, it is AverageSL behind its guard, or for hinge loss without L2 the
        last iterate.
    step_size : "auto", the name of a rule, a step rule record, or a float
        A float is a constant step.
    max_iter : int
        The largest number of passes over the data in ``fit``.  The automatic choice of alpha makes one pass, and so
        does a given alpha if the rows have at most a million numbers, and nothing else is named.
    tol : float or None
        ``fit`` stops when a pass improves the objective by less than this share, ``n_iter_no_change`` times in a row.
    n_iter_no_change : int
        The number of such passes in a row after which ``fit`` stops.
    early_stopping : bool
        If True, the objective is computed on ``validation_fraction`` of the rows, which are held out.
    validation_fraction : float
        The share of the rows that ``early_stopping`` holds out, or ``calibrate`` where alpha is given.
    shuffle, random_state, fit_intercept
        As in scikit-learn.
    class_weight : None, "balanced" or dict
        The weights of the classes, as in scikit-learn.  In a stream "balanced" weighs a row by the rows seen so far.
        Probabilities of balanced classes are corrected to the frequencies of the classes (docs/calibration.md).
    calibrate : bool
        If True, Platt scaling calibrates ``predict_proba`` on rows that were not learned (docs/calibration.md).
    standardize : "auto" or bool
        If True, the weight of a column is penalised in units of its spread, so that scales do not matter; that is for
        elastic nets and groups.  "auto" is True where alpha is chosen on held-out rows, and False where alpha or a
        method is set.  For groups and paths it is True where no strength is given.
    relaxed : "auto" or bool
        If True, the selected features are learned again without the L1 term.  "auto" is chosen with alpha; where alpha
        is given it is False.  While alpha is chosen, True allows such models as "auto" does, and does not force them.
    choose : {"balanced", "min", "1-se"}
        The rule that chooses alpha.  "balanced" takes the fewest features within half a standard error of the least
        loss, with 99% of the gain.  "min" takes the least loss.  "1-se" takes the fewest features within one standard
        error.  Strengths are far apart, so the three often take the same model; ``at_size`` makes smaller ones.
    cv : "auto", int, splitter, list of splits or array
        The rows that are held out to choose alpha.  "auto" and None take a sample or up to five folds, as the number of
        rows allows.  A number is that of the folds.  A splitter is one of scikit-learn, such as ``TimeSeriesSplit()``.
        A list has splits, which are pairs of arrays of rows, to learn and to judge by.  An array has the number of each
        row's fold.  Streams take "auto" or a number.  ``fit`` takes ``groups`` of rows that belong together.
    feature_weights : array of shape (n_features,), optional
        The relative L1 weight of each feature; 0 leaves a feature unpenalised.
    feature_groups : array of shape (n_features,), dict or "columns", optional
        The groups of features, for ``penalty="group"`` and ``"sparse-group"``: a label for each column, or a dict from
        names of features to labels, where a feature that is not named is a group of its own.  "columns" takes the text
        before the first "=" of a name: ``job=cook`` belongs to ``job``.
    schema : dict, optional
        The kinds of columns of a data frame, as in :func:`sparsco.train`: {"message": "text", "zip": "category"}.  The
        types of the columns decide for the others (docs/tables.md).
    storage : {"auto", "all", "seen"}
        "all": the training state has room for every column of X.  "seen": it has room only for columns that occurred,
        whose numbers may go up to 2^62; ``coef_`` is then sparse.  "auto" is like "seen" in ``fit`` and
        ``partial_fit``, if X has a million columns (2^20) or more and no parameter has a value for each column.
        Otherwise it is "all".  With "auto" ``coef_`` is dense until ``sparsify``.
    max_features, trim : int, optional
        The largest number of features of a stream, and the examples after which unseen ones leave (docs/streams.md).
    preset : str or a preset, optional
        An algorithm of :mod:`sparsco.presets` by name, such as "two-stage".  It sets the optimizer, conversion, step
        size and penalty, if these parameters are left open.
    budget : int, optional
        The largest number of features.  With an automatic alpha, it is the best model with at most so many features,
        counted once for all classes or outputs.  Otherwise the features of largest |weight| times root mean square are
        kept in each model (with penalty="row-group": in all models together), and learned again with an L2 term that
        is chosen on held-out rows.  See docs/two-stage.md.
    target_excess_risk : (eps, delta), optional
        Keep the features of so many random draws that these add at most eps * delta to the loss on average, then learn
        them anew.  The loss in question is the mean squared error, or the mean loss for other losses.  It is no promise
        for a single model (docs/two-stage.md).
    warm_start : bool
        If True, ``fit`` goes on with the stream where it stopped; the parameters of the stream cannot change then.
    n_jobs : int, optional
        The number of threads, for more than 32 classes, which are learned 32 at a time, and for the strengths of a
        path.
    verbose : int
        Above 0, ``fit`` writes its progress to stderr: passes, and the steps of the choice of alpha.  At a terminal it
        does so after two seconds in any case.
    polish : bool or float
        ``fit`` makes one pass and then goes on to the exact optimum over all rows.  It stops when no optimality
        condition is violated by more than this share of lam (True: 1e-4), and the duality gap is at most this share of
        the objective.  ``gap_`` is the violation that is left.  See docs/optimum.md.
    half_life : float, optional
        For streams that change: the number of examples after which an example counts half as much, or the time, if
        ``time`` is given.  Rows are then read once, in their order.  See docs/streams.md.

    Notes
    -----
    ``fit`` goes over the rows several times, ``partial_fit`` goes over them once, ``learn_one`` takes one example.  See
    docs/streams.md for streams that bring new features and classes.  ``partial_fit`` gives the same bits for any cut of
    the rows into calls, and the same as ``fit`` with ``max_iter=1, shuffle=False, tol=None``.

    ``convert`` makes the model from the training state of a stream.  ``coef_``, ``predict`` and all that needs a model
    call it; ``report_`` and views do not.  Bad input raises ``ValueError`` and leaves the estimator as it was.  Steps
    that are too large raise :class:`sparsco.DivergenceError`.  After that error in ``fit`` the estimator is as before;
    a stream in ``partial_fit`` is lost and raises the error again.

    Weights of rows multiply the loss and are not rescaled.  The objective is the mean of weight times loss over the
    rows of positive weight, so weights that are all 2 count like half of alpha.  ``finalize()`` drops the training
    state, which is most of a pickle; a finalized model predicts and cannot learn further.

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

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        time: Any = None,
    ) -> Self:
        """Learn the rows in their order, and return the estimator.

        Rows may have more columns than before, unless ``feature_weights`` is set, and never fewer.  If the first call
        names ``classes``, these are all classes; if not, new classes may come in any call.

        A class that comes after the first 1000 rows learns from its first row on, in a model of its own.  If a softmax
        or the penalty couples the classes, it joins the others from there on.  The loss of a row is then over the
        classes that had appeared by then.

        Rows of weight zero are left out.  They bring no classes, only columns, and a chunk of them changes no weight.
        ``time`` has the time of each row, which never falls, in the unit of ``half_life``.
        """
        if classes is None:
            self.check_first_labels(np.asarray(y))
        return self._partial_fit(X, y, sample_weight, offset, time, classes)

    @available_if(has_probabilities)
    def predict_proba_one(self, x: Any, offset: float | None = None) -> dict[Any, float]:
        """Return the probability of each label for one example, given as to ``learn_one``; see ``predict_one``.

        While a stream is under way they are those of the iterate.  Platt scaling is then that of the iterate, too; it
        is fitted again when the rows held out have grown by a tenth.
        """
        is_under_way = self.fit_state.phase is Phase.STREAM
        shares = self.iterate_probabilities if is_under_way else self.probabilities_of
        p = shares(self._margins_one(x, offset)[None])[0]
        return dict(zip(self.classes_.tolist(), p.tolist(), strict=True))


class SparseRegressor(RegressorMixin, LinearRegressor, Estimator):
    """A sparse linear regression, learned one example at a time.

    Parameters
    ----------
    loss : str or a loss record
        One of "squared" (or "squared_error"), "huber", "absolute" (or "absolute_error"), "epsilon-insensitive" (or
        "epsilon_insensitive"), "quantile", "poisson", "gamma", "tweedie".  "quantile" is the median;
        ``sparsco.losses.Quantile(q)`` is for other quantiles.  "poisson" is for counts, "gamma" for amounts above zero,
        "tweedie" for sums of amounts (``Tweedie(power)``); ``predict`` gives their mean, exp of the margin.
    alpha, l1_ratio, penalty, optimizer, conversion, step_size, max_iter, tol and others
        As in :class:`SparseClassifier`, without ``class_weight``; the notes there apply too.

    Notes
    -----
    ``y`` may have several columns; each is an output with a model of its own.  The penalties "row-group" and "trace"
    couple these models.

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

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, time: Any = None) -> Self:
        """Learn the rows in their order, and return the estimator.

        Rows may have more columns than before, and never fewer.  ``time`` has the time of each row, which never falls,
        in the unit of ``half_life``.
        """
        return self._partial_fit(X, y, sample_weight, offset, time)

    def predict(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return the predicted target of each row, (rows,) or (rows, outputs).

        ``offset`` is added to the margins.  Without it a rate is that of one unit of exposure.
        """
        return self.predictions_of(self._margins(X, offset))

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Return the share of variance explained (R^2) of the predictions."""
        return float(r2_score(y, self.predict(X, offset), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def as_estimator(model: LinearModel) -> SparseClassifier | SparseRegressor:
    """Return the model as a scikit-learn estimator, which shares the runs and the features."""
    if isinstance(model, SparseClassifier | SparseRegressor):
        return model
    return model.twin(model.fit_state.clone(), SparseClassifier if model.classifies else SparseRegressor)
