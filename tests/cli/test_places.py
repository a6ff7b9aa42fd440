"""Places where no file can be: links in a loop, and folders that take none."""

import os
import shutil
from pathlib import Path

import pytest

from sparsco.cli import main
from sparsco.util.atomic_files import replacing

KEPT = Path(__file__).parents[1] / "data" / "model.sparsco"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with rows, ``x.svm``, a model, ``m``, and two links in a loop, ``loop`` and ``other``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.svm").write_text("1 1:1\n-1 2:1\n" * 30)
    shutil.copy(KEPT, tmp_path / "m")
    os.symlink("loop", "other")
    os.symlink("other", "loop")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "train loop",
        "train x.svm --test loop",
        "train x.svm --update loop",
        "train x.svm -m loop",
        "train x.svm -m loop/m",
        "train x.svm --html loop",
        "path x.svm -m loop",
        "compare x.svm --report loop",
        "predict loop x.svm",
        "predict m x.svm -o loop",
        "evaluate m loop",
        "inspect m --html loop",
        "export m --to c -o loop",
        "convert x.svm loop",
        "bench --quick --json loop",
        "reproduce aaai-table-1 --report loop",
    ],
)
def test_links_in_a_loop_are_a_file_that_cannot_be_read_or_written(command, here, capsys):
    assert main(command.split()) == 3
    assert "Too many levels of symbolic links" in capsys.readouterr().err
    assert os.path.islink("loop") and os.path.islink("other")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="writes to /proc")
@pytest.mark.parametrize(
    "command",
    [
        "train bad.svm -m /proc/m",
        "train bad.svm --html /proc/m",
        "train bad.svm --follow -m /proc/m",
        "path bad.svm --report /proc/m",
        "predict m bad.svm -o /proc/m",
        "inspect m --html /proc/m",
        "convert x.svm /proc/m",
    ],
)
def test_a_folder_that_takes_no_file_is_named_before_the_work(command, here, capsys):
    (here / "bad.svm").write_text("1 one:1\n")
    assert main(command.split()) == 3
    assert capsys.readouterr().err == "sparsco: /proc: this folder cannot be written to\n"
    assert sorted(os.listdir(here)) == ["bad.svm", "loop", "m", "other", "x.svm"]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="writes to /proc")
def test_in_python_such_a_folder_is_named_too():
    with pytest.raises(PermissionError, match="this folder cannot be written to: '/proc'"), replacing("/proc/m"):
        pass
