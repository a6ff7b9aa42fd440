"""In how many texts each feature occurs, as they come: which features have a column, and their tf-idf.

The row of a text depends on the texts up to it and on no later one, so any cut of a stream gives the same rows.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..data.slots import SeenColumns
from ..jit.dispatch import U
from ..text.encoding import TextEntries
from ..text.frequencies import counted_on, inverse_frequencies
from ..text.spec import TFIDF, TextSpec
from .description import Description
from .features import FINGERPRINT, Hashed


class Frequencies:
    """The features that were seen: in how many texts each occurs, and the columns of those that occur in enough."""

    def __init__(self, least: int, hashed: Hashed | None) -> None:
        self.least, self.texts, self.used = least, 0, 0
        self.hashed = hashed
        self.slots = SeenColumns()
        room = 1 << 10 if hashed is None else len(hashed)
        self.documents, self.columns = np.zeros(room, np.int64), np.full(room, -1, np.int64)

    def learn(self, entries: TextEntries) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Count the features of texts; return their slots, columns and documents, the last two as of their text."""
        slots = self._made(entries)
        self._make_room(int(slots.max(initial=-1)) + 1)
        new, columns, documents = (np.empty(slots.size, np.int64) for _ in range(3))
        used = counted_on(slots, self.least, self.used, self.documents, self.columns, new, columns, documents)
        self.name(entries, new[: used - self.used])
        self.used, self.texts = int(used), self.texts + len(entries.indptr) - 1
        return slots, columns if self.hashed is None else slots, documents

    def name(self, entries: TextEntries, new: np.ndarray) -> None:
        """Take notice of the entries whose features get a column now."""

    def find(self, entries: TextEntries) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return slots, columns and documents of the features of texts; -1, -1 and 0 for those that are unknown."""
        slots = self._made(entries) if self.hashed is not None else self.slots.slots_of(keys_of(entries))
        return self.of_slots(np.asarray(slots, np.int64))

    def of_slots(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return slots, and the columns and documents of their features as of now."""
        known = slots >= 0
        columns = np.where(known, self.columns[slots], -1) if self.hashed is None else slots
        return slots, columns, np.where(known, self.documents[slots], 0)

    def weighted(self, entries: TextEntries, spec: TextSpec, learns: bool) -> TextEntries:
        """Return the entries of features that occur in enough texts, with their values.

        With ``learns`` the texts are counted, and a row is as of its text; else it is as of all texts so far.
        """
        if not learns and spec.weighting != TFIDF:
            return entries  # the model knows which features it has
        before = self.texts
        _, columns, documents = self.learn(entries) if learns else self.find(entries)
        values = entries.values
        if spec.weighting == TFIDF:
            inverse_frequencies(entries.indptr, documents, before, learns, spec.norm, values)
        kept = np.flatnonzero(columns >= 0)
        if len(kept) == len(columns):
            return entries._replace(values=values)
        indptr = np.append(0, np.cumsum(columns >= 0))[entries.indptr]
        return TextEntries(indptr, entries.keys[kept], values[kept], lambda some: entries.names_of(kept[some]))

    def counts(self) -> dict[str, Any]:
        """Return all that is known of the features, as numbers and arrays for a file."""
        n = len(self.slots) if self.hashed is None else len(self.documents)
        keys = self.slots.to_columns(np.arange(n)) if self.hashed is None else np.zeros(0, np.int64)
        return {"texts": self.texts, "keys": keys.copy(), "documents": self.documents[:n].astype(np.int32)}

    def take(self, counts: Mapping[str, Any]) -> None:
        """Begin with what ``counts`` returned."""
        documents = np.asarray(counts["documents"], np.int64)
        if self.hashed is None:
            self.slots.make_slots(np.asarray(counts["keys"], np.int64))
        self._make_room(len(documents))
        self.documents[: len(documents)], self.texts = documents, int(counts["texts"])
        has_column = np.flatnonzero(self.documents >= self.least)
        self.columns[has_column], self.used = np.arange(len(has_column)), len(has_column)

    def _make_room(self, size: int) -> None:
        short = size - len(self.documents)
        if short > 0:
            room = max(short, len(self.documents))
            self.documents = np.append(self.documents, np.zeros(room, np.int64))
            self.columns = np.append(self.columns, np.full(room, -1, np.int64))

    def _made(self, entries: TextEntries) -> np.ndarray:
        if self.hashed is not None:
            return self.hashed.place(entries.keys, entries.names_of)[0]
        return self.slots.make_slots(keys_of(entries)).astype(np.int64)


def keys_of(entries: TextEntries) -> np.ndarray:
    """Return the fingerprints of features as a vocabulary has them."""
    return (entries.keys & U(FINGERPRINT)).view(np.int64)


class Counted:
    """The frequencies of all columns of texts whose values depend on them, by column."""

    def __init__(self, specs: Mapping[str, TextSpec], encoder: Any, given: Mapping[str, Any] | None = None) -> None:
        """Begin with ``given`` counts, or with none."""
        self.specs, self.columns = specs, dict[str, Frequencies]()
        hashed = encoder if isinstance(encoder, Hashed) else None
        for name, spec in specs.items():
            self.columns[name] = Frequencies(spec.min_count, hashed)
            if given and name in given:
                self.columns[name].take(given[name])

    def weighted(self, name: str, entries: TextEntries, learns: bool) -> TextEntries:
        """Return the entries of a column with their values."""
        return self.columns[name].weighted(entries, self.specs[name], learns)

    def counts(self) -> dict[str, Any]:
        """Return all that is known, for a file."""
        return {name: each.counts() for name, each in self.columns.items()}


def check_hashing(spec: TextSpec, hash_bits: int | None) -> None:
    """Raise a ValueError for a minimum count of features that are hashed."""
    if hash_bits is not None and spec.min_count > 1:
        raise ValueError("min_count is for a vocabulary: with hash_bits every feature has its column.")


def check_counts(counts: Any, description: Description | None) -> None:
    """Raise a ValueError if the counts in a file are not those of the columns with tf-idf, which need them."""
    specs = {} if description is None else description.counted
    needed = {name for name, spec in specs.items() if spec.weighting == TFIDF}
    if type(counts) is not dict or not needed <= set(counts) or not set(counts) <= set(specs):
        raise ValueError("its frequencies of texts are missing, or of other columns")
    for each in counts.values():
        keys, documents, texts = (each[name] for name in ("keys", "documents", "texts"))
        kinds = (keys, np.int64), (documents, np.int32)
        is_array = all(
            isinstance(array, np.ndarray) and (array.dtype, array.ndim) == (kind, 1) for array, kind in kinds
        )
        if not is_array or type(texts) is not int or not 0 <= texts < 1 << 62:
            raise ValueError("its frequencies of texts are not numbers")
        columns = None if description is None or description.hash_bits is None else 1 << description.hash_bits
        is_whole = len(keys) == len(documents) if columns is None else (len(keys), len(documents)) == (0, columns)
        if not is_whole or (documents < 0).any() or (keys < 0).any() or len(np.unique(keys)) < len(keys):
            raise ValueError("its frequencies of texts do not fit")


def identity_of(counts: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what rows depend on where texts are counted on from ``counts``: a checksum for each column."""
    given = counts or {}
    return {"counts": {name: zlib.crc32(each["documents"].tobytes()) for name, each in given.items()}} if given else {}


def packed(counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return counts as JSON types."""
    return {
        name: {part: _text_of(value) if isinstance(value, np.ndarray) else value for part, value in each.items()}
        for name, each in counts.items()
    }


def unpacked(stored: Mapping[str, Any], hash_bits: int | None) -> dict[str, Any]:
    """Return the counts that were packed; raise a ValueError for more of them than there can be.

    Keys are bits of hashes: packed, they are longer than as numbers.
    """
    found = {}
    for name, each in stored.items():
        keys = _array_of(each["keys"], np.int64, len(each["keys"]))
        size = 4 * (len(keys) if hash_bits is None else 1 << hash_bits)
        found[name] = {**each, "keys": keys, "documents": _array_of(each["documents"], np.int32, size)}
    return found


def _text_of(values: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(values.tobytes())).decode()


def _array_of(text: str, kind: Any, most: int) -> np.ndarray:
    inflating = zlib.decompressobj()
    raw = inflating.decompress(base64.b64decode(text), most + 1)
    if len(raw) > most:
        raise ValueError("its frequencies of texts are of more features than it has")
    return np.frombuffer(raw, kind)
