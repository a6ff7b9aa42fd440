"""Rows from tables: the roles of columns, and the stream of their entries.

What a cell becomes is decided in ``encoding.py``, by the description of its column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..text.spec import TextSpec, spec_of
from ..util.notices import warn
from .description import (
    BOOLEAN,
    DATE,
    IGNORED,
    INDICATOR,
    NO_CATEGORY,
    NO_NUMBER,
    NUMBERS,
    OTHERS,
    TEXT,
    Column,
    Description,
    checked_missing,
    listed,
    offset_column,
    spelled,
    to_json,
)
from .encoding import (
    CellError,
    Unknown,
    categories,
    counted_texts,
    entries,
    kind_of,
    looks_like_numbers,
    numbers,
    offsets_of,
    with_first_rows,
)
from .features import Hashed, Vocabulary, encoder
from .frequencies import check_hashing, identity_of
from .parsed import Parsed, Pieces
from .protocol import Chunk, Position, StreamError

ROLES = ("target", "weight", "tag", "offset", "time")
"""The roles of columns that are not features."""
TARGETS = ("target", "label", "y", "class")
"""The names of columns that are the target by default."""


def _check_roles(roles: Sequence[tuple[str, str | None]], schema: Mapping[str, str], source: str) -> None:
    """Raise a StreamError for a column with two roles that exclude each other."""
    target = dict(roles)["target"]
    for role, name in roles:
        if name is not None and schema.get(name) == TEXT:
            raise StreamError(
                f"{source}: column {name!r} is the {role} and cannot be a text, too: name another column (text=, "
                "--text)."
            )
        if role in ("weight", "offset") and name is not None and name == target:
            raise StreamError(f"{source}: column {name!r} is the target and cannot be the {role}, too: name another.")


class Tabular(Pieces):
    """A stream of the rows of tables.

    ``target`` names the column to predict.  By default it is the one called target, label, y or class; None means no
    target.  ``weight``, ``tag`` and ``offset`` name other columns with a role; the offset "log(exposure)" is the
    logarithm of the column exposure.  ``schema`` maps columns to "numbers", "category",
    "boolean", "date", "text" or "ignored", and "*" to the kind of all others.  Without "*" these follow from their
    type, in text from their first megabyte.  ``missing`` is what a missing cell becomes: "indicator" (the mean of the
    first rows, and a feature ``name?``), "mean", "zero", or "refuse".  A word of the schema may have its own, as in
    "numbers:mean".  ``text`` names columns of texts, or maps them to a `TextSpec`; ``text_options`` are the options of
    one for all of them.  ``optional`` lists "weight" and "tag" if those columns may be absent.  ``description`` takes
    the place of all these decisions; ``predicts`` means that rows are read for a model that learned by it.
    """

    known: Description | None = None
    """The description; None while it is not known."""
    columns: tuple[str, ...] = ()
    """The columns of the source, in their order."""
    line = "row"
    labels_are = "target= (--target) names their column"
    marks: tuple[Sequence[str], Sequence[str]] | None = None
    """The texts of missing numbers and of missing categories, where they were given."""

    def __init__(
        self,
        *,
        target: str | None = "auto",
        weight: str | None = None,
        tag: str | None = None,
        offset: str | None = None,
        time: str | None = None,
        schema: Mapping[str, str] | None = None,
        text: str | Sequence[str] | Mapping[str, TextSpec] = (),
        text_options: Mapping[str, Any] | None = None,
        optional: Sequence[str] = (),
        missing: str = INDICATOR,
        hash_bits: int | None = None,
        seed: int = 0,
        signed: bool = True,
        names: Any = None,
        frozen: bool = False,
        description: Description | None = None,
        predicts: bool = False,
        counts: Mapping[str, Any] | None = None,
    ) -> None:
        checked_missing(missing)
        for name, word in (schema or {}).items():
            spelled(name, word)
        texts = [text] if isinstance(text, str) else list(text)
        self.asked = target, weight, tag, dict(schema or {}) | dict.fromkeys(texts, TEXT)
        self.offset, self.time = offset, time
        self.text_spec, self.told = spec_of(text_options), dict(text) if isinstance(text, Mapping) else {}
        self.has_text_options = bool(text_options)
        self.texts = {name: spec_of(spec) for name, spec in self.told.items()}
        self.optional, self.missing, self.given = list(optional), missing, description
        self.unknown = Unknown() if predicts else None
        self.predicts, self.given_counts = predicts, counts
        if description is not None and description.hash_bits is not None:
            hash_bits, seed, signed = description.hash_bits, description.seed, description.signed
        is_encoder = isinstance(names, Vocabulary | Hashed)
        self.encoder = names if is_encoder else encoder(hash_bits, seed, signed, names, frozen)
        self.seed = self.encoder.seed
        for spec in (self.text_spec, *self.texts.values()):
            check_hashing(spec, hash_bits)

    def settings(self) -> dict[str, Any]:
        given = {} if self.given is None else {"description": to_json(self.given)}
        if TEXT in self.asked[3].values():
            given |= identity_of(self.given_counts)
            given["text"] = [self.text_spec.settings(), {name: spec.settings() for name, spec in self.told.items()}]
        if self.offset is not None:
            given["offset"] = self.offset
        if self.time is not None:
            given["time"] = self.time
        return {"asked": list(self.asked), "optional": self.optional, "missing": self.missing} | given

    def other_format(self, columns: Sequence[str]) -> str:
        """Return which other format a table with these columns may have, as the end of a sentence."""
        return ""

    @property
    def description(self) -> Description | None:  # type: ignore[override]
        """Return the description, also before the first row is read; None if it is not known."""
        return self.known

    @property
    def decided(self) -> Description:
        """Return the description, which the first rows have decided."""
        assert self.known is not None
        return self.known

    def remarks(self) -> list[str]:
        """Return remarks on the target and the columns, if they were not given."""
        found, target = self.description, self.asked[0]
        if found is None or self.given is not None:
            return []
        return [f"target: column {found.target!r}"] * (target == "auto") + found.lines()

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        yield from super().chunks(start)
        if self.unknown is not None and (sentence := self.unknown.sentence()):
            self.unknown = Unknown()
            warn(sentence)

    def describe(self, names: Sequence[str], types: Callable[[], Mapping[str, Any]], source: str) -> Description:
        """Return the description of columns with these names: the given one, or one by their roles and Arrow types."""
        self.columns = tuple(names)
        if self.given is not None:
            return self._fitted(self.given, source)
        if len(set(names)) < len(names):
            twice = next(name for name in names if list(names).count(name) > 1)
            raise StreamError(f"{source}: two columns have the name {twice!r}: rename one.")
        return self._by_types(types(), source)

    def _fitted(self, description: Description, source: str) -> Description:
        """Return a given description without the optional columns that are absent; raise if another one is."""
        if "weight" in self.optional and description.weight not in self.columns:
            description = description._replace(weight=None)
        if "tag" in self.optional and description.tag not in self.columns:
            description = description._replace(tag=None)
        if description.time not in self.columns:  # what has learned rows with times asks for them itself
            description = description._replace(time=None)
        roles = [(f"the {role}", getattr(description, role)) for role in ROLES]
        for role, name in [*roles, *(("a feature of the model", each.name) for each in description.features)]:
            if name is not None and self.columns.count(name) != 1:
                how = "has no column" if name not in self.columns else "has two columns"
                there = listed(self.columns, 20) + self.other_format(self.columns)
                raise StreamError(f"{source} {how} {name!r}, {role}: there are {there}.")
        return description

    def _by_types(self, types: Mapping[str, Any], source: str) -> Description:
        target, weight, tag, schema = self.asked
        if target == "auto":
            found = [name for name in types if name.lower() in TARGETS]
            if len(found) != 1:
                raise StreamError(
                    f"{source}: the target column is unknown: give target= (--target), None (none) "
                    f"for no target, or one of {listed(list(types), 20)}{self.other_format(list(types))}."
                )
            target = found[0]
        weight = None if "weight" in self.optional and weight not in types else weight
        tag = None if "tag" in self.optional and tag not in types else tag
        offset, logs_offset = offset_column(self.offset, types)
        roles = [("target", target), ("weight", weight), ("tag", tag), ("offset", offset), ("time", self.time)]
        for role, name in [*roles, *(("schema", name) for name in schema if name != OTHERS)]:
            if name is not None and name not in types:
                there = listed(list(types), 20) + self.other_format(list(types))
                raise StreamError(f"{source}: {role} names the column {name!r}, but there are {there}.")
        _check_roles(roles, schema, source)
        with_role = [name for _, name in roles]
        columns = tuple(self._column(name, type, source) for name, type in types.items() if name not in with_role)
        if self.has_text_options and TEXT not in [each.kind for each in columns]:
            raise StreamError(f"{source}: options of texts have no effect without a column of texts: name it (--text).")
        is_only = sum(each.kind != IGNORED for each in columns) == 1
        columns = tuple(self._with_text(each, is_only) for each in columns)
        kind = NUMBERS
        if target is not None:
            kind = spelled(target, schema[target])[0] if target in schema else kind_of(types[target])
            kind = NUMBERS if kind == BOOLEAN else kind
        no_number, no_category = self.marks or (NO_NUMBER, NO_CATEGORY)
        rest: dict[str, Any] = {"offset": offset, "logs_offset": logs_offset, "time": self.time}
        if isinstance(self.encoder, Hashed):
            rest |= {"hash_bits": self.encoder.bits, "seed": self.encoder.seed, "signed": self.encoder.signed}
        return Description(columns, target, kind, weight, tag, tuple(no_number), tuple(no_category), **rest)

    def _with_text(self, column: Column, is_only: bool) -> Column:
        """Return a column of texts with its options; the name of the only column is not put before its features."""
        if column.kind != TEXT:
            return column
        own = self.text_spec._replace(prefix="" if is_only else f"{column.name}:")
        return column._replace(text=self.texts.get(column.name, own))

    def _column(self, name: str, type: Any, source: str) -> Column:
        """Return a column by its type, or as the schema has it."""
        schema = self.asked[3]
        word = schema.get(name) or schema.get(OTHERS)
        if word is not None:
            kind, missing, pools = spelled(name, word)
            return Column(name, kind, missing or self.missing, pools=pools)
        if not (kind := kind_of(type)):
            raise StreamError(
                f"{source}: column {name!r} has the type {type}, neither a number nor a category: give "
                f"schema={{{name!r}: 'ignore'}} (--schema {name}=ignore), 'category' or 'numbers'."
            )
        return Column(name, kind, self.missing)

    def decide(self, description: Description, first: Any, source: str) -> Description:
        """Return the description with what the first rows show; ``first`` is a table of them."""
        if self.given is not None or first is None:
            return description

        def cells(name: str) -> Any:
            return _whole(first.column(self.columns.index(name)))

        schema = self.asked[3]
        for column in description.features if OTHERS not in schema else ():
            if column.name not in schema and (sentence := looks_like_numbers(cells(column.name), column)):
                warn(f"{source}: {sentence}.")
        return with_first_rows(description, cells)

    def parsed(self, batch: Any, lines: int) -> Parsed:
        """Return the rows of a record batch; an error names a row, counted from 1."""
        n, found = batch.num_rows, self.decided

        def cells(name: str) -> Any:
            return batch.column(self.columns.index(name))

        try:
            indptr, keys, values, names_of = entries(cells, n, found, self.seed, self.unknown)
            texts = counted_texts(cells, found, self.seed)
            y = np.full(n, np.nan)
            if found.target is not None:
                y = self._targets(cells(found.target), found)
            weights = None
            if found.weight is not None:
                weights = _required(cells(found.weight), found.weight, found)
                if (weights < 0.0).any():
                    raise CellError(int(np.argmax(weights < 0.0)), f"column {found.weight!r} has a negative weight")
            offsets = None
            if found.offset is not None:
                offsets = offsets_of(_required(cells(found.offset), found.offset, found), found)
            times = None if found.time is None else _required(cells(found.time), found.time, found)
        except CellError as wrong:
            return Parsed.none((wrong.row + 1, wrong.sentence))
        tags = None
        if found.tag is not None:
            tags = ["" if tag is None else str(tag) for tag in cells(found.tag).to_pylist()]
        parsed = Parsed(lines, indptr, keys, values, y, weights, tags, names_of=names_of, offsets=offsets, times=times)
        return parsed._replace(texts=texts)

    def _targets(self, column: Any, found: Description) -> np.ndarray:
        name = str(found.target)
        if found.target_kind == NUMBERS:
            return _required(column, name, found)
        if found.target_kind == DATE:
            raise CellError(
                0,
                f"column {name!r} has dates, which cannot be the target: give schema={{{name!r}: "
                f"'category'}} (--schema {name}=category), or numbers in their place",
            )
        codes, values = categories(column, name, found.no_category)
        if (codes < 0).any():
            raise CellError(int(np.argmin(codes)), f"column {name!r} is empty: every row needs a label")
        return np.array(values, object)[codes]


def _required(column: Any, name: str, found: Description) -> np.ndarray:
    """Return a column of numbers of which none may be missing."""
    values = numbers(column, name, found.no_number)
    if np.isnan(values).any():
        raise CellError(int(np.argmax(np.isnan(values))), f"column {name!r} has no number: every row needs one")
    return values


def _whole(column: Any) -> Any:
    """Return a column as one Arrow array."""
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column
