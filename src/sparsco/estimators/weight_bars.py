"""The plot of weights as bars with signs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..util.axes import AGAINST, FOR, axes_or_new, label_of


def weights(model: Any, *, axes: Any = None, top: int = 20, names: Any = None) -> Any:
    """Draw the strongest features of a model as bars with signs, and return the axes.

    ``model`` is a fitted or loaded ``SparseClassifier`` or ``SparseRegressor``.  Bars are weights times the spread of
    their feature where spreads are known, as in ``model.summary()``; ``names`` are names of the columns for it.
    """
    lines = model.summary(names=names).lines[:top]
    several = len({line.output for line in lines}) > 1
    effects = [line.effect if np.isfinite(line.effect) else line.weight for line in lines]
    called = [f"{line.name} for {line.output}" if several else line.name for line in lines]
    return draw_weights(called, effects, axes_or_new(axes), None if several or not lines else lines[0].output)


def draw_weights(names: Sequence[str], effects: Sequence[float], axes: Any, predicted: str | None) -> Any:
    """Draw one bar for each feature, the first at the top, and return the axes."""
    places = range(len(names) - 1, -1, -1)
    axes.barh(places, effects, color=[FOR if effect > 0 else AGAINST for effect in effects])
    axes.set_yticks(list(places), [label_of(name) for name in names])
    axes.axvline(0.0, color="gray", linewidth=0.8)
    about = "" if predicted is None else f" (right: {label_of(predicted)})"
    axes.set_xlabel(f"weight x spread{about}")
    axes.grid(alpha=0.3, axis="x")
    return axes
