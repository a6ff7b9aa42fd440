"""Other tools take our models: skops, MLflow, SHAP, scikit-learn's inspection; exports are small and quick."""

from __future__ import annotations

import importlib
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.inspection import PartialDependenceDisplay, partial_dependence, permutation_importance
from sklearn.pipeline import make_pipeline

from sparsco import (
    SparseClassifier,
    SparseClassifierCV,
    SparsePath,
    SparseRegressor,
    SparseText,
    StableSparseClassifier,
    export,
    train,
)
from sparsco.exports.api import WRITERS
from sparsco.exports.scorer import ExportError
from sparsco.exports.selected import selected_columns
from sparsco.exports.trusted import trusted_types
from sparsco.losses import REGRESSOR_LOSSES
from sparsco.parts.contracts import Loss
from support.export_cases import as_module, cases


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 8))
    return X, np.where(X[:, 1] - X[:, 3] + 0.3 * rng.normal(size=600) > 0, "a", "b")


def texts_of(n=600):
    rng = np.random.default_rng(1)
    return [" ".join(rng.choice(["Win", "prize", "it's", "see", "you", "50p", "7p"], 5)) for _ in range(n)]


# ---- other tools ---------------------------------------------------------------------------------------------------


def test_skops_needs_only_the_listed_types(data):
    io = pytest.importorskip("skops.io")
    X, y = data
    models = [(case.model, case) for case in cases() if case.frame is not None]
    assert len(models) > 20
    for model, case in models:
        raw = io.dumps(model)
        unknown = set(io.get_untrusted_types(data=raw)) - set(trusted_types())
        assert not unknown, (case.name, unknown)
    for model in (SparseClassifier(random_state=0), SparseClassifierCV(random_state=0, cv=2)):
        raw = io.dumps(model.fit(X, y))
        assert set(io.get_untrusted_types(data=raw)) <= set(trusted_types())
        again = io.loads(raw, trusted=trusted_types())
        assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


def test_the_recipe_for_mlflow_runs(data, tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    pytest.importorskip("skops", reason="skops is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'runs.db'}")
    X, y = data
    model = SparseClassifier(alpha=0.01, random_state=0).fit(X, y)
    page = (Path(__file__).parents[2] / "docs/export.md").read_text()
    recipe = page.split("<!-- not run: tests/exports/test_tools.py runs it -->\n```python\n")[1].split("```")[0]
    names = {"model": model, "X": X}
    exec(recipe, names)
    assert np.array_equal(names["predicted"], model.predict(X))


def test_what_cannot_be_scored_elsewhere_is_refused_by_every_door(data):
    """Crosses, and rows divided by the norm of all their columns: also for ONNX graphs by skl2onnx and their input."""
    X, y = data
    crossed = train(X, y=y, cross="all", settings={"alpha": 0.01, "random_state": 0}).estimator
    scaled = StableSparseClassifier(3, prepare="rows", random_state=0).fit(X, y)
    for model, says in ((crossed, "products of features"), (scaled, "prepare='rows'")):
        assert "weight" in export(model, "csv")
        for door in (export, selected_columns):
            with pytest.raises(ExportError, match=says):
                door(model, "json" if door is export else X)
    skl2onnx = pytest.importorskip("skl2onnx")
    importlib.import_module("sparsco.exports.converter").register()
    for model in (crossed, scaled):
        with pytest.raises(ExportError, match="products of features|prepare='rows'"):
            skl2onnx.to_onnx(model, X[:1].astype(np.float32))


def test_trusted_types_exist():
    for name in trusted_types():
        module, _, kind = name.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), kind), type), name


def test_shap_explains(data):
    shap = pytest.importorskip("shap")
    X, y = data
    classifier = SparseClassifier(alpha=0.01, random_state=0).fit(X, y)
    regressor = SparseRegressor(alpha=0.01, random_state=0).fit(X, X[:, 1] + 2.0)
    for model, score in ((classifier, classifier.decision_function(X)), (regressor, regressor.predict(X))):
        explainer = shap.LinearExplainer(model, X)
        values = explainer.shap_values(X)
        assert np.allclose(values.sum(1) + explainer.expected_value, score, atol=1e-10)
        assert not values[:, ~model.get_support()].any()
    several = SparseClassifier("multinomial", alpha=0.01, random_state=0).fit(X, np.digitize(X[:, 1], [-0.5, 0.5]))
    explainer = shap.LinearExplainer(several, X)
    values = np.asarray(explainer.shap_values(X))
    total = values.sum(1) if values.shape[-1] == 3 else values.sum(2).T
    assert np.allclose(total + explainer.expected_value, several.decision_function(X), atol=1e-10)


def test_scikit_learns_inspection(data):
    X, y = data
    model = SparseClassifier(alpha=0.01, random_state=0).fit(X, y)
    importance = permutation_importance(model, X, y, n_repeats=2, random_state=0).importances_mean
    assert set(np.argsort(importance)[-2:]) == {1, 3} and not importance[~model.get_support()].any()
    slope = np.diff(partial_dependence(model, X, [3], response_method="decision_function")["average"][0])
    assert (slope * np.sign(model.coef_[0, 3]) > 0).all()
    frame = pd.DataFrame(X, columns=[f"c{k}" for k in range(8)])
    model.fit(frame, y)
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    shown = PartialDependenceDisplay.from_estimator(model, frame, ["c1"])
    assert len(shown.lines_.ravel()) == 1


# ---- pipelines of texts, and other estimators ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weighting": "tfidf", "min_count": 3, "seed": 5},
        {"weighting": "tfidf", "norm": False},
        {"weighting": "tfidf", "hash_bits": 6},
    ],
)
def test_a_pipeline_of_texts(options):
    texts = texts_of()
    y = ["yes" if ("Win" in text) ^ ("50p" in text) else "no" for text in texts]
    model = make_pipeline(SparseText(ngrams=(1, 2), **options), SparseClassifier(alpha=1e-3, random_state=0)).fit(
        texts, y
    )
    module: dict = {}
    exec(export(model, "python"), module)
    new = [*texts_of(50), "", "nothing known", "WIN 50P it's"]
    assert np.allclose([module["scores"](text)[0] for text in new], model.decision_function(new), atol=1e-12)
    assert selected_columns(model, new).shape == (53, model[-1].n_selected_)
    assert "tfidf" in export(model, "json") or "weighting" not in options
    assert export(model, "c").isascii()


def test_other_estimators(data):
    X, y = data
    searched = SparseClassifierCV(random_state=0, cv=2).fit(X, y)
    path = SparsePath(SparseClassifier(random_state=0)).fit(X, y)
    for model, inner in ((searched, searched.best_estimator_), (path, path.model_)):
        assert export(model, "csv") == export(inner, "csv")
    for wrong in (None, 3, make_pipeline(SparseText(), SparseText()), SparseClassifier):
        with pytest.raises(ExportError) as error:
            export(wrong, "json")
        assert str(error.value).rstrip(".").count("\n") == 0
    with pytest.raises(ExportError, match="choose sql, c, js, python, onnx, json, csv"):
        export(searched, "java")
    with pytest.raises(ExportError, match="its options are prefix"):
        export(searched, "c", table="x")


def test_only_weights_of_what_cannot_be_scored_elsewhere(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.choice(["x", "y"], 900), "b": rng.choice(["u", "v"], 900)})
    frame["y"] = np.where((frame["a"] == "x") ^ (frame["b"] == "u"), "1", "0")
    crossed = train(frame, target="y", cross="a:b", settings={"alpha": 0.002, "random_state": 0}).estimator
    X = sp.random(400, 60, 0.1, format="csr", random_state=0)
    by_row = StableSparseClassifier(3, prepare="rows", random_state=0).fit(X, X[:, [3]].toarray().ravel() > 0)
    for model in (crossed, by_row):
        assert export(model, "csv").count("\n") >= 3
        for format in set(WRITERS) - {"csv"}:
            with pytest.raises(ExportError) as error:
                export(model, format)
            assert "csv" in str(error.value) and "\n" not in str(error.value)


def test_our_losses_predict_scores_or_their_exponentials():
    p = np.linspace(-3.0, 3.0, 7)
    for loss in REGRESSOR_LOSSES.values():
        links = type(loss).predicted is not Loss.predicted
        assert np.allclose(loss.predicted(p), np.exp(p) if links else p)


def test_rows_that_are_refused():
    table = next(case for case in cases() if case.name == "table full")
    module = as_module(table)
    row = dict(table.rows[0])
    for column, cell in (("age", None), ("age", np.inf), ("age", "12"), ("age", 1e76), ("member", 2), ("member", "x")):
        if column in [part["name"] for part in module["MODEL"]["parts"]]:
            with pytest.raises(ValueError, match=column):
                module["scores"](row | {column: cell})


# ---- sizes -----------------------------------------------------------------------------------------------------------


def test_ten_million_columns_and_fifty_weights():
    rng = np.random.default_rng(0)
    columns, rows = np.sort(rng.choice(10**7, 50, replace=False)), np.repeat(np.arange(400), 10)
    X = sp.csr_matrix((rng.normal(size=4000), (rows, rng.choice(columns, 4000))), shape=(400, 10**7))
    y = X[:, columns] @ rng.normal(size=50)
    model = SparseRegressor(alpha=1e-6, random_state=0).fit(X, y)
    assert model.n_selected_ == 50 and model.n_features_in_ == 10**7
    for format in WRITERS:
        export(model, format)  # imports
        start = time.process_time()
        raw = export(model, format)
        assert time.process_time() - start < 2.0  # the bar of 0.2 s is in benchmarks/exports.py
        assert len(raw) <= 20_000, (format, len(raw))
