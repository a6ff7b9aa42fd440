"""The measures, by hand-computed values and against scikit-learn's."""

# ruff: noqa: N803, N806  (X is a matrix)

from __future__ import annotations

import doctest
import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import cohen_kappa_score, f1_score, jaccard_score

from sparsco import metrics
from sparsco.losses import Hinge, Logistic, Squared
from sparsco.metrics import (
    cohen_kappa,
    exact_density,
    jaccard,
    objective,
    objective_gap,
    objectives,
    pairwise,
    selection,
    support,
    support_recovery,
    truncated_density,
    variance_over_runs,
)

W = np.array([0.0, 2.0, -1e-9, 0.0, -1e-6, 2e-6, 0.0, -3.0])
FORMS = {
    "list": list,
    "array": np.asarray,
    "float32": lambda w: np.asarray(w, dtype=np.float32),
    "row": lambda w: np.asarray(w)[None, :],
    "matrix of classes": lambda w: np.asarray(w).reshape(2, -1),
    "csr_matrix": lambda w: sp.csr_matrix(np.atleast_2d(w)),
    "csc_array": lambda w: sp.csc_array(np.atleast_2d(w).T),
    "coo_array 1-d": lambda w: sp.coo_array(np.asarray(w)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_model(form):
    w = FORMS[form](W)
    mask = FORMS[form](W != 0.0) if form != "float32" else W != 0.0
    assert support(w).tolist() == (W != 0.0).tolist() == support(mask).tolist()
    assert exact_density(w) == exact_density(mask) == 5 / 8
    assert truncated_density(w) == 3 / 8  # 1e-6 itself is not above the level
    assert truncated_density(w, level=2.0) == 1 / 8
    assert truncated_density(mask) == 5 / 8  # a mask has no sizes
    truth = np.array([1, 1, 0, 0, 0, 0, 0, 1.0])
    assert support_recovery(w, truth) == 2 * 2 / (5 + 3) == support_recovery(mask, truth)
    assert jaccard(w, truth) == 2 / 6


def test_stored_zeros_and_duplicates_of_a_sparse_array():
    stored = sp.csr_array((np.array([0.0, 1.0]), np.array([0, 2]), np.array([0, 2])), shape=(1, 4))
    assert support(stored).tolist() == [False, False, True, False]
    cancelled = sp.coo_array((np.array([1.0, -1.0, 2.0]), (np.zeros(3, int), np.array([1, 1, 3]))), shape=(1, 4))
    assert support(cancelled).tolist() == [False, False, False, True]


def test_masks_are_taken_whatever_the_level():
    assert support(np.array([True, False]), level=5.0).tolist() == [True, False]


def test_edges_of_density():
    assert exact_density(np.zeros(0)) == 0.0 and truncated_density(sp.csr_matrix((1, 0))) == 0.0
    assert exact_density([5e-324]) == 1.0 and truncated_density([5e-324]) == 0.0
    assert exact_density([-0.0]) == 0.0 and exact_density([math.inf]) == 1.0


@pytest.mark.parametrize("form", [np.asarray, lambda w: sp.csr_array(np.atleast_2d(w))])
def test_nan_is_refused(form):
    with pytest.raises(ValueError, match="NaN"):
        exact_density(form(np.array([0.0, np.nan])))


def test_negative_level_is_refused():
    with pytest.raises(ValueError, match="level"):
        truncated_density([1.0], level=-1.0)


def test_empty_sets():
    none, some, every = np.zeros(4), np.array([1.0, 0, 0, 0]), np.ones(4)
    for measure in support_recovery, jaccard, cohen_kappa:
        assert measure(none, none) == 1.0 and measure(every, every) == 1.0
        assert measure(none, some) == 0.0 == measure(some, none)
        assert measure(none, every) == 0.0
        assert measure(np.zeros(0), np.zeros(0)) == 1.0
    assert cohen_kappa(every, some) == 0.0
    assert support_recovery(every, some) == 0.4 and jaccard(every, some) == 0.25


def test_kappa_by_hand():
    # p = 10, p11 = 2, p12 = 1, p21 = 2, p22 = 5: q_o = .7, q_e = (3 * 4 + 7 * 6)/100 = .54
    a = np.array([1, 1, 1, 0, 0, 0, 0, 0, 0, 0])
    b = np.array([1, 1, 0, 1, 1, 0, 0, 0, 0, 0])
    assert cohen_kappa(a, b) == pytest.approx((0.7 - 0.54) / (1 - 0.54), rel=1e-15)
    assert cohen_kappa(a, 1 - a) < 0.0
    assert cohen_kappa([1, 1, 0, 0], [0, 0, 1, 1]) == -1.0


def test_kappa_counts_in_whole_numbers():
    d = 3_000_000  # d squared does not fit into 32 bits
    a = np.zeros(d, bool)
    a[:2] = True
    assert cohen_kappa(a, a) == 1.0
    b = np.zeros(d, bool)
    b[1:3] = True
    assert cohen_kappa(a, b) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_against_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.random(40) < 0.3, rng.random(40) < 0.4
    assert cohen_kappa(a, b) == pytest.approx(cohen_kappa_score(a, b), abs=1e-15)
    assert support_recovery(a, b) == pytest.approx(f1_score(b, a), abs=1e-15)
    assert jaccard(a, b) == pytest.approx(jaccard_score(b, a), abs=1e-15)


@pytest.mark.parametrize("measure", [support_recovery, jaccard, cohen_kappa])
def test_models_of_different_sizes_are_refused(measure):
    with pytest.raises(ValueError, match="3 and 4 features"):
        measure(np.ones(3), np.ones(4))


def test_pairwise_is_the_mean_over_ordered_pairs():
    rng = np.random.default_rng(0)
    runs = rng.normal(size=(5, 30)) * (rng.random((5, 30)) < 0.4)
    ordered = [cohen_kappa(runs[i], runs[j]) for i in range(5) for j in range(5) if i != j]
    assert pairwise(runs) == pytest.approx(sum(ordered) / (5 * 4), rel=1e-14)
    assert pairwise(list(runs)) == pairwise(iter(runs)) == pairwise(runs)
    assert pairwise([sp.csr_array(run[None, :]) for run in runs], jaccard) == pairwise(runs, jaccard)
    assert pairwise([[1, 0], [1, 0]]) == 1.0


def test_pairwise_needs_two_runs():
    with pytest.raises(ValueError, match="at least two runs, got 1"):
        pairwise([[1, 0]])


def test_variance_over_runs():
    assert variance_over_runs([1.0, 2.0, 6.0]) == 7.0
    assert variance_over_runs([1.0, 2.0, 6.0], ddof=0) == pytest.approx(14 / 3)
    assert variance_over_runs([[1.0, 5.0], [3.0, 5.0]]).tolist() == [2.0, 0.0]
    for values, ddof in ([1.0], 1), ([], 0), (1.0, 1):
        with pytest.raises(ValueError, match="runs, got"):
            variance_over_runs(values, ddof=ddof)
    assert variance_over_runs([1.0], ddof=0) == 0.0


X = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])


@pytest.mark.parametrize("matrix", [np.asarray, sp.csr_matrix, sp.csc_array, np.ndarray.tolist])
@pytest.mark.parametrize("vector", [np.asarray, list, lambda w: sp.csr_array(w[None, :]), lambda w: w[None, :]])
def test_objective_by_hand(matrix, vector):
    # margins 1.5, -1.5, .5; residuals .5, -2.5, 0; penalty .5 * 2 (1 + 1) + .25 (1 + 2)
    w = vector(np.array([1.0, -1.0]))
    found = objective(matrix(X), [1.0, 1.0, 0.5], w, 0.5, loss="squared", lam=0.25, rho=2.0, pen=[1.0, 2.0])
    assert found == pytest.approx((0.125 + 3.125 + 0.0) / 3 + 2.0 + 0.75, rel=1e-15)


def test_objective_of_each_loss():
    w, y = np.array([1.0, -1.0]), np.array([1.0, 1.0, -1.0])  # margins 1, -2, 0
    logistic = (math.log1p(math.exp(-1)) + math.log1p(math.exp(2)) + math.log(2)) / 3
    for loss in "logistic", "log_loss", Logistic():
        assert objective(X, y, w, loss=loss) == pytest.approx(logistic, rel=1e-15)
    for loss in "hinge", Hinge():
        assert objective(X, y, w, loss=loss) == pytest.approx((0 + 3 + 1) / 3, rel=1e-15)
    assert objective(X, y, w, loss=Squared()) == pytest.approx((0 + 4.5 + 0.5) / 3, rel=1e-15)


def test_objective_with_sample_weights():
    # rows of weight zero are left out; the others' weights multiply their loss
    found = objective(X, [1.0, 1.0, 7.0], [1.0, -1.0], loss="squared", sample_weight=[1.0, 2.0, 0.0])
    assert found == pytest.approx((0 + 2 * 4.5) / 2, rel=1e-15)


def test_objective_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="inconsistent shapes"):
        objective(X, [1.0, 1.0], [1.0, -1.0], loss="squared")
    with pytest.raises(ValueError, match="inconsistent shapes"):
        objective(X, [1.0, 1.0, 1.0], [1.0], loss="squared")
    with pytest.raises(ValueError, match="Unknown loss 'cubic'"):
        objective(X, [1.0, 1.0, 1.0], [1.0, 1.0], loss="cubic")
    with pytest.raises(ValueError, match="-1 and"):
        objective(X, [0.0, 1.0, 1.0], [1.0, 1.0], loss="logistic")


def test_objective_gap():
    assert objective_gap(1.5, 1.0) == 0.5 and objective_gap(1.0, 1.0) == 0.0
    assert objective_gap(-1.0, -2.0) == 0.5  # relative to the size of the optimum
    assert objective_gap(3.0, 2.0, relative=False) == 1.0 and objective_gap(0.5, 0.0, relative=False) == 0.5
    assert objective_gap(0.0, 0.0) == 0.0 and objective_gap(1.0, 0.0) == math.inf
    assert objective_gap(0.9, 1.0) == pytest.approx(-0.1)  # below the optimum: visible, not hidden
    assert math.isnan(objective_gap(math.nan, 1.0)) and objective_gap(math.inf, 1.0) == math.inf


def test_docstrings():
    found = [doctest.testmod(module) for module in (metrics, objectives, selection)]
    assert sum(each.attempted for each in found) >= 10 and not any(each.failed for each in found)


def test_import_is_light():
    code = "import sys, sparsco.metrics; print([m for m in ('numba', 'scipy', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
