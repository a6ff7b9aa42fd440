"""A test of whether the loss on the rows of a stream has risen: the rows that come last against all before them.

The rows are judged before they are learned, in groups.  After each group the stretch of rows since the last change is
cut in two at some dozens of places.  The stream drifts if behind a cut the mean loss is higher than before it, by more
than chance allows.  For m and n rows with losses of variance v between 0 and c, chance exceeds

    sqrt(2 v (1/m + 1/n) L) + 2 c L / (3 min(m, n)),    L = log(1 / level),

with a probability of less than the level (Bernstein's inequality).  The levels of all cuts of all groups sum up to
``LEVEL``, however long the stream is: group k has the share 1 / (k (k + 1)).  So a stream whose losses are independent
and do not rise causes a false alarm with a probability of about 1%.  A mean loss that has fallen, as the model learns,
only starts the test anew.  Sums of rows are merged by twos, so that memory grows with the logarithm of the rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LEVEL = 0.01
"""The probability of any false alarm in a stream of any length."""
LEAST_RISE = 0.05
"""The least rise that counts, as a share of the mean loss before."""
_FIRST_GROUPS = 4
"""The number of groups that decide the largest loss; a cut has as many groups before it."""
_ALIKE = 8
"""The number of sums over equally many groups from which the two oldest are merged."""
_ROWS, _SUM, _SQUARES, _LOSS = range(4)


class Drift(NamedTuple):
    """A rise of the mean loss: the numbers of rows behind and before it, and their mean losses."""

    rows: int
    loss: float
    rows_before: int
    loss_before: float


class DriftTest:
    """The losses of a stream since the last change, as sums over consecutive groups of rows."""

    def __init__(self) -> None:
        self.looks = 0
        """The number of groups after which the test was made."""
        self.largest = 0.0
        """The value at which single losses are cut off, so that they are bounded; 0 while it is not decided."""
        self.first: list[np.ndarray] = []
        """The losses of the first groups, until they decide it."""
        self.sizes: list[int] = []
        """The number of groups in each sum, from the oldest on."""
        self.sums = np.zeros((0, 4))
        """Of each, the rows, their cut-off losses, the squares of these, and the losses themselves."""

    def add(self, losses: np.ndarray) -> Drift | None:
        """Add the losses of a group of rows; return the rise that is found, if any, and start anew behind it."""
        if not len(losses):
            return None
        if self.largest:
            self._append(losses)
        else:
            self.first.append(losses)
            if len(self.first) < _FIRST_GROUPS:
                return None
            self.largest = _largest(np.concatenate(self.first))
            for each in self.first:
                self._append(each)
            self.first = []
        return self._look()

    def _append(self, losses: np.ndarray) -> None:
        cut_off = np.minimum(losses, self.largest)
        entry = [len(losses), cut_off.sum(), np.square(cut_off).sum(), losses.sum()]
        self.sums = np.vstack([self.sums, entry])
        self.sizes.append(1)
        at = len(self.sizes) - 1
        while at >= _ALIKE and self.sizes[at - _ALIKE] == self.sizes[at]:  # merge the two oldest of this size
            at -= _ALIKE
            self.sizes[at : at + 2] = [2 * self.sizes[at]]
            self.sums = np.vstack([self.sums[:at], self.sums[at] + self.sums[at + 1], self.sums[at + 2 :]])

    def _look(self) -> Drift | None:
        """Return the most significant rise that exceeds chance, and start anew behind a rise or a fall."""
        self.looks += 1
        before = np.cumsum(self.sums, 0)
        cuts = np.flatnonzero(np.cumsum(self.sizes) >= _FIRST_GROUPS)[:-1]
        if not cuts.size:
            return None
        total, before = before[-1], before[cuts]
        behind = total - before
        n, m = before[:, _ROWS], behind[:, _ROWS]
        mean = total[_SUM] / total[_ROWS]
        variance = max(total[_SQUARES] / total[_ROWS] - mean * mean, 0.0)
        log = np.log(cuts.size * self.looks * (self.looks + 1.0) / LEVEL)
        chance = np.sqrt(2.0 * variance * (1.0 / m + 1.0 / n) * log)
        chance += 2.0 * self.largest * log / (3.0 * np.minimum(m, n))
        means = before[:, _SUM] / n
        rises = behind[:, _SUM] / m - means
        is_rise = rises > np.maximum(chance, LEAST_RISE * means)
        at = int(np.argmax(np.where(is_rise, rises / chance, 0.0)))
        found = None
        if is_rise[at]:
            losses = behind[at, _LOSS] / m[at], before[at, _LOSS] / n[at]
            found = Drift(int(m[at]), float(losses[0]), int(n[at]), float(losses[1]))
        if found is not None or (rises < -chance).any():
            self.largest, self.sizes, self.sums = 0.0, [], np.zeros((0, 4))
        return found

    def anew(self) -> DriftTest:
        """Return a test that knows nothing of the rows so far; its level is what is left of this one's."""
        test = DriftTest()
        test.looks = self.looks
        return test


def _largest(losses: np.ndarray) -> float:
    """Return the value at which losses like these are cut off: four times what nine in ten do not exceed."""
    high = float(np.quantile(losses, 0.9))
    return 4.0 * high or 10.0 * float(losses.mean()) or 1.0
