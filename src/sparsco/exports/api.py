"""``export``: a model in the language of another program."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..util.atomic_files import replacing
from .reading import scorer_of
from .scorer import ExportError, Scorer
from .to_c import to_c
from .to_javascript import to_javascript
from .to_json import to_csv, to_json
from .to_onnx import to_onnx
from .to_python import to_python
from .to_sql import to_sql

WRITERS: dict[str, Callable[..., str | bytes]] = {
    "sql": to_sql,
    "c": to_c,
    "js": to_javascript,
    "python": to_python,
    "onnx": to_onnx,
    "json": to_json,
    "csv": to_csv,
}
"""The formats, and what writes them."""


def export(model: Any, format: str, path: str | Path | None = None, **options: Any) -> str | bytes | Path:
    """Return a model in the language of another program, or write it to a file.

    A model enters as it learned: raw columns of a table, texts, numbered columns, or names with values.  What a format
    cannot express is refused, never approximated.  See docs/export.md.

    Parameters
    ----------
    model : estimator, str or Path
        A fitted estimator, or a model file.  A file of ``sparsco train`` also knows how its texts and names were read.
    format : {"sql", "c", "js", "python", "onnx", "json", "csv"}
        The language or the format.
    path : str or Path, optional
        The file to write; it is replaced only when the new file is whole.
    **options
        For "sql" ``table``, the name of the table ("data"), ``keep``, columns to copy to the result, and ``exp``,
        False for a database without this function.  For "c" ``prefix``, which begins all names ("model").  For "onnx"
        ``double``, True for numbers of 64 bits.

    Returns
    -------
    str, bytes or Path
        The text (bytes for "onnx"), or the path of the file.

    Raises
    ------
    ValueError
        If the format cannot express the model; the message says why.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsco import SparseRegressor, export
    >>> X = np.random.default_rng(0).normal(size=(500, 20))
    >>> model = SparseRegressor(alpha=0.1, random_state=0).fit(X, X[:, 3])
    >>> export(model, "csv").splitlines()[2].partition(",")[0]
    '"x3"'
    """
    writer = WRITERS.get(format)
    if writer is None:
        raise ExportError(f"{format!r} is not a format: choose {', '.join(WRITERS)}.")
    known = [name for name in inspect.signature(writer).parameters][1:]
    for name in options:
        if name not in known:
            has = f"its options are {', '.join(known)}" if known else "it has none"
            raise ExportError(f"{name} is not an option of {format}: {has}.")
    scorer = _checked(scorer_of(model, needs_rows=format != "csv"))
    found = writer(scorer, **options)
    if path is None:
        return found
    with replacing(path, lasting=False) as file:
        file.write(found if isinstance(found, bytes) else found.encode("utf-8", "surrogateescape"))
    return Path(path)


def _checked(scorer: Scorer) -> Scorer:
    """Return the record; raise an ExportError for labels or names that only Python knows."""
    for label in scorer.classes or ():
        if not isinstance(label, str | int | float):
            raise ExportError(f"the label {label!r} is a {type(label).__name__}: labels must be texts or numbers.")
    return scorer
