"""Groups of features for lazy kernels: the members of each group, and the norm that shrinks them.

A group is touched when one of its features is, and then all its members are visited.  Between two touches it keeps its
direction, so that one factor per group stands for all its members.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..jit.dispatch import dispatched
from ..jit.lanes import sum_lanes
from ..problem.state import Problem

SMALLEST = 1e-150
"""The norm below which a group counts as one of this norm, so that nothing overflows."""


class FeatureGroups(NamedTuple):
    """The groups of a problem's features.

    ``of_feature`` is each feature's group.  The members of group g are ``members[first[g] : first[g + 1]]``, in order;
    ``size`` is the factor of its norm in the penalty.
    """

    of_feature: np.ndarray
    members: np.ndarray
    first: np.ndarray
    size: np.ndarray

    @property
    def n(self) -> int:
        """Return the number of groups, those without a member included."""
        return len(self.size)


def feature_groups(penalty: Any) -> FeatureGroups:
    """Return the groups of a penalty that has ``groups`` and ``group_sizes()``."""
    groups = np.asarray(penalty.groups)
    counts = np.bincount(groups)
    return FeatureGroups(
        groups.astype(np.uint32),
        np.argsort(groups, kind="stable").astype(np.uint32),
        np.append(0, np.cumsum(counts)).astype(np.uint64),
        penalty.group_sizes(),
    )


def check_groups(groups: FeatureGroups, penalty: Any) -> None:
    """Raise a ValueError for groups that are not those of a penalty."""
    if not all(map(np.array_equal, groups, feature_groups(penalty))):
        raise ValueError("the groups of the optimizer are not those of the penalty.")


class AllLanes(NamedTuple):
    """A norm over the members of a group and all lanes, which are the outputs of one model."""

    def across(norm, squares):  # noqa: N805
        return sum_lanes(squares) + 0.0 * squares


class EachLane(NamedTuple):
    """A norm over the members of a group, of each lane alone: lanes are models of different strengths."""

    def across(norm, squares):  # noqa: N805
        return squares


@dispatched
def across(norm: Any, squares: Any) -> Any:
    """Return the squared norm of a group in every lane, from the sums of squares by lane."""
    raise NotImplementedError


def norm_of(problem: Problem) -> Any:
    """Return the record that selects which lanes a norm is taken over."""
    return AllLanes() if problem.lams is None else EachLane()


def group_norms(groups: FeatureGroups, problem: Problem, V: np.ndarray) -> np.ndarray:
    """Return the norm of each group of V (d, lanes), (groups, 1) or, where lanes have their own strengths, by lane."""
    squares = np.zeros((groups.n, V.shape[1]))
    np.add.at(squares, groups.of_feature, np.square(V))
    return np.sqrt(squares.sum(1, keepdims=True) if problem.lams is None else squares)
