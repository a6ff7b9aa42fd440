"""Which rows are held out: what ``cv`` and ``groups`` may be, and the splits that they mean for given rows."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..choice.splits import ByRow, Split
from ..conversions.path_stability import PathStability
from ..util.validation import is_auto

_WHAT = (
    "cv must be a number of folds (at least 2), a splitter such as KFold(5), a list of splits, or for each row the "
    "number of its fold, from 0 on"
)


@runtime_checkable
class Splitter(Protocol):
    """An object that splits rows, as those of scikit-learn do."""

    def get_n_splits(self) -> int: ...

    def split(self, X: Any, y: Any, groups: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]: ...


def folds_of(cv: Any) -> int | None:
    """Return the number of folds if ``cv`` is one, and None otherwise; raise a ValueError if ``cv`` is not valid."""
    if cv is None or is_auto(cv):
        return None
    if isinstance(cv, numbers.Integral) and not isinstance(cv, bool) and int(cv) >= 2:
        return int(cv)
    if isinstance(cv, str | numbers.Number) or not isinstance(cv, Splitter | Iterable):
        raise ValueError(f"{_WHAT}; it is {cv!r}.")
    return None


def is_by_row(cv: Any) -> bool:
    """Return whether ``cv`` gives splits of rows, in place of a number of folds or "auto"."""
    return not (cv is None or isinstance(cv, str | numbers.Number))


def by_row_of(cv: Any, X: Any, y: np.ndarray, groups: Any) -> ByRow | None:
    """Return the splits and groups of rows that are all there; None if rows are held out by their numbers alone."""
    if groups is None and not is_by_row(cv):
        return None
    own = None if groups is None else _codes(groups, len(y))
    return ByRow(splits_by_row(cv, X, y, groups) if is_by_row(cv) else (), own)


def splits_by_row(cv: Any, X: Any, y: np.ndarray, groups: Any) -> tuple[Split, ...]:
    """Return the splits of rows that are all there, by a splitter, by a list of splits, or by the fold of each row."""
    if isinstance(cv, Splitter):
        found: list[Any] = list(cv.split(X, y, groups))
    else:
        found = list(cv)
        if found and all(isinstance(each, numbers.Integral) for each in found):
            return _by_fold(np.array(found), len(y))
    if not found:
        raise ValueError("cv has no splits; a generator can be read once only, so give a list.")
    return tuple(_checked(pair, len(y)) for pair in found)


def _by_fold(fold: np.ndarray, n: int) -> tuple[Split, ...]:
    """Return the splits of rows that each have the number of a fold."""
    used = np.unique(fold)
    if len(fold) != n or used[0] < 0 or len(used) < 2:
        raise ValueError(f"{_WHAT}; it has {len(fold)} numbers for {n} rows, {len(used)} of them different.")
    return tuple(Split(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in used)


def _checked(pair: Any, n: int) -> Split:
    """Return a split; raise a ValueError if it does not consist of two different sets of rows."""
    parts = [np.asarray(part) for part in pair] if isinstance(pair, tuple | list | np.ndarray) else []
    parts = [np.flatnonzero(part) if part.dtype == bool and part.shape == (n,) else part for part in parts]
    is_split = len(parts) == 2 and all(part.ndim == 1 and part.dtype.kind in "iu" and len(part) for part in parts)
    if not is_split or min(part.min() for part in parts) < 0 or max(part.max() for part in parts) >= n:
        raise ValueError(
            f"{_WHAT}; a split is two arrays of rows from 0 to {n - 1}, those to learn and those to judge by."
        )
    if len(np.unique(np.concatenate(parts))) < len(parts[0]) + len(parts[1]):
        raise ValueError("a split of cv has a row twice: every row is learned or judged once, or left out.")
    return Split(*(part.astype(np.int64) for part in parts))


def _codes(groups: Any, n: int) -> np.ndarray:
    """Return the group of each row as a number."""
    groups = np.asarray(groups)
    if groups.shape != (n,):
        raise ValueError(f"groups has the shape {groups.shape}: give one label for each of the {n} rows.")
    return np.unique(groups, return_inverse=True)[1]


def check_rows_held_out(model: Any) -> None:
    """Raise a ValueError if ``cv`` is not valid, or if ``calibrate`` is set where no row can be left unlearned."""
    folds_of(model.cv)
    if not isinstance(model.calibrate, bool | np.bool_):
        raise ValueError(f"calibrate={model.calibrate!r}: it must be True or False.")
    reasons = {
        "polish": (model.polish, "solves for the optimum over all rows"),
        "early_stopping": (model.early_stopping, "holds out the same rows to stop by"),
        "a selection with a promise (fdr, efp)": (
            isinstance(model.conversion, PathStability),
            "uses all rows to select",
        ),
    }
    for what, (holds, why) in reasons.items():
        if model.calibrate and holds:
            raise ValueError(f"calibrate=True needs rows that are not learned, and {what} {why}: choose one.")
