"""Trimming: memory over streams of ever new features, progressive loss and time beside no trimming.

    python benchmarks/trimming.py memory [names|columns|text] [--examples N]
    python benchmarks/trimming.py loss [--passes N]
    python benchmarks/trimming.py speed

``memory`` streams examples from a generator and prints the resident memory of the process after every tenth of them.
``loss`` judges rows before they are learned, on a generated stream and on real texts found through SPARSCO_DATA, which
are repeated.  ``speed`` compares CPU times of interleaved runs, the least of several.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsco import SparseClassifier, datasets
from sparsco.data.rows import as_matrix

COUNTING, COMMON = 200, 2_000
BLOCK = 1_000
_TRUE = np.random.default_rng(99).laplace(size=COUNTING)


def blocks(examples: int, new: int = 2, seed: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield blocks of rows, as columns of four features that count, four common ones and ``new`` new ones; and labels.

    Features that count have the columns 0 to 199, common ones follow; a new one never comes again.
    """
    rng, next_column = np.random.default_rng(seed), COUNTING + COMMON
    for _ in range(0, examples, BLOCK):
        some = rng.integers(0, COUNTING, (BLOCK, 4))
        common = COUNTING + rng.integers(0, COMMON, (BLOCK, 4))
        fresh = next_column + np.arange(BLOCK * new).reshape(BLOCK, new)
        next_column += BLOCK * new
        y = _TRUE[some].sum(1) + rng.logistic(size=BLOCK) > 0.0
        yield np.hstack([some, common, fresh]), y.astype(int)


def rows_of(columns: np.ndarray, width: int) -> sp.csr_array:
    """Return rows of ones at these columns; a column that is drawn twice counts twice."""
    n, k = columns.shape
    rows = sp.csr_array((np.ones(n * k), columns.ravel(), np.arange(0, n * k + 1, k)), shape=(n, width))
    rows.sum_duplicates()
    return rows


def resident() -> float:
    """Return the resident memory of this process in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def memory(kind: str, examples: int, settings: dict[str, Any]) -> None:
    """Learn a stream of ever new features and print the resident memory along it."""
    model, tenth, seen, began = SparseClassifier(random_state=0, **settings), examples // 10, 0, time.process_time()
    sizes = []
    for columns, y in blocks(examples):
        if kind == "names":
            for row, label in zip(columns.tolist(), y.tolist(), strict=True):
                model.learn_one([f"word{column}" for column in row], label)
        else:
            model.partial_fit(rows_of(columns, 1 << 40), y, classes=[0, 1])
        seen += len(y)
        if seen % tenth == 0:
            report(seen, model, began)
            sizes.append(resident())
    told(kind, sizes, model)


def text_memory(examples: int, settings: dict[str, Any]) -> None:
    """Train on VW text that a pipe brings, and print the resident memory along it."""
    from sparsco import train
    from sparsco.streams.vw import VWStream

    tenth, began, sizes = examples // 10, time.process_time(), list[float]()

    def lines() -> Iterator[bytes]:
        for columns, y in blocks(examples):
            yield "".join(
                f"{2 * label - 1} | {' '.join(map('word{}'.format, row))}\n"
                for row, label in zip(columns.tolist(), y.tolist(), strict=True)
            ).encode()

    read_end, write_end = os.pipe()
    if os.fork() == 0:
        os.close(read_end)
        with open(write_end, "wb") as pipe:
            for block in lines():
                pipe.write(block)
        os._exit(0)
    os.close(write_end)
    os.dup2(read_end, 0)
    stream_type: Any = VWStream
    chunks_of, seen = stream_type.chunks, 0

    def chunks(self: Any, start: Any = None) -> Iterator[Any]:
        nonlocal seen
        for chunk in chunks_of(self, start):
            yield chunk
            before, seen = seen, seen + chunk.rows
            if before // tenth < seen // tenth:
                sizes.append(resident())
                print(
                    f"{seen:>12,} examples {sizes[-1]:8.1f} MB {time.process_time() - began:8.1f} s, "
                    f"{len(self.names):,} names",
                    flush=True,
                )

    stream_type.chunks = chunks
    trained = train("-", format="vw", settings={"random_state": 0} | settings)
    told("text", sizes, trained.model)


def report(seen: int, model: Any, began: float) -> None:
    """Print memory, time and features along a stream."""
    in_use = len(model.fit_state.features)
    spent = time.process_time() - began
    print(f"{seen:>12,} examples {resident():8.1f} MB {spent:8.1f} s, {in_use:,} features", flush=True)


def told(kind: str, sizes: list[float], model: Any) -> None:
    """Print how much the memory changed behind the first tenth, and what has left."""
    later = sizes[1:]
    model.convert()
    print(
        f"{kind}: {min(later):.1f} to {max(later):.1f} MB behind the first tenth ({max(later) / sizes[1] - 1:+.1%}); "
        f"{model.report_['trimmed']}; {model.n_selected_} selected"
    )


def progressive(rows: Iterator[tuple[sp.csr_array, np.ndarray]], settings: dict[str, Any]) -> tuple[float, Any]:
    """Return the mean loss of rows that are judged before they are learned, and the model."""
    model, total, judged = SparseClassifier(random_state=0, **settings), 0.0, 0
    for X, y in rows:
        if model.__sklearn_is_fitted__():
            found = model.judge(as_matrix(X, wide=True), y)
            if found is not None:
                total, judged = total + found[0], judged + len(y)
        model.partial_fit(X, y, classes=[0, 1])
    return total / judged, model


def generated(examples: int) -> Iterator[tuple[sp.csr_array, np.ndarray]]:
    """Yield the rows of the generated stream."""
    for columns, y in blocks(examples):
        yield rows_of(columns, 1 << 40), y


def repeated(X: sp.csr_array, y: np.ndarray, passes: int) -> Iterator[tuple[sp.csr_array, np.ndarray]]:
    """Yield the rows of a set several times, each time in another order."""
    labels = (y == y.max()).astype(int)
    for number in range(passes):
        order = np.random.default_rng(number).permutation(len(labels))
        for first in range(0, len(order), 500):
            part = order[first : first + 500]
            yield X[part], labels[part]


def loss(passes: int) -> None:
    """Print progressive losses with and without trimming."""
    sources: list[tuple[str, Any, tuple[int, ...], float]] = [
        ("generated, 2 new features a row", lambda: generated(200_000), (3_000, 10_000), 3e-4),
    ]
    for name in ("imdb", "20news-tech"):
        X, y = datasets.load(name)
        bounds = tuple(X.shape[1] // share for share in (2, 4, 8))
        sources.append((f"{name} x {passes}", lambda X=X, y=y: repeated(X, y, passes), bounds, 1e-4))
    for name, rows, bounds, alpha in sources:
        for settings in ({"alpha": alpha, "optimizer": "nftrl"}, {}):
            plain, model = progressive(rows(), settings | {"storage": "seen"})
            print(f"{name}, {settings}: {plain:.5f} with {len(model.fit_state.features):,} features")
            for most in bounds:
                found, model = progressive(rows(), settings | {"max_features": most})
                left = model.fit_state.trimming
                print(
                    f"    max_features={most:,}: {found:.5f} ({found / plain - 1:+.2%}), {left.left:,} left, "
                    f"{left.selected:,} of them with a weight",
                    flush=True,
                )


def speed() -> None:
    """Print CPU times of a pass with and without trimming, the least of five interleaved runs."""
    rows = [(X, y) for X, y in generated(100_000)]
    times: dict[Any, list[float]] = {None: [], 10_000: [], 1_000_000: []}
    for _ in range(5):
        for most, found in times.items():
            model = SparseClassifier(alpha=3e-4, optimizer="nftrl", random_state=0, storage="seen", max_features=most)
            began = time.process_time()
            for X, y in rows:
                model.partial_fit(X, y, classes=[0, 1])
            found.append(time.process_time() - began)
    for most, found in times.items():
        print(f"max_features={most}: {min(found):.3f} s ({min(found) / min(times[None]):.2f})")


def main() -> None:
    """Run the part of the benchmark that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("memory", "loss", "speed"))
    parser.add_argument("kind", nargs="?", default="columns", choices=("names", "columns", "text"))
    parser.add_argument("--examples", type=int, default=10_000_000)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--auto", action="store_true", help="choose the strength from the data")
    given = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    settings = {"max_features": 20_000} | ({} if given.auto else {"alpha": 3e-4, "optimizer": "nftrl"})
    if given.part == "loss":
        loss(given.passes)
    elif given.part == "speed":
        speed()
    elif given.kind == "text":
        text_memory(given.examples, settings)
    else:
        memory(given.kind, given.examples, settings)


if __name__ == "__main__":
    with datasets.ends_if_missing():
        main()
