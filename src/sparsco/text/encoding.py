"""Texts as entries of rows: fingerprints of features, their values, and their names where someone asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..jit.dispatch import U
from ..jit.memory import PADDING
from ..util.attributes import shape_of
from .characters import forms
from .fingerprints import NamesOf, to_bytes, to_name
from .spec import BINARY, LOG, TFIDF, WORD, TextSpec

_ROWS = 1 << 12
"""The number of texts that are encoded at a time."""


class TextError(ValueError):
    """An error in a text; ``row`` is its number, from 0, and ``sentence`` says what is wrong with it."""

    def __init__(self, row: int, sentence: str) -> None:
        super().__init__(f"text {row} {sentence}.")
        self.row, self.sentence = row, sentence


class TextEntries(NamedTuple):
    """The features of some texts, row by row: each feature of a row once, in the order of first appearance."""

    indptr: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    names_of: NamesOf

    def head(self, rows: int) -> TextEntries:
        """Return the first rows."""
        indptr = self.indptr[: rows + 1]
        return TextEntries(indptr, self.keys[: indptr[-1]], self.values[: indptr[-1]], self.names_of)


class Tokens(NamedTuple):
    """The folded tokens of some texts: their bytes, starts and ends, and the number of tokens before each text."""

    text: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    indptr: np.ndarray


def text_entries(column: Any, spec: TextSpec, seed: int = 0) -> TextEntries:
    """Return the features of texts.

    ``column`` is a pyarrow array of strings, a sequence of str, or a tuple of bytes and offsets (or of bytes, begins
    and ends).  A missing text has no features.  Keys are those of `fingerprints` with this seed.  With
    ``weighting="tfidf"`` values are counts: whoever knows the frequencies of documents weights them, and divides by the
    norm.  Raises a TextError for a text that is not valid UTF-8.
    """
    from .tokens import counted, lines, weighted  # compiled: only programs that read texts load it

    found = tokens_of(column, spec)
    low, high = spec.lengths
    lengths, has_shapes = np.diff(found.indptr), spec.shapes and spec.analyzer == WORD and low == 1
    most = int(sum(np.maximum(lengths - n + 1, 0).sum() for n in range(low, high + 1)))
    most, room = most + int(has_shapes) * len(found.starts), (high - low + 2) * int(lengths.max(initial=0))
    prefix = to_bytes(spec.prefix)
    scratch = np.zeros(len(prefix) + found.text.size, np.uint8)
    scratch[: len(prefix)] = list(prefix)
    slots = np.full(1 << max(4, (2 * room).bit_length()), -1, np.int64)
    indptr, keys = np.zeros(found.indptr.size, np.int64), np.empty(most, np.uint64)
    where, values = np.empty((most, 2), np.int64), np.empty(most)
    size = counted(
        U(found.text.ctypes.data),
        found.starts,
        found.ends,
        found.indptr,
        low,
        high,
        has_shapes,
        U(seed),
        U(scratch.ctypes.data),
        scratch,
        len(prefix),
        slots,
        indptr,
        keys,
        where,
        values,
    )
    where, values = where[:size], values[:size]
    if spec.weighting != TFIDF:
        weighted(indptr, spec.weighting == BINARY, spec.weighting == LOG, spec.norm, values)

    def names_of(entries: np.ndarray) -> list[str]:
        places = where[entries]
        raw = np.empty(int(np.abs(places[:, 1]).sum()) + len(places), np.uint8)
        lines(U(found.text.ctypes.data), places, raw)
        names = to_name(raw.tobytes()).split("\n")[: len(places)]
        return [spec.prefix + name for name in names] if prefix else names

    return TextEntries(indptr, keys[:size], values, names_of)


def encoded(X: Any, spec: TextSpec, seed: int = 0) -> Iterator[TextEntries]:
    """Yield the features of some texts at a time; X is a list, an array or a Series of texts."""
    text, begins, stops = raw_texts(_column_of(X))
    for start in range(0, max(len(begins), 1), _ROWS):
        some = slice(start, start + _ROWS)
        try:
            yield text_entries((text, begins[some], stops[some]), spec, seed)
        except TextError as error:
            raise TextError(start + error.row, error.sentence) from None


def _column_of(X: Any) -> Any:
    """Return texts in a form that can be encoded; raise a ValueError for what is no column of texts."""
    if isinstance(X, str | bytes):
        raise ValueError("X is one text: give a list of texts.")
    shape = shape_of(X)
    if len(shape) > 1:
        raise ValueError(f"X has the shape {shape}: give one column of texts, such as table['message'].")
    package = type(X).__module__.partition(".")[0]
    if isinstance(X, list | tuple) or package == "pyarrow":
        return list(X) if isinstance(X, tuple) else X
    if package == "pandas":  # its missing values have several forms
        return np.where(X.isna(), np.array(None), np.asarray(X, object))
    if not isinstance(X, Iterable):
        raise ValueError(f"X is a {type(X).__name__}: give a list of texts.")
    return np.asarray(X, object) if shape else list(X)


def joined(parts: Sequence[TextEntries]) -> TextEntries:
    """Return the entries of several columns, row by row: those of the first column, then those of the next."""
    if len(parts) == 1:
        return parts[0]
    n, sizes = len(parts[0].indptr) - 1, [len(part.keys) for part in parts]
    rows = np.concatenate([np.repeat(np.arange(n), np.diff(part.indptr)) for part in parts])
    order, starts = np.argsort(rows, kind="stable"), np.append(0, np.cumsum(sizes))

    def names_of(entries: np.ndarray) -> list[str]:
        places = order[entries]
        found = np.empty(len(places), object)
        for part, start, stop in zip(parts, starts, starts[1:], strict=False):
            own = np.flatnonzero((places >= start) & (places < stop))
            found[own] = part.names_of(places[own] - start)
        return found.tolist()

    keys, values = np.concatenate([part.keys for part in parts]), np.concatenate([part.values for part in parts])
    return TextEntries(np.sum([part.indptr for part in parts], 0), keys[order], values[order], names_of)


def tokens_of(column: Any, spec: TextSpec) -> Tokens:
    """Return the tokens of texts: words, or characters."""
    from .tokens import characters, words

    text, begins, stops = raw_texts(column)
    kinds, folded = forms(spec.lowercase, spec.strip_accents)
    most = int((stops - begins).sum())
    out = np.empty(2 * most + PADDING, np.uint8)
    starts, ends, tokens = np.empty(most, np.int64), np.empty(most, np.int64), np.zeros(begins.size + 1, np.int64)
    kernel = words if spec.analyzer == WORD else characters
    count, wrong = kernel(U(text.ctypes.data), begins, stops, kinds, folded, out, starts, ends, tokens)
    if wrong >= 0:
        raise TextError(int(wrong), "is not valid UTF-8: convert it, for example by iconv -f LATIN1 -t UTF-8")
    return Tokens(out, starts[:count], ends[:count], tokens)


def raw_texts(column: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return some bytes, and where in them each text begins and ends."""
    if isinstance(column, tuple):
        text, *bounds = column
        begins, stops = bounds if len(bounds) == 2 else (bounds[0][:-1], bounds[0][1:])
        return np.frombuffer(text, np.uint8), np.asarray(begins, np.int64), np.asarray(stops, np.int64)
    if isinstance(column, Sequence | np.ndarray):
        raw = [_encoded(row, text) for row, text in enumerate(column)]
        lengths = np.fromiter(map(len, raw), np.int64, len(raw))
        stops = np.cumsum(lengths)
        return np.frombuffer(b"".join(raw) + b"\n", np.uint8), stops - lengths, stops
    return _of_arrow(column)


def _encoded(row: int, text: Any) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")  # a lone surrogate is found with the row's other bytes
    if text is None or (isinstance(text, float) and text != text):  # NaN, as pandas writes it
        return b""
    raise TextError(row, f"is a {type(text).__name__}, not a str: convert it, or write '' or None for a missing text")


def _of_arrow(column: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    import pyarrow as arrow

    if isinstance(column, arrow.ChunkedArray):
        column = column.combine_chunks()
    if not (arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type)):
        column = column.cast(arrow.large_string())
    if column.null_count:
        column = column.fill_null("")
    is_large = arrow.types.is_large_string(column.type)
    _, places, text = column.buffers()
    if not len(column) or text is None:
        return np.zeros(1, np.uint8), np.zeros(len(column), np.int64), np.zeros(len(column), np.int64)
    offsets = np.frombuffer(places, np.int64 if is_large else np.int32)[column.offset :][: len(column) + 1]
    offsets = offsets.astype(np.int64)
    return np.frombuffer(text, np.uint8), offsets[:-1], offsets[1:]
