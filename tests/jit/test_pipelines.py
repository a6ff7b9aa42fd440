"""The two pipelines that compile kernels: which one a version of numba gets, and that both give the same bits.

As a program, ``python test_pipelines.py FILE`` computes with a core set of kernels and writes the results to the file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sparsco import SparseClassifier, SparsePath, SparseRegressor
from sparsco.jit import dispatch, pipelines
from sparsco.jit.pipelines import STOCK_VARIABLE, chosen, is_known, numba_version, options
from sparsco.penalties import L1Ball
from sparsco.streams import checksums, open_stream

VERSIONS = {
    "0.60.0": False,
    "0.61.0": True,
    "0.68.1": True,
    "0.68.0rc1": True,
    "0.69.0": False,
    "1.61.0": False,
    "0.69.0.dev0+12.gabc": False,
    "0.610.0": False,
    "?": False,
}
FITS = {
    "fobos": dict(optimizer="fobos", conversion="last"),
    "rda": dict(optimizer="rda", conversion="average-sl", loss="huber"),
    "ftrl": dict(optimizer="ftrl", conversion="average"),
    "orda": dict(optimizer="orda", conversion="average", l1_ratio=0.5),
    "sgd": dict(optimizer="sgd", conversion="optimal-sl", alpha=0.0),
    "epoch-sgd": dict(optimizer="epoch-sgd", alpha="auto", penalty=L1Ball(2.0)),
    "polished": dict(optimizer="fobos", conversion="last", polish=True),
}

has_both = pytest.mark.skipif(not is_known(numba_version()), reason="this numba has the stock pipeline alone")


def results():
    """Return arrays by name that learning and reading compute, each with kernels that the others do not use."""
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(rng.normal(size=(200, 12)) * (rng.random((200, 12)) < 0.5))
    margins = X @ np.append([2.0, -1.0, 1.0], np.zeros(9)) + rng.normal(size=200)
    out = {}
    for name, settings in FITS.items():
        model = SparseRegressor(**dict(alpha=0.02, random_state=0, shuffle=False) | settings)
        out[name] = model.fit(X, margins).coef_
        out[f"{name}, predicted"] = model.predict(X)
    classifier = SparseClassifier(alpha=0.01, optimizer="fobos", conversion="last", random_state=0)
    out["three classes"] = classifier.fit(X, np.digitize(margins, [-1.0, 1.0])).predict_proba(X)
    learner = SparseRegressor(optimizer="nftrl", conversion="last", random_state=0)
    path = SparsePath(learner, n_alphas=4, dtype="float32")
    out["path"] = path.fit(X, margins).path_.coefs.toarray()
    numbers = np.concatenate([rng.normal(size=300) * 10.0 ** rng.integers(-300, 70, 300), [-0.0, 5e-324, 0.1]])
    with tempfile.TemporaryDirectory() as folder:
        texts = {
            "x.svm": "".join(f"1 {k + 1}:{value!r}\n" for k, value in enumerate(numbers.tolist())),
            "x.vw": "".join(f"1 |a x{k}:{value!r} y\n" for k, value in enumerate(numbers.tolist())),
        }
        for name, text in texts.items():
            Path(folder, name).write_text(text)
            (chunk,) = open_stream(Path(folder, name))
            out |= {f"{name}, data": chunk.data, f"{name}, indices": chunk.indices}
    return out


def _start(*arguments, **variables):
    """Start a process of Python, with these environment variables."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _end(process):
    """Return what a process wrote to stdout and to stderr."""
    with process:
        out, err = process.communicate(timeout=1800)
    assert process.returncode == 0, err
    return out, err


@pytest.mark.long
@has_both
def test_both_pipelines_give_the_same_bits(tmp_path):
    lean, stock = (tmp_path / f"{name}.npz" for name in ("lean", "stock"))
    started = [_start(__file__, file, **{STOCK_VARIABLE: value}) for file, value in ((lean, "0"), (stock, "1"))]
    for process in started:
        _end(process)
    with np.load(lean) as ours, np.load(stock) as theirs:
        assert (ours["pipeline"], theirs["pipeline"]) == ("lean", "stock")
        names = set(ours.files) - {"pipeline"}
        assert names == set(theirs.files) - {"pipeline"} and len(names) == 2 * len(FITS) + 6
        for name in sorted(names):
            assert ours[name].dtype == theirs[name].dtype and ours[name].shape == theirs[name].shape, name
            assert ours[name].tobytes() == theirs[name].tobytes(), name
            assert np.any(ours[name] != 0.0), name


@pytest.mark.parametrize("version", VERSIONS)
def test_the_version_decides(monkeypatch, version):
    monkeypatch.setattr(pipelines, "KNOWN", ((0, 61), (0, 68)))
    monkeypatch.setattr(pipelines, "numba_version", lambda: version)
    monkeypatch.delenv(STOCK_VARIABLE, raising=False)
    assert is_known(version) == VERSIONS[version] and chosen() == ("lean" if VERSIONS[version] else "stock")
    for value, stock in {"": False, "0": False, "1": True}.items():
        monkeypatch.setenv(STOCK_VARIABLE, value)
        assert chosen() == ("lean" if VERSIONS[version] and not stock else "stock")


def test_the_command_tells_versions_and_pipeline_without_numba():
    for value in ("0", "1"):
        expected = "lean" if value == "0" and is_known(numba_version()) else "stock"
        out, err = _end(_start("-X", "importtime", "-m", "sparsco", "--version", **{STOCK_VARIABLE: value}))
        assert out.startswith("sparsco ") and out.count("\n") == 1
        versions = f", Python {sys.version.split()[0]}, numba {numba_version()} ({expected} pipeline)\n"
        assert out.endswith(versions)
        assert not [line for line in err.splitlines() if line.split("|")[-1].strip() in ("numba", "numpy")]


def test_the_cache_keeps_versions_and_pipelines_apart(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))

    def compiled():
        fresh = dispatch.Kernel(checksums.mixed_up.py_func, allocates=False)
        assert int(fresh(np.arange(9, dtype=np.uint64), np.uint64(3)))
        return sum(fresh.cached.stats.cache_misses.values()), len(list(tmp_path.rglob("*.nbc")))

    assert [compiled(), compiled()] == [(1, 1), (0, 1)]
    with monkeypatch.context() as patched:
        patched.setattr(dispatch, "OPTIONS", options()._replace(pipeline="another"))
        assert [compiled(), compiled()] == [(1, 2), (0, 2)]
    with monkeypatch.context() as patched:
        patched.setattr("numba.__version__", "0.0.1")
        assert [compiled(), compiled()] == [(1, 3), (0, 3)]
    assert compiled() == (0, 3)


_MOVED = """
import sys
import numpy as np
import numba.core.typing.builtins, numba.misc.appdirs
del numba.core.typing.builtins.OrderedCmpOp, numba.misc.appdirs.AppDirs
from sparsco.jit.dispatch import OPTIONS
from sparsco.streams.checksums import mixed_up
print(OPTIONS.pipeline, int(mixed_up(np.arange(9, dtype=np.uint64), np.uint64(3))))
"""


@has_both
def test_internals_of_numba_that_moved_cost_time_alone(tmp_path):
    expected = int(checksums.mixed_up(np.arange(9, dtype=np.uint64), np.uint64(3)))
    out, err = _end(_start("-c", _MOVED, **{STOCK_VARIABLE: "0", "NUMBA_CACHE_DIR": str(tmp_path)}))
    assert out.split() == ["stock", str(expected)]
    lean, disk = [line for line in err.splitlines() if "RuntimeWarning" in line]
    assert "'OrderedCmpOp'" in lean and "kernels compile slowly" in lean
    assert "'AppDirs'" in disk and "compiles it again" in disk and not list(tmp_path.iterdir())


if __name__ == "__main__":
    np.savez(sys.argv[1], pipeline=options().pipeline, **results())
