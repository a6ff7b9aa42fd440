"""Verdicts: every cell of a table, and every claim in words, compared with the paper."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from ..metrics.selection import cohen_kappa
from .definition import UNJUDGED, Claim, Experiment
from .run import Results
from .trial import Result

AGREES, DIFFERS, EXTRA, DIVERGED = "agrees", "differs", "extra", "diverged"
PAPER_TRIALS = 100
MAY_BE_MISSING = ("time", "Var", "kappa", "selected")
"""Metrics that can be missing at a point without a divergence."""
LEAST_TRIALS = 5
"""The number of trials below which the spread is too uncertain, and no cell is judged."""


class Cell(NamedTuple):
    """One number of a table; ``paper`` is None if the paper prints none, ``ours`` if training diverged."""

    row: str
    column: str
    metric: str
    paper: float | None
    ours: float | None
    spread: float | None
    verdict: str
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the fields that are written to a file."""
        return {name: x for name, x in self._asdict().items() if name != "reason"}


class Point(NamedTuple):
    """One row of a column at one number of examples, over all trials."""

    column: str
    row: str
    place: int
    is_last: bool
    trials: list[Result]


def cells(experiment: Experiment, results: Results) -> list[Cell]:
    """Return all cells in the order of display, then the claims; a table has only those at the end of the stream."""
    out, ends = [], []
    for point in points(experiment, results):
        if experiment.kind == "curves" or point.is_last:
            found = [_cell(experiment, point, metric) for metric in experiment.metrics]
            out += found
            ends += found if point.is_last else []
    return out + [_judged(experiment, claim, out if claim.everywhere else ends) for claim in experiment.claims]


def points(experiment: Experiment, results: Results) -> Iterator[Point]:
    """Yield all points that an experiment may show."""
    several = len(experiment.studies) > 1
    for study in experiment.studies:
        for setting in study.settings:
            for k, examples in enumerate(study.at(setting)):
                column = f"{study.name}, {setting}" if several else setting
                if experiment.kind == "curves":
                    column += f", t={examples}"
                for row in experiment.rows:
                    if row in study.methods:
                        trials = results[study.key, setting, row]
                        yield Point(column, row, k, k == len(study.points) - 1, trials)


def _cell(experiment: Experiment, point: Point, metric: str) -> Cell:
    column, row, k, _, trials = point
    ours, spread = _summary(metric, k, trials)
    paper = experiment.published.get(column, {}).get(row, {}).get(metric)
    reason = experiment.reason(row, column, metric)
    if paper is None:
        verdict = DIVERGED if ours is None and metric not in MAY_BE_MISSING else EXTRA
    elif not experiment.is_judged or metric == "time" or len(trials) < LEAST_TRIALS:
        verdict = UNJUDGED
    else:
        tolerance = experiment.tolerances.get(metric, {})
        verdict = AGREES if ours is not None and _is_close(ours, spread, paper, tolerance, len(trials)) else DIFFERS
    return Cell(row, column, metric, paper, ours, spread, verdict, reason if verdict == DIFFERS else "")


def _summary(metric: str, k: int, trials: list[Result]) -> tuple[float | None, float | None]:
    """Return mean and standard deviation over trials; for times the minimum, which includes no compilation."""
    if metric == "time":
        seconds = [trial["time"] for trial in trials if "time" in trial]
        return (min(seconds), float(np.std(seconds))) if seconds else (None, None)
    if metric == "kappa":
        return _agreement(k, trials)
    values = [trial.get("Obj" if metric == "Var" else metric, [None] * (k + 1))[k] for trial in trials]
    if any(x is None for x in values):
        return None, None
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    if metric == "Var":  # the variance of the objective, and the standard error of that estimate
        return (None, None) if spread is None else (spread**2, spread**2 * math.sqrt(2.0 / (len(values) - 1)))
    return float(np.mean(values)), spread


def _agreement(k: int, trials: list[Result]) -> tuple[float | None, float | None]:
    """Return mean and spread of Cohen's kappa over pairs of trials."""
    if len(trials) < 2 or any("features" not in trial for trial in trials):
        return None, None
    masks = np.zeros((len(trials), trials[0]["width"]), bool)
    for mask, trial in zip(masks, trials, strict=True):
        mask[trial["features"][k]] = True
    pairs = [cohen_kappa(a, b) for a, b in combinations(masks, 2)]
    return float(np.mean(pairs)), float(np.std(pairs))


def _is_close(ours: float, spread: float | None, paper: float, tolerance: dict[str, float], trials: int) -> bool:
    """Return whether ours is within the tolerance, or within three standard errors of the difference of two means.

    The spread is estimated from few trials, so the number of standard errors follows from Student's t.  ``factor`` is
    for variances, whose ratio has an F distribution.
    """
    from scipy.stats import f, norm, t

    likely = norm.cdf(3.0)
    if "factor" in tolerance:
        low, high = f.ppf((1.0 - likely, likely), trials - 1, PAPER_TRIALS - 1)
        factor = tolerance["factor"]
        return min(1.0 / factor, low) <= ours / paper <= max(factor, high)
    error = (spread or 0.0) * math.sqrt(1.0 / trials + 1.0 / PAPER_TRIALS) * t.ppf(likely, trials - 1)
    allowed = max(tolerance.get("absolute", 0.0), tolerance.get("relative", 0.0) * abs(paper), error)
    return abs(ours - paper) <= allowed + 1e-12


def _judged(experiment: Experiment, claim: Claim, found: list[Cell]) -> Cell:
    """Return the share of columns in which a claim holds, as a cell; it agrees if that is all of them."""
    ours = {(cell.row, cell.column): cell.ours for cell in found if cell.metric == claim.metric}
    sign = {"below": 1.0, "above": -1.0}[claim.relation]
    held = []
    for column in dict.fromkeys(cell.column for cell in found):
        mine, theirs = ours.get((claim.row, column)), [ours.get((row, column)) for row in claim.than]
        known = [other for other in theirs if other is not None]
        if mine is not None and len(known) == len(theirs):
            held.append(all(sign * (mine - other) < claim.within * abs(other) for other in known))
    share = sum(held) / len(held) if held else None
    few = min(study.trials for study in experiment.studies) < LEAST_TRIALS
    verdict = UNJUDGED if share is None or few or experiment.is_quick else AGREES if share == 1.0 else DIFFERS
    reason = claim.reason if verdict == DIFFERS else ""
    return Cell(claim.text, "claim", claim.metric, 1.0, share, None, verdict, reason)
