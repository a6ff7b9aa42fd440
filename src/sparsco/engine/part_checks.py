"""Checks of the parts of a run before its first row."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..parts.compatibility import refuse, weights_reason
from ..parts.part import is_record, must_be
from ..solver.smoothing import smooth


def check_parts(loss: Any, penalty: Any, optimizer: Any, conversion: Any, step: Any) -> None:
    """Raise an error for something that is not the part it should be, or whose constants make no sense."""
    must_be(loss, "loss")
    must_be(penalty, "penalty")
    must_be(optimizer, "optimizer")
    must_be(conversion, "conversion", "rounding")
    if step is not None:
        must_be(step, "step rule")
    conversion.check()
    if conversion.is_rounding:
        conversion.base.check()
    refuse(weights_reason(loss, penalty, conversion))
    if conversion.is_rounding and conversion.reweights and smooth(loss) is None:
        raise ValueError(f"{type(conversion.penalty).__name__} needs a loss with curvature, not {type(loss).__name__}.")


def for_one_feature(penalty: Any) -> Any:
    """Return a penalty of one feature: what has a value for each feature keeps one of them."""
    if penalty.pen is not None:
        return penalty._replace(pen=np.ones(1))
    if not is_record(penalty):
        return penalty
    short = {}
    for name, value in zip(penalty._fields, penalty, strict=True):
        if is_record(value):
            short[name] = for_one_feature(value)
        elif np.ndim(value) == 1:
            short[name] = value[:1]
    return penalty._replace(**short)
