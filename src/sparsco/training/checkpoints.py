"""Checkpoints of a training run: where its state is kept, in two generations."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, NamedTuple

from ..util.atomic_files import clear_remains
from ..util.notices import warn
from . import archive


class ResumeError(ValueError):
    """The checkpoint is of another run, or of other data."""


class Checkpoints(NamedTuple):
    """Where the state of a run is kept, in two generations, and after how many rows or seconds a new one is due."""

    path: Path
    rows: int | None = None
    seconds: float | None = 60.0

    @property
    def previous(self) -> Path:
        return self.path.with_name(self.path.name + ".previous")

    @property
    def newest(self) -> Path:
        """For a moment only, until the others have moved."""
        return self.path.with_name(self.path.name + ".newest")

    def write(self, content: dict[str, Any]) -> None:
        """The newest; the others move when it is on disk."""
        archive.write(self.newest, "checkpoint", content)
        for older, newer in ((self.previous, self.path), (self.path, self.newest)):
            with contextlib.suppress(FileNotFoundError):  # the first one; or another run with this name moved it
                newer.replace(older)

    def read(self) -> dict[str, Any]:
        """The newest that is whole."""
        problem: Exception = FileNotFoundError(f"{self.path}: there is no checkpoint to resume from.")
        for path in (self.newest, self.path, self.previous):
            try:
                content = archive.read(path, "checkpoint")
            except (archive.ArchiveError, FileNotFoundError) as error:
                problem = error if isinstance(error, archive.ArchiveError) else problem
                continue
            if isinstance(problem, archive.ArchiveError):
                warn(f"{problem} The one before it is taken.")
            return content
        raise problem

    def remove(self) -> None:
        """Of a run that ended well."""
        for path in (self.newest, self.path, self.previous):
            path.unlink(missing_ok=True)
        clear_remains(self.newest)

    def exist(self) -> bool:
        """Whether there is one."""
        return any(path.exists() for path in (self.newest, self.path, self.previous))
