"""Rows without labels, and labels that are not classes, are named with their file."""

import json

import pytest

from sparsco.cli import main


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with 3,000 rows of which none has a label, and some in which row 18 has none."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "none.vw").write_text("".join(f"| a:{k} b\n" for k in range(1, 3001)))
    lines = [f"{(-1) ** k} | a:{k} b\n" for k in range(1, 201)]
    (tmp_path / "whole.vw").write_text("".join(lines))
    lines[17] = "| a:1\n"
    (tmp_path / "some.vw").write_text("".join(lines))
    (tmp_path / "third.vw").write_text("".join(lines[:17] * 100) + "3 | a:1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("train none.vw", "none.vw, row 1 has no label: every row must have one."),
        ("train none.vw --passes 2", "none.vw, row 1 has no label: every row must have one."),
        ("train none.vw --no-shuffle", "none.vw, row 1 has no label: every row must have one."),
        ("path none.vw", "none.vw, row 1 has no label: every row must have one."),
        ("train some.vw", "some.vw, row 18 has no label: every row must have one."),
        ("train whole.vw some.vw", "whole.vw and 1 more, row 218 has no label: every row must have one."),
        ("train some.vw --follow --idle-exit 0", "some.vw, row 18 has no label: every row must have one."),
        ("train whole.vw -m m --alpha 0.1 --test some.vw", "some.vw, row 18 has no label: every row must have one."),
        ("train third.vw --no-shuffle", "third.vw, row 1701 has the label 3, which is not one of the classes"),
    ],
)
def test_a_row_without_a_label_is_the_first_one_of_its_file(command, says, here, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    assert main([*command.split(), "--quiet"]) == 2
    assert f"sparsco: {says}" in capsys.readouterr().err


def test_a_table_without_a_target_is_named(here, monkeypatch, capsys):
    pytest.importorskip("pyarrow")
    (here / "t.jsonl").write_text("".join(json.dumps({"a": k}) + "\n" for k in range(30)))
    assert main("train t.jsonl --target none --quiet".split()) == 2
    assert "t.jsonl, row 1 has no label: target= (--target) names their column" in capsys.readouterr().err
