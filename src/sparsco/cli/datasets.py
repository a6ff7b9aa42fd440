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
        "\nFiles lie below the folder SPARSCO_DATA, else in the user's cache folder.\n"
        "exit code: 0 fine, 2 unknown or missing data, or contents that are not what they should be, 3 not downloaded",
    )
    to.add_argument("action", choices=("list", "download", "verify"))
    to.add_argument("names", nargs="*", metavar="NAME", help="data sets; needed unless listing")
    to.add_argument("--to", metavar="FOLDER", help="download there instead")
    to.add_argument("--from", dest="address", metavar="ADDRESS", help="root of another copy of the data folder")
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
        raise ValueError("--to and --from are for downloads: verify looks where experiments do.")
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
            checked = "verified" if copy.verified else f"SHA-256 {copy.sha256}, no checksum known to compare with"
            print(f"{copy.path}: {checked}")
    return FINE
