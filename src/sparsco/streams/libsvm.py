"""Streams of LIBSVM / SVMlight text: ``label index:value index:value ... # comment``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.rows import LARGEST, MAX_FEATURES
from ..data.slots import tidied
from ..jit.dispatch import U, kernel
from ..jit.memory import PADDING, peek
from ..text.fingerprints import fingerprint
from .features import encoder
from .files import Text
from .numbers import (
    BAD,
    GOOD,
    HARD,
    boxed,
    counts,
    digits_behind,
    few_digits,
    next_stop,
    number,
    short_number,
    stops_of,
    unbox,
)
from .parsed import Parsed, any_by_row
from .text import TextStream

TAB, NEWLINE, SPACE, HASH, COLON = 9, 10, 32, 35, 58
_LABEL, _INDEX, _VALUE, _ZERO, _REPEATED, _FAR, _HUGE = range(1, 8)
_WIDEST = 1 << 62
BEYOND = "a number above the limit of 1e75: scale the column, or repair the number"

_SENTENCES = {
    _LABEL: "{token} is not a label: a row begins with one number",
    _INDEX: "{token} is not a feature: write index:value, the index a whole number from 0 on",
    _VALUE: "{token} has no number behind its colon: write index:value",
    _ZERO: "{token} has the index 0, but indices must start at 1: leave zero_based at 'auto' (no --one-based)",
    _REPEATED: "{token} repeats an index of its row: every index may occur once",
    _FAR: "{token} has an index beyond {limit}: give hash_bits= (--hash-bits) to hash indices, or in Python "
    "wide=True to keep them",
    _HUGE: "{token} has " + BEYOND,
}
_HINTS = (
    (_LABEL, b",", "{token} is a list of labels: rows with several labels are not supported, write a file for each"),
    (_LABEL, b":", "the row has no label, it begins with {token}: put a number before it"),
    (_LABEL, b"|", "{token} looks like Vowpal Wabbit text: give format='vw' (--format vw)"),
    (_INDEX, b"-", "{token} has a negative index: indices are whole numbers from 0 on"),
)


class LibsvmStream(TextStream):
    """A stream of the rows of LIBSVM / SVMlight text.

    With ``zero_based="auto"`` (the same as True) a written index is the column.  The names in a model are then those of
    the file, and in files that count from 1 column 0 stays empty.  The base is not detected, since the last line of a
    stream could contradict it.  ``zero_based=False`` is the convention of scikit-learn and LIBSVM: index 1 is column 0,
    and an index 0 is an error.  ``qid:`` and comments are skipped.  Unsorted rows are sorted; a repeated index is an
    error.

    ``wide=True`` keeps indices up to 2^62, as int64; ``hash_bits`` hashes them, as names of decimal digits.
    """

    format = "libsvm"

    def __init__(
        self,
        files: Any,
        *,
        zero_based: bool | str = "auto",
        wide: bool = False,
        hash_bits: int | None = None,
        seed: int = 0,
        signed: bool = True,
        names: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(files, **options)
        if zero_based not in (True, False, "auto"):
            raise ValueError(f"zero_based must be True, False or 'auto', not {zero_based!r}.")
        self.shift = 1 if zero_based is False else 0
        if hash_bits is not None:
            self.encoder = encoder(hash_bits, seed, signed, names)
        elif names:
            raise ValueError("names are for hashed or named features: columns of LIBSVM text have numbers.")
        self.wide = bool(wide) or hash_bits is not None

    def settings(self) -> dict[str, Any]:
        return {"shift": self.shift, "wide": self.wide}

    def parse(self, text: Text, begins: bool) -> Parsed:
        at, length = U(np.frombuffer(text, np.uint8).ctypes.data), U(len(text))
        lines, most, _ = counts(at, length)
        limit = _WIDEST if self.wide else MAX_FEATURES - 1 + self.shift
        indptr, y = np.zeros(lines + 1, np.int64), np.empty(lines)
        indices, data = np.empty(most, np.int64 if self.wide else np.uint32), np.empty(most)
        given = at, length, U(self.shift), U(limit), LARGEST
        rows, size, d, hard, unordered, code, place = parse_libsvm(*given, False, indptr, indices, data, y)
        if unordered and not code:
            size = parse_libsvm(*given, True, indptr, indices, data, y)[1]
        if code:
            return self.first_wrong(text, place, _sentence(code, bytes(text), place, limit), bool(hard or unordered))
        indptr, y, indices, data = indptr[: rows + 1], y[:rows], indices[:size], data[:size]
        if hard:
            unbox(y, text)
            unbox(data, text)
            wild = any_by_row(indptr, ~(np.abs(data) <= LARGEST)) | ~(np.abs(y) <= LARGEST)
            if wild.any():
                return Parsed.wrong_row(text, wild, "the row has " + BEYOND, b"#")
        if unordered or hard:
            lengths, keys = np.diff(indptr), indices.astype(np.int64)
            repeats = np.diff(tidied(lengths, keys.copy(), np.ones(size))[0]) < lengths
            if repeats.any():
                return Parsed.wrong_row(text, repeats, "the row repeats an index: every index may occur once", b"#")
            indptr, keys, data = tidied(lengths, keys, data)
            indices = keys.astype(indices.dtype)
        if self.encoder is None:
            return Parsed(lines, indptr, indices, data, y, d=d)
        keys, digits = np.empty(indices.size, np.uint64), np.empty(20 + PADDING, np.uint8)
        hash_columns(indices, U(self.encoder.seed), U(digits.ctypes.data), digits, keys)
        return Parsed(lines, indptr, keys, data, y, names_of=lambda entries: list(map(str, indices[entries].tolist())))


def _sentence(code: int, text: bytes, at: int, limit: int) -> str:
    """Return the error message for the token at an offset."""
    stop = at
    while text[stop : stop + 1] not in (b" ", b"\t", b"\n"):
        stop += 1
    token = text[at:stop]
    lower = token.rpartition(b":")[2].lower().lstrip(b"+-")
    if code in (_LABEL, _VALUE) and lower in (b"nan", b"inf", b"infinity"):
        return f"{shown(token)} is not finite: leave the entry out, or repair the number"
    for which, sign, hint in _HINTS:
        if code == which and sign in token:
            return hint.format(token=shown(token))
    return _SENTENCES[code].format(token=shown(token), limit=limit)


def shown(token: bytes) -> str:
    """Return text of a file for a message, short and without control characters."""
    text = token[:40].decode("utf-8", "backslashreplace")
    return repr(text) + ("..." if len(token) > 40 else "")


@kernel
def parse_libsvm(at, size, shift, limit, largest, keeps_zeros, indptr, indices, data, y):
    """Parse all rows of a text that ends with a newline; return sizes, and the code and place of the first error."""
    p, end, one = at, at + size, U(1)
    row, entry, width, hard, unordered = 0, 0, U(0), 0, 0
    while p < end:
        c = peek(p)
        if c == SPACE or c == TAB or c == NEWLINE:
            p += one
            continue
        if c == HASH:
            while peek(p) != NEWLINE:
                p += one
            continue
        value, stop, state = number(p)
        c = peek(stop)
        if state == BAD or not (c == SPACE or c == TAB or c == NEWLINE or c == HASH):
            return row, entry, np.int64(width), hard, unordered, _LABEL, np.int64(p - at)
        if not abs(value) <= largest:
            return row, entry, np.int64(width), hard, unordered, _HUGE, np.int64(p - at)
        if state == HARD:
            value = boxed(p - at)
            hard += 1
        y[U(row)] = value
        p, base, stops, previous = stop, stop + one, stops_of(stop + one), U(0)
        while c != NEWLINE:
            while c == SPACE or c == TAB:  # the common case: entries in order, of some digits each
                first = p + one
                q, base, stops = next_stop(base, stops)
                if peek(q) != COLON or q - first - one > U(7):
                    break
                j = few_digits(first, q - first)
                value, stop, base, stops, state = short_number(q + one, base, stops)
                if state != GOOD or j - shift + one <= previous or j > limit or value == 0.0:
                    break
                after = peek(stop)
                if not (after == SPACE or after == TAB or after == NEWLINE):
                    break
                previous = j - shift + one
                indices[U(entry)] = j - shift
                data[U(entry)] = value
                entry += 1
                p, c = stop, after
            width = max(width, previous)
            while c == SPACE or c == TAB:
                p += one
                c = peek(p)
            if c == HASH:
                while c != NEWLINE:
                    p += one
                    c = peek(p)
            if c == NEWLINE:
                break
            first = p
            is_query = c == 113 and peek(p + one) == 105 and peek(p + U(2)) == 100 and peek(p + U(3)) == COLON
            j, q = (U(0), p + U(3)) if is_query else digits_behind(U(0), p)
            if q == first or peek(q) != COLON:
                return row, entry, np.int64(width), hard, unordered, _INDEX, np.int64(first - at)
            if q - first > U(19) or j > limit:
                return row, entry, np.int64(width), hard, unordered, _FAR, np.int64(first - at)
            if j < shift and not is_query:
                return row, entry, np.int64(width), hard, unordered, _ZERO, np.int64(first - at)
            value, p, state = number(q + one)
            c = peek(p)
            base, stops = p + one, stops_of(p + one)
            if state == BAD or not (c == SPACE or c == TAB or c == NEWLINE or c == HASH):
                return row, entry, np.int64(width), hard, unordered, _VALUE, np.int64(first - at)
            if is_query:
                continue
            if not abs(value) <= largest:
                return row, entry, np.int64(width), hard, unordered, _HUGE, np.int64(first - at)
            j = j - shift + one
            if j == previous:
                return row, entry, np.int64(width), hard, unordered, _REPEATED, np.int64(first - at)
            unordered += j < previous
            previous = j
            width = max(width, j)
            if state == HARD:
                value = boxed(q + one - at)
                hard += 1
            if value != 0.0 or keeps_zeros:
                indices[U(entry)] = j - one
                data[U(entry)] = value
                entry += 1
        row += 1
        indptr[U(row)] = entry
    return row, entry, np.int64(width), hard, unordered, 0, 0


@kernel
def hash_columns(columns, seed, at, digits, keys):
    """Write the fingerprints of column numbers in decimal notation."""
    for i in range(columns.size):
        left, n = columns[i], 1
        while left >= 10:
            left //= 10
            n += 1
        left = columns[i]
        for k in range(n):
            digits[n - 1 - k] = 48 + left % 10
            left //= 10
        keys[i] = fingerprint(at, n, seed)
