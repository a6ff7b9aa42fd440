"""Lanes in compiled code: their types, and instructions that are the same for one number and for a vector."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import types
from numba.core.cgutils import get_or_insert_function
from numba.core.typeconv import Conversion
from numba.extending import lower_cast, models, register_model


class Vec(types.Type):
    """The type of m numbers of 64 or 32 bits; a plain number is broadcast to all lanes where the two are combined."""

    def __init__(self, m: int, bits: int = 64) -> None:
        self.m, self.bits = m, bits
        super().__init__(name=f"Vec({m}, {bits})")

    def can_convert_from(self, typingctx: Any, other: types.Type) -> Conversion | None:
        return Conversion.safe if isinstance(other, types.Number) else None

    def unify(self, typingctx: Any, other: types.Type) -> Vec | None:
        return self if isinstance(other, types.Number) else None


class Mask(types.Type):
    """The type of the result of a comparison of :class:`Vec`."""

    def __init__(self, m: int, bits: int) -> None:
        self.m, self.bits = m, bits
        super().__init__(name=f"Mask({m}, {bits})")


REAL = {64: ir.DoubleType(), 32: ir.FloatType()}


@register_model(Vec)
class _VecModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Vec) -> None:
        super().__init__(manager, kind, ir.VectorType(REAL[kind.bits], kind.m))


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Mask) -> None:
        super().__init__(manager, kind, ir.VectorType(ir.IntType(1), kind.m))


@lower_cast(types.Number, Vec)
def _splat(context: Any, builder: Any, source: Any, target: Any, value: Any) -> Any:
    value = context.cast(builder, value, source, types.float32 if target.bits == 32 else types.float64)
    return repeated(builder, value, target.m)


def repeated(builder: Any, value: Any, m: int) -> Any:
    """Return a vector with the same number in each lane."""
    one = ir.Constant(ir.VectorType(value.type, 1), ir.Undefined)
    one = builder.insert_element(one, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), m), [0] * m))


# --- Instructions, the same for one number and for a vector of them ---------------------------------------------------


def constant(kind: Any, value: float) -> Any:
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


def bits_of(kind: Any) -> int:
    """Return 64 or 32, the bits of a number or of the numbers in a vector."""
    return 64 if getattr(kind, "element", kind) == REAL[64] else 32


def intrinsic(builder: Any, name: str, *values: Any) -> Any:
    kind = values[0].type
    suffix = f"v{kind.count}f{bits_of(kind)}" if isinstance(kind, ir.VectorType) else f"f{bits_of(kind)}"
    function = ir.FunctionType(kind, [kind] * len(values))
    return builder.call(get_or_insert_function(builder.module, function, f"llvm.{name}.{suffix}"), values)


def emit_signed(builder: Any, magnitude: Any, sign: Any) -> Any:
    zero = constant(sign.type, 0.0)
    nonzero = builder.fcmp_unordered("!=", sign, zero)
    return builder.select(nonzero, intrinsic(builder, "copysign", magnitude, sign), zero)


class _Exp(NamedTuple):
    """The constants of an exponential.

    They are log 2 in two parts, the first short enough to be multiplied without rounding; the bits of the mantissa; the
    terms of the series; and the arguments beyond which the result is infinite or zero.
    """

    log2: tuple[float, float]
    mantissa: int
    terms: int
    most: float
    least: float


_EXP = {
    64: _Exp((0.6931471803691238, 1.9082149292705877e-10), 52, 14, 710.0, -746.0),
    32: _Exp((0.693145751953125, 1.4286068202862268e-06), 23, 8, 89.0, -104.0),
}


def emit_exp(builder: Any, x: Any) -> Any:
    """Emit exp(x) = 2^k exp(r) with x = k log 2 + r, accurate to one unit in the last place.

    A library's exp would differ between one lane and several.  exp(r) = 1 + (r + r^2 t(r)) for |r| <= log(2) / 2, where
    t is a Taylor series.  It is summed by Estrin's scheme, since its latency matters most.
    """

    def number(value: float) -> Any:
        return constant(x.type, value)

    def fma(a: Any, b: Any, c: Any) -> Any:
        return intrinsic(builder, "fma", a, b, c)

    bits = bits_of(x.type)
    log2, mantissa, terms_in_all, most, least = _EXP[bits]
    rounder = number(1.5 * 2.0**mantissa)  # adding it leaves the nearest integer in the low bits
    shifted = fma(x, number(1.4426950408889634), rounder)
    k = builder.fsub(shifted, rounder)
    r = fma(k, number(-log2[1]), fma(k, number(-log2[0]), x))
    square = power = builder.fmul(r, r)
    terms = [number(1.0 / math.factorial(i)) for i in range(2, terms_in_all)]
    terms = [fma(r, b, a) for a, b in zip(terms[::2], terms[1::2], strict=True)]
    while len(terms) > 1:
        pairs = [fma(power, b, a) for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[2 * len(pairs) :]
        power = builder.fmul(power, power)
    small = fma(square, terms[0], r)
    # 2^k as two factors, so that neither leaves the exponent's range
    integer = ir.IntType(bits)
    if isinstance(x.type, ir.VectorType):
        integer = ir.VectorType(integer, x.type.count)
    whole = builder.sub(builder.bitcast(shifted, integer), builder.bitcast(rounder, integer))
    half = builder.ashr(whole, constant(integer, 1))
    bias, place = constant(integer, 2 ** (bits - mantissa - 2) - 1), constant(integer, mantissa)
    first, second = (
        builder.bitcast(builder.shl(builder.add(exponent, bias), place), x.type)
        for exponent in (half, builder.sub(whole, half))
    )
    result = builder.fmul(fma(small, first, first), second)
    # for very large |x|, k does not fit; NaN passes, as no comparison holds for it
    result = builder.select(builder.fcmp_ordered(">", x, number(most)), number(math.inf), result)
    return builder.select(builder.fcmp_ordered("<", x, number(least)), number(0.0), result)
