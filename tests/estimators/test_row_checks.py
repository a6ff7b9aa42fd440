"""Rows and targets that skip scikit-learn's checks are those that these return as they are."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.validation import check_X_y

from sparsco import SparseClassifier, SparseRegressor
from sparsco.estimators.row_checks import is_plain
from support import number_of_streams

VALUES = st.sampled_from([0.0, 1.0, -2.5, np.nan, np.inf])
MAKERS = (
    np.asarray,
    np.asfortranarray,
    sp.csr_array,
    sp.csr_matrix,
    sp.csc_array,
    sp.coo_array,
    lambda X: X.tolist(),
    lambda X: X.astype(">f8"),
    lambda X: np.ma.masked_array(X),
    lambda X: X[0],
)


@st.composite
def inputs(draw):
    """Draw rows and targets, right and wrong."""
    n, d = draw(st.integers(0, 4)), draw(st.integers(0, 3))
    X = np.array(draw(st.lists(VALUES, min_size=n * d, max_size=n * d))).reshape(n, d)
    X = X.astype(draw(st.sampled_from([np.float64, np.float32, np.float16])))
    make = draw(st.sampled_from(MAKERS))
    if X.dtype == np.float16 or not X.size:  # SciPy has no matrices of those
        make = np.asarray
    y = np.array(draw(st.lists(VALUES, min_size=0, max_size=4)))
    with np.errstate(invalid="ignore"):
        y = y.astype(draw(st.sampled_from([np.float64, np.int64, bool, object, "U4", complex])))
    shape = draw(st.sampled_from([(-1,), (-1, 1), (1, -1)]))
    return make(X), y.reshape(shape) if y.size else y


@given(inputs())
@settings(max_examples=number_of_streams(400))
def test_plain_rows_are_returned_by_the_checks_as_they_are(given_rows):
    X, y = given_rows
    if is_plain(X, y):
        options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "ensure_all_finite": False}
        checked, targets = check_X_y(X, y, accept_large_sparse=True, **options)
        assert checked is X or (sp.issparse(X) and checked.format == X.format and checked.dtype == X.dtype)
        same = [each.toarray() if sp.issparse(each) else each for each in (checked, X)]
        assert np.array_equal(*same, equal_nan=True) and np.array_equal(targets, y) and targets.dtype == y.dtype


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csr_matrix])
def test_arrays_of_floats_are_plain(make, kind):
    X = make(np.eye(3, dtype=kind))
    assert all(is_plain(X, np.arange(3).astype(kind)) for kind in (float, int, bool, np.uint8))
    assert not is_plain(X, np.arange(4)) and not is_plain(X, np.array([0.0, 1.0, np.nan]))


@pytest.mark.parametrize("estimator", [SparseClassifier, SparseRegressor])
def test_names_of_an_earlier_fit_are_forgotten(estimator):
    pandas = pytest.importorskip("pandas")
    X, y = np.random.default_rng(0).standard_normal((40, 2)), np.arange(40) % 2
    named = estimator(alpha=0.01, random_state=0).fit(pandas.DataFrame(X, columns=["a", "b"]), y)
    assert named.feature_names_in_.tolist() == ["a", "b"]
    assert not hasattr(named.fit(X, y), "feature_names_in_") and named.n_features_in_ == 2
    again = estimator(alpha=0.01, random_state=0).fit(X.tolist(), y.tolist())
    assert np.array_equal(again.coef_, named.coef_) and np.array_equal(again.intercept_, named.intercept_)
