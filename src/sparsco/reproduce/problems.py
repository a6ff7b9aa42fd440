"""The papers' learning problems: a stream of examples, the measures of a model, and the exact optimum.

A problem is built from the fields of a data file; PROBLEMS lists the names.  Rows come in chunks, so that no problem
needs to fit into memory, and depend on the trial alone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import datasets, metrics
from ..conversions.averaging import Last
from ..data.rows import Matrix, as_matrix, squared_norms
from ..datasets import tomography
from ..datasets.generators import text_like, uneven_moments
from ..engine.run import DivergenceError, Run
from ..losses import Hinge, Logistic, Squared, value
from ..optimizers import FOBOS
from ..penalties import L1, ElasticNet, L1Ball, WeightedElasticNet
from ..presets import PRESETS
from ..steps import InverseTime
from .optimum import optimum, optimum_in_ball
from .selection import Annealing, Selection, checksums

_ENTRIES = 4_000_000
"""The numbers that are generated at a time."""


class Chunk(NamedTuple):
    """The rows ``order`` of a matrix, to be learned; ``is_repeat_pass`` if they have been seen before."""

    matrix: Matrix
    y: np.ndarray
    order: np.ndarray
    is_repeat_pass: bool


class Synthetic(NamedTuple):
    """The problem b = <a, w*> + noise with a ~ U(-1, 1)^d and w* = 1 on the first half; the objective is exact."""

    d: int
    lam: float
    rho: float
    variance: float
    seed: int = 0

    @property
    def loss(self) -> Squared:
        return Squared()

    @property
    def penalty(self) -> ElasticNet:
        return ElasticNet(self.lam, self.rho)

    @property
    def truth(self) -> np.ndarray:
        """Return w*."""
        return np.where(np.arange(self.d) < self.d // 2, 1.0, 0.0)

    def stream(self, trial: int, examples: int) -> Iterator[Chunk]:
        """Yield the trial's first ``examples`` rows; a chunk is valid until the next one is requested."""
        rows = max(1, _ENTRIES // self.d)
        data, indptr = np.empty((rows, self.d)), np.arange(0, rows * self.d + 1, self.d)
        indices = np.tile(np.arange(self.d, dtype=np.uint32), rows)
        for first in range(0, examples, rows):
            n = min(rows, examples - first)
            rng = np.random.default_rng([self.seed, trial, first, round(1000 * self.variance)])
            noise = np.sqrt(self.variance) * rng.standard_normal(rows)[:n]
            part = data[:n]
            rng.random(out=part)
            part *= 2.0
            part -= 1.0
            y = part[:, : self.d // 2].sum(axis=1) + noise
            matrix = Matrix(indptr[: n + 1], indices[: n * self.d], part.reshape(-1), self.d)
            yield Chunk(matrix, y, np.arange(n), False)

    def measures(self, w: np.ndarray, trial: int = 0) -> dict[str, float]:
        """Return the objective, densities, recovery of the support and L1 norm."""
        loss = np.square(w - self.truth).sum() / 6.0 + self.variance / 2.0
        return {
            "Obj": float(loss + self.rho / 2.0 * w @ w + self.lam * np.abs(w).sum()),
            "ED": metrics.exact_density(w),
            "TD": metrics.truncated_density(w),
            "SSR": metrics.support_recovery(w, self.truth),
            "L1": float(np.abs(w).sum()),
        }

    def data(self) -> list[str]:
        """Return an empty list: the problem reads no files."""
        return []

    def exact(self) -> np.ndarray:
        """Return the minimum of the expected objective, which is separable."""
        return np.maximum(1.0 / 3.0 - self.lam, 0.0) / (1.0 / 3.0 + self.rho) * self.truth

    def weights(self, w: np.ndarray) -> np.ndarray:
        """Return the penalised weights: all."""
        return w


class Classification(NamedTuple):
    """Logistic or hinge loss on a data set, with rows shuffled for each trial and pass.

    As in the papers the intercept is a feature that is always one: in the L2 term, not in the L1 norm.
    ``unit_columns`` scales every feature to [0, 1] by its largest value.
    """

    source: str
    lam: float
    rho: float
    pair: tuple[int, ...] = ()
    swapped: bool = False
    unit_columns: bool = False
    rows: int = 100_000
    """The number of rows of generated data."""
    hinge: bool = False
    seed: int = 0

    @property
    def loss(self) -> Any:
        return Hinge() if self.hinge else Logistic()

    @property
    def d(self) -> int:
        return self._rows()[0].d

    @property
    def penalty(self) -> WeightedElasticNet:
        return WeightedElasticNet(self.lam, self.rho, np.r_[np.ones(self.d - 1), 0.0])

    def _rows(self) -> tuple[Matrix, Any, np.ndarray, Any, np.ndarray]:
        return _loaded(self.source, tuple(self.pair), self.swapped, self.unit_columns, self.rows)

    def stream(self, trial: int, examples: int) -> Iterator[Chunk]:
        """Yield as many passes as needed, each in its own order."""
        matrix, _, y, _, _ = self._rows()
        for first in range(0, examples, len(y)):
            order = np.random.default_rng([self.seed, trial, first]).permutation(len(y))
            yield Chunk(matrix, y, order[: examples - first], first > 0)

    def measures(self, w: np.ndarray, trial: int = 0) -> dict[str, float]:
        """Return the objective on all training rows, the test error, and densities without the intercept."""
        _, X, y, X_test, y_test = self._rows()
        return {
            "Obj": float(value(self.loss, X @ w, y).mean() + self.penalty.strength(w)),
            "TE": float(np.mean(np.where(X_test @ w > 0.0, 1.0, -1.0) != y_test)),
            "ED": metrics.exact_density(w[:-1]),
            "TD": metrics.truncated_density(w[:-1]),
        }

    def data(self) -> list[str]:
        """Return the checksums of the files that are read; raise if a file is missing."""
        return [] if self.source == GENERATED else checksums(self.source)

    def exact(self) -> np.ndarray:
        """Return the minimum of the objective on all training rows."""
        _, X, y, _, _ = self._rows()
        return optimum(X, y, self.loss, self.lam, self.rho, self.penalty.pen)

    def weights(self, w: np.ndarray) -> np.ndarray:
        """Return the penalised weights: all but the intercept."""
        return w[:-1]


class Tomography(NamedTuple):
    """The reconstruction of an image from the lengths of rays in its pixels, each measured with an error of 5%.

    Rays are drawn with replacement, and the first iterate is noise.
    """

    N: int
    angles: int = 360
    noise: float = 0.05
    seed: int = 0

    @property
    def loss(self) -> Squared:
        return Squared()

    @property
    def penalty(self) -> L1:
        return L1(0.0)

    @property
    def d(self) -> int:
        return self.N**2

    @property
    def largest_row(self) -> float:
        """Return the largest squared norm of a row."""
        return _rays(self.N, self.angles)[2]

    def initial(self, trial: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the first iterate w_1."""
        return np.random.default_rng([self.seed, trial, 1]).random((self.d, 1)), np.zeros(1)

    def stream(self, trial: int, examples: int) -> Iterator[Chunk]:
        """Yield rays in a random order."""
        matrix, measured, _ = _rays(self.N, self.angles)
        error = np.random.default_rng([self.seed, trial, 2]).standard_normal(len(measured))
        y = measured + self.noise * np.abs(measured) * error
        drawn = np.random.default_rng([self.seed, trial, 3])
        for first in range(0, examples, 1 << 16):
            yield Chunk(matrix, y, drawn.integers(len(y), size=min(1 << 16, examples - first)), False)

    def measures(self, w: np.ndarray, trial: int = 0) -> dict[str, float]:
        """Return the number of weights that count as nonzero, and the relative error."""
        truth = self.exact()
        return {
            "NNC": float(np.count_nonzero(np.abs(w) > 1e-7)),
            "error": float(np.linalg.norm(w - truth) / np.linalg.norm(truth)),
        }

    def data(self) -> list[str]:
        """Return an empty list: the problem reads no files."""
        return []

    def exact(self) -> np.ndarray:
        """Return the true image."""
        return _image(self.N)

    def weights(self, w: np.ndarray) -> np.ndarray:
        """Return the penalised weights: all."""
        return w


@functools.cache
def _image(N: int) -> np.ndarray:
    return tomography.shepp_logan(N).ravel()


@functools.cache
def _rays(N: int, angles: int) -> tuple[Matrix, np.ndarray, float]:
    """Return the matrix, the measurements without error, and the largest squared norm of a row."""
    matrix = as_matrix(tomography.fan_beam(N, np.arange(angles) * (360.0 / angles)))
    norms = squared_norms(matrix.indptr, matrix.data, np.arange(len(matrix)))
    return matrix, matrix.to_scipy() @ _image(N), float(norms.max())


class SVM(NamedTuple):
    """Hinge loss and an L2 term of weight 1/n on four fifths of a data set, tested on the rest; columns in [-1, 1].

    Each trial makes a new split and draws rows with replacement.  The steps are mu / (rho t).  mu is fixed, or tuned on
    the training rows by cross-validation of the last iterate, over powers of two.
    """

    source: str
    l2_in: str
    fixed_mu: float | None = None
    seed: int = 0

    @property
    def loss(self) -> Hinge:
        return Hinge()

    @property
    def d(self) -> int:
        return _two_classes(self.source)[0].shape[1]

    @property
    def rho(self) -> float:
        return 1.0 / (4 * len(_two_classes(self.source)[1]) // 5)

    @property
    def penalty(self) -> ElasticNet:
        return ElasticNet(0.0, self.rho)

    def mu(self, trial: int) -> float:
        """Return mu by 10 folds of the training rows; at most 1 with the L2 term in the gradient: no overshoot."""
        return self.fixed_mu or _tuned(self, trial)

    def stream(self, trial: int, examples: int) -> Iterator[Chunk]:
        """Yield rows drawn with replacement."""
        (X, y), _ = _split(self, trial)
        drawn = np.random.default_rng([self.seed, trial, 1]).integers(len(y), size=examples)
        yield Chunk(as_matrix(X), y, drawn, False)

    def measures(self, w: np.ndarray, trial: int = 0) -> dict[str, float]:
        """Return the objective on training and on test rows."""
        penalty = 0.5 * self.rho * float(w @ w)
        train, test = (float(value(self.loss, X @ w, y).mean()) + penalty for X, y in _split(self, trial))
        return {"train": train, "test": test}

    def data(self) -> list[str]:
        """Return the checksums of the files that are read; raise if a file is missing."""
        return checksums(self.source)

    def weights(self, w: np.ndarray) -> np.ndarray:
        """Return the penalised weights: all."""
        return w


class Ratings(NamedTuple):
    """Squared loss in an L1 ball, with centred targets.

    Word counts become logarithms, weighted by rarity (idf), in rows of norm one.  Steps (over the mean squared norm)
    and first epochs are tuned over ``grid`` and ``epochs`` in the method's ball, by a pass over half of the rows.
    """

    source: str
    radius: float
    grid: tuple[float, ...] = ()
    epochs: tuple[int, ...] = ()
    rows: int = 0
    """The number of first rows that are used of each part; 0: all."""
    seed: int = 0

    @property
    def loss(self) -> Squared:
        return Squared()

    @property
    def d(self) -> int:
        return self._parts()[0].d

    def _parts(self) -> tuple[Matrix, Any, np.ndarray, Any, np.ndarray]:
        return _ratings(self.source, self.rows)

    @property
    def penalty(self) -> L1Ball:
        return L1Ball(self.radius)

    def steps(self, method: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of Epoch-SGD or of SGD in the ball that the data file does not give."""
        ball = self._replace(radius=method.get("B", self.radius))
        eta1, T1 = _tuned_ball(ball, method["preset"])
        return {"B": ball.radius, "eta1": eta1, "T1": T1, "eta": eta1, "paper": True}

    def exact(self, B: float) -> np.ndarray:
        """Return the minimum of the mean loss over the training rows in the ball of radius B."""
        return optimum_in_ball(*self.training(), B)

    def stream(self, trial: int, examples: int) -> Iterator[Chunk]:
        """Yield as many passes as needed, each in its own order."""
        matrix, _, y, _, _ = self._parts()
        for first in range(0, examples, len(y)):
            order = np.random.default_rng([self.seed, trial, first]).permutation(len(y))
            yield Chunk(matrix, y, order[: examples - first], first > 0)

    def training(self) -> tuple[Any, np.ndarray]:
        """Return the training rows and targets."""
        _, X, y, _, _ = self._parts()
        return X, y

    def measures(self, w: np.ndarray, trial: int = 0) -> dict[str, float]:
        """Return the root mean squared error on the test rows, and the number of features."""
        _, _, _, X_test, y_test = self._parts()
        error = float(np.sqrt(np.mean(np.square(X_test @ w - y_test))))
        return {"RMSE": error, "features": float(np.count_nonzero(w))}

    def data(self) -> list[str]:
        """Return the checksums of the files that are read; raise if a file is missing."""
        return [] if self.source == UNEVEN else checksums(self.source)

    def weights(self, w: np.ndarray) -> np.ndarray:
        """Return the penalised weights: all."""
        return w


@functools.lru_cache(maxsize=4)
def _ratings(source: str, rows: int) -> tuple[Matrix, Any, np.ndarray, Any, np.ndarray]:
    """Return training rows for the kernels and for products, their targets; test rows and targets."""
    if source == UNEVEN:
        X, y = uneven_moments(15_000, 500, 0.4, np.random.default_rng(0))
        parts = [(sp.csr_array(X[:10_000]), y[:10_000]), (sp.csr_array(X[10_000:]), y[10_000:])]
    else:
        parts = [datasets.load(source, part) for part in ("train", "test")]
    (X, y), (X_test, y_test) = ((X[: rows or None], y[: rows or None]) for X, y in parts)
    if source == "imdb-rating":
        rarity = np.log((1.0 + X.shape[0]) / (1.0 + np.bincount(X.indices, minlength=X.shape[1]))) + 1.0
        X, X_test = (_unit_rows(sp.csr_array(np.log1p(part) @ sp.diags_array(rarity))) for part in (X, X_test))
    X, X_test, mean = sp.csr_array(X), sp.csr_array(X_test), float(np.mean(y))
    return as_matrix(X), X, y - mean, X_test, y_test - mean


def _unit_rows(X: Any) -> Any:
    norms = np.sqrt(np.asarray(X.multiply(X).sum(1)).ravel())
    return sp.csr_array(sp.diags_array(1.0 / np.where(norms > 0.0, norms, 1.0)) @ X)


@functools.lru_cache(maxsize=16)
def _tuned_ball(problem: Ratings, preset: str) -> tuple[float, int]:
    """Return the step and epoch of least squared error on one half after a pass over the other, both ways."""
    epochs = problem.epochs if preset == "TwoStage" else problem.epochs[:1]
    matrix, X, y, _, _ = problem._parts()
    norm = float(squared_norms(matrix.indptr, matrix.data, np.arange(len(matrix))).mean())
    choices = [(eta / norm, T1) for eta in problem.grid for T1 in epochs]
    if len(choices) == 1:
        return choices[0]
    half = np.random.default_rng(problem.seed).permutation(len(y)) % 2
    found = {}
    for eta, T1 in choices:
        constants = {"eta1": eta, "T1": T1} if preset == "TwoStage" else {"eta": eta}
        optimizer, conversion, rule, _ = PRESETS[preset](paper=True, **constants)
        errors = []
        for part in (0, 1):
            run = Run(problem.loss, problem.penalty, optimizer, conversion, rule, d=problem.d, intercept=False)
            try:
                run.feed(matrix, y, order=np.flatnonzero(half == part))
                errors.append(np.mean(np.square(X[half != part] @ run.finish().w[:, 0] - y[half != part])))
            except DivergenceError:
                errors.append(np.inf)
        found[eta, T1] = np.mean(errors)
    return min(found, key=found.__getitem__)


@functools.cache
def _two_classes(name: str) -> tuple[Any, np.ndarray]:
    """Return all training rows; of several labels the first half against the second; columns in [-1, 1]."""
    X, y = datasets.load(name, "train")
    labels = np.unique(y)
    (X,) = _with_unit_columns(X)
    return sp.csr_array(X), np.where(np.isin(y, labels[: (len(labels) + 1) // 2]), 1.0, -1.0)


@functools.lru_cache(maxsize=4)
def _split(problem: SVM, trial: int) -> tuple[tuple[Any, np.ndarray], tuple[Any, np.ndarray]]:
    X, y = _two_classes(problem.source)
    order = np.random.default_rng([problem.seed, trial, 0]).permutation(len(y))
    train, test = np.split(order, [4 * len(y) // 5])
    return (X[train], y[train]), (X[test], y[test])


@functools.lru_cache(maxsize=64)
def _tuned(problem: SVM, trial: int) -> float:
    (X, y), _ = _split(problem, trial)
    rng = np.random.default_rng([problem.seed, trial, 2])
    fold = rng.permutation(len(y)) % 10
    found = {}
    for power in range(-12, 1 if problem.l2_in == "gradient" else 5):
        step, scores = InverseTime(2.0**power / problem.rho, cap=False), []
        for k in range(10):
            rows = np.flatnonzero(fold != k)
            method = FOBOS(problem.l2_in), Last(), step
            run = Run(problem.loss, problem.penalty, *method, d=problem.d, intercept=False)
            run.feed(as_matrix(X[rows]), y[rows], order=rng.integers(len(rows), size=len(rows)))
            w = run.finish().w[:, 0]
            held_out = value(problem.loss, X[fold == k] @ w, y[fold == k])
            scores.append(float(held_out.mean()) + 0.5 * problem.rho * float(w @ w))
        found[power] = np.mean(scores)
    return 2.0 ** min(found, key=found.__getitem__)


GENERATED, UNEVEN = "generated-rcv1", "generated-moments"
PROBLEMS = {
    "synthetic": Synthetic,
    "classification": Classification,
    "tomography": Tomography,
    "svm": SVM,
    "ratings": Ratings,
    "selection": Selection,
    "annealing": Annealing,
}


def make(fields: dict[str, Any]) -> Any:
    """Return the problem that a data file names."""
    given: dict[str, Any] = {name: tuple(field) if isinstance(field, list) else field for name, field in fields.items()}
    return PROBLEMS[given.pop("name")](**given)


@functools.cache
def _digits(part: str) -> tuple[Any, np.ndarray]:
    return datasets.load("mnist", part)


@functools.lru_cache(maxsize=5)
def _loaded(name: str, pair: tuple[int, ...], swapped: bool, unit_columns: bool, rows: int) -> tuple:
    """Return training rows for the kernels and for products, their labels; test rows and labels; last column one."""
    if name == GENERATED:
        X, y = text_like(rows + 20_000, 47_236, 74, relevant=500, scale=40.0, rng=np.random.default_rng(0))
        parts = [(X[:rows], y[:rows]), (X[rows:], y[rows:])]
    elif pair:
        parts = [datasets.two_digits(*_digits(part), *pair) for part in ("train", "test")]
    else:
        parts = [datasets.load(name, part) for part in ("train", "test")]
    if swapped:
        parts.reverse()
    (X, y), (X_test, y_test) = parts
    if unit_columns:
        X, X_test = _with_unit_columns(X, X_test)
    X, X_test = _with_ones(X), _with_ones(X_test)
    return as_matrix(X), X, y.astype(float), X_test, y_test


def _with_unit_columns(*parts: Any) -> list[Any]:
    """Return the matrices with every column divided by its largest value in any of them."""
    largest = np.max([abs(X).max(axis=0).toarray().ravel() for X in parts], axis=0)
    factor = sp.diags_array(1.0 / np.where(largest > 0.0, largest, 1.0))
    return [X @ factor for X in parts]


def _with_ones(X: Any) -> Any:
    """Return the matrix with a last column of ones."""
    return sp.hstack([X, np.ones((X.shape[0], 1))], format="csr")
