"""Phase two: online-to-batch conversions.

A conversion says what to sum over the iterates (``watch``, ``omega``), at which numbers of examples something happens
(``next_event``, ``event``), and turns the sums into one vector (``finish``).  The compiled kernels only ever sum; the
answer is asked for here.  When the length T of the stream is unknown, windows grow: see docs/notation.md.
"""

from __future__ import annotations

import math
import numbers
from typing import Any, NamedTuple

import numpy as np

from ..data.randomness import Purpose, uniform
from ..parts.contracts import Conversion, part
from ..parts.part import NEVER
from ..problem.state import Iterates, Nothing, padded

FIRST_WINDOW, LATER = 64, 1024


class Answer(NamedTuple):
    """A converted model: weights (d, m), intercepts (m,), and what was done."""

    w: np.ndarray
    b: np.ndarray
    report: dict[str, Any]


def next_doubling(n: int) -> int:
    """The smallest of 64, 128, 256, ... above n."""
    return FIRST_WINDOW if n < FIRST_WINDOW else 1 << n.bit_length()


def suffix_start(alpha: float, T: int) -> int:
    """How many examples come before the last ceil(alpha T)."""
    return T - math.ceil(alpha * T - 1e-9)


def next_window_event(alpha: float, T: int | None, n: int, growth: int = 2, later: int = 2) -> int:
    """When the next window opens; where T is unknown each ends at ``growth`` times the last, after 1024 ``later``."""
    if T is None:
        end = FIRST_WINDOW
        while end <= n:
            end *= growth if end < LATER else later
        return end
    start = suffix_start(alpha, T)
    return start if n < start else NEVER


def window_event(run: Any, T: int | None) -> None:
    if T is None:
        run.rotate_window()
    else:
        run.open_window()


def check_window(alpha: float, T: int | None) -> None:
    if not 0.0 < alpha <= 1.0:
        raise ValueError(f"alpha = {alpha}: the share of the stream that is averaged must be in (0, 1].")
    if T is not None and (not isinstance(T, numbers.Integral) or T < 1):
        raise ValueError(f"T = {T}: the length of the stream must be a whole number of at least 1, or None.")


@part(Conversion)
class Last(NamedTuple):
    """The iterate after the last example."""

    def watch(self, loss: Any) -> Any:
        return Nothing()

    def finish(self, run: Any) -> Answer:
        return Answer(*run.weights(), {})


@part(Conversion, power="iterate t counts t^power; 0: all alike")
class Average(NamedTuple):
    """The mean of all iterates, iterate t with weight t^power: 0 is the plain average."""

    power: float = 0.0

    def check(self) -> None:
        if not 0.0 <= self.power < math.inf:
            raise ValueError(f"Average(power={self.power}): the power must be a number of at least 0.")

    @property
    def uniform(self) -> bool:
        return self.power == 0

    def watch(self, loss: Any) -> Any:
        return Iterates()

    def begin(self, run: Any) -> None:
        run.open_window()

    def omega_of(self, run: Any, t: int, n: int) -> np.ndarray:
        return np.arange(t + 1.0, t + n + 1.0) ** self.power

    def finish(self, run: Any) -> Answer:
        means = run.means()
        return Answer(means.w, means.b, {"averaged": run.t})


@part(
    Conversion,
    alpha="the share of the stream that counts, its end",
    T="the length of the stream; None: windows that grow",
)
class Suffix(NamedTuple):
    """The mean of the last share alpha of the iterates; over doubling windows when T is not known."""

    alpha: float = 0.5
    T: int | None = None

    def check(self) -> None:
        check_window(self.alpha, self.T)

    def watch(self, loss: Any) -> Any:
        return Iterates()

    def begin(self, run: Any) -> None:
        if self.T is None or suffix_start(self.alpha, self.T) == 0:
            run.open_window()

    def next_event(self, run: Any, n: int) -> int:
        return next_window_event(self.alpha, self.T, n)

    def event(self, run: Any, n: int) -> None:
        window_event(run, self.T)

    def finish(self, run: Any) -> Answer:
        means = run.means()
        return Answer(means.w, means.b, {"averaged": int(means.n)})


@part(
    Conversion,
    alpha="the share of the stream that counts, its end",
    T="the length of the stream; None: windows that grow",
)
class RandomIterate(NamedTuple):
    """One iterate drawn uniformly from the last share alpha; from the doubling windows when T is not known."""

    alpha: float = 0.5
    T: int | None = None

    def check(self) -> None:
        check_window(self.alpha, self.T)

    def watch(self, loss: Any) -> Any:
        return Nothing()

    def begin(self, run: Any) -> None:
        run.snapshots = []
        if self.T is None or self._drawn(run) == 0:
            self.event(run, 0)

    def _drawn(self, run: Any) -> int:
        start = suffix_start(self.alpha, self.T)
        u = uniform(run.seed, Purpose.ITERATE, np.array([0]))[0]
        return start + int(u * (self.T - start))

    def next_event(self, run: Any, n: int) -> int:
        if self.T is not None:
            drawn = self._drawn(run)
            return drawn if n < drawn else NEVER
        end = next_doubling(n)
        start = 0 if end == FIRST_WINDOW else end // 2
        for first in range(n + 1, end, 1 << 16):  # row k of a window replaces the choice with probability 1/k
            numbers = np.arange(first, min(first + (1 << 16), end))
            hits = uniform(run.seed, Purpose.ITERATE, numbers) < 1.0 / (numbers - start + 1.0)
            if hits.any():
                return int(numbers[hits.argmax()])
        return end

    def event(self, run: Any, n: int) -> None:
        start = 0 if self.T is not None or n < FIRST_WINDOW else next_doubling(n) // 2
        kept = [s for s in run.snapshots if s[0] < start][-1:]
        run.snapshots = [*kept, (n, *run.weights())]

    def finish(self, run: Any) -> Answer:
        if not run.snapshots:
            run.warn(f"the random iterate lies beyond the {run.t} examples seen; the last iterate is returned.")
            return Answer(*run.weights(), {"iterate": run.t + 1})
        chosen = run.snapshots[-1]
        if len(run.snapshots) == 2:
            start = next_doubling(run.t) // 2
            before = start // 2 if start > FIRST_WINDOW else FIRST_WINDOW
            u = uniform(run.seed, Purpose.WINDOW, np.array([run.t]))[0]
            if u >= (run.t - start) / (run.t - start + before):
                chosen = run.snapshots[0]
        return Answer(padded(chosen[1], run.d), chosen[2], {"iterate": chosen[0] + 1})


def next_long_window(conversion: Any, run: Any, n: int) -> int:
    """Windows that grow fourfold and, once early iterates are not far off, sixteenfold: the map corrects what those do
    to the mean, so that more rows count; with the window before, at least 3 in 4 of them, later 15 in 16."""
    return next_window_event(conversion.alpha, conversion.T, n, growth=4, later=16)


@part(Conversion, complete="whether the last complete epoch counts, or the one under way")
class LastEpoch(NamedTuple):
    """The mean over the last epoch, of an optimizer that works in epochs: the last that is complete, as papers have
    it, or with ``complete=False`` the one under way, which leaves no example out and begins at the mean before it."""

    complete: bool = True

    needs_epochs = True

    def watch(self, loss: Any) -> Any:
        return Nothing()

    def begin(self, run: Any) -> None:
        run.snapshots = []

    def next_event(self, run: Any, n: int) -> int:
        return run.optimizer.next_epoch(n)

    def event(self, run: Any, n: int) -> None:
        run.snapshots = [(n, *run.weights())]  # an epoch starts from the mean over the one before

    def finish(self, run: Any) -> Answer:
        if not self.complete:
            return Answer(*run.epoch_mean(), {"epoch_end": run.t})
        now = run.weights()
        if run.t == self.next_event(run, max(run.t - 1, 0)):  # an epoch ends with the last example
            return Answer(*now, {"epoch_end": run.t})
        if not run.snapshots:
            first = self.next_event(run, 0)
            run.warn(f"the first epoch, {first} examples, is not over after {run.t}; the last iterate is returned.")
            return Answer(*now, {})
        end, w, b = run.snapshots[0]
        return Answer(padded(w, run.d), b, {"epoch_end": end})
