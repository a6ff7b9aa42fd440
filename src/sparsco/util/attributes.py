"""Attributes of objects: what an object itself stores, and what data of other packages may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def stored(thing: Any, name: str, default: Any = None) -> Any:
    """Return an attribute that an object itself stores, or a default; those of its class do not count."""
    return vars(thing).get(name, default)


def attributes(thing: Any) -> dict[str, Any]:
    """Return the attributes that an object stores, as a new dict."""
    return dict(vars(thing))


def add_attributes(thing: Any, given: Mapping[str, Any]) -> None:
    """Store attributes in an object, past its properties."""
    vars(thing).update(given)


def replace_attributes(thing: Any, given: Mapping[str, Any]) -> None:
    """Store attributes in an object in place of all that it has."""
    vars(thing).clear()
    add_attributes(thing, given)


class Restored:
    """An object that sets its state itself when it is read from a pickle or a file."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        raise NotImplementedError


def shape_of(data: Any) -> tuple[Any, ...]:
    """Return the shape of an array, a matrix or a table; () for anything else."""
    return getattr(data, "shape", ())


def by_position(rows: Any) -> Any:
    """Return an object whose items are rows by position: the ``iloc`` of a DataFrame, an array or a matrix itself."""
    return getattr(rows, "iloc", rows)
