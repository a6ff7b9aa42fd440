"""Checks of the parts of a run before its first row."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..offsets import WithOffset, with_offset
from ..parts.compatibility import refuse, weights_reason
from ..parts.part import is_record, must_be
from ..penalties import Box
from ..solver.smoothing import envelope, smooth


def two_targets(loss: Any) -> np.ndarray:
    """Return two targets, to try out the settings of a run before its first row."""
    y = np.array([0.0, 1.0])
    return with_offset(y, 0.0 * y) if isinstance(loss, WithOffset) else y


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


def check_polishable(loss: Any, penalty: Any, conversion: Any) -> None:
    """Raise for a loss, penalty or conversion that has no certificate here."""
    record = penalty.record
    has_form = loss.shares is not None if loss.couples else loss.curved or envelope(loss, 1.0) is not None
    if not has_form:
        raise ValueError(
            f"polish needs a loss with a curvature or a known envelope, which {type(loss).__name__} does not have: "
            "leave polish at False."
        )
    if record.blocks is None:
        raise ValueError(
            f"polish has no certificate for {record.__name__}: choose an elastic net, signs, a box or groups, or leave "
            "polish at False."
        )
    if not (penalty.has_strength or penalty.strength_is_open or penalty.rho > 0.0 or _is_bounded(penalty)):
        raise ValueError("polish needs a penalty above 0, or finite bounds: raise alpha, or rho of a record.")
    if loss.conjugate is None and not (penalty.has_strength or penalty.strength_is_open):
        raise ValueError(
            f"polish without an L1 weight needs the conjugate of the loss, which {type(loss).__name__} does not have: "
            "raise l1_ratio, or define conjugate."
        )
    if conversion.is_rounding:
        raise ValueError(f"polish would undo {type(conversion).__name__}: choose one of the two.")


def _is_bounded(penalty: Any) -> bool:
    """Return whether the penalty is a box with finite bounds."""
    return isinstance(penalty, Box) and bool(np.isfinite(penalty.low).all() and np.isfinite(penalty.high).all())


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
