"""Offsets of rows, from the arguments of an estimator to the targets of its runs and to its margins."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.rows import check_numbers
from ..offsets import WithOffset, first_offset, has_offset, numbers_of, with_offset
from .promise_checks import promises


def checked_offset(offset: Any, n: int) -> np.ndarray:
    """Return the offsets of n rows as numbers; raise a ValueError for any other array."""
    try:
        found = np.asarray(offset, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("offset must be numbers, one for each row.") from None
    if found.ndim == 0:
        found = np.full(n, float(found))
    if found.shape != (n,):
        raise ValueError(f"offset has the shape {found.shape}; it must be ({n},), one number for each row.")
    check_numbers(found, "offset")
    return found


def targets_at(model: Any, codes: np.ndarray, y: np.ndarray, is_first: bool) -> np.ndarray:
    """Return the encoded targets of rows together with the offsets that y has, for the runs of a model.

    ``is_first`` is True for the first rows of a fit; all rows of a fit have an offset, or none has.
    """
    state = model.fit_state
    if is_first:
        state.has_offset = has_offset(y)
    elif has_offset(y) != state.has_offset:
        had, give = ("an", "give zeros where there is none") if state.has_offset else ("no", "fit a new model for them")
        raise ValueError(f"the rows so far had {had} offset: {give}.")
    return codes if not has_offset(y) else codes_at(model, codes, first_offset(y))


def codes_at(model: Any, codes: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """Return encoded targets that stand for their rows at these offsets."""
    loss = model.loss_record()
    refuse_offset(model, loss)
    loss.refuse_offset(offset)
    if loss.shifts and not model.classifies:
        return codes - (offset if codes.ndim == 1 else offset[:, None])
    return with_offset(codes, offset)


def loss_at(model: Any, loss: Any) -> Any:
    """Return the loss of the targets of a model's runs."""
    needs_records = model.fit_state.has_offset and not (loss.shifts and not model.classifies)
    return WithOffset(loss) if needs_records else loss


def refuse_offset(model: Any, loss: Any) -> None:
    """Raise a ValueError for a model that takes no offset."""
    if promises(model):
        raise ValueError("a selection with a promise (fdr, efp) takes no offset: leave one of the two out.")
    if not model.classifies:
        return
    if loss.couples:
        raise ValueError(f"loss={model.loss!r} takes no offset, which is for one margin: choose loss='logistic'.")
    if model.calibrate:
        raise ValueError("calibrate=True takes no offset: leave one of the two out.")
    if model.fit_state.is_open:
        raise ValueError(
            "an offset belongs to the second of two classes, which a stream that finds its classes does not know: name "
            "both in a first partial_fit, classes=."
        )
    if len(model.classes_) != 2:
        raise ValueError(f"an offset is for two classes, and there are {len(model.classes_)}.")


def at_offset(p: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return margins with the offsets that y has, and the targets alone."""
    return (p + first_offset(y)[:, None], numbers_of(y)) if has_offset(y) else (p, y)


def shifted(p: np.ndarray, offset: np.ndarray | None, model: Any) -> np.ndarray:
    """Return the margins of a model (rows, models) plus the offset of each row."""
    if offset is None:
        return p
    if model.classifies and p.shape[1] != 1:
        raise ValueError("an offset is for two classes with one margin, and this model has more.")
    if model.classifies and model.calibrate:
        raise ValueError("calibrate=True takes no offset, which its scaling of margins would scale, too: leave it out.")
    return p + offset[:, None]
