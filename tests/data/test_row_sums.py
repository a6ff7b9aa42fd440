"""Sums over rows, against NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sparsco.data import row_sums
from sparsco.data.rows import as_matrix, take_columns


@st.composite
def rows(draw):
    """Rows with a few values on a lattice, empty ones included, and a slope for each that may be zero."""
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    numbers = st.sampled_from([0.0, 0.0, 1.0, -1.0, 0.5, 3.0])
    X = np.array(draw(st.lists(st.lists(numbers, min_size=d, max_size=d), min_size=n, max_size=n)))
    return X, np.array(draw(st.lists(st.sampled_from([0.0, 1.0, -2.0, 0.25]), min_size=n, max_size=n)))


@given(rows())
def test_gradients_by_sign(given):
    X, c = given
    matrix, g = as_matrix(sp.csr_array(X)), np.full((2, X.shape[1]), 5.0)
    row_sums.add_gradient_by_sign(*matrix[:3], c, g)
    expected = 5.0 + np.stack([np.minimum(c, 0.0) @ X, np.maximum(c, 0.0) @ X])
    np.testing.assert_allclose(g, expected, rtol=1e-13)
    full, total = np.full_like(g, 5.0), np.full(X.shape[1], 5.0)
    row_sums.add_full_gradient_by_sign(X, c, full)
    np.testing.assert_allclose(full, expected, rtol=1e-13)
    row_sums.add_full_gradient(X, c, total)
    np.testing.assert_allclose(total, 5.0 + c @ X, rtol=1e-13)


@given(st.integers(1, 5), st.integers(1, 40), st.sampled_from([np.float32, np.float64]), st.integers(0, 99))
def test_margins_of_full_rows(n, d, kind, seed):
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 0.5, 3.0], (n, d)).astype(kind)
    w = rng.choice([0.0, -2.0, 0.25, 1.0], d)
    assert np.array_equal(row_sums.full_margins(X, w, 0.5), X @ w + 0.5)  # sums of such numbers have no rounding


@given(rows())
def test_squares_and_eight_gradients(given):
    X, c = given
    matrix, out = as_matrix(sp.csr_array(X)), np.zeros(X.shape[1])
    row_sums.add_squares(*matrix[:3], np.abs(c), out)
    np.testing.assert_allclose(out, np.abs(c) @ np.square(X), rtol=1e-13)
    C, G = np.outer(c, np.arange(8.0) - 3.0), np.ones((X.shape[1], 8))
    row_sums.add_eight_gradients(*matrix[:3], C.reshape(-1), G.reshape(-1))
    np.testing.assert_allclose(G, 1.0 + X.T @ C, rtol=1e-13)


@given(rows(), st.randoms(use_true_random=False))
def test_rows_and_columns_are_copied(given, random):
    X, _ = given
    order = np.array([random.randrange(len(X)) for _ in range(random.randrange(2 * len(X) + 1))], np.int64)
    for matrix in (as_matrix(sp.csr_array(X)), as_matrix(X), as_matrix(X + 7.0)):
        whole = matrix.to_scipy().toarray()
        taken = matrix.take(order)
        assert np.array_equal(taken.to_scipy().toarray(), whole[order])
        assert not taken.is_full or np.array_equal(taken.array, whole[order])
        first = random.randrange(len(X))
        assert np.array_equal(matrix.part(first, len(X)).to_scipy().toarray(), whole[first:])
    columns = np.array(sorted(random.sample(range(X.shape[1]), random.randrange(1, X.shape[1] + 1))))
    out = np.empty((len(X), len(columns)))
    take_columns(X, columns, out)
    assert np.array_equal(out, X[:, columns])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_full_rows_are_arrays_without_a_copy(kind):
    X = np.random.default_rng(0).normal(size=(5, 3)).astype(kind)
    matrix = as_matrix(X)
    assert matrix.is_full and np.shares_memory(matrix.array, X) and np.array_equal(matrix.array, X)
    assert not matrix.of_width(4).is_full and matrix.of_width(3).is_full
    X[2, 1] = 0.0
    assert not as_matrix(X).is_full
    assert not as_matrix(sp.csr_array(np.ones((2, 2)))).is_full  # its indices may be in any order
