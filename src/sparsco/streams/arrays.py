"""Arrays, sparse matrices and examples from Python as streams."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data.inspection import LARGEST, as_csr
from ..data.rows import MAX_FEATURES, as_matrix
from ..text.fingerprints import fingerprints
from .features import encoder
from .files import STDIN, Files
from .parsed import Parsed, Piece, Pieces
from .protocol import Position, StreamError

_ROWS = 1 << 13
_EXAMPLES = 1 << 10


class ArrayStream(Pieces):
    """A stream of the rows of a dense array or a sparse matrix, with targets, weights, offsets and times of rows."""

    format, line = "arrays in memory", "row"

    def __init__(self, X: Any, y: Any = None, weights: Any = None, offset: Any = None, time: Any = None) -> None:
        self.X = as_csr(X) if sp.issparse(X) else np.asarray(X)
        if self.X.ndim != 2:
            raise ValueError(f"source has {self.X.ndim} dimensions; it must have 2: one row per example.")
        n = self.total = self.X.shape[0]
        if self.X.shape[1] > MAX_FEATURES:
            raise ValueError(f"source has {self.X.shape[1]} columns; at most {MAX_FEATURES} are supported.")
        self.y = np.full(n, np.nan) if y is None else np.asarray(y)
        self.weights = None if weights is None else np.asarray(weights, np.float64)
        self.offsets, self.times = (None if each is None else np.asarray(each, np.float64) for each in (offset, time))
        self.label_dtype = self.y.dtype
        if self.y.dtype.kind in "biufU":
            self.y = self.y.astype(object if self.y.dtype.kind == "U" else np.float64)
        for name, array in (("y", self.y), ("weights", self.weights), ("offset", self.offsets), ("time", self.times)):
            if array is not None and array.shape != (n,):
                raise ValueError(f"{name} has shape {array.shape}; it must be ({n},), one for each row.")
        if self.weights is not None and not np.all(fine := (self.weights >= 0.0) & (self.weights <= LARGEST)):
            at = int(np.argmin(fine))
            raise ValueError(f"weights: row {at + 1} has {self.weights[at]}; weights are finite and not negative.")
        for name, each in (("offset", self.offsets), ("time", self.times)):
            if each is not None and not np.all(fine := np.abs(each) <= LARGEST):
                at = int(np.argmin(fine))
                raise ValueError(f"{name}: row {at + 1} has {each[at]}; {name}s are finite and at most 1e75.")
        if self.y.dtype.kind == "f" and np.isinf(self.y).any():
            raise ValueError(f"y: row {int(np.argmax(np.isinf(self.y))) + 1} has an infinite target.")

    def pieces(self, place: Position) -> Iterator[Piece]:
        for start in range(place.get("offset", 0), int(self.X.shape[0]), _ROWS):
            rows = slice(start, start + _ROWS)
            try:
                matrix = as_matrix(self.X[rows])
            except ValueError as error:
                raise StreamError(f"{self.format}, {self._wild(start)}: {error}") from error
            y, weights = self.y[rows], None if self.weights is None else self.weights[rows]
            end = start + len(y)
            more: dict[str, Any] = {
                "offsets": None if self.offsets is None else self.offsets[rows],
                "times": None if self.times is None else self.times[rows],
            }
            parsed = Parsed(len(y), matrix.indptr, matrix.indices, matrix.data, y, weights, d=matrix.d, **more)
            yield Piece(parsed, self.format, {"offset": end}, end)

    def _wild(self, start: int) -> str:
        """Return the first of these rows with a number that is too large or not finite; all rows if it is unknown."""
        X = self.X[start : start + _ROWS]
        if X.dtype.kind == "f":
            X = sp.csr_array(X)
            for at in np.flatnonzero(~(np.abs(X.data) <= LARGEST)).tolist():
                return f"row {start + int(np.searchsorted(X.indptr, at, 'right'))}"
        return f"rows {start + 1} to {start + X.shape[0]}"


class NpzStream(ArrayStream):
    """A stream of a matrix written by ``scipy.sparse.save_npz``, or of an array ``X`` in an .npz file.

    ``y``, ``weights``, ``offset`` and ``time`` come from the same file if they are not given.
    """

    labels_are = "an .npz file has them in an array y beside X, or beside data, indices, indptr, shape and format"

    def __init__(self, files: Files, y: Any = None, weights: Any = None, offset: Any = None, time: Any = None) -> None:
        if len(files.paths) != 1 or files.paths[0] == STDIN:
            raise ValueError("an .npz file is read as a whole: give one, not a list, a pattern or standard input.")
        self.files, self.path = files, files.paths[0]
        given = {"y": y, "weights": weights, "offset": offset, "time": time}
        self.has_own = any(each is not None for each in given.values())
        with open(self.path, "rb") as raw:
            try:
                with np.load(raw, allow_pickle=False) as held:
                    arrays = {name: held[name] for name in ("X", *given) if name in held}
                raw.seek(0)
                X = arrays["X"] if "X" in arrays else sp.load_npz(raw)
            except Exception as error:  # damage has errors of zipfile, zlib, tokenize, NumPy, SciPy and the system
                why = str(error).replace(f"The file {raw}", "it")  # scipy shows the object of the open file
                raise StreamError(f"{self.path} cannot be read as .npz: {why}") from error
        super().__init__(X, *(arrays.get(name) if each is None else each for name, each in given.items()))
        self.format, self.label_dtype = self.path, None

    def origin(self) -> Any:
        return super().origin() if self.has_own else self.files.identity()


class ExampleStream(Pieces):
    """A stream of examples (x, y), (x, y, weight) or (x, y, weight, offset), as in River's data sets.

    x is a dict of values by name (a text ``v`` under ``name`` is the feature ``name=v``), a list of tokens, or a tuple
    (columns, values).  A list, or a function that returns a new iterator at each call, can be read more than once.
    """

    format, line = "the iterator", "example"

    def __init__(
        self,
        source: Iterable[Any] | Callable[[], Iterable[Any]],
        *,
        hash_bits: int | None = None,
        seed: int = 0,
        signed: bool = True,
        names: Any = None,
        frozen: bool = False,
    ) -> None:
        self.source = source
        self.repeatable = callable(source) or not isinstance(source, Iterator)
        self.total = len(source) if isinstance(source, Collection) else None
        self.asked = encoder(hash_bits, seed, signed, names, frozen)
        self._kind: type | None = None
        self._has_offsets: bool | None = None
        if hash_bits is not None or names is not None:
            self.encoder = self.asked

    def pieces(self, place: Position) -> Iterator[Piece]:
        start = place.get("offset", 0)
        examples = iter(self.source() if callable(self.source) else self.source)
        next(itertools.islice(examples, start - 1, start), None) if start else None
        while batch := list(itertools.islice(examples, _EXAMPLES)):
            start += len(batch)
            yield Piece(self._parsed(batch), self.format, {"offset": start}, start)

    def _parsed(self, batch: list[Any]) -> Parsed:
        labels, weights, offsets, lengths = [], [], [], []
        names: list[Any] = []
        values: list[float] = []
        named = None
        for number, example in enumerate(batch, 1):
            try:
                is_tuple = isinstance(example, Collection) and not isinstance(example, Mapping | str)
                if not is_tuple or len(example) not in (2, 3, 4):
                    raise ValueError(f"it is a {type(example).__name__}: give (x, y), y None where there is no label")
                x, y, weight, offset = list(example) + [1.0, 0.0][len(example) - 2 :]
                entries, named = _entries(x)
                labels.append(self._label(y))
                weights.append(float(weight))
                offsets.append(float(offset))
                if self._has_offsets not in (None, len(example) == 4):
                    raise ValueError("either all examples have an offset, or none")
                self._has_offsets = len(example) == 4
                if (self.encoder is not None) != named and (self.encoder is not None or self.width):
                    raise ValueError("examples must have either names or columns, not a mix of both")
                if named and self.encoder is None:
                    self.encoder = self.asked
                self.width = self.width if named else max(self.width, 1)
                names += [name for name, _ in entries]
                values += [value for _, value in entries]
                lengths.append(len(entries))
                are_fine = all(abs(value) <= LARGEST for _, value in entries) and abs(offsets[-1]) <= LARGEST
                if not (are_fine and 0.0 <= weights[-1] <= LARGEST):
                    raise ValueError("numbers must be finite and at most 1e75, weights not negative")
            except (TypeError, ValueError) as error:
                return Parsed.none((number, str(error).rstrip(".")))
        data, ends = np.array(values, np.float64), np.append(0, np.cumsum(lengths))
        y = np.array(labels, object if self._kind is str else np.float64)
        w, own = np.array(weights), np.array(offsets) if self._has_offsets else None
        if named:
            keys = fingerprints(names, self.asked.seed)
            parsed = Parsed(len(batch), ends, keys, data, y, w, offsets=own)
            return parsed._replace(names_of=lambda entries: [names[k] for k in entries.tolist()])
        matrix = as_matrix(_csr(data, names, ends))
        return Parsed(len(batch), matrix.indptr, matrix.indices, matrix.data, y, w, d=matrix.d, offsets=own)

    def _label(self, y: Any) -> Any:
        kind = str if isinstance(y, str) else float
        if self._kind is None and y is not None:
            self._kind, self.label_dtype = kind, np.asarray(y).dtype
        if y is None:
            return None if self._kind is str else np.nan
        if kind is not self._kind:
            raise ValueError(f"the label {y!r} is {'text' if kind is str else 'not text'}, unlike the labels before it")
        return y if kind is str else float(y)


def _entries(x: Any) -> tuple[list[tuple[Any, float]], bool]:
    """Return the names or columns and values of an example, and whether they are names."""
    if isinstance(x, Mapping):
        texts = [
            (f"{name}={value}", 1.0) if isinstance(value, str) else (str(name), float(value))
            for name, value in x.items()
            if value is not None
        ]
        return texts, True
    if isinstance(x, list):
        return [(str(token), 1.0) for token in x], True
    if isinstance(x, tuple) and len(x) == 2:
        columns = np.asarray(x[0])
        if columns.size and (columns.dtype.kind not in "iu" or columns.min() < 0 or columns.max() >= MAX_FEATURES):
            raise ValueError(f"columns must be whole numbers from 0 to {MAX_FEATURES - 1}")
        return list(zip(columns.tolist(), np.asarray(x[1], float).tolist(), strict=True)), False
    raise ValueError(f"x is a {type(x).__name__}: give a dict, a list of tokens or a tuple (columns, values)")


def _csr(data: np.ndarray, columns: list[int], ends: np.ndarray) -> sp.csr_array:
    indices = np.array(columns, np.int64)
    return sp.csr_array((data, indices, ends), shape=(len(ends) - 1, int(indices.max(initial=-1)) + 1))
