"""The command ``reproduce``."""

from __future__ import annotations

import argparse
import sys

from ..util.folders import cores
from .options import FINE, UNEXPECTED, check_outputs, command, positive


def add(commands: argparse._SubParsersAction) -> None:
    """Add the command to the parser."""
    to = command(
        commands,
        "reproduce",
        "rerun tables and figures of the papers, and compare them cell by cell",
        "  sparsco reproduce --list\n"
        "  sparsco reproduce aaai-table-1 --trials 40 --report table.html\n"
        "  sparsco reproduce all --quick\n"
        "\nexit code:\n"
        "    0  all cells agree, or differ for a known reason\n"
        "    1  a cell differs for an unknown reason\n"
        "    2  bad argument or missing data\n"
        "    3  a file could not be written\n"
        "    4  a computation failed\n"
        "  130  interrupted (Ctrl-C); finished trials are kept for --resume",
    )
    to.add_argument("keys", nargs="*", metavar="KEY", help="tables and figures, a paper's name, or all")
    to.add_argument("--list", action="store_true", help="list all keys and exit")
    to.add_argument("--quick", action="store_true", help="run shorter streams and two trials; no cell is compared")
    to.add_argument(
        "--trials",
        type=positive,
        metavar="N",
        help="number of independent repetitions (default: that of the experiment)",
    )
    to.add_argument(
        "--jobs", type=positive, metavar="N", default=cores(), help="number of processes (default: %(default)s)"
    )
    to.add_argument("--pairs", nargs="+", type=_pair, metavar="A,B", help="use other pairs of digits, or `all` 45")
    to.add_argument(
        "--json", metavar="FILE", help="write all cells as JSON to FILE; - prints them to stdout instead of the tables"
    )
    to.add_argument("--report", metavar="FILE.html", help="write the tables and the plots as one HTML file")
    to.add_argument("--resume", action="store_true", help="reuse the finished trials of an earlier run")
    to.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from ..datasets.registry import MissingDataError
    from ..reproduce import definition, present, verdicts
    from ..reproduce.run import Workers, results_of
    from ..util.atomic_files import write_text
    from ..util.folders import cache_folder
    from ..util.progress import Bar
    from ..util.result_store import Stores

    if given.list:
        for key in definition.keys():
            print(f"{key:28} {definition.load(key).title}")
        return FINE
    if not given.keys:
        raise ValueError("name a table or figure, a paper or all; `sparsco reproduce --list` shows them.")
    keys, pairs = definition.chosen(given.keys), [pair for each in given.pairs or () for pair in each]
    check_outputs(given.json, given.report)
    experiments = []
    for key in keys:  # all errors are found before anything is run
        own = pairs if key in given.keys or definition.has_pairs(key) else []
        experiment = definition.load(key, quick=given.quick, trials=given.trials, pairs=own)
        try:
            experiment.check_data()
        except MissingDataError as error:
            if key in given.keys:
                raise
            print(f"{key} is left out: {error}", file=sys.stderr)
        else:
            experiments.append(experiment)
    kept, shown, written = Stores(cache_folder("reproduce"), given.resume), [], []
    kept.check()
    with Workers(given.jobs) as workers:
        for experiment in experiments:
            key, bar = experiment.key, Bar(experiment.key)
            try:
                results = results_of(experiment, kept, workers, bar.show)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"interrupted: the finished trials of {key} are kept, --resume continues."
                ) from None
            finally:
                bar.close()
            cells = verdicts.cells(experiment, results)
            shown.append((experiment, cells, results))
            written += [cell._replace(column=f"{key}: {cell.column}") if len(keys) > 1 else cell for cell in cells]
            if given.json != "-":
                print(present.as_text(experiment, cells), end="\n\n", flush=True)
    if given.json == "-":
        print(present.as_json(written), end="")
    elif given.json:
        write_text(given.json, present.as_json(written))
    if given.report:
        print(f"report: {present.write_report(given.report, shown)}", file=sys.stderr)
    return UNEXPECTED if present.unexplained(written) else FINE


def _pair(text: str) -> list[tuple[int, int]]:
    """Return a pair of digits such as 2,3, or all pairs for "all"."""
    from ..reproduce.definition import all_pairs

    if text == "all":
        return all_pairs()
    digits = [int(part) for part in text.split(",") if part.isdecimal() and int(part) < 10]
    if len(digits) != 2 or digits[0] == digits[1] or text.count(",") != 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a pair of different digits such as 2,3")
    return [(digits[0], digits[1])]
