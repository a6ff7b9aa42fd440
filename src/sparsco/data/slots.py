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

from ..jit.dispatch import allocating_kernel, kernel
from ..util.attributes import Restored, add_attributes, attributes
from .named_values import named_values
from .rows import LARGEST, Matrix, check_numbers, check_width
from .slot_tables import FREE, add, look_up, numbered, settle, starts_of

_AT_ONCE = 1 << 14
_PER_ENTRY = 2
"""The number of columns per entry of a matrix up to which an array with a number for each column is no larger than it.
"""
_LIMIT = float(LARGEST)
_INT, _FLOAT = np.dtype(np.int64), np.dtype(np.float64)


class Columns:
    """Features that are columns, each of which has room in the state: the number of a column is its slot."""

    seen = False
    lowest = 0
    """The smallest column of the rows that were learned, 0 if that is not known."""
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
        """Return the queued examples as rows of slots, and empty the queue."""
        return self.place(self._queued())

    def _queued(self) -> Matrix:
        """Return the queued examples as rows of columns, and empty the queue."""
        lengths = np.array([len(columns) for columns in self._columns])
        columns, values = np.concatenate(self._columns).astype(np.int64), np.concatenate(self._values)
        self._forget()
        self.width = max(self.width, int(columns.max(initial=-1)) + 1)
        return _checked(Matrix(*tidied(lengths, columns, values), self.width))

    def row(self, x: Any) -> Matrix:
        """Return one example as a row of slots; features without a slot are left out."""
        columns, values = self._pair(x)
        columns = columns.astype(np.int64)
        return self.find(_checked(Matrix(*tidied(np.array([len(columns)]), columns, values), self.width)))

    def reach(self, width: int, matrix: Matrix) -> None:
        """Set the number of columns of the rows so far, of which ``matrix`` are the last."""
        if self.lowest or not self.width:
            lowest = int(matrix.indices.min(initial=np.iinfo(matrix.indices.dtype).max))
            self.lowest = min(self.lowest, lowest) if self.width else lowest
        self.width = width

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

    def check(self) -> None:
        """Raise a ValueError for slots that do not each have a column."""
        columns = self._of_slot
        if columns.dtype != np.int64 or columns.ndim != 1 or not 0 <= self._used <= len(columns) or not len(columns):
            raise ValueError("its features have no columns")
        if (columns < 0).any() or len(np.unique(columns[: self._used])) < self._used or self.width < 0:
            raise ValueError("two of its features have the same column")

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
            done, self._used = add(table, self._of_slot, self._used, some, starts_of(table, some), out[at:])
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
            settle(table, first, starts_of(table, columns))
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
        return look_up(table, self._of_slot, columns, starts_of(table, columns))

    def drain_by_key(self) -> tuple[np.ndarray, Matrix]:
        """Return the columns of the queued examples, and these as rows of places among them; empty the queue."""
        return self.by_key(self._queued())

    @staticmethod
    def by_key(matrix: Matrix) -> tuple[np.ndarray, Matrix]:
        """Return the columns that occur, in the order of their appearance, and the rows with places among them."""
        own = SeenColumns()
        places = own.make_slots(matrix.indices.astype(np.int64, copy=False))
        return own._of_slot[: own._used], Matrix(matrix.indptr, places, matrix.data, own.room)

    def in_order(self, matrix: Matrix) -> Matrix:
        """Return rows of slots unchanged: entries keep the order of the columns."""
        return matrix

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

    def check(self) -> None:
        """Raise a ValueError for slots of a file that are not 0, 1, ..., in the order of the names."""
        if list(self._slots.values()) != list(range(len(self._slots))):
            raise ValueError("its names have other slots")

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

    def drain_by_key(self) -> tuple[list[Any], Matrix]:
        """Return the names of the queued examples, and these as rows of places among them; empty the queue."""
        kept = np.fromiter(self._values, np.float64, len(self._values))
        own, ends = _slots({}), np.append(0, np.cumsum(self._lengths))
        places = np.fromiter(map(own.__getitem__, self._names), np.int64, len(self._names))
        self._forget()
        return list(own), without(_checked(Matrix(ends, places, kept, len(own))), kept != 0.0, len(own))

    def slots_of(self, names: list[Any]) -> np.ndarray:
        """Return the slots of names, -1 for a name without one."""
        return np.array([self._slots.get(name, -1) for name in names], np.int64)

    def make_slots(self, names: list[Any]) -> None:
        """Give new names the next slots."""
        for name in names:
            self._slots[name]  # noqa: B018  makes it

    def in_order(self, matrix: Matrix) -> Matrix:
        """Return rows of slots in the order of the slots, with repeated ones summed."""
        slots = matrix.indices.astype(np.int64)
        return Matrix(*tidied(np.diff(matrix.indptr), slots, matrix.data.copy()), matrix.d).of_width(matrix.d)

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
        self.make_slots([names[column] for column in columns.tolist()])
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
