"""Rows that are judged before they are learned: the same rows for every method, by their numbers alone."""

from __future__ import annotations

JUDGED = 256
"""Rows that are judged before they are learned, at every mark."""
EVERY = 8192


def next_mark(row: int) -> int:
    """The first row at which some are judged, from ``row`` on: 1024, 2048, ..., 8192, 16384, 24576, ..."""
    step = 1024 if row <= EVERY else EVERY
    return max(-(-row // step) * step, step)
