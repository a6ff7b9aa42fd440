"""Which features are crossed: rules such as ``a:b``, and the features that their words stand for.

A rule is a pair of words.  A word is the name of a feature, or that of all features whose names go on with one of
``= ^ : ?``: so the name of a table's column stands for its categories, its words and the parts of its dates, and that
of a namespace for its features.  ``*`` stands for every feature.  A column without a name is called by its number, and
``0-9`` is a range of columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

Word = tuple[str, ...]
"""The names that one side of a rule stands for."""
EVERY = "*"
ALL = ((EVERY,), (EVERY,))
_GOES_ON = re.compile(r"[=^:?]")
_MOST_WORDS = 64
_MOST_BITS = 26
MOST_PARENTS = 128
"""The most features that are selected at a boundary, by default: they have 8128 crosses."""


class Cross(NamedTuple):
    """The crosses that were asked for: pairs of words, and how they are made."""

    pairs: tuple[tuple[Word, Word], ...]
    birth: int = 0
    """The most features that are selected at a boundary; 0 if crosses need not be born."""
    bits: int = 0
    """Crosses are hashed into ``2 ** bits`` columns; 0 if they have names."""

    def check(self) -> Cross:
        """Return the record itself; raise a ValueError for rules or a number of columns that there cannot be."""
        if not self.pairs or not all(word and all(word) for pair in self.pairs for word in pair):
            raise ValueError("cross has a rule without a name: write it as in city:age.")
        if len(self.words) > _MOST_WORDS:
            raise ValueError(f"cross has {len(self.words)} different words; at most {_MOST_WORDS} are possible.")
        if not 0 <= self.bits <= _MOST_BITS:
            raise ValueError(f"cross_bits must be a whole number from 1 to {_MOST_BITS}, not {self.bits!r}.")
        if self.birth < 0 or self.birth == 1:
            raise ValueError(f"birth must be a number of features of at least 2, not {self.birth!r}.")
        if self.bits and self.birth:
            raise ValueError(
                "cross_bits and birth exclude each other: crosses that are born are few, and keep their names."
            )
        return self

    @property
    def words(self) -> list[Word]:
        """Return the different words of the rules."""
        return list(dict.fromkeys(word for pair in self.pairs for word in pair))

    @property
    def is_all(self) -> bool:
        """Return whether every pair of features is meant."""
        return ALL in self.pairs

    def spelled(self) -> list[str]:
        """Return the rules as text."""
        return ["all" if pair == ALL else ":".join(",".join(word) for word in pair) for pair in self.pairs]

    def with_everything(self, names: Iterable[str]) -> Cross:
        """Return the rules where each of these names stands for every feature, as that of the only column of texts."""
        known = {(name,) for name in names}
        return self._replace(
            pairs=tuple(((EVERY,) if a in known else a, (EVERY,) if b in known else b) for a, b in self.pairs)
        )

    def sides(self) -> np.ndarray:
        """Return the rules as bits, (2, rules): the bit of the first word and that of the second."""
        bit = {word: 1 << k for k, word in enumerate(self.words)}
        return np.array([[bit[pair[side]] for pair in self.pairs] for side in (0, 1)], np.uint64).reshape(2, -1)

    def members(self, names: Sequence[str | None], columns: Sequence[int]) -> np.ndarray:
        """Return the bits of the words that stand for features with these names, or without one in these columns."""
        bits: dict[str, int] = {}
        ranges: list[tuple[int, int, int]] = []
        for k, word in enumerate(self.words):
            for name in word:
                bits[name] = bits.get(name, 0) | 1 << k
                ranges += [(*bounds, 1 << k) for bounds in _ranges(name)]
        found = np.full(len(names), bits.get(EVERY, 0), np.uint64)
        for i, (called, column) in enumerate(zip(names, columns, strict=True)):
            own = 0
            if called is None:
                for low, high, bit in ranges:
                    own |= bit if low <= column <= high else 0
            else:
                own = bits.get(called, 0)
                for mark in _GOES_ON.finditer(called):
                    own |= bits.get(called[: mark.start()], 0)
            found[i] |= np.uint64(own)
        return found


def cross_of(cross: Any, birth: Any = None, bits: int | None = None) -> Cross | None:
    """Return the record of crosses such as ``["a:b"]``, ``"all"`` or ``[("a", ["b", "c"])]``; None if there are none.

    Raises a ValueError for what is not valid.
    """
    if cross is None or (not isinstance(cross, str) and not len(cross)):
        for name, value in (("birth", birth), ("cross_bits", bits)):
            if value:
                raise ValueError(f"{name}={value!r} is for crosses: give cross= (--cross), too.")
        return None
    if isinstance(cross, Cross):
        return cross
    pairs = tuple(dict.fromkeys(_pair(each) for each in ([cross] if isinstance(cross, str) else cross)))
    if bits is not None and (isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits <= _MOST_BITS):
        raise ValueError(f"cross_bits must be a whole number from 1 to {_MOST_BITS}, not {bits!r}.")
    return Cross(pairs, _most_parents(birth), bits or 0).check()


def _most_parents(birth: Any) -> int:
    if birth is None or isinstance(birth, bool):
        return MOST_PARENTS if birth else 0
    if not isinstance(birth, int) or birth < 2:
        raise ValueError(f"birth must be True, False or a number of features of at least 2, not {birth!r}.")
    return birth


def _pair(rule: Any) -> tuple[Word, Word]:
    """Return the two words of a rule."""
    if rule == "all":
        return ALL
    sides = rule.split(":") if isinstance(rule, str) else rule
    if isinstance(sides, str) or not isinstance(sides, Sequence) or len(sides) != 2:
        raise ValueError(
            f"cross has {rule!r}: write all, or two names with one colon, such as city:age; where a name has a colon "
            "itself, give a pair in Python: cross=[('day:month', 'city')]."
        )
    return _word(sides[0], rule), _word(sides[1], rule)


def _word(side: Any, rule: Any) -> Word:
    names = (side,) if isinstance(side, str | int) and not isinstance(side, bool) else side
    word = tuple(str(name) for name in names) if isinstance(names, Sequence | np.ndarray | range) else ()
    if not word or "" in word:
        raise ValueError(f"cross has {rule!r}, where a name is missing: write it as in city:age.")
    return word


def _ranges(name: str) -> list[tuple[int, int]]:
    """Return the columns that a word such as 3, x3, 0-9 or 1,4 stands for."""
    found = re.fullmatch(r"x?(\d+)(?:-(\d+))?((?:,\d+(?:-\d+)?)*)", name)
    if found is None:
        return []
    low, high, more = found.groups()
    own = [(int(low), int(high or low))]
    return own + [bounds for part in more.split(",")[1:] for bounds in _ranges(part)]
