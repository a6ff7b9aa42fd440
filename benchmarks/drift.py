"""Measure the drift test of ``train --follow``: false alarms on streams without a change, delays after planted changes.

    python benchmarks/drift.py              10^6 rows for each stream, about ten minutes
    python benchmarks/drift.py 100000       fewer rows

The rows are learned and judged in groups as by ``sparsco.follow``.  The kinds of streams are: a given alpha;
alpha="auto", which goes on in another way when its sample is full; a regression whose noise has no variance, by the
squared loss and by Huber's; and a rare class.  The planted change replaces a share of the true weights in the middle of
the stream.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from sparsco.data.drift import Drift, DriftTest
from sparsco.data.progressive import JUDGED
from sparsco.data.rows import as_matrix
from sparsco.estimators.tasks import LinearClassifier, LinearRegressor

D, PIECE = 50, 1 << 15


def rows(n: int, seed: int, kind: str, changed: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows in pieces; from the piece in the middle on a share of the weights is replaced."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=D) * (np.arange(D) < 10)
    other = np.where(rng.random(D) < changed, rng.permutation(w), w) if changed else w
    for first in range(0, n, PIECE):
        m = min(PIECE, n - first)
        X = rng.normal(size=(m, D))
        p = X @ (w if first + m <= n // 2 else other)
        if "heavy tails" in kind:
            yield X, p + rng.standard_t(2, size=m)
        else:
            bias = -6.0 if kind == "rare class" else 0.0
            yield X, np.where(rng.random(m) < 1.0 / (1.0 + np.exp(-p - bias)), 1, -1)


def alarms(n: int, seed: int, kind: str, changed: float = 0.0) -> list[tuple[int, Drift]]:
    """Return the numbers of rows after which drift was found."""
    alpha = "auto" if kind == "alpha=auto" else 0.001
    loss = {"heavy tails": {"loss": "squared"}, "heavy tails, huber": {"loss": "huber"}}.get(kind, {})
    model = (LinearRegressor if loss else LinearClassifier)(alpha=alpha, random_state=0, **loss)
    test, found, row = DriftTest(), list[tuple[int, Drift]](), 0
    for X, y in rows(n, seed, kind, changed):
        for at in range(0, len(y), JUDGED):
            part, labels = as_matrix(X[at : at + JUDGED]), y[at : at + JUDGED]
            judged = model.judge_rows(part, labels) if row else None
            classes = [-1, 1] if row == 0 and model.classifies else None
            model.take_rows(part, labels, None, **({"classes": classes} if classes else {}))
            row += len(labels)
            if judged is not None and (drift := test.add(judged[0])) is not None:
                found.append((row, drift))
    return found


def main() -> None:
    """Print a line for each kind of stream."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10**6
    for kind in sys.argv[2:] or ("alpha=0.001", "alpha=auto", "heavy tails", "heavy tails, huber", "rare class"):
        false = [alarms(n, seed, kind) for seed in range(5)]
        print(f"{kind}: {sum(map(len, false))} alarms in 5 streams of {n:,} rows without a change", flush=True)
        for changed in (0.1, 0.3, 1.0):
            delays = []
            for seed in range(3):
                found = [row for row, _ in alarms(n // 4, seed, kind, changed)]
                delays.append([row - (n // 8 // PIECE) * PIECE for row in found])
            print(f"  {changed:.0%} of the weights replaced: alarms after {delays} rows", flush=True)


if __name__ == "__main__":
    main()
