"""Progress is one line that is rewritten, at a terminal and in a notebook."""

import sys
from types import SimpleNamespace

import pytest

from sparsco.util import progress


class Cell:
    """The place of an output in a notebook."""

    def __init__(self):
        self.texts = []

    def display(self, content, raw, display_id):
        assert raw and display_id
        self.texts.append(content["text/plain"])
        return self

    def update(self, content, raw):
        self.texts.append(content["text/plain"])


@pytest.fixture
def cell(monkeypatch):
    """A notebook with one cell."""
    found, shell = Cell(), SimpleNamespace(config={"IPKernelApp": {}})
    display = SimpleNamespace(display=found.display)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell, display=display))
    return found


def test_a_notebook_has_one_line_below_its_cell(cell, capsys):
    bar = progress.Bar("reading")
    bar.show(1, 4)
    bar.shown = -1.0
    bar.show(4, 4)
    bar.close()
    assert [text.split(",")[0] for text in cell.texts] == [
        "reading [=======                       ]  25%",
        f"reading [{30 * '='}] 100%",
    ]
    assert capsys.readouterr() == ("", "")  # nothing in red below it


def test_a_python_prompt_is_no_notebook(monkeypatch):
    for shell in (None, SimpleNamespace(config={})):
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda shell=shell: shell))
        assert progress.notebook_display() is None


def test_a_terminal_line_is_overwritten_to_its_end(capsys, monkeypatch):
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    line = progress.Bar("reading")
    line.say("long text")
    line.say("text")
    line.close()
    assert capsys.readouterr().err == "\rlong text\x1b[K\rtext\x1b[K\n"
