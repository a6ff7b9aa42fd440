"""The state for tracking iterates: the point to compare with, Bregman differences, and the iterate to keep.

With w_bar fixed, Delta_t = D(w_bar, w_t) - D(w_bar, w_{t+1}) = Psi*(v_t) - Psi*(v_{t+1}) + <w_bar, v_{t+1} - v_t>.  The
last w_t with Delta_t at most a threshold is kept: not as a copy, but as a log of the values overwritten since.  When
the log is full, the iterate is written out once, after at least as many touches as there are features.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..jit.dispatch import U, inlined
from ..problem.bounds import Bounded, equal
from ..problem.state import Block, Problem, State

REMEMBERED = 1000
"""The number of differences, of the last examples, in a report."""

B_BAR, THRESHOLD, KEPT_B, KEPT_DIFFERENCE, KEPT_P, KEPT_SHRINKAGE = range(6)
"""The entries of ``number``: the intercept of w_bar, the threshold; of the iterate that is kept its intercept, its
difference, and the P and B at which FOBOS had it.
"""
LOG_END, KEPT_ITERATE, IS_WRITTEN, TAKES_LEAST, LOG_START = range(5)
"""The entries of ``count``: the end of the log, the number of the iterate that is kept (0: none yet), whether it is
written out in ``kept``, whether the least difference is kept instead of the last below the threshold, the log's start.
"""


class Tracking(NamedTuple):
    """The tracking arrays that kernels share; a block owns them.

    ``number`` and ``count`` have the entries named above.  ``item`` and ``old`` are the log: features and two numbers
    of their cells.  ``difference`` has one number for each row in order.  w_bar itself is in the cells, after the sum
    of iterates.
    """

    number: np.ndarray
    count: np.ndarray
    item: np.ndarray
    old: np.ndarray
    kept: np.ndarray
    difference: np.ndarray


class TrackingBlock(Block):
    """A block with the arrays for tracking iterates; comparisons start with ``compare_with``."""

    def __init__(self, columns: int = 1) -> None:
        super().__init__(columns)
        self.number, self.count = np.zeros(6), np.zeros(5, np.int64)
        self.number[THRESHOLD] = -np.inf
        self.kept = np.zeros(0)
        self.item, self.old = np.zeros(0, np.uint32), np.zeros(0)
        self.differences = np.zeros(0)

    def bounds(self, problem: Problem, state: State, t: int) -> Iterator[Bounded]:
        yield from super().bounds(problem, state, t)
        yield Bounded("the numbers of the kept iterate", np.zeros(len(self.number)), size=6)
        yield Bounded("the places of the log", self.count, max(t, len(self.item)), size=5)
        start, end = self.count[LOG_START], self.count[LOG_END]
        yield Bounded("the places of the log", [start, end - start, len(self.item) - end])
        yield Bounded("the features of the log", self.item[:end], problem.d - 1)
        yield equal("the sizes of the log", 2 * len(self.item), len(self.old))
        yield Bounded("the size of the kept iterate", len(self.kept) - problem.d * bool(self.count[IS_WRITTEN]))

    def compare_with(self, b_bar: float, threshold: float, takes_least: bool = False) -> None:
        """Compare from now on with the point in the cells; the kept iterate stays until another is kept."""
        self.number[B_BAR], self.number[THRESHOLD], self.count[TAKES_LEAST] = b_bar, threshold, takes_least

    @property
    def iterate(self) -> int:
        """Return the number of the iterate that is kept; 0 for none."""
        return int(self.count[KEPT_ITERATE])

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
        out, log = cells.copy(), slice(int(self.count[LOG_START]), int(self.count[LOG_END]))
        old = self.old.reshape(-1, 2)[log]
        first = np.unique(self.item[log], return_index=True)[1]  # a feature's value before its first change
        out[self.item[log][first]] = old[first]
        return out


@inlined
def has_room(count, item, entries):
    """Return whether so many more entries fit at the end of the log."""
    return U(count[LOG_END]) + entries <= U(item.size)


@inlined
def move_log_to_front(count, item, old):
    """Move the log to the front of its arrays, over entries that are no longer needed."""
    one, base = U(1), U(count[LOG_START])
    for e in range(U(count[LOG_END]) - base):
        item[e] = item[base + e]
        old[e + e], old[e + e + one] = old[base + base + e + e], old[base + base + e + e + one]
    count[LOG_END], count[LOG_START] = U(count[LOG_END]) - base, 0


@inlined
def keep_or_log(number, count, difference, iterate, b, first, logged):
    """Keep w_t, with this number and intercept, if its difference is small enough; return whether it is kept.

    The log has the step's entries from ``first`` to ``logged``.  They are all that a kept iterate needs.  An iterate
    that was kept before needs them too, until it is written out.
    """
    if difference <= number[THRESHOLD]:
        count[LOG_START], count[LOG_END], count[IS_WRITTEN] = first, logged, 0
        count[KEPT_ITERATE], number[KEPT_B], number[KEPT_DIFFERENCE] = iterate, b, difference
        if count[TAKES_LEAST] > 0:
            number[THRESHOLD] = difference
        return True
    if (count[IS_WRITTEN] == 0) & (count[KEPT_ITERATE] > 0):
        count[LOG_END] = logged
    return False
