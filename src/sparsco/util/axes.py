"""The axes to draw on."""

from __future__ import annotations

from typing import Any

from .progress import printable

_LONGEST = 40
"""The number of characters of a name that are shown."""


def label_of(name: Any) -> str:
    """Return a name as it stands in a plot: names are data, and a dollar sign would begin a formula."""
    return printable(str(name))[:_LONGEST].replace("$", "\\$")


def axes_or_new(axes: Any) -> Any:
    """Return the given axes, or new ones of pyplot, which a notebook shows by itself."""
    if axes is not None:
        return axes
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib, which is not installed: pip install 'sparsco[plots]'.") from None
    return plt.subplots(figsize=(6.0, 3.6), layout="constrained")[1]
