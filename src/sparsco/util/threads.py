"""Threads for independent pieces of work; ``distributed.executors`` has pools of the same form on other machines."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
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

    def map_in_turns(self, name: str, function: Callable[..., Any], items: Iterable[tuple], *held: Any) -> list[Any]:
        """The same for work that is compiled code with a little Python now and then."""
        return self.map(name, function, items, *held)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


class Threads(Pool):
    """As many threads as joblib makes of ``n_jobs``; they are kept for the next time, since a path asks for them a
    hundred times a pass.  Work that asks for threads itself gets none."""

    def __init__(self, n_jobs: int | None) -> None:
        if hasattr(_here, "works") or (n_jobs is None and "joblib" not in sys.modules):  # whose settings count, too
            return
        from joblib import effective_n_jobs

        self.count = effective_n_jobs(n_jobs)

    def map(self, name: str, function: Callable[..., Any], items: Iterable[tuple], *held: Any) -> list[Any]:
        if self.count == 1:
            return super().map(name, function, items, *held)
        return list(_executor(self.count).map(lambda item: function(*item, *held), items))

    def map_in_turns(self, name: str, function: Callable[..., Any], items: Iterable[tuple], *held: Any) -> list[Any]:
        """One thread at a time has Python for itself, until it steps :func:`aside`.  Left to the interpreter's lock,
        threads that meet there hand it to and fro at every operation on an array, and sleep each time."""
        if self.count == 1:
            return self.map(name, function, items, *held)
        turn = threading.Lock()

        def work(*item: Any) -> Any:
            _here.turn = turn
            try:
                with turn:
                    return function(*item, *held)
            finally:
                _here.turn = None

        return self.map(name, work, items)


_here = threading.local()


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """While compiled code works that takes long, it is the turn of others."""
    turn = getattr(_here, "turn", None)
    if turn is None:
        yield
        return
    _here.turn = None
    turn.release()
    try:
        yield
    finally:
        turn.acquire()
        _here.turn = turn


def _begin() -> None:
    _here.works = True


@functools.cache
def _executor(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, "sparsco", _begin)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_executor.cache_clear)  # a child has none of its parent's threads


_lent: ContextVar[tuple[Any, Pool] | None] = ContextVar("lent", default=None)


@contextlib.contextmanager
def lent(estimator: Any, pool: Pool) -> Iterator[None]:
    """Let an estimator work on this pool for a while."""
    token = _lent.set((estimator, pool))
    try:
        yield
    finally:
        _lent.reset(token)


def pool_of(estimator: Any) -> Pool:
    """Return an estimator's own threads, or the pool that was lent to it."""
    found = _lent.get()
    return found[1] if found is not None and found[0] is estimator else Threads(estimator.n_jobs)
