"""Data in partitions: each partition is read, chunk after chunk, only by the worker that learns it.

A place in a partition is the beginning of a chunk and the number of its rows that are already read.  It is valid in any
process.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..data.inspection import as_csr
from ..streams import Chunk, Stream, StreamError, can_be_cut, open_stream
from ..streams.cache import is_cache
from ..streams.files import STDIN, Files, is_paths, paths_of, spans
from ..streams.protocol import unlabelled
from ..streams.tables import is_table, with_roles
from ..training.labelled_rows import LabelledRows
from ..util.attributes import by_position, shape_of
from .executors import pickled

MOST = 64
"""The number of partitions by default."""
PIECE_BYTES = 1 << 26
"""The least size of a piece of a text file, which is cut if there are fewer files than ``MOST``."""
_BLOCK_ROWS = 1 << 14


class Place(NamedTuple):
    """A place in a partition from which reading goes on."""

    block: int = 0
    position: Any = None
    """The position of the chunk in the block; None for the first."""
    behind: int = 0
    row: int = 0
    """The number of rows of the partition that are already read."""


@dataclass(frozen=True)
class Partition:
    """Rows that one worker learns at a time: files, or blocks of a Dask collection."""

    name: str
    blocks: tuple[Any, ...]
    """The blocks; each is a list of files, a file with a span, or the pickled function that computes it."""
    reader: Mapping[str, Any]
    called: tuple[str, ...] = ()
    """The names of the blocks in messages; files have their own names."""

    def streams(self, first: int = 0) -> Iterator[tuple[int, Stream]]:
        """Yield the streams of the blocks from number ``first`` on; a block is computed when its turn comes."""
        for number in range(first, len(self.blocks)):
            with self._named(number):
                stream = _stream_of(self.blocks[number], self.reader)
            yield number, stream

    def chunks(self, number: int, stream: Stream, position: Any = None) -> Iterator[Chunk]:
        """Yield the chunks of the stream of a block; raise a StreamError for a row without a label."""
        with self._named(number):
            for chunk in stream.chunks(position):
                missing = unlabelled(chunk.y)
                if missing.any():
                    where, row = "" if self.called else f"{self.name}, ", chunk.first + int(missing.argmax()) + 1
                    raise StreamError(f"{where}row {row} has no label: every row must have one.")
                yield chunk

    @contextmanager
    def _named(self, number: int) -> Iterator[None]:
        """Add the name of a block to the errors inside this context."""
        try:
            yield
        except ValueError as error:
            if not self.called:
                raise
            raise StreamError(f"{self.called[number]}: {error}") from error

    def read_with(self, names: Mapping[str, Any]) -> Partition:
        """Return the partition with further options, those that all partitions share."""
        return replace(self, reader={**self.reader, **names}) if names else self

    def take(self, place: Place, most: float, use: Callable[[LabelledRows, int], None]) -> Place | None:
        """Call ``use(rows, number of the first)`` on at most ``most`` rows.

        Return the place to go on from, None at the end.
        """
        block, position, behind, row = place
        for number, stream in self.streams(block):
            for chunk in self.chunks(number, stream, position if number == block else None):
                n = int(min(chunk.rows - behind, most))
                use(LabelledRows.of(chunk).cut(behind, behind + n), row)
                most, row, behind = most - n, row + n, behind + n
                if behind < chunk.rows:
                    return Place(number, position, behind, row)
                block, position, behind = number, chunk.position, 0
                if most == 0:
                    return Place(number, position, 0, row)
            position = None
        return None


def _stream_of(block: Any, reader: Mapping[str, Any]) -> Stream:
    """Return the rows of a block as a stream.

    A block is files, or a function that computes (X, y), (X, y, weights), a table or examples.
    """
    if isinstance(block, list):
        return open_stream(block[0] if len(block) == 1 else block, **reader)
    if isinstance(block, tuple):
        return open_stream(block[0], span=block[1], **reader)
    block = pickle.loads(block)()
    if is_array(block):
        raise StreamError("it has rows and no targets: give (X, y).")
    if not (isinstance(block, tuple) and len(block) in (2, 3) and shape_of(block[0])):
        return open_stream(block, **reader)
    X, *others = block
    for name, part in zip(("y", "weights"), others, strict=False):
        shape = np.shape(part)
        if shape != X.shape[:1]:
            raise StreamError(f"X has {X.shape[0]} rows and {name} the shape {shape}, which must be ({X.shape[0]},).")
    if is_table(X):
        X, roles = with_roles(X, target=others[0], weight=others[1] if others[1:] else None)
        return open_stream(X, **{**reader, **roles})
    return open_stream(X, y=others[0], weights=others[1] if others[1:] else None, **reader)


@dataclass(frozen=True)
class _Computed:
    """A part of a Dask graph, computed by this thread alone."""

    graph: Any
    keys: Any

    def __call__(self) -> Any:
        from dask import get

        found = get(self.graph, self.keys)
        return tuple(found) if isinstance(self.keys, list) else found


def partitions_of(data: Any, reader: Mapping[str, Any] | None = None, count: int | None = None) -> list[Partition]:
    """Return the partitions of data: files, a Dask array (X, y), bag or dataframe, delayed chunks, or arrays in memory.

    ``count`` is the largest number of partitions; neighbours share one.  The default depends on the data alone, never
    on the workers.  It is one for each file or block, at most 64.  Fewer files of LIBSVM or VW text are cut into pieces
    of at least 64 MB, arrays in memory into eight.
    """
    reader = dict(reader or {})
    if count is not None and (not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1):
        raise ValueError(f"partitions={count!r}: it must be a whole number of at least 1, or None.")
    if reader.pop("cache", None):
        raise ValueError(
            "reader={'cache': ...}: every worker would write it; convert the files once and give the cache."
        )
    if is_paths(data):
        paths = [os.path.abspath(path) for path in paths_of(data) if path != STDIN or _refuse_stdin()]
        pieces = [piece for path in paths for piece in _pieces(path, reader, len(paths), count)]
        return [Partition(_called(group), tuple(_files_of(group)), reader) for group in _groups(pieces, count)]
    if is_in_memory(data):
        return _slices(data, count or 8, reader)
    blocks, name = _blocks_of(data)
    return [
        Partition(
            f"{name}, blocks {group[0]} to {group[-1]}",
            tuple(blocks[k] for k in group),
            reader,
            tuple(f"{name}, block {k}" for k in group),
        )
        for group in _groups(range(len(blocks)), count)
    ]


def files_in(partitions: Sequence[Partition]) -> list[dict[str, Any]]:
    """Return the files that partitions are read from, with sizes and times as this machine sees them."""
    blocks = [block for partition in partitions for block in partition.blocks if not isinstance(block, bytes)]
    paths = dict.fromkeys(path for block in blocks for path in (block if isinstance(block, list) else block[:1]))
    return Files(list(paths)).identity()


def _pieces(path: str, reader: Mapping[str, Any], files: int, count: int | None) -> list[Any]:
    """Return a file, or spans of a large file if there are fewer files than partitions."""
    wanted = -(-(count or MOST) // files)
    if count is None:
        wanted = min(wanted, os.stat(path).st_size // PIECE_BYTES)
    if wanted < 2 or not can_be_cut(path, reader.get("format")):
        return [path]
    return [(path, span) for span in spans(path, wanted)]


def _called(group: Sequence[Any]) -> str:
    """Return the name of a partition, for messages."""
    names = [piece if isinstance(piece, str) else f"{piece[0]} behind byte {piece[1][0]}" for piece in group]
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _files_of(group: Sequence[Any]) -> list[Any]:
    """Return the blocks of a partition: whole files together, caches and spans alone."""
    whole = [piece for piece in group if isinstance(piece, str) and not is_cache(piece)]
    alone = [[piece] if isinstance(piece, str) else piece for piece in group if piece not in whole]
    return ([whole] if whole else []) + alone


def _refuse_stdin() -> bool:
    raise ValueError("standard input cannot be read by other processes: give files.")


def _groups(items: Any, count: int | None) -> list[Any]:
    """Return neighbours in groups, as evenly as whole numbers allow."""
    parts = min(len(items), count or MOST)
    ends = [len(items) * k // parts for k in range(parts + 1)]
    return [items[a:b] for a, b in zip(ends, ends[1:], strict=False)]


def _blocks_of(data: Any) -> tuple[list[bytes], str]:
    """Return pickled functions that compute one block each, and the name of the data for messages."""
    wanted = (
        "a list of files, Dask arrays (X, y) or (X, y, weights), a Dask bag of examples, a Dask dataframe, a list of "
        "delayed chunks, or (X, y) in memory"
    )
    try:
        from dask.array import Array
        from dask.bag import Bag
        from dask.base import is_dask_collection
        from dask.delayed import Delayed
    except ImportError:
        raise ValueError(f"data is a {type(data).__name__}: it must be {wanted}.") from None
    _refuse_persisted(data)
    data = [data] if isinstance(data, Delayed) else data
    if isinstance(data, tuple) and len(data) in (2, 3) and any(is_dask_collection(part) for part in data):
        if not isinstance(data[0], Delayed):
            return _joint_blocks(*data), "the array" if isinstance(data[0], Array) else "the dataframe"
    elif isinstance(data, Bag):
        return [_pickled(part) for part in data.to_delayed()], "the bag"
    elif _is_dask_frame(data):
        return [_pickled(part) for part in data.to_delayed()], "the dataframe"
    if isinstance(data, list | tuple) and data and all(isinstance(part, Delayed) for part in data):
        return [_pickled(part) for part in data], "the delayed chunks"
    raise ValueError(f"data is a {type(data).__name__}: it must be {wanted}.")


def is_array(data: Any) -> bool:
    """Return whether data is an array or a sparse matrix in memory."""
    return sp.issparse(data) or isinstance(data, np.ndarray)


def is_in_memory(data: Any) -> bool:
    """Return whether data is (X, y) or (X, y, weights) in memory."""
    if not isinstance(data, tuple) or len(data) not in (2, 3):
        return False
    return (is_array(data[0]) or is_table(data[0])) and all(_is_column(part) for part in data[1:])


def _is_column(part: Any) -> bool:
    """Return whether a part is in memory and has a value for each row."""
    return isinstance(part, np.ndarray | list) or is_table(part)


def _slices(data: tuple, count: int, reader: Mapping[str, Any]) -> list[Partition]:
    """Return arrays in memory as this many partitions, with blocks that are unpacked one at a time."""
    X, *others = data
    rows, others = range(X.shape[0]), [np.asarray(part) for part in others]
    if not rows:
        raise ValueError("data=(X, y): they have no rows.")
    for name, part in zip(("y", "weights"), others, strict=False):
        _check_column(name, part.ndim)
        if len(part) != len(rows):
            raise ValueError(f"data=(X, y): X has {len(rows)} rows and {name} {len(part)}.")
    X = as_csr(X) if sp.issparse(X) else by_position(X)
    parts = []
    for group in _groups(rows, count):
        cuts = [slice(a, min(a + _BLOCK_ROWS, group.stop)) for a in range(group.start, group.stop, _BLOCK_ROWS)]
        blocks = tuple(pickled(_Given((X[cut], *(part[cut] for part in others)))) for cut in cuts)
        called = tuple(f"rows {cut.start} to {cut.stop - 1} of (X, y)" for cut in cuts)
        parts.append(Partition(f"rows {group.start} to {group.stop - 1}", blocks, reader, called))
    return parts


def _check_column(name: str, dimensions: int) -> None:
    if dimensions != 1:
        raise ValueError(f"{name} has {dimensions} dimensions: give one column, with a value for each row.")


@dataclass(frozen=True)
class _Given:
    """Rows that are in memory, as a function."""

    block: Any

    def __call__(self) -> Any:
        return self.block


def _joint_blocks(X: Any, y: Any, weights: Any = None) -> list[bytes]:
    """Return X, y and weights of each block of rows together; y and weights may be in memory."""
    from dask.array import Array, from_array
    from dask.base import is_dask_collection

    if not (_is_dask_frame(X) or (isinstance(X, Array) and X.ndim == 2)):
        raise ValueError("data=(X, y): beside a Dask collection X must be a Dask array (rows, columns) or dataframe.")
    if isinstance(X, Array) and X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    sizes, columns = _sizes(X), [X]
    for name, part in (("y", y), ("weights", weights)):
        if part is None:
            continue
        part = part if is_dask_collection(part) else np.asarray(part)
        _check_column(name, part.ndim)
        if isinstance(part, np.ndarray):
            if sizes is None:
                raise ValueError(
                    f"{name} is in memory, but the block sizes of X are unknown: give {name} as a Dask "
                    "collection of the "
                    "same blocks, or call X.compute_chunk_sizes()."
                )
            part = from_array(part, chunks=len(part))
        own = _sizes(part)
        if sizes is None or own is None:
            if part.npartitions != X.npartitions:
                raise ValueError(f"X and {name} have {X.npartitions} and {part.npartitions} blocks of rows.")
        elif sum(own) != sum(sizes):
            raise ValueError(f"X has {sum(sizes)} rows and {name} {sum(own)}.")
        elif own != sizes:
            part = part.rechunk({0: sizes})
        columns.append(part)
    blocks = [np.ravel(part.to_delayed()) for part in columns]
    return [_pickled(*parts) for parts in zip(*blocks, strict=True)]


def _sizes(part: Any) -> tuple[int, ...] | None:
    """Return the number of rows of each block; None if it is not known, as for a dataframe."""
    from dask.array import Array

    return part.chunks[0] if isinstance(part, Array) and not np.isnan(part.chunks[0]).any() else None


def _is_dask_frame(data: Any) -> bool:
    """Return whether data is a dataframe of Dask; where one exists, its module has been imported."""
    frames = sys.modules.get("dask.dataframe")
    return frames is not None and isinstance(data, frames.DataFrame)


def _pickled(*parts: Any) -> bytes:
    """Return the pickled function that computes these delayed values, with the necessary part of their graphs only."""
    from dask.optimization import cull

    graph: dict[Any, Any] = {}
    for part in parts:
        graph |= dict(part.__dask_graph__())
    keys = [part.key for part in parts]
    graph = cull(graph, keys)[0]
    return pickled(_Computed(graph, keys if len(keys) > 1 else keys[0]))


def _refuse_persisted(parts: Any) -> None:
    """Raise a ValueError for data with futures, which only their own client can use."""
    try:
        from distributed import futures_of
    except ImportError:
        return
    if futures_of(parts):
        raise ValueError("data was persisted: give the collection as it was before .persist(); workers compute it.")
