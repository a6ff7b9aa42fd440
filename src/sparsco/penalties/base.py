"""The vocabulary of penalties: what kernels and optimizers ask of one, on single weights and on whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit.dispatch import dispatched, optional


@dispatched
def prox(regularizer: Any, v: Any, s: Any) -> Any:
    """argmin_u (u - v)^2 / 2 + s r(u), with r the regularizer's non-smooth part at weight one."""
    raise NotImplementedError


@optional
def stepped(regularizer: Any, v: Any, s: Any, g: Any) -> Any:
    """prox(v, s) - g; better with one rounding of v than with two: in float32 a small s by itself would be lost."""
    return prox(regularizer, v, s) - g


@dispatched
def penalty(regularizer: Any, j: Any) -> Any:
    """pen_j: the relative weight of feature j in the non-smooth part."""
    raise NotImplementedError


@optional
def falls(regularizer: Any, v: Any) -> Any:
    """How fast the prox moves v towards zero: |prox(v, s)| = max(|v| - s falls(v), 0).  1 for the absolute value."""
    return 1.0


@dispatched
def strength(regularizer: Any, w: np.ndarray) -> Any:
    """psi(w), summed over features; one number for a vector, one per column for a matrix; of a matrix whose columns the
    regularizer ties together one number for all.  Infinite outside a constraint set."""
    raise NotImplementedError


def restricted(regularizer: Any, features: Any) -> Any:
    """The regularizer of some features, where it treats each by itself."""
    if getattr(regularizer, "pen", None) is None:
        return regularizer
    return regularizer._replace(pen=np.asarray(regularizer.pen)[features])


def prox_all(regularizer: Any, W: np.ndarray, s: Any) -> np.ndarray:
    """argmin_U ||U - W||^2 / 2 + s r(U) over whole arrays, (d,) or (d, m).

    ``s`` is a number; where :func:`coarsened` leaves it as it is, an array.
    """
    if hasattr(regularizer, "prox_all"):
        return type(regularizer).prox_all(regularizer, W, s)
    return prox(regularizer, W, s * (regularizer.lam * beside(regularizer.penalties(len(W)), W)))


def prox_with_l2(regularizer: Any, W: np.ndarray, s: float) -> np.ndarray:
    """argmin_U ||U - W||^2 / 2 + s psi(U), the L2 term included."""
    decay = 1.0 / (1.0 + s * regularizer.rho)
    return prox_all(regularizer, W * decay, s * decay)


def bounds(regularizer: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest value of each weight, where the regularizer treats each by itself: the points of its
    set that are nearest to far away."""
    far = np.full(d, 1e100)
    if kind(regularizer) != "separable":
        return -np.inf * far, np.inf * far
    least, most = prox_all(regularizer, -far, 0.0), prox_all(regularizer, far, 0.0)
    return np.where(least <= -far, -np.inf, least), np.where(most >= far, np.inf, most)


def coarsened(regularizer: Any, M: np.ndarray) -> Any:
    """M (d, m) raised to where the prox in its metric is ``prox_all`` with s = 1 / M: constant over what is tied."""
    if kind(regularizer) == "global":
        return float(M.max(initial=0.0))
    return type(regularizer).coarsened(regularizer, M) if hasattr(regularizer, "coarsened") else M


def kind(regularizer: Any) -> str:
    """How weights are tied together; a record that does not say has a scalar prox."""
    return getattr(regularizer, "kind", "separable")


def is_lazy(regularizer: Any) -> bool:
    """Whether kernels that touch only an example's own features can handle it."""
    return hasattr(regularizer, "prox")


def checked(regularizer: Any, d: int) -> Any:
    """The record with lists made arrays, for d features; refused with one sentence where it makes no sense."""
    if hasattr(regularizer, "at"):  # its strength is not known yet
        return regularizer
    name, lists = type(regularizer).__name__, {}
    for field, value in zip(regularizer._fields, regularizer, strict=True):
        if isinstance(value, list | tuple):
            lists[field] = np.asarray(value)
        if isinstance(value, str) or (value is None and not hasattr(regularizer, "resolve")):
            raise ValueError(f"{name}({field}={value!r}): it must be a number.")
    regularizer = regularizer._replace(**lists)
    for field in ("lam", "rho"):
        if not (np.ndim(getattr(regularizer, field)) == 0 and 0.0 <= getattr(regularizer, field) < np.inf):
            raise ValueError(f"{name}({field}={getattr(regularizer, field)!r}): it must be a number of at least 0.")
    pen = getattr(regularizer, "pen", None)
    if pen is not None and not (pen.shape == (d,) and pen.dtype.kind in "fiu" and np.all((pen >= 0) & (pen < np.inf))):
        raise ValueError(f"{name}(pen=...) must be {d} finite numbers of at least 0, one for each feature.")
    if hasattr(regularizer, "check"):
        regularizer.check(d)
    return regularizer


def is_of_fixed_width(regularizer: Any) -> bool:
    """Whether the record has something for each feature, so that none may come later."""
    return any(isinstance(field, np.ndarray | list | tuple) for field in regularizer)


def is_absolute(regularizer: Any) -> bool:
    """Whether r is a sum of pen_j |w_j|, as most methods know it."""
    return is_lazy(regularizer) and not hasattr(regularizer, "falls")


def beside(values: np.ndarray, W: np.ndarray) -> np.ndarray:
    """One value per feature, in a shape that goes with W."""
    return values if W.ndim == 1 else values[:, None]


def l2_terms(regularizer: Any, w: np.ndarray) -> Any:
    """(rho / 2) ||w||^2; nothing is read where there is no such term."""
    return 0.5 * regularizer.rho * np.square(w).sum(0) if regularizer.rho else 0.0


def soft(v: Any, s: Any) -> Any:
    """S(v, s) = sign(v) max(|v| - s, 0) for arrays."""
    return np.sign(v) * np.maximum(np.abs(v) - s, 0.0)

def half_square(regularizer: Any, W: np.ndarray) -> float:
    return 0.5 * regularizer.rho * float(np.square(W).sum())
