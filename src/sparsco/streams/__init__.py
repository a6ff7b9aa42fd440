"""Files, tables and iterators as streams of rows, in constant memory.

`open_stream` accepts any source of rows; the `Stream` it returns yields `Chunk` after `Chunk`.

>>> import tempfile, pathlib
>>> from sparsco.streams import open_stream
>>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.svm"
>>> _ = path.write_text("+1 1:0.5 7:2 # a comment\\n-1 2:-25e-2\\n")
>>> for chunk in open_stream(path):
...     print(chunk.first, chunk.rows, chunk.d, chunk.y, chunk.indices, chunk.data)
0 2 8 [ 1. -1.] [1 7 2] [ 0.5   2.   -0.25]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from .arrays import ArrayStream, ExampleStream, NpzStream
from .cache import CachedStream, CacheStream, default_folder, is_cache
from .cache import convert as write_cache
from .csv_text import CsvStream, first_line
from .files import STDIN, Files, is_packed, is_paths, paths_of, plain_suffix
from .growing import Growing
from .json_lines import JsonStream
from .libsvm import LibsvmStream
from .protocol import Chunk, Position, Stream, StreamError
from .tables import ArrowFileStream, TableStream, is_table
from .text import TextStream
from .texts import FolderStream, LineStream
from .vw import VWStream

__all__ = ["CacheStream", "CachedStream", "Chunk", "Position", "Stream", "StreamError", "convert", "open_stream"]

_SUFFIXES = {
    ".svm": "libsvm",
    ".libsvm": "libsvm",
    ".svmlight": "libsvm",
    ".vw": "vw",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npz": "npz",
}
_FORMATS: dict[str, Callable[..., Stream]] = {
    "libsvm": LibsvmStream,
    "vw": VWStream,
    "csv": CsvStream,
    "tsv": lambda files, **options: CsvStream(files, **{"delimiter": "\t"} | options),
    "jsonl": JsonStream,
    "text": LineStream,
    "parquet": ArrowFileStream,
    "arrow": lambda files, **options: ArrowFileStream(files, format="arrow", **options),
    "npz": NpzStream,
}
_GROWING = ("libsvm", "vw", "csv", "tsv", "jsonl", "text")
"""The formats of text, which can be read while it grows."""


def open_stream(
    source: Any, format: str | None = None, *, cache: bool | str | os.PathLike[str] | None = None, **options: Any
) -> Stream:
    """Return a stream of the rows in a source: files, a table, an array, or an iterable of examples.

    Parameters
    ----------
    source : str, Path, list, table, array, sparse matrix, iterable or callable
        A path, a pattern (``part-*.svm.gz``) or a list of those, or "-" for standard input.  A table of pyarrow, pandas
        or polars.  An array or a scipy sparse matrix (with ``y=`` and ``weights=``).  An iterable of examples (x, y),
        or a function that returns a new one at each call.
    format : {"libsvm", "vw", "csv", "tsv", "jsonl", "text", "parquet", "arrow", "npz"}, optional
        The default is decided by the suffix of the files, or if that is not enough by their first line.  Files may be
        compressed with gzip, bzip2, xz or zstd.  A folder with a sub-folder of texts for each label needs none.
    cache : bool, str or Path, optional
        A folder into which the first whole pass writes the rows as binary blocks; True is one below the user's cache
        folder.  Later passes, also in later processes, are read from it.  A folder that `convert` wrote is a source
        itself.
    **options
        The options of the class of the format; docs/files.md lists them.

    Returns
    -------
    Stream
        An iterable of chunks of rows.

    Raises
    ------
    ValueError
        If the source or an option is not valid.
    StreamError
        While the stream is read: if a row is not valid.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsco import open_stream
    >>> stream = open_stream(np.eye(3), y=[1, 0, 1])
    >>> [chunk.rows for chunk in stream]
    [3]
    """
    stream = _opened(source, format, **options)
    if is_paths(source):
        first, *others = [source] if isinstance(source, str | os.PathLike) else source
        name = "standard input" if first == STDIN else os.fspath(first)
        stream.place = name + (f" and {len(others)} more, " if others else ", ")
    if not cache or isinstance(stream, CacheStream):
        return stream
    return CachedStream(stream, default_folder(stream.identity()) if cache is True else cache)


def convert(
    source: Any, folder: str | os.PathLike[str], format: str | None = None, *, progress: Any = None, **options: Any
) -> CacheStream:
    """Write the rows of a source to a folder as binary blocks, completely or not at all.

    ``progress`` is called with each chunk.
    """
    stream = source if isinstance(source, Stream) else open_stream(source, format, **options)
    return write_cache(stream, folder, progress)


def _opened(source: Any, format: str | None, **options: Any) -> Stream:
    opener: Callable[..., Stream]
    source = source[0] if isinstance(source, list | tuple) and len(source) == 1 and is_paths(source) else source
    if format is None and isinstance(source, str | os.PathLike) and is_cache(os.fspath(source)):
        stored = CacheStream(source)
        if options:
            raise ValueError(f"a cache has no options, but {', '.join(options)} are given: they belong to `convert`.")
        if stored.is_stale():
            raise StreamError(f"{stored.folder}: the source has changed since it was converted: convert it again.")
        return stored
    if is_paths(source):
        paths = paths_of(source)
        for path in paths:
            if is_cache(path):
                raise ValueError(
                    f"{path} is a cache of rows, which cannot be read with other files: convert all files into one."
                )
        if format is None and len(paths) == 1 and os.path.isdir(paths[0]):
            return _made(FolderStream, paths[0], "a folder of texts", options)
        format = format or _common_format(paths)
        if format not in _FORMATS:
            raise ValueError(f"format must be one of {', '.join(_FORMATS)}, not {format!r}.")
        what: Any = Files(paths, options.pop("span", None))
        opener = _FORMATS[format]
    elif format is not None:
        raise ValueError(f"format={format!r} is for files: source is a {type(source).__name__}.")
    elif is_table(source):
        opener, what, format = TableStream, source, "a table"
    elif sp.issparse(source) or isinstance(source, np.ndarray):
        opener, what, format = ArrayStream, source, "an array"
    elif isinstance(source, Iterable) or callable(source):
        opener, what, format = ExampleStream, source, "an iterator"
    else:
        what = type(source).__name__
        raise ValueError(f"source is a {what}: give paths, a table, an array or an iterable of examples.")
    return _made(opener, what, format, options)


def open_growing(path: str, wait: Callable[[], bool], format: str | None = None, **options: Any) -> TextStream:
    """Return a stream of the rows of a growing text file, or of standard input ("-"), as they arrive.

    ``wait`` is called whenever nothing has arrived.  It returns True after a pause, and False to end the stream.
    """
    files = Growing(path, wait)
    format = format or _SUFFIXES.get(plain_suffix(path)) or _format_of_line(files.first_line(), files.name(0))
    if format not in _GROWING:
        raise ValueError(f"{files.name(0)} is {format}, which cannot be followed: formats are {', '.join(_GROWING)}.")
    stream = _made(_FORMATS[format], files, format, options)
    assert isinstance(stream, TextStream)
    stream.place = files.name(0) + ", "
    return stream


def _made(opener: Callable[..., Stream], what: Any, format: str, options: dict[str, Any]) -> Stream:
    """Return a stream; raise a ValueError for an option that its format does not have."""
    try:
        return opener(what, **options)
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        raise ValueError(f"{format} has no option {str(error).rpartition(' ')[2]}.") from None


def can_be_cut(path: str, format: str | None = None) -> bool:
    """Return whether any lines of a file can be read without those before them, as with the option ``span``."""
    return not is_cache(path) and (format or _format_of(path)) in ("libsvm", "vw") and not is_packed(path)


def _common_format(paths: list[str]) -> str:
    """Return the format of the first file; raise if another file's suffix differs."""
    format = _format_of(paths[0])
    for path in paths:
        other = _SUFFIXES.get(plain_suffix(path), format)
        if other != format:
            raise ValueError(
                f"{paths[0]} is {format} and {path} {other}: give files of one format, or set format= (--format)."
            )
    return format


def _format_of(path: str) -> str:
    """Return the format of a file, by its suffix or by its first line."""
    known = _SUFFIXES.get(plain_suffix(path))
    if known:
        return known
    if os.path.isdir(path):
        raise ValueError(f"{path} is a folder: give it alone, or a pattern for the files in it.")
    return _format_of_line(first_line(path), path)


def _format_of_line(line: bytes, name: str) -> str:
    """Return the format of a file by its first line."""
    head = line.split()
    label, tab, _ = line.partition(b"\t")
    if tab and b"|" not in label and not _is_number(label):
        return "text"  # whatever is in the text
    if any(b"|" in word for word in head):
        return "vw"
    if head and all(b":" in word for word in head[1:] if not word.startswith(b"#")) and _is_number(head[0]):
        return "libsvm"
    if line.startswith(b"{"):
        return "jsonl"
    if b"\t" in line:
        return "text"
    raise ValueError(f"{name}: neither its name nor its first line shows its format: give format= (--format).")


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
