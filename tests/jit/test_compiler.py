"""Constants of records decide branches before types are inferred; compiled code gives back what it was given."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core.caching import NullCache
from scipy.sparse import csr_matrix

from sparsco import SparseClassifier
from sparsco.jit.dispatch import OPTIONS, U, allocating_kernel, constant, inlined, kernel


@constant
def depth(record: Any) -> int:
    """How deep."""
    return 0


class Shallow(NamedTuple):
    size: float


class Deep(NamedTuple):
    size: float

    def depth(record) -> int:  # noqa: N805
        return 2


class Nested(NamedTuple):
    inner: Any

    def depth(record) -> int:  # noqa: N805
        return depth(record.inner) + 1


class Pair(NamedTuple):
    first: Any
    second: Any


def _ours(function):
    """As if it were one of the package's, which the lean pipeline compiles."""
    function.__module__ = "sparsco.test"
    return kernel(function).uncached


def decide(pair, x):
    first, second = pair
    one, levels, other = U(1), U(depth(first)), U(depth(pair.second))
    out, n = 0.0, U(3)
    if levels > 0:
        out += 1.0
    if (levels > one) & (x[0] > 0.0):
        out += 10.0
    if depth(second) == 1:
        out += 100.0
    if (levels > 0) | (other > 0):
        out += 1000.0
    for _ in range(levels):
        out += 10000.0
    if n > 0:  # not known: n is set again
        n = U(0)
        out += 0.5
    return out + (0.25 if levels == 0 else 0.125)


@pytest.mark.parametrize("first", [Shallow(1.0), Deep(1.0), Nested(Shallow(1.0)), Nested(Deep(1.0))])
@pytest.mark.parametrize("second", [Shallow(1.0), Deep(1.0), Nested(Shallow(2.0))])
@pytest.mark.parametrize("x", [-1.0, 1.0])
def test_a_decided_branch_is_the_one_that_is_taken(first, second, x):
    pair, array = Pair(first, second), np.array([x])
    assert _ours(decide)(pair, array) == decide(pair, array)


def typed(record, x):
    if depth(record) > 1:
        return x[0].no_such_thing
    return x[0]


def typed_with_another(record, x):
    levels = U(depth(record))
    if (levels > 1) & (x[0] > 0.0):
        return x[0].no_such_thing
    if (levels < 1) | (x[0] > 0.0):
        return x[0]
    return x[0].no_such_thing


@pytest.mark.skipif(OPTIONS.pipeline == "stock", reason="numba's own pipeline types every branch")
@pytest.mark.parametrize("function", [typed, typed_with_another])
def test_what_never_comes_is_not_even_typed(function):
    compiled = _ours(function)
    assert compiled(Shallow(1.0), np.array([3.0])) == 3.0
    with pytest.raises(Exception, match="no_such_thing"):
        compiled(Deep(1.0), np.array([3.0]))


def _double(record, x, y):
    y[0] = 2.0 * x[0]


def _new(record, x, y):
    out = np.zeros(3)
    out[0] = x[0]
    return out


def _first_of(x):
    return x[:1][0]


_first_of.__module__ = "sparsco.test"
inlined(_first_of)


def _new_with_helper(record, x, y):
    out = np.zeros(3)
    out[0] = _first_of(x) + _first_of(out)
    return out


@pytest.mark.parametrize("function", [_double, _new, _new_with_helper])
@pytest.mark.parametrize("make", [kernel, allocating_kernel])
@pytest.mark.parametrize("is_cached", [True, False])
def test_no_call_keeps_a_reference(function, make, is_cached):
    if function is not _double and (make, is_cached) == (kernel, True):
        pytest.skip("such a kernel may not make arrays")
    function.__module__ = "sparsco.test"
    made = make(function)
    made.cached._cache = NullCache()  # on disk it would be taken for one of the package's
    compiled, record, x, y = made.cached if is_cached else made.uncached, Shallow(1.0), np.ones(2), np.ones(2)
    compiled(record, x, y)
    before = sys.getrefcount(x), sys.getrefcount(y)
    found = [compiled(record, x, y) for _ in range(10)]
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before
    if function is not _double:
        assert {sys.getrefcount(each) for each in found} == {sys.getrefcount(np.zeros(3)) + 2}


def test_an_estimators_memory_does_not_grow():
    X = np.random.default_rng(0).normal(size=(200, 20))
    model = SparseClassifier(alpha=0.01, random_state=0)
    matrix, y = csr_matrix(X), np.where(X[:, 0] > 0.0, 1, -1)
    model.fit(matrix, y).predict(matrix)
    before = sys.getrefcount(matrix.data), sys.getrefcount(matrix.indices), sys.getrefcount(y)
    for _ in range(5):
        model.fit(matrix, y).predict(matrix)
    assert (sys.getrefcount(matrix.data), sys.getrefcount(matrix.indices), sys.getrefcount(y)) == before


def test_a_users_function_keeps_numbas_own_compiler():
    def branches(record, x):
        total = [1.0, 2.0]  # lists are no part of ours
        return total[0] + x[0] if depth(record) > 1 else sum([value for value in total])

    for compiled in (kernel(branches).cached, kernel(branches).uncached):
        assert compiled(Shallow(1.0), np.array([3.0])) == 3.0
        assert compiled(Deep(1.0), np.array([3.0])) == 4.0
