"""The intervals of a model, as it stores them: weights without a penalty, and how exact they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import t as student


class Intervals(NamedTuple):
    """Weights without a penalty of some features, with standard errors; intervals of any level follow from these."""

    level: float
    """The level that was asked for last."""
    is_split: bool
    """Whether the features were selected on other rows than those of the intervals."""
    rows: int
    """The number of rows that the weights are from."""
    sampled: int
    """The number of rows that second derivatives and errors are from: fewer than ``rows`` in a long stream."""
    seen: int
    """The number of rows that the model was offered, in one pass."""
    outputs: np.ndarray
    """The model of each entry, a row of ``coef_``."""
    features: np.ndarray
    """The slot of its feature."""
    is_selected: np.ndarray
    """Whether the feature was selected, or only named."""
    weights: np.ndarray
    errors: np.ndarray
    """The standard errors; NaN where the rows do not decide the weight."""
    freedom: np.ndarray
    """The degrees of freedom of Student's t."""

    def bounds(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper ends of the intervals of a level."""
        half = student.ppf(0.5 + 0.5 * level, self.freedom) * self.errors
        return self.weights - half, self.weights + half

    def at(self, features: np.ndarray) -> Intervals:
        """Return the intervals of a model with these features alone, which are sorted and include all that it has."""
        return self._replace(features=np.searchsorted(features, self.features))

    @property
    def source(self) -> str:
        """Return in words which rows the intervals are from, and what that means."""
        rows = f"{self.rows:,} rows" if self.rows >= self.seen else f"{self.rows:,} of {self.seen:,} rows"
        if self.rows > self.sampled:
            rows += f" (second derivatives from {self.sampled:,} of them)"
        if self.is_split:
            return f"from {rows}; the features were selected on other rows"
        return f"from {rows}; conditional on the selection, which was made on the same rows: split=True avoids that"
