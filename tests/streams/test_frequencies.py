"""Minimum counts and tf-idf in readers: the rows of SparseText in a stream, whatever the cut, through every door."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsco import SparseText, load, save, train
from sparsco.cli import main
from sparsco.streams import convert, open_stream
from sparsco.training import model_files
from sparsco.training.checkpoints import Checkpoints
from sparsco.training.results import StoppedError
from sparsco.training.scoring import opened_for
from support import number_of_streams

OPTIONS = [
    {"weighting": "tfidf"},
    {"min_count": 3},
    {"weighting": "tfidf", "min_count": 2, "ngrams": (1, 2)},
    {"weighting": "tfidf", "norm": False},
]
FAST = {"alpha": 0.003, "random_state": 0}


def made(count=900, seed=0):
    rng = np.random.default_rng(seed)
    told = {"spam": ["free prize", "prize prize £50"], "ham": ["see you", "home"]}
    labels = rng.choice(["spam", "ham"], count)
    words = [f"w{k}" for k in range(60)]
    return [(y, " ".join([*rng.choice(words, rng.integers(0, 6)), rng.choice(told[y])])) for y in labels]


ROWS = made()
NEW = ["a free prize", "", "unknown words", "prize w1 w2 w3 home", "£50"]


def rows_of(stream, start=None):
    chunks = list(stream.chunks(start))
    width = max((chunk.d for chunk in chunks), default=0)
    parts = [sp.csr_matrix((c.data, c.indices.astype(np.int64), c.indptr), (c.rows, width)) for c in chunks]
    return sp.vstack(parts).tocsr().sorted_indices()


def equal(one, other):
    return one.shape == other.shape and all(
        np.array_equal(getattr(one, part), getattr(other, part)) for part in ("indptr", "indices", "data")
    )


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{label}\t{text}\n" for label, text in ROWS))
    return path


@given(
    texts=st.lists(st.lists(st.sampled_from("abcde"), max_size=5).map(" ".join), min_size=1, max_size=12),
    weighting=st.sampled_from(["tfidf", "log"]),
    min_count=st.integers(1, 3),
)
@settings(max_examples=number_of_streams(60), deadline=None)
def test_a_column_has_the_rows_of_the_transformer(texts, weighting, min_count):
    text = SparseText(weighting=weighting, min_count=min_count)
    expected = text.partial_fit_transform(texts)
    table = pa.table({"y": np.zeros(len(texts)), "m": pa.array(texts, pa.string())})
    stream = open_stream(table, text="m", text_options={"weighting": weighting, "min_count": min_count})
    chunks = list(stream)
    names = list(stream.names.values())
    assert names == text.get_feature_names_out().tolist()
    found = sp.csr_matrix((chunks[0].data, chunks[0].indices.astype(np.int64), chunks[0].indptr), expected.shape)
    assert equal(found.sorted_indices(), expected.sorted_indices())


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_blocks_and_positions_mean_nothing(lines, options):
    expected = SparseText(**options).partial_fit_transform([text for _, text in ROWS]).sorted_indices()
    small = open_stream(lines, text_options=options, block_bytes=700)
    assert equal(rows_of(small), expected) and equal(rows_of(small), expected)  # a second pass is the first
    chunks = list(small)
    at = chunks[len(chunks) // 2]
    again = open_stream(lines, text_options=options, block_bytes=1300, names=small.names)  # other blocks go on
    rest = rows_of(again, at.position)
    assert equal(rest, expected[at.first + at.rows :].sorted_indices())
    for name, each in small.counts.items():
        assert each["texts"] == len(ROWS) == again.counts[name]["texts"]
        np.testing.assert_array_equal(each["documents"], again.counts[name]["documents"])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("source", ["lines", "table"])
def test_every_door_gives_the_same_bits(lines, tmp_path, options, source):
    table = pd.DataFrame(ROWS, columns=["label", "text"]).assign(n=np.arange(len(ROWS)) % 7)
    own = {"target": "label", "text": "text"} if source == "table" else {}
    given = table.drop(columns="n") if source == "table" else lines
    model = train(given, text_options=options, settings=FAST, **own).estimator
    frame = pd.DataFrame({"text": NEW})
    expected = model.decision_function(NEW)
    (tmp_path / "new.txt").write_text("".join(f"?\t{text}\n" for text in NEW))
    for one in (model, load(save(model, tmp_path / "m")), pickle.loads(pickle.dumps(model))):
        assert one.decision_function(frame).tobytes() == expected.tobytes()
        assert np.array([one._margins_one(text)[0] for text in NEW]).tobytes() == expected.tobytes()
        assert np.array([one._margins_one({"text": text})[0] for text in NEW]).tobytes() == expected.tobytes()
    own, stream = opened_for(model_files.read(tmp_path / "m"), tmp_path / "new.txt", False)
    assert np.concatenate([own.margins_of(chunk.matrix)[:, 0] for chunk in stream]).tobytes() == expected.tobytes()
    text = SparseText(**options).fit([text for _, text in ROWS])
    X, names = text.transform(NEW), text.get_feature_names_out().tolist()
    weights = {line.name: line.weight for line in model.summary(top=100).lines}
    by_hand = X @ np.array([weights.get(name, 0.0) for name in names]) + model.intercept_
    np.testing.assert_allclose(expected, by_hand, atol=1e-12)


def test_a_table_has_counted_texts_beside_other_columns(tmp_path):
    table = pd.DataFrame(ROWS, columns=["label", "about"]).assign(n=np.arange(len(ROWS)) % 7)
    table["title"] = [text[::-1] for text in table["about"]]
    table.loc[5, "about"] = None
    options = {"target": "label", "text": ["about", "title"], "text_options": {"weighting": "tfidf"}}
    model = train(table, settings=FAST, **options).estimator
    new = table.drop(columns="label").head(30)
    records = new.to_dict("records")
    expected = model.decision_function(new)
    for one in (model, load(save(model, tmp_path / "m"))):
        assert one.decision_function(new).tobytes() == expected.tobytes()
        assert np.array([one._margins_one(each)[0] for each in records]).tobytes() == expected.tobytes()
    by_frame, by_dict = (pickle.loads(pickle.dumps(model)) for _ in range(2))
    by_frame.partial_fit(new, table["label"][:30])
    for record, label in zip(records, table["label"], strict=False):
        by_dict.learn_one(record, label)
    assert by_frame.decision_function(new).tobytes() == by_dict.decision_function(new).tobytes()
    assert by_frame.fit_state.described.known_counts()["about"]["texts"] == len(ROWS) + 30


@pytest.mark.parametrize("options", OPTIONS[:3], ids=str)
def test_caches_and_checkpoints_keep_the_counts(lines, tmp_path, options):
    expected = train(lines, text_options=options, settings=FAST).estimator.decision_function(NEW)
    convert(lines, tmp_path / "rows", text_options=options)
    assert train(tmp_path / "rows", settings=FAST).estimator.decision_function(NEW).tobytes() == expected.tobytes()
    for _ in range(2):
        cached = train(lines, text_options=options, settings=FAST, cache=tmp_path / "cache").estimator
        assert cached.decision_function(NEW).tobytes() == expected.tobytes()
    quiet = {"reader": {"text_options": options, "block_bytes": 900}, "settings": FAST, "shuffle": False}
    whole = train(lines, **quiet).estimator.decision_function(NEW)
    calls = iter(range(10**6))
    checkpoints = Checkpoints(tmp_path / "c", 100, None)
    with pytest.raises(StoppedError):
        train(lines, checkpoints=checkpoints, stop=lambda: next(calls) > 25, **quiet)
    resumed = train(lines, checkpoints=checkpoints, resume=True, **quiet).estimator
    assert resumed.decision_function(NEW).tobytes() == whole.tobytes()


def test_the_shell_has_both_and_goes_on(lines, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = lines.read_text().splitlines(keepends=True)
    (tmp_path / "one.txt").write_text("".join(text[:500]))
    (tmp_path / "two.txt").write_text("".join(text[500:]))
    told = ["--weighting", "tfidf", "--min-count", "2", "--alpha", "0.003", "--quiet", "--no-shuffle"]
    assert main(["train", "one.txt", *told, "--save-state", "-m", "a.model"]) == 0
    assert main(["train", "two.txt", "--update", "a.model", "--quiet", "--no-shuffle", "-m", "b.model"]) == 0
    assert main(["train", "a.txt", *told, "-m", "c.model"]) == 0
    updated, whole = load("b.model"), load("c.model")
    assert updated.decision_function(NEW).tobytes() == whole.decision_function(NEW).tobytes()
    capsys.readouterr()
    assert main(["inspect", "c.model"]) == 0
    assert "text: text, words, tf-idf, each in at least 2 texts" in capsys.readouterr().out
    for words, sentence in [
        (["a.txt", "--min-count", "2", "--hash-bits", "9"], "min_count is for a vocabulary"),
        (["one.txt", "two.txt", "--weighting", "tfidf", "--dask", "local:1"], "which partitions do not know"),
    ]:
        assert main(["train", *words, "-m", "d.model"]) == 2
        assert sentence in capsys.readouterr().err and not (tmp_path / "d.model").exists()


def test_hashed_texts_have_the_values_of_the_transformer(lines):
    options = {"weighting": "tfidf"}
    expected = SparseText(hash_bits=7, **options).partial_fit_transform([text for _, text in ROWS])
    found = rows_of(open_stream(lines, text_options=options, hash_bits=7))
    np.testing.assert_allclose(found.toarray(), expected.toarray(), atol=1e-15)
    model = train(lines, text_options=options, hash_bits=7, settings=FAST).estimator
    assert np.array([model._margins_one(text)[0] for text in NEW]).tobytes() == model.decision_function(NEW).tobytes()


def test_wrong_files_and_options_are_refused(lines, tmp_path):
    with pytest.raises(ValueError, match="min_count must be a whole number of at least 1, not 0"):
        open_stream(lines, text_options={"min_count": 0})
    model = train(lines, text_options={"weighting": "tfidf"}, settings=FAST).estimator
    content = model_files.contents(model) | {"extra": {}}
    for wrong in (None, {"other": content["counts"]["text"]}, {"text": content["counts"]["text"] | {"texts": -1}}):
        with pytest.raises(ValueError, match="the model cannot be saved: its (frequencies|number) of texts"):
            model_files.write(tmp_path / "w", content | {"counts": wrong})
