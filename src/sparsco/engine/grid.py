"""Strengths of the L1 term that are learned side by side: numbers, or a grid that the pilot rows fill in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

MAX_LANES = 32
"""The number of models that one run learns side by side; more models need more runs."""


@dataclass(frozen=True)
class Grid:
    """A grid of ``m`` strengths whose largest one is the smallest that selects nothing on the pilot rows.

    Each strength is the same share of the one before, down to ``ratio`` times the largest.  The grid has those from
    ``start`` up to ``stop``.
    """

    m: int = 32
    ratio: float = 1e-3
    start: int = 0
    stop: int | None = None

    def __len__(self) -> int:
        return len(range(self.m)[self.start : self.stop])

    def at(self, largest: float) -> np.ndarray:
        """Return the strengths for the largest one."""
        return (largest * self.ratio ** (np.arange(self.m) / max(self.m - 1, 1)))[self.start : self.stop]

    def __getitem__(self, part: slice) -> Grid:
        """Return a part of the grid, as of an array."""
        own = range(self.m)[self.start : self.stop][part]
        return replace(self, start=own.start, stop=own.stop)


def strength_of_lanes(lams: Any, targets: Any) -> np.ndarray | None:
    """Return the strength of each lane; None where there is one strength for all, or a grid still to be filled in.

    ``targets`` repeats its models for each strength.
    """
    return None if lams is None or isinstance(lams, Grid) else np.repeat(lams, targets.base.m)
