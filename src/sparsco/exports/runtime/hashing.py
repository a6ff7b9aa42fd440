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


def column_of(name: str, options: dict[str, Any]) -> int:
    """Return the column of a name by its hash."""
    h = murmur3(name.encode("utf-8", "surrogateescape"), options["seed"])
    return (h if h < 1 << 31 else (1 << 32) - h) & ((1 << options["bits"]) - 1)


def fingerprint(name: str, seed: int) -> str:
    """Return 62 bits of two hashes of a name, as hexadecimal digits."""
    raw = name.encode("utf-8", "surrogateescape")
    return f"{(murmur3(raw, seed) | murmur3(raw, seed ^ 0x9747B28C) << 32) & (1 << 62) - 1:016x}"


def hashed_term(name: str, options: dict[str, Any]) -> tuple[int, int] | None:
    """Return the feature and the sign of a name; None if its column has no weight."""
    h = murmur3(name.encode("utf-8", "surrogateescape"), options["seed"])
    feature = options["features"].get(column_of(name, options))
    return None if feature is None else (feature, 1 if h < 1 << 31 or not options["signed"] else -1)
