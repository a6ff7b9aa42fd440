"""The worked examples in every command's --help run as they stand."""

from __future__ import annotations

import gzip
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sparsco import cli

LONG = (
    "--trials 40",
    "all --quick",
    "download",
    "verify",
    "sparsco bench",
    "--dask",
    "--publish-every 5m",
    "tail -n +1 -F",
)
"""Minutes or for ever, or data or a cluster that is not here: these have tests of their own."""


def examples(command, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    block = text[text.index("example:\n") :].split("\n\n")[0]
    lines = [re.split(r"  +", line.strip())[0] for line in block.splitlines()[1:]]
    return [line for line in lines if line]


def commands():
    parser = cli._parser()
    return list(next(action for action in parser._actions if hasattr(action, "choices") and action.choices).choices)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the examples name."""
    here = tmp_path_factory.mktemp("examples")
    rng = np.random.default_rng(0)

    def rows(n):
        for _ in range(n):
            x = rng.normal(size=5).round(3)
            yield ("1" if x[0] > x[1] else "-1"), x

    for name in ("data.svm", "test.svm", "new.svm"):
        text = "".join(f"{y} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(x)) + "\n" for y, x in rows(1500))
        (here / name).write_text(text)
    (here / "data.svm.gz").write_bytes(gzip.compress((here / "data.svm").read_bytes()))
    (here / "logs").mkdir()
    for k in range(2):
        text = "".join(f"{y} |user u{x[0] > 0} |item i{x[1] > 0}\n" for y, x in rows(800))
        (here / "logs" / f"part-{k}.vw").write_text(text)
    text = "".join(f"{x[0] - x[1]:.3f},{abs(x[2]) + 1},{'ab'[int(x[3] > 0)]},{int(abs(x[4]))}\n" for _, x in rows(1500))
    (here / "table.csv").write_text("price,size,kind,count\n" + text)
    (here / "mail.txt").write_text("".join(f"{y}\tw{x[0] > x[1]} w{x[2] > 0}\n" for y, x in rows(1200)))
    (here / "groups.txt").write_text("kind=a\tboth\nsize both\n")
    return here


def run(line, folder):
    if not re.search(r"[|>'*]", line):
        back = os.getcwd()
        os.chdir(folder)
        try:
            return cli.main(shlex.split(line)[1:])
        finally:
            os.chdir(back)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(["bash", "-euo", "pipefail", "-c", line], cwd=folder, env=environment).returncode


@pytest.mark.long
def test_the_examples_of_every_command_run(folder, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    for command in sorted(commands(), key=lambda name: name != "train"):  # whose model others use
        lines = examples(command, capsys)
        assert lines, f"{command} has no worked example"
        for line in lines:
            if not any(part in line for part in LONG):
                assert run(line, folder) == 0, line
