"""Figures of measured problems: times, gaps and ratios of two methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

NEAR = 1e-4
"""The gap below which gaps count as equal."""


def title(problem: dict[str, Any]) -> str:
    return f"{problem['set']}, lam {problem['lam']:.3g}, {problem['kind']}"


def figure(problem: dict[str, Any], name: str, what: str) -> float | None:
    """Return CPU seconds of a method to a level or of a pass, or its gap after a pass; None if there is none."""
    line = next((line for line in problem["methods"] if line["method"] == name), None)
    if line is None:
        return None
    if what in ("pass", "gap"):
        found = line["pass"]
        if not found or line["rows"] and line["rows"] < problem["rows"]:
            return None
        if what == "pass":
            return found["cpu"]["min"]
        return None if found["gap"] is None else max(found["gap"], NEAR)
    reached = [each["cpu"]["min"] for level, each in line["levels"].items() if float(level) <= float(what)]
    return min(reached, default=None)


def ratios(problems: Sequence[dict[str, Any]], peer: str, ours: str, what: str) -> dict[str, float]:
    """Return theirs over ours for each problem on which both are measured.

    The ratio is infinite if only ours reached the level, 0 if only theirs did.
    """
    out = {}
    for problem in problems:
        if {peer, ours} <= {line["method"] for line in problem["methods"]}:
            theirs, own = figure(problem, peer, what), figure(problem, ours, what)
            if theirs is not None or own is not None:
                out[title(problem)] = np.inf if theirs is None else 0.0 if own is None else theirs / own
    if what in ("pass", "gap"):  # a missing measurement is not a loss
        out = {name: ratio for name, ratio in out.items() if 0.0 < ratio < np.inf}
    return out


def mean_ratio(values: np.ndarray) -> float | None:
    """Return the geometric mean of the values that are neither 0 nor infinite."""
    finite = values[np.isfinite(values) & (values > 0.0)]
    return float(np.exp(np.log(finite).mean())) if finite.size else None
