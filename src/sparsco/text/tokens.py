"""Kernels from UTF-8 to features: tokens of a text, and the fingerprints and counts of their n-grams.

Tokens are written one after the other, folded, as they stand in names: words with a blank between them, characters
without.  So an n-gram is a piece of that memory.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..jit.dispatch import U, inlined, kernel
from ..jit.memory import always_inlined, peek, word
from .characters import ALONE, APOSTROPHE, DROPPED, IDEOGRAPHS, LETTER, OTHER, SIZE, SPACE, TAGS
from .fingerprints import fingerprint

_NEWLINE, _BLANK, _HASH, _QUOTE, _ZERO, _NINE = 10, 32, 35, 39, 48, 57
_ONE = U(1)
_UPPER, _THREES = U(0xF0F0F0F0F0F0F0F0), U(0x3030303030303030)
_LOWER, _TOP = U(0x7F7F7F7F7F7F7F7F), U(0x8080808080808080)
INVALID = 0
"""The length of a character that is not valid UTF-8."""


@inlined
def decoded(p: Any, end: Any) -> Any:
    """Return the character at an address and the number of its bytes; `INVALID` bytes if they are not UTF-8."""
    a, left = U(peek(p)), end - p
    if a < U(0x80):
        return a, U(1)
    if a < U(0xC2) or left < U(2):
        return a, U(INVALID)
    b = U(peek(p + U(1))) ^ U(0x80)
    if a < U(0xE0):
        return (a & U(31)) << U(6) | b, U(2) if b < U(64) else U(INVALID)
    if left < U(3):
        return a, U(INVALID)
    c = U(peek(p + U(2))) ^ U(0x80)
    if a < U(0xF0):
        code = (a & U(15)) << U(12) | b << U(6) | c
        is_good = b < U(64) and c < U(64) and code >= U(0x800) and not U(0xD800) <= code < U(0xE000)
        return code, U(3) if is_good else U(INVALID)
    if left < U(4):
        return a, U(INVALID)
    d = U(peek(p + U(3))) ^ U(0x80)
    code = (a & U(7)) << U(18) | b << U(12) | c << U(6) | d
    is_good = a < U(0xF5) and b < U(64) and c < U(64) and d < U(64) and U(0x10000) <= code < U(0x110000)
    return code, U(4) if is_good else U(INVALID)


@inlined
def class_above(code: Any) -> Any:
    """Return the class of a character behind the tables."""
    if code >= U(IDEOGRAPHS[0]) and code < U(IDEOGRAPHS[1]):
        return ALONE
    return DROPPED if code >= U(TAGS[0]) and code < U(TAGS[1]) else OTHER


@always_inlined
def put(out: Any, to: Any, code: Any) -> Any:
    """Write a character as UTF-8 and return the number of its bytes."""
    if code < U(0x80):
        out[to] = code
        return U(1)
    if code < U(0x800):
        out[to], out[to + U(1)] = U(0xC0) | code >> U(6), U(0x80) | code & U(63)
        return U(2)
    if code < U(0x10000):
        out[to], out[to + U(1)] = U(0xE0) | code >> U(12), U(0x80) | code >> U(6) & U(63)
        out[to + U(2)] = U(0x80) | code & U(63)
        return U(3)
    out[to], out[to + U(1)] = U(0xF0) | code >> U(18), U(0x80) | code >> U(12) & U(63)
    out[to + U(2)], out[to + U(3)] = U(0x80) | code >> U(6) & U(63), U(0x80) | code & U(63)
    return U(4)


@kernel
def words(at, begins, stops, kinds, folded, out, starts, ends, tokens):
    """Write the words of texts; return their number and the first text that is not UTF-8 (-1: none).

    A word is a run of letters, digits, marks and underscores, or one character of the class ALONE.  An apostrophe
    belongs to a word if one or two Latin letters follow it and end there: don't, it's, but l'homme is two words.
    """
    to, count = U(0), U(0)
    for i in range(begins.size):
        p, end, inside = at + U(begins[i]), at + U(stops[i]), False
        while p < end:
            code, length = U(peek(p)), U(1)
            if code >= U(0x80):
                code, length = decoded(p, end)
                if length == U(INVALID):
                    return count, i
            kind = U(kinds[code]) if code < U(SIZE) else U(class_above(code))
            p += length
            if kind == U(LETTER) or kind == U(ALONE):
                if inside and kind == U(ALONE):
                    ends[count], inside = to, False
                    count += _ONE
                if not inside:
                    if to:
                        out[to] = _BLANK
                        to += _ONE
                    starts[count], inside = to, True
                to += put(out, to, U(folded[code]) if code < U(SIZE) else code)
                if kind == U(ALONE):
                    ends[count], inside = to, False
                    count += _ONE
            elif kind != U(DROPPED) and inside:
                if kind == U(APOSTROPHE) and _joins(p, end, kinds):
                    out[to] = _QUOTE
                    to += _ONE
                else:
                    ends[count], inside = to, False
                    count += _ONE
        if inside:
            ends[count] = to
            count += _ONE
        tokens[i + 1] = count
    return count, -1


@inlined
def _is_latin(code: Any) -> Any:
    letter = code | U(32)
    return letter >= U(97) and letter <= U(122)


@inlined
def _joins(p: Any, end: Any, kinds: Any) -> Any:
    """Return whether one or two Latin letters stand here, and behind them nothing that is a part of a word."""
    if p >= end or not _is_latin(U(peek(p))):
        return False
    p += U(1)
    if p < end and _is_latin(U(peek(p))):
        p += U(1)
    if p >= end:
        return True
    code, length = decoded(p, end)
    return length == U(INVALID) or code >= U(SIZE) or kinds[code] != LETTER


@kernel
def characters(at, begins, stops, kinds, folded, out, starts, ends, tokens):
    """Write the characters of texts as tokens, with one blank for each run of white space between others.

    Return the number of characters and the first text that is not UTF-8 (-1: none).
    """
    to, count = U(0), U(0)
    for i in range(begins.size):
        p, end, waits, first = at + U(begins[i]), at + U(stops[i]), False, count
        while p < end:
            code, length = decoded(p, end)
            if length == U(INVALID):
                return count, i
            kind = U(kinds[code]) if code < U(SIZE) else U(class_above(code))
            p += length
            if kind == U(SPACE):
                waits = count > first
            elif kind != U(DROPPED):
                if waits:
                    starts[count], ends[count], out[to], waits = to, to + _ONE, _BLANK, False
                    to, count = to + _ONE, count + _ONE
                starts[count] = to
                to += put(out, to, U(folded[code]) if code < U(SIZE) else code)
                ends[count] = to
                count += _ONE
        tokens[i + 1] = count
    return count, -1


@inlined
def has_digit(p: Any, end: Any) -> Any:
    """Return whether one of the digits 0 to 9 is among the bytes of a word: no others there have 3 as upper half."""
    while p < end:
        y = (word(p) & _UPPER) ^ _THREES
        if end - p < U(8):
            y |= ~U(0) << U(8) * (end - p)
        if ~((y & _LOWER) + _LOWER | y) & _TOP:  # a byte of y is zero
            return True
        p += U(8)
    return False


@inlined
def copied(p: Any, end: Any, as_shape: Any, scratch: Any, to: Any) -> Any:
    """Copy bytes, for a shape with # in place of digits; return the end of the copy."""
    while p < end:
        b = peek(p)
        scratch[to] = _HASH if as_shape and b >= _ZERO and b <= _NINE else b
        p, to = p + U(1), to + U(1)
    return to


@kernel
def counted(
    at, starts, ends, tokens, low, high, shapes, seed, scratch_at, scratch, fixed, slots, indptr, keys, where, counts
):
    """Write the distinct features of each text in the order of first appearance: fingerprints, places and counts.

    These are n-grams of ``low`` to ``high`` tokens, and with ``shapes`` the shape of each token with digits, whose
    place has a negative length.  ``scratch`` begins with the ``fixed`` bytes that stand before every name.  ``slots``
    is a hash table, a power of two of -1; what it holds of earlier texts is not valid, since their entries have smaller
    numbers.
    """
    to, mask = U(0), U(slots.size) - _ONE
    for i in range(tokens.size - 1):
        first, stop = to, U(tokens[i + 1])
        for j in range(U(tokens[i]), stop):
            start, last = U(starts[j]), min(j + U(high), stop)
            more = U(1) if shapes and has_digit(at + start, at + U(ends[j])) else U(0)
            for k in range(j + U(low) - _ONE, last + more):
                is_shape = k == last
                n = U(ends[j if is_shape else k]) - start
                if fixed or is_shape:
                    size = copied(at + start, at + start + n, is_shape, scratch, U(fixed))
                    key = fingerprint(scratch_at, size, seed)
                else:
                    key = fingerprint(at + start, n, seed)
                slot = (key ^ key >> U(29)) & mask
                entry = slots[slot]
                while entry >= first and keys[U(entry)] != key:
                    slot = (slot + _ONE) & mask
                    entry = slots[slot]
                if entry >= first:
                    counts[U(entry)] += 1.0
                else:
                    slots[slot], keys[to], counts[to] = to, key, 1.0
                    where[to, 0], where[to, 1] = start, -np.int64(n) if is_shape else np.int64(n)
                    to += _ONE
        indptr[i + 1] = to
    return to


@kernel
def lines(at, where, out):
    """Write the names of entries at these places, each with a newline behind it; no name contains one."""
    to = U(0)
    for i in range(where.shape[0]):
        start, n = at + U(where[i, 0]), where[i, 1]
        to = copied(start, start + U(abs(n)), n < 0, out, to)
        out[to] = _NEWLINE
        to += _ONE


@kernel
def weighted(indptr, binary, log, norm, values):
    """Turn the counts of each row into values: 1, or 1 + log(count); with ``norm`` of Euclidean norm 1."""
    for i in range(indptr.size - 1):
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            c = values[U(p)]
            if c > 1.0 and binary:
                values[U(p)] = c = 1.0
            elif c > 1.0 and log:
                values[U(p)] = c = 1.0 + math.log(c)
            total += c * c
        if norm and total > 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                values[U(p)] /= math.sqrt(total)
