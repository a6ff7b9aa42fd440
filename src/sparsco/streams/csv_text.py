"""Streams of CSV and TSV text, parsed by pyarrow."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Any

from .description import BOOLEAN, NO_NUMBER, NUMBERS, Description, listed
from .encoding import CellError
from .files import NOT_UTF8, STDIN, Block, Files, check_text, needed, opened
from .libsvm import shown
from .parsed import Parsed
from .protocol import StreamError
from .tabular import Tabular
from .text import TextStream

_DELIMITERS = ";|,"
_SAMPLE = 1 << 20
"""The bytes from which the types of columns are inferred."""


class CsvStream(TextStream, Tabular):
    """A stream of the rows of CSV or TSV text; the other options are those of :class:`Tabular`.

    ``header=False`` is for files without a header, whose columns are called 0, 1, 2, ...  ``delimiter`` is one
    character.  ``quotes=False`` is for text in which quotation marks are ordinary characters: otherwise a cell that
    begins with one goes on to the next.  ``missing_values`` are the texts of missing cells; by default empty ones and,
    in place of a number, the usual words such as NA.
    """

    format, quoted, infers, line = "csv", True, True, "line"

    def __init__(
        self,
        files: Files,
        *,
        delimiter: str = ",",
        header: bool = True,
        quotes: bool = True,
        missing_values: Sequence[str] | None = None,
        block_bytes: int = 1 << 21,
        threads: int | None = None,
        **options: Any,
    ) -> None:
        TextStream.__init__(self, files, block_bytes=max(block_bytes, _SAMPLE), threads=threads)
        Tabular.__init__(self, **options)
        if len(delimiter) != 1:
            raise ValueError(f"delimiter must be one character, not {delimiter!r}.")
        self.delimiter, self.header, self.quoted = delimiter, bool(header), bool(quotes)
        if missing_values is not None:
            self.marks = list(missing_values), list(missing_values)
        given = self.given
        self.no_number = list(self.marks[0] if self.marks else NO_NUMBER if given is None else given.no_number)
        self._arrow, self._csv = needed("pyarrow", "CSV files"), needed("pyarrow.csv", "CSV files")

    def settings(self) -> dict[str, Any]:
        return super().settings() | {
            "delimiter": self.delimiter,
            "header": self.header,
            **({} if self.quoted else {"quotes": False}),
            "missing_values": None if self.marks is None else list(self.marks),
        }

    def prepare(self, block: Block) -> None:
        if self.known is None:
            if block.file or block.offset > len(block.text):  # reading resumes somewhere inside
                if not self.description:
                    raise ValueError("CSV from standard input cannot be resumed: give files.")
            else:
                self._look(block)

    @property
    def description(self) -> Description | None:  # type: ignore[override]
        if self.known is None:
            block = next(self.files.blocks(self.block_bytes, quoted=self.quoted), None) if self.repeatable else None
            if block is None:
                return None
            self._look(block)
        return self.known

    def parse(self, text: Any, begins: bool) -> Parsed:
        text = bytes(text)
        lines, skipped = text.count(b"\n"), 0
        if begins and self.header:
            try:
                names, used = self._first_row(text)
            except CellError as wrong:
                return Parsed.none((1, wrong.sentence))
            if tuple(names) != self.columns:
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

    @property
    def _quoting(self) -> Any:
        """Return the constant of Python's csv module."""
        return csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE

    def other_format(self, columns: Sequence[str]) -> str:
        if self.delimiter == "\t" and len(columns) == 2:
            return "; for lines of a label, a tab and a text give format='text' (--format text)"
        if len(columns) == 1 and "\t" in columns[0]:
            return ". If tabs are between the cells, give format='tsv' (--format tsv)"
        between = next((each for each in _DELIMITERS if len(columns) == 1 and each in columns[0]), "")
        if not between:
            return ""
        return f". If {between} is between the cells, give delimiter={between!r} (--delimiter {between!r})"

    def _first_row(self, text: bytes) -> tuple[list[str], int]:
        """Return the header's names, and the number of bytes it takes; raise a CellError if it cannot be read."""
        stop = text.find(b"\n") + 1
        while self.quoted and text.count(b'"', 0, stop) % 2 and 0 < stop < len(text):
            stop = text.find(b"\n", stop) + 1
        try:
            row = text[:stop].decode("utf-8").rstrip("\n")
            names = next(csv.reader([row], delimiter=self.delimiter, quoting=self._quoting), [])
        except UnicodeDecodeError:
            raise CellError(0, NOT_UTF8) from None
        except csv.Error as error:
            raise CellError(
                0,
                f"the first row cannot be read ({error}): mend its quotation marks, or read it without quotes "
                "(quotes=False, --no-quotes)",
            ) from None
        return names if self.header else [str(k) for k in range(len(names))], stop

    def _look(self, block: Block) -> None:
        """Infer the types of the columns from the first megabyte."""
        text = bytes(block.text).replace(b"\r\n", b"\n").removeprefix(b"\xef\xbb\xbf")
        try:
            columns, used = self._first_row(text)
        except CellError as wrong:
            raise StreamError(f"{self.files.name(0)}, line 1: {wrong.sentence}.") from None
        sample = text[used if self.header else 0 : _SAMPLE]
        sample = sample[: sample.rfind(b"\n") + 1] if len(text) > _SAMPLE else sample
        types = dict.fromkeys(columns, self._arrow.string())
        if sample.strip(b"\n") and len(types) == len(columns):
            table = self._read(sample, columns)
            if not isinstance(table, str):  # otherwise the parser will report where
                types |= zip(columns, table.schema.types, strict=True)
        is_bytes = self._arrow.types.is_binary  # text that is not UTF-8, of which the parser will report the line
        types = {name: self._arrow.string() if is_bytes(type) else type for name, type in types.items()}
        self._booleans = {name for name, type in types.items() if type == self._arrow.bool_()}
        described = self.describe(columns, lambda: types, self.files.name(0))
        self.known = described
        first = self._read(sample) if sample.strip(b"\n") and self.given is None else ""
        self.known = self.decide(described, None if isinstance(first, str) else first, self.files.name(0))

    def _read(self, text: bytes, columns: Sequence[str] = ()) -> Any:
        """Return a table of these columns with inferred types, or of the layout's; the error of pyarrow if it fails."""
        types = None if columns else {name: self._type(name) for name in self.columns}
        try:
            return self._csv.read_csv(
                self._arrow.BufferReader(text),
                read_options=self._csv.ReadOptions(
                    column_names=list(columns or self.columns), use_threads=False, block_size=len(text) + 1
                ),
                parse_options=self._csv.ParseOptions(
                    delimiter=self.delimiter,
                    quote_char='"' if self.quoted else False,
                    newlines_in_values=self.quoted,
                ),
                convert_options=self._csv.ConvertOptions(
                    column_types=types,
                    null_values=self.no_number,
                    true_values=["true", "True", "TRUE"],
                    false_values=["false", "False", "FALSE"],
                ),
            )
        except self._arrow.ArrowInvalid as error:
            return str(error)

    def _type(self, name: str) -> Any:
        """Return the type that a column is read with: numbers are parsed here, everything else stays text."""
        found = self.decided
        kinds = {each.name: each.kind for each in found.columns}
        kinds |= {found.target: found.target_kind, found.weight: NUMBERS, found.offset: NUMBERS, found.time: NUMBERS}  # type: ignore[dict-item]
        if kinds.get(name) in (NUMBERS, BOOLEAN) and name in self._booleans:
            return self._arrow.bool_()
        return self._arrow.float64() if kinds.get(name) == NUMBERS else self._arrow.string()

    def _explained(self, sentence: str) -> str:
        columns = self.columns
        pattern = r"In CSV column #(\d+): CSV conversion error to \S+: invalid value '(.*)'"
        found = re.search(pattern, sentence, re.DOTALL)
        if found:
            name = columns[int(found[1])]
            return (
                f"column {name!r} has {shown(found[2].encode())}, which is not a number: repair it, name it among "
                f"missing_values (--missing-values), or give schema={{{name!r}: 'category'}} (--schema {name}=category)"
            )
        if "invalid UTF8 data" in sentence:
            return NOT_UTF8
        found = re.search(r"Expected (\d+) columns, got (\d+)", sentence)
        if found:
            cells = f"the row has {found[2]} cells, the others have {found[1]}"
            return f"{cells}: repair it, or check delimiter (--delimiter)"
        return f"it cannot be read as CSV ({shown(sentence.encode())})"

    def _line(self, text: bytes, row: int) -> int:
        """Return the line on which a row (from 1) begins, within a block."""
        reader = csv.reader(
            io.StringIO(text.decode("utf-8", "replace"), newline=""), delimiter=self.delimiter, quoting=self._quoting
        )
        before = 0
        for cells in reader:
            if cells:
                row -= 1
                if not row:
                    break
            before = reader.line_num
        return before + 1


def first_line(path: str) -> bytes:
    """Return the first line that is not empty or a comment, to detect the format of a file of unknown suffix."""
    name = "standard input" if path == STDIN else path
    with opened(path, name) as stream:
        text = stream.peek(1 << 16) if path == STDIN else stream.read(1 << 16)  # peek does not consume
    check_text(text, name)
    if b"\n" not in text:
        text = text[: text.rfind(b" ") + 1] or text  # the last word may be cut
    return next((line for line in text.splitlines() if line.strip() and not line.startswith(b"#")), b"")
