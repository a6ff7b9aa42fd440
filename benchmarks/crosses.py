"""Crosses that are born: which planted interactions are found, and how many crosses that takes.

Among 1000 parents some pairs have both main effects and an interaction.  A line has the design, the share of the
planted interactions in the model, the share of the possible crosses that were born, and the CPU time.  At the end are
the costs of making crosses.

    python benchmarks/crosses.py [seeds]
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp

from sparsco import train
from sparsco.data.cross_rules import cross_of
from sparsco.data.crosses import Crossed
from sparsco.data.rows import as_matrix

PARENTS = 1000
DESIGNS = {
    "binary, 20 pairs, 20,000 rows": {"n": 20_000},
    "binary, 20 pairs, 5,000 rows": {"n": 5_000},
    "binary, 40 pairs, 10,000 rows": {"n": 10_000, "pairs": 40, "density": 0.05},
    "normal, 20 pairs, 10,000 rows": {"n": 10_000, "is_dense": True},
    "binary labels, 20 pairs, 20,000 rows": {"n": 20_000, "classifies": True},
    "main effects of .5, which may cancel": {"n": 20_000, "main": 0.5},
}


def planted(seed, n, pairs=20, density=0.02, is_dense=False, main=1.0, classifies=False):
    """Return rows, targets and the pairs of columns that interact."""
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(PARENTS, 2 * pairs, replace=False).reshape(pairs, 2), 1)
    own = rng.normal(size=(n, 2 * pairs)) if is_dense else (rng.random((n, 2 * pairs)) < 0.3).astype(float)
    X = rng.normal(size=(n, PARENTS)) if is_dense else (rng.random((n, PARENTS)) < density).astype(float)
    X[:, chosen.ravel()] = own
    y = own @ (main * rng.choice([-1.0, 1.0], 2 * pairs))
    y += (own[:, ::2] * own[:, 1::2]) @ (1.5 * rng.choice([-1.0, 1.0], pairs)) + 0.5 * rng.normal(size=n)
    if classifies:
        y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(np.median(y) - y)), 1, -1)
    return sp.csr_array(X), y, {f"x{i}*x{j}" for i, j in chosen.tolist()}


def recovery(seeds):
    """Print a line for each design, with means over seeds."""
    for name, design in DESIGNS.items():
        found, born, seconds = [], [], []
        for seed in range(seeds):
            X, y, pairs = planted(seed, **design)
            began = time.process_time()
            model = train(X, y=y, cross="all", birth=True, settings={"random_state": 0}).model
            seconds.append(time.process_time() - began)
            features = model.fit_state.features
            selected = model.names_of_slots(np.unique(model.convert().coef.indices))
            found.append(len(pairs & set(selected)) / len(pairs))
            born.append((len(features) - len(features.parents)) / (PARENTS * (PARENTS - 1) / 2))
        print(
            f"{name:40} found {100 * np.mean(found):5.1f}% (least {100 * min(found):.0f}%)  born "
            f"{100 * np.mean(born):.2f}% (most {100 * max(born):.2f}%)  {np.mean(seconds):.1f} s"
        )


def costs():
    """Print the CPU time of making crosses, the least of five."""
    X = sp.random_array((4000, 3000), density=0.01, rng=np.random.default_rng(0), format="csr")
    matrix, rng = as_matrix(X), np.random.default_rng(0)
    every = Crossed(cross_of("all"))
    entries = len(every.place(matrix).data)
    few = every.only(np.sort(rng.choice(len(every), 300, replace=False)))
    born = Crossed(cross_of("all", birth=True))
    born.place(matrix)
    born.bear(np.arange(100))
    for name, make, count in (
        ("a new cross", lambda: Crossed(cross_of("all")).place(matrix), entries),
        ("a cross that has a slot", lambda: every.place(matrix), entries),
        ("a nonzero, 300 crosses in the model", lambda: few.find(matrix), len(matrix.data)),
        ("a nonzero, crosses of 100 parents", lambda: born.place(matrix), len(matrix.data)),
    ):
        times = []
        for _ in range(5):
            began = time.process_time()
            make()
            times.append(time.process_time() - began)
        print(f"{name:40} {1e9 * min(times) / count:.0f} ns")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    recovery(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    costs()
