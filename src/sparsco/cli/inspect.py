"""The command ``inspect``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .options import FINE, PAGE_FEATURES, check_writable, command, positive, to_json


def add(commands: argparse._SubParsersAction) -> None:
    """Add the command to the parser."""
    to = command(
        commands,
        "inspect",
        "show a model: its features by name, its training and its settings",
        "  sparsco inspect spam.model --top 30\n"
        "  sparsco inspect spam.model --html spam.html\n"
        "  sparsco inspect spam.model --json\n"
        "  sparsco inspect spam.model --size 50 -o small.model     write a smaller model, without data\n"
        "\nexit code:\n"
        "    0  success\n"
        "    2  bad argument or model\n"
        "    3  a file could not be read or written",
    )
    to.add_argument("model", metavar="MODEL", help="a model file of sparsco train")
    to.add_argument(
        "--top", type=positive, default=20, metavar="N", help="number of features to show (default: 20; JSON: all)"
    )
    to.add_argument(
        "--size",
        type=positive,
        metavar="K",
        help="show the stored model with at most K features, of a model whose strength was chosen automatically",
    )
    to.add_argument("-o", "--output", metavar="FILE", help="write the model of --size to FILE")
    to.add_argument("--json", action="store_true", help="print everything as JSON")
    to.add_argument("--html", metavar="FILE", help="write one HTML page with plots")
    to.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from ..training import inspection, model_files

    content = model_files.read(given.model)
    if given.size:
        content = model_files.at_size(content, given.size)
    if given.output and not given.size:
        raise ValueError("-o writes a smaller model: add --size K, its largest number of features.")
    for output in (given.output, given.html):
        if output:
            check_writable(Path(output), given.model)
    if given.output:
        print(f"model: {model_files.write(given.output, content)}", file=sys.stderr)
    if given.html:
        print(f"report: {inspection.write_page(given.html, content, max(given.top, PAGE_FEATURES))}", file=sys.stderr)
    if given.json:
        print(to_json(inspection.description(content)))
    elif not given.html:
        print(inspection.described(content, given.top))
    return FINE
