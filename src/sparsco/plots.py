"""Plots, for those who have matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np


def selection_frequencies(report: Any, ax: Any = None) -> Any:
    """How often each feature of a stability report is selected, most often first: a step from 1 to 0 is stable."""
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(6.0, 3.5))[1]
    for name, repeated in (("other orders", report.permutations), ("other rows", report.subsamples)):
        shares = np.sort(repeated.frequency[repeated.frequency > 0.0])[::-1]
        kappa = float(np.mean(repeated.kappa))
        ax.step(np.arange(1, len(shares) + 1), shares, where="mid", label=f"{name}, kappa {kappa:.2f}")
    ax.set_xlabel("features, most often selected first")
    ax.set_ylabel("share of fits")
    ax.set_ylim(0.0, 1.05)
    ax.legend()
    return ax
