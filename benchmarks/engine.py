"""The engine's own speed, as ratios of CPU time measured in one interleaved run.  ``make bench-engine``

Every job is run once per round and its fastest round counts: what disturbs one job disturbs its neighbours too, so the
ratios are steady where the times are not.  Prints name, measured, bar, verdict; exits with the number of bars missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix
from sklearn.linear_model import SGDClassifier

from sparsco import SparseClassifier
from sparsco.bench.kernel_only import learning
from sparsco.bench.measure import fastest
from sparsco.bench.methods import bare
from sparsco.bench.sets import load
from sparsco.conversions import Average, AverageSL, Last
from sparsco.data.rows import as_matrix
from sparsco.losses import Logistic
from sparsco.optimizers import FOBOS, FTRL, NFTRL, ORDA, RDA
from sparsco.penalties import ElasticNet, soft
from sparsco.problem.state import Nothing, Problem, Rows

ROWS = 200_000
ALPHA = 3e-5


class Bar(NamedTuple):
    """A figure and what it must not exceed (or fall below)."""

    name: str
    measured: float
    sign: str
    limit: float
    unit: str = ""

    @property
    def holds(self) -> bool:
        return self.measured <= self.limit if self.sign == "<=" else self.measured >= self.limit


# --- estimators against scikit-learn ----------------------------------------------------------------------------------


def ours(X: csr_matrix, y: np.ndarray, optimizer: str, conversion: Any, shuffle: bool = False) -> Callable[[], Any]:
    """One pass of a pair, validation of the input and conversion included."""
    model = SparseClassifier(
        optimizer=optimizer,
        conversion=conversion,
        alpha=ALPHA,
        max_iter=1,
        tol=None,
        early_stopping=False,
        shuffle=shuffle,
        random_state=0,
    )
    return lambda: model.fit(X, y).coef_


def theirs(X: csr_matrix, y: np.ndarray, shuffle: bool = False, average: bool = False) -> Callable[[], Any]:
    """One pass of scikit-learn's L1 SGD."""
    model = SGDClassifier(
        loss="log_loss",
        penalty="l1",
        alpha=ALPHA,
        max_iter=1,
        tol=None,
        shuffle=shuffle,
        average=average,
        random_state=0,
    )
    return lambda: model.fit(X, y).coef_


def estimator_bars(X: csr_matrix, y: np.ndarray, rounds: int) -> list[Bar]:
    """How many times faster than SGDClassifier."""
    cpu = fastest(
        {
            "sgd": theirs(X, y),
            "fobos": ours(X, y, "fobos", "last"),
            "sgd shuffled": theirs(X, y, shuffle=True),
            "fobos shuffled": ours(X, y, "fobos", "last", shuffle=True),
            "sgd averaged": theirs(X, y, average=True),
            "average-sl": ours(X, y, "fobos", AverageSL(metric="diagonal")),
            "average-sl guarded": ours(X, y, "fobos", "average-sl"),
            "nftrl": ours(X, y, "nftrl", "last"),
            "default": ours(X, y, "auto", "auto"),
        },
        rounds,
    )

    def times_faster(name: str, of: str, against: str, limit: float) -> Bar:
        return Bar(f"{name}: times faster than {against}", cpu[against] / cpu[of], ">=", limit)

    return [
        times_faster("fobos / last, same row order", "fobos", "sgd", 2.5),
        times_faster("fobos / last, both shuffle", "fobos shuffled", "sgd shuffled", 1.6),
        times_faster("average-sl, diagonal metric", "average-sl", "sgd averaged", 1.25),
        times_faster("average-sl, full guard", "average-sl guarded", "sgd averaged", 1.0),
        times_faster("nftrl / last", "nftrl", "sgd", 1.3),
        times_faster("default (auto / auto)", "default", "sgd", 1.0),
    ]


# --- kernels against the bare pass ------------------------------------------------------------------------------------


@njit(nogil=True, error_model="numpy", boundscheck=False)
def fobos_by_hand(indptr, indices, data, y, eta, lam, cell):
    """Lazy FOBOS with logistic loss and L1 written into the loop: cell is {weight, total shrinkage at last touch}."""
    b, B = 0.0, 0.0
    for i in range(y.size):
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        s = 0.0
        for p in range(start, stop):
            j = np.uint64(indices[p])
            idle = lam * (B - cell[j, 1])
            v = cell[j, 0]
            v = v - min(max(v, -idle), idle)
            cell[j, 0] = v
            s += v * data[p]
        c = -y[i] / (1.0 + np.exp(y[i] * (s + b)))
        step, shrink = eta[i] * c, eta[i] * lam
        B += eta[i]
        for p in range(start, stop):
            j = np.uint64(indices[p])
            v = cell[j, 0] - step * data[p]
            cell[j, 0] = v - min(max(v, -shrink), shrink)
            cell[j, 1] = B
        b -= step


def twins(X: csr_matrix, y: np.ndarray) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """FOBOS' kernel alone, composed of records and written by hand; refused if the two do not agree."""
    matrix, targets, d = as_matrix(X), y.astype(np.float64), X.shape[1]
    order, eta = np.arange(len(y)), 2.0 / np.sqrt(1.0 + np.arange(len(y)) / 100.0)
    rows = Rows(matrix.indptr, matrix.indices, matrix.data, targets, np.ones(len(y)))
    problem, optimizer = Problem(Logistic(), ElasticNet(ALPHA), d, watch=Nothing()), FOBOS()
    state, block = optimizer.start(problem)
    block.make_scratch(int(np.diff(matrix.indptr).max()), problem.width)
    schedule = optimizer.schedule(problem, state, block, 0, eta, np.ones(len(y)))

    def composed() -> Any:
        state, _ = optimizer.start(problem)
        optimizer.learn(rows, order, schedule, problem.method, state)
        return state

    def by_hand() -> np.ndarray:
        cell = np.zeros((d, 2))
        fobos_by_hand(matrix.indptr, matrix.indices, matrix.data, targets, eta, ALPHA, cell)
        return cell

    ours = optimizer.weights(problem, composed(), block, len(y))[0][:, 0]
    cell = by_hand()
    theirs = soft(cell[:, 0], ALPHA * (eta.sum() - cell[:, 1]))
    if not np.allclose(ours, theirs, rtol=1e-9, atol=1e-12):
        raise AssertionError("the composed kernel and its hand-written twin disagree")
    return composed, by_hand


def kernel_bars(X: csr_matrix, y: np.ndarray, rounds: int) -> list[Bar]:
    """What each method costs beside the bare pass, and what its sums cost beside the method."""
    n, matrix, targets, w = len(y), as_matrix(X), y.astype(np.float64), np.zeros(X.shape[1])
    composed, by_hand = twins(X, y)
    cpu = fastest(
        {
            "bare": lambda: bare(matrix.indptr, matrix.indices, matrix.data, targets, w),
            "rda": learning(X, y, ALPHA, RDA(), Last()),
            "fobos": learning(X, y, ALPHA, FOBOS(), Last()),
            "elastic net": learning(X, y, ALPHA, FOBOS(), Last(), rho=1e-6),
            "orda": learning(X, y, ALPHA, ORDA(), Last(), rho=1e-6),
            "ftrl": learning(X, y, ALPHA, FTRL(), Last()),
            "nftrl": learning(X, y, ALPHA, NFTRL(), Last()),
            "fobos, two sums": learning(X, y, ALPHA, FOBOS(), AverageSL(alpha=1.0, T=n, L=1.0)),
            "fobos, last half": learning(X, y, ALPHA, FOBOS(), AverageSL(alpha=0.5, T=n, L=1.0)),
            "rda, average": learning(X, y, ALPHA, RDA(), Average()),
            "composed": composed,
            "by hand": by_hand,
        },
        rounds,
    )

    def times(of: str, against: str, limit: float) -> Bar:
        return Bar(f"{of}: times {against}", cpu[of] / cpu[against], "<=", limit)

    return [
        times("rda", "bare", 1.5),
        times("fobos", "bare", 2.0),
        times("elastic net", "bare", 2.0),
        times("orda", "elastic net", 8.0),
        times("ftrl", "bare", 5.0),
        times("nftrl", "bare", 3.2),
        times("fobos, two sums", "fobos", 3.0),
        times("fobos, last half", "fobos", 2.2),
        times("rda, average", "rda", 2.8),
        times("composed", "by hand", 1.12),
    ]


# --- start-up and compilation, in fresh processes ---------------------------------------------------------------------

COMBINATIONS = [
    (optimizer, conversion, l1_ratio)
    for optimizer in ("fobos", "rda", "ftrl", "nftrl", "sgd")
    for conversion in ("last", "average", "average-sl")
    for l1_ratio in (1.0, 0.5)
]

FITS = """
import json, multiprocessing, time, warnings
import numpy as np, scipy.sparse
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = scipy.sparse.random_array((300, 200), density=.05, format="csr", rng=rng)
y = np.where(rng.random(300) < .5, 1, -1)
start = time.process_time()
from sparsco import SparseClassifier
def fit(optimizer, conversion, l1_ratio=1.0, loss="log_loss"):
    begun = time.process_time()
    model = SparseClassifier(
        loss=loss, optimizer=optimizer, conversion=conversion, alpha=.01, l1_ratio=l1_ratio, max_iter=1
    )
    model.fit(X, y).coef_
    return time.process_time() - begun
"""

FIRST_FITS = f"""
{FITS}
fit("auto", "auto")
first = time.process_time() - start
fit("fobos", "random")
extra = [fit(*combination) - min(fit(*combination) for _ in range(3)) for combination in {COMBINATIONS!r}]
print(json.dumps([first, extra]))
"""

NO_PANDAS = "import sys; sys.modules['pandas'] = None\n"
"""scikit-learn imports it where it is installed; none of ours does."""

COMPILATIONS = f"""
{FITS}
from numba.core.dispatcher import Dispatcher
fit("fobos", "random", loss="hinge")
compile, taken = Dispatcher.compile, []
def timed(self, signature):
    begun = time.process_time()
    result = compile(self, signature)
    if self.py_func.__name__.startswith("learn"):
        taken.append(time.process_time() - begun)
    return result
Dispatcher.compile = timed
def learn(combination):
    fit(*combination)
    return max(taken, default=0.0)
with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
    print(json.dumps(pool.map(learn, {COMBINATIONS!r}, chunksize=1)))
"""
"""Each combination's ``learn``, and the helpers it needs, compiled in a process of its own, forked from one that has
compiled another kernel before."""

IMPORT = """
import sys, time
start = time.process_time()
import sparsco
taken = time.process_time() - start
late = [name for name in ("sklearn", "numba", "scipy.sparse", "matplotlib", "pandas") if name in sys.modules]
assert not late, f"import sparsco loads {late}"
print(taken)
"""


def in_new_process(code: str, cache: str) -> Any:
    """What ``code`` prints, run with its own cache folder of compiled code; modules keep their bytecode, as installed
    ones do."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def compilation() -> Bar:
    """The slowest kernel to compile of all combinations, each the best of four tries."""
    tries = []
    for _ in range(4):
        with tempfile.TemporaryDirectory() as cache:
            tries.append(in_new_process(COMPILATIONS, cache))
    seconds = np.min(tries, axis=0)
    worst = int(seconds.argmax())
    return Bar(
        "compilation of a kernel, the slowest: {} / {}, l1_ratio {}".format(*COMBINATIONS[worst]),
        seconds[worst],
        "<=",
        0.8,
        " s",
    )


THEIR_IMPORT = """
import time
start = time.process_time()
import sklearn.linear_model
print(time.process_time() - start)
"""


def first_fit(tries: int) -> tuple[float, float]:
    """CPU seconds of the first fit of a process with a warm cache, and of scikit-learn's own import, a part of it."""
    with tempfile.TemporaryDirectory() as cache:
        in_new_process(FIRST_FITS, cache)
        whole = min(in_new_process(FIRST_FITS, cache)[0] for _ in range(tries))
        return whole, min(in_new_process(THEIR_IMPORT, cache) for _ in range(tries))


def start_up_bars() -> list[Bar]:
    """CPU seconds of import, first fit, compilation of each combination's kernel and its loading from the cache."""
    with tempfile.TemporaryDirectory() as cache:
        in_new_process(FIRST_FITS, cache)
        again = [in_new_process(FIRST_FITS, cache) for _ in range(3)]
        lean = [in_new_process(NO_PANDAS + FIRST_FITS, cache)[0] for _ in range(3)]
        loaded = np.min([extra for _, extra in again], axis=0)
        return [
            Bar("import sparsco", min(in_new_process(IMPORT, cache) for _ in range(5)), "<=", 0.3, " s"),
            Bar("first fit in a new process, warm cache", min(first for first, _ in again), "<=", 1.0, " s"),
            Bar("the same where pandas is not installed", min(lean), "<=", 1.0, " s"),
            compilation(),
            Bar("from the cache, the slowest combination", 1000.0 * loaded.max(), "<=", 20.0, " ms"),
        ]


# --- one table --------------------------------------------------------------------------------------------------------


def main() -> int:
    """Measure, print, count the bars missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=ROWS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    _, X, y, *_ = load(f"rcv1-{options.rows}")
    bars = [*kernel_bars(X, y, options.rounds), *estimator_bars(X, y, options.rounds), *start_up_bars()]
    print(f"{'name':<62} {'measured':>12} {'bar':>12}  holds")
    for bar in bars:
        limit = f"{bar.sign} {bar.limit:g}{bar.unit}"
        print(f"{bar.name:<62} {f'{bar.measured:.3g}{bar.unit}':>12} {limit:>12}  {'yes' if bar.holds else 'NO'}")
    return sum(not bar.holds for bar in bars)


if __name__ == "__main__":
    sys.exit(main())
