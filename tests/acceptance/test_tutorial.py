"""The pages of commands run as they stand, and their output is as they show it, but for the numbers."""

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


def run_page(name: str, folder: Path) -> list[tuple[str, str]]:
    """Run the commands of a page in order, compare the output that it shows, and return commands and outputs."""
    blocks = re.findall(r"```(sh|text)\n(.*?)```", (REPOSITORY / "docs" / name).read_text(), re.DOTALL)
    programs = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(folder / "c")}
    (folder / "examples").symlink_to(REPOSITORY / "examples")
    here = folder / "page"
    here.mkdir()
    ran: list[tuple[str, str]] = []
    for kind, text in blocks:
        if kind == "sh":
            command = ["bash", "-euo", "pipefail", "-c", text]
            done = subprocess.run(command, cwd=here, env=environment, text=True, capture_output=True)
            assert done.returncode == 0, f"{text}\n{done.stderr}"
            ran.append((text, done.stderr + done.stdout))
        else:
            outputs = ran[-1][1].splitlines()
            assert [shape(line) for line in text.splitlines()] == [shape(line) for line in outputs], "\n".join(outputs)
            for line, output in zip(text.splitlines(), outputs, strict=True):
                assert numbers(output) == pytest.approx(numbers(line), rel=0.05), output
    assert ran
    return ran


@pytest.mark.parametrize("page", ["start.md", "faq.md"])
def test_the_first_page_and_that_of_questions_run_as_they_stand(page, tmp_path):
    run_page(page, tmp_path)


@pytest.mark.long
def test_the_page_of_growing_logs_runs_as_it_stands(tmp_path):
    (_, _), (_, figures) = run_page("follow.md", tmp_path)
    assert "5,000 rows" in figures


@pytest.mark.long
def test_the_tutorial_runs_as_it_stands(tmp_path):
    judged: dict[str, set[str]] = {}
    for command, output in run_page("tutorial.md", tmp_path):
        for model in re.findall(r"(\w+)\.model .*test\.vw|inspect (\w+)\.model", command):
            judged.setdefault("".join(model), set()).update(re.findall(r"1,000 rows, (error .*)", output))
    # train, inspect and evaluate say the same of one model; 30% of the messages are spam
    assert {name: len(figures) for name, figures in judged.items()} == {"spam": 1, "small": 1}
    assert all(float(re.match(r"error ([\d.]+)%", *figures)[1]) < 5.0 for figures in judged.values())
    assert "<svg" in (tmp_path / "page" / "compared.html").read_text()
