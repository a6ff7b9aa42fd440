"""Facts about the machine: the folder for files between runs, and the number of cores."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Return a folder of the package below XDG_CACHE_HOME or ~/.cache; it need not exist."""
    return expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "XDG_CACHE_HOME") / "sparsco" / name


def expanded(path: str | Path, setting: str) -> Path:
    """Return a path with the home folder in place of ~; raise an OSError that names the setting if there is no home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise OSError(
            f"{path} cannot be found, because the home folder does not exist: set {setting} to another folder."
        ) from None


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
