"""Our solvers of each form of problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...estimators.sklearn import SparseClassifier, SparseRegressor
from ...selection.paths import SparsePath
from ..kept import OURS
from .record import GROUP, PATH, ROW_GROUPS, SMALLEST, SOFTMAX, SQUARES, Makers, Models, Solver, Task, all_classes, one

TOLERANCES = (100.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-6)
"""The tolerances of optimality conditions, over lam."""
_ONE_PASS = (0.0,)
_IN_ORDER: dict[str, Any] = {"shuffle": False, "random_state": 0}


def _path(settings: tuple[float, ...]) -> Callable[[Task], Solver]:
    """Return a maker of paths with these tolerances of the polish; 0 stands for a pass without one."""

    def make(task: Task) -> Solver:
        n, d = task.X.shape

        def fit(tol: float) -> Any:
            # polish needs validation rows: one of them, whose absence changes objectives by about 1 / n^2
            given = {"validation": 1.0 / n} if tol else {}
            model = SparseClassifier(polish=tol or False, **_IN_ORDER)
            return SparsePath(model, alphas=task.lams, choose=d, **given).fit(task.X, task.y)

        def read(model: Any) -> Models:
            path = model.path_
            return list(zip(path.coefs.T.toarray(), map(float, path.intercepts.ravel()), strict=True))

        return Solver(fit, read, settings)

    return make


def _polished(task: Task, make: Callable[..., Any], read: Callable[[Any], Models], **given: Any) -> Solver:
    """Return a solver of one strength."""

    def fit(tol: float) -> Any:
        return make(alpha=task.lam, polish=tol, **_IN_ORDER, **given).fit(task.X, task.y)

    return Solver(fit, read, TOLERANCES)


def _smallest(task: Task) -> Solver:
    return _polished(task, SparseClassifier, one)


def _groups(task: Task) -> Solver:
    return _polished(task, SparseClassifier, one, penalty="group", feature_groups=task.groups)


def _softmax(task: Task) -> Solver:
    penalty = "l1" if task.form == SOFTMAX else "row-group"
    return _polished(task, SparseClassifier, all_classes, loss="multinomial", penalty=penalty)


def _squares(task: Task) -> Solver:
    return _polished(task, SparseRegressor, one)


MAKERS: dict[str, Makers] = {
    PATH: {(OURS, "sparsco path"): _path(_ONE_PASS), (OURS, "sparsco path, polish"): _path(TOLERANCES)},
    SMALLEST: {(OURS, "sparsco polish"): _smallest},
    GROUP: {(OURS, "sparsco polish"): _groups},
    SOFTMAX: {(OURS, "sparsco polish"): _softmax},
    ROW_GROUPS: {(OURS, "sparsco polish"): _softmax},
    SQUARES: {(OURS, "sparsco polish"): _squares},
}
