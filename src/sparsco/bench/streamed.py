"""One pass over rows that are generated in chunks and never held, for a given time; the rest is extrapolated.

Speed and memory are compared over the parts of a run.  Beside each chunk the bare pass over the same rows is measured:
on a machine with other work the ratio of the two is the steadier figure.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import SGDClassifier

from ..data.rows import as_matrix
from ..estimators.sklearn import SparseClassifier
from . import killed_pass, measure
from .by_row import SHAPES, Shape
from .methods import DEFAULT, bare
from .sets import LEAST_ROWS, SHARES, number

USUAL = ("wide-850k", "ctr-1b")
CHUNK = 2**21
"""The nonzeros of a chunk."""
TEST_ROWS = 20_000
"""The rows after the last one, on which errors are measured."""
PARTS = 10
"""The number of parts of a run that are compared."""
WARM_ROWS = 2000
_NAME = re.compile(rf"({'|'.join(SHAPES)})-(\d+[kmb]?)")


def parsed(name: str) -> tuple[Shape, int]:
    """Return the shape and the number of rows of a name such as ctr-1b; raise for other names."""
    found = _NAME.fullmatch(name)
    if not found or number(found[2]) < LEAST_ROWS:
        raise ValueError(
            f"--scale: there is no set {name!r}: name {', '.join(USUAL)}, or another number of rows such as ctr-10m, "
            f"at least {LEAST_ROWS}."
        )
    return SHAPES[found[1]], number(found[2])


def strength(shape: Shape) -> float:
    """Return the smaller of the usual shares of the largest strength that selects a feature in the first chunk."""
    X, y, _ = shape.rows(0, CHUNK // shape.k)
    return SHARES[-1] * float(np.abs(X.T @ (y - y.mean())).max()) / (2 * len(y))


LEARNERS: dict[str, Callable[[float], Any]] = {
    DEFAULT: lambda lam: SparseClassifier(alpha=lam, random_state=0),
    "sklearn sgd": lambda lam: SGDClassifier("log_loss", penalty="l1", alpha=lam, random_state=0),
}
"""The estimators that learn the rows, chunk after chunk."""


def measured(
    name: str,
    seconds: float,
    say: Callable[[str], None],
    learners: Sequence[str] = tuple(LEARNERS),
    is_killed: bool = False,
) -> list[dict[str, Any]]:
    """Return the figures of each learner on a set.

    With ``is_killed`` the rows that our default learned are learned once more, in a process that is killed and resumed.
    """
    shape, total = parsed(name)
    lam, lines = strength(shape), list[dict[str, Any]]()
    for learner in learners:
        say(f"{name}, {learner}")
        make = LEARNERS[learner]
        X, y, _ = shape.rows(0, WARM_ROWS)
        make(lam).partial_fit(X, y, classes=[-1.0, 1.0]).coef_  # noqa: B018  loads and compiles all code
        _bare(X, y, np.zeros(shape.d))
        model = make(lam)
        line: dict[str, Any] = {"set": name, "method": learner, "lam": lam} | learned(model, shape, total, seconds)
        line |= {"bits_after_kill": None, "killed_at": None, "resumed_from": None}
        if is_killed and learner == DEFAULT:
            say(f"{name}, {learner}, killed and resumed")
            outcome = killed_pass.killed(shape, line["rows"], CHUNK // shape.k, lam)
            line["bits_after_kill"] = "equal" if outcome.bits == killed_pass.bits(model) else "DIFFER"
            line |= {"killed_at": outcome.at, "resumed_from": outcome.resumed_from}
        lines.append(line)
    return lines


class Learned(NamedTuple):
    """One chunk: rows, CPU and clock seconds, CPU seconds of the bare pass over it, and bytes of memory afterwards."""

    rows: int
    cpu: float
    wall: float
    bare: float
    memory: float


def learned(model: Any, shape: Shape, total: int, seconds: float) -> dict[str, Any]:
    """Return times, memory and error of one pass, which ends with the rows or after some seconds of the clock.

    Times are those of learning.  The generation of rows is measured apart.
    """
    weights = np.ones(shape.d)  # of the bare pass
    measure.trim()
    before, begun = measure.resident(), time.perf_counter()
    at, made, chunks = 0, 0.0, list[Learned]()
    while at < total and (at == 0 or time.perf_counter() - begun < seconds):
        n = min(CHUNK // shape.k, total - at)
        drawn, (X, y, _) = measure.timed(partial(shape.rows, at, n))
        taken = measure.taken(partial(model.partial_fit, X, y, classes=[-1.0, 1.0]))
        memory = measure.resident() - before
        least = measure.taken(partial(_bare, X, y, weights))
        at, made = at + n, made + drawn.cpu
        chunks.append(Learned(n, *taken, least.cpu, memory))
    ended, w = measure.timed(lambda: model.coef_)
    X, y, least_error = shape.rows(total, TEST_ROWS)
    cpu = sum(chunk.cpu for chunk in chunks)
    parts = _parts(chunks)
    memories = [float(np.median([chunk.memory for chunk in part])) for part in parts]
    return {
        "rows": at,
        "total": total,
        "nonzeros": at * shape.k,
        "cpu": cpu + ended.cpu,
        "wall": sum(chunk.wall for chunk in chunks) + ended.wall,
        "extrapolated_cpu": cpu / at * total + ended.cpu if at < total else None,
        "rows_per_second": at / cpu,
        "unevenness": unevenness([_sum(part, "rows") / _sum(part, "cpu") for part in parts]),
        "unevenness_over_bare": unevenness([_sum(part, "bare") / _sum(part, "cpu") for part in parts]),
        "over_bare": cpu / sum(chunk.bare for chunk in chunks),
        "generation_cpu": made,
        "memory": max(chunk.memory for chunk in chunks) / 1e6,
        "memory_growth": (memories[-1] - memories[min(1, len(memories) - 1)]) / 1e6,
        "error": float(np.mean(model.predict(X) != y)),
        "least_error": least_error,
        "features": int(np.count_nonzero(w)),
    }


def unevenness(speeds: Sequence[float]) -> float:
    """Return half the distance of the fastest part from the slowest, as a share of the speed between the two.

    >>> unevenness([90.0, 100.0, 110.0])
    0.1
    """
    return (max(speeds) - min(speeds)) / (max(speeds) + min(speeds))


def _parts(chunks: list[Learned]) -> list[list[Learned]]:
    """Return the chunks in several parts, without the first one, which has the pilot."""
    later = chunks[1:] or chunks
    return [[later[i] for i in part] for part in np.array_split(np.arange(len(later)), min(PARTS, len(later)))]


def _sum(part: list[Learned], what: str) -> float:
    column = Learned._fields.index(what)
    return float(sum(chunk[column] for chunk in part))


def _bare(X: Any, y: np.ndarray, weights: np.ndarray) -> None:
    matrix = as_matrix(X)
    bare(matrix.indptr, matrix.indices, matrix.data, y, weights)
