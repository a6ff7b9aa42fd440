"""Offsets from files: every format gives the same model, and its predictions find the offset themselves."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import sparsco
from sparsco import SparseClassifier, SparseRegressor, open_stream, train
from sparsco.cli import main
from sparsco.distributed import fit
from sparsco.streams import StreamError, convert
from sparsco.training.checkpoints import Checkpoints
from sparsco.training.results import StoppedError

N, COLUMNS = 2500, ["a", "b", "c"]


@pytest.fixture(scope="module")
def frame():
    """Claims of policies with an exposure, and their logarithm in another column."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)).round(3)
    exposure = rng.uniform(0.1, 2.0, N).round(3)
    claims = rng.poisson(np.exp(X @ [0.5, -0.4, 0.0] - 0.5) * exposure) * 1.0
    found = pd.DataFrame(X, columns=COLUMNS)
    return found.assign(city=rng.choice(["x", "y"], N), exposure=exposure, offset=np.log(exposure), target=claims)


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    """The frame in every format."""
    path = tmp_path_factory.mktemp("offsets")
    frame = frame.drop(columns="city")
    frame.to_csv(path / "t.csv", index=False)
    frame.to_parquet(path / "t.parquet")
    frame.to_feather(path / "t.arrow")
    frame.to_json(path / "t.jsonl", orient="records", lines=True, double_precision=15)
    np.savez(path / "t.npz", X=frame[COLUMNS], y=frame["target"], offset=frame["offset"])
    with open(path / "t.vw", "w") as file:
        for row in frame.to_dict("records"):
            cells = " ".join(f"{name}:{row[name]!r}" for name in COLUMNS)
            file.write(f"{row['target']:g} 1 {row['offset']!r} | {cells}\n")
    return path


SETTINGS = {"loss": "poisson", "alpha": 0.01, "random_state": 0}


def model_of(source, **options):
    found = train(source, SparseRegressor(**SETTINGS), **options).estimator
    return dict(zip(COLUMNS, np.ravel(found.coef_).tolist(), strict=True)), float(np.ravel(found.intercept_)[0])


def test_every_source_gives_the_same_model(folder, frame):
    by_log = {"offset": "log(exposure)", "schema": {"offset": "ignored"}}
    plain = frame.drop(columns="city")
    expected = model_of(folder / "t.csv", **by_log)
    assert expected[0]["a"] > 0.3 and abs(expected[1] + 0.5) < 0.2
    for source in (folder / "t.parquet", folder / "t.arrow", folder / "t.jsonl", plain):
        assert model_of(source, **by_log) == expected
    by_column = {"offset": "offset", "schema": {"exposure": "ignored"}}
    assert model_of(folder / "t.csv", **by_column) == expected
    X, y, offset = frame[COLUMNS].to_numpy(), frame["target"].to_numpy(), frame["offset"].to_numpy()
    examples = [(dict(zip(COLUMNS, x, strict=True)), t, 1.0, o) for x, t, o in zip(X.tolist(), y, offset, strict=True)]
    assert model_of(X, y=y, offset=offset) == expected
    assert model_of(folder / "t.npz") == expected
    assert model_of(folder / "t.vw") == expected
    assert model_of(examples) == expected
    cache = convert(folder / "t.csv", folder / "rows", **by_log)
    assert model_of(cache.folder) == expected
    assert model_of(folder / "t.csv", **by_log, cache=folder / "kept") == expected
    assert model_of(folder / "t.csv", **by_log, cache=folder / "kept") == expected
    without = model_of(folder / "t.csv", schema={"offset": "ignored", "exposure": "ignored"})
    assert without != expected


def test_shell_frames_and_dicts_predict_alike(folder, frame, tmp_path, capsys):
    frame.to_csv(tmp_path / "t.csv", index=False)
    where, model = str(tmp_path / "t.csv"), str(tmp_path / "m.model")
    asked = ["--loss", "poisson", "--offset", "log(exposure)", "--schema", "offset=ignored"]
    assert main(["train", where, "-m", model, "--quiet", *asked]) == 0
    capsys.readouterr()
    found = sparsco.load(model)
    assert main(["predict", model, where]) == 0
    shown = np.array(capsys.readouterr().out.split(), float)
    assert np.array_equal(found.predict(frame), shown)
    assert np.array_equal([found.predict_one(each) for each in frame.head(20).to_dict("records")], shown[:20])
    assert np.array_equal(found.predict(frame.drop(columns="exposure"), offset=frame["offset"]), shown)
    assert main(["predict", model, where, "--offset", "none"]) == 0
    rates = np.array(capsys.readouterr().out.split(), float)
    np.testing.assert_allclose(rates * frame["exposure"], shown, rtol=1e-12)
    assert main(["evaluate", model, where, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean((shown - frame["target"]) ** 2)))
    loss = np.mean(shown - frame["target"] * np.log(shown))
    assert figures["loss"] == pytest.approx(loss)
    with pytest.raises(StreamError, match="has no column 'exposure', the offset"):
        found.predict(frame.drop(columns="exposure"))
    with pytest.raises(ValueError, match="column 'exposure', the offset, has no number"):
        found.predict_one({"a": 1.0})
    with pytest.raises(ValueError, match="needs numbers above 0"):
        found.predict_one({"a": 1.0, "exposure": -1.0})
    assert main(["path", where, *asked, "--quiet"]) == 0
    capsys.readouterr()
    assert main(["inspect", model]) == 0
    assert "column exposure: offset, its logarithm" in capsys.readouterr().out


def test_progressive_validation_judges_at_the_offset(folder):
    found = train(folder / "t.csv", SparseRegressor(**SETTINGS), offset="offset", schema={"exposure": "ignored"})
    ignored = {"schema": {"exposure": "ignored", "offset": "ignored"}}
    without = train(folder / "t.csv", SparseRegressor(**SETTINGS), **ignored)
    assert found.table[-1].mean_loss < without.table[-1].mean_loss


@pytest.mark.parametrize("settings", [{"alpha": 0.01}, {}, {"alpha": 0.01, "polish": True}])
def test_a_run_that_is_stopped_and_resumed_gives_the_same_bits(folder, tmp_path, settings):
    options = {"offset": "log(exposure)", "schema": {"offset": "ignored"}, "block_bytes": 1 << 14}
    settings = SETTINGS | {"alpha": "auto"} | settings
    whole = train(folder / "t.csv", SparseRegressor(**settings), **options).estimator
    calls = iter(range(10_000))
    kept = Checkpoints(tmp_path / "c", rows=300)
    with pytest.raises(StoppedError):
        train(
            folder / "t.csv",
            SparseRegressor(**settings),
            checkpoints=kept,
            stop=lambda: next(calls) > 8,
            **options,
        )
    again = train(folder / "t.csv", SparseRegressor(**settings), checkpoints=kept, resume=True, **options).estimator
    assert np.array_equal(again.coef_, whole.coef_) and np.array_equal(again.intercept_, whole.intercept_)


def test_a_model_goes_on_with_its_offset(frame, tmp_path):
    path, model = str(tmp_path / "t.csv"), str(tmp_path / "m.model")
    frame.drop(columns="offset").to_csv(path, index=False)
    asked = ["--loss", "poisson", "--offset", "log(exposure)", "--alpha", "0.01", "--no-shuffle", "--quiet"]
    assert main(["train", path, "-m", model, *asked, "--save-state"]) == 0
    assert main(["train", path, "--update", model, "-m", model, "--no-shuffle", "--quiet", "--save-state"]) == 0
    found = sparsco.load(model, training=True)
    assert found.t_ == 2 * N
    record = frame.to_dict("records")[0]
    found.learn_one(record, record["target"])
    assert found.t_ == 2 * N + 1
    with pytest.raises(ValueError, match="column 'exposure', the offset, has no number"):
        found.learn_one({"a": 1.0}, 2.0)


def test_vw_labels_with_initial_predictions(tmp_path):
    rng = np.random.default_rng(0)
    X, base = rng.normal(size=(1500, 3)), rng.normal(size=1500)
    labels = np.where(X[:, 0] + base + rng.logistic(size=1500) > 0.0, 1, -1)
    lines = [
        f"{y} 1 {o!r} 'row{k}| " + " ".join(f"f{j}:{v!r}" for j, v in enumerate(x))
        for k, (x, y, o) in enumerate(zip(X.tolist(), labels, base.tolist(), strict=True))
    ]
    (tmp_path / "t.vw").write_text("\n".join(lines) + "\n")
    options = {"alpha": 0.01, "random_state": 0}
    found = train(tmp_path / "t.vw", SparseClassifier(**options), shuffle=False).estimator
    twin = SparseClassifier(**options).partial_fit(X, labels, classes=[-1, 1], offset=base)
    assert np.array_equal(found.coef_, twin.coef_) and np.array_equal(found.intercept_, twin.intercept_)


def test_initial_predictions_of_vw(tmp_path):
    def read(text, **options):
        (tmp_path / "t.vw").write_text(text)
        return [(chunk.offsets, chunk.y.tolist()) for chunk in open_stream(tmp_path / "t.vw", **options)]

    ((offsets, _),) = read("1 2 0.5 | a\n0 | b\n1 1 -1e-3 'tag| a\n")
    assert offsets.tolist() == [0.5, 0.0, -1e-3]
    assert read("1 2 | a\n1 1 0 | b\n")[0][0] is None
    assert read("1 | a\n1 1 0.25 | b\n", offset=True)[0][0].tolist() == [0.0, 0.25]
    assert read("1 1 0.123456789012345678901234 | a\n")[0][0].tolist() == [0.12345678901234568]
    with pytest.raises(StreamError, match=r"line 2: '0.5' is an initial prediction, and the first row has none"):
        read("1 2 | a\n1 1 0.5 | b\n")
    with pytest.raises(StreamError, match="line 1"):
        read("1 2 1e300 | a\n")
    with pytest.raises(ValueError, match="VW text has no columns"):
        read("1 | a\n", offset="exposure")


def test_bad_offsets_in_tables_are_named(tmp_path):
    def wrong(text, sentence, **options):
        (tmp_path / "t.csv").write_text(text)
        with pytest.raises(StreamError, match=sentence):
            list(open_stream(tmp_path / "t.csv", **options))

    wrong("y,e,a\n1,2,3\n0,,1\n", "line 3: column 'e' has no number: every row needs one", offset="e")
    wrong("y,e,a\n1,2,3\n0,0,1\n", r"line 3: column 'e' has 0, and the offset log\(e\) needs", offset="log(e)")
    wrong("y,e,a\n1,2,3\n", "offset names the column 'z', but there are y, e, a", offset="z")
    with pytest.raises(ValueError, match="LIBSVM|libsvm has no option"):
        (tmp_path / "t.svm").write_text("1 1:2\n")
        open_stream(tmp_path / "t.svm", offset="e")
    with pytest.raises(ValueError, match=r"offset: row 2 has nan"):
        open_stream(np.eye(2), offset=[0.0, np.nan])
    with pytest.raises(StreamError, match="either all examples have an offset, or none"):
        list(open_stream([({"a": 1}, 1), ({"a": 1}, 0, 1.0, 0.5)]))


@pytest.mark.parametrize("role", ["offset", "weight"])
def test_the_target_has_no_other_role(frame, role):
    with pytest.raises(StreamError, match=f"'target' is the target and cannot be the {role}, too"):
        train(frame, SparseRegressor(**SETTINGS), **{role: "target"})


def test_partitions_refuse_offsets(folder):
    with pytest.raises(ValueError, match="data in partitions takes no offset"):
        fit(SparseRegressor(**SETTINGS), [str(folder / "t.vw")])
