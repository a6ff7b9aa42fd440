"""What one call of a kernel takes: targets and weights of its rows, step sizes, and how far it may go."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.rows import Matrix, squared_norms
from ..offsets import for_kernels
from ..problem.state import Problem, Rows
from ..steps import capped, check_positive


def rows_for_kernels(
    matrix: Matrix, y: np.ndarray, weights: np.ndarray, targets: Any, problem: Problem, has_grid: bool
) -> Rows:
    """Return rows as kernels take them: targets and weights by lane, or a column of one number for all lanes.

    ``y`` and ``weights`` are those of the rows that will be learned, in their order.
    """
    if has_grid and targets.base.m == 1 < problem.m == problem.width:
        encoded = (part.reshape(-1, 1) for part in targets.base.encode(y, weights, 1))
    else:
        encoded = iter(targets.encode(y, weights, problem.width, problem.kind))
    return Rows(matrix.indptr, matrix.indices, matrix.data, *map(for_kernels, encoded))


def step_sizes(
    step: Any,
    optimizer: Any,
    problem: Problem,
    rows: Rows,
    order: np.ndarray,
    t: int,
    n: int,
    counts: np.ndarray | None = None,
) -> np.ndarray:
    """Return the sizes of steps t + 1, ..., t + n, on the first rows in ``order``; ones where no rule is used.

    ``counts`` are the effective numbers of examples that stand for t + 1, ..., t + n where old examples fade.
    """
    if not optimizer.uses_steps:
        return np.ones(n)
    sizes = step.sizes(t, n) if counts is None else step.sizes_at(counts)
    if step.cap and not optimizer.is_minibatch:  # mini-batches have a cap of their own
        scale = rows.weights if rows.weights.ndim == 2 else problem.unpacked(rows.weights)
        heaviest = scale.reshape(len(order), -1)[:n].max(1)
        sizes = capped(sizes, squared_norms(rows.indptr, rows.data, order[:n]), heaviest, problem)
    check_positive(sizes, t)
    return sizes


def block_end(start: int) -> int:
    """Return the clock at which a block that began at ``start`` is settled.

    That is after 2^16 steps, later on after as many as there were before, at most 2^18.  So a sweep over all features
    costs little per example, however many features there are or will be.
    """
    return start + min(max(start, 1 << 16), 1 << 18)


def some_rows(n: int) -> int:
    """Return how many rows come next; raise an error where a state of a file lets none come, again and again."""
    if n < 1:
        raise ValueError("the parts of the training state do not fit together: no row can be learned. Learn anew.")
    return n
