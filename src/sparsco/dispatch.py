"""Records into compiled code: the one mechanism by which a loss or a regularizer reaches a kernel.

A *part* is a ``NamedTuple`` record whose functions live on its class (``Logistic.derivative``).  A function declared
with :func:`dispatched` calls the method of the same name: in plain Python at run time, inside a compiled kernel at
compile time, by the record's type.  The record's values stay run-time data, so a new ``lam`` compiles nothing.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import njit
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    UserWideCacheLocator,
)
from numba.core.runtime import rtsys
from numba.extending import overload

from .compiler import CONSTANTS, FLAGS, INNER, PACKAGE, class_of, is_ours_by_module

U = np.uint64
"""Unsigned index: numba leaves out the test for negative indices, which costs 60% in a sparse kernel."""


def dispatched(stub: Callable[..., Any], *default: Callable[..., Any]) -> Callable[..., Any]:
    """Make ``stub`` call the method of its name on its first argument's class, compiled or not."""
    name = stub.__name__

    @functools.wraps(stub)
    def call(record: Any, *args: Any) -> Any:
        return getattr(type(record), name, *default)(record, *args)

    @overload(call, strict=False, jit_options=INNER)
    def _compiled(record: Any, *args: Any) -> Any:
        return getattr(class_of(record), name, *(default or (None,)))

    return call


def optional(stub: Callable[..., Any]) -> Callable[..., Any]:
    """The same, where a class that lacks the method means what ``stub`` itself says."""
    return dispatched(stub, stub)


def constant(stub: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a number that the class alone decides: kernels know it before they are compiled, and drop branches
    that never come."""
    call = optional(stub)
    CONSTANTS.add(call)
    return call


def cast(record: Any) -> Any:
    """The record with every number a float64, so that ``L1(1)`` and ``L1(1.0)`` share one compiled kernel."""
    if isinstance(record, tuple):
        return type(record)(*(cast(field) for field in record))
    if isinstance(record, np.ndarray):
        return np.ascontiguousarray(record, dtype=np.float64)
    return record if record is None else float(record)


def _is_ours(argument: Any) -> bool:
    return not isinstance(argument, tuple) or (is_ours_by_module(type(argument)) and all(map(_is_ours, argument)))


@functools.cache
def source_hash() -> str:
    """A hash over every source file of the package: compiled code is kept under it, so it can never be stale."""
    digest = hashlib.sha256(numba.__version__.encode())
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class _Locator(UserWideCacheLocator):
    """One folder per version of our sources, below NUMBA_CACHE_DIR where the user set it."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        root = numba.config.CACHE_DIR or os.path.dirname(self._cache_path)
        self._cache_path = os.path.join(root, f"{PACKAGE}-{source_hash()}")

    def get_source_stamp(self) -> str:
        return source_hash()


class _Impl(CompileResultCacheImpl):
    _locator_classes = [_Locator]


class _OneFilePerSignature(IndexDataCacheFile):
    """No shared index: processes that compile at the same time cannot overwrite each other's entries."""

    def _name(self, key: Any) -> str:
        return f"{self._index_name}.{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.nbc"

    def save(self, key: Any, data: Any) -> None:
        self._save_data(self._name(key), (self._source_stamp, key, data))

    def load(self, key: Any) -> Any:
        try:
            stamp, stored, data = self._load_data(self._name(key))
        except (OSError, EOFError):
            return None
        return data if (stamp, stored) == (self._source_stamp, key) else None


class _Cache(FunctionCache):
    _impl_class = _Impl

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        file = self._cache_file
        self._cache_file = _OneFilePerSignature(file._cache_path, self._impl.filename_base, file._source_stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What is compiled needs numba's runtime alone, not all that numba knows to compile: a fifth of a second."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


class Kernel:
    """A compiled function that is cached on disk, except when a record of the user's takes part.

    A user's record in the disk cache would be served stale after an edit, and would break every process that cannot
    import the user's module: such calls go through a twin that is compiled anew in each process.
    """

    plain = False

    def __init__(self, function: Callable[..., Any], allocates: bool) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.allocates = function, allocates

    @functools.cached_property
    def cached(self) -> Any:
        """What is compiled with our own records; made when first needed, as a process needs a few kernels of many."""
        is_ours = is_ours_by_module(self.py_func)
        compiled = njit(**FLAGS, _nrt=self.allocates or not is_ours)(self.py_func)
        if is_ours:  # the cache is keyed by our sources, which do not know a user's function
            with contextlib.suppress(RuntimeError):  # no writable folder: compile in every process
                compiled._cache = _Cache(self.py_func)
        return compiled

    @functools.cached_property
    def uncached(self) -> Any:
        """The twin."""
        return njit(**FLAGS)(self.py_func)

    def __call__(self, *args: Any) -> Any:
        if Kernel.plain:
            return self.py_func(*args)
        return (self.cached if all(map(_is_ours, args)) else self.uncached)(*args)

    def __reduce__(self) -> str:
        return self.__qualname__  # type: ignore[attr-defined]


@contextlib.contextmanager
def plain_python() -> Iterator[None]:
    """Inside, every kernel runs as the plain Python it is written in: slow, nothing compiled, the same results."""
    before, Kernel.plain = Kernel.plain, True
    try:
        yield
    finally:
        Kernel.plain = before


def kernel(function: Callable[..., Any]) -> Kernel:
    """Compile ``function`` on first use; ``.py_func`` is the same function in plain Python.  Arrays come from outside:
    code that counts references to them is left out."""
    return Kernel(function, allocates=False)


def allocating_kernel(function: Callable[..., Any]) -> Kernel:
    """One that makes arrays itself."""
    return Kernel(function, allocates=True)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A helper: itself in plain Python, compiled where a kernel calls it.  It returns no array: it may be
    called by kernels that count references and by others."""

    @overload(function, strict=False, jit_options=INNER)
    def _compiled(*args: Any) -> Any:
        return function

    return function
