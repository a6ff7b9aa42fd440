"""Stable estimators with a promise: the fit of a SparseClassifier or SparseRegressor by PathStability inside.

``fdr`` and ``efp`` select features by paths on random halves of the rows (``error_control``).  The estimator inside
does all of it: rows in memory, streams, several classes and outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...conversions import PathStability
from ...estimators.sklearn import SparseClassifier, SparseRegressor
from ...util.threads import lent, pool_of
from .sts import Stage


def promise_of(model: Any) -> PathStability | None:
    """Return the selection with a promise that an estimator makes; None if it makes none."""
    if model.fdr is None and model.efp is None:
        if model.probes:
            raise ValueError("probes=True checks the promise of fdr or efp: give one of them.")
        return None
    if model.fdr is not None and model.efp is not None:
        raise ValueError("fdr and efp are two kinds of promise: give one of them.")
    for name, default in (("n_features", "auto"), ("method", "sts"), ("prepare", "auto")):
        if not (isinstance(getattr(model, name), str) and getattr(model, name) == default):
            raise ValueError(f"{name} has no effect where fdr or efp decides on the features: leave it at {default!r}.")
    if not isinstance(model.probes, bool | np.bool_):
        raise ValueError(f"probes={model.probes!r}: it must be True or False.")
    promise = PathStability(model.fdr, model.efp, probes=bool(model.probes))
    promise.check()
    return promise


def estimator_of(model: Any, promise: PathStability) -> Any:
    """Return the estimator that keeps the promise of a stable estimator."""
    shared = {name: getattr(model, name) for name in ("loss", "fit_intercept", "n_jobs", "random_state")}
    if model.classifies:
        return SparseClassifier(conversion=promise, class_weight=model.class_weight, **shared)
    return SparseRegressor(conversion=promise, **shared)


def converted_stage(model: Any, inside: Any) -> tuple[Stage, np.ndarray]:
    """Return the model of the estimator inside as a stage, and the selection probabilities of all features.

    ``model`` is the stable estimator, whose threads are used.
    """
    with lent(inside, pool_of(model)):
        found = inside.convert()
    coef = found.coef.toarray()
    features = np.flatnonzero(coef.any(axis=0))
    probabilities = inside.selection_probabilities_
    stage = Stage(features, coef[:, features], found.intercept, 0.0, 1.0, probabilities[features])
    return stage, probabilities


class Promised:
    """An estimator that may keep a promise by an estimator inside; what it keeps is read here."""

    _fit: Any
    convert: Callable[[], Any]

    def _promised(self) -> Any:
        """Return the estimator that keeps the promise; raise an AttributeError if there is none."""
        self.convert()
        if self._fit.inside is None:
            raise AttributeError(f"this {type(self).__name__} makes no promise on false features: give fdr= or efp=.")
        return self._fit.inside

    @property
    def efp_scores_(self) -> np.ndarray:
        """Return how many false features are expected among those that are at least as stable as each feature.

        Only with ``fdr`` or ``efp``; so are ``q_values_``, ``stability_paths_`` and ``promise_``.
        """
        return self._promised().efp_scores_

    @property
    def q_values_(self) -> np.ndarray:
        """Return the estimated share of false features in the smallest good selection that has each feature."""
        return self._promised().q_values_

    @property
    def stability_paths_(self) -> dict[str, np.ndarray]:
        """Return the strengths, and the share of halves that select each feature, (strengths, features)."""
        return self._promised().stability_paths_

    @property
    def promise_(self) -> dict[str, Any]:
        """Return what is promised of the selection, from how many rows and columns, and what is known of it."""
        return self._promised().promise_

    def plot(self, *, axes: Any = None) -> Any:
        """Draw the stability paths, the selected features by name, and return the axes; this needs matplotlib."""
        from ...plots.selections import stability_paths

        return stability_paths(self._promised(), axes=axes)
