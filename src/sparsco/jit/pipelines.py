"""The choice between two pipelines that compile kernels, by the version of numba.

The *lean pipeline* (`lean_pipeline.py`) uses numba's internals and compiles up to twice as fast.  The *stock pipeline*
is numba's own, with documented options only.  Both give the same bits.  This module does not import numba.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ..util.notices import warn

PACKAGE = __name__.partition(".")[0]

KNOWN = (0, 61), (0, 68)
"""The first and the last minor version of numba that passed the tests with the lean pipeline."""

STOCK_VARIABLE = "SPARSCO_STOCK_PIPELINE"
"""The environment variable that chooses the stock pipeline for any version: set it to 1."""

CONSTANTS: set[Callable[[Any], int]] = set()
"""Functions of a record that depend on its class alone: the lean pipeline evaluates them before types are inferred."""


@functools.cache
def is_ours_by_module(thing: Any) -> bool:
    """Return whether a class or a function comes with the package."""
    return thing.__module__.partition(".")[0] == PACKAGE


def class_of(kind: Any) -> type | None:
    """Return the class of the record behind a numba type, None where the type is not a record's."""
    return getattr(kind, "instance_class", None)


@functools.cache
def numba_version() -> str:
    """Return the version of the installed numba, "?" where its metadata is missing."""
    try:
        return importlib.metadata.version("numba")
    except importlib.metadata.PackageNotFoundError:
        return "?"


def is_known(version: str) -> bool:
    """Return whether a version of numba is one of `KNOWN`."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and KNOWN[0] <= (int(found[1]), int(found[2])) <= KNOWN[1]


def chosen() -> str:
    """Return the name of the pipeline that the version and the environment choose: "lean" or "stock"."""
    return "lean" if is_known(numba_version()) and os.environ.get(STOCK_VARIABLE, "") in ("", "0") else "stock"


class Options(NamedTuple):
    """The options of ``njit`` that define a pipeline."""

    pipeline: str
    kernel: dict[str, Any]
    """The options of kernels whose arrays all come from outside."""
    allocating: dict[str, Any]
    """The options of kernels that allocate arrays."""
    inner: dict[str, Any]
    """The options of functions that only kernels call."""


DOCUMENTED = {"nogil": True, "error_model": "numpy", "boundscheck": False}
"""The options that affect the results of a kernel: the same in both pipelines."""

STOCK = Options("stock", DOCUMENTED, DOCUMENTED, DOCUMENTED)


@functools.cache
def options() -> Options:
    """Return the options of the chosen pipeline; the stock ones, with a warning, if the lean one cannot be imported."""
    if chosen() == "lean":
        try:
            from .lean_pipeline import LEAN

            return LEAN
        except ImportError as error:
            warn(
                f"numba {numba_version()} lacks what the lean pipeline needs ({error}): kernels compile slowly; "
                "reinstall numba, or install another version of it.",
                RuntimeWarning,
            )
    return STOCK
