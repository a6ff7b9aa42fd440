"""The command ``datasets``."""

from __future__ import annotations

import argparse

from .options import FINE, command


def add(commands: argparse._SubParsersAction) -> None:
    """Add the command to the parser."""
    to = command(
        commands,
        "datasets",
        "list, fetch and check the real data sets that experiments use",
        "  sparsco datasets list\n"
        "  SPARSCO_DATA=~/data sparsco datasets download mnist\n"
        "  sparsco datasets verify mnist\n"
        "\nThe files are below the folder SPARSCO_DATA.  If it is not set, they are in the user's cache folder.\n"
        "\nexit code:\n"
        "    0  success\n"
        "    2  unknown, missing or damaged data\n"
        "    3  the download failed",
    )
    to.add_argument("action", choices=("list", "download", "verify"), help="what to do")
    to.add_argument("names", nargs="*", metavar="NAME", help="data sets; list needs none")
    to.add_argument("--to", metavar="FOLDER", help="download to this folder")
    to.add_argument(
        "--from",
        dest="address",
        metavar="ADDRESS",
        help="download from this address, the root of another copy of the data folder",
    )
    to.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from .. import datasets
    from ..util.progress import Bar

    if given.action == "list":
        for line in datasets.listing():
            rows = " / ".join(f"{n:,}" for n in line.rows)
            print(f"{line.name:16} {rows:>18} x {line.features:>9,}  {line.task:10} {line.where}")
        return FINE
    if given.action == "verify" and (given.to or given.address):
        raise ValueError(
            "--to and --from are for downloads: leave them out, verify reads the folder that experiments use."
        )
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
            checked = (
                "verified" if copy.verified else (f"SHA-256 {copy.sha256}, there is no known checksum to compare with")
            )
            print(f"{copy.path}: {checked}")
    return FINE
