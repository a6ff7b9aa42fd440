"""Streams of text with one row per line: blocks are parsed by several threads and returned in order."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ..jit.memory import padded
from ..util.folders import cores
from .files import Block, Files, Text
from .parsed import Parsed, Piece, Pieces
from .protocol import Position

BLOCK_BYTES = 1 << 21


class TextStream(Pieces):
    """A stream of files with one row per line; a format implements ``parse`` of one block, which runs in threads."""

    quoted = False
    """Whether a newline between quotes does not end a row."""

    infers = False
    """Whether the first block decides how all are read."""

    def __init__(self, files: Files, *, block_bytes: int = BLOCK_BYTES, threads: int | None = None) -> None:
        if block_bytes < 1:
            raise ValueError(f"block_bytes must be positive, not {block_bytes!r}.")
        self.files, self.block_bytes = files, int(block_bytes)
        self.threads = min(4, cores()) if threads is None else int(threads)
        if self.threads < 1:
            raise ValueError(f"threads must be positive, not {threads!r}.")
        self.repeatable, self.total = files.repeatable, files.total

    def parse(self, text: Text, begins: bool) -> Parsed:
        """Return the rows of a block of whole lines; ``begins`` is whether a file begins with it."""
        raise NotImplementedError

    def first_wrong(self, text: Text, at: int, sentence: str, may_be_more: bool) -> Parsed:
        """Return an error at an offset, or an earlier error that is only found after all rows are parsed."""
        before_it = bytes(text[:at])
        line = before_it.rfind(b"\n") + 1
        if may_be_more and line:
            before = self.parse(text[:line], False)
            if before.error:
                return before
        return Parsed.none((before_it.count(b"\n") + 1, sentence))

    def prepare(self, block: Block) -> None:
        """Inspect the first block of a pass before any is parsed."""

    def origin(self) -> Any:
        return self.files.identity()

    def pieces(self, place: Position) -> Iterator[Piece]:
        spare: list[bytearray] = []
        file, offset = place.get("file", 0), place.get("offset", 0)
        blocks = self.files.blocks(self.block_bytes, file, offset, self.quoted, spare, self.infers)
        ahead: deque[tuple[Block, Future[Parsed]]] = deque()

        def first() -> Iterator[Piece]:
            block, parsed = ahead.popleft()
            place = {"file": block.file, "offset": block.offset}
            yield Piece(parsed.result(), self.files.name(block.file), place, block.read)
            if isinstance(block.text.obj, bytearray):  # the text is no longer needed
                spare.append(block.text.obj)

        with ThreadPoolExecutor(self.threads, "sparsco-parse") as pool:
            try:
                for number, block in enumerate(blocks):
                    if not number:
                        self.prepare(block)
                    ahead.append((block, pool.submit(self._parse, block)))
                    while len(ahead) > (0 if block.waits else self.threads):
                        yield from first()
                while ahead:
                    yield from first()
            finally:
                for _, parsed in ahead:
                    parsed.cancel()

    def _parse(self, block: Block) -> Parsed:
        text, begins = block.text, block.offset <= len(block.text)
        buffer: Any = text.obj
        if buffer.find(b"\r", 0, len(text)) >= 0:
            text = padded(bytes(text).replace(b"\r\n", b"\n"))
        if begins and text[: len(codecs.BOM_UTF8)] == codecs.BOM_UTF8:
            text = text[len(codecs.BOM_UTF8) :]
        return self.parse(text, begins)
