"""ONNX predicts what the model predicts, in onnxruntime: in 32 and in 64 bits, alone and at the end of a pipeline."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsco import SparseClassifier, SparseRegressor, StableSparseClassifier, export
from sparsco.exports.converter import register
from sparsco.exports.reading import scorer_of
from sparsco.exports.selected import selected_columns
from support.export_cases import cases, check

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")


def session(raw):
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])


def answers(raw, x):
    found = session(raw)
    names = [each.name for each in found.get_outputs()]
    return dict(zip(names, found.run(None, {found.get_inputs()[0].name: x}), strict=True))


def rows_of(case):
    if case.frame is not None and scorer_of(case.model).kind != "columns":
        return case.frame
    if isinstance(case.rows[0], dict) and scorer_of(case.model).kind == "columns":
        first = scorer_of(case.model).first
        return np.array([[row.get(k + first, 0.0) for k in range(7)] for row in case.rows])
    return case.frame if case.name in ("frame", "stable regression") else case.rows


def test_doubles():
    for case in cases():
        raw = export(case.model, "onnx", double=True)
        found = answers(raw, selected_columns(raw, rows_of(case)))
        if "label" in found:
            label = found["label"].tolist()
            if isinstance(case.predicted[0], bool):
                label = [bool(each) for each in label]
            check(case, found["scores"], label, found.get("probabilities"))
        else:
            check(case, found["scores"], found["prediction"].tolist())


def test_floats_on_rows_that_floats_can_hold():
    for case in cases():
        raw = export(case.model, "onnx")
        x = selected_columns(raw, rows_of(case))
        fits = (np.abs(x) < 1e6).all(1)
        assert fits.sum() >= 1000
        own = case._replace(
            rows=[row for row, keep in zip(case.rows, fits, strict=True) if keep],
            scores=case.scores[fits],
            predicted=[each for each, keep in zip(case.predicted, fits, strict=True) if keep],
            probabilities=None if case.probabilities is None else case.probabilities[fits],
        )
        found = answers(raw, x[fits].astype(np.float32))
        scorer = scorer_of(case.model)
        bound = np.abs(scorer.intercepts) + np.abs(x[fits]) @ np.abs(scorer.weights)
        assert (np.abs(found["scores"] - own.scores) <= 1e-6 * bound).all(), case.name
        if own.probabilities is not None:
            error = np.abs(found["probabilities"] - own.probabilities).max(1)
            slope = 1.0 if scorer.platt is None else 1.0 + np.abs(scorer.platt[0]).max()
            assert (error <= 1e-6 * (1.0 + slope * bound.sum(1))).all(), case.name


def test_names_are_in_the_metadata_and_the_graph_is_tiny():
    X = np.random.default_rng(0).normal(size=(500, 2000))
    model = SparseRegressor(alpha=0.2, random_state=0).fit(X, X[:, 3] - X[:, 1234])
    raw = export(model, "onnx")
    props = {each.key: json.loads(each.value) for each in onnx.load_from_string(raw).metadata_props}
    assert props["columns"] == [3, 1234] and props["features"] == ["x3", "x1234"] and len(raw) < 2000
    assert [each.shape for each in session(raw).get_inputs()] == [["rows", 2]]


def test_a_pipeline_converts_by_skl2onnx():
    skl2onnx = pytest.importorskip("skl2onnx")
    register()
    rng = np.random.default_rng(0)
    X = rng.normal(3.0, 2.0, size=(1500, 20))
    margin = X[:, 3] - X[:, 7] + rng.normal(size=1500)
    labels = np.array(["a", "b", "c"])[np.digitize(margin, [-1.0, 1.0])]
    models = [
        (SparseClassifier(alpha=0.01, random_state=0), margin > 0),
        (SparseClassifier("multinomial", alpha=0.01, random_state=0), labels),
        (SparseClassifier("hinge", alpha=0.01, random_state=0), labels),
        (SparseClassifier("hinge", alpha=0.01, calibrate=True, random_state=0), labels),
        (StableSparseClassifier(3, prepare="columns", random_state=0), labels),
        (SparseRegressor(alpha=0.01, random_state=0), margin),
        (SparseRegressor("poisson", alpha=0.01, random_state=0), np.floor(np.exp(0.1 * margin))),
    ]
    for model, y in models:
        pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
        options = {"zipmap": False} if model.classifies else None
        graph = skl2onnx.to_onnx(pipeline, X[:1], options=options, target_opset=15)
        label, *more = session(graph.SerializeToString()).run(None, {"X": X})
        if not model.classifies:
            np.testing.assert_allclose(label.ravel(), pipeline.predict(X), rtol=1e-10)
            continue
        assert (label == pipeline.predict(X)).mean() > 0.999
        truth = pipeline.predict_proba(X) if hasattr(pipeline, "predict_proba") else pipeline.decision_function(X)
        np.testing.assert_allclose(more[0], truth, atol=1e-10)
