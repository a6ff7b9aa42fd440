"""Row caches of anyone: their checksums are right, their rows are not."""

from __future__ import annotations

import numpy as np
import pytest

from sparsco import train
from sparsco.streams import StreamError, open_stream
from support.forging import Cache

LINES = "".join(f"{'spam' if i % 3 else 'ham'} {1 + i % 2}.5 'r{i}| a:{i} b{i % 7}:2 c\n" for i in range(50))


@pytest.fixture
def cache(tmp_path):
    (tmp_path / "a.vw").write_text(LINES.replace("spam", "1").replace("ham", "-1"))
    open_stream(tmp_path / "a.vw", cache=tmp_path / "rows")
    for _ in open_stream(tmp_path / "a.vw", cache=tmp_path / "rows"):
        pass
    return tmp_path / "rows"


def read(folder):
    return [chunk for chunk in open_stream(folder)]


def test_a_cache_that_is_taken_apart_and_put_together_is_read(cache):
    Cache(cache).write(cache, np.random.default_rng(0))
    assert sum(chunk.rows for chunk in read(cache)) == 50


def values(name, at, value):
    def change(cache):
        cache.blocks[0][name][at] = value

    return change


def length(name, size):
    def change(cache):
        cache.blocks[0][name] = np.resize(cache.blocks[0][name], size)

    return change


def kind(name, dtype):
    def change(cache):
        cache.blocks[0][name] = cache.blocks[0][name].astype(dtype)

    return change


def entry(name, value):
    def change(cache):
        cache.manifest["blocks"][0][name] = value

    return change


def wraps(cache):
    """Write the index 2^40 + 1, which is 1 in four bytes."""
    cache.blocks[0]["indices"] = cache.blocks[0]["indices"].astype(np.uint64)
    cache.blocks[0]["indices"][0] = 2**40 + 1


def repeats(cache):
    cache.blocks[0]["indices"][1] = cache.blocks[0]["indices"][0]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (values("indices", 5, 10**6), "outside of its 9 columns"),
        (values("indices", 5, 2**32 - 1), "outside of its 9 columns"),
        (wraps, "outside of its 9 columns"),
        (repeats, "two values of one column"),
        (values("indptr", 7, -1), "do not ascend"),
        (values("indptr", 7, 10**9), "do not ascend"),
        (values("indptr", 0, 1), "do not ascend"),
        (values("indptr", -1, 10**9), "do not ascend"),
        (values("data", 3, np.nan), "not finite"),
        (values("data", 3, 1e300), "not finite"),
        (values("weights", 3, -1.0), "negative"),
        (values("weights", 3, np.inf), "not finite"),
        (values("y", 3, np.inf), "infinite"),
        (values("tag_ends", 3, 10**9), "tags"),
        (length("y", 10), "different lengths"),
        (length("weights", 10), "different lengths"),
        (length("indices", 10), "different lengths"),
        (length("indptr", 10), "different lengths"),
        (length("tag_ends", 10), "different lengths"),
        (kind("indptr", np.int32), "of a type"),
        (kind("y", np.int64), "label"),
        (kind("data", np.int64), "of a type"),
        (entry("d", 0), "other rows"),
        (entry("d", 2**62), "other rows"),
        (entry("first", -5), "follow each other"),
        (entry("read", "zzz"), "wrong kind"),
        (entry("position", []), "wrong kind"),
    ],
)
def test_rows_that_do_not_fit_are_refused(cache, change, sentence):
    apart = Cache(cache)
    change(apart)
    apart.write(cache, np.random.default_rng(0))
    with pytest.raises(StreamError, match=sentence) as error:
        read(cache)
    assert str(error.value).startswith(f"{cache} is not a cache that sparsco wrote")


@pytest.mark.parametrize(
    ("name", "at", "value", "line"),
    [
        ("data", 3, 40.0, "1 2.5 'r1| a:1 b1:40 c"),
        ("weights", 1, 9.25, "1 9.25 'r1| a:1 b1:2 c"),
        ("y", 1, -1.0, "-1 2.5 'r1| a:1 b1:2 c"),
    ],
)
def test_what_is_learned_of_a_forged_cache_is_what_it_says(cache, tmp_path, name, at, value, line):
    """A change that is accepted has the effect of the same change in the text."""
    apart = Cache(cache)
    apart.blocks[0][name][at] = value
    apart.write(cache, np.random.default_rng(0))
    lines = (tmp_path / "a.vw").read_text().splitlines()
    (tmp_path / "b.vw").write_text("\n".join([lines[0], line, *lines[2:]]) + "\n")
    settings = {"alpha": 0.001, "random_state": 0}
    sources = cache, tmp_path / "b.vw", tmp_path / "a.vw"
    forged, written, before = (train(source, settings=settings).estimator for source in sources)
    assert np.isfinite(forged.coef_).all() and forged.classes_.tolist() == [-1, 1]
    assert np.array_equal(forged.coef_, written.coef_) and not np.array_equal(forged.coef_, before.coef_)


def test_rows_without_a_label_stay_so_in_a_cache(tmp_path):
    (tmp_path / "a.txt").write_text("\tone\n\ttwo\n")
    for _ in range(2):
        labels = [chunk.y.tolist() for chunk in open_stream(tmp_path / "a.txt", "text", cache=tmp_path / "rows")]
    assert labels in ([[None, None]], [["", ""]])
