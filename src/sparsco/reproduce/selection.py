"""Feature selection of online methods and its stability: the tables and figures on stabilized truncated SGD.

Every method is tuned on a hold-out of the training rows over the paper's grids.  It then learns all rows in the trial's
order.  Columns are divided by the root mean square of their nonzeros; there is no intercept.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import datasets
from ..conversions.averaging import Last
from ..data.rows import Matrix, as_matrix
from ..datasets.generators import add_probes
from ..engine.run import DivergenceError, Run
from ..losses import CLASSIFIER_LOSSES
from ..optimizers import FOBOS, RDA, SGD, TruncatedGradient
from ..penalties import L1
from ..selection.stable.bursts import Bursts, Stabilized, annealed
from ..selection.stable.estimators import StableSparseClassifier
from ..selection.stable.paths import Examples
from ..selection.stable.scaling import Preparation
from ..steps import Constant, InverseSqrt
from ..util.threads import Pool

LAMS = (5e-5, 1e-4, 5e-4, 1e-3, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
TRUNCATED, STEP, BURST = (0.001, 0.002, 0.005, 0.01), 0.1, 5
Constants = dict[str, float]


class Selection(NamedTuple):
    """A data set in two classes and a loss; ``passes``, ``gammas``, ``pi0s`` are the grids, ``size`` is for STS.

    ``size`` is the number of features that STS keeps.  ``view``: "end" measures the model at the end; "updates" the
    share of nonzeros over time; "density" the share selected among the features that occur in so many of 1000 rows.
    """

    source: str
    loss: str
    size: int = 100
    rows: int = 1_000_000
    passes: tuple[int, ...] = (5, 10, 20, 30, 40, 50, 60)
    gammas: tuple[float, ...] = (-7.0, -5.0, -3.0, -1.0, 0.0, 1.0, 3.0)
    pi0s: tuple[float, ...] = (0.5, 0.6, 0.7, 0.8, 0.9)
    lams: tuple[float, ...] = LAMS
    view: str = "end"
    seed: int = 0

    def data(self) -> list[str]:
        """Return the checksums of the files that are read; raise if a file is missing."""
        return checksums("mnist" if self.source == PROBES else self.source)

    def measured(self, methods: dict[str, dict[str, Any]], at: tuple[int, ...], trial: int) -> dict[str, Any]:
        """Return the results of each method."""
        train, y, test, y_test = prepared(self.source, self.rows)
        order = np.random.default_rng([self.seed, trial, 0]).permutation(len(y))
        train, y = train.take(order), y[order]
        out = {}
        for name, method in methods.items():
            learn = SELECTORS[method["preset"]]
            constants = self._tuned(method["preset"])
            start = time.perf_counter()
            learned = learn(self, train, y, constants, trial)
            seconds = time.perf_counter() - start
            if learned is None:
                out[name] = {"TE": [None] * len(at), "NNZ": [None] * len(at), "time": seconds}
            elif self.view == "updates":
                out[name] = {"NNZ": along(self, method["preset"], train, y, constants, trial, at), "time": seconds}
            elif self.view == "density":
                out[name] = {"selected": by_density(train, learned.w, at), "time": seconds}
            else:
                out[name] = judged(learned, test, y_test) | {"time": seconds}
        return out

    def _tuned(self, preset: str) -> Constants:
        return _tuned(self, preset)


class Learned(NamedTuple):
    """The weights of a model, and a function for its margins."""

    w: np.ndarray
    margins: Callable[[Any], np.ndarray]


def judged(learned: Learned, test: Any, y_test: np.ndarray) -> dict[str, Any]:
    """Return the test error and the share of selected features, in percent, and the selected features."""
    chosen = np.flatnonzero(learned.w)
    return {
        "TE": [100.0 * _error(learned, test, y_test)],
        "NNZ": [100.0 * len(chosen) / len(learned.w)],
        "features": [chosen.tolist()],
        "width": len(learned.w),
    }


def _error(learned: Learned, X: Any, y: np.ndarray) -> float:
    return float(np.mean(np.where(learned.margins(X) > 0.0, 1.0, -1.0) != y))


def _linear(w: np.ndarray) -> Learned:
    return Learned(w, lambda X: X @ w)


class Annealing(NamedTuple):
    """The rejection rate as a function of the share of features left."""

    beta0: float = 0.7

    def data(self) -> list[str]:
        """Return an empty list: the problem reads no files."""
        return []

    def measured(self, methods: dict[str, dict[str, Any]], at: tuple[int, ...], trial: int) -> dict[str, Any]:
        """Return the values of each annealing rate at some percentages."""
        return {
            name: {"rejection": [float(annealed(d / 100.0, self.beta0, method["gamma"])) for d in at], "time": 0.0}
            for name, method in methods.items()
        }


# ---- data -----------------------------------------------------------------------------------------------------------

PROBES = "mnist-probes"


@functools.cache
def checksums(name: str) -> list[str]:
    """Return the checksums of all files of a set; raise if one is missing."""
    return [copy.sha256 for copy in datasets.verify(name)]


@functools.lru_cache(maxsize=4)
def two_classes(name: str) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Return training and test rows in two classes: of several, the first half against the second.

    MNIST is 4 against 9 with products of pixels and random probes, 5000 features.  A set without test rows is split:
    30% drawn at random are the test rows.
    """
    if name == PROBES:
        (X, y), (X_test, y_test) = (datasets.mnist_pair(4, 9, part) for part in ("train", "test"))
        rng = np.random.default_rng(0)
        used = np.flatnonzero(X.getnnz(axis=0) > 0.05 * X.shape[0])
        a, b = rng.choice(used, (2, 2500 - X.shape[1]))
        parts = [sp.csr_matrix(sp.hstack([Q, Q[:, a].multiply(Q[:, b])])) for Q in (X, X_test)]
        X, X_test = add_probes(*parts, total=5000, rng=rng)
        return X, y, X_test, y_test
    X, y = datasets.load(name, "train")
    labels = np.unique(y)
    if "test" in datasets.REGISTRY[name].parts and name != "rcv1":
        X_test, y_test = datasets.load(name, "test")
    else:
        order = np.random.default_rng(0).permutation(len(y))
        test, train = np.split(order, [3 * len(y) // 10])
        X, y, X_test, y_test = X[train], y[train], X[test], y[test]
    positive = labels[(len(labels)) // 2 :]
    return X, np.where(np.isin(y, positive), 1.0, -1.0), X_test, np.where(np.isin(y_test, positive), 1.0, -1.0)


@functools.lru_cache(maxsize=4)
def prepared(name: str, rows: int) -> tuple[Matrix, np.ndarray, Any, np.ndarray]:
    """Return the first ``rows`` training rows of a shuffle, and all test rows, scaled by the training columns."""
    X, y, X_test, y_test = two_classes(name)
    some = np.random.default_rng(0).permutation(len(y))[:rows]
    train = as_matrix(X[some])
    scaling = Preparation("columns", train.d)
    scaling.add(train)
    return scaling.applied(train), y[some], scaling.applied(as_matrix(X_test)).to_scipy(), y_test


# ---- methods --------------------------------------------------------------------------------------------------------


def _online(optimizer: Any, lam: float, step: Any) -> Any:
    """Return a learner of several passes whose weights are the last iterate."""

    def learn(problem: Selection, rows: Matrix, y: np.ndarray, passes: int, trial: int, watch: Any = None) -> Any:
        loss = CLASSIFIER_LOSSES[problem.loss]
        run = Run(loss, L1(lam), optimizer, Last(), step, d=rows.d, intercept=False, seed=trial)
        try:
            for k in range(passes):
                run.feed(rows, y, order=_order(problem, trial, k, len(y)), is_repeat_pass=k > 0)
                if watch is not None:
                    watch(k + 1, run)
            return _linear(run.finish().w[:, 0])
        except DivergenceError:
            return None

    return learn


def _order(problem: Selection, trial: int, k: int, n: int) -> np.ndarray:
    """Return the order of the trial's k-th pass."""
    return np.random.default_rng([problem.seed, trial, 1, k]).permutation(n)


FAMILIES: dict[str, Any] = {
    "sgd": ("eta", (0.1, 0.2, 0.3, 0.4, 0.5), lambda eta: _online(SGD(), 0.0, Constant(eta))),
    "truncated": ("g0", TRUNCATED, lambda g0: _online(TruncatedGradient(BURST), g0 / STEP, Constant(STEP))),
    "rda": ("lam", None, lambda lam: _online(RDA(), lam, None)),
    "fobos": ("lam", None, lambda lam: _online(FOBOS(), lam, InverseSqrt(1.0))),
}
"""The parameter, the grid (None: the problem's) and the learner of each online method."""


def _learn_online(
    family: str, problem: Selection, rows: Matrix, y: np.ndarray, constants: Constants, trial: int
) -> Learned | None:
    name, _, make = FAMILIES[family]
    return make(constants[name])(problem, rows, y, int(constants["passes"]), trial)


def _bursts(
    problem: Selection, rows: Matrix, y: np.ndarray, constants: Constants, trial: int, watch: Any = None
) -> Learned:
    method = Stabilized(gamma=constants["gamma"], pi0=constants["pi0"], passes=int(constants["passes"]))
    examples = Examples(rows, y[None], np.ones(len(y)))
    run = Bursts(method, CLASSIFIER_LOSSES[problem.loss], np.arange(rows.d), rows.d, trial, False)
    run.learn(examples, 0, method.passes, Pool(), watch)
    w = np.zeros(rows.d)
    w[run.columns] = run.weights
    return _linear(w)


def _sts(problem: Selection, rows: Matrix, y: np.ndarray, constants: Constants, trial: int) -> Learned:
    """Return our own method's model, with its own preparation in addition."""
    model = StableSparseClassifier(problem.size, loss=problem.loss, random_state=trial).fit(rows.to_scipy(), y)
    return Learned(model.coef_[0], model.decision_function)


SELECTORS: dict[str, Any] = {name: functools.partial(_learn_online, name) for name in FAMILIES}
SELECTORS |= {"stabilized": _bursts, "sts": _sts}


@functools.lru_cache(maxsize=256)
def _tuned(problem: Selection, preset: str) -> Constants:
    """Return the constants of least error on 30% of the training rows; of equal ones those with the fewest features."""
    if preset == "sts":
        return {}
    rows, y, _, _ = prepared(problem.source, problem.rows)
    order = np.random.default_rng([problem.seed, 2]).permutation(len(y))
    held, kept = np.split(order, [3 * len(y) // 10])
    part, labels, out = rows.take(kept), y[kept], rows.take(held).to_scipy()

    def score(learned: Learned) -> tuple[float, int]:
        return _error(learned, out, y[held]), int(np.count_nonzero(learned.w))

    found: dict[tuple[tuple[str, float], ...], tuple[float, int]] = {}
    if preset == "stabilized":
        passes = max(p for p in problem.passes if p <= 20 or p == min(problem.passes))
        for gamma, pi0 in itertools.product(problem.gammas, problem.pi0s):
            constants = {"gamma": gamma, "pi0": pi0, "passes": float(passes)}
            found[tuple(constants.items())] = score(_bursts(problem, part, labels, constants, 0))
    else:
        name, grid, make = FAMILIES[preset]
        for constant in grid or problem.lams:

            def watch(done: int, run: Run, constant: float = constant) -> None:
                if done in problem.passes:
                    found[(name, constant), ("passes", float(done))] = score(_linear(run.finish().w[:, 0]))

            make(constant)(problem, part, labels, max(problem.passes), 0, watch)
    best = min(found, key=found.__getitem__)
    return dict(best)


# ---- views ----------------------------------------------------------------------------------------------------------


def along(
    problem: Selection, preset: str, rows: Matrix, y: np.ndarray, constants: Constants, trial: int, at: tuple[int, ...]
) -> list[float]:
    """Return the share of nonzeros, in percent, after some numbers of examples."""
    counts: dict[int, int] = {}
    if preset == "stabilized":

        def watch(run: Bursts) -> None:
            counts[run.examples] = run.nonzeros

        passes = -(-max(at) // len(y))
        _bursts(problem, rows, y, constants | {"passes": float(passes)}, trial, watch)
    else:
        loss, (name, _, _) = CLASSIFIER_LOSSES[problem.loss], FAMILIES[preset]
        run = Run(
            loss,
            L1(constants[name] / STEP),
            TruncatedGradient(BURST),
            Last(),
            Constant(STEP),
            d=rows.d,
            intercept=False,
            seed=trial,
        )
        drawn = np.concatenate([_order(problem, trial, k, len(y)) for k in range(-(-at[-1] // len(y)))])
        for first, stop in itertools.pairwise((0, *at)):
            run.feed(rows, y, order=drawn[first:stop], is_repeat_pass=first > 0)
            counts[stop] = int(np.count_nonzero(run.finish().w))
    reached = sorted(counts)
    return [100.0 * counts[max(t for t in reached if t <= stop)] / rows.d for stop in at]


def by_density(rows: Matrix, w: np.ndarray, at: tuple[int, ...]) -> list[float | None]:
    """Return the percentages of selected features by density: in how many of 1000 rows a feature occurs."""
    density = 1000.0 * np.bincount(rows.indices, minlength=rows.d) / len(rows)
    out: list[float | None] = []
    for low, high in itertools.pairwise((0, *at)):
        here = (density > low) & (density <= high)
        out.append(100.0 * float(np.mean(w[here] != 0.0)) if here.any() else None)
    return out
