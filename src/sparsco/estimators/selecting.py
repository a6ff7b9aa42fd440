"""The selected features of a linear model, as scikit-learn's selectors have them: names, mask, columns of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from ..data.crosses import Crossed
from ..data.inspection import sound
from ..data.rows import as_matrix
from ..util.attributes import add_attributes, attributes, replace_attributes
from .linear import LinearModel


class Selecting(LinearModel, SelectorMixin):
    """A linear model that selects features of rows."""

    @property
    def feature_names_(self) -> np.ndarray:
        """Return the names of a stream's features by column of ``coef_``.

        If features are columns, return the names of X's columns.  Where names of a table may be forgotten, return those
        of the features in use.
        """
        check_is_fitted(self)
        self._flush()
        if self._fit.lists_features:
            names = np.empty(len(self._fit.features), object)
            names[:] = self._fit.features.names
            return names
        if self._fit.described is not None and (known := self.known_names()) is not None:
            if isinstance(known, Mapping):
                return np.array(self.names_of_slots(np.arange(len(self._fit.features))), object)
            return np.array(known[: self.n_features_in_], object)
        return _check_feature_names_in(self)

    @property
    def input_names(self) -> np.ndarray | None:
        """Return the names of the columns of X, or of the features that a table has become; None without names."""
        known = None if self.fit_state.described is None else self.known_names()
        if known is None or isinstance(known, Mapping):
            return self.column_names
        return np.array(known[: self.n_features_in_], object)

    @property
    def feature_names_in_(self) -> np.ndarray:  # type: ignore[override]
        """Return ``input_names``; without names there is no such attribute, as scikit-learn demands."""
        if (names := self.input_names) is None:
            raise AttributeError(f"{type(self).__name__} has learned no names of columns.")
        return names

    @feature_names_in_.setter
    def feature_names_in_(self, names: np.ndarray) -> None:
        add_attributes(self, {"feature_names_in_": names})

    @feature_names_in_.deleter
    def feature_names_in_(self) -> None:
        rest = attributes(self)
        del rest["feature_names_in_"]
        replace_attributes(self, rest)

    def transform(self, X: Any) -> Any:
        """Return the selected columns of rows of numbers."""
        if self.fit_state.described is not None and self.fit_state.described.takes(X):
            raise ValueError(
                "transform takes rows of numbers, and this model makes features of a table itself: predict takes the "
                "table, and get_feature_names_out() names the features that are selected."
            )
        return super().transform(sound(X))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features whose weight is not zero."""
        if self.__sklearn_is_fitted__() and isinstance(self.known_names(), Mapping):
            return np.array(self.names_of_slots(np.unique(self.convert().coef.indices)), object)
        if self.__sklearn_is_fitted__() and (self._fit.lists_features or self._fit.described is not None):
            return self.feature_names_[self.get_support()]
        if input_features is None and self.column_names is None:
            return np.array([f"x{column}" for column in self.get_support(indices=True)], object)  # not of all columns
        return super().get_feature_names_out(input_features)

    def _get_support_mask(self) -> np.ndarray:
        coef = self.convert().coef
        if self._fit.lists_features:
            return np.isin(np.arange(coef.shape[1]), coef.indices)
        used = self._fit.features.to_columns(coef.indices)
        mask = np.zeros(self.n_features_in_, bool)
        mask[used] = True
        return mask

    def _transform(self, X: Any) -> Any:
        """Return the selected features of rows that scikit-learn has validated; crosses are among them."""
        if isinstance(self._fit.features, Crossed):
            X = self._fit.features.find(as_matrix(X, wide=True)).to_scipy()
        return super()._transform(X)
