"""Plots of the frequencies with which features are selected."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..util.axes import axes_or_new, label_of

_LEAST_SHARE, _MOST_GREY, _MOST_NAMES = 0.1, 200, 20
"""The least share of halves of a path that is drawn, and how many paths are drawn in grey and named."""


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


def stability_paths(model: Any, *, axes: Any = None) -> Any:
    """Draw the share of halves that select each feature against the strength, and return the axes.

    ``model`` makes a promise on false features (``fdr``, ``efp``).  The selected features are drawn with their names,
    the others in grey.  The strengths that scores use end at the dotted line.
    """
    axes, paths = axes_or_new(axes), model.stability_paths_
    lams, shares = paths["strengths"], paths["probabilities"]
    selected = model.get_support(indices=True)
    others = np.setdiff1d(np.flatnonzero(shares.max(0, initial=0.0) > _LEAST_SHARE), selected)
    for column in others[np.argsort(-shares[:, others].sum(0), kind="stable")][:_MOST_GREY]:
        axes.plot(lams, shares[:, column], color="0.8", linewidth=0.8, zorder=1)
    order = np.argsort(-shares[:, selected].sum(0), kind="stable")
    for name, column in zip(np.asarray(model.get_feature_names_out())[order], selected[order], strict=True):
        label = label_of(name) if len(selected) <= _MOST_NAMES else None
        axes.plot(lams, shares[:, column], linewidth=1.2, label=label, zorder=2)
    used = int(paths["used"])
    if 0 < used < len(lams):
        axes.axvline(np.sqrt(lams[used - 1] * lams[used]), linestyle=":", color="0.4")
    axes.axhline(0.5, linestyle="--", linewidth=0.8, color="0.6")
    axes.set(xlabel="strength of the penalty", ylabel="share of halves", xscale="log", ylim=(0.0, 1.03))
    axes.invert_xaxis()
    if 0 < len(selected) <= _MOST_NAMES:
        axes.legend(fontsize=6, ncols=2, title=f"{len(selected)} selected", title_fontsize=7)
    return axes
