"""Rows in any form become one form, and are taken in any order."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsco.data.rows import as_matrix


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, bool])
@pytest.mark.parametrize("zeros", [0.0, 0.4, 1.0])
def test_dense_rows_become_csr(kind, zeros):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((7, 5)) < zeros, 0, 1 + rng.integers(0, 9, (7, 5))).astype(kind)
    frozen = X.copy()
    frozen.flags.writeable = False
    for form in (X, np.asfortranarray(X), X[::-1][::-1], frozen, X[:0], X[:, :0]):
        rows = as_matrix(form)
        assert rows.data.dtype == (np.float32 if kind is np.float32 else np.float64) and rows.data.all()
        assert [part.dtype for part in rows[:2]] == [np.int64, np.uint32] and rows.data.flags.writeable
        assert np.array_equal(rows.to_scipy().toarray(), form)


@settings(deadline=None)
@given(st.integers(0, 6), st.lists(st.integers(0, 6), max_size=9), st.booleans())
def test_rows_are_taken_in_any_order(first, order, in_a_row):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((7, 5)) < 0.5, 0.0, rng.normal(size=(7, 5)))
    order = np.arange(first, min(first + len(order), 7)) if in_a_row else np.array(order, np.int64)
    rows = as_matrix(sp.csr_array(X))
    taken = rows.take(order)
    assert np.array_equal(taken.to_scipy().toarray(), X[order]) and taken.indptr[0] == 0 and taken.d == 5
    assert not any(np.shares_memory(own, part) for own, part in zip(taken[:3], rows[:3], strict=True))
