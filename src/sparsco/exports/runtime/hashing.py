"""MurmurHash3 of the names of features."""

from __future__ import annotations

from typing import Any


def murmur3(raw: bytes, seed: int) -> int:
    """Return MurmurHash3 (32 bits, x86) of bytes."""
    h, whole = seed, len(raw) & ~3
    for at in range(0, whole, 4):
        h ^= _scrambled(int.from_bytes(raw[at : at + 4], "little"))
        h = (((h << 13 | h >> 19) & 0xFFFFFFFF) * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= _scrambled(int.from_bytes(raw[whole:], "little")) ^ len(raw)
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16


def _scrambled(k: int) -> int:
    k = k * 0xCC9E2D51 & 0xFFFFFFFF
    return ((k << 15 | k >> 17) & 0xFFFFFFFF) * 0x1B873593 & 0xFFFFFFFF


def hashed_term(name: str, options: dict[str, Any]) -> tuple[int, int] | None:
    """Return the feature and the sign of a name; None if its column has no weight."""
    h = murmur3(name.encode("utf-8", "surrogateescape"), options["seed"])
    positive = h < 1 << 31
    feature = options["features"].get((h if positive else (1 << 32) - h) & ((1 << options["bits"]) - 1))
    return None if feature is None else (feature, 1 if positive or not options["signed"] else -1)
