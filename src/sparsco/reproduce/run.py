"""All trials of an experiment: results that are not on disk are computed, optionally by several processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from ..util.result_store import Stores, name_of
from . import problems
from .definition import INGREDIENTS, Experiment, Study
from .trial import Result, measure

Results = dict[tuple[str, str, str], list[Result]]
"""The result of each trial, by (study, setting, method)."""


class WorkerError(RuntimeError):
    """The error for a worker process that ended early."""


class Task(NamedTuple):
    """One trial on one setting: the methods that are still missing, and the names of their results."""

    study: int
    setting: str
    fields: dict[str, Any]
    methods: dict[str, dict[str, Any]]
    names: dict[str, str]
    at: tuple[int, ...]
    trial: int
    keeps_weights: bool
    cost: float


def results_of(experiment: Experiment, kept: Stores, workers: Workers, show: Callable[[float, float], None]) -> Results:
    """Return every trial of every setting, from disk if available; ``show`` gets the cost done and the total cost.

    Finished results are on disk, even after an error.  The numbers do not depend on the number of workers.
    """
    stores = [kept.of(study.key) for study in experiment.studies]
    tasks = [task for k, study in enumerate(experiment.studies) for task in _tasks(study, k)]
    missing = [left for task in tasks if (left := _without(task, stores[task.study].found)) is not None]
    total, done = sum(task.cost for task in missing), 0.0
    for task, results in workers.computed(missing):
        stores[task.study].put({task.names[method]: results[method] for method in task.names})
        done += task.cost
        show(done, total)
    out: Results = {}
    for task in tasks:
        study = experiment.studies[task.study]
        for method, name in task.names.items():
            out.setdefault((study.key, task.setting, method), []).append(stores[task.study].found[name])
    return out


def _tasks(study: Study, number: int) -> Iterator[Task]:
    for trial in range(study.trials):  # trials in the outer loop: early results cover all settings
        for setting in study.settings:
            fields, at, keeps = study.fields(setting), study.at(setting), study.keeps_weights
            data = problems.make(fields).data()
            methods = dict(study.methods)
            if trial > 0:  # the exact optimum is the same in every trial
                methods = {k: method for k, method in methods.items() if method.get("preset") != "exact"}
            names = {
                k: name_of(fields, data, at, trial, keeps, [method, *_ingredients(method, study)])
                for k, method in methods.items()
            }
            yield Task(number, setting, fields, methods, names, at, trial, keeps, study.cost(setting))


def _ingredients(method: dict[str, Any], study: Study) -> list[dict[str, Any]]:
    """Return the methods that a rounded model is made of."""
    return [study.methods[method[name]] for name in INGREDIENTS if name in method]


def _without(task: Task, found: dict[str, Any]) -> Task | None:
    """Return the task without the results on disk; None if all are there."""
    names = {method: name for method, name in task.names.items() if name not in found}
    wanted = {*names, *(task.methods[k][part] for k in names for part in INGREDIENTS if part in task.methods[k])}
    methods = {k: method for k, method in task.methods.items() if k in wanted}
    return task._replace(methods=methods, names=names, cost=task.cost * len(methods)) if names else None


def _compute(task: Task) -> dict[str, Result]:
    with threadpool_limits(1):  # the same sums for any number of cores
        return measure(task.fields, task.methods, task.at, task.trial, task.keeps_weights)


class Workers:
    """Processes that compute tasks; with one job, this process.  A context manager that ends the processes."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    def computed(self, tasks: list[Task]) -> Iterator[tuple[Task, dict[str, Result]]]:
        """Yield each task with its results, as they arrive."""
        try:
            yield from self._computed(tasks)
        except BrokenProcessPool as error:
            raise WorkerError(
                "a worker process ended, perhaps for lack of memory: the finished trials are kept, --resume continues, "
                "--jobs 1 needs the least memory."
            ) from error

    def _computed(self, tasks: list[Task]) -> Iterator[tuple[Task, dict[str, Result]]]:
        if self.jobs == 1:
            for task in tasks:
                yield task, _compute(task)
            return
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.jobs, context, initializer=_begin_worker, initargs=(os.getpid(),))
        with _born_without_interrupts():
            waiting: dict[Future[dict[str, Result]], Task] = {self._pool.submit(_compute, task): task for task in tasks}
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), future.result()

    def __enter__(self) -> Workers:
        """Handle SIGTERM so that the workers end with this process."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        return self

    def __exit__(self, kind: Any, *details: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._before)
        if self._pool is None:
            return
        if kind is not None:
            for process in list((self._pool._processes or {}).values()):
                process.kill()  # a running trial is abandoned, not awaited
        # nor is a message that a worker has partly sent
        self._pool.shutdown(wait=kind is None, cancel_futures=True)


@contextlib.contextmanager
def _born_without_interrupts() -> Iterator[None]:
    """Block Ctrl-C in the processes that are started in the block, which it could hit in their first imports."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker(parent: int) -> None:
    """Prepare a worker: it ignores Ctrl-C, which the parent handles, and exits when the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
