"""FOBOS with groups of features: w_g <- G(w_g - eta c x_g, eta lam s_g) / (1 + eta rho), O(members) per group touched.

G(v, s) = v max(1 - s / ||v||, 0), and s_g is the factor of the group's norm.  The lazy form: P, B, SP and SPB are those
of ``fobos``, and a cell stores v = w / P.  An idle group keeps its direction,

    v_t = v max(1 - f (B_t - B_s), 0),    f = lam s_g / ||v||,

so its iterates add up to v times one number.  While the group lives, that number is
(1 + f B_s) (SP_t - SP_s) - f (SPB_t - SPB_s).  A group dies where B reaches x = B_s + 1 / f, and adds f times the sum
of omega P (x - B) up to there.  The prox of a step is part of the idle stretch that follows it, so a touch visits the
members of a group once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..data.rows import ask_for_row
from ..jit.dispatch import U, inlined, kernel
from ..jit.lanes import any_lane, load, load_row, maximum, n_float64, sqrt, store, where
from ..losses import curvature, derivative
from ..parts.contracts import Optimizer, part
from ..problem.bounds import Bounded
from ..problem.fading import growth
from ..problem.state import Block, Layout, Problem, State, n_sums
from .feature_groups import SMALLEST, FeatureGroups, across, check_groups, feature_groups, group_norms, norm_of
from .running_sums import add_gradient, add_intercept
from .zero_crossings import COL_B, COL_P, COL_SP, COL_SPB, COLUMNS, until_death

TOUCHED, LAST_B, FIELDS = U(0), U(1), U(2)
"""The numbers of a group in the clock: the number of the example that touched it last, and B before that example."""
_NONE = 1e-100
"""A rate that is too small to bring any group to zero."""


class Schedule(NamedTuple):
    """The arguments of the kernel for the next steps: those of ``fobos``, and the groups.

    ``origin`` is the number of examples before the table's first row.
    """

    eta: np.ndarray
    tau: np.ndarray
    omega: np.ndarray
    pace: Any
    table: np.ndarray
    grid: np.ndarray
    origin: int
    first: int
    groups: FeatureGroups
    norm: Any


class _Layout(Layout):
    """The layout of FOBOS with groups: the clock has the last touch of each group, and B before it."""

    __slots__ = ()

    def bounds(self, problem: Problem, state: State, block: Block, t: int) -> Iterator[Bounded]:
        touched, last = state.clock.reshape(-1, int(FIELDS)).T
        yield Bounded("the last touches of groups", touched, float(t), is_whole=True)
        yield Bounded("B at the last touches of groups", last, block.table[t - block.start, COL_B])


@part(Optimizer)
class GroupFOBOS(NamedTuple):
    """FOBOS in the form for groups of features, which ``FOBOS.resolve`` returns.

    Parameters
    ----------
    fobos : FOBOS
        The optimizer as it was given.
    groups : FeatureGroups
        The groups of the penalty.
    """

    fobos: Any
    groups: FeatureGroups

    columns = COLUMNS
    uses_steps = True
    supported_penalties = ("groups",)
    can_track_iterates = True
    starts_anywhere = True
    can_be_averaged = True
    forgets = True

    @property
    def layout(self) -> Layout:
        return _Layout(shared=0, lane=1, bias=1, clock=int(FIELDS) * self.groups.n)

    @property
    def learn(self):
        return learn

    def check(self, problem: Problem) -> None:
        """Raise for groups of another penalty."""
        check_groups(self.groups, problem.penalty)

    @property
    def base(self) -> Any:
        return self.fobos

    @property
    def l2_in(self) -> str:
        return self.fobos.l2_in

    def start(self, problem: Problem) -> tuple[State, Block]:
        """Return the initial state, with P = 1."""
        state, block = self.layout.start(problem, self.columns)
        block.table[0, COL_P] = 1.0
        return state, block

    def schedule(
        self, problem: Problem, state: State, block: Block, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> Schedule:
        """Return the arrays for the next ``len(eta)`` steps, or for fewer where P would become too small."""
        plain = self.fobos.schedule(problem, state, block, t, eta, omega)
        by_time = plain.eta, plain.tau, plain.omega, plain.pace, plain.table, plain.grid
        return Schedule(*by_time, block.start, plain.first, self.groups, norm_of(problem))

    def settle(self, problem: Problem, state: State, block: Block, t: int) -> None:
        """Bring every group and its sums up to date, and start a new block: P = 1, B = 0."""
        steps = t - block.start
        settle(block.table, block.grid, block.start, steps, self.groups, norm_of(problem), problem.settling, state)
        block.table[0] = 0.0, 0.0, 0.0, 1.0
        block.start, block.gridded, block.full = t, 0, False

    def tracking_form(self, problem: Problem) -> Any:
        """Return the form of FOBOS that computes the Bregman difference of each step."""
        return self.fobos.tracking_form(problem)

    def weights(self, problem: Problem, state: State, block: Block, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the iterate after t examples."""
        _, lanes, bias = self.layout.views(problem, state)
        B, _, _, P = block.table[t - block.start]
        V, groups = lanes[:, 0, : problem.m], self.groups
        idle = B - state.clock.reshape(-1, int(FIELDS))[:, LAST_B]
        sink = groups.size[:, None] * (problem.penalty.lam if problem.lams is None else problem.lams)
        rate = sink / np.maximum(group_norms(groups, problem, V), SMALLEST)
        kept = np.maximum(1.0 - rate * idle[:, None], 0.0)
        return P * V * kept[groups.of_feature], bias[0, : problem.m].copy()


def group_form(optimizer: Any, problem: Problem) -> GroupFOBOS:
    """Return FOBOS in the form for the groups of a problem's penalty."""
    return GroupFOBOS(optimizer, feature_groups(problem.penalty))


@inlined
def shrink_group(groups, norm, g, lam, method, cell, stride, now, before, table, grid, r):
    """Bring the members of group g and their sums up to date.

    ``now`` has B, and SP and SPB up to the last iterate that counts; ``before`` has them at the start of the idle
    stretch.  ``r`` is the table's row of the present.
    """
    _, members, first, size = groups
    _, _, lanes, watch, _ = method
    B, SP, SPB = now
    B0, SP0, SPB0 = before
    total, m = 0.0 * lam, U(n_float64(lanes))
    for h in range(first[g], first[g + U(1)]):
        v = load(lanes, cell, U(members[h]) * stride)
        total = total + v * v
    total = across(norm, total)
    if any_lane(total > 0.0):
        rate = lam * size[g] / maximum(sqrt(total), SMALLEST)
        kept, summed = maximum(1.0 - rate * (B - B0), 0.0), 0.0 * lam
        if n_sums(watch) > 0:
            died = (total > 0.0) & (kept == 0.0)
            summed = (1.0 + rate * B0) * (SP - SP0) - rate * (SPB - SPB0)
            if any_lane(died):
                x = where(died, 1.0 / maximum(rate, _NONE) + B0, 0.5 * table[U(1), COL_B])
                summed = where(died, rate * (until_death(table, grid, float(r), x) - (x * SP0 - SPB0)), summed)
            summed = maximum(summed, 0.0)
        for h in range(first[g], first[g + U(1)]):
            at = U(members[h]) * stride
            v = load(lanes, cell, at)
            store(lanes, cell, at, v * kept)
            if n_sums(watch) > 0:
                store(lanes, cell, at + m, load(lanes, cell, at + m) + v * summed)


@kernel
def learn(rows, order, schedule, method, state):
    """Make FOBOS steps over the rows in ``order``, with exact running sums where the method watches them."""
    indptr, indices, data, targets, weights = rows
    loss, _, lanes, watch, lams = method
    eta, tau, omega, pace, table, grid, origin, first, groups, norm = schedule
    cell, bias, clock = state
    of_feature = groups.of_feature
    m, sums, one = U(n_float64(lanes)), U(n_sums(watch)), U(1)
    stride = (one + sums) * m  # a cell is v and the sums
    lam, b = load(lanes, lams, U(0)), load(lanes, bias, U(0))
    for k in range(order.size):
        ask_for_row(indptr, indices, data, order, k)
        i, r, example = U(order[k]), U(first + k), 1.0 * (origin + first + k + 1)
        start, stop = U(indptr[i]), U(indptr[i + one])
        B, P, s = table[r, COL_B], table[r, COL_P], 0.0 * b
        now = B, table[r + one, COL_SP], table[r + one, COL_SPB]
        for p in range(start, stop):  # bring the groups of the row's features up to date; inner product
            j = U(indices[p])
            g = U(of_feature[j])
            if clock[g * FIELDS + TOUCHED] != example:
                since = U(maximum(clock[g * FIELDS + TOUCHED] - origin, 0.0))
                before = clock[g * FIELDS + LAST_B], table[since, COL_SP], table[since, COL_SPB]
                shrink_group(groups, norm, g, lam, method, cell, stride, now, before, table, grid, r)
                clock[g * FIELDS + TOUCHED], clock[g * FIELDS + LAST_B] = example, B
            s = s + load(lanes, cell, j * stride) * data[p]
        y, weight = load_row(lanes, targets, k), load_row(lanes, weights, k)
        margin = P * s + b
        c = weight * derivative(loss, margin, y)
        oc, curve = omega[k] * c, 0.0 * b
        if sums > 2:
            curve = growth(pace, k) * (weight * curvature(loss, margin, y))
        for p in range(start, stop):  # step; its prox is part of the next idle stretch
            at = U(indices[p]) * stride
            store(lanes, cell, at, load(lanes, cell, at) - tau[k] * c * data[p])
            add_gradient(watch, lanes, cell, at + m, oc * data[p], curve * data[p] * data[p])
        add_intercept(watch, lanes, bias, m, omega[k] * b, oc, curve)
        b = b - eta[k] * c
    store(lanes, bias, U(0), b)


@kernel
def settle(table, grid, origin, steps, groups, norm, method, state):
    """Close the sums after so many steps for every group, write v = w into its cells, and clear its clock."""
    _, _, lanes, watch, lams = method
    cell, _, clock = state
    m, one = U(n_float64(lanes)), U(1)
    stride, r, lam = (one + U(n_sums(watch))) * m, U(steps), load(lanes, lams, U(0))
    now = table[r, COL_B], table[r, COL_SP], table[r, COL_SPB]
    for g in range(U(groups.size.size)):
        since = U(maximum(clock[g * FIELDS + TOUCHED] - origin, 0.0))
        before = clock[g * FIELDS + LAST_B], table[since, COL_SP], table[since, COL_SPB]
        shrink_group(groups, norm, g, lam, method, cell, stride, now, before, table, grid, r)
        clock[g * FIELDS + TOUCHED], clock[g * FIELDS + LAST_B] = 0.0, 0.0
    for j in range(U(cell.size) // stride):
        store(lanes, cell, j * stride, table[r, COL_P] * load(lanes, cell, j * stride))
