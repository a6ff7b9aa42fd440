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


@pytest.mark.long
def test_the_tutorial_runs_as_it_stands(tmp_path):
    blocks = re.findall(r"```(sh|text)\n(.*?)```", (REPOSITORY / "docs/tutorial.md").read_text(), re.DOTALL)
    folder = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path / "c")}
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    here = tmp_path / "tutorial"
    here.mkdir()
    outputs: list[str] = []
    errors: list[float] = []
    for kind, text in blocks:
        if kind == "sh":
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", text], cwd=here, env=environment, text=True, capture_output=True,
            )  # fmt: skip
            assert done.returncode == 0, f"{text}\n{done.stderr}"
            outputs = (done.stderr + done.stdout).splitlines()
            errors += [float(found) for found in re.findall(r"error ([\d.]+)%", done.stderr + done.stdout)]
        else:
            assert [shape(line) for line in text.splitlines()] == [shape(line) for line in outputs], "\n".join(outputs)
    assert len(errors) >= 4 and max(errors) < 5.0
    assert "<svg" in (here / "compared.html").read_text()
