"""Pages and plots of models: a headline in words comes first, and names of features are escaped."""

from __future__ import annotations

import matplotlib
import matplotlib.figure
import numpy as np
import pandas as pd
import pytest

from sparsco import SparseClassifier, SparsePath, SparseRegressor, SparseRegressorCV, cli, plots, save
from sparsco.training import comparison, inspection, model_files, paths

matplotlib.use("agg")
HOSTILE = "<script>alert(1)</script>$x_1$"
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.standard_normal((600, 4)), columns=[HOSTILE, "b", "c", "d"])
SIGNS = np.where(X[HOSTILE] - X["b"] > 0.0, "yes", "no")


def test_the_page_of_a_model_begins_with_a_sentence_and_escapes_names(tmp_path):
    model = SparseClassifier(alpha=0.05, random_state=0).fit(X, SIGNS)
    extra = {"training": {"test": {"rows": 100, "error": 0.0312}, "features": 4, "table": []}}
    path = save(model, tmp_path / "m", extra=extra)
    page = inspection.write_page(tmp_path / "m.html", model_files.read(path), 10).read_text()
    assert "<h1>2 of 4 features predict yes with 3.1% error on 100 test rows</h1>" in page
    assert "<script" not in page and "&lt;script&gt;alert(1)" in page
    assert page.index("<svg") < page.index("<table")
    assert 'name="viewport"' in page and "prefers-color-scheme: dark" in page


def test_a_headline_counts_the_features_of_the_training():
    """A file of names holds only those that have a weight."""
    found = {"task": "regression", "selected": 3, "features": 5, "intercept": {"prediction": 0.0}}
    assert inspection.headline(found) == "3 of 5 features predict the target"
    found["training"] = {"features": 1369, "progressive": {"loss": 1.0, "rmse": 0.5}}
    expected = "3 of 1,369 features predict the target with a root mean squared error of 0.5"
    assert (
        inspection.headline(found) == f"{expected} on rows judged before they were learned, by the learner on its way"
    )
    found |= {"task": "classification", "intercept": dict.fromkeys("abc", 0.0), "training": {}}
    assert inspection.headline(found) == "3 of 5 features predict 3 classes"


def test_the_headline_of_a_comparison_names_the_least_error():
    outcomes = [
        comparison.Outcome("first", 0.1, 20, 0.3, 0.2, 1.0),
        comparison.Outcome("second", 0.1, 10, 0.1, 0.25, 1.0),
        comparison.Outcome("third", 0.1, None, None, None, None, "diverged"),
    ]
    assert comparison.headline(outcomes) == "first has the least error of 3 models: 0.2 with 20 features"
    assert comparison.headline(outcomes[2:]) == "1 methods compared"


def test_the_headline_of_a_path_names_the_chosen_size():
    table = [{"alpha": 1.0, "nonzeros": 2, "error": 0.25}, {"alpha": 0.1, "nonzeros": 30, "error": 0.0625}]
    every = "2 models with 2 to 30 features"
    assert paths.headline(table, 0.1, True) == f"30 features with 6.2% error on rows not learned, chosen from {every}"
    squared = "30 features with a root mean squared error of 0.25 on rows not learned"
    assert paths.headline(table, 0.1, False) == f"{squared}, chosen from {every}"
    assert (
        paths.headline([table[1] | {"error": np.nan}], 0.1, True)
        == "30 features, chosen from 1 models with 30 to 30 features"
    )
    assert paths.headline(table, None, True) == every


def test_every_method_of_a_comparison_is_explained(tmp_path):
    outcomes = comparison.compare(
        X.to_numpy(), reader={"y": SIGNS}, methods=("default",), strengths=(1.0,), features=(2,)
    )
    page = comparison.write_page(tmp_path / "c.html", outcomes).read_text()
    assert set(comparison.METHODS) | {each.method for each in outcomes} <= set(comparison._IN_WORDS)
    assert comparison._IN_WORDS["budget"] in page


@pytest.mark.parametrize("several", [False, True])
def test_models_draw_their_strongest_features(several):
    y = np.c_[X["b"], X["c"] - X["d"]] if several else X["b"] - X["c"]
    model = SparseRegressor(alpha=0.05, random_state=0).fit(X, y)
    axes = model.plot(top=2)
    lines = model.summary().lines[:2]
    assert [bar.get_width() for bar in axes.patches] == [line.effect for line in lines]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert [name.split(" for ")[0] for name in names] == [line.name for line in lines]
    mine = matplotlib.figure.Figure().subplots()
    assert plots.weights(model, axes=mine) is mine


def test_dollars_in_names_are_no_formulas():
    model = SparseRegressor(alpha=0.05, random_state=0).fit(X, X[HOSTILE])
    axes = model.plot()
    assert axes.get_yticklabels()[0].get_text() == HOSTILE.replace("$", "\\$")
    axes.figure.canvas.draw()


def test_paths_draw_themselves():
    fitted = SparsePath(SparseRegressor(random_state=0), n_alphas=4).fit(X, X["b"])
    folds = SparseRegressorCV(SparseRegressor(random_state=0), n_alphas=4).fit(X, X["b"])
    weights = len(fitted.path_.plot().lines)
    assert weights >= 1
    axes = fitted.plot()
    assert len(axes.lines) == weights + 1 and axes.lines[-1].get_xdata()[0] == fitted.alpha_  # the chosen strength
    assert folds.plot(axes=(own := matplotlib.figure.Figure().subplots())) is own


def test_training_writes_the_page_of_its_model(tmp_path, capsys):
    rows = [f"{1 if x[0] > 0 else -1} 1:{x[0]:.4f} 2:{x[1]:.4f}" for x in RNG.standard_normal((300, 2))]
    (tmp_path / "a.svm").write_text("\n".join(rows) + "\n")
    files = [str(tmp_path / name) for name in ("a.svm", "a.model", "a.html")]
    assert cli.main(["train", files[0], "-m", files[1], "--html", files[2], "--alpha", "0.05", "--quiet"]) == 0
    assert cli.main(["inspect", files[1], "--html", str(tmp_path / "b.html")]) == 0
    assert (tmp_path / "a.html").read_text() == (tmp_path / "b.html").read_text()
    assert cli.main(["train", files[0], "-m", files[1], "--html", files[0]]) == 2
    assert (tmp_path / "a.svm").read_text().startswith(rows[0])
