"""The parts of numba's internals that the disk cache of kernels uses, with either pipeline.

They are the same from numba 0.61 to 0.68.  If a later version differs, this module is the place for both variants.
"""

from __future__ import annotations

from typing import Any

from numba.core.caching import FunctionCache
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs


def key_of(cache: Any, signature: Any, codegen: Any) -> Any:
    """Return the key of compiled code: signature, processor, bytecode of the function ``cache._py_func``."""
    return FunctionCache._index_key(cache, signature, codegen)


def start_runtime(target_context: Any) -> None:
    """Start the runtime of compiled code, not the whole compiler, which takes a fifth of a second."""
    rtsys.initialize(target_context)


def can_be_kept(result: Any) -> bool:
    """Return whether compiled code holds no addresses of this process."""
    return not (result.lifted or result.library.has_dynamic_globals)


def as_bytes(key: Any, result: Any) -> bytes:
    """Return the key and the compiled code as a pickle."""
    return dumps((key, result._reduce()))


def rebuilt(target_context: Any, data: Any) -> Any:
    """Return compiled code that `as_bytes` reduced."""
    return CompileResult._rebuild(target_context, *data)


def users_folder() -> str:
    """Return the folder in which numba keeps compiled code of this user."""
    return AppDirs(appname="numba", appauthor=False).user_cache_dir
