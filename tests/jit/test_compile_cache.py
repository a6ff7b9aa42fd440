"""Compiled code on disk: whatever is wrong with it, kernels run and give the right numbers."""

import hashlib
import os
import pickle
import pwd
import resource
import subprocess
import sys
import warnings
from contextlib import contextmanager

import numba
import numpy as np
import pytest

from sparsco import SparseRegressor, datasets
from sparsco.jit.dispatch import Kernel, _Cache
from sparsco.streams import checksums, open_stream
from sparsco.util import folders

ARGUMENTS = np.arange(9, dtype=np.uint64), np.uint64(3)
EXPECTED = int(checksums.mixed_up(*ARGUMENTS))


def fresh():
    """The kernel as a new process has it."""
    return Kernel(checksums.mixed_up.py_func, allocates=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "compiled"))
    monkeypatch.setattr(_Cache, "warned", set())
    return tmp_path / "compiled"


@contextmanager
def one_warning(*words):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield
    assert len(seen) == 1, [str(each.message) for each in seen]
    assert seen[0].category is RuntimeWarning and all(word in str(seen[0].message) for word in words), seen[0].message


def compiled(kernel):
    return sum(kernel.cached.stats.cache_misses.values())


def sealed(content):
    raw = pickle.dumps(content)
    return hashlib.sha256(raw).digest() + raw


def test_every_damage_to_a_file_means_compiling_once(folder):
    first = fresh()
    assert int(first(*ARGUMENTS)) == EXPECTED and compiled(first) == 1
    (path,) = folder.glob("*/*.nbc")
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    damages = [b"", good[:1], good[:40], good[: len(good) // 2], good[:-1], bytes(len(good)), good[::-1], good + b"\0"]
    damages += [sealed(None), sealed(("key", "data")), sealed((pickle.loads(good[32:])[0], (1, 2, 3)))]
    for at in rng.integers(0, len(good), 100).tolist():
        damages.append(good[:at] + bytes([good[at] ^ 1 << int(rng.integers(8))]) + good[at + 1 :])
    context, (signature,) = first.cached.targetctx, first.cached.signatures
    reader = fresh().cached._cache
    assert reader.load_overload(signature, context) is not None
    for damage in damages:
        path.write_bytes(damage)
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            assert reader.load_overload(signature, context) is None
    for damage in damages[:1] + damages[5:6] + damages[-1:]:
        _Cache.warned.clear()
        path.write_bytes(damage)
        again = fresh()
        with one_warning(str(path), "compiled again"):
            assert int(again(*ARGUMENTS)) == EXPECTED and compiled(again) == 1
        later = fresh()
        assert int(later(*ARGUMENTS)) == EXPECTED and compiled(later) == 0  # it was replaced
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_full_disk_and_folders_that_cannot_be_written(folder, tmp_path, monkeypatch):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))  # "File too large" in place of "No space left"
    try:
        with one_warning(str(folder), "File too large", "set NUMBA_CACHE_DIR"):
            assert [int(fresh()(*ARGUMENTS)) for _ in range(2)] == [EXPECTED] * 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not any(path.is_file() for path in folder.rglob("*"))
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(place))
        _Cache.warned.clear()
        with one_warning(str(place), "set NUMBA_CACHE_DIR"):
            assert int(fresh()(*ARGUMENTS)) == EXPECTED


def test_a_cache_that_can_only_be_read_is_read(folder, monkeypatch):
    fresh()(*ARGUMENTS)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("sparsco.jit.dispatch.replacing", refuse)
    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    later = fresh()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert int(later(*ARGUMENTS)) == EXPECTED and compiled(later) == 0


@pytest.fixture
def homeless(monkeypatch, tmp_path):
    """A user without a home folder, as in a container with a number for a user."""

    def nobody(_):
        raise KeyError

    for name in ("HOME", "XDG_CACHE_HOME", "SPARSCO_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("given", ["", "~/compiled"])
def test_without_a_home_there_is_no_folder_called_tilde(folder, homeless, tmp_path, monkeypatch, given):
    monkeypatch.setattr(numba.config, "CACHE_DIR", given)
    with one_warning("no home folder", "set NUMBA_CACHE_DIR"):
        assert [int(fresh()(*ARGUMENTS)) for _ in range(2)] == [EXPECTED] * 2
    (tmp_path / "x.svm").write_text("1 1:1\n-1 2:1\n")
    for ask in (lambda: folders.cache_folder("data"), datasets.folders, lambda: open_stream("x.svm", cache=True)):
        with pytest.raises(OSError, match="the home folder does not exist: set XDG_CACHE_HOME"):
            ask()
    monkeypatch.setenv("SPARSCO_DATA", str(tmp_path))
    assert datasets.folders() == [tmp_path]
    monkeypatch.setenv("XDG_CACHE_HOME", "~/caches")
    with pytest.raises(OSError, match="set XDG_CACHE_HOME"):
        folders.cache_folder("data")
    with pytest.raises(OSError, match="set folder"):
        datasets.download("a9a", folder="~/data")
    assert os.listdir(tmp_path) == ["x.svm"]


_FITTING = """
import numpy as np
from sparsco import SparseRegressor
X = np.random.default_rng(0).normal(size=(300, 6))
print(SparseRegressor(alpha=0.1, random_state=0).fit(X, X[:, 3]).coef_.tobytes().hex())
"""


def test_a_fit_in_a_process_with_a_damaged_cache(tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 6))
    expected = SparseRegressor(alpha=0.1, random_state=0).fit(X, X[:, 3]).coef_.tobytes().hex()
    theirs = fresh().cached._cache.folder
    ours = tmp_path / theirs.name
    ours.mkdir()
    for path in theirs.glob("*.nbc"):
        (ours / path.name).symlink_to(path)
    damaged = [*ours.glob("*._margins.*"), *ours.glob("*.squared_norms.*")]
    assert damaged
    for path in damaged:
        path.unlink()
        path.write_bytes(bytes(1000))
    found = subprocess.run(
        [sys.executable, "-c", _FITTING],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert found.returncode == 0 and found.stdout.strip() == expected, found.stderr
    assert found.stderr.count("RuntimeWarning:") == 1 and "its checksum is wrong" in found.stderr
    assert any(path.stat().st_size != 1000 for path in damaged)
