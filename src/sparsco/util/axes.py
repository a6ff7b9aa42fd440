"""The axes to draw on."""

from __future__ import annotations

from typing import Any


def axes_or_new(axes: Any) -> Any:
    """Return the given axes, or new ones of pyplot, which a notebook shows by itself."""
    if axes is not None:
        return axes
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib, which is not installed: pip install 'sparsco[plots]'.") from None
    return plt.subplots(figsize=(6.0, 3.6), layout="constrained")[1]
