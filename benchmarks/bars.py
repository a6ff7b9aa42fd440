"""The goals of speed beside other packages, each measured and judged in one table.  ``make bench-bars``

The parts are

- ``levels``: L1 logistic regression with an intercept at a tenth and a fiftieth of the largest strength, to 1% and to
  0.1% of the optimum: ours, a polish or the default pass, is first, or within a tenth of the first;
- ``paths``: 32 strengths to gaps of 1e-3 and 1e-6, at most adelie's time, and three times that of one fit;
- ``groups``: a group lasso to 1% and to 0.1%, at most adelie's time on dense rows, a third of it on sparse ones;
- ``passes``: one default pass takes at most the time of one pass of scikit-learn's SGD, with a lower objective;
- ``start``: the first fit of a new process, beside the import of scikit-learn;
- ``scale``: rows from a generator: flat speed and memory, and the same bits after a kill.

The measurements are those of ``sparsco bench``, ``make bench-engine`` and ``sparsco bench --scale``, in CPU time, the
minimum of interleaved rounds.  They are kept.  After a change of our sources only ours are
measured again; ``--again PACKAGE`` measures a package again.  Packages and sets that are missing are named.  Figures
that were not measured in one run compare two states of the machine: ``--again all`` measures everything side by side.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import engine
from threadpoolctl import threadpool_limits

from sparsco.bench import figures, sets, streamed, suite
from sparsco.bench.kept import OURS, Kept, opened, version_of
from sparsco.bench.methods import BARE, DEFAULT, L1, METHODS, POLISH
from sparsco.bench.present import short_ms
from sparsco.bench.problems import measuring
from sparsco.bench.problems.definitions import PROBLEMS, STRENGTHS
from sparsco.bench.problems.definitions import SETS as PROBLEM_SETS
from sparsco.util.folders import cache_folder

SETS = ("dense-100k", "rcv1-100k", "rcv1-200k", "ctr-1m", "a9a", "w8a", "imdb", "news20", "mnist23", "sms", "mushrooms")
QUICK = ("dense-2k", "rcv1-2kx5k")
PASSES = {True: ("rcv1-2kx5k",), False: ("rcv1-200k", "ctr-1m", "wide-85k")}
SGD = "sklearn sgd"
NEAR = 1.1
"""The largest share of the first one's time that counts as first."""
NAMED = {"dense-100k": "adelie", "w8a": "snapml", "a9a": "adelie"}
"""Packages whose time is the limit on a set, without a tolerance."""
PATH_LEVELS, PATH_OVER_FIT = (1e-3, 1e-6), 3.0
SPARSE_GROUPS = 1.0 / 3.0
PATIENCE = 3.0
FIRST_FIT = 0.8
FLAT, MEMORY = 0.1, 0.05
"""The largest change of speed over a run, and of memory after its first tenth, as shares."""


class Bar(NamedTuple):
    """A figure of ours, that of the first peer, and the largest ratio of the two; None: not reached."""

    what: str
    ours: float | None
    peer: str
    theirs: float | None
    most: float
    unit: str = "ms"

    @property
    def holds(self) -> bool:
        """Return whether ours is small enough; it is if no peer has a figure."""
        return self.ours is not None and (self.theirs is None or self.ours <= self.most * self.theirs)

    def row(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        ratio = "–" if self.ours is None or not self.theirs else f"{self.ours / self.theirs:.2f}"
        cells = (figure(self.ours, self.unit), self.peer, figure(self.theirs, self.unit), ratio, f"{self.most:.2g}")
        return (self.what, *cells, "yes" if self.holds else "NO")


def figure(value: float | None, unit: str) -> str:
    """Return a figure with its unit; a dash if it was not reached."""
    return "–" if value is None else f"{short_ms(value)} {unit}".rstrip()


def first(times: dict[str, float | None]) -> tuple[str, float | None]:
    """Return the peer with the least time, and that time.

    >>> first({"a": 3.0, "b": 2.0, "c": None}), first({"c": None})
    (('b', 2.0), ('none', None))
    """
    reached = {name: taken for name, taken in times.items() if taken is not None}
    name = min(reached, key=lambda each: reached[each], default="none")
    return name, reached.get(name)


class Run(NamedTuple):
    """What a run of the bars was asked for."""

    sets: Sequence[str] | None
    quick: bool
    rounds: int
    scale: str
    seconds: float
    kept: Kept
    say: Callable[[str], None]

    def measured(self, places: Sequence[str], parts: Sequence[str], methods: Sequence[str]) -> list[dict[str, Any]]:
        """Return the problems of the benchmark on the sets that are there."""
        wanted = [name for name in places if self.sets is None or name in self.sets]
        there = {*sets.real()}
        absent = [name for name in wanted if name in sets.REFERENCE and name not in there]
        plan = suite.Plan(
            [name for name in wanted if name not in absent],
            [METHODS[name] for name in methods],
            self.rounds,
            len(sets.SHARES),
            PATIENCE,
            parts,
            absent=absent,
            shares=sets.SHARES,
            kinds=(L1,),
        )
        problems: list[dict[str, Any]] = suite.run(plan, self.kept, self.say, lambda results: None)["problems"]
        return problems

    def beside_adelie(self, name: str) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the lines of a problem by title and solver: ours and adelie."""
        places = [place for place in PROBLEM_SETS[name][self.quick] if self.sets is None or place in self.sets]
        packages = ["adelie"] if version_of("adelie") else []
        out: dict[str, dict[str, dict[str, Any]]] = {}
        for task in (task for place in places for task in PROBLEMS[name](place)):
            makers = measuring.makers_of(task.form, packages)
            lines = measuring.measured(task, makers, self.rounds, self.kept, self.say, {})
            out[task.title] = {line["solver"]: line for line in lines}
        return out


def ms(problem: dict[str, Any], name: str, what: str) -> float | None:
    """Return a method's CPU ms; None if it did not get there."""
    seconds = figures.figure(problem, name, what)
    return None if seconds is None else 1e3 * seconds


def level_bars(run: Run) -> Iterator[Bar]:
    """Yield the bars of single strengths."""
    others = [method.name for method in METHODS.values() if not method.ours and L1 in method.problems]
    for problem in run.measured(QUICK if run.quick else SETS, ["levels"], [BARE, DEFAULT, POLISH, *others]):
        for level in suite.LEVELS:
            what = f"{problem['set']}, lam {problem['lam']:.3g}, to {100 * level:g}%"
            times = {name: ms(problem, name, str(level)) for name in (POLISH, DEFAULT, *others)}
            name, ours = first({name: times.pop(name) for name in (POLISH, DEFAULT)})
            what += ", default pass" if name == DEFAULT else ""
            yield Bar(what, ours, *first(times), NEAR)
            peer = NAMED.get(problem["set"])
            if peer is not None and times[peer] is not None:
                yield Bar(f"{what}, at most {peer}", ours, peer, times[peer], 1.0)


def path_bars(run: Run) -> Iterator[Bar]:
    """Yield the bars of paths."""
    found = run.beside_adelie("path")
    for title, lines in found.items():
        if not title.endswith(f", {STRENGTHS} strengths") or ", the smallest" in title:
            continue
        place = lines["sparsco path"]["place"]
        alone = found[f"{place}, the smallest of {STRENGTHS} strengths"]["sparsco polish"]
        for level in PATH_LEVELS:
            _, ours = first({name: line["ms"][str(level)] for name, line in lines.items() if line["package"] == OURS})
            if "adelie" in lines:
                yield Bar(f"{title}, gap {level:g}", ours, "adelie", lines["adelie"]["ms"][str(level)], 1.0)
            what = f"{title}, gap {level:g}, beside one fit"
            yield Bar(what, ours, "sparsco polish, one fit", alone["ms"][str(level)], PATH_OVER_FIT)


def group_bars(run: Run) -> Iterator[Bar]:
    """Yield the bars of groups."""
    for title, lines in run.beside_adelie("group").items():
        most = 1.0 if title.startswith("dense") else SPARSE_GROUPS
        for level in suite.LEVELS:
            if "adelie" in lines:
                theirs = lines["adelie"]["ms"][str(level)]
                yield Bar(
                    f"{title}, to {100 * level:g}%", lines["sparsco polish"]["ms"][str(level)], "adelie", theirs, most
                )


def pass_bars(run: Run) -> Iterator[Bar]:
    """Yield the bars of one default pass."""
    for problem in run.measured(PASSES[run.quick], [], [BARE, DEFAULT, POLISH, SGD]):
        what = f"{problem['set']}, lam {problem['lam']:.3g}, one pass"
        yield Bar(what, ms(problem, DEFAULT, "pass"), SGD, ms(problem, SGD, "pass"), 1.0)
        gaps = [figures.figure(problem, name, "gap") for name in (DEFAULT, SGD)]
        yield Bar(f"{what}, above the optimum", gaps[0], SGD, gaps[1], 1.0, "")


def start_bars(run: Run) -> Iterator[Bar]:
    """Yield the bar of the first fit of a new process; scikit-learn's own import stands beside it."""
    whole, imported = engine.first_fit(1 if run.quick else 5)
    what = f"first fit in a new process, {imported:.2f} s of it the import of scikit-learn"
    yield Bar(what, whole, "the limit", FIRST_FIT, 1.0, "s")


def scale_bars(run: Run) -> Iterator[Bar]:
    """Yield the bars of rows from a generator."""
    line = streamed.measured(run.scale, run.seconds, run.say, [DEFAULT], is_killed=True)[0]
    what = f"{run.scale}, {line['rows']:,} rows"
    yield Bar(f"{what}, change of speed", line["unevenness"], "the limit", FLAT, 1.0, "")
    yield Bar(f"{what}, the same over the bare pass", line["unevenness_over_bare"], "the limit", FLAT, 1.0, "")
    yield Bar(f"{what}, growth of memory", line["memory_growth"] / line["memory"], "the limit", MEMORY, 1.0, "")
    yield Bar(
        f"{what}, bits that differ after a kill", float(line["bits_after_kill"] != "equal"), "the limit", 0.0, 1.0, ""
    )


PARTS: dict[str, Callable[[Run], Iterator[Bar]]] = {
    "levels": level_bars,
    "paths": path_bars,
    "groups": group_bars,
    "passes": pass_bars,
    "start": start_bars,
    "scale": scale_bars,
}


def table(bars: Sequence[Bar]) -> str:
    """Return the table in Markdown."""
    head = ("bar", "ours", "first peer", "its figure", "ratio", "at most", "holds")
    return "\n".join(
        "| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *(bar.row() for bar in bars))
    )


def main() -> int:
    """Measure what is missing, and print the table of each part."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small sets")
    parser.add_argument("--sets", nargs="+", metavar="SET", help="only these sets (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", default="ctr-1b", metavar="SET", help="the generated rows (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=300.0, help="of learning them (default: %(default)g)")
    parser.add_argument(
        "--again", nargs="+", default=[], metavar="PACKAGE", help="measure again, such as sparsco, or all"
    )
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}: choose of {', '.join(PARTS)}")
    again = {method.package for method in METHODS.values()} if "all" in options.again else {*options.again}
    quick = "-quick" if options.quick else ""
    kept = opened(cache_folder("bench"), f"bench{quick}", True, again)
    run = Run(
        options.sets,
        options.quick,
        options.rounds,
        options.scale,
        options.seconds,
        kept,
        lambda line: print(line, file=sys.stderr, flush=True),
    )
    warnings.simplefilter("ignore")
    held = total = 0
    with threadpool_limits(1):
        for part in options.parts:
            bars = list(PARTS[part](run))
            held, total = held + sum(bar.holds for bar in bars), total + len(bars)
            print(f"## {part}\n\n{table(bars)}\n", flush=True)
    print(f"{held} of {total} bars hold.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
