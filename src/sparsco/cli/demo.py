"""A demo on generated data: pairs of optimizer and conversion beside scikit-learn's linear models.

``python -m sparsco.cli.demo [--out PATH]`` prints a table for a sparse text-like stream and one for scikit-learn's
bundled digits.  It writes the same with plots as one HTML file.  Data, contenders and columns are lists; one loop fits
all.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.multiclass import OneVsRestClassifier

from .. import metrics
from ..bench.solvers import l1_logistic
from ..datasets.generators import text_like
from ..estimators.sklearn import SparseClassifier
from ..util import html

SEED = 0


class Data(NamedTuple):
    """A training and a test part, the strength of the L1 penalty, and the number of passes of a stochastic method."""

    name: str
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    alpha: float
    passes: int


class Contender(NamedTuple):
    """A name and a function that makes a seeded estimator for a data set."""

    name: str
    ours: bool
    make: Callable[[Data, int], Any]


class Result(NamedTuple):
    """A line of the table."""

    name: str
    objective: float
    error: float
    nonzeros: int
    jaccard: float
    kappa: float
    seconds: float


HEADER = ("method", "objective", "test error", "nonzeros", "Jaccard", "kappa", "seconds")


# --- data -------------------------------------------------------------------------------------------------------------


def text_stream() -> Data:
    """Return a text-like stream, read once: 20,000 rows to learn from and 10,000 to test on."""
    X, y = text_like(30_000, 50_000, 60, relevant=400, scale=12.0, rng=np.random.default_rng(SEED))
    return Data("text-like stream, one pass", X[:20_000], y[:20_000], X[20_000:], y[20_000:], alpha=3e-4, passes=1)


def digits() -> Data:
    """Return scikit-learn's bundled digits: ten classes, one model each."""
    X, y = load_digits(return_X_y=True)
    X, order = X / 16.0, np.random.default_rng(SEED).permutation(len(y))
    train, test = order[:1200], order[1200:]
    return Data("digits, five passes", X[train], y[train], X[test], y[test], alpha=1e-3, passes=5)


# --- contenders -------------------------------------------------------------------------------------------------------


def ours(optimizer: str, conversion: str) -> Contender:
    """Return one of our pairs; the other settings are the defaults."""

    def make(data: Data, seed: int) -> Any:
        return SparseClassifier(
            optimizer=optimizer,
            conversion=conversion,
            alpha=data.alpha,
            max_iter=data.passes,
            tol=None,
            early_stopping=False,
            random_state=seed,
        )

    return Contender(f"{optimizer} / {conversion}", True, make)


def sgd(name: str, average: bool) -> Contender:
    """Return scikit-learn's L1 SGD, plain or averaged."""

    def make(data: Data, seed: int) -> Any:
        return SGDClassifier(
            loss="log_loss",
            penalty="l1",
            alpha=data.alpha,
            average=average,
            max_iter=data.passes,
            tol=None,
            random_state=seed,
        )

    return Contender(name, False, make)


def exact() -> Contender:
    """Return liblinear, the batch solver, which penalises the (scaled) intercept."""

    def make(data: Data, seed: int) -> Any:
        model = l1_logistic("liblinear", data.alpha, 0.0, len(data.y), intercept_scaling=10.0, random_state=seed)
        return model if len(np.unique(data.y)) == 2 else OneVsRestClassifier(model)

    return Contender("liblinear (batch)", False, make)


CONTENDERS = (
    ours("auto", "auto"),
    ours("nftrl", "last"),
    ours("fobos", "last"),
    ours("fobos", "average"),
    ours("fobos", "average-sl"),
    ours("fobos", "optimal-sl"),
    ours("rda", "last"),
    ours("rda", "average-sl"),
    ours("ftrl", "last"),
    sgd("scikit-learn SGD", average=False),
    sgd("scikit-learn SGD, averaged", average=True),
    exact(),
)


# --- one loop ---------------------------------------------------------------------------------------------------------


def weights(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights (models, features) and intercepts of any of the contenders."""
    parts = model.estimators_ if isinstance(model, OneVsRestClassifier) else [model]
    return np.vstack([part.coef_ for part in parts]), np.concatenate([part.intercept_ for part in parts])


def objective(model: Any, data: Data) -> float:
    """Return the mean logistic loss + alpha ||w||_1 on the training rows; for several models the mean over them."""
    coef, intercept = weights(model)
    values = []
    for w, b, positive in zip(coef, intercept, model.classes_[-len(coef) :], strict=True):
        signs = np.where(data.y == positive, 1.0, -1.0)
        values.append(metrics.objective(data.X, signs, w, b, loss="logistic", lam=data.alpha))
    return float(np.mean(values))


def measure(contender: Contender, data: Data) -> tuple[Result, Any]:
    """Fit the rows in two orders; return the result and the first model.

    Figures are from the first fit, stability is between the two, and the time is the shorter one.
    """
    models, supports, seconds = [], [], []
    for seed in (SEED, SEED + 1):
        order = np.random.default_rng(seed).permutation(len(data.y))
        shuffled = data._replace(X=data.X[order], y=data.y[order])
        start = time.perf_counter()
        models.append(contender.make(data, seed).fit(shuffled.X, shuffled.y))
        coef, _ = weights(models[-1])  # inside the clock: our models convert when the weights are read
        seconds.append(time.perf_counter() - start)
        supports.append(metrics.support(coef))
    first, second = supports
    result = Result(
        contender.name,
        objective(models[0], data),
        1.0 - models[0].score(data.X_test, data.y_test),
        int(first.sum()),
        metrics.jaccard(first, second),
        metrics.cohen_kappa(first, second),
        min(seconds),
    )
    return result, models[0]


def compare(data: Data, contenders: Sequence[Contender] = CONTENDERS) -> tuple[list[Result], dict[str, Any]]:
    """Return the results of all contenders on one data set, and our models by name."""
    results, models = [], {}
    for contender in contenders:
        print(f"{data.name}: {contender.name}", file=sys.stderr)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the passes are limited on purpose
            result, model = measure(contender, data)
        results.append(result)
        if contender.ours:
            models[contender.name] = model
    return results, models


# --- output -----------------------------------------------------------------------------------------------------------


def as_text(results: Sequence[Result]) -> str:
    """Return the table for a terminal."""
    rows = [HEADER, *([html.cell(value) for value in result] for result in results)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    pad = [str.ljust] + [str.rjust] * (len(HEADER) - 1)
    return "\n".join("  ".join(pad[i](row[i], widths[i]) for i in range(len(row))) for row in rows)


@html.with_plots
def plots(data: Data, results: Sequence[Result], models: dict[str, Any]) -> list[str]:
    """Return plots of objective and stability against the number of nonzeros, and of the objective along each run."""
    from matplotlib.figure import Figure

    chosen = Figure(figsize=(10, 4))
    for axes, field in zip(chosen.subplots(1, 2, gridspec_kw={"wspace": 0.3}), ("objective", "jaccard"), strict=True):
        for i, result in enumerate(results):
            marker = "o" if result.name in models else "s"
            axes.plot(max(result.nonzeros, 1), getattr(result, field), marker, color=f"C{i % 10}", label=result.name)
        axes.set(xlabel="nonzeros", ylabel=field, xscale="log")
        axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=8)

    along = Figure(figsize=(10, 4))
    left, right = along.subplots(1, 2, gridspec_kw={"wspace": 0.3})
    by_optimizer = {type(model.report_["optimizer"]).__name__: model for model in models.values()}
    for i, (name, model) in enumerate(by_optimizer.items()):
        examples = [point["t"] for point in model.history_]
        for axes, field in ((left, "objective"), (right, "nonzeros")):
            axes.plot(examples, [point[field] for point in model.history_], ".-", color=f"C{i % 10}", label=name)
    left.set(xlabel="examples", ylabel="objective", xscale="log")
    right.set(xlabel="examples", ylabel="nonzeros", xscale="log", yscale="symlog")
    right.set_ylim(bottom=0)
    right.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=8)
    return [
        html.figure(chosen, f"{data.name}: circles are sparsco, squares are scikit-learn."),
        html.figure(along, f"{data.name}: the iterates along the run, their objective on the first 1000 rows."),
    ]


NOTE = (
    "Objective: mean logistic loss + alpha ||w||_1 on the training rows. Jaccard and kappa (Cohen's) compare the sets "
    "of selected features between two shuffles of the same rows. Seconds: the faster of those two fits, so that "
    "compilation, which happens once per machine, is not counted. Liblinear solves the batch problem to its tolerance."
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit all contenders, print the tables and write the report."""
    parser = argparse.ArgumentParser(prog="python -m sparsco.cli.demo", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", default="sparsco-demo.html", help="where the report goes (default: %(default)s)")
    path = parser.parse_args(arguments).out
    blocks = [html.text(NOTE)]
    for data in (text_stream(), digits()):
        results, models = compare(data)
        print(f"\n{data.name}: {data.X.shape[0]:,} x {data.X.shape[1]:,}, alpha {data.alpha:g}\n{as_text(results)}\n")
        blocks += [html.heading(data.name), html.table(HEADER, results), *plots(data, results, models)]
    print(f"report: {html.write(path, 'sparsco: sparse learning by stochastic composite optimization', blocks)}")


if __name__ == "__main__":
    main()
