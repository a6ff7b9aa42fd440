"""A converted model: the result of phase two for the runs of a fit, with its report."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..conversions.averaging import Answer
from ..engine.run import Run


class Solved(NamedTuple):
    """A converted model with its history and its report; a fit state owns it."""

    coef: sp.csr_array
    intercept: np.ndarray
    t: int
    history: list[dict[str, float]]
    report: dict[str, Any]


def solve(runs: list[Run], answers: list[Answer] | None = None) -> Solved:
    """Return the models of all runs as one model.

    The runs must have begun.  ``answers`` replaces the answers of the runs, if given.
    """
    answers = answers or [run.finish() for run in runs]
    first = runs[0]
    w = np.concatenate([answer.w for answer in answers], axis=1)
    if first.examples and not w.any():
        first.warn("no feature was selected: lower alpha, or give more examples.")
    ends = [run.history_point(answer.w, answer.b) for run, answer in zip(runs, answers, strict=True)]
    looks = [*zip(*(run.history for run in runs if not run.late), strict=True), ends]
    return Solved(
        sp.csr_array(w.T),
        np.concatenate([answer.b for answer in answers]),
        first.examples,
        [
            {"t": p[0]["t"], "objective": sum(q["objective"] for q in p), "nonzeros": sum(q["nonzeros"] for q in p)}
            for p in looks
        ],
        described(runs, first.problem.penalty) | {"converted": [answer.report for answer in answers]},
    )


def described(runs: list[Run], penalty: Any) -> dict[str, Any]:
    """Return the choices of a fit, for a report: optimizer, penalty, loss, steps, conversion, warnings."""
    first = runs[0]
    assert first.pilot is not None  # a run that has converted has begun
    return {
        "optimizer": first.optimizer,
        "penalty": penalty,
        "loss": first.problem.loss,
        "lam": float(penalty.lam),
        "rho": float(penalty.rho),
        "step_size": first.step if first.optimizer.uses_steps else None,
        "conversion": first.rounding or first.conversion,
        "L_mean": first.pilot.L_mean,
        "pilot_rows": first.pilot.n,
        "examples": first.examples,
        "warnings": list(dict.fromkeys(message for run in runs for message in run.warnings)),
    }
