"""The outcome of a training run: the model, its progress table, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..losses import Squared
from ..streams import Stream


class StoppedError(Exception):
    """An error for a run that ``stop`` ended; a checkpoint was written if there is a place for one."""


class Line(NamedTuple):
    """A line of the table of progressive validation, for rows that had not been learned when they were evaluated."""

    rows: int
    loss: float
    """The mean loss of the rows evaluated since the line before."""
    mean_loss: float
    """The mean loss of all rows evaluated so far."""
    mistake: float
    """The share of wrong labels, or the root mean squared error, since the line before."""
    mean_mistake: float
    nonzeros: int
    """The number of features that have a nonzero weight in at least one model."""

    @classmethod
    def of(cls, rows: int, judged: np.ndarray, nonzeros: int, classifies: bool) -> Line:
        """Return the line of the sums of weight, loss and mistakes: since the line before, and of all rows."""
        (loss, mistake), (mean_loss, mean_mistake) = (judged[:, 1:] / judged[:, :1]).tolist()
        if not classifies:
            mistake, mean_mistake = mistake**0.5, mean_mistake**0.5
        return cls(rows, loss, mean_loss, mistake, mean_mistake, nonzeros)


def heads(model: Any) -> tuple[str, str]:
    """Return what the losses and the mistakes of a table of progressive validation are called."""
    return "half mse" if is_squared(model) else "loss", "mistakes" if model.classifies else "rmse"


def is_squared(model: Any) -> bool:
    """Return whether the loss of a model is half the squared error, which figures have as its root mean."""
    return isinstance(model.loss_record(), Squared)


class Report(NamedTuple):
    """What a run that follows a log has reached, when it has published a model."""

    rows: int
    """The number of rows that the model has learned."""
    rows_per_second: float
    """Since the report before, as the two that follow."""
    loss: float
    """The mean loss of rows that were judged before they were learned; NaN if there were none."""
    mistake: float
    """Their share of wrong labels, or root mean squared error."""
    mean_loss: float
    """The mean loss of all judged rows of the run."""
    mean_mistake: float
    """Their share of wrong labels, or root mean squared error."""
    selected: int
    """The number of features in the model."""
    named: str = "loss"
    """What the loss is called."""

    def __str__(self) -> str:
        figures = [f"{self.rows:>12,} rows", f"{self.rows_per_second:,.0f} rows/s"]
        if self.loss == self.loss:
            figures.append(f"{self.named} {self.loss:.5f} lately, {self.mean_loss:.5f} in all")
        return ", ".join([*figures, f"{self.selected:,} features selected"])


class Trained(NamedTuple):
    """The result of a training run: the model, its stream, the table of validation, notes and warnings."""

    model: Any
    stream: Stream
    table: list[Line]
    rows: int
    """The number of rows of a pass."""
    seconds: float
    notes: list[str]
    """The choices that were made for parameters that were left open."""
    warnings: Sequence[str] = ()
    """The problems of the data or of the run."""

    @property
    def estimator(self) -> Any:
        """Return the model as a scikit-learn estimator."""
        from ..estimators.sklearn import as_estimator
        from .labelled_rows import by_name, hash_seed

        found = as_estimator(self.model)
        found.label_columns(self.stream.names, by_name(self.stream), hash_seed(self.stream))
        return found
