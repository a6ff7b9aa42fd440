"""Weights without a penalty, with standard errors by the sandwich formula.

With u_i = c_i z_i the gradient of a row at the optimum theta, and H the mean second derivative, theta has the variance

    H^-1 (1/n mean of u_i u_i^T / (1 - l_i)) H^-1,    l_i = h_i <z_i, H^-1 z_i> / n

The leverage l_i corrects that theta was fitted to the same rows ("HC2").  Nothing is assumed about the loss being the
right one: the formula holds for any distribution of independent rows.  The quantiles are those of Student's t.  Its
degrees of freedom are as many as the rows that decide a weight, which are few for a rare feature, at most n - k.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpstrf

from ..util.blas import one_blas_thread
from .unpenalised import Design, optimum

_NO_CURVATURE = 1e-7
"""The share of its scale below which the second derivative in a further direction counts as zero."""
_TAKES_PART = 1e-3
"""The size from which a weight in a combination of columns takes part in it."""
_HIGHEST_LEVERAGE = 0.99
_CELLS = 1 << 22


class Stream(NamedTuple):
    """What a stream knows at one model: the mean gradient over all of its rows, and margins of the sampled rows."""

    rows: int
    """The number of rows of the stream that the mean is over."""
    gradient: np.ndarray
    """The mean gradient of the loss in the columns of the design."""
    p: np.ndarray
    """The margins of that model for the rows of the design."""


class Estimates(NamedTuple):
    """Weights without a penalty, standard errors and degrees of freedom by column; NaN where rows do not decide."""

    weights: np.ndarray
    errors: np.ndarray
    freedom: np.ndarray


def estimates(design: Design, start: np.ndarray, stream: Stream | None = None) -> Estimates:
    """Return the weights of a design's columns without a penalty, and how exact they are.

    ``stream``: the mean gradient of the sampled rows is replaced by that of a stream, of which they are a sample.
    """
    with one_blas_thread():
        if stream is None:
            theta = optimum(design, start)
            c, moved, rows = design.slopes(design.Z @ theta), None, design.n
        else:
            c_there = design.slopes(stream.p)
            theta = optimum(design, start, stream.gradient - design.mean(c_there))
            c = design.slopes(design.Z @ theta)
            moved, rows = c - c_there, stream.rows
        return _with_errors(design, theta, c, moved, rows)


def _with_errors(design: Design, theta: np.ndarray, c: np.ndarray, moved: np.ndarray | None, rows: int) -> Estimates:
    """Return the estimates at an optimum with slopes c; ``moved`` is how far these moved from those of a stream.

    The mean of c_i z_i is then a sum of two: over all ``rows`` of the stream at its own model, and over the sampled
    rows of ``moved_i z_i``.
    """
    n, h = design.n, design.curvatures(design.Z @ theta)
    H = design.pairs(h)
    kept, decided = _decided(H, design.scales())
    some = design._replace(Z=design.Z[:, kept])
    k = len(kept)
    result = Estimates(*(np.full(len(theta), np.nan) for _ in range(3)))
    if not k or n <= k:
        return result
    inverse = cho_solve(cho_factor(H[np.ix_(kept, kept)]), np.eye(k))
    room, freedom = _leverages(some, h, inverse)
    middle = (some.pairs(np.square(c) / room) - np.outer(some.mean(c), some.mean(c))) / rows
    if moved is not None and rows > n:
        centre = some.mean(moved)
        middle += (some.pairs(np.square(moved) / room) - np.outer(centre, centre)) * (1.0 / n - 1.0 / rows)
    variances = np.einsum("ij,jk,ki->i", inverse, middle, inverse)
    result.weights[kept] = theta[kept]
    result.errors[kept] = np.sqrt(np.maximum(variances, 0.0))
    result.freedom[kept] = np.clip(freedom, 1.0, n - k)
    for column in result:
        column[~decided] = np.nan
    return result


def _decided(H: np.ndarray, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return columns in which H has an inverse, and which of all columns have a weight that the rows decide.

    A column that is a combination of others is left out, and neither its weight nor theirs are decided.
    """
    size = np.sqrt(np.where(scales > 0.0, scales, 1.0))
    scaled = H / np.outer(size, size)
    _, order, rank, _ = dpstrf(scaled, tol=_NO_CURVATURE, lower=1)
    order = order - 1
    kept, rest = np.sort(order[:rank]), order[rank:]
    decided = np.ones(len(H), bool)
    decided[rest] = False
    if rest.size and kept.size:
        parts = np.linalg.solve(scaled[np.ix_(kept, kept)], scaled[np.ix_(kept, rest)])
        decided[kept[(np.abs(parts) > _TAKES_PART).any(1)]] = False
    return kept, decided


def _leverages(design: Design, h: np.ndarray, inverse: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return 1 - leverage of each row, and the number of rows that decide each weight.

    Row i counts omega_ij = h_i (H^-1 z_i)_j^2 / (1 - l_i) for weight j; the number is (sum omega)^2 / sum omega^2.
    """
    n, k = design.n, len(inverse)
    room, sums, squares = np.empty(n), np.zeros(k), np.zeros(k)
    for first in range(0, n, max(_CELLS // k, 1)):
        part = slice(first, min(first + max(_CELLS // k, 1), n))
        Z = design.Z[part]
        Z = Z if isinstance(Z, np.ndarray) else Z.toarray()
        influence = Z @ inverse
        leverage = h[part] * np.einsum("ij,ij->i", influence, Z) / n
        room[part] = 1.0 - np.minimum(leverage, _HIGHEST_LEVERAGE)
        omega = np.square(influence) * (h[part] / room[part])[:, None]
        sums += omega.sum(0)
        squares += np.square(omega).sum(0)
    return room, np.square(sums) / np.where(squares > 0.0, squares, 1.0)
