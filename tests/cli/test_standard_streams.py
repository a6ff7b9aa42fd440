"""Commands whose standard streams are closed, full or no longer read."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(shutil.which("sh") is None, reason="closes streams with a shell")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with 300 rows, ``x.svm``, and a model of them, ``x.model``."""
    folder = tmp_path_factory.mktemp("streams")
    X = np.random.default_rng(0).normal(size=(300, 3)).round(4)
    rows = [f"{1 if row[0] > 0 else -1} " + " ".join(f"{j}:{x}" for j, x in enumerate(row, 1)) for row in X]
    (folder / "x.svm").write_text("\n".join(rows) + "\n")
    assert sparsco("train x.svm -m x.model --alpha 0.1 --quiet", folder).returncode == 0
    return folder


def sparsco(command, folder, streams=""):
    """Run a command in a shell that closes or redirects streams."""
    line = f'exec "{sys.executable}" -m sparsco {command} {streams}'
    return subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("command", ["predict x.model x.svm", "export x.model --to sql", "--version"])
def test_closed_output_is_an_error_with_a_sentence(command, folder):
    ended = sparsco(command, folder, ">&-")
    assert (ended.returncode, ended.stderr) == (3, b"sparsco: standard output: Bad file descriptor\n")


def test_closed_output_does_not_matter_to_a_command_that_prints_nothing(folder):
    ended = sparsco("predict x.model x.svm -o closed.txt", folder, ">&-")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert (folder / "closed.txt").read_bytes() == sparsco("predict x.model x.svm", folder).stdout


@pytest.mark.parametrize("command", ["predict x.model -", "train - -m none.model"])
def test_closed_input_is_an_error_with_a_sentence(command, folder):
    ended = sparsco(command, folder, "<&-")
    assert (ended.returncode, ended.stderr) == (3, b"sparsco: standard input: Bad file descriptor\n")


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full"])
def test_messages_that_cannot_be_written_change_nothing(streams, folder):
    if "/dev/full" in streams and not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    said = sparsco("train x.svm -m other.model --alpha 0.1", folder, streams)
    assert said.returncode == 0 and b"other.model" in said.stdout, said
    assert (folder / "other.model").exists()
    (folder / "other.model").unlink()
    assert sparsco("export x.model --to sql -o x.sql", folder, streams).returncode == 0
    assert sparsco("predict no.model x.svm", folder, streams).returncode == 2


def test_a_reader_of_messages_that_has_ended_does_not_end_a_command(folder):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        line = [sys.executable, "-m", "sparsco", *"path x.svm --choose 2 -m path.model --report path.html".split()]
        ended = subprocess.run(line, cwd=folder, stdout=subprocess.PIPE, stderr=writing)
    finally:
        os.close(writing)
    assert ended.returncode == 0 and (folder / "path.model").exists() and (folder / "path.html").exists()
