"""One record at a time: a dict of cells as entries of features, as ``encoding.py`` makes them of whole columns."""

from __future__ import annotations

import math
import numbers as number_types
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..data.rows import LARGEST
from .description import BOOLEAN, CATEGORY, INDICATOR, NUMBERS, POOL, Column, Description
from .encoding import CellError, Unknown, entries, text_of
from .files import needed


def record_entries(
    record: Mapping[str, Any], description: Description, unknown: Unknown | None = None
) -> tuple[list[str], list[float]]:
    """Return names and values of a record's features; a column that it does not have is missing.

    Raise a ValueError for a cell that does not fit its column.
    """
    names: list[str] = []
    values: list[float] = []
    try:
        for column in description.features:
            cell = record.get(column.name)
            if isinstance(cell, np.generic):
                cell = cell.item()
            missing = is_missing(cell)
            if column.kind == CATEGORY and (missing or isinstance(cell, str | number_types.Real)):
                _add_category(cell, column, description, unknown, names, values)
            elif column.kind in (NUMBERS, BOOLEAN) and isinstance(cell, number_types.Real) and not missing:
                names.append(column.name)
                values.append(_number(cell, column))
            else:
                _add_others(None if missing else cell, column, description, unknown, names, values)
    except CellError as wrong:
        raise ValueError(f"x: {wrong.sentence}.") from None
    return names, values


def is_missing(cell: Any) -> bool:
    """Return whether a cell is missing: None, NaN, or what pandas has for it."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, float) and math.isnan(cell)


def _number(cell: Any, column: Column) -> float:
    try:
        number = float(cell)
    except OverflowError:
        number = math.inf
    if not -LARGEST <= number <= LARGEST:
        raise CellError(0, f"column {column.name!r} has {number}: numbers must be finite and at most 1e75")
    if column.kind == BOOLEAN and number not in (0.0, 1.0):
        raise CellError(0, f"column {column.name!r} has {number!r}, which is not true or false")
    return number


def _add_category(
    cell: Any,
    column: Column,
    description: Description,
    unknown: Unknown | None,
    names: list[str],
    values: list[float],
) -> None:
    text = text_of(cell)
    if text is None or text in description.no_category:
        if column.missing == INDICATOR:
            names.append(column.name + "?")
            values.append(1.0)
            if unknown is not None and column.had_holes is False:
                unknown.count(column, {}, 1)
        return
    pooled = text in column.rare
    if unknown is not None and not column.has_seen(text):
        unknown.count(column, {text: 1})
        pooled = bool(column.rare)
    names.append(f"{column.name}={POOL if pooled else text}")
    values.append(1.0)


def _add_others(
    cell: Any,
    column: Column,
    description: Description,
    unknown: Unknown | None,
    names: list[str],
    values: list[float],
) -> None:
    """Add the entries of a cell that is not a plain number or text of its column: a date, a missing number, a text."""
    arrow = needed("pyarrow", "tables")
    try:
        cells = arrow.array([cell])
    except (arrow.ArrowException, TypeError, ValueError, OverflowError):
        raise CellError(
            0, f"column {column.name!r} has a {type(cell).__name__}, which is not a cell of a table"
        ) from None
    one = description._replace(columns=(column,))
    _, _, data, names_of = entries(lambda _: cells, 1, one, 0, unknown)
    names += names_of(np.arange(len(data)))
    values += data.tolist()
