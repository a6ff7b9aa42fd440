"""The optimum of a problem: by an independent solver if there is one, and a bound that needs no solver."""

from __future__ import annotations

import contextlib

import numpy as np

from . import measure
from .methods import METHODS, POLISH
from .sets import Problem
from .solvers import Weights

TOLERANCE = 1e-6
"""The tolerance of the solvers, in optimality conditions over lam."""
LIMIT = 60.0
"""The CPU seconds of the second solver."""


def lower_bound(problem: Problem, w: np.ndarray, b: float) -> float:
    """Return a lower bound on all objectives: the dual objective at the residuals of this model, made feasible.

    >>> from sparsco.bench.sets import Problem, load
    >>> problem = Problem(load("dense-1k", keep=False), 0.1)
    >>> w, b = METHODS[POLISH].read(problem, METHODS[POLISH].make(problem)({"polish": 1e-9}))
    >>> bool(0.0 <= problem.objective(w, b) - lower_bound(problem, w, b) < 1e-9)
    True
    """
    X, y, lam, rho = problem.data.X, problem.data.y, problem.lam, problem.rho
    b = b if problem.intercept else 0.0
    u = 0.5 * (1.0 - np.tanh(0.5 * y * (X @ w + b)))  # the derivative of each row's loss
    if problem.intercept:  # the two classes must balance
        up, down = u[y > 0].sum(), u[y < 0].sum()
        u = np.where(y > 0, u * min(1.0, down / up), u * min(1.0, up / down))
    v = np.abs(X.T @ (y * u)) / len(y)
    conjugate = 0.0
    if rho > 0.0:
        conjugate = float((np.maximum(v - lam, 0.0) ** 2).sum()) / (2.0 * rho)
    elif v.max() > lam:
        u = u * (lam / v.max())
    inside = u[(u > 0.0) & (u < 1.0)]
    return float(-(inside * np.log(inside) + (1.0 - inside) * np.log1p(-inside)).sum() / len(y)) - conjugate


def solve(problem: Problem, known: float | None = None) -> dict[str, object]:
    """Return the least objective, that of each solver, a bound on the least's relative gap, and its features.

    Our solver solves all problems.  skglm, if installed, solves those L1 problems whose optimum is not ``known``, in at
    most 20 iterations and a minute, since some would take half an hour.  The bound is independent of both.
    """
    found = {"sparsco": _fitted(problem, POLISH, {"polish": TOLERANCE})}
    if known is None and problem.rho == 0.0 and not METHODS["skglm"].missing:
        with contextlib.suppress(measure.LimitError), measure.limited(LIMIT):
            found["skglm"] = _fitted(problem, "skglm", {"tol": TOLERANCE, "iterations": 20})
    objectives = {name: problem.objective(*weights) for name, weights in found.items()}
    best = min(objectives, key=lambda name: objectives[name])
    bound = max(lower_bound(problem, *weights) for weights in found.values())
    least = objectives[best] if known is None else min(objectives[best], known)
    return {
        "objective": least,
        "objectives": objectives if known is None else objectives | {"the reference file": known},
        "off_by_at_most": max(objectives[best] - bound, 0.0) / least,
        "test_error": problem.test_error(*found[best]),
        "support": np.flatnonzero(found[best][0]).tolist(),
    }


def _fitted(problem: Problem, name: str, setting: dict[str, float]) -> Weights:
    method = METHODS[name]
    return method.read(problem, method.make(problem)(setting))
