"""The script of `make bench-peers`: every installed solver reaches the same optimum, so strengths mean the same."""

from __future__ import annotations

import runpy
from functools import partial

import numpy as np
import pytest

from sparsco.bench import sets
from sparsco.util.result_store import Store
from support import REPOSITORY

PEERS = runpy.run_path(str(REPOSITORY / "benchmarks" / "peers.py"))


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ("path", "dense-300x10"),  # one row is held out: with few rows and many features that matters
        *((part, place) for part in ("group", "regression") for place in ("dense-300x10", "rcv1-200x500")),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_every_solver_reaches_the_optimum(part, place, tmp_path, monkeypatch):
    monkeypatch.setattr(sets, "load", partial(sets.load, keep=False))
    said = []
    for task in PEERS["PARTS"][part](place):
        rows = PEERS["measured"](task, 1, Store(tmp_path / "peers.jsonl", False), said.append)
        assert len(rows) + sum("is not installed" in line for line in said) >= len(task.solvers)
        for _, name, *times, gap in rows:
            if name != "sparsco path":  # the one pass is not exact
                assert len(times) == len(PEERS["LEVELS"]) and "–" not in times and float(gap) < 1e-6, (name, times)
    assert "| sparsco p" in PEERS["table"](rows)


def test_the_quickest_setting_that_reaches_a_level_is_taken():
    tried = [
        {"setting": 1.0, "cpu": 1.0, "objectives": [1.2, 2.0]},
        {"setting": 0.1, "cpu": 3.0, "objectives": [1.0, 2.0]},
        {"setting": 0.01, "cpu": 2.0, "objectives": [1.001, 2.0]},
    ]
    least = np.array([1.0, 2.0])
    assert [PEERS["cheapest"](tried, least, level) for level in (0.3, 0.01, 1e-4)] == [1.0, 0.01, 0.1]
    assert PEERS["cheapest"](tried[:1], least, 0.1) is None
