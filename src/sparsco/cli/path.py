"""The command ``path``: models for many strengths of the penalty from one read of files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .learning import add_learning, estimator
from .options import FINE, add_order, add_reading, check_writable, command, positive, reading, to_json

_EXAMPLE = """  sparsco path data.svm                                    a table of 32 strengths from one read
  sparsco path data.svm.gz --choose 1-se -m spam.model --report path.html
  sparsco path data.svm --choose 100 -m small.model        the best model of at most 100 features
  sparsco path table.csv --target price --alphas 0.1,0.03,0.01
  sparsco path table.csv --target price --groups columns   strengths of a penalty of groups
  sparsco path data.svm --polish                           the exact optimum of every strength

exit code:
    0  success
    2  bad argument or input
    3  a file could not be read or written
    4  training diverged
  130  interrupted (Ctrl-C)"""


def add(commands: argparse._SubParsersAction) -> None:
    """Add the command to the parser."""
    to = command(
        commands, "path", "train models for many strengths of the penalty in one read, and choose one", _EXAMPLE
    )
    to.add_argument("data", nargs="+", metavar="DATA", help="files, patterns, or - for standard input")
    to.add_argument("--n-alphas", type=positive, default=32, metavar="N", help="number of strengths (default: 32)")
    to.add_argument(
        "--eps",
        type=float,
        default=1e-3,
        metavar="R",
        help="ratio of the smallest strength to the largest (default: 0.001)",
    )
    to.add_argument("--alphas", type=_numbers, metavar="X,Y,...", help="use these strengths")
    to.add_argument(
        "--choose",
        type=_rule,
        default="min",
        metavar="RULE",
        help="min, 1-se, or the largest number of features (default: min)",
    )
    to.add_argument(
        "--hold-out",
        type=float,
        metavar="SHARE",
        help="hold out this share of the rows for validation (default: validate on some rows before they are learned; "
        "with --polish: a fifth, at most 20,000 rows)",
    )
    to.add_argument("--passes", type=positive, default=1, metavar="N", help="passes over the data (default: 1)")
    add_order(to)
    to.add_argument(
        "--float32", action="store_true", help="twice as fast, five digits instead of fifteen; needs --conversion last"
    )
    to.add_argument("-m", "--model", metavar="FILE", help="write the chosen model to FILE")
    to.add_argument("--report", metavar="FILE.html", help="write the table and the plots as one HTML file")
    to.add_argument("--json", action="store_true", help="print the table as JSON")
    to.add_argument("--quiet", action="store_true", help="show no progress on stderr")
    add_learning(to, is_path=True)
    add_reading(to)
    to.set_defaults(run=_path)


def _path(given: argparse.Namespace) -> int:
    from ..training import model_files, paths
    from ..training.labelled_rows import by_name, describe, reader_of
    from ..util.progress import Live

    for file in (given.model, given.report):
        if file:
            check_writable(Path(file), *given.data)
    _check(given)
    model, settings = estimator(given)
    reader = reading(given)
    own = {"alphas": given.alphas, "n_alphas": given.n_alphas, "eps": given.eps}
    own["choose"] = given.choose
    judged, again = "progressive" if given.polish is False else "auto", given.passes > 1 or given.polish is not False
    own["validation"] = judged if given.hold_out is None else given.hold_out
    own["dtype"] = "float32" if given.float32 else "float64"
    trained = paths.train_path(
        given.data[0] if len(given.data) == 1 else given.data,
        model,
        path=own,
        passes=given.passes,
        shuffle=not given.no_shuffle,
        reader=reader | ({"cache": True} if again and "-" not in given.data else {}),
        classes=given.classes,
        settings=settings,
        live=Live(not given.quiet),
    )
    found = trained.model.path_
    if isinstance(given.choose, str) and not found.is_judged:
        print(to_json({"path": found.table(), "notes": trained.notes}) if given.json else paths.as_text(found, None))
        raise ValueError(
            f"--choose {given.choose} needs validation rows, and there are none: give more rows in a "
            "random order, --hold-out 0.2, or a number of features (--choose 10)."
        )
    chosen = trained.model.alpha_
    table = {"path": found.table(), "chosen": chosen, "notes": trained.notes}
    print(to_json(table) if given.json else paths.as_text(found, chosen))
    if given.model:
        best = found.model(chosen)
        describe(best, trained.stream)
        model_files.save(
            best,
            given.model,
            names=trained.stream.names,
            by_name=by_name(trained.stream),
            extra={"reader": reader_of(trained.stream, reader)},
        )
        print(f"model: {given.model}", file=sys.stderr)
    if given.report:
        page = paths.write_page(given.report, found, chosen, trained.stream.names)
        print(f"report: {page}", file=sys.stderr)
    return FINE


def _check(given: argparse.Namespace) -> None:
    """Raise a ValueError for a strength that would have no effect."""
    if given.l1 is not None:
        raise ValueError("--l1 is one strength, and a path has many: give --alphas.")
    if given.alpha is not None and (given.l1_ratio is None or given.l1_ratio == 1.0):
        raise ValueError(
            "--alpha sets the L2 weight of a path together with --l1-ratio below 1: give both, or --alphas, the "
            "strengths."
        )


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 0.1,0.01") from None


def _rule(text: str) -> Any:
    return int(text) if text.isdecimal() else text
