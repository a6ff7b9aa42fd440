"""The rows that are evaluated before they are learned: the same for every method, chosen by their numbers alone."""

from __future__ import annotations

JUDGED = 256
"""The number of rows that are evaluated before they are learned, at every mark."""
EVERY = 8192


def next_mark(row: int) -> int:
    """Return the first mark from ``row`` on; the marks are rows 1024, 2048, ..., 8192, 16384, 24576, ..."""
    step = 1024 if row <= EVERY else EVERY
    return max(-(-row // step) * step, step)
