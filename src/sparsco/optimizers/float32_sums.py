"""Sums in float32 lanes that never stop growing.

Rounded to the nearest number, a sum stalls as soon as what is added is less than half of its last digit: after about
2^24 equal numbers.  With a random part of a digit added before the rounding, it is right in the mean.  The draw depends
on the clock alone, so the same rows give the same bits however they are cut.
"""

from __future__ import annotations

import math

from ..jit.dispatch import inlined
from ..jit.lanes import n_float64, width

_GOLDEN, _ROOT_2, _ROOT_3 = 0.6180339887498949, 0.4142135623730951, 0.7320508075688772
"""Steps around the unit circle, none of which is a multiple of others: their places are even and independent."""


@inlined
def draw_at(lanes, t):
    """Return the draw for the example at clock t: how much to add to a float32 number, as a share of it.

    It is the sum of three draws between plus and minus half of 2^-23, which is one to two last digits of a number.
    The mean of what is rounded is then right to 3% of a digit.  A single draw would have to be exactly one digit wide.
    """
    if n_float64(lanes) == width(lanes):
        return 0.0
    a, b, c = t * _GOLDEN, t * _ROOT_2, t * _ROOT_3
    return 2.0**-23 * ((a - math.floor(a)) + (b - math.floor(b)) + (c - math.floor(c)) - 1.5)


@inlined
def plus(lanes, total, more, draw):
    """Return a running sum plus ``more``, in float32 rounded by the draw."""
    if n_float64(lanes) == width(lanes):
        return total + more
    return total + (more + draw * total)
