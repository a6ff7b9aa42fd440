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

import gzip
import random
from collections import defaultdict

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
