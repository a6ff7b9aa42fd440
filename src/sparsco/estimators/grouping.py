"""Groups of features as users give them: a label for each column, names with labels, or the columns of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..penalties import GroupL1, SparseGroup
from ..util.notices import warn

BY_GROUP = {"group": GroupL1, "sparse-group": SparseGroup}
"""The penalties that ``feature_groups`` is for, by name."""
COLUMNS = "columns"
"""The value of ``feature_groups`` for which the column that a feature came from is its group."""
_OWN = "a group of its own"


def check_feature_groups(penalty: Any, feature_groups: Any) -> None:
    """Raise a ValueError for groups without a penalty of groups, for the penalty without groups, and for bad groups."""
    by_name = isinstance(penalty, str) and penalty in BY_GROUP
    if by_name and feature_groups is None:
        raise ValueError(
            f"penalty={penalty!r} needs feature_groups= (--groups): a label for each column, a dict of names and "
            "labels, or 'columns'."
        )
    if feature_groups is None:
        return
    if not by_name:
        raise ValueError(
            f"feature_groups are for penalty='group' and 'sparse-group', not {penalty!r}: set the penalty, or leave "
            "them out."
        )
    if isinstance(feature_groups, str) and feature_groups != COLUMNS:
        raise ValueError(
            f"feature_groups={feature_groups!r}: give 'columns', a label for each column, or a dict of names and "
            "labels."
        )
    if not isinstance(feature_groups, str | Mapping) and _as_array(feature_groups).ndim != 1:
        raise ValueError("feature_groups must be one-dimensional: a label for each column.")


def _as_array(labels: Any) -> np.ndarray:
    """Return labels as an array: of whole numbers if they were given as one, otherwise of objects."""
    is_array = isinstance(labels, np.ndarray) and labels.dtype.kind in "iu"
    return labels if is_array else np.asarray(labels, object)


def group_labels(feature_groups: Any, names: Sequence[Any] | None, d: int) -> Sequence[Any] | np.ndarray:
    """Return the label of the group of each of d features; a feature without one is a group of its own.

    ``names`` are the names of the features, if they have any.
    """
    if not isinstance(feature_groups, str | Mapping):
        labels = _as_array(feature_groups)
        if len(labels) != d:
            raise ValueError(f"feature_groups has {len(labels)} labels, and there are {d} columns: give one for each.")
        if labels.dtype != object:
            return labels
        labels = labels.tolist()
        wrong = [j for j, label in enumerate(labels) if label is None or label != label]
        if wrong:
            raise ValueError(f"feature_groups has no label for column {wrong[0]}: give one for each column.")
        return labels
    if names is None:
        kind = "'columns'" if isinstance(feature_groups, str) else "a dict of names"
        raise ValueError(
            f"feature_groups is {kind}, and the columns have no names: give a data frame or a table, or a label for "
            "each column."
        )
    if isinstance(feature_groups, str):
        known = set(names)
        return [column_of(name, known) for name in names]
    return [feature_groups.get(name, (_OWN, name)) for name in names]


def _check_names(feature_groups: Mapping[Any, Any], names: Sequence[Any]) -> None:
    """Warn of names in groups that no feature has; raise a ValueError if no feature has any of them."""
    known = set(names)
    unknown = [name for name in feature_groups if name not in known]
    if unknown and len(unknown) == len(feature_groups):
        raise ValueError(
            f"feature_groups has no name of a feature: it has {unknown[0]!r}, and the first feature is {names[0]!r}."
        )
    if unknown:
        plural = "s" if len(unknown) > 1 else ""
        warn(
            f"feature_groups has {len(unknown)} name{plural} that no feature has, such as {unknown[0]!r}: "
            "check the spelling."
        )


def column_of(name: Any, known: set[Any]) -> Any:
    """Return the column that a feature of a table came from: the text before the first ``=`` of its name.

    An interaction belongs to the interaction of the columns.  Its parts are features by themselves, or have a ``=``.

    >>> names = {"age", "job=cook", "job=a*b", "age*job=cook", "job=cook*city=Rome"}
    >>> [column_of(name, names) for name in ("age", "job=a*b", "age*job=cook", "job=cook*city=Rome")]
    ['age', 'job', 'age*job', 'job*city']
    """
    if not isinstance(name, str):
        return name
    parts = name.split("*")
    if all("=" in part or part in known for part in parts):
        return "*".join(part.partition("=")[0] for part in parts)
    return name.partition("=")[0]


def group_codes(labels: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Return the groups as whole numbers from 0 on, in the order of their first features.

    >>> group_codes(np.array([7, 7, 2])), group_codes(["b", "a", "b"])
    (array([0, 0, 1]), array([0, 1, 0]))
    """
    if isinstance(labels, np.ndarray):
        _, first, own = np.unique(labels, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[own]
    codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    return np.fromiter(map(codes.__getitem__, labels), np.int64, len(labels))


def selected_groups(labels: Sequence[Any] | np.ndarray, selected: np.ndarray) -> dict[str, Any]:
    """Return the names of the groups of some features, and the number of all groups, for a report."""
    own = dict.fromkeys(labels[j] for j in selected.tolist())
    texts = [str(label[1]) if isinstance(label, tuple) and label[0] is _OWN else str(label) for label in own]
    return {"selected": texts, "of": len(set(labels))}


def grouped(penalty: Any, feature_groups: Any, names: Sequence[Any] | None, d: int) -> Any:
    """Return the penalty of a name, "group" or "sparse-group", with the groups of d features and the strength 1."""
    labels = group_labels(feature_groups, names, d)
    if isinstance(feature_groups, Mapping) and names is not None and d:
        _check_names(feature_groups, names)
    if isinstance(feature_groups, str) and d > 1 and len(set(labels)) == d:
        warn(
            f"feature_groups='columns', and no two of the {d} features came from one column: each is a group of its "
            f"own. The name of a category has a '=', as in 'job=cook'; the first feature is {labels[0]!r}."
        )
    return BY_GROUP[penalty](1.0, group_codes(labels))
