"""Parts by name: the record for a name or for a record of the user's own, with its numbers checked."""

from __future__ import annotations

import difflib
import numbers
from typing import Any, ForwardRef

import numpy as np

from ..parts.part import how_to_mark, is_record, kind_of
from ..presets import Preset
from ..util.validation import is_number

_KINDS = {
    "loss": ("loss",),
    "penalty": ("penalty",),
    "optimizer": ("optimizer",),
    "conversion": ("conversion", "rounding"),
    "step_size": ("step rule",),
    "method": ("selection method",),
}
"""The kinds of parts that each parameter takes."""


def is_part(parameter: str, record: Any) -> bool:
    """Return whether a parameter takes this record."""
    return isinstance(record, Preset) if parameter == "preset" else kind_of(record) in _KINDS[parameter]


def named(kind: str, name: Any, table: dict[str, Any]) -> Any:
    """Return the entry of a table, or the record of the user.

    An unknown name raises an error that suggests the nearest one.
    """
    if not isinstance(name, str):
        if isinstance(name, type):
            raise ValueError(f"{kind}={name.__name__} is a class: call it, {name.__name__}(...).")
        if not is_part(kind, name):
            if is_record(name) and kind_of(name) is None:
                raise ValueError(f"{kind}={name!r}: {how_to_mark(name, *_KINDS[kind])}")
            known = ", ".join(map(repr, table))
            raise ValueError(f"{kind}={name!r}: expected your own {kind} record or one of {known}.")
        return _with_numbers(name)
    if name in table:
        return table[name]
    close = difflib.get_close_matches(name.lower(), table, 1)
    hint = f" did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"{kind}={name!r} is not known:{hint} choose from {', '.join(map(repr, table))} or give a record.")


def _with_numbers(record: Any) -> Any:
    """Return the record with a float in every field that is declared as one; a value of another type is refused.

    Infinity is accepted only where it is the default.
    """
    kind, found = type(record), {}
    for field, value in zip(record._fields, record, strict=True):
        declared, default = kind.__annotations__.get(field), kind._field_defaults.get(field)
        declared = declared.__forward_arg__ if isinstance(declared, ForwardRef) else declared
        what = None
        if declared in ("float", float) or (declared == "float | None" and value is not None):
            if is_number(value) or (isinstance(value, numbers.Real) and value == default == np.inf):
                found[field] = value if isinstance(value, int | float) else float(value)
            else:
                what = "a finite number"
        elif declared in ("int", int) or (declared == "int | None" and value is not None):
            what = None if isinstance(value, numbers.Integral) else "a whole number"
        elif declared in ("bool", bool):
            what = None if isinstance(value, bool | np.bool_) else "True or False"
        elif is_record(value):
            found[field] = _with_numbers(value)
        elif isinstance(value, complex) or (isinstance(value, str) and not isinstance(default, str)):
            what = "a number"
        elif isinstance(value, numbers.Rational) and not isinstance(value, numbers.Integral):
            found[field] = float(value)  # one number, in a field that may also have one for each model
        if what is not None:
            raise ValueError(f"{kind.__name__}({field}={value!r}): it must be {what}.")
    return record._replace(**found)
