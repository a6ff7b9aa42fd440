"""Dispatch of records in compiled code: the only mechanism by which a loss or a penalty reaches a kernel.

A *part* is a ``NamedTuple`` record whose functions are on its class (``Logistic.derivative``).  A function declared
with :func:`dispatched` calls the method of the same name.  In plain Python this happens at run time, inside a compiled
kernel at compile time, by the record's type.  The record's values stay run-time data, so a new ``lam`` needs no
compilation.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numba
import numpy as np
from numba import njit
from numba.extending import overload

from ..util.atomic_files import replacing
from ..util.notices import warn
from ..util.sources import kernels_hash
from .pipelines import CONSTANTS, PACKAGE, class_of, is_ours_by_module, options

OPTIONS = options()

_DIGEST = hashlib.sha256().digest_size
_ELSE = "every process compiles it again, which takes seconds; install an older numba, or a newer sparsco."
_ANEW = "every process compiles it again, which takes seconds; set NUMBA_CACHE_DIR to a folder that can be written to."

U = np.uint64
"""The type of unsigned indices: numba then omits the test for negative indices, which costs 60% in a sparse kernel."""


def dispatched(stub: Callable[..., Any], *default: Callable[..., Any]) -> Callable[..., Any]:
    """Make ``stub`` call the method of its name on its first argument's class, compiled or not."""
    name = stub.__name__

    @functools.wraps(stub)
    def call(record: Any, *args: Any) -> Any:
        return getattr(type(record), name, *default)(record, *args)

    @overload(call, strict=False, jit_options=OPTIONS.inner)
    def _compiled(record: Any, *args: Any) -> Any:
        return getattr(class_of(record), name, *(default or (None,)))

    return call


def optional(stub: Callable[..., Any]) -> Callable[..., Any]:
    """Make ``stub`` dispatched, and use ``stub`` itself as the default for a class that lacks the method."""
    return dispatched(stub, stub)


def constant(stub: Callable[..., Any]) -> Callable[..., Any]:
    """Make ``stub`` dispatched, for a number that depends on the record's class alone.

    Kernels get the number before they are compiled, and drop the branches that it excludes.
    """
    call = optional(stub)
    CONSTANTS.add(call)
    return call


def cast(record: Any) -> Any:
    """Return the record with every number a float64, so that ``L1(1)`` and ``L1(1.0)`` share one compiled kernel."""
    if isinstance(record, tuple):
        return type(record)(*(cast(field) for field in record))
    if isinstance(record, np.ndarray):
        return np.ascontiguousarray(record, dtype=np.float64)
    return record if record is None else float(record)


def _are_ours(arguments: Iterable[Any]) -> bool:
    """Return whether all records among the arguments, and in them, are our own."""
    for each in arguments:  # a loop: every call of a kernel comes here
        if isinstance(each, tuple) and not (is_ours_by_module(type(each)) and (not each or _are_ours(each))):
            return False
    return True


class _Cache:
    """The compiled code of one function on disk: a file per signature, in a folder per version of our sources.

    There is no index that processes could overwrite for each other.  A file is a SHA-256 and the data it covers, so
    that damaged code is never run.  Any problem with the cache leads to compilation, with one warning per process.
    numba calls the methods without an underscore, and reads ``cache_path``.
    """

    cache_path = None
    warned: ClassVar[set[str]] = set()
    """The kinds of problems that were reported."""

    def __init__(self, py_func: Any) -> None:
        from . import cache_hooks  # imported here, since an unknown numba may lack the internals

        self._py_func, self.hooks = py_func, cache_hooks
        if not os.path.exists(py_func.__code__.co_filename):
            raise OSError("the sources of sparsco are in an archive")
        self.folder = Path(_cache_root(cache_hooks.users_folder()), f"{PACKAGE}-{kernels_hash()}")

    def place(self, key: Any) -> Path:
        """Return the path of a signature's file; it differs for each version of Python and numba, and each pipeline."""
        function, compiler = self._py_func, (sys.version_info[:2], numba.__version__, OPTIONS.pipeline)
        name = f"{function.__module__}.{function.__name__}"
        what = repr((function.__qualname__, function.__code__.co_firstlineno, *compiler, key))
        return self.folder / f"{name}.{hashlib.sha256(what.encode()).hexdigest()[:24]}.nbc"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code for a signature, or None if there is none that can be used."""
        try:
            self.hooks.start_runtime(target_context)
            key = self.hooks.key_of(self, sig, target_context.codegen())
            path = self.place(key)
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        except Exception as error:
            return self._warn_useless(error)
        try:
            if hashlib.sha256(memoryview(raw)[_DIGEST:]).digest() != raw[:_DIGEST]:
                raise ValueError("its checksum is wrong")
            stored, data = pickle.loads(memoryview(raw)[_DIGEST:])
            return self.hooks.rebuilt(target_context, data) if stored == key else None
        except Exception as error:
            return self._warn("damaged", f"{path} cannot be used ({error}): it is compiled again and replaced.")

    def save_overload(self, sig: Any, cres: Any) -> None:
        """Save the compiled code for a signature, if that is possible."""
        try:
            if not self.hooks.can_be_kept(cres):
                return
            key = self.hooks.key_of(self, sig, cres.codegen)
            raw = self.hooks.as_bytes(key, cres)
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(self.place(key), lasting=False) as file:
                file.write(hashlib.sha256(raw).digest())
                file.write(raw)
        except Exception as error:
            self._warn_useless(error)

    def enable(self) -> None:
        """Do nothing: the cache is always enabled."""

    def disable(self) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing: changed sources use another folder."""

    def _warn_useless(self, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or error
        self._warn("useless", f"compiled code cannot be kept in {self.folder} ({reason}): {_ANEW}")

    @classmethod
    def _warn(cls, kind: str, sentence: str) -> None:
        if kind not in cls.warned:
            cls.warned.add(kind)
            warn(sentence, RuntimeWarning)


def _cache_root(users_folder: str) -> str:
    """Return NUMBA_CACHE_DIR where the user set it, else numba's own folder below the home; OSError without one."""
    root = os.path.expanduser(numba.config.CACHE_DIR or users_folder)
    if root.startswith("~"):
        raise OSError("this user has no home folder")
    return root


def _raised_by_handler(error: BaseException) -> BaseException:
    """Return the exception of a signal handler in a call that ended with a SystemError, or the error itself.

    Arrays that a kernel returns are made by numba's C code, which calls Python.  A signal that arrived while the kernel
    ran is handled there, and the exception of its handler is not checked.  Ctrl-C then becomes the cause of "returned a
    result with an exception set".
    """
    while isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
    return error


class Kernel:
    """A compiled function that is cached on disk, except for calls with a record of the user.

    A user's record in the disk cache would be stale after an edit, and would fail in every process that cannot import
    the user's module.  Such calls use a second version that is compiled again in each process.
    """

    plain = False

    def __init__(self, function: Callable[..., Any], allocates: bool) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.allocates = function, allocates

    @functools.cached_property
    def cached(self) -> Any:
        """Return the version compiled with our own records, on first use: a process needs few kernels of many."""
        is_ours = is_ours_by_module(self.py_func)
        compiled = njit(**OPTIONS.allocating if self.allocates or not is_ours else OPTIONS.kernel)(self.py_func)
        if is_ours:  # the cache is keyed by our sources, which do not include a user's function
            try:
                compiled._cache = _Cache(self.py_func)
            except OSError as error:
                _Cache._warn("useless", f"compiled code cannot be kept ({error}): {_ANEW}")
            except ImportError as error:
                _Cache._warn(
                    "useless",
                    f"numba {numba.__version__} lacks the functions that store compiled code ({error}): {_ELSE}",
                )
        return compiled

    @functools.cached_property
    def uncached(self) -> Any:
        """Return the version that is not cached on disk."""
        return njit(**OPTIONS.allocating)(self.py_func)

    def __call__(self, *args: Any) -> Any:
        if Kernel.plain:
            return self.py_func(*args)
        try:
            return (self.cached if _are_ours(args) else self.uncached)(*args)
        except SystemError as error:
            raise _raised_by_handler(error) from None

    def __reduce__(self) -> str:
        return self.__qualname__  # type: ignore[attr-defined]


@contextlib.contextmanager
def plain_python() -> Iterator[None]:
    """Run every kernel inside this context as plain Python: slow, without compilation, with the same results."""
    before, Kernel.plain = Kernel.plain, True
    try:
        yield
    finally:
        Kernel.plain = before


def kernel(function: Callable[..., Any]) -> Kernel:
    """Compile ``function`` on first use; ``.py_func`` is the same function in plain Python.

    All arrays come from outside, so code that counts references to them is omitted.
    """
    return Kernel(function, allocates=False)


def allocating_kernel(function: Callable[..., Any]) -> Kernel:
    """Compile ``function`` on first use, for a function that allocates arrays."""
    return Kernel(function, allocates=True)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a helper function unchanged, and register it for compilation inside kernels that call it.

    It must not allocate or return an array, since it does not count references.
    """

    @overload(function, strict=False, jit_options=OPTIONS.inner)
    def _compiled(*args: Any) -> Any:
        return function

    return function
