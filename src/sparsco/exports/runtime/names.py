"""Rows of named features: a mapping from names to values, or a list of names."""

from __future__ import annotations

import math
from typing import Any

from .hashing import hashed_term


def feature_values(model: dict[str, Any], x: Any) -> list[float]:
    """Return the values of the selected features; a text v under a name is the feature ``name=v``."""
    found = [0.0] * len(model["features"])
    for name, cell in x.items() if isinstance(x, dict) else [(token, 1.0) for token in x]:
        if cell is None:
            continue
        name, value = (f"{name}={cell}", 1.0) if isinstance(cell, str) else (name, float(cell))
        if not math.isfinite(value) or abs(value) > 1e75:
            raise ValueError(f"feature {name!r} has {value}: numbers must be finite and at most 1e75.")
        term = model["terms"].get(name) if model["hash"] is None else hashed_term(name, model["hash"])
        if term is not None:
            found[term[0]] += term[1] * value
    return found
