"""Texts, names and numbers in the languages of exports: nothing that a model holds can end its literal."""

from __future__ import annotations

import json
import re
from typing import Any

from ..text.fingerprints import to_bytes
from .scorer import ExportError

_PLAIN_IN_C = re.compile(rb"[A-Za-z0-9 .,:+-]")


def json_text(value: Any, **options: Any) -> str:
    """Return JSON in ASCII that may stand in JavaScript and in HTML, too: without <, > and &."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, **options)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def c_text(text: str) -> str:
    """Return a string literal of C with the UTF-8 of a text; all but letters, digits and some signs are octal.

    Underscores are, too: the prefix of a model's names replaces another one in the whole source.
    """
    return '"' + "".join(chr(b) if _PLAIN_IN_C.match(bytes([b])) else f"\\{b:03o}" for b in to_bytes(text)) + '"'


def c_number(value: float) -> str:
    """Return a constant of C of type double."""
    text = repr(float(value))
    return text if "." in text or "e" in text else text + ".0"


def sql_text(text: str) -> str:
    """Return a string literal of SQL; raise an ExportError for a text that SQL cannot hold."""
    return "'" + _for_sql(text, "text").replace("'", "''") + "'"


def sql_name(name: str) -> str:
    """Return a quoted identifier of SQL; raise an ExportError for a name that SQL cannot hold."""
    if not name:
        raise ExportError("a column has an empty name, which SQL does not allow: rename it and train again.")
    return '"' + _for_sql(name, "name").replace('"', '""') + '"'


def sql_number(value: float) -> str:
    """Return a constant of SQL of type double precision."""
    text = repr(float(value))
    text = text if "e" in text else text + "e0"  # without an exponent it would be a decimal number
    return f"({text})" if text.startswith("-") else text


def _for_sql(text: str, what: str) -> str:
    if "\0" in text:
        raise ExportError(f"the {what} {text[:40]!r} has a NUL character, which SQL cannot hold.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ExportError(f"the {what} {text[:40]!r} is not valid UTF-8, which SQL cannot hold.") from None
    return text


def identifier(name: str, what: str) -> str:
    """Return a name if it is an identifier in ASCII; raise an ExportError if not."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ExportError(f"{what} is {name!r}: it must consist of letters, digits and underscores.")
    return name
