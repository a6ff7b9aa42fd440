"""Parts and contracts: the decorator that marks a class as a part, and the recognition of parts.

The contracts themselves are in ``contracts.py``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

NEVER = 2**63 - 1
"""The number of examples of an event that never happens."""
HOME = f"{__package__}.contracts"

_Class = TypeVar("_Class", bound=type)


class Attribute(NamedTuple):
    """One entry of a contract: its type (a key of ``TYPES``), one line of documentation, its default.

    ``required``: there is no default, except in a class whose attribute ``unless`` is True.
    """

    what: str
    doc: str
    default: Any = None
    required: bool = False
    unless: str = ""
    parameters: tuple[str, ...] = ()
    """The parameters of a function, without the record itself."""


def required(what: str, doc: str, unless: str = "") -> Any:
    """Return the entry of an attribute that every class must define."""
    return Attribute(what, doc, required=True, unless=unless)


def default(what: str, value: Any, doc: str) -> Any:
    """Return the entry of an attribute with a default."""
    return Attribute(what, doc, value)


_REQUIRED: dict[Callable[..., Any], str] = {}


def required_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function of a contract as one that every class must define."""
    _REQUIRED[function] = ""
    return function


def required_unless(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator like ``required_function``, except for classes whose attribute of this name is True."""

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        _REQUIRED[function] = name
        return function

    return mark


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


TYPES: dict[str, Callable[[Any], bool]] = {
    "bool": lambda value: isinstance(value, bool | np.bool_),
    "number": _is_number,
    "count or None": lambda value: value is None or (isinstance(value, int | np.integer) and int(value) >= 1),
    "number or None": lambda value: value is None or _is_number(value),
    "text": lambda value: isinstance(value, str),
    "text or None": lambda value: value is None or isinstance(value, str),
    "names": lambda value: isinstance(value, tuple) and all(isinstance(each, str) for each in value),
    "array or None": lambda value: value is None or isinstance(value, np.ndarray | list | tuple),
    "record": lambda value: isinstance(value, tuple),
    "record or None": lambda value: value is None or isinstance(value, tuple),
    "value": lambda value: True,
    "function": callable,
    "function or None": lambda value: value is None or callable(value),
}
"""The types of an attribute, by the words that contracts use."""


class Contract:
    """The contract of one kind of part: the attributes and functions in a subclass's body."""

    part_kind: ClassVar[str] = ""
    entries: ClassVar[dict[str, Attribute]] = {}

    def __init_subclass__(cls, kind: str) -> None:
        cls.part_kind, cls.entries = kind, {}
        for name, entry in cls.__dict__.items():
            if isinstance(entry, Attribute):
                cls.entries[name] = entry
            elif inspect.isfunction(entry):
                doc = (inspect.getdoc(entry) or "").replace("\n", " ")
                given = tuple(inspect.signature(entry).parameters)[1:]
                is_required, unless = entry in _REQUIRED, _REQUIRED.get(entry, "")
                cls.entries[name] = Attribute("function", doc, entry, is_required, unless, given)
            elif isinstance(entry, property):
                cls.entries[name] = Attribute("value", inspect.getdoc(entry) or "", entry)
        CONTRACTS[kind] = cls

    @staticmethod
    def derive(cls: Any) -> None:
        """Set the attributes that follow from the rest of a class."""

    @classmethod
    def complete(cls, record: Any) -> None:
        """Add the defaults of missing members to a class; raise a TypeError if a required one is missing."""
        known = set(dir(record))
        missing = []
        for name, entry in cls.entries.items():
            if name not in known and not entry.required:
                setattr(record, name, entry.default)
        for name, entry in cls.entries.items():
            if name in known or not entry.required:
                continue
            if entry.unless and getattr(record, entry.unless):
                setattr(record, name, None)
            else:
                call = f"{name}({', '.join(('self', *entry.parameters))})" if entry.what == "function" else name
                missing.append(f"{call}: {entry.doc.partition('. ')[0].rstrip('.')}")
        if missing:
            raise TypeError(f"{record.__name__} is marked as a {cls.part_kind} and has no {'; no '.join(missing)}.")
        cls.derive(record)


CONTRACTS: dict[str, type[Contract]] = {}
"""The contract for each kind of part."""


@runtime_checkable
class Part(Protocol):
    """A record, or a class of records, with a declared contract."""

    part_kind: str


def part(contract: type[Contract], **parameters: str) -> Callable[[_Class], _Class]:
    """Return the decorator that makes a class a part of this kind: it adds defaults and checks required members.

    ``parameters`` describe the record's fields, in one line each; ``describe`` shows them.
    """

    def mark(record: _Class) -> _Class:
        unknown = sorted(set(parameters) - set(record._fields))  # type: ignore[attr-defined]
        if unknown:
            raise TypeError(f"@part of {record.__name__} describes {', '.join(unknown)}, which is not a field of it.")
        record.part_kind, record.parameter_lines = contract.part_kind, parameters  # type: ignore[attr-defined]
        contract.complete(record)
        record.__init_subclass__ = classmethod(_complete_subclass)  # type: ignore[assignment]
        return record

    return mark


def _complete_subclass(record: Any) -> None:
    CONTRACTS[record.part_kind].complete(record)


def kind_of(thing: Any) -> str | None:
    """Return the kind of a part ("loss", "penalty", ...); None for anything else, a class included."""
    return _kind_of_instances(thing.__class__)


@functools.cache
def _kind_of_instances(record: type) -> str | None:
    return record.part_kind if isinstance(record, Part) else None


def is_record(thing: Any) -> bool:
    """Return whether an object is an instance of a ``NamedTuple`` class."""
    return isinstance(thing, tuple) and "_fields" in dir(type(thing))


def how_to_mark(thing: Any, *kinds: str) -> str:
    """Return the error message for a record whose class is not marked as a part of one of these kinds."""
    decorators = " or ".join(f"@part({CONTRACTS[kind].__name__})" for kind in kinds)
    name = type(thing).__name__
    return f"{name} is not marked as a {kinds[0]}: write {decorators}, from {HOME}, above class {name}."


def must_be(thing: Any, *kinds: str) -> None:
    """Raise a TypeError if an object is not a part of one of these kinds."""
    found = kind_of(thing)
    if found in kinds:
        return
    if found is not None:
        raise TypeError(f"{type(thing).__name__} is a {found}, and a {kinds[0]} is needed here.")
    if is_record(thing):
        raise TypeError(how_to_mark(thing, *kinds))
    name = thing.__name__ if isinstance(thing, type) else repr(thing)
    raise TypeError(f"{name} cannot be used as {kinds[0]}: give a record, an instance of a NamedTuple class.")
