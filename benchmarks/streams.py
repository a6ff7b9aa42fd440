"""Reading: LIBSVM text against scikit-learn, VW text, and passes over the mapped cache against rows in memory.

``python benchmarks/streams.py [rows]``; one core, CPU seconds, the least of interleaved rounds; threads by the clock.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from sparsco.data.rows import stack
from sparsco.engine import Run
from sparsco.losses import Logistic
from sparsco.optimizers import FOBOS
from sparsco.penalties import L1
from sparsco.streams import convert, open_stream

ROUNDS, COLUMNS = 5, 47_236


def written(folder: Path, rows: int) -> tuple[Path, Path]:
    """The same rows, shaped like RCV1's, as LIBSVM and as VW text."""
    rng = np.random.default_rng(0)
    paths = folder / "rows.svm", folder / "rows.vw"
    with open(paths[0], "w") as svm, open(paths[1], "w") as vw:
        for _ in range(rows):
            columns = np.unique(rng.integers(1, COLUMNS + 1, rng.integers(30, 120)))
            words = [f"{j}:{v:.6g}" for j, v in zip(columns.tolist(), rng.random(columns.size).tolist(), strict=True)]
            label = "+1" if rng.random() < 0.5 else "-1"
            svm.write(f"{label} {' '.join(words)}\n")
            vw.write(f"{label} |f w{' w'.join(words)}\n")
    return paths


def drained(path: Path, **options: object) -> None:
    for _ in open_stream(path, **options):
        pass


def timed(tasks: dict[str, Callable[[], object]], clock: Callable[[], float]) -> dict[str, float]:
    """The least seconds of each task."""
    best = dict.fromkeys(tasks, np.inf)
    for _ in range(ROUNDS):
        for name, task in tasks.items():
            start = clock()
            task()
            best[name] = min(best[name], clock() - start)
    return best


def main() -> None:
    """Print all figures."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 60_000
    with tempfile.TemporaryDirectory() as name:
        svm, vw = written(Path(name), rows)
        for path in (svm, vw):
            drained(path)
        drained(vw, hash_bits=20)
        text = {
            "scikit-learn": lambda: load_svmlight_file(str(svm), n_features=COLUMNS, zero_based=False),
            "libsvm": lambda: drained(svm, threads=1),
            "vw": lambda: drained(vw, threads=1),
            "vw, hashed": lambda: drained(vw, threads=1, hash_bits=20),
        }
        cpu = timed(text, time.process_time)
        for what, seconds in cpu.items():
            size = (vw if "vw" in what else svm).stat().st_size
            print(f"{what:24}{size / seconds / 1e6:8.0f} MB/s{cpu['scikit-learn'] / seconds:8.1f} x scikit-learn")
        threads = {f"libsvm, {n} threads": lambda n=n: drained(svm, threads=n) for n in (1, 2)}
        for what, seconds in timed(threads, time.perf_counter).items():
            print(f"{what:24}{svm.stat().st_size / seconds / 1e6:8.0f} MB/s by the clock")

        stored = convert(svm, Path(name) / "cache")
        chunks = list(open_stream(svm))
        matrix, y = stack([chunk.matrix for chunk in chunks]), np.concatenate([chunk.y for chunk in chunks])

        def learn(parts: Callable[[], object]) -> None:
            run = Run(Logistic(), L1(1e-5), FOBOS(), d=matrix.d)
            for part in parts():
                run.feed(*part)

        passes = {
            "in memory": lambda: learn(lambda: [(matrix, y)]),
            "mapped": lambda: learn(lambda: ((chunk.matrix, chunk.y) for chunk in stored)),
            "mapped, checked": lambda: learn(lambda: ((c.matrix, c.y) for c in open_stream(stored.folder))),
        }
        timed(passes, time.process_time)
        cpu = timed(passes, time.process_time)
        for what, seconds in cpu.items():
            each = 1e9 * seconds / matrix.data.size
            print(f"FOBOS, {what:17}{each:8.2f} ns a nonzero{seconds / cpu['in memory']:8.2f} x in memory")


if __name__ == "__main__":
    main()
