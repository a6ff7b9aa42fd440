"""One example as a dict: the names of its features and their values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .rows import LARGEST

_LIMIT = float(LARGEST)


def named_values(x: Any) -> tuple[Any, Any]:
    """Return names and values of a dict; raise a ValueError if a value is neither a number nor a text nor None.

    A text v under a name is the feature ``name=v``, and None is left out.
    """
    if type(x) is not dict and not isinstance(x, Mapping):
        raise ValueError(
            f"x is a {type(x).__name__}: give a dict or a list of tokens, whose features have names, or begin the"
            " stream with a tuple (columns, values). partial_fit takes rows of an array."
        )
    values: Any = x.values()
    try:
        if math.hypot(*values) <= _LIMIT:
            return x, values
    except TypeError:
        pairs = [(f"{name}={value}", 1.0) if isinstance(value, str) else (name, value) for name, value in x.items()]
        x = [name for name, value in pairs if value is not None]
        values = [value for _, value in pairs if value is not None]
        try:
            if math.hypot(*values) <= _LIMIT:
                return x, values
        except TypeError:
            raise ValueError("x has a value that is neither a number nor a text.") from None
    raise ValueError(f"x has a value that is not finite, or more than {_LIMIT:g} in all.")
