"""Cells of a table as numbers, categories and dates."""

from __future__ import annotations

import datetime
import math
import re
from typing import Any

_LARGEST = 1e75
_BOOLEANS = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "1": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0, "0": 0.0}
_DATE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?(Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)


def is_missing(cell: Any) -> bool:
    """Return whether a cell is missing: None, NaN, or what pandas has for it."""
    return cell is None or cell != cell or type(cell).__name__ in ("NAType", "NaTType")


def number(cell: Any, name: str) -> float:
    """Return a number; raise a ValueError for what is none."""
    if isinstance(cell, str | bytes):
        raise ValueError(f"column {name!r} has the text {cell!r}: give a number.")
    value = float(cell)
    if not -_LARGEST <= value <= _LARGEST:
        raise ValueError(f"column {name!r} has {value}: numbers must be finite and at most 1e75.")
    return value


def logarithm(value: float, name: str) -> float:
    """Return the logarithm of a number; raise a ValueError for one that has none."""
    if value <= 0.0:
        raise ValueError(f"column {name!r} has {value}: its logarithm needs numbers above 0.")
    return math.log(value)


def boolean(cell: Any, name: str) -> float:
    """Return 1 or 0; raise a ValueError for what is neither true nor false."""
    value = _BOOLEANS.get(cell) if isinstance(cell, str) else number(cell, name)
    if value not in (0.0, 1.0):
        raise ValueError(f"column {name!r} has {cell!r}, which is not true or false.")
    return value


def category(cell: Any) -> str:
    """Return the text of a category; a whole number has no decimal point."""
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() else str(float(cell))
    return cell.decode("utf-8", "surrogateescape") if isinstance(cell, bytes) else str(cell)


def moment(cell: Any, name: str) -> int:
    """Return a date or a time as microseconds since 1970 (UTC)."""
    if isinstance(cell, str):
        cell = _parsed(cell, name)
    if isinstance(cell, datetime.datetime):
        cell = cell if cell.tzinfo is None else cell.astimezone(datetime.UTC).replace(tzinfo=None)
    elif isinstance(cell, datetime.date):
        cell = datetime.datetime(cell.year, cell.month, cell.day)
    else:
        raise ValueError(f"column {name!r} has {cell!r}, which is not a date.")
    since = cell - datetime.datetime(1970, 1, 1)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _parsed(text: str, name: str) -> datetime.datetime:
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError(f"column {name!r} has {text!r}, which is no date such as 2021-03-04 or 2021-03-04 10:30:00.")
    *numbers, fraction, zone = found.groups()
    year, month, day, hour, minute, second = (int(each or 0) for each in numbers)
    time = datetime.datetime(year, month, day, hour, minute, second, int((fraction or "0").ljust(6, "0")))
    if zone in (None, "Z"):
        return time
    digits = zone[1:].replace(":", "").ljust(4, "0")
    shift = datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return time - shift if zone[0] == "+" else time + shift


def month_and_weekday(time: int) -> tuple[int, int]:
    """Return month and weekday of a moment, both from 0; weeks begin on Monday."""
    days = time // 86_400_000_000
    date = datetime.date(1970, 1, 1) + datetime.timedelta(days)
    return date.month - 1, date.weekday()
