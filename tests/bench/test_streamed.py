"""Rows from a generator: each is a function of its number, and a pass over them says what it extrapolates."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsco import cli
from sparsco.bench import by_row, killed_pass, present, sets, streamed
from sparsco.data.randomness import bits
from support import number_of_streams

SMALL = {name: shape._replace(d=4000, k=20) for name, shape in by_row.SHAPES.items()}


def row(shape, number):
    """The slow twin: one row by its definition."""

    def uniform(what):
        at = (number * (2 * shape.k + 1) + what) % 2**64
        return int(bits(by_row.SEED, by_row._DRAWN, [np.uint64(at).astype(np.int64)])[0] >> np.uint64(11)) * 2.0**-53

    columns, spread = [], math.log1p(shape.d / by_row.SHIFT)
    for q in range(shape.k):
        rank = math.floor(by_row.SHIFT * (math.exp(spread * (q + uniform(2 * q)) / shape.k) - 1.0))
        columns.append(max([rank, *(column + 1 for column in columns[-1:])]))
    values = np.array([1.0 if shape.as_ones else 0.1 + uniform(2 * q + 1) for q in range(shape.k)])
    values = values if shape.as_ones else values / np.linalg.norm(values)
    truth = by_row._truth(shape.d, shape.relevant, shape.scale)
    p = 1.0 / (1.0 + math.exp(-(shape.bias + truth[columns] @ values)))
    return columns, values, 1.0 if uniform(2 * shape.k) < p else -1.0, min(p, 1.0 - p)


@pytest.mark.parametrize("name", by_row.SHAPES)
@given(first=st.integers(0, 10**12), n=st.integers(1, 4))
@settings(max_examples=number_of_streams(20), deadline=None)
def test_rows_are_those_of_the_definition(name, first, n):
    shape = SMALL[name]
    X, y, least = shape.rows(first, n)
    assert X.shape == (n, shape.d) and X.indices.max() < shape.d
    noise = []
    for i in range(n):
        columns, values, label, own = row(shape, first + i)
        assert X[i].indices.tolist() == columns == sorted(set(columns)) and y[i] == label
        np.testing.assert_allclose(X[i].data, values, rtol=1e-12)
        noise.append(own)
    assert least == pytest.approx(np.mean(noise), rel=1e-9)


@pytest.mark.parametrize("shape", by_row.SHAPES.values(), ids=list(by_row.SHAPES))
def test_rows_do_not_depend_on_chunks(shape):
    X, y, _ = shape.rows(0, 200)
    for first, n in ((0, 7), (7, 100), (107, 93)):
        part, labels, _ = shape.rows(first, n)
        assert abs(part - X[first : first + n]).nnz == 0 and (labels == y[first : first + n]).all()
    assert X.nnz == 200 * shape.k and 0.0 < (y > 0.0).mean() < 1.0


def test_wide_rows_are_a_set_too():
    data, shape = sets.load("wide-100x4k", keep=False), by_row.SHAPES["wide"]._replace(d=4000)
    assert abs(data.X - shape.rows(0, 100)[0]).nnz == 0 and data.X_test.shape == (10, 4000)


def test_a_pass_learns_what_time_allows_and_extrapolates_the_rest(monkeypatch):
    monkeypatch.setattr(streamed, "SHAPES", SMALL)
    monkeypatch.setattr(streamed, "CHUNK", 40_000)
    monkeypatch.setattr(streamed, "TEST_ROWS", 500)
    whole = {line["method"]: line for line in streamed.measured("wide-5k", 1e9, lambda line: None)}
    part = {line["method"]: line for line in streamed.measured("wide-5k", 1e-9, lambda line: None)}
    assert {*whole} == {*part} == {*streamed.LEARNERS}
    for name in whole:
        assert whole[name]["rows"] == 5000 and whole[name]["extrapolated_cpu"] is None
        assert part[name]["rows"] == 2000 and part[name]["extrapolated_cpu"] > part[name]["cpu"] > 0.0
        assert 0.0 <= whole[name]["unevenness"] < 1.0 and 0.0 <= whole[name]["unevenness_over_bare"] < 1.0
        assert whole[name]["over_bare"] > 0.0 and whole[name]["least_error"] < 0.5
        assert whole[name]["bits_after_kill"] is None
    assert whole["sparsco default"]["error"] < 0.5
    text = present.table_markdown(present.scale_table([*whole.values(), *part.values()]))
    assert text.count("(extrapolated)") == len(part) and "5,000 of 5,000" in text and "2,000 of 5,000" in text


def test_a_pass_that_is_killed_and_resumed_has_the_same_bits():
    shape, rows, chunk = SMALL["ctr"], 9000, 700
    found = killed_pass.killed(shape, rows, chunk, 1e-3)
    whole, short = (streamed.LEARNERS["sparsco default"](1e-3) for _ in range(2))
    for at in range(0, rows, 1111):  # cut elsewhere
        X, y, _ = shape.rows(at, min(1111, rows - at))
        whole.partial_fit(X, y, classes=[-1.0, 1.0])
    X, y, _ = shape.rows(0, found.resumed_from)
    short.partial_fit(X, y, classes=[-1.0, 1.0])
    assert 0 < found.resumed_from <= found.at < rows and found.at >= rows // 2 and found.resumed_from % chunk == 0
    assert found.bits == killed_pass.bits(whole) != killed_pass.bits(short) and whole.coef_.any()


@pytest.mark.parametrize(("sign", "said"), [(1.0, "equal"), (-1.0, "DIFFER")])
def test_a_line_says_whether_bits_were_equal(sign, said, monkeypatch):
    monkeypatch.setattr(streamed, "SHAPES", SMALL)
    monkeypatch.setattr(streamed, "CHUNK", 40_000)
    monkeypatch.setattr(streamed, "TEST_ROWS", 500)

    def outcome(shape, rows, chunk, lam):
        model = streamed.LEARNERS["sparsco default"](lam)
        X, y, _ = shape.rows(0, rows)
        model.partial_fit(X, y * sign, classes=[-1.0, 1.0])
        return killed_pass.Killed(3000, 2500, killed_pass.bits(model))

    monkeypatch.setattr(killed_pass, "killed", outcome)
    ours, sgd = streamed.measured("ctr-4k", 1e9, lambda line: None, is_killed=True)
    assert (ours["bits_after_kill"], sgd["bits_after_kill"]) == (said, None)
    text = present.table_markdown(present.scale_table([ours, sgd]))
    assert f"{said}; killed at row 3,000, resumed from 2,500" in text


def test_the_command_prints_a_table_or_json(monkeypatch, capsys):
    def measured(name, seconds, say, is_killed):
        return [{"set": name, "seconds": seconds, "is_killed": is_killed}]

    monkeypatch.setattr(streamed, "measured", measured)
    assert cli.main(["bench", "--scale", "ctr-1b", "wide-850k", "--seconds", "2", "--kill", "--json", "-"]) == 0
    lines = json.loads(capsys.readouterr().out)["lines"]
    assert lines == [{"set": name, "seconds": 2.0, "is_killed": True} for name in ("ctr-1b", "wide-850k")]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--scale", "rcv1-20k"], "there is no set 'rcv1-20k'"),
        (["--scale", "ctr-99"], "at least 100"),
        (["--scale", "ctr-1b", "--seconds", "0"], "--seconds must be positive"),
        (["--scale", "ctr-1b", "--sets", "a9a"], "leave --sets out"),
        (["--seconds", "3"], "--seconds is for --scale"),
    ],
)
def test_bad_arguments(arguments, part, capsys):
    assert cli.main(["bench", *arguments]) == 2
    said = capsys.readouterr()
    assert part in said.err and said.out == "" and said.err.count("\n") == 1
