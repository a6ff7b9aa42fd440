"""Measures of selected features: density, recovery of a known support, agreement of selections."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

import numpy as np


def support(model: Any, level: float = 0.0) -> np.ndarray:
    """Return the selected features as a flat boolean mask: |w_j| > level.

    A stored zero of a sparse array is not selected; NaN is refused, since it is neither zero nor a weight.

    >>> support([0.0, -0.5, 2.0], level=0.5).tolist()
    [False, False, True]
    """
    if level < 0.0:
        raise ValueError(f"level must not be negative, got {level}.")
    if isinstance(model, np.ndarray) and model.dtype == bool:
        return model.ravel()
    from scipy.sparse import issparse

    from ..data.inspection import sound

    sparse = issparse(model)
    w: Any = sound(model).tocsr() if sparse else np.asarray(model)
    if sparse and not w.has_canonical_format:  # duplicate entries are summed
        w = w.copy()
        w.sum_duplicates()
    numbers = w.data if sparse else w
    if np.isnan(numbers).any():
        raise ValueError("The weights contain NaN.")
    selected = numbers if w.dtype == bool else abs(numbers) > level
    if not sparse:
        return np.ravel(selected)
    rows, columns = w.shape if w.ndim == 2 else (1, *w.shape)
    mask = np.zeros(rows * columns, bool)
    mask[np.repeat(np.arange(rows) * columns, np.diff(w.indptr)) + w.indices] = selected
    return mask


def exact_density(model: Any) -> float:
    """Return ED, the share of weights that are not exactly zero; 0 if there are no features.

    >>> exact_density([0.0, 1e-300, 3.0, 0.0])
    0.5
    """
    return truncated_density(model, level=0.0)


def truncated_density(model: Any, level: float = 1e-6) -> float:
    """Return TD, the share of weights above ``level`` in size; 0 if there are no features.

    >>> truncated_density([0.0, 1e-300, 3.0, 0.0])
    0.25
    """
    mask = support(model, level)
    return _count(mask) / mask.size if mask.size else 0.0


def support_recovery(model: Any, truth: Any) -> float:
    """Return SSR = 2 |S and S*| / (|S| + |S*|), the F1 score of the support S against the true one.

    1 if both are empty.

    >>> support_recovery([1.0, 1.0, 0.0], [True, False, True])
    0.5
    """
    a, b = _supports(model, truth)
    both, total = _count(a & b), _count(a) + _count(b)
    return 2 * both / total if total else 1.0


def jaccard(first: Any, second: Any) -> float:
    """Return |A and B| / |A or B| of two selected sets; 1 if both are empty.

    >>> jaccard([1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0])
    0.25
    """
    a, b = _supports(first, second)
    either = _count(a | b)
    return _count(a & b) / either if either else 1.0


def cohen_kappa(first: Any, second: Any) -> float:
    """Return Cohen's kappa of two selected sets: their agreement beyond chance for sets of these sizes.

    It is (q_o - q_e) / (1 - q_e), with q_o the share of features on which the two agree and q_e its expectation.  If
    both are empty or both hold every feature, chance alone gives full agreement and the ratio is 0/0; the result is 1,
    since they are equal.  A set that is empty or full against any other has kappa 0.

    >>> cohen_kappa([1, 1, 0, 0], [1, 1, 0, 0]), cohen_kappa([1, 1, 0, 0], [1, 0, 1, 0]), cohen_kappa([1, 0], [0, 1])
    (1.0, 0.0, -1.0)
    """
    a, b = _supports(first, second)
    return kappa_of_sizes(a.size, _count(a), _count(b), _count(a & b))


def kappa_of_sizes(p: int, first: int, second: int, both: int) -> float:
    """Return Cohen's kappa of two sets among p features, from their sizes and the size of their intersection."""
    # q_o p^2 and q_e p^2 in whole numbers, so that equal sets give exactly 1
    observed = p * (p - first - second + 2 * both)
    expected = first * second + (p - first) * (p - second)
    return (observed - expected) / (p * p - expected) if expected != p * p else 1.0


def pairwise(models: Iterable[Any], measure: Callable[[Any, Any], float] = cohen_kappa) -> float:
    """Return the mean of a symmetric measure over all pairs of runs; with Cohen's kappa, the stability of a selection.

    >>> runs = [[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0]]
    >>> round(pairwise(runs), 4), round(pairwise(runs, jaccard), 4)
    (0.3333, 0.5556)
    """
    masks = [support(model) for model in models]
    if len(masks) < 2:
        raise ValueError(f"A mean over pairs of runs needs at least two runs, got {len(masks)}.")
    pairs = [measure(a, b) for a, b in combinations(masks, 2)]
    return math.fsum(pairs) / len(pairs)


def variance_over_runs(values: Any, ddof: int = 1) -> Any:
    """Return the variance of a result over independent runs; in the papers it is the objective at the returned model.

    There is one row per run: a vector gives one number, a matrix one for each column.  The papers do not state whether
    they divide by the number of runs (``ddof=0``) or by one less (``ddof=1``, unbiased, the default).

    >>> variance_over_runs([1.0, 2.0, 3.0]), variance_over_runs([1.0, 3.0], ddof=0)
    (1.0, 1.0)
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim == 0 or len(values) <= ddof:
        raise ValueError(f"A variance needs at least {ddof + 1} runs, got {values.shape[0] if values.ndim else 1}.")
    variance = np.var(values, axis=0, ddof=ddof)
    return float(variance) if values.ndim == 1 else variance


def _count(mask: np.ndarray) -> int:
    return int(np.count_nonzero(mask))


def _supports(first: Any, second: Any) -> tuple[np.ndarray, np.ndarray]:
    a, b = support(first), support(second)
    if a.size != b.size:
        raise ValueError(f"The two models have {a.size} and {b.size} features.")
    return a, b
