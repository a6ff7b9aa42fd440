"""Probabilities: corrected to the frequencies of the classes, and calibrated on rows that were not learned."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from sparsco import SparseClassifier, SparseClassifierCV, SparsePath, cli, conversions, distributed, load, save
from sparsco.data.rows import as_matrix
from sparsco.engine import long_stream
from sparsco.estimators.calibration import platt
from sparsco.training import model_files

RNG = np.random.default_rng(8)
N, M = 6000, 20_000
W = np.array([1.5, -1.0, 0.5, *np.zeros(7)])
X, NEW = RNG.normal(size=(N, 10)), RNG.normal(size=(M, 10))
TRUTH = expit(NEW @ W - 3.0)
Y = (RNG.random(N) < expit(X @ W - 3.0)).astype(int)
LOGITS = np.stack([NEW[:, 0], NEW[:, 1] - 1.5, NEW[:, 2] - 2.5], axis=1)


def softmax(p):
    shares = np.exp(p - p.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


THREE = (softmax(np.stack([X[:, 0], X[:, 1] - 1.5, X[:, 2] - 2.5], axis=1)).cumsum(1) < RNG.random((N, 1))).sum(1)
GIVEN = {"alpha": 0.003, "random_state": 0}


def error(model, truth=TRUTH):
    """Return the mean distance of the probabilities of new rows from the truth."""
    return np.abs(model.predict_proba(NEW)[:, 1] - truth).mean()


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_balanced_probabilities_are_those_of_the_population(learn):
    balanced = getattr(SparseClassifier(class_weight="balanced", random_state=0), learn)(X, Y)
    assert error(balanced) < 0.01
    assert balanced.predict_proba(X).mean(0) == pytest.approx(np.bincount(Y) / N, abs=0.003)
    margin = balanced.decision_function(NEW)
    assert np.array_equal(balanced.predict(NEW), (margin > 0.0).astype(int))
    low, high = balanced.mean_class_weights()
    assert np.allclose(balanced.predict_proba(NEW)[:, 1], expit(margin - np.log(high / low)), atol=1e-12)
    assert np.abs(expit(margin) - TRUTH).mean() > 0.1  # what it was before the correction


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_balanced_probabilities_of_three_classes(loss):
    model = SparseClassifier(loss, class_weight="balanced", random_state=0).fit(X, THREE)
    shares = model.predict_proba(NEW)
    assert shares.sum(1) == pytest.approx(np.ones(M))
    assert shares.mean(0) == pytest.approx(softmax(LOGITS).mean(0), abs=0.02)
    plain = SparseClassifier(loss, random_state=0).fit(X, THREE)
    assert np.abs(shares - softmax(LOGITS)).mean() < 1.5 * np.abs(plain.predict_proba(NEW) - softmax(LOGITS)).mean()
    if loss == "multinomial":
        corrected = softmax(model.decision_function(NEW) - np.log(model.mean_class_weights()))
        assert np.allclose(shares, corrected, atol=1e-12)


def test_one_example_has_corrected_probabilities():
    model = SparseClassifier(class_weight="balanced", alpha=0.001)
    for x, y in zip(X[:4000], Y[:4000].tolist(), strict=True):
        model.learn_one((np.arange(10), x), y)
    p = np.array([model.predict_proba_one((np.arange(10), x))[1] for x in NEW[:300]])
    assert np.abs(p - TRUTH[:300]).mean() < 0.03
    ended = model.finalize().predict_proba_one((np.arange(10), NEW[0]))[1]
    assert ended == pytest.approx(p[0])


def test_weights_of_a_dict_are_not_corrected():
    given = SparseClassifier(class_weight={0: 1.0, 1: 5.0}, random_state=0).fit(X, Y)
    assert np.allclose(given.predict_proba(NEW)[:, 1], expit(given.decision_function(NEW)), atol=1e-12)


def test_platt_is_the_minimum_of_its_objective():
    p, ones = RNG.normal(1.0, 4.0, 500), RNG.random(500) < 0.3
    ones |= p > 4.0
    weights = RNG.choice([0.5, 1.0, 3.0], 500)
    n1, n0 = weights[ones].sum(), weights[~ones].sum()
    targets = np.where(ones, (n1 + 1.0) / (n1 + 2.0), 1.0 / (n0 + 2.0))

    def objective(theta):
        f = theta[0] * p + theta[1]
        return weights @ (np.logaddexp(0.0, f) - targets * f)

    assert platt(p, ones, weights) == pytest.approx(minimize(objective, [0.0, 0.0], tol=1e-12).x, rel=1e-4)


def test_platt_at_its_ends():
    p = np.linspace(-1.0, 1.0, 40)
    a, b = platt(p, p > 0.0, np.ones(40))  # separable: the smoothed targets keep it finite
    assert 0.0 < a < 1e3 and abs(b) < 1.0
    a, b = platt(p, p < 0.0, np.ones(40))
    assert a == 0.0 and b == pytest.approx(0.0)
    a, b = platt(np.ones(40), p > 0.5, np.ones(40))
    assert np.isfinite(a) and expit(a + b) == pytest.approx(0.25, abs=0.03)
    a, b = platt(p, np.zeros(40, bool), np.ones(40))
    assert a == pytest.approx(0.0, abs=1e-3) and expit(b) == pytest.approx(1.0 / 42.0, rel=1e-2)


CASES = {
    "logistic": ({"random_state": 0}, 0.01),
    "hinge": ({"loss": "hinge", "random_state": 0}, 0.03),
    "squared hinge": ({"loss": "squared-hinge", "random_state": 0}, 0.02),
    "balanced": ({"class_weight": "balanced", "random_state": 0}, 0.01),
    "weights of a dict": ({"class_weight": {1: 20.0, 0: 1.0}, "random_state": 0}, 0.01),
    "alpha given": (GIVEN, 0.03),
    "squared hinge, alpha given": (GIVEN | {"loss": "squared-hinge", "class_weight": "balanced"}, 0.03),
    "fobos": (GIVEN | {"optimizer": "fobos", "conversion": "average"}, 0.03),
    "budget": ({"budget": 2, "random_state": 0}, 0.04),
    "relaxed": (GIVEN | {"standardize": True, "relaxed": True}, 0.01),
}


@pytest.mark.parametrize("case", CASES)
def test_calibrated_probabilities_are_near_the_truth(case):
    settings, bound = CASES[case]
    model = SparseClassifier(calibrate=True, **settings).fit(X, Y)
    assert error(model) < bound
    plain = SparseClassifier(**settings).fit(X, Y)
    if "alpha" not in settings or settings.get("standardize"):  # nothing is held out of what is learned
        assert np.array_equal(plain.coef_, model.coef_)


@pytest.mark.parametrize("loss", ["logistic", "squared-hinge", "multinomial"])
def test_calibrated_probabilities_of_three_classes(loss):
    model = SparseClassifier(loss, calibrate=True, class_weight="balanced", random_state=0).fit(X, THREE)
    shares = model.predict_proba(NEW)
    assert shares.sum(1) == pytest.approx(np.ones(M))
    assert np.abs(shares - softmax(LOGITS)).mean() < 0.05
    assert shares.mean(0) == pytest.approx(softmax(LOGITS).mean(0), abs=0.02)


@pytest.mark.parametrize("settings", [{"random_state": 0}, GIVEN], ids=["folds", "held out"])
def test_any_cut_calibrates_alike(settings):
    found = []
    for ends in ([], [1, 1000, 2500], list(range(300, N, 300))):
        model = SparseClassifier(calibrate=True, **settings)
        for a, b in zip([0, *ends], [*ends, N], strict=True):
            model = pickle.loads(pickle.dumps(model)).partial_fit(X[a:b], THREE[a:b])
        found.append((model.coef_, model.predict_proba(NEW)))
    for coef, shares in found[1:]:
        assert np.array_equal(coef, found[0][0]) and np.array_equal(shares, found[0][1])


def test_rows_that_are_held_out_are_not_learned():
    once = GIVEN | {"optimizer": "fobos", "max_iter": 1, "shuffle": False, "tol": None}
    model = SparseClassifier(calibrate=True, warm_start=True, **once).fit(X, Y)
    held = model.fit_state.held.sample().R
    assert 0.08 * N < len(held.numbers) < 0.12 * N
    keys = {tuple(row) for row in X.round(9).tolist()}
    rows = np.zeros((len(held.numbers), 10))
    rows[np.repeat(np.arange(len(rows)), np.diff(held.indptr)), held.indices] = held.data
    rows = {tuple(row) for row in rows.round(9).tolist()}
    assert rows < keys
    others = np.array([tuple(row) not in rows for row in X.round(9).tolist()])
    assert np.array_equal(SparseClassifier(**once).fit(X[others], Y[others]).coef_, model.coef_)


def test_a_stream_beyond_its_sample_is_calibrated_on_rows_held_out(monkeypatch):
    monkeypatch.setattr(conversions.choose.Choose, "sample_nonzeros", 15_000)
    monkeypatch.setattr(long_stream, "HELD_OUT", 0.2)
    model = SparseClassifier("squared-hinge", calibrate=True, random_state=0).partial_fit(X, Y)
    shares = model.predict_proba(NEW)[:, 1]
    assert model.fit_state.long is not None
    assert np.abs(shares - TRUTH).mean() < 0.04
    assert shares.mean() == pytest.approx(TRUTH.mean(), abs=0.02)


def test_files_keep_what_probabilities_need(tmp_path):
    for settings in ({"class_weight": "balanced"}, {"calibrate": True, "loss": "squared-hinge"}):
        model = SparseClassifier(random_state=0, **settings).fit(X, THREE)
        path = save(model, tmp_path / "a.model")
        assert np.array_equal(load(path).predict_proba(NEW), model.predict_proba(NEW))
        assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_proba(NEW), model.predict_proba(NEW))
    content = model_files.read(path)
    del content["calibration"]  # as in files of before
    content["settings"] = {name: value for name, value in content["settings"].items() if name != "calibrate"}
    before = model_files.restored(content)
    assert not before.has_probabilities
    assert np.array_equal(before.labels_of(before.margins_of(as_matrix(NEW))), model.predict(NEW))
    content["calibration"] = {"class_weights": None, "platt": np.ones((2, 7))}
    with pytest.raises(ValueError, match="calibration does not fit its classes"):
        model_files.write(tmp_path / "b.model", content)


def test_the_command_line(tmp_path, capsys):
    data, path = tmp_path / "rows.svm", tmp_path / "rows.model"
    text = [f"{2 * y - 1} " + " ".join(f"{j + 1}:{v:.4f}" for j, v in enumerate(x)) for x, y in zip(X, Y, strict=True)]
    data.write_text("\n".join(text) + "\n")
    for options in (["--class-weight", "balanced"], ["--calibrate", "--loss", "hinge"]):
        assert cli.main(["train", str(data), "-m", str(path), "--quiet", "--json", *options]) == 0
        assert json.loads(capsys.readouterr().out)["rows"] == N
        assert cli.main(["predict", str(path), str(data), "--probability"]) == 0
        names, *lines = capsys.readouterr().out.splitlines()
        shares = np.array([line.split("\t") for line in lines], float)
        assert names.split("\t") == ["-1", "1"]
        assert shares[:, 1].mean() == pytest.approx(Y.mean(), abs=0.01)
        assert np.abs(shares[:, 1] - expit(X @ W - 3.0)).mean() < 0.03
    assert cli.main(["train", str(data), "-m", str(path), "--quiet", "--calibrate", "--passes", "2"]) == 2
    assert "one pass only" in capsys.readouterr().err
    assert cli.main(["train", str(data), "-m", str(path), "--quiet", "--calibrate", "--task", "regression"]) == 2
    assert "--calibrate are for a classification" in capsys.readouterr().err


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"polish": True}, "polish solves for the optimum"),
        ({"early_stopping": True, "alpha": 0.01}, "early_stopping holds out"),
        ({"conversion": conversions.PathStability(fdr=0.1)}, "uses all rows to select"),
        ({"calibrate": "yes"}, "calibrate='yes': it must be True or False"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        SparseClassifier(**{"calibrate": True, **settings}).fit(X, Y)


@pytest.mark.parametrize("kind", [SparsePath, SparseClassifierCV])
def test_a_path_is_not_calibrated(kind):
    with pytest.raises(ValueError, match="for one model, and a path has many"):
        kind(SparseClassifier(calibrate=True)).fit(X, Y)


@pytest.mark.parametrize("settings", [{"calibrate": True}, {"class_weight": "balanced"}])
def test_partitions_refuse(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))}=.* is not for data in partitions"):
        distributed.fit(SparseClassifier(alpha=0.01, **settings), (X, Y))


def test_hinge_needs_a_calibration():
    plain = SparseClassifier("squared-hinge", alpha=0.01).fit(X, Y)
    with pytest.raises(AttributeError) as refused:
        _ = plain.predict_proba
    assert "calibrate=True" in str(refused.value.__cause__)
    stream = SparseClassifier("squared-hinge", calibrate=True, alpha=0.01)
    for x, y in zip(X[:1500], Y[:1500].tolist(), strict=True):
        stream.learn_one((np.arange(10), x), y)
    assert sum(stream.predict_proba_one((np.arange(10), X[0])).values()) == pytest.approx(1.0)
    young = SparseClassifier("squared-hinge", calibrate=True, alpha=0.01)
    young = young.learn_one((np.arange(10), X[0]), 0).learn_one((np.arange(10), X[1]), 1)
    with pytest.raises(ValueError, match="gives no probabilities by itself"):
        young.predict_proba_one((np.arange(10), X[0]))
    assert stream.predict_proba(X).sum(1) == pytest.approx(np.ones(N))
    with pytest.warns(UserWarning, match="no row was held out"):
        assert SparseClassifier("hinge", calibrate=True, alpha=0.01).fit(X[:2], [0, 1]).predict_proba(X).shape == (N, 2)


def test_a_smaller_model_is_not_calibrated():
    model = SparseClassifier(calibrate=True, class_weight="balanced", random_state=0).fit(X, Y)
    small = model.at_size(1)
    assert small.convert().platt is None and model.convert().platt is not None
    assert small.predict_proba(X)[:, 1].mean() == pytest.approx(Y.mean(), abs=0.02)
