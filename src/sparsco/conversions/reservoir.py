"""A bounded uniform sample of the stream, used by the conversion metric and its guard.

Every row has two random priorities, functions of the seed and the row's number.  R is the longest prefix of the rows,
ordered by the first priority, whose nonzeros fit the budget.  V is the first rows, ordered by the second priority,
among those not in R.  Both depend only on the set of rows seen, not on the chunks.  As rows arrive, the priorities at
which R and V end can only fall, so a row beyond both is rejected at once and never needed later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from ..data.randomness import Purpose, draw, key
from ..data.rows import Matrix
from ..jit.dispatch import U, allocating_kernel, kernel
from ..problem.state import widened
from ..solver.units import column_sums
from ..util.attributes import add_attributes, attributes

_NO_LIMIT = np.uint64(0xFFFFFFFFFFFFFFFF)
_MOST_NUMBERS = 1 << 31
"""The number of features that have come and gone at which entries of those that are gone are dropped."""
_LONGER = 4.0
"""A sample whose rows were rewritten has room for so many times the nonzeros, at most."""
Division = tuple[np.ndarray, np.ndarray, tuple[np.uint64, np.uint64]]
"""The positions of R and of V, ascending, and the priorities at which they end."""


class SampleRows(NamedTuple):
    """Rows of the stream as CSR, in the order of their row numbers; targets and weights are (n, m)."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    numbers: np.ndarray

    @property
    def y(self) -> np.ndarray:
        """Return the targets in the form of y, of a sample that keeps y as it was given."""
        return self.targets[:, 0] if self.targets.shape[1] == 1 else self.targets

    def among(self, positions: np.ndarray) -> SampleRows:
        """Return the rows at some positions, ascending."""
        starts, lengths = self.indptr[positions], self.indptr[positions + 1] - self.indptr[positions]
        indptr = np.append(0, np.cumsum(lengths))
        indices, data = np.empty(indptr[-1], self.indices.dtype), np.empty(indptr[-1])
        if data.size:
            _copy_rows(starts, lengths, self.indices, self.data, indices, data, 0)
        return SampleRows(indptr, indices, data, *(each[positions] for each in self[3:]))

    def lanes(self, lanes: slice) -> SampleRows:
        """Return these rows with the targets and weights of some models."""
        return self._replace(targets=self.targets[:, lanes], weights=self.weights[:, lanes])

    def lane(self, lane: int) -> SampleRows:
        """Return these rows with the targets and weights of model ``lane``, of shape (n,)."""
        return self._replace(
            targets=np.ascontiguousarray(self.targets[:, lane]), weights=np.ascontiguousarray(self.weights[:, lane])
        )


class Sample(NamedTuple):
    """The sample that :meth:`Reservoir.sample` returns; ``kappa`` is the share of the rows seen that R holds."""

    R: SampleRows
    V: SampleRows
    kappa: float

    def in_units(self, units: np.ndarray) -> Sample:
        """Return the sample with each column divided by its unit."""
        R, V = (rows._replace(data=rows.data / units[rows.indices]) for rows in (self.R, self.V))
        return self._replace(R=R, V=V)

    def lanes(self, lanes: slice) -> Sample:
        """Return the sample with the targets and weights of some models."""
        return Sample(self.R.lanes(lanes), self.V.lanes(lanes), self.kappa)

    def lane(self, lane: int) -> Sample:
        """Return the sample with the targets and weights of model ``lane``."""
        return Sample(self.R.lane(lane), self.V.lane(lane), self.kappa)


class _Table(NamedTuple):
    """The stored rows, one entry each, in the order of the row numbers, which is also the order in the arena."""

    number: np.ndarray
    first: np.ndarray
    """The priority for R."""
    second: np.ndarray
    """The priority for V."""
    start: np.ndarray
    length: np.ndarray
    targets: np.ndarray
    weights: np.ndarray


@kernel
def _copy_rows(starts, lengths, indices, data, to_indices, to_data, at):
    """Copy rows one after the other, from position ``at`` on; in place this closes gaps, since rows only move down."""
    to = U(at)
    for k in range(starts.size):
        start, length = U(starts[k]), U(lengths[k])
        for p in range(length):
            to_indices[to + p] = indices[start + p]
        for p in range(length):
            to_data[to + p] = data[start + p]
        to += length


@allocating_kernel
def _choose(key_r, key_v, limit_r, limit_v, number, n):
    """Return positions and priorities of the rows number, ..., number + n - 1 that come before either limit."""
    kept, first, second = np.empty(n, np.int64), np.empty(n, np.uint64), np.empty(n, np.uint64)
    size = 0
    for i in range(n):
        at = U(number + i)
        a, b = draw(key_r, at), draw(key_v, at)
        kept[size], first[size], second[size] = i, a, b
        size += (a < limit_r) | (b < limit_v)
    return kept[:size], first[:size], second[:size]


class Reservoir:
    """The sample of a stream, owned by one run: ``offer`` adds chunks of rows, ``sample`` returns R and V at any time.

    R holds at most ``max_nonzeros`` nonzeros (an empty row counts as one).  V holds at most ``max_guard`` rows and
    ``max_nonzeros`` nonzeros.  A row's number is ``first`` plus the number of rows offered before it.  Later passes
    offer no rows.
    """

    _numbers: np.ndarray | None = None
    """The number of the feature in each slot, ascending, where features have left; None: the slots themselves."""
    _features = 0
    """The number of all features that have had a slot, where features have left."""
    times_longer = 1.0
    """How many times as many nonzeros there is room for, since rows were rewritten."""

    def __init__(
        self,
        seed: int = 0,
        lanes: int = 1,
        max_nonzeros: int = 1_000_000,
        max_guard: int = 2_000,
        first: int = 0,
        kind: Any = np.float64,
    ) -> None:
        """Start without rows; ``kind`` is the type of targets."""
        self.max_nonzeros, self.max_guard = max_nonzeros, max_guard
        self._keys = tuple(key(seed, Purpose.RESERVOIR, Purpose.GUARD))
        self.first, self.rows_seen = first, 0
        none = np.empty(0, np.int64)
        self._rows = 0  # number of rows in the table, whose arrays are longer
        priorities, lane = (none.view(np.uint64), none.view(np.uint64)), (0, lanes)
        self._table = _Table(none, *priorities, none, none, np.empty(lane, kind), np.empty(lane))
        self._used = 0  # used length of the arena
        self._indices, self._data = np.empty(0, np.uint32), np.empty(0)
        self._shared = False  # whether a copy may still read the arrays
        self._limits = (_NO_LIMIT, _NO_LIMIT)
        self._fresh = 0  # cost of the rows stored since the limits were last computed

    def offer(
        self,
        starts: np.ndarray,
        stops: np.ndarray,
        indices: np.ndarray,
        data: np.ndarray,
        lanes_of: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    ) -> None:
        """Add the next rows, row i at ``indices[starts[i]:stops[i]]``; rows that are kept are copied.

        ``lanes_of(i)`` returns the targets and weights of the rows i, (len(i), m) each.
        """
        number = self.first + self.rows_seen
        self.rows_seen += len(starts)
        kept, first, second, lengths = self._new_rows(number, starts, stops)
        if not kept.size:
            return
        ends = lengths.cumsum()
        self._make_room(kept.size, int(ends[-1]))
        _copy_rows(starts[kept], lengths, indices, data, self._indices, self._data, self._used)
        if self._numbers is not None and ends[-1]:
            stored = self._indices[self._used : self._used + int(ends[-1])]
            self._number(int(stored.max()) + 1)
            stored[:] = self._numbers[stored]
        into = slice(self._rows, self._rows + kept.size)
        new = (kept + number, first, second, self._used + ends - lengths, lengths, *lanes_of(kept))
        for column, values in zip(self._table, new, strict=True):
            column[into] = values
        self._rows += kept.size
        self._used += int(ends[-1])

    def _new_rows(
        self, number: int, starts: np.ndarray, stops: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the positions, both priorities and the lengths of the new rows to store, after limits were lowered.

        Where many rows come at once, limits that they will probably fall below are tried first.  If R and V then end
        before these limits, they are what they would have been without them.
        """
        for limits in (self._probable_limits(starts, stops), self._limits):
            kept, first, second = self._choose(limits, number, len(starts))
            lengths = stops[kept] - starts[kept]
            fresh = self._fresh + int(np.maximum(lengths, 1).sum())
            if limits is self._limits and fresh <= (self.max_nonzeros + self.max_guard) // 3:
                self._fresh = fresh
                break
            split = self._split_with(first, second, lengths, limits)
            if limits is self._limits or (split[2][0] < limits[0] and split[2][1] < limits[1]):
                stay = self._tighten(*split)
                return kept[stay], first[stay], second[stay], lengths[stay]
        return kept, first, second, lengths

    def _choose(
        self, limits: tuple[np.uint64, np.uint64], number: int, n: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return positions and priorities of the next n rows that come before either limit."""
        return _choose(*self._keys, *limits, number, n)

    def _probable_limits(self, starts: np.ndarray, stops: np.ndarray) -> tuple[np.uint64, np.uint64]:
        """Return limits that R and V will probably stay below with these new rows; those at hand for few rows."""
        rows, nonzeros = len(starts), int(stops.sum() - starts.sum())
        if nonzeros < 2 * self.max_nonzeros or rows < 8 * self.max_guard:
            return self._limits
        share_r = 1.25 * self.max_nonzeros / nonzeros + 200.0 / rows
        share_v = (1.25 * self.max_guard + 200.0) / (rows * (1.0 - min(share_r, 0.75)))
        limit_r, limit_v = (np.uint64(int(min(share, 1.0) * (2**64 - 2**11))) for share in (share_r, share_v))
        return min(limit_r, self._limits[0]), min(limit_v, self._limits[1])

    def go_on_at(self, number: int) -> None:
        """Let the next row that is offered have this number, which is above those of all rows so far."""
        self.first = number - self.rows_seen

    def expect(self, rows: int, nonzeros: int) -> None:
        """Lower the limits for a known total of rows and nonzeros, over this reservoir and those to be joined.

        From the start, only twice the share that R and V are expected to take is kept.  The join would have dropped the
        rows that are dropped here.
        """
        kept = min(1.0, (2.0 * self.max_nonzeros * rows / max(nonzeros, rows, 1) + 64.0) / max(rows, 1))
        guard = 1.0 if kept > 0.5 else min(1.0, (2.0 * self.max_guard + 64.0) / rows / (1.0 - kept))
        self._limits = tuple(  # type: ignore[assignment]
            min(limit, np.uint64(int(share * 2**63) * 2 - (share == 1.0)))
            for limit, share in zip(self._limits, (kept, guard), strict=True)
        )

    def joined(self, other: Reservoir) -> Reservoir:
        """Return the sample of these rows and of the other's, whose numbers follow these.

        It equals the reservoir that would have been offered both.  Its limits are no higher than either's, so neither
        has dropped a row that is in it.  The result is read-only: further rows would get numbers that are in use.
        """
        twin, rows = self.copy(), other._gather(np.arange(other._rows))
        twin.rows_seen = self.rows_seen + other.rows_seen
        twin._limits = min(self._limits[0], other._limits[0]), min(self._limits[1], other._limits[1])
        if other._rows:
            lengths = np.diff(rows.indptr)
            twin._make_room(other._rows, len(rows.data))
            _copy_rows(rows.indptr[:-1], lengths, rows.indices, rows.data, twin._indices, twin._data, twin._used)
            into = slice(twin._rows, twin._rows + other._rows)
            table = other._table._replace(start=twin._used + rows.indptr[:-1])
            for column, values in zip(twin._table, table, strict=True):
                column[into] = values[: other._rows]
            twin._rows, twin._used = twin._rows + other._rows, twin._used + len(rows.data)
        none = np.empty(0, np.int64)
        twin._tighten(*twin._split_with(none.view(np.uint64), none.view(np.uint64), none, twin._limits))
        return twin

    @property
    def room(self) -> int:
        """Return how many more nonzeros fit beside all rows so far; 0 once a row had to be left out."""
        if self._rows < self.rows_seen:
            return 0
        return max(self.max_nonzeros - int(np.maximum(self._table.length[: self._rows], 1).sum()), 0)

    def keep(self, kept: np.ndarray, d: int) -> None:
        """Forget all but some of d features; those, by ascending slots, get the slots 0, 1, ...

        Stored entries have the numbers of features in place of slots, so that they need not be visited.  R and V are of
        the same rows as before: entries of features that are gone still count until they are dropped.
        """
        self._number(d)
        self._numbers = self._numbers[kept]
        if self._features > _MOST_NUMBERS:
            self._drop_forgotten()

    def _number(self, d: int) -> None:
        """Give numbers to all of d slots; new ones follow those of all features before them."""
        if self._numbers is None:
            self._numbers, self._features = np.arange(d), d
        more = max(d - len(self._numbers), 0)
        if more:
            self._numbers = np.append(self._numbers, self._features + np.arange(more))
            self._features += more

    def _drop_forgotten(self) -> None:
        """Drop the entries of features that are gone, and number the others by their slots.

        First R and V are cut to what they are now: shorter rows leave room for rows to come, not for those before.
        """
        none = np.empty(0, np.int64)
        self._tighten(*self._split_with(none.view(np.uint64), none.view(np.uint64), none, self._limits))
        rows = self._known(self._gather(np.arange(self._rows)))
        table = _Table(*(column[: self._rows].copy() for column in self._table))
        self._table = table._replace(start=rows.indptr[:-1].copy(), length=np.diff(rows.indptr))
        self._indices, self._data, self._used, self._shared = rows.indices, rows.data, len(rows.data), False
        self._numbers, self._features = np.arange(len(self._numbers)), len(self._numbers)

    def _known(self, rows: SampleRows) -> SampleRows:
        """Return rows with slots in place of the numbers of features, without features that are gone."""
        if self._numbers is None:
            return rows
        slots = np.minimum(np.searchsorted(self._numbers, rows.indices), max(len(self._numbers) - 1, 0))
        kept = self._numbers[slots] == rows.indices if len(self._numbers) else np.zeros(len(slots), bool)
        ends = np.append(0, np.cumsum(kept))[rows.indptr]
        return rows._replace(indptr=ends, indices=slots[kept].astype(np.uint32), data=rows.data[kept])

    def widen(self, lanes: int) -> None:
        """Add lanes; the rows stored so far take no part in them (target -1, weight 0)."""
        table = self._table
        wide = {"targets": widened(table.targets, lanes, -1.0), "weights": widened(table.weights, lanes)}
        self._table = table._replace(**wide)

    def rewrite(self, rewritten: Callable[[Matrix], Matrix]) -> None:
        """Replace all rows by what ``rewritten`` returns for them.

        If they are longer then, there is room for up to ``_LONGER`` times as many nonzeros as at first.
        """
        add_attributes(self, self.__getstate__())
        before = int(np.maximum(self._table.length, 1).sum())
        rows = rewritten(Matrix(np.append(self._table.start, self._used), self._indices, self._data, 0))
        self._table = self._table._replace(start=rows.indptr[:-1].copy(), length=np.diff(rows.indptr))
        self._indices, self._data, self._used = rows.indices.astype(np.uint32), rows.data, len(rows.data)
        longer = int(np.maximum(self._table.length, 1).sum()) / max(before, 1)
        room = min(max(longer, 1.0), _LONGER / self.times_longer)
        self.times_longer, self.max_nonzeros = self.times_longer * room, int(self.max_nonzeros * room)
        none = np.empty(0, np.int64)
        self._tighten(*self._split_with(none.view(np.uint64), none.view(np.uint64), none, self._limits))

    def sample(self, enough: int | None = None) -> Sample:
        """Return R, V and kappa for the rows seen so far, without changing the reservoir.

        Where R would be less than an eighth of the rows seen, it has no more than ``enough`` of its first rows.
        """
        table, n = self._table, self._rows
        stored = table.first[:n], table.second[:n], table.length[:n], self._limits
        in_r, in_v, _ = self._split(*stored)
        if enough is not None and enough < in_r.size < self.rows_seen / 8:
            in_r, in_v, _ = self._split(*stored, enough)
        kappa = in_r.size / self.rows_seen if self.rows_seen else 1.0
        return Sample(self._known(self._gather(in_r)), self._known(self._gather(in_v)), kappa)

    def column_sums(self, d: int) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], int]:
        """Return the sums of each of d columns over the rows of R, and their number, without a copy of the rows."""
        table, n = self._table, self._rows
        in_r, _, _ = self._split(table.first[:n], table.second[:n], table.length[:n], self._limits)
        if self._numbers is not None:
            rows = self._known(self._gather(in_r))
            return column_sums(rows.indptr[:-1], rows.indptr[1:], rows.indices, rows.data, d), len(in_r)
        starts = table.start[in_r]
        return column_sums(starts, starts + table.length[in_r], self._indices, self._data, d), len(in_r)

    def check(self) -> None:
        """Raise a ValueError for a reservoir of a file whose rows are not in its arrays."""
        table, n = self._table, self._rows
        kinds = (np.int64, np.uint64, np.uint64, np.int64, np.int64)
        sizes_fit = all(len(column) == n and column.ndim == 1 + (k > 4) for k, column in enumerate(table))
        types_fit = all(column.dtype == kind for column, kind in zip(table, kinds, strict=False))
        types_fit &= self._indices.dtype == np.uint32 and self._data.dtype == table.weights.dtype == np.float64
        lengths_fit = ((table.length >= 0) & (table.length <= self._used)).all()  # a sum of others could wrap around
        inside = lengths_fit and ((table.start >= 0) & (table.start <= self._used - table.length)).all()
        limits = (*self._keys, *self._limits)
        is_whole = self._used == len(self._indices) == len(self._data) and all(type(x) is np.uint64 for x in limits)
        is_whole &= 0 <= self.max_nonzeros < 1 << 28 and 0 <= self.max_guard < 1 << 28 and n <= self.rows_seen
        if not (sizes_fit and types_fit and inside and is_whole and np.isfinite(self._data).all()):
            raise ValueError("the sample of its rows is not whole")

    def check_against(self, d: int) -> None:
        """Raise a ValueError for rows with further features than there are, or with features twice."""
        numbers, most = self._numbers, d if self._numbers is None else self._features
        is_ascending = numbers is None or (np.diff(numbers, prepend=-1) > 0).all()
        if not is_ascending or int(self._indices[: self._used].max(initial=0)) >= max(most, 1):
            raise ValueError("the sample of its rows has features that there are not")

    def copy(self) -> Self:
        """Return an independent copy; the arrays are shared until either of the two next changes them."""
        self._shared = True
        twin = object.__new__(type(self))
        add_attributes(twin, attributes(self))
        return twin

    __copy__ = copy

    def __deepcopy__(self, memo: dict) -> Reservoir:
        return self.copy()

    def __getstate__(self) -> dict:
        """Return the state without the arrays' unused ends and gaps."""
        rows = self._gather(np.arange(self._rows))
        table = _Table(*(column[: self._rows].copy() for column in self._table))
        table = table._replace(start=rows.indptr[:-1].copy())
        return attributes(self) | {
            "_table": table,
            "_indices": rows.indices,
            "_data": rows.data,
            "_used": len(rows.data),
            "_shared": False,
        }

    def _split(
        self,
        first: np.ndarray,
        second: np.ndarray,
        length: np.ndarray,
        limits: tuple[np.uint64, np.uint64],
        most: int | None = None,
    ) -> Division:
        """Return R, of ``most`` rows if that is given, and V, among rows with these priorities, below these limits."""
        n, cost = len(length), np.maximum(length, 1)
        in_r, limit_r = _prefix(first, np.arange(n), limits[0], cost, self.max_nonzeros, n if most is None else most)
        rest = np.ones(n, bool)
        rest[in_r] = False
        in_v, limit_v = _prefix(second, np.flatnonzero(rest), limits[1], cost, self.max_nonzeros, self.max_guard)
        return in_r, in_v, (limit_r, limit_v)

    def _split_with(
        self, first: np.ndarray, second: np.ndarray, length: np.ndarray, limits: tuple[np.uint64, np.uint64]
    ) -> Division:
        """Return R and V among the stored rows and further ones with these priorities and lengths."""
        old, n = self._table, self._rows
        pairs = (old.first, first), (old.second, second), (old.length, length)
        return self._split(*(np.concatenate([column[:n], more]) for column, more in pairs), limits)

    def _tighten(self, in_r: np.ndarray, in_v: np.ndarray, limits: tuple[np.uint64, np.uint64]) -> np.ndarray:
        """Lower the limits to the ends of R and V, and drop the stored rows beyond them.

        Return the positions of the further rows that stay: the others need not be copied.
        """
        old, n, self._limits = self._table, self._rows, limits
        self._fresh = 0
        stay = np.sort(np.concatenate([in_r, in_v]), kind="stable")  # which merges the two
        self._rows = int(np.searchsorted(stay, n))
        if self._rows < n:
            self._table = _Table(*(column[stay[: self._rows]] for column in old))
        return stay[self._rows :] - n

    def _gather(self, positions: np.ndarray) -> SampleRows:
        """Return copies of the rows at these table positions."""
        number, _, _, start, length, targets, weights = (column[positions] for column in self._table)
        indptr = np.zeros(positions.size + 1, np.int64)
        np.cumsum(length, out=indptr[1:])
        indices, data = np.empty(indptr[-1], np.uint32), np.empty(indptr[-1])
        if data.size:
            _copy_rows(start, length, self._indices, self._data, indices, data, 0)
        return SampleRows(indptr, indices, data, targets, weights, number)

    def _make_room(self, rows: int, nonzeros: int) -> None:
        """Make room for so many more rows and nonzeros: close the gaps, and grow if that frees less than a quarter."""
        if self._shared:
            add_attributes(self, self.__getstate__())
        if self._rows + rows > len(self._table.number):
            size = max(2 * len(self._table.number), self._rows + rows)
            self._table = _Table(*(_grown(column, size, self._rows) for column in self._table))
        if self._used + nonzeros <= self._data.size:
            return
        start, length = self._table.start[: self._rows], self._table.length[: self._rows]
        live = int(length.sum())
        if live < self._used:
            _copy_rows(start, length, self._indices, self._data, self._indices, self._data, 0)
            start[:] = length.cumsum() - length
            self._used = live
        if 4 * (live + nonzeros) > 3 * self._data.size:
            size = max(5 * self.max_nonzeros // 2, 2 * (live + nonzeros))  # memory that is never written costs nothing
            self._indices, self._data = _grown(self._indices, size, live), _grown(self._data, size, live)


def _prefix(
    priority: np.ndarray, among: np.ndarray, limit: np.uint64, cost: np.ndarray, budget: int, count: int
) -> tuple[np.ndarray, np.uint64]:
    """Return the longest prefix by priority within budget and count, in ascending order, and the next priority."""
    among = among[priority[among] < limit]
    if among.size <= count and cost[among].sum() <= budget:
        return among, limit
    if count < among.size:  # the first ones, and one more
        among = among[priority[among] <= np.partition(priority[among], count)[count]]
    own = priority[among]
    order = np.argsort(own)
    end = min(int(np.searchsorted(cost[among[order]].cumsum(), budget, side="right")), count)
    return among[own < own[order[end]]], own[order[end]]


def _grown(array: np.ndarray, size: int, used: int) -> np.ndarray:
    bigger = np.empty((size, *array.shape[1:]), array.dtype)
    bigger[:used] = array[:used]
    return bigger
