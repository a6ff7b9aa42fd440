"""Cross-validated estimators: K folds and the whole data go down the strengths, and the losses choose one."""

from __future__ import annotations

import functools
from itertools import combinations
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from ..choice.splits import dealt
from ..data.inspection import sound
from ..data.randomness import Purpose, uniform
from ..estimators.held_out import by_row_of, folds_of, is_by_row
from ..estimators.margins import has_probabilities
from ..estimators.parameters import half_life_of
from ..estimators.sklearn import SparseClassifier, SparseRegressor
from ..estimators.views import NOT_FITTED, Shown, Viewed
from ..metrics.selection import kappa_of_sizes
from ..util.attributes import stored
from ..util.progress import steps_shown
from ..util.threads import pool_of
from .lane_folds import Found, learn_folds
from .learning import USELESS_PASSES, Folds, check_count, is_single, learner_of, refuse_sizes, strengths_of
from .path import Path, check_rule
from .search import search
from .solved_folds import SolvedFolds, is_solved, l2_weight, learner_to_solve, mixtures_of


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
        eps: float = 1e-3,
        l1_ratio: Any = None,
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
        self.eps = eps
        self.l1_ratio = l1_ratio
        self.cv = cv
        self.choose = choose
        self.passes = passes
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, offset: Any = None) -> Self:
        """Learn the paths of all folds and of all rows, choose a strength by the losses of the folds, and return self.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, features)
            The rows.
        y : array
            The target of each row.
        sample_weight : array of shape (rows,), optional
            The weight of each row, at least 0.
        groups : array of shape (rows,), optional
            The group of each row; rows of one group are never learned and judged by in the same fold.
        offset : array of shape (rows,), optional
            A number for each row that is added to its margin, such as the logarithm of an exposure.

        Returns
        -------
        self
        """
        template = self._template()
        strengths, rows = strengths_of(self.alphas, self.n_alphas, self.eps), (X, y, sample_weight, offset)
        folds = functools.partial(self._folds, X, groups)
        with pool_of(self) as pool, steps_shown(type(self).__name__, template.verbose):
            mixtures = mixtures_of(self.l1_ratio, template)
            if self._is_solved(template, mixtures):
                learner, rho = learner_to_solve(template, strengths, self.random_state), l2_weight(template)
                found = search(SolvedFolds(learner, rows, folds, pool), strengths, mixtures, rho, self.choose)
            else:
                learner = learner_of(template, strengths, self.dtype, self.random_state)
                found = learn_folds(learner, rows, folds, int(self.passes), pool)
            self._finish(found)
        return self

    def _template(self) -> Any:
        """Return the estimator to learn, after a check of the parameters."""
        check_rule(self.choose)
        check_count("passes", self.passes)
        template = self._kind() if self.estimator is None else self.estimator
        if not isinstance(template, self._kind):
            raise ValueError(f"estimator={template!r}: it must be a {self._kind.__name__}.")
        if self.passes > 1 and template.polish:
            raise ValueError(USELESS_PASSES)
        if is_by_row(template.cv) or folds_of(template.cv) is not None:
            raise ValueError(f"cv of the estimator has no effect: give it to {type(self).__name__}.")
        if half_life_of(template) is not None:
            raise ValueError("folds take all rows alike, and half_life lets old ones fade: use SparsePath.")
        refuse_sizes(template)
        return template

    def _is_solved(self, template: Any, mixtures: list[float] | None) -> bool:
        """Return whether folds are solved; whoever names an online method gets its iterates as lanes of one read."""
        if self.passes == 1 and not is_single(self.dtype) and is_solved(template, mixtures):
            return True
        if self.l1_ratio is not None:
            raise ValueError(
                f"l1_ratio={self.l1_ratio!r} needs models that are solved: leave optimizer, conversion, step_size, "
                "preset, passes and dtype as they are, and choose an elastic net."
            )
        return False

    def _folds(self, X: Any, groups: Any, codes: np.ndarray, seed: int) -> Folds:
        """Return the folds of the rows: dealt at random within each class, or as ``cv`` gives them."""
        n, count = len(codes), folds_of(self.cv) or 5
        given = by_row_of(self.cv, X, codes, groups)
        if given is not None and given.splits:
            return Folds.of(given.splits, n)
        own = None if given is None else given.groups
        most, what = (n, "sample") if own is None else (len(np.unique(own)), "group")
        if most < count:
            raise ValueError(f"cv={count} folds need as many {what}s, and there are fewer: n_{what}s = {most}.")
        strata = [codes] if own is None else [codes == code for code in np.unique(codes)]
        return Folds.by_number(dealt(uniform(seed, Purpose.FOLD, np.arange(n)), strata, own, count))

    def _finish(self, found: Found) -> None:
        self.fold_losses_ = found.figures[:, 0]
        judged = found.figures[~np.isnan(found.figures[:, 0]).all(1)]  # some may have rows of weight 0 only
        if len(judged) < 2:
            raise ValueError(
                "fewer than two folds have rows with a weight: give other folds, or a positive weight to more rows."
            )
        spread = judged[:, 0].std(0, ddof=1) / np.sqrt(len(judged))
        summary = judged[:, 0].mean(0), spread, *judged[:, 2:].mean(0)
        stability = _stability(found.selected, found.shell.n_features_in_)
        self.path_ = Path(found.shell, found.solved, summary, stability, found.l1_ratio)
        self.path_.warn_of(self.choose)
        self.alpha_ = self._chosen(found)
        self.best_estimator_ = self.path_.model(self.alpha_)
        self.l1_ratio_ = self.best_estimator_.l1_ratio_
        self.n_features_in_ = self.best_estimator_.n_features_in_
        if self.best_estimator_.input_names is not None:
            self.feature_names_in_ = self.best_estimator_.input_names
        if self.best_estimator_.has_classes:
            self.classes_ = self.best_estimator_.classes_

    def _chosen(self, found: Found) -> float:
        """Return the chosen strength, whose model has been solved to the end; the number of its features may change."""
        refined = set[int]()
        while True:
            alpha = self.path_.choose(self.choose)
            k = int(np.abs(self.path_.alphas - alpha).argmin())
            if k in refined:
                return alpha
            self.path_.solved[k] = found.refined(self.path_.solved[k])
            refined.add(k)

    def shown(self) -> Shown:
        """Return what the HTML view shows: the chosen strength, and the model of it."""
        if not self.__sklearn_is_fitted__():
            return Shown(NOT_FITTED)
        chosen, folds = self.best_estimator_.shown(), len(self.fold_losses_)
        how = f"alpha={self.alpha_:.4g}, chosen of {len(self.path_)} strengths by {folds} folds"
        return chosen._replace(state=f"{chosen.state.partition(';')[0]}; {how}")

    # ---- the chosen model ------------------------------------------------------------------------------------------

    @property
    def gap_(self) -> float:
        """Return the largest violation of an optimality condition by the polished model; NaN without ``polish``."""
        check_is_fitted(self)
        return self.best_estimator_.gap_

    @property
    def n_selected_(self) -> int:
        """Return the number of features that the chosen model uses."""
        check_is_fitted(self)
        return self.best_estimator_.n_selected_

    def plot(self, *, axes: Any = None) -> Any:
        """Draw the weights against the strength, with the chosen one marked, and return the axes."""
        check_is_fitted(self)
        return self.path_.plot(axes=axes, chosen=self.alpha_)

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
        if self.best_estimator_.reads_by_description(X, reset=False):
            return X
        return validate_data(self, sound(X), accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)

    def predict(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return the predictions of the chosen model; ``offset`` is added to the margins."""
        self._checked(X)
        return self.best_estimator_.predict(X, offset)

    def _scored(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> float:
        self._checked(X)
        return self.best_estimator_.score(X, y, sample_weight, offset)

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return self.best_estimator_.get_support()

    def __sklearn_is_fitted__(self) -> bool:
        return stored(self, "best_estimator_") is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _stability(selected: list[list[sp.csr_array]], d: int) -> np.ndarray:
    """Return the mean of Cohen's kappa over pairs of folds for each strength, among d features.

    ``selected`` has for every fold the weights (models, features) of each strength.
    """
    (models, width), count = selected[0][0].shape, len(selected[0])
    own = [[each.nnz for each in fold] for fold in selected]
    sets, pairs = [_places(fold) for fold in selected], []
    for i, j in combinations(range(len(selected)), 2):
        common = np.intersect1d(sets[i], sets[j], assume_unique=True)
        both = np.bincount(common // (models * width), minlength=count).tolist()
        pairs.append([kappa_of_sizes(d * models, *of) for of in zip(own[i], own[j], both, strict=True)])
    return np.mean(pairs, axis=0)


def _places(weights: list[sp.csr_array]) -> np.ndarray:
    """Return a number for each nonzero of several arrays of one shape, one array after the other."""
    m, d = weights[0].shape
    rows = np.repeat(np.arange(m * len(weights)), np.concatenate([np.diff(each.indptr) for each in weights]))
    return rows * d + np.concatenate([each.indices for each in weights])


def _has_probabilities(model: Any) -> bool:
    return has_probabilities(stored(model, "best_estimator_") or model.estimator or SparseClassifier())


class SparseClassifierCV(ClassifierMixin, CrossValidated):
    """A sparse classifier whose strength of the L1 term is chosen by cross-validation.

    Parameters
    ----------
    estimator : SparseClassifier, optional
        The estimator to learn.  Its ``alpha`` and ``l1_ratio`` set the L2 weight, which all strengths share.  Its
        ``max_iter``, ``tol`` and ``early_stopping`` are ignored.
    alphas : array, optional
        The strengths.  The default is ``n_alphas`` strengths, from the smallest that selects nothing down to ``eps``
        times that.
    n_alphas : int
        The number of strengths.
    eps : float
        The smallest strength over the largest.  If the least loss is there, the strengths go on by the same ratio,
        until the loss has turned, or down to a millionth of the largest.
    l1_ratio : float or list of float, optional
        The share of the L1 term, or several to choose from, as in scikit-learn's ``ElasticNetCV``.  The strengths are
        then those of both terms together.  None is the estimator's.
    cv : int, splitter, list of splits or array
        The number of folds (None and "auto": 5), a splitter of scikit-learn, a list of pairs of arrays of rows, to
        learn and to judge by, or an array with the number of each row's fold.
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
    Each fold is solved from strength to strength, and its models are evaluated on its rows.  All rows give the models
    of ``path_``, of which the chosen one, ``best_estimator_``, is solved to the end.  A named optimizer, conversion,
    step size or preset is learned as it is, all strengths in one read; so are other ``passes`` and float32.
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

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Return the share of rows whose label is predicted."""
        return self._scored(X, y, sample_weight, offset)

    def decision_function(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return the margins: one column per class, or one value per row for two classes."""
        self._checked(X)
        return self.best_estimator_.decision_function(X, offset)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return the probabilities of the classes, (rows, classes)."""
        self._checked(X)
        return self.best_estimator_.predict_proba(X, offset)


class SparseRegressorCV(RegressorMixin, CrossValidated):
    """A sparse regression whose strength of the L1 term is chosen by cross-validation.

    Parameters
    ----------
    estimator : SparseRegressor, optional
        The estimator to learn.
    alphas, n_alphas, eps, l1_ratio, cv, choose, passes, dtype, random_state, n_jobs
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

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Return the share of variance explained (R^2) of the predictions."""
        return self._scored(X, y, sample_weight, offset)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
