"""The batch solvers of other packages, for methods: how each is prepared and run on a problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csc_matrix, csr_matrix, hstack, issparse

from .sets import Problem

Setting = dict[str, float]
Fit = Callable[[Setting], Any]
"""A function that learns with a setting and returns a model."""
Weights = tuple[np.ndarray, float]

GLUM_FEATURES = 10_000
"""The most features for glum, which holds a dense matrix of second derivatives over all features."""
CONSTANT = 100.0
"""The value of the constant column for snapml: the larger, the less the penalty of its weight counts."""


def columns(problem: Problem) -> Any:
    """Return the rows as a matrix by columns."""
    return csc_matrix(problem.data.X) if issparse(problem.data.X) else np.asfortranarray(problem.data.X)


def _zero_one(problem: Problem) -> np.ndarray:
    return (problem.data.y > 0.0).astype(np.float64)


def skglm(problem: Problem) -> Fit:
    """Return fits of skglm."""
    from skglm import SparseLogisticRegression

    X = columns(problem)

    def fit(setting: Setting) -> Any:
        tol, most = problem.lam * setting.get("tol", 1e-9), int(setting.get("iterations", 100))
        model = SparseLogisticRegression(alpha=problem.lam, tol=tol, max_iter=most, fit_intercept=problem.intercept)
        return model.fit(X, problem.data.y)

    return fit


def celer(problem: Problem) -> Fit:
    """Return fits of celer, which has no intercept."""
    import celer

    X, C = columns(problem), 1.0 / (problem.lam * len(problem.data.y))

    def fit(setting: Setting) -> Any:
        most = int(setting.get("iterations", 100))
        return celer.LogisticRegression(C=C, tol=setting.get("tol", 1e-9), max_iter=most).fit(X, problem.data.y)

    return fit


def adelie_matrix(X: Any) -> Any:
    """Return rows, held by columns, as a matrix of adelie; it does not copy them."""
    import adelie

    return adelie.matrix.sparse(X) if issparse(X) else adelie.matrix.dense(X)


def adelie(problem: Problem) -> Fit:
    """Return fits of adelie, with one strength and no early exit."""
    import adelie

    X = columns(problem)  # adelie's matrix refers to it
    matrix, y = adelie_matrix(X), _zero_one(problem)

    def fit(setting: Setting) -> Any:
        return adelie.grpnet(
            matrix,
            adelie.glm.binomial(y),
            lmda_path=np.array([problem.lam]),
            tol=setting["tol"],
            irls_tol=setting["tol"],
            intercept=problem.intercept,
            early_exit=False,
            progress_bar=False,
        )

    return fit


def read_adelie(problem: Problem, state: Any) -> Weights:
    """Return weights and intercept of the last strength of a path."""
    return state.betas[-1].toarray().ravel(), float(state.intercepts[-1]) if problem.intercept else 0.0


def glum(problem: Problem) -> Fit:
    """Return fits of glum; raise if its matrix of second derivatives would be too large."""
    import glum

    X, y = columns(problem), _zero_one(problem)
    if X.shape[1] > GLUM_FEATURES:
        raise ValueError(f"glum's matrix of second derivatives is too large for {X.shape[1]:,} features")

    def fit(setting: Setting) -> Any:
        model = glum.GeneralizedLinearRegressor(
            family="binomial",
            alpha=problem.lam,
            l1_ratio=1.0,
            solver="irls-cd",
            gradient_tol=problem.lam * setting["tol"],
            fit_intercept=problem.intercept,
        )
        return model.fit(X, y)

    return fit


def snapml(problem: Problem) -> Fit:
    """Return fits of snapml, by columns.

    With an L1 penalty its own intercept is not in the model that it returns (1.17).  So it gets a constant column,
    which is prepared and not timed.
    """
    import snapml

    X, y = columns(problem), problem.data.y
    if problem.intercept:
        constant = np.full((len(y), 1), CONSTANT)
        X = hstack([X, csr_matrix(constant)], format="csc") if issparse(X) else np.asfortranarray(np.c_[X, constant])

    def fit(setting: Setting) -> Any:
        model = snapml.LogisticRegression(
            penalty="l1",
            dual=False,
            regularizer=problem.lam * len(y),
            tol=setting.get("tol", 1e-9),
            max_iter=int(setting.get("iterations", 1000)),
            n_jobs=1,
        )
        return model.fit(X, y)

    return fit


def read_snapml(problem: Problem, model: Any) -> Weights:
    """Return weights and intercept; the intercept is that of the constant column."""
    w = np.ravel(model.coef_)
    return (w[:-1], CONSTANT * float(w[-1])) if problem.intercept else (w, 0.0)


def skein(problem: Problem) -> Fit:
    """Return fits of skein-glm, which takes sparse rows by columns and dense ones by rows."""
    import skein_glm

    X, y = columns(problem) if issparse(problem.data.X) else problem.data.X, _zero_one(problem)

    def fit(setting: Setting) -> Any:
        tol = setting["tol"]
        model = skein_glm.LogisticLassoRegressor(
            problem.lam, tol=tol, outer_tol=tol, max_iter=1000, max_outer=100, fit_intercept=problem.intercept
        )
        return model.fit(X, y)

    return fit
