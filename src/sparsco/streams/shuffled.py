"""Passes in a random order of rows, over sources that fit into memory and over caches of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..data.randomness import Purpose, bits
from .cache import CachedStream, CacheStream, joined
from .protocol import Chunk, Position, Stream, StreamError

HELD_BYTES = 1 << 28
"""The bytes of rows that are held in memory at a time; a larger cache is read in random groups of blocks."""
_SLICE_ROWS, _SLICE_ENTRIES = 1 << 13, 1 << 20
"""The largest slices in which rows are returned, which are copies."""
_KEYS = 1 << 40


def order_advice(order: str, repeatable: bool, shuffle: bool) -> str:
    """Return what to do where rows are not in random order; ``order`` is that of the rows, ``shuffle`` the setting."""
    if order == "shuffled in groups":
        return "shuffle the lines of the source (shuf) before you convert it"
    if not repeatable:
        return "shuffle the rows before they are piped in (shuf), or give a file"
    if not shuffle:
        return "leave shuffling on (no --no-shuffle, shuffle=True)"
    return (
        f"the rows take more than {HELD_BYTES >> 20} MB and are learned in their order; shuffle the lines (shuf), or "
        "train on the output of `sparsco convert`"
    )


class Shuffled(Stream):
    """A stream of another stream's rows in a random order, determined by a seed and the number of the pass.

    A source whose rows fit into ``HELD_BYTES`` is read into memory and permuted.  A larger cache is read in groups of
    blocks that are drawn at random, and the rows of a group are permuted.  The rows of any other source keep their
    order, since memory is bounded.  ``order`` names the case, as soon as a pass has begun.
    """

    def __init__(self, source: Stream, seed: int, progress: Callable[[Chunk], None] = lambda chunk: None) -> None:
        """Wrap a stream; ``progress`` is called with each chunk that is read in advance."""
        self.source, self.seed, self.progress = source, seed, progress
        self.order = ""
        """"shuffled", "shuffled in groups" or "kept"."""

    def chunks(self, start: Position | None = None, number: int = 0) -> Iterator[Chunk]:
        """Yield pass ``number`` from ``start``, a position that it returned, or from the beginning."""
        if start is not None and "shuffled" not in start:
            self.order = "kept"
            return (yield from self.source.chunks(start))
        cache = self.source.completed(self.progress) if isinstance(self.source, CachedStream) else self.source
        behind = 0 if start is None else start["shuffled"]
        if isinstance(cache, CacheStream):
            return (yield from self._groups(cache, number, behind))
        held, size = list[Chunk](), 0
        chunks = self.source.chunks()
        for chunk in chunks:
            held.append(chunk)
            size += _bytes(len(chunk.data), chunk.indices.dtype, chunk.rows)
            if size > HELD_BYTES:
                break
            self.progress(chunk)
        if size > HELD_BYTES:
            if start is not None:
                raise StreamError(
                    "the cache of these shuffled rows cannot be written again: train again, without resuming."
                )
            self.order = "kept"
            while held:
                yield held.pop(0)
            return (yield from chunks)
        self.order = "shuffled"
        if held:
            rows = joined(held)
            held.clear()
            yield from self._permuted(rows, np.arange(rows.rows), number, 0, behind)

    def _groups(self, cache: CacheStream, number: int, behind: int) -> Iterator[Chunk]:
        """Yield the rows of a cache, some blocks at a time, without the first ``behind`` rows of the order."""
        before = 0
        for group in self._drawn(cache, number):
            blocks = [cache.blocks[k] for k in group]
            numbers = np.concatenate([block["first"] + np.arange(block["arrays"]["y"][1]) for block in blocks])
            if before + len(numbers) > behind:
                chunk = joined(list(cache.read(group)))
                chunk = chunk._replace(d=cache.manifest["d"], read=cache.blocks[-1]["read"])
                total = cache.manifest["rows"]
                yield from self._permuted(chunk, numbers, number, before, max(behind - before, 0), total)
            before += len(numbers)

    def _drawn(self, cache: CacheStream, number: int) -> Iterator[list[int]]:
        """Yield groups of blocks that fit into memory: all of them, or random groups."""
        arrays = [block["arrays"] for block in cache.blocks]
        sizes = [_bytes(each["data"][1], np.dtype(each["indices"][0]), each["y"][1]) for each in arrays]
        drawn = np.arange(len(sizes))
        self.order = "shuffled"
        if sum(sizes) > HELD_BYTES:
            self.order = "shuffled in groups"
            drawn = np.argsort(bits(self.seed, Purpose.SHUFFLE, -1 - drawn - _KEYS * number))
        group, size = list[int](), 0
        for k in drawn.tolist():
            if group and size + sizes[k] > HELD_BYTES:
                yield sorted(group)
                group, size = [], 0
            group.append(k)
            size += sizes[k]
        if group:
            yield sorted(group)

    def _permuted(
        self, chunk: Chunk, numbers: np.ndarray, number: int, before: int, done: int, total: int | None = None
    ) -> Iterator[Chunk]:
        """Yield the rows of a chunk in slices, from row ``done`` of their order on.

        ``numbers`` are their numbers in the source; ``before`` counts the rows returned before this chunk.
        """
        order = np.argsort(bits(self.seed, Purpose.SHUFFLE, numbers + _KEYS * number))
        matrix, n, read = chunk.matrix, chunk.rows, chunk.read
        step = int(np.clip(_SLICE_ENTRIES * n // max(len(chunk.data), 1), 1, _SLICE_ROWS))
        for first in range(done, n, step):
            rows = order[first : first + step]
            behind = before + first + len(rows)
            indptr, indices, data, d, _ = matrix.take(rows)
            yield Chunk(
                indptr,
                indices,
                data,
                d,
                chunk.y[rows],
                None if chunk.weights is None else chunk.weights[rows],
                None,
                before + first,
                {"shuffled": behind},
                read * behind // (total or n),
                numbers[rows],
                None if chunk.offsets is None else chunk.offsets[rows],
                None if chunk.times is None else chunk.times[rows],
            )


def _bytes(entries: int, indices: np.dtype, rows: int) -> int:
    """Return the size of rows in memory, which does not depend on chunks or blocks."""
    return entries * (8 + indices.itemsize) + rows * 24
