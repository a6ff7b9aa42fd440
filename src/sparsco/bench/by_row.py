"""Endless generated rows: each is a function of its number, so that a set of any size needs no memory and no file.

The features of a row are drawn like the words of a text, one from each of k equal parts of a Zipf distribution.  The
label is that of a sparse logistic model, whose error is the least that any model can reach.

>>> X, y, least_error = SHAPES["wide"].rows(0, 30)
>>> part, _, _ = SHAPES["wide"].rows(10, 20)
>>> X.shape, X.nnz // 30, abs(X[10:] - part).nnz
((30, 359000), 354, 0)
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from ..data.randomness import draw, key, uniform
from ..jit.dispatch import U, kernel

SHIFT = 10.0
"""The frequency of the feature of rank r is proportional to 1 / (r + SHIFT)."""
UNIT = 2.0**-53
SEED = 26
_DRAWN, _TRUE, _SIZE = 1, 2, 3
"""The purposes of random numbers."""


@kernel
def fill(key, first, k, spread, as_ones, truth, bias, indices, values, y, noise):  # type: ignore[no-untyped-def]
    """Fill the rows from number ``first`` on: k ascending features and their values, the label and its noise.

    Feature q of a row is the rank at which the cumulative frequency is (q + u) / k, u in [0, 1); if that rank is not
    above the last one, the next.  ``noise`` gets the probability of the less likely label.
    """
    for i in range(y.size):
        number = (U(first) + U(i)) * U(2 * k + 1)
        start, last, squares = i * k, -1, 0.0
        for q in range(k):
            u = (draw(key, number + U(2 * q)) >> U(11)) * UNIT
            rank = int(SHIFT * (math.exp(spread * (q + u) / k) - 1.0))
            last = max(rank, last + 1)
            value = 1.0
            if not as_ones:
                value = 0.1 + (draw(key, number + U(2 * q + 1)) >> U(11)) * UNIT
            indices[start + q], values[start + q] = last, value
            squares += value * value
        scale = 1.0 if as_ones else 1.0 / math.sqrt(squares)
        margin = bias
        for q in range(start, start + k):
            values[q] *= scale
            margin += truth[indices[q]] * values[q]
        p = 1.0 / (1.0 + math.exp(-margin))
        y[i] = 1.0 if (draw(key, number + U(2 * k)) >> U(11)) * UNIT < p else -1.0
        noise[i] = min(p, 1.0 - p)


class Shape(NamedTuple):
    """Rows with k of d features; ``as_ones``: all values are one, else they are random, and rows have unit norm.

    A share ``relevant`` of the features has a weight, of the size ``scale``; the intercept of the labels is ``bias``.
    """

    d: int
    k: int
    as_ones: bool
    relevant: float
    scale: float
    bias: float

    def rows(self, first: int, n: int) -> tuple[csr_matrix, np.ndarray, float]:
        """Return n rows from a number on, their labels, and the error of the true model on rows like these."""
        indices, values = np.empty(n * self.k, np.int32), np.empty(n * self.k)
        y, noise = np.empty(n), np.empty(n)
        spread = math.log1p(self.d / SHIFT)
        truth = _truth(self.d, self.relevant, self.scale)
        of_all = key(SEED, _DRAWN)[0]
        fill(of_all, first, self.k, spread, self.as_ones, truth, self.bias, indices, values, y, noise)
        indptr = np.arange(0, n * self.k + 1, self.k, dtype=np.int32)
        return csr_matrix((values, indices, indptr), shape=(n, self.d)), y, float(noise.mean())


@lru_cache(2)
def _truth(d: int, relevant: float, scale: float) -> Any:
    """Return the weights of the true model; each is uniform between -1 and 1 times its scale, or 0."""
    numbers = np.arange(d)
    weights = (2.0 * uniform(SEED, _SIZE, numbers) - 1.0) * scale
    return np.where(uniform(SEED, _TRUE, numbers) < relevant, weights, 0.0)


SHAPES = {
    "ctr": Shape(1_000_000, 39, True, 0.02, 2.0, -2.0),
    "wide": Shape(359_000, 354, False, 0.02, 24.0, 0.0),
}
"""The shapes by name."""
