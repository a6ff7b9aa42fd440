"""Crosses of rows: the kernels against a plain twin, any cut, names, rules, and scikit-learn's products."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.preprocessing import PolynomialFeatures

from sparsco import SparseCrosses
from sparsco.data.cross_rules import Cross, cross_of
from sparsco.data.crosses import CHILD, Crossed, Naming, pairs_of
from sparsco.data.rows import Matrix, stack

NAMES = ["a=1", "a=2", "b", "b?", "c^x", "c^y", "d:month=3", "free", "x*y"]
RULES = ["a:b", "b:a", "c:c", "all", "d:a", ("a=1", ["b", "c"]), ("*", "free"), "free:free"]
naming = Naming(lambda columns: [NAMES[column] for column in columns.tolist()], True)


def stands_for(word, name):
    """Return whether a word of a rule stands for a feature: the rule of docs/crosses.md, spelled out."""
    return any(
        part in ("*", name) or (name.startswith(part) and name[len(part) :][:1] in tuple("=^:?")) for part in word
    )


def twin(rows, cross, chosen=None):
    """Return each row as a dict of names or frozensets of two names to values."""
    found = []
    for row in rows:
        every = dict(row)
        for (one, x), (other, y) in itertools.combinations(row.items(), 2):
            for left, right in cross.pairs:
                there = stands_for(left, one) and stands_for(right, other)
                back = stands_for(left, other) and stands_for(right, one)
                both = chosen is None or any(one in some and other in some for some in chosen)
                if (there or back) and both and x * y != 0.0:
                    every[frozenset((one, other))] = x * y
        found.append(every)
    return found


def matrix_of(rows):
    """Return dicts by name as rows; columns are places in NAMES."""
    columns = [NAMES.index(name) for row in rows for name in row]
    data = [value for row in rows for value in row.values()]
    ends = np.append(0, np.cumsum([len(row) for row in rows]))
    return Matrix(ends.astype(np.int64), np.array(columns, np.uint32), np.array(data, float), len(NAMES))


def dicts_of(features, placed):
    """Return placed rows as dicts again."""
    numbers, found = features.to_columns(placed.indices), []
    left, right = pairs_of(numbers)
    for start, stop in itertools.pairwise(placed.indptr.tolist()):
        row = {}
        for k in range(start, stop):
            is_cross = numbers[k] >= CHILD
            key = frozenset((NAMES[left[k]], NAMES[right[k]])) if is_cross else NAMES[numbers[k]]
            assert key not in row
            row[key] = placed.data[k]
        found.append(row)
    return found


values = st.sampled_from([1.0, -1.0, 0.5, 2.0, 3.0, 1e-200])
rows_of_names = st.lists(st.dictionaries(st.sampled_from(NAMES), values, max_size=9), min_size=1, max_size=8)
some_rules = st.lists(st.sampled_from(RULES), min_size=1, max_size=4, unique_by=str)


@settings(deadline=None)
@given(rows_of_names, some_rules, st.data())
def test_kernels_make_what_the_plain_twin_makes(rows, rules, data):
    cross = cross_of(rules)
    features = Crossed(cross)
    features.naming = naming
    matrix = matrix_of(rows)
    placed = features.place(matrix)
    assert dicts_of(features, placed) == twin(rows, cross)
    # any cut gives the same slots
    cut = data.draw(st.integers(0, len(rows)))
    again = Crossed(cross)
    again.naming = naming
    parts = stack([again.place(matrix.part(0, cut)), again.place(matrix.part(cut, len(rows)))])
    for one, other in zip(placed[:3], parts[:3], strict=True):
        np.testing.assert_array_equal(one, other)
    # find returns what has a slot: here everything, and of some features only their own
    assert dicts_of(features, features.find(matrix)) == dicts_of(features, placed)
    kept = np.array(sorted(data.draw(st.sets(st.integers(0, max(len(features) - 1, 0)), max_size=4))), np.int64)
    if len(features) and kept.size:
        few = features.only(kept)
        assert set(few.names) == {features.names[slot] for slot in kept.tolist()}
        own = set(features.to_columns(kept).tolist())
        wanted = [
            {key: value for key, value in row.items() if number_of(key) in own} for row in dicts_of(features, placed)
        ]
        assert dicts_of(few, few.find(matrix)) == wanted


def number_of(key):
    """Return the number of a feature that is given by its name, or by the names of its parents."""
    if isinstance(key, str):
        return NAMES.index(key)
    left, right = sorted(NAMES.index(name) for name in key)
    return (left + 1 << 31) | right


@settings(deadline=None)
@given(rows_of_names, st.lists(st.sets(st.sampled_from(NAMES)), max_size=3))
def test_born_crosses_have_two_parents_of_one_boundary(rows, boundaries):
    cross = cross_of("all", birth=True)
    features = Crossed(cross)
    features.naming = naming
    matrix = matrix_of(rows)
    before = features.place(matrix)
    assert dicts_of(features, before) == [dict(row) for row in rows]
    seen = {name for row in rows for name in row}
    chosen = [some & seen for some in boundaries]
    for some in chosen:
        features.bear(np.array(sorted(NAMES.index(name) for name in some), np.int64))
    assert dicts_of(features, features.placed_again(before)) == twin(rows, cross, chosen)


def test_boundaries_are_powers_of_two_wherever_rows_are_cut():
    for sizes in ([5000], [1, 1022, 1, 1, 3000, 975], [7] * 714 + [2]):
        features, reached = Crossed(cross_of("all", birth=2)), []
        for size in sizes:
            matrix = Matrix(np.zeros(size + 1, np.int64), np.zeros(0, np.uint32), np.zeros(0), 1)
            for part in features.parts(matrix, np.arange(size)):
                if features.count(len(part)):
                    reached.append(features.rows)
        assert reached == [1024, 2048, 4096]


def test_names_follow_the_rule_and_else_the_alphabet():
    features = Crossed(cross_of(["c:a", "all"]))
    features.naming = naming
    features.place(matrix_of([{"a=1": 1.0, "c^x": 1.0, "free": 1.0, "b": 1.0}]))
    assert features.names[4:] == ["c^x*a=1", "a=1*free", "a=1*b", "c^x*free", "b*c^x", "b*free"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csc_matrix])
def test_all_crosses_are_those_of_polynomial_features(make, dtype):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(60, 7)) * rng.integers(0, 2, (60, 7))).astype(dtype)
    other = PolynomialFeatures(2, interaction_only=True, include_bias=False)
    found = SparseCrosses().fit_transform(make(X))
    assert found.dtype == dtype and sp.issparse(found) and found.has_canonical_format
    np.testing.assert_array_equal(found.toarray(), other.fit_transform(X))
    # the same numbers where the rows meet a model
    features = Crossed(cross_of("all"))
    csr = sp.csr_array(X.astype(float))
    placed = features.place(Matrix(csr.indptr.astype(np.int64), csr.indices.astype(np.uint32), csr.data, 7))
    names = [name.replace(" ", "*") for name in other.get_feature_names_out()]
    order = [features.names.index(name) for name in names]
    wide = other.fit_transform(X.astype(float))
    np.testing.assert_array_equal(placed.to_scipy().toarray()[:, order], wide)


def test_pairs_of_columns_in_the_transformer():
    import pandas as pd

    frame = pd.DataFrame(np.arange(1.0, 9.0).reshape(2, 4), columns=["a", "b", "c", "d"])
    crosses = SparseCrosses(cross=["d:a", ("b", ["c", "d", "b"])]).fit(frame)
    assert crosses.get_feature_names_out().tolist() == ["a", "b", "c", "d", "d*a", "b*c", "b*d"]
    found = crosses.transform(frame).toarray()
    np.testing.assert_array_equal(found[:, 4:], [[4.0, 6.0, 8.0], [40.0, 42.0, 48.0]])
    by_number = clone(crosses).set_params(cross=["3:0", (range(1, 2), [2, 3])]).fit(frame.to_numpy())
    np.testing.assert_array_equal(by_number.transform(frame.to_numpy()).toarray(), found)
    assert by_number.get_feature_names_out().tolist() == ["x0", "x1", "x2", "x3", "x3*x0", "x1*x2", "x1*x3"]
    ranges = SparseCrosses(cross=["x0-1:2,3"]).fit(frame.to_numpy())
    assert ranges.transform(frame.to_numpy()).shape == (2, 8)


def test_very_many_columns_need_no_list_of_pairs():
    X = sp.csr_array((np.ones(3), ([0, 0, 0], [5, 70_000, 99_999])), shape=(1, 100_000))
    found = SparseCrosses().fit_transform(X)
    d = 100_000
    assert found.shape == (1, d + d * (d - 1) // 2) and found.nnz == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cross": "a"}, "two names with one colon"),
        ({"cross": ["a:b:c"]}, "two names with one colon"),
        ({"cross": ["a:"]}, "a name is missing"),
        ({"cross": [("a", [])]}, "a name is missing"),
        ({"cross": [f"a{k}:b{k}" for k in range(40)]}, "80 different words"),
        ({"cross": "all", "birth": 1}, "birth must be True"),
        ({"cross": "all", "bits": 40}, "cross_bits must be"),
        ({"cross": "all", "bits": 4, "birth": True}, "exclude each other"),
        ({"cross": None, "birth": True}, "give cross="),
    ],
)
def test_rules_that_are_not_valid(options, message):
    with pytest.raises(ValueError, match=message):
        cross_of(**options)
    assert cross_of(None) is None and isinstance(cross_of([("a", "b")]), Cross)


def test_products_that_are_too_large_are_refused():
    features = Crossed(cross_of("all"))
    matrix = Matrix(np.array([0, 2]), np.array([0, 1], np.uint32), np.array([1e60, 1e60]), 2)
    with pytest.raises(ValueError, match="values of at most 3e37"):
        features.place(matrix)
