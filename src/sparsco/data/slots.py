"""The features of a stream: names or column numbers in, slots of the training state out.

A slot is the place of a feature in the training state.  If storage follows the columns of X, a column is its slot.
Names get slots in a dict and columns in a hash table, in the order in which they are first seen: memory follows the
features that occur.  Examples that come one at a time are queued here, in plain lists, and become rows of a matrix a
few hundred at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import count, repeat
from typing import Any, Self

import numpy as np

from ..jit.dispatch import U, allocating_kernel, kernel
from ..jit.lanes import prefetch
from ..util.attributes import Restored, add_attributes, attributes
from .named_values import named_values
from .rows import LARGEST, Matrix, check_numbers, check_width

_MIX = U(0x9E3779B97F4A7C15)
FREE = np.uint32(2**32 - 1)
_AT_ONCE, _AHEAD = 1 << 14, 16
_PER_ENTRY = 2
"""The number of columns per entry of a matrix up to which an array with a number for each column is no larger than it.
"""
_LIMIT = float(LARGEST)
_INT, _FLOAT = np.dtype(np.int64), np.dtype(np.float64)


class Columns:
    """Features that are columns, each of which has room in the state: the number of a column is its slot."""

    seen = False
    _limit = 1 << 32

    def __init__(self) -> None:
        self.width = 0
        """The number of columns of X: one more than the largest column so far."""
        self._forget()

    def _forget(self) -> None:
        self._columns: list[np.ndarray] = []
        self._values: list[np.ndarray] = []

    def __len__(self) -> int:
        return self.width

    @property
    def room(self) -> int:
        """Return the number of features of a model: the slots, and at least one if slots are made as columns come."""
        return len(self)

    def note(self, x: Any) -> None:
        """Queue one example; it is in the next matrix of ``drain``."""
        if type(x) is tuple and len(x) == 2:
            columns, values = x
            if type(columns) is type(values) is np.ndarray and columns.dtype is _INT and values.dtype is _FLOAT:
                # one check of all numbers, in compiled code
                if columns.ndim == values.ndim == 1 and fits(columns, values, self._limit, _LIMIT):
                    self._columns.append(columns.copy())
                    self._values.append(values.copy())
                    return
        columns, values = self._pair(x)  # converts other types, or raises an error
        self._columns.append(columns)
        self._values.append(values)

    def unnote(self) -> None:
        """Remove the last example from the queue."""
        self._columns.pop()
        self._values.pop()

    def _pair(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        if type(x) is not tuple or len(x) != 2:
            raise ValueError(
                f"x is a {type(x).__name__}, but the features of this stream are columns: give (columns, values)."
            )
        columns, values = np.array(x[0]), np.array(x[1], np.float64)
        if columns.ndim != 1 or columns.shape != values.shape:
            raise ValueError(f"x has columns of shape {columns.shape} and values of shape {values.shape}.")
        if columns.dtype.kind not in "iu":
            if columns.size:
                raise ValueError(f"x has columns of type {columns.dtype}: they must be whole numbers.")
            columns = columns.astype(np.int64)
        if columns.size:
            if not 0 <= np.bitwise_or.reduce(columns) < self._limit:  # a power of two: one test for both bounds
                raise ValueError(f"x has a column outside of 0 to {self._limit - 1}.")
            if not np.abs(values).sum() <= _LIMIT:  # repeated columns are summed
                check_numbers(values, "x")
                raise ValueError(f"x has values of more than {_LIMIT:g} in all.")
        return columns, values

    def drain(self) -> Matrix:
        """Return the queued examples as rows, and empty the queue."""
        lengths = np.array([len(columns) for columns in self._columns])
        columns, values = np.concatenate(self._columns).astype(np.int64), np.concatenate(self._values)
        self._forget()
        self.width = max(self.width, int(columns.max(initial=-1)) + 1)
        return self.place(_checked(Matrix(*tidied(lengths, columns, values), self.width)))

    def row(self, x: Any) -> Matrix:
        """Return one example as a row of slots; features without a slot are left out."""
        columns, values = self._pair(x)
        columns = columns.astype(np.int64)
        return self.find(_checked(Matrix(*tidied(np.array([len(columns)]), columns, values), self.width)))

    def place(self, matrix: Matrix) -> Matrix:
        """Return the rows with slots in place of columns; new slots are made."""
        check_width(self.width)
        return matrix.of_width(self.width)

    def find(self, matrix: Matrix) -> Matrix:
        """Return the rows with slots in place of columns; columns without a slot are left out."""
        if matrix.d <= self.width:
            return self.place(matrix)
        return without(matrix, matrix.indices < self.width, self.width)

    def only(self, slots: np.ndarray) -> Columns:
        """Return the features of a model that learns no more and uses these slots."""
        return self

    def to_columns(self, slots: np.ndarray) -> np.ndarray:
        """Return the columns in these slots."""
        return slots

    def mark(self) -> Any:
        """Return a mark of the current state for ``back_to``."""
        return self.width

    def back_to(self, mark: Any) -> None:
        """Drop the columns that came after a mark."""
        self.width = mark

    def start(self, w: np.ndarray) -> np.ndarray:
        """Return the weights of all columns, (columns, models), by slot; each nonzero weight has a slot then."""
        return w


class SeenColumns(Columns):
    """Features that are columns with numbers up to 2^62; only columns that occur have slots."""

    seen = True
    _limit = 1 << 62

    def __init__(self) -> None:
        super().__init__()
        self._of_slot, self._used = np.zeros(1 << 9, np.int64), 0
        self._made: np.ndarray | None = None

    def __getstate__(self) -> dict[str, Any]:
        return attributes(self) | {"_made": None}

    @property
    def _table(self) -> np.ndarray:
        """Return the hash table, which is made when it is first needed.

        It uses open addressing: each entry is a slot, whose column is in _of_slot.
        """
        made = self._made
        if made is None:  # several threads may each make one, and the last stays
            self._made = made = self._new_table()
        return made

    def __len__(self) -> int:
        return self._used

    @property
    def room(self) -> int:
        """Return the number of features of a model: the slots, at least one."""
        return max(self._used, 1)

    def place(self, matrix: Matrix) -> Matrix:
        """Return the rows with slots in place of columns; new slots are made."""
        if not self._used and 0 < matrix.d <= _PER_ENTRY * matrix.indices.size:
            slots, self._of_slot = numbered(matrix.indices, matrix.d)
            self._used, self._made = len(self._of_slot), None
        else:
            slots = self.make_slots(matrix.indices.astype(np.int64, copy=False))
        return Matrix(matrix.indptr, slots, matrix.data, self.room)

    def make_slots(self, columns: np.ndarray) -> np.ndarray:
        """Return the slots of int64 columns; new slots are made."""
        out, at = np.empty(columns.size, np.uint32), 0
        while at < columns.size:
            some = columns[at : at + _AT_ONCE]
            table = self._table
            done, self._used = add(table, self._of_slot, self._used, some, _starts(table, some), out[at:])
            if done < len(some):
                self._make_room()
            at += done
        return out

    def _make_room(self) -> None:
        if self._used == len(self._of_slot):
            self._of_slot = np.concatenate([self._of_slot, np.zeros_like(self._of_slot)])
        if 3 * self._used >= 2 * len(self._table):
            self._made = None

    def _new_table(self) -> np.ndarray:
        """Return a full hash table, twice to eight times as long as its content.

        No other thread sees it before it is full.
        """
        size = 1 << 10
        while size < 2 * self._used:
            size *= 4
        table = np.full(size, FREE, np.uint32)
        for first in range(0, self._used, _AT_ONCE):
            columns = self._of_slot[first : min(first + _AT_ONCE, self._used)]
            settle(table, first, _starts(table, columns))
        return table

    def mark(self) -> Any:
        """Return a mark of the current state for ``back_to``."""
        return self.width, self._used

    def back_to(self, mark: Any) -> None:
        """Drop the columns that came after a mark."""
        self.width, used = mark
        if used < self._used:
            self._used, self._made = used, None

    def slots_of(self, columns: np.ndarray) -> np.ndarray:
        """Return the slots of int64 columns, -1 for a column without one."""
        table = self._table
        return look_up(table, self._of_slot, columns, _starts(table, columns))

    def find(self, matrix: Matrix) -> Matrix:
        """Return the rows with slots in place of columns; columns without a slot are left out."""
        slots = self.slots_of(matrix.indices.astype(np.int64, copy=False))
        return without(Matrix(matrix.indptr, slots, matrix.data, self.room), slots >= 0, self.room)

    def only(self, slots: np.ndarray) -> SeenColumns:
        """Return the features of a model that learns no more and uses these slots."""
        return SeenColumns().of(self._of_slot[slots], self.width)

    def of(self, columns: np.ndarray, width: int, names: Any = None) -> Self:
        """Add the columns that a model uses, and return self."""
        self.width = width
        self.make_slots(columns.astype(np.int64, copy=False))
        self._of_slot = self._of_slot[: max(self._used, 1)].copy()
        return self

    def to_columns(self, slots: np.ndarray) -> np.ndarray:
        """Return the columns in these slots."""
        return self._of_slot[slots]

    def start(self, w: np.ndarray) -> np.ndarray:
        """Return the weights of all columns, (columns, models), by slot; each nonzero weight has a slot then."""
        self.make_slots(np.flatnonzero(w.any(1)))
        return w[self._of_slot[: self.room]]


class Names(Restored):
    """Features that have names: any keys of a dict."""

    seen = True

    def __init__(self) -> None:
        self._slots = _slots({})
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        return attributes(self) | {"_slots": dict(self._slots)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        add_attributes(self, state | {"_slots": _slots(state["_slots"])})

    def _forget(self) -> None:
        self._names: list[Any] = []
        self._values: list[float] = []
        self._lengths: list[int] = []

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def room(self) -> int:
        """Return the number of features of a model."""
        return len(self)

    @property
    def width(self) -> int:
        """Return the number of columns of a matrix of such rows: one for each name."""
        return len(self._slots)

    @property
    def names(self) -> list[Any]:
        """Return all names, by slot."""
        return list(self._slots)

    def note(self, x: Any) -> None:
        """Queue one example, a dict of values or a list of tokens; it is in the next matrix of ``drain``."""
        if type(x) is list:
            hash(tuple(x))
            values: Any = repeat(1.0, len(x))
        else:
            x, values = named_values(x)
        self._names.extend(x)
        self._values.extend(values)
        self._lengths.append(len(x))

    def unnote(self) -> None:
        """Remove the last example from the queue."""
        first = len(self._names) - self._lengths.pop()
        del self._names[first:], self._values[first:]

    def drain(self) -> Matrix:
        """Return the queued examples as rows, and empty the queue."""
        n = len(self._names)
        slots = np.fromiter(map(self._slots.__getitem__, self._names), np.int64, n)
        values, lengths = np.fromiter(self._values, np.float64, n), np.array(self._lengths)
        self._forget()
        return self.place(_checked(Matrix(*tidied(lengths, slots, values), self.width)))

    def row(self, x: Any) -> Matrix:
        """Return one example as a row of slots; features without a slot are left out."""
        x, values = (x, repeat(1.0)) if type(x) is list else named_values(x)
        known = [(self._slots[name], value) for name, value in zip(x, values, strict=False) if name in self._slots]
        slots, data = np.array([slot for slot, _ in known], np.int64), np.array([value for _, value in known], float)
        return self.place(_checked(Matrix(*tidied(np.array([len(known)]), slots, data), self.width)))

    def place(self, matrix: Matrix) -> Matrix:
        """Return the rows unchanged: a column of a matrix is a slot."""
        return matrix.of_width(self.width)

    find = place

    def only(self, slots: np.ndarray) -> Names:
        """Return the features of a model that learns no more and uses these slots."""
        return Names().of(slots, len(slots), dict(enumerate(self.names)))

    def of(self, columns: np.ndarray, width: int, names: Mapping[int, Any]) -> Self:
        """Add the names of these columns, which a model uses, and return self."""
        for column in columns.tolist():
            self._slots[names[column]]  # noqa: B018  makes it
        return self

    def to_columns(self, slots: np.ndarray) -> np.ndarray:
        """Return the slots, which are columns."""
        return slots


def _slots(known: dict[Any, int]) -> defaultdict[Any, int]:
    """Return a dict of names to slots; a new name gets the next slot when it is looked up."""
    return defaultdict(count(len(known)).__next__, known)


def _checked(matrix: Matrix) -> Matrix:
    check_numbers(matrix.data, "x")
    return matrix


def without(matrix: Matrix, kept: np.ndarray, d: int) -> Matrix:
    """Return the rows with the ``kept`` entries only, slots as uint32."""
    ends = np.append(0, np.cumsum(kept))[matrix.indptr]
    return Matrix(ends.astype(np.int64), matrix.indices[kept].astype(np.uint32), matrix.data[kept], d)


@kernel
def _fits(columns, values, limit, largest):
    """Return whether columns and values are valid.

    There must be a value for each column, columns in [0, limit), and the sum of |values| at most largest.
    """
    good, total = columns.size == values.size, 0.0
    for i in range(min(columns.size, values.size)):
        good &= (columns[i] >= 0) & (columns[i] < limit)
        total += abs(values[i])
    return good & (total <= largest)


fits = _fits.cached
"""The compiled ``_fits`` without the search for user records among the arguments, which takes longer than the work."""


@allocating_kernel
def tidied(lengths, keys, values):
    """Return rows, which follow each other, as CSR: sorted by key, repeated keys summed, zeros dropped.

    The arrays are reused.
    """
    indptr = np.zeros(lengths.size + 1, np.int64)
    at = to = 0
    for i in range(lengths.size):
        stop = at + lengths[i]
        if lengths[i] <= 64:
            for p in range(at + 1, stop):  # insertion: rows are short, and often in order
                key, value, q = keys[p], values[p], p
                while q > at and keys[q - 1] > key:
                    keys[q], values[q] = keys[q - 1], values[q - 1]
                    q -= 1
                keys[q], values[q] = key, value
        else:
            order = np.argsort(keys[at:stop], kind="mergesort")
            keys[at:stop], values[at:stop] = keys[at:stop][order], values[at:stop][order]
        while at < stop:
            key, total = keys[at], values[at]
            at += 1
            while at < stop and keys[at] == key:
                total += values[at]
                at += 1
            if total != 0.0:
                keys[to], values[to] = key, total
                to += 1
        indptr[i + 1] = to
    return indptr, keys[:to], values[:to]


def _starts(table: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the first places to look at: the high bits of a product, whose arithmetic wraps silently."""
    return (columns.view(np.uint64) * _MIX) >> np.uint64(65 - len(table).bit_length())


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
