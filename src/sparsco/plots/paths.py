"""Plots of paths of strengths: weights, losses, agreement of folds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..util.axes import axes_or_new, label_of


@runtime_checkable
class PathOfModels(Protocol):
    """The object that is drawn: models of several strengths, such as a :class:`sparsco.selection.path.Path`."""

    alphas: np.ndarray
    coefs: Any
    losses: np.ndarray
    spreads: np.ndarray
    nonzeros: np.ndarray
    stability: np.ndarray | None
    feature_names: np.ndarray | None


def _name(names: Any, column: int) -> str:
    """Return the name of a column, or its number where it has none."""
    if names is None:
        return label_of(column)
    return label_of(names.get(int(column), column) if isinstance(names, Mapping) else names[column])


def coefficient_path(
    path: Any, *, axes: Any = None, features: int = 20, chosen: float | None = None, names: Any = None
) -> Any:
    """Draw the weights of a path against the strength of the penalty, and return the axes.

    ``path`` is ``SparsePath(...).fit(X, y).path_`` or its estimator.  The weights that become largest are drawn, with
    the names of their features if there are names.  ``names`` are others, such as the words of a vectorizer: a sequence
    or a mapping by the number of the column.
    """
    path, axes = _path_of(path), axes_or_new(axes)
    coefs = path.coefs.tocoo()
    models = coefs.shape[1] // len(path)
    of_first = coefs.col % models == 0  # the first class or output
    used, place = np.unique(coefs.row[of_first], return_inverse=True)
    weights = np.zeros((len(used), len(path)))
    weights[place, coefs.col[of_first] // models] = coefs.data[of_first]
    largest = np.argsort(-np.abs(weights).max(1, initial=0.0), kind="stable")[:features]
    names = path.feature_names if names is None else names
    for k in largest:
        axes.plot(path.alphas, weights[k], linewidth=1.2, label=_name(names, used[k]))
    _mark(axes, chosen)
    axes.set(xlabel="alpha", ylabel="weight", xscale="log")
    axes.invert_xaxis()
    axes.grid(alpha=0.3)
    if axes.lines and len(largest) <= 20:
        axes.legend(fontsize=6, ncols=2)
    return axes


def error_vs_nonzeros(path: Any, *, axes: Any = None, chosen: float | None = None) -> Any:
    """Draw the loss on rows that were not learned against the number of features, and return the axes.

    The bars are standard errors.
    """
    path, axes = _path_of(path), axes_or_new(axes)
    order = np.argsort(path.nonzeros, kind="stable")
    axes.errorbar(path.nonzeros[order], path.losses[order], path.spreads[order], fmt=".-", linewidth=1.2, capsize=2)
    if chosen is not None:
        k = int(np.abs(path.alphas - chosen).argmin())
        axes.plot(path.nonzeros[k], path.losses[k], "*", markersize=10, label=f"chosen, alpha = {chosen:.3g}")
        axes.legend(fontsize=8)
    axes.set(xlabel="features", ylabel="loss on rows not learned", xscale="symlog")
    axes.grid(alpha=0.3)
    return axes


def selection_stability(path: Any, *, axes: Any = None, chosen: float | None = None) -> Any:
    """Draw the agreement of the folds of a cross-validation on the features, and return the axes.

    The agreement is Cohen's kappa, as a mean over pairs of folds.
    """
    path = _path_of(path)
    if path.stability is None:
        raise ValueError("selection_stability needs folds: take the path_ of SparseClassifierCV or SparseRegressorCV.")
    axes = axes_or_new(axes)
    axes.plot(path.alphas, path.stability, ".-", linewidth=1.2)
    _mark(axes, chosen)
    axes.set(xlabel="alpha", ylabel="agreement of folds (kappa)", xscale="log")
    axes.set_ylim(min(0.0, float(path.stability.min())), 1.05)
    axes.invert_xaxis()
    axes.grid(alpha=0.3)
    return axes


def _path_of(path: Any) -> Any:
    """Return a path, or the path of a fitted estimator."""
    found = getattr(path, "path_", path)
    if not isinstance(found, PathOfModels):
        raise ValueError(f"path is a {type(path).__name__}: give the path_ of a SparsePath or of SparseClassifierCV.")
    return found


def _mark(axes: Any, chosen: float | None) -> None:
    if chosen is not None:
        axes.axvline(chosen, color="gray", linestyle=":", linewidth=1.0)
