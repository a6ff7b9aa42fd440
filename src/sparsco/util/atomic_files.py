"""Files and folders that appear at their place only when they are whole, even with several writers at the same time.

Until then the data is in a part beside its place, with a name of its own: ``.part-<16 digits>-NAME``.  The writer holds
a lock on the part (``flock``), which the system releases when the writer ends, in any way.  A part whose lock is free
was left by a writer that was killed: the next writer of the same place removes it.  Without such locks (Windows, some
network folders) a part is removed when it is a day old.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_OLD = 86_400.0
"""The age in seconds from which a part without a lock counts as left behind."""
_TRIES = 1000


def real(path: str | Path) -> Path:
    """Return the absolute path without links; ``Path.resolve`` raises a RuntimeError for links in a loop."""
    return Path(os.path.realpath(path))


@contextlib.contextmanager
def replacing(path: str | Path, lasting: bool = True) -> Iterator[IO[bytes]]:
    """Yield a binary file that replaces ``path`` at the end; it is removed if there is an error.

    With ``lasting`` the file is on disk when this returns.
    """
    path = real(path)
    check_place(path)
    with naming(path):
        clear_remains(path)
        part, handle = _claimed(path, is_folder=False)
        try:
            with open(part, "wb", opener=lambda *_: handle) as file:
                yield file
                file.flush()
                if lasting:
                    os.fsync(file.fileno())
                if fcntl is None:  # Windows cannot move an open file
                    file.close()
                os.replace(part, path)  # the lock is held until the part is at its place
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
        if lasting:
            sync_folder(path.parent)


class LockedError(ValueError):
    """An error for a file that another process writes."""


@contextlib.contextmanager
def sole_writer(path: str | Path) -> Iterator[None]:
    """Hold the lock of a file that one process writes again and again; raise a LockedError if another process has it.

    The lock is on a file NAME.lock beside it, and ends with the process, in any way.  Without locks (Windows, some
    network folders) nothing is held.
    """
    place = real(path)
    name = place.with_name(place.name + ".lock")
    while True:
        handle = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise LockedError(f"another process writes {path}: end it, or name another file.") from None
        except OSError:  # a network folder without locks
            pass
        if _is_there(handle, name):
            break
        os.close(handle)  # the one before has removed it in between
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            name.unlink()
        os.close(handle)


def check_place(path: Path) -> None:
    """Raise a ValueError if there is something other than a regular file at ``path``.

    The path is looked up once: another process may remove the file between two lookups.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:  # the file would replace a link
            raise
        return  # nothing is there, or nothing can be written there: opening it raises the right error
    if stat.S_ISDIR(mode):
        raise ValueError(f"{path} is a folder: name a file in it.")
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path} exists and is not a regular file: name another file.")


def try_place(path: Path) -> None:
    """Raise the error now that writing a file at ``path`` would raise, by writing an empty part beside it."""
    with naming(path):
        part, handle = _claimed(path, is_folder=False)
        os.close(handle)
        part.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file atomically, and return its path: the file is whole, or as it was before."""
    path = real(path)
    with replacing(path, lasting=False) as file:
        file.write(text.encode("utf-8", "backslashreplace"))  # names of features may be any bytes
    return path


class PartFolder:
    """A folder to write to, at ``path``, that is moved to its place when it is whole."""

    def __init__(self, place: Path) -> None:
        self.place = place
        with naming(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            clear_remains(place)
            self.path, handle = _claimed(place, is_folder=True)
        self._handle: int | None = handle

    def put(self) -> None:
        """Move the folder to its place; a folder that is there is removed."""
        sync_folder(self.path)
        if fcntl is None:
            self._release()
        with naming(self.place):
            for more in reversed(range(_TRIES)):
                with contextlib.suppress(FileNotFoundError):
                    old = _part_name(self.place)
                    os.rename(self.place, old)
                    shutil.rmtree(old, ignore_errors=True)
                try:
                    os.rename(self.path, self.place)
                    break
                except OSError:  # another writer may have put its own there in between
                    if not (more and self.place.exists()):
                        raise
        sync_folder(self.place.parent)
        self._release()

    def remove(self) -> None:
        """Remove the folder if it was not moved to its place."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._release()

    def _release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def clear_remains(place: Path) -> None:
    """Remove the parts of ``place`` that no running writer has locked."""
    with contextlib.suppress(OSError):
        for name in os.listdir(place.parent):
            if _is_part(name, place):
                _clear(place.parent / name)


def sync_folder(folder: Path) -> None:
    """Write a renaming to disk, if the system can synchronise folders."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def naming(place: Path) -> Iterator[None]:
    """Replace a missing file name, or the name of a part, in system errors by the name of the place that is written."""
    try:
        yield
    except OSError as error:
        where = None if error.filename is None else os.fspath(error.filename)
        if error.errno is not None and (where is None or any(_is_part(each, place) for each in Path(where).parts)):
            if isinstance(error, FileNotFoundError) and place.parent.is_dir():  # as in /proc
                raise PermissionError(13, "this folder cannot be written to", str(place.parent)) from None
            error.filename, error.filename2 = str(place), None
        raise


def _part_name(place: Path) -> Path:
    return place.with_name(f".part-{secrets.token_hex(8)}-{place.name}")


def _is_part(name: str, place: Path) -> bool:
    return re.fullmatch(r"\.part-[0-9a-f]{16}-" + re.escape(place.name), name) is not None


def _claimed(place: Path, is_folder: bool) -> tuple[Path, int]:
    """Return a new part of a place, and a file handle that holds its lock."""
    while True:
        part = _part_name(place)
        if is_folder:
            part.mkdir()
        handle = _handle(part, is_folder, os.O_CREAT | os.O_EXCL)
        try:
            if _is_locked(handle, part):
                return part, handle
        except BaseException:
            os.close(handle)
            _remove(part)
            raise
        os.close(handle)


def _handle(part: Path, is_folder: bool, more: int = 0) -> int:
    """Return a handle of a part, to lock it; Windows, which opens no folder, has nothing to lock."""
    if is_folder:
        return os.open(os.devnull if fcntl is None else part, os.O_RDONLY)
    flags = os.O_RDWR | more
    if sys.platform == "win32":
        flags |= os.O_BINARY
    return os.open(part, flags, 0o666)


def _is_locked(handle: int, part: Path) -> bool:
    """Lock a new part, and return whether it is still there; another writer may have removed it before the lock."""
    if fcntl is None:
        return True
    with contextlib.suppress(OSError):  # a network folder without locks
        fcntl.flock(handle, fcntl.LOCK_EX)
    return _is_there(handle, part)


def _is_there(handle: int, path: Path) -> bool:
    """Return whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _clear(part: Path) -> None:
    """Remove a part if its lock is free, or if there are no locks and it is old."""
    with contextlib.suppress(OSError):  # gone, or of another user
        if fcntl is None:
            if _is_old(part):
                _remove(part)
            return
        handle = _handle(part, part.is_dir())
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_free = True
            except BlockingIOError:
                is_free = False
            except OSError:
                is_free = _is_old(part)
            if is_free:
                _remove(part)
        finally:
            os.close(handle)


def _is_old(part: Path) -> bool:
    """Return whether nothing in a part was written for a day."""
    return time.time() - max(each.stat().st_mtime for each in (part, *part.glob("*"))) > _OLD


def _remove(part: Path) -> None:
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
    else:
        part.unlink(missing_ok=True)
