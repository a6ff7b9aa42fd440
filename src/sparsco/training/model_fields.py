"""What the fields of a model file say of its features and of the rows that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..streams.description import REFUSE, Description, from_schema, of_texts
from ..text.spec import TextSpec
from .labelled_rows import seed_in
from .model_checks import crossed_in


def hash_seed_of(content: Mapping[str, Any]) -> int | None:
    """Return the seed of the hash that gave the features of a model their columns and signs; None without one."""
    description = description_of(content)
    return seed_in(content["extra"].get("reader", {}) if description is None else description._asdict())


def feature_names(content: Mapping[str, Any]) -> list[str] | None:
    """Return the names that rows for a model have, in the order of its columns; None if columns have numbers."""
    if content["features"] == "crossed":
        return list(content["crosses"]["names"]) if content["crosses"]["by_name"] else None
    return list(content["names"].values()) if content["features"] == "names" else None


def columns_to_read(content: Mapping[str, Any]) -> np.ndarray:
    """Return the columns that have a weight, and those that crosses with a weight are made of."""
    columns = np.unique(content["coef"]["columns"])
    return columns if content["features"] != "crossed" else crossed_in(content).parents_of(columns)


def description_of(content: Mapping[str, Any]) -> Description | None:
    """Return the description of the table that a model has learned, None if it was none; files of before have kinds."""
    reader = content["extra"].get("reader", {})
    if content.get("description") is not None:
        return content["description"]
    hashing = {name: reader[name] for name in ("hash_bits", "seed", "signed") if name in reader}
    if isinstance(reader.get("text_options"), TextSpec):
        return of_texts(reader["text_options"], **hashing)
    if "schema" not in reader:
        return None
    more = hashing | {name: reader[name] for name in ("weight", "tag") if name in reader}
    marks = reader.get("missing_values")
    return from_schema(reader["schema"], reader.get("target"), reader.get("missing", REFUSE), marks, **more)
