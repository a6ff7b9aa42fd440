"""Fits over partitions: the same bits for any number of workers and after any of them is killed, the quality of mixing
against one stream of all rows, and what travels.

    python benchmarks/on_dask.py bits | kills | quality | speed | workers

Prints name, measured, bar, verdict; exits with the number of bars missed.  ``quality`` generates two million rows.
"""

from __future__ import annotations

import argparse
import logging
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from engine import Bar

from sparsco import SparseClassifier
from sparsco.conversions import OptimalSL
from sparsco.data.rows import Matrix
from sparsco.datasets.generators import text_like
from sparsco.distributed import fit, mixing
from sparsco.streams import convert, open_stream
from sparsco.util.folders import cache_folder

ALPHA, PARTITIONS, FEATURES, NONZEROS = 3e-5, 8, 47_236, 73
TEST = 100_000


def partitions(n: int, parts: int = PARTITIONS, test: int = 0) -> list[str]:
    """RCV1-shaped rows in folders of the binary cache, and one more with test rows."""
    folder = cache_folder("bench") / f"partitions-{n}-{parts}-{test}"
    names = [*(folder / f"part-{k}" for k in range(parts)), *([folder / "test"] if test else [])]
    if not names[-1].exists():
        folder.mkdir(parents=True, exist_ok=True)
        X, y = text_like(n + test, FEATURES, NONZEROS, relevant=1000, scale=10.0, rng=np.random.default_rng(0))
        ends = [*(n * k // parts for k in range(parts + 1)), *([n + test] if test else [])]
        for name, a, b in zip(names, ends, ends[1:], strict=False):
            convert(open_stream(X[a:b], y=y[a:b]), name)
    return [str(name) for name in names]


def model(alpha: float = ALPHA) -> SparseClassifier:
    return SparseClassifier(alpha=alpha, conversion="optimal-sl", random_state=0)


def same(a: Any, b: Any) -> bool:
    return np.array_equal(a.coef_, b.coef_) and np.array_equal(a.intercept_, b.intercept_)


@contextmanager
def cluster(workers: int) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as local,
        Client(local) as client,
    ):
        yield client


def bits(rows: int) -> list[Bar]:
    """1, 2 and 4 workers against this process."""
    paths, found = partitions(rows), []
    reference = fit(model(), paths)
    for workers in (1, 2, 4):
        with cluster(workers) as client:
            alike = same(fit(model(), paths, client), reference)
        found.append(Bar(f"{workers} workers, same bits", float(alike), ">=", 1))
    return found


def kills(rows: int, times: int) -> list[Bar]:
    """A worker is killed with signal 9 in the middle of each phase in turn."""
    paths, alike, killed = partitions(rows), 0, 0
    reference = fit(model(), paths)
    rounds = len(reference.report_["distributed"]["rounds"])
    for number in range(times):
        with cluster(2) as client:  # a new one: not every nanny starts its worker again
            victim, phase = _Killer(client, np.random.default_rng(number)), number % (rounds + 1)
            alike += same(_fit_and_kill(paths, client, victim, phase), reference)
        killed += victim.killed
        print(
            f"run {number + 1}: killed in {'phase two' if phase == rounds else f'round {phase + 1}'}, "
            f"{alike} of {number + 1} with the same bits",
            file=sys.stderr,
        )
    return [Bar("workers killed", killed, ">=", times), Bar("runs with the same bits", alike, ">=", times)]


class _Killer:
    """Kills a worker a moment after it is asked to."""

    def __init__(self, client: Any, rng: np.random.Generator) -> None:
        self.client, self.rng, self.killed = client, rng, 0

    def later(self) -> None:
        pids = client_pids(self.client)
        pid = pids[self.rng.integers(len(pids))]
        threading.Timer(self.rng.uniform(0.0, 0.02), self._kill, [pid]).start()

    def _kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self.killed += 1


def client_pids(client: Any) -> list[int]:
    """The workers' process numbers."""
    return sorted(client.run(os.getpid).values())


def _fit_and_kill(paths: list[str], client: Any, killer: _Killer, phase: int) -> Any:
    """A fit in which a worker dies while the tasks of a phase are under way."""
    from sparsco.distributed.executors import OnDask

    plain, seen = OnDask._leaves, [0]

    def leaves(self: Any, name: str, *rest: Any) -> Any:
        if name in ("sparsco-learn", "sparsco-gradients"):
            if seen[0] == phase:
                killer.later()
            seen[0] += 1
        return plain(self, name, *rest)

    OnDask._leaves = leaves  # type: ignore[method-assign]
    try:
        return fit(model(), paths, client)
    finally:
        OnDask._leaves = plain  # type: ignore[method-assign]


def judged(found: Any, paths: list[str]) -> tuple[float, float]:
    """Mean loss and error over the rows of some partitions."""
    loss = mistakes = rows = 0.0
    for path in paths:
        for chunk in open_stream(path):
            p = found.margins_of(Matrix(chunk.indptr, chunk.indices, chunk.data, FEATURES))[:, 0]
            loss, mistakes = loss + np.logaddexp(0.0, -chunk.y * p).sum(), mistakes + (np.sign(p) != chunk.y).sum()
            rows += chunk.rows
    return loss / rows, mistakes / rows


def quality(rows: int) -> list[Bar]:
    """OptimalSL by mixing over eight partitions against one stream of all rows."""
    *paths, test = partitions(rows, test=TEST)
    found = []
    for alpha in (ALPHA, ALPHA / 3):
        one = SparseClassifier(alpha=alpha, conversion=OptimalSL(T=rows), random_state=0)
        for path in paths:
            for chunk in open_stream(path):
                one.take_rows(chunk.matrix, chunk.y.astype(int), classes=[-1, 1])
        mixed = fit(model(alpha), paths)
        figures = []
        for each in (one, mixed):
            loss, _ = judged(each, paths)
            figures.append((loss + alpha * np.abs(each.coef_).sum(), judged(each, [test])[1], each.n_nonzero_))
        print(f"alpha {alpha:.2g}: one stream and mixed: objective, test error, nonzeros: {figures}", file=sys.stderr)
        (objective, error, nonzeros), mix = figures
        found += [
            Bar(f"objective at {alpha:.0e}, over one stream's", mix[0] / objective, "<=", 1.01),
            Bar("test error over one stream's", mix[1] / error, "<=", 1.01),
            Bar("nonzeros: off by", abs(mix[2] / nonzeros - 1.0), "<=", 0.20),
        ]
        travelled = mixed.report_["distributed"]["rounds"]
        worst = max((each["up"] + each["down"]) / (12 * each["nonzeros"]) for each in travelled)
        print(travelled, mixed.report_["distributed"]["phase two"], file=sys.stderr)
        found.append(Bar("bytes of a round, up and down, over 12 a nonzero", worst, "<=", 1.5))
    return [*found, Bar("pickled bytes over those counted", _pickled_share(paths), "<=", 1.05)]


def _pickled_share(paths: list[str]) -> float:
    """What the messages of a fit weigh as they are pickled, over what is counted."""
    sizes = np.zeros(2)
    plain = mixing.learn

    def learn(*arguments: Any) -> Iterator[Any]:
        for message in plain(*arguments):
            sizes[:] += len(pickle.dumps(message)), message.bytes
            yield message

    mixing.learn = learn
    try:
        fit(model(), paths)
    finally:
        mixing.learn = plain
    return float(sizes[0] / sizes[1])


def speed(rows: int) -> list[Bar]:
    """Seconds of CPU of the parts on this machine: nothing to hold, figures for the documentation."""
    *paths, _ = partitions(rows, test=TEST)
    fit(model(), paths)
    start = time.process_time()
    found = fit(model(), paths)
    whole = time.process_time() - start
    print(
        f"{rows:,} rows, {rows * NONZEROS:,} nonzeros: {whole:.2f} s of CPU for both phases, "
        f"{rows * NONZEROS / whole / 1e6:.0f} million nonzeros a second",
        file=sys.stderr,
    )
    one = SparseClassifier(alpha=ALPHA, conversion="optimal-sl", random_state=0)
    start = time.process_time()
    for path in paths:
        for chunk in open_stream(path):
            one.take_rows(chunk.matrix, chunk.y.astype(int), classes=[-1, 1])
    one.coef_  # noqa: B018
    print(f"one stream: {time.process_time() - start:.2f} s; {found.report_['distributed']}", file=sys.stderr)
    return []


def workers(rows: int, times: int) -> list[Bar]:
    """Fits on one and on two workers in turns, the fastest of each: for a machine with nothing else to do.

    Beside the seconds are those of CPU: of this process, which has the scheduler, and of the busiest worker.
    """
    *paths, _ = partitions(rows, test=TEST)
    seconds: dict[int, list[list[float]]] = {1: [], 2: []}
    with cluster(1) as one, cluster(2) as two:
        reference = fit(model(), paths, one)
        fit(model(), paths, two)
        for _ in range(times):
            for count, client in ((1, one), (2, two)):
                before, here, start = client.run(_cpu), _cpu(), time.perf_counter()
                found = fit(model(), paths, client)
                wall, here, after = time.perf_counter() - start, _cpu() - here, client.run(_cpu)
                busiest = max(after[name] - before[name] for name in before)
                seconds[count].append([wall, here, busiest, here + busiest])
                assert same(found, reference)
    least = {count: np.min(figures, axis=0) for count, figures in seconds.items()}
    for count, figures in least.items():
        print(
            f"{count} worker(s): {figures[0]:.2f} s; CPU {figures[1]:.2f} s here, {figures[2]:.2f} s of the busiest",
            file=sys.stderr,
        )
    gained = least[1] / least[2]
    return [
        Bar("one worker over two, seconds", gained[0], ">=", 1.6),
        Bar("one worker over two, CPU here and of the busiest", gained[3], ">=", 1.6),
    ]


def _cpu() -> float:
    """The seconds of CPU of this process."""
    return sum(os.times()[:2])


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("what", choices=("bits", "kills", "quality", "speed", "workers"))
    options.add_argument("--rows", type=int)
    options.add_argument("--times", type=int, default=20)
    given = options.parse_args()
    rows = given.rows or (200_000 if given.what in ("bits", "kills") else 2_000_000)
    extra = (given.times,) if given.what in ("kills", "workers") else ()
    bars = globals()[given.what](rows, *extra)
    for bar in bars:
        print(f"{bar.name:<55} {bar.measured:>9.4g} {bar.sign} {bar.limit:<6g} {'holds' if bar.holds else 'MISSED'}")
    sys.exit(sum(not bar.holds for bar in bars))
