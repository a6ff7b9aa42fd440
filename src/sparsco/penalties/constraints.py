"""Constraints on the weights: boxes and balls."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..parts import projections
from ..parts.contracts import Penalty, part
from .base import beside, half_square
from .blocks import Blocks


@part(
    Penalty,
    low="the least value, one number or one for each feature",
    high="the largest value, one number or one for each feature",
)
class Box(NamedTuple):
    """The box constraint low <= w_j <= high, plus (rho / 2) ||w||^2.

    Parameters
    ----------
    low, high : float or ndarray
        The bounds: one number, or one for each feature.
    rho : float
        The weight of the L2 term.
    """

    low: Any
    high: Any
    rho: float = 0.0

    lam = 0.0

    def check(penalty, d):
        if not np.all(np.asarray(penalty.low) <= np.asarray(penalty.high)):
            raise ValueError("Box(low, high): no bound low may exceed its bound high.")
        if any(np.shape(bound) not in ((), (d,)) for bound in penalty[:2]):
            raise ValueError(f"Box(low, high): a bound is one number or one for each of the {d} features.")

    def prox_all(penalty, W, s):
        return projections.box(W, *penalty._bounds(W))

    def strength(penalty, w):
        low, high = penalty._bounds(w)
        least, most = low - 1e-9 * np.abs(low), high + 1e-9 * np.abs(high)  # means of points on a bound are rounded
        inside = ((w >= least) & (w <= most)).all(0)
        return np.where(inside, 0.5 * penalty.rho * np.square(w).sum(0), np.inf)

    def blocks(penalty, d: int) -> Blocks:
        low, high = (np.broadcast_to(np.asarray(bound, np.float64), d).copy() for bound in penalty[:2])
        return Blocks(np.zeros(d), float(penalty.rho), low, high)

    def _bounds(penalty, W):
        return (b if np.ndim(b) == 0 else beside(np.asarray(b), W) for b in penalty[:2])


@part(Penalty, radius="of the ball; None: the norm of a ridge regression on the first rows")
class L1Ball(NamedTuple):
    """The L1 ball constraint ||W||_1 <= radius over all weights together, plus (rho / 2) ||W||^2.

    Parameters
    ----------
    radius : float or None
        The radius.  None: the L1 norm of a ridge regression on the pilot rows.
    rho : float
        The weight of the L2 term.
    """

    radius: float | None
    rho: float = 0.0

    lam = 0.0
    kind = "global"
    form = "l1-ball"
    open_fields = ("radius",)

    def check(penalty, d):
        if penalty.radius is not None:
            _check_radius(penalty)

    def resolve(penalty, norm):
        """Return the record with its radius; ``norm()`` returns the L1 norm of a ridge regression."""
        return penalty._replace(radius=norm() or 1.0) if penalty.radius is None else penalty

    def prox_all(penalty, W, s):
        return projections.l1_ball(W, penalty.radius)

    def strength(penalty, W):
        return _inside(penalty, W, np.abs(W).sum())


@part(Penalty, radius="of the ball")
class L2Ball(NamedTuple):
    """The L2 ball constraint ||W||_2 <= radius over all weights together, plus (rho / 2) ||W||^2.

    Parameters
    ----------
    radius : float
        The radius.
    rho : float
        The weight of the L2 term.
    """

    radius: float
    rho: float = 0.0

    lam = 0.0
    kind = "global"

    def check(penalty, d):
        _check_radius(penalty)

    def prox_all(penalty, W, s):
        return projections.l2_ball(W, penalty.radius)

    def strength(penalty, W):
        return _inside(penalty, W, np.linalg.norm(W))


def _check_radius(penalty: Any) -> None:
    if not 0.0 < penalty.radius < np.inf:
        raise ValueError(f"{type(penalty).__name__}(radius={penalty.radius!r}): it must be a positive number.")


def _inside(penalty: Any, W: np.ndarray, norm: float) -> float:
    """Return the L2 term inside the ball, up to rounding, and infinity outside."""
    return half_square(penalty, W) if norm <= penalty.radius * (1.0 + 1e-9) else np.inf
