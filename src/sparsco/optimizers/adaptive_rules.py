"""The rules that turn the kernels of ``adaptive_kernels`` into FTRL, NFTRL or AdaGrad: r and z, idle curves, ages."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..jit.dispatch import U, constant, dispatched, inlined
from ..jit.lanes import maximum, minimum
from ..penalties import prox
from ..problem.fading import first_at

SQUARES, COUNT, FIRST_SEEN = U(0), U(1), U(2)
"""The shared numbers of a cell: q and n, and with a clock per feature the clock after its first appearance.

Where rho > 0 the clock at the last touch follows; then come z, eta and G, by lane, and the sums.
"""
Z, ETA, GG, SUMS = U(0), U(1), U(2), U(3)
"""The fields of a cell by lane, in units of a value."""
OMEGA, THETA, CLOCK = range(3)
"""The columns of the table; the last one where old examples fade."""


@dispatched
def rate(rule: Any, G: Any, square: Any, inverse: Any, k: Any, gain: Any, floor: Any) -> Any:  # noqa: N803
    """Return r of a coordinate with sum of squared gradients G.

    ``square`` is the mean square of the coordinate's nonzeros, and ``inverse`` its inverse; k is the mean number of
    normalised nonzeros in a row.
    """
    raise NotImplementedError


@constant
def normalises(rule: Any) -> int:
    """Return whether the rule needs the mean square and k."""
    raise NotImplementedError


@dispatched
def kept(rule: Any, z: Any, pull: Any) -> Any:
    """Return the part of z that a touch keeps; ``pull`` is the part of z that makes the weight, -r w."""
    raise NotImplementedError


@dispatched
def moved(rule: Any, rest: Any, g: Any, anchor: Any, level: Any) -> Any:
    """Return z after a gradient g; ``rest`` was kept, ``anchor`` is the new r times w, ``level`` the old threshold."""
    raise NotImplementedError


@constant
def ridged(idle: Any) -> int:
    """Return whether rho > 0."""
    raise NotImplementedError


@constant
def drifts(idle: Any) -> int:
    """Return whether z changes while idle, in place of the threshold."""
    raise NotImplementedError


@dispatched
def clock_of(idle: Any, t: Any) -> Any:
    """Return the threshold at clock t divided by lam pen: t, and 0 where z drifts."""
    raise NotImplementedError


@dispatched
def drifted(idle: Any, z: Any, eta: Any, shrink: Any, k: Any) -> Any:
    """Return z after k idle steps; only called where z drifts."""
    raise NotImplementedError


@dispatched
def landed(idle: Any, penalty: Any, z: Any, eta: Any, shrink: Any) -> Any:
    """Return z after the step's own prox, where z drifts; elsewhere the threshold includes that prox."""
    raise NotImplementedError


@dispatched
def damping(idle: Any, t: Any, eta: Any) -> Any:
    """Return the shrinking factor r / (r + rho t)."""
    raise NotImplementedError


@dispatched
def stretch(idle: Any, z: Any, eta: Any, shrink: Any, a: Any, b: Any) -> Any:
    """Return the sum over a <= s < b of max(|z| - shrink s, 0) / (r + rho s), 1 <= a; only called where rho > 0."""
    raise NotImplementedError


@constant
def per_feature_clock(ages: Any) -> int:
    """Return whether coordinates have ages of their own."""
    raise NotImplementedError


@dispatched
def age(ages: Any, t: Any, cell: Any, at: Any) -> Any:
    """Return how many of t examples count for the coordinate whose cell starts at ``at``."""
    raise NotImplementedError


class FromStart(NamedTuple):
    """One clock for all coordinates: all examples count."""

    def per_feature_clock(ages) -> int:  # noqa: N805
        return 0

    def age(ages, t, cell, at):  # noqa: N805
        return t


class FromFirstSeen(NamedTuple):
    """A clock per coordinate: only the examples from its first appearance on count for it."""

    def per_feature_clock(ages) -> int:  # noqa: N805
        return 1

    def age(ages, t, cell, at):  # noqa: N805
        return t + 1.0 - cell[at + FIRST_SEEN]


class Flat(NamedTuple):
    """The idle curve for rho = 0."""

    def ridged(idle) -> int:  # noqa: N805
        return 0

    def drifts(idle) -> int:  # noqa: N805
        return 0

    def clock_of(idle, t):  # noqa: N805
        return t

    def drifted(idle, z, eta, shrink, k):  # noqa: N805
        return z

    def landed(idle, penalty, z, eta, shrink):  # noqa: N805
        return z

    def damping(idle, t, eta):  # noqa: N805
        return 1.0

    def stretch(idle, z, eta, shrink, a, b):  # noqa: N805
        return 0.0


class Ridge(NamedTuple):
    """The idle curve for rho > 0 in dual averaging and FTRL."""

    rho: float

    def ridged(idle) -> int:  # noqa: N805
        return 1

    drifts, clock_of, drifted, landed = Flat.drifts, Flat.clock_of, Flat.drifted, Flat.landed

    def damping(idle, t, eta):  # noqa: N805
        return 1.0 / (1.0 + idle.rho * t * eta)

    def stretch(idle, z, eta, shrink, a, b):  # noqa: N805
        v = abs(z) - shrink * a
        if (v <= 0.0) | (b <= a):
            return 0.0
        n = b - a
        if v < shrink * n:
            n = math.ceil(v / shrink)
        bottom = 1.0 / eta + idle.rho * a
        top = v / bottom
        return maximum(0.0, n * top - (top + shrink / idle.rho) * harmonic(bottom / idle.rho, n))


class Drift(NamedTuple):
    """The idle curve for rho > 0 in the prox of a gradient step.

    While idle, |w| <- max(|w| - lam pen eta, 0) / (1 + rho eta).  So |z| + C, with C = lam pen / (rho eta), shrinks by
    the factor 1 / (1 + rho eta) in each step until |z| reaches 0.
    """

    rho: float

    def ridged(idle) -> int:  # noqa: N805
        return 1

    def drifts(idle) -> int:  # noqa: N805
        return 1

    def clock_of(idle, t):  # noqa: N805
        return 0.0 * t

    def drifted(idle, z, eta, shrink, k):  # noqa: N805
        x, size = idle.rho * eta, np.abs(z)
        return np.copysign(np.maximum(size + (size + shrink / x) * np.expm1(-k * np.log1p(x)), 0.0), z)

    def landed(idle, penalty, z, eta, shrink):  # noqa: N805
        return prox(penalty, z, shrink) / (1.0 + idle.rho * eta)

    def damping(idle, t, eta):  # noqa: N805
        return 1.0

    def stretch(idle, z, eta, shrink, a, b):  # noqa: N805
        x, size, n = idle.rho * eta, abs(z), b - a
        if n <= 0.0:
            return 0.0
        C = shrink / x
        if C > 0.0:
            n = minimum(n, float(math.ceil(minimum(math.log1p(size / C) / math.log1p(x), n))))
        return eta * maximum(0.0, n * size - (size + C) * geometric(x, n))


@inlined
def shrunk(penalty, z, level):
    """Return the prox of -z, which has the weight's sign, with z's sign restored."""
    return -prox(penalty, -z, level)


@inlined
def sum_to_death(pace, table, z, eta, shrink, start, r):
    """Return F at the step of death of a coordinate that died before row r; the iterates have -z's sign."""
    e = U(first_at(pace, table, abs(z) / shrink, start, float(r)))
    return eta * maximum(0.0, (abs(z) - shrink * start) * table[e, OMEGA] - shrink * table[e, THETA])


@inlined
def harmonic(q, n):
    """Return h(q, n) = sum_{0 <= i < n} i / (q + i) for q >= 1, to a relative accuracy of about 1e-13.

    Few terms are added one by one, and of many terms the first ones until q + i >= 24.  The rest uses the
    Euler-Maclaurin formula around the integral q (x - log(1 + x)), x = n/q.
    """
    first = n if n <= 24.0 else maximum(math.ceil(24.0 - q), 0.0)
    total, i = 0.0, 0.0
    while i < first:
        total += i / (q + i)
        i += 1.0
    if n > first:
        n, q = n - first, q + first
        x = n / q
        if x < 0.1:  # log(1 + x) = 2 atanh(y), and x - 2 y = x y
            y = x / (2.0 + x)
            s = y * y
            tail = 1 / 3 + s * (1 / 5 + s * (1 / 7 + s * (1 / 9 + s * (1 / 11 + s * (1 / 13 + s / 15)))))
            main = x * y - 2.0 * y * s * tail
        else:
            main = x - math.log1p(x)
        p = 1.0 / ((1.0 + x) * (1.0 + x))
        p2, q2 = p * p, q * q
        ends = (p - 1.0) / 12.0 - ((p2 - 1.0) / 120.0 - (p2 * p - 1.0) / (252.0 * q2)) / q2
        h = q * main - 0.5 * x / (1.0 + x) + ends / q
        total += first * ((n - h) / q) + h  # (first + i) / (q + i) = first / (q + i) + i / (q + i)
    return total


@inlined
def geometric(x, n):
    """Return the sum over 0 <= i < n of 1 - (1 + x)^-i: in closed form, or by series where digits cancel."""
    if (n > 1.0) & (n * x > 0.5):
        return n + (1.0 + x) / x * math.expm1(-n * math.log1p(x))
    term, total, j = 0.5 * n * (n - 1.0) * x, 0.0, 1.0
    while abs(term) > 1e-17 * total:
        total += term
        term *= -x * (n + j) / (j + 2.0)
        j += 1.0
    return total
