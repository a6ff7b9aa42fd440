"""The table and the picture of the README: ours beside scikit-learn on real texts.

    python benchmarks/readme.py             prints the table, writes docs/_static/sizes.svg

The data are found through SPARSCO_DATA.  Errors are those of the test rows, or of a quarter of the rows.  Ours has no
arguments.  The others get counts of words as they are, and as tf-idf, which one would make of them by hand.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.pipeline import make_pipeline

from sparsco import datasets
from sparsco.cli import demo

SETS = {"sms-spam": "SMS spam", "imdb": "film reviews (IMDB)", "rcv1-small": "news (RCV1, 1,000 rows)"}
COUNTS = ("sms-spam", "imdb")
"""The sets with counts of words; the others have tf-idf already."""
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


def contenders(name: str) -> list[demo.Contender]:
    """Return the models of a set."""
    return [*demo.CONTENDERS, *(map(with_tfidf, demo.CONTENDERS[1:]) if name in COUNTS else ())]


def with_tfidf(contender: demo.Contender) -> demo.Contender:
    """Return a model of tf-idf values, with the frequencies of the rows that it learns."""
    return demo.Contender(
        f"{contender.name}, tf-idf", lambda seed: make_pipeline(TfidfTransformer(), contender.make(seed))
    )


def lines(called: str, results: list[demo.Result]) -> list[str]:
    """Return the lines of a set in the table."""
    names = ["**sparsco**", *(result.name for result in results[1:])]
    heads = [called] + [""] * len(results[1:])
    return [
        f"| {head} | {' | '.join([name, *demo.cells(result)[1:]])} |"
        for head, name, result in zip(heads, names, results, strict=True)
    ]


def main() -> None:
    """Measure, print the table, and draw the picture."""
    warnings.simplefilter("ignore")
    sets = {name: data(name) for name in SETS}
    drawn = Figure(figsize=(10.0, 4.1), layout="constrained")
    print("| data | model | wrong | features | agreement | seconds |\n|---|---|---|---|---|---|")
    for (name, given), axes in zip(sets.items(), drawn.subplots(1, len(SETS)), strict=True):
        results = [demo.measure(each, given) for each in contenders(name)]
        print(*lines(SETS[name], results), sep="\n", flush=True)
        demo.draw_sizes(results, given, axes)
        axes.set(title=SETS[name], xlabel="features in the model", ylabel="wrong labels (%)")
        axes.get_legend().remove()
    drawn.legend(*drawn.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    drawn.savefig(PICTURE, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    with datasets.ends_if_missing():
        main()
