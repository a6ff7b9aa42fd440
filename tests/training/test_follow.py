"""A log that grows: any growth, any pause and any kill give the same models."""

from __future__ import annotations

import errno
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import threading
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from sparsco import SparseClassifier, cli, follow, load, train
from sparsco.training import archive
from sparsco.training import follow as following
from sparsco.training.checkpoints import Checkpoints, ResumeError
from sparsco.training.results import StoppedError

ROWS = 2100
SETTINGS = {"alpha": 0.01, "random_state": 0}


def rows(n=ROWS, d=30, seed=0):
    """Return columns, values and labels of rows; the later ones have columns that the first ones lack."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=d) * (np.arange(d) < 5)
    for i in range(n):
        columns = np.sort(rng.choice(d - 10 + 10 * i // n, 6, replace=False))
        x = rng.normal(size=6).round(3)
        yield columns.tolist(), x.tolist(), 1 if float(x @ w[columns]) > 0.0 else -1


def as_libsvm(n=ROWS, **more):
    return "".join(
        f"{y}" + "".join(f" {j + 1}:{v}" for j, v in zip(js, x, strict=True)) + "\n" for js, x, y in rows(n, **more)
    )


def as_vw():
    return "".join(f"{y} | " + " ".join(f"w{j}:{v}" for j, v in zip(js, x, strict=True)) + "\n" for js, x, y in rows())


def as_csv():
    lines = [f'{y},{x[0]},"a{js[0]}\n""b",{x[1] if x[1] > -1 else ""}\n' for js, x, y in rows()]
    return "y,size,kind,more\n" + "".join(lines)


def as_jsonl():
    return "".join(json.dumps({"y": y, "size": x[0], "kind": f"a{js[0]}"}) + "\n" for js, x, y in rows())


def as_text():
    return "".join(f"{'up' if y > 0 else 'down'}\t" + " ".join(f"w{j}" for j in js) + f" y{y}\n" for js, x, y in rows())


LOGS = {"svm": as_libsvm, "vw": as_vw, "csv": as_csv, "jsonl": as_jsonl, "txt": as_text}


class KilledError(BaseException):
    """Raised at a random moment, in place of a kill -9."""


class Writer:
    """Something that writes a log piece by piece: it is the ``stop`` of a run, which is called all the time."""

    def __init__(self, write, text, pieces, seed=0, end=lambda: None):
        chance = random.Random(seed)
        cuts = sorted(chance.randrange(len(text)) for _ in range(pieces))
        self.pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        self.write, self.end, self.kill_in, self.waits = write, end, -1, 0

    def __call__(self):
        self.kill_in -= 1
        if self.kill_in == 0:
            raise KilledError
        if self.pieces:
            self.write(self.pieces.pop(0))
            if not self.pieces:
                self.end()
            return False
        self.waits += sys._getframe(1).f_code.co_name == "_wait"
        return self.waits > 1  # all is read


class Idle:
    """Something that happens whenever a run waits for rows: the ``stop`` of the run, which ends it after the last."""

    def __init__(self, *steps):
        self.steps, self.waited = list(steps), 0

    def __call__(self):
        if sys._getframe(1).f_code.co_name != "_wait":
            return False
        self.waited += 1
        if self.waited % 4 == 1 and self.steps:
            self.steps.pop(0)()
        return self.waited > 4 and not self.steps and self.waited % 4 == 0


def to_file(path):
    def write(text):
        with open(path, "ab") as file:
            file.write(text)

    return write


def bits(path):
    model = load(path)
    names = model.get_feature_names_out().tolist() if model.fit_state.has_names else []
    return model.sparsify().coef_.toarray().tobytes(), model.intercept_.tobytes(), names, model.n_features_in_


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(following, "_PAUSE", 0.0)


class Followed:
    """The models that a run publishes, by their numbers of rows."""

    def __init__(self, path, every=512):
        self.path, self.every, self.models, self.losses = path, every, {}, {}

    def __call__(self, report):
        self.models[report.rows], self.losses[report.rows] = bits(self.path), report.mean_loss

    def run(self, source, **given):
        given = {"settings": SETTINGS} | ({} if "stop" in given else {"idle_exit": 0.0}) | given
        return follow(source, self.path, publish_rows=self.every, report=self, **given)


def whole(folder, suffix, **given):
    """Return what a run publishes that finds the whole log."""
    text = LOGS[suffix]().encode()
    (folder / f"whole.{suffix}").write_bytes(text)
    found = Followed(folder / "whole.model")
    found.trained = found.run(folder / f"whole.{suffix}", **given)
    return text, found


# ---- the same bits ---------------------------------------------------------------------------------------------------


def test_it_learns_what_train_learns(tmp_path):
    _, found = whole(tmp_path, "svm")
    plain = train(tmp_path / "whole.svm", settings=SETTINGS, shuffle=False).estimator
    followed = load(tmp_path / "whole.model")
    assert np.array_equal(followed.coef_, plain.coef_) and followed.intercept_ == plain.intercept_
    assert sorted(found.models) == [1024, 1536, 2048, ROWS] and found.trained.rows == ROWS


@pytest.mark.parametrize(
    ("suffix", "options"),
    [
        *((suffix, {}) for suffix in LOGS),
        ("svm", {"cross": "all", "birth": True}),
        ("csv", {"offset": "size"}),
        ("svm", {"settings": SETTINGS | {"half_life": 500}}),
    ],
)
def test_any_growth_and_any_kill_give_the_same_models(suffix, options, tmp_path):
    if suffix in ("csv", "jsonl"):
        pytest.importorskip("pyarrow")
    text, expected = whole(tmp_path, suffix, **options)
    for seed, pieces in enumerate((1, 40, 400)):
        log, chance = tmp_path / f"log{seed}.{suffix}", random.Random(seed)
        log.touch()
        found, writer = Followed(tmp_path / f"{seed}.model"), Writer(to_file(log), text, pieces, seed)
        kept, kills, resume = Checkpoints(tmp_path / f"{seed}.checkpoint", 256, None), 0, False
        while True:
            writer.waits, writer.kill_in = 0, chance.randrange(2, 4 + pieces // 5) if kills < 4 else -1
            try:
                trained = found.run(log, stop=writer, checkpoints=kept, resume=resume, **options)
                break
            except KilledError:
                kills, resume = kills + 1, kept.exist()
        assert kills == 4 or pieces == 1
        assert found.models == expected.models and found.losses == expected.losses
        assert trained.table == expected.trained.table and trained.notes == expected.trained.notes


@pytest.mark.parametrize("suffix", ["svm", "csv"])
def test_standard_input_gives_the_same_models_and_loses_nothing_when_it_is_cut(suffix, tmp_path, monkeypatch):
    if suffix == "csv":
        pytest.importorskip("pyarrow")
    text, expected = whole(tmp_path, suffix)
    format = {"svm": "libsvm"}.get(suffix, suffix)
    found, kept, at = Followed(tmp_path / "m"), Checkpoints(tmp_path / "c", 256, None), 0
    ends = [len(text) // 3 + 7, len(text) // 2, len(text), len(text)]  # in mid-line, and it goes on later
    kills = [0, 30, 25, 0]
    while ends:
        began, (read, write) = at, os.pipe()
        writer = Writer(lambda part, to=write: os.write(to, part), text[at : ends[0]], 60, at)
        writer.end, writer.kill_in = (lambda to=write: os.close(to)), kills.pop(0)
        monkeypatch.setattr("sys.stdin", SimpleNamespace(fileno=lambda handle=read: handle))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                found.run("-", stop=writer, format=format, checkpoints=kept, resume=kept.exist())
            except KilledError:
                os.close(write)
        os.close(read)
        source = archive.read(kept.path, "checkpoint")["source"]
        at = source["offset"] + len(source["text"])  # the sender repeats what came after the checkpoint
        assert not told or f"was read up to byte {began}: what comes" in str(told[0].message)
        ends.pop(0)
    assert at == len(text) and not kills
    assert {n: model for n, model in found.models.items() if n in expected.models} == expected.models


def test_an_end_before_the_first_thousand_rows_decides_nothing(tmp_path):
    text, expected = whole(tmp_path, "svm")
    log, found = tmp_path / "log.svm", Followed(tmp_path / "m")
    few = text[: text.find(b"\n", 9000) + 1]
    log.write_bytes(few)
    trained = found.run(log)
    assert 100 < trained.rows < 500 and load(found.path).n_nonzero_ > 0
    to_file(log)(text[len(few) :])
    del found.models[trained.rows]
    found.run(log, resume=True)
    assert found.models == expected.models


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"conversion": "optimal-sl", "alpha": 0.01},
        {"optimizer": "fobos", "conversion": "suffix", "alpha": 0.01},
        {"calibrate": True, "class_weight": "balanced", "alpha": 0.01},
    ],
)
def test_publishing_does_not_change_what_is_learned(settings, tmp_path):
    (tmp_path / "a.svm").write_text(as_libsvm(4000))
    model = {"model": SparseClassifier(**settings, random_state=0), "settings": None}
    often, rarely = Followed(tmp_path / "often", 512), Followed(tmp_path / "rarely", 10**9)
    often.run(tmp_path / "a.svm", **model)
    model["model"] = SparseClassifier(**settings, random_state=0)
    rarely.run(tmp_path / "a.svm", **model)
    assert len(often.models) == 7 and rarely.models == {4000: often.models[4000]}


# ---- what happens to logs --------------------------------------------------------------------------------------------


def test_a_log_that_is_replaced_or_truncated(tmp_path, monkeypatch):
    from sparsco.streams import growing

    monkeypatch.setattr(growing, "_SILENT", 0.0)
    text, expected = whole(tmp_path, "svm")
    lines, log = text.splitlines(True), tmp_path / "log.svm"
    parts = [b"".join(lines[a : a + 700]) for a in (0, 700, 1400)]
    steps = [
        lambda: log.write_bytes(parts[0] + b"1 2:3 "),  # a line that never ends
        lambda: (log.rename(tmp_path / "log.svm.1"), log.write_bytes(parts[1])),
        lambda: log.write_bytes(b""),
        lambda: log.write_bytes(parts[2]),
    ]
    found = Followed(tmp_path / "m")
    with pytest.warns(UserWarning) as told:
        trained = found.run(log, stop=Idle(*steps))
    said = [str(each.message) for each in told]
    assert said == [
        f"{log} does not exist: reading begins when it appears.",
        f"{log} was replaced: reading goes on at the beginning of the new file; 6 bytes of a last line without an end "
        "are left out.",
        f"{log} was truncated: reading goes on at its beginning.",
    ]
    assert found.models == expected.models and trained.rows == ROWS


def test_a_log_that_was_truncated_and_has_grown_again_unseen(tmp_path):
    log = tmp_path / "log.svm"
    log.write_text(as_libsvm())
    act = Idle(lambda: log.write_text(as_libsvm(3000, seed=1)))
    with pytest.warns(UserWarning, match="was truncated"):
        assert Followed(tmp_path / "m").run(log, stop=act).rows == ROWS + 3000


def test_a_log_that_was_renamed_while_it_was_not_followed(tmp_path):
    text, expected = whole(tmp_path, "svm")
    log, found = tmp_path / "log.svm", Followed(tmp_path / "m")
    half = text.find(b"\n", len(text) // 2) + 1
    log.write_bytes(text[: half - 50])
    found.run(log)
    log.write_bytes(text[:half])
    log.rename(tmp_path / "log-2026.svm")
    log.write_bytes(text[half:])
    with pytest.warns(UserWarning, match="was replaced"):
        found.run(log, resume=True, idle_exit=1.0)
    assert {n: found.models[n] for n in expected.models} == expected.models


def test_a_log_that_is_lost_while_it_was_not_followed(tmp_path):
    log, found = tmp_path / "log.svm", Followed(tmp_path / "m")
    log.write_text(as_libsvm())
    found.run(log)
    log.write_text(as_libsvm(600, seed=3))
    with pytest.warns(UserWarning, match="rows may be missing"):
        assert found.run(log, resume=True).rows == 2048 + 600


def test_a_log_that_does_not_exist_yet(tmp_path):
    log = tmp_path / "later.svm"
    act = Idle(lambda: None, lambda: log.write_text(as_libsvm()))
    assert Followed(tmp_path / "m").run(log, stop=act).rows == ROWS
    with pytest.raises(ValueError, match="neither its name nor its first line"):
        follow(tmp_path / "nowhere", tmp_path / "m", idle_exit=0.0)
    with pytest.raises(ValueError, match="has no rows: there is nothing"):
        follow(tmp_path / "nowhere.svm", tmp_path / "m", idle_exit=0.0)
    with pytest.raises(StoppedError, match="before any row had arrived"):
        follow(tmp_path / "nowhere.svm", tmp_path / "m", stop=lambda: True)
    assert sorted(path.name for path in tmp_path.glob("*.lock")) == []


# ---- refusals and full disks -----------------------------------------------------------------------------------------


def test_what_cannot_be_followed_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.svm").write_text(as_libsvm())
    (tmp_path / "a.npz").write_bytes(b"")
    (tmp_path / "packed.svm").write_bytes(b"\x1f\x8b123")
    os.mkfifo(tmp_path / "pipe.svm")
    for arguments, sentence in [
        (["a.svm", "--passes", "2"], "--passes cannot be combined with --follow: rows are learned once"),
        (["a.svm", "--polish"], "--polish cannot be combined"),
        (["a.svm", "--dask", "local:2"], "--dask cannot be combined"),
        (["a.svm", "--groups", "columns"], "--groups cannot be combined"),
        (["a.svm", "a.npz"], "--follow takes one file"),
        (["a.svm", "--publish-every", "0"], "--publish-every 0 would publish nothing"),
        (["a.svm", "--update", "m"], "name another file than that of --update"),
        (["a.npz"], "a.npz is npz, which cannot be followed: formats are libsvm, vw, csv, tsv, jsonl, text."),
        (["packed.svm"], "packed.svm is compressed and cannot be followed"),
        (["pipe.svm"], "pipe.svm is not a regular file"),
        (["a.svm", "-m", "a.svm"], "is an input"),
    ]:
        assert cli.main(["train", "--follow", "-m", "m", "--idle-exit", "0", *arguments]) == 2, arguments
        assert sentence in capsys.readouterr().err
    assert cli.main(["train", "a.svm", "--idle-exit", "3"]) == 2 and "are for --follow" in capsys.readouterr().err
    for wrong in ({"publish_rows": 0}, {"publish_seconds": 0.0}, {"idle_exit": -1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            follow("a.svm", "m", **wrong)
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "a.svm", "packed.svm", "pipe.svm"]


def test_two_followers_of_one_model_are_refused(tmp_path):
    (tmp_path / "a.svm").write_text(as_libsvm())
    found = []

    def second():
        with pytest.raises(ValueError, match="another process writes"):
            follow(tmp_path / "a.svm", tmp_path / "m", settings=SETTINGS, idle_exit=0.0)
        found.append(1)
        return False

    Followed(tmp_path / "m").run(tmp_path / "a.svm", stop=second, idle_exit=0.0)
    assert found and sorted(os.listdir(tmp_path)) == ["a.svm", "m", "m.checkpoint", "m.checkpoint.previous"]


def test_a_full_disk_does_not_end_the_run(tmp_path, monkeypatch):
    _, expected = whole(tmp_path, "svm")
    write, is_full = archive.write, [True]

    def fails(path, kind, content):
        if is_full[0]:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write(path, kind, content)

    monkeypatch.setattr(archive, "write", fails)
    calls = [0]

    def act():
        calls[0] += 1
        is_full[0] = calls[0] < 7
        return False

    found = Followed(tmp_path / "m")
    with pytest.warns(UserWarning, match="row 1,024 is not saved; learning goes on"):
        found.run(tmp_path / "whole.svm", stop=act, idle_exit=0.0, checkpoints=Checkpoints(tmp_path / "c", 256, None))
    assert 1024 not in found.models and found.models[ROWS] == expected.models[ROWS]
    is_full[0] = True
    with pytest.raises(OSError, match="No space left"), pytest.warns(UserWarning, match="is not saved"):
        found.run(tmp_path / "whole.svm", checkpoints=Checkpoints(tmp_path / "d", 256, None))


def test_a_checkpoint_of_other_settings_or_another_log_is_refused(tmp_path):
    for name in ("a.svm", "b.svm"):
        (tmp_path / name).write_text(as_libsvm())
    found = Followed(tmp_path / "m")
    found.run(tmp_path / "a.svm")
    with pytest.raises(ResumeError, match="other settings"):
        found.run(tmp_path / "a.svm", resume=True, settings={"alpha": 0.5})
    with pytest.raises(ResumeError, match="the data changed"):
        found.run(tmp_path / "b.svm", resume=True)
    with pytest.warns(UserWarning, match="there is no checkpoint"):
        Followed(tmp_path / "n").run(tmp_path / "a.svm", resume=True)


def test_a_bad_line_is_named_and_what_was_learned_stays(tmp_path):
    log, found = tmp_path / "a.svm", Followed(tmp_path / "m")
    log.write_text(as_libsvm())
    with pytest.raises(ValueError, match=f"a.svm, line {ROWS + 1}: '3:x' has no number"):
        found.run(log, stop=Idle(lambda: to_file(log)(b"1 3:x\n")))
    assert 2048 in found.models and bits(tmp_path / "m") == found.models[2048]


# ---- the command -----------------------------------------------------------------------------------------------------


def test_drift_is_told_with_advice(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flipped = "".join(("-" + line if line[0] == "1" else line[1:]) for line in as_libsvm(4000, seed=1).splitlines(True))
    (tmp_path / "a.svm").write_text(as_libsvm(12_000) + flipped)
    with pytest.warns(UserWarning, match="^drift by row 12,288:") as told:
        assert cli.main(["train", "--follow", "a.svm", "-m", "m", "--idle-exit", "0", "--json", "--alpha", "0.01"]) == 0
    (said,) = [str(each.message) for each in told]
    assert "level 1% for the whole stream" in said and "--half-life 1" in said
    *reports, outcome = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert outcome["warnings"] == [said] and reports[-1]["rows"] == 16_000 and reports[-1]["selected"] > 0


def test_classes_that_come_late_are_no_drift_and_one_class_is_not_judged(tmp_path, recwarn):
    (tmp_path / "one.svm").write_text("1 1:1\n" * 3000)
    assert follow(tmp_path / "one.svm", tmp_path / "m", settings=SETTINGS, idle_exit=0.0).table == []
    lines = as_libsvm(8000).splitlines(True)
    third = ["3" + line[line.index(" ") :] if k % 3 == 0 else line for k, line in enumerate(lines)]
    (tmp_path / "late.svm").write_text("".join(lines[:4000] + third[4000:]))
    model = SparseClassifier(alpha=0.01, random_state=0)
    trained = follow(tmp_path / "late.svm", tmp_path / "late", model, classes="any", idle_exit=0.0)
    assert trained.model.classes_.tolist() == [-1, 1, 3] and not trained.warnings


def test_the_history_first_and_then_the_log(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = as_libsvm(4000).splitlines(True)
    (tmp_path / "all.svm").write_text("".join(text))
    (tmp_path / "history.svm").write_text("".join(text[:2000]))
    (tmp_path / "log.svm").write_text("".join(text[2000:]))
    options = ["--quiet", "--no-shuffle"]
    assert cli.main(["train", "all.svm", "-m", "expected", "--alpha", "0.01", *options]) == 0
    assert cli.main(["train", "history.svm", "-m", "h", "--alpha", "0.01", "--save-state", *options]) == 0
    more = ["--follow", "log.svm", "--update", "h", "-m", "m", "--idle-exit", "0", "--test", "all.svm", "--quiet"]
    capsys.readouterr()
    assert cli.main(["train", *more]) == 0
    assert "test rows: " in capsys.readouterr().out and bits("m") == bits("expected")


def start(folder, *arguments, stdin=None):
    return subprocess.Popen(
        [sys.executable, "-m", "sparsco.cli", *map(str, arguments)],
        cwd=folder,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def test_killed_while_a_log_grows_and_a_reader_reads(tmp_path):
    """kill -9 at random; every model that a reader finds is whole, and the last one has the bits of a run in peace."""
    text = as_libsvm(20_000).encode()
    (tmp_path / "all.svm").write_bytes(text)
    Followed(tmp_path / "expected", 10**9).run(tmp_path / "all.svm", idle_exit=0.0)
    log, chance = tmp_path / "log.svm", random.Random(1)
    arguments = ["train", "--follow", "log.svm", "-m", "m", "--alpha", "0.01", "--quiet", "--resume"]
    arguments += ["--publish-every", "256", "--checkpoint-every", "1000"]
    writer, read, done = Writer(to_file(log), text, 200), [], []

    def grow():
        while writer.pieces:
            writer()
            time.sleep(0.02)

    def look():
        while not done:
            if (tmp_path / "m").exists():
                read.append(load(tmp_path / "m").n_selected_)
            time.sleep(0.001)

    threads = [threading.Thread(target=each) for each in (grow, look)]
    for each in threads:
        each.start()
    for _ in range(3):
        process = start(tmp_path, *arguments)
        before = time.monotonic()
        while not (tmp_path / "m").exists() and time.monotonic() - before < 60.0:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.8, 1.6))
        process.kill()
        process.communicate()
    threads[0].join()
    _, said = start(tmp_path, *arguments, "--idle-exit", "0.5").communicate(timeout=120)
    done.append(1)
    threads[1].join()
    assert bits(tmp_path / "m") == bits(tmp_path / "expected"), said
    assert len(read) > 20 and min(read) > 0 and not list(tmp_path.glob(".part-*")) and not list(tmp_path.glob("*.lock"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_asked_to_end_it_publishes_and_says_how_to_go_on(tmp_path, number, code):
    (tmp_path / "log.svm").write_text(as_libsvm())
    process = start(tmp_path, "train", "--follow", "log.svm", "-m", "m", "--alpha", "0.01", "--publish-every", "1024")
    while not (tmp_path / "m").exists():
        time.sleep(0.02)
    process.send_signal(number)
    out, said = process.communicate(timeout=60)
    assert process.returncode == code, said
    learned = load(tmp_path / "m").report_["examples"]
    assert f"stopped behind row {learned:,}; to go on there: sparsco train --follow log.svm -m m" in said
    assert f"{learned:,} rows, " in said and "m: classification" in out and learned >= 1024
    assert start(tmp_path, *shlex.split(said.rpartition(": sparsco ")[2]), "--idle-exit", "0").wait(60) == 0
    assert load(tmp_path / "m").report_["examples"] == ROWS
