"""Files, tables and iterators as streams of rows, in constant memory.

`open_stream` takes whatever holds rows; the `Stream` it gives yields `Chunk` after `Chunk`.

>>> import tempfile, pathlib
>>> from sparsco.streams import open_stream
>>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.svm"
>>> _ = path.write_text("+1 1:0.5 7:2 # a comment\\n-1 2:1e-3\\n")
>>> for chunk in open_stream(path):
...     print(chunk.first, chunk.rows, chunk.d, chunk.y, chunk.indices, chunk.data)
0 2 8 [ 1. -1.] [1 7 2] [0.5   2.    0.001]
"""

from __future__ import annotations

from typing import Any

from .files import Files, is_paths, paths_of, plain_suffix
from .libsvm import LibsvmStream
from .protocol import Chunk, Position, Stream, StreamError
from .vw import VWStream

__all__ = ["Chunk", "Position", "Stream", "StreamError", "open_stream"]

_SUFFIXES = {"svm": "libsvm", "libsvm": "libsvm", "svmlight": "libsvm", "vw": "vw"}
_FORMATS = {"libsvm": LibsvmStream, "vw": VWStream}


def open_stream(source: Any, format: str | None = None, **options: Any) -> Stream:
    """A stream of the rows in ``source``: a path, a pattern or a list of those, or "-" for standard input.

    ``format`` is "libsvm" or "vw"; by default the files' suffix decides.
    """
    if not is_paths(source):
        raise ValueError(f"source is a {type(source).__name__}, which holds no rows that are known how to read.")
    paths = paths_of(source)
    format = format or _SUFFIXES.get(plain_suffix(paths[0]).lstrip("."), "libsvm")
    return _FORMATS[format](Files(paths), **options)
