"""The running sums that kernels keep beside their iterates, for conversions.

They follow the optimizer's own numbers in each cell, and in the intercept: the sum of the iterates omega w, then of the
gradients omega c x, then of the curvatures h x^2.  ``n_sums`` of the watch says how many.  How sums of lazy iterates
are brought up to date is each optimizer's own mathematics.  The rest is the same for all of them, and is here.
"""

from __future__ import annotations

from ..jit.dispatch import U, inlined
from ..jit.lanes import load, n_float64, store
from ..problem.state import n_sums


@inlined
def add_gradient(watch, lanes, cell, at, gradient, curvature):
    """Add omega c x and h x^2, where they are watched, to a feature's sums, which begin at ``cell[at]``."""
    m = U(n_float64(lanes))
    if n_sums(watch) > 1:
        store(lanes, cell, at + m, load(lanes, cell, at + m) + gradient)
    if n_sums(watch) > 2:
        store(lanes, cell, at + m + m, load(lanes, cell, at + m + m) + curvature)


@inlined
def add_intercept(watch, lanes, bias, at, iterate, gradient, curvature):
    """Add omega b, omega c and h, where they are watched, to the intercept's sums, which begin at ``bias[at]``."""
    m = U(n_float64(lanes))
    if n_sums(watch) > 0:
        store(lanes, bias, at, load(lanes, bias, at) + iterate)
    if n_sums(watch) > 1:
        store(lanes, bias, at + m, load(lanes, bias, at + m) + gradient)
    if n_sums(watch) > 2:
        store(lanes, bias, at + m + m, load(lanes, bias, at + m + m) + curvature)
