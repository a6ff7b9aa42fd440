"""The binary cache: rows in the format of learning, in blocks that are read without conversion.

A cache is a folder with ``rows.bin`` (the arrays of one chunk after the other), ``names.json`` and ``manifest.json``:
the positions of the arrays with checksums, and the source.  It is written to a temporary folder and moved to its place
when complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..data.rows import stack
from ..util.atomic_files import PartFolder, naming
from ..util.folders import cache_folder
from ..util.notices import warn
from .cache_checks import FIELDS, check_block, check_columns, check_manifest
from .checksums import checksum
from .description import Description, from_json
from .files import files_of, is_same
from .frequencies import packed, unpacked
from .protocol import Chunk, Position, Stream, StreamError, column_of

VERSION = 2
MANIFEST, ROWS, NAMES = "manifest.json", "rows.bin", "names.json"
_FILES = {MANIFEST, ROWS, NAMES}
BLOCK_BYTES = 1 << 23
"""The bytes of values from which on collected chunks become a block."""
_PAGE = 4096
_LINE = 64


class CacheStream(Stream):
    """A stream of the rows of a cache.  Each block's checksum is compared once, when the block is first read.

    The file stays open from the beginning: if another process replaces the cache, this stream continues with the old
    one.  Blocks are copied, not mapped: truncation of a mapped file would end the process (SIGBUS).
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.manifest = _read_manifest(self.folder)
        names = _read(self.folder, NAMES)
        if hashlib.sha256(names).hexdigest() != self.manifest["names"]:
            raise self._damaged()
        with self._checking():
            self._take(json.loads(names))
        self._file, self._reading = open(self.folder / ROWS, "rb", buffering=0), threading.Lock()  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        if os.fstat(self._file.fileno()).st_size != self.manifest["size"]:
            raise self._damaged()
        self._checked = np.zeros(len(self.blocks), bool)

    def _take(self, names: Mapping[str, str]) -> None:
        """Take over what the manifest holds, after checks."""
        check_manifest(self.manifest)
        labels, bits = self.manifest["labels"], self.identity()["options"].get("hash_bits")
        self.blocks = self.manifest["blocks"]
        self.total = self.blocks[-1]["read"] if self.blocks else 0
        self._names = {int(column): name for column, name in names.items()}
        self._labels = np.array([*labels, None], object)
        self.description = from_json(self.manifest.get("description"))  # caches of before have none
        self.counts = unpacked(self.manifest.get("counts") or {}, bits)
        self.hashed_to = 0 if bits is None else 1 << bits
        check_columns(self._names, self.counts, self.description, labels)

    @contextlib.contextmanager
    def _checking(self) -> Iterator[None]:
        """Turn an error of a check into one that names the cache."""
        try:
            yield
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            MemoryError,
            TypeError,
            ValueError,
            RecursionError,
        ) as error:
            why = str(error).rstrip(".")
            raise StreamError(
                f"{self.folder} is not a cache that sparsco wrote: {why}; remove it and convert the source again."
            ) from None

    def _damaged(self) -> StreamError:
        return StreamError(f"{self.folder} is damaged: remove it and convert the source again.")

    @property
    def names(self) -> Mapping[int, str]:
        return self._names

    def recall(self, names: Mapping[int, str]) -> None:
        self._names |= names

    def identity(self) -> dict[str, Any]:
        return self.manifest["identity"]

    def is_stale(self) -> bool:
        """Return whether a file of the source exists and has changed."""
        return any(not is_same(file) for file in files_of(self.identity()) if os.path.exists(file["path"]))

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        return self.read(range(0 if start is None else self.find(start) + 1, len(self.blocks)))

    def read(self, blocks: Iterable[int]) -> Iterator[Chunk]:
        """Return the chunks of the blocks with these numbers."""
        return map(self._chunk, blocks)

    def find(self, position: Position) -> int:
        """Return the block that ends at a position of the source; raise ValueError if there is none."""
        row = position.get("row")
        for k, block in enumerate(self.blocks):
            if block["position"].get("row") == row and block["position"] == position:
                return k
        raise ValueError(
            f"{self.folder} has no block that ends at the given position: the position belongs to another source."
        )

    def _read(self, at: int, size: int) -> np.ndarray:
        """Return the bytes of a block, in memory that begins at a cache line."""
        room = np.empty(size + _LINE, np.uint8)
        start = -room.ctypes.data % _LINE
        raw, done = room[start : start + size], 0
        with self._reading:
            self._file.seek(at)
            while done < size:
                n = self._file.readinto(memoryview(raw.data)[done:])
                if not n:
                    raise StreamError(
                        f"{self.folder} was cut off while it was read: remove it and convert the source again."
                    )
                done += n
        return raw

    def _chunk(self, k: int) -> Chunk:
        block = self.blocks[k]
        raw = self._read(block["at"], block["size"])
        if not self._checked[k]:
            if checksum(raw.view(np.uint64)) != block["sum"]:
                raise self._damaged()
        held = {name: np.frombuffer(raw, dtype, length, at) for name, (dtype, length, at) in block["arrays"].items()}
        if not self._checked[k]:
            with self._checking():
                check_block(held, block["d"], len(self._labels) - 1)
            self._checked[k] = True
        y = self._labels[held["y"]] if held["y"].dtype == np.int64 else held["y"]
        tags = None
        if "tags" in held:
            text, ends = held["tags"].tobytes(), [0, *held["tag_ends"].tolist()]
            tags = [text[a:b].decode("utf-8", "surrogateescape") for a, b in zip(ends, ends[1:], strict=False)]
        return Chunk(
            held["indptr"],
            held["indices"],
            held["data"],
            block["d"],
            y,
            held.get("weights"),
            tags,
            block["first"],
            block["position"],
            block["read"],
            offsets=held.get("offsets"),
            times=held.get("times"),
        )


def _is_free(folder: Path) -> bool:
    """Return whether a cache may be written at ``folder``: it does not exist, or has only the files of a cache.

    The folder is looked up once: another process may remove it between two lookups.
    """
    try:
        return set(os.listdir(folder)) <= _FILES
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        return False


class Writer:
    """A writer of chunks to a cache, which appears at its place on ``finish``, completely or not at all."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(os.path.abspath(folder))
        if not _is_free(self.folder):
            raise ValueError(f"{folder} exists and is not a cache of rows: name a new folder.")
        self._part = PartFolder(self.folder)
        try:
            with naming(self.folder):
                self._file = open(self._part.path / ROWS, "wb")  # noqa: SIM115
        except OSError:
            self._part.remove()
            raise
        self._blocks: list[dict[str, Any]] = []
        self._waiting: list[Chunk] = []
        self._labels: dict[str, int] = {}
        self._d, self._rows = 0, 0

    def add(self, chunk: Chunk) -> None:
        """Append a chunk; small chunks wait to be joined with the next into one block."""
        self._waiting.append(chunk)
        if sum(each.data.nbytes for each in self._waiting) >= BLOCK_BYTES:
            with naming(self.folder):
                self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        chunk, self._waiting = joined(self._waiting), []
        y = chunk.y
        if y.dtype == object:
            codes = [-1 if label is None else self._labels.setdefault(label, len(self._labels)) for label in y]
            y = np.array(codes, np.int64)
        arrays = {"indptr": chunk.indptr, "indices": chunk.indices, "data": chunk.data, "y": y}
        by_row = ("weights", chunk.weights), ("offsets", chunk.offsets), ("times", chunk.times)
        arrays |= {name: each for name, each in by_row if each is not None}
        if chunk.tags is not None:
            raw = [tag.encode("utf-8", "surrogateescape") for tag in chunk.tags]
            arrays["tags"] = np.frombuffer(b"".join(raw), np.uint8)
            arrays["tag_ends"] = np.cumsum([len(tag) for tag in raw], dtype=np.int64)
        places, parts, size = {}, [], 0
        for name in FIELDS:
            if name in arrays:
                array = np.ascontiguousarray(arrays[name])
                places[name] = [array.dtype.str, array.size, size]
                parts.append(array.tobytes() + bytes(-array.nbytes % _LINE))
                size += len(parts[-1])
        raw_block = bytearray().join(parts)
        padding = -size % _PAGE
        self._file.write(raw_block)
        self._file.write(bytes(padding))
        self._blocks.append(
            {
                "at": self._blocks[-1]["end"] if self._blocks else 0,
                "size": size,
                "arrays": places,
                "sum": checksum(np.frombuffer(raw_block, np.uint64)),
                "d": int(chunk.d),
                "first": int(chunk.first),
                "position": chunk.position,
                "read": int(chunk.read),
            }
        )
        self._blocks[-1]["end"] = self._blocks[-1]["at"] + size + padding
        self._d, self._rows = max(self._d, int(chunk.d)), self._rows + chunk.rows

    def finish(self, identity: dict[str, Any], source: Stream) -> None:
        """Write names and the manifest, sync all files to disk, and move the folder to its place."""
        with naming(self.folder):
            self._flush()
            _synced(self._file)
        text = json.dumps(dict(source.names)).encode()
        manifest = {
            "format": "sparsco-rows",
            "version": VERSION,
            "byteorder": sys.byteorder,
            "identity": identity,
            "description": source.description,
            "counts": packed(source.counts),
            "rows": self._rows,
            "d": self._d,
            "labels": list(self._labels),
            "blocks": self._blocks,
            "size": self._blocks[-1]["end"] if self._blocks else 0,
            "names": hashlib.sha256(text).hexdigest(),
        }
        for name, raw in ((NAMES, text), (MANIFEST, _sealed(manifest))):
            with naming(self.folder), open(self._part.path / name, "wb") as file:
                file.write(raw)
                _synced(file)
        self._part.put()

    def abort(self) -> None:
        """Remove everything that was written."""
        with contextlib.suppress(OSError):  # the disk may be full for the buffered rest, too
            self._file.close()
        self._part.remove()


def joined(chunks: list[Chunk]) -> Chunk:
    """Return several chunks as one."""
    (indptr, indices, data, _, _), last = stack([chunk.matrix for chunk in chunks]), chunks[-1]
    weights = column_of([(chunk.rows, chunk.weights) for chunk in chunks], 1.0)
    offsets = column_of([(chunk.rows, chunk.offsets) for chunk in chunks], 0.0)
    times = column_of([(chunk.rows, chunk.times) for chunk in chunks], np.nan)
    tags = None
    if any(chunk.tags is not None for chunk in chunks):
        tags = [tag for chunk in chunks for tag in (chunk.tags or [""] * chunk.rows)]
    y = np.concatenate([chunk.y for chunk in chunks])
    rest = y, weights, tags, chunks[0].first, last.position, last.read
    return Chunk(indptr, indices, data, last.d, *rest, offsets=offsets, times=times)


class CachedStream(Stream):
    """A stream that is written to a cache during its first whole pass, and read from there afterwards."""

    def __init__(self, source: Stream, folder: str | os.PathLike[str]) -> None:
        self.source, self.folder, self.repeatable = source, Path(folder), True
        self.labels_are, self.place, self.hashed_to = source.labels_are, source.place, source.hashed_to
        self._identity = source.identity()
        self._cache = self._open()

    def _open(self) -> CacheStream | None:
        """Return the cache, if it exists, is complete, and matches the current source; else None."""
        try:
            cache = CacheStream(self.folder)
        except (StreamError, OSError):
            return None
        return cache if _is_of(cache, self.source) else None

    @property
    def total(self) -> int | None:  # type: ignore[override]
        return self.source.total

    @property
    def names(self) -> Mapping[int, str]:
        return self.source.names if self._cache is None else self._cache.names

    @property
    def counts(self) -> Mapping[str, Any]:  # type: ignore[override]
        return self.source.counts if self._cache is None else self._cache.counts

    @property
    def is_cached(self) -> bool:
        """Return whether the next pass is read from the cache."""
        return self._cache is not None

    def remarks(self) -> list[str]:
        return self.source.remarks()

    @property
    def description(self) -> Description | None:  # type: ignore[override]
        return self.source.description

    def recall(self, names: Mapping[int, str]) -> None:
        self.source.recall(names)

    def identity(self) -> dict[str, Any]:
        """Return the identity of the rows of the next pass: those in the cache, or those of the current source."""
        return self.source.identity() if self._cache is None else self._identity

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        if self._cache is not None:
            if start is not None:
                try:
                    self._cache.find(start)
                except ValueError:  # the position is from a pass with other blocks
                    return (yield from self.source.chunks(start))
            return (yield from self._cache.chunks(start))
        if start is not None:
            return (yield from self.source.chunks(start))
        yield from self._written()

    def completed(self, progress: Callable[[Chunk], None]) -> CacheStream | None:
        """Return the cache, written now if it does not exist; None if it cannot be written.

        ``progress`` is called for each chunk.
        """
        if self._cache is None:
            for chunk in self._written():
                progress(chunk)
        return self._cache

    def _written(self) -> Iterator[Chunk]:
        """Read the source in a pass that writes the cache; if writing fails, reading continues."""
        writer: Writer | None = None
        try:
            try:
                writer = Writer(self.folder)
            except OSError as error:
                _warn(self.folder, error)
            for chunk in self.source.chunks():
                if writer is not None:
                    try:
                        writer.add(chunk)
                    except OSError as error:
                        _warn(self.folder, error)
                        writer.abort()
                        writer = None
                yield chunk
            if writer is not None:
                try:
                    _finish(writer, self.source, self._identity)
                    writer, self._cache = None, self._open()
                except OSError as error:
                    _warn(self.folder, error)
        finally:
            if writer is not None:
                writer.abort()


def convert(source: Stream, folder: str | os.PathLike[str], progress: Any = None) -> CacheStream:
    """Write a stream's rows to a cache; ``progress`` is called with each chunk.

    A stream without an identity (standard input, an iterator) gives a cache that never becomes stale.
    """
    try:
        identity = source.identity()
    except ValueError:
        identity = {"format": "unknown", "source": [], "options": {}}
    writer = Writer(folder)
    try:
        for chunk in source.chunks():
            writer.add(chunk)
            if progress is not None:
                progress(chunk)
        _finish(writer, source, identity)
    except BaseException:
        writer.abort()
        raise
    return CacheStream(folder)


def default_folder(identity: dict[str, Any]) -> Path:
    """Return the default folder for the cache of a source."""
    paths = [file["path"] for file in files_of(identity)]
    what = json.dumps([paths, identity["format"], identity["options"]], sort_keys=True)
    return cache_folder("rows") / hashlib.sha256(what.encode()).hexdigest()[:24]


def _is_of(cache: CacheStream, source: Stream) -> bool:
    """Return whether a cache has the rows of the current source.

    A source may begin with more names than the cache did, as when reading is resumed.  These must be the first names of
    the cache: then both assign the same column to every name.
    """
    theirs, ours = cache.identity(), source.identity()
    if theirs == ours:
        return True
    began, known = theirs["options"].get("names"), source.names
    if not began or ours["options"].get("frozen") or len(known) < began[0]:
        return False
    if any(cache.names.get(column) != name for column, name in known.items()):
        return False
    return theirs == ours | {"options": ours["options"] | {"names": began}}


def is_cache(path: str) -> bool:
    """Return whether a path is a cache's folder."""
    return os.path.isfile(os.path.join(path, MANIFEST))


def _finish(writer: Writer, source: Stream, identity: dict[str, Any]) -> None:
    for file in files_of(identity):
        if not is_same(file):
            raise StreamError(f"{file['path']} changed while it was read: no cache of it was written.")
    writer.finish(identity, source)


def _warn(folder: Path, error: OSError) -> None:
    warn(f"no cache was written to {folder}: {error.strerror or error}", RuntimeWarning)


def _read_manifest(folder: Path) -> dict[str, Any]:
    raw = _read(folder, MANIFEST)
    seal, _, body = raw.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != seal:
        raise StreamError(f"{folder} is damaged: remove it and convert the source again.")
    try:
        manifest = json.loads(body)
        made_by = tuple(manifest[name] for name in ("format", "version", "byteorder"))
    except (ValueError, LookupError, TypeError, RecursionError):
        raise StreamError(f"{folder} has no manifest: remove it and convert the source again.") from None
    if made_by != ("sparsco-rows", VERSION, sys.byteorder):
        raise StreamError(f"{folder} was written by another version or machine: convert the source again.")
    return manifest


def _sealed(manifest: dict[str, Any]) -> bytes:
    """Return the manifest, preceded by its own checksum."""
    body = json.dumps(manifest).encode()
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def _read(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except FileNotFoundError:
        raise StreamError(f"{folder} is not a complete cache: it has no {name}.") from None


def _synced(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()
