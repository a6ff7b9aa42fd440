"""The state for tracking iterates: the point to compare with, Bregman differences, and the iterate to keep.

With w_bar fixed, Delta_t = D(w_bar, w_t) - D(w_bar, w_{t+1}) = Psi*(v_t) - Psi*(v_{t+1}) + <w_bar, v_{t+1} - v_t>.  The
last w_t with Delta_t at most a threshold is kept: not as a copy, but as a log of the values overwritten since.  When
the log is full, the iterate is written out once, after at least as many touches as there are features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..problem.state import Block, Problem

REMEMBERED = 1000
"""The number of differences, of the last examples, in a report."""


class Tracking(NamedTuple):
    """The tracking arrays that kernels share; a block owns them.

    ``number``: 0 the intercept of w_bar, 1 the threshold; of the iterate that is kept 2 its intercept, 3 its
    difference, 4 and 5 the optimizer's clocks.  ``count``: 0 the end of the log, 1 the kept iterate's number (0: none
    yet), 2 whether it is written out in ``kept``, 3 whether the least difference is kept instead of the last below
    the threshold, 4 the beginning of the log.  ``item``, ``old``: the log, features and two numbers of their cells.
    ``difference``: one for each row in order.  w_bar itself is stored in the cells, after the sum of iterates.
    """

    number: np.ndarray
    count: np.ndarray
    item: np.ndarray
    old: np.ndarray
    kept: np.ndarray
    difference: np.ndarray


class TrackingBlock(Block):
    """A block with the arrays for tracking iterates; comparisons start with ``follow``."""

    def __init__(self, columns: int = 1) -> None:
        super().__init__(columns)
        self.number, self.count = np.zeros(6), np.zeros(5, np.int64)
        self.number[1] = -np.inf
        self.kept = np.zeros(0)
        self.item, self.old = np.zeros(0, np.uint32), np.zeros(0)
        self.differences = np.zeros(0)

    def follow(self, b_bar: float, threshold: float, takes_least: bool = False) -> None:
        """Compare from now on with the point in the cells; the kept iterate stays until another is kept."""
        self.number[0], self.number[1], self.count[3] = b_bar, threshold, takes_least

    @property
    def iterate(self) -> int:
        """Return the number of the iterate that is kept; 0 for none."""
        return int(self.count[1])

    def arrays(self, problem: Problem, steps: int) -> Tracking:
        """Return the tracking arrays for the next steps, grown to the current number of features."""
        d = problem.d
        if len(self.kept) < d:
            self.kept = np.append(self.kept, np.zeros(d - len(self.kept)))
        room = 2 * max(d, 1 << 11) + len(self.noted)
        if len(self.item) < room:
            self.item = np.append(self.item, np.zeros(room - len(self.item), np.uint32))
            self.old = np.append(self.old, np.zeros(2 * room - len(self.old)))
        self.differences = np.append(self.differences[-REMEMBERED:], np.zeros(steps))
        return Tracking(self.number, self.count, self.item, self.old, self.kept, self.differences[-steps:])

    def undone(self, cells: np.ndarray) -> np.ndarray:
        """Return the cells (d, 2) as of the kept iterate, with the overwritten values restored."""
        out, log = cells.copy(), slice(int(self.count[4]), int(self.count[0]))
        old = self.old.reshape(-1, 2)[log]
        first = np.unique(self.item[log], return_index=True)[1]  # a feature's value before its first change
        out[self.item[log][first]] = old[first]
        return out
