"""AverageSL, LastSL and OptimalSL: one map from an average and its gradient to an exactly sparse vector."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..data import row_sums
from ..parts.contracts import Conversion, part
from ..parts.part import NEVER
from ..problem.pilot import best_intercept
from ..problem.state import Curvatures, Gradients, Iterates, is_coupled
from . import metric, metric_coupled
from .averaging import FIRST_WINDOW, Answer, Suffix, check_window, next_doubling, next_long_window, suffix_start
from .left_out import completed

METRICS = ("auto", "newton", "diagonal", "scalar", "smoothed")


@part(
    Conversion,
    alpha="the share of the stream that counts, its end",
    T="the length of the stream; None: windows that grow",
)
class AverageSL(NamedTuple):
    """AverageSL: argmin <g_bar, w> + ||w - w_bar||_M^2 / 2 + psi(w), an average that keeps exact zeros.

    Parameters
    ----------
    alpha : float
        The share of the iterates, at the end of the stream, that is averaged.
    T : int or None
        The length of the stream.  None: windows that grow.
    L : float or None
        The scalar metric of the papers.  None: the metric is computed from the data.
    metric : {"auto", "newton", "diagonal", "scalar", "smoothed"}
        The metric that is computed from the data.  "auto": a guard compares newton, diagonal and scalar on a sample
        of the stream, with the last iterate as fallback.  For losses with kinks the guard compares smoothed instead.
    """

    alpha: float = 0.5
    T: int | None = None
    L: float | None = None
    metric: str = "auto"

    forgets = True
    needs_gradient_sums = True

    def check(self) -> None:
        _check_sparse_learning(self)

    @property
    def needs_sample(self) -> bool:
        return _samples(self)

    def watch(self, loss: Any) -> Any:
        return _gradient_watch(self, loss)

    def solves(self, problem: Any) -> bool:
        return self.L is None and self.metric in ("auto", "newton") and problem.loss.curved and not is_coupled(problem)

    begin, next_event, event = Suffix.begin, next_long_window, Suffix.event

    def finish(self, run: Any) -> Answer:
        means = run.means()
        return map_to_sparse(self, run, means, means.w, means.b)


@part(
    Conversion,
    alpha="the share of the stream that counts, its end",
    T="the length of the stream; None: windows that grow",
)
class LastSL(NamedTuple):
    """LastSL: the map of AverageSL around w_T, the iterate before the last example.

    Parameters
    ----------
    alpha, T, L, metric
        As in :class:`AverageSL`.
    last_factor : float
        The factor of the metric.  Other values than 1 need a number L or metric="diagonal".
    """

    alpha: float = 0.5
    T: int | None = None
    L: float | None = None
    metric: str = "auto"
    last_factor: float = 1.0

    forgets = True
    needs_gradient_sums = True
    keeps_before_last = True

    def check(self) -> None:
        _check_sparse_learning(self)
        if not self.last_factor > 0.0:
            raise ValueError(f"LastSL(last_factor={self.last_factor}): the factor must be positive.")
        if self.last_factor != 1.0 and self.L is None and self.metric != "diagonal":
            raise ValueError(f"LastSL(last_factor={self.last_factor}) needs a number L or metric='diagonal'.")

    @property
    def needs_sample(self) -> bool:
        return _samples(self)

    def watch(self, loss: Any) -> Any:
        return _gradient_watch(self, loss)

    begin, next_event, event = Suffix.begin, next_long_window, Suffix.event

    def finish(self, run: Any) -> Answer:
        return map_to_sparse(self, run, run.means(), *run.weights_before_last(), self.last_factor)


@part(
    Conversion,
    alpha="the share of the stream for the gradient phase, its end",
    T="the length of the stream; None: windows that grow",
    inner="the share of the learning phase that is averaged; None: alpha",
)
class OptimalSL(NamedTuple):
    """OptimalSL: the sparse map at the average of a first part, with the mean gradient there over the rest.

    Parameters
    ----------
    alpha : float
        The share of the stream, at its end, that is used for the gradient phase.
    T : int or None
        The length of the stream.  None: learning and gradient phases alternate in windows that double.
    L, metric
        As in :class:`AverageSL`.
    inner : float or None
        The share of the learning phase that is averaged.  None: alpha.
    """

    alpha: float = 0.5
    T: int | None = None
    L: float | None = None
    metric: str = "auto"
    inner: float | None = None

    def check(self) -> None:
        _check_sparse_learning(self)
        if self.inner is not None:
            check_window(self.inner, None)

    @property
    def needs_sample(self) -> bool:
        return _samples(self)

    def watch(self, loss: Any) -> Any:
        return Iterates()

    def _known(self) -> tuple[int, int]:
        """Return the numbers of examples at which averaging starts and learning ends."""
        learned = suffix_start(self.alpha, self.T)
        return suffix_start(self.alpha if self.inner is None else self.inner, learned), learned

    def begin(self, run: Any) -> None:
        if self.T is not None:
            self.event(run, 0)

    def next_event(self, run: Any, n: int) -> int:
        if self.T is not None:
            return next((event for event in self._known() if event > n), NEVER)
        end = next_doubling(n)
        middle = end - end // 4
        return middle if FIRST_WINDOW <= n < middle else end

    def event(self, run: Any, n: int) -> None:
        averaging, learned = (-1, -1) if self.T is None else self._known()
        doubled = self.T is None and n & (n - 1) == 0
        if doubled or n == averaging:
            run.open_window()
        if n == learned or (self.T is None and not doubled):
            run.start_gradient_phase()

    def finish(self, run: Any) -> Answer:
        fixed = run.fixed_point()
        if fixed is None:
            run.warn(f"{run.seen} examples left none for OptimalSL's gradient phase; the last iterate is returned.")
            return Answer(*run.weights(), {})
        return map_to_sparse(self, run, fixed, fixed.w, fixed.b)


def _check_sparse_learning(conversion: Any) -> None:
    check_window(conversion.alpha, conversion.T)
    if conversion.metric not in METRICS:
        raise ValueError(f"metric={conversion.metric!r}: choose one of {', '.join(METRICS)}.")
    if conversion.L is not None and not conversion.L > 0.0:
        raise ValueError(f"L = {conversion.L}: the scalar metric must be positive.")


def _samples(conversion: Any) -> bool:
    """Return whether the metric needs a sample of the stream."""
    return conversion.L is None and conversion.metric != "diagonal"


def _gradient_watch(conversion: Any, loss: Any) -> Any:
    return Curvatures() if conversion.L is None and loss.curved else Gradients()


def map_to_sparse(conversion: Any, run: Any, means: Any, w: np.ndarray, b: np.ndarray, factor: float = 1.0) -> Answer:
    """Return the map S(w - g/M, lam pen/M) around (w, b), lane by lane, with the metric M times ``factor``.

    Where lanes or features are coupled, it is one map of the whole matrix: see ``metric_coupled``.
    """
    problem = run.problem
    rho = problem.penalty.rho
    last = run.weights()
    if means.n == 0:  # no window yet; means() has warned
        return Answer(*last, {})
    if is_coupled(problem):
        return _map_together(conversion, run, means, w, b, factor)
    sample = run.sample(metric.enough_rows(last[0]))
    out_w, out_b, chosen = np.zeros_like(w), b.copy(), []
    for q in range(problem.m):
        evidence = metric.Evidence(
            last[0][:, q],
            last[1][q],
            w[:, q],
            b[q],
            means.g[:, q] + rho * (means.w[:, q] - w[:, q]) if rho > 0.0 else means.g[:, q],
            means.gb[q],
            None if means.H is None else means.H[:, q],
            0.0 if means.H is None else means.Hb[q],
            means.n,
            run.t,
            run.pilot.L_mean,
        )
        own = problem._replace(penalty=problem.penalty_of(q), lams=None)
        choice = _choice(conversion, own, evidence, sample and sample.lane(q), factor)
        out_w[:, q], out_b[q] = choice.w, choice.b
        chosen.append({"metric": choice.name, "objectives": choice.objectives})
    if any(each["metric"] == "last" for each in chosen):
        _warn_if_shrinking(run, last[0])
    return Answer(out_w, out_b, {"averaged": int(means.n), "chosen": chosen})


def _map_together(conversion: Any, run: Any, means: Any, w: np.ndarray, b: np.ndarray, factor: float) -> Answer:
    """Return the map of whole matrices: of all models, or of each strength where there are several."""
    problem, last, sample, rho = run.problem, run.weights(), run.sample(), run.problem.penalty.rho
    out_w, out_b, chosen = np.zeros_like(w), b.copy(), []
    blocks = [slice(0, problem.m)] if problem.lams is None else [slice(q, q + 1) for q in range(problem.m)]
    for own in blocks:
        evidence = metric.Evidence(
            last[0][:, own],
            last[1][own],
            w[:, own],
            b[own],
            means.g[:, own] + rho * (means.w[:, own] - w[:, own]),
            means.gb[own],
            None if means.H is None else means.H[:, own],
            None if means.H is None else means.Hb[own],
            means.n,
            run.t,
            run.pilot.L_mean,
        )
        part = problem._replace(penalty=problem.penalty_of(own.start), lams=None, m=own.stop - own.start)
        rows = sample and sample.lanes(own)
        if rows and problem.intercept and not problem.loss.couples:
            with np.errstate(over="ignore", invalid="ignore"):  # phase one may have diverged
                evidence = _all_near_targets(evidence, problem.loss, rows)
        choice = metric_coupled.convert(conversion, part, evidence, rows, factor)
        out_w[:, own], out_b[own] = choice.w, choice.b
        chosen.append({"metric": choice.name, "objectives": choice.objectives})
    if any(each["metric"] == "last" for each in chosen):
        _warn_if_shrinking(run, last[0])
    return Answer(out_w, out_b, {"averaged": int(means.n), "chosen": chosen})


def _warn_if_shrinking(run: Any, w: np.ndarray) -> None:
    """Warn if the last iterate, returned as the model, was still losing features."""
    looks = [look for look in run.history if 2 * look["t"] <= run.seen]
    now = np.count_nonzero(w)
    if looks and now < 0.8 * looks[-1]["nonzeros"]:
        run.warn(
            f"the model still lost features, {looks[-1]['nonzeros']:.0f} after {looks[-1]['t']:.0f} examples and {now} "
            f"after {run.seen}: more passes (max_iter) or more rows would sharpen the selection."
        )


def _choice(conversion: Any, problem: Any, evidence: Any, sample: Any, factor: float) -> metric.Choice:
    if conversion.L is not None:
        L = float(conversion.L) * factor
        model = metric.shrunk(evidence, problem.penalty, L, L, problem.intercept)
        return metric.Choice(*model, "scalar", {"L": L})
    if conversion.metric == "diagonal":
        model = metric.diagonal(evidence, problem.penalty, problem.intercept, factor)
        return metric.Choice(*model, "diagonal", {})
    if problem.intercept:
        with np.errstate(over="ignore", invalid="ignore"):  # phase one may have diverged
            evidence = _near_targets(evidence, problem.loss, sample)
    arguments = evidence, problem.loss, problem.penalty, sample, problem.intercept
    if conversion.metric == "auto":
        return completed(metric.choose(*arguments), *arguments)
    build = {"newton": metric.newton, "scalar": metric.scalar, "smoothed": metric.smoothed}[conversion.metric]
    return metric.Choice(*build(*arguments), conversion.metric, {})


_ON_ONE_SIDE = 0.9
"""The sum of slopes, as a share of the sum of their sizes, from which targets are on one side of nearly all margins."""


def _near_targets(e: metric.Evidence[float], loss: Any, sample: Any) -> metric.Evidence[float]:
    """Return the evidence, or where phase one did not reach the targets, that of the best constant on the sample.

    Steps from zero may be too short for targets far away, and slopes so far from them say nothing about a loss that is
    straight there.  Only a loss of p - y has such targets: labels of one kind have no best constant.
    """
    if not loss.shifts:
        return e
    R, constant = sample.R, np.zeros_like(e.w_bar)
    slopes, _ = metric.slopes_of(R, loss, row_sums.margins(R.indptr, R.indices, R.data, e.w_bar, e.b_bar))
    if not abs(slopes.sum()) > _ON_ONE_SIDE * np.abs(slopes).sum():
        return e
    b = best_intercept(loss, R.targets, R.weights)
    models = (constant, b), (e.w_bar, e.b_bar), (e.w_last, e.b_last)
    losses = [metric.mean_loss(sample, loss, *model) for model in models]
    if not losses[0] < min(losses[1:]):
        return e
    c, h = metric.slopes_of(R, loss, np.full(len(R.weights), b))
    g, H = row_sums.moments(R.indptr, R.indices, R.data, c, h, constant.size)
    e = e._replace(w_last=constant, b_last=b, w_bar=constant, b_bar=b)
    return e._replace(g_bar=g, gb_bar=c.sum(), H=None if e.H is None else H, Hb=h.sum())


def _all_near_targets(e: metric_coupled.Matrices, loss: Any, sample: Any) -> metric_coupled.Matrices:
    """Return the evidence of coupled models with that of each near its targets."""
    lanes = [metric.Evidence(*(x.T[q] if isinstance(x, np.ndarray) else x for x in e)) for q in range(len(e.b_bar))]
    near = [_near_targets(lane, loss, sample.lane(q)) for q, lane in enumerate(lanes)]
    if all(one is other for one, other in zip(lanes, near, strict=True)):
        return e
    fields = zip(e, zip(*near, strict=True), strict=True)
    return metric.Evidence(*(np.stack(new, -1) if isinstance(old, np.ndarray) else old for old, new in fields))
