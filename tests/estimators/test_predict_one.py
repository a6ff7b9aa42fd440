"""Predictions of single examples while a stream is learned: they change nothing, and know all examples so far."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from sparsco import SparseClassifier, SparseRegressor, StableSparseClassifier
from sparsco.conversions.choose import Choose

RNG = np.random.default_rng(5)
N = 1500
X = RNG.normal(size=(N, 6)) * (RNG.random((N, 6)) < 0.7)
MARGIN = X[:, 0] - X[:, 1] + 0.7 * RNG.logistic(size=N)
STREAM = [{f"x{j}": float(v) for j, v in enumerate(row) if v} for row in X]
LABELS = {
    "two": np.where(MARGIN > 1.5, "b", "a").tolist(),
    "late": ["c" if k % 9 == 5 and k > 200 else "b" if z > 1.0 else "a" for k, z in enumerate(MARGIN)],
    "numbers": MARGIN.tolist(),
}


def new(kind, **settings):
    task = SparseRegressor if kind == "numbers" else SparseClassifier
    return task(random_state=0, **({"alpha": 0.002} | settings))


@pytest.mark.parametrize("kind", ["two", "late", "numbers"])
def test_predictions_change_no_bit_and_depend_on_the_examples_alone(kind):
    asked, quiet, stored = (new(kind) for _ in range(3))
    for k, (x, y) in enumerate(zip(STREAM, LABELS[kind], strict=True)):
        for model in (asked, quiet, stored):
            model.learn_one(x, y)
        asked.predict_one(STREAM[k - 7])
        if k in (0, 1, 5, 63, 64, 300, 777, 998, 999, 1000, 1400):
            stored = pickle.loads(pickle.dumps(stored))
            found = {repr(model.predict_one(STREAM[-1])) for model in (asked, stored)}
            margins = {asked._margins_one(STREAM[-1]).tobytes(), stored._margins_one(STREAM[-1]).tobytes()}
            assert len(found) == len(margins) == 1
    assert asked.coef_.tobytes() == quiet.coef_.tobytes() == stored.coef_.tobytes()


@pytest.mark.parametrize("settings", [{}, {"half_life": 200, "conversion": "last"}])
def test_early_predictions_have_learned_every_example(settings):
    model = new("two", **settings)
    for k, (x, y) in enumerate(zip(STREAM[:700], LABELS["two"], strict=False)):
        model.learn_one(x, y)
        model.predict_one(x)
        if k > 2:
            early = model.fit_state.early
            assert all(run.seen == k + 1 for run in early.runs)
            assert (k + 1) // 2 < early.pilot <= k + 1
    whole = [run.begun() for run in model.fit_state.runs]
    names = list(range(6))
    early = np.concatenate([run.weights_at(np.array(names))[0] for run in model.fit_state.early.runs])
    exact = np.concatenate([run.weights_at(np.array(names))[0] for run in whole])
    np.testing.assert_allclose(early, exact, atol=0.1 * np.abs(exact).max())


def test_the_compiled_reader_of_few_weights_has_the_bits_of_the_other():
    model = new("late", optimizer="nftrl")
    for x, y in zip(STREAM, LABELS["late"], strict=True):
        model.learn_one(x, y)
    _ = model.t_
    for run in model.fit_state.runs:
        features = np.array([3, 0, 5])
        for one, other in zip(run.weights_at(features), run.weights_at(features, often=True), strict=True):
            assert one.tobytes() == other.tobytes()


def error_of(shares, labels):
    """Return the expected calibration error in 10 bins."""
    bins = np.minimum((10 * shares).astype(int), 9)
    gaps = [abs(shares[bins == k].mean() - labels[bins == k].mean()) * np.mean(bins == k) for k in set(bins.tolist())]
    return sum(gaps)


@pytest.mark.parametrize("settings", [{"loss": "squared-hinge"}, {"class_weight": "balanced"}], ids=str)
def test_platt_scaling_follows_the_iterate(settings):
    labels = np.array(LABELS["two"]) == "b"
    model, plain = new("two", calibrate=True, **settings), new("two", **settings)
    shares = np.full(N, 0.2)
    for k, (x, y) in enumerate(zip(STREAM, LABELS["two"], strict=True)):
        if k > 200:
            shares[k] = model.predict_proba_one(x)["b"]
        model.learn_one(x, y)
        plain.learn_one(x, y)
    assert error_of(shares[500:], labels[500:]) < 0.08
    assert abs(shares[500:].mean() - labels[500:].mean()) < 0.05
    assert model.fit_state.scaled[0] == pytest.approx(model.fit_state.held.rows_seen, rel=0.1)
    if "class_weight" in settings:
        raw = np.array([plain._margins_one(x)[0] for x in STREAM[500:]])
        assert error_of(shares[500:], labels[500:]) < 0.5 * error_of(1.0 / (1.0 + np.exp(-2.0 * raw)), labels[500:])


def test_a_chosen_alpha_has_no_platt_scaling_under_way():
    model = SparseClassifier(calibrate=True, random_state=0).partial_fit(X, LABELS["two"])
    with pytest.raises(ValueError, match="calibrates the model at the end, and this stream is under way"):
        model.predict_proba_one((np.array([0]), np.array([1.0])))
    assert model.finalize().predict_proba_one((np.array([0]), np.array([1.0])))["b"] < 0.6


def test_a_stream_beyond_its_sample_predicts_one(monkeypatch):
    monkeypatch.setattr(Choose, "sample_nonzeros", 5000)
    model = SparseClassifier(random_state=0).partial_fit(X, LABELS["two"], classes=["a", "b"])
    assert model.fit_state.long is not None
    found = [model.predict_one((np.arange(6), row)) for row in X[:200]]
    assert np.mean(np.array(found) == np.array(LABELS["two"][:200])) > 0.75


@pytest.mark.parametrize("settings", [{"n_features": 2}, {"fdr": 0.2}], ids=str)
def test_stable_probabilities_are_corrected_for_balanced_classes(settings):
    rare = MARGIN > 2.2
    model = StableSparseClassifier(class_weight="balanced", random_state=0, **settings).fit(X, rare)
    found, raw = model.predict_proba(X), 1.0 / (1.0 + np.exp(-model.decision_function(X)))
    weights = 0.5 / np.array([1.0 - rare.mean(), rare.mean()])  # scikit-learn's
    odds = raw / (1.0 - raw) * weights[0] / weights[1]
    np.testing.assert_allclose(found[:, 1], odds / (1.0 + odds), rtol=1e-9)
    if "fdr" in settings:  # a refit, whose margins are those of a logistic regression
        assert abs(found[:, 1].mean() - rare.mean()) < 0.02
    assert model.predict(X).mean() > 1.5 * rare.mean()
    again = pickle.loads(pickle.dumps(model))
    assert again.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
