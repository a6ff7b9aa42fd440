"""Paths on halves of the rows: fair coins, solutions of each half, and probes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Lasso

from sparsco.choice.problem import Task
from sparsco.error_control.half_paths import LANES, Halves, first_halves, nearest_columns, stability_paths, way_down
from sparsco.error_control.half_solver import differentiate, solve
from sparsco.error_control.judged import (
    LEAST_ROWS,
    delta_of,
    judged_columns,
    narrowed,
    only,
    strongly_correlated,
    with_probes,
)
from sparsco.error_control.scores import Target
from sparsco.losses import Logistic, Squared, derivative
from sparsco.solver.elastic_net import Accuracy, ElasticNetSolver
from sparsco.util.threads import Pool, Threads

TARGET = Target(0.1, None)
EXACT = Accuracy(1e-12, 200, 20, 1e-3)


def task_with(X, y, loss=None) -> Task:
    """Return a task of rows X and targets y, (n, models), in units of the spreads of the columns."""
    rows, y = sp.csr_array(X), np.asarray(y, float).reshape(len(y), -1)
    loss = Squared() if loss is None else loss
    csr = rows.indptr.astype(np.int64), rows.indices.astype(np.uint32), rows.data.astype(float)
    return Task(*csr, y, np.ones_like(y), np.arange(len(y)), np.ones(X.shape[1]), loss, loss, True)


def generated(n=300, d=40, models=1, density=1.0, seed=0, loss=None):
    """Return a task in which the first three columns matter."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    p = X[:, :3] @ np.array([1.0, -1.0, 1.0])
    y = np.stack([p + rng.logistic(size=n) for _ in range(models)], 1)
    return task_with(X, y if loss is None else np.where(y > 0.0, 1.0, -1.0), loss)


def judged_of(task):
    return narrowed(task, judged_columns(task, 0))


# ---- halves ----------------------------------------------------------------------------------------------------------


def test_coins_are_fair_independent_and_a_function_of_the_row():
    coins = first_halves(3, np.arange(20_000), range(130))
    assert np.abs(coins.mean(0) - 0.5).max() < 0.02
    correlations = np.corrcoef(coins.T.astype(float)) - np.eye(130)
    assert np.abs(correlations).max() < 0.04
    some = np.array([17, 5, 19_999])
    assert np.array_equal(first_halves(3, some, range(60, 70)), coins[some, 60:70])
    assert not np.array_equal(first_halves(4, np.arange(100), range(5)), coins[:100, :5])


# ---- solutions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("density", [1.0, 0.1])
@pytest.mark.parametrize("loss", [None, Logistic()], ids=["squared", "logistic"])
def test_halves_are_solved_as_if_alone(density, loss):
    task = judged_of(generated(density=density, loss=loss))
    halves = Halves.of(task, 0, 3, 1.0, TARGET)
    assert (halves.design.dense is not None) == (density == 1.0)
    every = [each for half in halves.solvers(range(3)) for each in half]
    for lam in (0.2, 0.1, 0.03):
        solve(halves.design, every, lam, EXACT)
    for solver in every:
        X, columns = task.by_column(solver.half)
        alone = ElasticNetSolver(X, task.examples(solver.half, 0), task.units[columns])
        w, b = alone.solve(0.03, 1.0, EXACT)
        own = np.zeros(task.d)
        own[solver.columns] = solver.w
        assert np.allclose(own[columns], w, atol=1e-6) and abs(solver.b - b) < 1e-6
        c = derivative(alone.examples.loss, alone.p, alone.examples.y) / len(solver.half)
        dense = np.zeros((task.n, task.d))
        dense[np.repeat(np.arange(task.n), np.diff(task.indptr)), task.indices] = task.data
        assert np.allclose(solver.slopes, c @ dense[solver.half], atol=1e-5)


def test_a_half_is_the_lasso_of_scikit_learn():
    task = judged_of(generated())
    halves = Halves.of(task, 0, 1, 1.0, TARGET)
    (half,), _ = halves.solvers(range(1))
    solve(halves.design, [half], 0.1, EXACT)
    dense = task.by_column(half.half)[0].dense()
    other = Lasso(alpha=0.1, tol=1e-12, max_iter=100_000).fit(dense / task.units, task.targets[half.half, 0])
    own = np.zeros(task.d)
    own[half.columns] = half.w
    assert np.allclose(own * task.units, other.coef_, atol=1e-6)


def test_counts_are_those_of_single_halves():
    task = judged_of(generated(models=2))
    pairs = LANES // 4 + 2  # more than one group of lanes
    halves = Halves.of(task, 7, pairs, 1.0, TARGET)
    paths = stability_paths(halves, 8, Pool())
    assert np.array_equal(paths.strengths, way_down(halves).strengths(8)) and paths.strengths[0] > paths.strengths[-1]
    expected = np.zeros((8, task.d), int)
    for pair in range(pairs):
        for half in halves.solvers(range(pair, pair + 1)):
            for k, lam in enumerate(paths.strengths):
                solve(halves.design, half, lam, Accuracy(1e-2, 4, 2))
                expected[k] += np.isin(np.arange(task.d), np.concatenate([each.selected for each in half]))
    assert np.abs(paths.counts.toarray() - expected).max() <= 1  # sums of gradients in another order
    assert np.allclose(paths.sizes, paths.counts.toarray().sum(1) / (2 * pairs))
    assert (paths.counts.toarray()[-1, :3] == 2 * pairs).all()


def test_threads_change_no_bit():
    task = judged_of(generated(density=0.2, loss=Logistic()))
    halves = Halves.of(task, 0, 30, 1.0, TARGET)
    one, two = (stability_paths(halves, 10, pool) for pool in (Pool(), Threads(2)))
    assert (one.counts != two.counts).nnz == 0 and np.array_equal(one.sizes, two.sizes)


def test_columns_to_follow_are_nearest_to_being_selected():
    task = judged_of(generated(n=500, d=60))
    halves = Halves.of(task, 0, 4, 1.0, TARGET)
    way = way_down(halves)
    columns = nearest_columns(way, halves, 10)
    assert len(columns) == 10 and {0, 1, 2} <= set(columns.tolist()) and (np.diff(columns) > 0).all()
    assert np.array_equal(nearest_columns(way, halves, 1000), np.arange(60))
    assert np.isclose(way.strengths(5)[-1] / way.strengths(12, 8.0)[-1], 8.0)


def test_rows_without_information_end_at_once():
    task = judged_of(task_with(np.random.default_rng(0).standard_normal((50, 4)), np.ones(50)))
    paths = stability_paths(Halves.of(task, 0, 3, 1.0, TARGET), 10, Pool())
    assert paths.counts.nnz == 0 and (paths.expected_false_positives() == 4.0).all()


# ---- columns ---------------------------------------------------------------------------------------------------------


def test_columns_that_cannot_be_judged_are_named():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 9))
    X[:, 1], X[:, 2] = 0.0, 5.0
    X[:, 3] = np.arange(200) < LEAST_ROWS - 1
    X[:, 4] = np.arange(200) < LEAST_ROWS
    X[:, 5], X[:, 6], X[:, 8] = 3.0 - 2.0 * X[:, 0], 1e6 * X[:, 0], -X[:, 7]
    judged = judged_columns(task_with(X, rng.standard_normal(200)), 0)
    assert judged.columns.tolist() == [0, 4, 7]
    assert judged.constant.tolist() == [1, 2] and judged.rare.tolist() == [3]
    assert {one: others.tolist() for one, others in judged.same.items()} == {0: [5, 6], 7: [8]}
    assert np.allclose(judged.spreads, X.std(0)[[0, 4, 7]])
    placed = judged.placed(np.arange(10, 19), 21)
    assert placed.constant.tolist() == [*range(10), 11, 12, 19, 20] and placed.rare.tolist() == [13]


def test_similar_columns_are_not_the_same():
    rng = np.random.default_rng(1)
    X = (rng.random((400, 300)) < 0.05).astype(float)
    X[:, 1] = X[:, 0]
    X[0, 1] = 1.0 - X[0, 1]  # but for one row
    judged = judged_columns(task_with(X, rng.standard_normal(400)), 0)
    assert judged.same == {}


def test_a_task_keeps_the_entries_of_its_columns():
    X = np.random.default_rng(2).standard_normal((30, 8)) * (np.random.default_rng(3).random((30, 8)) < 0.4)
    some = only(task_with(X, np.zeros(30)), np.array([1, 4, 7]))
    assert np.array_equal(sp.csr_array((some.data, some.indices, some.indptr), (30, 3)).toarray(), X[:, [1, 4, 7]])


def test_probes_are_the_columns_in_another_order():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5)) * (rng.random((60, 5)) < 0.6)
    both = with_probes(task_with(X, np.zeros(60)), 4)
    dense = sp.csr_array((both.data, both.indices, both.indptr), (60, 10)).toarray()
    assert np.array_equal(dense[:, :5], X)
    order = np.array([np.flatnonzero((X == row).all(1))[0] for row in dense[:, 5:]])
    nonzero = X.any(1)
    assert sorted(order[nonzero[order]]) == np.flatnonzero(nonzero).tolist()  # whole rows, each once
    assert not np.array_equal(dense[:, 5:], X)


def test_correlation_decides_on_the_measure():
    rng = np.random.default_rng(0)
    X, common = rng.standard_normal((2000, 50)), rng.standard_normal((2000, 1))
    y = rng.standard_normal(2000)
    assert delta_of(task_with(X, y), 0) == 1.0
    assert delta_of(task_with(X + common, y), 0) == 0.0
    assert 0.0 < delta_of(task_with(X + 0.5 * common, y), 0) < 1.0
    assert delta_of(task_with(X[:, :1], y), 0) == 1.0


def test_strong_correlations_are_found():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 30)) * (rng.random((500, 30)) < 0.3) + 2.0
    X[:, 9] = -X[:, 4] + 0.3 * rng.standard_normal(500)
    found = strongly_correlated(task_with(X, np.zeros(500)), np.array([2, 4]))
    assert [(each.column, each.other) for each in found] == [(4, 9)]
    assert np.isclose(found[0].correlation, abs(np.corrcoef(X[:, 4], X[:, 9])[0, 1]))


def test_gradients_of_many_halves_come_from_one_pass():
    task = judged_of(generated(density=0.1))
    halves = Halves.of(task, 0, 2, 1.0, TARGET)
    every = [each for half in halves.solvers(range(2)) for each in half]
    before = [each.slopes.copy() for each in every]
    for each in every:
        each.slopes = np.zeros(task.d)
    differentiate(halves.design, every[::-1])
    assert all(np.array_equal(a, each.slopes) for a, each in zip(before, every, strict=True))
