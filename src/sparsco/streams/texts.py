"""Streams of raw texts with labels: one text per line, or a folder with a sub-folder of files for each label."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..text.encoding import TextEntries, TextError, text_entries
from ..text.fingerprints import to_name
from ..text.spec import TextSpec, spec_of
from .description import Description, listed, of_texts
from .features import encoder
from .files import Files, Text, opened
from .frequencies import check_hashing, identity_of
from .parsed import Parsed, Piece, Pieces
from .protocol import Position, StreamError
from .text import TextStream

_FILES = 1 << 8
"""The number of files in a piece."""
_TAB, _NEWLINE = 9, 10


class LabelledTexts(Pieces):
    """A stream whose rows are texts, each with an optional label.

    ``text_options`` are those of a `TextSpec`.  Columns are those of a growing vocabulary, or hashed with
    ``hash_bits``.  ``description`` takes the place of these options: that of a model of texts, or of a table whose only
    feature is a column of texts.
    """

    description: Description

    def __init__(
        self,
        *,
        text_options: TextSpec | Mapping[str, Any] | None = None,
        hash_bits: int | None = None,
        seed: int = 0,
        signed: bool = True,
        names: Any = None,
        frozen: bool = False,
        description: Description | None = None,
        predicts: bool = False,
        optional: Sequence[str] = (),
        counts: Mapping[str, Any] | None = None,
    ) -> None:
        if description is None:
            hashing = {} if hash_bits is None else {"hash_bits": hash_bits, "seed": seed, "signed": signed}
            description = of_texts(spec_of(text_options), **hashing)
        if description.texts is None:
            raise ValueError(
                f"the model was trained on a table with the columns {listed(description.names)}: a text alone is not "
                "enough."
            )
        check_hashing(description.texts, description.hash_bits)
        self.description, self.text_spec = description, description.texts
        self.predicts, self.given_counts = predicts, counts
        self.encoder = encoder(description.hash_bits, description.seed, description.signed, names, frozen)
        self.seed = self.encoder.seed

    def settings(self) -> dict[str, Any]:
        return {"text": self.text_spec.settings()} | identity_of(self.given_counts)

    def parsed(self, column: Any, labels: list[str | None], lines: int) -> Parsed:
        """Return the rows of texts, in the form of `text_entries`."""
        found, y = text_entries(column, self.text_spec, self.seed), np.empty(len(labels), object)
        y[:] = labels
        if self.text_spec.counts:
            nothing = TextEntries(np.zeros(len(y) + 1, np.int64), found.keys[:0], found.values[:0], found.names_of)
            texts = {self.description.features[0].name: found}
            return Parsed(lines, *nothing[:3], y, names_of=found.names_of, texts=texts)
        return Parsed(lines, found.indptr, found.keys, found.values, y, names_of=found.names_of)


class LineStream(TextStream, LabelledTexts):
    """A stream of lines with a label, a tab and a text; a line without a tab is a text without a label.

    Nothing is quoted, and there is no header.  Empty lines are left out.
    """

    format, labels_are = "text", "a line is a label, a tab and a text"

    def __init__(self, files: Files, *, block_bytes: int = 1 << 21, threads: int | None = None, **options: Any) -> None:
        TextStream.__init__(self, files, block_bytes=block_bytes, threads=threads)
        LabelledTexts.__init__(self, **options)

    def parse(self, text: Text, begins: bool) -> Parsed:
        """Return the rows of a block of whole lines."""
        raw = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(raw == _NEWLINE)
        starts = np.append(0, ends[:-1] + 1)
        tabs = np.append(np.flatnonzero(raw == _TAB), len(raw))
        first = tabs[np.searchsorted(tabs, starts)]
        rows = np.flatnonzero(ends > starts)
        places = zip(starts[rows].tolist(), first[rows].tolist(), ends[rows].tolist(), strict=True)
        labels = [to_name(bytes(text[start:tab])) if tab < end else None for start, tab, end in places]
        starts = np.where(first < ends, first + 1, starts)
        try:
            return self.parsed((raw, starts[rows], ends[rows]), labels, len(ends))
        except TextError as error:
            return Parsed.none((int(rows[error.row]) + 1, f"the text {error.sentence}"))


class FolderStream(LabelledTexts):
    """A stream of the files in a folder: a sub-folder is a label, and each ``*.txt`` in it is a text.

    Files in the folder itself are texts without a label.  The order is random but always the same: a function of the
    names of the files.
    """

    format, labels_are, line = "a folder of texts", "a text's folder is its label", "file"

    def __init__(self, folder: str, **options: Any) -> None:
        super().__init__(**options)
        self.folder = folder
        found = glob.glob(os.path.join(glob.escape(folder), "**", "*.txt"), recursive=True)
        inside = [os.path.relpath(path, folder) for path in found]
        self.files = sorted(inside, key=lambda path: (hashlib.sha256(os.fsencode(path)).digest(), path))
        if not self.files:
            raise ValueError(
                f"{folder} is a folder without texts: put them into {os.path.join(folder, 'LABEL', 'NAME.txt')}, or "
                "give a pattern for the files in it."
            )
        self.total = len(self.files)

    def origin(self) -> Any:
        return Files([os.path.join(self.folder, name) for name in self.files]).identity()

    def pieces(self, place: Position) -> Iterator[Piece]:
        for start in range(place.get("offset", 0), len(self.files), _FILES):
            names = self.files[start : start + _FILES]
            raw = []
            for name in names:
                with opened(os.path.join(self.folder, name)) as file:
                    raw.append(file.read())
            labels = [name.split(os.sep)[0] if os.sep in name else None for name in names]
            offsets = np.append(0, np.cumsum([len(text) for text in raw]))
            try:
                parsed = self.parsed((b"".join(raw) + b"\n", offsets), labels, len(names))
            except TextError as error:
                wrong = os.path.join(self.folder, names[error.row])
                raise StreamError(f"{wrong}: the text {error.sentence}.") from None
            end = start + len(names)
            yield Piece(parsed, self.folder, {"offset": end}, end)
