"""Values that a file names for the fields of a class, beside the type hints of the class."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .attributes import attributes

_NUMBERS: dict[Any, tuple[type, ...]] = {
    bool: (bool, np.bool_),
    int: (int, np.integer),
    float: (int, float, np.integer, np.floating),
}


@runtime_checkable
class Ruled(Protocol):
    """A class with rules for its objects: ``check()`` raises an error for one that breaks them."""

    def check(self) -> Any:
        """Raise an error if the object breaks a rule."""


def checked(record: Any) -> Any:
    """Return a record of a file; raise an error if a field is not of its type, or if the rules of its class fail."""
    check_fields(type(record), zip(record._fields, record, strict=True))
    check_rules(record)
    return record


def check_fields(kind: Any, fields: Iterable[tuple[str, Any]]) -> None:
    """Raise a TypeError if a value is not of the type that a class declares for the field of this name."""
    hints = _hints(kind)
    for name, value in fields:
        if not fits(value, hints.get(name, Any)):
            raise TypeError(f"{name} of {kind.__name__} is a {type(value).__name__} of the wrong kind")


def check_rules(made: Any) -> None:
    """Check an object by the rules of its class, its method ``check()``, if it has one without arguments."""
    kind: Any = type(made)
    if _is_ruled(kind):
        made.check()


def check_like(made: Any, fresh: Any) -> None:
    """Raise an error if an object lacks an attribute of a new one, or has another type there than a new one.

    Attributes that are None at first may have any type, and whole numbers are floats, too.
    """
    given = attributes(made)
    for name, value in attributes(fresh).items():
        kind = type(value)
        if name not in given:
            raise TypeError(f"{type(made).__name__} has no {name}")
        if value is not None and not fits(given[name], kind):
            raise TypeError(f"{name} of {type(made).__name__} is of the wrong kind")


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type such as ``tuple[str, ...] | None``; whole numbers are floats, too."""
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    if hint in _NUMBERS:
        return isinstance(value, _NUMBERS[hint]) and (hint is bool or not isinstance(value, bool | np.bool_))
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is typing.Literal:
        return any(value is part or (type(value) is type(part) and value == part) for part in parts)
    kind = hint if origin is None else origin
    if not isinstance(kind, type):
        return True
    return isinstance(value, kind) and _items_fit(value, kind, parts)


def _items_fit(value: Any, kind: type, parts: tuple[Any, ...]) -> bool:
    """Return whether the items of a tuple, list or dict are of the types in the brackets of its hint."""
    if not parts or parts == (Any,):
        return True
    if issubclass(kind, tuple):
        if parts[-1] is ...:
            return all(fits(item, parts[0]) for item in value)
        return len(value) == len(parts) and all(map(fits, value, parts))
    if issubclass(kind, Mapping):
        return all(fits(key, parts[0]) and fits(item, parts[1]) for key, item in value.items())
    return not issubclass(kind, list) or all(fits(item, parts[0]) for item in value)


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@functools.cache
def _is_ruled(kind: Any) -> bool:
    return issubclass(kind, Ruled) and len(inspect.signature(kind.check).parameters) == 1  # optimizers have another
