"""Paths: averaged SGD on a half of the rows each, run side by side in threads.

The numbers of a path depend on the seed, the stage and the path alone, so any number of threads gives the same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...data.randomness import Purpose, bits, draw, key
from ...data.rows import Matrix, squared_norms
from ...jit.dispatch import U, kernel
from ...jit.lanes import prefetch
from ...losses import derivative


class Examples(NamedTuple):
    """Prepared rows with the targets by model (models, rows) and the weight of each row; float64."""

    rows: Matrix
    targets: np.ndarray
    weights: np.ndarray

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def take(self, order: np.ndarray) -> Examples:
        """Return a copy of the rows in ``order``."""
        return Examples(self.rows.take(order), np.ascontiguousarray(self.targets[:, order]), self.weights[order])

    def only(self, columns: np.ndarray) -> Examples:
        """Return the rows with these columns alone, in ascending order and renumbered.

        The row arrays are overwritten.
        """
        if len(columns) == self.rows.d:
            return self
        new = np.full(self.rows.d, -1, np.int64)
        new[columns] = np.arange(len(columns))
        indptr, indices, data, _, _ = self.rows
        left = keep_columns(indptr, indices, data, new)
        return self._replace(rows=Matrix(indptr, indices[:left], data[:left], len(columns)))


def rows_of_paths(n: int, paths: int, subsample: float, seed: int, first: int = 0) -> list[np.ndarray]:
    """Return the rows of each path: paths 2i and 2i + 1 divide all rows by coin flips.

    With ``subsample`` 1 each has all rows.
    """
    if subsample == 1.0:
        return [np.arange(n)] * paths
    numbers, out = np.arange(first, first + n), []
    for pair in range((paths + 1) // 2):
        heads = bits(seed, Purpose.HALF, numbers + (pair << 40)) >> np.uint64(63) == 0
        out += [np.flatnonzero(heads), np.flatnonzero(~heads)]
    return out[:paths]


def starting_intercepts(loss: Any, targets: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the starting intercept of each model, and the factor of steps.

    The factor is the scale of margins over that of derivatives, but at least the inverse curvature.
    """
    b, margins, slopes = loss.units(targets.mean(axis=1), targets.std(axis=1))
    ratio = np.where(targets.std(axis=1) > 0.0, margins / slopes, 0.0)
    return b, max(1.0 / loss.smoothness, float(ratio.max(initial=0.0)))


def step_sizes(examples: Examples, mean_square: float, loss: Any, factor: float) -> np.ndarray:
    """Return the step factor / (1 + mean ||x||^2) for every row.

    For a regression it is at most factor / (1 + ||x||^2), so that no step overshoots.
    """
    steps = np.full(examples.n, factor / (1.0 + mean_square))
    if loss.classifies:
        return steps
    norms = squared_norms(examples.rows.indptr, examples.rows.data, np.arange(examples.n))
    return np.minimum(steps, factor / (1.0 + norms))


def run_path(
    examples: Examples,
    model: int,
    order: np.ndarray,
    steps: np.ndarray,
    loss: Any,
    b: float,
    intercept: bool,
    passes: int,
    seed: int,
    first: int,
) -> tuple[np.ndarray, float]:
    """Return the mean of all iterates of some shuffled passes, started from zero (and b)."""
    cell, bias, t = np.zeros((examples.rows.d, 2)), np.array([b, 0.0]), 0
    order, random = order.astype(np.uint32), key(seed, Purpose.PATH)[0]
    for k in range(passes):
        shuffle(order, random, (first + k) << 32)
        t = learn(
            *examples.rows[:3], examples.targets[model], examples.weights, steps, order, loss, intercept, cell, bias, t
        )
    T = max(t, 1)
    return cell[:, 0] + cell[:, 1] / T, float(bias[0] + bias[1] / T)


@kernel
def learn(indptr, indices, data, y, weights, steps, order, loss, intercept, cell, bias, t):
    """Run plain SGD over the rows in ``order``, and return the number of steps so far.

    cell holds w and A = sum of t eta c x.  The mean of the T iterates before a step is then w + A/T.
    """
    for k in range(order.size):
        i = U(order[k])
        ahead = U(indptr[U(order[min(k + 3, order.size - 1)])])
        prefetch(indices, ahead)
        prefetch(data, ahead)
        start, stop = U(indptr[i]), U(indptr[i + U(1)])
        p = bias[0]
        for r in range(start, stop):
            p += cell[U(indices[r]), 0] * data[r]
        c = steps[i] * weights[i] * derivative(loss, p, y[i])
        t += 1
        if c != 0.0:
            late = c * t
            for r in range(start, stop):
                j, x = U(indices[r]), data[r]
                cell[j, 0] -= c * x
                cell[j, 1] += late * x
            if intercept:
                bias[0] -= c
                bias[1] += late
    return t


@kernel
def sum_squares(indices, data, out):
    """Add the squares of the entries of each column to ``out``."""
    for r in range(U(data.size)):
        out[U(indices[r])] += data[r] * data[r]


@kernel
def shuffle(order, key, first):
    """Shuffle ``order`` in place, by draws numbered from ``first``."""
    for k in range(1, order.size):
        bits = draw(key, U(first) + U(k))
        j = ((bits >> U(32)) * U(k + 1)) >> U(32)
        order[U(k)], order[j] = order[j], order[U(k)]


@kernel
def keep_columns(indptr, indices, data, new):
    """Drop in place the entries whose column has no new number; return the number of entries left."""
    left, start = U(0), U(indptr[0])
    for i in range(indptr.size - 1):
        stop = U(indptr[U(i + 1)])
        for r in range(start, stop):  # the next entry overwrites a dropped one, so there is no branch to predict
            j, x = new[U(indices[r])], data[r]
            indices[left] = j
            data[left] = x
            left += U(j >= 0)
        start = stop
        indptr[U(i + 1)] = left
    return left
