"""Estimators with a promise on false features: any cut, threads, long streams, files, probes, warnings."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sparsco import (
    SparseClassifier,
    SparseRegressor,
    StableSparseClassifier,
    StableSparseRegressor,
    load,
    save,
)
from sparsco.cli import main
from sparsco.conversions import PathStability
from sparsco.engine import long_halves
from sparsco.error_control import selecting
from sparsco.training.checkpoints import Checkpoints
from sparsco.training.train import StoppedError, train

TRUE = 6


def rows(n=500, d=60, seed=0, classes=0, noise=1.0, rho=0.0):
    """Return rows whose first six columns matter, and their targets: numbers, or classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    for j in range(1, d) if rho else ():
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1.0 - rho**2) * X[:, j]
    w = np.zeros((d, max(classes, 1)))
    if classes > 2:  # each feature speaks for one class
        w[np.arange(TRUE), np.arange(TRUE) % classes] = 2.0
    else:
        w[:TRUE, 0] = [1.0, -1.0, 1.0, 1.0, -1.0, 1.0]
    p = X @ w + noise * rng.logistic(size=(n, max(classes, 1)))
    if classes == 0:
        return X, p[:, 0]
    return X, (p[:, 0] > 0.0) if classes == 2 else p.argmax(1)


def same(one, other):
    """Return whether two models have the same bits."""
    return (
        np.array_equal(one.coef_, other.coef_)
        and np.array_equal(one.intercept_, other.intercept_)
        and np.array_equal(one.efp_scores_, other.efp_scores_)
        and np.array_equal(one.q_values_, other.q_values_)
    )


def in_chunks(model, X, y, cut, **extra):
    for at in range(0, len(y), cut):
        model.partial_fit(X[at : at + cut], y[at : at + cut], **(extra if at == 0 else {}))
    return model


# ---- what is selected ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [StableSparseRegressor, StableSparseClassifier])
def test_features_that_matter_are_selected(kind):
    X, y = rows(classes=0 if kind is StableSparseRegressor else 2)
    model = kind(fdr=0.1, random_state=0).fit(X, y)
    found = model.get_support(indices=True)
    assert set(range(TRUE)) <= set(found.tolist()) and len(found) <= TRUE + 1
    assert np.array_equal(found, np.flatnonzero(model.q_values_ <= 0.1))
    assert (model.selection_probabilities_[:TRUE] > 0.95).all()
    promise = model.promise_
    assert promise["fdr"] == 0.1 and promise["judged"] == 60 and promise["rows"] == 500 and not promise["warnings"]
    paths = model.stability_paths_
    assert paths["probabilities"].shape == (25, 60) and 1 < paths["used"] <= 25
    best = paths["probabilities"][: int(paths["used"])].max(0)
    assert np.array_equal(best, model.selection_probabilities_)


def test_the_selected_features_are_learned_without_shrinkage():
    X, y = rows(n=2000)
    model = StableSparseRegressor(efp=1.0).fit(X, y)
    chosen = model.get_support()
    design = np.column_stack([X[:, chosen], np.ones(len(X))])
    exact = np.linalg.lstsq(design, y, rcond=None)[0]
    assert np.allclose(model.coef_[chosen], exact[:-1], rtol=1e-3)
    assert np.array_equal(chosen, model.efp_scores_ <= 1.0)


def test_expected_false_positives_bound_false_positives():
    """Thirty sets of pure noise and thirty with few true features: the mean must not exceed the promise by much."""
    false = {"noise": [], "signal": []}
    for seed in range(30):
        X, y = rows(n=120, d=40, seed=seed, noise=1.5)
        for name, target in (("noise", np.random.default_rng(seed).standard_normal(120)), ("signal", y)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                model = StableSparseRegressor(efp=1.0, random_state=seed).fit(X, target)
            false[name].append(model.get_support()[0 if name == "noise" else TRUE :].sum())
    for counts in false.values():
        mean, error = np.mean(counts), np.std(counts) / np.sqrt(len(counts))
        assert mean <= 1.0 + 2.0 * error, counts
    assert np.mean(false["noise"]) < 1.0


def test_several_classes_and_outputs_have_one_score_for_each_feature():
    X, y = rows(classes=3, n=900)
    model = StableSparseClassifier(fdr=0.1).fit(X, y)
    assert model.coef_.shape == (3, 60) and model.q_values_.shape == (60,)
    assert np.array_equal(model.coef_.any(0), model.q_values_ <= 0.1) and model.get_support()[:TRUE].all()
    Y = np.column_stack([X[:, 0] - X[:, 1], X[:, 2] + X[:, 0]]) + 0.5 * np.random.default_rng(0).normal(size=(900, 2))
    both = StableSparseRegressor(fdr=0.1).fit(X, Y)
    assert both.coef_.shape == (2, 60) and set(both.get_support(indices=True)[:3]) == {0, 1, 2}
    assert both.predict(X).shape == (900, 2) and both.score(X, Y) > 0.7


def test_sparse_rows_weights_and_losses():
    rng = np.random.default_rng(0)
    X = sp.random_array((3000, 200), density=0.1, rng=rng, format="csr")
    y = X[:, [3]].toarray()[:, 0] - X[:, [7]].toarray()[:, 0] + 0.2 * rng.standard_normal(3000) > 0
    for loss in ("logistic", "hinge"):
        assert {3, 7} <= set(StableSparseClassifier(fdr=0.1, loss=loss).fit(X, y).get_support(indices=True).tolist())
    doubled = StableSparseClassifier(fdr=0.1).fit(X, y, sample_weight=np.full(3000, 2.0))
    assert np.array_equal(doubled.get_support(), StableSparseClassifier(fdr=0.1).fit(X, y).get_support())


# ---- the same bits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 77, 400])
def test_any_cut_gives_the_bits_of_fit(cut):
    X, y = rows(n=401, classes=2)
    model = StableSparseClassifier(fdr=0.1, random_state=3)
    assert same(in_chunks(model, X, y, cut, classes=[False, True]), copy.deepcopy(model).fit(X, y))


def test_threads_change_no_bit():
    X, y = rows(classes=3)
    assert same(
        StableSparseClassifier(fdr=0.1, n_jobs=1).fit(X, y), StableSparseClassifier(fdr=0.1, n_jobs=2).fit(X, y)
    )


def test_the_stable_estimator_is_the_plain_one_with_a_conversion():
    X, y = rows(classes=2)
    plain = SparseClassifier(conversion=PathStability(fdr=0.1)).fit(X, y)
    assert same(StableSparseClassifier(fdr=0.1, random_state=None).fit(X, y), plain)
    assert "fdr=0.1: of" in str(plain.summary())


# ---- streams beyond the sample ---------------------------------------------------------------------------------------


@pytest.fixture
def small_sample(monkeypatch):
    monkeypatch.setattr(PathStability, "sample_nonzeros", 6000)  # the first 1000 rows are kept in any case


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_a_long_stream_selects_what_matters(small_sample, classes):
    X, y = rows(n=1500, d=30, classes=classes)
    kind = StableSparseClassifier if classes else StableSparseRegressor
    model = kind(fdr=0.1, random_state=0).fit(X, y)
    found = model.get_support(indices=True).tolist()
    assert set(range(TRUE)) <= set(found) and len(found) <= TRUE + 1
    assert model.promise_["rows"] == 1500 and model.promise_["followed"] == 30
    assert model.score(X, y) > (0.55 if classes else 0.5)


@pytest.mark.parametrize("cut", [1, 333])
def test_any_cut_of_a_long_stream_gives_the_same_bits(small_sample, cut):
    X, y = rows(n=1301, d=30, classes=2)
    model = StableSparseClassifier(fdr=0.1, random_state=1)
    assert same(in_chunks(model, X, y, cut, classes=[False, True]), copy.deepcopy(model).fit(X, y))


def test_a_long_stream_continues_from_a_pickle_and_on_threads(small_sample):
    X, y = rows(n=1400, d=30)
    plain = SparseRegressor(conversion=PathStability(efp=1.0))
    whole = copy.deepcopy(plain).partial_fit(X, y)
    assert whole.fit_state.long is not None and whole.promise_["rows"] == 1400
    for at in (150, 1200):  # before and after the sample is full
        first = pickle.loads(pickle.dumps(copy.deepcopy(plain).partial_fit(X[:at], y[:at])))
        assert same(first.partial_fit(X[at:], y[at:]), whole)
    threads = SparseRegressor(conversion=PathStability(efp=1.0), n_jobs=2).partial_fit(X, y)
    assert same(threads, whole)


def test_few_rows_that_are_very_wide_are_all_judged(small_sample):
    X, y = rows(n=400, d=60)
    assert StableSparseRegressor(fdr=0.1, random_state=0).fit(X, y).promise_["rows"] == 400


def test_columns_beyond_the_memory_are_left_out_and_said(small_sample, monkeypatch):
    X, y = rows(n=1500, d=30)
    monkeypatch.setattr(long_halves, "BUDGET", 12 * long_halves._BYTES * 100 * long_halves.STRENGTHS)
    with pytest.warns(UserWarning, match="memory for 12 of 30 columns"):
        model = StableSparseRegressor(fdr=0.1, random_state=0).fit(X, y)
    assert model.promise_["followed"] == 12 and model.promise_["judged"] == 30
    assert set(range(TRUE)) <= set(model.get_support(indices=True).tolist())


def test_probes_beyond_the_sample_are_not_there_and_said(small_sample):
    X, y = rows(n=1200, d=30)
    with pytest.warns(UserWarning, match="probes are judged on rows in memory only"):
        model = StableSparseRegressor(fdr=0.1, probes=True, random_state=0).fit(X, y)
    assert "probes" not in model.promise_


def test_columns_that_come_late_are_not_judged(small_sample):
    X, y = rows(n=1500, d=30)
    model = SparseRegressor(conversion=PathStability(fdr=0.1))
    model.partial_fit(X[:1200, :25], y[:1200]).partial_fit(X[1200:], y[1200:])
    assert model.q_values_.shape == (30,) and (model.q_values_[25:] == 1.0).all() and model.get_support()[:TRUE].all()


def test_a_run_that_is_cut_off_continues_with_the_same_bits(small_sample, tmp_path):
    X, y = rows(n=1500, d=30, classes=2)
    pairs = zip(X, y, strict=True)
    lines = [f"{int(label)} " + " ".join(f"{j}:{v:.5g}" for j, v in enumerate(row)) for row, label in pairs]
    (tmp_path / "a.svm").write_text("\n".join(lines) + "\n")
    settings = {"conversion": PathStability(fdr=0.1), "random_state": 0}
    whole = train(tmp_path / "a.svm", settings=settings).model
    kept, asked = Checkpoints(tmp_path / "a.checkpoint", 400, None), []
    with pytest.raises(StoppedError):
        train(
            tmp_path / "a.svm",
            settings=settings,
            checkpoints=kept,
            stop=lambda: bool(asked.append(1)) or len(asked) > 3,
        )
    assert kept.exist()
    resumed = train(tmp_path / "a.svm", settings=settings, checkpoints=kept, resume=True).model
    assert same(resumed, whole)


# ---- probes and warnings ---------------------------------------------------------------------------------------------


def test_probes_check_the_promise():
    X, y = rows()
    model = StableSparseRegressor(fdr=0.1, probes=True, random_state=0).fit(X, y)
    probes = model.promise_["probes"]
    assert probes["judged"] == 60 and probes["selected"] <= 1 and np.isclose(probes["promised"], 0.1 * model.n_nonzero_)
    assert model.get_support()[:TRUE].all()


def test_probes_that_are_selected_break_the_promise(monkeypatch):
    monkeypatch.setattr(selecting, "with_probes", _exchanged)
    with pytest.warns(UserWarning, match="does not hold: 6 of 60 probes"):
        StableSparseRegressor(fdr=0.1, probes=True, random_state=0).fit(*rows())


def _exchanged(task, seed):
    """Return noise in place of the columns, and the columns in place of their probes."""
    dense = np.zeros((task.n, task.d))
    dense[np.repeat(np.arange(task.n), np.diff(task.indptr)), task.indices] = task.data
    both = sp.csr_array(np.hstack([np.random.default_rng(seed).standard_normal(dense.shape), dense]))
    indptr, indices = both.indptr.astype(np.int64), both.indices.astype(np.uint32)
    return task._replace(indptr=indptr, indices=indices, data=both.data, units=np.tile(task.units, 2))


def test_strong_correlation_is_a_warning_and_weak_is_none():
    with pytest.warns(UserWarning, match="strongly correlated"):
        model = StableSparseRegressor(fdr=0.1, random_state=0).fit(*rows(rho=0.9, noise=0.3))
    assert all(r >= 0.7 for _, _, r in model.promise_["correlated"])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        StableSparseRegressor(fdr=0.1, random_state=0).fit(*rows())


def test_columns_without_information_are_named():
    X, y = rows()
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(60)])
    frame["c9"], frame["twin"] = 1.0, 2.0 * frame["c0"] - 1.0
    model = StableSparseRegressor(fdr=0.1, random_state=0).fit(frame, y)
    promise = model.promise_
    assert promise["constant_columns"] == ["c9"] and promise["identical"] == [["c0", "twin"]]
    assert model.q_values_[0] == model.q_values_[60] <= 0.1  # the first of them is in the model
    assert model.get_support()[0] and not model.get_support()[60] and promise["judged"] == 59
    assert len(model.get_feature_names_out()) == promise["selected"]


def test_nothing_stable_is_said():
    X, _ = rows()
    with pytest.warns(UserWarning, match="no feature was selected: none is stable enough for fdr=0.01"):
        model = StableSparseRegressor(fdr=0.01).fit(X, np.random.default_rng(9).standard_normal(500))
    assert not model.get_support().any() and np.allclose(model.predict(X), model.intercept_[0])


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given, message",
    [
        ({"fdr": 0.0}, "fdr=0.0: it must be a share"),
        ({"fdr": 1.5}, "fdr=1.5: it must be a share"),
        ({"fdr": "a tenth"}, "fdr='a tenth'"),
        ({"efp": -1}, "efp=-1: it must be a number above 0"),
        ({"efp": float("nan")}, "efp=nan"),
        ({"fdr": 0.1, "efp": 1}, "two kinds of promise"),
        ({"probes": True}, "probes=True checks the promise"),
        ({"fdr": 0.1, "probes": "yes"}, "probes='yes'"),
        ({"fdr": 0.1, "n_features": 3}, "n_features has no effect"),
        ({"fdr": 0.1, "method": "paper"}, "method has no effect"),
        ({"fdr": 0.1, "loss": "poison"}, "is not known"),
    ],
)
def test_bad_parameters_are_named(given, message):
    X, y = rows(n=50)
    with pytest.raises(ValueError, match=message):
        StableSparseRegressor(**given).fit(X, y)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"alpha": 0.1}, "alpha has no effect"),
        ({"optimizer": "fobos"}, "optimizer has no effect"),
        ({"polish": True}, "polish has no effect"),
        ({"budget": 5}, "budget has no effect"),
        ({"penalty": "trace"}, "needs the elastic net"),
        ({"cv": 5}, "cv has no effect"),
        ({"feature_weights": np.ones(60)}, "feature_weights has no effect"),
    ],
)
def test_parameters_without_effect_are_refused(given, message):
    X, y = rows(n=50)
    with pytest.raises(ValueError, match=message):
        SparseRegressor(conversion=PathStability(fdr=0.1), **given).fit(X, y)


def test_models_without_a_promise_say_so():
    X, y = rows(n=100)
    model = SparseRegressor(alpha=0.1).fit(X, y)
    for name in ("q_values_", "efp_scores_", "promise_", "stability_paths_"):
        with pytest.raises(AttributeError, match="makes no promise"):
            getattr(model, name)
    with pytest.raises(AttributeError, match="makes no promise"):
        _ = StableSparseRegressor(n_features=3).fit(X, y).q_values_


# ---- files -----------------------------------------------------------------------------------------------------------


def test_a_model_file_keeps_the_promise(tmp_path):
    X, y = rows(classes=2)
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(60)])
    frame["twin"] = frame["c0"]
    model = SparseClassifier(conversion=PathStability(fdr=0.1, probes=True)).fit(frame, y)
    back = load(save(model, tmp_path / "a.model"))
    chosen = model.get_support()
    assert np.array_equal(back.q_values_[chosen], model.q_values_[chosen])
    assert np.array_equal(back.efp_scores_[chosen], model.efp_scores_[chosen])
    assert back.promise_ == model.promise_ and back.promise_["identical"] == [["c0", "twin"]]
    assert str(back.summary()) == str(model.summary())
    assert (tmp_path / "a.model").stat().st_size < 20_000


def test_from_a_table_to_a_readable_promise(tmp_path, capsys):
    X, y = rows(classes=2, n=400)
    frame = pd.DataFrame(X, columns=[f"word{j}" for j in range(60)])
    frame["word9"] = 1.0
    frame["label"] = np.where(y, "spam", "ham")
    data, model = str(tmp_path / "mail.csv"), str(tmp_path / "mail.model")
    frame.to_csv(data, index=False)
    assert main(["train", data, "--target", "label", "--fdr", "0.1", "--probes", "-m", model, "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "promised: fdr=0.1: of" in out and "probes selected" in out and "never vary: word9" in out
    assert main(["inspect", model]) == 0
    shown = capsys.readouterr().out
    assert "q-value" in shown and "in halves" in shown and "promised: fdr=0.1" in shown
    assert main(["inspect", model, "--html", str(tmp_path / "mail.html")]) == 0
    assert "share of halves" in (tmp_path / "mail.html").read_text()
    capsys.readouterr()
    for wrong, message in (
        (["--fdr", "0.1", "--efp", "1"], "--fdr and --efp are two kinds of promise"),
        (["--probes"], "--probes checks the promise"),
        (["--fdr", "7"], "fdr=7.0: it must be a share"),
    ):
        assert main(["train", data, "--target", "label", "-m", str(tmp_path / "no.model"), *wrong]) == 2
        assert message in capsys.readouterr().err and not (tmp_path / "no.model").exists()


def test_the_plot_names_the_selected_features():
    pytest.importorskip("matplotlib").use("Agg")
    X, y = rows()
    model = StableSparseRegressor(fdr=0.1, random_state=0).fit(pd.DataFrame(X).add_prefix("$f"), y)
    axes = model.plot()
    assert len(axes.get_legend().get_texts()) == model.get_support().sum()
    assert axes.get_ylabel() == "share of halves"
