"""Ctrl-C and SIGTERM, wherever they come."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from sparsco import cli
from sparsco.data import row_sums
from sparsco.jit.dispatch import Kernel

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that send signals")


class Moments:
    """A kernel that returns two arrays, and rows that keep it busy for tens of milliseconds."""

    n, d = 20_000, 60

    def __init__(self):
        rng = np.random.default_rng(0)
        self.rows = np.arange(self.n + 1) * self.d, np.tile(np.arange(self.d), self.n), rng.normal(size=self.n * self.d)
        self.rows = self.rows[0].astype(np.int64), self.rows[1].astype(np.int32), self.rows[2]

    def __call__(self):
        return row_sums.moments(*self.rows, np.ones(self.n), np.ones(self.n), self.d)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, TimeoutError])
def test_what_a_handler_raises_in_a_kernel_comes_out_of_it(kind):
    def handle(*_):
        raise kind("from the handler")

    moments = Moments()
    moments()
    before = signal.signal(signal.SIGALRM, handle)
    try:
        for _ in range(3):
            with pytest.raises(kind, match="from the handler"):
                signal.setitimer(signal.ITIMER_REAL, 0.003)
                while True:
                    moments()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def test_an_error_of_the_system_itself_stays(monkeypatch):
    def broken(*_):
        raise SystemError("a defect")

    kernel = Kernel(row_sums.moments.py_func, allocates=True)
    monkeypatch.setattr(kernel, "cached", broken, raising=False)
    with pytest.raises(SystemError, match="a defect"):
        kernel(1.0)


@pytest.mark.parametrize(("number", "words"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")])
def test_whatever_a_library_makes_of_it_the_code_is_the_signals(number, words, monkeypatch, capsys):
    monkeypatch.setattr(cli, "_asked", [number])

    def interrupted(_):
        raise ImportError("initialization failed")

    monkeypatch.setattr(cli.inspect, "run", interrupted)
    assert cli.main(["inspect", "m"]) == 128 + number
    assert capsys.readouterr().err == f"sparsco: {words}\n"


def test_an_exception_that_python_ignores_is_raised_again(monkeypatch):
    monkeypatch.setattr(cli, "_asked", [signal.SIGTERM])
    before = signal.getsignal(signal.SIGALRM)
    try:
        with pytest.raises(KeyboardInterrupt):
            cli._end_again(SimpleNamespace(exc_value=cli._EndedError()))
            time.sleep(5.0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert cli._asked == [signal.SIGTERM] * 2


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="looks at /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_while_modules_are_loaded(number, code, tmp_path):
    (tmp_path / "x.svm").write_text("1 1:1\n-1 2:1\n" * 500)
    process = subprocess.Popen(
        [sys.executable, "-m", "sparsco", "train", "x.svm", "--quiet"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    with process.stderr:
        while "llvmlite" not in open(f"/proc/{process.pid}/maps").read():
            time.sleep(0.005)
        process.send_signal(number)
        said = process.stderr.read()
        assert process.wait() == code and "Traceback" not in said, said
    assert os.listdir(tmp_path) == ["x.svm"]
