"""Stabilized truncated SGD (Ma and Zheng): bursts, informative truncation, purging, annealed gravity.

These are their algorithms 1 to 4, with the misprints resolved as in docs/notation.md.  A burst is K plain SGD steps on
the stable set and then a pull w_j <- S(w_j, g0 k_j).  Here k_j is the number of its examples that have feature j.

A stage is n_K bursts on each of M paths.  Then features whose weight survived too few of the bursts that they appeared
in are purged.  The gravity g0 becomes the beta-quantile of |dw_j| / k_j, with beta annealed as the model gets sparse.
"""

from __future__ import annotations

import math
import numbers
from typing import Any, NamedTuple

import numpy as np

from ...data.randomness import Purpose, key
from ...data.rows import Matrix
from ...jit.dispatch import U, kernel
from ...losses import derivative
from ...parts.part import part
from ...util.threads import Pool
from .method import SelectionMethod
from .paths import Examples, shuffle

MANY_ROWS = 10_000


@part(
    SelectionMethod,
    eta="the step",
    K="examples in a burst; None: 5, from 10,000 rows on 50",
    bursts="bursts in a stage",
    beta0="the rejection rate",
    gamma="how fast the rejection rate falls",
    pi0="the purging threshold",
    delta="the evidence that a feature must exceed to be judged",
    alpha="lets K grow; None: it stays",
)
class Stabilized(NamedTuple):
    """Stabilized truncated SGD (Ma and Zheng), with its constants.

    They are the step ``eta``, the burst size ``K`` (None: 5, from 10,000 rows on 50), ``bursts`` in a stage, ``paths``
    and ``passes``.  ``beta0`` is the rejection rate and ``gamma`` its annealing rate.  ``pi0`` is the purging threshold
    and ``delta`` the evidence that a feature must exceed to be judged.  ``alpha`` lets K grow as K log(1 / (alpha d));
    with None K stays.
    """

    eta: float = 0.1
    K: int | None = None
    bursts: int = 5
    paths: int = 16
    beta0: float = 0.7
    gamma: float = 0.0
    pi0: float = 0.5
    delta: float = 0.0
    passes: int = 20
    alpha: float | None = None

    def check(self) -> None:
        """Raise a ValueError for a constant out of its range."""
        for name in ("K", "bursts", "paths", "passes"):
            count = getattr(self, name)
            if not (count is None and name == "K" or isinstance(count, numbers.Integral) and count >= 1):
                raise ValueError(f"Stabilized({name}={count!r}): it must be a whole number, at least 1.")
        if not 0.0 < self.eta < math.inf:
            raise ValueError(f"Stabilized(eta={self.eta!r}): the step must be a positive number.")
        for name in ("beta0", "pi0"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"Stabilized({name}={getattr(self, name)!r}): it must lie between 0 and 1.")
        if self.alpha is not None and not 0.0 < self.alpha < 1.0:
            raise ValueError(f"Stabilized(alpha={self.alpha!r}): it must lie between 0 and 1, both excluded.")

    def burst_size(self, n: int) -> int:
        """Return K for n rows."""
        return int(self.K) if self.K is not None else 5 if n < MANY_ROWS else 50


def annealed(d: Any, beta0: float, gamma: float) -> Any:
    """Return the rejection rate at density d: beta0 at 1, 0 at 0; the larger gamma is, the faster it falls.

    >>> float(annealed(0.0, 0.7, 0.0)), float(annealed(1.0, 0.7, 0.0)), float(annealed(0.5, 0.7, 0.0))
    (0.0, 0.7, 0.35)
    """
    u = 1.0 - d
    if gamma >= 0.0:
        return beta0 * (np.exp(-gamma * u) - u * math.exp(-gamma))
    return beta0 * np.log(1.0 - gamma * d) / math.log(1.0 - gamma)


class Bursts:
    """The run of one model: weights of all paths on the stable set, carried-over evidence, gravity.

    ``p`` is the number of features that densities are shares of; ``columns`` are those that may be used.
    """

    def __init__(self, method: Stabilized, loss: Any, columns: np.ndarray, p: int, seed: int, intercept: bool) -> None:
        self.method, self.loss, self.p, self.seed, self.intercept = method, loss, p, seed, intercept
        self.columns, M, q = columns, int(method.paths), len(columns)
        self.W, self.b = np.zeros((M, q)), np.zeros(M)
        self.begun = np.zeros(M, np.int64)
        """The number of orders drawn by each path."""
        self.kept, self.size, self.nonzeros = np.ones(q, np.bool_), q, 0
        self.probability = np.ones(p)
        self.evidence = np.zeros((q, 3))
        """Three counts for each feature.

        The first is the number of bursts that it appeared in since it was last judged.  The second is the number of
        bursts that it survived.  The third is the number of paths on which its weight is not zero.
        """
        self.g0, self.beta, self.K, self.examples = 0.0, method.beta0, 0, 0
        self.stages: list[dict[str, Any]] = []

    def learn(self, examples: Examples, model: int, passes: int, threads: Pool, watch: Any = None) -> None:
        """Run stages until every path has seen the rows ``passes`` times, in its own orders; the rows are only read.

        ``watch`` is called after every stage.
        """
        n, M = examples.n, int(self.method.paths)
        self.K = self.K or self.method.burst_size(n)
        self._shrink()
        rows = examples.take(np.arange(n)).only(self.columns)
        orders, at = np.empty((M, n), np.uint32), np.full(M, n)
        orders[:] = np.arange(n)
        left = passes * n
        while left > 0:
            steps = self.K * int(self.method.bursts)
            drawn = [self._drawn(path, orders[path], at, steps) for path in range(M)]
            notes = self._stage(rows, model, drawn, threads)
            left -= steps
            self.examples += steps
            self._end_stage(notes)
            if watch is not None:
                watch(self)
            if self.size < 0.5 * rows.rows.d:
                rows = rows.only(self._shrink())

    def _drawn(self, path: int, order: np.ndarray, at: np.ndarray, steps: int) -> np.ndarray:
        """Return the next examples of a path; a new order begins where its order ends."""
        drawn, done = np.empty(steps, np.uint32), 0
        while done < steps:
            if at[path] == len(order):
                number = int(self.begun[path]) * len(at) + int(path)
                shuffle(order, key(self.seed, Purpose.PATH)[0], number << 32)
                self.begun[path], at[path] = self.begun[path] + 1, 0
            part = order[at[path] : at[path] + steps - done]
            drawn[done : done + len(part)] = part
            done, at[path] = done + len(part), at[path] + len(part)
        return drawn

    def _stage(self, rows: Examples, model: int, drawn: list[np.ndarray], threads: Pool) -> list[Any]:
        """Run the bursts of all paths; return for each path the features touched, |dw| / k of each, and their fates."""
        paths: list[_Path] = [
            _Path(
                rows,
                model,
                drawn[path],
                self.W[path],
                self.b[path : path + 1],
                self.kept,
                self.k[path],
                self.before[path],
            )
            for path in range(len(drawn))
        ]
        columns: list[Any] = [slice(None)] * len(paths)
        if not threads.shares_memory:  # send only what a path needs: its rows and their features
            paths, columns = (list(part) for part in zip(*(path.alone() for path in paths), strict=True))
        share = -(-len(paths) // threads.count)
        items = [(paths[first : first + share],) for first in range(0, len(paths), share)]
        constants = self.K, float(self.method.eta), self.g0, self.loss, self.intercept
        found = [each for group in threads.map("sparsco-bursts", _run_paths, items, constants) for each in group]
        notes = []
        for path, (w, b, features, ratios, fates) in enumerate(found):
            if not threads.shares_memory:
                self.W[path, columns[path]], self.b[path] = w, b[0]
                features = columns[path][features]
            notes.append((features, ratios, fates))
        return notes

    def _end_stage(self, notes: list[Any]) -> None:
        """Purge the features that were truncated too often, anneal the rejection rate, and set the gravity."""
        features, ratios, fates = (np.concatenate(parts) for parts in zip(*notes, strict=True))
        judged = np.empty(len(features), np.uint32)
        count, change = tally(features, fates, self.evidence, judged, self.k[0])
        judged = judged[:count]
        judged = judged[self.evidence[judged, 0] > self.method.delta]
        share = self.evidence[judged, 1] / self.evidence[judged, 0]
        self.probability[self.columns[judged]] = share
        purged = judged[share < self.method.pi0]
        self.nonzeros += change - np.count_nonzero(self.evidence[purged, 2])
        self.kept[purged], self.W[:, purged], self.size = False, 0.0, self.size - len(purged)
        self.evidence[judged, :2], self.evidence[purged, 2] = 0.0, 0.0
        self.stages.append(
            {
                "examples": self.examples,
                "size": self.size,
                "nonzeros": self.nonzeros,
                "gravity": self.g0,
                "rejection": float(self.beta),
                "purged": len(purged),
                "burst": self.K,
            }
        )
        density = self.nonzeros / self.p
        self.beta = annealed(density, self.method.beta0, self.method.gamma)
        place = min(int(self.beta * len(ratios)), len(ratios) - 1)
        self.g0 = float(np.partition(ratios, place)[place]) if place > 0 else 0.0
        if self.method.alpha is not None:
            K = self.method.burst_size(1)
            self.K = max(1, math.ceil(K * math.log(1.0 / (self.method.alpha * max(density, 1.0 / self.p)))))

    def _shrink(self) -> np.ndarray:
        """Restrict the paths to the stable set; return the indices of the columns that stay."""
        stay = np.flatnonzero(self.kept)
        self.columns, self.W, self.evidence = self.columns[stay], self.W[:, stay].copy(), self.evidence[stay]
        self.kept = np.ones(len(stay), np.bool_)
        self.k, self.before = np.zeros(self.W.shape, np.int32), np.zeros(self.W.shape)
        return stay

    @property
    def weights(self) -> np.ndarray:
        """Return the mean weights over the paths, for the columns in the stable set."""
        return self.W.mean(axis=0)


class _Path(NamedTuple):
    """A path in one stage: its rows in their order, and the arrays that they change."""

    examples: Examples
    model: int
    order: np.ndarray
    w: np.ndarray
    b: np.ndarray
    kept: np.ndarray
    k: np.ndarray
    before: np.ndarray

    def alone(self) -> tuple[_Path, np.ndarray]:
        """Return the path with its own rows and their features only, and the numbers of these features."""
        own = self.examples.take(self.order)
        columns, places = np.unique(own.rows.indices, return_inverse=True)
        rows = Matrix(own.rows.indptr, places.astype(np.uint32), own.rows.data, len(columns))
        own = Examples(rows, own.targets[self.model : self.model + 1], own.weights)
        parts = (part[columns] for part in (self.w, self.kept, self.k, self.before))
        w, kept, k, before = parts
        return _Path(own, 0, np.arange(len(self.order), dtype=np.uint32), w, self.b, kept, k, before), columns


def _run_paths(paths: list[_Path], constants: tuple[int, float, float, Any, bool]) -> list[Any]:
    """Run the bursts of some paths; return the weights and notes of each."""
    found = []
    for examples, model, order, w, b, kept, k, before in paths:
        room = int(np.diff(examples.rows.indptr)[order].sum())
        features, ratios, fates = np.empty(room, np.uint32), np.empty(room), np.empty((room, 2), np.int8)
        count = burst(
            *examples.rows[:3],
            examples.targets[model],
            examples.weights,
            order,
            *constants,
            w,
            b,
            kept,
            k,
            before,
            features,
            ratios,
            fates,
        )
        found.append((w, b, features[:count], ratios[:count], fates[:count]))
    return found


@kernel
def burst(
    indptr,
    indices,
    data,
    y,
    weights,
    order,
    K,
    eta,
    g0,
    loss,
    intercept,
    w,
    bias,
    kept,
    k,
    before,
    features,
    ratios,
    fates,
):
    """Run bursts of K examples of ``order``, each followed by w_j <- S(w_j, g0 k_j); return the number of notes.

    There is a note for every burst and every feature in it.  A note has three numbers: |w_j - its value at the burst's
    start| / k_j before the pull; 1 if the weight survived, else 0; and the change of the number of paths on which it is
    not zero.  k (zeros) and ``before`` are scratch.
    """
    count, first = 0, 0
    for a in range(order.size):
        i = U(order[U(a)])
        start, stop = U(indptr[i]), U(indptr[i + U(1)])
        p = bias[0]
        for r in range(start, stop):
            p += w[U(indices[r])] * data[r]
        c = eta * weights[i] * derivative(loss, p, y[i])
        for r in range(start, stop):
            j = U(indices[r])
            if kept[j]:
                if k[j] == 0:
                    features[U(count)] = indices[r]
                    before[j] = w[j]
                    count += 1
                k[j] += 1
                w[j] -= c * data[r]
        if intercept:
            bias[0] -= c
        if (a + 1) % K == 0 or a + 1 == order.size:
            for r in range(first, count):
                j = U(features[U(r)])
                v, pull = w[j], g0 * k[j]
                ratios[U(r)] = abs(v - before[j]) / k[j]
                v = v - pull if v > pull else v + pull if v < -pull else 0.0
                w[j] = v
                fates[U(r), 0] = v != 0.0
                fates[U(r), 1] = (v != 0.0) - (before[j] != 0.0)
                k[j] = 0
            first = count
    return count


@kernel
def tally(features, fates, evidence, judged, seen):
    """Add the notes of a stage to the evidence; store every feature in ``judged`` once (``seen``: zeros, scratch).

    Return the number of these features, and the change of the number of features with a nonzero weight.
    """
    count, change = 0, 0
    for r in range(features.size):
        j = U(features[U(r)])
        if seen[j] == 0:
            seen[j] = 1
            judged[U(count)] = features[U(r)]
            count += 1
        was = evidence[j, 2] != 0.0
        evidence[j, 0] += 1.0
        evidence[j, 1] += fates[U(r), 0]
        evidence[j, 2] += fates[U(r), 1]
        change += (evidence[j, 2] != 0.0) - was
    for r in range(count):
        seen[U(judged[U(r)])] = 0
    return count, change
