"""Streams of Parquet and Arrow files, and of tables of pyarrow, pandas and polars, all through pyarrow."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from .description import FIRST_ROWS, NUMBERS
from .files import STDIN, Files, is_of_system, needed
from .parsed import Piece
from .protocol import Position, StreamError
from .tabular import Tabular

_ROWS = 1 << 13
"""The number of rows in a piece."""


class TableStream(Tabular):
    """A stream of the rows of a table in memory: pyarrow, pandas, polars, or any with ``__arrow_c_stream__``."""

    format = "tables in memory"

    def __init__(self, table: Any, **options: Any) -> None:
        super().__init__(**options)
        self.table = as_arrow(table, None if self.given is None else self.given.names)
        self.total = self.table.num_rows
        schema = self.table.schema
        self.known = self.describe(schema.names, lambda: _types(schema), "the table")
        self.known = self.decide(self.known, self.table.slice(0, FIRST_ROWS), "the table")
        if self.known.target is not None:
            is_number = self.known.target_kind == NUMBERS
            kind: Any = schema.field(self.known.target).type if is_number else None
            self.label_dtype = np.dtype(object if kind is None else kind.to_pandas_dtype())

    def pieces(self, place: Position) -> Iterator[Piece]:
        yield from _pieces_of(self, iter([(0, self.table)]), place.get("offset", 0), 0, 0, "the table")


class ArrowFileStream(Tabular):
    """A stream of the rows of Parquet or Arrow (Feather, IPC) files."""

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
        self.known = self.describe(schemas[0].names, lambda: _types(schemas[0]), files.paths[0])
        if self.given is None:
            self.known = self.decide(self.known, self._first_rows(), files.paths[0])

    def origin(self) -> Any:
        return self.files.identity()

    def pieces(self, place: Position) -> Iterator[Piece]:
        first, offset = place.get("file", 0), place.get("offset", 0)
        for number in range(first, len(self.files.paths)):
            path, before = self.files.paths[number], sum(self._rows[:number])
            tables = self._opened(path)[2]
            yield from _pieces_of(self, tables, offset if number == first else 0, number, before, path)

    def _first_rows(self) -> Any:
        """Return a table of the first rows, of as many files as it takes; None if there are none."""
        arrow, parts, rows = needed("pyarrow", "tables"), [], 0
        for path in self.files.paths:
            with _arrow_errors(f"{path} cannot be read"):
                for _, part in self._opened(path)[2]:
                    parts.append(part.slice(0, FIRST_ROWS - rows))
                    rows += parts[-1].num_rows
                    if rows == FIRST_ROWS:
                        return arrow.Table.from_batches(parts).unify_dictionaries()
        return arrow.Table.from_batches(parts).unify_dictionaries() if parts else None

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
    if not has_contents:  # batches one after the other: their number is known only at the end
        mapped = arrow.ipc.open_stream(arrow.memory_map(path))
        return mapped.schema, sum(batch.num_rows for batch in mapped), _batches(path)
    mapped = arrow.ipc.open_file(arrow.memory_map(path))
    rows = [mapped.get_batch(k).num_rows for k in range(mapped.num_record_batches)]
    starts = np.append(0, np.cumsum(rows)).tolist()
    reader = arrow.ipc.open_file(arrow.OSFile(path))  # not mapped: truncation of a mapped file ends the process
    return reader.schema, starts[-1], ((starts[k], reader.get_batch(k)) for k in range(len(rows)))


@contextlib.contextmanager
def _arrow_errors(sentence: str) -> Iterator[None]:
    """Raise StreamError with a sentence that names the source, if Arrow finds damaged data."""
    arrow = needed("pyarrow", "tables")
    try:
        yield
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if is_of_system(error):
            raise
        raise StreamError(f"{sentence}: {error}") from error


def _batches(path: str) -> Iterator[tuple[int, Any]]:
    """Yield the batches of an Arrow IPC stream, with the number of their first row."""
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
    """Yield pieces of at most _ROWS rows of a file's parts, from a row on."""
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
    """Return whether a source is a table in memory."""
    return hasattr(source, "__arrow_c_stream__") or type(source).__module__.partition(".")[0] in ("pandas", "polars")


def with_roles(table: Any, **columns: Any) -> tuple[Any, dict[str, str]]:
    """Return a table with added columns of these roles, where not None, and the name of each role's column."""
    arrow, table = needed("pyarrow", "tables"), as_arrow(table)
    roles = {}
    for role, values in columns.items():
        if values is not None:
            name = role
            while name in table.column_names:
                name += "_"
            roles[role], table = name, table.append_column(name, arrow.array(np.asarray(values)))
    return table, roles


def _of_pandas(frame: Any, wanted: Collection[str] | None) -> Any:
    """Return a DataFrame of pandas as a table; raise a ValueError that names a column which Arrow cannot hold."""
    arrow, names = needed("pyarrow", "tables"), frame.columns.tolist()
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise StreamError(f"the table: two columns have the name {twice!r}: rename one.")
    if wanted is not None:
        frame = frame.assign(**{name: None for name in names if frame[name].dtype == object and name not in wanted})
    try:
        return arrow.Table.from_pandas(frame, preserve_index=False)
    except (arrow.ArrowException, TypeError, ValueError):
        for name in names:
            try:
                arrow.array(frame[name], from_pandas=True)
            except (arrow.ArrowException, TypeError, ValueError):
                raise StreamError(
                    f"the table: column {name!r} has values of several types: convert it, for example by "
                    f"frame[{name!r}].astype(str)."
                ) from None
        raise


def as_arrow(table: Any, wanted: Collection[str] | None = None) -> Any:
    """Return a table of Arrow; where only some columns are ``wanted``, the others may be empty."""
    arrow = needed("pyarrow", "tables")
    if isinstance(table, arrow.Table):
        return table
    is_pandas = type(table).__module__.partition(".")[0] == "pandas"
    if is_pandas and isinstance(table, needed("pandas", "tables of pandas").DataFrame):
        return _of_pandas(table.rename(columns=str), wanted)
    if not is_pandas:
        with contextlib.suppress(TypeError, arrow.ArrowInvalid):
            return arrow.table(table)
    raise ValueError(
        f"source is a {type(table).__name__}, not a table: give a DataFrame with the target in a column "
        "(Series: to_frame(), LazyFrame: collect())."
    )
