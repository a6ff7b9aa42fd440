"""Results on disk: one line for each method in each trial, written when it is done and found again by its name.

The name of a line is a hash of everything that decides its numbers: problem, method, trial and the sources of this
package.  A line that was cut off by a crash is not valid JSON and counts as not written.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .atomic_files import naming
from .sources import others_hash, results_hash

_STALE = 30 * 86_400.0
"""The age in seconds after which results of another version of the sources are removed."""


def _age(path: Path) -> float:
    return time.time() - path.stat().st_mtime


class Stores:
    """The stores of all studies, one for each.

    With ``is_resumed`` the results of earlier processes are used; else only those of this process.
    """

    def __init__(self, folder: Path, is_resumed: bool) -> None:
        self.folder, self.is_resumed = folder, is_resumed
        self._opened: dict[str, Store] = {}

    def of(self, study: str, sources: Callable[[], str] = results_hash) -> Store:
        """Return the store of a study, whose results the hashed sources decide.

        Repeated calls return the same store, so that tables and figures share their runs.
        """
        if study not in self._opened:
            path = self.folder / f"{study}.{sources()[:12]}.jsonl"
            self._opened[study] = Store(path, self.is_resumed)
        return self._opened[study]

    def check(self) -> None:
        """Raise an OSError if the folder cannot be written to, before anything is computed; remove old results."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise OSError(
                f"results cannot be kept in {self.folder} ({error.strerror}): set XDG_CACHE_HOME to a folder that can "
                "be written to."
            ) from error
        for path in self.folder.glob("*.jsonl"):
            is_current = path.suffixes[-2] in (f".{results_hash()[:12]}", f".{others_hash()[:12]}")
            if not is_current and _age(path) > _STALE:
                path.unlink(missing_ok=True)


class Store:
    """The results of one study."""

    def __init__(self, path: Path, is_resumed: bool) -> None:
        self.path = path
        self._written: dict[str, Any] = {}
        if self.path.exists():
            for line in self.path.read_bytes().splitlines():
                try:
                    entry = json.loads(line)
                    self._written[entry["name"]] = entry["result"]
                except (ValueError, KeyError, TypeError):
                    continue
        self.found: dict[str, Any] = dict(self._written) if is_resumed else {}

    def once(self, name: str, find: Callable[[], Any]) -> Any:
        """Return the stored result of this name; call ``find`` and store its result if there is none."""
        if name not in self.found:
            self.put({name: find()})
        return self.found[name]

    def drop(self, name: str) -> None:
        """Forget the result of this name, so that it is found and stored again."""
        self.found.pop(name, None)
        self._written.pop(name, None)

    def restart(self) -> None:
        """Drop the results of earlier processes, on disk as well, for results that differ each time."""
        self.path.unlink(missing_ok=True)
        self._written.clear()
        self.found.clear()

    def put(self, results: dict[str, Any]) -> None:
        """Store results by name.

        They are on disk when this returns.  Results that are stored already are not written again.
        """
        self.found |= results
        new = {name: result for name, result in results.items() if name not in self._written}
        self._written |= new
        lines = "".join(json.dumps({"name": name, "result": result}) + "\n" for name, result in new.items())
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with naming(self.path), self.path.open("ab") as file:
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
    """Return a name for results that depend on these parts."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]
