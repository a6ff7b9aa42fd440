"""Plots of the risk against the number of features."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..conversions.thinning import second_moments
from ..estimators import sparsify
from ..util.axes import axes_or_new, scale_of_counts
from ..util.validation import check_count

Curves = dict[str, list[tuple[float, float]]]
"""Points (features, risk) of each curve, by name."""


def risk_vs_features(
    X: Any,
    y: Any,
    X_test: Any,
    y_test: Any,
    *,
    sizes: Iterable[int] = (10, 30, 100, 300, 1000),
    model: Any = None,
    trials: int = 20,
    radii: Sequence[float] = sparsify.SMALL_BALLS,
    axes: Any = None,
    random_state: int = 0,
) -> Any:
    """Draw the root mean squared error on the test rows against the number of features, and return the axes.

    There is one curve for each way to have few features.  Two are our budgeted model (the largest features, learned
    anew) and the largest features alone.  Two are random draws by both distributions (means of ``trials``).  One is SGD
    in small L1 balls (``radii`` times that of the full model).  It is for regressions of one output.  ``model`` is a
    fitted model to start from, by default ``SparseRegressor(preset="two-stage")``.
    """
    axes = axes_or_new(axes)
    how = {"sizes": sizes, "model": model, "trials": trials, "radii": radii, "random_state": random_state}
    draw(axes, risks(X, y, X_test, y_test, **how))
    return axes


def risks(
    X: Any,
    y: Any,
    X_test: Any,
    y_test: Any,
    *,
    sizes: Iterable[int] = (10, 30, 100, 300, 1000),
    model: Any = None,
    trials: int = 20,
    radii: Sequence[float] = sparsify.SMALL_BALLS,
    random_state: int = 0,
) -> Curves:
    """Return the curves that :func:`risk_vs_features` draws."""
    from ..estimators.sklearn import SparseRegressor
    from ..presets import BallSGD

    y, y_test, sizes = _numbers("y", y), _numbers("y_test", y_test), _sizes(sizes)
    check_count("trials", trials)
    if model is None:
        model = SparseRegressor(preset="two-stage", random_state=random_state).fit(X, y)
    if sparsify.classes_of(model) is not None:
        raise ValueError(f"risk_vs_features is for regressions of one output: this {type(model).__name__} is not one.")
    w, moments = sparsify.one_vector(model), second_moments(X)
    full, radius = int(np.count_nonzero(w)), float(np.abs(w).sum())
    out: Curves = {name: [] for name in ("budget", "top-k", "DD", "MG", "small ball", "full model")}
    for k in sorted({min(k, full) for k in sizes} - {0}):
        largest = sparsify.keep_largest(model, k, moments)
        out["top-k"].append(_point(largest, X_test, y_test))
        out["budget"].append(_point(sparsify.refit(largest, X, y, seed=random_state), X_test, y_test))
        for name in ("dd", "mg"):
            drawn = [sparsify.sparsify_random(model, k, name, moments, seed=random_state + i) for i in range(trials)]
            found = np.mean([_point(each, X_test, y_test) for each in drawn], axis=0)
            out[name.upper()].append((float(found[0]), float(found[1])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for share in sorted(radii) if radius > 0.0 else ():
            small = SparseRegressor(preset=BallSGD(share * radius), random_state=random_state).fit(X, y)
            out["small ball"].append(_point(small, X_test, y_test))
    out["full model"].append(_point(model, X_test, y_test))
    return out


def draw(axes: Any, curves: Curves) -> None:
    """Draw curves of risk against features on axes."""
    for name, points in curves.items():
        if points:
            features, risk = np.array(sorted(points)).T
            axes.plot(features, risk, "*" if len(points) == 1 else ".-", label=name, linewidth=1.2)
    axes.set(xlabel="features", ylabel="root mean squared error")
    scale_of_counts(axes.xaxis)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def _numbers(name: str, y: Any) -> np.ndarray:
    """Return y as one column of numbers; raise a ValueError for labels."""
    y = np.asarray(y)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.ndim != 1 or y.dtype.kind not in "fiu":
        raise ValueError(
            f"risk_vs_features is for regressions of one output: {name} must be one column of numbers, not {y.dtype} "
            f"of shape {y.shape}."
        )
    return y


def _sizes(sizes: Any) -> list[int]:
    if not isinstance(sizes, Iterable):
        raise ValueError(f"sizes={sizes!r}: it must be a list of numbers of features, such as [10, 100].")
    found = list(sizes)
    for k in found:
        check_count("sizes: k", k)
    return [int(k) for k in found]


def _point(model: Any, X: Any, y: Any) -> tuple[float, float]:
    error = float(np.sqrt(np.mean(np.square(np.ravel(model.predict(X)) - y))))
    return float(np.count_nonzero(sparsify.one_vector(model))), error
