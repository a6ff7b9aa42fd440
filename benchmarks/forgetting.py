"""The cost of ``half_life``, and what it gains after a change.

    python benchmarks/forgetting.py

``cost``: CPU time of a pass with ``half_life`` over that of a pass without, for each optimizer and conversion, on
generated rows of 40 of 100,000 features.  The two alternate; the least of some runs counts.  The bar is 1.2.

``change``: rows whose weights change after 100 half-lives.  The loss of the iterate is taken on rows before they are
learned: before the change, within the first two half-lives after it, and within the next two.  ``recovered`` is the
last of these over the one before the change; ``gain`` is how much of the loss of a model that does not forget is saved.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

from sparsco import SparseClassifier, conversions, losses, optimizers
from sparsco.data.rows import Matrix, as_matrix
from sparsco.engine.run import Run
from sparsco.penalties import ElasticNet

ROWS, FEATURES, NONZEROS, RUNS, PIECE = 200_000, 100_000, 40, 5, 1 << 16
HALF_LIVES = 1_000.0, 20_000.0
OPTIMIZERS = {"nftrl": optimizers.NFTRL(), "fobos": optimizers.FOBOS(), "rda": optimizers.RDA()}
CONVERSIONS = {"last": conversions.Last(), "average-sl": conversions.AverageSL(metric="diagonal")}


def rows(n: int) -> tuple[Matrix, np.ndarray]:
    """Return sparse rows, frequent features more often, and labels."""
    rng = np.random.default_rng(0)
    columns = np.sort((FEATURES ** rng.random((n, NONZEROS))).astype(np.uint32) - 1, axis=1)
    columns += np.arange(NONZEROS, dtype=np.uint32)  # unique in a row
    values = rng.normal(size=columns.shape)
    y = np.where((values * np.sin(columns)).sum(1) > 0.0, 1.0, -1.0)
    indptr = np.arange(0, n * NONZEROS + 1, NONZEROS)
    return Matrix(indptr, columns.ravel(), values.ravel(), FEATURES + NONZEROS), y


def seconds(matrix: Matrix, y: np.ndarray, optimizer: str, conversion: str, half_life: float | None) -> float:
    """Return the CPU time of a pass."""
    run = Run(
        losses.Logistic(),
        ElasticNet(1e-3, 0.0),
        OPTIMIZERS[optimizer],
        CONVERSIONS[conversion],
        d=matrix.d,
        half_life=half_life,
    )
    times, begin = None if half_life is None else np.arange(float(len(y))), time.process_time()
    for at in range(0, len(y), PIECE):
        run.feed(matrix, y, None, np.arange(at, min(at + PIECE, len(y))), times=times)
    return time.process_time() - begin


def cost() -> None:
    """Print the ratio of CPU times for each optimizer, conversion and half-life."""
    matrix, y = rows(ROWS)
    print(f"{'optimizer':<10} {'conversion':<11} {'half_life':>9} {'without, s':>11} {'ratio':>6}")
    for optimizer in OPTIMIZERS:
        for conversion in CONVERSIONS:
            for half_life in HALF_LIVES:
                found = [
                    [seconds(matrix, y, optimizer, conversion, each) for each in (None, half_life)]
                    for _ in range(RUNS + 1)
                ]
                without, with_ = np.array(found[1:]).min(0)  # the first one compiles
                print(f"{optimizer:<10} {conversion:<11} {half_life:>9g} {without:>11.3f} {with_ / without:>6.2f}")


def losses_of(model: SparseClassifier, X: np.ndarray, y: np.ndarray, piece: int) -> np.ndarray:
    """Return the mean loss of each piece of the rows, taken before it is learned."""
    found = []
    for at in range(0, len(y), piece):
        part = as_matrix(X[at : at + piece]), y[at : at + piece]
        judged = model.judge(*part) if at else None
        found.append(np.nan if judged is None else judged[0] / len(part[1]))
        model.partial_fit(X[at : at + piece], y[at : at + piece], classes=[False, True])
    return np.array(found)


def change(half_life: int = 1_000, length: int = 100, settings: dict | None = None) -> None:
    """Print the losses around a change after ``length`` half-lives."""
    rng = np.random.default_rng(0)
    n, piece = (length + 4) * half_life, half_life // 4
    X = rng.normal(size=(n, 100))
    margins = np.where(np.arange(n) < length * half_life, X[:, :5].sum(1), -X[:, 50:55].sum(1))
    y = margins + rng.logistic(size=n) > 0.0
    middle, two = length * half_life // piece, 2 * half_life // piece
    print(f"{'':<22} {'before':>8} {'2 after':>8} {'then':>8} {'recovered':>10}")
    then = {}
    for given in (None, float(half_life)):
        found = losses_of(SparseClassifier(half_life=given, random_state=0, **(settings or {})), X, y, piece)
        before, after = found[middle - two : middle].mean(), found[middle : middle + two].mean()
        then[given] = found[middle + two : middle + 2 * two].mean()
        print(f"half_life={given!s:<12} {before:>8.4f} {after:>8.4f} {then[given]:>8.4f} {then[given] / before:>10.2f}")
    print(f"gain {1.0 - then[float(half_life)] / then[None]:.0%}")


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("cost", "change"))
    part = parser.parse_args().part
    warnings.simplefilter("ignore", UserWarning)
    if part != "change":
        cost()
    if part != "cost":
        change()
        change(settings={"alpha": 0.005})


if __name__ == "__main__":
    main()
