"""The operations of penalties that kernels and optimizers use, on single weights and on whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..parts.contracts import feature_weight, prox, prox_step, shrink_rate, strength


def restricted(penalty: Any, features: Any) -> Any:
    """Return the penalty of some features, for a penalty that treats each feature alone."""
    if penalty.pen is None:
        return penalty
    return penalty._replace(pen=np.asarray(penalty.pen)[features])


def prox_all(penalty: Any, W: np.ndarray, s: Any) -> np.ndarray:
    """Return argmin_U ||U - W||^2 / 2 + s psi(U) over whole arrays, (d,) or (d, m), psi without its L2 term.

    ``s`` is a number, or an array that ``coarsened`` leaves unchanged.
    """
    return penalty.prox_all(W, s)


def prox_with_l2(penalty: Any, W: np.ndarray, s: float) -> np.ndarray:
    """Return argmin_U ||U - W||^2 / 2 + s psi(U), the L2 term included."""
    decay = 1.0 / (1.0 + s * penalty.rho)
    return prox_all(penalty, W * decay, s * decay)


def bounds(penalty: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest value of each weight that a separable penalty allows.

    These are the points of its set that are nearest to -1e100 and 1e100.  Other penalties have infinite bounds here.
    """
    far = np.full(d, 1e100)
    if penalty.kind != "separable":
        return -np.inf * far, np.inf * far
    least, most = prox_all(penalty, -far, 0.0), prox_all(penalty, far, 0.0)
    return np.where(least <= -far, -np.inf, least), np.where(most >= far, np.inf, most)


def checked(penalty: Any, d: int) -> Any:
    """Return the record validated for d features, with lists converted to arrays; raise if it is invalid."""
    if penalty.strength_is_open:
        return penalty
    name, lists = type(penalty).__name__, {}
    for field, value in zip(penalty._fields, penalty, strict=True):
        if isinstance(value, list | tuple):
            lists[field] = np.asarray(value)
        if isinstance(value, str) or (value is None and field not in penalty.open_fields):
            raise ValueError(f"{name}({field}={value!r}): it must be a number.")
    penalty = penalty._replace(**lists)
    for field, value in (("lam", penalty.lam), ("rho", penalty.rho)):
        if not (np.ndim(value) == 0 and 0.0 <= value < np.inf):
            raise ValueError(f"{name}({field}={value!r}): it must be a number of at least 0.")
    pen = penalty.pen
    if pen is not None and not (pen.shape == (d,) and pen.dtype.kind in "fiu" and np.all((pen >= 0) & (pen < np.inf))):
        raise ValueError(f"{name}(pen=...) must be {d} finite numbers of at least 0, one for each feature.")
    penalty.check(d)
    return penalty


def is_of_fixed_width(penalty: Any) -> bool:
    """Return whether the record has an array with one value per feature, so that no feature may be added later."""
    return any(isinstance(field, np.ndarray | list | tuple) for field in penalty)


def beside(values: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Return one value per feature in a shape that broadcasts with W."""
    return values if W.ndim == 1 else values[:, None]


def l2_terms(penalty: Any, w: np.ndarray) -> Any:
    """Return (rho / 2) ||w||^2; w is not read where rho = 0."""
    return 0.5 * penalty.rho * np.square(w).sum(0) if penalty.rho else 0.0


def soft(v: Any, s: Any) -> Any:
    """Return the soft threshold S(v, s) = sign(v) max(|v| - s, 0) of arrays."""
    return np.sign(v) * np.maximum(np.abs(v) - s, 0.0)


def half_square(penalty: Any, W: np.ndarray) -> float:
    return 0.5 * penalty.rho * float(np.square(W).sum())


__all__ = [
    "beside",
    "bounds",
    "checked",
    "shrink_rate",
    "half_square",
    "is_of_fixed_width",
    "feature_weight",
    "l2_terms",
    "prox",
    "prox_all",
    "prox_with_l2",
    "restricted",
    "soft",
    "prox_step",
    "strength",
]
