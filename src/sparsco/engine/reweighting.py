"""Certified models of penalties that are not convex: the convex optimum, then the optimum of each weighted problem.

The certificate is that of the last weighted problem, which is convex.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ..conversions.averaging import Answer
from ..conversions.reweighting import Model, approximate, warn_if_separated
from ..penalties import WeightedElasticNet, strength, with_strength
from .polish import BY_MODEL, Polished, finish_polished, polish
from .polish_rows import Rows
from .run import Run


def finish_certified(runs: list[Run], rows: Rows, tol: float) -> list[Answer]:
    """Return the polished answers of all runs of a model, which have begun, with all weighted problems."""
    rounding = runs[0].rounding
    if rounding is None or not rounding.reweights:
        return finish_polished(runs, rows, tol)
    answers = finish_polished([_without_rounding(run) for run in runs], rows, tol)
    return [_reweighted(run, answer, rows, tol) for run, answer in zip(runs, answers, strict=True)]


def _without_rounding(run: Run) -> Run:
    twin = copy.copy(run)
    twin.rounding = None
    return twin


def _reweighted(run: Run, convex: Answer, rows: Rows, tol: float) -> Answer:
    """Return the answer after the weighted problems of each model, one model after the other."""
    w, b, first = convex.w.copy(), convex.b.copy(), convex.report["polish"]
    models = [_Certified(run, q, rows, tol, first["objectives"][q]) for q in range(run.problem.m)]
    assert run.rounding is not None  # finish_certified has looked
    penalty, reports = with_strength(run.rounding.penalty, run.problem.penalty), []
    for q, model in enumerate(models):
        start = w[:, q].copy(), float(b[q])
        (w[:, q], b[q]), report = approximate(penalty, start, model.solve, model.mean_loss)
        reports.append(report)
    warn_if_separated(run, penalty, reports)
    last: dict[str, Any] = {"tolerance": tol, "passes": first["passes"] + sum(model.passes for model in models)}
    for name in BY_MODEL:
        last[name] = [model.certificate.get(name, first[name][q]) for q, model in enumerate(models)]
    worst = max(last["gaps"])
    if worst > tol:
        run.warn(
            f"polish={tol:g} was not reached in {last['passes']} passes: the largest violation of the last weighted "
            f"problem is {worst:.2g} times lam; raise alpha, or add an L2 term (l1_ratio)."
        )
    return convex._replace(w=w, b=b, report=convex.report | {"polish": last, "reweighted": reports})


class _Certified:
    """The weighted problems of one model of a run, each solved on all rows."""

    def __init__(self, run: Run, q: int, rows: Rows, tol: float, objective: float) -> None:
        self.run, self.q, self.tol = run, q, tol
        self.rows = rows.encoded(self._own)
        self.objective, self.net = objective, run.problem.penalty_of(q)
        """The objective of the last problem, and its penalty."""
        self.passes = 0
        self.certificate: dict[str, Any] = {}

    def _own(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        targets, own = self.run.lanes_of(y, weights)
        return targets[:, [self.q]], own[:, [self.q]]

    def solve(self, net: WeightedElasticNet, start: Model) -> Model:
        """Return the optimum of a weighted problem."""
        problem = self.run.problem
        found: Polished = polish(
            self.rows,
            start[0][:, None],
            np.array([start[1]]),
            loss=problem.loss,
            penalty=net,
            intercept=problem.intercept,
            tol=self.tol,
        )
        self.net, self.objective, self.passes = net, float(found.objectives[0]), self.passes + found.passes
        fields = found._asdict()
        self.certificate = {
            name: fields[name][0].item() if isinstance(fields[name], np.ndarray) else fields[name][0]
            for name in BY_MODEL
        }
        return found.w[:, 0], float(found.b[0])

    def mean_loss(self, model: Model) -> float:
        """Return the mean loss of the model that was solved last."""
        return self.objective - float(strength(self.net, model[0]))
