"""Losses with kinks against their exact optima: one pass, and the certified optimum.  ``make bench-optimum``

The parts are

- ``conversion``: hinge loss after one pass with the defaults, on the 20 problems of two classes of ``sparsco bench``;
- ``quantile``: the same for absolute and quantile regression, on two real and four generated sets;
- ``polish``: the seconds to a given distance from the optimum, beside HiGHS (hinge) and scikit-learn's saga (softmax).

An optimum is that of a linear program (HiGHS) in the dual variables.  It begins with some columns, and those whose
condition is violated are added until none is.  The gap between its two sides is checked here, in NumPy, over all
columns.  Smooth losses are solved by ``polish=1e-8``.  Figures are kept in a JSON file, so that a run can be stopped
and resumed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog, minimize
from scipy.sparse import csr_matrix, hstack, identity, vstack
from scipy.special import entr, logsumexp, softmax
from sklearn.linear_model import LogisticRegression

from sparsco import SparseClassifier, SparseRegressor, datasets, losses, metrics
from sparsco.bench.sets import reference_rows
from sparsco.datasets.generators import zipf_rows
from sparsco.problem.pilot import best_intercept

FRACTIONS = {
    "imdb": (0.005, 0.003),
    "a9a": (0.18, 0.04),
    "w8a": (0.67, 0.28),
    "rcv1s": (0.2, 0.09),
    "sms": (0.02, 0.004),
    "mnist23": (0.67, 0.027),
    "amazon": (0.03, 0.009),
    "news_bi": (0.0036, 0.0022),
    "mushrooms": (0.4, 0.004),
    "news20": (0.0055, 0.0033),
}
"""The strengths of the sets of two classes, as fractions of the one that selects nothing."""
REGRESSIONS = ("imdb_rating", "cpusmall", "low noise", "heavy tails", "uneven noise", "few rows")
REGRESSION_FRACTIONS = (0.1, 0.02)
SMOOTH = {"hinge": ("squared-hinge", "logistic"), "quantile": ("squared", "huber")}
"""The losses with a curvature that a loss with kinks is compared with."""
FACTOR, SLACK, MOST = 1.5, 0.01, 0.10
"""The bar: a gap of FACTOR times that of a smooth loss + SLACK, and of MOST on every problem."""
FEATURES = 0.2
"""The bar: the number of features differs from the optimum's by at most this share."""
LIMIT = 900.0
"""The most seconds of all linear programs of a problem."""


class Rows(NamedTuple):
    """The rows of a problem; labels are -1 and 1, or numbers."""

    X: csr_matrix
    y: np.ndarray


class Kink(NamedTuple):
    """A loss with kinks, as the largest sum of c_i r_i with low <= c_i <= high: c_i is minus the slope of row i."""

    name: str
    loss: Any
    low: np.ndarray
    high: np.ndarray
    gain: np.ndarray


# --- sets -------------------------------------------------------------------------------------------------------------


@lru_cache(1)
def classes(name: str) -> Rows:
    """Return the rows of a set of two classes."""
    X, y, _, _ = reference_rows(name)
    return Rows(csr_matrix(X), np.where(y > 0.0, 1.0, -1.0))


@lru_cache(1)
def regression(name: str) -> Rows:
    """Return the rows of a regression; the columns of cpusmall get unit variance."""
    if name == "imdb_rating":
        return Rows(*datasets.load("imdb-rating", "train"))
    if name == "cpusmall":
        X, y = datasets.load(name)
        X = X.toarray()
        order = np.random.default_rng(0).permutation(len(y))
        return Rows(csr_matrix((X - X.mean(0)) / X.std(0))[order], y[order])
    rng = np.random.default_rng(2)
    if name == "few rows":
        X = csr_matrix(rng.standard_normal((300, 3000)))
    elif name == "uneven noise":
        X = zipf_rows(6000, 5000, 40, rng)
    else:
        X = csr_matrix(rng.standard_normal((4000, 300)))
    d = X.shape[1]
    w = np.zeros(d)
    w[rng.permutation(min(d, 300))[:15]] = rng.standard_normal(15)
    signal = X @ w
    noise = {
        "low noise": lambda n: 0.1 * rng.standard_normal(n),
        "heavy tails": lambda n: 0.5 * rng.standard_t(1.5, n),
        "uneven noise": lambda n: (0.1 + np.abs(signal) / signal.std()) * rng.standard_normal(n),
        "few rows": lambda n: 0.3 * rng.standard_normal(n),
    }[name](len(signal))
    return Rows(X, signal + signal.std() * noise)


def kink_of(loss: str, y: np.ndarray) -> Kink:
    """Return a loss with kinks by its name, "hinge" or "quantile 0.9"."""
    if loss == "hinge":
        return Kink(loss, losses.Hinge(), np.minimum(y, 0.0), np.maximum(y, 0.0), y)
    q = float(loss.removeprefix("quantile "))
    return Kink(loss, losses.Quantile(q), np.full(len(y), q - 1.0), np.full(len(y), q), y)


def largest_strength(X: csr_matrix, y: np.ndarray, loss: str) -> float:
    """Return a strength at which no feature is selected; rows at a kink share what balances the other slopes."""
    if loss == "hinge":  # the constant model is the label of the larger class, whose rows are at the kink
        few = min(np.mean(y > 0.0), np.mean(y < 0.0))
        c = (y - y.mean()) / (2.0 * (1.0 - few))
    elif loss.startswith("quantile"):
        q = float(loss.removeprefix("quantile "))
        b = np.quantile(y, q, method="inverted_cdf")
        c, kink = np.where(y > b, q, q - 1.0), y == b
        c[kink] = 0.0
        c[kink] = -c.sum() / kink.sum()
    else:
        part = (losses.CLASSIFIER_LOSSES | losses.REGRESSOR_LOSSES)[loss]
        c = losses.derivative(part, np.full(len(y), best_intercept(part, y, np.ones(len(y)))), y)
    return float(np.abs(X.T @ c).max()) / len(y)


# --- optima -----------------------------------------------------------------------------------------------------------


class Optimum(NamedTuple):
    """The objective of the best model known, a lower bound on all objectives, features and seconds."""

    objective: float
    bound: float
    features: int
    seconds: float
    rounds: int

    @property
    def gap(self) -> float:
        return (self.objective - self.bound) / self.objective


def bound_of(X: csr_matrix, kink: Kink, c: np.ndarray, lam: float) -> float:
    """Return the dual objective of c, made feasible: it is at most the objective of every model."""
    c = np.clip(c, kink.low, kink.high)
    up, down = np.maximum(c, 0.0), np.maximum(-c, 0.0)
    up, down = up * min(1.0, down.sum() / max(up.sum(), 1e-300)), down * min(1.0, up.sum() / max(down.sum(), 1e-300))
    c = up - down  # the slopes of the intercept balance
    steepest = float(np.abs(X.T @ c).max()) / len(c)
    return float(c @ kink.gain) / len(c) * min(1.0, lam / max(steepest, 1e-300))


def objective_of(X: csr_matrix, kink: Kink, w: np.ndarray, b: float, lam: float) -> float:
    """Return the mean loss plus lam times the L1 norm; a loss is the largest c_i (r_i - p_i) of any slope."""
    slack = kink.gain - (X @ w + b)
    return float(np.maximum(kink.low * slack, kink.high * slack).mean() + lam * np.abs(w).sum())


def linear_program(X: csr_matrix, kink: Kink, lam: float, columns: np.ndarray, limit: float = LIMIT) -> Optimum:
    """Return the optimum by linear programs in the dual variables, beginning with these columns.

    The largest mean of c_i r_i has |sum_i c_i x_ij| <= n lam for the columns, and sum_i c_i = 0.  Its multipliers are
    the weights and the intercept.
    """
    n, d = X.shape
    begun, by_column = time.perf_counter(), X.tocsc()
    limits = np.column_stack([kink.low, kink.high])
    best, bound, features, rounds = np.inf, -np.inf, 0, 0
    while True:
        Z, k = by_column[:, columns].T.tocsr(), len(columns)
        left = limit - (time.perf_counter() - begun)
        found = linprog(
            -kink.gain / n,
            A_ub=vstack([Z, -Z], format="csr"),
            b_ub=np.full(2 * k, n * lam),
            A_eq=np.ones((1, n)),
            b_eq=np.zeros(1),
            bounds=limits,
            method="highs",
            options={"time_limit": max(left, 1.0), "dual_feasibility_tolerance": 1e-9},
        )
        rounds += 1
        if found.x is None or found.ineqlin is None or found.ineqlin.marginals is None:
            break
        multipliers = -n * found.ineqlin.marginals
        w = np.zeros(d)
        w[columns] = multipliers[:k] - multipliers[k:]
        b = float(-n * found.eqlin.marginals[0])
        reached = objective_of(X, kink, w, b, lam)
        if reached < best:
            best, features = reached, int(np.count_nonzero(np.abs(w) > 1e-9 * np.abs(w).max(initial=0.0)))
        slopes = np.abs(X.T @ found.x)
        bound = max(bound, bound_of(X, kink, found.x, lam))
        wrong = slopes > n * lam * (1.0 + 1e-7)
        wrong[columns] = False
        if not wrong.any() or best - bound <= 1e-7 * best or time.perf_counter() - begun > limit:
            break
        worst = np.argsort(np.where(wrong, -slopes, 0.0))[: max(200, k // 2)]
        columns = np.union1d(columns, worst[wrong[worst]])
    return Optimum(best, bound, features, time.perf_counter() - begun, rounds)


def smooth_optimum(rows: Rows, loss: str, lam: float) -> Optimum:
    """Return the optimum of a smooth loss by ``polish``."""
    begun = time.perf_counter()
    model = estimator(loss, lam, polish=1e-8).fit(*rows)
    gap = model.report_["converted"][0]["polish"]["duality_gaps"][0]
    objective = total(model, rows, loss, lam)
    seconds = time.perf_counter() - begun
    return Optimum(objective, objective - gap, int(np.count_nonzero(model.coef_)), seconds, 1)


# --- fits -------------------------------------------------------------------------------------------------------------


def estimator(loss: str, lam: float, **given: Any) -> Any:
    """Return our estimator of a loss with the defaults."""
    if loss in ("hinge", "squared-hinge", "logistic"):
        return SparseClassifier(loss, alpha=lam, random_state=0, **given)
    part = losses.Quantile(float(loss.removeprefix("quantile "))) if loss.startswith("quantile") else loss
    return SparseRegressor(part, alpha=lam, random_state=0, **given)


def total(model: Any, rows: Rows, loss: str, lam: float) -> float:
    """Return the objective of a fitted model."""
    w, b = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
    if loss == "hinge" or loss.startswith("quantile"):
        return objective_of(rows.X, kink_of(loss, rows.y), w, b, lam)
    return float(metrics.objective(rows.X, rows.y, w, b, loss=loss, lam=lam))


def one_pass(rows: Rows, loss: str, lam: float) -> dict[str, Any]:
    """Return the figures of one pass with the defaults."""
    few = np.r_[np.flatnonzero(rows.y > np.median(rows.y))[:150], np.flatnonzero(rows.y <= np.median(rows.y))[:150]]
    if loss in ("hinge", "squared-hinge", "logistic"):
        few = np.r_[np.flatnonzero(rows.y > 0.0)[:150], np.flatnonzero(rows.y < 0.0)[:150]]
    estimator(loss, lam, max_iter=1).fit(rows.X[few], rows.y[few])  # what is compiled is not measured
    begun = time.process_time()
    model = estimator(loss, lam, max_iter=1).fit(*rows)
    chosen = model.report_["converted"][0]["chosen"][0]["metric"]
    seconds = time.process_time() - begun
    reached = total(model, rows, loss, lam)
    return {
        "objective": reached,
        "features": int(np.count_nonzero(model.coef_)),
        "support": np.flatnonzero(np.ravel(model.coef_)).tolist(),
        "seconds": seconds,
        "chosen": chosen,
    }


# --- the parts --------------------------------------------------------------------------------------------------------


class Store:
    """Figures by name in a JSON file, computed where they are missing."""

    def __init__(self, path: Path, again: list[str]) -> None:
        self.path = path
        known = json.loads(path.read_text()) if path.exists() else {}
        self.found = {key: cell for key, cell in known.items() if not any(each in key for each in again)}

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return the figure of a name."""
        if key not in self.found:
            self.found[key] = compute()
            shown = {k: v for k, v in self.found[key].items() if k != "support"}
            print(key, shown, file=sys.stderr, flush=True)
            kept = {name: cell for name, cell in self.found.items() if "refused" not in str(cell.get("found", ""))}
            self.path.write_text(json.dumps(kept, indent=0))
        return self.found[key]


def one_pass_cells(store: Store, name: str, loss: str, fraction: float, read: Callable[[str], Rows]) -> list[Any]:
    """Return gap, features, optimum and seconds of a loss with kinks, and the gaps of smooth losses."""
    at = f"{name}|{fraction:g}"
    key = f"one pass|{at}|{loss}"

    def strength(loss: str) -> float:
        return fraction * largest_strength(*read(name), loss)

    fit = store.get(key, lambda: one_pass(read(name), loss, strength(loss)))

    def solve() -> dict[str, Any]:
        rows = read(name)
        X, kink, lam = rows.X, kink_of(loss, rows.y), strength(loss)
        c = kink.gain - kink.gain.mean()
        first = np.argsort(-np.abs(X.T @ c))[:200]
        return linear_program(X, kink, lam, np.union1d(first, np.array(fit["support"], np.int64)))._asdict()

    optimum = Optimum(**store.get(f"optimum|{at}|{loss}", solve))
    gaps = []
    for other in SMOOTH[loss.split()[0]]:
        own = store.get(f"one pass|{at}|{other}", lambda other=other: one_pass(read(name), other, strength(other)))
        least = Optimum(
            **store.get(
                f"optimum|{at}|{other}",
                lambda other=other: smooth_optimum(read(name), other, strength(other))._asdict(),
            )
        )
        gaps.append((own["objective"] - least.objective) / least.objective)
    best = min(optimum.objective, fit["objective"])
    return [name, loss, fraction, (fit["objective"] - best) / best, gaps, fit, optimum, (best - optimum.bound) / best]


def one_pass_table(cells: list[list[Any]], smooth: tuple[str, ...]) -> str:
    """Return the table in Markdown and the sentences about the bar."""
    head = ["set", "loss", "of lam_max", "gap", *(f"gap of {each}" for each in smooth)]
    head += ["features / optimum's", "seconds", "seconds of the LP", "optimum known to", "chosen"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    within = bound = sized = 0
    for name, loss, fraction, gap, gaps, fit, optimum, known in cells:
        within += gap <= FACTOR * max(gaps) + SLACK
        bound += gap <= MOST
        sized += abs(fit["features"] - optimum.features) <= FEATURES * optimum.features
        figures = [f"{100.0 * each:.2f}%" for each in (gap, *gaps)]
        figures += [f"{fit['features']} / {optimum.features}", f"{fit['seconds']:.2f}", f"{optimum.seconds:.1f}"]
        lines.append("| " + " | ".join([name, loss, f"{fraction:g}", *figures, f"{known:.0e}", fit["chosen"]]) + " |")
    lines += [
        "",
        f"Gap at most {FACTOR:g} times the larger smooth one + {100 * SLACK:g}%: {within} of {len(cells)}.",
        f"Gap at most {100 * MOST:g}%: {bound} of {len(cells)}.",
        f"Features within {100 * FEATURES:g}% of the optimum's: {sized} of {len(cells)}.",
    ]
    return "\n".join(lines)


def conversion(store: Store, sets: list[str]) -> str:
    """Return the table of hinge loss after one pass."""
    problems = [(name, each) for name, pair in FRACTIONS.items() if not sets or name in sets for each in pair]
    cells = [one_pass_cells(store, name, "hinge", fraction, classes) for name, fraction in problems]
    return one_pass_table(cells, SMOOTH["hinge"])


def quantile(store: Store, sets: list[str]) -> str:
    """Return the table of absolute and quantile regression after one pass."""

    def problems() -> Iterator[tuple[str, str, float]]:
        for name in REGRESSIONS:
            if not sets or name in sets:
                yield from ((name, f"quantile {q}", each) for q in (0.5, 0.9) for each in REGRESSION_FRACTIONS)

    return one_pass_table([one_pass_cells(store, *each, regression) for each in problems()], SMOOTH["quantile"])


# --- the certified optimum --------------------------------------------------------------------------------------------


class Reached(NamedTuple):
    """What a solver reached: its objective after so many CPU seconds."""

    objective: float
    seconds: float


def timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result and the CPU seconds of a fit."""
    begun = time.process_time()
    return fit(), time.process_time() - begun


def ladder(fit: Callable[[float], Any], steps: tuple[float, ...], objective: Callable[[Any], float]) -> Any:
    """Return what a solver reached at each step, from loose to strict, until one took too long.

    The result is a sentence if the solver refuses the problem.
    """
    found = []
    for step in steps:
        try:
            model, seconds = timed(lambda step=step: fit(step))
        except ValueError as error:
            return f"refused: {error}"
        found.append(Reached(objective(model), seconds))
        if 4.0 * seconds > LADDER_LIMIT:  # the next step may take several times as long
            break
    return found


def polished(rows: Rows, loss: str, lam: float, objective: Callable[[Any], float]) -> Any:
    """Return what our certified optimum reached at several tolerances."""
    given = {"alpha": lam, "random_state": 0}
    few = slice(0, len(rows.y), max(len(rows.y) // 300, 1))
    with suppress(ValueError):  # what is compiled is not measured
        SparseClassifier(loss, polish=TOLERANCES[0], **given).fit(rows.X[few], rows.y[few])
    return ladder(lambda tol: SparseClassifier(loss, polish=tol, **given).fit(*rows), TOLERANCES, objective)


def whole_program(rows: Rows, lam: float, method: str) -> Any:
    """Return what HiGHS reached with all rows and columns at once: weights, an intercept and the loss of each row."""
    X, y = rows
    n, d = X.shape
    signed = csr_matrix(X.multiply(y[:, None]))
    cost = np.r_[np.full(2 * d, lam), 0.0, np.full(n, 1.0 / n)]
    A = hstack([-signed, signed, csr_matrix(-y[:, None]), -identity(n)], format="csr")
    limits = np.column_stack([np.r_[np.zeros(2 * d), -np.inf, np.zeros(n)], np.full(2 * d + 1 + n, np.inf)])
    options = {"time_limit": LADDER_LIMIT}
    found, seconds = timed(lambda: linprog(cost, A, -np.ones(n), bounds=limits, method=method, options=options))
    if found.x is None or found.status == 1:
        return f"not after {LADDER_LIMIT:g} s"
    return [
        Reached(objective_of(X, kink_of("hinge", y), found.x[:d] - found.x[d : 2 * d], found.x[2 * d], lam), seconds)
    ]


@lru_cache(1)
def several_classes(name: str) -> Rows:
    """Return the rows of a set of several classes; labels are whole numbers from 0 on."""
    rng = np.random.default_rng(0)
    if name == "generated, 3 classes":
        X, n = rng.standard_normal((1500, 4)), 1500
        y = (X @ rng.standard_normal((4, 3)) + 0.5 * rng.standard_normal((n, 3))).argmax(1)
        return Rows(csr_matrix(X), y)
    source, size, scale = CLASSES[name]
    X, y = datasets.load(source, "train")
    some = rng.permutation(len(y))[:size]
    X = csr_matrix(X[some] / scale)
    if name == "covtype":
        X = csr_matrix(X.multiply(1.0 / np.maximum(abs(X).max(0).toarray(), 1e-300)))
    return Rows(X, np.unique(y[some], return_inverse=True)[1])


CLASSES = {"mnist": ("mnist", 5000, 255.0), "20news": ("20news-bow", 3000, 1.0), "covtype": ("covtype20k", 20_000, 1.0)}
"""The sets of several classes: where they come from, how many rows are taken, and what they are divided by."""
SOFTMAX_SETS = ("generated, 3 classes", *CLASSES)
SOFTMAX_FRACTIONS = (0.1, 0.01)


def softmax_total(rows: Rows, W: np.ndarray, b: np.ndarray, lam: float) -> float:
    """Return the mean multinomial loss plus lam times the L1 norm."""
    P = rows.X @ W.T + b
    return float((logsumexp(P, axis=1) - P[np.arange(len(rows.y)), rows.y]).mean() + lam * np.abs(W).sum())


def softmax_bound(rows: Rows, W: np.ndarray, b: np.ndarray, lam: float) -> float:
    """Return the dual objective at the probabilities of a model: a bound on all objectives.

    The intercepts are made optimal first, so that the slopes of each class sum up to zero.
    """
    X, y = rows
    Y, M = np.eye(b.size)[y], X @ W.T

    def mean(b: np.ndarray) -> tuple[float, np.ndarray]:
        P = M + b
        return float((logsumexp(P, axis=1) - P[np.arange(len(y)), y]).mean()), (softmax(P, axis=1) - Y).mean(0)

    b = minimize(mean, b, jac=True, method="L-BFGS-B", options={"ftol": 1e-16, "gtol": 1e-12, "maxiter": 500}).x
    P = softmax(M + b, axis=1)
    steepest = float(np.abs(X.T @ (P - Y)).max()) / len(y)
    P = Y + (P - Y) * min(1.0, lam / max(steepest, 1e-300))
    return float(entr(P).sum(1).mean())


def saga(rows: Rows, lam: float, objective: Callable[[Any], float]) -> Any:
    """Return what scikit-learn's saga reached after several numbers of passes."""
    C = 1.0 / (len(rows.y) * lam)

    def fit(passes: float) -> Any:
        model = LogisticRegression(l1_ratio=1.0, solver="saga", C=C, tol=0.0, max_iter=int(passes), random_state=0)
        return model.fit(*rows)

    return ladder(fit, (5, 20, 100, 500, 2000, 10_000), objective)


def shown(found: Any, least: float) -> list[str]:
    """Return the CPU seconds to each level, "-" where it was not reached."""
    if isinstance(found, str):
        return [found.partition(":")[0]] * len(LEVELS)
    cells = []
    for level in LEVELS:
        enough = [seconds for total, seconds in found if total <= least * (1.0 + level)]
        cells.append(f"{min(enough):.3f}" if enough else "-")
    return cells


LEVELS = (1e-2, 1e-3, 1e-6)
TOLERANCES = (10.0, 3.0, 1.0, 0.3, 1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8)
LADDER_LIMIT = 120.0
"""The CPU seconds that a solver may take; a quarter of them is the most before a stricter setting is tried."""


def _rows_of_table(name: str, loss: str, fraction: float, methods: dict[str, Any], least: float, known: float) -> Any:
    for method, found in methods.items():
        times = " | ".join(shown(found, least))
        yield f"| {name} | {loss} | {fraction:g} | {method} | {times} | {known:.0e} |"


def hinge_problem(store: Store, name: str, fraction: float) -> Iterator[str]:
    """Yield the lines of a hinge problem."""
    at = f"polish|{name}|{fraction:g}|hinge"

    def solve(which: str) -> Any:
        rows = classes(name)
        lam = fraction * largest_strength(*rows, "hinge")
        if which == "polish":
            return {"found": polished(rows, "hinge", lam, lambda model: total(model, rows, "hinge", lam))}
        if which == "working set":
            first = np.argsort(-np.abs(rows.X.T @ (rows.y - rows.y.mean())))[:200]
            return {"optimum": linear_program(rows.X, kink_of("hinge", rows.y), lam, first)._asdict()}
        return {"found": whole_program(rows, lam, which)}

    programs = ("highs-ds", "highs-ipm")
    methods = {f"HiGHS, {each}": store.get(f"{at}|{each}", lambda each=each: solve(each))["found"] for each in programs}
    optimum = Optimum(**store.get(f"{at}|working set", lambda: solve("working set"))["optimum"])
    methods["HiGHS, working set"] = [(optimum.objective, optimum.seconds)]
    ours = store.get(f"{at}|polish", lambda: solve("polish"))["found"]
    yield from _rows_of_table(name, "hinge", fraction, {"polish": ours, **methods}, optimum.objective, optimum.gap)


def softmax_problem(store: Store, name: str, fraction: float) -> Iterator[str]:
    """Yield the lines of a softmax problem."""
    at = f"polish|{name}|{fraction:g}|softmax"

    def solve(which: str) -> dict[str, Any]:
        rows = several_classes(name)
        Y = np.eye(rows.y.max() + 1)[rows.y]
        lam = fraction * float(np.abs(rows.X.T @ (Y - Y.mean(0))).max()) / len(rows.y)
        bounds = [-np.inf]

        def objective(model: Any) -> float:
            bounds.append(softmax_bound(rows, model.coef_, model.intercept_, lam))
            return softmax_total(rows, model.coef_, model.intercept_, lam)

        found = saga(rows, lam, objective) if which == "saga" else polished(rows, "multinomial", lam, objective)
        return {"found": found, "bound": max(bounds)}

    cells = {each: store.get(f"{at}|{each}", lambda each=each: solve(each)) for each in ("polish", "saga")}
    totals = [each[0] for cell in cells.values() if not isinstance(cell["found"], str) for each in cell["found"]]
    least, bound = min(totals), max(cell["bound"] for cell in cells.values())
    methods = {each: cell["found"] for each, cell in cells.items()}
    yield from _rows_of_table(name, "softmax", fraction, methods, least, (least - bound) / least)


def polish(store: Store, sets: list[str]) -> str:
    """Return the table of the seconds to each distance from the optimum."""
    head = ["set", "loss", "of lam_max", "solver", *(f"seconds to {level:g}" for level in LEVELS), "optimum known to"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name in ("a9a", "w8a", "rcv1s", "sms", "mnist23", "mushrooms"):
        for fraction in FRACTIONS[name] if not sets or name in sets else ():
            lines += hinge_problem(store, name, fraction)
    for name in SOFTMAX_SETS:
        for fraction in SOFTMAX_FRACTIONS if not sets or name in sets else ():
            lines += softmax_problem(store, name, fraction)
    return "\n".join(lines)


PARTS = {"conversion": conversion, "quantile": quantile, "polish": polish}


def main() -> int:
    """Measure what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--json", type=Path, default=Path("optimum.json"), help="the file of all figures (%(default)s)")
    parser.add_argument("--sets", nargs="*", default=[], help="only these sets, such as a9a (default: all)")
    parser.add_argument("--again", nargs="*", default=[], help="measure figures with this in their name again")
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}: choose of {', '.join(PARTS)}")
    warnings.simplefilter("ignore")
    store = Store(options.json, options.again)
    for part in options.parts:
        print(f"## {part}\n\n{PARTS[part](store, options.sets)}\n", flush=True)
    return 0


if __name__ == "__main__":
    with datasets.ends_if_missing():
        sys.exit(main())
