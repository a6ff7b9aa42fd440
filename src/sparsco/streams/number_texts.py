"""Texts that look like numbers, such as "4,471.58", "12.3%" and "$ 12.00": they are recognised, and never parsed.

A column of them would be a category, and a target of them would have a class for nearly every row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

SHARE = 0.95
"""Texts look like numbers if more than this share of them does."""
MOST_WORDS, FEW_WORDS, ENOUGH_ROWS = 1000, 20, 1000
"""Words are classes up to so many of them, and so few in any case; so many rows show what most labels are like."""
_UNITS = frozenset(
    "% ‰ ° °c °f g kg mg lb lbs oz m km cm mm ft in mi l ml cl kb mb gb tb w kw kwh hp v mv hz khz mhz ghz k mph km/h "
    "kph px pt pts pcs ms sec min mins h hr hrs hour hours day days week weeks month months year years yr yrs".split()
)
"""The units, in small letters, after which whole numbers are quantities; other words make a code, as in 390 ABC."""
_LONGEST, _MOST = 40, 1000
_CURRENCY = (
    r"(?:[A-Z]{0,2}[$€£¥₹₩₽₺₪฿₫₴₦]|Rs\.?|kr\.?|zł|USD|EUR|GBP|JPY|CHF|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN"
    r"|ZAR|KRW|RUB|TRY)"
)
_SIGN = r"[+\-−–]?"
_DIGITS = (
    r"(?:\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d*)?"  # 4,471.58, and groups of two as in 12,34,567
    r"|\d{1,3}(?:\.\d{3})+(?:,\d*)?"  # 4.471,58
    r"|\d{1,3}(?:['’\s]\d{3})+(?:[.,]\d*)?"  # 4'471.58 and 4 471,58
    r"|(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?)"
)
_NUMBER = re.compile(
    rf"[<>~≈≤≥]?\s*\(?\s*{_SIGN}\s*(?P<money>{_CURRENCY})?\s*{_SIGN}\s*(?P<digits>{_DIGITS})-?\s*\)?\s*(?P<unit>[^\d\s(),.:;+\-][^\d(),:;]{{0,11}})?"
)

_MONEY, _CODE = re.compile(_CURRENCY), re.compile(r"0\d+")
_GROUPS = re.compile(r"\d{1,3}(?:(?:\.\d{3}){2,}|(?:\s\d{3})+)")
"""Groups of a number, or of an address, a version or a telephone number: 115.217.181.147, 7.216.100, 273 971 173."""


class NumberTexts(NamedTuple):
    """What shows that texts are numbers: one of them, and a text among them that is no number."""

    example: str
    other: str | None
    are_plain: bool
    """Whether Python reads those that are numbers."""


def number_texts(texts: Iterable[str]) -> NumberTexts | None:
    """Return what shows that more than 95% of some texts are numbers with separators, signs or units; else None.

    >>> number_texts(["4,471.58", "$ 12.00", "(3.5)", "1.234,5", "12.3 %"])
    NumberTexts(example='4,471.58', other=None, are_plain=False)
    >>> number_texts(["2021-03-04", "10:30", "1.2.3", "A12", "4x4"]) is None
    True
    """
    some = [text.strip() for text in texts][:_MOST]
    if any(_CODE.fullmatch(text) for text in some):  # 01058 is a code, and so are those beside it
        return None
    found = [_NUMBER.fullmatch(text) if len(text) <= _LONGEST else None for text in some]
    units = _units([match for match in found if match])
    are = [bool(match) and (not match["unit"] or match["unit"].strip() in units) for match in found]  # type: ignore[index]
    if not some or sum(are) <= SHARE * len(some):
        return None
    shapes = Counter(_groups(match) for match, is_number in zip(found, are, strict=True) if match and is_number)
    shape, count = shapes.most_common(1)[0]
    if shape and count > SHARE * sum(are):
        return None
    own = [text for text, is_number in zip(some, are, strict=True) if is_number]
    telling = [text for text in own if not is_plain(text)]
    return NumberTexts((telling or own)[0], None if all(are) else some[are.index(False)], not telling)


def _units(numbers: Sequence[re.Match[str]]) -> set[str]:
    """Return the units of quantities among the words after numbers: known ones, and one that follows fractions."""
    words = Counter(match["unit"].strip() for match in numbers if match["unit"])
    parted = Counter(match["unit"].strip() for match in numbers if match["unit"] and not match["digits"].isdigit())
    known = {word for word in words if word in _UNITS or (len(word) > 1 and word.lower() in _UNITS)}
    known |= {word for word in words if _MONEY.fullmatch(word)}
    return known | {word for word, count in parted.most_common(1) if 2 * count > words[word]}


def _groups(number: re.Match[str]) -> int:
    """Return the number of groups of digits that need not be those of a number; 0 if there is no doubt."""
    is_clear = number["unit"] or number["money"] or not _GROUPS.fullmatch(number["digits"])
    return 0 if is_clear else len(re.split(r"\D", number["digits"]))


def is_plain(text: str) -> bool:
    """Return whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def of_classes(labels: Sequence[str], rows: int, is_said: bool = False) -> str | None:
    """Return one of the different labels of so many rows if they are too many for classes; None if they are not.

    They are too many if there are more than a thousand, or if most of the rows have a label of their own: of a
    thousand rows in any case, of fewer ones where the labels look like numbers.  Where it ``is_said`` that they are
    classes, most rows must have a label of their own, and the labels look like numbers or be more than a thousand.
    """
    is_most = len(labels) > FEW_WORDS and 2 * len(labels) > rows
    if not is_most and (is_said or len(labels) <= MOST_WORDS):
        return None
    numbers = number_texts(labels[:: len(labels) // _MOST + 1])
    if len(labels) > MOST_WORDS or numbers is not None or (rows >= ENOUGH_ROWS and not is_said):
        return labels[0] if numbers is None else numbers.example
    return None
