"""Plots of your own data; they need matplotlib (pip install 'sparsco[plots]').

Each function draws on ``axes``, or on a new figure of pyplot, which a notebook shows by itself and a script shows by
``matplotlib.pyplot.show()``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from . import sparsify

Curves = dict[str, list[tuple[float, float]]]
"""By name: (features, risk) points."""


def risk_vs_features(
    X: Any, y: Any, X_test: Any, y_test: Any, *, sizes: Iterable[int] = (10, 30, 100, 300, 1000), model: Any = None,
    trials: int = 20, radii: Sequence[float] = sparsify.SMALL_BALLS, axes: Any = None, random_state: int = 0,
) -> Any:  # fmt: skip
    """Draw what it costs to have few features: root mean squared error on the test rows against their number.

    One curve each for our budgeted model (the largest, learned anew), the largest alone, random draws by both
    distributions (means of ``trials``), and SGD in small L1 balls (``radii`` times that of the full model).  It is for
    regressions of one output; ``model`` is a fitted one to start from, by default
    ``SparseRegressor(preset="two-stage")``.  Returns the axes.
    """
    axes = _axes(axes)
    how = {"sizes": sizes, "model": model, "trials": trials, "radii": radii, "random_state": random_state}
    draw(axes, risks(X, y, X_test, y_test, **how))
    return axes


def risks(
    X: Any, y: Any, X_test: Any, y_test: Any, *, sizes: Iterable[int] = (10, 30, 100, 300, 1000), model: Any = None,
    trials: int = 20, radii: Sequence[float] = sparsify.SMALL_BALLS, random_state: int = 0,
) -> Curves:  # fmt: skip
    """The numbers of :func:`risk_vs_features`."""
    from .estimators import SparseRegressor
    from .presets import BallSGD

    y, y_test, sizes = _numbers("y", y), _numbers("y_test", y_test), _sizes(sizes)
    sparsify.check_count("trials", trials)
    if model is None:
        model = SparseRegressor(preset="two-stage", random_state=random_state).fit(X, y)
    if hasattr(model, "classes_"):
        raise ValueError(f"risk_vs_features is for regressions of one output: this {type(model).__name__} is none.")
    w, moments = sparsify.one_vector(model), sparsify.second_moments(X)
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
    """Curves of risk against features, on the axes of a figure."""
    for name, points in curves.items():
        if points:
            features, risk = np.array(sorted(points)).T
            axes.plot(features, risk, "*" if len(points) == 1 else ".-", label=name, linewidth=1.2)
    axes.set(xlabel="features", ylabel="root mean squared error", xscale="log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def _path_of(path: Any) -> Any:
    """A path, or that of what was fitted."""
    from .paths import Path

    found = getattr(path, "path_", path)
    if not isinstance(found, Path):
        raise ValueError(f"path is a {type(path).__name__}: give the path_ of a SparsePath or of SparseClassifierCV.")
    return found


def coefficient_path(path: Any, *, axes: Any = None, features: int = 20, chosen: float | None = None) -> Any:
    """Draw the weights of a path (``SparsePath(...).fit(X, y).path_``) against the strength of the penalty: those that
    become largest, by name where there are names.  Returns the axes."""
    path, axes = _path_of(path), _axes(axes)
    coefs = path.coefs.tocoo()
    models = coefs.shape[1] // len(path)
    of_first = coefs.col % models == 0  # the first class or output
    used, place = np.unique(coefs.row[of_first], return_inverse=True)
    weights = np.zeros((len(used), len(path)))
    weights[place, coefs.col[of_first] // models] = coefs.data[of_first]
    largest = np.argsort(-np.abs(weights).max(1, initial=0.0), kind="stable")[:features]
    names = getattr(path._shell, "feature_names_in_", None)
    for k in largest:
        axes.plot(path.lams, weights[k], linewidth=1.2, label=str(used[k] if names is None else names[used[k]]))
    _mark(axes, chosen)
    axes.set(xlabel="lam", ylabel="weight", xscale="log")
    axes.invert_xaxis()
    axes.grid(alpha=0.3)
    if axes.lines and len(largest) <= 20:
        axes.legend(fontsize=6, ncols=2)
    return axes


def error_vs_nonzeros(path: Any, *, axes: Any = None, chosen: float | None = None) -> Any:
    """Draw the loss on rows that were not learned, with its standard error, against the number of features."""
    path, axes = _path_of(path), _axes(axes)
    order = np.argsort(path.nonzeros, kind="stable")
    axes.errorbar(path.nonzeros[order], path.losses[order], path.spreads[order], fmt=".-", linewidth=1.2, capsize=2)
    if chosen is not None:
        k = int(np.abs(path.lams - chosen).argmin())
        axes.plot(path.nonzeros[k], path.losses[k], "*", markersize=10, label=f"chosen, lam = {chosen:.3g}")
        axes.legend(fontsize=8)
    axes.set(xlabel="features", ylabel="loss on rows not learned", xscale="symlog")
    axes.grid(alpha=0.3)
    return axes


def selection_stability(path: Any, *, axes: Any = None, chosen: float | None = None) -> Any:
    """Draw how well the folds of a cross-validation agree on the features: Cohen's kappa, mean over pairs of folds."""
    path = _path_of(path)
    if path.stability is None:
        raise ValueError("selection_stability needs folds: take the path_ of SparseClassifierCV or SparseRegressorCV.")
    axes = _axes(axes)
    axes.plot(path.lams, path.stability, ".-", linewidth=1.2)
    _mark(axes, chosen)
    axes.set(xlabel="lam", ylabel="agreement of folds (kappa)", xscale="log")
    axes.set_ylim(min(0.0, float(path.stability.min())), 1.05)
    axes.invert_xaxis()
    axes.grid(alpha=0.3)
    return axes


def _mark(axes: Any, chosen: float | None) -> None:
    if chosen is not None:
        axes.axvline(chosen, color="gray", linestyle=":", linewidth=1.0)


def _axes(axes: Any) -> Any:
    """Return the axes to draw on; new ones are pyplot's, which notebooks show."""
    if axes is not None:
        return axes
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib, which is not installed: pip install 'sparsco[plots]'.") from None
    return plt.subplots(figsize=(6.0, 3.6), layout="constrained")[1]


def _numbers(name: str, y: Any) -> np.ndarray:
    """One column of numbers, which labels are not."""
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
        sparsify.check_count("sizes: k", k)
    return [int(k) for k in found]


def _point(model: Any, X: Any, y: Any) -> tuple[float, float]:
    error = float(np.sqrt(np.mean(np.square(np.ravel(model.predict(X)) - y))))
    return float(np.count_nonzero(sparsify.one_vector(model))), error


def selection_frequencies(report: Any, *, axes: Any = None) -> Any:
    """Draw how often each feature of a stability report is selected, most often first: a step from 1 to 0 is stable.
    Returns the axes."""
    axes = _axes(axes)
    for name, repeated in (("other orders", report.permutations), ("other rows", report.subsamples)):
        shares = np.sort(repeated.frequency[repeated.frequency > 0.0])[::-1]
        kappa = float(np.mean(repeated.kappa))
        axes.step(np.arange(1, len(shares) + 1), shares, where="mid", label=f"{name}, kappa {kappa:.2f}")
    axes.set(xlabel="features, most often selected first", ylabel="share of fits", ylim=(0.0, 1.05))
    axes.legend()
    return axes
