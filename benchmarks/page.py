"""Write the page of benchmarks: charts, wins and losses in words, and the raw figures as a file to download.

    python benchmarks/page.py bench.json peers.json        writes docs/benchmarks.md and docs/_static/bench/

``bench.json`` is written by ``sparsco bench --json``, ``peers.json`` by ``python benchmarks/peers.py --json``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from sparsco.bench import charts, figures, present
from sparsco.bench.methods import BARE, DEFAULT, METHODS, POLISH
from sparsco.bench.suite import LEVELS
from sparsco.util.atomic_files import write_text

DOCS = Path(__file__).resolve().parents[1] / "docs"
PEERS = [method.name for method in METHODS.values() if not method.ours]
TOP = """# Beside other packages

<!-- Written by benchmarks/page.py: change that file, not this one. -->

{headline}. The problem is L1 logistic regression with an intercept, at a tenth and a fiftieth of the largest strength
that selects a feature. All packages run on one thread, and times are CPU times. What is measured, and what is not quite
fair, is on [a page of its own](benchmarks-how.md), with paths, groups, least squares and a billion rows.
"""


def in_words(results: dict[str, Any], level: float) -> list[str]:
    """Return a sentence for each package: on how many problems ours is faster to a level, and where it is not."""
    lines = []
    for peer in PEERS:
        found = figures.ratios(charts.plain(results), peer, POLISH, str(level))
        if not found:
            continue
        values = np.array(list(found.values()))
        mean, never = figures.mean_ratio(values), int(np.isinf(values).sum())
        lost = sorted((name for name, ratio in found.items() if ratio < 1.0), key=found.__getitem__)
        line = f"- {peer}: ours is faster on {len(found) - len(lost)} of {len(found)}"
        line += "" if mean is None else f", {mean:.2g} times in the geometric mean"
        line += f"; it does not come near enough on {never}" if never else ""
        line += (
            f". Faster than ours on {', '.join(f'{name} ({1 / found[name]:.2g} times)' for name in lost)}"
            if lost
            else ""
        )
        lines.append(line + ".")
    return lines


def quality(results: dict[str, Any]) -> list[str]:
    """Return a table of one pass: the distance from the optimum, the features and the test error, as medians."""
    rows = []
    for name, method in METHODS.items():
        lines = [line for problem in charts.plain(results) for line in problem["methods"] if line["method"] == name]
        ones = [line["pass"] for line in lines if line["pass"] and line["pass"]["gap"] is not None and not line["rows"]]
        if not method.streams or name == BARE or not ones:
            continue
        medians = [float(np.median([one[key] for one in ones])) for key in ("gap", "f1", "test_error")]
        rows.append(
            (medians[0], f"| {name} | {medians[0]:.2g} | {medians[1]:.2f} | {100 * medians[2]:.1f}% | {len(ones)} |")
        )
    head = "| one pass of | above the optimum | F1 of the features | wrong labels | problems |\n|---|---|---|---|---|"
    return [head, *(row for _, row in sorted(rows))]


def paths(lines: list[dict[str, Any]]) -> Any:
    """Return a chart of the time of a path of 32 strengths to two gaps, for each package and set."""
    from matplotlib.figure import Figure

    lines = [line for line in lines if line["part"] == "path"]
    places = list(dict.fromkeys(line["problem"] for line in lines))
    drawn = Figure(figsize=(8.0, 1.0 + 0.34 * len(lines)), layout="constrained")
    for axes, place in zip(np.atleast_1d(drawn.subplots(len(places), 1)), places, strict=True):
        own = [line for line in lines if line["problem"] == place]
        for k, level in enumerate(own[0]["ms"]):
            known = [(row, line["ms"][level]) for row, line in enumerate(own) if line["ms"][level] is not None]
            heights = [row + 0.2 - 0.4 * k for row, _ in known]
            axes.barh(heights, [ms for _, ms in known], height=0.38, label=f"to {float(level):g}", color=f"C{k}")
        axes.set_yticks(range(len(own)), [line["solver"] for line in own])
        axes.set(title=place, xscale="log", xlabel="CPU ms")
        axes.grid(alpha=0.3, axis="x")
        axes.legend(fontsize=8)
    return drawn


def main() -> None:
    """Write the page, the charts and the raw figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bench", help="the results of sparsco bench --json")
    parser.add_argument("peers", help="the lines of benchmarks/peers.py --json")
    given = parser.parse_args()
    results, lines = (json.loads(Path(name).read_text()) for name in (given.bench, given.peers))
    results["scaling"] = list({each["axis"]: each for each in results["scaling"]}.values())  # files may repeat it
    folder = DOCS / "_static" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    blocks = [TOP.format(headline=charts.headline(results))]
    drawn = [*charts.every(results)]
    if any(line["part"] == "path" for line in lines):
        drawn.append(("paths", paths(lines), "A path of 32 strengths, to the largest relative gap of any of them."))
    for name, chart, caption in drawn:
        chart.savefig(folder / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight", facecolor="white")
        blocks.append(f"```{{figure}} _static/bench/{name}.svg\n:alt: {caption}\n\n{caption}\n```\n")
    blocks += ["## Wins and losses\n"]
    for level in LEVELS:
        blocks += [f"To {100 * level:g}% of the optimum, by our polish:\n", *in_words(results, level), ""]
    blocks += [f'One pass of the default, "{DEFAULT}", beside other single passes (medians):\n', *quality(results), ""]
    blocks += ["## Machine\n", *(f"- {line}" for line in present.about(results)), ""]
    blocks += ["All figures: {download}`bench.json <_static/bench/bench.json>`."]
    write_text(folder / "bench.json", json.dumps(slim(results) | {"peers": lines}))
    print(write_text(DOCS / "benchmarks.md", "\n".join(blocks) + "\n"))


def slim(results: dict[str, Any]) -> dict[str, Any]:
    """Return the results without the settings that were tried on the way."""
    return results | {
        "problems": [
            problem
            | {
                "methods": [
                    {key: value for key, value in line.items() if key != "tried"} for line in problem["methods"]
                ]
            }
            for problem in results["problems"]
        ]
    }


if __name__ == "__main__":
    main()
