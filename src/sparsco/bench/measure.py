"""Time, memory and the machine they are taken on."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import __version__
from ..util.folders import cores


class Taken(NamedTuple):
    """Seconds of all threads of this process, and by the clock."""

    cpu: float
    wall: float


def timed(job: Callable[[], Any]) -> tuple[Taken, Any]:
    """What a job took, and what came out."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = job()
    return Taken(time.process_time() - cpu, time.perf_counter() - wall), result


def taken(job: Callable[[], Any]) -> Taken:
    """The times alone."""
    return timed(job)[0]


def spread(seconds: list[float]) -> dict[str, float]:
    """Of repeated measurements.

    >>> spread([3.0, 1.0, 2.0])
    {'min': 1.0, 'median': 2.0, 'max': 3.0, 'count': 3}
    """
    return {"min": min(seconds), "median": float(np.median(seconds)), "max": max(seconds), "count": len(seconds)}


def fastest(jobs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """CPU seconds of each job, the minimum over interleaved rounds; a first round, not counted, compiles.

    A job that measures itself returns its seconds as a float.  The order changes from round to round: a job runs up to
    a third slower right after certain others (the core's clock, it seems): a fixed order would favour some of them.
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
    """Megabytes that a fit takes beyond the rows, measured in a process of its own (``isolated_fit``).

    A first fit on a few rows has loaded and compiled whatever there is to load and compile.
    """
    root = str(Path(__file__).parents[2])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}
    done = subprocess.run(
        [sys.executable, "-m", "sparsco.bench.isolated_fit"], input=json.dumps(task), capture_output=True, text=True,
        env=environment,
    )  # fmt: skip
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"a process ended with {done.returncode}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def memory_of(job: Callable[[], Any]) -> float:
    """Megabytes that this process grows by at most while a job runs."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)  # glibc: what earlier jobs freed counts again when it is used again
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the highest mark starts again from here
    before = _resident()
    job()
    return max(_highest() - before, 0.0) / 1e6


def _resident() -> float:
    return _status("VmRSS") or _highest()


def _highest() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(name: str) -> float | None:
    """Bytes, where the system tells."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024.0 * float(next(line for line in lines if line.startswith(name + ":")).split()[1])
    return None


# --- the machine ------------------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """What the figures depend on beside the packages."""
    processor = platform.processor()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line for line in lines if line.startswith("model name")).partition(":")[2].strip()
    return {
        "processor": processor, "cores": cores(), "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(), "sparsco": __version__, "threads": "one in each fit, as far as they obey",
    }  # fmt: skip


def load() -> float | None:
    """Processes that wanted to run in the last minute, on average."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def now() -> str:
    """The date and the time."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
