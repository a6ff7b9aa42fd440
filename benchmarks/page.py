"""Write the page of benchmarks: charts, wins and losses in a table, and the raw figures as a file to download.

    python benchmarks/page.py                            from the figures that the site has: after a change of words
    python benchmarks/page.py bench.json                 from new ones

Both write docs/benchmarks.md and docs/_static/bench/.  ``bench.json`` is written by ``sparsco bench --json``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context

from sparsco.bench import charts, figures, present
from sparsco.bench.methods import BARE, DEFAULT, METHODS, POLISH
from sparsco.bench.suite import LEVELS
from sparsco.util.atomic_files import write_text
from sparsco.util.axes import PAGE_STYLE

DOCS = Path(__file__).resolve().parents[1] / "docs"
FIGURES = DOCS / "_static" / "bench"
PEERS = [method.name for method in METHODS.values() if not method.ours]
TOP = """# Beside other packages

<!-- Written by benchmarks/page.py: change that file, not this one. -->

{headline}. The problem is L1 logistic regression with an intercept, at a tenth and a fiftieth of the largest strength
that selects a feature. All packages run on one thread, and times are CPU times. What is measured, and what is not quite
fair, is on [a page of its own](benchmarks-how.md), with groups, least squares and a billion rows.
"""
WINS = """## Wins and losses

On how many of the problems ours (`polish=True`) is faster than a package, by how many times in the geometric mean of
those that both solved, and on how many the package did not come as near:
"""


def wins(results: dict[str, Any]) -> list[str]:
    """Return a table with a line for each package: on how many problems ours is faster, and how much, to each level."""
    head = "".join(f" to {100 * level:g}%: ours is faster | times | not reached |" for level in LEVELS)
    lines = [f"| package |{head}", "|---|" + "---|---|---|" * len(LEVELS)]
    for peer in PEERS:
        cells = []
        for level in LEVELS:
            values = np.array(list(figures.ratios(charts.plain(results), peer, POLISH, str(level)).values()))
            mean, never = figures.mean_ratio(values), int(np.isinf(values).sum())
            won = f"{int((values > 1.0).sum())} of {len(values)}" if values.size else "–"
            cells += [won, "–" if mean is None else f"{mean:.2g}", str(never or "–")]
        if cells[0] != "–":
            lines.append(f"| {peer} | {' | '.join(cells)} |")
    return lines


def losses(results: dict[str, Any], level: float) -> str:
    """Return a sentence on the sets on which another package is faster than ours by more than a tenth."""
    found: dict[str, tuple[float, str]] = {}
    for problem in charts.plain(results):
        own = figures.figure(problem, POLISH, str(level))
        others = {peer: figures.figure(problem, peer, str(level)) for peer in PEERS}
        least, first = min(((value, peer) for peer, value in others.items() if value is not None), default=(np.inf, ""))
        if own is not None and own > 1.1 * least:
            found[problem["set"]] = max(found.get(problem["set"], (0.0, "")), (own / least, first))
    listed = [f"{place} ({peer}, {ratio:.2g} times)" for place, (ratio, peer) in found.items()]
    return f"Another package is faster by more than a tenth to {100 * level:g}% on {', '.join(listed) or 'no set'}."


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


def page(results: dict[str, Any], captions: dict[str, str]) -> str:
    """Return the page in markdown; ``captions`` are those of the charts by name."""
    blocks = [TOP.format(headline=charts.headline(results))]
    for name, caption in captions.items():
        short = caption.partition(". ")[0].removesuffix(".")
        blocks.append(f"```{{figure}} _static/bench/{name}.svg\n:alt: {short}.\n:figclass: picture\n\n{caption}\n```\n")
    blocks += [WINS, *wins(results), "", *(losses(results, level) for level in LEVELS), ""]
    blocks += [f'One pass of the default, "{DEFAULT}", beside other single passes (medians):\n', *quality(results), ""]
    blocks += ["## Machine\n", *(f"- {line}" for line in present.about(results)), ""]
    blocks += ["All figures: {download}`bench.json <_static/bench/bench.json>`."]
    return "\n".join(blocks) + "\n"


def main() -> None:
    """Write the page, the charts and the raw figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bench", nargs="?", help="the results of sparsco bench --json (default: those of the site)")
    given = parser.parse_args()
    before = json.loads((FIGURES / "bench.json").read_text())
    results = slim(json.loads(Path(given.bench).read_text())) if given.bench else before
    results["scaling"] = list({each["axis"]: each for each in results["scaling"]}.values())  # files may repeat it
    captions = {}
    with rc_context(PAGE_STYLE):
        for name, chart, captions[name] in charts.every(results):
            chart.savefig(FIGURES / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight", facecolor="white")
    write_text(FIGURES / "bench.json", json.dumps(results))
    print(write_text(DOCS / "benchmarks.md", page(results, captions)))


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
