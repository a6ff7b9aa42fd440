"""What every reader gives: chunks of rows, and the places from which reading goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..data.rows import Matrix

Position = dict[str, Any]
"""A place between two chunks, opaque, made of what JSON has."""


class StreamError(ValueError):
    """The source says something that cannot be read; the message names file and line and says what to do."""


class Chunk(NamedTuple):
    """Some rows of a stream, as CSR: no index twice in a row, ``data`` finite and without zeros.

    ``y`` are labels as they stand in the source: float64, or an object array of strings; NaN or None where a row has
    none.  ``first`` is the number of the first row, from 0.  ``position`` is where reading goes on behind this chunk,
    and ``read`` how many bytes of the source (as it lies on disk) that is, or rows where it has no bytes.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    d: int
    """Features known behind this chunk: more than the largest index."""
    y: np.ndarray
    weights: np.ndarray | None
    tags: list[str] | None
    first: int
    position: Position
    read: int
    numbers: np.ndarray | None = None
    """The numbers of the rows in the source, where the stream is shuffled."""

    @property
    def rows(self) -> int:
        """How many rows."""
        return len(self.indptr) - 1

    @property
    def matrix(self) -> Matrix:
        """The rows as the engine takes them."""
        return Matrix(self.indptr, self.indices, self.data, self.d)


def unlabelled(y: np.ndarray) -> np.ndarray:
    """Which rows have no label, of a chunk's ``y``."""
    return np.array([label is None for label in y.tolist()], bool) if y.dtype.kind == "O" else np.isnan(y)


class Stream:
    """Rows from somewhere, in memory that does not depend on how many there are.

    ``iter(stream)`` is one pass over all chunks.  Where one chunk ends and the next begins means nothing: only their
    concatenation does, to the bit.
    """

    repeatable = True
    """Whether there can be a second pass; standard input and iterators have one."""
    total: int | None = None
    """What ``Chunk.read`` will be at the end, where that is known."""
    labels_are = ""
    """Where labels are to be found, for whoever misses them."""
    hashed_to: int = 0
    """How many columns names are hashed to; 0 where they are not."""
    label_dtype: np.dtype | None = None
    """Of labels that came as objects of Python, as soon as one was seen; chunks have numbers as float64."""

    @property
    def names(self) -> Mapping[int, str]:
        """Names of features by their index, as far as they are known by now: all in a vocabulary, the first ones with
        hashing, none where features are numbered columns."""
        return {}

    def remarks(self) -> list[str]:
        """What the reader chose where nothing was said, and what is odd, as far as it is known by now."""
        return []

    def recall(self, names: Mapping[int, str]) -> None:
        """Know the ``names`` of an earlier reading of the same source, to go on from one of its positions."""

    def identity(self) -> dict[str, Any]:
        """What the rows depend on, made of what JSON has: files with sizes and times, format, options."""
        raise NotImplementedError

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        """One pass from ``start``, a chunk's ``position`` in this or another process, or from the beginning.

        With a growing vocabulary the stream must know the names that had been seen up to there (``recall``).
        """
        raise NotImplementedError

    def __iter__(self) -> Iterator[Chunk]:
        return self.chunks()
