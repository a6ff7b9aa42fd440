"""Charts of measurements: times to a level, a pass, growth and memory, ours beside other packages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .figures import figure, mean_ratio, ratios, title
from .methods import BARE, L1, METHODS, POLISH
from .suite import LEVELS

_OURS, _OTHERS = "#2563eb", "#6b7280"
_WIDTH = 5.8
"""The width of a chart in inches: narrow, so that its letters are legible on a phone."""
_FAR = 100.0
"""The largest ratio on an axis; what is beyond is drawn there."""


def plain(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the problems with an L1 penalty and an intercept, which most packages solve."""
    return [problem for problem in results["problems"] if problem["kind"] == L1]


def times(results: dict[str, Any]) -> Any:
    """Return a chart of the CPU time of every solver to the levels, as a multiple of that of our polish."""
    from matplotlib.figure import Figure

    problems = plain(results)
    peers = [method.name for method in METHODS.values() if not method.ours]
    peers = [peer for peer in peers if any(ratios(problems, peer, POLISH, str(level)) for level in LEVELS)]
    drawn = Figure(figsize=(_WIDTH, 1.6 + 0.22 * len(problems)), layout="constrained")
    rows = {title(problem): len(problems) - 1 - k for k, problem in enumerate(problems)}
    panels = drawn.subplots(1, len(LEVELS), sharey=True)
    for axes, level in zip(panels, LEVELS, strict=True):
        for k, peer in enumerate(peers):
            found = ratios(problems, peer, POLISH, str(level))
            x = np.clip(list(found.values()), 1.0 / _FAR, _FAR)
            y = [rows[name] + 0.5 * (k / max(len(peers) - 1, 1) - 0.5) for name in found]
            axes.plot(x, y, "os^vD<>ph*X"[k % 11], markersize=4, color=f"C{k % 10}", linestyle="", label=peer)
        axes.axvline(1.0, color=_OURS, linewidth=2.0, label="sparsco")
        axes.set_yticks(list(rows.values()), [name.removesuffix(f", {L1}") for name in rows])
        axes.set(xscale="log", xlim=(0.2, 1.3 * _FAR), title=f"to {100 * level:g}%", xlabel="CPU time over ours")
        axes.grid(alpha=0.3)
    drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return drawn


def bars(values: dict[str, float], label: str) -> Any:
    """Return a chart of one number for each method, the smallest at the top, ours in another colour."""
    from matplotlib.figure import Figure

    names = sorted(values, key=lambda name: -values[name])
    drawn = Figure(figsize=(_WIDTH, 0.8 + 0.2 * len(names)), layout="constrained")
    axes = drawn.subplots()
    colours = [_OURS if METHODS[name].ours else _OTHERS for name in names]
    axes.barh(names, [values[name] for name in names], color=colours)
    for name in names:
        axes.annotate(f" {values[name]:.3g}", (values[name], name), va="center", fontsize=7)
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
    drawn = Figure(figsize=(_WIDTH, 3.0), layout="constrained")
    panels = np.atleast_1d(drawn.subplots(1, len(kinds)))
    for axes, each in zip(panels, kinds, strict=True):
        for name in each["points"][0]["cpu"]:
            points = [(point[each["axis"]], point["cpu"][name]["min"]) for point in each["points"]]
            axes.plot(
                *zip(*points, strict=True), "o-" if name.startswith("sparsco") else "s--", markersize=4, label=name
            )
        axes.set(xscale="log", yscale="log", xlabel=each["axis"], ylabel="CPU seconds of a pass")
        axes.grid(alpha=0.3)
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


def headline(results: dict[str, Any]) -> str:
    """Return the outcome in one sentence."""
    if not plain(results):
        return "sparsco and others, side by side"
    (near, of), (nearer, _) = first_on(results, 0.01), first_on(results, 0.001)
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


def tried(results: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    """Yield a chart for each problem, with its caption: the distance from the optimum against time."""
    from matplotlib.figure import Figure

    for problem in results["problems"]:
        drawn = Figure(figsize=(_WIDTH, 3.4), layout="constrained")
        axes = drawn.subplots()
        for line in problem["methods"]:
            points = sorted((each["cpu"], max(each["gap"], 1e-6)) for each in line["tried"] if each["gap"] is not None)
            if points:
                style = "o-" if line["package"] == "sparsco" else ".--"
                axes.plot(*zip(*points, strict=True), style, label=line["method"], linewidth=1.0, markersize=4)
        axes.set(xscale="log", yscale="log", xlabel="CPU seconds", ylabel="relative gap")
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(fontsize=6, loc="center left", bbox_to_anchor=(1.0, 0.5))
            yield drawn, f"{title(problem)}: each setting's first fit."
