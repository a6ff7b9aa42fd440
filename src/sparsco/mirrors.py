"""Mirror maps: the geometry of a step.  theta = grad Psi(w) - eta g, w <- argmin Psi(w) - <theta, w> + eta r(w).

A map is a record.  An optimizer keeps the dual variable v = grad Psi(w); ``to_primal`` is the inverse, grad Psi*.
Where a map treats each coordinate alone, kernels use ``primal`` and ``conjugate`` of one number.  A sweep over all
nonzero v applies a map in two steps, which also cover the p-norm.  The first computes each coordinate's ``power`` and
its ``portion`` of a total.  The second computes from that total the ``factor`` that turns powers into weights, and the
``height`` Psi*(v).

>>> import numpy as np
>>> w = np.array([0.5, 0.0, -2.0])
>>> v = to_dual(PNorm(1.5), w)
>>> bool(np.allclose(to_primal(PNorm(1.5), v), w)), divergence(Euclidean(), w, np.zeros(3))
(True, 2.125)
"""

from __future__ import annotations

import math
import numbers
from typing import Any, NamedTuple

import numpy as np

from .jit.lanes import maximum, minimum, where
from .parts.contracts import Mirror, conjugate, factor, height, part, portion, power, primal, relaxed


@part(Mirror)
class Euclidean(NamedTuple):
    """The Euclidean map Psi(w) = ||w||^2 / 2: plain gradient steps."""

    is_separable = True

    def primal(mirror, v):
        return v

    def conjugate(mirror, v):
        return 0.5 * v * v

    def relaxed(mirror, t, s):
        return t / (1.0 + s)

    def to_dual(mirror, w: np.ndarray) -> np.ndarray:
        return w

    def value(mirror, w: np.ndarray) -> float:
        """Return Psi(w)."""
        return 0.5 * _dot(w, w)


@part(
    Mirror,
    lam="the strength of the L1 norm in the map",
    eps="rounds the corner at zero off; 0: weights are exactly zero",
)
class SparseKaczmarz(NamedTuple):
    """The sparse-Kaczmarz map Psi(w) = lam ||w||_1 + ||w||^2 / 2, smoothed at zero by eps: steps to sparse solutions.

    With eps = 0, w = S(v, lam) has exact zeros.  With eps > 0 these become small numbers instead,
    w = v eps / (lam + eps) for |v| <= lam + eps.

    Parameters
    ----------
    lam : float
        The strength of the L1 norm in the map.
    eps : float
        The width of the smoothing at zero.
    """

    lam: float
    eps: float = 0.0

    is_separable = True

    def check(mirror) -> None:
        for name, x in mirror._asdict().items():
            if not (isinstance(x, numbers.Real) and math.isfinite(x) and x >= 0.0):
                raise ValueError(f"SparseKaczmarz({name}={x!r}): it must be a finite number of at least 0.")

    def compiled(mirror) -> Any:
        """Return the record for kernels: with eps = 0 there is less to compute."""
        return mirror if mirror.eps > 0.0 else _Corner(mirror.lam)

    def primal(mirror, v):
        shrunk = v - minimum(maximum(v, -mirror.lam), mirror.lam)
        slope = mirror.eps / maximum(mirror.lam + mirror.eps, 1e-300)
        return where(abs(v) <= mirror.lam + mirror.eps, v * slope, shrunk)

    def conjugate(mirror, v):
        beyond = maximum(abs(v) - mirror.lam, 0.0)
        slope = mirror.eps / maximum(mirror.lam + mirror.eps, 1e-300)
        round_off = 0.5 * mirror.lam * mirror.eps
        return where(abs(v) <= mirror.lam + mirror.eps, 0.5 * v * v * slope, 0.5 * beyond * beyond + round_off)

    def relaxed(mirror, t, s):
        edge = mirror.lam + mirror.eps
        beyond = mirror.lam + (abs(t) - mirror.lam) / (1.0 + s)
        inside = t * (edge / maximum(edge + s * mirror.eps, 1e-300))
        return where(abs(t) <= edge + s * mirror.eps, inside, where(t < 0.0, -beyond, beyond))

    def to_dual(mirror, w: np.ndarray) -> np.ndarray:
        """Return v; with eps = 0 there are many at w = 0, of which it returns v = 0."""
        corner = np.sign(w) if mirror.eps == 0.0 else np.clip(w / mirror.eps, -1.0, 1.0)
        return w + mirror.lam * corner

    def value(mirror, w: np.ndarray) -> float:
        """Return Psi(w)."""
        size = np.abs(w)
        corner = size
        if mirror.eps > 0.0:
            corner = np.where(size <= mirror.eps, 0.5 * np.square(w) / mirror.eps, size - 0.5 * mirror.eps)
        return 0.5 * _dot(w, w) + mirror.lam * float(corner.sum())


class _Corner(NamedTuple):
    """The sparse-Kaczmarz map with eps = 0, for kernels."""

    lam: float

    def primal(mirror, v):
        return v - minimum(maximum(v, -mirror.lam), mirror.lam)

    def conjugate(mirror, v):
        w = v - minimum(maximum(v, -mirror.lam), mirror.lam)
        return 0.5 * w * w

    def relaxed(mirror, t, s):
        inside = minimum(maximum(t, -mirror.lam), mirror.lam)
        return inside + (t - inside) / (1.0 + s)


@part(Mirror, p="the norm's exponent, above 1 and at most 2")
class PNorm(NamedTuple):
    """The p-norm map Psi(w) = ||w||_p^2 / 2 with 1 < p <= 2; p near 1 suits few relevant features among very many.

    Parameters
    ----------
    p : float
        The norm's exponent, above 1 and at most 2.
    """

    p: float

    is_separable = False

    def check(mirror) -> None:
        if not (isinstance(mirror.p, numbers.Real) and 1.0 < mirror.p <= 2.0):
            raise ValueError(f"PNorm(p={mirror.p!r}): p must be above 1 and at most 2.")

    @property
    def q(self) -> float:
        """Return the exponent of the dual norm."""
        return self.p / (self.p - 1.0)

    def compiled(mirror) -> Any:
        """Return the record for kernels."""
        return _DualNorm(mirror.q)

    def to_dual(mirror, w: np.ndarray) -> np.ndarray:
        return _of_norm(w, mirror.p)

    def value(mirror, w: np.ndarray) -> float:
        """Return Psi(w)."""
        norm = _norm(w, mirror.p)
        return 0.5 * norm * norm


class _DualNorm(NamedTuple):
    """The p-norm map for kernels, by its dual exponent; powers are relative to the largest, so that none overflows."""

    q: float

    def relaxed(mirror, t, s):
        """Return t: only s = 0 occurs, since there is no closed form for other values."""
        return t

    def power(mirror, v, largest):
        size = (abs(v) / largest) ** (mirror.q - 1.0)
        return where(v < 0.0, -size, size)

    def portion(mirror, v, raised, largest):
        return abs(raised) * (abs(v) / largest)

    def factor(mirror, largest, total):
        return largest * total ** ((2.0 - mirror.q) / mirror.q)

    def height(mirror, largest, total):
        norm = largest * total ** (1.0 / mirror.q)
        return 0.5 * norm * norm


def to_dual(mirror: Any, w: np.ndarray) -> np.ndarray:
    """Return the dual variable v = grad Psi(w)."""
    return mirror.to_dual(np.asarray(w, dtype=np.float64))


def to_primal(mirror: Any, v: np.ndarray) -> np.ndarray:
    """Return the weights w = grad Psi*(v)."""
    v = np.asarray(v, dtype=np.float64)
    return primal(mirror, v) if mirror.is_separable else _of_norm(v, mirror.q)


def divergence(mirror: Any, w: np.ndarray, v: np.ndarray) -> float:
    """Return the Bregman divergence D(w, to_primal(v)) = Psi(w) + Psi*(v) - <w, v>, at least 0."""
    w, v = np.asarray(w, dtype=np.float64), np.asarray(v, dtype=np.float64)
    if mirror.is_separable:
        dual = float(np.sum(conjugate(mirror, v)))
    else:
        norm = _norm(v, mirror.q)
        dual = 0.5 * norm * norm
    return mirror.value(w) + dual - _dot(w, v)


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    """Return <a, b> without BLAS, whose threads would cost more to start than the sum."""
    return float(np.multiply(a, b).sum())


def _norm(w: np.ndarray, p: float) -> float:
    largest = float(np.abs(w).max(initial=0.0))
    return largest * float(np.sum((np.abs(w) / largest) ** p)) ** (1.0 / p) if largest > 0.0 else 0.0


def _of_norm(w: np.ndarray, p: float) -> np.ndarray:
    """Return the gradient of ||w||_p^2 / 2: sign(w) |w|^(p-1) ||w||_p^(2-p)."""
    norm = _norm(w, p)
    return np.copysign((np.abs(w) / norm) ** (p - 1.0) * norm, w) if norm > 0.0 else np.zeros_like(w)


__all__ = [
    "Euclidean",
    "PNorm",
    "SparseKaczmarz",
    "conjugate",
    "divergence",
    "factor",
    "height",
    "portion",
    "power",
    "primal",
    "relaxed",
    "to_dual",
    "to_primal",
]
