"""Packed lanes: numbers of those lanes in which a condition holds, one after the other in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba.core import types
from numba.core.cgutils import get_or_insert_function
from numba.core.typing import signature

from .lanes import Mask, Vec, count_lanes, register, shuffled

_PACKS = binding.get_host_cpu_features().get("avx512vl", False) and binding.llvm_version_info >= (19,)
"""Whether the machine packs lanes in one instruction and LLVM has names for it; that of numba 0.61 has none."""
_TOGETHER = 8
"""The lanes that one instruction packs."""


def compress_store(array: np.ndarray, at: Any, value: Any, mask: Any) -> None:
    """Write the lanes in which the condition holds to ``array[at:]``, one after the other.

    The array must have room for all lanes, since the numbers after the written ones may be overwritten.
    """
    array[at : at + count_lanes(mask)] = np.atleast_1d(value)[np.atleast_1d(mask)]


def expand_load(array: np.ndarray, at: Any, mask: Any) -> Any:
    """Return the numbers from ``array[at]`` on, one after the other, in the lanes in which the condition holds; else 0.

    The array must have numbers for all lanes, of which there are at most eight.
    """
    value = np.zeros(len(mask))
    value[mask] = array[at : at + count_lanes(mask)]
    return value


# --- The same functions in compiled code ------------------------------------------------------------------------------


def _type_compress_store(array: Any, at: Any, value: Any, mask: Any) -> Any:
    is_double = value == types.float64 or (isinstance(value, Vec) and value.bits == 64)
    if is_double and _has_doubles(array) and isinstance(mask, Mask | types.Boolean):
        return signature(types.none, array, types.uint64, value, mask)


def _has_doubles(array: Any) -> bool:
    return isinstance(array, types.Array) and (array.ndim, array.layout, array.dtype) == (1, "C", types.float64)


def _pointer(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    """Return a pointer to ``array[at]``, of the first two arguments."""
    return builder.gep(context.make_array(sig.args[0])(context, builder, values[0]).data, [values[1]])


def _count(builder: Any, mask: Any) -> Any:
    """Return the number of lanes in which the condition holds."""
    return builder.zext(builder.ctpop(builder.bitcast(mask, ir.IntType(mask.type.count))), ir.IntType(64))


def _emit_compress_store(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    start, (_, _, value, mask) = _pointer(context, builder, sig, values), values
    if not isinstance(sig.args[2], Vec):
        builder.store(value, start)
        return context.get_dummy_value()
    size = min(sig.args[2].m, _TOGETHER if _PACKS else 1)
    for k in range(0, sig.args[2].m, size):  # the next piece overwrites the lanes that are left out
        piece, here = (shuffled(builder, each, each, range(k, k + size)) for each in (value, mask))
        if size > 1:
            kind = ir.FunctionType(piece.type, [piece.type, here.type, piece.type])
            name = f"llvm.experimental.vector.compress.v{size}f64"
            function = get_or_insert_function(builder.module, kind, name)
            piece = builder.call(function, [piece, here, ir.Constant(piece.type, ir.Undefined)])
        builder.store(piece, builder.bitcast(start, piece.type.as_pointer()), align=8)
        start = builder.gep(start, [_count(builder, here)])
    return context.get_dummy_value()


def _type_expand_load(array: Any, at: Any, mask: Any) -> Any:
    if _has_doubles(array) and isinstance(mask, Mask) and mask.bits == 64 and mask.m <= _TOGETHER:
        return signature(Vec(mask.m), array, types.uint64, mask)


def _emit_expand_load(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    start, mask, kind = _pointer(context, builder, sig, values), values[2], context.get_value_type(sig.return_type)
    out, number = ir.Constant(kind, [0.0] * kind.count), ir.IntType(32)
    if _PACKS:
        function = ir.FunctionType(kind, [start.type, mask.type, kind])
        name = f"llvm.masked.expandload.v{kind.count}f64"
        return builder.call(get_or_insert_function(builder.module, function, name), [start, mask, out])
    for k in range(kind.count):
        holds = builder.extract_element(mask, ir.Constant(number, k))
        found = builder.select(holds, builder.load(start), ir.Constant(kind.element, 0.0))
        out = builder.insert_element(out, found, ir.Constant(number, k))
        start = builder.gep(start, [builder.zext(holds, ir.IntType(64))])
    return out


register(compress_store, _type_compress_store, _emit_compress_store)
register(expand_load, _type_expand_load, _emit_expand_load)
