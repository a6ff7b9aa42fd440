"""Crosses of a training run: which words stand for what in its source, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..data.cross_rules import EVERY, MOST_PARENTS, Cross, cross_of
from ..data.crosses import Crossed, Naming
from ..estimators.crossing import has_births
from ..estimators.life_cycle import Phase
from ..estimators.linear import LinearModel
from ..streams import Chunk, Stream
from ..streams.cache import CachedStream
from ..streams.description import Description, listed
from ..streams.texts import LabelledTexts
from ..util.notices import warn
from ..util.progress import percent
from .labelled_rows import by_name

MANY_FEATURES = 200
"""The number of features in the first rows from which on the crosses of all features are born, unless told."""
_TEXTS = ("words", "text")
"""The names of all features of raw texts, which have no column."""


class Crossing:
    """The crosses of a training run; without any it does nothing."""

    def __init__(
        self, cross: Any = None, birth: Any = None, bits: int | None = None, reader: Mapping[str, Any] | None = None
    ) -> None:
        self.cross, self.is_open = cross_of(cross, birth, bits), birth is None and bits is None
        self.asked = "" if self.cross is None else repr((self.cross, self.is_open))
        """What was asked for, as text."""
        if self.cross is not None and (reader or {}).get("quadratic"):
            raise ValueError("cross and quadratic (-q) both make pairs of features: leave out one of them.")

    def settle(self, model: Any, stream: Stream, first: Sequence[Chunk], rows: int) -> list[str]:
        """Find what the words stand for in a source, whose first rows these are; return a note on what was decided.

        Raises a ValueError for a word that stands for no column of a table, and for a model that is under way.
        """
        if self.cross is None:
            return []
        if model.fit_state.phase is Phase.STREAM:
            raise ValueError(
                "the model is under way, and goes on with the features that it began with: leave out cross."
            )
        description, source = stream.description, stream.source if isinstance(stream, CachedStream) else stream
        if description is None or isinstance(source, LabelledTexts):
            self.cross = self.cross.with_everything(() if description is None else _TEXTS)
        else:
            only = [each.name for each in description.features if each.text is not None and not each.text.prefix]
            self.cross = self.cross.with_everything(only)
            _check_words(self.cross, description)
        if self.is_open and self.cross.is_all:
            seen = _distinct(first, rows)
            if seen > MANY_FEATURES:
                self.cross = self.cross._replace(birth=MOST_PARENTS)
                what = f"crosses are born of selected features only, since the first rows have {seen:,} features"
                return [f"{what}; --no-birth (birth=False) makes those of all features"]
        return []

    def options(self, stream: Stream, model: Any) -> dict[str, Any]:
        """Return the arguments of ``take_rows`` for crosses."""
        if self.cross is None and _features_of(model) is None:
            return {}
        source = stream.source if isinstance(stream, CachedStream) and not stream.is_cached else stream
        return {"cross": self.cross, "naming": Naming(source.names_of, by_name(stream))}

    def end_pass(self, model: Any) -> None:
        """Let crosses be born at the end of a pass, which is a boundary."""
        if has_births(_features_of(model)):
            model.bear_crosses()

    def notes_on(self, model: Any) -> list[str]:
        """Return notes on the crosses of a model: how many there are, and how many collide."""
        features, notes = _features_of(model), list[str]()
        if features is None:
            return notes
        crosses, rules = len(features) - len(features.parents), listed(features.asked.spelled())
        if features.asked.birth:
            born = int(np.count_nonzero(features.born))
            notes.append(f"crosses ({rules}): {crosses:,} were born of {born:,} of {len(features.parents):,} features")
        else:
            notes.append(f"crosses ({rules}): {crosses:,} of {len(features.parents):,} features")
        if features.asked.bits:
            used, several = len(features.buckets), int(features.clashes.sum())
            notes.append(
                f"crosses are hashed: {used:,} of {1 << features.asked.bits:,} columns are in use, and {several:,} of "
                f"them hold more than one cross ({percent(several / max(used, 1))})"
            )
        return notes

    def remark(self, model: Any, notes: list[str], warnings: list[str]) -> None:
        """Add notes on the crosses of a model, and warn of words that stood for no feature."""
        notes += self.notes_on(model)
        features = _features_of(model)
        absent = [] if features is None else [word for word in features.unmatched() if word != EVERY]
        if absent:
            warnings.append(f"cross names {listed(absent)}, which stood for no feature of any row: check the spelling.")
            warn(warnings[-1])


def _features_of(model: Any) -> Crossed | None:
    """Return the features of a model if some of them are crosses, else None."""
    features = model.fit_state.features if isinstance(model, LinearModel) else None
    return features if isinstance(features, Crossed) else None


def _distinct(chunks: Sequence[Chunk], rows: int) -> int:
    """Return the number of different features in the first rows of some chunks."""
    found = [np.empty(0, np.int64)]
    for chunk in chunks:
        found.append(chunk.indices[: chunk.indptr[min(rows, chunk.rows)]].astype(np.int64))
        rows = max(rows - chunk.rows, 0)
    return len(np.unique(np.concatenate(found)))


def _check_words(cross: Cross, description: Description) -> None:
    """Raise a ValueError if a name in the rules is neither a column of the table nor the beginning of a feature."""
    columns = [each.name for each in description.features]
    for name in (name for word in cross.words for name in word if name != EVERY):
        parts = [f"{column}{mark}" for column in columns for mark in "=:?"]
        if name not in columns and not name.startswith(tuple(parts)):
            raise ValueError(
                f"cross names {name!r}, which is no feature of the table: its columns are {listed(columns, 20)}."
            )
