"""Coverage of nominal 95% intervals: how often they hold the weight that they are for.

Usage: python benchmarks/intervals.py [--repetitions 200] [--fits auto alpha stream] [--designs ...] [--losses ...]

Rows are generated, features are selected, and intervals are computed anew in each repetition.  "Projection" is the
share of the intervals that hold the weight of the best model in the same features (of the whole population), which is
what they are for.  "True weight" is the share that hold the weight that generated the data.  It prints a table in
Markdown.  docs/intervals.md has the result.

- same rows: intervals from the rows of the selection
- split: selected on one half of the rows, intervals from the other half
- selected: one read of a stream, the features that were selected
- named: the same, nine features that were named in advance, true ones and others
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any, NamedTuple

import numpy as np

from sparsco import SparseClassifier, SparseRegressor
from sparsco.conversions import AverageSL
from sparsco.inference.unpenalised import Design, optimum
from sparsco.losses import Logistic

DESIGNS = {"independent": 0.0, "AR(1) .5": 0.5, "AR(1) .9": 0.9, "text": None}
SIZES = ((1000, 20), (500, 50), (200, 100), (300, 500))
STREAMS = ((5_000, 20), (20_000, 50), (60_000, 20))
SAMPLE = 100_000
"""The nonzeros of the sample of a stream; a small one makes short streams long."""
STRONG, WEAK, NOISE = 1.0, 0.3, 1.5
POOL = 20_000


class Case(NamedTuple):
    """A way to generate rows: the design, the loss, the number of columns and the true weights."""

    design: str
    loss: str
    p: int
    weights: np.ndarray

    def rows(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return n rows."""
        rho = DESIGNS[self.design]
        if rho is None:
            counts = 1.0 + rng.poisson(0.5, (n, self.p))
            return counts * (rng.random((n, self.p)) < self.rates)
        X = rng.standard_normal((n, self.p))
        for j in range(1, self.p if rho else 0):
            X[:, j] = rho * X[:, j - 1] + np.sqrt(1.0 - rho * rho) * X[:, j]
        return X

    @property
    def rates(self) -> np.ndarray:
        """Return how often each word occurs: Zipf's law, the rarest in one of a hundred rows."""
        return np.maximum(0.5 / (1.0 + 0.2 * np.arange(self.p)), 0.01)

    def targets(self, rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
        """Return targets of rows."""
        p = X @ self.weights
        if self.loss == "linear":
            return p + NOISE * rng.standard_normal(len(p))
        return (rng.random(len(p)) < 1.0 / (1.0 + np.exp(-p))).astype(int)

    def model(self, **settings: Any) -> Any:
        """Return an estimator."""
        kind = SparseRegressor if self.loss == "linear" else SparseClassifier
        return kind(random_state=0, **settings)


def case_of(design: str, loss: str, p: int) -> Case:
    """Return a case with five strong and three weak true features, spread over the columns."""
    weights, places = np.zeros(p), np.linspace(0, 0.6 * p, 8).astype(int)
    signs = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    weights[places] = signs * np.array([STRONG, STRONG, WEAK, STRONG, WEAK, STRONG, WEAK, STRONG])
    return Case(design, loss, p, weights)


class Truth:
    """The weights of the best model in some columns, of the population of a case."""

    def __init__(self, case: Case, rows: int) -> None:
        self.case, self.known = case, dict[tuple[int, ...], np.ndarray]()
        self.pool = case.rows(np.random.default_rng(12345), rows) if case.loss == "logistic" else None

    def of(self, columns: np.ndarray) -> np.ndarray:
        """Return the weights of these columns."""
        key = tuple(columns.tolist())
        if key not in self.known:
            self.known[key] = self._linear(columns) if self.pool is None else self._logistic(columns)
        return self.known[key]

    def _linear(self, columns: np.ndarray) -> np.ndarray:
        rho = DESIGNS[self.case.design]
        if rho is None:
            return self.case.weights[columns]
        S = rho ** np.abs(np.subtract.outer(np.arange(self.case.p), np.arange(self.case.p)))
        return np.linalg.solve(S[np.ix_(columns, columns)], S[columns] @ self.case.weights)

    def _logistic(self, columns: np.ndarray) -> np.ndarray:
        """Return the optimum over many rows, each with both labels by their probabilities."""
        assert self.pool is not None
        share = 1.0 / (1.0 + np.exp(-self.pool @ self.case.weights))
        Z = np.column_stack([self.pool[:, columns], np.ones(len(share))])
        signs, shares = np.repeat([1.0, -1.0], len(share)), np.concatenate([share, 1.0 - share])
        design = Design(np.concatenate([Z, Z]), signs, shares, Logistic())
        return optimum(design, np.append(self.case.weights[columns], 0.0))[:-1]


class Count:
    """The intervals of many repetitions, and how many of them hold their weights."""

    def __init__(self) -> None:
        self.hits, self.sizes, self.undecided, self.refused, self.widths = [], [], 0, 0, []

    def add(self, table: Any, shown: np.ndarray, projection: np.ndarray, weights: np.ndarray) -> None:
        """Add the intervals of a model."""
        has = shown & np.isfinite(table["error"])
        self.undecided += int((shown & ~has).sum())
        if not has.any():
            return
        low, high = table["low"][has], table["high"][has]
        held = [np.count_nonzero((low <= truth[has]) & (truth[has] <= high)) for truth in (projection, weights)]
        self.hits.append(held)
        self.sizes.append(np.count_nonzero(has))
        self.widths.append(float(np.median(high - low)))

    def cells(self) -> list[str]:
        """Return coverages with standard errors over repetitions, intervals for each model, and those without."""
        if not self.sizes:
            return ["", "", "", "", f"{self.undecided}", f"{self.refused}"]
        hits, sizes = np.array(self.hits, float), np.array(self.sizes, float)
        share = hits.sum(0) / sizes.sum()
        spread = np.sqrt(np.square(hits - share * sizes[:, None]).sum(0)) / sizes.sum()
        found = [f"{100.0 * s:.1f} ± {100.0 * e:.1f}" for s, e in zip(share, spread, strict=True)]
        more = [f"{sizes.mean():.1f}", f"{np.mean(self.widths):.2g}", f"{self.undecided}", f"{self.refused}"]
        return [*found, *more]


def counted(case: Case, fit: str, n: int, repetitions: int) -> dict[str, Count]:
    """Return the intervals of many repetitions of one fit, by their kind."""
    truth, named = Truth(case, POOL if n <= 1000 else 5 * POOL), named_of(case)
    kinds = (
        {"selected": {}, "named": {"also": named}} if fit == "stream" else {"same rows": {}, "split": {"split": True}}
    )
    counts = {kind: Count() for kind in kinds}
    for number in range(repetitions):
        rng = np.random.default_rng([number, n, case.p])
        X = case.rows(rng, n)
        model = fitted(case, fit, X, case.targets(rng, X))
        for kind, settings in kinds.items():
            try:
                table = model.intervals(0.95, **settings)
            except ValueError:
                counts[kind].refused += 1
                continue
            columns = np.array([int(name[1:]) for name in table["feature"]], np.int64)
            if len(columns):
                shown = np.isin(columns, named) if kind == "named" else np.ones(len(columns), bool)
                counts[kind].add(table, shown, truth.of(columns), case.weights[columns])
    return counts


def named_of(case: Case) -> list[int]:
    """Return five true features and four others."""
    others = np.flatnonzero(case.weights == 0.0)
    return [*np.flatnonzero(case.weights)[:5].tolist(), *others[[0, 3, 6, 9]].tolist()]


def fitted(case: Case, fit: str, X: np.ndarray, y: np.ndarray) -> Any:
    """Return a fitted model: automatic, with an alpha above the noise of half of the rows, or of one read."""
    noise = NOISE if case.loss == "linear" else 0.5
    if fit == "auto":
        return case.model().fit(X, y)
    model = case.model(alpha=noise * np.sqrt(4.0 * np.log(case.p) / len(y)))
    if fit == "alpha":
        return model.fit(X, y)
    return model.partial_fit(X, y, **({} if case.loss == "linear" else {"classes": [0, 1]}))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=200)
    fits = ["stream", "auto", "alpha"]
    parser.add_argument("--fits", nargs="+", default=fits, choices=fits)
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=list(DESIGNS))
    parser.add_argument("--losses", nargs="+", default=["linear", "logistic"])
    every = [f"{n}x{p}" for n, p in (*STREAMS, *SIZES)]
    parser.add_argument("--sizes", nargs="+", default=every, choices=every, help="rows x columns")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    AverageSL.sample_nonzeros = SAMPLE
    heads = ["fit", "intervals", "loss", "design", "rows", "columns", "projection %", "true weight %", "per model"]
    heads += ["median width", "undecided", "refused"]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads), flush=True)
    for fit in given.fits:
        for n, p in STREAMS if fit == "stream" else SIZES:
            for loss in given.losses:
                for design in given.designs if f"{n}x{p}" in given.sizes else ():
                    found = counted(case_of(design, loss, p), fit, n, given.repetitions)
                    for kind, count in found.items():
                        cells = [fit, kind, loss, design, f"{n:,}", str(p), *count.cells()]
                        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
