"""Four features at a time, for kernels that keep a line of up to eight numbers per feature.

``load_fields`` reads four lines and returns eight vectors; the k-th holds number k of all four features.
``store_fields`` writes them back.  The work in between is then done on four features at once.  Every function reads its
four row entries at ``array[p:]``, or from ``tail`` where ``in_tail`` holds.  That is a row's last, incomplete block,
which the caller pads.  ``line`` gives the numbers in a line; missing numbers of a shorter line read as zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.typing import signature

from .dispatch import U, class_of, inlined
from .lanes import EIGHT, Vec, emit_prefetch, lane, minimum, register, shuffled, width

LINE = 8
"""The largest number of numbers per feature: 64 bytes."""


class Three(NamedTuple):
    """A line of three numbers."""

    m = 3


class Five(NamedTuple):
    """A line of five numbers."""

    m = 5


THREE, FIVE = Three(), Five()


def load_entries(array: np.ndarray, tail: np.ndarray, p: Any, in_tail: Any) -> Any:
    """Return four numbers of an array."""
    return (tail if in_tail else array[p : p + 4]).astype(np.float64)


def load_fields(
    cell: np.ndarray, indices: np.ndarray, tail: np.ndarray, p: Any, in_tail: Any, line: Any = EIGHT
) -> Any:
    """Return the eight numbers of four features, as eight vectors; unused ones are not read."""
    n = width(line)
    return (*cell.reshape(-1, n)[tail if in_tail else indices[p : p + 4]].T, *np.zeros((LINE - n, 4)))


def store_fields(
    cell: np.ndarray, indices: np.ndarray, tail: np.ndarray, p: Any, in_tail: Any, values: Any, line: Any = EIGHT
) -> None:
    """Write the first fields of four features, an even number of them; fields that the line lacks are skipped."""
    n = width(line)
    cell.reshape(-1, n)[tail if in_tail else indices[p : p + 4], : len(values)] = np.stack(values[:n], axis=1)


def prefetch_lines(cell: np.ndarray, indices: np.ndarray, p: Any, line: Any = EIGHT) -> None:
    """Prefetch the lines of the four features at ``indices[p:]``, which will be read soon."""


def tail_scratch(rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return room for the four entries of an incomplete block: their features and their values.

    It is allocated outside kernels, where an array costs a third of a second of compilation.
    """
    return np.empty(4, rows.indices.dtype), np.empty(4, rows.data.dtype)


@inlined
def pad_tail(indices, data, first, stop, tail, tail_x):
    """Copy the entries of an incomplete block, those from ``first`` up to ``stop``, and repeat the last one."""
    for f in range(U(4)):
        p = minimum(first + f, stop - U(1))
        tail[f], tail_x[f] = indices[p], data[p]


@inlined
def sum_of_four(v):
    """Return the sum of four numbers, neighbours first."""
    return (lane(v, 0) + lane(v, 1)) + (lane(v, 2) + lane(v, 3))


# --- The same functions in compiled code ------------------------------------------------------------------------------
# A pair of fields is one 16-byte piece of a line.  Pieces of features 0, 2 and of 1, 3 side by side are one shuffle
# away from four times the first and four times the second field: half the shuffles of a transposed 4 x 4 block.

_WORD, _PAIR = ir.IntType(64), ir.VectorType(ir.DoubleType(), 2)
_FIRST, _SECOND = (0, 4, 2, 6), (1, 5, 3, 7)


def _row_entries(context: Any, builder: Any, sig: Any, values: Any, k: int) -> Any:
    """Return a pointer to the four entries: arguments k.. are array, tail, p, in_tail."""
    array, tail = (context.make_array(sig.args[i])(context, builder, values[i]).data for i in (k, k + 1))
    return builder.select(values[k + 3], tail, builder.gep(array, [values[k + 2]]))


def _numbers(sig: Any, k: int) -> int:
    """Return the numbers per line, given by the optional argument k."""
    return class_of(sig.args[k]).m if len(sig.args) > k else LINE


def _lines(context: Any, builder: Any, sig: Any, values: Any, entries: Any, n: int) -> list[Any]:
    """Return pointers to the lines, of n numbers, of the four features."""
    cell, out = context.make_array(sig.args[0])(context, builder, values[0]).data, []
    for k in range(4):
        j = builder.zext(builder.load(builder.gep(entries, [ir.Constant(_WORD, k)])), _WORD)
        out.append(builder.gep(cell, [builder.mul(j, ir.Constant(_WORD, n))]))
    return out


def _lane(k: int) -> Any:
    return ir.Constant(ir.IntType(32), k)


def _collect(context: Any, builder: Any, places: list[Any]) -> Any:
    """Return four numbers loaded from four pointers."""
    out = ir.Constant(context.get_value_type(Vec(4)), ir.Undefined)
    for k, place in enumerate(places):
        out = builder.insert_element(out, builder.load(place), _lane(k))
    return out


def _piece(builder: Any, line: Any, field: int) -> Any:
    return builder.bitcast(builder.gep(line, [ir.Constant(_WORD, field)]), _PAIR.as_pointer())


def _type_load_entries(array: Any, tail: Any, p: Any, in_tail: Any) -> Any:
    return signature(Vec(4), array, tail, types.uint64, types.boolean)


def _emit_load_entries(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    entries = _row_entries(context, builder, sig, values, 0)
    stored, wanted = ir.VectorType(entries.type.pointee, 4), context.get_value_type(sig.return_type)
    align = sig.args[0].dtype.bitwidth // 8
    four = builder.load(builder.bitcast(entries, stored.as_pointer()), align=align)
    return four if stored == wanted else builder.fpext(four, wanted)


def _type_load_fields(cell: Any, indices: Any, tail: Any, p: Any, in_tail: Any, *line: Any) -> Any:
    return signature(types.UniTuple(Vec(4), LINE), cell, indices, tail, types.uint64, types.boolean, *line)


def _emit_load_fields(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    n, out, zero = _numbers(sig, 5), [], ir.Constant(context.get_value_type(Vec(4)), [0.0] * 4)
    lines = _lines(context, builder, sig, values, _row_entries(context, builder, sig, values, 1), n)
    for field in range(0, n - 1, 2):
        pieces = [builder.load(_piece(builder, line, field), align=8) for line in lines]
        even = shuffled(builder, pieces[0], pieces[2], (0, 1, 2, 3))
        odd = shuffled(builder, pieces[1], pieces[3], (0, 1, 2, 3))
        out += [shuffled(builder, even, odd, _FIRST), shuffled(builder, even, odd, _SECOND)]
    if n % 2:
        out.append(_collect(context, builder, [builder.gep(line, [ir.Constant(_WORD, n - 1)]) for line in lines]))
    return context.make_tuple(builder, sig.return_type, out + [zero] * (LINE - n))


def _type_store_fields(cell: Any, indices: Any, tail: Any, p: Any, in_tail: Any, values: Any, *line: Any) -> Any:
    return signature(types.none, cell, indices, tail, types.uint64, types.boolean, values, *line)


def _emit_store_fields(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    n = _numbers(sig, 6)
    lines = _lines(context, builder, sig, values, _row_entries(context, builder, sig, values, 1), n)
    if n % 2:
        last = builder.extract_value(values[5], n - 1)
        for k, line in enumerate(lines):
            builder.store(builder.extract_element(last, _lane(k)), builder.gep(line, [ir.Constant(_WORD, n - 1)]))
    pairs = []  # two fields of features 0 and 2, and of 1 and 3
    for field in range(0, min(len(sig.args[5]), n) - 1, 2):
        a, b = (builder.extract_value(values[5], k) for k in (field, field + 1))
        pairs.append([shuffled(builder, a, b, order) for order in (_FIRST, _SECOND)])
    for k, line in enumerate(lines):
        halves = (0, 1, 4, 5) if k < 2 else (2, 3, 6, 7)
        for field in range(0, len(pairs), 2):  # four fields in one store, or the last two
            a, b = pairs[field][k % 2], pairs[min(field + 1, len(pairs) - 1)][k % 2]
            piece = shuffled(builder, a, b, halves if field + 1 < len(pairs) else halves[:2])
            place = builder.gep(line, [ir.Constant(_WORD, 2 * field)])
            builder.store(piece, builder.bitcast(place, piece.type.as_pointer()), align=8)
    return context.get_dummy_value()


def _type_prefetch_lines(cell: Any, indices: Any, p: Any, *line: Any) -> Any:
    return signature(types.none, cell, indices, types.uint64, *line)


def _emit_prefetch_lines(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    indices = context.make_array(sig.args[1])(context, builder, values[1]).data
    for line in _lines(context, builder, sig, values, builder.gep(indices, [values[2]]), _numbers(sig, 3)):
        emit_prefetch(builder, line)
    return context.get_dummy_value()


register(load_entries, _type_load_entries, _emit_load_entries)
register(load_fields, _type_load_fields, _emit_load_fields)
register(store_fields, _type_store_fields, _emit_store_fields)
register(prefetch_lines, _type_prefetch_lines, _emit_prefetch_lines)
