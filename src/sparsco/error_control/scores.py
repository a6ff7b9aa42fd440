"""From selection probabilities along a path to expected false positives and q-values.

With B pairs of halves, pi_j(lam) is the share of the 2B halves that select feature j at strength lam, and q(lam) the
mean number of features that a half selects.

    score_j = sum_k mu_k h(pi_j(lam_k)),    h(x) = (2x - 1)^2 above 1/2, else 0
    I       = sum_k mu_k b(q(lam_k)),       b(q) = q^2 / (p B) + (B - 1) q^4 / (B p^3)
    efp_j   = max(I / score_j, p P(|Z| > z_j)),    at most p

mu is a measure on the strengths, uniform in lam^(1 - delta), of mass one on the strengths in use: those from the
largest on for which I stays below a limit.  E(FP) <= I / t if features with a score of at least t are selected.  Scores
are at most 1, so a small limit serves a strict target, and a large one finds more features where the target allows it.

The bound takes pairs for independent of each other.  They are not: all of them share the rows.  So it is too small
where few features are true.  The second term is what chance gives in a normal model: a column that does not matter has
a normal Z in all rows, its halves have (Z + W) / sqrt(2) and (Z - W) / sqrt(2) with W of the draw, and they select it
where these exceed what makes q of p columns selected.  z_j is the Z that gives the score of feature j with infinitely
many pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr, ndtri

LIMITS = 0.05, 0.4
"""The least and the largest limit of I."""
_Z = np.arange(0.0, 40.0, 0.01)
"""Values of Z at which scores are computed."""


class StabilityPaths(NamedTuple):
    """How many of the halves selected each feature at each strength."""

    strengths: np.ndarray
    """The strengths, from the largest on, (strengths,)."""
    counts: sp.csr_array
    """The number of halves that selected a feature, (strengths, features)."""
    sizes: np.ndarray
    """The mean number of features that a half selected, (strengths,)."""
    pairs: int
    """The number of pairs of halves."""
    judged: int
    """The number of features that were judged."""
    delta: float
    """The exponent of the measure on the strengths: 1 is uniform in log lam, 0 in lam."""
    limit: float
    """The limit of I, at which the range of strengths ends."""
    ladder: np.ndarray = np.zeros(0)
    """The expected false positives of all judged features that have a score, in ascending order."""

    @property
    def measure(self) -> np.ndarray:
        """Return the mass of each strength in use; there are fewer of these than strengths, if the integral ends."""
        return measure_of(self.strengths, self.sizes, self.judged, self.pairs, self.delta, self.limit)

    @property
    def integral(self) -> float:
        """Return I, the integral of the bound over the strengths in use."""
        mu = self.measure
        return float((mu * bound(self.sizes[: len(mu)], self.judged, self.pairs)).sum())

    def scores(self) -> np.ndarray:
        """Return the score of each feature, between 0 and 1."""
        mu, found = self.measure, np.zeros(self.counts.shape[1])
        for k, mass in enumerate(mu.tolist()):
            part = slice(self.counts.indptr[k], self.counts.indptr[k + 1])
            share = self.counts.data[part] / (2.0 * self.pairs)
            found[self.counts.indices[part]] += mass * np.square(np.maximum(2.0 * share - 1.0, 0.0))
        return found

    def expected_false_positives(self) -> np.ndarray:
        """Return efp_j: how many false features are expected among those that are at least as stable as j."""
        scores, p = self.scores(), float(self.judged)
        bounded = np.divide(self.integral, scores, out=np.full(len(scores), p), where=scores > 0.0)
        return np.minimum(np.maximum(bounded, self._by_chance(scores)), p)

    def _by_chance(self, scores: np.ndarray) -> np.ndarray:
        """Return how many columns that do not matter have at least each score in a normal model.

        The features whose score is above one half are not counted among those that chance selects.
        """
        mu, p, sure = self.measure, float(self.judged), np.flatnonzero(scores > 0.5)
        others, rest = self.sizes[: len(mu)], max(p - len(sure), 1.0)
        if sure.size:
            own = self.counts[: len(mu)][:, sure].sum(axis=1) / (2.0 * self.pairs)
            others = np.maximum(others - own, 0.0)
        level = -np.sqrt(2.0) * ndtri(0.5 * np.clip(others / rest, 1e-300, 1.0))
        share = ndtr(_Z[:, None] - level) + ndtr(-_Z[:, None] - level)
        reached = np.maximum.accumulate((mu * np.square(np.maximum(2.0 * share - 1.0, 0.0))).sum(1))
        z = np.interp(scores, reached, _Z)
        return np.where(scores > 0.0, 2.0 * p * ndtr(-z), p)

    def serving(self, target: Target) -> StabilityPaths:
        """Return the paths with the limit that serves a target, up to the present one, and with their ladder.

        The features that pass at the least limit decide.
        """
        count = len(target.selected(self._replace(limit=LIMITS[0]).with_ladder()))
        return self._replace(limit=min(target.limit(count), self.limit)).with_ladder()

    def probabilities(self) -> np.ndarray:
        """Return the largest share of halves that select each feature, over the strengths in use."""
        used = self.counts[: len(self.measure)]
        return used.max(axis=0).toarray().ravel() / (2.0 * self.pairs) if used.shape[0] else np.zeros(used.shape[1])

    def q_values(self) -> np.ndarray:
        """Return for each feature the least estimated share of false features among selections that have it."""
        return q_values(self.expected_false_positives(), self.ladder)

    def with_ladder(self) -> StabilityPaths:
        """Return the paths with the ladder of their features, which must all be judged."""
        efp = self.expected_false_positives()
        return self._replace(ladder=np.sort(efp[efp < self.judged]))

    def at(self, features: np.ndarray) -> StabilityPaths:
        """Return the paths of some features."""
        return self._replace(counts=sp.csr_array(self.counts[:, features]))


class Target(NamedTuple):
    """The promise: the expected number of false features, or their share among the selected ones."""

    fdr: float | None
    efp: float | None

    def selected(self, paths: StabilityPaths) -> np.ndarray:
        """Return the features that keep the promise, in ascending order."""
        efp = paths.expected_false_positives()
        stable = efp < paths.judged
        kept = efp <= self.efp if self.efp is not None else paths.q_values() <= self.fdr
        return np.flatnonzero(kept & stable)

    def limit(self, count: int) -> float:
        """Return the limit of the integral that serves the target, if about so many features are stable.

        Expected false positives are at least the integral, so few features need a small one.  Many features, or a
        target that allows more false ones, are better served by a larger one, which reaches down to weaker features.
        """
        share = self.efp / 10.0 if self.efp is not None else count * (self.fdr or 0.0) / 8.0
        return float(np.clip(share, *LIMITS))

    def promised(self, count: int) -> float:
        """Return how many of so many selected features may be false."""
        return self.efp if self.efp is not None else count * (self.fdr or 0.0)

    def __str__(self) -> str:
        return f"efp={self.efp:g}" if self.efp is not None else f"fdr={self.fdr:g}"


def bound(q: np.ndarray, p: int, pairs: int) -> np.ndarray:
    """Return b(q), which bounds the expected sum of h over features that do not matter."""
    p = max(p, 1)
    return np.square(q) / (p * pairs) + (pairs - 1) / pairs * q * (q / p) ** 3


def measure_of(strengths: np.ndarray, sizes: np.ndarray, p: int, pairs: int, delta: float, limit: float) -> np.ndarray:
    """Return the mass of each strength in use, which sum to 1; strengths are in geometric progression.

    >>> measure_of(np.array([4.0, 2.0, 1.0]), np.array([0.0, 1.0, 90.0]), 100, 50, 0.0, 0.05).round(3)
    array([0.667, 0.333])
    """
    mass = strengths ** (1.0 - delta)
    total = np.cumsum(mass)
    integrals = np.cumsum(mass * bound(sizes, p, pairs)) / total
    beyond = np.flatnonzero(integrals > limit)
    used = int(beyond[0]) if beyond.size else len(strengths)
    return mass[:used] / (total[used - 1] if used else 1.0)


def q_values(efp: np.ndarray, ladder: np.ndarray) -> np.ndarray:
    """Return for each feature the least estimated share of false features among selections that have it.

    For every t on the ladder, the features with expected false positives of at most t are a selection.  The share is t
    over their number, at most 1.

    >>> q_values(np.array([0.1, 8.0, 0.4, 0.2, 9.0]), np.array([0.1, 0.2, 0.4, 8.0])).round(3)
    array([0.1  , 1.   , 0.133, 0.1  , 1.   ])
    """
    share = np.minimum(ladder / np.searchsorted(ladder, ladder, side="right"), 1.0)
    least = np.minimum.accumulate(share[::-1])[::-1]
    return np.append(least, 1.0)[np.searchsorted(ladder, efp, side="left")]
