"""Results on disk: one line for each method in each trial, written when it is done and found again by what it is.

A line is named by a hash of everything that decides its numbers: problem, method, trial and this package's sources.  A
line that was cut off by a crash is not valid JSON and counts as not written.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from ..dispatch import source_hash


def cache_folder() -> Path:
    """Where results are kept between runs."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "sparsco" / "reproduce"


class Stores:
    """One store for each study.  ``is_resumed``: what earlier processes left is used; else only what comes now is."""

    def __init__(self, folder: Path, is_resumed: bool) -> None:
        self.folder, self.is_resumed = folder, is_resumed
        self._opened: dict[str, Store] = {}

    def of(self, study: str) -> Store:
        """The study's store, the same whenever it is asked for: tables and figures share their runs."""
        if study not in self._opened:
            path = self.folder / f"{study}-{source_hash()[:12]}.jsonl"
            self._opened[study] = Store(path, self.is_resumed)
        return self._opened[study]


class Store:
    """The results of one study."""

    def __init__(self, path: Path, is_resumed: bool) -> None:
        self.path = path
        self.found: dict[str, Any] = {}
        if is_resumed and self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                    self.found[entry["name"]] = entry["result"]
                except (json.JSONDecodeError, KeyError, TypeError):
                    continue

    def put(self, results: dict[str, Any]) -> None:
        """Keep results, by name; they are on disk when this returns."""
        self.found |= results
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps({"name": name, "result": result}) + "\n" for name, result in results.items())
        with self.path.open("ab") as file:
            if file.tell() and not self._ends_a_line():
                file.write(b"\n")
            file.write(lines.encode())
            file.flush()
            os.fsync(file.fileno())

    def _ends_a_line(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


def name_of(*parts: Any) -> str:
    """A name for results that depend on these."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]
