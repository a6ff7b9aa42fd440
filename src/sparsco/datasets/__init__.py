"""Data sets: real sets by name, generated rows, tomography.

``registry`` finds, checks, downloads and loads real sets; ``generators`` and ``tomography`` generate data.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .registry import (
    REGISTRY,
    Dataset,
    DownloadError,
    File,
    MissingDataError,
    download,
    find,
    folders,
    listing,
    load,
    mnist_pair,
    two_digits,
    verify,
)

__all__ = [
    "REGISTRY",
    "Dataset",
    "DownloadError",
    "File",
    "MissingDataError",
    "download",
    "find",
    "folders",
    "listing",
    "load",
    "mnist_pair",
    "two_digits",
    "verify",
]


@contextmanager
def ends_if_missing() -> Iterator[None]:
    """End a script whose data are missing with the sentence that says so, without a traceback."""
    try:
        yield
    except MissingDataError as missing:
        sys.exit(str(missing))
