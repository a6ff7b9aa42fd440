"""A file whose indices count from 1 has as many features as columns, by whatever way it is read."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sparsco.cli import main
from sparsco.streams import convert
from sparsco.training import model_files

ROWS, D = 400, 30


def lines(first, rows=ROWS):
    rng = np.random.default_rng(0)
    for row in rng.standard_normal((rows, D)).round(3):
        entries = " ".join(f"{first + k}:{value}" for k, value in enumerate(row))
        yield f"{1 if row[2] > 0.0 else -1} {entries}\n"


@pytest.fixture
def features(tmp_path, capfd):
    def counted(*arguments):
        capfd.readouterr()
        model = str(tmp_path / "m.model")
        assert main(["train", *map(str, arguments), "-m", model, "--alpha", "0.1", "--quiet", "--json"]) == 0
        told = json.loads(capfd.readouterr().out)["features"]
        main(["inspect", model, "--json"])
        assert json.loads(capfd.readouterr().out)["features"] == told
        return told

    return counted


@pytest.mark.parametrize("first, more, expected", [(1, [], D), (0, [], D), (2, [], D + 1), (1, ["--one-based"], D)])
def test_columns_that_count_from_one_are_counted(first, more, expected, features, tmp_path):
    (tmp_path / "rows.svm").write_text("".join(lines(first)))
    assert features(tmp_path / "rows.svm", *more) == expected
    assert features(tmp_path / "rows.svm", *more, "--passes", "2") == expected
    convert(tmp_path / "rows.svm", tmp_path / "cache", zero_based=not more)
    assert features(tmp_path / "cache") == expected


def test_an_index_of_zero_in_any_row_is_a_column(features, tmp_path):
    """Also in a row of another run, which was saved before."""
    (tmp_path / "rows.svm").write_text("".join([*lines(1), "1 0:1.0\n"]))
    assert features(tmp_path / "rows.svm") == D + 1
    (tmp_path / "zero.svm").write_text("".join(lines(0)))
    (tmp_path / "one.svm").write_text("".join(lines(1)))
    assert features(tmp_path / "zero.svm", "--save-state") == D
    model = tmp_path / "m.model"
    assert main(["train", str(tmp_path / "one.svm"), "--update", str(model), "-m", str(tmp_path / "n.model")]) == 0
    assert model_files.read(tmp_path / "n.model")["extra"]["training"]["features"] == D + 1
