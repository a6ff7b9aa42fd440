"""FOBOS that tracks its iterates: exact Bregman differences at O(nonzeros log features) per example.

As in FOBOS a cell stores B at its last touch and v = w / P; an idle one has |w| = P (|v| - lam pen (B - B_last)).  A
coordinate dies when its weight reaches zero.  Here every death is handled when it happens: a heap holds for each
nonzero the B at which it dies, and stale entries are skipped.  So the part of all idle coordinates in a difference
follows from five running sums over those alive: T2 = sum v^2, T1 = sum k |v|, N = sum k^2, X = sum w_bar v,
X0 = sum w_bar k sign(v), with k = lam pen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..jit.dispatch import U, inlined, kernel
from ..jit.lanes import load_row
from ..losses import derivative
from ..mirrors import Euclidean
from ..parts.contracts import Optimizer, part
from ..penalties import feature_weight, prox
from ..problem.bounds import Bounded, equal
from ..problem.state import Block, Layout, Problem, State, n_sums, tracks_iterates
from .fobos import FOBOS, gradient_decay
from .iterate_tracking import (
    B_BAR,
    IS_WRITTEN,
    KEPT_P,
    KEPT_SHRINKAGE,
    LOG_END,
    LOG_START,
    Tracking,
    TrackingBlock,
    has_room,
    keep_or_log,
    move_log_to_front,
)
from .mirror_descent import StaticDescent

_TINY = 1e-4
"""The P below which the cells are settled and P restarts from 1: sums lose as many digits as P does."""
_ENTRIES = 1 << 20
"""The number of heap entries that one call of the kernel may add."""
_B, _SP, _SPB, _T2, _T1, _N, _X, _X0, _LEARNED = range(9)
"""The entries of the clock: B, the sums of omega P and of omega P B, the five sums, examples learned."""
_LAST_B, _V, _SUM = U(0), U(1), U(2)
"""The numbers of a cell: B at the last touch, v, the sum of iterates; w_bar is the last one."""
_LENGTH, _ALIVE = range(2)
"""The entries of ``size``: entries of the heap, coordinates alive."""


class Schedule(NamedTuple):
    """The arguments of the kernel for the next steps.

    Per row: the step of the intercept, the step over P (also the shrinkage over P), and the weight in the average; P
    before each step and after the last.  The heap: keys, features, its size and the number of coordinates alive.  Then
    the tracking arrays, and scratch.
    """

    eta: np.ndarray
    tau: np.ndarray
    omega: np.ndarray
    P: np.ndarray
    key: np.ndarray
    who: np.ndarray
    size: np.ndarray
    tracking: Tracking
    level: np.ndarray


class HeapBlock(TrackingBlock):
    """The block of TrackedFOBOS, which owns a heap of (B at which a coordinate dies, feature)."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.who, self.size = np.zeros(0), np.zeros(0, np.uint32), np.zeros(2, np.int64)
        self.P = 1.0

    def bounds(self, problem: Problem, state: State, t: int) -> Iterator[Bounded]:
        yield from super().bounds(problem, state, t)
        alive = np.count_nonzero(state.cell.reshape(problem.d, -1)[:, int(_V)])
        yield Bounded("the size of the heap", self.size, [min(len(self.key), len(self.who)), problem.d], size=2)
        yield equal("the sizes of the heap", len(self.key), len(self.who))
        yield Bounded("the features of the heap", self.who[: self.size[_LENGTH]], problem.d - 1)
        yield Bounded("the features alive", self.size[_ALIVE] - alive)

    def make_room(self, entries: int) -> None:
        """Make room for so many more entries."""
        room = int(self.size[_LENGTH]) + entries
        if len(self.key) < room:
            more = max(room, 2 * len(self.key)) - len(self.key)
            self.key, self.who = np.append(self.key, np.zeros(more)), np.append(self.who, np.zeros(more, np.uint32))


class _Layout(Layout):
    """The layout of TrackedFOBOS, whose shared field is B at the last touch."""

    __slots__ = ()

    def bounds(self, problem: Problem, state: State, block: Block, t: int) -> Iterator[Bounded]:
        yield Bounded("B at the last touches", self.cells_of(problem, state)[0], state.clock[_B])


@part(Optimizer)
class TrackedFOBOS(NamedTuple):
    """FOBOS that tracks single iterates; the L2 term is in the prox or in the gradient."""

    l2_in: str = "prox"

    layout = _Layout(shared=1, lane=1, bias=1, clock=9)
    columns = 1
    uses_steps = True
    max_models = 1
    sums_gradients = False
    can_track_iterates = True
    starts_anywhere = True
    mirror = Euclidean()

    @property
    def learn(self):
        return learn_tracked

    def check(self, problem: Problem) -> None:
        """Raise for parameters or a problem that the optimizer does not support."""
        FOBOS(self.l2_in).check(problem)
        if not problem.penalty.is_absolute:
            name = type(problem.penalty).__name__
            raise ValueError(f"iterates under {name} cannot be tracked: choose the L1 norm, an L2 term or both.")

    def start(self, problem: Problem) -> tuple[State, Block]:
        return self.layout.new_state(problem), HeapBlock()

    def schedule(
        self, problem: Problem, state: State, block: HeapBlock, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> Schedule:
        """Return the arrays for the next ``len(eta)`` steps, or for fewer where P or the heap sets a limit."""
        if t == 0:  # a starting point
            self._refresh(problem, state, block)
        self._compact(problem, state, block)
        rho, longest = float(problem.penalty.rho), max(len(block.noted), 1)
        eta = eta[: max(1, _ENTRIES // longest)]
        in_prox = self.l2_in == "prox"
        decay = 1.0 / (1.0 + eta * rho) if in_prox else gradient_decay(state, t, eta, rho)
        P = np.multiply.accumulate(np.append(block.P, decay))
        small = np.flatnonzero(P < _TINY)
        n = min(int(small[0]), len(eta)) if small.size else len(eta)
        n = max(n, 1)
        block.full = bool(P[n] < _TINY)
        block.P, block.start = float(P[n]), t
        block.make_room(n * longest)
        tau = eta[:n] / (P[:n] if in_prox else P[1 : n + 1])
        b_eta = eta[:n] if problem.intercept else 0.0 * eta[:n]
        tracking = block.arrays(problem, n)
        return Schedule(b_eta, tau, omega[:n], P[: n + 1], block.key, block.who, block.size, tracking, block.level)

    def _compact(self, problem: Problem, state: State, block: HeapBlock) -> None:
        """Drop stale entries once they are most of the heap."""
        size, alive = block.size
        if size > 4 * alive + 4096:
            key, who = block.key[:size], block.who[:size].astype(np.int64)
            touched, lanes, _ = self.layout.views(problem, state)
            pen = problem.penalty.pen  # for these features only: there may be many others
            k = problem.method.lams[0] * (1.0 if pen is None else pen[who])
            v, B = lanes[who, 0, 0], touched[who, 0]
            with np.errstate(divide="ignore", invalid="ignore"):
                valid = (v != 0.0) & (key == B + np.abs(v) / k)
            order = np.argsort(key[valid], kind="stable")
            who = who[valid][order]
            _, first = np.unique(who, return_index=True)  # an entry can be present twice
            kept = np.sort(first)
            block.size[_LENGTH] = len(kept)
            block.key[: len(kept)], block.who[: len(kept)] = key[valid][order][kept], who[kept]

    def _alive(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return whether each coordinate is nonzero, B at its last touch, v at that time, and lam pen."""
        touched, lanes, _ = self.layout.views(problem, state)
        k = problem.method.lams[0] * problem.penalty.feature_weights(problem.d)
        v, B = lanes[:, 0, 0], touched[:, 0]
        return _is_alive(B, v, k, state.clock[_B]), B, v, k

    def settle(self, problem: Problem, state: State, block: HeapBlock, t: int) -> None:
        """Bring every coordinate and its sum up to date: P = 1, B = 0."""
        if block.iterate and not block.count[IS_WRITTEN]:  # the kept iterate is expressed in the old P and B
            block.kept = self.kept(problem, state, block)
            block.count[LOG_END], block.count[IS_WRITTEN], block.count[LOG_START] = 0, 1, 0
        alive, B, v, k = self._alive(problem, state)
        if problem.sums:
            _, lanes, _ = self.layout.views(problem, state)
            SP, SPB = state.clock[_SP], state.clock[_SPB]
            level = (np.abs(v) + k * B) * SP - k * SPB
            lanes[:, 1, 0] += np.where(alive, np.copysign(level, v), 0.0)
        v[:] = block.P * _weight(B, v, k, state.clock[_B])
        B[:] = 0.0
        state.clock[[_B, _SP, _SPB]] = 0.0
        block.P, block.full, block.start = 1.0, False, t
        self._refresh(problem, state, block)

    def compare(self, problem: Problem, state: State, block: HeapBlock, w_bar: np.ndarray) -> None:
        """Set the point that iterates are compared with, after a settling."""
        StaticDescent.compare(self, problem, state, block, w_bar)
        self._refresh(problem, state, block)

    def _refresh(self, problem: Problem, state: State, block: HeapBlock) -> None:
        """Rebuild the heap and the five sums, for cells that are settled (B = 0)."""
        _, lanes, _ = self.layout.views(problem, state)
        v = lanes[:, 0, 0]
        k = problem.method.lams[0] * problem.penalty.feature_weights(problem.d)
        alive = np.flatnonzero(v)
        v, k = v[alive], k[alive]
        w_bar = lanes[alive, 2, 0] if tracks_iterates(problem.watch) else 0.0 * v
        sign = np.sign(v)
        parts = (v * v, k * np.abs(v), k * k, w_bar * v, w_bar * k * sign)
        state.clock[_T2 : _X0 + 1] = [part.sum() for part in parts]
        mortal = k > 0.0
        key = np.abs(v[mortal]) / k[mortal]
        order = np.argsort(key, kind="stable")  # a sorted array is a heap
        block.size[:] = 0, len(alive)
        block.make_room(len(order))
        block.size[_LENGTH] = len(order)
        block.key[: len(order)], block.who[: len(order)] = key[order], alive[mortal][order]

    def weights(self, problem: Problem, state: State, block: HeapBlock, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the iterate after t examples."""
        _, B, v, k = self._alive(problem, state)
        bias = self.layout.views(problem, state)[2]
        return block.P * _weight(B, v, k, state.clock[_B])[:, None], bias[0, :1].copy()

    def dual(self, problem: Problem, state: State, block: HeapBlock, t: int) -> np.ndarray:
        """Return the dual variable v after t examples: the weights themselves."""
        return self.weights(problem, state, block, t)[0][:, 0]

    def kept(self, problem: Problem, state: State, block: HeapBlock) -> np.ndarray:
        """Return the weights of the iterate that was kept."""
        if block.count[IS_WRITTEN]:
            return block.kept[: problem.d].copy()
        _, B, v, k = self._alive(problem, state)
        B, v = block.undone(np.stack([B, v], 1)).T
        return block.number[KEPT_P] * _weight(B, v, k, block.number[KEPT_SHRINKAGE])


def _is_alive(B_last: np.ndarray, v: np.ndarray, k: np.ndarray, B: float) -> np.ndarray:
    """Return whether a coordinate that was v at B_last is nonzero at B, by exactly the operations of the kernel."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return (v != 0.0) & ~(B >= B_last + np.abs(v) / k)


def _weight(B_last: np.ndarray, v: np.ndarray, k: np.ndarray, B: float) -> np.ndarray:
    """Return v at B."""
    size = np.maximum(np.abs(v) - k * (B - B_last), 0.0)
    return np.where(_is_alive(B_last, v, k, B), np.copysign(size, v), 0.0)


# ---- the heap of deaths ----------------------------------------------------------------------------------------------


@inlined
def _push(key, who, length, dies, j):
    """Add a coordinate and the B at which it dies to a heap of this length; return the new length."""
    one, at = U(1), length
    while at > U(0):
        parent = (at - one) >> one
        if key[parent] <= dies:
            break
        key[at], who[at] = key[parent], who[parent]
        at = parent
    key[at], who[at] = dies, j
    return length + one


@inlined
def _pop(key, who, length):
    """Remove the first entry of a heap of this length; return the new length."""
    one = U(1)
    length -= one
    moving, feature, hole, child = key[length], who[length], U(0), one
    while child < length:
        if (child + one < length) & (key[min(child + one, length)] < key[child]):
            child += one
        if key[child] >= moving:
            break
        key[hole], who[hole] = key[child], who[child]
        hole = child
        child = hole + hole + one
    key[hole], who[hole] = moving, feature
    return length


# ---- a coordinate ----------------------------------------------------------------------------------------------------


@inlined
def _value(reg, k, v, last, B):
    """Return at B the v of a coordinate that was v at ``last``."""
    if k > 0.0:
        v = 0.0 if B >= last + abs(v) / k else prox(reg, v, k * (B - last))
    return v


@inlined
def _through(v, k, last, SP, SPB):
    """Return the sum of all iterates so far of a coordinate that was v at ``last``, as if it had always been so."""
    total = (abs(v) + k * last) * SP - k * SPB
    return total if v > 0.0 else -total


@inlined
def _sign(v):
    return 1.0 if v > 0.0 else -1.0


@inlined
def _write_out(number, count, item, old, kept, reg, lam, cell, stride):
    """Write the kept iterate to ``kept``, from the cells as they were then, and clear the log."""
    one = U(1)
    for e in range(count[LOG_END]):  # swap the old values in, newest first; the log holds the current ones meanwhile
        back = U(count[LOG_END] - 1 - e)
        at = U(item[back]) * stride
        last, v = cell[at + _LAST_B], cell[at + _V]
        cell[at + _LAST_B], cell[at + _V] = old[back + back], old[back + back + one]
        old[back + back], old[back + back + one] = last, v
    for j in range(U(cell.size) // stride):
        at = j * stride
        v = _value(reg, lam * feature_weight(reg, j), cell[at + _V], cell[at + _LAST_B], number[KEPT_SHRINKAGE])
        kept[j] = number[KEPT_P] * v
    for e in range(count[LOG_END]):  # swap back
        at = U(item[e]) * stride
        cell[at + _LAST_B], cell[at + _V] = old[e + e], old[e + e + one]
    count[LOG_END], count[IS_WRITTEN] = 0, 1


@kernel
def learn_tracked(rows, order, schedule, method, state):
    """Make FOBOS steps over the rows in ``order``, with the sum of iterates and, if tracked, Bregman differences."""
    indptr, indices, data, targets, weights = rows
    loss, reg, lanes, watch, lams = method
    eta, tau, omega, decay, key, who, size, tracking, level = schedule
    number, count, item, old, kept, differences = tracking
    cell, bias, clock = state
    sums, one = U(n_sums(watch)), U(1)
    stride, lam, b = _SUM + sums, lams[0], bias[0]
    B, SP, SPB = clock[_B], clock[_SP], clock[_SPB]
    T2, T1, N, X, X0 = clock[_T2], clock[_T1], clock[_N], clock[_X], clock[_X0]
    length, alive = U(size[_LENGTH]), U(size[_ALIVE])
    for r in range(order.size):
        i, step, P, after_P = U(order[r]), tau[r], decay[r], decay[r + 1]
        start, stop = U(indptr[i]), U(indptr[i + one])
        SP += omega[r] * P
        SPB += omega[r] * P * B
        s = 0.0
        for p in range(start, stop):  # catch up, inner product
            j = U(indices[p])
            at = j * stride
            v = _value(reg, lam * feature_weight(reg, j), cell[at + _V], cell[at + _LAST_B], B)
            level[p - start] = v
            s += v * data[p]
        g = weights[r] * derivative(loss, P * s + b, load_row(lanes, targets, r))
        c, after_B, first, difference = step * g, B + step, U(0), 0.0
        add2, add1, addN, addX, addX0 = 0.0, 0.0, 0.0, 0.0, 0.0
        if tracks_iterates(watch) > 0:
            if not has_room(count, item, (stop - start) + alive):
                move_log_to_front(count, item, old)
            if not has_room(count, item, (stop - start) + alive):
                _write_out(number, count, item, old, kept, reg, lam, cell, stride)
            first = U(count[LOG_END])
        logged = first
        for p in range(start, stop):  # step, prox; out of the five sums and, if alive, into them and into the heap
            j = U(indices[p])
            at = j * stride
            k, v, raw, last = lam * feature_weight(reg, j), level[p - start], cell[at + _V], cell[at + _LAST_B]
            w_bar = cell[at + stride - one]  # only valid where iterates are tracked
            was = (raw != 0.0) & ((k == 0.0) | (B < last + abs(raw) / max(k, 1e-300)))
            u = prox(reg, v - c * data[p], k * step)
            cell[at + _LAST_B], cell[at + _V] = after_B, u
            alive = alive + U(u != 0.0) - U(was)
            if sums > 0:
                if was:
                    cell[at + _SUM] += _through(raw, k, last, SP, SPB)
                if u != 0.0:
                    cell[at + _SUM] -= _through(u, k, after_B, SP, SPB)
            if tracks_iterates(watch) > 0:
                item[logged], old[logged + logged], old[logged + logged + one] = j, last, raw
                logged += one
                if was:
                    T2, T1, N = T2 - v * v, T1 - k * abs(v), N - k * k
                    X, X0 = X - w_bar * v, X0 - w_bar * k * _sign(raw)
                before, now = P * v, after_P * u
                difference += 0.5 * (before * before - now * now) + w_bar * (now - before)
                if u != 0.0:
                    add2, add1, addN = add2 + u * u, add1 + k * abs(u), addN + k * k
                    addX, addX0 = addX + w_bar * u, addX0 + w_bar * k * _sign(u)
            if (k > 0.0) & (u != 0.0):
                length = _push(key, who, length, after_B + abs(u) / k, j)
        while length > U(0):  # the coordinates that die in this step
            dies, j = key[0], U(who[0])
            if dies > after_B:
                break
            length = _pop(key, who, length)
            at, k = j * stride, lam * feature_weight(reg, j)
            raw, last = cell[at + _V], cell[at + _LAST_B]
            if (raw != 0.0) & (dies == last + abs(raw) / k):  # not stale
                v, sign = max(abs(raw) - k * (B - last), 0.0), _sign(raw)
                cell[at + _V] = 0.0
                alive -= one
                if sums > 0:
                    cell[at + _SUM] += _through(raw, k, last, SP, SPB)
                if tracks_iterates(watch) > 0:
                    item[logged], old[logged + logged], old[logged + logged + one] = j, last, raw
                    logged += one
                    w, w_bar = sign * v, cell[at + stride - one]
                    T2, T1, N = T2 - v * v, T1 - k * v, N - k * k
                    X, X0 = X - w_bar * w, X0 - w_bar * k * sign
                    difference += 0.5 * (P * v) * (P * v) - w_bar * (P * w)
        if sums > 0:
            bias[1] += omega[r] * b
        after = b - eta[r] * g
        if tracks_iterates(watch) > 0:  # all others fall by k step
            fallen, left = T2 - step * (2.0 * T1 - step * N), X - step * X0
            difference += 0.5 * (P * P * T2 - after_P * after_P * fallen) + (after_P * left - P * X)
            T2, T1, N, X, X0 = fallen + add2, T1 - step * N + add1, N + addN, left + addX, X0 + addX0
            difference += 0.5 * (b * b - after * after) + number[B_BAR] * (after - b)
            differences[r] = difference
            iterate = U(clock[_LEARNED]) + U(r) + one
            if keep_or_log(number, count, difference, iterate, b, first, logged):
                number[KEPT_P], number[KEPT_SHRINKAGE] = P, B
        b, B = after, after_B
    bias[0], clock[_B], clock[_SP], clock[_SPB] = b, B, SP, SPB
    clock[_T2], clock[_T1], clock[_N], clock[_X], clock[_X0] = T2, T1, N, X, X0
    clock[_LEARNED] += order.size
    size[_LENGTH], size[_ALIVE] = length, alive
