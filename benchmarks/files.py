"""Files: parsing, training from text and from the cache, memory; beside scikit-learn's parser and Vowpal Wabbit.

    python benchmarks/files.py [--rows N] [--repeats R] [--vw COMMAND]

One core (pinned where the system allows), page cache warm, runs interleaved, the least of each; ratios are theirs over
ours.  VW is the command ``vw`` where there is one, else the Python package's ``python -m vowpalwabbit``; without either
its lines are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def write_texts(folder: Path, rows: int, d: int = 47_236, k: int = 75) -> tuple[Path, Path]:
    """RCV1-shaped rows as LIBSVM and as VW text; blocks of 20,000 rows repeat after the fifth."""
    from sparsco.datasets.generators import text_like

    svm, vw = folder / "data.svm", folder / "data.vw"
    X, y = text_like(min(rows, 100_000), d, k, 400, 8.0, np.random.default_rng(0))
    blocks = []
    for first in range(0, X.shape[0], 20_000):
        lines = []
        for i in range(first, min(first + 20_000, X.shape[0])):
            at = slice(X.indptr[i], X.indptr[i + 1])
            pairs = " ".join(f"{j + 1}:{v:.6f}" for j, v in zip(X.indices[at], X.data[at], strict=True))
            lines.append((f"{y[i]:+d}", pairs))
        blocks.append(lines)
    written = 0
    with open(svm, "w") as ours, open(vw, "w") as theirs:
        while written < rows:
            for lines in blocks:
                ours.write("".join(f"{label} {pairs}\n" for label, pairs in lines[: rows - written]))
                theirs.write("".join(f"{label} | {pairs}\n" for label, pairs in lines[: rows - written]))
                written += min(len(lines), rows - written)
    return svm, vw


def cpu(work: Callable[[], Any]) -> float:
    """Seconds of this process and the children it waits for."""
    before = _spent()
    work()
    return _spent() - before


def _spent() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def interleaved(works: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """The least time of each, in seconds of CPU."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(repeats):
        for name, work in works.items():
            best[name] = min(best[name], cpu(work))
    return best


def run(*command: Any) -> None:
    """A process that has to end well; what it says is dropped.  Modules are compiled once, as installed ones are."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    words, nowhere = [str(part) for part in command], subprocess.DEVNULL
    subprocess.run(words, check=True, stdout=nowhere, stderr=nowhere, env=env)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="about 1.1 kB of text each")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--vw", help="the command (default: vw, or the package's)")
    parser.add_argument("--folder", help="where to write the files (default: a temporary one)")
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    vw = given.vw.split() if given.vw else [shutil.which("vw")] if shutil.which("vw") else None
    with contextlib.ExitStack() as stack:
        folder = Path(given.folder or stack.enter_context(tempfile.TemporaryDirectory()))
        began = time.monotonic()
        svm, text = (folder / "data.svm", folder / "data.vw")
        if not svm.exists():
            svm, text = write_texts(folder, given.rows)
        size = svm.stat().st_size
        print(f"{given.rows:,} rows, {size / 1e9:.2f} GB of LIBSVM text ({time.monotonic() - began:.0f} s to write)")
        parsing(folder, svm, given.repeats)
        training(folder, svm, text, vw, given.repeats)
        passes(folder, svm, given.repeats)


def parsing(folder: Path, svm: Path, repeats: int) -> None:
    """Our parser beside scikit-learn's, on the first 100 MB."""
    from sklearn.datasets import load_svmlight_file

    from sparsco.streams import open_stream

    part = folder / "part.svm"
    with open(svm, "rb") as file:
        text = file.read(100_000_000)
    part.write_bytes(text[: text.rfind(b"\n") + 1])

    def ours() -> None:
        for _ in open_stream(part, threads=1):
            pass

    ours()
    best = interleaved({"scikit-learn": lambda: load_svmlight_file(str(part)), "sparsco": ours}, repeats)
    for name, seconds in best.items():
        print(f"parse    {name:14} {part.stat().st_size / seconds / 1e6:8.0f} MB/s")
    print(f"parse    ratio {best['scikit-learn'] / best['sparsco']:.1f} (goal: at least 8)")


def training(folder: Path, svm: Path, text: Path, vw: list[str] | None, repeats: int) -> None:
    """Whole processes on text, one pass; then from the caches."""
    ours = [sys.executable, "-m", "sparsco.cli", "train"]
    fast = ["--optimizer", "fobos", "--conversion", "last", "--alpha", "1e-5", "--quiet", "--checkpoint-every", "0"]
    plain = ["--quiet", "--checkpoint-every", "0"]
    rows, cache = folder / "rows", folder / "data.cache"
    run(*ours[:-1], "convert", svm, rows, "--quiet")
    run(*ours, svm, "-m", folder / "m", *fast)  # compiles
    run(*ours, svm, "-m", folder / "m", *plain)
    works: dict[str, Callable[[], Any]] = {
        "sparsco, default": lambda: run(*ours, svm, "-m", folder / "m", *plain),
        "sparsco, fobos": lambda: run(*ours, svm, "-m", folder / "m", *fast),
        "sparsco, fobos, cached": lambda: run(*ours, rows, "-m", folder / "m", *fast),
        "sparsco, default, cached": lambda: run(*ours, rows, "-m", folder / "m", *plain),
        "sparsco, start": lambda: run(*ours, folder / "few.svm", "-m", folder / "m", *fast),
    }
    with open(svm) as file:
        (folder / "few.svm").write_text("".join(next(file) for _ in range(1200)))
    (folder / "few.vw").write_text("".join(f"{1 - 2 * (k % 2)} | 1:1\n" for k in range(100)))
    if vw:
        theirs = [*vw, "--loss_function", "logistic", "--l1", "1e-5", "--quiet", "-b", "18"]
        cache.unlink(missing_ok=True)
        run(*theirs, "-d", text, "--cache_file", cache)
        works |= {
            "vw": lambda: run(*theirs, "-d", text, "-f", folder / "m.vw"),
            "vw, cached": lambda: run(*theirs, "-d", text, "--cache_file", cache, "-f", folder / "m.vw"),
            "vw, start": lambda: run(*theirs, "-d", folder / "few.vw", "-f", folder / "m.vw"),
        }
    best = interleaved(works, repeats)
    for name, seconds in best.items():
        print(f"train    {name:26} {seconds:8.2f} s")
    if vw:
        start, their_start = best["sparsco, start"], best["vw, start"]
        print(
            f"train    text, process start included: {best['vw'] / best['sparsco, default']:.2f} by default, "
            f"{best['vw'] / best['sparsco, fobos']:.2f} fobos (goal: at least 2)"
        )
        cached = best["vw, cached"] - their_start
        print(
            f"train    cached, start excluded: {cached / (best['sparsco, fobos, cached'] - start):.2f} fobos "
            f"(goal: 5), {cached / (best['sparsco, default, cached'] - start):.2f} by default (1.5)"
        )


def passes(folder: Path, svm: Path, repeats: int) -> None:
    """A pass over mapped blocks beside one over the same rows in memory."""
    from sparsco.conversions import Last
    from sparsco.data.rows import Matrix
    from sparsco.engine import Run
    from sparsco.losses import Logistic
    from sparsco.optimizers import FOBOS
    from sparsco.penalties import L1
    from sparsco.streams import open_stream

    stream = open_stream(folder / "rows")
    held, rows = [], 0
    for chunk in stream:
        held.append((Matrix(chunk.indptr.copy(), chunk.indices.copy(), chunk.data.copy(), chunk.d), chunk.y.copy()))
        rows += chunk.rows
        if rows >= 200_000:
            break

    def learn(parts: Any) -> None:
        learner, seen = Run(Logistic(), L1(1e-5), FOBOS(), Last(), d=47_237), 0
        for matrix, y in parts:
            learner.feed(matrix, y)
            seen += len(y)
            if seen >= rows:
                break

    learn(held)
    best = interleaved(
        {"memory": lambda: learn(held), "mapped": lambda: learn((chunk.matrix, chunk.y) for chunk in stream)},
        3 * repeats,
    )
    print(f"passes   mapped over in memory {best['mapped'] / best['memory']:.2f} (goal: at most 1.3)")


if __name__ == "__main__":
    main()
