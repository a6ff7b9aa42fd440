"""Tables as rows of a model: data frames and dicts with the columns that the model has learned from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..data.crosses import Crossed
from ..data.rows import Matrix
from ..data.slots import Names
from ..streams.description import Description
from ..streams.encoding import Unknown
from ..streams.features import Encoder, Keyed, Vocabulary, encoder, fingerprints, rows_of
from ..streams.protocol import Chunk
from ..streams.records import record_entries, record_offset
from ..streams.tables import TableStream
from ..util.attributes import attributes
from ..util.notices import warn
from .converted import Converted


class Described:
    """The columns of the tables that a model takes, and the names of its features in the order of its columns.

    ``names`` is None where names are hashed, and where the model has them itself.  It is a dict by column where columns
    are hashes of names, which may be forgotten.
    """

    _made: tuple[Any, Any, Encoder, Description] | None = None
    _growing: Encoder | None = None
    """The encoder of rows to learn, which may bring new names."""

    def __init__(self, description: Description, names: Sequence[str] | Mapping[int, str] | None = None) -> None:
        self.description, self.names = description, names
        if names is not None:
            self.names = dict(names) if isinstance(names, Mapping) else list(names)

    def __getstate__(self) -> dict[str, Any]:
        self._settle()
        return attributes(self) | {"_made": None, "_growing": None}

    def known_names(self) -> Sequence[str] | Mapping[int, str] | None:
        """Return the names of the features by column; None where the model has them, or none."""
        self._settle()
        return self.names

    def names_by_column(self) -> dict[int, str]:
        """Return the names of the features by column; they must be known."""
        assert self.names is not None
        return dict(self.names) if isinstance(self.names, Mapping) else dict(enumerate(self.names))

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

    def chunks(self, frame: Any, features: Any, model: Converted, own_offset: bool) -> list[Chunk]:
        """Return the rows of a table, some at a time; other columns than those with a weight need not be there.

        The column of the offset is read if ``own_offset`` is True.
        """
        placing, needed = self._reading(features, model)
        needed = needed if own_offset else needed._replace(offset=None)
        return list(TableStream(frame, description=needed, names=placing, predicts=True))

    def time_of(self, record: Mapping[str, Any]) -> Any:
        """Return the time of a dict; None if the table had no column for it."""
        return None if self.description.time is None else record.get(self.description.time)

    def offset_of(self, record: Mapping[str, Any]) -> float | None:
        """Return the offset of a dict; None if the table had no column for it."""
        return record_offset(record, self.description)

    def row(self, record: Mapping[str, Any], features: Any, model: Converted | None) -> Matrix:
        """Return a dict as one row; a column that it does not have is missing."""
        placing, needed = self._reading(features, model)
        unknown = Unknown()
        row = _row(record, needed, placing, unknown)
        if sentence := unknown.sentence():
            warn(sentence)
        return row

    def to_learn(self, record: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns and values of a dict; new names get new columns."""
        if self._growing is None:
            found = self.description
            is_keyed = isinstance(self.names, Mapping)
            self._growing = (
                Keyed(self.names.values())  # type: ignore[union-attr]
                if is_keyed
                else encoder(found.hash_bits, found.seed, found.signed, self.names)
            )
        row = _row(record, self.description, self._growing, None)
        return row.indices.astype(np.int64), row.data


def _row(record: Mapping[str, Any], description: Description, placing: Encoder, unknown: Unknown | None) -> Matrix:
    names, values = record_entries(record, description, unknown)

    def names_of(entries: np.ndarray) -> list[str]:
        return [names[entry] for entry in entries.tolist()]

    keys, data = fingerprints(names, placing.seed), np.array(values, np.float64)
    return Matrix(*rows_of(placing, np.array([len(names)]), keys, data, names_of), len(placing))
