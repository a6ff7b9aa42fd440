"""Counter-based random numbers: every draw is a function of (seed, purpose, row number) and of nothing else.

So a draw does not depend on the chunks of a stream, on earlier draws, or on the process.
"""

from __future__ import annotations

import functools
import numbers
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..jit.dispatch import inlined

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


class Purpose(IntEnum):
    """The purpose of a draw; draws for different purposes are independent."""

    RESERVOIR = 1
    GUARD = 2
    SHUFFLE = 3
    VALIDATION = 4
    ITERATE = 5
    WINDOW = 6
    HALF = 7
    PATH = 8
    FOLD = 9
    SAMPLE = 10
    PROJECTION = 11
    PROBE = 12
    SPLIT = 13
    CALIBRATION = 14


@inlined
def _mix(z: Any) -> Any:
    """Return the finaliser of splitmix64, a bijection of the 64-bit numbers."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def key(seed: int, *purposes: int) -> np.ndarray:
    """Return the keys of a seed for ``draw``, one for each purpose.

    They are uint64 in an array, whose arithmetic wraps silently.
    """
    seeded = _mix(np.array([(seed + 1) * _GOLDEN & _MASK], np.uint64))
    return _mix(seeded + np.array([(int(purpose) + 1) * _GOLDEN & _MASK for purpose in purposes], np.uint64))


@inlined
def draw(key: Any, numbers: Any) -> Any:
    """Return 64 random bits for each number, uint64 in and out.

    Different numbers give different bits: there are no ties.
    """
    return _mix(numbers * np.uint64(_GOLDEN) + key)


@inlined
def number_of(bits: Any) -> Any:
    """Return 64 random bits as a float64 in [0, 1)."""
    return (bits >> np.uint64(11)) * 2.0**-53


def bits(seed: int, purpose: int, numbers: ArrayLike) -> np.ndarray:
    """Return 64 random bits for each row number, as uint64."""
    return draw(key(seed, purpose), np.asarray(numbers, dtype=np.int64).astype(np.uint64))


def uniform(seed: int, purpose: int, numbers: ArrayLike) -> np.ndarray:
    """Return a float64 in [0, 1) for each number."""
    return number_of(bits(seed, purpose, numbers))


def seed_of(random_state: Any) -> int:
    """Return a seed by the convention of scikit-learn.

    It is made from a number, from a ``RandomState``, or for None from the global one of NumPy.
    """
    if isinstance(random_state, numbers.Integral):
        return _seed_of_number(int(random_state))
    if random_state is None:
        random_state = np.random
    elif not isinstance(random_state, np.random.RandomState) and random_state is not np.random:
        raise ValueError(f"random_state={random_state!r}: give a whole number, a numpy.random.RandomState or None.")
    return int(random_state.randint(np.iinfo(np.int32).max))


@functools.lru_cache
def _seed_of_number(number: int) -> int:
    return int(np.random.RandomState(number).randint(np.iinfo(np.int32).max))
