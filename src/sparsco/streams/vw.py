"""Streams of Vowpal Wabbit text: ``label importance 'tag |namespace:scale name:value name ... |other ...``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..data.rows import LARGEST
from ..jit.dispatch import U, kernel
from ..jit.memory import PADDING, always_inlined, peek
from ..text.fingerprints import fingerprint, to_name
from .features import encoder
from .files import Block, Text
from .libsvm import BEYOND, COLON, NEWLINE, SPACE, TAB, shown
from .numbers import (
    BAD,
    HARD,
    boxed,
    counts,
    lowest,
    no_bars,
    no_colons,
    no_spaces,
    no_tabs_or_newlines,
    number,
    short_number,
    stops_of,
    unbox,
)
from .parsed import Parsed, Piece, any_by_row
from .protocol import Position
from .text import TextStream

BAR, QUOTE, CARET, STAR = 124, 39, 94, 42
INITIAL = "initial"
"""The name of VW's initial predictions, which stand in no column."""
_NO_BAR, _HEAD, _TOUCHES, _MANY, _INITIAL, _WEIGHT, _VALUE, _SCALE, _HUGE = range(1, 10)
_SCALE_TEXT = re.compile(rb"\|[^ \t\n|:]*:([^ \t\n|]*)")
_SENTENCES = {
    _NO_BAR: "the row has no bar: write the features after a |",
    _HEAD: "{token} is not a number: label and importance stand before the first |, a tag begins with '",
    _TOUCHES: "{token} touches the bar, which makes it a tag and leaves no label: put a space before the |, "
    "or a ' before a tag",
    _MANY: "{token} is one word too many before the bar: write at most a label, an importance and a tag",
    _INITIAL: "{token} is an initial prediction, and the first row has none: give offset=True (--offset initial), "
    "or write 0 as that of the first row",
    _WEIGHT: "{token} is not an importance: it must be a number from 0 on",
    _VALUE: "{token} has no finite number behind its colon: write name or name:value",
    _SCALE: "{token} has no finite number behind its colon: write |namespace or |namespace:scale",
    _HUGE: "{token} has " + BEYOND,
}


class VWStream(TextStream):
    """A stream of the rows of Vowpal Wabbit's text format: namespaces, importance weights, tags.

    A feature's name is ``namespace^name``, or the name alone in a namespace without one.  ``quadratic`` are pairs of
    namespaces by their first letters, as VW's ``-q``: ``["ab"]`` adds ``a...^x*b...^y`` for all pairs, ``["::"]`` for
    all pairs of features.  ``offset`` says whether the third number before the bar, VW's initial prediction, is the
    offset of a row; None: if the first row has one.  Repeated features are summed.  Rows without a label have NaN.
    Columns are those of a growing vocabulary, or hashed with ``hash_bits``.
    """

    format = "vw"

    def __init__(
        self,
        files: Any,
        *,
        quadratic: Sequence[str] = (),
        offset: bool | str | None = None,
        hash_bits: int | None = None,
        seed: int = 0,
        signed: bool = True,
        names: Any = None,
        frozen: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(files, **options)
        self.encoder = encoder(hash_bits, seed, signed, names, frozen)
        self.seed = self.encoder.seed
        pairs = [pair.encode() for pair in ([quadratic] if isinstance(quadratic, str) else quadratic)]
        for pair in pairs:
            if len(pair) != 2 or (b":" in pair and pair != b"::"):
                raise ValueError(f"quadratic has {pair.decode()!r}: give two letters, or '::' for all pairs.")
        self.pairs = np.array([list(pair) for pair in pairs], np.uint8).reshape(-1, 2)
        self._initials: set[int] = set()
        """The initials of the namespaces seen, if there are pairs."""
        self._is_read = False
        if offset not in (None, True, False, INITIAL):
            raise ValueError(f"offset={offset!r}: VW text has no columns; it is True ('{INITIAL}') or False.")
        self.asked_offset = self.has_offsets = None if offset is None else bool(offset)

    def settings(self) -> dict[str, Any]:
        asked = {} if self.asked_offset is None else {"offset": self.asked_offset}
        return {"quadratic": self.pairs.tolist()} | asked

    def prepare(self, block: Block) -> None:
        """Look whether the first row of the source has an initial prediction, wherever reading begins."""
        if self.has_offsets is None:
            begins = not block.file and block.offset <= len(block.text)
            first = block if begins or not self.repeatable else next(self.files.blocks(self.block_bytes), block)
            self.has_offsets = _has_initial(bytes(first.text))

    def parse(self, text: Text, begins: bool) -> Parsed:
        at, length = U(np.frombuffer(text, np.uint8).ctypes.data), U(len(text))
        lines, _, most = counts(at, length)  # a feature has a blank before it
        indptr, y, weights = np.zeros(lines + 1, np.int64), np.empty(lines), np.empty(lines)
        bases = np.zeros(lines if self.has_offsets else 0)
        tags, where = np.zeros((lines, 2), np.int32), np.empty((most, 4), np.int32)
        data, scales = np.empty(most), np.empty(0)
        arrays = indptr, where, data, y, weights, bases, tags
        rows, size, hard, scaled, longest, code, place = parse_vw(at, length, LARGEST, scales, *arrays)
        if hard and scaled and not code:  # numbers that are not read yet cannot be multiplied
            scales = np.empty(most)
            parse_vw(at, length, LARGEST, scales, *arrays)
        if code:
            may_be_more = bool(hard or scaled or len(self.pairs))
            return self.first_wrong(text, place, _sentence(code, bytes(text), place), may_be_more)
        indptr, y, weights, bases, tags = indptr[: rows + 1], y[:rows], weights[:rows], bases[:rows], tags[:rows]
        where, data = where[:size], data[:size]
        if hard:
            for values in (y, weights, bases, data, scales[:size]):
                unbox(values, text)
            if scaled:
                data = data * scales[:size]
        if len(self.pairs):
            initials = np.where(where[:, 0] < where[:, 1], np.frombuffer(text, np.uint8)[where[:, 0]], SPACE)
            self._initials.update(np.unique(initials).tolist())
            indptr, where, data = self._with_pairs(at, indptr, where, data)
        if hard or scaled or len(self.pairs):
            wild = any_by_row(indptr, ~(np.abs(data) <= LARGEST)) | (np.abs(y) > LARGEST) | (weights > LARGEST)
            wild |= np.abs(bases) > LARGEST if self.has_offsets else False
            wrong = [Parsed.wrong_row(text, wild, "the row has " + BEYOND)] if wild.any() else []
            wrong += _huge_scales(bytes(text)) if hard and scaled else []
            if wrong:
                return min(wrong, key=lambda parsed: parsed.error or (0, ""))
        keys = np.empty(data.size, np.uint64)
        scratch = np.empty(2 * longest + PADDING, np.uint8)
        hash_names(at, where, U(self.seed), U(scratch.ctypes.data), scratch, keys)
        return Parsed(
            lines,
            indptr,
            keys,
            data,
            y,
            weights,
            [to_name(bytes(text[start:stop])) for start, stop in tags.tolist()] if tags.any() else None,
            names_of=lambda entries: [_name(text, where, entry) for entry in entries.tolist()],
            offsets=bases if self.has_offsets else None,
        )

    def pieces(self, place: Position) -> Iterator[Piece]:
        yield from super().pieces(place)
        self._is_read |= not place

    def remarks(self) -> list[str]:
        """Return remarks on pairs that never occurred, after a whole pass."""
        found = []
        for pair in self.pairs.tolist() if self._is_read else ():
            absent = sorted({chr(letter) for letter in pair if letter != COLON and letter not in self._initials})
            if absent:
                which = " or ".join(map(repr, absent))
                found.append(f"no pairs {bytes(pair).decode()}: no namespace begins with {which}")
        return found

    def _with_pairs(self, at: Any, indptr: np.ndarray, where: np.ndarray, data: np.ndarray) -> Any:
        nothing = np.empty((0, 4), np.int32), np.empty(0)
        longer = np.zeros_like(indptr)
        add_pairs(at, self.pairs, indptr, where, data, False, longer, *nothing)
        more = np.empty((longer[-1], 4), np.int32), np.empty(longer[-1])
        add_pairs(at, self.pairs, indptr, where, data, True, longer, *more)
        return longer, *more


def _huge_scales(text: bytes) -> list[Parsed]:
    """Return an error for the first too large scale that only `float` can read; it may have no feature to show in."""
    for scale in _SCALE_TEXT.finditer(text):
        if not abs(float(scale[1])) <= LARGEST:
            return [Parsed.none((text.count(b"\n", 0, scale.start()) + 1, "the row has " + BEYOND))]
    return []


def _has_initial(text: bytes) -> bool:
    """Return whether the first row of a text has a third number before its bar."""
    first = next((line for line in text.split(b"\n") if line.strip()), b"")
    head = first.partition(b"|")[0]
    words = head.split() if head[-1:] in (b" ", b"\t") else head.split()[:-1]  # a word that touches the bar is a tag
    return len([word for word in words if not word.startswith(b"'")]) > 2


def _name(text: Text, where: np.ndarray, entry: int) -> str:
    """Return the name of an entry: of the features of a pair, or namespace and name."""
    a, b, c, d = where[entry].tolist()
    if b < 0:
        return f"{_name(text, where, a)}*{_name(text, where, c)}"
    name = to_name(bytes(text[c:d])) if c >= 0 else str(-c - 1)
    return f"{to_name(bytes(text[a:b]))}^{name}" if a < b else name


def _sentence(code: int, text: bytes, at: int) -> str:
    stop = at
    while text[stop : stop + 1] not in (b" ", b"\t", b"\n", b"|"):
        stop += 1
    return _SENTENCES[code].format(token=shown(text[at:stop]))


@always_inlined
def delimiters_of(p: Any) -> Any:
    """Return a bit mask of the 64 bytes from p on that end a name or a number."""
    return ~(no_tabs_or_newlines(p) & no_spaces(p) & no_colons(p) & no_bars(p))


@always_inlined
def next_delimiter(base: Any, stops: Any) -> Any:
    """Return the position of the next delimiter, and the rest; like `next_stop`."""
    while stops == U(0):
        base += U(64)
        stops = delimiters_of(base)
    return base + lowest(stops), base, stops & (stops - U(1))


@kernel
def parse_vw(at, size, largest, scales, indptr, where, data, y, weights, bases, tags):
    """Parse all rows of a text that ends with a newline; ``where`` gets the ends of each entry's namespace and name.

    An entry without a name has -1 - k for the k-th such of its namespace.  Values are multiplied by their namespace's
    scale; if ``scales`` has room, the scales are stored beside them instead.  ``bases`` gets initial predictions; if it
    has no room, they must be zero.
    """
    p, end, one = at, at + size, U(1)
    row, entry, hard, scaled, longest = 0, 0, 0, False, 0
    while p < end:
        c = peek(p)
        if c == SPACE or c == TAB or c == NEWLINE:
            p += one
            continue
        # the words before the bar
        words, y[U(row)], weights[U(row)] = 0, np.nan, 1.0
        tag, tag_end, is_number = U(0), U(0), False
        while c != BAR:
            if c == NEWLINE:
                return row, entry, hard, scaled, longest, _NO_BAR, np.int64(p - at)
            if tag != U(0):
                return row, entry, hard, scaled, longest, _HEAD, np.int64(tag - at)
            first = p
            while not (c == SPACE or c == TAB or c == NEWLINE or c == BAR):
                p += one
                c = peek(p)
            value, stop, state = number(first)
            is_number = state != BAD and stop == p
            if c == BAR or peek(first) == QUOTE:
                tag, tag_end = first, p
            else:
                if not is_number:
                    return row, entry, hard, scaled, longest, _HEAD, np.int64(first - at)
                if not abs(value) <= largest:
                    return row, entry, hard, scaled, longest, _HUGE, np.int64(first - at)
                if state == HARD:
                    value = boxed(first - at)
                    hard += 1
                if words == 0:
                    y[U(row)] = value
                elif words == 1:
                    if value < 0.0:
                        return row, entry, hard, scaled, longest, _WEIGHT, np.int64(first - at)
                    weights[U(row)] = value
                elif words == 2:
                    if bases.size:
                        bases[U(row)] = value
                    elif value != 0.0:
                        return row, entry, hard, scaled, longest, _INITIAL, np.int64(first - at)
                else:
                    return row, entry, hard, scaled, longest, _MANY, np.int64(first - at)
                words += 1
            while c == SPACE or c == TAB:
                p += one
                c = peek(p)
        if tag != U(0):
            if is_number and words == 0:
                return row, entry, hard, scaled, longest, _TOUCHES, np.int64(tag - at)
            if peek(tag) == QUOTE:
                tag += one
            tags[U(row), 0], tags[U(row), 1] = tag - at, tag_end - at
        # namespaces: a word that touches a bar is a namespace, all others are features
        space, space_end, scale, unnamed = p, p, 1.0, 0
        base, stops = p + one, delimiters_of(p + one)
        while c != NEWLINE:
            opens, first, value = c == BAR, p + one, 1.0
            p, base, stops = next_delimiter(base, stops)
            c, name_end = peek(p), p
            if p == first and not opens and c != COLON:
                continue
            if c == COLON:
                value, stop, _, _, state = short_number(p + one, p + one, stops_of(p + one))
                p, base, stops = next_delimiter(base, stops)
                c = peek(p)
                if state == BAD or stop != p:
                    value, stop, state = number(name_end + one)
                if state == BAD or stop != p or c == COLON:
                    return row, entry, hard, scaled, longest, _SCALE if opens else _VALUE, np.int64(first - at)
                if not abs(value) <= largest:
                    return row, entry, hard, scaled, longest, _HUGE, np.int64(first - at)
                if state == HARD:
                    value = boxed(name_end + one - at)
                    hard += 1
            if opens:
                space, space_end, scale, unnamed = first, name_end, value, 0
                scaled |= value != 1.0
            else:
                e = U(entry)
                where[e, 0], where[e, 1] = space - at, space_end - at
                where[e, 2], where[e, 3] = first - at, name_end - at
                if first == name_end:
                    where[e, 2] = -1 - unnamed
                    unnamed += 1
                if scales.size:
                    data[e], scales[e] = value, scale
                else:
                    data[e] = value * scale
                longest = max(longest, np.int64(space_end - space) + np.int64(name_end - first) + 24)
                entry += 1
        row += 1
        indptr[U(row)] = entry
    return row, entry, hard, scaled, longest, 0, 0


@kernel
def add_pairs(at, pairs, indptr, where, data, writes, longer, more_where, more_data):
    """Write rows with the products of pairs of their features: first their lengths, then (``writes``) contents."""
    to = 0
    for i in range(indptr.size - 1):
        start, stop = indptr[i], indptr[i + 1]
        if writes:
            for p in range(start, stop):
                for k in range(4):
                    more_where[to + p - start, k] = where[p, k]
                more_data[to + p - start] = data[p]
        base = to
        to += stop - start
        for k in range(len(pairs)):
            a, b = pairs[k, 0], pairs[k, 1]
            for p in range(start, stop):
                first = peek(at + U(where[p, 0])) if where[p, 0] < where[p, 1] else SPACE
                if a != COLON and first != a:
                    continue
                for q in range(p if a == b else start, stop):
                    second = peek(at + U(where[q, 0])) if where[q, 0] < where[q, 1] else SPACE
                    if b != COLON and second != b:
                        continue
                    if writes:
                        more_where[to, 0], more_where[to, 1] = base + p - start, -1
                        more_where[to, 2], more_where[to, 3] = base + q - start, -1
                        more_data[to] = data[p] * data[q]
                    to += 1
        longer[i + 1] = to


@kernel
def hash_names(at, where, seed, scratch_at, scratch, keys):
    """Write the fingerprint of every entry's name, which is built in ``scratch`` if the text does not contain it."""
    for entry in range(len(where)):
        if where[entry, 0] == where[entry, 1] and where[entry, 2] >= 0:
            keys[entry] = fingerprint(at + U(where[entry, 2]), where[entry, 3] - where[entry, 2], seed)
            continue
        n, parts = 0, 2 if where[entry, 1] < 0 else 1
        for part in range(parts):
            e = entry if parts == 1 else np.int64(where[entry, 2 * part])
            if part == 1:
                scratch[n] = STAR
                n += 1
            start, stop = where[e, 0], where[e, 1]
            for k in range(start, stop):
                scratch[n] = peek(at + U(k))
                n += 1
            if start < stop:
                scratch[n] = CARET
                n += 1
            start, stop = where[e, 2], where[e, 3]
            if start < 0:
                left, digits = -1 - np.int64(start), 1
                while left >= 10:
                    left //= 10
                    digits += 1
                left = -1 - np.int64(start)
                for k in range(digits):
                    scratch[n + digits - 1 - k] = 48 + left % 10
                    left //= 10
                n += digits
            else:
                for k in range(start, stop):
                    scratch[n] = peek(at + U(k))
                    n += 1
        keys[entry] = fingerprint(scratch_at, n, seed)
