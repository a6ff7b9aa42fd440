"""Stage two: a model with few features from a model with many, and the cost of that.

``keep_largest``, ``sparsify_random`` and ``refit`` take weights as a vector, or a fitted linear model.  For a model
they return a copy with other weights: each class or output has its own features, unless the penalty chose them for all
(row-group).  A model has its loss, its classes and perhaps an intercept; a vector is a regression unless ``loss`` is
given.  ``second_moments`` are E[x_j^2], or rows X to compute them from.

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
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..conversions.thinning import (
    Examples,
    Models,
    best_of_trials,
    check_target,
    checked_moments,
    draw_features,
    draws_needed,
    held_out_rows,
    keep_largest_rows,
    lengths,
    refit_models,
    root_moments,
    sampling_shares,
    second_moments,
)
from ..data.inspection import sound
from ..losses import CLASSIFIER_LOSSES, REGRESSOR_LOSSES, Squared
from ..penalties import ElasticNet
from ..util.validation import check_count
from .linear import LinearModel
from .part_names import named
from .tasks import as_numbers, places_among, two_or_more

SMALL_BALLS = (0.05, 0.2, 0.5)
"""The radii at which a ball alone is compared with thinning, as shares of the norm of the model in the large ball."""


def sparsify_random(
    w: Any,
    K: int,
    p: str = "dd",
    second_moments: Any = None,
    *,
    held_out: tuple[Any, Any] | None = None,
    trials: int = 1,
    loss: Any = None,
    seed: int = 0,
) -> Any:
    """Return randomly sparsified weights w_j m_j / (K p_j), with m ~ Multinomial(K, p): at most K features, unbiased.

    p = "dd" is in proportion to |w_j| sqrt(E[x_j^2]), which loses least (distribution dependent).  p = "mg" is in
    proportion to |w_j| alone.  Of several ``trials`` the one of least loss on the rows ``held_out`` = (X, y) is kept.
    """
    check_count("K", K)
    check_count("trials", trials)
    if trials > 1 and held_out is None:
        raise ValueError("sparsify_random: the best of several trials needs held_out=(X, y) to compare them.")
    model, rows = _read(w), None
    if held_out is not None:
        model, rows = _examples(w, model, *held_out, loss)
    moments = None if second_moments is None else checked_moments(second_moments, len(model.W))

    def thin(V: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return draw_features(V, sampling_shares(lengths(V), p, moments), K, rng)

    return _with_weights(w, best_of_trials(model, rows, thin, trials, seed), model.b)


def keep_largest(w: Any, k: int, second_moments: Any = None) -> Any:
    """Return the weights with only the k features of largest |w_j| sqrt(E[x_j^2]), or of largest |w_j| without moments.

    On real data it is better than drawing at random at equal size.  Ties keep the lower index.
    """
    check_count("k", k)
    model = _read(w)
    rms = root_moments(second_moments, len(model.W))
    return _with_weights(w, best_of_trials(model, None, lambda V, _: keep_largest_rows(V, k, rms), 1, 0), model.b)


def draws_for(w: Any, eps: float, delta: float, second_moments: Any, of: str = "risk") -> int:
    """Return K such that K draws of "dd" add at most eps delta to the expected squared error on average.

    K is that of Theorem 3, (sum_j |w_j| sqrt(E[x_j^2]))^2 / (eps delta).  With probability 1 - delta the draws change
    the predictions by at most eps in mean square.  Theorem 3 says this of the squared error itself; that holds where w
    minimises it, and fails elsewhere (docs/two-stage.md).  ``of="loss"``: half as many draws, for half of both squares.
    """
    check_target((eps, delta))
    if of not in ("risk", "loss"):
        raise ValueError(f"draws_for(of={of!r}): choose 'risk', the mean squared error, or 'loss', half of it.")
    v = one_vector(w)
    return draws_needed(v, eps, delta, root_moments(second_moments, len(v)), half=of == "loss")


def expected_excess(w: Any, K: int, p: str, X: Any) -> float:
    """Return the mean of L(sparsified) - L(w) over draws, with L half the mean squared error over the rows X.

    It is (sum_j w_j^2 E[x_j^2] / p_j - E<w, x>^2) / (2 K).
    """
    check_count("K", K)
    v = one_vector(w)
    X = _rows(X, len(v))
    moments = second_moments(X)
    shares = sampling_shares(v, p, moments)
    used = shares > 0.0
    return float((np.sum(v[used] ** 2 * moments[used] / shares[used]) - np.mean(np.square(X @ v))) / (2.0 * K))


def refit(
    w: Any, X: Any, y: Any, loss: Any = None, *, weights: Any = None, intercept: bool | None = None, seed: int = 0
) -> Any:
    """Return the nonzero weights learned anew from the rows, with an L2 term chosen on a fifth of them.

    ``loss`` is a record or a name; the default is the loss of the model, or squared for a vector.  For a vector the
    weights are returned.  For a model the result is a copy, whose intercept is learned too, if it has one.  Bounds of
    the model's penalty are kept.
    """
    model, rows = _examples(w, _read(w), X, y, loss, weights)
    if intercept is not None:
        model = model._replace(intercept=intercept)
    W, b, _ = refit_models(model, rows, held_out_rows(len(rows.targets), seed))
    return _with_weights(w, W, b)


def _with_weights(source: Any, W: np.ndarray, b: np.ndarray) -> Any:
    """Return a vector or a copy of the estimator, like ``source``, with other weights (d, m) and intercepts (m,)."""
    if not has_weights(source):
        return sp.csr_array(W.T) if sp.issparse(source) else W[:, 0]
    coef = sp.csr_array(W.T) if sp.issparse(source.coef_) else W.T.reshape(np.shape(source.coef_))
    b = b.reshape(np.shape(source.intercept_)) if np.size(source.intercept_) == b.size else b
    if isinstance(source, LinearModel):
        return source.with_weights(W.T, b)
    twin = copy.deepcopy(source)
    twin.coef_, twin.intercept_ = coef, b
    return twin


def one_vector(w: Any) -> np.ndarray:
    """Return the weights of a vector, or of a model that has one weight vector."""
    W = _read(w).W
    if W.shape[1] != 1:
        raise ValueError(f"{W.shape[1]} weight vectors: pass one, such as model.coef_[0].")
    return W[:, 0]


def _read(w: Any) -> Models:
    """Return the weights of a vector, or of any fitted model with ``coef_`` and ``intercept_``."""
    name = w.__name__ if isinstance(w, type) else type(w).__name__
    if not has_weights(w):
        if hasattr(w, "fit"):
            raise ValueError(f"this {name} has no coef_: pass a linear model, after fit.")
        v = np.asarray(w.toarray() if sp.issparse(w) else w, dtype=np.float64)
        v = v[0] if v.ndim == 2 and len(v) == 1 else v
        if v.ndim != 1:
            raise ValueError(f"weights of shape {v.shape}: pass one model's weights, a vector, or a fitted model.")
        return Models(_finite("weights", v)[:, None], np.zeros(1), Squared(), ElasticNet(0.0), True)
    if isinstance(w, LinearModel) and (w.fit_state.has_names or w.storage == "seen"):
        raise ValueError(
            f"this {name} lists only the features that it has seen: fit it from a matrix with storage='auto', or with "
            "budget=, which needs no list."
        )
    coef = w.coef_.toarray() if sp.issparse(w.coef_) else w.coef_
    W = _finite("weights", np.atleast_2d(np.asarray(coef, dtype=np.float64)).T)
    b = np.broadcast_to(np.asarray(w.intercept_, dtype=np.float64).ravel(), W.shape[1]).copy()
    report = w.report_ if isinstance(w, LinearModel) else {}
    penalty = report.get("penalty", ElasticNet(0.0)).convex
    return Models(W, b, report.get("loss"), penalty, bool(_parameters(w).get("fit_intercept", True)))


def has_weights(model: Any) -> bool:
    """Return whether an object is a fitted linear model of any package."""
    return hasattr(model, "coef_") and not isinstance(model, type)


def classes_of(model: Any) -> np.ndarray | None:
    """Return the classes of a fitted model of any package; None for a regression or a vector."""
    return getattr(model, "classes_", None)


def _parameters(model: Any) -> dict[str, Any]:
    """Return the parameters of an estimator by name; a vector and a model that is no estimator have none."""
    if isinstance(model, LinearModel):
        return model.settings()
    if not has_weights(model):
        return {}
    from sklearn.base import BaseEstimator

    return model.get_params(deep=False) if isinstance(model, BaseEstimator) else {}


def _examples(source: Any, model: Models, X: Any, y: Any, loss: Any, weights: Any = None) -> tuple[Models, Examples]:
    """Return the model with its loss, or with the loss given, and the rows in the form that it learns from.

    Labels become +1 and -1 (1 and 0 for a softmax) by the classes of the model; numbers become one column for each
    output.
    """
    (d, m), y = model.W.shape, np.asarray(y)
    if isinstance(source, LinearModel) and source.fit_state.has_offset:
        raise ValueError("this model was learned with an offset, which a refit does not take: fit with budget=.")
    X = _rows(X, d)
    classes, parameters = classes_of(source), _parameters(source)
    loss = model.loss if loss is None else loss
    if loss is None:
        loss = parameters.get("loss") or _usual(source, model, X)
    tables = {"weights": REGRESSOR_LOSSES | CLASSIFIER_LOSSES, "labels": CLASSIFIER_LOSSES, "numbers": REGRESSOR_LOSSES}
    of = "labels" if classes is not None else "numbers" if has_weights(source) else "weights"
    loss = named("loss", loss, tables[of])
    if loss.couples and m == 1:
        loss = CLASSIFIER_LOSSES["logistic"]  # the softmax of two classes, with one margin
    loss.check()
    if len(y) != X.shape[0] or not len(y):
        raise ValueError(f"X has {X.shape[0]} rows and y {len(y)}: give the same number of both, at least one.")
    if of == "numbers" and loss.classifies:
        raise ValueError(f"loss={type(loss).__name__} is for labels, and this model predicts numbers.")
    if classes is None and not loss.classifies:
        targets = as_numbers(y)
        targets = targets[:, None] if targets.ndim == 1 else targets
        if targets.shape[1:] != (m,):
            raise ValueError(f"y has the shape {y.shape}: it must have a column for each of the {m} outputs.")
        loss.refuse(targets)
    else:
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        if y.ndim != 1:
            raise ValueError(f"y has the shape {y.shape}: it must have one label for each row.")
        classes, codes = two_or_more(y, "y") if classes is None else (classes, _places(classes, y))
        if len(classes) != (m if m > 1 else 2):
            raise ValueError(f"{len(classes)} classes and {m} weight vectors: each class needs one, two classes one.")
        signs = np.eye(len(classes))[:, -m:]
        targets = (signs if loss.couples else 2.0 * signs - 1.0)[codes]
    scale = np.ones(len(y)) if weights is None else _finite("weights=", np.asarray(weights, dtype=np.float64))
    if scale.shape != (len(y),) or np.any(scale < 0.0) or not np.any(scale > 0.0):
        raise ValueError(f"weights= must be {len(y)} numbers of at least 0, one for each row and not all 0.")
    if parameters.get("class_weight") is not None:
        from sklearn.utils import compute_sample_weight

        scale = scale * compute_sample_weight(parameters["class_weight"], y)
    rows = Examples(X, _finite("y", targets), np.repeat(scale[:, None], m, 1))
    return model._replace(loss=loss.resolve(rows.targets, rows.weights)), rows


def _usual(source: Any, model: Models, X: Any) -> Any:
    """Return the loss for a model of another package that does not name one."""
    if classes_of(source) is not None:
        return "multinomial" if model.W.shape[1] > 1 and hasattr(source, "predict_proba") else "logistic"
    few = X[:5].toarray()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = np.asarray(source.predict(few)).reshape(len(few), -1) if hasattr(source, "predict") else None
    if told is not None and not np.allclose(told, few @ model.W + model.b, rtol=1e-5):
        raise ValueError(f"a {type(source).__name__} does not predict <w, x> + b: pass its own loss as loss=.")
    return Squared()


def _places(classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the index of every label among the classes of the model."""
    try:
        codes = places_among(np.asarray(classes), y)
    except TypeError:  # numbers cannot be compared with words
        codes = None
    if codes is None:
        raise ValueError(f"y has labels that are not among the model's classes, {np.asarray(classes).tolist()}.")
    return codes


def _rows(X: Any, d: int) -> sp.csr_array:
    X = sp.csr_array(sound(X), dtype=np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != d:
        raise ValueError(f"X has the shape {X.shape}: it must have rows of {d} columns, one for each weight.")
    X = sp.csr_array(X)
    _finite("X", X.data)
    return X


def _finite(name: str, values: np.ndarray) -> np.ndarray:
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name} must be finite numbers, and some are not.")
    return values
