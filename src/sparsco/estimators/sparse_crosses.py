"""A scikit-learn transformer that adds crosses, products of two features, to the columns of X."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from ..data.cross_rules import Cross, cross_of
from ..data.crosses import CHILD, check_products, cross_name, crossed_rows, number_of, pairs_of
from ..data.inspection import sound
from ..data.rows import as_matrix
from ..util.attributes import stored

_MOST_PAIRS = 1 << 26
"""The largest number of crosses that rules other than "all" may name."""


class SparseCrosses(TransformerMixin, BaseEstimator):
    """Columns and their crosses as sparse rows: the products of pairs of columns.

    With ``cross="all"`` the columns are those of scikit-learn's ``PolynomialFeatures(interaction_only=True,
    include_bias=False)``, with the same values to the bit.  The cost of a row is that of the pairs of its nonzeros.

    Parameters
    ----------
    cross : "all", or list of "a:b" or pairs
        The pairs of columns, by name or number, as in :func:`sparsco.train`.  In a pair each side may be a list.

    Attributes
    ----------
    n_features_in_ : int
        The number of columns of X.
    feature_names_in_ : ndarray
        The names of the columns of X, if it is a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sparsco import SparseCrosses, SparseRegressor
    >>> SparseCrosses().fit_transform([[2.0, 3.0, 5.0]]).toarray()
    array([[ 2.,  3.,  5.,  6., 10., 15.]])
    >>> X = np.random.default_rng(0).normal(size=(500, 5))
    >>> model = make_pipeline(SparseCrosses(), SparseRegressor(random_state=0)).fit(X, X[:, 1] * X[:, 3])
    >>> model[:-1].get_feature_names_out()[model[-1].get_support()].tolist()
    ['x1*x3']
    """

    def __init__(self, *, cross: Any = "all") -> None:
        self.cross = cross

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the columns of X, and which of them are crossed."""
        asked = cross_of(self.cross)
        if asked is None:
            raise ValueError("cross is empty: give 'all', or pairs such as ['a:b'].")
        X = self._checked(X, reset=True)
        if X.shape[1] >= CHILD:
            raise ValueError(f"X has {X.shape[1]} columns; crosses are made of at most {CHILD - 1}.")
        names = stored(self, "feature_names_in_")
        own = [None] * X.shape[1] if names is None else names.tolist()
        self._asked, self._members = asked, asked.members(own, range(X.shape[1]))
        self._pairs = None if asked.is_all else _pairs(asked, self._members)
        return self

    def transform(self, X: Any) -> sp.csr_array:
        """Return the columns of X, then their crosses."""
        check_is_fitted(self)
        matrix = as_matrix(self._checked(X, reset=False))
        check_products(matrix.data)
        columns, d = matrix.indices.astype(np.int64), self.n_features_in_
        none = np.zeros(0, np.uint64)
        rows = crossed_rows(matrix, columns, columns, self._members, self._asked.sides(), none)
        indptr, numbers, values = rows
        left, right = pairs_of(numbers)
        place = self._rank(left, right, numbers)
        indices, width = np.where(numbers < CHILD, numbers, d + place), self._width()
        kind = np.int32 if max(width, len(values)) < CHILD else np.int64
        parts = values.astype(matrix.data.dtype), indices.astype(kind), indptr.astype(kind)
        found = sp.csr_array(parts, shape=(len(matrix), width))
        found.sort_indices()
        return found

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns, and ``a*b`` for the crosses."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        numbers = self._all_pairs() if self._pairs is None else self._pairs
        members = self._members.tolist()
        crosses = [
            cross_name(str(names[i]), str(names[j]), members[i], members[j], self._asked)
            for i, j in zip(*(side.tolist() for side in pairs_of(numbers)), strict=True)
        ]
        return np.array([*names, *crosses], object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _checked(self, X: Any, reset: bool) -> Any:
        return validate_data(self, sound(X), accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)

    def _width(self) -> int:
        d = self.n_features_in_
        return d + (d * (d - 1) // 2 if self._pairs is None else len(self._pairs))

    def _rank(self, left: np.ndarray, right: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return the place of each cross among all crosses."""
        if self._pairs is not None:
            return np.searchsorted(self._pairs, numbers)
        return left * self.n_features_in_ - left * (left + 1) // 2 + (right - left - 1)

    def _all_pairs(self) -> np.ndarray:
        if self._width() > _MOST_PAIRS:
            raise ValueError(f"there are {self._width():,} columns: name those that have a weight only.")
        return number_of(*np.triu_indices(self.n_features_in_, 1))


def _pairs(asked: Cross, members: np.ndarray) -> np.ndarray:
    """Return the numbers of all crosses that the rules name, ascending."""
    sides = [[np.flatnonzero(members & bit) for bit in rule] for rule in asked.sides().T]
    if sum(len(a) * len(b) for a, b in sides) > _MOST_PAIRS:
        raise ValueError(f"the rules name more than {_MOST_PAIRS:,} crosses: name fewer columns, or give cross='all'.")
    found = []
    for a, b in sides:
        one, other = np.repeat(a, len(b)), np.tile(b, len(a))
        differs = one != other
        found.append(number_of(np.minimum(one, other)[differs], np.maximum(one, other)[differs]))
    return np.unique(np.concatenate(found))
