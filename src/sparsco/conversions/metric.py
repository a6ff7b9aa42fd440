"""The conversion metric and its guard: from the sums and the sample of one pass to one exactly sparse model.

A pass leaves the mean iterate ``w_bar``, the mean gradient ``g_bar`` over the same window, a diagonal ``H`` of mean
curvatures and a sample of the rows.  Each *candidate* minimises a model of the objective around ``w_bar``::

    <g, w> + 1/2 ||w - w_bar||_M^2 + psi(w)

with M a multiple of the identity (:func:`scalar`), diagonal (:func:`diagonal`) or the Hessian on the sample
(:func:`newton`).  No metric is safe alone, so a *guard* compares the candidates' objectives on the sample.
"""

from __future__ import annotations

import math
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from ..data import row_sums
from ..data.rows import margins, places, screened
from ..losses import curvature, derivative, value
from ..offsets import margins_at
from ..penalties import restricted, soft, strength
from ..problem.pilot import best_intercept
from ..problem.state import slices
from ..solver.columns import by_column
from ..solver.elastic_net import Accuracy, ElasticNetSolver, Examples, Tilt
from ..solver.small import quickest
from ..solver.smoothing import envelope, smooth
from .corner import at_corner
from .reservoir import Sample, SampleRows

Intercept = TypeVar("Intercept")
"""The type of an intercept: a number, or an array with a number for each of several coupled models."""


class Evidence(NamedTuple, Generic[Intercept]):
    """The sums of one pass for one model; ``g_bar`` and ``H`` are means over rows, without any penalty."""

    w_last: np.ndarray
    b_last: Intercept
    w_bar: np.ndarray
    b_bar: Intercept
    g_bar: np.ndarray
    gb_bar: Intercept
    H: np.ndarray | None
    Hb: Intercept
    n_window: int
    n_seen: int
    L_mean: float

    @property
    def curvatures(self) -> np.ndarray:
        """Return ``H``, which every conversion with a diagonal metric watches."""
        assert self.H is not None
        return self.H

    def at(self, columns: np.ndarray) -> Evidence[Intercept]:
        """Return the evidence restricted to these columns."""
        w_last, w_bar, g_bar = self.w_last[columns], self.w_bar[columns], self.g_bar[columns]
        H = None if self.H is None else self.H[columns]
        return self._replace(w_last=w_last, w_bar=w_bar, g_bar=g_bar, H=H)


class Choice(NamedTuple, Generic[Intercept]):
    """The model that the guard chose, its candidate's name and every candidate's estimated objective."""

    w: np.ndarray
    b: Intercept
    name: str
    objectives: dict[str, float]


class _Local(NamedTuple):
    """The local model of the mean loss at w_bar.

    ``loss`` is the mean loss of the sampled rows R.  ``c`` and ``h`` are its derivatives and curvatures in the margins.
    ``gradient`` and ``H`` are R's gradient and its diagonal.  ``g`` and ``gb`` are the gradient of the stream.
    """

    loss: float

    c: np.ndarray
    h: np.ndarray
    gradient: np.ndarray
    H: np.ndarray
    g: np.ndarray
    gb: float

    def at(self, columns: np.ndarray) -> _Local:
        """Return the local model restricted to these columns."""
        return self._replace(gradient=self.gradient[columns], H=self.H[columns], g=self.g[columns])


def choose(evidence: Evidence[float], loss: Any, penalty: Any, sample: Sample, fit_intercept: bool) -> Choice[float]:
    """Return the guard's choice: the candidate with the least objective, estimated on the sample of one lane.

    The candidates are the last iterate, newton and diagonal.  An L2 term adds the plain average, which bounds the loss
    of a failed conversion.  If neither metric beats the last iterate and the average, scalar is added.  A loss without
    curvature has no newton and no diagonal, but smoothed if it has a smooth twin.  The model without features bounds
    the cost of a phase one that diverged.  Newton's metric is itself estimated on a sample, so newton must win by two
    standard errors, and so must smoothed.  The average is not sparse, so it must win against diagonal by that margin.

    All computations use only the columns in which any candidate can differ from zero, which may be few.
    """
    averaged = penalty.rho > 0.0
    if not sample.R.numbers.size or not (smooth(loss) is not None or averaged):
        return Choice(evidence.w_last, evidence.b_last, "last", {})
    with np.errstate(over="ignore", invalid="ignore"):  # a candidate may have diverged
        local = local_model(evidence, loss, penalty, sample)
        terms = _judge(evidence, loss, sample, local)
        columns, steep = _possible(evidence, loss, penalty, local, sample.kappa)
        place = places(columns, evidence.w_bar.size)
        kept = Sample(*(_in_columns(rows, place) for rows in (sample.R, sample.V)), sample.kappa)
        args = evidence.at(columns), loss, restricted(penalty, columns), kept, fit_intercept
        choice = _chosen(*args, local.at(columns), terms.at(columns), np.flatnonzero(steep[columns]))
    w = np.zeros_like(evidence.w_bar)
    w[columns] = choice.w
    return choice._replace(w=w)


_ROWS_PER_FEATURE, _LEAST_ROWS = 32, 4096


def enough_rows(w: np.ndarray) -> int:
    """Return how many sampled rows give a metric for the features of these weights, (d, models), and a guard.

    A long stream supplies the gradient: more rows would cost time, and the model would hardly change.
    """
    return max(_LEAST_ROWS, _ROWS_PER_FEATURE * int(np.count_nonzero(w, 0).max(initial=0)))


_STEEP, _STEEP_OF_ALL, _STEEP_BY_JUMPS = 0.9, 0.5, 0.2
"""The slope of a column that may become nonzero, as a share of its penalty.

The second one is for samples of all rows, whose optimum is sought from far.  Slopes of a loss with kinks jump."""


def _possible(
    e: Evidence[float], loss: Any, penalty: Any, local: _Local, kappa: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns that can be nonzero in a candidate, and for each of d columns whether newton's can be.

    Those of the last iterate belong to the first.  Newton's need a slope near their penalty.  The slope is taken where
    the weight is zero if one step is made from w_bar.  In several steps others move far, so each nonzero weight of
    w_bar takes part, and so it does where the average is a candidate.
    """
    share = _STEEP_BY_JUMPS if not loss.curved else _STEEP if kappa < 1.0 else _STEEP_OF_ALL
    keeps_average, steep = penalty.rho > 0.0 or not loss.curved or kappa >= _MOST, np.empty(e.w_bar.size, bool)
    for some in slices(e.w_bar.size):
        w, g = e.w_bar[some], local.g[some]
        least = share * penalty.lam * restricted(penalty, some).feature_weights(w.size)
        if keeps_average:
            steep[some] = (w != 0.0) | ~(np.abs(e.g_bar[some]) <= least) | ~(np.abs(g) <= least)
        else:
            bend = np.maximum(e.curvatures[some], local.H[some])
            at_zero = e.g_bar[some] - 2.0 * e.curvatures[some] * w  # in the diagonal model
            steep[some] = ~(np.abs(at_zero) <= least) | ~(np.abs(g - bend * w) <= least)
    return np.flatnonzero(steep | (e.w_last != 0.0)), steep


def _in_columns(rows: SampleRows, place: np.ndarray) -> SampleRows:
    """Return rows restricted to some columns, each at its place; a negative place leaves a column out."""
    if place.min(initial=0) >= 0:  # all of the columns
        return rows
    indptr, indices, data = screened(rows.indptr, rows.indices, rows.data, place)
    return rows._replace(indptr=indptr, indices=indices, data=data)


def _chosen(
    evidence: Evidence[float],
    loss: Any,
    penalty: Any,
    sample: Sample,
    fit_intercept: bool,
    local: _Local,
    judge: _Judge,
    steep: np.ndarray,
) -> Choice[float]:
    """Return the guard's choice in columns that have been restricted already; other weights of w_bar become zero.

    ``steep`` are those columns that newton's candidate is found in.
    """
    e, args = evidence, (evidence, loss, penalty, sample, fit_intercept)
    models, objectives = {"last": (e.w_last, e.b_last)}, {}
    averaged = penalty.rho > 0.0
    if averaged:
        models["average"] = e.w_bar, e.b_bar
    other = 1.0 - sample.kappa

    def judged(w: np.ndarray, b: float) -> float:
        """Return the objective with the stream's slope at w_bar; the sample gives only the bend of the loss."""
        rise = (judge.slope * w).sum() + judge.slope_b * b - judge.at_mean  # a dot product would start BLAS threads
        total = objective(sample, loss, penalty, w, b) + bent(rise, judge.loss)
        return float(total) if math.isfinite(total) else np.inf

    def doubt(name: str, rival: str) -> float:
        error = 2.0 * other * _standard_error(sample.V, loss, judge.c, models[name], models[rival])
        return error if math.isfinite(error) else 0.0

    if loss.curved:
        models["diagonal"] = diagonal(e, penalty, fit_intercept)
    objectives = {name: judged(*model) for name, model in models.items()}
    if averaged and loss.curved:
        objectives["average"] += doubt("average", "diagonal")
    if loss.curved:
        models["newton"] = newton_in(steep, *args, local)
        rival = min(objectives, key=objectives.__getitem__)
        objectives["newton"] = judged(*models["newton"]) + doubt("newton", rival)
    elif smooth(loss) is not None:
        models["smoothed"] = smoothed(*args, local)
        rival = min(objectives, key=objectives.__getitem__)
        objectives["smoothed"] = judged(*models["smoothed"]) + doubt("smoothed", rival)
    if averaged and min(objectives, key=objectives.__getitem__) in ("last", "average"):
        models["scalar"] = scalar(*args)
        objectives["scalar"] = judged(*models["scalar"])
    models["constant"] = np.zeros_like(e.w_bar), e.b_bar if fit_intercept else 0.0
    objectives["constant"] = judged(*models["constant"])
    if objectives["constant"] == np.inf:  # w_bar itself has diverged, and the slope there is useless
        objectives["constant"] = objective(sample, loss, penalty, *models["constant"])
    name = min(objectives, key=objectives.__getitem__)
    is_constant = name == "constant" or (not loss.curved and not models[name][0].any())  # of which many may be equal
    if is_constant and fit_intercept:
        models[name] = models[name][0], best_intercept(loss, sample.R.targets, sample.R.weights)
    return Choice(*models[name], name, objectives)


def objective(sample: Sample, loss: Any, penalty: Any, w: np.ndarray, b: Any) -> float:
    """Return kappa f_R + (1 - kappa) f_V + psi(w), or infinity where that is not finite.

    The value is exact while R holds every row seen.  For several models, w (d, m), it is the sum over models.
    """
    strengths = strength(penalty, w)
    total = float(strengths if np.ndim(strengths) == 0 else strengths.sum()) + mean_loss(sample, loss, w, b)
    return total if math.isfinite(total) else np.inf


def mean_loss(sample: Sample, loss: Any, w: np.ndarray, b: Any) -> float:
    """Return the mean loss on the sample, kappa f_R + (1 - kappa) f_V."""
    total = 0.0
    for rows, share in ((sample.R, sample.kappa), (sample.V, 1.0 - sample.kappa)):
        if rows.numbers.size:
            p = (row_sums.margins if w.ndim == 1 else margins)(rows.indptr, rows.indices, rows.data, w, b)
            total += share * _mean_loss(rows, loss, p)
    return total


def _mean_loss(rows: SampleRows, loss: Any, p: np.ndarray) -> float:
    """Return the mean loss of some rows at margins p, summed over models."""
    return float((rows.weights * value(loss, p, rows.targets)).sum() / max(len(p), 1))


def bent(rise: float, loss: float) -> float:
    """Return ``rise``, a linear change of the mean loss, bent upwards so that the loss stays at least zero.

    A loss is convex and at least zero.  A slope that predicts a fall of ``-rise`` from ``loss`` therefore needs a
    parabola at least as curved as the one that touches zero.
    """
    return float(rise + rise * rise / (4.0 * loss)) if rise < 0.0 < loss else float(rise)


def local_model(e: Evidence[float], loss: Any, reg: Any, sample: Sample) -> _Local:
    """Return the local model at w_bar; its gradient over all rows seen is a mixture of R's gradient and g_bar.

    With an L2 term the iterates converge, and the mixture weights are inverse to the sampling variances: R is a sample
    of the rows, and so is the window.  Without an L2 term, g_bar, summed over moving iterates, stands only for the rows
    that R does not hold.
    """
    R, _, kappa = sample
    p = row_sums.margins(R.indptr, R.indices, R.data, e.w_bar, e.b_bar)
    c, h = slopes_of(R, loss, p)
    gradient, H = row_sums.moments(R.indptr, R.indices, R.data, c, h, e.w_bar.size)
    share = kappa
    if reg.rho > 0.0 and kappa < 1.0:
        rows = len(R.weights) / kappa
        of_R, of_window = rows / len(R.weights) - 1.0, max(rows / e.n_window - 1.0, 0.0)
        share = of_window / (of_R + of_window)
    g, gb = gradient - e.g_bar, e.gb_bar + share * (c.sum() - e.gb_bar)
    g *= share
    g += e.g_bar
    return _Local(_mean_loss(R, loss, p), c, h, gradient, H, g, float(gb))


class _Judge(NamedTuple):
    """What the guard knows of w_bar: the mean loss there, V's slopes c, and the slope that the sample misses.

    ``at_mean`` is the inner product of that slope with w_bar and its intercept.
    """

    loss: float
    c: np.ndarray
    slope: np.ndarray
    slope_b: float
    at_mean: float

    def at(self, columns: np.ndarray) -> _Judge:
        """Return what is known of these columns."""
        return self._replace(slope=self.slope[columns])


def _judge(e: Evidence[float], loss: Any, sample: Sample, local: _Local) -> _Judge:
    """Return what the guard knows of w_bar, in all columns."""
    V, kappa, other = sample.V, sample.kappa, 1.0 - sample.kappa
    here, c, slope = kappa * local.loss, np.empty(0), local.g - kappa * local.gradient
    if V.numbers.size:
        p = row_sums.margins(V.indptr, V.indices, V.data, e.w_bar, e.b_bar)
        here, (c, _) = here + other * _mean_loss(V, loss, p), slopes_of(V, loss, p)
        row_sums.add_gradient(V.indptr, V.indices, V.data, -other * c, slope)
    slope_b = float(local.gb - kappa * local.c.sum() - other * c.sum())
    at_mean = float((slope * e.w_bar).sum() + slope_b * e.b_bar)
    return _Judge(here, c, slope, slope_b, at_mean)


def _standard_error(V: SampleRows, loss: Any, c: np.ndarray, one: Any, other: Any) -> float:
    """Return the standard error of V's mean difference of two models, less the slopes c at w_bar; 0 if V is empty."""
    n = len(c)
    if not n:
        return 0.0
    p, q = (row_sums.margins(V.indptr, V.indices, V.data, *model) for model in (one, other))
    bends = V.weights * (value(loss, p, V.targets) - value(loss, q, V.targets)) - n * c * (p - q)
    return float(bends.std() / np.sqrt(n))


def scalar(
    evidence: Evidence[float], loss: Any, penalty: Any, sample: Sample, fit_intercept: bool
) -> tuple[np.ndarray, float]:
    """Return the scalar candidate S(w_bar - g / M, lam pen / M) with M = 2 L + rho.

    L is the largest eigenvalue of the loss's Hessian at w_bar on R.
    """
    e, reg, R = evidence, penalty, sample.R
    _, h = slopes_of(R, loss, row_sums.margins(R.indptr, R.indices, R.data, e.w_bar, e.b_bar))
    if not loss.curved:
        h = R.weights * loss.smoothness / len(R.weights)
    M = 2.0 * row_sums.largest_eigenvalue(*R[:3], e.w_bar.size, h) + reg.rho
    if M <= 0.0:
        return e.w_bar, e.b_bar
    return shrunk(e, reg, M, 2.0 * h.sum(), fit_intercept)


def diagonal(
    evidence: Evidence[float], penalty: Any, fit_intercept: bool, factor: float = 1.0
) -> tuple[np.ndarray, float]:
    """Return the diagonal candidate S(w_bar - g / M, lam pen / M) with M = (2 H + rho) times ``factor``."""
    e = evidence
    return shrunk(e, penalty, factor * (2.0 * e.curvatures + penalty.rho), factor * 2.0 * e.Hb, fit_intercept)


def shrunk(e: Evidence[float], reg: Any, M: Any, M_b: float, fit_intercept: bool) -> tuple[np.ndarray, float]:
    """Return S(w_bar - g / M, lam pen / M) for a number or vector M, and the intercept after a step with its own M_b.

    A column with M = 0 was never seen and becomes 0.  An intercept with M_b = 0 does not change.
    """
    M, pen = np.broadcast_to(M, e.w_bar.shape), reg.feature_weights(e.w_bar.size)
    seen = M > 0.0
    if seen.all():
        w = _step(e.w_bar, e.g_bar, M, pen, reg)
    else:
        w = np.zeros_like(e.w_bar)
        w[seen] = _step(e.w_bar[seen], e.g_bar[seen], M[seen], pen[seen], reg)
    return w, e.b_bar - e.gb_bar / M_b if fit_intercept and M_b > 0.0 else e.b_bar


def _step(w: np.ndarray, g: np.ndarray, M: np.ndarray, pen: np.ndarray, reg: Any) -> np.ndarray:
    return soft(w - (g + reg.rho * w) / M, reg.lam * pen / M)


def newton(
    evidence: Evidence[float], loss: Any, penalty: Any, sample: Sample, fit_intercept: bool, local: _Local | None = None
) -> tuple[np.ndarray, float]:
    """Return the result of prox-Newton steps from w_bar on R; the stream supplies the gradient and curvature R lacks.

    The problem is min f_R(w) + <linear, w> + 1/2 sum_j D_j (w_j - w_bar_j)^2 + psi(w).  One step is made where R is
    less than half of the rows seen.  Several steps, damped if necessary, are made where R holds at least half: R's
    optimum is then near the stream's.
    """
    e, (R, _, kappa) = evidence, sample
    local = local or local_model(e, loss, penalty, sample)
    d, linear_b = e.w_bar.size, local.gb - float(local.c.sum())
    D = np.maximum(e.curvatures - local.H, 0.0)
    if penalty.rho > 0.0:
        D += e.L_mean / e.n_window  # the noise of g_bar in directions that only rho bounds
    D *= 1.0 - kappa
    n = len(R.weights)
    is_full = 2 * len(R.data) > n * d and 4 * np.count_nonzero(e.w_last) > d  # else a Gram matrix would cost more
    X = by_column(R.indptr, R.indices, R.data, np.arange(n), d)
    examples = Examples.of(R.targets, R.weights, loss)
    solver = (quickest(X, examples.loss) if is_full else ElasticNetSolver)(
        X,
        examples,
        np.ones(d),
        fit_intercept,
        Tilt(local.g - local.gradient - D * e.w_bar, linear_b),
        (e.w_bar, float(e.b_bar)),
    )
    pen = penalty.lam * penalty.feature_weights(d)
    return solver.solve_for(pen, D + penalty.rho, _SEVERAL_STEPS if kappa >= _MOST else _ONE_STEP)


def newton_in(
    columns: np.ndarray, e: Evidence[float], loss: Any, penalty: Any, sample: Sample, fit_intercept: bool, local: _Local
) -> tuple[np.ndarray, float]:
    """Return newton's candidate in some columns, with zeros in the others."""
    w, R = np.zeros_like(e.w_bar), _in_columns(sample.R, places(columns, e.w_bar.size))
    own = restricted(penalty, columns), sample._replace(R=R), fit_intercept, local.at(columns)
    w[columns], b = newton(e.at(columns), loss, *own)
    return w, b


WIDTHS = (0.3, 0.1, *(0.03,) * 18)
"""The widths of the parabolas at the kinks of a loss, one after the other."""
HELD = 0.03
"""The curvature that holds weights near the last iterate, for the rows that R lacks, as a share of a full row's."""


class _Stage(NamedTuple):
    """The optimum of a smooth twin, and its objective with the loss itself."""

    w: np.ndarray
    b: float
    total: float
    features: int


def smoothed(
    evidence: Evidence[float], loss: Any, penalty: Any, sample: Sample, fit_intercept: bool, local: _Local | None = None
) -> tuple[np.ndarray, float]:
    """Return the optimum on R of a loss with kinks, by smooth twins of which each is moved by the slopes of the last.

    This is the method of multipliers: twin k is the least loss(q) + (q - p - W c)^2 / 2 W over q, with its width W and
    the slopes c of twin k - 1.  Moved so, twins reach the optimum at a width that stays wide.  The stream supplies the
    gradient that R lacks.  Weights of columns that R lacks stay those of the last iterate.
    """
    e, R, missing = evidence, sample.R, 1.0 - sample.kappa
    local = local or local_model(e, loss, penalty, sample)
    n, d, y = len(R.weights), e.w_bar.size, R.targets
    X = by_column(R.indptr, R.indices, R.data, np.arange(n), d)
    full = R.weights * loss.smoothness / n
    D = HELD * missing * row_sums.moments(R.indptr, R.indices, R.data, full, full, d)[1]
    tilt = Tilt(local.g - local.gradient - D * e.w_last, local.gb - float(local.c.sum()))
    pen, ridge = penalty.lam * penalty.feature_weights(d), D + penalty.rho
    stages: list[_Stage] = []
    model, slopes = (np.where(np.diff(X.first) > 0, e.w_bar, e.w_last), float(e.b_bar)), None
    first = Examples(y, R.weights, moved(loss, WIDTHS[0], y, None)[0])
    solver = ElasticNetSolver(X, first, np.ones(d), fit_intercept, tilt, model)
    for width in WIDTHS:
        twin, offset = moved(loss, width, y, slopes)
        solver.start_at(Examples(y, R.weights, twin, offset), *model)
        model = solver.solve_for(pen, ridge, _TWIN)
        slopes = derivative(twin, solver.p, y)
        w, b = model
        total = float((R.weights * value(loss, solver.p - offset, y)).mean() + (pen * np.abs(w)).sum())
        total += float((tilt.w * w).sum() + tilt.b * b + 0.5 * (ridge * np.square(w)).sum())
        if not np.isfinite(total):  # phase one has diverged
            break
        stages.append(_Stage(w.copy(), b, total, int(np.count_nonzero(w))))
        if len(stages) > _PATIENCE and _best(stages[:-_PATIENCE]) is _best(stages):
            break
    if not stages:
        return e.w_bar, float(e.b_bar)
    best = _best(stages)
    w, b = best.w, best.b
    if not ridge.any() and 0 < best.features <= _FEW and n * best.features <= _CELLS:
        w, b = at_corner(R, loss, pen, w, b, fit_intercept)
    return np.where(np.diff(X.first) > 0, w, e.w_last), b


def moved(loss: Any, width: float, y: np.ndarray, slopes: np.ndarray | None) -> tuple[Any, Any]:
    """Return the smooth twin and the offset of the margins that moves it by slopes; None: those amid each kink."""
    twin = envelope(loss, width / loss.smoothness)
    if twin is None:
        raise ValueError(f"there is no smooth twin of {type(loss).__name__}: leave the metric at 'auto'.")
    if slopes is None:  # that of a parabola amid its kink
        slopes = derivative(smooth(loss, width), margins_at(y), y)
    return twin, slopes * (width / loss.smoothness)


def _best(stages: list[_Stage]) -> _Stage:
    """Return the first stage with the fewest features among those whose objective is nearly the least."""
    least = min(stage.total for stage in stages)
    near = [stage for stage in stages if stage.total <= least + _SETTLED * abs(least)]
    few, low = min((stage.features, stage.total) for stage in near)
    return next(
        each for each in near if each.features == few and each.total <= low + 1e-9 * abs(low)
    )  # not by rounding


_FEW, _CELLS = 50, 400_000
"""The most features, and rows times features, of a model that is moved to a corner."""
_TWIN, _SETTLED, _PATIENCE = Accuracy(1e-5, 30, 4, 0.1), 2e-5, 4
"""A twin's accuracy, the share of an objective that does not count, and the twins that may follow the best one."""
_MOST = 0.5
_ONE_STEP, _SEVERAL_STEPS = Accuracy(1e-6, 1, 1, 1e-3), Accuracy(1e-10, 30, 6)


def slopes_of(rows: SampleRows, loss: Any, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the derivative and the curvature of the mean loss in each row's margin."""
    share = rows.weights / max(len(rows.weights), 1)
    with np.errstate(over="ignore"):
        return share * derivative(loss, p, rows.targets), share * curvature(loss, p, rows.targets)
