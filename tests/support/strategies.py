"""Hypothesis strategies for streams of examples.

Hypothesis draws a seed and a few structural knobs; NumPy builds the arrays from them, so that an example costs
microseconds and still shrinks: fewer rows, fewer features, knobs switched off.
"""

# ruff: noqa: N803, N806  (X is a matrix)

from __future__ import annotations

from typing import NamedTuple

import hypothesis.strategies as st
import numpy as np
from hypothesis.strategies import DrawFn, SearchStrategy


class Stream(NamedTuple):
    """Dense rows (most entries zero), targets, and weights or None."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None


class Penalty(NamedTuple):
    """lam, rho and the per-feature weights or None."""

    lam: float
    rho: float
    pen: np.ndarray | None


class Lattice(NamedTuple):
    """The numbers k / parts for the integers k from -most to most."""

    most: int
    parts: float


LATTICES = Lattice(16, 8.0), Lattice(1, 1.0), Lattice(3, 1.0), Lattice(5, 2.0)


def lengths(least: int, most: int) -> SearchStrategy[int]:
    """Numbers of rows, those around the boundaries of windows and phases (which start at 64) more often."""
    boundaries = [n + e for n in (64, 96, 128, 192, 224, 256, 384) for e in (-1, 0, 1) if least <= n + e <= most]
    anything = st.integers(least, most)
    return anything | st.sampled_from(boundaries) if boundaries else anything


@st.composite
def streams(
    draw: DrawFn,
    *,
    classify: bool = False,
    dyadic: bool | None = None,
    weighted: bool | None = None,
    min_rows: int = 0,
    max_rows: int = 80,
    max_features: int = 8,
) -> Stream:
    """A small sparse problem.

    ``dyadic`` gives numbers from a lattice: signs, integers, half-integers or eighths; in scaled columns multiples of
    1/64, targets of 1/512.  Sums and products of a few steps are then exact, and ties occur, as in real counts and
    binary features.  Hypothesis decides where ``dyadic`` or ``weighted`` is None.  Doubling windows leave nothing out
    before row 129: raise ``max_rows`` to see them at work.
    """
    n, d = draw(lengths(min_rows, max_rows)), draw(st.integers(1, max_features))
    knobs = draw(st.lists(st.sampled_from(["duplicates", "empty", "vanish", "scales"]), unique=True))
    density = draw(st.sampled_from([0.5, 0.15, 1.0]))
    if weighted is None:
        weighted = draw(st.booleans())
    if dyadic is None:
        dyadic = draw(st.booleans())
    lattice = draw(st.sampled_from(LATTICES)) if dyadic else None
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    X = _numbers(rng, (n, d), lattice)
    X[rng.random((n, d)) >= density] = 0.0
    if "scales" in knobs:  # columns of very different size
        X *= 2.0 ** rng.integers(-3, 4, size=d)
    if "vanish" in knobs:  # about half of the features are never seen again after some row
        for j in np.flatnonzero(rng.random(d) < 0.5):
            X[rng.integers(0, n + 1) :, j] = 0.0
    if "empty" in knobs:
        X[rng.random(n) < 0.3] = 0.0
    truth = _numbers(rng, (d,), lattice) * (rng.random(d) < 0.5)
    y = X @ truth + _numbers(rng, (n,), lattice)
    if classify:
        y = np.where(y > 0.0, 1.0, -1.0)
    if "duplicates" in knobs and n > 1:  # targets too, and in runs: the same row again and again
        source = np.where(rng.random(n) < 0.4, np.maximum(np.arange(n) - 1, 0), np.arange(n))
        X, y = X[source], y[source]
    weights = None
    if weighted:  # zero among them: such a row must leave no trace
        weights = rng.choice([0.0, 0.5, 1.0, 2.0], size=n, p=[0.15, 0.25, 0.35, 0.25])
        if not dyadic:
            weights *= rng.uniform(0.5, 1.5, size=n)
    return Stream(X, y, weights)


@st.composite
def penalties(draw: DrawFn, d: int, *, dyadic: bool = False, elastic: bool | None = None) -> Penalty:
    """lam from none to one that kills everything; ``elastic`` decides whether rho > 0, ``None`` leaves it open."""
    lam = draw(st.sampled_from([0.125, 0.0, 0.0625, 1.0, 64.0] if dyadic else [0.1, 0.0, 1e-3, 0.01, 1.0, 100.0]))
    rho = draw(st.sampled_from([0.5, 0.125] if dyadic else [0.1, 1e-3, 1.0]))
    if elastic is None:
        elastic = draw(st.booleans())
    pen = None
    if draw(st.booleans()):  # 0: a feature without penalty
        pen = np.array(draw(st.lists(st.sampled_from([1.0, 0.0, 0.5, 2.0]), min_size=d, max_size=d)))
    return Penalty(lam, rho if elastic else 0.0, pen)


def chunks(n: int) -> SearchStrategy[list[slice]]:
    """Ways to cut n rows into consecutive chunks, empty ones included."""
    cuts = st.lists(st.integers(0, n), max_size=6).map(sorted)
    return cuts.map(lambda cut: [slice(a, b) for a, b in zip([0, *cut], [*cut, n], strict=True)])


def vanishing(gap: int = 100_000, d: int = 4, *, classify: bool = False, seed: int = 0) -> Stream:
    """A fixed stream with an idle stretch: d features for 50 rows, then feature 0 alone for ``gap`` rows, then all."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(gap + 100, d)) * (rng.random((gap + 100, d)) < 0.6)
    X[50:-50, 1:] = 0.0
    y = X @ np.linspace(1.0, -1.0, d) + 0.5 * rng.normal(size=len(X))
    return Stream(X, np.where(y > 0.0, 1.0, -1.0) if classify else y, None)


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], lattice: Lattice | None) -> np.ndarray:
    if lattice is None:
        return rng.normal(size=shape)
    return rng.integers(-lattice.most, lattice.most + 1, size=shape) / lattice.parts
