"""Plots of the frequencies with which features are selected."""

from __future__ import annotations

from typing import Any

import numpy as np

from .axes import axes_or_new


def selection_frequencies(report: Any, *, axes: Any = None) -> Any:
    """Draw the share of fits that select each feature of a stability report, and return the axes.

    The features selected most often come first: a step from 1 to 0 is stable.
    """
    axes = axes_or_new(axes)
    for name, repeated in (("other orders", report.permutations), ("other rows", report.subsamples)):
        shares = np.sort(repeated.frequency[repeated.frequency > 0.0])[::-1]
        kappa = float(np.mean(repeated.kappa))
        axes.step(np.arange(1, len(shares) + 1), shares, where="mid", label=f"{name}, kappa {kappa:.2f}")
    axes.set(xlabel="features, most often selected first", ylabel="share of fits", ylim=(0.0, 1.05))
    axes.legend()
    return axes
