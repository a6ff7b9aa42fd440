"""Tables of columns and their slots: hash tables with open addressing, and plain arrays by column."""

from __future__ import annotations

import secrets

import numpy as np

from ..jit.dispatch import U, allocating_kernel, kernel
from ..jit.lanes import prefetch

KEY = U(secrets.randbits(64) | 1)
"""The key of the hash functions in this process.

Slots do not depend on it.  With a constant, someone could choose columns that all begin at the same place.
"""
FREE = np.uint32(2**32 - 1)
"""The entry of a hash table that is not in use."""
_AHEAD = 16


def starts_of(table: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the first places to look at, which depend on the key of the process."""
    out = np.empty(columns.size, np.uint64)
    _hash(columns, KEY, U(65 - len(table).bit_length()), out)
    return out


@kernel
def _hash(columns, key, shift, out):
    """Write the high bits of two products; the first alone would leave columns in a row together under some keys."""
    for i in range(U(columns.size)):
        h = U(columns[i]) * key
        out[i] = ((h ^ h >> U(32)) * U(0x9E3779B97F4A7C15)) >> shift


def numbered(columns: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return columns below d as slots, in the order of their appearance, and the columns in the slots."""
    slots, of_slot = np.empty(columns.size, np.uint32), np.empty(min(d, columns.size), np.int64)
    return slots, of_slot[: number(np.zeros(d, np.uint32), columns, of_slot, slots)].copy()


@kernel
def number(slot_of, columns, of_slot, out):
    """Store the slots of columns in ``out`` and the columns of slots in ``of_slot``; return the number of slots.

    ``slot_of`` has the slots by column, counted from 1; 0 means none yet.
    """
    used, n = 0, columns.size
    for i in range(n):
        prefetch(slot_of, columns[min(i + _AHEAD, n - 1)])
        column = columns[i]
        if slot_of[column] == 0:
            of_slot[used] = column
            used += 1
            slot_of[column] = used
        out[i] = slot_of[column] - 1
    return used


@kernel
def add(table, of_slot, used, columns, starts, out):
    """Store the slots of the columns in ``out``, new ones from ``used`` on.

    Return how many there was room for, and used.
    """
    mask, one, n = U(len(table) - 1), U(1), columns.size
    for i in range(n):
        prefetch(table, starts[min(i + _AHEAD, n - 1)])
        at = starts[i]
        while table[at] != FREE and of_slot[table[at]] != columns[i]:
            at = (at + one) & mask
        if table[at] == FREE:
            if used == of_slot.size or 3 * used >= 2 * len(table):
                return i, used
            table[at], of_slot[used] = used, columns[i]
            used += 1
        out[i] = table[at]
    return n, used


@kernel
def settle(table, first, starts):
    """Insert the slots from ``first`` on, which are new, into the table."""
    mask, one, n = U(len(table) - 1), U(1), starts.size
    for i in range(n):
        prefetch(table, starts[min(i + _AHEAD, n - 1)])
        at = starts[i]
        while table[at] != FREE:
            at = (at + one) & mask
        table[at] = first + i


@allocating_kernel
def look_up(table, of_slot, columns, starts):
    """Return the slots of the columns, -1 for a column without one."""
    out = np.empty(columns.size, np.int64)
    mask, one = U(len(table) - 1), U(1)
    for i in range(columns.size):
        at = starts[i]
        while table[at] != FREE and of_slot[table[at]] != columns[i]:
            at = (at + one) & mask
        out[i] = -1 if table[at] == FREE else np.int64(table[at])
    return out
