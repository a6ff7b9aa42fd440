"""What a user gets without arguments, beside scikit-learn's estimators without arguments.  ``make bench-defaults``

Every method learns the same training rows of every split, in a process of its own with a limit of CPU time.  A figure
is the test error (regressions: mean squared error over the variance of the target), the number of features used and
the CPU seconds of the fit.  Figures are kept in a JSON file, so that a run can be stopped and resumed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import (
    ElasticNetCV,
    LassoCV,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.svm import LinearSVC

from sparsco import SparseClassifier, SparseRegressor, datasets

SPLITS = 5
HELD_OUT = 0.25
LIMIT = 600
"""CPU seconds after which a fit is given up, and those of the same method on other splits."""
TOO_LONG = "failed or took too long"
SLACK = 0.002
"""Added to both errors of a ratio, so that a test row more or less on an easy set counts little."""
TEXT = ("imdb", "amazon-reviews", "sms-spam", "rcv1-small", "dexter", "20news-tech", "news20", "20news-bow")
SETS = (
    *TEXT,
    *("a9a", "w8a", "spambase", "phishing", "mushrooms", "cod-rna", "covtype-binary", "covtype20k", "madelon"),
    *("german_numer", "australian", "splice", "ionosphere", "sonar", "colon-cancer", "arcene", "mnist-20k"),
    *("imdb-rating", "cpusmall", "generated, low noise", "generated, high noise"),
)


class Split(NamedTuple):
    """Training and test rows of a set."""

    X: csr_matrix
    y: np.ndarray
    held_X: csr_matrix  # noqa: N815
    held_y: np.ndarray

    @property
    def is_regression(self) -> bool:
        return self.y.dtype.kind == "f" and len(np.unique(self.y)) > 50 or set(np.unique(self.y)) <= RATINGS


RATINGS = {1.0, 2.0, 3.0, 4.0, 7.0, 8.0, 9.0, 10.0}


def rows_of(name: str) -> tuple[csr_matrix, np.ndarray]:
    """Return all rows of a set."""
    if name == "covtype-binary":
        X, y = datasets.load("covtype20k")
        return X, np.where(y == 2, 1, -1)
    if name == "mnist-20k":
        X, y = datasets.load("mnist")
        some = np.random.default_rng(0).permutation(len(y))[:20_000]
        return csr_matrix(X[some] / 255.0), y[some]
    if name.startswith("generated"):
        rng = np.random.default_rng(1)
        X, w = rng.standard_normal((4000, 2000)), np.zeros(2000)
        w[rng.permutation(2000)[:30]] = rng.standard_normal(30)
        signal = X @ w
        noise = 0.1 if "low" in name else 2.0
        return csr_matrix(X), signal + noise * signal.std() * rng.standard_normal(4000)
    return datasets.load(name)


def split_of(name: str, number: int) -> Split:
    """Return a split of a set by its number."""
    X, y = rows_of(name)
    order = np.random.default_rng([number, 7]).permutation(len(y))
    held = int(HELD_OUT * len(y))
    test, train = order[:held], order[held:]
    return Split(csr_matrix(X[train]), y[train], csr_matrix(X[test]), y[test])


# --- methods ----------------------------------------------------------------------------------------------------------

Fit = Callable[[Split], Any]


def one_read(split: Split) -> Any:
    """Return our default, learned from pieces of 1000 rows."""
    model = SparseRegressor() if split.is_regression else SparseClassifier()
    for first in range(0, len(split.y), 1000):
        model.partial_fit(split.X[first : first + 1000], split.y[first : first + 1000])
    model.convert()
    return model


CLASSIFIERS: dict[str, Fit] = {
    "sparsco": lambda split: SparseClassifier().fit(split.X, split.y),
    "sparsco, one read": one_read,
    "LogisticRegression": lambda split: LogisticRegression().fit(split.X, split.y),
    "SGDClassifier": lambda split: SGDClassifier(random_state=0).fit(split.X, split.y),
    "LinearSVC": lambda split: LinearSVC(random_state=0).fit(split.X, split.y),
    "LogisticRegressionCV L2": lambda split: LogisticRegressionCV().fit(split.X, split.y),
    "LogisticRegressionCV L1": lambda split: _l1_cv(split),
}
REGRESSORS: dict[str, Fit] = {
    "sparsco": lambda split: SparseRegressor().fit(split.X, split.y),
    "sparsco, one read": one_read,
    "Ridge": lambda split: Ridge().fit(split.X, split.y),
    "RidgeCV": lambda split: RidgeCV().fit(_dense_if_small(split.X), split.y),
    "LassoCV": lambda split: LassoCV().fit(split.X, split.y),
    "ElasticNetCV": lambda split: ElasticNetCV().fit(split.X, split.y),
    "SGDRegressor": lambda split: SGDRegressor(random_state=0).fit(split.X, split.y),
}
OURS = ("sparsco", "sparsco, one read")


def _l1_cv(split: Split) -> Any:
    """Return cross-validated L1 regression: liblinear for two classes, saga for more."""
    solver = "liblinear" if len(np.unique(split.y)) == 2 else "saga"
    return LogisticRegressionCV(l1_ratios=(1.0,), solver=solver, random_state=0).fit(split.X, split.y)


def _dense_if_small(X: csr_matrix) -> Any:
    return X.toarray() if X.shape[0] * X.shape[1] < 10_000_000 else X


def error_of(model: Any, split: Split) -> float:
    """Return the test error."""
    told = model.predict(split.held_X)
    if split.is_regression:
        return float(np.mean((told - split.held_y) ** 2) / np.var(split.held_y))
    return float(np.mean(told != split.held_y))


def _measure(name: str, number: int, method: str, limit: int, answers: Any) -> None:
    """Fit one method and send its figures; runs in a process of its own."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit + 60, limit + 61))
    warnings.simplefilter("ignore")
    split = split_of(name, number)
    methods = REGRESSORS if split.is_regression else CLASSIFIERS
    if method in OURS:  # what is compiled on the first fit of a process is not measured
        few = Split(split.X[:300], split.y[:300], split.held_X, split.held_y)
        methods[method](few)
    begun = time.process_time()
    model = methods[method](split)
    seconds = time.process_time() - begun
    features = int(np.any(np.atleast_2d(np.asarray(model.coef_)), axis=0).sum())
    answers.send([error_of(model, split), features, seconds])


def measured(name: str, number: int, method: str, limit: int) -> list[float] | str:
    """Return error, features and CPU seconds of a fit in a new process, or the reason why there are none."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(False)
    process = context.Process(target=_measure, args=(name, number, method, limit, send))
    process.start()
    send.close()
    try:
        return receive.recv()
    except EOFError:
        return TOO_LONG
    finally:
        process.kill()
        process.join()


# --- the table --------------------------------------------------------------------------------------------------------


def cells(sets: list[str], splits: int, methods: list[str] | None) -> Iterator[tuple[str, int, str]]:
    """Yield set, split and method of every figure, split by split."""
    for number in range(splits):
        for name in sets:
            known = REGRESSORS if name in SETS[-4:] else CLASSIFIERS
            yield from ((name, number, method) for method in known if methods is None or method in methods)


def mean_errors(found: dict[str, Any], name: str, splits: int) -> dict[str, np.ndarray]:
    """Return error, features and seconds of each method, means over the splits."""
    figures: dict[str, list[Any]] = {}
    for number in range(splits):
        for key, cell in found.items():
            at, split, method = key.split("|")
            if at == name and int(split) == number and not isinstance(cell, str):
                figures.setdefault(method, []).append(cell)
    most = max(map(len, figures.values()), default=0)
    return {method: np.mean(each, axis=0) for method, each in figures.items() if len(each) == most}


def table(found: dict[str, Any], sets: list[str], splits: int) -> str:
    """Return the table in Markdown: error / features / seconds, and the ratio of our error to the best peer's."""
    lines = ["| set | sparsco | one read | best of scikit-learn | which | ratio | one read / in memory |"]
    lines.append("|---|---|---|---|---|---|---|")
    ratios, sizes = [], []
    for name in sets:
        means = mean_errors(found, name, splits)
        peers = {method: each for method, each in means.items() if method not in OURS}
        if "sparsco" not in means or not peers:
            continue
        best = min(peers, key=lambda method: peers[method][0])
        own, read = means["sparsco"], means.get("sparsco, one read")
        ratio = (own[0] + SLACK) / (peers[best][0] + SLACK)
        ratios.append(ratio)
        if name in TEXT:
            dense = [peers[each][1] for each in ("LogisticRegression", "SGDClassifier", "LinearSVC") if each in peers]
            sizes.append(own[1] / np.mean(dense))
        once = "" if read is None else f"{(read[0] + SLACK) / (own[0] + SLACK):.3f}"
        parts = [own, read, peers[best]]
        shown = ["" if each is None else f"{each[0]:.4f} / {each[1]:.0f} / {each[2]:.2f}" for each in parts]
        lines.append(f"| {name} | {shown[0]} | {shown[1]} | {shown[2]} | {best} | {ratio:.3f} | {once} |")
    mean = float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan")
    share = float(np.exp(np.mean(np.log(sizes)))) if sizes else float("nan")
    lines.append("")
    lines.append(f"Geometric mean of the ratios: {mean:.3f}.")
    lines.append(f"Features on text, as a share of those of dense peers: {share:.3f}.")
    return "\n".join(lines)


def main() -> int:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, default=Path("defaults.json"))
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--methods", nargs="*")
    parser.add_argument("--again", nargs="*", default=[], help="methods that are measured again")
    parser.add_argument("--limit", type=int, default=LIMIT, help="CPU seconds after which a fit is given up")
    parser.add_argument("--show", action="store_true", help="print the table of what is there")
    options = parser.parse_args()
    found = json.loads(options.json.read_text()) if options.json.exists() else {}
    found = {key: cell for key, cell in found.items() if key.split("|")[2] not in options.again}
    for name, number, method in [] if options.show else cells(options.sets, options.splits, options.methods):
        key = f"{name}|{number}|{method}"
        if key not in found:
            hopeless = TOO_LONG in (found.get(f"{name}|{other}|{method}") for other in range(number))
            found[key] = TOO_LONG if hopeless else measured(name, number, method, options.limit)
            print(key, found[key], file=sys.stderr, flush=True)
            options.json.write_text(json.dumps(found, indent=0))
    print(table(found, options.sets, options.splits))
    return 0


if __name__ == "__main__":
    sys.exit(main())
