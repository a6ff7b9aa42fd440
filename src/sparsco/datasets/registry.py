"""Real data sets by name: their files, and how these are found, read, checked and downloaded.

Files are looked up below the folder named by ``SPARSCO_DATA``, then in the user's cache folder (``sparsco/data`` below
``XDG_CACHE_HOME`` or ``~/.cache``), plain or compressed.  Only `download` downloads.

>>> from sparsco import datasets
>>> rcv1 = datasets.REGISTRY["rcv1"]
>>> rcv1.features, rcv1.task, [(part, files[0].path, files[0].rows) for part, files in rcv1.parts.items()]
(47236, 'binary', [('train', 'rcv1/rcv1_train.binary', 20242), ('test', 'rcv1/rcv1_test.binary', 677399)])

``X, y = datasets.load("rcv1", "train")`` then returns a CSR matrix and the labels.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
from scipy.sparse import csr_matrix

from ..util.atomic_files import replacing
from ..util.folders import cache_folder, expanded

_PACKED = ("", ".gz", ".bz2", ".xz")
Progress = Callable[[int, int | None], None]


class MissingDataError(FileNotFoundError):
    """The error for a data set whose file is in none of the folders; the message names the file and the folders."""


class DownloadError(OSError):
    """The error for a file that could not be downloaded; no part of it is left behind."""


# --- reading files ----------------------------------------------------------------------------------------------------


def _opened(path: Path, called: str = "") -> AbstractContextManager[Any]:
    """Return the decompressed file; errors in its contents become a ValueError that names it."""
    from ..streams.files import opened

    return opened(path, called)


def read_libsvm(paths: Sequence[Path], features: int) -> tuple[csr_matrix, np.ndarray]:
    """Return the rows of a LIBSVM text file, columns counted from 1; a second file may hold the targets."""
    from ..data.rows import Matrix, stack
    from ..streams import open_stream  # takes a second to import, which listing and downloading do not need

    chunks = list(open_stream(paths[0], "libsvm", zero_based=False))
    d = max((chunk.d for chunk in chunks), default=0)
    if d > features:
        raise ValueError(f"{paths[0]} has a feature {d}, expected {features} features")
    rows = stack([Matrix(np.zeros(1, np.int64), np.zeros(0, np.uint32), np.zeros(0), 0), *(c.matrix for c in chunks)])
    X = csr_matrix((rows.data, rows.indices.view(np.int32), rows.indptr), shape=(len(rows), features))
    y = np.concatenate([np.zeros(0), *(chunk.y for chunk in chunks)])
    if len(paths) > 1:
        with _opened(paths[1]) as text:
            y = np.loadtxt(text, ndmin=1)
    return X, y


def read_index_lists(paths: Sequence[Path], features: int) -> tuple[csr_matrix, np.ndarray]:
    """Return rows from a file with the columns of ones, counted from 1, per line; a second file holds the labels."""
    with _opened(paths[0]) as text:
        rows = [np.array(line.split(), np.int64) - 1 for line in text]
    with _opened(paths[1]) as text:
        y = np.loadtxt(text, ndmin=1)
    indptr = np.cumsum([0, *map(len, rows)])
    return csr_matrix((np.ones(indptr[-1]), np.concatenate(rows), indptr), (len(rows), features)), y


def read_mnist(paths: Sequence[Path], features: int) -> tuple[csr_matrix, np.ndarray]:
    """Return images and labels from idx files, with pixels from 0 to 255."""
    images, labels = (_read_idx(path, axes) for path, axes in zip(paths, (3, 1), strict=True))
    return csr_matrix(images.reshape(len(images), -1)).astype(np.float64), labels


def _read_idx(path: Path, axes: int) -> np.ndarray:
    """Return an idx file of bytes: 0, 0, 8 (the type), the number of axes, their lengths (big-endian), the values."""
    with _opened(path) as stream:
        raw = stream.read()
        if raw[:4] != bytes([0, 0, 8, axes]):
            raise ValueError(f"it does not begin like an idx file of bytes with {axes} axes")
        shape = np.frombuffer(raw, ">u4", axes, 4).tolist()
        values = np.frombuffer(raw, np.uint8, offset=4 + 4 * axes)
        if len(values) != math.prod(shape):
            raise ValueError(f"it holds {len(values)} values, its header promises {math.prod(shape)}")
        return values.reshape(shape)


# --- records ----------------------------------------------------------------------------------------------------------


class File(NamedTuple):
    """One file of a data set: its path below the data folder, without .gz, .bz2 or .xz, and its expected contents.

    ``sha256`` is that of the decompressed contents, so that every copy can be checked with any compression; None if no
    copy was available.  ``span`` are the rows that belong to the part, if two parts share a file.
    """

    path: str
    rows: int
    sha256: str | None = None
    address: str | None = None
    span: slice = slice(None)


class Dataset(NamedTuple):
    """A data set: the files of its parts (rows first, then separate targets if any) and their contents.

    ``labels`` are those that may occur, none for a regression; ``source`` is the page that the data comes from.
    """

    name: str
    features: int
    labels: Sequence[int]
    source: str
    parts: dict[str, tuple[File, ...]]
    notes: str = ""
    loader: Callable[[Sequence[Path], int], tuple[csr_matrix, np.ndarray]] = read_libsvm

    @property
    def task(self) -> str:
        """Return the task: "binary", "classes" or "regression"."""
        return "regression" if not self.labels else "binary" if len(self.labels) == 2 else "classes"


class Copy(NamedTuple):
    """A file found or downloaded; ``verified`` is False if there is no checksum to compare with."""

    path: Path
    sha256: str
    verified: bool


class Listed(NamedTuple):
    """One line of `listing`: rows by part, and the folder of the files, or "missing"."""

    name: str
    rows: tuple[int, ...]
    features: int
    task: str
    where: str


# --- loading ----------------------------------------------------------------------------------------------------------


def folders() -> list[Path]:
    """Return the folders where files are looked up, in this order; downloads go to the first."""
    given = os.environ.get("SPARSCO_DATA")
    if not given:
        return [cache_folder("data")]
    places = [expanded(given, "SPARSCO_DATA")]
    with suppress(OSError):  # no home folder
        places.append(cache_folder("data"))
    return places


def find(name: str, part: str | None = None) -> list[Path]:
    """Return the paths of a data set's files, of one part or of all; raise MissingDataError if some are missing."""
    found = [(file, _lookup(file, folders())) for file in _files(name, part)]
    missing = [file for file, path in found if path is None]
    if missing:
        raise MissingDataError(_missing(name, missing, folders()))
    return [path for _, path in found if path is not None]


def load(name: str, part: str = "train") -> tuple[csr_matrix, np.ndarray]:
    """Return the rows and targets of one part: -1.0 and 1.0 if binary, whole numbers for classes, else numbers.

    Shape and labels are checked each time, the contents only by `verify`, which takes as long as reading.
    """
    file, paths = _files(name, part)[0], find(name, part)
    dataset = REGISTRY[name]
    X, y = dataset.loader(paths, dataset.features)
    if X.shape != (file.rows, dataset.features):
        shape, expected = (f"{n} rows of {d} features" for n, d in (X.shape, (file.rows, dataset.features)))
        raise ValueError(f"{paths[0]} holds {shape}, expected {expected}")
    if len(y) != file.rows:
        raise ValueError(f"{paths[-1]} holds {len(y)} targets for {file.rows} rows")
    if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        raise ValueError(f"{paths[0]} holds numbers that are not finite")
    if dataset.labels and not np.isin(y, dataset.labels).all():
        odd, known = np.setdiff1d(y, dataset.labels)[0], ", ".join(map(str, dataset.labels))
        raise ValueError(f"{paths[-1]} holds the label {odd:g}, expected {known}")
    if dataset.task == "classes":
        y = y.astype(np.int64)
    return (X, y) if file.span == slice(None) else (X[file.span], y[file.span])


def mnist_pair(positive: int, negative: int, part: str = "train") -> tuple[csr_matrix, np.ndarray]:
    """Return two digits of MNIST as labels 1.0 and -1.0, with pixels in [0, 1], in the file's order."""
    if positive == negative or not {positive, negative} <= set(range(10)):
        raise ValueError(f"two different digits are needed, not {positive!r} and {negative!r}")
    return two_digits(*load("mnist", part), positive, negative)


def two_digits(X: csr_matrix, digit: np.ndarray, positive: int, negative: int) -> tuple[csr_matrix, np.ndarray]:
    """Return the rows of two digits, in the format of `mnist_pair`."""
    chosen = (digit == positive) | (digit == negative)
    X = X[chosen]
    X.data /= 255.0  # X / 255 would multiply by the rounded reciprocal
    return X, np.where(digit[chosen] == positive, 1.0, -1.0)


def _files(name: str, part: str | None = None) -> list[File]:
    """Return the files of one part or of all, each once."""
    if name not in REGISTRY:
        raise ValueError(f"unknown data set {name!r}: choose from {', '.join(REGISTRY)}")
    parts = REGISTRY[name].parts
    if part is not None and part not in parts:
        raise ValueError(f"{name} has no part {part!r}, only {' and '.join(parts)}")
    chosen = [file for key, files in parts.items() if part in (None, key) for file in files]
    return list({file.path: file for file in chosen}.values())


def _lookup(file: File, places: Sequence[Path]) -> Path | None:
    """Return the first copy of a file, the plain one before compressed ones, or None."""
    candidates = (place / (file.path + suffix) for place in places for suffix in _PACKED)
    return next((path for path in candidates if path.is_file()), None)


def _missing(name: str, files: Sequence[File], places: Sequence[Path]) -> str:
    """Return the error message for missing files: their names, the folders, and how to get them."""
    if all(file.address for file in files):
        advice = f"run `sparsco datasets download {name}`"
    else:
        folder = Path(files[0].path).parts[0]
        advice = (
            f"set SPARSCO_DATA to the folder that holds {folder}; no direct download is known, the data comes from "
            f"{REGISTRY[name].source}"
        )
    which, where = (" and ".join(file.path for file in files), " or ".join(map(str, places)))
    return f"{name} needs {which} (plain, .gz, .bz2 or .xz) in {where}: {advice}"


# --- keeping ----------------------------------------------------------------------------------------------------------


def listing() -> list[Listed]:
    """Return all known data sets, and where their files are."""
    lines = []
    for name, dataset in REGISTRY.items():
        found = {part: [_lookup(file, folders()) for file in files] for part, files in dataset.parts.items()}
        there = {part: str(paths[0].parent) for part, paths in found.items() if paths[0] and all(paths)}
        where = next(iter(there.values()), "missing")
        if 0 < len(there) < len(dataset.parts):
            where += f" ({', '.join(there)} only)"
        rows = tuple(len(range(files[0].rows)[files[0].span]) for files in dataset.parts.values())
        lines.append(Listed(name, rows, dataset.features, dataset.task, where))
    return lines


def verify(name: str, part: str | None = None) -> list[Copy]:
    """Compare the contents of a data set's files with their checksums; raise ValueError if one differs."""
    return [_checked(path, file) for path, file in zip(find(name, part), _files(name, part), strict=True)]


def download(
    name: str,
    folder: str | Path | None = None,
    address: str | None = None,
    progress: Progress | None = None,
    part: str | None = None,
) -> list[Copy]:
    """Download the missing files of a data set, and verify the others.

    ``address`` is the root of another copy of the data folder, in place of the registered addresses.  ``progress`` is
    called with the bytes received so far of a file and its length, None if the server does not send it.  A file appears
    under its name only when it is complete and its contents have the registered checksum.
    """
    places = [expanded(folder, "folder")] if folder else folders()
    copies = []
    for file in _files(name, part):
        path = _lookup(file, places)
        if path:
            copies.append(_checked(path, file))
        elif address or file.address:
            copies.append(_fetch(file, places[0], address, progress))
        else:
            raise MissingDataError(_missing(name, [file], places))
    return copies


def _checked(path: Path, file: File, called: str = "") -> Copy:
    with _opened(path, called) as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if file.sha256 not in (None, found):
        raise ValueError(f"{called or path} is damaged or another version: SHA-256 {found}, expected {file.sha256}")
    return Copy(path, found, file.sha256 is not None)


def _fetch(file: File, folder: Path, root: str | None, progress: Progress | None) -> Copy:
    """Download a file to a temporary name; it is moved to its place if complete and with the registered checksum."""
    target = folder / file.path
    known = [f"{root.rstrip('/')}/{file.path}{suffix}" for suffix in _PACKED] if root else [str(file.address)]
    try:
        address, body = _open_first(known)
        with body:
            target.parent.mkdir(parents=True, exist_ok=True)
            suffix = next(suffix for suffix in reversed(_PACKED) if address.endswith(suffix))
            target = target.with_name(target.name + suffix)
            with replacing(target) as out:
                _receive(body, out, progress)
                out.flush()
                return _checked(Path(out.name), file, called="the file received")._replace(path=target)
    except (OSError, HTTPException, ValueError) as error:
        raise DownloadError(f"{known[0]} was not downloaded to {target.parent}: {error}") from error


def _open_first(addresses: Sequence[str]) -> tuple[str, Any]:
    """Return the first of these addresses that exists, and the server's answer."""
    *others, last = addresses
    for address in others:
        try:
            return address, _open(address)
        except HTTPError as error:
            if error.code != 404:
                raise
    return last, _open(last)


def _open(address: str) -> Any:
    try:
        return urlopen(Request(address, headers={"User-Agent": "sparsco"}), timeout=60)
    except HTTPError as error:
        error.close()
        raise


def _receive(body: Any, out: IO[bytes], progress: Progress | None) -> None:
    length = body.headers.get("Content-Length")
    done, total = 0, int(length) if length else None
    while block := body.read(1 << 20):
        out.write(block)
        done += len(block)
        if progress:
            progress(done, total)
    if total is not None and done != total:
        raise OSError(f"the connection ended after {done} of {total} bytes")


# --- the registry -----------------------------------------------------------------------------------------------------

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
_UCI = "https://archive.ics.uci.edu/dataset"
_NEWS = "http://qwone.com/~jason/20Newsgroups/"
_IMDB = "https://ai.stanford.edu/~amaas/data/sentiment/"
_AMAZON = "https://www.cs.jhu.edu/~mdredze/datasets/sentiment/"

# The checksums of the contents of all available files, as sha256sum prints them.
_SUMS = """
b5b3529aee9694a57274c465d6b66fe977db4b4b8b6ab30138e9bc3404e5df9f 20newsgroups/20news_bow.test.libsvm
001bbd53549fec8fdec648e4e57d577424848e81769e033dc709f9bce65af2d1 20newsgroups/20news_bow.train.libsvm
713abc42f295f7212dc20ebebf138696c5824a791987c70f9bdecaf1dc9ad849 20newsgroups/20news_tech_unibigram.libsvm
76b604b2c3f738783537bd3b32893eae66af54b8a41aee534fac1ecea45c1535 a9a/a9a.libsvm
0c3135eb9b9d83a4fa007d6e1a3b719f029db78884dafd5a46a4d7eeb4c2b018 a9a/a9a.t.libsvm
c619b296917e219d12c1ce9e74a96ee5afdbf0e5051c3a3aa43d40e0fa22c9e4 amazon-reviews/amazon_mds_all.libsvm
282ae2080f1c2d047b15333ec6335f203b43ab1a525676f9f2758415fd8d6c81 arcene/arcene_train.libsvm
e03943dd53c68a954669e41b56e2b9683d33f47d6ee2a124e2beda9d6d31bcbb arcene/arcene_valid.libsvm
baec46859ae0007d832415c821af2c2f4f3161ab69b2fcc07f4945e4959d36b6 australian/australian.libsvm
069abf2967c1397036c057e665b85e26c9df5d72244fb8fb85f74c8936d0e510 cod-rna/cod-rna_scaled.libsvm
cc51d76a2cd2fbe6256549a7e88a31447f01b45507d6b834ffc50a60cb8eb7c3 colon-cancer/colon-cancer_scaled.libsvm
8693068ffa2142f01485d8368e0fb2952fba0ebacaccf833564bf2cd88f70f06 covtype20k/covtype_20k.libsvm
399618e16393241f150cc9f6c91fac70431a2b35b3e6f6e010cab503be22241e cpusmall/cpusmall.libsvm
560237afc3b980379102cc679c8b683f73e1d0baca403c9c9b800bad4f99e59e dexter/dexter_train.libsvm
73f822b1553fd0de0af8a4dc4bb0b008f2f662cb456f61dda0fca2b53bd5647e dexter/dexter_valid.libsvm
2de7b80fb3f5216f16ccb5c47c4d8412cbee44191eb1c2801c5d2dfdbeb5a258 german_numer/german.numer.libsvm
ecda17ee71074b296b2c8e31624b0b9f924abd43c0bd417bae6febdd87101be0 imdb/imdb_bow.test.libsvm
77245057e7c3ea4fcfa7dd9f9eddc22ae956f638a316c40de85162d145c6691c imdb/imdb_bow.train.libsvm
c882c37a97e9770293ad09b4dd722f10cf5f2a785d945eff41da6bf14683de4e imdb/imdb_rating.test.txt
bae2ffbe789d695a493101cb4fd916bc40f05d9d1b3f7dd2c7f89bb50bac9c4d imdb/imdb_rating.train.txt
cd32abc6d53bd7ac1ef5c143dafdf6b4fe27cf26f7fe7ce5e2b32872b99d8470 ionosphere/ionosphere.libsvm
09de631700d61b8d5f57a2c7de5022ac528cc7039b0b7b066cd751313cf24fe9 madelon/madelon_train.libsvm
f0f0ba0272003cf2e2406416cfcd2780e32c800061d9a4a16c236d476d75f997 madelon/madelon_valid.libsvm
0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7 mnist/t10k-images-idx3-ubyte
ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2 mnist/t10k-labels-idx1-ubyte
ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db mnist/train-images-idx3-ubyte
65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5 mnist/train-labels-idx1-ubyte
b3fb5d18eb2244d5795d69e3668836f5865ba53bbfff477f388ee7d97c3ceb73 mushrooms/mushrooms.libsvm
1d6eb77c42e1c78e86f36af834268de933da3607f38e3703aef15f7a9f11e506 news20/news20.libsvm
3fe2ad97b71bf4cca4c28d8247b487f391d0e851a1810c36b369bc3b98674d0f phishing/phishing.libsvm
5a343b114345befc813e1f1534c01132df6ae3a213f51f2f307e194e44fc31b6 rcv1-small/rcv1_small.test.libsvm
abaa641d7c3bec09d0270655fbd2fd385bec221f1f0e272f9ff0f70a045a809e rcv1-small/rcv1_small.train.libsvm
5a95fc9e48173ed73503c8957bff39e45f7a89d7fb490e8cce5f856bea09d367 sms-spam/sms-spam_bow.libsvm
397ab6b5efafcf4cc187aaab70fa0fab384141137be1ddab45530390044bbf4d sonar/sonar.libsvm
3559e4910f61c97c9855848dc35fe2e7bc91e2c54a373bbaf68d9929deb30f9a spambase/spambase.libsvm
bb8e15dd982a0c27974a5bca1aa9a6d12c1591cde534c351f1e6f7f60876713a splice/splice_scale.libsvm
05af7655871a35d5bc89c755791b5338a9969cb604c9df045c811c5e5a45426e w8a/w8a.libsvm
"""
_SHA256 = {path: found for found, path in map(str.split, _SUMS.strip().splitlines())}


def _file(path: str, rows: int, address: str | None = None, span: slice = slice(None)) -> File:
    """Return a file with its checksum; {} in the address stands for its name."""
    return File(path, rows, _SHA256.get(path), address and address.format(Path(path).name), span)


def _parts(train: File, test: File | None = None) -> dict[str, tuple[File, ...]]:
    return {"train": (train,), "test": (test,)} if test else {"train": (train,)}


def _mnist(part: str, rows: int) -> tuple[File, ...]:
    address = "https://ossci-datasets.s3.amazonaws.com/mnist/{}.gz"
    return tuple(_file(f"mnist/{part}-{kind}-ubyte", rows, address) for kind in ("images-idx3", "labels-idx1"))


def _dorothea(part: str, rows: int) -> tuple[File, ...]:
    return tuple(_file(f"dorothea/dorothea_{part}.{kind}", rows) for kind in ("data", "labels"))


def _imdb(part: str) -> tuple[File, ...]:
    return tuple(_file(f"imdb/{file}", 25_000) for file in (f"imdb_bow.{part}.libsvm", f"imdb_rating.{part}.txt"))


_BINARY = (-1, 1)
_AT = _LIBSVM + "/binary/{}.bz2"
_E2006 = _LIBSVM + "/regression/{}.bz2"
_TECH = "20newsgroups/20news_tech_unibigram.libsvm"
_ALL = (
    Dataset("mnist", 784, range(10), "http://yann.lecun.com/exdb/mnist/",
            {"train": _mnist("train", 60_000), "test": _mnist("t10k", 10_000)}, "pixels 0 to 255", read_mnist),
    Dataset("rcv1", 47_236, _BINARY, _LIBSVM,
            _parts(_file("rcv1/rcv1_train.binary", 20_242, _AT), _file("rcv1/rcv1_test.binary", 677_399, _AT)),
            "news stories, rows of norm 1"),
    Dataset("gisette", 5_000, _BINARY, _LIBSVM,
            _parts(_file("gisette/gisette_scale", 6_000, _AT), _file("gisette/gisette_scale.t", 1_000, _AT)),
            "NIPS-2003 feature selection, scaled to [-1, 1]; tested on its validation part"),
    Dataset("real-sim", 20_958, _BINARY, _LIBSVM, _parts(_file("real-sim/real-sim", 72_309, _AT))),
    Dataset("news20.binary", 1_355_191, _BINARY, _LIBSVM, _parts(_file("news20.binary/news20.binary", 19_996, _AT))),
    Dataset("url", 3_231_961, _BINARY, _LIBSVM, _parts(_file("url/url_combined", 2_396_130, _AT))),
    Dataset("E2006-tfidf", 150_360, (), _LIBSVM,
            _parts(_file("E2006-tfidf/E2006.train", 16_087, _E2006), _file("E2006-tfidf/E2006.test", 3_308, _E2006)),
            "volatility of shares from yearly reports"),
    Dataset("E2006-log1p", 4_272_227, (), _LIBSVM,
            _parts(_file("E2006-log1p/log1p.E2006.train", 16_087, _E2006),
                   _file("E2006-log1p/log1p.E2006.test", 3_308, _E2006)),
            "the same reports, words and pairs of words"),
    Dataset("rcv1-small", 47_236, _BINARY, _LIBSVM,
            _parts(_file("rcv1-small/rcv1_small.train.libsvm", 1_000), _file("rcv1-small/rcv1_small.test.libsvm", 500)),
            "a piece of rcv1"),
    Dataset("dexter", 20_000, _BINARY, f"{_UCI}/168",
            _parts(_file("dexter/dexter_train.libsvm", 300), _file("dexter/dexter_valid.libsvm", 300)),
            "NIPS-2003 feature selection, tested on its validation part"),
    Dataset("arcene", 10_000, _BINARY, f"{_UCI}/167",
            _parts(_file("arcene/arcene_train.libsvm", 100), _file("arcene/arcene_valid.libsvm", 100)),
            "NIPS-2003 feature selection, tested on its validation part"),
    Dataset("dorothea", 100_000, _BINARY, f"{_UCI}/169",
            {"train": _dorothea("train", 800), "test": _dorothea("valid", 350)},
            "NIPS-2003 feature selection, tested on its validation part; to be fetched by hand", read_index_lists),
    Dataset("madelon", 500, _BINARY, f"{_UCI}/171",
            _parts(_file("madelon/madelon_train.libsvm", 2_000), _file("madelon/madelon_valid.libsvm", 600)),
            "NIPS-2003 feature selection, tested on its validation part; not linearly separable, by design"),
    Dataset("a9a", 123, _BINARY, _LIBSVM, _parts(_file("a9a/a9a.libsvm", 32_561), _file("a9a/a9a.t.libsvm", 16_281))),
    Dataset("w8a", 300, _BINARY, _LIBSVM, _parts(_file("w8a/w8a.libsvm", 49_749)), "3% are positive"),
    Dataset("news20", 62_061, range(1, 21), _LIBSVM, _parts(_file("news20/news20.libsvm", 15_935))),
    Dataset("20news-tech", 1_322_417, _BINARY, _NEWS,
            _parts(_file(_TECH, 18_846, None, slice(11_314)), _file(_TECH, 18_846, None, slice(11_314, None))),
            "words and pairs of words"),
    Dataset("20news-bow", 42_537, range(1, 21), _NEWS,
            _parts(_file("20newsgroups/20news_bow.train.libsvm", 11_314),
                   _file("20newsgroups/20news_bow.test.libsvm", 7_532)),
            "word counts; rows are in the order of classes: shuffle"),
    Dataset("imdb", 37_025, _BINARY, _IMDB,
            _parts(_file("imdb/imdb_bow.train.libsvm", 25_000), _file("imdb/imdb_bow.test.libsvm", 25_000)),
            "word counts of film reviews"),
    Dataset("imdb-rating", 37_025, (), _IMDB, {"train": _imdb("train"), "test": _imdb("test")},
            "the rows of imdb with the reviews' ratings, 1 to 10"),
    Dataset("amazon-reviews", 473_856, _BINARY, _AMAZON, _parts(_file("amazon-reviews/amazon_mds_all.libsvm", 8_000)),
            "words and pairs of words, reviews in four domains"),
    Dataset("sms-spam", 7_586, _BINARY, f"{_UCI}/228", _parts(_file("sms-spam/sms-spam_bow.libsvm", 5_574))),
    Dataset("mushrooms", 112, _BINARY, _LIBSVM, _parts(_file("mushrooms/mushrooms.libsvm", 8_124))),
    Dataset("phishing", 68, _BINARY, _LIBSVM, _parts(_file("phishing/phishing.libsvm", 11_055))),
    Dataset("spambase", 57, _BINARY, f"{_UCI}/94", _parts(_file("spambase/spambase.libsvm", 4_601))),
    Dataset("cod-rna", 8, _BINARY, _LIBSVM, _parts(_file("cod-rna/cod-rna_scaled.libsvm", 59_535))),
    Dataset("covtype20k", 54, range(1, 8), f"{_UCI}/31", _parts(_file("covtype20k/covtype_20k.libsvm", 20_000)),
            "a piece of covertype with classes of equal size"),
    Dataset("splice", 60, _BINARY, _LIBSVM, _parts(_file("splice/splice_scale.libsvm", 1_000))),
    Dataset("german_numer", 24, _BINARY, _LIBSVM, _parts(_file("german_numer/german.numer.libsvm", 1_000))),
    Dataset("australian", 14, _BINARY, _LIBSVM, _parts(_file("australian/australian.libsvm", 690))),
    Dataset("ionosphere", 34, _BINARY, _LIBSVM, _parts(_file("ionosphere/ionosphere.libsvm", 351))),
    Dataset("sonar", 60, _BINARY, _LIBSVM, _parts(_file("sonar/sonar.libsvm", 208))),
    Dataset("colon-cancer", 2_000, _BINARY, _LIBSVM, _parts(_file("colon-cancer/colon-cancer_scaled.libsvm", 62))),
    Dataset("cpusmall", 12, (), _LIBSVM, _parts(_file("cpusmall/cpusmall.libsvm", 8_192)), "columns not scaled"),
)  # fmt: skip
REGISTRY: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}
