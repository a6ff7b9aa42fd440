"""The features of a source, read before the first row is learned: groups of features need all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..data.rows import Matrix
from ..streams import Chunk, Stream


class AllFeatures(NamedTuple):
    """The number of columns of a source and the names of its features; 0 and None where they are not needed."""

    width: int = 0
    names: list[str] | None = None

    def widened(self, matrix: Matrix) -> Matrix:
        """Return rows that have all columns."""
        return matrix.of_width(max(matrix.d, self.width)) if self.width else matrix


def all_features(stream: Stream, feature_groups: Any, reading: Callable[[Chunk], None]) -> AllFeatures:
    """Return the features of all rows, which are read once; nothing is read where there are no groups.

    ``reading`` is called for each chunk.  A column without a name is called by its number.
    """
    if feature_groups is None:
        return AllFeatures()
    if not stream.repeatable:
        raise ValueError(
            "groups of features need all features before the first row is learned, and standard input and iterators "
            "can be read once only: give a file."
        )
    if stream.hashed_to:
        raise ValueError("groups of features need their names, which hashing drops: leave out hash_bits (--hash-bits).")
    width = 0
    for chunk in stream.chunks():
        reading(chunk)
        width = max(width, chunk.matrix.d)
    names = stream.names
    if not names and not isinstance(feature_groups, Mapping):
        return AllFeatures(width)
    return AllFeatures(width, [names.get(column, str(column)) for column in range(width)])
