"""The optimum over a sample of all rows in columns that were left out before it was sought.

``metric.choose`` computes in the columns that can be nonzero, judged by slopes at the average.  Few others may have a
slope beyond their penalty at the answer.  Where the sample has all rows, the answer shows them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data import row_sums
from ..data.rows import places
from ..losses import derivative
from ..penalties import restricted
from .metric import Choice, Evidence, in_columns, newton, objective
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
    R, d = sample.R, len(choice.w)
    for _ in range(_ROUNDS):
        wrong = left_out(choice, loss, penalty, R)
        if not wrong.any():
            break
        columns = np.flatnonzero(wrong | (choice.w != 0.0))
        start = evidence._replace(w_bar=choice.w, b_bar=choice.b).at(columns)
        some = Sample(in_columns(R, places(columns, d)), sample.V, sample.kappa)
        w = np.zeros(d)
        w[columns], b = newton(start, loss, restricted(penalty, columns), some, fit_intercept)
        reached = objective(sample, loss, penalty, w, b)
        if not reached < choice.objectives["newton"]:
            break
        choice = Choice(w, b, choice.name, choice.objectives | {"newton": reached})
    return choice


def left_out(choice: Choice[float], loss: Any, penalty: Any, rows: SampleRows) -> np.ndarray:
    """Return which columns without a weight have a slope beyond their penalty, over these rows."""
    p = row_sums.margins(rows.indptr, rows.indices, rows.data, choice.w, choice.b)
    g, pen = np.zeros(len(choice.w)), penalty.lam * penalty.feature_weights(len(choice.w))
    with np.errstate(over="ignore"):
        c = rows.weights * derivative(loss, p, rows.targets) / max(len(p), 1)
    row_sums.add_gradient(rows.indptr, rows.indices, rows.data, c, g)
    found: np.ndarray = (choice.w == 0.0) & (pen > 0.0) & (np.abs(g) > (1.0 + _BEYOND) * pen)
    return found
