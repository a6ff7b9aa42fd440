"""Fits over partitions that are cut off between two rounds, and go on to the same bits."""

import os
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from sparsco import SparseClassifier, SparsePath, load
from sparsco.cli import main
from sparsco.datasets.generators import text_like
from sparsco.distributed import fit, mixing
from sparsco.training.checkpoints import Checkpoints, ResumeError
from support import LONG

N, D, ROUND = 3000, 120, 100
ROUNDS = 5
"""The number of rounds of a pass: 100, 200, 400, 800 and the rest of 1600 rows, of the longer file."""


@pytest.fixture(scope="module")
def rows():
    return text_like(N, D, 12, 30, 12.0, np.random.default_rng(0))


@pytest.fixture(scope="module")
def files(rows, tmp_path_factory):
    folder, (X, y), paths = tmp_path_factory.mktemp("parts"), rows, []
    for k, (a, b) in enumerate(((0, 700), (700, 2500), (2500, N))):
        lines = []
        for row, label in zip(X[a:b], y[a:b], strict=True):
            lines.append(
                f"{label} "
                + " ".join(f"{j}:{x!r}" for j, x in sorted(zip(row.indices, row.data.tolist(), strict=True)))
            )
        paths.append(folder / f"part-{k}.svm")
        paths[-1].write_text("\n".join(lines) + "\n")
    return [str(path) for path in paths]


def classifier(**settings):
    return SparseClassifier(**{"alpha": 2e-3, "random_state": 0} | settings)


def assert_same(a, b):
    assert np.array_equal(a.coef_, b.coef_) and np.array_equal(a.intercept_, b.intercept_)
    assert a.report_["distributed"] == b.report_["distributed"] and a.n_iter_ == b.n_iter_


def failing_at(monkeypatch, name, number):
    """Let the task ``name`` of a round, or of phase two, fail as one whose cluster is lost."""
    plain, calls = getattr(mixing, name), []

    def task(items, *rest):
        calls.append(1)
        if len(calls) == number:
            raise RuntimeError("the Dask scheduler or the client was closed")
        yield from plain(items, *rest)

    monkeypatch.setattr(mixing, name, task)


@pytest.mark.parametrize("optimizer", ["nftrl", "fobos"])
def test_a_fit_that_is_cut_off_goes_on_to_the_same_bits(files, tmp_path, optimizer):
    """After every round of two passes, and in phase two."""
    model = {"optimizer": optimizer, "random_state": 0}
    whole = fit(classifier(**model), files, round_rows=ROUND, passes=2)
    rounds = len(whole.report_["distributed"]["rounds"])
    assert rounds > ROUNDS
    for number in range(2, rounds + 2):
        kept = Checkpoints(tmp_path / f"{number}.checkpoint")  # none is due: one is written when the cluster is lost
        name = "learn" if number <= rounds else "gradients"
        with pytest.MonkeyPatch.context() as patch:
            failing_at(patch, name, number if name == "learn" else 1)
            with pytest.raises(RuntimeError, match="was closed"):
                fit(classifier(**model), files, round_rows=ROUND, passes=2, checkpoints=kept)
        assert len(kept.read()["progress"].rounds) == number - 1
        again = fit(classifier(**model), files, round_rows=ROUND, passes=2, checkpoints=kept, resume=True)
        assert_same(again, whole)


def test_checkpoints_are_written_when_they_are_due(files, tmp_path, monkeypatch):
    written, plain = [], Checkpoints.write
    monkeypatch.setattr(
        Checkpoints, "write", lambda kept, content: (written.append(content["progress"].learned), plain(kept, content))
    )
    kept = Checkpoints(tmp_path / "checkpoint", 700, None)
    model = fit(classifier(), files, round_rows=ROUND, passes=1, checkpoints=kept)
    learned = np.cumsum([each["rows"] for each in model.report_["distributed"]["rounds"]])
    assert learned.tolist()[:4] == [300, 900, 1900, 2700] and written == [900, 1900, 2700]
    assert_same(fit(classifier(), files, round_rows=ROUND, passes=1, checkpoints=kept, resume=True), model)
    fit(classifier(), files, round_rows=ROUND, passes=1, checkpoints=Checkpoints(tmp_path / "none"))
    assert not (tmp_path / "none").exists()  # a fit of less than a minute


_KILLED = """
import os, signal, sys
from pathlib import Path
from sparsco import SparseClassifier
from sparsco.distributed import fit, progress
from sparsco.training.checkpoints import Checkpoints

if __name__ == "__main__":
    client, path, *files = sys.argv[1:]
    plain = progress.Kept.take

    def take(kept, reached, seeds):
        plain(kept, reached, seeds)
        if len(reached.rounds) == 4:
            os.kill(os.getpid(), signal.SIGKILL)

    progress.Kept.take = take
    model = SparseClassifier(alpha=2e-3, random_state=0)
    fit(model, files, client or None, round_rows=100, passes=1, checkpoints=Checkpoints(Path(path), 1000, None))
"""


@pytest.mark.parametrize("client", ["", "local:2"] if LONG else [""])
def test_a_coordinator_that_is_killed(files, tmp_path, client):
    """It dies after round 4, and the checkpoint is that of round 3; any workers go on with it."""
    script, kept = tmp_path / "killed.py", Checkpoints(tmp_path / "checkpoint")
    script.write_text(_KILLED)
    done = subprocess.run([sys.executable, str(script), client, str(kept.path), *files], timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert len(kept.read()["progress"].rounds) == 3
    whole = fit(classifier(), files, round_rows=ROUND, passes=1)
    for where in ("local:1", None) if client else (None,):
        model = fit(classifier(), files, where, round_rows=ROUND, passes=1, checkpoints=kept, resume=True)
        assert_same(model, whole)


def test_a_checkpoint_of_another_fit_is_refused(files, rows, tmp_path, monkeypatch):
    copies = [shutil.copy2(path, tmp_path) for path in files]
    kept = Checkpoints(tmp_path / "checkpoint", 1)
    settings = {"round_rows": ROUND, "passes": 1, "checkpoints": kept}
    with pytest.warns(UserWarning, match="there is no checkpoint .* training starts from the beginning"):
        fit(classifier(), copies, resume=True, **settings)
    for model, other in (
        (classifier(alpha=1e-3), {}),
        (classifier(), {"round_rows": 50}),
        (classifier(), {"passes": 2}),
        (classifier(), {"partitions": 2}),
        (classifier(), {"classes": [-1, 1]}),
    ):
        with pytest.raises(ResumeError, match="belongs to a run with other settings: repeat those, or do not resume"):
            fit(model, copies, resume=True, **settings | other)
    with open(copies[1], "a") as file:
        file.write("1 1:1\n")
    with pytest.raises(ResumeError, match="the data changed since .*checkpoint was written"):
        fit(classifier(), copies, resume=True, **settings)
    X, y = rows
    fit(classifier(), (X, y), **settings)
    fit(classifier(), (X.copy(), y.tolist()), resume=True, **settings)
    with pytest.raises(ResumeError, match="the data changed"):
        fit(classifier(), (X, -y), resume=True, **settings)
    with pytest.raises(ValueError, match="resume=True needs checkpoints="):
        fit(classifier(), copies, resume=True)
    with pytest.raises(ValueError, match="checkpoints= cannot be used with a SparsePath"):
        fit(SparsePath(classifier()), copies, checkpoints=kept)
    delayed = pytest.importorskip("dask").delayed
    with pytest.raises(ValueError, match="changes of other data cannot be detected"):
        fit(classifier(), delayed((X, y)), checkpoints=kept)


def test_a_random_seed_is_kept(files, tmp_path, monkeypatch):
    kept, seeds = Checkpoints(tmp_path / "checkpoint", 1), []
    plain = mixing.Mixing.phase_two
    monkeypatch.setattr(
        mixing.Mixing, "phase_two", lambda run: (seeds.append([each.seed for each in run.runs]), plain(run))[1]
    )
    for resume in (False, True):
        fit(classifier(random_state=None), files, passes=1, checkpoints=kept, resume=resume)
    fit(classifier(random_state=None), files, passes=1)
    assert seeds[0] == seeds[1] != seeds[2]


def test_the_command_goes_on(files, tmp_path, monkeypatch, capsys):
    distributed = pytest.importorskip("distributed")
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals go to the main thread")
    plain = mixing.learn

    def asked(items, *rest):
        if items[0][1].row > 100:
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait(0.6)
        return plain(items, *rest)

    local = distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None)
    with local as cluster, distributed.Client(cluster) as client:
        command = ["train", *files, "--alpha", "2e-3", "--dask", client.scheduler.address, "--quiet"]
        assert main([*command, "-m", str(tmp_path / "whole")]) == 0
        out = tmp_path / "out"
        with monkeypatch.context() as patch:
            patch.setattr(mixing, "learn", asked)
            assert main([*command, "-m", str(out)]) == 143
        kept = f"{out}.checkpoint"
        assert f"stopped before the model was learned; {kept} is kept, --resume continues." in capsys.readouterr().err
        assert main([*command, "-m", str(out)]) == 2
        assert "belongs to an interrupted run: --resume continues it" in capsys.readouterr().err
        assert main([*command, "-m", str(out), "--resume", "--seed", "3"]) == 2
        assert "belongs to a run with other settings" in capsys.readouterr().err
        assert main([*command, "-m", str(out), "--resume"]) == 0
    assert np.array_equal(load(out).coef_, load(tmp_path / "whole").coef_)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whole"]
