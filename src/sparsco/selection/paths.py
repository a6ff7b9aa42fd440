"""A path as a scikit-learn estimator.

path = SparsePath(SparseClassifier(), choose="1-se").fit(X, y)
path.path_.nonzeros, path.path_.losses, path.model_
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from ..data.rows import Matrix
from ..estimators.life_cycle import Phase, unchanged_on_error
from ..estimators.linear import LinearModel
from ..estimators.margins import has_probabilities
from ..estimators.parameters import check_parameters, refuse_polish, tolerance
from ..estimators.passes import counted_rows, run_passes
from ..estimators.row_times import checked_times
from ..estimators.sklearn import SparseClassifier, as_estimator
from ..estimators.views import NOT_FITTED, Shown, Viewed, under_way
from ..util.progress import step, steps_shown
from ..util.threads import Threads, aside
from .judging import Judged, Unseen, judged
from .learning import polished
from .linear_path import LinearPath

START_ROWS = 1000
"""The rows that are learned before a path is polished."""


def _classifies(path: Any) -> bool:
    return path.classifies


def _has_probabilities(path: Any) -> bool:
    return has_probabilities(SparseClassifier() if path.estimator is None else path.estimator)


class SparsePath(Viewed, LinearPath, MetaEstimatorMixin, BaseEstimator):
    """Models for ``n_alphas`` strengths of the L1 term, learned in one read of the rows.

    Parameters
    ----------
    estimator : SparseClassifier (default) or SparseRegressor
        The estimator to learn.  Its ``alpha`` and ``l1_ratio`` set the L2 weight, which all strengths share.  Its
        ``max_iter``, ``tol`` and ``early_stopping`` are ignored, and its ``n_jobs`` threads share the strengths.
    alphas : array, optional
        The strengths.  The default is ``n_alphas`` strengths, from the smallest that selects nothing on the first 1000
        rows down to ``eps`` times that.
    n_alphas : int
        The number of strengths.
    eps : float
        The smallest strength over the largest.
    choose : "min", "1-se" or int
        "min" takes the least loss on rows not learned.  "1-se" takes the largest strength within one standard error of
        it. A number takes the least loss with at most that number of features.  See
        :meth:`sparsco.selection.path.Path.choose`.
    validation : "auto", "progressive" or float
        "progressive" evaluates the iterates on some rows before these are learned.  A share (20,000 rows at most) is
        held out, and the models are evaluated on it.  "auto" holds a fifth out if ``fit`` gets fewer than 10,000 rows,
        or if the estimator has ``polish``.  With ``polish`` every model is the optimum over the other rows, with
        ``path_.gaps`` as its certificate.
    passes : int
        The number of passes of ``fit`` over the rows.
    dtype : "float64" or "float32"
        Float32 is up to twice as fast with the last iterates (``conversion="last"``) of fobos, nftrl and ftrl, and
        equal to about five digits.

    Notes
    -----
    ``path_`` holds the models of all strengths (:class:`sparsco.selection.path.Path`).  ``alpha_`` is the strength that
    ``choose`` takes, and ``model_`` its estimator, which ``predict`` and ``score`` use.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsco import SparseClassifier, SparsePath
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 40))
    >>> y = X[:, 3] - X[:, 7] + 0.5 * rng.logistic(size=3000) > 0
    >>> path = SparsePath(SparseClassifier(random_state=0), n_alphas=8, choose=2).fit(X, y)
    >>> path.path_.nonzeros.tolist()[:2], np.flatnonzero(path.model_.coef_).tolist()
    ([0, 2], [3, 7])
    """

    def shown(self) -> Shown:
        """Return what the HTML view shows: the sizes of the models, and the chosen one."""
        path = self.fit_state.model
        if path is None:
            return under_way(self.fit_state.examples) if self.fit_state.is_fitted else Shown(NOT_FITTED)
        sizes = path.nonzeros
        state = (
            f"{len(path)} strengths with {sizes.min():,} to {sizes.max():,} of {path.shell.n_features_in_:,} features"
        )
        if not path.is_judged:
            return Shown(state)
        alpha = path.choose(self.choose)
        chosen = path.model(alpha).shown()
        return chosen._replace(state=f"{state}; alpha={alpha:.4g} is chosen, {chosen.state.partition(';')[0]}")

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, time: Any = None) -> Self:
        """Learn the models of all strengths from rows X and targets y, and return the path.

        ``offset`` has a number for each row that is added to its margin, such as the logarithm of an exposure.
        ``time`` has the time of each row, for an estimator with ``half_life``.
        """
        with unchanged_on_error(self):
            learner: Any = as_estimator(self.new_learner())
            check_parameters(learner)
            matrix, y, weights = learner.check_rows(X, y, sample_weight, offset, reset=True)
            placed, codes, weights = learner.begin_rows(matrix, y, weights)
            self._begin(learner, self._share(len(y)))
            own, self._fit.has_class_weights = np.ones(len(y)) if weights is None else weights, True
            given = checked_times(time, len(y), learner.half_life)
            times = self._fit.row_times(weights, len(y), given)
            with steps_shown(type(self).__name__, learner.verbose):
                learned = self._passes(learner, (matrix, y, weights), (placed, codes, own), times)
                self._fit.go_on(Phase.BATCH)
                if tolerance(learner):
                    self._fit.polished = len(learned)
                    self._take_ends(polished(learner, placed, codes, own, learned))
        return self

    def _passes(
        self, learner: Any, given: tuple[Any, Any, Any], taken: tuple[Any, ...], times: np.ndarray | None
    ) -> np.ndarray:
        """Learn the rows in passes, and return the numbers of the rows that were learned.

        ``given`` are the rows as the user gave them, ``taken`` the same rows in the form that runs take.
        """
        learned, sides = list[np.ndarray](), [(side,) for side in _sides(learner)]

        def learn(order: np.ndarray, epoch: int) -> None:
            step(f"pass {epoch + 1} of {self.passes}, {learner.fit_state.examples:,} rows learned")
            pieces = [
                (Unseen.of(learner, to_judge), rows)
                for to_judge, rows in self._fit.pieces(*given, order, epoch > 0, times)
            ]
            learned.extend(rows for _, rows in pieces)
            if tolerance(learner):  # optima need a start for the largest strength only
                pieces = first_rows(pieces, START_ROWS - learner.fit_state.examples)
            judged_at = [float(times[rows[0]]) if unseen and times is not None else 0.0 for unseen, rows in pieces]
            last = max((at for at, (unseen, _) in zip(judged_at, pieces, strict=True) if unseen), default=None)
            shares = None
            if times is not None and last is not None:
                shares = np.exp2(np.minimum(np.array(judged_at) - last, 0.0) / self._fit.half_life).tolist()
            how = taken, epoch > 0, times, shares
            found = Threads(learner.n_jobs).map_in_turns("strengths", _learn_side, sides, pieces, *how)
            self._fit.add_judged(Judged.beside(found), last)

        def is_done(epoch: int) -> bool:
            learner.n_iter_ += 1
            return False

        run_passes(
            counted_rows(len(given[1]), given[2]),
            self.passes,
            learn,
            seed=learner.fit_state.runs[0].seed,
            shuffle=learner.shuffle and times is None,
            is_done=is_done,
        )
        return np.sort(np.concatenate(learned))

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        time: Any = None,
    ) -> Self:
        """Learn the rows in their order, and return the path; the first call of a classifier must name all classes.

        ``time`` has the time of each row, for an estimator with ``half_life``.
        """
        state = self.fit_state
        if state.phase is Phase.FINISHED:
            raise ValueError(state.ended)
        first = state.learner is None
        learner: Any = as_estimator(self.new_learner() if first else state.learner)
        refuse_polish(learner, "partial_fit")
        with unchanged_on_error(self):
            if first:
                self._begin(learner, self._share(None))
            self._fit.learner = learner
            matrix, y, weights = learner.check_rows(X, y, sample_weight, offset, reset=first, grows=True)
            named = iter([classes])
            times = self._fit.row_times(weights, len(y), checked_times(time, len(y), learner.half_life))
            for to_judge, rows in self._fit.pieces(matrix, y, weights, np.arange(len(y)), False, times):
                if to_judge is not None:
                    self._fit.judge(to_judge, None if times is None else float(times[rows[0]]))
                self._take(matrix, y, weights, rows, False, next(named, None), times=times)
        return self

    # ---- the chosen model ------------------------------------------------------------------------------------------

    def predict(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return the predictions of ``model_``; ``offset`` is added to the margins."""
        return self.model_.predict(X, offset)

    @available_if(_classifies)
    def decision_function(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return the margins of ``model_``: one column per class, or one value per row for two classes."""
        return self.model_.decision_function(X, offset)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return the probabilities of ``model_``, (rows, classes)."""
        return self.model_.predict_proba(X, offset)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Return the accuracy of ``model_``, or its coefficient of determination for a regression."""
        return self.model_.score(X, y, sample_weight, offset)

    def plot(self, *, axes: Any = None) -> Any:
        """Draw the weights against the strength, with the chosen one marked, and return the axes."""
        return self.path_.plot(axes=axes, chosen=self.alpha_)

    @property
    def n_features_in_(self) -> int:
        """Return the number of columns."""
        return self._named.n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Return the names of the columns, if they have names."""
        return self._named.feature_names_in_

    @property
    def classes_(self) -> np.ndarray:
        """Return the sorted labels."""
        return self._named.classes_

    @property
    def _named(self) -> Any:
        """Return the object that has the labels and features; raise an AttributeError if nothing was learned."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"This {type(self).__name__} is not fitted yet.")
        state = self._fit
        return state.learner if state.model is None else state.model.shell

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = get_tags(SparseClassifier() if self.estimator is None else self.estimator)
        for name in ("estimator_type", "target_tags", "input_tags", "classifier_tags", "regressor_tags"):
            setattr(tags, name, getattr(own, name))
        return tags


def first_rows(pieces: list[tuple[Unseen | None, np.ndarray]], room: int) -> list[tuple[Unseen | None, np.ndarray]]:
    """Return the pieces cut off after ``room`` rows."""
    found = list[tuple[Unseen | None, np.ndarray]]()
    for unseen, rows in pieces:
        if room > 0:
            found.append((unseen, rows[:room]))
            room -= len(rows)
    return found


def _sides(learner: LinearModel) -> list[LinearModel]:
    """Return parts of the strengths that can be learned side by side.

    The parts are the runs, unless the models of one strength need several runs.
    """
    state = learner.fit_state
    if sum(run.targets.copies for run in state.runs) > len(learner.strengths):
        return [learner]
    sides = []
    for run in state.runs:
        side = learner.twin(state.clone([run]))
        side.learn_strengths(run.lams, learner.in_float32)
        sides.append(side)
    return sides


def _learn_side(
    side: Any,
    pieces: list[tuple[Unseen | None, np.ndarray]],
    taken: tuple[Matrix, np.ndarray, np.ndarray],
    is_repeat_pass: bool,
    times: np.ndarray | None,
    shares: list[float] | None,
) -> Judged:
    """Learn some strengths; return their figures on the rows that are evaluated before they are learned.

    Where old rows fade, ``shares`` is what the rows before each piece count.
    """
    before = []
    for unseen, rows in pieces:
        before.append([] if unseen is None else unseen.margins(side))
        side.fit_state.feed(*taken, rows, is_repeat_pass, side.n_jobs, times)
    counts = [1.0] * len(pieces) if shares is None else shares
    known = [
        (margins, unseen, np.full(len(unseen.y), count))
        for margins, (unseen, _), count in zip(before, pieces, counts, strict=True)
        if margins and unseen is not None
    ]
    if not known:
        return Judged.nothing(len(side.strengths))
    every, seen, counted = zip(*known, strict=True)  # all at once, so that threads wait less for each other
    own = None if seen[0].weights is None else np.concatenate([unseen.weights for unseen in seen])
    margins = [np.concatenate(parts) for parts in zip(*every, strict=True)]
    with aside():
        y = np.concatenate([unseen.y for unseen in seen])
        return judged(side, margins, y, own, None if shares is None else np.concatenate(counted))
