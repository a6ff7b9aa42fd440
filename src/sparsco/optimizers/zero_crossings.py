"""Weights that shrink to zero while idle: the step at which they do, and the sum of their iterates until then.

The block's table has a row for each step, B, SP, SPB, P as in ``fobos``.  A weight dies (becomes zero) at the step
whose B reaches x.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit.dispatch import inlined
from ..jit.lanes import any_lane, floor, gather, gather_fields, maximum, minimum, where
from ..problem.state import Block

COL_B, COL_SP, COL_SPB, COL_P = range(4)
"""The columns of the table."""
COLUMNS = 4
_CELLS = 4096
_ROW = float(COLUMNS)


class Pair(NamedTuple):
    """The fields of a fetch: a number and the next one."""

    fields = (0, 1)


class Around(NamedTuple):
    """The fields of a fetch from the table: B of a row and of the next, SP and SPB of the next."""

    fields = (COL_B, COLUMNS + COL_B, COLUMNS + COL_SP, COLUMNS + COL_SPB)


_PAIR, _AROUND = Pair(), Around()


def update_grid(block: Block, r: int) -> None:
    """Update the grid: cells per unit of B, then for each cell's edge the interpolated step at which B reaches it.

    The grid is rebuilt as the block grows, because most weights that die do so soon after a touch.  For rows that come
    one by one it is rebuilt only now and then.  If its only B was zero, as before the first pull of truncated gradient,
    it is rebuilt at once.
    """
    B = block.table[: r + 1, COL_B]
    late = min(block.gridded // 16 + 16, 1024)
    if r > block.gridded + late or block.gridded == 0 or (block.grid[0] == 0.0 < B[-1]):
        scale = _CELLS / B[-1] if B[-1] > 0.0 else 0.0
        levels = np.arange(_CELLS + 1) / scale if scale > 0.0 else np.zeros(_CELLS + 1)
        block.grid = np.append(scale, np.interp(levels, B, np.arange(r + 1.0)))
        block.gridded = r


@inlined
def until_death(table, grid, r, x):
    """Return the sum of omega P (x - B) over the steps before r with B < x, lane by lane; ``r`` is a float.

    This is the sum of the iterates of a weight that dies at x, divided by its shrinkage.  The last such step is z with
    B_z < x <= B_{z+1}.  The grid's interpolation gives z, beyond its end by its last cell.  Where steps are irregular,
    bisection finds z near there.
    """
    last, place = grid.size - 3.0, x * grid[0]
    k = minimum(floor(place), last)
    low, high = gather_fields(grid, k + 1.0, _PAIR)
    z = minimum(floor(low + (high - low) * (place - k)), r - 1.0)
    B, B1, SP, SPB = gather_fields(table, z * _ROW, _AROUND)
    if any_lane((B >= x) | (B1 < x)):  # bisect
        z = minimum(maximum(floor(low) - 1.0, 0.0), r - 1.0)
        far = where(place < last, minimum(floor(high) + 2.0, r), r)
        while any_lane(far - z > 1.0):
            mid = floor(0.5 * (z + far))
            reached = gather(table, mid * _ROW) >= x
            z, far = where(reached, z, mid), where(reached, mid, far)
        B, B1, SP, SPB = gather_fields(table, z * _ROW, _AROUND)
    return maximum(x * SP - SPB, 0.0)
