"""The records of a problem and of a solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

PATH, SMALLEST, GROUP = "path", "smallest of a path", "group"
SOFTMAX, ROW_GROUPS, SQUARES = "softmax", "softmax with groups", "least squares"
"""The forms of problems; a solver is for one of them."""

Models = list[tuple[np.ndarray, Any]]
"""Weights and intercept for each strength; a row of weights and an intercept for each of several classes."""


class Task(NamedTuple):
    """One problem: rows, targets, strengths, and the objectives of models.

    ``groups`` has the number of the group of each feature.
    """

    title: str
    form: str
    place: str
    X: Any
    y: np.ndarray
    lams: np.ndarray
    objectives: Callable[[Models], list[float]]
    groups: np.ndarray | None = None

    @property
    def lam(self) -> float:
        """Return the smallest strength."""
        return float(self.lams[-1])


class Solver(NamedTuple):
    """A solver: ``fit`` takes a setting and is timed, ``read`` returns its models; settings go from loose to strict."""

    fit: Callable[[float], Any]
    read: Callable[[Any], Models]
    settings: tuple[float, ...]


Makers = dict[tuple[str, str], Callable[[Task], Solver]]
"""The makers of solvers by package and name."""


def one(model: Any) -> Models:
    """Return weights and intercept of a model with scikit-learn's attributes."""
    return [(np.ravel(model.coef_), float(np.ravel(model.intercept_)[0]))]


def all_classes(model: Any) -> Models:
    """Return the weights and intercepts of all classes."""
    return [(np.asarray(model.coef_), np.asarray(model.intercept_))]
