"""The command ``evaluate``."""

from __future__ import annotations

import argparse

from .options import FINE, add_reading, command, reading, source_of, to_json


def add(commands: argparse._SubParsersAction) -> None:
    """Add the command to the parser."""
    to = command(
        commands,
        "evaluate",
        "evaluate a model on labelled rows",
        "  sparsco evaluate spam.model test.svm\n"
        "  sparsco evaluate spam.model test.svm --json\n"
        "\nexit code:\n"
        "    0  success\n"
        "    2  bad argument, model or input\n"
        "    3  a file could not be read",
    )
    to.add_argument("model", metavar="MODEL", help="a model file of sparsco train")
    to.add_argument("data", nargs="+", metavar="DATA", help="files, patterns, or - for standard input")
    to.add_argument("--json", action="store_true", help="print the figures as JSON")
    add_reading(to)
    to.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from ..training import model_files, scoring
    from ..training.inspection import figures
    from ..util.progress import Bar

    model, stream = scoring.opened_for(model_files.read(given.model), source_of(given.data), **reading(given))
    bar = Bar("evaluate")
    try:
        found = scoring.evaluate(model, scoring.Watched(stream, bar.show_late(2.0)))
    finally:
        bar.close()
    print(to_json(found) if given.json else figures(found))
    return FINE
