"""The figures that a training prints are those of its model, in the units of the target, and they are named."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.metrics import log_loss, mean_squared_error

from sparsco import SparseClassifier, SparseRegressor, train
from sparsco.cli import main
from sparsco.conversions.choose import Choose
from sparsco.training import inspection, model_files, scoring

N = 3000
RNG = np.random.default_rng(0)
X = RNG.standard_normal((2 * N, 8)) * [1.0, 1.0, 100.0, 1.0, 1.0, 1.0, 1.0, 1.0]
Y = 3.0 * X[:, 2] + 40.0 * X[:, 3] + 5.0 * RNG.standard_normal(2 * N) + 700.0
WORDS = np.array(["low", "mid", "high"])[np.digitize(X[:, 0] + X[:, 1] + 0.5 * RNG.standard_normal(2 * N), [-1.0, 1.0])]
NEAR = 4.0 * (0.17 * 0.83 * (1 / 1200 + 1 / 3000)) ** 0.5
"""Four standard errors of the difference of the shares of errors of so many rows."""


def written(path, y):
    rows = [",".join(map(str, [*row, target])) for row, target in zip(X.tolist(), y.tolist(), strict=True)]
    names = ",".join([*"abcdefgh", "y"])
    for name, part in (("train", rows[:N]), ("test", rows[N:])):
        (path / f"{name}.csv").write_text("\n".join([names, *part]) + "\n")
    return str(path / "train.csv"), str(path / "test.csv"), str(path / "m.model")


def trained(capfd, *arguments):
    capfd.readouterr()
    assert main(["train", *arguments]) == 0
    return capfd.readouterr()


def test_a_regression_prints_the_error_of_its_model(tmp_path, capfd):
    data, test, model = written(tmp_path, Y)
    told = trained(capfd, data, "-m", model, "--html", str(tmp_path / "m.html"))
    outcome = model_files.read(model)["extra"]["training"]
    error = scoring.evaluate(*scoring.opened_for(model_files.read(model), test))["rmse"]
    assert outcome["held_out"]["rmse"] == pytest.approx(error, rel=0.1)  # 3000 and 1200 rows: about 2.5% each
    assert outcome["progressive"]["rmse"] > 1.15 * error  # the learner on its way had learned few rows
    rmse, rows = outcome["held_out"]["rmse"], outcome["held_out"]["rows"]
    assert rows >= 1000 and f"held-out rows: {rows:,} rows, root mean squared error {rmse:.4g}, mean" in told.out
    assert "before they were learned" not in told.out and "loss" not in told.out
    assert (
        "mistakes" not in told.err
        and told.err.split("\n")[0].split() == "rows half mse mean rmse mean nonzeros".split()
    )
    headline = (
        f"features predict the target with a root mean squared error of {rmse:.3g} on {rows:,} held-out rows</h1>"
    )
    assert headline in (tmp_path / "m.html").read_text()
    main(["inspect", model])
    assert f"held-out rows: {rows:,} rows, root mean squared error {rmse:.4g}" in capfd.readouterr().out


def test_a_regression_with_a_given_alpha_says_whose_error_is_printed(tmp_path, capfd):
    data, _, model = written(tmp_path, Y)
    told = trained(capfd, data, "-m", model, "--alpha", "0.1")
    assert "\nrows judged before they were learned, by the learner on its way: root mean squared error " in told.out
    assert "held_out" not in model_files.read(model)["extra"]["training"]


@pytest.mark.parametrize("rows", [1024, 1025])
def test_the_first_row_that_is_judged_before_it_is_learned_is_row_1025(tmp_path, capfd, rows):
    """So says the tutorial."""
    (tmp_path / "few.csv").write_text("x,y\n" + "".join(f"{k % 7},{k % 13}.5\n" for k in range(rows)))
    told = trained(capfd, str(tmp_path / "few.csv"), "-m", str(tmp_path / "m"), "--target", "y", "--alpha", "0.1")
    assert ("before they were learned" in told.out) == (rows == 1025)


def test_other_losses_are_not_halved(tmp_path, capfd):
    data, _, model = written(tmp_path, Y)
    told = trained(capfd, data, "-m", model, "--loss", "absolute")
    found = model_files.read(model)["extra"]["training"]["held_out"]
    assert found["loss"] == pytest.approx(found["mae"], rel=1e-12)
    assert told.err.split("\n")[0].split() == "rows loss mean rmse mean nonzeros".split()
    assert "loss" not in scoring.evaluate(train(X[:N], y=Y[:N]).model, train(X[:N], y=Y[:N]).stream)


def test_several_classes_are_judged_by_their_log_loss(tmp_path, capfd):
    data, test, model = written(tmp_path, WORDS)
    told = json.loads(trained(capfd, data, "-m", model, "--test", test, "--json").out)
    found = scoring.lines(*scoring.opened_for(model_files.read(model), test), "probability", 17)
    shares = [[float(each) for each in line.split("\t")] for line in "".join(found).splitlines()[1:]]
    expected = log_loss(WORDS[N:], shares, labels=sorted(set(WORDS.tolist())))
    assert told["test"]["loss"] == pytest.approx(expected, rel=1e-9)
    assert told["held_out"]["loss"] == pytest.approx(expected, rel=0.15)
    assert told["held_out"]["error"] == pytest.approx(told["test"]["error"], abs=NEAR)
    assert told["progressive"]["loss"] == pytest.approx(expected, rel=0.3)  # .851 for .420 before


@pytest.mark.parametrize("settings", [{}, {"class_weight": "balanced"}, {"calibrate": True}, {"loss": "multinomial"}])
def test_rows_that_were_held_out_are_judged_as_others(settings):
    """The figures of the rows left out are near those of new rows, whatever weights and probabilities the model has."""
    for y in (WORDS, np.where(WORDS == "low", "low", "more")):
        run = train(X[:N], SparseClassifier(random_state=0, **settings), y=y[:N])
        found, model = scoring.held_out(run.model), run.estimator
        assert found["rows"] >= 1000
        assert found["error"] == pytest.approx(1.0 - model.score(X[N:], y[N:]), abs=NEAR)
        if not settings:
            expected = log_loss(y[N:], model.predict_proba(X[N:]), labels=model.classes_)
            assert found["loss"] == pytest.approx(expected, rel=0.15)


def test_rows_held_out_from_a_long_stream_judge_its_model(monkeypatch):
    monkeypatch.setattr(Choose, "sample_nonzeros", 4000)
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((20_000, 4))
    y = rows @ [1.0, 2.0, 0.0, 0.0] + rng.standard_normal(20_000)
    run = train(rows[:15_000], SparseRegressor(random_state=0), y=y[:15_000])
    found = scoring.held_out(run.model)
    assert run.model.fit_state.long is not None and found["rows"] >= 200
    error = mean_squared_error(y[15_000:], run.estimator.predict(rows[15_000:])) ** 0.5
    assert found["rmse"] == pytest.approx(error, rel=0.2)


def test_an_offset_is_part_of_a_prediction_that_is_judged():
    rng, offset = np.random.default_rng(2), np.linspace(-2.0, 2.0, N)
    y = rng.poisson(np.exp(0.3 * X[:N, 0] + offset)).astype(float)
    frame = {**{f"x{k}": X[:N, k] for k in (0, 1)}, "offset": offset, "y": y}
    run = train(pytest.importorskip("pandas").DataFrame(frame), SparseRegressor("poisson"), offset="offset")
    found, predicted = scoring.held_out(run.model), np.exp(0.3 * X[:N, 0] + offset)
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((y - predicted) ** 2)), rel=0.15)


def test_what_has_no_rows_held_out_has_no_figures_of_them():
    assert scoring.held_out(train(X[:N], SparseRegressor(alpha=0.1), y=Y[:N]).model) is None
    assert scoring.held_out(train(X[:N], SparseRegressor(half_life=500.0), y=Y[:N]).model) is None
    found = {"task": "regression", "selected": 3, "features": 5, "intercept": {"prediction": 0.0}}
    found["training"] = {"progressive": {"rmse": 21.3}, "held_out": {"rows": 4000, "rmse": 1.6852}}
    assert inspection.headline(found).endswith("with a root mean squared error of 1.69 on 4,000 held-out rows")
    found["training"]["test"] = {"rows": 10, "rmse": 2.0}
    assert inspection.headline(found).endswith("of 2 on 10 test rows")
