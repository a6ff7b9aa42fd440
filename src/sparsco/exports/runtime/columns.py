"""Rows of numbered columns: a sequence with all of them, or a mapping with those that are not zero."""

from __future__ import annotations

from typing import Any

_LARGEST = 1e75


def feature_values(model: dict[str, Any], x: Any) -> list[float]:
    """Return the values of the selected features; keys of a mapping are numbers or names of columns."""
    found = []
    for feature in model["features"]:
        if isinstance(x, dict):
            cell: Any = x.get(feature["column"], x.get(feature["name"], 0.0))
        else:
            cell = x[feature["column"] - model["first"]]
        value = float(cell)
        if not -_LARGEST <= value <= _LARGEST:
            raise ValueError(f"column {feature['name']!r} has {value}: numbers must be finite and at most 1e75.")
        found.append(value)
    return found
