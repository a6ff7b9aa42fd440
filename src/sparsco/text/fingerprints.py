"""Fingerprints of the names of features: 64 bits that stand for a name in every source.

They are two MurmurHash3 of the name's bytes (UTF-8).  The lower one is that of scikit-learn's ``FeatureHasher``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..jit.dispatch import U, inlined, kernel
from ..jit.memory import padded, word

LOW = U(0xFFFFFFFF)
_SECOND = 0x9747B28C

NamesOf = Callable[[np.ndarray], list[str]]
"""A function that returns the names of the entries with these numbers."""


def to_bytes(name: str) -> bytes:
    """Return the bytes of a name as in a file."""
    return name.encode("utf-8", "surrogateescape")


def to_name(raw: bytes) -> str:
    """Return the name with these bytes, which may be any."""
    return raw.decode("utf-8", "surrogateescape")


def fingerprints(names: Iterable[str], seed: int) -> np.ndarray:
    """Return 64 bits for each name; the lower half is its MurmurHash3 with this seed."""
    raw = [to_bytes(name) for name in names]
    ends = np.cumsum(np.fromiter(map(len, raw), np.int64, len(raw)))
    text = np.frombuffer(padded(b"".join(raw) + b"\n"), np.uint8)
    keys = np.empty(len(raw), np.uint64)
    hash_all(U(text.ctypes.data), ends, U(seed), keys)
    return keys


@inlined
def _scrambled(k: Any) -> Any:
    """Return the contribution of four bytes of text to MurmurHash3, which does not depend on the seed."""
    k = k * U(0xCC9E2D51) & LOW
    return ((k << U(15) | k >> U(17)) & LOW) * U(0x1B873593) & LOW


@inlined
def _stirred(h: Any) -> Any:
    return ((h << U(13) | h >> U(19)) & LOW) * U(5) + U(0xE6546B64) & LOW


@inlined
def _finished(h: Any) -> Any:
    h = (h ^ (h >> U(16))) * U(0x85EBCA6B) & LOW
    h = (h ^ (h >> U(13))) * U(0xC2B2AE35) & LOW
    return h ^ (h >> U(16))


@inlined
def fingerprint(p: Any, n: Any, seed: Any) -> Any:
    """Return MurmurHash3 (32 bits, x86) of n bytes, and above it that of another seed; it may read `PADDING` more."""
    h, g, end = seed, seed ^ U(_SECOND), p + (U(n) & ~U(3))
    while p < end:
        k = _scrambled(word(p) & LOW)
        h, g, p = _stirred(h ^ k), _stirred(g ^ k), p + U(4)
    k = _scrambled(word(p) & ((U(1) << U(8) * (U(n) & U(3))) - U(1)))
    return _finished(h ^ k ^ U(n)) | _finished(g ^ k ^ U(n)) << U(32)


@kernel
def hash_all(at, ends, seed, keys):
    """Write the fingerprints of texts that are stored one after the other."""
    start = U(0)
    for i in range(ends.size):
        keys[i] = fingerprint(at + start, ends[i] - np.int64(start), seed)
        start = U(ends[i])
