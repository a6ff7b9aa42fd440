"""Conversions that choose one iterate, so that its sparsity is kept: SCMDI for a known length, OCMDI for any.

Both compare each step with an average w_bar of earlier iterates.  The iterate w_t is kept where the step from it brings
the iterate no nearer to w_bar than D(w_bar, .) / T, in Bregman divergence.  With noise the chosen iterate can be as bad
as the last one: Theorem 1 of the paper applies an inequality for a fixed t at a t that the noise chooses.
"""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np

from ..mirrors import divergence
from ..optimizers.iterate_tracking import KEPT_B, KEPT_DIFFERENCE, REMEMBERED, THRESHOLD
from ..parts.contracts import Conversion, part
from ..parts.part import NEVER
from ..problem.state import Tracked
from .averaging import Answer


@part(Conversion)
class OCMDI(NamedTuple):
    """The individual iterate of OCMDI, for unknown length: w_bar is the average up to the last power of two."""

    chooses_single_iterate = True
    can_forget_features = False

    def watch(self, loss: Any) -> Any:
        return Tracked()

    def begin(self, run: Any) -> None:
        run.open_window()
        w, b = run.weights()
        _compare(run, w, b, 0.0)  # no example has been seen, so the run needs no settling

    def next_event(self, run: Any, n: int) -> int:
        return (1 << (n + 1).bit_length()) - 1

    def event(self, run: Any, n: int) -> None:
        k = (n + 1).bit_length()
        w_bar, b_bar, distance = _average(run)
        _compare(run, w_bar, b_bar, 2.0 ** (1 - k) * distance)

    def omega_of(self, run: Any, t: int, n: int) -> np.ndarray:
        return _weights(run, t, n)

    def finish(self, run: Any) -> Answer:
        if run.block.iterate:
            return _kept(run)
        d, m = run.d, run.problem.m
        w, b = run.initial or (np.zeros((d, m)), np.zeros(m))
        return Answer(w[:d], b, {"iterate": 1, "differences": _differences(run)})


@part(
    Conversion,
    T="half the number of examples; None: when fit knows it",
    least="whether the iterate of the least difference is taken, not the last below the threshold",
)
class SCMDI(NamedTuple):
    """The individual iterate of SCMDI, for 2 T - 1 examples: w_bar is the average of the first T iterates.

    Parameters
    ----------
    T : int or None
        Half the number of examples.  None: set by ``fit`` when the length is known.
    least : bool
        True: take the iterate with the least difference.  False: take the last one below the threshold.
    """

    T: int | None = None
    least: bool = False

    chooses_single_iterate = True
    can_forget_features = False

    def check(self) -> None:
        if self.T is not None and (not isinstance(self.T, numbers.Integral) or isinstance(self.T, bool) or self.T < 1):
            raise ValueError(f"SCMDI(T={self.T!r}): T is half the number of examples, a whole number of at least 1.")

    def for_length(self, n: int) -> SCMDI:
        """Return the conversion for a stream of n examples in all."""
        return self if self.T is not None else self._replace(T=max((n + 1) // 2, 1))

    watch, omega_of = OCMDI.watch, OCMDI.omega_of

    def begin(self, run: Any) -> None:
        if self.T is None:
            raise ValueError("SCMDI needs the length of the stream: give T, half of it, or choose conversion='ocmdi'.")
        run.open_window()
        if self.T == 1:
            self.event(run, 0)

    def next_event(self, run: Any, n: int) -> int:
        return self.T - 1 if n < self.T - 1 else NEVER

    def event(self, run: Any, n: int) -> None:
        w_bar, b_bar, distance = _average(run)
        _compare(run, w_bar, b_bar, np.inf if self.least else distance / self.T, self.least)

    def finish(self, run: Any) -> Answer:
        if run.block.iterate:
            return _kept(run)
        run.warn(
            f"SCMDI chooses among iterates from the {self.T}th on; {run.t} examples gave none: the last "
            "iterate is used."
        )
        return Answer(*run.weights(), {"differences": _differences(run)})


def _weights(run: Any, t: int, n: int) -> np.ndarray:
    """Return the weights of the iterates t + 1, ..., t + n in the average.

    They are 1 without an L2 term.  An L2 term makes the objective strongly convex: they are (t+1)(t+2) eta_t, or t + 1
    where that term is in the gradient.
    """
    if not run.problem.penalty.rho > 0.0:
        return np.ones(n)
    number = np.arange(t + 1.0, t + n + 1.0)
    if run.optimizer.l2_in == "gradient":
        return number + 1.0
    return (number + 1.0) * (number + 2.0) * run.step.sizes(t, n)


def _average(run: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the average of all iterates, the current one included, and its divergence from it; settle the run."""
    run.optimizer.settle(run.problem, run.state, run.block, run.t)
    w, b = run.weights()
    weight = _weights(run, run.t, 1)[0]
    sums, bias = run.optimizer.layout.sums(run.problem, run.state)
    total = run.window_weight + weight
    w_bar, b_bar = (sums[: run.d, 0, :1] + weight * w) / total, (bias[0, :1] + weight * b) / total
    v = run.optimizer.dual(run.problem, run.state, run.block, run.t)[: run.d]
    distance = divergence(run.optimizer.mirror, w_bar[:, 0], v) + 0.5 * float((b_bar[0] - b[0]) ** 2)
    return w_bar, b_bar, distance


def _compare(run: Any, w_bar: np.ndarray, b_bar: np.ndarray, threshold: float, least: bool = False) -> None:
    """Compare all further steps with this average; the run must be settled."""
    run.block.compare_with(float(b_bar[0]), threshold, least)
    run.optimizer.compare(run.problem, run.state, run.block, w_bar[:, 0])


def _differences(run: Any) -> np.ndarray:
    """Return the differences of the last examples, at most 1000."""
    return run.block.differences[-REMEMBERED:].copy()


def _kept(run: Any) -> Answer:
    block = run.block
    w = run.optimizer.kept(run.problem, run.state, block)[: run.d, None]
    report = {
        "iterate": block.iterate,
        "difference": float(block.number[KEPT_DIFFERENCE]),
        "threshold": float(block.number[THRESHOLD]),
        "differences": _differences(run),
    }
    return Answer(w, np.array([block.number[KEPT_B]]), report)
