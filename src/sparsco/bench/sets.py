"""The sets of a benchmark by name, generated or real, and the problems that are solved on them.

A generated set has a shape and a number of rows, and a number of features if it is given:

>>> X, y, X_test, y_test = load("rcv1-1kx2k", keep=False)[1:5]
>>> X.shape, X_test.shape, X.nnz // 1000
((1000, 2000), (100, 2000), 73)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, issparse, load_npz, save_npz

from .. import datasets, metrics
from ..datasets.generators import text_like, zipf_rows
from ..util.atomic_files import replacing
from ..util.folders import cache_folder
from .by_row import SHAPES

REFERENCE: dict[str, Any] = json.loads(files(__package__).joinpath("reference_optima.json").read_text())["problems"]
"""Real problems with two strengths each and the objective at their optimum."""
SHARES = (0.1, 0.02)
"""The strengths on generated sets, as shares of the largest that selects any feature."""
L2_SHARE = 1.0 / 9.0
"""The L2 weight of elastic nets, as a share of the L1 weight: an l1_ratio of 0.9."""
QUICK = ("rcv1-2kx5k", "dense-2k")
USUAL = ("rcv1-20k", "rcv1-200k", "ctr-1m", "dense-200k")
LONG = ("rcv1-2m",)
CLASSES = tuple(name for name, problem in REFERENCE.items() if problem["loss"] == "logistic")
"""The real problems of two classes; the others are regressions."""
LEAST_ROWS = 100
"""The least number of rows of a generated set: fewer may have one label only, or no test rows."""


class Data(NamedTuple):
    """Training rows and test rows, with labels -1 and 1.

    ``strengths`` are pairs of lam and the objective at its optimum, None if that is not known.
    """

    name: str
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    strengths: tuple[tuple[float, float | None], ...]

    def at(self, shares: Sequence[float]) -> Data:
        """Return the set with these shares of the largest strength that selects any feature as its strengths."""
        largest = float(np.abs(self.X.T @ (self.y - self.y.mean())).max()) / (2 * len(self.y))
        return self._replace(strengths=tuple((share * largest, None) for share in shares))


class Problem(NamedTuple):
    """The problem of minimising mean logistic loss + lam ||w||_1 + rho/2 ||w||^2 over w and an optional intercept."""

    data: Data
    lam: float
    rho: float = 0.0
    intercept: bool = True

    @property
    def key(self) -> list[Any]:
        """Return the key of the problem, for names of results."""
        return [self.data.name, self.lam, self.rho, self.intercept]

    @property
    def nonzeros(self) -> int:
        """Return the number of entries that a pass reads."""
        return int(self.data.X.nnz if issparse(self.data.X) else self.data.X.size)

    def objective(self, w: np.ndarray, b: float) -> float:
        """Return the objective of a model over the training rows."""
        b = b if self.intercept else 0.0
        return metrics.objective(self.data.X, self.data.y, w, b, loss="logistic", lam=self.lam, rho=self.rho)

    def test_error(self, w: np.ndarray, b: float) -> float:
        """Return the share of test rows with a wrong prediction."""
        margins = self.data.X_test @ w + (b if self.intercept else 0.0)
        return float(np.mean(np.where(margins > 0.0, 1.0, -1.0) != self.data.y_test))

    def part(self, rows: int) -> Problem:
        """Return the problem on about so many rows, evenly spaced."""
        return self._of(slice(None, None, max(len(self.data.y) // rows, 1)))

    def first(self, rows: int) -> Problem:
        """Return the problem on the first rows."""
        return self._of(slice(rows))

    def _of(self, rows: slice) -> Problem:
        return self._replace(data=self.data._replace(X=self.data.X[rows].copy(), y=self.data.y[rows].copy()))


# --- generated --------------------------------------------------------------------------------------------------------


def _rcv1(n: int, d: int, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Return rows like those of RCV1: 73 features with Zipf frequencies, of unit norm."""
    return text_like(n, d, 73, relevant=min(1000, d // 40), scale=10.0, rng=rng)


def _ctr(n: int, d: int, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Return 39 ones in each row; labels of a sparse logistic model, about one in eight positive."""
    X = zipf_rows(n, d, 39, rng)
    X.data[:] = 1.0
    truth = rng.standard_normal(d) * (rng.random(d) < 0.01)
    return X, _labels(X @ truth - 2.0, rng)


def _dense(n: int, d: int, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Return Gaussian columns, a fifth of them relevant."""
    X = rng.standard_normal((n, d))
    return X, _labels(X @ (rng.standard_normal(d) * (rng.random(d) < 0.2)), rng)


def _wide(n: int, d: int, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Return 354 features of each row, of unit norm; rows depend on their number only."""
    return SHAPES["wide"]._replace(d=d).rows(0, n)[:2]


def _labels(margins: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(len(margins)) < 1.0 / (1.0 + np.exp(-margins)), 1, -1)


_SHAPES: dict[str, tuple[int, int, Callable[[int, int, np.random.Generator], tuple[Any, np.ndarray]]]] = {
    "rcv1": (47_236, 500, _rcv1),
    "ctr": (1_000_000, 250, _ctr),
    "dense": (100, 1, _dense),
    "wide": (359_000, 4000, _wide),
}
"""The usual number of features, the least number, and the generator of the rows, by shape."""
_NAME = re.compile(rf"({'|'.join(_SHAPES)})-(\d+[km]?)(?:x(\d+[km]?))?")


def number(text: str) -> int:
    """Return a number from its short form.

    >>> number("20k"), number("1b")
    (20000, 1000000000)
    """
    unit = {"k": 1000, "m": 1_000_000, "b": 1_000_000_000}.get(text[-1], 1)
    return int(text.rstrip("kmb")) * unit


def _size(name: str) -> tuple[str, int, int]:
    """Return the shape, rows and features of a name; raise if they are too few."""
    shape, rows, features = _NAME.fullmatch(name).groups()  # type: ignore[union-attr]
    usual, least, _ = _SHAPES[shape]
    n, d = number(rows), number(features) if features else usual
    if n < LEAST_ROWS or d < least:
        needed = f"{LEAST_ROWS} rows and {least} feature{'s' if least > 1 else ''}"
        raise ValueError(f"the set {name} is too small: {shape} needs at least {needed}.")
    return shape, n, d


def _generated(name: str, keep: bool) -> Data:
    """Return the generated set of a name, always the same; a tenth as many rows, at most 20,000, are test rows."""
    shape, n, d = _size(name)
    make = _SHAPES[shape][2]
    place = cache_folder("bench") / f"{shape}-{n}x{d}.npy"
    rows_at = place.with_suffix(".npz") if shape != "dense" else place.with_suffix(".rows.npy")
    if place.exists() and rows_at.exists():
        X, y = (load_npz(rows_at) if shape != "dense" else np.load(rows_at)), np.load(place)
    else:
        total = n + min(n // 10, 20_000)
        X, y = make(total, d, np.random.default_rng(0))
        y = y.astype(np.float64)
        if keep and shape != "wide":  # gigabytes, which are generated faster than read
            place.parent.mkdir(parents=True, exist_ok=True)
            with replacing(rows_at, lasting=False) as file:
                save_npz(file, X, compressed=False) if shape != "dense" else np.save(file, X)
            with replacing(place, lasting=False) as file:
                np.save(file, y)
    return Data(name, X[:n], y[:n], X[n:], y[n:], ()).at(SHARES)


# --- real -------------------------------------------------------------------------------------------------------------


def reference_rows(name: str) -> tuple[csr_matrix, np.ndarray, Any, np.ndarray]:
    """Return training rows, exactly as in the 'rows' entry of a reference problem, and test rows."""
    problem = REFERENCE[name]

    def loaded(part: str) -> tuple[Any, np.ndarray]:
        X, y = datasets.mnist_pair(2, 3, part) if name == "mnist23" else datasets.load(problem["dataset"], part)
        return X, np.where(y == y.min() + 4, 1.0, -1.0) if name == "news20" else y

    X, y = loaded("train")
    if "permuted" in problem["rows"]:
        order = np.random.default_rng(0).permutation(len(y))
        X, y = X[order], y[order]
    n, has_test = problem["n"], "test" in datasets.REGISTRY[problem["dataset"]].parts
    X_test, y_test = loaded("test") if has_test else (X[n:], y[n:])
    X, y = X[:n], y[:n]
    if X.shape != (n, problem["n_features"]):
        raise ValueError(f"{name}: {X.shape} rows and features, expected {n}, {problem['n_features']}")
    return X, y, X_test, y_test


def _real(name: str) -> Data:
    known = tuple((each["lam"], each["objective"]) for each in REFERENCE[name]["optima"])
    return Data(name, *reference_rows(name), known)


# --- by name ----------------------------------------------------------------------------------------------------------


def real() -> list[str]:
    """Return the real sets of two classes whose files are available."""
    there = []
    for name in CLASSES:
        try:
            datasets.find(REFERENCE[name]["dataset"])
        except datasets.MissingDataError:
            continue
        there.append(name)
    return there


def names(wanted: list[str] | None, quick: bool) -> tuple[list[str], list[str]]:
    """Return the sets to run, and the sets of the chosen groups whose files are missing.

    The sets are the named ones and groups (usual, real, all), or by default the usual and the real ones.  Raise for
    sets that cannot be run, before any is generated.
    """
    there = real()
    if wanted is None:
        wanted = list(QUICK) if quick else ["usual", "real"]
    elif "real" in wanted and not there:
        raise ValueError(
            f"--sets real: the files of all real sets ({', '.join(CLASSES)}) are missing: set SPARSCO_DATA to the "
            "folder that holds some of them."
        )
    groups = {"usual": list(USUAL), "real": there, "all": [*USUAL, *LONG, *there]}
    missing = [name for name in CLASSES if name not in there] if {"real", "all"} & {*wanted} else []
    chosen = list(dict.fromkeys(name for each in wanted for name in groups.get(each, [each])))
    for name in chosen:
        if name in REFERENCE:
            if REFERENCE[name]["loss"] != "logistic":
                raise ValueError(f"--sets: {name} is a regression; the benchmark compares classifiers.")
            datasets.find(REFERENCE[name]["dataset"])
        elif _NAME.fullmatch(name):
            _size(name)
        else:
            raise ValueError(
                f"--sets: there is no set {name!r}: name {', '.join((*USUAL, *LONG))}, another number of rows and "
                f"features such as rcv1-5kx10k, one of {', '.join(CLASSES)}, or usual, real, all."
            )
    return chosen, missing


def load(name: str, keep: bool = True) -> Data:
    """Return a set; generated ones are kept in the user's cache folder."""
    return _real(name) if name in REFERENCE else _generated(name, keep)
