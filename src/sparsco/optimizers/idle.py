"""A rate per coordinate: the kernels behind FTRL-proximal, NFTRL and both forms of AdaGrad.

All keep z, G = sum of (c x)^2 and eta = 1/r per coordinate and differ in the rule for r and in what a step makes of z
(a record, see ``rate``, ``kept`` and ``moved``).  A coordinate that is not touched has, before the example at clock t,

    w_t = -S(z, lam pen t) / (r + rho t),

so nothing needs catching up; only sums of iterates do.  With rho = 0 they are by Abel summation: over the block's first
k steps an idle coordinate's iterates add up to F_k = eta (|z| Omega_k - lam pen Theta_k), Omega and Theta the prefix
sums of omega and omega t, so a touch adds F of the old (z, eta) minus F of the new one.  One that died while idle adds
F at the step of its death, e = ceil(|z| / (lam pen)); one that a touch left dead never adds anything: its eta is stored
with a minus sign.  With rho > 0 the idle stretch since the last touch, a field of its own, has a closed form.
AdaGrad FOBOS with rho > 0 alone has another idle curve: there z itself drifts, see ``Drift``.

With ``births`` a coordinate's clock starts at its first appearance: everywhere its age stands for t, and the clock
after that example is a further field (0: not born yet).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..dispatch import U, dispatched, inlined, kernel, plain_python
from ..lanes import anyof, lane, load, maximum, minimum, signed, store, where, width
from ..losses import curvature, derivative
from ..records import Block, Layout, Problem, State, tracks
from ..regularizers import ElasticNet, falls, penalty, prox
from .lines import FOUR, LINE, fields, numbered, pick, prefetch, put_fields, tails

_TINY = 1e-300
"""Smallest r: where no gradient has come yet, so that z = 0, and 1/r only has to be finite."""


# --- Parts: the rule for r and z, and how idle coordinates behave -----------------------------------------------------


@dispatched
def rate(rule: Any, G: Any, s2: Any, gain: Any, floor: Any) -> Any:  # noqa: N803
    """r of a coordinate with sum of squared gradients G and mean square s2 of its nonzeros."""
    raise NotImplementedError


@dispatched
def normalises(rule: Any) -> int:
    """Whether the rule needs s2 and the mean number of (normalised) nonzeros in a row.  A compile-time constant."""
    raise NotImplementedError


@dispatched
def kept(rule: Any, z: Any, pull: Any) -> Any:
    """What a touch keeps of z; ``pull`` is the part of z that makes the weight, -r w."""
    raise NotImplementedError


@dispatched
def moved(rule: Any, rest: Any, g: Any, anchor: Any, level: Any) -> Any:
    """z after a gradient g, from what was kept; ``anchor`` is the new r times w, ``level`` the threshold before."""
    raise NotImplementedError


@dispatched
def ridged(idle: Any) -> int:
    """Whether rho > 0.  A compile-time constant."""
    raise NotImplementedError


@dispatched
def drifts(idle: Any) -> int:
    """Whether z changes while idle, in place of the threshold.  A compile-time constant."""
    raise NotImplementedError


@dispatched
def clock_of(idle: Any, t: Any) -> Any:
    """The threshold at clock t over lam pen: t, and 0 where z drifts."""
    raise NotImplementedError


@dispatched
def drifted(idle: Any, z: Any, eta: Any, shrink: Any, k: Any) -> Any:
    """z after k idle steps; only asked for where it drifts."""
    raise NotImplementedError


@dispatched
def landed(idle: Any, regularizer: Any, z: Any, eta: Any, shrink: Any) -> Any:
    """z after the step's own prox, where it drifts; elsewhere the threshold does that."""
    raise NotImplementedError


@dispatched
def damping(idle: Any, t: Any, eta: Any) -> Any:
    """r / (r + rho t)."""
    raise NotImplementedError


@dispatched
def stretch(idle: Any, z: Any, eta: Any, shrink: Any, a: Any, b: Any) -> Any:
    """Sum over a <= s < b of max(|z| - shrink s, 0) / (r + rho s), 1 <= a; only asked for where rho > 0."""
    raise NotImplementedError


@dispatched
def births(ages: Any) -> int:
    """Whether coordinates have ages of their own.  A compile-time constant."""
    raise NotImplementedError


@dispatched
def age(ages: Any, t: Any, cell: Any, at: Any) -> Any:
    """How many of t examples count for the coordinate whose cell starts at ``at``."""
    raise NotImplementedError


class FromStart(NamedTuple):
    """All examples count for every coordinate."""

    def births(ages) -> int:  # noqa: N805
        return 0

    def age(ages, t, cell, at):  # noqa: N805
        return t


class FromBirth(NamedTuple):
    """Those from a coordinate's first appearance on count for it."""

    def births(ages) -> int:  # noqa: N805
        return 1

    def age(ages, t, cell, at):  # noqa: N805
        return t + 1.0 - cell[at + U(2)]


class Flat(NamedTuple):
    """rho = 0."""

    def ridged(idle) -> int:  # noqa: N805
        return 0

    def drifts(idle) -> int:  # noqa: N805
        return 0

    def clock_of(idle, t):  # noqa: N805
        return t

    def drifted(idle, z, eta, shrink, k):  # noqa: N805
        return z

    def landed(idle, regularizer, z, eta, shrink):  # noqa: N805
        return z

    def damping(idle, t, eta):  # noqa: N805
        return 1.0

    def stretch(idle, z, eta, shrink, a, b):  # noqa: N805
        return 0.0


class Ridge(NamedTuple):
    """rho > 0."""

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
    """rho > 0 in the prox of a gradient step: |w| <- max(|w| - lam pen eta, 0) / (1 + rho eta) while idle.

    So |z| + C, C = lam pen / (rho eta), shrinks by the factor 1 / (1 + rho eta) in each step until |z| reaches 0.
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

    def landed(idle, regularizer, z, eta, shrink):  # noqa: N805
        return prox(regularizer, z, shrink) / (1.0 + idle.rho * eta)

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


def idle_of(optimizer: Any, problem: Problem) -> Any:
    """The record for the problem's rho and how the optimizer treats it."""
    rho = float(problem.regularizer.rho)
    return getattr(optimizer, "ridge", Ridge)(rho) if rho > 0.0 else Flat()


# --- What all share ---------------------------------------------------------------------------------------------------


class Schedule(NamedTuple):
    """Per row: its weight in the average.  Per step since the last settling, and one more: ``table`` with columns Omega
    and Theta, time counted from ``start``, the clock at the table's first row; ``first`` is the table's row of the
    first step.  Per lane: the rule's constants and the intercept's start.  ``intercept`` is 1, or 0 without one;
    ``dead`` and ``space`` are scratch."""

    rule: Any
    idle: Any
    ages: Any
    omega: np.ndarray
    table: np.ndarray
    start: float
    first: int
    gains: np.ndarray
    floors: np.ndarray
    centres: np.ndarray
    intercept: float
    dead: np.ndarray
    space: np.ndarray


class IdleLayout(Layout):
    """Shared: q, n, with births the clock after the first appearance, and, where rho > 0, the clock at the last touch.
    Lane: z, eta, G.  Intercept: b, z, G, r.

    One model with rho = 0 and no births has a cache line per feature: all three sums fill it, fewer leave a rest.
    """

    __slots__ = ()

    @property
    def ages(self) -> Any:
        return FromBirth() if self.shared == 3 else FromStart()

    def _shared(self, problem: Problem) -> int:
        return self.shared + (problem.regularizer.rho > 0.0)

    def _in_lines(self, problem: Problem) -> bool:
        flat = not problem.regularizer.rho and not births(self.ages)
        return flat and problem.width == 1 and type(problem.regularizer) is ElasticNet

    def stride(self, problem: Problem) -> int:
        if self._in_lines(problem):
            return LINE
        return self._shared(problem) + (self.lane + problem.sums) * problem.width

    def views(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        cell = state.cell.reshape(problem.d, self.stride(problem))
        first, n = self._shared(problem), self.lane + problem.sums
        lanes = cell[:, first : first + n * problem.width].reshape(problem.d, n, problem.width)
        return cell[:, :first], lanes, state.bias.reshape(self.bias + problem.sums, problem.width)


LAYOUT = IdleLayout(shared=2, lane=3, bias=4, clock=1)
BORN = IdleLayout(shared=3, lane=3, bias=4, clock=1)
COLUMNS = 2


def layout(optimizer: Any) -> IdleLayout:
    """With a field for births where the optimizer wants them."""
    return BORN if getattr(optimizer, "births", False) else LAYOUT


def is_lazy(optimizer: Any, problem: Problem, uniform: bool) -> bool:
    """Whether the watched sums are exact at O(nonzeros): with rho > 0 only for uniform weights."""
    return uniform or not problem.regularizer.rho


def start(optimizer: Any, problem: Problem, centres: Any = 0.0) -> tuple[State, Block]:
    """Nothing learned; the intercept at ``centres``."""
    state = layout(optimizer).new_state(problem)
    if problem.intercept:
        state.bias[: problem.m] = centres
    return state, Block(COLUMNS)


def per_lane(problem: Problem, value: Any, rest: float) -> np.ndarray:
    """A number or one per model, as an array over all lanes; ``rest`` where a lane has no model."""
    out = np.full(problem.width, rest)
    out[: problem.m] = value
    return out


def make_schedule(
    optimizer: Any, problem: Problem, block: Block, t: int, omega: np.ndarray, rule: Any, gains: Any, floors: Any,
    centres: Any,
) -> Schedule:  # fmt: skip
    """The arrays for the next ``len(omega)`` steps."""
    n, first = len(omega), t - block.start
    if problem.sums:
        rows = block.reserve(first + n + 1)[first : first + n + 1]
        rows[:, 0] = np.add.accumulate(np.append(rows[0, 0], omega))
        rows[:, 1] = np.add.accumulate(np.append(rows[0, 1], omega * np.arange(first, first + n)))
    else:  # nothing is summed up to the end of these rows
        block.start, first = t + n, 0
    lanes = (per_lane(problem, value, 1.0) for value in (gains, floors, centres if problem.intercept else 0.0))
    origin = float(block.start if problem.sums else t)
    parts = rule, idle_of(optimizer, problem), layout(optimizer).ages
    fixed = float(problem.intercept), block.noted, block.level
    return Schedule(*parts, omega, block.table, origin, first, *lanes, *fixed)


def is_dense(optimizer: Any, problem: Problem) -> bool:
    """Whether an example costs O(d): never."""
    return False


def settle(optimizer: Any, problem: Problem, state: State, block: Block, t: int) -> None:
    """Bring every coordinate's sum up to date, note which are alive, and start a new block."""
    at, own = float(block.start if problem.sums else t), layout(optimizer)
    idle = idle_of(optimizer, problem)
    settle_all(block.table, at, t, own.stride(problem), idle, own.ages, problem.method, state)
    block.table[0] = 0.0
    block.start = t


def weights(optimizer: Any, problem: Problem, state: State, block: Block, t: int) -> tuple[np.ndarray, np.ndarray]:
    """The iterate after t examples."""
    own = layout(optimizer)
    shared, lanes, bias = own.views(problem, state)
    method, idle, z, eta = problem.method, idle_of(optimizer, problem), lanes[:, 0], np.abs(lanes[:, 1])
    now = t + 1.0 - shared[:, 2:3] if births(own.ages) else t
    shrink = problem.regularizer.penalties(problem.d)[:, None] * method.lams
    if drifts(idle):
        z = np.where(z != 0.0, drifted(idle, z, np.where(z != 0.0, eta, 1.0), shrink, t - shared[:, -1:]), 0.0)
    w = 0.0 - shrunk(method.regularizer, z, shrink * clock_of(idle, now)) * damping(idle, now, eta) * eta
    return w[:, : problem.m], bias[0, : problem.m].copy()


class Learn:
    """``learn``, or the same for one model on whole cache lines where the schedule and the state are made for it."""

    def __call__(self, rows: Any, order: Any, schedule: Any, method: Any, state: Any) -> None:
        flat = not ridged(schedule.idle) and not births(schedule.ages)
        if flat and width(method.lanes) == 1 and type(method.regularizer) is ElasticNet:
            learn_lines(rows, order, schedule, method, state, *tails(rows))
        else:
            learn(rows, order, schedule, method, state)

    def py_func(self, rows: Any, order: Any, schedule: Any, method: Any, state: Any) -> None:
        """In plain Python."""
        with plain_python():
            self(rows, order, schedule, method, state)


@inlined
def shrunk(regularizer, z, level):
    """The prox of -z, which has the weight's sign, with z's sign."""
    return -prox(regularizer, -z, level)


# --- Sums over idle stretches -----------------------------------------------------------------------------------------


@inlined
def sum_to_death(table, z, eta, shrink, start, r):
    """F at the step of its death of a coordinate that died before row r of the table; the iterates have -z's sign."""
    e = U(minimum(maximum(math.ceil(abs(z) / shrink) - start, 0.0), float(r)))
    return eta * maximum(0.0, (abs(z) - shrink * start) * table[e, 0] - shrink * table[e, 1])


@inlined
def harmonic(q, n):
    """h(q, n) = sum_{0 <= i < n} i / (q + i) for q >= 1, to a relative 1e-13 or so.

    Few terms one by one, and of many the first ones until q + i >= 24; the rest by Euler and Maclaurin around their
    integral q (x - log(1 + x)), x = n/q.
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
    """The sum over 0 <= i < n of 1 - (1 + x)^-i: in closed form, or where digits would cancel by its power series."""
    if (n > 1.0) & (n * x > 0.5):
        return n + (1.0 + x) / x * math.expm1(-n * math.log1p(x))
    term, total, j = 0.5 * n * (n - 1.0) * x, 0.0, 1.0
    while abs(term) > 1e-17 * total:
        total += term
        term *= -x * (n + j) / (j + 2.0)
        j += 1.0
    return total


# --- Kernels ----------------------------------------------------------------------------------------------------------


@kernel
def learn(rows, order, schedule, method, state):
    """One step per row in ``order``, with exact running sums where the method watches them."""
    indptr, indices, data, targets, weights = rows
    loss, reg, lanes, watch, lams = method
    rule, idle, ages, omega, table, origin, first, gains, floors, centres, intercept, dead, scale = schedule
    cell, bias, clock = state
    m, sums, one, two = U(width(lanes)), U(tracks(watch)), U(1), U(2)
    touch = two + U(births(ages))
    own = touch + U(ridged(idle))
    stride = own + (U(3) + sums) * m
    lam, gain, floor, b0 = (load(lanes, lams, U(0)), load(lanes, gains, U(0)), load(lanes, floors, U(0)),
                            load(lanes, centres, U(0)))  # fmt: skip
    b, z_b = load(lanes, bias, U(0)), load(lanes, bias, m)
    G_b, r_b, K = load(lanes, bias, m + m), load(lanes, bias, m + m + m), clock[0]
    for k in range(order.size):
        i, r = U(order[k]), U(first + k)
        t = origin + float(r)
        begin, stop = U(indptr[i]), U(indptr[i + one])
        s, seen, n = 0.0 * b, intercept, U(0)
        for p in range(begin, stop):  # counts, inner product; sums over the idle stretch, or who died in it
            j, x = U(indices[p]), np.float64(data[p])
            at = j * stride
            f, shrink = at + own, lam * penalty(reg, j)
            if normalises(rule) == 1:
                q, count = maximum(_TINY, cell[at] + x * x), cell[at + one] + 1.0
                cell[at], cell[at + one] = q, count
                seen += x * x * (count / q)
                scale[p - begin] = q / count
            if births(ages) == 1:
                if cell[at + two] == 0.0:
                    cell[at + two] = t + 1.0
            now = age(ages, t, cell, at)
            if (ridged(idle) == 1) & ((sums > 0) | (drifts(idle) == 1)):
                a = age(ages, maximum(origin, cell[at + touch]), cell, at)
                for lane_ in range(m):
                    zq, own_eta = cell[f + lane_], cell[f + m + lane_]
                    own_shrink = lams[lane_] * penalty(reg, j) * falls(reg, -zq)
                    if zq != 0.0:
                        if sums > 0:
                            total = stretch(idle, zq, own_eta, own_shrink, a, now + 1.0)
                            cell[f + m + m + m + lane_] -= math.copysign(omega[k] * total, zq)
                        if drifts(idle) == 1:
                            cell[f + lane_] = drifted(idle, zq, own_eta, own_shrink, t - cell[at + touch])
            z, eta = load(lanes, cell, f), load(lanes, cell, f + m)
            v = shrunk(reg, z, shrink * clock_of(idle, now))
            s = s - v * damping(idle, now, eta) * eta * x
            if (sums > 0) & (ridged(idle) == 0):
                dead[n] = j
                n += U(anyof((eta > 0.0) & (v == 0.0)))
        for h in range(n):
            j = U(dead[h])
            at = j * stride
            f, now, then = at + own, age(ages, t, cell, at), age(ages, origin, cell, at)
            for lane_ in range(m):
                z, eta = cell[f + lane_], cell[f + m + lane_]
                own_shrink = lams[lane_] * penalty(reg, j) * falls(reg, -z)
                if (eta > 0.0) & (abs(z) <= own_shrink * now):
                    total = sum_to_death(table, z, eta, own_shrink, then, r)
                    cell[f + m + m + m + lane_] -= math.copysign(total, z)
        y, weight = load(lanes, targets, U(k) * m), load(lanes, weights, U(k) * m)
        margin = s + b
        c = weight * derivative(loss, margin, y)
        og, curve, gk = omega[k] * c, 0.0 * b, gain
        if sums > 2:
            curve = weight * curvature(loss, margin, y)
        if normalises(rule) == 1:
            K += seen
            gk = gain * (K / (t + 1.0))
        Omega = Theta = 0.0
        if sums > 0:
            Omega, Theta = table[r + one, 0], table[r + one, 1]
        before, after = float(r) * Omega - Theta, (float(r) + 1.0) * Omega - Theta
        for p in range(begin, stop):
            j, x = U(indices[p]), np.float64(data[p])
            at = j * stride
            f, shrink = at + own, lam * penalty(reg, j)
            now = age(ages, t, cell, at)
            z, eta, level = load(lanes, cell, f), load(lanes, cell, f + m), shrink * clock_of(idle, now)
            v = shrunk(reg, z, level)
            pull = v * damping(idle, now, eta)  # -r w
            w, g = 0.0 - pull * eta, c * x
            G = load(lanes, cell, f + m + m) + g * g
            new_r = maximum(rate(rule, G, scale[p - begin], gk, floor), _TINY)
            new_eta = 1.0 / new_r
            new_z = landed(idle, reg, moved(rule, kept(rule, z, pull), g, new_r * w, level), new_eta, shrink)
            if (ridged(idle) == 1) & ((sums > 0) | (drifts(idle) == 1)):
                cell[at + touch] = t + 1.0
            if sums > 0:
                if ridged(idle) == 0:
                    h = f + m + m + m
                    new_v = shrunk(reg, new_z, shrink * (now + 1.0))
                    old_fall, new_fall = shrink * falls(reg, -v), shrink * falls(reg, -new_v)
                    change = Omega * (w + new_v * new_eta) - (
                        signed(old_fall * before * eta, v) - signed(new_fall * after * new_eta, new_v)
                    )
                    store(lanes, cell, h, load(lanes, cell, h) + change)
                    new_eta = where(new_v != 0.0, new_eta, -new_eta)
            store(lanes, cell, f, new_z)
            store(lanes, cell, f + m, new_eta)
            store(lanes, cell, f + m + m, G)
            if sums > 1:
                h = f + U(4) * m
                store(lanes, cell, h, load(lanes, cell, h) + og * x)
            if sums > 2:
                h = f + U(5) * m
                store(lanes, cell, h, load(lanes, cell, h) + curve * (x * x))
        if sums > 0:
            store(lanes, bias, U(4) * m, load(lanes, bias, U(4) * m) + omega[k] * b)
        if sums > 1:
            store(lanes, bias, U(5) * m, load(lanes, bias, U(5) * m) + og)
        if sums > 2:
            store(lanes, bias, U(6) * m, load(lanes, bias, U(6) * m) + curve)
        G_b = G_b + c * c
        new_r = maximum(rate(rule, G_b, 1.0, gk, floor), _TINY)
        z_b = moved(rule, kept(rule, z_b, r_b * (b0 - b)), c, new_r * (b - b0), 0.0)
        r_b, b = new_r, intercept * (b0 - z_b / new_r)
    store(lanes, bias, U(0), b)
    store(lanes, bias, m, z_b)
    store(lanes, bias, m + m, G_b)
    store(lanes, bias, m + m + m, r_b)
    clock[0] = K


@kernel
def learn_lines(rows, order, schedule, method, state, tail, tail_x):
    """The same for one model with rho = 0, four features at a time; a cell is q, n, z, eta, G and the sums.

    A row's last block is filled up by repeating its last entry.  The first loop only reads cells, the second only
    writes them, so the copies compute and write the same numbers; only inner products have to leave them out.
    """
    indptr, indices, data, targets, weights = rows
    loss, reg, _, watch, lams = method
    rule, _, _, omega, table, origin, first, gains, floors, centres, intercept, _, space = schedule
    cell, bias, clock = state
    sums, one, four, size = U(tracks(watch)), U(1), U(4), U(40)
    lam, floor, b0 = lams[0], floors[0], centres[0]
    b, z_b, G_b, r_b, K = bias[0], bias[1], bias[2], bias[3], clock[0]
    number = numbered()
    zero = 0.0 * number
    for k in range(order.size):
        i, r = U(order[k]), U(first + k)
        t = origin + float(r)
        begin, stop = U(indptr[i]), U(indptr[i + one])
        full = (stop - begin) >> U(2)
        blocks = (stop - begin + U(3)) >> U(2)
        if blocks > full:
            for f in range(four):
                p = minimum(begin + full * four + f, stop - one)
                tail[f], tail_x[f] = indices[p], data[p]
        coming, last = U(indptr[order[minimum(k + 1, order.size - 1)]]), U(maximum(indices.size, 4)) - four
        s, seen, left, level = zero, zero, float(stop - begin), lam * t
        for block in range(blocks):
            p, in_tail, o = begin + block * four, block == full, block * size
            x = pick(data, tail_x, p, in_tail)
            q, n, z, eta, G, A, g, h = fields(cell, indices, tail, p, in_tail)
            v = prox(reg, z, level)
            w = zero - v * eta
            x_once = where(number < left, x, 0.0)
            s = s + w * x_once
            if normalises(rule) == 1:
                q, n = maximum(q + x * x, _TINY), n + 1.0
                inverse = 1.0 / (q * n)  # one division for n / q and q / n
                seen = seen + x_once * x_once * (n * (n * inverse))
                store(FOUR, space, o + U(20), q * (q * inverse))
            store(FOUR, space, o, kept(rule, z, v))
            store(FOUR, space, o + U(4), w)
            store(FOUR, space, o + U(8), G)
            store(FOUR, space, o + U(12), q)
            store(FOUR, space, o + U(16), n)
            left -= 4.0
            if sums > 0:
                store(FOUR, space, o + U(24), eta)
                store(FOUR, space, o + U(28), A)
                died = (eta > 0.0) & (v == 0.0)
                if anyof(died):
                    for f in range(four):
                        if lane(died, f):
                            level_z = lane(z, f)
                            total = sum_to_death(table, level_z, lane(eta, f), lam, origin, r)
                            space[o + U(28) + f] -= math.copysign(total, level_z)
            if sums > 1:
                store(FOUR, space, o + U(32), g)
            if sums > 2:
                store(FOUR, space, o + U(36), h)
        y, weight = targets[U(k)], weights[U(k)]
        margin = (lane(s, 0) + lane(s, 1)) + (lane(s, 2) + lane(s, 3)) + b
        c = weight * derivative(loss, margin, y)
        og, curve, gain = omega[k] * c, 0.0, gains[0]
        if sums > 2:
            curve = weight * curvature(loss, margin, y)
        if normalises(rule) == 1:
            K += (lane(seen, 0) + lane(seen, 1)) + (lane(seen, 2) + lane(seen, 3)) + intercept
            gain = gain * (K / (t + 1.0))
        Omega = Theta = 0.0
        if sums > 0:
            Omega, Theta = table[r + one, 0], table[r + one, 1]
        before, after = lam * (float(r) * Omega - Theta), lam * ((float(r) + 1.0) * Omega - Theta)
        next_level = lam * (t + 1.0)
        for block in range(blocks):
            p, in_tail, o = begin + block * four, block == full, block * size
            if indices.size >= 4:  # the next row's lines
                prefetch(cell, indices, minimum(coming + block * four, last))
            x, w = pick(data, tail_x, p, in_tail), load(FOUR, space, o + U(4))
            cx, s2 = x * c, zero
            G = load(FOUR, space, o + U(8)) + cx * cx
            if normalises(rule) == 1:
                s2 = load(FOUR, space, o + U(20))
            new_r = maximum(rate(rule, G, s2, gain, floor), _TINY)
            z, eta = moved(rule, load(FOUR, space, o), cx, new_r * w, level), 1.0 / new_r
            q, n = load(FOUR, space, o + U(12)), load(FOUR, space, o + U(16))
            if sums > 0:
                v = prox(reg, z, next_level)
                gone = signed(load(FOUR, space, o + U(24)) * before, w) - signed(eta * after, zero - v)
                A = load(FOUR, space, o + U(28)) + (Omega * (w + v * eta) + gone)
                eta = where(v != 0.0, eta, zero - eta)
                g, h = zero, zero
                if sums > 1:
                    g = load(FOUR, space, o + U(32)) + x * og
                if sums > 2:
                    h = load(FOUR, space, o + U(36)) + x * x * curve
                put_fields(cell, indices, tail, p, in_tail, (q, n, z, eta, G, A, g, h))
            else:
                put_fields(cell, indices, tail, p, in_tail, (q, n, z, eta, G, zero))
        if sums > 0:
            bias[4] += omega[k] * b
        if sums > 1:
            bias[5] += og
        if sums > 2:
            bias[6] += curve
        G_b += c * c
        new_r = maximum(_TINY, rate(rule, G_b, 1.0, gain, floor))
        z_b = moved(rule, kept(rule, z_b, r_b * (b0 - b)), c, new_r * (b - b0), 0.0)
        r_b, b = new_r, intercept * (b0 - z_b / new_r)
    bias[0], bias[1], bias[2], bias[3] = b, z_b, G_b, r_b
    clock[0] = K


@kernel
def settle_all(table, origin, t, stride, idle, ages, method, state):
    """Close the sums at clock t for every coordinate; eta's sign says whether it is alive."""
    _, reg, lanes, watch, lams = method
    cell = state.cell
    m, sums, two, step = U(width(lanes)), U(tracks(watch)), U(2), U(stride)
    touch, end = two + U(births(ages)), float(t)
    own, r = touch + U(ridged(idle)), U(int(end - origin))
    for j in range(U(cell.size) // step):
        at, pen = j * step, penalty(reg, j)
        now, then = age(ages, end, cell, at), age(ages, origin, cell, at)
        for lane_ in range(m):
            f = at + own + lane_
            z, eta = cell[f], cell[f + m]
            shrink = lams[lane_] * pen * falls(reg, -z)
            alive = abs(z) > shrink * now
            if z != 0.0:
                total = 0.0
                if sums > 0:
                    if ridged(idle) == 1:
                        a = age(ages, maximum(origin, cell[at + touch]), cell, at)
                        if now > a:
                            total = stretch(idle, z, eta, shrink, a, now) * (table[r, 0] / (end - origin))
                    elif eta > 0.0:
                        if alive:
                            total = eta * ((abs(z) - shrink * then) * table[r, 0] - shrink * table[r, 1])
                        else:
                            total = sum_to_death(table, z, eta, shrink, then, r)
                    cell[f + m + m + m] -= math.copysign(total, z)
                if drifts(idle) == 1:
                    cell[f] = drifted(idle, z, eta, shrink, end - cell[at + touch])
            if ridged(idle) == 0:
                cell[f + m] = abs(eta) if alive else -abs(eta)
        if ridged(idle) == 1:
            cell[at + touch] = end
