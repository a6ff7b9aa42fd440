"""The script of `make bench-bars`: every bar has a verdict, from the benchmark's own measurements."""

from __future__ import annotations

import runpy
import sys

import pytest

from support import REPOSITORY


@pytest.fixture(scope="module")
def bars():
    folder = str(REPOSITORY / "benchmarks")
    sys.path.insert(0, folder)
    try:
        return runpy.run_path(f"{folder}/bars.py")
    finally:
        sys.path.remove(folder)


def test_a_bar_holds_if_ours_is_small_enough(bars):
    Bar = bars["Bar"]
    assert Bar("", 1.09, "a", 1.0, 1.1).holds and not Bar("", 1.11, "a", 1.0, 1.1).holds
    assert Bar("", 5.0, "none", None, 1.1).holds  # no peer got there
    assert not Bar("", None, "a", 1.0, 1.1).holds and not Bar("", None, "none", None, 1.1).holds
    assert Bar("", 0.0, "the limit", 0.0, 1.0).holds and not Bar("", 1.0, "the limit", 0.0, 1.0).holds
    assert Bar("x", 2.0, "a", 1.0, 1.1).row() == ("x", "2 ms", "a", "1 ms", "2.00", "1.1", "NO")
    assert Bar("x", None, "none", None, 3.0).row() == ("x", "–", "none", "–", "–", "3", "NO")


def lines(**ms):
    return {
        name: {
            "place": "p",
            "package": "sparsco" if name.startswith("sparsco") else name,
            "ms": {str(level): taken for level, taken in times.items()},
        }
        for name, times in ms.items()
    }


class Kept:
    """A run whose measurements are given."""

    quick = False

    def __init__(self, found):
        self.found = found

    def beside_adelie(self, name):
        return self.found


def test_paths_and_groups_are_judged_at_their_levels(bars):
    path = {"sparsco path": {1e-3: 5.0, 1e-6: None}, "sparsco path, polish": {1e-3: 9.0, 1e-6: 12.0}}
    found = {
        "p, 32 strengths": lines(**path, adelie={1e-3: 6.0, 1e-6: 10.0}),
        "p, the smallest of 32 strengths": lines(**{"sparsco polish": {1e-3: 1.0, 1e-6: 4.0}}),
    }
    assert [(bar.ours, bar.theirs, bar.most, bar.holds) for bar in bars["path_bars"](Kept(found))] == [
        (5.0, 6.0, 1.0, True),
        (5.0, 1.0, 3.0, False),
        (12.0, 10.0, 1.0, False),
        (12.0, 4.0, 3.0, True),
    ]
    each = lines(**{"sparsco polish": {1e-2: 2.0, 1e-3: 2.0}}, adelie={1e-2: 3.0, 1e-3: 7.0})
    judged = bars["group_bars"](Kept({"dense-9k, groups": each, "rcv1-9k, groups": each}))
    assert [bar.holds for bar in judged] == [True, True, False, True]


def test_ours_is_the_cheaper_of_a_polish_and_a_pass(bars):
    def line(method, near, nearer):
        levels = {"0.01": near, "0.001": nearer}
        return {"method": method, "levels": {k: {"cpu": {"min": v}} for k, v in levels.items() if v is not None}}

    class Measured(Kept):
        def measured(self, places, parts, methods):
            return [{"set": "p", "lam": 0.5, "methods": self.found}]

    found = [line("sparsco polish", 0.002, 0.005), line("sparsco default", 0.003, 0.004), line("snapml", 0.0035, None)]
    judged = list(bars["level_bars"](Measured(found)))
    assert [bar.what for bar in judged] == ["p, lam 0.5, to 1%", "p, lam 0.5, to 0.1%, default pass"]
    assert [(bar.ours, bar.peer, bar.theirs) for bar in judged] == [(2.0, "snapml", 3.5), (4.0, "none", None)]


@pytest.mark.filterwarnings("ignore")
def test_a_run_measures_and_a_second_one_finds_all(bars, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    options = ["bars.py", "passes", "groups", "--quick", "--rounds", "1", "--sets", "rcv1-2kx5k", "dense-1kx50"]
    monkeypatch.setattr(sys, "argv", options)
    assert bars["main"]() == 0
    first = capsys.readouterr().out
    assert "| rcv1-2kx5k, lam " in first and "one pass" in first and " bars hold.\n" in first
    (others,) = tmp_path.rglob("bench-quick-others.*.jsonl")
    before = others.read_bytes()
    assert bars["main"]() == 0 and capsys.readouterr().out == first
    monkeypatch.setattr(sys, "argv", [*options, "--again", "sparsco"])
    assert bars["main"]() == 0 and others.read_bytes() == before and capsys.readouterr().out != first
