"""The problems by name: which rows, which strengths, which objective.

- ``path``: L1 logistic regression with an intercept at 32 strengths, from the largest that selects a feature to a
  hundredth of it; beside it stands one fit at the smallest strength;
- ``group``: logistic regression with a group lasso, groups of five columns, at a tenth of the largest strength;
- ``classes``: softmax regression with intercepts, with an L1 norm and with a group of each feature's weights;
- ``regression``: L1 least squares with an intercept, at a tenth and a fiftieth of the largest strength.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import logsumexp

from ... import datasets
from .. import sets
from .record import GROUP, PATH, ROW_GROUPS, SMALLEST, SOFTMAX, SQUARES, Models, Task

STRENGTHS = 32
GROUP_SIZE = 5
CLASSES = 5
"""The number of classes of generated rows."""
CLASS_ROWS = 10_000
"""The most rows of a real set of several classes."""
SETS: dict[str, dict[bool, tuple[str, ...]]] = {
    "path": {True: ("dense-2k", "rcv1-2kx5k"), False: ("dense-100k", "rcv1-100k")},
    "group": {True: ("dense-1kx50", "rcv1-1kx2k"), False: ("dense-20kx1k", "rcv1-20kx10k")},
    "classes": {True: ("dense-1kx20",), False: ("dense-20k", "mnist", "covtype20k", "news20")},
    "regression": {True: ("dense-1kx50", "rcv1-1kx2k"), False: ("dense-100k", "rcv1-20k", "cpusmall", "imdb-rating")},
}
"""The usual sets of each problem; True: the small ones of a quick run."""


def _logistic(
    X: Any, y: np.ndarray, norm: Callable[[np.ndarray], float], lams: np.ndarray, models: Models
) -> list[float]:
    """Return mean logistic loss + lam norm(w) of the model of each strength."""
    losses = [np.logaddexp(0.0, -y * (X @ w + b)).mean() for w, b in models]
    return [float(loss + lam * norm(w)) for loss, lam, (w, _) in zip(losses, lams, models, strict=True)]


def _l1(w: np.ndarray) -> float:
    return float(np.abs(w).sum())


def path(place: str) -> Iterator[Task]:
    """Yield the path of a set, and its smallest strength alone."""
    data = sets.load(place)
    X, y = data.X, data.y
    lams = data.strengths[0][0] / sets.SHARES[0] * np.geomspace(1.0, 0.01, STRENGTHS)
    whole, last = partial(_logistic, X, y, _l1, lams), partial(_logistic, X, y, _l1, lams[-1:])
    yield Task(f"{place}, {STRENGTHS} strengths", PATH, place, X, y, lams, whole)
    yield Task(f"{place}, the smallest of {STRENGTHS} strengths", SMALLEST, place, X, y, lams[-1:], last)


def group(place: str) -> Iterator[Task]:
    """Yield the group lasso of a set; the factor of a group is the root of its size."""
    data = sets.load(place)
    X, y = data.X, data.y
    groups, root = np.arange(X.shape[1]) // GROUP_SIZE, np.sqrt(GROUP_SIZE)
    starts = np.arange(0, X.shape[1], GROUP_SIZE)

    def norms(w: np.ndarray) -> np.ndarray:
        return np.sqrt(np.add.reduceat(w * w, starts))

    largest = float(norms(X.T @ (y - y.mean())).max()) / root / (2 * len(y))
    lams = np.array([sets.SHARES[0] * largest])
    objectives = partial(_logistic, X, y, lambda w: root * float(norms(w).sum()), lams)
    yield Task(f"{place}, groups of {GROUP_SIZE}", GROUP, place, X, y, lams, objectives, groups)


def classes(place: str) -> Iterator[Task]:
    """Yield softmax regressions of a set at two strengths, with single weights and with groups of them."""
    X, y = _classified(place)
    n, Y = len(y), np.eye(y.max() + 1)[y]
    slopes = X.T @ (Y - Y.mean(0)) / n

    def objective(norm: Callable[[np.ndarray], float], lam: float, models: Models) -> list[float]:
        margins = [X @ w.T + b for w, b in models]
        losses = [(logsumexp(each, axis=1) - each[np.arange(n), y]).mean() for each in margins]
        return [float(loss + lam * norm(w)) for loss, (w, _) in zip(losses, models, strict=True)]

    def grouped(w: np.ndarray) -> float:
        return float(np.sqrt((w * w).sum(0)).sum())

    largest = {SOFTMAX: float(np.abs(slopes).max()), ROW_GROUPS: float(np.sqrt((slopes**2).sum(1)).max())}
    for share in sets.SHARES:
        for form, norm in ((SOFTMAX, _l1), (ROW_GROUPS, grouped)):
            lam = share * largest[form]
            title = f"{place}, {form}, {share:g} of the largest"
            yield Task(title, form, place, X, y, np.array([lam]), partial(objective, norm, lam))


def _classified(place: str) -> tuple[Any, np.ndarray]:
    """Return rows and their classes, from 0 on; each column of a real set is divided by its largest value."""
    rng = np.random.default_rng(1)
    if place in datasets.REGISTRY:
        X, y = datasets.load(place, "train")
        some = rng.permutation(len(y))[:CLASS_ROWS]
        X = csr_matrix(X[some])
        X = csr_matrix(X.multiply(1.0 / np.maximum(abs(X).max(0).toarray(), 1e-300)))
        return X, np.unique(y[some], return_inverse=True)[1]
    X = sets.load(place).X
    truth = rng.standard_normal((X.shape[1], CLASSES)) * (rng.random((X.shape[1], 1)) < 0.2)
    return X, (X @ truth + rng.gumbel(size=(X.shape[0], CLASSES))).argmax(1)


def regression(place: str) -> Iterator[Task]:
    """Yield the least squares of a set at two strengths."""
    X, y = _numbers(place)
    largest = float(np.abs(X.T @ (y - y.mean())).max()) / len(y)

    def objectives(lam: float, models: Models) -> list[float]:
        return [float(0.5 * np.mean((y - X @ w - b) ** 2) + lam * _l1(w)) for w, b in models]

    for share in sets.SHARES:
        lam = share * largest
        title = f"{place}, {SQUARES}, {share:g} of the largest"
        yield Task(title, SQUARES, place, X, y, np.array([lam]), partial(objectives, lam))


def _numbers(place: str) -> tuple[Any, np.ndarray]:
    """Return rows and numbers; the columns of cpusmall get unit variance."""
    if place in datasets.REGISTRY:
        X, y = datasets.load(place, "train")
        if place == "cpusmall":
            X = X.toarray()
            X = (X - X.mean(0)) / X.std(0)
        return X, y
    X, rng = sets.load(place).X, np.random.default_rng(1)
    truth, with_effect = np.zeros(X.shape[1]), rng.permutation(X.shape[1])[: -(-X.shape[1] // 10)]
    truth[with_effect] = rng.standard_normal(len(with_effect))
    signal = X @ truth
    return X, signal + signal.std() * rng.standard_normal(len(signal))


PROBLEMS: dict[str, Callable[[str], Iterator[Task]]] = {
    "path": path,
    "group": group,
    "classes": classes,
    "regression": regression,
}


def places_of(name: str, wanted: Sequence[str] | None, quick: bool) -> list[str]:
    """Return the sets of a problem: the wanted ones, or its usual ones; raise for sets that do not exist."""
    if wanted is None:
        return list(SETS[name][quick])
    real = datasets.REGISTRY if name in ("classes", "regression") else ()
    return [place for each in wanted for place in ([each] if each in real else sets.names([each], quick)[0])]
