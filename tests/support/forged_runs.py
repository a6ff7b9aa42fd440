"""Commands on forged files, in processes of bounded memory and time, forked from one in which all code is loaded."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from sparsco import cli

MOST_SECONDS = 30.0
_MEGABYTE = 1 << 20
FINE, REFUSED, TRACEBACK, MEMORY = "accepted", "refused", "traceback", "memory"
_CODES = {FINE: 10, REFUSED: 11, TRACEBACK: 12, MEMORY: 13}


class Outcome(NamedTuple):
    """The end of one case: what happened, and what was printed."""

    case: Any
    what: str
    said: str
    seconds: float


def growth_of(action: Callable[[], None], folder: Path) -> int:
    """Return by how many bytes a valid run makes a process grow; raise an AssertionError if it fails."""
    (outcome,) = run([("valid", lambda: None, lambda: _told(action), 1 << 40)], folder)
    assert outcome.what == FINE, outcome
    return int(outcome.said.rpartition("grew by ")[2].split()[0])


def _told(action: Callable[[], None]) -> None:
    before = _virtual("VmSize")
    action()
    print("grew by", _virtual("VmPeak") - before)


def run(
    cases: Iterable[tuple[Any, Callable[[], Any], Callable[[], None], int]], folder: Path, at_once: int = 2
) -> list:
    """Run cases (name, preparation, action, bytes that it may grow by), each in a process of its own."""
    waiting, under_way, outcomes = iter(cases), {}, []
    while True:
        while len(under_way) < at_once and (case := next(waiting, None)) is not None:
            name, prepare, action, most = case
            prepare()
            log = folder / f"log-{len(outcomes)}-{len(under_way)}-{time.monotonic_ns()}"
            under_way[_forked(action, most, log)] = name, log, time.monotonic()
        if not under_way:
            return outcomes
        for pid in list(under_way):
            ended, status = os.waitpid(pid, os.WNOHANG)
            name, log, began = under_way[pid]
            seconds = time.monotonic() - began
            if not ended and seconds > MOST_SECONDS:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                status = None
            elif not ended:
                continue
            del under_way[pid]
            outcomes.append(Outcome(name, _named(status), log.read_text(errors="replace"), seconds))
            log.unlink()
        time.sleep(0.002)


def _named(status: int | None) -> str:
    if status is None:
        return "endless"
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    code = os.WEXITSTATUS(status)
    return next((name for name, number in _CODES.items() if number == code), f"exit {code}")


def _forked(action: Callable[[], None], most: int, log: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = TRACEBACK
    try:  # the child, which never returns
        file = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        size = _virtual("VmSize") + most
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
        code = _outcome(action)
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(_CODES[code])


def _outcome(action: Callable[[], None]) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            action()
    except MemoryError:
        traceback.print_exc()
        return MEMORY
    except RefusedError as error:
        print(error)
        return MEMORY if "memory" in str(error).lower() or "allocate" in str(error) else REFUSED
    except BaseException:
        traceback.print_exc()
        return TRACEBACK
    return FINE


class RefusedError(Exception):
    """A sentence that a command ended with."""


def _virtual(name: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name + ":"))
    return int(line.split()[1]) * 1024


def command(*arguments: Any) -> None:
    """Run a command of the shell; raise RefusedError with its sentence, or the error if it would print a traceback."""
    as_in_shell(lambda: cli.main([str(argument) for argument in arguments]))


def as_in_shell(action: Callable[[], Any]) -> None:
    """Do something; raise RefusedError with the sentence of an error that has one."""
    said: list[str] = []
    before, cli._complain = cli._complain, lambda sentence, code: said.append(sentence) or code
    try:
        try:
            code = action()
        except Exception as error:
            code = cli._code_of(error)
    finally:
        cli._complain = before
    if code:
        raise RefusedError(*said)
