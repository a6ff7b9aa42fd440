"""Charts of measurements: times to a level, a pass, growth and memory, ours beside other packages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..util.axes import FOR, OTHERS, PAGE_WIDTH, page_axes, scale_of_counts
from .figures import figure, mean_ratio, ratios, title
from .kept import OURS
from .methods import BARE, L1, METHODS, POLISH
from .suite import LEVELS

_FAR = 100.0
"""The largest ratio on an axis; what is beyond is drawn there."""
CAPTIONS = {
    "path": "A path of 32 strengths, to a relative gap that none of its models exceeds.",
    "group": "Logistic regression with a group lasso, to a relative gap.",
    "classes": "Softmax regression, to a relative gap.",
    "regression": "L1 least squares, to a relative gap.",
}
"""What the charts of problems show, by the name of the problem."""


def plain(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the problems with an L1 penalty and an intercept, which most packages solve."""
    return [problem for problem in results["problems"] if problem["kind"] == L1]


def times(results: dict[str, Any]) -> Any:
    """Return a chart of the CPU time of every solver to the levels, as a multiple of that of our polish."""
    from matplotlib.figure import Figure

    problems = plain(results)
    peers = [method.name for method in METHODS.values() if not method.ours]
    peers = [peer for peer in peers if any(ratios(problems, peer, POLISH, str(level)) for level in LEVELS)]
    drawn = Figure(figsize=(PAGE_WIDTH, 2.0 + 0.4 * len(problems)), layout="constrained")
    rows = {title(problem): len(problems) - 1 - k for k, problem in enumerate(problems)}
    panels = drawn.subplots(len(LEVELS), 1, sharex=True)
    for axes, level in zip(panels, LEVELS, strict=True):
        for k, peer in enumerate(peers):
            found = ratios(problems, peer, POLISH, str(level))
            x = np.clip(list(found.values()), 1.0 / _FAR, _FAR)
            y = [rows[name] + 0.5 * (k / max(len(peers) - 1, 1) - 0.5) for name in found]
            axes.plot(x, y, "os^vD<>ph*X"[k % 11], markersize=4, color=f"C{k % 10}", linestyle="", label=peer)
        axes.axvline(1.0, color=FOR, linewidth=2.0, label="sparsco")
        axes.set_yticks(list(rows.values()), [name.removesuffix(f", {L1}") for name in rows])
        axes.set(xscale="log", xlim=(0.2, 1.3 * _FAR), title=f"to {100 * level:g}% of the optimum")
        axes.grid(alpha=0.3)
    panels[-1].set_xlabel("CPU time over ours")
    drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return drawn


def bars(values: dict[str, float], label: str) -> Any:
    """Return a chart of one number for each method, the smallest at the top, ours in another colour."""
    names = sorted(values, key=lambda name: -values[name])
    drawn, axes = page_axes(0.6 + 0.2 * len(names))
    colours = [FOR if METHODS[name].ours else OTHERS for name in names]
    axes.barh(names, [values[name] for name in names], color=colours)
    for name in names:
        axes.annotate(f" {values[name]:.3g}", (values[name], name), va="center", fontsize="small")
    axes.set(xscale="log", xlabel=label)
    axes.grid(alpha=0.3, axis="x")
    axes.margins(x=0.12)
    return drawn


def passes(results: dict[str, Any]) -> dict[str, float]:
    """Return the CPU time of a pass of each method, as a multiple of the bare pass, in the geometric mean."""
    found = dict[str, float]()
    for name, method in METHODS.items():
        over = ratios(plain(results), name, BARE, "pass") if method.streams and name != BARE else {}
        mean = mean_ratio(np.array(list(over.values())))
        found |= {} if mean is None else {name: mean}
    return found


def memory(results: dict[str, Any]) -> dict[str, float]:
    """Return the memory that a fit adds to the rows, in MB, in the geometric mean over the problems that have it."""
    found: dict[str, list[float]] = {}
    for problem in plain(results):
        for line in problem["methods"]:
            if line["memory"] is not None and line["method"] != BARE:
                found.setdefault(line["method"], []).append(max(line["memory"], 0.01))
    most = max((len(each) for each in found.values()), default=0)
    return {name: float(np.exp(np.log(each).mean())) for name, each in found.items() if len(each) == most}


def growth(results: dict[str, Any]) -> Any:
    """Return a chart of a pass as rows and features grow; None if that was not measured."""
    from matplotlib.figure import Figure

    kinds = [each for each in results["scaling"] if each["axis"] in ("rows", "features")]
    if not kinds:
        return None
    drawn = Figure(figsize=(PAGE_WIDTH, 2.8 * len(kinds)), layout="constrained")
    panels = np.atleast_1d(drawn.subplots(len(kinds), 1))
    for axes, each in zip(panels, kinds, strict=True):
        for name in each["points"][0]["cpu"]:
            points = [(point[each["axis"]], point["cpu"][name]["min"]) for point in each["points"]]
            axes.plot(
                *zip(*points, strict=True), "o-" if name.startswith("sparsco") else "s--", markersize=4, label=name
            )
        axes.set(xscale="log", yscale="log", xlabel=each["axis"], ylabel="CPU seconds of a pass")
        axes.grid(alpha=0.3)
    drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return drawn


def problems(lines: Sequence[dict[str, Any]]) -> Any:
    """Return a chart of the times to each gap: a panel for each problem, bars for each solver."""
    from matplotlib.figure import Figure

    problems = list(dict.fromkeys(line["problem"] for line in lines))
    sizes = [sum(line["problem"] == problem for line in lines) for problem in problems]
    drawn = Figure(figsize=(PAGE_WIDTH, 1.0 + 0.45 * len(lines)), layout="constrained")
    panels = drawn.subplots(len(problems), 1, sharex=True, squeeze=False, height_ratios=sizes)[:, 0]
    for axes, problem in zip(panels, problems, strict=True):
        own = [line for line in lines if line["problem"] == problem][::-1]
        for k, level in enumerate(own[0]["ms"]):
            known = [(row, line["ms"][level]) for row, line in enumerate(own) if line["ms"][level] is not None]
            heights = [row + 0.27 * (1 - k) for row, _ in known]
            axes.barh(heights, [ms for _, ms in known], height=0.25, label=f"to {float(level):g}", color=f"C{k}")
            for height, (_, ms) in zip(heights, known, strict=True):
                axes.annotate(f" {ms:,.0f}", (ms, height), va="center", fontsize="small")
        axes.set_yticks(range(len(own)), [line["solver"] for line in own])
        axes.set(title=problem)
        scale_of_counts(axes.xaxis)
        axes.margins(x=0.12)
        axes.grid(alpha=0.3, axis="x")
    panels[-1].set_xlabel("CPU ms")
    drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return drawn


def first_on(results: dict[str, Any], level: float, near: float = 1.1) -> tuple[int, int]:
    """Return on how many problems our polish is first or within a tenth of the first, and the number of problems."""
    firsts, problems = 0, plain(results)
    peers = [method.name for method in METHODS.values() if not method.ours]
    for problem in problems:
        own = figure(problem, POLISH, str(level))
        others = [value for peer in peers if (value := figure(problem, peer, str(level))) is not None]
        firsts += own is not None and own <= near * min(others, default=np.inf)
    return firsts, len(problems)


def first_of_lines(lines: Sequence[dict[str, Any]], level: float, near: float = 1.1) -> tuple[int, int]:
    """Return on how many problems that others solve, too, the first of ours is first or nearly, and their number."""
    firsts = number = 0
    for problem in dict.fromkeys(line["problem"] for line in lines):
        known = [line for line in lines if line["problem"] == problem and line["ms"][str(level)] is not None]
        own, others = (
            [line["ms"][str(level)] for line in known if (line["package"] == OURS) == is_ours] for is_ours in (1, 0)
        )
        firsts += min(own, default=np.inf) <= near * min(others, default=0.0)
        number += bool(others)
    return firsts, number


def headline(results: dict[str, Any]) -> str:
    """Return the outcome in one sentence."""
    if plain(results):
        (near, of), (nearer, _) = first_on(results, 0.01), first_on(results, 0.001)
    else:
        (near, of), (nearer, _) = (first_of_lines(results["lines"], level) for level in LEVELS)
    if not of:
        return "sparsco and others, side by side"
    return (
        f"Of {of} problems, sparsco is first or within a tenth on {near} to 1% and on {nearer} to 0.1% of the optimum"
    )


def every(results: dict[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Yield the charts that the results allow: a name, the chart and its caption."""
    if plain(results):
        near = " and ".join(f"{100 * level:g}%" for level in LEVELS)
        caption = (
            f"The time to come within {near} of the optimum, on every set at two strengths. Points to the right of the "
            "line are slower than sparsco. A point at the right edge did not come as near, or took more than a hundred "
            "times as long."
        )
        yield "levels", times(results), caption
        yield (
            "pass",
            bars(passes(results), "CPU time of a pass, in bare passes"),
            ("One pass over the rows with a model at the end. A bare pass only reads rows and writes to weights."),
        )
    if memory(results):
        yield "memory", bars(memory(results), "MB beyond the rows"), "The memory that a fit adds to the rows."
    if (chart := growth(results)) is not None:
        yield "growth", chart, "A pass as rows and features grow, with the same nonzeros in a row."
    for name, caption in CAPTIONS.items():
        lines = [line for line in results["lines"] if line["part"] == name]
        if lines:
            yield name, problems(lines), caption


def tried(results: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    """Yield a chart for each problem, with its caption: the distance from the optimum against time."""
    for problem in results["problems"]:
        drawn, axes = page_axes(4.0)
        for line in problem["methods"]:
            points = sorted((each["cpu"], max(each["gap"], 1e-6)) for each in line["tried"] if each["gap"] is not None)
            if points:
                style = "o-" if line["package"] == "sparsco" else ".--"
                axes.plot(*zip(*points, strict=True), style, label=line["method"], linewidth=1.0, markersize=4)
        axes.set(xscale="log", yscale="log", xlabel="CPU seconds", ylabel="relative gap")
        axes.grid(alpha=0.3)
        if axes.lines:
            drawn.legend(loc="outside lower center", ncols=3)
            yield drawn, f"{title(problem)}: each setting's first fit."
