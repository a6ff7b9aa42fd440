"""Other packages, for methods: how each is prepared and run on a problem, and how its model is read."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csc_matrix, csr_matrix, hstack, issparse
from sklearn.linear_model import LogisticRegression, SGDClassifier

from ..util.atomic_files import replacing
from ..util.folders import cache_folder
from .sets import Problem

Setting = dict[str, float]
Fit = Callable[[Setting], Any]
"""A function that learns with a setting and returns a model."""
Weights = tuple[np.ndarray, float]

GLUM_FEATURES = 10_000
"""The most features for glum, which holds a dense matrix of second derivatives over all features."""
SKEIN_FEATURES = 100_000
"""The most features for skein-glm, whose fits cannot be interrupted: with 10^6, one did not end in two CPU minutes."""
CONSTANT = 100.0
"""The value of the constant column for snapml: the larger, the less the penalty of its weight counts."""


def columns(problem: Problem) -> Any:
    """Return the rows as a matrix by columns."""
    return csc_matrix(problem.data.X) if issparse(problem.data.X) else np.asfortranarray(problem.data.X)


def _zero_one(problem: Problem) -> np.ndarray:
    return (problem.data.y > 0.0).astype(np.float64)


def first(problem: Problem, setting: Setting) -> tuple[Any, np.ndarray]:
    """Return the rows that a setting reads, and their labels."""
    X, y = problem.data.X, problem.data.y
    if "share" not in setting:
        return X, y
    n = max(int(setting["share"] * len(y)), int((y != y[0]).argmax()) + 1)  # at least one row of both labels
    return X[:n], y[:n]


def coefficients(problem: Problem, model: Any) -> Weights:
    """Return weights and intercept of a model with scikit-learn's attributes."""
    intercept = float(np.ravel(model.intercept_)[0]) if problem.intercept else 0.0
    return np.ravel(model.coef_), intercept


def l1_logistic(solver: str, lam: float, rho: float, n: int, **settings: Any) -> LogisticRegression:
    """Return a batch solver of scikit-learn, which sums losses, for mean loss + lam |w| + rho/2 |w|^2."""
    mixture: dict[str, Any] = {"l1_ratio": lam / (lam + rho)}
    if inspect.signature(LogisticRegression).parameters["penalty"].default != "deprecated":
        mixture = {"penalty": "l1"} if rho == 0.0 else {"penalty": "elasticnet"} | mixture
    return LogisticRegression(solver=solver, C=1.0 / ((lam + rho) * n), **mixture, **settings)


# --- scikit-learn -----------------------------------------------------------------------------------------------------


def sgd(average: bool = False) -> Callable[[Problem], Fit]:
    """Return a maker of fits of scikit-learn's SGD."""

    def make(problem: Problem) -> Fit:
        def fit(setting: Setting) -> Any:
            return SGDClassifier(
                loss="log_loss",
                penalty="elasticnet" if problem.rho else "l1",
                alpha=problem.lam + problem.rho,
                l1_ratio=problem.lam / (problem.lam + problem.rho),
                fit_intercept=problem.intercept,
                tol=None,
                max_iter=int(setting.get("passes", 1)),
                shuffle=False,
                average=average,
                random_state=0,
            ).fit(*first(problem, setting))

        return fit

    return make


def saga(problem: Problem) -> Fit:
    """Return fits of saga, by the number of passes."""

    def fit(setting: Setting) -> Any:
        passes = int(setting["passes"])
        model = l1_logistic(
            "saga",
            problem.lam,
            problem.rho,
            len(problem.data.y),
            tol=0.0,
            max_iter=passes,
            fit_intercept=problem.intercept,
            random_state=0,
        )
        return model.fit(problem.data.X, problem.data.y)

    return fit


def liblinear(problem: Problem) -> Fit:
    """Return fits of liblinear, which penalises the intercept: the larger ``scaling``, the less."""

    def fit(setting: Setting) -> Any:
        model = l1_logistic(
            "liblinear",
            problem.lam,
            0.0,
            len(problem.data.y),
            tol=setting["tol"],
            max_iter=1000,
            fit_intercept=problem.intercept,
            intercept_scaling=setting["scaling"],
            random_state=0,
        )
        return model.fit(problem.data.X, problem.data.y)

    return fit


# --- lightning --------------------------------------------------------------------------------------------------------


def lightning(kind: str) -> Callable[[Problem], Fit]:
    """Return a maker of fits of one of lightning's classifiers."""

    def make(problem: Problem) -> Fit:
        from lightning import classification

        n, lam = len(problem.data.y), problem.lam
        X = columns(problem) if kind == "CDClassifier" else problem.data.X
        own: dict[str, Callable[[int], dict[str, Any]]] = {
            "AdaGradClassifier": lambda k: {"alpha": lam, "l1_ratio": 1.0, "n_iter": k, "shuffle": False},
            "SAGAClassifier": lambda k: {"alpha": 0.0, "beta": lam, "penalty": "l1", "max_iter": k, "tol": 0.0},
            "CDClassifier": lambda k: {"C": 1.0 / n, "alpha": lam, "penalty": "l1", "max_iter": k, "tol": 0.0},
        }

        def fit(setting: Setting) -> Any:
            given = own[kind](int(setting["passes"]))
            return getattr(classification, kind)(loss="log", random_state=0, **given).fit(X, problem.data.y)

        return fit

    return make


# --- River ------------------------------------------------------------------------------------------------------------


def river(ftrl: bool) -> Callable[[Problem], Fit]:
    """Return a maker of River's fits; the examples are dicts, whose construction is not timed."""

    def make(problem: Problem) -> Fit:
        from river import linear_model, optim

        X, labels = csr_matrix(problem.data.X), (problem.data.y > 0).tolist()
        rows = [
            dict(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
            for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
        ]

        def fit(setting: Setting) -> Any:
            passes = int(setting["passes"])
            total = problem.lam * len(rows) * passes  # FTRL's penalty applies to the sum of losses
            model = (
                linear_model.LogisticRegression(optim.FTRLProximal(alpha=0.5, l1=total, l2=0.0))
                if ftrl
                else linear_model.LogisticRegression(optim.SGD(0.1), l1=problem.lam)
            )
            for _ in range(passes):
                for x, y in zip(rows, labels, strict=True):
                    model.learn_one(x, y)
            return model

        return fit

    return make


def read_river(problem: Problem, model: Any) -> Weights:
    """Return weights and intercept of a model of River."""
    w = np.zeros(problem.data.X.shape[1])
    for j, value in model.weights.items():
        w[j] = value
    return w, float(model.intercept)


# --- Vowpal Wabbit ----------------------------------------------------------------------------------------------------


def _vw_text(problem: Problem) -> Path:
    """Write the rows as VW text and return its path; names of features are column numbers, which VW uses directly."""
    path = cache_folder("bench") / f"{problem.data.name}.{len(problem.data.y)}.vw"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        X = csr_matrix(problem.data.X)
        ones = bool((X.data == 1.0).all())
        with replacing(path, lasting=False) as file:
            for y, a, b in zip(problem.data.y, X.indptr[:-1], X.indptr[1:], strict=True):
                columns, values = X.indices[a:b].tolist(), X.data[a:b].tolist()
                words = map(str, columns) if ones else map("{}:{:.6g}".format, columns, values)
                file.write(f"{y:.0f} | {' '.join(words)}\n".encode())
    return path


_VW_CONSTANT = 11650396
"""The hash of VW's constant feature."""


def _vw_bits(problem: Problem) -> int:
    """Return the bits of VW's table: its default, or as many as the columns need."""
    return max(18, math.ceil(math.log2(problem.data.X.shape[1])))


def vw(source: str, ftrl: bool = False) -> Callable[[Problem], Fit]:
    """Return a maker of VW's fits, in this process, from text or from VW's own cache; the model is a file."""

    def make(problem: Problem) -> Fit:
        from vowpalwabbit import Workspace

        text = _vw_text(problem)
        cache, model = text.with_suffix(".vwcache"), text.with_suffix(".vwmodel")
        bits = str(_vw_bits(problem))
        common = ["--quiet", "--loss_function", "logistic", "--holdout_off", "-b", bits]
        if source == "cache" and not cache.exists():
            Workspace(arg_list=[*common, "-d", str(text), "--cache_file", str(cache)]).finish()

        def fit(setting: Setting) -> Path:
            passes = int(setting["passes"])
            lam = problem.lam * len(problem.data.y) * passes if ftrl else problem.lam
            given = [*common, "--predict_only_model", "-f", str(model), "--l1", repr(lam), "--passes", str(passes)]
            given += ["--ftrl"] if ftrl else []
            given += ["-d", str(text)] if source == "text" else ["--cache_file", str(cache)]
            Workspace(arg_list=given).finish()
            return model

        return fit

    return make


def read_vw(problem: Problem, model: Path) -> Weights:
    """Return weights and intercept from VW's readable model: lines of index:weight, and other lines."""
    from vowpalwabbit import Workspace

    text = model.with_suffix(".readable")
    Workspace(arg_list=["-t", "--quiet", "-i", str(model), "--readable_model", str(text)]).finish()
    w = np.zeros(max(problem.data.X.shape[1], 1 << _vw_bits(problem)))
    with open(text) as lines:
        for line in lines:
            index, _, weight = line.partition(":")
            if index.isdecimal():
                w[int(index)] = float(weight.split()[0])
    text.unlink()
    constant = float(w[_VW_CONSTANT % (1 << _vw_bits(problem))])  # may share its index with a column
    return w[: problem.data.X.shape[1]], constant


# --- batch solvers ----------------------------------------------------------------------------------------------------


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
    """Return fits of skein-glm, by columns if rows are sparse; raise if there are too many features."""
    import skein_glm

    if problem.data.X.shape[1] > SKEIN_FEATURES:
        raise ValueError(f"skein-glm takes too long with {problem.data.X.shape[1]:,} features")
    X, y = columns(problem) if issparse(problem.data.X) else problem.data.X, _zero_one(problem)

    def fit(setting: Setting) -> Any:
        tol = setting["tol"]
        model = skein_glm.LogisticLassoRegressor(
            problem.lam, tol=tol, outer_tol=tol, max_iter=1000, max_outer=100, fit_intercept=problem.intercept
        )
        return model.fit(X, y)

    return fit
