"""The records that all optimizers share: the problem, and the arguments of a kernel.

A kernel is ``learn(rows, order, schedule, method, state)``.  It makes one step for each row number in ``order`` and
changes the state in place.  Quantities that depend on time alone (steps, decay, weights of an average and their prefix
sums) are computed outside, into the schedule's arrays.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from ..jit.dispatch import cast, constant
from ..jit.lanes import WIDTHS, lanes_for, n_float64, packed, unpacked, width
from ..penalties import restricted, strength
from ..util.attributes import add_attributes, attributes
from .bounds import Bounded, bounds_of_block
from .fading import STEADY, Memory, no_rows
from .moving import moved

_WIDEST = WIDTHS[-1].m
"""The most models of one kernel."""


class Rows(NamedTuple):
    """Examples as CSR, with the targets and weights of every lane.

    Indices are uint32, unique in a row, without stored zeros.  Targets and weights are flat (n * m) in the order of
    learning, or columns (n, 1) where all lanes share them.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    targets: np.ndarray
    weights: np.ndarray


class Method(NamedTuple):
    """The records that are compiled into a kernel, by type."""

    loss: Any
    penalty: Any
    lanes: Any
    watch: Any
    lams: np.ndarray


class State(NamedTuple):
    """The memory of an optimizer, owned by its run.

    ``cell``: flat, one stretch of ``stride`` numbers per feature: the optimizer's shared fields (one number for all
    lanes), its lane fields (m numbers each), then one lane field per watched sum.  ``bias``: flat, the intercept's lane
    fields, then its watched sums.  ``clock``: the optimizer's running scalars.
    """

    cell: np.ndarray
    bias: np.ndarray
    clock: np.ndarray

    def copy(self) -> State:
        """Return an independent copy, aligned like the original."""
        return State(*(_aligned_copy(field) for field in self))


TOGETHER = 256
"""The number of coordinates that reached zero while idle which FOBOS collects before it closes their sums."""


_MOST_STEPS = 1 << 20
"""More steps than a block ever has: the engine settles it after 2^18 of them."""


class Block:
    """The steps since the last settling: prefix sums by time, one row per step and one more.

    ``start`` is the number of examples at row 0; ``full`` requests a settling before the next step.  Each optimizer
    defines its own columns.
    """

    memory: Memory | None = None
    """Where old examples fade, what is known of them."""
    pace: Any = STEADY
    """The pace of the next rows, which the engine sets before it asks for a schedule."""

    def __init__(self, columns: int) -> None:
        self.start, self.full = 0, False
        self.table = np.zeros((1, columns))
        self.grid = np.zeros(2)
        self.gridded = 0
        self.noted, self.level = np.zeros(0, np.uint32), np.zeros(0)

    def fade(self, memory: Memory, columns: int) -> None:
        """Let old examples fade; an optimizer's table has so many columns more for that."""
        self.memory, self.pace = memory, no_rows(self.table.shape[1])
        self.table = np.hstack([self.table, np.zeros((1, columns))])

    def look_ahead(self, times: np.ndarray) -> tuple[int, np.ndarray]:
        """Set the pace of the next rows, which have these times; return how many it has, and their effective numbers.

        The effective number of a row is that of examples up to it, itself included.
        """
        assert self.memory is not None
        pace = self.memory.ahead(times)
        self.pace = pace._replace(column=self.pace.column)
        return len(pace.a), pace.clock[1:] / pace.a

    def clock_at(self, t: int) -> float:
        """Return the clock after t examples: t, or T where old examples fade."""
        return float(t) if self.memory is None else self.memory.at(t)[0]

    def unit_at(self, t: int) -> float:
        """Return the unit of all sums after t examples: 1, or more where old examples fade."""
        return 1.0 if self.memory is None else self.memory.at(t)[1]

    def bounds(self, problem: Problem, state: State, t: int) -> Iterator[Bounded]:
        """Yield the bounds of what kernels use as places after t examples."""
        return bounds_of_block(self, t)

    def make_scratch(self, longest: int, width: int) -> None:
        """Make room for the features of the longest row in ``noted``, and for its values in ``level``.

        ``level`` has a value for each lane of each feature, ten for one model.  At its end it has three numbers for
        each coordinate that FOBOS processes together.
        """
        numbers, more = max(width, 10), 3 * (width + TOGETHER)
        if len(self.noted) < longest + 8 or len(self.level) < (longest + 8) * numbers + more:
            entries = 2 * longest + 8
            self.noted, self.level = np.zeros(entries, np.uint32), aligned_zeros(entries * numbers + more)

    def __getstate__(self) -> dict[str, Any]:
        short = (
            {}
            if self.memory is None
            else {"pace": self.pace._replace(a=np.zeros(0), clock=np.zeros(1), units=np.ones(1))}
        )
        return attributes(self) | {"noted": self.noted[:0], "level": self.level[:0]} | short

    def copy(self) -> Self:
        """Return an independent copy without scratch arrays; all fields are arrays or numbers."""
        twin = object.__new__(type(self))
        fields = self.__getstate__()
        add_attributes(twin, {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in fields.items()})
        return twin

    def reserve(self, rows: int) -> np.ndarray:
        """Return the table with room for ``rows`` rows; it grows by doubling and keeps its contents."""
        if rows > _MOST_STEPS:
            raise ValueError(f"the training state does not fit together: {rows} steps were not settled. Learn anew.")
        if len(self.table) < rows:
            grown = np.zeros((max(rows, 2 * len(self.table)), self.table.shape[1]))
            grown[: len(self.table)] = self.table
            self.table = grown
        return self.table


_last_method: tuple[Any, Any] = (None, None)
"""The problem whose method was asked for last, and the method."""


class Problem(NamedTuple):
    """The objective of a run, and the sums to watch while minimising it."""

    loss: Any
    penalty: Any
    d: int
    m: int = 1
    intercept: bool = True
    watch: Any = None
    lams: np.ndarray | None = None
    """The L1 weight of each lane, where lanes differ."""
    single: bool = False
    """Whether lanes are float32."""

    @property
    def lanes(self) -> Any:
        """Return the lanes of a kernel; None above the widest, for optimizers that work on whole arrays."""
        return lanes_for(self.m, self.single) if self.m <= _WIDEST else None

    @property
    def width(self) -> int:
        """Return the number of lanes in memory: m, rounded up to a width that kernels support."""
        lanes = self.lanes
        return self.m if lanes is None else width(lanes)

    @property
    def n_float64(self) -> int:
        """Return the number of float64 numbers that a value of all lanes takes in memory."""
        lanes = self.lanes
        return self.m if lanes is None else n_float64(lanes)

    @property
    def kind(self) -> Any:
        """Return the type of a lane's numbers."""
        return np.float32 if self.single else np.float64

    def packed(self, values: np.ndarray) -> np.ndarray:
        """Return numbers, by lane in the last axis, in the memory format of a kernel."""
        return packed(self.lanes, values) if self.single else values

    def unpacked(self, memory: np.ndarray) -> np.ndarray:
        """Return a view of a kernel's memory, by lane in the last axis."""
        return unpacked(self.lanes, memory) if self.single else memory

    @property
    def sums(self) -> int:
        return n_sums(self.watch)

    @property
    def tracks_iterates(self) -> bool:
        """Return whether each iterate is compared with a point."""
        return bool(tracks_iterates(self.watch))

    def at(self, features: Any) -> Problem:
        """Return the problem restricted to some features, an array or a slice; for separable penalties."""
        count = len(range(*features.indices(self.d))) if isinstance(features, slice) else len(features)
        return self._replace(d=count, penalty=restricted(self.penalty, features))

    def penalty_of(self, lane: int) -> Any:
        """Return the penalty of one lane."""
        return self.penalty if self.lams is None else self.penalty._replace(lam=float(self.lams[lane]))

    def strengths(self, w: np.ndarray) -> Any:
        """Return psi of every model, w (d, m); one number for all where the penalty couples them."""
        if self.lams is None:
            return strength(self.penalty, w)
        if self.penalty.kind == "separable":
            return strength(self.penalty._replace(lam=self.lams), w)
        return np.array([strength(self.penalty_of(lane), column) for lane, column in enumerate(w.T)])

    @property
    def method(self) -> Method:
        """Return what kernels take of the problem; that of the last problem is kept, for streams of single rows."""
        global _last_method
        known, method = _last_method
        if known is not self:
            lams = self.packed(self.lams_of_lanes)
            method = Method(cast(self.loss), cast(self.penalty), self.lanes, self.watch, lams)
            _last_method = self, method
        return method

    @property
    def lams_of_lanes(self) -> np.ndarray:
        """Return the L1 weight of each lane in memory; 0 where there is no model."""
        lams = np.zeros(self.width)
        lams[: self.m] = self.penalty.lam if self.lams is None else self.lams
        return lams

    @property
    def settling(self) -> Method:
        """Return the method without its loss, for kernels that settle and read: one version serves every loss."""
        return self.method._replace(loss=None)


def slices(d: int, length: int = 1 << 17) -> list[slice]:
    """Return all features as slices, for work that needs many arrays of their length."""
    return [slice(first, min(first + length, d)) for first in range(0, d, length)]


def is_coupled(problem: Problem) -> bool:
    """Return whether the models of a problem must be converted together, by maps of whole arrays."""
    return problem.loss.couples or not problem.penalty.is_absolute


class Means(NamedTuple):
    """Means over a window: iterates, intercepts, gradients of the loss, curvatures; and the window's total weight."""

    w: np.ndarray
    b: np.ndarray
    g: np.ndarray | None
    gb: np.ndarray | None
    H: np.ndarray | None
    Hb: np.ndarray | None
    n: float


class Layout(NamedTuple):
    """The layout of an optimizer's state: how many numbers per feature, per lane, and per lane of the intercept."""

    shared: int
    lane: int
    bias: int
    clock: int = 1

    def stride(self, problem: Problem) -> int:
        """Return the numbers per feature."""
        return self.shared + (self.lane + problem.sums) * problem.n_float64

    def new_state(self, problem: Problem) -> State:
        """Return a state of zeros, aligned to cache lines."""
        return State(
            aligned_zeros(problem.d * self.stride(problem)),
            aligned_zeros((self.bias + problem.sums) * problem.n_float64),
            np.zeros(self.clock),
        )

    def check(self, problem: Problem, state: State) -> None:
        """Raise a ValueError for a state of another layout, which a kernel would read past its end."""
        if state.cell.size != problem.d * self.stride(problem):
            raise ValueError(
                "the training state was written by another version of sparsco, with another layout of what the "
                "optimizer keeps: it cannot go on. Learn anew, or continue with that version."
            )

    def bounds(self, problem: Problem, state: State, block: Block, t: int) -> Iterator[Bounded]:
        """Yield the bounds of what kernels use as places after t examples; shared fields are times of last touches."""
        yield Bounded("the last touches", self.cells_of(problem, state)[0], float(t))

    def start(self, problem: Problem, columns: int) -> tuple[State, Block]:
        """Return a new state, and a block with so many columns."""
        return self.new_state(problem), Block(columns)

    def grow(self, problem: Problem, state: State, d: int) -> State:
        """Return the state with room for d features; zeros stand for a feature that was never seen, at any time."""
        cell = aligned_zeros(d * self.stride(problem))
        cell[: state.cell.size] = state.cell
        return state._replace(cell=cell)

    def keep(self, problem: Problem, state: State, kept: np.ndarray, used: int) -> None:
        """Move the cells ``kept`` of the first ``used`` features, ascending, to the front, and clear the others."""
        cells = state.cell.reshape(problem.d, self.stride(problem))
        cells[: len(kept)] = cells[kept]
        cells[len(kept) : used] = 0.0

    def views(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return views: shared (d, shared), lanes (d, lane + sums, width), bias (bias + sums, width)."""
        return *self.cells_of(problem, state), self.bias_of(problem, state)

    def cells_of(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Return views of the features' fields: shared (d, shared), lanes (d, lane + sums, width)."""
        cell, n = state.cell.reshape(problem.d, self.stride(problem)), self.lane + problem.sums
        own = cell[:, self.shared : self.shared + n * problem.n_float64]
        lanes = problem.unpacked(own).reshape(problem.d, n, problem.width)
        return cell[:, : self.shared], lanes

    def bias_of(self, problem: Problem, state: State) -> np.ndarray:
        """Return a view of the intercept's fields and sums, (bias + sums, width)."""
        return problem.unpacked(state.bias).reshape(self.bias + problem.sums, problem.width)

    def answer(self, problem: Problem, state: State, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the iterate that a kernel wrote to ``out``: weights (features, m), intercepts (m,)."""
        b = self.bias_of(problem, state)[0, : problem.m]
        return out.reshape(-1, problem.width)[:, : problem.m], b.astype(np.float64)

    def sums(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Return views of the watched sums: (d, sums, width) and the intercept's (sums, width)."""
        _, lanes, bias = self.views(problem, state)
        return lanes[:, self.lane :], bias[self.bias :]

    def restart_sums(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Start a new window and return the old sums; only sums of curvatures continue, the others restart at zero."""
        sums, bias = self.sums(problem, state)
        ended = moved(sums[:, :2]), bias[:2].copy()
        bias[:2] = 0.0
        return ended

    def relaid(self, old: Problem, state: State, new: Problem, fresh: State) -> State:
        """Return the state in the layout for another watch or for more lanes; new fields are those of ``fresh``."""
        sums, m = min(old.sums, new.sums), old.m
        to_shared, to_lanes, to_bias = self.views(new, fresh)
        shared, lanes, bias = self.views(old, state)
        if state.cell.any():  # otherwise fresh memory need not be written
            to_shared[:] = shared
            to_lanes[:, : self.lane + sums, :m] = lanes[:, : self.lane + sums, :m]
        to_bias[: self.bias + sums, :m] = bias[: self.bias + sums, :m]
        fresh.clock[:] = state.clock
        return fresh


_HUGE = 1 << 21


@functools.cache
def _memory() -> int:
    """Return the bytes of this machine's memory; a very large number where the system does not report it."""
    if sys.platform != "win32":
        with contextlib.suppress(ValueError, OSError):
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 1 << 62


def check_room(
    numbers: int, what: str = "training", instead: str = "storage='seen' keeps only the features that occur"
) -> None:
    """Raise a MemoryError for arrays that cannot fit, before the system kills the process."""
    if numbers * 8 > _memory():
        raise MemoryError(f"{what} needs {numbers / 2**27:.1f} GB, more than this machine has: {instead}.")


def aligned_zeros(size: int) -> np.ndarray:
    """Return float64 zeros whose first byte starts a cache line; large arrays use huge pages where available.

    Kernels access cells at random.  On small pages an access may miss the address cache (TLB), which costs up to half
    of a pass.  Whether it does depends on earlier allocations.
    """
    check_room(size)
    if size * 8 >= _HUGE // 2 and sys.platform == "linux":
        pages = mmap.mmap(-1, -(-size * 8 // _HUGE) * _HUGE + _HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)
        raw, start = np.frombuffer(pages, np.uint8), _HUGE
    else:
        raw, start = np.zeros(size * 8 + 64, np.uint8), 64
    offset = -ctypes.addressof(ctypes.c_char.from_buffer(raw)) % start  # half the time of ``raw.ctypes.data``
    return raw[offset : offset + size * 8].view(np.float64)


def _aligned_copy(array: np.ndarray) -> np.ndarray:
    copy = aligned_zeros(array.size)
    copy[:] = array
    return copy


def padded(array: np.ndarray, d: int) -> np.ndarray:
    """Return the first d rows, padded with rows of zeros where there are fewer."""
    if len(array) >= d:
        return array[:d]
    out = np.zeros((d, *array.shape[1:]))
    out[: len(array)] = array
    return out


def compacted(array: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the rows ``kept``, in ascending order, at the front of an array of zeros of the same length."""
    out, kept = np.zeros_like(array), kept[kept < len(array)]
    out[: len(kept)] = array[kept]
    return out


def widened(array: np.ndarray, m: int, rest: float = 0.0) -> np.ndarray:
    """Return numbers by model, the last axis, with room for m models; ``rest`` fills the new ones."""
    out = np.full((*array.shape[:-1], m), rest)
    out[..., : array.shape[-1]] = array
    return out


@constant
def n_sums(watch: Any) -> int:
    """Return how many sums a kernel keeps: 0 none, 1 iterates, 2 also gradients, 3 also curvatures."""
    raise NotImplementedError


@constant
def spare_fields(watch: Any) -> int:
    """Return how many numbers per lane at a cell's end are not used by kernels."""
    return 0


@constant
def tracks_iterates(watch: Any) -> int:
    """Return whether a kernel tests at each step whether to keep its iterate."""
    return 0


class Nothing(NamedTuple):
    """A watch of the iterate alone, without sums."""

    def n_sums(watch) -> int:  # noqa: N805
        return 0


class Iterates(NamedTuple):
    """A watch of the sum of omega_t w_t."""

    def n_sums(watch) -> int:  # noqa: N805
        return 1


class Tracked(NamedTuple):
    """A watch of the sum of omega_t w_t; a second field holds the point that every step is compared with."""

    def n_sums(watch) -> int:  # noqa: N805
        return 2

    def tracks_iterates(watch) -> int:  # noqa: N805
        return 1


class Gradients(NamedTuple):
    """A watch of the sums of omega_t w_t and omega_t c_t x_t."""

    def n_sums(watch) -> int:  # noqa: N805
        return 2


class Curvatures(NamedTuple):
    """A watch of the sums of omega_t w_t and omega_t c_t x_t, and of h_t x_t^2 over all rows, unweighted."""

    def n_sums(watch) -> int:  # noqa: N805
        return 3
