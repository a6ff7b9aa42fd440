"""Tables as rows of a model: data frames and dicts with the columns that the model has learned from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..data.rows import Matrix
from ..data.slots import Names
from ..streams.description import Description
from ..streams.encoding import Unknown
from ..streams.features import Encoder, encoder, fingerprints, rows_of
from ..streams.records import record_entries
from ..streams.tables import TableStream
from ..util.attributes import attributes
from ..util.notices import warn
from .converted import Converted


class Described:
    """The columns of the tables that a model takes, and the names of its features in the order of its columns.

    ``names`` is None where names are hashed, and where the model has them itself.
    """

    _made: tuple[Any, Any, Encoder, Description] | None = None

    def __init__(self, description: Description, names: Sequence[str] | None = None) -> None:
        self.description, self.names = description, None if names is None else list(names)

    def __getstate__(self) -> dict[str, Any]:
        return attributes(self) | {"_made": None}

    def _reading(self, features: Any, model: Converted) -> tuple[Encoder, Description]:
        """Return the encoder of names, and the description of the columns that have a weight."""
        made = self._made
        if made is None or made[0] is not features or made[1] is not model:
            found = self.description
            names = features.names if isinstance(features, Names) else self.names
            if names is None:
                placing = encoder(found.hash_bits, found.seed, found.signed)
                needed = found.only(None, labelled=False)
            else:
                placing = encoder(names=names, frozen=True)
                used = np.unique(model.coef.indices).tolist()
                needed = found.only([names[column] for column in used], labelled=False)
            made = self._made = features, model, placing, needed._replace(weight=None, tag=None)
        return made[2], made[3]

    def rows(self, frame: Any, features: Any, model: Converted) -> list[Matrix]:
        """Return the rows of a table, some at a time; other columns than those with a weight need not be there."""
        placing, needed = self._reading(features, model)
        stream = TableStream(frame, description=needed, names=placing, predicts=True)
        return [chunk.matrix for chunk in stream]

    def row(self, record: Mapping[str, Any], features: Any, model: Converted) -> Matrix:
        """Return a dict as one row; a column that it does not have is missing."""
        placing, needed = self._reading(features, model)
        unknown = Unknown()
        names, values = record_entries(record, needed, unknown)
        if sentence := unknown.sentence():
            warn(sentence)
        keys = fingerprints(names, placing.seed)

        def names_of(entries: np.ndarray) -> list[str]:
            return [names[entry] for entry in entries.tolist()]

        lengths = np.array([len(names)])
        return Matrix(*rows_of(placing, lengths, keys, np.array(values, np.float64), names_of), len(placing))
