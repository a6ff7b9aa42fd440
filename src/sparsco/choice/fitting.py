"""The chosen model, solved on all rows of a task."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..solver.columns import add_columns
from ..solver.elastic_net import FINE, ROUGH, ElasticNetSolver, solver_of
from ..util.progress import step
from .candidates import SHARE_OF_RIDGE
from .problem import Task
from .scale import Scale

_CYCLES = 20
_SETTLED = 1e-3
"""A cycle over the classes that changes the margins by at most this share is the last one."""


class Strength(NamedTuple):
    """A strength and a mixture for targets as they are, and whether the selected features are learned again."""

    lam: float
    l1_ratio: float
    relaxed: bool


class Fit(NamedTuple):
    """The columns that have a weight, their weights (columns, m), and intercepts (m,)."""

    columns: np.ndarray
    w: np.ndarray
    b: np.ndarray

    @classmethod
    def of(cls, fits: list[tuple[np.ndarray, float]], columns: np.ndarray, scale: Scale) -> Fit:
        """Return the models with these weights, all in the same columns, and intercepts, for targets as they are."""
        used = np.flatnonzero(np.logical_or.reduce([w != 0.0 for w, _ in fits]))
        w, b = np.stack([w[used] for w, _ in fits], axis=1), np.array([b for _, b in fits])
        return cls(columns[used], *scale.outside(w, b))


def fit(task: Task, strength: Strength) -> Fit:
    """Return the models of a strength; a function of the task and the strength alone."""
    rows, strength = np.arange(task.n), Strength(*task.scale.strength_inside(*strength[:2]), strength.relaxed)
    X, columns = task.by_column(rows)
    order = task.order().tolist()  # a solver may keep a Gram matrix: classes come in an order of the rows alone
    solver = solver_of(X, task.examples(rows, order[0]), task.units[columns], task.intercept)
    found: dict[int, tuple[np.ndarray, float]] = {}
    for k, q in enumerate(order):
        step(f"solving the chosen model on {task.n:,} rows" + (f": {k + 1} of {task.m}" if task.m > 1 else ""))
        if k:
            solver.take(task.examples(rows, q))
        w, b = _solved(solver, strength)
        found[q] = w.copy(), b
    fits = [found[q] for q in range(task.m)]
    if task.couples and task.m > 1:
        fits = _softmax(task, solver, strength, fits)
    return Fit.of(fits, columns, task.scale)


def fit_nothing(task: Task) -> Fit:
    """Return the models without features, with the best intercepts."""
    rows = np.arange(task.n)
    X, columns = task.by_column(rows)
    solver = solver_of(X, task.examples(rows, 0), task.units[columns], task.intercept)
    fits = [(solver.w, task.constant(rows, 0, solver.b))]
    for q in range(1, task.m):
        solver.take(task.examples(rows, q))
        fits.append((solver.w, task.constant(rows, q, solver.b)))
    return Fit.of(fits, columns, task.scale)


def _solved(solver: ElasticNetSolver, strength: Strength) -> tuple[np.ndarray, float]:
    """Return the solution of a strength, reached over larger strengths from the model without features."""
    lam, l1_ratio, relaxed = strength
    top = solver.strength_of_nothing() / max(l1_ratio, 1e-3)
    for ahead in lam * 10.0 ** np.arange(5.0, 0.0, -1.0):
        if ahead < top / 3.0:
            solver.solve(ahead, l1_ratio, ROUGH)
    found = solver.solve(lam, l1_ratio, FINE)
    return solver.relaxed(SHARE_OF_RIDGE * lam) if relaxed else found


def _softmax(
    task: Task, solver: ElasticNetSolver, strength: Strength, fits: list[tuple[np.ndarray, float]]
) -> list[tuple[np.ndarray, float]]:
    """Return the models of one softmax, from those of each class against the rest.

    With the margins of all other classes fixed, the softmax is a logistic loss of the margin of one class, with the
    offset -log(sum of their exponentials).  So one class after the other is solved, until the margins settle.
    """
    rows, X, order = np.arange(task.n), solver.X, task.order().tolist()
    p = np.empty((task.n, task.m), order="F")  # in the order of the classes' first rows, however they are numbered
    for k, q in enumerate(order):
        p[:, k] = fits[q][1]
        add_columns(X.first, X.rows, X.x, fits[q][0], p[:, k])
    fits = list(fits)
    for cycle in range(_CYCLES):
        before = p.copy()
        for k, q in enumerate(order):
            step(f"solving the softmax: cycle {cycle + 1} of at most {_CYCLES}, class {k + 1} of {task.m}")
            offset = -_log_sum_exp(np.delete(p, k, 1))
            w, b = fits[q]
            solver.start_at(task.examples(rows, q)._replace(offset=offset), w, b)
            if strength.relaxed:
                fits[q] = solver.relaxed(SHARE_OF_RIDGE * strength.lam)
            else:
                w, b = solver.solve(strength.lam, strength.l1_ratio, FINE)
                fits[q] = w.copy(), b
            p[:, k] = fits[q][1]
            add_columns(X.first, X.rows, X.x, fits[q][0], p[:, k])
        if np.square(p - before).sum() <= _SETTLED**2 * np.square(p).sum():
            break
    return fits


def _log_sum_exp(p: np.ndarray) -> np.ndarray:
    top = p.max(1)
    return top + np.log(np.exp(p - top[:, None]).sum(1))
