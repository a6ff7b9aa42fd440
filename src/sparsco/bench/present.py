"""The results of a benchmark as tables in markdown and as an HTML page with plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..util import html
from . import charts
from .figures import figure, mean_ratio, ratios, title
from .methods import BARE, DEFAULT, FOBOS, METHODS, POLISH
from .sets import REFERENCE
from .suite import LEVELS

LEGEND = (
    "Times are milliseconds of CPU time: the minimum of all rounds (median, maximum). Wall-clock times are beside "
    "them. A pass reads every row once, in the order of the rows, and ends with a model. It reads from "
    "memory (vw: from "
    "a file). gap: the relative distance of the objective from the optimum. F1: the selected features against those of "
    "the optimum. To 1% and to 0.1%: the whole fit of the cheapest setting, from loose to strict, that comes as near. "
    "A dash: not reached before a fit took `patience` times as long as our polish. Memory: MB that a fit takes beyond "
    "the rows, in a separate process. The time to prepare the input is not counted. The input is a matrix by columns "
    "for skglm, celer, adelie, glum, snapml, skein (sparse rows) and lightning's coordinate descent, dicts for River, "
    "files for vw."
)
BARS: dict[tuple[str, float], tuple[str, float]] = {
    **{(peer, 1e-2): ("share", 1.0) for peer in ("skglm", "celer", "sklearn saga")},
    **{(peer, 1e-3): ("share", 0.9) for peer in ("skglm", "celer", "sklearn saga")},
    ("sklearn liblinear", 1e-2): ("mean", 1.3),
    ("sklearn liblinear", 1e-3): ("mean", 1.1),
}
"""The goals of our polish: the share of problems on which it is faster, or the geometric mean of ratios."""


WINS = "Wins and losses"
OTHER_PROBLEMS = "Paths, groups, several classes and least squares"
JUDGED = ("rcv1-20k", "rcv1-200k", *REFERENCE)
"""The sets to which the bars apply."""


class Table(NamedTuple):
    """A titled table; the first column names the row."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    note: str = ""


# --- all tables -------------------------------------------------------------------------------------------------------


def tables(results: dict[str, Any]) -> list[Table]:
    """Return all tables: wins and losses first, then paths, groups and others, then every problem, then growth."""
    out = [_against(results["problems"])] if results["problems"] else []
    out += [problem_table(results["lines"])] if results["lines"] else []
    out += [_problem(problem) for problem in results["problems"]]
    return out + list(_scaling(results["scaling"]))


def about(results: dict[str, Any]) -> list[str]:
    """Return lines on the time, the machine, the versions, and what is missing."""
    machine = results["machine"]
    known = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    lines = [
        f"{results['begun']} to {results['ended']}; load average {_cell(results['load_before'])} before, "
        f"{_cell(results['load_after'])} after.",
        f"{machine['processor']}, {machine['cores']} cores, {machine['system']}; threads: {machine['threads']}.",
        f"sparsco {machine['sparsco']}, Python {machine['python']}, {known}.",
    ]
    return [*lines, _left_out(results)]


def _left_out(results: dict[str, Any]) -> str:
    """Return a line on what was not measured: the sets of each package, and the first of its reasons."""
    missing, failed = [*results["left_out"].values()], dict[str, dict[str, str]]()
    for problem in results["problems"]:
        for name, why in problem["failed"].items():
            failed.setdefault(name, {}).setdefault(problem["set"], why)
    missing += [f"{name} on {', '.join(sets)} ({next(iter(sets.values()))})" for name, sets in failed.items()]
    return "Left out: " + ("; ".join(missing) if missing else "nothing") + "."


def _cell(value: Any) -> str:
    if isinstance(value, float) and 1e3 <= abs(value) < 1e6:
        return f"{value:,.0f}"
    if isinstance(value, float):
        return f"{value:.3g}" if 1e-3 <= abs(value) < 1e3 or value == 0.0 else f"{value:.1e}"
    return f"{value:,}" if isinstance(value, int) else html.cell(value)


def _ms(times: dict[str, float] | None) -> str:
    if times is None:
        return "–"
    least, median, most = (_cell(1e3 * times[key]) for key in ("min", "median", "max"))
    return f"{least} ({median}, {most})"


# --- wins and losses --------------------------------------------------------------------------------------------------


def _against(problems: Sequence[dict[str, Any]]) -> Table:
    """Return a table of how often ours is better than each other method, by how much, and where it is not."""
    rows = []
    for peer in [method.name for method in METHODS.values() if not method.ours]:
        comparisons = [("CPU time of a pass", ours, "pass") for ours in (FOBOS, DEFAULT)]
        comparisons += [("gap after a pass", DEFAULT, "gap")]
        comparisons += [(f"CPU time to {100 * level:g}%", POLISH, str(level)) for level in LEVELS]
        for what, ours, key in comparisons:
            found = ratios(problems, peer, ours, key)
            if not found:
                continue
            values = np.array(list(found.values()))
            won, lost = int((values > 1.0).sum()), {name: each for name, each in found.items() if each <= 1.0}
            apart = int((~np.isfinite(values) | (values == 0.0)).sum())
            listed = "; ".join(f"{name} ({_cell(lost[name])})" for name in sorted(lost, key=lambda name: lost[name]))
            bar = _bar(problems, peer, ours, key)
            average = _cell(mean_ratio(values)) + (f" ({apart} reached by one of the two only)" if apart else "")
            rows.append((peer, what, ours, f"{won} of {len(values)}", average, bar, listed or "none"))
    header = ("against", "what", "ours", "ours is better", "theirs / ours, geometric mean", "bar", "not better")
    return Table(WINS, header, rows)


def _bar(problems: Sequence[dict[str, Any]], peer: str, ours: str, key: str) -> str:
    """Return the verdict over the judged sets."""
    judged = [problem for problem in problems if problem["set"] in JUDGED and problem["rho"] == 0.0]
    if key in ("pass", "gap") or (peer, float(key)) not in BARS or not judged:
        return ""
    values, (kind, limit) = np.array(list(ratios(judged, peer, ours, key).values())), BARS[peer, float(key)]
    mean = mean_ratio(values)
    holds = (values > 1.0).mean() >= limit if kind == "share" else mean is None or mean >= limit
    wanted = f"mean ≥ {limit}" if kind == "mean" else "every one" if limit == 1.0 else "nine in ten"
    return f"{wanted}: {'holds' if holds else 'MISSED'}"


# --- one problem ------------------------------------------------------------------------------------------------------


def _solvers(optimum: dict[str, Any]) -> str:
    """Return the solvers that found the optimum, to eight digits."""
    nearly = optimum["objective"] + 1e-8 * abs(optimum["objective"])
    return " and ".join(name for name, value in optimum["objectives"].items() if value <= nearly)


def _problem(problem: dict[str, Any]) -> Table:
    optimum = problem["optimum"]
    bare = figure(problem, BARE, "pass")
    rows = []
    for line in problem["methods"]:
        one, levels = line["pass"], line["levels"]
        shown = one or (levels[min(levels, key=float)] if levels else line["tried"][-1])
        name = line["method"]
        if line["rows"] and line["rows"] < problem["rows"]:
            name += f", first {line['rows']:,} rows"
        times = _cell(one["ns_per_nonzero"] / (1e9 * bare / problem["nonzeros"])) if one and bare else "–"
        rows.append(
            (
                name,
                _ms(one and one["cpu"]),
                _ms(one and one["wall"]),
                _cell(one and one["ns_per_nonzero"]),
                times,
                _cell(shown["gap"]),
                _cell(shown["nonzeros"]),
                _cell(shown["f1"]),
                _cell(shown["test_error"]),
                *(_ms(levels.get(str(level), {}).get("cpu")) for level in LEVELS),
                _cell(line["memory"]),
            )
        )
    header = (
        "method",
        "pass, CPU ms",
        "clock ms",
        "ns per nonzero",
        "times bare",
        "gap",
        "nonzeros",
        "F1",
        "test error",
        *(f"to {100 * level:g}%, CPU ms" for level in LEVELS),
        "memory MB",
    )
    note = (
        f"{problem['rows']:,} rows, {problem['features']:,} features, {problem['nonzeros']:,} nonzeros. Optimum "
        f"{optimum['objective']:.8g} by {_solvers(optimum)}, off by at most {optimum['off_by_at_most']:.1e} of it; "
        f"{optimum['support']:,} features, test error {_cell(optimum['test_error'])}. "
        f"{problem['rounds']} rounds, patience {problem['patience']:g}, load {_cell(problem['load'])}. "
        "Gap, nonzeros, F1 and test error are those after one pass, for batch solvers those of the strictest setting."
    )
    return Table(title(problem), header, rows, note)


# --- paths, groups, several classes, least squares ----------------------------------------------------------------


def problem_table(lines: Sequence[dict[str, Any]]) -> Table:
    """Return the table of problems that are not one logistic regression with single weights."""
    header = ("problem", "solver", *(f"ms to {float(level):g}" for level in lines[0]["ms"]), "least gap")
    rows = [
        (line["problem"], line["solver"], *map(short_ms, line["ms"].values()), _cell(line["gap"])) for line in lines
    ]
    note = (
        "CPU ms to a relative gap: the minimum of interleaved rounds, the cheapest setting that comes as near to the "
        "least objective of all fits. The gap of a path is the largest of its strengths. A dash: not reached."
    )
    return Table(OTHER_PROBLEMS, header, rows, note)


def short_ms(ms: float | None) -> str:
    """Return a time with three digits or more; a dash for none.

    >>> short_ms(1234.5), short_ms(0.5), short_ms(None)
    ('1,234', '0.5', '–')
    """
    return "–" if ms is None else f"{ms:,.0f}" if ms >= 100.0 else f"{ms:.3g}"


# --- growth -----------------------------------------------------------------------------------------------------------


def _scaling(scaling: Sequence[dict[str, Any]]) -> Iterator[Table]:
    for each in scaling:
        if each["axis"] in ("rows", "features"):
            names = list(each["points"][0]["cpu"])
            rows = [
                (
                    f"{point['rows']:,} x {point['features']:,}",
                    f"{point['nonzeros']:,}",
                    *(_ms(point["cpu"][name]) for name in names),
                )
                for point in each["points"]
            ]
            yield Table(
                f"A pass as {each['axis']} grow, CPU ms",
                ("rows x features", "nonzeros", *names),
                rows,
                f"Load {_cell(each['load'])}.",
            )
        elif each["axis"] == "growth" and "over_bare" in each:
            rows = [
                (
                    name,
                    _cell(each["growth"][name]),
                    _cell(over),
                    f"≤ {each['bar']}",
                    "holds" if over <= each["bar"] else "MISSED",
                )
                for name, over in each["over_bare"].items()
            ]
            yield Table(
                f"Growth of a pass from {each['from']:,} to {each['to']:,} features at the same nonzeros",
                ("method", "growth", "over the bare pass's", "bar", ""),
                rows,
                f"The bare pass grows {_cell(each['growth'][BARE])} times. Fits hold arrays of all features: a part of "
                "their cost does not depend on the number of rows. Learning alone is what each example adds.",
            )
        elif each["axis"] == "threads":
            verdict = "holds" if each["faster"] >= each["bar"] else "MISSED"
            yield Table(
                f"Five folds, 32 strengths, on {each['set']}: threads",
                ("threads", "clock ms"),
                [(k, _ms(taken)) for k, taken in each["wall"].items()],
                f"{each['faster']:.2f} times faster on two threads (bar: {each['bar']}, {verdict}). "
                f"Load {_cell(each['load'])}.",
            )


def _share(value: float) -> str:
    return f"±{100 * value:.0f}%"


def _kill(line: dict[str, Any]) -> str:
    """Return whether the bits were equal, and at which rows; a dash if nothing was killed."""
    if line["bits_after_kill"] is None:
        return "–"
    return f"{line['bits_after_kill']}; killed at row {line['killed_at']:,}, resumed from {line['resumed_from']:,}"


def scale_table(lines: Sequence[dict[str, Any]]) -> Table:
    """Return the table of passes over rows that are generated in chunks."""
    rows = []
    for line in lines:
        estimate = line["extrapolated_cpu"]
        rows.append(
            (
                f"{line['set']}, {line['method']}",
                f"{line['rows']:,} of {line['total']:,}",
                _cell(line["cpu"]),
                _cell(line["wall"]),
                "–" if estimate is None else f"{_cell(estimate)} (extrapolated)",
                _cell(round(line["rows_per_second"])),
                _share(line["unevenness"]),
                _share(line["unevenness_over_bare"]),
                _cell(line["memory"]),
                _cell(line["memory_growth"]),
                f"{line['error']:.4f}",
                f"{line['least_error']:.4f}",
                _cell(line["features"]),
                _kill(line),
            )
        )
    header = (
        "set, method",
        "rows learned",
        "CPU s",
        "clock s",
        "CPU s of all rows",
        "rows per CPU s",
        "speed even to",
        "over the bare pass",
        "memory MB",
        "growth",
        "error",
        "least error",
        "features",
        "bits after a kill",
    )
    note = (
        "One pass over rows that are generated in chunks and never held. Times are those of learning and of the model "
        "at the end, not of the generator. Speed is that of ten parts of the run, without the first chunk; beside it "
        "the same for its ratio to the bare pass over the same chunks. Memory includes a chunk. Growth: of its median, "
        "from the second part to the last. Error: on 20,000 rows that follow the last row of the set."
    )
    return Table("Rows from a generator", header, rows, note)


# --- files ------------------------------------------------------------------------------------------------------------


def as_markdown(results: dict[str, Any]) -> str:
    """Return all tables in markdown."""
    blocks = ["\n".join(f"- {line}" for line in about(results)), LEGEND]
    return "\n\n".join([*blocks, *map(table_markdown, tables(results))]) + "\n"


def table_markdown(table: Table) -> str:
    """Return one table in markdown."""
    lines = [f"### {table.title}", ""]
    lines += [table.note, ""] if table.note else []
    return "\n".join([*lines, _line(table.header), "|" + "---|" * len(table.header), *map(_line, table.rows)])


def _line(row: Sequence[Any]) -> str:
    return "| " + " | ".join(html.cell(value).replace("|", "\\|").replace("\n", " ") for value in row) + " |"


def write_page(path: str | Path, results: dict[str, Any]) -> Path:
    """Write the headline, the charts and the tables to one HTML file."""
    blocks = [*_plots(results)]
    for table in tables(results):
        block = (html.text(table.note) if table.note else "") + html.table(table.header, table.rows)
        is_first = table.title in (WINS, OTHER_PROBLEMS)
        blocks += [html.heading(table.title), block] if is_first else [html.details(table.title, block)]
    blocks += [html.heading("How it was measured"), *(html.text(line) for line in (*about(results), LEGEND))]
    return html.write(path, charts.headline(results), blocks)


@html.with_plots
def _plots(results: dict[str, Any]) -> list[str]:
    """Return the charts as blocks of a page, and the distance from the optimum against time for every problem."""
    found = [html.figure(chart, caption) for _, chart, caption in charts.every(results)]
    tried = "".join(html.figure(*each) for each in charts.tried(results))
    return [*found, html.details("The distance from the optimum against time, for every problem", tried)]
