"""Exact problems: small penalised fits, with the objectives and the features of their optima as they were recorded.

A solver may change, an optimum may not.  ``make golden`` writes ``tests/golden/optima.json``.
"""

from __future__ import annotations

import functools
import itertools
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import sparsco
from sparsco.losses import CLASSIFIER_LOSSES, REGRESSOR_LOSSES
from sparsco.losses import value as loss_value
from support.golden import LOSSES, estimator

RECORD = Path(__file__).parents[1] / "golden" / "optima.json"
TOLERANCE = 1e-9
"""The relative accuracy of a certified optimum, and by how much an objective may rise."""
SHAPES = {"narrow": (200, 10, 1.0), "sparse": (200, 40, 0.2), "wide": (50, 300, 0.1), "tied": (150, 40, 1.0),
          "lattice": (120, 30, 0.5)}  # fmt: skip
STRENGTHS = (0.1, 0.03, 0.01)
RATIOS = (1.0, 0.5)


class Problem(NamedTuple):
    """A loss on rows of a shape, with a strength and the share of the L1 term."""

    loss: str
    shape: str
    alpha: float
    l1_ratio: float
    grouped: bool

    @property
    def name(self) -> str:
        return "/".join(map(str, (self.loss, self.shape, self.alpha, "groups" if self.grouped else self.l1_ratio)))


class Optimum(NamedTuple):
    """The objective of the answer to a given alpha, that of the certified optimum, and its features."""

    given: float
    certified: float
    features: list[int]


def problems() -> Iterator[Problem]:
    """Every loss with every shape, strength and mixture, and groups of features."""
    for loss, shape, alpha, ratio in itertools.product(LOSSES, SHAPES, STRENGTHS, RATIOS):
        yield Problem(loss, shape, alpha, ratio, False)
    for loss, shape, alpha in itertools.product(("logistic", "squared", "poisson", "huber"), SHAPES, STRENGTHS):
        yield Problem(loss, shape, alpha, 1.0, True)


@functools.cache
def _rows(shape: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a shape and their targets."""
    n, d, density = SHAPES[shape]
    rng = np.random.default_rng(n + d)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    if shape == "tied":
        X = X + 3.0 * rng.normal(size=(n, 1))
    if shape == "lattice":
        X = np.round(X)
        X[:, 1] = X[:, 0]
    score = X[:, :5] @ np.array([1.0, -1.0, 0.5, 0.25, 0.75]) + 0.5 * rng.normal(size=n)
    score = 2.0 * np.tanh(score / 2.0)
    y = {
        "signs": np.where(score > 0.0, 1.0, -1.0),
        "classes": np.digitize(score, [-0.5, 0.5]),
        "numbers": score,
        "counts": rng.poisson(np.exp(score / 2.0)).astype(float),
        "positive": np.exp(score / 2.0) * rng.gamma(4.0, 0.25, n),
    }[kind]
    return X, y


def objective(problem: Problem, model: Any) -> float:
    """The mean loss and the penalty of a fitted model."""
    X, y = _rows(problem.shape, LOSSES[problem.loss])
    record = (CLASSIFIER_LOSSES | REGRESSOR_LOSSES)[problem.loss]
    w = np.asarray(model.coef_).reshape(-1, X.shape[1])
    p = X @ w.T + np.ravel(model.intercept_)
    targets = np.eye(len(w))[y] if record.couples else y[:, None]
    penalty = problem.l1_ratio * np.abs(w).sum() + (1.0 - problem.l1_ratio) / 2.0 * np.sum(w**2)
    if problem.grouped:
        penalty = sum(np.sqrt(len(part)) * np.linalg.norm(w[0, part]) for part in _parts(X.shape[1]))
    return float(loss_value(record, p, targets).sum(1).mean() + problem.alpha * penalty)


def _parts(d: int) -> list[np.ndarray]:
    return np.split(np.arange(d), range(5, d, 5))


def solved(problem: Problem) -> Optimum:
    """The answer of today."""
    X, y = _rows(problem.shape, LOSSES[problem.loss])
    settings: dict[str, Any] = {"alpha": problem.alpha, "l1_ratio": problem.l1_ratio, "standardize": False}
    if problem.grouped:
        settings |= {"penalty": "group", "feature_groups": np.arange(X.shape[1]) // 5}
        settings.pop("l1_ratio")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = estimator(problem.loss, **settings).fit(X, y)
        certified = estimator(problem.loss, polish=TOLERANCE, **settings).fit(X, y)
    features = np.flatnonzero(np.abs(np.asarray(certified.coef_).reshape(-1, X.shape[1])).max(0))
    return Optimum(objective(problem, given), objective(problem, certified), features.tolist())


def write() -> None:
    """Write the record of all problems that are not refused."""
    every = {}
    for problem in problems():
        try:
            every[problem.name] = solved(problem)
        except (ValueError, sparsco.DivergenceError) as error:
            print(problem.name, str(error)[:120])
    RECORD.write_text("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in every.items()) + "\n}\n")
    print(f"{len(every)} problems")


if __name__ == "__main__":
    write()
