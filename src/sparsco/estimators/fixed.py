"""The parameters of a stream that must stay as they are, and how a change of them is found."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from operator import is_
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
    "schema",
    "storage",
    "max_features",
    "trim",
    "preset",
    "budget",
    "target_excess_risk",
    "calibrate",
    "half_life",
)
"""The parameters that cannot change while a stream is under way."""


def fingerprint(value: Any) -> Any:
    """Return a value that differs for different parameters: repr, and for arrays their bytes.

    The repr of a long array leaves out the middle.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return repr(value.tolist())
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), zlib.crc32(np.ascontiguousarray(value).view(np.uint8).data)
    return (type(value), *map(fingerprint, value)) if isinstance(value, tuple) else repr(value)


def changed_since(
    settings: Mapping[str, Any], estimator: Any, unchanged: tuple[Any, ...] | None
) -> tuple[list[str], tuple[Any, ...] | None]:
    """Return the names of the fixed parameters that have changed, and all of them if they are as they were.

    ``settings`` are the fingerprints of before.  ``unchanged`` are the parameters that were found to be the same; if
    they are still the same objects, which nobody can edit, nothing is computed.
    """
    given = tuple([getattr(estimator, name) for name in FIXED])
    if unchanged is not None and all(map(is_, given, unchanged)):
        return [], unchanged
    now = dict(zip(FIXED, map(fingerprint, given), strict=True))
    found = [name for name in FIXED if now[name] != settings.get(name, now[name])]
    can_be_edited = any(isinstance(value, np.ndarray | list | dict | set) for value in given)
    return found, None if found or can_be_edited else given
