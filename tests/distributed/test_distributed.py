"""Fits over partitions: what is mixed, what travels, and that neither workers nor their order change a bit."""

import json
import logging
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sparsco import SparseClassifier, SparseRegressor
from sparsco.conversions.reservoir import Reservoir
from sparsco.conversions.sparse_learning import AverageSL, OptimalSL
from sparsco.datasets.generators import text_like
from sparsco.distributed import fit, partitions_of, sparse
from sparsco.distributed import train as train_on
from sparsco.distributed.executors import OnDask, _by_levels, executor, in_pairs, items_per_task
from sparsco.distributed.mixing import Mixing
from sparsco.distributed.partitions import Place
from sparsco.distributed.sparse import Sparse
from sparsco.jit.dispatch import plain_python
from sparsco.streams import StreamError, convert, open_stream
from support import LONG

N, D, PARTS = 6000, 300, 5
OPTIMIZERS = ("nftrl", "ftrl", "fobos", "rda", "adagrad-fobos", "adagrad-rda") if LONG else ("nftrl", "fobos", "rda")


@pytest.fixture(scope="module")
def rows():
    return text_like(N, D, 12, 30, 12.0, np.random.default_rng(0))


def write_libsvm(path, X, y):
    X = sp.csr_array(X)
    with open(path, "w") as file:
        for i in range(X.shape[0]):
            a, b = X.indptr[i : i + 2]
            pairs = zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)
            file.write(f"{y[i]} " + " ".join(f"{j}:{x!r}" for j, x in pairs) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def files(rows, tmp_path_factory):
    X, y = rows
    folder, ends = tmp_path_factory.mktemp("parts"), [0, 700, 2500, 2500 + 1100, 5500, N]  # of unequal lengths
    pairs = zip(ends, ends[1:], strict=False)
    return [write_libsvm(folder / f"part-{k}.svm", X[a:b], y[a:b]) for k, (a, b) in enumerate(pairs)]


@pytest.fixture(scope="module")
def client():
    """Two workers of two threads each, in this process: no start to wait for, and tasks side by side."""
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=2, processes=False, dashboard_address=None)
    with cluster, distributed.Client(cluster) as own, pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging, "raiseExceptions", False)  # workers may log to the closed output of an earlier test
        yield own


def classifier(**settings):
    return SparseClassifier(**{"alpha": 2e-3, "random_state": 0} | settings)


def assert_same(a, b):
    assert np.array_equal(a.coef_, b.coef_) and np.array_equal(a.intercept_, b.intercept_)


# ---- what is computed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("l1_ratio", [1.0, 0.8] if LONG else [1.0])
def test_one_partition_in_rounds_is_one_stream(rows, files, optimizer, l1_ratio, monkeypatch):
    """Averaging one state changes nothing: whatever an optimizer keeps survives being taken apart between rounds.

    What is sent is rounded to float32, which changes as little, and never whether a weight is zero.
    """
    X, y = rows
    settings = {"optimizer": optimizer, "l1_ratio": l1_ratio, "conversion": "last"}
    one = classifier(**settings, shuffle=False, max_iter=1).fit(X[700:2500], y[700:2500])
    mixed = fit(classifier(**settings), files[1:2], round_rows=300)
    np.testing.assert_allclose(mixed.coef_, one.coef_, rtol=1e-5)
    np.testing.assert_allclose(mixed.intercept_, one.intercept_, rtol=1e-5)
    assert len(mixed.report_["distributed"]["rounds"]) == 3
    monkeypatch.setattr(sparse, "rounded", lambda values: values)
    exact = fit(classifier(**settings), files[1:2], round_rows=300)
    np.testing.assert_allclose(exact.coef_, one.coef_, atol=1e-11)
    np.testing.assert_allclose(exact.intercept_, one.intercept_, atol=1e-11)


def test_files_that_change_while_they_are_read_again_and_again_are_refused(files, tmp_path, monkeypatch):
    copies = [shutil.copy(path, tmp_path) for path in files[:2]]
    phase_two = Mixing.phase_two

    def later(mixing):
        with open(copies[1], "a") as file:
            file.write("1 1:1\n")
        return phase_two(mixing)

    monkeypatch.setattr(Mixing, "phase_two", later)
    with pytest.raises(StreamError, match=f"{Path(copies[1]).name} changed between two reads"):
        fit(classifier(conversion="last"), copies, passes=1)


def objective(model, X, y):
    return np.logaddexp(0.0, -y * model.decision_function(X)).mean() + model.report_["lam"] * np.abs(model.coef_).sum()


@pytest.mark.parametrize("optimizer", ["nftrl", "fobos", "rda"])
def test_mixing_is_as_good_as_one_stream(rows, files, optimizer):
    X, y = rows
    mixed = fit(classifier(optimizer=optimizer, conversion="optimal-sl"), files, round_rows=128, passes=1)
    one = classifier(optimizer=optimizer, conversion="optimal-sl", shuffle=False, max_iter=1).fit(X, y)
    assert objective(mixed, X, y) <= 1.01 * objective(one, X, y)
    assert abs(mixed.n_nonzero_ - one.n_nonzero_) <= 0.2 * one.n_nonzero_
    assert mixed.t_ == N and mixed.report_["distributed"]["partitions"] == [700, 1800, 1100, 1900, 500]


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_small_partitions_make_as_many_steps_as_one_stream(rows, loss):
    """Steps that are too long at first take thousands of others to mend: a partition has too few of its own."""
    X, y = rows[0][:2000], rows[1][:2000]
    mixed = fit(classifier(loss=loss), (X, y))
    one = classifier(loss=loss, shuffle=False, max_iter=1).fit(X, y)

    def value(model):
        lack = np.maximum(1.0 - y * model.decision_function(X), 0.0) ** (2 if "squared" in loss else 1)
        return lack.mean() + model.report_["lam"] * np.abs(model.coef_).sum()

    assert mixed.n_iter_ == 8 and value(mixed) <= 1.01 * value(one)


def test_phase_two_is_that_of_one_stream(rows, files):
    """Gradient, curvature and sample are those of all rows in their order."""
    X, y = rows
    found, seen = train_on(classifier(), files, passes=1), {}
    from sparsco.distributed import mixing

    plain = mixing.map_to_sparse

    def spy(conversion, run, means, *rest):
        seen.update(means=means, sample=run.sample())
        return plain(conversion, run, means, *rest)

    mixing.map_to_sparse = spy
    try:
        fit(classifier(), files, round_rows=500)
    finally:
        mixing.map_to_sparse = plain
    means, sample = seen["means"], seen["sample"]
    p = X @ means.w[:, 0] + means.b[0]
    c = -y / (1.0 + np.exp(y * p))
    h = 1.0 / (2.0 + np.exp(p) + np.exp(-p))
    np.testing.assert_allclose(means.g[:, 0], X.T @ c / N, atol=1e-12)
    np.testing.assert_allclose(means.H[:, 0], X.multiply(X).T @ h / N, atol=1e-12)
    assert np.isclose(means.gb[0], c.mean()) and np.isclose(means.Hb[0], h.mean()) and means.n == N
    assert sample.kappa == 1.0 and np.array_equal(sample.R.numbers, np.arange(N))
    assert found.rows == N and found.model.n_iter_ == 1


@pytest.mark.parametrize("room", [300, 4000, 10**6])
def test_reservoirs_of_partitions_join_to_that_of_the_stream(rows, room):
    X, y = rows[0].tocsr(), rows[1]

    def offered(a, b, first, told=False, before=None):
        reservoir = Reservoir(3, 1, room, max_guard=50) if before is None else before
        reservoir.go_on_at(first)
        if told:
            reservoir.expect(N, X.nnz)
        for start in range(a, b, 400):
            i = np.arange(start, min(start + 400, b))
            labels = y[i].astype(float)[:, None]
            reservoir.offer(
                X.indptr[i],
                X.indptr[i + 1],
                X.indices.view(np.uint32),
                X.data,
                lambda k, labels=labels: (labels[k], np.ones((len(k), 1))),
            )
        return reservoir

    ends = [0, 1, 1500, 1500, 4100, N]
    whole, spans = offered(0, N, 0).sample(), list(zip(ends, ends[1:], strict=False))
    for told in (False, True):
        joined = in_pairs([offered(a, b, a, told) for a, b in spans], Reservoir.joined)
        first = offered(*spans[1], spans[1][0], told, offered(*spans[0], 0, told))  # one task for two partitions
        grouped = in_pairs([first, *(offered(a, b, a, told) for a, b in spans[2:])], Reservoir.joined)
        for own in (joined.sample(), pickle.loads(pickle.dumps(joined)).sample(), grouped.sample()):
            assert own.kappa == whole.kappa
            for a, b in zip((*own.R, *own.V), (*whole.R, *whole.V), strict=True):
                assert np.array_equal(a, b)


@pytest.mark.parametrize("conversion", ["auto", "last-sl", "suffix", "average", "last", AverageSL(metric="diagonal")])
def test_conversions(files, client, conversion):
    here = fit(classifier(conversion=conversion), files, round_rows=256)
    assert here.n_nonzero_ > 0
    assert_same(fit(classifier(conversion=conversion), files, client, round_rows=256), here)
    if conversion == "auto":
        assert isinstance(here.report_["conversion"], OptimalSL)


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_regression_several_classes_weights_and_a_budget(task):
    """In plain Python, which needs no compilation: kernels are the same elsewhere."""
    rng = np.random.default_rng(1)
    X, weights = rng.standard_normal((360, 6)), rng.integers(1, 3, 360).astype(float)
    y = np.array(["a", "b", "c"])[X[:, :3].argmax(1)] if task == "classes" else X[:, 0] - X[:, 1]
    model = classifier(alpha=0.01, budget=3) if task == "classes" else SparseRegressor(alpha=0.05, random_state=0)
    with plain_python(), np.errstate(over="ignore"):
        fit(model, (X, y.astype(object) if task == "classes" else y, weights), partitions=3, round_rows=32)
        again = fit(clone(model), (X, y, weights), partitions=3, round_rows=32)
    assert_same(model, again)
    assert model.score(X, y) > 0.8
    assert task == "numbers" or (model.classes_.tolist() == ["a", "b", "c"] and np.count_nonzero(model.coef_) <= 9)


def test_several_passes_count_as_rows_once(files):
    found = train_on(classifier(), files, passes=2, round_rows=256)
    assert found.rows == N and found.model.report_["examples"] == 2 * N and found.model.n_iter_ == 2
    assert found.model.report_["distributed"]["phase two"]["rows"] == N


# ---- what travels ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exact", [True, False])
def test_sparse_matrices_add_up(exact):
    rng = np.random.default_rng(0)
    dense = [rng.random((d, 4)) * (rng.random((d, 1)) < 0.3) * [1, 0, 1, k > 1] for k, d in enumerate((9, 5, 12))]
    whole = np.zeros((12, 4))
    for each in dense:
        whole[: len(each)] += each
    total = in_pairs([Sparse.of(each, exact) for each in dense], Sparse.__add__)
    np.testing.assert_allclose(total.dense(), whole, rtol=1e-15 if exact else 1e-6)
    assert total.nonzeros == np.count_nonzero(whole) and total.d == 12
    for each in (total, total / 3.0, Sparse.of(np.eye(1000)[:, 7:8], exact)):  # with indices as bits and as numbers
        again = pickle.loads(pickle.dumps(each))
        assert np.array_equal(again.dense(), each.dense()) and again.bytes == each.bytes
        assert len(pickle.dumps(each)) <= each.bytes + 600


def test_numbers_are_rounded_where_it_does_no_harm():
    numbers = np.random.default_rng(0).standard_normal(50)
    for values, dtype in (
        (np.arange(50.0), np.uint16),
        (np.arange(50.0) + 65500.0, np.float32),
        (np.arange(50.0) - 1.0, np.float32),
        (np.arange(50.0) + 0.5, np.float32),
        (numbers, np.float32),
        (np.r_[0.0, numbers], np.float32),
        (np.r_[1e-40, numbers], np.float64),
        (np.r_[1e40, numbers], np.float64),
        (np.r_[-1e40, numbers], np.float64),
        (np.r_[np.nan, numbers], np.float64),
        (np.r_[np.inf, 1.0], np.float64),
        (np.zeros(0), np.float32),
    ):
        found = sparse.rounded(values)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, values, rtol=2**-24)


def test_what_travels_is_sparse_and_counted(files, monkeypatch):
    from sparsco.distributed import mixing

    plain, messages = mixing.learn, []

    def learn(*arguments):
        for message in plain(*arguments):
            messages.append(message)
            yield message

    monkeypatch.setattr(mixing, "learn", learn)
    rounds = fit(classifier(), files, round_rows=16).report_["distributed"]["rounds"]
    assert messages[0].updates[0].cells.at.size < 0.5 * D  # 16 rows do not touch every feature
    for message in messages:
        assert len(pickle.dumps(message)) <= message.bytes + 2000
    for each in rounds:
        assert 0 < each["up"] + each["down"] <= 1.5 * 12 * each["nonzeros"]
    last = [message.updates[0] for message in messages if message.updates[0].share == 1.0][-1].cells
    assert [values.dtype for values in last.values] == [np.float32, np.uint16, *[np.float32] * 3]  # q, n, z, r, G
    assert last.bytes <= 19 * last.at.size + 100


def test_zeros_of_weights_are_not_rounded(files):
    """FOBOS keeps weights: a rounded change would leave a small weight where all partitions have zero."""
    model = fit(classifier(optimizer="fobos", conversion="last"), files[:2], partitions=2)
    weights = np.abs(model.coef_[model.coef_ != 0.0])
    assert 0 < weights.size < D and weights.min() > 1e-6


@pytest.mark.parametrize("threads", [1, 2, 3, 5, 8])
def test_any_grouping_of_items_is_the_same_tree(threads):
    for items in range(1, 20):
        parts = [chr(97 + k) for k in range(items)]
        whole = in_pairs(parts, lambda left, right: f"({left}{right})")
        for most in (1, 3, 64):
            size = items_per_task(items, threads, most)
            assert size <= most and (size & (size - 1)) == 0
            grouped = [
                in_pairs(parts[a : a + size], lambda left, right: f"({left}{right})") for a in range(0, items, size)
            ]
            ends = np.zeros(threads, int)
            for group in grouped:  # each goes to the thread that is free first
                ends[ends.argmin()] += sum(map(str.isalpha, group))
            assert ends.max() == -(-items // threads)
            few = _by_levels(grouped, lambda left, right: [f"({a}{b})" for a, b in zip(left, right, strict=True)], 2)
            assert in_pairs(few, lambda left, right: f"({left}{right})") == whole


# ---- any workers, any order ------------------------------------------------------------------------------------------


def test_workers_do_not_change_a_bit(files, client):
    here = fit(classifier(), files, round_rows=128)
    assert_same(fit(classifier(), files, client, round_rows=128), here)
    assert_same(fit(classifier(), files, client.scheduler.address, round_rows=128), here)


@pytest.mark.parametrize("optimizer", ["nftrl", "fobos"])
def test_threads_do_not_change_a_bit(files, optimizer):
    one, two = (fit(classifier(optimizer=optimizer, n_jobs=n_jobs), files, round_rows=128) for n_jobs in (None, 2))
    assert_same(one, two)
    assert one.report_["distributed"] == two.report_["distributed"]


def test_order_of_arrival_does_not_change_a_bit(files, client, monkeypatch):
    from sparsco.distributed import mixing

    plain = mixing.learn
    here = fit(classifier(), files, round_rows=512)

    def late(items, *rest):
        threading.Event().wait(0.03 * (items[0][0].name[-5] in "02"))
        return plain(items, *rest)

    monkeypatch.setattr(mixing, "learn", late)
    assert_same(fit(classifier(), files, client, round_rows=512), here)


def test_tasks_that_took_several_workers_with_them_are_handed_in_again(monkeypatch):
    distributed = pytest.importorskip("distributed")
    tries = []

    def work():
        tries.append(1)
        if len(tries) < 4:
            raise distributed.KilledWorker("learn", type("Worker", (), {"address": "?"})(), 3)
        return "done"

    monkeypatch.setattr(OnDask, "_threads", lambda pool: 1)
    assert OnDask(None)._surely(work) == "done" and len(tries) == 4


def test_a_scheduler_without_workers_is_not_waited_for_in_silence(files, monkeypatch):
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    from sparsco.distributed import executors

    monkeypatch.setattr(executors, "SILENT", 0.2)
    here = fit(classifier(), files)
    none = distributed.LocalCluster(n_workers=0, threads_per_worker=1, processes=False, dashboard_address=None)
    with none as cluster, distributed.Client(cluster) as own:
        with (
            dask.config.set({"sparsco.no-workers-timeout": "600ms"}),
            pytest.warns(UserWarning, match="no workers: waiting"),
            pytest.raises(
                RuntimeError, match=r"has no workers, and none joined within 0.6 s \(sparsco.no-workers-timeout"
            ),
        ):
            fit(classifier(), files, own)
        threading.Timer(0.8, cluster.scale, [1]).start()
        with pytest.warns(UserWarning, match="no workers: waiting for one, 600 s at most"):
            assert_same(fit(classifier(), files, own), here)


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_asked_to_end_it_ends_in_a_sentence(files, client, tmp_path, monkeypatch, capsys, number, code):
    from sparsco.cli import main
    from sparsco.distributed import mixing

    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals go to the main thread")
    plain = mixing.learn

    def asked(items, *rest):
        if items[0][0].name.endswith("part-0.svm"):
            os.kill(os.getpid(), number)
        threading.Event().wait(0.6)
        return plain(items, *rest)

    monkeypatch.setattr(mixing, "learn", asked)
    out = tmp_path / "out.model"
    assert main(["train", *files, "-m", str(out), "--dask", client.scheduler.address]) == code
    assert capsys.readouterr().err == "sparsco: stopped before the model was learned; nothing was kept.\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not LONG, reason="SPARSCO_LONG_TESTS=1 starts clusters of processes")
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_asked_to_end_processes_are_silent(files, tmp_path, number, code):
    """A terminal sends Ctrl-C to all of them."""
    command = [sys.executable, "-m", "sparsco", "train", *files, "-m", str(tmp_path / "out.model"), "--passes", "9999"]
    process = subprocess.Popen([*command, "--dask", "local:2"], stderr=subprocess.PIPE, start_new_session=True)
    threading.Event().wait(6.0)
    os.killpg(process.pid, number)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == code
    assert complaint == b"sparsco: stopped before the model was learned; nothing was kept.\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not LONG, reason="SPARSCO_LONG_TESTS=1 starts clusters of processes")
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_processes_do_not_change_a_bit(files, workers):
    assert_same(fit(classifier(), files, f"local:{workers}", round_rows=128), fit(classifier(), files, round_rows=128))


@pytest.mark.skipif(not LONG, reason="SPARSCO_LONG_TESTS=1 starts clusters of processes")
def test_a_killed_worker_does_not_change_a_bit(files, monkeypatch):
    """More of this, with workers killed in every phase: benchmarks/on_dask.py kills."""
    here, plain = fit(classifier(), files, round_rows=128), OnDask._leaves
    with executor("local:2") as pool:
        pids, asked = sorted(pool.client.run(os.getpid).values()), []

        def leaves(self, *arguments):
            asked.append(1)
            if len(asked) == 3:
                threading.Timer(0.01, os.kill, [pids[0], signal.SIGKILL]).start()
            return plain(self, *arguments)

        monkeypatch.setattr(OnDask, "_leaves", leaves)
        assert_same(fit(classifier(), files, pool.client, round_rows=128), here)
        assert pids[0] not in pool.client.run(os.getpid).values()


# ---- data ------------------------------------------------------------------------------------------------------------


def test_reading_goes_on_anywhere(files):
    partition = partitions_of(files[1:3], count=1)[0]
    whole: list = []
    partition.take(Place(), np.inf, lambda part, row: whole.append((row, part.y)))
    assert sum(len(y) for _, y in whole) == 2900
    place, found = Place(), []
    while place is not None:
        place = partition.take(pickle.loads(pickle.dumps(place)), 333, lambda part, row: found.append((row, part.y)))
    assert [row for row, _ in found] == np.cumsum([0, *(len(y) for _, y in found)])[:-1].tolist()
    assert np.array_equal(np.concatenate([y for _, y in found]), np.concatenate([y for _, y in whole]))


@pytest.mark.parametrize("count", [1, 3, 50])
def test_one_text_file_is_cut_at_lines(files, tmp_path, count):
    """Pieces are the file's rows in their order, wherever cuts fall, however long lines are."""
    text, labels = open(files[3]).read(), []
    path = tmp_path / "all.svm"
    path.write_text("# nothing\n" + text[:-1])  # and no newline at the end
    partitions = partitions_of(str(path), count=count)
    assert len(partitions) == count
    for partition in partitions:
        place = Place()
        while place is not None:
            place = partition.take(place, 77, lambda part, row: labels.append(part.y))
    expected = [float(line.split()[0]) for line in text.splitlines()]
    assert np.concatenate(labels).tolist() == expected
    if count == 3:
        path.write_text(text + text[: len(text) // 2] + "nonsense\n" + text)
        with pytest.raises(ValueError, match=r"all.svm behind byte \d+, line \d+"):
            fit(classifier(), str(path), partitions=3)


def test_dask_arrays_bags_dataframes_and_delayed_chunks_are_the_same_rows(rows, client):
    dask = pytest.importorskip("dask")
    array, bag = pytest.importorskip("dask.array"), pytest.importorskip("dask.bag")
    X, y = rows[0][:2000].toarray()[:, :20], rows[1][:2000]
    settings = {"round_rows": 300}
    chunks = [dask.delayed((X[a : a + 500], y[a : a + 500])) for a in range(0, 2000, 500)]
    expected = fit(classifier(), chunks, **settings)
    arrays = array.from_array(X, chunks=(500, 10)), array.from_array(y, chunks=250)
    assert_same(fit(classifier(), arrays, client, **settings), expected)
    columns = [(np.flatnonzero(x), x[np.flatnonzero(x)]) for x in X]
    examples = bag.from_sequence([(x, float(label)) for x, label in zip(columns, y, strict=True)], npartitions=4)
    assert_same(fit(classifier(), examples, client, **settings), expected)
    frames, pandas = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"c{j:02}" for j in range(20)]).assign(label=y)
    model = fit(classifier(), frames.from_pandas(frame, npartitions=4), client, **settings)
    assert np.count_nonzero(model.coef_) == np.count_nonzero(expected.coef_)
    np.testing.assert_allclose(np.sort(model.coef_), np.sort(expected.coef_))  # zeros are rows of a table too


def test_names_get_the_same_columns_everywhere(tmp_path, client):
    rng = np.random.default_rng(0)
    for part in range(3):
        with open(tmp_path / f"{part}.vw", "w") as file:
            for _ in range(600):
                words = rng.permutation(30)[:5] + 10 * part  # each partition has words of its own
                file.write(f"{1 if 20 in words else -1} | " + " ".join(f"w{word}" for word in words) + "\n")
    paths = [str(tmp_path / f"{part}.vw") for part in range(3)]
    found = train_on(classifier(), paths, client, round_rows=64)
    best = int(np.abs(found.model.coef_).argmax())
    assert found.names[best] == "w20" and len(found.names) == 50
    assert_same(fit(classifier(), paths, round_rows=64), found.model)
    stored = [str(convert(open_stream(path, hash_bits=12), tmp_path / f"{path}.cache").folder) for path in paths]
    hashed = fit(classifier(), paths, reader={"hash_bits": 12}, round_rows=64, partitions=2)
    assert_same(fit(classifier(), stored, round_rows=64, partitions=2), hashed)  # which share a partition
    assert hashed.n_features_in_ == 4096
    assert np.isclose(np.abs(hashed.coef_).max(), np.abs(found.model.coef_).max(), rtol=0.2)


def small_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 4))
    X[0, 1] = 0.0  # a feature that the first row does not have
    return X, np.where(X[:, 1] - X[:, 2] > 0.0, 1, -1)


def test_features_keep_their_names():
    """In plain Python, which needs no compilation."""
    from sparsco import SparsePath

    bag, frames = pytest.importorskip("dask.bag"), pytest.importorskip("dask.dataframe")
    pandas, (X, y) = pytest.importorskip("pandas"), small_rows()
    frame = pandas.DataFrame(X, columns=list("dcba"))
    examples = [({f"f{j}": float(v) for j, v in enumerate(x) if v}, int(label)) for x, label in zip(X, y, strict=True)]
    with plain_python(), np.errstate(over="ignore"):
        simple = classifier(alpha=0.05, optimizer="rda", conversion="last")
        arrays = fit(clone(simple), (X, y), partitions=2)
        table = fit(clone(simple), frames.from_pandas(frame.assign(label=y), npartitions=2))
        named = fit(clone(simple), bag.from_sequence(examples, npartitions=2))
        path = fit(SparsePath(simple, n_alphas=2, validation=0.2), bag.from_sequence(examples, npartitions=2))
        again = fit(clone(table).fit(frame, y), (X, y), partitions=2)
    assert_same(table, arrays)
    assert table.feature_names_in_.tolist() == list("dcba") and table.get_feature_names_out().tolist() == ["c", "b"]
    assert np.array_equal(table.predict(frame), arrays.predict(X))
    assert named.feature_names_.tolist() == ["f0", "f2", "f3", "f1"]
    for model in (named, pickle.loads(pickle.dumps(named)), path.model_):
        assert {"f1", "f2"} <= set(model.get_feature_names_out())
        assert model.predict_one({"f1": 3.0, "new": 1.0}) == 1 and model.predict_one({"f2": 3.0}) == -1
    assert not hasattr(again, "feature_names_in_")


@pytest.mark.parametrize("labels", [[False, True], [0.0, 1.0], np.array([2, 5], np.int8), ["no", "yes"]])
def test_classes_are_of_the_type_of_the_labels(labels):
    bag, frames = pytest.importorskip("dask.bag"), pytest.importorskip("dask.dataframe")
    pandas, (X, y) = pytest.importorskip("pandas"), small_rows()
    y, every = np.array(labels)[(y + 1) // 2], np.array(labels)
    frame = pandas.DataFrame(X, columns=list("dcba")).assign(label=y)
    pairs = [(x.tolist(), label) for x, label in zip(X, y.tolist(), strict=True)]
    examples = bag.from_sequence([(dict(zip("dcba", x, strict=True)), label) for x, label in pairs], npartitions=2)
    model = classifier(optimizer="fobos", conversion="last")
    with plain_python(), np.errstate(over="ignore"):
        found = [fit(clone(model), data) for data in ((X, y), frames.from_pandas(frame, npartitions=2), examples)]
        assert fit(model, (X, y), classes=every.tolist()).classes_.dtype.kind == every.dtype.kind
    types = [every.dtype, frame.label.to_numpy().dtype, np.array(every.tolist()).dtype]
    for each, dtype in zip(found, types, strict=True):
        assert each.classes_.dtype == each.predict(X).dtype == dtype and each.classes_.tolist() == every.tolist()


def test_hashed_features_have_the_names_that_one_stream_keeps(tmp_path):
    rng = np.random.default_rng(0)
    for part in range(2):
        words = [rng.permutation(12)[:4] + 6 * part for _ in range(400)]
        lines = [f"{1 if {7, 15} & {*some} else -1} | " + " ".join(f"w{word}" for word in some) for some in words]
        (tmp_path / f"{part}.vw").write_text("\n".join(lines) + "\n")
        convert(open_stream(tmp_path / f"{part}.vw", hash_bits=6), tmp_path / f"cache-{part}")
    paths = [str(tmp_path / f"{part}.vw") for part in range(2)]
    caches = [str(tmp_path / f"cache-{part}") for part in range(2)]
    alone = open_stream(paths, hash_bits=6)
    assert len(list(alone)) > 0
    found = train_on(classifier(), paths, reader={"hash_bits": 6}, name_hashed=True)
    used = np.flatnonzero(found.model.coef_[0]).tolist()
    assert len(used) > 1 and found.names == {column: alone.names[column] for column in used}
    assert train_on(classifier(), caches, name_hashed=True).names == found.names


def test_rows_may_have_more_columns_later(tmp_path):
    X = sp.csr_array(np.eye(8)[np.arange(1600) % 8])
    y = np.where(np.arange(1600) % 8 == 7, 1, -1)
    order = np.argsort(np.arange(1600) % 8 >= 4, kind="stable")  # the last columns in the last partition only
    X, y = X[order], y[order]
    y[:100] = 1
    cuts = [slice(k * 400, k * 400 + 400) for k in range(4)]
    paths = [write_libsvm(tmp_path / f"{k}.svm", X[cut], y[cut]) for k, cut in enumerate(cuts)]
    model = fit(classifier(), paths, round_rows=64)
    assert model.coef_.shape == (1, 8) and model.coef_[0, 7] > 0.0
    assert model.predict(np.eye(8)[7:]) == [1]


# ---- many fits -------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the least loss is at")
@pytest.mark.parametrize("method", [{"optimizer": "fobos", "conversion": "last"}, {}])
def test_folds_on_workers_are_the_folds_here(rows, client, method):
    from sparsco import SparseClassifierCV

    def model():
        return SparseClassifierCV(classifier(**method), n_alphas=2, cv=3, choose="1-se")

    alone, there = model().fit(*rows), fit(model(), rows, client)
    assert_same(there, alone)
    assert np.array_equal(there.fold_losses_, alone.fold_losses_) and there.alpha_ == alone.alpha_
    assert "_pool" not in vars(there)
    with pytest.raises(ValueError, match="cross-validation assigns all rows to folds"):
        fit(model(), "files.svm", client)


def test_strengths_on_workers_are_those_of_one_path(rows, files, client, monkeypatch):
    from sparsco import SparsePath

    X, y = rows
    from sparsco.distributed import strategies

    monkeypatch.setattr(strategies, "STRENGTHS", 2)

    def path():
        return SparsePath(classifier(optimizer="fobos", conversion="last"), n_alphas=4)

    here, there = fit(path(), files), fit(path(), files, client)
    assert np.array_equal(here.path_.coefs.toarray(), there.path_.coefs.toarray())
    assert np.array_equal(here.path_.losses, there.path_.losses) and here.alpha_ == there.alpha_
    one = path().partial_fit(X, y, classes=[-1, 1]).path_
    np.testing.assert_allclose(here.path_.coefs.toarray(), one.coefs.toarray(), atol=1e-8)
    np.testing.assert_allclose(here.path_.losses, one.losses, rtol=1e-8)
    assert here.predict(X).shape == (N,)


@pytest.mark.parametrize("method", ["sts", "paper"])
def test_paths_of_a_stable_selection_on_workers(rows, files, client, method):
    from sparsco import StableSparseClassifier
    from sparsco.selection.stable import Stabilized

    X, y = rows[0][:1500], rows[1][:1500]
    settings = {"sts": {"n_features": 10}, "paper": {"method": Stabilized(paths=4, passes=1, K=50)}}[method]
    alone = StableSparseClassifier(**settings, random_state=0).fit(X, y)
    there = fit(StableSparseClassifier(**settings, random_state=0), (X, y), client)
    assert_same(there, alone)
    streamed = fit(StableSparseClassifier(**settings, random_state=0), files, client)
    here = fit(StableSparseClassifier(**settings, random_state=0), files)
    assert_same(streamed, here)
    assert streamed.n_features_in_ == D and 0 < streamed.n_nonzero_


def test_arrays_in_memory_are_partitions_too(rows, client):
    X, y = rows
    here = fit(classifier(), (X, y), partitions=3, round_rows=256)
    assert_same(fit(classifier(), (X, y), client, partitions=3, round_rows=256), here)
    assert here.report_["distributed"]["partitions"] == [2000, 2000, 2000]


def test_the_command(files, client, tmp_path, capsys):
    from sparsco import load
    from sparsco.cli import main
    from sparsco.training.model_files import read

    out, address = tmp_path / "out.model", client.scheduler.address
    settings = ["--alpha", "2e-3", "--dask", address, "--json"]
    assert main(["train", *files, "-m", str(out), "--test", files[0], *settings]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["rows"] == N and outcome["test"]["rows"] == 700
    assert any(note.startswith("partitions: 5, rounds: ") for note in outcome["notes"])
    assert np.array_equal(load(out).coef_, fit(classifier(), files).coef_)
    words = tmp_path / "words.vw"
    words.write_text("".join(f"{1 if k % 3 else -1} | w{k % 3} other\n" for k in range(200)))
    hashed = ["--hash-bits", "8", "-m", str(out)]
    assert main(["train", str(words), *hashed, *settings]) == 0
    there = read(out)["names"]
    assert main(["train", str(words), *hashed, "--alpha", "2e-3"]) == 0
    alone = read(out)["names"]
    assert "w0" in there.values() and all(alone.get(column, name) == name for column, name in there.items())
    capsys.readouterr()
    for wrong in (
        ["--polish"],
        ["--classes", "any"],
        ["--save-state"],
        ["--no-shuffle"],
        ["--no-cache"],
    ):
        assert main(["train", *files, "-m", str(out), "--dask", address, *wrong]) == 2
        assert f"{wrong[0]}" in capsys.readouterr().err
    assert main(["train", *files, "-m", str(out), "--dask", "local:0"]) == 2
    assert main(["train", *files, "-m", str(out), "--dask", "local"]) == 2
    assert "'local': give a number of processes, for instance local:4" in capsys.readouterr().err


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"conversion": "random"}, "single iterates of one stream"),
        ({"conversion": "weighted"}, "single iterates of one stream"),
        ({"optimizer": "orda"}, "cannot be averaged over partitions"),
        ({"polish": True}, "polish=True is not for data in partitions"),
        ({"storage": "seen"}, "storage='seen' is not for data in partitions"),
        ({"early_stopping": True}, "early_stopping=True is not for data in partitions"),
        ({"max_iter": 7}, "max_iter=7 is not for data in partitions: the rows are read as often as passes= says"),
        ({"tol": 1e-5}, "tol=1e-05 is not for data in partitions"),
        ({"n_iter_no_change": 3}, "n_iter_no_change=3 is not for data in partitions"),
    ],
)
def test_settings_that_partitions_cannot_have(rows, settings, words):
    model = classifier(**settings)
    with plain_python(), np.errstate(over="ignore"), pytest.raises(ValueError, match=words):
        fit(model, (rows[0][:40], rows[1][:40]))
    assert not hasattr(model, "n_iter_")


@pytest.mark.parametrize("name, value", [("passes", 2), ("round_rows", 9), ("partitions", 3), ("progress", True)])
def test_arguments_that_do_not_count_are_refused(rows, files, name, value):
    from sparsco import SparseClassifierCV, SparsePath, StableSparseClassifier

    for model, data in (
        (SparseClassifierCV(classifier()), rows),
        (StableSparseClassifier(), rows),
        (StableSparseClassifier(), files),
        (SparsePath(classifier()), files),
    ):
        with pytest.raises(ValueError, match=f"{name}= cannot be used with a {type(model).__name__}: "):
            fit(model, data, **{name: value})
        if data is rows:
            with pytest.raises(ValueError, match="reader=, classes= cannot be used"):
                fit(model, data, reader={}, classes=[-1, 1])


def test_classes_are_not_for_a_regression():
    from sparsco import SparsePath, StableSparseRegressor

    for model in (SparseRegressor(), SparsePath(SparseRegressor()), StableSparseRegressor()):
        with pytest.raises(ValueError, match=f"classes= cannot be used with a {type(model).__name__}"):
            fit(model, "files.svm", classes=[0, 1])


def test_a_path_reads_rows_as_often_as_it_says():
    from sparsco import SparsePath

    X, y = small_rows()
    simple = classifier(alpha=0.05, optimizer="rda", conversion="last")
    with plain_python(), np.errstate(over="ignore"):
        path = fit(SparsePath(simple, n_alphas=2, passes=3, validation="progressive", choose=4), (X, y))
    assert path.model_.report_["examples"] == 3 * len(y)


def test_bad_data_is_named(files, tmp_path, client):
    wrong = write_libsvm(tmp_path / "wrong.svm", sp.eye_array(3), [1, 5, -1])
    for where in (None, client):
        with pytest.raises(ValueError, match=r"wrong.svm, row 2 has the label 5, which is not one of the classes"):
            fit(classifier(), [*files, wrong], where)
    with pytest.raises(ValueError, match="data is a dict: it must be a list of files"):
        fit(classifier(), {})
    with pytest.raises(FileNotFoundError):
        fit(classifier(), str(tmp_path / "none-*.svm"))
    with pytest.raises(ValueError, match="partitions=0"):
        fit(classifier(), files, partitions=0)
    with pytest.raises(ValueError, match="round_rows=0"):
        fit(classifier(), files, round_rows=0)
    with pytest.raises(ValueError, match="client=3"):
        fit(classifier(), files, 3)
    with pytest.raises(ValueError, match="local:4"):
        fit(classifier(), files, "local:x")
    with pytest.raises(ValueError, match="standard input"):
        fit(classifier(), "-")
    with pytest.raises(ValueError, match="estimator=3"):
        fit(3, files)
    X, y = np.eye(40), np.tile([1, -1], 20)
    for weights, words in (
        (np.r_[1.0, -1.0, np.ones(38)], "row 2 has -1"),
        (np.full(40, np.nan), "row 1 has nan"),
        (np.zeros(40), "weight 0"),
    ):
        with pytest.raises(ValueError, match=words):
            fit(classifier(), (X, y, weights), partitions=1)
    with pytest.raises(ValueError, match="no rows"):
        fit(classifier(), (X[:0], y[:0]))
    with pytest.raises(ValueError, match="row 3 has an infinite target"):
        fit(SparseRegressor(), (X, np.r_[0.0, 1.0, np.inf, np.ones(37)]), partitions=1)


def pairs_of_collections():
    dask, array = pytest.importorskip("dask"), pytest.importorskip("dask.array")
    frames, pandas = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    X, y = small_rows()
    table, series = pandas.DataFrame(X, columns=list("dcba")), pandas.Series(y)
    spoilt, unlabelled, both = X.copy(), y.astype(float), np.c_[y, y]
    spoilt[130, 2], unlabelled[70] = np.nan, np.nan
    holes = table.mask(np.isnan(spoilt))
    arrays, frame = array.from_array(X, chunks=(60, 3)), frames.from_pandas(table, npartitions=4)
    labels = frames.from_pandas(series, npartitions=4)
    good = [(frame, labels), (arrays, y), (arrays, y.tolist()), (arrays, labels)]
    good += [(frame, array.from_array(y, chunks=60))]
    bad = [
        ((frame, frames.from_pandas(series.to_frame(), npartitions=4)), "y has 2 dimensions: give one column"),
        ((X, both), "y has 2 dimensions"),
        ((arrays, both), "y has 2 dimensions"),
        ((frame, frames.from_pandas(series, npartitions=3)), "X and y have 4 and 3 blocks of rows"),
        ((frame, y), "y is in memory, but the block sizes of X are unknown"),
        ((X, labels), "X must be a Dask array"),
        (labels, "data is a Series"),
        (arrays, "data is a Array"),
        ((array.from_array(spoilt, chunks=60), y), "the array, block 2: .*row 11: X has NaN"),
        ((spoilt, y), "rows 120 to 149 of .*row 11: X has NaN"),
        ((frames.from_pandas(table, npartitions=4).assign(c=np.inf), labels), "block 0: the table, row 1: column 'c'"),
        ((frames.from_pandas(holes, npartitions=4), labels), "block 2: the table, row 11: column '.' has no number"),
        ((arrays, unlabelled), "the array, block 1: row 11 has no label"),
        ([dask.delayed(X), dask.delayed(y)], "the delayed chunks, block 0: it has rows and no targets"),
        (dask.delayed((X, y[:9])), r"the delayed chunks, block 0: X has 240 rows and y the shape \(9,\)"),
    ]
    return good, dask.delayed((X, y)), (table, series), bad


def test_pairs_of_collections():
    good, single, here, bad = pairs_of_collections()
    simple = classifier(alpha=0.05, optimizer="rda", conversion="last")
    with plain_python(), np.errstate(over="ignore"):
        found = [fit(clone(simple), data, partitions=4) for data in (small_rows(), *good, here)]
        assert_same(fit(clone(simple), single), fit(clone(simple), [single]))
        for data, words in bad:
            with pytest.raises(ValueError, match=words):
                fit(clone(simple), data)
    for each in found[1:]:
        assert_same(each, found[0])
    assert found[1].feature_names_in_.tolist() == found[-1].feature_names_in_.tolist() == list("dcba")


def test_partitions_of_several_kinds_are_refused(files, tmp_path):
    (tmp_path / "words.vw").write_text("1 | a b c\n-1 | b c:2\n" * 20)
    with pytest.raises(ValueError, match=r"words.vw is not read like .*part-0.svm: give files or blocks of one format"):
        fit(classifier(), [files[0], str(tmp_path / "words.vw")])
    convert(open_stream(str(tmp_path / "words.vw")), tmp_path / "cache")
    with pytest.raises(ValueError, match="cache of named features"):
        fit(classifier(), [str(tmp_path / "cache")])


def test_an_empty_first_partition_does_not_decide_what_columns_are(rows):
    delayed = pytest.importorskip("dask").delayed
    X, y = rows
    parts = [sp.csr_array(X[a : a + 1000]) for a in range(0, 3000, 1000)]
    named = [
        [
            ({f"f{j}": x for j, x in zip(part.indices[a:b].tolist(), part.data[a:b].tolist(), strict=True)}, label)
            for a, b, label in zip(part.indptr, part.indptr[1:], y[1000 * k :].tolist(), strict=False)
        ]
        for k, part in enumerate(parts)
    ]
    first, last, whole = (
        fit(classifier(), [delayed(each, traverse=False) for each in every])  # Dask need not look through the rows
        for every in ([[], *named], [*named, []], named)
    )
    for model in (first, last):  # the tree of sums is another
        assert np.array_equal(model.coef_ != 0.0, whole.coef_ != 0.0)
        np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-9)


def test_persisted_collections_are_refused(rows, client):
    array = pytest.importorskip("dask.array")
    X, y = array.from_array(rows[0].toarray()[:100], chunks=50), array.from_array(rows[1][:100], chunks=50)
    with pytest.raises(ValueError, match="data was persisted"):
        fit(classifier(), (client.persist(X), y), client)
    with pytest.raises(ValueError, match="X has 100 rows and y 50"):
        fit(classifier(), (X, y[:50]))


def test_what_is_parallel_through_joblib_runs_on_dask(rows, client):
    """By joblib's own backend; what shares memory stays in threads."""
    import joblib
    from sklearn.model_selection import GridSearchCV

    from sparsco import SparseClassifierCV

    X, y = rows[0][:800], rows[1][:800]
    search = GridSearchCV(classifier(max_iter=1), {"alpha": [1e-3, 1e-2]}, cv=2)
    folds = SparseClassifierCV(classifier(optimizer="fobos", conversion="last"), n_alphas=2, cv=3)
    alone, weights = search.fit(X, y).cv_results_["mean_test_score"], folds.fit(X, y).coef_
    with joblib.parallel_config(backend="dask"):
        assert np.array_equal(search.fit(X, y).cv_results_["mean_test_score"], alone)
        assert np.array_equal(folds.fit(X, y).coef_, weights)
