"""Euclidean projections onto convex sets; each treats an array of any shape as one vector and returns a new array.

>>> l1_ball(np.array([3.0, -1.0]), 2.0)
array([ 2., -0.])
>>> simplex(np.array([0.5, 0.5, -9.0]))
array([0.5, 0.5, 0. ])
"""

from __future__ import annotations

from typing import Any

import numpy as np


def l1_ball(v: Any, radius: float) -> np.ndarray:
    """Return the nearest point with ||u||_1 <= radius, in linear time."""
    v = _vector("l1_ball", v, radius)
    size = np.abs(v)
    if size.sum() <= radius * (1.0 + _ROUNDING):
        return v.copy()
    return np.copysign(_lowered(size, radius), v)


def l1_ball_near(v: Any, radius: float, center: Any, distance: float, tol: float = 1e-10) -> np.ndarray:
    """Return the nearest point with ||u||_1 <= radius and ||u - center||_2 <= distance, for a center in the L1 ball.

    It is the projection of a point between v and the center onto the L1 ball; bisection finds that point.  The feasible
    end of the last interval is returned.  It is within ``tol`` times the distance from the other ball's surface (0: to
    the last bit).
    """
    v, center = _vector("l1_ball_near", v, radius), _vector("l1_ball_near", center, distance)
    if v.shape != center.shape:
        raise ValueError(
            f"l1_ball_near: v has the shape {v.shape} and the center {center.shape}: give both the same shape."
        )
    if not np.abs(center).sum() <= radius * (1.0 + 1e-9):
        raise ValueError("l1_ball_near: the center must lie in the L1 ball.")
    u = l1_ball(v, radius)
    if np.linalg.norm(u - center) <= distance:
        return u
    low, high, u = 0.0, 1.0, center.copy()
    for _ in range(1100):  # the smallest double is 2^-1074
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        between = l1_ball(center + middle * (v - center), radius)
        gap = distance - float(np.linalg.norm(between - center))
        if gap < 0.0:
            high = middle
            continue
        low, u = middle, between
        if gap <= tol * distance:
            break
    return u


def l2_ball(v: Any, radius: float) -> np.ndarray:
    """Return the nearest point with ||u||_2 <= radius."""
    v = _vector("l2_ball", v, radius)
    norm = float(np.linalg.norm(v))
    return v.copy() if norm <= radius * (1.0 + _ROUNDING) else v * (radius / norm)


def box(v: Any, low: Any, high: Any) -> np.ndarray:
    """Return the nearest point with low <= u <= high; the bounds are numbers or arrays of v's shape."""
    if not np.all(np.less_equal(low, high)):
        raise ValueError("box: no bound low may exceed its bound high.")
    return np.clip(v, low, high).astype(np.float64)


def simplex(v: Any, total: float = 1.0) -> np.ndarray:
    """Return the nearest point with u >= 0 and sum(u) = total > 0, in linear time."""
    v = _vector("simplex", v, total)
    if not (v.size and total > 0.0):
        raise ValueError(f"simplex: {v.size} numbers of at least 0 cannot sum to total={total!r}, which is above 0.")
    return _lowered(v, total)


_ROUNDING = 4.0 * np.finfo(np.float64).eps
"""The tolerance for points that lie outside by rounding only, so that a projection does not change its own results."""


def _vector(name: str, v: Any, radius: float) -> np.ndarray:
    """Return v as an array of numbers; raise for an invalid v or radius."""
    v = np.asarray(v, dtype=np.float64)
    if not radius >= 0.0:
        raise ValueError(f"{name}: a radius, distance or total of {radius!r}: it must be a number of at least 0.")
    if not np.isfinite(v).all():
        raise ValueError(f"{name}: v must be finite numbers, and some are not.")
    return v


def _lowered(v: np.ndarray, total: float) -> np.ndarray:
    """Return max(v - tau, 0) with the sum ``total``.

    It is computed from the differences to the largest number: tau itself has no digits left for a total that is 2^53
    times smaller.
    """
    below = v - v.max(initial=-np.inf)
    return np.maximum(below - _level(below.ravel(), total), 0.0)


def _level(v: np.ndarray, total: float) -> float:
    """Return tau with sum(max(v - tau, 0)) = total: halve the candidates by their median until all are decided."""
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
