"""The file format for models, training states and checkpoints.  Nothing in a file is ever executed.

    sparsco\\n      8 bytes
    format         4 bytes, little-endian: 1
    length         8 bytes, little-endian: of the header
    header         UTF-8 JSON: {"kind", "sparsco", "content", "arrays"}
    arrays         each begins at a multiple of 64 bytes, little-endian, C order, in the order of the header's list
    checksum       32 bytes: SHA-256 of everything before

``content`` is JSON.  A value that JSON does not have is an object, and its first key names its type.  The types are
{"float": "nan"}, {"tuple": [...]}, {"slice": [...]}, {"dict": [[key, value], ...]}, {"array": place in the list},
{"strings": [...], "shape": [...], "of": "U" or "O"}, {"scalar": [dtype, value]}, {"csr": [data, indices, indptr,
shape]}.  For the classes that ``names.py`` lists, by their stable names, they are {"record": name, "fields": [...]},
{"object": name, "state": [[name, value], ...]} and {"class": name}.  {"same": number} is an object that came before.

Reading makes numbers, strings, arrays and bare instances of these classes, and calls none of their constructors. Sizes
are compared with the size of the file before anything is allocated, the checksum before anything is used.  Anyone can
write a checksum, so every record and object is checked by its class: each field by its type hint, and the whole by the
method ``check()``, if the class has one without arguments.  The fields of a model are then checked against each other.
A training state is checked as far as sizes, types, places and times go (``problem/bounds.py``); its weights and sums
are taken as they are.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from .. import __version__
from ..offsets import has_offset, records_of
from ..problem.state import aligned_zeros
from ..util.atomic_files import replacing
from ..util.attributes import Restored, add_attributes
from ..util.typed import check_fields, check_rules, checked
from .names import class_of, name_of

FORMAT = 1
_MAGIC = b"sparsco\n"
_HEAD = struct.Struct("<8sIQ")
_DIGEST = 32
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_DTYPES = frozenset("<f8 <f4 <i8 <i4 <i2 |i1 <u8 <u4 <u2 |u1 |b1".split())


_WRONG = (
    ArithmeticError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""The errors that values of a file can cause where code meets them."""


class ArchiveError(ValueError):
    """An error for a file that is not from sparsco, of another kind, damaged, or made by a newer version."""


def write(path: str | Path, kind: str, content: Any) -> Path:
    """Write a file atomically: it is whole and on disk, or as it was before; return its path."""
    encoder = _Encoder()
    tree = encoder.encode(content)
    arrays = [[array.dtype.str, list(array.shape)] for array in encoder.arrays]
    header = json.dumps(
        {"kind": kind, "sparsco": __version__, "content": tree, "arrays": arrays},
        allow_nan=False,
        separators=(",", ":"),
        ensure_ascii=False,
    ).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256()
    with replacing(path) as file:

        def put(part: Any) -> None:
            digest.update(part)
            file.write(part)

        put(_HEAD.pack(_MAGIC, FORMAT, len(header)))
        put(header)
        at = _HEAD.size + len(header)
        for array in encoder.arrays:
            put(bytes(-at % 64))
            put(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
            at += -at % 64 + array.nbytes
        file.write(digest.digest())
    return Path(path)


def read(path: str | Path, kind: str) -> Any:
    """Return the content that ``write`` was given.

    Raise an ArchiveError of one sentence if the file is anything else.
    """
    path = Path(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size or head[:8] != _MAGIC:
            raise ArchiveError(f"{path} is not a sparsco file: its header is missing.")
        _, version, length = _HEAD.unpack(head)
        if version != FORMAT:
            raise ArchiveError(f"{path} has format {version}, and this version of sparsco reads format {FORMAT}.")
        damaged = ArchiveError(f"{path} is damaged: its length or checksum is wrong; use another copy.")
        if _HEAD.size + length + _DIGEST > size:
            raise damaged
        header_bytes = file.read(length)
        try:
            header = json.loads(header_bytes.decode("utf-8", "surrogatepass"))
            arrays = [(np.dtype(dtype), tuple(shape)) for dtype, shape in _listed(header["arrays"])]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise damaged from None
        places, at = [], _HEAD.size + length
        for dtype, shape in arrays:
            at += -at % 64
            places.append(at)
            at += dtype.itemsize * math.prod(shape)
        if at + _DIGEST != size or _digest(file, at) != _tail(file, at):
            raise damaged
        if header.get("kind") != kind:
            raise ArchiveError(f"{path} is a {header.get('kind')} of sparsco, not a {kind}.")
        loaded = [_array(file, place, *array) for place, array in zip(places, arrays, strict=True)]
    with refusing(path, f"was written by sparsco {header.get('sparsco')} and cannot be read by {__version__}"):
        return _Decoder(loaded).decode(header["content"])


@contextlib.contextmanager
def refusing(path: str | Path, because: str) -> Iterator[None]:
    """Turn an error over the contents of a file into an ArchiveError of one sentence.

    What a file asks for may take more memory than there is: that is an error of the file, too.
    """
    try:
        yield
    except ArchiveError:
        raise
    except _WRONG as error:
        what = f"there is no field {error}" if isinstance(error, KeyError) else str(error)
        raise ArchiveError(f"{path} {because}: {what.rstrip('.') or type(error).__name__}.") from None


def _listed(arrays: Any) -> Any:
    for dtype, shape in arrays:
        if _known(dtype) and not all(type(n) is int and 0 <= n < 1 << 48 for n in shape):
            raise ValueError(f"a shape of {shape}")
    return arrays


def _known(dtype: str) -> str:
    if dtype not in _DTYPES:
        raise ValueError(f"an array of type {dtype}")
    return dtype


def _digest(file: IO[bytes], end: int) -> bytes:
    digest, left = hashlib.sha256(), end
    file.seek(0)
    while left:
        part = file.read(min(left, 1 << 20))
        if not part:
            break
        digest.update(part)
        left -= len(part)
    return digest.digest()


def _tail(file: IO[bytes], at: int) -> bytes:
    file.seek(at)
    return file.read(_DIGEST)


def _array(file: IO[bytes], at: int, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    size = math.prod(shape)
    flat = aligned_zeros(size) if dtype == np.float64 else np.zeros(size, dtype)
    if size:
        file.seek(at)
        file.readinto(flat.data.cast("B"))  # type: ignore[attr-defined]
    return flat.reshape(shape)


class _Encoder:
    """An encoder of Python values as JSON and a list of arrays."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._places: dict[int, int] = {}
        self._objects: dict[int, int] = {}
        self._alive: list[Any] = []  # keeps objects alive, so that no id is used twice

    def encode(self, x: Any) -> Any:
        """Return a value as JSON; arrays are appended to ``arrays``."""
        if x is None or type(x) in (bool, str, int):
            return x
        if type(x) is float:
            return x if math.isfinite(x) else {"float": repr(x)}
        if type(x) is list:
            return [self.encode(item) for item in x]
        if type(x) is dict:
            return {"dict": [[self.encode(key), self.encode(value)] for key, value in x.items()]}
        if type(x) is tuple:
            return {"tuple": [self.encode(item) for item in x]}
        if type(x) is slice:
            return {"slice": [self.encode(item) for item in (x.start, x.stop, x.step)]}
        if isinstance(x, np.ndarray):
            return self._encode_array(x)
        if isinstance(x, type):
            return {"class": name_of(x)}
        if isinstance(x, np.generic):
            return {"scalar": [x.dtype.str, self.encode(x.item())]}
        if type(x) is sp.csr_array:
            return {"csr": [self.encode(part) for part in (x.data, x.indices, x.indptr, x.shape)]}
        name = name_of(type(x))
        if isinstance(x, tuple):
            return {"record": name, "fields": [self.encode(item) for item in x]}
        if id(x) in self._objects:
            return {"same": self._objects[id(x)]}
        self._objects[id(x)] = len(self._objects)
        state = x.__getstate__()
        self._alive += [x, state]
        return {"object": name, "state": [[key, self.encode(value)] for key, value in (state or {}).items()]}

    def _encode_array(self, x: np.ndarray) -> Any:
        if has_offset(x):
            return {"targets": [self.encode(np.ascontiguousarray(x[name])) for name in ("y", "offset")]}
        if x.dtype.kind in "UO":
            return {"strings": self.encode(x.ravel().tolist()), "shape": x.shape, "of": x.dtype.kind}
        if id(x) not in self._places:
            stored = x.astype(x.dtype.newbyteorder("<"), copy=False)
            if stored.dtype.str not in _DTYPES:
                raise ValueError(f"an array of type {x.dtype} cannot be saved.")
            self._places[id(x)] = len(self.arrays)
            self.arrays.append(stored)
            self._alive.append(x)
        return {"array": self._places[id(x)]}


class _Decoder:
    """A decoder of the JSON and the arrays of an ``_Encoder``."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self._arrays = arrays
        self._objects: list[Any] = []
        self._forms = {
            "float": lambda x: _FLOATS[x["float"]],
            "dict": lambda x: {self.decode(key): self.decode(value) for key, value in x["dict"]},
            "tuple": lambda x: tuple(self.decode(x["tuple"])),
            "slice": lambda x: slice(*self.decode(x["slice"])),
            "array": lambda x: self._arrays[x["array"]],
            "targets": lambda x: records_of(*self.decode(x["targets"])),
            "csr": self._csr,
            "class": lambda x: class_of(x["class"]),
            "same": lambda x: self._objects[x["same"]],
            "scalar": lambda x: np.array(self.decode(x["scalar"][1]), dtype=_known(x["scalar"][0]))[()],
            "strings": self._strings,
            "record": self._record,
            "object": self._object,
        }

    def decode(self, x: Any) -> Any:
        """Return the value that was encoded as x."""
        if isinstance(x, list):
            return [self.decode(item) for item in x]
        return self._forms[next(iter(x), "nothing")](x) if isinstance(x, dict) else x

    def _csr(self, x: dict[str, Any]) -> sp.csr_array:
        *parts, shape = self.decode(x["csr"])
        made = sp.csr_array(tuple(parts), shape=shape)
        made.check_format()
        return made

    def _strings(self, x: dict[str, Any]) -> np.ndarray:
        items = self.decode(x["strings"])
        if x["of"] == "U":
            if len(items) * max(map(len, items), default=0) > 1000 + 64 * sum(map(len, items)):
                raise ValueError("texts of very uneven lengths")  # each would take as much memory as the longest
            return np.array(items, dtype=str).reshape(x["shape"])
        objects = np.empty(len(items), object)
        objects[:] = items
        return objects.reshape(x["shape"])

    def _record(self, x: dict[str, Any]) -> Any:
        kind, fields = class_of(x["record"]), self.decode(x["fields"])
        if not issubclass(kind, tuple):
            raise TypeError(f"{x['record']} is not a record")
        defaults = kind._field_defaults
        later = [defaults[name] for name in kind._fields[len(fields) :] if name in defaults]  # younger than the file
        if len(fields) + len(later) != len(kind._fields):
            raise TypeError(f"{x['record']} has other fields")
        return checked(tuple.__new__(kind, [*fields, *later]))

    def _object(self, x: dict[str, Any]) -> Any:
        kind = class_of(x["object"])
        if issubclass(kind, tuple):
            raise TypeError(f"{x['object']} is a record")
        made = object.__new__(kind)
        self._objects.append(made)
        state = {key: self.decode(value) for key, value in x["state"]}
        check_fields(kind, state.items())
        if isinstance(made, Restored):
            made.__setstate__(state)
        else:
            add_attributes(made, state)
        check_rules(made)
        return made
