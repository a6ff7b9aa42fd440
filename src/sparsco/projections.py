"""Euclidean projections onto convex sets: each takes an array of any shape as one vector and returns a new one.

>>> l1_ball(np.array([3.0, -1.0]), 2.0)
array([ 2., -0.])
>>> simplex(np.array([0.5, 0.5, -9.0]))
array([0.5, 0.5, 0. ])
"""

from __future__ import annotations

from typing import Any

import numpy as np


def l1_ball(v: np.ndarray, radius: float) -> np.ndarray:
    """The nearest point with ||u||_1 <= radius, in linear time."""
    size = np.abs(v)
    if size.sum() <= radius * (1.0 + _ROUNDING):
        return np.array(v, dtype=np.float64)
    return np.copysign(np.maximum(size - _level(size.ravel(), radius), 0.0), v)


def l2_ball(v: np.ndarray, radius: float) -> np.ndarray:
    """The nearest point with ||u||_2 <= radius."""
    norm = float(np.linalg.norm(v))
    return np.array(v, dtype=np.float64) if norm <= radius * (1.0 + _ROUNDING) else v * (radius / norm)


def box(v: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """The nearest point with low <= u <= high, bounds that are numbers or arrays of v's shape."""
    return np.clip(v, low, high).astype(np.float64)


def simplex(v: np.ndarray, total: float = 1.0) -> np.ndarray:
    """The nearest point with u >= 0 and sum(u) = total > 0, in linear time."""
    return np.maximum(v - _level(np.ravel(v), total), 0.0)


_ROUNDING = 4.0 * np.finfo(np.float64).eps
"""A point that rounding alone keeps outside is inside, so that a projection leaves its own results alone."""


def _level(v: np.ndarray, total: float) -> float:
    """tau with sum(max(v - tau, 0)) = total: halve the candidates by their median until none is left to decide."""
    if not total > 0.0:
        return float(v.max(initial=0.0))
    summed, count = 0.0, 0
    while v.size:
        middle = v.size // 2
        pivot = np.partition(v, middle)[middle]
        upper = v[v >= pivot]
        more, n = summed + upper.sum(), count + upper.size
        if more - n * pivot < total:  # tau lies below: these all count
            summed, count, v = more, n, v[v < pivot]
        else:
            v = v[v > pivot]
    return float((summed - total) / count)
