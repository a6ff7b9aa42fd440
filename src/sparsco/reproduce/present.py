"""Presentation of an experiment's cells: text for a terminal, an HTML report with plots, and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from .. import plots
from ..util import html
from ..util.axes import PAGE_WIDTH, page_axes, scale_of_counts
from .definition import PAPERS, UNJUDGED, Experiment
from .run import Results
from .verdicts import AGREES, DIFFERS, DIVERGED, EXTRA, Cell

_SIGNS = {AGREES: "=", DIFFERS: "≠", UNJUDGED: "·", DIVERGED: "!"}
LEGEND = (
    "Each cell: paper | ours ± standard deviation over trials. Signs: = agrees, ≠ differs, · not judged. Without a "
    "sign the paper has no such row. time: seconds per run, the minimum over trials. The machines of the "
    "papers are unknown."
)


def as_text(experiment: Experiment, cells: Sequence[Cell]) -> str:
    """Return tables for a terminal, one for each column, then the differences and their reasons."""
    reasons = _reasons(cells)
    blocks = [f"{experiment.key}: {experiment.title}", experiment.extent, *experiment.notes, LEGEND]
    for column, lines in _grouped(cells):
        rows = [(column, *experiment.metrics)]
        rows += [(row, *(_text(cell, reasons) for cell in found)) for row, found in lines]
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        padded = ("  ".join(text.ljust(n) for text, n in zip(row, widths, strict=True)) for row in rows)
        blocks.append("\n".join(line.rstrip() for line in padded))
    claims = _claims(cells)
    if claims:
        blocks.append("\n".join(f"{_SIGNS[cell.verdict]} {_claim(cell, reasons)}" for cell in claims))
    blocks += [f"[{number}] {reason}" for reason, number in reasons.items()]
    return "\n\n".join([*blocks, tally(cells)])


def tally(cells: Sequence[Cell]) -> str:
    """Return how many cells agree and differ, in one line."""
    judged = [cell for cell in cells if cell.verdict in (AGREES, DIFFERS)]
    if not judged:
        return "No cell was judged."
    agree = sum(cell.verdict == AGREES for cell in judged)
    known = sum(cell.verdict == DIFFERS and bool(cell.reason) for cell in judged)
    unknown = len(judged) - agree - known
    return (
        f"{agree} of {len(judged)} cells agree, {known} differ for a known reason, {unknown} differ for an "
        "unknown reason."
    )


def unexplained(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells that differ without a reason in the data file."""
    return [cell for cell in cells if cell.verdict == DIFFERS and not cell.reason]


def as_json(cells: Sequence[Cell]) -> str:
    """Return the cells as a JSON list."""
    return json.dumps([cell.as_json() for cell in cells], indent=1, ensure_ascii=False) + "\n"


def as_blocks(experiment: Experiment, cells: Sequence[Cell], results: Results) -> list[str]:
    """Return the blocks of a report."""
    reasons = _reasons(cells)
    blocks = [html.heading(f"{experiment.key}: {experiment.title}"), html.text(PAPERS[experiment.paper])]
    blocks += [html.text(experiment.extent)]
    blocks += [html.text(note) for note in experiment.notes]
    blocks += _plots(experiment, cells, results) if experiment.kind != "table" else []
    for column, lines in _grouped(cells):
        rows = [(row, *(html.Marked(_text(cell, reasons), cell.verdict) for cell in found)) for row, found in lines]
        table = html.table((column, *experiment.metrics), rows)
        blocks.append(html.details(column, table) if experiment.kind == "curves" else table)
    claims = _claims(cells)
    if claims:
        rows = [(_claim(cell, reasons), html.Marked(cell.verdict, cell.verdict)) for cell in claims]
        blocks.append(html.table(("what the paper says", "verdict"), rows))
    blocks += [html.text(f"[{number}] {reason}") for reason, number in reasons.items()]
    return [*blocks, html.text(tally(cells))]


def write_report(path: str | Path, shown: Sequence[tuple[Experiment, Sequence[Cell], Results]]) -> Path:
    """Write one HTML file for one or more experiments."""
    blocks = list[str]()
    if len(shown) > 1:
        blocks.append(html.table(("table or figure", "", "cells"), [_overview(*each[:2]) for each in shown]))
    blocks.append(html.text(LEGEND))
    for experiment, cells, results in shown:
        blocks += as_blocks(experiment, cells, results)
    return html.write(path, headline(shown), blocks)


def headline(shown: Sequence[tuple[Experiment, Sequence[Cell], Results]]) -> str:
    """Return the outcome of some experiments in one sentence."""
    what = shown[0][0].key if len(shown) == 1 else f"{len(shown)} tables and figures"
    judged = [cell for _, cells, _ in shown for cell in cells if cell.verdict in (AGREES, DIFFERS)]
    if not judged:
        return f"{what} of the papers, run again"
    agree = sum(cell.verdict == AGREES for cell in judged)
    return f"{what}: {agree} of {len(judged)} published figures agree with ours"


def _overview(experiment: Experiment, cells: Sequence[Cell]) -> tuple[str, str, str]:
    return experiment.key, experiment.title, tally(cells)


# --- pieces -----------------------------------------------------------------------------------------------------------


def _grouped(cells: Sequence[Cell]) -> list[tuple[str, list[tuple[str, list[Cell]]]]]:
    """Return column -> row -> cells in the order of the metrics."""
    cells = [cell for cell in cells if cell.column != "claim"]
    return [
        (column, [(row, list(found)) for row, found in groupby(lines, key=lambda cell: cell.row)])
        for column, lines in groupby(cells, key=lambda cell: cell.column)
    ]


def _claims(cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.column == "claim"]


def _reasons(cells: Sequence[Cell]) -> dict[str, int]:
    found = dict.fromkeys(cell.reason for cell in cells if cell.reason)
    return {reason: number for number, reason in enumerate(found, 1)}


def _text(cell: Cell, reasons: dict[str, int]) -> str:
    """Return the text of a cell: paper | ours ± spread, with a sign for the verdict."""
    if cell.ours is None and cell.verdict == EXTRA:
        return ""
    ours = "diverged" if cell.verdict in (DIFFERS, DIVERGED) else "–"
    if cell.ours is not None:
        ours = _number(cell.ours, cell.paper)
    if cell.spread and cell.spread > 1e-9 * abs(cell.ours or 0.0) and cell.metric not in ("time", "Var"):
        ours += f" ±{cell.spread:.0f}" if cell.spread >= 9.5 else f" ±{cell.spread:.1g}"
    note = f" [{reasons[cell.reason]}]" if cell.reason else ""
    return ours if cell.paper is None else f"{_number(cell.paper)} | {ours} {_SIGNS[cell.verdict]}{note}"


def _number(x: float, like: float | None = None) -> str:
    """Return a number with four digits or more, small numbers with powers of ten."""
    if x != 0.0 and abs(x) < 1e-3:
        return f"{x:.1e}"
    digits = 4 if abs(like if like is not None else x) < 1000 else 1
    return f"{x:.{digits}f}".rstrip("0").rstrip(".")


def _claim(cell: Cell, reasons: dict[str, int]) -> str:
    held = "" if cell.ours is None else f" ({cell.metric}, by the means: holds in {cell.ours:.0%} of the columns)"
    return f"“{cell.row}”{held}" + (f" [{reasons[cell.reason]}]" if cell.reason else "")


@html.with_plots
def _plots(experiment: Experiment, cells: Sequence[Cell], results: Results) -> list[str]:
    if experiment.kind == "features":
        return _risks(cells)
    if experiment.kind == "images":
        return _images(
            experiment,
            results,
            selected,
            "First trial: white where a weight is positive, grey where it is negative, black where it is zero.",
        )
    drawn = _curves(experiment, cells)
    if experiment.studies[0].keeps_weights:
        drawn += _images(experiment, results, pixels, "First trial: the weights as pixels, black is 0 and white is 1.")
    return drawn


def _risks(cells: Sequence[Cell]) -> list[str]:
    """Return plots of RMSE against features, one per column; rows with the same name before the comma are one curve."""
    out = []
    for column, lines in _grouped(cells):
        curves: plots.Curves = {}
        for row, found in lines:
            by = {cell.metric: cell.ours for cell in found}
            features, error = by.get("features"), by.get("RMSE")
            if features is not None and error is not None:
                curves.setdefault(row.partition(", ")[0], []).append((features, error))
        figure, axes = page_axes()
        axes.set_title(column)
        plots.draw(axes, curves)
        out.append(html.figure(figure, f"{column}: test error against the number of features."))
    return out


def _curves(experiment: Experiment, cells: Sequence[Cell]) -> list[str]:
    """Return one block for each metric, with one picture for each setting."""
    out = []
    for metric in experiment.metrics:
        panels: dict[str, dict[str, list[tuple[float, float, float]]]] = {}
        for cell in cells:
            place, _, t = cell.column.rpartition(", t=")
            if place and cell.metric == metric and cell.ours is not None:
                line = panels.setdefault(place, {}).setdefault(cell.row, [])
                line.append((float(t), cell.ours, cell.spread or 0.0))
        figures = []
        for place, lines in panels.items():
            figure, axes = page_axes(3.0)
            for row, line in lines.items():
                color, (t, mean, spread) = f"C{experiment.rows.index(row) % 10}", np.array(line).T
                axes.plot(t, mean, ".-", color=color, label=row, linewidth=1.2)
                axes.fill_between(t, mean - spread, mean + spread, color=color, alpha=0.15, linewidth=0)
            axes.set(title=place, xlabel=experiment.axis, ylabel=metric)
            scale_of_counts(axes.xaxis)
            axes.grid(alpha=0.3)
            if metric == "Obj":  # large at first: use the range of the second half of the points
                late = [mean for line in lines.values() for _, mean, _ in line[len(line) // 2 :]]
                axes.set_ylim(min(late) - 0.05 * np.ptp(late), max(late) + 0.1 * np.ptp(late))
            figure.legend(loc="outside lower center", ncols=4)
            figures.append(figure)
        caption = f"{metric} over {experiment.axis}; the band is one standard deviation over trials."
        out.append(html.figures(figures, caption))
    return out


def _images(experiment: Experiment, results: Results, picture: Callable[[Any], np.ndarray], caption: str) -> list[str]:
    """Return the weights of the first trial as pictures, with one row for each method."""
    from matplotlib.figure import Figure

    out = []
    for study in experiment.studies:
        rows, columns = [row for row in experiment.rows if row in study.methods], list(study.settings)
        places = [[(row, column) for column in columns] for row in rows]
        if len(columns) == 1:  # methods side by side, four in a line
            places = [[(row, columns[0]) for row in rows[k : k + 4]] for k in range(0, len(rows), 4)]
        down, across = len(places), len(places[0])
        figure = Figure(figsize=(PAGE_WIDTH, (PAGE_WIDTH - 0.6) / across * down + 0.3), layout="constrained")
        grid = figure.subplots(down, across, squeeze=False)
        for axes in grid.ravel():
            axes.set_axis_off()
        for line, found in zip(places, grid, strict=True):
            for (row, column), axes in zip(line, found, strict=False):
                axes.imshow(picture(results[study.key, column, row][0]["weights"]), cmap="gray", vmin=0.0, vmax=1.0)
                axes.set_axis_on()
                axes.set(xticks=[], yticks=[], title=row if len(columns) == 1 else f"{row},\n{column}")
        out.append(html.figure(figure, caption))
    return out


def pixels(weights: dict[str, Any] | None) -> np.ndarray:
    """Return the weights as a square; one black pixel if training diverged."""
    if weights is None:
        return np.zeros((1, 1))
    square, side = np.zeros(weights["size"]), round(weights["size"] ** 0.5)
    square[weights["indices"]] = weights["values"]
    return square.reshape(side, side)


def selected(weights: dict[str, Any] | None) -> np.ndarray:
    """Return a square of 0 (zero weight), .5 (negative) and 1 (positive)."""
    square = pixels(weights)
    return np.where(square == 0.0, 0.0, np.where(square > 0.0, 1.0, 0.5))
