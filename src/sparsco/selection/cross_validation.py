"""Cross-validated estimators: K folds and the whole data learn their paths side by side, in the same read."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.randomness import Purpose, uniform
from ..data.rows import Matrix, count_columns
from ..engine.run import PILOT_ROWS
from ..estimators.fit_state import Phase
from ..estimators.parameters import check_parameters, new_runs, tolerance
from ..estimators.passes import counted_rows, order_of_pass, run_passes
from ..estimators.sklearn import SparseClassifier, SparseRegressor, has_probabilities
from ..estimators.views import Viewed
from ..metrics.selection import kappa_of_sizes
from ..penalties import RATIOS
from ..util.attributes import stored
from ..util.threads import aside, pool_of
from .judging import judged, margins_by
from .learning import (
    USELESS_PASSES,
    check_count,
    converted,
    finished,
    learner_of,
    polished,
    solved,
    strength_of_lanes,
    strengths_of,
)
from .path import Path, check_rule


@runtime_checkable
class Splitter(Protocol):
    """An object that deals rows out to folds, as scikit-learn's do."""

    def get_n_splits(self) -> int: ...

    def split(self, X: Any, y: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]: ...


class CrossValidated(Viewed, SelectorMixin, BaseEstimator):
    """The base of the cross-validated classifier and regressor; ``best_estimator_`` predicts."""

    _kind: Any
    path_: Path

    def __init__(
        self,
        estimator: Any = None,
        *,
        alphas: Any = None,
        n_alphas: int = 32,
        alpha_min_ratio: float = 1e-3,
        cv: Any = 5,
        choose: Any = "min",
        passes: int = 1,
        dtype: Any = "float64",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.alphas = alphas
        self.n_alphas = n_alphas
        self.alpha_min_ratio = alpha_min_ratio
        self.cv = cv
        self.choose = choose
        self.passes = passes
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the paths of all folds and of all rows, choose a strength by the losses of the folds, and return self.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, features)
            The rows.
        y : array
            The target of each row.
        sample_weight : array of shape (rows,), optional
            The weight of each row, at least 0.

        Returns
        -------
        self
        """
        whole = self._learner()
        matrix, y, weights = whole.check_rows(X, y, sample_weight, reset=True)
        placed, codes, weights = whole.begin_rows(matrix, y, weights, phase=Phase.STREAM)
        seed = whole.fit_state.runs[0].seed
        fold = self._folds(codes if whole.classifies else np.zeros(len(y)), seed)
        own = np.ones(len(y)) if weights is None else weights
        # the strengths, which the folds share, are computed from the first rows of all
        first = order_of_pass(counted_rows(len(y), weights), seed, whole.shuffle, 0)[:PILOT_ROWS]
        whole.fit_state.feed(placed, codes, own, first, False, whole.n_jobs)
        learners = [whole, *(_like(whole, placed.d) for _ in range(fold.max() + 1))]
        job = _Job(placed, codes, own, weights, fold, y if whole.classifies else codes, int(self.passes), len(first))
        with pool_of(self) as pool:
            items = [(learner, k) for k, learner in enumerate(learners, -1)]
            found = pool.map_in_turns("sparsco-fold", _learned, items, pool.hold(job))
        whole.n_iter_ = int(self.passes)
        self._finish(whole, found)
        return self

    def _learner(self) -> Any:
        """Return the learner of all rows, after a check of the parameters."""
        check_rule(self.choose)
        check_count("passes", self.passes)
        template = self._kind() if self.estimator is None else self.estimator
        if not isinstance(template, self._kind):
            raise ValueError(f"estimator={template!r}: it must be a {self._kind.__name__}.")
        if self.passes > 1 and template.polish:
            raise ValueError(USELESS_PASSES)
        strengths = strengths_of(self.alphas, self.n_alphas, self.alpha_min_ratio)
        learner = learner_of(template, strengths, self.dtype, self.random_state)
        check_parameters(learner)
        return learner

    def _folds(self, codes: np.ndarray, seed: int) -> np.ndarray:
        """Return the fold of each row: dealt at random within each class, or as ``cv`` gives it."""
        n, cv = len(codes), 5 if self.cv is None else self.cv
        if isinstance(cv, numbers.Integral) and not isinstance(cv, bool):
            if int(cv) < 2:
                raise ValueError(f"cv={cv!r}: it must be at least 2 folds, or the number of each row's fold.")
            if n < int(cv):
                raise ValueError(f"cv={cv} folds need as many rows, and there are fewer: n_samples = {n}.")
            order = np.lexsort((uniform(seed, Purpose.FOLD, np.arange(n)), codes))
            fold = np.empty(n, np.int64)
            fold[order] = np.arange(n) % int(cv)
            return fold
        given = _numbered(cv, codes) if isinstance(cv, Splitter) else np.asarray(cv)
        if given.shape != (n,) or given.dtype.kind not in "iu" or given.min() < 0 or len(np.unique(given)) < 2:
            raise ValueError(
                "cv must be a number of folds, a splitter such as KFold(5), or for each row the number of its fold, "
                "from 0 on."
            )
        return np.unique(given, return_inverse=True)[1]

    def _finish(self, whole: Any, found: list[tuple[Any, Any]]) -> None:
        (of_all, _), *folds = found
        figures = np.array([each for _, each in folds])  # folds, (loss, spread, error), strengths
        self.fold_losses_ = figures[:, 0]
        judged_folds = figures[~np.isnan(figures[:, 0]).all(1)]  # some may have rows of weight 0 only
        if len(judged_folds) < 2:
            raise ValueError(
                "fewer than two folds have rows with a weight: give other folds, or a positive weight to more rows."
            )
        spread = judged_folds[:, 0].std(0, ddof=1) / np.sqrt(len(judged_folds))
        summary = judged_folds[:, 0].mean(0), spread, judged_folds[:, 2].mean(0)
        stability = _stability([selected for selected, _ in folds], strength_of_lanes(whole), whole.n_features_in_)
        self.path_ = Path(whole.shell(), of_all, summary, stability)
        self.alpha_ = self.path_.choose(self.choose)
        self.best_estimator_ = self.path_.model(self.alpha_)
        self.n_features_in_ = self.best_estimator_.n_features_in_
        if self.best_estimator_.column_names is not None:
            self.feature_names_in_ = self.best_estimator_.column_names
        if self.best_estimator_.has_classes:
            self.classes_ = self.best_estimator_.classes_

    # ---- the chosen model ------------------------------------------------------------------------------------------

    @property
    def gap_(self) -> float:
        """Return the largest violation of an optimality condition by the polished model; NaN without ``polish``."""
        check_is_fitted(self)
        return self.best_estimator_.gap_

    @property
    def coef_(self) -> Any:
        """Return the weights of the chosen model."""
        check_is_fitted(self)
        return self.best_estimator_.coef_

    @property
    def intercept_(self) -> np.ndarray:
        """Return the intercepts of the chosen model."""
        check_is_fitted(self)
        return self.best_estimator_.intercept_

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions of the chosen model."""
        self._checked(X)
        return self.best_estimator_.predict(X)

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return self.best_estimator_.get_support()

    def __sklearn_is_fitted__(self) -> bool:
        return stored(self, "best_estimator_") is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@dataclass(frozen=True)
class _Job:
    """The rows in the form that learners take, the fold of each row, the targets as given, and the number of passes."""

    placed: Matrix
    codes: np.ndarray
    own: np.ndarray
    weights: np.ndarray | None
    fold: np.ndarray
    y: np.ndarray
    passes: int
    ahead: int
    """The number of first rows that the learner of all rows has learned before."""


def _like(whole: Any, d: int) -> Any:
    """Return a learner of a fold: the same problem, with the strengths that were computed from the first rows."""
    state = whole.fit_state
    runs = state.begun()
    lams, penalty, at = np.zeros(len(whole.strengths)), runs[0].problem.penalty, 0
    for run in runs:  # the runs of further classes repeat the strengths
        own = run.problem.lams[:: run.targets.base.m]
        lams[at : at + len(own)] = own
        at = (at + len(own)) % len(lams)
    learner = whole.twin(state.clone([]))
    learner.learn_strengths(lams, whole.in_float32)
    if not isinstance(learner.penalty, tuple):
        total = float(penalty.lam + penalty.rho)
        learner.penalty = "elasticnet" if learner.penalty in RATIOS else learner.penalty
        learner.alpha, learner.l1_ratio = total, float(penalty.lam) / total if total > 0.0 else 1.0
    learner.fit_state.start(new_runs(learner, d), Phase.STREAM, learner)
    return learner


def _stability(selected: list[np.ndarray], strength: np.ndarray, d: int) -> np.ndarray:
    """Return the mean of Cohen's kappa over pairs of folds for each strength, among d features.

    ``strength`` has the number of the strength of each lane.
    """

    def sizes(sets: np.ndarray) -> list[int]:
        return np.bincount(strength, count_columns(sets)).astype(int).tolist()

    own, pairs = [sizes(each) for each in selected], []
    p = d * len(strength) // len(own[0])
    for i, j in combinations(range(len(selected)), 2):
        both = sizes(selected[i] & selected[j])
        pairs.append([kappa_of_sizes(p, *of) for of in zip(own[i], own[j], both, strict=True)])
    return np.mean(pairs, axis=0)


def _learned(learner: Any, k: int, job: _Job) -> tuple[Any, np.ndarray | None]:
    """Learn the rows of all folds but fold k; return the selected features of its models and their figures on fold k.

    For k = -1 all rows are learned and the models are returned.
    """
    state, ahead = learner.fit_state, job.ahead if k < 0 else 0

    def learn(order: np.ndarray, epoch: int) -> None:
        nonlocal ahead
        order, ahead = order[ahead:], 0
        state.feed(job.placed, job.codes, job.own, order[job.fold[order] != k], epoch > 0, learner.n_jobs)

    rows = counted_rows(len(job.fold), job.weights)
    run_passes(rows, job.passes, learn, seed=state.runs[0].seed, shuffle=learner.shuffle)
    with aside():
        return _judged(learner, k, job)


def _judged(learner: Any, k: int, job: _Job) -> tuple[Any, np.ndarray | None]:
    """Convert and evaluate a learner that has learned all its rows; return the result of ``_learned``."""
    held, kept = np.flatnonzero(job.fold == k), np.flatnonzero((job.fold != k) & (job.own > 0.0))
    is_polished = tolerance(learner) > 0.0
    ends = polished(learner, job.placed, job.codes, job.own, kept) if is_polished else finished(learner)
    if k < 0:
        return solved(learner, ends), None
    margins = margins_by(job.placed, converted(ends), held)
    figures = judged(learner, margins, job.y[held], job.own[held]).summary()
    return np.concatenate([answer.w != 0.0 for _, answer in ends], axis=1), np.array(figures)


def _numbered(splitter: Any, codes: np.ndarray) -> np.ndarray:
    """Return the fold of each row by a splitter, whose test folds must have every row once."""
    fold, times = np.zeros(len(codes), np.int64), np.zeros(len(codes), np.int64)
    for k, (_, test) in enumerate(splitter.split(np.zeros((len(codes), 1)), codes)):
        fold[test] = k
        times[test] += 1
    if not np.all(times == 1):
        raise ValueError(f"cv={splitter!r} does not put every row into one test fold: give a splitter that does.")
    return fold


def _has_probabilities(model: Any) -> bool:
    return has_probabilities(stored(model, "best_estimator_") or model.estimator or SparseClassifier())


class SparseClassifierCV(ClassifierMixin, CrossValidated):
    """A sparse classifier whose strength of the L1 term is chosen by cross-validation, in one read of the rows.

    Parameters
    ----------
    estimator : SparseClassifier, optional
        The estimator to learn.  Its ``alpha`` and ``l1_ratio`` set the L2 weight, which all strengths share.  Its
        ``max_iter``, ``tol`` and ``early_stopping`` are ignored.
    alphas : array, optional
        The strengths.  The default is ``n_alphas`` strengths, from the smallest that selects nothing on the first 1000
        rows down to ``alpha_min_ratio`` times that.
    n_alphas : int
        The number of strengths.
    alpha_min_ratio : float
        The smallest strength over the largest.
    cv : int, splitter or array
        The number of folds (None: 5), a splitter of scikit-learn that has every row in one test fold, or an array with
        the number of each row's fold.
    choose : "min", "1-se" or int
        "min" takes the least mean loss over folds.  "1-se" takes the largest strength within one standard error of it.
        A number takes the least loss with at most that number of features.
    passes : int
        The number of passes over the rows.
    dtype : "float64" or "float32"
        Float32 is twice as fast, with the last iterates (``conversion="last"``) of fobos, nftrl and ftrl, and equal to
        about five digits.
    random_state : optional
        The seed, in place of the estimator's.
    n_jobs : int, optional
        The number of threads; the folds are learned side by side.

    Notes
    -----
    Each fold has a run of its own, equal to a run on the rows of the other folds.  One more run learns all rows, and
    its model of the chosen strength is ``best_estimator_``.  The models of a fold are evaluated on its rows at the end.
    ``path_`` holds the models of all strengths (:class:`sparsco.selection.path.Path`), ``fold_losses_`` the mean loss
    of each fold.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsco import SparseClassifier, SparseClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 50))
    >>> y = np.where(X[:, 3] - X[:, 7] + 0.3 * rng.normal(size=2000) > 0, "spam", "ham")
    >>> model = SparseClassifierCV(SparseClassifier(random_state=0), n_alphas=8, choose=2).fit(X, y)
    >>> np.flatnonzero(model.coef_), model.path_.nonzeros.tolist()[:3]
    (array([3, 7]), [0, 2, 2])
    """

    _kind = SparseClassifier

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the margins: one column per class, or one value per row for two classes."""
        self._checked(X)
        return self.best_estimator_.decision_function(X)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, (rows, classes)."""
        self._checked(X)
        return self.best_estimator_.predict_proba(X)


class SparseRegressorCV(RegressorMixin, CrossValidated):
    """A sparse regression whose strength of the L1 term is chosen by cross-validation, in one read of the rows.

    Parameters
    ----------
    estimator : SparseRegressor, optional
        The estimator to learn.
    alphas, n_alphas, alpha_min_ratio, cv, choose, passes, dtype, random_state, n_jobs
        As in :class:`SparseClassifierCV`; the notes there apply too.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsco import SparseRegressor, SparseRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 50))
    >>> y = 2.0 * X[:, 3] - X[:, 7] + 0.3 * rng.normal(size=2000)
    >>> model = SparseRegressorCV(SparseRegressor(random_state=0), n_alphas=8, choose=2).fit(X, y)
    >>> np.flatnonzero(model.coef_)
    array([3, 7])
    """

    _kind = SparseRegressor

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
