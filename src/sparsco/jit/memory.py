"""Bytes at addresses in compiled code: texts are read through these, without an array for each.

A helper with an array argument and a loop costs atomic reference counts at every call; an address does not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from .dispatch import OPTIONS, U

PADDING = 64
"""The bytes after a text that may be read, with any contents."""
BYTE, WORD = ir.IntType(8), ir.IntType(64)


def padded(raw: bytes) -> memoryview:
    """Return a text in memory of its own, with padding behind it."""
    return memoryview(raw + bytes(PADDING))[: len(raw)]


def primitive(result: Any, emit: Callable[[Any, Any], Any]) -> Callable[[Callable[[Any], Any]], Any]:
    """Return a decorator for a function of one word: plain Python as written, compiled to the code of ``emit``."""

    @intrinsic
    def built(typing: Any, x: Any) -> Any:
        return result(types.uint64), lambda context, builder, signature, args: emit(builder, args[0])

    def decorate(function: Callable[[Any], Any]) -> Any:
        @overload(function, strict=False, jit_options=OPTIONS.inner)
        def _compiled(x: Any) -> Any:
            return lambda x: built(x)

        return function

    return decorate


def always_inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function as `inlined` does, and force inlining: a call costs as much as a usual number."""

    @overload(function, strict=False, jit_options=OPTIONS.inner | {"forceinline": True})
    def _compiled(*args: Any) -> Any:
        return function

    return function


def load(kind: Any) -> Callable[[Any, Any], Any]:
    """Return the code that loads a value of a type from an address of any alignment."""
    return lambda builder, x: builder.load(builder.inttoptr(x, kind.as_pointer()), align=1)


@primitive(types.uint8, load(BYTE))
def peek(x: Any) -> Any:
    """Return the byte at an address."""
    return np.uint8(ctypes.c_uint8.from_address(int(x)).value)


@primitive(types.uint64, load(WORD))
def word(x: Any) -> Any:
    """Return the eight bytes from an address on, the first one lowest."""
    return U(int.from_bytes(ctypes.string_at(int(x), 8), "little"))
