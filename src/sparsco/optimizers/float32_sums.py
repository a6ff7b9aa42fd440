"""Sums in float32 lanes that never stop growing.

Rounded to the nearest number, a sum stalls as soon as what is added is less than half of its last digit: after about
2^24 equal numbers.  Rounded up or down by a draw, with the right probabilities, it is right in the mean.  The draw
depends on the clock alone, so the same rows give the same bits however they are cut.
"""

from __future__ import annotations

import math

from ..jit.dispatch import inlined
from ..jit.lanes import n_float64, width

FEW = 2.0**20
"""The number of rows up to which sums are rounded to the nearest number: they lose next to nothing."""
_GOLDEN = 0.6180339887498949
_LAST_DIGIT = 0.7 * 2.0**-23
"""The last digit of a float32 number is its product with this, rounded to the grid of the number."""


@inlined
def draw_at(lanes, t):
    """Return the draw for the example at clock t, in [-1/2, 1/2), evenly spread over time; 0 if none is needed."""
    if (n_float64(lanes) == width(lanes)) | (t < FEW):
        return 0.0
    return t * _GOLDEN - math.floor(t * _GOLDEN) - 0.5


@inlined
def plus(total, more, draw):
    """Return a running sum plus ``more``, rounded by the draw; a draw of 0 rounds to the nearest number."""
    new = total + more
    if draw != 0.0:
        digit = (total + total * _LAST_DIGIT) - total
        new = total + (more + draw * digit)
    return new
