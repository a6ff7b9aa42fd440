"""What a kernel needs to follow its iterates: the point to compare with, Bregman differences, the iterate to keep.

With w_bar fixed, Delta_t = D(w_bar, w_t) - D(w_bar, w_{t+1}) = Psi*(v_t) - Psi*(v_{t+1}) + <w_bar, v_{t+1} - v_t>.  The
last w_t with Delta_t at most a threshold is kept: not as a copy, but as a log of what has been overwritten since.  When
the log is full the iterate is written out once, after at least as many touches as there are features.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..records import Block, Problem

# places in Follow.number
B_BAR, THRESHOLD, B_KEPT, KEPT_DIFFERENCE, P_KEPT, SHRUNK_KEPT = range(6)
# places in Follow.count
LOGGED, KEPT, IS_WRITTEN, TAKES_LEAST = range(4)
REMEMBERED = 1000
"""Differences that a report shows: of the last examples."""


class Follow(NamedTuple):
    """Arrays that kernels share.

    ``w_bar``: the point compared with.  ``number``: its intercept, the threshold, then of the iterate that is kept its
    intercept, difference and clocks.  ``count``: entries in the log, the kept iterate's number (0: none), whether it is
    written out in ``kept``, whether the least difference is wanted in place of the last below the threshold.
    ``item``, ``old``: the log, features and two numbers of their cells.  ``difference``: one for each row in order.
    """

    w_bar: np.ndarray
    number: np.ndarray
    count: np.ndarray
    item: np.ndarray
    old: np.ndarray
    kept: np.ndarray
    difference: np.ndarray


class FollowingBlock(Block):
    """A block with what following needs; nothing is followed before ``follow``."""

    def __init__(self, columns: int) -> None:
        super().__init__(columns)
        self.differences = np.zeros(0)
        self._make(0)
        self.number[THRESHOLD] = -np.inf

    def _make(self, d: int) -> None:
        self.number, self.count = np.zeros(6), np.zeros(4, np.int64)
        self.w_bar, self.kept = np.zeros(d), np.zeros(d)
        self.item, self.old = np.zeros(0, np.uint32), np.zeros(0)

    def follow(self, w_bar: np.ndarray, b_bar: float, threshold: float, takes_least: bool) -> None:
        """From here on compare with this point; what was kept before stays kept until another iterate is."""
        self.w_bar = np.ascontiguousarray(w_bar, dtype=np.float64)
        self.number[B_BAR], self.number[THRESHOLD] = b_bar, threshold
        self.count[TAKES_LEAST] = takes_least

    def arrays(self, problem: Problem, steps: int) -> Follow:
        """For the next steps; features that came since are taken in."""
        d = problem.d
        if len(self.w_bar) < d:
            self.w_bar, self.kept = (np.append(old, np.zeros(d - len(old))) for old in (self.w_bar, self.kept))
        room = max(d, 1 << 12) + len(self.noted)
        if len(self.item) < room:
            used = int(self.count[LOGGED])
            item, old = np.zeros(room, np.uint32), np.zeros(2 * room)
            item[:used], old[: 2 * used] = self.item[:used], self.old[: 2 * used]
            self.item, self.old = item, old
        difference = np.zeros(steps)
        self.differences = np.append(self.differences[-REMEMBERED:], difference)
        view = self.differences[len(self.differences) - steps :]
        return Follow(self.w_bar, self.number, self.count, self.item, self.old, self.kept, view)


def kept_cells(block: Any, cells: np.ndarray) -> np.ndarray:
    """The cells (d, 2) as they were when the kept iterate was the present one: what was overwritten is put back."""
    out = cells.copy()
    for k in range(int(block.count[LOGGED]) - 1, -1, -1):
        out[block.item[k]] = block.old[2 * k : 2 * k + 2]
    return out
