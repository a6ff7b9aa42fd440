"""Stable selections: the bars on real and on generated data, and their speed.  ``make bench-stability``

Real data is found through SPARSCO_DATA.  ``python benchmarks/stability.py real|paper|generated|speed [name ...]``; no
argument runs all.  Each line ends in a verdict where there is a bar.
"""

from __future__ import annotations

import functools
import sys
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, SGDClassifier

from sparsco import StableSparseClassifier, datasets, metrics
from sparsco.data.rows import as_matrix
from sparsco.datasets.generators import zipf_rows
from sparsco.reproduce.selection import two_classes
from sparsco.selection.stable import STS
from sparsco.selection.stable.scaling import Preparation
from sparsco.selection.stable.sts import Plan, run_stage
from sparsco.util.threads import Threads

warnings.filterwarnings("ignore")


class Bar(NamedTuple):
    """A set, the number of features, and per loss the largest error (%) and the least kappa; None where no bar is."""

    name: str
    k: int
    hinge: tuple[float, float] | None = None
    logistic: tuple[float, float] | None = None
    subsample: float | None = None


BARS = [
    Bar("dexter", 396, (7.5, 0.83), (7.8, 0.85), 0.65),
    Bar("rcv1-small", 406, (14.6, 0.83), (14.6, 0.84), 0.65),
    Bar("mnist-probes", 191, (3.1, 0.88), (3.0, 0.88)),
    Bar("sms-spam", 500, (2.6, 0.85), (2.5, 0.88)),
    Bar("imdb", 500),
    Bar("amazon-reviews", 500),
    Bar("20news-tech", 500),
    Bar("arcene", 367),
    Bar("madelon", 20),
]


def runs(model: StableSparseClassifier, data: Any, repeats: int, share: float = 1.0) -> tuple[float, float, float, Any]:
    """Mean error in %, kappa, Jaccard and all selections over shuffles (and subsamples) of the rows."""
    X, y, X_test, y_test = data
    errors, chosen = [], []
    for r in range(repeats):
        order = np.random.default_rng(1000 + r).permutation(len(y))[: int(share * len(y))]
        model.set_params(random_state=r).fit(X[order], y[order])
        errors.append(100.0 * np.mean(model.predict(X_test) != y_test))
        chosen.append(model.get_support())
    return float(np.mean(errors)), metrics.pairwise(chosen), metrics.pairwise(chosen, metrics.jaccard), chosen


def l1_of_size(X: Any, y: np.ndarray, k: int) -> LogisticRegression:
    """L1 logistic regression whose C gives the largest number of features up to k."""
    low, high, found = 1e-4, 1e4, None
    for _ in range(14):
        C = np.sqrt(low * high)
        model = LogisticRegression(C=C, l1_ratio=1.0, solver="liblinear", max_iter=200, random_state=0).fit(X, y)
        if np.count_nonzero(model.coef_) <= k:
            low, found = C, model
        else:
            high = C
    return found


def narrow(rows: Any) -> csr_matrix:
    """For liblinear, which takes 32-bit indices alone."""
    return csr_matrix((rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)), (len(rows), rows.d))


def verdict(*holds: bool) -> str:
    """In a word."""
    return "ok" if all(holds) else "MISSED"


def real(names: list[str]) -> None:
    """Error and stability of STS at the bars' sizes, beside L1 logistic regression of that size, prepared alike."""
    for bar in BARS:
        if names and bar.name not in names:
            continue
        data = two_classes(bar.name)
        repeats = 10 if data[0].nnz < 1e6 else 5
        preparation = Preparation("auto", data[0].shape[1])
        train, test = as_matrix(data[0]), as_matrix(data[2])
        preparation.add(train)
        preparation = preparation.settled()
        X, X_test = (narrow(preparation.applied(part)) for part in (train, test))
        rival = l1_of_size(X, data[1], bar.k)
        rival_error = 100.0 * np.mean(rival.predict(X_test) != data[3])
        size = np.count_nonzero(rival.coef_)
        name = f"{bar.name}, prepared by {preparation.kind}"
        print(f"{name}: L1 logistic regression, {size} features: {rival_error:.2f}%", flush=True)
        for loss in ("hinge", "logistic"):
            model = StableSparseClassifier(bar.k, loss=loss)
            start = time.process_time()
            error, kappa, jaccard, chosen = runs(model, data, repeats)
            seconds = (time.process_time() - start) / repeats
            wanted = getattr(bar, loss)
            holds = [bool(np.all(np.sum(chosen, axis=1) == min(bar.k, data[0].shape[1])))]
            holds += [bar.name == "arcene" or error <= rival_error + 1.0]
            if wanted:
                holds += [error <= wanted[0], kappa >= wanted[1]]
            other = runs(model, data, repeats, 0.8)[1]
            holds += [bar.subsample is None or other >= bar.subsample]
            print(
                f"  STS {loss:8} k={bar.k}: error {error:.2f}%  kappa {kappa:.3f}  jaccard {jaccard:.3f}  80% samples: "
                f"kappa {other:.3f}  {seconds:.2f} s of CPU  bar {wanted or '-'}  {verdict(*holds)}",
                flush=True,
            )


def paper(_: list[str]) -> None:
    """Stabilized truncated SGD on Dexter against the figures measured for the corrected algorithm."""
    data = two_classes("dexter")
    for loss, error_bar, share_bar in (("hinge", 7.33, 6.0), ("logistic", 6.6, 33.9)):
        model = StableSparseClassifier(loss=loss, method="paper", fit_intercept=False)
        error, kappa, _, chosen = runs(model, data, 10)
        share = 100.0 * np.mean(chosen)
        holds = verdict(abs(error - error_bar) <= 1.0, abs(share - share_bar) <= 1.5) if loss == "hinge" else "no bar"
        print(f"paper, {loss}: error {error:.2f}%  features {share:.2f}%  kappa {kappa:.3f}  {holds}", flush=True)


TRUE = 373


class Text(NamedTuple):
    """Text-like rows: how frequencies fall, how many of the most frequent features are in question, how many of the
    relevant are to be found."""

    name: str
    exponent: float
    shift: float
    among: int
    found: float


TEXTS = (
    # as many features occur as in the rows on which STS was first measured, and that first code finds as many of the
    # relevant here as there: 249,000 (248,504), 277 to 282 (280)
    Text("frequencies ~ rank^-3/4", 0.75, 1.0, 1000, 265),
    # harder: the same code finds 255 to 258; no bar, and none was ever measured on it
    Text("frequencies ~ 1 / rank", 1.0, 10.0, 2000, 0.0),
)


def generated_set(text: Text) -> tuple[Any, np.ndarray, Any, np.ndarray, np.ndarray]:
    """50,000 rows of 39 of 2^18 features; TRUE of the most frequent are relevant, with normal weights whose size makes
    the Bayes error 30%; 20,000 more to test on; and which are relevant."""
    rng, n, d = np.random.default_rng(0), 50_000, 2**18
    X = zipf_rows(n + 20_000, d, 39, rng, text.exponent, text.shift)
    relevant = rng.choice(text.among, TRUE, replace=False)
    truth = np.zeros(d)
    truth[relevant] = rng.standard_normal(TRUE)
    margins = X @ truth
    scale = brentq(lambda scale: bayes(scale * margins[n:]) - 0.3, 0.1, 100.0, rtol=1e-6)
    margins, truth = scale * margins, scale * truth
    p = 1.0 / (1.0 + np.exp(-margins))
    occurring = len(np.unique(X[:n].indices))
    print(f"{text.name}: {occurring:,} features occur, Bayes error {100.0 * bayes(margins[n:]):.2f}%")
    for among in (d, text.among):
        print(f"an oracle, with {among} features in question, finds {oracle(X[:n], truth, p[:n], among, scale):.0f}")
    y = np.where(rng.random(len(p)) < p, 1, -1)
    return X[:n], y[:n], X[n:], y[n:], relevant


def bayes(margins: np.ndarray) -> float:
    """The least possible error where these are the log odds."""
    return float(np.mean(1.0 / (1.0 + np.exp(np.abs(margins)))))


def oracle(X: Any, truth: np.ndarray, p: np.ndarray, among: int, scale: float) -> float:
    """How many relevant features are among the first TRUE by the odds of being so, for someone who has the weights with
    the noise of an efficient estimate and knows their prior and that only the first ``among`` are in question."""
    information = np.asarray(X.multiply(X).T @ (p * (1.0 - p))).ravel()[:among]
    spread, found = information * scale**2, []
    for trial in range(5):
        z = truth[:among] * np.sqrt(information) + np.random.default_rng(trial).standard_normal(among)
        odds = 0.5 * np.square(z) * spread / (1.0 + spread) - 0.5 * np.log1p(spread)
        first = np.argsort(np.where(information > 0.0, -odds, np.inf), kind="stable")[:TRUE]
        found.append(np.count_nonzero(truth[first]))
    return float(np.mean(found))


def generated(_: list[str]) -> None:
    """Shuffles of text-like sets: STS in a few passes, in one read with bounded memory, and scikit-learn."""
    for text in TEXTS:
        on_text(text)


def on_text(text: Text) -> None:
    """One of them."""
    X, y, X_test, y_test, relevant = generated_set(text)
    orders = [np.random.default_rng(r).permutation(len(y)) for r in range(4)]

    def show(name: str, fit: Any, bar: float | None = None, most: float = 100.0, found: float = 0.0) -> float:
        start = time.process_time()
        models = [fit(X[order], y[order], r) for r, order in enumerate(orders)]
        chosen = [model.coef_.ravel() != 0.0 for model in models]
        seconds = (time.process_time() - start) / len(orders)
        error = 100.0 * float(np.mean([np.mean(model.predict(X_test) != y_test) for model in models]))
        jaccard = metrics.pairwise(chosen, metrics.jaccard)
        size, hits = np.mean([mask.sum() for mask in chosen]), np.mean([mask[relevant].sum() for mask in chosen])
        says = "" if bar is None else verdict(jaccard >= bar, error <= most, hits >= found)
        print(
            f"{name:46} features {size:5.0f}  true {hits:4.0f}  Jaccard {jaccard:.3f}  error {error:.2f}%  "
            f"{seconds:.1f} s of CPU  {says}",
            flush=True,
        )
        return error

    least = 100.0
    for alpha in (1e-5, 1e-4, 2e-4, 3e-4, 5e-4):
        sgd = SGDClassifier(loss="log_loss", penalty="l1", alpha=alpha, max_iter=1, tol=None, shuffle=False)
        error = show(f"scikit-learn SGD, one epoch, alpha {alpha:g}", lambda X, y, r, m=sgd: clone(m).fit(X, y))
        least = min(least, error)

    def staged(X: Any, y: np.ndarray, r: int, **parameters: Any) -> StableSparseClassifier:
        return StableSparseClassifier(TRUE, random_state=r, **parameters).fit(X, y)

    def one_read(X: Any, y: np.ndarray, r: int, memory: int) -> StableSparseClassifier:
        model = StableSparseClassifier(TRUE, random_state=r, method=STS(memory=memory))
        for first in range(0, len(y), 5000):
            model.partial_fit(X[first : first + 5000], y[first : first + 5000])
        return model

    for loss in ("hinge", "logistic"):
        show(f"STS {loss}", functools.partial(staged, loss=loss), 0.75, least, text.found)
    for memory in (1_000_000, 500_000, 250_000):
        show(f"STS, one read, {memory:,} nonzeros kept", functools.partial(one_read, memory=memory), 0.35, least)
    single = STS(passes=1, keep=1e-9)
    show("STS, one pass, one purge, one pass on the rest", functools.partial(staged, method=single), 0.35, least)


def speed(_: list[str]) -> None:
    """Whole fits over their first stages, imdb, and two threads over one."""
    for name, k in (("imdb", 500), ("amazon-reviews", 500), ("rcv1-small", 406)):
        X, y, *_rest = two_classes(name)
        model = StableSparseClassifier(k, random_state=0)
        model.fit(X, y)  # compiled
        ratios = []
        for _ in range(9):
            start = time.process_time()
            model.fit(X, y)
            ratios.append((time.process_time() - start, first_stage(X, y, model)[0]))
        whole, stage = np.min(ratios, axis=0)
        ratio = whole / stage
        print(
            f"{name}: a fit {whole:.2f} s of CPU, {ratio:.2f} times its first stage  "
            f"{verdict(ratio <= 3.0, name != 'imdb' or whole <= 12.0)}",
            flush=True,
        )
    X, y, *_rest = two_classes("imdb")
    walls: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(15):
        for threads in walls:
            model = StableSparseClassifier(500, random_state=0)
            walls[threads].append(first_stage(X, y, model, threads)[1])
    print(
        f"two threads: {min(walls[1]) / min(walls[2]):.2f} times as fast on the paths  "
        f"{verdict(min(walls[1]) >= 1.6 * min(walls[2]))}",
        flush=True,
    )


def first_stage(X: Any, y: np.ndarray, model: StableSparseClassifier, threads: int = 1) -> tuple[float, float]:
    """Seconds of CPU and of the clock that the first stage takes, rows being prepared."""
    model._begin()
    model.n_features_in_ = X.shape[1]
    model._new_classes(y, None)
    model._add(as_matrix(X), *model._coded(y, np.ones(len(y))), room=np.inf)
    kept = model.fit_state.kept.settled()
    examples, columns = model._examples(kept).only(kept.columns), kept.columns
    plan = Plan(model.loss_record(), STS(), 0, True)
    with Threads(threads) as pool:
        cpu, wall = time.process_time(), time.perf_counter()
        run_stage(examples, columns, int(0.6 * len(columns)), 0, plan, pool)
        return time.process_time() - cpu, time.perf_counter() - wall


if __name__ == "__main__":
    wanted = sys.argv[1:2] or ["paper", "real", "generated", "speed"]
    with datasets.ends_if_missing():
        for each in wanted:
            {"real": real, "paper": paper, "generated": generated, "speed": speed}[each](sys.argv[2:])
