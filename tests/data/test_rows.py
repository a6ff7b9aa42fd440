"""Rows in any form become one form, and are taken in any order."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from sparsco import (
    SparseCrosses,
    SparseRegressor,
    SparseRegressorCV,
    StableSparseRegressor,
    stability_report,
    train,
)
from sparsco.data.inspection import sound
from sparsco.data.rows import as_matrix
from sparsco.data.slot_tables import starts_of
from sparsco.metrics import objective


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


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 5), max_size=6), min_size=1, max_size=6),
    st.sampled_from([6, 6 * 2**28]),
    st.sampled_from([np.int32, np.int64]),
    st.sampled_from([None, -1, 0]),
)
def test_entries_in_any_order_are_kept_and_repeated_ones_are_summed(rows, d, kind, wrong):
    """Few columns and many, which are looked up by a table of columns and by a hash table; wrong: an index outside."""
    indices = np.array([j * (d // 6) for row in rows for j in row], kind)
    indptr = np.cumsum([0, *map(len, rows)])
    data = 1.0 + np.arange(len(indices))
    X = sp.csr_array((data, indices.copy(), indptr), shape=(len(rows), d))
    if wrong is not None and len(indices):
        X.indices[len(indices) // 2] = -1 if wrong else np.iinfo(kind).max
        with pytest.raises(ValueError, match="outside"):
            as_matrix(X)
        return
    found = as_matrix(X)
    for i, row in enumerate(rows):
        own = slice(found.indptr[i], found.indptr[i + 1])
        sums = {}
        for j, x in zip(row, data[indptr[i] :], strict=False):
            sums[j * (d // 6)] = sums.get(j * (d // 6), 0.0) + x
        assert found.indices[own].tolist() == list(sums) and found.data[own].tolist() == list(sums.values())


@pytest.mark.parametrize("value", [-5, 10**6, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
def test_pointers_that_do_not_ascend_are_refused(form, value):
    X = sp.random(50, 20, 0.3, format=form, random_state=0)
    X.indptr[3] = value
    with pytest.raises(ValueError, match="build it again"):
        as_matrix(X)


def test_pointers_are_checked_before_a_prediction():
    X = sp.random(50, 20, 0.3, format="csr", random_state=0)
    model = SparseRegressor(alpha=0.1).fit(X, np.arange(50.0))
    X.indptr[3] = 10**6
    with pytest.raises(ValueError, match="do not ascend"):
        model.predict(X)


def broken(form):
    """Return a matrix with an index far outside, which scipy does not notice."""
    X = sp.random(50, 20, 0.3, format=form, random_state=0)
    if form == "dia":
        X.offsets = X.offsets[:2]
    elif form == "dok":
        dict.__setitem__(X._dict, (3, 10**8), 1.0)
    elif form == "lil":
        X.rows[3][0] = 10**8
    else:
        (X.row if form == "coo" else X.indices)[3] = 10**8
    return X


FORMS = ["csr", "csc", "bsr", "coo", "dia", "dok", "lil"]


@pytest.mark.parametrize("form", FORMS)
def test_matrices_that_scipy_would_not_convert_safely_are_refused_at_every_door(form):
    rng = np.random.default_rng(0)
    good, y = rng.normal(size=(50, 20)), np.arange(50.0)
    X, model = broken(form), SparseRegressor(alpha=0.1).fit(good, y)
    stable, crosses = StableSparseRegressor(n_features=3, random_state=0).fit(good, y), SparseCrosses().fit(good)
    cross_validated = SparseRegressorCV(alphas=[0.1, 0.01], cv=2)
    doors = [
        lambda: SparseRegressor().fit(X, y),
        lambda: SparseRegressor(alpha=0.1).partial_fit(X, y),
        lambda: model.predict(X),
        lambda: model.transform(X),
        lambda: stable.predict(X),
        lambda: crosses.transform(X),
        lambda: clone(cross_validated).fit(X, y),
        lambda: clone(cross_validated).fit(good, y).predict(X),
        lambda: stability_report(StableSparseRegressor(n_features=3), X, y),
        lambda: train(X, y=y),
        lambda: objective(X, y, np.zeros(20), loss="squared"),
        lambda: as_matrix(X),
    ]
    for door in doors:
        with pytest.raises(ValueError, match="build (it|the matrix) again|exceeds matrix dimension"):
            door()


@pytest.mark.parametrize("form", FORMS)
def test_pointers_and_empty_matrices_of_every_form_are_sound(form):
    for X in (sp.random(30, 20, 0.2, random_state=0), sp.coo_array((0, 3)), sp.coo_array((4, 6))):
        X = X.asformat(form)
        assert sound(X) is X
    if form in ("csr", "csc", "bsr"):
        X = sp.random(30, 20, 0.2, format=form, random_state=0)
        X.indptr = X.indptr[:2]
        with pytest.raises(ValueError, match="build it again"):
            sound(X)


def test_blocks_are_counted_in_blocks():
    X = sp.bsr_array(np.arange(24.0).reshape(4, 6), blocksize=(2, 3))
    assert sound(X) is X
    X.indices[0] = 2
    with pytest.raises(ValueError, match="outside of its 2 rows or columns"):
        sound(X)


@pytest.mark.parametrize("places", [1 << 10, 1 << 18])
def test_no_one_can_choose_columns_that_begin_at_one_place_of_a_hash_table(places):
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)  # of the constant that the hash had
    chosen = np.array([c for k in range(1 << 14) if (c := inverse * k % 2**64) < 1 << 62], np.int64)
    starts = starts_of(np.zeros(places, np.uint32), chosen)
    assert len(np.unique(starts)) > min(len(chosen), places) / 3
