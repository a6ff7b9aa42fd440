"""The rule that chooses among judged candidates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .candidates import EMPTY, Candidate, Judged
from .splits import FEW_ROWS

RULES = ("balanced", "min", "1-se")
ERRORS, SHARE = 0.5, 0.01
"""How far from the least loss a "balanced" choice may be: in standard errors, and as a share of the gain."""


def choose(judged: Judged, rule: str) -> Candidate:
    """Return the candidate that the rule chooses.

    "min": the least loss.  "balanced": the fewest features with a loss within half a standard error of the least, and
    with at least 99% of its gain over the model without features.  "1-se": the fewest features within one standard
    error.  Errors are those of the difference between the losses of two candidates on the same rows.  The model without
    features is chosen if its loss is within one standard error of the least; if there are few rows, only if it is the
    least.  No model with a larger loss than its is chosen.
    """
    means = judged.losses.mean(1)
    best = int(means.argmin())
    if rule == "min" or judged.candidates[best] == EMPTY:
        return judged.candidates[best]
    errors = (judged.losses - judged.losses[best]).std(1) / np.sqrt(judged.losses.shape[1])
    empty = judged.candidates.index(EMPTY)
    slack = errors if rule == "1-se" else np.minimum(ERRORS * errors, SHARE * (means[empty] - means[best]))
    most = np.minimum(means[best] + slack, means[empty])
    allowed = [k for k in np.flatnonzero(means <= most) if judged.candidates[k] != EMPTY]
    if judged.learned_rows >= FEW_ROWS and means[empty] <= means[best] + errors[empty]:
        return EMPTY
    return judged.candidates[min(allowed, key=lambda k: (judged.features[k], means[k]))]


def choose_size(judged: Judged, sizes: Mapping[int, float], most: int) -> int:
    """Return the size of least loss, of at most ``most`` features; 0 if no model of a size is better than none.

    ``sizes`` has the mean loss of each size.
    """
    means = {size: loss for size, loss in sizes.items() if size <= most}
    means[0] = float(judged.losses[judged.candidates.index(EMPTY)].mean())
    return min(means, key=lambda size: (means[size], size))
