"""Raw texts from files: lines, folders, and columns of tables; the same texts give the same rows."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparsco.streams import StreamError, convert, open_stream
from sparsco.text.spec import TextSpec
from support.text_features import features_of

ROWS = [
    ("ham", "See you at 5pm"),
    ("spam", 'WIN a "prize" now, win £50'),
    ("ham", "été 😀, don't"),
    ("ham", ""),
    ("spam", '"quoted, from the start'),
] * 30


def examples(source, **options):
    """Return the named features of each row, and the labels."""
    stream = open_stream(source, **options)
    rows, labels = [], []
    for chunk in stream:
        for start, stop in zip(chunk.indptr[:-1], chunk.indptr[1:], strict=True):
            names = [stream.names[int(j)] for j in chunk.indices[start:stop]]
            rows.append(dict(zip(names, chunk.data[start:stop].tolist(), strict=True)))
        labels += chunk.y.tolist()
    return rows, labels


def expected(rows=ROWS, spec=TextSpec()):
    return [pytest.approx(features_of(text, spec)) for _, text in rows]


@pytest.fixture
def sources(tmp_path):
    """Return the same rows as files of every kind, with the options to read them."""
    (tmp_path / "a.txt").write_text("".join(f"{label}\t{text}\n" for label, text in ROWS))
    (tmp_path / "a.tsv.gz").write_bytes(
        gzip.compress(("label\tmessage\n" + "".join(f"{label}\t{text}\n" for label, text in ROWS)).encode())
    )
    quoted = "".join(f'''{label},"{text.replace('"', '""')}"\n''' for label, text in ROWS)
    (tmp_path / "a.csv").write_text("label,message\n" + quoted)
    objects = [{"message": text, "label": label} for label, text in ROWS]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in objects))
    table = pa.table({"label": [label for label, _ in ROWS], "message": [text for _, text in ROWS]})
    pq.write_table(table, tmp_path / "a.parquet")
    named = {"target": "label", "text": "message"}
    return [
        (tmp_path / "a.txt", {}),
        (tmp_path / "a.tsv.gz", named | {"quotes": False}),
        (tmp_path / "a.csv", named),
        (tmp_path / "a.jsonl", named),
        (tmp_path / "a.parquet", named),
        (table, named),
    ]


@pytest.mark.parametrize("k", range(6))
def test_every_source_gives_the_same_rows(sources, k):
    source, options = sources[k]
    rows, labels = examples(source, **options)
    assert rows == expected() and labels == [label for label, _ in ROWS]
    spec = {"analyzer": "char", "ngrams": (1, 2), "weighting": "count"}
    assert examples(source, **options, text_options=spec)[0] == expected(spec=TextSpec(**spec))


@pytest.mark.parametrize("k", range(6))
def test_reading_goes_on_from_any_position(sources, k):
    source, options = sources[k]
    stream = open_stream(source, **options)
    chunks = list(stream)
    again = open_stream(source, **options, names=stream.names)
    assert not list(again.chunks(chunks[-1].position))
    if isinstance(source, pa.Table):
        return
    spec = {"ngrams": (1, 2)}
    assert stream.identity() == again.identity() | {"options": stream.identity()["options"]}
    assert stream.identity() != open_stream(source, **options, text_options=spec).identity()


def test_lines_are_read_in_blocks_that_mean_nothing(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"{label}\t{text}\r\n\n" for label, text in ROWS))
    small = examples(tmp_path / "a.txt", block_bytes=100)
    assert small == examples(tmp_path / "a.txt") and small[0] == expected()
    stream = open_stream(tmp_path / "a.txt", block_bytes=100)
    chunk = next(iter(stream))
    rest = [
        label for part in open_stream(tmp_path / "a.txt", names=stream.names).chunks(chunk.position) for label in part.y
    ]
    assert rest == [label for label, _ in ROWS][chunk.rows :]


def test_a_folder_is_read_in_a_mixed_order_that_stays(tmp_path):
    for number, (label, text) in enumerate(ROWS):
        (tmp_path / label).mkdir(exist_ok=True)
        (tmp_path / label / f"{number}.txt").write_text(text)
    rows, labels = examples(tmp_path)
    assert (rows, labels) == examples(str(tmp_path))
    found = sorted((label, sorted(row)) for label, row in zip(labels, rows, strict=True))
    assert found == sorted((label, sorted(features_of(text, TextSpec()))) for label, text in ROWS)
    assert 5 < labels[:30].count("spam") < 25  # 40% of all
    stored = convert(tmp_path, tmp_path / "stored")
    assert [label for chunk in stored for label in chunk.y] == labels and not stored.is_stale()
    before = open_stream(tmp_path).identity()
    (tmp_path / "ham" / "0.txt").write_text("changed")
    assert open_stream(tmp_path).identity() != before and stored.is_stale()
    (tmp_path / "ham" / "0.txt").write_bytes(b"caf\xe9")
    with pytest.raises(StreamError, match=r"ham.0\.txt: the text is not valid UTF-8"):
        list(open_stream(tmp_path))


def test_a_text_beside_other_columns_has_its_name_before_its_words():
    table = pa.table({"y": [0, 1], "age": [3.0, 4.0], "note": ["age is 3", None], "kind": ["a", "b"]})
    rows, _ = examples(table, text=["note"], text_options={"norm": False})
    assert rows[0] == {"age": 3.0, "kind=a": 1.0, "note:age": 1.0, "note:is": 1.0, "note:3": 1.0, "note:#": 1.0}
    assert rows[1] == {"age": 4.0, "kind=b": 1.0}
    alone, _ = examples(table, text=["note"], schema={"age": "ignore", "kind": "ignore"}, text_options={"norm": False})
    assert alone[0] == {"age": 1.0, "is": 1.0, "3": 1.0, "#": 1.0}
    told = {"note": TextSpec(norm=False, prefix="")}
    assert examples(table, text=told, schema={"age": "ignore", "kind": "ignore"})[0] == alone
    two, _ = examples(table, text=["note", "kind"], schema={"age": "ignore"}, text_options={"norm": False})
    assert two[0] == {"note:age": 1.0, "note:is": 1.0, "note:3": 1.0, "note:#": 1.0, "kind:a": 1.0}


def test_hashing_gives_the_columns_of_the_names():
    table = pa.table({"y": [0, 1], "note": ["a b", "b c"]})
    stream = open_stream(table, text="note", hash_bits=10, signed=False)
    words = open_stream([({"b": 1.0}, 1)], hash_bits=10, signed=False)
    assert next(iter(words)).indices[0] in next(iter(stream)).indices


def test_fields_of_json_lines_are_columns(tmp_path):
    lines = [
        {"y": 1, "x": 1.5, "c": "a", "b": True},
        {"y": 0, "x": 2, "c": None, "b": False},
        {"y": 1, "x": 3, "b": True},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("\n\n".join(json.dumps(each) for each in lines))
    rows, labels = examples(path)
    assert rows == [{"x": 1.5, "c=a": 1.0, "b": 1.0}, {"x": 2.0, "c?": 1.0}, {"x": 3.0, "c?": 1.0, "b": 1.0}]
    assert labels == [1.0, 0.0, 1.0]
    path.write_text('{"y": 1, "x": 1}\n\n{"y": 0}\n')
    with pytest.raises(StreamError, match=r"a\.jsonl, line 3: column 'x' has no number"):
        list(open_stream(path, missing="refuse"))
    path.write_text('{"y": 1, "x": 1}\n\n{"y": 0, "x": "one"}\n')
    with pytest.raises(StreamError, match=r"a\.jsonl, line 3: it is not a JSON object like those before it"):
        list(open_stream(path))
    path.write_text('{"y": 1, "x": 1}\n{"y": 0, "x"\n')
    with pytest.raises(StreamError, match=r"a\.jsonl, line 2: "):
        list(open_stream(path))


def test_invalid_utf8_names_its_line(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"ham\tgood\n\nspam\tcaf\xe9\n")
    with pytest.raises(StreamError, match=r"a\.txt, line 3: the text is not valid UTF-8: convert it"):
        list(open_stream(tmp_path / "a.txt"))
    (tmp_path / "a.csv").write_bytes(b"y,m\nham,good\nspam,caf\xe9\n")
    with pytest.raises(StreamError, match=r"a\.csv, line 3: it is not valid UTF-8: convert the file"):
        list(open_stream(tmp_path / "a.csv", text="m"))


def test_wrong_options_are_refused(tmp_path):
    table = pa.table({"y": [0, 1], "note": ["a b", "b c"], "list": [[1], [2]]})
    with pytest.raises(ValueError, match="text_options has 'gram': choose from analyzer, ngrams"):
        open_stream(table, text="note", text_options={"gram": 1})
    with pytest.raises(ValueError, match="weighting must be one of count, binary, log, tfidf"):
        open_stream(table, text="note", text_options={"weighting": "idf"})
    with pytest.raises(StreamError, match="schema names the column 'nothing'"):
        open_stream(table, text="nothing", schema={"*": "ignore"})
    with pytest.raises(StreamError, match="column 'list' cannot be read as text"):
        list(open_stream(table, text="list"))
    with pytest.raises(ValueError, match="is a folder without texts"):
        open_stream(tmp_path)
    np.testing.assert_equal(examples(table, text="note", schema={"list": "ignore"})[1], [0.0, 1.0])


@pytest.mark.parametrize("k", range(5))
def test_a_cache_of_texts_is_found_again(sources, k, tmp_path):
    source, options = sources[k]
    first = open_stream(source, cache=tmp_path / "cache", **options)
    rows = sum(chunk.rows for chunk in first)
    again = open_stream(source, cache=tmp_path / "cache", **options)
    assert again.is_cached and sum(chunk.rows for chunk in again) == rows == len(ROWS)
    assert not open_stream(source, cache=tmp_path / "cache", text_options={"shapes": False}, **options).is_cached


def test_partitions_learn_all_words_of_a_column(tmp_path):
    from sparsco import SparseClassifier
    from sparsco.distributed import fit

    paths = []
    for k in range(2):
        paths.append(tmp_path / f"{k}.csv")
        lines = [f"{'ab'[i % 2]},{'good' if i % 2 else 'bad'} word{k} {i % 7}\n" for i in range(300)]
        paths[-1].write_text("label,message\n" + "".join(lines))
    model = SparseClassifier(alpha=0.01)
    fitted = fit(model, [str(path) for path in paths], reader={"target": "label", "text": "message"})
    assert {"good", "bad", "word0", "word1"} <= set(fitted.feature_names_)
    assert {line.name for line in fitted.summary().lines} <= {"good", "bad"}


def test_a_text_may_look_like_another_format(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("ham\ta table | with a bar\nspam\t1:2 3:4\n")
    assert examples(path)[1] == ["ham", "spam"]
    path.write_text("1\t|f a b\n-1\t|f c\n")
    assert examples(path)[1] == [1.0, -1.0]
