"""Passes over the rows of a polish: what models see of them, and the columns or rows that they copy."""

from __future__ import annotations

import numpy as np

from ..data.randomness import Purpose, uniform
from ..data.rows import Matrix, screened, stack
from ..util.blas import one_blas_thread
from .polish_model import Model, add_gradients
from .polish_rows import Rows


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


def take_steps(rows: Rows, models: list[Model], nonzeros: float, tol: float) -> None:
    """Take the next step of each model; ``nonzeros`` is the mean number in a row."""
    by_sample = [model for model in models if model.plans_sample(nonzeros)]
    by_columns = [model for model in models if model not in by_sample]
    copy_rows(rows, [model for model in by_sample if model.lacks_rows])
    copy_columns(rows, [model for model in by_columns if model.choose()])
    for model in by_sample:
        model.step(tol)
    for model in by_columns:
        model.solve(tol)


def numbers_of_sample(n: int, count: int) -> np.ndarray:
    """Return the numbers of ``count`` of n rows: one at random out of each of as many equal parts.

    >>> numbers_of_sample(12, 4).tolist(), numbers_of_sample(3, 3).tolist()
    ([0, 3, 8, 9], [0, 1, 2])
    """
    if count == n:
        return np.arange(n)
    at = np.arange(count)
    first, after = at * n // count, (at + 1) * n // count
    return first + (uniform(0, Purpose.SAMPLE, at) * (after - first)).astype(np.int64)


def copy_rows(rows: Rows, models: list[Model]) -> None:
    """Copy the sample of these models: the largest that one of them takes."""
    if not models:
        return
    n, wanted = len(models[0].P), max(model.wanted_rows for model in models)
    had = max((len(model.sample) for model in models if model.sample is not None), default=0)
    numbers = numbers_of_sample(n, min(n, max(wanted, 2 * had)))  # a sample that grows does not grow often
    sample = rows.take(numbers)
    for model in models:
        model.take_rows(sample, numbers)


def copy_columns(rows: Rows, models: list[Model]) -> None:
    """Copy the chosen columns of these models in another pass over the rows."""
    if not models:
        return
    found: list[list[Matrix]] = [[] for _ in models]
    places = [model.places() for model in models]
    for part in rows.parts():
        X = part.matrix
        for parts, place, model in zip(found, places, models, strict=True):
            parts.append(Matrix(*screened(X.indptr, X.indices, X.data, place), model.chosen.size))
    for parts, model in zip(found, models, strict=True):
        model.take_columns(stack(parts))


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
