"""Decimal text to doubles, correctly rounded: what ``float`` would give, at a fraction of its time.

Text is read through addresses, not arrays: a helper with an array argument and a loop costs atomic reference counts at
every call.  Whoever calls sees to it that the text ends with a newline, which no number contains.
"""

from __future__ import annotations

import ctypes
import re
import struct
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from ..dispatch import _INNER, U, inlined

GOOD, BAD, HARD = 0, 1, 2
"""What `number` says: a number was read; there is none; only Python's own ``float`` can tell."""

_TENS = 10.0 ** np.arange(23)
"""The powers of ten that are doubles."""
_LOWEST, _HIGHEST = -342, 308
"""Exponents of ten beyond which 19 digits are zero or infinite."""
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_BOX, _OFFSET = U(0x7FF8 << 48), U((1 << 48) - 1)


def _powers() -> np.ndarray:
    """The first 128 bits of 5^q for all exponents q, truncated; of reciprocals rounded up.  High word, low word."""
    table = np.empty((_HIGHEST - _LOWEST + 1, 2), np.uint64)
    for q in range(_LOWEST, _HIGHEST + 1):
        power = 5 ** abs(q)
        if q >= 0:
            bits = power << 128 >> power.bit_length()
        else:
            bits = (1 << power.bit_length() + 127) // power + 1
            bits = bits >> max(bits.bit_length() - 128, 0)
        table[q - _LOWEST] = bits >> 64, bits & (1 << 64) - 1
    return table


_FIVES = _powers()


def peek(p: Any) -> Any:
    """The byte at an address."""
    return np.uint8(ctypes.c_uint8.from_address(int(p)).value)


def as_float(bits: Any) -> Any:
    """The double with these 64 bits."""
    return struct.unpack("d", struct.pack("Q", int(bits)))[0]


@intrinsic
def _peek(typing: Any, p: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = context.get_value_type(types.uint8)
        return builder.load(builder.inttoptr(args[0], byte.as_pointer()))

    return types.uint8(types.uint64), emit


@intrinsic
def _as_float(typing: Any, bits: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.uint64), emit


@overload(peek, strict=False, jit_options=_INNER)
def _compiled_peek(p: Any) -> Any:
    return lambda p: _peek(p)


@overload(as_float, strict=False, jit_options=_INNER)
def _compiled_as_float(bits: Any) -> Any:
    return lambda bits: _as_float(bits)


@inlined
def high_product(a: Any, b: Any) -> Any:
    """The upper 64 of the 128 bits of a product."""
    half, low = U(32), U(0xFFFFFFFF)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    middle = a1 * b0 + (a0 * b0 >> half)
    return a1 * b1 + (middle >> half) + ((a0 * b1 + (middle & low)) >> half)


@inlined
def rounded(w: Any, q: Any) -> Any:
    """w 10^q as a double, and whether that is certain: Lemire's algorithm, w nonzero."""
    if q < _LOWEST or q > _HIGHEST:
        return (0.0 if q < 0 else np.inf), GOOD
    zeros, one = U(0), U(1)
    top = w
    for step in (32, 16, 8, 4, 2, 1):
        if top >> U(64 - step) == U(0):
            top = top << U(step)
            zeros += U(step)
    at = U(q - _LOWEST)
    upper, lower = high_product(top, _FIVES[at, 0]), top * _FIVES[at, 0]
    if upper & U(0x1FF) == U(0x1FF):
        more = high_product(top, _FIVES[at, 1])
        lower += more
        if lower < more:
            upper += one
    if lower == U(0xFFFFFFFFFFFFFFFF) and (q < -27 or q > 55):
        return 0.0, HARD
    bit = upper >> U(63)
    mantissa = upper >> (bit + U(9))
    exponent = ((217706 * q) >> 16) + 63 + np.int64(bit) - np.int64(zeros) + 1023
    if exponent <= -53:  # less than half of the least double
        return 0.0, GOOD
    if exponent <= 0 or exponent >= 2046:  # subnormal or nearly infinite
        return 0.0, HARD
    if lower <= one and q >= -4 and q <= 23 and mantissa & U(3) == one and mantissa << (bit + U(9)) == upper:
        mantissa &= ~one  # halfway: to even
    mantissa = (mantissa + (mantissa & one)) >> one
    if mantissa >= U(1 << 53):
        mantissa = U(1 << 52)
        exponent += 1
    return as_float((mantissa & U((1 << 52) - 1)) | (U(exponent) << U(52))), GOOD


@inlined
def number(p: Any) -> Any:
    """The number whose text begins at p, where its text ends, and one of GOOD, BAD, HARD."""
    start, c = p, peek(p)
    negative = c == 45
    if c == 45 or c == 43:
        p += U(1)
    first, w = p, U(0)
    c = U(peek(p)) - U(48)
    while c <= U(9):
        w = w * U(10) + c
        p += U(1)
        c = U(peek(p)) - U(48)
    digits, q = np.int64(p - first), 0
    if c == U(0xFFFFFFFFFFFFFFFE):  # a point
        p += U(1)
        dot = p
        c = U(peek(p)) - U(48)
        while c <= U(9):
            w = w * U(10) + c
            p += U(1)
            c = U(peek(p)) - U(48)
        q = -np.int64(p - dot)
        digits -= q
    if digits == 0:
        return 0.0, start, BAD
    state = GOOD
    if digits > 19:
        c = U(peek(first))
        while digits > 0 and (c == U(48) or c == U(46)):
            digits -= c == U(48)
            first += U(1)
            c = U(peek(first))
        if digits > 19:
            state = HARD
    c = U(peek(p))
    if c == U(101) or c == U(69):
        p += U(1)
        c = U(peek(p))
        down = c == U(45)
        if c == U(45) or c == U(43):
            p += U(1)
        e, mark = 0, p
        c = U(peek(p)) - U(48)
        while c <= U(9):
            e = min(e * 10 + np.int64(c), 100000)
            p += U(1)
            c = U(peek(p)) - U(48)
        if p == mark:
            return 0.0, start, BAD
        q += -e if down else e
    value = 0.0
    if state == HARD and (digits + q > 350 or digits + q < -350):
        value, state = np.inf if digits + q > 0 else 0.0, GOOD
    elif state == GOOD and w != U(0):
        if w <= U(1 << 53) and q >= -22 and q <= 22:
            value = np.float64(w) / _TENS[U(-q)] if q < 0 else np.float64(w) * _TENS[U(q)]
        else:
            value, state = rounded(w, q)
    return -value if negative else value, p, state


@inlined
def boxed(offset: Any) -> Any:
    """NaN with the place of a hard number's text in it, to be read by `unbox` later."""
    return as_float(_BOX | (U(offset) + U(1)))


def unbox(values: np.ndarray, text: bytes) -> None:
    """Read the hard numbers among ``values`` by Python's ``float``; kernels have seen to it that they are numbers."""
    bits = values.view(np.uint64)
    for k in np.flatnonzero(np.isnan(values) & (bits & _OFFSET != 0)):
        found = _NUMBER.match(text, int(bits[k] & _OFFSET) - 1)
        assert found
        values[k] = float(found[0])
