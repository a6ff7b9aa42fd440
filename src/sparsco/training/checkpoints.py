"""Checkpoints of a training run: files that store its state, in two generations."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data.row_order import RowOrder
from ..estimators.linear import LinearModel
from ..util.atomic_files import clear_remains
from ..util.notices import warn
from ..util.typed import check_fields, checked
from . import archive
from .model_checks import check_learner
from .model_files import differences


class ResumeError(ValueError):
    """An error for a checkpoint of another run, or of other data."""


class _Common(NamedTuple):
    """What every checkpoint holds."""

    asked: str
    identity: Any
    environment: dict[str, str]


class Saved(NamedTuple):
    """What a checkpoint of ``train`` holds beside the asked settings and the identity of the data."""

    names: dict[int, str]
    model: LinearModel | None
    """The model; None before the first rows are learned."""
    classes: Any
    epoch: int
    row: int
    rows: int
    behind: tuple[dict[str, Any] | None, int]
    judged: np.ndarray
    drift: RowOrder | None
    seconds: float
    table: list[tuple[Any, ...]]
    notes: list[str]

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Saved:
        """Return the position in a checkpoint; raise an error if it is none."""
        found = checked(cls(*(content[name] for name in cls._fields)))
        if found.judged.shape != (2, 3) or found.judged.dtype != np.float64:
            raise ValueError("its figures are not numbers")
        if found.model is not None:
            check_learner(found.model)
        return found


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

    def is_due(self, seconds: float, rows: int) -> bool:
        """Return whether a checkpoint is due, so many seconds and rows after the last."""
        return (self.seconds is not None and seconds >= self.seconds) or (self.rows is not None and rows >= self.rows)

    def write(self, content: dict[str, Any]) -> None:
        """Write a new checkpoint; the older ones move when it is on disk."""
        archive.write(self.newest, "checkpoint", content)
        for older, newer in ((self.previous, self.path), (self.path, self.newest)):
            with contextlib.suppress(FileNotFoundError):  # the first checkpoint, or another run with this name moved it
                newer.replace(older)

    def recall(self, asked: str, identity: Any) -> dict[str, Any] | None:
        """Return the content of the newest checkpoint; None, with a warning, if there is none.

        There is none after a run that ended before its first checkpoint.  Raise a ResumeError if the checkpoint is of
        other settings, of which ``asked`` is a hash, or of data with another identity.
        """
        if not self.exist():
            warn(f"there is no checkpoint {self.path} to resume from: training starts from the beginning.")
            return None
        content = self.read()
        with archive.refusing(self.path, "is not a checkpoint that sparsco wrote"):
            check_fields(_Common, ((name, content[name]) for name in _Common._fields))
        if content["asked"] != asked:
            raise ResumeError(f"{self.path} belongs to a run with other settings: repeat those, or do not resume.")
        if content["identity"] != identity:
            raise ResumeError(f"the data changed since {self.path} was written: train again, without resuming.")
        for sentence in differences(content["environment"]):
            warn(f"{self.path} was written with {sentence}: the model may differ in the last bits.")
        return content

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


def resumed(run: Any) -> Any:
    """Go on from the last checkpoint of a training run, and return its result.

    The state of a model is checked as far as compiled code relies on it.  Other parts that do not fit are met later.
    """
    existed = run.checkpoints is not None and run.checkpoints.exist()
    with going_on_from(run.checkpoints.path if existed else None, "resuming"):
        run.recall()
        return run.whole()


@contextlib.contextmanager
def going_on_from(path: str | Path | None, what: str) -> Iterator[None]:
    """Turn an error that parts of a state cause, which do not fit together, into a ResumeError; None is no file."""
    try:
        yield
    except (AssertionError, AttributeError, LookupError, OverflowError, TypeError, ZeroDivisionError) as error:
        if path is None:
            raise
        why = f"{type(error).__name__}: {error}"
        raise ResumeError(f"{path} cannot be continued ({why}): train without {what}.") from error


def hash_of(settings: Mapping[str, Any], others: tuple[Any, ...], under_way: list[int], more: str) -> str:
    """Return a hash of the parameters of a training run, to compare with that in a checkpoint.

    ``half_life`` counts where it is set, so that checkpoints of before still fit.
    """
    given = sorted((name, value) for name, value in settings.items() if name != "half_life" or value is not None)
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        return hashlib.sha256((repr((*others, given, under_way)) + more).encode()).hexdigest()
