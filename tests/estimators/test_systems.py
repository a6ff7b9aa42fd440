"""Sparse Kaczmarz as a solver: matrices, arrays, iterators of rows, stopping, bad input."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import sparsco
from sparsco import kaczmarz


def system(n=300, d=60, noise=0.0, seed=0, density=0.3):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    truth = np.zeros(d)
    truth[:5] = 1.0, -2.0, 1.5, -1.0, 2.0
    return A, A @ truth + noise * rng.standard_normal(n), truth


def dense_recursion(A, y, lam, eta, order, w=None):
    """v <- v - eta (<w, a> - y) a, w = S(v, lam): as it is written."""
    v = np.zeros(A.shape[1]) if w is None else w + lam * np.sign(w)
    for i in order:
        w = np.sign(v) * np.maximum(np.abs(v) - lam, 0.0)
        v = v - eta * (A[i] @ w - y[i]) * A[i]
    return np.sign(v) * np.maximum(np.abs(v) - lam, 0.0)


def test_it_is_the_recursion_on_rows_drawn_with_replacement():
    A, y, _ = system()
    found = kaczmarz(A, y, 1.0, conversion="last", iterations=2000, random_state=3)
    eta = 0.5 / np.square(A).sum(1).max()
    assert found.report["step"] == pytest.approx(eta, rel=1e-12)
    order = np.random.default_rng(3)
    drawn = order.integers(300, size=2000)
    np.testing.assert_allclose(found.w, dense_recursion(A, y, 1.0, eta, drawn), atol=1e-12)
    assert found.iterations == 2000
    assert found.residual == pytest.approx(np.linalg.norm(A @ found.w - y) / np.linalg.norm(y))


@pytest.mark.parametrize("conversion", ["last", "average", "suffix", "ocmdi", "scmdi"])
def test_a_consistent_system_is_solved_sparsely(conversion):
    A, y, truth = system()
    found = kaczmarz(A, y, 1.0, conversion=conversion, iterations=200_000, random_state=0)
    assert np.linalg.norm(found.w - truth) < 0.05 * np.linalg.norm(truth)
    if conversion in ("last", "ocmdi", "scmdi"):
        assert np.array_equal(np.flatnonzero(found.w), np.arange(5))


def test_steps_of_each_row_stop_at_the_tolerance():
    A, y, truth = system(n=100, d=200)  # fewer rows than columns: the sparse solution among many
    found = kaczmarz(A, y, 5.0, step="row", conversion="last", iterations=2_000_000, tol=1e-8)
    assert found.converged and found.residual <= 1e-8 and found.iterations < 2_000_000
    assert found.iterations % 100 == 0
    np.testing.assert_allclose(found.w, truth, atol=1e-5)


def test_sparse_and_dense_matrices_give_the_same():
    A, y, _ = system(noise=0.1)
    results = [kaczmarz(kind(A), y, 0.5, iterations=3000).w for kind in (np.asarray, sp.csr_array, sp.csc_matrix)]
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])


def test_lists_and_tables_are_matrices():
    pd = pytest.importorskip("pandas")
    A, y, _ = system(noise=0.1)
    expected = kaczmarz(A, y, 0.5, iterations=3000).w
    for rows in (A.tolist(), pd.DataFrame(A)):
        assert np.array_equal(kaczmarz(rows, y.tolist(), 0.5, iterations=3000).w, expected)
    assert not np.signbit(expected[expected == 0.0]).any()


def test_steps_that_are_too_large_say_so():
    A, y, _ = system()
    with pytest.raises(sparsco.DivergenceError, match="choose a smaller step, now 50"):
        kaczmarz(A, y, 0.1, step=50.0, iterations=20_000, conversion="last")


def test_rows_from_an_iterator():
    A, y, _ = system(noise=0.1)
    eta = 0.5 / np.square(A).sum(1).max()
    expected = dense_recursion(A, y, 0.5, eta, range(300))
    pairs = [(np.flatnonzero(row), row[row != 0.0]) for row in A]
    for rows, columns in ((iter(A), None), (iter(pairs), 60), ((sp.csr_array(row[None]) for row in A), None)):
        found = kaczmarz(rows, iter(y), 0.5, conversion="last", n_features=columns)
        np.testing.assert_allclose(found.w, expected, atol=1e-12)
        assert found.iterations == 300
    assert kaczmarz(iter(A), iter(y), 0.5, iterations=120).iterations == 120


def test_a_starting_point():
    A, y, _ = system()
    start = np.linspace(0.0, 1.0, 60)
    found = kaczmarz(A, y, 1.0, conversion="last", iterations=50, start=start)
    drawn = np.random.default_rng(0).integers(300, size=50)
    np.testing.assert_allclose(found.w, dense_recursion(A, y, 1.0, found.report["step"], drawn, start), atol=1e-12)


def test_progress_is_told(capsys):
    A, y, _ = system()
    seen = []
    kaczmarz(A, y, 1.0, iterations=900, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(900, 900)]
    kaczmarz(A, y, 1.0, iterations=900, tol=0.0, progress=lambda done, total: seen.append((done, total)))
    assert seen[1:] == [(300, 900), (600, 900), (900, 900)]
    assert capsys.readouterr().err == ""


def test_the_name_is_a_function_whatever_was_imported():
    import sparsco.estimators.kaczmarz

    assert callable(sparsco.kaczmarz) and sparsco.kaczmarz is sparsco.estimators.kaczmarz.kaczmarz


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"lam": -1.0}, "lam=-1.0"),
        ({"step": 0.0}, "step=0.0"),
        ({"step": "rows"}, "step='rows'"),
        ({"iterations": 0}, "iterations=0"),
        ({"tol": -1.0}, "tol=-1.0"),
        ({"conversion": "ocmd"}, "did you mean 'ocmdi'"),
        ({"y": np.ones(3)}, "one number for each row"),
        ({"y": np.full(300, np.nan)}, "y"),
        ({"A": np.zeros((300, 60))}, "all rows of A"),
        ({"A": np.zeros((0, 60)), "y": np.zeros(0)}, "no rows"),
        ({"A": iter([]), "y": iter([])}, "no rows"),
        ({"start": np.ones(3)}, "start has the shape"),
        ({"A": iter([([0], [1.0])]), "y": [1.0]}, "n_features"),
        ({"A": iter([([70], [1.0])]), "y": [1.0], "n_features": 60}, "the column 70"),
        ({"A": iter([np.ones(3)]), "y": [1.0], "n_features": 60}, "3 columns"),
        ({"A": iter(np.ones((5, 3))), "y": [1.0, 2.0]}, "y ended before A"),
        ({"A": iter(np.ones((2, 3))), "y": [1.0, 2.0, 3.0]}, "A ended before y"),
        ({"A": None}, "A is NoneType"),
    ],
)
def test_bad_input_is_answered_with_one_sentence(change, sentence):
    A, y, _ = system()
    arguments = {"A": A, "y": y, "lam": 1.0} | change
    with pytest.raises(ValueError, match=sentence) as refused:
        kaczmarz(arguments.pop("A"), arguments.pop("y"), arguments.pop("lam"), **arguments)
    assert "\n" not in str(refused.value)
