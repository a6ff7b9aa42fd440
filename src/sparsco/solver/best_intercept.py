"""The best intercept for given weights: Newton steps in one number, over all rows, in one compiled call.

Rows are processed eight at a time, as kernels of optimizers process models.  Calls of NumPy, which make an array for
each operation, take five times as long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit.dispatch import U, cast, inlined, kernel
from ..jit.lanes import EIGHT, One, lane, load, load_row, store, sum_lanes, width
from ..losses import curvature, derivative
from ..offsets import for_kernels
from .loss_term import LossTerm

CENTRED = 1e-13
"""The sum of the slopes, as a share of the sum of their sizes, that counts as rounding."""
NEWTON_STEPS = 50
"""The Newton steps after which an intercept is taken as it is."""
_TOGETHER = 512
"""How many times eight rows are summed up together: sums of all rows one by one would lose digits."""
_ONE, _NOTHING = One(), np.zeros(8)


class Settled(NamedTuple):
    """An intercept (1,), the margins with it, and the derivatives of each row's loss there, (n, 1)."""

    b: np.ndarray
    P: np.ndarray
    slopes: np.ndarray
    curvatures: np.ndarray


def with_best_intercept(term: LossTerm, b: np.ndarray, P: np.ndarray, steps: int = NEWTON_STEPS) -> Settled:
    """Return the best intercept for the present weights, as far as so many Newton ``steps`` lead; 0: it stays.

    The loss has one output and no kinks.  Margins that do not change are returned as they are.
    """
    derivatives, y = np.empty((2, *P.shape)), for_kernels(np.ascontiguousarray(term.y[:, 0]))
    share, p = (np.ascontiguousarray(each[:, 0]) for each in (term.share, P))
    limits = float(term.far(P, b)[0]) or 1.0, steps, CENTRED  # targets that are all alike are no distance apart
    shift = _best_shift(cast(term.loss), y, share, p, *limits, _NOTHING, *derivatives[:, :, 0])
    return Settled(b + shift, P if shift == 0.0 else P + shift, *derivatives)


@kernel
def _best_shift(loss, y, share, p, far, steps, centred, nothing, slopes, bends):
    """Return the shift of the margins at which the sum of the slopes is zero; write slopes and curvatures there.

    The sum rises with the shift, so Newton steps are kept between the largest shift that was too small and the smallest
    that was too large.  Some losses do not bend far from the targets, and Newton steps have no length there: ``far``
    bounds them.  Where a loss grows exponentially they may end beyond all numbers, and come back by one at a time: the
    bounds are halved then.
    """
    n, low, high, shift, last = U(p.size), -np.inf, np.inf, 0.0, np.inf
    eights, together = n // U(8), U(_TOGETHER)
    for done in range(steps + 1):
        left, size, bend = _sums_at(_ONE, loss, y, share, p, shift, eights * U(8), n, nothing, slopes, bends)
        for first in range(U(0), eights, together):
            stop = min(first + together, eights)
            one, two, three = _sums_at(EIGHT, loss, y, share, p, shift, first, stop, nothing, slopes, bends)
            left, size, bend = left + one, size + two, bend + three
        is_number, is_high = size < np.inf, not left <= 0.0
        if (is_number and abs(left) <= centred * size) or done == steps:
            break
        before = shift
        low, high = (low, shift) if is_high else (shift, high)
        step = left / max(bend, 1e-300) if is_number else (far if is_high else -far)
        step = min(max(step, -far), far)
        shift = shift - step
        if high - low < np.inf and (not low < shift < high or 2.0 * abs(step) > last):
            shift = 0.5 * (low + high)
        if shift == before:  # the bounds are neighbours
            break
        last = abs(shift - before)
    return shift


@inlined
def _sums_at(lanes, loss, y, share, p, shift, first, last, nothing, slopes, bends):
    """Return the sums of slopes, of their sizes and of curvatures over some rows, times their shares.

    They are the rows of pieces number ``first`` to ``last``, each as long as there are lanes.
    """
    left = size = bend = load(lanes, nothing, U(0))
    for k in range(first, last):
        at, target = k * U(width(lanes)), load_row(lanes, y, k)
        a, margin = load(lanes, share, at), load(lanes, p, at) + shift
        slope, curve = derivative(loss, margin, target), curvature(loss, margin, target)
        store(lanes, slopes, at, slope)
        store(lanes, bends, at, curve)
        left, size = left + a * slope, size + a * abs(slope)
        bend = bend + a * curve
    return lane(sum_lanes(left), 0), lane(sum_lanes(size), 0), lane(sum_lanes(bend), 0)
