"""Examples that count less as they grow older, for ``half_life``.

An example counts 2^-(age / half_life), with its age in examples or in time.  Sums that fade would have to be multiplied
at every example, for all features.  Instead each new example counts more than the one before: a_i = 2^(e_i - e_0), with
e the time in half-lives.  A sum of a_i g_i is then the faded sum times ``unit``, the a of the last example, and nothing
happens to idle features.  The clock that counts examples becomes T = sum of a_i.  T over the unit is the effective
number of examples.  Before a grows too large, the engine divides all sums by the unit (``renewed``).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..jit.dispatch import U, constant, dispatched, kernel
from ..jit.lanes import exp, maximum, minimum

LARGEST, LARGEST_SINGLE = 128.0, 32.0
"""The half-lives after which sums are divided by their unit, in float64 and in float32; the oldest one's is 2^-this."""
LONGEST_GAP = 16.0
"""The most half-lives that the time between two examples counts: sums would lose digits, and 2^-16 is little."""
_LOG_2 = math.log(2.0)


@constant
def fades(pace: Any) -> int:
    """Return whether old examples fade."""
    raise NotImplementedError


@dispatched
def growth(pace: Any, k: Any) -> Any:
    """Return how much row k of a call counts: 1, or more than the row before where old examples fade."""
    raise NotImplementedError


@dispatched
def elapsed(pace: Any, k: Any, steps: Any) -> Any:
    """Return the clock before row k of a call: ``steps``, or T where old examples fade."""
    raise NotImplementedError


@dispatched
def root(pace: Any, k: Any, t: Any) -> Any:
    """Return the square root of the number of examples before row k of a call, where the clock is t.

    Where old examples fade, it is that of their effective number times the unit, as all sums are.
    """
    raise NotImplementedError


@dispatched
def first_at(pace: Any, table: Any, level: Any, start: Any, r: Any) -> Any:
    """Return the first row of a table, at most r, whose clock plus ``start`` is at least ``level``; all are floats."""
    raise NotImplementedError


class Steady(NamedTuple):
    """The pace of examples that all count alike."""

    def fades(pace) -> int:  # noqa: N805
        return 0

    def growth(pace, k):  # noqa: N805
        return 1.0

    def elapsed(pace, k, steps):  # noqa: N805
        return steps

    def root(pace, k, t):  # noqa: N805
        return math.sqrt(t)

    def first_at(pace, table, level, start, r):  # noqa: N805
        return minimum(maximum(math.ceil(level) - start, 0.0), r)


class Fading(NamedTuple):
    """The pace of the next rows where old examples fade: a of each row; T and the unit before each and after the last.

    ``column`` is the column of an optimizer's table that holds T.  ``scale`` and ``rate`` guess at which of its rows
    the clock has grown by x: log(1 + scale x) rate, or scale x where rate is 0.
    """

    a: np.ndarray
    clock: np.ndarray
    units: np.ndarray
    column: int = 0
    scale: float = 0.0
    rate: float = 0.0

    def fades(pace) -> int:  # noqa: N805
        return 1

    def growth(pace, k):  # noqa: N805
        return pace.a[k]

    def elapsed(pace, k, steps):  # noqa: N805
        return pace.clock[k]

    def root(pace, k, t):  # noqa: N805
        return math.sqrt(t * pace.units[k])

    def first_at(pace, table, level, start, r):  # noqa: N805
        column, sought, one = U(pace.column), level - start, U(1)
        ahead = maximum(sought - table[U(0), column], 0.0) * pace.scale  # in the pace of the last rows
        high = U(minimum(ahead if pace.rate == 0.0 else math.log1p(ahead) * pace.rate, r))
        low, step = high, one
        while (low > U(0)) & (table[low - minimum(low, one), column] >= sought):
            low, step = low - minimum(low, step), step + step
        high, step = maximum(high, low), one
        while (high < U(r)) & (table[high, column] < sought):
            low, high, step = high + one, minimum(high + step, U(r)), step + step
        while low < high:
            middle = (low + high) >> one
            if table[middle, column] >= sought:
                high = middle
            else:
                low = middle + one
        return float(low)


def aimed(pace: Fading, table: np.ndarray) -> Fading:
    """Return the pace with a guess of rows of this table, in whose rows the clock has been set."""
    n, first = len(pace.a), 1.0 / float(table[1, pace.column] - table[0, pace.column])
    slope = math.log(pace.units[n] / pace.units[0]) / n if pace.units[0] > 0.0 else 0.0
    if slope <= 1e-12:
        return pace._replace(scale=first, rate=0.0)
    return pace._replace(scale=math.expm1(slope) * first, rate=1.0 / slope)


STEADY = Steady()


def no_rows(column: int) -> Fading:
    """Return the pace of no rows, for an optimizer whose table has T in this column."""
    return Fading(np.zeros(0), np.zeros(1), np.ones(1), column)


@kernel
def _grow(ages, total, a, clock):
    """Fill a = 2^ages and the clock, one after the other, whatever the cut."""
    clock[0] = total
    for k in range(ages.size):
        a[k] = exp(ages[k] * _LOG_2)
        total += a[k]
        clock[k + 1] = total


class Memory(NamedTuple):
    """What a run knows of its fading examples after ``t`` of them; ``unit`` and ``total`` are a of the last, and T.

    ``origin`` is the time at which a is 1, ``last`` that of the last example, both in half-lives.  ``earlier`` has
    total and unit before the last example.
    """

    half_life: float
    limit: float
    t: int = 0
    origin: float = 0.0
    last: float = 0.0
    total: float = 0.0
    unit: float = 1.0
    earlier: tuple[float, float] = (0.0, 1.0)

    def ages(self, times: np.ndarray) -> np.ndarray:
        """Return log2 a of rows with these times."""
        ages = times / self.half_life
        return ages - (ages[0] if self.t == 0 and len(ages) else self.origin)

    def is_due(self, time: float) -> bool:
        """Return whether the sums must be divided by their unit before a row with this time is learned."""
        age = time / self.half_life
        return self.t > 0 and (age - self.origin > self.limit or age - self.last > LONGEST_GAP)

    def renewed(self, time: float) -> tuple[Memory, float]:
        """Return the memory whose unit is 1, for a row with this time, and the factor of all sums."""
        factor = 1.0 / self.unit
        earlier = self.earlier[0] * factor, self.earlier[1] * factor
        origin = max(self.last, time / self.half_life - LONGEST_GAP)
        return self._replace(origin=origin, total=self.total * factor, unit=1.0, earlier=earlier), factor

    def ahead(self, times: np.ndarray) -> Fading:
        """Return the pace of the next rows, which have these times, or of those before the next that is due."""
        ages = self.ages(times)
        n = int(np.searchsorted(ages, self.limit, side="right"))
        if n and ages[n - 1] - ages[0] > LONGEST_GAP:
            is_long = np.diff(ages[:n]) > LONGEST_GAP
            n = 1 + int(np.argmax(is_long)) if is_long.any() else n
        units, clock = np.empty(n + 1), np.empty(n + 1)
        units[0] = self.unit
        _grow(ages[:n], self.total, units[1:], clock)
        return Fading(units[1:], clock, units)

    def after(self, times: np.ndarray, pace: Fading) -> Memory:
        """Return the memory after rows of this pace, with these times, were learned; as many as there are times."""
        n = len(times)
        origin = times[0] / self.half_life if self.t == 0 else self.origin
        return self._replace(
            t=self.t + n,
            origin=float(origin),
            last=float(times[-1] / self.half_life),
            total=float(pace.clock[n]),
            unit=float(pace.a[n - 1]),
            earlier=(float(pace.clock[n - 1]), float(pace.units[n - 1])),
        )

    @property
    def examples(self) -> float:
        """The effective number of examples so far."""
        return self.total / self.unit

    def at(self, t: int) -> tuple[float, float]:
        """Return T and the unit after t examples: all of them, or all but the last."""
        return (self.total, self.unit) if t == self.t else self.earlier


def new_memory(half_life: float, problem: Any) -> Memory:
    """Return the memory of a run that has learned nothing."""
    return Memory(float(half_life), LARGEST_SINGLE if problem.single else LARGEST)
