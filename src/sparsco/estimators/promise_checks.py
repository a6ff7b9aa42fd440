"""The parameters of a selection with a promise: which there are, and which have no effect."""

from __future__ import annotations

from typing import Any

from ..conversions import PathStability
from ..util.validation import is_auto


def promises(model: Any) -> bool:
    """Return whether features are selected with a promise on the false ones among them."""
    return isinstance(model.conversion, PathStability)


def check_promise(model: Any, is_automatic: bool) -> None:
    """Raise a ValueError for a parameter that has no effect on a selection with a promise.

    ``is_automatic`` is False for a penalty or a loss that phase two cannot choose a strength for.
    """
    given = [name for name in ("alpha", "l1_ratio", "optimizer", "step_size") if not is_auto(getattr(model, name))]
    given += [
        name
        for name in ("budget", "preset", "target_excess_risk", "feature_weights")
        if getattr(model, name) is not None
    ]
    given += [name for name in ("polish", "early_stopping") if getattr(model, name)]
    if given:
        raise ValueError(f"{given[0]} has no effect on a selection with a promise (fdr, efp): leave it out.")
    if not is_automatic:
        raise ValueError(
            "a selection with a promise (fdr, efp) needs the elastic net and a loss with a smooth twin: leave penalty "
            "and loss as they are."
        )
