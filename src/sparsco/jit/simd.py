"""Four or eight features at a time, for kernels that keep a line of up to eight numbers per feature.

``block`` is FOUR or EIGHT.  ``load_fields`` reads the lines of a block and returns eight vectors; the k-th holds number
k of all of its features.  ``load_low`` and ``load_high`` read one half of each line.  ``store_fields`` writes lines
back, and ``update_fields`` adds to them.  The work in between is then done on all features of a block at once.  Every
function reads its row entries at ``array[p:]``, or from ``tail`` where ``in_tail`` holds.  That is a row's last,
incomplete block, which the caller pads.  ``line`` gives the numbers in a line, 2, 4 or 8; missing numbers of a shorter
line read as zero.  A block of eight has lines of eight numbers.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.registry import cpu_target
from numba.core.typing import signature

from .dispatch import U, class_of, inlined
from .lanes import EIGHT, FOUR, Vec, emit_prefetch, lane, minimum, register, shuffled, width

LINE = 8
"""The largest number of numbers per feature: 64 bytes."""


@functools.cache
def widest_block() -> Any:
    """Return the block whose numbers fit into one vector of this machine: EIGHT with AVX-512, else FOUR."""
    _, _, features = cpu_target.target_context.codegen().magic_tuple()
    return EIGHT if "+avx512f" in features.split(",") else FOUR


def load_entries(block: Any, array: np.ndarray, tail: np.ndarray, p: Any, in_tail: Any) -> Any:
    """Return the numbers of a block."""
    return (tail if in_tail else array[p : p + width(block)]).astype(np.float64)


def load_fields(
    block: Any, cell: np.ndarray, indices: np.ndarray, tail: np.ndarray, p: Any, in_tail: Any, line: Any = EIGHT
) -> Any:
    """Return the eight numbers of each feature of a block, as eight vectors; unused ones are not read."""
    n, m = width(line), width(block)
    return (*cell.reshape(-1, n)[tail if in_tail else indices[p : p + m]].T, *np.zeros((LINE - n, m)))


def load_low(block: Any, cell: np.ndarray, indices: np.ndarray, tail: np.ndarray, p: Any, in_tail: Any) -> Any:
    """Return the first four numbers of each feature of a block, of lines of eight, as four vectors."""
    return load_fields(block, cell, indices, tail, p, in_tail)[:4]


def load_high(block: Any, cell: np.ndarray, indices: np.ndarray, tail: np.ndarray, p: Any, in_tail: Any) -> Any:
    """Return the last four numbers of each feature of a block, of lines of eight, as four vectors."""
    return load_fields(block, cell, indices, tail, p, in_tail)[4:]


def store_fields(
    block: Any,
    cell: np.ndarray,
    indices: np.ndarray,
    tail: np.ndarray,
    p: Any,
    in_tail: Any,
    values: Any,
    line: Any = EIGHT,
) -> None:
    """Write the eight fields of the features of a block; fields that the line lacks are skipped."""
    n = width(line)
    cell.reshape(-1, n)[tail if in_tail else indices[p : p + width(block)]] = np.stack(values[:n], axis=1)


def update_fields(
    block: Any,
    cell: np.ndarray,
    indices: np.ndarray,
    tail: np.ndarray,
    p: Any,
    in_tail: Any,
    values: Any,
    more: Any,
    line: Any = EIGHT,
) -> None:
    """Write ``values`` to the first fields of the features of a block, and add ``more`` to the fields after them.

    Fields that the line lacks are skipped.  All lines are read before one is written: of copies, one counts.
    """
    n, first = width(line), len(values)
    places = tail if in_tail else indices[p : p + width(block)]
    fields = np.stack([*values, *more][:n], axis=1)
    fields[:, first:] += cell.reshape(-1, n)[places, first : fields.shape[1]]
    cell.reshape(-1, n)[places, : fields.shape[1]] = fields


def prefetch_lines(block: Any, cell: np.ndarray, indices: np.ndarray, p: Any, line: Any = EIGHT) -> None:
    """Prefetch the lines of the features at ``indices[p:]``, which will be read soon, into the second-level cache.

    The first-level cache can wait for few lines at a time, and those of two long rows do not fit into it.
    """


def tail_scratch(block: Any, rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return room for the entries of an incomplete block: their features and their values.

    It is allocated outside kernels, where an array costs a third of a second of compilation.
    """
    return np.empty(width(block), rows.indices.dtype), np.empty(width(block), rows.data.dtype)


@inlined
def pad_tail(indices, data, first, stop, tail, tail_x):
    """Copy the entries of an incomplete block, those from ``first`` up to ``stop``, and repeat the last one."""
    for f in range(U(tail.size)):
        p = minimum(first + f, stop - U(1))
        tail[f], tail_x[f] = indices[p], data[p]


@inlined
def sum_of(block, v):
    """Return the sum of the numbers of a block, neighbours first."""
    total = (lane(v, 0) + lane(v, 1)) + (lane(v, 2) + lane(v, 3))
    if width(block) > 4:
        total += (lane(v, 4) + lane(v, 5)) + (lane(v, 6) + lane(v, 7))
    return total


# --- The same functions in compiled code ------------------------------------------------------------------------------

_WORD, _PAIR, _HALF = ir.IntType(64), ir.VectorType(ir.DoubleType(), 2), ir.VectorType(ir.DoubleType(), 4)
_FIRST, _SECOND = (0, 4, 2, 6), (1, 5, 3, 7)
_STAGES = (
    ((0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15)),
    ((0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15)),
    ((0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)),
)
"""Eight rows of eight numbers are transposed in three stages: stage k exchanges numbers of the rows i and i + 2^k."""


def _size(sig: Any) -> int:
    """Return the features of a block, the first argument."""
    return class_of(sig.args[0]).m


def _row_entries(context: Any, builder: Any, sig: Any, values: Any, k: int) -> Any:
    """Return a pointer to the entries of a block: arguments k.. are array, tail, p, in_tail."""
    array, tail = (context.make_array(sig.args[i])(context, builder, values[i]).data for i in (k, k + 1))
    return builder.select(values[k + 3], tail, builder.gep(array, [values[k + 2]]))


def _numbers(sig: Any, k: int) -> int:
    """Return the numbers per line, given by the optional argument k."""
    return class_of(sig.args[k]).m if len(sig.args) > k else LINE


def _lines(context: Any, builder: Any, sig: Any, values: Any, entries: Any, n: int) -> list[Any]:
    """Return pointers to the lines, of n numbers, of the features of a block."""
    cell, out = context.make_array(sig.args[1])(context, builder, values[1]).data, []
    for k in range(_size(sig)):
        j = builder.zext(builder.load(builder.gep(entries, [ir.Constant(_WORD, k)])), _WORD)
        out.append(builder.gep(cell, [builder.mul(j, ir.Constant(_WORD, n))]))
    return out


def _lane(k: int) -> Any:
    return ir.Constant(ir.IntType(32), k)


def _piece(builder: Any, line: Any, field: int, kind: Any = _PAIR) -> Any:
    return builder.bitcast(builder.gep(line, [ir.Constant(_WORD, field)]), kind.as_pointer())


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Return eight vectors of eight numbers, transposed; of four, their halves are transposed one by one."""
    for k, (low, high) in enumerate(_STAGES[: len(rows).bit_length() - 1]):
        out = list(rows)
        for i in (i for i in range(len(rows)) if not i & 1 << k):
            j = i | 1 << k
            out[i], out[j] = (shuffled(builder, rows[i], rows[j], order) for order in (low, high))
        rows = out
    return rows


def _type_load_entries(block: Any, array: Any, tail: Any, p: Any, in_tail: Any) -> Any:
    return signature(Vec(class_of(block).m), block, array, tail, types.uint64, types.boolean)


def _emit_load_entries(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    entries = _row_entries(context, builder, sig, values, 1)
    stored, wanted = ir.VectorType(entries.type.pointee, _size(sig)), context.get_value_type(sig.return_type)
    align = sig.args[1].dtype.bitwidth // 8
    found = builder.load(builder.bitcast(entries, stored.as_pointer()), align=align)
    return found if stored == wanted else builder.fpext(found, wanted)


def _type_load_fields(block: Any, cell: Any, indices: Any, tail: Any, p: Any, in_tail: Any, *line: Any) -> Any:
    fields = types.UniTuple(Vec(class_of(block).m), LINE)
    return signature(fields, block, cell, indices, tail, types.uint64, types.boolean, *line)


def _emit_load_fields(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    n = _numbers(sig, 6)
    lines = _lines(context, builder, sig, values, _row_entries(context, builder, sig, values, 2), n)
    load = _load_eight if _size(sig) == 8 else _load_four
    return context.make_tuple(builder, sig.return_type, load(context, builder, lines, n))


def _load_eight(context: Any, builder: Any, lines: list[Any], n: int) -> list[Any]:
    kind = context.get_value_type(Vec(8))
    return _transposed(builder, [builder.load(_piece(builder, line, 0, kind), align=8) for line in lines])


def _type_load_half(block: Any, cell: Any, indices: Any, tail: Any, p: Any, in_tail: Any) -> Any:
    fields = types.UniTuple(Vec(class_of(block).m), LINE // 2)
    return signature(fields, block, cell, indices, tail, types.uint64, types.boolean)


def _emit_load_half(first: int, context: Any, builder: Any, sig: Any, values: Any) -> Any:
    lines = _lines(context, builder, sig, values, _row_entries(context, builder, sig, values, 2), LINE)
    halves = [builder.gep(line, [ir.Constant(_WORD, first)]) for line in lines]
    found = (_load_half_of_eight if _size(sig) == 8 else _load_four)(context, builder, halves, LINE // 2)
    return context.make_tuple(builder, sig.return_type, found[: LINE // 2])


def _load_half_of_eight(context: Any, builder: Any, lines: list[Any], n: int) -> list[Any]:
    """Return four numbers of eight features; with features i and i + 4 side by side, two stages transpose them."""
    rows = [builder.load(_piece(builder, line, 0, _HALF), align=8) for line in lines]
    pairs = [shuffled(builder, rows[i], rows[i + 4], range(8)) for i in range(4)]
    return _transposed(builder, pairs)


def _load_four(context: Any, builder: Any, lines: list[Any], n: int) -> list[Any]:
    """Return the fields of four features.

    A pair of fields is one 16-byte piece of a line.  Pieces of features 0, 2 and of 1, 3 side by side are one shuffle
    away from four times the first and four times the second field: half the shuffles of a transposed 4 x 4 block.
    """
    out, zero = [], ir.Constant(context.get_value_type(Vec(4)), [0.0] * 4)
    for field in range(0, n, 2):
        pieces = [builder.load(_piece(builder, line, field), align=8) for line in lines]
        even = shuffled(builder, pieces[0], pieces[2], (0, 1, 2, 3))
        odd = shuffled(builder, pieces[1], pieces[3], (0, 1, 2, 3))
        out += [shuffled(builder, even, odd, _FIRST), shuffled(builder, even, odd, _SECOND)]
    return out + [zero] * (LINE - n)


def _type_store_fields(
    block: Any, cell: Any, indices: Any, tail: Any, p: Any, in_tail: Any, values: Any, *line: Any
) -> Any:
    return signature(types.none, block, cell, indices, tail, types.uint64, types.boolean, values, *line)


def _emit_store_fields(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    n = _numbers(sig, 7)
    lines = _lines(context, builder, sig, values, _row_entries(context, builder, sig, values, 2), n)
    for place, piece, _ in _pieces(builder, lines, [builder.extract_value(values[6], k) for k in range(n)]):
        builder.store(piece, place, align=8)
    return context.get_dummy_value()


def _type_update_fields(
    block: Any, cell: Any, indices: Any, tail: Any, p: Any, in_tail: Any, values: Any, more: Any, *line: Any
) -> Any:
    return signature(types.none, block, cell, indices, tail, types.uint64, types.boolean, values, more, *line)


def _emit_update_fields(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    n, first = _numbers(sig, 8), len(sig.args[6])
    lines = _lines(context, builder, sig, values, _row_entries(context, builder, sig, values, 2), n)
    fields = [builder.extract_value(values[6], k) for k in range(first)]
    fields += [builder.extract_value(values[7], k) for k in range(len(sig.args[7]))]
    zero = ir.Constant(fields[0].type, [0.0] * _size(sig))
    found = []
    for place, piece, field in _pieces(builder, lines, (fields + [zero] * n)[:n]):
        is_added = [field + k >= first for k in range(piece.type.count)]
        total = builder.fadd(piece, builder.load(place, align=8))
        mask = ir.Constant(ir.VectorType(ir.IntType(1), len(is_added)), is_added)
        found.append((place, builder.select(mask, total, piece)))
    for place, piece in found:
        builder.store(piece, place, align=8)
    return context.get_dummy_value()


def _pieces(builder: Any, lines: list[Any], fields: list[Any]) -> list[tuple[Any, Any, int]]:
    """Return the lines of fields in pieces: a pointer, the piece, and the number of its first field."""
    if len(lines) == 8:
        rows = _transposed(builder, fields)
        return [(_piece(builder, line, 0, row.type), row, 0) for line, row in zip(lines, rows, strict=True)]
    pairs, out = [], []  # two fields of features 0 and 2, and of 1 and 3
    for field in range(0, len(fields), 2):
        pairs.append([shuffled(builder, fields[field], fields[field + 1], order) for order in (_FIRST, _SECOND)])
    for k, line in enumerate(lines):
        halves = (0, 1, 4, 5) if k < 2 else (2, 3, 6, 7)
        for field in range(0, len(pairs), 2):  # four fields in one store, or two
            a, b = pairs[field][k % 2], pairs[min(field + 1, len(pairs) - 1)][k % 2]
            piece = shuffled(builder, a, b, halves if field + 1 < len(pairs) else halves[:2])
            out.append((_piece(builder, line, 2 * field, piece.type), piece, 2 * field))
    return out


def _type_prefetch_lines(block: Any, cell: Any, indices: Any, p: Any, *line: Any) -> Any:
    return signature(types.none, block, cell, indices, types.uint64, *line)


def _emit_prefetch_lines(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    indices = context.make_array(sig.args[2])(context, builder, values[2]).data
    n = _numbers(sig, 4)
    for line in _lines(context, builder, sig, values, builder.gep(indices, [values[3]]), n):
        emit_prefetch(builder, line, 2)
    return context.get_dummy_value()


register(load_entries, _type_load_entries, _emit_load_entries)
register(load_fields, _type_load_fields, _emit_load_fields)
register(load_low, _type_load_half, functools.partial(_emit_load_half, 0))
register(load_high, _type_load_half, functools.partial(_emit_load_half, LINE // 2))
register(store_fields, _type_store_fields, _emit_store_fields)
register(update_fields, _type_update_fields, _emit_update_fields)
register(prefetch_lines, _type_prefetch_lines, _emit_prefetch_lines)
