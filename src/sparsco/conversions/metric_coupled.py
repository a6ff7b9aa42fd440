"""The conversion metric where models or features are coupled: one map of the whole matrix, not one per weight.

As in ``metric``, each candidate minimises a model of the objective around the mean iterate W_bar::

    <G, W> + 1/2 ||W - W_bar||_M^2 + psi(W)

A penalty's prox allows only metrics M that are constant over the weights it couples: its ``coarsened`` diagonal (per
row, per group) or a number.  *newton* minimises the loss of the sampled rows themselves, corrected to the stream's
slope at W_bar.  The guard compares the candidates' objectives, summed over all models, on the sample.  Every candidate
but the average is the result of a prox: exactly low rank, row-sparse or group-sparse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data import row_sums
from ..losses import curvature, derivative, value
from ..penalties import prox_all, strength
from ..problem.pilot import best_intercepts
from ..problem.state import Problem
from ..solver.smoothing import smooth
from .metric import HELD, Choice, Evidence, bent, moved, objective
from .reservoir import Sample, SampleRows

Model = tuple[np.ndarray, np.ndarray]
Matrices = Evidence[np.ndarray]
"""Evidence with matrices (d, m) where that of a single model has vectors, and an intercept for each model."""


def convert(conversion: Any, problem: Problem, evidence: Matrices, sample: Sample, factor: float) -> Choice[np.ndarray]:
    """Return the conversion's choice; ``evidence`` holds matrices (d, m) where a single model's holds vectors."""
    if conversion.L is not None:
        L = float(conversion.L) * factor
        return Choice(*shrunk(evidence, problem, L, np.full(problem.m, L)), "scalar", {"L": L})
    if conversion.metric == "diagonal":
        return Choice(*diagonal(evidence, problem, factor), "diagonal", {})
    if conversion.metric == "auto":
        return choose(evidence, problem, sample)
    metric = {"newton": newton, "scalar": scalar, "smoothed": smoothed}[conversion.metric]
    return Choice(*metric(evidence, problem, sample), conversion.metric, {})


def choose(e: Matrices, problem: Problem, sample: Sample) -> Choice[np.ndarray]:
    """Return the guard's choice: the candidate with the least objective on the sample.

    As for single models, the plain average, which is never sparse, is a candidate only with an L2 term.
    """
    averaged = problem.penalty.rho > 0.0
    models: dict[str, Model] = {"last": (e.w_last, e.b_last)}
    if averaged:
        models["average"] = e.w_bar, e.b_bar
    if not sample.R.numbers.size or not (smooth(problem.loss) is not None or averaged):
        return Choice(e.w_last, e.b_last, "last", {})
    with np.errstate(over="ignore", invalid="ignore"):  # a candidate may have diverged
        models["scalar"] = scalar(e, problem, sample)
        if problem.loss.curved:
            models["diagonal"] = diagonal(e, problem)
            models["newton"] = newton(e, problem, sample)
        elif smooth(problem.loss) is not None:
            models["smoothed"] = smoothed(e, problem, sample)
        slope, slope_b = _slope(sample.V, 1.0 - sample.kappa, e, problem) if averaged else (0.0, 0.0)

        def loss_on_sample(W: np.ndarray, b: np.ndarray) -> float:
            parts = ((sample.R, sample.kappa), (sample.V, 1.0 - sample.kappa))
            return sum(
                share * _mean_loss(rows, problem.loss, _design(rows, len(W)) @ W + b)
                for rows, share in parts
                if rows.numbers.size
            )

        here = loss_on_sample(e.w_bar, e.b_bar)

        def judged(W: np.ndarray, b: np.ndarray) -> float:
            total = float(np.sum(strength(problem.penalty, W)))
            total += bent(float(np.sum(slope * (W - e.w_bar)) + np.sum(slope_b * (b - e.b_bar))), here)
            total += loss_on_sample(W, b)
            return total if np.isfinite(total) else np.inf

        models["constant"] = np.zeros_like(e.w_bar), e.b_bar * problem.intercept
        objectives = {name: judged(*model) for name, model in models.items()}
        if objectives["constant"] == np.inf:  # the mean iterate itself has diverged, and the slope there is useless
            objectives["constant"] = objective(sample, problem.loss, problem.penalty, *models["constant"])
    name = min(objectives, key=objectives.__getitem__)
    if name == "constant" and problem.intercept:
        models[name] = models[name][0], best_intercepts(problem.loss, sample.R.targets, sample.R.weights)
    return Choice(*models[name], name, objectives)


def shrunk(e: Matrices, problem: Problem, M: Any, M_b: np.ndarray) -> Model:
    """Return prox(W_bar - G / M, 1 / M), and the intercepts after steps with their own M_b.

    An entry with M = 0 was never seen and becomes 0.  An intercept with M_b = 0 does not change.
    """
    reg = problem.penalty
    seen = M > 0.0
    s = np.divide(1.0, M, out=np.zeros_like(M), where=seen) if np.ndim(M) else 1.0 / M if seen else 0.0
    W = prox_all(reg, np.where(seen, e.w_bar - (e.g_bar + reg.rho * e.w_bar) * s, 0.0), s)
    moved = e.b_bar - e.gb_bar / np.where(M_b > 0.0, M_b, 1.0)
    return W, np.where(M_b > 0.0, moved, e.b_bar) if problem.intercept else e.b_bar


def diagonal(e: Matrices, problem: Problem, factor: float = 1.0) -> Model:
    """Return the diagonal candidate: M = 2 H + rho, raised to be constant over coupled weights, times ``factor``.

    Twice the diagonal bounds the Hessian of a softmax.
    """
    M = problem.penalty.coarsened(2.0 * e.curvatures + problem.penalty.rho)
    return shrunk(e, problem, factor * M, factor * 2.0 * e.Hb)


def scalar(e: Matrices, problem: Problem, sample: Sample) -> Model:
    """Return the scalar candidate, M = 2 L + rho.

    L is the largest eigenvalue of the loss's Hessian at W_bar on R, maximised over the models.
    """
    R, loss = sample.R, problem.loss
    if loss.curved:
        _, h = _slopes(R, loss, _design(R, len(e.w_bar)) @ e.w_bar + e.b_bar)
    else:
        h = R.weights * loss.smoothness / len(R.weights)
    M = 2.0 * row_sums.largest_eigenvalue(*R[:3], len(e.w_bar), h.max(1)) + problem.penalty.rho
    return shrunk(e, problem, M, 2.0 * h.sum(0)) if M > 0.0 else (e.w_bar, e.b_bar)


def newton(e: Matrices, problem: Problem, sample: Sample) -> Model:
    """Return the minimum, by FISTA, of R's loss plus psi, corrected to the stream's slope and curvature at W_bar."""
    terms = _Terms(e, problem, sample, e.curvatures)
    W, b = terms.start
    h = _slopes(sample.R, problem.loss, terms.X.forward(W, b), _FLOOR)[1]
    D = (1.0 - sample.kappa) * np.maximum(e.curvatures[terms.near] - terms.X.squares(h)[0], 0.0)
    if problem.penalty.rho > 0.0:
        D = D + e.L_mean / e.n_window  # the noise of the slope in directions that only rho bounds
    return terms.of_all(*terms.minimum(problem.loss, 0.0, W, b, D, W))


def smoothed(e: Matrices, problem: Problem, sample: Sample) -> Model:
    """Return the minimum on R of a loss with kinks, by smooth twins of which each is moved by the slopes of the last.

    As for single models, the weights are held near the last iterate as far as R lacks rows.
    """
    R, loss, reg = sample.R, problem.loss, problem.penalty
    share = np.broadcast_to(R.weights, R.targets.shape) * loss.smoothness / len(R.weights)
    H = np.asarray(_squared(_design(R, len(e.w_bar))).T @ share)
    terms = _Terms(e, problem, sample, H)
    centre, D = e.w_last[terms.near], HELD * (1.0 - sample.kappa) * H[terms.near]
    (W, b), slopes = terms.start, None
    best, least = (W, b), np.inf
    for width in _WIDTHS:
        twin, offset = moved(loss, width, R.targets, slopes)
        W, b = terms.minimum(twin, offset, W, b, D, centre)
        P = terms.X.forward(W, b)
        slopes = derivative(twin, P + offset, R.targets)
        total = _mean_loss(R, loss, P) + terms.rest(W, b, D, centre) + float(np.sum(strength(reg, terms.whole(W))))
        total -= 0.5 * reg.rho * float(np.square(W).sum())  # which both of the terms contain
        if not total < least:  # or it is not a number: phase one has diverged
            break
        best, fell, least = (W, b), least - total, total
        if fell <= _TOLERANCE_OF_TWINS * abs(total):
            break
    return terms.of_all(*best)


class _Terms:
    """The loss of the sampled rows plus psi, with the slope that the rows lack, over features that may be nonzero.

    Features that are clearly zero in the minimum take no part, and become zero.  Features are centred and the intercept
    moves with them, because a large mean would slow the convergence.
    """

    def __init__(self, e: Matrices, problem: Problem, sample: Sample, H: np.ndarray) -> None:
        self.problem, self.R, self.d = problem, sample.R, len(e.w_bar)
        self.near = _near(e, problem, H)
        self.X = _Centred(sample.R, self.near, self.d, problem.intercept)
        slope, self.slope_b = _slope(sample.R, 1.0 - sample.kappa, e, problem)
        self.slope = slope[self.near] - np.outer(self.X.mean, self.slope_b)  # for a fixed intercept of centred features
        W = e.w_bar[self.near]
        self.start = W, e.b_bar + self.X.mean @ W

    def whole(self, W: np.ndarray) -> np.ndarray:
        """Return the weights of all features."""
        full = np.zeros((self.d, W.shape[1]))
        full[self.near] = W
        return full

    def of_all(self, W: np.ndarray, b: np.ndarray) -> Model:
        """Return the model of all features as they are given."""
        return self.whole(W), b - self.X.mean @ W

    def rest(self, W: np.ndarray, b: np.ndarray, D: np.ndarray, centre: np.ndarray) -> float:
        """Return the terms beside the loss and the part of psi that is not smooth."""
        held = 0.5 * float(np.sum(D * np.square(W - centre)) + self.problem.penalty.rho * np.square(W).sum())
        return float(np.sum(self.slope * W) + self.slope_b @ b) + held

    def minimum(self, loss: Any, offset: Any, W: np.ndarray, b: np.ndarray, D: np.ndarray, centre: np.ndarray) -> Model:
        """Return the minimum by FISTA, from W and b, with a loss at margins that are moved by an offset.

        The steps are scaled by the coarsened diagonal; their length is found by backtracking.
        """
        R, X, reg = self.R, self.X, self.problem.penalty
        P = X.forward(W, b) + offset
        h = _slopes(R, loss, P, _FLOOR)[1]
        scale = reg.coarsened(X.squares(h)[1] + D + reg.rho)
        scale = np.maximum(scale, 1e-6 * np.max(scale, initial=0.0)) + 1e-300
        scale_b = h.sum(0) + 1e-300

        def smooth(W: np.ndarray, b: np.ndarray, P: np.ndarray) -> float:
            return _mean_loss(R, loss, P) + self.rest(W, b, D, centre)

        def size(V: np.ndarray, v: np.ndarray) -> float:
            return float(np.sum(scale * np.square(V)) + scale_b @ np.square(v))

        L, momentum = 1.0, 1.0
        Y, y, PY = W, b, P
        for _ in range(_ITERATIONS):
            c = _slopes(R, loss, PY)[0]
            g = X.backward(c) + self.slope + D * (Y - centre) + reg.rho * Y
            g_b = (c.sum(0) + self.slope_b) * self.problem.intercept
            before = smooth(Y, y, PY)
            while True:
                new, new_b = prox_all(reg, Y - g / (L * scale), 1.0 / (L * scale)), y - g_b / (L * scale_b)
                P_new = X.forward(new, new_b) + offset
                step, step_b = new - Y, new_b - y
                change = size(step, step_b)
                bound = before + float(np.sum(g * step) + g_b @ step_b) + 0.5 * L * change
                after = smooth(new, new_b, P_new)
                if not after > bound + 1e-12 * abs(before) or L > 1e12:
                    break
                L *= 2.0
            turned = float(np.sum(scale * step * (new - W)) + scale_b @ (step_b * (new_b - b))) < 0.0
            following = 1.0 if turned else 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))  # turned back: restart
            push = 0.0 if turned else (momentum - 1.0) / following
            Y, y, PY = new + push * (new - W), new_b + push * (new_b - b), P_new + push * (P_new - P)
            W, b, P, momentum = new, new_b, P_new, following
            if L * change <= _TOLERANCE * abs(after):
                break
        return W, b


def _near(e: Matrices, problem: Problem, H: np.ndarray) -> np.ndarray:
    """Return the features of the last iterate and those that half of the penalty leaves in the diagonal candidate.

    All features are returned where there are few, and where the penalty couples features.
    """
    reg = problem.penalty
    if len(e.w_bar) <= _FEW or reg.kind == "global" or any(isinstance(field, np.ndarray) for field in reg):
        return np.arange(len(e.w_bar))
    M = reg.coarsened(2.0 * H + reg.rho)
    s = np.divide(1.0, M, out=np.zeros_like(M), where=M > 0.0)
    moved = (e.w_bar - (e.g_bar + reg.rho * e.w_bar) * s) * (M > 0.0)
    return np.flatnonzero(prox_all(reg, moved, 0.5 * s).any(1) | e.w_last.any(1))


_FEW = 2000
_ITERATIONS = 300
_TOLERANCE = 1e-9
_FLOOR = 1e-3
"""The least curvature of a row in the scaling of the steps."""
_WIDTHS = (0.3, *(0.1,) * 12)
"""The widths of the parabolas at the kinks of a loss, one after the other."""
_TOLERANCE_OF_TWINS = 1e-5
"""The fall of the objective, as a share of it, below which no other twin follows."""


class _Centred:
    """The sampled rows less their mean; products keep the mean apart, so that sparse rows stay sparse."""

    def __init__(self, rows: SampleRows, near: np.ndarray, d: int, centre: bool) -> None:
        self.X = _design(rows, d)
        if near.size < d:
            self.X = _dense_if_full(sp.csr_array(self.X)[:, near])
        weight = rows.weights.sum(1)
        total = float(weight.sum())
        self.mean = np.asarray(weight @ self.X).ravel() / total if centre and total > 0.0 else np.zeros(near.size)

    def forward(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.X @ W + (b - self.mean @ W)

    def backward(self, c: np.ndarray) -> np.ndarray:
        return self.X.T @ c - np.outer(self.mean, c.sum(0))

    def squares(self, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return sum_i h_i x_i^2 and sum_i h_i (x_i - mean)^2."""
        raw = _squared(self.X).T @ h
        mean = self.mean[:, None]
        return raw, np.maximum(raw - 2.0 * mean * (self.X.T @ h) + np.square(mean) * h.sum(0), 0.0)


def _design(rows: SampleRows, d: int) -> Any:
    """Return the rows as a matrix, dense where more than 3 in 10 entries are stored."""
    shape = len(rows.indptr) - 1, d
    return _dense_if_full(sp.csr_array((rows.data, rows.indices.astype(np.int64), rows.indptr), shape=shape))


def _squared(X: Any) -> Any:
    return X.multiply(X) if sp.issparse(X) else np.square(X)


def _dense_if_full(X: sp.csr_array) -> Any:
    return X.toarray() if X.nnz > 0.3 * X.shape[0] * X.shape[1] else X


def _slope(rows: SampleRows, missing: float, e: Matrices, problem: Problem) -> Model:
    """Return the stream's slope at W_bar less the rows' slope, times the share of the stream that the rows lack."""
    if not rows.numbers.size or missing <= 0.0:
        return np.zeros_like(e.w_bar), np.zeros_like(e.b_bar)
    X = _design(rows, len(e.w_bar))
    c, _ = _slopes(rows, problem.loss, X @ e.w_bar + e.b_bar)
    return missing * (e.g_bar - X.T @ c), missing * (e.gb_bar - c.sum(0))


def _slopes(rows: SampleRows, loss: Any, P: np.ndarray, floor: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the derivative and the curvature of the mean loss in each margin."""
    share = rows.weights / len(rows.weights)
    with np.errstate(over="ignore"):
        return share * derivative(loss, P, rows.targets), share * np.maximum(curvature(loss, P, rows.targets), floor)


def _mean_loss(rows: SampleRows, loss: Any, P: np.ndarray) -> float:
    """Return the mean loss over rows, summed over models."""
    return float((rows.weights * value(loss, P, rows.targets)).sum() / len(rows.weights))
