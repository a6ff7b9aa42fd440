"""Intervals in model files and on the command line."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sparsco import SparseClassifier, SparseRegressor, cli, load, save
from sparsco.training import archive, inspection, model_files

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 8))
Y = X[:, 2] - X[:, 5] + RNG.normal(size=600)
TABLE = pd.DataFrame(X, columns=list("abcdefgh"))


def assert_same(one, other):
    for field in one.dtype.names:
        np.testing.assert_array_equal(one[field], other[field])


@pytest.mark.parametrize(
    ("model", "rows", "y"),
    [
        (SparseRegressor(random_state=0), TABLE, Y),
        (SparseRegressor(alpha=0.2, storage="seen", random_state=0), sp.csr_array(X), Y),
        (SparseRegressor(alpha=0.2, random_state=0), X, np.column_stack([Y, X[:, 1]])),
        (SparseClassifier(alpha=0.1, random_state=0), X, np.digitize(Y, [-0.5, 0.5])),
    ],
    ids=["table", "seen", "outputs", "classes"],
)
def test_a_loaded_model_has_the_intervals_that_were_computed(model, rows, y, tmp_path):
    model.fit(rows, y)
    found = model.intervals(0.9, also=[7])
    again = load(save(model, tmp_path / "m"))
    assert_same(again.intervals(0.9), found)
    assert str(again.summary(intervals=0.9)) == str(model.summary(intervals=0.9, also=[7]))
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    assert again.n_selected_ == model.n_selected_


def test_named_features_keep_their_intervals(tmp_path):
    model = SparseRegressor(random_state=0)
    for row, y in zip(X, Y, strict=True):
        model.learn_one({f"word {k}": value for k, value in enumerate(row.tolist())}, y)
    found = model.intervals(also=["word 7"])
    again = load(save(model, tmp_path / "m")).intervals()
    order, theirs = np.argsort(found["feature"]), np.argsort(again["feature"])
    assert_same(again[theirs], found[order])


def test_a_stream_that_is_saved_goes_on(tmp_path):
    model = SparseRegressor(alpha=0.2, random_state=0).partial_fit(X[:500], Y[:500])
    model.intervals(split=True)
    again = load(save(model, tmp_path / "m", training=True), training=True)
    assert_same(again.intervals(split=True), model.intervals(split=True))
    assert_same(
        again.partial_fit(X[500:], Y[500:]).intervals(split=True),
        model.partial_fit(X[500:], Y[500:]).intervals(split=True),
    )


def test_files_of_before_have_none(tmp_path):
    content = model_files.contents(SparseRegressor(alpha=0.2, random_state=0).fit(X, Y)) | {"extra": {}}
    del content["intervals"]
    path = archive.write(tmp_path / "m", "model", content)
    with pytest.raises(ValueError, match="no intervals, and no rows"):
        load(path).summary(intervals=0.95)
    assert inspection.description(model_files.read(path))["intervals"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"level": 2.0}, "the level of its intervals is impossible"),
        ({"sampled": 10**9}, "the rows of its intervals are impossible"),
        ({"features": np.array([0, 8])}, "intervals of features that it does not have"),
        ({"outputs": np.array([0, 1])}, "intervals of features that it does not have"),
        ({"errors": np.array([-1.0, 1.0])}, "its intervals do not fit"),
        ({"errors": np.array([np.nan, 1.0])}, "its intervals do not fit"),
        ({"weights": np.array([1.0])}, "its intervals are not numbers"),
        ({"further": 1}, "its intervals are incomplete"),
    ],
    ids=str,
)
def test_intervals_that_do_not_fit_are_refused(change, message, tmp_path):
    model = SparseRegressor(alpha=0.3, random_state=0).fit(X, Y)
    assert len(model.intervals()) == 2
    content = model_files.contents(model) | {"extra": {}}
    content["intervals"] |= change
    with pytest.raises(archive.ArchiveError, match=message):
        load(archive.write(tmp_path / "m", "model", content))


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TABLE.assign(price=Y, copy=TABLE["a"]).to_csv("t.csv", index=False)
    return ["train", "t.csv", "--target", "price", "--task", "regression", "--quiet"]


@pytest.mark.parametrize("more", [[], ["--split"], ["--alpha", "0.2"], ["--alpha", "0.2", "--polish"]], ids=str)
def test_the_command_line_shows_them(data, more, capsys):
    assert cli.main([*data, "--intervals", "0.99", *more]) == 0
    assert "intervals of level 0.99, from" in capsys.readouterr().out
    assert cli.main(["inspect", "t.model", "--html", "page.html"]) == 0
    assert cli.main(["inspect", "t.model"]) == 0
    text = capsys.readouterr().out
    assert "99% intervals of the weights without a penalty, from" in text and "std error" in text
    assert ("selected on other rows" in text) == ("--split" in more)
    assert "99% intervals" in open("page.html").read()
    assert cli.main(["inspect", "t.model", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["intervals"]
    found = {each["name"]: each for each in shown["weights"]}
    assert shown["level"] == 0.99 and {"c", "f"} <= set(found)
    assert found["c"]["low"] < 1.0 < found["c"]["high"] and found["f"]["low"] < -1.0 < found["f"]["high"]


def test_weights_that_are_not_decided_are_shown_without_numbers(data, tmp_path):
    model = SparseRegressor(alpha=0.2, random_state=0).fit(np.column_stack([X, X[:, 2]]), Y)
    model.intervals(also=[2, 8])
    content = model_files.read(save(model, tmp_path / "m"))
    last = inspection.intervals(content)["weights"][-1]
    assert (last["name"], last["estimate"], last["low"]) == ("8", None, None)
    assert inspection.described(content, 20)


def test_the_command_line_trains_a_model_without_them_if_there_are_none(data, capsys):
    assert cli.main([*data, "--intervals", "0.9", "--loss", "quantile", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "the model has no intervals: intervals need a loss with second derivatives" in err
    assert any("no intervals" in warning for warning in json.loads(out)["warnings"])
    assert load("t.model").n_selected_ > 0


def test_the_command_line_refuses(data, capsys):
    assert cli.main([*data, "--split"]) == 2
    assert "--split is for --intervals LEVEL" in capsys.readouterr().err
    assert cli.main([*data, "--intervals", "0.9", "--dask", "local:1"]) == 2
    assert "--dask does not support --intervals" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main([*data, "--intervals", "95"])
    assert "'95' is not a number between 0 and 1" in capsys.readouterr().err
