"""The compared methods, ours and other packages': each is a fit, which is timed, and a reader of its model.

A method's settings go from loose to strict in one or more ladders.  They are plain numbers, so that another process can
repeat them.  A package that is not installed is left out, with a one-line message.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression, SGDClassifier

from ..data.rows import as_matrix
from ..estimators.sklearn import SparseClassifier
from ..util.atomic_files import replacing
from ..util.folders import cache_folder
from . import solvers
from .sets import Problem
from .solvers import Fit, Setting, Weights

L1, NO_INTERCEPT, ELASTIC = "L1", "L1, no intercept", "elastic net"
"""The three problems that are solved on a set with one strength."""
PASSES = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 130, 200, 400)
TOLERANCES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 1e-4)
"""The tolerances of optimality conditions, over lam."""
RIVER_ROWS = 20_000


class Method(NamedTuple):
    """One method of the benchmark: how it is prepared, run and read.

    ``make`` does the preparation that is not timed (a matrix in its format, a file).  ``streams``: its first setting is
    one pass over the rows.  ``rows``: the number of first rows that it gets at most.
    """

    name: str
    make: Callable[[Problem], Fit]
    read: Callable[[Problem, Any], Weights]
    ladders: tuple[tuple[Setting, ...], ...]
    package: str
    needs: str = ""
    problems: tuple[str, ...] = (L1,)
    streams: bool = False
    rows: int | None = None

    @property
    def ours(self) -> bool:
        return self.package == "sparsco"

    @property
    def missing(self) -> str:
        """Return one line about a package that is not installed; empty if it is installed."""
        try:
            there = importlib.util.find_spec(self.needs or self.package) is not None
        except ModuleNotFoundError:
            there = False
        return "" if there else f"{self.package} is not installed"


def _ladder(name: str, values: Sequence[float]) -> tuple[Setting, ...]:
    return tuple({name: value} for value in values)


_BY_PASSES = (_ladder("passes", PASSES),)
_ONE_PASS = (_ladder("passes", (1,)),)
_OR_LESS = _ladder("share", (0.1, 0.25, 0.5))
"""The shares of a pass, for methods that read rows one by one and may stop anywhere."""
_ANYWHERE = (*_BY_PASSES, _OR_LESS)


def _first(problem: Problem, setting: Setting) -> tuple[Any, np.ndarray]:
    """Return the rows that a setting reads, and their labels."""
    X, y = problem.data.X, problem.data.y
    if "share" not in setting:
        return X, y
    n = max(int(setting["share"] * len(y)), int((y != y[0]).argmax()) + 1)  # at least one row of both labels
    return X[:n], y[:n]


def _coefficients(problem: Problem, model: Any) -> Weights:
    """Return weights and intercept of a model with scikit-learn's attributes."""
    intercept = float(np.ravel(model.intercept_)[0]) if problem.intercept else 0.0
    return np.ravel(model.coef_), intercept


def l1_logistic(solver: str, lam: float, rho: float, n: int, **settings: Any) -> LogisticRegression:
    """Return a batch solver of scikit-learn, which sums losses, for mean loss + lam |w| + rho/2 |w|^2."""
    mixture: dict[str, Any] = {"l1_ratio": lam / (lam + rho)}
    if inspect.signature(LogisticRegression).parameters["penalty"].default != "deprecated":
        mixture = {"penalty": "l1"} if rho == 0.0 else {"penalty": "elasticnet"} | mixture
    return LogisticRegression(solver=solver, C=1.0 / ((lam + rho) * n), **mixture, **settings)


# --- the bare pass ----------------------------------------------------------------------------------------------------


@njit(nogil=True, error_model="numpy", boundscheck=False)
def bare(indptr, indices, data, y, w):  # type: ignore[no-untyped-def]
    """Gather the inner product and scatter the update: the minimal work of any method."""
    for i in range(y.size):
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        s = 0.0
        for p in range(start, stop):
            s += w[indices[p]] * data[p]
        c = 1e-9 * s - 1e-6 * y[i]
        for p in range(start, stop):
            w[indices[p]] += c * data[p]


def _bare(problem: Problem) -> Fit:
    matrix, y = as_matrix(problem.data.X), problem.data.y

    def fit(setting: Setting) -> np.ndarray:
        w = np.zeros(matrix.d)
        bare(matrix.indptr, matrix.indices, matrix.data, y, w)
        return w

    return fit


# --- ours -------------------------------------------------------------------------------------------------------------


def _ours(**parts: Any) -> Callable[[Problem], Fit]:
    """Return a maker of our fits: passes in the rows' order; the conversion to a model is part of the fit."""

    def make(problem: Problem) -> Fit:
        def fit(setting: Setting) -> Any:
            polish: dict[str, Any] = {"polish": setting["polish"]} if "polish" in setting else {}
            model = SparseClassifier(
                alpha=problem.lam + problem.rho,
                l1_ratio=problem.lam / (problem.lam + problem.rho),
                fit_intercept=problem.intercept,
                shuffle=False,
                random_state=0,
                early_stopping=False,
                tol=None,
                max_iter=int(setting.get("passes", 1)),
                **({} if polish else parts),
                **polish,
            ).fit(*_first(problem, setting))
            model.coef_  # noqa: B018  the conversion happens at the first access
            return model

        return fit

    return make


# --- scikit-learn -----------------------------------------------------------------------------------------------------


def _sgd(average: bool = False) -> Callable[[Problem], Fit]:
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
            ).fit(*_first(problem, setting))

        return fit

    return make


def _saga(problem: Problem) -> Fit:
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


def _liblinear(problem: Problem) -> Fit:
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


def _lightning(kind: str) -> Callable[[Problem], Fit]:
    def make(problem: Problem) -> Fit:
        from lightning import classification

        n, lam = len(problem.data.y), problem.lam
        X = solvers.columns(problem) if kind == "CDClassifier" else problem.data.X
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


def _river(ftrl: bool) -> Callable[[Problem], Fit]:
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


def _read_river(problem: Problem, model: Any) -> Weights:
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


def _vw(source: str, ftrl: bool = False) -> Callable[[Problem], Fit]:
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


def _read_vw(problem: Problem, model: Path) -> Weights:
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


# --- all of them ------------------------------------------------------------------------------------------------------

_ANY = (L1, NO_INTERCEPT, ELASTIC)
_PLAIN = (L1, NO_INTERCEPT)
_POLISH: tuple[Setting, ...] = ({"passes": 1}, *_ladder("polish", (300.0, 100.0, 30.0, *TOLERANCES)))
_SCALED = tuple(tuple({"tol": tol, "scaling": scale} for tol in TOLERANCES[2:]) for scale in (1.0, 10.0, 100.0))
_CELER = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)
_ADELIE = (1.0, 0.1, 1e-2, 1e-3, 1e-5, 1e-7)
_SNAPML = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4)
_SKEIN = (1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-6)
_ITERATIONS = _ladder("iterations", PASSES[:8])


def _sparsco(name: str, problems: tuple[str, ...] = (L1,), **parts: Any) -> Method:
    return Method(
        f"sparsco {name}", _ours(**parts), _coefficients, _ANYWHERE, "sparsco", problems=problems, streams=True
    )


def _no_weights(problem: Problem, model: Any) -> Weights:
    return np.zeros(problem.data.X.shape[1]), 0.0


BARE = "bare pass"
POLISH = "sparsco polish"
DEFAULT = "sparsco default"
FOBOS = "sparsco fobos"
NFTRL = "sparsco nftrl"
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(BARE, _bare, _no_weights, _ONE_PASS, "sparsco", problems=_ANY, streams=True),
        _sparsco("default", _ANY),
        _sparsco("fobos", (L1, ELASTIC), optimizer="fobos", conversion="last"),
        _sparsco("nftrl", optimizer="nftrl", conversion="last"),
        _sparsco("average-sl", optimizer="fobos", conversion="average-sl"),
        Method(POLISH, _ours(conversion="last"), _coefficients, (_POLISH, _OR_LESS), "sparsco", problems=_ANY),
        Method("sklearn sgd", _sgd(), _coefficients, _ANYWHERE, "scikit-learn", "sklearn", (L1, ELASTIC), True),
        Method("sklearn sgd averaged", _sgd(True), _coefficients, _ANYWHERE, "scikit-learn", "sklearn", streams=True),
        Method("sklearn saga", _saga, _coefficients, _BY_PASSES, "scikit-learn", "sklearn", (L1, ELASTIC), True),
        Method("sklearn liblinear", _liblinear, _coefficients, _SCALED, "scikit-learn", "sklearn"),
        Method("vw text", _vw("text"), _read_vw, _ONE_PASS, "vowpalwabbit", streams=True),
        Method("vw cache", _vw("cache"), _read_vw, _BY_PASSES, "vowpalwabbit", streams=True),
        Method("vw ftrl", _vw("cache", ftrl=True), _read_vw, _BY_PASSES, "vowpalwabbit", streams=True),
        Method("river", _river(False), _read_river, _BY_PASSES, "river", streams=True, rows=RIVER_ROWS),
        Method("river ftrl", _river(True), _read_river, _BY_PASSES, "river", streams=True, rows=RIVER_ROWS),
        Method("skglm", solvers.skglm, _coefficients, (_ladder("tol", TOLERANCES), _ITERATIONS), "skglm"),
        Method(
            "celer",
            solvers.celer,
            _coefficients,
            (_ladder("tol", _CELER), _ITERATIONS),
            "celer",
            problems=(NO_INTERCEPT,),
        ),
        Method("adelie", solvers.adelie, solvers.read_adelie, (_ladder("tol", _ADELIE),), "adelie", problems=_PLAIN),
        Method("glum", solvers.glum, _coefficients, (_ladder("tol", TOLERANCES),), "glum", problems=_PLAIN),
        Method(
            "snapml",
            solvers.snapml,
            solvers.read_snapml,
            (_ladder("tol", _SNAPML), _ITERATIONS),
            "snapml",
            problems=_PLAIN,
        ),
        Method(
            "skein", solvers.skein, _coefficients, (_ladder("tol", _SKEIN),), "skein-glm", "skein_glm", problems=_PLAIN
        ),
        *(
            Method(
                f"lightning {name}",
                _lightning(kind),
                _coefficients,
                _BY_PASSES,
                "sklearn-contrib-lightning",
                "lightning.classification",
                (NO_INTERCEPT,),
                True,
            )
            for name, kind in (("adagrad", "AdaGradClassifier"), ("saga", "SAGAClassifier"), ("cd", "CDClassifier"))
        ),
    )
}


def chosen(wanted: Sequence[str] | None) -> list[Method]:
    """Return methods by name or by package; by default all.

    The bare pass and the polish, the references for others, are always included.  Raise if no named method is
    installed.
    """
    if wanted is None:
        return list(METHODS.values())
    for name in wanted:
        if name not in METHODS and name not in {method.package for method in METHODS.values()}:
            raise ValueError(f"--methods: there is no method {name!r}: choose from {', '.join(METHODS)}, or a package.")
    asked = [each for each in METHODS.values() if {each.name, each.package} & {*wanted}]
    if all(each.missing for each in asked):
        missing = {each.package: each.missing for each in asked}
        raise ValueError(f"--methods: {', '.join(missing.values())}: pip install {' '.join(missing)}.")
    return [each for each in METHODS.values() if each in asked or each.name in (BARE, POLISH)]


def versions() -> dict[str, str]:
    """Return the versions of all compared packages that are installed."""
    found = {}
    for name in ("numpy", "scipy", "numba", *sorted({method.package for method in METHODS.values()} - {"sparsco"})):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
