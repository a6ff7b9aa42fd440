"""Sparse Kaczmarz on 10^6 x 10^5 with 20 nonzeros a row: cost per nonzero over that of a bare gather and scatter.

``python benchmarks/kaczmarz.py``; CPU seconds, the least of interleaved rounds.  The solver draws rows in random order,
where fetching a row dominates; in their own order the arithmetic does.
"""

from __future__ import annotations

import time

import numba
import numpy as np

from sparsco.conversions import OCMDI, Average, Last
from sparsco.data.rows import Matrix
from sparsco.engine import Run
from sparsco.losses import Squared
from sparsco.mirrors import SparseKaczmarz
from sparsco.optimizers import MirrorDescent
from sparsco.penalties import L1
from sparsco.steps import Constant

ROWS, COLUMNS, NONZEROS, ROUNDS = 1_000_000, 100_000, 20, 5
CONVERSIONS = {"last": Last(), "average": Average(), "ocmdi": OCMDI()}


def system() -> tuple[Matrix, np.ndarray]:
    """Random rows without repeated columns, and what a sparse vector gives on them."""
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, COLUMNS, size=(ROWS, NONZEROS), dtype=np.uint32), axis=1)
    values = rng.standard_normal((ROWS, NONZEROS))
    fresh = np.ones(indices.shape, dtype=bool)
    fresh[:, 1:] = indices[:, 1:] != indices[:, :-1]
    indptr = np.append(0, np.cumsum(fresh.sum(1))).astype(np.int64)
    matrix = Matrix(indptr, indices[fresh], values[fresh], COLUMNS)
    truth = np.zeros(COLUMNS)
    truth[:100] = 1.0
    return matrix, matrix.to_scipy() @ truth


@numba.njit
def bare(indptr, indices, data, w, order):
    """Gather the dot product, scatter the update, nothing else."""
    one = np.uint64(1)
    for k in range(order.size):
        i = np.uint64(order[k])
        start, stop, s = np.uint64(indptr[i]), np.uint64(indptr[i + one]), 0.0
        for p in range(start, stop):
            s += w[np.uint64(indices[p])] * data[p]
        s *= 1e-9
        for p in range(start, stop):
            w[np.uint64(indices[p])] -= s * data[p]


def main() -> None:
    """Print the ratios."""
    matrix, y = system()
    orders = {"in their order": np.arange(ROWS), "drawn at random": np.random.default_rng(1).integers(ROWS, size=ROWS)}
    w = np.zeros(COLUMNS)
    bare(*matrix[:3], w, np.arange(10))

    def begun(conversion: object) -> Run:
        run = Run(
            Squared(),
            L1(0.0),
            MirrorDescent(SparseKaczmarz(1.0)),
            conversion,
            Constant(0.01),
            d=COLUMNS,
            intercept=False,
        )
        run.feed(matrix, y, order=np.arange(2000))
        return run

    seconds: dict[tuple[str, str], float] = {}
    for _ in range(ROUNDS):
        for where, order in orders.items():
            for name in ("bare", *CONVERSIONS):
                run = None if name == "bare" else begun(CONVERSIONS[name])
                start = time.process_time()
                if run is None:
                    bare(*matrix[:3], w, order)
                else:
                    run.feed(matrix, y, order=order)
                    run.finish()
                taken = time.process_time() - start
                seconds[where, name] = min(taken, seconds.get((where, name), np.inf))
    for where in orders:
        base = seconds[where, "bare"]
        ratios = ", ".join(f"{name} {seconds[where, name] / base:.2f}" for name in CONVERSIONS)
        print(f"rows {where}: bare {1e9 * base / len(matrix.data):.1f} ns per nonzero; over it {ratios}")


if __name__ == "__main__":
    main()
