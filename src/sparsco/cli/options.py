"""Helpers that commands share: exit codes, the format of their help, options of readers, checks of output files."""

from __future__ import annotations

import argparse
import ast
import difflib
import glob
import inspect
import json
import math
from pathlib import Path
from typing import Any

from ..util.atomic_files import check_place, real, try_place

PAGE_FEATURES = 200
"""The number of features on the page of a model."""
FINE, UNEXPECTED, BAD_INPUT, BAD_FILE, FAILED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 4, 130, 143


def command(commands: argparse._SubParsersAction, name: str, what: str, example: str) -> argparse.ArgumentParser:
    """Return the parser of a new command, with an example in its help."""
    return commands.add_parser(
        name,
        help=what,
        description=what[0].upper() + what[1:] + ".",
        epilog="example:\n" + example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def check_outputs(cells: str | None, report: str | None) -> None:
    """Raise an error for files that cannot be written, before anything is run."""
    paths = [real(path) for path in (cells, report) if path not in (None, "-")]
    if "" in (cells, report) or report == "-":
        raise ValueError("--json and --report need a file name: only --json may be - (stdout).")
    if len(set(paths)) < len(paths):
        raise ValueError(f"--json and --report are the same file, {paths[0]}.")
    for path in paths:
        check_writable(path)


def check_writable(path: Path, *inputs: str) -> None:
    """Raise an error for a path that cannot be written, that is no file, or that is one of the inputs."""
    path = real(path)
    check_place(path)
    read = {real(each) for name in inputs for each in (name, *glob.glob(name)) if name != "-"}
    if path in read:
        raise ValueError(f"{path} is an input and would be overwritten: name another file for the result.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} for {path.name}: create it first.")
    try:
        try_place(path)
    except PermissionError:
        raise PermissionError(13, "this folder cannot be written to", str(path.parent)) from None


def source_of(data: list[str]) -> Any:
    """Return the one file that was given, or the list of several."""
    return data[0] if len(data) == 1 else data


def positive(text: str) -> int:
    """Return a text as a whole number of at least 1, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def part(option: str, text: str) -> Any:
    """Return the record of a text such as ``L1Ball(30)`` or ``Huber(epsilon=0.5)``, written as in Python.

    Names stay names.

    Nothing is executed.  Values are numbers, lists, True, False, None and records.  For an array the value may be the
    name of a text file of numbers, in quotes.
    """
    if "(" not in text:
        return text
    from ..estimators.part_names import is_part
    from ..presets import PRESETS

    try:
        record = _built(ast.parse(text.strip(), mode="eval").body, PRESETS if option == "preset" else {})
        if not is_part(option, record):
            raise ValueError(f"it cannot be used as the {option.replace('_', ' ')}")
        return record
    except (SyntaxError, TypeError, ValueError, OSError) as error:
        reason = "it is not written as in Python" if isinstance(error, SyntaxError) else str(error)
        raise ValueError(f"--{option.replace('_', '-')} {text}: {reason.rstrip('.')}.") from None


def _built(node: ast.expr, presets: dict[str, Any]) -> Any:
    if not isinstance(node, ast.Call):
        try:
            return ast.literal_eval(node)
        except ValueError:
            what = "a number, a list of them, True, False, None, a record, or a file's name in quotes"
            raise ValueError(f"{ast.unparse(node)} is not {what}") from None
    name = ast.unparse(node.func)
    known = _records() | presets
    kind = known.get(name)
    if kind is None:
        close = difflib.get_close_matches(name, known, 1)
        raise ValueError(f"there is no {name} in sparsco" + (f", perhaps {close[0]} is meant" if close else ""))
    values = [_built(value, {}) for value in node.args]
    named = {str(each.arg): _built(each.value, {}) for each in node.keywords}
    try:
        given = kind(*values, **named)
    except TypeError:
        raise TypeError(f"{name} takes {', '.join(inspect.signature(kind).parameters)}") from None
    if name in presets:
        return given
    return type(given)(*(_checked(given, field, value) for field, value in given._asdict().items()))


def _records() -> dict[str, Any]:
    """Return the classes of all parts, by name."""
    from .. import conversions, losses, mirrors, optimizers, penalties, steps

    modules = (losses, penalties, optimizers, conversions, steps, mirrors)
    found = {name: kind for module in modules for name, kind in inspect.getmembers(module, inspect.isclass)}
    return {name: kind for name, kind in found.items() if issubclass(kind, tuple) and not name.startswith("_")}


def _checked(record: Any, field: str, value: Any) -> Any:
    """Return the value of a field of a record; for an array also the numbers of a file, or of a list."""
    import numpy as np

    kind, default = str(record.__annotations__[field]), record._field_defaults.get(field)
    takes_array = "ndarray" in kind or "Any" in kind
    is_wrong = isinstance(value, list | str) and not (takes_array or isinstance(default, str))
    if is_wrong or (isinstance(value, bool) and "bool" not in kind and not takes_array):
        raise ValueError(f"{field}={value!r} must be a number")
    if isinstance(value, list):
        return np.array(value)
    if not isinstance(value, str) or isinstance(default, str):
        return value
    try:
        numbers = np.loadtxt(value, ndmin=1)
    except ValueError as error:
        raise ValueError(f"{value} must contain numbers only: {str(error).rstrip('.')}") from None
    return numbers.astype(np.int64) if (numbers == numbers.astype(np.int64)).all() else numbers


def add_order(to: argparse.ArgumentParser) -> None:
    """Add the option that keeps rows in their order."""
    to.add_argument(
        "--no-shuffle",
        action="store_true",
        help="learn rows in the order of the files (default: in a random order if they fit into memory or are cached)",
    )


def add_reading(to: argparse.ArgumentParser) -> None:
    """Add the options of readers."""
    group = to.add_argument_group("reading data (docs/files.md)")
    formats = ("libsvm", "vw", "csv", "tsv", "jsonl", "text", "parquet", "arrow", "npz")
    group.add_argument("--format", choices=formats, help="the format (default: by the suffix or the first line)")
    group.add_argument("--hash-bits", type=positive, metavar="B", help="hash names into 2^B columns")
    group.add_argument(
        "-q", "--quadratic", action="append", metavar="AB", help="vw: add pairs of features of two namespaces"
    )
    group.add_argument("--one-based", action="store_true", help="libsvm: index 1 is column 0, index 0 is refused")
    group.add_argument("--target", metavar="COLUMN", help="tables: the column to predict; none: no target")
    group.add_argument("--weight", metavar="COLUMN", help="tables: the column with the weights of the rows")
    group.add_argument(
        "--offset",
        metavar="COLUMN",
        help="tables: the column with the offsets of the rows, which are added to their margins, such as log(exposure) "
        "for the logarithm of the column exposure; vw: initial, the third number; none: no offset (docs/offsets.md)",
    )
    group.add_argument(
        "--time", metavar="COLUMN", help="tables: the column with the times of the rows, for train --half-life"
    )
    group.add_argument("--tag", metavar="COLUMN", help="tables: the column with the names of the rows")
    group.add_argument(
        "--schema",
        action="append",
        metavar="COLUMN=KIND",
        default=[],
        help="tables: set the kind of a column: numbers, category, boolean, date, text or ignored; after a colon, as "
        "in age=numbers:mean, what is missing becomes",
    )
    group.add_argument(
        "--missing",
        choices=("indicator", "mean", "zero", "refuse"),
        help="tables: what a missing cell becomes (default: indicator, the mean of the first rows and a feature of "
        "its own)",
    )
    _add_texts(group)
    group.add_argument(
        "--missing-values",
        metavar="A,B,...",
        help="csv: text that marks a missing cell, besides empty cells (default: NA, N/A, NaN, null, None in "
        "columns of numbers)",
    )
    group.add_argument("--no-quotes", action="store_true", help="csv: quotation marks are ordinary characters")
    group.add_argument("--delimiter", metavar="C", help="csv: the delimiter, one character")
    group.add_argument(
        "--no-header", action="store_true", help="csv: the file has no header; columns are called 0, 1, 2, ..."
    )


def _add_texts(group: Any) -> None:
    """Add the options of texts."""
    group.add_argument(
        "--text",
        action="append",
        metavar="COLUMN",
        help="tables: a column of texts; its words become features (docs/text.md)",
    )
    group.add_argument("--ngrams", type=_ngrams, metavar="A-B", help="texts: features of A to B words, such as 1-2")
    group.add_argument("--analyzer", choices=("word", "char"), help="texts: n-grams of words (default) or characters")
    group.add_argument(
        "--weighting",
        choices=("log", "count", "binary", "tfidf"),
        help="texts: the value of a word that occurs c times: 1 + log(c) (default), c, 1, or c times its inverse "
        "document frequency in the texts so far",
    )
    group.add_argument(
        "--min-count", type=positive, metavar="N", help="texts: a word is a feature from its Nth text on (default: 1)"
    )


def add_crosses(to: argparse.ArgumentParser) -> None:
    """Add the options of crosses."""
    group = to.add_argument_group("crosses: products of two features (docs/crosses.md)")
    group.add_argument(
        "--cross",
        action="append",
        metavar="A:B",
        help="cross the features of two columns, namespaces or names, such as city:age, words:words or 0-9:12; "
        "all: every pair of features",
    )
    group.add_argument(
        "--birth",
        type=positive,
        nargs="?",
        const=True,
        metavar="N",
        help="a cross exists only once both of its features were selected, at 1024, 2048, 4096, ... rows; at most N "
        "features are selected at a time (default: with --cross all and more than 200 features, N = 128)",
    )
    group.add_argument("--no-birth", dest="birth", action="store_const", const=False, help="make every cross at once")
    group.add_argument(
        "--cross-bits", type=positive, metavar="B", help="hash crosses into 2^B columns, and count the collisions"
    )


def crosses(given: argparse.Namespace) -> dict[str, Any]:
    """Return the options of crosses that were given."""
    return {name: getattr(given, name) for name in ("cross", "birth", "cross_bits")}


def _ngrams(text: str) -> tuple[int, int]:
    """Return the bounds of a text such as 1-2, for argparse."""
    low, bar, high = text.partition("-")
    if not low.isdecimal() or not (high.isdecimal() if bar else True):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range such as 1-2")
    return int(low), int(high or low)


def reading(given: argparse.Namespace) -> dict[str, Any]:
    """Return the options of ``open_stream`` that were given."""
    names = ("format", "hash_bits", "quadratic", "target", "weight", "tag", "offset", "time", "missing", "delimiter")
    options = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    if options.get("target") == "none":
        options["target"] = None
    if options.get("offset") == "none":
        options["offset"] = None
    if given.text:
        options["text"] = given.text
    texts = {name: getattr(given, name) for name in ("ngrams", "analyzer", "weighting", "min_count")}
    if any(value is not None for value in texts.values()):
        options["text_options"] = {name: value for name, value in texts.items() if value is not None}
    if given.missing_values is not None:
        options["missing_values"] = ["", *given.missing_values.split(",")]
    if given.one_based:
        options["zero_based"] = False
    if given.no_quotes:
        options["quotes"] = False
    if given.no_header:
        options["header"] = False
    if given.schema:
        pairs = [pair.rpartition("=") for pair in given.schema]
        options["schema"] = {name: kind for name, _, kind in pairs}
        if "" in options["schema"]:
            raise ValueError(
                "--schema needs COLUMN=KIND; kinds are numbers, category, boolean, date, text and ignored."
            )
    return options


def to_json(found: Any) -> str:
    """Return JSON that every parser reads: numbers that are not finite are null."""

    def plain(x: Any) -> Any:
        if isinstance(x, dict):
            return {str(key): plain(value) for key, value in x.items()}
        if isinstance(x, list | tuple):
            return [plain(item) for item in x]
        if isinstance(x, float):
            return x if math.isfinite(x) else None
        return x

    return json.dumps(plain(found), default=str, allow_nan=False)
