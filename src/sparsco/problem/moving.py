"""Sums that move out of the cells when a window ends, in one sweep over all features."""

from __future__ import annotations

import numpy as np

from ..jit.dispatch import U, inlined, kernel

WORTH_READING = 1 << 17
"""The number of features from which a kernel is faster than NumPy, even if it must be compiled for this alone."""
_PIECE = 256
"""Features whose sums are moved together: a branch for each number would cost more than to move it."""


def moved(sums: np.ndarray) -> np.ndarray:
    """Return a copy of (d, fields, lanes), and set the original to zero."""
    if len(sums) < WORTH_READING:
        out = sums.copy()
        sums[:] = 0.0
    else:
        out = np.zeros(sums.shape, sums.dtype)
        move(sums, out)
    return out


@kernel
def move(sums, out):
    """Move the numbers to ``out``; pieces of zeros are only read, which saves memory of a stream that just began."""
    d, fields, lanes = U(sums.shape[0]), U(sums.shape[1]), U(sums.shape[2])
    for first in range(U(0), d, U(_PIECE)):
        stop = min(first + U(_PIECE), d)
        if _has_a_number(sums, first, stop, fields, lanes):
            for j in range(first, stop):
                for k in range(fields):
                    for i in range(lanes):
                        out[j, k, i], sums[j, k, i] = sums[j, k, i], 0.0


@inlined
def _has_a_number(sums, first, stop, fields, lanes):
    """Return whether some number of these features is not zero."""
    for j in range(first, stop):
        for k in range(fields):
            for i in range(lanes):
                if sums[j, k, i] != 0.0:
                    return True
    return False
