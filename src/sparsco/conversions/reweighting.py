"""Penalties that are not convex: from the convex answer to weighted elastic nets, solved on a sample of the rows.

The convex problem comes first, from the answer of the conversion, then the weighted problems follow.  If the sample R
has all rows, this is all.  Otherwise the rows that it leaves out take part by a linear term.  With it the answer
fulfils the optimality conditions that it has on the whole stream: where w_j is not zero, the slope of the mean loss is
-rho w_j - lam pen_j sign(w_j).  About features with w_j = 0 these conditions do not say enough, and such features stay
out: many would enter by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..data import row_sums
from ..losses import derivative, value
from ..penalties import ElasticNet, WeightedElasticNet, strength
from ..solver.columns import some_by_column
from ..solver.elastic_net import Accuracy, Examples, Tilt, solver_of
from ..solver.smoothing import smooth
from .averaging import Answer
from .reservoir import Sample

Model = tuple[np.ndarray, float]
"""The weights and the intercept of one model."""
Solve = Callable[[WeightedElasticNet, Model], Model]
"""The solution of a weighted elastic net, started at a model."""
_ACCURACY = Accuracy(1e-10, 30, 6)
_WIDTH = 0.01
"""The width of the parabolas at the kinks of a loss."""
_SETTLED = 0.01
"""The largest change of a feature's weight in the penalty after which no round follows."""
_VANISHED = 0.05
"""The share of the loss of the convex model below which there is a warning."""
_ENTRIES = 30
"""The entries that a column of a sample needs for a weight to be learned again."""


def approximate(
    penalty: Any, start: Model, solve: Solve, loss_of: Callable[[Model], float]
) -> tuple[Model, dict[str, Any]]:
    """Return the model after the last weighted problem, and a report.

    Rounds end when the selected features stay the same and their weights in the penalty, too.  The objective of a
    penalty with several rounds never rises; should it, because a problem was not solved, the model before is kept.
    A penalty with one round has no objective.
    """
    if penalty.rounds == 1:
        return (solve(penalty.reweighted(start[0]), start), {"rounds": 1}) if start[0].any() else (start, {"rounds": 0})

    losses, change, model = [loss_of(start)], 0.0, start
    objectives = [losses[0] + float(strength(penalty, start[0]))]
    while len(losses) <= penalty.rounds and model[0].any():
        net = penalty.reweighted(model[0])
        new = solve(net, model)
        loss = loss_of(new)
        objective = loss + float(strength(penalty, new[0]))
        if not objective <= objectives[-1] + 1e-9 * abs(objectives[-1]):
            break
        losses, objectives = [*losses, loss], [*objectives, objective]
        change = float(np.abs(penalty.reweighted(new[0]).pen - net.pen).max())
        stays = np.array_equal(new[0] != 0.0, model[0] != 0.0)
        model = new
        if stays and change <= _SETTLED:
            break
    ends = [losses[0], losses[-1]]
    return model, {"rounds": len(losses) - 1, "objectives": objectives, "losses": ends, "weights_change": change}


def reweighted(run: Any, penalty: Any, answer: Answer) -> Answer:
    """Return the answer of a run after the weighted problems of a penalty, on the sample of the run."""
    sample, w, b, reports = run.sample(), answer.w.copy(), answer.b.copy(), []
    if not sample.R.numbers.size:
        return answer
    for q in range(run.problem.m):
        task = OnSample(run.problem, sample.lane(q), (w[:, q].copy(), float(b[q])))
        convex = task.solve(run.problem.penalty, task.start)
        (w[:, q], b[q]), report = approximate(penalty, convex, task.solve, task.mean_loss)
        reports.append(report)
    if sample.kappa == 1.0:  # otherwise losses have a linear term
        warn_if_separated(run, penalty, reports)
    return answer._replace(w=w, b=b, report=answer.report | {"reweighted": reports})


def warn_if_separated(run: Any, penalty: Any, reports: list[dict[str, Any]]) -> None:
    """Warn if the loss of a classifier all but vanishes: its features separate the classes, and nothing limits them."""
    falls = [report["losses"] for report in reports if "losses" in report]
    if run.problem.loss.classifies and any(end < _VANISHED * start for start, end in falls):
        name = type(penalty).__name__
        threshold = f" or {name}(gamma=...)" if "gamma" in penalty._fields else ""
        run.warn(
            f"the selected features separate the classes, and {name} hardly limits their weights: raise alpha"
            f"{threshold}, or add an L2 term (l1_ratio=0.9)."
        )


class OnSample:
    """Weighted elastic nets of one model on the rows R of a sample, with a linear term for the rows that are not in R.

    Unless R has all rows, only selected features are learned again, and of these only those with some entries in R.
    """

    def __init__(self, problem: Any, sample: Sample, start: Model) -> None:
        self.start, rows, d = start, sample.R, len(start[0])
        entries = np.bincount(rows.indices, minlength=d)
        learned = entries > 0 if sample.kappa == 1.0 else (entries >= _ENTRIES) & (start[0] != 0.0)
        self.columns = np.flatnonzero(learned)
        self.kept = start[0].copy()
        self.kept[self.columns] = 0.0
        order = np.arange(len(rows.weights))
        X = some_by_column(rows.indptr, rows.indices, rows.data, order, self.columns, d)
        offset = row_sums.margins(rows.indptr, rows.indices, rows.data, self.kept, 0.0)
        self.loss, w = problem.loss, start[0][self.columns]
        self.examples = Examples(rows.targets, rows.weights, smooth(self.loss, _WIDTH), offset)
        self.solver = solver_of(X, self.examples, np.ones(X.d), problem.intercept, None, (w, start[1]))
        self.solver.tilt = self._tilt(problem, w, 1.0 - sample.kappa)

    def _tilt(self, problem: Any, w: np.ndarray, share: float) -> Tilt:
        """Return the slopes that R lacks at the start, times the share of the rows that R leaves out."""
        penalty, solver, (y, weights, loss, _) = problem.penalty, self.solver, self.examples
        lam = penalty.lam * penalty.feature_weights(len(self.kept))[self.columns]
        slope = -penalty.rho * w - lam * np.sign(w)
        slope_b = float((weights * derivative(loss, solver.p, y)).mean()) if problem.intercept else 0.0
        return Tilt(share * (slope - solver.g), -share * slope_b)

    def solve(self, net: ElasticNet | WeightedElasticNet, start: Model) -> Model:
        """Return the solution of an elastic net from this start."""
        solver, w = self.solver, self.kept.copy()
        solver.start_at(self.examples, start[0][self.columns], start[1])
        pen = net.lam * net.feature_weights(len(w))[self.columns]
        w[self.columns], b = solver.solve_for(pen, np.full(pen.size, float(net.rho)), _ACCURACY)
        return w, float(b)

    def mean_loss(self, model: Model) -> float:
        """Return the mean loss on R with the linear term."""
        solver, (w, b) = self.solver, (model[0][self.columns], model[1])
        solver.start_at(self.examples, w, b)
        losses = self.examples.weights * value(self.loss, solver.p, self.examples.y)
        return float(losses.sum() / solver.n + (solver.tilt.w * w).sum() + solver.tilt.b * b)
