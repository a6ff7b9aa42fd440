"""The rule that chooses among judged candidates."""

from __future__ import annotations

import numpy as np

from .candidates import Candidate, Judged

BALANCED_ERRORS, BALANCED_SHARE = 0.5, 0.01


def paired_errors(judged: Judged, best: int) -> np.ndarray:
    """Return the standard error of each candidate's loss, minus that of the best."""
    difference = judged.losses - judged.losses[best]
    return difference.std(1) / np.sqrt(judged.losses.shape[1])


def choose(judged: Judged, rule: str | int) -> Candidate:
    """Return the candidate that the rule chooses.

    "min": the least loss.  "balanced": the fewest features with a loss within half a standard error of the least, and
    within 1% of it.  "1-se": the fewest features within one standard error.  A number: the least loss with at most so
    many features.
    """
    means = judged.losses.mean(1)
    best = int(means.argmin())
    if rule == "min":
        return judged.candidates[best]
    if isinstance(rule, str):
        errors = paired_errors(judged, best)
        slack = errors if rule == "1-se" else np.minimum(BALANCED_ERRORS * errors, BALANCED_SHARE * abs(means[best]))
        allowed = np.flatnonzero(means <= means[best] + slack)
        return judged.candidates[allowed[np.lexsort((means[allowed], judged.sizes[allowed]))[0]]]
    allowed = np.flatnonzero(judged.sizes <= rule)
    return judged.candidates[allowed[means[allowed].argmin()]]
