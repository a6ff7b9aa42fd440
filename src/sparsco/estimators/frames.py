"""Data frames as rows to learn: columns of numbers as scikit-learn takes them, others by their description."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import _check_y, check_consistent_length

from ..data.rows import Matrix, check_numbers
from ..streams.files import needed
from ..streams.tables import TableStream, as_arrow, is_table
from .described import Described, is_column, joined_rows
from .linear import LinearModel
from .row_checks import checked_weights
from .trimming_checks import trims


class Framed(LinearModel):
    """A linear model that learns data frames with categories, dates, texts and holes by a description of their columns.

    The description is decided by the first 1000 rows of the first frame, and by ``schema``.
    """

    def reads_by_description(self, X: Any, reset: bool) -> bool:
        """Return whether the columns of X have a description; ``reset`` starts a new fit."""
        described = self.fit_state.described
        if not reset:
            return described is not None and described.takes(X)
        _refuse_texts(X)
        if self.schema is not None and not is_table(X):
            raise ValueError(f"schema names columns of a data frame, and X is a {type(X).__name__}: leave it out.")
        return is_table(X) and not is_column(X) and (self.schema is not None or not _has_numbers_alone(X))

    def rows_by_description(self, X: Any, y: Any, reset: bool) -> tuple[Matrix, np.ndarray, Any]:
        """Return the rows, targets and offsets of a data frame; ``reset`` starts a new fit."""
        offsets = None
        if reset:
            stream = TableStream(X, target=None, schema=self.schema)
            if trims(self):
                stream.key_names()
            assert stream.encoder is not None
            rows = joined_rows([chunk.matrix for chunk in stream], len(stream.encoder))
            names = stream.encoder.names
            every = list(names.values())
            self.forget()
            self._fit.described = Described(stream.decided.learned(every), names if trims(self) else every)
            if self.column_names is not None:
                del self.feature_names_in_
        else:
            described = self._fit.described
            assert described is not None
            rows, offsets = described.rows_to_learn(X)
        y = _check_y(y, multi_output=self._takes_columns, estimator=self)
        check_consistent_length(rows.indptr[1:], y)
        self.n_features_in_ = max(rows.d, 0 if reset else self.n_features_in_)
        return rows, y, offsets


def _refuse_texts(X: Any) -> None:
    """Raise a ValueError if X is a list or one column of texts, and no rows."""
    items = X if isinstance(X, list | tuple) else X if is_column(X) else ()
    if len(items) and isinstance(next(iter(items)), str):
        raise ValueError(
            "X has texts, not rows: learn make_pipeline(SparseText(), model), whose SparseText makes rows of words."
        )


def _has_numbers_alone(X: Any) -> bool:
    """Return whether all columns of a data frame are numbers, and none is missing."""
    if type(X).__module__.partition(".")[0] == "pandas":
        is_numeric = needed("pandas.api.types", "tables of pandas").is_numeric_dtype
        if all(map(is_numeric, X.dtypes)):
            return not X.isna().to_numpy().any()
    return all(_is_number(column) for column in as_arrow(X).columns)


def _is_number(column: Any) -> bool:
    kind, is_ = column.type, needed("pyarrow.types", "tables")
    if column.null_count or not (is_.is_integer(kind) or is_.is_floating(kind) or is_.is_boolean(kind)):
        return False
    return not is_.is_floating(kind) or not np.isnan(column.to_numpy()).any()


def checked_targets(
    y: np.ndarray, sample_weight: Any, X: Any, may_be_zero: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return targets and weights of the rows X, of which all numbers are finite."""
    weights = None if sample_weight is None else checked_weights(sample_weight, X, may_be_zero)
    for name, data in (("y", y), ("sample_weight", weights)):
        if data is not None and data.dtype.kind == "f":
            check_numbers(data, name)
    return y, weights
