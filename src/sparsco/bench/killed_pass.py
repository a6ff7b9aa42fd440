"""A pass over generated rows that is killed in the middle and resumed, by the machinery of ``sparsco train``.

The pass runs in a process of its own, which reads its task as a line of JSON from standard input.  It writes the number
of a row and waits for a line before it learns the chunk from there on.  A kill after the line finds it at work there.
At the end it writes a hash of the model.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data.rows import as_matrix
from ..estimators.sklearn import SparseClassifier
from ..streams import Chunk, Stream
from ..streams.protocol import Position
from ..training.checkpoints import Checkpoints
from ..training.train import Training
from ..util.progress import Live
from . import measure
from .by_row import Shape

CHECKPOINTS = 8
"""The number of checkpoints of a pass; the process is killed about halfway between two."""


class Killed(NamedTuple):
    """The outcome: the row that was reached before the kill, the row that was resumed from, the bits of the model."""

    at: int
    resumed_from: int
    bits: str


class Generated(Stream):
    """A stream of the first rows of a shape, in chunks of the same number of rows."""

    def __init__(self, shape: Shape, rows: int, chunk: int, reached: Callable[[int], None]) -> None:
        self.shape, self.total, self.chunk, self.reached = shape, rows, chunk, reached

    def identity(self) -> dict[str, Any]:
        """Return what decides the rows."""
        return {"shape": list(self.shape), "rows": self.total}

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        """Yield the rows from a position on."""
        at, total = 0 if start is None else start["row"], int(self.total or 0)
        while at < total:
            self.reached(at)
            n = min(self.chunk, total - at)
            X, y, _ = self.shape.rows(at, n)
            indptr, indices, data, d = as_matrix(X)[:4]
            yield Chunk(indptr, indices, data, d, y, None, None, at, {"row": at + n}, at + n)
            at += n


def bits(model: Any) -> str:
    """Return a hash of the weights and the intercept of a model."""
    digest = hashlib.sha256(np.ascontiguousarray(model.coef_).tobytes())
    digest.update(np.ascontiguousarray(model.intercept_).tobytes())
    return digest.hexdigest()


def killed(shape: Shape, rows: int, chunk: int, lam: float) -> Killed:
    """Learn rows in a process that is killed when half of them are learned, resume it, and return its outcome."""
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "pass.checkpoint")
        task = {"shape": list(shape), "rows": rows, "chunk": chunk, "lam": lam, "place": place}
        at = _run(task, kill_at=rows // 2 + rows // (2 * CHECKPOINTS))[0][-1]
        reached, found = _run(task, kill_at=rows)
        return Killed(at, reached[0], found)


def _run(task: dict[str, Any], kill_at: int) -> tuple[list[int], str]:
    """Return the rows that a pass reached until it was killed or ended, and the bits of its model if it ended."""
    with subprocess.Popen(
        [sys.executable, "-m", "sparsco.bench.killed_pass"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=measure.environment(),
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(task) + "\n")
        process.stdin.flush()
        reached = list[int]()
        for line in process.stdout:
            what, _, value = line.strip().partition(" ")
            if what == "bits":
                return reached, value
            reached.append(int(value))
            process.stdin.write("\n")  # the pass goes on by one chunk
            process.stdin.flush()
            if reached[-1] >= kill_at:
                process.kill()
                return reached, ""
    raise RuntimeError(f"a pass ended with exit code {process.returncode} and without a model.")


def main() -> None:
    """Learn the rows of a task, from its last checkpoint on if there is one, and print the bits of the model."""
    task = json.loads(sys.stdin.readline())

    def reached(row: int) -> None:
        print("row", row, flush=True)
        sys.stdin.readline()

    model = SparseClassifier(alpha=task["lam"], random_state=0)
    run = Training(model, 1, False, {}, [-1.0, 1.0], {})
    run.checkpoints = Checkpoints(Path(task["place"]), max(task["rows"] // CHECKPOINTS, 1), None)
    run.stop, run.live = bool, Live()
    run.stream = Generated(Shape(*task["shape"]), task["rows"], task["chunk"], reached)
    if run.checkpoints.exist():
        run.recall()
    print("bits", bits(run.whole().estimator), flush=True)


if __name__ == "__main__":
    main()
