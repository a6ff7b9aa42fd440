"""Threads for independent pieces of work; ``distributed.executors`` has pools of the same form on other machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self


class Pool:
    """``map(name, function, items, *held)``: ``function(*item, *held)`` for every item, results in the items' order."""

    count = 1
    """How many pieces of work are done at a time, as far as is known."""
    shares_memory = True
    """Whether a function may change the arrays it is given, and the caller sees it."""

    def hold(self, what: Any) -> Any:
        """What many pieces of work will be given."""
        return what

    def map(self, name: str, function: Callable[..., Any], items: Iterable[tuple], *held: Any) -> list[Any]:
        return [function(*item, *held) for item in items]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


class Threads(Pool):
    """A pool for one fit, of as many threads as joblib makes of ``n_jobs``."""

    def __init__(self, n_jobs: int | None) -> None:
        from joblib import effective_n_jobs

        self.count = effective_n_jobs(n_jobs)
        self._pool = ThreadPoolExecutor(self.count) if self.count > 1 else None

    def map(self, name: str, function: Callable[..., Any], items: Iterable[tuple], *held: Any) -> list[Any]:
        if self._pool is None:
            return super().map(name, function, items, *held)
        return list(self._pool.map(lambda item: function(*item, *held), items))

    def __exit__(self, *_: Any) -> None:
        if self._pool is not None:
            self._pool.shutdown()


def pool_of(estimator: Any) -> Pool:
    """An estimator's own threads, or the pool that was given to it for a while."""
    return estimator.__dict__.get("_pool") or Threads(estimator.n_jobs)
