"""Balanced classes in streams: weights by what was seen so far, whatever the cut."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from sparsco import SparseClassifier, SparsePath, load, save
from sparsco.estimators.class_weights import PSEUDO_ROWS, ClassTally
from sparsco.training.checkpoints import Checkpoints
from sparsco.training.results import StoppedError
from sparsco.training.train import train

RNG = np.random.default_rng(5)
N = 2400
X = RNG.normal(size=(N, 6))
Z = X[:, 0] - X[:, 1] + RNG.logistic(size=N)
RARE = np.where(Z > 3.0, "rare", "common")
THREE = np.where(Z > 3.0, "rare", np.where(X[:, 2] + 0.5 * RNG.normal(size=N) > 0.8, "other", "common"))
WEIGHTS = RNG.choice([0.0, 0.3, 1.0, 2.7], N)
ONLINE = {"alpha": 0.01, "optimizer": "fobos", "conversion": "average", "random_state": 0}


def slow_weights(labels, weights, classes=None):
    """Return balanced weights of a stream, row by row, as docs/notation.md has them."""
    total, seen, found = 0.0, {}, []
    for label, weight in zip(labels, weights, strict=True):
        if weight > 0.0:
            total += weight
            seen[label] = seen.get(label, 0.0) + weight
        k = classes or max(len(seen), 1)
        found.append((total + k * PSEUDO_ROWS) / (k * (seen.get(label, 0.0) + PSEUDO_ROWS)))
    return np.array(found)


def pieces(ends):
    return [slice(a, b) for a, b in zip([0, *ends], [*ends, N], strict=True)]


CUTS = [[], [1, 2, 3], [999, 1000, 1001], list(range(100, N, 100))]


@pytest.mark.parametrize("declared", [None, ["common", "other", "rare"]])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_a_stream_has_the_weights_of_the_formula(declared, weights):
    own = np.ones(N) if weights is None else weights
    expected = own * slow_weights(THREE.tolist(), own.tolist(), None if declared is None else 3)
    balanced = SparseClassifier(class_weight="balanced", **ONLINE)
    by_hand = SparseClassifier(**ONLINE)
    for part in pieces([7, 1500]):
        sample_weight = None if weights is None else weights[part]
        balanced.partial_fit(X[part], THREE[part], declared, sample_weight)
        by_hand.partial_fit(X[part], THREE[part], declared, expected[part])
    assert np.array_equal(balanced.coef_, by_hand.coef_)
    assert np.array_equal(balanced.intercept_, by_hand.intercept_)


@pytest.mark.parametrize("settings", [ONLINE, {"random_state": 0}], ids=["online", "automatic"])
def test_any_cut_gives_the_same_bits(settings):
    found = []
    for ends in CUTS:
        model = SparseClassifier(class_weight="balanced", **settings)
        for part in pieces(ends):
            model.partial_fit(X[part], RARE[part], sample_weight=WEIGHTS[part])
        found.append((model.coef_, model.predict_proba(X)))
    for coef, shares in found[1:]:
        assert np.array_equal(coef, found[0][0]) and np.array_equal(shares, found[0][1])


def test_any_cut_of_a_path_gives_the_same_bits():
    found = []
    for ends in CUTS:
        path = SparsePath(SparseClassifier(class_weight="balanced", random_state=0), n_alphas=4)
        for part in pieces(ends):
            path.partial_fit(X[part], RARE[part], classes=["common", "rare"])
        models = [path.path_.model(alpha) for alpha in path.path_.alphas]
        assert models[0].fit_state.tally.total == N
        found.append(np.concatenate([model.coef_ for model in models]))
    for coef in found[1:]:
        assert np.array_equal(coef, found[0])


def test_one_example_at_a_time_is_the_same_stream():
    one = SparseClassifier(class_weight="balanced", **ONLINE)
    for x, label in zip(X[:1500], THREE[:1500].tolist(), strict=True):
        one.learn_one((np.arange(6), x), label)
        if label == "rare":
            one.predict_one((np.arange(6), x))  # a read learns what waits
    whole = SparseClassifier(class_weight="balanced", **ONLINE).partial_fit(X[:1500], THREE[:1500])
    assert np.array_equal(one.coef_, whole.coef_)


def test_pickles_and_checkpoints_go_on_with_the_counts(tmp_path):
    whole = SparseClassifier(class_weight="balanced", **ONLINE).partial_fit(X, RARE)
    half = SparseClassifier(class_weight="balanced", **ONLINE).partial_fit(X[:1300], RARE[:1300])
    gone_on = pickle.loads(pickle.dumps(half)).partial_fit(X[1300:], RARE[1300:])
    assert np.array_equal(gone_on.coef_, whole.coef_)
    save(half, tmp_path / "half.model", training=True)
    loaded = load(tmp_path / "half.model", training=True).partial_fit(X[1300:], RARE[1300:])
    assert np.array_equal(loaded.coef_, whole.coef_)
    assert np.array_equal(loaded.predict_proba(X), whole.predict_proba(X))


def test_an_interrupted_training_ends_with_the_same_bits(tmp_path):
    path = tmp_path / "rows.svm"
    labels = np.where(RARE == "rare", 1, -1)
    path.write_text(
        "".join(
            f"{y} " + " ".join(f"{j + 1}:{v:.6f}" for j, v in enumerate(x)) + "\n"
            for x, y in zip(X, labels, strict=True)
        )
    )
    settings = {"class_weight": "balanced", **ONLINE}
    whole = train(path, SparseClassifier(**settings)).estimator
    checkpoints = Checkpoints(tmp_path / "checkpoint", 500, None)
    calls = iter(range(1000))
    with pytest.raises(StoppedError):
        train(path, SparseClassifier(**settings), checkpoints=checkpoints, stop=lambda: next(calls) > 6)
    resumed = train(path, SparseClassifier(**settings), checkpoints=checkpoints, resume=True).estimator
    assert np.array_equal(resumed.coef_, whole.coef_)
    assert np.array_equal(resumed.mean_class_weights(), whole.mean_class_weights())


def test_fit_has_the_exact_weights_of_all_rows():
    labels, counts = np.unique(RARE, return_counts=True)
    scale = dict(zip(labels.tolist(), (N / (2.0 * counts)).tolist(), strict=True))
    balanced = SparseClassifier(class_weight="balanced", **ONLINE).fit(X, RARE)
    given = SparseClassifier(class_weight=scale, **ONLINE).fit(X, RARE)
    assert np.array_equal(balanced.coef_, given.coef_)
    assert balanced.mean_class_weights() == pytest.approx([scale["common"], scale["rare"]])


def test_a_further_pass_counts_nothing():
    tally = ClassTally().add(np.array([0, 0, 1]), np.ones(3))[1]
    model = SparseClassifier(class_weight="balanced", **ONLINE)
    model.partial_fit(X, RARE, classes=["common", "rare"])
    before = model.fit_state.tally
    _, again = model.encode_next(RARE, None, False, None, is_repeat=True)
    assert model.fit_state.tally is before
    rare = np.count_nonzero(RARE == "rare")
    expected = (N + 2 * PSEUDO_ROWS) / (2 * (np.where(RARE == "rare", rare, N - rare) + PSEUDO_ROWS))
    assert again == pytest.approx(expected)
    assert tally.seen.tolist() == [2.0, 1.0] and tally.total == 3.0


def test_the_first_row_of_a_rare_class_is_bounded():
    codes = np.append(np.zeros(999, np.int64), 1)
    scale, tally = ClassTally().add(codes, np.ones(1000), classes=2)
    assert scale[-1] == (1000 + 2 * PSEUDO_ROWS) / (2 * (1 + PSEUDO_ROWS))
    assert tally.given == pytest.approx([scale[:-1].sum(), scale[-1]])


def test_the_decision_of_a_stream_is_balanced():
    plain = SparseClassifier(random_state=0).partial_fit(X, RARE)
    balanced = SparseClassifier(random_state=0, class_weight="balanced").partial_fit(X, RARE)
    is_rare = RARE == "rare"
    recall = [np.mean(model.predict(X)[is_rare] == "rare") for model in (plain, balanced)]
    assert recall[1] > 0.7 > 0.5 > recall[0]


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_another_word_is_refused(method):
    with pytest.raises(ValueError, match="class_weight|balanced"):
        getattr(SparseClassifier(class_weight="even", **ONLINE), method)(X, RARE)
