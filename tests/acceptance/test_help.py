"""The worked examples in every command's --help run as they stand."""

from __future__ import annotations

import re

import pytest

from sparsco import cli
from support.page_files import make_files
from support.pages import Session

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


@pytest.mark.long
def test_the_examples_of_every_command_run(tmp_path, capsys):
    session = Session(tmp_path)
    found = {command: examples(command, capsys) for command in commands()}
    make_files(session.folder, "\n".join(line for lines in found.values() for line in lines))
    for command in sorted(found, key=lambda name: name != "train"):  # whose model others use
        assert found[command], f"{command} has no worked example"
        for line in found[command]:
            if not any(part in line for part in LONG):
                assert session.run(line) == 0, f"{line}\n{session.output}"
