"""Lanes in compiled code: each function of ``lane_values`` as a few instructions at the place of its call.

These functions need no compilation of their own.  No operation may be fused with another or reordered, so that a lane
has the same bits independent of the lanes beside it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.cgutils import get_or_insert_function
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import lower_builtin

from .dispatch import class_of
from .lane_types import REAL, Mask, Vec, bits_of, constant, emit_exp, emit_signed, intrinsic, repeated
from .lane_values import (
    SINGLE,
    TINY,
    WIDTHS,
    One,
    any_lane,
    copysign,
    count_lanes,
    exp,
    floor,
    gather,
    gather_fields,
    lane,
    lane_indices,
    load,
    load_row,
    max_lane,
    maximum,
    minimum,
    n_float64,
    prefetch,
    prefetch_wide,
    signed,
    sqrt,
    store,
    store_float64,
    sum_lanes,
    tiny,
    where,
    width,
)


def register(function: Any, type_of: Callable[..., Any], emit: Callable[..., Any], *kinds: Any) -> None:
    """Register a function with numba, for calls whose signature matches ``kinds`` (default: every call).

    ``type_of(*types)`` returns the signature, or None for other types; ``emit(context, builder, sig, values)`` returns
    the code.
    """

    class Template(AbstractTemplate):
        metadata = {"target": "cpu"}

        def generic(self, args: Any, kws: Any) -> Any:
            return None if kws else type_of(*args)

    infer_global(function)(Template)
    lower_builtin(function, *(kinds or [types.VarArg(types.Any)]))(emit)


def _common(*args: Any) -> Any:
    """Return the common type of values: a Vec if there is one, else float64; None if some are not numbers."""
    vecs = [arg for arg in args if isinstance(arg, Vec)]
    kind = vecs[0] if vecs else types.float64
    return kind if all(arg == kind or isinstance(arg, types.Number) for arg in args) else None


def _vecs(*args: Any) -> Any:
    kind = _common(*args)
    return kind if isinstance(kind, Vec) else None


def _maps(function: Any, emit: Callable[..., Any], common: Any = _common, *kinds: Any) -> None:
    """Register a function from values to a value of their common type."""

    def type_of(*args: Any) -> Any:
        kind = common(*args)
        return kind and signature(kind, *[kind] * len(args))

    register(function, type_of, lambda context, builder, sig, values: emit(builder, *values), *kinds)


_maps(signed, emit_signed)
_maps(copysign, lambda builder, magnitude, sign: intrinsic(builder, "copysign", magnitude, sign))
_maps(exp, emit_exp)
_maps(sqrt, lambda builder, a: intrinsic(builder, "sqrt", a))
_maps(floor, lambda builder, a: intrinsic(builder, "floor", a))

_maps(abs, lambda builder, a: intrinsic(builder, "fabs", a), _vecs, Vec)
_maps(operator.neg, lambda builder, a: builder.fneg(a), _vecs, Vec)


def _selects(function: Any, symbol: str) -> None:
    """Register a function that returns the operand for which the comparison with the other holds.

    numba's own min and max cost 30 ms of compilation for every type.
    """

    def type_of(a: Any, b: Any) -> Any:
        kind = a if a == b and isinstance(a, types.Integer) else _common(a, b)
        return kind and signature(kind, kind, kind)

    def emit(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        compare = builder.fcmp_ordered
        if isinstance(sig.return_type, types.Integer):
            compare = builder.icmp_signed if sig.return_type.signed else builder.icmp_unsigned
        return builder.select(compare(symbol, *values), *values)

    register(function, type_of, emit)


_selects(minimum, "<")
_selects(maximum, ">")


def _arithmetic(name: str) -> Callable[..., Any]:
    return lambda builder, a, b: getattr(builder, name)(a, b)


for _name, _instruction in {"add": "fadd", "sub": "fsub", "mul": "fmul", "truediv": "fdiv"}.items():
    for _operator in (getattr(operator, _name), getattr(operator, "i" + _name)):
        _maps(_operator, _arithmetic(_instruction), _vecs, Vec, Vec)


def _compares(function: Any, symbol: str) -> None:
    def type_of(a: Any, b: Any) -> Any:
        kind = _vecs(a, b)
        return kind and signature(Mask(kind.m, kind.bits), kind, kind)

    def emit(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        compare = builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered
        return compare(symbol, *values)

    register(function, type_of, emit, Vec, Vec)


for _name, _symbol in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items():
    _compares(getattr(operator, _name), _symbol)


def _masks(a: Any, b: Any) -> Any:
    return a if isinstance(a, Mask) and a == b else None


_maps(operator.and_, lambda builder, a, b: builder.and_(a, b), _masks, Mask, Mask)
_maps(operator.or_, lambda builder, a, b: builder.or_(a, b), _masks, Mask, Mask)


def _type_where(condition: Any, a: Any, b: Any) -> Any:
    kind = _common(a, b)
    if isinstance(condition, Mask):
        kind = _common(Vec(condition.m, condition.bits), a, b)
    elif not isinstance(condition, types.Boolean):
        return None
    return kind and signature(kind, condition, kind, kind)


def _type_any_lane(mask: Any) -> Any:
    return signature(types.boolean, mask) if isinstance(mask, Mask | types.Boolean) else None


def _emit_any_lane(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    if isinstance(sig.args[0], types.Boolean):
        return values[0]
    bits = builder.bitcast(values[0], ir.IntType(sig.args[0].m))
    return builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))


def _type_lane(value: Any, k: Any) -> Any:
    if not isinstance(k, types.Integer):
        return None
    kind = {Vec: types.float64, Mask: types.boolean}.get(type(value), value)
    return signature(kind, value, types.int64)


def _emit_lane(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    if not isinstance(sig.args[0], Vec | Mask):
        return values[0]
    return _as_double(builder, sig.args[0], builder.extract_element(*values))


def _as_double(builder: Any, kind: Any, value: Any) -> Any:
    """Return a number of float32 lanes as a float64; other numbers unchanged."""
    return builder.fpext(value, REAL[64]) if _is_single(kind) else value


def _type_tiny(value: Any) -> Any:
    kind = _common(value)
    return kind and signature(types.float64, kind)


def _emit_tiny(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    return ir.Constant(REAL[64], TINY[bits_of(values[0].type)])


def _type_reduced(value: Any) -> Any:
    kind = _common(value)
    return kind and signature(types.float64, kind)


def _reduces(function: Any, pair: Callable[..., Any]) -> None:
    """Register a reduction of all lanes to one number, pairs of halves at a time, in a fixed order."""

    def emit(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        (value,), index = values, ir.IntType(32)
        while isinstance(value.type, ir.VectorType):
            half = value.type.count // 2
            if half == 0:
                return _as_double(builder, sig.args[0], builder.extract_element(value, ir.Constant(index, 0)))
            low, high = (shuffled(builder, value, value, range(k, k + half)) for k in (0, half))
            value = pair(builder, low, high)
        return value

    register(function, _type_reduced, emit)


_reduces(sum_lanes, _arithmetic("fadd"))
_reduces(max_lane, lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))


def _type_count_lanes(mask: Any) -> Any:
    return signature(types.uint64, mask) if isinstance(mask, Mask | types.Boolean) else None


def _emit_count_lanes(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    bits, word = values[0], ir.IntType(64)
    if isinstance(sig.args[0], Mask):
        bits = builder.ctpop(builder.bitcast(bits, ir.IntType(sig.args[0].m)))
    return builder.trunc(bits, word) if bits.type.width > 64 else builder.zext(bits, word)


def _type_lane_indices(lanes: Any) -> Any:
    kind = _value_type(lanes)
    return signature(kind, lanes) if kind and not _is_single(kind) else None


def _emit_lane_indices(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    kind = context.get_value_type(sig.return_type)
    return ir.Constant(kind, list(map(float, range(kind.count))) if isinstance(kind, ir.VectorType) else 0.0)


register(count_lanes, _type_count_lanes, _emit_count_lanes)
register(lane_indices, _type_lane_indices, _emit_lane_indices)
register(where, _type_where, lambda context, builder, sig, values: builder.select(*values))
register(any_lane, _type_any_lane, _emit_any_lane)
register(lane, _type_lane, _emit_lane)
register(tiny, _type_tiny, _emit_tiny)


def _type_gather(array: Any, at: Any) -> Any:
    kind = _common(at)
    is_whole = isinstance(array, types.Array) and array.layout == "C" and array.dtype == types.float64
    return signature(kind, array, kind) if kind and is_whole else None


def _emit_gather(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    data, at = context.make_array(sig.args[0])(context, builder, values[0]).data, values[1]
    word, kind = ir.IntType(64), sig.return_type
    if not isinstance(kind, Vec):
        return builder.load(builder.gep(data, [builder.fptosi(at, word)]))
    words, double = ir.VectorType(word, kind.m), ir.VectorType(REAL[64], kind.m)
    start = repeated(builder, builder.ptrtoint(data, word), kind.m)
    places = builder.add(start, builder.shl(builder.fptosi(at, words), constant(words, 3)))
    pointers = builder.inttoptr(places, ir.VectorType(data.type, kind.m))
    every = ir.Constant(ir.VectorType(ir.IntType(1), kind.m), [1] * kind.m)
    function = ir.FunctionType(double, [pointers.type, ir.IntType(32), every.type, double])
    name = f"llvm.masked.gather.v{kind.m}f64.v{kind.m}p0"
    rest = ir.Constant(double, ir.Undefined)
    found = builder.call(
        get_or_insert_function(builder.module, function, name), [pointers, ir.Constant(ir.IntType(32), 8), every, rest]
    )
    return builder.fptrunc(found, at.type) if _is_single(kind) else found


register(gather, _type_gather, _emit_gather)


_TOGETHER = 8
"""The numbers in the largest register."""


def _type_gather_fields(array: Any, at: Any, which: Any) -> Any:
    found, fields = _type_gather(array, at), getattr(class_of(which), "fields", None)
    if found and fields and not _is_single(found.return_type):
        return signature(types.UniTuple(found.return_type, len(fields)), *found.args, which)


def _emit_gather_fields(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    """Return the code that loads a stretch for each lane and transposes it to fields by lane.

    Neighbours are joined field by field; the fields are split in half wherever they would not fit into a register.
    """
    data, at, kind = context.make_array(sig.args[0])(context, builder, values[0]).data, values[1], sig.args[1]
    fields, word = class_of(sig.args[2]).fields, ir.IntType(64)
    if not isinstance(kind, Vec):
        start = builder.gep(data, [builder.fptosi(at, word)])
        out = [builder.load(builder.gep(start, [ir.Constant(word, field)])) for field in fields]
        return context.make_tuple(builder, sig.return_type, out)
    length = 1 << max(fields).bit_length()
    stretch, places = ir.VectorType(REAL[64], length), builder.fptosi(at, ir.VectorType(word, kind.m))
    groups = []
    for k in range(kind.m):
        start = builder.gep(data, [builder.extract_element(places, ir.Constant(ir.IntType(32), k))])
        groups.append([(builder.load(builder.bitcast(start, stretch.as_pointer()), align=8), list(fields))])
    lanes = 1  # in each group, whose vectors hold some fields: the position of the first lane of each field
    while len(groups) > 1:
        merged = []
        for low, high in zip(groups[::2], groups[1::2], strict=True):
            parts = []
            for (a, starts), (b, _) in zip(low, high, strict=True):
                size = a.type.count
                halves = [starts]
                if len(starts) > 1 and 2 * lanes * len(starts) > _TOGETHER:
                    halves = [starts[: len(starts) // 2], starts[len(starts) // 2 :]]
                for half in halves:
                    order = [base + first + i for first in half for base in (0, size) for i in range(lanes)]
                    parts.append((shuffled(builder, a, b, order), [2 * lanes * i for i in range(len(half))]))
            merged.append(parts)
        groups, lanes = merged, 2 * lanes
    out = [shuffled(builder, a, a, range(first, first + lanes)) for a, starts in groups[0] for first in starts]
    return context.make_tuple(builder, sig.return_type, out)


def shuffled(builder: Any, a: Any, b: Any, order: Sequence[int]) -> Any:
    """Return the numbers of two vectors in this order; those of the second are numbered after those of the first."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(order)), list(order)))


register(gather_fields, _type_gather_fields, _emit_gather_fields)


# --- Memory -----------------------------------------------------------------------------------------------------------


def _value_type(lanes: Any) -> Any:
    record = class_of(lanes)
    if record not in WIDTHS + SINGLE:
        return None
    return types.float64 if record is One else Vec(record.m, record.bits)


def _is_memory(array: Any, kind: Any) -> bool:
    """Return whether the array can hold values of this kind; float32 lanes, which are not converted, need float64."""
    is_flat = isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"
    return is_flat and isinstance(array.dtype, types.Float) and (array.dtype.bitwidth == 64 or not _is_single(kind))


def _is_single(kind: Any) -> bool:
    return isinstance(kind, Vec) and kind.bits == 32


def _type_width(lanes: Any) -> Any:
    return _value_type(lanes) and signature(types.intp, lanes)


def _type_load(lanes: Any, array: Any, at: Any) -> Any:
    kind = _value_type(lanes)
    if kind and _is_memory(array, kind) and isinstance(at, types.Integer):
        return signature(kind, lanes, array, types.uint64)


def _type_store(lanes: Any, array: Any, at: Any, value: Any) -> Any:
    kind = _value_type(lanes)
    if kind and _is_memory(array, kind) and isinstance(at, types.Integer) and _common(kind, value) == kind:
        return signature(types.none, lanes, array, types.uint64, kind)


def _address(context: Any, builder: Any, sig: Any, values: Any, kind: Any) -> tuple[Any, Any, int]:
    """Return a pointer to ``array[at]``, the type stored there, and its alignment, at most that of one number."""
    array = context.make_array(sig.args[1])(context, builder, values[1])
    stored = REAL[32] if _is_single(kind) else array.data.type.pointee
    align = sig.args[1].dtype.bitwidth // 8
    if isinstance(kind, Vec):
        stored = ir.VectorType(stored, kind.m)
    return builder.bitcast(builder.gep(array.data, [values[2]]), stored.as_pointer()), stored, align


def _emit_load(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    pointer, stored, align = _address(context, builder, sig, values, sig.return_type)
    value, wanted = builder.load(pointer, align=align), context.get_value_type(sig.return_type)
    return value if stored == wanted else builder.fpext(value, wanted)


def _type_load_row(lanes: Any, array: Any, k: Any) -> Any:
    kind = _value_type(lanes)
    is_column = isinstance(array, types.Array) and array.ndim == 2 and array.layout == "C" and isinstance(kind, Vec)
    if (is_column or _is_memory(array, kind)) and isinstance(k, types.Integer):
        return kind and signature(kind, lanes, array, types.uint64)


def _emit_load_row(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    lanes, array, k = values
    if sig.args[1].ndim == 1:
        k = builder.mul(k, _emit_n_float64(context, builder, sig, values))
        return _emit_load(context, builder, sig, (lanes, array, k))
    number = builder.load(builder.gep(context.make_array(sig.args[1])(context, builder, array).data, [k]))
    return context.cast(builder, number, sig.args[1].dtype, sig.return_type)


def _emit_store(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    pointer, stored, align = _address(context, builder, sig, values, sig.args[3])
    value = values[3] if stored == values[3].type else builder.fptrunc(values[3], stored)
    builder.store(value, pointer, align=align)
    return context.get_dummy_value()


def _emit_store_float64(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    lanes, array, at, value = values
    kind = sig.args[3]
    if _is_single(kind):
        value, kind = builder.fpext(value, ir.VectorType(REAL[64], kind.m)), Vec(kind.m)
    return _emit_store(context, builder, signature(types.none, *sig.args[:3], kind), (lanes, array, at, value))


def _emit_width(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    return ir.Constant(ir.IntType(types.intp.bitwidth), class_of(sig.args[0]).m)


def _emit_n_float64(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    record = class_of(sig.args[0])
    return ir.Constant(ir.IntType(types.intp.bitwidth), record.m * record.bits // 64)


def emit_prefetch(builder: Any, pointer: Any, nearness: int = 3) -> None:
    """Emit a prefetch of the line at the pointer, for reading, into the first-level (3) or second-level (2) cache."""
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    function = get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    how = [ir.Constant(number, value) for value in (0, nearness, 1)]
    builder.call(function, [builder.bitcast(pointer, byte), *how])


def _type_prefetch(array: Any, at: Any) -> Any:
    is_row = isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"  # of any type, never read
    return signature(types.none, array, types.uint64) if is_row and isinstance(at, types.Integer) else None


def _prefetches(function: Any, nearness: int) -> None:
    def emit(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        array = context.make_array(sig.args[0])(context, builder, values[0])
        emit_prefetch(builder, builder.gep(array.data, [values[1]]), nearness)
        return context.get_dummy_value()

    register(function, _type_prefetch, emit)


_prefetches(prefetch, 3)
_prefetches(prefetch_wide, 2)
register(width, _type_width, _emit_width)
register(n_float64, _type_width, _emit_n_float64)
register(load, _type_load, _emit_load)
register(load_row, _type_load_row, _emit_load_row)
register(store, _type_store, _emit_store)
register(store_float64, _type_store, _emit_store_float64)
