"""Checks of what a row cache holds: its checksums are right if it was written as it is, by whomever."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..data.inspection import LARGEST, check_rows
from ..util.typed import check_fields, fits
from .frequencies import check_counts

_TYPES: dict[str, tuple[Any, ...]] = {
    "indptr": (np.int64,),
    "indices": (np.uint32, np.uint64, np.int64),
    "data": (np.float64, np.float32),
    "y": (np.float64, np.int64),
    "weights": (np.float64,),
    "offsets": (np.float64,),
    "times": (np.float64,),
    "tags": (np.uint8,),
    "tag_ends": (np.int64,),
}
FIELDS = tuple(_TYPES)
_DTYPES = {name: {np.dtype(kind).str for kind in kinds} for name, kinds in _TYPES.items()}
_MOST = 1 << 62


class _Manifest(NamedTuple):
    """The fields of a manifest."""

    identity: dict[str, Any]
    rows: int
    d: int
    labels: list[str]
    blocks: list[dict[str, Any]]
    size: int
    names: str


class _Block(NamedTuple):
    """The fields of a block."""

    at: int
    size: int
    end: int
    arrays: dict[str, list[Any]]
    sum: int
    d: int
    first: int
    position: dict[str, Any]
    read: int


class _File(NamedTuple):
    """The fields of a file of the source."""

    path: str
    size: int
    mtime_ns: int


def check_manifest(manifest: Mapping[str, Any]) -> None:
    """Raise a ValueError, or another built-in error, if the parts of a manifest do not fit together."""
    _has(_Manifest, manifest)
    identity, rows, read, end = manifest["identity"], 0, 0, 0
    _must(type(identity["format"]) is str and type(identity["options"]) is dict, "its source is not described")
    for file in identity["source"]:
        _has(_File, file)
    _check_options(identity["options"])
    labels, d = manifest["labels"], manifest["d"]
    _must(len(set(labels)) == len(labels), "a label comes twice")
    for block in manifest["blocks"]:
        _has(_Block, block)
        _must(block["first"] == rows and block["at"] == end, "its blocks do not follow each other")
        _must(read <= block["read"] < _MOST and 0 < block["d"] <= d <= _MOST, "its blocks are of other rows")
        rows, read, end = rows + _check_arrays(block), block["read"], block["end"]
    most = max((block["d"] for block in manifest["blocks"]), default=0)
    _must((rows, most, end) == (manifest["rows"], d, manifest["size"]), "its blocks are of other rows")


def _check_options(options: Mapping[str, Any]) -> None:
    """Raise a ValueError for options of the reader that a later reading would stumble over."""
    bits, pairs, names = options.get("hash_bits"), options.get("quadratic"), options.get("names")
    _must(bits is None or (type(bits) is int and 1 <= bits <= 31), "its number of bits of a hash is impossible")
    _must(type(options.get("seed", 0)) is int and type(options.get("signed", True)) is bool, "its hash is unknown")
    is_bytes = fits(pairs, list[list[int]] | None) and all(0 <= byte < 256 for pair in pairs or [] for byte in pair)
    _must(is_bytes, "its pairs of namespaces are not characters")
    _must(names in (None, "keys") or (len(names) == 2 and type(names[0]) is int), "its first names are not counted")


def _check_arrays(block: Mapping[str, Any]) -> int:
    """Raise a ValueError if the arrays of a block are not inside of it or not equally long; return its rows."""
    sizes, least = {}, 0
    for name, (dtype, length, at) in block["arrays"].items():
        _must(dtype in _DTYPES.get(name, ()), f"its array {name} is of a type that no cache has")
        _must(type(length) is type(at) is int and length >= 0 and at >= least and at % 8 == 0, f"{name} is not there")
        sizes[name], least = length, at + length * np.dtype(dtype).itemsize
    _must(least <= block["size"] <= block["end"] - block["at"] and block["size"] % 8 == 0, "its arrays are not there")
    rows = sizes["y"]
    _must(sizes["indptr"] == rows + 1 and sizes["indices"] == sizes["data"], "its arrays are of different lengths")
    by_row = [sizes[name] for name in ("weights", "offsets", "times", "tag_ends") if name in sizes]
    _must(all(length == rows for length in by_row), "its arrays are of different lengths")
    _must(("tags" in sizes) == ("tag_ends" in sizes), "its tags are not there")
    return rows


def check_block(held: Mapping[str, np.ndarray], d: int, labels: int) -> None:
    """Raise a ValueError if the values of a block are not those of rows with d columns and so many labels."""
    check_rows(held["indptr"], held["indices"], held["data"], d)
    y = held["y"]
    if y.dtype == np.int64:
        _must(((y >= -1) & (y < labels)).all(), "a row has a label that it does not have")
    else:
        _must(not np.isinf(y).any(), "a row has an infinite target")
    weights = held.get("weights")
    _must(weights is None or ((weights >= 0.0) & (weights <= LARGEST)).all(), "a weight is negative or not finite")
    for name in ("offsets", "times"):
        _must(name not in held or not (np.abs(held[name]) > LARGEST).any(), f"its {name} are not finite")
    if "tag_ends" in held:
        ends = held["tag_ends"].tolist()
        _must(all(a <= b for a, b in pairwise([0, *ends, len(held["tags"])])), "its tags are not there")


def check_columns(names: Mapping[int, str], counts: Mapping[str, Any], description: Any, labels: Any) -> None:
    """Raise a ValueError if the names of columns and the frequencies of texts are not those of its table."""
    _must(all(type(name) is str for name in (*names.values(), *labels)), "its names are no texts")
    _must(all(column >= 0 for column in names), "a name has no column")
    check_counts(dict(counts), description)


def _has(kind: type, given: Mapping[str, Any]) -> None:
    """Raise an error if the fields of a class are missing in a dict, or are of other types; others are left alone."""
    check_fields(kind, ((name, given[name]) for name in kind._fields))  # type: ignore[attr-defined]


def _must(holds: Any, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
