"""Passes over the rows of a polish: what models see of them, and the rows that they copy."""

from __future__ import annotations

import numpy as np

from ..data import row_sums
from ..data.randomness import Purpose, key
from ..util.blas import one_blas_thread
from .polish_model import Model
from .polish_rows import Rows, add_gradients

EIGHT_MODELS = 8
"""The number of models whose gradients are summed side by side."""


def look(rows: Rows, models: list[Model]) -> float:
    """Make one pass over the rows for these models; return the mean number of nonzeros in a row."""
    found: list[list[tuple[np.ndarray, ...]]] = [[] for _ in models]
    for model in models:
        model.begin_pass()
    seen, nonzeros = 0, 0
    with one_blas_thread():
        for part in rows.parts():
            for parts, model in zip(found, models, strict=True):
                parts.append(model.look(part, seen))
            seen, nonzeros = seen + len(part.matrix), nonzeros + len(part.matrix.data)
    for parts, model in zip(found, models, strict=True):
        model.looked(parts)
    return max(nonzeros / max(seen, 1), 1.0)


def sum_gradients(rows: Rows, models: list[Model]) -> None:
    """Make one pass that sums the gradients of up to eight models whose slopes are known."""
    G, seen = np.zeros((len(models[0].W), EIGHT_MODELS)), 0
    for matrix, _, _ in rows.parts():
        here, c = slice(seen, seen + len(matrix)), np.zeros((len(matrix), EIGHT_MODELS))
        for k, model in enumerate(models):
            np.multiply(model.shares()[here, 0], model.slopes[here, 0], out=c[:, k])
        row_sums.add_eight_gradients(matrix.indptr, matrix.indices, matrix.data, c.reshape(-1), G.reshape(-1))
        seen += len(matrix)
    for k, model in enumerate(models):
        model.take_gradient(np.ascontiguousarray(G[:, [k]]))


def take_steps(rows: Rows, models: list[Model], nonzeros: float, tol: float) -> None:
    """Take the next step of each model; ``nonzeros`` is the mean number in a row."""
    by_sample = [model for model in models if model.plans_sample(nonzeros)]
    by_columns = [model for model in models if model not in by_sample]
    copy_rows(rows, [model for model in by_sample if model.sampling.rows_to_draw])
    widened = [model for model in by_columns if model.choose()]
    if widened:
        for model, columns in zip(widened, rows.copied([model.chosen for model in widened]), strict=True):
            model.take_columns(columns)
    for model in by_sample:
        model.step(tol)
    for model in by_columns:
        model.solve(tol)


def drawn(importance: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of about ``count`` rows, and the factor by which each stands for others.

    One row is drawn at random out of each of ``count`` parts of equal importance, so that sums over the drawn rows,
    times the factors, are sums over all rows in the mean.

    >>> numbers, factors = drawn(np.array([4.0, 1.0, 1.0, 2.0, 1.0]), 3)
    >>> numbers.tolist(), factors.tolist()
    ([0, 3], [1.5, 1.5])
    """
    n = len(importance)
    if count >= n:
        return np.arange(n), np.ones(n)
    return row_sums.drawn_rows(importance, count, key(0, Purpose.SAMPLE)[0])


def copy_rows(rows: Rows, models: list[Model]) -> None:
    """Copy the sample of these models: the largest that one of them takes."""
    if not models:
        return
    count = min(max(model.sampling.rows_to_draw for model in models), len(models[0].P))
    numbers, factors = drawn(np.sum([model.importance() for model in models], axis=0), count)
    sample = rows.take(numbers)
    for model in models:
        model.take_rows(sample, numbers, factors, count)


def certify(rows: Rows, models: list[Model]) -> None:
    """Compute the duality gap of each model, in one more pass where gradients are to be summed again."""
    models = [model for model in models if model.is_confirmed and model.loss.conjugate is not None]
    moved, seen = [model for model in models if model.intercept and not model.sums_by_sign], 0
    for part in rows.parts() if moved else ():
        for model in moved:
            here = slice(seen, seen + len(part.matrix))
            add_gradients(part.matrix, model.shares()[here] * model.balance().slopes[here], model.balance().G)
        seen += len(part.matrix)
    for model in models:
        model.certify()
