"""Selection of few features: random draws or the largest weights, and a refit of the remaining weights.

All functions work on weights (d, m) and rows.  :mod:`sparsco.estimators.sparsify` applies them to fitted models.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from ..data.inspection import sound
from ..data.randomness import Purpose, uniform
from ..losses import Squared, derivative, value
from ..penalties import L1Ball, bounds, prox_all, strength

RIDGES = tuple(10.0**power for power in np.arange(-5.0, 0.5, 0.5))
"""L2 weights that a refit tries, for columns of mean square one and the loss divided by its smoothness."""
_ALL_FEATURES = 10**15
"""From this many draws on, every feature is drawn in proportion to its share: the weights stay unchanged."""


def tied(penalty: Any) -> bool:
    """Return whether a feature is selected for all models at once.

    Raise for a penalty whose structure the selection of single features would undo.
    """
    cls = penalty.record
    grouped = cls.kind == "grouped"
    if cls.kind == "separable" or (grouped and cls.has_prox) or "lam" not in cls._fields:  # a constraint has no lam
        return grouped
    raise ValueError(
        f"{cls.__name__} ties features together, which a budget would break: strengthen the penalty "
        "instead, or choose penalty='elasticnet' or 'row-group'."
    )


def allowed(penalty: Any, W: np.ndarray) -> np.ndarray:
    """Return the nearest weights on the same features that the penalty's box or ball allows.

    An L1 ball applies to phase one only: refitted weights may leave it.
    """
    if isinstance(penalty, L1Ball):
        return W
    inside = np.where(W != 0.0, prox_all(penalty, W, 0.0), 0.0)
    if not np.all(np.isfinite(strength(penalty, inside))):
        raise ValueError(f"{type(penalty).__name__} does not allow the zeros of a model with few features.")
    return inside


def check_target(target: Any) -> None:
    """Raise for a target that is not a valid pair (eps, delta)."""
    good = isinstance(target, tuple | list) and len(target) == 2 and all(isinstance(x, numbers.Real) for x in target)
    if not (good and target[0] > 0.0 and 0.0 < target[1] < 1.0):
        raise ValueError(
            f"target_excess_risk={target!r}: give a pair (eps, delta), a number above 0 and one between 0 and 1; "
            "random draws then add at most eps * delta to the loss on average."
        )


def thinned(
    how: Any, W: np.ndarray, b: np.ndarray, problem: Any, sample: Any, seed: int
) -> tuple[np.ndarray, np.ndarray, list[dict[str, Any]]]:
    """Return the result of ``Sparsify`` on a sample of the stream: weights (d, m), intercepts (m,), and reports.

    There is one report for each model, or a single one where features are selected for all models at once.
    """
    n, d = len(sample.targets), len(W)
    X = sp.csr_array((sample.data, sample.indices.astype(np.int64), sample.indptr), shape=(n, d))
    model, rows = Models(W, b, problem.loss, problem.penalty, problem.intercept), Examples(X, *sample[3:5])
    moments, held = second_moments(X) if n else np.ones(d), held_out_rows(n, seed)
    largest = how.how == "top-k" and how.target is None

    def draws(V: np.ndarray) -> int:
        eps, delta = how.target
        if model.loss.couples:
            eps /= W.shape[1]
        if not isinstance(model.loss, Squared):  # a curvature of at most h adds at most h / 2 E<w' - w, x>^2
            eps = 2.0 * eps / model.loss.smoothness
        return draws_needed(lengths(V), eps, delta, np.sqrt(moments))

    def thin(V: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if largest:
            return keep_largest_rows(V, how.k, np.sqrt(moments))
        shares = sampling_shares(lengths(V), "mg" if how.how == "mg" else "dd", moments)
        return _drawn_to(V, shares, how.k, rng) if how.target is None else draw_features(V, shares, draws(V), rng)

    judges = rows.where(held) if held.any() else rows
    out = best_of_trials(model, judges if n else None, thin, 1 if largest else how.trials, seed)
    ridges: list[float] = []
    if how.refit and n:
        out, b, ridges = refit_models(model._replace(W=out), rows, held)
    out = allowed(model.penalty, out)
    reports: list[dict[str, Any]] = []
    for part in _parts(W.shape[1], model.tied):
        report = {"from": int(W[:, part].any(1).sum()), "rows": n, "nonzeros": int(out[:, part].any(1).sum())}
        report |= {} if how.target is None else {"K": draws(W[:, part])}
        reports.append(report | ({"ridge": ridges[part.start]} if ridges else {}))
    return out, b, reports


class Examples(NamedTuple):
    """Rows with the targets and weights (n, m) of m models."""

    X: Any
    targets: np.ndarray
    weights: np.ndarray

    def where(self, chosen: np.ndarray) -> Examples:
        return Examples(*(part[chosen] for part in self))

    def of(self, models: slice) -> Examples:
        return Examples(self.X, self.targets[:, models], self.weights[:, models])

    def loss(self, loss: Any, p: np.ndarray) -> float:
        """Return the mean loss over rows at margins p (n, m), summed over models."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float((self.weights * value(loss, p, self.targets)).mean(0).sum())

    def gradient(self, loss: Any, p: np.ndarray) -> np.ndarray:
        """Return the derivatives of :meth:`loss` in the margins."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.weights * derivative(loss, p, self.targets) / len(p)


class Models(NamedTuple):
    """One or several linear models: weights (d, m), intercepts (m,), and the loss and penalty they were learned with.

    The loss is None where it is unknown: for weights alone, or for another package's model without rows.
    """

    W: np.ndarray
    b: np.ndarray
    loss: Any
    penalty: Any
    intercept: bool

    @property
    def tied(self) -> bool:
        return tied(self.penalty)


def sampling_shares(w: np.ndarray, p: str, second_moments: Any = None) -> np.ndarray:
    """Return the sampling probabilities of "dd" or "mg", over features."""
    if p not in ("dd", "mg"):
        raise ValueError(f"p={p!r}: choose 'dd' (by |w| rms(x)) or 'mg' (by |w|).")
    if p == "dd" and second_moments is None:
        raise ValueError("p='dd' needs second_moments=, E[x_j^2] for each feature or rows X.")
    size = np.abs(w) * (root_moments(second_moments, len(w)) if p == "dd" else 1.0)
    total = size.sum()
    return size / total if total > 0.0 else size


def draws_needed(sizes: np.ndarray, eps: float, delta: float, rms: np.ndarray, half: bool = False) -> int:
    """Return K such that K draws of "dd" add at most eps delta to the expected squared error on average.

    It is (sum_j |w_j| sqrt(E[x_j^2]))^2 / (eps delta), by the variance of a draw.  With probability 1 - delta the draws
    change the predictions by at most eps in mean square (Markov's inequality, which needs a number that is never
    negative, as the error's growth can be).  With ``half`` it is half as many, for half of both squares.
    """
    spread = float(np.sum(np.abs(sizes) * rms))
    with np.errstate(all="ignore"):
        K = np.square(spread) / eps / delta * (0.5 if half else 1.0)
    if not np.isfinite(K):
        raise ValueError(f"eps={eps!r}, delta={delta!r}: no number of draws is enough for a target so small.")
    return max(1, math.ceil(K))


def second_moments(X: Any) -> np.ndarray:
    """Return E[x_j^2] over the rows X, dense or sparse."""
    if not sp.issparse(X):
        return np.square(np.asarray(X, dtype=np.float64)).mean(0)
    rows = sound(X).tocsr()
    return np.bincount(rows.indices, np.square(rows.data), rows.shape[1]) / max(rows.shape[0], 1)


def checked_moments(given: Any, d: int) -> np.ndarray:
    """Return validated E[x_j^2], given as such or computed from rows."""
    given = second_moments(given) if np.ndim(given) == 2 else np.asarray(given, dtype=np.float64)
    if given.shape != (d,) or not np.all(given >= 0.0) or not np.all(np.isfinite(given)):
        raise ValueError(f"second_moments must be {d} finite numbers of at least 0, one per feature, or rows of them.")
    return given


def root_moments(given: Any, d: int) -> np.ndarray:
    return np.ones(d) if given is None else np.sqrt(checked_moments(given, d))


def lengths(V: np.ndarray) -> np.ndarray:
    """Return |w_j|, or for several models the norm of feature j's weights."""
    return np.abs(V[:, 0]) if V.shape[1] == 1 else np.linalg.norm(V, axis=1)


def keep_largest_rows(V: np.ndarray, k: int, rms: np.ndarray) -> np.ndarray:
    out = np.zeros_like(V)
    chosen = np.argsort(-lengths(V) * rms, kind="stable")[:k]
    out[chosen] = V[chosen]
    return out


def draw_features(V: np.ndarray, shares: np.ndarray, K: int, rng: np.random.Generator) -> np.ndarray:
    out, used = np.zeros_like(V), np.flatnonzero(shares)
    if K > _ALL_FEATURES:
        return V.copy()
    if used.size:
        counts = rng.multinomial(K, shares[used] / shares[used].sum())
        out[used] = V[used] * counts[:, None] / (K * shares[used])[:, None]
    return out


def _drawn_to(V: np.ndarray, shares: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Return weights from as many draws as possible with at most k different features."""
    used = np.flatnonzero(shares)
    if used.size <= k:
        return V.copy()
    share = shares[used] / shares[used].sum()
    order = used[rng.choice(used.size, size=50 * k, p=share)]
    first = np.sort(np.unique(order, return_index=True)[1])
    K = int(first[k]) if first.size > k else order.size
    counts = np.bincount(order[:K], minlength=len(V))
    out, drawn = np.zeros_like(V), counts > 0
    out[drawn] = V[drawn] * counts[drawn, None] / (K * shares[drawn])[:, None]
    return out


def _parts(m: int, together: bool) -> list[slice]:
    return [slice(0, m)] if together else [slice(q, q + 1) for q in range(m)]


def best_of_trials(
    model: Models, rows: Examples | None, thin: Callable[[np.ndarray, Any], np.ndarray], trials: int, seed: int
) -> np.ndarray:
    """Return thinned weights, the best of several trials on the rows.

    The best is chosen for each model, or for all together where they share their features or their loss.
    """
    out, m = np.zeros_like(model.W), model.W.shape[1]
    for part in _parts(m, model.tied or (model.loss is not None and model.loss.couples)):
        V, b, rng = model.W[:, part], model.b[part], np.random.default_rng(seed)
        units = _parts(V.shape[1], model.tied)
        found = [np.hstack([thin(V[:, unit], rng) for unit in units]) for _ in range(trials)]
        losses = [0.0] if rows is None else [rows.of(part).loss(model.loss, rows.X @ each + b) for each in found]
        out[:, part] = found[int(np.argmin(np.nan_to_num(losses, nan=np.inf)))]
    return out


def held_out_rows(n: int, seed: int) -> np.ndarray:
    """Return a mask that holds out about a fifth of n rows."""
    return uniform(seed, Purpose.VALIDATION, np.arange(n)) < 0.2


def refit_models(model: Models, rows: Examples, held: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Return weights, intercepts and ridges of all models, each refitted alone unless the loss couples them."""
    import scipy.optimize  # noqa: F401 - first, so that its BLAS is limited, too

    out, b, ridges = np.zeros_like(model.W), model.b.copy(), []
    with threadpool_limits(1):  # threads would wait for each other longer than L-BFGS works
        for part in _parts(len(b), model.loss.couples):
            own = model._replace(W=model.W[:, part], b=b[part])
            out[:, part], b[part], ridge = _refitted(own, rows.of(part), held)
            ridges += [ridge] * len(own.b)
    return allowed(model.penalty, out), b, ridges


def _refitted(model: Models, rows: Examples, held: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return refitted weights and intercepts on the support of the model, and the chosen ridge.

    Ridges are tried from the largest down, each from the solution before, until two in a row do not help.
    """
    chosen = np.flatnonzero(model.W.any(1))
    free = model.W[chosen] != 0.0
    columns = sp.csr_array(rows.X[:, chosen])
    scale = np.sqrt(second_moments(columns))[:, None]
    scale[scale == 0.0] = 1.0
    rows = rows._replace(X=sp.csr_array(columns @ sp.diags_array(1.0 / scale[:, 0])))
    ends = [np.where(free, end[chosen, None] * scale, 0.0) for end in bounds(model.penalty, len(model.W))]
    start, best, ridge, worse = np.vstack([model.W[chosen] * scale, model.b]), np.inf, RIDGES[-1], 0
    if held.any() and not held.all():
        learned, judged = rows.where(~held), rows.where(held)
        for tried in reversed(RIDGES):
            start = _minimum(start, model, learned, tried, ends)
            error = judged.loss(model.loss, judged.X @ start[:-1] + start[-1])
            best, ridge, worse = (error, tried, 0) if error < best else (best, ridge, worse + 1)
            if worse == 2:
                break
    found, out = _minimum(start, model, rows, ridge, ends), np.zeros_like(model.W)
    out[chosen] = found[:-1] / scale
    return out, found[-1], ridge


def _minimum(start: np.ndarray, model: Models, rows: Examples, ridge: float, ends: list[np.ndarray]) -> np.ndarray:
    """Return weights between the ends and, in the last row, intercepts that minimise the mean loss plus the L2 term."""
    from scipy.optimize import minimize  # takes a third of a second to import, and most runs do not need it

    loss, l2, Z = model.loss, ridge * model.loss.smoothness, rows.X

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        V, b = np.split(flat.reshape(start.shape), [-1])
        p = Z @ V + b
        slopes = rows.gradient(loss, p)
        total = rows.loss(loss, p) + 0.5 * l2 * float(np.vdot(V, V))
        return total, np.vstack([Z.T @ slopes + l2 * V, slopes.sum(0) * model.intercept]).ravel()

    open_ended = np.full(start.shape[1], np.inf)
    limits = np.array([np.vstack([ends[0], -open_ended]).ravel(), np.vstack([ends[1], open_ended]).ravel()])
    found = minimize(
        objective,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=None if np.isinf(limits).all() else limits.T,
        options={"maxiter": 200, "maxcor": 20},
    )
    return found.x.reshape(start.shape)
