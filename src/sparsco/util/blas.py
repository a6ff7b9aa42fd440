"""The threads of BLAS, which multiplies dense matrices for NumPy."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS works on one thread.

    Threads of BLAS change the last digits, and wait for each other longer than they work on small matrices.
    """
    return _controller().limit(limits=1)


@functools.cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
