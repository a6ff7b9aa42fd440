"""The script of `make bench-peers`: every installed solver reaches the same optimum, so strengths mean the same."""

from __future__ import annotations

import runpy
from functools import partial

import numpy as np
import pytest

from sparsco.bench import sets
from sparsco.bench.kept import Kept
from sparsco.util.result_store import Store
from support import REPOSITORY

PEERS = runpy.run_path(str(REPOSITORY / "benchmarks" / "peers.py"))


INEXACT = {("path", "sparsco path"): 1.0, ("classes", "adelie"): 1e-4}
"""The gaps of solvers that are not exact: one pass, and adelie's softmax, which ends at about 1e-6."""


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ("path", "dense-300x10"),  # one row is held out: with few rows and many features that matters
        *((part, place) for part in ("group", "regression") for place in ("dense-300x10", "rcv1-200x500")),
        ("classes", "dense-300x10"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_every_solver_reaches_the_optimum(part, place, tmp_path, monkeypatch):
    monkeypatch.setattr(sets, "load", partial(sets.load, keep=False))
    said = []
    for task in PEERS["PARTS"][part](place):
        kept = Kept(Store(tmp_path / "ours.jsonl", False), Store(tmp_path / "others.jsonl", False))
        lines = PEERS["measured"](task, 1, kept, said.append)
        assert len(lines) + sum("is not installed" in line for line in said) >= len(task.solvers)
        for line in lines:
            least = INEXACT.get((part, line["solver"]), 1e-6)
            assert set(line["ms"]) == {*PEERS["LEVELS"]} and line["gap"] < least, line
            assert all(ms for level, ms in line["ms"].items() if level >= least), line
    assert "| sparsco p" in PEERS["table"](lines)


def test_real_sets_that_are_missing_are_named(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARSCO_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    said = []
    assert PEERS["part"]("regression", ["cpusmall"], 1, None, said.append) == []
    assert said == ["left out: the files of cpusmall are missing"]


def test_the_quickest_setting_that_reaches_a_level_is_taken():
    tried = [
        {"setting": 1.0, "cpu": 1.0, "objectives": [1.2, 2.0]},
        {"setting": 0.1, "cpu": 3.0, "objectives": [1.0, 2.0]},
        {"setting": 0.01, "cpu": 2.0, "objectives": [1.001, 2.0]},
    ]
    least = np.array([1.0, 2.0])
    assert [PEERS["cheapest"](tried, least, level) for level in (0.3, 0.01, 1e-4)] == [1.0, 0.01, 0.1]
    assert PEERS["cheapest"](tried[:1], least, 0.1) is None
