"""Blocks of whole lines from a file that grows, or from standard input, as the lines arrive.

A line counts when its end has arrived.  A file is read as ``tail -F`` reads it: one that was renamed is read to its
end, then the new file of its name; one that was truncated is read from its beginning again.  What follows has the next
file number, and offsets that begin at 0.
"""

from __future__ import annotations

import glob
import os
import select
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..jit.memory import padded
from ..util.notices import warn
from .files import COMPRESSIONS, LONGEST_LINE, STDIN, Block, Files, check_text
from .protocol import Position, StreamError

FIRST_LINES = 1001
"""The number of lines that decide what the columns of a table are: a header, and as many rows as the pilot has."""
_SILENT = 0.5
"""The seconds for which a renamed file must not grow before the new file of its name is read."""
_TAIL = 256
"""The number of bytes before an offset by which a file is recognised."""


class _Read(NamedTuple):
    """The text of a block that was read: all of it of standard input, of a file its last bytes."""

    file: int
    end: int
    text: bytes


class Growing(Files):
    """A growing text file or standard input, as the ``Files`` of a text stream.

    ``wait`` is called whenever nothing has arrived.  It returns True after a pause, and False to end the source.
    """

    def __init__(self, path: str, wait: Callable[[], bool]) -> None:
        self.paths, self.span, self.wait = [path], None, wait
        self.repeatable, self.total = False, None
        self.is_input = path == STDIN
        self.first = b""
        """The lines that decided what the columns of a table are."""
        self._source = _Input() if self.is_input else _Log(path)
        self._rest = bytearray()
        """The bytes that have arrived behind the last block."""
        self._file = self._offset = 0
        """The number of the file, and the end of the last block in it."""
        self._read: deque[_Read] = deque()

    def identity(self) -> list[dict[str, Any]]:
        return [{"path": path if path == STDIN else os.path.abspath(path)} for path in self.paths]

    def name(self, file: int) -> str:
        return "standard input" if self.is_input else self.paths[0]

    # ---- lines in --------------------------------------------------------------------------------------------------

    def first_line(self) -> bytes:
        """Return the first line that is not empty or a comment, when it has arrived; it is not consumed."""
        while True:
            lines = bytes(self._rest[: self._rest.rfind(b"\n") + 1]).splitlines()
            found = next((line for line in lines if line.strip() and not line.startswith(b"#")), b"")
            if found or not (self._arrived(1 << 16) or self._goes_on()):
                return found

    def blocks(
        self,
        size: int,
        file: int = 0,
        offset: int = 0,
        quoted: bool = False,
        spare: list[bytearray] | None = None,
        whole_first: bool = False,
    ) -> Iterator[Block]:
        """Yield blocks of the lines that have arrived, for as long as ``wait`` returns True.

        With ``whole_first`` the first block has the first ``FIRST_LINES`` lines, or all lines of a shorter source.
        """
        self._file, self._offset = file, offset
        lines = FIRST_LINES if whole_first and not (file or offset) else 0
        ready = self._next(size, quoted, lines)
        while True:
            if ready is None:
                goes_on = self._goes_on()
                ready = self._next(size, quoted, lines) if goes_on else self._cut(quoted, 0)
                if ready is None and not goes_on:
                    return
                continue
            block = ready
            if lines:
                self.first, lines = bytes(block.text), 0
            ready = self._next(size, quoted, 0)
            yield block._replace(waits=ready is None)

    def _goes_on(self) -> bool:
        return not self._source.ended and self.wait()

    def _next(self, size: int, quoted: bool, lines: int) -> Block | None:
        """Return a block of what has arrived, of so many lines unless that is 0; None if it has not arrived."""
        while True:
            if (found := self._cut(quoted, lines)) is not None:
                return found
            if self._arrived(size):
                continue
            if not (sentence := self._source.moved()):
                return None
            found = self._cut(quoted, 0)  # of fewer lines than are due: its file has no more
            left = f"; {len(self._rest)} bytes of a last line without an end are left out" if self._rest else ""
            warn(f"{self.paths[0]} {sentence}{left}.")
            self._rest.clear()
            self._file, self._offset = self._file + 1, 0
            if found is not None:
                return found

    def _arrived(self, size: int) -> bool:
        """Read what has arrived, at most ``size`` bytes; return whether there was anything."""
        fresh = self._source.read(size)
        if fresh and not self._offset and not self._rest:
            check_text(fresh, self.name(0))
            if fresh.startswith(tuple(COMPRESSIONS.values())):
                raise StreamError(f"{self.name(0)} is compressed and cannot be followed: decompress it on its way in.")
        self._rest += fresh
        if len(self._rest) > LONGEST_LINE:
            raise StreamError(
                f"{self.name(0)}: the {LONGEST_LINE} bytes from byte {self._offset} on have no line end: this is not "
                "text with one row per line."
            )
        return bool(fresh)

    def _cut(self, quoted: bool, lines: int) -> Block | None:
        """Return the whole lines that have arrived as a block; None if there are none, or fewer than ``lines``."""
        cut = _end_of(self._rest, lines, quoted) if lines else self._rest.rfind(b"\n") + 1
        while quoted and cut and self._rest.count(b'"', 0, cut) % 2:
            cut = self._rest.rfind(b"\n", 0, cut - 1) + 1
        if not cut:
            return None
        text = bytes(self._rest[:cut])
        del self._rest[:cut]
        self._offset += cut
        self._read.append(_Read(self._file, self._offset, text if self.is_input else text[-_TAIL:]))
        return Block(padded(text), self._file, self._offset, self._offset)

    # ---- going on later --------------------------------------------------------------------------------------------

    def forget(self, place: Position) -> None:
        """Drop all that is only needed to go on from a place before this one."""
        at = _numbers(place)
        while self._read and (self._read[0].file, self._read[0].end) < at:
            self._read.popleft()

    def state(self, place: Position) -> dict[str, Any]:
        """Return what another process needs to go on from a place, in types that an archive has."""
        file, offset = at = _numbers(place)
        if self.is_input:
            text = b"".join(read.text for read in self._read if (read.file, read.end) > at) + bytes(self._rest)
            read = _Read(file, offset, text)
        else:  # the block behind the place: some of its rows may have been learned
            here = [read for read in self._read if read.file == file and read.end >= offset]
            read = next((each for each in here if each.end > offset), here[-1] if here else _Read(file, 0, b""))
        own = {"file": file, "offset": offset, "end": read.end, "text": _stored(read.text)}
        return own | {"first": _stored(self.first)}

    def go_on(self, state: dict[str, Any]) -> bool:
        """Continue from a ``state``, and return whether the same data is there to go on with.

        A file that was renamed is looked for in its folder.  Where it is not found, the new file is read from its
        beginning, under the next number.
        """
        self.first, text = state["first"].tobytes(), state["text"].tobytes()
        if isinstance(self._source, _Input):
            self._rest[:] = text
            return True
        found = self._source.find(state["offset"], state["end"], text)
        if found:
            self._read.append(_Read(state["file"], state["end"], text))
        return found

    def close(self) -> None:
        """Close the file."""
        self._source.close()


def _numbers(place: Position) -> tuple[int, int]:
    return place.get("file", 0), place.get("offset", 0)


def _stored(text: bytes) -> np.ndarray:
    return np.frombuffer(text, np.uint8).copy()


def _end_of(text: bytearray, lines: int, quoted: bool) -> int:
    """Return the end of the first lines of a text, 0 if it has fewer; a newline between quotes ends none."""
    start = count = quotes = 0
    while count < lines:
        end = text.find(b"\n", start) + 1
        if not end:
            return 0
        quotes += text.count(b'"', start, end) if quoted else 0
        count += quotes % 2 == 0
        start = end
    return start


class _Input:
    """The bytes of standard input as they arrive; no more are read ahead than are asked for."""

    ended = False
    """Whether the input has ended."""

    def read(self, size: int) -> bytes:
        """Return the bytes that have arrived, at most ``size``; none if there are none yet, or no more."""
        handle = sys.stdin.fileno()
        try:
            if self.ended or not select.select([handle], [], [], 0.0)[0]:
                return b""
        except (OSError, ValueError):  # a system where select works on sockets only: the read waits
            pass
        fresh = os.read(handle, size)
        self.ended = not fresh
        return fresh

    def moved(self) -> str:
        """Return an empty string: there is no other input."""
        return ""

    def close(self) -> None:
        """Do nothing: standard input is not ours."""


class _Log:
    """The bytes of a file as they arrive, by its path: the file may be renamed, truncated, or not be there yet."""

    ended = False

    def __init__(self, path: str) -> None:
        self.path, self._offset, self._tail = path, 0, b""
        self._rewritten, self._silent_since = False, 0.0
        self._raw: Any = self._opened(path)
        if self._raw is None:
            warn(f"{path} does not exist: reading begins when it appears.")

    def _opened(self, path: str) -> Any:
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):  # to open a pipe would wait for its writer
                raise ValueError(f"{path} is not a regular file: pipe it in, and follow standard input (-).")
            return open(path, "rb", buffering=0)
        except FileNotFoundError:
            return None

    def read(self, size: int) -> bytes:
        """Return the bytes that have arrived, at most ``size``; none if there are none, or ``moved`` has a reason."""
        if self._raw is None and (raw := self._opened(self.path)) is not None:
            self._raw = raw
        if self._raw is None or self._rewritten:
            return b""
        self._raw.seek(self._offset - len(self._tail))
        found = self._raw.read(len(self._tail) + size)
        if not found.startswith(self._tail):  # truncated, and perhaps written to again
            self._rewritten = True
            return b""
        fresh = found[len(self._tail) :]
        if fresh:
            self._offset += len(fresh)
            self._tail = found[-_TAIL:]
            self._silent_since = 0.0
        return fresh

    def moved(self) -> str:
        """Return what has happened if reading goes on at the beginning of a file; an empty string if nothing has."""
        if self._raw is None:
            return ""
        if self._rewritten:
            self._begin(self._raw)
            return "was truncated: reading goes on at its beginning"
        try:
            is_same = os.path.samestat(os.fstat(self._raw.fileno()), os.stat(self.path))
        except FileNotFoundError:  # the new file will come
            return ""
        now = time.monotonic()
        if is_same or not self._silent_since:
            self._silent_since = 0.0 if is_same else now
            return ""
        if now - self._silent_since < _SILENT or (raw := self._opened(self.path)) is None:
            return ""
        self.close()
        self._begin(raw)
        return "was replaced: reading goes on at the beginning of the new file"

    def _begin(self, raw: Any) -> None:
        self._raw, self._offset, self._tail, self._rewritten, self._silent_since = raw, 0, b"", False, 0.0

    def find(self, offset: int, end: int, tail: bytes) -> bool:
        """Continue at an offset of the file, or of a renamed one, that has these bytes before ``end``.

        Return whether there is such a file.
        """
        here = Path(self.path)
        others = sorted(here.parent.glob(glob.escape(here.name.partition(".")[0]) + "*"))
        for path in (here, *others):
            if path.is_file() and _bytes_before(path, end, len(tail)) == tail and (tail or path == here):
                self.close()
                self._begin(self._opened(str(path)))
                self._offset, self._tail = offset, _bytes_before(path, offset, _TAIL)
                return True
        return False

    def close(self) -> None:
        """Close the file."""
        if self._raw is not None:
            self._raw.close()


def _bytes_before(path: Path, end: int, count: int) -> bytes:
    """Return so many bytes of a file before an offset, or as many as there are."""
    with open(path, "rb") as file:
        file.seek(max(end - count, 0))
        return file.read(min(count, end))
