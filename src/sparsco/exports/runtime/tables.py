"""Rows of a table: a mapping from columns to cells."""

from __future__ import annotations

from typing import Any

from .cells import boolean, category, is_missing, logarithm, moment, month_and_weekday, number
from .hashing import hashed_term
from .texts import add_text

_DAY = 86_400_000_000


def feature_values(model: dict[str, Any], x: Any) -> list[float]:
    """Return the values of the selected features; a column that the mapping does not have is missing."""
    found = [0.0] * len(model["features"])

    def add(term: Any, value: float) -> None:
        if term is not None:
            found[term[0]] += term[1] * value

    for part in model["parts"]:
        kind, cell = part["kind"], x.get(part["name"])
        if is_missing(cell) or (kind != "text" and isinstance(cell, str) and cell in part["marks"]):
            if kind == "text":
                continue
            if kind != "category":
                if part["fill"] is None:
                    raise ValueError(f"column {part['name']!r} has no value: fill it in.")
                add(part["value"], part["fill"])
            add(part["hole"], 1.0)
        elif kind == "text":
            add_text(model, part, cell, found)
        elif kind == "category":
            add(_of_category(model, part, category(cell)), 1.0)
        elif kind == "date":
            time = moment(cell, part["name"])
            month, weekday = month_and_weekday(time)
            add(part["value"], (time - part["origin"] * _DAY) / _DAY)
            add(part["months"][month], 1.0)
            add(part["weekdays"][weekday], 1.0)
        else:
            value = (boolean if kind == "boolean" else number)(cell, part["name"])
            add(part["value"], logarithm(value, part["name"]) if part["log"] else value)
    return found


def _of_category(model: dict[str, Any], part: dict[str, Any], text: str) -> Any:
    """Return the term of a category; None if it has no weight."""
    if text in part["marks"]:
        return part["hole"]
    if text in part["terms"]:
        return part["terms"][text]
    if (text in part["pooled"]) != part["pools_others"]:
        return part["pool"]
    return hashed_term(f"{part['name']}={text}", model["hash"]) if part["hashed"] else None
