"""The command ``bench``: sparsco and other packages side by side."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..util.atomic_files import real
from .options import FINE, check_writable, command, positive, to_json

if TYPE_CHECKING:
    from ..bench import suite

_EXAMPLE = """  sparsco bench --quick                                    small sets, half a minute
  sparsco bench --sets rcv1-20k --methods scikit-learn skglm --report bench.html
  sparsco bench --problems path group --methods adelie     paths of 32 strengths and groups of features
  sparsco bench --json bench.json --markdown bench.md --resume
  sparsco bench --from bench.json --report bench.html      show saved results again
  sparsco bench --resume --again sparsco                   measure ours again; others are kept
  sparsco bench --scale ctr-1b --seconds 600 --kill        as many of 10^9 generated rows as ten minutes allow

Packages that are not installed are left out: vowpalwabbit, river, skglm, celer, sklearn-contrib-lightning,
adelie, glum, snapml, skein-glm.
Real sets that are not in SPARSCO_DATA are left out, unless they are named.

exit code:
    0  success
    2  bad argument or missing data
    3  a file could not be written
  130  interrupted (Ctrl-C); finished measurements are kept for --resume"""
_SINGLE = "single"
_PROBLEMS = (_SINGLE, "path", "group", "classes", "regression")
_MEASURING = (
    "quick",
    "problems",
    "sets",
    "methods",
    "rounds",
    "strengths",
    "shares",
    "patience",
    "skip",
    "resume",
    "again",
)
"""The options that have no meaning together with --from."""


def add(commands: argparse._SubParsersAction) -> None:
    """Add the command to the parser."""
    to = command(commands, "bench", "measure sparsco and other packages side by side", _EXAMPLE)
    _add_measuring(to)
    _add_scale(to)
    _add_files(to)
    to.set_defaults(run=_bench)


def _add_measuring(to: argparse.ArgumentParser) -> None:
    """Add the options that decide what is measured."""
    to.add_argument(
        "--quick", action="store_true", help="use small sets, two rounds and one strength; do not measure memory"
    )
    to.add_argument(
        "--problems",
        nargs="+",
        choices=_PROBLEMS,
        help="logistic regressions with single weights (default), paths of 32 strengths, groups of features, several "
        "classes, least squares; all but the first have sets of their own, unless --sets names some",
    )
    to.add_argument(
        "--sets",
        nargs="+",
        metavar="SET",
        help="data sets such as rcv1-200k, dense-200k, a9a, or usual, real, all (default: usual and real)",
    )
    to.add_argument("--methods", nargs="+", metavar="METHOD", help="methods or packages (default: all)")
    to.add_argument("--rounds", type=positive, metavar="N", help="number of rounds (default: 5; quick: 2)")
    to.add_argument(
        "--strengths", type=positive, metavar="N", help="number of strengths on each set (default: 2; quick: 1)"
    )
    to.add_argument(
        "--shares",
        nargs="+",
        type=float,
        metavar="X",
        help="strengths on each set as shares of the largest that selects a feature (default: 0.1 0.02; real sets: "
        "their own two)",
    )
    to.add_argument(
        "--patience",
        type=float,
        metavar="X",
        help="stop other packages after X times our own time (default: 10; quick: 3)",
    )
    to.add_argument(
        "--skip", nargs="+", choices=("levels", "memory", "scaling"), default=[], help="leave these parts out"
    )
    to.add_argument("--resume", action="store_true", help="reuse the finished measurements of an earlier run")
    to.add_argument(
        "--again", nargs="+", metavar="PACKAGE", help="with --resume: measure these packages again, such as sparsco"
    )


def _add_scale(to: argparse.ArgumentParser) -> None:
    """Add the options of generated rows."""
    to.add_argument(
        "--scale",
        nargs="+",
        metavar="SET",
        help="instead, learn rows of these sets, wide-850k, ctr-1b or other sizes, from a generator; nothing is held",
    )
    to.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="with --scale: seconds of each pass, after which the rest is extrapolated (default: 60)",
    )
    to.add_argument(
        "--kill",
        action="store_true",
        help="with --scale: learn the rows once more in a process that is killed and resumed, and compare the bits",
    )


def _add_files(to: argparse.ArgumentParser) -> None:
    """Add the options of what is shown and written."""
    to.add_argument("--list", action="store_true", help="list sets, problems and methods, and exit")
    to.add_argument(
        "--json",
        metavar="FILE",
        help="write all results as JSON to FILE; - prints them to stdout instead of the tables",
    )
    to.add_argument("--markdown", metavar="FILE", help="write the tables to FILE")
    to.add_argument("--report", metavar="FILE.html", help="write the tables and the plots as one HTML file")
    to.add_argument(
        "--from",
        dest="source",
        nargs="+",
        metavar="FILE",
        help="measure nothing; show the results in these --json files together",
    )


def _bench(given: argparse.Namespace) -> int:
    from ..bench import kept, present, suite
    from ..util.atomic_files import write_text
    from ..util.folders import cache_folder

    if given.list:
        return _list()
    if given.scale:
        return _scale(given)
    if given.seconds is not None or given.kill:
        raise ValueError(f"{'--kill' if given.kill else '--seconds'} is for --scale.")
    beside = [f"--{name}" for name in _MEASURING if getattr(given, name)]
    if given.source and beside:
        raise ValueError(f"--from measures nothing: leave {', '.join(beside)} out.")
    files = [file for file in (given.json, given.markdown, given.report) if file not in (None, "-")]
    for file in files:
        check_writable(Path(file), *(given.source or []))
    if len({real(file) for file in files}) < len(files):
        raise ValueError("--json, --markdown and --report must be different files.")
    _check_measuring(given)

    def save(results: dict[str, Any]) -> None:
        if given.json and given.json != "-":
            write_text(given.json, to_json(results) + "\n")
        if given.markdown:
            write_text(given.markdown, present.as_markdown(results))

    if given.source:
        results = _together([_read(file) for file in given.source])
    else:
        plan = _plan(given)
        study = "bench-quick" if given.quick else "bench"
        measured = kept.opened(cache_folder("bench"), study, given.resume, given.again or ())
        try:
            results = suite.run(plan, measured, lambda line: print(line, file=sys.stderr, flush=True), save)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted: the finished measurements are kept, --resume continues.") from None
    save(results)
    print(to_json(results) + "\n" if given.json == "-" else present.as_markdown(results), end="")
    if given.report:
        print(f"report: {present.write_page(given.report, results)}", file=sys.stderr)
    return FINE


def _list() -> int:
    """Print the sets of each problem, and the methods."""
    from ..bench import methods, sets
    from ..bench.problems import definitions

    print("sets:   ", ", ".join((*sets.USUAL, *sets.LONG, *sets.real())))
    for name, places in definitions.SETS.items():
        print(f"--problems {name}:", ", ".join(places[False]))
    for method in methods.METHODS.values():
        print(f"{method.name:24} {', '.join(method.problems):40} {method.missing}".rstrip())
    return FINE


def _plan(given: argparse.Namespace) -> suite.Plan:
    """Return what is to be measured."""
    from ..bench import methods, sets, suite
    from ..bench.problems.definitions import places_of

    wanted = list(dict.fromkeys(given.problems or [_SINGLE]))
    named, absent = sets.names(given.sets, given.quick) if _SINGLE in wanted else ([], [])
    parts = [part for part in suite.PARTS if part not in given.skip and (part != "memory" or not given.quick)]
    return suite.Plan(
        named,
        methods.chosen(given.methods),
        given.rounds or (2 if given.quick else 5),
        len(given.shares or ()) or given.strengths or (1 if given.quick else 2),
        given.patience or (3.0 if given.quick else 10.0),
        parts if named else [],
        given.quick,
        absent,
        given.shares or (),
        others={name: places_of(name, given.sets, given.quick) for name in wanted if name != _SINGLE},
    )


def _check_measuring(given: argparse.Namespace) -> None:
    """Raise for options of a measurement that exclude each other, or that are out of range."""
    from ..bench import methods

    if given.patience is not None and not given.patience > 0.0:
        raise ValueError(f"--patience must be positive, got {given.patience:g}.")
    alone = [f"--{name}" for name in ("strengths", "shares", "patience", "skip") if getattr(given, name)]
    if alone and given.problems and _SINGLE not in given.problems:
        raise ValueError(f"{alone[0]} is for --problems {_SINGLE} only.")
    if given.shares and given.strengths:
        raise ValueError("--shares are the strengths: leave --strengths out.")
    for share in given.shares or ():
        if not 0.0 < share < 1.0:
            raise ValueError(f"--shares must be between 0 and 1, got {share:g}.")
    if given.again and not given.resume:
        raise ValueError("--again is for --resume: without it everything is measured again.")
    packages = {method.package for method in methods.METHODS.values()}
    for name in given.again or ():
        if name not in packages:
            raise ValueError(f"--again: there is no package {name!r}: choose from {', '.join(sorted(packages))}.")


def _scale(given: argparse.Namespace) -> int:
    """Measure passes over rows from a generator, and print their table."""
    from ..bench import measure, present, streamed
    from ..util.atomic_files import write_text

    beside = [f"--{name}" for name in (*_MEASURING, "markdown", "report") if getattr(given, name)]
    if beside or given.source:
        raise ValueError(f"--scale measures generated rows only: leave {', '.join(beside or ['--from'])} out.")
    seconds = 60.0 if given.seconds is None else given.seconds
    if not seconds > 0.0:
        raise ValueError(f"--seconds must be positive, got {seconds:g}.")
    measure.check_clock()
    for name in given.scale:
        streamed.parsed(name)
    if given.json not in (None, "-"):
        check_writable(Path(given.json))
    lines = []
    for name in given.scale:
        say = partial(print, file=sys.stderr, flush=True)
        lines += streamed.measured(name, seconds, say, is_killed=given.kill)
    results = {"machine": measure.machine(), "ended": measure.now(), "load": measure.load(), "lines": lines}
    if given.json and given.json != "-":
        write_text(given.json, to_json(results) + "\n")
    print(to_json(results) if given.json == "-" else present.table_markdown(present.scale_table(lines)))
    return FINE


def _together(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the results of several runs as one."""
    last = runs[-1]
    measured = {each["set"] for run in runs for each in run["problems"]}
    return runs[0] | {
        "problems": [each for run in runs for each in run["problems"]],
        "scaling": [each for run in runs for each in run["scaling"]],
        "lines": [each for run in runs for each in run["lines"]],
        "left_out": {name: why for run in runs for name, why in run["left_out"].items() if name not in measured},
        "ended": last["ended"],
        "load_after": last["load_after"],
    }


def _read(path: str) -> dict[str, Any]:
    try:
        results = json.loads(Path(path).read_text())
        return results | {key: results[key] for key in ("machine", "problems", "scaling", "lines")}
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"--from: {path} does not hold results of sparsco bench: give a file that --json wrote."
        ) from None
