"""Words, characters and n-grams of a text."""

from __future__ import annotations

import math
from typing import Any

from .hashing import column_of, fingerprint

_SPACE, _LETTER, _ALONE, _DROPPED, _APOSTROPHE = 1, 2, 3, 4, 5


def unpacked(tables: dict[str, list[int]]) -> tuple[bytes, dict[int, str]]:
    """Return the class of each character of the first two planes, and the folded forms of those that have one."""
    runs, folds = tables["classes"], dict[int, str]()
    kinds = b"".join(bytes([runs[k + 1]]) * runs[k] for k in range(0, len(runs), 2))
    for k in range(0, len(tables["folds"]), 4):
        start, count, step, by = tables["folds"][k : k + 4]
        folds.update((code, chr(code + by)) for code in range(start, start + count * step, step))
    return kinds, folds


def _kind(code: int, kinds: bytes) -> int:
    if code < len(kinds):
        return kinds[code]
    return _ALONE if 0x20000 <= code < 0x40000 else _DROPPED if 0xE0000 <= code < 0xE1000 else 0


def _is_latin(character: str) -> bool:
    return "a" <= character <= "z" or "A" <= character <= "Z"


def _joins(text: str, at: int, kinds: bytes) -> bool:
    """Return whether one or two Latin letters stand here, and behind them nothing that is a part of a word."""
    if at >= len(text) or not _is_latin(text[at]):
        return False
    at += 1
    if at < len(text) and _is_latin(text[at]):
        at += 1
    return at >= len(text) or ord(text[at]) >= len(kinds) or kinds[ord(text[at])] != _LETTER


def words(text: str, kinds: bytes, folds: dict[int, str]) -> list[str]:
    """Return the words of a text, folded."""
    found, word = [], ""
    for at, character in enumerate(text):
        kind = _kind(ord(character), kinds)
        if kind in (_LETTER, _ALONE):
            folded = folds.get(ord(character), character)
            if kind == _LETTER:
                word += folded
                continue
            found += [word, folded] if word else [folded]
            word = ""
        elif kind != _DROPPED and word:
            if kind == _APOSTROPHE and _joins(text, at + 1, kinds):
                word += "'"
            else:
                found.append(word)
                word = ""
    return found + [word] if word else found


def characters(text: str, kinds: bytes, folds: dict[int, str]) -> list[str]:
    """Return the characters of a text, folded, with one blank for each run of white space between others."""
    found, waits = list[str](), False
    for character in text:
        kind = _kind(ord(character), kinds)
        if kind == _SPACE:
            waits = bool(found)
        elif kind != _DROPPED:
            if waits:
                found.append(" ")
                waits = False
            found.append(folds.get(ord(character), character))
    return found


def text_values(
    text: str, part: dict[str, Any], hashed: dict[str, Any] | None, kinds: bytes, folds: dict[int, str]
) -> dict[str, float]:
    """Return the features of a text, and their values; ``hashed`` are the options of a hash of names."""
    by_word, (low, high) = part["analyzer"] == "word", part["ngrams"]
    text.encode()  # raises a UnicodeEncodeError for half a character
    tokens = (words if by_word else characters)(text, kinds, folds)
    has_shapes = part["shapes"] and by_word and low == 1
    between, counts = " " if by_word else "", dict[str, int]()
    for start in range(len(tokens)):
        for stop in range(start + low, min(start + high, len(tokens)) + 1):
            name = between.join(tokens[start:stop])
            counts[name] = counts.get(name, 0) + 1
        if has_shapes:
            shape = "".join("#" if "0" <= each <= "9" else each for each in tokens[start])
            if shape != tokens[start]:
                counts[shape] = counts.get(shape, 0) + 1
    values = {name: _weighted(name, count, part, hashed) for name, count in counts.items()}
    norm = math.sqrt(sum(value * value for value in values.values())) if part["norm"] else 0.0
    return {name: value / norm for name, value in values.items()} if norm > 0.0 else values


def _weighted(name: str, count: int, part: dict[str, Any], hashed: dict[str, Any] | None) -> float:
    """Return the value of a feature that occurs so many times."""
    rule = part["weighting"]
    if rule == "tfidf":
        name = part["prefix"] + name
        key = fingerprint(name, part["seed"]) if hashed is None else column_of(name, hashed)
        return count * (math.log((1.0 + part["texts"]) / (1.0 + part["documents"].get(key, 0))) + 1.0)
    return 1.0 if rule == "binary" else 1.0 + math.log(count) if rule == "log" else float(count)
