"""The tutorial runs as it stands, and what it shows is what comes out, but for the numbers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import REPOSITORY


def shape(line: str) -> str:
    """A line without its numbers, which depend on the machine in the last digits."""
    return re.sub(r"\s+", " ", re.sub(r"-?\d[\d,.]*(e-?\d+)?", "#", line)).strip()


def numbers(line: str) -> list[float]:
    """The numbers of a line but for the version; none where it tells the speed."""
    found = re.findall(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?![\w.]*\w)", line)
    return [] if "rows/s" in line else [float(each.replace(",", "")) for each in found]


@pytest.mark.long
def test_the_tutorial_runs_as_it_stands(tmp_path):
    blocks = re.findall(r"```(sh|text)\n(.*?)```", (REPOSITORY / "docs/tutorial.md").read_text(), re.DOTALL)
    folder = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path / "c")}
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    here = tmp_path / "tutorial"
    here.mkdir()
    outputs: list[str] = []
    judged: dict[str, set[str]] = {}
    for kind, text in blocks:
        if kind == "sh":
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", text],
                cwd=here,
                env=environment,
                text=True,
                capture_output=True,
            )
            assert done.returncode == 0, f"{text}\n{done.stderr}"
            outputs = (done.stderr + done.stdout).splitlines()
            for model in re.findall(r"(\w+)\.model .*test\.vw|inspect (\w+)\.model", text):
                figures = re.findall(r"1,000 rows, (error .*)", done.stderr + done.stdout)
                judged.setdefault("".join(model), set()).update(figures)
        else:
            assert [shape(line) for line in text.splitlines()] == [shape(line) for line in outputs], "\n".join(outputs)
            for line, output in zip(text.splitlines(), outputs, strict=True):
                assert numbers(output) == pytest.approx(numbers(line), rel=0.05), output
    # train, inspect and evaluate say the same of one model; 30% of the messages are spam
    assert {name: len(figures) for name, figures in judged.items()} == {"spam": 1, "small": 1}
    assert all(float(re.match(r"error ([\d.]+)%", *figures)[1]) < 5.0 for figures in judged.values())
    assert "<svg" in (here / "compared.html").read_text()
