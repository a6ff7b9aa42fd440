"""Generated designs with known true features, for `make bench-selection`.

A cell is a design of columns, its size, the number of true features, the signal to noise ratio and the kind of the
response.  A repetition is a number: the same cell and number give the same rows everywhere.  Nothing but NumPy and
SciPy is needed, so that other packages can be measured in an environment of their own.
"""

from __future__ import annotations

import zlib
from fnmatch import fnmatch
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

LINEAR, LOGISTIC = "linear", "logistic"
NOISE_OF_LOGITS = np.pi**2 / 3.0
"""The variance of the logistic distribution: of the noise in y = 1{margin + noise > 0}."""
BLOCK = 10
WORDS_IN_A_TEXT = 50
CORRELATED = ("ar.9", "blocks")
"""Designs without a bar for the promise: the estimator has to warn instead."""


class Cell(NamedTuple):
    """A design of n rows and p columns with k true features."""

    design: str
    n: int
    p: int
    k: int
    snr: float
    response: str

    @property
    def name(cell) -> str:
        """The cell in one word, by which it is selected and kept."""
        return f"{cell.design}-{cell.n}x{cell.p}-k{cell.k}-snr{cell.snr:g}-{cell.response}"


class Data(NamedTuple):
    """Rows, responses (labels 0 and 1 if logistic), and which features are true."""

    X: Any
    y: np.ndarray
    true: np.ndarray


DENSE = ("independent", "ar.5", "ar.9", "blocks")
CELLS = (
    *(
        Cell(design, *rest)
        for design in DENSE
        for rest in (
            (100, 500, 10, 5.0, LINEAR),
            (200, 1000, 20, 2.0, LOGISTIC),
            (400, 400, 20, 2.0, LINEAR),
            (400, 400, 10, 5.0, LOGISTIC),
            (1000, 500, 100, 5.0, LINEAR),
            (1000, 200, 50, 0.5, LINEAR),
            (5000, 100, 20, 0.5, LOGISTIC),
        )
    ),
    Cell("text", 400, 2000, 10, 5.0, LINEAR),
    Cell("text", 400, 2000, 10, 5.0, LOGISTIC),
    Cell("text", 1000, 1000, 20, 2.0, LINEAR),
    Cell("text", 1000, 1000, 20, 2.0, LOGISTIC),
    Cell("text", 5000, 500, 100, 0.5, LINEAR),
    Cell("text", 10_000, 200, 20, 0.5, LOGISTIC),
    # nothing is true: every selection is false
    Cell("independent", 200, 500, 0, 0.0, LINEAR),
    Cell("independent", 400, 400, 0, 0.0, LOGISTIC),
)
TINY = (
    Cell("independent", 200, 100, 10, 2.0, LINEAR),
    Cell("independent", 300, 100, 10, 5.0, LOGISTIC),
    Cell("ar.5", 80, 160, 8, 5.0, LINEAR),
    Cell("text", 400, 200, 10, 5.0, LOGISTIC),
)
"""For tests: their fits take a fraction of a second."""
SQUARE = (
    Cell("independent", 2000, 2000, 20, 2.0, LINEAR),
    Cell("independent", 2000, 2000, 20, 2.0, LOGISTIC),
)
"""For timings."""


def chosen(patterns: list[str], cells: tuple[Cell, ...] = CELLS) -> list[Cell]:
    """Return the cells whose names match a pattern; all of them without patterns.

    >>> [cell.n for cell in chosen(["text-400x*-linear", "ar.9-100x*"])]
    [100, 400]
    """
    return [cell for cell in cells if not patterns or any(fnmatch(cell.name, pattern) for pattern in patterns)]


def generated(cell: Cell, repetition: int) -> Data:
    """Return the rows of a repetition.

    The true features have random signs and sizes uniform between .5 and 1, in units of a column's spread (of its
    square root, in texts).  Noise is scaled to the signal's variance in these rows; logits are, to that of the logistic
    distribution.
    """
    rng = np.random.default_rng([zlib.crc32(cell.name.encode()), repetition])
    X = _text(cell, rng) if cell.design == "text" else _normal(cell, rng)
    true, weights = np.zeros(cell.p, dtype=bool), np.zeros(cell.p)
    possible = _possible(X) if cell.design == "text" else np.arange(cell.p)
    true[rng.choice(possible, cell.k, replace=False)] = True
    weights[true] = rng.uniform(0.5, 1.0, cell.k) * rng.choice([-1.0, 1.0], cell.k)
    if cell.design == "text":
        weights[true] /= np.sqrt(_spread(X)[true])
    signal = X @ weights
    signal -= signal.mean()
    if cell.k:
        signal *= np.sqrt(cell.snr * (NOISE_OF_LOGITS if cell.response == LOGISTIC else 1.0)) / signal.std()
    if cell.response == LINEAR:
        return Data(X, signal + rng.standard_normal(cell.n), true)
    return Data(X, (signal + rng.logistic(size=cell.n) > 0.0).astype(np.float64), true)


def _normal(cell: Cell, rng: np.random.Generator) -> np.ndarray:
    """Return normal columns with variance 1: independent, AR(1), or in blocks that share a part."""
    X = rng.standard_normal((cell.n, cell.p))
    if cell.design.startswith("ar"):
        rho = float(cell.design[2:])
        for j in range(1, cell.p):
            X[:, j] = rho * X[:, j - 1] + np.sqrt(1.0 - rho**2) * X[:, j]
    elif cell.design == "blocks":
        shared = rng.standard_normal((cell.n, -(-cell.p // BLOCK)))
        X = np.sqrt(0.8) * np.repeat(shared, BLOCK, axis=1)[:, : cell.p] + np.sqrt(0.2) * X
    elif cell.design != "independent":
        raise ValueError(f"unknown design {cell.design!r}")
    return X


def _text(cell: Cell, rng: np.random.Generator) -> csr_matrix:
    """Return counts of words with Zipf frequencies in texts of uneven length; logistic: whether a word occurs."""
    frequency = 1.0 / (np.arange(cell.p) + 3.0)
    lengths = 5 + rng.poisson(WORDS_IN_A_TEXT * rng.lognormal(-0.125, 0.5, cell.n))
    words = rng.choice(cell.p, lengths.sum(), p=frequency / frequency.sum())
    X = csr_matrix((np.ones(len(words)), (np.repeat(np.arange(cell.n), lengths), words)), (cell.n, cell.p))
    X.sum_duplicates()
    if cell.response == LOGISTIC:
        X.data[:] = 1.0
    return X


def _spread(X: csr_matrix) -> np.ndarray:
    """Return the standard deviation of each column."""
    mean = np.asarray(X.mean(axis=0)).ravel()
    return np.sqrt(np.maximum(np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2, 0.0))


def _possible(X: csr_matrix) -> np.ndarray:
    """Return the words in 2% to 98% of the texts: those that can be found."""
    share = X.getnnz(axis=0) / X.shape[0]
    return np.flatnonzero((share >= 0.02) & (share <= 0.98))


def large_text(n: int = 100_000, p: int = 100_000, k: int = 100, snr: float = 2.0) -> Data:
    """Return unit rows of 50 words each with Zipf frequencies, labels, and k true among the 5,000 most frequent."""
    from sparsco.datasets.generators import zipf_rows

    rng = np.random.default_rng(0)
    X = zipf_rows(n, p, WORDS_IN_A_TEXT, rng)
    true, weights = np.zeros(p, dtype=bool), np.zeros(p)
    true[rng.choice(min(p, 5000), k, replace=False)] = True
    weights[true] = rng.uniform(0.5, 1.0, k) * rng.choice([-1.0, 1.0], k) / np.sqrt(_spread(X)[true])
    signal = X @ weights
    signal *= np.sqrt(snr * NOISE_OF_LOGITS) / signal.std()
    return Data(X, (signal - signal.mean() + rng.logistic(size=n) > 0.0).astype(np.float64), true)
