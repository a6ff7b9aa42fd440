"""One pass over rows that are generated in chunks and never held, for a given time; the rest is extrapolated."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import SGDClassifier

from ..estimators.sklearn import SparseClassifier
from . import measure
from .by_row import SHAPES, Shape
from .methods import DEFAULT
from .sets import LEAST_ROWS, SHARES, number

USUAL = ("wide-850k", "ctr-1b")
CHUNK = 2**21
"""The nonzeros of a chunk."""
TEST_ROWS = 20_000
"""The rows after the last one, on which errors are measured."""
PARTS = 10
"""The number of parts of a run whose speeds are compared."""
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


def measured(name: str, seconds: float, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return the figures of each learner on a set."""
    shape, total = parsed(name)
    lam, lines = strength(shape), list[dict[str, Any]]()
    for learner, make in LEARNERS.items():
        say(f"{name}, {learner}")
        X, y, _ = shape.rows(0, WARM_ROWS)
        make(lam).partial_fit(X, y, classes=[-1.0, 1.0]).coef_  # noqa: B018  loads and compiles all code
        figures = learned(make(lam), shape, total, seconds)
        lines.append({"set": name, "method": learner, "lam": lam} | figures)
    return lines


def learned(model: Any, shape: Shape, total: int, seconds: float) -> dict[str, Any]:
    """Return times, memory and error of one pass, which ends with the rows or after some seconds of the clock.

    Times are those of learning.  The generation of rows is measured apart.
    """
    measure.trim()
    before, begun = measure.resident(), time.perf_counter()
    at, made = 0, 0.0
    chunks, memory = list[tuple[int, measure.Taken]](), list[float]()
    while at < total and (at == 0 or time.perf_counter() - begun < seconds):
        n = min(CHUNK // shape.k, total - at)
        drawn, (X, y, _) = measure.timed(partial(shape.rows, at, n))
        taken = measure.taken(partial(model.partial_fit, X, y, classes=[-1.0, 1.0]))
        at, made = at + n, made + drawn.cpu
        chunks.append((n, taken))
        memory.append(measure.resident() - before)
    ended, w = measure.timed(lambda: model.coef_)
    X, y, least = shape.rows(total, TEST_ROWS)
    cpu = sum(taken.cpu for _, taken in chunks)
    speeds = _speeds(chunks)
    return {
        "rows": at,
        "total": total,
        "nonzeros": at * shape.k,
        "cpu": cpu + ended.cpu,
        "wall": sum(taken.wall for _, taken in chunks) + ended.wall,
        "extrapolated_cpu": cpu / at * total + ended.cpu if at < total else None,
        "rows_per_second": at / cpu,
        "slowest_over_fastest": min(speeds) / max(speeds),
        "generation_cpu": made,
        "memory": max(memory) / 1e6,
        "memory_growth": (memory[-1] - memory[len(memory) // PARTS]) / 1e6,
        "error": float(np.mean(model.predict(X) != y)),
        "least_error": least,
        "features": int(np.count_nonzero(w)),
    }


def _speeds(chunks: list[tuple[int, measure.Taken]]) -> list[float]:
    """Return rows per CPU second in each of several parts of a run, without the first chunk, which has the pilot."""
    later = chunks[1:] or chunks
    parts = np.array_split(np.arange(len(later)), min(PARTS, len(later)))
    return [sum(later[i][0] for i in part) / sum(later[i][1].cpu for i in part) for part in parts]
