"""RDA with groups of features: w_g = q G(z_g, s_g tau), z minus the sum of all gradients, O(members) per group touched.

G(v, s) = v max(1 - s / ||v||, 0), and s_g is the factor of the group's norm; tau and q are those of ``rda``.  An idle
group has a fixed z against a growing threshold, so its weights need no catching up.  Its iterates from the last touch s
up to t, or to its death, add up to z times one number:

    F = (Q_t - Q_s) - f (lam (R_t - R_s) + e (E_t - E_s)),    f = s_g / ||z_g||.

A touch visits the members of a group once for their norm, and where the group was alive once more for their sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..data.rows import ask_for_row
from ..jit.dispatch import U, inlined, kernel
from ..jit.lanes import any_lane, floor, gather_fields, load, load_row, maximum, minimum, sqrt, store, where, width
from ..losses import curvature, derivative
from ..parts.contracts import Optimizer, part
from ..problem.bounds import Bounded
from ..problem.state import Block, Layout, Problem, State, n_sums
from .feature_groups import SMALLEST, FeatureGroups, across, check_groups, feature_groups, group_norms, norm_of
from .rda import COL_E, COL_Q, COL_R, Schedule, inverse, threshold
from .running_sums import add_gradient, add_intercept


class _Sums(NamedTuple):
    """The fields of a fetch from the table: Q, R and E of a row."""

    fields = (COL_Q, COL_R, COL_E)


_SUMS, _COLUMNS = _Sums(), 3.0


class GroupSchedule(NamedTuple):
    """The arguments of the kernel for the next steps: those of ``rda``, the groups, and room for a factor per group."""

    omega: np.ndarray
    plain: Schedule
    groups: FeatureGroups
    norm: Any
    factors: np.ndarray


class _Layout(Layout):
    """The layout of RDA with groups: the clock has the number of the example that touched each group last."""

    __slots__ = ()

    def bounds(self, problem: Problem, state: State, block: Block, t: int) -> Iterator[Bounded]:
        yield Bounded("the last touches of groups", state.clock, float(t), is_whole=True)


@part(Optimizer)
class GroupRDA(NamedTuple):
    """RDA in the form for groups of features, which ``RDA.resolve`` returns.

    Parameters
    ----------
    rda : RDA
        The optimizer, with its constants.
    groups : FeatureGroups
        The groups of the penalty.
    """

    rda: Any
    groups: FeatureGroups

    columns = int(_COLUMNS)
    uses_steps = False
    supported_penalties = ("groups",)
    can_be_averaged = True

    @property
    def layout(self) -> Layout:
        return _Layout(shared=0, lane=1, bias=1, clock=self.groups.n)

    def check(self, problem: Problem) -> None:
        """Raise for groups of another penalty."""
        check_groups(self.groups, problem.penalty)

    @property
    def base(self) -> Any:
        return self.rda

    @property
    def learn(self):
        return learn

    def schedule(
        self, problem: Problem, state: State, block: Block, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> GroupSchedule:
        """Return the arrays for the next ``len(omega)`` steps; ``eta`` is not used."""
        plain = self.rda.schedule(problem, state, block, t, eta, omega)
        factors = np.empty(self.groups.n * problem.width)
        return GroupSchedule(plain.omega, plain, self.groups, norm_of(problem), factors)

    def settle(self, problem: Problem, state: State, block: Block, t: int) -> None:
        """Close the sums of every group, and start a new block."""
        if problem.sums:
            e = self.rda.growth(problem)
            settle(block.table, block.start, t, e, self.groups, norm_of(problem), problem.settling, state)
        state.clock[:] = 0.0
        block.table[0] = 0.0
        block.start = t

    def weights(self, problem: Problem, state: State, block: Block, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the iterate after t examples."""
        _, lanes, bias = self.layout.views(problem, state)
        Z, clock = lanes[:, 0, : problem.m], np.array([float(t)])
        lams = problem.penalty.lam if problem.lams is None else problem.lams
        rate = self.groups.size[:, None] / np.maximum(group_norms(self.groups, problem, Z), SMALLEST)
        kept = np.maximum(1.0 - threshold(lams, self.rda.growth(problem), clock[0], np.sqrt(clock[0])) * rate, 0.0)
        b = bias[0, : problem.m] * inverse(self.rda.bias_gamma * np.sqrt(clock) * problem.intercept)
        return inverse(self.rda.divisor(problem, clock, np.ones(1))) * Z * kept[self.groups.of_feature], b


def group_form(optimizer: Any, problem: Problem) -> GroupRDA:
    """Return RDA, with its constants, in the form for the groups of a problem's penalty."""
    return GroupRDA(optimizer, feature_groups(problem.penalty))


@inlined
def death(rate, lam, e):
    """Return the first step s after which a group of this rate is zero, (lam s + e sqrt(s)) rate >= 1, lane by lane.

    Rounding may move it by one; the iterate there is zero up to rounding, and so is its part in a sum.
    """
    level = 1.0 / maximum(rate, SMALLEST)
    root = 2.0 * level / maximum(e + sqrt(e * e + 4.0 * lam * level), SMALLEST)
    return -floor(-(root * root))


@inlined
def close_sums(groups, g, rate, lam, e, method, cell, stride, table, since, until, is_zero, origin):
    """Add the iterates of an idle group to the sums of its members, from row ``since`` up to ``until`` or its death."""
    _, members, first, _ = groups
    _, _, lanes, _, _ = method
    m, end = U(width(lanes)), float(until) + 0.0 * rate
    then = float(origin + since)
    if any_lane(1.0 - threshold(lam, e, then, math.sqrt(then)) * rate > 0.0):  # alive after its last touch
        if any_lane(is_zero):
            end = where(is_zero, minimum(maximum(death(rate, lam, e) - origin, float(since)), float(until)), end)
        Q, R, E = gather_fields(table, end * _COLUMNS, _SUMS)
        fallen = lam * (R - table[since, COL_R]) + e * (E - table[since, COL_E])
        total = maximum(Q - table[since, COL_Q] - rate * fallen, 0.0)
        for h in range(first[g], first[g + U(1)]):
            at = U(members[h]) * stride
            store(lanes, cell, at + m, load(lanes, cell, at + m) + load(lanes, cell, at) * total)


@inlined
def rate_of(groups, norm, g, lanes, cell, stride, zero):
    """Return s_g / ||z_g||, the rate at which the threshold takes off the group."""
    _, members, first, size = groups
    total = zero
    for h in range(first[g], first[g + U(1)]):
        z = load(lanes, cell, U(members[h]) * stride)
        total = total + z * z
    return size[g] / maximum(sqrt(across(norm, total)), SMALLEST)


@kernel
def learn(rows, order, schedule, method, state):
    """Make RDA steps over the rows in ``order``, with exact running sums where the method watches them."""
    indptr, indices, data, targets, weights = rows
    loss, _, lanes, watch, lams = method
    omega, plain, groups, norm, factors = schedule
    qs, bias_qs, _, _, table, origin, first, e, _ = plain
    cell, bias, touched = state
    of_feature = groups.of_feature
    m, sums, one = U(width(lanes)), U(n_sums(watch)), U(1)
    stride = (one + sums) * m  # a cell is z and the sums
    lam, z_b = load(lanes, lams, U(0)), load(lanes, bias, U(0))
    for k in range(order.size):
        ask_for_row(indptr, indices, data, order, k)
        i, r, t = U(order[k]), U(first + k), 1.0 * (origin + first + k)
        start, stop = U(indptr[i]), U(indptr[i + one])
        tau, s = threshold(lam, e, t, math.sqrt(t)), 0.0 * z_b
        for p in range(start, stop):  # the factors and sums of the groups of the row's features; inner product
            j = U(indices[p])
            g = U(of_feature[j])
            if touched[g] != t + 1.0:
                rate = rate_of(groups, norm, g, lanes, cell, stride, 0.0 * z_b)
                kept = maximum(1.0 - tau * rate, 0.0)
                store(lanes, factors, g * m, kept)
                if sums > 0:
                    since, zero = U(maximum(touched[g] - origin, 0.0)), kept == 0.0
                    close_sums(groups, g, rate, lam, e, method, cell, stride, table, since, r + one, zero, origin)
                touched[g] = t + 1.0
            s = s + load(lanes, factors, g * m) * load(lanes, cell, j * stride) * data[p]
        y, weight, b = load_row(lanes, targets, k), load_row(lanes, weights, k), bias_qs[k] * z_b
        margin = qs[k] * s + b
        c = weight * derivative(loss, margin, y)
        oc, curve = omega[k] * c, 0.0 * c
        if sums > 2:
            curve = weight * curvature(loss, margin, y)
        for p in range(start, stop):  # step
            at = U(indices[p]) * stride
            store(lanes, cell, at, load(lanes, cell, at) - c * data[p])
            add_gradient(watch, lanes, cell, at + m, oc * data[p], curve * data[p] * data[p])
        add_intercept(watch, lanes, bias, m, omega[k] * b, oc, curve)
        z_b = z_b - c
    store(lanes, bias, U(0), z_b)


@kernel
def settle(table, origin, clock, e, groups, norm, method, state):
    """Close the sums after ``clock`` examples for every group; z itself needs no settling."""
    _, _, lanes, watch, lams = method
    cell, _, touched = state
    t, m, lam = 1.0 * clock, U(width(lanes)), load(lanes, lams, U(0))
    stride, until = (U(1) + U(n_sums(watch))) * m, U(clock - origin)
    for g in range(U(groups.size.size)):
        rate = rate_of(groups, norm, g, lanes, cell, stride, 0.0 * lam)
        since, zero = U(maximum(touched[g] - origin, 0.0)), 1.0 - threshold(lam, e, t, math.sqrt(t)) * rate <= 0.0
        close_sums(groups, g, rate, lam, e, method, cell, stride, table, since, until, zero, origin)
