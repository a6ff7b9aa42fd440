"""Decimal text to doubles, correctly rounded: the result of ``float``, at a fraction of its time.

Text is read through addresses, not arrays: a helper with an array argument and a loop costs atomic reference counts at
every call.  The caller ensures that the text ends with a newline, which no number contains.  It also ensures that
`PADDING` bytes after it may be read: digits are found and converted many at a time.
"""

from __future__ import annotations

import ctypes
import re
import struct
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from ..jit.dispatch import U, inlined, kernel
from ..jit.memory import BYTE, PADDING, WORD, always_inlined, load, peek, primitive, word
from .files import Text

GOOD, BAD, HARD = 0, 1, 2
"""The results of `number`: a number was read; there is none; only Python's own ``float`` can decide."""

_TENS = 10.0 ** np.arange(23)
"""The powers of ten that are exact doubles."""
_WHOLE_TENS = 10 ** np.arange(20, dtype=np.uint64)
_LOWEST, _HIGHEST = -342, 308
"""The exponents of ten beyond which 19 digits are zero or infinite."""
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_BOX, _OFFSET = U(0x7FF8 << 48), U((1 << 48) - 1)


def _powers() -> np.ndarray:
    """Return the first 128 bits (high word, low word) of 5^q for all q, truncated; for reciprocals rounded up."""
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


_BYTES = ir.VectorType(BYTE, PADDING)


def _all_but(low: int, count: int = 1) -> Any:
    """Return a function that marks which of the 64 bytes from an address on are none of low, ..., low + count - 1.

    The result has a bit for each byte, the first one lowest.
    """

    def emit(builder: Any, x: Any) -> Any:
        text = builder.sub(load(_BYTES)(builder, x), ir.Constant(_BYTES, [low] * PADDING))
        return builder.bitcast(builder.icmp_unsigned(">=", text, ir.Constant(_BYTES, [count] * PADDING)), WORD)

    def plain(x: Any) -> Any:
        text = np.frombuffer(ctypes.string_at(int(x), PADDING), np.uint8)
        return np.packbits(text - np.uint8(low) >= count, bitorder="little").view("<u8")[0]

    return primitive(types.uint64, emit)(plain)


no_digits, no_minus, no_colons, no_bars = _all_but(48, 10), _all_but(45), _all_but(58), _all_but(124)
no_newlines, no_tabs_or_newlines, no_spaces = _all_but(10), _all_but(9, 2), _all_but(32)


@primitive(types.uint64, lambda builder, x: builder.cttz(x, ir.Constant(ir.IntType(1), 0)))
def lowest(x: Any) -> Any:
    """Return the position of the lowest bit that is set, 64 if none is."""
    return U((int(x) & -int(x)).bit_length() - 1 if x else 64)


@primitive(types.uint64, lambda builder, x: builder.ctpop(x))
def ones(x: Any) -> Any:
    """Return the number of bits that are set."""
    return U(int(x).bit_count())


@primitive(types.float64, lambda builder, x: builder.bitcast(x, ir.DoubleType()))
def as_float(x: Any) -> Any:
    """Return the double with these 64 bits."""
    return struct.unpack("d", struct.pack("Q", int(x)))[0]


@inlined
def high_product(a: Any, b: Any) -> Any:
    """Return the upper 64 of the 128 bits of a product."""
    half, low = U(32), U(0xFFFFFFFF)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    middle = a1 * b0 + (a0 * b0 >> half)
    return a1 * b1 + (middle >> half) + ((a0 * b1 + (middle & low)) >> half)


@inlined
def rounded(w: Any, q: Any) -> Any:
    """Return w 10^q as a double, and whether that is certain: Lemire's algorithm, for nonzero w."""
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


@always_inlined
def few_digits(p: Any, n: Any) -> Any:
    """Return the number that n digits from p on denote, n from 1 to 8: neighbours are joined to pairs, and so on."""
    x = (word(p) ^ U(0x3030303030303030)) << (U(64) - U(8) * n & U(63))
    x = x * U(10) + (x >> U(8))
    x = (x & U(0x00FF00FF00FF00FF)) * U(6553601) >> U(16)
    return (x & U(0x0000FFFF0000FFFF)) * U(42949672960001) >> U(32)


@inlined
def digits_behind(w: Any, p: Any) -> Any:
    """Return the number w with all digits from p on appended (modulo 2^64), and their end."""
    n = U(64)
    while n == U(64):
        n = lowest(no_digits(p))
        left = n
        while left > U(0):
            few = min(left, U(8))
            w = w * _WHOLE_TENS[few] + few_digits(p, few)
            p += few
            left -= few
    return w, p


@always_inlined
def stops_of(p: Any) -> Any:
    """Return a bit mask of the 64 bytes from p on that are no digits; a minus after a colon counts as a digit."""
    return no_digits(p) & (no_minus(p) | no_colons(p - U(1)))


@always_inlined
def next_stop(base: Any, stops: Any) -> Any:
    """Return the position of the next stop, and the rest; ``stops`` marks those of the 64 bytes from ``base`` on.

    The addresses that are read do not depend on earlier results, so a processor reads them ahead of the conversions.
    """
    while stops == U(0):
        base += U(64)
        stops = stops_of(base)
    return base + lowest(stops), base, stops & (stops - U(1))


@inlined
def scaled(w: Any, q: Any) -> Any:
    """Return w 10^q as a double, and whether that is certain."""
    if w <= U(1 << 53) and q >= -22 and q <= 22:
        value = np.float64(np.int64(w))
        return value / _TENS[U(-q)] if q < 0 else value * _TENS[U(q)], GOOD
    if w == U(0):
        return 0.0, GOOD
    return rounded(w, q)


@always_inlined
def short_number(p: Any, base: Any, stops: Any) -> Any:
    """Read a number like `number`, by `next_stop`, of at most 19 digits with 1 to 8 before a point; otherwise BAD.

    The number is preceded by a colon, and the caller ensures that no exponent follows.
    """
    stop, base, stops = next_stop(base, stops)
    minus = U(peek(p) == 45)
    p += minus
    digits = stop - p
    if digits - U(1) > U(7):
        return 0.0, stop, base, stops, BAD
    w, places = U(peek(p)) - U(48) if digits == U(1) else few_digits(p, digits), U(0)
    if peek(stop) == 46:
        p = stop + U(1)
        stop, base, stops = next_stop(base, stops)
        places = stop - p
        if places - U(1) <= U(7):
            w = w * _WHOLE_TENS[places] + few_digits(p, places)
        elif places + digits > U(19):
            return 0.0, stop, base, stops, BAD
        else:
            w, p = digits_behind(w, p)
    if w <= U(1 << 53):
        sign = -np.int64(minus)
        return np.float64((np.int64(w) ^ sign) - sign) / _TENS[places], stop, base, stops, GOOD
    value, state = rounded(w, -np.int64(places))
    return -value if minus else value, stop, base, stops, state


@inlined
def number(p: Any) -> Any:
    """Return the number whose text begins at p, the end of its text, and one of GOOD, BAD, HARD."""
    start, c = p, peek(p)
    negative = c == 45
    if c == 45 or c == 43:
        p += U(1)
    first, q = p, 0
    w, p = digits_behind(U(0), p)
    digits = p - first
    if peek(p) == 46:
        p += U(1)
        dot = p
        w, p = digits_behind(w, p)
        q = -np.int64(p - dot)
        digits += p - dot
    if digits == U(0):
        return 0.0, start, BAD
    state = GOOD
    if digits > U(19):
        c = U(peek(first))
        while digits > U(0) and (c == U(48) or c == U(46)):
            digits -= U(c == U(48))
            first += U(1)
            c = U(peek(first))
        if digits > U(19):
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
    size = np.int64(digits) + q
    if state == HARD and (size > 350 or size < -350):
        value, state = np.inf if size > 0 else 0.0, GOOD
    elif state == GOOD:
        value, state = scaled(w, q)
    return -value if negative else value, p, state


@kernel
def counts(p: Any, size: Any) -> Any:
    """Return how many newlines, colons and other blanks a text has."""
    newlines, colons, blanks, end = U(0), U(0), U(0), p + size
    while p < end:
        beyond = U(0) if end - p >= U(64) else U(0xFFFFFFFFFFFFFFFF) << (end - p)
        new = ones(~(no_newlines(p) | beyond))
        newlines += new
        colons += ones(~(no_colons(p) | beyond))
        blanks += ones(~(no_tabs_or_newlines(p) & no_spaces(p) | beyond)) - new
        p += U(64)
    return np.int64(newlines), np.int64(colons), np.int64(blanks)


@inlined
def boxed(offset: Any) -> Any:
    """Return a NaN that holds the position of a hard number's text, to be read by `unbox` later."""
    return as_float(_BOX | (U(offset) + U(1)))


def unbox(values: np.ndarray, text: Text) -> None:
    """Read the hard numbers among ``values`` by Python's ``float``; kernels have checked that they are numbers."""
    bits, raw = values.view(np.uint64), bytes(text)
    for k in np.flatnonzero(np.isnan(values) & (bits & _OFFSET != 0)):
        found = _NUMBER.match(raw, int(bits[k] & _OFFSET) - 1)
        assert found
        values[k] = float(found[0])
