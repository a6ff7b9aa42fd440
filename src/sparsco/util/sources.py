"""Hashes of the package's source files, by the results that they decide.

Compiled kernels and computed results are stored on disk under such a hash.  They are found again as long as nothing
that decides them was edited, and are never stale.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

_ROOT = Path(__file__).parents[1]
COMPILED = (
    "jit",
    "data",
    "parts/contracts.py",
    "log_link.py",
    "losses.py",
    "offsets.py",
    "penalties",
    "mirrors.py",
    "problem",
    "optimizers",
    "solver/units.py",
    "solver/columns.py",
    "solver/descent.py",
    "solver/block_descent.py",
    "solver/group_descent.py",
    "solver/row_pairs.py",
    "solver/best_intercept.py",
    "solver/corrected.py",
    "solver/small.py",
    "conversions/reservoir.py",
    "conversions/fading_sample.py",
    "conversions/gradient_phase.py",
    "text/characters.py",
    "text/fingerprints.py",
    "text/frequencies.py",
    "text/tokens.py",
    "streams/numbers.py",
    "streams/features.py",
    "streams/libsvm.py",
    "streams/vw.py",
    "streams/checksums.py",
    "streams/json_lines.py",
    "streams/cache.py",
    "selection/stable/paths.py",
    "selection/stable/bursts.py",
    "selection/stable/scaling.py",
    "estimators/checks_of_values.py",
    "bench/by_row.py",
)
"""The files and folders with functions that are compiled; a test compares this list with the compiled functions."""
SHOWN = (
    "cli",
    "plots",
    "util/html.py",
    "util/progress.py",
    "util/notices.py",
    "training/inspection.py",
    "training/descriptions.py",
    "training/paths.py",
    "bench/present.py",
    "reproduce/present.py",
    "reproduce/verdicts.py",
    "estimators/views.py",
)
"""The files and folders that only show computed results."""
OTHERS = (
    "bench/by_row.py",
    "bench/measure.py",
    "bench/optimum.py",
    "bench/problems/definitions.py",
    "bench/problems/measuring.py",
    "bench/problems/others.py",
    "bench/problems/record.py",
    "bench/sets.py",
    "bench/solvers.py",
    "data/randomness.py",
    "datasets",
    "metrics",
)
"""The files and folders that decide what the benchmark measures of other packages: none of our learning."""


@functools.cache
def kernels_hash() -> str:
    """Return a hash of the sources that decide compiled code."""
    return _hash(file for file in _files() if is_below(file, COMPILED))


@functools.cache
def results_hash() -> str:
    """Return a hash of the sources that decide the numbers of a result: all but those that only show them."""
    return _hash(file for file in _files() if not is_below(file, SHOWN))


@functools.cache
def others_hash() -> str:
    """Return a hash of the sources that decide what is measured of other packages."""
    return _hash(file for file in _files() if is_below(file, OTHERS))


def is_below(file: str, places: Iterable[str]) -> bool:
    """Return whether a file of the package is one of the places, or is in one of them."""
    return any(file == place or file.startswith(f"{place}/") for place in places)


def _files() -> list[str]:
    return sorted(path.relative_to(_ROOT).as_posix() for path in _ROOT.rglob("*.py"))


def _hash(files: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.encode())
        digest.update((_ROOT / file).read_bytes())
    return digest.hexdigest()[:16]
