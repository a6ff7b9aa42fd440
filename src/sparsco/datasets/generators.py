"""Generated data that resemble real data, for demonstrations, benchmarks and experiments."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix, hstack


def zipf_rows(
    n: int, d: int, k: int, rng: np.random.Generator, exponent: float = 1.0, shift: float = 10.0
) -> csr_matrix:
    """Return n unit rows of k distinct features out of d.

    The features are drawn one after the other with probabilities proportional to (rank + shift)^-exponent; ranks
    begin at 0.
    """
    cumulative = np.cumsum((np.arange(d) + shift) ** -exponent)
    cumulative /= cumulative[-1]
    indices = np.empty((n, k), dtype=np.int32)
    for start in range(0, n, 10_000):
        rows = indices[start : start + 10_000]
        drawn = np.searchsorted(cumulative, rng.random((len(rows), 2 * k + 20)))
        by_feature = np.argsort(drawn, axis=1, kind="stable")
        ordered = np.take_along_axis(drawn, by_feature, axis=1)
        again = np.zeros(drawn.shape, dtype=bool)
        np.put_along_axis(again, by_feature[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
        # the first k that were not drawn before: sampling without replacement
        first = np.argsort(again, axis=1, kind="stable")[:, :k]
        if np.take_along_axis(again, first, axis=1).any():
            raise ValueError(f"{k} distinct features out of {d} are too many for rows with Zipf frequencies")
        rows[:] = np.sort(np.take_along_axis(drawn, first, axis=1), axis=1)
    values = rng.random((n, k)) + 0.1
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return csr_matrix((values.ravel(), indices.ravel(), np.arange(0, n * k + 1, k, dtype=np.int32)), shape=(n, d))


def uneven_moments(n: int, d: int, relevant: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return Gaussian features whose scales span two powers of ten, and a noisy linear target in a share of them.

    The weights have the L1 norm 1000.  Large weights often belong to small features, so that magnitudes mislead.
    """
    scale = 10.0 ** rng.uniform(-1.0, 1.0, d)
    truth = rng.standard_normal(d) * (rng.random(d) < relevant) / scale ** rng.uniform(0.0, 1.0, d)
    truth *= 1000.0 / np.abs(truth).sum()
    X = rng.standard_normal((n, d)) * scale
    y = X @ truth
    return X, y + 0.5 * y.std() * rng.standard_normal(n)


def text_like(
    n: int, d: int, k: int, relevant: int, scale: float, rng: np.random.Generator
) -> tuple[csr_matrix, np.ndarray]:
    """Return Zipf rows with labels -1, +1 from a logistic model on ``relevant`` features, drawn like the rows' own."""
    X = zipf_rows(n, d, k, rng)
    truth = np.zeros(d)
    chosen = zipf_rows(1, d, relevant, rng).indices
    truth[chosen] = scale * rng.standard_normal(relevant)
    return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-(X @ truth))), 1, -1)


def add_probes(*parts: csr_matrix, total: int, rng: np.random.Generator) -> list[csr_matrix]:
    """Return the rows with random probes up to ``total`` columns: copies of columns, each with its rows shuffled.

    The probes of every part are copies of the same columns, distributed like them and without any information.
    """
    d = parts[0].shape[1]
    copied = rng.integers(d, size=total - d)
    out = []
    for X in parts:
        columns = X.tocsc()[:, copied]
        for j in range(total - d):
            span = slice(columns.indptr[j], columns.indptr[j + 1])
            columns.indices[span] = rng.choice(X.shape[0], span.stop - span.start, replace=False)
        out.append(csr_matrix(hstack([X, columns.tocsr()])))
    return out
