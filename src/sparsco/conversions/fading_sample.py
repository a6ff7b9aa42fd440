"""A bounded sample of a stream whose old rows fade, for ``half_life``.

After t rows, row i counts w_i = 2^-(age in half-lives).  A row is in the sample if its draw u, uniform in (0, 1), is
below w_i / tau, and then counts max(w_i, tau): sums over the sample are right in the mean (priority sampling).  tau is
1/2, or more where the rows do not fit.  So the rows of the last half-life are all there, and no row counts more than
twice as much as another: n rows tell as much as n rows that count alike, which the choice of a strength relies on.

As w_i / tau falls alike for all rows, the order of log2(u) - e_i, with e_i the time in half-lives, is fixed when a row
comes.  It is the row's priority.  So the sample depends on the rows seen and not on the chunks, as without fading.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..data.randomness import draw
from ..jit.dispatch import U, allocating_kernel, inlined, kernel
from .reservoir import Division, Reservoir, Sample, SampleRows

_OLDEST = 1.0
"""The half-lives within which rows are all kept, if they fit.

There are 2.4 half_life rows then, which count as much as 2.3 half_life that count alike.  All rows together would count
as 2.9 half_life.
"""
_PER_LOG_2 = 1.0 / math.log(2.0)


@inlined
def _log2_draw(key, number):
    """Return log2 of a uniform draw in (0, 1)."""
    return math.log((float(draw(key, number) >> U(11)) + 0.5) * 2.0**-53) * _PER_LOG_2


@allocating_kernel
def _choose(key_r, key_v, limit_r, limit_v, number, ages):
    """Return positions and priorities of the rows number, number + 1, ... of these ages that come before a limit."""
    n = ages.size
    kept, first, second = np.empty(n, np.int64), np.empty(n), np.empty(n)
    size = 0
    for i in range(n):
        at = U(number + i)
        a, b = _log2_draw(key_r, at) - ages[i], _log2_draw(key_v, at) - ages[i]
        kept[size], first[size], second[size] = i, a, b
        size += (a < limit_r) | (b < limit_v)
    return kept[:size], first[:size], second[:size]


@kernel
def _log2_draws(key, numbers, out):
    """Fill ``out`` with log2 of the draws of these rows."""
    for k in range(numbers.size):
        out[k] = _log2_draw(key, U(numbers[k]))


def _to_priority(x: np.ndarray) -> np.ndarray:
    """Return negative numbers as uint64, in the same order."""
    return ~x.view(np.uint64)


def _to_number(priority: np.ndarray) -> np.ndarray:
    """Return the number of a priority; infinity where there is no limit."""
    return np.where(priority == np.iinfo(np.uint64).max, np.inf, (~priority).view(np.float64))


class FadingReservoir(Reservoir):
    """The sample of a stream whose old rows fade; a row's time comes with it."""

    def __init__(self, half_life: float, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.half_life = half_life
        self.origin = 0.0
        """The time of the first row, in half-lives."""
        self.now = 0.0
        """The time of the last row, in half-lives since the first."""
        self._ages = np.empty(0)

    def offer(
        self,
        starts: np.ndarray,
        stops: np.ndarray,
        indices: np.ndarray,
        data: np.ndarray,
        lanes_of: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
        times: np.ndarray | None = None,
    ) -> None:
        """Add the next rows, which have these times."""
        assert times is not None
        if not len(starts):
            return
        ages = times / self.half_life
        if not self.rows_seen:
            self.origin = float(ages[0])
        self._ages = ages - self.origin
        self.now = float(self._ages[-1])
        super().offer(starts, stops, indices, data, lanes_of)
        self._ages = np.empty(0)

    def _choose(
        self, limits: tuple[np.uint64, np.uint64], number: int, n: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        bounds = _to_number(np.array(self._in_time(limits)))
        kept, first, second = _choose(*self._keys, *bounds, number, self._ages)
        return kept, _to_priority(first), _to_priority(second)

    def _in_time(self, limits: tuple[np.uint64, np.uint64]) -> tuple[np.uint64, np.uint64]:
        """Return the limits, no higher than those of the last row's time."""
        if self.now <= _OLDEST:
            return limits
        oldest = _to_priority(np.array([_OLDEST - self.now]))[0]
        return min(limits[0], oldest), min(limits[1], oldest)

    def _probable_limits(self, starts: np.ndarray, stops: np.ndarray) -> tuple[np.uint64, np.uint64]:
        return self._limits

    def _split(
        self,
        first: np.ndarray,
        second: np.ndarray,
        length: np.ndarray,
        limits: tuple[np.uint64, np.uint64],
        most: int | None = None,
    ) -> Division:
        return super()._split(first, second, length, self._in_time(limits), most)

    @property
    def room(self) -> int:
        """Return the size of the sample: there is always room, since old rows go."""
        return self.max_nonzeros

    def sample(self, enough: int | None = None) -> Sample:
        """Return R, V and kappa for the rows seen so far, each row with its part of the weight.

        The weights of R, and those of V, are multiplied by numbers of mean 1.  kappa is the share of R in the rows that
        would be in it if all of them fitted.
        """
        table, n = self._table, self._rows
        stored = table.first[:n], table.second[:n], table.length[:n], self._limits
        in_r, in_v, limits = self._split(*stored)
        kappa = self._share(in_r, limits[0])
        if enough is not None and enough < in_r.size and kappa < 0.125:
            in_r, in_v, limits = self._split(*stored, enough)
            kappa = self._share(in_r, limits[0])
        R, V = (self._weighted(positions, limit) for positions, limit in ((in_r, limits[0]), (in_v, limits[1])))
        return Sample(R, V, kappa)

    def _faded(self, positions: np.ndarray, limit: np.uint64) -> tuple[np.ndarray, float]:
        """Return w of stored rows, and tau of a limit on priorities."""
        numbers, draws = self._table.number[positions], np.empty(len(positions))
        _log2_draws(self._keys[0], numbers, draws)
        ages = draws - _to_number(self._table.first[positions])
        tau = float(np.exp2(-_to_number(np.array([limit]))[0] - self.now))
        return np.exp2(np.minimum(ages - self.now, 0.0)), tau

    def _weighted(self, positions: np.ndarray, limit: np.uint64) -> SampleRows:
        """Return stored rows with their parts of the weight."""
        rows, (w, tau) = self._known(self._gather(positions)), self._faded(positions, limit)
        part = np.maximum(w, tau)
        return rows._replace(weights=rows.weights * (part / max(part.mean(), 1e-300))[:, None]) if part.size else rows

    def _share(self, positions: np.ndarray, limit: np.uint64) -> float:
        """Return the share of these rows, below a limit, in those that are not older than the sample goes back."""
        w, tau = self._faded(positions, limit)
        least = 2.0**-_OLDEST
        if tau <= least or not w.size:
            return 1.0
        return float(w.size / (np.minimum(1.0, w / least) / np.minimum(1.0, w / tau)).sum())


def new_reservoir(half_life: float | None, *args: Any, **options: Any) -> Reservoir:
    """Return an empty reservoir for rows that fade with this half-life, or do not."""
    return Reservoir(*args, **options) if half_life is None else FadingReservoir(half_life, *args, **options)
