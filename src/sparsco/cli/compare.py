"""The command ``compare``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .learning import add_learning, estimator
from .options import (
    FAILED,
    FINE,
    add_order,
    add_reading,
    check_writable,
    command,
    positive,
    reading,
    source_of,
    to_json,
)


def add(commands: argparse._SubParsersAction) -> None:
    """Add the command to the parser."""
    to = command(
        commands,
        "compare",
        "train several methods on the same files, and show one table and one plot of error against nonzeros",
        "  sparsco compare data.svm --test test.svm --report compared.html\n"
        "  sparsco compare data.svm --methods default fobos rda --strengths 0.1 1 10\n"
        "  sparsco compare data.svm --test test.svm --features 10 30 100 --report few.html\n"
        "\nStrengths are multiples of --alpha, or of the strength that is found on the first rows.\n"
        "The seconds are those to read the rows from a cache, to learn and to convert.  Compilation is not counted.\n"
        "\nexit code:\n"
        "    0  success\n"
        "    2  bad argument or input\n"
        "    3  a file could not be read or written",
    )
    to.add_argument("data", nargs="+", metavar="DATA", help="files or patterns")
    to.add_argument("--test", metavar="FILE", nargs="+", help="evaluate the models on these files")
    to.add_argument("--methods", nargs="+", metavar="NAME", help="methods to compare (default: the common ones)")
    to.add_argument(
        "--strengths", nargs="+", type=float, default=[0.3, 1.0, 3.0], metavar="X", help="(default: 0.3 1 3)"
    )
    to.add_argument(
        "--features",
        nargs="+",
        type=positive,
        default=[],
        metavar="K",
        help="also compare models with at most K features (docs/two-stage.md)",
    )
    to.add_argument("--passes", type=positive, default=1, metavar="N", help="passes over the data (default: 1)")
    add_order(to)
    add_learning(to)
    add_reading(to)
    to.add_argument("--json", action="store_true", help="print the table as JSON")
    to.add_argument("--report", metavar="FILE.html", help="write the table and the plot as one HTML file")
    to.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from ..training.comparison import USUAL, as_text, compare, write_page
    from ..util.progress import Bar

    if given.optimizer or given.conversion or given.preset:
        raise ValueError("compare sets --optimizer, --conversion and --preset itself: name the methods with --methods.")
    if given.polish:
        raise ValueError("--polish gives the same model for every method: leave it out.")
    if "-" in given.data:
        raise ValueError("standard input can be read only once: give files to compare.")
    if not all(0.0 < strength < float("inf") for strength in given.strengths):
        raise ValueError("--strengths must be positive numbers, multiples of alpha.")
    if given.report:
        check_writable(Path(given.report), *given.data, *(given.test or ()))
    model, settings = estimator(given)
    if isinstance(settings.get("penalty"), tuple):
        raise ValueError(
            "--strengths scale --alpha, and a penalty record has its own strength: choose elasticnet, nonnegative, "
            "row-group or trace."
        )
    bar = Bar("compare")
    try:
        outcomes = compare(
            source_of(given.data),
            methods=given.methods or USUAL,
            strengths=given.strengths,
            test=given.test,
            passes=given.passes,
            shuffle=not given.no_shuffle,
            features=given.features,
            reader=reading(given) | {"cache": True},
            settings=settings,
            classes=given.classes,
            model=model,
            progress=bar.show_late(2.0),
        )
    finally:
        bar.close()
    print(to_json([outcome._asdict() for outcome in outcomes]) if given.json else as_text(outcomes))
    if given.report:
        print(f"report: {write_page(given.report, outcomes)}", file=sys.stderr)
    return FINE if any(outcome.nonzeros is not None for outcome in outcomes) else FAILED
