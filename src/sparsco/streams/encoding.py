"""Columns of a table as entries of features: the one place where cells become numbers and names.

A column of numbers is a feature of its name.  A category has a feature ``name=value`` for each value.  A date has its
days, its month and its weekday.  A missing cell has what the description says, and may have a feature ``name?``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..data.rows import LARGEST
from ..text.encoding import TextEntries, TextError, joined, text_entries
from ..text.fingerprints import fingerprints
from .description import (
    BOOLEAN,
    CATEGORY,
    DATE,
    FIRST_ROWS,
    IGNORED,
    INDICATOR,
    NO_NUMBER,
    NUMBERS,
    POOL,
    REFUSE,
    TEXT,
    Column,
    Description,
    listed,
    rare_categories,
)
from .files import needed
from .number_texts import number_texts

DAY = 86_400_000_000
"""The microseconds of a day."""
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
TRUE, FALSE = ("true", "True", "TRUE", "1"), ("false", "False", "FALSE", "0")
"""The texts of booleans."""
_ZONE = r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$"
"""What a date and time with an offset from UTC looks like."""


class CellError(Exception):
    """An error in a cell; ``row`` counts from 0, and ``sentence`` has no full stop."""

    def __init__(self, row: int, sentence: str) -> None:
        super().__init__(sentence)
        self.row, self.sentence = row, sentence


class Unknown:
    """What rows to predict have that the training had not: new categories, and missing cells in whole columns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[Column, dict[str, int]] = {}
        self._holes: dict[Column, int] = {}

    def count(self, column: Column, texts: Mapping[str, int], holes: int = 0) -> None:
        """Count rows with categories that a column had not in the training, and rows with a new kind of hole."""
        with self._lock:
            if texts:
                known = self._rows.setdefault(column, {})
                for text, rows in texts.items():
                    known[text] = known.get(text, 0) + rows
            if holes:
                self._holes[column] = self._holes.get(column, 0) + holes

    def sentence(self) -> str:
        """Return what was counted, in words; "" if nothing was."""
        found = []
        for column, texts in self._rows.items():
            rows, what = sum(texts.values()), f"count as {column.name}={POOL}" if column.rare else "have no weight"
            in_rows = f"in {rows:,} row{'s' * (rows > 1)}"
            values = listed(sorted(texts, key=lambda text: (-texts[text], text)))
            found.append(
                f"column {column.name!r} has categories that were not in training, {values}, {in_rows}: they {what}"
            )
        for column, rows in self._holes.items():
            what = "" if column.kind == CATEGORY else f": its mean {column.fill:.4g} stands for it"
            found.append(
                f"column {column.name!r} was never missing in training and is in {rows:,} row{'s' * (rows > 1)}{what}"
            )
        return "; ".join(found) + "." * bool(found)


class Part(NamedTuple):
    """Entries of at most one feature per row: which feature, its value, and whether the row has it."""

    key: np.ndarray
    """The fingerprint of each row's feature, or of all of them."""
    values: np.ndarray | float
    kept: np.ndarray | None
    """The rows that have the entry; None for all."""
    name_of: Callable[[int], str]
    """A function that returns the name of a row's feature."""


def entries(
    cells: Callable[[str], Any], n: int, description: Description, seed: int, unknown: Unknown | None = None
) -> TextEntries:
    """Return the entries of n rows: indptr, keys of names, values, and a function that returns the names of entries.

    ``cells`` returns the Arrow array of a column by its name.  With ``unknown`` rows are to be predicted: categories
    that the training had not seen are counted there, and belong to the pool of rare ones if there is one.  Columns of
    texts that are counted are left out: see ``counted_texts``.
    """
    plain = [each for each in description.features if each.kind != TEXT]
    parts = [part for each in plain for part in _parts(cells(each.name), each, description, seed, unknown)]
    counted = description.counted
    texts = [each for each in description.features if each.kind == TEXT and each.name not in counted]
    found = [_texts(cells(each.name), each, seed) for each in texts]
    return joined([_side_by_side(parts, n), *found] if parts or not found else found)


def counted_texts(cells: Callable[[str], Any], description: Description, seed: int) -> dict[str, TextEntries]:
    """Return the features of the columns of texts whose values depend on the texts before, by column."""
    counted = description.counted
    return {each.name: _texts(cells(each.name), each, seed) for each in description.features if each.name in counted}


def _texts(cells: Any, column: Column, seed: int) -> TextEntries:
    """Return the entries of a column of texts: many for each row."""
    name, arrow = column.name, needed("pyarrow", "tables")
    assert column.text is not None
    try:
        cells = _decoded(cells)
        return text_entries(cells if _is_text(cells.type) else cells.cast(arrow.string()), column.text, seed)
    except TextError as error:
        raise bad_text(error, column) from None
    except arrow.ArrowException as error:
        raise CellError(0, f"column {name!r} cannot be read as text: {error}") from error


def bad_text(error: TextError, column: Column) -> CellError:
    """Return the error of a text that cannot be read."""
    return CellError(error.row, f"column {column.name!r} has a text that {error.sentence}")


def _side_by_side(parts: Sequence[Part], n: int) -> TextEntries:
    """Return the entries of n rows, those of a row one after the other."""
    keys = np.empty((n, len(parts)), np.uint64)
    values, kept = np.empty((n, len(parts))), np.ones((n, len(parts)), bool)
    for k, part in enumerate(parts):
        keys[:, k], values[:, k] = part.key, part.values
        if part.kept is not None:
            kept[:, k] = part.kept
    indptr, entry_of = np.append(0, np.cumsum(kept.sum(1))), np.flatnonzero(kept)

    def names_of(numbers: np.ndarray) -> list[str]:
        places = (divmod(cell, len(parts)) for cell in entry_of[numbers].tolist())
        return [parts[k].name_of(row) for row, k in places]

    return TextEntries(indptr, keys[kept], values[kept], names_of)


def _parts(cells: Any, column: Column, description: Description, seed: int, unknown: Unknown | None) -> list[Part]:
    """Return the entries of a column."""
    if column.kind == CATEGORY:
        codes, texts = categories(cells, column.name, description.no_category)
        holes, parts = codes < 0, [_of_codes(codes, _features(column, codes, texts, unknown), seed)]
    else:
        if column.kind == DATE:
            times, holes = dates(cells, column.name, description.no_number)
            days = times // DAY
            months = (days.astype("M8[D]").astype("M8[M]").astype(np.int64)) % 12
            names = [f"{column.name}:month={k + 1}" for k in range(12)]
            weekdays = [f"{column.name}:weekday={day}" for day in WEEKDAYS]
            parts = [
                _of_codes(np.where(holes, -1, months), names, seed),
                _of_codes(np.where(holes, -1, (days + 3) % 7), weekdays, seed),  # 1970-01-01 was a Thursday
            ]
            values = (times - column.origin * DAY) / DAY
        else:
            read = booleans if column.kind == BOOLEAN else numbers
            values, parts = read(cells, column.name, description.no_number), []
            holes = np.isnan(values)
        if column.missing == REFUSE and holes.any():
            raise no_cell(int(np.argmax(holes)), column)
        values = np.where(holes, column.stands_for_missing, values)
        parts.insert(0, _of_name(column.name, values, None, seed))
    if column.missing == INDICATOR and holes.any():
        parts.append(_of_name(column.name + "?", 1.0, holes, seed))
        if unknown is not None and column.had_holes is False:
            unknown.count(column, {}, int(holes.sum()))
    return parts


def no_cell(row: int, column: Column) -> CellError:
    """Return the error of a missing cell that is refused."""
    word = {NUMBERS: "number", BOOLEAN: "boolean", DATE: "date"}[column.kind]
    return CellError(
        row,
        f"column {column.name!r} has no {word}: fill it in, or give missing='mean', 'zero' or 'indicator' (--missing)",
    )


def _of_name(name: str, values: Any, kept: np.ndarray | None, seed: int) -> Part:
    return Part(fingerprints([name], seed)[0], values, kept, lambda row: name)


def _of_codes(codes: np.ndarray, names: Sequence[str], seed: int) -> Part:
    keys = np.append(fingerprints(names, seed), np.uint64(0))
    return Part(keys[codes], 1.0, codes >= 0, lambda row: names[codes[row]])


def _features(column: Column, codes: np.ndarray, texts: Sequence[str], unknown: Unknown | None) -> list[str]:
    """Return the name of the feature of each category."""
    rare = set(column.rare)
    if unknown is not None and column.seen is not None:
        new = [code for code, text in enumerate(texts) if not column.has_seen(text)]
        if new:
            rows = np.bincount(codes[codes >= 0], minlength=len(texts))
            found = {texts[code]: int(rows[code]) for code in new if rows[code]}
            unknown.count(column, found)
            rare |= set(found) if column.rare else set()
    return [f"{column.name}={POOL if text in rare else text}" for text in texts]


# ---- cells ---------------------------------------------------------------------------------------------------------


def numbers(cells: Any, name: str, marks: Sequence[str] = ()) -> np.ndarray:
    """Return a column as float64, NaN where a number is missing; texts in ``marks`` are missing, others are read."""
    arrow = needed("pyarrow", "tables")
    cells, is_ = _decoded(cells), arrow.types
    if is_.is_boolean(cells.type):
        cells = cells.cast(arrow.int8())
    if is_.is_decimal(cells.type):  # the digits, correctly rounded
        cells = cells.cast(arrow.string())
    if _is_text(cells.type):
        cells = _marked(cells, name, marks)
    elif is_.is_temporal(cells.type):
        raise CellError(0, f"column {name!r} has the type {cells.type}, not numbers: {_remedy(name, DATE)}")
    try:
        found = cells.cast(arrow.float64(), safe=False)
    except arrow.ArrowException:
        if not _is_text(cells.type):
            raise CellError(0, f"column {name!r} has the type {cells.type}, not numbers: {_remedy(name)}") from None
        row, text = _first_wrong(cells, arrow.float64())
        raise CellError(
            row,
            f"column {name!r} has {text!r}, which is not a number: repair it, name it among missing_values "
            f"(--missing-values), or {_remedy(name)}",
        ) from None
    values = found.fill_null(np.nan).to_numpy(zero_copy_only=False)
    wild = np.abs(values) > LARGEST
    if wild.any():
        row = int(np.argmax(wild))
        raise CellError(row, f"column {name!r} has {values[row]}: numbers must be finite and at most 1e75")
    return values


def offsets_of(values: np.ndarray, description: Description) -> np.ndarray:
    """Return the offsets of rows whose cells have these numbers."""
    if not description.logs_offset:
        return values
    if (low := ~(values > 0.0)).any():
        row = int(np.argmax(low))
        name = description.offset
        raise CellError(row, f"column {name!r} has {values[row]:g}, and the offset log({name}) needs numbers above 0")
    return np.log(values)


def booleans(cells: Any, name: str, marks: Sequence[str] = ()) -> np.ndarray:
    """Return a column of booleans as 0 and 1, NaN where one is missing; words such as true and 0 are read."""
    cells = _decoded(cells)
    if not _is_text(cells.type):
        values = numbers(cells, name)
        texts: Any = values
    else:
        codes, words = categories(cells, name, marks)
        known = [1.0 if word in TRUE else 0.0 if word in FALSE else 2.0 for word in words]
        values, texts = np.array([*known, np.nan])[codes], np.array([*words, ""], object)[codes]
    wrong = ~np.isnan(values) & (values != 0.0) & (values != 1.0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise CellError(
            row, f"column {name!r} has {texts[row]!r}, which is not true or false: repair it, or {_remedy(name)}"
        )
    return values


def categories(cells: Any, name: str, marks: Sequence[str] = ()) -> tuple[np.ndarray, list[str]]:
    """Return codes of a column's values, -1 where one is missing or its text is in ``marks``, and the texts."""
    arrow = needed("pyarrow", "tables")
    if arrow.types.is_null(cells.type):
        return np.full(len(cells), -1), []
    if not arrow.types.is_dictionary(cells.type):
        try:
            cells = cells.dictionary_encode()
        except arrow.ArrowException as error:
            raise CellError(0, f"column {name!r} of type {cells.type} cannot be read as categories") from error
    codes = cells.indices.cast(arrow.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    try:
        texts = [text_of(value) for value in cells.dictionary.to_pylist()]
    except UnicodeDecodeError:
        raise _not_utf8(cells.dictionary_decode(), name) from None
    missing = [code for code, text in enumerate(texts) if text is None or text in marks]
    codes = np.where(np.isin(codes, missing), -1, codes) if missing else codes
    return codes, ["" if text is None else text for text in texts]


def dates(cells: Any, name: str, marks: Sequence[str] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Return a column of dates and times as microseconds since 1970 (UTC), and which are missing."""
    arrow = needed("pyarrow", "tables")
    cells, is_ = _decoded(cells), arrow.types
    if is_.is_floating(cells.type) and cells.is_null(nan_is_null=True).to_numpy(zero_copy_only=False).all():
        cells = arrow.nulls(len(cells))  # as pandas has a column without any date
    if _is_text(cells.type):
        cells = _dates_of_texts(_marked(cells, name, marks), name)
    elif is_.is_timestamp(cells.type):
        cells = cells.cast(arrow.timestamp("us", cells.type.tz), safe=False)
    elif is_.is_date(cells.type) or is_.is_null(cells.type):
        cells = cells.cast(arrow.timestamp("us"))
    else:
        raise CellError(0, f"column {name!r} has the type {cells.type}, not dates: {_remedy(name, NUMBERS)}")
    holes = cells.is_null().to_numpy(zero_copy_only=False)
    return cells.cast(arrow.int64()).fill_null(0).to_numpy(zero_copy_only=False), holes


def _dates_of_texts(cells: Any, name: str) -> Any:
    """Return texts such as 2021-03-04, 2021-03-04 10:30 or 2021-03-04T10:30:00+01:00 as times in UTC."""
    arrow, compute = needed("pyarrow", "tables"), needed("pyarrow.compute", "tables")
    has_zone = compute.match_substring_regex(cells, _ZONE)
    none = arrow.scalar(None, cells.type)
    zoned = compute.if_else(has_zone, cells, none)
    plain = compute.if_else(has_zone, none, cells)
    found = []
    for part, kind in ((plain, arrow.timestamp("us")), (zoned, arrow.timestamp("us", "UTC"))):
        try:
            found.append(part.cast(kind).cast(arrow.timestamp("us")))
        except arrow.ArrowException:
            row, text = _first_wrong(part, kind)
            raise CellError(
                row,
                f"column {name!r} has {text!r}, which is not a date such as 2021-03-04 or 2021-03-04 10:30:00: repair "
                f"it, or {_remedy(name)}",
            ) from None
    return compute.coalesce(*found)


def text_of(value: Any) -> str | None:
    """Return the text of a category; None if it is missing.

    A whole number has no decimal point, since a column of whole numbers with holes often comes as floats.
    """
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, float):
        return None if value != value else str(int(value)) if value.is_integer() else str(value)
    return str(value)


def _decoded(cells: Any) -> Any:
    return cells.dictionary_decode() if needed("pyarrow.types", "tables").is_dictionary(cells.type) else cells


def _is_text(type: Any) -> bool:
    is_ = needed("pyarrow.types", "tables")
    return is_.is_string(type) or is_.is_large_string(type) or is_.is_string_view(type)


def _marked(cells: Any, name: str, marks: Sequence[str]) -> Any:
    """Return texts without blanks at their ends, null where they are in ``marks``."""
    arrow, compute = needed("pyarrow", "tables"), needed("pyarrow.compute", "tables")
    try:
        cells = compute.utf8_trim_whitespace(cells.cast(arrow.string()))
    except arrow.ArrowInvalid:
        raise _not_utf8(cells, name) from None
    is_mark = compute.is_in(cells, arrow.array(list(marks), arrow.string()))
    return compute.if_else(is_mark, arrow.scalar(None, arrow.string()), cells)


def _is_utf8(cell: Any) -> bool:
    try:
        cell.as_py()
    except UnicodeDecodeError:
        return False
    return True


def _not_utf8(cells: Any, name: str) -> CellError:
    """Return the error of a column of texts of which one is not UTF-8."""
    row = next(row for row, cell in enumerate(cells) if not _is_utf8(cell))
    return CellError(row, f"column {name!r} has a text that is not valid UTF-8: convert it first")


def _first_wrong(cells: Any, type: Any) -> tuple[int, str]:
    """Return row and text of the first cell that cannot be cast."""
    arrow = needed("pyarrow", "tables")
    for row in range(len(cells)):
        try:
            cells.slice(row, 1).cast(type)
        except arrow.ArrowException:
            return row, cells[row].as_py()[:40]
    return 0, ""


def _remedy(name: str, kind: str = CATEGORY) -> str:
    return f"give schema={{{name!r}: {kind!r}}} (--schema {name}={kind})"


# ---- the first rows ------------------------------------------------------------------------------------------------


def kind_of(type: Any) -> str:
    """Return the kind of a column of an Arrow type; "" if it must be given."""
    is_ = needed("pyarrow.types", "tables")
    if is_.is_boolean(type):
        return BOOLEAN
    if is_.is_integer(type) or is_.is_floating(type) or is_.is_decimal(type):
        return NUMBERS
    if is_.is_null(type):
        return IGNORED
    if is_.is_date(type) or is_.is_timestamp(type):
        return DATE
    return CATEGORY if _is_text(type) or is_.is_dictionary(type) else ""


def looks_like_numbers(cells: Any, column: Column) -> str:
    """Return a sentence on a column whose texts look like numbers and would be categories; "" on others.

    Two texts say as a category what they say as numbers, and a dictionary says by its type that it is a category.
    """
    if column.kind != CATEGORY or not _is_text(cells.type):
        return ""
    cells = _marked(cells.slice(0, FIRST_ROWS), column.name, NO_NUMBER).drop_null()
    found = number_texts(cells.to_pylist()) if len(cells.unique()) > 2 else None
    if found is None:
        return ""
    if not found.are_plain:
        what = "write plain numbers such as 1234.5"
    elif found.other is None:
        what = _remedy(column.name, NUMBERS)
    else:
        what = f"repair cells such as {found.other[:40]!r}, or name them among missing_values (--missing-values)"
    return (
        f"column {column.name!r} looks like numbers, such as {found.example!r}, and is read as a category: {what}; if "
        f"it is a category, {_remedy(column.name)}"
    )


def with_first_rows(description: Description, cells: Callable[[str], Any]) -> Description:
    """Return the description with means, holes, origins and rare categories of the first rows.

    A column with a cell that cannot be read stays as it is: the reader will report the row.
    """
    return description._replace(
        columns=tuple(
            column
            if column.kind in (TEXT, IGNORED)
            else _with_first_rows(column, cells(column.name).slice(0, FIRST_ROWS), description)
            for column in description.columns
        )
    )


def _with_first_rows(column: Column, cells: Any, description: Description) -> Column:
    try:
        if column.kind == CATEGORY:
            codes, texts = categories(cells, column.name, description.no_category)
            rare = rare_categories([texts[code] if code >= 0 else None for code in codes.tolist()])
            column = column._replace(rare=rare if column.pools else ())
            return column._replace(holes=float(np.mean(codes < 0))) if len(codes) else column
        if column.kind == DATE:
            times, holes = dates(cells, column.name, description.no_number)
            origin = int(times[~holes].min() // DAY) if not holes.all() else 0
            column = column._replace(origin=origin)
            values = np.where(holes, np.nan, (times - origin * DAY) / DAY)
        else:
            read = booleans if column.kind == BOOLEAN else numbers
            values = read(cells, column.name, description.no_number)
    except CellError:
        return column
    holes = np.isnan(values)
    fill = 0.0 if holes.all() else float(values[~holes].mean())
    return column._replace(fill=fill, holes=float(np.mean(holes)) if len(holes) else 0.0)
