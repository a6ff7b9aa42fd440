"""The threads of BLAS, which multiplies dense matrices for NumPy."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS works on one thread.

    Threads of BLAS change the last digits, and wait for each other longer than they work on small matrices.  Nothing is
    set where BLAS has one thread already: to set and restore it takes as long as a small product.
    """
    blas = _blas()
    return nullcontext() if all(each.num_threads == 1 for each in blas.lib_controllers) else blas.limit(limits=1)


@functools.cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
