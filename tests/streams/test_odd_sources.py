"""Tables of odd types and files of odd bytes: read as what they mean, or refused by a sentence that names them."""

from __future__ import annotations

import bz2
import gzip
import lzma

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

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


def test_damaged_npz_files_are_named(tmp_path):
    file = tmp_path / "x.npz"
    sp.save_npz(file, sp.random_array((50, 5), density=0.5, rng=np.random.default_rng(0), format="csr"))
    whole, rng = file.read_bytes(), np.random.default_rng(1)
    damaged = [whole[: len(whole) // 2], b"PK\3\4" + whole[4:100]]
    for at in rng.integers(0, len(whole), 200):
        damaged.append(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
    refused = 0
    for raw in damaged:
        file.write_bytes(raw)
        try:
            open_stream(file, y=np.zeros(50))
        except StreamError as error:
            assert f"{file} cannot be read as .npz: " in str(error)
            refused += 1
    assert refused > 150


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("x.csv", "größe,target\n1,0\n", 1),
        ("x.tsv", "größe\ttarget\n1\t0\n", 1),
        ("x.csv", "a,target\n1,0\ngroß,1\n", 3),
        ("x.jsonl", '{"größe": 1, "target": 0}\n', 1),
        ("x.jsonl", '{"a": "x", "target": 0}\n\n{"a": "groß", "target": 0}\n', 3),
    ],
)
def test_text_in_latin_1_is_named_with_its_line(name, text, line, tmp_path):
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(StreamError, match=rf"{name}, line {line}: it is not valid UTF-8: convert the file, for"):
        list(open_stream(tmp_path / name))


def test_the_header_of_a_later_file_is_named_by_its_own_name(tmp_path):
    (tmp_path / "a.csv").write_text("a,target\n1,0\n")
    (tmp_path / "b.csv").write_bytes("größe,target\n1,0\n".encode("latin-1"))
    with pytest.raises(StreamError, match=r"b\.csv, line 1: it is not valid UTF-8"):
        list(open_stream([tmp_path / "a.csv", tmp_path / "b.csv"]))


@pytest.mark.parametrize("kind", ["category", "numbers", "date"])
def test_a_table_with_text_that_is_not_utf_8_is_named_with_its_row(kind, tmp_path):
    ends = np.array([0, 1, 2, 3], np.int32)
    cells = pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(ends), pa.py_buffer(b"1\xf62")])
    pq.write_table(pa.table({"a": cells, "target": [0, 1, 0]}), tmp_path / "x.parquet")
    with pytest.raises(StreamError, match=r"x\.parquet, row 2: column 'a' has a text that is not valid UTF-8"):
        list(open_stream(tmp_path / "x.parquet", schema={"a": kind}))


@pytest.mark.parametrize("options", [{}, {"target": "preis"}, {"schema": {"preis": "category"}, "target": None}])
def test_a_header_that_is_not_split_names_the_delimiter(options, tmp_path):
    for name, mark, says in [
        ("x.csv", ";", "größe;preis. If ; is between the cells, give delimiter=';' (--delimiter ';')."),
        ("x.csv", "|", "größe|preis. If | is between the cells, give delimiter='|' (--delimiter '|')."),
        ("x.csv", "\t", r"größe\tpreis. If tabs are between the cells, give format='tsv' (--format tsv)."),
        ("x.tsv", ",", "größe,preis. If , is between the cells, give delimiter=',' (--delimiter ',')."),
    ]:
        (tmp_path / name).write_text(f"größe{mark}preis\n1{mark}2\n")
        with pytest.raises(StreamError) as caught:
            open_stream(tmp_path / name, **options).description  # noqa: B018
        assert str(caught.value).endswith(says)


def test_json_lines_name_the_line_and_the_reason(tmp_path):
    file = tmp_path / "x.jsonl"
    good = '{"a": 1, "target": 1}\n'
    for text, says in [
        (good * 3 + "\n\0\n" + good, r"line 5: it is not a JSON object like those before it \('The document is empty"),
        (good * 90_000 + good.replace("1,", "1.5,"), "line 90001: .*Failed to convert JSON to int64"),
        (good + '{"a": ' + "9" * 5000 + ', "target": 1}\n', "line 2: column 'a' has inf: numbers must be finite"),
        ("\n\n", "line 1: there is no object"),
    ]:
        file.write_text(text)
        with pytest.raises(StreamError, match=rf"x\.jsonl, {says}"):
            list(open_stream(file, schema={"a": "category"} if "1.5" in text else None))


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
