"""Blocks of whole lines from one or many files, compressed or not, or from standard input."""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import io
import lzma
import os
import select
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..jit.memory import PADDING, padded
from .protocol import StreamError

LONGEST_LINE = 1 << 28
"""The largest number of bytes in a line; a longer line means that the file is not text."""
COMPRESSIONS = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".xz": b"\xfd7zXZ\x00", ".zst": b"\x28\xb5\x2f\xfd"}
"""The suffixes of compressed files and their first bytes, which decide."""
DAMAGED = (EOFError, ValueError, OverflowError, OSError, zlib.error, lzma.LZMAError)
STDIN = "-"
NOT_UTF8 = "it is not valid UTF-8: convert the file, for example by iconv -f LATIN1 -t UTF-8"
_AT_ONCE = 1 << 18
"""The bytes of standard input that are requested at a time."""

Text = memoryview
"""Whole lines, which end with a newline, followed by `PADDING` bytes of memory."""


class Block(NamedTuple):
    """Some whole lines of a file."""

    text: Text
    file: int
    offset: int
    """The end of the block in the decompressed file."""
    read: int
    """The bytes read so far of all files, as stored on disk."""
    waits: bool = False
    """Whether the next block of standard input has not arrived yet."""


def paths_of(source: Any) -> list[str]:
    """Return the existing files of a path, a pattern or a list of those; "-" is standard input."""
    if isinstance(source, str | os.PathLike):
        text = os.fspath(source)
        if text == STDIN or os.path.exists(text):
            return [text]
        found = sorted(glob.glob(os.path.expanduser(text), recursive=True))
        if not found:
            raise FileNotFoundError(f"{text}: there is no such file, and no file that matches it as a pattern.")
        return found
    found = [path for each in source for path in paths_of(each)]
    if not found:
        raise ValueError("source is an empty list: name at least one file.")
    return found


def is_paths(source: Any) -> bool:
    """Return whether a source is a path or a list of paths."""
    if isinstance(source, list | tuple):
        return bool(source) and all(isinstance(each, str | os.PathLike) for each in source)
    return isinstance(source, str | os.PathLike)


def plain_suffix(path: str) -> str:
    """Return a file's suffix in lower case, without that of its compression."""
    stem, suffix = os.path.splitext(path.lower())
    return os.path.splitext(stem)[1] if suffix in COMPRESSIONS else suffix


@contextmanager
def raw_file(path: str) -> Iterator[Any]:
    """Yield the file as stored on disk, buffered."""
    if path == STDIN:
        yield sys.stdin.buffer
    else:
        with open(path, "rb") as raw:
            yield raw


def decompressed(raw: Any, suffix: str = "") -> Any:
    """Return the decompressed contents of a file; its first bytes decide the format, and must agree with the suffix."""
    head = raw.peek(6)[:6]
    kind = next((kind for kind, magic in COMPRESSIONS.items() if head.startswith(magic)), "")
    if suffix in COMPRESSIONS and kind != suffix:
        raise ValueError(f"its name ends with {suffix}, but its contents are not compressed that way")
    if kind == ".gz":
        return gzip.GzipFile(fileobj=raw)
    if kind in _MEMBERS:
        return io.BufferedReader(_Members(raw, kind), 1 << 18)
    if kind == ".zst":
        arrow = needed("pyarrow", "zstd files")
        return arrow.CompressedInputStream(arrow.PythonFile(raw, "r"), "zstd")
    return raw


_MEMBERS: dict[str, Callable[[], Any]] = {".bz2": bz2.BZ2Decompressor, ".xz": lzma.LZMADecompressor}


class _Members(io.RawIOBase):
    """A reader of bz2 or xz data: members one after the other, and nothing else after the last.

    The standard library's own readers silently stop at any data after the last member.
    """

    def __init__(self, raw: Any, kind: str) -> None:
        self._raw, self._kind = raw, kind
        self._member, self._rest = _MEMBERS[kind](), b""

    def readable(self) -> bool:
        return True

    def readinto(self, view: Any) -> int:
        data = b""
        while not data:
            if self._member.eof and not self._begin_member():
                return 0
            packed = b""
            if self._member.needs_input:
                packed, self._rest = self._rest or self._raw.read1(1 << 16), b""
                if not packed:
                    raise EOFError("it is cut off: the compressed data is incomplete")
            data = self._member.decompress(packed, len(view))
        view[: len(data)] = data
        return len(data)

    def _begin_member(self) -> bool:
        """Continue with the next member; return False at the end of the file."""
        magic, rest = COMPRESSIONS[self._kind], self._member.unused_data
        while True:
            if self._kind == ".xz":
                rest = rest.lstrip(b"\0")  # the format's padding
            fresh = self._raw.read1(1 << 16) if len(rest) < len(magic) else b""
            if not fresh:
                break
            rest += fresh
        if rest and not rest.startswith(magic):
            raise ValueError(f"its compressed data is followed by other bytes, which begin with {rest[:16]!r}")
        if rest:
            self._member, self._rest = _MEMBERS[self._kind](), rest
        return bool(rest)


_input: tuple[Any, Any] = (None, None)


def _unpacked_input() -> Any:
    """Return the decompressed standard input, the same object at every call, so that peeked bytes are not lost."""
    global _input
    raw = sys.stdin.buffer
    if _input[0] is not raw:
        stream = decompressed(raw)
        _input = raw, stream if isinstance(stream, io.BufferedReader | gzip.GzipFile) else io.BufferedReader(stream)
    return _input[1]


class MissingPackageError(ImportError, ValueError):
    """An optional package is not installed; the command line treats it as an argument that is not valid."""


def needed(package: str, what: str) -> Any:
    """Return an optional package; raise a MissingPackageError that names it if it is not installed."""
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError:
        top = package.partition(".")[0]
        raise MissingPackageError(f"{what} are read by {top}, which is not installed: pip install {top}") from None


@contextmanager
def opened(path: Any, called: str = "") -> Iterator[Any]:
    """Yield the decompressed file; errors in its contents become a StreamError that names it."""
    with _both(os.fspath(path), called) as (_, stream):
        yield stream


@contextmanager
def _both(path: str, called: str) -> Iterator[tuple[Any, Any]]:
    """Yield the file as stored on disk, and decompressed."""
    called = called or ("standard input" if path == STDIN else path)
    try:
        with raw_file(path) as raw:
            yield raw, _unpacked_input() if path == STDIN else decompressed(raw, os.path.splitext(path)[1].lower())
    except DAMAGED as error:
        if is_of_system(error) and error.filename is None:  # type: ignore[union-attr]
            error.filename = called  # type: ignore[union-attr]
        if isinstance(error, StreamError) or is_of_system(error):
            raise
        raise StreamError(f"{called} cannot be read: {error}") from error


def is_of_system(error: Exception) -> bool:
    """Return whether the operating system raised an error; errors of gzip and Arrow on damaged files have no number."""
    return isinstance(error, OSError) and error.errno is not None


def is_same(file: dict[str, Any]) -> bool:
    """Return whether a file still has the recorded size and time."""
    stat = os.stat(file["path"])
    return (stat.st_size, stat.st_mtime_ns) == (file["size"], file["mtime_ns"])


def files_of(identity: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the files, with sizes and times, in the identity of a stream."""
    return identity["source"]


def changed(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> StreamError:
    """Return the error for files that have changed since they were first read."""
    names = ", ".join(file["path"] for file in now if file not in before)
    return StreamError(f"{names} changed between two reads: train again once it no longer changes.")


class Files:
    """Some files, read one after the other.

    A single file that is not compressed can be limited to a ``span`` of bytes, which are whole lines.
    """

    def __init__(self, paths: Sequence[str], span: tuple[int, int] | None = None) -> None:
        self.paths, self.span = list(paths), span
        self.repeatable = STDIN not in self.paths
        sizes = [None if path == STDIN else os.stat(path).st_size for path in self.paths]
        self.total = None if None in sizes else sum(size for size in sizes if size)

    def identity(self) -> list[dict[str, Any]]:
        """Return names, sizes and times."""
        if not self.repeatable:
            raise ValueError("standard input has no identity: a change cannot be detected.")
        stats = [(os.path.abspath(path), os.stat(path)) for path in self.paths]
        return [{"path": path, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns} for path, stat in stats]

    def name(self, file: int) -> str:
        """Return a file's name for messages."""
        behind = f" behind byte {self.span[0]}" if self.span is not None and self.span[0] else ""
        return "standard input" if self.paths[file] == STDIN else self.paths[file] + behind

    def blocks(
        self,
        size: int,
        file: int = 0,
        offset: int = 0,
        quoted: bool = False,
        spare: list[bytearray] | None = None,
        whole_first: bool = False,
    ) -> Iterator[Block]:
        """Yield blocks of about ``size`` bytes from an offset in a file on, not split inside quotes where ``quoted``.

        Blocks of standard input hold what has arrived; with ``whole_first`` this is true for all but the first.
        ``spare`` holds buffers for reuse: the caller adds the buffer of a block's text when it is done with it.
        """
        spare = [] if spare is None else spare
        before = sum(os.stat(path).st_size for path in self.paths[:file] if path != STDIN)
        for number in range(file, len(self.paths)):
            with _both(self.paths[number], self.name(number)) as (raw, stream):
                start = offset if number == file else 0
                if self.span is not None:
                    start = max(start, self.span[0])
                _skip(stream, start, self.name(number))
                if self.span is not None:
                    stream = _Span(stream, self.span[1] - start)
                elif self.paths[number] == STDIN:
                    stream = _Awaited(stream, raw, whole_first)
                for text, end in self._lines(stream, size, self.name(number), start, quoted, spare):
                    waits = isinstance(stream, _Awaited) and stream.waits
                    yield Block(text, number, end, before + _told(raw), waits)
                before += _told(raw)

    def _lines(
        self, stream: Any, size: int, name: str, offset: int, quoted: bool, spare: list[bytearray]
    ) -> Iterator[tuple[Text, int]]:
        """Yield texts of whole lines, and their ends."""
        rest = b""
        while True:
            room = len(rest) + size + PADDING
            buffer = spare.pop() if spare and len(spare[-1]) >= room else bytearray(room)
            buffer[: len(rest)] = rest
            fresh = stream.readinto(memoryview(buffer)[len(rest) : len(rest) + size])
            if not fresh:
                break
            if not offset and not rest:
                check_text(buffer[:fresh], name)
            end = len(rest) + fresh
            cut = buffer.rfind(b"\n", 0, end) + 1
            while quoted and cut and buffer.count(b'"', 0, cut) % 2:
                cut = buffer.rfind(b"\n", 0, cut - 1) + 1
            rest = bytes(memoryview(buffer)[cut:end])
            if cut:
                offset += cut
                yield memoryview(buffer)[:cut], offset
            elif len(rest) > LONGEST_LINE:
                raise StreamError(
                    f"{name}: the {LONGEST_LINE} bytes from byte {offset} on have no line end: this is not "
                    "text with one row "
                    "per line."
                )
        if rest:
            yield padded(rest + b"\n"), offset + len(rest)


class _Awaited:
    """A reader of standard input that reads as much at a time as has arrived."""

    waits = False
    """Whether no more had arrived at the last read."""

    def __init__(self, stream: Any, raw: Any, whole_first: bool) -> None:
        self.stream, self.raw, self.whole = stream, raw, whole_first

    def readinto(self, view: memoryview) -> int:
        done, whole, self.whole = 0, self.whole, False
        while done < len(view):
            fresh = self.stream.read1(min(len(view) - done, _AT_ONCE))  # readinto1 may wait for more than has arrived
            view[done : done + len(fresh)] = fresh
            done += len(fresh)
            self.waits = not self._has_more()
            if (self.waits and not whole) or not fresh:
                break
        return done

    def _has_more(self) -> bool:
        try:
            return bool(select.select([self.raw], [], [], 0.0)[0])
        except (OSError, ValueError, TypeError):  # not a pipe, or a system where select works on sockets only
            return False


def check_text(text: bytes | bytearray, name: str) -> None:
    """Raise StreamError if a text begins like UTF-16 or UTF-32, or is not text at all."""
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in text[:2]:
        raise StreamError(
            f"{name} cannot be read: it looks like UTF-16 or binary data, not UTF-8 text; convert it "
            "first, for example by iconv -f UTF-16 -t UTF-8."
        )


class _Span:
    """A reader of the next ``left`` bytes of a file."""

    def __init__(self, stream: Any, left: int) -> None:
        self.stream, self.left = stream, left

    def readinto(self, view: memoryview) -> int:
        fresh = self.stream.readinto(view[: self.left]) if self.left > 0 else 0
        self.left -= fresh or 0
        return fresh


def spans(path: str, pieces: int) -> list[tuple[int, int]]:
    """Return the spans that split an uncompressed file into so many pieces of whole lines, fewer if lines are long."""
    size, ends = os.stat(path).st_size, [0]
    with open(path, "rb") as raw:
        for k in range(1, pieces):
            raw.seek(max(size * k // pieces - 1, 0))
            raw.readline()
            ends.append(raw.tell())
    ends = sorted({*ends, size})
    return list(zip(ends, ends[1:], strict=False))


def is_packed(path: str) -> bool:
    """Return whether a file is compressed, by its first bytes."""
    with open(path, "rb") as raw:
        head = raw.read(6)
    return any(head.startswith(magic) for magic in COMPRESSIONS.values())


def _told(raw: Any) -> int:
    """Return the number of bytes read of a file on disk, 0 if it is unknown."""
    try:
        return raw.tell()
    except OSError:
        return 0


def _skip(stream: Any, offset: int, name: str) -> None:
    """Go to an offset: by seeking if possible, else by reading."""
    if not offset:
        return
    try:
        if isinstance(stream, io.BufferedReader) and stream.seek(0, os.SEEK_END) < offset:
            raise _shorter(name, offset)
        stream.seek(offset)
        return
    except StreamError:
        raise
    except (OSError, ValueError):
        pass
    left = offset
    while left:
        fresh = stream.read(min(left, 1 << 22))
        if not fresh:
            raise _shorter(name, offset)
        left -= len(fresh)


def _shorter(name: str, offset: int) -> StreamError:
    return StreamError(f"{name} is shorter than {offset} bytes, where reading should go on: it has changed.")
