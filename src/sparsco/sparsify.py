"""Stage two: a model with few features from one with many, and what that costs.

Every function takes weights as a vector or a fitted linear model, of which it returns a copy with other weights.
``second_moments`` are E[x_j^2], or rows X to take them from.

>>> w = np.array([4.0, 1.0, 0.1])
>>> keep_largest(w, 2)
array([4., 1., 0.])
>>> keep_largest(w, 2, second_moments=[1.0, 1.0, 900.0])
array([4. , 0. , 0.1])
>>> draws_for(w, eps=0.5, delta=0.1, second_moments=[1.0, 1.0, 4.0])
541
"""

from __future__ import annotations

import copy
import math
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from .losses import Squared, derivative, value
from .randomness import Purpose, uniform

SMALL_BALLS = (0.05, 0.2, 0.5)
"""Radii at which a ball alone is compared with thinning, as shares of the norm of the model in the large one."""
RIDGES = tuple(10.0**power for power in np.arange(-5.0, 0.5, 0.5))
"""L2 weights that a refit tries, on columns of mean square one and the loss over its smoothness."""


def sparsify_random(
    w: Any, K: int, p: str = "dd", second_moments: Any = None, *, held_out: tuple[Any, Any] | None = None,
    trials: int = 1, seed: int = 0,
) -> Any:  # fmt: skip
    """Randomized sparsification: m ~ Multinomial(K, p), w_j m_j / (K p_j).  At most K features, unbiased.

    p = "dd": in proportion to |w_j| sqrt(E[x_j^2]), which loses least (distribution dependent); "mg": to |w_j| alone.
    Of several ``trials`` the one of least squared error on the rows ``held_out`` = (X, y) is kept.
    """
    _check_count("K", K)
    _check_count("trials", trials)
    if trials > 1 and held_out is None:
        raise ValueError("sparsify_random: the best of several trials needs held_out=(X, y) to judge them by.")

    def drawn(v: np.ndarray, b: float) -> np.ndarray:
        shares, rng = sampling_shares(v, p, second_moments), np.random.default_rng(seed)
        found = [_drawn(v, shares, K, rng) for _ in range(trials)]
        if held_out is None:
            return found[0]
        X, y = held_out
        errors = [np.mean(np.square(X @ each + b - np.asarray(y))) for each in found]
        return found[int(np.argmin(errors))]

    return _mapped(w, drawn)


def keep_largest(w: Any, k: int, second_moments: Any = None) -> Any:
    """All but the k features of largest |w_j| sqrt(E[x_j^2]) become zero; without moments of largest |w_j|.

    On real data it is better than drawing at random at equal size.  Ties keep the lower index.
    """
    _check_count("k", k)

    def kept(v: np.ndarray, b: float) -> np.ndarray:
        size = np.abs(v) * _rms(second_moments, len(v))
        out = np.zeros_like(v)
        chosen = np.argsort(-size, kind="stable")[:k]
        out[chosen] = v[chosen]
        return out

    return _mapped(w, kept)


def draws_for(w: Any, eps: float, delta: float, second_moments: Any, of: str = "risk") -> int:
    """K such that with probability 1 - delta "dd" adds at most eps to the expected squared error (``of="risk"``) or to
    L, half of that (``of="loss"``).

    Theorem 3 prints (sum_j |w_j| sqrt(E[x_j^2]))^2 / (eps delta), and it is the risk's: the variance identity with
    Markov's inequality gives just that for the risk, half as many draws for L.
    """
    check_target((eps, delta))
    if of not in ("risk", "loss"):
        raise ValueError(f"draws_for(of={of!r}): choose 'risk', the mean squared error, or 'loss', half of it.")
    v = _vector(w)
    spread = float(np.sum(np.abs(v) * _rms(second_moments, len(v))))
    return max(1, math.ceil(spread**2 / (eps * delta) * (1.0 if of == "risk" else 0.5)))


def expected_excess(w: Any, K: int, p: str, X: Any) -> float:
    """The mean of L(sparsified) - L(w) over draws, L half the mean squared error over the rows X:
    (sum_j w_j^2 E[x_j^2] / p_j - E<w, x>^2) / (2 K)."""
    v = _vector(w)
    moments = _moments(X, len(v))
    shares = sampling_shares(v, p, moments)
    used = shares > 0.0
    return float((np.sum(v[used] ** 2 * moments[used] / shares[used]) - np.mean(np.square(X @ v))) / (2.0 * K))


def sampling_shares(w: np.ndarray, p: str, second_moments: Any = None) -> np.ndarray:
    """The probabilities of "dd" or "mg", over features."""
    if p not in ("dd", "mg"):
        raise ValueError(f"p={p!r}: choose 'dd' (by |w| rms(x)) or 'mg' (by |w|).")
    if p == "dd" and second_moments is None:
        raise ValueError("p='dd' needs second_moments=, E[x_j^2] for each feature or rows X.")
    size = np.abs(w) * (_rms(second_moments, len(w)) if p == "dd" else 1.0)
    total = size.sum()
    return size / total if total > 0.0 else size


def refit(
    w: Any, X: Any, y: Any, loss: Any = None, *, weights: Any = None, intercept: bool = True, seed: int = 0
) -> Any:
    """The weights that are not zero learned anew from the rows, by the loss with an L2 term chosen on a fifth of them.

    Squared loss unless told.  Of a vector the weights are returned, of a model a copy whose intercept is learned, too.
    """
    X, y = sp.csr_array(X), np.asarray(y, dtype=np.float64)
    scale = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
    found: list[float] = []

    def learned(v: np.ndarray, b: float) -> np.ndarray:
        out, new, _ = _refitted(v, b, loss or Squared(), X, y, scale, intercept, _held_out(len(y), seed))
        found.append(new)
        return out

    return _mapped(w, learned, found)


def check_target(target: Any) -> None:
    """Refuse what is no (eps, delta)."""
    good = isinstance(target, tuple | list) and len(target) == 2 and all(isinstance(x, numbers.Real) for x in target)
    if not (good and target[0] > 0.0 and 0.0 < target[1] < 1.0):
        raise ValueError(
            f"target_excess_risk={target!r}: it is a pair (eps, delta), an excess risk to stay below, above 0, and the "
            "probability of failing to, between 0 and 1."
        )


def thinned(
    how: Any, w: np.ndarray, b: float, loss: Any, rows: Any, seed: int, intercept: bool
) -> tuple[np.ndarray, float, dict[str, Any]]:
    """What the conversion ``Sparsify`` does for one model, on a sample of the stream: weights, intercept, report."""
    n, d = len(rows.targets), len(w)
    X = sp.csr_array((rows.data, rows.indices.astype(np.int64), rows.indptr), shape=(n, d))
    moments = _moments(X, d) if n else np.ones(d)
    held = _held_out(n, seed)
    report: dict[str, Any] = {"from": int(np.count_nonzero(w)), "rows": n}
    if how.target is not None:
        eps, delta = how.target
        if not isinstance(loss, Squared):  # of curvature at most h the loss grows by at most h / 2 E<w' - w, x>^2
            eps = 2.0 * eps / loss.smoothness
        report["K"] = K = draws_for(w, eps, delta, moments)
        k = d
    else:
        K, k = None, how.k
    if how.how == "top-k" and K is None:
        candidates = [keep_largest(w, k, moments)]
    else:
        shares, rng = sampling_shares(w, "mg" if how.how == "mg" else "dd", moments), np.random.default_rng(seed)
        candidates = [
            _drawn(w, shares, K, rng) if K is not None else _drawn_to(w, shares, k, rng) for _ in range(how.trials)
        ]
    judged = held if held.any() else np.ones(n, bool)
    losses = [float(np.mean(value(loss, X[judged] @ each + b, rows.targets[judged]))) for each in candidates]
    out = candidates[int(np.argmin(losses))] if n else candidates[0]
    if how.refit and n and out.any():
        out, b, report["ridge"] = _refitted(out, b, loss, X, rows.targets, rows.weights, intercept, held)
    report["nonzeros"] = int(np.count_nonzero(out))
    return out, b, report


# ---- pieces ----------------------------------------------------------------------------------------------------------


def _check_count(name: str, count: Any) -> None:
    if not isinstance(count, numbers.Integral) or isinstance(count, bool) or count < 1:
        raise ValueError(f"{name}={count!r}: it must be a whole number, at least 1.")


def _drawn(w: np.ndarray, shares: np.ndarray, K: int, rng: np.random.Generator) -> np.ndarray:
    out, used = np.zeros_like(w), np.flatnonzero(shares)
    if used.size:
        counts = rng.multinomial(K, shares[used] / shares[used].sum())
        out[used] = w[used] * counts / (K * shares[used])
    return out


def _drawn_to(w: np.ndarray, shares: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """As many draws as there can be with at most k different features."""
    used = np.flatnonzero(shares)
    if used.size <= k:
        return w.copy()
    share = shares[used] / shares[used].sum()
    order = used[rng.choice(used.size, size=50 * k, p=share)]
    first = np.sort(np.unique(order, return_index=True)[1])
    K = int(first[k]) if first.size > k else order.size
    counts = np.bincount(order[:K], minlength=len(w))
    out, drawn = np.zeros_like(w), counts > 0
    out[drawn] = w[drawn] * counts[drawn] / (K * shares[drawn])
    return out


def _held_out(n: int, seed: int) -> np.ndarray:
    """A fifth of n rows."""
    return uniform(seed, Purpose.VALIDATION, np.arange(n)) < 0.2


def _refitted(
    w: np.ndarray, b: float, loss: Any, X: Any, y: np.ndarray, weights: np.ndarray, intercept: bool, held: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """Weights and intercept on the support of w, and the ridge that was chosen.

    Ridges are tried from the largest down, each from the solution before, until two in a row do not help.
    """
    chosen = np.flatnonzero(w)
    columns = sp.csr_array(X[:, chosen])
    scale = _rms(columns, len(chosen))
    scale[scale == 0.0] = 1.0
    Z = sp.csr_array(columns @ sp.diags_array(1.0 / scale))
    parts = Z[~held], y[~held], weights[~held]
    out, start = np.zeros_like(w), np.append(w[chosen] * scale, b)
    best, strength, worse = np.inf, RIDGES[-1], 0
    if held.any() and not held.all():
        test, y_test, w_test = Z[held], y[held], weights[held]
        for ridge in reversed(RIDGES):
            start = _minimum(start, loss, *parts, ridge, intercept)
            error = float(np.mean(w_test * value(loss, test @ start[:-1] + start[-1], y_test)))
            best, strength, worse = (error, ridge, 0) if error < best else (best, strength, worse + 1)
            if worse == 2:
                break
    model = _minimum(start, loss, Z, y, weights, strength, intercept)
    out[chosen] = model[:-1] / scale
    return out, float(model[-1]) if intercept else b, strength


def _minimum(
    start: np.ndarray, loss: Any, Z: Any, y: np.ndarray, weights: np.ndarray, ridge: float, intercept: bool
) -> np.ndarray:
    from scipy.optimize import minimize  # a third of a second that most runs can do without

    strength = ridge * loss.smoothness

    def objective(v: np.ndarray) -> tuple[float, np.ndarray]:
        p = Z @ v[:-1] + v[-1]
        slopes = weights * derivative(loss, p, y) / len(y)
        total = float(np.mean(weights * value(loss, p, y)) + 0.5 * strength * v[:-1] @ v[:-1])
        return total, np.append(Z.T @ slopes + strength * v[:-1], slopes.sum() * intercept)

    return minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 200, "maxcor": 20}).x


def second_moments(X: Any) -> np.ndarray:
    """E[x_j^2] over the rows X, dense or sparse."""
    if not sp.issparse(X):
        return np.square(np.asarray(X, dtype=np.float64)).mean(0)
    rows = X.tocsr()
    return np.bincount(rows.indices, np.square(rows.data), rows.shape[1]) / max(rows.shape[0], 1)


def _moments(given: Any, d: int) -> np.ndarray:
    """E[x_j^2], given or taken from rows."""
    given = second_moments(given) if np.ndim(given) == 2 else np.asarray(given, dtype=np.float64)
    if given.shape != (d,) or not np.all(given >= 0.0) or not np.all(np.isfinite(given)):
        raise ValueError(f"second_moments must be {d} finite numbers of at least 0, one per feature, or rows of them.")
    return given


def _rms(given: Any, d: int) -> np.ndarray:
    return np.ones(d) if given is None else np.sqrt(_moments(given, d))


def _vector(w: Any) -> np.ndarray:
    """The weights of a vector or of a model with one."""
    v = np.asarray(w.coef_ if hasattr(w, "coef_") else w, dtype=np.float64)
    if v.ndim == 2 and v.shape[0] == 1:
        v = v[0]
    if v.ndim != 1:
        raise ValueError(f"weights of shape {v.shape}: pass one model's weights, a vector.")
    return v


def _mapped(w: Any, change: Callable[[np.ndarray, float], np.ndarray], intercepts: list[float] | None = None) -> Any:
    """The changed vector, or a copy of the model with each of its models' weights changed."""
    if not hasattr(w, "coef_"):
        return change(_vector(w), 0.0)
    coef = w.coef_.toarray() if sp.issparse(w.coef_) else np.asarray(w.coef_)
    old = np.broadcast_to(np.atleast_1d(w.intercept_), len(np.atleast_2d(coef)))
    rows = [change(row.astype(np.float64), float(b)) for row, b in zip(np.atleast_2d(coef), old, strict=True)]
    new, b = np.reshape(rows, coef.shape), np.reshape(intercepts or old, np.shape(w.intercept_))
    if hasattr(w, "with_weights"):
        return w.with_weights(new, b)
    twin = copy.deepcopy(w)
    twin.coef_, twin.intercept_ = new, b
    return twin
