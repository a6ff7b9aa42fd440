"""The plot of size against loss after an automatic choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..estimators.summary import Size, trade_off
from ..util.axes import axes_or_new


def loss_vs_size(model: Any, *, axes: Any = None) -> Any:
    """Draw the loss on held-out rows against the number of features, after an automatic fit, and return the axes.

    ``model`` is a fitted or loaded ``SparseClassifier`` or ``SparseRegressor``.  The band and the bar are one
    standard error to either side, and the star is the chosen model.
    """
    found = trade_off(model)
    if not found:
        raise ValueError("loss_vs_size needs a fit with an automatic choice: leave alpha at 'auto'.")
    return draw_sizes(found, axes_or_new(axes))


def draw_sizes(sizes: Sequence[Size], axes: Any) -> Any:
    """Draw the loss of models by size on axes, and return the axes; the chosen one can be the only one."""
    size, loss, error, _ = np.array([each for each in sizes if not each.chosen]).reshape(-1, 4).T
    axes.plot(size, loss, ".-", linewidth=1.2)
    axes.fill_between(size, loss - error, loss + error, alpha=0.2, linewidth=0.0, label="one standard error")
    for each in sizes:
        if each.chosen:
            label = f"chosen, {each.size:,} features"
            axes.errorbar(each.size, each.loss, each.error, fmt="*", markersize=11, capsize=2, label=label)
    axes.set(xlabel="features", ylabel="loss on held-out rows", xscale="symlog")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    return axes
