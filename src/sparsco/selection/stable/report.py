"""The stability of an estimator's selection: fits on shuffled and on sampled rows, compared pair by pair."""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.utils import indexable

from ...data.inspection import sound
from ...estimators.sparsify import has_weights
from ...metrics.selection import cohen_kappa, jaccard, support
from ...util.attributes import by_position


class Repeated(NamedTuple):
    """The agreement of repeated fits: one entry per fit, or per pair of fits."""

    kappa: np.ndarray
    """Cohen's kappa of each pair of selections: 1 for the same features, 0 for agreement by chance."""
    jaccard: np.ndarray
    frequency: np.ndarray
    """The share of fits that select each feature."""
    error: np.ndarray
    """The error of each fit on rows held out: the share of wrong labels, or the root mean squared error."""
    nonzeros: np.ndarray

    def __str__(self) -> str:
        parts = {"kappa": self.kappa, "Jaccard": self.jaccard, "error": self.error, "features": self.nonzeros}
        return ", ".join(f"{name} {np.mean(x):.4g} ± {np.std(x):.2g}" for name, x in parts.items())


class StabilityReport(NamedTuple):
    """Selections under other orders of the rows (``permutations``) and under other rows (``subsamples``).

    The first shows whether a method has converged, the second whether its choice holds for data like these.  A method
    that solves its problem exactly is perfect in the first and may be poor in the second.
    """

    permutations: Repeated
    subsamples: Repeated

    def __str__(self) -> str:
        return f"other orders: {self.permutations}\nother rows:   {self.subsamples}"

    def plot(self, *, axes: Any = None) -> Any:
        """Draw the sorted selection frequencies of both kinds, and return the axes; this needs matplotlib."""
        from ...plots.selections import selection_frequencies

        return selection_frequencies(self, axes=axes)


def stability_report(
    estimator: Any,
    X: Any,
    y: Any,
    n_permutations: int = 10,
    *,
    subsample: float = 0.8,
    test: Any = 0.25,
    n_jobs: int | None = None,
    random_state: int = 0,
) -> StabilityReport:
    """Return how stable the selection of an estimator is, from fits on shuffled rows and on random shares of the rows.

    Parameters
    ----------
    estimator : a classifier or regressor with ``coef_``
        An estimator of sparsco or scikit-learn, also as the last step of a pipeline; its features are then those of
        that step.  If it has a ``random_state``, every fit has its own.
    X, y : array or sparse matrix, array
        The rows and their targets.
    n_permutations : int
        The number of fits of each kind, at least 2.
    subsample : float
        The share of the rows in a fit of the second kind, between 0 and 1.
    test : float or (X, y)
        The rows for the errors, or the share of the rows that is held out for them.
    n_jobs : int, optional
        As in joblib.
    random_state : int
        The seed.

    Returns
    -------
    StabilityReport
        The figures of both kinds of fits; ``print`` shows a summary, ``plot`` draws the selection frequencies.

    Raises
    ------
    ValueError
        If there are fewer than two fits, if ``subsample`` is not between 0 and 1, or if the model has no ``coef_``.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsco import StableSparseClassifier, stability_report
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 20))
    >>> y = X[:, 3] - X[:, 7] + 0.3 * rng.normal(size=400) > 0
    >>> report = stability_report(StableSparseClassifier(n_features=2), X, y, n_permutations=3)
    >>> np.flatnonzero(report.subsamples.frequency), float(report.permutations.kappa.mean())
    (array([3, 7]), 1.0)
    """
    if n_permutations < 2:
        raise ValueError(f"n_permutations={n_permutations}: at least two fits are needed for a pair.")
    if not 0.0 < subsample < 1.0:
        raise ValueError(f"subsample={subsample!r}: it must be a share of the rows, between 0 and 1.")
    X, y = indexable(sound(X), np.asarray(y))
    X = X.tocsr() if sp.issparse(X) else X
    if isinstance(test, tuple):
        X_test, y_test = test
    else:
        labels = y if is_classifier(estimator) else None
        X, X_test, y, y_test = train_test_split(X, y, test_size=test, stratify=labels, random_state=random_state)
    found = []
    for kind, share in enumerate((1.0, subsample)):
        work = (
            delayed(_fitted)(estimator, X, y, X_test, y_test, share, (random_state, kind, k))
            for k in range(n_permutations)
        )
        found.append(_summary(Parallel(n_jobs=n_jobs)(work)))
    return StabilityReport(*found)


def _fitted(
    estimator: Any, X: Any, y: np.ndarray, X_test: Any, y_test: Any, share: float, seed: tuple[int, ...]
) -> tuple[np.ndarray, float]:
    """Return the features that one fit selects, and its error."""
    rng = np.random.default_rng(seed)
    n = len(y)
    order = rng.permutation(n)[: max(1, round(share * n))]
    model = clone(estimator)
    random = int(rng.integers(2**31 - 1))
    states = {name: random for name in model.get_params() if name == "random_state" or name.endswith("__random_state")}
    model.set_params(**states)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # every fit gives the same warnings, and the report shows the results
        model.fit(by_position(X)[order], y[order])
        predicted = model.predict(X_test)
    if is_classifier(estimator):
        error = float(np.mean(predicted != y_test))
    else:
        error = float(np.sqrt(np.mean(np.square(predicted - y_test))))
    return _selected(model), error


def _selected(model: Any) -> np.ndarray:
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    last = getattr(last, "best_estimator_", last)
    if not has_weights(last):
        raise ValueError(f"{type(last).__name__} has no coef_: its selection cannot be compared.")
    coef = last.coef_
    width = coef.shape[-1]
    return np.any(support(coef).reshape(-1, width), axis=0)


def _summary(fits: list[tuple[np.ndarray, float]]) -> Repeated:
    masks, errors = zip(*fits, strict=True)
    pairs = list(combinations(masks, 2))
    return Repeated(
        np.array([cohen_kappa(a, b) for a, b in pairs]),
        np.array([jaccard(a, b) for a, b in pairs]),
        np.mean(masks, axis=0),
        np.array(errors),
        np.array([int(mask.sum()) for mask in masks]),
    )
