"""Solvers of other packages for each form of problem.

adelie and skein-glm have no L1 norm for a softmax, only groups of each feature's weights; scikit-learn's saga has
the L1 norm only.  skein-glm is left out of the groups: its first fit of 20,000 x 1,000 dense rows did not end within
two minutes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csc_matrix, issparse
from sklearn.linear_model import Lasso

from ..solvers import adelie_matrix, l1_logistic
from .record import GROUP, PATH, ROW_GROUPS, SMALLEST, SOFTMAX, SQUARES, Makers, Models, Solver, Task, all_classes, one

STRICT = (1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12)
OVER_LAM = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-6)
"""The tolerances of skglm, over lam."""
PASSES = (5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560)
SKEIN_FEATURES = 10_000
"""The most features for a path of skein-glm, which cannot be interrupted: with 47,236 it did not end in two minutes."""


def _by_columns(X: Any) -> Any:
    """Return rows as a matrix by columns."""
    return csc_matrix(X) if issparse(X) else np.asfortranarray(X)


def _zero_one(y: np.ndarray) -> np.ndarray:
    return (y > 0.0).astype(np.float64)


def _skein_rows(X: Any) -> Any:
    return _by_columns(X) if issparse(X) else X


# --- one output -------------------------------------------------------------------------------------------------------


def _adelie(task: Task) -> Solver:
    """Return adelie's solver for all strengths; the factor of a group is the root of its size."""
    import adelie

    columns = _by_columns(task.X)
    matrix = adelie_matrix(columns)
    starts = None if task.groups is None else np.flatnonzero(np.diff(task.groups, prepend=-1))

    def fit(tol: float) -> Any:
        glm = adelie.glm.gaussian(task.y) if task.form == SQUARES else adelie.glm.binomial(_zero_one(task.y))
        given = {"groups": starts, "lmda_path": task.lams, "tol": tol, "irls_tol": tol}
        return columns, adelie.grpnet(matrix, glm, early_exit=False, progress_bar=False, **given)

    def read(found: Any) -> Models:
        state = found[1]
        return list(zip(state.betas.toarray(), map(float, state.intercepts), strict=True))

    return Solver(fit, read, STRICT)


def _skglm_path(task: Task) -> Solver:
    from skglm import SparseLogisticRegression

    columns = _by_columns(task.X)

    def fit(tol: float) -> Models:
        model, found = SparseLogisticRegression(warm_start=True, max_iter=100), list[Any]()
        for lam in task.lams:
            found += one(model.set_params(alpha=lam, tol=lam * tol).fit(columns, task.y))
            model.coef_ = model.coef_.copy()
        return found

    return Solver(fit, lambda found: found, OVER_LAM)


def _skein_path(task: Task) -> Solver:
    import skein_glm

    if task.X.shape[1] > SKEIN_FEATURES:
        raise ValueError(f"skein-glm takes too long with {task.X.shape[1]:,} features")
    rows, labels = _skein_rows(task.X), _zero_one(task.y)

    def fit(tol: float) -> Any:
        given = {"lambdas": task.lams, "tol": tol, "outer_tol": tol, "max_iter": 1000, "max_outer": 100}
        return skein_glm.LogisticLassoPathRegressor(**given).fit(rows, labels)

    def read(model: Any) -> Models:
        return list(zip(model.coefs_, map(float, model.intercepts_), strict=True))

    return Solver(fit, read, STRICT[:7])


def _lasso(task: Task) -> Solver:
    columns = _by_columns(task.X)
    return Solver(lambda tol: Lasso(task.lam, tol=tol, max_iter=10_000).fit(columns, task.y), one, STRICT[:8])


def _celer(task: Task) -> Solver:
    import celer

    columns = _by_columns(task.X)
    return Solver(lambda tol: celer.Lasso(task.lam, tol=tol).fit(columns, task.y), one, STRICT[:8])


def _skglm_lasso(task: Task) -> Solver:
    from skglm import Lasso

    columns = _by_columns(task.X)
    return Solver(lambda tol: Lasso(task.lam, tol=task.lam * tol).fit(columns, task.y), one, OVER_LAM)


# --- several classes --------------------------------------------------------------------------------------------------


def _saga(task: Task) -> Solver:
    def fit(passes: float) -> Any:
        given = {"tol": 0.0, "max_iter": int(passes), "random_state": 0}
        return l1_logistic("saga", task.lam, 0.0, len(task.y), **given).fit(task.X, task.y)

    return Solver(fit, all_classes, PASSES)


def _adelie_softmax(task: Task) -> Solver:
    """Return adelie's solver, which divides the loss by the number of classes."""
    import adelie

    columns, k = _by_columns(task.X), int(task.y.max()) + 1
    matrix, factors, Y = adelie_matrix(columns), np.ones(task.X.shape[1]), np.eye(k)[task.y]

    def fit(tol: float) -> Any:
        given = {"lmda_path": task.lams / k, "penalty": factors, "tol": tol, "irls_tol": tol}
        return columns, adelie.grpnet(matrix, adelie.glm.multinomial(Y), early_exit=False, progress_bar=False, **given)

    def read(found: Any) -> Models:
        state = found[1]
        return [(state.betas[-1].toarray().reshape(-1, k).T, np.ravel(state.intercepts[-1]))]

    return Solver(fit, read, STRICT)


def _skein_softmax(task: Task) -> Solver:
    """Return skein's solver, which divides the loss by the number of classes."""
    import skein_glm

    rows, k = _skein_rows(task.X), int(task.y.max()) + 1

    def fit(tol: float) -> Any:
        given = {"weights": np.ones(task.X.shape[1]), "tol": tol, "outer_tol": tol, "max_iter": 1000, "max_outer": 1000}
        return skein_glm.MultinomialLassoClassifier(task.lam / k, **given).fit(rows, task.y)

    return Solver(fit, all_classes, STRICT[:9])


_ADELIE = ("adelie", "adelie")
_SKEIN = ("skein-glm", "skein")
MAKERS: dict[str, Makers] = {
    PATH: {_ADELIE: _adelie, ("skglm", "skglm, warm starts"): _skglm_path, _SKEIN: _skein_path},
    SMALLEST: {_ADELIE: _adelie},
    GROUP: {_ADELIE: _adelie},
    SOFTMAX: {("scikit-learn", "sklearn saga"): _saga},
    ROW_GROUPS: {_ADELIE: _adelie_softmax, _SKEIN: _skein_softmax},
    SQUARES: {
        ("scikit-learn", "sklearn Lasso"): _lasso,
        ("celer", "celer"): _celer,
        ("skglm", "skglm"): _skglm_lasso,
        _ADELIE: _adelie,
    },
}
