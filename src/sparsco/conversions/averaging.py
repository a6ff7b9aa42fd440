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
from ..parts.contracts import NEVER, Conversion, Rounding, kind_of, part
from ..problem.state import Curvatures, Gradients, Iterates, Nothing, is_coupled, padded
from . import metric, metric_coupled
from .thinning import allowed, check_target, keep_largest_rows, thinned, tied

FIRST_WINDOW, _LATER = 64, 1024


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


def _next_window_event(alpha: float, T: int | None, n: int, growth: int = 2, later: int = 2) -> int:
    """When the next window opens; where T is unknown each ends at ``growth`` times the last, after 1024 ``later``."""
    if T is None:
        end = FIRST_WINDOW
        while end <= n:
            end *= growth if end < _LATER else later
        return end
    start = suffix_start(alpha, T)
    return start if n < start else NEVER


def _window_event(run: Any, T: int | None) -> None:
    if T is None:
        run.shift()
    else:
        run.open()


def _check_window(alpha: float, T: int | None) -> None:
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
        run.open()

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
        _check_window(self.alpha, self.T)

    def watch(self, loss: Any) -> Any:
        return Iterates()

    def begin(self, run: Any) -> None:
        if self.T is None or suffix_start(self.alpha, self.T) == 0:
            run.open()

    def next_event(self, run: Any, n: int) -> int:
        return _next_window_event(self.alpha, self.T, n)

    def event(self, run: Any, n: int) -> None:
        _window_event(run, self.T)

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
        _check_window(self.alpha, self.T)

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


def _next_long_window(conversion: Any, run: Any, n: int) -> int:
    """Windows that grow fourfold and, once early iterates are not far off, sixteenfold: the map corrects what those do
    to the mean, so that more rows count; with the window before, at least 3 in 4 of them, later 15 in 16."""
    return _next_window_event(conversion.alpha, conversion.T, n, growth=4, later=16)


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


@part(
    Conversion,
    alpha="the share of the stream that counts, its end",
    T="the length of the stream; None: windows that grow",
)
class AverageSL(NamedTuple):
    """argmin <g_bar, w> + ||w - w_bar||_M^2 / 2 + psi(w): averaging that keeps exact zeros.

    ``L`` is the papers' scalar metric.  Left at None, the metric comes from the data: ``metric`` names it, and "auto"
    tries newton, diagonal and scalar on a sample of the stream behind a guard.
    """

    alpha: float = 0.5
    T: int | None = None
    L: float | None = None
    metric: str = "auto"

    needs_gradient_sums = True

    def check(self) -> None:
        _check_sparse_learning(self)

    @property
    def needs_sample(self) -> bool:
        return _samples(self)

    def watch(self, loss: Any) -> Any:
        return _gradient_watch(self, loss)

    begin, next_event, event = Suffix.begin, _next_long_window, Suffix.event

    def finish(self, run: Any) -> Answer:
        means = run.means()
        return map_to_sparse(self, run, means, means.w, means.b)


@part(
    Conversion,
    alpha="the share of the stream that counts, its end",
    T="the length of the stream; None: windows that grow",
)
class LastSL(NamedTuple):
    """The same map around w_T, the iterate before the last example, with the metric times ``last_factor``."""

    alpha: float = 0.5
    T: int | None = None
    L: float | None = None
    metric: str = "auto"
    last_factor: float = 1.0

    needs_gradient_sums = True
    keeps_before_last = True

    def check(self) -> None:
        _check_sparse_learning(self)
        if not self.last_factor > 0.0:
            raise ValueError(f"LastSL(last_factor={self.last_factor}): the factor must be positive.")
        if self.last_factor != 1.0 and self.L is None and self.metric != "diagonal":
            raise ValueError(f"LastSL(last_factor={self.last_factor}) needs a number L or metric='diagonal'.")

    @property
    def needs_sample(self) -> bool:
        return _samples(self)

    def watch(self, loss: Any) -> Any:
        return _gradient_watch(self, loss)

    begin, next_event, event = Suffix.begin, _next_long_window, Suffix.event

    def finish(self, run: Any) -> Answer:
        return map_to_sparse(self, run, run.means(), *run.weights_before_last(), self.last_factor)


@part(
    Conversion,
    alpha="the share of the stream for the gradient phase, its end",
    T="the length of the stream; None: windows that grow",
    inner="the share of the learning phase that is averaged; None: alpha",
)
class OptimalSL(NamedTuple):
    """Average the iterates of a first part, take the mean gradient at that fixed average over the rest, then the map.

    ``inner`` is the share of the first part that is averaged (alpha when None).  When T is not known, learning and
    gradient phases alternate in doubling windows.
    """

    alpha: float = 0.5
    T: int | None = None
    L: float | None = None
    metric: str = "auto"
    inner: float | None = None

    def check(self) -> None:
        _check_sparse_learning(self)
        if self.inner is not None:
            _check_window(self.inner, None)

    @property
    def needs_sample(self) -> bool:
        return _samples(self)

    def watch(self, loss: Any) -> Any:
        return Iterates()

    def _known(self) -> tuple[int, int]:
        """When averaging starts and when learning ends."""
        learned = suffix_start(self.alpha, self.T)
        return suffix_start(self.alpha if self.inner is None else self.inner, learned), learned

    def begin(self, run: Any) -> None:
        if self.T is not None:
            self.event(run, 0)

    def next_event(self, run: Any, n: int) -> int:
        if self.T is not None:
            return next((event for event in self._known() if event > n), NEVER)
        end = next_doubling(n)
        middle = end - end // 4
        return middle if FIRST_WINDOW <= n < middle else end

    def event(self, run: Any, n: int) -> None:
        averaging, learned = (-1, -1) if self.T is None else self._known()
        doubled = self.T is None and n & (n - 1) == 0
        if doubled or n == averaging:
            run.open()
        if n == learned or (self.T is None and not doubled):
            run.fix()

    def finish(self, run: Any) -> Answer:
        fixed = run.fixed_point()
        if fixed is None:
            run.warn(f"{run.seen} examples left none for OptimalSL's gradient phase; the last iterate is returned.")
            return Answer(*run.weights(), {})
        return map_to_sparse(self, run, fixed, fixed.w, fixed.b)


@part(Rounding, level="weights of at most this size become zero")
class Threshold(NamedTuple):
    """Rounding: after another conversion, weights of magnitude at most ``level`` become zero."""

    level: float
    base: Any = Last()

    def check(self) -> None:
        if not self.level >= 0.0:
            raise ValueError(f"Threshold(level={self.level}): the level must be at least 0.")
        _check_base(self)

    def round(self, answer: Answer, run: Any) -> Answer:
        return answer._replace(w=np.where(np.abs(answer.w) > self.level, answer.w, 0.0))


@part(Rounding, k="how many weights of each model remain")
class TopK(NamedTuple):
    """Rounding: after another conversion, all but the k largest weights of each model become zero."""

    k: int
    base: Any = Last()

    def check(self) -> None:
        if not isinstance(self.k, numbers.Integral) or self.k < 1:
            raise ValueError(f"TopK(k={self.k!r}): k is a whole number of features, at least one.")
        _check_base(self)

    def round(self, answer: Answer, run: Any) -> Answer:
        kept = [keep_largest_rows(w[:, None], self.k, np.ones(len(w)))[:, 0] for w in answer.w.T]
        return answer._replace(w=np.stack(kept, 1))


@part(
    Rounding,
    k="how many features remain; None: as many as the target needs",
    how="'top-k': the largest; 'dd' or 'mg': random draws",
    target="(eps, delta): an excess risk to stay below, and the probability of failing to",
    trials="random draws, of which the best counts",
    refit="whether the weights that remain are learned anew",
)
class Sparsify(NamedTuple):
    """After another conversion at most ``k`` features of each model (row-group: of all together), or as many as a
    target needs.

    ``how``: "top-k" keeps the largest |w_j| rms(x_j); "dd" and "mg" draw features at random, with probabilities in
    proportion to that or to |w_j|, and keep the best of ``trials`` on held-out rows.  ``target``, (eps, delta): as many
    draws as keep the excess risk below eps with probability 1 - delta (Theorem 3; see ``thinning.draws_needed``).
    ``refit``: the kept weights are learned anew, with an L2 term chosen on held-out rows, inside the bounds or the L2
    ball of the penalty if it has such (not inside an L1 ball, which is stage one's).  All of it on a sample of the
    stream of at most four million nonzeros.
    """

    k: int | None = None
    base: Any = Last()
    how: str = "top-k"
    target: tuple[float, float] | None = None
    trials: int = 10
    refit: bool = True

    needs_sample = True
    sample_nonzeros = 4_000_000

    def check(self) -> None:
        if (self.k is None) == (self.target is None):
            raise ValueError("Sparsify needs either k, a number of features, or target=(eps, delta).")
        if self.k is not None and (not isinstance(self.k, numbers.Integral) or self.k < 1):
            raise ValueError(f"Sparsify(k={self.k!r}): k is a whole number of features, at least one.")
        if self.how not in ("top-k", "dd", "mg"):
            raise ValueError(f"Sparsify(how={self.how!r}): choose 'top-k', 'dd' or 'mg'.")
        if self.target is not None:
            check_target(self.target)
        if not isinstance(self.trials, numbers.Integral) or self.trials < 1:
            raise ValueError(f"Sparsify(trials={self.trials!r}): at least one draw is needed.")
        _check_base(self)

    def suits(self, regularizer: Any, d: int) -> None:
        """Refuse penalties that few features would undo, or that allow no zeros."""
        tied(regularizer)
        if regularizer.kind == "separable" and not regularizer.strength_is_open:
            allowed(regularizer, np.zeros((d, 1)))

    def round(self, answer: Answer, run: Any) -> Answer:
        w, b, reports = thinned(self, answer.w, answer.b, run.problem, run.sample().R, run.seed)
        return Answer(w, b, {**answer.report, "sparsified": reports})


METRICS = ("auto", "newton", "diagonal", "scalar")


def _check_base(rounding: Any) -> None:
    if kind_of(rounding.base) != "conversion":
        raise ValueError(f"{type(rounding).__name__}(base={rounding.base!r}): the base is another conversion's record.")


def _check_sparse_learning(conversion: Any) -> None:
    _check_window(conversion.alpha, conversion.T)
    if conversion.metric not in METRICS:
        raise ValueError(f"metric={conversion.metric!r}: choose one of {', '.join(METRICS)}.")
    if conversion.L is not None and not conversion.L > 0.0:
        raise ValueError(f"L = {conversion.L}: the scalar metric must be positive.")


def _samples(conversion: Any) -> bool:
    """Whether the metric needs a sample of the stream."""
    return conversion.L is None and conversion.metric != "diagonal"


def _gradient_watch(conversion: Any, loss: Any) -> Any:
    return Curvatures() if conversion.L is None and loss.curved else Gradients()


def map_to_sparse(conversion: Any, run: Any, means: Any, w: np.ndarray, b: np.ndarray, factor: float = 1.0) -> Answer:
    """The map S(w - g/M, lam pen/M) around (w, b), lane by lane, with the conversion's metric M times ``factor``.

    Where lanes or features are tied together it is one map of the whole matrix: ``joint``.
    """
    problem = run.problem
    rho = problem.regularizer.rho
    last = run.weights()
    if means.n == 0:  # no window yet, as means() has said
        return Answer(*last, {})
    sample = run.sample()
    if is_coupled(problem):
        evidence = metric.Evidence(
            *last, w, b, means.g + rho * (means.w - w), means.gb, means.H, means.Hb, means.n, run.t, run.pilot.L_mean
        )
        choice = metric_coupled.convert(conversion, problem, evidence, sample, factor)
        if choice.name == "last":
            _warn_if_shrinking(run, last[0])
        chosen = [{"metric": choice.name, "objectives": choice.objectives}]
        return Answer(choice.w, choice.b, {"averaged": int(means.n), "chosen": chosen})
    out_w, out_b, chosen = np.zeros_like(w), b.copy(), []
    for q in range(problem.m):
        evidence = metric.Evidence(
            last[0][:, q], last[1][q], w[:, q], b[q], means.g[:, q] + rho * (means.w[:, q] - w[:, q]), means.gb[q],
            None if means.H is None else means.H[:, q], 0.0 if means.H is None else means.Hb[q],
            means.n, run.t, run.pilot.L_mean,
        )  # fmt: skip
        own = problem._replace(regularizer=problem.regularizer_of(q), lams=None)
        choice = _choice(conversion, own, evidence, sample and sample.lane(q), factor)
        out_w[:, q], out_b[q] = choice.w, choice.b
        chosen.append({"metric": choice.name, "objectives": choice.objectives})
    if any(each["metric"] == "last" for each in chosen):
        _warn_if_shrinking(run, last[0])
    return Answer(out_w, out_b, {"averaged": int(means.n), "chosen": chosen})


def _warn_if_shrinking(run: Any, w: np.ndarray) -> None:
    """A last iterate that is returned as the model should have settled on its features."""
    looks = [look for look in run.history if 2 * look["t"] <= run.seen]
    now = np.count_nonzero(w)
    if looks and now < 0.8 * looks[-1]["nonzeros"]:
        run.warn(
            f"the model still lost features, {looks[-1]['nonzeros']:.0f} after {looks[-1]['t']:.0f} examples and {now} "
            f"after {run.seen}: more passes (max_iter) or more rows would sharpen the selection."
        )


def _choice(conversion: Any, problem: Any, evidence: Any, sample: Any, factor: float) -> metric.Choice:
    if conversion.L is not None:
        L = float(conversion.L) * factor
        model = metric.shrunk(evidence, problem.regularizer, L, L, problem.intercept)
        return metric.Choice(*model, "scalar", {"L": L})
    if conversion.metric == "diagonal":
        model = metric.diagonal(evidence, problem.regularizer, problem.intercept, factor)
        return metric.Choice(*model, "diagonal", {})
    arguments = evidence, problem.loss, problem.regularizer, sample, problem.intercept
    if conversion.metric == "auto":
        return metric.choose(*arguments)
    build = {"newton": metric.newton, "scalar": metric.scalar}[conversion.metric]
    return metric.Choice(*build(*arguments), conversion.metric, {})
