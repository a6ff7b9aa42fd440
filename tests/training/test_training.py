"""From a file to a model: by the library, by the command in this process, and by a real process that is killed."""

from __future__ import annotations

import errno
import json
import os
import platform
import random
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from sparsco import SparseClassifier, SparseRegressor, cli, load
from sparsco.data.progressive import next_mark
from sparsco.data.row_order import RowOrder
from sparsco.data.rows import as_matrix
from sparsco.data.slots import SeenColumns
from sparsco.distributed import fit as distributed_fit
from sparsco.estimators import reading
from sparsco.penalties import GroupL1
from sparsco.streams import StreamError, convert, open_stream
from sparsco.streams.shuffled import Shuffled
from sparsco.training import archive, comparison, model_files, scoring
from sparsco.training.checkpoints import Checkpoints
from sparsco.training.results import StoppedError
from sparsco.training.train import train


def write_rows(path, n=3000, d=30, seed=0, labels=("+1", "-1"), regression=False):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=d) * (np.arange(d) < 5)
    with open(path, "w") as file:
        for _ in range(n):
            columns = np.sort(rng.choice(d, 6, replace=False))
            x = rng.normal(size=6).round(3)
            p = float(x @ w[columns])
            label = f"{p:.4f}" if regression else labels[int(p < 0.0)]
            file.write(label + "".join(f" {j + 1}:{v}" for j, v in zip(columns, x, strict=True)) + "\n")
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("data") / "data.svm")


def bits(model):
    return model.sparsify().coef_.toarray().tobytes() + model.intercept_.tobytes()


# ---- the library -----------------------------------------------------------------------------------------------------


def test_a_stream_gives_the_bits_of_partial_fit_however_it_is_cut(data):
    given = {"settings": {"alpha": 0.01, "random_state": 0}}
    chunks = list(open_stream(data))
    X, y = np.vstack([chunk.matrix.to_scipy().toarray() for chunk in chunks]), np.concatenate([c.y for c in chunks])
    order = np.concatenate([chunk.numbers for chunk in Shuffled(open_stream(data), 0).chunks()])
    for shuffle, rows in ((False, np.arange(3000)), (True, order)):
        trained = train(data, **given, shuffle=shuffle)
        whole = SparseClassifier(alpha=0.01, random_state=0).partial_fit(X[rows], y[rows], classes=[-1, 1])
        assert bits(trained.model) == bits(whole) and trained.rows == 3000
        for block_bytes in (500, 3001, 20_000):
            cut = train(data, **given, shuffle=shuffle, reader={"block_bytes": block_bytes})
            assert bits(cut.model) == bits(whole) and cut.table == trained.table


def test_rows_are_judged_before_they_are_learned(data):
    trained = train(data, settings={"alpha": 0.01, "random_state": 0}, shuffle=False)
    assert [line.rows for line in trained.table] == [1024, 2048]
    chunk = next(iter(open_stream(data)))
    model = SparseClassifier(alpha=0.01, random_state=0)
    losses, mistakes, n = 0.0, 0, 0
    X, y = chunk.matrix.to_scipy().toarray(), chunk.y.astype(int)
    for mark in (1024, 2048):
        model = SparseClassifier(alpha=0.01, random_state=0, conversion="last").partial_fit(X[:mark], y[:mark], [-1, 1])
        p = model.decision_function(X[mark : mark + 256])
        losses += np.log1p(np.exp(-p * y[mark : mark + 256])).sum()
        mistakes += (np.where(p > 0, 1, -1) != y[mark : mark + 256]).sum()
        n += 256
    assert trained.table[-1].mean_loss == pytest.approx(losses / n, rel=1e-9)
    assert trained.table[-1].mean_mistake == mistakes / n


def test_the_order_of_features_in_a_row_means_nothing(tmp_path):
    """And what alpha="auto" finds means the same when it is given: looking at rows does not change them."""
    rng = np.random.default_rng(0)
    text = ""
    for _ in range(1500):
        words = [f"w{k}:{rng.integers(1, 4)}" for k in rng.choice(40, 6, replace=False)]
        text += f"{1 if 'w1:' in ' '.join(words) else -1} | {' '.join(words)}\n"
    (tmp_path / "a.vw").write_text(text)
    found = train(tmp_path / "a.vw", settings={"random_state": 0}).model
    chosen = {"alpha": found.alpha_, "l1_ratio": found.l1_ratio_, "relaxed": found.relaxed_, "standardize": True}
    given = train(tmp_path / "a.vw", settings={"random_state": 0} | chosen).model
    assert bits(found) == bits(given)


def test_marks():
    assert [next_mark(row) for row in (0, 1, 1024, 1280, 8192, 8448, 16384, 20000)] == [
        1024,
        1024,
        1024,
        2048,
        8192,
        16384,
        16384,
        24576,
    ]


def test_what_labels_decide(tmp_path):
    numbers = train(write_rows(tmp_path / "r.svm", 1500, regression=True))
    assert isinstance(numbers.estimator, SparseRegressor) and "regression" in numbers.notes[0]
    assert numbers.table[-1].mean_mistake < 1.0
    three = tmp_path / "three.svm"
    three.write_text("".join(f"{k % 3} {k % 3 + 1}:1\n" for k in range(1500)))
    assert train(three, settings={"random_state": 0}).model.classes_.tolist() == [0, 1, 2]
    words = tmp_path / "words.csv"
    words.write_text("label,x\n" + "".join(f"{('ham', 'spam')[k % 2]},{k % 2 + 0.5}\n" for k in range(1500)))
    pytest.importorskip("pyarrow")
    trained = train(words, settings={"random_state": 0})
    assert trained.model.classes_.tolist() == ["ham", "spam"] and trained.table[-1].mean_mistake == 0.0


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_two_labels_are_one_model_whatever_they_are_called(data, loss):
    """And where more may appear, which takes a model for each, figures mean the same."""
    rows = [
        ((chunk.indices[a:b], chunk.data[a:b]), y)
        for chunk in open_stream(data)
        for a, b, y in zip(chunk.indptr, chunk.indptr[1:], chunk.y.tolist(), strict=False)
    ]
    given = {"settings": {"alpha": 0.01, "random_state": 0, "loss": loss}}
    numbers, words = train(rows, **given), train([(x, "yes" if y > 0 else "no") for x, y in rows], **given)
    assert words.model.classes_.tolist() == ["no", "yes"] and "two classes, no and yes" in words.notes[1]
    assert words.table == numbers.table and bits(words.model) == bits(numbers.model)
    with pytest.raises(ValueError, match="'maybe', which is not one of the classes .*--classes any"):
        train([*((x, str(y)) for x, y in rows), (rows[0][0], "maybe")], **given, shuffle=False)
    either = train(rows, **given, classes="any")
    found = scoring.evaluate(either.model, open_stream(data))
    assert found["loss"] == pytest.approx(numbers.table[-1].mean_loss, rel=0.1)
    for one, two in zip(either.table, numbers.table, strict=True):
        assert one.mean_loss == pytest.approx(two.mean_loss, rel=0.1)
        assert one.nonzeros == pytest.approx(two.nonzeros, abs=5)


def test_hashed_names_have_room_where_they_occur(tmp_path):
    path = tmp_path / "x.vw"
    path.write_text("".join(f"{k % 2} | w{k % 2} v{k % 7}\n" for k in range(1500)))
    given = {"settings": {"alpha": 0.01, "random_state": 0}}
    few, many = (train(path, **given, reader={"hash_bits": bits}).model for bits in (16, 31))
    assert isinstance(many.fit_state.features, SeenColumns) and many.fit_state.runs[0].d == 9
    assert many.n_features_in_ == 2**31
    assert many.n_nonzero_ == few.n_nonzero_ and many.sparsify().coef_.shape == (1, 2**31)


def test_whole_numbers_are_labels_or_quantities(tmp_path):
    def notes(values):
        lines = [f"{values[k % len(values)]} {k % len(values) % 40 + 1}:1\n" for k in range(1200)]
        (tmp_path / "x.svm").write_text("".join(lines))
        trained = train(tmp_path / "x.svm", settings={"random_state": 0, "optimizer": "fobos", "conversion": "last"})
        return type(trained.model).__name__, trained.notes[0]

    assert notes([1935 + 7 * k % 47 for k in range(47)]) == (
        "LinearRegressor",
        "regression: labels are numbers in the first 1000 rows; --task classification takes them for classes",
    )
    assert notes([3, 5, 9]) == (
        "LinearClassifier",
        "classification: 3 labels in the first 1000 rows; --task regression takes them for numbers",
    )
    assert notes([-1, 1])[1] == "classification: 2 labels in the first 1000 rows"


def test_bad_rows_are_named(tmp_path):
    path = tmp_path / "x.svm"
    lines = [f"{k % 2} 1:{k % 7}\n" for k in range(1200)]
    path.write_text("".join(lines) + "2 1:1\n")
    with pytest.raises(ValueError, match=r"row 1201 has the label 2, which is not one of the classes \[0, 1\]"):
        train(path, shuffle=False)
    assert train(path, classes="any").model.classes_.tolist() == [0, 1, 2]
    path.write_text("".join(lines) + "1 1:x\n")
    with pytest.raises(ValueError, match="x.svm, line 1201"):
        train(path)
    path.write_text("")
    with pytest.raises(ValueError, match="no rows"):
        train(path)
    vw = tmp_path / "x.vw"
    vw.write_text("1 | a\n-1 | b\n | c\n")
    with pytest.raises(ValueError, match="row 3 has no label"):
        train(vw)


@pytest.mark.parametrize(("passes", "shuffle"), [(1, True), (1, False), (3, True)])
@pytest.mark.parametrize("name", ["data.svm", "data.vw"])
def test_a_run_that_is_stopped_and_resumed_gives_the_same_bits(data, tmp_path, passes, shuffle, name, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = data
    if name == "data.vw":
        source = tmp_path / name
        source.write_text("".join(line.replace(" ", " | ", 1) for line in open(data)))
    given = {"settings": {"alpha": 0.01, "random_state": 0}, "passes": passes, "shuffle": shuffle}
    reader = {"block_bytes": 20_000 if shuffle else 4000, **({"cache": tmp_path / "rows"} if passes > 1 else {})}
    whole = train(source, **given, reader=reader | ({"cache": tmp_path / "other"} if passes > 1 else {}))
    kept = Checkpoints(tmp_path / "c", 500, None)
    stops, resume = random.Random(passes), False
    for _ in range(50):
        left = [stops.randrange(1, 24 if shuffle else 12)]

        def stop(left=left):
            left[0] -= 1
            return left[0] < 0

        try:
            trained = train(source, **given, reader=reader, checkpoints=kept, resume=resume, stop=stop)
            break
        except StoppedError:
            resume = kept.exist()
    assert bits(trained.model) == bits(whole.model)
    assert trained.table == whole.table and trained.model.report_["lam"] == whole.model.report_["lam"]


def test_checkpoints_have_two_generations(tmp_path):
    kept = Checkpoints(tmp_path / "c")
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        kept.read()
    kept.write({"n": 1})
    kept.write({"n": 2})
    assert kept.read() == {"n": 2} and archive.read(kept.previous, "checkpoint") == {"n": 1}
    damaged = bytearray(kept.path.read_bytes())
    damaged[-1] ^= 1
    kept.path.write_bytes(damaged)
    with pytest.warns(UserWarning, match="is damaged.*The checkpoint before it is used"):
        assert kept.read() == {"n": 1}
    kept.path.unlink()
    assert kept.read() == {"n": 1}
    kept.previous.write_bytes(b"x")
    with pytest.raises(archive.ArchiveError):
        kept.read()


def test_without_a_checkpoint_a_resumed_run_begins_anew(here):
    given = ["train", "data.svm", "--quiet", "--alpha", "0.01"]
    assert run(*given, "-m", "plain") == 0
    with pytest.warns(
        UserWarning, match="no checkpoint m.checkpoint to resume from: training starts from the beginning"
    ):
        assert run(*given, "-m", "m", "--resume") == 0
    assert bits(load("m")) == bits(load("plain"))


def test_a_checkpoint_of_another_run_is_refused(data, tmp_path):
    kept = Checkpoints(tmp_path / "c", 100, None)
    copy = tmp_path / "copy.svm"
    copy.write_text(data.read_text())
    with pytest.raises(StoppedError):
        train(copy, checkpoints=kept, stop=lambda: True)
    with pytest.raises(ValueError, match="other settings"):
        train(copy, checkpoints=kept, resume=True, passes=2)
    copy.write_text(data.read_text() + "1 1:1\n")
    with pytest.raises(ValueError, match="the data changed"):
        train(copy, checkpoints=kept, resume=True)


# ---- rows that are not in a random order -----------------------------------------------------------------------------


@pytest.fixture
def by_label(data, tmp_path):
    """The rows of ``data``, those with one label before those with the other."""
    path = tmp_path / "sorted.svm"
    path.write_text("".join(sorted(data.read_text().splitlines(True))))
    return path


def test_a_file_sorted_by_label_is_learned_in_a_random_order(data, by_label):
    given = {"settings": {"random_state": 0, "optimizer": "nftrl"}}
    trained, plain = train(by_label, **given), train(data, **given, shuffle=False)
    error = scoring.evaluate(trained.model, open_stream(by_label))["error"]
    assert not trained.warnings and trained.model.classes_.tolist() == [-1, 1]
    assert trained.table[-1].mean_mistake == pytest.approx(error, abs=0.05) and error < 0.15
    assert trained.model.report_["lam"] == pytest.approx(plain.model.report_["lam"], rel=0.1)
    assert abs(trained.model.n_nonzero_ - plain.model.n_nonzero_) <= 2


def test_an_order_that_is_kept_is_warned_of(data, by_label, monkeypatch):
    given = {"settings": {"random_state": 0, "alpha": 0.01}}
    rows = [
        (chunk.indices[a:b], chunk.data[a:b], y)
        for chunk in open_stream(by_label)
        for a, b, y in zip(chunk.indptr, chunk.indptr[1:], chunk.y.tolist(), strict=False)
    ]
    cases = [
        (by_label, {"shuffle": False}, 1 << 28, "--no-shuffle"),
        (iter([((columns, values), y) for columns, values, y in rows]), {}, 1 << 28, "piped in"),
        (by_label, {}, 10_000, "`sparsco convert`"),
    ]
    for source, options, held, advice in cases:
        monkeypatch.setattr("sparsco.streams.shuffled.HELD_BYTES", held)
        with pytest.warns(UserWarning, match="the labels depend on the position in the source"):
            trained = train(source, **given, **options)
        assert len(trained.warnings) == 1 and advice in trained.warnings[0]
        assert not trained.table  # mistakes of a stream that comes label by label say nothing
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert train(data, **given, shuffle=False).table


def test_classes_that_must_be_known_are_not_taken_from_rows_of_one_label(by_label, capsys):
    assert run("path", by_label, "--no-shuffle", "--quiet") == 2
    assert "the first 1000 rows all have the label 1: name all classes" in capsys.readouterr().err
    with pytest.raises(ValueError, match="the first 1000 rows all have the label 1"):
        distributed_fit(SparseClassifier(), by_label)


def test_a_sorted_file_that_was_converted_is_mixed(data, by_label, tmp_path, monkeypatch):
    monkeypatch.setattr("sparsco.streams.cache.BLOCK_BYTES", 1000)
    convert(by_label, tmp_path / "rows", block_bytes=2000)
    monkeypatch.setattr("sparsco.streams.shuffled.HELD_BYTES", 60_000)
    trained = train(tmp_path / "rows", settings={"random_state": 0})
    error = scoring.evaluate(trained.model, open_stream(by_label))["error"]
    mixed = train(data, settings={"random_state": 0}, shuffle=False).table[-1].mean_mistake
    four_errors = 4.0 * np.sqrt(2.0 * mixed * (1.0 - mixed) / trained.rows)
    assert trained.table[-1].mean_mistake == pytest.approx(mixed, abs=four_errors) and error < 0.05


def test_what_counts_as_an_order():
    rng = np.random.default_rng(0)
    n, d = 20_000, 6
    X = np.column_stack([np.ones(n), rng.exponential(size=n) ** 3, rng.random((n, d - 2)) < 0.01])

    def found(y, X=X, classifies=True):
        for cut in (n, 777):
            order = RowOrder(classifies)
            for a in range(0, n, cut):
                order.add_labels(a, y[a : a + cut])
            for a in range(0, n, 1024):
                order.add_features(a, as_matrix(X[a : a + 256]))
            sentences.append(order.sentence())
        assert sentences[-1] == sentences[-2]
        return sentences[-1]

    sentences = []
    for y in (rng.random(n) < 0.5, rng.random(n) < 0.001, rng.integers(0, 400, n), rng.choice(["a", "b"], n)):
        assert found(y) == ""
        assert "the labels depend" in found(np.sort(y))
    assert "the labels depend" in found(rng.random(n) < np.where(np.arange(n) < n // 2, 0.25, 0.75))
    assert found(rng.random(n) < np.where(np.arange(n) < n // 2, 0.4, 0.5)) == ""
    target = rng.standard_cauchy(n)
    assert found(target, classifies=False) == "" and "the targets" in found(np.arange(n) ** 0.5, classifies=False)
    assert "a feature depends" in found(rng.random(n) < 0.5, X=np.column_stack([X, np.arange(n)]))


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("polish", [False, True])
def test_a_file_that_changes_between_passes_is_not_learned(data, tmp_path, shuffle, polish):
    source = tmp_path / "x.svm"
    source.write_text(data.read_text())
    passes, asked = 1 if polish else 2, []

    def append():
        asked.append(1)
        if len(asked) == 9:
            with open(source, "a") as file:
                file.write("1 1:1\n")
        return False

    settings = {"alpha": 0.05, "random_state": 0, "polish": polish}
    with pytest.raises(StreamError, match="x.svm changed between two reads"):
        train(source, passes=passes, settings=settings, shuffle=shuffle, stop=append)
    assert len(asked) >= 9
    asked.clear()
    settings["polish"] = False
    assert train(source, settings=settings, shuffle=shuffle, stop=append).rows in (3001, 3002)  # a log may grow


# ---- predictions -----------------------------------------------------------------------------------------------------


def test_predictions_and_figures_of_a_stream(data, tmp_path):
    trained = train(data, settings={"alpha": 0.01, "random_state": 0})
    model_files.save(trained.model, tmp_path / "m", extra={"reader": {}})
    model, stream = scoring.opened_for(model_files.read(tmp_path / "m"), data, block_bytes=5000)
    X = np.vstack([chunk.matrix.to_scipy().toarray()[:, :31] for chunk in [next(iter(open_stream(data)))]])
    y = next(iter(open_stream(data))).y.astype(int)
    for kind, expected in (
        ("label", trained.estimator.predict(X)),
        ("score", trained.estimator.decision_function(X)),
        ("probability", trained.estimator.predict_proba(X)),
    ):
        found = np.concatenate([part for _, part in scoring.predictions(model, stream, kind)])
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    figures = scoring.evaluate(model, stream)
    assert figures["rows"] == 3000 and figures["error"] == pytest.approx(np.mean(trained.estimator.predict(X) != y))
    p = trained.estimator.decision_function(X)
    assert figures["loss"] == pytest.approx(np.log1p(np.exp(-p * y)).mean())


def test_wide_models_predict_from_the_features_that_have_a_weight(monkeypatch):
    from sparsco.data.rows import as_matrix

    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 40)) * (rng.random((800, 40)) < 0.3)
    for y in (X[:, 30] - X[:, 2], np.zeros(800)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SparseRegressor(alpha=0.05, random_state=0).fit(X, y)
        expected = model.margins_of(as_matrix(X))
        monkeypatch.setattr(reading, "_MANY_CELLS", 1)
        assert np.array_equal(model.margins_of(as_matrix(X)), expected)
        monkeypatch.undo()


# ---- the command, in this process ------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data.svm").write_text(data.read_text())
    return tmp_path


def run(*arguments):
    return cli.main([str(argument) for argument in arguments])


def test_a_file_alone_is_enough(here, capsys):
    assert run("train", "data.svm") == 0
    out, err = capsys.readouterr()
    assert "data.model: classification" in out and "nftrl" in out.lower() and "1,024" in err
    assert run("inspect", "data.model") == 0
    assert "feature" in capsys.readouterr().out
    assert run("evaluate", "data.model", "data.svm", "--json") == 0
    assert json.loads(capsys.readouterr().out)["error"] < 0.15
    assert run("predict", "data.model", "data.svm") == 0
    labels = capsys.readouterr().out.split()
    assert len(labels) == 3000 and set(labels) == {"-1", "1"}


def test_a_smaller_model_is_written_without_data(here, capsys):
    (here / "d.vw").write_text("".join(line.replace("1 ", "1 | ", 1) for line in _worded(here / "data.svm")))
    for data in ("data.svm", "d.vw"):
        assert run("train", data, "-m", "m", "--quiet", "--cv", "3", "--test", data) == 0
        capsys.readouterr()
        assert run("inspect", "m") == 0 and "+-" in capsys.readouterr().out
        assert run("inspect", "m", "--size", "2", "-o", "small", "--json") == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["selected"] == 2 == load("small").n_selected_ and len(shown["top"]) == 2
        assert "test" not in shown["training"] and shown["training"]["choice"]["size"] == 2  # a test of another model
        assert np.array_equal(_weights(load("small")), _weights(load("m").at_size(2)))
        figures = {}
        for model in ("m", "small"):
            assert run("evaluate", model, data, "--json") == 0
            figures[model] = json.loads(capsys.readouterr().out)["loss"]
        assert figures["m"] < figures["small"] < np.log(2.0)
    assert run("inspect", "m", "-o", "other") == 2 and "add --size K" in capsys.readouterr().err


def _worded(path):
    """Return the lines of a file of numbered columns, with names in their place."""
    return [re.sub(r" (\d+):", r" w\1:", line) for line in path.read_text().splitlines(True)]


def _weights(model):
    """Return the nonzero weights of a model."""
    return model.coef_[model.coef_ != 0.0]


def test_predictions_come_line_by_line(tmp_path, here):
    """A process that feeds standard input may wait for each answer; numbers have six digits unless more are wanted."""
    rows = (here / "data.svm").read_text().splitlines(True)[:3]
    assert run("train", "data.svm", "-m", "m", "--quiet", "--alpha", "0.01") == 0
    process = start(tmp_path, "predict", "m", "-", "--format", "libsvm", "--probability", stdin=subprocess.PIPE)
    found = []
    for row in rows:
        process.stdin.write(row)
        process.stdin.flush()
        found += [process.stdout.readline() for _ in range(1 if found else 2)]  # which waits for ever if nothing comes
    more, _ = process.communicate(timeout=60)
    assert not more and found[0] == "-1\t1\n" and all(len(line.split()[0]) <= 11 for line in found[1:])
    (here / "few.svm").write_text("".join(rows))
    exact = here / "exact"
    assert run("predict", "m", "few.svm", "--probability", "--digits", "17", "-o", exact) == 0
    expected = load("m").predict_proba(next(iter(open_stream("data.svm"))).matrix.to_scipy().toarray()[:3, :31])
    np.testing.assert_allclose(np.loadtxt(exact, skiprows=1), expected, rtol=1e-14)  # sums in another order
    np.testing.assert_allclose(np.loadtxt(found, skiprows=1), expected, rtol=1e-5)


def test_json_and_every_option(here, capsys):
    arguments = ["--loss", "hinge", "--l1", "0.001", "--l2", "0.001", "--optimizer", "fobos", "--conversion", "average"]
    arguments += ["--step-size", "0.1", "--classes", "1,-1", "--class-weight", "1=2,-1=1", "--no-intercept"]
    arguments += ["--seed", "3", "--passes", "2", "--json", "--quiet", "--test", "data.svm"]
    assert run("train", "data.svm", "-m", "m", *arguments) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["passes"] == 2 and outcome["test"]["error"] < 0.2 and "FOBOS" in outcome["chosen"]["optimizer"]
    model = load("m")
    assert model.intercept_[0] == 0.0 and model.loss == "hinge" and model.alpha == 0.002 and model.l1_ratio == 0.5
    assert run("inspect", "m", "--json") == 0
    assert json.loads(capsys.readouterr().out)["training"]["test"] == outcome["test"]


def test_a_budget_and_a_preset(here, capsys):
    assert run("train", "data.svm", "-m", "m", "--budget", "3", "--quiet") == 0
    assert load("m").n_nonzero_ == 3 and load("m").budget == 3
    assert run("train", "data.svm", "-m", "m", "--target-excess-risk", "0.1", "0.5", "--quiet") == 0
    assert 1 <= load("m").n_nonzero_ < 31 and load("m").target_excess_risk == (0.1, 0.5)
    assert run("train", "data.svm", "-m", "m", "--target-excess-risk", "0", "0.5", "--quiet") == 2
    assert "target_excess_risk=(0.0, 0.5): give a pair (eps, delta)" in capsys.readouterr().err
    assert run("train", "data.svm", "-m", "m", "--preset", "two-stage", "--task", "regression", "--quiet") == 0
    assert "EpochSGD" in capsys.readouterr().out
    assert run("train", "data.svm", "-m", "m", "--preset", "three-stage", "--quiet") == 2


def test_parts_with_settings_are_written_as_in_python(here, capsys):
    (here / "groups.txt").write_text("\n".join(str(j // 2) for j in range(31)))
    for given, found in [
        (["--penalty", "L1Ball(0.5)"], "L1Ball(radius=0.5"),
        (["--penalty", "GroupL1(0.01, 'groups.txt')"], "GroupL1(lam=0.01"),
        (["--preset", "OptimalSL(paper=True)", "--l1", "0.01", "--l2", "0.01"], "OptimalSL"),
        (["--loss", "Huber(0.5)", "--conversion", "Sparsify(2, Last())"], "Sparsify"),
    ]:
        assert run("train", "data.svm", "-m", "m", "--quiet", *given) == 0
        assert found in capsys.readouterr().out
    model = load("m")
    assert not model.classifies and model.loss.epsilon == 0.5 and model.n_nonzero_ == 2


def test_a_model_is_not_mixed_with_features_of_another_kind(here, capsys):
    (here / "d.vw").write_text("1 | a b\n-1 | c\n" * 600)
    for model, source, options in [("n", "data.svm", []), ("w", "d.vw", []), ("h", "d.vw", ["--hash-bits", "6"])]:
        assert run("train", source, "-m", model, "--quiet", "--save-state", "--alpha", "0.01", *options) == 0
    capsys.readouterr()
    for arguments, sentence in [
        (["train", "d.vw", "--update", "n"], "of the model are numbered columns, those of the source names"),
        (["train", "data.svm", "--update", "w"], "name"),
        (["train", "d.vw", "--update", "h", "--hash-bits", "5"], "the model was trained with hash_bits=6"),
        (["evaluate", "h", "d.vw", "--hash-bits", "5"], "the model was trained with hash_bits=6"),
        (["evaluate", "w", "d.vw", "-q", "ab"], "the model was trained with no quadratic"),
        (["train", "d.vw", "--update", "w", "--seed", "3"], "leave out --seed"),
    ]:
        assert run(*arguments) == 2
        assert sentence in capsys.readouterr().err
    assert run("train", "data.svm", "-m", "r", "--loss", "squared", "--quiet") == 0
    capsys.readouterr()
    assert run("predict", "r", "data.svm", "--probability") == 2
    assert capsys.readouterr().out == ""


def test_a_run_with_other_groups_is_not_resumed(here, capsys):
    groups = np.arange(31) // 2
    arguments = ["train", "data.svm", "-m", "m", "--quiet", "--penalty", "GroupL1(0.01, 'g.txt')"]
    np.savetxt(here / "g.txt", groups)
    live = Checkpoints(here / "m.checkpoint", 500)
    stops = iter([False] * 4 + [True] * 100)
    settings = {"penalty": GroupL1(0.01, groups), "random_state": 0, "fit_intercept": True}
    with pytest.raises(StoppedError):
        train("data.svm", settings=settings, checkpoints=live, stop=lambda: next(stops))
    np.savetxt(here / "g.txt", groups[::-1])
    assert run(*arguments, "--resume") == 2
    said = capsys.readouterr().err
    assert "other settings" in said and "continues" not in said
    np.savetxt(here / "g.txt", groups)
    assert run(*arguments, "--resume") == 0
    resumed = bits(load("m"))
    assert run(*arguments) == 0 and bits(load("m")) == resumed


def test_names_and_html(here, capsys):
    text = re.sub(r" (\d+):", r" <b>\1&:", (here / "data.svm").read_text())
    (here / "d.vw").write_text(text.replace("1 ", "1 | "))
    assert run("train", "d.vw", "-m", "m", "--quiet", "--alpha", "0.01") == 0
    assert run("inspect", "m", "--html", "m.html", "--top", "3") == 0
    page = (here / "m.html").read_text()
    assert "&lt;b&gt;" in page and "<b>" not in page
    names = list(model_files.read("m")["names"].values())
    assert names and all(name.startswith("<b>") for name in names)
    (here / "new.vw").write_text(f"| {names[0]}:5 unheard\n")
    assert run("predict", "m", "new.vw", "--score") == 0
    weight = load("m").coef_[0][0] * 5 + load("m").intercept_[0]
    assert float(capsys.readouterr().out.split()[-1]) == pytest.approx(weight, rel=5e-6)  # six digits are printed
    assert run("convert", "d.vw", "rows") == 0
    assert run("train", "rows", "-m", "again", "--quiet", "--alpha", "0.01") == 0
    capsys.readouterr()
    for source in ("d.vw", "rows"):
        for model in ("m", "again"):
            assert run("evaluate", model, source) == 0
    figures = capsys.readouterr().out.splitlines()
    assert figures[0] == figures[2] and figures[1] == figures[3]


def test_hashed_names(here, capsys):
    (here / "d.vw").write_text("".join(f"{1 if k % 2 else -1} |w good{k % 2} noise{k % 5}\n" for k in range(1500)))
    assert run("train", "d.vw", "-m", "m", "--hash-bits", "12", "--quiet", "--alpha", "0.01") == 0
    assert {"w^good0", "w^good1"} >= set(model_files.read("m")["names"].values()) != set()
    assert run("evaluate", "m", "d.vw", "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["error"] == 0.0


def test_update_goes_on_where_a_model_stopped(here, capsys):
    lines = (here / "data.svm").read_text().splitlines(True)
    (here / "a.svm").write_text("".join(lines[:1700]))
    (here / "b.svm").write_text("".join(lines[1700:]))
    common = ["--quiet", "--no-shuffle"]
    assert run("train", "data.svm", "-m", "whole", "--alpha", "0.01", *common) == 0
    assert run("train", "a.svm", "-m", "part", "--save-state", "--alpha", "0.01", *common) == 0
    assert run("train", "b.svm", "--update", "part", "-m", "both", *common) == 0
    assert bits(load("both")) == bits(load("whole"))
    assert run("train", "b.svm", "--update", "both", "--quiet") == 2
    assert "--save-state" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["train", "none.svm"], 2, "none.svm: there is no such file"),
        (["train", "data.svm", "-m", "no/m"], 2, "there is no folder"),
        (["train", "data.svm", "-m", "."], 2, "is a folder"),
        (["train", "data.svm", "--l1", "1", "--alpha", "1"], 2, "give one or the other"),
        (["train", "data.svm", "--loss", "hunge"], 2, "--loss hunge is not known"),
        (["train", "data.svm", "--task", "regression", "--classes", "1,2"], 2, "are for a classification"),
        (["train", "data.svm", "--optimizer", "sdg"], 2, "did you mean"),
        (["train", "data.svm", "--optimizer", "FTLR(1.0)"], 2, "there is no FTLR in sparsco, perhaps FTRL is meant"),
        (["train", "data.svm", "--loss", "Huber(delta=1)"], 2, "Huber takes epsilon"),
        (["train", "data.svm", "--loss", "Huber(1"], 2, "not written as in Python"),
        (["train", "data.svm", "--loss", "L1Ball(1)"], 2, "it cannot be used as the loss"),
        (["train", "data.svm", "--loss", "Huber([1, 2])"], 2, "epsilon=[1, 2] must be a number"),
        (["train", "data.svm", "--penalty", "L1Ball(True)"], 2, "radius=True must be a number"),
        (["train", "data.svm", "--penalty", "GroupL1(1, groups.txt)"], 2, "a file's name in quotes"),
        (["compare", "data.svm", "--penalty", "L1Ball(1)"], 2, "has its own strength"),
        (["compare", "data.svm", "--preset", "two-stage"], 2, "compare sets --optimizer, --conversion and --preset"),
        (["train", "data.svm", "--loss", "Huber(open('x'))"], 2, "there is no open in sparsco"),
        (["train", "data.svm", "--penalty", "GroupL1(1, 'none.txt')"], 2, "none.txt"),
        (["train", "data.svm", "--penalty", "GroupL1(1, 'data.svm')"], 2, "data.svm must contain numbers only"),
        (["train", "data.svm", "--test", "none.svm"], 2, "none.svm"),
        (["train", "data.svm", "--resume", "--checkpoint-every", "0"], 2, "leave one of them out"),
        (["train", "data.svm", "--alpha", "nan"], 2, "alpha"),
        (["predict", "data.svm", "data.svm"], 2, "is not a sparsco file"),
        (["predict", "none", "data.svm"], 2, "none"),
        (["inspect", "data.svm"], 2, "is not a sparsco file"),
        (["convert", "data.svm", "."], 2, "is not a cache of rows"),
        (["train", "data.svm", "--format", "vw"], 2, "line 1"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(here, capsys, arguments, code, sentence):
    before = sorted(path.name for path in here.iterdir())
    assert run(*arguments, *(["--quiet"] if arguments[0] == "train" else [])) == code
    err = capsys.readouterr().err.strip()
    assert sentence in err and "\n" not in err and err.startswith("sparsco: ")
    assert sorted(path.name for path in here.iterdir()) == before


def test_a_run_that_was_cut_off_is_not_lost(here, capsys):
    assert run("train", "data.svm", "-m", "whole", "--quiet") == 0
    checkpoint = here / "data.model.checkpoint"
    settings = {"fit_intercept": True, "random_state": 0}
    with pytest.raises(StoppedError):
        train("data.svm", settings=settings, checkpoints=Checkpoints(checkpoint, 500, None), stop=lambda: True)
    assert run("train", "data.svm", "--quiet") == 2
    assert "--resume continues it, --restart starts from the beginning" in capsys.readouterr().err
    assert run("train", "data.svm", "--quiet", "--resume") == 0 and not checkpoint.exists()
    assert bits(load("data.model")) == bits(load("whole"))


def test_a_full_disk_ends_the_run_and_leaves_the_checkpoint_before(here, capsys, monkeypatch):
    write, count = archive.write, [0]

    def full(path, kind, content):
        count[0] += 1
        if count[0] > 1:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write(path, kind, content)

    monkeypatch.setattr(archive, "write", full)
    assert run("train", "data.svm", "--quiet", "--checkpoint-every", "1000") == 3
    err = capsys.readouterr().err
    assert "No space left on device" in err and "--resume continues" in err and not (here / "data.model").exists()
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert run("train", "data.svm", "--quiet", "--checkpoint-every", "1000", "--resume") == 0
    assert run("train", "data.svm", "-m", "whole", "--quiet") == 0
    assert bits(load("data.model")) == bits(load("whole"))


def test_compare(here, capsys):
    arguments = ["--methods", "fobos", "rda", "--strengths", "0.5", "2", "--test", "data.svm", "--report", "c.html"]
    assert run("compare", "data.svm", *arguments, "--json") == 0
    outcomes = json.loads(capsys.readouterr().out)
    assert [each["method"] for each in outcomes] == ["fobos", "fobos", "rda", "rda"]
    for weak, strong in (outcomes[:2], outcomes[2:]):
        assert strong["alpha"] == 4.0 * weak["alpha"] and strong["nonzeros"] <= weak["nonzeros"]
        assert weak["test"] < 0.3 and weak["progressive"] < 0.3
    assert "<svg" in (here / "c.html").read_text()
    assert run("compare", "data.svm", "--methods", "magic") == 2 and "'magic'" in capsys.readouterr().err


def test_compare_shows_what_few_features_cost(here, capsys):
    arguments = ["--methods", "fobos", "--strengths", "1", "--features", "2", "4", "--test", "data.svm"]
    assert run("compare", "data.svm", *arguments, "--report", "few.html", "--json") == 0
    outcomes = json.loads(capsys.readouterr().out)
    ways = ["budget", "top-k", "dd", "mg"]
    assert [each["method"] for each in outcomes] == ["fobos", "two-stage", *ways, *ways, *["small ball"] * 3]
    full, few, more = outcomes[1], outcomes[2:6], outcomes[6:10]
    assert all(1 <= each["nonzeros"] <= 2 for each in few) and all(1 <= each["nonzeros"] <= 4 for each in more)
    assert full["alpha"] is None and full["nonzeros"] > 4 and more[0]["test"] < few[0]["test"] < 0.5
    page = (here / "few.html").read_text()
    assert "small ball" in page and "at most 4 features" in page


# ---- real processes --------------------------------------------------------------------------------------------------


def start(folder, *arguments, stdin=None):
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.Popen(
        [sys.executable, "-m", "sparsco.cli", *map(str, arguments)],
        cwd=folder,
        env=environment,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


KILLS = int(os.environ.get("SPARSCO_KILLS", "6"))


@pytest.mark.long
def test_killed_at_random_and_resumed_to_the_same_bits(tmp_path):
    """kill -9 while learning, while checkpoints and caches are written; every resumed run ends with the same model."""
    write_rows(tmp_path / "data.svm", 30_000)
    arguments = ["train", "data.svm", "-m", "m", "--quiet", "--alpha", "0.01", "--passes", "2"]
    arguments += ["--checkpoint-every", "2000"]
    began = time.monotonic()
    assert start(tmp_path, *arguments).wait() == 0
    expected, took = bits(load(tmp_path / "m")), time.monotonic() - began
    chance, kills, ended = random.Random(0), 0, 0
    while kills < KILLS or not ended:
        (tmp_path / "m").unlink(missing_ok=True)
        for path in (tmp_path / "cache").glob("**/*"):
            if path.is_file() and kills % 3 == 0:
                path.unlink()
        resume = False
        while True:
            process, began = start(tmp_path, *arguments, *(["--resume"] if resume else ["--restart"])), time.monotonic()
            try:
                limit = chance.uniform(0.1, 1.1 * took) if kills < KILLS else 300.0
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
                resume = any(tmp_path.glob("m.checkpoint*"))
                continue
            took = time.monotonic() - began
            assert code == 0, process.stderr.read()
            break
        assert bits(load(tmp_path / "m")) == expected
        ended += 1
    assert not list(tmp_path.glob(".part-*")) and not list(tmp_path.glob("m.checkpoint*"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_asked_to_end_it_ends_with_a_checkpoint(tmp_path, number, code):
    write_rows(tmp_path / "data.svm", 3000)
    arguments = ["--quiet", "--passes", "100000", "--no-cache", "--checkpoint-every", "3000"]
    process = start(tmp_path, "train", "data.svm", "-m", "m", *arguments)
    while not (tmp_path / "m.checkpoint").exists():  # it learns
        time.sleep(0.05)
    process.send_signal(number)
    _, error = process.communicate(timeout=120)
    assert process.returncode == code, error
    assert "--resume continues" in error and (tmp_path / "m.checkpoint").exists() and not (tmp_path / "m").exists()


@pytest.mark.skipif(not Path("/proc/self/syscall").exists() or platform.machine() != "x86_64", reason="looks at /proc")
@pytest.mark.parametrize("silent", ["at once", "in mid-line"])
def test_silent_standard_input_does_not_delay_the_end(tmp_path, silent):
    write_rows(tmp_path / "data.svm", 5000)
    rows = (tmp_path / "data.svm").read_bytes() if silent == "in mid-line" else b""
    process = start(tmp_path, "train", "-", "-m", "m", "--quiet", "--format", "libsvm", stdin=subprocess.PIPE)
    process.stdin.buffer.write(rows + b"1 3:0.5 7"[: len(rows)])
    process.stdin.buffer.flush()
    while not Path(f"/proc/{process.pid}/syscall").read_text().startswith("0 0x0 "):  # until it waits in read(0, ...)
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143, process.stderr.read()
    assert "stopped behind row" in process.stderr.read() and not (tmp_path / "m").exists()


# ---- what a reviewer found -------------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/syscall").exists() or platform.machine() != "x86_64", reason="looks at /proc")
def test_other_commands_say_that_they_were_asked_to_end(tmp_path):
    process = start(tmp_path, "convert", "-", "rows", "--format", "libsvm", stdin=subprocess.PIPE)
    while not Path(f"/proc/{process.pid}/syscall").read_text().startswith("0 0x0 "):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143 and said.strip() == "sparsco: terminated" and not list(tmp_path.glob("*rows*"))


def test_nothing_that_is_read_is_written_over(here, capsys):
    assert run("train", "data.svm", "-m", "m", "--quiet") == 0
    for arguments in (
        ["train", "data.svm", "-m", "data.svm"],
        ["train", "*.svm", "-m", "data.svm"],
        ["predict", "m", "data.svm", "-o", "data.svm"],
        ["predict", "m", "data.svm", "-o", "m"],
        ["inspect", "m", "--html", "m"],
        ["inspect", "m", "--size", "1", "-o", "m"],
        ["compare", "data.svm", "--report", "data.svm"],
    ):
        before = {path.name: path.read_bytes() for path in here.iterdir() if path.is_file()}
        assert run(*arguments) == 2 and "is an input" in capsys.readouterr().err
        assert {path.name: path.read_bytes() for path in here.iterdir() if path.is_file()} == before
    os.mkfifo(here / "pipe")
    assert run("train", "data.svm", "-m", "pipe", "--quiet") == 2
    assert "not a regular file" in capsys.readouterr().err and (here / "pipe").is_fifo()


def test_a_table_is_read_as_the_one_before(here, capsys):
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    codes = rng.choice(["1", "2", "A"], 2000)
    y = np.where((codes == "1") | (rng.random(2000) < 0.1), "yes", "no")
    (here / "a.csv").write_text("y,code\n" + "".join(f"{label},{code}\n" for label, code in zip(y, codes, strict=True)))
    assert run("train", "a.csv", "-m", "m", "--quiet", "--alpha", "0.01") == 0
    (here / "numbers.csv").write_text("y,code\n" + "yes,1\nno,2\n" * 50)
    capsys.readouterr()
    assert run("evaluate", "m", "numbers.csv", "--json") == 0
    assert json.loads(capsys.readouterr().out)["error"] == 0.0
    (here / "unlabelled.csv").write_text("code\n1\n2\n")
    assert run("predict", "m", "unlabelled.csv") == 0 and capsys.readouterr().out.split() == ["yes", "no"]
    (here / "other.csv").write_text("y,kind\nyes,1\n")
    assert run("evaluate", "m", "other.csv") == 2 and "'code'" in capsys.readouterr().err


def test_of_a_table_only_columns_with_a_weight_are_needed(here, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    rows = [f"{k % 2},2020-01-0{k % 9 + 1},{k % 2 + k / 1e4},{k % 7},c{k % 3},1,r{k}\n" for k in range(1500)]
    (here / "t.csv").write_text("y,when,size,noise,color,w,id\n" + "".join(rows))
    roles = ["--weight", "w", "--tag", "id", "--schema", "when=ignore"]
    assert run("train", "t.csv", "-m", "t", "--quiet", "--alpha", "0.05", *roles) == 0
    assert list(model_files.read("t")["names"].values()) == ["size"]
    out = capsys.readouterr().out
    assert "chosen: target: column 'y'\n" in out
    assert "chosen: when: ignored\nchosen: size: numbers\nchosen: noise: numbers\nchosen: color: category\n" in out
    (here / "few.csv").write_text("size,more\n0,2021-03-04\n1,x\n")
    assert run("train", "t.csv", "-m", "h", "--quiet", "--hash-bits", "10", *roles) == 0
    capsys.readouterr()
    assert run("predict", "t", "few.csv") == 0 and capsys.readouterr().out.split() == ["0", "1"]
    for said in ([], ["--format", "csv"]):
        with open(here / "few.csv") as text:
            monkeypatch.setattr("sys.stdin", text)
            assert run("predict", "t", "-", *said) == 0 and capsys.readouterr().out.split() == ["0", "1"]
    (here / "labelled.csv").write_text("size,y\n0,0\n1,0\n")
    assert run("evaluate", "t", "labelled.csv", "--json") == 0 and '"error": 0.5' in capsys.readouterr().out
    for arguments, column in [
        (
            ["predict", "h", "few.csv"],
            "few.csv has no column 'noise', a feature of the model: there are size, more.",
        ),  # who knows what was hashed
        (["evaluate", "t", "few.csv"], "few.csv has no column 'y', the target: there are size, more."),
        (["evaluate", "t", "labelled.csv", "--weight", "w"], "has no column 'w', the weight"),
        (["predict", "t", "none.csv"], "none.csv has no column 'size', a feature of the model: there are noise."),
    ]:
        (here / "none.csv").write_text("noise\n1\n")
        assert run(*arguments) == 2 and column in capsys.readouterr().err
    (here / "few.csv").write_text("size\n?\n-\n1\n")
    assert run("predict", "t", "few.csv") == 2 and "(--missing-values)" in capsys.readouterr().err
    assert run("predict", "t", "few.csv", "--missing-values", "?,-", "--missing", "zero") == 0
    assert capsys.readouterr().out.split() == ["0", "0", "1"]


def test_rows_without_labels_say_where_these_are_to_be(here, capsys):
    pytest.importorskip("pyarrow")
    np.savez(here / "m.npz", X=np.eye(3))
    (here / "t.csv").write_text("a,b\n1,2\n")
    for arguments, sentence in [
        (["m.npz"], "row 1 has no label: an .npz file has them in an array y beside X"),
        (["m.npz", "--passes", "2", "--no-cache"], "an array y beside X"),
        (["t.csv", "--target", "none"], "row 1 has no label: target= (--target) names their column"),
    ]:
        assert run("train", *arguments, "--quiet", "--task", "regression") == 2
        assert sentence in capsys.readouterr().err


def test_features_of_another_kind_are_refused(here, capsys):
    (here / "d.vw").write_text(re.sub(r"1 ", "1 | ", (here / "data.svm").read_text()))
    assert run("train", "data.svm", "-m", "numbered", "--quiet") == 0
    assert run("train", "d.vw", "-m", "named", "--quiet") == 0
    assert run("convert", "d.vw", "rows") == 0 and run("convert", "data.svm", "plain") == 0
    capsys.readouterr()
    for model, source, sentence in (
        ("numbered", "d.vw", "d.vw has names of features, and those of the model are numbered columns."),
        ("named", "data.svm", "the features of the model are names, and those of data.svm numbered columns."),
        ("numbered", "rows", "rows has names of features, and those of the model are numbered columns."),
        (
            "named",
            "plain",
            "plain holds features of another kind than the model: convert it with the options of the model.",
        ),
    ):
        assert run("evaluate", model, source) == 2
        assert capsys.readouterr().err == f"sparsco: {sentence}\n"


def test_a_bad_test_file_does_not_cost_the_model(here, capsys):
    (here / "bad.svm").write_text("1 1:1\n1 1:x\n")
    assert run("train", "data.svm", "-m", "m", "--test", "bad.svm", "--quiet") == 2
    assert "line 2" in capsys.readouterr().err and load("m").n_nonzero_ > 0


@pytest.mark.parametrize("penalty", ["row-group", "nonnegative", "trace"])
def test_a_state_before_the_pilot_is_complete_can_be_saved(here, penalty, recwarn):
    few = (here / "data.svm").read_text().splitlines(True)[:300]
    (here / "few.svm").write_text("".join(few))
    assert run("train", "few.svm", "-m", "m", "--penalty", penalty, "--save-state", "--quiet") == 0
    assert run("train", "few.svm", "--update", "m", "--quiet") == 0
    assert run("train", "few.svm", "--update", "m", "--quiet") == 0  # the state is kept where it is written over
    assert load("m", training=True).t_ == 900


def test_update_takes_no_learning_options(here, capsys):
    assert run("train", "data.svm", "-m", "m", "--save-state", "--quiet") == 0
    assert run("train", "data.svm", "--update", "m", "--alpha", "1", "--loss", "hinge") == 2
    assert "leave out --loss, --alpha" in capsys.readouterr().err


def test_standard_input_is_not_resumed(here, capsys, monkeypatch):
    class Input:
        buffer = open(here / "data.svm", "rb")  # noqa: SIM115

    monkeypatch.setattr("sys.stdin", Input)
    assert run("train", "-", "-m", "m", "--format", "libsvm", "--quiet", "--resume") == 2
    assert "cannot be resumed" in capsys.readouterr().err


def test_the_last_whole_checkpoint_survives_a_damaged_one(tmp_path, monkeypatch):
    kept = Checkpoints(tmp_path / "c")
    kept.write({"n": 1})
    kept.write({"n": 2})
    kept.path.write_bytes(b"damaged")
    replace = type(kept.path).replace

    def killed(path, target):
        replace(path, target)
        raise KeyboardInterrupt  # between the two renamings

    monkeypatch.setattr(type(kept.path), "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        kept.write({"n": 3})
    monkeypatch.undo()
    assert kept.read() == {"n": 3}


def test_hashed_names_are_the_first_ones_after_a_resume(tmp_path):
    from sparsco.streams.features import Hashed, fingerprints

    def placed(encoder, names):
        encoder.place(fingerprints(names, 0), lambda which: [names[k] for k in which])

    first, more = [f"a{k}" for k in range(50)], [f"b{k}" for k in range(200)]
    whole, part, resumed = Hashed(5), Hashed(5), Hashed(5)
    placed(whole, first)
    placed(whole, more)
    placed(part, first)
    resumed.recall(part.names)
    placed(resumed, more)
    assert resumed.names == whole.names


def test_labels_that_the_model_does_not_know_are_refused(here, capsys):
    assert run("train", "data.svm", "-m", "m", "--quiet") == 0
    for name, label, row in (("zeros", "0", 2), ("other", "5", 1), ("half", "0.5", 3)):
        lines = ["1 1:1\n"] * 3
        lines[row - 1] = f"{label} 1:1\n"
        (here / f"{name}.svm").write_text("".join(lines))
        capsys.readouterr()
        assert run("evaluate", "m", f"{name}.svm") == 2
        said = capsys.readouterr()
        assert f"row {row} has the label {label}" in said.err and "model, [-1, 1]" in said.err and not said.out
    assert run("train", "data.svm", "-m", "n", "--quiet", "--test", "zeros.svm") == 2 and (here / "n").exists()


def test_figures_of_far_targets():
    y = np.arange(20.0)
    rows = [(np.stack([far + y + 0.5], 1), far + y, np.ones(20)) for far in (0.0, 1e9)]
    r2 = []
    for p, targets, weights in rows:
        total = scoring._Measured(SparseRegressor().fit(np.eye(3), np.arange(3.0)))
        for k in range(0, 20, 7):
            total.add(p[k : k + 7], targets[k : k + 7], weights[k : k + 7], k)
        r2.append(total.figures()["r2"])
    assert r2[0] == pytest.approx(1.0 - 0.25 / np.var(y)) and r2[1] == pytest.approx(r2[0], rel=1e-6)


def test_labels_cannot_move_the_cursor(here, capsys):
    pytest.importorskip("pyarrow")
    labels = ("a\x1b[2J", "b")
    text = "".join(f'"{labels[k % 2]}",{k % 2}\n' for k in range(1200))
    (here / "l.csv").write_text("label,x\n" + text)
    assert run("train", "l.csv", "-m", "m", "--quiet") == 0
    assert run("inspect", "m") == 0 and run("predict", "m", "l.csv", "--probability") == 0
    assert run("predict", "m", "l.csv") == 0
    assert "\x1b" not in capsys.readouterr().out


def test_columns_cannot_move_the_cursor(here, capsys):
    pytest.importorskip("pyarrow")
    (here / "l.csv").write_text("label,x\x1b[2J\n" + "".join(f"{'ab'[k % 2]},{k % 2}\n" for k in range(1200)))
    assert run("train", "l.csv", "-m", "m", "--quiet") == 0
    found = capsys.readouterr().out
    assert "chosen: x\\x1b[2J: numbers" in found and "\x1b" not in found


def test_models_that_do_not_fit_together_are_refused(here, capsys):
    assert run("train", "data.svm", "-m", "m", "--quiet") == 0
    good = model_files.read("m")
    far = good["coef"] | {"columns": good["coef"]["columns"] + 10**6}
    for change in (
        {"coef": far},
        {"coef": good["coef"] | {"ends": np.array([0, 10**6])}},
        {"intercept": np.array([])},
        {"intercept": np.array([np.nan])},
        {"n_features": "x"},
        {"settings": {"no": 1}},
        {"features": "magic"},
    ):
        archive.write("bad", "model", good | change)
        for command in (["predict", "bad", "data.svm"], ["evaluate", "bad", "data.svm"]):
            assert run(*command) == 2, change
            assert capsys.readouterr().err.count("\n") == 1


def test_compare_compiles_before_it_measures(here, monkeypatch):
    """Every method learns a few rows once, and rows are in the cache, before its time counts."""
    learned, plain = [], comparison.train

    def recorded(source, *arguments, **options):
        learned.append((type(source).__name__, options["settings"].get("optimizer")))
        stream = open_stream("data.svm", cache=here / "rows")
        assert stream.is_cached
        return plain(source, *arguments, **options)

    monkeypatch.setattr(comparison, "train", recorded)
    given = {"reader": {"cache": here / "rows"}, "settings": {"alpha": 0.01, "random_state": 0}}
    outcomes = comparison.compare("data.svm", methods=["nftrl", "fobos"], strengths=[1.0, 2.0], **given)
    assert [(each.method, each.alpha) for each in outcomes] == [
        ("nftrl", 0.01),
        ("nftrl", 0.02),
        ("fobos", 0.01),
        ("fobos", 0.02),
    ]
    assert learned == [
        ("csr_array", "nftrl"),
        ("str", "nftrl"),
        ("str", "nftrl"),
        ("csr_array", "fobos"),
        ("str", "fobos"),
        ("str", "fobos"),
    ]


def test_compare_shows_methods_that_cannot_be(here, capsys):
    methods = ["--methods", "default", "ocmdi", "ftrl", "--strengths", "1"]
    assert run("compare", "data.svm", "--penalty", "trace", *methods) == 0
    assert "default" in capsys.readouterr().out
