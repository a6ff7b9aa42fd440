"""The command line ``sparsco``: each command is one module here that calls the library and prints the result.

Exit codes: 0 success; 1 the result is not as expected (a cell differs for no known reason); 2 a bad argument, bad or
missing input; 3 a file could not be read or written; 4 a computation failed (training diverged, a worker process was
killed); 130 interrupted; 143 terminated.  Results go to stdout, progress and errors to stderr.
"""

from __future__ import annotations

import argparse
import errno
import gc
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import Any

from .. import __version__
from ..util.notices import in_shell
from . import bench, compare, convert, datasets, evaluate, export, inspect, path, predict, reproduce, train
from .options import BAD_FILE, BAD_INPUT, FAILED, FINE, INTERRUPTED, TERMINATED
from .standard_streams import open_standard_streams


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters
    parser = _parser()
    try:
        try:
            parsed = parser.parse_args(arguments)
        except SystemExit:
            sys.stdout.flush()  # the help
            raise
        if "run" not in parsed:
            parser.print_help()
        code = parsed.run(parsed) if "run" in parsed else BAD_INPUT
        sys.stdout.flush()
        return code
    except BaseException as error:
        return _code_of(error)


def _code_of(error: BaseException) -> int:
    """Print an error message and return its exit code; raise the error again if it is a bug of the package."""
    if _asked and not isinstance(error, SystemExit | KeyboardInterrupt):  # an error that the interrupt caused
        error = KeyboardInterrupt()
    if isinstance(error, KeyboardInterrupt):
        number = _asked[-1] if _asked else signal.SIGINT
        return _complain(str(error) or ("interrupted" if number == signal.SIGINT else "terminated"), 128 + number)
    if isinstance(error, BrokenPipeError):  # the reader of our output has ended, e.g. `| head`
        return FINE
    if isinstance(error, FileNotFoundError) and error.filename:
        return _complain(f"there is no file {error.filename}.", BAD_INPUT)
    if isinstance(error, ValueError | FileNotFoundError):
        return _complain(str(error), BAD_INPUT)
    if isinstance(error, OSError):
        is_output = error.errno in (errno.ENOSPC, errno.EFBIG, errno.EBADF)  # writers and readers of files name them
        where = f"{error.filename or 'standard output'}: " if error.filename or is_output else ""
        return _complain(f"{where}{error.strerror or error}", BAD_FILE)
    if isinstance(error, ArithmeticError | MemoryError | RuntimeError):
        return _complain(str(error), FAILED)
    raise error


def run() -> None:
    """Run the process; after an interruption it ends soon, even if threads still wait.

    Most objects of a short run belong to modules and are never garbage.  A garbage collection while modules are loaded,
    and again at the end, would take a fifth of the time.
    """
    gc.set_threshold(200_000)
    open_standard_streams()
    warnings.showwarning, sys.unraisablehook = _warn, _end_again
    try:
        _handle(_end)
        code = main()
        _handle(signal.SIG_DFL)  # nothing is left to clean up
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else FINE if stop.code is None else BAD_INPUT
    except KeyboardInterrupt as stop:
        code = _code_of(stop)
    try:
        sys.stdout.flush()
    except OSError:  # was reported; Python tries again at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if code in (FAILED, INTERRUPTED, TERMINATED):
        others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
        for thread in others:
            thread.join(timeout=2.0)
        if any(thread.is_alive() for thread in others):
            os._exit(code)
    gc.freeze()
    sys.exit(code)


_asked: list[int] = []
"""The signals to end that this process has received."""


def _handle(handler: Any) -> None:
    """Set the handler of Ctrl-C and SIGTERM, unless the parent process had them ignored."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


class _EndedError(KeyboardInterrupt):
    """An interrupt by Ctrl-C or SIGTERM in a command that does not handle it itself."""


def _end(number: int, frame: Any) -> None:
    _asked.append(number)
    raise _EndedError


def _end_again(unraised: Any) -> None:
    """Raise the interrupt once more if Python ignored it, as in a callback of its import system."""
    if sys.platform == "win32" or not isinstance(unraised.exc_value, _EndedError):
        return sys.__unraisablehook__(unraised)
    signal.signal(signal.SIGALRM, lambda _, frame: _end(_asked[-1], frame))
    signal.setitimer(signal.ITIMER_REAL, 0.001)  # when this has returned


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning without the place in the code that it comes from."""
    print(f"sparsco: {in_shell(str(message))}", file=sys.stderr)


def _complain(sentence: str, code: int) -> int:
    print(f"sparsco: {in_shell(sentence)}", file=sys.stderr)
    return code


class _Version(argparse.Action):
    """Print the versions of the package, of Python and of numba, without importing numba."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        import platform

        from ..jit.pipelines import chosen, numba_version

        numba = f"numba {numba_version()} ({chosen()} pipeline)"
        print(f"sparsco {__version__}, Python {platform.python_version()}, {numba}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sparsco",
        description="Exactly sparse linear models by stochastic composite optimization.",
        epilog="`sparsco COMMAND --help` shows a worked example.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show versions and the pipeline, and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for module in (train, path, predict, evaluate, inspect, export, convert, compare, reproduce, datasets, bench):
        module.add(commands)
    return parser
