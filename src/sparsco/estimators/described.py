"""Tables and texts as rows of a model: data frames, dicts and texts, by the columns that the model has learned."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..data.crosses import Crossed
from ..data.rows import MAX_FEATURES, Matrix, stack
from ..data.slots import Names, tidied
from ..streams.description import Description, listed
from ..streams.encoding import Unknown
from ..streams.features import Encoder, Keyed, Vocabulary, encoder, fingerprints, rows_of
from ..streams.frequencies import Counted
from ..streams.records import record_entries, record_offset, record_texts
from ..streams.tables import TableStream, is_table
from ..text.encoding import TextEntries, encoded, joined
from ..text.spec import TextSpec
from ..util.attributes import attributes, replace_attributes, shape_of
from ..util.notices import warn
from .converted import Converted


class Described:
    """The columns of the tables that a model takes, and the names of its features in the order of its columns.

    ``names`` is None where names are hashed, and where the model has them itself.  It is a dict by column where columns
    are hashes of names, which may be forgotten.  ``counts`` are the frequencies of texts, for columns whose values
    depend on them.
    """

    counts: Mapping[str, Any] = {}
    _made: tuple[Any, Any, Encoder, Description] | None = None
    _growing: Encoder | None = None
    """The encoder of rows to learn, which may bring new names."""
    _counted: Counted | None = None
    """The frequencies of texts, which grow where texts are learned."""

    def __init__(
        self,
        description: Description,
        names: Sequence[str] | Mapping[int, str] | None = None,
        counts: Mapping[str, Any] | None = None,
    ) -> None:
        self.description, self.names, self.counts = description, names, counts or {}
        if names is not None:
            self.names = dict(names) if isinstance(names, Mapping) else list(names)

    def __getstate__(self) -> dict[str, Any]:
        self._settle()
        return attributes(self) | {"_made": None, "_growing": None, "_counted": None, "counts": self.known_counts()}

    def snapshot(self) -> Callable[[], None]:
        """Return a function that restores the names, and the frequencies of texts, as they are now."""
        growing, counts = self._growing, self.known_counts()
        before, known = attributes(self), growing.mark() if isinstance(growing, Vocabulary) else 0

        def restore() -> None:
            replace_attributes(self, before | {"counts": counts, "_counted": None})
            if isinstance(growing, Vocabulary):
                growing.back_to(known)

        return restore

    def known_counts(self) -> Mapping[str, Any]:
        """Return the frequencies of texts so far, by column."""
        return self.counts if self._counted is None else self._counted.counts()

    def _frequencies(self) -> Counted:
        if self._counted is None:
            found = self.description
            hashing = None if found.hash_bits is None else encoder(found.hash_bits, found.seed, found.signed)
            self._counted = Counted(found.counted, hashing, self.counts)
        return self._counted

    def known_names(self) -> Sequence[str] | Mapping[int, str] | None:
        """Return the names of the features by column; None where the model has them, or none."""
        self._settle()
        return self.names

    def names_by_column(self) -> dict[int, str]:
        """Return the names of the features by column; they must be known."""
        names = self.known_names()
        assert names is not None
        return dict(names) if isinstance(names, Mapping) else dict(enumerate(names))

    def _settle(self) -> None:
        """Take over the names that rows to learn have brought."""
        if isinstance(self._growing, Keyed):
            found: Any = dict(self._growing.names)
        elif isinstance(self._growing, Vocabulary) and len(self._growing) > len(self.names or ()):
            found = list(self._growing.names.values())
        else:
            return
        if found != self.names:
            self.names = found
            every = found.values() if isinstance(found, dict) else found
            self.description, self._made = self.description.learned(list(every)), None

    def forget_names(self, in_use: np.ndarray) -> None:
        """Drop names of columns that are not in use, where rows to learn have brought many."""
        if isinstance(self._growing, Keyed):
            self._growing.forget(in_use, 1 << 62)

    def _reading(self, features: Any, model: Converted | None) -> tuple[Encoder, Description]:
        """Return the encoder of names, and the columns that have a weight; without a model all columns."""
        self._settle()
        made = self._made
        if made is None or made[0] is not features or made[1] is not model:
            found = self.description
            names = features.names if isinstance(features, Names) else self.names
            if names is None:
                placing, used = encoder(found.hash_bits, found.seed, found.signed), None
            elif isinstance(names, Mapping):
                placing, used = Keyed(names.values(), frozen=True), list(names.values())
                if model is not None:
                    columns = features.to_columns(np.unique(model.coef.indices))
                    used = [names[column] for column in columns.tolist()]
            else:
                placing, used = encoder(names=names, frozen=True), list(names)
                if model is not None:
                    columns = np.unique(model.coef.indices)
                    if isinstance(features, Crossed):  # a cross needs the columns of its parents
                        columns = features.parents_of(features.to_columns(columns))
                    used = [names[column] for column in columns.tolist()]
            needed = found.only(used if model is not None else None, labelled=False)
            made = self._made = features, model, placing, needed._replace(weight=None, tag=None)
        return made[2], made[3]

    def takes(self, X: Any) -> bool:
        """Return whether X is a table, a list of dicts or a list of texts, and no matrix of numbers."""
        if isinstance(X, list | tuple) and len(X):
            return isinstance(X[0], Mapping) or is_text(X[0])
        return isinstance(X, str) or is_table(X) or is_column(X)

    def offset_of(self, x: Any) -> float | None:
        """Return the offset of a dict; None if the table had no column for it."""
        return record_offset(x, self.description) if isinstance(x, Mapping) else None

    def rows(
        self, X: Any, features: Any, model: Converted, own_offset: bool = True
    ) -> Iterator[tuple[Matrix, np.ndarray | None]]:
        """Yield the rows of a table, of dicts or of texts, some at a time, with their offsets if they have some.

        Other columns than those with a weight need not be there.  The column of the offset is read if ``own_offset``.
        """
        placing, needed = self._reading(features, model)
        needed = needed if own_offset else needed._replace(offset=None)
        if isinstance(X, list | tuple) and isinstance(X[0], Mapping):
            with told_of_unknown() as unknown:
                for record in X:
                    offset = self.offset_of(record) if own_offset else None
                    yield self._row(record, needed, placing, unknown), None if offset is None else np.array([offset])
        else:
            yield from self._rows_of_columns(X, needed, placing, predicts=True)

    def time_of(self, record: Mapping[str, Any]) -> Any:
        """Return the time of a dict; None if the table had no column for it."""
        return None if self.description.time is None else record.get(self.description.time)

    def rows_to_learn(self, X: Any) -> tuple[Matrix, np.ndarray | None]:
        """Return the rows of a table, of dicts or of texts, and their offsets; new names get new columns."""
        placing, needed = self._to_grow(), self.description._replace(target=None, weight=None, tag=None)
        if isinstance(X, list | tuple) and isinstance(X[0], Mapping):
            parts = [self._row(record, needed, placing, None) for record in X]
            own = [self.offset_of(record) for record in X]
            offsets = None if needed.offset is None else np.array(own, np.float64)
        else:
            found = list(self._rows_of_columns(X, needed, placing, predicts=False))
            parts, some = [part for part, _ in found], [offset for _, offset in found if offset is not None]
            offsets = np.concatenate(some) if some else None
        return joined_rows(parts, len(placing)), offsets

    def _rows_of_columns(
        self, X: Any, needed: Description, placing: Encoder, predicts: bool
    ) -> Iterator[tuple[Matrix, np.ndarray | None]]:
        if isinstance(X, str | list | tuple) or is_column(X):
            spec = _texts(self.description)
            for found in encoded(X, spec, placing.seed):
                if spec.counts:
                    found = self._frequencies().weighted(self.description.features[0].name, found, not predicts)
                yield _placed(found, placing), None
        else:
            counts = self.known_counts()
            stream = TableStream(X, description=needed, names=placing, predicts=predicts, counts=counts)
            yield from ((chunk.matrix, chunk.offsets) for chunk in stream)
            if not predicts and needed.counted:
                self.counts, self._counted = stream.counts, None

    def _to_grow(self) -> Encoder:
        """Return the encoder of rows to learn."""
        if self._growing is None:
            found = self.description
            is_keyed = isinstance(self.names, Mapping)
            self._growing = (
                Keyed(self.names.values())  # type: ignore[union-attr]
                if is_keyed
                else encoder(found.hash_bits, found.seed, found.signed, self.names)
            )
        return self._growing

    def row(self, x: Any, features: Any, model: Converted | None) -> Matrix:
        """Return a dict or a text as one row; a column that a dict does not have is missing."""
        placing, needed = self._reading(features, model)
        with told_of_unknown() as unknown:
            return self._row(self._record(x), needed, placing, unknown)

    def to_learn(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns and values of a dict or a text; new names get new columns."""
        row = self._row(self._record(x), self.description, self._to_grow(), None)
        return row.indices.astype(np.int64), row.data

    def _row(
        self, record: Mapping[str, Any], description: Description, placing: Encoder, unknown: Unknown | None
    ) -> Matrix:
        """Return a dict as one row, to predict if there is a record of what is ``unknown``, else to learn."""
        names, values = record_entries(record, description, unknown)

        def names_of(entries: np.ndarray) -> list[str]:
            return [names[entry] for entry in entries.tolist()]

        keys = fingerprints(names, placing.seed)
        found = TextEntries(np.array([0, len(names)]), keys, np.array(values, np.float64), names_of)
        if description.counted:
            texts, counted = record_texts(record, description, placing.seed), self._frequencies()
            parts = [counted.weighted(name, each, unknown is None) for name, each in texts.items()]
            found = joined([found, *parts])
        return _placed(found, placing)

    def _record(self, x: Any) -> Mapping[str, Any]:
        """Return a dict itself, and a text as the cell of the only column."""
        if isinstance(x, Mapping):
            return x
        _texts(self.description)
        if not isinstance(x, str):
            raise ValueError(
                f"x is a {type(x).__name__}: this model cuts texts into words itself; give one text (a str), or a "
                f"dict {{{self.description.features[0].name!r}: text}}."
            )
        return {self.description.features[0].name: x}


def joined_rows(parts: Sequence[Matrix], d: int) -> Matrix:
    """Return rows to learn one below the other, sorted by column as ``learn_one`` has them.

    Raise a ValueError if there are none.
    """
    if not parts:
        raise ValueError("X has no rows: there is nothing to learn from.")
    indptr, columns, values, *_ = stack(parts)
    rows = Matrix(*tidied(np.diff(indptr), columns.astype(np.int64), values.copy()), d)
    return rows if d > MAX_FEATURES else rows.of_width(d)  # hashes of names are longer than the numbers of columns


@contextlib.contextmanager
def told_of_unknown() -> Iterator[Unknown]:
    """Yield a record of what rows have that the training had not; warn of it at the end."""
    unknown = Unknown()
    yield unknown
    if sentence := unknown.sentence():
        warn(sentence)


def is_text(x: Any) -> bool:
    """Return whether an item of a list is a text, or what stands for a missing one."""
    return x is None or isinstance(x, str) or (isinstance(x, float) and x != x)


def is_column(X: Any) -> bool:
    """Return whether X is one column of texts: a Series, an array of objects or of str, or an array of Arrow."""
    if isinstance(X, np.ndarray):
        return X.ndim == 1 and X.dtype.kind in "OUT"
    return len(shape_of(X)) == (0 if type(X).__module__.startswith("pyarrow") else 1)


def _texts(description: Description) -> TextSpec:
    """Return the options of the texts; raise a ValueError if the model has other columns."""
    if description.texts is None:
        names = listed([column.name for column in description.features], 20)
        raise ValueError(
            f"this model was trained on a table with the columns {names}: give a data frame or dicts of them."
        )
    return description.texts


def _placed(found: TextEntries, placing: Encoder) -> Matrix:
    indptr, keys, values, names_of = found
    return Matrix(*rows_of(placing, np.diff(indptr), keys, values, names_of), len(placing))
