"""Crosses: products of two features, made where the rows of any source meet a model.

The number of a cross is made of those of its two columns, its *parents*.  So it needs no table, and means the same in
a file.  ``Crossed`` gives slots to columns and crosses alike, in the order in which they are first seen.  A cross may
have to be *born*: then it exists only if both parents were selected at one boundary of the stream.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..jit.dispatch import U
from ..util.attributes import add_attributes, attributes
from .cross_kernels import cross_known, cross_rows
from .cross_rules import Cross
from .named_values import named_values
from .rows import LARGEST, Matrix
from .slots import SeenColumns, tidied, without

CHILD = 1 << 31
"""Numbers from here on are crosses; columns are below."""
BUCKET = 1 << 61
"""Numbers from here on are columns that crosses are hashed to."""
FIRST_BOUNDARY = 1 << 10
"""Crosses are born at this number of examples, and at all powers of two above."""
_WIDE = 1 << 62
_AT_ONCE = 1 << 22
"""About so many crosses are made at once."""
_MIX = U(0x9E3779B97F4A7C15)


class Naming(NamedTuple):
    """The names of columns, as whoever brings rows knows them."""

    names_of: Callable[[np.ndarray], Sequence[str | None]]
    """A function that returns the names of columns, None for a column without one."""
    are_features: bool
    """Whether names are the features, and the numbers of the columns mean nothing elsewhere."""


def pairs_of(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two columns of crosses by their numbers."""
    return (numbers >> 31) - 1, numbers & (CHILD - 1)


def number_of(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the numbers of crosses of two columns, of which the left one is smaller."""
    return (left + 1 << 31) | right


def cross_name(one: str, other: str, mine: int, yours: int, asked: Cross, by_alphabet: bool = False) -> str:
    """Return the name of a cross: in the order of its rule; where that is open as given, or by the alphabet.

    ``mine`` and ``yours`` are the bits of the words that stand for the two.
    """
    ways = {
        (bool(mine & first and yours & second), bool(yours & first and mine & second))
        for first, second in asked.sides().T.tolist()
    } - {(False, False)}
    turned = (True, False) not in ways and ((False, True) in ways or (by_alphabet and other < one))
    return f"{other}*{one}" if turned else f"{one}*{other}"


class Crossed(SeenColumns):
    """Features that are columns and crosses of them; columns and crosses that occur have slots."""

    naming: Naming | None = None
    """The names of new columns; set by whoever brings rows."""
    by_name = False
    """Whether names are the features, and the numbers of the columns mean nothing elsewhere."""
    _known: tuple[Any, ...] | None = None

    def __init__(self, asked: Cross) -> None:
        super().__init__()
        self.asked = asked
        self.parents = SeenColumns()
        """The columns that were seen."""
        self.parent_names: list[str | None] = []
        self.members = np.zeros(0, np.uint64)
        """The bits of the words that stand for each parent."""
        self.born = np.zeros(0, np.uint64)
        """The bits of the boundaries at which each parent was selected."""
        self.keys = np.zeros(0, np.uint64)
        """A hash of each parent."""
        self.boundaries, self.rows = 0, 0
        """The number of boundaries so far, and that of the rows learned."""
        self.buckets = SeenColumns()
        """The columns that crosses were hashed to."""
        self.first_pair, self.clashes = np.zeros(0, np.int64), np.zeros(0, bool)
        """The first cross of each of these columns, and which have a second one."""

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"naming": None, "_known": None}

    # ---- names -----------------------------------------------------------------------------------------------------

    def _meet(self, columns: np.ndarray) -> np.ndarray:
        """Return the parents in these columns; the names of new ones decide which words stand for them."""
        parents, known = self.parents.make_slots(columns), len(self.members)
        if len(self.parents) > known:
            new = self.parents.to_columns(np.arange(known, len(self.parents)))
            names = [None] * len(new) if self.naming is None else list(self.naming.names_of(new))
            self.by_name = self.naming is not None and self.naming.are_features
            self.keys = np.append(self.keys, _keys(names, new.tolist()))
            self.parent_names += names
            self.members = np.append(self.members, self.asked.members(names, new.tolist()))
            self.born = np.append(self.born, np.zeros(len(new), np.uint64))
        return parents

    @property
    def names(self) -> list[str]:
        """Return the names of all features, by slot."""
        return self.called(self._of_slot[: len(self)])

    def called(self, numbers: np.ndarray) -> list[str]:
        """Return the names of columns and crosses by their numbers."""
        numbers = np.asarray(numbers, np.int64)
        hashed = numbers >= BUCKET
        if hashed.any():
            numbers = numbers.copy()
            numbers[hashed] = self.first_pair[self.buckets.slots_of(numbers[hashed] - BUCKET)]
        is_cross = numbers >= CHILD
        left, right = (np.where(is_cross, side, numbers) for side in pairs_of(numbers))
        own, first, second = (
            self.parents.slots_of(np.ascontiguousarray(side)).tolist() for side in (numbers, left, right)
        )
        return [
            self._cross_name(a, b) if crossed else self._name(p)
            for p, a, b, crossed in zip(own, first, second, is_cross.tolist(), strict=True)
        ]

    def _name(self, parent: int) -> str:
        name = self.parent_names[parent]
        return f"x{int(self.parents.to_columns(np.array([parent]))[0])}" if name is None else name

    def _cross_name(self, a: int, b: int) -> str:
        bits = int(self.members[a]), int(self.members[b])
        return cross_name(self._name(a), self._name(b), *bits, self.asked, by_alphabet=self.by_name)

    def unmatched(self) -> list[str]:
        """Return the words of the rules that have stood for no feature so far."""
        seen = np.bitwise_or.reduce(self.members) if len(self.members) else 0
        return [",".join(word) for k, word in enumerate(self.asked.words) if not int(seen) >> k & 1]

    # ---- rows ------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise a ValueError for columns of a file that do not have a name, words, boundaries and a key each."""
        super().check()
        found, n = (self.members, self.born, self.keys), len(self.parents)
        if len(self.parent_names) != n or not all(each.shape == (n,) and each.dtype == np.uint64 for each in found):
            raise ValueError("the columns of its crosses do not fit")
        arrays = (self.first_pair, np.int64), (self.clashes, np.bool_)
        if not all(each.shape == (len(self.buckets),) and each.dtype == kind for each, kind in arrays):
            raise ValueError("its hashed crosses do not fit")

    def check_columns(self, matrix: Matrix) -> None:
        """Raise a ValueError for rows that cannot be crossed, before anything is learned of them."""
        if matrix.indices.size and matrix.indices.max() >= CHILD:
            raise ValueError(
                f"a row has column {matrix.indices.max()}: crosses are made of columns below {CHILD} only."
            )
        check_products(matrix.data)

    def place(self, matrix: Matrix) -> Matrix:
        """Return the rows with slots in place of columns, and their crosses; new slots are made."""
        self.check_columns(matrix)
        columns = matrix.indices.astype(np.int64, copy=False)
        return super().place(self._expanded(matrix, columns, self._meet(columns), notes=True))

    def find(self, matrix: Matrix) -> Matrix:
        """Return the rows with slots in place of columns, and the crosses that have a slot; others are left out."""
        check_products(matrix.data)
        columns = matrix.indices.astype(np.int64, copy=False)
        parents = self.parents.slots_of(columns)
        if self.asked.bits:
            kept = parents >= 0
            rows = without(Matrix(matrix.indptr, columns, matrix.data, matrix.d), kept, matrix.d)
            return super().find(self._expanded(rows, rows.indices.astype(np.int64), parents[kept]))
        known, at = self._children(), np.full(len(self.parents) + 1, -1, np.int64)
        indptr, none = np.zeros_like(matrix.indptr), np.empty(0, np.int64)
        data = matrix.data.astype(np.float64, copy=False)
        cross_known(matrix.indptr, parents, data, *known, at, False, indptr, none, np.empty(0))
        slots, values = np.empty(indptr[-1], np.int64), np.empty(indptr[-1])
        cross_known(matrix.indptr, parents, data, *known, at, True, indptr, slots, values)
        kept = values != 0.0
        return without(Matrix(indptr, slots, values, self.room), kept, self.room)

    def _children(self) -> tuple[Any, ...]:
        """Return the slots of parents, and those of crosses by their left parent."""
        if self._known is None or self._known[0] != (len(self), len(self.parents)):
            numbers = self._of_slot[: len(self)]
            count, is_cross = len(self.parents), numbers >= CHILD
            slots = np.full(count, -1, np.int64)
            slots[self.parents.slots_of(numbers[~is_cross])] = np.flatnonzero(~is_cross)
            crosses = np.sort(numbers[is_cross])  # by the left column, then by the right one
            left, right = (self.parents.slots_of(np.ascontiguousarray(side)) for side in pairs_of(crosses))
            order = np.argsort(left, kind="stable")
            heads = np.append(0, np.cumsum(np.bincount(left, minlength=count)))
            self._known = (len(self), count), slots, heads, right[order], self.slots_of(crosses[order])
        return self._known[1:]

    def _expanded(self, matrix: Matrix, columns: np.ndarray, parents: np.ndarray, notes: bool = False) -> Matrix:
        """Return the rows with the numbers of their columns, then those of their crosses, which ``notes`` remembers."""
        born = self.born if self.asked.birth else np.zeros(0, np.uint64)
        indptr, numbers, values = crossed_rows(matrix, columns, parents, self.members, self.asked.sides(), born)
        if self.asked.bits:
            numbers = self._hashed(numbers, notes)
            indptr, numbers, values = tidied(np.diff(indptr), numbers, values)
        return Matrix(indptr, numbers, values, _WIDE)

    def _hashed(self, numbers: np.ndarray, notes: bool) -> np.ndarray:
        """Return numbers in which crosses are hashed to a few columns."""
        is_cross = numbers >= CHILD
        pairs = numbers[is_cross]
        left, right = (self.keys[self.parents.slots_of(side)] for side in pairs_of(pairs))
        buckets = ((left + right) * _MIX >> U(64 - self.asked.bits)).astype(np.int64)
        if notes:
            self.remember(buckets, pairs)
        found = numbers.copy()
        found[is_cross] = BUCKET + buckets
        return found

    def remember(self, buckets: np.ndarray, pairs: np.ndarray) -> None:
        """Remember the first cross of each hashed column, and which columns have several."""
        known = len(self.buckets)
        at = self.buckets.make_slots(buckets)
        if len(self.buckets) > known:
            more = np.zeros(len(self.buckets) - known, np.int64)
            self.first_pair, self.clashes = np.append(self.first_pair, more), np.append(self.clashes, more > 0)
        new = at >= known
        self.first_pair[at[new][::-1]] = pairs[new][::-1]  # the last assignment wins: the first appearance
        self.clashes[at[self.first_pair[at] != pairs]] = True

    def parts(self, matrix: Matrix, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Yield these rows in parts: a part ends at a boundary, and before its crosses take much memory."""
        lengths = matrix.indptr[rows + 1] - matrix.indptr[rows]
        ends = np.cumsum(lengths * (lengths + 1) // 2)
        start = 0
        while start < len(rows):
            before = ends[start - 1] if start else 0
            stop = max(int(np.searchsorted(ends, before + _AT_ONCE, side="right")), start + 1)
            stop = min(stop, start + self.rows_to_boundary())
            yield rows[start:stop]
            start = stop

    def placed_again(self, matrix: Matrix) -> Matrix:
        """Return rows, whose columns are slots, with all crosses that exist by now."""
        numbers = self._of_slot[matrix.indices]
        kept = numbers < CHILD
        ends = np.append(0, np.cumsum(kept))[matrix.indptr]
        return self.place(Matrix(ends, numbers[kept], matrix.data[kept], self.width))

    # ---- one example -----------------------------------------------------------------------------------------------

    def row(self, x: Any) -> Matrix:
        """Return one example as a row of slots; features without a slot are left out."""
        if type(x) is tuple or not self.by_name:
            return super().row(x)
        names, values = (x, [1.0] * len(x)) if type(x) is list else named_values(x)
        place = {name: k for k, name in enumerate(self.parent_names)}
        known = [(place[name], value) for name, value in zip(names, values, strict=True) if name in place]
        parents = np.array([parent for parent, _ in known], np.int64)
        return super().row((self.parents.to_columns(parents), np.array([value for _, value in known], np.float64)))

    # ---- birth -----------------------------------------------------------------------------------------------------

    def rows_to_boundary(self) -> int:
        """Return how many rows are learned before crosses are born again; very many if they need not be born."""
        if not self.asked.birth:
            return _WIDE
        return max(FIRST_BOUNDARY, 1 << self.rows.bit_length()) - self.rows

    def count(self, rows: int) -> bool:
        """Count rows that were learned; return whether a boundary is reached."""
        before, self.rows = self.rows, self.rows + rows
        return bool(self.asked.birth) and self.rows >= max(FIRST_BOUNDARY, 1 << before.bit_length())

    def bear(self, columns: np.ndarray) -> None:
        """Let the crosses of these columns exist from here on."""
        born = self.born.copy()
        born[self.parents.slots_of(columns)] |= U(1) << U(min(self.boundaries, 63))
        self.born, self.boundaries = born, self.boundaries + 1

    # ---- the life cycle --------------------------------------------------------------------------------------------

    def mark(self) -> Any:
        """Return a mark of the current state for ``back_to``."""
        return super().mark(), self.parents.mark(), len(self.parent_names), self.born, self.boundaries, self.rows

    def back_to(self, mark: Any) -> None:
        """Drop the columns and crosses that came after a mark."""
        own, parents, count, self.born, self.boundaries, self.rows = mark
        super().back_to(own)
        self.parents.back_to(parents)
        self.parent_names, self.members, self.keys = self.parent_names[:count], self.members[:count], self.keys[:count]
        self._known = None

    def only(self, slots: np.ndarray) -> Crossed:
        """Return the features of a model that learns no more and uses these slots."""
        twin = object.__new__(Crossed)
        add_attributes(twin, attributes(self) | {"naming": None, "_known": None})
        numbers = self._of_slot[slots]
        SeenColumns.__init__(twin)
        SeenColumns.of(twin, numbers, self.width)
        used = self.parents_of(numbers)
        places = self.parents.slots_of(used)
        twin.parents = SeenColumns().of(used, self.width)
        twin.parent_names = [self.parent_names[k] for k in places.tolist()]
        twin.members, twin.born, twin.keys = self.members[places], self.born[places], self.keys[places]
        return twin

    def parents_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the columns that these columns and crosses need, ascending; all where crosses are hashed."""
        if self.asked.bits and (numbers >= BUCKET).any():
            return np.sort(self.parents.to_columns(np.arange(len(self.parents))))
        crosses = numbers[numbers >= CHILD]
        return np.unique(np.concatenate([numbers[numbers < CHILD], *pairs_of(crosses)]))

    def stored(self, used: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        """Return the numbers of the features with a weight as a file has them, and its columns, rules and names.

        Where names are the features, columns are numbered anew, in the same order.
        """
        buckets = np.sort(used[used >= BUCKET]) - BUCKET
        pairs = self.first_pair[self.buckets.slots_of(buckets)]
        parents = self.parents_of(np.append(used, pairs))
        if not len(parents):  # a model needs at least one feature
            parents = self.parents.to_columns(np.arange(min(len(self.parents), 1)))
        at, places = self.parents.slots_of(parents), np.arange(len(parents)) if self.by_name else parents

        def renumbered(numbers: np.ndarray) -> np.ndarray:
            left, right = (places[np.searchsorted(parents, side) % max(len(places), 1)] for side in pairs_of(numbers))
            own = places[np.searchsorted(parents, numbers) % max(len(places), 1)]
            return np.where(numbers >= BUCKET, numbers, np.where(numbers >= CHILD, number_of(left, right), own))

        return renumbered(used), {
            "asked": self.asked,
            "by_name": self.by_name,
            "columns": len(parents) if self.by_name else int(self.width),
            "parents": places,
            "names": [self.parent_names[k] for k in at.tolist()],
            "members": self.members[at],
            "keys": self.keys[at],
            "buckets": buckets,
            "pairs": renumbered(pairs),
        }

    def start(self, w: np.ndarray) -> np.ndarray:
        """Raise a ValueError: weights to start from are those of columns."""
        raise ValueError("coef_init has one weight per column, and this model has crosses, too: leave it out.")


def crossed_rows(
    matrix: Matrix, columns: np.ndarray, parents: np.ndarray, members: np.ndarray, sides: np.ndarray, born: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows with the numbers of their columns, then those of their crosses, and the values, as CSR."""
    given = matrix.indptr, columns, parents, matrix.data.astype(np.float64, copy=False), members, sides, born
    longest = int(np.diff(matrix.indptr).max(initial=0))
    indptr, room = np.zeros_like(matrix.indptr), np.empty((2, longest), np.int64)
    cross_rows(*given, room, False, indptr, np.empty(0, np.int64), np.empty(0))
    numbers, values = np.empty(indptr[-1], np.int64), np.empty(indptr[-1])
    cross_rows(*given, room, True, indptr, numbers, values)
    kept = values != 0.0  # a product may be too small for a number
    if not kept.all():
        indptr, numbers, values = np.append(0, np.cumsum(kept))[indptr], numbers[kept], values[kept]
    return indptr, numbers, values


def check_products(values: np.ndarray) -> None:
    """Raise a ValueError for values whose products may be too large."""
    largest = np.abs(values).max(initial=0.0)
    if largest > np.sqrt(LARGEST):
        raise ValueError(f"a row has the value {largest:.4g}: crosses need values of at most 3e37; scale the features.")


def _keys(names: Sequence[str | None], columns: Sequence[int]) -> np.ndarray:
    """Return a hash of each of some features, by their names, or by their columns if they have none."""
    texts = (f"x{column}" if name is None else name for name, column in zip(names, columns, strict=True))
    digests = (hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), np.uint64)
