"""Stage two: a model with few features from one with many, and what that costs.

``keep_largest``, ``sparsify_random`` and ``refit`` take weights as a vector, or a fitted linear model, of which they
return a copy with other weights: each class or output has its own features, unless the penalty chose them for all
(row-group).  Models bring their loss, their classes and whether they have an intercept; a vector is a regression unless
``loss`` says otherwise.  ``second_moments`` are E[x_j^2], or rows X to take them from.

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
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from .losses import Squared, couples, derivative, value
from .randomness import Purpose, uniform
from .regularizers import ElasticNet, L1Ball, bounds, is_lazy, kind, prox_all, strength
from .slots import Names

SMALL_BALLS = (0.05, 0.2, 0.5)
"""Radii at which a ball alone is compared with thinning, as shares of the norm of the model in the large one."""
RIDGES = tuple(10.0**power for power in np.arange(-5.0, 0.5, 0.5))
"""L2 weights that a refit tries, on columns of mean square one and the loss over its smoothness."""
_ALL_FEATURES = 10**15
"""So many draws hit every feature as often as it should be: the weights stay what they are."""


def sparsify_random(
    w: Any, K: int, p: str = "dd", second_moments: Any = None, *, held_out: tuple[Any, Any] | None = None,
    trials: int = 1, loss: Any = None, seed: int = 0,
) -> Any:  # fmt: skip
    """Randomized sparsification: m ~ Multinomial(K, p), w_j m_j / (K p_j).  At most K features, unbiased.

    p = "dd": in proportion to |w_j| sqrt(E[x_j^2]), which loses least (distribution dependent); "mg": to |w_j| alone.
    Of several ``trials`` the one of least loss on the rows ``held_out`` = (X, y) is kept.
    """
    check_count("K", K)
    check_count("trials", trials)
    if trials > 1 and held_out is None:
        raise ValueError("sparsify_random: the best of several trials needs held_out=(X, y) to judge them by.")
    model, rows = _read(w), None
    if held_out is not None:
        model, rows = _examples(model, *held_out, loss)
    moments = None if second_moments is None else _moments(second_moments, len(model.W))

    def thin(V: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return _drawn(V, sampling_shares(_lengths(V), p, moments), K, rng)

    return model.copy(_best(model, rows, thin, trials, seed), model.b)


def keep_largest(w: Any, k: int, second_moments: Any = None) -> Any:
    """All but the k features of largest |w_j| sqrt(E[x_j^2]) become zero; without moments of largest |w_j|.

    On real data it is better than drawing at random at equal size.  Ties keep the lower index.
    """
    check_count("k", k)
    model = _read(w)
    rms = _rms(second_moments, len(model.W))
    return model.copy(_best(model, None, lambda V, _: _largest(V, k, rms), 1, 0), model.b)


def draws_for(w: Any, eps: float, delta: float, second_moments: Any, of: str = "risk") -> int:
    """K such that with probability 1 - delta "dd" adds at most eps to the expected squared error (``of="risk"``) or to
    L, half of that (``of="loss"``).

    Theorem 3 prints (sum_j |w_j| sqrt(E[x_j^2]))^2 / (eps delta), and it is the risk's: the variance identity with
    Markov's inequality gives just that for the risk, half as many draws for L.
    """
    check_target((eps, delta))
    if of not in ("risk", "loss"):
        raise ValueError(f"draws_for(of={of!r}): choose 'risk', the mean squared error, or 'loss', half of it.")
    v = one_vector(w)
    spread = float(np.sum(np.abs(v) * _rms(second_moments, len(v))))
    with np.errstate(all="ignore"):
        K = np.square(spread) / eps / delta * (1.0 if of == "risk" else 0.5)
    if not np.isfinite(K):
        raise ValueError(f"eps={eps!r}, delta={delta!r}: no number of draws is enough for a target so small.")
    return max(1, math.ceil(K))


def expected_excess(w: Any, K: int, p: str, X: Any) -> float:
    """The mean of L(sparsified) - L(w) over draws, L half the mean squared error over the rows X:
    (sum_j w_j^2 E[x_j^2] / p_j - E<w, x>^2) / (2 K)."""
    check_count("K", K)
    v = one_vector(w)
    X = _rows(X, len(v))
    moments = second_moments(X)
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
    w: Any, X: Any, y: Any, loss: Any = None, *, weights: Any = None, intercept: bool | None = None, seed: int = 0
) -> Any:
    """The weights that are not zero learned anew from the rows, by the loss with an L2 term chosen on a fifth of them.

    ``loss`` is a record or a name; by default the model's, squared for a vector.  Of a vector the weights are returned,
    of a model a copy whose intercept is learned, too, where it has one.  Bounds of the model's penalty are kept.
    """
    model, rows = _examples(_read(w), X, y, loss, weights)
    if intercept is not None:
        model = model._replace(intercept=intercept)
    W, b, _ = _learned(model, rows, _held_out(len(rows.targets), seed))
    return model.copy(W, b)


def check_target(target: Any) -> None:
    """Refuse what is no (eps, delta)."""
    good = isinstance(target, tuple | list) and len(target) == 2 and all(isinstance(x, numbers.Real) for x in target)
    if not (good and target[0] > 0.0 and 0.0 < target[1] < 1.0):
        raise ValueError(
            f"target_excess_risk={target!r}: it is a pair (eps, delta), an excess risk to stay below, above 0, and the "
            "probability of failing to, between 0 and 1."
        )


def tied(regularizer: Any) -> bool:
    """Whether a feature is in or out for all models at once; penalties whose structure single features would undo are
    refused."""
    record = getattr(regularizer, "record", regularizer)
    cls = record if isinstance(record, type) else type(record)
    grouped = kind(cls) == "grouped"
    if kind(cls) == "separable" or (grouped and is_lazy(cls)) or "lam" not in cls._fields:  # a set has no strength
        return grouped
    raise ValueError(
        f"{cls.__name__} ties features together, and a number of features would take that apart: strengthen the "
        "penalty in place of a budget, or choose penalty='elasticnet' or 'row-group'."
    )


def allowed(regularizer: Any, W: np.ndarray) -> np.ndarray:
    """The nearest weights on the same features that the penalty allows: in a box, or a ball.  An L1 ball is stage one's
    alone; what is learned anew may leave it."""
    if isinstance(regularizer, L1Ball):
        return W
    inside = np.where(W != 0.0, prox_all(regularizer, W, 0.0), 0.0)
    if not np.all(np.isfinite(strength(regularizer, inside))):
        raise ValueError(f"{type(regularizer).__name__} does not allow the zeros of a model with few features.")
    return inside


def thinned(
    how: Any, W: np.ndarray, b: np.ndarray, problem: Any, sample: Any, seed: int
) -> tuple[np.ndarray, np.ndarray, list[dict[str, Any]]]:
    """What the conversion ``Sparsify`` does on a sample of the stream: weights (d, m), intercepts (m,), and a report
    for each model, or one for all where a feature is in or out for all."""
    n, d = len(sample.targets), len(W)
    X = sp.csr_array((sample.data, sample.indices.astype(np.int64), sample.indptr), shape=(n, d))
    model, rows = Models(W, b, problem.loss, problem.regularizer, problem.intercept), Examples(X, *sample[3:5])
    moments, held = second_moments(X) if n else np.ones(d), _held_out(n, seed)
    largest = how.how == "top-k" and how.target is None

    def draws(V: np.ndarray) -> int:
        eps, delta = how.target
        if couples(model.loss):
            eps /= W.shape[1]
        if not isinstance(model.loss, Squared):  # a curvature of at most h adds at most h / 2 E<w' - w, x>^2
            eps = 2.0 * eps / model.loss.smoothness
        return draws_for(_lengths(V), eps, delta, moments)

    def thin(V: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if largest:
            return _largest(V, how.k, np.sqrt(moments))
        shares = sampling_shares(_lengths(V), "mg" if how.how == "mg" else "dd", moments)
        return _drawn_to(V, shares, how.k, rng) if how.target is None else _drawn(V, shares, draws(V), rng)

    judges = rows.where(held) if held.any() else rows
    out = _best(model, judges if n else None, thin, 1 if largest else how.trials, seed)
    ridges: list[float] = []
    if how.refit and n:
        out, b, ridges = _learned(model._replace(W=out), rows, held)
    out = allowed(model.regularizer, out)
    reports: list[dict[str, Any]] = []
    for part in _parts(W.shape[1], model.tied):
        report = {"from": int(W[:, part].any(1).sum()), "rows": n, "nonzeros": int(out[:, part].any(1).sum())}
        report |= {} if how.target is None else {"K": draws(W[:, part])}
        reports.append(report | ({"ridge": ridges[part.start]} if ridges else {}))
    return out, b, reports


# ---- models and rows, whatever they came as --------------------------------------------------------------------------


class Examples(NamedTuple):
    """Rows as models see them: targets and weights are (n, m)."""

    X: Any
    targets: np.ndarray
    weights: np.ndarray

    def where(self, chosen: np.ndarray) -> Examples:
        return Examples(*(part[chosen] for part in self))

    def of(self, models: slice) -> Examples:
        return Examples(self.X, self.targets[:, models], self.weights[:, models])

    def loss(self, loss: Any, p: np.ndarray) -> float:
        """The mean over rows at margins p (n, m), summed over models."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float((self.weights * value(loss, p, self.targets)).mean(0).sum())

    def gradient(self, loss: Any, p: np.ndarray) -> np.ndarray:
        """Its derivatives by the margins."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.weights * derivative(loss, p, self.targets) / len(p)


class Models(NamedTuple):
    """One or several linear models: weights (d, m), intercepts (m,), what they were learned by, and the vector or the
    estimator that they came as."""

    W: np.ndarray
    b: np.ndarray
    loss: Any
    regularizer: Any
    intercept: bool
    source: Any = None

    @property
    def tied(self) -> bool:
        return tied(self.regularizer)

    def copy(self, W: np.ndarray, b: np.ndarray) -> Any:
        """The same kind of thing with other weights."""
        source = self.source
        if not hasattr(source, "coef_"):
            return sp.csr_array(W.T) if sp.issparse(source) else W[:, 0]
        coef = sp.csr_array(W.T) if sp.issparse(source.coef_) else W.T.reshape(np.shape(source.coef_))
        b = b.reshape(np.shape(source.intercept_)) if np.size(source.intercept_) == b.size else b
        if hasattr(source, "with_weights"):
            return source.with_weights(W.T, b)
        twin = copy.deepcopy(source)
        twin.coef_, twin.intercept_ = coef, b
        return twin


def _read(w: Any) -> Models:
    """A vector, or a fitted model of any kind with ``coef_`` and ``intercept_``."""
    name = w.__name__ if isinstance(w, type) else type(w).__name__
    if not hasattr(w, "coef_") or isinstance(w, type):
        if hasattr(w, "fit"):
            raise ValueError(f"this {name} has no coef_: pass a linear model, after fit.")
        v = np.asarray(w.toarray() if sp.issparse(w) else w, dtype=np.float64)
        v = v[0] if v.ndim == 2 and len(v) == 1 else v
        if v.ndim != 1:
            raise ValueError(f"weights of shape {v.shape}: pass one model's weights, a vector, or a fitted model.")
        return Models(_finite("weights", v)[:, None], np.zeros(1), Squared(), ElasticNet(0.0), True, w)
    if isinstance(getattr(w, "_features", None), Names) or getattr(w, "storage", None) == "seen":
        raise ValueError(
            f"this {name} lists only the features that it has seen: fit it from a matrix with storage='auto', or with "
            "budget=, which needs no list."
        )
    coef = w.coef_.toarray() if sp.issparse(w.coef_) else w.coef_
    W = _finite("weights", np.atleast_2d(np.asarray(coef, dtype=np.float64)).T)
    b = np.broadcast_to(np.asarray(w.intercept_, dtype=np.float64).ravel(), W.shape[1]).copy()
    report = getattr(w, "report_", None)
    report = report if isinstance(report, dict) else {}
    regularizer = report.get("regularizer", ElasticNet(0.0))
    return Models(W, b, report.get("loss"), regularizer, bool(getattr(w, "fit_intercept", True)), w)


def _examples(model: Models, X: Any, y: Any, loss: Any, weights: Any = None) -> tuple[Models, Examples]:
    """The model with its loss, or the one given, and the rows as it sees them: labels as +1 and -1 (1 and 0 of a
    softmax) by the model's classes, numbers in a column for each output."""
    from ._composition import named
    from ._tasks import CLASSIFIER_LOSSES, REGRESSOR_LOSSES, as_numbers, two_or_more

    source, (d, m), y = model.source, model.W.shape, np.asarray(y)
    X = _rows(X, d)
    classes = getattr(source, "classes_", None)
    loss = model.loss if loss is None else loss
    if loss is None:
        loss = getattr(source, "loss", None) or _usual(model, X)
    tables = {"weights": REGRESSOR_LOSSES | CLASSIFIER_LOSSES, "labels": CLASSIFIER_LOSSES, "numbers": REGRESSOR_LOSSES}
    of = "labels" if classes is not None else "numbers" if hasattr(source, "coef_") else "weights"
    loss = named("loss", loss, tables[of])
    if couples(loss) and m == 1:
        loss = CLASSIFIER_LOSSES["logistic"]  # the same model, in one margin
    if hasattr(loss, "check"):
        loss.check()
    if len(y) != X.shape[0] or not len(y):
        raise ValueError(f"X has {X.shape[0]} rows and y {len(y)}: they must be as many, and at least one.")
    if of == "numbers" and loss.classifies:
        raise ValueError(f"loss={type(loss).__name__} is for labels, and this model predicts numbers.")
    if classes is None and not loss.classifies:
        targets = as_numbers(y)
        targets = targets[:, None] if targets.ndim == 1 else targets
        if targets.shape[1:] != (m,):
            raise ValueError(f"y has the shape {y.shape}: it must have a column for each of the {m} outputs.")
        if hasattr(loss, "refuse"):
            loss.refuse(targets)
    else:
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        if y.ndim != 1:
            raise ValueError(f"y has the shape {y.shape}: it must have one label for each row.")
        classes, codes = two_or_more(y, "y") if classes is None else (classes, _places(classes, y))
        if len(classes) != (m if m > 1 else 2):
            raise ValueError(f"{len(classes)} classes and {m} weight vectors: each class needs one, two classes one.")
        signs = np.eye(len(classes))[:, -m:]
        targets = (signs if couples(loss) else 2.0 * signs - 1.0)[codes]
    scale = np.ones(len(y)) if weights is None else _finite("weights=", np.asarray(weights, dtype=np.float64))
    if scale.shape != (len(y),) or np.any(scale < 0.0) or not np.any(scale > 0.0):
        raise ValueError(f"weights= must be {len(y)} numbers of at least 0, one for each row and not all 0.")
    if getattr(source, "class_weight", None) is not None:
        from sklearn.utils import compute_sample_weight

        scale = scale * compute_sample_weight(source.class_weight, y)
    rows = Examples(X, _finite("y", targets), np.repeat(scale[:, None], m, 1))
    if hasattr(loss, "resolve"):
        loss = loss.resolve(rows.targets, rows.weights)
    return model._replace(loss=loss), rows


def _usual(model: Models, X: Any) -> Any:
    """The loss of another package's model that does not name one."""
    source = model.source
    if hasattr(source, "classes_"):
        return "multinomial" if model.W.shape[1] > 1 and hasattr(source, "predict_proba") else "logistic"
    few = X[:5].toarray()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = np.asarray(source.predict(few)).reshape(len(few), -1) if hasattr(source, "predict") else None
    if told is not None and not np.allclose(told, few @ model.W + model.b, rtol=1e-5):
        raise ValueError(f"a {type(source).__name__} predicts something else than <w, x> + b: pass loss=, its own.")
    return Squared()


def _places(classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Every label's place among the model's classes."""
    from ._tasks import places_among

    try:
        codes = places_among(np.asarray(classes), y)
    except TypeError:  # numbers against words
        codes = None
    if codes is None:
        raise ValueError(f"y has labels that are not among the model's classes, {np.asarray(classes).tolist()}.")
    return codes


def _rows(X: Any, d: int) -> sp.csr_array:
    X = sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != d:
        raise ValueError(f"X has the shape {X.shape}: it must have rows of {d} columns, one for each weight.")
    X = sp.csr_array(X)
    _finite("X", X.data)
    return X


def _finite(name: str, values: np.ndarray) -> np.ndarray:
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name} must be finite numbers, and some are not.")
    return values


def one_vector(w: Any) -> np.ndarray:
    """The weights of a vector or of a model with one."""
    W = _read(w).W
    if W.shape[1] != 1:
        raise ValueError(f"{W.shape[1]} weight vectors: pass one, such as model.coef_[0].")
    return W[:, 0]


def check_count(name: str, count: Any) -> None:
    """Refuse what is no number of features, draws or trials."""
    if not isinstance(count, numbers.Integral) or isinstance(count, bool) or count < 1:
        raise ValueError(f"{name}={count!r}: it must be a whole number, at least 1.")


# ---- fewer features of weights V (d, g) that have theirs together ----------------------------------------------------


def _lengths(V: np.ndarray) -> np.ndarray:
    """|w_j|, of several models the norm of feature j's weights."""
    return np.abs(V[:, 0]) if V.shape[1] == 1 else np.linalg.norm(V, axis=1)


def _largest(V: np.ndarray, k: int, rms: np.ndarray) -> np.ndarray:
    out = np.zeros_like(V)
    chosen = np.argsort(-_lengths(V) * rms, kind="stable")[:k]
    out[chosen] = V[chosen]
    return out


def _drawn(V: np.ndarray, shares: np.ndarray, K: int, rng: np.random.Generator) -> np.ndarray:
    out, used = np.zeros_like(V), np.flatnonzero(shares)
    if K > _ALL_FEATURES:
        return V.copy()
    if used.size:
        counts = rng.multinomial(K, shares[used] / shares[used].sum())
        out[used] = V[used] * counts[:, None] / (K * shares[used])[:, None]
    return out


def _drawn_to(V: np.ndarray, shares: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """As many draws as there can be with at most k different features."""
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


def _best(
    model: Models, rows: Examples | None, thin: Callable[[np.ndarray, Any], np.ndarray], trials: int, seed: int
) -> np.ndarray:
    """The weights thinned, the best of several trials on the rows: of each model, or of all together where they share
    their features or their loss."""
    out, m = np.zeros_like(model.W), model.W.shape[1]
    for part in _parts(m, model.tied or couples(model.loss)):
        V, b, rng = model.W[:, part], model.b[part], np.random.default_rng(seed)
        units = _parts(V.shape[1], model.tied)
        found = [np.hstack([thin(V[:, unit], rng) for unit in units]) for _ in range(trials)]
        losses = [0.0] if rows is None else [rows.of(part).loss(model.loss, rows.X @ each + b) for each in found]
        out[:, part] = found[int(np.argmin(np.nan_to_num(losses, nan=np.inf)))]
    return out


# ---- learning the weights that are left anew -------------------------------------------------------------------------


def _held_out(n: int, seed: int) -> np.ndarray:
    """A fifth of n rows."""
    return uniform(seed, Purpose.VALIDATION, np.arange(n)) < 0.2


def _learned(model: Models, rows: Examples, held: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Weights, intercepts and ridges of all models, each by itself unless their loss is one."""
    import scipy.optimize  # noqa: F401 - first, so that its BLAS is limited, too

    out, b, ridges = np.zeros_like(model.W), model.b.copy(), []
    with threadpool_limits(1):  # threads would wait for each other longer than L-BFGS works
        for part in _parts(len(b), couples(model.loss)):
            own = model._replace(W=model.W[:, part], b=b[part])
            out[:, part], b[part], ridge = _refitted(own, rows.of(part), held)
            ridges += [ridge] * len(own.b)
    return allowed(model.regularizer, out), b, ridges


def _refitted(model: Models, rows: Examples, held: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Weights and intercepts on the support of the model, and the ridge that was chosen.

    Ridges are tried from the largest down, each from the solution before, until two in a row do not help.
    """
    chosen = np.flatnonzero(model.W.any(1))
    free = model.W[chosen] != 0.0
    columns = sp.csr_array(rows.X[:, chosen])
    scale = np.sqrt(second_moments(columns))[:, None]
    scale[scale == 0.0] = 1.0
    rows = rows._replace(X=sp.csr_array(columns @ sp.diags_array(1.0 / scale[:, 0])))
    ends = [np.where(free, end[chosen, None] * scale, 0.0) for end in bounds(model.regularizer, len(model.W))]
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
    """Weights between the ends and, in the last row, intercepts that minimise mean loss and L2 term."""
    from scipy.optimize import minimize  # a third of a second that most runs can do without

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
        objective, start.ravel(), jac=True, method="L-BFGS-B", bounds=None if np.isinf(limits).all() else limits.T,
        options={"maxiter": 200, "maxcor": 20},
    )  # fmt: skip
    return found.x.reshape(start.shape)


# ---- second moments --------------------------------------------------------------------------------------------------


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
