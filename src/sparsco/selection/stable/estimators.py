"""Stable selections as scikit-learn estimators."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import compute_class_weight

from ...estimators.margins import without_weights
from ...estimators.sklearn import MarginClassifier
from ...estimators.tasks import as_numbers, two_or_more
from ...losses import CLASSIFIER_LOSSES, REGRESSOR_LOSSES, Gamma, Poisson, Tweedie
from ...util.attributes import stored
from .linear import StableLinearModel

NOT_STABLE = Poisson, Gamma, Tweedie
"""The losses without a bound on their curvature, for which averaged SGD has no step size."""


class StableSparseClassifier(MarginClassifier, StableLinearModel):
    """A linear classifier on few features, whose selection is stable under other orders and samples of the rows.

    Parameters
    ----------
    n_features : int, float or "auto"
        The number of features to keep, or a share of all columns.  "auto" takes, by cross-validation, the fewest
        features within one standard error of the best.  Otherwise nothing is judged on held-out rows: compare the
        scores of the model with those of a constant.
    loss : str or a loss record
        One of "logistic" (or "log_loss"), "hinge", "squared-hinge" (or "squared_hinge"), "squared" (or
        "squared_error"). More than two classes are learned one against the rest, on one set of features for all.
    method : {"sts", "paper"} or a record
        "sts" is staged learning on many paths (:class:`sparsco.selection.stable.STS` has its constants).  "paper" is
        stabilized truncated SGD (:class:`sparsco.selection.stable.Stabilized`), which decides the number of features
        itself.
    prepare : {"auto", "rows", "columns", None}
        "columns" divides columns by the root mean square of their nonzeros.  "rows" also takes square roots and brings
        rows to one norm, which suits text; ``coef_`` are then weights of the prepared columns.  "auto" with "sts" is
        "rows" if most entries are zero and columns are in one unit, else "columns".  ``preparation_`` is the result.
    class_weight, fit_intercept, random_state
        As in scikit-learn.
    n_jobs : int, optional
        The number of threads for the paths; the result does not depend on it.
    fdr : float, optional
        The largest expected share of false features among the selected ones, such as 0.1.  Features are then selected
        by paths on random halves of the rows, and their number follows.  ``q_values_`` has the share for each feature.
        See docs/promise.md.
    efp : float, optional
        The largest expected number of false features, in place of ``fdr``.  ``efp_scores_`` has it for each feature.
    probes : bool
        Whether ``fdr`` or ``efp`` is checked with probes, columns in another order of the rows, which cannot matter.

    Notes
    -----
    ``partial_fit`` keeps the rows of a stream on the features that are still in question, at most ``STS.memory``
    nonzeros.  As long as it can keep all of them the model is that of ``fit``.  See docs/stable.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsco import StableSparseClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 50))
    >>> y = X[:, 3] - X[:, 7] + 0.3 * rng.normal(size=1000) > 0
    >>> model = StableSparseClassifier(n_features=2, random_state=0).fit(X, y)
    >>> np.flatnonzero(model.get_support())
    array([3, 7])
    """

    known_losses = {name: loss for name, loss in CLASSIFIER_LOSSES.items() if not loss.couples}
    classifies = True

    def __init__(
        self,
        n_features: Any = "auto",
        *,
        loss: Any = "logistic",
        method: Any = "sts",
        prepare: Any = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        fdr: float | None = None,
        efp: float | None = None,
        probes: bool = False,
    ) -> None:
        super().__init__(
            n_features,
            loss=loss,
            method=method,
            prepare=prepare,
            fit_intercept=fit_intercept,
            n_jobs=n_jobs,
            random_state=random_state,
            fdr=fdr,
            efp=efp,
            probes=probes,
        )
        self.class_weight = class_weight

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn further rows, and return the estimator.

        Without ``classes`` in the first call, new ones may come in any call.
        """
        return self._partial_fit(X, y, sample_weight, classes)

    def _new_classes(self, y: np.ndarray, classes: Any, anew: bool = True) -> None:
        if anew:
            self._labels: list[Any] = []
            self._declared = classes is not None
        if isinstance(self.class_weight, str) and not anew:
            raise ValueError(f"class_weight={self.class_weight!r} needs all labels at once: pass a dict.")
        if self._declared:
            known, _ = two_or_more(np.asarray(classes), "classes") if classes is not None else (self.classes_, None)
            if not anew and not np.array_equal(known, self.classes_):
                raise ValueError(f"classes differ from those of the first call, {self.classes_.tolist()}.")
            unknown = np.setdiff1d(y, known)
            if len(unknown):
                raise ValueError(f"y has the label {unknown[0]!r}, which is not among the classes {known.tolist()}.")
            self.classes_ = known
        elif anew:
            self.classes_, _ = two_or_more(y, "y")
        else:
            self.classes_ = np.union1d(self.classes_, y)
        # codes of labels follow the order of appearance, so that a new class does not change the codes of kept rows
        self._labels += [label for label in self.classes_.tolist() if label not in self._labels]

    def _coded(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places = np.searchsorted(self.classes_, y)
        if self.class_weight is not None:
            scale = compute_class_weight(self.class_weight, classes=self.classes_, y=y, sample_weight=weights)
            weights = weights * scale[places]
            self._balance = scale if isinstance(self.class_weight, str) else None
        codes = np.array([self._labels.index(label) for label in self.classes_.tolist()], np.float64)
        return codes[places][:, None], weights

    def probabilities_of(self, p: np.ndarray) -> np.ndarray:
        """Return the probability of each class for each row of margins; balanced classes are corrected for."""
        if not isinstance(self.class_weight, str):
            return super().probabilities_of(p)
        inside = self.fit_state.inside
        weights = stored(self, "_balance") if inside is None else inside.mean_class_weights()
        return without_weights(super().probabilities_of(p), weights)

    def _targets(self, y: np.ndarray) -> np.ndarray:
        codes = [self._labels.index(label) for label in self.classes_.tolist()]
        models = codes[1:] if len(codes) == 2 else codes
        return np.where(y[:, 0] == np.array(models)[:, None], 1.0, -1.0)


class StableSparseRegressor(RegressorMixin, StableLinearModel):
    """A linear regression on few features, whose selection is stable under other orders and samples of the rows.

    Parameters
    ----------
    loss : str or a loss record
        One of "squared" (or "squared_error"), "huber", "absolute" (or "absolute_error"), "epsilon-insensitive" (or
        "epsilon_insensitive"), "quantile".
    n_features, method, prepare, fit_intercept, random_state, n_jobs, fdr, efp, probes
        As in :class:`StableSparseClassifier`, without ``class_weight``; ``prepare="auto"`` is "columns".

    Notes
    -----
    ``y`` may have several columns, with one set of features for all.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsco import StableSparseRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 50))
    >>> y = 2.0 * X[:, 3] - X[:, 7] + 0.3 * rng.normal(size=1000)
    >>> model = StableSparseRegressor(n_features=2, random_state=0).fit(X, y)
    >>> np.flatnonzero(model.coef_), model.coef_[[3, 7]].round(1)
    (array([3, 7]), array([ 2., -1.]))
    """

    known_losses = {name: loss for name, loss in REGRESSOR_LOSSES.items() if not isinstance(loss, NOT_STABLE)}
    _takes_columns = True

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn further rows, and return the estimator."""
        return self._partial_fit(X, y, sample_weight)

    def _coded(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self._outputs = y.shape[1] if y.ndim == 2 else None
        y = as_numbers(y)
        return y[:, None] if y.ndim == 1 else y, weights

    def _targets(self, y: np.ndarray) -> np.ndarray:
        return y.T

    @property
    def coef_(self) -> np.ndarray:
        """Return the weights: (features,), or (outputs, features) if y has columns."""
        coef = super().coef_
        return coef if self._outputs is not None else coef.ravel()

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted target of each row, (rows,) or (rows, outputs)."""
        p, loss = self._margins(X), self.loss_record()
        p = p[:, 0] if self._outputs is None else p
        return loss.predicted(p)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
