"""The conversion metric and its guard: from the sums and the sample of one pass to one exactly sparse model.

A pass leaves the mean iterate ``w_bar``, the mean gradient ``g_bar`` over the same window, a diagonal ``H`` of mean
curvatures and a sample of the rows.  Each *candidate* minimises a model of the objective around ``w_bar``::

    <g, w> + 1/2 ||w - w_bar||_M^2 + psi(w)

with M a multiple of the identity (:func:`scalar`), diagonal (:func:`diagonal`) or the Hessian on the sample
(:func:`newton`).  No metric is safe alone, so a *guard* compares the candidates' objectives on the sample.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from ..data import row_sums
from ..data.rows import margins
from ..losses import curvature, derivative, value
from ..penalties import restricted, soft, strength
from ..problem.pilot import best_intercept
from ..problem.state import slices
from ..util.blas import one_blas_thread
from . import coordinate_descent
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

    ``c`` and ``h`` are the derivatives and curvatures in the margins of the sampled rows R.  ``gradient`` and ``H`` are
    R's gradient and its diagonal.  ``g`` and ``gb`` are the gradient of the stream.
    """

    c: np.ndarray
    h: np.ndarray
    gradient: np.ndarray
    H: np.ndarray
    g: np.ndarray
    gb: float

    def at(self, columns: np.ndarray) -> _Local:
        """Return the local model restricted to these columns."""
        return self._replace(gradient=self.gradient[columns], H=self.H[columns], g=self.g[columns])


class _Subproblem(NamedTuple):
    """The problem of one prox-Newton candidate, over the columns ``near`` and the intercept (last in every array).

    min f_R(w) + <linear, w> + 1/2 sum_j D_j (w_j - centre_j)^2 + sum_j rho_j w_j^2 / 2 + sum_j pen_j |w_j|
    """

    near: np.ndarray
    start: np.ndarray
    columns: np.ndarray
    x: np.ndarray
    centre: np.ndarray
    linear: np.ndarray
    D: np.ndarray
    rho: np.ndarray
    pen: np.ndarray

    def margins(self, w: np.ndarray) -> np.ndarray:
        return row_sums.margins(self.start, self.columns, self.x, w, w[-1])

    def penalty(self, w: np.ndarray) -> float:
        """Return all terms of the objective except f_R."""
        smooth = self.linear @ w + 0.5 * (self.D @ np.square(w - self.centre) + self.rho @ np.square(w))
        return smooth + self.pen @ np.abs(w)


def choose(evidence: Evidence[float], loss: Any, penalty: Any, sample: Sample, fit_intercept: bool) -> Choice[float]:
    """Return the guard's choice: the candidate with the least objective, estimated on the sample of one lane.

    The candidates are the last iterate, newton and diagonal.  An L2 term adds the plain average, which bounds the loss
    of a failed conversion.  If neither metric beats the last iterate and the average, scalar is added.  A loss without
    curvature has no newton and no diagonal.  The model without features bounds the cost of a phase one that diverged.
    Newton's metric is itself estimated on a sample, so newton must win by two standard errors.  The average is not
    sparse, so it must win against diagonal by the same margin.

    All computations use only the columns in which any candidate can differ from zero, which may be few.
    """
    averaged = penalty.rho > 0.0
    if not sample.R.numbers.size or not (loss.curved or averaged):
        return Choice(evidence.w_last, evidence.b_last, "last", {})
    with np.errstate(over="ignore", invalid="ignore"):  # a candidate may have diverged
        local = _local(evidence, loss, penalty, sample)
        columns = _possible(evidence, penalty, local.g)
        local, place = local.at(columns), _places(columns, evidence.w_bar.size)
        kept = Sample(*(_in_columns(rows, place) for rows in (sample.R, sample.V)), sample.kappa)
        args = evidence.at(columns), loss, restricted(penalty, columns), kept, fit_intercept
        choice = _chosen(*args, local)
    w = np.zeros_like(evidence.w_bar)
    w[columns] = choice.w
    return choice._replace(w=w)


def _possible(e: Evidence[float], penalty: Any, g: np.ndarray) -> np.ndarray:
    """Return the columns that can be nonzero in a candidate: a zero weight needs a slope near its penalty."""
    found = np.empty(g.size, bool)
    for some in slices(g.size):
        least = 0.9 * penalty.lam * restricted(penalty, some).feature_weights(g[some].size)
        steep = ~(np.abs(e.g_bar[some]) <= least) | ~(np.abs(g[some]) <= least)
        found[some] = (e.w_last[some] != 0.0) | (e.w_bar[some] != 0.0) | steep
    return np.flatnonzero(found)


def _places(columns: np.ndarray, d: int) -> np.ndarray:
    """Return the position of each of d columns among ``columns``, and -1 for a column that is not among them."""
    place = np.full(d, -1, np.int32)
    place[columns] = np.arange(columns.size)
    return place


def _in_columns(rows: SampleRows, place: np.ndarray) -> SampleRows:
    indptr, indices, data = coordinate_descent.screened(rows.indptr, rows.indices, rows.data, place)
    return rows._replace(indptr=indptr, indices=indices, data=data)


def _chosen(
    evidence: Evidence[float], loss: Any, penalty: Any, sample: Sample, fit_intercept: bool, local: _Local
) -> Choice[float]:
    """Return the guard's choice in columns that have been restricted already."""
    e, args = evidence, (evidence, loss, penalty, sample, fit_intercept)
    models, objectives = {"last": (e.w_last, e.b_last)}, {}
    averaged = penalty.rho > 0.0
    if averaged:
        models["average"] = e.w_bar, e.b_bar
    c, gradient = _slopes_on_guard(e, loss, sample)
    kappa, other = sample.kappa, 1.0 - sample.kappa
    slope = local.g - kappa * local.gradient - other * gradient
    slope_b = local.gb - kappa * local.c.sum() - other * c.sum()

    here = mean_loss(sample, loss, e.w_bar, e.b_bar)

    def judged(w: np.ndarray, b: float) -> float:
        """Return the objective with the stream's slope at w_bar; the sample gives only the bend of the loss."""
        rise = (slope * (w - e.w_bar)).sum() + slope_b * (b - e.b_bar)  # a dot product would start the BLAS threads
        total = objective(sample, loss, penalty, w, b) + bent(rise, here)
        return float(total) if np.isfinite(total) else np.inf

    def doubt(name: str, rival: str) -> float:
        error = 2.0 * other * _standard_error(sample.V, loss, c, models[name], models[rival])
        return error if np.isfinite(error) else 0.0

    if loss.curved:
        models["diagonal"] = diagonal(e, penalty, fit_intercept)
    objectives = {name: judged(*model) for name, model in models.items()}
    if averaged and loss.curved:
        objectives["average"] += doubt("average", "diagonal")
    if loss.curved:
        models["newton"] = newton(*args, local)
        rival = min(objectives, key=objectives.__getitem__)
        objectives["newton"] = judged(*models["newton"]) + doubt("newton", rival)
    if averaged and min(objectives, key=objectives.__getitem__) in ("last", "average"):
        models["scalar"] = scalar(*args)
        objectives["scalar"] = judged(*models["scalar"])
    models["constant"] = np.zeros_like(e.w_bar), e.b_bar if fit_intercept else 0.0
    objectives["constant"] = judged(*models["constant"])
    if objectives["constant"] == np.inf:  # w_bar itself has diverged, and the slope there is useless
        objectives["constant"] = objective(sample, loss, penalty, *models["constant"])
    name = min(objectives, key=objectives.__getitem__)
    if name == "constant" and fit_intercept:
        models[name] = models[name][0], best_intercept(loss, sample.R.targets, sample.R.weights)
    return Choice(*models[name], name, objectives)


def objective(sample: Sample, loss: Any, penalty: Any, w: np.ndarray, b: Any) -> float:
    """Return kappa f_R + (1 - kappa) f_V + psi(w), or infinity where that is not finite.

    The value is exact while R holds every row seen.  For several models, w (d, m), it is the sum over models.
    """
    total = float(np.sum(strength(penalty, w))) + mean_loss(sample, loss, w, b)
    return total if np.isfinite(total) else np.inf


def mean_loss(sample: Sample, loss: Any, w: np.ndarray, b: Any) -> float:
    """Return the mean loss on the sample, kappa f_R + (1 - kappa) f_V."""
    total = 0.0
    for rows, share in ((sample.R, sample.kappa), (sample.V, 1.0 - sample.kappa)):
        if rows.numbers.size:
            p = (row_sums.margins if w.ndim == 1 else margins)(rows.indptr, rows.indices, rows.data, w, b)
            total += share * float(np.sum((rows.weights * value(loss, p, rows.targets)).mean(0)))
    return total


def bent(rise: float, loss: float) -> float:
    """Return ``rise``, a linear change of the mean loss, bent upwards so that the loss stays at least zero.

    A loss is convex and at least zero.  A slope that predicts a fall of ``-rise`` from ``loss`` therefore needs a
    parabola at least as curved as the one that touches zero.
    """
    return float(rise + rise * rise / (4.0 * loss)) if rise < 0.0 < loss else float(rise)


def _local(e: Evidence[float], loss: Any, reg: Any, sample: Sample) -> _Local:
    """Return the local model at w_bar; its gradient over all rows seen is a mixture of R's gradient and g_bar.

    With an L2 term the iterates converge, and the mixture weights are inverse to the sampling variances: R is a sample
    of the rows, and so is the window.  Without an L2 term, g_bar, summed over moving iterates, stands only for the rows
    that R does not hold.
    """
    R, _, kappa = sample
    c, h = _slopes(R, loss, row_sums.margins(R.indptr, R.indices, R.data, e.w_bar, e.b_bar))
    gradient, H = row_sums.moments(R.indptr, R.indices, R.data, c, h, e.w_bar.size)
    share = kappa
    if reg.rho > 0.0 and kappa < 1.0:
        rows = len(R.weights) / kappa
        of_R, of_window = rows / len(R.weights) - 1.0, max(rows / e.n_window - 1.0, 0.0)
        share = of_window / (of_R + of_window)
    g, gb = gradient - e.g_bar, e.gb_bar + share * (c.sum() - e.gb_bar)
    g *= share
    g += e.g_bar
    return _Local(c, h, gradient, H, g, float(gb))


def _slopes_on_guard(e: Evidence[float], loss: Any, sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """Return V's derivatives in the margins at w_bar, each divided by the number of rows, and V's gradient."""
    V = sample.V
    c, h = _slopes(V, loss, row_sums.margins(V.indptr, V.indices, V.data, e.w_bar, e.b_bar))
    return c, row_sums.moments(V.indptr, V.indices, V.data, c, h, e.w_bar.size)[0]


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
    _, h = _slopes(R, loss, row_sums.margins(R.indptr, R.indices, R.data, e.w_bar, e.b_bar))
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
    M = np.broadcast_to(M, e.w_bar.shape)
    seen = np.flatnonzero(M > 0.0)
    M, w_bar, w = M[seen], e.w_bar[seen], np.zeros_like(e.w_bar)
    g = e.g_bar[seen] + reg.rho * w_bar
    w[seen] = soft(w_bar - g / M, reg.lam * reg.feature_weights(w.size)[seen] / M)
    return w, e.b_bar - e.gb_bar / M_b if fit_intercept and M_b > 0.0 else e.b_bar


def newton(
    evidence: Evidence[float], loss: Any, penalty: Any, sample: Sample, fit_intercept: bool, local: _Local | None = None
) -> tuple[np.ndarray, float]:
    """Return the result of prox-Newton steps from w_bar on R; the stream supplies the gradient and curvature R lacks.

    One step is made where R is less than half of the rows seen.  Several steps, damped if necessary, are made where R
    holds at least half: R's optimum is then near the stream's.
    """
    R = sample.R
    problem = _subproblem(evidence, penalty, sample, local or _local(evidence, loss, penalty, sample))
    w, damping = problem.centre.copy(), 1.0
    p = problem.margins(w)
    f = _mean_loss(R, loss, p) + problem.penalty(w)
    repeated = rough = sample.kappa >= _MOST
    for steps_left in reversed(range(_STEPS if repeated else 1)):
        rough = rough and steps_left > 0
        new = _minimum_of_model(problem, R, loss, p, w, damping, fit_intercept, rough)
        if not repeated:
            w = new
            break
        p_new = problem.margins(new)
        f_new = _mean_loss(R, loss, p_new) + problem.penalty(new)
        near = abs(f - f_new) <= 1e-6 * abs(f)
        if f_new < f:
            w, p, f = new, p_new, f_new
            damping = max(1.0, damping / 4.0)
        else:  # a steeper model shortens the step; unlike a line search it ends in exact zeros
            damping *= 4.0
        if near and not rough:
            break
        rough = rough and not near
    full = np.zeros_like(evidence.w_bar)
    full[problem.near] = w[:-1]
    return full, float(w[-1])


_MOST = 0.5
_STEPS = 8
_ROUGH = 0.1
"""The tolerance of a step that other steps follow, as a share of its start's largest violation of optimality."""
_EPOCHS = 100
_GRAM_COLUMNS = 1500
_FLOOR = 1e-3
"""The least curvature of a row: the quadratic model of a saturated logistic loss is too flat for any step."""


def _subproblem(e: Evidence[float], reg: Any, sample: Sample, local: _Local) -> _Subproblem:
    """Return the problem on R around w_bar, over the columns that are not clearly zero in its solution."""
    R, _, kappa = sample
    d, H = e.w_bar.size, local.H
    linear, linear_b = local.g - local.gradient, local.gb - local.c.sum()
    D = np.maximum(e.H - H, 0.0)
    if reg.rho > 0.0:
        D += e.L_mean / e.n_window  # the noise of g_bar in directions that only rho bounds
    D *= 1.0 - kappa
    pen = reg.lam * reg.feature_weights(d)
    g = local.g + reg.rho * e.w_bar
    M = H + D + reg.rho
    near = np.flatnonzero((np.abs(g) > 0.9 * pen) | ((e.w_bar != 0.0) & (np.abs(g - M * e.w_bar) > 0.5 * pen)))
    rows = coordinate_descent.screened(R.indptr, R.indices, R.data, _places(near, d))
    ends = (e.w_bar, e.b_bar), (linear, linear_b), (D, 0.0), (np.full(d, float(reg.rho)), 0.0), (pen, 0.0)
    return _Subproblem(near, *rows, *(np.append(values[near], last) for values, last in ends))


def _minimum_of_model(
    problem: _Subproblem,
    R: SampleRows,
    loss: Any,
    p: np.ndarray,
    w: np.ndarray,
    damping: float,
    fit_intercept: bool,
    rough: bool,
) -> np.ndarray:
    """Return the result of one prox-Newton step: the minimum of the problem's quadratic model at w, with margins p.

    The curvature of the loss is multiplied by ``damping``.
    """
    _, start, columns, x, centre, linear, D, rho, pen = problem
    k = w.size - 1
    c, h = _slopes(R, loss, p, _FLOOR)
    h *= damping
    q = linear + D * (w - centre) + rho * w
    q[:k] += row_sums.moments(start, columns, x, c, h, k)[0]
    q[k] += c.sum()
    new = w.copy()
    tol = 1e-4 * max(pen.max(), 1e-2 * np.abs(q).max())
    if rough:
        free = slice(0, k + fit_intercept)
        tol = max(tol, _ROUGH * coordinate_descent.violations(q[free], w[free], pen[free], 0.0, np.empty_like(q)))
    pairs = np.square(np.diff(start)).sum()
    dense = x.size > 0.5 * h.size * k
    if k <= _GRAM_COLUMNS and (dense or pairs < 120 * x.size):  # the Gram matrix costs less than the sweeps it saves
        G = dense_gram(start, columns, x, h, k) if dense else coordinate_descent.gram(start, columns, x, h, k)
        G[np.diag_indices(k + 1)] += D + rho
        if fit_intercept and G[k, k] > 0.0:
            descend_beside_intercept(G, q, new, pen, tol)
        else:
            coordinate_descent.descend_gram(G[:k, :k].copy(), q[:k].copy(), new[:k], pen[:k], tol, 2 * _EPOCHS)
    else:
        by_column = coordinate_descent.transposed(start, columns, x, k)
        coordinate_descent.descend(*by_column, c, h, D + rho, q, new, pen, tol, _EPOCHS, fit_intercept)
    return new


def descend_beside_intercept(G: np.ndarray, q: np.ndarray, w: np.ndarray, pen: np.ndarray, tol: float) -> None:
    """Update the weights by coordinate descent with the intercept optimal for each value, as if columns had mean zero.

    An intercept treated as one more coordinate would converge slowly where features have a large mean.
    """
    k, before = w.size - 1, w.copy()
    share = G[k, :k] / G[k, k]
    centred = G[:k, :k] - np.outer(share, G[k, :k])
    coordinate_descent.descend_gram(centred, q[:k] - share * q[k], w[:k], pen[:k], tol, 2 * _EPOCHS)
    w[k] -= q[k] / G[k, k] + share @ (w[:k] - before[:k])


def _slopes(rows: SampleRows, loss: Any, p: np.ndarray, floor: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the derivative and the curvature of the mean loss in each row's margin."""
    share = rows.weights / max(len(rows.weights), 1)
    with np.errstate(over="ignore"):
        return share * derivative(loss, p, rows.targets), share * np.maximum(curvature(loss, p, rows.targets), floor)


def _mean_loss(rows: SampleRows, loss: Any, p: np.ndarray) -> float:
    return float((rows.weights * value(loss, p, rows.targets)).mean())


def dense_gram(start: np.ndarray, columns: np.ndarray, x: np.ndarray, h: np.ndarray, k: int) -> np.ndarray:
    """Return :func:`coordinate_descent.gram` computed by one dense product."""
    X = np.zeros((h.size, k + 1))
    X[np.repeat(np.arange(h.size), np.diff(start)), columns] = x
    X[:, k] = 1.0
    with one_blas_thread():
        return (X * h[:, None]).T @ X
