"""Threads for independent tasks; ``distributed.executors`` has pools of the same form on other machines."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Any, Self


class Pool:
    """A pool whose ``map(name, function, items, *held)`` returns ``function(*item, *held)`` for every item.

    The results are in the order of the items.
    """

    count = 1
    """The number of tasks that run at a time, as far as it is known."""
    shares_memory = True
    """True if a function may change the arrays it is given, and the caller sees the change."""

    def hold(self, what: Any) -> Any:
        """Return data that many tasks will use, in the form that ``map`` takes."""
        return what

    def map(self, name: str, function: Callable[..., Any], items: Iterable[tuple], *held: Any) -> list[Any]:
        """Return ``function(*item, *held)`` for every item, in the order of the items."""
        return [function(*item, *held) for item in items]

    def map_in_turns(self, name: str, function: Callable[..., Any], items: Iterable[tuple], *held: Any) -> list[Any]:
        """Return the result of ``map``, for tasks that are compiled code with a little Python now and then."""
        return self.map(name, function, items, *held)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


class Threads(Pool):
    """A pool of as many threads as joblib makes of ``n_jobs``.

    The threads are kept for the next call, since a path needs them a hundred times a pass.  A task that needs threads
    itself gets none.
    """

    def __init__(self, n_jobs: int | None) -> None:
        if _here.works or (n_jobs is None and "joblib" not in sys.modules):  # joblib's settings count too
            return
        from joblib import effective_n_jobs

        self.count = effective_n_jobs(n_jobs)

    def map(self, name: str, function: Callable[..., Any], items: Iterable[tuple], *held: Any) -> list[Any]:
        """Return ``function(*item, *held)`` for every item, in the order of the items."""
        if self.count == 1:
            return super().map(name, function, items, *held)
        here = [(copy_context(), item) for item in items]  # what is shown of this work is shown of theirs, too
        return list(_executor(self.count).map(lambda each: each[0].run(function, *each[1], *held), here))

    def map_in_turns(self, name: str, function: Callable[..., Any], items: Iterable[tuple], *held: Any) -> list[Any]:
        """Return the result of ``map``, with only one thread at a time in Python, until it steps :func:`aside`.

        With the lock of the interpreter alone, threads would pass it to each other at every operation on an array, and
        sleep each time.
        """
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


class _Here(threading.local):
    """What is true of the current thread."""

    works = False
    """Whether it is one of the threads of a pool."""
    turn: threading.Lock | None = None
    """The lock that it holds while it is in Python."""


_here = _Here()


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """Release the turn of this thread while long compiled code runs, and take it again at the end."""
    turn = _here.turn
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


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_executor.cache_clear)  # a child has none of its parent's threads


_lent: ContextVar[tuple[Any, Pool] | None] = ContextVar("lent", default=None)


@contextlib.contextmanager
def lent(estimator: Any, pool: Pool) -> Iterator[None]:
    """Use this pool for an estimator inside the context."""
    token = _lent.set((estimator, pool))
    try:
        yield
    finally:
        _lent.reset(token)


def pool_of(estimator: Any) -> Pool:
    """Return the threads of an estimator, or the pool that is lent to it."""
    found = _lent.get()
    return found[1] if found is not None and found[0] is estimator else Threads(estimator.n_jobs)


_in_use: ContextVar[Pool | None] = ContextVar("in_use", default=None)


@contextlib.contextmanager
def using(pool: Pool) -> Iterator[None]:
    """Let ``pool_in_use`` return this pool inside the context."""
    token = _in_use.set(pool)
    try:
        yield
    finally:
        _in_use.reset(token)


def pool_in_use() -> Pool:
    """Return the pool of the caller, for code that does not know its estimator; by default there are no threads."""
    return _in_use.get() or Pool()
