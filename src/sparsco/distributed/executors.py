"""Executors of tasks: in this process, one after the other, or on the workers of a Dask cluster.

A task is a pure function of its arguments, and results are merged in the order of the tasks, by the same tree.  So the
worker of a task and the order in which tasks end cannot change a bit.  A task may only read its arguments.
"""

from __future__ import annotations

import functools
import itertools
import logging
import pickle
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ..training.results import StoppedError
from ..util.notices import warn
from ..util.threads import Pool, Threads

Merge = Callable[[Any, Any], Any]
Seen = Callable[[int, int], None]
"""A function that is called with the number of tasks done and the number of all tasks."""
TRIES = 10
"""The number of times that tasks are submitted again after they lost several workers, or lost their inputs."""
SILENT = 5.0
"""The seconds without any worker after which a warning is given."""
HERE = 2
"""The number of parts that this process merges itself: a task would cost more time than it saves."""
_MEMORY = {"MALLOC_TRIM_THRESHOLD_": 1 << 28, "MALLOC_MMAP_THRESHOLD_": 1 << 28}
"""The environment of the processes of "local:4".

They keep memory for the next chunk.  Dask's own setting gives it back at once, and a third of the time is spent to get
it again.
"""
PATIENCE = "sparsco.no-workers-timeout"
"""The key in the Dask configuration for how long tasks wait for a first worker; the default is ten minutes."""


def in_pairs(parts: Iterable[Any], merge: Merge) -> Any:
    """Return all parts merged into one: neighbours first, then neighbours of these, and so on.

    A part is merged as soon as its neighbour is there, so that few are in memory at a time.

    >>> in_pairs(["a", "b", "c", "d", "e"], lambda left, right: f"({left}{right})")
    '(((ab)(cd))e)'
    """
    merged = list[tuple[int, Any]]()
    """Parts that wait for a neighbour, with their sizes: powers of two that fall."""
    for part in parts:
        size = 1
        while merged and merged[-1][0] == size:
            size, part = 2 * size, merge(merged.pop()[1], part)
        merged.append((size, part))
    _, last = merged.pop()
    while merged:
        last = merge(merged.pop()[1], last)
    return last


def _by_levels(parts: list[Any], merge_all: Callable[[list[Any], list[Any]], list[Any]], most: int = 1) -> list[Any]:
    """Return at most ``most`` parts, of which ``in_pairs`` makes the same as of all.

    ``merge_all`` merges all pairs of neighbours at once.
    """
    while len(parts) > most:
        paired = len(parts) // 2 * 2
        parts = merge_all(parts[:paired:2], parts[1:paired:2]) + parts[paired:]
    return parts


def items_per_task(items: int, threads: int, most: int) -> int:
    """Return how many items a task takes: as many as possible without a thread that has to wait longer.

    It is a power of two of at most ``most``.  So the tree of merges, and with it every bit, is that of single items.

    >>> [items_per_task(8, threads, 64) for threads in (1, 2, 3, 4, 5, 8)]
    [8, 4, 1, 2, 2, 1]
    """
    found = size = 1
    while size < items and 2 * size <= most:
        size *= 2
        turns, left = divmod(items // size, threads)
        if turns * size + (size if left else items % size) == -(-items // threads):
            found = size
    return found


def _groups(items: Sequence[tuple], size: int) -> list[Sequence[tuple]]:
    return [items[first : first + size] for first in range(0, len(items), size)]


class Here(Threads):
    """The reference executor: everything runs in this process, on the threads of the estimator's ``n_jobs``."""

    def reduce(
        self,
        name: str,
        function: Callable[..., Any],
        items: Sequence[tuple],
        *shared: Any,
        merge: Merge,
        most: int = 1,
        seen: Seen | None = None,
    ) -> Any:
        """Return the parts of all items, merged into one.

        ``function(some items, *shared)`` yields a part for each of these items, in their order.  A task takes at most
        ``most`` items, and merges their parts.
        """
        done = itertools.count(1)

        def one(group: Sequence[tuple]) -> Iterator[Any]:
            for part in function(group, *shared):
                yield part
                if seen is not None:
                    seen(next(done), len(items))

        groups = _groups(items, items_per_task(len(items), self.count, most))
        return in_pairs(
            self.map(name, lambda group: in_pairs(one(group), merge), [(group,) for group in groups]), merge
        )


class OnDask(Pool):
    """An executor on the workers of a Dask cluster.

    Held data is part of the description of a task, so that Dask can compute it again if the worker that has it is lost.
    """

    shares_memory = False

    def __init__(self, client: Any, stop: Callable[[], bool] = bool) -> None:
        self.client, self.stop = client, stop
        self.count = self._threads()

    def _threads(self) -> int:
        """Return the number of threads of all workers, at least 1."""
        return max(1, sum(self.client.nthreads().values()))

    def hold(self, what: Any) -> Any:
        """Return a future of the data, which many tasks will use."""
        return self._submit("sparsco-hold", _itself, [what])[0]

    def map(self, name: str, function: Callable[..., Any], items: Iterable[tuple], *held: Any) -> list[Any]:
        """Return ``function(*item, *held)`` for every item, in the order of the items."""
        every = list(items)

        def once() -> list[Any]:
            leaves = self._leaves(name, function, every, held)
            self._await(leaves)
            return self.client.gather(leaves)

        return self._surely(once)

    def reduce(
        self,
        name: str,
        function: Callable[..., Any],
        items: Sequence[tuple],
        *shared: Any,
        merge: Merge,
        most: int = 1,
        seen: Seen | None = None,
    ) -> Any:
        """Return the parts of all items, merged into one on the workers; see ``Here.reduce``."""
        size = items_per_task(len(items), self.count, most)
        groups = _groups(items, size)
        several = functools.partial(_several, function, merge)
        width = len(items[0])
        nothing = [(None,) * width] * (size - len(groups[-1]))
        filled = [*groups[:-1], [*groups[-1], *nothing]]
        flat = [
            ((len(group), width, size), *itertools.chain(*full)) for group, full in zip(groups, filled, strict=True)
        ]

        def once() -> Any:
            leaves = self._leaves(name, several, flat, shared)
            merges = functools.partial(self._submit, f"{name}-merge", merge, priority=1)  # soon, to free memory
            last = _by_levels(leaves, merges, HERE)

            def look() -> None:
                if seen is not None:
                    done = (len(group) for group, leaf in zip(groups, leaves, strict=True) if leaf.done())
                    seen(sum(done), len(items))

            self._await(last, look)
            return in_pairs(self.client.gather(last), merge)

        return self._surely(once)

    def _leaves(self, name: str, function: Callable[..., Any], items: Sequence[tuple], shared: tuple) -> list[Any]:
        columns = [*map(list, zip(*items, strict=True)), *([each] * len(items) for each in shared)]
        return self._submit(name, function, *columns)

    def _submit(self, name: str, function: Callable[..., Any], *arguments: list[Any], priority: int = 0) -> list[Any]:
        """Submit a task for each place in the lists of arguments, in one message, and return the futures."""
        import dask
        from distributed import Future

        packed = [[each if isinstance(each, Future) else Packed(pickled(each)) for each in part] for part in arguments]
        keys = [f"{name}-{uuid.uuid4().hex}" for _ in arguments[0]]
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.client.map(_call, [function] * len(keys), *packed, key=keys, pure=False, priority=priority)

    def _await(self, futures: list[Any], look: Callable[[], None] = lambda: None) -> None:
        """Wait until all futures are done, and call ``look`` now and then.

        Raise an error if there are no workers for too long.
        """
        from distributed import wait

        self.count = self._threads()  # the scheduler takes milliseconds to answer: it does so while workers compute
        last, said = time.monotonic(), False
        """The time when there last was a worker, and whether the warning about missing workers was given."""
        while True:
            if self.stop():
                raise StoppedError("stopped before the model was learned")
            try:
                wait(futures, timeout=0.5)
            except TimeoutError:
                look()
                last = time.monotonic() if self.client.nthreads() else last
                said = self._say_alone(time.monotonic() - last, said)
            else:
                return look()

    def _say_alone(self, seconds: float, said: bool) -> bool:
        """Warn once that there have been no workers for this time, and raise an error in the end.

        A cluster that grows with its tasks starts without workers.
        """
        import dask
        from dask.utils import parse_timedelta

        patience = parse_timedelta(dask.config.get(PATIENCE, "10 minutes"))
        alone = f"the Dask scheduler at {self.client.scheduler.address} has no workers"
        if seconds > patience:
            raise RuntimeError(f"{alone}, and none joined within {patience:g} s ({PATIENCE} in Dask's configuration).")
        if seconds > SILENT and not said:
            warn(f"{alone}: waiting for one, {patience:g} s at most.")
        return seconds > SILENT

    def _surely(self, work: Callable[[], Any]) -> Any:
        """Return the result of the work, which is tried again if tasks lost several workers.

        Dask runs the tasks of a lost worker again, but gives up on a task that lost several workers, which may be
        chance.
        """
        from concurrent.futures import CancelledError

        from distributed import KilledWorker
        from distributed.client import ClosedClientError
        from distributed.comm import CommClosedError

        for _ in range(TRIES):
            try:
                return work()
            except KilledWorker as error:
                lost = error
            except (CancelledError, ClosedClientError, CommClosedError) as error:
                why = (str(error).splitlines() or [""])[0].rstrip(":")
                raise RuntimeError(f"the Dask scheduler or the client was closed: {why}.") from error
        raise RuntimeError(f"workers were lost repeatedly, perhaps for lack of memory: {lost}") from lost


@dataclass(frozen=True)
class Packed:
    """Bytes that each task unpacks for itself: no two tasks share an array, and all arrays may be written to."""

    content: bytes

    def __sizeof__(self) -> int:
        return len(self.content)


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    if function is _itself:
        return arguments[0]
    return function(*(pickle.loads(each.content) if isinstance(each, Packed) else each for each in arguments))


def _several(function: Callable[..., Any], merge: Merge, shape: tuple[int, int, int], *arguments: Any) -> Any:
    """Return the parts of some items, merged into one.

    Dask finds futures among the arguments of a task, not inside of them.  So the arguments are the fields of the items,
    one after the other, then those that all tasks share.  ``shape`` has the number of items, of the fields of each, and
    of the items that there is room for.
    """
    count, width, room = shape
    items = [arguments[first : first + width] for first in range(0, count * width, width)]
    return in_pairs(function(items, *arguments[room * width :]), merge)


def _itself(what: Any) -> Any:
    """Return the packed data, for data that is held."""
    return what


def pickled(what: Any) -> bytes:
    """Return any object as bytes, including objects of classes and functions that a script defines."""
    try:
        import cloudpickle
    except ImportError:  # without Dask; joblib has its own copy
        from joblib.externals import cloudpickle

    return cloudpickle.dumps(what)


@runtime_checkable
class Client(Protocol):
    """A client of a Dask cluster."""

    def submit(self, *arguments: Any, **named: Any) -> Any: ...

    def scheduler_info(self) -> dict[str, Any]: ...


@contextmanager
def executor(client: Any = None, stop: Callable[[], bool] = bool, n_jobs: int | None = None) -> Iterator[Here | OnDask]:
    """Yield the executor for ``client``.

    ``client`` is a Dask client, the address of a scheduler, or "local:4" for four processes on this machine, which last
    as long as this context.  None means ``n_jobs`` threads of this process.  ``stop`` is called while the executor
    waits for workers.
    """
    if client is None:
        yield Here(n_jobs)
    elif not isinstance(client, str):
        if not isinstance(client, Client):
            raise ValueError(
                f"client={client!r}: it must be a dask.distributed Client, an address such as 'tcp://host:8786', "
                "'local:4', or None for this process."
            )
        yield OnDask(client, stop)
    else:
        dask_distributed()
        with _silent():
            yield from _reached(client, stop)


def _reached(client: str, stop: Callable[[], bool]) -> Iterator[OnDask]:
    """Yield an executor on the cluster at an address, or on a new cluster on this machine."""
    import dask
    import distributed

    if client.partition(":")[0] != "local":
        try:
            own = distributed.Client(client, timeout="10s")
        except (OSError, ValueError) as error:
            raise ValueError(f"{client!r}: no Dask scheduler answers there: {error}") from None
        with own:
            yield OnDask(own, stop)
        return
    count = client.partition(":")[2]
    if not (count.isdecimal() and int(count) > 0):
        raise ValueError(f"{client!r}: give a number of processes, for instance local:4.")
    environment = dask.config.get("distributed.nanny.pre-spawn-environ") | _MEMORY
    with _deaf(), dask.config.set({"distributed.nanny.pre-spawn-environ": environment}):
        cluster = distributed.LocalCluster(
            n_workers=int(count), threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        )
    with cluster, distributed.Client(cluster) as own:
        yield OnDask(own, stop)


@contextmanager
def _silent() -> Iterator[None]:
    """Suppress the log messages of Dask to the end, above all its tracebacks of lost connections.

    Exceptions report them.
    """
    from distributed.utils import silence_logging_cmgr

    with silence_logging_cmgr(logging.CRITICAL), silence_logging_cmgr(logging.CRITICAL, "distributed.client"):
        yield


@contextmanager
def _deaf() -> Iterator[None]:
    """Block Ctrl-C for threads and processes that start in this context; a terminal sends it to all processes.

    The process that started them ends them.  A Ctrl-C that comes meanwhile is handled at the end.
    """
    if sys.platform == "win32":
        yield
        return
    from multiprocessing.resource_tracker import ensure_running

    ensure_running()  # its start would unblock the signals again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def dask_distributed() -> Any:
    """Return the package ``distributed``; raise an ImportError with the command to install it."""
    try:
        import distributed
    except ImportError:
        raise ImportError("dask.distributed is not installed: pip install 'sparsco[distributed]'") from None
    return distributed
