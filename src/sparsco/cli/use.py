"""Commands on models and data: ``predict``, ``evaluate``, ``inspect``, ``convert``, ``compare``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .options import FAILED, FINE, add_order, add_reading, check_writable, command, positive, reading, to_json
from .train import add_learning, estimator


def add(commands: argparse._SubParsersAction) -> None:
    """All commands of this module."""
    _add_predict(commands)
    _add_evaluate(commands)
    _add_inspect(commands)
    _add_convert(commands)
    _add_compare(commands)


def _source(data: list[str]) -> Any:
    return data[0] if len(data) == 1 else data


def _add_predict(commands: argparse._SubParsersAction) -> None:
    to = command(
        commands, "predict", "predict the rows of files, one line each",
        "  sparsco predict spam.model new.svm > labels.txt\n"
        "  sparsco predict spam.model new.svm --probability -o probabilities.tsv\n"
        "  cat new.svm | sparsco predict spam.model - --score\n"
        "\nexit code: 0 fine, 2 bad argument, model or input, 3 a file could not be read or written",
    )  # fmt: skip
    to.add_argument("model", metavar="MODEL")
    to.add_argument("data", nargs="+", metavar="DATA", help="files, patterns, or - for standard input")
    kind = to.add_mutually_exclusive_group()
    kind.add_argument("--score", dest="kind", action="store_const", const="score", help="margins")
    kind.add_argument("--probability", dest="kind", action="store_const", const="probability", help="of each class")
    to.add_argument("--digits", type=positive, default=6, metavar="N",
                    help="significant digits of scores and probabilities (default: 6; 17 are all)")  # fmt: skip
    to.add_argument("-o", "--output", metavar="FILE", help="write there (default: stdout)")
    add_reading(to)
    to.set_defaults(run=_predict, kind="label")


def _predict(given: argparse.Namespace) -> int:
    from ..training import model_files, scoring
    from ..util.atomic_files import replacing
    from ..util.progress import Bar

    if given.output:
        check_writable(Path(given.output), given.model, *given.data)
    model, stream = scoring.opened_for(model_files.read(given.model), _source(given.data), False, **reading(given))
    bar = Bar("predict")
    try:
        lines = scoring.lines(model, scoring.Watched(stream, bar.show_late(2.0)), given.kind, given.digits)
        if not given.output:
            for block in lines:
                sys.stdout.write(block)
                sys.stdout.flush()  # whoever feeds standard input may wait for it
            return FINE
        with replacing(given.output) as file:
            for block in lines:
                file.write(block.encode())
    finally:
        bar.close()
    return FINE


def _add_evaluate(commands: argparse._SubParsersAction) -> None:
    to = command(
        commands, "evaluate", "judge a model on labelled rows",
        "  sparsco evaluate spam.model test.svm\n"
        "  sparsco evaluate spam.model test.svm --json\n"
        "\nexit code: 0 fine, 2 bad argument, model or input, 3 a file could not be read",
    )  # fmt: skip
    to.add_argument("model", metavar="MODEL")
    to.add_argument("data", nargs="+", metavar="DATA", help="files, patterns, or - for standard input")
    to.add_argument("--json", action="store_true", help="the figures as JSON")
    add_reading(to)
    to.set_defaults(run=_evaluate)


def _evaluate(given: argparse.Namespace) -> int:
    from ..training import model_files, scoring
    from ..training.inspection import figures
    from ..util.progress import Bar

    model, stream = scoring.opened_for(model_files.read(given.model), _source(given.data), **reading(given))
    bar = Bar("evaluate")
    try:
        found = scoring.evaluate(model, scoring.Watched(stream, bar.show_late(2.0)))
    finally:
        bar.close()
    print(to_json(found) if given.json else figures(found))
    return FINE


def _add_inspect(commands: argparse._SubParsersAction) -> None:
    to = command(
        commands, "inspect", "show a model: its features by name, how it was learned, what was chosen",
        "  sparsco inspect spam.model --top 30\n"
        "  sparsco inspect spam.model --html spam.html\n"
        "  sparsco inspect spam.model --json\n"
        "\nexit code: 0 fine, 2 bad argument or model, 3 a file could not be read or written",
    )  # fmt: skip
    to.add_argument("model", metavar="MODEL")
    to.add_argument("--top", type=positive, default=20, metavar="N", help="features shown (default: 20; JSON: all)")
    to.add_argument("--json", action="store_true", help="everything as JSON")
    to.add_argument("--html", metavar="FILE", help="write one HTML page with plots")
    to.set_defaults(run=_inspect)


def _inspect(given: argparse.Namespace) -> int:
    from ..training import inspection, model_files

    content = model_files.read(given.model)
    if given.html:
        check_writable(Path(given.html), given.model)
        print(f"report: {inspection.write_page(given.html, content, max(given.top, 200))}", file=sys.stderr)
    if given.json:
        print(to_json(inspection.description(content)))
    elif not given.html:
        print(inspection.described(content, given.top))
    return FINE


def _add_convert(commands: argparse._SubParsersAction) -> None:
    to = command(
        commands, "convert", "write rows to a folder of binary blocks, from which training reads many times faster",
        "  sparsco convert data.svm.gz rows\n"
        "  sparsco train rows -m model --passes 5\n"
        "\nexit code: 0 fine, 2 bad argument or input, 3 a file could not be read or written; nothing half-written\n"
        "is left",
    )  # fmt: skip
    to.add_argument("data", nargs="+", metavar="DATA", help="files, patterns, or - for standard input")
    to.add_argument("folder", metavar="FOLDER", help="where to write it; what is there is replaced when all is written")
    to.add_argument("--quiet", action="store_true", help="no progress on stderr")
    add_reading(to)
    to.set_defaults(run=_convert)


def _convert(given: argparse.Namespace) -> int:
    from ..streams import convert, open_stream
    from ..util.progress import Bar

    folder = Path(given.folder)
    stream, bar = open_stream(_source(given.data), **reading(given)), Bar("convert")
    show = bar.show_late(2.0) if not given.quiet else lambda done, total: None
    try:
        cache = convert(stream, folder, progress=lambda chunk: show(chunk.read, stream.total))
    finally:
        bar.close()
    rows, d = cache.manifest["rows"], cache.manifest["d"]
    print(f"{folder}: {rows:,} rows, {d:,} columns, {cache.manifest['size'] / 2**20:,.1f} MiB")
    return FINE


def _add_compare(commands: argparse._SubParsersAction) -> None:
    to = command(
        commands, "compare", "train several methods on the same files: one table, one plot of error against nonzeros",
        "  sparsco compare data.svm --test test.svm --report compared.html\n"
        "  sparsco compare data.svm --methods default fobos rda --strengths 0.1 1 10\n"
        "  sparsco compare data.svm --test test.svm --features 10 30 100 --report few.html\n"
        "\nStrengths are multiples of --alpha, or of the one that is found on the first rows.\n"
        "seconds: to read the rows from a cache, to learn and to convert them; what is compiled is compiled before.\n"
        "exit code: 0 fine, 2 bad argument or input, 3 a file could not be read or written",
    )  # fmt: skip
    to.add_argument("data", nargs="+", metavar="DATA", help="files or patterns")
    to.add_argument("--test", metavar="FILE", nargs="+", help="files to judge the models on")
    to.add_argument("--methods", nargs="+", metavar="NAME", help="(default: some usual ones)")
    to.add_argument("--strengths", nargs="+", type=float, default=[0.3, 1.0, 3.0], metavar="X")
    to.add_argument("--features", nargs="+", type=positive, default=[], metavar="K",
                    help="also what it costs to have at most so many features (docs/two-stage.md)")  # fmt: skip
    to.add_argument("--passes", type=positive, default=1, metavar="N")
    add_order(to)
    add_learning(to)
    add_reading(to)
    to.add_argument("--json", action="store_true", help="the table as JSON")
    to.add_argument("--report", metavar="FILE.html", help="write table and plot as one HTML file")
    to.set_defaults(run=_compare)


def _compare(given: argparse.Namespace) -> int:
    from ..training.comparison import USUAL, as_text, compare, write_page
    from ..util.progress import Bar

    if given.optimizer or given.conversion:
        raise ValueError("--optimizer and --conversion are what is compared: choose --methods.")
    if given.polish:
        raise ValueError("--polish makes the same model of all methods: leave it out.")
    if "-" in given.data:
        raise ValueError("standard input can be read once only: compare needs files.")
    if not all(0.0 < strength < float("inf") for strength in given.strengths):
        raise ValueError("--strengths are multiples of alpha, positive numbers.")
    if given.report:
        check_writable(Path(given.report), *given.data, *(given.test or ()))
    model, settings = estimator(given)
    if isinstance(settings.get("penalty"), tuple):
        raise ValueError(
            "--strengths scale --alpha, and a penalty written as a record has a strength of its own: compare "
            "elasticnet, nonnegative, row-group or trace."
        )
    bar = Bar("compare")
    try:
        outcomes = compare(
            _source(given.data), methods=given.methods or USUAL, strengths=given.strengths, test=given.test,
            passes=given.passes, shuffle=not given.no_shuffle, features=given.features,
            reader=reading(given) | {"cache": True}, settings=settings, classes=given.classes, model=model,
            progress=bar.show_late(2.0),
        )  # fmt: skip
    finally:
        bar.close()
    print(to_json([outcome._asdict() for outcome in outcomes]) if given.json else as_text(outcomes))
    if given.report:
        print(f"report: {write_page(given.report, outcomes)}", file=sys.stderr)
    return FINE if any(outcome.nonzeros is not None for outcome in outcomes) else FAILED
