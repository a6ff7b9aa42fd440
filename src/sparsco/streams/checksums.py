"""A fast checksum of the blocks of a row cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit.dispatch import U, inlined, kernel

_REGIONS, _LANES = 4, 64
"""The regions and lanes of a checksum."""


@inlined
def _mixed(h: Any, word: Any) -> Any:
    """Return a mix of both that is bijective in each: a change of one word is never lost."""
    h = h ^ word
    return (h << U(29) | h >> U(35)) * U(0x9E3779B97F4A7C15)


def checksum(words: np.ndarray) -> int:
    """Return a 64-bit checksum of words; the mixing loses a change with probability 2^-64."""
    regions = words[: words.size - words.size % (_REGIONS * _LANES)].reshape(_REGIONS, -1, _LANES)
    sums = np.zeros((2, _REGIONS, _LANES), np.uint64)
    add_up(regions, *sums)
    return int(mixed_up(np.append(sums, words[regions.size :]), U(words.size)))


@kernel
def add_up(regions: Any, sums: Any, orders: Any) -> None:
    """Add up each region's words by lane, and rotated sums of these sums, so that the order matters.

    Lanes do not depend on each other, and regions hide memory latency: this is as fast as a core can read.
    """
    for i in range(regions.shape[1]):
        for r in range(regions.shape[0]):
            for k in range(regions.shape[2]):
                sums[r, k] += regions[r, i, k]
                orders[r, k] = (orders[r, k] << U(29) | orders[r, k] >> U(35)) ^ sums[r, k]


@kernel
def mixed_up(words: Any, h: Any) -> Any:
    """Return a few words mixed into one."""
    for k in range(words.size):
        h = _mixed(h, words[k])
    return h ^ (h >> U(32))
