"""The script that prints the table of the README."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys

import pytest

from sparsco.cli import demo
from support import REPOSITORY

SCRIPT = REPOSITORY / "benchmarks" / "readme.py"


def test_without_data_it_ends_with_a_sentence_that_says_what_to_set(tmp_path):
    pytest.importorskip("matplotlib")
    environment = {key: value for key, value in os.environ.items() if key != "SPARSCO_DATA"}
    environment |= {"XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True)
    assert done.returncode and not done.stdout
    assert re.fullmatch(r"sms-spam needs .*: set SPARSCO_DATA to the folder that holds sms-spam; .*\n", done.stderr)


def test_the_readme_has_the_lines_that_it_prints():
    """Those of the same models in the same order; figures need real data, and minutes."""
    pytest.importorskip("matplotlib")
    script = runpy.run_path(str(SCRIPT))
    table = re.search(r"^\| data \| model .*?\n\n", (REPOSITORY / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    shown = [re.split(r" *\| *", line) for line in table[0].strip().splitlines()[2:]]
    printed = []
    for name, called in script["SETS"].items():
        results = [demo.Result(each.name, 0.0, 1, 0.5, 0.0, None) for each in script["contenders"](name)]
        printed += [re.split(r" *\| *", line) for line in script["lines"](called, results)]
    assert [row[:3] for row in shown] == [row[:3] for row in printed]
    assert [row[5] == "–" for row in shown] == [row[5] == "–" for row in printed]
