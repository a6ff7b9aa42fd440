"""The axes to draw on, and the colours and sizes that all pictures share."""

from __future__ import annotations

from typing import Any

from .progress import printable

FOR, AGAINST, OTHERS = "#2563eb", "#c2410c", "#4b5563"
"""The colours of positive weights and our models, of negative weights, and of other models.

They differ in lightness, too."""
PAGE_WIDTH = 4.2
"""The width of a picture of a page, in inches: with ``PAGE_STYLE`` its letters are legible on a phone."""
PAGE_STYLE: dict[Any, Any] = {
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "sparsco",  # equal pictures have equal bytes
}
"""The settings of matplotlib for the pictures of pages."""
_LONGEST = 40
"""The number of characters of a name that are shown."""


def label_of(name: Any) -> str:
    """Return a name as it stands in a plot: names are data, and a dollar sign would begin a formula."""
    return printable(str(name))[:_LONGEST].replace("$", "\\$")


def page_axes(height: float = 2.8) -> tuple[Any, Any]:
    """Return a new figure for a page, of a height in inches, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(PAGE_WIDTH, height), layout="constrained")
    return figure, figure.subplots()


def scale_of_counts(axis: Any) -> None:
    """Make a logarithmic axis of counts: its ticks are whole numbers, without powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_data_interval()
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    parts = (1.0,) if high >= 100.0 * low else (1.0, 2.0, 5.0)  # ticks in each power of ten
    axis.set_major_locator(LogLocator(subs=parts))
    axis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))
    axis.set_minor_formatter(NullFormatter())


def axes_or_new(axes: Any) -> Any:
    """Return the given axes, or new ones of pyplot, which a notebook shows by itself."""
    if axes is not None:
        return axes
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib, which is not installed: pip install 'sparsco[plots]'.") from None
    return plt.subplots(figsize=(6.0, 3.6), layout="constrained")[1]
