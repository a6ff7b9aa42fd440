"""One record at a time: a dict of cells as entries of features, as ``encoding.py`` makes them of whole columns."""

from __future__ import annotations

import datetime as dt
import math
import numbers as number_types
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..data.rows import LARGEST
from .description import BOOLEAN, CATEGORY, DATE, INDICATOR, NUMBERS, POOL, REFUSE, TEXT, Column, Description
from .encoding import DAY, WEEKDAYS, CellError, Unknown, entries, no_cell, numbers, offsets_of, text_of
from .files import needed

_EPOCH = dt.datetime(1970, 1, 1)


def record_entries(
    record: Mapping[str, Any], description: Description, unknown: Unknown | None = None
) -> tuple[list[str], list[float]]:
    """Return names and values of a record's features; a column that it does not have is missing.

    Raise a ValueError for a cell that does not fit its column.
    """
    names: list[str] = []
    values: list[float] = []
    try:
        for column in sorted(description.features, key=lambda each: each.kind == TEXT):  # as in tables: texts come last
            cell: Any = record.get(column.name)
            if isinstance(cell, np.generic):
                cell = cell.item()
            if is_missing(cell):
                _add_missing(column, unknown, names, values)
            elif column.kind == CATEGORY and isinstance(cell, str | number_types.Real):
                _add_category(cell, column, description, unknown, names, values)
            elif column.kind in (NUMBERS, BOOLEAN) and isinstance(cell, number_types.Real):
                names.append(column.name)
                values.append(_number(cell, column))
            elif column.kind == DATE and type(cell) in (dt.date, dt.datetime):
                _add_date(cell, column, names, values)
            else:
                _add_others(cell, column, description, unknown, names, values)
    except CellError as wrong:
        raise ValueError(f"x: {wrong.sentence}.") from None
    return names, values


def record_offset(record: Mapping[str, Any], description: Description) -> float | None:
    """Return the offset of a record; None if the table has no column for it."""
    name = description.offset
    if name is None:
        return None
    if is_missing(record.get(name)):
        raise ValueError(f"x: column {name!r}, the offset, has no number: every row needs one.")
    try:
        cells = needed("pyarrow", "tables").array([record[name]])
        return float(offsets_of(numbers(cells, name, description.no_number), description)[0])
    except CellError as wrong:
        raise ValueError(f"x: {wrong.sentence}.") from None


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


def _add_missing(column: Column, unknown: Unknown | None, names: list[str], values: list[float]) -> None:
    if column.kind == TEXT:
        return
    if column.kind != CATEGORY:
        if column.missing == REFUSE:
            raise no_cell(0, column)
        names.append(column.name)
        values.append(column.stands_for_missing)
    if column.missing == INDICATOR:
        names.append(column.name + "?")
        values.append(1.0)
        if unknown is not None and column.had_holes is False:
            unknown.count(column, {}, 1)


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
        return _add_missing(column, unknown, names, values)
    pooled = text in column.rare
    if unknown is not None and not column.has_seen(text):
        unknown.count(column, {text: 1})
        pooled = bool(column.rare)
    names.append(f"{column.name}={POOL if pooled else text}")
    values.append(1.0)


def _add_date(cell: dt.date, column: Column, names: list[str], values: list[float]) -> None:
    if isinstance(cell, dt.datetime):
        cell = cell if cell.tzinfo is None else cell.astimezone(dt.UTC).replace(tzinfo=None)
        since = cell - _EPOCH
        time = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    else:
        time = (cell.toordinal() - _EPOCH.toordinal()) * DAY
    names += [column.name, f"{column.name}:month={cell.month}", f"{column.name}:weekday={WEEKDAYS[cell.weekday()]}"]
    values += [float(time - column.origin * DAY) / DAY, 1.0, 1.0]


def _add_others(
    cell: Any,
    column: Column,
    description: Description,
    unknown: Unknown | None,
    names: list[str],
    values: list[float],
) -> None:
    """Add the entries of a cell that is not of its column's own type, such as the text of a number or a date."""
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
