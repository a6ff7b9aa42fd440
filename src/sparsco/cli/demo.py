"""A demo: which words make a message spam, beside three models of scikit-learn.

``python -m sparsco.cli.demo [--out PATH]`` learns generated messages, prints a table, and writes a page with the words
that were selected, the error against the number of words, how selections hold under other samples, and the time.
"""

from __future__ import annotations

import argparse
import operator
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from .. import metrics
from ..bench.solvers import l1_logistic
from ..datasets.generators import messages
from ..estimators.sklearn import SparseClassifier
from ..estimators.sparse_text import SparseText
from ..estimators.weight_bars import draw_weights
from ..util import html
from ..util.axes import FOR, OTHERS, page_axes, scale_of_counts

SEED, TRAIN, TEST, SAMPLES = 0, 8_000, 4_000, 4
"""The seed, the messages to learn and to test by, and how many random halves of the messages are learned."""


class Data(NamedTuple):
    """Messages as values of words, in two parts."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    words: np.ndarray


class Contender(NamedTuple):
    """A name and a function that makes a seeded estimator."""

    name: str
    make: Callable[[int], Any]


class Result(NamedTuple):
    """What a user sees of a model."""

    name: str
    error: float
    selected: int
    agreement: float
    """The words that two halves of the messages both select, over those that at least one of them selects."""
    seconds: float
    """The CPU time of a fit: that of the clock depends on what else the machine does."""
    model: Any


def folds(seed: int) -> Any:
    """Return an L1 model of scikit-learn, whose strength is the best of ten by the loss in five folds."""
    model = l1_logistic("liblinear", 1.0, 0.0, 1, random_state=seed)
    return GridSearchCV(model, {"C": np.logspace(-2, 3, 10)}, scoring="neg_log_loss")


HEADER = ("model", "wrong", "words", "agreement", "seconds")
OURS, EVERY_WORD = "sparsco, no arguments", "logistic regression"
CONTENDERS = (
    Contender(OURS, lambda seed: SparseClassifier(random_state=seed)),
    Contender("L1, five folds", folds),
    Contender("L1 by SGD", lambda seed: SGDClassifier(loss="log_loss", penalty="l1", random_state=seed)),
    Contender(EVERY_WORD, lambda seed: LogisticRegression()),
)


def data() -> Data:
    """Return generated messages as values of their words."""
    texts, labels = messages(TRAIN + TEST, np.random.default_rng(SEED))
    vectorizer = SparseText(ngrams=(1, 1))
    X, X_test = vectorizer.fit_transform(texts[:TRAIN]), vectorizer.transform(texts[TRAIN:])
    return Data(X, labels[:TRAIN], X_test, labels[TRAIN:], vectorizer.get_feature_names_out())


def weights(model: Any) -> np.ndarray:
    """Return the weights of any of the contenders, or of the last step of a pipeline."""
    model = model[-1] if isinstance(model, Pipeline) else model
    return model.best_estimator_.coef_ if isinstance(model, GridSearchCV) else model.coef_


def measure(contender: Contender, given: Data) -> Result:
    """Return the result of one contender: of a fit on all messages, and the agreement of fits on random halves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        contender.make(SEED).fit(given.X[:200], given.y[:200])  # what happens once: imports, compiled code
        start = time.process_time()
        model = contender.make(SEED).fit(given.X, given.y)
        seconds = time.process_time() - start
        rng, chosen = np.random.default_rng(SEED), []
        for seed in range(SAMPLES):
            rows = rng.permutation(len(given.y))[: len(given.y) // 2]
            chosen.append(metrics.support(weights(contender.make(seed).fit(given.X[rows], given.y[rows]))))
    pairs = [metrics.jaccard(chosen[i], chosen[j]) for i in range(SAMPLES) for j in range(i)]
    error = float(np.mean(model.predict(given.X_test) != given.y_test))
    return Result(
        contender.name, error, int(metrics.support(weights(model)).sum()), float(np.mean(pairs)), seconds, model
    )


def cells(result: Result) -> list[str]:
    """Return a line of the table."""
    shares = (
        f"{100 * result.error:.1f}%",
        f"{result.selected:,}",
        f"{100 * result.agreement:.0f}%" if EVERY_WORD not in result.name else "–",
    )
    return [result.name, *shares, f"{result.seconds:.2f}"]


def as_text(results: Sequence[Result]) -> str:
    """Return the table for a terminal."""
    rows = [list(HEADER), *map(cells, results)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEADER))]
    pad = [str.ljust] + [str.rjust] * (len(HEADER) - 1)
    return "\n".join("  ".join(pad[k](row[k], widths[k]) for k in range(len(row))) for row in rows)


def headline(results: Sequence[Result], given: Data) -> str:
    """Return the outcome in one sentence."""
    ours = next(result for result in results if result.name == OURS)
    return f"{ours.selected} of {len(given.words):,} words tell spam with {100 * ours.error:.1f}% error"


def draw_sizes(results: Sequence[Result], given: Data, axes: Any) -> None:
    """Draw the error of all models, and of smaller models of our fit, against their number of words."""
    ours = next(result for result in results if result.name == OURS).model
    smaller = [ours.at_size(size) for size in ours.size_path_["size"].tolist() if 0 < size <= ours.n_selected_]
    errors = [100.0 * float(np.mean(model.predict(given.X_test) != given.y_test)) for model in smaller]
    label = "smaller models of the same fit"
    axes.plot([model.n_selected_ for model in smaller], errors, ".-", color=FOR, label=label)
    for result, marker in zip(results, "*s^oDvX", strict=False):
        style = {"color": FOR, "markersize": 13} if result.name == OURS else {"color": OTHERS}
        axes.plot(result.selected, 100.0 * result.error, marker, linestyle="", label=result.name, **style)
    axes.set(xlabel="words in the model", ylabel="wrong labels of new messages (%)", ylim=(0.0, None))
    scale_of_counts(axes.xaxis)
    axes.legend()
    axes.grid(alpha=0.3)


def comparison(results: Sequence[Result]) -> str:
    """Return what the table says of sparse models, and which of them are ahead of ours in all columns."""
    ours = next(result for result in results if result.name == OURS)
    others = [result for result in results if result.name not in (OURS, EVERY_WORD)]
    sizes = [f"{each.name} keeps {each.selected:,} words with {100 * each.error:.1f}% error" for each in others]
    ahead = [each for each in others if all(map(operator.lt, _costs(each), _costs(ours)))]
    sentences = [
        f"{'; '.join(sizes)}; ours keeps {ours.selected:,} with {100 * ours.error:.1f}%.",
        *(f"{each.name} is ahead of ours in all columns." for each in ahead),
    ]
    return " ".join(sentences)


def _costs(result: Result) -> tuple[float, ...]:
    return result.error, result.selected, -result.agreement, result.seconds


@html.with_plots
def plots(results: Sequence[Result], given: Data) -> list[str]:
    """Return the selected words as bars, and the error against the number of words."""
    ours = next(result for result in results if result.name == OURS).model
    lines = ours.summary(names=given.words).lines[:20]
    words, axes = page_axes(4.2)
    draw_weights([line.name for line in lines], [line.effect for line in lines], axes, "spam")

    sizes, axes = page_axes()
    draw_sizes(results, given, axes)
    return [
        html.figure(words, "The strongest words. Bars to the right speak for spam, bars to the left for ham."),
        html.figure(sizes, f"Errors on {TEST:,} messages that no model has seen, against the size of the model."),
    ]


def story(results: Sequence[Result], given: Data) -> list[str]:
    """Return the page: the task, the picture, the table, how to do the same."""
    return [
        html.text(
            f"{TRAIN:,} short messages were learned, each marked ham or spam. They have {len(given.words):,} different "
            "words; most of them are names, which say nothing. Ours has no arguments."
        ),
        *plots(results, given),
        html.heading("Beside what you would use instead"),
        html.table(HEADER, map(cells, results)),
        html.text(
            f"Wrong: labels of {TEST:,} new messages. Agreement: two random halves of the messages are learned apart, "
            "and this share of their selected words is common to both. Seconds: CPU time of one fit, after a first "
            "small one."
        ),
        html.text(comparison(results)),
        html.heading("Do the same with your messages"),
        html.code(
            "sparsco train messages.csv --target label --text message -m spam.model --html spam.html\n"
            "sparsco predict spam.model new.csv --probability"
        ),
        html.details("The messages", html.text("They are generated (sparsco.datasets.generators.messages), seed 0.")),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit all contenders, print the table and write the page."""
    parser = argparse.ArgumentParser(prog="python -m sparsco.cli.demo", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", default="sparsco-demo.html", help="where the page goes (default: %(default)s)")
    path = parser.parse_args(arguments).out
    given, results = data(), []
    for contender in CONTENDERS:
        print(f"learning: {contender.name}", file=sys.stderr)
        results.append(measure(contender, given))
    title = headline(results, given)
    print(f"\n{title}\n\n{as_text(results)}\n")
    strongest = results[0].model.summary(names=given.words).lines[:8]
    print("the strongest words: " + ", ".join(f"{line.name} {line.weight:+.2g}" for line in strongest))
    print(f"page: {html.write(path, title, story(results, given))}")


if __name__ == "__main__":
    main()
