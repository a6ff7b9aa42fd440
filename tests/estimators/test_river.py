"""The models for River: its own checks, pipelines, progressive validation."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from sparsco import SparseClassifier, load, save
from sparsco.optimizers.nftrl import NFTRL

pytest.importorskip("river", reason="River is not installed")
from river import checks, compose, evaluate, metrics, preprocessing  # noqa: E402

from sparsco import river  # noqa: E402

RNG = np.random.default_rng(3)
N = 1600
ROWS = RNG.normal(size=(N, 5))
Z = ROWS[:, 0] - ROWS[:, 1]
LABELS = (Z + 0.3 * RNG.logistic(size=N) > 1.0).tolist()
STREAM = [{f"x{j}": float(v) for j, v in enumerate(row)} for row in ROWS]
KINDS = [river.SparseClassifier, river.SparseRegressor]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:no feature was selected")
def test_rivers_own_checks(kind):
    for check in checks.yield_checks(kind()):
        check(kind())


def test_a_pipeline_in_progressive_validation():
    pipeline = compose.Pipeline(preprocessing.StandardScaler(), river.SparseClassifier(alpha=0.01))
    found = evaluate.progressive_val_score(zip(STREAM, LABELS, strict=True), pipeline, metrics.ROCAUC())
    assert found.get() > 0.9
    model = pipeline["SparseClassifier"].model
    assert model.t_ == N and {"x0", "x1"} <= set(model.get_feature_names_out().tolist())
    numbers = compose.Pipeline(preprocessing.StandardScaler(), river.SparseRegressor(alpha=0.001))
    found = evaluate.progressive_val_score(zip(STREAM, Z.tolist(), strict=True), numbers, metrics.R2())
    assert found.get() > 0.9


def test_it_is_the_stream_of_learn_one(tmp_path):
    ours = river.SparseClassifier(alpha=0.01, class_weight="balanced", seed=0)
    same = SparseClassifier(
        alpha=0.01,
        l1_ratio=1.0,
        class_weight="balanced",
        random_state=0,
        optimizer=NFTRL(per_feature_clock=True),
        conversion="last",
    )
    for k, (x, y) in enumerate(zip(STREAM, LABELS, strict=True)):
        if k in (3, 500, 1200):
            ours.predict_one(x)
            ours = pickle.loads(pickle.dumps(ours))
        ours.learn_one(x, y)
        same.learn_one(x, y)
    assert np.array_equal(ours.model.coef_, same.coef_)
    assert ours.predict_proba_one(STREAM[0]) == same.predict_proba_one(STREAM[0])
    save(ours.model, tmp_path / "a.model")
    assert load(tmp_path / "a.model").predict_one(STREAM[0]) == ours.predict_one(STREAM[0])


def test_early_predictions_know_most_examples_and_all_labels():
    model = river.SparseClassifier()
    assert model.predict_one(STREAM[0]) is None and model.predict_proba_one(STREAM[0]) == {}
    for k, x in enumerate(STREAM[:300]):
        model.learn_one(x, k % 7)
        assert set(model.predict_proba_one(x)) == set(range(min(k + 1, 7)))
    assert river.SparseRegressor().predict_one({"x": 1.0}) == 0.0


def test_clones_and_parameters():
    model = river.SparseClassifier(loss="hinge", alpha=0.02)
    model.learn_one(STREAM[0], True)
    with pytest.raises(NotImplementedError, match="gives no probabilities"):
        model.predict_proba_one(STREAM[0])
    fresh = model.clone({"alpha": 0.5})
    assert (fresh.loss, fresh.alpha, fresh.model) == ("hinge", 0.5, None)
    model.mutate({"class_weight": {True: 2.0}})
    assert model.model.class_weight == {True: 2.0}
    with pytest.raises(ValueError, match="not a mutable attribute"):
        model.mutate({"alpha": 0.1})
