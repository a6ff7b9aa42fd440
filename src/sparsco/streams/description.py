"""The description of a table's columns: what each is, and what stands for its missing cells.

It is decided from the first rows, saved in the model, and used by every source of rows: the same record becomes the
same features from CSV, Parquet, data frames and dicts.
"""

from __future__ import annotations

import bisect
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..text.spec import TFIDF, WORD, TextSpec
from ..util.progress import percent
from ..util.typed import checked

NUMBERS, CATEGORY, BOOLEAN, DATE, TEXT, IGNORED = "numbers", "category", "boolean", "date", "text", "ignored"
REFUSE, ZERO, MEAN, INDICATOR = "refuse", "zero", "mean", "indicator"
MISSING_AS = (INDICATOR, MEAN, ZERO, REFUSE)
"""What a missing cell may become; the first is the default."""
KINDS = {
    NUMBERS: NUMBERS,
    CATEGORY: CATEGORY,
    BOOLEAN: BOOLEAN,
    DATE: DATE,
    TEXT: TEXT,
    IGNORED: IGNORED,
    "numeric": NUMBERS,
    "categorical": CATEGORY,
    "ignore": IGNORED,
}
"""The kinds of columns by the words of a schema."""
OTHERS = "*"
"""The key of a schema for all columns that it does not name."""
EVERY = "every"
"""The word of a schema that keeps rare categories apart."""
NO_NUMBER = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None")
"""The texts that mark a missing number, boolean or date."""
NO_CATEGORY = ("",)
"""The texts that mark a missing category."""
FIRST_ROWS = 1000
"""The number of rows from which a description is decided."""
POOL = "other"
_FEWEST = 5
"""The number of rare categories from which on a column has a pool: fewer say little about those to come."""
_MOST_SEEN = 1000
"""The most categories of a column that a model remembers."""
_MOST_LINES = 40
_MOST_DAYS = 1 << 31
"""More days than NumPy has dates, in either direction."""
_MANY_TEXTS, _LONG_TEXT = 50, 20
"""Categories look like texts if so many are rare, and have so many characters on average."""
_DATE_PARTS = (":month", ":weekday")


class Column(NamedTuple):
    """A column of a table: its kind, what stands for missing cells, and what the first rows and the training showed."""

    name: str
    kind: str
    missing: str = INDICATOR
    fill: float = 0.0
    """The mean of the first rows; a missing cell has this value, unless it is refused or zero."""
    holes: float = 0.0
    """The share of missing cells among the first rows."""
    origin: int = 0
    """The day from which the days of a date are counted, in days since 1970-01-01."""
    rare: tuple[str, ...] = ()
    """The rare categories, which are one feature ``name=other``."""
    pools: bool = True
    """False if rare categories must be kept apart."""
    seen: tuple[str, ...] | None = None
    """All categories of the training, sorted; None if they are not known, or more than a thousand."""
    had_holes: bool | None = None
    """Whether cells were missing in the training; None if it is not known."""
    text: TextSpec | None = None
    """The options of a column of texts."""

    def check(self) -> None:
        """Raise a ValueError for a kind or a treatment of missing cells that there is not, or a fill that is none."""
        if self.kind not in KINDS.values() or self.missing not in MISSING_AS or not math.isfinite(self.fill):
            raise ValueError(f"the column {self.name!r} has an unknown kind or treatment of missing cells")
        if not 0.0 <= self.holes <= 1.0 or abs(self.origin) > _MOST_DAYS or (self.kind == TEXT and self.text is None):
            raise ValueError(f"the column {self.name!r} has values that do not fit its kind")

    @property
    def stands_for_missing(self) -> float:
        """Return the number that a missing cell becomes."""
        return self.fill if self.missing in (MEAN, INDICATOR) else 0.0

    def has_seen(self, text: str) -> bool:
        """Return whether a category was in the training; True if that is not known."""
        if self.seen is None:
            return True
        place = bisect.bisect_left(self.seen, text)
        return place < len(self.seen) and self.seen[place] == text

    def reads_alike(self, other: Column) -> bool:
        """Return whether rows that ``other`` has described have the features and values that they have here.

        Frequencies of words grow from row to row, and are never alike.
        """
        if (self.kind, self.missing, self.text) != (other.kind, other.missing, other.text):
            return False
        if self.text is not None and self.text.counts:
            return False
        if self.kind == CATEGORY:
            return self.rare == other.rare and (not self.rare or self.seen == other.seen)
        is_filled = bool(other.holes or other.had_holes) and self.kind not in (TEXT, IGNORED)
        return self.origin == other.origin and not (is_filled and self.stands_for_missing != other.stands_for_missing)

    def line(self) -> str:
        """Return the column in one line."""
        return f"{self.name}: {self.kind}" + "".join(f", {part}" for part in self._details())

    def _details(self) -> list[str]:
        found = []
        if self.text is not None:
            low, high = self.text.lengths
            what = "words" if self.text.analyzer == WORD else "characters"
            found.append(what if low == high == 1 else f"{low} to {high} {what}")
            found += ["tf-idf"] if self.text.weighting == TFIDF else []
            found += [f"each in at least {self.text.min_count} texts"] if self.text.min_count > 1 else []
        if self.kind == DATE:
            found.append(f"as days since {day_text(self.origin)}, month and weekday")
        if self.rare:
            found.append(f"{len(self.rare)} rare ones pooled as {self.name}={POOL}")
            if len(self.rare) >= _MANY_TEXTS and sum(map(len, self.rare)) >= _LONG_TEXT * len(self.rare):
                found.append(f"which look like texts: --text {self.name} makes words of them")
        if self.holes and self.kind not in (TEXT, IGNORED):
            share = f"{percent(self.holes)} missing"
            by_indicator = f"with an indicator {self.name}?"
            if self.kind == CATEGORY:
                found.append(f"{share} {by_indicator}" if self.missing == INDICATOR else share)
            else:
                as_mean = f"as the mean {self.fill:.4g}"
                ways = {INDICATOR: f"{as_mean} {by_indicator}", MEAN: as_mean, ZERO: "as zero", REFUSE: "refused"}
                found.append(f"{share} {ways[self.missing]}")
        return found


class Description(NamedTuple):
    """The columns of a table, their roles, and how the names of features become columns of a model.

    ``columns`` has the features and the ignored columns in the order of the table; ``target``, ``weight``, ``tag`` and
    ``offset`` and ``time`` name the columns with another role.
    """

    columns: tuple[Column, ...]
    target: str | None = None
    target_kind: str = NUMBERS
    weight: str | None = None
    tag: str | None = None
    no_number: tuple[str, ...] = NO_NUMBER
    no_category: tuple[str, ...] = NO_CATEGORY
    hash_bits: int | None = None
    seed: int = 0
    signed: bool = True
    offset: str | None = None
    logs_offset: bool = False
    """Whether the offset is the logarithm of its column, such as an exposure."""
    time: str | None = None

    def check(self) -> None:
        """Raise a ValueError for columns with one name, or for a hash that there is not."""
        if len({column.name for column in self.columns}) < len(self.columns):
            raise ValueError("two columns have the same name")
        if self.target_kind not in KINDS.values() or self.hash_bits not in (None, *range(1, 32)):
            raise ValueError("the description of columns has an unknown kind of target or number of bits of a hash")
        if not 0 <= self.seed < 1 << 32:
            raise ValueError(f"the seed of the hash is {self.seed}")

    @property
    def features(self) -> list[Column]:
        """Return the columns that are not ignored."""
        return [column for column in self.columns if column.kind != IGNORED]

    @property
    def names(self) -> list[str]:
        """Return the names of the columns that are read: features, target, weight, tag, offset and time."""
        roles = (self.target, self.weight, self.tag, self.offset, self.time)
        return [*(column.name for column in self.features), *(name for name in roles if name is not None)]

    @property
    def is_numeric(self) -> bool:
        """Return whether every feature is a column of the table: there are only numbers, none missing so far."""
        return all(column.kind in (NUMBERS, BOOLEAN) and not column.holes for column in self.features)

    @property
    def counted(self) -> dict[str, TextSpec]:
        """Return the columns of texts whose values depend on the texts before, with their options."""
        found = {column.name: column.text for column in self.features if column.kind == TEXT}
        return {name: spec for name, spec in found.items() if spec is not None and spec.counts}

    @property
    def texts(self) -> TextSpec | None:
        """Return the options of the texts, if the only feature is a column of texts; else None."""
        only = self.features
        return only[0].text if len(only) == 1 and only[0].kind == TEXT else None

    def lines(self) -> list[str]:
        """Return a line for each column; of very many columns the first ones and the numbers of the others."""
        found = [column.line() for column in self.columns[:_MOST_LINES]]
        if self.offset is not None:
            found.insert(0, f"{self.offset}: offset" + ", its logarithm" * self.logs_offset)
        rest = [column.kind for column in self.columns[_MOST_LINES:]]
        if rest:
            counts = ", ".join(f"{rest.count(kind):,} {kind}" for kind in dict.fromkeys(rest))
            found.append(f"... and {len(rest):,} more columns: {counts}")
        return found

    def refusing_holes(self) -> Description:
        """Return the description with missing cells refused where they would be new features."""
        return self._replace(
            columns=tuple(
                column._replace(missing=REFUSE) if column.missing == INDICATOR else column for column in self.columns
            )
        )

    def only(self, names: Iterable[str] | None, labelled: bool = True) -> Description:
        """Return the description of the columns that features of these names come from; None stands for all names.

        Without ``labelled`` rows need no target.  They need no time in any case.
        """
        columns = self.features
        if names is not None:
            used = {part for name in names for part in _possible_columns(name)}
            columns = [column for column in columns if column.name in used or column.kind == TEXT]
        return self._replace(columns=tuple(columns), target=self.target if labelled else None, time=None)

    def learned(self, names: Collection[str]) -> Description:
        """Return the description with what the training has seen, by the names of all its features."""
        if self.hash_bits is not None:
            return self
        values: dict[str, list[str]] = {column.name: [] for column in self.columns if column.kind == CATEGORY}
        known = set(names)
        for name in known if values else ():  # words are many, and no category
            at = name.find("=")
            while at >= 0:
                if name[:at] in values:
                    values[name[:at]].append(name[at + 1 :])
                at = name.find("=", at + 1)

        def with_seen(column: Column) -> Column:
            holes = column.name + "?" in known if column.missing == INDICATOR else None
            if column.kind != CATEGORY:
                return column._replace(had_holes=holes)
            seen = sorted({*values[column.name], *column.rare})
            return column._replace(had_holes=holes, seen=None if len(seen) > _MOST_SEEN else tuple(seen))

        return self._replace(columns=tuple(with_seen(column) for column in self.columns))

    def overridden(
        self,
        schema: Mapping[str, str] | None = None,
        missing: str | None = None,
        marks: tuple[Sequence[str], Sequence[str]] | None = None,
        **roles: Any,
    ) -> Description:
        """Return the description with other kinds, another treatment of missing cells, other marks of them or roles."""
        by_name = {column.name: column for column in self.columns}
        if missing is not None:
            by_name = {name: column._replace(missing=checked_missing(missing)) for name, column in by_name.items()}
        target_kind = self.target_kind
        for name, word in (schema or {}).items():
            kind, how, pools = spelled(name, word)
            if name == roles.get("target", self.target):
                target_kind = kind
            elif name != OTHERS:
                column = by_name.get(name, Column(name, kind))
                by_name[name] = column._replace(kind=kind, missing=how or column.missing, pools=pools)
        found = self._replace(columns=tuple(by_name.values()), target_kind=target_kind, **roles)
        return found if marks is None else found._replace(no_number=tuple(marks[0]), no_category=tuple(marks[1]))


def of_texts(spec: TextSpec, **hashing: Any) -> Description:
    """Return the description of texts that are no table: one column ``text``, and the target ``label``."""
    return Description((Column(TEXT, TEXT, text=spec),), "label", CATEGORY, **hashing)


def offset_column(given: str | None, columns: Collection[str]) -> tuple[str | None, bool]:
    """Return the column of an offset, and whether its logarithm is taken.

    >>> offset_column("log(exposure)", ["exposure", "age"]), offset_column("log(a)", ["log(a)"])
    (('exposure', True), ('log(a)', False))
    """
    if given is None or given in columns or not (given.startswith("log(") and given.endswith(")")):
        return given, False
    return given[4:-1].strip(), True


def spelled(name: str, word: str) -> tuple[str, str | None, bool]:
    """Return kind, treatment of missing cells and pooling of a schema's word such as "numbers:mean"."""
    kind, _, detail = str(word).partition(":")
    if kind not in KINDS or detail not in ("", EVERY, *MISSING_AS):
        raise ValueError(
            f"schema has {word!r} for {name!r}: choose numbers, category, boolean, date, text or ignored (or the words "
            "numeric, categorical, ignore), and after a colon mean, zero, indicator, refuse, or every for rare "
            "categories."
        )
    return KINDS[kind], detail if detail in MISSING_AS else None, detail != EVERY


def checked_missing(missing: str) -> str:
    """Return the treatment of missing cells; raise a ValueError for an unknown word."""
    if missing not in MISSING_AS:
        raise ValueError(f"missing must be one of {', '.join(MISSING_AS)}, not {missing!r}.")
    return missing


def from_schema(
    schema: Mapping[str, str],
    target: str | None,
    missing: str = REFUSE,
    marks: Sequence[str] | None = None,
    **more: Any,
) -> Description:
    """Return the description that a model file of before has: the kinds of its columns."""
    kinds = {name: KINDS[kind] for name, kind in schema.items()}
    columns = tuple(Column(name, kind, missing) for name, kind in kinds.items() if name != target)
    found = Description(columns, target, kinds.get(target or "", NUMBERS), **more)
    return found if marks is None else found._replace(no_number=tuple(marks), no_category=tuple(marks))


def to_json(description: Description) -> Any:
    """Return a description as the nested lists that JSON makes of it."""
    return json.loads(json.dumps(description))


def from_json(stored: Any) -> Description | None:
    """Return the description in the nested lists that JSON makes of one; None if there is none."""
    if stored is None:
        return None
    columns, *fields = stored
    return checked(Description(tuple(_column(column) for column in columns), *_tuples(fields)))


def _column(stored: Iterable[Any]) -> Column:
    column = Column(*_tuples(stored))
    text = None if column.text is None else checked(TextSpec(*_tuples(column.text)))
    return checked(column._replace(text=text))


def _tuples(fields: Iterable[Any]) -> list[Any]:
    return [tuple(field) if isinstance(field, list) else field for field in fields]


def rare_categories(texts: Sequence[str | None]) -> tuple[str, ...]:
    """Return the categories to pool: those that the first rows show once, in their first half.

    Where rows are sorted by the column, a category at the end of the first rows may be frequent later.  One whose rows
    have ended before the middle is not.  Tables of fewer rows have no rare categories.
    """
    if len(texts) < FIRST_ROWS:
        return ()
    middle, counts = FIRST_ROWS // 2, dict[str, int]()
    for text in texts[:middle]:
        if text is not None:
            counts[text] = counts.get(text, 0) + 1
    later = set(texts[middle:FIRST_ROWS])
    rare = sorted(text for text, count in counts.items() if count == 1 and text not in later)
    return tuple(rare) if len(rare) >= _FEWEST else ()


def day_text(day: int) -> str:
    """Return the date of a day, counted from 1970-01-01."""
    import numpy as np

    return str(np.datetime64(day, "D"))


def listed(names: Sequence[str], most: int = 6) -> str:
    """Return the first of some names, for a message."""
    few = [repr(name[:40])[1:-1] + "..." * (len(name) > 40) for name in names[:most]]
    return ", ".join(few) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _possible_columns(feature: str) -> Iterable[str]:
    """Yield the names of columns that a feature of this name may come from."""
    yield feature
    yield feature.removesuffix("?")
    at = feature.find("=")
    while at >= 0:
        yield feature[:at]
        for part in _DATE_PARTS:
            yield feature[:at].removesuffix(part)
        at = feature.find("=", at + 1)
