"""Lanes in plain Python: m models side by side in one kernel, written as if there were one.

A value in a kernel is a float64 for one model, and a vector of m of them for several, or of m float32 where the lanes
are *single*.  The functions here are all that kernels, losses and penalties use on such values besides
``+ - * / abs``, comparisons, and ``& |`` between those.  In plain Python several lanes are a NumPy array.  Compiled
they are one LLVM vector, which the compiler splits into machine registers.

Memory is float64 throughout: two single lanes share one number, so that counts and clocks beside them keep their
digits.  A plain number that is combined with single lanes is rounded first.  Results that leave the lanes (``lane``,
``sum_lanes``) are float64 again.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np


def _record(name: str, m: int, bits: int = 64) -> Any:
    record = namedtuple(name, (), module=__name__)
    record.__doc__ = f"{m} model{'s' if m > 1 else ''} side by side{' in float32' if bits == 32 else ''}."
    record.m, record.bits = m, bits
    return record


One = _record("One", 1)
Two = _record("Two", 2)
Four = _record("Four", 4)
Eight = _record("Eight", 8)
Sixteen = _record("Sixteen", 16)
ThirtyTwo = _record("ThirtyTwo", 32)
SixtyFour = _record("SixtyFour", 64)
HundredTwentyEight = _record("HundredTwentyEight", 128)
TWO, FOUR, EIGHT = Two(), Four(), Eight()

SingleTwo = _record("SingleTwo", 2, 32)
SingleFour = _record("SingleFour", 4, 32)
SingleEight = _record("SingleEight", 8, 32)
SingleSixteen = _record("SingleSixteen", 16, 32)
SingleThirtyTwo = _record("SingleThirtyTwo", 32, 32)
SingleSixtyFour = _record("SingleSixtyFour", 64, 32)
SingleHundredTwentyEight = _record("SingleHundredTwentyEight", 128, 32)

WIDTHS = (One, Two, Four, Eight, Sixteen, ThirtyTwo, SixtyFour, HundredTwentyEight)
SINGLE = (
    SingleTwo,
    SingleFour,
    SingleEight,
    SingleSixteen,
    SingleThirtyTwo,
    SingleSixtyFour,
    SingleHundredTwentyEight,
)


@functools.cache
def lanes_for(m: int, single: bool = False) -> Any:
    """Return the smallest record with at least ``m`` lanes; the caller splits more models than the widest has."""
    for record in SINGLE if single else WIDTHS:
        if m <= record.m:
            return record()
    raise ValueError(f"{m} models do not fit into {WIDTHS[-1].m} lanes: cut them into blocks.")


def width(lanes: Any) -> int:
    """Return the number of lanes, a constant of the compiled kernel."""
    return type(lanes).m


def n_float64(lanes: Any) -> int:
    """Return the number of float64 that a value takes in memory, a constant of the kernel: m, or m / 2 if single."""
    return type(lanes).m * type(lanes).bits // 64


_WHOLE = int, np.integer


class Singles(np.ndarray):
    """Single lanes in plain Python: operands are rounded to float32 first, as in compiled code."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if "out" in options:
            options["out"] = tuple(np.asarray(each) for each in options["out"])
        found = getattr(ufunc, method)(*(np.asarray(each, np.float32) for each in inputs), **options)
        return found.view(Singles) if found.dtype == np.float32 else found


def _like(value: Any, *others: Any) -> Any:
    """Return the value as single lanes if one of the others has them, else as float64."""
    for each in others:
        if isinstance(each, Singles):
            return np.asarray(value, np.float32).view(Singles)
    return value if type(value) is np.float64 else np.asarray(value, np.float64)[()]


def packed(lanes: Any, values: np.ndarray) -> np.ndarray:
    """Return numbers, by lane in the last axis, in the memory format of a kernel."""
    return values.astype(np.float32).view(np.float64) if type(lanes).bits == 32 else values


def unpacked(lanes: Any, memory: np.ndarray) -> np.ndarray:
    """Return a view of a kernel's memory, by lane in the last axis."""
    return memory.view(np.float32) if type(lanes).bits == 32 else memory


def load(lanes: Any, array: np.ndarray, at: Any) -> Any:
    """Return a copy of the m values that start at ``array[at]``."""
    if type(lanes).m == 1:
        return np.float64(array[at])
    memory = array[at : at + n_float64(lanes)]
    return memory.copy().view(np.float32).view(Singles) if type(lanes).bits == 32 else memory.astype(np.float64)


def load_row(lanes: Any, array: np.ndarray, k: Any) -> Any:
    """Return the value of row k: value k of a flat array; for an array with one column, its number k in all lanes.

    Of a record of arrays it is the tuple of their values.
    """
    if isinstance(array, tuple):
        return tuple(load_row(lanes, each, k) for each in array)
    if array.ndim == 1:
        return load(lanes, array, k * n_float64(lanes))
    values = np.full(type(lanes).m, array[k, 0])
    return values.astype(np.float32).view(Singles) if type(lanes).bits == 32 else values


def store(lanes: Any, array: np.ndarray, at: Any, value: Any) -> None:
    """Write the m values to ``array[at:]``."""
    if type(lanes).bits == 64:
        array[at : at + type(lanes).m] = value
    else:
        unpacked(lanes, array[at : at + n_float64(lanes)])[:] = value


def store_float64(lanes: Any, array: np.ndarray, at: Any, value: Any) -> None:
    """Write the m values to ``array[at:]`` as float64, one number each, for code outside kernels."""
    array[at : at + type(lanes).m] = value


def prefetch(array: np.ndarray, at: Any) -> None:
    """Prefetch the cache line of ``array[at]``, which will be read soon, without any other effect."""


def prefetch_wide(array: np.ndarray, at: Any) -> None:
    """Prefetch one line of a cell that has several, into the second-level cache only.

    Few requests of the first-level cache can be pending at a time.
    """


def lane(value: Any, k: Any) -> Any:
    """Return lane ``k`` of a value or of a comparison."""
    one = value[k] if isinstance(value, np.ndarray) else value
    return np.float64(one) if isinstance(value, Singles) else one


def where(condition: Any, a: Any, b: Any) -> Any:
    """Return ``a`` where the condition holds, ``b`` elsewhere, lane by lane."""
    return _like(np.where(condition, a, b) if isinstance(condition, np.ndarray) else a if condition else b, a, b)


def minimum(a: Any, b: Any) -> Any:
    """Return the smaller one, lane by lane; ``b`` where they do not compare.  Whole numbers give a whole number."""
    return (a if a < b else b) if _are_alike(a, b) else where(a < b, a, b)


def maximum(a: Any, b: Any) -> Any:
    """Return the larger one, lane by lane; ``b`` where they do not compare.  Whole numbers give a whole number."""
    return (a if a > b else b) if _are_alike(a, b) else where(a > b, a, b)


def _are_alike(a: Any, b: Any) -> bool:
    """Return whether both are whole numbers, or both one float64."""
    return type(a) is type(b) is np.float64 or (isinstance(a, _WHOLE) and isinstance(b, _WHOLE))


def exp(a: Any) -> Any:
    """Return the exponential, lane by lane; infinity where it overflows, without a warning."""
    with np.errstate(over="ignore"):
        return np.exp(_like(a, a))


def sqrt(a: Any) -> Any:
    """Return the square root, lane by lane; NaN below zero, without a warning."""
    with np.errstate(invalid="ignore"):
        return np.sqrt(_like(a, a))


def signed(magnitude: Any, sign: Any) -> Any:
    """Return ``magnitude`` with the sign of ``sign``, and 0 where ``sign`` is 0."""
    return where(sign != 0.0, np.copysign(magnitude, _like(sign, magnitude, sign)), 0.0)


def copysign(magnitude: Any, sign: Any) -> Any:
    """Return ``magnitude`` with the sign bit of ``sign``, also of a zero; cheaper than ``signed``."""
    return np.copysign(magnitude, _like(sign, magnitude, sign))


TINY = {64: 1e-300, 32: 1e-30}


def tiny(value: Any) -> Any:
    """Return a tiny number of the value's kind, a divisor in place of zero that keeps the quotient finite."""
    return TINY[32 if isinstance(value, Singles) else 64]


def floor(a: Any) -> Any:
    """Return the largest whole number that is not above the value, lane by lane."""
    return np.floor(_like(a, a))


def gather(array: np.ndarray, at: Any) -> Any:
    """Return the numbers of ``array``, flattened, at whole-number positions, lane by lane."""
    return _like(array.reshape(-1)[np.asarray(at, np.int64)], at)


def gather_fields(array: np.ndarray, at: Any, which: Any) -> tuple[Any, ...]:
    """Return for each lane some of the numbers from ``array[at]`` on: one value per field of the record ``which``.

    In compiled code a lane reads all fields at once, as a stretch of 2, 4, 8, ... numbers that must lie in the array.
    """
    return tuple(gather(array, at + float(field)) for field in type(which).fields)


def any_lane(mask: Any) -> Any:
    """Return whether the condition holds in any lane."""
    return mask.any() if isinstance(mask, np.ndarray) else mask


def count_lanes(mask: Any) -> Any:
    """Return the number of lanes in which the condition holds."""
    return np.uint64(np.count_nonzero(mask))


def lane_indices(lanes: Any) -> Any:
    """Return 0, 1, 2, ..., lane by lane."""
    return np.arange(type(lanes).m, dtype=np.float64) if type(lanes).m > 1 else 0.0


def sum_lanes(value: Any) -> Any:
    """Return the sum over all lanes; for an array over its last axis, which stays."""
    return _halved(value, lambda a, b: a + b)


def max_lane(value: Any) -> Any:
    """Return the largest of all lanes; for an array over its last axis, which stays."""
    return _halved(value, maximum)


def _halved(value: Any, pair: Callable[..., Any]) -> Any:
    """Return all lanes reduced to one: the lower half with the upper half, repeatedly; an odd middle lane waits."""
    while isinstance(value, np.ndarray) and (m := value.shape[-1]) > 1:
        half = (m + 1) // 2
        paired = pair(value[..., : m - half], value[..., half:])
        value = np.concatenate([paired, value[..., m - half : half]], axis=-1)
    return value
