"""The parameters that cannot change while a stream is under way."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

FIXED = (
    "loss",
    "alpha",
    "l1_ratio",
    "penalty",
    "optimizer",
    "conversion",
    "step_size",
    "fit_intercept",
    "standardize",
    "relaxed",
    "choose",
    "cv",
    "feature_weights",
    "feature_groups",
    "storage",
    "max_features",
    "trim",
    "preset",
    "budget",
    "target_excess_risk",
    "calibrate",
    "half_life",
)
"""The names of these parameters."""


def fingerprints(estimator: Any) -> dict[str, Any]:
    """Return a value for each of these parameters, by name, that differs for different parameters."""
    return {name: _fingerprint(getattr(estimator, name)) for name in FIXED}


def _fingerprint(value: Any) -> Any:
    """Return a value that differs for different parameters: repr, and for arrays their bytes.

    The repr of a long array leaves out the middle.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return repr(value.tolist())
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), zlib.crc32(np.ascontiguousarray(value).view(np.uint8).data)
    return (type(value), *map(_fingerprint, value)) if isinstance(value, tuple) else repr(value)
