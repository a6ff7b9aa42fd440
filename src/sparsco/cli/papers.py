"""Commands on papers: ``reproduce`` and ``datasets``."""

from __future__ import annotations

import argparse
import sys

from ..util.folders import cores
from .options import FINE, UNEXPECTED, check_outputs, command, positive


def add(commands: argparse._SubParsersAction) -> None:
    """All commands of this module."""
    _add_reproduce(commands)
    _add_datasets(commands)


# --- reproduce --------------------------------------------------------------------------------------------------------


def _add_reproduce(commands: argparse._SubParsersAction) -> None:
    add = command(
        commands, "reproduce", "rerun tables and figures of the papers and compare them cell by cell",
        "  sparsco reproduce --list\n"
        "  sparsco reproduce aaai-table-1 --trials 40 --report table.html\n"
        "  sparsco reproduce all --quick\n"
        "\nexit code: 0 all cells agree or differ for a reason that is given, 1 one differs for none, 2 bad argument\n"
        "or missing data, 3 a file could not be written, 4 a computation failed, 130 interrupted (what was\n"
        "finished is kept for --resume)",
    )  # fmt: skip
    add.add_argument("keys", nargs="*", metavar="KEY", help="tables and figures, a paper's name, or all")
    add.add_argument("--list", action="store_true", help="name all keys and stop")
    add.add_argument("--quick", action="store_true", help="shorter streams and two trials; no cell is judged")
    add.add_argument("--trials", type=positive, metavar="N", help="independent repetitions (default: the file's)")
    add.add_argument("--jobs", type=positive, metavar="N", default=cores(), help="processes (default: %(default)s)")
    add.add_argument("--pairs", nargs="+", type=_pair, metavar="A,B", help="other pairs of digits, or `all` 45")
    add.add_argument("--json", metavar="FILE", help="write all cells there; - is stdout, instead of the tables")
    add.add_argument("--report", metavar="FILE.html", help="write tables and plots as one HTML file")
    add.add_argument("--resume", action="store_true", help="take what an earlier run finished from disk")
    add.set_defaults(run=_reproduce)


def _reproduce(given: argparse.Namespace) -> int:
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
    for key in keys:  # everything that can be wrong is found before anything is run
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
                raise KeyboardInterrupt(f"interrupted; what was finished of {key} is kept: --resume goes on.") from None
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
    """A pair of digits such as 2,3; all of them for "all"."""
    from ..reproduce.definition import all_pairs

    if text == "all":
        return all_pairs()
    digits = [int(part) for part in text.split(",") if part.isdecimal() and int(part) < 10]
    if len(digits) != 2 or digits[0] == digits[1] or text.count(",") != 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no pair of different digits such as 2,3")
    return [(digits[0], digits[1])]


# --- datasets ---------------------------------------------------------------------------------------------------------


def _add_datasets(commands: argparse._SubParsersAction) -> None:
    add = command(
        commands, "datasets", "list, fetch and check the real data sets that experiments use",
        "  sparsco datasets list\n"
        "  SPARSCO_DATA=~/data sparsco datasets download mnist\n"
        "  sparsco datasets verify mnist\n"
        "\nFiles lie below the folder SPARSCO_DATA, else in the user's cache folder.\n"
        "exit code: 0 fine, 2 unknown or missing data, or contents that are not what they should be, 3 not downloaded",
    )  # fmt: skip
    add.add_argument("action", choices=("list", "download", "verify"))
    add.add_argument("names", nargs="*", metavar="NAME", help="data sets; needed unless listing")
    add.add_argument("--to", metavar="FOLDER", help="download there instead")
    add.add_argument("--from", dest="address", metavar="ADDRESS", help="root of another copy of the data folder")
    add.set_defaults(run=_datasets)


def _datasets(given: argparse.Namespace) -> int:
    from .. import datasets
    from ..util.progress import Bar

    if given.action == "list":
        for line in datasets.listing():
            rows = " / ".join(f"{n:,}" for n in line.rows)
            print(f"{line.name:16} {rows:>18} x {line.features:>9,}  {line.task:10} {line.where}")
        return FINE
    if given.action == "verify" and (given.to or given.address):
        raise ValueError("--to and --from are for downloads: verify looks where experiments do.")
    if not given.names:
        raise ValueError(f"name the data sets to {given.action}; `sparsco datasets list` shows them.")
    for name in given.names:
        if given.action == "verify":
            copies = datasets.verify(name)
        else:
            bar = Bar(name)
            try:
                copies = datasets.download(name, given.to, given.address, bar.show)
            finally:
                bar.close()
        for copy in copies:
            checked = "verified" if copy.verified else f"SHA-256 {copy.sha256}, no checksum known to compare with"
            print(f"{copy.path}: {checked}")
    return FINE
