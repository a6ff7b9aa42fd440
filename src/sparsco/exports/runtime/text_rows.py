"""Rows that are texts."""

from __future__ import annotations

from typing import Any

from .texts import add_text


def feature_values(model: dict[str, Any], x: Any) -> list[float]:
    """Return the values of the selected features; None is a text without words."""
    found = [0.0] * len(model["features"])
    if x is not None:
        add_text(model, model["parts"][0], x, found)
    return found
