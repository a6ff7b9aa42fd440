"""The command ``predict``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .options import FINE, add_reading, check_writable, command, positive, reading, source_of


def add(commands: argparse._SubParsersAction) -> None:
    """Add the command to the parser."""
    to = command(
        commands,
        "predict",
        "predict the rows of files, one line per row",
        "  sparsco predict spam.model new.svm > labels.txt\n"
        "  sparsco predict spam.model new.svm --probability -o probabilities.tsv\n"
        "  cat new.svm | sparsco predict spam.model - --score\n"
        "\nexit code:\n"
        "    0  success\n"
        "    2  bad argument, model or input\n"
        "    3  a file could not be read or written",
    )
    to.add_argument("model", metavar="MODEL", help="a model file of sparsco train")
    to.add_argument("data", nargs="+", metavar="DATA", help="files, patterns, or - for standard input")
    kind = to.add_mutually_exclusive_group()
    kind.add_argument(
        "--score", dest="kind", action="store_const", const="score", help="write margins instead of labels"
    )
    kind.add_argument(
        "--probability",
        dest="kind",
        action="store_const",
        const="probability",
        help="write the probability of each class instead of labels",
    )
    to.add_argument(
        "--digits",
        type=positive,
        default=6,
        metavar="N",
        help="significant digits of scores and probabilities (default: 6; 17: all)",
    )
    to.add_argument("-o", "--output", metavar="FILE", help="write to FILE (default: stdout)")
    add_reading(to)
    to.set_defaults(run=run, kind="label")


def run(given: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from ..training import model_files, scoring
    from ..util.atomic_files import replacing
    from ..util.progress import Bar

    if given.output:
        check_writable(Path(given.output), given.model, *given.data)
    model, stream = scoring.opened_for(model_files.read(given.model), source_of(given.data), False, **reading(given))
    bar = Bar("predict")
    try:
        lines = scoring.lines(model, scoring.Watched(stream, bar.show_late(2.0)), given.kind, given.digits)
        if not given.output:
            for block in lines:
                sys.stdout.write(block)
                sys.stdout.flush()  # the writer of standard input may wait for it
            return FINE
        with replacing(given.output) as file:
            for block in lines:
                file.write(block.encode())
    finally:
        bar.close()
    return FINE
