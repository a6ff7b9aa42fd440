"""The same rows in every format of files."""

import io

import numpy as np
import pytest
import scipy.sparse as sp

from sparsco import open_stream, streams

X, Y = np.array([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0], [2.0, 4.0]]), np.array([1.0, -1.0, -1.0, 1.0])
ROWS = [(int(y), [int(value) for value in x]) for x, y in zip(X, Y, strict=True)]


def of_table(write):
    """Return the file that a function of pyarrow writes for the rows as a table."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    file = io.BytesIO()
    write(pa.table({"y": Y, "a": X[:, 0], "b": X[:, 1]}), file)
    return file.getvalue()


def as_parquet():
    return of_table(pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed").write_table)


def as_arrow():
    return of_table(pytest.importorskip("pyarrow.feather", reason="pyarrow is not installed").write_feather)


def as_npz():
    file, rows = io.BytesIO(), sp.csr_array(X)
    np.savez(file, data=rows.data, indices=rows.indices, indptr=rows.indptr, shape=rows.shape, y=Y, format=b"csr")
    return file.getvalue()


def as_lines(line):
    return "".join(line(y, a, b) + "\n" for y, (a, b) in ROWS).encode()


FORMATS = {
    "libsvm": lambda: as_lines(lambda y, a, b: f"{y} 0:{a} 1:{b}"),
    "vw": lambda: as_lines(lambda y, a, b: f"{y} | a:{a} b:{b}"),
    "csv": lambda: b"y,a,b\n" + as_lines(lambda y, a, b: f"{y},{a},{b}"),
    "tsv": lambda: b"y\ta\tb\n" + as_lines(lambda y, a, b: f"{y}\t{a}\t{b}"),
    "jsonl": lambda: as_lines(lambda y, a, b: f'{{"y": {y}, "a": {a}, "b": {b}}}'),
    "text": lambda: as_lines(lambda y, a, b: f"{y}\t{'a ' * a}{'b ' * b}"),
    "parquet": as_parquet,
    "arrow": as_arrow,
    "npz": as_npz,
}


def test_every_format_is_here():
    assert set(FORMATS) == set(streams._FORMATS)


@pytest.mark.parametrize("format", FORMATS)
def test_rows_are_the_same_in_every_format(tmp_path, format):
    (tmp_path / "rows").write_bytes(FORMATS[format]())
    options = {name: {"target": "y"} for name in ("csv", "tsv", "jsonl", "parquet", "arrow")}
    options["text"] = {"text_options": {"weighting": "count", "norm": False}}
    chunks = list(open_stream(tmp_path / "rows", format, **options.get(format, {})))
    found = sp.vstack([sp.csr_array((each.data, each.indices, each.indptr), (each.rows, 2)) for each in chunks])
    np.testing.assert_array_equal(found.toarray(), X)
    assert [float(label) for each in chunks for label in each.y] == Y.tolist()
