"""Checkpoints of a training run: files that store its state, in two generations."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, NamedTuple

from ..util.atomic_files import clear_remains
from ..util.notices import warn
from . import archive


class ResumeError(ValueError):
    """An error for a checkpoint of another run, or of other data."""


class Checkpoints(NamedTuple):
    """The files for the state of a run, in two generations, and the rows or seconds after which a new one is due."""

    path: Path
    rows: int | None = None
    seconds: float | None = 60.0

    @property
    def previous(self) -> Path:
        """Return the path of the checkpoint before the last."""
        return self.path.with_name(self.path.name + ".previous")

    @property
    def newest(self) -> Path:
        """Return the path of a checkpoint that is just being written; it exists only until the others have moved."""
        return self.path.with_name(self.path.name + ".newest")

    def write(self, content: dict[str, Any]) -> None:
        """Write a new checkpoint; the older ones move when it is on disk."""
        archive.write(self.newest, "checkpoint", content)
        for older, newer in ((self.previous, self.path), (self.path, self.newest)):
            with contextlib.suppress(FileNotFoundError):  # the first checkpoint, or another run with this name moved it
                newer.replace(older)

    def read(self) -> dict[str, Any]:
        """Return the content of the newest checkpoint that is whole."""
        problem: Exception = FileNotFoundError(f"{self.path}: there is no checkpoint to resume from.")
        for path in (self.newest, self.path, self.previous):
            try:
                content = archive.read(path, "checkpoint")
            except (archive.ArchiveError, FileNotFoundError) as error:
                problem = error if isinstance(error, archive.ArchiveError) else problem
                continue
            if isinstance(problem, archive.ArchiveError):
                warn(f"{problem} The checkpoint before it is used.")
            return content
        raise problem

    def remove(self) -> None:
        """Remove the checkpoints of a run that has ended without an error."""
        for path in (self.newest, self.path, self.previous):
            path.unlink(missing_ok=True)
        clear_remains(self.newest)

    def exist(self) -> bool:
        """Return whether there is a checkpoint."""
        return any(path.exists() for path in (self.newest, self.path, self.previous))
