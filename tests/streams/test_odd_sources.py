"""Tables of odd types and files of odd bytes: read as what they mean, or refused by a sentence that names them."""

from __future__ import annotations

import bz2
import gzip
import lzma

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparsco.streams import StreamError, open_stream

Y = [0, 1, 0, 1]
LINES = b"1 1:2\n-1 2:3\n"


def examples(source, **options):
    """Return each row as a dict of named features, and the labels."""
    stream = open_stream(source, **options)
    rows, labels = [], []
    for chunk in stream:
        for start, stop in zip(chunk.indptr[:-1], chunk.indptr[1:], strict=True):
            rows.append(
                {
                    stream.names.get(int(j), int(j)): float(x)
                    for j, x in zip(chunk.indices[start:stop], chunk.data[start:stop], strict=True)
                }
            )
        labels += list(chunk.y)
    return rows, labels


@pytest.mark.parametrize(
    "column",
    [
        pa.array([True, None, False, True]),
        pa.array([1, None, 0, 1], pa.uint8()),
        pa.array([1, None, 0, 1], pa.decimal128(5, 2)),
        pa.array(["1", None, "0", "1"]),
        pa.array([1, None, 0, 1]).dictionary_encode(),
    ],
    ids=["boolean", "unsigned", "decimal", "text", "dictionary"],
)
def test_missing_numbers_of_every_type_are_zero_where_asked_for(column):
    table = pa.table({"b": column, "y": Y})
    rows, _ = examples(table, missing="zero", schema={"b": "numeric"})
    assert rows == [{"b": 1.0}, {}, {}, {"b": 1.0}]
    with pytest.raises(StreamError, match="row 2: column 'b' has no number"):
        examples(table, schema={"b": "numeric"}, missing="refuse")


def test_a_column_of_nulls_has_no_numbers():
    assert examples(pa.table({"b": pa.nulls(4), "y": Y}), missing="zero", schema={"b": "numeric"})[0] == [{}] * 4


@pytest.mark.parametrize("codes", [pa.int8(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()], ids=str)
def test_dictionaries_may_have_codes_of_any_type(codes):
    column = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 2], codes), pa.array(["red", "blue", None]))
    rows, _ = examples(pa.table({"c": column, "y": Y}))
    assert rows == [{"c=red": 1.0}, {"c?": 1.0}, {"c=blue": 1.0}, {"c?": 1.0}]
    labels = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, 0], codes), pa.array(["red", "blue"]))
    assert examples(pa.table({"c": Y, "y": labels}))[1] == ["red", "blue", "blue", "red"]


def test_categories_of_polars():
    polars = pytest.importorskip("polars")
    for kind in (polars.Categorical, polars.Enum(["red", "blue"])):
        column = polars.Series(["red", None, "blue", "red"], dtype=kind)
        rows, labels = examples(polars.DataFrame({"c": column, "y": Y}))
        assert rows == [{"c=red": 1.0}, {"c?": 1.0}, {"c=blue": 1.0}, {"c=red": 1.0}]
        frame = polars.DataFrame({"c": [1.0, 2.0], "y": polars.Series(["red", "blue"], dtype=kind)})
        assert examples(frame)[1] == ["red", "blue"]


def test_what_cannot_be_categories_names_its_column():
    with pytest.raises(StreamError, match=r"column 'b' of type list<.*> cannot be read as categories"):
        examples(pa.table({"b": [[1], [2], [3], [1]], "y": Y}), schema={"b": "categorical"})


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".svm", ".vw", ".txt"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_text_of_other_encodings_is_refused_by_name(tmp_path, encoding, suffix):
    path = tmp_path / f"rows{suffix}"
    path.write_bytes("1 y\n1 1:2\n".encode(encoding))
    with pytest.raises(StreamError, match=f"rows{suffix} cannot be read: it looks like UTF-16 or binary data"):
        examples(path, **({"target": "y"} if suffix in (".csv", ".tsv") else {}))


def test_damaged_parquet_is_refused_by_name(tmp_path):
    rng, path, bad = np.random.default_rng(0), tmp_path / "good.parquet", tmp_path / "bad.parquet"
    table = pa.table({"a": rng.normal(size=3000).round(1), "s": [str(k % 7) for k in range(3000)]})
    pq.write_table(table.append_column("y", pa.array(rng.integers(0, 2, 3000))), path, write_page_checksum=True)
    raw, refused = path.read_bytes(), 0
    for at in range(4, len(raw), len(raw) // 60):
        bad.write_bytes(raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :])
        try:
            examples(bad)
        except StreamError as error:
            assert str(error).startswith(str(bad))
            refused += 1
    assert refused > 40  # the others lie in statistics and other parts that no row depends on


@pytest.mark.parametrize("suffix, pack", [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_packed_members_follow_each_other_and_nothing_else_does(tmp_path, suffix, pack):
    path, once = tmp_path / f"rows.svm{suffix}", examples(_written(tmp_path / "plain.svm", LINES))
    long = LINES * 20_000  # more than a buffer, so that members end anywhere in one
    assert len(examples(_written(path, pack(long) + pack(long)))[1]) == 80_000
    assert examples(_written(path, pack(LINES) + pack(b"") + pack(LINES)))[1] == once[1] * 2
    for tail in (b"x", b"garbage", b"1 1:2\n" * 100_000):
        with pytest.raises(StreamError, match=f"rows.svm{suffix} cannot be read"):
            examples(_written(path, pack(LINES) + tail))
    for cut in (1, 5, 9):
        with pytest.raises(StreamError, match=f"rows.svm{suffix} cannot be read"):
            examples(_written(path, pack(LINES) + pack(LINES)[:-cut]))


def test_the_padding_of_xz_is_no_garbage(tmp_path):
    path = _written(tmp_path / "rows.svm.xz", lzma.compress(LINES) + bytes(8) + lzma.compress(LINES) + bytes(4))
    assert len(examples(path)[1]) == 4


def _written(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("depth", [65, 20_000])
@pytest.mark.parametrize("line", [1, 3])
def test_json_is_not_nested_without_end(tmp_path, depth, line):
    rows = ['{"a": 1, "b": "x\\"[[{", "y": 1}'] * 4
    rows[line - 1] = '{"a": ' + "[" * depth + "]" * depth + ', "y": 1}'
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    with pytest.raises(StreamError, match=rf"a.jsonl, line {line}: it has more than 64 brackets inside one another"):
        examples(tmp_path / "a.jsonl", target="y")


def test_brackets_in_texts_are_not_nested(tmp_path):
    line = '{"a": 1, "b": "' + "[" * 200 + '\\"[[", "y": 1}\n'
    (tmp_path / "a.jsonl").write_text(3 * line)
    assert examples(tmp_path / "a.jsonl", target="y")[1] == [1.0, 1.0, 1.0]
