"""The contracts of phase two: the required and optional members of a conversion and of a rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from .part import NEVER, Contract, default, required, required_function
from .run_view import RunView

SAMPLE_NONZEROS = 1_000_000
"""The default number of nonzeros of the rows that a conversion or a rounding samples."""


class Conversion(Contract, kind="conversion"):
    """An online-to-batch conversion: the sums over the iterates, the events of a run, and the sparse answer."""

    is_rounding = default("bool", False, "Whether it is a rounding, which changes the answer of its base.")
    uniform = default("bool", True, "Whether all iterates count alike.")
    chooses_single_iterate = default("bool", False, "Whether it compares iterates and keeps one.")
    needs_epochs = default("bool", False, "Whether it needs an optimizer that works in epochs.")
    needs_gradient_sums = default("bool", False, "Whether it sums gradients.")
    forgets = default("bool", False, "Whether its iterates and rows may count less as they grow older: half_life.")
    needs_sample = default("bool", False, "Whether it needs a sample of the rows.")
    sample_nonzeros = default("number", SAMPLE_NONZEROS, "How large that sample may be.")
    keeps_before_last = default("bool", False, "Whether it needs the iterate before the last example.")
    joins_runs = default(
        "bool", False, "Whether finish_runs converts all runs of a model together, from the sample of the first run."
    )
    bounds_false_features = default("bool", False, "Whether it selects features with a bound on the false ones.")
    can_forget_features = default(
        "bool", True, "Whether features may leave a run: what it knows of them is in the run (max_features)."
    )
    by_row = default("record or None", None, "The splits and groups of the rows of one fit. None: there are none.")
    metric = default("text or None", None, "The metric of the map to a sparse vector. None: there is no such map.")
    L = default("number or None", None, "The scalar metric. None: it comes from the data.")
    last_factor = default("number", 1.0, "The factor of the metric.")

    @required_function
    def watch(self: Any, loss: Any) -> Any:
        """Return the sums that kernels keep for it: Nothing(), Iterates(), Gradients() or Curvatures()."""
        raise NotImplementedError

    @required_function
    def finish(self: Any, run: RunView) -> Any:
        """Return the Answer: weights (d, m), intercepts (m,) and a report; the run is only read."""
        raise NotImplementedError

    finish_runs = default("function or None", None, "finish_runs(runs): the answers of all runs. None: one by one.")
    sized = default("function or None", None, "sized(runs): models with fewer features. None: there are none.")

    def check(self: Any) -> None:
        """Raise a ValueError for invalid constants. By default all are valid."""

    def solves(self: Any, problem: Any) -> bool:
        """Return whether the answer is the optimum over the sample if that has all rows. By default no."""
        return False

    def for_length(self: Any, n: int) -> Any:
        """Return the conversion for a stream of n examples in all. By default itself: it does not depend on n."""
        return self

    def begin(self: Any, run: RunView) -> None:
        """Prepare a run before its first example. By default no change."""

    def next_event(self: Any, run: RunView, n: int) -> int:
        """Return the number of examples, above n, at which event is called. By default never."""
        return NEVER

    def event(self: Any, run: RunView, n: int) -> None:
        """Handle the event after n examples: open or rotate a window, start a gradient phase. By default no change."""

    def omega_of(self: Any, run: RunView, t: int, n: int) -> np.ndarray:
        """Return the weights of iterates t + 1, ..., t + n in the average: (n,). By default ones."""
        return np.ones(n)

    @property
    def base(self: Any) -> Any:
        """The conversion itself; for a rounding, the conversion whose answer it changes."""
        return self


class Rounding(Contract, kind="rounding"):
    """A rounding: it changes another conversion's answer, mostly to one with fewer features."""

    base = required("record", "The conversion whose answer is changed.")
    is_rounding = default("bool", True, "Whether it is a rounding.")
    reweights = default("bool", False, "Whether it solves weighted problems of each model, which may add features.")
    needs_sample = default("bool", False, "Whether it needs a sample of the rows.")
    sample_nonzeros = default("number", SAMPLE_NONZEROS, "How large that sample may be.")

    @required_function
    def round(self: Any, answer: Any, run: RunView) -> Any:
        """Return the changed answer; the run is only read."""
        raise NotImplementedError

    def check(self: Any) -> None:
        """Raise a ValueError for invalid constants. By default all are valid."""

    def suits(self: Any, penalty: Any, d: int) -> None:
        """Raise a ValueError for a penalty whose structure few features would undo. By default all are supported."""
