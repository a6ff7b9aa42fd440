"""The table and the picture of the README: ours beside scikit-learn without arguments, on real data.

    python benchmarks/readme.py             prints the table, writes docs/_static/sizes.svg

The data are found through SPARSCO_DATA.  Errors are those of the test rows, or of a quarter of the rows.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sparsco import datasets
from sparsco.cli import demo

SETS = {"sms-spam": "SMS spam", "imdb": "film reviews (IMDB)", "rcv1-small": "news (RCV1, 1,000 rows)"}
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "_static" / "sizes.svg"


def data(name: str) -> demo.Data:
    """Return the rows to learn and to test by; words are named where there is a vocabulary."""
    X, y = datasets.load(name)
    if name == "sms-spam":
        order = np.random.default_rng(0).permutation(len(y))
        cut = len(y) * 3 // 4
        parts: tuple[Any, ...] = X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]]
    else:
        parts = X, y, *datasets.load(name, "test")
    return demo.Data(*parts, np.array([f"x{k}" for k in range(X.shape[1])], object))


def main() -> None:
    """Measure, print the table, and draw the picture."""
    warnings.simplefilter("ignore")
    drawn = Figure(figsize=(10.0, 3.6), layout="constrained")
    print("| data | model | wrong | features | agreement | seconds |\n|---|---|---|---|---|---|")
    for (name, called), axes in zip(SETS.items(), drawn.subplots(1, len(SETS)), strict=True):
        given = data(name)
        results = [demo.measure(each, given) for each in demo.CONTENDERS]
        for result in results:
            print(f"| {called if result is results[0] else ''} | {' | '.join(demo.cells(result))} |", flush=True)
        demo.draw_sizes(results, given, axes)
        axes.set(title=called, xlabel="features in the model", ylabel="wrong labels (%)")
        if axes.get_subplotspec().colspan.start:
            axes.get_legend().remove()
    drawn.savefig(PICTURE, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
