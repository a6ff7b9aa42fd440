"""Roundings: conversions that change the answer of another conversion, mostly to one with fewer features."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np

from ..parts.contracts import Rounding, part
from ..parts.part import kind_of
from ..penalties import ElasticNet, WeightedElasticNet, with_strength
from .averaging import Answer, Last
from .reweighting import reweighted
from .thinning import allowed, check_target, keep_largest_rows, thinned, tied


@part(Rounding, level="weights of at most this size become zero")
class Threshold(NamedTuple):
    """Rounding by a threshold: after another conversion, weights of magnitude at most ``level`` become zero.

    Parameters
    ----------
    level : float
        The threshold, at least 0.
    base : conversion
        The conversion whose answer is rounded.
    """

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
    """Rounding to the top k: after another conversion, all but the k largest weights of each model become zero.

    Parameters
    ----------
    k : int
        The number of weights of each model that remain, at least 1.
    base : conversion
        The conversion whose answer is rounded.
    """

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
    target="(eps, delta): their product is what the draws may add to the loss on average",
    trials="random draws, of which the best counts",
    refit="whether the weights that remain are learned anew",
)
class Sparsify(NamedTuple):
    """Sparsification to at most ``k`` features of each model, or to as many as a target risk needs.

    All of it runs on a sample of the stream of at most four million nonzeros.  With a row-group penalty, ``k`` counts
    the features of all models together.

    Parameters
    ----------
    k : int or None
        The number of features that remain.  Give either ``k`` or ``target``.
    base : conversion
        The conversion whose answer is sparsified.
    how : {"top-k", "dd", "mg"}
        "top-k" keeps the largest |w_j| rms(x_j).  "dd" and "mg" draw features at random, with probabilities
        proportional to |w_j| rms(x_j) and to |w_j|, and keep the best of ``trials`` draws on held-out rows.
    target : (eps, delta) or None
        So many draws that they add at most eps * delta to the loss on average.  The probability of Theorem 3 of the
        paper does not hold in general (see ``thinning.draws_needed``).
    trials : int
        The number of random draws, of which the best is kept.
    refit : bool
        Whether the remaining weights are learned again, with an L2 term chosen on held-out rows.  They stay inside
        the bounds or the L2 ball of the penalty, if any, but not inside an L1 ball, which belongs to phase one only.
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

    def suits(self, penalty: Any, d: int) -> None:
        """Raise for a penalty whose structure the selection of few features would undo, or that allows no zeros."""
        tied(penalty)
        if penalty.kind == "separable" and not penalty.strength_is_open:
            allowed(penalty, np.zeros((d, 1)))

    def round(self, answer: Answer, run: Any) -> Answer:
        w, b, reports = thinned(self, answer.w, answer.b, run.problem, run.sample().R, run.seed)
        return Answer(w, b, {**answer.report, "sparsified": reports})


@part(Rounding, penalty="the penalty, such as MCP(); where its lam is None, that of phase one")
class Reweighted(NamedTuple):
    """Reweighted L1: after another conversion, weighted elastic nets that approximate a penalty that is not convex.

    They are solved on a sample of the stream of at most four million nonzeros.

    Parameters
    ----------
    penalty : MCP or Adaptive
        The penalty.  Its strength is that of phase one.
    base : conversion
        The conversion whose answer is the start.
    """

    penalty: Any
    base: Any = Last()

    reweights = True
    needs_sample = True
    sample_nonzeros = 4_000_000

    def check(self) -> None:
        name = type(self.penalty).__name__
        if kind_of(self.penalty) != "penalty" or not self.penalty.rounds:
            raise ValueError(f"Reweighted(penalty={name}): it must be a penalty with weights, such as MCP().")
        if kind_of(self.base) != "conversion":
            raise ValueError(
                f"penalty={name} and {type(self.base).__name__} both change the answer of phase two: leave out budget, "
                "target_excess_risk or the rounding."
            )

    def suits(self, penalty: Any, d: int) -> None:
        """Raise for invalid constants, and for a phase one without an elastic net or without an L1 term."""
        self.penalty.check(d)
        name = type(self.penalty).__name__
        if penalty.record not in (ElasticNet, WeightedElasticNet):
            raise ValueError(f"{name} starts from an elastic net, not from {penalty.record.__name__}.")
        if not penalty.has_strength:
            raise ValueError(f"{name} needs an L1 weight above 0: raise alpha or l1_ratio.")

    def round(self, answer: Answer, run: Any) -> Answer:
        return reweighted(run, with_strength(self.penalty, run.problem.penalty), answer)


def with_weights(penalty: Any, conversion: Any) -> Any:
    """Return a conversion with the weighted problems of a penalty, a record or a class, if it has any."""
    if not penalty.rounds:
        return conversion
    return Reweighted(penalty() if isinstance(penalty, type) else penalty, conversion)


def _check_base(rounding: Any) -> None:
    if kind_of(rounding.base) != "conversion":
        raise ValueError(f"{type(rounding).__name__}(base={rounding.base!r}): the base is another conversion's record.")
