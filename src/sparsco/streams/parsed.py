"""Chunks from the pieces of any source: rows are numbered, names become columns, errors get their position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..text.encoding import TextEntries, joined
from ..text.fingerprints import NamesOf
from .features import Encoder, Hashed, Keyed, Vocabulary, rows_of
from .files import Text
from .frequencies import Counted
from .protocol import Chunk, Position, Stream, StreamError


class Parsed(NamedTuple):
    """Some rows with columns of their entries or keys of their names; or an error and its line (from 1)."""

    lines: int
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None = None
    tags: list[str] | None = None
    d: int = 0
    names_of: NamesOf | None = None
    error: tuple[int, str] | None = None
    texts: Mapping[str, TextEntries] | None = None
    """The features of columns of texts whose values depend on the texts before, by column."""
    offsets: np.ndarray | None = None
    times: np.ndarray | None = None

    @classmethod
    def none(cls, error: tuple[int, str] | None = None) -> Parsed:
        """Return a record without rows, with an optional error."""
        nothing = np.zeros(0)
        return cls(0, np.zeros(1, np.int64), nothing, nothing, nothing, error=error)

    @classmethod
    def wrong_row(cls, text: Text, wrong: np.ndarray, sentence: str, comment: bytes = b"\n") -> Parsed:
        """Return an error in the first of the rows marked as wrong; lines that begin with ``comment`` are not rows."""
        lines = enumerate(bytes(text).split(b"\n"), 1)
        rows = [number for number, line in lines if line.strip(b" \t")[:1] not in (b"", comment)]
        return cls.none((rows[int(np.argmax(wrong))], sentence))


def any_by_row(indptr: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """Return which rows have an entry that is marked."""
    return np.diff(np.append(0, np.cumsum(marked))[indptr]) > 0


class Piece(NamedTuple):
    """Parsed rows, their source, and the place where reading resumes (the argument of `Pieces.pieces`)."""

    parsed: Parsed
    source: str
    place: Position
    read: int


class Pieces(Stream):
    """A stream made of pieces; without an encoder, features are numbered columns."""

    format = ""
    encoder: Encoder | None = None
    line = "line"
    width = 0
    predicts = False
    """Whether rows are read for a model that has learned: texts are not counted then."""
    given_counts: Mapping[str, Any] | None = None
    """The frequencies of texts to begin with."""
    _counted: Counted | None = None

    def pieces(self, place: Position) -> Iterator[Piece]:
        """Yield pieces from a place on; an empty place is the beginning."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """Return the options that the rows depend on, besides those of the encoder."""
        return {}

    def origin(self) -> Any:
        """Return the source of the rows, with the data that reveal a change."""
        raise ValueError(f"{self.format} have no identity: a change cannot be detected.")

    @property
    def hashed_to(self) -> int:  # type: ignore[override]
        return len(self.encoder) if isinstance(self.encoder, Hashed) else 0

    @property
    def names(self) -> Mapping[int, str]:
        return {} if self.encoder is None else self.encoder.names

    def names_of(self, columns: np.ndarray) -> list[str | None]:
        if isinstance(self.encoder, Vocabulary):
            return self.encoder.names_of(columns)
        return super().names_of(columns)

    def recall(self, names: Mapping[int, str]) -> None:
        if self.encoder is not None:
            self.encoder.recall(names)

    def key_names(self) -> None:
        known = self.encoder
        if isinstance(known, Vocabulary) and not known.frozen:
            self.encoder = Keyed(known.names.values())

    def forget_names(self, in_use: np.ndarray, chunks: int) -> None:
        if isinstance(self.encoder, Keyed):
            self.encoder.forget(in_use, chunks)

    def identity(self) -> dict[str, Any]:
        options = self.settings() | (self.encoder.settings() if self.encoder is not None else {})
        return {"format": self.format, "source": self.origin(), "options": options}

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        row = line = 0
        begin: Position = {}
        self._counted = None
        if start is not None:
            begin, row, line, d = start["place"], start["row"], start["line"], start["d"]
            if self.encoder is None:
                self.width = d
            else:
                self.encoder.cut(d)
            self._count_up_to(row)
        file = begin.get("file", 0)
        for parsed, name, place, read in self.pieces(begin):
            if place.get("file", 0) != file:
                file, line = place["file"], 0
            if parsed.error:
                number, sentence = parsed.error
                raise StreamError(f"{name}, {self.line} {line + number}: {sentence}.")
            line += parsed.lines
            if len(parsed.y):
                (indptr, indices, data), d = self._placed(parsed)
                first, row = row, row + len(parsed.y)
                position = {"place": place, "row": row, "line": line, "d": d}
                rest = parsed.y, parsed.weights, parsed.tags, first, position, read
                yield Chunk(indptr, indices, data, d, *rest, offsets=parsed.offsets, times=parsed.times)

    def _placed(self, parsed: Parsed) -> tuple[Any, int]:
        """Return CSR arrays and the number of features; called in order, since features may be added."""
        indptr, indices, data = parsed.indptr, parsed.indices, parsed.data
        if self.encoder is None:
            self.width = max(self.width, parsed.d)
            return (indptr, indices, data), self.width
        assert parsed.names_of
        if parsed.texts:
            parts = self._with_counts(parsed.texts)
            indptr, indices, data, names_of = joined([TextEntries(indptr, indices, data, parsed.names_of), *parts])
            return rows_of(self.encoder, np.diff(indptr), indices, data, names_of), len(self.encoder)
        return rows_of(self.encoder, np.diff(indptr), indices, data, parsed.names_of), len(self.encoder)

    def _with_counts(self, texts: Mapping[str, TextEntries]) -> list[TextEntries]:
        """Return the entries of texts with values by their frequencies; called in order, since texts are counted."""
        if self._counted is None:
            assert self.description is not None
            self._counted = Counted(self.description.counted, self.encoder, self.given_counts)
        return [self._counted.weighted(name, each, not self.predicts) for name, each in texts.items()]

    def _count_up_to(self, row: int) -> None:
        """Count the texts before a row, which another reading has seen: the source is read from its beginning."""
        if self.predicts or self.description is None or not self.description.counted:
            return
        seen = 0
        for parsed, *_ in self.pieces({}):
            rest, seen = row - seen, seen + len(parsed.y)
            if parsed.texts:
                self._with_counts({name: each.head(rest) for name, each in parsed.texts.items()})
            if seen >= row:
                return

    @property
    def counts(self) -> Mapping[str, Any]:  # type: ignore[override]
        return {} if self._counted is None else self._counted.counts()
