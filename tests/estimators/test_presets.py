"""The papers' algorithms by their names: tables and a figure, against the figures that independent code measured.

A mean over few trials here and a mean over many there agree when they differ by at most three standard errors; with
the spread estimated from few trials, by as many as have the same probability.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student_t
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from sparsco import DivergenceError, SparseClassifier, SparseRegressor, presets
from sparsco.data.rows import as_matrix
from sparsco.engine import Run
from sparsco.estimators.part_names import named
from sparsco.losses import Squared
from sparsco.optimizers import FTRL, OPTIMIZERS, TruncatedGradient
from sparsco.penalties import ElasticNet
from sparsco.reproduce import definition, run
from sparsco.util import result_store

TRIALS = 10

# P1, Table 1: d = 100, N = 50,000, alpha = .1, L = 5, rho = lam = .1; objective, exact density, support F1 (40 trials)
TABLE_1 = {
    ("LastSL", 1): (5.6971, 0.50, 1.000),
    ("LastSL", 4): (7.2005, 0.503, 0.997),
    ("LastSL", 25): (17.7368, 0.615, 0.898),
    ("LastSL", 100): (55.4340, 0.826, 0.755),
    ("OptimalSL", 1): (5.6959, 0.50, 1.0),
    ("OptimalSL", 4): (7.1982, 0.50, 1.0),
    ("OptimalSL", 25): (17.7174, 0.539, 0.963),
    ("OptimalSL", 100): (55.3400, 0.748, 0.802),
    ("α-SGD", 1): (5.6982, 1.0, 0.667),
    ("α-SGD", 4): (7.2029, 1.0, 0.667),
    ("α-SGD", 25): (17.7427, 1.0, 0.667),
    ("α-SGD", 100): (55.400, 1.0, 0.667),
    ("RDA", 1): (5.6965, 0.50, 1.0),
    ("RDA", 100): (55.2908, 0.50, 1.0),
    ("ORDA", 1): (5.7025, 0.99, None),
    ("ORDA", 100): (55.4211, None, None),
    ("ORDA, whole ρ", 1): (5.6976, None, None),
    ("ORDA, whole ρ", 100): (55.3309, None, None),
}


def within_spread(values: np.ndarray, published: float, rounding: float, trials: int = 40) -> bool:
    error = np.std(values, ddof=1) * np.sqrt(1.0 / len(values) + 1.0 / trials)
    return abs(np.mean(values) - published) <= student_t.ppf(norm.cdf(3.0), len(values) - 1) * error + rounding


def measured(key: str, trials: int, folder: Path) -> dict[tuple[str, str, str], list[dict[str, list[float]]]]:
    """(study, setting, row) -> per trial the figures at the end of the stream."""
    experiment = definition.load(key, trials=trials)
    studies = tuple(study._replace(points=(1.0,)) for study in experiment.studies)
    with run.Workers(1) as workers:
        return run.results_of(
            experiment._replace(studies=studies), result_store.Stores(folder, False), workers, lambda done, total: None
        )


def misses(
    found: dict[tuple[str, str, str], Any],
    key: str,
    expected: dict[tuple[str, str], Any],
    metrics: tuple[str, ...],
    roundings: tuple[float, ...],
    trials: int,
) -> list[Any]:
    """The cells that do not agree."""
    out = []
    for (name, setting), numbers in expected.items():
        for metric, published, rounding in zip(metrics, numbers, roundings, strict=True):
            values = np.array([trial[metric][0] for trial in found[key, setting, name]])
            if published is not None and not within_spread(values, published, rounding, trials):
                out.append((name, setting, metric, values, published))
    return out


def test_aaai_table_1(tmp_path):
    found = measured("aaai-table-1", TRIALS, tmp_path)
    expected = {(name, f"σ²={variance}"): numbers for (name, variance), numbers in TABLE_1.items()}
    assert not misses(found, "aaai-table-1", expected, ("Obj", "ED", "SSR"), (1e-4, 5e-3, 5e-3), 40)


# P0, Table 3: the same problem with d = 1000, where ORDA's gamma decides between learning and divergence


@pytest.mark.parametrize("variance", [1, 100])
@pytest.mark.parametrize("preset", [presets.ORDA(), presets.ORDA(split=True), presets.SSG()], ids=str)
def test_a_thousand_features_do_not_diverge_with_our_gamma(preset, variance):
    d, n, rho, lam = 1000, 5000, 0.1, 0.1
    truth = np.r_[np.ones(500), np.zeros(500)]
    rng = np.random.default_rng([0, variance])
    A = rng.uniform(-1.0, 1.0, (n, d))
    y = A @ truth + np.sqrt(variance) * rng.normal(size=n)

    def reached(preset):
        stream = Run(Squared(), ElasticNet(lam, rho), *preset[:3], d=d, intercept=False)
        stream.feed(as_matrix(A), y)
        w = stream.finish().w[:, 0]
        return np.square(w - truth).sum() / 6 + variance / 2 + rho / 2 * w @ w + lam * np.abs(w).sum()

    assert reached(preset) < 500 / 6 + variance / 2  # better than w = 0
    with pytest.raises(DivergenceError):
        reached(preset._replace(optimizer=preset.optimizer._replace(gamma=600.0)))


# P0, Table 5: MNIST 2 against 3, rho = .01, alpha = .3, T = 10,000, L = 10; objective, test error, density
TABLE_5 = {
    "FOBOS": {0.02: (0.389, 0.051, 0.40), 0.05: (0.559, 0.069, 0.34)},
    "α-SGD": {0.02: (0.382, 0.044, 1.0), 0.05: (0.549, None, 1.0)},
    "LastSL": {0.02: (0.386, 0.051, 0.32), 0.05: (0.546, 0.066, 0.21)},
    "OptimalSL": {0.02: (0.380, 0.045, 0.31), 0.05: (0.537, 0.060, 0.15)},
    "AverageSL": {0.02: (0.378, 0.045, 0.29), 0.05: (0.535, 0.060, 0.12)},
    "RDA": {0.02: (0.374, 0.051, 0.056), 0.05: (0.532, 0.065, 0.029)},
    "ORDA": {0.02: (0.377, 0.051, 0.41), 0.05: (0.534, 0.064, 0.34)},
}


@pytest.mark.skipif(not os.environ.get("SPARSCO_DATA"), reason="MNIST is looked for below SPARSCO_DATA, not set")
def test_tpami_table_5(tmp_path):
    found = measured("tpami-table-5", 8, tmp_path)
    expected = {(name, f"λ={lam}"): numbers for name, line in TABLE_5.items() for lam, numbers in line.items()}
    assert not misses(found, "tpami-table-5", expected, ("Obj", "TE", "ED"), (1e-3, 1e-3, 1e-2), 20)
    for lam in (0.02, 0.03, 0.04, 0.05):  # and the untuned default comes close to the optimum
        default, (best,) = (found["tpami-table-5", f"λ={lam}", name] for name in ("sparsco", "exact optimum"))
        assert all(trial["Obj"][0] - best["Obj"][0] <= 1e-3 for trial in default)
        assert abs(np.mean([trial["ED"][0] for trial in default]) / best["ED"][0] - 1.0) <= 0.15


# Individual iterates, Figure 3: 8 seeds


def test_individual_figure_3(tmp_path):
    found = measured("individual-figure-3", 8, tmp_path)
    mean = {
        (row, metric): np.mean([trial[metric][0] for trial in trials])
        for (_, _, row), trials in found.items()
        for metric in ("NNC", "error")
    }
    counts = {"UNI": 4093, "WEI": 3725, "SUFFIX": 1948, "RAND": 1808, "OCMDI": 1813, "LAST": 1813}
    for row, count in counts.items():
        assert mean[row, "NNC"] == pytest.approx(count, rel=0.02), row
    # RAND, one draw a trial, is known to .01 only: over 40 trials it lies between WEI and SUFFIX, at .271
    errors = [mean[row, "error"] for row in ("UNI", "WEI", "SUFFIX", "OCMDI")]
    assert errors == sorted(errors, reverse=True)
    assert mean["RAND", "error"] == pytest.approx(0.271, abs=0.03)
    assert mean["OCMDI", "error"] == pytest.approx(mean["LAST", "error"], rel=0.01)


def preset_problems():
    """Name, composition, estimator and targets: every preset with parameters for a few rows, the papers' and ours."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    labels = np.where(X[:, 0] > 0.0, 1, 0)
    for name, preset in presets.PRESETS.items():
        if name == "Kaczmarz":  # for linear systems: the penalty is in its map
            parts = preset(0.1, largest_row=30.0).parameters()
            yield name, SparseRegressor(alpha=0.0, max_iter=3, random_state=0, **parts), X, X[:, 0]
            continue
        alpha, l1_ratio = (0.05, 1.0) if name in ("FTRL", "NFTRL") else (0.1, 0.5)
        passes = 2 if name in ("EpochGD", "TwoStage") else 1  # the first epoch must come to its end
        parameters = preset().parameters()
        if "penalty" not in parameters:
            parameters |= {"alpha": alpha, "l1_ratio": l1_ratio}
        yield name, SparseClassifier(max_iter=passes, random_state=0, **parameters), X, labels


def test_presets_are_compositions():
    for name, model, X, y in preset_problems():
        assert model.fit(X, y).score(X, y) > 0.9, name


def test_presets_learn_again_after_a_pickle():
    """What another process gets is equal to the parameters here, but not identical: an infinite default, for one."""
    for name, model, X, y in preset_problems():
        coef = model.fit(X, y).coef_
        for again in (clone(model), pickle.loads(pickle.dumps(model)), clone(pickle.loads(pickle.dumps(model)))):
            np.testing.assert_array_equal(again.fit(X, y).coef_, coef, err_msg=name)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_parameters_of_optimizers_are_accepted_after_a_pickle(optimizer):
    record = OPTIMIZERS[optimizer]()
    again = pickle.loads(pickle.dumps(record))
    assert named("optimizer", again, OPTIMIZERS) == record


@pytest.mark.parametrize("name", ["TwoStage", "BallSGD", "TruncatedGradient"])
def test_presets_with_an_infinite_default_are_judged_in_other_processes(name):
    X = np.random.default_rng(0).normal(size=(300, 8))
    y = np.where(X[:, 0] > 0.0, 1, 0)
    model = SparseClassifier(max_iter=2, random_state=0, **presets.PRESETS[name]().parameters())
    scores = cross_val_score(model, X, y, cv=2, n_jobs=2, error_score="raise")
    np.testing.assert_array_equal(scores, cross_val_score(model, X, y, cv=2))


def test_infinity_is_a_number_only_where_it_is_the_default():
    X, y = np.eye(4), np.array([0, 1, 0, 1])
    SparseClassifier(optimizer=TruncatedGradient(theta=float("inf")), alpha=0.1).fit(X, y)
    for optimizer in (TruncatedGradient(theta=-np.inf), TruncatedGradient(theta=np.nan), FTRL(alpha=np.inf)):
        with pytest.raises(ValueError, match="must be a finite number"):
            SparseClassifier(optimizer=optimizer, alpha=0.1).fit(X, y)
