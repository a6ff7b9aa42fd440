"""Files that many write at once, writers that are killed, disks that are full."""

import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sparsco import cli, load, save
from sparsco.streams import StreamError, convert, open_stream
from sparsco.streams.cache import Writer
from sparsco.training.checkpoints import Checkpoints
from sparsco.training.train import train
from sparsco.util import atomic_files

_SAVING = """
import sys, threading
from pathlib import Path
import numpy as np
from sparsco.training import archive

def save(k):
    x = np.random.default_rng(k).random(500)
    for i in range(56):
        path = Path(sys.argv[1]) / ("spam", "spam.v2")[i % 2]
        archive.write(path, "state", {"x": x, "sum": x.sum()})
        found = archive.read(path, "state")
        assert found["x"].sum() == found["sum"]
        done.append(path)

done = []
threads = [threading.Thread(target=save, args=(3 * int(sys.argv[2]) + k,)) for k in range(3)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
sys.exit(len(done) != 3 * 56)
"""


def test_500_saves_by_processes_and_threads_at_once(tmp_path):
    saving = [subprocess.Popen([sys.executable, "-c", _SAVING, tmp_path, str(k)]) for k in range(3)]
    assert [process.wait(timeout=120) for process in saving] == [0, 0, 0]
    assert sorted(os.listdir(tmp_path)) == ["spam", "spam.v2"]


def parts(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".part-")]


_HANGING = """
import sys, time
from sparsco.util.atomic_files import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"half"), file.flush()
    print("ready", flush=True)
    time.sleep(600)
"""


def test_what_a_killed_writer_left_is_removed_by_the_next_and_not_before(tmp_path):
    path = tmp_path / "f"
    process = subprocess.Popen([sys.executable, "-c", _HANGING, path], stdout=subprocess.PIPE)
    with process.stdout:
        process.stdout.readline()
        (name,) = parts(tmp_path)
        atomic_files.write_text(path, "whole")
        atomic_files.write_text(tmp_path / "f.v2", "another")
        assert parts(tmp_path) == [name] and path.read_text() == "whole"
        process.send_signal(signal.SIGKILL)
        process.wait()
    atomic_files.write_text(tmp_path / "f.v2", "another")
    assert parts(tmp_path) == [name]  # a part of f
    atomic_files.write_text(path, "whole again")
    assert sorted(os.listdir(tmp_path)) == ["f", "f.v2"] and path.read_text() == "whole again"


def test_a_part_that_is_removed_before_it_is_locked_is_begun_anew(tmp_path, monkeypatch):
    class Slow:
        def __getattr__(self, name):
            return getattr(before, name)

        def flock(self, handle, how):
            if not removed:  # another writer found it without a lock
                removed.extend(tmp_path.iterdir())
                removed[0].unlink()
            return before.flock(handle, how)

    before, removed = atomic_files.fcntl, []
    monkeypatch.setattr(atomic_files, "fcntl", Slow())
    atomic_files.write_text(tmp_path / "f", "whole")
    assert len(removed) == 1 and (tmp_path / "f").read_text() == "whole" and os.listdir(tmp_path) == ["f"]


def test_without_locks_parts_go_when_they_are_a_day_old(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_files, "fcntl", None)
    young, old, folder = (tmp_path / f".part-{k:016x}-f" for k in range(3))
    for part in (young, old, folder):
        part.mkdir() if part == folder else part.write_bytes(b"half")
    (folder / "rows").write_bytes(b"some")
    for path in (old, folder):
        os.utime(path, (1, 1))
    atomic_files.write_text(tmp_path / "f", "whole")
    assert sorted(os.listdir(tmp_path)) == sorted([young.name, folder.name, "f"])  # rows were written just now
    os.utime(folder / "rows", (1, 1))
    os.utime(folder, (1, 1))
    atomic_files.write_text(tmp_path / "f", "whole")
    assert sorted(os.listdir(tmp_path)) == sorted([young.name, "f"])
    (tmp_path / "x.svm").write_text(LINES)
    for _ in range(2):
        assert convert(tmp_path / "x.svm", tmp_path / "rows").manifest["rows"] == 3000
    assert sorted(os.listdir(tmp_path)) == sorted([young.name, "f", "rows", "x.svm"])


LINES = "".join(f"{1 if k % 7 < 3 else -1} {k % 7 + 1}:{k % 5 + 1} 9:1\n" for k in range(3000))


def test_caches_are_written_by_several_at_once(tmp_path, monkeypatch):
    """Whoever looks for other processes finds none, as in another container."""

    def nobody(*_):
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", nobody)
    (tmp_path / "x.svm").write_text(LINES)
    writers = [Writer(tmp_path / "rows") for _ in range(3)]
    assert len(parts(tmp_path)) == 3
    stream = open_stream(tmp_path / "x.svm")
    readers = []
    for writer in writers:
        for chunk in stream.chunks():
            writer.add(chunk)
        writer.finish(stream.identity(), stream)
        readers.append(open_stream(tmp_path / "rows"))
    assert sorted(os.listdir(tmp_path)) == ["rows", "x.svm"]
    for reader in readers:  # those whose folder was replaced read on
        assert sum(chunk.rows for chunk in reader.chunks()) == 3000
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")
    with pytest.raises(ValueError, match="mine exists and is not a cache of rows"):
        convert(tmp_path / "x.svm", tmp_path / "mine")
    assert (tmp_path / "mine" / "letter").read_text() == "dear"


def test_a_cache_that_is_cut_off_while_it_is_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sparsco.streams.cache.BLOCK_BYTES", 4000)
    (tmp_path / "x.svm").write_text(LINES)
    stream = convert(tmp_path / "x.svm", tmp_path / "rows", block_bytes=2000)
    assert len(stream.blocks) > 3
    chunks = stream.chunks()
    first = next(chunks)
    os.truncate(tmp_path / "rows" / "rows.bin", 100)
    assert first.data.sum() > 0.0  # which ended the process while blocks were mapped
    with pytest.raises(StreamError, match="rows was cut off while it was read: remove it"):
        list(chunks)


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_an_arrow_file_that_is_cut_off_while_it_is_read_is_an_error(kind, tmp_path):
    path, ones = tmp_path / "x.arrow", np.ones(20_000)
    table = pa.table({"y": ones, "a": ones})
    with pa.OSFile(str(path), "wb") as file, getattr(pa.ipc, f"new_{kind}")(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=2000)
    chunks = open_stream(path, target="y").chunks()
    next(chunks)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises((OSError, StreamError), match="xpected to be able to read"):
        list(chunks)


def test_a_file_that_another_writer_removes_meanwhile_is_no_error(tmp_path):
    place, ended = tmp_path / "m", threading.Event()

    def come_and_go():
        while not ended.is_set():
            place.write_bytes(b"")
            place.unlink(missing_ok=True)

    other = threading.Thread(target=come_and_go)
    other.start()
    try:
        for _ in range(5000):
            atomic_files.check_place(place)
    finally:
        ended.set()
        other.join()


def test_runs_with_one_name_all_end_with_the_model(tmp_path):
    (tmp_path / "x.svm").write_text(LINES)
    place, settings, done = tmp_path / "m", {"alpha": 0.01, "random_state": 0}, []

    def run():
        checkpoints = Checkpoints(tmp_path / "m.checkpoint", rows=100)
        trained = train(tmp_path / "x.svm", settings=settings, checkpoints=checkpoints)
        save(trained.model, place)
        checkpoints.remove()
        done.append(load(place).coef_.tobytes())

    threads = [threading.Thread(target=run) for _ in range(3)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert len(done) == 3 and len(set(done)) == 1
    assert sorted(os.listdir(tmp_path)) == ["m", "x.svm"]


def test_every_command_names_the_file_that_does_not_fit(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("x.svm").write_text(LINES)
    learn = ["train", "x.svm", "--quiet", "--alpha", "0.01", "-m"]
    assert cli.main([*learn, "good"]) == 0
    before = sorted(os.listdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for name, arguments in {
        "m": [*learn, "m"],
        "rows": ["convert", "x.svm", "rows", "--quiet"],
        "labels": ["predict", "good", "x.svm", "-o", "labels"],
        "page": ["inspect", "good", "--html", "page"],
    }.items():
        capsys.readouterr()
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # "File too large" in place of "No space left"
        try:
            code = cli.main(arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert (code, capsys.readouterr().err.splitlines()[-1]) == (3, f"sparsco: {tmp_path / name}: File too large")
        assert sorted(os.listdir()) == before


def test_standard_output_that_is_full_is_named(monkeypatch, capsys):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cli.inspect, "run", full)
    assert cli.main(["inspect", "m"]) == 3
    assert capsys.readouterr().err == "sparsco: standard output: No space left on device\n"
