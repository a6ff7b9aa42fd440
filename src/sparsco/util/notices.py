"""Warnings that point at a line of the user's code, from anywhere in the package."""

from __future__ import annotations

import os
import re
import sys
import threading
import warnings
from types import FrameType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_BETWEEN = (
    f"{os.sep}concurrent{os.sep}futures{os.sep}",
    f"{os.sep}threading.py",
    f"{os.sep}contextlib.py",
    f"{os.sep}sklearn{os.sep}",
    f"{os.sep}joblib{os.sep}",
    f"{os.sep}numba{os.sep}",
)
"""The code that may be between the user's frame and ours."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the nearest line outside of the package.

    A thread of the package has no such line: there it is the line at which the main thread waits.
    """
    frame = _users(sys._getframe(1)) or _users(sys._current_frames().get(threading.main_thread().ident or 0))
    if frame is None:
        warnings.warn(message, category, stacklevel=2)
        return
    known = frame.f_globals
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        known.get("__name__"),
        known.setdefault("__warningregistry__", {}),
    )


def cause(message: str) -> str:
    """Return the message without its numbers; it is equal for every class, fold and pass with the same cause."""
    return re.sub(r"\d[\d.e+-]*", "#", message)


def _users(frame: FrameType | None) -> FrameType | None:
    """Return the nearest frame that is neither in the package nor in a library that calls it."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE) and not any(part in file for part in _BETWEEN):
            return frame
        frame = frame.f_back
    return None


_FLAG = re.compile(r"\b(split|calibrate|standardize|polish|probes)=True\b")
_NUMBER = re.compile(r"\b(alpha|l1_ratio|budget|passes|eps|alphas)=(?=[\s,.;:)]|$)(?! \(--)")


def in_shell(sentence: str) -> str:
    """Return a message with the options of the shell in place of parameters of Python.

    >>> in_shell("made on the same rows: split=True avoids that; pass a smaller alpha= to go on.")
    'made on the same rows: --split avoids that; pass a smaller --alpha to go on.'
    """
    sentence = _FLAG.sub(lambda found: f"--{found[1]}", sentence)
    return _NUMBER.sub(lambda found: f"--{found[1].replace('_', '-')}", sentence)
