"""The compared methods, ours and other packages': each is a fit, which is timed, and a reader of its model.

A method's settings go from loose to strict in one or more ladders.  They are plain numbers, so that another process can
repeat them.  A package that is not installed is left out, with a one-line message.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ..data.rows import as_matrix
from ..estimators.sklearn import SparseClassifier
from . import solvers
from .kept import OURS, version_of
from .sets import Problem
from .solvers import Fit, Setting, Weights, coefficients

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
        return self.package == OURS

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
            ).fit(*solvers.first(problem, setting))
            model.coef_  # noqa: B018  the conversion happens at the first access
            return model

        return fit

    return make


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
        f"sparsco {name}", _ours(**parts), coefficients, _ANYWHERE, "sparsco", problems=problems, streams=True
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
        Method(POLISH, _ours(conversion="last"), coefficients, (_POLISH, _OR_LESS), "sparsco", problems=_ANY),
        Method("sklearn sgd", solvers.sgd(), coefficients, _ANYWHERE, "scikit-learn", "sklearn", (L1, ELASTIC), True),
        Method(
            "sklearn sgd averaged", solvers.sgd(True), coefficients, _ANYWHERE, "scikit-learn", "sklearn", streams=True
        ),
        Method("sklearn saga", solvers.saga, coefficients, _BY_PASSES, "scikit-learn", "sklearn", (L1, ELASTIC), True),
        Method("sklearn liblinear", solvers.liblinear, coefficients, _SCALED, "scikit-learn", "sklearn"),
        Method("vw text", solvers.vw("text"), solvers.read_vw, _ONE_PASS, "vowpalwabbit", streams=True),
        Method("vw cache", solvers.vw("cache"), solvers.read_vw, _BY_PASSES, "vowpalwabbit", streams=True),
        Method("vw ftrl", solvers.vw("cache", ftrl=True), solvers.read_vw, _BY_PASSES, "vowpalwabbit", streams=True),
        Method("river", solvers.river(False), solvers.read_river, _BY_PASSES, "river", streams=True, rows=RIVER_ROWS),
        Method(
            "river ftrl", solvers.river(True), solvers.read_river, _BY_PASSES, "river", streams=True, rows=RIVER_ROWS
        ),
        Method("skglm", solvers.skglm, coefficients, (_ladder("tol", TOLERANCES), _ITERATIONS), "skglm"),
        Method(
            "celer",
            solvers.celer,
            coefficients,
            (_ladder("tol", _CELER), _ITERATIONS),
            "celer",
            problems=(NO_INTERCEPT,),
        ),
        Method("adelie", solvers.adelie, solvers.read_adelie, (_ladder("tol", _ADELIE),), "adelie", problems=_PLAIN),
        Method("glum", solvers.glum, coefficients, (_ladder("tol", TOLERANCES),), "glum", problems=_PLAIN),
        Method(
            "snapml",
            solvers.snapml,
            solvers.read_snapml,
            (_ladder("tol", _SNAPML), _ITERATIONS),
            "snapml",
            problems=_PLAIN,
        ),
        Method(
            "skein", solvers.skein, coefficients, (_ladder("tol", _SKEIN),), "skein-glm", "skein_glm", problems=_PLAIN
        ),
        *(
            Method(
                f"lightning {name}",
                solvers.lightning(kind),
                coefficients,
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
    packages = ("numpy", "scipy", "numba", *sorted({method.package for method in METHODS.values()} - {OURS}))
    return {name: found for name in packages if (found := version_of(name))}
