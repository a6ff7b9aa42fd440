"""Fits that consist of many independent fits: the strengths of a path, folds, the paths of a stable selection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..selection.linear_path import LinearPath
from ..selection.path import Path
from ..streams import Chunk, Stream
from ..training.labelled_rows import labels
from ..training.train import Training
from ..util.progress import Live
from ..util.threads import lent
from .executors import Here, OnDask
from .partitions import Partition, files_in

STRENGTHS = 8
"""The number of strengths of a path that one task learns side by side, in a read of its own."""


class Together(Stream):
    """A stream of partitions one after the other, read in this process."""

    def __init__(self, partitions: Sequence[Partition], names: Any) -> None:
        self.partitions = [partition.read_with(names) for partition in partitions]

    def identity(self) -> dict[str, Any]:
        """Return the files that the partitions are read from."""
        return {"source": files_in(self.partitions)}

    def chunks(self, start: Any = None, **_: Any) -> Iterator[Chunk]:
        """Yield the chunks of all partitions, with rows numbered over all of them."""
        first = d = 0
        for partition in self.partitions:
            for number, stream in partition.streams():
                for chunk in partition.chunks(number, stream):
                    d = max(d, chunk.d)
                    yield chunk._replace(first=first, d=d)
                    first += chunk.rows


def fit_path(
    path: LinearPath, parts: list[Partition], names: Any, pool: Here | OnDask, classes: Any, passes: int
) -> int:
    """Learn a path in tasks of a few strengths, each of which reads all rows; return the number of rows."""
    count = len(path.new_learner().strengths)
    ends = [(first, min(first + STRENGTHS, count)) for first in range(0, count, STRENGTHS)]
    items = [(path.part(*each), classes, passes) for each in ends]
    found = pool.map("sparsco-strengths", _learned, items, pool.hold(parts), pool.hold(names))
    path.finish_with(Path.beside([models for models, _ in found]))
    return found[0][1]


def _learned(path: LinearPath, classes: Any, passes: int, parts: list[Partition], names: Any) -> tuple[Path, int]:
    """Learn some strengths of a path; return their models and the number of rows."""
    run = Training(path, passes, False, {}, classes, {})
    run.checkpoints, run.stop, run.live, run.stream = None, bool, Live(), Together(parts, names)
    rows = run.whole().rows
    return path.convert(), rows


def fit_whole(estimator: Any, data: tuple, pool: Here | OnDask) -> int:
    """Fit an estimator that has its own pool to rows in memory, on this pool; return the number of rows."""
    with lent(estimator, pool):
        estimator.fit(*data)
    return len(data[1])


def fit_stream(estimator: Any, parts: list[Partition], names: Any, pool: Here | OnDask, classes: Any) -> int:
    """Fit an estimator to rows in partitions, on this pool; return the number of rows.

    The rows are read in this process and kept as those of a stream.
    """
    d = max(pool.map("sparsco-width", _width, [(part,) for part in parts], pool.hold(names)))
    rows = 0
    with lent(estimator, pool):
        for chunk in Together(parts, names).chunks():
            X = sp.csr_array((chunk.data, chunk.indices.astype(np.int64), chunk.indptr), shape=(chunk.rows, d))
            y = chunk.y if classes is None else labels(chunk.y)
            extra = {} if classes is None or rows else {"classes": classes}
            estimator.partial_fit(X, y, sample_weight=chunk.weights, **extra)
            rows += chunk.rows
        estimator.convert()  # here, while there is a pool
    return rows


def _width(partition: Partition, names: Any) -> int:
    return max((chunk.d for chunk in Together([partition], names).chunks()), default=0)
