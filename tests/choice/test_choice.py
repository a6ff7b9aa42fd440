"""The choice of a strength: splits, judged losses, the rule, sizes, and the softmax."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sparsco import losses
from sparsco.choice import candidates
from sparsco.choice.candidates import EMPTY, Candidate, Judged, judge
from sparsco.choice.fitting import Strength, fit, fit_nothing
from sparsco.choice.problem import Task, entries_of, task_of
from sparsco.choice.rule import choose, choose_size
from sparsco.choice.sizes import fit_sizes, judge_sizes, sizes_by_mixture, sizes_up_to
from sparsco.choice.splits import FEW_ROWS, REPEATS, splits_of
from sparsco.conversions.reservoir import SampleRows
from sparsco.penalties import ElasticNet, WeightedElasticNet
from sparsco.problem.state import Problem

LAM = 0.01


def task(n=400, d=30, loss=None, models=1, seed=0, standardize=True, penalty=None) -> Task:
    """Return a task in which the first three columns matter."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)
    p = X[:, 0] - X[:, 1] + X[:, 2]
    loss = losses.Logistic() if loss is None else loss
    targets = np.stack([p + rng.logistic(size=n) for _ in range(models)], 1)
    if loss.couples:
        targets = np.eye(models)[np.argmax(targets + 2.0 * X[:, :models], 1)]
    elif loss.classifies:
        targets = np.where(targets > 0.0, 1.0, -1.0)
    rows = sp.csr_array(X)
    sample = SampleRows(rows.indptr, rows.indices.astype(np.uint32), rows.data, targets, np.ones((n, 1)), np.arange(n))
    problem = Problem(loss, ElasticNet(0.0) if penalty is None else penalty, d, models)
    return task_of(sample, targets, np.ones_like(targets), problem, standardize)[0]


# ---- splits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 7, 60, 400, 1200, 2999, 3500])
def test_rows_are_learned_or_judged_never_both(n):
    rows = task(n)
    splits = splits_of(rows, 3)
    for learned, judged in splits:
        assert len(learned) and len(judged)
        if n > 1:
            assert not set(learned) & set(judged)
    again = splits_of(rows, 3)
    assert all(np.array_equal(a.judged, b.judged) for a, b in zip(splits, again, strict=True))


def test_few_rows_are_dealt_several_times_and_every_row_is_judged():
    judged = np.concatenate([split.judged for split in splits_of(task(FEW_ROWS - 1), 0)])
    assert np.array_equal(np.bincount(judged), np.full(FEW_ROWS - 1, REPEATS))


def test_folds_have_both_classes():
    rows = task(50)
    rows.targets[:] = -1.0
    rows.targets[::5] = 1.0
    assert all(np.count_nonzero(rows.targets[split.judged] > 0.0) == 2 for split in splits_of(rows, 0))


def test_the_numbers_of_classes_do_not_matter():
    """A stream numbers its classes as they come: the choice is the same."""
    rows = task(300, models=3)
    codes = np.random.default_rng(1).integers(0, 3, 300)
    signs = np.where(np.arange(3) == codes[:, None], 1.0, -1.0)
    a, b = (rows._replace(targets=np.ascontiguousarray(signs[:, order])) for order in ([0, 1, 2], [2, 0, 1]))
    first, second = (judge(each, splits_of(each, 0), 0, (1.0,)) for each in (a, b))
    assert np.array_equal(first.losses, second.losses)
    first, second = (judge_sizes(each, splits_of(each, 0), 0, (1.0,), [5]) for each in (a, b))
    assert np.array_equal(first[5], second[5])


# ---- judged losses ---------------------------------------------------------------------------------------------------


def test_losses_are_those_of_models_that_have_not_learned_the_rows():
    rows = task(400, loss=losses.Squared())
    judged = judge(rows, splits_of(rows, 0), 0, (1.0,), relaxes=False)
    split, candidate = splits_of(rows, 0)[0], judged.candidates[1]
    X = np.zeros((rows.n, rows.d))
    X[np.repeat(np.arange(rows.n), np.diff(rows.indptr)), rows.indices] = rows.data
    A, y = X[split.learned] / rows.units, rows.targets[split.learned, 0]
    w, unit = np.zeros(rows.d), rows.scale.unit  # the task has targets in this unit, and losses are in that of y
    lam = judged.strength(candidate)[0] / unit
    A, centre = A - A.mean(0), A.mean(0)
    step = len(y) / np.linalg.norm(A, 2) ** 2
    for _ in range(500):  # proximal gradient, far slower and plainly right
        w = w - step * (A.T @ (A @ w - (y - y.mean()))) / len(y)
        w = np.sign(w) * np.maximum(np.abs(w) - step * lam, 0.0)
    p = (X[split.judged] / rows.units - centre) @ w + y.mean()
    expected = 0.5 * unit**2 * (p - rows.targets[split.judged, 0]) ** 2
    np.testing.assert_allclose(judged.losses[1, : len(expected)].mean(), expected.mean(), rtol=0.01)


def test_the_empty_model_is_a_candidate_and_wins_on_noise():
    rows = task(300)
    rows.targets[:] = np.where(np.random.default_rng(5).random((300, 1)) < 0.5, 1.0, -1.0)
    judged = judge(rows, splits_of(rows, 0), 0, (1.0, 0.2))
    assert EMPTY in judged.candidates
    assert choose(judged, "balanced").depth <= 2


@pytest.mark.parametrize("n", [120, 400, 1200])
@pytest.mark.parametrize("kind", ["logistic", "squared"])
def test_leaving_candidates_out_keeps_the_rule(monkeypatch, n, kind):
    rows = task(n, loss=losses.Logistic() if kind == "logistic" else losses.Squared(), seed=n)
    splits = splits_of(rows, 0)
    judged = judge(rows, splits, 0, (1.0, 0.2))
    monkeypatch.setattr(candidates, "CLEAR", np.inf)
    monkeypatch.setattr(candidates, "first_splits", lambda splits, rows: splits)
    every = judge(rows, splits, 0, (1.0, 0.2))
    assert set(every.candidates) - set(judged.candidates)
    means = every.losses.mean(1)
    taken, best = every.candidates.index(choose(judged, "balanced")), int(means.argmin())
    rise = every.losses[taken] - every.losses[best]
    assert rise.mean() <= 0.5 * rise.std() / np.sqrt(len(rise))  # as the rule asks
    for candidate in set(every.candidates) & set(judged.candidates):
        own, exhaustive = (each.losses[each.candidates.index(candidate)].mean() for each in (judged, every))
        assert own == pytest.approx(exhaustive, rel=0.02)


def test_more_folds_are_judged_while_the_loss_is_not_known_well():
    rows = task(2500)
    splits = splits_of(rows, 0, folds=5)
    assert judge(rows, splits, 0, (1.0,)).judged_rows == 2500
    assert judge(rows, splits, 0, (1.0,), enough=900).judged_rows == 1000
    margins = np.abs(rows.targets[:, 0]) + 0.0
    rare = np.random.default_rng(0).random(2500) < 0.004  # a loss of few rows, which is hard to know
    rows.targets[:, 0] = np.where(rare, -1.0, 1.0) * margins
    assert judge(rows, splits, 0, (1.0,), enough=900).judged_rows == 2500


def test_a_rise_of_the_loss_is_clear_or_not():
    noise = np.random.default_rng(0).standard_normal(400)
    noise = (noise - noise.mean()) / noise.std()
    assert candidates.is_clear(noise + 0.08) and not candidates.is_clear(noise + 0.07)


def test_weights_of_features_multiply_their_units():
    pen = np.linspace(0.5, 2.0, 30)
    assert np.array_equal(task(penalty=WeightedElasticNet(0.0, 0.0, pen)).units, task().units * pen)
    assert np.array_equal(task(standardize=False).units, np.ones(30))


def test_entries_of_rows():
    indptr = np.array([0, 2, 2, 5, 6])
    assert entries_of(indptr, np.array([2, 0, 1])).tolist() == [2, 3, 4, 0, 1]
    assert entries_of(indptr, np.array([], np.int64)).tolist() == []


# ---- the rule --------------------------------------------------------------------------------------------------------


def judged_of(means, features, spread=0.1, rows=400):
    """Return judged candidates with these mean losses; the losses of two candidates differ by noise of a spread."""
    noise = np.random.default_rng(0).standard_normal((len(means), rows)) * spread
    losses_ = np.array(means)[:, None] + noise - noise.mean(1, keepdims=True)
    candidates = [EMPTY, *(Candidate(1.0, depth, False) for depth in range(1, len(means)))]
    return Judged(candidates, losses_, np.array(features, float), 1.0, rows, False, rows)


def test_rules_trade_features_for_loss():
    judged = judged_of([1.0, 0.51, 0.503, 0.5, 0.55], [0, 3, 10, 50, 90], spread=0.2)
    depth = {rule: choose(judged, rule).depth for rule in ("min", "balanced", "1-se")}
    assert depth == {"min": 3, "balanced": 2, "1-se": 1}


def test_the_empty_model_of_few_rows_needs_the_least_loss():
    means, features = [0.5001, 0.5, 0.6], [0, 3, 10]
    assert choose(judged_of(means, features, rows=100), "1-se") == Candidate(1.0, 1, False)
    assert choose(judged_of(means, features, rows=400), "1-se") == EMPTY
    assert choose(judged_of([0.4, 0.5, 0.6], [0, 3, 10]), "balanced") == EMPTY


def test_no_rule_takes_more_loss_than_that_of_the_empty_model():
    judged = judged_of([0.5001, 0.505, 0.5, 0.6], [0, 1, 3, 10], rows=100)
    assert [choose(judged, rule) for rule in ("1-se", "balanced", "min")] == [Candidate(1.0, 2, False)] * 3


def test_the_size_of_least_loss_within_the_budget():
    sizes, judged = {1: 0.8, 5: 0.5, 10: 0.6, 20: 0.3}, judged_of([0.7, 0.5], [0, 3])
    assert [choose_size(judged, sizes, most) for most in (3, 7, 15, 100)] == [0, 5, 5, 20]


# ---- fits ------------------------------------------------------------------------------------------------------------


def test_sizes_are_exact_and_grow():
    found = dict(fit_sizes(task(), [1, 2, 3, 10, 25], (1.0, 0.2)))
    assert {size: int(np.count_nonzero(each.w.any(1))) for size, each in found.items()} == {k: k for k in found}
    assert all(len(each.columns) == len(each.w) for each in found.values())
    assert list(found) == [1, 2, 3, 10, 25]
    assert found[3].columns.tolist() == [0, 1, 2]


def test_features_count_once_for_several_models():
    found = dict(fit_sizes(task(models=3), [4], (1.0, 0.2)))
    assert found[4].w.shape == (len(found[4].columns), 3) and len(found[4].columns) <= 4


def test_sizes_of_a_budget():
    assert sizes_up_to(6) == [1, 2, 3, 4, 5, 6]
    assert sizes_up_to(50)[-2:] == [40, 50]
    assert sizes_by_mixture([1, 10, 50], (1.0, 0.2), 200) == [[1, 10], [50]]
    assert sizes_by_mixture([1, 10, 50], (0.5,), 200) == [[1, 10, 50]]


def test_the_empty_fit_has_the_best_intercept():
    found = fit_nothing(task(loss=losses.Squared()))
    assert not found.columns.size and found.w.shape == (0, 1)
    assert found.b[0] == pytest.approx(task(loss=losses.Squared()).scale.centre[0], abs=1e-12)


def test_a_softmax_is_optimal():
    rows = task(600, loss=losses.Multinomial(), models=3)
    found = fit(rows, Strength(LAM, 1.0, False))
    X = np.zeros((rows.n, rows.d))
    X[np.repeat(np.arange(rows.n), np.diff(rows.indptr)), rows.indices] = rows.data
    w = np.zeros((rows.d, 3))
    w[found.columns] = found.w
    p = X @ w + found.b
    e = np.exp(p - p.max(1, keepdims=True))
    c = (e / e.sum(1, keepdims=True) - (rows.targets > 0.0)) / rows.n
    g, pen = X.T @ c, LAM * rows.units[:, None]
    slack = np.where(w != 0.0, np.abs(g + pen * np.sign(w)), np.maximum(np.abs(g) - pen, 0.0))
    assert slack.max() < 0.1 * LAM
    assert np.abs(c.sum(0)).max() < 0.01
