"""Margins of rows that were not learned: each fold's rows at the model that the other folds give."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..data.rows import margins
from ..offsets import numbers_of
from ..util.progress import step
from .fitting import Fit
from .problem import Task
from .splits import FOLDS, Split, splits_of

ENOUGH_ROWS, ENOUGH_OF_CLASS = 10_000, 300
"""The rows by which probabilities are calibrated, and those of the rarest class, if there are so many."""


def out_of_fold(
    task: Task,
    seed: int,
    learn: Callable[[Task], Fit],
    folds: int | None = None,
    groups: np.ndarray | None = None,
    given: Sequence[Split] = (),
    enough: tuple[int, int] = (ENOUGH_ROWS, ENOUGH_OF_CLASS),
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and their margins (rows, m), each at a model that ``learn`` gives for the rows of other folds.

    ``folds``, ``groups`` and ``given`` are those of the choice (``choice.splits``).  ``enough`` is the number of rows,
    and of rows of the rarest class, from which on no more folds are left out.
    """
    splits = splits_of(task, seed, min(folds or FOLDS, task.n), groups, given)
    rows, found, counts = [np.zeros(0, np.int64)], [np.zeros((0, task.m))], np.zeros((2, task.m))
    for k, split in enumerate(splits):
        if sum(map(len, rows)) >= enough[0] and counts.min() >= enough[1]:
            break
        step(f"learning without fold {k + 1} of at most {len(splits)}")
        fit, held = learn(task.take(split.learned)), task.take(split.judged)
        w = np.zeros((task.d, task.m))
        w[fit.columns] = fit.w
        rows.append(split.judged)
        found.append(margins(held.indptr, held.indices, held.data, w, np.ascontiguousarray(fit.b)))
        is_one = numbers_of(held.targets) > 0.0
        counts += [is_one.sum(0), (~is_one).sum(0)]
    return np.concatenate(rows), np.concatenate(found)
