"""A model as a transformer that keeps the selected features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import TransformerMixin
from sklearn.utils import check_array
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from ..util.attributes import by_position
from ..util.notices import warn


class Selector(TransformerMixin):
    """A transformer that keeps the features of ``_get_support_mask``.

    It has the methods of scikit-learn's SelectorMixin, which is not a base class: the package around it takes a tenth
    of a second to import.
    """

    _get_support_mask: Callable[[], np.ndarray]

    def get_support(self, indices: bool = False) -> np.ndarray:
        """Return which features are selected: a mask, or their columns if ``indices`` is True."""
        mask = self._get_support_mask()
        return np.flatnonzero(mask) if indices else mask

    def transform(self, X: Any) -> Any:
        """Return the columns of X that are selected.

        A table of pandas stays one, with the types of its columns, if ``set_output`` asks for tables.
        """
        stays = by_position(X) is not X and _get_output_config("transform", self)["dense"] != "default"
        X = validate_data(self, X, dtype=None, accept_sparse="csr", skip_check_array=stays, reset=False)
        columns = self.get_support(indices=True)
        if not columns.size:
            warn("No features were selected: the rows have no columns left.")
        return by_position(X)[:, columns]

    def inverse_transform(self, X: Any) -> Any:
        """Return rows of the selected features as rows of all features, with zeros in the other columns."""
        X, support = check_array(X, accept_sparse="csc", dtype=None), self.get_support()
        if X.shape[1] != np.count_nonzero(support):
            raise ValueError(f"X has {X.shape[1]} columns, and {np.count_nonzero(support)} features are selected.")
        shape = X.shape[0], len(support)
        if sp.issparse(X):
            ends = np.zeros(len(support) + 1, X.indptr.dtype)
            ends[1:][support] = np.diff(X.indptr)
            kind = sp.csc_array if isinstance(X, sp.sparray) else sp.csc_matrix
            return kind((X.data, X.indices, np.cumsum(ends, dtype=ends.dtype)), shape=shape)
        wide = np.zeros(shape, X.dtype)
        wide[:, support] = X
        return wide

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the selected features; ``input_features`` are the names of all, if X had none."""
        check_is_fitted(self)
        return _check_feature_names_in(self, input_features)[self.get_support()]
