"""The command ``export``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .options import FINE, check_writable, command

FORMATS = ("sql", "c", "js", "python", "onnx", "json", "csv")


def add(commands: argparse._SubParsersAction) -> None:
    """Add the command to the parser."""
    to = command(
        commands,
        "export",
        "write a model in the language of another program",
        "  sparsco export spam.model --to c -o spam.c\n"
        "  sparsco export spam.model --to python > spam.py\n"
        "  sparsco export table.model --to sql --table houses --keep id\n"
        "  sparsco export spam.model --to csv\n"
        "\nformats:\n"
        "    sql     a query over a table of raw columns, for SQLite, DuckDB and PostgreSQL\n"
        "    c       one C99 file without allocation; js: one ES module; python: one file, standard library only\n"
        "    onnx    a graph over the selected features\n"
        "    json    everything, in a documented schema; csv: names and weights\n"
        "\nexit code:\n"
        "    0  success\n"
        "    2  bad argument or model, or a model that the format cannot express\n"
        "    3  a file could not be read or written",
    )
    to.add_argument("model", metavar="MODEL", help="a model file of sparsco train")
    to.add_argument("--to", required=True, choices=FORMATS, metavar="FORMAT", help="one of " + ", ".join(FORMATS))
    to.add_argument("-o", "--output", metavar="FILE", help="write to FILE (default: stdout)")
    to.add_argument("--table", metavar="NAME", help="sql: the name of the table (default: data)")
    to.add_argument(
        "--keep", action="append", metavar="COLUMN", help="sql: a column to copy; may be given several times"
    )
    to.add_argument(
        "--no-exp",
        dest="exp",
        action="store_const",
        const=False,
        help="sql: write scores and labels alone, for a database without the function exp",
    )
    to.add_argument("--prefix", metavar="NAME", help="c: what all names begin with (default: model)")
    to.add_argument("--double", action="store_const", const=True, help="onnx: compute in 64 bits (default: 32)")
    to.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from ..exports.api import export

    names = ("table", "keep", "exp", "prefix", "double")
    options: dict[str, Any] = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    if given.output:
        check_writable(Path(given.output), given.model)
        export(given.model, given.to, given.output, **options)
        print(f"{given.to}: {given.output}", file=sys.stderr)
        return FINE
    found = export(given.model, given.to, **options)
    raw = found if isinstance(found, bytes) else str(found).encode("utf-8", "surrogateescape")
    sys.stdout.buffer.write(raw)
    sys.stdout.buffer.flush()
    return FINE
