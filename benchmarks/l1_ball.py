"""Epoch-SGD in the L1 ball: the lazy projection against the projection of the whole vector, per example.

The data have the shape of E2006-tfidf: 16,087 rows, 150,360 features, 1,300 nonzeros a row with Zipf frequencies.  The
dense twin is no straw man: a compiled loop that steps on the row's features, keeps the norm as it goes, finds the
threshold by Michelot's rounds over what is left of the vector, and shrinks and sums all weights in one vectorised
sweep.  Both are checked to give the same model; times are CPU seconds, the least of several interleaved runs.

    python benchmarks/l1_ball.py
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numba import njit

from sparsco.conversions import LastEpoch
from sparsco.data.rows import as_matrix
from sparsco.datasets.generators import zipf_rows
from sparsco.engine import Run
from sparsco.losses import Squared
from sparsco.optimizers import EpochSGD
from sparsco.penalties import L1Ball
from sparsco.steps import Halving


@njit
def _threshold(w, norm, count, radius, room):
    """Michelot's rounds, the first over all weights, later ones over those that are left."""
    tau, left, total = (norm - radius) / count, 0, 0.0
    for j in range(w.size):
        size = abs(w[j])
        room[left] = size
        left += size > tau
        total += size if size > tau else 0.0
    while left < count:
        count, tau = left, (total - radius) / left
        left, total = 0, 0.0
        for k in range(count):
            size = room[k]
            room[left] = size
            left += size > tau
            total += size if size > tau else 0.0
    return tau


@njit(fastmath={"reassoc", "contract", "nsz"})
def _shrink(w, tau, total):
    """Take tau off and add to the sum of iterates; the new norm and number of nonzeros."""
    norm, count = 0.0, 0.0
    for j in range(w.size):
        size = max(abs(w[j]) - tau, 0.0)
        w[j] = np.copysign(size, w[j])
        total[j] += w[j]
        norm += size
        count += 1.0 if size > 0.0 else 0.0
    return norm, count


@njit
def dense(indptr, indices, data, y, order, radius, eta1, T1, w):
    """Epochs of projected SGD that visit every weight at every example; w is left at the last epoch's mean."""
    total, room = np.zeros(w.size), np.empty(w.size + 1)
    norm, count, length, t, eta = 0.0, 0.0, T1, 0, eta1
    for i in order:
        margin = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            margin += w[indices[p]] * data[p]
        c = eta * (margin - y[i])
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            norm -= abs(w[j])
            count -= w[j] != 0.0
            w[j] -= c * data[p]
            norm += abs(w[j])
            count += w[j] != 0.0
        t += 1
        tau = _threshold(w, norm, count, radius, room) if norm > radius else 0.0
        if t == length:
            w[:] = total / length
            total[:], t, length, eta = 0.0, 0, 2 * length, eta / 2.0
            tau = 0.0
        norm, count = _shrink(w, tau, total)


def main() -> None:
    """Print both times and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d", type=int, default=150_360)
    parser.add_argument("--nonzeros", type=int, default=1300)
    parser.add_argument("--rows", type=int, default=16_087)
    parser.add_argument("--radius", type=float, nargs="+", default=[3.0, 30.0, 300.0])
    parser.add_argument("--eta", type=float, default=0.3)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    X = zipf_rows(given.rows, given.d, given.nonzeros, rng)
    truth = rng.standard_normal(given.d) * (rng.random(given.d) < 0.1)
    y = X @ truth
    y = y / y.std() + rng.standard_normal(given.rows)
    matrix, order, T1 = as_matrix(X), np.arange(given.rows), 200
    indices = matrix.indices.astype(np.uint64)
    print(f"{given.d:,} features, {given.nonzeros} nonzeros a row, {given.rows} rows; microseconds per example")
    print(f"{'radius':>8} {'nonzeros':>9} {'lazy':>8} {'dense':>8} {'ratio':>6}")
    for radius in given.radius:
        times: tuple[list[float], list[float]] = [], []
        for _ in range(given.repeats):
            rule = Halving(T1, given.eta, cap=False)
            run = Run(Squared(), L1Ball(radius), EpochSGD(), LastEpoch(), rule, d=given.d, intercept=False)
            start = time.process_time()
            run.feed(matrix, y)
            times[0].append(time.process_time() - start)
            w = np.zeros(given.d)
            start = time.process_time()
            dense(matrix.indptr, indices, matrix.data, y, order, radius, given.eta, T1, w)
            times[1].append(time.process_time() - start)
        lazy, whole = (1e6 * min(each) / given.rows for each in times)
        found = run.weights()[0][:, 0]
        assert np.abs(found - w).max() < 1e-9 * np.abs(w).max(), np.abs(found - w).max()
        print(f"{radius:8g} {np.count_nonzero(found):9,} {lazy:8.1f} {whole:8.1f} {whole / lazy:6.1f}")


if __name__ == "__main__":
    main()
