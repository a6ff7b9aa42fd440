"""Conversions that average the iterates or draw one of them, and the windows that they use.

A conversion declares which sums over the iterates are kept (``watch``, ``omega``).  It declares the numbers of examples
at which an event happens (``next_event``, ``event``).  ``finish`` turns the sums into one vector.  The compiled kernels
only add to the sums.  When the length T of the stream is unknown, the windows grow: see docs/notation.md.
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

FIRST_WINDOW, FIRST_LONG_WINDOW = 64, 256


class Answer(NamedTuple):
    """A converted model: weights (d, m), intercepts (m,), and a report of the conversion."""

    w: np.ndarray
    b: np.ndarray
    report: dict[str, Any]
    sizes: Any = ()
    """Further models of all runs with fewer features; None: the conversion finds them on demand (``sized``)."""
    stability: Any = None
    """The StabilityPaths of the features of all runs, where the conversion has them."""
    unlearned: Any = None
    """Margins of all models (rows, models), y and weights of rows that were not learned, where they are asked for."""


def next_doubling(n: int) -> int:
    """Return the smallest of 64, 128, 256, ... above n."""
    return FIRST_WINDOW if n < FIRST_WINDOW else 1 << n.bit_length()


def suffix_start(alpha: float, T: int) -> int:
    """Return the number of examples before the last ceil(alpha T)."""
    return T - math.ceil(alpha * T - 1e-9)


def next_window_event(alpha: float, T: int | None, n: int, first: int = FIRST_WINDOW, growth: int = 2) -> int:
    """Return the number of examples at which the next window opens.

    When T is unknown, the first window ends at ``first``, and each other one at ``growth`` times the end of the window
    before it.
    """
    if T is None:
        end = first
        while end <= n:
            end *= growth
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
    """The last iterate w_{T+1}, without averaging."""

    forgets = True

    def watch(self, loss: Any) -> Any:
        return Nothing()

    def finish(self, run: Any) -> Answer:
        w, b = run.weights()
        is_model = run.rounding is run.problem.lams is None and not run.is_start
        if is_model and run.optimizer.keeps_recent_features:
            _warn_of_recent_features(run, w)
        return Answer(w, b, {})


_LONG, _RECENT = 4096, 8
"""The least number of examples, and the share of the last of them, for which recent features are counted."""


def _warn_of_recent_features(run: Any, w: np.ndarray) -> None:
    """Warn if a tenth or more of the features have weights that one eighth of the examples would have shrunk to zero.

    A touch moves a weight by eta |c x|, and each example shrinks it by eta lam.  So a feature stays for |c x| / lam
    examples after its last touch, for any steps: smaller ones would not remove it.
    """
    shrunk = run.problem.penalty.lam * float(run.step.sizes(run.t - 1, 1)[0]) * (run.t // _RECENT)
    sizes = np.abs(w[w.any(1)])
    recent = int(np.count_nonzero(sizes.max(1, initial=0.0) <= shrunk))
    if run.t >= _LONG and 10 * recent >= max(len(sizes), 1):
        run.warn(
            f"{recent} of {len(sizes)} features rest on the last eighth of the examples, and a last iterate keeps such "
            "features: use conversion='average-sl' or optimizer='nftrl'."
        )


@part(Conversion, power="iterate t counts (t + 1)^power; 0: all alike")
class Average(NamedTuple):
    """The average of all iterates, weighted by (t + 1)^power.

    Parameters
    ----------
    power : float
        Iterate t has the weight (t + 1)^power.  0 gives the uniform average.
    """

    power: float = 0.0

    forgets = True

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
        return np.arange(t + 2.0, t + n + 2.0) ** self.power

    def finish(self, run: Any) -> Answer:
        means = run.means()
        return Answer(means.w, means.b, {"averaged": run.t})


@part(
    Conversion,
    alpha="the share of the stream that counts, its end",
    T="the length of the stream; None: windows that grow",
)
class Suffix(NamedTuple):
    """The suffix average: the mean of the last share alpha of the iterates.

    Parameters
    ----------
    alpha : float
        The share of the iterates, at the end of the stream, that is averaged.  In (0, 1].
    T : int or None
        The length of the stream.  None: the mean is taken over windows that double.
    """

    alpha: float = 0.5
    T: int | None = None

    forgets = True

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
    """A random iterate, drawn uniformly from the last share alpha of the iterates.

    Parameters
    ----------
    alpha : float
        The share of the iterates, at the end of the stream, that can be drawn.  In (0, 1].
    T : int or None
        The length of the stream.  None: the iterate is drawn from windows that double.
    """

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
    """Return the next event of windows that end at 256 examples and grow sixteenfold.

    The map of ``sparse_learning`` corrects the effect of early iterates on the mean.  Long windows use more rows:
    together with the window before, at least 15 in 16 of them.
    """
    return next_window_event(conversion.alpha, conversion.T, n, FIRST_LONG_WINDOW, growth=16)


@part(Conversion, complete="whether the last complete epoch counts, or the one under way")
class LastEpoch(NamedTuple):
    """The mean over the last epoch of an optimizer that works in epochs.

    Parameters
    ----------
    complete : bool
        True: the last complete epoch, as in the papers.  False: the current epoch, so that no example is left out; this
        epoch begins at the mean over the epoch before it.
    """

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
