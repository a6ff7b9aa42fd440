"""Many strengths in one read, as ratios of CPU time measured in one interleaved run.

Prints name, measured, bar, verdict; exits with the number of bars missed.  Bars of float32 lanes stand beside what
float64 lanes need, as long as there are no others.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from engine import ALPHA, Bar, theirs
from scipy.sparse import csr_matrix
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV

from sparsco import SparseClassifier, SparseClassifierCV, SparsePath
from sparsco.bench.measure import fastest
from sparsco.bench.sets import load
from sparsco.conversions import AverageSL, Last
from sparsco.losses import Logistic
from sparsco.optimizers import FOBOS, NFTRL
from sparsco.regularizers import ElasticNet
from sparsco.rows import as_matrix
from sparsco.solve import Run

MODEL = {"optimizer": "fobos", "conversion": "last", "shuffle": False, "random_state": 0}


def lanes(
    X: csr_matrix, y: np.ndarray, m: int, optimizer: Any, conversion: Any, finish: bool = True
) -> Callable[[], Any]:
    """m strengths around ``ALPHA`` in one read."""
    matrix, targets, lams = as_matrix(X), y.astype(np.float64), ALPHA * np.geomspace(10.0, 0.1, m)

    def job() -> Any:
        run = Run(Logistic(), ElasticNet(0.0), optimizer, conversion, d=X.shape[1], lams=lams)
        run.feed(matrix, targets)
        return run.finish() if finish else None

    return job


def one(X: csr_matrix, y: np.ndarray, optimizer: Any, conversion: Any) -> Callable[[], Any]:
    """One strength."""
    matrix, targets = as_matrix(X), y.astype(np.float64)

    def job() -> Any:
        run = Run(Logistic(), ElasticNet(ALPHA), optimizer, conversion, d=X.shape[1])
        run.feed(matrix, targets)
        return run.finish()

    return job


def read_bars(X: csr_matrix, y: np.ndarray, rounds: int) -> list[Bar]:
    """32 strengths against one scikit-learn epoch, lanes against separate runs."""
    diagonal = AverageSL(metric="diagonal")
    cpu = fastest(
        {
            "sgd": theirs(X, y),
            "lanes 32": lanes(X, y, 32, FOBOS(), Last()),
            "lanes 8": lanes(X, y, 8, FOBOS(), Last()),
            "averaged 8": lanes(X, y, 8, FOBOS(), diagonal),
            "path 32": lambda: SparsePath(SparseClassifier(**MODEL), m=32, ratio=0.01).fit(X, y).model_,
            "nftrl": one(X, y, NFTRL(), Last()),
            "nftrl 8": lanes(X, y, 8, NFTRL(), Last()),
            "nftrl 32": lanes(X, y, 32, NFTRL(), Last()),
        },
        rounds,
    )
    sgd, many = cpu["sgd"], cpu["nftrl"]
    return [
        Bar("32 strengths, float64: times one SGDClassifier epoch", cpu["lanes 32"] / sgd, "<=", 2.5),
        Bar("the same with grid and validation", cpu["path 32"] / sgd, "<=", 2.8),
        Bar("32 strengths (bar of float32 lanes)", cpu["lanes 32"] / sgd, "<=", 1.1),
        Bar("averaged lanes: times plain ones, m = 8", cpu["averaged 8"] / cpu["lanes 8"], "<=", 5.0),
        Bar("nftrl, 8 strengths: times 8 runs", cpu["nftrl 8"] / (8.0 * many), "<=", 0.45),
        Bar("nftrl, 32 strengths: times 32 runs (bar of float32)", cpu["nftrl 32"] / (32.0 * many), "<=", 0.32),
    ]


def ctr_bar(rows: int, rounds: int) -> Bar:
    """32 strengths on a million binary features."""
    _, X, y, *_ = load(f"ctr-{rows}")
    cpu = fastest({"sgd": theirs(X, y), "lanes": lanes(X, y, 32, FOBOS(), Last(), finish=False)}, rounds)
    return Bar("CTR-shaped, 32 strengths (bar of float32 lanes)", cpu["lanes"] / cpu["sgd"], "<=", 0.6)


def fold_bars(X: csr_matrix, y: np.ndarray, rounds: int) -> list[Bar]:
    """Five folds, against a grid search with the same passes, and on two threads."""
    lams = ALPHA * np.geomspace(10.0, 0.1, 32)
    sgd = SGDClassifier(loss="log_loss", penalty="l1", max_iter=1, tol=None, shuffle=False)
    search = GridSearchCV(sgd, {"alpha": lams}, cv=5)
    model = SparseClassifierCV(SparseClassifier(**MODEL), lams=lams)
    cpu = fastest({"ours": lambda: model.fit(X, y), "theirs": lambda: search.fit(X, y)}, 2)
    wall = {}
    for threads in (1, 2):
        taken = []
        for _ in range(rounds):
            start = time.perf_counter()
            model.set_params(n_jobs=threads).fit(X, y)
            taken.append(time.perf_counter() - start)
        wall[threads] = min(taken)
    return [
        Bar("5 folds, 32 strengths: times faster than GridSearchCV", cpu["theirs"] / cpu["ours"], ">=", 20.0),
        Bar("5 folds on two threads: times faster, wall time", wall[1] / wall[2], ">=", 1.6),
    ]


def main() -> int:
    """Measure, print, count the bars missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--fold-rows", type=int, default=20_000)
    parser.add_argument("--ctr-rows", type=int, default=1_000_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    _, X, y, *_ = load(f"rcv1-{options.rows}")
    few = slice(0, options.fold_rows)
    bars = [*read_bars(X, y, options.rounds), *fold_bars(X[few], y[few], options.rounds)]
    if options.ctr_rows:
        bars.append(ctr_bar(options.ctr_rows, options.rounds))
    print(f"{'name':<62} {'measured':>12} {'bar':>12}  holds")
    for bar in bars:
        print(f"{bar.name:<62} {bar.measured:>12.3g} {f'{bar.sign} {bar.limit:g}':>12}  {'yes' if bar.holds else 'NO'}")
    return sum(not bar.holds for bar in bars)


if __name__ == "__main__":
    sys.exit(main())
