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
_UNITS = 2
"""The number of units that may be mixed: suffixes of house numbers and ordinals are many more."""
_LONGEST, _MOST = 40, 1000
_CURRENCY = (
    r"(?:[A-Z]{0,2}[$€£¥₹₩₽₺₪฿₫₴₦]|Rs\.?|kr\.?|zł|USD|EUR|GBP|JPY|CHF|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN"
    r"|ZAR|KRW|RUB|TRY)"
)
_SIGN = r"[+\-−–]?"
_DIGITS = (
    r"(?:\d{1,3}(?:,\d{2,3})+(?:\.\d*)?"  # 4,471.58, and groups of two as in 12,34,567
    r"|\d{1,3}(?:\.\d{3})+(?:,\d*)?"  # 4.471,58
    r"|\d{1,3}(?:['’\s]\d{3})+(?:[.,]\d*)?"  # 4'471.58 and 4 471,58
    r"|(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?)"
)
_NUMBER = re.compile(
    rf"[<>~≈≤≥]?\s*\(?\s*{_SIGN}\s*{_CURRENCY}?\s*{_SIGN}\s*{_DIGITS}-?\s*\)?\s*(?P<unit>[^\d\s(),.:;+\-][^\d(),:;]{{0,11}})?"
)


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
    found = [_NUMBER.fullmatch(text) if len(text) <= _LONGEST else None for text in some]
    units = Counter(match["unit"].strip() for match in found if match and match["unit"])
    usual = {unit for unit, _ in units.most_common(_UNITS)}
    are = [bool(match) and (not match["unit"] or match["unit"].strip() in usual) for match in found]  # type: ignore[index]
    if not some or sum(are) <= SHARE * len(some):
        return None
    own = [text for text, is_number in zip(some, are, strict=True) if is_number]
    telling = [text for text in own if not is_plain(text)]
    return NumberTexts((telling or own)[0], None if all(are) else some[are.index(False)], not telling)


def is_plain(text: str) -> bool:
    """Return whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def of_classes(labels: Sequence[str], rows: int) -> str | None:
    """Return one of the different labels of so many rows if they are too many for classes; None if they are not.

    They are too many if there are more than a thousand, or if most of the rows have a label of their own: of a
    thousand rows in any case, of fewer ones where the labels look like numbers.
    """
    is_most = len(labels) > FEW_WORDS and 2 * len(labels) > rows
    if len(labels) <= MOST_WORDS and not is_most:
        return None
    numbers = number_texts(labels[:: len(labels) // _MOST + 1])
    if len(labels) > MOST_WORDS or rows >= ENOUGH_ROWS or numbers is not None:
        return labels[0] if numbers is None else numbers.example
    return None
