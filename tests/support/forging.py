"""Forged files: valid models, checkpoints and row caches in which random fields are wrong and every checksum is right.

A file is taken apart into JSON and arrays, some places of it are changed, and it is put together again.  The changes
know nothing of what the fields mean.  Half of the places are drawn from all places, half by a walk from the root to
random children, which meets a field of a small record as often as a long list.
"""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np

from sparsco.streams.cache import MANIFEST, NAMES, ROWS, checksum
from sparsco.training.names import HOMES

_HEAD = struct.Struct("<8sIQ")
_ODD = [-1, 0, 1, 2, 7, -7, 255, 2**16, 2**30, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**64, -(2**63), 10**30]
_ODD += [0.5, -0.5, 1e-300, 1e300, True, False, None, "", "zzz", "\udcff", "a" * 300, [], {}, [[]], {"dict": []}]
_ODD += [{"float": "nan"}, {"float": "inf"}, {"tuple": []}, {"tuple": [1, 10**9]}, {"tuple": [-5, 3]}, {"array": 0}]
_TYPES = ["<f8", "<f4", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1"]


class Archive:
    """A model or checkpoint, taken apart."""

    def __init__(self, path: Path) -> None:
        raw = path.read_bytes()
        _, _, length = _HEAD.unpack(raw[: _HEAD.size])
        header, at, self.arrays = json.loads(raw[_HEAD.size : _HEAD.size + length]), _HEAD.size + length, []
        for dtype, shape in header.pop("arrays"):
            at += -at % 64
            self.arrays.append(np.frombuffer(raw, dtype, int(np.prod(shape)), at).reshape(shape).copy())
            at += self.arrays[-1].nbytes
        self.header = header

    def forge(self, rng: np.random.Generator) -> None:
        """Change one value, record or array."""
        if self.arrays and rng.random() < 0.4:
            k = int(rng.integers(len(self.arrays)))
            self.arrays[k] = forged_array(rng, self.arrays[k])
        else:
            self.header["content"] = forged_json(rng, self.header["content"])

    def forge_place(self, rng: np.random.Generator) -> None:
        """Change one whole number: most of those are places, sizes and times, on which compiled code relies."""
        arrays = [array for array in self.arrays if _is_whole(array)]
        if arrays and rng.random() < 0.7:
            array = arrays[rng.integers(len(arrays))].ravel()
            at = rng.integers(array.size, size=int(rng.choice([1, 1, 3, array.size])))
            near = [array.size, array.size - 1, int(np.max(array)) + 1, 2 * int(np.max(array)), 1300, 1301]
            value = near[rng.integers(len(near))] if rng.random() < 0.5 else _number(rng, array.dtype)
            most = np.inf if array.dtype.kind == "f" else np.iinfo(array.dtype).max
            array[at] = min(value, most)  # arrays are contiguous: ravel returns a view
            return
        numbers = [(above, key, here) for above, key, here in _places(self.header["content"]) if type(here) is int]
        if not numbers:  # another change has taken them away
            return
        above, key, here = numbers[rng.integers(len(numbers))]
        above[key] = _odd(rng, [*_like(here), -1, 0, 1, 1300, 1301, 2**31, 2**40])

    def write(self, path: Path) -> None:
        """Write the file with the right lengths and checksum."""
        header = dict(self.header) | {"arrays": [[a.dtype.str, list(a.shape)] for a in self.arrays]}
        text = json.dumps(header, ensure_ascii=False).encode("utf-8", "surrogatepass")
        raw = bytearray(_HEAD.pack(b"sparsco\n", 1, len(text)) + text)
        for array in self.arrays:
            raw += bytes(-len(raw) % 64) + array.tobytes()
        path.write_bytes(raw + hashlib.sha256(raw).digest())


class Cache:
    """A row cache, taken apart."""

    def __init__(self, folder: Path) -> None:
        self.manifest = json.loads((folder / MANIFEST).read_bytes().partition(b"\n")[2])
        self.names = json.loads((folder / NAMES).read_bytes())
        rows = (folder / ROWS).read_bytes()
        self.blocks = [
            {
                name: np.frombuffer(rows, dtype, length, block["at"] + at).copy()
                for name, (dtype, length, at) in block["arrays"].items()
            }
            for block in self.manifest["blocks"]
        ]
        self._changes: list[tuple[int, str, Any]] = []

    def forge(self, rng: np.random.Generator) -> None:
        """Change one array of a block, one entry of the list of arrays, the manifest, or the names."""
        draw, k = rng.random(), int(rng.integers(len(self.blocks)))
        name = str(rng.choice(list(self.blocks[k])))
        if draw < 0.55:
            self.blocks[k][name] = forged_array(rng, self.blocks[k][name]).ravel()
        elif draw < 0.7:
            self._changes.append((k, name, int(rng.integers(3))))
        elif draw < 0.95:
            self.manifest = forged_json(rng, self.manifest)
        else:
            self.names = forged_json(rng, self.names)

    def write(self, folder: Path, rng: np.random.Generator) -> None:
        """Write the folder with the right lengths and checksums, wherever the manifest still has a place for them."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        rows, manifest = bytearray(), self.manifest
        listed = manifest.get("blocks") if isinstance(manifest, dict) else None
        for k, arrays in enumerate(self.blocks):
            places, raw = {}, bytearray()
            for name, array in arrays.items():
                places[name] = [array.dtype.str, array.size, len(raw)]
                raw += array.tobytes() + bytes(-array.nbytes % 64)
            for number, name, item in self._changes:
                if number == k:
                    places[name][item] = _odd(rng, [*_like(places[name][item]), *_TYPES])
            if isinstance(listed, list) and k < len(listed) and isinstance(listed[k], dict):
                words = np.frombuffer(bytes(raw), np.uint64)
                listed[k] |= {"at": len(rows), "size": len(raw), "arrays": places, "sum": checksum(words)}
                listed[k]["end"] = len(rows) + len(raw) + -len(raw) % 4096
            rows += raw + bytes(-len(raw) % 4096)
        names = json.dumps(self.names).encode()
        if isinstance(manifest, dict):
            manifest |= {"names": hashlib.sha256(names).hexdigest(), "size": len(rows)}
        body = json.dumps(manifest).encode()
        (folder / ROWS).write_bytes(rows)
        (folder / NAMES).write_bytes(names)
        (folder / MANIFEST).write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def forge(source: Path, target: Path, seed: int, often: float = 0.0) -> None:
    """Write a copy of a valid file or folder in which one to three random places are wrong.

    ``often`` is how often such a place is a whole number.
    """
    rng = np.random.default_rng(seed)
    file = Cache(source) if source.is_dir() else Archive(source)
    for _ in range(rng.integers(1, 4)):
        if isinstance(file, Archive) and rng.random() < often:
            file.forge_place(rng)
        else:
            file.forge(rng)
    file.write(target, rng) if isinstance(file, Cache) else file.write(target)


def forged_json(rng: np.random.Generator, root: Any) -> Any:
    """Return a copy of JSON with one place changed."""
    root = copy.deepcopy(root)
    above, key, here = _by_steps(rng, root) if rng.random() < 0.5 else _of_all(rng, root)
    if above is None:
        return root
    if isinstance(here, list) and here and rng.random() < 0.4:
        k = int(rng.integers(len(here)))
        [lambda: here.pop(k), lambda: here.append(here[k]), here.reverse, here.clear][rng.integers(4)]()
    elif isinstance(here, str) and here in HOMES and rng.random() < 0.7:
        above[key] = str(rng.choice(list(HOMES)))
    elif isinstance(above, dict) and rng.random() < 0.1:
        above["zzz"] = above.pop(key)
    elif rng.random() < 0.2:
        above[key] = copy.deepcopy(_subtree(rng, root))
    else:
        above[key] = _odd(rng, _like(here))
    return root


def _by_steps(rng: np.random.Generator, here: Any) -> tuple[Any, Any, Any]:
    """Return a place that a walk from the root to random children reaches: its container, its key, its value."""
    above, key = None, None
    while True:
        children = _keys(here)
        if not children or (above is not None and rng.random() < 0.06):
            return above, key, here
        above, key = here, children[rng.integers(len(children))]
        here = here[key]


def _of_all(rng: np.random.Generator, root: Any) -> tuple[Any, Any, Any]:
    """Return one of all places, each with the same probability."""
    found = _places(root)
    return found[rng.integers(len(found))]


def _places(root: Any) -> list[tuple[Any, Any, Any]]:
    """Return all places: their containers, their keys, their values."""
    found, waiting = [(None, None, root)], [root]
    while waiting:
        above = waiting.pop()
        for key in _keys(above):
            found.append((above, key, above[key]))
            waiting.append(above[key])
    return found


def _is_whole(array: np.ndarray) -> bool:
    """Return whether an array has whole numbers, of any type, and not only zeros and ones."""
    if not array.size or array.dtype.kind == "b":
        return False
    with np.errstate(invalid="ignore"):
        return array.dtype.kind in "iu" or bool((array % 1.0 == 0.0).all() and array.max() > 1.0)


def _keys(here: Any) -> list[Any]:
    return list(here) if isinstance(here, dict) else list(range(len(here))) if isinstance(here, list) else []


def forged_array(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Return an array with other values, another length, another type or another shape."""
    draw = rng.random()
    if draw < 0.15:
        return array.view("u1").ravel()[: array.nbytes // 8 * 8].view(str(rng.choice(_TYPES)))
    if draw < 0.25:
        with np.errstate(all="ignore"):
            return array.astype(str(rng.choice(_TYPES)))
    if draw < 0.4:
        flat = array.ravel()
        size = int(rng.choice([0, 1, max(len(flat) - 1, 0), len(flat) // 2]))
        return flat[:size] if rng.random() < 0.7 else np.append(flat, flat[:size])
    if draw < 0.45:
        return array.reshape(1, -1) if rng.random() < 0.5 else array.reshape(-1, 1)
    made = array.copy()
    if draw < 0.5:
        return made.ravel()[::-1].reshape(made.shape).copy()
    if made.size:
        many = int(rng.choice([1, 1, 3, made.size]))
        made.ravel()[rng.integers(made.size, size=many)] = _number(rng, made.dtype)
    return made


def _number(rng: np.random.Generator, dtype: np.dtype) -> Any:
    if dtype.kind == "b":
        return bool(rng.integers(2))
    if dtype.kind == "f":
        few = [-1.0, 0.0, 1.0, np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-300, 2.0**40, 0.5]
        return np.array(few[rng.integers(len(few))]).astype(dtype, casting="unsafe")
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    few = [low, high, high - 1, 0, 1, 2, 5, -1, -7, 300, 1 << 31, 1 << 32, 1 << 40, -(1 << 31)]
    return min(max(few[rng.integers(len(few))], low), high)


def _like(value: Any) -> list[Any]:
    """Return values that are a little wrong: near in kind, out of bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return []
    return [-value, value + 1, value - 1, 2 * value, 1000 * value, value * 1e9 if isinstance(value, float) else 10**9]


def _odd(rng: np.random.Generator, more: list[Any]) -> Any:
    values = more if more and rng.random() < 0.4 else _ODD
    return copy.deepcopy(values[rng.integers(len(values))])


def _subtree(rng: np.random.Generator, root: Any) -> Any:
    here = root
    while isinstance(here, dict | list) and here and rng.random() < 0.75:
        here = here[list(here)[rng.integers(len(here))]] if isinstance(here, dict) else here[rng.integers(len(here))]
    return here
