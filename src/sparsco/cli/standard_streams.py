"""The standard streams of the process, where they are closed, full or no longer read."""

from __future__ import annotations

import io
import os
import sys


class _Messages(io.TextIOWrapper):
    """Standard error, where a message that cannot be written is left out: the work must not end for it."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            pass


def open_standard_streams() -> None:
    """Open the streams that the parent process has closed, and let no message to stderr end the process.

    A file that is opened later would otherwise get the number of a closed stream, and messages of libraries in it.
    Closed input is opened to write only, and closed output to read only: their use is the error that it was.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_WRONLY)
            setattr(sys, name, open(handle, "r" if name == "stdin" else "w", encoding="utf-8"))
    if isinstance(sys.stderr, io.TextIOWrapper):
        encoding = sys.stderr.encoding
        sys.stderr = _Messages(sys.stderr.detach(), encoding, "backslashreplace", line_buffering=True)
