"""Checks of rows by the contract of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import _check_sample_weight, validate_data

from ..data.inspection import sound


def checked_weights(sample_weight: Any, X: Any, may_be_zero: bool) -> np.ndarray:
    """Return the weights of the rows as numbers.

    A chunk of a stream may have no weight above zero, if ``may_be_zero``; it changes nothing then.
    """
    if may_be_zero and not np.any(sample_weight):
        return 0.0 * _check_sample_weight(np.add(sample_weight, 1.0), X, dtype=np.float64)
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)


def nameless(columns: int, named: int) -> str:
    """Return the error message for columns without names that follow columns with names."""
    return (
        f"X has {columns} columns without names, but this stream began with {named} columns that have names: pass a "
        "data frame to partial_fit."
    )


def validated(model: Any, X: Any, y: Any, reset: bool, takes_columns: bool) -> tuple[Any, np.ndarray]:
    """Return rows and targets that passed scikit-learn's checks; that numbers are finite is checked elsewhere.

    ``takes_columns``: targets may have several columns.
    """
    return validate_data(
        model,
        sound(X),
        y,
        accept_sparse="csr",
        accept_large_sparse=True,
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        reset=reset,
        multi_output=takes_columns,
    )


def is_plain(X: Any, y: Any) -> bool:
    """Return whether scikit-learn's checks would return these rows and targets as they are, which is often.

    They take longer than a fit of few rows.
    """
    if not (type(X) is np.ndarray or (sp.issparse(X) and X.format == "csr")) or type(y) is not np.ndarray:
        return False
    if X.ndim != 2 or y.ndim != 1 or X.dtype not in (np.float64, np.float32):
        return False
    is_matching = X.shape[0] == len(y) > 0 and X.shape[1] > 0
    return is_matching and (y.dtype.kind in "biu" or (y.dtype.kind == "f" and bool(np.isfinite(y).all())))
