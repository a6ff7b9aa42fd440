"""Readers against scikit-learn, pyarrow and plain readings; positions, chunks, bad input; the cache, killed or not."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.feature_extraction import FeatureHasher
from sklearn.utils import murmurhash3_32

from sparsco.jit.dispatch import U, kernel, plain_python
from sparsco.streams import (
    CachedStream,
    CacheStream,
    StreamError,
    convert,
    csv_text,
    features,
    files,
    open_stream,
    shuffled,
    tables,
)
from sparsco.streams.cache import Writer
from sparsco.streams.description import Column
from sparsco.streams.features import Hashed, fingerprints
from sparsco.streams.numbers import GOOD, number
from sparsco.streams.shuffled import Shuffled
from support import number_of_streams
from support.text_reference import compare, fuzz, read_plainly, rows_of, vw_row

LIBSVM = b"".join(b"%d %d:%d.5 %d:1e-%d\n" % (i % 3 - 1, i % 7, i, 9 + i % 11, i % 30) for i in range(400))
VW = b"".join(
    b"%d %d.5 't%d|a w%d x:%d |b y%d:.25 y%d\n" % (i % 3, i % 2, i, i % 40, i, i % 5, i % 6) for i in range(300)
)
CSV = b"y,size,color,w\n" + b"".join(b"%s,%d.25,c%d,2\n" % (b"no" if i % 3 else b"yes", i, i % 9) for i in range(200))
TEXTS = {"libsvm": LIBSVM, "vw": VW, "csv": CSV}


def whole(chunks):
    """All that a pass gave, in one piece, to be compared with ==."""
    chunks = list(chunks)
    for chunk, following in zip(chunks, chunks[1:], strict=False):
        assert following.first == chunk.first + chunk.rows == chunk.position["row"]
    return {
        "lengths": [n for chunk in chunks for n in np.diff(chunk.indptr).tolist()],
        "indices": [j for chunk in chunks for j in chunk.indices.tolist()],
        "data": [v for chunk in chunks for v in chunk.data.tolist()],
        "y": [y for chunk in chunks for y in chunk.y.tolist()],
        "weights": [w for chunk in chunks if chunk.weights is not None for w in chunk.weights.tolist()],
        "tags": [tag for chunk in chunks for tag in chunk.tags or []],
        "d": chunks[-1].d if chunks else 0,
    }


def matrix_of(chunks, d):
    chunks = list(chunks)
    parts = [sp.csr_array((c.data, c.indices.astype(np.int64), c.indptr), shape=(c.rows, d)) for c in chunks]
    return sp.vstack(parts).tocsr(), np.concatenate([c.y for c in chunks])


@pytest.fixture
def small_sample(monkeypatch):
    """CSV inference from a few lines, so that small files have several blocks."""
    monkeypatch.setattr(csv_text, "_SAMPLE", 200)


# --- numbers ----------------------------------------------------------------------------------------------------------


@kernel
def read_numbers(at, starts, values, states):
    for i in range(starts.size):
        values[i], _, states[i] = number(at + U(starts[i]))


def numbers_of(words):
    buffer = np.frombuffer(files.padded(("\n".join(words) + "\n").encode()), np.uint8)
    starts = np.append(0, np.flatnonzero(buffer == 10)[:-1] + 1)
    values, states = np.empty(len(words)), np.empty(len(words), np.int64)
    read_numbers(U(buffer.ctypes.data), starts, values, states)
    return values, states


def hard_words(rng, count):
    """Numbers of all kinds: shortest and long digits, halfway between two doubles, far exponents."""
    bits = rng.integers(0, 2**64, count, np.uint64).view(np.float64)
    bits = bits[np.isfinite(bits)]
    halves = [f"{2**53 + 2 * int(k) + 1}e{e}" for e, k in enumerate(rng.integers(0, 2**40, 23), -5)]
    long = [f"{v:.{n}e}" for v, n in zip(rng.normal(size=count), rng.integers(0, 19, count), strict=True)]
    odd = "9007199254740993 1e22 1e23 8.5e22 +0007 -.5 5. -0 5e-324 1e400 1e-400".split()
    odd += ["0." + "0" * 40 + "1", "1" * 19, "0" * 40]
    return [repr(v) for v in [*bits.tolist(), *rng.normal(size=count).tolist()]] + halves + long + odd


def test_numbers_are_pythons_own_to_the_bit():
    words = hard_words(np.random.default_rng(0), 20_000)
    values, states = numbers_of(words)
    good, exact = states == GOOD, np.array([float(word) for word in words])
    assert good.mean() > 0.99
    assert np.array_equal(values[good].view(np.int64), exact[good].view(np.int64))
    with plain_python(), np.errstate(over="ignore"):
        some = words[::400] + words[-14:]
        values, states = numbers_of(some)
    compiled = numbers_of(some)
    assert np.array_equal(values, compiled[0]) and np.array_equal(states, compiled[1])


def test_decimals_of_every_length_are_pythons_own_to_the_bit(tmp_path):
    """Where entries are read many bytes at a time: all lengths before and behind the point, signs, long indices."""
    rng = np.random.default_rng(1)
    draw = "".join(map(str, rng.integers(0, 10, 60_000)))
    digits = iter(range(0, 60_000, 21))
    words = [
        sign + draw[at : at + whole] + ("." + draw[at + whole : at + whole + places] if places else "")
        for whole in range(1, 12)
        for places in range(20)
        for sign in ("", "-", "+")
        for at in [next(digits)]
    ]
    for blank in (" ", "\t", "  "):
        order = rng.permutation(len(words))
        columns = np.cumsum(10 ** rng.integers(0, 7, len(words)))
        rows = [f"1 {blank.join(f'{columns[i]}:{words[k]}' for i, k in enumerate(order))}\n"]
        for i, k in enumerate(order, 1):
            rows.append(f"{words[k]}{blank}{10**9 - i}:{words[k]}{blank}{10**9 + i}:{words[k]}\n")
        (tmp_path / "x.svm").write_text("".join(rows))
        (tmp_path / "x.vw").write_text("1 | " + " ".join(f"w{i}:{words[k]}" for i, k in enumerate(order)) + "\n")
        exact = np.array([float(words[k]) for k in order])
        kept = exact[exact != 0.0]
        (chunk,) = open_stream(tmp_path / "x.svm")
        assert np.array_equal(chunk.data[: kept.size], kept) and np.array_equal(chunk.data[kept.size :: 2], kept)
        assert np.array_equal(chunk.y[1:], exact) and np.array_equal(chunk.indices[: kept.size], columns[exact != 0.0])
        (chunk,) = open_stream(tmp_path / "x.vw")
        assert np.array_equal(chunk.data, kept)


def test_what_lies_behind_a_block_is_never_taken_for_its_text(tmp_path):
    """Texts end anywhere within the bytes that are looked at together, with buffers that hold older text behind."""
    lines = [b"%d %d:%d.%d\n" % (i, i + 1, i, 10**k) for k in range(19) for i in range(1, 40)]
    (tmp_path / "x.svm").write_bytes(b"".join(lines)[:-1])
    expected = whole(open_stream(tmp_path / "x.svm"))
    assert expected["data"] == [float(line.partition(b":")[2]) for line in lines]
    for size in (*range(1, 30), 63, 64, 65, 127, 128, 129, 500):
        assert whole(open_stream(tmp_path / "x.svm", block_bytes=size, threads=2)) == expected


# --- LIBSVM -----------------------------------------------------------------------------------------------------------


@settings(max_examples=number_of_streams(40), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), zero_based=st.booleans(), block=st.sampled_from([1, 50, 1 << 20]))
def test_libsvm_equals_scikit_learn(tmp_path_factory, seed, zero_based, block):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 30)), int(rng.integers(1, 50))
    X = sp.random_array((n, d), density=0.2, rng=rng, format="csr", data_sampler=lambda size: rng.normal(size=size))
    X.data[rng.random(X.data.size) < 0.3] **= 21  # more exponents
    y = rng.choice([rng.normal(size=n), rng.integers(-5, 5, n)])
    path = str(tmp_path_factory.mktemp("svm") / "x.svm")
    dump_svmlight_file(X, y, path, zero_based=zero_based)
    expected, labels = load_svmlight_file(path, n_features=d, zero_based=zero_based)
    found, y = matrix_of(open_stream(path, zero_based=zero_based, block_bytes=block), d)
    assert np.array_equal(y, labels) and np.array_equal(found.indptr, expected.indptr)
    assert np.array_equal(found.indices, expected.indices) and np.array_equal(found.data, expected.data)


def test_indices_as_written_or_counted_from_one(tmp_path):
    path = tmp_path / "x.svm"
    path.write_bytes(b"1 1:1 3:2\n")
    (chunk,) = open_stream(path)
    assert chunk.indices.tolist() == [1, 3] and chunk.d == 4 and chunk.indices.dtype == np.uint32
    (chunk,) = open_stream(path, zero_based=False)
    assert chunk.indices.tolist() == [0, 2] and chunk.d == 3
    path.write_bytes(b"1 0:1 4611686018427387904:2\n")
    (chunk,) = open_stream(path, wide=True)
    assert chunk.indices.tolist() == [0, 2**62] and chunk.indices.dtype == np.int64
    stream = open_stream(path, hash_bits=20)
    (chunk,) = stream
    hashes = [murmurhash3_32(name) for name in ("0", str(2**62))]
    assert chunk.indices.tolist() == [abs(h) % 2**20 for h in hashes]
    assert chunk.data.tolist() == [v if h >= 0 else -v for v, h in zip((1, 2), hashes, strict=True)]
    assert set(stream.names.values()) == {"0", str(2**62)}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("spam 1:2", "'spam' is not a label"),
        ("1,2 1:2", "a list of labels"),
        ("1:2 2:3", "the row has no label, it begins with '1:2'"),
        ("1 -1:2", "'-1:2' has a negative index"),
        ("1 2", "'2' is not a feature"),
        ("1 1:", "'1:' has no number behind its colon"),
        ("1 1:0x10", "'1:0x10' has no number"),
        ("1 1:1_000", "'1:1_000' has no number"),
        ("1 1:NaN", "'1:NaN' is not finite"),
        ("-inf 1:1", "'-inf' is not finite"),
        ("1 1:1e76", "'1:1e76' has a number above the limit"),
        ("1 1:123456789012345678901234567890e60", "above the limit"),
        ("1 3:1 3:2", "'3:2' repeats an index"),
        ("1 3:1 2:1 3:0", "the row repeats an index"),
        ("1 4294967295:1", "an index beyond 4294967294: give hash_bits= .* to hash indices, or in Python wide=True"),
        ("1 1:1\r2:2", r"'1:1\\r2:2' has no number"),
        ("1 qid:x 1:1", "'qid:x' has no number"),
        ("1 " + "9" * 60 + ":1", r"'9{40}'\.\.\. has an index beyond"),
    ],
)
def test_bad_libsvm_names_file_line_and_remedy(tmp_path, line, sentence):
    path = tmp_path / "bad.svm"
    path.write_bytes(b"# first\n\n1 1:1\n" + line.encode() + b"\n1 oops\n")
    with pytest.raises(StreamError, match=sentence) as caught:
        list(open_stream(path))
    assert str(caught.value).startswith(f"{path}, line 4: ")
    with pytest.raises(StreamError, match=sentence):
        list(open_stream(path, block_bytes=1))


# --- VW ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pairs", [[], ["ab"], ["aa", "ab"], ["::"]])
def test_vw_namespaces_weights_tags_and_pairs(tmp_path, pairs):
    path = tmp_path / "x.vw"
    path.write_bytes(b"1 2 'tag|apple x:2 y |b:0.5 z:4 x | :3 q\n0.5 |apple x x:-3 |b z\n 'u |b\n")
    rows = [vw_row(line, pairs) for line in path.read_bytes().split(b"\n")]
    assert rows_of(open_stream(path, quadratic=pairs)) == [row for row in rows if row]
    hashed = open_stream(path, quadratic=pairs, hash_bits=18, signed=False)
    (chunk,) = hashed
    expected = FeatureHasher(2**18, alternate_sign=False).transform([row[3] for row in rows if row])
    assert np.array_equal(matrix_of([chunk], 2**18)[0].toarray()[:, : 2**18], expected.toarray())


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("1|a x", "'1' touches the bar, which makes it a tag"),
        ("1 x", "'x' is not a number: label and importance stand before the first |"),
        ("1 2", "the row has no bar"),
        ("1 2 0.5 | a", "'0.5' is an initial prediction, and the first row has none"),
        ("1 2 0 4 | a", "'4' is one word too many"),
        ("1 -2 | a", "'-2' is not an importance"),
        ("1 | a:", "'a:' has no finite number behind its colon"),
        ("1 | a:nan", "'a:nan' has no finite number"),
        ("1 |s:x a", "'s:x' has no finite number behind its colon: write |namespace"),
        ("1 | a:1e76", "'a:1e76' has a number above"),
        ("1 |s:1e60 a:1e60", "the row has a number above"),
    ],
)
def test_bad_vw_names_file_line_and_remedy(tmp_path, line, sentence):
    path = tmp_path / "bad.vw"
    path.write_bytes(b"\n1 | a\n" + line.encode() + b"\n")
    with pytest.raises(StreamError) as caught:
        list(open_stream(path))
    assert str(caught.value).startswith(f"{path}, line 3: ") and sentence in str(caught.value)


def test_pairs_that_are_never_made_are_said(tmp_path):
    (tmp_path / "x.vw").write_bytes(b"1 |apple x |b z\n0 |b z | w\n")
    stream = open_stream(tmp_path / "x.vw", quadratic=["ab", "xb", "xy", "::", " b"], block_bytes=1)
    assert stream.remarks() == []
    chunks = list(stream)
    assert stream.remarks() == [
        "no pairs xb: no namespace begins with 'x'",
        "no pairs xy: no namespace begins with 'x' or 'y'",
    ]
    later = open_stream(tmp_path / "x.vw", quadratic=["ab"], names=stream.names)
    list(later.chunks(chunks[0].position))
    assert later.remarks() == []  # who knows what was before


CORPUS = {
    "libsvm": [
        b"",
        b"\n",
        b"#",
        b"1",
        b"1 ",
        b"\xef\xbb\xbf1 1:1",
        b"1 1:1#x",
        b"1\t1:1\r\n\r\n2",
        b"1\r",
        b"1 1:1\r\r\n",
        b"1#",
        b"1 2:1e-45678901234567890 2:3",
        b"1 3:0 1:1 3:0",
        b"+.5 0:-0 1:1e-400",
        b"1 1:" + b"9" * 400,
        b"\x00",
        b"1 1:" + b"0" * 400 + b"e9",
        b"1 1:1e99999999999999999999",
        b"0 qid:1 qid:2 7:1",
        b"1 00000000000000000001:1",
        b"1 1:1e400\n1 x",
        b"1 9:1 8:1 7:1 8:2",
        b"1 1 :2",
        b"1 1: 2",
        b"BZh",
        b"--1",
        b"1 1:+-1",
        b"1 1:.",
        b"1 1:e5",
        b". 1:1",
        b"1 1:0." + b"0" * 400 + b"7e401",
        b"1 1:1" + b"0" * 400 + b"e-401",
    ],
    "vw": [
        b"",
        b"|",
        b"||",
        b"1 |",
        b"| |",
        b"|:301e752| w",
        b"|a:2|b:3 x",
        b"'|",
        b"'",
        b"' |",
        b"1 ''|a",
        b"x|",
        b"a b|",
        b"1 2| y",
        b"1 |a:2:3 x",
        b"|a x:1e-400 x:1",
        b"|:2 x",
        b"| :1 :1 0 1",
        b"1 1 0 t| a",
        b"\t|",
        b"1 1e-400 | a",
        b"1 -0 | a",
        b"| a|b|",
        b"|a^b c |a b^c",
        b"|\xff \xfe:2",
        b"1e400 | a",
        b"| a:1e76\n1|",
        b"|a x:1 x:-1",
        b"1 |a:123456789012345678901e75",
        b"1 |a:123456789012345678901e75 x:0 | b\n1 x",
        b"1 |:" + b"1" * 25 + b" x\n1 |a:1e76",
        b"0 |n \x00",
        b"|a\r\n|b c\r\n",
        b"1 'a'b | c",
        b"|a:1e40 x:1e40\n1 x",
        b"1 |a x:" + b"9" * 30,
    ],
}


@pytest.mark.parametrize("format", ["libsvm", "vw"])
def test_odd_and_mutated_texts_are_read_as_plainly_or_refused(format, tmp_path):
    for text in CORPUS[format]:
        for block in (1, 1 << 20):
            compare(text, format, tmp_path, block_bytes=block)
    count = int(os.environ.get("SPARSCO_FUZZ", 300))
    assert 0.1 * count < fuzz(format, count) < 0.9 * count


# --- names ------------------------------------------------------------------------------------------------------------


def test_hashes_and_hashed_dicts_are_scikit_learns():
    names = ["", "a", "ab", "abc", "abcd", "ns^żółw", "x" * 100]
    for seed in (0, 42, 2**32 - 1):
        found = fingerprints(names, seed) & U(0xFFFFFFFF)
        assert found.tolist() == [murmurhash3_32(name, seed=seed, positive=True) for name in names]
    rng = np.random.default_rng(0)
    rows = [{f"w{j}": float(rng.normal()) for j in rng.integers(0, 500, 9)} for _ in range(50)]
    rows[3] |= {"color": "red"}
    (chunk,) = open_stream([(row, 1) for row in rows], hash_bits=6)
    expected = FeatureHasher(2**6).transform(rows).toarray()
    np.testing.assert_allclose(matrix_of([chunk], 2**6)[0].toarray(), expected, rtol=1e-15, atol=1e-15)


@pytest.mark.filterwarnings("ignore:overflow")
def test_kernels_are_the_plain_python_they_are_written_in(tmp_path):
    (tmp_path / "x.svm").write_bytes(LIBSVM[:300].rpartition(b"\n")[0] + b"\n1 9:1 3:-2.5e-9\n")
    (tmp_path / "x.vw").write_bytes(VW[:300].rpartition(b"\n")[0] + b"\n1 |c:2 :3 \n")
    for name, options in [("x.svm", {}), ("x.svm", {"hash_bits": 9}), ("x.vw", {"quadratic": ["ab"]})]:
        compiled = whole(open_stream(tmp_path / name, **options))
        with plain_python(), np.errstate(over="ignore"):
            assert whole(open_stream(tmp_path / name, threads=1, **options)) == compiled


def test_names_kept_with_hashing_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("sparsco.streams.features.MAX_NAMES", 10)
    (tmp_path / "x.vw").write_bytes(VW)
    stream = open_stream(tmp_path / "x.vw", hash_bits=12)
    assert len(list(stream)) == 1 and len(stream.names) == 10
    for column, name in stream.names.items():
        assert abs(murmurhash3_32(name)) % 2**12 == column


def test_a_vocabulary_grows_is_cut_and_frozen(tmp_path):
    path = tmp_path / "x.vw"
    path.write_bytes(b"1 | a b\n0 | c a\n1 | d\n")
    stream = open_stream(path, block_bytes=1)
    chunks = list(stream)
    assert stream.names == {0: "a", 1: "b", 2: "c", 3: "d"} and [chunk.d for chunk in chunks] == [2, 3, 4]
    frozen = open_stream(path, names=["c", "a"], frozen=True)
    (chunk,) = frozen
    assert np.diff(chunk.indptr).tolist() == [1, 2, 0] and chunk.d == 2 and frozen.names == {0: "c", 1: "a"}
    with pytest.raises(ValueError, match="has 3 names of features and the stream 0: .* as names="):
        list(open_stream(path).chunks(chunks[1].position))
    for options, sentence in [
        ({"names": ["a", "a"]}, "names contains a name twice"),
        ({"names": {1: "a"}}, "without a gap"),
        ({"frozen": True}, "frozen needs names"),
        ({"hash_bits": 32}, "hash_bits must be"),
        ({"hash_bits": 3, "seed": -1}, "seed must be"),
        ({"quadratic": ["abc"]}, "quadratic has 'abc'"),
        ({"block_bytes": 0}, "block_bytes must be positive"),
        ({"threads": 0}, "threads must be positive"),
        ({"colour": 1}, "vw has no option 'colour'"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            open_stream(path, **options)


# --- chunks and positions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["libsvm", "vw", "csv"])
@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz", ".zst"])
def test_any_chunks_threads_and_packing_give_the_same_and_go_on(tmp_path, small_sample, format, suffix):
    if suffix == ".zst" or format == "csv":
        arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}.get(suffix)
    pack = pack or (lambda text: arrow.compress(text, "zstd", asbytes=True))
    text = TEXTS[format]
    half = len(text) // 2 + text[len(text) // 2 :].find(b"\n") + 1
    parts = [text[:half], (b"" if format != "csv" else CSV[: CSV.find(b"\n") + 1]) + text[half:].rstrip(b"\n")]
    for k, part in enumerate(parts):
        (tmp_path / f"part-{k}.{format}{suffix}").write_bytes(pack(part))
    (tmp_path / f"all.{format}").write_bytes(text.replace(b"\n", b"\r\n"))
    options = {"weight": "w"} if format == "csv" else {}
    expected = whole(open_stream(tmp_path / f"all.{format}", **options))
    pattern = str(tmp_path / f"part-*.{format}{suffix}")
    for block, threads in ((1 << 20, 1), (700, 1), (300, 3)):
        stream = open_stream(pattern, block_bytes=block, threads=threads, **options)
        assert whole(stream) == expected == whole(stream)  # a second pass, too
    chunks = list(stream)
    assert len(chunks) > 5 and chunks[-1].read == stream.total
    names = json.loads(json.dumps(stream.names))
    for k in (0, 2, len(chunks) - 1):
        again = open_stream(pattern, block_bytes=500, **options, **({"names": names} if names else {}))
        rest = list(again.chunks(json.loads(json.dumps(chunks[k].position))))
        joined = whole(chunks[: k + 1] + rest)
        assert joined | {"d": 0} == expected | {"d": 0} and again.names == stream.names


def test_files_that_end_early_vanish_or_lie(tmp_path):
    packed = gzip.compress(LIBSVM)
    for name, contents, sentence in [
        ("cut.svm.gz", packed[: len(packed) // 2], "cannot be read: Compressed file ended"),
        ("flip.svm.gz", packed[:100] + bytes([packed[100] ^ 255]) + packed[101:], "cannot be read"),
        ("plain.svm.gz", LIBSVM, "its name ends with .gz, but"),
        ("empty.svm.gz", b"", "its name ends with .gz, but"),
        ("cut.svm.xz", lzma.compress(LIBSVM)[:-20], "cannot be read"),
    ]:
        (tmp_path / name).write_bytes(contents)
        with pytest.raises(StreamError, match=sentence) as caught:
            list(open_stream(tmp_path / name))
        assert str(caught.value).startswith(str(tmp_path / name))
    path = tmp_path / "x.svm"
    path.write_bytes(LIBSVM)
    position = list(open_stream(path, block_bytes=1000))[-1].position
    path.write_bytes(LIBSVM[:100])
    with pytest.raises(StreamError, match="is shorter than .* it has changed"):
        list(open_stream(path).chunks(position))
    path.write_bytes(b"")
    assert list(open_stream(path)) == []
    with pytest.raises(FileNotFoundError, match="no such file, and no file that matches"):
        open_stream(tmp_path / "none-*.svm")
    with pytest.raises(ValueError, match="is a folder"):
        open_stream(tmp_path)


def test_a_zstd_file_that_ends_early(tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    (tmp_path / "cut.svm.zst").write_bytes(arrow.compress(LIBSVM, "zstd", asbytes=True)[:-20])
    with pytest.raises(StreamError, match="cannot be read"):
        list(open_stream(tmp_path / "cut.svm.zst"))


def test_a_line_without_end_is_no_text(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_LINE", 5000)
    (tmp_path / "x.svm").write_bytes(b"1 1:1\n" + bytes(9000))
    with pytest.raises(StreamError, match="5000 bytes from byte .* have no line end"):
        list(open_stream(tmp_path / "x.svm", block_bytes=1000))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress, "zstd"])
def test_standard_input(pack):
    if pack == "zstd":
        arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        pack = lambda text: arrow.compress(text, "zstd", asbytes=True)  # noqa: E731
    script = (
        "from sparsco.streams import open_stream; s = open_stream('-', block_bytes=999)\n"
        "print(s.repeatable, s.total, sum(c.rows for c in s), sum(c.rows for c in s))"
    )
    text = b"1 " + b" ".join(b"%d:1" % j for j in range(30_000)) + b"\n" + LIBSVM  # it is looked at in part
    done = subprocess.run([sys.executable, "-c", script], input=pack(text), capture_output=True, check=False)
    assert done.stdout.split() == [b"False", b"None", b"401", b"0"], done.stderr


def test_formats_are_told_by_suffix_or_first_line(tmp_path):
    for name, contents, format in [
        ("a.binary", b"# c\n1 1:2\n", "libsvm"),
        ("b", b"1 | x\n", "vw"),
        ("c.txt.gz", gzip.compress(b"-1 qid:1 2:3\n"), "libsvm"),
    ]:
        (tmp_path / name).write_bytes(contents)
        assert open_stream(tmp_path / name).identity()["format"] == format
    (tmp_path / "d").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(ValueError, match="neither its name nor its first line"):
        open_stream(tmp_path / "d")
    (tmp_path / "e.csv").write_bytes(b"y," + b",".join(b"x%d" % j for j in range(900)) + b"\n")
    with pytest.raises(ValueError, match=r"a.binary is libsvm and .*e.csv csv: give files of one format"):
        open_stream([tmp_path / "a.binary", tmp_path / "b", tmp_path / "e.csv"])
    convert(tmp_path / "a.binary", tmp_path / "rows")
    with pytest.raises(ValueError, match="rows is a cache of rows, which cannot be read with other files"):
        open_stream([tmp_path / "a.binary", tmp_path / "rows"])
    assert len(list(open_stream([tmp_path / "rows"]))) == 1
    with pytest.raises(ValueError, match="format must be one of libsvm, vw"):
        open_stream(tmp_path / "d", "arff")
    with pytest.raises(ValueError, match="source is a int"):
        open_stream(3)
    with pytest.raises(ValueError, match="is for files"):
        open_stream(np.eye(2), "csv")


# --- tables -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def frame():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    rng = np.random.default_rng(0)
    n = 500
    return pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "count": rng.integers(-3, 4, n),
            "flag": rng.random(n) < 0.5,
            "color": rng.choice(["red", "two\nlines", 'qu"o,te', None], n),
            "y": rng.choice(["yes", "no"], n),
            "importance": rng.integers(0, 5, n) / 4,
            "id": [f"row {i}" for i in range(n)],
        }
    )


def dicts_of(frame):
    for _, row in frame.iterrows():
        x = {name: row[name] for name in ("size", "count", "flag", "color")}
        x["color"] = x["color"] if isinstance(x["color"], str) else None
        yield x, row["y"], row["importance"]


def test_tables_of_all_kinds_are_one_stream(frame, tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    monkeypatch.setattr(tables, "_ROWS", 64)
    monkeypatch.setattr(csv_text, "_SAMPLE", 1000)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pa.parquet.write_table(table, tmp_path / "x.parquet", row_group_size=150)
    pa.feather.write_feather(table, tmp_path / "x.feather", chunksize=90)
    with pa.ipc.new_stream(tmp_path / "x.arrow", table.schema) as writer:
        writer.write_table(table, 90)
    text = frame.to_csv(index=False)
    (tmp_path / "x.csv").write_text(text)
    (tmp_path / "x.tsv").write_text(frame.to_csv(index=False, sep="\t"))
    sources = [frame, table, *(tmp_path / f"x.{suffix}" for suffix in ("parquet", "feather", "arrow", "csv", "tsv"))]
    with contextlib.suppress(ImportError):
        sources.append(__import__("polars").from_arrow(table))
    stream = open_stream(list(dicts_of(frame)))
    expected = whole(stream)
    for source in sources:
        options = {"target": "y", "weight": "importance", "tag": "id", "missing": "zero"}  # as in a dict
        read = open_stream(source, **options)
        found = whole(read)
        assert found.pop("tags") == frame["id"].tolist(), source
        assert found == {k: v for k, v in expected.items() if k != "tags"} and read.names == stream.names
        chunks = list(read)
        again = open_stream(source, names=read.names, **options)
        rest = list(again.chunks(json.loads(json.dumps(chunks[0].position))))
        assert whole(chunks[:1] + rest)["data"] == found["data"]


@pytest.mark.parametrize(
    ("row", "options", "sentence"),
    [
        ("1,2,red\n", {}, "the row has 3 cells, the others have 4"),
        ("yes,x,red,1\n", {}, "column 'size' has 'x', which is not a number: .* schema={'size': 'category'}"),
        ("yes,,red,1\n", {"missing": "refuse"}, "column 'size' has no number: fill it in, or give missing='mean'"),
        ("yes,nan,red,1\n", {"missing": "refuse"}, "column 'size' has no number"),
        ("yes,1e76,red,1\n", {}, r"column 'size' has 1e\+76: numbers must be finite"),
        (",1,red,1\n", {}, "column 'y' is empty: every row needs a label"),
        ("yes,1,red,-1\n", {"weight": "w"}, "column 'w' has a negative weight"),
    ],
)
def test_bad_csv_names_file_line_and_remedy(tmp_path, small_sample, row, options, sentence):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    path = tmp_path / "bad.csv"
    path.write_text(CSV.decode() + '\nyes,1,"two\nlines",1\n' + row + "no,1,red,1\n")
    for block in (1, 1 << 20):
        with pytest.raises(StreamError, match=sentence) as caught:
            list(open_stream(path, block_bytes=block, **options))
        assert str(caught.value).startswith(f"{path}, line 205: ")


def test_what_is_no_table_and_what_is_a_wide_one(frame, tmp_path):
    sources = [frame["size"]]
    with contextlib.suppress(ImportError):
        polars = __import__("polars")
        sources += [polars.Series([1]), polars.LazyFrame({"y": [1]})]
    for source in sources:
        with pytest.raises(ValueError, match=f"source is a {type(source).__name__}, not a table"):
            open_stream(source)
    header = ",".join(f"x{j}" for j in range(900))
    (tmp_path / "wide.csv").write_text(header + "\n" + ",".join(["1"] * 900) + "\n")
    (tmp_path / "other.csv").write_text(header + "_\n")
    for names, options, sentence in [
        (["wide"], {}, r"give target= \(--target\), None \(none\) for no target, or one of x0, .* and 880 more"),
        (["wide", "other"], {"target": "x1"}, "the columns are x0, .* and 894 more, not those of the first file"),
    ]:
        with pytest.raises(StreamError, match=sentence) as caught:
            list(open_stream([tmp_path / f"{name}.csv" for name in names], **options))
        assert len(str(caught.value)) < 400


def test_schemas_roles_and_missing_cells(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    path = tmp_path / "x.csv"
    path.write_text("a,b,c,target\n1,NA,x,0\n2,5,,1\n")
    stream = open_stream(path, missing="zero", missing_values=["", "NA"], schema={"a": "categorical"})
    (chunk,) = stream
    assert list(stream.names.values()) == ["a=1", "b", "c=x", "a=2"] and chunk.y.tolist() == [0.0, 1.0]
    (chunk,) = open_stream(path, schema={"b": "ignore", "c": "ignore"}, target=None, header=True)
    assert np.isnan(chunk.y).all() and chunk.data.tolist() == [1.0, 2.0, 1.0]
    (chunk,) = open_stream(path, header=False, target="3", schema={"2": "ignore"})
    assert chunk.y.tolist() == ["target", "0", "1"]
    roles = {"weight": "z", "tag": "c", "optional": ["weight", "tag"]}
    (chunk,) = open_stream(path, schema={"a": "numeric", "*": "ignore"}, **roles)
    assert chunk.data.tolist() == [1.0, 2.0] and chunk.weights is None and chunk.tags == ["x", ""]
    for options, sentence in [
        ({"target": "z"}, "target names the column 'z', but there are a, b, c, target"),
        ({"header": False}, "the target column is unknown"),
        ({"delimiter": "::"}, "delimiter must be one character"),
        ({"missing": "median"}, "missing must be one of indicator, mean, zero, refuse, not 'median'"),
        (
            {"schema": {"a": "words"}},
            "schema has 'words' for 'a': choose numbers, category, boolean, date, text or ignored",
        ),
        ({"schema": {"a": "numbers:median"}}, "schema has 'numbers:median' for 'a': choose"),
        ({"schema": {"z": "ignore"}}, "schema names the column 'z'"),
        ({"weight": "z"}, "weight names the column 'z'"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            list(open_stream(path, **options))
    import pyarrow as pa

    path.write_text("x,land,when,void,y\n1,NA,2020-01-01,NA,None\nNA,DE,2020-01-02,null,b\n")
    stream = open_stream(path)
    assert len(list(stream)) == 1 and "when:weekday=Wed" in stream.names.values()
    kinds = {"when": "categorical"}
    with pytest.raises(StreamError, match=r"x.csv, line 3: column 'x' has no number: .*\(--missing\)"):
        list(open_stream(path, schema=kinds, missing="refuse"))
    stream = open_stream(path, schema=kinds, missing="zero")
    lines = ["x: numbers, 50% missing as zero", "land: category", "when: category", "void: ignored"]
    assert stream.remarks() == ["target: column 'y'", *lines]
    (chunk,) = stream
    assert list(stream.names.values()) == ["x", "land=NA", "when=2020-01-01", "land=DE", "when=2020-01-02"]
    assert chunk.y.tolist() == ["None", "b"]  # words where words are expected
    stream = open_stream(path, schema=kinds | {"x": "ignore", "void": "ignore"}, missing_values=["", "NA"], target="y")
    assert len(list(stream)) == 1 and "land=NA" not in stream.names.values()
    assert stream.remarks()[1] == "land: category, 50% missing with an indicator land?"
    with pytest.raises(StreamError, match=r"column 'when' has the type time32.* \(--schema when=ignore\), 'cat"):
        open_stream(pa.table({"y": [1], "when": pa.array([3], pa.time32("s"))}))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(StreamError, match="cannot be read as parquet"):
        open_stream(tmp_path / "bad.parquet")
    for contents in (b"", b"ARROW1", b"nothing of the kind"):
        (tmp_path / "bad.arrow").write_bytes(contents)
        with pytest.raises(StreamError, match="cannot be read as arrow"):
            open_stream(tmp_path / "bad.arrow")
    with pa.ipc.new_stream(tmp_path / "cut.arrow", pa.schema({"y": pa.int64()})) as writer:
        writer.write_table(pa.table({"y": range(1000)}))
    (tmp_path / "cut.arrow").write_bytes((tmp_path / "cut.arrow").read_bytes()[:-500])
    with pytest.raises(StreamError, match="cannot be read as arrow"):
        open_stream(tmp_path / "cut.arrow")


def test_arrays_npz_and_examples(tmp_path):
    rng = np.random.default_rng(0)
    X = sp.random_array((30, 7), density=0.4, rng=rng, format="csr")
    y = rng.normal(size=30)
    sp.save_npz(tmp_path / "x.npz", X)
    np.savez(tmp_path / "both.npz", X=X.toarray(), y=y)
    np.savez(tmp_path / "other.npz", Z=y)
    with pytest.raises(StreamError, match=r"other\.npz cannot be read as \.npz: it does not contain a sparse"):
        open_stream(tmp_path / "other.npz", y=y)
    examples = [(X[[i]].indices, X[[i]].data) for i in range(30)]
    expected = whole(open_stream(X, y=y))
    for source, options in [
        (X.toarray(), {"y": y}),
        (tmp_path / "x.npz", {"y": y}),
        (tmp_path / "both.npz", {}),
    ]:
        assert whole(open_stream(source, **options)) == expected
    found = whole(open_stream(lambda: zip(examples, y, strict=True)))
    assert found | {"weights": []} == expected | {"d": found["d"]}
    stream = open_stream(iter([({"a": 1.0}, 1)]))
    assert not stream.repeatable and len(list(stream)) == 1
    for bad, sentence in [
        ([({"a": float("nan")}, 1)], "example 1: numbers must be finite"),
        ([({"a": 1}, 1), ({"a": 1}, "x")], "example 2: the label 'x' is text"),
        ([({"a": 1}, 1), (([1], [2]), 1)], "example 2: examples must have either names or columns"),
        ([({"a": [1]}, 1)], "example 1: "),
        ([(3, 1)], "x is a int: give a dict"),
        ([{"a": 1}], r"example 1: it is a dict: give \(x, y\)"),
        ([{"a": 1, "b": 2}], r"example 1: it is a dict: give \(x, y\)"),
        ([3], "example 1: it is a int"),
        ([(([-1], [1.0]), 1)], "columns must be whole numbers"),
    ]:
        with pytest.raises(StreamError, match=sentence):
            list(open_stream(bad))
    with pytest.raises(ValueError, match=r"y has shape \(3,\)"):
        open_stream(X, y=[1, 2, 3])
    with pytest.raises(StreamError, match="row 1: .*NaN"):
        list(open_stream(np.full((2, 2), np.nan)))


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "x.csv").write_bytes(CSV)
    with pytest.raises(ImportError, match="CSV files are read by pyarrow, which is not installed: pip install pyarrow"):
        open_stream(tmp_path / "x.csv")


# --- the cache --------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["libsvm", "vw", "csv"])
def source(request, tmp_path, monkeypatch):
    """A file, the options to read it with, and small blocks."""
    if request.param == "csv":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    monkeypatch.setattr(csv_text, "_SAMPLE", 200)
    monkeypatch.setattr("sparsco.streams.cache.BLOCK_BYTES", 500)
    path = tmp_path / f"x.{request.param}"
    path.write_bytes(TEXTS[request.param])
    return path, {"block_bytes": 600}


def test_a_cache_gives_the_same_rows_positions_and_names(source, tmp_path):
    path, options = source
    stream = open_stream(path, **options)
    expected = whole(stream)
    seen = []
    stored = convert(path, tmp_path / "cache", progress=seen.append, **options)
    assert sum(chunk.rows for chunk in seen) == len(expected["y"])
    for again in (stored, open_stream(tmp_path / "cache")):
        assert whole(again) == expected and again.names == stream.names and again.identity() == stream.identity()
    chunks = list(stored)
    assert len(chunks) > 4 and all(chunk.matrix.data.flags.writeable for chunk in chunks)
    assert whole(chunks[:3] + list(stored.chunks(json.loads(json.dumps(chunks[2].position))))) == expected
    rest = open_stream(path, names=stream.names if stream.names else None, **options).chunks(chunks[2].position)
    assert whole(chunks[:3] + list(rest)) == expected  # the source goes on where the cache was
    with pytest.raises(ValueError, match="has no block that ends at the given position"):
        list(stored.chunks({"row": -1}))
    with pytest.raises(ValueError, match="a cache has no options"):
        open_stream(tmp_path / "cache", block_bytes=3)


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 40), st.sampled_from([-1.0, 0.5, 1.0]))), max_size=20))
def test_columns_that_share_a_mark_are_told_apart(rows):
    """Sums of repeated names, where there is room to note the place of few columns at a time."""
    encoder = Hashed(31, signed=False)
    names = [f"n{name}" for row in rows for name, _ in row]
    values = np.array([value for row in rows for _, value in row])
    lengths = np.array([len(row) for row in rows], np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Hashed, "marks", lambda encoder, longest: np.zeros(4, np.int32))
        keys = fingerprints(names, 0)
        indptr, indices, data = features.rows_of(encoder, lengths, keys, values, lambda k: ["x"] * len(k))
    columns = dict(zip(names, encoder.place(keys, lambda k: ["x"] * len(k))[0].tolist(), strict=True))
    for k, row in enumerate(rows):
        sums: dict[int, float] = {}
        for name, value in row:
            sums[columns[f"n{name}"]] = sums.get(columns[f"n{name}"], 0.0) + value
        part = slice(indptr[k], indptr[k + 1])
        found = dict(zip(indices[part].tolist(), data[part].tolist(), strict=True))
        assert found == {column: total for column, total in sums.items() if total}
        assert len(found) == indptr[k + 1] - indptr[k]


def test_reading_hashed_names_takes_memory_for_those_that_occur(tmp_path):
    (tmp_path / "x.vw").write_bytes(VW)
    list(open_stream(tmp_path / "x.vw", hash_bits=20))  # compiled
    tracemalloc.start()
    chunks = list(open_stream(tmp_path / "x.vw", hash_bits=31))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert chunks[-1].d == 2**31 and peak < 64 << 20
    assert Hashed(31).marks(10_000).nbytes <= 1 << 24  # of rows that are long, some more


def test_shuffled_passes_are_permutations_that_can_be_resumed(source, tmp_path, monkeypatch):
    path, options = source
    stored, expected = convert(path, tmp_path / "cache", **options), rows_by_number(open_stream(path, **options))
    monkeypatch.setattr(shuffled, "_SLICE_ROWS", 13)
    cases, orders = [(0, stored), (9000, stored), (1 << 28, stored), (1 << 28, open_stream(path, **options))], []
    for held, stream in cases:
        monkeypatch.setattr(shuffled, "HELD_BYTES", held)
        passes = [list(Shuffled(stream, seed).chunks(None, k)) for seed, k in ((7, 1), (7, 1), (7, 2), (8, 1))]
        rows = [rows_by_number(chunks) for chunks in passes]
        assert rows[0] == rows[1] and rows[0] not in rows[2:] and rows[2] != rows[3]
        assert all(sorted(each) == expected for each in rows) and passes[0][-1].read == stored.total
        for k in (0, len(passes[0]) // 2, len(passes[0]) - 1):
            position = json.loads(json.dumps(passes[0][k].position))
            rest = rows_by_number(Shuffled(stream, 7).chunks(position, 1))
            assert rest == rows[0][len(rows[0]) - len(rest) :] and len(rest) == len(expected) - position["shuffled"]
        orders.append(rows[0])
    assert orders[2] == orders[3] != orders[1] != orders[0]  # from memory as from the cache
    monkeypatch.setattr(shuffled, "HELD_BYTES", 1000)
    large = Shuffled(open_stream(path, **options), 7)
    assert rows_by_number(large) == expected and large.order == "kept"  # more than may be held


def rows_by_number(chunks):
    """Every row of a pass with its number in the source."""
    found = []
    for chunk in chunks:
        numbers = chunk.first + np.arange(chunk.rows) if chunk.numbers is None else chunk.numbers
        weights = np.ones(chunk.rows) if chunk.weights is None else chunk.weights
        for k in range(chunk.rows):
            part, y, weight = slice(*chunk.indptr[k : k + 2]), chunk.y[k], weights[k]
            found.append((int(numbers[k]), chunk.indices[part].tolist(), chunk.data[part].tolist(), y, weight))
    return found


def test_the_first_pass_writes_and_the_second_reads(source, tmp_path):
    path, options = source
    expected = whole(open_stream(path, **options))
    stream = open_stream(path, cache=tmp_path / "cache", **options)
    half = iter(stream)
    next(half)
    half.close()
    assert not stream.is_cached and os.listdir(tmp_path) == [path.name]
    first = list(stream)
    assert whole(first) == expected and stream.is_cached and whole(stream) == expected
    later = open_stream(path, cache=tmp_path / "cache", **options)
    assert later.is_cached and later.names == stream.names
    if names := dict(list(stream.names.items())[:9]):  # as after a checkpoint
        assert open_stream(path, cache=tmp_path / "cache", names=names, **options).is_cached
        for other in (names | {3: "unknown"}, {0: names[1], 1: names[0]}):
            assert not open_stream(path, cache=tmp_path / "cache", names=other, **options).is_cached
        assert not open_stream(path, cache=tmp_path / "cache", names=names, frozen=True, **options).is_cached
    assert whole(first[:2] + list(later.chunks(first[1].position))) == expected
    path.write_bytes(path.read_bytes() + path.read_bytes()[-40:].split(b"\n", 1)[1])
    changed = open_stream(path, cache=tmp_path / "cache", **options)
    assert not changed.is_cached and len(whole(changed)["y"]) > len(expected["y"]) and changed.is_cached
    stamp = os.stat(path).st_mtime_ns + 10**9
    os.utime(path, ns=(stamp, stamp))
    with pytest.raises(StreamError, match="the source has changed since it was converted"):
        open_stream(tmp_path / "cache")
    os.remove(path)
    assert len(whole(open_stream(tmp_path / "cache"))["y"]) > len(expected["y"])  # a cache outlives its source


def test_other_options_are_another_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    (tmp_path / "x.svm").write_bytes(LIBSVM)
    streams = [open_stream(tmp_path / "x.svm", cache=True, hash_bits=bits) for bits in (5, 6)]
    assert len({stream.folder for stream in streams}) == 2 and tmp_path / "home" in streams[0].folder.parents
    assert whole(streams[0]) != whole(streams[1])
    moved = CachedStream(open_stream(tmp_path / "x.svm"), streams[0].folder)
    assert not moved.is_cached
    with pytest.raises(ValueError, match="no identity"):
        open_stream(iter([]), cache=True)


def test_every_flipped_byte_is_refused(tmp_path):
    (tmp_path / "x.vw").write_bytes(VW[:400].rpartition(b"\n")[0] + b"\n")
    folder = tmp_path / "cache"
    expected = whole(convert(tmp_path / "x.vw", folder))
    rng = np.random.default_rng(0)
    for name in os.listdir(folder):
        raw = (folder / name).read_bytes()
        used = CacheStream(folder).blocks[-1]["size"] if name == "rows.bin" else len(raw)
        for at in {0, used - 1, *rng.integers(0, used, 60).tolist()}:
            flipped = bytearray(raw)
            flipped[at] ^= 1 << int(rng.integers(8))
            (folder / name).write_bytes(flipped)
            with pytest.raises(StreamError, match="damaged"):
                list(open_stream(folder))
        for cut in (b"", raw[:-1], raw + b"\0"):
            (folder / name).write_bytes(cut)
            with pytest.raises(StreamError, match="damaged"):
                list(open_stream(folder))
        (folder / name).unlink()
        with pytest.raises((StreamError, OSError, ValueError)):
            list(open_stream(folder))
        (folder / name).write_bytes(raw)
    assert whole(open_stream(folder)) == expected


def test_a_full_disk_and_a_source_that_changes_leave_no_cache(tmp_path, monkeypatch):
    path = tmp_path / "x.svm"
    path.write_bytes(LIBSVM)
    expected = whole(open_stream(path))

    def full(self):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "_flush", full)
        stream = open_stream(path, cache=tmp_path / "cache", block_bytes=1000)
        with pytest.warns(RuntimeWarning, match="no cache was written .* No space left"):
            assert whole(stream) == expected
        with pytest.raises(OSError, match="No space"):
            convert(path, tmp_path / "cache")
    assert os.listdir(tmp_path) == ["x.svm"]

    def touch(chunk):
        os.utime(path, ns=(1, 1))

    with pytest.raises(StreamError, match="changed while it was read"):
        convert(path, tmp_path / "cache", progress=touch)
    assert os.listdir(tmp_path) == ["x.svm"]


_CONVERTING = """
import sys
from sparsco.streams import convert, cache
cache.BLOCK_BYTES = 2000
print("ready", flush=True)
while True:
    convert(sys.argv[1], sys.argv[2], block_bytes=3000, threads=1)
    print("done", flush=True)
"""


def test_a_killed_writer_leaves_nothing_that_is_accepted(tmp_path):
    path, folder = tmp_path / "x.svm", tmp_path / "cache"
    path.write_bytes(LIBSVM * 20)
    expected = whole(open_stream(path))
    rng = np.random.default_rng()
    accepted = 0
    for _ in range(int(os.environ.get("SPARSCO_KILLS", 5))):
        process = subprocess.Popen([sys.executable, "-c", _CONVERTING, path, folder], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"ready\n"
        if rng.random() < 0.5:
            process.stdout.readline()
        time.sleep(rng.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        if folder.exists():
            assert whole(open_stream(folder)) == expected
            accepted += 1
    convert(path, folder)
    assert sorted(os.listdir(tmp_path)) == ["cache", "x.svm"] and whole(open_stream(folder)) == expected
    assert accepted


def test_memory_does_not_depend_on_the_number_of_rows(tmp_path):
    pytest.importorskip("resource", reason="peaks of memory are measured by resource")
    path = tmp_path / "x.svm"
    lines = (b"1 " + b" ".join(b"%d:%d" % (j, i + j + 1) for j in range(200)) + b"\n" for i in range(4000))
    path.write_bytes(b"".join(lines))
    script = (
        "import sys, resource\nfrom sparsco.streams import open_stream\nfrom itertools import islice\n"
        "for c in islice(open_stream(sys.argv[1:2]), 1): pass\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "for c in open_stream(sys.argv[1:2] * 3): pass\nbefore = peak()\n"
        "for c in open_stream(sys.argv[1:2] * 30): pass\nprint(peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, check=True)
    assert float(done.stdout) < 15.0  # of 200 MB read


def test_plain_readings_know_wrong_lines():
    assert read_plainly(b"1 1:1\nx\n\n2 3:", "libsvm")[1] == {2, 4}
    assert read_plainly(b"1 | a\n1\n", "vw") == ([(1.0, 1.0, "", {"a": 1.0})], {2})


def test_a_share_is_never_a_power_of_ten():
    assert Column("x", "numbers", holes=0.997).line().startswith("x: numbers, 100% missing as the mean 0")
    assert Column("x", "numbers", holes=0.0951).line().startswith("x: numbers, 9.5% missing as the mean 0")
