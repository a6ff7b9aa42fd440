"""Raw texts to models: ours without arguments, beside scikit-learn's vectorizers and classifiers.  ``make bench-texts``

Three sets of raw texts, made of real data found through SPARSCO_DATA:

- sms: the messages as they were sent.
- amazon: reviews whose words and pairs of words are known.  A text is a walk through the pairs of a review that uses
  each as often as it occurred: its words, pairs and their counts are those of the review, and between repeated words
  the order of the pieces is drawn.
- imdb: reviews whose words are known.  The order of a review's words is drawn, word by word, by the counts of pairs in
  the amazon reviews.  Its words are real, its phrases are only likely.

A figure is the test error, the number of features with a weight, and CPU seconds from the file to the model.  The runs
of a split are interleaved, in one process, after each method has run once on a few rows.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sparsco import datasets

SETS = ("sms", "amazon", "imdb")
HELD_OUT = 0.25
IMDB_ROWS = 8_000
SUCCESSORS = 30
"""The number of words that are tried behind another."""

Labelled = tuple[list[str], list[str]]


def texts_of(name: str) -> Labelled:
    """Return the labels and the texts of a set."""
    if name == "sms":
        path = datasets.find("sms-spam")[0].parent / "sms.tsv.gz"
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        labels, texts = zip(*(line.split("\t", 1) for line in lines), strict=True)
        return list(labels), list(texts)
    return _amazon() if name == "amazon" else _imdb()


def _vocabulary(name: str, file: str) -> list[str]:
    path = datasets.find(name)[0].parent / file
    return gzip.decompress(path.read_bytes()).decode().split("\n")


def _amazon() -> Labelled:
    X, y = datasets.load("amazon-reviews")
    names, rng = _vocabulary("amazon-reviews", "vocab.txt.gz"), random.Random(0)
    shift = X.shape[1] - len([name for name in names if name])
    texts = []
    for i in range(X.shape[0]):
        part = slice(X.indptr[i], X.indptr[i + 1])
        counts = {names[c - shift]: int(n) for c, n in zip(X.indices[part], X.data[part], strict=True)}
        texts.append(" ".join(_walk(counts, rng)))
    return ["good" if label > 0 else "bad" for label in y], texts


def _walk(counts: dict[str, int], rng: random.Random) -> list[str]:
    """Return words in an order that uses every pair (two names with _ between them) as often as it is counted."""
    behind, left = defaultdict(list), {name: n for name, n in counts.items() if "_" not in name}
    surplus: dict[str, int] = defaultdict(int)
    for name, n in counts.items():
        first, bar, second = name.partition("_")
        if bar:
            behind[first] += [second] * n
            surplus[first] += n
            surplus[second] -= n
    for following in behind.values():
        rng.shuffle(following)
    words: list[str] = []
    starts = [name for name in behind for _ in range(surplus[name])] + list(behind)
    for start in starts:  # each walk is a piece of the text that no pair joins to another
        trail, done = [start], []
        while trail and behind[start]:
            if behind[trail[-1]]:
                trail.append(behind[trail[-1]].pop())
            else:
                done.append(trail.pop())
        words += (done + trail[::-1])[::-1]
    for word in words:
        left[word] = left.get(word, 0) - 1
    return words + [word for word, n in left.items() for _ in range(n)]


def _imdb() -> Labelled:
    X, y = datasets.load("amazon-reviews")
    names = _vocabulary("amazon-reviews", "vocab.txt.gz")
    shift = X.shape[1] - len([name for name in names if name])
    totals = np.asarray(X.sum(0)).ravel()
    behind: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for c in range(shift, X.shape[1]):
        first, bar, second = names[c - shift].partition("_")
        if bar:
            behind[first].append((int(totals[c]), second))
    likely = {word: sorted(found, reverse=True)[:SUCCESSORS] for word, found in behind.items()}
    X, y = datasets.load("imdb")
    words, rng = _vocabulary("imdb", "imdb_bow.vocab.txt.gz"), random.Random(1)
    shift = X.shape[1] - len([word for word in words if word])
    rows = np.random.default_rng(0).permutation(X.shape[0])[:IMDB_ROWS]
    texts = []
    for i in rows:
        part = slice(X.indptr[i], X.indptr[i + 1])
        bag = {words[c - shift]: int(n) for c, n in zip(X.indices[part], X.data[part], strict=True)}
        texts.append(" ".join(_ordered(bag, likely, rng)))
    return ["good" if y[i] > 0 else "bad" for i in rows], texts


def _ordered(bag: dict[str, int], likely: dict[str, list[tuple[int, str]]], rng: random.Random) -> list[str]:
    """Return the words of a bag in an order drawn by the counts of pairs."""
    rest = [word for word, n in bag.items() for _ in range(n)]
    rng.shuffle(rest)
    found: list[str] = []
    while rest or any(bag.values()):
        open_ = [(n, word) for n, word in likely.get(found[-1], ()) if bag.get(word)] if found else []
        if open_:
            word = rng.choices([word for _, word in open_], [n for n, _ in open_])[0]
        else:
            while rest and not bag[rest[-1]]:
                rest.pop()
            if not rest:
                break
            word = rest.pop()
        bag[word] -= 1
        found.append(word)
    return found


class Figure(NamedTuple):
    """The result of a method on a split."""

    error: float
    features: int
    seconds: float


def _baseline(vectorizer: Any, classifier: Any) -> Callable[[Path, Path], Figure]:
    from pandas import read_csv
    from sklearn.pipeline import make_pipeline

    def run(train: Path, test: Path) -> Figure:
        began = time.process_time()
        table = read_csv(train, keep_default_na=False)
        model = make_pipeline(vectorizer(), classifier()).fit(table["message"], table["label"])
        seconds = time.process_time() - began
        held = read_csv(test, keep_default_na=False)
        error = float(np.mean(model.predict(held["message"]) != held["label"]))
        return Figure(error, np.count_nonzero(model[-1].coef_.any(0)), seconds)

    return run


def _ours(**options: Any) -> Callable[[Path, Path], Figure]:
    from sparsco import train as learn
    from sparsco.training import model_files, scoring
    from sparsco.training.labelled_rows import by_name, reader_of

    def run(train: Path, test: Path) -> Figure:
        reader: dict[str, Any] = {"target": "label", "text": "message"}
        reader |= {"text_options": options} if options else {}
        began = time.process_time()
        trained = learn(train, reader=reader)
        trained.model.convert()
        seconds = time.process_time() - began
        path, stream = train.with_suffix(".model"), trained.stream
        extra = {"reader": reader_of(stream, reader)}
        model_files.save(trained.model, path, names=stream.names, by_name=by_name(stream), extra=extra)
        found = scoring.evaluate(*scoring.opened_for(model_files.read(path), str(test)))
        return Figure(found["error"], trained.model.n_selected_, seconds)

    return run


def methods(more: bool) -> dict[str, Callable[[Path, Path], Figure]]:
    """Return the methods by name; ``more`` adds other options of ours."""
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    found = {
        f"{vectorizer.__name__} + {classifier.__name__}": _baseline(vectorizer, classifier)
        for vectorizer in (TfidfVectorizer, CountVectorizer)
        for classifier in (LogisticRegression, LinearSVC)
    }
    found |= {OURS: _ours()}
    if more:
        others: list[dict[str, Any]] = [{"norm": False}, {"weighting": "count"}, {"weighting": "binary"}]
        others += [{"shapes": False}, {"ngrams": (1, 2)}, {"analyzer": "char"}]
        found |= {", ".join(f"{name}={value!r}" for name, value in each.items()): _ours(**each) for each in others}
    return found


OURS = "sparsco train"


def _write(path: Path, labels: list[str], texts: list[str], rows: np.ndarray) -> Path:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["label", "message"])
        table.writerows((labels[i], texts[i]) for i in rows)
    return path


def measured(name: str, splits: int, more: bool, folder: Path) -> dict[str, list[Figure]]:
    """Return the figures of all methods on the splits of a set, interleaved."""
    (labels, texts), every = texts_of(name), methods(more)
    found: dict[str, list[Figure]] = {method: [] for method in every}
    for split in range(splits):
        order = np.random.default_rng(split).permutation(len(labels))
        held = int(HELD_OUT * len(order))
        train = _write(folder / f"{name}.train.csv", labels, texts, order[held:])
        test = _write(folder / f"{name}.test.csv", labels, texts, order[:held])
        for method, run in every.items():
            if not split:
                run(train, test)  # compiled, imported
            found[method].append(run(train, test))
    return found


def speeds(texts: list[str]) -> dict[str, float]:
    """Return megabytes of text per CPU second: tokens alone, and with n-grams, fingerprints, counts and values."""
    from sparsco.text.encoding import raw_texts, text_entries, tokens_of
    from sparsco.text.spec import TextSpec

    column = raw_texts(texts)
    size = float((column[2] - column[1]).sum()) / 1e6
    found = {}
    for name, spec in {
        "words": TextSpec(),
        "1-2 words": TextSpec(ngrams=(1, 2)),
        "characters": TextSpec("char"),
    }.items():
        for what, run in ((f"{name}: tokens", tokens_of), (f"{name}: features", text_entries)):
            times = []
            for _ in range(6):
                began = time.process_time()
                run(column, spec)
                times.append(time.process_time() - began)
            found[what] = size / min(times)
    return found


def _lines(name: str, found: dict[str, list[Figure]]) -> Iterator[str]:
    means = {method: Figure(*(float(x) for x in np.mean(figures, 0))) for method, figures in found.items()}
    yield f"\n{name}"
    yield f"{'':42}  error  features  CPU s"
    for method, mean in means.items():
        yield f"{method:42} {mean.error:6.2%} {mean.features:9,.0f} {mean.seconds:6.3f}"
    best = min((mean for method, mean in means.items() if " + " in method), key=lambda mean: mean.error)
    ours = means[OURS]
    yield (
        f"ours beside the best of them: error x {ours.error / best.error:.2f} (bar 1.10), features x "
        f"{ours.features / best.features:.3f} (bar 0.20), {best.seconds / ours.seconds:.1f} x faster (bar 5)"
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--more", action="store_true", help="other options of ours, too")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    texts = texts_of("sms")[1]
    for what, speed in speeds(texts * 20).items():
        print(f"{what:24} {speed:6.0f} MB/s")
    with tempfile.TemporaryDirectory() as folder:
        for name in given.sets:
            print("\n".join(_lines(name, measured(name, given.splits, given.more, Path(folder)))), flush=True)


if __name__ == "__main__":
    with datasets.ends_if_missing():
        main()
