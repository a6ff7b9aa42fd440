"""The command ``convert``."""

from __future__ import annotations

import argparse
from pathlib import Path

from .options import FINE, add_reading, command, reading, source_of


def add(commands: argparse._SubParsersAction) -> None:
    """Add the command to the parser."""
    to = command(
        commands,
        "convert",
        "write rows to a folder of binary blocks, which training reads many times faster",
        "  sparsco convert data.svm.gz rows\n"
        "  sparsco train rows -m model --passes 5\n"
        "\nexit code:\n"
        "    0  success\n"
        "    2  bad argument or input\n"
        "    3  a file could not be read or written; no incomplete folder is left",
    )
    to.add_argument("data", nargs="+", metavar="DATA", help="files, patterns, or - for standard input")
    to.add_argument(
        "folder",
        metavar="FOLDER",
        help="the folder to write; an existing cache is replaced when the new one is complete",
    )
    to.add_argument("--quiet", action="store_true", help="show no progress on stderr")
    add_reading(to)
    to.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from ..streams import convert, open_stream
    from ..util.progress import Bar

    folder = Path(given.folder)
    stream, bar = open_stream(source_of(given.data), **reading(given)), Bar("convert")
    show = bar.show_late(2.0) if not given.quiet else lambda done, total: None
    try:
        cache = convert(stream, folder, progress=lambda chunk: show(chunk.read, stream.total))
    finally:
        bar.close()
    rows, d = cache.manifest["rows"], cache.manifest["d"]
    print(f"{folder}: {rows:,} rows, {d:,} columns, {cache.manifest['size'] / 2**20:,.1f} MiB")
    return FINE
