"""Rows of a source in the form that an estimator takes, and its labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..data.rows import Matrix, stack
from ..data.slots import Columns
from ..estimators.linear import LinearModel
from ..offsets import with_offset
from ..streams import Chunk, Stream
from ..streams.cache import CachedStream, CacheStream
from ..streams.features import Hashed, Keyed, Vocabulary
from ..streams.libsvm import LibsvmStream
from ..streams.number_texts import FEW_WORDS, number_texts, of_classes
from ..streams.parsed import Pieces
from ..streams.protocol import column_of, first_unlabelled, no_label, unlabelled
from ..streams.tabular import ROLES
from ..streams.texts import LabelledTexts
from ..util.notices import warn

IN_DESCRIPTION = (*ROLES, "schema", "missing", "missing_values", "text", "text_options")
"""The options of a reader that the description of a table has."""
FEW_CLASSES, MANY_CLASSES = 10, 100


class LabelledRows(NamedTuple):
    """Some rows in the form that an estimator takes."""

    matrix: Matrix
    y: np.ndarray
    weights: np.ndarray | None
    numbers: np.ndarray | None = None
    """The numbers of the rows in the source, if they are in another order."""
    offsets: np.ndarray | None = None
    """The offset of each row; None if all are zero."""
    times: np.ndarray | None = None
    """The time of each row; None if rows have none."""

    @classmethod
    def of(cls, chunk: Chunk) -> LabelledRows:
        """Return all rows of a chunk."""
        return cls(chunk.matrix, chunk.y, chunk.weights, chunk.numbers, chunk.offsets, chunk.times)

    def cut(self, start: int, stop: int) -> LabelledRows:
        """Return rows start, ..., stop - 1; nothing is copied."""
        first, last = self.matrix.indptr[start], self.matrix.indptr[stop]
        indptr = self.matrix.indptr[start : stop + 1] - first
        rows = Matrix(indptr, self.matrix.indices[first:last], self.matrix.data[first:last], self.matrix.d)
        own = [None if each is None else each[start:stop] for each in self[2:]]
        return LabelledRows(rows, self.y[start:stop], *own)

    @classmethod
    def joined(cls, parts: list[LabelledRows]) -> LabelledRows:
        """Return the rows of several parts, one below the other."""
        weights = column_of([(part.rows, part.weights) for part in parts], 1.0)
        offsets = column_of([(part.rows, part.offsets) for part in parts], 0.0)
        times = column_of([(part.rows, part.times) for part in parts], np.nan)
        numbers = [part.numbers for part in parts if part.numbers is not None]
        rows = stack([part.matrix for part in parts]), np.concatenate([part.y for part in parts]), weights
        return cls(*rows, np.concatenate(numbers) if numbers else None, offsets, times)

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return len(self.y)


def checked_half_life(half_life: Any, reader: Mapping[str, Any]) -> Any:
    """Return the half-life, None for an infinite one; raise a ValueError for a column of times without one."""
    if half_life is None and reader.get("time") is not None:
        raise ValueError("time has no effect without half_life: set half_life (--half-life), or leave time out.")
    return None if half_life == np.inf else half_life


def are_classes(distinct: np.ndarray) -> bool:
    """Return whether sorted labels are classes: words, or whole numbers that are few or count from 0 or 1.

    At most ten whole numbers are classes, and up to a hundred if they count from 0 or 1 with hardly a gap.  Others are
    quantities, such as years, ages and shares in per cent.

    >>> [are_classes(np.array(each)) for each in ([2, 3, 7], range(26), range(1930, 1990), [0.5, 1.0], ["a", "b"])]
    [True, True, False, False, True]
    """
    if distinct.dtype.kind != "i" or len(distinct) <= FEW_CLASSES:
        return distinct.dtype.kind != "f"
    low, high = distinct[[0, -1]].tolist()
    return low in (0, 1) and 0.9 * (high - low + 1) <= len(distinct) <= MANY_CLASSES


def task_in_words(distinct: np.ndarray, rows: int, is_task: bool) -> str:
    """Return which task the different labels of first rows have decided, and how to choose the other one."""
    plural = "s" if len(distinct) > 1 else ""
    what = f"classification: {len(distinct)} label{plural}" if is_task else "regression: labels are numbers"
    other = "regression takes them for numbers" if is_task else "classification takes them for classes"
    is_clear = distinct.dtype.kind != "i" or len(distinct) <= 2
    return f"{what} in the first {rows} rows" + ("" if is_clear else f"; --task {other}")


def check_words(distinct: np.ndarray, rows: int, description: Any) -> None:
    """Raise a ValueError for labels of first rows that are too many words; warn of those that look like numbers."""
    if distinct.dtype.kind not in "OU":
        return
    words, what = distinct.tolist(), "the target" if description is None else f"column {description.target!r}"
    ways = (
        "if these are quantities, write plain numbers such as 1234.5; if they are classes, say so by --task "
        "classification, or a SparseClassifier"
    )
    if found := of_classes(words, rows):
        raise ValueError(f"{what} has {len(words):,} texts in the first {rows:,} rows, such as {found[:40]!r}: {ways}.")
    if len(words) > FEW_WORDS and (numbers := number_texts(words)):
        warn(f"{what} looks like numbers, such as {numbers.example!r}, and is read as {len(words)} classes: {ways}.")


def first_classes(y: np.ndarray) -> list[Any]:
    """Return the sorted labels of the first rows, for a model that needs all classes at its beginning."""
    found = sorted(set(labels(y).tolist()))
    if len(found) < 2:
        raise ValueError(
            f"the first {len(y)} rows all have the label {found[0]!r}: name all classes (classes=, --classes), or "
            "shuffle the rows."
        )
    return found


def labels(y: np.ndarray) -> np.ndarray:
    """Return labels as classes: whole numbers as integers, words unchanged."""
    if y.dtype.kind != "f":
        return y
    with np.errstate(invalid="ignore"):
        whole = y.astype(np.int64)
    return whole if np.array_equal(whole, y) else y


def targets_of(y: np.ndarray, offsets: np.ndarray | None) -> np.ndarray:
    """Return labels with the offsets of their rows, if there are some, as estimators take them."""
    return y if offsets is None else with_offset(y, offsets)


def check_labels(part: LabelledRows, first: int, classes: Any, stream: Stream) -> None:
    """Raise a ValueError for rows without a label, and for labels that are not among the classes.

    ``first`` is the number of the first row; ``stream`` has the rows in the order of the source.
    """
    y = part.y
    numbers = first + np.arange(part.rows) if part.numbers is None else part.numbers
    missing = unlabelled(y)
    if missing.any():
        raise no_label(stream, first + int(missing.argmax()) if part.numbers is None else first_unlabelled(stream))
    if classes is not None:
        unknown = ~np.isin(y, classes) if y.dtype.kind == "O" else np.ones(len(y), bool)
        for label in classes if y.dtype.kind != "O" else ():
            unknown &= y != label
        if unknown.any():
            at = int(unknown.argmax())
            label = labels(y[at : at + 1]).tolist()[0]
            raise ValueError(
                f"{stream.place}row {numbers[at] + 1} has the label {label!r}, which is not one of the classes "
                f"{classes}: name all classes (--classes), or accept new ones (--classes any)."
            )


def reader_of(stream: Stream, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options to read files as this stream was read, without those that its description has.

    For a cache these are the options of the files that it was made from.
    """
    found = options_of(stream, options)
    if isinstance(stream, CacheStream) and stream.description is None:
        found |= converted_by(stream.identity()["options"])
    return found


def options_of(stream: Stream, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options to open another source of this kind, a file or a cache, as this stream was opened."""
    own = ("cache", "counts", *(IN_DESCRIPTION if stream.description is not None else ()))
    found = {name: option for name, option in options.items() if name not in own}
    source = stream.source if isinstance(stream, CachedStream) else stream
    return found | ({"text_options": source.text_spec} if isinstance(source, LabelledTexts) else {})


def converted_by(made: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the reader that a cache was made with, by its settings: those that decide columns.

    >>> converted_by({"shift": 1, "wide": False}), converted_by({"quadratic": [[117, 105]], "hash_bits": None})
    ({'zero_based': False}, {'quadratic': ['ui']})
    """
    found: dict[str, Any] = {"zero_based": False} if made.get("shift") else {}
    if made.get("quadratic"):
        found["quadratic"] = [bytes(pair).decode() for pair in made["quadratic"]]
    if made.get("hash_bits") is not None:
        found |= {name: made[name] for name in ("hash_bits", "seed", "signed")}
    return found


def describe(model: Any, stream: Stream, columns: int | None = None) -> None:
    """Give a model the description of the table that it has learned, if it was one, and the names of its features.

    ``columns`` is their number, where the stream has been read further than the model has learned.
    """
    description = stream.description
    if description is None or not isinstance(model, LinearModel):
        return
    names = stream.names if by_name(stream) else {}
    every = [names[column] for column in sorted(names)][:columns]
    is_named = by_name(stream) and not model.fit_state.has_names
    own = None if not is_named else names if is_keyed(stream) else every
    model.describe(description.learned(every), own, stream.counts)


def is_keyed(stream: Stream) -> bool:
    """Return whether columns are hashes of names, which may be forgotten."""
    return isinstance(stream, Pieces) and isinstance(stream.encoder, Keyed)


def own_schema(model: Any, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the schema of an estimator, or of the settings of one, as an option of its reader."""
    schema = (settings or {}).get("schema") if model is None else model.schema
    return {} if schema is None else {"schema": schema}


def hash_seed(stream: Stream) -> int | None:
    """Return the seed of the hash that gave names their columns and signs; None without one."""
    if isinstance(stream, CacheStream):
        return seed_in(stream.identity()["options"])
    source = stream.source if isinstance(stream, CachedStream) else stream
    hashed = source.encoder if isinstance(source, Pieces) else None
    return seed_in(hashed.settings()) if isinstance(hashed, Hashed) else None


def seed_in(options: Mapping[str, Any]) -> int | None:
    """Return the seed of a hash with signs among the options of a reader; None without one."""
    return options.get("seed", 0) if options.get("hash_bits") is not None and options.get("signed", True) else None


def has_empty_first(model: Any, stream: Stream) -> bool:
    """Return whether column 0 is that of an index 0 which no row of LIBSVM text had: its indices count from 1."""
    features = model.fit_state.features
    if stream.hashed_to or not isinstance(features, Columns) or not features.lowest:
        return False
    source = stream.source if isinstance(stream, CachedStream) else stream
    if isinstance(source, CacheStream):
        return bool(source.identity()["options"].get("shift") == 0)
    return isinstance(source, LibsvmStream) and not source.shift


def by_name(stream: Stream) -> bool:
    """Return whether columns are numbered in the order in which names appeared.

    If so, only the names mean anything elsewhere.
    """
    if isinstance(stream, CacheStream):
        return bool(stream.names) and "hash_bits" not in stream.identity()["options"]
    source = stream.source if isinstance(stream, CachedStream) else stream
    return isinstance(source, Pieces) and isinstance(source.encoder, Vocabulary)
