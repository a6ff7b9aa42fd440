"""What partitions and their coordinator send each other while they learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.rows import Matrix
from ..engine.run import Run
from ..estimators.tasks import places_among
from ..training.labelled_rows import LabelledRows, labels
from .partitions import Place
from .sparse import Sparse


@dataclass(frozen=True)
class Job:
    """The problem to learn: runs without a state, and the estimator that encodes labels."""

    shell: Any
    runs: tuple[Run, ...]
    names: Mapping[str, Any]
    """The options that fix the column of each name of a feature for a reader."""

    def rows(self, part: LabelledRows, where: str, row: int) -> tuple[Matrix, np.ndarray, np.ndarray, np.ndarray]:
        """Return rows in the form that runs take: matrix, codes, weights, and the numbers of the rows with a weight."""
        y = part.y
        refuse_offsets(part)
        if self.shell.classifies:
            y = labels(y)
            if not _are_all(self.shell.classes_, y):
                at = int(np.argmin(np.isin(y, self.shell.classes_)))
                raise ValueError(
                    f"{where}, row {row + at + 1} has the label {y[at : at + 1].tolist()[0]!r}, which is "
                    f"not one of the classes {self.shell.classes_.tolist()}: name all of them in classes=."
                )
        codes, weights = self.shell.encode_next(y, part.weights, False, None, is_repeat=True)
        weights = np.ones(len(codes)) if weights is None else weights
        return part.matrix, codes, weights, np.flatnonzero(weights)


def refuse_offsets(part: LabelledRows) -> None:
    """Raise a ValueError for rows with an offset, which fits over partitions do not support."""
    if part.offsets is not None:
        raise ValueError("data in partitions takes no offset: train on one machine, or leave the offset out.")


def _are_all(classes: np.ndarray, y: np.ndarray) -> bool:
    """Return whether all labels are among the classes."""
    try:
        return places_among(classes, y) is not None
    except TypeError:  # words among numbers
        return False


@dataclass(frozen=True)
class Update:
    """A change of the state of one run, times the share of a round's rows behind it, and the sums of its iterates."""

    rows: int
    share: float
    """The rows over the most that a partition learns in the round: 1 where it learned them all."""
    cells: Sparse
    rest: np.ndarray
    """The change of the intercepts' numbers, the optimizer's scalars and the clock."""
    sums: Sparse
    bias_sums: np.ndarray

    def __add__(self, other: Update) -> Update:
        return Update(
            self.rows + other.rows,
            self.share + other.share,
            self.cells + other.cells,
            self.rest + other.rest,
            self.sums + other.sums,
            self.bias_sums + other.bias_sums,
        )

    def mean(self) -> Update:
        """Return the mean change, with clocks as whole numbers and without the sums of iterates."""
        rest = self.rest / self.share
        rest[-1] = np.rint(rest[-1])
        nothing = Sparse.of(np.zeros((0, self.sums.k)), self.sums.exact)
        return Update(1, 1.0, self.cells / self.share, rest, nothing, 0.0 * self.bias_sums)


@dataclass(frozen=True)
class Message:
    """The result of partitions after a round: a change for each run, the places to go on from, and the bytes sent."""

    updates: tuple[Update, ...]
    places: tuple[Place | None, ...] = ()
    rows: tuple[int, ...] = ()
    sent: int = 0
    nonzeros: int = 0
    entries: int = 0
    """The number of nonzeros of the rows that were learned."""

    @property
    def bytes(self) -> int:
        """Return the size of the updates in bytes."""
        return sum(u.cells.bytes + u.sums.bytes + u.rest.nbytes + u.bias_sums.nbytes for u in self.updates)

    def __sizeof__(self) -> int:  # Dask uses this
        return self.bytes


def merged(left: Message, right: Message) -> Message:
    """Return two messages as one; one of them had to be sent to the other."""
    return Message(
        tuple(a + b for a, b in zip(left.updates, right.updates, strict=True)),
        left.places + right.places,
        left.rows + right.rows,
        left.sent + right.sent + right.bytes,
        left.nonzeros + right.nonzeros,
        left.entries + right.entries,
    )


# ---- tasks of the workers --------------------------------------------------------------------------------------------
