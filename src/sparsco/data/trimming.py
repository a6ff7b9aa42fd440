"""A bound on the features of a stream: which of them leave the training state, and when.

A feature is in use from its first example until it leaves; if it comes back, it starts anew.  Nothing leaves in the
first examples, which a run collects.  Then features leave at three kinds of boundaries:

- after the last of the first examples, those above ``max_features`` that were absent for longest;
- after every ``trim`` examples, those of weight zero that none of the last ``trim`` examples had;
- before an example that would bring more than ``max_features`` features into use, those that were absent for longest,
  so many that a quarter of ``max_features`` is free, and at least the example has room.

The absence of a feature is counted from its last example but one, and from the beginning of the stream if it has had
one example only: so features that come once leave before those that come again and again.  A feature that has a weight
may be absent for four times as long.  Where two are equal, the one stays that was seen last, then the one that came
first.

All depend on the examples alone, never on how they are cut into calls.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..jit.dispatch import kernel
from .rows import Matrix

_NO_BOUND = 1 << 62
_LONGER = 4
"""How many times as long as others a feature that has a weight may be absent."""


class Placed(NamedTuple):
    """Rows whose features have slots: the slots by entry, the row behind them, and the keys that got new slots."""

    slots: np.ndarray
    stop: int
    new: np.ndarray
    needed: int
    """The number of new features of the next row, if there was no room for them; otherwise 0."""


class Trimming:
    """The features in use of a stream: when each was last seen, and how many have left; the fit owns it."""

    def __init__(self, most: int | None, idle: int | None) -> None:
        """Set the largest number of features, and the examples after which an unseen feature leaves."""
        self.most, self.idle = most, idle
        self.examples = 0
        """The number of examples so far."""
        self.last = np.zeros(0, np.int64)
        """The number of the last example of each slot, counted from 1; it may be longer than there are slots."""
        self.before = np.zeros(0, np.int64)
        """The number of the example before that; 0 for none."""
        self.is_crowded = False
        """Whether there was no room for all features that have a weight, at the last boundary."""
        self.trimmed_at = 0
        """The number of examples at which features that were unseen for long last left."""
        self.left = self.times = self.first_at = self.last_at = self.selected = 0

    def check(self) -> None:
        """Raise a ValueError for numbers of examples that there were not."""
        for numbers in (self.last, self.before):
            if (
                numbers.dtype != np.int64
                or numbers.ndim != 1
                or not ((0 <= numbers) & (numbers <= self.examples)).all()
            ):
                raise ValueError("the last examples of its features are not numbers")
        bounds = [bound for bound in (self.most, self.idle) if bound is not None]
        if len(self.last) != len(self.before) or not all(bound >= 1 for bound in bounds):
            raise ValueError("the last examples of its features are missing")

    # ---- rows in ---------------------------------------------------------------------------------------------------

    def place(
        self, rows: Matrix, first: int, stop: int, slot_of: np.ndarray, used: int, is_bounded: bool = True
    ) -> Placed:
        """Give slots to the features of rows ``first`` to ``stop`` - 1, up to the first that has no room.

        The columns of rows are keys, and ``slot_of`` has the slot of each key, -1 for none; it is changed in place.
        ``used`` is the number of slots so far.
        """
        if len(self.last) < used + len(slot_of):
            more = np.zeros(used + len(slot_of) - len(self.last), np.int64)
            self.last, self.before = np.append(self.last, more), np.append(self.before, more)
        out, new = np.empty(rows.indptr[stop] - rows.indptr[first], np.uint32), np.empty(len(slot_of), np.int64)
        most = self.most if is_bounded and self.most is not None else _NO_BOUND
        arrays = rows.indptr, rows.indices, slot_of, self.last, self.before, out, new
        end, count, needed = place_rows(*arrays, first, stop, used, most, self.examples + 1)
        self.examples += end - first
        return Placed(out[: rows.indptr[end] - rows.indptr[first]], end, new[:count], needed)

    # ---- features out ----------------------------------------------------------------------------------------------

    @property
    def until_due(self) -> int:
        """Return how many examples are left until features that are unseen for long leave; 0 if they leave now."""
        if self.idle is None:
            return _NO_BOUND
        due = (self.examples // self.idle) * self.idle
        return 0 if due == self.examples > self.trimmed_at else due + self.idle - self.examples

    def without_idle(self, is_selected: np.ndarray) -> np.ndarray:
        """Return the slots that stay when features leave that are unseen for long and not selected."""
        assert self.idle is not None
        self.trimmed_at = self.examples
        return np.flatnonzero(is_selected | (self.last[: len(is_selected)] > self.examples - self.idle))

    def with_room(self, is_selected: np.ndarray, needed: int) -> np.ndarray:
        """Return the slots that stay when an example needs room for so many new features; 0 where none comes."""
        assert self.most is not None
        used, room = len(is_selected), max(min(needed, self.most), self.most // 4, 1) if needed else 0
        absent = (self.examples + 1 - self.before[:used]) * np.where(is_selected, 1, _LONGER)
        kept = np.sort(np.lexsort((np.arange(used), -self.last[:used], absent))[: max(self.most - room, 0)])
        self.is_crowded = np.count_nonzero(is_selected) > len(kept)
        return kept

    def leave(self, kept: np.ndarray, is_selected: np.ndarray) -> None:
        """Count the features that leave, and keep the others, which get the slots 0, 1, ... in their order."""
        self.left += len(is_selected) - len(kept)
        self.selected += int(np.count_nonzero(is_selected)) - int(np.count_nonzero(is_selected[kept]))
        self.times += 1
        self.first_at, self.last_at = self.first_at or self.examples, self.examples
        self.last, self.before = self.last[kept], self.before[kept]

    def report(self, used: int) -> dict[str, Any]:
        """Return how many features are in use and how many left, at how many boundaries, the first and the last."""
        figures = {"in_use": used, "left": self.left, "selected_left": self.selected, "times": self.times}
        return figures | {"first_at": self.first_at or None, "last_at": self.last_at or None}


@kernel
def place_rows(indptr, keys, slot_of, last, before, out, new, first, stop, used, most, number):
    """Write the slots of rows to ``out`` and keys with new slots to ``new``; stop before a row that has no room.

    ``last`` gets the numbers of the rows, from ``number`` on, and ``before`` what ``last`` was.  Return the row behind
    the last one, how many slots are new, and how many a row would have needed that has no room; its other features
    count as seen by it.
    """
    count = 0
    for i in range(first, stop):
        had, now = count, number + i - first
        for p in range(indptr[i], indptr[i + 1]):
            if slot_of[keys[p]] < 0:
                slot_of[keys[p]] = used + count
                last[used + count] = before[used + count] = 0
                new[count] = keys[p]
                count += 1
        needed = count - had
        fits = needed == 0 or used + count <= most
        for k in range(had, had if fits else count):
            slot_of[new[k]] = -1
        for p in range(indptr[i], indptr[i + 1]):
            slot = slot_of[keys[p]]
            if slot >= 0:
                if last[slot] != now:
                    last[slot], before[slot] = now, last[slot]
                out[p - indptr[first]] = slot
        if not fits:
            return i, had, needed
    return stop, count, 0
