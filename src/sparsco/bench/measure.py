"""Measurements of time and memory, and a description of the machine."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import __version__
from ..util.folders import cores


class Taken(NamedTuple):
    """CPU seconds of all threads of this process, and wall-clock seconds."""

    cpu: float
    wall: float


def timed(job: Callable[[], Any]) -> tuple[Taken, Any]:
    """Return the times of a job, and its result."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = job()
    return Taken(time.process_time() - cpu, time.perf_counter() - wall), result


def check_clock() -> None:
    """Raise a ValueError if this process has a limit on CPU time, with which Linux counts CPU time in ticks of some ms.

    The minimum of several measurements is then too small, by up to a tick.
    """
    if resource.getrlimit(resource.RLIMIT_CPU)[0] != resource.RLIM_INFINITY:
        raise ValueError("a limit on CPU time (ulimit -t) makes the clock of CPU time inexact: measure without it.")


class LimitError(Exception):
    """An error for a job that took too long."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Interrupt what runs in this context after some CPU seconds of this process, with a LimitError.

    A call into compiled code ends first.  There is no limit if the seconds are infinite, and none on Windows.  Signals
    come by the clock and look at the CPU time.  A timer of CPU time would spoil measurements: while one is set, Linux
    counts CPU time in ticks of some ms, and a short job takes none.
    """
    if not seconds < np.inf or sys.platform == "win32":
        yield
        return
    begun = time.process_time()

    def look(*_: Any) -> None:
        if time.process_time() - begun >= seconds:
            raise LimitError(f"not done within {seconds:g} CPU seconds")

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, seconds, max(seconds / 20.0, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def taken(job: Callable[[], Any]) -> Taken:
    """Return the times of a job."""
    return timed(job)[0]


def spread(seconds: list[float]) -> dict[str, float]:
    """Return minimum, median, maximum and number of repeated measurements.

    >>> spread([3.0, 1.0, 2.0])
    {'min': 1.0, 'median': 2.0, 'max': 3.0, 'count': 3}
    """
    return {"min": min(seconds), "median": float(np.median(seconds)), "max": max(seconds), "count": len(seconds)}


def fastest(jobs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return CPU seconds of each job, the minimum over interleaved rounds; a first round, not counted, compiles.

    A job that measures itself returns its seconds as a float.  The order changes from round to round.  A job runs up to
    a third slower right after certain others, probably because of the core's clock; a fixed order would favour some.
    """
    rng = np.random.default_rng(0)
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(rounds + 1):
        print(f"round {number} of {rounds}", file=sys.stderr)
        for name in rng.permutation(list(jobs)):
            spent, own = timed(jobs[name])
            if number:
                times[name].append(own if isinstance(own, float) else spent.cpu)
    return {name: min(spent) for name, spent in times.items()}


# --- memory -----------------------------------------------------------------------------------------------------------


def peak_memory(task: dict[str, Any]) -> float:
    """Return the megabytes that a fit takes beyond the rows, measured in its own process (``isolated_fit``).

    A first fit on a few rows has loaded and compiled everything.
    """
    done = subprocess.run(
        [sys.executable, "-m", "sparsco.bench.isolated_fit"],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        env=environment(),
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"a process ended with {done.returncode}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def environment() -> dict[str, str]:
    """Return the environment of a process that imports the same sources as this one."""
    root = str(Path(__file__).parents[2])
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}


def memory_of(job: Callable[[], Any]) -> float:
    """Return the largest growth of this process in megabytes while a job runs."""
    trim()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux: resets the peak memory
    before = resident()
    job()
    return max(_highest() - before, 0.0) / 1e6


def trim() -> None:
    """Return freed memory to the system, where glibc is used: it then counts again when it is reused."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def resident() -> float:
    """Return the memory of this process in bytes."""
    return _status("VmRSS") or _highest()


def _highest() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(name: str) -> float | None:
    """Return an entry of the process status in bytes; None if the system does not provide it."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024.0 * float(next(line for line in lines if line.startswith(name + ":")).split()[1])
    return None


# --- the machine ------------------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """Return the properties of the machine that the figures depend on, besides the packages."""
    processor = platform.processor()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line for line in lines if line.startswith("model name")).partition(":")[2].strip()
    return {
        "processor": processor,
        "cores": cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "sparsco": __version__,
        "threads": "one in each fit, as far as they obey",
    }


def load() -> float | None:
    """Return the load average of the last minute."""
    return None if sys.platform == "win32" else round(os.getloadavg()[0], 2)


def now() -> str:
    """Return the date and the time."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
