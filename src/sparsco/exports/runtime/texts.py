"""Texts as values of features."""

from __future__ import annotations

from typing import Any

from .hashing import hashed_term
from .words import text_values, unpacked


def add_text(model: dict[str, Any], part: dict[str, Any], text: str, found: list[float]) -> None:
    """Add the features of a text to the values of all features."""
    tables = model["characters"][part["characters"]]
    if isinstance(tables, dict):
        tables = model["characters"][part["characters"]] = unpacked(tables)
    for name, value in text_values(text, part, model["hash"], *tables).items():
        hashes = model["hash"] is not None
        term = hashed_term(part["prefix"] + name, model["hash"]) if hashes else part["terms"].get(name)
        if term is not None:
            found[term[0]] += term[1] * value
