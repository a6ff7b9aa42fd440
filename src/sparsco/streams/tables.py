"""Tables: CSV and TSV text, Parquet and Arrow files, tables of pyarrow, pandas and polars, all through pyarrow.

A numeric column is a feature of its name; a categorical one has a feature ``name=value`` for each of its values.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..data.rows import LARGEST
from .features import encoder, fingerprints
from .files import STDIN, Block, Files, check_text, is_of_system, needed, opened
from .libsvm import shown
from .parsed import Parsed, Piece, Pieces
from .protocol import Position, StreamError
from .text import TextStream

NUMERIC, CATEGORICAL, IGNORE = "numeric", "categorical", "ignore"
OTHERS = "*"
"""In a schema: all columns that it does not name."""
TARGETS = ("target", "label", "y", "class")
"""A column of such a name is the target where none is given."""
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None")
"""Cells of text in place of a number that say that there is none."""
_SAMPLE = 1 << 20
_ROWS = 1 << 13


class Layout(NamedTuple):
    """What the columns of a table are: their names, a kind for each feature, and the columns with another role."""

    columns: tuple[str, ...]
    kinds: dict[str, str]
    target: str | None
    target_kind: str
    weight: str | None
    tag: str | None


class Tabular(Pieces):
    """Rows of tables.

    ``target`` names the column to predict (by default the one called target, label, y or class; None for none),
    ``weight`` and ``tag`` others with a role.  ``schema`` says for columns by name whether they are "numeric",
    "categorical" or to "ignore", under "*" for all that it does not name; without that these are what their type, in
    text their first megabyte, says.  A missing category has no entry; a missing number is refused unless
    ``missing="zero"``.  ``optional``: "weight" and "tag" where those columns may be absent.
    """

    layout: Layout
    line = "row"
    labels_are = "target= (--target) names their column"
    no_category: Sequence[str] = ()
    """Texts that are no category but say that there is none."""

    def __init__(
        self, *, target: str | None = "auto", weight: str | None = None, tag: str | None = None,
        schema: Mapping[str, str] | None = None, optional: Sequence[str] = (), missing: str = "refuse",
        hash_bits: int | None = None, seed: int = 0, signed: bool = True, names: Any = None, frozen: bool = False,
    ) -> None:  # fmt: skip
        if missing not in ("refuse", "zero"):
            raise ValueError(f"missing must be 'refuse' or 'zero', not {missing!r}.")
        for name, kind in (schema or {}).items():
            if kind not in (NUMERIC, CATEGORICAL, IGNORE):
                raise ValueError(f"schema has {kind!r} for {name!r}: a column is numeric, categorical or to ignore.")
        self.asked = target, weight, tag, dict(schema or {})
        self.optional, self.missing = list(optional), missing
        self.encoder = encoder(hash_bits, seed, signed, names, frozen)
        self.seed = self.encoder.seed

    def settings(self) -> dict[str, Any]:
        return {"asked": list(self.asked), "optional": self.optional, "missing": self.missing}

    def laid_out(self) -> Layout | None:
        """What the columns are, also before the first row was asked for; None where that cannot be told."""
        return self.layout

    def remarks(self) -> list[str]:
        """The target and the kinds of columns, where they were not told."""
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
        """Roles and kinds of columns of these Arrow types."""
        target, weight, tag, schema = self.asked
        if target == "auto":
            found = [name for name in types if name.lower() in TARGETS]
            if len(found) != 1:
                raise StreamError(
                    f"{source}: there is no telling which column is the target: give target= (--target), None (none) "
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
                        f"{source}: column {name!r} is of type {type}, which is no number and no category: give "
                        f"schema={{{name!r}: 'ignore'}} (--schema {name}=ignore), or 'categorical' or 'numeric' where "
                        "it can be read so."
                    )
        kind = NUMERIC if target is None else schema.get(target) or _kind(types[target])
        return Layout(tuple(types), kinds, target, kind, weight, tag)

    def parsed(self, batch: Any, lines: int) -> Parsed:
        """The rows of a record batch; a mistake is in a row, counted from 1."""
        n, layout = batch.num_rows, self.layout
        features = [(name, kind) for name, kind in layout.kinds.items() if kind != IGNORE]
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

        return Parsed(lines, indptr, keys[kept], values[kept], y, weights, tags, names_of=names_of)


def listed(names: Sequence[str], most: int = 6) -> str:
    """The first of some names, for a message."""
    few = [repr(name[:40])[1:-1] + "..." * (len(name) > 40) for name in names[:most]]
    return ", ".join(few) + (f" and {len(names) - most:,} more" if len(names) > most else "")


class _CellError(Exception):
    def __init__(self, row: int, sentence: str) -> None:
        super().__init__(sentence)
        self.row, self.sentence = row, sentence


def _kind(type: Any) -> str:
    """What a column of an Arrow type is; "" where it must be told."""
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


# --- text -------------------------------------------------------------------------------------------------------------


class CsvStream(TextStream, Tabular):
    """Rows of CSV or TSV text, the options those of tables; ``header=False`` for files without one, whose columns are
    called 0, 1, 2, ...; ``delimiter`` one character; ``missing_values`` are texts of cells that are missing (by default
    empty ones, and in place of a number the usual words, such as NA)."""

    format, quoted, infers, line = "csv", True, True, "line"

    def __init__(
        self, files: Files, *, delimiter: str = ",", header: bool = True, missing_values: Sequence[str] | None = None,
        block_bytes: int = 1 << 21, threads: int | None = None, **options: Any,
    ) -> None:  # fmt: skip
        TextStream.__init__(self, files, block_bytes=max(block_bytes, _SAMPLE), threads=threads)
        Tabular.__init__(self, **options)
        if len(delimiter) != 1:
            raise ValueError(f"delimiter must be one character, not {delimiter!r}.")
        self.delimiter, self.header = delimiter, bool(header)
        self.no_number = list(MISSING if missing_values is None else missing_values)
        self.no_category = [""] if missing_values is None else self.no_number
        self._arrow, self._csv = needed("pyarrow", "CSV files"), needed("pyarrow.csv", "CSV files")

    def settings(self) -> dict[str, Any]:
        return super().settings() | {
            "delimiter": self.delimiter, "header": self.header, "missing_values": [self.no_number, self.no_category],
        }  # fmt: skip

    def prepare(self, block: Block) -> None:
        if not hasattr(self, "layout"):
            if block.file or block.offset > len(block.text):  # reading goes on somewhere inside
                if not self.laid_out():
                    raise ValueError("CSV from standard input cannot be resumed: give files.")
            else:
                self._look(block)

    def laid_out(self) -> Layout | None:
        if not hasattr(self, "layout"):
            block = next(self.files.blocks(self.block_bytes, quoted=True), None) if self.repeatable else None
            if block is None:
                return None
            self._look(block)
        return self.layout

    def parse(self, text: Any, begins: bool) -> Parsed:
        text = bytes(text)
        lines, skipped = text.count(b"\n"), 0
        if begins and self.header:
            names, used = self._first_row(text)
            if tuple(names) != self.layout.columns:
                return Parsed.none((1, f"the columns are {listed(names)}, not those of the first file"))
            skipped = text.count(b"\n", 0, used)
            text = text[used:]
        if not text.strip(b"\n"):
            return Parsed.none()._replace(lines=lines)
        table = self._read(text)
        if isinstance(table, str):
            found = re.search(r"Row #(\d+): ", table)
            sentence = self._explained(table.replace(found[0], "") if found else table)
            return Parsed.none((skipped + self._line(text, int(found[1]) if found else 1), sentence))
        parsed = self.parsed(table.combine_chunks().to_batches()[0], lines)
        if parsed.error:
            row, sentence = parsed.error
            return Parsed.none((skipped + self._line(text, row), sentence))
        return parsed

    def _first_row(self, text: bytes) -> tuple[list[str], int]:
        """The header's names, and how many bytes it takes."""
        stop = text.find(b"\n") + 1
        while text.count(b'"', 0, stop) % 2 and 0 < stop < len(text):
            stop = text.find(b"\n", stop) + 1
        row = text[:stop].decode("utf-8", "surrogateescape").rstrip("\n")
        names = next(csv.reader([row], delimiter=self.delimiter), [])
        return names if self.header else [str(k) for k in range(len(names))], stop

    def _look(self, block: Block) -> None:
        """See what the columns are, from the first megabyte."""
        text = bytes(block.text).replace(b"\r\n", b"\n").removeprefix(b"\xef\xbb\xbf")
        columns, used = self._first_row(text)
        if len(set(columns)) < len(columns):
            raise StreamError(f"{self.files.name(0)}, line 1: two columns have the same name: rename one.")
        sample = text[used if self.header else 0 : _SAMPLE]
        sample = sample[: sample.rfind(b"\n") + 1] if len(text) > _SAMPLE else sample
        types = dict.fromkeys(columns, self._arrow.string())
        if sample.strip(b"\n"):
            table = self._read(sample, columns)
            if not isinstance(table, str):  # otherwise the parser will say where
                types = dict(zip(columns, table.schema.types, strict=True))
        self._booleans = {name for name, type in types.items() if type == self._arrow.bool_()}
        self.layout = self.lay_out(types, self.files.name(0))

    def _read(self, text: bytes, columns: Sequence[str] = ()) -> Any:
        """A table of these columns, their types inferred, or of the layout's; what pyarrow says where it cannot."""
        types = None if columns else {name: self._type(name) for name in self.layout.columns}
        try:
            return self._csv.read_csv(
                self._arrow.BufferReader(text),
                read_options=self._csv.ReadOptions(
                    column_names=list(columns or self.layout.columns), use_threads=False, block_size=len(text) + 1
                ),
                parse_options=self._csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                convert_options=self._csv.ConvertOptions(
                    column_types=types, null_values=self.no_number,
                    true_values=["true", "True", "TRUE"], false_values=["false", "False", "FALSE"],
                ),
            )  # fmt: skip
        except self._arrow.ArrowInvalid as error:
            return str(error)

    def _type(self, name: str) -> Any:
        layout = self.layout
        kinds = layout.kinds | {layout.target: layout.target_kind, layout.weight: NUMERIC}
        kind = kinds.get(name)
        if kind == NUMERIC and name in self._booleans:
            return self._arrow.bool_()
        return self._arrow.float64() if kind == NUMERIC else self._arrow.string()

    def _explained(self, sentence: str) -> str:
        columns = self.layout.columns
        pattern = r"In CSV column #(\d+): CSV conversion error to \S+: invalid value '(.*)'"
        found = re.search(pattern, sentence, re.DOTALL)
        if found:
            name = columns[int(found[1])]
            return (
                f"column {name!r} has {shown(found[2].encode())}, which is no number: repair it, name it among "
                f"missing_values (--missing-values), or give schema={{{name!r}: 'categorical'}} (--schema "
                f"{name}=categorical)"
            )
        found = re.search(r"Expected (\d+) columns, got (\d+)", sentence)
        if found:
            cells = f"the row has {found[2]} cells, the others have {found[1]}"
            return f"{cells}: repair it, or see if delimiter (--delimiter) is right"
        return f"it cannot be read as CSV ({shown(sentence.encode())})"

    def _line(self, text: bytes, row: int) -> int:
        """The line on which a row (from 1) begins, within a block."""
        reader = csv.reader(io.StringIO(text.decode("utf-8", "replace"), newline=""), delimiter=self.delimiter)
        before = 0
        for cells in reader:
            if cells:
                row -= 1
                if not row:
                    break
            before = reader.line_num
        return before + 1


# --- binary files and tables ------------------------------------------------------------------------------------------


class TableStream(Tabular):
    """Rows of a table in memory: pyarrow's, pandas', polars', or anything with ``__arrow_c_stream__``."""

    format = "tables in memory"

    def __init__(self, table: Any, **options: Any) -> None:
        super().__init__(**options)
        self.table = _as_arrow(table)
        self.total = self.table.num_rows
        self.layout = self.lay_out(_types(self.table.schema), "the table")
        if self.layout.target is not None:
            kind: Any = self.table.schema.field(self.layout.target).type if self.layout.target_kind == NUMERIC else None
            self.label_dtype = np.dtype(object if kind is None else kind.to_pandas_dtype())

    def pieces(self, place: Position) -> Iterator[Piece]:
        yield from _pieces_of(self, iter([(0, self.table)]), place.get("offset", 0), 0, 0, "the table")


class ArrowFileStream(Tabular):
    """Rows of Parquet or Arrow (Feather, IPC) files."""

    def __init__(self, files: Files, *, format: str = "parquet", **options: Any) -> None:
        super().__init__(**options)
        if STDIN in files.paths:
            raise ValueError(f"{format} cannot be read from standard input, only from files.")
        self.files, self.format = files, format
        needed("pyarrow", f"{format} files")
        schemas, rows = zip(*(self._opened(path)[:2] for path in files.paths), strict=True)
        for path, schema in zip(files.paths, schemas, strict=True):
            if _types(schema) != _types(schemas[0]):
                raise StreamError(f"{path}: the columns or their types are not those of {files.paths[0]}.")
        self._rows, self.total = rows, sum(rows)
        self.layout = self.lay_out(_types(schemas[0]), files.paths[0])

    def origin(self) -> Any:
        return self.files.identity()

    def pieces(self, place: Position) -> Iterator[Piece]:
        first, offset = place.get("file", 0), place.get("offset", 0)
        for number in range(first, len(self.files.paths)):
            path, before = self.files.paths[number], sum(self._rows[:number])
            tables = self._opened(path)[2]
            yield from _pieces_of(self, tables, offset if number == first else 0, number, before, path)

    def _opened(self, path: str) -> _Opened:
        with _arrow_errors(f"{path} cannot be read as {self.format}"):
            opened = _open_parquet(path) if self.format == "parquet" else _open_arrow(path)
        return opened


_Opened = tuple[Any, int, Iterator[tuple[int, Any]]]
"""The schema of a file, the number of its rows, and its parts with the number of their first row."""


def _open_parquet(path: str) -> _Opened:
    file = needed("pyarrow.parquet", "Parquet files").ParquetFile(path, page_checksum_verification=True)
    return file.schema_arrow, file.metadata.num_rows, _groups(file)


def _open_arrow(path: str) -> _Opened:
    arrow = needed("pyarrow", "Arrow files")
    with open(path, "rb") as raw:
        has_contents = raw.read(6) == b"ARROW1"
    if not has_contents:  # batches one behind the other: how many there are is seen at the end
        mapped = arrow.ipc.open_stream(arrow.memory_map(path))
        return mapped.schema, sum(batch.num_rows for batch in mapped), _batches(path)
    mapped = arrow.ipc.open_file(arrow.memory_map(path))
    rows = [mapped.get_batch(k).num_rows for k in range(mapped.num_record_batches)]
    starts = np.append(0, np.cumsum(rows)).tolist()
    reader = arrow.ipc.open_file(arrow.OSFile(path))  # to use a mapped file that is cut off ends the process
    return reader.schema, starts[-1], ((starts[k], reader.get_batch(k)) for k in range(len(rows)))


@contextlib.contextmanager
def _arrow_errors(sentence: str) -> Iterator[None]:
    """Raise StreamError with a sentence that names the source, where Arrow finds damaged data."""
    arrow = needed("pyarrow", "tables")
    try:
        yield
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if is_of_system(error):
            raise
        raise StreamError(f"{sentence}: {error}") from error


def _batches(path: str) -> Iterator[tuple[int, Any]]:
    """Those of an Arrow IPC stream, with the number of their first row."""
    arrow, first = needed("pyarrow", "Arrow files"), 0
    for batch in arrow.ipc.open_stream(arrow.OSFile(path)):
        yield first, batch
        first += batch.num_rows


def _groups(file: Any) -> Iterator[tuple[int, Any]]:
    first = 0
    for k in range(file.num_row_groups):
        at = first
        for batch in file.iter_batches(_ROWS, row_groups=[k], use_threads=False):
            yield at, batch
            at += batch.num_rows
        first += file.metadata.row_group(k).num_rows


def _pieces_of(
    stream: Tabular, parts: Iterator[tuple[int, Any]], offset: int, file: int, before: int, source: str
) -> Iterator[Piece]:
    """Pieces of at most _ROWS rows of a file's parts, from a row on."""
    arrow = needed("pyarrow", "tables")
    with _arrow_errors(f"{source} cannot be read"):
        for first, part in parts:
            for start in range(max(offset - first, 0), part.num_rows, _ROWS):
                batch = part.slice(start, _ROWS)
                if isinstance(batch, arrow.Table):
                    batch = batch.combine_chunks().to_batches()[0]
                end = first + start + batch.num_rows
                yield Piece(stream.parsed(batch, batch.num_rows), source, {"file": file, "offset": end}, before + end)


def _types(schema: Any) -> dict[str, Any]:
    return dict(zip(schema.names, schema.types, strict=True))


def is_table(source: Any) -> bool:
    """Whether a source is a table in memory."""
    return hasattr(source, "__arrow_c_stream__") or type(source).__module__.partition(".")[0] in ("pandas", "polars")


def with_roles(table: Any, **columns: Any) -> tuple[Any, dict[str, str]]:
    """A table with further columns of these roles, those that are not None, and what each is called in it."""
    arrow, table = needed("pyarrow", "tables"), _as_arrow(table)
    roles = {}
    for role, values in columns.items():
        if values is not None:
            name = role
            while name in table.column_names:
                name += "_"
            roles[role], table = name, table.append_column(name, arrow.array(np.asarray(values)))
    return table, roles


def _as_arrow(table: Any) -> Any:
    arrow = needed("pyarrow", "tables")
    if isinstance(table, arrow.Table):
        return table
    is_pandas = type(table).__module__.partition(".")[0] == "pandas"
    if is_pandas and hasattr(table, "columns"):
        return arrow.Table.from_pandas(table.rename(columns=str), preserve_index=False)
    if not is_pandas:
        with contextlib.suppress(TypeError, arrow.ArrowInvalid):
            return arrow.table(table)
    raise ValueError(
        f"source is a {type(table).__name__}, and a table is wanted: give a DataFrame, the target in a column (of a "
        "Series what to_frame() gives, of a LazyFrame what collect() gives)."
    )


def first_line(path: str) -> bytes:
    """The first line that is not empty or a comment, to see what a file of unknown suffix holds."""
    name = "standard input" if path == STDIN else path
    with opened(path, name) as stream:
        text = stream.peek(1 << 16) if path == STDIN else stream.read(1 << 16)  # look without taking
    check_text(text, name)
    if b"\n" not in text:
        text = text[: text.rfind(b" ") + 1] or text  # the last word may be cut
    return next((line for line in text.splitlines() if line.strip() and not line.startswith(b"#")), b"")
