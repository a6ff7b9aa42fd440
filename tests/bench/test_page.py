"""The page of benchmarks is what its script writes from the figures that the site has."""

from __future__ import annotations

import json
import runpy

import pytest

from sparsco.bench import charts
from support import REPOSITORY

PAGE = runpy.run_path(str(REPOSITORY / "benchmarks" / "page.py"))


@pytest.fixture(scope="module")
def results():
    return json.loads((REPOSITORY / "docs/_static/bench/bench.json").read_text())


def test_the_page_has_the_figures_of_its_file(results):
    pytest.importorskip("matplotlib")
    drawn = {name: caption for name, _, caption in charts.every(results)}
    assert PAGE["page"](results, drawn) == (REPOSITORY / "docs/benchmarks.md").read_text()
    assert {f"{name}.svg" for name in drawn} == {path.name for path in PAGE["FIGURES"].glob("*.svg")}


def test_a_package_that_is_faster_is_named_with_its_set(results):
    def line(name, seconds):
        levels = {"0.01": {"cpu": {"min": seconds}}}
        return {"method": name, "levels": levels, "pass": None, "rows": None}

    def problem(place, ours, theirs):
        lines = [line("sparsco polish", ours), line("snapml", theirs)]
        return {"set": place, "lam": 0.1, "kind": "L1", "methods": lines}

    made = {
        "problems": [problem("a", 2.0, 1.0), problem("a", 3.0, 1.0), problem("b", 1.0, 4.0), problem("c", 1.05, 1.0)]
    }
    assert PAGE["losses"](made, 0.01).endswith("to 1% on a (snapml, 3 times).")
    assert PAGE["losses"](made | {"problems": made["problems"][2:]}, 0.01).endswith("to 1% on no set.")
    assert "| snapml | 1 of 2 |" in "\n".join(PAGE["wins"](made | {"problems": made["problems"][1:3]}))
