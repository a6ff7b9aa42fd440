"""Columns for feature names: by hashing into a fixed number of columns, or by a growing vocabulary.

A column is a function of the name's bytes (UTF-8) alone, for any source of the name.  Hashing is that of scikit-learn's
``FeatureHasher``: MurmurHash3, with the sign given by the hash itself.  A vocabulary distinguishes names by 62 bits of
two such hashes: among a million names, two are confused with a probability of 10^-7.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..data.slots import SeenColumns
from ..jit.dispatch import U, kernel
from ..text.fingerprints import LOW, NamesOf, fingerprints

MAX_NAMES = 1 << 20
FINGERPRINT = (1 << 62) - 1
_SEEN_BITS = 24
_MANY_MARKS = 1 << 20
_FEW_NAMES = 1 << 12


class Vocabulary:
    """An encoder with columns in the order of first appearance of names; ``frozen`` leaves unknown names out."""

    seed = 0
    index_type: Any = np.uint32

    def __init__(self, names: Iterable[str] = (), frozen: bool = False) -> None:
        self._columns, self._names = SeenColumns(), list(names)
        self.frozen, self._marks = frozen, np.empty(0, np.int32)
        digest = hashlib.sha256("\n".join(self._names).encode("utf-8", "surrogateescape")).hexdigest()
        self._began = [len(self._names), digest]
        keys = (fingerprints(self._names, self.seed) & U(FINGERPRINT)).view(np.int64)
        self._columns.make_slots(keys)
        if len(self._columns) < len(self._names):
            raise ValueError("names contains a name twice: each name must be a different feature.")

    def __len__(self) -> int:
        return len(self._names)

    @property
    def names(self) -> Mapping[int, str]:
        """Return all names by column."""
        return dict(enumerate(self._names))

    def names_of(self, columns: np.ndarray) -> list[str | None]:
        """Return the names of some columns."""
        return [self._names[column] for column in columns.tolist()]

    def settings(self) -> dict[str, Any]:
        """Return the options that columns depend on."""
        return {"frozen": self.frozen, "names": self._began}

    def recall(self, names: Mapping[int, str]) -> None:
        """Restore the names and columns of an earlier reading, including the names it began with."""
        began, frozen = self._began, self.frozen
        self.__init__([names[column] for column in range(len(names))], frozen)  # type: ignore[misc]
        self._began = began

    def cut(self, d: int) -> None:
        """Drop all but the first d names."""
        if d > len(self._names):
            raise ValueError(
                f"the position has {d} names of features and the stream {len(self._names)}: pass the names "
                "seen up to that position as names=."
            )
        if not self.frozen:
            self.back_to(d)

    def mark(self) -> int:
        """Return a mark of the names so far for ``back_to``."""
        return len(self._names)

    def back_to(self, mark: int) -> None:
        """Drop the names that came after a mark."""
        if mark < len(self._names):
            self._names = self._names[:mark]
            self._columns = self._columns.only(np.arange(mark))

    def marks(self, longest: int) -> np.ndarray:
        """Return uninitialised room for a number per column."""
        if self._marks.size < len(self):
            self._marks = np.empty(1 << len(self).bit_length(), np.int32)
        return self._marks

    def place(self, keys: np.ndarray, names_of: NamesOf) -> tuple[np.ndarray, None]:
        """Return the columns of the entries, -1 for those left out."""
        keys = (keys & U(FINGERPRINT)).view(np.int64)
        if self.frozen:
            return self._columns.slots_of(keys), None
        before = len(self._columns)
        columns = self._columns.make_slots(keys).astype(np.int64)
        count = len(self._columns) - before
        if count:
            first, new = np.empty(count, np.int64), np.flatnonzero(columns >= before)[::-1]
            first[columns[new] - before] = new  # the last assignment wins: the first appearance
            self._names += names_of(first)
        return columns, None


class Keyed(Vocabulary):
    """A vocabulary that can forget names: the column of a name is 62 bits of its hashes, whatever came before it."""

    index_type = np.uint64

    def __init__(self, names: Iterable[str] = (), frozen: bool = False) -> None:
        super().__init__(names, frozen)
        self._placed, self._last = 0, np.zeros(len(self._names), np.int64)

    def __len__(self) -> int:
        return FINGERPRINT + 1

    @property
    def names(self) -> Mapping[int, str]:
        """Return the names that are not forgotten, by column."""
        columns = self._columns.to_columns(np.arange(len(self._names)))
        return dict(zip(columns.tolist(), self._names, strict=True))

    def settings(self) -> dict[str, Any]:
        """Return the options that columns depend on: there are none."""
        return {"names": "keys"}

    def recall(self, names: Mapping[int, str]) -> None:
        """Restore the names of an earlier reading."""
        self.__init__(names.values(), self.frozen)  # type: ignore[misc]

    def cut(self, d: int) -> None:
        """Do nothing: columns do not depend on the names seen so far."""

    def back_to(self, mark: int) -> None:
        """Drop the names that came after a mark; none may have been forgotten since."""
        super().back_to(mark)
        self._last = self._last[: len(self._names)]

    def marks(self, longest: int) -> np.ndarray:
        """Return uninitialised room for numbers, which columns share."""
        size = _shared_marks(longest)
        if self._marks.size < size:
            self._marks = np.empty(size, np.int32)
        return self._marks

    def place(self, keys: np.ndarray, names_of: NamesOf) -> tuple[np.ndarray, None]:
        """Return the columns of the entries, -1 for those left out; each call is a chunk for ``forget``."""
        places, _ = super().place(keys, names_of)
        columns = (keys & U(FINGERPRINT)).view(np.int64)
        if self.frozen:
            return np.where(places >= 0, columns, -1), None
        self._placed += 1
        if len(self._last) < len(self._names):
            self._last = np.append(self._last, np.zeros(len(self._names), np.int64))
        self._last[places] = self._placed
        return columns, None

    def forget(self, in_use: np.ndarray, chunks: int) -> None:
        """Drop names that are neither of the columns ``in_use`` nor of a chunk behind the first ``chunks``.

        Nothing happens while there are few names beside those in use.
        """
        if len(self._names) <= 2 * len(in_use) + _FEW_NAMES:
            return
        kept = self._last[: len(self._names)] > chunks
        known = self._columns.slots_of(in_use)
        kept[known[known >= 0]] = True
        slots = np.flatnonzero(kept)
        self._columns, self._last = self._columns.only(slots), self._last[slots]
        self._names = [self._names[slot] for slot in slots.tolist()]


def _shared_marks(longest: int) -> int:
    """Return how many marks serve any number of columns; in a row of the ``longest`` length some dozens share one."""
    return max(_MANY_MARKS, 1 << (longest * longest >> 6).bit_length())


class Hashed:
    """An encoder with ``2 ** bits`` columns; it keeps the first name of a column for inspection, at most MAX_NAMES."""

    frozen = False
    index_type: Any = np.uint32

    def __init__(self, bits: int, seed: int = 0, signed: bool = True, names: Mapping[int, str] | None = None) -> None:
        if not 1 <= bits <= 31:
            raise ValueError(f"hash_bits must be a whole number from 1 to 31, not {bits!r}.")
        if not 0 <= seed < 2**32:
            raise ValueError(f"seed must be a whole number from 0 to 2^32 - 1, not {seed!r}.")
        self.bits, self.seed, self.signed = int(bits), int(seed), bool(signed)
        self.names: dict[int, str] = dict(names or {})
        self._marks = np.empty(0, np.int32)
        self._seen = np.zeros(1 << min(self.bits, _SEEN_BITS), bool)
        self._seen[np.fromiter(self.names, np.int64) & (self._seen.size - 1)] = True

    def __len__(self) -> int:
        return 1 << self.bits

    def settings(self) -> dict[str, Any]:
        """Return the options that columns depend on."""
        return {"hash_bits": self.bits, "seed": self.seed, "signed": self.signed}

    def recall(self, names: Mapping[int, str]) -> None:
        """Restore the names that an earlier reading had kept."""
        self.names.update(names)
        self._seen[np.fromiter(self.names, np.int64) & (self._seen.size - 1)] = True

    def cut(self, d: int) -> None:
        """Do nothing: columns do not depend on the names seen so far."""

    def marks(self, longest: int) -> np.ndarray:
        """Return uninitialised room for a number per column.

        Where there are very many columns, some share it; in a row of the ``longest`` length only some dozens do.
        """
        size = min(len(self), _shared_marks(longest))
        if self._marks.size < size:
            self._marks = np.empty(size, np.int32)
        return self._marks

    def place(self, keys: np.ndarray, names_of: NamesOf) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the columns of the entries, and the signs of their values."""
        columns, signs, new = np.empty(keys.size, np.int64), np.empty(keys.size), np.empty(keys.size, np.int64)
        new = new[: hash_to_columns(keys, len(self), self._seen, columns, signs, new)]
        if new.size and len(self.names) < MAX_NAMES:
            found, at = np.unique(columns[new], return_index=True)
            found, at = found[: MAX_NAMES - len(self.names)], at[: MAX_NAMES - len(self.names)]
            self.names.update(zip(found.tolist(), names_of(new[at]), strict=True))
            self._seen[found & (self._seen.size - 1)] = True
        return columns, signs if self.signed else None


Encoder = Vocabulary | Hashed


def encoder(
    hash_bits: int | None = None, seed: int = 0, signed: bool = True, names: Any = None, frozen: bool = False
) -> Encoder:
    """Return an encoder: hashing if ``hash_bits`` is given, otherwise a vocabulary that begins with ``names``."""
    if isinstance(names, Mapping):
        names = {int(column): name for column, name in names.items()}
    elif names is not None:
        names = dict(enumerate(names))
    if hash_bits is not None:
        if frozen:
            raise ValueError("frozen is for a vocabulary: with hash_bits every name has its column.")
        return Hashed(hash_bits, seed, signed, names)
    if names is None:
        if frozen:
            raise ValueError("frozen needs names: without any there would be no features.")
        return Vocabulary()
    if sorted(names) != list(range(len(names))):
        raise ValueError("names must be those of columns 0, 1, 2, ... without a gap.")
    return Vocabulary((names[column] for column in range(len(names))), frozen)


def signs_of(names: Iterable[str], seed: int) -> np.ndarray:
    """Return the signs that hashing gives to the values of these names: 1 or -1."""
    return np.where(fingerprints(list(names), seed) & U(1 << 31), -1.0, 1.0)


def rows_of(
    encoder: Encoder, lengths: np.ndarray, keys: np.ndarray, values: np.ndarray, names_of: NamesOf
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the CSR arrays of entries that come row by row: repeated features are summed, zeros dropped."""
    columns, signs = encoder.place(keys, names_of)
    values = values * signs if signs is not None else values
    if encoder.frozen and (columns < 0).any():
        kept = columns >= 0
        lengths = np.diff(np.append(0, np.cumsum(kept))[np.append(0, np.cumsum(lengths))])
        columns, values = columns[kept], values[kept]
    n, indptr = columns.size, np.zeros(len(lengths) + 1, np.int64)
    indices, data = np.empty(n, encoder.index_type), np.empty(n)
    size = merge(lengths, columns, values, encoder.marks(int(lengths.max(initial=0))), indptr, indices, data)
    return indptr, indices[:size], data[:size]


@kernel
def hash_to_columns(keys, d, seen, columns, signs, new):
    """Write columns and signs of keys, and the entries whose columns were not seen before; return their number."""
    count = 0
    for i in range(keys.size):
        h = np.int64(keys[i] & LOW)
        positive = h < 1 << 31
        c = (h if positive else (1 << 32) - h) & (d - 1)
        columns[i], signs[i] = c, 1.0 if positive else -1.0
        if not seen[c & (seen.size - 1)]:
            new[count] = i
            count += 1
    return count


@kernel
def merge(lengths, columns, values, marks, indptr, indices, data):
    """Write entries to CSR; ``marks`` holds the position of a column, valid only if the column is there in this row.

    Columns that are ``marks.size`` (a power of two) apart share a mark; the row is searched if another column is there.
    """
    at, to, mask = 0, 0, U(marks.size) - U(1)
    for i in range(lengths.size):
        start = to
        for p in range(at, at + lengths[i]):
            c = U(columns[U(p)])
            k = c & mask
            m = marks[k]
            if m >= start and m < to:
                if indices[U(m)] != c:
                    m = start
                    while m < to and indices[U(m)] != c:
                        m += 1
                if m < to:
                    data[U(m)] += values[U(p)]
                    continue
            marks[k] = to
            indices[U(to)], data[U(to)] = c, values[U(p)]
            to += 1
        at += lengths[i]
        kept = start
        for p in range(start, to):
            if data[U(p)] != 0.0:
                indices[U(kept)], data[U(kept)] = indices[U(p)], data[U(p)]
                kept += 1
        to = kept
        indptr[U(i + 1)] = to
    return to
