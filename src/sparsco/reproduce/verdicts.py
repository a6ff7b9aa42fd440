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
    shown = [point for point in points(experiment, results) if experiment.kind == "curves" or point.is_last]
    ends = [point for point in shown if point.is_last]
    out = [_cell(experiment, point, metric) for point in shown for metric in experiment.metrics]
    return out + [_judged(experiment, claim, shown if claim.everywhere else ends) for claim in experiment.claims]


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


def _judged(experiment: Experiment, claim: Claim, shown: list[Point]) -> Cell:
    """Return the share of columns in which a claim holds by the means, as a cell.

    The claim agrees if every comparison holds by more than three standard errors, and differs if one of them fails by
    as much.  Otherwise the trials leave it open, and it is not judged.  The probability of an error that belongs to
    three standard errors is that of the whole claim: it is shared by all comparisons of which a single one can fail.
    """
    from scipy.stats import norm, t

    columns: dict[str, dict[str, Point]] = {}
    for point in shown:
        columns.setdefault(point.column, {})[point.row] = point
    compared = [[_margin(claim, rows[claim.row], rows[than]) for than in claim.than] for rows in columns.values()]
    known = [[margin for margin in column if margin] for column in compared if None not in column]
    share = float(np.mean([all(margin.mean > 0.0 for margin in column) for column in known])) if known else None
    margins, likely = [margin for column in known for margin in column], norm.sf(3.0)
    verdict = UNJUDGED
    if margins and not experiment.is_quick and min(margin.trials for margin in margins) >= LEAST_TRIALS:
        if any(m.mean + t.isf(likely / len(margins), m.trials - 1) * m.error <= 0.0 for m in margins):
            verdict = DIFFERS
        elif all(m.mean - t.isf(likely, m.trials - 1) * m.error > 0.0 for m in margins):
            verdict = AGREES
    return Cell(
        claim.text, "claim", claim.metric, 1.0, share, None, verdict, claim.reason if verdict == DIFFERS else ""
    )


class Margin(NamedTuple):
    """By how much a comparison holds, with the standard error; negative if it does not."""

    mean: float
    error: float
    trials: int


def _margin(claim: Claim, mine: Point, other: Point) -> Margin | None:
    """Return the margin of a comparison of two rows; None if training diverged.

    Both rows learn the same streams, so the error comes from leaving out the same trial of both (the jackknife).  For
    means that is the paired t test.  For variances, which are compared by their logarithms, it is Miller's test.  It
    needs no normal distribution: on squares of normal numbers it errs once in a hundred, where F errs ten times.
    """
    n = len(mine.trials)
    pairs = list(zip(mine.trials, other.trials if len(other.trials) == n else other.trials * n, strict=True))

    def margin(pairs: list[tuple[Result, Result]]) -> float:
        a, b = (_summary(claim.metric, mine.place, list(trials))[0] for trials in zip(*pairs, strict=True))
        if a is None or b is None:
            return math.nan
        sign = {"below": 1.0, "above": -1.0}[claim.relation]
        if claim.metric == "Var":
            with np.errstate(divide="ignore", invalid="ignore"):
                return float(sign * (np.log(b) - np.log(a) + np.log1p(sign * claim.within)))
        return claim.within * abs(b) - sign * (a - b)

    whole = margin(pairs)
    if math.isnan(whole):
        return None
    if n < LEAST_TRIALS:
        return Margin(whole, math.inf, n)
    without = [margin(pairs[:k] + pairs[k + 1 :]) for k in range(n)]
    return Margin(whole, (n - 1) / math.sqrt(n) * float(np.std(without, ddof=1)), n)
