"""Fits that are many independent ones: the strengths of a path, folds, the paths of a stable selection."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..selection.paths import Path, SparsePath
from ..streams import Chunk, Stream
from ..training.train import Training, labels
from ..util.progress import Live
from .executors import Here, OnDask
from .partitions import Partition, files_in

STRENGTHS = 8
"""Of a path that one task learns side by side, in a read of its own."""


class Together(Stream):
    """Partitions one after the other, read here."""

    def __init__(self, partitions: Sequence[Partition], names: Any) -> None:
        self.partitions = [partition.read_with(names) for partition in partitions]

    def identity(self) -> dict[str, Any]:
        return {"source": files_in(self.partitions)}

    def chunks(self, start: Any = None, **_: Any) -> Iterator[Chunk]:
        first = d = 0
        for partition in self.partitions:
            for number, stream in partition.streams():
                for chunk in partition.chunks(number, stream):
                    d = max(d, chunk.d)
                    yield chunk._replace(first=first, d=d)
                    first += chunk.rows


def fit_path(
    path: SparsePath, parts: list[Partition], names: Any, pool: Here | OnDask, classes: Any, passes: int
) -> int:
    """Some strengths a task, each of which reads all rows; how many rows there are."""
    count = len(path._new_learner()._lams)
    items = []
    for first in range(0, count, STRENGTHS):
        own = copy.copy(path)
        own._learner, own._path, own._part = None, None, slice(first, min(first + STRENGTHS, count))
        items.append((own, classes, passes))
    found = pool.map("sparsco-strengths", _learned, items, pool.hold(parts), pool.hold(names))
    judged = tuple(np.concatenate(part) for part in zip(*(figures for _, _, figures, _ in found), strict=True))
    path._learner, path._streaming = None, False
    path._path = Path(found[0][0], [each for _, models, _, _ in found for each in models], judged)  # type: ignore[arg-type]
    return found[0][3]


def _learned(
    path: SparsePath, classes: Any, passes: int, parts: list[Partition], names: Any
) -> tuple[Any, list[Any], Any, int]:
    """The models of a path's strengths, their figures on rows not learned, and how many rows there are."""
    run = Training(path, passes, False, {}, classes, {})
    run.checkpoints, run.stop, run.live, run.stream = None, bool, Live(), Together(parts, names)
    rows, own = run.whole().rows, path.path_
    return own._shell, own._solved, (own.losses, own.spreads, own.errors), rows


def fit_whole(estimator: Any, data: tuple, pool: Here | OnDask) -> int:
    """An estimator that has a pool of its own fits rows that are all here."""
    estimator._pool = pool
    try:
        estimator.fit(*data)
    finally:
        del estimator._pool
    return len(data[1])


def fit_stream(estimator: Any, parts: list[Partition], names: Any, pool: Here | OnDask, classes: Any) -> int:
    """The same for rows in partitions, which are read here and kept as a stream's are."""
    d = max(pool.map("sparsco-width", _width, [(part,) for part in parts], pool.hold(names)))
    estimator._pool, rows = pool, 0
    try:
        for chunk in Together(parts, names).chunks():
            X = sp.csr_array((chunk.data, chunk.indices.astype(np.int64), chunk.indptr), shape=(chunk.rows, d))
            y = chunk.y if classes is None else labels(chunk.y)
            extra = {} if classes is None or rows else {"classes": classes}
            estimator.partial_fit(X, y, sample_weight=chunk.weights, **extra)
            rows += chunk.rows
        estimator.coef_  # noqa: B018  learned when asked for, while there is a pool
    finally:
        del estimator._pool
    return rows


def _width(partition: Partition, names: Any) -> int:
    return max((chunk.d for chunk in Together([partition], names).chunks()), default=0)
