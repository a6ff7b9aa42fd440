"""Problems besides single weights: every installed solver reaches the same optimum, so strengths mean the same."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

from sparsco import cli
from sparsco.bench import sets
from sparsco.bench.kept import Kept, version_of
from sparsco.bench.problems import definitions, measuring, others
from sparsco.util.result_store import Store

INEXACT = {("path", "sparsco path"): 1.0, ("classes", "adelie"): 1e-4}
"""The gaps of solvers that are not exact: one pass, and adelie's softmax, which ends at about 1e-6."""
PACKAGES = {package for makers in others.MAKERS.values() for package, _ in makers}


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("path", "dense-300x10"),  # one row is held out: with few rows and many features that matters
        *((name, place) for name in ("group", "regression") for place in ("dense-300x10", "rcv1-200x500")),
        ("classes", "dense-300x10"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_every_solver_reaches_the_optimum(name, place, tmp_path, monkeypatch):
    monkeypatch.setattr(sets, "load", partial(sets.load, keep=False))
    there = [package for package in PACKAGES if version_of(package)]
    kept = Kept(Store(tmp_path / "ours.jsonl", False), Store(tmp_path / "others.jsonl", False))
    left_out = {}
    lines = measuring.lines_of(name, place, there, 1, kept, lambda line: None, left_out)
    assert not left_out
    for task in definitions.PROBLEMS[name](place):
        solvers = {solver for _, solver in measuring.makers_of(task.form, there)}
        assert {line["solver"] for line in lines if line["problem"] == task.title} == solvers
    for line in lines:
        least = INEXACT.get((name, line["solver"]), 1e-6)
        assert set(line["ms"]) == {str(level) for level in measuring.LEVELS} and line["gap"] < least, line
        assert all(ms for level, ms in line["ms"].items() if float(level) >= least), line


def test_real_sets_that_are_missing_are_named(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARSCO_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    said, left_out = [], {}
    assert measuring.lines_of("regression", "cpusmall", [], 1, None, said.append, left_out) == []
    assert said == ["left out: the files of cpusmall are missing"] and list(left_out) == ["cpusmall"]


def test_a_solver_that_refuses_a_problem_is_named(tmp_path, monkeypatch):
    def refuse(task):
        raise ValueError("some package takes too long with 10 features")

    monkeypatch.setattr(sets, "load", partial(sets.load, keep=False))
    monkeypatch.setitem(others.MAKERS, "group", {("numpy", "slow"): refuse})
    kept = Kept(Store(tmp_path / "ours.jsonl", False), Store(tmp_path / "others.jsonl", False))
    said, left_out = [], {}
    lines = measuring.lines_of("group", "dense-300x10", ["numpy"], 1, kept, said.append, left_out)
    assert [line["solver"] for line in lines] == ["sparsco polish"]
    assert "left out: some package takes too long with 10 features" in said and len(left_out) == 1


def test_the_quickest_setting_that_reaches_a_level_is_taken():
    tried = [
        {"setting": 1.0, "cpu": 1.0, "objectives": [1.2, 2.0]},
        {"setting": 0.1, "cpu": 3.0, "objectives": [1.0, 2.0]},
        {"setting": 0.01, "cpu": 2.0, "objectives": [1.001, 2.0]},
    ]
    least = np.array([1.0, 2.0])
    assert [measuring.cheapest(tried, least, level) for level in (0.3, 0.01, 1e-4)] == [1.0, 0.01, 0.1]
    assert measuring.cheapest(tried[:1], least, 0.1) is None


@pytest.mark.filterwarnings("ignore")
def test_the_command_measures_problems_and_shows_them_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    written = tmp_path / "b.json"
    wanted = ["--problems", "group", "regression", "--sets", "dense-200x5", "--rounds", "1", "--methods", "sparsco"]
    assert cli.main(["bench", *wanted, "--json", str(written)]) == 0
    shown = capsys.readouterr().out
    assert "| dense-200x5, groups of 5 | sparsco polish |" in shown and "dense-200x5, least squares" in shown
    results = json.loads(written.read_text())
    assert [line["part"] for line in results["lines"]] == ["group", "regression", "regression"]
    assert results["problems"] == [] and results["scaling"] == []
    page = tmp_path / "b.html"
    assert cli.main(["bench", "--from", str(written), str(written), "--report", str(page)]) == 0
    assert capsys.readouterr().out.count("groups of 5 |") == 2 and "least squares" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--problems", "path", "--sets", "rcv2-20k"], "there is no set 'rcv2-20k'"),
        (["--problems", "path", "--shares", "0.1"], "--shares is for --problems single only"),
        (["--problems", "path", "--from", "b.json"], "leave --problems out"),
        (["--problems", "path", "--scale", "ctr-1b"], "leave --problems out"),
    ],
)
def test_bad_arguments(arguments, part, capsys):
    assert cli.main(["bench", *arguments]) == 2
    said = capsys.readouterr().err
    assert part in said and said.count("\n") == 1
