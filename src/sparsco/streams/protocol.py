"""The interface of every reader: chunks of rows, and the positions from which reading resumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..data.rows import Matrix
from .description import Description

Position = dict[str, Any]
"""An opaque position between two chunks, made of JSON types."""


class StreamError(ValueError):
    """An error in the contents of a source; the message names file and line and the remedy."""


class Chunk(NamedTuple):
    """Some rows of a stream, as CSR: indices are unique in a row, ``data`` is finite and without zeros.

    ``y`` are labels as in the source: float64, or an object array of strings; NaN or None where a row has none.
    ``first`` is the number of the first row, from 0.  ``position`` is where reading resumes after this chunk.  ``read``
    is the number of bytes of the source (as stored on disk) up to there, or of rows if it has no bytes.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    d: int
    """The features known after this chunk: more than the largest index."""
    y: np.ndarray
    weights: np.ndarray | None
    tags: list[str] | None
    first: int
    position: Position
    read: int
    numbers: np.ndarray | None = None
    """The numbers of the rows in the source, where the stream is shuffled."""
    offsets: np.ndarray | None = None
    """The offset of each row, which is added to its margin; None if all are zero."""
    times: np.ndarray | None = None
    """The time of each row, by which old rows fade; None if rows have none."""

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return len(self.indptr) - 1

    @property
    def matrix(self) -> Matrix:
        """Return the rows in the format of the engine."""
        return Matrix(self.indptr, self.indices, self.data, self.d)


def unlabelled(y: np.ndarray) -> np.ndarray:
    """Return which rows of a chunk's ``y`` have no label."""
    return np.array([label is None for label in y.tolist()], bool) if y.dtype.kind == "O" else np.isnan(y)


def first_unlabelled(stream: Stream) -> int:
    """Return the number of the first row of a source without a label, from 0, where there is one."""
    found = ((chunk, unlabelled(chunk.y)) for chunk in stream)
    return next(chunk.first + int(missing.argmax()) for chunk, missing in found if missing.any())


def no_label(stream: Stream, row: int) -> ValueError:
    """Return the error for a row, counted from 0, that has no label."""
    return ValueError(f"{stream.place}row {row + 1} has no label: {stream.labels_are or 'every row must have one'}.")


def column_of(parts: Sequence[tuple[int, np.ndarray | None]], fill: float) -> np.ndarray | None:
    """Return a column of numbers over several parts, with ``fill`` for the rows of parts without it.

    Each part is a number of rows and their column or None.  The result is None if no part has the column.
    """
    if all(column is None for _, column in parts):
        return None
    return np.concatenate([np.full(rows, fill) if column is None else column for rows, column in parts])


class Stream:
    """Rows of a source, in memory that does not depend on their number.

    ``iter(stream)`` is one pass over all chunks.  The boundaries of chunks have no meaning: only their concatenation
    does, to the bit.
    """

    repeatable = True
    """Whether there can be a second pass; standard input and iterators have only one."""
    total: int | None = None
    """The value of ``Chunk.read`` at the end, if it is known."""
    labels_are = ""
    """Where labels are found, for error messages."""
    place = ""
    """The files and a comma, before the number of a row in error messages; empty if the source is no file."""
    hashed_to: int = 0
    """The number of columns that names are hashed to; 0 without hashing."""
    label_dtype: np.dtype | None = None
    """The type of labels that came as Python objects, once one was seen; chunks have numbers as float64."""

    counts: Mapping[str, Any] = {}
    """The frequencies of texts, by column, as far as they are known by now; for tf-idf and minimum counts."""
    description: Description | None = None
    """The description of a table's columns, as far as it is known; None if the source is no table."""

    @property
    def names(self) -> Mapping[int, str]:
        """Return the names of features by their index, as far as they are known by now.

        These are all names in a vocabulary, the first ones with hashing, and none for numbered columns.
        """
        return {}

    def names_of(self, columns: np.ndarray) -> list[str | None]:
        """Return the names of some features by their index, None where there is none."""
        names = self.names
        return [names.get(column) for column in columns.tolist()]

    def remarks(self) -> list[str]:
        """Return the reader's own choices of open options, and irregularities, as far as they are known by now."""
        return []

    def recall(self, names: Mapping[int, str]) -> None:
        """Restore the ``names`` of an earlier reading of the same source, to resume from one of its positions."""

    def key_names(self) -> None:
        """Let the columns of names be hashes of 62 bits from here on, so that names can be forgotten.

        By default nothing changes: columns are numbers, or names are hashed to few columns.
        """

    def forget_names(self, in_use: np.ndarray, chunks: int) -> None:
        """Drop names that are neither of the columns ``in_use`` nor of a chunk behind the first ``chunks``.

        By default nothing is dropped.
        """

    def identity(self) -> dict[str, Any]:
        """Return everything that the rows depend on, in JSON types: files with sizes and times, format, options."""
        raise NotImplementedError

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        """Yield one pass from ``start``, a chunk's ``position`` in this or another process, or from the beginning.

        With a growing vocabulary, the names seen up to there must be restored first (``recall``).
        """
        raise NotImplementedError

    def __iter__(self) -> Iterator[Chunk]:
        return self.chunks()
