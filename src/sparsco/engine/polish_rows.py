"""The rows of a polish: in memory, or in passes over a file.

The targets and weights of a part are those that were given, (n,), or those of each model, (n, m).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..data import row_sums
from ..data.rows import Matrix, margins, stack

_NONZEROS = 1 << 19
"""The nonzeros of the rows in memory that are processed together: what a cache holds, and few calls."""
_TOGETHER = 1 << 14
"""The most rows of these: larger temporary arrays would get new memory in every pass."""
_WIDE = 64
"""The columns from which full rows are read one by one: BLAS reads several at once, for which it waits longer."""


class Part(NamedTuple):
    """Some rows, with their targets and weights."""

    matrix: Matrix
    targets: np.ndarray
    weights: np.ndarray


def sample_rows(run: Any, part: Part, is_first: bool) -> None:
    """Let a run keep a sample of the rows of a polish, where its conversion needs none; for intervals, later.

    ``is_first``: they are the first rows.  Targets and weights are those that were given.
    """
    if run.sample_nonzeros(run.conversion) or run.conversion.joins_runs:
        return
    run.keep_polished(*part, is_first)


Encode = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""A function that returns the targets and weights of each model."""


class Rows(ABC):
    """All rows of a polish: the same rows in every pass, in the same order."""

    in_memory = False
    count: int | None = None
    """The number of rows; None: it is not known."""

    @abstractmethod
    def parts(self) -> Iterator[Part]:
        """Yield the rows of one pass, a few at a time."""

    @abstractmethod
    def take(self, numbers: np.ndarray) -> Matrix:
        """Return the rows with these numbers, which ascend."""

    @abstractmethod
    def copied(self, choices: list[np.ndarray]) -> list[Matrix]:
        """Return copies of some columns, and of others, in one pass over the rows."""

    @abstractmethod
    def encoded(self, encode: Encode) -> Rows:
        """Return the rows with other targets and weights."""

    @abstractmethod
    def in_units(self, units: np.ndarray) -> Rows:
        """Return the rows with each column divided by its unit."""


class RowsInMemory(Rows):
    """Rows that are all in memory."""

    in_memory = True

    def __init__(self, matrix: Matrix, targets: np.ndarray, weights: np.ndarray) -> None:
        self.matrix, self.targets, self.weights = matrix, targets, weights
        self.count = len(matrix)

    @property
    def nonzeros(self) -> float:
        """Return the mean number of nonzeros in a row, at least 1."""
        return max(len(self.matrix.data) / max(len(self.matrix), 1), 1.0)

    def parts(self) -> Iterator[Part]:
        """Yield the rows of one pass, a few at a time, without copies."""
        n, length = len(self.matrix), max(1, min(_TOGETHER, int(_NONZEROS / self.nonzeros)))
        for start in range(0, n, length):
            stop = min(start + length, n)
            yield Part(self.matrix.part(start, stop), self.targets[start:stop], self.weights[start:stop])

    def take(self, numbers: np.ndarray) -> Matrix:
        """Return the rows with these numbers, which ascend."""
        return self.matrix if len(numbers) == len(self.matrix) else self.matrix.take(numbers)

    def copied(self, choices: list[np.ndarray]) -> list[Matrix]:
        """Return copies of some columns, and of others."""
        return [self.matrix.narrowed(columns) for columns in choices]

    def narrowed(self, columns: np.ndarray) -> RowsInMemory:
        """Return the rows with these columns only."""
        if len(columns) == self.matrix.d:
            return self
        return RowsInMemory(self.matrix.narrowed(columns), self.targets, self.weights)

    def encoded(self, encode: Encode) -> Rows:
        """Return the rows with other targets and weights."""
        return RowsInMemory(self.matrix, *encode(self.targets, self.weights))

    def in_units(self, units: np.ndarray) -> Rows:
        """Return the rows with each column divided by its unit."""
        return RowsInMemory(_in_units(self.matrix, units), self.targets, self.weights)


class RowsInPasses(Rows):
    """Rows that are read again in every pass."""

    def __init__(self, read: Callable[[], Iterable[tuple[Matrix, np.ndarray, np.ndarray]]]) -> None:
        self.read = read

    def parts(self) -> Iterator[Part]:
        """Yield the rows of one pass, a few at a time."""
        for part in self.read():
            yield Part(*part)

    def take(self, numbers: np.ndarray) -> Matrix:
        """Return the rows with these numbers, which ascend, after a pass over all rows."""
        found, seen = list[Matrix](), 0
        for matrix, _, _ in self.read():
            stop = seen + len(matrix)
            first, last = np.searchsorted(numbers, (seen, stop))
            found.append(matrix.take(numbers[first:last] - seen))
            seen = stop
        return stack(found)

    def copied(self, choices: list[np.ndarray]) -> list[Matrix]:
        """Return copies of some columns, and of others, in one pass over the rows."""
        found = [[matrix.narrowed(columns) for columns in choices] for matrix, _, _ in self.read()]
        return [stack(list(parts)) for parts in zip(*found, strict=True)]

    def encoded(self, encode: Encode) -> Rows:
        """Return the rows with other targets and weights."""
        return RowsInPasses(lambda: (Part(matrix, *encode(y, weights)) for matrix, y, weights in self.read()))

    def in_units(self, units: np.ndarray) -> Rows:
        """Return the rows with each column divided by its unit."""
        return RowsInPasses(lambda: (Part(_in_units(matrix, units), y, weights) for matrix, y, weights in self.read()))


def _in_units(matrix: Matrix, units: np.ndarray) -> Matrix:
    data = matrix.data / units[matrix.indices]
    return Matrix(matrix.indptr, matrix.indices, data, matrix.d, matrix.is_full)


def margins_of(X: Matrix, W: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the margins (n, m) of weights (d, m) and intercepts."""
    if X.is_full:
        if W.shape[1] == 1 and X.d >= _WIDE:
            return row_sums.full_margins(X.array, W[:, 0], float(b[0]))[:, None]
        return X.array @ W + b
    if W.shape[1] == 1:
        return row_sums.margins(X.indptr, X.indices, X.data, W[:, 0], float(b[0]))[:, None]
    return margins(X.indptr, X.indices, X.data, W, b)


def add_gradients(X: Matrix, c: np.ndarray, G: np.ndarray) -> None:
    """Add sum_i x_i c_i^T to G (d, m) in place."""
    if X.is_full and (c.shape[1] > 1 or X.d < _WIDE):
        G += X.array.T @ c
    elif X.is_full:
        row_sums.add_full_gradient(X.array, np.ascontiguousarray(c[:, 0]), G[:, 0])
    elif c.shape[1] == 1:
        row_sums.add_gradient(X.indptr, X.indices, X.data, np.ascontiguousarray(c[:, 0]), G[:, 0])
    else:
        G += X.to_scipy().T @ c
