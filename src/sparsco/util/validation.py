"""Checks of single arguments."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np


def check_count(name: str, count: Any) -> None:
    """Raise a ValueError if ``count`` is not a whole number of at least 1."""
    if not is_count(count):
        raise ValueError(f"{name}={count!r}: it must be a whole number, at least 1.")


def is_number(x: Any, least: float = -math.inf, most: float = math.inf) -> bool:
    """Return whether ``x`` is a finite real number from ``least`` to ``most``."""
    if not isinstance(x, numbers.Real) or isinstance(x, bool):
        return False
    try:  # compare the float, which is used in learning, also for a fraction
        return math.isfinite(x) and least <= float(x) <= most
    except OverflowError:
        return False


def is_count(x: Any) -> bool:
    """Return whether ``x`` is a whole number of at least 1."""
    return isinstance(x, numbers.Integral) and not isinstance(x, bool) and int(x) >= 1


def is_auto(given: Any) -> bool:
    """Return whether a parameter is left to be chosen."""
    return isinstance(given, str) and given == "auto"


def is_true(given: Any) -> bool:
    """Return whether a parameter that may also be "auto" or a number is True."""
    return isinstance(given, bool | np.bool_) and bool(given)
