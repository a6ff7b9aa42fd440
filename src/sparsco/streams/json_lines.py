"""Streams of JSON lines: one object per line, parsed by pyarrow."""

from __future__ import annotations

import bisect
import re
from typing import Any

import numpy as np

from ..jit.dispatch import U, kernel
from .description import BOOLEAN, DATE, NUMBERS, TEXT, Description
from .files import NOT_UTF8, Block, Files, needed
from .libsvm import shown
from .parsed import Parsed
from .protocol import StreamError
from .tabular import Tabular
from .text import TextStream

_SAMPLE = 1 << 20
"""The bytes from which the types of fields are inferred."""
_DEEPEST = 64
"""The most brackets inside one another; pyarrow takes a square of the depth, and the stack of the process."""
_TOO_DEEP = f"it has more than {_DEEPEST} brackets inside one another: write flat objects"


class JsonStream(TextStream, Tabular):
    """A stream of objects, one per line, whose fields are the columns of a table; the options are those of `Tabular`.

    The first megabyte decides which fields there are; later ones are left out.  A field that a line lacks is missing.
    """

    format, infers, line = "jsonl", True, "line"

    def __init__(self, files: Files, *, block_bytes: int = 1 << 21, threads: int | None = None, **options: Any) -> None:
        TextStream.__init__(self, files, block_bytes=max(block_bytes, _SAMPLE), threads=threads)
        Tabular.__init__(self, **options)
        self._arrow, self._json = needed("pyarrow", "JSON lines"), needed("pyarrow.json", "JSON lines")
        self._types: dict[str, Any] = {}

    def prepare(self, block: Block) -> None:
        if self.known is None:
            if (block.file or block.offset > len(block.text)) and self.description:
                return
            self._look(bytes(block.text))

    @property
    def description(self) -> Description | None:  # type: ignore[override]
        if self.known is None and self.repeatable:
            block = next(self.files.blocks(self.block_bytes), None)
            if block is not None:
                self._look(bytes(block.text))
        return self.known

    def parse(self, text: Any, begins: bool) -> Parsed:
        """Return the rows of a block of whole lines."""
        text = bytes(text)
        lines = text.count(b"\n")
        if not text.strip():
            return Parsed.none()._replace(lines=lines)
        table = self._read(text, self._types)
        if isinstance(table, str):
            return self._wrong(text, self._types)
        parsed = self.parsed(table.combine_chunks().to_batches()[0], lines)
        if parsed.error:
            row, sentence = parsed.error
            return Parsed.none((_line(text, row), sentence))
        return parsed

    def _look(self, text: bytes) -> None:
        """Infer the fields and their types from the first megabyte."""
        text = text.removeprefix(b"\xef\xbb\xbf")
        sample = text[:_SAMPLE]
        sample = sample[: sample.rfind(b"\n") + 1] or text
        found = self._read(sample, {}) if sample.strip() else ""
        if isinstance(found, str):
            wrong = self._wrong(sample, {})
            assert wrong.error
            raise StreamError(f"{self.files.name(0)}, line {wrong.error[0]}: {wrong.error[1]}.")
        types = dict(zip(found.schema.names, found.schema.types, strict=True))
        self.known = described = self.describe(found.schema.names, lambda: types, self.files.name(0))
        kinds: dict[Any, str] = {each.name: each.kind for each in described.columns}
        kinds |= {
            described.target: described.target_kind,
            described.weight: NUMBERS,
            described.offset: NUMBERS,
            described.time: NUMBERS,
        }
        self._types = {name: self._type(type, kinds.get(name)) for name, type in types.items()}
        first = self._read(sample, self._types) if self.given is None else ""
        self.known = self.decide(described, None if isinstance(first, str) else first, self.files.name(0))

    def _type(self, type: Any, kind: str | None) -> Any:
        """Return the type as which a column of a kind is read."""
        is_ = self._arrow.types
        if kind in (NUMBERS, BOOLEAN):
            return type if is_.is_boolean(type) else self._arrow.float64()
        return self._arrow.string() if kind in (TEXT, DATE) or is_.is_temporal(type) else type

    def _read(self, text: bytes, types: dict[str, Any]) -> Any:
        """Return a table, of these columns if there are any; a sentence if that fails."""
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            return NOT_UTF8
        schema = self._arrow.schema(list(types.items())) if types else None
        if is_too_deep(np.frombuffer(text, np.uint8), _DEEPEST):
            return _TOO_DEEP
        try:
            return self._json.read_json(
                self._arrow.BufferReader(text),
                read_options=self._json.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=self._json.ParseOptions(
                    explicit_schema=schema,
                    newlines_in_values=False,
                    unexpected_field_behavior="ignore" if types else "infer",
                ),
            )
        except self._arrow.ArrowInvalid as error:
            return str(error)

    def _wrong(self, text: bytes, types: dict[str, Any]) -> Parsed:
        """Return the error of a block that cannot be read: the first line with which it cannot, and why."""

        def error(lines: int) -> str:
            found = self._read(head, types) if (head := b"".join(every[:lines])).strip() else ""
            return found if isinstance(found, str) else ""

        every = [line + b"\n" for line in text.split(b"\n")]
        line = bisect.bisect_left(range(len(every)), True, key=lambda lines: error(lines) != "")
        reason = error(line)
        if reason in ("", NOT_UTF8, _TOO_DEEP):
            return Parsed.none((line, reason) if reason else (1, "there is no object"))
        reason = re.sub(r"^JSON parse error: | in row \d+", "", reason)
        return Parsed.none((line, f"it is not a JSON object like those before it ({shown(reason.encode())})"))


@kernel
def is_too_deep(text: Any, most: Any) -> Any:
    """Return whether a line opens more brackets inside one another than ``most``."""
    depth, quoted, escaped = 0, False, False
    for p in range(U(text.size)):
        c = text[p]
        if c == U(10):  # an object stands on one line
            depth, quoted, escaped = 0, False, False
        elif escaped:
            escaped = False
        elif quoted:
            escaped, quoted = c == U(92), c != U(34)
        elif c == U(34):
            quoted = True
        elif c == U(91) or c == U(123):
            depth += 1
            if depth > most:
                return True
        elif c == U(93) or c == U(125):
            depth -= 1
    return False


def _line(text: bytes, row: int) -> int:
    """Return the line of a row (from 1): empty lines are not rows."""
    for number, line in enumerate(text.split(b"\n"), 1):
        row -= bool(line.strip())
        if not row:
            return number
    return 1
