"""What each character is in a text: a part of a word, a word of its own, white space; and its folded form.

The tables are made from ``unicodedata`` on first use.
"""

from __future__ import annotations

import functools
import unicodedata

import numpy as np

OTHER, SPACE, LETTER, ALONE, DROPPED, APOSTROPHE = range(6)
"""The classes: characters that separate words, white space and controls, parts of words (letters, digits, marks and
underscores), words of their own (ideographs, emoji and other symbols, currency signs), those that are left out wherever
they are (joiners, selectors, skin tones), and apostrophes."""

SIZE = 1 << 17
"""The number of characters in the tables: those of the first two planes."""
IDEOGRAPHS, TAGS = (0x20000, 0x40000), (0xE0000, 0xE1000)
"""The ranges above: words of their own, and characters that are left out; all others are of the class OTHER."""
_HAN = ((0x3400, 0x4DC0), (0x4E00, 0xA000), (0xF900, 0xFB00))
_SELECTORS = ((0xFE00, 0xFE10), (0x1F3FB, 0x1F400))
_BY_CATEGORY = {"L": LETTER, "N": LETTER, "M": LETTER, "Z": SPACE, "Cc": SPACE, "Cf": DROPPED, "So": ALONE, "Sc": ALONE}
_APOSTROPHES = (0x27, 0x2019)


@functools.cache
def classes() -> np.ndarray:
    """Return the class of each of the first `SIZE` characters."""
    categories = list(map(unicodedata.category, map(chr, range(SIZE))))
    known = {each: _BY_CATEGORY.get(each, _BY_CATEGORY.get(each[0], OTHER)) for each in set(categories)}
    table = np.frombuffer(bytes(map(known.__getitem__, categories)), np.uint8).copy()
    for kind, ranges in ((ALONE, _HAN), (DROPPED, _SELECTORS)):
        for start, stop in ranges:
            table[start:stop] = kind
    table[ord("_")] = LETTER
    table[list(_APOSTROPHES)] = APOSTROPHE
    return table


@functools.cache
def forms(lowercase: bool, strip_accents: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the class and the folded form of each of the first `SIZE` characters.

    Folding maps one character to one: those whose folded form has several (ß) stay as they are in lower case.  Without
    accents, marks are dropped.
    """
    kinds, folded = classes().copy(), np.arange(SIZE, dtype=np.uint32)
    if strip_accents:
        for c in range(0x80, SIZE):
            character = chr(c)
            if unicodedata.combining(character):
                kinds[c] = DROPPED
            elif unicodedata.decomposition(character):
                bare = [x for x in unicodedata.normalize("NFKD", character) if not unicodedata.combining(x)]
                if len(bare) == 1 and ord(bare[0]) < SIZE and kinds[ord(bare[0])] == kinds[c]:
                    folded[c] = ord(bare[0])
    if lowercase:
        low = folded.copy()
        for c, found in enumerate(map(str.casefold, map(chr, range(SIZE)))):
            if found != chr(c):
                low[c] = ord(found if len(found) == 1 else chr(c).lower()[0])
        folded = low[folded]
    return kinds, folded
