"""Data sets by name: generated files of the real ones' shapes, damaged ones, a local server, real files if there."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import struct
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from sparsco import datasets
from sparsco.datasets.registry import REGISTRY, Dataset, DownloadError, File, MissingDataError

PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
TINY = b"1 1:0.5 3:2\n-1\n1 2:-1e-3\n"
DIGITS = np.arange(10_000) % 10


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder, and a cache folder without anything of the user's."""
    monkeypatch.setenv("SPARSCO_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "data"


@pytest.fixture
def tiny(folder, monkeypatch):
    """A data set of three rows, registered for one test."""
    file = File("tiny/tiny.txt", 3, hashlib.sha256(TINY).hexdigest())
    monkeypatch.setitem(REGISTRY, "tiny", Dataset("tiny", 4, (-1, 1), "https://example.org/tiny", {"train": (file,)}))
    return folder


def put(folder, path, contents):
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(contents)
    return target


def idx(values):
    return struct.pack(f">4B{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


def put_mnist(folder, images, labels):
    put(folder, "mnist/t10k-images-idx3-ubyte.gz", gzip.compress(idx(images.astype(np.uint8)), 1))
    put(folder, "mnist/t10k-labels-idx1-ubyte", idx(labels.astype(np.uint8)))


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("rcv1", ""), ("gisette", ".bz2"), ("gisette", ".xz"), ("real-sim", ".gz"), ("E2006-tfidf", ".bz2")],
)
def test_generated_files_of_the_real_shape(folder, name, suffix):
    rng = np.random.default_rng(0)
    dataset = REGISTRY[name]
    for part, (file,) in dataset.parts.items():
        columns = rng.integers(dataset.features, size=file.rows)
        values = np.round(rng.normal(size=file.rows), 3) + 5.0  # no zeros: those are dropped
        targets = rng.choice([-1, 1], file.rows) if dataset.labels else np.round(rng.normal(size=file.rows), 3)
        lines = (f"{y} {j + 1}:{v!r}\n" for y, j, v in zip(targets.tolist(), columns, values.tolist(), strict=True))
        put(folder, file.path + suffix, PACKERS[suffix]("".join(lines).encode()))
        X, y = datasets.load(name, part)
        assert X.shape == (file.rows, dataset.features) and X.format == "csr" and X.dtype == y.dtype == np.float64
        assert np.array_equal(X.indices, columns) and np.array_equal(X.data, values) and np.array_equal(y, targets)


def test_mnist_as_idx_files(folder):
    images = np.random.default_rng(0).integers(256, size=(10_000, 28, 28)) * (DIGITS[:, None, None] % 3 == 0)
    put_mnist(folder, images, DIGITS)
    X, y = datasets.load("mnist", "test")
    assert X.dtype == np.float64 and y.dtype == np.int64
    assert np.array_equal(X.toarray(), images.reshape(-1, 784)) and np.array_equal(y, DIGITS)

    X, y = datasets.mnist_pair(3, 5, "test")
    chosen = np.isin(DIGITS, (3, 5))
    assert np.array_equal(X.toarray(), images[chosen].reshape(-1, 784) / 255.0)
    assert np.array_equal(y, np.where(DIGITS[chosen] == 3, 1.0, -1.0))
    for digits in ((3, 3), (3, 10)):
        with pytest.raises(ValueError, match="two different digits"):
            datasets.mnist_pair(*digits)


def test_targets_in_a_file_of_their_own_and_parts_that_share_a_file(folder, monkeypatch):
    monkeypatch.setitem(REGISTRY, "rated", Dataset("rated", 4, (), "", {"train": (File("x", 3), File("y.txt", 3))}))
    whole, rest = (File("x", 3, span=span) for span in (slice(2), slice(2, None)))
    monkeypatch.setitem(REGISTRY, "cut", Dataset("cut", 4, (-1, 1), "", {"train": (whole,), "test": (rest,)}))
    put(folder, "x", TINY)
    ratings = put(folder, "y.txt.gz", gzip.compress(b"7\n2.5\n10\n"))
    X, y = datasets.load("rated")
    assert X.shape == (3, 4) and y.tolist() == [7.0, 2.5, 10.0]
    for part, rows in (("train", slice(2)), ("test", slice(2, None))):
        X_part, y_part = datasets.load("cut", part)
        assert np.array_equal(X_part.toarray(), X[rows].toarray()) and y_part.tolist() == [1.0, -1.0, 1.0][rows]
    assert len(datasets.verify("cut")) == 1
    assert next(line.rows for line in datasets.listing() if line.name == "cut") == (2, 1)
    ratings.write_bytes(gzip.compress(b"7\n10\n"))
    with pytest.raises(ValueError, match=r"y\.txt\.gz holds 2 targets for 3 rows"):
        datasets.load("rated")


def test_the_cache_folder_comes_second_and_plain_files_before_packed_ones(tiny, tmp_path, monkeypatch):
    cached = put(tmp_path / "cache/sparsco/data", "tiny/tiny.txt.gz", gzip.compress(TINY))
    assert datasets.find("tiny") == [cached]
    packed = put(tiny, "tiny/tiny.txt.xz", lzma.compress(TINY))
    assert datasets.find("tiny") == [packed]
    plain = put(tiny, "tiny/tiny.txt", TINY)
    assert datasets.find("tiny") == [plain]
    monkeypatch.delenv("SPARSCO_DATA")
    assert datasets.find("tiny") == [cached]


@pytest.mark.parametrize(
    ("contents", "sentence"),
    [
        (b"1 1:1\n-1 2:1\n", "holds 2 rows of 4 features, expected 3 rows of 4 features"),
        (TINY + b"1 1:1\n", "holds 4 rows of 4 features"),
        (b"", "holds 0 rows"),
        (b"1 1:1\n-1 5:1\n1\n", "has a feature 5, expected 4 features"),
        (b"1 0:1\n-1 2:1\n1\n", "line 1: '0:1' has the index 0"),
        (b"1 2:1 2:1\n-1\n1\n", "line 1: '2:1' repeats an index"),
        (b"1 1:1\n-1 2:1 3\n1\n", "line 2: '3' is not a feature"),
        (b"1 1:one\n-1\n1\n", "line 1: '1:one' has no number"),
        (b"1 99999999999999999999999:1\n-1\n1\n", "line 1: .* has an index beyond"),
        (b"<html>\n-1\n1\n", "line 1: '<html>' is not a label"),
        (b"1 1:nan\n-1\n1\n", "line 1: '1:nan' is not finite"),
        (b"inf 1:1\n-1\n1\n", "line 1: 'inf' is not finite"),
        (b"1 1:1\n0 2:1\n1\n", "holds the label 0, expected -1, 1"),
        (b"1 1:1\n0.5 2:1\n1\n", "holds the label 0.5"),
    ],
)
def test_bad_text_is_refused_by_name(tiny, contents, sentence):
    path = put(tiny, "tiny/tiny.txt", contents)
    with pytest.raises(ValueError, match=sentence) as caught:
        datasets.load("tiny")
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "not compressed", "empty"])
def test_damaged_compression_is_refused_by_name(tiny, suffix, damage):
    packed = bytearray(PACKERS[suffix](TINY))
    packed[len(packed) // 2] ^= 0xFF
    contents = {"cut": PACKERS[suffix](TINY)[:-9], "flipped": bytes(packed), "not compressed": TINY, "empty": b""}[
        damage
    ]
    path = put(tiny, "tiny/tiny.txt" + suffix, contents)
    for use in (datasets.load, datasets.verify):
        with pytest.raises(ValueError) as caught:
            use("tiny")
        assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


def test_bad_idx_files_are_refused_by_name(folder):
    blank = np.zeros((10_000, 28, 28))
    put_mnist(folder, blank, DIGITS + 1)
    with pytest.raises(ValueError, match="labels-idx1-ubyte holds the label 10"):
        datasets.load("mnist", "test")
    put_mnist(folder, blank[:9_999], DIGITS)
    with pytest.raises(ValueError, match=r"images-idx3-ubyte\.gz holds 9999 rows of 784 features"):
        datasets.load("mnist", "test")
    put_mnist(folder, blank[:, :20], DIGITS)
    with pytest.raises(ValueError, match=r"images-idx3-ubyte\.gz holds 10000 rows of 560 features"):
        datasets.load("mnist", "test")
    put_mnist(folder, blank, DIGITS[:-1])
    with pytest.raises(ValueError, match="labels-idx1-ubyte holds 9999 targets"):
        datasets.load("mnist", "test")
    put_mnist(folder, DIGITS, blank)  # exchanged
    with pytest.raises(ValueError, match=r"images-idx3-ubyte\.gz cannot be read: it does not begin"):
        datasets.load("mnist", "test")
    put_mnist(folder, blank, DIGITS)
    labels = folder / "mnist/t10k-labels-idx1-ubyte"
    for contents, sentence in ((labels.read_bytes()[:-1], "it holds 9999 values"), (b"\0\0\x08\x01\0", "buffer")):
        labels.write_bytes(contents)
        with pytest.raises(ValueError, match=f"labels-idx1-ubyte cannot be read: {sentence}"):
            datasets.load("mnist", "test")


def test_missing_data_says_what_belongs_where(folder, tmp_path):
    with pytest.raises(MissingDataError) as caught:
        datasets.load("mnist")
    assert str(caught.value) == (
        "mnist needs mnist/train-images-idx3-ubyte and mnist/train-labels-idx1-ubyte (plain, .gz, .bz2 or .xz) in "
        f"{folder} or {tmp_path / 'cache' / 'sparsco' / 'data'}: run `sparsco datasets download mnist`"
    )
    with pytest.raises(FileNotFoundError, match=f"a9a/a9a.libsvm .*no direct download.*{REGISTRY['a9a'].source}"):
        datasets.load("a9a")
    with pytest.raises(ValueError, match="unknown data set 'nist': choose from mnist, rcv1"):
        datasets.load("nist")
    with pytest.raises(ValueError, match="w8a has no part 'test', only train"):
        datasets.load("w8a", "test")
    assert {line.where for line in datasets.listing()} == {"missing"}
    put(folder, "rcv1/rcv1_train.binary", b"")
    assert next(line.where for line in datasets.listing() if line.name == "rcv1") == f"{folder / 'rcv1'} (train only)"


def test_the_registry_is_consistent():
    for name, dataset in REGISTRY.items():
        assert name == dataset.name and "train" in dataset.parts and dataset.source.startswith("http")
        for file in (file for files in dataset.parts.values() for file in files):
            assert file.sha256 is None or len(file.sha256) == 64
            # either a copy was at hand or anyone can get one
            assert file.sha256 or file.address or "by hand" in dataset.notes
            assert file.address is None or file.address.rsplit("/")[-1].startswith(file.path.rsplit("/")[-1] + ".")
    assert {REGISTRY[name].task for name in ("rcv1", "mnist", "cpusmall")} == {"binary", "classes", "regression"}


def test_index_lists_are_rows_of_ones(folder):
    put(folder, "dorothea/dorothea_train.data", b"1 3 \n" * 799 + b"100000\n")
    put(folder, "dorothea/dorothea_train.labels", b"1\n" * 799 + b"-1\n")
    X, y = datasets.load("dorothea")
    assert X.shape == (800, 100_000) and X.nnz == 2 * 799 + 1 and X[0, 2] == 1.0 and y[[0, -1]].tolist() == [1, -1]


# --- fetching ---------------------------------------------------------------------------------------------------------


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder; "broken", "chunked" and "forbidden" in an address say what goes wrong."""

    asked: list[str] = []

    def do_GET(self):
        self.asked.append(self.path)
        if "forbidden" in self.path:
            self.send_error(403)
        elif "broken" in self.path:
            self.send_response(200)
            self.send_header("Content-Length", str(2 * len(TINY)))
            self.end_headers()
            self.wfile.write(TINY)
        elif "chunked" in self.path:
            self.protocol_version = "HTTP/1.1"
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(TINY), TINY))
            self.close_connection = True
        elif "untold" in self.path:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(TINY)
        else:
            super().do_GET()

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A local server of the folder "served": its address; ``Handler.asked`` notes the requests."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "served").mkdir()
    Handler.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=tmp_path / "served")) as served:
        threading.Thread(target=served.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


def register(monkeypatch, address):
    """The tiny data set with an address of its own."""
    file = REGISTRY["tiny"].parts["train"][0]._replace(address=address)
    monkeypatch.setitem(REGISTRY, "tiny", REGISTRY["tiny"]._replace(parts={"train": (file,)}))


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("given", ["root", "registered"])
def test_download(tiny, tmp_path, server, monkeypatch, suffix, given):
    put(tmp_path / "served", "tiny/tiny.txt" + suffix, PACKERS[suffix](TINY))
    if given == "registered":
        register(monkeypatch, f"{server}/tiny/tiny.txt{suffix}")
    root, heard = (f"{server}/" if given == "root" else None), []
    copies = datasets.download("tiny", address=root, progress=lambda *figures: heard.append(figures))
    length = len(PACKERS[suffix](TINY))
    assert heard[-1] == (length, length)
    assert copies == [(tiny / ("tiny/tiny.txt" + suffix), hashlib.sha256(TINY).hexdigest(), True)]
    assert files_below(tiny) == ["tiny/tiny.txt" + suffix]
    assert copies[0].path.stat().st_mode & 0o777 == 0o666 & ~umask()  # not a temporary file's
    assert datasets.load("tiny")[1].tolist() == [1.0, -1.0, 1.0]

    requests = len(Handler.asked)
    assert datasets.download("tiny", address=root) == copies and len(Handler.asked) == requests  # it is there
    (elsewhere,) = datasets.download("tiny", tmp_path / "elsewhere", root)
    assert elsewhere.path == tmp_path / "elsewhere" / "tiny" / ("tiny.txt" + suffix)


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_without_a_checksum_the_one_found_is_told(tiny, server, monkeypatch):
    register(monkeypatch, f"{server}/untold")
    file = REGISTRY["tiny"].parts["train"][0]._replace(sha256=None)
    monkeypatch.setitem(REGISTRY, "tiny", REGISTRY["tiny"]._replace(parts={"train": (file,)}))
    heard = []
    (copy,) = datasets.download("tiny", progress=lambda *figures: heard.append(figures))
    assert copy[1:] == (hashlib.sha256(TINY).hexdigest(), False) and heard == [(len(TINY), None)]
    assert datasets.verify("tiny") == [copy]


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("nowhere", "HTTP Error 404"),
        ("forbidden", "HTTP Error 403"),
        ("broken", f"ended after {len(TINY)} of {2 * len(TINY)} bytes"),
        ("chunked", "IncompleteRead"),
        ("other", "the file received is damaged or another version: SHA-256 [0-9a-f]{64}, expected"),
        ("cut.gz", "the file received cannot be read: Compressed file ended"),
        ("page.gz", "the file received cannot be read: its name ends with .gz"),
    ],
)
def test_a_failed_download_leaves_nothing_behind(tiny, tmp_path, server, monkeypatch, path, sentence):
    served = {"other": TINY + b"1\n", "cut.gz": gzip.compress(TINY)[:-9], "page.gz": b"<html>moved</html>"}
    for name, contents in served.items():
        put(tmp_path / "served", name, contents)
    register(monkeypatch, f"{server}/{path}")
    with pytest.raises(DownloadError, match=sentence) as caught:
        datasets.download("tiny")
    assert str(caught.value).startswith(f"{server}/{path} was not downloaded to {tiny / 'tiny'}")
    assert not list((tiny / "tiny").glob("*")) and not list((tiny / "tiny").glob(".*"))
    assert datasets.listing()[-1][::4] == ("tiny", "missing")


def test_interrupted_refused_and_unknown(tiny, tmp_path, server):
    put(tmp_path / "served", "tiny/tiny.txt", TINY)

    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        datasets.download("tiny", address=server, progress=interrupt)
    assert not files_below(tiny)
    with pytest.raises(DownloadError, match=r"http://127\.0\.0\.1:1/tiny/tiny\.txt was not downloaded"):
        datasets.download("tiny", address="http://127.0.0.1:1")
    with pytest.raises(DownloadError, match="unknown url type"):
        datasets.download("tiny", address="nonsense")
    with pytest.raises(DownloadError, match="HTTP Error 404"):
        datasets.download("tiny", address=f"{server}/elsewhere")
    with pytest.raises(DownloadError, match="was not downloaded"):
        datasets.download("tiny", folder=put(tmp_path, "a-file", b""), address=server)
    with pytest.raises(MissingDataError, match="no direct download is known.*example.org"):
        datasets.download("tiny")
    assert not files_below(tiny)


def test_a_file_that_cannot_be_written_whole(tiny, tmp_path, server):
    resource = pytest.importorskip("resource", reason="a limit on the size of files stands in for a full disk")
    put(tmp_path / "served", "tiny/tiny.txt", TINY)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(TINY) // 2, hard))
        with pytest.raises(DownloadError, match=r"tiny\.txt was not downloaded .*: \[Errno"):
            datasets.download("tiny", address=server)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not files_below(tiny)


def test_a_damaged_copy_is_neither_used_nor_overwritten(tiny, tmp_path, server):
    put(tmp_path / "served", "tiny/tiny.txt", TINY)
    path = put(tiny, "tiny/tiny.txt.gz", gzip.compress(TINY.replace(b"0.5", b"0.7")))
    for use in (datasets.verify, partial(datasets.download, address=server)):
        with pytest.raises(ValueError, match="is damaged or another version: SHA-256") as caught:
            use("tiny")
        assert str(caught.value).startswith(str(path))
    assert files_below(tiny) == ["tiny/tiny.txt.gz"] and not Handler.asked


def test_two_at_once(tiny, tmp_path, server):
    put(tmp_path / "served", "tiny/tiny.txt", TINY)
    slow = partial(datasets.download, "tiny", address=server, progress=lambda done, total: time.sleep(0.1))
    threads = [threading.Thread(target=slow) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert files_below(tiny) == ["tiny/tiny.txt"] and datasets.verify("tiny")[0].verified


# --- the real files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, dataset in REGISTRY.items() if dataset.parts["train"][0].sha256])
def test_real_files(name):
    if not os.environ.get("SPARSCO_DATA"):
        pytest.skip("real data is looked for below SPARSCO_DATA, which is not set")
    try:
        copies = datasets.verify(name)
    except MissingDataError as error:
        pytest.skip(str(error))
    assert all(copy.verified for copy in copies)
    if sum(path.stat().st_size for path in datasets.find(name, "train")) < 1_000_000:  # parsing is the slow part
        for part in REGISTRY[name].parts:
            datasets.load(name, part)


def test_real_mnist():
    if not os.environ.get("SPARSCO_DATA"):
        pytest.skip("MNIST is looked for below SPARSCO_DATA, which is not set")
    X, y = datasets.load("mnist", "test")
    assert X.max() == 255.0 and np.bincount(y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
