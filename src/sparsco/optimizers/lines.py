"""Four features at a time: for kernels that keep one cache line of eight numbers per feature.

``fields`` reads four lines and hands out eight vectors, number k of all four features in the k-th; ``put_fields``
writes them back.  The work in between is then done on four features at once.  Every function reads its four row entries
at ``array[p:]``, or from ``tail`` where ``in_tail`` holds: a row's last, incomplete block, filled up by the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.cgutils import get_or_insert_function
from numba.core.typing import signature

from ..lanes import Four, Vec, _register

LINE = 8
"""Numbers per feature: 64 bytes."""
FOUR = Four()


def pick(array: np.ndarray, tail: np.ndarray, p: Any, in_tail: Any) -> Any:
    """Four numbers."""
    return (tail if in_tail else array[p : p + 4]).astype(np.float64)


def fields(cell: np.ndarray, indices: np.ndarray, tail: np.ndarray, p: Any, in_tail: Any) -> Any:
    """The eight numbers of four features, as eight vectors."""
    return tuple(cell.reshape(-1, LINE)[tail if in_tail else indices[p : p + 4]].T)


def put_fields(cell: np.ndarray, indices: np.ndarray, tail: np.ndarray, p: Any, in_tail: Any, values: Any) -> None:
    """Write the first fields of four features, an even number of them."""
    cell.reshape(-1, LINE)[tail if in_tail else indices[p : p + 4], : len(values)] = np.stack(values, axis=1)


def prefetch(cell: np.ndarray, indices: np.ndarray, p: Any) -> None:
    """Ask for the lines of the four features at ``indices[p:]``, which will be read soon."""


# --- The same in compiled code ----------------------------------------------------------------------------------------
# A pair of fields is one 16-byte piece of a line.  Pieces of features 0, 2 and of 1, 3 side by side are one shuffle
# away from four times the first and four times the second field: half the shuffles of a transposed 4 x 4 block.

_WORD, _PAIR = ir.IntType(64), ir.VectorType(ir.DoubleType(), 2)
_FIRST, _SECOND = (0, 4, 2, 6), (1, 5, 3, 7)


def _shuffle(builder: Any, a: Any, b: Any, order: tuple[int, ...]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(order)), list(order)))


def _row_entries(context: Any, builder: Any, sig: Any, values: Any, k: int) -> Any:
    """A pointer to the four entries: arguments k.. are array, tail, p, in_tail."""
    array, tail = (context.make_array(sig.args[i])(context, builder, values[i]).data for i in (k, k + 1))
    return builder.select(values[k + 3], tail, builder.gep(array, [values[k + 2]]))


def _lines(context: Any, builder: Any, sig: Any, values: Any, entries: Any) -> list[Any]:
    """Pointers to the lines of the four features."""
    cell, out = context.make_array(sig.args[0])(context, builder, values[0]).data, []
    for k in range(4):
        j = builder.zext(builder.load(builder.gep(entries, [ir.Constant(_WORD, k)])), _WORD)
        out.append(builder.gep(cell, [builder.mul(j, ir.Constant(_WORD, LINE))]))
    return out


def _piece(builder: Any, line: Any, field: int) -> Any:
    return builder.bitcast(builder.gep(line, [ir.Constant(_WORD, field)]), _PAIR.as_pointer())


def _type_pick(array: Any, tail: Any, p: Any, in_tail: Any) -> Any:
    return signature(Vec(4), array, tail, types.uint64, types.boolean)


def _emit_pick(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    entries = _row_entries(context, builder, sig, values, 0)
    stored, wanted = ir.VectorType(entries.type.pointee, 4), context.get_value_type(sig.return_type)
    align = sig.args[0].dtype.bitwidth // 8
    four = builder.load(builder.bitcast(entries, stored.as_pointer()), align=align)
    return four if stored == wanted else builder.fpext(four, wanted)


def _type_fields(cell: Any, indices: Any, tail: Any, p: Any, in_tail: Any) -> Any:
    return signature(types.UniTuple(Vec(4), LINE), cell, indices, tail, types.uint64, types.boolean)


def _emit_fields(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    lines, out = _lines(context, builder, sig, values, _row_entries(context, builder, sig, values, 1)), []
    for field in range(0, LINE, 2):
        pieces = [builder.load(_piece(builder, line, field), align=8) for line in lines]
        even = _shuffle(builder, pieces[0], pieces[2], (0, 1, 2, 3))
        odd = _shuffle(builder, pieces[1], pieces[3], (0, 1, 2, 3))
        out += [_shuffle(builder, even, odd, _FIRST), _shuffle(builder, even, odd, _SECOND)]
    return context.make_tuple(builder, sig.return_type, out)


def _type_put(cell: Any, indices: Any, tail: Any, p: Any, in_tail: Any, values: Any) -> Any:
    return signature(types.none, cell, indices, tail, types.uint64, types.boolean, values)


def _emit_put(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    lines = _lines(context, builder, sig, values, _row_entries(context, builder, sig, values, 1))
    for field in range(0, len(sig.args[5]), 2):
        a, b = (builder.extract_value(values[5], k) for k in (field, field + 1))
        for odd, order in enumerate((_FIRST, _SECOND)):
            pair = _shuffle(builder, a, b, order)
            for half in (0, 1):
                piece = _shuffle(builder, pair, pair, (2 * half, 2 * half + 1))
                builder.store(piece, _piece(builder, lines[2 * half + odd], field), align=8)
    return context.get_dummy_value()


def _type_prefetch(cell: Any, indices: Any, p: Any) -> Any:
    return signature(types.none, cell, indices, types.uint64)


def _emit_prefetch(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    indices = context.make_array(sig.args[1])(context, builder, values[1]).data
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    function = get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    to_read, keep, is_data = (ir.Constant(number, value) for value in (0, 3, 1))
    for line in _lines(context, builder, sig, values, builder.gep(indices, [values[2]])):
        builder.call(function, [builder.bitcast(line, byte), to_read, keep, is_data])
    return context.get_dummy_value()


_register(pick, _type_pick, _emit_pick)
_register(fields, _type_fields, _emit_fields)
_register(put_fields, _type_put, _emit_put)
_register(prefetch, _type_prefetch, _emit_prefetch)
