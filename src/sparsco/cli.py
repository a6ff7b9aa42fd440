"""The command line ``sparsco``: each command is one function here that calls the library and says what came out.

Exit codes: 0 fine; 1 the outcome is not what was expected (a cell differs for no known reason); 2 a bad argument, bad
or missing input; 3 a file could not be read or written; 4 a computation failed (training diverged, a worker process was
killed); 130 interrupted, 143 asked to end.  Results go to stdout, progress and complaints to stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from . import __version__

FINE, UNEXPECTED, BAD_INPUT, BAD_FILE, FAILED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 4, 130, 143


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the one place where exceptions become exit codes."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if "run" not in parsed:
        parser.print_help()
        return BAD_INPUT
    try:
        return parsed.run(parsed)
    except KeyboardInterrupt as stop:
        return _complain(str(stop) or "interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has gone, e.g. `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except (ValueError, FileNotFoundError) as error:
        return _complain(str(error), BAD_INPUT)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{error.strerror or error}", BAD_FILE)
    except (ArithmeticError, MemoryError, RuntimeError) as error:
        return _complain(str(error), FAILED)


def run() -> None:
    """The process: after an interruption it ends soon, whatever threads still wait for."""
    try:
        code = main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else FINE if stop.code is None else BAD_INPUT
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    if code in (FAILED, INTERRUPTED, TERMINATED):
        others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
        for thread in others:
            thread.join(timeout=2.0)
        if any(thread.is_alive() for thread in others):
            os._exit(code)
    sys.exit(code)


def _complain(sentence: str, code: int) -> int:
    print(f"sparsco: {sentence}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sparsco", description="Exactly sparse linear models by stochastic composite optimization.",
        epilog="`sparsco COMMAND --help` shows a worked example.",
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"sparsco {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_reproduce(commands)
    _add_datasets(commands)
    return parser


def _command(commands: argparse._SubParsersAction, name: str, what: str, example: str) -> argparse.ArgumentParser:
    return commands.add_parser(
        name, help=what, description=what[0].upper() + what[1:] + ".", epilog="example:\n" + example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip


# --- reproduce --------------------------------------------------------------------------------------------------------


def _add_reproduce(commands: argparse._SubParsersAction) -> None:
    add = _command(
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
    add.add_argument("--trials", type=_positive, metavar="N", help="independent repetitions (default: the file's)")
    add.add_argument("--jobs", type=_positive, metavar="N", default=_cores(), help="processes (default: %(default)s)")
    add.add_argument("--pairs", nargs="+", type=_pair, metavar="A,B", help="other pairs of digits, or `all` 45")
    add.add_argument("--json", metavar="FILE", help="write all cells there; - is stdout, instead of the tables")
    add.add_argument("--report", metavar="FILE.html", help="write tables and plots as one HTML file")
    add.add_argument("--resume", action="store_true", help="take what an earlier run finished from disk")
    add.set_defaults(run=_reproduce)


def _reproduce(given: argparse.Namespace) -> int:
    from .datasets import MissingDataError
    from .experiments import definition, present, verdicts
    from .experiments.run import Workers, results_of
    from .experiments.store import Stores
    from .folders import cache_folder
    from .progress import Bar
    from .report import write_text

    if given.list:
        for key in definition.keys():
            print(f"{key:28} {definition.load(key).title}")
        return FINE
    if not given.keys:
        raise ValueError("name a table or figure, a paper or all; `sparsco reproduce --list` shows them.")
    keys, pairs = definition.chosen(given.keys), [pair for each in given.pairs or () for pair in each]
    _check_outputs(given.json, given.report)
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


def _check_outputs(cells: str | None, report: str | None) -> None:
    """Refuse files that cannot be written, before anything is run."""
    paths = [Path(path).resolve() for path in (cells, report) if path not in (None, "-")]
    if "" in (cells, report) or report == "-":
        raise ValueError("--json and --report need the name of a file; only --json may be -, stdout.")
    if len(set(paths)) < len(paths):
        raise ValueError(f"--json and --report are the same file, {paths[0]}.")
    for path in paths:
        if path.is_dir():
            raise ValueError(f"{path} is a folder: name a file in it.")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {path.parent} for {path.name}.")
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(13, "this folder cannot be written to", str(path.parent))


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


def _pair(text: str) -> list[tuple[int, int]]:
    """A pair of digits such as 2,3; all of them for "all"."""
    from .experiments.definition import all_pairs

    if text == "all":
        return all_pairs()
    digits = [int(part) for part in text.split(",") if part.isdecimal() and int(part) < 10]
    if len(digits) != 2 or digits[0] == digits[1] or text.count(",") != 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no pair of different digits such as 2,3")
    return [(digits[0], digits[1])]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- datasets ---------------------------------------------------------------------------------------------------------


def _add_datasets(commands: argparse._SubParsersAction) -> None:
    add = _command(
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
    from . import datasets
    from .progress import Bar

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


if __name__ == "__main__":
    run()
