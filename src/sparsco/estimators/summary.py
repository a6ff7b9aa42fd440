"""The table of a model's features: name, weight, effect, and how often the feature occurs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..inference.record import Intervals
from ..util import html
from ..util.progress import percent, printable
from .intervals import notes_of

_LONGEST_NAME = 40


class Line(NamedTuple):
    """A feature in a summary."""

    name: str
    output: str
    """The label that a positive weight speaks for, or the name of the output."""
    weight: float
    effect: float
    """The weight times the standard deviation of the column; NaN where that is not known."""
    share: float
    """The share of the rows in which the feature is not zero; NaN where that is not known."""
    estimate: float = np.nan
    """The weight without a penalty; this and the next are NaN where there is no interval."""
    error: float = np.nan
    low: float = np.nan
    high: float = np.nan
    q_value: float = np.nan
    """The q-value of a selection with a promise, and the largest share of halves that select the feature."""
    probability: float = np.nan


class Summary:
    """The selected features of a model, the strongest first; it prints as a table, and shows as one in notebooks.

    ``lines`` has all of them.  The order is by |effect|, or by |weight| where no spreads are known.
    """

    def __init__(self, headline: str, lines: Sequence[Line], top: int, level: float | None = None) -> None:
        """Sort the lines; ``level`` is that of their intervals, if they have any."""
        known = all(np.isfinite(line.effect) for line in lines)

        def rank(line: Line) -> tuple[float, str]:
            return -abs(line.effect if known else line.weight), line.name

        self.headline, self.lines, self.top, self.level = headline, sorted(lines, key=rank), top, level
        self.notes: list[str] = []
        """What a reader of the intervals should know."""

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the heads of the columns, and the cells of the lines that are shown."""
        outputs = len({line.output for line in self.lines}) > 1
        heads = ["feature", *(["for"] if outputs else []), "weight"]
        if self.level is not None:
            heads += ["unpenalised", "std error", f"{100.0 * self.level:g}% interval"]
        heads += ["weight x spread", "occurs in"]
        has_promise = any(np.isfinite(line.q_value) for line in self.lines)
        heads += ["q-value", "in halves"] if has_promise else []
        cells = []
        for line in self.lines[: self.top]:
            effect = f"{line.effect:+.4g}" if np.isfinite(line.effect) else ""
            share = f"{percent(line.share, 3)} of rows" if np.isfinite(line.share) else ""
            intervals = [] if self.level is None else _interval_cells(line)
            names = [line.name, *([line.output] if outputs else [])]
            promise = [f"{line.q_value:.2g}", percent(line.probability, 3)] if has_promise else []
            cells.append([*names, f"{line.weight:+.4g}", *intervals, effect, share, *promise])
        return heads, cells

    def __str__(self) -> str:
        heads, cells = self._cells()
        rows = [heads, *([_short(printable(row[0])), *row[1:]] for row in cells)]
        widths = [max(len(row[k]) for row in rows) for k in range(len(heads))]

        def spaced(row: list[str]) -> str:
            numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            return "  ".join([row[0].ljust(widths[0]), *numbers])

        left = len(self.lines) - len(cells)
        more = [f"... and {left:,} more"] if left > 0 else []
        return "\n".join([self.headline, "", *(spaced(row).rstrip() for row in rows), *more, *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        heads, cells = self._cells()
        return html.text(self.headline) + html.table(heads, cells) + "".join(map(html.text, self.notes))


def _interval_cells(line: Line) -> list[str]:
    """Return the weight without a penalty, its error and its interval as text; empty where there is none."""
    if np.isnan(line.error):
        return ["", "", ""]
    digits = int(np.clip(1.0 - np.floor(np.log10(max(line.error, 1e-300))), 0, 12))  # two of those of the error
    return [f"{line.estimate:+.{digits}f}", f"{line.error:.2g}", f"{line.low:+.{digits}f} to {line.high:+.{digits}f}"]


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."


def summary_of(model: Any, top: int, intervals: Intervals | None = None, given: Any = None) -> Summary:
    """Return the summary of a fitted model, with its intervals if they are given.

    ``given`` are the names of its columns, if it does not know them.
    """
    solved = model.convert_with_columns()
    coef = solved.coef
    used = np.unique(coef.indices if intervals is None else np.append(coef.indices, intervals.features))
    names = dict(zip(used.tolist(), model.names_of_slots(used, given), strict=True))
    signs = model.signs_of_slots(used) if given is None else dict.fromkeys(used.tolist(), 1.0)
    spread = share = np.full(coef.shape[1], np.nan)
    if solved.columns is not None:
        spread, share = (np.where(row > 0.0, row, np.nan) for row in solved.columns.toarray())
    figures = _figures(intervals)
    q_values = probabilities = np.full(coef.shape[1], np.nan)
    if solved.stability is not None:
        q_values, probabilities = solved.stability.q_values(), solved.stability.probabilities()
    lines = []
    for k, output in enumerate(model.output_names()):
        part = slice(coef.indptr[k], coef.indptr[k + 1])
        weights = dict(zip(coef.indices[part].tolist(), coef.data[part].tolist(), strict=True))
        for slot in (weights | {slot: 0.0 for own, slot in figures if own == k}).keys():
            weight, own = signs[slot] * weights.get(slot, 0.0), turned(figures.get((k, slot), ()), signs[slot])
            effect = weight * float(spread[slot]) if weight else 0.0
            promise = {"q_value": float(q_values[slot]), "probability": float(probabilities[slot])}
            lines.append(Line(str(names[slot]), output, weight, effect, float(share[slot]), *own, **promise))
    summary = Summary(headline_of(model), lines, top, None if intervals is None else intervals.level)
    if intervals is not None:
        summary.notes = notes_of(model, intervals)
    return summary


def turned(figures: Sequence[float], sign: float) -> tuple[float, ...]:
    """Return estimate, error, low and high of a weight times a sign; nothing if there are none."""
    if sign > 0.0 or not figures:
        return tuple(figures)
    estimate, error, low, high = figures
    return -estimate, error, -high, -low


def _figures(intervals: Intervals | None) -> dict[tuple[int, int], tuple[float, ...]]:
    """Return estimate, error, low and high by output and slot."""
    if intervals is None:
        return {}
    places = zip(intervals.outputs.tolist(), intervals.features.tolist(), strict=True)
    columns = intervals.weights, intervals.errors, *intervals.bounds(intervals.level)
    return dict(zip(places, zip(*(each.tolist() for each in columns), strict=True), strict=True))


def feature_count(model: Any) -> int:
    """Return the number of features of a fitted model: its columns, or its names and crosses.

    Where features may leave, it is the number of those in use: a column may be a hash of 62 bits there.
    """
    trimmed = model.convert().report.get("trimmed")
    if trimmed is not None:
        return int(trimmed["in_use"])
    return len(model.fit_state.features) if model.fit_state.lists_features else int(model.n_features_in_)


def headline_of(model: Any) -> str:
    """Return one line about a fitted model: what it predicts, from how many features, and how they were chosen."""
    solved = model.convert()
    what = f"{type(model).__name__}: {model.n_selected_:,} of {feature_count(model):,} features"
    groups = solved.report.get("groups")
    what += "" if groups is None else f", {groups['selected']:,} of {groups['of']:,} groups"
    converted = solved.report["converted"][0] if solved.report.get("converted") else {}
    if "promise" in converted:
        return f"{what}; {promise_in_words(converted['promise'])}"
    if "choice" in converted:
        return f"{what}; {choice_in_words(converted['choice'])}"
    is_convex = all("objectives" not in each for each in converted.get("reweighted", ()))
    return what if is_convex else f"{what}; {_NOT_CONVEX}"


_NOT_CONVEX = "the penalty is not convex: near a local optimum, reached from the L1 solution"
"""What a user should know about a model with such a penalty."""


class Size(NamedTuple):
    """A model of an automatic choice: its features, its loss on held-out rows with the standard error of that loss."""

    size: int
    loss: float
    error: float
    chosen: bool


def trade_off(model: Any) -> list[Size]:
    """Return the stored models by size, and the chosen one among them; none if nothing was chosen automatically."""
    solved = model.convert_with_sizes()
    if not solved.sizes:
        return []
    choice = solved.report["converted"][0]["choice"]
    found = [Size(each.size, each.loss, each.error, choice.get("size") == each.size) for each in solved.sizes]
    if choice.get("size") is None:
        chosen = next(each for each in choice["candidates"] if each["chosen"])
        found.append(Size(model.n_selected_, chosen["loss"], chosen["error"], True))
    return sorted(found)


def promise_in_words(promise: dict[str, Any]) -> str:
    """Return what is promised of a selection, in one line.

    >>> promise_in_words({"fdr": 0.1, "efp": None, "selected": 20, "judged": 400, "rows": 1000})
    'fdr=0.1: of 20 features at most 2 are expected to be false; 400 columns judged on 1,000 rows'
    """
    is_share = promise["fdr"] is not None
    target = f"fdr={promise['fdr']:g}" if is_share else f"efp={promise['efp']:g}"
    false = promise["fdr"] * promise["selected"] if is_share else promise["efp"]
    found = f"{target}: of {promise['selected']:,} features at most {false:.3g} are expected to be false"
    found += f"; {promise['judged']:,} columns judged on {promise['rows']:,} rows"
    probes = promise.get("probes")
    return found if probes is None else f"{found}; {probes['selected']:,} of {probes['judged']:,} probes selected"


def choice_in_words(choice: dict[str, Any]) -> str:
    """Return what was chosen automatically, in one line.

    >>> choice_in_words({"alpha": 0.0123, "l1_ratio": 1.0, "relaxed": True, "rows": 500, "held_out_rows": 500})
    'alpha=0.0123, l1_ratio=1, relaxed=True, chosen on 500 held-out rows'

    Few rows are held out several times, by folds of different seeds:

    >>> choice_in_words({"alpha": 0.0123, "l1_ratio": 1.0, "relaxed": True, "rows": 50, "held_out_rows": 200})
    'alpha=0.0123, l1_ratio=1, relaxed=True, chosen on 50 rows, each held out 4 times'
    """
    if choice.get("size") is not None:
        found = f"size {choice['size']}"
    else:
        found = f"alpha={choice['alpha']:.4g}, l1_ratio={choice['l1_ratio']:g}, relaxed={choice['relaxed']}"
    held = choice.get("held_out_rows")
    if held is None:
        return found
    rows = choice["rows"]
    if held <= rows:
        return f"{found}, chosen on {held:,} held-out rows"
    return f"{found}, chosen on {rows:,} rows, each held out {held / rows:.3g} times"
