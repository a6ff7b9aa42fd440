"""Stable estimators with a promise: the fit of a SparseClassifier or SparseRegressor by PathStability inside.

``fdr`` and ``efp`` select features by paths on random halves of the rows (``error_control``).  The estimator inside
does all of it: rows in memory, streams, several classes and outputs.
"""

from __future__ import annotations

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
