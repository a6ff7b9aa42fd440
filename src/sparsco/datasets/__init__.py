"""Data sets: real sets by name, generated rows, tomography.

``registry`` finds, checks, downloads and loads real sets; ``generators`` and ``tomography`` generate data.
"""

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
