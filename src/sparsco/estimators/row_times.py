"""The times of the rows of a stream whose old rows fade, by ``half_life``: given, or else their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.rows import check_numbers

ROWS_COME_ONCE = "half_life is for rows in the order of time, which come once: set passes to 1."


class RowTimes:
    """The clock of a stream: the number of rows so far, and the time of the last one."""

    def __init__(self) -> None:
        self.rows = 0
        """The number of rows that were learned, or held out."""
        self.last = -np.inf
        """The time of the last of them, if rows have times."""
        self.queued: list[float] = []
        """The times of the examples that wait to be learned, if they have times."""

    @property
    def now(self) -> float:
        """The time of the last row; the number of rows so far, if rows have no times."""
        return self.last if self.last > -np.inf else float(self.rows)

    def take(self, order: np.ndarray, n: int, times: np.ndarray | None) -> np.ndarray:
        """Return the time of each of n rows, of which those in ``order`` come next; they are counted.

        Without times, it is the number of the row.  Times that go back raise a ValueError.
        """
        if times is None:
            if self.last > -np.inf:
                raise ValueError(f"row {self.rows + 1} has no time, and earlier rows have: give time= for all rows.")
            taken = np.zeros(n)
            taken[order] = self.rows + np.arange(len(order))
        else:
            if self.rows and self.last == -np.inf:
                raise ValueError(f"row {self.rows + 1} has a time, and earlier rows have none: give all rows, or none.")
            taken = times
            self._check(times[order])
        self.rows += len(order)
        if times is not None and len(order):
            self.last = float(times[order[-1]])
        return taken

    def _check(self, times: np.ndarray) -> None:
        """Raise a ValueError for times that go back."""
        before = np.append(self.last, times[:-1])
        back = np.flatnonzero(times < before)
        if back.size:
            at = int(back[0])
            raise ValueError(
                f"time goes back at row {self.rows + at + 1}: {times[at]:g} after {before[at]:g}; half_life needs rows "
                "in the order of their times: sort them."
            )

    def copy(self) -> RowTimes:
        """Return an independent copy, without the examples that wait."""
        twin = RowTimes()
        twin.rows, twin.last = self.rows, self.last
        return twin

    def note(self, time: float | None) -> None:
        """Count one more example, which waits; it has this time, or None."""
        if time is None or (self.rows and self.last == -np.inf):
            self.take(np.zeros(1, np.int64), 1, None if time is None else np.array([time], np.float64))
            return
        now = time if type(time) is float and time - time == 0.0 else _checked([time], 1).item()
        if now < self.last:
            self._check(np.array([now]))
        self.rows, self.last = self.rows + 1, now
        self.queued.append(now)

    def unnote(self, last: float) -> None:
        """Forget the last example that waits; ``last`` is the time of the one before."""
        if self.queued:
            self.queued.pop()
        self.rows, self.last = self.rows - 1, last


def checked_times(time: Any, n: int, half_life: float | None) -> np.ndarray | None:
    """Return the times of n rows as numbers; raise a ValueError for anything else."""
    if time is None:
        return None
    if half_life is None:
        raise ValueError("time has no effect without half_life: set half_life, in units of time, or leave time out.")
    return _checked(time, n)


def _checked(time: Any, n: int) -> np.ndarray:
    """Return n times as numbers."""
    times = np.asarray(time)
    if times.dtype.kind not in "fiu" or times.shape != (n,):
        raise ValueError(
            f"time must be {n} numbers, one per row, and it is {times.dtype} of shape {times.shape}: turn dates into "
            "seconds or days first."
        )
    times = times.astype(np.float64)
    check_numbers(times, "time")
    return times
