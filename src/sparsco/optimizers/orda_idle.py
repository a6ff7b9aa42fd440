"""An idle coordinate of ORDA in closed form: its height, the step at which z dies, and the sum of its values.

The table by time has a row for each step since the last settling.  See ``orda`` for the mathematics and for "dies".
"""

from __future__ import annotations

import math

from ..jit.dispatch import U, inlined
from ..jit.lanes import copysign, signed, where

PI, E, F, L, W, THETA, RATE, SCALE, DAMP = range(9)
"""The columns of the table by time: RATE is 1/C, SCALE 1/D, DAMP C/(C + rho); then prefix sums for the sums of y:"""
P, PE, PF, PL, Z, ZW = range(9, 15)


@inlined
def lifted(up, down, u, shrink):
    """Return the sum that z has added to x / Pi up to the row with these E and F."""
    return u * up - copysign(shrink * down, u)


@inlined
def lift_of(table, r, u, shrink):
    """Return the sum that z has added to x / Pi up to row r."""
    return lifted(table[r, E], table[r, F], u, shrink)


@inlined
def mode_of(weight_sum, lead, rate, u, x, shrink):
    """Return the mode of a coordinate at a row with this W, theta times scale, and rate."""
    z = u - copysign(shrink * weight_sum, u)
    lives = z * u > 0.0
    leaves = lives & (abs(z) * lead > shrink * rate)
    return signed(where(lives, 2.0, 1.0), where(x != 0.0, x, where(leaves, u, 0.0 * u)))


@inlined
def level_of(over_pi, sunk, up, down, u, x, mode, shrink):
    """Return A of a coordinate at a row with these 1 / Pi, L, E and F."""
    return x * over_pi + copysign(shrink * sunk, mode) - where(abs(mode) > 1.0, lifted(up, down, u, shrink), 0.0 * u)


@inlined
def death_of(table, r, start, u, shrink):
    """Return the first row up to r at which z is 0, else r.

    It solves shrink k (k + 1)/4 = |u| for k, and corrects the rounding by the same comparison that the kernel makes.
    """
    one, size = U(1), abs(u)
    if size > shrink * table[r, W]:
        return r
    if size == 0.0:
        return U(0)
    k = math.ceil(0.5 * (math.sqrt(1.0 + 16.0 * size / shrink) - 1.0)) - start
    f = U(min(max(k, 0.0), float(r)))
    if f > 0:
        if size <= shrink * table[f - one, W]:
            f = f - one
    if size > shrink * table[f, W]:
        f = f + one
    return f


@inlined
def height_of(table, r, dead, u, A, mode, shrink):
    """Return x / Pi at row r while the mode lasts, where z died at row ``dead``."""
    h = A - signed(shrink * table[r, L], mode)
    if abs(mode) > 1.0:
        h = h + lift_of(table, min(r, dead), u, shrink)
    return h


@inlined
def end_of(table, s, r, dead, u, A, mode, shrink):
    """Return the first row after s, at the latest r, at which the height has reached zero."""
    lo, hi, one = s, r, U(1)
    while hi > lo + one:
        mid = (lo + hi) >> one
        if height_of(table, mid, dead, u, A, mode, shrink) * mode > 0.0:
            lo = mid
        else:
            hi = mid
    return hi


@inlined
def stretch_of(table, s, r, dead, u, A, mode, shrink):
    """Return the sum of omega (1 - theta) x over the rows from s to r, r excluded, in one mode."""
    total = A * (table[r, P] - table[s, P]) - signed(shrink * (table[r, PL] - table[s, PL]), mode)
    if abs(mode) > 1.0:
        f = max(min(r, dead), s)
        total += u * (table[f, PE] - table[s, PE]) - signed(shrink * (table[f, PF] - table[s, PF]), u)
        total += lift_of(table, f, u, shrink) * (table[r, P] - table[f, P])
    return total


@inlined
def walk(table, s, r, start, u, A, mode, shrink, sums):
    """Return x at row r of a coordinate last touched at row s, and the sum of omega y over the rows from s to r.

    The sum excludes row r; it is only computed where ``sums`` > 0.
    """
    one, x, total = U(1), 0.0, 0.0
    dead = death_of(table, r, start, u, shrink)
    if (sums > 0) & (dead > s):
        total += u * (table[dead, Z] - table[s, Z]) - signed(shrink * (table[dead, ZW] - table[s, ZW]), u)
    h = height_of(table, r, dead, u, A, mode, shrink)
    if (h * mode <= 0.0) & (mode * u < 0.0) & (abs(mode) > 1.0) & (r > s):  # x against z's sign has crossed zero
        f = end_of(table, s, r, dead, u, A, mode, shrink)
        if sums > 0:
            total += stretch_of(table, s, f, dead, u, A, mode, shrink)
        e = f - one  # the step from e to f, computed directly
        theta, tau = table[e, THETA], shrink * table[e, RATE]
        z = (u - signed(shrink * table[e, W], u)) * table[e, SCALE] if e < dead else 0.0
        y = (1.0 - theta) * (table[e, PI] * height_of(table, e, dead, u, A, mode, shrink)) + theta * z
        x = (y - min(max(y, -tau), tau)) * table[e, DAMP]
        s, mode = f, mode_of(table[f, W], table[f, SCALE] * table[f, THETA], table[f, RATE], u, x, shrink)
        A = level_of(1.0 / table[f, PI], table[f, L], table[f, E], table[f, F], u, x, mode, shrink)
        h = height_of(table, r, dead, u, A, mode, shrink)
    x = table[r, PI] * h if h * mode > 0.0 else 0.0
    if (sums > 0) & (mode != 0.0):
        f = r
        if x == 0.0:
            f = end_of(table, s, r, dead, u, A, mode, shrink)
        total += stretch_of(table, s, f, dead, u, A, mode, shrink)
    return x, total


# ---- kernels ---------------------------------------------------------------------------------------------------------
