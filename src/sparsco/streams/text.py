"""Text of one row a line: blocks parsed by several threads, chunks handed out in order."""

from __future__ import annotations

import codecs
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from .files import Block, Files
from .protocol import Chunk, Position, Stream, StreamError

BLOCK_BYTES = 1 << 22


class Parsed(NamedTuple):
    """A block's rows with the columns or keys of their entries, or what is wrong in which of its lines (from 1)."""

    lines: int
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None = None
    tags: list[str] | None = None
    d: int = 0
    names: Any = None
    error: tuple[int, str] | None = None

    @classmethod
    def none(cls, error: tuple[int, str]) -> Parsed:
        """No rows, but a mistake."""
        nothing = np.zeros(0)
        return cls(0, nothing, nothing, nothing, nothing, error=error)

    @classmethod
    def wrong(cls, text: bytes, at: int, sentence: str) -> Parsed:
        """A mistake at an offset of the block."""
        return cls.none((text.count(b"\n", 0, at) + 1, sentence))

    @classmethod
    def wrong_row(cls, text: bytes, wrong: np.ndarray, sentence: str, comment: bytes = b"\n") -> Parsed:
        """A mistake in the first of the rows marked as wrong; lines that begin with ``comment`` are none."""
        lines = enumerate(text.split(b"\n"), 1)
        rows = [number for number, line in lines if line.strip(b" \t")[:1] not in (b"", comment)]
        return cls.none((rows[int(np.argmax(wrong))], sentence))


def any_by_row(indptr: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """Which rows have an entry that is marked."""
    return np.diff(np.append(0, np.cumsum(marked))[indptr]) > 0


class TextStream(Stream):
    """Files of one row a line; a format is a ``parse`` of blocks, which runs in threads and must not look beyond."""

    format = ""

    def __init__(self, files: Files, *, block_bytes: int = BLOCK_BYTES, threads: int | None = None) -> None:
        if block_bytes < 1:
            raise ValueError(f"block_bytes must be positive, not {block_bytes!r}.")
        self.files, self.block_bytes = files, int(block_bytes)
        self.threads = min(4, os.cpu_count() or 1) if threads is None else int(threads)
        if self.threads < 1:
            raise ValueError(f"threads must be positive, not {threads!r}.")
        self.repeatable, self.total = files.repeatable, files.total

    def parse(self, text: bytes) -> Parsed:
        """The rows of a block of whole lines."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """Options that the rows depend on."""
        return {}

    def placed(self, parsed: Parsed) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """indptr, indices, data and the number of features; called in order, where features may be added."""
        self.width = max(self.width, parsed.d)
        return parsed.indptr, parsed.indices, parsed.data, self.width

    width = 0

    def identity(self) -> dict[str, Any]:
        return {"format": self.format, "files": self.files.identity(), "options": self.settings()}

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        place = {"file": 0, "offset": 0, "line": 0, "row": 0, "d": 0} if start is None else dict(start)
        self.go_to(place)
        blocks = self.files.blocks(self.block_bytes, place["file"], place["offset"])
        for block, parsed in self._parsed(blocks):
            if block.file != place["file"]:
                place["line"] = 0
            if parsed.error:
                line, sentence = parsed.error
                raise StreamError(f"{self.files.name(block.file)}, line {place['line'] + line}: {sentence}.")
            indptr, indices, data, d = self.placed(parsed)
            first = place["row"]
            place = {
                "file": block.file, "offset": block.offset, "line": place["line"] + parsed.lines,
                "row": first + len(parsed.y), "d": d,
            }  # fmt: skip
            if len(parsed.y):
                yield Chunk(
                    indptr, indices, data, d, parsed.y, parsed.weights, parsed.tags, first, dict(place), block.read
                )

    def go_to(self, place: Position) -> None:
        """Make the features those that were known at a place."""
        self.width = place["d"]

    def _parse(self, block: Block) -> Parsed:
        text = block.text
        if block.offset <= len(text) and text.startswith(codecs.BOM_UTF8):
            text = text[len(codecs.BOM_UTF8) :]
        return self.parse(text.replace(b"\r\n", b"\n") if b"\r" in text else text)

    def _parsed(self, blocks: Iterator[Block]) -> Iterator[tuple[Block, Parsed]]:
        """Parsed blocks in order; some are parsed ahead while the caller works."""
        ahead: deque[tuple[Block, Future[Parsed]]] = deque()
        with ThreadPoolExecutor(self.threads, "sparsco-parse") as pool:
            try:
                for block in blocks:
                    ahead.append((block, pool.submit(self._parse, block)))
                    if len(ahead) > self.threads:
                        done, parsed = ahead.popleft()
                        yield done, parsed.result()
                while ahead:
                    done, parsed = ahead.popleft()
                    yield done, parsed.result()
            finally:
                for _, parsed in ahead:
                    parsed.cancel()
