"""Rows from tables: the roles of columns, and their cells as numbers and categories.

A numeric column is a feature of its name; a categorical one has a feature ``name=value`` for each of its values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..data.rows import LARGEST
from ..text.encoding import TextEntries, TextError, joined, text_entries
from ..text.fingerprints import fingerprints
from ..text.spec import TextSpec, spec_of
from .features import encoder
from .files import needed
from .parsed import Parsed, Pieces
from .protocol import StreamError

NUMERIC, CATEGORICAL, TEXT, IGNORE = "numeric", "categorical", "text", "ignore"
OTHERS = "*"
"""The key of a schema for all columns that it does not name."""
TARGETS = ("target", "label", "y", "class")
"""The names of columns that are the target by default."""
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None")
"""The texts that mark a missing number."""


class Layout(NamedTuple):
    """The roles of a table's columns: their names, a kind for each feature, and the columns with another role."""

    columns: tuple[str, ...]
    kinds: dict[str, str]
    target: str | None
    target_kind: str
    weight: str | None
    tag: str | None


class Tabular(Pieces):
    """A stream of the rows of tables.

    ``target`` names the column to predict.  By default it is the one called target, label, y or class; None means no
    target.  ``weight`` and ``tag`` name other columns with a role.  ``schema`` maps columns to "numeric",
    "categorical", "text" or "ignore", and "*" to the kind of all others.  Without "*" these follow from their type, in
    text from their first megabyte.  ``text`` names columns of texts, or maps them to a `TextSpec`; ``text_options`` are
    the options of one for all of them.  A missing category has no entry; a missing number is an error unless
    ``missing="zero"``.  ``optional`` lists "weight" and "tag" if those columns may be absent.
    """

    known_layout: Layout | None = None
    """The layout; None while it is not known."""
    line = "row"
    labels_are = "target= (--target) names their column"
    no_category: Sequence[str] = ()
    """The texts that mark a missing category."""

    def __init__(
        self,
        *,
        target: str | None = "auto",
        weight: str | None = None,
        tag: str | None = None,
        schema: Mapping[str, str] | None = None,
        text: str | Sequence[str] | Mapping[str, TextSpec] = (),
        text_options: Mapping[str, Any] | None = None,
        optional: Sequence[str] = (),
        missing: str = "refuse",
        hash_bits: int | None = None,
        seed: int = 0,
        signed: bool = True,
        names: Any = None,
        frozen: bool = False,
    ) -> None:
        if missing not in ("refuse", "zero"):
            raise ValueError(f"missing must be 'refuse' or 'zero', not {missing!r}.")
        for name, kind in (schema or {}).items():
            if kind not in (NUMERIC, CATEGORICAL, TEXT, IGNORE):
                raise ValueError(f"schema has {kind!r} for {name!r}: choose numeric, categorical, text or ignore.")
        texts = [text] if isinstance(text, str) else list(text)
        self.asked = target, weight, tag, dict(schema or {}) | dict.fromkeys(texts, TEXT)
        self.text_spec, self.told = spec_of(text_options), dict(text) if isinstance(text, Mapping) else {}
        self.texts = {name: spec_of(spec) for name, spec in self.told.items()}
        self.optional, self.missing = list(optional), missing
        self.encoder = encoder(hash_bits, seed, signed, names, frozen)
        self.seed = self.encoder.seed

    def settings(self) -> dict[str, Any]:
        found = {"asked": list(self.asked), "optional": self.optional, "missing": self.missing}
        if TEXT in self.asked[3].values():
            found["text"] = [self.text_spec.settings(), {name: spec.settings() for name, spec in self.told.items()}]
        return found

    @property
    def layout(self) -> Layout:
        """Return the layout, which the first rows have decided."""
        assert self.known_layout is not None
        return self.known_layout

    def laid_out(self) -> Layout | None:
        """Return the layout, also before the first row is read; None if it is not known."""
        return self.known_layout

    def remarks(self) -> list[str]:
        """Return remarks on the target and the kinds of columns, if they were not given."""
        layout, (target, _, _, schema) = self.laid_out(), self.asked
        if layout is None:
            return []
        found = [f"target: column {layout.target!r}"] if target == "auto" else []
        kinds = []
        for kind, words in ((NUMERIC, "numeric"), (CATEGORICAL, "categorical"), (IGNORE, "ignored as empty")):
            names = [name for name, each in layout.kinds.items() if each == kind and name not in schema]
            kinds += [f"{len(names)} {words} ({listed(names)})"] if names and OTHERS not in schema else []
        return found + (["columns: " + ", ".join(kinds)] if kinds else [])

    def lay_out(self, types: dict[str, Any], source: str) -> Layout:
        """Return the roles and kinds of columns of these Arrow types."""
        target, weight, tag, schema = self.asked
        if target == "auto":
            found = [name for name in types if name.lower() in TARGETS]
            if len(found) != 1:
                raise StreamError(
                    f"{source}: the target column is unknown: give target= (--target), None (none) "
                    f"for no target, or one of {listed(list(types), 20)}."
                )
            target = found[0]
        weight = None if "weight" in self.optional and weight not in types else weight
        tag = None if "tag" in self.optional and tag not in types else tag
        roles = [("target", target), ("weight", weight), ("tag", tag)]
        for role, name in [*roles, *(("schema", name) for name in schema if name != OTHERS)]:
            if name is not None and name not in types:
                there = listed(list(types), 20)
                raise StreamError(f"{source}: {role} names the column {name!r}, but there are {there}.")
        kinds = {}
        for name, type in types.items():
            if name not in (target, weight, tag):
                kinds[name] = schema.get(name) or schema.get(OTHERS) or _kind(type)
                if not kinds[name]:
                    raise StreamError(
                        f"{source}: column {name!r} has the type {type}, neither a number nor a category: give "
                        f"schema={{{name!r}: 'ignore'}} (--schema {name}=ignore), 'categorical' or 'numeric'."
                    )
        is_only = len([kind for kind in kinds.values() if kind != IGNORE]) == 1
        for name, kind in kinds.items():
            if kind == TEXT and name not in self.texts:
                self.texts[name] = self.text_spec._replace(prefix="" if is_only else f"{name}:")
        kind = NUMERIC if target is None else schema.get(target) or _kind(types[target])
        return Layout(tuple(types), kinds, target, kind, weight, tag)

    def parsed(self, batch: Any, lines: int) -> Parsed:
        """Return the rows of a record batch; an error names a row, counted from 1."""
        n, layout = batch.num_rows, self.layout
        features = [(name, kind) for name, kind in layout.kinds.items() if kind not in (TEXT, IGNORE)]
        keys = np.empty((n, len(features)), np.uint64)
        values, kept = np.ones((n, len(features))), np.ones((n, len(features)), bool)
        texts: list[Any] = []
        label: Any
        try:
            for k, (name, kind) in enumerate(features):
                column = batch.column(layout.columns.index(name))
                if kind == NUMERIC:
                    values[:, k] = _numbers(column, name, self.missing)
                    keys[:, k], label = fingerprints([name], self.seed)[0], (name, None)
                else:
                    codes, categories = _categories(column, name, self.no_category)
                    kept[:, k], label = codes >= 0, (name, (codes, categories))
                    known = fingerprints([f"{name}={category}" for category in categories], self.seed)
                    keys[:, k] = np.append(known, np.uint64(0))[codes]
                texts.append(label)
            columns = [self._text_of(batch, name) for name, kind in layout.kinds.items() if kind == TEXT]
            y = np.full(n, np.nan)
            if layout.target is not None:
                column = batch.column(layout.columns.index(layout.target))
                is_number = layout.target_kind == NUMERIC
                y = _numbers(column, layout.target) if is_number else _labels(column, layout.target, self.no_category)
            weights = None
            if layout.weight is not None:
                weights = _numbers(batch.column(layout.columns.index(layout.weight)), layout.weight)
                if (weights < 0.0).any():
                    raise _CellError(int(np.argmax(weights < 0.0)), f"column {layout.weight!r} has a negative weight")
        except _CellError as wrong:
            return Parsed.none((wrong.row + 1, wrong.sentence))
        tags = None
        if layout.tag is not None:
            column = batch.column(layout.columns.index(layout.tag))
            tags = ["" if tag is None else str(tag) for tag in column.to_pylist()]
        indptr, entry_of = np.append(0, np.cumsum(kept.sum(1))), np.flatnonzero(kept)

        def names_of(entries: np.ndarray) -> list[str]:
            found = []
            for cell in entry_of[entries].tolist():
                row, k = divmod(cell, len(features))
                name, coded = texts[k]
                found.append(name if coded is None else f"{name}={coded[1][coded[0][row]]}")
            return found

        if features or not columns:
            columns = [TextEntries(indptr, keys[kept], values[kept], names_of), *columns]
        indptr, found, numbers, names = joined(columns)
        return Parsed(lines, indptr, found, numbers, y, weights, tags, names_of=names)

    def _text_of(self, batch: Any, name: str) -> TextEntries:
        """Return the features of a column of texts."""
        try:
            return text_entries(batch.column(self.layout.columns.index(name)), self.texts[name], self.seed)
        except TextError as error:
            raise _CellError(error.row, f"column {name!r} has a text that {error.sentence}") from None
        except needed("pyarrow", "tables").ArrowException as error:
            raise _CellError(0, f"column {name!r} cannot be read as text: {error}") from error


def listed(names: Sequence[str], most: int = 6) -> str:
    """Return the first of some names, for a message."""
    few = [repr(name[:40])[1:-1] + "..." * (len(name) > 40) for name in names[:most]]
    return ", ".join(few) + (f" and {len(names) - most:,} more" if len(names) > most else "")


class _CellError(Exception):
    def __init__(self, row: int, sentence: str) -> None:
        super().__init__(sentence)
        self.row, self.sentence = row, sentence


def _kind(type: Any) -> str:
    """Return the kind of a column of an Arrow type; "" if it must be given."""
    is_ = needed("pyarrow.types", "tables")
    if is_.is_integer(type) or is_.is_floating(type) or is_.is_boolean(type) or is_.is_decimal(type):
        return NUMERIC
    if is_.is_null(type):
        return IGNORE
    views = is_.is_string(type) or is_.is_large_string(type) or is_.is_string_view(type)
    return CATEGORICAL if views or is_.is_dictionary(type) else ""


def _numbers(column: Any, name: str, missing: str = "refuse") -> np.ndarray:
    """Return a column as float64, with 0 for missing numbers where ``missing="zero"``."""
    arrow = needed("pyarrow", "tables")
    if column.null_count and missing != "zero":
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        remedy = "fill it in, or give missing='zero' (--missing zero) where it is a feature"
        raise _CellError(row, f"column {name!r} has no number: {remedy}")
    if arrow.types.is_boolean(column.type):
        column = column.cast(arrow.int8())
    try:
        numbers = column.cast(arrow.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False)
    except arrow.ArrowException as error:
        raise _CellError(0, f"column {name!r} cannot be read as numbers: {error}") from error
    good = np.abs(numbers) <= LARGEST
    if not good.all():
        row = int(np.argmin(good))
        raise _CellError(row, f"column {name!r} has {numbers[row]}: numbers must be finite and at most 1e75")
    return numbers


def _categories(column: Any, name: str, none: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Return codes of a column's values, -1 where one is missing or among ``none``, and the values as text."""
    arrow = needed("pyarrow", "tables")
    if not arrow.types.is_dictionary(column.type):
        try:
            column = column.dictionary_encode()
        except arrow.ArrowException as error:
            raise _CellError(0, f"column {name!r} of type {column.type} cannot be read as categories") from error
    codes = column.indices.cast(arrow.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    values = column.dictionary.to_pylist()
    texts = [_text(value) for value in values]
    missing = [code for code, value in enumerate(values) if value is None or texts[code] in none]
    return np.where(np.isin(codes, missing), -1, codes) if missing else codes, texts


def _text(value: Any) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _labels(column: Any, name: str, none: Sequence[str]) -> np.ndarray:
    codes, values = _categories(column, name, none)
    if (codes < 0).any():
        raise _CellError(int(np.argmin(codes)), f"column {name!r} is empty: every row needs a label")
    return np.array(values, object)[codes]
