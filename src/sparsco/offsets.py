"""Offsets: a number for each row that is added to its margin, such as the logarithm of an exposure.

A row's target and its offset travel together, as one record in an array of targets.  ``WithOffset(loss)`` is the loss
of such records.  So every solver and kernel takes offsets, and code without offsets is what it is without them.  A loss
of the difference p - y alone needs no records: its targets are y minus the offset.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from .jit.dispatch import OPTIONS
from .jit.lanes import load_row
from .jit.pipelines import class_of
from .parts.contracts import Loss, curvature, derivative, part, value

_FIELDS = ("y", "offset")


class Pair(NamedTuple):
    """Targets and offsets as kernels take them: two arrays, of which a row is a pair of values."""

    y: np.ndarray
    offset: np.ndarray


def with_offset(y: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """Return records of targets, (n,) or (n, outputs), with the offset of each row."""
    return records_of(y, offset if y.ndim == 1 else offset[:, None])


def records_of(y: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """Return records of targets and offsets, each with its own."""
    records = np.empty(y.shape, record_type(y.dtype))
    records["y"], records["offset"] = y, offset
    return records


def first_offset(y: np.ndarray) -> np.ndarray:
    """Return the offset of each row, which all of its records share."""
    return y["offset"] if y.ndim == 1 else y["offset"][:, 0]


def record_type(kind: Any) -> np.dtype:
    """Return the type of a record with targets of this kind; offsets of labels are float64."""
    own = np.dtype(kind)
    return np.dtype(list(zip(_FIELDS, (own, own if own.kind == "f" else np.float64), strict=True)))


def has_offset(y: np.ndarray) -> bool:
    """Return whether targets are records with an offset."""
    return y.dtype.names == _FIELDS


def numbers_of(y: np.ndarray) -> np.ndarray:
    """Return the targets alone."""
    return y["y"] if has_offset(y) else y


def margins_at(y: np.ndarray) -> np.ndarray:
    """Return the margins that are equal to their targets, with their offsets."""
    return y["y"] - y["offset"] if has_offset(y) else y


def spread_of(y: np.ndarray) -> np.ndarray:
    """Return the range of the targets of each model, with that of the offsets."""
    return np.ptp(y["y"], axis=0) + np.ptp(y["offset"], axis=0) if has_offset(y) else np.ptp(y, axis=0)


def for_kernels(y: np.ndarray) -> Any:
    """Return targets in the memory format of kernels: an array, or a pair of arrays."""
    if not has_offset(y):
        return y.view(np.float64)
    return Pair(*(np.ascontiguousarray(y[name]).view(np.float64) for name in _FIELDS))


def of_kernels(targets: Any) -> np.ndarray:
    """Return targets in the memory format of kernels as one array, for code that works on whole arrays."""
    return records_of(*targets) if isinstance(targets, Pair) else targets


def rows_from(targets: Any, first: int) -> Any:
    """Return the targets of a kernel of one model without those of its first rows."""
    return Pair(*(each[first:] for each in targets)) if isinstance(targets, Pair) else targets[first:]


def _split(y: Any) -> Any:
    """Return target and offset of records in an array, or of the pair in a kernel."""
    return (y[0], y[1]) if isinstance(y, tuple) else (y["y"], y["offset"])


@overload(_split, strict=False, jit_options=OPTIONS.inner)
def _compiled_split(y: Any) -> Any:
    return lambda y: (y[0], y[1])


@overload(load_row, strict=False, jit_options=OPTIONS.inner)
def _load_pair(lanes: Any, array: Any, k: Any) -> Any:
    if class_of(array) is Pair:
        return lambda lanes, array, k: (load_row(lanes, array[0], k), load_row(lanes, array[1], k))
    return None


@part(Loss, base="the loss of a target at the margin plus the offset")
class WithOffset(NamedTuple):
    """The loss of records: that of the target, at the margin plus the offset."""

    base: Any

    @property
    def classifies(self) -> bool:
        return self.base.classifies

    @property
    def smoothness(self) -> float:
        return self.base.smoothness

    @property
    def curved(self) -> bool:
        return self.base.curved

    @property
    def smoothness_is_bound(self) -> bool:
        return self.base.smoothness_is_bound

    @property
    def bends_everywhere(self) -> bool:
        return self.base.bends_everywhere

    def value(loss, p, y):  # noqa: N805
        target, offset = _split(y)
        return value(loss.base, p + offset, target)

    def derivative(loss, p, y):  # noqa: N805
        target, offset = _split(y)
        return derivative(loss.base, p + offset, target)

    def curvature(loss, p, y):  # noqa: N805
        target, offset = _split(y)
        return curvature(loss.base, p + offset, target)

    @property
    def degree(self) -> float | None:
        return None if self.base.shifts else self.base.degree

    def in_units_of(self, unit: float) -> WithOffset:
        """Return the record for targets that were divided by a unit."""
        return WithOffset(self.base.in_units_of(unit))

    def check(self) -> None:
        self.base.check()

    def refuse(self, y: np.ndarray) -> None:
        self.base.refuse(numbers_of(y))

    def resolve(self, targets: np.ndarray, weights: np.ndarray) -> WithOffset:
        """Return the record with its base resolved."""
        return WithOffset(self.base.resolve(numbers_of(targets), weights))

    def moments(
        self, targets: np.ndarray, weights: np.ndarray, offset: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and the spread of targets, each at its offset."""
        return self.base.moments(targets["y"], weights, targets["offset"])

    def units(self, mean: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the units of the base."""
        return self.base.units(mean, std)

    @property
    def conjugate(self) -> Any:
        return None if self.base.conjugate is None else self._conjugate

    def _conjugate(self, c: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.base.conjugate(c, y["y"]) - c * y["offset"]

    @property
    def kinks(self) -> Any:
        return None if self.base.kinks is None else self._kinks

    def _kinks(self, y: np.ndarray) -> np.ndarray:
        return self.base.kinks(y["y"]) - y["offset"]


def target_type(loss: Any) -> np.dtype:
    """Return the type of the targets of a loss."""
    return record_type(np.float64) if isinstance(loss, WithOffset) else np.dtype(np.float64)


def base_of(loss: Any) -> Any:
    """Return the loss of targets without offsets."""
    return loss.base if isinstance(loss, WithOffset) else loss
