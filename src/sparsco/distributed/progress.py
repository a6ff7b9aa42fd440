"""What phase one has reached between two rounds, and its checkpoints."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..streams.files import is_paths
from ..training import model_files
from ..training.checkpoints import Checkpoints
from .messages import Message, merged
from .partitions import Partition, Place, files_in, is_in_memory
from .sparse import Sparse

MOST_ROWS = 1 << 20
"""The rows of each partition in a round, at most."""


@dataclass(frozen=True)
class Window:
    """Sums of iterates over some rounds."""

    rows: int = 0
    sums: tuple[tuple[Sparse, np.ndarray], ...] | None = None

    def __add__(self, other: Window) -> Window:
        if self.sums is None or other.sums is None:
            return other if self.sums is None else self
        pairs = zip(self.sums, other.sums, strict=True)
        return Window(self.rows + other.rows, tuple((a[0] + b[0], a[1] + b[1]) for a, b in pairs))


@dataclass(frozen=True)
class Progress:
    """The state between two rounds of phase one."""

    size: int
    """The rows of each partition in the next round."""
    places: tuple[Place | None, ...]
    """Where partitions go on; None for those that have no more rows in this pass."""
    rows: tuple[int, ...]
    """The rows of each partition that the first pass has learned."""
    entries: int = 0
    """The nonzeros of these rows."""
    passes: int = 0
    """The number of passes that have ended."""
    learned: int = 0
    levels: tuple[Message, ...] = ()
    """Messages that add up to the state; each is smaller than the one before, so that only new numbers are sent."""
    fresh: int = 0
    """The bytes of levels that have not been sent to the partitions yet."""
    windows: tuple[Window, Window] = (Window(), Window())
    """The previous and the current window of iterates."""
    opened: int = 0
    """The examples that were learned before the current window."""
    rounds: tuple[dict[str, Any], ...] = ()
    """The figures of each round."""

    @classmethod
    def start(cls, size: int, partitions: int) -> Progress:
        """Return the state before the first round."""
        return cls(size, (Place(),) * partitions, (0,) * partitions)

    @property
    def active(self) -> list[int]:
        """Return the numbers of the partitions that have more rows in this pass."""
        return [k for k, place in enumerate(self.places) if place is not None]

    def after(self, total: Message, has_windows: bool) -> Progress:
        """Return the state after a round, whose merged message is ``total``."""
        is_first, places, rows = self.passes == 0, list(self.places), list(self.rows)
        for k, place, n in zip(self.active, total.places, total.rows, strict=True):
            places[k], rows[k] = place, rows[k] + n * is_first
        learned, (previous, current), opened = total.updates[0].rows, self.windows, self.opened
        if self.learned >= 2 * opened and has_windows:
            previous, current, opened = current, Window(), self.learned
        current += Window(learned, tuple((update.sums, update.bias_sums) for update in total.updates))
        figures = {
            "rows": learned,
            "partitions": len(self.active),
            "nonzeros": total.nonzeros,
            "up": total.sent + total.bytes,
            "down": self.fresh * len(self.active),
        }
        levels = self._with(Message(tuple(update.mean() for update in total.updates))) if learned else self.levels
        return replace(
            self,
            size=min(2 * self.size, MOST_ROWS),
            places=tuple(places),
            rows=tuple(rows),
            entries=self.entries + total.entries * is_first,
            learned=self.learned + learned,
            levels=levels,
            fresh=levels[-1].bytes if learned else 0,
            windows=(previous, current),
            opened=opened,
            rounds=(*self.rounds, figures),
        )

    def _with(self, mean: Message) -> tuple[Message, ...]:
        """Return the levels with one more, merged with the levels before it that are not larger."""
        levels = list(self.levels)
        while levels and levels[-1].bytes <= mean.bytes:
            mean = replace(merged(levels.pop(), mean), sent=0)
        return (*levels, mean)

    def after_pass(self) -> Progress:
        """Return the state at the beginning of the next pass."""
        return replace(self, places=(Place(),) * len(self.places), passes=self.passes + 1)


@dataclass
class Kept:
    """The checkpoints of a fit, if there are any, with what identifies the fit."""

    checkpoints: Checkpoints | None
    asked: str = ""
    """A hash of the settings and of the names of the partitions."""
    identity: Any = None
    """What the rows depend on: files, and a hash of the rows that are in memory."""
    seconds: float = 0.0
    """The duration of the fit before this process resumed it."""
    began: float = field(default_factory=time.monotonic)
    last: tuple[float, int] = field(default_factory=lambda: (time.monotonic(), 0))
    """The time of the last checkpoint, and the examples that were learned by then."""
    newest: dict[str, Any] | None = None
    """The newest state, if it is not in a checkpoint yet."""

    @property
    def elapsed(self) -> float:
        """Return the duration of the fit in seconds, with that of interrupted runs before it."""
        return self.seconds + time.monotonic() - self.began

    def identify(self, settings: Any, data: Any, partitions: Sequence[Partition]) -> None:
        """Set what identifies the fit; raise a ValueError for data whose changes cannot be detected."""
        if self.checkpoints is None:
            return
        if not (is_paths(data) or is_in_memory(data)):
            raise ValueError(
                "checkpoints= are for files and (X, y) in memory: changes of other data cannot be detected."
            )
        names = [each.name for each in partitions]
        self.asked = hashlib.sha256(repr((settings, names)).encode()).hexdigest()
        digest = hashlib.sha256()
        for each in partitions:
            for block in each.blocks:
                digest.update(block if isinstance(block, bytes) else b"")
        self.identity = {"files": files_in(partitions), "rows": digest.hexdigest()}

    def recall(self) -> tuple[Progress, list[int]] | None:
        """Return the state in the last checkpoint and the seeds of the runs; None if there is no checkpoint."""
        if self.checkpoints is None:
            raise ValueError("resume=True needs checkpoints= to resume from.")
        content = self.checkpoints.recall(self.asked, self.identity)
        if content is None:
            return None
        self.seconds, self.last = content["seconds"], (time.monotonic(), content["progress"].learned)
        return content["progress"], content["seeds"]

    def take(self, progress: Progress, seeds: list[int]) -> None:
        """Take note of the state after a round, and write a checkpoint if one is due."""
        if self.checkpoints is not None:
            self.newest = {"progress": progress, "seeds": seeds}
            if self.checkpoints.is_due(time.monotonic() - self.last[0], progress.learned - self.last[1]):
                self.write()

    def write(self) -> None:
        """Write the newest state as a checkpoint, unless it was written already."""
        if self.checkpoints is None or self.newest is None:
            return
        facts = {"asked": self.asked, "identity": self.identity, "environment": model_files.environment()}
        self.checkpoints.write(facts | self.newest | {"seconds": self.elapsed})
        self.last, self.newest = (time.monotonic(), self.newest["progress"].learned), None

    @contextmanager
    def on_error(self) -> Iterator[None]:
        """Write the newest state if the work in this context ends with an error, such as a lost cluster."""
        try:
            yield
        except BaseException:
            self.write()
            raise
