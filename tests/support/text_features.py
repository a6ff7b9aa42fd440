"""Texts to features in plain Python: the reference that the compiled tokeniser is compared with."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter

ASCII = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def kind_of(c):
    """Return what a character is in a text."""
    code, category = ord(c), unicodedata.category(c)
    if c in "'\u2019":
        return "apostrophe"
    if 0x3400 <= code < 0x4DC0 or 0x4E00 <= code < 0xA000 or 0xF900 <= code < 0xFB00 or 0x20000 <= code < 0x40000:
        return "alone"
    if 0xFE00 <= code < 0xFE10 or 0x1F3FB <= code < 0x1F400 or 0xE0000 <= code < 0xE1000:
        return "dropped"
    if code >= 0x40000:
        return "other"
    if c == "_" or category[0] in "LNM":
        return "letter"
    if category[0] == "Z" or category == "Cc":
        return "space"
    return {"Cf": "dropped", "So": "alone", "Sc": "alone"}.get(category, "other")


def folded(c, lowercase, strip_accents):
    """Return a character as it stands in names: "" if it is left out."""
    if strip_accents and ord(c) < 0x20000:
        if unicodedata.combining(c):
            return ""
        bare = "".join(x for x in unicodedata.normalize("NFKD", c) if not unicodedata.combining(x))
        c = bare if len(bare) == 1 and bare < "\U00020000" and kind_of(bare) == kind_of(c) else c
    if not lowercase or ord(c) >= 0x20000:
        return c
    low = c.casefold()
    return low if len(low) == 1 else c.lower()[0]


def joins(rest, spec):
    """Return whether an apostrophe with this text behind it belongs to the word before it."""
    letters = 0
    while letters < min(2, len(rest)) and rest[letters] in ASCII:
        letters += 1
    if not letters:
        return False
    behind = rest[letters : letters + 1]
    if not behind or ord(behind) >= 0x20000:
        return True
    return kind_of(behind) != "letter" or not folded(behind, spec.lowercase, spec.strip_accents)


def tokens_of(text, spec):
    """Return the words, or the characters, of a text."""
    tokens, word, blank = [], "", False
    for place, c in enumerate(text):
        kind, form = kind_of(c), folded(c, spec.lowercase, spec.strip_accents)
        if kind == "dropped" or not form:
            continue
        if spec.analyzer == "char":
            if kind == "space":
                blank = bool(tokens)
            else:
                tokens, blank = [*tokens, *([" "] if blank else []), form], False
        elif kind == "letter":
            word += form
        elif kind == "apostrophe" and word and joins(text[place + 1 :], spec):
            word += "'"
        else:
            tokens += ([word] if word else []) + ([form] if kind == "alone" else [])
            word = ""
    return tokens + ([word] if word else [])


def features_of(text, spec):
    """Return the features of a text and their values, in the order of first appearance."""
    tokens, (low, high), between = tokens_of(text, spec), spec.lengths, " " if spec.analyzer == "word" else ""
    found = Counter()
    for start in range(len(tokens)):
        for stop in range(start + low, min(start + high, len(tokens)) + 1):
            found[spec.prefix + between.join(tokens[start:stop])] += 1
        shape = re.sub("[0-9]", "#", tokens[start])
        if spec.shapes and spec.analyzer == "word" and low == 1 and shape != tokens[start]:
            found[spec.prefix + shape] += 1
    if spec.weighting == "binary":
        found = dict.fromkeys(found, 1.0)
    elif spec.weighting == "log":
        found = {name: 1.0 + math.log(count) for name, count in found.items()}
    size = math.sqrt(sum(value * value for value in found.values())) if spec.norm and spec.weighting != "tfidf" else 1.0
    return {name: value / size for name, value in found.items()}
