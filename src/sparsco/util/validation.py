"""Checks of single arguments."""

from __future__ import annotations

import numbers
from typing import Any


def check_count(name: str, count: Any) -> None:
    """Raise a ValueError if ``count`` is not a whole number of at least 1."""
    if not isinstance(count, numbers.Integral) or isinstance(count, bool) or count < 1:
        raise ValueError(f"{name}={count!r}: it must be a whole number, at least 1.")
