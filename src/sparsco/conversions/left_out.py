"""The optimum over a sample of all rows in columns that were left out before it was sought.

``metric.choose`` computes in the columns that can be nonzero, judged by slopes at the average.  Few others may have a
slope beyond their penalty at the answer.  Where the sample has all rows, the answer shows them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data import row_sums
from .metric import Choice, Evidence, local_model, newton_in, objective, slopes_of
from .reservoir import Sample, SampleRows

_ROUNDS = 5
"""How often columns may be added."""
_BEYOND = 1e-3
"""How far, as a share of its penalty, a slope may be beyond it.  The objective would fall by about its square."""


def completed(
    choice: Choice[float], evidence: Evidence[float], loss: Any, penalty: Any, sample: Sample, fit_intercept: bool
) -> Choice[float]:
    """Return newton's choice as the optimum in all columns, if the sample has all rows; other choices as they are."""
    if choice.name != "newton" or sample.kappa < 1.0:
        return choice
    for _ in range(_ROUNDS):
        wrong = left_out(choice, loss, penalty, sample.R)
        if not wrong.any():
            break
        columns = np.flatnonzero(wrong | (choice.w != 0.0))
        start = evidence._replace(w_bar=choice.w, b_bar=choice.b)
        local = local_model(start, loss, penalty, sample)
        w, b = newton_in(columns, start, loss, penalty, sample, fit_intercept, local)
        reached = objective(sample, loss, penalty, w, b)
        if not reached < choice.objectives["newton"]:
            break
        choice = Choice(w, b, choice.name, choice.objectives | {"newton": reached})
    return choice


def left_out(choice: Choice[float], loss: Any, penalty: Any, rows: SampleRows) -> np.ndarray:
    """Return which columns without a weight have a slope beyond their penalty, over these rows."""
    p = row_sums.margins(rows.indptr, rows.indices, rows.data, choice.w, choice.b)
    g, pen = np.zeros(len(choice.w)), penalty.lam * penalty.feature_weights(len(choice.w))
    row_sums.add_gradient(rows.indptr, rows.indices, rows.data, slopes_of(rows, loss, p)[0], g)
    found: np.ndarray = (choice.w == 0.0) & (pen > 0.0) & (np.abs(g) > (1.0 + _BEYOND) * pen)
    return found
