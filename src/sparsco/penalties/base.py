"""The vocabulary of penalties: what kernels and optimizers ask of one, on single weights and on whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..parts.contracts import falls, penalty, prox, stepped, strength


def restricted(regularizer: Any, features: Any) -> Any:
    """The regularizer of some features, where it treats each by itself."""
    if regularizer.pen is None:
        return regularizer
    return regularizer._replace(pen=np.asarray(regularizer.pen)[features])


def prox_all(regularizer: Any, W: np.ndarray, s: Any) -> np.ndarray:
    """argmin_U ||U - W||^2 / 2 + s r(U) over whole arrays, (d,) or (d, m).

    ``s`` is a number; where ``coarsened`` leaves it as it is, an array.
    """
    return regularizer.prox_all(W, s)


def prox_with_l2(regularizer: Any, W: np.ndarray, s: float) -> np.ndarray:
    """argmin_U ||U - W||^2 / 2 + s psi(U), the L2 term included."""
    decay = 1.0 / (1.0 + s * regularizer.rho)
    return prox_all(regularizer, W * decay, s * decay)


def bounds(regularizer: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest value of each weight, where the regularizer treats each by itself: the points of its
    set that are nearest to far away."""
    far = np.full(d, 1e100)
    if regularizer.kind != "separable":
        return -np.inf * far, np.inf * far
    least, most = prox_all(regularizer, -far, 0.0), prox_all(regularizer, far, 0.0)
    return np.where(least <= -far, -np.inf, least), np.where(most >= far, np.inf, most)


def checked(regularizer: Any, d: int) -> Any:
    """The record with lists made arrays, for d features; refused with one sentence where it makes no sense."""
    if regularizer.strength_is_open:
        return regularizer
    name, lists = type(regularizer).__name__, {}
    for field, value in zip(regularizer._fields, regularizer, strict=True):
        if isinstance(value, list | tuple):
            lists[field] = np.asarray(value)
        if isinstance(value, str) or (value is None and field not in regularizer.open_fields):
            raise ValueError(f"{name}({field}={value!r}): it must be a number.")
    regularizer = regularizer._replace(**lists)
    for field, value in (("lam", regularizer.lam), ("rho", regularizer.rho)):
        if not (np.ndim(value) == 0 and 0.0 <= value < np.inf):
            raise ValueError(f"{name}({field}={value!r}): it must be a number of at least 0.")
    pen = regularizer.pen
    if pen is not None and not (pen.shape == (d,) and pen.dtype.kind in "fiu" and np.all((pen >= 0) & (pen < np.inf))):
        raise ValueError(f"{name}(pen=...) must be {d} finite numbers of at least 0, one for each feature.")
    regularizer.check(d)
    return regularizer


def is_of_fixed_width(regularizer: Any) -> bool:
    """Whether the record has something for each feature, so that none may come later."""
    return any(isinstance(field, np.ndarray | list | tuple) for field in regularizer)


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


__all__ = [
    "beside", "bounds", "checked", "falls", "half_square", "is_of_fixed_width", "l2_terms", "penalty", "prox",
    "prox_all", "prox_with_l2", "restricted", "soft", "stepped", "strength",
]  # fmt: skip
