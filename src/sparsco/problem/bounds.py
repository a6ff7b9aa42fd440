"""The bounds of the numbers in a training state that kernels use as places, times or sizes.

A kernel compares nothing with the size of an array.  So each layout and block declares which of its numbers decide
where a kernel reads and writes, or how long it runs, and what they are at most.  A state of a file is compared with
that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

_FINITE = float(np.finfo(np.float64).max)


class Bounded(NamedTuple):
    """Numbers of a training state, which must lie from 0 to ``most``, both included; NaN never does."""

    what: str
    numbers: Any
    most: Any = _FINITE
    is_whole: bool = False
    """Whether they must be whole numbers, though their type is a float."""
    size: int | None = None
    """How many there must be; None: any number."""

    def holds(self) -> bool:
        """Return whether the numbers keep to their bounds."""
        numbers = np.asarray(self.numbers)
        fits = self.size is None or numbers.shape == (self.size,)
        fits = fits and bool(((numbers >= 0) & (numbers <= self.most)).all())
        return fits and not (self.is_whole and (numbers % 1.0).any())


def equal(what: str, numbers: Any, others: Any) -> Bounded:
    """Return the demand that arrays are equal."""
    numbers, others = np.asarray(numbers), np.asarray(others)
    return Bounded(what, np.array([numbers.shape != others.shape or (numbers != others).any()]), 0)


def bounds_of_block(block: Any, t: int) -> Iterator[Bounded]:
    """Yield the bounds of what every block has, after t examples; a bound relies on those before it."""
    yield Bounded("its beginning", block.start, t)
    if len(block.table) > 1:  # where no step has a row, the table is not used
        yield Bounded("the steps since its beginning", t - block.start, len(block.table) - 1)
    yield Bounded("the sizes of the table", np.abs(block.table))
    yield Bounded("the place of the grid", block.gridded, len(block.table) - 1)
    yield Bounded("the size of the grid", len(block.grid) - 2)
    yield Bounded("the scale of the grid", block.grid[0])
    yield Bounded("the grid", block.grid[1:], block.gridded)
    yield Bounded("the steps of the grid", np.diff(block.grid[1:]))
